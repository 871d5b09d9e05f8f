"""Procedural looks of a surface, evaluated at a hit point in its part's axes: wood, felt, brushed metal, pips, coin faces.

Everything is a fixed function of place: no generator, no time, so a picture of the same state is the same picture.
It refuses to know bodies, cameras and light.
"""

from __future__ import annotations

import math

import numpy as np

from simulators.compiled import jit

PLAIN, WOOD, FELT, BRUSHED, PIPS, COIN, SECTORS, NUMBER, CARD, SIGN = range(10)
CODES = {
    "plain": PLAIN, "wood": WOOD, "felt": FELT, "brushed": BRUSHED, "pips": PIPS, "coin": COIN, "sectors": SECTORS,
    "number": NUMBER, "card": CARD, "sign": SIGN,
}  # fmt: skip

PIP_SPACING, PIP_RADIUS = 0.52, 0.175  # of half an edge
REEDS = 72  # grooves of a coin's edge


@jit
def _lattice(ix, iy, iz):
    """Hash a lattice point to [0, 1)."""
    h = (ix * 73856093) ^ (iy * 19349663) ^ (iz * 83492791)
    h = (h ^ (h >> 13)) * 1274126177
    h = (h ^ (h >> 16)) * 461845907
    return ((h ^ (h >> 15)) & 0xFFFFFF) / 16777216.0


@jit
def noise(x, y, z):
    """Return smooth value noise in [0, 1) with features of size 1."""
    fx, fy, fz = math.floor(x), math.floor(y), math.floor(z)
    ix, iy, iz = int(fx), int(fy), int(fz)
    x, y, z = x - fx, y - fy, z - fz
    x, y, z = x * x * (3.0 - 2.0 * x), y * y * (3.0 - 2.0 * y), z * z * (3.0 - 2.0 * z)
    low = (_lattice(ix, iy, iz) * (1 - x) + _lattice(ix + 1, iy, iz) * x) * (1 - y) + (
        _lattice(ix, iy + 1, iz) * (1 - x) + _lattice(ix + 1, iy + 1, iz) * x
    ) * y
    high = (_lattice(ix, iy, iz + 1) * (1 - x) + _lattice(ix + 1, iy, iz + 1) * x) * (1 - y) + (
        _lattice(ix, iy + 1, iz + 1) * (1 - x) + _lattice(ix + 1, iy + 1, iz + 1) * x
    ) * y
    return low * (1 - z) + high * z


@jit
def fade(frequency, footprint):
    """Return how much of a pattern of `frequency` [1/m] survives a pixel of `footprint` [m]: 1 coarse, 0 too fine to see."""
    return min(max(1.6 - 2.4 * frequency * footprint, 0.0), 1.0)


@jit
def smoothstep(low, high, x):
    """Return the cubic step from 0 at `low` to 1 at `high`."""
    t = min(max((x - low) / (high - low), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


@jit
def wood(along, across, depth, unit, footprint):
    """Return the share of dark grain in 0..1 at a place [m], fibres running `along`; `unit` [m] is 1 at hand size."""
    a, c, d = along / unit, across / unit, depth / unit
    pixel = footprint / unit
    bend = noise(a * 5.0, c * 9.0, d * 9.0) + 0.35 * noise(a * 14.0 + 7.0, c * 31.0, d * 31.0)
    rings = 0.5 + 0.5 * math.sin(2.0 * math.pi * (c * 42.0 + d * 23.0 + 1.9 * bend))
    rings = rings * rings
    grain = 0.42 * ((rings - 0.375) * fade(60.0, pixel) + 0.375)
    share = fade(900.0, pixel)
    if share > 0.0:
        grain += 0.35 * share * (noise(a * 45.0, c * 900.0, d * 900.0) - 0.5)
    share = fade(220.0, pixel)
    if share > 0.0:
        grain += 0.3 * share * (noise(a * 12.0, c * 220.0 + 3.0, d * 220.0) - 0.5)
    return min(max(grain + 0.12, 0.0), 1.0)


@jit
def felt(x, y, z, unit, footprint):
    """Return a brightness factor about 1 of short fibres at a place [m]."""
    x, y, z, pixel = x / unit, y / unit, z / unit, footprint / unit
    cloud = noise(x * 45.0, y * 45.0, z * 45.0) - 0.5
    bright = 1.0 + 0.07 * cloud
    share = fade(1700.0, pixel)
    if share > 0.0:
        bright += 0.28 * share * (noise(x * 1700.0, y * 1700.0, z * 1700.0) - 0.5)
    share = fade(500.0, pixel)
    if share > 0.0:
        bright += 0.2 * share * (noise(x * 500.0 + 11.0, y * 500.0, z * 500.0) - 0.5)
    return bright


@jit
def brushed(along, across, depth, unit, footprint):
    """Return a brightness factor about 1 of fine scratches running `along` at a place [m]."""
    pixel = footprint / unit
    fine = noise(along / unit * 18.0, across / unit * 2600.0, depth / unit * 2600.0) - 0.5
    coarse = noise(along / unit * 9.0 + 5.0, across / unit * 700.0, depth / unit * 700.0) - 0.5
    return 1.0 + 0.3 * fine * fade(2600.0, pixel) + 0.16 * coarse * fade(700.0, pixel)


@jit
def pips_of_face(axis, positive):
    """Return how many pips a face has: 1 on +x, 6 on -x, 2 on +y, 5 on -y, 3 on +z, 4 on -z."""
    first = axis + 1
    return first if positive else 7 - first


@jit
def pip_offset(u, v, count):
    """Return (inside, du, dv) of the nearest pip of a face with `count` pips; u, v in -1..1, offsets in pip radii."""
    du, dv = 9.0, 9.0
    s = PIP_SPACING
    if count % 2 == 1:
        du, dv = u, v
    if count >= 2:
        for sign in (-1.0, 1.0):
            if (u - sign * s) ** 2 + (v - sign * s) ** 2 < du * du + dv * dv:
                du, dv = u - sign * s, v - sign * s
    if count >= 4:
        for sign in (-1.0, 1.0):
            if (u - sign * s) ** 2 + (v + sign * s) ** 2 < du * du + dv * dv:
                du, dv = u - sign * s, v + sign * s
    if count == 6:
        for sign in (-1.0, 1.0):
            if (u - sign * s) ** 2 + v * v < du * du + dv * dv:
                du, dv = u - sign * s, v
    du, dv = du / PIP_RADIUS, dv / PIP_RADIUS
    return du * du + dv * dv < 1.0, du, dv


@jit
def _length(x, y):
    return math.sqrt(x * x + y * y)  # values near 1: hypot's care for overflow is not needed


@jit
def _blend(a, b, k):
    """Return the smooth union of two signed distances, rounded over `k`."""
    h = max(k - abs(a - b), 0.0) / k
    return min(a, b) - 0.25 * h * h * k


@jit
def _disc(x, y, cx, cy, rx, ry):
    """Return a signed distance, near enough, to an ellipse."""
    qx, qy = (x - cx) / rx, (y - cy) / ry
    return (math.sqrt(qx * qx + qy * qy) - 1.0) * min(rx, ry)


@jit
def _segment(x, y, ax, ay, bx, by, radius):
    """Return the signed distance to a stroke with round ends."""
    px, py, dx, dy = x - ax, y - ay, bx - ax, by - ay
    t = min(max((px * dx + py * dy) / (dx * dx + dy * dy), 0.0), 1.0)
    return _length(px - t * dx, py - t * dy) - radius


@jit
def portrait(x, y):
    """Return the signed distance to a head in profile, looking to the left, in units of the coin's radius."""
    d = _disc(x, y, 0.06, 0.26, 0.33, 0.36)
    d = _blend(d, _disc(x, y, -0.07, 0.09, 0.22, 0.25), 0.06)
    d = _blend(d, _segment(x, y, -0.22, 0.20, -0.35, 0.06, 0.05), 0.05)  # nose
    d = _blend(d, _segment(x, y, -0.22, -0.06, -0.265, -0.06, 0.045), 0.04)  # lips
    d = _blend(d, _disc(x, y, -0.17, -0.17, 0.09, 0.08), 0.06)  # chin
    d = _blend(d, _disc(x, y, 0.39, 0.12, 0.14, 0.15), 0.05)  # knot of hair
    d = _blend(d, _segment(x, y, 0.10, 0.0, 0.14, -0.42, 0.15), 0.10)  # neck
    return _blend(d, _disc(x, y, 0.06, -0.63, 0.50, 0.20), 0.10)  # shoulders


@jit
def star(x, y, radius, inner):
    """Return a signed distance, near enough, to a five-pointed star standing on two points."""
    sector = 2.0 * math.pi / 5.0
    angle = math.atan2(x, y)
    angle = abs(angle - sector * math.floor(angle / sector + 0.5))
    r = _length(x, y)
    px, py = r * math.cos(angle), r * math.sin(angle)
    ax, ay = radius, 0.0
    bx, by = inner * math.cos(sector / 2.0), inner * math.sin(sector / 2.0)
    ex, ey = bx - ax, by - ay
    return ((px - ax) * -ey + (py - ay) * ex) * -1.0 / _length(ex, ey)


@jit
def coin_face(x, y, heads, blur):
    """Return (relief, dark) of a coin's face; x, y in radii as the viewer of that face sees them, `blur` in radii.

    Heads is a bright portrait on a darkened field; tails is a dark star and dark rays on a bright field. Edges are
    softened over at least a pixel, so neither shimmers.
    """
    rho = _length(x, y)
    soft = max(blur, 0.02)
    rim = smoothstep(0.89 - soft, 0.89 + soft, rho)
    if heads:
        figure = 1.0 - smoothstep(-soft, soft, portrait(x, y))
        plump = smoothstep(0.0, 0.22, -portrait(x, y))
        eye = 1.0 - smoothstep(-soft, soft, _disc(x, y, -0.12, 0.19, 0.05, 0.03))
        hair = 1.0 - smoothstep(-soft, soft, abs(_segment(x, y, -0.02, 0.47, 0.24, 0.05, 0.10)) - 0.012)
        dark = (1.0 - figure) * (1.0 - rim) + 0.7 * figure * max(eye, 0.5 * hair)
        return max(rim, 0.75 * figure + 0.5 * plump * figure), dark
    shape = star(x, y, 0.60, 0.235)
    figure = 1.0 - smoothstep(-soft, soft, shape)
    turn = math.atan2(x, y) * 20.0 / (2.0 * math.pi)
    off = abs(turn - math.floor(turn) - 0.5) * 2.0 * math.pi / 20.0 * rho  # distance from a ray's middle line
    ray = (1.0 - smoothstep(0.035 - soft, 0.035 + soft, off)) * smoothstep(0.66 - soft, 0.66 + soft, rho)
    ray *= 1.0 - smoothstep(0.82 - soft, 0.82 + soft, rho)
    return max(rim, 0.6 * figure + 0.5 * smoothstep(0.0, 0.2, -shape)), max(figure, ray) * (1.0 - rim)


@jit
def sheet(code, u, v, lengthwise, unit, footprint, shift):
    """Return (share of accent, brightness) over a grid (len(v), len(u)) of places [m] on a flat board, grain along u or v."""
    share, bright = np.zeros((len(v), len(u))), np.ones((len(v), len(u)))
    for j in range(len(v)):
        for i in range(len(u)):
            along, across = (u[i], v[j]) if lengthwise else (v[j], u[i])
            if code == WOOD:
                share[j, i] = 0.45 * wood(along, across + shift, 0.6 * shift, unit, footprint)
            elif code == BRUSHED:
                bright[j, i] = brushed(along, across, 0.0, unit, footprint)
            elif code == FELT:
                bright[j, i] = felt(along, across, 0.0, unit, footprint)
    return share, bright
