"""The ray caster's compiled core: rays against primitives, soft shadow, shading. It knows arrays, no World and no State.

A primitive is a row of `kinds` (shape, texture, axis of the grain) and of `prims`: position 0:3, rotation 3:12 (row major,
body to world), half extents 12:15, fillet 15, bounding radius 16, colour 17:20 and accent 20:23 (linear), roughness 23.
The camera is a row: position 0:3, right 3:6, down 6:9, forward 9:12, pixels per unit 12 (at depth 1, or orthographic),
orthographic 13, width 14, height 15. The light: direction 0:3, tangent of its angular radius 3, ambient share 4, unit of length
5. Every sample is a pure function of its place in the image, so any region agrees with the whole.
"""

from __future__ import annotations

import math

import numpy as np

from simulators.compiled import jit
from simulators.render import textures as tx
from simulators.render.raster_shapes import BOX, CYLINDER, MISS, cast, hit_box, normal, to_local, to_world

SAMPLES = 4
# a rotated grid: no two samples of a pixel share a row or a column
OFFSETS = np.array([[0.125, 0.625], [0.375, 0.125], [0.625, 0.875], [0.875, 0.375]])


@jit
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


@jit
def may_shadow(prims, i, light, x, y, z):
    """Say whether a primitive can stand between a point and any part of the light. Errs towards yes."""
    ox, oy, oz = x - prims[i, 0], y - prims[i, 1], z - prims[i, 2]
    r, spread = prims[i, 16], light[3]
    square = ox * ox + oy * oy + oz * oz
    along = -(ox * light[0] + oy * light[1] + oz * light[2])
    if along < -r:
        return False
    # how far a ray to the disc's edge strays from the middle one
    e = (math.sqrt(square) + r) * spread * 1.001 + 1.0e-9 * light[5]
    if square - along * along > (r + e) ** 2:
        return False
    ox, oy, oz = to_local(prims, i, ox, oy, oz)
    dx, dy, dz = to_local(prims, i, light[0], light[1], light[2])
    for _ in range(3):  # where the middle ray leaves the grown box bounds how far others stray in it: grow it by that, again
        near, far = hit_box(prims[i, 12] + e, prims[i, 13] + e, prims[i, 14] + e, ox, oy, oz, dx, dy, dz)
        if near > far or far <= 0.0:
            return False
        e = min(e, far * spread * 1.001 + 1.0e-9 * light[5])
    return True


@jit
def lit(kinds, prims, own, light, directions, group, x, y, z):
    """Return the share of the light's disc that a point of primitive `own` sees (all shapes are convex: none shades itself)."""
    blocked, count = 0, directions.shape[1]
    for i in range(len(kinds)):
        if i == own or not may_shadow(prims, i, light, x, y, z):
            continue
        for k in range(count):
            if not (blocked >> k) & 1:
                dx, dy, dz = directions[group, k, 0], directions[group, k, 1], directions[group, k, 2]
                if cast(kinds, prims, i, x, y, z, dx, dy, dz) < MISS:
                    blocked |= 1 << k
    free = 0
    for k in range(count):
        free += 1 - ((blocked >> k) & 1)
    return free / count


@jit
def surface(kinds, prims, i, x, y, z, nx, ny, nz, unit, footprint):
    """Return colour (linear r, g, b), shading normal and how metallic a surface point is, all in the primitive's axes."""
    shape, texture, grain = kinds[i, 0], kinds[i, 1], kinds[i, 2]
    share, bright, metal = 0.0, 1.0, 0.0
    if texture == tx.WOOD or texture == tx.BRUSHED:
        a, b, c = x, y, z
        if grain == 1:
            a, b, c = y, z, x
        elif grain == 2:
            a, b, c = z, x, y
        shift = 0.37 * prims[i, 12] + 1.7 * prims[i, 13] + 2.9 * prims[i, 14]  # so that two boards of other sizes differ
        if texture == tx.WOOD:
            share = 0.45 * tx.wood(a, b + shift, c + 0.6 * shift, unit, footprint)
        else:
            bright, metal = tx.brushed(a, b, c, unit, footprint), 0.85
    elif texture == tx.FELT:
        bright = tx.felt(x, y, z, unit, footprint)
    elif texture == tx.PIPS and shape == BOX:
        axis, depth, u, v, hu, hv = 2, z, x, y, prims[i, 12], prims[i, 13]
        if abs(nx) > 0.999:
            axis, depth, u, v, hu, hv = 0, x, y, z, prims[i, 13], prims[i, 14]
        elif abs(ny) > 0.999:
            axis, depth, u, v, hu, hv = 1, y, z, x, prims[i, 14], prims[i, 12]
        least = min(hu, hv)
        if max(abs(nx), max(abs(ny), abs(nz))) > 0.999:
            inside, du, dv = tx.pip_offset(u / hu, v / hv, tx.pips_of_face(axis, depth > 0.0))
            du, dv = du * hu / least, dv * hv / least
            if inside and du * du + dv * dv < 1.0:
                share = 1.0
                du, dv = -0.55 * du, -0.55 * dv  # a hollow: its walls lean towards its middle
                if axis == 0:
                    ny, nz = du, dv
                elif axis == 1:
                    nz, nx = du, dv
                else:
                    nx, ny = du, dv
    elif texture == tx.COIN and shape == CYLINDER:
        metal = 0.8
        radius = prims[i, 12]
        if abs(nz) > 0.9:
            heads = nz > 0.0
            side = 1.0 if heads else -1.0
            u, v, blur = x / radius, side * y / radius, footprint / radius  # half a turn about x leaves both upright
            relief, dark = tx.coin_face(u, v, heads, blur)
            step = max(0.012, blur)
            right, _ = tx.coin_face(u + step, v, heads, blur)
            up, _ = tx.coin_face(u, v + step, heads, blur)
            nx -= 0.035 * (right - relief) / step
            ny -= side * 0.035 * (up - relief) / step
            share = 0.72 * dark
            metal *= 1.0 - 0.85 * dark
        else:
            reed = tx.fade(tx.REEDS / (2.0 * math.pi * radius), footprint)
            bright = 1.0 - reed * (0.28 + 0.28 * math.cos(tx.REEDS * math.atan2(y, x)))
    n = 1.0 / math.sqrt(nx * nx + ny * ny + nz * nz)
    keep = (1.0 - share) * bright
    red, green, blue = (
        prims[i, 17] * keep + prims[i, 20] * share,
        prims[i, 18] * keep + prims[i, 21] * share,
        prims[i, 19] * keep + prims[i, 22] * share,
    )
    return red, green, blue, nx * n, ny * n, nz * n, metal


@jit
def shade(kinds, prims, i, light, directions, group, ox, oy, oz, dx, dy, dz, t, footprint):
    """Return the linear colour that a ray sees of primitive `i` at distance `t`."""
    wx, wy, wz = ox + t * dx, oy + t * dy, oz + t * dz
    x, y, z = to_local(prims, i, wx - prims[i, 0], wy - prims[i, 1], wz - prims[i, 2])
    gx, gy, gz = normal(kinds[i, 0], prims, i, x, y, z)
    r, g, b, nx, ny, nz, metal = surface(kinds, prims, i, x, y, z, gx, gy, gz, light[5], footprint)
    gx, gy, gz = to_world(prims, i, gx, gy, gz)
    nx, ny, nz = to_world(prims, i, nx, ny, nz)
    key = max(nx * light[0] + ny * light[1] + nz * light[2], 0.0)
    if gx * light[0] + gy * light[1] + gz * light[2] <= 0.0:
        key = 0.0
    if key > 0.0:
        e = 1.0e-7 * light[5]
        key *= lit(kinds, prims, i, light, directions, group, wx + e * gx, wy + e * gy, wz + e * gz)
    ambient, rough = light[4], max(prims[i, 23], 0.25)
    turn = 2.0 * (dx * nx + dy * ny + dz * nz)
    mx, my, mz = dx - turn * nx, dy - turn * ny, dz - turn * nz  # the mirrored ray
    diffuse = ambient * (0.78 + 0.22 * nz) + (1.0 - ambient) * 1.35 * key
    glint = max(mx * light[0] + my * light[1] + mz * light[2], 0.0)
    shiny = (1.0 - rough) ** 2
    power = 2.0 / rough**3
    gloss = shiny * min(key * 4.0, 1.0) * (glint**power if glint > 0.5 else 0.0)
    sheen = 0.04 + 0.5 * shiny * max(1.0 + 0.5 * turn, 0.0) ** 5  # more of the room at a grazing look
    room = (0.30 + 0.70 * tx.smoothstep(-0.25, 0.95, mz)) * (0.55 + 0.45 * min(key * 2.0, 1.0))
    body = (1.0 - 0.6 * metal) * diffuse + 0.75 * metal * room
    extra = (1.0 - metal) * (0.35 * gloss + 0.10 * sheen * room)
    tint = metal * 0.7 * gloss
    return r * (body + tint) + extra, g * (body + tint) + extra, b * (body + tint) + extra


@jit
def backdrop(dx, dy, dz):
    """Return the linear colour of what lies behind everything: a quiet wall, lighter above."""
    up = 0.5 + 0.5 * tx.smoothstep(-1.0, 1.0, dz)
    return 0.50 * up + 0.08, 0.52 * up + 0.08, 0.56 * up + 0.08


@jit
def encode(v):
    """Return the 8-bit sRGB value of a linear one; the brightest part is rolled off, not cut."""
    if v > 0.8:
        v = 0.8 + 0.2 * (1.0 - math.exp(-(v - 0.8) / 0.2))
    v = 12.92 * v if v <= 0.0031308 else 1.055 * v ** (1.0 / 2.4) - 0.055
    return np.uint8(min(max(v, 0.0), 1.0) * 255.0 + 0.5)


@jit
def nearest(kinds, prims, rects, first, px, py, t, who, ox, oy, oz, dx, dy, dz):
    """Return (t, who) of the nearest of the primitives from `first` on, starting from what was found before."""
    for i in range(first, len(kinds)):
        if rects[i, 0] <= px < rects[i, 2] and rects[i, 1] <= py < rects[i, 3]:
            s = cast(kinds, prims, i, ox, oy, oz, dx, dy, dz)
            if s < t:
                t, who = s, i
    return t, who


@jit
def trace(out, x0, y0, camera, kinds, prims, rects, moving, light, directions, depth, ident, known, reuse):
    """Draw the pixels of `out` (h, w, 3), whose corner is (x0, y0).

    Primitives from `moving` on move. With `reuse`, `depth` and `ident` (H, W, 4) hold what each sample hits of the
    fixed ones and `known` (H, W, 3) the picture of those alone; a pixel that nothing moving hits or shades is copied from
    there. Without it, both are filled in.
    """
    first = moving if reuse else 0
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            px, py = x0 + column, y0 + row
            red, green, blue = 0.0, 0.0, 0.0
            same = reuse
            if reuse:
                for k in range(SAMPLES):
                    ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                    t0 = depth[py, px, k]
                    t, _ = nearest(kinds, prims, rects, first, px, py, t0, 0, ox, oy, oz, dx, dy, dz)
                    if t < t0:
                        same = False
                        break
                    if t0 < MISS:
                        for i in range(moving, len(kinds)):
                            if may_shadow(prims, i, light, ox + t * dx, oy + t * dy, oz + t * dz):
                                same = False
                                break
                    if not same:
                        break
            if same:
                for j in range(3):
                    out[row, column, j] = known[py, px, j]
                continue
            for k in range(SAMPLES):
                ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                t, who = MISS, np.int64(-1)
                if reuse:
                    t, who = depth[py, px, k], np.int64(ident[py, px, k])
                t, who = nearest(kinds, prims, rects, first, px, py, t, who, ox, oy, oz, dx, dy, dz)
                if not reuse:
                    depth[py, px, k], ident[py, px, k] = t, who
                if who < 0:
                    r, g, b = backdrop(dx, dy, dz)
                else:
                    footprint = 0.6 / camera[12] * (1.0 if camera[13] > 0.0 else t)
                    r, g, b = shade(kinds, prims, who, light, directions, k, ox, oy, oz, dx, dy, dz, t, footprint)
                red, green, blue = red + r, green + g, blue + b
            out[row, column, 0] = encode(red / SAMPLES)
            out[row, column, 1] = encode(green / SAMPLES)
            out[row, column, 2] = encode(blue / SAMPLES)


@jit
def shadowed(camera, prims, moving, light, tiles, depth):
    """Return (x0, y0, x1, y1): the pixels of the background that primitives from `moving` on can shade.

    `tiles` (h, w, 4) bounds the background's hit points of each 8x8 pixels by a ball (centre, radius; below 0: none).
    """
    x0, y0, x1, y1 = depth.shape[1], depth.shape[0], 0, 0
    grown = np.empty((1, prims.shape[1]))
    for ty in range(tiles.shape[0]):
        for tc in range(tiles.shape[1]):
            if tiles[ty, tc, 3] < 0.0:
                continue
            bx, by, bz, radius = tiles[ty, tc]
            for i in range(moving, len(prims)):
                grown[0] = prims[i]
                grown[0, 12:15] += radius
                grown[0, 16] += radius
                if not may_shadow(grown, 0, light, bx, by, bz):
                    continue
                for py in range(8 * ty, min(8 * ty + 8, depth.shape[0])):
                    for px in range(8 * tc, min(8 * tc + 8, depth.shape[1])):
                        if x0 <= px < x1 and y0 <= py < y1:
                            continue
                        for k in range(SAMPLES):
                            t = depth[py, px, k]
                            if t < MISS:
                                ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                                if may_shadow(prims, i, light, ox + t * dx, oy + t * dy, oz + t * dz):
                                    x0, y0, x1, y1 = min(x0, px), min(y0, py), max(x1, px + 1), max(y1, py + 1)
                                    break
    return x0, y0, x1, y1


@jit
def bound_tiles(camera, depth, tiles):
    """Fill `tiles` for `shadowed` from the background's `depth` (H, W, 4)."""
    for ty in range(tiles.shape[0]):
        for tc in range(tiles.shape[1]):
            low, high = np.full(3, np.inf), np.full(3, -np.inf)
            for py in range(8 * ty, min(8 * ty + 8, depth.shape[0])):
                for px in range(8 * tc, min(8 * tc + 8, depth.shape[1])):
                    for k in range(SAMPLES):
                        t = depth[py, px, k]
                        if t < MISS:
                            ox, oy, oz, dx, dy, dz = ray(camera, px + OFFSETS[k, 0], py + OFFSETS[k, 1])
                            for j, v in enumerate((ox + t * dx, oy + t * dy, oz + t * dz)):
                                low[j], high[j] = min(low[j], v), max(high[j], v)
            if low[0] > high[0]:
                tiles[ty, tc, 3] = -1.0
            else:
                tiles[ty, tc, :3] = (low + high) / 2.0
                tiles[ty, tc, 3] = np.sqrt(np.sum((high - low) ** 2)) / 2.0 * 1.000001
