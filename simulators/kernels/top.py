"""A spinning top in compiled code: a rigid solid of revolution on a flat floor inside a round wall.

It refuses to know the sectors it ends in. The state carries the angular momentum L about the centre of mass, which a free body
keeps exactly; the attitude turns by the angular velocity that L gives half a step on, so no gyroscopic term is ever integrated.
On a flat floor and inside a round wall only the tip, the rim's circle and the stem's end can touch: what touches is exact, and
contacts are impulses (Newton's restitution, Coulomb friction, friction against rolling and spinning).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulators.compiled import jit
from simulators.device import ON_EDGE, STUCK, UNDECIDED, Device, Launches, Rollouts
from simulators.devices.top import FALLEN, LINE, SLOW, Top
from simulators.engines.loop import READ_RATE
from simulators.kernels.frames import assemble, is_rest, set_up, still_since
from simulators.kernels.roulette import turn_by

GRAVITY = 9.81  # m/s^2
BOUNCE = 0.03  # m/s: slower impacts do not rebound
AHEAD = 2e-5  # m: a feature this near is a contact that may close its gap in the step, and no faster
RIM = 0.010  # m: thickness of the tray's wall, as deep as the floor goes on under it
PASSES = 4  # over the contacts in a step where two or more touch; they start from the impulses of the step before


class Solid(NamedTuple):
    """What the compiled loops need of a `Top`, in SI units; `tip`, `rim`, `stem` are heights in its axes, from its centre."""

    mass: float
    axial: float
    across: float
    tip: float
    tip_radius: float
    rim: float
    rim_radius: float
    stem: float
    stem_radius: float
    wall: float
    wall_height: float
    restitution: float
    friction: float
    turning: float
    far: float
    low: float
    high: float

    @staticmethod
    def of(device: Top) -> Solid:
        """Return the numbers of `device`."""
        mass, centre, axial, across = device.solid()
        bounds = device.world().bounds
        return Solid(
            mass, axial, across, device.tip_radius - centre, device.tip_radius, device.tip_length - centre, device.rim_radius,
            device.tip_length + device.stem_length - device.stem_radius - centre, device.stem_radius, device.tray_radius,
            device.wall_height, device.restitution, device.friction, device.turning_friction, bounds[1][0], bounds[0][2],
            bounds[1][2],
        )  # fmt: skip


@jit
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@jit
def _cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@jit
def _plus(a, k, b):
    return (a[0] + k * b[0], a[1] + k * b[1], a[2] + k * b[2])


@jit
def _spin(solid, axis, momentum):
    """Return the angular velocity of angular momentum `momentum`, the body's axis being `axis`."""
    k = (1.0 / solid.axial - 1.0 / solid.across) * _dot(momentum, axis)
    i = 1.0 / solid.across
    return (i * momentum[0] + k * axis[0], i * momentum[1] + k * axis[1], i * momentum[2] + k * axis[2])


@jit
def _axis(body):
    x, y, z, w = body[3], body[4], body[5], body[6]
    return (2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y))


@jit
def _meet(solid, axis, v, momentum, contact):
    """Return velocity and angular momentum after one pass over a contact, a row of `advance`'s table; its impulses grow.

    The total normal impulse is not negative and brings the closing speed to the contact's target; friction's is at most mu
    times it, those against rolling and against spinning f times it, each as much as would stop what it resists.
    """
    arm, n = (contact[0], contact[1], contact[2]), (contact[3], contact[4], contact[5])
    u = _plus(v, 1.0, _cross(_spin(solid, axis, momentum), arm))
    lever = _cross(arm, n)
    mobility = 1.0 / solid.mass + _dot(lever, _spin(solid, axis, lever))
    push = max(contact[7] + (contact[6] - _dot(u, n)) / mobility, 0.0)
    change, contact[7] = push - contact[7], push
    v, momentum = _plus(v, change / solid.mass, n), _plus(momentum, change, lever)
    u = _plus(v, 1.0, _cross(_spin(solid, axis, momentum), arm))
    slip = _plus(u, -_dot(u, n), n)
    speed = math.sqrt(_dot(slip, slip))
    old = (contact[8], contact[9], contact[10])
    new = old
    if speed > 0.0:
        along = (slip[0] / speed, slip[1] / speed, slip[2] / speed)
        lever = _cross(arm, along)
        mobility = 1.0 / solid.mass + _dot(lever, _spin(solid, axis, lever))
        new = _plus(old, -speed / mobility, along)
    size, most = math.sqrt(_dot(new, new)), solid.friction * push
    if size > most:
        new = (new[0] * most / size, new[1] * most / size, new[2] * most / size)
    step = _plus(new, -1.0, old)
    contact[8], contact[9], contact[10] = new
    v, momentum = _plus(v, 1.0 / solid.mass, step), _plus(momentum, 1.0, _cross(arm, step))
    omega = _spin(solid, axis, momentum)
    rolling = _plus(omega, -_dot(omega, n), n)
    rate = math.sqrt(_dot(rolling, rolling))
    old, most = (contact[11], contact[12], contact[13]), solid.turning * push
    about = _dot(old, n)
    new = _plus(old, -about, n)
    if rate > 0.0:
        along = (rolling[0] / rate, rolling[1] / rate, rolling[2] / rate)
        new = _plus(new, -rate / _dot(along, _spin(solid, axis, along)), along)
    size = math.sqrt(_dot(new, new))
    if size > most:
        new = (new[0] * most / size, new[1] * most / size, new[2] * most / size)
    about = min(max(about - _dot(omega, n) / _dot(n, _spin(solid, axis, n)), -most), most)
    new = _plus(new, about, n)
    contact[11], contact[12], contact[13] = new
    return v, _plus(momentum, 1.0, _plus(new, -1.0, old))


@jit
def _floor_arm(solid, axis, feature):
    """Return the arm from the centre to the lowest point of a feature (0 tip, 1 rim, 2 stem)."""
    if feature == 1:
        down = (axis[2] * axis[0], axis[2] * axis[1], axis[2] * axis[2] - 1.0)
        size = math.sqrt(_dot(down, down))
        k = 0.0 if size < 1e-12 else solid.rim_radius / size
        return (solid.rim * axis[0] + k * down[0], solid.rim * axis[1] + k * down[1], solid.rim * axis[2] + k * down[2])
    at, radius = (solid.tip, solid.tip_radius) if feature == 0 else (solid.stem, solid.stem_radius)
    return (at * axis[0], at * axis[1], at * axis[2] - radius)


@jit
def _wall_arm(solid, axis, p, feature):
    """Return the arm from the centre to the point of a feature that is farthest from the tray's axis, and that direction."""
    at = solid.tip if feature == 0 else (solid.rim if feature == 1 else solid.stem)
    arm = (at * axis[0], at * axis[1], at * axis[2])
    for _ in range(3 if feature == 1 else 1):  # the farthest point of a circle from an axis: each round 9 times nearer or more
        x, y = p[0] + arm[0], p[1] + arm[1]
        r = math.sqrt(x * x + y * y)
        out = (1.0, 0.0, 0.0) if r == 0.0 else (x / r, y / r, 0.0)
        if feature == 1:
            flat = _plus(out, -_dot(out, axis), axis)
            k = solid.rim_radius / math.sqrt(_dot(flat, flat))
            arm = (at * axis[0] + k * flat[0], at * axis[1] + k * flat[1], at * axis[2] + k * flat[2])
        else:
            k = solid.tip_radius if feature == 0 else solid.stem_radius
            arm = _plus(arm, k, out)
    return arm, out


@jit
def _find(solid, body, axis, v, momentum, h, table, last):
    """Fill the rows of `table` (6, 14) whose contact is touching or will in this step; return the deepest gap of the floor [m].

    A row: arm 3, normal 3, target speed, normal impulse, friction 3, turning 3; where it touched in the step before (`last`),
    its impulses start from there.
    """
    deepest = 0.0
    near_wall = body[0] * body[0] + body[1] * body[1] > (solid.wall - 1.5 * solid.rim_radius) ** 2
    for row in range(6):
        touches = False
        out = (0.0, 0.0, -1.0)
        arm = out
        gap = 0.0
        if row < 3:
            arm = _floor_arm(solid, axis, row)
            gap = body[2] + arm[2]
            touches = gap < AHEAD and (body[0] + arm[0]) ** 2 + (body[1] + arm[1]) ** 2 < (solid.wall + RIM) ** 2
        elif near_wall:
            arm, out = _wall_arm(solid, axis, body, row - 3)
            gap = solid.wall - (body[0] + arm[0]) * out[0] - (body[1] + arm[1]) * out[1]
            touches = gap < AHEAD and gap > -RIM and body[2] + arm[2] < solid.wall_height
        if not touches:
            table[row, 7] = -1.0
            continue
        table[row, 0], table[row, 1], table[row, 2] = arm
        table[row, 3], table[row, 4], table[row, 5] = -out[0], -out[1], -out[2]
        u = _plus(v, 1.0, _cross(_spin(solid, axis, momentum), arm))
        closing = _dot(u, out)
        table[row, 6] = solid.restitution * closing if gap <= 0.0 and closing > BOUNCE else -max(gap, 0.0) / h
        keep = last[row] and table[row, 6] <= 0.0
        for k in range(7, 14):
            table[row, k] = table[row, k] if keep else 0.0
        if row < 3:
            deepest = min(deepest, gap)
        elif gap < 0.0:
            body[0] += gap * out[0]
            body[1] += gap * out[1]
    return deepest


@jit
def advance(solid, body, momentum, h, table, last):
    """Advance the 13 numbers `body` by `h` [s] (semi-implicit Euler); return the angular momentum [kg m^2/s] after it.

    `table` (6, 14) and `last` (6,) carry the contacts' impulses from step to step (see `_find`): zeros and False at the start.
    """
    axis = _axis(body)
    v = (body[7], body[8], body[9] - GRAVITY * h)
    body[2] -= _find(solid, body, axis, v, momentum, h, table, last)
    touching = 0
    for row in range(6):
        last[row] = table[row, 7] >= 0.0
        if last[row]:
            touching += 1
            push, arm = table[row, 7], (table[row, 0], table[row, 1], table[row, 2])
            impulse = (
                push * table[row, 3] + table[row, 8],
                push * table[row, 4] + table[row, 9],
                push * table[row, 5] + table[row, 10],
            )
            v, momentum = _plus(v, 1.0 / solid.mass, impulse), _plus(momentum, 1.0, _cross(arm, impulse))
            momentum = _plus(momentum, 1.0, (table[row, 11], table[row, 12], table[row, 13]))
    for _ in range(0 if touching == 0 else (2 if touching == 1 else PASSES)):
        for row in range(6):
            if last[row]:
                v, momentum = _meet(solid, axis, v, momentum, table[row])
    body[7], body[8], body[9] = v[0], v[1], v[2]
    for k in range(3):
        body[k] += h * v[k]
    middle = _plus(axis, 0.5 * h, _cross(_spin(solid, axis, momentum), axis))
    size = math.sqrt(_dot(middle, middle))
    omega = _spin(solid, (middle[0] / size, middle[1] / size, middle[2] / size), momentum)
    body[10], body[11], body[12] = omega[0], omega[1], omega[2]
    turn_by(body, h)
    return momentum


@jit
def angular_momentum(solid, body):
    """Return I omega [kg m^2/s] of the 13 numbers `body`."""
    axis, omega = _axis(body), (body[10], body[11], body[12])
    k = (solid.axial - solid.across) * _dot(omega, axis)
    i = solid.across
    return (i * omega[0] + k * axis[0], i * omega[1] + k * axis[1], i * omega[2] + k * axis[2])


@jit
def read_top(body, lines):
    """Return what `Top.read` returns of the 13 numbers `body`."""
    x, y = body[0], body[1]
    if not np.sqrt(body[7] ** 2 + body[8] ** 2 + body[9] ** 2) < SLOW:
        return UNDECIDED
    turn = math.atan2(y, x)
    turn = turn + 2.0 * math.pi if turn < 0.0 else turn
    sector, near = 0, math.inf
    for k in range(len(lines)):
        c, s = math.cos(lines[k]), math.sin(lines[k])
        near = min(near, abs(y * c - x * s) if x * c + y * s > 0.0 else math.sqrt(x * x + y * y))
        if k > 0 and turn >= lines[k]:
            sector = k
    if near < LINE:
        return ON_EDGE
    return sector if abs(_axis(body)[2]) < FALLEN else STUCK


@jit
def _run(
    solid, lines, starts, rate, limit, reach, tolerance, times, code, first, strongest, settled, gone, end_time, end, frames,
    frame_count,
):  # fmt: skip
    """Run every row of `starts` (n, 1, 13) to its end; fill the columns of `Columns`."""
    per_read, h = rate // READ_RATE, 1.0 / rate
    bodies, held, table, last = np.empty((1, 13)), np.empty((1, 7)), np.empty((6, 14)), np.empty(6, np.bool_)
    for row in range(len(starts)):
        bodies[:] = starts[row]
        body = bodies[0]
        momentum = angular_momentum(solid, body)
        since, frame, instant = math.nan, 0, 0
        table[:] = 0.0
        last[:] = False
        while instant < limit and not (settled[row] or gone[row]):
            for step in range(instant * per_read, (instant + 1) * per_read):
                while frame < len(times) and times[frame] < (step + 0.5) * h:
                    frames[row, frame] = bodies
                    frame += 1
                momentum = advance(solid, body, momentum, h, table, last)
            instant += 1
            code[row] = read_top(body, lines)
            if code[row] >= 0:
                first[row] = code[row] if first[row] < 0 else first[row]
                strongest[row] = max(strongest[row], code[row])
            inside = abs(body[0]) <= solid.far and abs(body[1]) <= solid.far and solid.low <= body[2] <= solid.high
            gone[row] = not inside
            since = still_since(instant / READ_RATE, bodies, held, since, reach, tolerance)
            settled[row] = is_rest(instant / READ_RATE, since)
        end_time[row] = instant / READ_RATE
        end[row] = bodies
        while frame < len(times) and times[frame] <= end_time[row]:
            frames[row, frame] = bodies
            frame += 1
        frame_count[row] = frame


@dataclass(frozen=True)
class TopKernel:
    """The spinning top at `steps_per_second`; `unsettled` after `time_limit` [s]."""

    steps_per_second: int
    time_limit: float

    def __post_init__(self) -> None:
        if self.steps_per_second < 1200:
            raise ValueError(f"`steps_per_second` must be at least 1200, got {self.steps_per_second!r}")

    @property
    def name(self) -> str:
        """`top_kernel`."""
        return "top_kernel"

    @property
    def version(self) -> str:
        """Changes whenever an outcome could."""
        return "1"

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row; with `fps` record it. Raises `TypeError` for a device that is no `Top`."""
        if not isinstance(device, Top):
            raise TypeError(f"{self.name} integrates a Top, not a {type(device).__name__}")
        starts, reach, tolerance, times, columns = set_up(device, launches, fps, self.time_limit)
        _run(
            Solid.of(device), device.lines(), starts, self.steps_per_second,
            round(self.time_limit * READ_RATE), reach, tolerance, times, *columns.filled(),
        )  # fmt: skip
        return assemble(device, launches, columns, fps, times)
