"""Frame 0 is one picture: what a launch may move is too small to see. Measured from the camera, whoever wrote the scene.

It refuses to know outcomes: a launch that randomised what the picture shows would certify any symmetric device.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from simulators import rotation
from simulators.device import Device
from simulators.rotation import Array
from simulators.sampling import launch_block
from simulators.world import Box, Camera, Capsule, Cylinder, Lathe, Part, Sphere, World

WIDTH, HEIGHT = 832, 480  # px: the size that the limits are meant at
LAUNCHES = 64
FARTHEST = 2.0  # px: no point of any outline, in any of the launches
SPREAD = 0.6  # px: sd of a release spread
SAMPLE = 1.1  # the sd of a block of 1024 normal draws is off by 2.2 % (sd): 4.5 of these above


def problems(device: Device, camera: Camera, stream: str) -> list[str]:
    """Return how the launches of `device` change the source image by more than may be seen, if they do."""
    world = device.world()
    camera = dataclasses.replace(camera, width=WIDTH, height=HEIGHT)
    start = device.start(launch_block(device.random, 0, stream, 0))
    pos, quat = world.poses(0.0)
    nominal = drawn(world, camera, *as_seen(world, pos[None], quat[None]))
    moved = drawn(world, camera, *as_seen(world, start.pos, start.quat)) - nominal
    farthest = float(np.sqrt(np.sum(moved[:LAUNCHES] ** 2, axis=-1)).max(initial=0.0))
    spread = float(moved.std(axis=0).max(initial=0.0))
    told = []
    if not farthest <= FARTHEST:
        told.append(f"moves an outline of the source image by up to {farthest:.3g} px, and {FARTHEST:g} px is the most")
    if not spread <= SPREAD * SAMPLE:
        told.append(f"spreads it by {spread:.3g} px (sd), and {SPREAD:g} px is the most")
    if not told:
        return []
    return [
        f"`device.random` {' and '.join(told)}: every launch must start from the same picture; make impulses or timing random "
        "instead, or declare what is hidden"
    ]


def as_seen(world: World, pos: Array, quat: Array) -> tuple[Array, Array]:
    """Return the poses with bodies that look alike put in order of height: which is which cannot be seen."""
    pos, quat = pos.copy(), quat.copy()
    names = [body.name for body in world.moving]
    for group in world.alike:
        which = np.array([names.index(name) for name in group])
        order = which[np.argsort(pos[:, which, 2], axis=1, kind="stable")]
        pos[:, which] = np.take_along_axis(pos, order[:, :, None], axis=1)
        quat[:, which] = np.take_along_axis(quat, order[:, :, None], axis=1)
    return pos, quat


def drawn(world: World, camera: Camera, pos: Array, quat: Array) -> Array:
    """Return pixels (n, m, 2) of points on everything that moves, bodies at `pos` (n, B, 3) and `quat` (n, B, 4)."""
    return np.concatenate(
        [
            camera.project(rotation.rotate(quat[:, i, None], _outline(part)[None]) + pos[:, i, None])
            for i, body in enumerate(world.moving)
            for part in body.parts
        ],
        axis=1,
    )


def _outline(part: Part) -> Array:
    """Return points (m, 3) in the body's axes that span the part's shape: corners, rims; for balls a cage."""
    turn = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    ring = np.stack([np.cos(turn), np.sin(turn), np.zeros_like(turn)], axis=-1)
    cage = np.concatenate([ring, ring[:, [0, 2, 1]], ring[:, [2, 0, 1]]])
    match part.shape:
        case Box(size=size):
            points = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * np.array(size) / 2.0
        case Sphere(radius=radius):
            points = radius * cage
        case Cylinder(radius=radius, length=length):
            points = np.concatenate([radius * ring + [0.0, 0.0, side * length / 2.0] for side in (-1, 1)])
        case Capsule(radius=radius, length=length):
            points = np.concatenate([radius * cage + [0.0, 0.0, side * length / 2.0] for side in (-1, 1)])
        case Lathe(profile=profile):
            points = np.concatenate([r * ring + [0.0, 0.0, z] for r, z in profile])
    return rotation.rotate(np.array(part.quaternion), points) + np.array(part.position)
