"""How fast our rollouts of coin and dice are, beside the shortest plain PyBullet loop of the same scene.

Both run in this process, in turn, on the same launches and at the same step; the ratio is of the medians over the repeats.

    python benchmarks/bullet.py [repeats] [rollouts a repeat]
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
import pybullet

from scenes.load import load_scene
from simulators.device import State
from simulators.engines.loop import run
from simulators.sampling import launch_block
from simulators.world import Box, World


def bare(client: int, world: World, start: State, rate: int, limit: float) -> float:
    """Run one launch with nothing but PyBullet until it has been slow for a quarter of a second; return seconds simulated."""
    pybullet.resetSimulation(physicsClientId=client)
    pybullet.setGravity(0, 0, -9.81, physicsClientId=client)
    pybullet.setTimeStep(1 / rate, physicsClientId=client)
    (loose,) = world.loose
    body = world.moving[loose]
    for fixed in world.fixed:
        for part in fixed.parts:
            half = [edge / 2 for edge in part.shape.size]
            shape = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=half, physicsClientId=client)
            made = pybullet.createMultiBody(0, shape, -1, part.position, physicsClientId=client)
            pybullet.changeDynamics(
                made, -1, restitution=fixed.surface.restitution, lateralFriction=fixed.surface.friction, physicsClientId=client
            )
    form = body.parts[0].shape
    if isinstance(form, Box):
        half = [edge / 2 for edge in form.size]
        shape = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=half, physicsClientId=client)
    else:
        shape = pybullet.createCollisionShape(
            pybullet.GEOM_CYLINDER, radius=form.radius, height=form.length, physicsClientId=client
        )
    made = pybullet.createMultiBody(body.mass, shape, -1, body.position, body.quaternion, physicsClientId=client)
    pybullet.changeDynamics(made, -1, restitution=1, lateralFriction=1, maxJointVelocity=1e5, physicsClientId=client)
    vel, omega = start.vel[0, loose].tolist(), start.omega[0, loose].tolist()
    pybullet.resetBaseVelocity(made, vel, omega, physicsClientId=client)
    quiet = steps = 0
    while steps < limit * rate and quiet < rate / 4:
        pybullet.stepSimulation(physicsClientId=client)
        steps += 1
        if steps % 20 == 0:
            vel, omega = pybullet.getBaseVelocity(made, physicsClientId=client)
            quiet = quiet + 20 if max(map(abs, (*vel, *(0.01 * w for w in omega)))) < 0.01 else 0
    return steps / rate


def main(repeats: int = 5, rollouts: int = 20) -> None:
    """Print rollouts a second of both, simulated seconds a second, and the ratios."""
    client = pybullet.connect(pybullet.DIRECT)
    for scene_id in ("pawbench/A-01", "pawbench/A-02", "calibench/dice"):
        scene = load_scene(scene_id)
        world, rate, limit = scene.device.world(), scene.engine.steps_per_second, scene.engine.time_limit
        starts = scene.device.start(launch_block(scene.device.random, 0, scene.stream, 0))
        run(scene.engine, scene.device, 0, scene.stream, [0])  # compiles
        ours, theirs = [], []  # (seconds, simulated seconds) of each repeat
        for repeat in range(repeats):
            indices = np.arange(repeat * rollouts, (repeat + 1) * rollouts)
            begun = time.perf_counter()
            simulated = float(run(scene.engine, scene.device, 0, scene.stream, indices).end.time.sum())
            between = time.perf_counter()
            bare_simulated = sum(bare(client, world, starts[i : i + 1], rate, limit) for i in indices)
            ours.append((between - begun, simulated))
            theirs.append((time.perf_counter() - between, bare_simulated))
        print(f"{scene_id} at {rate} Hz, per core")
        rates = [
            (statistics.median(rollouts / t for t, _ in x), statistics.median(s / t for t, s in x)) for x in (ours, theirs)
        ]
        for name, (per_second, speed) in zip(("ours", "bare PyBullet"), rates, strict=True):
            print(f"  {name}: {per_second:.1f} rollouts/s, {speed:.1f} simulated seconds a second")
        print(f"  ours/bare: {rates[0][0] / rates[1][0]:.2f} by rollouts, {rates[0][1] / rates[1][1]:.2f} by simulated time")
    pybullet.disconnect(client)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
