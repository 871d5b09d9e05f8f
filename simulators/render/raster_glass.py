"""What is clear before a place: the panes that a ray meets and what they add. Arrays as in `raster_kernels`."""

from __future__ import annotations

from simulators.compiled import borrowing, inlined
from simulators.render.raster_shading import layer
from simulators.render.raster_shapes import CONE, cast, normals, to_local


@inlined
def footprint(camera, t):
    """Return how wide a sample is at distance `t` [m]."""
    return 0.6 / camera[12] * (1.0 if camera[13] > 0.0 else t)


@inlined
def _put(panes, count, t, i):
    """Put a hit (t, i) in its place among the `count` first rows of `panes`, by distance; return how many there are then."""
    k = count
    while k > 0 and panes[k - 1, 0] > t:
        panes[k, 0], panes[k, 1] = panes[k - 1, 0], panes[k - 1, 1]
        k -= 1
    panes[k, 0], panes[k, 1] = t, i
    return count + 1


@borrowing
def clear_ahead(kinds, prims, rects, glass, panes, unit, px, py, limit, ox, oy, oz, dx, dy, dz):
    """Fill `panes` with (distance, primitive, normal in its axes) of each of `glass` that a ray meets before `limit`.

    They are in the order met; the last row's first number is their count.
    """
    count = 0
    for j in range(len(glass)):
        i = glass[j]
        if not (rects[i, 0] <= px < rects[i, 2] and rects[i, 1] <= py < rects[i, 3]):
            continue
        t = cast(kinds, prims, i, ox, oy, oz, dx, dy, dz)
        if t < limit:
            count = _put(panes, count, t, i)
            if kinds[i, 0] == CONE:  # a wall is met again on its far side
                t += 1.0e-9 * unit
                t += cast(kinds, prims, i, ox + t * dx, oy + t * dy, oz + t * dz, dx, dy, dz)
                if t < limit:
                    count = _put(panes, count, t, i)
    for k in range(count):
        t, i = panes[k, 0], int(panes[k, 1])
        x, y, z = to_local(prims, i, ox + t * dx - prims[i, 0], oy + t * dy - prims[i, 1], oz + t * dz - prims[i, 2])
        panes[k, 2], panes[k, 3], panes[k, 4], _, _, _ = normals(kinds[i, 0], prims, i, x, y, z)
    panes[len(panes) - 1, 0] = count


@inlined
def same_panes(a, b):
    """Say whether two rays meet the same clear primitives on the same faces."""
    count = int(a[len(a) - 1, 0])
    if count != int(b[len(b) - 1, 0]):
        return False
    for k in range(count):
        if a[k, 1] != b[k, 1] or a[k, 2] * b[k, 2] + a[k, 3] * b[k, 3] + a[k, 4] * b[k, 4] < 0.998:
            return False
    return True


@borrowing
def through(camera, kinds, prims, ink, panes, light, ox, oy, oz, dx, dy, dz):
    """Return the linear colour that the clear primitives in `panes` add, front to back, and the share of light they pass."""
    red, green, blue, keep = 0.0, 0.0, 0.0, 1.0
    for k in range(int(panes[len(panes) - 1, 0])):
        t, i = panes[k, 0], int(panes[k, 1])
        r, g, b, passed = layer(kinds, prims, ink, i, light, ox, oy, oz, dx, dy, dz, t, footprint(camera, t))
        red, green, blue, keep = red + keep * r, green + keep * g, blue + keep * b, keep * passed
    return red, green, blue, keep
