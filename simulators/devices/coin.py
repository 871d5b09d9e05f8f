"""A coin flicked into the air that lands on a table. Knows its faces, not their probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from simulators import rotation
from simulators.device import ON_EDGE, UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.rotation import Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Cylinder, Material, Move, Part, Quat, Sphere, Surface, Vec3, World

LYING = math.cos(math.radians(20.0))
TABLE_DEPTH = 0.04  # m
TABLE_EDGE = 0.015  # m: rounding of the table's edges
ACTION = 0.5  # s: the flicker's way to the coin
CLEAR = 0.25  # s: in which clip and flicker leave the picture


@dataclass(frozen=True)
class Coin:
    """A coin held level by a clip at two ends of a diameter, flicked from below at its front edge.

    Setup (SI): a disc of `diameter`, `thickness` and uniform `density` whose rim is rounded by `bevel`, its centre
    `height` above a table of size `table` (x, y), `start_face` up, held `set_back` in front of the table's middle.
    Restitution and friction are the coin-table pair's. Random at the launch, all as velocities, so that frame 0 is one
    picture: `speed` [m/s] upwards, `spin` [rad/s] about the x axis, `precession` [rad/s] about the coin's own normal (it
    tilts the angular momentum), `drift_x` and `drift_y` [m/s].
    Outcomes: the face up when the coin has come to rest. `first` is the first instant that it lies on the table.
    No outcome: `on_edge` (stands or leans), `left_apparatus` (falls off the table), `unsettled`.
    Known gap: no air drag; the clip lets go without friction; relief is the same on both faces; `load` [m] moves the centre
    of mass towards tails and leaves the moments as they are. Damping stands for all that ends a coin's rattle and acts between
    bounces too. The kernel takes the table as endless up to where the centre leaves it. At 1/1200 s the Bullet engine lets a
    rim dip into the table and takes the two or three impacts of a nearly flat landing for one: .1 s after a weak flick's
    landing it has a quarter of the kernel's energy left, at 1/76800 s all of it (40 launches). So faces of weak flicks
    differ between them, and a coin settles later there (see the note of pawbench/A-01).
    """

    thickness: float
    diameter: float
    bevel: float
    density: float
    height: float
    table: tuple[float, float]
    set_back: float
    restitution: float
    friction: float
    angular_damping: float
    start_face: Literal["heads", "tails"]
    random: Mapping[str, Distribution]
    load: float = 0.0

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("speed", "spin", "precession", "drift_x", "drift_y")
    facts: ClassVar[tuple[str, ...]] = ("heads", "tails")
    readout: ClassVar[Readout] = "rest"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "table", tuple(self.table))
        check_fields(
            self,
            positive=("thickness", "diameter", "density", "height", "angular_damping"),
            share=("restitution",),
            at_least_zero=("bevel", "friction", "set_back"),
            further=[
                (min(self.table) > self.diameter, "table", "must be larger than the coin in both directions"),
                (2 * self.bevel < self.thickness, "bevel", f"must be less than half the thickness ({self.thickness / 2:g} m)"),
                (self.start_face in ("heads", "tails"), "start_face", "must be 'heads' or 'tails'"),
                (
                    isinstance(self.load, float) and abs(self.load) < self.thickness / 2.0,
                    "load",
                    f"must lie inside the coin: less than half the thickness ({self.thickness / 2:g} m) either way",
                ),
                (self.height > self.diameter, "height", "must be larger than the coin's diameter, so that it can turn"),
            ],
        )

    @property
    def mass(self) -> float:
        """Mass [kg] of the disc; the rounding of the rim is left out."""
        return self.density * math.pi * self.diameter**2 / 4.0 * self.thickness

    @property
    def moments(self) -> tuple[float, float]:
        """Moments of inertia [kg m^2] about a diameter through the centre of mass and about the normal: a plain disc's."""
        radius = self.diameter / 2.0
        return self.mass * (3.0 * radius**2 + self.thickness**2) / 12.0, self.mass * radius**2 / 2.0

    @property
    def places(self) -> tuple[tuple[str, float], ...]:
        """What to add to the names of each coin's bodies, and where it is held along x [m]."""
        return (("", 0.0),)

    def world(self) -> World:
        """Return table, coins, and each one's clips and flicker."""
        width, depth = self.table
        table = Body(
            "table",
            (Part(Box((width, depth, TABLE_DEPTH), TABLE_EDGE), (0.0, 0.0, -TABLE_DEPTH / 2.0), material=WOOD),),
            surface=self._surface,
        )
        holders, moves = [], {}
        for suffix, x in self.places:
            for body, move in self._holders(suffix, x):
                holders.append(body)
                moves[body.name] = move
        return World(
            bodies=(table, *(self._coin(suffix, x) for suffix, x in self.places), *holders),
            bounds=((-width / 2.0, -depth / 2.0, -TABLE_DEPTH), (width / 2.0, depth / 2.0, 10.0 * self.height)),
            moves=moves,
        )

    @property
    def _surface(self) -> Surface:
        return Surface(restitution=self.restitution, friction=self.friction)

    def _coin(self, suffix: str, x: float) -> Body:
        up = self.start_face == "heads"
        across, along = self.moments
        shape = Cylinder(self.diameter / 2.0, self.thickness, self.bevel)
        return Body(
            f"coin{suffix}",
            (Part(shape, (0.0, 0.0, self.load), material=GOLD),),
            mass=self.mass,
            position=(x, -self.set_back, self.height - (self.load if up else -self.load)),
            quaternion=rotation.IDENTITY if up else (1.0, 0.0, 0.0, 0.0),
            surface=self._surface,
            angular_damping=self.angular_damping,
            inertia=(across, across, along),
        )

    def _holders(self, suffix: str, x: float) -> list[tuple[Body, Move]]:
        """Return a coin's two clips and its flicker with their moves; a clip towards another coin hangs from above."""
        radius, rod = self.diameter / 2.0, 0.12 * self.diameter
        arm = self.table[0] / 2.0 - abs(x)
        steel = Material(color=(0.55, 0.57, 0.60), texture="brushed", accent=(0.4, 0.42, 0.45), roughness=0.35)
        along_x = tuple(rotation.about((0.0, 1.0, 0.0), math.pi / 2.0).tolist())
        y, z = -self.set_back, self.height
        held = []
        for name, side in (("clip_left", -1.0), ("clip_right", 1.0)):
            if side * x >= 0.0:
                start: Vec3 = (x + side * (radius + rod + arm / 2.0), y, z)
                away: Vec3 = (start[0] + side * 1.5 * arm, y, z)
                part = Part(Capsule(rod, arm), quaternion=along_x, material=steel)
            else:
                start = (x + side * (radius + rod), y, z + arm / 2.0)
                away = (start[0], y, start[2] + 1.5 * arm)
                part = Part(Capsule(rod, arm), material=steel)
            body = Body(name + suffix, (part,), position=start, collides=False)
            held.append((body, _line((-ACTION, 0.0, CLEAR), (start, start, away))))
        tip: Vec3 = (x, y - 0.8 * radius, z - self.thickness / 2.0 - rod)
        low: Vec3 = (x, tip[1] - 1.5 * self.diameter, tip[2] - 1.5 * self.diameter)
        handle = Part(
            Capsule(0.7 * rod, 6.0 * self.diameter),
            (0.0, -3.0 * self.diameter * S45, -3.0 * self.diameter * S45),
            LEANING,
            steel,
        )
        head = Part(Sphere(rod), material=Material(color=(0.75, 0.2, 0.15), roughness=0.4))
        away_long = self.table[0] / 2.0
        gone: Vec3 = (x, tip[1] - away_long, tip[2] - away_long)
        flicker = Body(f"flicker{suffix}", (head, handle), position=tip, collides=False)
        return [*held, (flicker, _line((-ACTION, -0.1, 0.0, CLEAR), (low, low, tip, gone)))]

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the coins at their clips with the launch's velocities (n rows)."""
        world = self.world()
        rows = len(next(iter(launch.values())))
        vel = np.zeros((rows, len(world.moving), 3))
        omega = np.zeros_like(vel)
        for i, (suffix, _) in enumerate(self.places):
            for axis, name in enumerate(("drift_x", "drift_y", "speed")):
                vel[:, i, axis] = launch[name + suffix]
            omega[:, i, 0], omega[:, i, 2] = launch[f"spin{suffix}"], launch[f"precession{suffix}"]
        return State.at_release(world, rows, vel=vel, omega=omega)

    def read(self, state: State) -> IntArray:
        """Return the faces up of coins that all lie; ON_EDGE where one touches the table otherwise.

        A face counts 0 (heads) or 1 (tails); of several coins the first counts most.
        """
        faces = np.stack([self._face(state, i) for i in range(len(self.places))])
        fact = np.zeros(len(state), int)
        for face in faces:
            fact = 2 * fact + face
        return np.where(faces.min(axis=0) < 0, faces.min(axis=0), fact)

    def _face(self, state: State, coin: int) -> IntArray:
        normal = rotation.upward(state.quat[:, coin])[:, 2]
        height = state.pos[:, coin, 2]
        low = height < self.thickness / 2.0 + self.diameter / 4.0
        standing = height < self.diameter / 2.0 * 1.05
        fact = np.where(normal > 0.0, 0, 1)
        return np.where(low & (np.abs(normal) > LYING), fact, np.where(standing, ON_EDGE, UNDECIDED))


@dataclass(frozen=True)
class Coins(Coin):
    """Two coins side by side, `apart` along x, each held and flicked as a `Coin` is, at the same moment.

    Setup, random, no outcome and known gap: as a `Coin`, each variable twice and on its own (`speed_left`, `speed_right`,
    ...), so that the coins share nothing but the moment. Outcomes: the two faces up, the left coin's first, once both lie.
    Known gap: one person's two hands are less alike than two flickers, and more alike than two launches drawn apart.
    """

    apart: float = 0.24

    variables: ClassVar[tuple[str, ...]] = tuple(f"{name}_{side}" for side in ("left", "right") for name in Coin.variables)
    facts: ClassVar[tuple[str, ...]] = ("heads_heads", "heads_tails", "tails_heads", "tails_tails")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2.0 * self.diameter <= self.apart < self.table[0] - self.diameter:
            raise ValueError(
                f"`apart` must be at least two diameters ({2.0 * self.diameter:g} m) and leave both coins over the table, "
                f"got {self.apart!r}"
            )

    @property
    def places(self) -> tuple[tuple[str, float], ...]:
        """As in `Coin`: one to the left, one to the right."""
        return (("_left", -self.apart / 2.0), ("_right", self.apart / 2.0))


S45 = math.sqrt(0.5)
LEANING: Quat = tuple(rotation.about((1.0, 0.0, 0.0), -math.pi / 4.0).tolist())  # local z towards the back and up
WOOD = Material(color=(0.50, 0.33, 0.20), texture="wood", accent=(0.36, 0.22, 0.12), roughness=0.7)
GOLD = Material(color=(0.83, 0.68, 0.35), texture="coin", accent=(0.45, 0.33, 0.12), roughness=0.3)


def _line(times: tuple[float, ...], positions: tuple[Vec3, ...]) -> Move:
    return Move(times, positions, (rotation.IDENTITY,) * len(times))
