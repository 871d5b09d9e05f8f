"""Coins by their kernel beside a plain PyBullet loop of the same flick."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pybullet

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.sampling import launch_block

# 1/s, of a loop without and with the scene's damping. Without, coins rattle for 2.0 s on average at 480, for 3.8 at 960, for
# 4.0 at 1920 (150 of them); with it `peer_steps` bears out 480.
RATES = {False: 960, True: 480}
PEER = "PyBullet with its defaults at 1/{} s, cylinders on a box, until slow for a quarter of a second; {}"


def plain(scene_id: str, damped: bool) -> Callable[[int, int], Ends]:
    """Return a function that flicks the scene's coins n times with nothing but PyBullet.

    `damped` turns the scene's damping on once a coin touches the table. Without it the default's .04 /s acts throughout, and a
    fifth of the coins rattles until the time limit; with it they lie after three quarters of a second, half as long as the
    scene's own engine and kernel let them rattle, for the default tolerances eat their bounces. So there are both.
    """
    scene = load_scene(scene_id)
    device, world = scene.device, scene.device.world()
    starts = device.start(launch_block(device.random, 0, scene.stream, 0))
    width, depth = device.table

    def flick(n: int, rate: int) -> Ends:
        client = pybullet.connect(pybullet.DIRECT)
        pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
        pybullet.setTimeStep(1 / rate, physicsClientId=client)
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
                angularDamping=0.0 if damped else 0.04,
                maxJointVelocity=1e5,
                physicsClientId=client,
            )
        ends = []
        for row in np.arange(n) % len(starts):
            for coin, at in zip(coins, world.loose, strict=True):
                pose = starts.pos[row, at].tolist(), starts.quat[row, at].tolist()
                pybullet.resetBasePositionAndOrientation(coin, *pose, physicsClientId=client)
                velocity = starts.vel[row, at].tolist(), starts.omega[row, at].tolist()
                pybullet.resetBaseVelocity(coin, *velocity, physicsClientId=client)
                if damped:
                    pybullet.changeDynamics(coin, -1, angularDamping=0, physicsClientId=client)
            flying = set(coins) if damped else set()
            quiet = steps = 0
            while steps < 8 * rate and quiet < rate / 4:
                pybullet.stepSimulation(physicsClientId=client)
                steps += 1
                for coin in [coin for coin in flying if pybullet.getContactPoints(coin, table, physicsClientId=client)]:
                    pybullet.changeDynamics(coin, -1, angularDamping=device.angular_damping, physicsClientId=client)
                    flying.remove(coin)
                if steps % (rate // 60) == 0:
                    speeds = [pybullet.getBaseVelocity(coin, physicsClientId=client) for coin in coins]
                    fast = max(abs(x) for vel, omega in speeds for x in (*vel, *(0.01 * w for w in omega)))
                    quiet = quiet + rate // 60 if fast < 0.01 else 0
            shown = 0
            for coin in coins:
                x, y, *_ = pybullet.getBasePositionAndOrientation(coin, physicsClientId=client)[1]
                shown = 2 * shown + (x * x + y * y > 0.5)
            ends.append((shown if quiet else -1, steps / rate))
        pybullet.disconnect(client)
        return ends

    return flick


COMPARISONS = tuple(
    Comparison(
        scene,
        PEER.format(RATES[damped], "the scene's damping from the first contact on" if damped else "the default's damping"),
        plain(scene, damped),
        RATES[damped],
        rollouts,
        100.0,
    )
    for scene, damped, rollouts in (
        ("pawbench/A-01", False, 60),
        ("pawbench/A-01", True, 300),
        ("pawbench/A-10", False, 30),
        ("pawbench/A-10", True, 150),
    )
)
