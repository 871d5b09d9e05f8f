"""A double pendulum let go by two clips. Knows which side of the pivot its outer mass is on, not how often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import ON_EDGE, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.rotation import IDENTITY, Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Cylinder, Material, Move, Part, Quat, Sphere, Vec3, World

HOLD, CLEAR = 0.5, 0.2  # s: how long the clips hold before the release, and their way out of the picture
BOB, ROD = 0.014, 0.003  # m, radii that are drawn
ALONG_Y: Quat = tuple(rotation.about((1.0, 0.0, 0.0), math.pi / 2.0).tolist())


@dataclass(frozen=True)
class DoublePendulum:
    """Two equal point masses on two massless rods that turn in the picture's plane about a fixed pivot.

    Setup (SI): rods of `inner_length` and `outer_length`, each with a bob of `mass` at its end, held at `inner_angle` and
    `outer_angle` [rad] from straight down, counterclockwise for the viewer, until two clips let go at t = 0.
    Random at the launch: `inner_push` and `outer_push` [rad/s], what the clips leave in the rods' rotation as they let go;
    the angles are as pictured. `end_time` [s] is when the side is read.
    Outcomes: the side of the pivot's vertical that the outer bob's centre is on at `end_time`, `left` or `right`.
    No outcome: `on_edge`, the centre within `margin` [m] of that line.
    Known gap: no friction and no air; the rods pass each other and the stand; bobs are points, and rods weigh nothing.
    """

    inner_length: float
    outer_length: float
    mass: float
    inner_angle: float
    outer_angle: float
    margin: float
    end_time: float
    random: Mapping[str, Distribution]

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("inner_push", "outer_push")
    facts: ClassVar[tuple[str, ...]] = ("left", "right")
    readout: ClassVar[Readout] = "last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        check_fields(
            self,
            positive=("inner_length", "outer_length", "mass", "end_time"),
            at_least_zero=("margin",),
            further=[
                (math.isfinite(self.inner_angle), "inner_angle", "must be finite"),
                (math.isfinite(self.outer_angle), "outer_angle", "must be finite"),
                (self.end_time <= 60.0, "end_time", "must be at most 60 s"),
            ],
        )

    @property
    def pivot_height(self) -> float:
        """Height [m] of the pivot above the table: the outer bob clears it."""
        return 1.25 * (self.inner_length + self.outer_length)

    def bobs(self) -> tuple[Vec3, Vec3]:
        """Return where the two bobs are held [m]."""
        x1, z1 = self.inner_length * math.sin(self.inner_angle), self.inner_length * math.cos(self.inner_angle)
        x2, z2 = self.outer_length * math.sin(self.outer_angle), self.outer_length * math.cos(self.outer_angle)
        high = self.pivot_height
        return (x1, 0.0, high - z1), (x1 + x2, 0.0, high - z1 - z2)

    def world(self) -> World:
        """Return stand, arms and clips. An arm's origin is its bob, where all its mass is; its local z points back along it."""
        high, reach = self.pivot_height, self.inner_length + self.outer_length
        inner, outer = self.bobs()
        stand = (
            Part(Box((2.0, 1.2, 0.04)), (0.0, 0.35, -0.02), material=TABLE),
            Part(Box((2.0, 0.04, 1.6)), (0.0, 0.70, 0.8), material=WALL),
            Part(Box((0.20, 0.14, 0.025), 0.006), (0.0, 0.09, 0.0125), material=STEEL),
            Part(Cylinder(0.011, high + 0.03), (0.0, 0.09, (high + 0.03) / 2.0), material=STEEL),
            Part(Capsule(0.006, 0.115), (0.0, 0.035, high), ALONG_Y, STEEL),
        )
        arms = (
            self._arm("inner", inner, self.inner_length, self.inner_angle, 0.008, BLUE),
            self._arm("outer", outer, self.outer_length, self.outer_angle, -0.008, RED),
        )
        clips, moves = [], {}
        for name, bob in (("clip_inner", inner), ("clip_outer", outer)):
            # Out of the picture upwards: where the bobs begin to fall they are not in the way.
            away: Vec3 = (bob[0], 0.0, bob[2] + 6.0 * reach)
            clips.append(Body(name, CLIP, position=bob, collides=False))
            moves[name] = Move((-HOLD, 0.0, CLEAR), (bob, bob, away), (IDENTITY,) * 3)
        limit = 2.0 * reach
        return World(
            bodies=(Body("stand", stand, collides=False), *arms, *clips),
            bounds=((-limit, -limit, high - limit), (limit, limit, high + limit)),
            moves=moves,
        )

    def _arm(self, name: str, bob: Vec3, length: float, angle: float, depth: float, material: Material) -> Body:
        parts = (
            Part(Sphere(BOB), material=material),
            Part(Capsule(ROD, length), (0.0, depth, length / 2.0), material=STEEL),
            Part(Cylinder(0.006, 0.02), (0.0, depth / 2.0, 0.0), ALONG_Y, STEEL),
        )
        return Body(name, parts, mass=self.mass, position=bob, quaternion=turned(angle), collides=False)

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the arms as the clips leave them (n rows)."""
        world = self.world()
        rows = len(launch["inner_push"])
        vel = np.zeros((rows, len(world.moving), 3))
        omega = np.zeros_like(vel)
        for arm, (push, length, angle) in enumerate(
            (
                (launch["inner_push"], self.inner_length, self.inner_angle),
                (launch["outer_push"], self.outer_length, self.outer_angle),
            )
        ):
            omega[:, arm, 1] = -push  # counterclockwise for a viewer at -y is left-handed about y
            vel[:, arm, 0] = push * length * math.cos(angle)
            vel[:, arm, 2] = push * length * math.sin(angle)
        vel[:, 1] += vel[:, 0]
        return State.at_release(world, rows, vel=vel, omega=omega)

    def read(self, state: State) -> IntArray:
        """Return 0 (left) or 1 (right of the pivot) for the outer bob's centre, ON_EDGE within `margin` of the line."""
        x = state.pos[:, 1, 0]  # the outer arm is the world's second moving body
        return np.where(np.abs(x) <= self.margin, ON_EDGE, (x > 0.0).astype(np.int64))


def turned(angle: float) -> Quat:
    """Return the orientation of an arm at `angle` [rad] from straight down, counterclockwise for the viewer."""
    return tuple(rotation.about((0.0, 1.0, 0.0), -angle).tolist())


STEEL = Material(color=(0.62, 0.63, 0.66), texture="brushed", accent=(0.48, 0.49, 0.52), roughness=0.35)
BLUE = Material(color=(0.13, 0.30, 0.66), roughness=0.3)
RED = Material(color=(0.80, 0.13, 0.13), roughness=0.3)
TABLE = Material(color=(0.62, 0.47, 0.32), texture="wood", accent=(0.50, 0.36, 0.23), roughness=0.7)
WALL = Material(color=(0.82, 0.82, 0.79), roughness=1.0)
GRIP = Material(color=(0.16, 0.17, 0.19), roughness=0.5)
CLIP = (
    Part(Box((0.008, 0.036, 0.030), 0.003), (-BOB - 0.003, 0.0, 0.004), material=GRIP),
    Part(Box((0.008, 0.036, 0.030), 0.003), (BOB + 0.003, 0.0, 0.004), material=GRIP),
    Part(Box((2.0 * BOB + 0.014, 0.030, 0.010), 0.003), (0.0, 0.0, 0.024), material=GRIP),
    Part(Capsule(0.005, 0.5), (0.0, 0.0, 0.279), material=GRIP),
)
"""Two jaws about a bob on a rod from above."""
