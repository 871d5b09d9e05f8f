"""The spinner by its kernel beside a plain PyBullet loop: a wheel on a joint with friction and damping."""

from __future__ import annotations

import bisect
import math

import pybullet

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.sampling import launch_block

RATE = 240  # 1/s: PyBullet's own; one wheel on one joint is as good at any step


def plain(n: int, rate: int) -> Ends:
    """Spin a wheel n times with nothing but PyBullet, until it stops."""
    scene = load_scene("pawbench/A-03")
    wheel = scene.device
    pushes = launch_block(wheel.random, 0, scene.stream, 0)["speed"]
    client = pybullet.connect(pybullet.DIRECT)
    pybullet.setTimeStep(1 / rate, physicsClientId=client)
    disc = pybullet.createCollisionShape(pybullet.GEOM_CYLINDER, radius=wheel.radius, height=0.012, physicsClientId=client)
    body = pybullet.createMultiBody(
        linkMasses=[wheel.mass],
        linkCollisionShapeIndices=[disc],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0, 0]],
        linkOrientations=[[0, 0, 0, 1]],
        linkInertialFramePositions=[[0, 0, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]],
        linkParentIndices=[0],
        linkJointTypes=[pybullet.JOINT_REVOLUTE],
        linkJointAxis=[[0, 0, 1]],
        useMaximalCoordinates=0,
        physicsClientId=client,
    )
    moment = wheel.mass * wheel.radius**2 / 2
    pybullet.changeDynamics(body, 0, jointDamping=wheel.drag * moment, physicsClientId=client)
    ends = []
    for i in range(n):
        pybullet.resetJointState(body, 0, wheel.phase_at_release, -float(pushes[i % 1024]), physicsClientId=client)
        pybullet.setJointMotorControl2(
            body, 0, pybullet.VELOCITY_CONTROL, targetVelocity=0, force=wheel.friction * moment, physicsClientId=client
        )
        for step in range(20 * rate):
            pybullet.stepSimulation(physicsClientId=client)
            if step % (rate // 15) == 0 and abs(pybullet.getJointState(body, 0, physicsClientId=client)[1]) < 1e-3:
                break
        under = (0.25 - pybullet.getJointState(body, 0, physicsClientId=client)[0] / math.tau) % 1.0
        sector = bisect.bisect(wheel.edges.tolist(), under) - 1
        ends.append((int(wheel.fact_of_sector[sector]), step / rate))
    pybullet.disconnect(client)
    return ends


COMPARISONS: tuple[Comparison, ...] = (
    Comparison(
        "pawbench/A-03", "PyBullet at 1/240 s, a wheel on a joint with friction, until it stops", plain, RATE, 150, 20.0
    ),
)
