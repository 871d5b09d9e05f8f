"""Which bodies touch at an instant, told from their drawn shapes alone: no integrator is asked, so it is the same for all.

It refuses to know forces, what happened between two instants, and what any contact means.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pybullet
from numpy.typing import NDArray

from simulators.rotation import Array, multiply, rotate
from simulators.world import Box, Capsule, Cylinder, Lathe, Part, Sphere, World

TOUCH = 5e-4  # of the world's scale: two surfaces that are no farther apart touch (half a millimetre at the size of a hand)
_UNITS = 10.0  # to a world's scale: Bullet's own margins are lengths, and small beside it
_TURNS = 96  # sides of what is turned: a chord is off by 5e-4 of the radius
_NO_BODY = -1


class Contacts:
    """The shapes of a world, prepared. `close` frees them, and so does the end of this object.

    A loose lathe is its convex hull; any other is the wall that is drawn, met from either side.
    """

    def __init__(self, world: World) -> None:
        self._world, self._scale = world, _UNITS / world.scale
        self._client = pybullet.connect(pybullet.DIRECT)
        self._free = weakref.finalize(self, pybullet.disconnect, self._client)
        loose = {world.moving[k].name for k in world.loose}
        self._parts = [
            [(part, self._made(part, hull=body.name in loose)) for part in body.parts]
            for body in world.bodies
        ]  # fmt: skip
        number = {body.name: k for k, body in enumerate(world.bodies)}
        self._moving = [number[body.name] for body in world.moving]
        for k, body in enumerate(world.bodies):
            self._place(k, np.asarray(body.position, float), np.asarray(body.quaternion, float))

    def close(self) -> None:
        """Free the shapes."""
        self._free()

    def _made(self, part: Part, *, hull: bool) -> tuple[int, float]:
        """Return Bullet's number of a part, and the radius of a ball about it, in Bullet's units."""
        k, client = self._scale, self._client
        shape: dict[str, Any]
        match part.shape:
            case Box(size=size):
                shape = {"shapeType": pybullet.GEOM_BOX, "halfExtents": [k * edge / 2.0 for edge in size]}
                radius = float(np.linalg.norm(size)) / 2.0
            case Sphere(radius=r):
                shape, radius = {"shapeType": pybullet.GEOM_SPHERE, "radius": k * r}, r
            case Cylinder(radius=r, length=length):
                shape = {"shapeType": pybullet.GEOM_CYLINDER, "radius": k * r, "height": k * length}
                radius = float(np.hypot(r, length / 2.0))
            case Capsule(radius=r, length=length):
                shape = {"shapeType": pybullet.GEOM_CAPSULE, "radius": k * r, "height": k * length}
                radius = r + length / 2.0
            case Lathe(profile=profile):
                turns = 2.0 * np.pi * np.arange(_TURNS) / _TURNS
                points = [[(r * np.cos(a), r * np.sin(a), z) for a in turns] for r, z in profile]
                shape = {"shapeType": pybullet.GEOM_MESH, "vertices": (k * np.array(points)).reshape(-1, 3).tolist()}
                if not hull:
                    at = np.arange(len(points) * _TURNS).reshape(len(points), _TURNS)
                    low, high = at[:-1], at[1:]
                    wall = [low, np.roll(low, -1, 1), high, high, np.roll(low, -1, 1), np.roll(high, -1, 1)]
                    shape |= {"indices": np.stack(wall, axis=-1).ravel().tolist()}
                    shape |= {"flags": pybullet.GEOM_FORCE_CONCAVE_TRIMESH}
                radius = max(float(np.hypot(r, z)) for r, z in profile)
        made = pybullet.createCollisionShape(**shape, physicsClientId=client)
        body = pybullet.createMultiBody(0.0, made, physicsClientId=client)
        margin = k * getattr(part.shape, "fillet", 0.0) or 1e-3
        # of box and cylinder the core shrinks by its margin, and so edges are as round as they are drawn
        pybullet.changeDynamics(body, _NO_BODY, collisionMargin=margin, physicsClientId=client)
        return body, k * radius

    def _place(self, body: int, pos: Array, quat: Array) -> None:
        for part, (handle, _) in self._parts[body]:
            at = self._scale * (pos + rotate(quat, np.asarray(part.position)))
            turn = multiply(quat, np.asarray(part.quaternion))
            pybullet.resetBasePositionAndOrientation(handle, at.tolist(), turn.tolist(), physicsClientId=self._client)

    def touching(self, pos: Array, quat: Array) -> NDArray[np.bool_]:
        """Return (b, B): whether loose body k of `World.moving` touches body j of `World.bodies`, moving ones at these poses.

        `pos` (b, 3), `quat` (b, 4). The rows of actuators, and a body's own place, are False.
        """
        for k, body in enumerate(self._moving):
            self._place(body, pos[k], quat[k])
        told = np.zeros((len(self._moving), len(self._parts)), bool)
        for k in self._world.loose:
            own = self._moving[k]
            for other in range(len(self._parts)):
                if other != own:
                    told[k, other] = any(self._near(a, b) for _, a in self._parts[own] for _, b in self._parts[other])
        return told

    def _near(self, a: tuple[int, float], b: tuple[int, float]) -> bool:
        limit = _UNITS * TOUCH
        place = [np.array(pybullet.getBasePositionAndOrientation(one, physicsClientId=self._client)[0]) for one, _ in (a, b)]
        if np.linalg.norm(place[0] - place[1]) > a[1] + b[1] + limit:
            return False
        found = pybullet.getClosestPoints(a[0], b[0], distance=limit, physicsClientId=self._client)
        return any(point[8] <= limit for point in found)
