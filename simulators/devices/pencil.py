"""A pencil stood on its point that a hand lets go of. Knows which way it fell, not how often it falls there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import ON_EDGE, UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.devices.hand import FINGER, hand
from simulators.rotation import Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Cylinder, Lathe, Material, Move, Part, Quat, Surface, World

HOLD, LIFT, LIFT_TIME = 0.5, 0.4, 0.5  # s, m, s: how long before the release a clip starts; the hand's one move upwards
GRIP = 0.015  # m of the pencil between the fingers
CLEAR = 0.066  # s that the hand has moved at the release: an eased move has then gone `GRIP` and a quarter more
COMMITTED = math.cos(math.radians(45.0))
LYING = math.sin(math.radians(15.0))
TABLE_DEPTH = 0.04  # m
FERRULE, ERASER = 0.012, 0.012  # m along the axis, drawn


@dataclass(frozen=True)
class Pencil:
    """A round pencil on its point, the eraser up, held by a hand that moves up once.

    Setup (SI): a solid of uniform density and `mass`, a cone of length `point` on a cylinder of `radius`, `length` in all.
    Its tip stands at the origin of a table of size `table` (x, y); its axis leans by `lean` [rad] to the viewer's right.
    The tip stays where it is while `friction` (of tip and side on the table) can hold it, and slides beyond. It lands
    without a rebound.
    Random at the launch: `push_x` and `push_y` [rad/s], the rotation to the right and away from the viewer that the hand
    leaves in it; nothing that the picture shows.
    Outcomes: `falls_left` or `falls_right`, the side of the vertical line through the tip's first place that the whole
    eraser's end is on once the pencil leans by more than 45 degrees (which no start does).
    No outcome: `on_edge`, fallen towards or away from the viewer within the eraser's radius of that line; `stuck`, still
    standing after a quarter of a second in which nothing was seen to move.
    Known gap: the graphite's tip is a point. Where it lands, its velocity across its own axis is left out, and it never rolls.
    """

    length: float
    radius: float
    point: float
    mass: float
    lean: float
    friction: float
    table: tuple[float, float]
    random: Mapping[str, Distribution]

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("push_x", "push_y")
    facts: ClassVar[tuple[str, ...]] = ("falls_left", "falls_right")
    readout: ClassVar[Readout] = "first"
    end_time: ClassVar[None] = None
    restitution: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "table", tuple(self.table))
        check_fields(
            self,
            positive=("length", "radius", "point", "mass"),
            # Up to 1 the sliding tip of a thin rod presses on the table at all times; beyond, that was not looked at.
            share=("friction",),
            further=[
                (self.point < self.length / 2.0, "point", "must be less than half the length"),
                (self.radius < self.point / 2.0, "radius", "must be less than half the point's length"),
                (abs(self.lean) < math.radians(40.0), "lean", "must be within 40 degrees (.698), short of a fall"),
                (len(self.table) == 2 and min(self.table) > 2.2 * self.length, "table", f"must exceed {2.2 * self.length:g} m"),
            ],
        )

    @property
    def centre(self) -> float:
        """Distance [m] of the centre of mass from the tip."""
        cone, barrel = self.point / 3.0, self.length - self.point  # volumes over the section
        return (cone * 0.75 * self.point + barrel * (self.length + self.point) / 2.0) / (cone + barrel)

    @property
    def gyration(self) -> float:
        """Moment of inertia across the axis over the mass, about the centre of mass [m^2]: a solid cone and a cylinder."""
        h, barrel, rr = self.point, self.length - self.point, self.radius**2
        cone = h / 3.0
        about_tip = cone * (0.6 * h * h + 0.15 * rr) + barrel * (
            rr / 4.0 + barrel**2 / 12.0 + ((self.length + h) / 2.0) ** 2
        )  # a cone about its tip: 3/5 h^2 + 3/20 r^2
        return about_tip / (cone + barrel) - self.centre**2

    @property
    def growth(self) -> float:
        """Rate k [1/s] at which a small lean grows, e^(k t), about the fixed tip: sqrt(3 g / 2 length) for a thin rod."""
        return math.sqrt(9.81 * self.centre / (self.gyration + self.centre**2))

    def world(self) -> World:
        """Return table, pencil and hand."""
        width, depth = self.table
        top = Part(Box((width, depth, TABLE_DEPTH), 0.006), (0.0, 0.0, -TABLE_DEPTH / 2.0), material=TABLE)
        backdrop = Part(Box((8.0, 0.02, 5.0)), (0.0, depth / 2.0 + 1.5, 0.0), material=WALL)
        surface = Surface(self.restitution, self.friction)
        leaning: Quat = tuple(rotation.about((0.0, 1.0, 0.0), self.lean).tolist())
        axis = rotation.rotate(leaning, (0.0, 0.0, 1.0))
        pencil = Body(
            "pencil",
            self._parts(),
            mass=self.mass,
            position=tuple((self.centre * axis).tolist()),
            quaternion=leaning,
            surface=surface,
            inertia=(self.mass * self.gyration, self.mass * self.gyration, self.mass * self.radius**2 / 2.0),
        )
        held = tuple(((self.length - GRIP) * axis).tolist())
        lifted = tuple(((self.length - GRIP) * axis + LIFT * np.array([0.0, 0.0, 1.0])).tolist())
        pinch = self.radius + FINGER
        grip = hand((-pinch, pinch), leaning)
        return World(
            bodies=(
                Body("table", (top,), surface=surface),
                Body("backdrop", (backdrop,), collides=False),
                pencil,
                Body("hand", grip, position=held, collides=False),
            ),
            bounds=((-width / 2.0, -depth / 2.0, -TABLE_DEPTH), (width / 2.0, depth / 2.0, 2.0 * self.length)),
            moves={"hand": Move((-HOLD, -CLEAR, LIFT_TIME - CLEAR), (held, held, lifted), (rotation.IDENTITY,) * 3)},
        )

    def _parts(self) -> tuple[Part, ...]:
        """Return lead, cone, barrel, ferrule and eraser about the centre of mass, the tip at local -z."""
        r, c, tip = self.radius, self.centre, 0.28 * self.point
        end = self.length - ERASER - FERRULE
        thin = 0.28 * r

        def piece(profile: tuple[tuple[float, float], ...], material: Material) -> Part:
            return Part(Lathe(tuple((radius, z - c) for radius, z in profile)), material=material)

        def barrel(low: float, high: float, radius: float, fillet: float, material: Material) -> Part:
            return Part(Cylinder(radius, high - low, fillet), (0.0, 0.0, (low + high) / 2.0 - c), material=material)

        return (
            piece(((0.0, 0.0), (thin, tip), (0.0, tip)), LEAD),
            piece(((0.0, tip), (thin, tip), (r, self.point), (0.0, self.point)), BARE),
            barrel(self.point, end, r, 0.0, PAINT),
            barrel(end, end + FERRULE, r, 0.0005, BRASS),
            barrel(end + FERRULE, self.length, r, 0.001, RUBBER),
        )

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the pencil as the hand leaves it, turning about its tip (n rows)."""
        world = self.world()
        rows = len(launch["push_x"])
        vel = np.zeros((rows, len(world.moving), 3))
        omega = np.zeros_like(vel)
        s, c = math.sin(self.lean), math.cos(self.lean)
        omega[:, 0, 0], omega[:, 0, 1], omega[:, 0, 2] = -launch["push_y"] * c, launch["push_x"], launch["push_y"] * s
        vel[:, 0, 0], vel[:, 0, 1] = self.centre * c * launch["push_x"], self.centre * launch["push_y"]
        vel[:, 0, 2] = -self.centre * s * launch["push_x"]
        return State.at_release(world, rows, vel=vel, omega=omega)

    def read(self, state: State) -> IntArray:
        """Return 0 (falls left) or 1 (falls right) beyond 45 degrees; ON_EDGE for one that lies along the line of sight."""
        axis = rotation.rotate(state.quat[:, 0], (0.0, 0.0, 1.0))
        x = state.pos[:, 0, 0] + (self.length - self.centre) * axis[:, 0]
        clear = (axis[:, 2] < COMMITTED) & (np.abs(x) > self.radius)
        return np.where(clear, (x > 0.0).astype(np.int64), np.where(axis[:, 2] < LYING, ON_EDGE, UNDECIDED))


TABLE = Material(color=(0.56, 0.40, 0.26), texture="wood", accent=(0.43, 0.29, 0.18), roughness=0.7)
WALL = Material(color=(0.78, 0.81, 0.83), roughness=1.0)
LEAD = Material(color=(0.12, 0.12, 0.13), roughness=0.4)
BARE = Material(color=(0.85, 0.69, 0.48), texture="wood", accent=(0.76, 0.58, 0.37), roughness=0.8)
PAINT = Material(color=(0.93, 0.67, 0.10), roughness=0.3)
BRASS = Material(color=(0.72, 0.72, 0.68), texture="brushed", accent=(0.55, 0.55, 0.52), roughness=0.3)
RUBBER = Material(color=(0.87, 0.45, 0.45), roughness=0.9)
