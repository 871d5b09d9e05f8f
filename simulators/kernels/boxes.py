"""Where boxes touch, in compiled code: corners against planes, and box against box by separating axes.

It refuses to know velocities and forces. A box is its centre (3,), its rotation (3, 3) and half its edges (3,).
"""

from __future__ import annotations

import math

from simulators.compiled import borrowing
from simulators.kernels.impulses import GAP, NORMAL, POINT_A, POINT_B

FACE_BIAS = 1e-6  # m: an axis across two edges must be this much better than a face's, or rounding would choose between them


@borrowing
def set_corners(half, turns, b, out):
    """Write the corners (8, 3) of box `b` from its centre, in world axes, into `out`; `turns` (B, 3, 3)."""
    for i in range(3):
        x, y, z = turns[b, i, 0] * half[0], turns[b, i, 1] * half[1], turns[b, i, 2] * half[2]
        for number in range(8):
            out[number, i] = (x if number & 1 else -x) + (y if number & 2 else -y) + (z if number & 4 else -z)


@borrowing
def _add_contact(contacts, pairs, count, a, b, point, pos_a, pos_b, normal, sign, gap):
    """Append the contact at `point` (3,) whose normal towards body `a` is `sign` times `normal`; return the new count."""
    if count == len(contacts):
        return count
    for i in range(3):
        contacts[count, POINT_A + i] = point[i] - pos_a[i]
        contacts[count, POINT_B + i] = point[i] - pos_b[i]
        contacts[count, NORMAL + i] = sign * normal[i]
    contacts[count, GAP] = gap
    pairs[count, 0], pairs[count, 1], pairs[count, 2] = a, b, -1  # no guess of its impulse is kept
    return count + 1


@borrowing
def separating_axis(pos_a, turn_a, half_a, pos_b, turn_b, half_b, axis):
    """Return how far apart two boxes are [m] along their best separating axis, which one, and write it (from b to a).

    The distance is a lower bound of the true one; negative, it is the least overlap. The number is 0 to 2 for a face of a, 3
    to 5 for one of b, and 6 + 3 i + j for the cross product of edges i of a and j of b (Gottschalk, Lin, Manocha 1996).
    """
    best, which = -1e30, -1
    for number in range(15):
        if number < 3:
            x, y, z = turn_a[0, number], turn_a[1, number], turn_a[2, number]
        elif number < 6:
            x, y, z = turn_b[0, number - 3], turn_b[1, number - 3], turn_b[2, number - 3]
        else:
            i, j = (number - 6) // 3, (number - 6) % 3
            ax, ay, az = turn_a[0, i], turn_a[1, i], turn_a[2, i]
            bx, by, bz = turn_b[0, j], turn_b[1, j], turn_b[2, j]
            x, y, z = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
            size = math.sqrt(x * x + y * y + z * z)
            if size < 1e-6:  # parallel edges: a face's axis serves
                continue
            x, y, z = x / size, y / size, z / size
        reach = 0.0
        for k in range(3):
            reach += half_a[k] * abs(x * turn_a[0, k] + y * turn_a[1, k] + z * turn_a[2, k])
            reach += half_b[k] * abs(x * turn_b[0, k] + y * turn_b[1, k] + z * turn_b[2, k])
        along = x * (pos_a[0] - pos_b[0]) + y * (pos_a[1] - pos_b[1]) + z * (pos_a[2] - pos_b[2])
        apart = abs(along) - reach
        if apart > best + (FACE_BIAS if number >= 6 else 0.0):
            sign = 1.0 if along >= 0.0 else -1.0
            best, which = apart, number
            axis[0], axis[1], axis[2] = sign * x, sign * y, sign * z
    return best, which


@borrowing
def touch_boxes(pos_a, turn_a, half_a, pos_b, turn_b, half_b, a, b, margin, contacts, pairs, count, axis, polygon, clipped):
    """Append the contacts of box a with box b (body number negative: fixed) that are less than `margin` [m] open.

    Returns the new count and the separation along the best axis. A face is met by the other box's nearest face, clipped to
    it; two edges meet in one point. `axis` (3,), `polygon` and `clipped` (16, 3) are working memory.
    """
    apart, which = separating_axis(pos_a, turn_a, half_a, pos_b, turn_b, half_b, axis)
    if apart > margin:
        return count, apart
    if which >= 6:
        _edge_point(pos_a, turn_a, half_a, (which - 6) // 3, pos_b, turn_b, half_b, (which - 6) % 3, axis, polygon)
        return _add_contact(contacts, pairs, count, a, b, polygon[0], pos_a, pos_b, axis, 1.0, apart), apart
    if which < 3:  # the face is a's: outwards is away from the axis, which points to a
        pos, turn, half, face, outwards = pos_a, turn_a, half_a, which, -1.0
        pos_o, turn_o, half_o = pos_b, turn_b, half_b
    else:
        pos, turn, half, face, outwards = pos_b, turn_b, half_b, which - 3, 1.0
        pos_o, turn_o, half_o = pos_a, turn_a, half_a
    points = _meet_face(pos, turn, half, face, outwards, pos_o, turn_o, half_o, axis, polygon, clipped)
    for i in range(points):
        point = polygon[i]
        gap = -half[face]
        for k in range(3):
            gap += outwards * axis[k] * (point[k] - pos[k])
        if gap <= margin:
            count = _add_contact(contacts, pairs, count, a, b, point, pos_a, pos_b, axis, 1.0, gap)
    return count, apart


@borrowing
def _edge_point(pos_a, turn_a, half_a, i, pos_b, turn_b, half_b, j, axis, out):
    """Write the middle of the nearest points of edge direction i of a and j of b, on the edges that face each other."""
    along = 0.0
    first, second = 0.0, 0.0
    for k in range(3):
        at_a, at_b = pos_a[k], pos_b[k]
        for m in range(3):
            side_a = axis[0] * turn_a[0, m] + axis[1] * turn_a[1, m] + axis[2] * turn_a[2, m]
            side_b = axis[0] * turn_b[0, m] + axis[1] * turn_b[1, m] + axis[2] * turn_b[2, m]
            if m != i:
                at_a -= math.copysign(half_a[m], side_a) * turn_a[k, m]
            if m != j:
                at_b += math.copysign(half_b[m], side_b) * turn_b[k, m]
        out[0, k], out[1, k] = at_a, at_b
        along += turn_a[k, i] * turn_b[k, j]
    for k in range(3):
        first += turn_a[k, i] * (out[1, k] - out[0, k])
        second += turn_b[k, j] * (out[1, k] - out[0, k])
    scale = 1.0 / max(1.0 - along * along, 1e-12)
    s, t = (first - along * second) * scale, (along * first - second) * scale
    for k in range(3):
        out[0, k] = 0.5 * (out[0, k] + s * turn_a[k, i] + out[1, k] + t * turn_b[k, j])


@borrowing
def _meet_face(pos, turn, half, face, outwards, pos_o, turn_o, half_o, axis, polygon, clipped):
    """Write into `polygon` the other box's face that is nearest to face `face`, clipped to its sides; return its points."""
    facing, size = 0, -1.0
    for m in range(3):
        along = abs(axis[0] * turn_o[0, m] + axis[1] * turn_o[1, m] + axis[2] * turn_o[2, m])
        if along > size:
            facing, size = m, along
    side = outwards * (axis[0] * turn_o[0, facing] + axis[1] * turn_o[1, facing] + axis[2] * turn_o[2, facing])
    u, v = (facing + 1) % 3, (facing + 2) % 3
    for number in range(4):
        su = half_o[u] if number in (1, 2) else -half_o[u]
        sv = half_o[v] if number in (2, 3) else -half_o[v]
        for k in range(3):
            polygon[number, k] = (
                pos_o[k] - math.copysign(half_o[facing], side) * turn_o[k, facing] + su * turn_o[k, u] + sv * turn_o[k, v]
            )
    points = 4
    for other in range(3):
        if other == face:
            continue
        for sign in (-1.0, 1.0):  # Sutherland and Hodgman 1974
            kept = 0
            for i in range(points):
                here, there = polygon[i], polygon[(i + 1) % points]
                in_here, in_there = half[other], half[other]
                for k in range(3):
                    in_here -= sign * turn[k, other] * (here[k] - pos[k])
                    in_there -= sign * turn[k, other] * (there[k] - pos[k])
                if in_here >= 0.0:
                    for k in range(3):
                        clipped[kept, k] = here[k]
                    kept += 1
                if (in_here >= 0.0) != (in_there >= 0.0):
                    share = in_here / (in_here - in_there)
                    for k in range(3):
                        clipped[kept, k] = here[k] + share * (there[k] - here[k])
                    kept += 1
            points = kept
            for i in range(points):
                for k in range(3):
                    polygon[i, k] = clipped[i, k]
    return points
