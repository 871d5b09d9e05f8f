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
    Known gap: no air drag; the clip lets go without friction; relief and mass are the same on both faces. In the Bullet
    engine the rim dips into the table at an impact (pawbench/A-01: 2.1 mm at 1/1200 s, .9 mm at 1/2400 s, medians of 60) and
    is pushed out after it (.09 mm left at rest).
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
                (self.start_face in self.facts, "start_face", "must be 'heads' or 'tails'"),
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

    def world(self) -> World:
        """Return table, coin, clip and flicker."""
        radius = self.diameter / 2.0
        width, depth = self.table
        surface = Surface(restitution=self.restitution, friction=self.friction)
        centre: Vec3 = (0.0, -self.set_back, self.height)
        face_up: Quat = (0.0, 0.0, 0.0, 1.0) if self.start_face == "heads" else (1.0, 0.0, 0.0, 0.0)
        steel = Material(color=(0.55, 0.57, 0.60), texture="brushed", accent=(0.4, 0.42, 0.45), roughness=0.35)
        table = Body(
            "table",
            (Part(Box((width, depth, TABLE_DEPTH), TABLE_EDGE), (0.0, 0.0, -TABLE_DEPTH / 2.0), material=WOOD),),
            surface=surface,
        )
        coin = Body(
            "coin",
            (Part(Cylinder(radius, self.thickness, self.bevel), (0.0, 0.0, self.load), material=GOLD),),
            mass=self.mass,
            position=(centre[0], centre[1], centre[2] - self.load * (1.0 if self.start_face == "heads" else -1.0)),
            quaternion=face_up,
            surface=surface,
            angular_damping=self.angular_damping,
            inertia=(self.moments[0], self.moments[0], self.moments[1]),
        )
        arm = width / 2.0
        rod = 0.12 * self.diameter
        along_x = tuple(rotation.about((0.0, 1.0, 0.0), math.pi / 2.0).tolist())
        bodies, moves = [table, coin], {}
        for name, side in (("clip_left", -1.0), ("clip_right", 1.0)):
            start = (side * (radius + rod + arm / 2.0), centre[1], centre[2])
            away = (start[0] + side * 1.5 * arm, start[1], start[2])
            bodies.append(
                Body(name, (Part(Capsule(rod, arm), quaternion=along_x, material=steel),), position=start, collides=False)
            )
            moves[name] = _line((-ACTION, 0.0, CLEAR), (start, start, away))
        tip = (0.0, centre[1] - 0.8 * radius, centre[2] - self.thickness / 2.0 - rod)
        low = (tip[0], tip[1] - 1.5 * self.diameter, tip[2] - 1.5 * self.diameter)
        handle = Part(
            Capsule(0.7 * rod, 6.0 * self.diameter),
            (0.0, -3.0 * self.diameter * S45, -3.0 * self.diameter * S45),
            LEANING,
            steel,
        )
        head = Part(Sphere(rod), material=Material(color=(0.75, 0.2, 0.15), roughness=0.4))
        bodies.append(Body("flicker", (head, handle), position=tip, collides=False))
        gone = (tip[0], tip[1] - arm, tip[2] - arm)
        moves["flicker"] = _line((-ACTION, -0.1, 0.0, CLEAR), (low, low, tip, gone))
        return World(
            bodies=tuple(bodies),
            bounds=((-width / 2.0, -depth / 2.0, -TABLE_DEPTH), (width / 2.0, depth / 2.0, 10.0 * self.height)),
            moves=moves,
        )

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the coin at its clip with the launch's velocities (n rows)."""
        world = self.world()
        rows = len(launch["speed"])
        coin = world.loose[0]
        vel = np.zeros((rows, len(world.moving), 3))
        omega = np.zeros_like(vel)
        vel[:, coin, 0], vel[:, coin, 1], vel[:, coin, 2] = launch["drift_x"], launch["drift_y"], launch["speed"]
        omega[:, coin, 0], omega[:, coin, 2] = launch["spin"], launch["precession"]
        return State.at_release(world, rows, vel=vel, omega=omega)

    def read(self, state: State) -> IntArray:
        """Return 0 (heads up) or 1 (tails up) for a coin that lies; ON_EDGE for one that touches the table otherwise."""
        normal = rotation.upward(state.quat[:, 0])[:, 2]
        height = state.pos[:, 0, 2]
        low = height < self.thickness / 2.0 + self.diameter / 4.0
        standing = height < self.diameter / 2.0 * 1.05
        fact = np.where(normal > 0.0, 0, 1)
        return np.where(low & (np.abs(normal) > LYING), fact, np.where(standing, ON_EDGE, UNDECIDED))


S45 = math.sqrt(0.5)
LEANING: Quat = tuple(rotation.about((1.0, 0.0, 0.0), -math.pi / 4.0).tolist())  # local z towards the back and up
WOOD = Material(color=(0.50, 0.33, 0.20), texture="wood", accent=(0.36, 0.22, 0.12), roughness=0.7)
GOLD = Material(color=(0.83, 0.68, 0.35), texture="coin", accent=(0.45, 0.33, 0.12), roughness=0.3)


def _line(times: tuple[float, ...], positions: tuple[Vec3, ...]) -> Move:
    return Move(times, positions, (rotation.IDENTITY,) * len(times))
