"""Coins by their kernel beside a plain PyBullet loop of the same flick."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pybullet

from benchmarks.compare import Comparison
from scenes.load import load_scene
from simulators.sampling import launch_block

RATE = 1200  # 1/s: the step of the scenes' own engine
PEER = "PyBullet with its defaults at 1/1200 s, cylinders on a box, until slow for a quarter of a second"


def plain(scene_id: str) -> Callable[[int], None]:
    """Return a function that flicks the scene's coins n times with nothing but PyBullet."""
    scene = load_scene(scene_id)
    device, world = scene.device, scene.device.world()
    starts = device.start(launch_block(device.random, 0, scene.stream, 0))
    width, depth = device.table

    def flick(n: int) -> None:
        client = pybullet.connect(pybullet.DIRECT)
        pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
        pybullet.setTimeStep(1 / RATE, physicsClientId=client)
        box = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=[width / 2, depth / 2, 0.02], physicsClientId=client)
        disc = pybullet.createCollisionShape(
            pybullet.GEOM_CYLINDER, radius=device.diameter / 2, height=device.thickness, physicsClientId=client
        )
        table = pybullet.createMultiBody(0, box, -1, [0, 0, -0.02], physicsClientId=client)
        coins = [pybullet.createMultiBody(device.mass, disc, -1, [0, 0, 1 + i], physicsClientId=client) for i in world.loose]
        for body in (table, *coins):
            pybullet.changeDynamics(
                body,
                -1,
                restitution=device.restitution**0.5,
                lateralFriction=device.friction**0.5,
                linearDamping=0,
                angularDamping=0.04,  # the default: a coin without any rattles until the time limit
                maxJointVelocity=1e5,
                physicsClientId=client,
            )
        for row in np.arange(n) % len(starts):
            for coin, at in zip(coins, world.loose, strict=True):
                pose = starts.pos[row, at].tolist(), starts.quat[row, at].tolist()
                pybullet.resetBasePositionAndOrientation(coin, *pose, physicsClientId=client)
                velocity = starts.vel[row, at].tolist(), starts.omega[row, at].tolist()
                pybullet.resetBaseVelocity(coin, *velocity, physicsClientId=client)
            quiet = steps = 0
            while steps < 8 * RATE and quiet < RATE / 4:
                pybullet.stepSimulation(physicsClientId=client)
                steps += 1
                if steps % 20 == 0:
                    speeds = [pybullet.getBaseVelocity(coin, physicsClientId=client) for coin in coins]
                    fast = max(abs(x) for vel, omega in speeds for x in (*vel, *(0.01 * w for w in omega)))
                    quiet = quiet + 20 if fast < 0.01 else 0
        pybullet.disconnect(client)

    return flick


COMPARISONS = (
    Comparison("pawbench/A-01", PEER, plain("pawbench/A-01"), 60, 100.0),
    Comparison("pawbench/A-10", f"{PEER}; both coins in one world", plain("pawbench/A-10"), 30, 100.0),
)
