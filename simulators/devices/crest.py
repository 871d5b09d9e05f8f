"""A ball let go on the rounded top of a symmetric crest: an isosceles wedge, a ridge. Knows its two trays, not their odds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, get_args

import numpy as np

from simulators.device import IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.devices.hand import hand
from simulators.devices.peg_board import ALONG_Y
from simulators.devices.regions import Region, read_regions
from simulators.devices.track import both_sides
from simulators.rotation import IDENTITY, Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Cylinder, Material, Move, Part, Sphere, Surface, Vec3, World

HOLD = 0.6  # s: how long before the release a clip starts
LIFT = 0.5  # s: how long the finger or the clip takes to go up, from the release on
RISE = 11.0  # ball radii: how far it goes
PLANK = 0.003  # m: half the thickness of the boards that sides and walls are made of, unless the top is sharper
Look = Literal["wood", "metal"]
Holder = Literal["finger", "clip"]


@dataclass(frozen=True)
class Crest:
    """A ball held on top of a crest between two trays, in an upright plane seen from the front.

    Setup (SI): a top of `tip_radius` runs over, without a kink, into straight sides that fall at `slope` [rad] below the
    horizontal, down to `half_base` from the middle, `tray_depth` above the floor. Trays are `tray` wide inside, their outer
    walls `wall` high. A ball of `ball_radius` and `ball_density` rests `offset` to the right of the middle on the top, held by
    a `holder`: the tip of a `finger` or a `clip` about it, which goes straight up. `restitution`, `friction` and
    `crest_rolling_friction` [m] are those of ball and crest, `floor_restitution` and `rolling_friction` [m] those of the trays'
    lined floors. `look` is `wood` or `metal`; neither look nor holder changes the physics.
    Random at the launch: `release_x` [m], where the ball lies, from its nominal place; `release_vx` [m/s], the sideways
    velocity, without spin, that the parting holder leaves it.
    Outcomes: "left" and "right", the trays. A state shows one once the whole ball is below the foot of the crest's side.
    No outcome: `stuck` (rolling friction holds it on the top, or it is so well balanced that it has hardly moved within the
    quarter of a second that counts as rest), `left_apparatus` (over a wall), `unsettled`.
    Known gap: the motion is planar (a real ridge has a groove, or the ball would fall off it), everything is rigid, and rolling
    friction is a constant torque however short the way: real surfaces creep.
    """

    ball_radius: float
    ball_density: float
    tip_radius: float
    slope: float
    half_base: float
    tray: float
    tray_depth: float
    wall: float
    restitution: float
    floor_restitution: float
    friction: float
    crest_rolling_friction: float
    rolling_friction: float
    readout: Readout
    random: Mapping[str, Distribution]
    offset: float = 0.0
    holder: Holder = field(default="finger", metadata={"physics": False})
    look: Look = field(default="wood", metadata={"physics": False})

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("release_x", "release_vx")
    facts: ClassVar[tuple[str, ...]] = ("left", "right")
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        lengths = ("ball_radius", "ball_density", "tip_radius", "half_base", "tray", "tray_depth", "wall")
        numbers = (*lengths, "slope", "restitution", "floor_restitution", "offset")
        check_fields(
            self,
            positive=(*lengths, "slope"),
            share=("restitution", "floor_restitution"),
            at_least_zero=("friction", "crest_rolling_friction", "rolling_friction"),
            further=self._proportions() if all(isinstance(getattr(self, name), (int, float)) for name in numbers) else [],
        )

    def _proportions(self) -> list[tuple[bool, str, str]]:
        ball = self.ball_radius
        return [
            (self.look in get_args(Look), "look", f"must be one of {', '.join(get_args(Look))}"),
            (self.holder in get_args(Holder), "holder", f"must be one of {', '.join(get_args(Holder))}"),
            (self.readout in ("first", "rest"), "readout", "must be 'first' or 'rest'"),
            (0.1 <= self.slope <= 1.3, "slope", "must be in [0.1, 1.3] rad"),
            (
                self.half_base > self.tip_radius * math.sin(min(self.slope, 1.5)) + 2.0 * ball,
                "half_base",
                "must leave the sides a straight part of more than a ball's diameter beyond the rounded top",
            ),
            (self.tray >= 2.2 * ball, "tray", f"must be at least {2.2 * ball:g} m (1.1 ball diameters)"),
            (self.tray_depth >= 3.0 * ball, "tray_depth", f"must be at least {3.0 * ball:g} m (1.5 ball diameters)"),
            (self.wall >= self.tray_depth, "wall", f"must be at least `tray_depth` ({self.tray_depth:g} m)"),
            (
                self.floor_restitution**2 <= self.restitution,
                "floor_restitution",
                "must be at most the root of `restitution` (a pair's value is the geometric mean of its two sides)",
            ),
            (
                abs(self.offset) <= 0.5 * (self.tip_radius + ball) * math.sin(min(self.slope, 1.5)),
                "offset",
                "must leave the ball on the rounded top: at most half way to where the straight sides begin",
            ),
        ]

    @property
    def plank(self) -> float:
        """Half the thickness [m] of the boards that sides and walls are made of."""
        return min(PLANK, 0.99 * self.tip_radius)

    @property
    def tip_height(self) -> float:
        """Height [m] of the centre of the rounded top above the trays' floor: its sides end at `half_base`, `tray_depth`."""
        return self.tray_depth + self.half_base * math.tan(self.slope) - (self.tip_radius - self.plank) / math.cos(self.slope)

    @property
    def release_height(self) -> float:
        """Height [m] of the centre of a ball that lies on the middle of the top."""
        return self.tip_height + self.tip_radius + self.ball_radius

    @property
    def instability(self) -> float:
        """Rate [1/s] at which a small deviation of a ball that rolls off the top grows: sqrt(5 g / 7 (R + r)).

        From 7/5 m x'' = m g x / (R + r), of a solid ball that rolls without slip on a top of radius R.
        """
        return math.sqrt(5.0 * 9.81 / 7.0 / (self.tip_radius + self.ball_radius))

    def _on_top(self, x: Array) -> Array:
        """Return the height [m] of the centre of a ball that lies on the top at `x` [m]."""
        reach = self.tip_radius + self.ball_radius
        return self.tip_height + np.sqrt(reach**2 - np.asarray(x) ** 2)

    def world(self) -> World:
        """Return back plate, crest, walls, floors, ball and holder."""
        return self._world

    @cached_property
    def _world(self) -> World:
        look, ball, p = LOOKS[self.look], self.ball_radius, self.plank
        depth, base, side = 3.0 * ball, self.half_base, self.half_base + self.tray + 2.0 * self.plank
        surface = Surface(self.restitution, self.friction, rolling_friction=self.crest_rolling_friction)
        # A pair's value is the geometric mean of the two sides; the ball's own side is `restitution`.
        soft = self.floor_restitution**2 / self.restitution if self.restitution > 0.0 else 0.0
        lining = Surface(soft, self.friction, rolling_friction=self.rolling_friction)
        inner = self.tip_radius - p
        begin = (inner * math.sin(self.slope), self.tip_height + inner * math.cos(self.slope))
        crest = (
            Part(Cylinder(self.tip_radius, depth), (0.0, 0.0, self.tip_height), ALONG_Y, look["crest"]),
            *both_sides((begin, (base, self.tray_depth), (base, 0.0)), p, depth, look["crest"]),
        )
        walls = both_sides(((side, self.wall), (side, 0.0)), p, depth, look["frame"])
        thick = 2.0 * ball
        floors = tuple(
            Part(Box((self.tray, depth, thick)), (s * (base + p + self.tray / 2.0), 0.0, -thick / 2.0), material=look["floor"])
            for s in (-1.0, 1.0)
        )
        height = self.release_height + 3.0 * ball
        back = Box((2.0 * (side + 2.0 * ball), 2.0 * p, height + 2.0 * thick), 0.3 * p)
        foot = Box((2.0 * (side + p), 1.1 * depth, thick), 0.3 * p)
        scenery = (
            Part(back, (0.0, depth / 2.0 + p, (height - 2.0 * thick) / 2.0), material=look["back"]),
            Part(foot, (0.0, -0.05 * depth, -0.5 * thick - 0.1 * ball), material=look["frame"]),
            *self._filling(depth, look["crest"]),
        )
        released: Vec3 = (self.offset, 0.0, float(self._on_top(np.array(self.offset))))
        holder, move = self._holder(released, look)
        return World(
            bodies=(
                Body("scenery", scenery, collides=False),
                Body("crest", crest, surface=surface),
                Body("walls", walls, surface=Surface(self.restitution, self.friction)),
                Body("floors", floors, surface=lining),
                Body(
                    "ball",
                    (Part(Sphere(ball), material=look["ball"]),),
                    mass=self.ball_density * 4.0 / 3.0 * math.pi * ball**3,
                    position=released,
                    surface=Surface(self.restitution, self.friction),
                ),
                holder,
            ),
            bounds=((-side - p, -depth, -ball), (side + p, depth, height + 4.0 * ball)),
            moves={"holder": move},
            planar=True,
        )

    def _filling(self, depth: float, material: Material) -> tuple[Part, ...]:
        """Return the slats that make the crest solid to the eye: each ends within the sides or the rounded top."""
        count = 2 * math.ceil(2.0 * self.half_base / self.plank)  # so narrow that the sides cover the steps of their tops
        width = 2.0 * self.half_base / count
        parts = []
        for k in range(count):
            left = -self.half_base + k * width
            far = max(abs(left), abs(left + width))
            knee = self.tip_radius * math.sin(self.slope)
            if far < knee:
                top = self.tip_height + math.sqrt(self.tip_radius**2 - far**2)
            else:
                top = self.tray_depth + (self.half_base - far) * math.tan(self.slope) + 0.4 * self.plank / math.cos(self.slope)
            parts.append(Part(Box((width, 1.01 * depth, top)), (left + width / 2.0, 0.0, top / 2.0), material=material))
        return tuple(parts)

    def _holder(self, ball: Vec3, look: Mapping[str, Material]) -> tuple[Body, Move]:
        """Return what holds the ball, and its way straight up from the release on."""
        r = self.ball_radius
        if self.holder == "finger":
            parts, at = hand((0.0,)), (ball[0], 0.0, ball[2] + r)
        else:
            jaw, gap, bar = 0.35 * r, 1.35 * r, 2.4 * r
            made: list[tuple[Box | Cylinder, Vec3, Material]] = [
                (Box((jaw, 1.2 * r, bar), 0.15 * jaw), (s * (gap + jaw / 2.0), 0.0, 0.7 * r), look["clip"]) for s in (-1.0, 1.0)
            ]
            made.append((Box((2.0 * (gap + jaw), 1.2 * r, 0.5 * r), 0.1 * r), (0.0, 0.0, 1.9 * r), look["clip"]))
            made.append((Cylinder(0.25 * r, 14.0 * r), (0.0, 0.0, 9.0 * r), look["rod"]))
            parts, at = tuple(Part(shape, place, material=m) for shape, place, m in made), ball
        up: Vec3 = (at[0], 0.0, at[2] + RISE * r)
        return Body("holder", parts, position=at, collides=False), Move((-HOLD, 0.0, LIFT), (at, at, up), (IDENTITY,) * 3)

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the ball where it lay on the top, with the sideways velocity that it was left (n rows)."""
        world = self.world()
        pos, vel = np.zeros((2, len(launch["release_x"]), len(world.moving), 3))
        i = world.loose[0]
        pos[:, i, 0] = launch["release_x"]
        pos[:, i, 2] = self._on_top(self.offset + launch["release_x"]) - self._on_top(np.array(self.offset))
        vel[:, i, 0] = launch["release_vx"]
        return State.at_release(world, len(pos), pos=pos, vel=vel)

    def regions(self) -> tuple[Region, ...]:
        """Return where each tray holds the whole ball: below the foot of the crest's side."""
        near, top = self.half_base + self.plank, self.tray_depth - self.ball_radius
        return Region(0, -near - self.tray, -near, 0.0, top), Region(1, near, near + self.tray, 0.0, top)

    def read(self, state: State) -> IntArray:
        """Return the tray that the whole ball is in; UNDECIDED before."""
        ball = state.pos[:, 0]  # the world's first moving body
        return read_regions(self.regions(), ball[:, 0], ball[:, 2])


LOOKS: Mapping[str, Mapping[str, Material]] = {
    "wood": {
        "back": Material((0.90, 0.87, 0.80), "plain", roughness=0.95),
        "crest": Material((0.83, 0.62, 0.36), "plain", roughness=0.6),
        "frame": Material((0.45, 0.28, 0.16), "wood", (0.34, 0.20, 0.11), 0.6),
        "floor": Material((0.16, 0.42, 0.30), "felt", (0.12, 0.34, 0.24), 1.0),
        "ball": Material((0.15, 0.35, 0.78), "plain", (0.8, 0.9, 1.0), 0.12),
        "clip": Material((0.36, 0.38, 0.42), "brushed", (0.28, 0.30, 0.33), 0.4),
        "rod": Material((0.13, 0.14, 0.16), "plain", roughness=0.5),
    },
    "metal": {
        "back": Material((0.78, 0.80, 0.84), "plain", roughness=0.95),
        "crest": Material((0.44, 0.48, 0.54), "plain", roughness=0.45),
        "frame": Material((0.24, 0.26, 0.30), "plain", roughness=0.5),
        "floor": Material((0.55, 0.13, 0.14), "felt", (0.46, 0.10, 0.11), 1.0),
        "ball": Material((0.90, 0.91, 0.93), "plain", (1.0, 1.0, 1.0), 0.06),
        "clip": Material((0.86, 0.58, 0.16), "plain", roughness=0.45),
        "rod": Material((0.22, 0.23, 0.26), "plain", roughness=0.5),
    },
}
