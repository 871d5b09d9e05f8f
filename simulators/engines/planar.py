"""The planar engine: integrates a `World` in the x-z plane, seen from -y, with Pymunk.

It knows shapes, surfaces and contacts; it refuses to know what a final state is called.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymunk
from pymunk._chipmunk_cffi import lib

from simulators import rotation
from simulators.device import NO_MOVES, State
from simulators.rotation import IDENTITY, Array
from simulators.world import Body, Box, Capsule, Cylinder, Lathe, Move, Part, Quat, Shape, Sphere, World

OUT_OF_PLANE = 1e-6  # how far an axis may lean before a shape no longer has the outline that the plane needs
Vec2 = tuple[float, float]


@dataclass(frozen=True)
class Planar:
    """Pymunk with the settings below; every rollout gets a fresh `Space` filled in one fixed order.

    `steps_per_second` is a multiple of 60; `time_limit` [s]; `iterations` of the contact solver; `slop` [m at scale 1] is the
    overlap that is left alone, `relaxation` [1/s] the rate at which more than that is pushed apart. Pymunk's own defaults
    for both are meant for pixels: a tenth of a metre of overlap would be left alone.

    Spheres, and cylinders and capsules along y, are circles (with the moment of inertia of the solid, not of a disc); boxes
    and cylinders that lie in the plane are polygons, capsules that lie in it segments.
    Rolling friction is the sum of a pair's two sides and acts as a dry torque `rolling_friction * mass * gravity` while they
    touch: right for a ball that rolls on a floor, too little during an impact. Spinning friction has no meaning in a plane.
    """

    steps_per_second: int
    time_limit: float
    iterations: int = 10
    slop: float = 1e-5
    relaxation: float = 10.0

    name: ClassVar[str] = "planar"
    version: ClassVar[str] = f"pymunk-{pymunk.version}"

    def __post_init__(self) -> None:
        problems = [
            f"`{name}` must be larger than 0, got {getattr(self, name)!r}"
            for name in ("steps_per_second", "time_limit", "iterations", "slop", "relaxation")
            if not getattr(self, name) > 0
        ]
        if problems:
            raise ValueError("\n".join(problems))

    def open(self, world: World) -> PlanarSimulation:
        """Make a simulation of `world`. Raises `ValueError` where it is not planar or a shape leans out of the plane."""
        return PlanarSimulation(self, world)


@dataclass(frozen=True)
class _Outline:
    """What Pymunk needs of one part: a circle (one point), a segment (two) or a convex polygon, all with a radius [m]."""

    points: tuple[Vec2, ...]
    radius: float

    def attach(self, body: pymunk.Body) -> pymunk.Shape:
        match self.points:
            case (centre,):
                return pymunk.Circle(body, self.radius, centre)
            case (a, b):
                return pymunk.Segment(body, a, b, self.radius)
            case corners:
                return pymunk.Poly(body, corners, radius=self.radius)


class PlanarSimulation:
    """One Pymunk space at a time; see `simulators.device.Simulation`."""

    def __init__(self, engine: Planar, world: World) -> None:
        if not world.planar:
            raise ValueError("the planar engine takes a planar world: set `planar=True`, or use the bullet engine")
        self._engine, self._world = engine, world
        self._dt = 1.0 / engine.steps_per_second
        self._fixed = [(b, [_outline(part, b.position, b.quaternion) for part in b.parts]) for b in world.fixed if b.collides]
        self._loose = [(i, world.moving[i]) for i in world.loose]
        self._outlines = [[_outline(part) for part in body.parts] for _, body in self._loose]
        self._moments = [moment_about_y(body) for _, body in self._loose]
        self._types = {body.name: number + 1 for number, body in enumerate(world.bodies)}
        self._done = max((move.times[-1] for move in world.moves.values()), default=0.0)
        self._last = world.poses(self._done)
        self._space: pymunk.Space | None = None

    def reset(self, start: State, drives: Mapping[str, Move] = NO_MOVES) -> None:
        """Begin the rollout of the single row `start` in a fresh space."""
        if drives:
            raise ValueError("the planar engine moves no driven bodies; use the bullet engine or a kernel")
        if np.any(np.abs(start.quat[0, list(self._world.loose)][:, [0, 2]]) > OUT_OF_PLANE):
            raise ValueError("a planar rollout cannot start with a body turned out of the x-z plane")
        space = pymunk.Space()
        space.gravity = (0.0, -self._world.gravity)
        space.iterations = self._engine.iterations
        space.collision_slop = self._engine.slop * self._world.scale
        space.collision_bias = math.exp(-self._engine.relaxation)
        for body, outlines in self._fixed:
            self._add(space, pymunk.Body(body_type=pymunk.Body.STATIC), body, outlines)
        self._start, self._steps = start, 0
        self._touched = start.touched[0].copy()
        self._contacts = [0] * len(self._loose)
        self._bodies: list[pymunk.Body] = []
        for number, (i, body) in enumerate(self._loose):
            row = State(*(getattr(start, f.name)[0] for f in dataclasses.fields(State)))
            self._bodies.append(self._add_loose(space, number, body, row, i))
        for number, (a, b) in enumerate(self._world.watched):
            space.on_collision(self._types[a], self._types[b], begin=self._watch, data=number)
        self._space = space

    def _add(self, space: pymunk.Space, made: pymunk.Body, body: Body, outlines: list[_Outline]) -> None:
        shapes = [outline.attach(made) for outline in outlines]
        for shape in shapes:
            # Pymunk multiplies the two sides; the pair's value is their geometric mean (see `Surface`).
            shape.elasticity = math.sqrt(body.surface.restitution)
            shape.friction = math.sqrt(body.surface.friction)
            shape.collision_type = self._types[body.name]
        space.add(made, *shapes)

    def _add_loose(self, space: pymunk.Space, number: int, body: Body, row: State, i: int) -> pymunk.Body:
        pos, quat, vel, omega = row.pos[i], row.quat[i], row.vel[i], row.omega[i]
        moment, weight = self._moments[number], body.mass * self._world.gravity
        made = pymunk.Body(body.mass, moment)
        made.position = (float(pos[0]), float(pos[2]))
        made.angle = -2.0 * math.atan2(float(quat[1]), float(quat[3]))  # Pymunk turns from x to z: about -y
        made.angular_velocity = -float(omega[1])
        # Pymunk moves with the old velocity, then accelerates. With velocities half a step ahead this is the leapfrog
        # scheme: free flight is exact, and a rebound (which mirrors the velocity before gravity is added) is reversible.
        # Without it energy grows by g^2 dt / 2 a second and kilogram in flight.
        made.velocity = (float(vel[0]), float(vel[2]) - 0.5 * self._world.gravity * self._dt)
        self._add(space, made, body, self._outlines[number] if body.collides else [])
        # What acts only in contact is a joint to the ground, idle until a callback gives it its strength.
        damping = pymunk.DampedRotarySpring(space.static_body, made, 0.0, 0.0, 0.0) if body.angular_damping > 0.0 else None
        if damping is not None:
            space.add(damping)
        # The callbacks get this space's own counters: a space that is freed late ends its contacts late.
        touch = (self._contacts, number, damping, body.angular_damping * moment)
        space.on_collision(self._types[body.name], None, begin=self._begin, separate=self._separate, data=touch)
        for other in self._world.bodies:
            arm = body.surface.rolling_friction + other.surface.rolling_friction
            if arm > 0.0 and other is not body and other.collides:
                rolling = pymunk.SimpleMotor(space.static_body, made, 0.0)
                rolling.max_force = 0.0
                space.add(rolling)
                pair = (self._types[body.name], self._types[other.name])
                space.on_collision(*pair, begin=_roll, separate=_roll_no_more, data=([0], rolling, arm * weight))
        return made

    @staticmethod
    def _begin(arbiter: Any, space: Any, touch: Any) -> None:
        contacts, number, damping, coefficient = touch
        contacts[number] += 1
        if damping is not None:
            damping.damping = coefficient

    @staticmethod
    def _separate(arbiter: Any, space: Any, touch: Any) -> None:
        contacts, number, *_ = touch
        contacts[number] -= 1

    def _watch(self, arbiter: Any, space: Any, number: int) -> None:
        self._touched[number] = True

    def step(self, steps: int) -> None:
        """Integrate that many steps."""
        if steps <= 0:
            return
        space = self._live()
        if not self._steps:
            space.step(self._dt)  # the first by the public way, which checks masses and moments
            self._steps, steps = 1, steps - 1
        # The rest without Space.step's bookkeeping of additions and removals during a step (there are none here): it costs
        # twice what the integration does.
        advance, pointer, dt = lib.cpSpaceStep, space._space, self._dt
        for _ in range(steps):
            advance(pointer, dt)
        self._steps += steps

    def state(self) -> State:
        """Return the present state as a single row, actuators in their prelude's poses."""
        self._live()
        start, time = self._start, self._steps * self._dt
        if self._steps == 0:
            return start
        pos, quat = self._last if time >= self._done else self._world.poses(time)
        pos, quat = pos[None].copy(), quat[None].copy()
        vel, omega = np.zeros_like(pos), np.zeros_like(pos)
        ahead = 0.5 * self._world.gravity * self._dt
        for (i, _), body, contacts in zip(self._loose, self._bodies, self._contacts, strict=True):
            x, z = body.position
            half = -0.5 * body.angle
            pos[0, i] = x, start.pos[0, i, 1], z
            quat[0, i] = 0.0, math.sin(half), 0.0, math.cos(half)
            # Back from half a step ahead; in a contact gravity was taken up by the other body, so nothing is ahead.
            vel[0, i, 0], vel[0, i, 2] = body.velocity.x, body.velocity.y + (0.0 if contacts else ahead)
            omega[0, i, 1] = -body.angular_velocity
        return dataclasses.replace(
            start, time=np.array([time]), pos=pos, quat=quat, vel=vel, omega=omega, touched=self._touched[None].copy()
        )

    def close(self) -> None:
        """Free the space."""
        self._space = None
        self._bodies = []

    def _live(self) -> pymunk.Space:
        if self._space is None:
            raise RuntimeError("a simulation must be `reset` with a start before it can be stepped or read")
        return self._space


def _roll(arbiter: Any, space: Any, pair: Any) -> None:
    count, rolling, torque = pair
    count[0] += 1
    rolling.max_force = torque


def _roll_no_more(arbiter: Any, space: Any, pair: Any) -> None:
    count, rolling, _ = pair
    count[0] -= 1
    if not count[0]:
        rolling.max_force = 0.0


def _outline(part: Part, position: tuple[float, float, float] = (0.0, 0.0, 0.0), quaternion: Quat = IDENTITY) -> _Outline:
    """Return the outline in the x-z plane of a part carried by a body at `position` and `quaternion`.

    Raises `ValueError` for a shape whose outline would depend on more than the plane shows.
    """
    centre = np.asarray(position) + rotation.rotate(quaternion, part.position)
    turn = rotation.multiply(quaternion, part.quaternion)
    axes = rotation.rotate(turn, np.eye(3))  # row k: the local axis k in the frame's axes
    across = [abs(float(axis[1])) for axis in axes]

    def plane(point: Array) -> Vec2:
        return float(point[0]), float(point[2])

    def rectangle(u: Array, v: Array, radius: float) -> _Outline:
        corners = (-u - v, u - v, u + v, v - u)
        return _Outline(tuple(plane(centre + corner) for corner in corners), radius)

    match part.shape:
        case Sphere(radius=radius):
            return _Outline((plane(centre),), radius)
        case Cylinder(radius=radius) | Capsule(radius=radius) if across[2] > 1.0 - OUT_OF_PLANE:
            return _Outline((plane(centre),), radius)
        case Capsule(radius=radius, length=length) if across[2] < OUT_OF_PLANE:
            return _Outline((plane(centre - axes[2] * length / 2.0), plane(centre + axes[2] * length / 2.0)), radius)
        case Cylinder(radius=radius, length=length, fillet=fillet) if across[2] < OUT_OF_PLANE:
            side = np.cross(axes[2], (0.0, 1.0, 0.0))
            return rectangle(axes[2] * (length / 2.0 - fillet), side * (radius - fillet), fillet)
        case Box(size=size, fillet=fillet) if max(across) > 1.0 - OUT_OF_PLANE:
            u, v = (axes[k] * (size[k] / 2.0 - fillet) for k in range(3) if k != int(np.argmax(across)))
            return rectangle(u, v, fillet)
        case shape:
            raise ValueError(f"a {type(shape).__name__} that leans out of the x-z plane has no place in the planar engine")


def moment_about_y(body: Body) -> float:
    """Return the moment of inertia [kg m^2] about the y axis through the body's origin, its solid parts of one density.

    The rounding of edges is left out. Raises `ValueError` for a part that leans out of the plane.
    """
    volumes, moments = [], []
    for part in body.parts:
        _outline(part)
        along_y = [abs(float(axis[1])) > 0.5 for axis in rotation.rotate(part.quaternion, np.eye(3))]
        volume, unit = _solid(part.shape, along_y)
        volumes.append(volume)
        moments.append(volume * (unit + part.position[0] ** 2 + part.position[2] ** 2))
    return body.mass * sum(moments) / sum(volumes)


def _solid(shape: Shape, along_y: list[bool]) -> tuple[float, float]:
    """Return the volume [m^3] and the moment about y a unit of mass [m^2] of a solid about its own centre."""
    match shape:
        case Sphere(radius=r):
            return 4.0 / 3.0 * math.pi * r**3, 0.4 * r**2
        case Box(size=size):
            return math.prod(size), sum(edge**2 for edge, along in zip(size, along_y, strict=True) if not along) / 12.0
        case Cylinder(radius=r, length=length):
            return math.pi * r**2 * length, r**2 / 2.0 if along_y[2] else r**2 / 4.0 + length**2 / 12.0
        case Capsule(radius=r, length=length):
            rod, ends = math.pi * r**2 * length, 4.0 / 3.0 * math.pi * r**3
            if along_y[2]:
                return rod + ends, (rod * r**2 / 2.0 + ends * 0.4 * r**2) / (rod + ends)
            tips = 0.4 * r**2 + length**2 / 4.0 + 0.375 * length * r
            return rod + ends, (rod * (r**2 / 4.0 + length**2 / 12.0) + ends * tips) / (rod + ends)
        case Lathe():
            raise ValueError("a Lathe has no place in the planar engine")
