"""The spinning top's speed beside the shortest plain PyBullet loop: a convex hull on a box, without the wall."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pybullet

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.devices.top import Top
from simulators.sampling import launch_block

RATE = 4000  # 1/s: at 1000 its precession is not the heavy top's, and at 240 it explodes


def run_peer(n: int, rate: int) -> Ends:
    """Spin n tops, each until it has been slow for a quarter of a second, at most 30 s."""
    scene = load_scene("pawbench/A18")
    top = cast(Top, scene.device)
    mass, centre, axial, across = top.solid()
    start = top.start(launch_block(top.random, 0, scene.stream, 0))
    turns = 2 * np.pi * np.arange(48) / 48
    hull = [(r * math.cos(a), r * math.sin(a), z - centre) for r, z in top.profile() for a in turns]
    client, ends = pybullet.connect(pybullet.DIRECT), []
    for i in range(n):
        pybullet.resetSimulation(physicsClientId=client)
        pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
        pybullet.setTimeStep(1 / rate, physicsClientId=client)
        floor = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=[0.1, 0.1, 0.01], physicsClientId=client)
        tray = pybullet.createMultiBody(0, floor, -1, [0, 0, -0.01], physicsClientId=client)
        shape = pybullet.createCollisionShape(pybullet.GEOM_MESH, vertices=hull, physicsClientId=client)
        body = pybullet.createMultiBody(mass, shape, -1, [0, 0, centre], physicsClientId=client)
        pybullet.changeDynamics(tray, -1, restitution=top.restitution, lateralFriction=top.friction, physicsClientId=client)
        pybullet.changeDynamics(
            body, -1, restitution=1, lateralFriction=1, rollingFriction=top.turning_friction / top.friction,
            spinningFriction=top.turning_friction / top.friction, localInertiaDiagonal=[across, across, axial],
            linearDamping=0, angularDamping=0, maxJointVelocity=1e5, physicsClientId=client,
        )  # fmt: skip
        pybullet.resetBaseVelocity(body, start.vel[i, 0].tolist(), start.omega[i, 0].tolist(), physicsClientId=client)
        quiet = steps = 0
        while steps < 30 * rate and quiet < rate / 4:
            pybullet.stepSimulation(physicsClientId=client)
            steps += 1
            if steps % 50 == 0:
                vel, omega = pybullet.getBaseVelocity(body, physicsClientId=client)
                quiet = quiet + 50 if max(map(abs, (*vel, *(0.01 * w for w in omega)))) < 0.01 else 0
        x, y, _ = pybullet.getBasePositionAndOrientation(body, physicsClientId=client)[0]
        ends.append((int(math.atan2(y, x) % math.tau / (math.tau / 4)) if quiet else -1, steps / rate))
    pybullet.disconnect(client)
    return ends


COMPARISONS: tuple[Comparison, ...] = (
    Comparison("pawbench/A18", f"PyBullet, convex hull, {RATE} Hz", run_peer, RATE, 8, 20.0),
)
