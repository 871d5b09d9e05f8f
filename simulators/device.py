"""The contracts of a stochastic mechanism: State, Device, and the Rollouts of a run.

A device says what is random, how its world starts and what a state shows. It never samples an outcome and knows nothing
of labels or of how probable they ought to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from simulators.rotation import Array
from simulators.sampling import ACT, Distribution, generator
from simulators.world import Move, World

IntArray = NDArray[np.integer]
Readout = Literal["first", "rest", "last", "strongest"]

UNDECIDED, STUCK, ON_EDGE = -1, -2, -3
"""What `Device.read` answers when a state shows no fact: still open; at rest where nothing counts; balanced on an edge."""

NO_MOVES: Mapping[str, Move] = MappingProxyType({})

NULL_REASONS = ("", "stuck", "left_apparatus", "on_edge", "unsettled")
"""Why a simulated rollout ended in no fact, by its code in `Rollouts.null`; code 0 is a rollout that ended in one."""


@dataclass(frozen=True, eq=False)
class State:
    """Struct of arrays with one leading axis n: rollouts at one instant, or the frames of one rollout (a trajectory).

    time (n,) [s, release = 0]; pos (n, B, 3) [m] and quat (n, B, 4) of the centres of mass of `world.moving`; vel [m/s] and
    omega [rad/s, world axes] (n, B, 3); touched (n, W) bool: watched pairs that have ever touched; bond (n, J): strength
    left of each joint, inf for an unbreakable one, 0 when broken.
    """

    time: Array
    pos: Array
    quat: Array
    vel: Array
    omega: Array
    touched: NDArray[np.bool_]
    bond: Array

    def __len__(self) -> int:
        """Return the length of the leading axis."""
        return len(self.time)

    def __getitem__(self, rows: slice | NDArray) -> State:
        """Return the given rows; the leading axis stays."""
        return State(*(getattr(self, f.name)[rows] for f in fields(self)))

    def copy(self) -> State:
        """Return a state that shares no array with this one."""
        return State(*(getattr(self, f.name).copy() for f in fields(self)))

    @staticmethod
    def concatenate(states: Sequence[State]) -> State:
        """Join along the leading axis."""
        return State(*(np.concatenate([getattr(s, f.name) for s in states]) for f in fields(State)))

    @staticmethod
    def at_release(world: World, rows: int, *, pos=None, vel=None, omega=None) -> State:
        """Return `rows` states at t = 0 in the nominal pose; `pos` offsets and velocities (rows, B, 3) default to zero."""
        nominal, quat = world.poses(0.0)
        zero = np.zeros((rows, *nominal.shape))
        return State(
            time=np.zeros(rows),
            pos=nominal + (zero if pos is None else pos),
            quat=np.repeat(quat[None], rows, axis=0),
            vel=zero.copy() if vel is None else np.asarray(vel, float),
            omega=zero.copy() if omega is None else np.asarray(omega, float),
            touched=np.zeros((rows, len(world.watched)), bool),
            bond=np.zeros((rows, 0)),
        )


@runtime_checkable
class Device(Protocol):
    """A frozen dataclass in SI units whose other fields are its physical parameters.

    Its docstring says: setup / what is random and how much / outcomes and how they are read / what can end in no
    outcome / known gap between model and reality.
    """

    @property
    def random(self) -> Mapping[str, Distribution]:
        """What is random in a launch, declared in the config. The device itself never samples."""

    @property
    def facts(self) -> tuple[str, ...]:
        """What a state can show (`strongest` readout: weakest first)."""

    @property
    def readout(self) -> Readout:
        """How instants make one fact: first decisive, at rest, at `end_time`, or the strongest ever seen."""

    @property
    def end_time(self) -> float | None:
        """When `last` reads [s]; None for the other readouts."""

    def world(self) -> World:
        """Return the fixed world; no launch is in it."""

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the states at release (n rows) of a whole block of launches.

        Variables that only a kernel reads, in the rollout itself, are named in a class attribute `later`.
        """

    def read(self, state: State) -> IntArray:
        """Return for each row the fact it shows, or UNDECIDED, STUCK or ON_EDGE. One instant, no memory."""


@runtime_checkable
class Acting(Protocol):
    """A device whose action keeps on after the release: it moves its `driven` bodies as each launch says."""

    def drive(self, launch: Mapping[str, Array]) -> Mapping[str, Move]:
        """Return the moves of the driven bodies (by name, release t = 0) in one launch: a row, each value () or (d,)."""


@dataclass(frozen=True, eq=False)
class Rollouts:
    """What a run gives, one row a rollout, in the order of the indices asked for.

    index (n,) int64; fact (n,) int16, -1 where null; null (n,) uint8, a position in `NULL_REASONS`; first (n,) int16: the
    first decisive fact (-1: none), whatever the readout; settle_time (n,) float64 [s]: when rest was established, NaN if
    never; end: the final states (n rows); trajectories: the frames of each if recorded, from the start of the prelude.
    """

    index: NDArray[np.int64]
    fact: NDArray[np.int16]
    null: NDArray[np.uint8]
    first: NDArray[np.int16]
    settle_time: Array
    end: State
    trajectories: tuple[State, ...] | None = None

    def __len__(self) -> int:
        """Return the number of rollouts."""
        return len(self.index)

    def __getitem__(self, rows: slice | NDArray) -> Rollouts:
        """Return the given rows."""
        recorded = self.trajectories
        if recorded is not None:
            recorded = recorded[rows] if isinstance(rows, slice) else tuple(recorded[i] for i in np.arange(len(self))[rows])
        columns = {name: getattr(self, name)[rows] for name in ("index", "fact", "null", "first", "settle_time", "end")}
        return Rollouts(**columns, trajectories=recorded)

    @staticmethod
    def concatenate(parts: Sequence[Rollouts]) -> Rollouts:
        """Join runs of the same device, in the given order."""
        recorded = [p.trajectories for p in parts if p.trajectories is not None]
        return Rollouts(
            index=np.concatenate([p.index for p in parts]),
            fact=np.concatenate([p.fact for p in parts]),
            null=np.concatenate([p.null for p in parts]),
            first=np.concatenate([p.first for p in parts]),
            settle_time=np.concatenate([p.settle_time for p in parts]),
            end=State.concatenate([p.end for p in parts]),
            trajectories=tuple(t for some in recorded for t in some) if len(recorded) == len(parts) else None,
        )


class Simulation(Protocol):
    """One live world in an engine; it holds one rollout at a time."""

    def reset(self, start: State, drives: Mapping[str, Move] = NO_MOVES) -> None:
        """Begin the rollout of the single row `start` in a fresh world whose driven bodies follow `drives`."""

    def step(self, steps: int) -> None:
        """Integrate that many steps, keeping `touched` up to date at every one."""

    def state(self) -> State:
        """Return the present state as a single row, actuators in their prelude's poses."""

    def close(self) -> None:
        """Free the world."""


class Engine(Protocol):
    """What integrates: frozen settings that make a `Simulation` of a `World`."""

    @property
    def name(self) -> str:
        """`bullet`, `planar`, or a kernel's name."""

    @property
    def version(self) -> str:
        """The library and its version: part of the physics digest."""

    @property
    def steps_per_second(self) -> int:
        """The integration rate [1/s], a multiple of 60."""

    @property
    def time_limit(self) -> float:
        """Simulated seconds after release at which a rollout that does not rest is `unsettled`."""

    def open(self, world: World) -> Simulation:
        """Make a simulation of `world`."""


@dataclass(frozen=True, eq=False)
class Launches:
    """Rows of one block of launches, as a kernel takes them: `values` of the random variables (n, ...), `start` (n rows)."""

    index: NDArray[np.int64]
    values: Mapping[str, Array]
    start: State
    seed: int
    stream: str

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.index)

    def row(self, i: int) -> dict[str, Array]:
        """Return the values of row `i`, each () or (d,)."""
        return {name: value[i] for name, value in self.values.items()}

    def noise(self, i: int) -> Generator:
        """Return the generator of the randomness inside rollout row `i`: its own, whatever the batch."""
        return generator(self.seed, self.stream, "act", int(self.index[i]), ACT)


@runtime_checkable
class Kernel(Protocol):
    """What integrates whole batches of launches in compiled code, for the devices it knows: frozen settings.

    The same parameters, launches and reading as an engine; it folds instants at 60 Hz itself, and records itself.
    """

    @property
    def name(self) -> str:
        """Its own name, such as `coin_kernel`: shown beside every result."""

    @property
    def version(self) -> str:
        """Changes whenever an outcome could: part of the physics digest."""

    @property
    def steps_per_second(self) -> int | None:
        """The integration rate [1/s], a multiple of 60; None where it goes from event to event and has no step."""

    @property
    def time_limit(self) -> float:
        """Simulated seconds after release at which a rollout that does not rest is `unsettled`."""

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row; with `fps` record it. Raises `TypeError` for a device that it does not know."""


Integrator = Engine | Kernel
