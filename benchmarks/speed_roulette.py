"""The roulette wheel's speed beside the shortest plain PyBullet loop of the same wheel: concave meshes and fret boxes.

Its rim is not ours: the meshes' facets stop the ball within about two seconds (at 240, 480 and 1000 Hz), where it
rolls for eight. So the ratio flatters the peer.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pybullet

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.devices.roulette import Roulette
from simulators.sampling import launch_block

RATE = 480  # 1/s
SIDES = 96


def _mesh(client: int, profile: list[tuple[float, float]]) -> int:
    """Return a fixed body of the surface of revolution through `profile` (r, z)."""
    turns = 2 * np.pi * np.arange(SIDES) / SIDES
    vertices = [(r * math.cos(a), r * math.sin(a), z) for r, z in profile for a in turns]
    faces = []
    for k in range(len(profile) - 1):
        for i in range(SIDES):
            j = (i + 1) % SIDES
            a, b, c, d = k * SIDES + i, k * SIDES + j, (k + 1) * SIDES + i, (k + 1) * SIDES + j
            faces += [a, c, b, b, c, d, a, b, c, b, d, c]
    shape = pybullet.createCollisionShape(
        pybullet.GEOM_MESH, vertices=vertices, indices=faces, flags=pybullet.GEOM_FORCE_CONCAVE_TRIMESH, physicsClientId=client
    )
    return pybullet.createMultiBody(0, shape, physicsClientId=client)


def run_peer(n: int, rate: int) -> Ends:
    """Spin n balls, each until it has been slow beside the rotor for .3 s, at most 30 s."""
    scene = load_scene("calibench/roulette")
    wheel = cast(Roulette, scene.device)
    launches = launch_block(wheel.random, 0, scene.stream, 0)
    start = wheel.start(launches)
    client, ends = pybullet.connect(pybullet.DIRECT), []
    for i in range(n):
        pybullet.resetSimulation(physicsClientId=client)
        pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
        pybullet.setTimeStep(1 / rate, physicsClientId=client)
        seam, wall, outer, inner = wheel.seam_radius, wheel.wall_radius, wheel.pocket_outer, wheel.pocket_inner
        bowl = _mesh(client, [(seam, 0), (wall, wheel.cone(wall)), (wall, wheel.cone(wall) + 0.08)])
        ring = [(0.01, wheel.floor + 0.05), (inner, wheel.floor), (outer, wheel.floor), (outer, wheel.cone(outer)), (seam, 0)]
        rotor = [_mesh(client, ring)]
        half = [(outer - inner) / 2, wheel.fret_thickness / 2, wheel.fret_height / 2]
        box = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=half, physicsClientId=client)
        for k in range(len(wheel.pockets)):
            a, r = 2 * np.pi * k / len(wheel.pockets), (outer + inner) / 2
            place, turn = [r * math.cos(a), r * math.sin(a), wheel.floor + half[2]], [0, 0, math.sin(a / 2), math.cos(a / 2)]
            rotor.append(pybullet.createMultiBody(0, box, -1, place, turn, physicsClientId=client))
        stops = pybullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=0.008, physicsClientId=client)
        middles = wheel.deflector_ends().mean(axis=1).tolist()
        pegs = [pybullet.createMultiBody(0, stops, -1, at, physicsClientId=client) for at in middles]
        shape = pybullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=wheel.ball_radius, physicsClientId=client)
        ball = pybullet.createMultiBody(wheel.mass, shape, -1, start.pos[i, 1].tolist(), physicsClientId=client)
        pybullet.resetBaseVelocity(ball, start.vel[i, 1].tolist(), start.omega[i, 1].tolist(), physicsClientId=client)
        for body in (bowl, *rotor, *pegs):
            pybullet.changeDynamics(
                body, -1, restitution=wheel.restitution, lateralFriction=wheel.friction, physicsClientId=client
            )
        pybullet.changeDynamics(ball, -1, restitution=1, lateralFriction=1, rollingFriction=2e-4, physicsClientId=client)
        spin, quiet, steps = float(launches["rotor_speed"][i]), 0, 0
        poses = [pybullet.getBasePositionAndOrientation(body, physicsClientId=client) for body in rotor]
        while steps < 30 * rate and quiet < 0.3 * rate:
            angle = spin * steps / rate
            turn = [0, 0, math.sin(angle / 2), math.cos(angle / 2)]
            for body, (place, quat) in zip(rotor, poses, strict=True):
                pose = pybullet.multiplyTransforms([0, 0, 0], turn, place, quat)
                pybullet.resetBasePositionAndOrientation(body, *pose, physicsClientId=client)
                speed = [-spin * pose[0][1], spin * pose[0][0], 0]
                pybullet.resetBaseVelocity(body, speed, [0, 0, spin], physicsClientId=client)
            pybullet.stepSimulation(physicsClientId=client)
            steps += 1
            (x, y, _), _ = pybullet.getBasePositionAndOrientation(ball, physicsClientId=client)
            (u, v, w), _ = pybullet.getBaseVelocity(ball, physicsClientId=client)
            quiet = quiet + 1 if math.hypot(u + spin * y, v - spin * x, w) < 0.03 else 0
        pocket = int((math.atan2(y, x) - angle) % math.tau / math.tau * len(wheel.pockets))
        ends.append((pocket if quiet else -1, steps / rate))
    pybullet.disconnect(client)
    return ends


COMPARISONS: tuple[Comparison, ...] = (
    Comparison("calibench/roulette", f"PyBullet, concave meshes and fret boxes, {RATE} Hz", run_peer, RATE, 1, 20.0),
)
