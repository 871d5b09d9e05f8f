"""The double pendulum as two point masses held by two rods: classical Runge-Kutta in Cartesian coordinates, no angles.

It refuses to know what the sides are called, and how often each ought to come up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators.compiled import borrowing, jit
from simulators.device import ON_EDGE, Device, Launches, Rollouts
from simulators.devices.double_pendulum import DoublePendulum
from simulators.engines.loop import READ_RATE
from simulators.kernels.frames import Columns, assemble, bodies_at, frame_times
from simulators.rotation import Array

LANES = 16  # rollouts that are stepped together: two to four of a processor's vectors


@dataclass(frozen=True)
class DoublePendulumKernel:
    """Integrates a `DoublePendulum` in `steps_per_second` fixed steps of order four, up to the device's `end_time`.

    The rods' tensions follow from lengths that do not change: r1 . a1 = -v1^2 and d . (a2 - a1) = -(v2 - v1)^2, d = r2 - r1.
    After each step lengths and velocities along the rods are put right, by what the step's error has made of them.
    """

    steps_per_second: int
    time_limit: float

    name: ClassVar[str] = "double_pendulum_kernel"
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        if not (self.steps_per_second > 0 and self.steps_per_second % READ_RATE == 0):
            raise ValueError(f"`steps_per_second` must be a positive multiple of {READ_RATE}, got {self.steps_per_second}")
        if not 0.0 < self.time_limit <= 3600.0:
            raise ValueError(f"`time_limit` must be in (0, 3600] seconds, got {self.time_limit}")

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row. Raises `TypeError` for anything but a `DoublePendulum`."""
        if not isinstance(device, DoublePendulum):
            raise TypeError(f"double_pendulum_kernel integrates a DoublePendulum, got {type(device).__name__}")
        world = device.world()
        limit = min(device.end_time, self.time_limit)
        times = frame_times(world, fps, limit)
        columns = Columns.empty(len(launches), 2, 0, len(times))
        _swing(
            _points(bodies_at(launches.start, world.loose), device.pivot_height),
            device.inner_length,
            device.outer_length,
            world.gravity,
            1.0 / self.steps_per_second,
            self.steps_per_second // READ_RATE,
            limit,
            device.margin,
            device.pivot_height,
            times,
            columns.code,
            columns.first,
            columns.strongest,
            columns.end_time,
            columns.end,
            columns.frames,
            columns.frame_count,
        )
        return assemble(device, launches, columns, fps, times)

    def outer_x(self, device: DoublePendulum, angles: Array, times: Array) -> Array:
        """Return the outer bob's x [m] (n, T) at ascending `times` (T,) [s], released at rest from `angles` (n, 2) [rad]."""
        inner, outer = np.asarray(angles, float).T
        x1, z1 = device.inner_length * np.sin(inner), -device.inner_length * np.cos(inner)
        x2, z2 = x1 + device.outer_length * np.sin(outer), z1 - device.outer_length * np.cos(outer)
        zero = np.zeros_like(x1)
        points = np.stack([x1, z1, x2, z2, zero, zero, zero, zero], axis=-1)
        gravity = device.world().gravity
        return _outer_x(
            points, device.inner_length, device.outer_length, gravity, 1.0 / self.steps_per_second, np.asarray(times, float)
        )


def _points(bodies: Array, high: float) -> Array:
    """Return x1, z1, x2, z2 from the pivot and their rates (n, 8) of the arms `bodies` (n, 2, 13)."""
    pos, vel = bodies[..., [0, 2]] - np.array([0.0, high]), bodies[..., [7, 9]]
    return np.concatenate([pos.reshape(-1, 4), vel.reshape(-1, 4)], axis=-1)


@borrowing
def _pull(x1, z1, x2, z2, u1, w1, u2, w2, g):
    """Return the accelerations of both bobs [m/s^2] (4,): gravity and the tensions of the rods, masses being equal."""
    dx, dz, du, dw = x2 - x1, z2 - z1, u2 - u1, w2 - w1
    # a1 = (0, -g) - s r1 + t d, a2 = (0, -g) - t d: two lengths, two equations for s and t.
    rr, dd, rd = x1 * x1 + z1 * z1, dx * dx + dz * dz, x1 * dx + z1 * dz
    p = u1 * u1 + w1 * w1 - g * z1  # s rr - t rd
    q = du * du + dw * dw  # -s rd + 2 t dd
    scale = 1.0 / (2.0 * rr * dd - rd * rd)
    s, t = (2.0 * dd * p + rd * q) * scale, (rd * p + rr * q) * scale
    return t * dx - s * x1, t * dz - s * z1 - g, -t * dx, -t * dz - g


@borrowing
def _step(y, h, l1, l2, g):
    """Take `LANES` states one step of `h` [s] on, in place; `y` (8 LANES,) holds x1 of all, z1 of all, and so on.

    No lane asks what another does, so that the compiler takes several at once; each gets the bits that it gets alone.
    """
    k, e = h / 2.0, h / 6.0
    for i in range(LANES):
        x1, z1, x2, z2 = y[i], y[i + LANES], y[i + 2 * LANES], y[i + 3 * LANES]
        u1, w1, u2, w2 = y[i + 4 * LANES], y[i + 5 * LANES], y[i + 6 * LANES], y[i + 7 * LANES]
        a1, b1, c1, d1 = _pull(x1, z1, x2, z2, u1, w1, u2, w2, g)
        p1, q1, r1, s1 = u1 + k * a1, w1 + k * b1, u2 + k * c1, w2 + k * d1
        a2, b2, c2, d2 = _pull(x1 + k * u1, z1 + k * w1, x2 + k * u2, z2 + k * w2, p1, q1, r1, s1, g)
        p2, q2, r2, s2 = u1 + k * a2, w1 + k * b2, u2 + k * c2, w2 + k * d2
        a3, b3, c3, d3 = _pull(x1 + k * p1, z1 + k * q1, x2 + k * r1, z2 + k * s1, p2, q2, r2, s2, g)
        p3, q3, r3, s3 = u1 + h * a3, w1 + h * b3, u2 + h * c3, w2 + h * d3
        a4, b4, c4, d4 = _pull(x1 + h * p2, z1 + h * q2, x2 + h * r2, z2 + h * s2, p3, q3, r3, s3, g)
        x1 += e * (u1 + 2.0 * (p1 + p2) + p3)
        z1 += e * (w1 + 2.0 * (q1 + q2) + q3)
        x2 += e * (u2 + 2.0 * (r1 + r2) + r3)
        z2 += e * (w2 + 2.0 * (s1 + s2) + s3)
        u1 += e * (a1 + 2.0 * (a2 + a3) + a4)
        w1 += e * (b1 + 2.0 * (b2 + b3) + b4)
        u2 += e * (c1 + 2.0 * (c2 + c3) + c4)
        w2 += e * (d1 + 2.0 * (d2 + d3) + d4)
        dx, dz, du, dw = x2 - x1, z2 - z1, u2 - u1, w2 - w1
        size1, size2 = l1 / math.sqrt(x1 * x1 + z1 * z1), l2 / math.sqrt(dx * dx + dz * dz)
        x1, z1, dx, dz = x1 * size1, z1 * size1, dx * size2, dz * size2
        along1, along2 = (u1 * x1 + w1 * z1) / (l1 * l1), (du * dx + dw * dz) / (l2 * l2)
        u1, w1, du, dw = u1 - along1 * x1, w1 - along1 * z1, du - along2 * dx, dw - along2 * dz
        y[i], y[i + LANES], y[i + 2 * LANES], y[i + 3 * LANES] = x1, z1, x1 + dx, z1 + dz
        y[i + 4 * LANES], y[i + 5 * LANES], y[i + 6 * LANES], y[i + 7 * LANES] = u1, w1, u1 + du, w1 + dw


@jit
def _arm(body, x, z, u, w, length, from_x, from_z, from_u, from_w, high):
    """Write one arm's state into `body` (13,): its bob from the pivot, its rod from where it hangs."""
    dx, dz = x - from_x, z - from_z
    angle = math.atan2(dx, -dz)
    body[0], body[1], body[2] = x, 0.0, z + high
    body[3], body[4], body[5], body[6] = 0.0, -math.sin(angle / 2.0), 0.0, math.cos(angle / 2.0)
    body[7], body[8], body[9] = u, 0.0, w
    body[10], body[11], body[12] = 0.0, -((w - from_w) * dx - (u - from_u) * dz) / length**2, 0.0


@jit
def _write(bodies, y, lane, l1, l2, high):
    x1, z1, x2, z2 = y[lane], y[lane + LANES], y[lane + 2 * LANES], y[lane + 3 * LANES]
    u1, w1, u2, w2 = y[lane + 4 * LANES], y[lane + 5 * LANES], y[lane + 6 * LANES], y[lane + 7 * LANES]
    _arm(bodies[0], x1, z1, u1, w1, l1, 0.0, 0.0, 0.0, 0.0, high)
    _arm(bodies[1], x2, z2, u2, w2, l2, x1, z1, u1, w1, high)


@jit
def _load(starts, begin, y):
    """Put the rows from `begin` on into the lanes; the last one fills what lanes are left. Return how many rows these are."""
    rows = min(LANES, len(starts) - begin)
    for lane in range(LANES):
        for k in range(8):
            y[lane + k * LANES] = starts[begin + min(lane, rows - 1), k]
    return rows


@jit
def _swing(
    starts, l1, l2, g, h, per_read, limit, margin, high, times,
    code, first, strongest, end_time, end, frames, frame_count,
):  # fmt: skip
    y, between = np.zeros(8 * LANES), np.zeros(8 * LANES)
    steps = math.ceil(limit / h - 1e-6)
    for begin in range(0, len(starts), LANES):
        rows = _load(starts, begin, y)
        frame = 0
        for step in range(steps + 1):
            time = min(step * h, limit)
            length = min((step + 1) * h, limit) - time
            while frame < len(times) and (times[frame] < time + length or step == steps) and times[frame] <= limit:
                between[:] = y
                if times[frame] > time:  # a step of no length would still round
                    _step(between, times[frame] - time, l1, l2, g)
                for lane in range(rows):
                    _write(frames[begin + lane, frame], between, lane, l1, l2, high)
                frame += 1
            if step > 0 and (step % per_read == 0 or step == steps):
                for lane in range(rows):
                    i, x = begin + lane, y[lane + 2 * LANES]
                    code[i] = ON_EDGE if abs(x) <= margin else 1 if x > 0.0 else 0
                    if first[i] < 0 <= code[i]:
                        first[i] = code[i]
                    strongest[i] = max(strongest[i], code[i])
            if step < steps:
                _step(y, length, l1, l2, g)
        for lane in range(rows):
            i = begin + lane
            end_time[i] = limit
            _write(end[i], y, lane, l1, l2, high)
            frame_count[i] = frame


@jit
def _outer_x(starts, l1, l2, g, h, times):
    y = np.zeros(8 * LANES)
    found = np.zeros((len(starts), len(times)))
    for begin in range(0, len(starts), LANES):
        rows = _load(starts, begin, y)
        at = 0.0
        for k in range(len(times)):
            steps = max(1, math.ceil((times[k] - at) / h - 1e-6))
            for _ in range(steps):
                _step(y, (times[k] - at) / steps, l1, l2, g)
            at = times[k]
            for lane in range(rows):
                found[begin + lane, k] = y[lane + 2 * LANES]
    return found
