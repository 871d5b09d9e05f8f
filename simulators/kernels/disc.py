"""A rounded disc that flies above a plane, in closed form and compiled code: where it is, and when its rim meets the plane.

It refuses to know what a contact does, or what a face is. A disc's state is a row of `NUMBERS`: pos 3, quat 4, vel 3, angular
momentum 3, eight numbers of the contact; its constants `k` are radius, half thickness (both without the rounding), rounding,
how far the middle is from the centre of mass along the normal [m], 1/mass, 1/moment across and along [SI], restitution,
friction, angular damping [1/s], gravity, and how uneven coin and table are: nearer to flat than that [m] across its diameter,
a coin claps.
"""

from __future__ import annotations

import math

from simulators.compiled import borrowing

CLOSE = 1e-10  # m: how near the table an impact is found
LIFT, STEP, TOUCH, NUMBERS = 13, 14, 15, 21  # of a coin's state in here, after pos 3, quat 4, vel 3 and angular momentum 3


@borrowing
def copy(source, to):
    """Copy a coin's pose and motion; a slice's assignment costs numba as much as a contact."""
    for i in range(LIFT):
        to[i] = source[i]


@borrowing
def normal(s):
    """Return the coin's normal (x, y, z): towards its heads side."""
    x, y, z, w = s[3], s[4], s[5], s[6]
    return 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)


@borrowing
def gap_of(height, c, k):
    """Return how far [m] the lowest point of the rim is above the table, the normal's upward part being `c`."""
    return height + k[3] * c - k[2] - k[0] * math.sqrt(max(0.0, 1.0 - c * c)) - k[1] * abs(c)


@borrowing
def turn(s, hx, hy, hz, hw, spin, spin_w):
    """Turn the coin by the quaternion h in world axes, and by (0, 0, spin, spin_w) about its own normal before."""
    x, y, z, w = s[3], s[4], s[5], s[6]
    x, y, z, w = (
        x * spin_w + y * spin,
        y * spin_w - x * spin,
        z * spin_w + w * spin,
        w * spin_w - z * spin,
    )
    a = hw * x + hx * w + hy * z - hz * y
    b = hw * y + hy * w + hz * x - hx * z
    c = hw * z + hz * w + hx * y - hy * x
    d = hw * w - hx * x - hy * y - hz * z
    scale = 1.0 / math.sqrt(a * a + b * b + c * c + d * d)
    s[3], s[4], s[5], s[6] = a * scale, b * scale, c * scale, d * scale


@borrowing
def fly(s, k, time, damping):
    """Move the coin by a flight of `time` [s]: closed form. `s` holds pos 3, quat 4, vel 3, angular momentum 3."""
    gravity = k[10]
    s[0] += s[7] * time
    s[1] += s[8] * time
    s[2] += s[9] * time - 0.5 * gravity * time * time
    s[9] -= gravity * time
    kept = math.exp(-damping * time)
    lasting = (1.0 - kept) / damping if damping > 0.0 else time
    nx, ny, nz = normal(s)
    size = math.sqrt(s[10] * s[10] + s[11] * s[11] + s[12] * s[12])
    along = s[10] * nx + s[11] * ny + s[12] * nz
    half = 0.5 * size * k[5] * lasting
    spin = 0.5 * along * (k[6] - k[5]) * lasting
    share = math.sin(half) / size if size > 0.0 else 0.0
    turn(s, s[10] * share, s[11] * share, s[12] * share, math.cos(half), math.sin(spin), math.cos(spin))
    s[10] *= kept
    s[11] *= kept
    s[12] *= kept


@borrowing
def drift(s, k, time):
    """Move the coin by its velocities alone for a short `time` [s]; tan(x/2) is taken as x/2 in its turning."""
    s[0] += s[7] * time
    s[1] += s[8] * time
    s[2] += s[9] * time
    nx, ny, nz = normal(s)
    along = s[10] * nx + s[11] * ny + s[12] * nz
    share = 0.5 * k[5] * time
    turn(s, s[10] * share, s[11] * share, s[12] * share, 1.0, 0.5 * along * (k[6] - k[5]) * time, 1.0)


@borrowing
def meets(s, k, longest, least, damping):
    """Return after how many seconds, up to `longest`, the rim meets the table (a hair above it), or -1 if it does not."""
    gravity = k[10]
    height, rise = s[2], s[9]
    nx, ny, nz = normal(s)
    size = math.sqrt(s[10] * s[10] + s[11] * s[11] + s[12] * s[12])
    rate = size * k[5]
    if size > 0.0:
        lx, ly, lz = s[10] / size, s[11] / size, s[12] / size
    else:
        lx, ly, lz = 0.0, 0.0, 1.0
    cosine = lx * nx + ly * ny + lz * nz
    # The normal's upward part over time is mean + even cos(phi) + odd sin(phi).
    mean = lz * cosine
    even = nz - mean
    odd = lx * ny - ly * nx
    fastest = rate * math.sqrt(max(0.0, 1.0 - cosine * cosine)) * (math.hypot(k[0], k[1]) + abs(k[3]))
    time, gap = 0.0, max(0.0, gap_of(height, nz, k))
    while time < longest:
        closing = rise - gravity * time - fastest
        ahead = (closing + math.sqrt(closing * closing + 2.0 * gravity * gap)) / gravity
        later = min(time + max(ahead, least), longest)
        now = _gap_later(later, k, height, rise, rate, mean, even, odd, damping)
        if now < 0.0:
            # Illinois: false position that halves the weight of an end which stays.
            low, high, low_gap, high_gap = time, later, gap, now
            side = 0
            for _ in range(100):
                if high - low < 1e-12 or (low_gap < CLOSE and low > time):
                    break
                middle = (low * high_gap - high * low_gap) / (high_gap - low_gap)
                if not low < middle < high:
                    middle = 0.5 * (low + high)
                value = _gap_later(middle, k, height, rise, rate, mean, even, odd, damping)
                if value >= 0.0:
                    low, low_gap = middle, value
                    if side == 1:
                        high_gap *= 0.5
                    side = 1
                else:
                    high, high_gap = middle, value
                    if side == -1:
                        low_gap *= 0.5
                    side = -1
            return low
        time, gap = later, now
    return -1.0


@borrowing
def _gap_later(time, k, height, rise, rate, mean, even, odd, damping):
    lasting = (1.0 - math.exp(-damping * time)) / damping if damping > 0.0 else time
    phase = rate * lasting
    c = mean + even * math.cos(phase) + odd * math.sin(phase)
    return gap_of(height + rise * time - 0.5 * k[10] * time * time, min(1.0, max(-1.0, c)), k)


@borrowing
def show(s, k, out):
    """Write the pose and velocities (13,) of `s`: its angular momentum becomes spin."""
    nx, ny, nz = normal(s)
    along = (s[10] * nx + s[11] * ny + s[12] * nz) * (k[6] - k[5])
    for i in range(10):
        out[i] = s[i]
    out[10] = s[10] * k[5] + along * nx
    out[11] = s[11] * k[5] + along * ny
    out[12] = s[12] * k[5] + along * nz


@borrowing
def take_up(body, s, k, step):
    """Set the state `s` to a body (13,) in flight: its spin becomes angular momentum."""
    for i in range(13):
        s[i] = body[i]
    s[LIFT], s[STEP] = 0.0, step
    nx, ny, nz = normal(s)
    along = (s[10] * nx + s[11] * ny + s[12] * nz) * (1.0 / k[6] - 1.0 / k[5])
    s[10], s[11], s[12] = s[10] / k[5] + along * nx, s[11] / k[5] + along * ny, s[12] / k[5] + along * nz
