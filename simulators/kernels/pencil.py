"""The pencil as a rigid rod whose tip stands or slides on the table, then lies down on its side.

It refuses to know what the sides are called, and how often each ought to come up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators.compiled import jit
from simulators.device import ON_EDGE, UNDECIDED, Device, Launches, Rollouts
from simulators.devices.pencil import COMMITTED, LYING, Pencil
from simulators.engines.loop import READ_RATE
from simulators.kernels.frames import READ_STEP, assemble, is_rest, set_up, still_since

BISECTIONS = 40  # of a step, to find when within it a slide begins or the cone lies: to 1e-12 of the step


@dataclass(frozen=True)
class PencilKernel:
    """Integrates a `Pencil` in `steps_per_second` fixed steps of order four; `unsettled` after `time_limit` [s].

    On its tip: the axis u, its rate w, the tip's place p and velocity v. With c from tip to centre of mass and K the square of
    the radius of gyration, a tip that stands gives u'' = -(g c / (K + c^2)) (z - u_z u) - w^2 u and the force c u'' + g z a
    unit of mass. Where that leaves the cone of friction the tip slides, and the force is N (m d + z), d against the slide.
    Lying down: once the cone's side meets the table, an inelastic impact at the shoulder (cone to barrel), a turn about it at
    an even acceleration, an inelastic impact of the whole side, a slide. The impacts' friction is Coulomb's with their impulse.
    """

    steps_per_second: int
    time_limit: float

    name: ClassVar[str] = "pencil_kernel"
    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        if not (self.steps_per_second > 0 and self.steps_per_second % READ_RATE == 0):
            raise ValueError(f"`steps_per_second` must be a positive multiple of {READ_RATE}, got {self.steps_per_second}")
        if not 0.0 < self.time_limit <= 3600.0:
            raise ValueError(f"`time_limit` must be in (0, 3600] seconds, got {self.time_limit}")

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row. Raises `TypeError` for anything but a `Pencil`."""
        if not isinstance(device, Pencil):
            raise TypeError(f"pencil_kernel integrates a Pencil, got {type(device).__name__}")
        starts, reach, tolerance, times, columns = set_up(device, launches, fps, self.time_limit)
        rod = np.array(
            [
                device.centre,
                device.gyration,
                device.world().gravity,
                device.friction,
                device.length,
                device.radius,
                device.point,
            ]
        )
        axis = np.array([math.sin(device.lean), 0.0, math.cos(device.lean)])
        _fall(
            starts[:, 0],
            axis,
            rod,
            self.steps_per_second // READ_RATE,
            self.time_limit,
            reach,
            tolerance,
            times,
            *columns.filled(gone=False),
        )
        return assemble(device, launches, columns, fps, times)


@jit
def _bend(ux, uy, uz, wx, wy, wz, fx, fy, rod):
    """Return u'' (3,) [1/s^2] and the normal force over the mass [m/s^2]; f = (fx, fy, 1) the force's direction.

    Standing where fx is NaN: the force is then whatever keeps the tip in its place.
    """
    c, gyration, g = rod[0], rod[1], rod[2]
    ww = wx * wx + wy * wy + wz * wz
    if math.isnan(fx):
        pull = -g * c / (gyration + c * c)
        ax, ay, az = -pull * uz * ux, -pull * uz * uy, pull * (1.0 - uz * uz)
        ax, ay, az = ax - ww * ux, ay - ww * uy, az - ww * uz
        return ax, ay, az, g + c * az
    fu = fx * ux + fy * uy + uz
    normal = (g - c * ww * uz) / (1.0 + c * c / gyration * (1.0 - fu * uz))
    pull = -c / gyration * normal
    return pull * (fx - fu * ux) - ww * ux, pull * (fy - fu * uy) - ww * uy, pull * (1.0 - fu * uz) - ww * uz, normal


@jit
def _rate(y, into, fx, fy, rod):
    """Write the time derivative of `y` (10,) = p (2), u (3), v (2), w (3) into `into`."""
    c = rod[0]
    ax, ay, az, normal = _bend(y[2], y[3], y[4], y[7], y[8], y[9], fx, fy, rod)
    into[0], into[1], into[2], into[3], into[4] = y[5], y[6], y[7], y[8], y[9]
    if math.isnan(fx):
        into[5], into[6] = 0.0, 0.0
    else:
        into[5], into[6] = normal * fx - c * ax, normal * fy - c * ay
    into[7], into[8], into[9] = ax, ay, az


@jit
def _contact(y, h, rod):
    """Return the horizontal direction (2,) of the force on the tip over its normal part; NaN where the tip stands.

    Friction turns a tip slower than it takes away in a step of `h` [s] at once to where it is drawn: against that, then, not
    against a velocity whose direction the step could not follow.
    """
    c, g, friction = rod[0], rod[2], rod[3]
    speed = math.hypot(y[5], y[6])
    if speed > 2.0 * friction * g * h and speed > 0.0:
        return -friction * y[5] / speed, -friction * y[6] / speed
    ax, ay, _, normal = _bend(y[2], y[3], y[4], y[7], y[8], y[9], math.nan, math.nan, rod)
    needed = c * math.hypot(ax, ay)
    if needed > friction * normal and ax * y[5] + ay * y[6] <= 0.0:
        return friction * c * ax / needed, friction * c * ay / needed
    if speed > 0.0:
        return -friction * y[5] / speed, -friction * y[6] / speed
    return math.nan, math.nan


@jit
def _advance(y, h, rod, work):
    """Take `y` (10,) one step of `h` [s] on, in place. `work` (5, 10) is scratch."""
    fx, fy = _contact(y, h, rod)
    _rate(y, work[0], fx, fy, rod)
    for k in range(10):
        work[4, k] = y[k] + 0.5 * h * work[0, k]
    _rate(work[4], work[1], fx, fy, rod)
    for k in range(10):
        work[4, k] = y[k] + 0.5 * h * work[1, k]
    _rate(work[4], work[2], fx, fy, rod)
    for k in range(10):
        work[4, k] = y[k] + h * work[2, k]
    _rate(work[4], work[3], fx, fy, rod)
    for k in range(10):
        y[k] += h / 6.0 * (work[0, k] + 2.0 * (work[1, k] + work[2, k]) + work[3, k])
    if not math.isnan(fx) and y[5] * fx + y[6] * fy > 0.0:
        y[5], y[6] = 0.0, 0.0  # the friction has ended the slide: it does not push the tip back
    size = 1.0 / math.sqrt(y[2] * y[2] + y[3] * y[3] + y[4] * y[4])
    y[2], y[3], y[4] = y[2] * size, y[3] * size, y[4] * size
    along = y[2] * y[7] + y[3] * y[8] + y[4] * y[9]
    y[7], y[8], y[9] = y[7] - along * y[2], y[8] - along * y[3], y[9] - along * y[4]


@jit
def _braked(speed, impulse):
    """Return what Coulomb friction of that impulse leaves of a speed."""
    return math.copysign(max(abs(speed) - impulse, 0.0), speed)


@jit
def _go(y, h, rod, work, trial):
    """Take `y` (10,) `h` [s] on, in place: where the tip begins or ends to slide within it, in two steps that meet there."""
    slides = not math.isnan(_contact(y, h, rod)[0])
    trial[:] = y
    _advance(trial, h, rod, work)
    if (trial[5] != 0.0 or trial[6] != 0.0) if slides else math.isnan(_contact(trial, h, rod)[0]):
        y[:] = trial
        return
    low, high = 0.0, h
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        trial[:] = y
        _advance(trial, middle, rod, work)
        if (trial[5] != 0.0 or trial[6] != 0.0) if slides else math.isnan(_contact(trial, h, rod)[0]):
            low = middle
        else:
            high = middle
    _advance(y, high, rod, work)
    _advance(y, h - high, rod, work)


@jit
def _land(y, time, rod, lying):
    """Write how the pencil lies down from the state `y`, its cone on the table, into `lying` (12,)."""
    c, gyration, g, friction, radius, point = rod[0], rod[1], rod[2], rod[3], rod[5], rod[6]
    flat = math.hypot(y[2], y[3])
    ax, ay, lean = y[2] / flat, y[3] / flat, math.atan2(y[4], flat)
    spin = -y[9] / flat  # rad/s downwards
    arm = (c - point) * flat - radius * y[4]
    speed = y[5] * ax + y[6] * ay + c * y[4] * spin  # of the centre of mass, outwards
    fall = -c * flat * spin  # and upwards
    impulse = -(fall + spin * arm) / (1.0 + arm * arm / gyration)
    spin += impulse * arm / gyration
    speed = _braked(speed, friction * impulse)
    half = (c - point) * math.cos(lean / 2.0) - radius * math.sin(lean / 2.0)
    faster = g * half / (gyration + half * half)
    last = math.sqrt(spin * spin + 2.0 * faster * lean)
    turn = (last - spin) / faster
    lying[0], lying[1], lying[2] = time, ax, ay
    lying[3], lying[4] = y[0] + c * y[2], y[1] + c * y[3]
    lying[5], lying[6], lying[7], lying[8] = lean, spin, faster, turn
    lying[9], lying[10] = speed, _braked(speed, friction * last * (c - point))
    lying[11] = friction * g


@jit
def _place(body, px, py, pz, ux, uy, uz, vx, vy, vz, wx, wy, wz, c):
    """Write the pencil's state into `body` (13,): tip p, axis u (turned from upright the short way), tip's v, u's rate w."""
    body[0], body[1], body[2] = px + c * ux, py + c * uy, pz + c * uz
    w = math.sqrt((1.0 + uz) / 2.0)
    body[3], body[4], body[5], body[6] = -uy / (2.0 * w), ux / (2.0 * w), 0.0, w
    body[7], body[8], body[9] = vx + c * wx, vy + c * wy, vz + c * wz
    body[10], body[11], body[12] = uy * wz - uz * wy, uz * wx - ux * wz, ux * wy - uy * wx


@jit
def _standing(body, y, rod):
    _place(body, y[0], y[1], 0.0, y[2], y[3], y[4], y[5], y[6], 0.0, y[7], y[8], y[9], rod[0])


@jit
def _lain(body, time, lying, rod):
    """Write the state at `time` [s] of a pencil on its way from its shoulder onto its side, or beyond."""
    radius, point = rod[5], rod[6]
    ax, ay = lying[1], lying[2]
    t = time - lying[0]
    if t < lying[8]:
        lean = lying[5] - lying[6] * t - 0.5 * lying[7] * t * t
        spin, speed, gone = lying[6] + lying[7] * t, lying[9], lying[9] * t
    else:
        lean, spin = 0.0, 0.0
        slide = min(t - lying[8], abs(lying[10]) / lying[11] if lying[11] > 0.0 else math.inf)
        slower = math.copysign(lying[11], lying[10])
        speed = lying[10] - slower * slide
        gone = lying[9] * lying[8] + (lying[10] - 0.5 * slower * slide) * slide
    s, c = math.sin(lean), math.cos(lean)
    # `gone` and `speed` are the centre of mass's, whose height is the shoulder's distance from it in the axis's frame.
    behind = rod[0] - point
    x, y, z = lying[3] + gone * ax, lying[4] + gone * ay, behind * s + radius * c
    ux, uy, wx, wy, wz = c * ax, c * ay, s * spin * ax, s * spin * ay, -c * spin
    rise = -(behind * c - radius * s) * spin
    k = rod[0]
    px, py, pz = x - k * ux, y - k * uy, z - k * s
    vx, vy, vz = speed * ax - k * wx, speed * ay - k * wy, rise - k * wz
    _place(body, px, py, pz, ux, uy, s, vx, vy, vz, wx, wy, wz, k)


@jit
def _shown(body, rod):
    """Return what `Pencil.read` does."""
    x, y, z, w = body[3], body[4], body[5], body[6]
    ux, uz = 2.0 * (x * z + w * y), 1.0 - 2.0 * (x * x + y * y)
    eraser = body[0] + (rod[4] - rod[0]) * ux
    if uz < COMMITTED and abs(eraser) > rod[5]:
        return 1 if eraser > 0.0 else 0
    return ON_EDGE if uz < LYING else UNDECIDED


@jit
def _fall(
    starts, axis, rod, per_read, limit, reach, tolerance, times,
    code, first, strongest, settled, end_time, end, frames, frame_count,
):  # fmt: skip
    y, ahead, between, trial = np.zeros(10), np.zeros(10), np.zeros(10), np.zeros(10)
    work, lying = np.zeros((5, 10)), np.zeros(12)
    body, held = np.zeros((1, 13)), np.zeros((1, 7))
    lowest = rod[5] / math.hypot(rod[5], rod[6])  # u_z when the cone lies on the table
    h = READ_STEP / per_read
    for i in range(len(starts)):
        y[:] = 0.0
        y[2:5] = axis
        spin = starts[i, 10:13]
        y[7] = spin[1] * axis[2] - spin[2] * axis[1]
        y[8] = spin[2] * axis[0] - spin[0] * axis[2]
        y[9] = spin[0] * axis[1] - spin[1] * axis[0]
        landed = False
        since, time, step, frame = math.nan, 0.0, 0, 0
        while True:
            length = min((step + 1) * h, limit) - time
            if not landed:
                ahead[:] = y
                _go(ahead, length, rod, work, trial)
                if ahead[4] <= lowest:
                    low, high = 0.0, length  # the moment within the step at which the cone meets the table
                    for _ in range(BISECTIONS):
                        middle = 0.5 * (low + high)
                        ahead[:] = y
                        _go(ahead, middle, rod, work, trial)
                        if ahead[4] <= lowest:
                            high = middle
                        else:
                            low = middle
                    _land(ahead, time + high, rod, lying)
                    landed = True
            while frame < len(times) and times[frame] < time + length:
                if landed and times[frame] >= lying[0]:
                    _lain(frames[i, frame, 0], times[frame], lying, rod)
                else:
                    between[:] = y
                    _go(between, times[frame] - time, rod, work, trial)
                    _standing(frames[i, frame, 0], between, rod)
                frame += 1
            if not landed:
                y[:] = ahead
            time += length
            step += 1
            if step % per_read and time < limit - 1e-9:
                continue
            time = min(step * h, limit)
            if landed:
                _lain(body[0], time, lying, rod)
            else:
                _standing(body[0], y, rod)
            shown = _shown(body[0], rod)
            code[i] = shown
            if first[i] < 0 <= shown:
                first[i] = shown
            strongest[i] = max(strongest[i], shown)
            since = still_since(time, body, held, since, reach, tolerance)
            settled[i] = is_rest(time, since)
            if settled[i] or time >= limit - 1e-9:
                break
        end_time[i] = time
        end[i] = body
        if frame < len(times) and times[frame] <= time:  # a frame at the very end
            frames[i, frame] = body
            frame += 1
        frame_count[i] = frame
