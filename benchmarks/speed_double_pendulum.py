"""The double pendulum by its kernel beside a plain PyBullet loop: two links on two joints, for five seconds."""

from __future__ import annotations

import math

import pybullet

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.sampling import launch_block

RATE = 240  # 1/s: PyBullet's own, and kind to it: its energy drifts, which two even sides do not show


def plain(n: int, rate: int) -> Ends:
    """Let n double pendulums swing with nothing but PyBullet; return on which side their outer bobs end."""
    scene = load_scene("calibench/pendulum")
    device = scene.device
    launches = launch_block(device.random, 0, scene.stream, 0)
    client = pybullet.connect(pybullet.DIRECT)
    pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
    pybullet.setTimeStep(1 / rate, physicsClientId=client)
    bob = pybullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=0.001, physicsClientId=client)
    body = pybullet.createMultiBody(
        linkMasses=[device.mass] * 2,
        linkCollisionShapeIndices=[bob] * 2,
        linkVisualShapeIndices=[-1] * 2,
        linkPositions=[[0, 0, 0], [0, 0, -device.inner_length]],
        linkOrientations=[[0, 0, 0, 1]] * 2,
        linkInertialFramePositions=[[0, 0, -device.inner_length], [0, 0, -device.outer_length]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]] * 2,
        linkParentIndices=[0, 1],
        linkJointTypes=[pybullet.JOINT_REVOLUTE] * 2,
        linkJointAxis=[[0, -1, 0]] * 2,
        physicsClientId=client,
    )
    for link in (-1, 0, 1):
        pybullet.changeDynamics(body, link, linearDamping=0, angularDamping=0, jointDamping=0, physicsClientId=client)
        pybullet.setCollisionFilterGroupMask(body, link, 0, 0, physicsClientId=client)
    pybullet.setJointMotorControlArray(body, [0, 1], pybullet.VELOCITY_CONTROL, forces=[0, 0], physicsClientId=client)
    ends = []
    for i in range(n):
        inner, outer = (float(launches[name][i % 1024]) for name in ("inner_push", "outer_push"))
        pybullet.resetJointState(body, 0, device.inner_angle, inner, physicsClientId=client)
        pybullet.resetJointState(body, 1, device.outer_angle - device.inner_angle, outer - inner, physicsClientId=client)
        for _ in range(math.ceil(device.end_time * rate)):
            pybullet.stepSimulation(physicsClientId=client)
        x = pybullet.getLinkState(body, 1, computeForwardKinematics=1, physicsClientId=client)[0][0]
        ends.append((int(x > 0.0), device.end_time))
    pybullet.disconnect(client)
    return ends


COMPARISONS: tuple[Comparison, ...] = (
    Comparison("calibench/pendulum", "PyBullet at 1/240 s, two links on two joints, for 5 s", plain, RATE, 150, 20.0),
)
