"""The mechanics of a ball in a plane: when a parabola meets an edge, what an impact does, how a ball slides and rolls.

Plain compiled functions of numbers. They refuse to know of time limits, readings and rollouts.
"""

from __future__ import annotations

import math

from simulators.compiled import borrowing
from simulators.kernels.planar_shapes import CIRCLE, CX, CZ, SIZE, TX, TZ

SLOW = 1e-9  # m/s: a slip, or a speed, that counts as none
APPROACH = 1e-12  # m/s: what touches and comes no nearer than that fast does not collide
DEEP = 1e-3  # m: how far behind a side the ball still came through its face: the other faces lie a ball's diameter away
INERTIA = 0.4  # of a solid sphere, in m r^2
NEAR = 1e-14  # of a radius squared: a square of the distance that counts as touching; its own rounding is some 1e-16 of it
NEWTON = 100


@borrowing
def first_hit(kind, edge, x, z, vx, vz, ax, az, dt):
    """Return when [s] in [0, dt] a point on a parabola first meets `edge` from outside, or inf."""
    if kind == CIRCLE:
        return _meets_circle(x - edge[CX], z - edge[CZ], edge[SIZE], vx, vz, ax, az, dt)
    tx, tz = edge[TX], edge[TZ]
    dx, dz = x - edge[CX], z - edge[CZ]
    off, vn, an = dz * tx - dx * tz, vz * tx - vx * tz, az * tx - ax * tz  # along the outward normal (-tz, tx)
    t = falls_through(off, vn, an)
    if t > dt:
        return math.inf
    along = dx * tx + dz * tz + t * (vx * tx + vz * tz + 0.5 * t * (ax * tx + az * tz))
    return t if 0.0 <= along <= edge[SIZE] else math.inf


@borrowing
def gap(kind, edge, x, z):
    """Return how far [m] a point is outside `edge`: negative within a circle, or just behind a side; inf beside one."""
    dx, dz = x - edge[CX], z - edge[CZ]
    if kind == CIRCLE:
        return math.sqrt(dx * dx + dz * dz) - edge[SIZE]
    along, off = dx * edge[TX] + dz * edge[TZ], dz * edge[TX] - dx * edge[TZ]
    return off if 0.0 <= along <= edge[SIZE] and off > -DEEP else math.inf


@borrowing
def falls_through(off, v, a):
    """Return when off + v t + a t^2/2 next becomes negative, or inf; at once where it is not positive and would go on."""
    if off <= 0.0:
        if v < -APPROACH or (v <= APPROACH and a < 0.0):
            return 0.0 if off > -DEEP else math.inf
        if v <= APPROACH or a >= 0.0:
            return math.inf
    square = v * v - 2.0 * a * off
    if square < 0.0:
        return math.inf
    root = math.sqrt(square)
    if v < 0.0:
        return 2.0 * off / (root - v)
    return (v + root) / -a if a < 0.0 else math.inf


@borrowing
def _meets_circle(dx, dz, radius, vx, vz, ax, az, dt):
    """Return when the distance from a circle's centre first falls to its radius; (dx, dz) is the way from the centre.

    The square of the distance is of fourth degree in time. Its curvature is of second, which cuts the time into at most three
    pieces, convex or concave. There Newton's method cannot miss: it starts from the convex side and never oversteps the root.
    """
    f0 = dx * dx + dz * dz - radius * radius
    f1 = 2.0 * (dx * vx + dz * vz)
    f2 = vx * vx + vz * vz + dx * ax + dz * az
    f3 = vx * ax + vz * az
    f4 = 0.25 * (ax * ax + az * az)
    touching, near = 2.0 * radius * APPROACH, NEAR * radius * radius
    if f0 <= near and (f1 < -touching or (f1 <= touching and f2 < 0.0)):
        return 0.0
    low, high = math.inf, math.inf  # where it is concave
    square = 9.0 * f3 * f3 - 24.0 * f4 * f2
    if f4 > 0.0 and square > 0.0:
        root = math.sqrt(square)
        low, high = (-3.0 * f3 - root) / (12.0 * f4), (-3.0 * f3 + root) / (12.0 * f4)
    t = _from_left(near, f0, f1, f2, f3, f4, 0.0, min(low, dt)) if low > 0.0 else math.inf
    if t == math.inf and low < dt and high > 0.0:
        t = _from_right(near, f0, f1, f2, f3, f4, max(low, 0.0), min(high, dt))
    if t == math.inf and high < dt:
        t = _from_left(near, f0, f1, f2, f3, f4, max(high, 0.0), dt)
    return t


@borrowing
def _from_left(near, f0, f1, f2, f3, f4, left, right):
    """Return the first root in [left, right], where the polynomial is convex and starts positive, or inf."""
    t = left
    for _ in range(NEWTON):
        value = f0 + t * (f1 + t * (f2 + t * (f3 + t * f4)))
        slope = f1 + t * (2.0 * f2 + t * (3.0 * f3 + t * 4.0 * f4))
        if slope >= 0.0 or t > right or (value <= near and t == left):
            return math.inf
        if value <= near:
            return t
        t -= value / slope
    return math.inf


@borrowing
def _from_right(near, f0, f1, f2, f3, f4, left, right):
    """Return the root in [left, right], where the polynomial is concave and does not start negative, or inf."""
    t = right
    for _ in range(NEWTON):
        value = f0 + t * (f1 + t * (f2 + t * (f3 + t * f4)))
        slope = f1 + t * (2.0 * f2 + t * (3.0 * f3 + t * 4.0 * f4))
        if (value > near and t == right) or slope >= 0.0:
            return math.inf
        if value >= -near:
            return t
        t = max(t - value / slope, left)
        if t == left:
            return left
    return math.inf


@borrowing
def impact(vx, vz, spin, nx, nz, radius, restitution, friction):
    """Return velocity and spin [rad/s about y] after an impact on a surface with outward normal (nx, nz), and its speed."""
    vn = min(vx * nx + vz * nz, 0.0)
    slip = vx * nz - vz * nx - spin * radius
    normal = -(1.0 + restitution) * vn
    most = friction * normal
    along = min(max(slip * INERTIA / (1.0 + INERTIA), -most), most)  # what would stop the slip, if friction can
    return (
        vx + normal * nx - along * nz,
        vz + normal * nz + along * nx,
        spin + along / (INERTIA * radius),
        -restitution * vn,
    )


@borrowing
def contact_rates(speed, spin, pull, press, friction, resist, radius):
    """Return how fast speed along a surface and spin change, and for how long [s] at most that holds.

    `pull` [m/s^2] acts along the surface and `press` into it; `resist` [m/s^2] is rolling friction. Rolling is speed = spin r.
    """
    most, slip = friction * press, speed - spin * radius
    moving = abs(speed) > SLOW
    if abs(slip) <= SLOW:
        if not moving and abs(pull) <= min(resist, most):
            return 0.0, 0.0, math.inf
        rate = (pull - math.copysign(resist, speed if moving else pull)) / (1.0 + INERTIA)
        if abs(rate - pull) <= most and (moving or abs(pull) > resist):
            return rate, rate / radius, -speed / rate if moving and speed * rate < 0.0 else math.inf
    rub = math.copysign(most, slip if abs(slip) > SLOW else pull)
    rate, turning = pull - rub, rub
    if abs(spin * radius) > SLOW:
        turning -= math.copysign(resist, spin)
    else:
        turning -= math.copysign(min(resist, abs(turning)), turning)
    turn = turning / (INERTIA * radius)
    change = rate - turn * radius
    lasts = -slip / change if abs(slip) > SLOW and slip * change < 0.0 else math.inf
    if abs(spin * radius) > SLOW and spin * turn < 0.0:
        lasts = min(lasts, -spin / turn)
    return rate, turn, lasts


@borrowing
def holds(nx, nz, friction, slip, mx, mz, gravity):
    """Return the presses [m/s^2] of two surfaces that hold a ball between them, n rubbed by `slip`, m taken smooth.

    Both positive: it is caught. The surface n gives n - friction sgn(slip) t, with t along it; together they carry the weight.
    """
    rub = 0.0 if abs(slip) <= SLOW else math.copysign(friction, slip)
    ax, az = nx - rub * nz, nz + rub * nx
    area = ax * mz - az * mx
    if abs(area) < 1e-9:
        return -1.0, -1.0
    return -gravity * mx / area, gravity * ax / area
