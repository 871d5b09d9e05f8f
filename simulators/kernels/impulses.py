"""Rigid bodies in compiled code: free motion with gyroscopic terms, and the impulses of contacts with Coulomb friction.

It refuses to know any shape: whoever calls it says where bodies touch.
"""

from __future__ import annotations

import math

from simulators.compiled import borrowing

# Columns of a contact: points from the centres of bodies a and b, unit normal from b to a [m], gap [m] (negative: overlap),
# the normal speed [m/s] before the solver and what it leaves at least.
POINT_A, POINT_B, NORMAL, GAP, SPEED, TARGET, CONTACT_NUMBERS = 0, 3, 6, 9, 10, 11, 12
# Columns of one direction of a contact: the direction d, for a and for b the arm r x d and what a unit impulse adds to the
# spin, and the impulse for a unit of speed.
ARM_A, SPIN_A, ARM_B, SPIN_B, WORTH, ROW_NUMBERS = 3, 6, 9, 12, 15, 16
TOLERANCE = 1e-4  # m/s
SMALL_TURN = 1e-3  # square of an angle [rad^2] below which three terms of the series are the sine to rounding


@borrowing
def rotation_matrix(body, out):
    """Write the rotation from body to world axes (3, 3) of a `body` (13,) into `out`."""
    x, y, z, w = body[3], body[4], body[5], body[6]
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    out[1, 0], out[1, 1], out[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    out[2, 0], out[2, 1], out[2, 2] = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


@borrowing
def inverse_inertia(turn, inverse_moments, out):
    """Write the inverse inertia tensor in world axes (3, 3) of a body turned by `turn` (3, 3) into `out`."""
    for i in range(3):
        x, y, z = inverse_moments[0] * turn[i, 0], inverse_moments[1] * turn[i, 1], inverse_moments[2] * turn[i, 2]
        for j in range(i, 3):
            out[i, j] = x * turn[j, 0] + y * turn[j, 1] + z * turn[j, 2]
            out[j, i] = out[i, j]


@borrowing
def _turn(body, rx, ry, rz):
    """Turn `body` by the rotation vector (rx, ry, rz) [rad, world axes]; its spin is left as it is."""
    square = rx * rx + ry * ry + rz * rz
    if square < SMALL_TURN:
        h = 0.25 * square
        s = 0.5 * (1.0 - h * (1.0 - h * (1.0 - h / 42.0) / 20.0) / 6.0)
        aw = 1.0 - 0.5 * h * (1.0 - h * (1.0 - h / 30.0) / 12.0)
    else:
        angle = math.sqrt(square)
        s, aw = math.sin(0.5 * angle) / angle, math.cos(0.5 * angle)
    ax, ay, az = s * rx, s * ry, s * rz
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
    return vx * contacts[i, 6] + vy * contacts[i, 7] + vz * contacts[i, 8]


@borrowing
def _set_side(rows, r, arm, contacts, i, at, inverse_mass, inertia):
    """Fill in one body's columns of direction `r` of contact `i`; return how fast [m/s] 1 N s makes it go there."""
    dx, dy, dz = rows[r, 0], rows[r, 1], rows[r, 2]
    rx, ry, rz = contacts[i, at], contacts[i, at + 1], contacts[i, at + 2]
    cx, cy, cz = ry * dz - rz * dy, rz * dx - rx * dz, rx * dy - ry * dx
    sx = inertia[0, 0] * cx + inertia[0, 1] * cy + inertia[0, 2] * cz
    sy = inertia[1, 0] * cx + inertia[1, 1] * cy + inertia[1, 2] * cz
    sz = inertia[2, 0] * cx + inertia[2, 1] * cy + inertia[2, 2] * cz
    rows[r, arm], rows[r, arm + 1], rows[r, arm + 2] = cx, cy, cz
    rows[r, arm + 3], rows[r, arm + 4], rows[r, arm + 5] = sx, sy, sz
    return inverse_mass + cx * sx + cy * sy + cz * sz


@borrowing
def _set_directions(rows, r, contacts, i):
    """Write the normal of contact `i` and two tangents as directions `r` to r + 2."""
    nx, ny, nz = contacts[i, NORMAL], contacts[i, NORMAL + 1], contacts[i, NORMAL + 2]
    if abs(nz) > 0.7:  # any direction across the normal: it depends on the normal alone, so that a guess keeps its axes
        size = math.sqrt(nx * nx + nz * nz)
        tx, ty, tz = nz / size, 0.0, -nx / size
    else:
        size = math.sqrt(nx * nx + ny * ny)
        tx, ty, tz = ny / size, -nx / size, 0.0
    rows[r, 0], rows[r, 1], rows[r, 2] = nx, ny, nz
    rows[r + 1, 0], rows[r + 1, 1], rows[r + 1, 2] = tx, ty, tz
    rows[r + 2, 0], rows[r + 2, 1], rows[r + 2, 2] = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx


@borrowing
def _along(bodies, rows, r, a, b):
    """Return how fast [m/s] bodies a and b (negative: fixed) part along direction `r`."""
    x, y, z = rows[r, 0], rows[r, 1], rows[r, 2]
    speed = (bodies[a, 7] * x + bodies[a, 8] * y + bodies[a, 9] * z) + (
        bodies[a, 10] * rows[r, ARM_A] + bodies[a, 11] * rows[r, ARM_A + 1] + bodies[a, 12] * rows[r, ARM_A + 2]
    )
    if b >= 0:
        speed -= bodies[b, 7] * x + bodies[b, 8] * y + bodies[b, 9] * z
        speed -= bodies[b, 10] * rows[r, ARM_B] + bodies[b, 11] * rows[r, ARM_B + 1] + bodies[b, 12] * rows[r, ARM_B + 2]
    return speed


@borrowing
def _push(bodies, rows, r, a, b, impulse, inverse_mass):
    """Give bodies a and b (negative: fixed) an `impulse` [N s] along direction `r`, and its opposite."""
    for m in range(3):
        bodies[a, 7 + m] += impulse * inverse_mass * rows[r, m]
        bodies[a, 10 + m] += impulse * rows[r, SPIN_A + m]
    if b >= 0:
        for m in range(3):
            bodies[b, 7 + m] -= impulse * inverse_mass * rows[r, m]
            bodies[b, 10 + m] -= impulse * rows[r, SPIN_B + m]


@borrowing
def solve(bodies, contacts, pairs, count, rows, impulses, inverse_mass, inertias, friction, iterations):
    """Change the velocities of `bodies` (B, 13) by the impulses of `count` contacts, all of them at once.

    Projected Gauss-Seidel, as in Bullet: each normal speed ends at its target or above with an impulse that only pushes, and
    the tangential impulse stops the slip as far as the cone of Coulomb friction allows; where it does not, it is opposite to
    the slip. `contacts` (N, 12), `pairs` (N, 3), `inertias` (B, 3, 3) the inverse tensors in world axes; `rows` (3N, 16) is
    working memory. `impulses` (3N,) [N s], along the normal and two tangents, are the guess to begin with and the result.
    It ends when no impulse of a round is worth `TOLERANCE` of a body's speed, or after `iterations`.
    """
    for i in range(count):
        a, b, r = pairs[i, 0], pairs[i, 1], 3 * i
        _set_directions(rows, r, contacts, i)
        for k in range(r, r + 3):
            total = _set_side(rows, k, ARM_A, contacts, i, POINT_A, inverse_mass, inertias[a])
            if b >= 0:
                total += _set_side(rows, k, ARM_B, contacts, i, POINT_B, inverse_mass, inertias[b])
            rows[k, WORTH] = 1.0 / total
        for k in range(r, r + 3):
            if impulses[k] != 0.0:
                _push(bodies, rows, k, a, b, impulses[k], inverse_mass)
    for _ in range(iterations):
        change = 0.0
        for i in range(count):
            a, b, r = pairs[i, 0], pairs[i, 1], 3 * i
            before = impulses[r]
            after = max(0.0, before + (contacts[i, TARGET] - _along(bodies, rows, r, a, b)) * rows[r, WORTH])
            if after != before:
                _push(bodies, rows, r, a, b, after - before, inverse_mass)
                impulses[r] = after
                change = max(change, abs(after - before))
            was_1, was_2 = impulses[r + 1], impulses[r + 2]
            if friction == 0.0 or (after == 0.0 and was_1 == 0.0 and was_2 == 0.0):
                continue
            # One worth for both, or what is left of the slip would not be opposite to the friction.
            worth = min(rows[r + 1, WORTH], rows[r + 2, WORTH])
            now_1 = was_1 - _along(bodies, rows, r + 1, a, b) * worth
            now_2 = was_2 - _along(bodies, rows, r + 2, a, b) * worth
            square, most = now_1 * now_1 + now_2 * now_2, friction * after
            if square > most * most:
                scale = most / math.sqrt(square)
                now_1, now_2 = now_1 * scale, now_2 * scale
            _push(bodies, rows, r + 1, a, b, now_1 - was_1, inverse_mass)
            _push(bodies, rows, r + 2, a, b, now_2 - was_2, inverse_mass)
            impulses[r + 1], impulses[r + 2] = now_1, now_2
            change = max(change, abs(now_1 - was_1), abs(now_2 - was_2))
        if change * inverse_mass < TOLERANCE:
            break


@borrowing
def solve_alone(body, contacts, count, rows, impulses, inverse_mass, inertia, friction, iterations):
    """Do what `solve` does, to the last bit, for one `body` (13,) whose contacts are all with what is fixed.

    Its velocity stays in registers, which takes half the time. `inertia` (3, 3) is its inverse tensor in world axes.
    """
    for i in range(count):
        r = 3 * i
        _set_directions(rows, r, contacts, i)
        for k in range(r, r + 3):
            rows[k, WORTH] = 1.0 / _set_side(rows, k, ARM_A, contacts, i, POINT_A, inverse_mass, inertia)
    vx, vy, vz, wx, wy, wz = body[7], body[8], body[9], body[10], body[11], body[12]
    for k in range(3 * count):
        if impulses[k] != 0.0:
            vx, vy, vz, wx, wy, wz = _pushed(vx, vy, vz, wx, wy, wz, rows, k, impulses[k], inverse_mass)
    for _ in range(iterations):
        change = 0.0
        for i in range(count):
            r = 3 * i
            before = impulses[r]
            after = max(0.0, before + (contacts[i, TARGET] - _speed(vx, vy, vz, wx, wy, wz, rows, r)) * rows[r, WORTH])
            if after != before:
                vx, vy, vz, wx, wy, wz = _pushed(vx, vy, vz, wx, wy, wz, rows, r, after - before, inverse_mass)
                impulses[r] = after
                change = max(change, abs(after - before))
            was_1, was_2 = impulses[r + 1], impulses[r + 2]
            if friction == 0.0 or (after == 0.0 and was_1 == 0.0 and was_2 == 0.0):
                continue
            worth = min(rows[r + 1, WORTH], rows[r + 2, WORTH])
            now_1 = was_1 - _speed(vx, vy, vz, wx, wy, wz, rows, r + 1) * worth
            now_2 = was_2 - _speed(vx, vy, vz, wx, wy, wz, rows, r + 2) * worth
            square, most = now_1 * now_1 + now_2 * now_2, friction * after
            if square > most * most:
                scale = most / math.sqrt(square)
                now_1, now_2 = now_1 * scale, now_2 * scale
            vx, vy, vz, wx, wy, wz = _pushed(vx, vy, vz, wx, wy, wz, rows, r + 1, now_1 - was_1, inverse_mass)
            vx, vy, vz, wx, wy, wz = _pushed(vx, vy, vz, wx, wy, wz, rows, r + 2, now_2 - was_2, inverse_mass)
            impulses[r + 1], impulses[r + 2] = now_1, now_2
            change = max(change, abs(now_1 - was_1), abs(now_2 - was_2))
        if change * inverse_mass < TOLERANCE:
            break
    body[7], body[8], body[9], body[10], body[11], body[12] = vx, vy, vz, wx, wy, wz


@borrowing
def _speed(vx, vy, vz, wx, wy, wz, rows, r):
    """Return how fast [m/s] a body of velocity v and spin w goes along direction `r`."""
    turning = wx * rows[r, ARM_A] + wy * rows[r, ARM_A + 1] + wz * rows[r, ARM_A + 2]
    return (vx * rows[r, 0] + vy * rows[r, 1] + vz * rows[r, 2]) + turning


@borrowing
def _pushed(vx, vy, vz, wx, wy, wz, rows, r, impulse, inverse_mass):
    """Return velocity and spin of a body after an `impulse` [N s] along direction `r`."""
    share = impulse * inverse_mass
    return (
        vx + share * rows[r, 0],
        vy + share * rows[r, 1],
        vz + share * rows[r, 2],
        wx + impulse * rows[r, SPIN_A],
        wy + impulse * rows[r, SPIN_A + 1],
        wz + impulse * rows[r, SPIN_A + 2],
    )
