"""Where a ray meets a primitive, and which way its surface faces there. The layout of `prims` is told in `raster_kernels`."""

from __future__ import annotations

import math

import numpy as np

from simulators.compiled import borrowing, inlined

BOX, SPHERE, CYLINDER, CAPSULE, CONE = range(5)
MISS = np.inf


@inlined
def _slab(o, d, h, near, far):
    """Cut the interval (near, far) of a ray with |coordinate| <= h."""
    if d == 0.0:
        return (near, far) if abs(o) <= h else (1.0, -1.0)
    inverse = 1.0 / d
    a, b = (-h - o) * inverse, (h - o) * inverse
    return max(near, min(a, b)), min(far, max(a, b))


@borrowing
def _rounded(kind, hx, hy, hz, fillet, x, y, z, dx, dy, dz):
    """Return the distance to a box or cylinder with rounded edges from outside, and how it changes along a direction."""
    if kind == BOX:
        a, b, c = abs(x) - hx + fillet, abs(y) - hy + fillet, abs(z) - hz + fillet
        da, db, dc = math.copysign(dx, x * dx), math.copysign(dy, y * dy), math.copysign(dz, z * dz)
    else:
        rho = math.hypot(x, y)
        a, b, c = rho - hx + fillet, abs(z) - hz + fillet, 0.0
        da, db, dc = (x * dx + y * dy) / max(rho, 1.0e-300), math.copysign(dz, z * dz), 0.0
    a, b, c = max(a, 0.0), max(b, 0.0), max(c, 0.0)
    far = math.sqrt(a * a + b * b + c * c)
    return far - fillet, (a * da + b * db + c * dc) / max(far, 1.0e-300)


@inlined
def hit_box(hx, hy, hz, ox, oy, oz, dx, dy, dz):
    """Return where a ray enters and leaves a box about its own axes; enters > leaves for a miss."""
    near, far = _slab(ox, dx, hx, -1.0e30, 1.0e30)
    near, far = _slab(oy, dy, hy, near, far)
    return _slab(oz, dz, hz, near, far)


@inlined
def hit_cylinder(r, hz, ox, oy, oz, dx, dy, dz):
    """Return where a ray enters and leaves a cylinder about its own axes; enters > leaves for a miss."""
    near, far = _slab(oz, dz, hz, -1.0e30, 1.0e30)
    a, b, c = dx * dx + dy * dy, ox * dx + oy * dy, ox * ox + oy * oy - r * r
    if a < 1.0e-24:
        return (near, far) if c <= 0.0 else (1.0, -1.0)
    h = b * b - a * c
    if h < 0.0:
        return 1.0, -1.0
    h = math.sqrt(h)
    return max(near, (-b - h) / a), min(far, (-b + h) / a)


@inlined
def _hit_sphere(r, ox, oy, oz, dx, dy, dz):
    b = ox * dx + oy * dy + oz * dz
    px, py, pz = ox - b * dx, oy - b * dy, oz - b * dz  # the nearest point: exact where the ball is far away
    h = r * r - (px * px + py * py + pz * pz)
    if h < 0.0:
        return 1.0, -1.0
    h = math.sqrt(h)
    return -b - h, -b + h


@inlined
def _hit_cone(prims, i, ox, oy, oz, dx, dy, dz):
    """Return where a ray first meets a piece of a lathe, a cone's wall or a flat ring, from either side; inf for a miss."""
    r0, z0, r1, z1 = prims[i, 25], prims[i, 26], prims[i, 27], prims[i, 28]
    w, h = r1 - r0, z1 - z0
    if abs(h) <= 1.0e-9 * abs(w):
        t = (z0 - oz) / dz
        x, y = ox + t * dx, oy + t * dy
        square, low, high = x * x + y * y, min(r0, r1), max(r0, r1)
        return t if t > 0.0 and low * low <= square <= high * high else MISS
    middle = -(ox * dx + oy * dy + oz * dz)  # from the nearest point on: the terms stay small where the eye is far away
    ox, oy, oz = ox + middle * dx, oy + middle * dy, oz + middle * dz
    s = r0 * h + w * (oz - z0)
    a = h * h * (dx * dx + dy * dy) - w * w * dz * dz
    b = h * h * (ox * dx + oy * dy) - w * s * dz
    c = h * h * (ox * ox + oy * oy) - s * s
    d = b * b - a * c
    if d < 0.0:
        return MISS
    q = -(b + math.copysign(math.sqrt(d), b))
    best = MISS
    for t in (q / a, c / q):  # a root at infinity, or none, fails the comparisons
        share = (oz + t * dz - z0) / h
        if 0.0 < t + middle < best and -1.0e-9 <= share <= 1.0 + 1.0e-9:
            best = t + middle
    return best


@inlined
def _normal_cone(prims, i, x, y, z):
    """Return the true and the smoothed unit normal of a piece of a lathe at a surface point, both in its axes."""
    r0, z0, r1, z1 = prims[i, 25], prims[i, 26], prims[i, 27], prims[i, 28]
    w, h, rho = r1 - r0, z1 - z0, math.hypot(x, y)
    square = w * w + h * h
    share = min(max(((rho - r0) * w + (z - z0) * h) / square, 0.0), 1.0)
    a = prims[i, 29] + share * (prims[i, 31] - prims[i, 29])
    b = prims[i, 30] + share * (prims[i, 32] - prims[i, 30])
    n, size = 1.0 / math.sqrt(a * a + b * b), 1.0 / math.sqrt(square)
    cos, sin = (x / rho, y / rho) if rho > 0.0 else (1.0, 0.0)
    return cos * h * size, sin * h * size, -w * size, cos * a * n, sin * a * n, b * n


@inlined
def hit(kind, prims, i, ox, oy, oz, dx, dy, dz):
    """Return the distance at which a ray, in a primitive's axes, enters it from outside; inf for a miss."""
    hx, hy, hz, fillet = prims[i, 12], prims[i, 13], prims[i, 14], prims[i, 15]
    if kind == SPHERE:
        near, far = _hit_sphere(hx, ox, oy, oz, dx, dy, dz)
        return near if near < far and near > 0.0 else MISS
    if kind == CONE:
        return _hit_cone(prims, i, ox, oy, oz, dx, dy, dz)
    if kind == CAPSULE:
        half, best = hz - hx, MISS
        near, far = hit_cylinder(hx, half, ox, oy, oz, dx, dy, dz)
        if near < far and near > 0.0:
            best = near
        for end in (-half, half):
            near, far = _hit_sphere(hx, ox, oy, oz - end, dx, dy, dz)
            if near < far and 0.0 < near < best:
                best = near
        return best
    if kind == BOX:
        near, far = hit_box(hx, hy, hz, ox, oy, oz, dx, dy, dz)
    else:
        near, far = hit_cylinder(hx, hz, ox, oy, oz, dx, dy, dz)
    if near > far or far <= 0.0:
        return MISS
    if fillet <= 0.0:
        return near if near > 0.0 else MISS
    t, close = max(near, 0.0), 1.0e-9 * fillet
    # along a ray the distance to a convex body is convex, so Newton's steps from outside never pass the surface, and a ray
    # that misses sees the distance rise; one that enters through a flat part stops at once
    for _ in range(64):
        d, slope = _rounded(kind, hx, hy, hz, fillet, ox + t * dx, oy + t * dy, oz + t * dz, dx, dy, dz)
        if d <= close:
            return t if t > 0.0 else MISS
        if slope >= 0.0:
            return MISS
        t -= d / slope
        if t > far:
            return MISS
    return t


@borrowing
def normal(kind, prims, i, x, y, z):
    """Return the outward unit normal of a primitive at a surface point, both in its axes."""
    hx, hy, hz, fillet = prims[i, 12], prims[i, 13], prims[i, 14], prims[i, 15]
    if kind == SPHERE:
        return x / hx, y / hx, z / hx
    if kind == CAPSULE:
        half = hz - hx
        return x / hx, y / hx, (z - min(max(z, -half), half)) / hx
    if kind == BOX:
        a, b, c = abs(x) - hx + fillet, abs(y) - hy + fillet, abs(z) - hz + fillet
        if fillet > 0.0:
            a, b, c = max(a, 0.0), max(b, 0.0), max(c, 0.0)
            n = math.sqrt(a * a + b * b + c * c)
            if n > 0.0:
                return math.copysign(a / n, x), math.copysign(b / n, y), math.copysign(c / n, z)
            a, b, c = abs(x) - hx, abs(y) - hy, abs(z) - hz
        if a >= b and a >= c:
            return math.copysign(1.0, x), 0.0, 0.0
        if b >= c:
            return 0.0, math.copysign(1.0, y), 0.0
        return 0.0, 0.0, math.copysign(1.0, z)
    rho = math.hypot(x, y)
    a, b = rho - hx + fillet, abs(z) - hz + fillet
    if fillet > 0.0:
        a, b = max(a, 0.0), max(b, 0.0)
    n = math.hypot(a, b)
    if fillet > 0.0 and n > 0.0:
        return x / rho * (a / n), y / rho * (a / n), math.copysign(b / n, z)
    if a >= b:
        return x / rho, y / rho, 0.0
    return 0.0, 0.0, math.copysign(1.0, z)


@inlined
def normals(kind, prims, i, x, y, z):
    """Return the true and the shading unit normal of a primitive at a surface point; a lathe's may face inwards."""
    if kind == CONE:
        return _normal_cone(prims, i, x, y, z)
    a, b, c = normal(kind, prims, i, x, y, z)
    return a, b, c, a, b, c


@borrowing
def way_through(kind, prims, i, x, y, z, dx, dy, dz, upright):
    """Return how long a ray's way through a clear primitive is, from where it enters, in units of its least thickness.

    A lathe's wall is as thin as can be: one over the cosine `upright` of the angle to its normal.
    """
    hx, hy, hz = prims[i, 12], prims[i, 13], prims[i, 14]
    if kind == BOX:
        _, far = hit_box(hx, hy, hz, x, y, z, dx, dy, dz)
    elif kind == CYLINDER:
        _, far = hit_cylinder(hx, hz, x, y, z, dx, dy, dz)
    elif kind == SPHERE:
        _, far = _hit_sphere(hx, x, y, z, dx, dy, dz)
    else:
        return 1.0 / max(upright, 0.05)
    return max(far, 0.0) / (2.0 * min(hx, min(hy, hz)))


@inlined
def to_local(prims, i, x, y, z):
    """Rotate a world vector into a primitive's axes."""
    return (
        prims[i, 3] * x + prims[i, 6] * y + prims[i, 9] * z,
        prims[i, 4] * x + prims[i, 7] * y + prims[i, 10] * z,
        prims[i, 5] * x + prims[i, 8] * y + prims[i, 11] * z,
    )


@inlined
def to_world(prims, i, x, y, z):
    """Rotate a vector of a primitive's axes into the world's."""
    return (
        prims[i, 3] * x + prims[i, 4] * y + prims[i, 5] * z,
        prims[i, 6] * x + prims[i, 7] * y + prims[i, 8] * z,
        prims[i, 9] * x + prims[i, 10] * y + prims[i, 11] * z,
    )


@inlined
def cast(kinds, prims, i, ox, oy, oz, dx, dy, dz):
    """Return the distance at which a world ray enters a primitive; inf for a miss."""
    ox, oy, oz = ox - prims[i, 0], oy - prims[i, 1], oz - prims[i, 2]
    b = ox * dx + oy * dy + oz * dz
    if b > prims[i, 16] or ox * ox + oy * oy + oz * oz - b * b > prims[i, 16] * prims[i, 16]:
        return MISS
    if kinds[i, 0] == SPHERE:  # the same in all axes
        near, far = _hit_sphere(prims[i, 12], ox, oy, oz, dx, dy, dz)
        return near if near < far and near > 0.0 else MISS
    ox, oy, oz = to_local(prims, i, ox, oy, oz)
    dx, dy, dz = to_local(prims, i, dx, dy, dz)
    return hit(kinds[i, 0], prims, i, ox, oy, oz, dx, dy, dz)
