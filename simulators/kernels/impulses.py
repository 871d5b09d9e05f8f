"""Rigid bodies in compiled code: free motion with gyroscopic terms, and the impulses of contacts with Coulomb friction.

It refuses to know any shape: whoever calls it says where bodies touch.
"""

from __future__ import annotations

import math

from simulators.compiled import jit

# Columns of a contact: points from the centres of bodies a and b, unit normal from b to a [m], gap [m] (negative: overlap),
# and the normal speed [m/s] that the solver leaves at least.
POINT_A, POINT_B, NORMAL, GAP, TARGET, CONTACT_NUMBERS = 0, 3, 6, 9, 10, 11
# Columns of one direction of a contact: the direction, for a and for b its arm r x d and what a unit impulse adds to the
# spin, the speed along d that a unit impulse makes, and the impulse so far.
ARM_A, SPIN_A, ARM_B, SPIN_B, MOBILITY, IMPULSE, ROW_NUMBERS = 3, 6, 9, 12, 15, 16, 17
TANGENT_SLIP = 1e-9  # m/s: slower, a slip has no direction


@jit
def rotation_matrix(body, out):
    """Write the rotation from body to world axes (3, 3) of a `body` (13,) into `out`."""
    x, y, z, w = body[3], body[4], body[5], body[6]
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    out[1, 0], out[1, 1], out[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    out[2, 0], out[2, 1], out[2, 2] = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


@jit
def inverse_inertia(turn, moments, out):
    """Write the inverse inertia tensor in world axes (3, 3) of a body turned by `turn` (3, 3) into `out`."""
    for i in range(3):
        for j in range(i, 3):
            total = 0.0
            for k in range(3):
                total += turn[i, k] * turn[j, k] / moments[k]
            out[i, j] = total
            out[j, i] = total


@jit
def _turn(body, rx, ry, rz):
    """Turn `body` by the rotation vector (rx, ry, rz) [rad, world axes]; its spin is left as it is."""
    angle = math.sqrt(rx * rx + ry * ry + rz * rz)
    if angle == 0.0:
        return
    s = math.sin(0.5 * angle) / angle
    ax, ay, az, aw = s * rx, s * ry, s * rz, math.cos(0.5 * angle)
    x, y, z, w = body[3], body[4], body[5], body[6]
    nx, ny = aw * x + w * ax + ay * z - az * y, aw * y + w * ay + az * x - ax * z
    nz, nw = aw * z + w * az + ax * y - ay * x, aw * w - ax * x - ay * y - az * z
    scale = 1.0 / math.sqrt(nx * nx + ny * ny + nz * nz + nw * nw)
    body[3], body[4], body[5], body[6] = nx * scale, ny * scale, nz * scale, nw * scale


@jit
def turn_freely(body, moments, dt):
    """Let a body (13,) without torque turn for `dt` [s].

    Equal moments turn at a constant spin: exact. Others go by rotations about the body's own axes in turn, there and back
    (McLachlan 1993, Phys. Rev. Lett. 71, 3043): angular momentum is kept to rounding and energy to second order, in
    substeps of at most a twentieth of a radian.
    """
    a, b, c = moments[0], moments[1], moments[2]
    wx, wy, wz = body[10], body[11], body[12]
    if a == b and b == c:
        _turn(body, wx * dt, wy * dt, wz * dt)
        return
    speed = math.sqrt(wx * wx + wy * wy + wz * wz)
    substeps = int(math.ceil(speed * abs(dt) / 0.05))
    if substeps == 0:
        return
    step = dt / substeps
    # Angular momentum L in world axes stays; each rotation is about one body axis by its own share of L.
    ux, uy, uz = _to_body(body, wx, wy, wz)
    lx, ly, lz = _to_world(body, a * ux, b * uy, c * uz)
    for _ in range(substeps):
        for axis, share in ((0, 0.5), (1, 0.5), (2, 1.0), (1, 0.5), (0, 0.5)):
            bx, by, bz = _to_body(body, lx, ly, lz)
            rate = (bx / a, by / b, bz / c)[axis] * share * step
            ex, ey, ez = _to_world(body, 1.0 if axis == 0 else 0.0, 1.0 if axis == 1 else 0.0, 1.0 if axis == 2 else 0.0)
            _turn(body, rate * ex, rate * ey, rate * ez)
    bx, by, bz = _to_body(body, lx, ly, lz)
    body[10], body[11], body[12] = _to_world(body, bx / a, by / b, bz / c)


@jit
def _to_world(body, vx, vy, vz):
    x, y, z, w = body[3], body[4], body[5], body[6]
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return vx + w * tx + y * tz - z * ty, vy + w * ty + z * tx - x * tz, vz + w * tz + x * ty - y * tx


@jit
def _to_body(body, vx, vy, vz):
    x, y, z, w = -body[3], -body[4], -body[5], body[6]
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return vx + w * tx + y * tz - z * ty, vy + w * ty + z * tx - x * tz, vz + w * tz + x * ty - y * tx


@jit
def normal_speed(bodies, contact, a, b):
    """Return how fast [m/s] the bodies of a contact (negative `b`: what is fixed) part along its normal."""
    speed = _point_speed(bodies[a], contact, POINT_A)
    return speed if b < 0 else speed - _point_speed(bodies[b], contact, POINT_B)


@jit
def _point_speed(body, contact, at):
    rx, ry, rz = contact[at], contact[at + 1], contact[at + 2]
    wx, wy, wz = body[10], body[11], body[12]
    return (
        contact[6] * (body[7] + wy * rz - wz * ry)
        + contact[7] * (body[8] + wz * rx - wx * rz)
        + contact[8] * (body[9] + wx * ry - wy * rx)
    )


@jit
def _row(row, contact, a, b, inverse_mass, inertias):
    """Fill in what a unit impulse along the row's direction does."""
    dx, dy, dz = row[0], row[1], row[2]
    mobility = inverse_mass
    for side in range(2):
        body = a if side == 0 else b
        if body < 0:
            continue
        at, arm = (POINT_A, ARM_A) if side == 0 else (POINT_B, ARM_B)
        rx, ry, rz = contact[at], contact[at + 1], contact[at + 2]
        cx, cy, cz = ry * dz - rz * dy, rz * dx - rx * dz, rx * dy - ry * dx
        row[arm], row[arm + 1], row[arm + 2] = cx, cy, cz
        inertia = inertias[body]
        for i in range(3):
            row[arm + 3 + i] = inertia[i, 0] * cx + inertia[i, 1] * cy + inertia[i, 2] * cz
        mobility += cx * row[arm + 3] + cy * row[arm + 4] + cz * row[arm + 5]
        if side == 1:
            mobility += inverse_mass
    row[MOBILITY], row[IMPULSE] = mobility, 0.0


@jit
def _speed(bodies, row, a, b):
    one = bodies[a]
    speed = row[0] * one[7] + row[1] * one[8] + row[2] * one[9]
    speed += row[3] * one[10] + row[4] * one[11] + row[5] * one[12]
    if b >= 0:
        other = bodies[b]
        speed -= row[0] * other[7] + row[1] * other[8] + row[2] * other[9]
        speed -= row[9] * other[10] + row[10] * other[11] + row[11] * other[12]
    return speed


@jit
def _push(bodies, row, a, b, inverse_mass, impulse):
    for i in range(3):
        bodies[a, 7 + i] += impulse * inverse_mass * row[i]
        bodies[a, 10 + i] += impulse * row[SPIN_A + i]
        if b >= 0:
            bodies[b, 7 + i] -= impulse * inverse_mass * row[i]
            bodies[b, 10 + i] -= impulse * row[SPIN_B + i]


@jit
def solve(bodies, contacts, pairs, count, rows, inverse_mass, inertias, friction, iterations):
    """Change the velocities of `bodies` (B, 13) by the impulses of `count` contacts, all of them at once.

    Projected Gauss-Seidel, as in Bullet: each normal speed ends at its target or above with an impulse that only pushes, and
    the two tangential ones stop the slip as far as the cone of Coulomb friction allows. `contacts` (N, 11), `pairs` (N, 2),
    `rows` (N, 3, 17) is working memory, `inertias` (B, 3, 3) the inverse tensors in world axes. It ends when a round changes
    no speed by a micrometre a second, or after `iterations`.
    """
    for i in range(count):
        contact, a, b = contacts[i], pairs[i, 0], pairs[i, 1]
        nx, ny, nz = contact[NORMAL], contact[NORMAL + 1], contact[NORMAL + 2]
        one = bodies[a]
        rx, ry, rz = contact[0], contact[1], contact[2]
        vx = one[7] + one[11] * rz - one[12] * ry
        vy = one[8] + one[12] * rx - one[10] * rz
        vz = one[9] + one[10] * ry - one[11] * rx
        if b >= 0:
            other = bodies[b]
            rx, ry, rz = contact[3], contact[4], contact[5]
            vx -= other[7] + other[11] * rz - other[12] * ry
            vy -= other[8] + other[12] * rx - other[10] * rz
            vz -= other[9] + other[10] * ry - other[11] * rx
        vn = vx * nx + vy * ny + vz * nz
        tx, ty, tz = vx - vn * nx, vy - vn * ny, vz - vn * nz
        size = math.sqrt(tx * tx + ty * ty + tz * tz)
        if size < TANGENT_SLIP:  # any direction across the normal
            if abs(nz) > 0.7:
                tx, ty, tz = nz, 0.0, -nx
            else:
                tx, ty, tz = ny, -nx, 0.0
            size = math.sqrt(tx * tx + ty * ty + tz * tz)
        tx, ty, tz = tx / size, ty / size, tz / size
        row = rows[i]
        row[0, 0], row[0, 1], row[0, 2] = nx, ny, nz
        row[1, 0], row[1, 1], row[1, 2] = tx, ty, tz
        row[2, 0], row[2, 1], row[2, 2] = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        for k in range(3):
            _row(row[k], contact, a, b, inverse_mass, inertias)
    for _ in range(iterations):
        change = 0.0
        for i in range(count):
            a, b, row = pairs[i, 0], pairs[i, 1], rows[i]
            mobility, before = row[0, MOBILITY], row[0, IMPULSE]
            after = max(0.0, before + (contacts[i, TARGET] - _speed(bodies, row[0], a, b)) / mobility)
            if after != before:
                _push(bodies, row[0], a, b, inverse_mass, after - before)
                row[0, IMPULSE] = after
                change = max(change, abs(after - before) * mobility)
            if friction == 0.0 or (after == 0.0 and before == 0.0):
                continue
            was_1, was_2 = row[1, IMPULSE], row[2, IMPULSE]
            now_1 = was_1 - _speed(bodies, row[1], a, b) / row[1, MOBILITY]
            now_2 = was_2 - _speed(bodies, row[2], a, b) / row[2, MOBILITY]
            size, most = math.sqrt(now_1 * now_1 + now_2 * now_2), friction * after
            if size > most:
                now_1, now_2 = now_1 * most / size, now_2 * most / size
            _push(bodies, row[1], a, b, inverse_mass, now_1 - was_1)
            _push(bodies, row[2], a, b, inverse_mass, now_2 - was_2)
            row[1, IMPULSE], row[2, IMPULSE] = now_1, now_2
            change = max(change, abs(now_1 - was_1) * row[1, MOBILITY], abs(now_2 - was_2) * row[2, MOBILITY])
        if change < 1e-6:
            break
