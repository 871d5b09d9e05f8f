"""PyBullet as an engine: builds a 3-D World once a rollout and integrates its loose bodies.

Every Bullet flag is set in one block, with its reason. It knows nothing of facts or labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version as installed
from typing import Any

import numpy as np

from simulators import rotation
from simulators.device import NO_MOVES, State
from simulators.engines.gyroscope import midpoint_torque
from simulators.engines.silence import silent_stderr
from simulators.rotation import IDENTITY, Array
from simulators.world import ORIGIN, Body, Box, Capsule, Cylinder, Lathe, Move, Part, Sphere, World

with silent_stderr():  # PyBullet announces its build time there, once a process
    import pybullet

_NO_BODY = -1
HULL_SIDES = 48  # corners of a round hull's rings

UNITS = 100.0
"""Engine lengths in a metre at scale 1. Some of Bullet's distance tolerances are absolute: at one unit a metre the rim of
pawbench/A-01 goes 4.2 mm into the table (median of 60 rollouts at 1/1200 s) and rest takes 1.8 s, at a centimetre 2.1 mm and
1.4 s. What is left is speed times step, pushed out slowly so that rebounds keep their speed (see `contactERP`)."""


@dataclass(frozen=True)
class Bullet:
    """PyBullet at `steps_per_second`, a rollout being `unsettled` after `time_limit` [s]; `iterations` of the solver a step."""

    steps_per_second: int
    time_limit: float
    iterations: int = 50

    def __post_init__(self) -> None:
        if not self.iterations > 0:
            raise ValueError(f"`iterations` must be larger than 0, got {self.iterations!r}")

    @property
    def name(self) -> str:
        """`bullet`."""
        return "bullet"

    @property
    def version(self) -> str:
        """The installed PyBullet, and the version of this file's settings."""
        return f"pybullet-{installed('pybullet')}/2"

    def open(self, world: World) -> BulletSimulation:
        """Make a simulation of `world`; close it when done."""
        return BulletSimulation(self, world)


class BulletSimulation:
    """One world in one PyBullet client. `reset` builds it anew: bit-identical to a fresh client."""

    def __init__(self, engine: Bullet, world: World) -> None:
        self.engine, self.world = engine, world
        self.cid = pybullet.connect(pybullet.DIRECT)
        self.per_metre = UNITS / world.scale
        self.step_length = 1.0 / engine.steps_per_second
        self.moving, self.loose = world.moving, world.loose
        self.nominal = State.at_release(world, 1)
        self.ids: dict[str, list[int]] = {}
        self.elapsed = 0
        self.touched = np.zeros(len(world.watched), bool)
        self.undamped: list[tuple[int, float]] = []
        self.damped: list[tuple[int, float]] = []
        self.spinning: list[tuple[int, tuple[float, float, float]]] = []
        self.drives: Mapping[str, Move] = NO_MOVES

    def close(self) -> None:
        """Free the client."""
        pybullet.disconnect(self.cid)

    def reset(self, start: State, drives: Mapping[str, Move] = NO_MOVES) -> None:
        """Begin the rollout of the single row `start` in a fresh world whose driven bodies follow `drives`."""
        cid, k = self.cid, self.per_metre
        pybullet.resetSimulation(physicsClientId=cid)
        pybullet.setGravity(0.0, 0.0, -self.world.gravity * k, physicsClientId=cid)
        pybullet.setPhysicsEngineParameter(
            fixedTimeStep=self.step_length,
            numSolverIterations=self.engine.iterations,
            numSubSteps=0,
            # Pairs in a fixed order: without it the order, and so the last bits, depend on the allocator.
            deterministicOverlappingPairs=1,
            # A contact seen while still this far open loses gap / step of its rebound: at most g step, like all else here.
            # The default .02 m, larger than a die, eats whole bounces.
            contactBreakingThreshold=self.world.gravity * self.step_length**2 * k,
            # Penetration is pushed out at this share a step, which adds the same share of the approach speed to a rebound.
            erp=0.003,
            contactERP=0.003,
            frictionERP=0.003,
            # Below this approach speed there is no bounce: else the discretised gravity, g step, bounces for ever.
            restitutionVelocityThreshold=max(0.05, 5.0 * self.world.gravity * self.step_length) * k,
            # Meshes are cached by file name until this is off; a rollout must not see an earlier world.
            enableFileCaching=0,
            physicsClientId=cid,
        )
        self.ids = {body.name: self._build(body) for body in self.world.bodies if body.collides}
        self.undamped, self.damped, self.spinning = [], [], []
        for row, body in ((i, self.moving[i]) for i in self.loose):
            (unique,) = self.ids[body.name]
            pybullet.resetBasePositionAndOrientation(
                unique, (start.pos[0, row] * k).tolist(), start.quat[0, row].tolist(), physicsClientId=cid
            )
            pybullet.resetBaseVelocity(
                unique, (start.vel[0, row] * k).tolist(), start.omega[0, row].tolist(), physicsClientId=cid
            )
            if body.angular_damping > 0.0:
                self.undamped.append((unique, math.exp(-body.angular_damping * self.step_length)))
            if body.inertia is not None:
                pybullet.changeDynamics(
                    unique, _NO_BODY, localInertiaDiagonal=[m * k * k for m in body.inertia], physicsClientId=cid
                )
            moments = pybullet.getDynamicsInfo(unique, _NO_BODY, physicsClientId=cid)[2]
            if max(moments) - min(moments) > 1e-9 * max(moments):
                self.spinning.append((unique, moments))
        self.elapsed, self.drives = 0, drives
        self.touched = start.touched[0].copy()
        for name, move in drives.items():
            self._pose(name, *move.at(0.0))

    def _pose(self, name: str, pos: Array, quat: Array) -> None:
        (unique,) = self.ids[name]
        pybullet.resetBasePositionAndOrientation(
            unique, (pos * self.per_metre).tolist(), quat.tolist(), physicsClientId=self.cid
        )

    def _drive(self, time: float) -> None:
        """Give each driven body the velocity that takes it along its move in the step that begins at `time` [s].

        A massless body with a pose alone has no speed in a contact; with a velocity alone it would not move.
        """
        cid, dt = self.cid, self.step_length
        for name, move in self.drives.items():
            (pos, quat), (after, turned) = move.at(time), move.at(time + dt)
            x, y, z, w = rotation.multiply(turned, rotation.conjugate(quat)).tolist()
            size = math.sqrt(x * x + y * y + z * z)
            rate = 0.0 if size == 0.0 else 2.0 * math.atan2(math.copysign(size, w), abs(w)) / (size * dt)
            (unique,) = self.ids[name]
            self._pose(name, pos, quat)
            velocity = ((after - pos) / dt * self.per_metre).tolist()
            pybullet.resetBaseVelocity(unique, velocity, [rate * x, rate * y, rate * z], physicsClientId=cid)

    def _build(self, body: Body) -> list[int]:
        """Create a loose or driven body as one multibody; a fixed one as one a part, since a compound holds only 16."""
        cid = self.cid
        if body.mass > 0.0 or body.driven:
            if body.mass > 0.0 and body.inertia is None and (len(body.parts) > 1 or _is_offset(body.parts[0])):
                raise ValueError(f"loose body {body.name!r} has several parts: give its `inertia` about its centre of mass")
            ids = [
                pybullet.createMultiBody(
                    body.mass,
                    self._compound(body) if len(body.parts) > 1 or _is_offset(body.parts[0]) else self._shape(body.parts[0]),
                    _NO_BODY,
                    self._scaled(body.position),
                    body.quaternion,
                    physicsClientId=cid,
                )
            ]
        else:
            ids = []
            for part in body.parts:
                if isinstance(part.shape, Lathe):
                    raise ValueError(f"fixed body {body.name!r} is a Lathe, which does not collide in this engine")
                position, quaternion = pybullet.multiplyTransforms(
                    body.position, body.quaternion, part.position, part.quaternion
                )
                ids.append(
                    pybullet.createMultiBody(
                        0.0, self._shape(part), _NO_BODY, self._scaled(position), quaternion, physicsClientId=cid
                    )
                )
        surface = body.surface
        for unique, part in zip(ids, body.parts, strict=False):
            pybullet.changeDynamics(
                unique,
                _NO_BODY,
                # Bullet multiplies the two sides, so each gives its square root.
                restitution=math.sqrt(surface.restitution),
                lateralFriction=math.sqrt(surface.friction),
                # These two combine as r_a f_b + r_b f_a: the moving body alone carries them.
                rollingFriction=surface.rolling_friction * self.per_metre,
                spinningFriction=surface.spinning_friction * self.per_metre,
                # Both default to .04 /s; a free flight has none.
                linearDamping=0.0,
                angularDamping=0.0,
                # The default 100 rad/s clamps the spin of a free body too.
                maxJointVelocity=1e5,
                # Sleeping would freeze a slow topple.
                activationState=pybullet.ACTIVATION_STATE_DISABLE_SLEEPING,
                physicsClientId=cid,
            )
            if (fillet := getattr(part.shape, "fillet", 0.0)) > 0.0:
                # Box and cylinder shrink their core by the margin: what collides is the shape with rounded edges.
                pybullet.changeDynamics(unique, _NO_BODY, collisionMargin=fillet * self.per_metre, physicsClientId=cid)
        return ids

    def step(self, steps: int) -> None:
        """Integrate that many steps."""
        for number in range(steps):
            if self.drives:
                self._drive((self.elapsed + number) * self.step_length)
            for unique, moments in self.spinning:
                self._correct_gyroscopic(unique, moments)
            pybullet.stepSimulation(physicsClientId=self.cid)
            if self.undamped or self.damped:
                self._damp_after_contact()
            if self.world.watched:
                self._watch()
        self.elapsed += steps

    def state(self) -> State:
        """Return the present state as a single row; actuators stand where their move has them."""
        time = self.elapsed * self.step_length
        row = self.nominal.copy()
        row.time[0] = time
        row.touched[0] = self.touched
        for index, body in enumerate(self.moving):
            if body.mass > 0.0:
                (unique,) = self.ids[body.name]
                pos, quat = pybullet.getBasePositionAndOrientation(unique, physicsClientId=self.cid)
                vel, omega = pybullet.getBaseVelocity(unique, physicsClientId=self.cid)
                row.pos[0, index], row.quat[0, index] = np.divide(pos, self.per_metre), quat
                row.vel[0, index], row.omega[0, index] = np.divide(vel, self.per_metre), omega
            elif (move := self.drives.get(body.name) or self.world.moves.get(body.name)) is not None:
                row.pos[0, index], row.quat[0, index] = move.at(time)
        return row

    def _scaled(self, lengths: Iterable[float]) -> list[float]:
        return [self.per_metre * length for length in lengths]

    def _compound(self, body: Body) -> int:
        """Return one collision shape of several parts (16 at most: Bullet's own limit)."""
        if len(body.parts) > 16:
            raise ValueError(f"body {body.name!r} has {len(body.parts)} parts: Bullet holds 16 in a body that moves")
        geometries = [self._geometry(part) for part in body.parts]
        columns: dict[str, list[Any]] = {
            "shapeTypes": [g["shapeType"] for g in geometries],
            "halfExtents": [g.get("halfExtents", [0.0] * 3) for g in geometries],
            "radii": [g.get("radius", 0.0) for g in geometries],
            "lengths": [g.get("height", 0.0) for g in geometries],
            "collisionFramePositions": [self._scaled(part.position) for part in body.parts],
            "collisionFrameOrientations": [part.quaternion for part in body.parts],
        }
        if any("vertices" in g for g in geometries):
            raise ValueError(f"body {body.name!r} has a Lathe beside other parts: Bullet takes it alone")
        return pybullet.createCollisionShapeArray(**columns, physicsClientId=self.cid)

    def _shape(self, part: Part) -> int:
        return pybullet.createCollisionShape(**self._geometry(part), physicsClientId=self.cid)

    def _geometry(self, part: Part) -> dict[str, Any]:
        k = self.per_metre
        geometry: dict[str, Any]
        match part.shape:
            case Box(size=size):
                geometry = {"shapeType": pybullet.GEOM_BOX, "halfExtents": [k * edge / 2.0 for edge in size]}
            case Sphere(radius=radius):
                geometry = {"shapeType": pybullet.GEOM_SPHERE, "radius": k * radius}
            case Cylinder(radius=radius, length=length):
                geometry = {"shapeType": pybullet.GEOM_CYLINDER, "radius": k * radius, "height": k * length}
            case Capsule(radius=radius, length=length):
                geometry = {"shapeType": pybullet.GEOM_CAPSULE, "radius": k * radius, "height": k * length}
            case Lathe(profile=profile):
                turns = 2.0 * math.pi * np.arange(HULL_SIDES) / HULL_SIDES
                points = [(r * math.cos(a), r * math.sin(a), z) for r, z in profile for a in (turns if r > 0.0 else (0.0,))]
                geometry = {"shapeType": pybullet.GEOM_MESH, "vertices": [self._scaled(point) for point in points]}
        return geometry

    def _correct_gyroscopic(self, unique: int, moments: tuple[float, float, float]) -> None:
        cid = self.cid
        _, quat = pybullet.getBasePositionAndOrientation(unique, physicsClientId=cid)
        _, omega = pybullet.getBaseVelocity(unique, physicsClientId=cid)
        torque = midpoint_torque(quat, omega, moments, self.step_length)
        pybullet.applyExternalTorque(unique, _NO_BODY, torque, pybullet.WORLD_FRAME, physicsClientId=cid)

    def _damp_after_contact(self) -> None:
        """Take its angular damping from each body's spin, from its first contact on: a flight is free.

        Bullet's own `angularDamping` d acts on a multibody at the rate d (1 + |omega|): a spin of 100 rad/s at d = 1 /s is
        down to 8 % after .1 s, where a rate of 1 /s leaves 90 %.
        """
        touching = [one for one in self.undamped if pybullet.getContactPoints(one[0], physicsClientId=self.cid)]
        if touching:
            self.undamped = [one for one in self.undamped if one not in touching]
            self.damped += touching
        for unique, kept in self.damped:
            _, omega = pybullet.getBaseVelocity(unique, physicsClientId=self.cid)
            pybullet.resetBaseVelocity(unique, angularVelocity=[kept * w for w in omega], physicsClientId=self.cid)

    def _watch(self) -> None:
        for pair, (a, b) in enumerate(self.world.watched):
            if not self.touched[pair]:
                self.touched[pair] = any(
                    pybullet.getContactPoints(one, other, physicsClientId=self.cid)
                    for one in self.ids[a]
                    for other in self.ids[b]
                )


def _is_offset(part: Part) -> bool:
    return part.position != ORIGIN or part.quaternion != IDENTITY
