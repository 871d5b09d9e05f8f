"""What is painted on a part, as a flat picture from one side: how the planar renderer shows pips, labels and sectors.

It refuses to know where the part stands and how it is lit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulators.compiled import borrowing
from simulators.render.marks import Ink
from simulators.render.primitives import linear, rows_of
from simulators.render.raster_shading import surface
from simulators.render.raster_shapes import MISS, hit, normals
from simulators.rotation import Array
from simulators.world import Part


@borrowing
def _paint(out, kinds, prims, ink, right, up, towards, step, far, unit):
    """Fill `out` (h, w, 3) with the linear colours of a primitive in its own axes, as rays against `towards` meet it."""
    high, wide = out.shape[0], out.shape[1]
    for row in range(high):
        for column in range(wide):
            u, v = (column + 0.5 - 0.5 * wide) * step, (0.5 * high - row - 0.5) * step
            for _ in range(200):  # beyond the outline: what is just inside of it, for the outline's soft edge
                ox = u * right[0] + v * up[0] + far * towards[0]
                oy = u * right[1] + v * up[1] + far * towards[1]
                oz = u * right[2] + v * up[2] + far * towards[2]
                dx, dy, dz = -towards[0], -towards[1], -towards[2]
                t = hit(kinds[0, 0], prims, 0, ox, oy, oz, dx, dy, dz)
                if t < MISS:
                    break
                u, v = 0.98 * u, 0.98 * v
            if t == MISS:
                continue
            x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
            _, _, _, nx, ny, nz = normals(kinds[0, 0], prims, 0, x, y, z)
            r, g, b, _, _, _, _ = surface(kinds, prims, ink, 0, x, y, z, nx, ny, nz, unit, step)
            out[row, column, 0], out[row, column, 1], out[row, column, 2] = r, g, b


def basis(towards: Array) -> tuple[Array, Array]:
    """Return unit vectors right and up (3,) of a picture that is seen against `towards` (3,): z is up where it can be."""
    least = (0.0, 0.0, 1.0) if abs(towards[2]) < 0.99 else (0.0, 1.0, 0.0)
    right = np.cross(least, towards)
    right /= np.linalg.norm(right)
    return right, np.cross(towards, right)


def srgb(light: Array) -> NDArray[np.uint8]:
    """Return 8-bit sRGB for linear light, cut to 0..1 (IEC 61966-2-1)."""
    light = np.clip(light, 0.0, 1.0)
    return np.round(255.0 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)).astype(np.uint8)


def face(part: Part, towards: Array, step: float, unit: float) -> NDArray[np.uint8]:
    """Return the picture (h, w, 4) of a solid part from the side `towards` (3,), pixels `step` [m] apart, about its middle.

    Raises `ValueError` where its material cannot be on its shape.
    """
    ink = Ink(linear)
    [(kinds, row, _)] = rows_of(part, ink.add(part))
    right, up = basis(towards)
    half = row[12:15]
    wide, high = (int(np.ceil(2.0 * float(np.abs(axis) @ half) / step)) + 4 for axis in (right, up))
    light = np.zeros((high, wide, 3))
    prims = row[None].copy()
    far = 2.0 * float(row[16])
    _paint(light, np.array([kinds]), prims, ink.numbers(), right, up, np.asarray(towards, float), step, far, unit)
    return np.concatenate([srgb(light), np.full((high, wide, 1), 255, np.uint8)], axis=-1)
