"""A box, or two, tipped out of a scoop onto a table or into a tray. Knows its faces, not their probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import ON_EDGE, UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.rotation import Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Material, Move, Part, Quat, Surface, Vec3, World

FLAT = math.cos(math.radians(5.0))
TABLE_DEPTH = 0.04  # m
WAIT, TIP, CLEAR = 0.5, 0.3, 0.25  # s: the prelude, the part of it that tips, and the scoop's way back
FACES = ("1", "6", "2", "5", "3", "4")  # on +x, -x, +y, -y, +z, -z: opposite faces sum to 7
FACT_OF_SIDE = np.array([int(face) - 1 for face in FACES])


@dataclass(frozen=True)
class Die:
    """A die with pips, tipped out of a scoop that comes from the left.

    Setup (SI): a box of edges `size` (x, y, z) and uniform `density`, released `height` above a table of size `table`
    (x, y) and `start_x` from its middle, the scoop then leaning forward by `tip` [rad]. `wall_height` above 0 puts walls of
    `wall_thickness` around the table. Restitution and friction are those of every pair. Random at the launch, all as
    velocities, so that frame 0 is one picture: `speed_x`, `speed_y`, `speed_z` [m/s] and `spin_x`, `spin_y`, `spin_z`
    [rad/s, world axes].
    Outcomes: the pips of the face that is up at rest, '1' to '6'. `first` is the first instant that a face lies flat.
    No outcome: `on_edge` (leans on a wall), `stuck` (lies on top of one), `left_apparatus` (over a wall, or off the table),
    `unsettled`.
    Known gap: edges and corners are sharp and the pips weigh nothing; no air drag.
    """

    size: tuple[float, float, float]
    density: float
    height: float
    start_x: float
    tip: float
    table: tuple[float, float]
    wall_height: float
    wall_thickness: float
    restitution: float
    friction: float
    angular_damping: float
    random: Mapping[str, Distribution]

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("speed_x", "speed_y", "speed_z", "spin_x", "spin_y", "spin_z")
    facts: ClassVar[tuple[str, ...]] = ("1", "2", "3", "4", "5", "6")
    readout: ClassVar[Readout] = "rest"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "size", tuple(self.size))
        object.__setattr__(self, "table", tuple(self.table))
        largest = max(self.size)
        check_fields(
            self,
            positive=("density", "height", "wall_thickness"),
            share=("restitution",),
            at_least_zero=("friction", "wall_height", "angular_damping"),
            further=[
                (len(self.size) == 3 and min(self.size) > 0.0, "size", "must be three edges larger than 0"),
                (len(self.table) == 2 and min(self.table) > 4 * largest, "table", f"must be two edges over {4 * largest:g} m"),
                (0.0 <= self.tip <= math.pi / 2, "tip", "must be from 0 to pi/2"),
                (abs(self.start_x) < self.table[0] / 2, "start_x", "must lie above the table"),
                (self.height > largest, "height", "must be larger than the die's longest edge"),
            ],
        )

    @property
    def mass(self) -> float:
        """Mass [kg] of the box."""
        return self.density * math.prod(self.size)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dice."""
        return ("die",)

    @property
    def across(self) -> tuple[float, ...]:
        """How far [m] along y each die lies from the scoop's middle."""
        return (0.0,)

    def world(self) -> World:
        """Return table or tray, dice and scoop."""
        width, depth = self.table
        surface = Surface(restitution=self.restitution, friction=self.friction)
        lining = FELT if self.wall_height > 0.0 else WOOD
        top = Part(Box((width, depth, TABLE_DEPTH)), (0.0, 0.0, -TABLE_DEPTH / 2.0), material=lining)
        bodies = [Body("table", (top, *self._walls()), surface=surface)]
        level, tipped = rotation.IDENTITY, self._tipped()
        times = (-WAIT, -TIP, 0.0)
        moves = {}
        for name, y in zip(self.names, self.across, strict=True):
            held, free = self._held(y), (self.start_x, y, self.height)
            bodies.append(
                Body(
                    name,
                    (Part(Box(self.size), material=IVORY),),
                    mass=self.mass,
                    position=free,
                    quaternion=tipped,
                    surface=surface,
                    angular_damping=self.angular_damping,
                )
            )
            moves[name] = Move(times, (held, held, free), (level, level, tipped))
        held, free = self._held(0.0), (self.start_x, 0.0, self.height)
        back: Vec3 = (free[0] - 1.2 * width, 0.0, free[2] + 3.0 * self.size[2])  # out of the picture
        bodies.append(Body("scoop", self._scoop(), position=free, quaternion=tipped, collides=False))
        moves["scoop"] = Move((*times, CLEAR), (held, held, free, back), (level, level, tipped, tipped))
        return World(
            bodies=tuple(bodies),
            bounds=((-width / 2.0, -depth / 2.0, -TABLE_DEPTH), (width / 2.0, depth / 2.0, 10.0 * self.height)),
            moves=moves,
            watched=tuple(combinations(self.names, 2)),
        )

    def _held(self, y: float) -> Vec3:
        return (self.start_x - 1.2 * self.size[0], y, self.height + 0.6 * self.size[2])

    def _tipped(self) -> Quat:
        return tuple(rotation.about((0.0, 1.0, 0.0), self.tip).tolist())

    def _walls(self) -> tuple[Part, ...]:
        if self.wall_height == 0.0:
            return ()
        width, depth = self.table
        thick, high = self.wall_thickness, self.wall_height
        # From the table's underside up, so that no ball or corner finds a seam between floor and wall.
        tall, middle = high + TABLE_DEPTH, (high - TABLE_DEPTH) / 2.0
        x, y = (width + thick) / 2.0, (depth + thick) / 2.0
        ends = [Part(Box((thick, depth, tall)), (side * x, 0.0, middle), material=WOOD) for side in (-1.0, 1.0)]
        long = [Part(Box((width + 2 * thick, thick, tall)), (0.0, side * y, middle), material=WOOD) for side in (-1.0, 1.0)]
        return (*ends, *long)

    def _scoop(self) -> tuple[Part, ...]:
        """Return the scoop in axes whose origin is the die's centre: floor, back and two sides, open to +x and above."""
        a, b, c = self.size
        gap, thin = 0.1 * max(self.size), 0.08 * max(self.size)
        floor_z, back_x, side_y = -(c / 2 + thin / 2), -(a / 2 + gap), max(self.across) + b / 2 + gap
        length = a + 2 * gap
        handle = 3.0 * a
        return (
            Part(Box((length, 2 * side_y, thin)), (0.0, 0.0, floor_z), material=BRASS),
            Part(Box((thin, 2 * side_y, 0.8 * c)), (back_x, 0.0, floor_z + 0.4 * c), material=BRASS),
            Part(Box((length, thin, 0.6 * c)), (0.0, side_y, floor_z + 0.3 * c), material=BRASS),
            Part(Box((length, thin, 0.6 * c)), (0.0, -side_y, floor_z + 0.3 * c), material=BRASS),
            Part(Box((handle, 0.3 * b, thin)), (back_x - handle / 2, 0.0, floor_z), material=WOOD),
        )

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the dice at the scoop's mouth with the launch's velocities (n rows)."""
        world = self.world()
        vel = np.zeros((len(launch[self.variables[0]]), len(world.moving), 3))
        omega = np.zeros_like(vel)
        for number, die in enumerate(world.loose):
            for axis in range(3):
                vel[:, die, axis] = launch[self.variables[6 * number + axis]]
                omega[:, die, axis] = launch[self.variables[6 * number + 3 + axis]]
        return State.at_release(world, len(vel), vel=vel, omega=omega)

    def read(self, state: State) -> IntArray:
        """Return the face up (0 for '1' to 5 for '6') of a die that lies flat; ON_EDGE for one low but not flat."""
        return self._face(state, 0)

    def _face(self, state: State, die: int) -> IntArray:
        quat, height = state.quat[:, die], state.pos[:, die, 2]
        up = rotation.upward(quat)
        axis = np.argmax(np.abs(up), axis=-1)
        steepest = up[np.arange(len(up)), axis]
        fact = FACT_OF_SIDE[2 * axis + (steepest < 0.0)]
        half = np.array(self.size)[axis] / 2.0
        low = height < half + 0.1 * max(self.size)
        touching = height < np.sqrt(np.sum(np.square(self.size))) / 2.0
        return np.where((np.abs(steepest) > FLAT) & low, fact, np.where(touching, ON_EDGE, UNDECIDED))


@dataclass(frozen=True)
class Dice(Die):
    """Two dice side by side in one scoop, tipped out together.

    Setup (SI): as `Die`, twice, their centres `apart` along y; they may touch in flight and on the table (the watched pair).
    Random at the launch: six velocities a die, `speed_x_1` to `spin_z_2`, independent of each other.
    Outcomes: the pips of both, the first die (nearer to the viewer) first: '1+1' to '6+6', when both are at rest.
    No outcome: `on_edge` (one leans, on a wall or on the other), `stuck` (one lies on the other), `left_apparatus`,
    `unsettled`.
    Known gap: as `Die`'s.
    """

    apart: float

    variables: ClassVar[tuple[str, ...]] = tuple(f"{name}_{number}" for number in (1, 2) for name in Die.variables)
    facts: ClassVar[tuple[str, ...]] = tuple(f"{one}+{two}" for one in Die.facts for two in Die.facts)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.dist((0.0, 0.0), self.size[:2]) / 2.0 < self.apart / 2.0 < self.table[1] / 2.0 - max(self.size):
            raise ValueError(f"`apart` must leave room between the dice and lie above the table, got {self.apart!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dice."""
        return ("die_1", "die_2")

    @property
    def across(self) -> tuple[float, ...]:
        """How far [m] along y each die lies from the scoop's middle."""
        return (-self.apart / 2.0, self.apart / 2.0)

    def read(self, state: State) -> IntArray:
        """Return six times the first die's face plus the second's; UNDECIDED or ON_EDGE while one of them shows none."""
        one, two = self._face(state, 0), self._face(state, 1)
        unread = np.where((one == UNDECIDED) | (two == UNDECIDED), UNDECIDED, ON_EDGE)
        return np.where((one >= 0) & (two >= 0), 6 * one + two, unread)


WOOD = Material(color=(0.45, 0.29, 0.17), texture="wood", accent=(0.33, 0.20, 0.11), roughness=0.7)
FELT = Material(color=(0.10, 0.33, 0.22), texture="felt", accent=(0.08, 0.28, 0.18), roughness=1.0)
IVORY = Material(color=(0.95, 0.94, 0.90), texture="pips", accent=(0.05, 0.05, 0.06), roughness=0.35)
BRASS = Material(color=(0.78, 0.62, 0.32), texture="brushed", accent=(0.62, 0.47, 0.22), roughness=0.35)
