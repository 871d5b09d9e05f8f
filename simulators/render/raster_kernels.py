"""The ray caster's compiled core: rays against primitives, soft shadow, glass. It knows arrays, no World and no State.

A primitive is a row of `kinds` (shape, texture, axis of the grain, 1 where clear, place of its marks in `ink`) and of
`prims`: position 0:3, rotation 3:12 (row major, body to world), half extents 12:15, fillet 15, bounding radius 16, colour
17:20 and accent 20:23 (linear), roughness 23, opacity 24, and of a lathe's piece the ends (r0, z0, r1, z1) 25:29 and the
normals there (nr0, nz0, nr1, nz1) 29:33 and the least r 33. `groups` bounds runs of primitives that are near to one another:
a ball 0:4, the run 4:6 and the pixels 6:10 that it can cover.
The camera is a row: position 0:3, right 3:6, down 6:9, forward 9:12, pixels per unit 12 (at depth 1, or orthographic),
orthographic 13, width 14, height 15. The light: direction 0:3, tangent of its angular radius 3, ambient share 4, unit of length
5, and what the backdrop gives beyond .08 in each colour 6:9. Every sample is a pure function of its place in the image, so
any region agrees with the whole.
"""

from __future__ import annotations

import math

import numpy as np

from simulators.compiled import borrowing, inlined
from simulators.render import textures as tx
from simulators.render.raster_glass import clear_ahead, footprint, same_panes, through
from simulators.render.raster_shading import facing, shade
from simulators.render.raster_shadow import MOST_BITS, ball_may_shadow, may_shadow, shading
from simulators.render.raster_shapes import CONE, MISS, cast

SAMPLES = 4
# a rotated grid: no two samples of a pixel share a row or a column
OFFSETS = np.array([[0.125, 0.625], [0.375, 0.125], [0.625, 0.875], [0.875, 0.375]])


@inlined
def ray(camera, x, y):
    """Return origin and unit direction of the ray through pixel coordinates (x, y)."""
    a = (x - camera[14] / 2.0) / camera[12]
    b = (y - camera[15] / 2.0) / camera[12]
    vx = camera[3] * a + camera[6] * b
    vy = camera[4] * a + camera[7] * b
    vz = camera[5] * a + camera[8] * b
    if camera[13] > 0.0:
        return camera[0] + vx, camera[1] + vy, camera[2] + vz, camera[9], camera[10], camera[11]
    dx, dy, dz = camera[9] + vx, camera[10] + vy, camera[11] + vz
    n = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
    return camera[0], camera[1], camera[2], dx * n, dy * n, dz * n


@inlined
def backdrop(light, dz):
    """Return the linear colour of what lies behind everything: a wall, lighter above unless all light is ambient."""
    up = 1.0 if light[4] >= 1.0 else 0.5 + 0.5 * tx.smoothstep(-1.0, 1.0, dz)
    return light[6] * up + 0.08, light[7] * up + 0.08, light[8] * up + 0.08


@inlined
def encode(v, light):
    """Return the 8-bit sRGB value of a linear one; the brightest part of lit colours is rolled off, not cut."""
    if v > 0.8 and light[4] < 1.0:
        v = 0.8 + 0.2 * (1.0 - math.exp(-(v - 0.8) / 0.2))
    v = 12.92 * v if v <= 0.0031308 else 1.055 * v ** (1.0 / 2.4) - 0.055
    return np.uint8(min(max(v, 0.0), 1.0) * 255.0 + 0.5)


@borrowing
def nearest(kinds, prims, groups, rects, first, near, px, py, t, who, ox, oy, oz, dx, dy, dz):
    """Return (t, who, veiled) of the nearest opaque primitive in groups from `first` on, starting from what was found before.

    `near` has a bit for each of the groups that come into question; -1: all. `veiled` says whether a clear primitive that was
    asked is before what was found till then.
    """
    veiled = False
    for g in range(first, len(groups)):
        if near >= 0 and not (near >> g) & 1:
            continue
        if groups[g, 6] <= px < groups[g, 8] and groups[g, 7] <= py < groups[g, 9]:
            for i in range(int(groups[g, 4]), int(groups[g, 5])):
                if rects[i, 0] <= px < rects[i, 2] and rects[i, 1] <= py < rects[i, 3]:
                    if kinds[i, 3] == 0:
                        s = cast(kinds, prims, i, ox, oy, oz, dx, dy, dz)
                        if s < t:
                            t, who = s, i
                    elif near >= 0 and not veiled:
                        veiled = cast(kinds, prims, i, ox, oy, oz, dx, dy, dz) < t
    return t, who, veiled


@borrowing
def near_tiles(groups, first, light, tiles, near):
    """Fill `near` (h, w) with bits: of groups from `first` on, those that may cover or shade any pixel of a tile; -1: all.

    `tiles` is as in `shadowed`. Bits below `first` are left as they are.
    """
    for ty in range(near.shape[0]):
        for tc in range(near.shape[1]):
            if len(groups) > MOST_BITS:
                near[ty, tc] = -1
                continue
            x, y, z, r = tiles[ty, tc, 0], tiles[ty, tc, 1], tiles[ty, tc, 2], tiles[ty, tc, 3]
            if r >= 0.0:
                near[ty, tc] |= shading(groups, first, light, x, y, z, r + 1.0e-6 * light[5])
            for g in range(first, len(groups)):
                if groups[g, 6] < 8 * tc + 8 and groups[g, 8] > 8 * tc and groups[g, 7] < 8 * ty + 8 and groups[g, 9] > 8 * ty:
                    near[ty, tc] |= 1 << g


@borrowing
def shaded(prims, groups, first, near, light, x, y, z, slack):
    """Say whether a primitive in groups from `first` on may shade a place within `slack` [m] of a point.

    `near` is as in `nearest`.
    """
    for g in range(first, len(groups)):
        if near >= 0 and not (near >> g) & 1:
            continue
        if ball_may_shadow(groups[g, 0], groups[g, 1], groups[g, 2], groups[g, 3] + slack, light, x, y, z):
            for i in range(int(groups[g, 4]), int(groups[g, 5])):
                if may_shadow(prims, i, light, x, y, z, slack):
                    return True
    return False


@inlined
def shaded_pixel(prims, groups, first, near, light, hits):
    """Say whether a primitive in groups from `first` on may shade any of the places in `hits` (4, 8), as `trace` has them."""
    of = -1
    x, y, z, square = 0.0, 0.0, 0.0, 0.0
    for k in range(SAMPLES):
        if hits[k, 7] >= 0.0:
            if of < 0:
                of, x, y, z = k, hits[k, 0], hits[k, 1], hits[k, 2]
            square = max(square, (hits[k, 0] - x) ** 2 + (hits[k, 1] - y) ** 2 + (hits[k, 2] - z) ** 2)
    return of >= 0 and shaded(prims, groups, first, near, light, x, y, z, math.sqrt(square))


@borrowing
def alone(kinds, rects, groups, who, px, py):
    """Say whether all opaque primitives that can cover a pixel, but for `who`, are pieces of lathes."""
    for g in range(len(groups)):
        if groups[g, 6] <= px < groups[g, 8] and groups[g, 7] <= py < groups[g, 9]:
            for i in range(int(groups[g, 4]), int(groups[g, 5])):
                if kinds[i, 0] != CONE and i != who and kinds[i, 3] == 0:
                    if rects[i, 0] <= px < rects[i, 2] and rects[i, 1] <= py < rects[i, 3]:
                        return False
    return True


@inlined
def even(kinds, hits):
    """Say whether all samples hit one primitive, on a part that is almost flat and has no sharp marks."""
    who = int(hits[0, 7])
    if who < 0 or kinds[who, 1] == tx.PIPS:
        return False
    for k in range(1, SAMPLES):
        same = hits[k, 3] * hits[0, 3] + hits[k, 4] * hits[0, 4] + hits[k, 5] * hits[0, 5]
        if hits[k, 7] != hits[0, 7] or same < 0.998:
            return False
    return True


@borrowing
def trace(
    out, x0, y0, camera, kinds, prims, ink, groups, rects, moving, light, directions, depth, ident, known, kept, near_of,
    casters, hits, glass, panes, spare, reuse,
):  # fmt: skip
    """Draw the pixels of `out` (h, w, 3), whose corner is (x0, y0).

    Groups from `moving` on move. With `reuse`, `depth` and `ident` (H, W, 4) hold what each sample hits of the fixed opaque
    ones, `known` (H, W, 3) the picture of the fixed ones, `kept` (H, W, 6) what they hide of the light 0:2 (see `lit`; below 0
    where nobody knows) and what the clear ones add 2:5 and pass 5 (below 0 likewise), and `near_of` is as `near_tiles` fills
    it; a pixel that nothing moving hits or shades is copied from there. Without it, depth, ident and kept are filled in.
    `casters` is as `casters_of` fills it. `hits` (4, 8) is room to work in: of each sample the place just above what it hits
    0:3 and later its colour, the normal there 3:6, the distance 6 and the primitive 7; `panes` (4, 2 n + 1, 5) is room for what
    `clear_ahead` finds, `glass` (n,) the numbers of the clear primitives, `spare` (6,) room in place of a row of `kept`.

    Where all four samples hit one smooth surface its colour is found once, amid them; the light's share of it, and what is
    clear before it, still for each.
    """
    above, near, still = 1.0e-7 * light[5], -1, int(groups[moving, 4]) if moving < len(groups) else len(prims)
    first = moving if reuse else 0
    clear, begin, end = len(glass) > 0, np.int64(0), np.int64(SAMPLES)  # numba compiles anew for every literal number
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            px, py = x0 + column, y0 + row
            red, green, blue = 0.0, 0.0, 0.0
            moved, plain = False, False
            if reuse:
                near = near_of[py // 8, px // 8]
                if near >= 0 and near >> moving == 0:
                    for j in range(3):
                        out[row, column, j] = known[py, px, j]
                    continue
            for turn in range(SAMPLES):
                k = (3 * turn) % 4 if turn < 2 else turn - 1  # opposite ones first: 0, 3, 1, 2
                ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                t, who = MISS, -1
                if turn == 2:
                    plain = hits[0, 7] >= 0.0 and hits[0, 7] == hits[3, 7] and kinds[int(hits[0, 7]), 0] == CONE
                    plain = plain and alone(kinds, rects, groups, int(hits[0, 7]), px, py)
                if turn >= 2 and plain:  # of a smooth wall: the samples between are on it too
                    who = int(hits[0, 7])
                    t = cast(kinds, prims, who, ox, oy, oz, dx, dy, dz)
                    if t < MISS and reuse and clear and not moved:
                        found = nearest(kinds, prims, groups, rects, first, near, px, py, t, who, ox, oy, oz, dx, dy, dz)
                        moved = found[2]
                if t == MISS:
                    t, who = MISS, -1
                    if reuse:
                        t, who = depth[py, px, k], int(ident[py, px, k])
                    t, who, veiled = nearest(kinds, prims, groups, rects, first, near, px, py, t, who, ox, oy, oz, dx, dy, dz)
                    moved = moved or who >= still or (reuse and veiled)
                if not reuse:
                    depth[py, px, k], ident[py, px, k] = t, who
                hits[k, 6], hits[k, 7] = t, who
                if who >= 0:
                    x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
                    gx, gy, gz, hits[k, 3], hits[k, 4], hits[k, 5] = facing(kinds, prims, who, x, y, z, dx, dy, dz)
                    hits[k, 0], hits[k, 1], hits[k, 2] = x + above * gx, y + above * gy, z + above * gz
            if reuse and not moved and not shaded_pixel(prims, groups, moving, near, light, hits):
                for j in range(3):
                    out[row, column, j] = known[py, px, j]
                continue
            memo = spare if moved else kept[py, px]
            spare[5] = -1.0
            who, t = int(hits[0, 7]), MISS
            if even(kinds, hits):
                ox, oy, oz, dx, dy, dz = ray(camera, px + 0.5, py + 0.5)
                t = cast(kinds, prims, who, ox, oy, oz, dx, dy, dz)
            once = t < MISS and abs(t - hits[0, 6]) < 8.0 * footprint(camera, t)
            if once:
                size, may = 1.5 * footprint(camera, t), casters[who] & (near if who < still else -1)
                spare[0] = -1.0
                red, green, blue = shade(
                    kinds, prims, groups, moving, may, ink, who, light, directions, hits, begin, end, ox, oy, oz, dx, dy, dz, t,
                    size, memo,
                )  # fmt: skip
                red, green, blue = SAMPLES * red, SAMPLES * green, SAMPLES * blue
            else:
                for k in range(SAMPLES):
                    ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                    t, who = hits[k, 6], int(hits[k, 7])
                    if who < 0:
                        r, g, b = backdrop(light, dz)
                    else:
                        size, may = footprint(camera, t), casters[who] & (near if who < still else -1)
                        spare[0] = -1.0
                        r, g, b = shade(
                            kinds, prims, groups, moving, may, ink, who, light, directions, hits, k, k + 1, ox, oy, oz, dx, dy,
                            dz, t, size, spare,
                        )  # fmt: skip
                    hits[k, 0], hits[k, 1], hits[k, 2] = r, g, b
                    red, green, blue = red + r, green + g, blue + b
            if clear:
                even_panes = memo[5] >= 0.0
                if not even_panes:
                    even_panes = True
                    for k in range(SAMPLES):
                        ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                        clear_ahead(kinds, prims, rects, glass, panes[k], light[5], px, py, hits[k, 6], ox, oy, oz, dx, dy, dz)
                        even_panes = even_panes and (k == 0 or same_panes(panes[0], panes[k]))
                    if even_panes:  # found once, amid the samples
                        ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[1, 0], py + OFFSETS[1, 1])
                        memo[2], memo[3], memo[4], memo[5] = through(
                            camera, kinds, prims, ink, panes[1], light, ox, oy, oz, dx, dy, dz
                        )
                if even_panes:
                    red, green, blue = memo[5] * red, memo[5] * green, memo[5] * blue
                    red, green, blue = red + SAMPLES * memo[2], green + SAMPLES * memo[3], blue + SAMPLES * memo[4]
                else:
                    base = (red / SAMPLES, green / SAMPLES, blue / SAMPLES)
                    red, green, blue = 0.0, 0.0, 0.0
                    for k in range(SAMPLES):
                        ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                        r, g, b = base if once else (hits[k, 0], hits[k, 1], hits[k, 2])
                        a, c, e, keep = through(camera, kinds, prims, ink, panes[k], light, ox, oy, oz, dx, dy, dz)
                        red, green, blue = red + a + keep * r, green + c + keep * g, blue + e + keep * b
            out[row, column, 0] = encode(red / SAMPLES, light)
            out[row, column, 1] = encode(green / SAMPLES, light)
            out[row, column, 2] = encode(blue / SAMPLES, light)


@borrowing
def shadowed(camera, prims, groups, first, near, grown, light, tiles, depth):
    """Return (x0, y0, x1, y1): the pixels that groups from `first` on, with the primitives `prims`, can cover or shade.

    `near` is as `near_tiles` fills it, `grown` a copy of `prims` to work in. `tiles` (h, w, 4) bounds the background's hit
    points of each 8x8 pixels by a ball (centre, radius; below 0: none).
    """
    high, wide = depth.shape[0], depth.shape[1]
    x0, y0, x1, y1 = wide, high, 0, 0
    for g in range(first, len(groups)):
        if groups[g, 6] < groups[g, 8] and groups[g, 7] < groups[g, 9]:
            x0, y0 = min(x0, int(groups[g, 6])), min(y0, int(groups[g, 7]))
            x1, y1 = max(x1, int(groups[g, 8])), max(y1, int(groups[g, 9]))
    for ty in range(tiles.shape[0]):
        for tc in range(tiles.shape[1]):
            if tiles[ty, tc, 3] < 0.0 or (near[ty, tc] >= 0 and near[ty, tc] >> first == 0):
                continue
            if x0 <= 8 * tc and y0 <= 8 * ty and min(8 * tc + 8, wide) <= x1 and min(8 * ty + 8, high) <= y1:
                continue
            bx, by, bz, radius = tiles[ty, tc, 0], tiles[ty, tc, 1], tiles[ty, tc, 2], tiles[ty, tc, 3]
            for i in range(len(prims)):
                grown[i, 12], grown[i, 13], grown[i, 14] = prims[i, 12] + radius, prims[i, 13] + radius, prims[i, 14] + radius
                grown[i, 16], grown[i, 33] = prims[i, 16] + radius, prims[i, 33] - radius
                if not may_shadow(grown, i, light, bx, by, bz, 0.0):
                    continue
                for py in range(8 * ty, min(8 * ty + 8, high)):
                    for px in range(8 * tc, min(8 * tc + 8, wide)):
                        if x0 <= px < x1 and y0 <= py < y1:
                            continue
                        for k in range(SAMPLES):
                            t = depth[py, px, k]
                            if t < MISS:
                                ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                                if may_shadow(prims, i, light, ox + t * dx, oy + t * dy, oz + t * dz, 0.0):
                                    x0, y0, x1, y1 = min(x0, px), min(y0, py), max(x1, px + 1), max(y1, py + 1)
                                    break
    return x0, y0, x1, y1


@borrowing
def bound_tiles(camera, depth, tiles):
    """Fill `tiles` for `shadowed` from the background's `depth` (H, W, 4)."""
    for ty in range(tiles.shape[0]):
        for tc in range(tiles.shape[1]):
            x0, y0, z0, x1, y1, z1 = MISS, MISS, MISS, -MISS, -MISS, -MISS
            for py in range(8 * ty, min(8 * ty + 8, depth.shape[0])):
                for px in range(8 * tc, min(8 * tc + 8, depth.shape[1])):
                    for k in range(SAMPLES):
                        t = depth[py, px, k]
                        if t < MISS:
                            ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                            x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
                            x0, y0, z0, x1, y1, z1 = min(x0, x), min(y0, y), min(z0, z), max(x1, x), max(y1, y), max(z1, z)
            tiles[ty, tc, 0], tiles[ty, tc, 1], tiles[ty, tc, 2] = (x0 + x1) / 2.0, (y0 + y1) / 2.0, (z0 + z1) / 2.0
            size = math.sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2 + (z1 - z0) ** 2)
            tiles[ty, tc, 3] = -1.0 if x0 > x1 else size / 2.0 * 1.000001
