"""Rigid bodies in compiled code: free motion with gyroscopic terms, and the impulses of contacts with Coulomb friction.

It refuses to know any shape: whoever calls it says where bodies touch.
"""

from __future__ import annotations

import math

from simulators.compiled import borrowing

# Columns of a contact: points from the centres of bodies a and b, unit normal from b to a [m], gap [m] (negative: overlap),
# and the normal speed [m/s] that the solver leaves at least.
POINT_A, POINT_B, NORMAL, GAP, TARGET, CONTACT_NUMBERS = 0, 3, 6, 9, 10, 11
# Columns of one direction of a contact: the direction d, and for a and for b the arm r x d and what a unit impulse adds to
# the spin.
ARM_A, SPIN_A, ARM_B, SPIN_B, ROW_NUMBERS = 3, 6, 9, 12, 15
TANGENT_SLIP = 1e-9  # m/s: slower, a slip has no direction
TOLERANCE = 1e-4  # m/s


@borrowing
def rotation_matrix(body, out):
    """Write the rotation from body to world axes (3, 3) of a `body` (13,) into `out`."""
    x, y, z, w = body[3], body[4], body[5], body[6]
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    out[1, 0], out[1, 1], out[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    out[2, 0], out[2, 1], out[2, 2] = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


@borrowing
def inverse_inertia(turn, moments, out):
    """Write the inverse inertia tensor in world axes (3, 3) of a body turned by `turn` (3, 3) into `out`."""
    for i in range(3):
        for j in range(i, 3):
            total = 0.0
            for k in range(3):
                total += turn[i, k] * turn[j, k] / moments[k]
            out[i, j] = total
            out[j, i] = total


@borrowing
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


@borrowing
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
    substeps = math.ceil(speed * abs(dt) / 0.05)
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


@borrowing
def _to_world(body, vx, vy, vz):
    x, y, z, w = body[3], body[4], body[5], body[6]
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return vx + w * tx + y * tz - z * ty, vy + w * ty + z * tx - x * tz, vz + w * tz + x * ty - y * tx


@borrowing
def _to_body(body, vx, vy, vz):
    x, y, z, w = -body[3], -body[4], -body[5], body[6]
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return vx + w * tx + y * tz - z * ty, vy + w * ty + z * tx - x * tz, vz + w * tz + x * ty - y * tx


@borrowing
def normal_speed(bodies, contacts, pairs, i):
    """Return how fast [m/s] the bodies of contact `i` part along its normal."""
    vx, vy, vz = _parting(bodies, contacts, pairs, i)
    return vx * contacts[i, 6] + vy * contacts[i, 7] + vz * contacts[i, 8]


@borrowing
def _parting(bodies, contacts, pairs, i):
    """Return the velocity of body a at contact `i` relative to that of b (negative: fixed)."""
    a, b = pairs[i, 0], pairs[i, 1]
    rx, ry, rz = contacts[i, 0], contacts[i, 1], contacts[i, 2]
    vx = bodies[a, 7] + bodies[a, 11] * rz - bodies[a, 12] * ry
    vy = bodies[a, 8] + bodies[a, 12] * rx - bodies[a, 10] * rz
    vz = bodies[a, 9] + bodies[a, 10] * ry - bodies[a, 11] * rx
    if b >= 0:
        rx, ry, rz = contacts[i, 3], contacts[i, 4], contacts[i, 5]
        vx -= bodies[b, 7] + bodies[b, 11] * rz - bodies[b, 12] * ry
        vy -= bodies[b, 8] + bodies[b, 12] * rx - bodies[b, 10] * rz
        vz -= bodies[b, 9] + bodies[b, 10] * ry - bodies[b, 11] * rx
    return vx, vy, vz


@borrowing
def _row(rows, r, contacts, i, pairs, inertias):
    """Fill in what a unit impulse along direction `r` of contact `i` does."""
    dx, dy, dz = rows[r, 0], rows[r, 1], rows[r, 2]
    for side in range(2):
        body = pairs[i, side]
        if body < 0:
            continue
        at, arm = (POINT_A, ARM_A) if side == 0 else (POINT_B, ARM_B)
        rx, ry, rz = contacts[i, at], contacts[i, at + 1], contacts[i, at + 2]
        cx, cy, cz = ry * dz - rz * dy, rz * dx - rx * dz, rx * dy - ry * dx
        rows[r, arm], rows[r, arm + 1], rows[r, arm + 2] = cx, cy, cz
        for m in range(3):
            rows[r, arm + 3 + m] = inertias[body, m, 0] * cx + inertias[body, m, 1] * cy + inertias[body, m, 2] * cz


@borrowing
def _coupling(rows, r, s, pairs, inverse_mass):
    """Return the speed along direction `r` that a unit impulse along direction `s` makes."""
    i, j = r // 3, s // 3
    direct = inverse_mass * (rows[r, 0] * rows[s, 0] + rows[r, 1] * rows[s, 1] + rows[r, 2] * rows[s, 2])
    total = 0.0
    for one in range(2):
        for other in range(2):
            if pairs[i, one] >= 0 and pairs[i, one] == pairs[j, other]:
                arm, spin = (ARM_A, ARM_B)[one], (SPIN_A, SPIN_B)[other]
                turned = rows[r, arm] * rows[s, spin] + rows[r, arm + 1] * rows[s, spin + 1]
                turned += rows[r, arm + 2] * rows[s, spin + 2]
                total += direct + turned if one == other else -direct - turned
    return total


@borrowing
def solve(bodies, contacts, pairs, count, rows, matrix, speeds, impulses, inverse_mass, inertias, friction, iterations):
    """Change the velocities of `bodies` (B, 13) by the impulses of `count` contacts, all of them at once.

    Projected Gauss-Seidel, as in Bullet: each normal speed ends at its target or above with an impulse that only pushes, and
    the two tangential ones stop the slip as far as the cone of Coulomb friction allows. `contacts` (N, 11), `pairs` (N, 2),
    `inertias` (B, 3, 3) the inverse tensors in world axes; `rows` (3N, 15), `matrix` (3N, 3N), `speeds` and `impulses` (3N,)
    are working memory. It ends when no impulse of a round is worth `TOLERANCE` of a body's speed, or after `iterations`.
    """
    for i in range(count):
        nx, ny, nz = contacts[i, NORMAL], contacts[i, NORMAL + 1], contacts[i, NORMAL + 2]
        vx, vy, vz = _parting(bodies, contacts, pairs, i)
        vn = vx * nx + vy * ny + vz * nz
        tx, ty, tz = vx - vn * nx, vy - vn * ny, vz - vn * nz
        size = math.sqrt(tx * tx + ty * ty + tz * tz)
        r = 3 * i
        # The first tangent is along the slip: the second has none.
        speeds[r], speeds[r + 1], speeds[r + 2] = vn, size, 0.0
        if size < TANGENT_SLIP:  # any direction across the normal
            speeds[r + 1] = 0.0
            if abs(nz) > 0.7:
                tx, ty, tz = nz, 0.0, -nx
            else:
                tx, ty, tz = ny, -nx, 0.0
            size = math.sqrt(tx * tx + ty * ty + tz * tz)
        tx, ty, tz = tx / size, ty / size, tz / size
        rows[r, 0], rows[r, 1], rows[r, 2] = nx, ny, nz
        rows[r + 1, 0], rows[r + 1, 1], rows[r + 1, 2] = tx, ty, tz
        rows[r + 2, 0], rows[r + 2, 1], rows[r + 2, 2] = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        for k in range(3):
            impulses[r + k] = 0.0
            _row(rows, r + k, contacts, i, pairs, inertias)
    size_of = 3 * count
    for r in range(size_of):
        for s in range(r, size_of):
            matrix[r, s] = _coupling(rows, r, s, pairs, inverse_mass)
            matrix[s, r] = matrix[r, s]
    for _ in range(iterations):
        change = 0.0
        for r in range(0, size_of, 3):
            before = impulses[r]
            after = max(0.0, before + (contacts[r // 3, TARGET] - speeds[r]) / matrix[r, r])
            if after != before:
                for s in range(size_of):
                    speeds[s] += matrix[r, s] * (after - before)
                impulses[r] = after
                change = max(change, abs(after - before))
            if friction == 0.0 or (after == 0.0 and before == 0.0):
                continue
            was_1, was_2 = impulses[r + 1], impulses[r + 2]
            now_1, now_2 = was_1 - speeds[r + 1] / matrix[r + 1, r + 1], was_2 - speeds[r + 2] / matrix[r + 2, r + 2]
            size, most = math.sqrt(now_1 * now_1 + now_2 * now_2), friction * after
            if size > most:
                now_1, now_2 = now_1 * most / size, now_2 * most / size
            for s in range(size_of):
                speeds[s] += matrix[r + 1, s] * (now_1 - was_1) + matrix[r + 2, s] * (now_2 - was_2)
            impulses[r + 1], impulses[r + 2] = now_1, now_2
            change = max(change, abs(now_1 - was_1), abs(now_2 - was_2))
        if change * inverse_mass < TOLERANCE:
            break
    for r in range(size_of):
        a, b, impulse = pairs[r // 3, 0], pairs[r // 3, 1], impulses[r]
        for m in range(3):
            bodies[a, 7 + m] += impulse * inverse_mass * rows[r, m]
            bodies[a, 10 + m] += impulse * rows[r, SPIN_A + m]
            if b >= 0:
                bodies[b, 7 + m] -= impulse * inverse_mass * rows[r, m]
                bodies[b, 10 + m] -= impulse * rows[r, SPIN_B + m]
