"""The independent check of devices whose motion is a few smooth equations: SciPy's DOP853, one rollout at a time.

Each device's equations are written here anew, in other coordinates than its kernel's. It refuses to know labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version as installed
from typing import Any, ClassVar

import numpy as np
from scipy.integrate import ode, solve_ivp

from simulators import rotation
from simulators.compiled import jit
from simulators.device import Device, Launches, Rollouts, State
from simulators.devices.double_pendulum import DoublePendulum
from simulators.devices.spinner import FACING, Spinner
from simulators.engines.loop import READ_RATE
from simulators.kernels.frames import Columns, assemble, bodies_at, frame_times, is_rest, reaches, rest_distance, still_since
from simulators.rotation import Array

Motion = Callable[[Array], Array]
"""Bodies (T, L, 13) at ascending times (T,) [s]."""


@dataclass(frozen=True)
class Ode:
    """DOP853 with `tolerance` as relative and absolute error a step; a rollout is `unsettled` after `time_limit` [s]."""

    time_limit: float
    tolerance: float = 1e-9

    name: ClassVar[str] = "ode"
    steps_per_second: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not 0.0 < self.time_limit <= 3600.0:
            raise ValueError(f"`time_limit` must be in (0, 3600] seconds, got {self.time_limit}")
        if not 1e-13 <= self.tolerance <= 1e-3:
            raise ValueError(f"`tolerance` must be from 1e-13 to 1e-3, got {self.tolerance}")

    @property
    def version(self) -> str:
        """The installed SciPy, and the version of this file's equations."""
        return f"scipy-{installed('scipy')}/1"

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row. Raises `TypeError` for a device whose equations are not here."""
        motion_of = MOTIONS.get(type(device))
        if motion_of is None:
            known = ", ".join(cls.__name__ for cls in MOTIONS)
            raise TypeError(f"the ODE engine integrates {known}; got {type(device).__name__}")
        world = device.world()
        times = frame_times(world, fps, self.time_limit)
        columns = Columns.empty(len(launches), len(world.loose), len(world.watched), len(times))
        limit = self.time_limit if device.end_time is None else min(device.end_time, self.time_limit)
        count = math.ceil(limit * READ_RATE - 1e-9)
        instants = np.minimum(np.arange(1, count + 1) / READ_RATE, limit)
        for i, start in enumerate(bodies_at(launches.start, world.loose)):
            motion = motion_of(device, start, limit, self.tolerance)
            bodies = motion(instants)
            shown = np.asarray(device.read(_states(launches, i, world.loose, instants, bodies)))
            last = _rest(bodies, instants, reaches(world), rest_distance(world)) if device.readout != "last" else None
            end = count - 1 if last is None else last
            decisive = shown[: end + 1][shown[: end + 1] >= 0]
            columns.settled[i] = last is not None
            columns.code[i] = shown[end]
            columns.first[i] = decisive[0] if len(decisive) else -1
            columns.strongest[i] = shown[: end + 1].max()
            columns.end_time[i], columns.end[i] = instants[end], bodies[end]
            reached = times[times <= instants[end]]
            columns.frame_count[i] = len(reached)
            if len(reached):
                columns.frames[i, : len(reached)] = motion(reached)
        return assemble(device, launches, columns, fps, times)


def _states(launches: Launches, i: int, loose: tuple[int, ...], times: Array, bodies: Array) -> State:
    """Return the states (T,) of row `i` with its loose bodies (T, L, 13) in place."""
    start = launches.start[i : i + 1]
    states = start[np.zeros(len(times), np.int64)].copy()
    states.time[:] = times
    rows = list(loose)
    for at, name in ((slice(0, 3), "pos"), (slice(3, 7), "quat"), (slice(7, 10), "vel"), (slice(10, 13), "omega")):
        getattr(states, name)[:, rows] = bodies[:, :, at]
    return states


def _rest(bodies: Array, times: Array, reach: Array, tolerance: float) -> int | None:
    """Return the row of `times` at which rest is established, None if it never is."""
    held, since = np.zeros((bodies.shape[1], 7)), math.nan
    for row, time in enumerate(times):
        since = still_since(float(time), bodies[row], held, since, reach, tolerance)
        if is_rest(float(time), since):
            return row
    return None


def _spinner(device: Device, start: Array, limit: float, tolerance: float) -> Motion:
    """Return the wheel's motion: the angle gone and the speed, until an event finds the speed at 0."""
    spinner: Spinner = device  # type: ignore[assignment]
    way = -math.copysign(1.0, start[0, 11])

    def rhs(_: float, y: Array) -> tuple[float, float]:
        return y[1], -spinner.friction - spinner.drag * y[1]

    def stopped(_: float, y: Array) -> float:
        return y[1]

    stopped.terminal, stopped.direction = True, -1  # type: ignore[attr-defined]
    found = _solve(rhs, limit, np.array([0.0, abs(start[0, 11])]), tolerance, stopped)

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


@jit
def _lagrange(_, y, ratio, rate):
    """Return the time derivative of angles and rates (4,): Lagrange's equations of two equal masses.

    `ratio` is outer over inner length, `rate` gravity over the inner length [1/s^2].
    """
    a, b, p, q = y
    c, s = math.cos(a - b), math.sin(a - b)
    # 2 p' + ratio c q' = f;  c p' + ratio q' = k
    f = -ratio * s * q * q - 2.0 * rate * math.sin(a)
    k = s * p * p - rate * math.sin(b)
    scale = 1.0 / (2.0 - c * c)
    return np.array([p, q, (f - c * k) * scale, (2.0 * k - c * f) * scale / ratio])


def _double_pendulum(device: Device, start: Array, limit: float, tolerance: float) -> Motion:
    """Return the motion of both arms, as their angles from straight down."""
    pendulum: DoublePendulum = device  # type: ignore[assignment]
    l1, l2 = pendulum.inner_length, pendulum.outer_length
    ratio, rate = l2 / l1, pendulum.world().gravity / l1
    y = np.array([pendulum.inner_angle, pendulum.outer_angle, -start[0, 11], -start[1, 11]])
    # Hairer's own code, not SciPy's rewriting of it: a swing has hundreds of steps. It has no dense output, so that times
    # between the 60 Hz instants are reached from the instant before, and recording changes nothing.
    solver = ode(lambda t, y: _lagrange(t, y, ratio, rate)).set_integrator(
        "dop853", rtol=tolerance, atol=tolerance, nsteps=10_000
    )

    def reached(y: Array, begun: float, time: float) -> Array:
        solver.set_initial_value(y, begun)
        y = solver.integrate(time)
        if not solver.successful() or not np.all(np.isfinite(y)):
            raise ArithmeticError(f"DOP853 gave up between {begun:.6g} and {time:.6g} s (code {solver.get_return_code()})")
        return y

    instants = [y]
    for number in range(math.ceil(limit * READ_RATE - 1e-9)):
        instants.append(reached(instants[-1], number / READ_RATE, (number + 1) / READ_RATE))

    def at(time: float) -> Array:
        number = math.floor(time * READ_RATE + 1e-9)
        before = number / READ_RATE
        return reached(instants[number], before, time) if time - before > 1e-9 else instants[number]

    def bodies(times: Array) -> Array:
        rows = np.repeat(start[None], len(times), axis=0)
        angles = np.array([at(float(time)) for time in times]).T
        pos, vel = np.array([0.0, 0.0, pendulum.pivot_height]), np.zeros(3)
        for arm, length in enumerate((l1, l2)):
            angle, turning = angles[arm, :, None], angles[arm + 2, :, None]
            pos = pos + length * (np.sin(angle) * (1.0, 0.0, 0.0) - np.cos(angle) * (0.0, 0.0, 1.0))
            vel = vel + length * turning * (np.cos(angle) * (1.0, 0.0, 0.0) + np.sin(angle) * (0.0, 0.0, 1.0))
            rows[:, arm, :3], rows[:, arm, 7:10] = pos, vel
            rows[:, arm, 3:7] = rotation.about((0.0, 1.0, 0.0), -angles[arm])
            rows[:, arm, 11] = -angles[arm + 2]
        return rows

    return bodies


def _solve(
    rhs: Callable[..., Any], limit: float, y: Array, tolerance: float, *events: Callable[..., float], start: float = 0.0
):
    """Return SciPy's solution with dense output. Raises `ArithmeticError` where it gives up: no physical outcome."""
    found = solve_ivp(
        rhs, (start, limit), y, method="DOP853", rtol=tolerance, atol=tolerance, events=list(events) or None, dense_output=True
    )
    if found.status < 0 or not np.all(np.isfinite(found.y[:, -1])):
        raise ArithmeticError(f"DOP853 gave up at {found.t[-1]:.6g} s: {found.message}")
    return found


MOTIONS: dict[type, Callable[[Device, Array, float, float], Motion]] = {
    DoublePendulum: _double_pendulum,
    Spinner: _spinner,
}
