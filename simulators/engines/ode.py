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
from scipy.integrate import ode

from simulators import rotation
from simulators.compiled import jit
from simulators.device import Device, Launches, Rollouts, State
from simulators.devices.double_pendulum import DoublePendulum
from simulators.devices.pencil import Pencil
from simulators.devices.spinner import Spinner
from simulators.engines.loop import READ_RATE
from simulators.engines.ode_spinner import Motion, solve, spinner_motion
from simulators.kernels.frames import Columns, assemble, bodies_at, frame_times, is_rest, reaches, rest_distance, still_since
from simulators.rotation import Array


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


CREEP = 1e-5  # m/s: slower, a sliding tip's friction keeps the direction it began with, which would else be stiff


@dataclass(frozen=True)
class _Rod:
    """A pencil's equations in the angles a (lean to the right) and b (away): u = (sin a cos b, sin b, cos a cos b).

    State (8,): a, b, their rates, the tip's place and velocity. Lagrange's equations of a rod whose tip keeps its height.
    """

    pencil: Pencil
    gravity: float

    def axis(self, y: Array) -> tuple[Array, Array, Array]:
        """Return u (3,), its Jacobian (3, 2) and the part of u'' (3,) that the rates alone make."""
        a, b, p, q = y[:4]
        sa, ca, sb, cb = math.sin(a), math.cos(a), math.sin(b), math.cos(b)
        jacobian = np.array([[ca * cb, -sa * sb], [0.0, cb], [-sa * cb, -ca * sb]])
        bias = np.array(
            [
                -sa * cb * (p * p + q * q) - 2.0 * ca * sb * p * q,
                -sb * q * q,
                -ca * cb * (p * p + q * q) + 2.0 * sa * sb * p * q,
            ]
        )
        return np.array([sa * cb, sb, ca * cb]), jacobian, bias

    def standing(self, y: Array) -> tuple[Array, Array]:
        """Return a'', b'' (2,) about a tip that stays, and the force on it over the mass (3,)."""
        c, about_tip = self.pencil.centre, self.pencil.gyration + self.pencil.centre**2
        a, b, p, q = y[:4]
        k = self.gravity * c / about_tip
        bend = np.array(
            [
                k * math.sin(a) / math.cos(b) + 2.0 * p * q * math.tan(b),
                k * math.cos(a) * math.sin(b) - p * p * math.sin(b) * math.cos(b),
            ]
        )
        _, jacobian, bias = self.axis(y)
        turned = (jacobian * bend).sum(axis=1) + bias
        return bend, c * turned + np.array([0.0, 0.0, self.gravity])

    def spare(self, y: Array) -> float:
        """Return how much more friction there is than a standing tip needs, over the mass [m/s^2]."""
        force = self.standing(y)[1]
        return self.pencil.friction * force[2] - math.hypot(force[0], force[1])

    def sliding(self, y: Array, way: Array) -> Array:
        """Return a'', b'' and the tip's acceleration (4,) under friction along `way` (2,)."""
        c, about_tip = self.pencil.centre, self.pencil.gyration + self.pencil.centre**2
        _, j, bias = self.axis(y)
        rub = self.pencil.friction * way
        matrix, right = np.zeros((4, 4)), np.zeros(4)
        matrix[:2, :2] = about_tip * j.T @ j
        matrix[:2, 2:] = c * j[:2].T
        right[:2] = -about_tip * j.T @ bias - self.gravity * c * j[2]
        matrix[2:, :2] = c * j[:2] - c * np.outer(rub, j[2])
        matrix[2:, 2:] = np.eye(2)
        right[2:] = rub * (self.gravity + c * bias[2]) - c * bias[:2]
        return np.asarray(np.linalg.solve(matrix, right), float)


def _pencil(device: Device, start: Array, limit: float, tolerance: float) -> Motion:
    """Return the pencil's motion: phases of a standing and a sliding tip, events between them, then how it lies down."""
    pencil: Pencil = device  # type: ignore[assignment]
    rod = _Rod(pencil, pencil.world().gravity)
    lowest = pencil.radius / math.hypot(pencil.radius, pencil.point)
    spin = start[0, 10:13]
    rate = np.cross(spin, [math.sin(pencil.lean), 0.0, math.cos(pencil.lean)])
    right = np.array([math.cos(pencil.lean), 0.0, -math.sin(pencil.lean)])
    y = np.array([pencil.lean, 0.0, float((rate * right).sum()), rate[1], 0.0, 0.0, 0.0, 0.0])

    def lies(_: float, y: Array) -> float:
        return math.cos(y[0]) * math.cos(y[1]) - lowest

    lies.terminal, lies.direction = True, -1  # type: ignore[attr-defined]
    phases, time, slides = list[Any](), 0.0, rod.spare(y) <= 0.0
    while time < limit:
        force = rod.standing(y)[1][:2]
        way = force / max(float(np.hypot(*force)), 1e-300)  # as a slide begins: against where the tip would go

        def rhs(_: float, y: Array, slides: bool = slides, way: Array = way) -> Array:
            if not slides:
                return np.concatenate([y[2:4], rod.standing(y)[0], np.zeros(4)])
            speed = np.hypot(*y[6:])
            bend = rod.sliding(y, -y[6:] / speed if speed > CREEP else way)
            return np.concatenate([y[2:4], bend[:2], y[6:], bend[2:]])

        def changes(_: float, y: Array, slides: bool = slides, way: Array = way) -> float:
            return float((y[6:] * way).sum()) if slides else rod.spare(y)

        changes.terminal, changes.direction = True, 1 if slides else -1  # type: ignore[attr-defined]
        found = solve(rhs, limit, y, tolerance, lies, changes, start=time)
        phases.append(found)
        time, y = float(found.t[-1]), found.y[:, -1].copy()
        if found.status == 0 or len(found.t_events[0]):
            break
        if slides:
            y[6:] = 0.0
        slides = not slides or rod.spare(y) <= 0.0  # a slide that ends may go on the other way
    lain = _lying(rod, y, time, tolerance) if phases[-1].status == 1 else None

    def bodies(times: Array) -> Array:
        rows = np.zeros((len(times), 1, 13))
        for row, t in zip(rows[:, 0], times, strict=True):
            if lain is not None and t >= time:
                tip, u, v, w = lain(float(t))
            else:
                z = next(f for f in phases if t <= f.t[-1]).sol(t)
                u, jacobian, _ = rod.axis(z)
                tip, v, w = np.array([*z[4:6], 0.0]), np.array([*z[6:], 0.0]), (jacobian * z[2:4]).sum(axis=1)
            row[:3], row[7:10], row[10:] = tip + pencil.centre * u, v + pencil.centre * w, np.cross(u, w)
            row[3:7] = np.array([-u[1], u[0], 0.0, 1.0 + u[2]]) / math.sqrt(2.0 + 2.0 * u[2])
        return rows

    return bodies


def _lying(rod: _Rod, y: Array, begun: float, tolerance: float) -> Callable[[float], tuple[Array, Array, Array, Array]]:
    """Return tip, axis and their velocities at a time [s] after the cone has met the table (see `PencilKernel`)."""
    pencil, g = rod.pencil, rod.gravity
    c, gyration, radius, mu = pencil.centre, pencil.gyration, pencil.radius, pencil.friction
    behind = c - pencil.point
    u, jacobian, _ = rod.axis(y)
    w = (jacobian * y[2:4]).sum(axis=1)
    flat = math.hypot(u[0], u[1])
    out, up = np.array([u[0], u[1], 0.0]) / flat, np.array([0.0, 0.0, 1.0])
    lean = math.asin(u[2])
    velocity = np.array([*y[6:], 0.0]) + c * w

    def arm(lean: float) -> float:
        return behind * math.cos(lean) - radius * math.sin(lean)

    # The impulse that stops the shoulder, over the mass: an effective mass at its place.
    spin = -w[2] / flat
    stopped = velocity[2] + spin * arm(lean)
    impulse = -stopped * gyration / (gyration + arm(lean) ** 2)
    speed = float((velocity * out).sum())
    first = math.copysign(max(abs(speed) - mu * impulse, 0.0), speed)
    spin += impulse * arm(lean) / gyration

    def rhs(_: float, x: Array) -> tuple[float, float]:
        slope = -behind * math.sin(x[0]) - radius * math.cos(x[0])
        return x[1], -arm(x[0]) * (g + slope * x[1] ** 2) / (gyration + arm(x[0]) ** 2)

    def level(_: float, x: Array) -> float:
        return x[0]

    level.terminal, level.direction = True, -1  # type: ignore[attr-defined]
    turn = solve(rhs, 10.0, np.array([lean, -spin]), tolerance, level)
    slap, down = float(turn.t[-1]), -float(turn.y[1, -1])
    second = math.copysign(max(abs(first) - mu * behind * down, 0.0), first)
    length = abs(second) / (mu * g) if mu > 0.0 else math.inf
    landed = np.array([*y[4:6], 0.0]) + c * flat * out

    def at(time: float) -> tuple[Array, Array, Array, Array]:
        since = time - begun
        if since < slap:
            angle, rate = turn.sol(since)
            gone, slide = first * since, first
        else:
            angle, rate = 0.0, 0.0
            t = min(since - slap, length)
            slide = second - math.copysign(mu * g, second) * t
            gone = first * slap + (second + slide) / 2.0 * t
        s, k = math.sin(angle), math.cos(angle)
        axis, normal = k * out + s * up, k * up - s * out
        centre = landed + gone * out + (behind * s + radius * k) * up
        turning = rate * normal
        return centre - c * axis, axis, slide * out + rate * arm(angle) * up - c * turning, turning

    return at


MOTIONS: dict[type, Callable[[Device, Array, float, float], Motion]] = {
    DoublePendulum: _double_pendulum,
    Pencil: _pencil,
    Spinner: spinner_motion,
}
