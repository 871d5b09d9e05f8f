"""The outline of a planar world as the centre of one ball meets it: circles and straight sides, found through a grid.

Everything fixed is grown by the ball's radius, so the ball is a point. It refuses to know how the point moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulators.compiled import borrowing, jit
from simulators.rotation import Array
from simulators.world import Body, Box, Capsule, Cylinder, Part, Quat, Sphere, Vec3, World

CIRCLE, SIDE = 0, 1
CX, CZ, SIZE, TX, TZ, RESTITUTION, FRICTION, RESIST = range(8)
"""Columns of an edge: a circle's centre and radius [m], or a side's first point, length [m] and unit tangent (the solid lies to
the tangent's right); then the pair's restitution, friction, and what rolling resists with as a deceleration [m/s^2]."""

OUT_OF_PLANE = 1e-6  # how far an axis may lean before a shape no longer has the outline that the plane needs
CELL = 1.3  # ball radii: the width of a grid's cell; rates change little between 1 and 2
MOST_CELLS = 40_000  # a long track has wider ones
Vec2 = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Edges:
    """What a ball may touch: `kind` (E,) CIRCLE or SIDE, `values` (E, 8) as the columns above, `body` (E,) whose edge it is.

    The grid: cell (i, j) reaches from `corner` + (i, j) `cell` one `cell` [m] each way; `members[first[c] : first[c + 1]]`,
    c = i `shape[1]` + j, are the edges within one further `cell` of it. So a point that is in a cell meets no other before
    it has gone `cell` far.
    """

    kind: NDArray[np.int64]
    values: Array
    body: NDArray[np.int64]
    corner: Array
    cell: float
    shape: tuple[int, int]
    first: NDArray[np.int64]
    members: NDArray[np.int64]


def ball_of(world: World) -> tuple[Body, float]:
    """Return the loose ball of a planar `world` and its radius [m]. Raises `TypeError` where that is not all that moves."""
    loose = [world.moving[i] for i in world.loose]
    if not world.planar or len(loose) != 1 or any(body.driven for body in world.bodies):
        raise TypeError("the planar ball kernel takes a planar world with one loose body and none that is driven")
    (body,) = loose
    if len(body.parts) != 1 or not isinstance(body.parts[0].shape, Sphere) or any(body.parts[0].position) or body.inertia:
        raise TypeError(f"the planar ball kernel takes one plain ball, and {body.name!r} is none")
    if body.angular_damping:
        raise TypeError(f"the planar ball kernel knows no angular damping, and {body.name!r} has {body.angular_damping}")
    return body, body.parts[0].shape.radius


def edges_of(world: World) -> Edges:
    """Return the edges of everything fixed that collides. Raises `TypeError` for what has no outline in the plane."""
    ball, radius = ball_of(world)
    kind: list[int] = []
    rows: list[tuple[float, ...]] = []
    owner: list[int] = []
    for number, body in enumerate(world.bodies):
        if body.mass > 0.0 or not body.collides:
            continue
        # A pair's value is the geometric mean of its sides; rolling friction adds, as a torque on the weight (see `Planar`).
        contact = (
            math.sqrt(body.surface.restitution) * math.sqrt(ball.surface.restitution),
            math.sqrt(body.surface.friction) * math.sqrt(ball.surface.friction),
            (body.surface.rolling_friction + ball.surface.rolling_friction) * world.gravity / radius,
        )
        for part in body.parts:
            points, rounding = outline(part, body.position, body.quaternion)
            for one, row in _grown(points, rounding + radius):
                kind.append(one)
                rows.append((*row, *contact))
                owner.append(number)
    kinds, values = np.array(kind, np.int64), np.array(rows, float).reshape(-1, 8)
    corner, cell, shape = _frame(kinds, values, radius)
    first, members = file_edges(kinds, values, corner, cell, *shape)
    return Edges(kinds, values, np.array(owner, np.int64), corner, cell, shape, first, members)


def outline(part: Part, position: Vec3, quaternion: Quat) -> tuple[tuple[Vec2, ...], float]:
    """Return one point, two, or the corners of a convex polygon, and the radius [m] by which they are rounded.

    In the x-z plane, of a part carried by a body at `position` and `quaternion`. Raises `TypeError` for a part that leans
    out of it.
    """
    cx, _, cz = _turned(quaternion, part.position)
    x, z = position[0] + cx, position[2] + cz
    axes = [_turned(quaternion, _turned(part.quaternion, unit)) for unit in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]

    def corners(first: Vec3, by: float, second: Vec3, other: float) -> tuple[Vec2, ...]:
        return tuple(
            (x + a * by * first[0] + b * other * second[0], z + a * by * first[2] + b * other * second[2])
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        )

    along = [abs(axis[1]) for axis in axes]
    match part.shape:
        case Sphere(radius=radius):
            return ((x, z),), radius
        case Cylinder(radius=radius) | Capsule(radius=radius) if along[2] > 1.0 - OUT_OF_PLANE:
            return ((x, z),), radius
        case Capsule(radius=radius, length=length) if along[2] < OUT_OF_PLANE:
            dx, dz = axes[2][0] * length / 2.0, axes[2][2] * length / 2.0
            return ((x - dx, z - dz), (x + dx, z + dz)), radius
        case Cylinder(radius=radius, length=length, fillet=fillet) if along[2] < OUT_OF_PLANE:
            side = (axes[2][2], 0.0, -axes[2][0])
            return corners(axes[2], length / 2.0 - fillet, side, radius - fillet), fillet
        case Box(size=size, fillet=fillet) if max(along) > 1.0 - OUT_OF_PLANE:
            i, j = (k for k in range(3) if k != along.index(max(along)))
            return corners(axes[i], size[i] / 2.0 - fillet, axes[j], size[j] / 2.0 - fillet), fillet
        case shape:
            raise TypeError(f"a {type(shape).__name__} that leans out of the x-z plane has no outline for a planar ball")


def _turned(q: Quat, v: tuple[float, ...]) -> Vec3:
    """Return `v` turned by the unit quaternion `q`, in plain floats: a world has hundreds of parts."""
    x, y, z, w = q
    tx, ty, tz = 2.0 * (y * v[2] - z * v[1]), 2.0 * (z * v[0] - x * v[2]), 2.0 * (x * v[1] - y * v[0])
    return (
        v[0] + w * tx + y * tz - z * ty,
        v[1] + w * ty + z * tx - x * tz,
        v[2] + w * tz + x * ty - y * tx,
    )


def _grown(points: tuple[Vec2, ...], radius: float) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield the edges of an outline grown by `radius`: an arc's whole circle at each point, a side along each line."""
    for x, z in points:
        yield CIRCLE, (x, z, radius, 0.0, 0.0)
    area = sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(points, points[1:] + points[:1], strict=True))
    turn = points if area <= 0.0 else points[::-1]  # clockwise: the solid to the right of each side
    for (ax, az), (bx, bz) in zip(turn, turn[1:] + turn[:1], strict=True) if len(points) > 1 else ():
        length = math.hypot(bx - ax, bz - az)
        if length > 0.0:
            tx, tz = (bx - ax) / length, (bz - az) / length
            yield SIDE, (ax - tz * radius, az + tx * radius, length, tx, tz)


def _frame(kind: NDArray[np.int64], values: Array, radius: float) -> tuple[Array, float, tuple[int, int]]:
    """Return the grid's lower corner (2,), its cell [m], and how many cells it has each way, one to spare at every border."""
    if not len(kind):
        return np.zeros(2), radius, (1, 1)
    circle = (kind == CIRCLE)[:, None]
    centre, size = values[:, [CX, CZ]], values[:, [SIZE]]
    ends = np.where(circle, centre, centre + values[:, [TX, TZ]] * size)
    low = (np.minimum(centre, ends) - np.where(circle, size, 0.0)).min(axis=0)
    span = (np.maximum(centre, ends) + np.where(circle, size, 0.0)).max(axis=0) - low
    cell = max(CELL * radius, math.sqrt(span[0] * span[1] / MOST_CELLS), float(span.max()) / MOST_CELLS)
    return low - 2.0 * cell, cell, (math.ceil(span[0] / cell) + 4, math.ceil(span[1] / cell) + 4)


@jit
def file_edges(kind, values, corner, cell, nx, nz):
    """Return (first, members) of `Edges`: for each cell the edges that come within `cell` of it, in their order."""
    half = 1.5 * cell
    first = np.zeros(nx * nz + 1, np.int64)
    members = np.zeros(0, np.int64)
    free = np.zeros(0, np.int64)
    for filling in range(2):
        for e in range(len(kind)):
            size, tx, tz = values[e, SIZE], values[e, TX], values[e, TZ]
            x, z = values[e, CX], values[e, CZ]
            # No cell beyond these has it near; one more each way for what rounding does.
            dx, dz = (2.0 * size, 2.0 * size) if kind[e] == CIRCLE else (tx * size, tz * size)
            left, low = (x - size, z - size) if kind[e] == CIRCLE else (min(x, x + dx), min(z, z + dz))
            i0, i1 = int((left - half - corner[0]) / cell) - 2, int((left + abs(dx) + half - corner[0]) / cell) + 2
            j0, j1 = int((low - half - corner[1]) / cell) - 2, int((low + abs(dz) + half - corner[1]) / cell) + 2
            for i in range(max(i0, 0), min(i1, nx)):
                for j in range(max(j0, 0), min(j1, nz)):
                    if _near(kind[e], values[e], corner[0] + (i + 0.5) * cell, corner[1] + (j + 0.5) * cell, half):
                        if filling:
                            members[free[i * nz + j]] = e
                            free[i * nz + j] += 1
                        else:
                            first[i * nz + j + 1] += 1
        if not filling:
            for c in range(nx * nz):
                first[c + 1] += first[c]
            members = np.zeros(first[nx * nz], np.int64)
            free = first[:-1].copy()
    return first, members


@borrowing
def _near(kind, edge, x, z, half):
    """Tell whether an edge comes into the square about (x, z) of half-width `half` [m]."""
    if kind == CIRCLE:
        ax, az = abs(x - edge[CX]), abs(z - edge[CZ])
        nearest, farthest = math.hypot(max(ax - half, 0.0), max(az - half, 0.0)), math.hypot(ax + half, az + half)
        return nearest <= edge[SIZE] <= farthest
    dx, dz = x - edge[CX], z - edge[CZ]
    reach = half * (abs(edge[TX]) + abs(edge[TZ]))
    across, along = dz * edge[TX] - dx * edge[TZ], dx * edge[TX] + dz * edge[TZ]
    return abs(across) <= reach and -reach <= along <= edge[SIZE] + reach
