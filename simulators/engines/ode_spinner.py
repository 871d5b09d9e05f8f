"""The spinner's equations for the ODE engine, with and without pegs, and SciPy's solver as all its devices call it.

Written anew, not as the kernel has them: every phase of the motion is integrated. It refuses to know sectors and labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from simulators import rotation
from simulators.device import Device
from simulators.devices.spinner import FACING, Spinner
from simulators.rotation import Array

Motion = Callable[[Array], Array]
"""Bodies (T, L, 13) at ascending times (T,) [s]."""


def solve(rhs: Callable[..., Any], limit: float, y: Array, tolerance: float, *events: Callable[..., float], start: float = 0.0):
    """Return SciPy's solution with dense output. Raises `ArithmeticError` where it gives up: no physical outcome."""
    found = solve_ivp(
        rhs, (start, limit), y, method="DOP853", rtol=tolerance, atol=tolerance, events=list(events) or None, dense_output=True
    )
    if found.status < 0 or not np.all(np.isfinite(found.y[:, -1])):
        raise ArithmeticError(f"DOP853 gave up at {found.t[-1]:.6g} s: {found.message}")
    return found


def spinner_motion(device: Device, start: Array, limit: float, tolerance: float) -> Motion:
    """Return the wheel's motion: the angle gone and the speed, until an event finds the speed at 0."""
    spinner: Spinner = device  # type: ignore[assignment]
    if spinner.pegs:
        return _prize_wheel(spinner, start, limit, tolerance)
    way = -math.copysign(1.0, start[0, 11])

    def rhs(_: float, y: Array) -> tuple[float, float]:
        return y[1], -spinner.friction - spinner.drag * y[1]

    def stopped(_: float, y: Array) -> float:
        return y[1]

    stopped.terminal, stopped.direction = True, -1  # type: ignore[attr-defined]
    found = solve(rhs, limit, np.array([0.0, abs(start[0, 11])]), tolerance, stopped)

    def bodies(times: Array) -> Array:
        inside = np.minimum(times, found.t[-1])
        angle, speed = found.sol(inside)
        speed = np.where(times < found.t[-1], speed, 0.0)
        rows = np.repeat(start[None], len(times), axis=0)
        about = rotation.about((0.0, 0.0, 1.0), spinner.phase_at_release + way * angle)
        rows[:, 0, 3:7] = rotation.multiply(np.array(FACING), about)
        rows[:, 0, 11] = -way * speed
        return rows

    return bodies


def _prize_wheel(spinner: Spinner, start: Array, limit: float, tolerance: float) -> Motion:
    """Return the motion of wheel and flapper, from one event to the next.

    Peg number n, any whole number, stands at wheel angle + n spacings; number `last` is the last that has not yet passed.
    """
    spacing, half, slip, stiffness = spinner.spacing, spinner.peg_half, spinner.slip, spinner.flap_rate
    under, angle = math.pi / 2.0, spinner.phase_at_release
    last = math.ceil((under - spinner.phase) / spacing)
    while angle + last * spacing - under < half - slip:  # those that the hand has carried past
        last += 1
    phases, time, y, side = list[Any](), 0.0, np.array([angle, -start[0, 11]]), 0
    if angle + last * spacing - under < half:
        side = -1  # the flapper is pushed clockwise
    while time < limit:
        edge = under - last * spacing + (half if side < 0 else spacing - half)
        push = side * (y[0] - edge) if side else 0.0
        if y[1] == 0.0 and stiffness * push <= spinner.friction:
            break
        way = math.copysign(1.0, y[1]) if y[1] != 0.0 else -float(side)
        low, high = under - last * spacing + half, under - (last - 1) * spacing - half

        def rhs(_: float, y: Array, way: float = way, side: int = side, edge: float = edge) -> tuple[float, float]:
            spring = stiffness * (y[0] - edge) if side else 0.0
            return y[1], -way * spinner.friction - spinner.drag * y[1] - spring

        def stopped(_: float, y: Array, way: float = way) -> float:
            return way * y[1]

        def meets(_: float, y: Array, way: float = way, low: float = low, high: float = high) -> float:
            return high - y[0] if way > 0.0 else y[0] - low

        def leaves(_: float, y: Array, side: int = side, edge: float = edge) -> float:
            return side * (y[0] - edge)

        def slips(_: float, y: Array, side: int = side, edge: float = edge) -> float:
            return slip - side * (y[0] - edge)

        events: list[Any] = [stopped, leaves, slips] if side else [stopped, meets]
        for event in events:
            event.terminal, event.direction = True, -1
        found = solve(rhs, limit, y, tolerance, *events, start=time)
        happened = [len(t) > 0 for t in found.t_events]
        if happened[0] and any(event(0.0, found.y[:, -1]) < 0.0 for event in events[1:]):
            # A long step went past a place and, beyond the stop, back: with the stop for its end it cannot.
            found = solve(rhs, float(found.t[-1]), y, tolerance, *events[1:], start=time)
            happened = [False, *(len(t) > 0 for t in found.t_events)]
        phases.append((found, side, edge))
        time, y = float(found.t[-1]), found.y[:, -1].copy()
        if happened[0]:
            y[1] = 0.0
        elif any(happened):
            last += -side if happened[-1] and side else 0
            side = 0 if side else int(way)
    ends = np.array([found.t[-1] for found, _, _ in phases])
    ratio = spinner.peg_circle / spinner.flap_length

    def bodies(times: Array) -> Array:
        rows = np.repeat(start[None], len(times), axis=0)
        for row, t in zip(rows, times, strict=True):
            if not phases:
                continue  # it never moved
            at = min(int(np.searchsorted(ends, t)), len(ends) - 1)
            found, side, edge = phases[at]
            angle, speed = found.sol(min(t, ends[at]))
            speed = 0.0 if t >= ends[-1] and y[1] == 0.0 else speed
            pushed = angle - edge if side else 0.0
            row[0, 3:7] = rotation.multiply(np.array(FACING), rotation.about((0.0, 0.0, 1.0), angle))
            row[0, 11] = -speed
            tilt = math.asin(pushed * ratio)
            row[1, 3:7] = rotation.about((0.0, 1.0, 0.0), tilt)
            row[1, 11] = speed * ratio / math.cos(tilt) if pushed != 0.0 else 0.0
        return rows

    return bodies
