"""What colour a ray sees of a surface: its texture, the key light and its shadow, the room. Arrays as in `raster_kernels`."""

from __future__ import annotations

import math

from simulators.compiled import borrowing, inlined
from simulators.render import marks
from simulators.render import textures as tx
from simulators.render.raster_shadow import leaves, lit
from simulators.render.raster_shapes import BOX, CONE, CYLINDER, normals, to_local, to_world, way_through


@borrowing
def marked(kinds, prims, ink, i, base, x, y, z, ny, nz, footprint):
    """Return the colour of what is painted or written at a surface point of a primitive; `base` where nothing is."""
    texture, at, hx, hy, hz = kinds[i, 1], kinds[i, 4], prims[i, 12], prims[i, 13], prims[i, 14]
    if texture == tx.SECTORS and (kinds[i, 0] == CONE or nz > 0.9):
        return marks.sectors(ink, at, base, x, y, footprint)
    if texture == tx.NUMBER:
        return marks.number(ink, at, base, x, y, z, hx, footprint)
    accent = (prims[i, 20], prims[i, 21], prims[i, 22])
    if texture == tx.CARD and abs(nz) > 0.9:
        return marks.card(ink, at, base, accent, x, y, nz, hx, hy, footprint)
    if texture == tx.SIGN and ny < -0.9:
        return marks.sign(ink, at, base, accent, x, z, hx, hz, footprint)
    return base


@borrowing
def surface(kinds, prims, ink, i, x, y, z, nx, ny, nz, unit, footprint):
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
    base = (
        prims[i, 17] * keep + prims[i, 20] * share,
        prims[i, 18] * keep + prims[i, 21] * share,
        prims[i, 19] * keep + prims[i, 22] * share,
    )
    red, green, blue = marked(kinds, prims, ink, i, base, x, y, z, ny, nz, footprint) if texture >= tx.SECTORS else base
    return red, green, blue, nx * n, ny * n, nz * n, metal


@inlined
def facing(kinds, prims, i, x, y, z, dx, dy, dz):
    """Return the true and the shading normal of primitive `i` at a place on it, in the world, against a ray's direction."""
    x, y, z = to_local(prims, i, x - prims[i, 0], y - prims[i, 1], z - prims[i, 2])
    gx, gy, gz, nx, ny, nz = normals(kinds[i, 0], prims, i, x, y, z)
    gx, gy, gz = to_world(prims, i, gx, gy, gz)
    nx, ny, nz = to_world(prims, i, nx, ny, nz)
    if gx * dx + gy * dy + gz * dz > 0.0:
        return -gx, -gy, -gz, -nx, -ny, -nz
    return gx, gy, gz, nx, ny, nz


@borrowing
def shade(
    kinds, prims, groups, moving, casters, ink, i, light, directions, points, first, last, ox, oy, oz, dx, dy, dz, t, footprint,
    memo,
):  # fmt: skip
    """Return the linear colour that a ray sees of primitive `i` at distance `t`: its own, where all light is ambient.

    Rays to the light start from rows `first` to `last` of `points`, just above the surface; `moving`, `casters` and `memo` are
    as in `lit`.
    """
    wx, wy, wz = ox + t * dx, oy + t * dy, oz + t * dz
    x, y, z = to_local(prims, i, wx - prims[i, 0], wy - prims[i, 1], wz - prims[i, 2])
    ax, ay, az, nx, ny, nz = normals(kinds[i, 0], prims, i, x, y, z)
    r, g, b, nx, ny, nz, metal = surface(kinds, prims, ink, i, x, y, z, nx, ny, nz, light[5], footprint)
    if light[4] >= 1.0:
        return r, g, b
    gx, gy, gz = to_world(prims, i, ax, ay, az)
    nx, ny, nz = to_world(prims, i, nx, ny, nz)
    if gx * dx + gy * dy + gz * dz > 0.0:  # a lathe's wall from its other side
        ax, ay, az, gx, gy, gz, nx, ny, nz = -ax, -ay, -az, -gx, -gy, -gz, -nx, -ny, -nz
    key = max(nx * light[0] + ny * light[1] + nz * light[2], 0.0)
    if gx * light[0] + gy * light[1] + gz * light[2] <= 0.0:
        key = 0.0
    if key > 0.0:
        slack = 0.0
        for p in range(first, last):
            slack = max(slack, (points[p, 0] - wx) ** 2 + (points[p, 1] - wy) ** 2 + (points[p, 2] - wz) ** 2)
        own = i if leaves(kinds[i, 0], prims, i, light, x, y, ax, ay, az) else -1
        slack = math.sqrt(slack)
        key *= lit(kinds, prims, groups, moving, casters, own, light, directions, points, first, last, wx, wy, wz, slack, memo)
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


@borrowing
def layer(kinds, prims, ink, i, light, ox, oy, oz, dx, dy, dz, t, footprint):
    """Return the linear colour that clear primitive `i` adds where a ray enters it, and the share of light that passes.

    Beer and Lambert: opacity is what one sees straight through its least thickness, more on a longer way. Fresnel, by
    Schlick's formula for n = 1.5: more of the room at a grazing look. No shadow falls on it.
    """
    wx, wy, wz = ox + t * dx, oy + t * dy, oz + t * dz
    x, y, z = to_local(prims, i, wx - prims[i, 0], wy - prims[i, 1], wz - prims[i, 2])
    _, _, _, nx, ny, nz = normals(kinds[i, 0], prims, i, x, y, z)
    r, g, b, nx, ny, nz, _ = surface(kinds, prims, ink, i, x, y, z, nx, ny, nz, light[5], footprint)
    nx, ny, nz = to_world(prims, i, nx, ny, nz)
    look = dx * nx + dy * ny + dz * nz
    if look > 0.0:
        nx, ny, nz, look = -nx, -ny, -nz, -look
    lx, ly, lz = to_local(prims, i, dx, dy, dz)
    seen = 1.0 - (1.0 - prims[i, 24]) ** way_through(kinds[i, 0], prims, i, x, y, z, lx, ly, lz, -look)
    if light[4] >= 1.0:
        return r * seen, g * seen, b * seen, 1.0 - seen
    mirror = 0.04 + 0.96 * (1.0 + look) ** 5
    mx, my, mz = dx - 2.0 * look * nx, dy - 2.0 * look * ny, dz - 2.0 * look * nz
    key = abs(nx * light[0] + ny * light[1] + nz * light[2])  # light from behind shines through
    diffuse = light[4] * (0.78 + 0.22 * nz) + (1.0 - light[4]) * 1.35 * key
    glint = max(mx * light[0] + my * light[1] + mz * light[2], 0.0)
    rough = max(prims[i, 23], 0.12)
    gloss = 0.8 * (1.0 - rough) ** 2 * (glint ** (2.0 / rough**3) if glint > 0.5 else 0.0)
    room = mirror * (0.25 + 0.75 * tx.smoothstep(-0.25, 0.95, mz))
    body = seen * (1.0 - mirror) * diffuse
    return r * body + room + gloss, g * body + room + gloss, b * body + room + gloss, (1.0 - seen) * (1.0 - mirror)
