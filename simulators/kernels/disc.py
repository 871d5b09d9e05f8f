"""A rounded disc above a plane in compiled code: flight in closed form, impacts, and a rim that stays on the plane.

It refuses to know what a face is. A disc's state in here is a row of `NUMBERS`: pos 3, quat 4, vel 3, angular momentum 3, and
two numbers of the contact; its constants `k` are radius and half thickness without the rounding, the rounding, how far the
middle is from the centre of mass along the normal [m], 1/mass, 1/moment across and along [SI], restitution, friction,
angular damping [1/s], gravity, and how uneven coin and table are: nearer to flat than that [m]
across its diameter, a coin claps.
"""

from __future__ import annotations

import math

from simulators.compiled import jit
from simulators.engines.loop import REST_DISTANCE

RESTITUTION_FROM = 0.05  # m/s: an approach slower than this does not bounce, as in the Bullet engine
FLIGHT_SHARE = 0.125  # of a step: the least that a flight is advanced by while it looks for the table
FINEST = 1.0 / 64.0  # of a step: how finely a contact that jumps across the coin at speed is looked at
FLAT = REST_DISTANCE / 2.0  # m: with less energy than lifts its centre by this, a coin lies
RING = 8  # points of its rim that a lying coin slides on
CLOSE = 1e-10  # m: how near the table an impact is found
SLIP_ROUNDS = 40  # of the fixed point that finds which way a contact slides

FLIES, STAYS, LIES, RESTS = 0, 1, 2, 3  # how a coin moves: free, held at its rim, flat and sliding, not at all
TRY_FINER = -1
LIFT, STEP, NUMBERS = 13, 14, 15  # of a coin's state in here, after pos 3, quat 4, vel 3 and angular momentum 3
HELD = 1e-6  # m: how near to the table a point that stays on it is kept
HOLDING_ROUNDS = 4


@jit
def copy(source, to):
    """Copy a coin's state; a slice's assignment costs numba as much as a contact."""
    for i in range(NUMBERS):
        to[i] = source[i]


@jit
def normal(s):
    """Return the coin's normal (x, y, z): towards its heads side."""
    x, y, z, w = s[3], s[4], s[5], s[6]
    return 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)


@jit
def gap_of(height, c, k):
    """Return how far [m] the lowest point of the rim is above the table, the normal's upward part being `c`."""
    return height + k[3] * c - k[2] - k[0] * math.sqrt(max(0.0, 1.0 - c * c)) - k[1] * abs(c)


@jit
def _turn(s, hx, hy, hz, hw, spin, spin_w):
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


@jit
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
    _turn(s, s[10] * share, s[11] * share, s[12] * share, math.cos(half), math.sin(spin), math.cos(spin))
    s[10] *= kept
    s[11] *= kept
    s[12] *= kept


@jit
def drift(s, k, time):
    """Move the coin by its velocities alone for a short `time` [s]; tan(x/2) is taken as x/2 in its turning."""
    s[0] += s[7] * time
    s[1] += s[8] * time
    s[2] += s[9] * time
    nx, ny, nz = normal(s)
    along = s[10] * nx + s[11] * ny + s[12] * nz
    share = 0.5 * k[5] * time
    _turn(s, s[10] * share, s[11] * share, s[12] * share, 1.0, 0.5 * along * (k[6] - k[5]) * time, 1.0)


@jit
def _meets(s, k, longest, least, damping):
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


@jit
def _gap_later(time, k, height, rise, rate, mean, even, odd, damping):
    lasting = (1.0 - math.exp(-damping * time)) / damping if damping > 0.0 else time
    phase = rate * lasting
    c = mean + even * math.cos(phase) + odd * math.sin(phase)
    return gap_of(height + rise * time - 0.5 * k[10] * time * time, min(1.0, max(-1.0, c)), k)


@jit
def _touch(s, k):
    """Return where the rim touches: the way out from the centre on the table (x, y), and r there and upwards [m].

    All of it lies in the upright plane through the coin's normal, so that the third direction is on its own.
    """
    nx, ny, nz = normal(s)
    side = 1.0 if nz >= 0.0 else -1.0
    tilt = math.sqrt(nx * nx + ny * ny)
    if tilt > 1e-14:
        ex, ey = side * nx / tilt, side * ny / tilt
    else:
        ex, ey = 1.0, 0.0
    out = k[3] * tilt * side + k[0] * abs(nz) - k[1] * tilt
    up = k[3] * nz - k[0] * tilt - k[1] * abs(nz) - k[2]
    return ex, ey, out, up, tilt * side, nz


@jit
def _velocity(s, k, place):
    """Return the touching point's velocity: outwards, across (z x outwards) and upwards [m/s]."""
    ex, ey, out, up, no, nz = place
    lo = s[10] * ex + s[11] * ey
    la = -s[10] * ey + s[11] * ex
    along = (lo * no + s[12] * nz) * (k[6] - k[5])
    wo, wa, wz = lo * k[5] + along * no, la * k[5], s[12] * k[5] + along * nz
    # omega x r in the axes (outwards, across, upwards)
    return s[7] * ex + s[8] * ey + wa * up, -s[7] * ey + s[8] * ex + wz * out - wo * up, s[9] - wa * out


@jit
def _strike(s, k, place, wanted):
    """Give the touching point (`place` of `_touch`) at least the upward velocity `wanted` [m/s]; return what it has then.

    The impulse pushes, if there is one, and its friction is within Coulomb's cone.
    """
    ex, ey, out, up, no, nz = place
    vo, va, vz = _velocity(s, k, place)
    if vz >= wanted:
        return vz
    friction = k[8]
    arm = out * nz - up * no
    oo, zz, oz = k[4] + up * up * k[5], k[4] + out * out * k[5], -out * up * k[5]
    aa = k[4] + (out * out + up * up) * k[5] + arm * arm * (k[6] - k[5])
    need = wanted - vz
    determinant = oo * zz - oz * oz
    po, pz = (-vo * zz - need * oz) / determinant, (need * oo + vo * oz) / determinant
    pa = -va / aa
    if pz < 0.0 or po * po + pa * pa > friction * friction * pz * pz:
        size = math.sqrt(vo * vo + va * va)
        do, da = (-vo / size, -va / size) if size > 0.0 else (0.0, 0.0)
        pz = need / (zz + friction * oz * do)
        stiff = max(oo, aa)
        for _ in range(SLIP_ROUNDS):
            # The cone's law, d = -v'/|v'|, is also d = -(v' - pz friction stiff d)/|...|, and this one converges.
            left = vo + pz * (oz + friction * (oo - stiff) * do)
            right = va + pz * friction * (aa - stiff) * da
            size = math.sqrt(left * left + right * right)
            if size == 0.0:
                break
            change = abs(left / size + do) + abs(right / size + da)
            do, da = -left / size, -right / size
            pz = need / (zz + friction * oz * do)
            if change < 1e-5:
                break
        po, pa = friction * pz * do, friction * pz * da
    px, py = po * ex - pa * ey, po * ey + pa * ex
    s[7] += px * k[4]
    s[8] += py * k[4]
    s[9] += pz * k[4]
    # r x p in the axes (outwards, across, upwards)
    lo, la = -up * pa, up * po - out * pz
    s[10] += lo * ex - la * ey
    s[11] += lo * ey + la * ex
    s[12] += out * pa
    return wanted


@jit
def _land(s, k):
    """Let the point that meets the table bounce, or stay; return whether it stays."""
    place = _touch(s, k)
    vz = _velocity(s, k, place)[2]
    if vz < -RESTITUTION_FROM and k[7] > 0.0:
        _strike(s, k, place, -k[7] * vz)
        return False
    _strike(s, k, place, 0.0)
    s[LIFT] = 0.0
    return True


@jit
def _stay(s, before, after, k, dt, damping, finest, widest):
    """Take one step of a coin whose rim stays on the table; return how it moves then, or TRY_FINER with nothing changed.

    `s[LIFT]` is the upward velocity [m/s] that the touching point needs for the point that touches next to end on the table:
    the last step's, corrected by what gap that one left. `s[STEP]` is how long [s] the next step may be for the touching
    point to move around the rim by `widest` [rad] at most.
    """
    kept = (1.0 - 0.25 * dt * damping) / (1.0 + 0.25 * dt * damping)  # exp(-damping dt/2) to second order
    weight = 0.5 * dt * k[10]
    place = _touch(s, k)
    start = gap_of(s[2], place[5], k)
    lift = s[LIFT]
    claps = flips = held = False
    for _ in range(HOLDING_ROUNDS):
        copy(s, before)
        before[9] -= weight
        for i in range(10, 13):
            before[i] *= kept
        rise = _strike(before, k, place, lift)
        copy(before, after)
        drift(after, k, dt)
        there = _touch(after, k)
        gap = gap_of(after[2], there[5], k)
        flips = place[5] * there[5] < 0.0
        claps = not flips and _passes_flat(place, there, k[11] / (2.0 * k[0]))
        if claps or flips:  # the touching point jumps: no impulse at the old one holds the new one up
            if lift == 0.0:
                break
            lift = 0.0
            continue
        cosine = place[0] * there[0] + place[1] * there[1]
        around = math.sqrt(max(0.0, 2.0 - 2.0 * cosine))  # the chord: near enough to the angle
        if around > widest and dt > finest:
            return TRY_FINER
        held = abs(gap) < HELD or (gap > 0.0 and rise > lift)
        if held:
            break
        lift = rise - gap / dt
    after[9] -= weight
    for i in range(10, 13):
        after[i] *= kept
    speed = _velocity(after, k, there)[2]
    if not held:
        if dt > finest and not ((claps or flips) and speed > -RESTITUTION_FROM):
            return TRY_FINER
        after[2] -= min(gap, 0.0)
    copy(after, s)
    s[STEP] = dt * min(2.0, 0.8 * widest / around) if held and around > 0.0 else 2.0 * dt
    s[LIFT] = rise - (2.0 * gap - start) / dt if held else 0.0
    if gap > 0.0 and rise > lift:
        return FLIES
    if (claps or flips) and speed < -RESTITUTION_FROM and k[7] > 0.0:
        _strike(s, k, there, -k[7] * speed)
        return FLIES
    _strike(s, k, there, 0.0)
    if claps:
        lay(s, k)
        return LIES
    return STAYS


@jit
def _passes_flat(place, there, least):
    """Tell whether the coin's tilt [rad] goes below `least` on the way between two places of touch: so low, all of it does."""
    ax, ay, bx, by = place[0] * place[4], place[1] * place[4], there[0] * there[4], there[1] * there[4]
    dx, dy = bx - ax, by - ay
    length = dx * dx + dy * dy
    share = min(1.0, max(0.0, -(ax * dx + ay * dy) / length)) if length > 0.0 else 1.0
    x, y = ax + share * dx, ay + share * dy
    return x * x + y * y < least * least


@jit
def lay(s, k):
    """Lay the coin down: its normal upright by the shortest turn, nothing left in tilt and lift."""
    nx, ny, nz = normal(s)
    side = 1.0 if nz >= 0.0 else -1.0
    _turn(s, side * ny, -side * nx, 0.0, 1.0 + abs(nz), 0.0, 1.0)
    s[2] = k[1] + k[2] - side * k[3]
    s[9] = s[10] = s[11] = 0.0


@jit
def lies(s, k):
    """Tell whether too little energy is left in tilt and lift for the coin to leave the table by `FLAT`."""
    nx, ny, nz = normal(s)
    if nx * nx + ny * ny > 0.01:
        return False
    height = s[2] - (k[1] + k[2] - (k[3] if nz >= 0.0 else -k[3]))
    tipping = (s[10] * s[10] + s[11] * s[11]) * k[5]
    return 0.5 * (s[9] * s[9] + tipping * k[4]) + k[10] * height <= k[10] * FLAT


@jit
def _slide(s, k, dt, damping):
    """Let a coin that lies slide and turn for `dt` [s] on a ring of points that share its weight; return LIES or RESTS."""
    radius = k[0]
    spin = s[12] * k[6] * math.exp(-damping * dt)
    brake = k[8] * k[10] * dt  # m/s
    if math.hypot(s[7], s[8]) + abs(spin) * radius <= brake:
        s[7] = s[8] = s[12] = 0.0
        return RESTS
    ahead = aside = turn = 0.0
    for i in range(RING):
        angle = 2.0 * math.pi * i / RING
        rx, ry = radius * math.cos(angle), radius * math.sin(angle)
        vx, vy = s[7] - spin * ry, s[8] + spin * rx
        # A point about to stop is braked in proportion: spin takes up an impulse twice as readily as sliding does.
        size = max(math.hypot(vx, vy), 2.0 * brake) * RING
        ahead -= vx / size
        aside -= vy / size
        turn += (ry * vx - rx * vy) / size
    s[7] += brake * ahead
    s[8] += brake * aside
    spin += brake * turn * k[6] / k[4]
    s[0] += s[7] * dt
    s[1] += s[8] * dt
    s[12] = spin / k[6]
    _turn(s, 0.0, 0.0, 0.5 * spin * dt, 1.0, 0.0, 1.0)
    return LIES


@jit
def advance(s, before, after, k, mode, longest, step, widest, damping):
    """Move the coin by at most `longest` [s], up to its next contact or step; return the seconds taken and how it moves then.

    `before` is left as the state that the same mode's motion takes to `s`, so that frames in between can be had.
    """
    copy(s, before)
    if mode == FLIES:
        wait = _meets(s, k, longest, FLIGHT_SHARE * step, damping)
        if wait < 0.0:
            fly(s, k, longest, damping)
            return longest, FLIES
        fly(s, k, wait, damping)
        return wait, STAYS if _land(s, k) else FLIES
    if mode == RESTS:
        return longest, RESTS
    if mode == LIES:
        dt = min(step, longest)
        return dt, _slide(s, k, dt, damping)
    dt = min(step, longest, s[STEP])
    then = _stay(s, before, after, k, dt, damping, FINEST * step, widest)
    while then == TRY_FINER:
        dt *= 0.25
        then = _stay(s, before, after, k, dt, damping, FINEST * step, widest)
    if then == STAYS and lies(s, k):
        lay(s, k)
        return dt, LIES
    return dt, then


@jit
def show(s, k, out):
    """Write the pose and velocities (13,) of `s`: its angular momentum becomes spin."""
    nx, ny, nz = normal(s)
    along = (s[10] * nx + s[11] * ny + s[12] * nz) * (k[6] - k[5])
    for i in range(10):
        out[i] = s[i]
    out[10] = s[10] * k[5] + along * nx
    out[11] = s[11] * k[5] + along * ny
    out[12] = s[12] * k[5] + along * nz


@jit
def take_up(body, s, k, step):
    """Set the state `s` to a body (13,) in flight: its spin becomes angular momentum."""
    for i in range(13):
        s[i] = body[i]
    s[LIFT], s[STEP] = 0.0, step
    nx, ny, nz = normal(s)
    along = (s[10] * nx + s[11] * ny + s[12] * nz) * (1.0 / k[6] - 1.0 / k[5])
    s[10], s[11], s[12] = s[10] / k[5] + along * nx, s[11] / k[5] + along * ny, s[12] / k[5] + along * nz
