"""One ball among fixed things in a plane, from impact to impact: boards, tracks, wedges, whatever a planar world is made of.

It refuses to know which device it runs: it reads the device's world, launches and regions, and nothing else of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators.compiled import borrowing
from simulators.device import Device, Launches, Rollouts
from simulators.devices.regions import BallRouter
from simulators.engines.loop import READ_RATE, BlowUpError, check_engine
from simulators.kernels.frames import Columns, assemble, bodies_at, frame_times, is_rest, rest_distance
from simulators.kernels.planar_motion import (
    APPROACH,
    INERTIA,
    SLOW,
    contact_rates,
    falls_through,
    first_hit,
    gap,
    holds,
    impact,
)
from simulators.kernels.planar_shapes import CIRCLE, CX, CZ, FRICTION, RESIST, RESTITUTION, SIZE, TX, TZ, ball_of, edges_of

NONE = -1  # in place of an edge
BEYOND = 1e-12  # m: how far off an edge or its end a ball is when it leaves it: more than the rounding of any coordinate
PRESS = 1e-6  # of gravity: a surface that the ball presses on less does not hold it
OUT_OF_PLANE = 1e-6
CLOSED = 1e-6  # m/s: a slip along a round that has come to its end
HALVINGS = 40  # of a step: then it is shorter than the rounding of a place
MOST_EVENTS = 100_000  # between two readings: more is a failure of the integration, not physics


@dataclass(frozen=True)
class PlanarBall:
    """Parabolas from impact to impact, in compiled code; any planar world with one loose ball, read by `BallRouter.regions`.

    Setup: `steps_per_second` is how finely a ball that hugs a round is followed, and what a bounce has to outlast: one that
    would be over within a step is none, and the ball stays on the surface (as in Pymunk, whose contacts have no threshold but
    whose bounces cannot be shorter than a step). Flights, and motion along straight sides, are exact whatever the step.
    `time_limit` [s].

    Laws: an impact gives back `restitution` of the normal speed at once, whatever the speed, and stops the slip of the
    surfaces up to `friction` times its normal impulse (a solid sphere: 2/5 m r^2); in lasting contact Coulomb friction, rolling
    without slip where friction suffices, and rolling friction as a dry torque on the ball's weight, as in `engines.planar`.
    Random: nothing of its own. What the ball ends in is the device's to read.
    Known gap: a ball caught between two surfaces stops at once, and while it spins on there each surface's friction is taken
    alone.
    """

    steps_per_second: int
    time_limit: float

    name: ClassVar[str] = "planar_ball"
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        check_engine(self)

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row. Raises `TypeError` for a device or world that is no planar ball's, `ValueError` for a turned start."""
        if not isinstance(device, BallRouter) or device.readout == "strongest":
            raise TypeError(f"the planar ball kernel reads balls by their regions; {type(device).__name__} gives none")
        world = device.world()
        body, radius = ball_of(world)
        edges = edges_of(world)
        start = bodies_at(launches.start, world.loose)[:, 0]
        if np.any(np.abs(start[:, [3, 5]]) > OUT_OF_PLANE):
            raise ValueError("a planar rollout cannot start with a ball turned out of the x-z plane")
        end = self.time_limit
        reads_end = device.readout == "last" and device.end_time is not None
        if reads_end:
            end = min(end, float(device.end_time))  # type: ignore[arg-type]
        times = frame_times(world, fps, end)
        columns = Columns.empty(len(launches), 1, len(world.watched), len(times))
        regions = np.array([(r.fact, r.x0, r.x1, r.z0, r.z1) for r in device.regions()], float).reshape(-1, 5)
        touched = np.zeros((len(launches), len(world.bodies)), np.bool_)
        failed = roll_all(
            start, edges.kind, edges.values, edges.body, edges.corner, edges.cell, edges.shape, edges.first, edges.members,
            radius, world.gravity, np.array(world.bounds, float), regions,
            1.0 / self.steps_per_second, end, reads_end, rest_distance(world), times,
            columns.code, columns.first, columns.settled, columns.gone, columns.end_time, columns.end, touched,
            columns.frames, columns.frame_count,
        )  # fmt: skip
        if failed >= 0:
            raise BlowUpError(
                f"rollout {launches.index[failed]} met more than {MOST_EVENTS} impacts within 1/{READ_RATE} s in {self.name}: "
                "its motion has no end there. That is no physical outcome; mend the device's parameters"
            )
        names = [b.name for b in world.bodies]
        for pair, (a, b) in enumerate(world.watched):
            if body.name in (a, b):
                columns.touched[:, pair] = touched[:, names.index(b if a == body.name else a)]
        columns.strongest[:] = columns.first
        return assemble(device, launches, columns, fps, times)


@borrowing
def roll_all(
    start, kind, values, owner, corner, cell, shape, first, members,
    radius, gravity, bounds, regions,
    step, end, reads_end, rest, times,
    code_of, first_of, settled_of, gone_of, time_of, end_of, touched_of,
    frames_of, count_of,
):  # fmt: skip
    """Run every row of `start` (n, 13) and fill the columns; return the first row whose impacts had no end, or -1.

    Within a row, time goes by arcs: a parabola (free, or along a side), a step along a round, or rest. Readings and frames are
    taken from the arc they fall in.
    """
    columns, lines = shape
    light = PRESS * gravity
    for row in range(len(start)):
        x, y, z = start[row, 0], start[row, 1], start[row, 2]
        vx, vz, spin = start[row, 7], start[row, 9], start[row, 11]
        angle = 2.0 * math.atan2(start[row, 4], start[row, 6])
        time, reads, frame, events = 0.0, 0, 0, 0
        on, other = NONE, NONE  # the edge that the ball is on, and the one that pins it there
        resting, going = False, True
        since, held_x, held_z, held_angle = math.nan, 0.0, 0.0, 0.0
        code, seen = -1, -1
        while going:
            events += 1
            if events > MOST_EVENTS:
                return row
            # 1. How the ball moves from here, and for how long.
            ax, az, turn, lasts = 0.0, 0.0, 0.0, math.inf
            nx, nz, bend, speed, rate = 0.0, 1.0, 0.0, 0.0, 0.0  # of the edge that it is on, and along it
            leaves = 0.0
            if on >= 0:
                nx, nz = _normal(kind[on], values[on], x, z)
                bend = 1.0 / values[on, SIZE] if kind[on] == CIRCLE else 0.0
            if resting:
                pass
            elif other >= 0:
                mx, mz = _normal(kind[other], values[other], x, z)
                press, push = holds(nx, nz, values[on, FRICTION], -spin * radius, mx, mz, gravity)
                rub = values[on, FRICTION] * press + values[other, FRICTION] * push
                if abs(spin * radius) <= SLOW or rub <= 0.0:
                    resting, other, spin = press > light and push > light, NONE, 0.0
                    continue
                turn = -math.copysign(rub / (INERTIA * radius), spin)
                lasts = -spin / turn
            elif on >= 0:
                speed = vx * nz - vz * nx
                press = gravity * nz - speed * speed * bend
                if press <= light:
                    x, z, on = x + BEYOND * nx, z + BEYOND * nz, NONE
                    continue
                grip, resist = values[on, FRICTION], values[on, RESIST]
                rate, turn, lasts = contact_rates(speed, spin, gravity * nx, press, grip, resist, radius)
                if rate == 0.0 and turn == 0.0 and abs(speed) <= SLOW and abs(spin * radius) <= SLOW:
                    vx, vz, spin, resting = 0.0, 0.0, 0.0, True
                    continue
                if bend > 0.0 and lasts > step:  # the midpoint rule, but for a step that ends with the slip
                    lasts = step
                    half = 0.5 * step
                    way = (speed + 0.5 * rate * half) * half * bend
                    px, pz = nx * math.cos(way) + nz * math.sin(way), nz * math.cos(way) - nx * math.sin(way)
                    middle = speed + rate * half
                    press = max(gravity * pz - middle * middle * bend, 0.0)
                    rate, turn, _ = contact_rates(middle, spin + turn * half, gravity * px, press, grip, resist, radius)
                elif bend == 0.0:
                    ax, az = rate * nz, -rate * nx
                    along = (x - values[on, CX]) * values[on, TX] + (z - values[on, CZ]) * values[on, TZ]
                    ahead = falls_through(values[on, SIZE] - along, -speed, -rate)
                    behind = falls_through(along, speed, rate)
                    if min(ahead, behind) <= lasts:
                        lasts, leaves = min(ahead, behind), 1.0 if ahead < behind else -1.0
            else:
                az = -gravity
            # 2. What it meets first in that time: nothing beyond the cell's own list while it goes less than a cell's width.
            hit, dt, ends = NONE, min(lasts, end - time), (x, z, vx, vz)
            if not resting and other < 0:
                i = min(max(int((x - corner[0]) / cell), 0), columns - 1)
                j = min(max(int((z - corner[1]) / cell), 0), lines - 1)
                c = i * lines + j
                if bend == 0.0:
                    pace = math.hypot(vx, vz)
                    pace += math.sqrt(pace * pace + 2.0 * math.hypot(ax, az) * cell)
                    if pace * dt > 2.0 * cell:
                        dt = 2.0 * cell / pace
                    for m in range(first[c], first[c + 1]):
                        e = members[m]
                        if e != on:
                            t = first_hit(kind[e], values[e], x, z, vx, vz, ax, az, dt)
                            if t < dt or (t == dt and hit < 0):
                                hit, dt = e, t
                else:
                    ends = _along(bend, nx, nz, x, z, vx, vz, 0.0, 0.0, speed, rate, dt)
                    for m in range(first[c], first[c + 1]):
                        e = members[m]
                        if e != on and gap(kind[e], values[e], ends[0], ends[1]) < 0.0:
                            t = _round_meets(kind[e], values[e], bend, nx, nz, x, z, vx, vz, speed, rate, dt)
                            if t < dt or (t == dt and hit < 0):
                                hit, dt = e, t
                                ends = _along(bend, nx, nz, x, z, vx, vz, 0.0, 0.0, speed, rate, dt)
            # 3. Readings and frames that fall in this arc.
            while going:
                read_at = min((reads + 1) / READ_RATE, end)
                frame_at = times[frame] if frame < len(times) else math.inf
                at = min(read_at, frame_at)
                if at > time + dt:
                    break
                t = at - time
                sx, sz, svx, svz = _along(bend, nx, nz, x, z, vx, vz, ax, az, speed, rate, t)
                turned, spun = angle + t * (spin + 0.5 * t * turn), spin + t * turn
                if frame_at <= read_at:
                    _store(frames_of[row, frame, 0], sx, y, sz, turned, svx, svz, spun)
                    frame += 1
                    continue
                reads += 1
                events = 0
                code = -1
                for k in range(len(regions)):
                    if regions[k, 1] <= sx < regions[k, 2] and regions[k, 3] <= sz < regions[k, 4]:
                        code = int(regions[k, 0])
                        break
                seen = code if seen < 0 <= code else seen
                gone = not (
                    bounds[0, 0] <= sx <= bounds[1, 0]
                    and bounds[0, 1] <= y <= bounds[1, 1]
                    and bounds[0, 2] <= sz <= bounds[1, 2]
                )
                still = False
                if math.isnan(since) or _moved(sx - held_x, sz - held_z, turned - held_angle, radius) > rest:
                    since, held_x, held_z, held_angle = at, sx, sz, turned
                else:
                    still = not reads_end and is_rest(at, since)
                if gone or still or at >= end:
                    code_of[row], first_of[row], settled_of[row], gone_of[row], time_of[row] = code, seen, still, gone, at
                    _store(end_of[row, 0], sx, y, sz, turned, svx, svz, spun)
                    count_of[row] = frame
                    going = False
            # 4. On to the end of the arc, and what happens there.
            if not going:
                break
            rounds = bend > 0.0 and not resting and other < 0
            x, z, vx, vz = ends if rounds else _along(bend, nx, nz, x, z, vx, vz, ax, az, speed, rate, dt)
            angle += dt * (spin + 0.5 * dt * turn)
            spin += dt * turn
            time += dt
            if rounds:
                nx, nz = _normal(kind[on], values[on], x, z)
                speed += rate * dt
                if dt < step and dt == lasts and abs(speed - spin * radius) <= CLOSED:
                    spin = speed / radius  # or what rounding left of the slip would make steps of nothing
                ax, az = rate * nz - speed * speed * bend * nx, -rate * nx - speed * speed * bend * nz
            if hit >= 0:
                touched_of[row, owner[hit]] = True
                mx, mz = _normal(kind[hit], values[hit], x, z)
                x, z = _onto(kind[hit], values[hit], x, z, mx, mz)
                vx, vz, spin, back = impact(vx, vz, spin, mx, mz, radius, values[hit, RESTITUTION], values[hit, FRICTION])
                if on >= 0:
                    toward = -(ax * mx + az * mz)
                    press, push = holds(nx, nz, values[on, FRICTION], -spin * radius, mx, mz, gravity)
                    if toward > light and 2.0 * back <= toward * step and press > light and push > light:
                        other, vx, vz = hit, 0.0, 0.0
                        continue
                on = NONE
                speed = vx * mz - vz * mx
                press = gravity * mz - (speed * speed / values[hit, SIZE] if kind[hit] == CIRCLE else 0.0)
                if press > light and 2.0 * back <= press * step:
                    on, vx, vz = hit, speed * mz, -speed * mx
                elif back <= APPROACH:
                    x, z = x + BEYOND * mx, z + BEYOND * mz  # a graze, which would count as the next one
            elif leaves != 0.0 and dt == lasts:
                x, z, on = x + leaves * BEYOND * values[on, TX], z + leaves * BEYOND * values[on, TZ], NONE
    return -1


@borrowing
def _normal(kind, edge, x, z):
    """Return the outward normal of an edge at the ball's centre."""
    if kind == CIRCLE:
        dx, dz = x - edge[CX], z - edge[CZ]
        far = math.sqrt(dx * dx + dz * dz)
        return dx / far, dz / far
    return -edge[TZ], edge[TX]


@borrowing
def _onto(kind, edge, x, z, nx, nz):
    """Return the centre moved along the normal until the ball just touches: it is off by rounding, or a step along a round."""
    if kind == CIRCLE:
        return edge[CX] + nx * edge[SIZE], edge[CZ] + nz * edge[SIZE]
    off = (x - edge[CX]) * nx + (z - edge[CZ]) * nz
    return x - off * nx, z - off * nz


@borrowing
def _round_meets(kind, edge, bend, nx, nz, x, z, vx, vz, speed, rate, dt):
    """Return when [s] in a short step along a round, at whose end it is within another edge, the ball meets that."""
    low, high = 0.0, dt
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        px, pz, _, _ = _along(bend, nx, nz, x, z, vx, vz, 0.0, 0.0, speed, rate, t)
        low, high = (low, t) if gap(kind, edge, px, pz) < 0.0 else (t, high)
    return high


@borrowing
def _along(bend, nx, nz, x, z, vx, vz, ax, az, speed, rate, t):
    """Return place and velocity after `t` on an arc: a parabola, or `speed` and `rate` round a circle of curvature `bend`."""
    if bend == 0.0 or (speed == 0.0 and rate == 0.0):
        return x + t * (vx + 0.5 * t * ax), z + t * (vz + 0.5 * t * az), vx + t * ax, vz + t * az
    way = t * (speed + 0.5 * t * rate) * bend
    px, pz = nx * math.cos(way) + nz * math.sin(way), nz * math.cos(way) - nx * math.sin(way)
    speed += t * rate
    return x + (px - nx) / bend, z + (pz - nz) / bend, speed * pz, -speed * px


@borrowing
def _moved(dx, dz, turned, radius):
    """Return how far [m] the ball's surface has moved, as `still_since` has it; here the turn is an angle, not a quaternion."""
    turn = abs(turned) % (2.0 * math.pi)
    return math.sqrt(dx * dx + dz * dz) + min(turn, 2.0 * math.pi - turn) * radius


@borrowing
def _store(place, x, y, z, angle, vx, vz, spin):
    """Write one body's 13 numbers."""
    place[:] = 0.0
    place[0], place[1], place[2] = x, y, z
    place[4], place[6] = math.sin(0.5 * angle), math.cos(0.5 * angle)
    place[7], place[9], place[11] = vx, vz, spin
