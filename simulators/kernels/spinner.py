"""The spinner in closed form: a wheel slowed by even and by viscous friction, up to its stop.

It refuses to know what the sectors are called, and how often each ought to come up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators.compiled import jit
from simulators.device import ON_EDGE, UNDECIDED, Device, Launches, Rollouts
from simulators.devices.spinner import FACING, SLOW, Spinner
from simulators.kernels.frames import (
    READ_STEP,
    Columns,
    assemble,
    bodies_at,
    frame_times,
    is_rest,
    reaches,
    rest_distance,
    still_since,
)

SERIES = 1e-4  # of drag times time: below it a power series; either way 1e-8 of the angle is lost here, and less elsewhere


@dataclass(frozen=True)
class SpinnerKernel:
    """Integrates a `Spinner` exactly: no step. A rollout is `unsettled` after `time_limit` [s].

    With deceleration a and drag b: speed w(t) = (w0 + a/b) exp(-b t) - a/b, angle its integral, both up to the stop.
    """

    time_limit: float

    name: ClassVar[str] = "spinner_kernel"
    version: ClassVar[str] = "1"
    steps_per_second: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not 0.0 < self.time_limit <= 3600.0:
            raise ValueError(f"`time_limit` must be in (0, 3600] seconds, got {self.time_limit}")

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row. Raises `TypeError` for anything but a `Spinner`."""
        if not isinstance(device, Spinner):
            raise TypeError(f"spinner_kernel integrates a Spinner, got {type(device).__name__}")
        world = device.world()
        times = frame_times(world, fps, self.time_limit)
        columns = Columns.empty(len(launches), 1, 0, len(times))
        _spin(
            bodies_at(launches.start, world.loose)[:, 0],
            device.phase_at_release,
            device.friction,
            device.drag,
            device.edges,
            device.fact_of_sector,
            device.tip,
            self.time_limit,
            reaches(world),
            rest_distance(world),
            times,
            columns.code,
            columns.first,
            columns.strongest,
            columns.settled,
            columns.end_time,
            columns.end,
            columns.frames,
            columns.frame_count,
        )
        return assemble(device, launches, columns, fps, times)


@jit
def turned(time, speed, friction, drag):
    """Return the angle [rad] gone by `time` [s] and the speed [rad/s] then, of a wheel let go at `speed`, up to its stop."""
    size = abs(speed)
    u = drag * size / friction
    stop = size / friction * (1.0 - u / 2.0 + u * u / 3.0) if u < SERIES else math.log1p(u) / drag
    t = min(time, stop)
    if drag * t < SERIES:
        # to second order in drag: w' = -a - b w
        rate = friction + drag * size
        angle = size * t - rate * t * t / 2.0 + drag * rate * t * t * t / 6.0
        left = size - rate * t + drag * rate * t * t / 2.0
    else:
        limit = friction / drag
        gone = -math.expm1(-drag * t)
        angle = (size + limit) * gone / drag - limit * t
        left = size - (size + limit) * gone
    left = 0.0 if time >= stop else max(left, 0.0)
    return math.copysign(angle, speed), math.copysign(left, speed)


@jit
def _shown(angle, speed, edges, fact_of_sector, tip):
    """Return what `Spinner.read` does, at the wheel's `angle` [rad] and `speed` [rad/s]."""
    if abs(speed) >= SLOW:
        return UNDECIDED
    under = (0.25 - angle / (2.0 * math.pi)) % 1.0
    sector = 0
    while sector < len(fact_of_sector) - 1 and under >= edges[sector + 1]:
        sector += 1
    if min(under - edges[sector], edges[sector + 1] - under) < tip:
        return ON_EDGE
    return fact_of_sector[sector]


@jit
def _place(body, angle, speed):
    """Write the wheel's orientation and spin into `body` (13,)."""
    s, c = math.sin(angle / 2.0), math.cos(angle / 2.0)
    x, w = FACING[0], FACING[3]
    body[3], body[4], body[5], body[6] = x * c, -x * s, w * s, w * c
    body[11] = -speed


@jit
def _spin(
    starts, phase, friction, drag, edges, fact_of_sector, tip, limit, reach, tolerance, times,
    code, first, strongest, settled, end_time, end, frames, frame_count,
):  # fmt: skip
    body = np.zeros((1, 13))
    held = np.zeros((1, 7))
    for i in range(len(starts)):
        body[0] = starts[i]
        speed0 = -starts[i, 11]
        since, time, number = math.nan, 0.0, 0
        while not settled[i] and number * READ_STEP < limit - 1e-9:
            number += 1
            time = min(number * READ_STEP, limit)
            gone, speed = turned(time, speed0, friction, drag)
            _place(body[0], phase + gone, speed)
            shown = _shown(phase + gone, speed, edges, fact_of_sector, tip)
            code[i] = shown
            if first[i] < 0 <= shown:
                first[i] = shown
            strongest[i] = max(strongest[i], shown)
            since = still_since(time, body, held, since, reach, tolerance)
            settled[i] = is_rest(time, since)
        end_time[i] = time
        end[i] = body
        for f in range(len(times)):
            if times[f] > time:
                break
            gone, speed = turned(times[f], speed0, friction, drag)
            frames[i, f, 0] = starts[i]
            _place(frames[i, f, 0], phase + gone, speed)
            frame_count[i] = f + 1
