"""A World's parts as rows that the ray caster reads, their layout told in `raster_kernels`. It refuses to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulators.render import raster_shapes as shapes
from simulators.render import textures
from simulators.render.marks import Ink
from simulators.rotation import Array, multiply, rotate
from simulators.world import Body, Box, Capsule, Cylinder, Lathe, Material, Part, Shape, Sphere, Vec3

WIDTH = 34  # columns of `prims`
SMOOTH = math.cos(math.radians(35.0))  # a lathe's segments that meet at less are shaded as one curve
_SHAPES = {Box: shapes.BOX, Sphere: shapes.SPHERE, Cylinder: shapes.CYLINDER, Capsule: shapes.CAPSULE}


def linear(srgb: ArrayLike) -> Array:
    """Return linear light for sRGB values in 0..1 (IEC 61966-2-1)."""
    value = np.asarray(srgb, float)
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def half_extents(shape: Shape) -> tuple[float, float, float]:
    """Return half the edges [m] of the box about a shape, in its own axes and about its own origin."""
    match shape:
        case Box(size=(x, y, z)):
            return x / 2.0, y / 2.0, z / 2.0
        case Sphere(radius=r):
            return r, r, r
        case Cylinder(radius=r, length=length):
            return r, r, length / 2.0
        case Capsule(radius=r, length=length):
            return r, r, length / 2.0 + r
        case Lathe(profile=profile):
            widest = max(r for r, _ in profile)
            return widest, widest, max(abs(z) for _, z in profile)


def texture_code(material: Material) -> int:
    """Return the kernels' number of a texture. Raises `ValueError` for one that no renderer knows."""
    if material.texture not in textures.CODES:
        raise ValueError(f"`texture` must be one of {', '.join(textures.CODES)}, got {material.texture!r}")
    return textures.CODES[material.texture]


def segments(lathe: Lathe) -> list[tuple[float, ...]]:
    """Return (r0, z0, r1, z1, nr0, nz0, nr1, nz1) of each straight piece of a profile.

    The normals (nr, nz) at its two ends are shared with a neighbour that runs on almost straight. Points that coincide make
    no piece.
    """
    points = np.array(lathe.profile, float)
    step = np.diff(points, axis=0)
    length = np.hypot(step[:, 0], step[:, 1])
    kept = length > 0.0
    starts, ends, step = points[:-1][kept], points[1:][kept], step[kept] / length[kept, None]
    own = np.stack([step[:, 1], -step[:, 0]], axis=-1)
    first, last = own.copy(), own.copy()
    for k in range(1, len(own)):
        if own[k - 1] @ own[k] > SMOOTH:
            first[k] = last[k - 1] = (own[k - 1] + own[k]) / np.linalg.norm(own[k - 1] + own[k])
    for normals, k, r in ((first, 0, starts[0, 0]), (last, -1, ends[-1, 0])):
        if r == 0.0 and abs(own[k, 1]) > SMOOTH:  # a dome's pole is flat
            normals[k] = (0.0, math.copysign(1.0, own[k, 1]))
    return [tuple(np.concatenate(row).tolist()) for row in zip(starts, ends, first, last, strict=True)]


def rows_of(part: Part, mark: int = -1) -> list[tuple[list[int], Array, Vec3]]:
    """Return a part's primitives: a row of `kinds` and, without pose, of `prims`, and where the centre is in the part.

    A lathe becomes one for each piece of its profile. `mark` is where the part's marks are in the ink.
    """
    shape, material = part.shape, part.material
    row = np.zeros(WIDTH)
    row[17:20], row[20:23], row[23] = linear(material.color), linear(material.accent), material.roughness
    row[24] = material.opacity
    half = half_extents(shape)
    code = texture_code(material)
    tail = [code, 2 if isinstance(shape, Lathe) else int(np.argmax(half)), int(material.opacity < 1.0), mark]
    if isinstance(shape, Lathe):
        rows: list[tuple[list[int], Array, Vec3]] = []
        for piece in segments(shape):
            cone, middle = row.copy(), (piece[1] + piece[3]) / 2.0
            cone[25:33] = piece
            cone[26], cone[28] = piece[1] - middle, piece[3] - middle
            wide, high = max(piece[0], piece[2]), abs(piece[3] - piece[1]) / 2.0
            cone[33] = min(piece[0], piece[2])
            cone[12:15], cone[16] = (wide, wide, high), math.hypot(wide, high) * 1.0000001
            rows.append(([shapes.CONE, code, *tail[1:]], cone, (0.0, 0.0, middle)))
        return rows
    radius = half[0] if isinstance(shape, Sphere) else half[2] if isinstance(shape, Capsule) else float(np.linalg.norm(half))
    if isinstance(shape, Cylinder):
        radius = float(np.hypot(half[0], half[2]))
    row[12:15], row[15], row[16] = half, min(getattr(shape, "fillet", 0.0), *half), radius * 1.0000001
    return [([_SHAPES[type(shape)], *tail], row, (0.0, 0.0, 0.0))]


def _clusters(places: Array, most: int = 6) -> list[NDArray[np.int64]]:
    """Split rows of `places` (n, d) into runs of at most `most` that are near to one another, halving the widest spread."""
    pending, done = [np.arange(len(places))], []
    while pending:
        some = pending.pop()
        if len(some) <= most:
            done.append(some)
            continue
        spread = np.ptp(places[some], axis=0)
        order = some[np.argsort(places[some, int(np.argmax(spread))], kind="stable")]
        pending += [order[len(order) // 2 :], order[: len(order) // 2]]
    return [some for some in done if len(some)]


class Primitives:
    """The primitives of some bodies, posed by `place` in groups that stay together; what is written goes to `ink`."""

    def __init__(self, bodies: Sequence[Body], ink: Ink, *, still: bool) -> None:
        """Group the bodies' primitives: of one body, or where all stand `still`, of any."""
        made = [
            (i, part, *row)
            for i, body in enumerate(bodies)
            for part in body.parts
            for mark in [ink.add(part)]
            for row in rows_of(part, mark)
        ]
        owner = np.array([i for i, *_ in made], np.int64)
        kinds = np.array([kind for _, _, kind, _, _ in made], np.int64).reshape(-1, 5)
        rows = np.array([row for *_, row, _ in made], float).reshape(-1, WIDTH)
        position = np.array([np.add(p.position, rotate(p.quaternion, at)) for _, p, _, _, at in made]).reshape(-1, 3)
        quaternion = np.array([p.quaternion for _, p, *_ in made], float).reshape(-1, 4)
        centre = position
        if still:
            pos, quat = (np.array([getattr(b, name) for b in bodies], float) for name in ("position", "quaternion"))
            centre = pos[owner] + rotate(quat[owner], position) if len(made) else position
        # the size is one more direction, so that a table does not join the dice on it
        places = np.column_stack([centre, 2.0 * rows[:, 16]])
        whole = [np.arange(len(made))] if still else [np.flatnonzero(owner == i) for i in range(len(bodies))]
        runs = [some[run] for some in whole for run in _clusters(places[some])]
        order = np.concatenate([*runs, np.zeros(0, np.int64)])
        self.starts = np.concatenate([[0], np.cumsum([len(run) for run in runs])]).astype(np.int64)
        self.owner, self.kinds, self.rows = owner[order], kinds[order], rows[order]
        self.position, self.quaternion = position[order], quaternion[order]

    def place(self, pos: Array, quat: Array) -> Array:
        """Return `prims` for bodies at `pos` (B, 3) and `quat` (B, 4)."""
        prims = self.rows.copy()
        turn = multiply(quat[self.owner], self.quaternion)
        turn /= np.sqrt(np.sum(turn * turn, axis=-1, keepdims=True))
        prims[:, :3] = pos[self.owner] + rotate(quat[self.owner], self.position)
        for axis in range(3):
            prims[:, 3 + axis : 12 : 3] = rotate(turn, np.eye(3)[axis])
        return prims

    def groups(self, prims: Array, rects: NDArray[np.int64], first: int = 0) -> Array:
        """Return `groups` for `prims` that cover `rects` (n, 4), the first of them being primitive number `first`."""
        starts, sizes = self.starts[:-1], np.diff(self.starts)
        groups = np.empty((len(starts), 10))
        if not len(starts):
            return groups
        centre = np.add.reduceat(prims[:, :3], starts, axis=0) / sizes[:, None]
        offset = prims[:, :3] - np.repeat(centre, sizes, axis=0)
        reach = np.sqrt(np.sum(offset * offset, axis=-1)) + prims[:, 16]
        groups[:, :3], groups[:, 3] = centre, np.maximum.reduceat(reach, starts) * 1.0000001
        groups[:, 4], groups[:, 5] = first + starts, first + starts + sizes
        groups[:, 6:8] = np.minimum.reduceat(rects[:, :2], starts, axis=0)
        groups[:, 8:10] = np.maximum.reduceat(rects[:, 2:], starts, axis=0)
        return groups
