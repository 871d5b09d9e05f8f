"""A roulette ball on the rim in compiled code, and what its wheel is in numbers: the equation of motion until it leaves.

It refuses to know what comes after.

On the rim a ball of radius b at speed v (counterclockwise) rolls on track and wall at once. With track slope s and an upright
wall the axis of its turning passes through both touching points: omega_z = -v/b and omega_r = -l v/b with
l = (1 - sin s)/cos s; so its kinetic energy is m v^2 (1 + 2/5 (1 + l^2))/2. Turning that axis round the circle of radius R
takes the torque b F, F = 2/5 m l v^2/R, from friction across the motion at both points. Their shares are alike, as of two
springs of one material, unless friction on the wall, W, cannot give its half: W = min(F/2, mu N). So the wall presses with
N = m (v^2/R - g tan s) + F/cos s - l W, the track with (m g - (F - W) sin s - W)/cos s, and the ball leaves where N vanishes.
For a ball that does not turn, F = 0, it is the v^2/R = g tan s of Eichberger (2004) and Small and Tse (2012, arXiv 1204.6412),
whose losses these are: rolling friction f (a torque f N against the turning) and air drag.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from simulators.compiled import jit
from simulators.devices.roulette import Roulette

DRAG = 0.47  # drag coefficient of a smooth sphere at Reynolds numbers 1e3 to 1e5 (ball at 2 m/s: 2e3)
AIR = 1.2  # kg/m^3


class Wheel(NamedTuple):
    """What the compiled loops need of a `Roulette`, in SI units."""

    pockets: int
    sin_slope: float
    cos_slope: float
    track: float
    wall: float
    wall_top: float
    seam: float
    outer: float
    inner: float
    floor: float
    fret_top: float
    fret: float
    sin_inner: float
    cos_inner: float
    turret: float
    deflector_at: float
    deflector_reach: float
    deflector: float
    ball: float
    restitution: float
    friction: float
    rolling: float
    slowing: float
    drag: float
    gx: float
    gy: float
    gz: float
    low: float
    high: float
    far: float

    @staticmethod
    def of(device: Roulette) -> Wheel:
        """Return the numbers of `device`."""
        b, bounds = device.ball_radius, device.world().bounds
        lean = 9.81 * math.sin(device.tilt)
        return Wheel(
            len(device.pockets), math.sin(device.slope), math.cos(device.slope), device.track_radius, device.wall_radius,
            device.cone(device.wall_radius) + device.wall_height, device.seam_radius, device.pocket_outer, device.pocket_inner,
            device.floor, device.floor + device.fret_height, device.fret_thickness / 2.0,
            math.sin(device.inner_slope), math.cos(device.inner_slope), device.turret_radius, device.deflector_radius,
            (device.deflector_length + device.deflector_width) / 2.0,
            device.deflector_width / 2.0, b, device.restitution, device.friction, device.rolling_friction,
            device.rotor_friction, 0.5 * DRAG * AIR * math.pi * b * b / device.mass,
            lean * math.cos(device.tilt_towards), lean * math.sin(device.tilt_towards), -9.81 * math.cos(device.tilt),
            bounds[0][2], bounds[1][2], bounds[1][0],
        )  # fmt: skip


@jit
def rotor_at(wheel, speed, time):
    """Return the rotor's angle [rad] and speed [rad/s] at `time` [s] from its speed at the release: constant friction."""
    t = min(time, abs(speed) / wheel.slowing)
    left = abs(speed) - wheel.slowing * t
    return math.copysign((abs(speed) + left) / 2.0 * t, speed), math.copysign(left, speed)


@jit
def _lean(wheel):
    """Return the inward part of the turning on the rim over the upright one."""
    return (1.0 - wheel.sin_slope) / wheel.cos_slope


@jit
def _pushes(wheel, azimuth, v):
    """Return the forces of wall (negative: it would have to pull) and track on the ball a kilogram [m/s^2] on the rim."""
    lean, sn, cs = _lean(wheel), wheel.sin_slope, wheel.cos_slope
    outward = wheel.gx * math.cos(azimuth) + wheel.gy * math.sin(azimuth) + v * v / wheel.track
    turning = 0.4 * lean * v * v / wheel.track
    smooth = outward + wheel.gz * sn / cs + turning / cs
    wall = max(smooth - 0.5 * lean * turning, smooth / (1.0 + wheel.friction * lean))
    on_wall = min(0.5 * turning, max(wheel.friction * wall, 0.0))
    return wall, (-wheel.gz - (turning - on_wall) * sn - on_wall) / cs


@jit
def wall_push(wheel, azimuth, v):
    """Return the wall's force on the ball a kilogram [m/s^2] on the rim; it leaves where this is no longer positive."""
    return _pushes(wheel, azimuth, v)[0]


@jit
def _slowing(wheel, azimuth, v):
    """Return the acceleration [m/s^2] along the rim, counterclockwise, of a ball at signed speed `v`."""
    turning2 = 1.0 + _lean(wheel) ** 2
    wall, track = _pushes(wheel, azimuth, v)
    push = max(wall, 0.0) + max(track, 0.0)
    along = wheel.gy * math.cos(azimuth) - wheel.gx * math.sin(azimuth)
    losses = wheel.rolling / wheel.ball * push * math.sqrt(turning2) + wheel.drag * v * v
    return (along - math.copysign(losses, v)) / (1.0 + 0.4 * turning2)


@jit
def rim_step(wheel, azimuth, v, h):
    """Advance a ball on the rim by `h` [s] with the classical Runge-Kutta rule: azimuth [rad], signed speed [m/s]."""
    a1 = _slowing(wheel, azimuth, v)
    v2 = v + 0.5 * h * a1
    a2 = _slowing(wheel, azimuth + 0.5 * h * v / wheel.track, v2)
    v3 = v + 0.5 * h * a2
    a3 = _slowing(wheel, azimuth + 0.5 * h * v2 / wheel.track, v3)
    v4 = v + h * a3
    a4 = _slowing(wheel, azimuth + h * v3 / wheel.track, v4)
    return azimuth + h * (v + 2.0 * v2 + 2.0 * v3 + v4) / (6.0 * wheel.track), v + h * (a1 + 2.0 * a2 + 2.0 * a3 + a4) / 6.0


@jit
def on_rim(wheel, start, azimuth, v, ball):
    """Write the 13 numbers of a ball on the rim, its attitude the closed form: a steady turn in axes that go round with it."""
    b, c, s = wheel.ball, math.cos(azimuth), math.sin(azimuth)
    lean = _lean(wheel)
    ball[0], ball[1] = wheel.track * c, wheel.track * s
    ball[2] = (wheel.track - wheel.seam) * wheel.sin_slope / wheel.cos_slope + b / wheel.cos_slope
    ball[7], ball[8], ball[9] = -v * s, v * c, 0.0
    ball[10], ball[11], ball[12] = -v / b * lean * c, -v / b * lean * s, -v / b
    path = wheel.track * (azimuth - start)
    ar, az = -lean / b, -1.0 / b - 1.0 / wheel.track  # turn a metre of path in those axes
    size = math.sqrt(ar * ar + az * az)
    sh, ch = math.sin(0.5 * size * path) / size, math.cos(0.5 * size * path)
    # Rz(azimuth) Rot(axis, path) Rz(-start)
    x, y, z, w = ar * sh * math.cos(-0.5 * start), -ar * sh * math.sin(-0.5 * start), az * sh, ch
    z, w = z * math.cos(-0.5 * start) + w * math.sin(-0.5 * start), w * math.cos(-0.5 * start) - z * math.sin(-0.5 * start)
    ca, sa = math.cos(0.5 * azimuth), math.sin(0.5 * azimuth)
    ball[3], ball[4], ball[5], ball[6] = ca * x - sa * y, ca * y + sa * x, ca * z + sa * w, ca * w - sa * z
