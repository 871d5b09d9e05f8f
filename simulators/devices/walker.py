"""A person who walks up to a T junction and takes a side. A model of a decision, which physics cannot check."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.rotation import Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Material, Part, Sphere, World

HIP, LEG, STRIDE = 0.88, 0.80, 1.4  # m: a person of 1.75 m; two steps a stride
SWING = 0.42  # rad: how far a leg swings


@dataclass(frozen=True)
class Walker:
    """A person walks along a path and turns left or right where it ends.

    Setup (SI): a path of `width` between hedges that runs `length` along y, from the walker's start at its middle, into a cross
    path of the same width; walking at `speed`. On it the walker steers back to the middle (`centring` [1/s] of the heading,
    and as much of the offset in path widths). From `decides_at` [m] before the cross path on, straight ahead becomes unstable
    at the rate `turning` [1/s]: the heading falls to the side that it, and the place on the path, lean to.
    `preference` [rad/s] pushes to the right.
    Random: `heading` [rad] at the start; and in the rollout a force on the heading, one independent normal value each 1/60 s,
    that would spread it by `restlessness` [rad] in a second.
    Outcomes: the side of the cross path that the walker has come into. No outcome: `unsettled`.
    Known gap: everything. People look, remember and prefer; the model has one half by its symmetry and not by evidence.
    """

    width: float
    length: float
    speed: float
    centring: float
    decides_at: float
    turning: float
    restlessness: float
    preference: float
    random: Mapping[str, Distribution]

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("heading",)
    facts: ClassVar[tuple[str, ...]] = ("left", "right")
    readout: ClassVar[Readout] = "first"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        finite = isinstance(self.preference, (int, float)) and math.isfinite(self.preference)
        check_fields(
            self,
            positive=("width", "length", "speed", "turning"),
            at_least_zero=("centring", "restlessness", "decides_at"),
            further=[
                (self.decides_at < self.length, "decides_at", "must be less than `length`"),
                (finite, "preference", "must be a finite number"),
            ],
        )

    @property
    def end(self) -> float:
        """Where [m] from the middle the walker stops, in the cross path."""
        return 1.6 * self.width

    def world(self) -> World:
        """Return path, hedges and the walker: body and two legs, which the gait moves."""
        w, reach, height, thick = self.width, 4.0 * self.width, 0.85, 0.5
        low = -1.2  # m: the path goes on behind the camera
        far = self.length + w
        middle = (self.length + low) / 2.0
        side = Box((reach, self.length - low, height), 0.12)
        walls = (
            Part(side, (-(w + reach) / 2.0, middle, height / 2.0), material=HEDGE),
            Part(side, ((w + reach) / 2.0, middle, height / 2.0), material=HEDGE),
            Part(Box((2.0 * reach, thick, height), 0.12), (0.0, far + thick / 2.0, height / 2.0), material=HEDGE),
        )
        floor = Part(Box((2.0 * reach, far - low, 0.1)), (0.0, (far + low) / 2.0, -0.05), material=GRAVEL)
        arm = tuple(rotation.about((0.0, 1.0, 0.0), 0.10).tolist()), tuple(rotation.about((0.0, 1.0, 0.0), -0.10).tolist())
        body = Body(
            "walker",
            (
                Part(Capsule(0.155, 0.34), (0.0, 0.0, 0.27), material=COAT),
                Part(Capsule(0.13, 0.06), (0.0, 0.0, 0.0), material=TROUSERS),
                Part(Sphere(0.115), (0.0, 0.0, 0.75), material=HAIR),
                Part(Capsule(0.055, 0.08), (0.0, 0.0, 0.60), material=SKIN),
                Part(Capsule(0.050, 0.46), (-0.225, 0.0, 0.20), arm[0], COAT),
                Part(Capsule(0.050, 0.46), (0.225, 0.0, 0.20), arm[1], COAT),
            ),
            mass=58.0,
            position=(0.0, 0.0, HIP),
        )
        # A leg's body has its origin at the hip, where it turns.
        leg = (
            Part(Capsule(0.082, LEG - 0.10), (0.0, 0.0, -LEG / 2.0), material=TROUSERS),
            Part(Capsule(0.055, 0.12), (0.0, 0.045, -LEG - 0.02), ALONG_Y, SHOE),
        )
        legs = tuple(
            Body(f"leg_{name}", leg, mass=8.0, position=(x, 0.0, HIP)) for name, x in (("left", -0.09), ("right", 0.09))
        )
        return World(
            bodies=(Body("floor", (floor,)), Body("hedges", walls), body, *legs),
            bounds=((-reach, low, -0.2), (reach, far + thick, 3.0)),
            scale=10.0,
        )

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the walker at its place, its heading (to the right of +y) as launched (n rows)."""
        world = self.world()
        state = State.at_release(world, len(launch["heading"]))
        state.quat[:] = rotation.about((0.0, 0.0, 1.0), -launch["heading"])[:, None]
        return state

    def read(self, state: State) -> IntArray:
        """Return the side of a walker who has left the path's width for the cross path; UNDECIDED before."""
        x = state.pos[:, 0, 0]
        return np.where(np.abs(x) > 0.8 * self.width, (x > 0.0).astype(np.int64), UNDECIDED)


ALONG_Y = tuple(rotation.about((1.0, 0.0, 0.0), -math.pi / 2.0).tolist())
HEDGE = Material((0.20, 0.38, 0.16), "felt", (0.14, 0.28, 0.11), 1.0)
GRAVEL = Material((0.76, 0.70, 0.60), "felt", (0.66, 0.60, 0.50), 1.0)
COAT = Material((0.16, 0.32, 0.52), roughness=0.9)
TROUSERS = Material((0.17, 0.17, 0.20), roughness=0.9)
SHOE = Material((0.30, 0.18, 0.10), roughness=0.6)
HAIR = Material((0.20, 0.12, 0.07), roughness=0.9)
SKIN = Material((0.82, 0.62, 0.50), roughness=0.8)
