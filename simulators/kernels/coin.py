"""Coins thrown onto a table, from impact to impact in compiled code; and coins that are caught, in closed form.

It knows `Coin`, `Coins` and `CaughtCoin`, and what an instant of them shows; it refuses to know how likely a face is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simulators.compiled import borrowing, jit
from simulators.device import ON_EDGE, UNDECIDED, Device, Launches, Rollouts
from simulators.devices.caught_coin import CaughtCoin
from simulators.devices.coin import LYING, Coin
from simulators.engines.loop import READ_RATE
from simulators.kernels.disc import NUMBERS, copy, drift, fly, normal, show, take_up
from simulators.kernels.disc_contact import FLIES, HELD, LIES, advance, lay, lies
from simulators.kernels.frames import (
    READ_STEP,
    Columns,
    assemble,
    bodies_at,
    frame_times,
    is_rest,
    set_up,
    still_since,
)

MARGIN = 0.02  # m: coins nearer to each other than this, at one of the 60 instants a second, might have touched


@dataclass(frozen=True)
class CoinKernel:
    """A `Coin` flown exactly between impacts; Newton restitution and Coulomb friction at the point that touches.

    The flight of a body with an axis is closed form, angular damping included: about its angular momentum L at |L|/I1, about
    its own normal at (L.n)(1/I3 - 1/I1) (Goldstein, Classical Mechanics, section 5.6). The first time that the rim meets
    the table is found by steps no longer than the fastest point of the rim allows, and at least an eighth of a step.
    An impact obeys v' = -e v along the table's normal where the approach is faster than 5 cm/s, else v' = 0; friction stops
    the point's sliding if an impulse within the cone can, and otherwise lies on the cone against the sliding that is left.
    A point that stays on the table is held there by steps of `steps_per_second` that end on the table (as SHAKE and RATTLE:
    Andersen 1983, J. Comput. Phys. 52, 24). It is pushed where it touches at a step's start, so that its sliding stops where
    it touches half-way: as in leapfrog, rolling then has an error of second order. A thin disc tilted by .3 wobbles .2 % slow
    at 1/600 s and .02 % at 1/1200 s (5 % at 1/2400 s if it stopped where the rim is pushed).
    In such a step the touching point moves around the rim by `turn` [rad] at most. A coin whose tilt passes below `uneven` [m]
    across its diameter claps: all of it touches, and unless the far side comes down faster than 5 cm/s nothing is left of
    the tilting. Coin and table are no flatter than that; a perfect disc and plane would roll through, and the time to rest
    would have no limit. It decides how long the coin rattles, and no face: means of 1.35, 1.71, 2.09 s at 100, 20, 5 um, heads
    in .5295, .5294, .5292 of 10,000 (pawbench/A-01, seed 4).
    Once there is less energy in tilt and lift than raises the centre by .1 mm (half of what counts as rest) the coin lies,
    and slides and turns on a ring of eight points until friction has stopped it.
    """

    steps_per_second: int = 600
    time_limit: float = 8.0
    turn: float = 0.8
    uneven: float = 2e-5

    def __post_init__(self) -> None:
        if not self.steps_per_second > 0:
            raise ValueError(f"`steps_per_second` must be larger than 0, got {self.steps_per_second!r}")
        if not 0.0 < self.turn <= 1.0:
            raise ValueError(f"`turn` must be in (0, 1], got {self.turn!r}")
        if not self.uneven >= 5.0 * HELD:
            raise ValueError(f"`uneven` must be at least {5.0 * HELD:g} m, five times how near to the table a rim is held")

    @property
    def name(self) -> str:
        """`coin_kernel`."""
        return "coin_kernel"

    @property
    def version(self) -> str:
        """Changes whenever an outcome could."""
        return "5"

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row; with `fps` [1/s] record it. Raises `TypeError` for another device, `ValueError` for much friction."""
        if not isinstance(device, Coin):
            raise TypeError(f"{self.name} integrates a Coin, got {type(device).__name__}")
        if device.friction > 1.0:
            raise ValueError(f"`device.friction` must be at most 1 in {self.name}, got {device.friction!r}: a rim could jam")
        starts, reach, tolerance, times, columns = set_up(device, launches, fps, self.time_limit)
        close = np.full(len(launches), np.inf)
        _run(
            starts,
            self.constants(device),
            np.array(device.world().bounds),
            reach,
            tolerance,
            1.0 / self.steps_per_second,
            self.turn,
            round(self.time_limit / READ_STEP),
            times,
            close,
            *columns.filled(),
        )
        if close.min(initial=np.inf) < device.diameter + MARGIN:
            at = int(launches.index[int(np.argmin(close))])
            raise ValueError(
                f"two coins come within {close.min():.3g} m of each other in rollout {at}, and {self.name} knows no contact "
                "between coins: take engine=engine, or put them further apart"
            )
        return assemble(device, launches, columns, fps, times)

    def constants(self, coin: Coin) -> tuple[float, ...]:
        """Return what the compiled code needs of a coin, in the order that `_run` and its helpers unpack."""
        radius, half = coin.diameter / 2.0, coin.thickness / 2.0
        across, along = coin.moments
        return (
            radius - coin.bevel,
            half - coin.bevel,
            coin.bevel,
            coin.load,
            1.0 / coin.mass,
            1.0 / across,
            1.0 / along,
            coin.restitution,
            coin.friction,
            coin.angular_damping,
            coin.world().gravity,
            self.uneven,
        )


@dataclass(frozen=True)
class CaughtCoinKernel:
    """A `CaughtCoin`'s flight in closed form (see `CoinKernel`), up to the first reading after the catch."""

    time_limit: float = 2.0

    @property
    def name(self) -> str:
        """`caught_coin_kernel`."""
        return "caught_coin_kernel"

    @property
    def version(self) -> str:
        """Changes whenever an outcome could."""
        return "1"

    @property
    def steps_per_second(self) -> None:
        """None: a flight has no steps."""
        return None

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row; with `fps` [1/s] record it. Raises `TypeError` for another device."""
        if not isinstance(device, CaughtCoin):
            raise TypeError(f"{self.name} integrates a CaughtCoin, got {type(device).__name__}")
        world = device.world()
        times = frame_times(world, fps, self.time_limit)
        columns = Columns.empty(len(launches), 1, 0, len(times))
        across, along = device.moments
        k = (0.0, 0.0, 0.0, device.load, 1.0 / device.mass, 1.0 / across, 1.0 / along, 0.0, 0.0, 0.0, world.gravity)
        _catch(
            bodies_at(launches.start, world.loose),
            k,
            device.height,
            round(self.time_limit / READ_STEP),
            times,
            columns.code,
            columns.first,
            columns.end_time,
            columns.end,
            columns.frames,
            columns.frame_count,
        )
        columns.strongest[:] = columns.first
        return assemble(device, launches, columns, fps, times)


@jit
def _catch(starts, k, height, reads, times, code, first, end_time, end, frames, count):
    """Run every row: each instant is its own flight from the start."""
    begin, s = np.empty(NUMBERS), np.empty(NUMBERS)
    for row in range(len(starts)):
        take_up(starts[row, 0], begin, k, 0.0)
        caught = 2.0 * begin[9] / k[10]
        for read in range(1, reads + 1):
            end_time[row] = read / READ_RATE
            if end_time[row] > caught:
                copy(begin, s)
                fly(s, k, caught, 0.0)
                code[row] = 0 if normal(s)[2] > 0.0 else 1
                first[row] = code[row]
                break
        copy(begin, s)
        fly(s, k, end_time[row], 0.0)
        show(s, k, end[row, 0])
        while count[row] < len(times) and times[count[row]] <= end_time[row]:
            copy(begin, s)
            fly(s, k, times[count[row]], 0.0)
            show(s, k, frames[row, count[row], 0])
            count[row] += 1


@borrowing
def _seen(s, k):
    """Return what `Coin.read` does."""
    c = normal(s)[2]
    radius, half = k[0] + k[2], k[1] + k[2]
    if s[2] < half + radius / 2.0 and abs(c) > LYING:
        return 0 if c > 0.0 else 1
    return ON_EDGE if s[2] < radius * 1.05 else UNDECIDED


@jit
def _run(
    starts, k, bounds, reach, tolerance, step, widest, reads, times,
    close, code, first, strongest, settled, gone, end_time, end, frames, count,
):  # fmt: skip
    """Run every row: its coins one after the other from each reading to the next."""
    coins = starts.shape[1]
    states, before, after = np.empty((coins, NUMBERS)), np.empty(NUMBERS), np.empty(NUMBERS)
    shown, held = np.empty((coins, 13)), np.empty((coins, 7))
    mode, damping, seen = np.empty(coins, np.int64), np.empty(coins), np.empty(coins, np.int64)
    for row in range(len(starts)):
        for i in range(coins):
            take_up(starts[row, i], states[i], k, step)
            mode[i], damping[i], seen[i] = FLIES, 0.0, 0
            if len(times) and times[0] <= 0.0:
                frames[row, 0, i] = starts[row, i]
                seen[i] = 1
        time, since = 0.0, math.nan
        for read in range(1, reads + 1):
            until = read / READ_RATE
            fact, gone[row] = 0, False
            for i in range(coins):
                s = states[i]
                now = time
                while now < until:
                    began, moved = now, mode[i]
                    taken, mode[i] = advance(s, before, k, moved, until - now, step, widest, damping[i])
                    now = until if until - now - taken < 1e-12 else now + taken
                    while seen[i] < len(times) and times[seen[i]] <= now:
                        copy(before, after)
                        if moved == FLIES:
                            fly(after, k, times[seen[i]] - began, damping[i])
                        else:
                            drift(after, k, times[seen[i]] - began)
                        show(after, k, frames[row, seen[i], i])
                        seen[i] += 1
                    if mode[i] != FLIES or now < until:  # it has touched the table
                        damping[i] = k[9]
                if mode[i] == FLIES and damping[i] > 0.0 and lies(s, k):
                    lay(s, k)
                    mode[i] = LIES
                show(s, k, shown[i])
                face = _seen(s, k)
                fact = min(fact, face) if min(fact, face) < 0 else 2 * fact + face
                for axis in range(3):
                    gone[row] = gone[row] or not bounds[0, axis] <= s[axis] <= bounds[1, axis]
                for j in range(i):
                    other = states[j]
                    apart = math.sqrt((s[0] - other[0]) ** 2 + (s[1] - other[1]) ** 2 + (s[2] - other[2]) ** 2)
                    close[row] = min(close[row], apart)
            time = until
            code[row] = fact
            if first[row] < 0 and fact >= 0:
                first[row] = fact
            strongest[row] = max(strongest[row], fact)
            since = still_since(time, shown, held, since, reach, tolerance)
            settled[row] = is_rest(time, since)
            if gone[row] or settled[row]:
                break
        end_time[row] = time
        end[row] = shown
        count[row] = seen[0]
