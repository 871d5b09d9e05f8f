"""Roulette in compiled code: the rim's equation of motion until the ball leaves the wall, then contacts until it is caught.

It refuses to know which pocket is wanted; `engines.compliant` is an independent check with other contacts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simulators.compiled import jit
from simulators.device import STUCK, UNDECIDED, Device, Launches, Rollouts
from simulators.devices.roulette import CAPTURED, Roulette
from simulators.engines.loop import READ_RATE
from simulators.kernels.frames import assemble, is_rest, set_up, still_since
from simulators.kernels.roulette_rim import Wheel, on_rim, rim_step, rotor_at, wall_push

BOUNCE = 0.02  # m/s: slower impacts do not rebound, else rounding at rest would bounce for ever
HELD = 0.3  # s: a ball this long in a pocket below `CAPTURED` stays there, its last creep not followed


@jit
def _touch(wheel, ball, nx, ny, nz, gap, spin):
    """Let the ball meet a surface `gap` [m] away along the unit normal, which turns about z at `spin` [rad/s].

    Impulses for a unit mass: Newton's restitution, Coulomb friction at the touching point (2/7 of the slip stops a solid
    ball's), and rolling friction against the turning. What has sunk in is set back.
    """
    if gap > 0.0:
        return
    b = wheel.ball
    ball[0] -= gap * nx
    ball[1] -= gap * ny
    ball[2] -= gap * nz
    ux, uy, uz = ball[7] + spin * (ball[1] - b * ny), ball[8] - spin * (ball[0] - b * nx), ball[9]
    normal = ux * nx + uy * ny + uz * nz
    if normal >= 0.0:
        return
    push = -normal * (1.0 + (wheel.restitution if -normal > BOUNCE else 0.0))
    wx, wy, wz = ball[10], ball[11], ball[12]
    # slip = tangential part of u + omega x (-b n)
    sx = ux - normal * nx - b * (wy * nz - wz * ny)
    sy = uy - normal * ny - b * (wz * nx - wx * nz)
    sz = uz - normal * nz - b * (wx * ny - wy * nx)
    slip = math.sqrt(sx * sx + sy * sy + sz * sz)
    share = 0.0
    if slip > 0.0:
        share = min(2.0 / 7.0, wheel.friction * push / slip)
    ball[7] += push * nx - share * sx
    ball[8] += push * ny - share * sy
    ball[9] += push * nz - share * sz
    k = 2.5 / b * share
    wx += k * (ny * sz - nz * sy)
    wy += k * (nz * sx - nx * sz)
    wz += k * (nx * sy - ny * sx)
    turning = math.sqrt(wx * wx + wy * wy + (wz - spin) * (wz - spin))
    if turning > 0.0:
        keep = 1.0 - min(1.0, 2.5 * wheel.rolling * push / (b * b) / turning)
        wx, wy, wz = wx * keep, wy * keep, spin + (wz - spin) * keep
    ball[10], ball[11], ball[12] = wx, wy, wz


@jit
def _contacts(wheel, deflectors, ball, angle, spin):
    """Let the ball meet everything that it touches: track, wall, deflectors, pocket, frets, turret."""
    b = wheel.ball
    r = math.sqrt(ball[0] * ball[0] + ball[1] * ball[1])
    ex, ey = ball[0] / r, ball[1] / r
    z = ball[2]
    cs, sn = wheel.cos_slope, wheel.sin_slope
    height = (z - (r - wheel.seam) * (sn / cs)) * cs  # above the cone, along its normal
    foot = r + height * sn
    if foot >= wheel.outer:
        if r < wheel.wall + b:
            _touch(wheel, ball, -sn * ex, -sn * ey, cs, height - b, spin if foot < wheel.seam else 0.0)
        if z < wheel.wall_top and wheel.wall - b < r < wheel.wall + b:
            _touch(wheel, ball, -ex, -ey, 0.0, wheel.wall - r - b, 0.0)
        if len(deflectors) and abs(r - wheel.deflector_at) < wheel.deflector_reach + b and height < b + wheel.deflector:
            _deflector(wheel, deflectors, ball)
        return
    # The edge between cone and pockets, and the wall below it
    edge = (wheel.outer - wheel.seam) * (sn / cs)
    dr, dz = wheel.outer - r, z - min(max(z, wheel.floor), edge)
    away = math.sqrt(dr * dr + dz * dz)
    if 0.0 < away < b:
        _touch(wheel, ball, -ex * dr / away, -ey * dr / away, dz / away, away - b, spin)
    _touch(wheel, ball, 0.0, 0.0, 1.0, z - wheel.floor - b, spin)
    ci, si = wheel.cos_inner, wheel.sin_inner
    _touch(wheel, ball, si * ex, si * ey, ci, ((z - wheel.floor) - (wheel.inner - r) * (si / ci)) * ci - b, spin)
    _touch(wheel, ball, ex, ey, 0.0, r - wheel.turret - b, spin)
    if z < wheel.fret_top + wheel.fret + b and r > wheel.inner - wheel.fret - b:
        step = 2.0 * math.pi / wheel.pockets
        nearest = math.floor((math.atan2(ball[1], ball[0]) - angle) / step)
        for k in range(2):  # the frets on both sides
            fret = angle + (nearest + k) * step
            fx, fy = math.cos(fret), math.sin(fret)
            out, side = ball[0] * fx + ball[1] * fy, ball[1] * fx - ball[0] * fy
            do = out - min(max(out, wheel.inner), wheel.outer)
            dz = z - min(max(z, wheel.floor), wheel.fret_top)
            away = math.sqrt(do * do + side * side + dz * dz)
            if 0.0 < away < wheel.fret + b:
                nx, ny = (do * fx - side * fy) / away, (do * fy + side * fx) / away
                _touch(wheel, ball, nx, ny, dz / away, away - wheel.fret - b, spin)


@jit
def _deflector(wheel, deflectors, ball):
    count = len(deflectors)
    turn = math.atan2(ball[1], ball[0]) / (2.0 * math.pi)
    k = math.floor((turn - math.floor(turn)) * count) % count  # half a spacing either side of the axis
    ax, ay, az = deflectors[k, 0]
    ux, uy, uz = deflectors[k, 1, 0] - ax, deflectors[k, 1, 1] - ay, deflectors[k, 1, 2] - az
    px, py, pz = ball[0] - ax, ball[1] - ay, ball[2] - az
    along = min(max((px * ux + py * uy + pz * uz) / (ux * ux + uy * uy + uz * uz), 0.0), 1.0)
    dx, dy, dz = px - along * ux, py - along * uy, pz - along * uz
    away = math.sqrt(dx * dx + dy * dy + dz * dz)
    if 0.0 < away < wheel.deflector + wheel.ball:
        _touch(wheel, ball, dx / away, dy / away, dz / away, away - wheel.deflector - wheel.ball, 0.0)


@jit
def turn_by(body, h):
    """Turn the attitude in body[3:7] by the angular velocity body[10:13] [rad/s, world axes] over `h` [s]."""
    x, y, z = 0.5 * h * body[10], 0.5 * h * body[11], 0.5 * h * body[12]
    c = 1.0 - 0.5 * (x * x + y * y + z * z)  # with the length set to 1 below: an error of half the angle cubed over 3
    qx, qy, qz, qw = body[3], body[4], body[5], body[6]
    body[3] = c * qx + x * qw + y * qz - z * qy
    body[4] = c * qy + y * qw + z * qx - x * qz
    body[5] = c * qz + z * qw + x * qy - y * qx
    body[6] = c * qw - x * qx - y * qy - z * qz
    size = math.sqrt(body[3] ** 2 + body[4] ** 2 + body[5] ** 2 + body[6] ** 2)
    size = 1.0 / size
    for k in range(3, 7):
        body[k] *= size


@jit
def _fly(wheel, deflectors, ball, angle, spin, h):
    """Advance a free ball by `h` [s]: gravity and drag, every contact, then the move (semi-implicit Euler)."""
    slow = 1.0 - wheel.drag * math.sqrt(ball[7] * ball[7] + ball[8] * ball[8] + ball[9] * ball[9]) * h
    ball[7], ball[8], ball[9] = ball[7] * slow + wheel.gx * h, ball[8] * slow + wheel.gy * h, ball[9] * slow + wheel.gz * h
    _contacts(wheel, deflectors, ball, angle, spin)
    ball[0] += h * ball[7]
    ball[1] += h * ball[8]
    ball[2] += h * ball[9]
    turn_by(ball, h)


@jit
def read_ball(wheel, bodies):
    """Return what `Roulette.read` returns of rotor and ball (2, 13)."""
    turn = 2.0 * np.arctan2(bodies[0, 5], bodies[0, 6])
    x, y, z, spin = bodies[1, 0], bodies[1, 1], bodies[1, 2], bodies[0, 12]
    across, along, up = bodies[1, 7] + spin * y, bodies[1, 8] - spin * x, bodies[1, 9]
    slow = np.sqrt(across**2 + along**2 + up**2) < CAPTURED
    still = np.sqrt(bodies[1, 7] ** 2 + bodies[1, 8] ** 2 + up**2) < CAPTURED
    radius = np.sqrt(x**2 + y**2)
    if z < wheel.fret_top and wheel.inner < radius < wheel.outer and slow:
        share = (np.arctan2(y, x) - turn) / (2.0 * np.pi)
        sector = math.floor((share - math.floor(share)) * wheel.pockets)
        return wheel.pockets - 1 - min(sector, wheel.pockets - 1)
    return STUCK if slow or still else UNDECIDED


@jit
def place_rotor(wheel, speed, time, body):
    """Write the rotor's 13 numbers at `time` [s]; return its angle and speed."""
    angle, spin = rotor_at(wheel, speed, time)
    body[5], body[6] = math.sin(0.5 * angle), math.cos(0.5 * angle)
    body[12] = spin
    return angle, spin


@jit
def carry(ball, turn, spin):
    """Turn a ball that a pocket holds about z by `turn` [rad]; it moves with the rotor at `spin` [rad/s]."""
    c, s = math.cos(turn), math.sin(turn)
    ball[0], ball[1] = c * ball[0] - s * ball[1], s * ball[0] + c * ball[1]
    c, s = math.cos(0.5 * turn), math.sin(0.5 * turn)
    x, y, z, w = ball[3], ball[4], ball[5], ball[6]
    ball[3], ball[4], ball[5], ball[6] = c * x - s * y, c * y + s * x, c * z + s * w, c * w - s * z
    ball[7], ball[8], ball[9] = -spin * ball[1], spin * ball[0], 0.0
    ball[10], ball[11], ball[12] = 0.0, 0.0, spin


@jit
def _run(
    wheel, deflectors, starts, rate, limit, reach, tolerance, times, code, first, strongest, settled, gone, end_time, end,
    frames, frame_count,
):  # fmt: skip
    """Run every row of `starts` (n, 2, 13), rotor and ball, to its end; fill the columns of `Columns`."""
    read_step, per_read = 1.0 / READ_RATE, rate // READ_RATE
    dt = 1.0 / rate
    bodies, ahead, held = np.empty((2, 13)), np.empty((2, 13)), np.empty((2, 7))
    for row in range(len(starts)):
        bodies[:] = starts[row]
        rotor, ball = bodies[0], bodies[1]
        speed = rotor[12]
        begin = azimuth = math.atan2(ball[1], ball[0])
        v = ball[8] * math.cos(azimuth) - ball[7] * math.sin(azimuth)
        rim, left, caught = wall_push(wheel, azimuth, v) > 0.0, 0.0, False
        since, in_pocket, frame, instant = math.nan, 0, 0, 0
        while instant < limit and not (settled[row] or gone[row]):
            t, target = instant * read_step, (instant + 1) * read_step
            angle, spin = rotor_at(wheel, speed, t)
            if rim:
                further, v_end = rim_step(wheel, azimuth, v, read_step)
                h = read_step
                if wall_push(wheel, further, v_end) <= 0.0:
                    early, late = 0.0, read_step
                    for _ in range(40):
                        h = 0.5 * (early + late)
                        further, v_end = rim_step(wheel, azimuth, v, h)
                        if wall_push(wheel, further, v_end) > 0.0:
                            early = h
                        else:
                            late = h
                    rim = False
                while frame < len(times) and times[frame] < t + h:
                    at, v_at = rim_step(wheel, azimuth, v, times[frame] - t)
                    ahead[:] = bodies
                    on_rim(wheel, begin, at, v_at, ahead[1])
                    place_rotor(wheel, speed, times[frame], ahead[0])
                    frames[row, frame] = ahead
                    frame += 1
                azimuth, v = further, v_end
                on_rim(wheel, begin, azimuth, v, ball)
                left = t + h
            if not rim and not caught:
                step = math.floor(max(left, t) * rate + 1e-9)
                now = max(left, t)
                while step < (instant + 1) * per_read:
                    after = (step + 1) * dt
                    while frame < len(times) and times[frame] < after:
                        ahead[:] = bodies
                        for k in range(3):
                            ahead[1, k] += (times[frame] - now) * ball[7 + k]
                        place_rotor(wheel, speed, times[frame], ahead[0])
                        frames[row, frame] = ahead
                        frame += 1
                    angle, spin = rotor_at(wheel, speed, now)
                    if after > now:
                        _fly(wheel, deflectors, ball, angle, spin, after - now)
                    now, step = after, step + 1
            elif caught:
                while frame < len(times) and times[frame] < target:
                    ahead[:] = bodies
                    turned, spin_at = place_rotor(wheel, speed, times[frame], ahead[0])
                    carry(ahead[1], turned - angle, spin_at)
                    frames[row, frame] = ahead
                    frame += 1
                turned, spin_at = rotor_at(wheel, speed, target)
                carry(ball, turned - angle, spin_at)
            instant += 1
            place_rotor(wheel, speed, target, rotor)
            code[row] = read_ball(wheel, bodies)
            if code[row] >= 0:
                in_pocket += 1
                caught = caught or in_pocket * read_step > HELD
                if first[row] < 0:
                    first[row] = code[row]
                strongest[row] = max(strongest[row], code[row])
            elif not caught:
                in_pocket = 0
            gone[row] = not (abs(ball[0]) <= wheel.far and abs(ball[1]) <= wheel.far and wheel.low <= ball[2] <= wheel.high)
            since = still_since(target, bodies, held, since, reach, tolerance)
            settled[row] = is_rest(target, since)
        end_time[row] = instant * read_step
        end[row] = bodies
        while frame < len(times) and times[frame] <= end_time[row]:
            frames[row, frame] = bodies
            frame += 1
        frame_count[row] = frame


@dataclass(frozen=True)
class RouletteKernel:
    """Roulette: on the rim its equation of motion, then `steps_per_second` of contacts; `unsettled` after `time_limit` [s]."""

    steps_per_second: int
    time_limit: float

    def __post_init__(self) -> None:
        if self.steps_per_second < 1200:
            raise ValueError(f"`steps_per_second` must be at least 1200, got {self.steps_per_second!r}")

    @property
    def name(self) -> str:
        """`roulette_kernel`."""
        return "roulette_kernel"

    @property
    def version(self) -> str:
        """Changes whenever an outcome could."""
        return "1"

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row; with `fps` record it. Raises `TypeError` for a device that is no `Roulette`."""
        if not isinstance(device, Roulette):
            raise TypeError(f"{self.name} integrates a Roulette, not a {type(device).__name__}")
        starts, reach, tolerance, times, columns = set_up(device, launches, fps, self.time_limit)
        _run(
            Wheel.of(device), device.deflector_ends(), starts, self.steps_per_second,
            round(self.time_limit * READ_RATE), reach, tolerance, times, *columns.filled(),
        )  # fmt: skip
        return assemble(device, launches, columns, fps, times)
