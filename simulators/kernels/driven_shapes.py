"""Compiled boxes and capsules, fixed or driven along keyframes: where they are, and how far a point is from them.

It refuses to know balls and contacts.
"""

from __future__ import annotations

import math

import numpy as np

from simulators.compiled import borrowing, inlined, jit

BOX, CAPSULE = 0, 1


@borrowing
def pose_at(time, at, first, last, times, places, turns, eased, d, place, turn):
    """Write into row `d` of `place` (D, 3) and `turn` (D, 4) where keyframes are at `time`; return the next `at`.

    Its keyframes are the rows from `first` to `last`, both counted, of (K,), (K, 3), (K, 4). `at` is any earlier answer, and
    `first` to begin with: times ascend from call to call. The same rule as `Move.at`. (Rows are named by number: a slice of
    an array would cost as much as its use.)
    """
    while at < last and times[at + 1] <= time:
        at += 1
    if time < times[first] or at == last:
        for k in range(3):
            place[d, k] = places[at, k]
        for k in range(4):
            turn[d, k] = turns[at, k]
        return at
    share = (time - times[at]) / (times[at + 1] - times[at])
    if eased:
        share = share * share * (3.0 - 2.0 * share)
    for k in range(3):
        place[d, k] = places[at, k] + share * (places[at + 1, k] - places[at, k])
    cosine = 0.0
    for k in range(4):
        cosine += turns[at, k] * turns[at + 1, k]
    sign = -1.0 if cosine < 0.0 else 1.0
    cosine = abs(cosine)
    if cosine > 1.0 - 1e-12:
        a, b = 1.0 - share, share
    else:
        angle = math.acos(cosine)
        a, b = math.sin((1.0 - share) * angle) / math.sin(angle), math.sin(share * angle) / math.sin(angle)
    for k in range(4):
        turn[d, k] = a * turns[at, k] + sign * b * turns[at + 1, k]
    return at


@jit
def poses_at(times, key_from, key_times, key_places, key_turns, eased):
    """Return where the moved bodies (D) are at ascending `times` (T,): (T, D, 3) and (T, D, 4)."""
    places, turns = np.zeros((len(times), len(eased), 3)), np.zeros((len(times), len(eased), 4))
    for d in range(len(eased)):
        first, last = key_from[d], key_from[d + 1] - 1
        at = first
        for i in range(len(times)):
            at = pose_at(times[i], at, first, last, key_times, key_places, key_turns, eased[d], d, places[i], turns[i])
    return places, turns


@borrowing
def put_shape(d, s, place, turn, offset, tilt, centre, axes):
    """Write the world centre (S, 3) and axes (S, 3, 3: columns) of part `s`, at its `offset` and `tilt` of body `d`."""
    ax, ay, az, aw = turn[d, 0], turn[d, 1], turn[d, 2], turn[d, 3]
    bx, by, bz, bw = tilt[s, 0], tilt[s, 1], tilt[s, 2], tilt[s, 3]
    x = aw * bx + bw * ax + ay * bz - az * by
    y = aw * by + bw * ay + az * bx - ax * bz
    z = aw * bz + bw * az + ax * by - ay * bx
    w = aw * bw - ax * bx - ay * by - az * bz
    axes[s, 0, 0], axes[s, 0, 1], axes[s, 0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    axes[s, 1, 0], axes[s, 1, 1], axes[s, 1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    axes[s, 2, 0], axes[s, 2, 1], axes[s, 2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    tx = 2.0 * (ay * offset[s, 2] - az * offset[s, 1])
    ty = 2.0 * (az * offset[s, 0] - ax * offset[s, 2])
    tz = 2.0 * (ax * offset[s, 1] - ay * offset[s, 0])
    centre[s, 0] = place[d, 0] + offset[s, 0] + aw * tx + ay * tz - az * ty
    centre[s, 1] = place[d, 1] + offset[s, 1] + aw * ty + az * tx - ax * tz
    centre[s, 2] = place[d, 2] + offset[s, 2] + aw * tz + ax * ty - ay * tx


@inlined
def nearest(kind, size, centre, axes, s, x, y, z):
    """Return the unit vector from a shape's surface to the point (x, y, z), and the distance: negative inside.

    `size`: half edges of a box; (radius, 0, half length) of a capsule along its z axis.
    """
    dx, dy, dz = x - centre[s, 0], y - centre[s, 1], z - centre[s, 2]
    a0 = axes[s, 0, 0] * dx + axes[s, 1, 0] * dy + axes[s, 2, 0] * dz
    a1 = axes[s, 0, 1] * dx + axes[s, 1, 1] * dy + axes[s, 2, 1] * dz
    a2 = axes[s, 0, 2] * dx + axes[s, 1, 2] * dy + axes[s, 2, 2] * dz
    h0, h1, h2 = size[s, 0], size[s, 1], size[s, 2]
    if kind[s] == CAPSULE:
        b0, b1, b2 = a0, a1, a2 - min(max(a2, -h2), h2)
        length = math.sqrt(b0 * b0 + b1 * b1 + b2 * b2)
        distance = length - h0
        if length == 0.0:
            b0, length = 1.0, 1.0
    else:
        b0, b1, b2 = a0 - min(max(a0, -h0), h0), a1 - min(max(a1, -h1), h1), a2 - min(max(a2, -h2), h2)
        length = math.sqrt(b0 * b0 + b1 * b1 + b2 * b2)
        distance = length
        if length == 0.0:  # inside: out through the nearest face
            i0, i1, i2 = h0 - abs(a0), h1 - abs(a1), h2 - abs(a2)
            length = 1.0
            if i0 <= i1 and i0 <= i2:
                b0, distance = math.copysign(1.0, a0), -i0
            elif i1 <= i2:
                b1, distance = math.copysign(1.0, a1), -i1
            else:
                b2, distance = math.copysign(1.0, a2), -i2
    b0, b1, b2 = b0 / length, b1 / length, b2 / length
    return (
        axes[s, 0, 0] * b0 + axes[s, 0, 1] * b1 + axes[s, 0, 2] * b2,
        axes[s, 1, 0] * b0 + axes[s, 1, 1] * b1 + axes[s, 1, 2] * b2,
        axes[s, 2, 0] * b0 + axes[s, 2, 1] * b1 + axes[s, 2, 2] * b2,
        distance,
    )


@jit
def clearances(kind, size, offset, tilt, home, points):
    """Return the distance (n,) from `points` (n, 3) to the nearest shape, every body at `home` (S, 7); negative inside."""
    least = np.full(len(points), np.inf)
    centre, axes = np.zeros((len(kind), 3)), np.zeros((len(kind), 3, 3))
    for s in range(len(kind)):
        put_shape(s, s, home[:, :3], home[:, 3:], offset, tilt, centre, axes)
        for i in range(len(points)):
            _, _, _, away = nearest(kind, size, centre, axes, s, points[i, 0], points[i, 1], points[i, 2])
            least[i] = min(least[i], away)
    return least
