"""A World's parts as triangle meshes with painted textures, for renderers that take nothing else.

The paint is the ray caster's own: every texel asks the same function for the colour of its place. It refuses to draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simulators.compiled import borrowing
from simulators.render.marks import Ink
from simulators.render.primitives import half_extents, linear, rows_of, segments
from simulators.render.raster_shading import surface
from simulators.rotation import Array
from simulators.world import Box, Capsule, Cylinder, Lathe, Part, Shape, Sphere

AROUND, ARC, RINGS = (
    96,
    8,
    24,
)  # edges of a circle; of a fillet's quarter; rings of a painted disc, so that letters stay straight
_MOST = 2048  # texels along an edge of a texture
METAL = {"brushed": 0.85, "coin": 0.8}  # as `raster_shading.surface` has them


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles `faces` (m, 3) of `places` (n, 3) [m] in the part's axes with `normals` (n, 3) and texture places `uv` (n, 2).

    `paint` (h, w, 3) is linear colour, v downwards from its first row; one texel where the part has one colour.
    """

    places: Array
    normals: Array
    uv: Array
    faces: NDArray[np.uint32]
    paint: NDArray[np.float32]


@borrowing
def _paint(out, places, normals, which, kinds, prims, ink, unit, texel):
    """Fill `out` (n, 3) with the linear colours at `places` on primitives `which`."""
    for k in range(len(places)):
        i = which[k]
        x, y, z = places[k, 0], places[k, 1], places[k, 2] - prims[i, 2]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        out[k, 0], out[k, 1], out[k, 2], _, _, _, _ = surface(kinds, prims, ink, i, x, y, z, nx, ny, nz, unit, texel)


@lru_cache(maxsize=512)
def meshes(shape: Shape, part: Part, texel: float, unit: float) -> tuple[Mesh, ...]:
    """Return the meshes of a part (its pose left out), painted in texels of about `texel` [m]; `unit` is the world's scale.

    Raises `ValueError` where its material cannot be on its shape.
    """
    ink = Ink(linear)
    rows = rows_of(part, ink.add(part))
    kinds, prims, numbers = np.array([kind for kind, _, _ in rows]), np.array([row for _, row, _ in rows]), ink.numbers()
    prims[:, :3] = [at for *_, at in rows]
    plain = part.material.texture == "plain"

    def painted(places: Array, normals: Array, which: NDArray[np.int64], step: float) -> NDArray[np.float32]:
        out = np.zeros((places[..., 0].size, 3))
        _paint(out, places.reshape(-1, 3), normals.reshape(-1, 3), which.ravel(), kinds, prims, numbers, unit, step)
        return out.reshape(places.shape).astype(np.float32)

    one = linear(part.material.color).astype(np.float32)[None, None]
    made = []
    if isinstance(shape, Box):
        for axis in range(3):
            for side in (-1.0, 1.0):
                u, v = (axis + 1) % 3, (axis + 2) % 3
                size = [int(np.clip(np.ceil(shape.size[k] / texel), 2, _MOST)) for k in (u, v)]
                lines = [_lines(shape.size[k] / 2.0, min(shape.fillet, *np.array(shape.size) / 2.0)) for k in (u, v)]
                places, normals = _cube_face(shape, axis, side, *lines)
                uv = np.stack(np.meshgrid(*(line / line[-1] / 2.0 + 0.5 for line in lines)), axis=-1)
                paint = one
                if not plain:
                    # in texel's middles, drawn flat: the fillet's normals are the mesh's
                    middles = [
                        ((np.arange(n) + 0.5) / n * 2.0 - 1.0) * shape.size[k] / 2.0 for n, k in zip(size, (u, v), strict=True)
                    ]
                    flat = Box(shape.size)
                    paint = painted(*_cube_face(flat, axis, side, *middles), np.zeros((size[1], size[0]), np.int64), texel)
                made.append(Mesh(*_flat(places, normals, uv), _quads(len(lines[1]), len(lines[0]), flip=side < 0.0), paint))
        return tuple(made)
    for k0, pieces in enumerate(_profile(shape)):
        s = np.concatenate([[0.0], np.cumsum(np.hypot(*(pieces[:, 2:4] - pieces[:, :2]).T))])
        rings = 1 if plain or len(pieces) > 1 else RINGS
        share = np.arange(rings + 1) / rings
        line = np.concatenate(
            [pieces[k, None, :2] + share[:, None] * (pieces[k, 2:4] - pieces[k, :2]) for k in range(len(pieces))]
        )
        lean = np.concatenate(
            [pieces[k, None, 4:6] + share[:, None] * (pieces[k, 6:8] - pieces[k, 4:6]) for k in range(len(pieces))]
        )
        at = np.concatenate([s[k] + share * (s[k + 1] - s[k]) for k in range(len(pieces))])
        turn = np.linspace(0.0, 2.0 * np.pi, AROUND + 1)
        places, normals = _turned(line, lean, turn)
        uv = np.stack(np.meshgrid(turn / (2.0 * np.pi), at / s[-1]), axis=-1)
        paint = one
        if not plain:
            wide = int(np.clip(np.ceil(2.0 * np.pi * line[:, 0].max() / texel), 8, _MOST))
            high = int(np.clip(np.ceil(s[-1] / texel), 2, _MOST))
            middle = (np.arange(high) + 0.5) / high * s[-1]
            piece = np.clip(np.searchsorted(s, middle, side="right") - 1, 0, len(pieces) - 1)
            part_of = ((middle - s[piece]) / np.diff(s)[piece])[:, None]
            some = pieces[piece]
            points = some[:, :2] + part_of * (some[:, 2:4] - some[:, :2])
            leaning = some[:, 4:6] + part_of * (some[:, 6:8] - some[:, 4:6])
            which = np.repeat(
                (np.full(high, k0) if isinstance(shape, Lathe) else np.zeros(high, np.int64))[:, None], wide, axis=1
            )
            paint = painted(*_turned(points, leaning, (np.arange(wide) + 0.5) / wide * 2.0 * np.pi), which, texel)
        count = len(line)
        made.append(Mesh(*_flat(places, normals, uv), _quads(count, AROUND + 1), paint))
    return tuple(made)


def _flat(*grids: Array) -> tuple[Array, Array, Array]:
    places, normals, uv = (grid.reshape(-1, grid.shape[-1]) for grid in grids)
    return places, normals, uv


def _quads(high: int, wide: int, *, flip: bool = False) -> NDArray[np.uint32]:
    """Return the two triangles of each cell of a grid of `high` x `wide` points."""
    corner = (np.arange(high - 1)[:, None] * wide + np.arange(wide - 1)).ravel()
    a, b, c, d = corner, corner + 1, corner + wide + 1, corner + wide
    faces = np.concatenate([np.stack([a, b, c], axis=-1), np.stack([a, c, d], axis=-1)])
    return np.ascontiguousarray(faces[:, ::-1] if flip else faces).astype(np.uint32)


def _lines(half: float, fillet: float) -> Array:
    """Return places (n,) along an edge from -half to half, close together where it is rounded."""
    if fillet <= 0.0:
        return np.array([-half, half])
    bend = half - fillet + fillet * np.tan(np.linspace(0.0, np.pi / 4.0, ARC + 1))
    return np.concatenate([-bend[::-1], bend])


def _cube_face(box: Box, axis: int, side: float, along: Array, up: Array) -> tuple[Array, Array]:
    """Return places and normals (len(up), len(along), 3) of one face of a rounded box, `side` of `axis`."""
    half = np.array(box.size) / 2.0
    raw = np.empty((len(up), len(along), 3))
    raw[..., axis] = side * half[axis]
    raw[..., (axis + 1) % 3], raw[..., (axis + 2) % 3] = np.meshgrid(along, up)
    fillet = min(box.fillet, *half)
    if fillet <= 0.0:
        normals = np.zeros_like(raw)
        normals[..., axis] = side
        return raw, normals
    inner = np.clip(raw, -(half - fillet), half - fillet)
    normals = raw - inner
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    return inner + fillet * normals, normals


def _turned(line: Array, lean: Array, turn: Array) -> tuple[Array, Array]:
    """Return places and normals (n, len(turn), 3) of a profile (n, 2) with normals (n, 2), turned about z."""
    cos, sin = np.cos(turn), np.sin(turn)

    def spun(rz: Array) -> Array:
        return np.stack([rz[:, :1] * cos, rz[:, :1] * sin, np.broadcast_to(rz[:, 1:], (len(rz), len(turn)))], axis=-1)

    normals = spun(lean)
    return spun(line), normals / np.linalg.norm(normals, axis=-1, keepdims=True)


def _profile(shape: Shape) -> list[Array]:
    """Return runs of a turned shape's pieces, each (n, 8): r, z of both ends and the normals (r, z) there, as `segments`."""
    if isinstance(shape, Lathe):
        return [np.array([piece]) for piece in segments(shape)]
    quarter = np.linspace(0.0, np.pi / 2.0, 4 * ARC + 1)
    if isinstance(shape, Sphere):
        return [_arc(0.0, 0.0, shape.radius, np.linspace(-np.pi / 2.0, np.pi / 2.0, 8 * ARC + 1))]
    if isinstance(shape, Capsule):
        r, z = shape.radius, shape.length / 2.0
        side = np.array([[r, -z, r, z, 1, 0, 1, 0]])
        return [np.concatenate([_arc(0.0, -z, r, quarter - np.pi / 2.0), side, _arc(0.0, z, r, quarter)])]
    if not isinstance(shape, Cylinder):
        raise ValueError(f"no mesh for a {type(shape).__name__}")
    r, _, z = half_extents(shape)
    fillet = min(shape.fillet, r, z)
    bottom, top = [[0, -z, r - fillet, -z, 0, -1, 0, -1]], [[r - fillet, z, 0, z, 0, 1, 0, 1]]
    side = np.array([[r, -z + fillet, r, z - fillet, 1, 0, 1, 0]])
    if fillet > 0.0:
        low, high = _arc(r - fillet, -z + fillet, fillet, quarter - np.pi / 2.0), _arc(r - fillet, z - fillet, fillet, quarter)
        side = np.concatenate([low, side, high])
    return [run for run in (np.array(bottom, float), side, np.array(top, float)) if np.any(run[:, :2] != run[:, 2:4])]


def _arc(r: float, z: float, radius: float, angles: Array) -> Array:
    """Return the pieces (n, 8) of an arc about (r, z), `angles` from the horizontal."""
    lean = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    line = np.array([r, z]) + radius * lean
    line[:, 0] = np.maximum(line[:, 0], 0.0)
    return np.concatenate([line[:-1], line[1:], lean[:-1], lean[1:]], axis=1)
