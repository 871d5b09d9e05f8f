"""What every kernel is held to, whatever it integrates: the same bits in any batch and when recorded, its fold."""

from __future__ import annotations

import dataclasses

import numpy as np

from simulators.device import Device, Kernel, Rollouts, State
from simulators.engines.loop import READ_RATE, fold, run
from simulators.world import Move

COLUMNS = ("fact", "null", "first", "settle_time")


def without_prelude(device: Device) -> Device:
    """The same device with the same physics whose clip starts at the release, so that frames at 60 Hz are its instants."""
    world = device.world()
    moves = {name: Move((0.0,), (tuple(move.at(0.0)[0]),), (tuple(move.at(0.0)[1]),)) for name, move in world.moves.items()}
    clone = dataclasses.replace(device)
    object.__setattr__(clone, "world", lambda: dataclasses.replace(world, moves=moves))
    return clone


def assert_same(a: Rollouts, b: Rollouts) -> None:
    for name in COLUMNS:
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name == "settle_time"), name
    for field in dataclasses.fields(State):
        assert np.array_equal(getattr(a.end, field.name), getattr(b.end, field.name)), field.name


def check_batches(kernel: Kernel, device: Device, stream: str = "test") -> None:
    """Any batch, any order, alone or together: the same bits; and recorded as well."""
    together = run(kernel, device, 5, stream, range(1000, 1100))  # across a block's border
    alone = Rollouts.concatenate([run(kernel, device, 5, stream, [i]) for i in (1090, 1023, 1001)])
    picked = np.array([90, 23, 1])
    assert np.array_equal(alone.index, together.index[picked])
    for name in COLUMNS:
        assert np.array_equal(getattr(alone, name), getattr(together, name)[picked], equal_nan=name == "settle_time"), name
    assert np.array_equal(alone.end.pos, together.end.pos[picked])
    assert_same(run(kernel, device, 5, stream, range(1000, 1100), fps=16.0), together)


def check_fold(kernel: Kernel, device: Device, n: int = 1000, stream: str = "test") -> None:
    """The kernel's fact is `device.read` folded at 60 Hz over its own recorded instants."""
    plain = without_prelude(device)
    rollouts = run(kernel, plain, 6, stream, range(n), fps=float(READ_RATE))
    assert rollouts.trajectories is not None
    code, first, strongest = (np.full(n, -1) for _ in range(3))
    for i, frames in enumerate(rollouts.trajectories):
        instant = np.abs(frames.time * READ_RATE - np.round(frames.time * READ_RATE)) < 1e-6
        shown = np.asarray(plain.read(frames[instant & (frames.time > 0.5 / READ_RATE)]))
        decisive = shown[shown >= 0]
        code[i] = shown[-1] if len(shown) else -1
        first[i] = decisive[0] if len(decisive) else -1
        strongest[i] = decisive.max() if len(decisive) else -1
    low, high = plain.world().bounds
    places = rollouts.end.pos[:, list(plain.world().loose)]
    gone = ~np.all((places >= low) & (places <= high), axis=(1, 2))
    fact, null = fold(plain.readout, code, first, strongest, ~np.isnan(rollouts.settle_time), gone)
    assert np.array_equal(fact, rollouts.fact)
    assert np.array_equal(null, rollouts.null)
    assert np.array_equal(first, rollouts.first)


def tvd_bound(a: np.ndarray, b: np.ndarray, outcomes: int, alpha: float = 0.01) -> tuple[float, float]:
    """TVD between two samples of outcomes (n,), nulls (-1) a class of their own, and its upper confidence bound.

    The distance of the samples is off by at most sqrt(log(1/alpha) (1/n + 1/m) / 2) above (McDiarmid 1989: an outcome moves it
    by 1/n or 1/m), and on average it is too large: so the bound holds with probability at least 1 - alpha.
    """
    p, q = (np.bincount(np.asarray(x) + 1, minlength=outcomes + 1) / len(x) for x in (a, b))
    distance = 0.5 * float(np.abs(p - q).sum())
    return distance, distance + float(np.sqrt(np.log(1.0 / alpha) * (1.0 / len(a) + 1.0 / len(b)) / 2.0))
