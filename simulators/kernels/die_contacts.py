"""What a die may touch and when: corners on planes, boxes on boxes, and for how long nothing else can come.

It refuses to know what a contact does.
"""

from __future__ import annotations

import math

from simulators.compiled import borrowing
from simulators.kernels.boxes import set_corners, touch_boxes
from simulators.kernels.impulses import GAP, NORMAL, POINT_A

MARGIN = 20e-6  # m: corners closer than this touch; a thousandth of a die
STRIDE = 100e-6  # m: the most that boxes which touch may move before they are looked at again
MOST_CONTACTS = 32


@borrowing
def _time_to(gap, speed, pull):
    """Return when [s] a point `gap` away that parts with `speed` arrives, under a constant `pull` [m/s^2] or less."""
    if pull == 0.0:
        return gap / -speed if speed < 0.0 else math.inf
    return (speed + math.sqrt(speed * speed + 2.0 * pull * gap)) / pull


@borrowing
def near_table(
    bodies, b, turns, half, reach, spin, pull, centres, halves, gravity, corners, identity, contacts, pairs, count, safe, work
):
    """Append the contacts of die `b` with table and walls; return their count and for how long [s] no other can come.

    `pull` [m/s^2] is the most that a corner is accelerated relative to the centre. Planes serve but near the table's edge or
    the top of a wall, where the die meets the box itself.
    """
    walls = len(centres) > 1
    known = False
    for plane in range(5 if walls else 1):
        # Floor, then the walls at -x, +x, -y, +y in the order of the table's parts.
        axis = 2 if plane == 0 else (plane - 1) // 2
        sign = -1.0 if plane in (2, 4) else 1.0
        centre = sign * (bodies[b, axis] - centres[plane, axis]) - halves[plane, axis]
        speed = sign * bodies[b, 7 + axis]
        fall = gravity if plane == 0 else 0.0
        away = centre - reach
        if away > 0.0 and away + safe * (speed - 0.5 * fall * safe) > 0.0:  # a parabola from above zero: it crosses once
            continue
        if centre > 1.2 * reach:
            safe = min(safe, _time_to(away, speed, fall))
            continue
        if plane == 0:
            whole = walls or (abs(bodies[b, 0]) + reach < halves[0, 0] and abs(bodies[b, 1]) + reach < halves[0, 1])
        else:
            whole = bodies[b, 2] + reach < centres[plane, 2] + halves[plane, 2]
        if not whole:
            count, apart = touch_boxes(
                bodies[b, :3], turns[b], half, centres[plane], identity, halves[plane], b, -1, MARGIN, contacts, pairs, count,
                work[0], work[1:17], work[17:33],
            )  # fmt: skip
            fastest = math.sqrt(bodies[b, 7] ** 2 + bodies[b, 8] ** 2 + bodies[b, 9] ** 2) + spin * reach
            # Where they touch, no bound is known for their other points: they may come as near as STRIDE.
            safe = min(safe, _time_to(apart - 0.5 * MARGIN if apart > MARGIN else STRIDE, -fastest, gravity))
            continue
        if not known:
            known = True
            set_corners(half, turns, b, corners)
        for k in range(8):
            gap = centre + sign * corners[k, axis]
            if axis == 0:
                turning = bodies[b, 11] * corners[k, 2] - bodies[b, 12] * corners[k, 1]
            elif axis == 1:
                turning = bodies[b, 12] * corners[k, 0] - bodies[b, 10] * corners[k, 2]
            else:
                turning = bodies[b, 10] * corners[k, 1] - bodies[b, 11] * corners[k, 0]
            parting = speed + sign * turning
            if gap > MARGIN:
                most = fall + pull
                h = gap - 0.5 * MARGIN
                if h + safe * (parting - 0.5 * most * safe) < 0.0:
                    safe = _time_to(h, parting, most)
            elif count < MOST_CONTACTS:
                for i in range(3):
                    contacts[count, POINT_A + i], contacts[count, NORMAL + i] = corners[k, i], 0.0
                contacts[count, NORMAL + axis], contacts[count, GAP] = sign, gap
                pairs[count, 0], pairs[count, 1], pairs[count, 2] = b, -1, 8 * plane + k
                count += 1
    return count, safe


@borrowing
def near_pair(bodies, turns, half, reach, spins, gravity, contacts, pairs, count, safe, work):
    """Append the contacts of two dice with each other; return count and safe time, and whether they touch."""
    distance, closing = 0.0, 0.0
    for k in range(3):
        distance += (bodies[0, k] - bodies[1, k]) ** 2
        closing += (bodies[0, 7 + k] - bodies[1, 7 + k]) ** 2
    distance, closing = math.sqrt(distance), math.sqrt(closing)
    if distance > 2.2 * reach:
        return count, min(safe, _time_to(distance - 2.0 * reach, -closing, gravity)), False
    count, apart = touch_boxes(
        bodies[0, :3], turns[0], half, bodies[1, :3], turns[1], half, 0, 1, MARGIN, contacts, pairs, count,
        work[0], work[1:17], work[17:33],
    )  # fmt: skip
    closing += (spins[0] + spins[1]) * reach
    near = apart <= MARGIN
    return count, min(safe, _time_to(STRIDE if near else apart - 0.5 * MARGIN, -closing, gravity)), near


@borrowing
def apart_for(bodies, reach, stretch, gravity):
    """Return for how long [s] two dice cannot meet, whatever floor and walls do to them.

    Contacts only take energy, so that u = sqrt(v^2 + (k omega)^2), with `stretch` = k the largest radius of gyration, grows
    by at most gravity: d(u^2 / 2)/dt <= g u.
    """
    distance, closing = 0.0, 0.0
    for k in range(3):
        distance += (bodies[0, k] - bodies[1, k]) ** 2
    for b in range(2):
        spin = bodies[b, 10] ** 2 + bodies[b, 11] ** 2 + bodies[b, 12] ** 2
        closing += math.sqrt(bodies[b, 7] ** 2 + bodies[b, 8] ** 2 + bodies[b, 9] ** 2 + stretch**2 * spin)
    gap = math.sqrt(distance) - 2.0 * reach - MARGIN
    return (math.sqrt(closing * closing + 4.0 * gravity * gap) - closing) / (2.0 * gravity) if gap > 0.0 else 0.0
