"""Tracks and crests by their kernel beside a plain Pymunk loop of the same apparatus."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymunk

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators import rotation
from simulators.devices.regions import read_regions
from simulators.sampling import launch_block
from simulators.world import Box, Part, Sphere

# 1/s: what `peer_steps` bears out for the first two; time to rest changes by a tenth and a third (A17) from 480 to 960
RATES = {"pawbench/A-07": 240, "calibench/ball": 240, "pawbench/A-08": 960, "pawbench/A17": 960}
PEER = "Pymunk at 1/{} s, boxes and circles, until slow for a quarter of a second"


def shape(ground: pymunk.Body, part: Part) -> pymunk.Shape:
    """Return a part of a fixed body: a plank as a segment, a floor as a polygon, a round top as a circle."""
    x, _, z = part.position
    if not isinstance(part.shape, Box):
        return pymunk.Circle(ground, part.shape.radius, (x, z))
    across, _, along = part.shape.size
    if part.shape.fillet < 0.4 * across:
        a, b = across / 2, along / 2
        return pymunk.Poly(ground, [(x - a, z - b), (x + a, z - b), (x + a, z + b), (x - a, z + b)])
    way = (along - across) / 2 * rotation.rotate(part.quaternion, np.array([0.0, 0.0, 1.0]))
    return pymunk.Segment(ground, (x - way[0], z - way[2]), (x + way[0], z + way[2]), across / 2)


def plain(scene_id: str) -> Callable[[int, int], Ends]:
    """Return a function that lets the scene's ball go n times with nothing but Pymunk."""
    scene = load_scene(scene_id)
    device, world = scene.device, scene.device.world()
    starts = device.start(launch_block(device.random, 0, scene.stream, 0))
    at = world.loose[0]
    body = world.moving[at]
    regions = device.regions()
    sphere = body.parts[0].shape
    if not isinstance(sphere, Sphere):
        raise TypeError(f"{scene_id} has no ball")
    moment = 0.4 * body.mass * sphere.radius**2

    def release(n: int, rate: int) -> Ends:
        ends = []
        for i in range(n):
            row = i % len(starts)
            space = pymunk.Space()
            space.gravity = (0.0, -world.gravity)
            space.collision_slop = 1e-5
            for fixed in world.fixed:
                for part in fixed.parts if fixed.collides else ():
                    one = shape(space.static_body, part)
                    one.elasticity, one.friction = fixed.surface.restitution**0.5, fixed.surface.friction**0.5
                    space.add(one)
            ball = pymunk.Body(body.mass, moment)
            ball.position = float(starts.pos[row, at, 0]), float(starts.pos[row, at, 2])
            ball.velocity = float(starts.vel[row, at, 0]), 0.0
            disc = pymunk.Circle(ball, sphere.radius)
            disc.elasticity, disc.friction = body.surface.restitution**0.5, body.surface.friction**0.5
            space.add(ball, disc)
            low, quiet, steps = device.tray_depth - device.ball_radius, 0, 0
            while steps < scene.kernel.time_limit * rate and quiet < rate / 4:
                space.step(1 / rate)
                steps += 1
                quiet = quiet + 1 if ball.position.y < low and ball.velocity.length < 1e-2 else 0
            shown = read_regions(regions, np.array([ball.position.x]), np.array([ball.position.y]))
            ends.append((int(shown[0]) if quiet else -1, steps / rate))
        return ends

    return release


COMPARISONS: tuple[Comparison, ...] = tuple(
    Comparison(scene, PEER.format(rate), plain(scene), rate, 300, 20.0) for scene, rate in RATES.items()
)
