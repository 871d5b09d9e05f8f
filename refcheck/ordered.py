"""Distances that know the order of outcomes, and of the continuous terminal states behind them: Wasserstein, energy, Kuiper.

Pure functions of counts, positions and samples. They find a sampler that is right in its bins and wrong within them, or
wrong by one bin rather than by ten. It refuses to choose among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from refcheck.cells import Real, Whole, over_cells
from refcheck.inference import CHUNK, reaches
from refcheck.metrics import Counts, FloatArray, check_counts, check_q, iid_counts, require_iid
from refcheck.tally import Sampling

Distance = Literal["wasserstein", "energy", "kuiper"]


def _gaps(positions: ArrayLike, k: int) -> FloatArray:
    at = np.asarray(positions, np.float64)
    if at.shape != (k,) or not np.all(np.isfinite(at)) or np.any(np.diff(at) <= 0):
        raise ValueError(f"`positions` must be {k} increasing numbers, got {at.tolist()}")
    return np.diff(at)


def _difference(counts: ArrayLike, q: ArrayLike) -> FloatArray:
    """F_n - F (..., k) after each outcome, NaN without a rollout."""
    x, p = check_counts(counts), check_q(q)
    if x.shape[-1] != p.shape[-1]:
        raise ValueError(f"`counts` and `q` must have equally many outcomes, got {x.shape[-1]} and {p.shape[-1]}")
    n = x.sum(-1, keepdims=True)
    return np.cumsum(x / np.where(n > 0, n, np.nan) - p, axis=-1)


def wasserstein(counts: ArrayLike, q: ArrayLike, positions: ArrayLike) -> FloatArray:
    """W1 = integral |F_n - F| (...), in the unit of `positions` (k,): the mass moved times how far."""
    difference = _difference(counts, q)
    return np.asarray((np.abs(difference[..., :-1]) * _gaps(positions, difference.shape[-1])).sum(-1))


def energy(counts: ArrayLike, q: ArrayLike, positions: ArrayLike) -> FloatArray:
    """Energy distance sqrt(2 integral (F_n - F)^2) (...), unit sqrt of `positions`' (Szekely and Rizzo 2013; scipy's)."""
    difference = _difference(counts, q)
    return np.asarray(np.sqrt(2 * (difference[..., :-1] ** 2 * _gaps(positions, difference.shape[-1])).sum(-1)))


def kuiper(counts: ArrayLike, q: ArrayLike) -> FloatArray:
    """Kuiper's V = max(F_n - F) + max(F - F_n) (...), for outcomes on a circle: where it is cut open does not matter."""
    difference = _difference(counts, q)
    return np.asarray(difference.max(-1) - difference.min(-1))


@dataclass(frozen=True)
class OrderedTest:
    """A distance with its add-one p-value from `draws` replicates, `reached` of which were at least as extreme.

    `statistic`, `p` and `reached` are numbers for one cell, arrays (...) for many.
    """

    kind: Distance
    statistic: Real
    p: Real
    draws: int
    reached: Whole


def _test(kind: Distance, observed: float, replicates: FloatArray) -> OrderedTest:
    reached = int(reaches(replicates, observed).sum())
    return OrderedTest(kind, observed, (reached + 1) / (replicates.size + 1), replicates.size, reached)


def _binned(counts: ArrayLike, q: ArrayLike, kind: Distance, positions: ArrayLike | None) -> FloatArray:
    if kind == "kuiper":
        return kuiper(counts, q)
    if positions is None:
        raise ValueError(f"the {kind} distance needs `positions`")
    return (wasserstein if kind == "wasserstein" else energy)(counts, q, positions)


@over_cells(counts=1, q=1)
def ordered_test(
    counts: Counts,
    q: ArrayLike,
    generator: Generator,
    kind: Distance = "wasserstein",
    positions: ArrayLike | None = None,
    draws: int = 10_000,
    *,
    sampling: Sampling = "iid",
) -> OrderedTest:
    """Test counts (k,) of ordered outcomes against q by Monte Carlo: p = (b + 1) / (B + 1), ties included.

    Args:
        counts: (..., k) or a `Tally`, at least one valid rollout a cell; each cell has draws of its own.
        q: reference (k,) or (..., k).
        generator: source of the draws from q.
        kind: the distance; `kuiper` needs no positions.
        positions: (k,) increasing.
        draws: B.
        sampling: anything but `iid` is refused.
    """
    x, p = iid_counts(counts, "a p-value", sampling), check_q(q)
    if x.sum() < 1:
        raise ValueError("a tally without a valid rollout cannot be tested")
    drawn = generator.multinomial(int(x.sum()), p / p.sum(), size=draws)
    return _test(kind, float(_binned(x, p, kind, positions)), _binned(drawn, p, kind, positions))


def _sample(values: ArrayLike, name: str) -> FloatArray:
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1 or sample.size == 0 or not np.all(np.isfinite(sample)):
        raise ValueError(f"`{name}` must be (n,) finite numbers, n >= 1")
    return sample


def _pooled(mine: NDArray[np.bool_], pooled: FloatArray, kind: Distance) -> FloatArray:
    """Distances (...) between the parts of the sorted `pooled` sample (N,) that `mine` (..., N) marks and leaves."""
    share = np.where(mine, 1 / mine.sum(-1, keepdims=True), -1 / (~mine).sum(-1, keepdims=True))
    difference, gap = np.cumsum(share, axis=-1)[..., :-1], np.diff(pooled)
    if kind == "wasserstein":
        return np.asarray((np.abs(difference) * gap).sum(-1))
    if kind == "energy":
        return np.asarray(np.sqrt(2 * (difference**2 * gap).sum(-1)))
    ends = np.where(gap > 0, difference, 0.0)  # within a tie neither distribution function has taken its value yet
    return np.asarray(np.maximum(ends.max(-1, initial=0), 0) - np.minimum(ends.min(-1, initial=0), 0))


def sample_distance(a: ArrayLike, b: ArrayLike, kind: Distance = "wasserstein") -> float:
    """Distance between two samples of numbers (n,) and (m,); for angles on a circle use `kuiper`."""
    x, y = _sample(a, "a"), _sample(b, "b")
    pooled = np.concatenate([x, y])
    order = np.argsort(pooled, kind="stable")
    return float(_pooled(order < x.size, pooled[order], kind))


def sample_test(
    a: ArrayLike,
    b: ArrayLike,
    generator: Generator,
    kind: Distance = "wasserstein",
    draws: int = 2_000,
    *,
    sampling: Sampling = "iid",
) -> OrderedTest:
    """Test that two samples of terminal states come from one law, by permuting who drew what: exact at any size.

    Args:
        a: (n,) numbers, such as the clips' terminal positions.
        b: (m,) numbers, such as the simulator's.
        generator: source of the permutations.
        kind: the distance.
        draws: permutations B; p = (b + 1) / (B + 1).
        sampling: anything but `iid` is refused.
    """
    require_iid(sampling, "a permutation p-value")
    x, y = _sample(a, "a"), _sample(b, "b")
    pooled = np.sort(np.concatenate([x, y]))
    rows, replicates = max(1, CHUNK // pooled.size), []
    for start in range(0, draws, rows):
        rank = np.argsort(generator.random((min(rows, draws - start), pooled.size)), axis=-1)
        replicates.append(_pooled(rank < x.size, pooled, kind))
    return _test(kind, sample_distance(x, y, kind), np.concatenate(replicates))


def uniform_kuiper(turns: ArrayLike) -> float:
    """Kuiper's V of turns (n,), taken modulo 1, from the uniform law on the circle (Kuiper 1960).

    V = max_i (i/n - u_(i)) + max_i (u_(i) - (i - 1)/n). For another continuous law give F(x) instead of turns.
    """
    u = np.sort(_sample(turns, "turns") % 1.0)
    return float(_uniform_kuiper(u))


def _uniform_kuiper(ordered: FloatArray) -> FloatArray:
    n = ordered.shape[-1]
    steps = np.arange(1, n + 1) / n
    return np.asarray((steps - ordered).max(-1) + (ordered - steps + 1 / n).max(-1))


def uniform_test(turns: ArrayLike, generator: Generator, draws: int = 10_000, *, sampling: Sampling = "iid") -> OrderedTest:
    """Test that turns (n,) modulo 1 are uniform on the circle, by Monte Carlo of Kuiper's V at the same n."""
    require_iid(sampling, "a p-value")
    observed, n = uniform_kuiper(turns), np.size(turns)
    rows, replicates = max(1, CHUNK // n), []
    for start in range(0, draws, rows):
        drawn = np.sort(generator.random((min(rows, draws - start), n)), axis=-1)
        replicates.append(_uniform_kuiper(drawn))
    return _test("kuiper", observed, np.concatenate(replicates))
