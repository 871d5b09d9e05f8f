"""A tiny device and engine in closed form, so that loading, running and certifying can be tested in milliseconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from simulators.device import NO_MOVES, UNDECIDED, Rollouts, State
from simulators.devices.checks import check_fields, laws
from simulators.sampling import Distribution
from simulators.world import Body, Part, Sphere, World

TOP, WEDGE = 0.2, 0.1  # m
FALL = float(np.sqrt(2.0 * (TOP - WEDGE) / 9.81))  # s


@dataclass(frozen=True)
class Wedge:
    """A ball falls from `TOP` onto the edge of a wedge at `WEDGE`, and slides down left (x < 0) or right.

    Random: `release_x` [m], how far a sideways push takes it in its fall. A ball that fell closer than `dead_zone` to the
    edge shows no side: that is null.
    """

    radius: float
    random: Mapping[str, Distribution]
    dead_zone: float = 0.0
    finish: Literal["matt", "glossy"] = "matt"

    variables: ClassVar[tuple[str, ...]] = ("release_x",)
    facts: ClassVar[tuple[str, ...]] = ("left", "right")
    readout: ClassVar[str] = "rest"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        check_fields(self, positive=("radius",), at_least_zero=("dead_zone",))

    def world(self) -> World:
        ball = Body("ball", (Part(Sphere(self.radius)),), mass=0.01, position=(0.0, 0.0, TOP))
        return World((ball,), bounds=((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)), planar=True)

    def start(self, launch):
        vel = np.zeros((len(launch["release_x"]), 1, 3))
        vel[:, 0, 0] = launch["release_x"] / FALL  # a push, so that every launch starts from the same picture
        return State.at_release(self.world(), len(vel), vel=vel)

    def read(self, state: State):
        x, z = state.pos[:, 0, 0], state.pos[:, 0, 2]
        return np.where((z > WEDGE - 0.01) | (np.abs(x) <= self.dead_zone), UNDECIDED, (x > 0).astype(int))


@dataclass(frozen=True)
class Closed:
    """Falls freely to the height of the wedge's edge, and is at rest at the bottom the next moment."""

    steps_per_second: int
    time_limit: float

    name: ClassVar[str] = "closed"
    version: ClassVar[str] = "1"

    def open(self, world: World) -> _Closed:
        return _Closed(self, world)


class _Closed:
    def __init__(self, engine: Closed, world: World) -> None:
        self.engine, self.world = engine, world

    def reset(self, start: State, drives=NO_MOVES) -> None:
        self.start, self.steps = start, 0

    def step(self, steps: int) -> None:
        self.steps += steps

    def state(self) -> State:
        time = self.steps / self.engine.steps_per_second
        pos = self.start.pos.copy()
        fallen = pos[0, 0, 2] - 0.5 * self.world.gravity * time**2
        pos[0, 0, 2] = fallen if fallen > WEDGE else 0.0
        pos[0, 0, 0] += self.start.vel[0, 0, 0] * (time if fallen > WEDGE else FALL)
        return dataclasses.replace(self.start, time=np.array([time]), pos=pos)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Instant:
    """The same in closed form, a block of launches at a time: a kernel, so that many rollouts cost a test nothing."""

    time_limit: float = 2.0

    name: ClassVar[str] = "instant"
    version: ClassVar[str] = "1"
    steps_per_second: ClassVar[None] = None

    def integrate(self, device: Wedge, launches, fps) -> Rollouts:
        x = launches.values["release_x"]
        null = np.abs(x) <= device.dead_zone
        fact = np.where(null, -1, x > 0).astype(np.int16)
        return Rollouts(launches.index, fact, null.astype(np.uint8), fact, np.full(len(x), FALL + 0.25), launches.start)


SCENE = """
# A ball on a wedge: tests only.
id: toy/wedge
title: Wedge
benchmark: toy
track: calibration
group: routing
stream: toy/wedge
device:
  _target_: toy.Wedge
  radius: 5e-3
  random:
    release_x: {dist: norm, loc: 0, scale: 0.5e-3}
engine:
  _target_: toy.Closed
  steps_per_second: 240
  time_limit: 2.0
outcomes:
  'left': ['left']
  'right': ['right']
reference:
  q: {'left': '1/2', 'right': '1/2'}
  derivation: symmetry
  source: made up
  standing: assumed
readout_rule: which side the ball lies on
basis: mechanism
action: the ball is let go
prompt: A ball is let go above a wedge.
camera: {position: [0, -1, 0.1], target: [0, 0, 0.1], view_height: 0.3}
renderer: planar
"""

PAIR = """
defaults: [toy/wedge@_here_, _self_]
id: toy/wedge-glossy
title: Wedge, glossy
device: {finish: glossy}
variant: {base: toy/wedge, kind: non_causal, change: the ball is glossy}
"""
