"""Dice by their kernel beside a plain PyBullet loop of the same throw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pybullet

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.devices.die import FACES
from simulators.sampling import launch_block
from simulators.world import Box

# 1/s. `peer_steps` bears out no rate for any of the three: twice 1920 still moves the outcomes. So this is kind to the loop.
RATE = 1920
PEER = "PyBullet with its defaults at 1/{} s, boxes on a box, until slow for a quarter of a second"


def plain(scene_id: str) -> Callable[[int, int], Ends]:
    """Return a function that throws the scene's dice n times with nothing but PyBullet."""
    scene = load_scene(scene_id)
    device, world = scene.device, scene.device.world()
    starts = device.start(launch_block(device.random, 0, scene.stream, 0))

    def throw(n: int, rate: int) -> Ends:
        client = pybullet.connect(pybullet.DIRECT)
        pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
        pybullet.setTimeStep(1 / rate, physicsClientId=client)
        ids = []
        for body in (*world.fixed, *(world.moving[i] for i in world.loose)):
            for part in body.parts:
                if not isinstance(part.shape, Box):
                    raise TypeError(f"the plain loop builds boxes, and {body.name} has a {type(part.shape).__name__}")
                shape = pybullet.createCollisionShape(
                    pybullet.GEOM_BOX, halfExtents=np.divide(part.shape.size, 2).tolist(), physicsClientId=client
                )
                ids.append(pybullet.createMultiBody(body.mass, shape, -1, part.position, physicsClientId=client))
                pybullet.changeDynamics(
                    ids[-1],
                    -1,
                    restitution=body.surface.restitution**0.5,
                    lateralFriction=body.surface.friction**0.5,
                    linearDamping=0,
                    angularDamping=0,
                    maxJointVelocity=1e5,
                    physicsClientId=client,
                )
        dice, ends = ids[-len(world.loose) :], []
        for i in range(n):
            row = i % len(starts)
            for die, at in zip(dice, world.loose, strict=True):
                pose = starts.pos[row, at].tolist(), starts.quat[row, at].tolist()
                pybullet.resetBasePositionAndOrientation(die, *pose, physicsClientId=client)
                velocity = starts.vel[row, at].tolist(), starts.omega[row, at].tolist()
                pybullet.resetBaseVelocity(die, *velocity, physicsClientId=client)
            quiet = steps = 0
            while steps < 6 * rate and quiet < rate / 4:
                pybullet.stepSimulation(physicsClientId=client)
                steps += 1
                if steps % (rate // 60) == 0:
                    speeds = [pybullet.getBaseVelocity(die, physicsClientId=client) for die in dice]
                    fast = max(abs(x) for vel, omega in speeds for x in (*vel, *(0.01 * w for w in omega)))
                    quiet = quiet + rate // 60 if fast < 0.01 else 0
            shown = sum(_pips(pybullet.getBasePositionAndOrientation(die, physicsClientId=client)[1]) for die in dice)
            ends.append((shown if quiet else -1, steps / rate))
        pybullet.disconnect(client)
        return ends

    return throw


def _pips(quat: list[float]) -> int:
    """Return the pips of the face that is most nearly up."""
    up = pybullet.getMatrixFromQuaternion(quat)[6:]
    axis = max(range(3), key=lambda k: abs(up[k]))
    return int(FACES[2 * axis + (up[axis] < 0.0)])


COMPARISONS: tuple[Comparison, ...] = tuple(
    Comparison(scene, PEER.format(RATE), plain(scene), RATE, rollouts, 50.0)
    for scene, rollouts in (("calibench/dice", 300), ("pawbench/A-02", 500), ("pawbench/A21", 250))
)
