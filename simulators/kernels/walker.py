"""Walks the walker: heading and place by the midpoint rule, under a force that is drawn anew each 1/60 s."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators.compiled import jit
from simulators.device import Device, Launches, Rollouts
from simulators.devices.walker import HIP, STRIDE, SWING, Walker
from simulators.engines.loop import READ_RATE, check_engine
from simulators.kernels.frames import Columns, assemble, bodies_at, frame_times, is_rest, reaches, rest_distance, still_since


@dataclass(frozen=True)
class WalkerKernel:
    """Integrates at `steps_per_second`, a multiple of 60; a walker who has not stopped by `time_limit` [s] is `unsettled`."""

    steps_per_second: int
    time_limit: float

    name: ClassVar[str] = "walker_kernel"
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        check_engine(self)

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """See `simulators.device.Kernel`."""
        if not isinstance(device, Walker):
            raise TypeError(f"{self.name} knows walkers, not {type(device).__name__}")
        world = device.world()
        times = frame_times(world, fps, self.time_limit)
        columns = Columns.empty(len(launches), len(world.loose), 0, len(times))
        instants = math.ceil(self.time_limit * READ_RATE)
        force = np.stack([launches.noise(i).standard_normal(instants) for i in range(len(launches))])
        begin = bodies_at(launches.start, world.loose)
        heading = 2.0 * np.arctan2(-begin[:, 0, 5], begin[:, 0, 6])
        settings = np.array(
            [
                *(device.width, device.length, device.speed, device.centring, device.decides_at, device.turning),
                device.restlessness * math.sqrt(READ_RATE),  # so that a second of it spreads the heading by `restlessness`
                *(device.preference, device.end),
            ]
        )
        _walk(
            settings, heading, force, self.steps_per_second, self.time_limit, times, reaches(world), rest_distance(world),
            columns.code, columns.first, columns.strongest, columns.settled, columns.end_time, columns.end,
            columns.frames, columns.frame_count,
        )  # fmt: skip
        return assemble(device, launches, columns, fps, times)


@jit
def _rates(settings, x, y, heading, push):
    """Return the rates of x, y [m/s] and heading [rad/s]."""
    width, length, speed, centring, decides_at, turning = settings[:6]
    near = min(max((y - (length - decides_at)) / max(decides_at, 1e-9), 0.0), 1.0)
    near = near * near * (3.0 - 2.0 * near)
    steer = -centring * (heading + x / width)
    lean = heading + 0.5 * x / width * math.cos(heading)  # round the corner the place on the path says nothing more
    fall = 0.5 * turning * math.sin(2.0 * lean)
    rate = (1.0 - near) * steer + near * fall + settings[7] * near + push
    return speed * math.sin(heading), speed * math.cos(heading), rate


@jit
def _pose(x, y, heading, walked, body):
    """Fill `body` (3, 13) with walker and legs: the gait follows the way walked, and its swing dies where nobody walks."""
    swing = SWING * math.sin(2.0 * math.pi * walked / STRIDE)
    turn_s, turn_c = math.sin(-0.5 * heading), math.cos(0.5 * heading)
    for k in range(3):
        across = 0.0 if k == 0 else (-0.09 if k == 1 else 0.09)
        lean = 0.0 if k == 0 else (swing if k == 1 else -swing)
        s, c = math.sin(0.5 * lean), math.cos(0.5 * lean)
        body[k, 0], body[k, 1] = x + across * math.cos(heading), y - across * math.sin(heading)
        body[k, 2] = HIP - 0.02 * (1.0 - math.cos(swing))
        body[k, 3], body[k, 4] = turn_c * s, turn_s * s
        body[k, 5], body[k, 6] = turn_s * c, turn_c * c


@jit
def _walk(
    settings, headings, force, rate, time_limit, times, reach, tolerance,
    code, first, strongest, settled, end_time, end, frames, frame_count,
):  # fmt: skip
    width, length, stop = settings[0], settings[1], settings[8]
    dt, per_read = 1.0 / rate, rate // READ_RATE
    margin = 0.30  # m: shoulders keep off the walls
    held = np.zeros((3, 7))
    body = np.zeros((3, 13))
    for row in range(len(headings)):
        x, y, heading, walked, since = 0.0, 0.0, headings[row], 0.0, np.nan
        walking = True
        step, frame, limit = 0, 0, round(time_limit * rate)
        while True:
            while frame < len(times) and times[frame] <= (step + 0.5) * dt:
                _pose(x, y, heading, walked, body)
                frames[row, frame] = body
                frame += 1
            if step % per_read == 0 and step > 0:
                _pose(x, y, heading, walked, body)
                side = -1
                if abs(x) > 0.8 * width:
                    side = 1 if x > 0.0 else 0
                code[row] = side
                if side >= 0 and first[row] < 0:
                    first[row] = side
                strongest[row] = max(strongest[row], side)
                since = still_since(step * dt, body, held, since, reach, tolerance)
                if is_rest(step * dt, since):
                    settled[row] = True
                    break
            if step >= limit:
                break
            if walking:
                push = settings[6] * force[row, step // per_read]
                vx, vy, turn = _rates(settings, x, y, heading, push)
                vx, vy, turn = _rates(settings, x + 0.5 * dt * vx, y + 0.5 * dt * vy, heading + 0.5 * dt * turn, push)
                before_x, before_y = x, y
                x, y, heading = x + dt * vx, y + dt * vy, heading + dt * turn
                wall = 0.5 * width - margin
                if y < length + margin:  # between the hedges: shoulders keep off them, and nobody turns into one
                    x, heading = min(max(x, -wall), wall), min(max(heading, -1.0), 1.0)
                else:
                    y = min(y, length + width - margin)
                walked += math.sqrt((x - before_x) ** 2 + (y - before_y) ** 2)
                walking = abs(x) < stop
            step += 1
        _pose(x, y, heading, walked, body)
        end[row] = body
        end_time[row] = step * dt
        frame_count[row] = frame
