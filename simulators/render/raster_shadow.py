"""How much of the light a place sees. The layout of arrays is told in `raster_kernels`."""

from __future__ import annotations

import math

import numpy as np

from simulators.compiled import borrowing, inlined
from simulators.render.raster_shapes import BOX, CAPSULE, CONE, MISS, SPHERE, cast, hit_box, hit_cylinder, to_local

NONE, SOME, ALL = range(3)  # of the rays to the light
MOST_BITS = 62  # groups that one number can tell of
GLASS_PASSES = 0.92  # of the light that meets a clear pane upright: twice 4 % goes back (Fresnel, n = 1.5)


@inlined
def ball_may_shadow(cx, cy, cz, r, light, x, y, z):
    """Say whether anything in a ball (centre, radius `r`) can stand between a point and any part of the light."""
    ox, oy, oz = x - cx, y - cy, z - cz
    square = ox * ox + oy * oy + oz * oz
    along = -(ox * light[0] + oy * light[1] + oz * light[2])
    if along < -r:
        return False
    # how far a ray to the disc's edge strays from the middle one
    e = (math.sqrt(square) + r) * light[3] * 1.001 + 1.0e-9 * light[5]
    return square - along * along <= (r + e) ** 2


@inlined
def _in_the_hollow(prims, i, e, ox, oy, oz, dx, dy, dz):
    """Say whether a ray stays clear of a lathe's piece, by `e` [m] at least, while it is as high as that: inside of it."""
    hollow, high = prims[i, 33] - e, prims[i, 14] + e
    if hollow <= 0.0:
        return False
    near, far = (-high - oz) / dz, (high - oz) / dz
    if not abs(dz) > 1.0e-9:
        return False
    near, far = max(min(near, far), 0.0), max(near, far)
    a, b, c, d = ox + near * dx, oy + near * dy, ox + far * dx, oy + far * dy
    return max(a * a + b * b, c * c + d * d) < hollow * hollow  # the distance from the axis is largest at an end


@inlined
def _approach(prims, i, light, x, y, z, slack):
    """Return where the ray to the middle of the light enters a primitive's box, grown by what others stray, and that [m].

    They start within `slack` [m] of a point. Infinity where none can meet it: errs towards meeting.
    """
    r = prims[i, 16] + slack
    if not ball_may_shadow(prims[i, 0], prims[i, 1], prims[i, 2], r, light, x, y, z):
        return MISS, 0.0
    if min(prims[i, 12], prims[i, 14]) * 1.000001 > prims[i, 16]:  # a sphere: its box tells no more
        return 0.0, 0.0
    ox, oy, oz = x - prims[i, 0], y - prims[i, 1], z - prims[i, 2]
    spread, slack = light[3], slack + 1.0e-9 * light[5]
    e = (math.sqrt(ox * ox + oy * oy + oz * oz) + r) * spread * 1.001 + slack
    ox, oy, oz = to_local(prims, i, ox, oy, oz)
    dx, dy, dz = to_local(prims, i, light[0], light[1], light[2])
    near = 0.0
    for _ in range(3):  # where the middle ray leaves the grown box bounds how far others stray in it: grow it by that, again
        near, far = hit_box(prims[i, 12] + e, prims[i, 13] + e, prims[i, 14] + e, ox, oy, oz, dx, dy, dz)
        if near > far or far <= 0.0:
            return MISS, 0.0
        e = min(e, far * spread * 1.001 + slack)
    return (MISS if _in_the_hollow(prims, i, e, ox, oy, oz, dx, dy, dz) else near), e


@borrowing
def may_shadow(prims, i, light, x, y, z, slack):
    """Say whether a primitive can stand between a place within `slack` [m] of a point and any part of the light.

    Errs towards yes.
    """
    near, _ = _approach(prims, i, light, x, y, z, slack)
    return near < MISS


@inlined
def hides(kinds, prims, i, light, x, y, z, slack):
    """Say which rays to the light, from places within `slack` [m] of a point, meet a primitive: NONE, ALL, or else SOME."""
    near, e = _approach(prims, i, light, x, y, z, slack)
    if near == MISS:
        return NONE
    kind, shrunk = kinds[i, 0], prims[i, 15] + e
    if kind == SPHERE:
        return ALL if _in_its_umbra(prims, i, light, x, y, z, slack) else SOME
    if kind == CONE or near <= 0.0:
        return SOME
    # what the middle ray meets of the shape made thinner by what others stray, they meet of the whole
    hx, hy, hz = prims[i, 12] - shrunk, prims[i, 13] - shrunk, prims[i, 14] - (prims[i, 12] if kind == CAPSULE else shrunk)
    if min(hx, min(hy, hz)) <= 0.0:
        return SOME
    ox, oy, oz = to_local(prims, i, x - prims[i, 0], y - prims[i, 1], z - prims[i, 2])
    dx, dy, dz = to_local(prims, i, light[0], light[1], light[2])
    if kind == BOX:
        near, far = hit_box(hx, hy, hz, ox, oy, oz, dx, dy, dz)
    else:
        near, far = hit_cylinder(hx, hz, ox, oy, oz, dx, dy, dz)
    return ALL if near < far else SOME


@inlined
def leaves(kind, prims, i, light, x, y, nx, ny, nz):
    """Say whether light that leaves primitive `i` at a place never meets it again; place and true normal are in its axes.

    Convex shapes are left for good, and a cone's wall from its outer side, which lies behind the plane that touches it there.
    From its inner side it is by light steeper than the wall: on no way does the wall rise faster than its slope.
    """
    if kind != CONE or nx * x + ny * y >= 0.0:
        return True
    dx, dy, dz = to_local(prims, i, light[0], light[1], light[2])
    return dz * nz > 0.0 and (abs(dz) - light[3]) * abs(nz) > math.hypot(nx, ny) * (math.hypot(dx, dy) + light[3])


@inlined
def _in_its_umbra(prims, i, light, x, y, z, slack):
    """Say whether a sphere hides all of the light from all places within `slack` of a point. Errs towards no."""
    ox, oy, oz = x - prims[i, 0], y - prims[i, 1], z - prims[i, 2]
    square, r = ox * ox + oy * oy + oz * oz, prims[i, 12]
    along = -(ox * light[0] + oy * light[1] + oz * light[2])
    inner = r - (math.sqrt(square) + r) * light[3] * 1.001 - slack - 1.0e-9 * light[5]
    return inner > 0.0 and along > r + slack and square - along * along < inner * inner


@borrowing
def casters_of(prims, groups, light, casters):
    """Fill `casters` (n,) with a bit for each group that can stand between the light and any place on a primitive; -1: any."""
    for i in range(len(prims)):
        casters[i] = -1
        if len(groups) <= MOST_BITS:
            x, y, z, r = prims[i, 0], prims[i, 1], prims[i, 2], prims[i, 16] + 1.0e-6 * light[5]
            casters[i] = shading(groups, np.int64(0), light, x, y, z, r)


@borrowing
def shading(groups, first, light, x, y, z, r):
    """Return a bit for each group from `first` on, group 0 having the lowest, that can shade a place within `r` of a point."""
    bits = 0
    for g in range(first, len(groups)):
        if ball_may_shadow(groups[g, 0], groups[g, 1], groups[g, 2], groups[g, 3] + r, light, x, y, z):
            bits |= 1 << g
    return bits


@borrowing
def hidden(
    kinds, prims, groups, begin, end, casters, own, light, directions, points, first, last, x, y, z, slack, blocked, passed
):
    """Return a bit for each ray to the light, from rows `first` to `last` of `points`, that is blocked, and what share passes.

    The share is what clear primitives leave of the rest, as told by two rays of each point; two dim one another's light
    evenly. Groups `begin` to `end` are asked, primitive `own` is left out, and `blocked` and `passed` are what others do. All
    points are within `slack` of (x, y, z). `casters` has a bit for each of the groups that come into question; -1: all.
    """
    rays, count = directions.shape[1], last - first
    whole, some = (1 << (count * rays)) - 1, 0
    for p in range(count):
        some |= (1 << (p * rays + rays // 4)) | (1 << (p * rays + 3 * rays // 4))
    for g in range(begin, end):
        if casters >= 0 and not (casters >> g) & 1:
            continue
        low, high = int(groups[g, 4]), int(groups[g, 5])
        reach = groups[g, 3] + slack
        if high - low > 1 and not ball_may_shadow(groups[g, 0], groups[g, 1], groups[g, 2], reach, light, x, y, z):
            continue
        for i in range(low, high):
            which = NONE if i == own else hides(kinds, prims, i, light, x, y, z, slack)
            if which == NONE:
                continue
            if kinds[i, 3] > 0:
                met = 2 * count
                if which == SOME:
                    met = _ones(_met(kinds, prims, i, directions, points, first, last, whole & ~some))
                passed *= 1.0 - met / (2.0 * count) * (1.0 - GLASS_PASSES * (1.0 - prims[i, 24]))
            elif which == ALL:
                return whole, passed
            else:
                blocked |= _met(kinds, prims, i, directions, points, first, last, blocked)
                if blocked == whole:
                    return whole, passed
    return blocked, passed


@borrowing
def lit(kinds, prims, groups, moving, casters, own, light, directions, points, first, last, x, y, z, slack, memo):
    """Return the share of the light's disc that rows `first` to `last` of `points` see on average: see `hidden`.

    `memo` holds what groups before `moving` hide, where its first number is not below 0; it is filled in where it is.
    """
    count, none = (last - first) * directions.shape[1], np.int64(0)  # numba compiles anew for every literal number
    if memo[0] < 0.0:
        memo[0], memo[1] = hidden(
            kinds, prims, groups, none, moving, casters, own, light, directions, points, first, last, x, y, z, slack, none, 1.0
        )
    blocked, passed = int(memo[0]), memo[1]
    if blocked < (1 << count) - 1:
        blocked, passed = hidden(
            kinds, prims, groups, moving, len(groups), casters, own, light, directions, points, first, last, x, y, z, slack,
            blocked, passed,
        )  # fmt: skip
    return passed * (1.0 - _ones(blocked) / count)


@borrowing
def _met(kinds, prims, i, directions, points, first, last, known):
    """Return a bit for each ray to the light, but for those set in `known`, that meets a primitive."""
    met, rays = 0, directions.shape[1]
    for p in range(first, last):
        for k in range(rays):
            bit = 1 << ((p - first) * rays + k)
            if not known & bit:
                dx, dy, dz = directions[p, k, 0], directions[p, k, 1], directions[p, k, 2]
                if cast(kinds, prims, i, points[p, 0], points[p, 1], points[p, 2], dx, dy, dz) < MISS:
                    met |= bit
    return met


@inlined
def _ones(bits):
    count = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return count
