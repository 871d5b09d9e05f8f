"""A rounded disc on a plane in compiled code: impacts, a rim that stays, and a disc that lies and slides.

It takes states and constants as `disc` has them, and refuses to know what a face is.
"""

from __future__ import annotations

import math

from simulators.compiled import borrowing
from simulators.engines.loop import REST_DISTANCE
from simulators.kernels.disc import LIFT, STEP, TOUCH, copy, drift, fly, meets, normal, turn

RESTITUTION_FROM = 0.05  # m/s: an approach slower than this does not bounce, as in the Bullet engine
FLIGHT_SHARE = 0.125  # of a step: the least that a flight is advanced by while it looks for the table
FINEST = 1.0 / 64.0  # of a step: how finely a contact that jumps across the coin at speed is looked at
FLAT = REST_DISTANCE / 2.0  # m: with less energy than lifts its centre by this, a coin lies
RING = 8  # points of its rim that a lying coin slides on
SLIP_ROUNDS = 40  # of the fixed point that finds which way a contact slides
SLIP_CLOSE = 1e-4  # rad: how near
HELD = 1e-6  # m: how near to the table a point that stays on it is kept
SHORTEST = 4.0  # of the finest step: in less time no gap is mended, for what mends a micrometre in a microsecond is a blow
HOLDING_ROUNDS = 4
HALFWAY = 0.9  # cosine: a contact that is further around the rim half-way through a step has jumped
GAIN = 0.1  # of a coin's energy: the most that a step's push adds beyond what holds the rim up; more is no leapfrog's wobble

FLIES, STAYS, LIES, RESTS = 0, 1, 2, 3  # how a coin moves: free, held at its rim, flat and sliding, not at all
TRY_FINER = -1


@borrowing
def _touch(nx, ny, nz, scale, k):
    """Return where the rim touches: the way out from the centre on the table (x, y), and r there and upwards [m].

    (nx, ny, nz) by `scale` is the coin's normal. All of it lies in the upright plane through that, so that the third direction
    is on its own: what follows is the normal's part outwards and upwards.
    """
    side = 1.0 if nz >= 0.0 else -1.0
    tilt = math.sqrt(nx * nx + ny * ny)
    if tilt > 1e-14:
        share = side / tilt
        ex, ey = nx * share, ny * share
    else:
        ex, ey = 1.0, 0.0
    tilt, nz = tilt * scale, nz * scale
    out = k[3] * tilt * side + k[0] * abs(nz) - k[1] * tilt
    up = k[3] * nz - k[0] * tilt - k[1] * abs(nz) - k[2]
    return ex, ey, out, up, tilt * side, nz


@borrowing
def _keep(s, place):
    """Keep in a state where its rim touches: to find it anew costs a step a third of its time."""
    for i in range(6):
        s[TOUCH + i] = place[i]


@borrowing
def _moves(vx, vy, vz, lx, ly, lz, k, place):
    """Return the touching point's velocity: outwards, across (z x outwards) and upwards [m/s].

    Of a coin whose centre goes at v [m/s] and whose angular momentum is l.
    """
    ex, ey, out, up, no, nz = place
    lo = lx * ex + ly * ey
    la = -lx * ey + ly * ex
    along = (lo * no + lz * nz) * (k[6] - k[5])
    wo, wa, wz = lo * k[5] + along * no, la * k[5], lz * k[5] + along * nz
    # omega x r in the axes (outwards, across, upwards)
    return vx * ex + vy * ey + wa * up, -vx * ey + vy * ex + wz * out - wo * up, vz - wa * out


@borrowing
def _velocity(s, k, place):
    """Return `_moves` of a state."""
    return _moves(s[7], s[8], s[9], s[10], s[11], s[12], k, place)


@borrowing
def _struck(vx, vy, vz, lx, ly, lz, k, place, later, wanted):
    """Strike at `place` (of `_touch`) so that the point at `later` moves up at `wanted` [m/s] at least.

    Return velocity and angular momentum then (in numbers, not arrays: they stay in registers), and how fast the point rises.
    The impulse pushes, if there is one. Its friction is within Coulomb's cone and stops the sliding at `later`, or is against
    what is left of it. For a blow both are one place; for a step `later` is where the rim touches half-way through it.
    """
    ex, ey, out, up, no, nz = later
    vo, va, rise = _moves(vx, vy, vz, lx, ly, lz, k, later)
    if rise >= wanted:
        return vx, vy, vz, lx, ly, lz, rise
    # Everything in the axes (outwards, across, upwards) of `later`: the impulse's arm is (ahead, aside, high).
    friction, high, turned = k[8], place[3], k[6] - k[5]
    ahead, aside = place[2] * (place[0] * ex + place[1] * ey), place[2] * (place[1] * ex - place[0] * ey)
    arm = out * nz - up * no
    # What a unit impulse along the second axis adds to the speed along the first.
    oo, oz = k[4] + high * up * k[5], -ahead * up * k[5]
    zo, zz = -high * out * k[5], k[4] + ahead * out * k[5]
    ao, az = -aside * (out * k[5] + nz * arm * turned), -aside * (up * k[5] - no * arm * turned)
    aa = k[4] + (ahead * out + high * up) * k[5] + (ahead * nz - high * no) * arm * turned
    need = wanted - rise
    share = 1.0 / (oo * zz - oz * zo)
    po, pz = (-vo * zz - need * oz) * share, (need * oo + vo * zo) * share
    pa = -(va + ao * po + az * pz) / aa
    if pz < 0.0 or po * po + pa * pa > friction * friction * pz * pz:
        size = math.sqrt(vo * vo + va * va)
        do, da = (-vo / size, -va / size) if size > 0.0 else (0.0, 0.0)
        pz = need / (zz + friction * zo * do)
        stiff = max(oo, aa)
        for _ in range(SLIP_ROUNDS):
            # The cone's law, d = -v'/|v'|, is also d = -(v' - pz friction stiff d)/|...|, and this one converges.
            left = vo + pz * (oz + friction * (oo - stiff) * do)
            right = va + pz * (az + friction * (ao * do + (aa - stiff) * da))
            size = math.sqrt(left * left + right * right)
            if size == 0.0:
                break
            share = -1.0 / size
            change = abs(left * share - do) + abs(right * share - da)
            do, da = left * share, right * share
            pz = need / (zz + friction * zo * do)
            if change < SLIP_CLOSE:
                break
        po, pa = friction * pz * do, friction * pz * da
    # r x p
    lo, la = aside * pz - high * pa, high * po - ahead * pz
    return (
        vx + (po * ex - pa * ey) * k[4],
        vy + (po * ey + pa * ex) * k[4],
        vz + pz * k[4],
        lx + lo * ex - la * ey,
        ly + lo * ey + la * ex,
        lz + ahead * pa - aside * po,
        wanted,
    )


@borrowing
def _strike(s, k, place, wanted):
    """Strike a state at `place`, as `_struck`."""
    s[7], s[8], s[9], s[10], s[11], s[12], _ = _struck(s[7], s[8], s[9], s[10], s[11], s[12], k, place, place, wanted)


@borrowing
def _energy(vx, vy, vz, lx, ly, lz, nx, ny, nz, k):
    """Return the kinetic energy [J] of a coin whose normal is n."""
    along = lx * nx + ly * ny + lz * nz
    whole = lx * lx + ly * ly + lz * lz
    return 0.5 * ((vx * vx + vy * vy + vz * vz) / k[4] + (whole - along * along) * k[5] + along * along * k[6])


@borrowing
def stand(s, k):
    """Let the rim stay where it touches, its point coming to rest."""
    nx, ny, nz = normal(s)
    place = _touch(nx, ny, nz, 1.0, k)
    _keep(s, place)
    s[LIFT] = 0.0
    _strike(s, k, place, 0.0)


@borrowing
def _land(s, k):
    """Let the point that meets the table bounce, or stay; return whether it stays."""
    nx, ny, nz = normal(s)
    place = _touch(nx, ny, nz, 1.0, k)
    vz = _velocity(s, k, place)[2]
    if vz < -RESTITUTION_FROM and k[7] > 0.0:
        _strike(s, k, place, -k[7] * vz)
        return False
    stand(s, k)
    return True


@borrowing
def _stay(s, before, k, dt, damping, finest, widest):
    """Take one step of a coin whose rim stays on the table; return how it moves then, or TRY_FINER with nothing changed.

    `s[LIFT]` is the upward velocity [m/s] that the touching point needs for the point that touches next to end on the table:
    the last step's, corrected by what gap that one left. `s[STEP]` is how long [s] the next step may be for the touching
    point to move around the rim by `widest` [rad] at most.
    """
    kept = (1.0 - 0.25 * dt * damping) / (1.0 + 0.25 * dt * damping)  # exp(-damping dt/2) to second order
    mend = max(dt, SHORTEST * finest)
    weight = 0.5 * dt * k[10]
    place = (s[TOUCH], s[TOUCH + 1], s[TOUCH + 2], s[TOUCH + 3], s[TOUCH + 4], s[TOUCH + 5])
    nx, ny, nz = place[0] * place[4], place[1] * place[4], place[5]
    start = s[2] + place[3]
    half = 0.5 * dt * k[5]
    mx, my, mz = (
        nx + half * (s[11] * nz - s[12] * ny),
        ny + half * (s[12] * nx - s[10] * nz),
        nz + half * (s[10] * ny - s[11] * nx),
    )
    halfway = _touch(mx, my, mz, 1.0 / math.sqrt(mx * mx + my * my + mz * mz), k)
    if place[0] * halfway[0] + place[1] * halfway[1] < HALFWAY:
        halfway = place
    down, ax, ay, az = s[9] - weight, kept * s[10], kept * s[11], kept * s[12]
    limit = (1.0 + GAIN) * _energy(s[7], s[8], down, ax, ay, az, nx, ny, nz, k)
    lift = s[LIFT]
    claps = flips = held = False
    around = 0.0
    for _ in range(HOLDING_ROUNDS):
        vx, vy, vz, lx, ly, lz, rise = _struck(s[7], s[8], down, ax, ay, az, k, place, halfway, lift)
        if _energy(vx, vy, vz, lx, ly, lz, nx, ny, nz, k) > limit + (vz - down) / k[4] * max(lift, 0.0):
            # Pushed at one place and stopped at another, a rim that is all but flat can be driven round: one place it is.
            halfway = place
            vx, vy, vz, lx, ly, lz, rise = _struck(s[7], s[8], down, ax, ay, az, k, place, place, lift)
        # The normal turns as `drift` turns the coin: by the quaternion (hx, hy, hz, 1), and about itself.
        hx, hy, hz = half * lx, half * ly, half * lz
        size = hx * hx + hy * hy + hz * hz
        share, into = 2.0 / (1.0 + size), hx * nx + hy * ny + hz * nz
        tx = nx + share * (hy * nz - hz * ny + hx * into - size * nx)
        ty = ny + share * (hz * nx - hx * nz + hy * into - size * ny)
        tz = nz + share * (hx * ny - hy * nx + hz * into - size * nz)
        there = _touch(tx, ty, tz, 1.0, k)
        gap = s[2] + vz * dt + there[3]
        flips = place[5] * there[5] < 0.0
        claps = not flips and _passes_flat(place, there, k[11] / (2.0 * k[0]))
        if claps or flips:  # the touching point jumps: no impulse at the old one holds the new one up
            if lift == 0.0:
                break
            lift = 0.0
            continue
        around = 2.0 - 2.0 * (place[0] * there[0] + place[1] * there[1])  # the chord's square: near enough to the angle's
        if around > widest * widest and dt > finest:
            return TRY_FINER
        held = abs(gap) < HELD or (gap > 0.0 and rise > lift)
        if held:
            break
        lift = rise - gap / mend
    speed = 0.0
    if not held:
        speed = _moves(vx, vy, vz - weight, lx * kept, ly * kept, lz * kept, k, there)[2]
        if dt > finest and not ((claps or flips) and speed > -RESTITUTION_FROM):
            return TRY_FINER
    s[7], s[8], s[9], s[10], s[11], s[12] = vx, vy, vz, lx, ly, lz
    copy(s, before)
    drift(s, k, dt)
    if not held:
        s[2] -= min(gap, 0.0)
    s[9] -= weight
    for i in range(10, 13):
        s[i] *= kept
    _keep(s, there)
    s[STEP] = dt * 0.8 * widest / math.sqrt(around) if held and around > 0.16 * widest * widest else 2.0 * dt
    s[LIFT] = rise - (2.0 * gap - start) / mend if held else 0.0
    if gap > 0.0 and rise > lift:
        return FLIES
    if (claps or flips) and speed < -RESTITUTION_FROM and k[7] > 0.0:
        _strike(s, k, there, -k[7] * speed)
        return FLIES
    if claps:
        _strike(s, k, there, 0.0)
        lay(s, k)
        return LIES
    if not held:
        _strike(s, k, there, 0.0)
    return STAYS  # where it is held, the next step's impulse at the same point is the other half of this one's too


@borrowing
def _passes_flat(place, there, least):
    """Tell whether the coin's tilt [rad] goes below `least` on the way between two places of touch: so low, all of it does."""
    ax, ay, bx, by = place[0] * place[4], place[1] * place[4], there[0] * there[4], there[1] * there[4]
    if ax * bx + ay * by > 0.0 and min(ax * ax + ay * ay, bx * bx + by * by) > 2.0 * least * least:
        return False  # less than a quarter turn apart, the line between comes no nearer than 1/sqrt(2) of the nearer
    dx, dy = bx - ax, by - ay
    nearing, length = -(ax * dx + ay * dy), dx * dx + dy * dy
    if nearing <= 0.0:
        return ax * ax + ay * ay < least * least
    share = min(1.0, nearing / length)
    x, y = ax + share * dx, ay + share * dy
    return x * x + y * y < least * least


@borrowing
def lay(s, k):
    """Lay the coin down: its normal upright by the shortest turn, nothing left in tilt and lift."""
    nx, ny, nz = normal(s)
    side = 1.0 if nz >= 0.0 else -1.0
    turn(s, side * ny, -side * nx, 0.0, 1.0 + abs(nz), 0.0, 1.0)
    s[2] = k[1] + k[2] - side * k[3]
    s[9] = s[10] = s[11] = 0.0


@borrowing
def lies(s, k):
    """Tell whether too little energy is left in tilt and lift for the coin to leave the table by `FLAT`."""
    nx, ny, nz = normal(s)
    if nx * nx + ny * ny > 0.01:
        return False
    height = s[2] - (k[1] + k[2] - (k[3] if nz >= 0.0 else -k[3]))
    tipping = (s[10] * s[10] + s[11] * s[11]) * k[5]
    return 0.5 * (s[9] * s[9] + tipping * k[4]) + k[10] * height <= k[10] * FLAT


@borrowing
def _slide(s, k, dt, damping):
    """Let a coin that lies slide and turn for `dt` [s] on a ring of points that share its weight; return LIES or RESTS."""
    radius = k[0]
    spin = s[12] * k[6] * math.exp(-damping * dt)
    brake = k[8] * k[10] * dt  # m/s
    if math.hypot(s[7], s[8]) + abs(spin) * radius <= brake:
        s[7] = s[8] = s[12] = 0.0
        return RESTS
    ahead = aside = twist = 0.0
    for i in range(RING):
        angle = 2.0 * math.pi * i / RING
        rx, ry = radius * math.cos(angle), radius * math.sin(angle)
        vx, vy = s[7] - spin * ry, s[8] + spin * rx
        # A point about to stop is braked in proportion: spin takes up an impulse twice as readily as sliding does.
        size = max(math.hypot(vx, vy), 2.0 * brake) * RING
        ahead -= vx / size
        aside -= vy / size
        twist += (ry * vx - rx * vy) / size
    s[7] += brake * ahead
    s[8] += brake * aside
    spin += brake * twist * k[6] / k[4]
    s[0] += s[7] * dt
    s[1] += s[8] * dt
    s[12] = spin / k[6]
    turn(s, 0.0, 0.0, 0.5 * spin * dt, 1.0, 0.0, 1.0)
    return LIES


@borrowing
def advance(s, before, k, mode, longest, step, widest, damping):
    """Move the coin by at most `longest` [s], up to its next contact or step; return the seconds taken and how it moves then.

    `before` is left as the state that the same mode's motion takes to `s`, so that frames in between can be had.
    """
    if mode == FLIES:
        copy(s, before)
        wait = meets(s, k, longest, FLIGHT_SHARE * step, damping)
        if wait < 0.0:
            fly(s, k, longest, damping)
            return longest, FLIES
        fly(s, k, wait, damping)
        return wait, STAYS if _land(s, k) else FLIES
    if mode == RESTS:
        copy(s, before)
        return longest, RESTS
    if mode == LIES:
        copy(s, before)
        dt = min(step, longest)
        return dt, _slide(s, k, dt, damping)
    dt = min(step, longest, s[STEP])
    if dt < longest < 2.0 * dt:
        dt = 0.5 * longest  # no sliver of a step is left over
    then = _stay(s, before, k, dt, damping, FINEST * step, widest)
    while then == TRY_FINER:
        dt *= 0.25
        then = _stay(s, before, k, dt, damping, FINEST * step, widest)
    if then == STAYS and lies(s, k):
        lay(s, k)
        return dt, LIES
    return dt, then
