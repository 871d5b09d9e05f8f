"""Dice in compiled code: exact flight, impacts at the instant a corner arrives, contact in short steps.

It knows where table and walls are and what a die shows; it refuses to know how probable that is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators.compiled import borrowing, jit
from simulators.device import ON_EDGE, UNDECIDED, Device, Launches, Rollouts
from simulators.devices.die import FACT_OF_SIDE, FLAT, Die
from simulators.engines.loop import READ_RATE, BlowUpError
from simulators.kernels.die_contacts import MOST_CONTACTS, apart_for, near_pair, near_table
from simulators.kernels.frames import Columns, assemble, bodies_at, frame_times, is_rest, reaches, rest_distance, still_since
from simulators.kernels.impulses import (
    CONTACT_NUMBERS,
    GAP,
    ROW_NUMBERS,
    SPEED,
    TARGET,
    inverse_inertia,
    normal_speed,
    rotation_matrix,
    solve,
    solve_alone,
    turn_freely,
)

SHORTEST = 2e-6  # s: time goes on by at least this, whatever is about to touch
BOUNCE_SPEED = 0.05  # m/s: slower approaches do not rebound, as in the Bullet engine
PUSH_OUT = 0.1  # share of an overlap that is taken back a step
QUIET_SPEED, QUIET_STEPS = 1e-3, 4  # m/s of every surface, in so many steps on three contacts or more: it lies for good
PLACES = 5 * 8  # where a guess of an impulse is kept: a corner on a plane
APART = 1.0 / 120.0  # s: dice that cannot meet for so long go on each by itself


@dataclass(frozen=True)
class DieKernel:
    """Impulses at corners, for `Die` and `Dice`: flight is exact, contact goes in steps of 1 / `steps_per_second`.

    The contact law is the Bullet engine's: restitution where the approach is faster than 5 cm/s, Coulomb friction in its
    cone, all simultaneous contacts by `iterations` of projected Gauss-Seidel (Bullet runs them all, here they end when they
    change nothing). What differs: corners do not dip into the table before they rebound. Two dice that cannot meet go on each
    by itself, and one at rest sleeps until then. A rollout that does not rest within `time_limit` [s] is `unsettled`.
    """

    steps_per_second: int
    time_limit: float
    iterations: int = 100

    name: ClassVar[str] = "die_kernel"
    version: ClassVar[str] = "3"

    def __post_init__(self) -> None:
        if not self.iterations > 0:
            raise ValueError(f"`iterations` must be larger than 0, got {self.iterations!r}")

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row; with `fps` [1/s] record it. Raises `TypeError` for a device other than dice, `BlowUpError`."""
        if not isinstance(device, Die):
            raise TypeError(f"{self.name} integrates Die and Dice, not {type(device).__name__}")
        world = device.world()
        (table,) = world.fixed
        times = frame_times(world, fps, self.time_limit)
        columns = Columns.empty(len(launches), len(world.loose), len(world.watched), len(times))
        half = np.array(device.size) / 2.0
        _roll(
            np.ascontiguousarray(bodies_at(launches.start, world.loose)),
            half,
            device.mass,
            device.mass / 3.0 * (np.sum(half**2) - half**2),
            reaches(world),
            np.array([part.position for part in table.parts]),
            np.array([part.shape.size for part in table.parts]) / 2.0,  # type: ignore[union-attr]
            np.array([device.restitution, device.friction, device.angular_damping, world.gravity]),
            np.array(world.bounds),
            np.array([1.0 / self.steps_per_second, self.time_limit, rest_distance(world)]),
            self.iterations,
            times,
            *_arrays(columns),
        )
        if not np.all(np.isfinite(columns.end)):
            rows = launches.index[~np.all(np.isfinite(columns.end), axis=(1, 2))]
            raise BlowUpError(f"rollouts {rows[:5].tolist()} blew up in {self.name}: their states are not finite")
        return assemble(device, launches, columns, fps, times)


def _arrays(columns: Columns) -> tuple[np.ndarray, ...]:
    """Return the arrays themselves, in order (`dataclasses.astuple` would copy them)."""
    return tuple(getattr(columns, name) for name in columns.__dataclass_fields__)


@borrowing
def _face(body, half):
    """Return the face (0 to 5) that a die shows: as `Die.read` does."""
    x, y, z, w = body[3], body[4], body[5], body[6]
    up = (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y))
    axis = 0
    for k in (1, 2):
        if abs(up[k]) > abs(up[axis]):
            axis = k
    height = body[2]
    largest = 2.0 * max(half[0], half[1], half[2])
    if abs(up[axis]) > FLAT and height < half[axis] + 0.1 * largest:
        return FACT_OF_SIDE[2 * axis + (1 if up[axis] < 0.0 else 0)]
    diagonal = math.sqrt(half[0] * half[0] + half[1] * half[1] + half[2] * half[2])
    return ON_EDGE if height < diagonal else UNDECIDED


@borrowing
def _shown(bodies, half):
    """Return the fact that one die or two show together."""
    first = _face(bodies[0], half)
    if len(bodies) == 1:
        return first
    second = _face(bodies[1], half)
    if first == UNDECIDED or second == UNDECIDED:
        return UNDECIDED
    return ON_EDGE if first < 0 or second < 0 else 6 * first + second


@borrowing
def _advance(
    bodies, low, high, memory, rounds, quiet, hit, scratch, shape, table, law, step, iterations, time, stop, times, frames,
    frame, last,
):  # fmt: skip
    """Take dice number `low` to `high` from `time` to `stop` [s]; say whether two of them touch.

    `frames` (F, B, 13) number `frame` to `last` are those of this stretch. `memory` (B, PLACES, 4) keeps the forces of the
    last step at each corner on each plane, and in which of the die's `rounds` (B,) that was.
    """
    turns, inertias, contacts, pairs, rows, impulses, corners, work, pulls, spins, held, supports = scratch
    half, moments, inverse_moments, inverse_mass, size, uneven = shape
    centres, halves, identity = table
    restitution, friction, damping, gravity = law[0], law[1], law[2], law[3]
    kept_a_step = math.exp(-damping * step)
    touch = False
    while time < stop:
        resting = True
        for b in range(low, high):
            resting &= quiet[b] >= QUIET_STEPS
        if resting:
            for f in range(frame, last):
                for b in range(low, high):
                    _copy(bodies[b], frames[f, b])
            return touch
        dt = stop - time
        count = 0
        for b in range(low, high):
            body = bodies[b]
            rotation_matrix(body, turns[b])
            spin = math.sqrt(body[10] ** 2 + body[11] ** 2 + body[12] ** 2)
            spins[b] = uneven * spin
            pulls[b] = spins[b] ** 2 * size * uneven
            held[b], supports[b] = False, 0
            rounds[b] += 1
            count, dt = near_table(
                bodies, b, turns, half, size, spin, pulls[b], centres, halves, gravity, corners, identity,
                contacts, pairs, count, dt, work,
            )  # fmt: skip
        if high - low == 2:
            count, dt, near = near_pair(bodies, turns, half, size, spins, gravity, contacts, pairs, count, dt, work)
            touch |= near
        any_held = False
        if count:
            impact = False
            for k in range(count):
                speed = normal_speed(bodies, contacts, pairs, k)
                contacts[k, SPEED] = speed
                impact |= speed < -BOUNCE_SPEED
                hit[pairs[k, 0]] = True
                if pairs[k, 1] >= 0:
                    hit[pairs[k, 1]] = True
            if impact:
                for k in range(count):
                    speed = contacts[k, SPEED]
                    contacts[k, TARGET] = -restitution * speed if speed < -BOUNCE_SPEED else 0.0
                    impulses[3 * k], impulses[3 * k + 1], impulses[3 * k + 2] = 0.0, 0.0, 0.0
                dt = SHORTEST  # velocities will be new: how long they are safe is for the next round to say
            else:
                for k in range(count):
                    a, b = pairs[k, 0], pairs[k, 1]
                    pull = gravity + pulls[a] + (pulls[b] if b >= 0 else 0.0)
                    lasts = 2.0 * contacts[k, SPEED] / pull
                    if lasts < step:
                        held[a], any_held = True, True
                        supports[a] += 1
                        if b >= 0:
                            held[b] = True
                            supports[b] += 1
                        dt = min(dt, step)
                    else:
                        dt = min(dt, lasts)
            dt = min(max(dt, SHORTEST), stop - time)
            if any_held:
                for b in range(low, high):
                    if held[b]:
                        bodies[b, 9] -= gravity * dt
                for k in range(count):
                    gap, place = contacts[k, GAP], pairs[k, 2]
                    contacts[k, TARGET] = -gap / dt if gap > 0.0 else min(-gap * PUSH_OUT / step, 0.2 * BOUNCE_SPEED)
                    known = place >= 0 and memory[pairs[k, 0], place, 3] == rounds[pairs[k, 0]] - 1
                    for m in range(3):
                        impulses[3 * k + m] = memory[pairs[k, 0], place, m] * dt if known else 0.0
            if impact or any_held:
                for b in range(low, high):
                    inverse_inertia(turns[b], inverse_moments, inertias[b])
                if high - low == 1:
                    solve_alone(bodies[low], contacts, count, rows, impulses, inverse_mass, inertias[low], friction, iterations)
                else:
                    solve(bodies, contacts, pairs, count, rows, impulses, inverse_mass, inertias, friction, iterations)
            if any_held:
                for k in range(count):
                    a, place = pairs[k, 0], pairs[k, 2]
                    if place >= 0:
                        for m in range(3):
                            memory[a, place, m] = impulses[3 * k + m] / dt
                        memory[a, place, 3] = rounds[a]
        ends = time + dt >= stop - 1e-12
        while frame < last and (ends or times[frame] <= time + dt):
            for b in range(low, high):
                _copy(bodies[b], frames[frame, b])
                _move(frames[frame, b], held[b], moments, gravity, times[frame] - time)
            frame += 1
        for b in range(low, high):
            body = bodies[b]
            _move(body, held[b], moments, gravity, dt)
            if hit[b] and damping > 0.0:
                kept = math.exp(-damping * dt) if dt != step else kept_a_step
                body[10], body[11], body[12] = kept * body[10], kept * body[11], kept * body[12]
            fastest = math.sqrt(body[7] ** 2 + body[8] ** 2 + body[9] ** 2)
            fastest += size * math.sqrt(body[10] ** 2 + body[11] ** 2 + body[12] ** 2)
            quiet[b] = quiet[b] + 1 if held[b] and supports[b] >= 3 and fastest < QUIET_SPEED else 0
        time = stop if ends else time + dt
    return touch


@borrowing
def _copy(body, out):
    for k in range(len(body)):
        out[k] = body[k]


@borrowing
def _move(body, held, moments, gravity, dt):
    """Move a die for `dt` [s]: a free one exactly; the velocity of a `held` one holds gravity and impulses already."""
    for i in range(3):
        body[i] += body[7 + i] * dt
    if not held:
        body[2] -= 0.5 * gravity * dt * dt
        body[9] -= gravity * dt
    turn_freely(body, moments, dt)


@borrowing
def _throw(
    start, bodies, posed, memory, rounds, quiet, hit, scratch, shape, stretch, table, law, bounds, clock, reach, iterations,
    times, frames,
):  # fmt: skip
    """Run one rollout from `start` (B, 13); return what `Columns` keeps of it, `bodies` (B, 13) being its end."""
    dice = len(bodies)
    step, limit, tolerance = clock[0], clock[1], clock[2]
    for b in range(dice):
        _copy(start[b], bodies[b])
        hit[b], quiet[b] = False, 0
        for place in range(PLACES):
            memory[b, place, 3] = -1.0
    time, since, reading, frame = 0.0, math.nan, 0, 0
    now, first, strongest, settled, gone, touch = UNDECIDED, UNDECIDED, UNDECIDED, False, False, False
    while not (settled or gone or time >= limit):
        reading += 1
        until = min(reading / READ_RATE, limit)
        while time < until:
            stop, alone = until, dice == 1
            if dice == 2:
                apart = apart_for(bodies, reach[0], stretch, law[3])
                alone = apart > APART
                stop = min(until, time + max(apart, APART))
            last = frame
            while last < len(times) and times[last] <= stop:
                last += 1
            for b in range(dice if alone else 1):
                touch |= _advance(
                    bodies, b if alone else 0, b + 1 if alone else dice, memory, rounds, quiet, hit, scratch, shape, table,
                    law, step, iterations, time, stop, times, frames, frame, last,
                )  # fmt: skip
            time, frame = stop, last
        now = _shown(bodies, shape[0])
        if now >= 0 and first < 0:
            first = now
        strongest = max(strongest, now)
        for b in range(dice):
            for k in range(3):
                if not bounds[0, k] <= bodies[b, k] <= bounds[1, k]:
                    gone = True
        since = still_since(time, bodies, posed, since, reach, tolerance)
        settled = is_rest(time, since)
    return now, first, strongest, settled, gone, time, touch, frame


@jit
def _roll(
    starts, half, mass, moments, reach, centres, halves, law, bounds, clock, iterations, times,
    code, first, strongest, settled, gone, end_time, end, touched, frames, frame_count,
):  # fmt: skip
    """Run every row of `starts` (n, B, 13) to rest, out of bounds, or the time limit."""
    n, dice = starts.shape[0], starts.shape[1]
    largest = max(moments[0], moments[1], moments[2])
    uneven = largest / min(moments[0], moments[1], moments[2])
    stretch = math.sqrt(largest / mass)
    shape = (half, moments, 1.0 / moments, 1.0 / mass, reach[0], uneven)
    table = (centres, halves, np.eye(3))
    scratch = (
        np.zeros((dice, 3, 3)), np.zeros((dice, 3, 3)),
        np.zeros((MOST_CONTACTS, CONTACT_NUMBERS)), np.zeros((MOST_CONTACTS, 3), np.int64),
        np.zeros((3 * MOST_CONTACTS, ROW_NUMBERS)), np.zeros(3 * MOST_CONTACTS),
        np.zeros((8, 3)), np.zeros((33, 3)), np.zeros(dice), np.zeros(dice), np.zeros(dice, np.bool_),
        np.zeros(dice, np.int64),
    )  # fmt: skip
    bodies, posed, memory = np.zeros((dice, 13)), np.zeros((dice, 7)), np.zeros((dice, PLACES, 4))
    rounds, quiet, hit = np.zeros(dice, np.int64), np.zeros(dice, np.int64), np.zeros(dice, np.bool_)
    for i in range(n):
        (
            code[i], first[i], strongest[i], settled[i], gone[i], end_time[i], touch, frame_count[i]
        ) = _throw(
            starts[i], bodies, posed, memory, rounds, quiet, hit, scratch, shape, stretch, table, law, bounds, clock, reach,
            iterations, times, frames[i],
        )  # fmt: skip
        touched[i, :] = touch
        end[i] = bodies
