"""What is broken in a clip before it is drawn: trajectories whose bodies jump, swap or go backwards, worlds with other colours.

It refuses to know pictures, outcomes and judges.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulators.device import State
from simulators.world import Body, Box, Capsule, Cylinder, Material, Part, Shape, Sphere, World


class NotApplicable(ValueError):
    """A way of damage that this scene leaves no room for. The message says why."""


def motion(trajectory: State) -> tuple[int, int]:
    """Return the first row after the release and the last row at which anything moves (a thousandth of all its motion)."""
    first = int(np.searchsorted(trajectory.time, -1e-9))
    places = np.concatenate([trajectory.pos.reshape(len(trajectory), -1), trajectory.quat.reshape(len(trajectory), -1)], axis=1)
    steps = np.abs(np.diff(places, axis=0)).sum(axis=1)
    moving = np.flatnonzero(steps > 1e-3 * max(float(steps[first:].max(initial=0.0)), 1e-12)) + 1
    return first, max(int(moving[-1]) if len(moving) else 0, min(first + 1, len(trajectory) - 1))


def protagonist(world: World, camera_points: NDArray[np.float64], trajectory: State) -> int:
    """Return the position in `world.moving` of the loose body that moves most: along its path [px], or turning in place."""
    loose = list(world.loose) or list(range(len(world.moving)))
    path = np.linalg.norm(np.diff(camera_points[:, loose], axis=0), axis=-1).sum(axis=0)
    turned = np.abs(np.diff(trajectory.quat[:, loose], axis=0)).sum(axis=(0, 2))
    return loose[int(np.argmax(path + turned))]


def companions(world: World, body: int, trajectory: State) -> list[int]:
    """Return `body` and the loose bodies, none much larger, that stay in its reach all the time: the legs of who walks."""
    reach = [reach_of(one) for one in world.moving]
    near = [
        other
        for other in world.loose
        if reach[other] < 2.5 * reach[body]
        and np.linalg.norm(trajectory.pos[:, other] - trajectory.pos[:, body], axis=-1).max() < reach[other] + reach[body]
    ]
    return near if body in near else [body]


def movers(trajectory: State) -> list[int]:
    """Return the bodies that move by more than a hundredth of what moves most, or turn by more than a degree or so."""
    apart = np.abs(trajectory.pos - trajectory.pos[:1]).max(axis=(0, 2))
    turned = np.abs(trajectory.quat - trajectory.quat[:1]).max(axis=(0, 2))
    return np.flatnonzero((apart > 0.01 * apart.max(initial=0.0)) & (apart > 0.0) | (turned > 0.01)).tolist()


def reach_of(body: Body) -> float:
    """Return how far [m] from its centre anything of a body is, at most."""
    return max(float(np.linalg.norm(part.position)) + _extent(part.shape) for part in body.parts)


def _extent(shape: Shape) -> float:
    if isinstance(shape, Box):
        return float(np.linalg.norm(shape.size)) / 2
    if isinstance(shape, Sphere):
        return shape.radius
    if isinstance(shape, Cylinder):
        return float(np.hypot(shape.radius, shape.length / 2))
    if isinstance(shape, Capsule):
        return shape.radius + shape.length / 2
    return max(float(np.hypot(r, z)) for r, z in shape.profile)


def moved(trajectory: State, bodies: Sequence[int], rows: slice, offset: NDArray[np.float64]) -> State:
    """Return a trajectory whose `bodies` are `offset` (3,) [m] away during `rows`."""
    pos = trajectory.pos.copy()
    for body in bodies:
        pos[rows, body] += offset
    return dataclasses.replace(trajectory, pos=pos)


def swapped(trajectory: State, one: int, other: int, rows: slice) -> State:
    """Return a trajectory in which two bodies have each other's pose during `rows`."""
    pos, quat = trajectory.pos.copy(), trajectory.quat.copy()
    for values in (pos, quat):
        values[rows, one], values[rows, other] = values[rows, other].copy(), values[rows, one].copy()
    return dataclasses.replace(trajectory, pos=pos, quat=quat)


def backwards(trajectory: State, first: int, last: int, fps: float) -> State:
    """Return a trajectory whose middle is shown forwards, backwards and forwards again, in regular time."""
    begin, end = first + round(0.25 * (last - first)), first + round(0.75 * (last - first))
    rows = np.concatenate([np.arange(end), np.arange(end, begin, -1), np.arange(begin, len(trajectory))])
    again = trajectory[rows]
    return dataclasses.replace(again, time=trajectory.time[0] + np.arange(len(rows)) / fps)


def like(world: World, body: int) -> int:
    """Return the first loose body that has the shapes of `body` and another look."""
    mine = world.moving[body]
    for number in world.loose:
        other = world.moving[number]
        same = [part.shape for part in other.parts] == [part.shape for part in mine.parts]
        if number != body and same and [p.material for p in other.parts] != [p.material for p in mine.parts]:
            return number
    raise NotApplicable("no two bodies are alike in shape and different in looks")


def repainted(world: World, body: int) -> World:
    """Return the world with its sectors' colours moved on by one, or where it has none `body`'s colours changed."""
    sectors = any(part.material.sectors for one in world.bodies for part in one.parts)

    def other(material: Material) -> Material:
        if material.sectors:
            colors = [sector.color for sector in material.sectors]
            moved = tuple(
                dataclasses.replace(sector, color=color)
                for sector, color in zip(material.sectors, [*colors[1:], colors[0]], strict=True)
            )
            return dataclasses.replace(material, sectors=moved)
        if sectors:
            return material
        red, green, blue = material.color
        plain = max(material.color) - min(material.color) < 0.15
        return dataclasses.replace(material, color=(0.85, 0.15, 0.2) if plain else (blue, red, green))

    def painted(one: Body) -> Body:
        if not sectors and one.name != world.moving[body].name:
            return one
        parts: tuple[Part, ...] = tuple(dataclasses.replace(part, material=other(part.material)) for part in one.parts)
        return dataclasses.replace(one, parts=parts)

    return dataclasses.replace(world, bodies=tuple(painted(one) for one in world.bodies))
