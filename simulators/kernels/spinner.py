"""The spinner in closed form: a wheel slowed by even and by viscous friction, and by a flapper's pegs, up to its stop.

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
from simulators.kernels.frames import READ_STEP, assemble, is_rest, set_up, still_since

SERIES = 1e-4  # of drag times time: below it a power series; either way 1e-8 of the angle is lost here, and less elsewhere


@dataclass(frozen=True)
class SpinnerKernel:
    """Integrates a `Spinner` exactly: no step. A rollout is `unsettled` after `time_limit` [s].

    With deceleration a and drag b: speed w(t) = (w0 + a/b) exp(-b t) - a/b, angle its integral, both up to the stop.
    A peg that pushes the flapper is a damped swing about the flapper's place -+ a/k, with k the device's `flap_rate`: it goes
    from the touch to the slip, or turns back. Where these phases end is found to the last bits of the time.
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
        starts, reach, tolerance, times, columns = set_up(device, launches, fps, self.time_limit)
        phase, pegs, cell = device.phase_at_release, (0.0, 0.0, 0.0, 0.0), 0.0
        if device.pegs:
            pegs, cell = (device.spacing, device.peg_half, device.slip, device.flap_rate), device.peg_ahead(phase)
        _spin(
            starts,
            phase,
            cell,
            pegs,
            device.peg_circle / device.flap_length if device.pegs else 0.0,
            device.friction,
            device.drag,
            device.edges,
            device.fact_of_sector,
            device.tip,
            self.time_limit,
            reach,
            tolerance,
            times,
            *columns.filled(gone=False),
        )
        return assemble(device, launches, columns, fps, times)


@jit
def stopped_at(size, friction, drag):
    """Return when [s] a free wheel let go at `size` [rad/s] stands still."""
    u = drag * size / friction
    return size / friction * (1.0 - u / 2.0 + u * u / 3.0) if u < SERIES else math.log1p(u) / drag


@jit
def turned(time, speed, friction, drag):
    """Return the angle [rad] gone by `time` [s] and the speed [rad/s] then, of a wheel let go at `speed`, up to its stop."""
    size = abs(speed)
    stop = stopped_at(size, friction, drag)
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
def swung(time, depth, rate, friction, drag, stiffness):
    """Return how deep [rad] a peg is in the flapper and how fast it goes in [rad/s], `time` [s] after `depth` and `rate`.

    u'' = -k u - b u' - a sgn(u'), less damped than critically, up to its next turn; a `rate` of 0 is one outwards.
    """
    middle = -friction / stiffness if rate > 0.0 else friction / stiffness
    away, slow = depth - middle, drag / 2.0
    turning = math.sqrt(stiffness - slow * slow)
    c, s, left = math.cos(turning * time), math.sin(turning * time), math.exp(-slow * time)
    place = left * (away * c + (rate + slow * away) / turning * s)
    return middle + place, left * (rate * c - (stiffness * away + slow * rate) / turning * s)


@jit
def _turn(depth, rate, friction, drag, stiffness):
    """Return when [s] a peg in the flapper is at rest for the first time from now: its speed goes as sin(turning t - angle)."""
    inwards = rate > 0.0
    away, slow = depth + (friction if inwards else -friction) / stiffness, drag / 2.0
    turning = math.sqrt(stiffness - slow * slow)
    across = (stiffness * away + slow * rate) / turning
    return math.atan2(abs(rate), across if inwards else -across) / turning


FREE, PUSHED, STILL = 0, 1, 2  # a phase: no peg at the flapper; one pushing it; at rest for good
KIND, BEGUN, UNTIL, ANGLE, SPEED, CELL, SIDE, TO = range(8)  # of a phase, a row of floats; TO: depth or way at its end


@jit
def _reached(phase, time, pegs, friction, drag):
    """Return how far a phase has got `time` [s] after its beginning, and at what speed: the way, or the depth of a peg."""
    if phase[KIND] == PUSHED:
        depth, rate = _depth(phase, pegs)
        return swung(time, depth, rate, friction, drag, pegs[3])
    gone, speed = turned(time, phase[SPEED], friction, drag)
    return abs(gone), abs(speed)


@jit
def _depth(phase, pegs):
    """Return the depth [rad] at which the peg of a phase began, and its speed inwards [rad/s]."""
    spacing, half, _, _ = pegs
    edge = phase[CELL] + (half if phase[SIDE] < 0.0 else spacing - half)
    return phase[SIDE] * (phase[ANGLE] - edge), phase[SIDE] * phase[SPEED]


@jit
def _when(phase, late, pegs, friction, drag):
    """Return when [s] after its beginning a phase gets to its end TO, which it does once and before `late` [s].

    Newton's iteration held inside a bracket.
    """
    low, high, time = 0.0, late, 0.5 * late
    rises = phase[KIND] == FREE or phase[TO] > 0.0
    for _ in range(100):
        place, speed = _reached(phase, time, pegs, friction, drag)
        if (place < phase[TO]) == rises:
            low = time
        else:
            high = time
        better = time - (place - phase[TO]) / speed if speed != 0.0 else low
        if not low < better < high:
            better = 0.5 * (low + high)
        if abs(better - time) <= 1e-15 * late:
            return better
        time = better
    return time


@jit
def _begin(phase, kind, time, angle, speed, pegs, friction, drag):
    """Begin a phase at `time` [s] and work out when it ends."""
    spacing, half, slip, stiffness = pegs
    phase[KIND], phase[BEGUN], phase[UNTIL], phase[ANGLE], phase[SPEED] = kind, time, math.inf, angle, speed
    if kind == FREE and spacing > 0.0:
        edge = phase[CELL] + (half if speed < 0.0 else spacing - half)
        phase[TO] = abs(edge - angle)
        stop = abs(turned(math.inf, speed, friction, drag)[0])
        if stop > phase[TO]:
            phase[UNTIL] = time + _when(phase, stopped_at(abs(speed), friction, drag), pegs, friction, drag)
    elif kind == PUSHED:
        depth, rate = _depth(phase, pegs)
        if rate == 0.0 and stiffness * depth <= friction:
            phase[KIND], phase[SPEED] = STILL, 0.0
            return
        turn = _turn(depth, rate, friction, drag, stiffness)
        furthest = swung(turn, depth, rate, friction, drag, stiffness)[0]
        phase[TO] = slip if rate > 0.0 else 0.0
        ends = furthest >= slip if rate > 0.0 else furthest < 0.0
        phase[UNTIL] = time + (_when(phase, turn, pegs, friction, drag) if ends else turn)
        if not ends:
            phase[TO] = math.nan


@jit
def _next(phase, pegs, friction, drag):
    """Go on from the end of a phase to the one after it."""
    spacing, half, slip, _ = pegs
    time = phase[UNTIL]
    place, speed = _reached(phase, time - phase[BEGUN], pegs, friction, drag)
    if phase[KIND] == FREE:  # it meets a peg
        side = -1.0 if phase[SPEED] < 0.0 else 1.0
        phase[SIDE] = side
        _begin(phase, PUSHED, time, phase[CELL] + (half if side < 0.0 else spacing - half), side * speed, pegs, friction, drag)
        return
    side = phase[SIDE]
    edge = phase[CELL] + (half if side < 0.0 else spacing - half)
    if math.isnan(phase[TO]):  # it turns
        _begin(phase, PUSHED, time, edge + side * place, 0.0, pegs, friction, drag)
    elif phase[TO] > 0.0:  # the peg slips off: it is on the other side now
        phase[CELL] += side * spacing
        _begin(phase, FREE, time, edge + side * slip, side * speed, pegs, friction, drag)
    else:  # the flapper has pushed it out
        _begin(phase, FREE, time, edge, side * speed, pegs, friction, drag)


@jit
def _at(phase, time, pegs, friction, drag):
    """Return the wheel's angle [rad] and speed [rad/s] and how far [rad] the flapper is pushed at a later `time` [s]."""
    while phase[UNTIL] < time:
        _next(phase, pegs, friction, drag)
    if phase[KIND] == PUSHED:
        depth, rate = _reached(phase, time - phase[BEGUN], pegs, friction, drag)
        side = phase[SIDE]
        return phase[CELL] + (pegs[1] if side < 0.0 else pegs[0] - pegs[1]) + side * depth, side * rate, side * depth
    if phase[KIND] == STILL:
        return phase[ANGLE], 0.0, phase[SIDE] * _depth(phase, pegs)[0]
    gone, speed = turned(time - phase[BEGUN], phase[SPEED], friction, drag)
    return phase[ANGLE] + gone, speed, 0.0


@jit
def _place(bodies, angle, speed, pushed, ratio):
    """Write orientation and spin of wheel and flapper into `bodies` (L, 13); `ratio`: the pegs' circle over its length."""
    s, c = math.sin(angle / 2.0), math.cos(angle / 2.0)
    x, w = FACING[0], FACING[3]
    body = bodies[0]
    body[3], body[4], body[5], body[6] = x * c, -x * s, w * s, w * c
    body[11] = -speed
    if len(bodies) > 1:
        tilt = math.asin(pushed * ratio)
        bodies[1, 4], bodies[1, 6] = math.sin(tilt / 2.0), math.cos(tilt / 2.0)
        bodies[1, 11] = speed * ratio / math.cos(tilt) if pushed != 0.0 else 0.0


@jit
def _release(phase, cell, angle, speed, pegs, friction, drag):
    """Begin with the wheel as the hand leaves it."""
    phase[CELL], phase[SIDE] = cell, -1.0
    at_peg = pegs[0] > 0.0 and angle - cell < pegs[1]
    _begin(phase, PUSHED if at_peg else FREE, 0.0, angle, speed, pegs, friction, drag)


@jit
def _spin(
    starts, angle, cell, pegs, ratio, friction, drag, edges, fact_of_sector, tip, limit, reach, tolerance, times,
    code, first, strongest, settled, end_time, end, frames, frame_count,
):  # fmt: skip
    bodies = np.zeros(starts.shape[1:])
    held = np.zeros((len(bodies), 7))
    phase = np.zeros(8)
    for i in range(len(starts)):
        bodies[:] = starts[i]
        speed0 = -starts[i, 0, 11]
        since, time, number = math.nan, 0.0, 0
        _release(phase, cell, angle, speed0, pegs, friction, drag)
        while not settled[i] and number * READ_STEP < limit - 1e-9:
            number += 1
            time = min(number * READ_STEP, limit)
            place, speed, pushed = _at(phase, time, pegs, friction, drag)
            _place(bodies, place, speed, pushed, ratio)
            shown = _shown(place, speed, edges, fact_of_sector, tip)
            code[i] = shown
            if first[i] < 0 <= shown:
                first[i] = shown
            strongest[i] = max(strongest[i], shown)
            since = still_since(time, bodies, held, since, reach, tolerance)
            settled[i] = is_rest(time, since)
        end_time[i] = time
        end[i] = bodies
        _release(phase, cell, angle, speed0, pegs, friction, drag)
        for f in range(len(times)):
            if times[f] > time:
                break
            place, speed, pushed = _at(phase, times[f], pegs, friction, drag)
            frames[i, f] = starts[i]
            _place(frames[i, f], place, speed, pushed, ratio)
            frame_count[i] = f + 1
