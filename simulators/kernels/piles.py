"""The kernel of piles: equal balls in containers, shaken or stirred, for any device whose world is made of such.

It integrates and records; what a heap shows is asked of the device at 60 Hz, as in the engines' loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from simulators.device import NO_MOVES, Acting, Device, Launches, Rollouts, State
from simulators.engines.loop import READ_RATE, BlowUpError
from simulators.kernels.driven_shapes import BOX, CAPSULE, clearances, poses_at
from simulators.kernels.frames import Columns, assemble, bodies_at, frame_times, rest_distance
from simulators.kernels.pile_dynamics import roll
from simulators.rotation import Array
from simulators.world import Body, Box, Capsule, Move, Shape, Sphere, Surface, Vec3, World

LEAST_RESTITUTION = 0.15  # a spring and dashpot that lets go without pulling returns at least exp(-2) of a speed
_Ints = NDArray[np.int64]
_Pile = tuple[float, float, float, Array, _Ints, Array, Array, Array, _Ints, Array, Array]
_Keys = tuple[_Ints, Array, Array, Array, NDArray[np.bool_]]
NEVER = np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])


@dataclass(frozen=True)
class Grip:
    """A hand that closes: at `time` [s] the ball nearest to `point` [m, from the origin of driven `body`] within `reach` [m].

    From then on a spring keeps that ball there.
    """

    time: float
    body: str
    point: Vec3
    reach: float


@runtime_checkable
class Gripping(Protocol):
    """A device one of whose driven bodies is a hand."""

    @property
    def grip(self) -> Grip:
        """When, where and how far the hand closes."""


@dataclass(frozen=True)
class Piles:
    """Soft spheres at `steps_per_second`: two surfaces that meet part again after `contact_time` [s] (Cundall and Strack 1979).

    Stiffness and damping follow from that time and from the pair's restitution, which a collision of two has exactly in the
    limit of small steps: a contact ends where the force ends (Schwager and Poeschel 2007). Friction is Coulomb's, with a
    tangential spring that remembers; rolling friction slows all turning. A rollout is `unsettled` after `time_limit` [s].
    """

    steps_per_second: int
    time_limit: float
    contact_time: float

    name: ClassVar[str] = "piles"
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        step = 1.0 / self.steps_per_second if self.steps_per_second > 0 else math.inf
        if not 8.0 * step <= self.contact_time <= 0.1:
            raise ValueError(f"`contact_time` must be from 8 steps ({8.0 * step:g} s) to .1 s, got {self.contact_time!r}")

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row. Raises `TypeError` where the device's world holds anything but equal balls, boxes and capsules."""
        world, rate = device.world(), self.steps_per_second
        pile = _pile(world, self.contact_time)
        limit = round(self.time_limit * rate)
        last = round(device.end_time * rate) if device.readout == "last" and device.end_time is not None else limit
        last, per_read = min(last, limit), rate // READ_RATE
        times = frame_times(world, fps, last / rate)
        frame_steps = np.round(times * rate).astype(np.int64)
        n, balls = len(launches), len(world.loose)
        columns = Columns.empty(n, balls, len(world.watched), len(times))
        bodies = bodies_at(launches.start, world.loose)
        instants = np.zeros((last // per_read + 1, balls, 13))
        grip = self._grip(device, world)
        for i in range(n):
            moves = device.drive(launches.row(i)) if isinstance(device, Acting) else NO_MOVES
            keys = _keys(world, moves)
            steps, read, shot, settled, gone = roll(
                bodies[i], *pile, *keys, grip, 1.0 / rate, per_read, last, device.readout != "last", rest_distance(world),
                np.array(world.bounds[0]), np.array(world.bounds[1]), instants, frame_steps, columns.frames[i],
            )  # fmt: skip
            if not np.all(np.isfinite(bodies[i])):
                raise BlowUpError(
                    f"rollout {launches.index[i]} blew up in {self.name} by {steps / rate:.3f} s after release; raise "
                    f"steps_per_second ({rate}) or mend the device's parameters"
                )
            shown = device.read(_seen(world, instants[:read], steps / rate, keys))
            decisive = shown[shown >= 0]
            columns.code[i] = shown[-1]
            columns.first[i] = decisive[0] if len(decisive) else -1
            columns.strongest[i] = decisive.max() if len(decisive) else -1
            columns.settled[i], columns.gone[i] = settled, gone
            columns.end_time[i], columns.end[i], columns.frame_count[i] = steps / rate, bodies[i], shot
        return assemble(device, launches, columns, fps, times)

    def _grip(self, device: Device, world: World) -> Array:
        if not isinstance(device, Gripping):
            return NEVER
        grip = device.grip
        hand = [body.name for body in _driven(world)].index(grip.body)
        return np.array([round(grip.time * self.steps_per_second), hand, *grip.point, grip.reach], float)


SETTLING = Piles(steps_per_second=24000, time_limit=6.0, contact_time=1e-3)
"""What brings a heap to rest before frame 0: part of the picture, whatever runs the rollouts.

With balls harder than any that run: softer ones sink into one another from there, where harder ones would start by springing
out of their overlap.
"""


@lru_cache(maxsize=64)
def pour(apparatus: tuple[Body, ...], ball: Body, count: int, low: Vec3, high: Vec3) -> tuple[Vec3, ...]:
    """Return where `count` balls come to rest that are put on a lattice between `low` and `high` [m] and let go.

    From the first, which starts lowest, to the last; the bodies of `apparatus` stand still. Where there is room for one ball
    only abreast, neighbours lie alternately to either side of it: a ball would balance on one straight below. Raises
    `ValueError` where there is no room for them, or no rest.
    """
    radius = ball.parts[0].shape.radius  # type: ignore[union-attr]
    reach = 4.0 * max(b - a for a, b in zip(low, high, strict=True))
    world = World((*apparatus, ball), ((-reach,) * 3, (reach,) * 3))
    *_, kind, size, offset, tilt, _, _, home = _pile(world, SETTLING.contact_time)
    axes, aside = [], np.zeros(3)
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        fit = max(int((b - a - 2.0 * radius) / (2.02 * radius)), 0)
        axes.append((a + b) / 2.0 + 2.02 * radius * (np.arange(fit + 1) - fit / 2.0))
        aside[axis] = 0.49 * max(b - a - 2.0 * radius, 0.0) if fit == 0 and axis != 2 else 0.0
    sides = [(i + j + k) % 2 * 2 - 1 for k in range(len(axes[2])) for i in range(len(axes[0])) for j in range(len(axes[1]))]
    lattice = np.array([(x, y, z) for z in axes[2] for x in axes[0] for y in axes[1]]) + np.outer(sides, aside)
    free = lattice[clearances(kind, size, offset, tilt, home, lattice) > radius][:count]
    if len(free) < count:
        raise ValueError(f"there is room for {len(free)} balls only, not for {count}")
    balls = tuple(replace(ball, name=f"ball {i}", position=tuple(place)) for i, place in enumerate(free.tolist()))
    world = replace(world, bodies=(*apparatus, *balls))
    rate = SETTLING.steps_per_second
    bodies = bodies_at(State.at_release(world, 1), world.loose)[0]
    instants = np.zeros((round(SETTLING.time_limit * READ_RATE) + 1, count, 13))
    *_, settled, _ = roll(
        bodies, *_pile(world, SETTLING.contact_time), *_keys(world, NO_MOVES), NEVER, 1.0 / rate, rate // READ_RATE,
        round(SETTLING.time_limit * rate), True, 0.25 * rest_distance(world), np.array(world.bounds[0]),
        np.array(world.bounds[1]), instants, np.zeros(0, np.int64), np.zeros((0, count, 13)),
    )  # fmt: skip
    if not settled:
        raise ValueError(f"the balls do not come to rest inside the apparatus in {SETTLING.time_limit:g} s")
    return tuple((float(x), float(y), float(z)) for x, y, z in bodies[:, :3])


def _driven(world: World) -> list[Body]:
    return [body for body in world.moving if body.driven]


def contact_law(one: Surface, other: Surface, contact_time: float) -> tuple[float, float, float, float]:
    """Return stiffness [1/s^2] and damping [1/s] per reduced mass, friction, and rolling friction [m] of two surfaces.

    With x = damping rate / frequency a contact lasts (pi - 2 arctan x) / frequency and gives back exp(-x (pi - 2 arctan x))
    of its approach speed (Schwager and Poeschel 2007, doi 10.1007/s10035-007-0065-z, rewritten). Raises `ValueError` for a
    restitution that no such contact has.
    """
    restitution = math.sqrt(one.restitution * other.restitution)
    if not LEAST_RESTITUTION <= restitution <= 1.0:
        raise ValueError(f"a pair's restitution must be from {LEAST_RESTITUTION} to 1 in this kernel, got {restitution:g}")
    sides = math.sqrt(one.friction), math.sqrt(other.friction)
    rolling = one.rolling_friction * sides[1] + other.rolling_friction * sides[0]  # as Bullet combines it
    return (*_spring(restitution, contact_time), sides[0] * sides[1], rolling)


@lru_cache(maxsize=64)
def _spring(restitution: float, contact_time: float) -> tuple[float, float]:
    x = brentq(lambda x: math.exp(-x * (math.pi - 2.0 * math.atan(x))) - restitution, 0.0, 100.0)
    frequency = (math.pi - 2.0 * math.atan(x)) / contact_time
    return frequency**2 * (1.0 + x * x), 2.0 * x * frequency


def _pile(world: World, contact_time: float) -> _Pile:
    """Return what `roll` takes of a world: balls' radius, mass, gravity and law; shapes, their laws and fixed bodies' poses."""
    loose = [world.moving[i] for i in world.loose]
    kinds = {(b.parts[0].shape, b.mass, b.surface) for b in loose if len(b.parts) == 1 and isinstance(b.parts[0].shape, Sphere)}
    if len(kinds) != 1 or not all(len(b.parts) == 1 and isinstance(b.parts[0].shape, Sphere) for b in loose):
        raise TypeError("the kernel of piles takes worlds whose loose bodies are balls, all of one kind")
    ((ball, mass, surface),) = kinds
    driven = [body.name for body in _driven(world)]
    rows = []
    for body in world.bodies:
        if body.mass > 0.0 or not body.collides:
            continue
        law = contact_law(surface, body.surface, contact_time)
        moved = driven.index(body.name) if body.driven else -1
        rows += [
            (*_shape(part.shape), part.position, part.quaternion, moved, law, (*body.position, *body.quaternion))
            for part in body.parts
        ]
    if not rows:
        raise TypeError("the kernel of piles takes worlds with a container: this one has nothing for its balls to touch")
    kind, size, offset, tilt, moved_by, laws, home = zip(*rows, strict=True)
    return (
        ball.radius,  # type: ignore[union-attr]
        mass,
        world.gravity,
        np.array(contact_law(surface, surface, contact_time)),
        np.array(kind, np.int64),
        np.array(size, float),
        np.array(offset, float),
        np.array(tilt, float),
        np.array(moved_by, np.int64),
        np.array(laws, float),
        np.array(home, float),
    )


def _shape(shape: Shape) -> tuple[int, Vec3]:
    match shape:
        case Box(size=(a, b, c)):
            return BOX, (a / 2.0, b / 2.0, c / 2.0)
        case Capsule(radius=radius, length=length):
            return CAPSULE, (radius, 0.0, length / 2.0)
        case Sphere(radius=radius):
            return CAPSULE, (radius, 0.0, 0.0)
    raise TypeError(f"the kernel of piles knows boxes, capsules and balls, not {type(shape).__name__}")


def _keys(world: World, moves: Mapping[str, Move]) -> _Keys:
    """Return the keyframes of the driven bodies, one after another; one that no move names stands still."""
    bodies = _driven(world)
    each = [moves.get(b.name, Move((0.0,), (b.position,), (b.quaternion,))) for b in bodies]
    starts = np.cumsum([0, *(len(move.times) for move in each)])
    return (
        starts.astype(np.int64),
        np.array([t for move in each for t in move.times], float),
        np.array([p for move in each for p in move.positions], float).reshape(-1, 3),
        np.array([q for move in each for q in move.quaternions], float).reshape(-1, 4),
        np.array([move.eased for move in each], np.bool_),
    )


def _seen(world: World, instants: Array, end: float, keys: _Keys) -> State:
    """Return what a device reads: balls at 60 Hz `instants` (T, N, 13), the last at `end` [s], driven bodies on their moves."""
    time = np.append(np.arange(1, len(instants)) / READ_RATE, end)
    state = replace(State.at_release(world, len(time)), time=time)
    for row, i in enumerate(world.loose):
        state.pos[:, i], state.quat[:, i] = instants[:, row, :3], instants[:, row, 3:7]
        state.vel[:, i], state.omega[:, i] = instants[:, row, 7:10], instants[:, row, 10:13]
    driven = [i for i, body in enumerate(world.moving) if body.driven]
    if driven:
        state.pos[:, driven], state.quat[:, driven] = poses_at(time, *keys)
    return state
