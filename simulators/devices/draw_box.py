"""Balls in a transparent box that is shaken, one of which a hand takes out. Knows which ball is in the hand, not the odds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.kernels.piles import Grip, pour
from simulators.rotation import IDENTITY, Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Cylinder, Material, Move, Part, Quat, Sphere, Surface, Vec3, World

KEY = 0.01  # s between keyframes of the shaking
REACH_TIME = 0.8  # s: the hand's way down, in which the shaking dies away
CLOSE_TIME, LIFT_TIME, HOLD_TIME = 0.2, 0.9, 0.6  # s


@dataclass(frozen=True)
class DrawBox:
    """An open box with one layer of balls, shaken to and fro by its stand, and a hand that reaches in and lifts one ball.

    Setup (SI): a box of inner `size` (x, y, z) holds one ball of `ball_radius` for each entry of `filling`, which names them
    row by row from the viewer's left: fixed, and seen in frame 0. From t = 0 the box is shaken for `shake_time` with
    `amplitude` [m] at `frequency` [1/s] along x and, 1.3 times as fast, along y; the shaking dies away while the hand comes
    down beside `reach_mean` (x, y), the man seeing nothing. When it is down the hand closes on the ball whose centre is
    nearest to it, within `grasp` [m], and lifts it out.
    Random, all of it in the action: `strength` (share of `amplitude`), `tempo` (share of `frequency`), `phase` [rad] of y
    against x, and `reach_x`, `reach_y` [m], where the hand comes down relative to `reach_mean`.
    Outcomes: the name of the ball in the lifted hand at the end of the clip; the others are ignored. `first` is the ball it
    closed on.
    No outcome: `stuck` (no ball within reach), `left_apparatus` (a ball jumped out of the picture).
    Known gap: fingers do not push balls aside, and a spring holds the ball in the hand. The Bullet engine has no such spring:
    there nothing is lifted, and the ball that is read lies where the hand has closed.
    """

    filling: tuple[str, ...]
    size: tuple[float, float, float]
    ball_radius: float
    ball_density: float
    amplitude: float
    frequency: float
    shake_time: float
    reach_mean: tuple[float, float]
    grasp: float
    restitution: float
    friction: float
    rolling_friction: float
    random: Mapping[str, Distribution]
    colors: Mapping[str, tuple[float, float, float]] = field(default_factory=dict, metadata={"physics": False})
    props: bool = field(default=False, metadata={"physics": False})

    version: ClassVar[int] = 2
    variables: ClassVar[tuple[str, ...]] = ("strength", "tempo", "phase", "reach_x", "reach_y")
    readout: ClassVar[Readout] = "last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "colors", {name: tuple(color) for name, color in self.colors.items()})
        for name in ("filling", "size", "reach_mean"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        check_fields(
            self,
            positive=("ball_radius", "ball_density", "frequency", "shake_time", "grasp"),
            share=("restitution",),
            at_least_zero=("friction", "rolling_friction", "amplitude"),
            further=[
                (len(self.facts) > 1, "filling", "must name at least two kinds of balls"),
                (set(self.facts) <= set(self.colors), "colors", "must have every name in `filling`"),
                (
                    len(self.size) == 3 and min(self.size) > 2.0 * self.ball_radius,
                    "size",
                    "must be three edges larger than a ball",
                ),
                (
                    len(self.reach_mean) == 2
                    and all(abs(a) < b / 2.0 for a, b in zip(self.reach_mean, self.size, strict=False)),
                    "reach_mean",
                    "must lie over the box",
                ),
            ],
        )

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the balls, each once, in the order of first appearance."""
        return tuple(dict.fromkeys(self.filling))

    @property
    def closing(self) -> float:
        """When [s] the hand is down and closes: an instant of 60 Hz."""
        return round(60.0 * (self.shake_time + REACH_TIME)) / 60.0

    @property
    def end_time(self) -> float:
        """When [s] the clip ends, the hand up and still: an instant of 60 Hz."""
        return self.closing + math.ceil(60.0 * (CLOSE_TIME + LIFT_TIME + HOLD_TIME)) / 60.0

    @property
    def grip(self) -> Grip:
        """The hand's grip, between and below its fingertips, so that the ball can be seen."""
        return Grip(self.closing, "hand", (0.0, 0.0, -0.6 * self.ball_radius), self.grasp)

    @property
    def mass(self) -> float:
        """Mass [kg] of a ball."""
        return self.ball_density * 4.0 / 3.0 * math.pi * self.ball_radius**3

    def world(self) -> World:
        """Return table, man, box, hand and balls, in the order of the filling."""
        r = self.ball_radius
        x, y, _ = (edge / 2.0 for edge in self.size)
        surface = Surface(restitution=self.restitution, friction=self.friction)
        box = self._box(surface)
        rolling = replace(surface, rolling_friction=self.rolling_friction)
        ball = Body("ball", (Part(Sphere(r)),), mass=self.mass, surface=rolling)
        places = pour((box,), ball, len(self.filling), (-x, -y, BASE), (x, y, BASE + 2.1 * r))
        balls = tuple(
            replace(ball, name=f"ball {i + 1}", parts=(Part(Sphere(r), material=_paint(self.colors[name])),), position=at)
            for i, (name, at) in enumerate(zip(self.filling, places, strict=True))
        )
        hand = Body("hand", self._hand(), position=self._hand_at(UP, (0.0, 0.0)), surface=surface, driven=True)
        table = Body("table", (Part(Box((1.6, 1.0, 0.03)), (0.0, 0.0, -0.015), material=TABLE),), collides=False)
        plate = Part(Box((2.0 * x + 0.08, 2.0 * y + 0.08, BASE - 0.008)), (0.0, 0.0, (BASE - 0.008) / 2.0), material=STEEL)
        bodies = [table, Body("stand", (plate,), collides=False), Body("man", _man(y + 0.20), collides=False)]
        if self.props:
            bodies += [Body(f"prop {i + 1}", (part,), collides=False) for i, part in enumerate(_props(x + 0.10))]
        return World((*balls, box, hand, *bodies), bounds=((-0.8, -0.5, 0.0), (0.8, 0.5, 1.0)))

    def _box(self, surface: Surface) -> Body:
        (a, b, c), wall = self.size, 0.006
        middle, outer = BASE + c / 2.0, (a + 2.0 * wall, b)
        parts = [Part(Box((a + 2.0 * wall, b + 2.0 * wall, wall)), (0.0, 0.0, BASE - wall / 2.0), material=GLASS)]
        for side in (-1.0, 1.0):
            parts += [
                Part(Box((wall, outer[1], c)), (side * (a + wall) / 2.0, 0.0, middle), material=GLASS),
                Part(Box((outer[0], wall, c)), (0.0, side * (b + wall) / 2.0, middle), material=GLASS),
            ]
        return Body("box", tuple(parts), surface=surface, driven=True)

    def _hand(self) -> tuple[Part, ...]:
        """Return four fingertips around the grip, palm and forearm, in axes whose origin is between the fingers."""
        r, finger = self.ball_radius, 0.006
        parts = []
        for k in range(4):
            turn = 2.0 * math.pi * (k + 0.5) / 4.0
            place = ((r + finger) * math.cos(turn), (r + finger) * math.sin(turn), 0.3 * r)
            parts.append(Part(Capsule(finger, 1.4 * r), place, material=SKIN))
        palm, arm = 1.6 * r + 0.022, 0.5 * ARM
        parts.append(Part(Capsule(0.020, 0.03), (0.0, 0.006, palm), ACROSS, SKIN))
        parts.append(Part(Capsule(0.024, ARM), (0.0, arm * SLOPE[1], palm + 0.01 + arm * SLOPE[2]), LEANING, SLEEVE))
        return tuple(parts)

    def _hand_at(self, up: float, offset: tuple[float, float]) -> Vec3:
        x, y = self.reach_mean
        return (x + offset[0], y + offset[1], BASE + (2.75 + up) * self.ball_radius)

    def drive(self, launch: Mapping[str, Array]) -> Mapping[str, Move]:
        """Return the box's shaking and the hand's way of one launch."""
        time = np.append(np.arange(0.0, self.closing, KEY), self.closing)
        fade = np.clip((time - self.shake_time) / (self.closing - self.shake_time), 0.0, 1.0)
        size = self.amplitude * float(launch["strength"]) * np.minimum(1.0, time / 0.2) * np.cos(0.5 * math.pi * fade) ** 2
        rate = 2.0 * math.pi * self.frequency * float(launch["tempo"])
        x, y = size * np.sin(rate * time), size * np.sin(1.3 * rate * time + float(launch["phase"]))
        places = tuple(zip(x.tolist(), y.tolist(), [0.0] * len(time), strict=True))
        shaking = Move(tuple(time.tolist()), places, (IDENTITY,) * len(time), eased=False)
        offset = float(launch["reach_x"]), float(launch["reach_y"])
        above, low, high = self._hand_at(UP, (0.0, 0.0)), self._hand_at(0.0, offset), self._hand_at(UP, offset)
        begin = self.closing - REACH_TIME
        times = (begin, self.closing, self.closing + CLOSE_TIME, self.closing + CLOSE_TIME + LIFT_TIME)
        return {"box": shaking, "hand": Move(times, (above, low, low, high), (IDENTITY,) * 4)}

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the balls as they lie in the picture (n rows)."""
        return State.at_release(self.world(), len(launch["phase"]))

    def read(self, state: State) -> IntArray:
        """Return the name of the ball nearest to where the hand has closed or to its way up; UNDECIDED before, or if none is.

        The hand goes straight up: a ball that it holds is at its grip, and one that it left is still below.
        """
        count = len(self.filling)  # the balls are the first to move, then box and hand
        grip = state.pos[:, None, count + 1] + np.array(self.grip.point)
        offset = state.pos[:, :count] - grip
        lowest = self._hand_at(0.0, (0.0, 0.0))[2] + self.grip.point[2]
        offset[..., 2] -= np.clip(offset[..., 2], lowest - grip[..., 2], 0.0)
        away = np.sqrt(np.sum(offset**2, axis=-1))
        names = np.array([self.facts.index(name) for name in self.filling])
        held = (state.time > self.closing - 1e-6) & (away.min(axis=-1) < self.grasp)
        return np.where(held, names[np.argmin(away, axis=-1)], UNDECIDED)


def _paint(color: Vec3) -> Material:
    return Material(color, roughness=0.35)


def _man(y: float) -> tuple[Part, ...]:
    """Return head, blindfold, trunk and the idle arm of the man behind the box."""
    shirt = Material((0.20, 0.29, 0.42), "felt", (0.16, 0.24, 0.36), 1.0)
    return (
        Part(Sphere(0.085), (0.0, y, 0.50), material=SKIN),
        Part(Cylinder(0.088, 0.035), (0.0, y, 0.515), material=Material((0.06, 0.06, 0.07), roughness=1.0)),
        Part(Capsule(0.035, 0.05), (0.0, y, 0.40), material=SKIN),
        Part(Capsule(0.075, 0.24), (0.0, y + 0.03, 0.32), ACROSS, shirt),
        Part(Capsule(0.13, 0.20), (0.0, y + 0.03, 0.13), material=shirt),
    )


def _props(x: float) -> tuple[Part, ...]:
    """Return a red mug, a blue book and a green bottle that stand beside the box, `x` [m] from its middle."""
    return (
        Part(Cylinder(0.036, 0.09, 0.003), (x + 0.05, -0.05, 0.045), material=Material((0.75, 0.12, 0.10), roughness=0.3)),
        Part(Box((0.15, 0.11, 0.03), 0.003), (-x - 0.09, -0.06, 0.015), material=Material((0.12, 0.22, 0.62), roughness=0.7)),
        Part(Capsule(0.03, 0.13), (x + 0.13, 0.08, 0.095), material=Material((0.08, 0.40, 0.20), roughness=0.15)),
    )


BASE = 0.03  # m, height of the box's floor
UP = 10.0  # ball radii: how far above its lowest place the hand waits
ARM = 0.26  # m
SLOPE = (0.0, math.sin(0.8), math.cos(0.8))  # the forearm's direction: back and up
LEANING: Quat = tuple(rotation.about((1.0, 0.0, 0.0), -0.8).tolist())
ACROSS: Quat = tuple(rotation.about((0.0, 1.0, 0.0), math.pi / 2.0).tolist())
SKIN = Material((0.86, 0.66, 0.54), roughness=0.8)
SLEEVE = Material((0.20, 0.29, 0.42), "felt", (0.16, 0.24, 0.36), 1.0)
GLASS = Material((0.80, 0.90, 0.94), roughness=0.1, opacity=0.18)
STEEL = Material((0.45, 0.47, 0.50), "brushed", (0.36, 0.38, 0.41), 0.4)
TABLE = Material((0.50, 0.33, 0.20), "wood", (0.36, 0.22, 0.12), 0.7)
