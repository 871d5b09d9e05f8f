"""The draws from piles of balls beside plain PyBullet loops of the same apparatus: what a competent user would write."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pybullet

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.device import Acting, Device, State
from simulators.sampling import BLOCK, launch_block
from simulators.world import Body, Box, Capsule, Part, Sphere

RATE = 480  # 1/s: twice PyBullet's own 240, at which blades pass through balls


def _shape(client: int, part: Part) -> int:
    match part.shape:
        case Box(size=size):
            return pybullet.createCollisionShape(
                pybullet.GEOM_BOX, halfExtents=[edge / 2 for edge in size], physicsClientId=client
            )
        case Capsule(radius=radius, length=length):
            return pybullet.createCollisionShape(pybullet.GEOM_CAPSULE, radius=radius, height=length, physicsClientId=client)
        case Sphere(radius=radius):
            return pybullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=radius, physicsClientId=client)
    raise TypeError(f"no collision shape for {part.shape!r}")


def _build(client: int, body: Body) -> list[int]:
    made = []
    for part in body.parts:
        place, turn = pybullet.multiplyTransforms(body.position, body.quaternion, part.position, part.quaternion)
        made.append(pybullet.createMultiBody(body.mass, _shape(client, part), -1, place, turn, physicsClientId=client))
        pybullet.changeDynamics(
            made[-1],
            -1,
            restitution=math.sqrt(body.surface.restitution),
            lateralFriction=math.sqrt(body.surface.friction),
            rollingFriction=body.surface.rolling_friction,
            physicsClientId=client,
        )
    return made


def _one(client: int, device: Device, launch: dict[str, np.ndarray], seconds: float, rate: int) -> int:
    pybullet.resetSimulation(physicsClientId=client)
    pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
    pybullet.setTimeStep(1 / rate, physicsClientId=client)
    world = device.world()
    made = {body.name: (body, _build(client, body)) for body in world.bodies if body.collides}
    moves = device.drive(launch) if isinstance(device, Acting) else {}
    for step in range(round(seconds * rate)):
        for name, move in moves.items():
            place, turn = move.at(step / rate)
            body, ids = made[name]
            for part, unique in zip(body.parts, ids, strict=True):
                at, to = pybullet.multiplyTransforms(place.tolist(), turn.tolist(), part.position, part.quaternion)
                pybullet.resetBasePositionAndOrientation(unique, at, to, physicsClientId=client)
        pybullet.stepSimulation(physicsClientId=client)
    state = State.at_release(world, 1)
    state.time[:] = seconds
    for i, moving in enumerate(world.moving):
        if moving.mass > 0.0:
            state.pos[0, i], _ = pybullet.getBasePositionAndOrientation(made[moving.name][1][0], physicsClientId=client)
        elif moving.name in moves:
            state.pos[0, i], _ = moves[moving.name].at(seconds)
    return int(device.read(state)[0])


def _peer(scene_id: str) -> Callable[[int, int], Ends]:
    def run_peer(n: int, rate: int) -> Ends:
        scene = load_scene(scene_id)
        client = pybullet.connect(pybullet.DIRECT)
        values = launch_block(scene.device.random, 0, scene.stream, 0)
        ends, seconds = [], scene.device.end_time or 0.0
        for i in np.arange(n) % BLOCK:
            launch = {name: value[i] for name, value in values.items()}
            ends.append((_one(client, scene.device, launch, seconds, rate), seconds))
        pybullet.disconnect(client)
        return ends

    return run_peer


PEER = f"plain PyBullet at {RATE} Hz, driven parts set to their poses"
COMPARISONS: tuple[Comparison, ...] = (
    Comparison("pawbench/A-13", PEER, _peer("pawbench/A-13"), RATE, 5, 20.0),
    Comparison("pawbench/A19", PEER, _peer("pawbench/A19"), RATE, 8, 20.0),
    Comparison("calibench/lottery", PEER, _peer("calibench/lottery"), RATE, 1, 20.0),
)
