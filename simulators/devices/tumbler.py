"""Balls in a glass drum that a rotor stirs and a slide lets out of, one at a time. Knows which ball is out, not the odds."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import STUCK, UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.kernels.piles import pour
from simulators.rotation import IDENTITY, Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Material, Move, Part, Quat, Sphere, Surface, Vec3, World

RAMP = 0.25  # s: in which the rotor gains its speed and loses it; one that is made to turn back does each in half of it
KEY = 1.0 / 16.0  # s between keyframes of the rotor
PUSH = 0.35  # s: each half of the slide's way
FALL = 0.9  # s: after the slide has stopped, for the ball to come to rest in the tube
TIMER = 0.2  # s: the rotor's time is never longer or shorter than meant by more than this
Y_AXIS = (0.0, 1.0, 0.0)
ALONG_Y: Quat = tuple(rotation.about((1.0, 0.0, 0.0), math.pi / 2.0).tolist())


@dataclass(frozen=True)
class Tumbler:
    """A drum with a level axis, two skewed blades that a crank turns, and a slide below that has room for one ball.

    Setup (SI): `sides` panes around the axis, their edges `drum_radius` from it, `drum_depth` long; the lowest part is cut
    off level, `floor` below the axis, and the slide closes it. In the drum lies one ball of `ball_radius` for each entry of
    `filling`, which names them from the first (lowest) poured in to the last; the heap that frame 0 shows is settled by the
    kernel's laws of contact and is the same for every filling. The rotor makes `turns` turns at `speed` [turns/s], gaining and
    losing its speed on the way, reversed after every turn when `reverse`; `pause` seconds after it ought to have made them
    (before, if negative) the slide is pushed once: its pocket stops under the opening for `dwell` seconds, takes a ball along,
    drops it into a tube.
    Random, all of it in the action: `rate`, the rotor's speed as a share of `speed`, and `overrun` [s], how much longer
    than meant it is on (held within 0.2 s by what switches it). `speed` 0 or `turns` 0 leaves the heap alone.
    Outcomes: the name of the ball in the tube at the end of the clip; `first` is the first ball below the slide.
    No outcome: `stuck` (no ball came out, or more than one), `left_apparatus`.
    Known gap: balls are equal and round; the drum is a prism; blades and slide yield to nothing. A ball that they wedge, where
    a hand or a motor would stop, is squeezed with whatever force that takes: then how hard balls are decides what comes out.
    A wedge lets go where its angle is over twice the angle of friction; skewed blades make narrower ones.
    """

    filling: tuple[str, ...]
    ball_radius: float
    ball_density: float
    drum_radius: float
    drum_depth: float
    floor: float
    sides: int
    skew: float
    turns: float
    speed: float
    reverse: bool
    pause: float
    dwell: float
    restitution: float
    friction: float
    rolling_friction: float
    random: Mapping[str, Distribution]
    colors: Mapping[str, tuple[float, float, float]] = field(default_factory=dict, metadata={"physics": False})
    sign: str = field(default="", metadata={"physics": False})

    version: ClassVar[int] = 2
    variables: ClassVar[tuple[str, ...]] = ("rate", "overrun")
    readout: ClassVar[Readout] = "last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "filling", tuple(self.filling))
        object.__setattr__(self, "colors", {name: tuple(color) for name, color in self.colors.items()})
        diameter = 2.0 * self.ball_radius
        check_fields(
            self,
            positive=("ball_radius", "ball_density", "drum_radius", "drum_depth", "dwell"),
            share=("restitution",),
            at_least_zero=("friction", "rolling_friction", "turns", "speed", "skew"),
            further=[
                (len(self.facts) > 1, "filling", "must name at least two kinds of balls"),
                (self.skew < 1.2, "skew", "must be under 1.2 rad"),
                (self.sides >= 5, "sides", "must be at least 5"),
                (
                    0.0 < self.floor < self.drum_radius and self.half_mouth > 1.1 * diameter,
                    "floor",
                    "must cut a mouth of over 2.2 ball diameters off the drum: two balls make an arch over a narrower one",
                ),
                (self.drum_depth > self.pocket, "drum_depth", f"must be larger than the slide's pocket, {self.pocket:g} m"),
                (self.gate_time >= 0.0, "pause", "must not be so negative that the slide moves before the rotor starts"),
            ],
        )

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the balls, each once, in the order of first appearance."""
        return tuple(dict.fromkeys(self.filling))

    @property
    def pocket(self) -> float:
        """Width [m] of the square room in the slide: ample for one ball, too narrow for two."""
        return 2.5 * self.ball_radius

    @property
    def half_mouth(self) -> float:
        """Half the width [m] of the drum's open underside."""
        return math.sqrt(max(self.drum_radius**2 - self.floor**2, 0.0))

    @property
    def ramp(self) -> float:
        """Seconds in which the rotor gains its speed, and loses it."""
        return RAMP / 2.0 if self.reverse else RAMP

    def _lasting(self, turns: float) -> float:
        """Return how long [s] the rotor takes for `turns` turns one way, from rest to rest; few leave it below its speed."""
        steady = turns / self.speed if self.speed > 0.0 else 0.0
        return steady + self.ramp if steady >= self.ramp else 2.0 * math.sqrt(steady * self.ramp)

    @property
    def stirring(self) -> float:
        """Seconds for which the rotor is meant to be on."""
        if not self.reverse:
            return self._lasting(self.turns)
        return math.floor(self.turns) * self._lasting(1.0) + self._lasting(self.turns % 1.0)

    @property
    def gate_time(self) -> float:
        """When [s] the slide begins to move."""
        return self.stirring + self.pause

    @property
    def end_time(self) -> float:
        """When [s] the clip ends and the tube is read, an instant of 60 Hz."""
        return math.ceil(60.0 * (self.gate_time + 2.0 * PUSH + self.dwell + FALL)) / 60.0

    @property
    def mass(self) -> float:
        """Mass [kg] of a ball."""
        return self.ball_density * 4.0 / 3.0 * math.pi * self.ball_radius**3

    @property
    def travel(self) -> float:
        """How far [m] the pocket's middle stands from the drum's before and after."""
        return self.half_mouth + self.pocket / 2.0 + 0.3 * self.ball_radius

    @property
    def tube_height(self) -> float:
        """Height [m] of the plate that the slide moves on."""
        return 6.0 * self.ball_radius

    @property
    def axis_height(self) -> float:
        """Height [m] of the rotor's axis above the table."""
        return self.tube_height + 2.0 * self.ball_radius + GAP + self.glass + self.floor

    @property
    def glass(self) -> float:
        """Thickness [m] of all panes."""
        return 0.2 * self.ball_radius

    def world(self) -> World:
        """Return table, stand, drum, tube, rotor, slide and balls, in the order of the filling."""
        apparatus = self._apparatus()
        inner, half, height = self.drum_radius, self.drum_depth / 2.0, self.axis_height
        surface = replace(self._surface, rolling_friction=self.rolling_friction)
        ball = Body("ball", (Part(Sphere(self.ball_radius)),), mass=self.mass, surface=surface)
        low, high = (-inner, -half, height - self.floor - self.glass), (inner, half, height + inner)
        places = pour(apparatus, ball, len(self.filling), low, high)
        balls = tuple(
            replace(
                ball, name=f"ball {i + 1}", parts=(Part(Sphere(self.ball_radius), material=self._paint(name)),), position=at
            )
            for i, (name, at) in enumerate(zip(self.filling, places, strict=True))
        )
        reach = 3.0 * inner + 2.0 * self.travel
        return World((*balls, *apparatus), bounds=((-reach, -reach, 0.0), (reach, reach, height + reach)))

    @property
    def _surface(self) -> Surface:
        return Surface(restitution=self.restitution, friction=self.friction)

    def _paint(self, name: str) -> Material:
        if name in self.colors:
            return Material(self.colors[name], roughness=0.35)
        hue = self.facts.index(name) * 0.618 % 1.0  # neighbours in the filling differ most
        return Material(colorsys.hsv_to_rgb(hue, 0.75, 0.85), "number", roughness=0.35, label=name)

    def _apparatus(self) -> tuple[Body, ...]:
        glass, pocket, depth, r = self.glass, self.pocket, self.drum_depth, self.ball_radius
        radius, height, plate_z = self.drum_radius, self.axis_height, self.tube_height
        surface = self._surface
        cut = math.acos(self.floor / radius)
        each = 2.0 * (math.pi - cut) / self.sides
        out, width = radius * math.cos(each / 2.0) + glass / 2.0, 2.0 * radius * math.sin(each / 2.0)
        panes = []
        for number in range(self.sides):
            turn = cut + (number + 0.5) * each  # from straight down
            tilt = tuple(rotation.about(Y_AXIS, -turn).tolist())
            place = (out * math.sin(turn), 0.0, height - out * math.cos(turn))
            panes.append(Part(Box((width, depth, glass)), place, tilt, GLASS))
        low, high = plate_z + 2.0 * r + GAP, height + radius + glass
        for side in (-1.0, 1.0):
            pane = Box((2.0 * (radius + glass), glass, high - low))
            panes.append(Part(pane, (0.0, side * (depth + glass) / 2.0, (low + high) / 2.0), material=GLASS))
        x, y, wide = self.travel, self._pocket_y, pocket + 2.0 * glass
        tube = [
            Part(Box((glass, wide, plate_z - FLOOR)), (x - (pocket + glass) / 2.0, y, (plate_z - FLOOR) / 2.0), material=GLASS),
            Part(Box((glass, wide, plate_z)), (x + (pocket + glass) / 2.0, y, plate_z / 2.0), material=GLASS),
        ]
        tube += [
            Part(Box((pocket, glass, plate_z)), (x, y + side * (pocket + glass) / 2.0, plate_z / 2.0), material=GLASS)
            for side in (-1.0, 1.0)
        ]
        left, right, deep = -x - pocket, x - pocket / 2.0, depth + 2.0 * BAR * r
        plate = Part(Box((right - left, deep, FLOOR)), ((left + right) / 2.0, 0.0, plate_z - FLOOR / 2.0), material=WOOD)
        leg, tall = 0.5 * r, plate_z - FLOOR
        legs = tuple(
            Part(Box((leg, leg, tall)), (end, side * (deep - leg) / 2.0, tall / 2.0), material=WOOD)
            for end in (left + leg, right - leg)
            for side in (-1.0, 1.0)
        )
        span = 12.0 * radius
        table = Part(Box((span, span, FLOOR)), (0.0, 0.0, -FLOOR / 2.0), material=TABLE)
        bodies = [
            Body("table", (table,), surface=surface),
            Body("plate", (plate,), surface=surface),
            Body("drum", tuple(panes), surface=surface),
            Body("tube", tuple(tube), surface=surface),
            Body("stand", legs, collides=False),
            Body("rotor", self._rotor(), position=(0.0, 0.0, height), surface=surface, driven=True),
            Body("slide", self._slide(), position=self._slide_at(-1.0), surface=surface, driven=True),
        ]
        if self.sign:
            board = Part(Box((3.6 * r, 0.3 * r, 1.8 * r)), material=Material((0.97, 0.95, 0.88), "sign", label=self.sign))
            faces_x = tuple(rotation.about((0.0, 0.0, 1.0), math.pi / 2.0).tolist())
            place = (radius + 2.0 * glass, 0.0, height + radius + 1.2 * r)
            bodies.append(Body("sign", (board,), position=place, quaternion=faces_x, collides=False))
        return tuple(bodies)

    def _rotor(self) -> tuple[Part, ...]:
        """Return shaft, two opposite blades skewed against each other, crank and handle, in axes along the shaft's."""
        r, depth = self.ball_radius, self.drum_depth
        each = (math.pi - math.acos(self.floor / self.drum_radius)) / self.sides
        inner = min(self.floor, self.drum_radius * math.cos(each))
        width = 0.92 * depth / math.cos(self.skew) if self.skew < 0.8 else 1.3 * depth
        corner = width / 2.0 * math.sin(self.skew)
        length = math.sqrt(max((inner - 0.3 * r) ** 2 - corner**2, (0.5 * inner) ** 2))
        blades = [
            Part(
                Box((length, width, 0.24 * r)),
                (side * length / 2.0, 0.0, 0.0),
                tuple(rotation.about((1.0, 0.0, 0.0), side * self.skew).tolist()),
                STEEL,
            )
            for side in (-1.0, 1.0)
        ]
        back, arm = depth / 2.0 + 2.0 * self.glass + 0.5 * r, 1.6 * r
        return (
            Part(Capsule(0.3 * r, depth + 2.0 * self.glass + r), (0.0, 0.5 * r, 0.0), ALONG_Y, STEEL),
            *blades,
            Part(Box((arm, 0.3 * r, 0.5 * r)), (arm / 2.0, back + 0.3 * r, 0.0), material=STEEL),
            Part(Capsule(0.28 * r, 1.2 * r), (arm, back + 1.1 * r, 0.0), ALONG_Y, KNOB),
        )

    def _slide(self) -> tuple[Part, ...]:
        """Return the plate around the pocket and its knob, in axes whose origin is the pocket's middle, the drum's in depth."""
        pocket, r, high = self.pocket, self.ball_radius, 2.0 * self.ball_radius
        solid, deep = self.travel + self.half_mouth - pocket / 2.0 + 0.3 * r, self.drum_depth + 2.0 * BAR * r
        x, behind = (pocket + solid) / 2.0, self.drum_depth - pocket + BAR * r
        return (
            Part(Box((solid, deep, high)), (-x, 0.0, 0.0), material=SLIDE),
            Part(Box((solid, deep, high)), (x, 0.0, 0.0), material=SLIDE),
            Part(Box((pocket, BAR * r, high)), (0.0, -(deep - BAR * r) / 2.0, 0.0), material=SLIDE_FRONT),
            Part(Box((pocket, behind, high)), (0.0, (deep - behind) / 2.0, 0.0), material=SLIDE),
            Part(Capsule(0.5 * r, 0.8 * r), (-x - solid / 2.0 - 0.7 * r, 0.0, 0.0), ALONG_X, KNOB),
        )

    @property
    def _pocket_y(self) -> float:
        """The pocket's middle in depth: at the front pane, so that no two balls side by side make an arch over it."""
        return (self.pocket - self.drum_depth) / 2.0

    def _slide_at(self, share: float) -> Vec3:
        return (share * self.travel, 0.0, self.tube_height + self.ball_radius)

    def drive(self, launch: Mapping[str, Array]) -> Mapping[str, Move]:
        """Return the rotor's turning and the slide's push of one launch."""
        start, rest, end = (self._slide_at(share) for share in (-1.0, 0.0, 1.0))
        begin = self.gate_time
        times = (begin, begin + PUSH, begin + PUSH + self.dwell, begin + 2.0 * PUSH + self.dwell)
        slide = Move(times, (start, rest, rest, end), (IDENTITY,) * 4)
        keys, angles = self._turning(float(launch["rate"]), float(launch["overrun"]))
        turns = tuple(map(tuple, rotation.about(Y_AXIS, angles).tolist()))
        centre: Vec3 = (0.0, 0.0, self.axis_height)
        rotor = Move(tuple(keys.tolist()), (centre,) * len(keys), turns, eased=False)
        return {"rotor": rotor, "slide": slide}

    def _turning(self, rate: float, overrun: float) -> tuple[Array, Array]:
        """Return keyframe times (K,) [s] and the rotor's angles (K,) [rad]."""
        total = self.stirring + min(max(overrun, -TIMER), TIMER) if self.stirring > 0.0 else 0.0
        times = np.append(np.arange(0.0, max(total, 0.0), KEY), max(total, KEY))
        period = self._lasting(1.0) if self.reverse and self.speed > 0.0 else times[-1]
        swing = np.floor(times / period)
        begun = times - swing * period
        left = np.minimum(period - begun, np.maximum(total - times, 0.0))
        pace = np.where(swing % 2.0 == 0.0, 1.0, -1.0) * np.minimum(1.0, np.minimum(begun, left) / self.ramp)
        speed = 2.0 * math.pi * self.speed * rate * pace
        return times, np.append(0.0, np.cumsum((speed[1:] + speed[:-1]) / 2.0 * np.diff(times)))

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the heap as it lies in the picture (n rows)."""
        return State.at_release(self.world(), len(launch["rate"]))

    def read(self, state: State) -> IntArray:
        """Return the name of the one ball that is below the slide; UNDECIDED while none is, STUCK when several are."""
        out = state.pos[:, : len(self.filling), 2] < self.tube_height - self.ball_radius  # the balls are the first to move
        names = np.array([self.facts.index(name) for name in self.filling])
        count = out.sum(axis=-1)
        return np.where(count == 1, names[np.argmax(out, axis=-1)], np.where(count == 0, UNDECIDED, STUCK))


GAP = 0.5e-3  # m, between drum and slide
BAR = 0.35  # ball radii: the slide's frame in front of and behind the drum
FLOOR = 0.008  # m, thickness of the plate and of the table
ALONG_X: Quat = tuple(rotation.about(Y_AXIS, math.pi / 2.0).tolist())
GLASS = Material((0.80, 0.90, 0.94), roughness=0.1, opacity=0.18)
WOOD = Material((0.42, 0.27, 0.16), "wood", (0.30, 0.18, 0.10), 0.6)
TABLE = Material((0.62, 0.46, 0.30), "wood", (0.48, 0.33, 0.20), 0.8)
STEEL = Material((0.70, 0.72, 0.75), "brushed", (0.55, 0.57, 0.60), 0.35)
KNOB = Material((0.13, 0.14, 0.16), roughness=0.5)
SLIDE = Material((0.30, 0.33, 0.38), roughness=0.5)
SLIDE_FRONT = Material((0.30, 0.33, 0.38), roughness=0.5, opacity=0.3)
