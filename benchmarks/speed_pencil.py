"""The falling pencil by its kernel beside a plain PyBullet loop: a capsule let go on its end."""

from __future__ import annotations

import pybullet

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.sampling import launch_block

RATE = 960  # 1/s: at 240 two in five never lie still, at 480 it takes 9 % longer


def plain(n: int, rate: int) -> Ends:
    """Let n capsules fall with nothing but PyBullet, until slow for a quarter of a second."""
    scene = load_scene("pawbench/A-09")
    pencil = scene.device
    launches = launch_block(pencil.random, 0, scene.stream, 0)
    client = pybullet.connect(pybullet.DIRECT)
    pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
    pybullet.setTimeStep(1 / rate, physicsClientId=client)
    half = pencil.length / 2
    floor = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=[0.4, 0.3, 0.02], physicsClientId=client)
    rod = pybullet.createCollisionShape(
        pybullet.GEOM_CAPSULE, radius=pencil.radius, height=pencil.length - 2 * pencil.radius, physicsClientId=client
    )
    table = pybullet.createMultiBody(0, floor, -1, [0, 0, -0.02], physicsClientId=client)
    body = pybullet.createMultiBody(pencil.mass, rod, -1, [0, 0, half], physicsClientId=client)
    for one in (table, body):
        pybullet.changeDynamics(one, -1, lateralFriction=pencil.friction**0.5, restitution=0, physicsClientId=client)
    pybullet.changeDynamics(body, -1, rollingFriction=1e-4, physicsClientId=client)  # without any it rolls off the table
    ends = []
    for i in range(n):
        x, y = (float(launches[name][i % 1024]) for name in ("push_x", "push_y"))
        pybullet.resetBasePositionAndOrientation(body, [0, 0, half], [0, 0, 0, 1], physicsClientId=client)
        pybullet.resetBaseVelocity(body, [half * x, half * y, 0], [-y, x, 0], physicsClientId=client)
        quiet = steps = 0
        while steps < 6 * rate and quiet < rate / 4:
            pybullet.stepSimulation(physicsClientId=client)
            steps += 1
            if steps % (rate // 60) == 0:
                low = pybullet.getBasePositionAndOrientation(body, physicsClientId=client)[0][2] < half / 2
                vel, omega = pybullet.getBaseVelocity(body, physicsClientId=client)
                quiet = quiet + rate // 60 if low and max(map(abs, (*vel, *(0.1 * w for w in omega)))) < 0.01 else 0
        right = pybullet.getBasePositionAndOrientation(body, physicsClientId=client)[0][0] > 0.0
        ends.append((int(right) if quiet else -1, steps / rate))
    pybullet.disconnect(client)
    return ends


COMPARISONS: tuple[Comparison, ...] = (
    Comparison(
        "pawbench/A-09",
        f"PyBullet with its defaults at 1/{RATE} s, a capsule until slow for a quarter of a second",
        plain,
        RATE,
        300,
        20.0,
    ),
)
