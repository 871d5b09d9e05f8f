"""References that are not one exact distribution: an interval for every outcome, or somebody's real throws.

Pure functions of counts and a generator that is passed in. It refuses to pick the member of a set that suits a model: the
distance from the frozen q comes first, the smallest and the largest over the set beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.optimize import LinearConstraint, milp

from refcheck import metrics
from refcheck.cells import Real, over_cells
from refcheck.inference import Statistic, reaches
from refcheck.intervals import Interval, difference_interval, redraw_shares
from refcheck.metrics import Counts, FloatArray, check_counts, check_q, iid_counts
from refcheck.tally import Sampling


@dataclass(frozen=True)
class DistanceRange:
    """TVD from the frozen `q`, and its `smallest` and `largest` over every reference of the set. NaN without a rollout.

    Numbers for one cell, arrays (...) for many.
    """

    frozen: Real
    smallest: Real
    largest: Real


def check_box(low: ArrayLike, high: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the ends (k,) of a set {q: low <= q <= high, sum 1} that is not empty; raise `ValueError` otherwise."""
    least, most = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if least.ndim != 1 or least.shape != most.shape or least.size == 0:
        raise ValueError(f"`low` and `high` must both be (k,), got shapes {least.shape} and {most.shape}")
    if not np.all((least >= 0) & (least <= most) & (most <= 1)):
        raise ValueError("`low` and `high` must satisfy 0 <= low <= high <= 1 for every outcome")
    if least.sum() > 1 + metrics.Q_TOLERANCE or most.sum() < 1 - metrics.Q_TOLERANCE:
        raise ValueError(f"no distribution lies between them: `low` sums to {least.sum():g}, `high` to {most.sum():g}")
    return least, most


@over_cells(counts=1, q=1, low=1, high=1)
def distance_range(counts: ArrayLike, q: ArrayLike, low: ArrayLike, high: ArrayLike) -> DistanceRange:
    """Return the extreme distances of a tally from a set of references {q: low <= q <= high, sum 1}.

    With shares s: smallest = max(sum_i max(s_i - high_i, 0), sum_i max(low_i - s_i, 0)), for at least so much has to move,
    and so much suffices. Largest = max over sets A of min(sum_A (high_i - s_i), sum_not-A (s_i - low_i)), the most that
    q(A) - s(A) can be, which is a knapsack: solved exactly as a mixed-integer programme, one a cell.

    Args:
        counts: (..., k).
        q: the frozen reference (k,) or (..., k), itself in the set.
        low: smallest probability (k,) or (..., k) of each outcome.
        high: largest probability (k,) or (..., k) of each outcome.
    """
    x, p = check_counts(counts), check_q(q)
    least, most = check_box(low, high)
    if not x.shape == p.shape == least.shape:
        raise ValueError(f"`counts`, `q` and the set must be (k,) alike, got {x.shape}, {p.shape} and {least.shape}")
    if np.any(p < least - metrics.Q_TOLERANCE) or np.any(p > most + metrics.Q_TOLERANCE):
        raise ValueError("`q` must lie in the set it is the frozen member of")
    if x.sum() == 0:
        return DistanceRange(np.nan, np.nan, np.nan)
    share = x / x.sum()
    smallest = max(np.maximum(share - most, 0).sum(), np.maximum(least - share, 0).sum())
    # Variables: one 0/1 for each outcome (is it in A), and the distance t <= both sums.
    above, below = most - share, share - least
    rows = np.array([np.append(-above, 1.0), np.append(below, 1.0)])
    found = milp(
        np.append(np.zeros(x.size), -1.0),
        integrality=np.append(np.ones(x.size), 0),
        bounds=(np.append(np.zeros(x.size), -1.0), np.ones(x.size + 1)),
        constraints=LinearConstraint(rows, ub=[0.0, below.sum()]),
        options={"mip_rel_gap": 0.0},
    )
    if not found.success:
        raise ArithmeticError(f"the largest distance was not found: {found.message}")
    return DistanceRange(float(metrics.tvd(x, p)), float(smallest), float(max(-found.fun, smallest)))


def two_sample_tvd(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """TVD (...) between the shares of two tallies (..., k); NaN where either has no valid rollout."""
    x, y = check_counts(a), check_counts(b)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"the tallies must have equally many outcomes, got {x.shape[-1]} and {y.shape[-1]}")
    n, m = x.sum(-1, keepdims=True), y.sum(-1, keepdims=True)
    return np.asarray(0.5 * np.abs(x / np.where(n > 0, n, np.nan) - y / np.where(m > 0, m, np.nan)).sum(-1))


def two_sample_chi_square(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Pearson's X^2 of homogeneity (...): sum_i (x_i sqrt(m/n) - y_i sqrt(n/m))^2 / (x_i + y_i), where x_i + y_i > 0."""
    x, y = check_counts(a), check_counts(b)
    n, m = x.sum(-1, keepdims=True), y.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = (x * np.sqrt(m / n) - y * np.sqrt(n / m)) ** 2 / (x + y)
    terms = np.where(x + y > 0, terms, 0.0).sum(-1)
    return np.where((n[..., 0] > 0) & (m[..., 0] > 0), terms, np.nan)


@dataclass(frozen=True)
class TwoSample:
    """Two tallies compared: the distance with the `floor` and `band` that equal laws give it, p, and an interval.

    `interval` is for TVD(p_a, p_b) and carries the noise of both tallies. `p` is of "one law behind both" by `kind`.
    For many cells arrays (...), `band` (..., 2).
    """

    tvd: Real
    floor: Real
    band: tuple[float, float] | FloatArray
    p: Real
    kind: Statistic
    interval: Interval
    draws: int


@over_cells(a=1, b=1)
def two_sample(
    a: Counts,
    b: Counts,
    generator: Generator,
    *,
    kind: Statistic = "chi_square",
    draws: int = 10_000,
    level: float = 0.95,
    sampling: Sampling = "iid",
) -> TwoSample:
    """Compare a model's tally with an empirical reference, neither of them taken for the truth.

    p, floor and band: the labels of both are shared out anew, multivariate hypergeometric, which is exact at any size
    (permutation; p = (b + 1) / (B + 1), ties included). Interval: both tallies redrawn from their own shares, two
    pseudo-rollouts spread evenly added (`intervals.difference_interval`).

    Args:
        a: (..., k) or a `Tally`, at least one valid rollout a cell.
        b: likewise, over the same outcomes. Every cell is permuted and redrawn by itself.
        generator: source of the draws.
        kind: statistic of the test.
        draws: of permutation and bootstrap each.
        level: of band and interval.
        sampling: of bare counts; anything but `iid` is refused.
    """
    x, y = iid_counts(a, "a two-sample test", sampling), iid_counts(b, "a two-sample test", sampling)
    if x.ndim != 1 or x.shape != y.shape or min(x.sum(), y.sum()) < 1:
        raise ValueError("the tallies must be (k,) alike, with at least one valid rollout each")
    n, m = int(x.sum()), int(y.sum())
    pooled = (x + y).astype(np.int64)
    mine = generator.multivariate_hypergeometric(pooled, n, size=draws, method="marginals")
    null = two_sample_tvd(mine, pooled - mine)
    statistic = null if kind == "tvd" else two_sample_chi_square(mine, pooled - mine)
    observed = float(two_sample_tvd(x, y) if kind == "tvd" else two_sample_chi_square(x, y))
    low, high = np.quantile(null, [(1 - level) / 2, (1 + level) / 2])
    redrawn = redraw_shares(x, generator, draws) - redraw_shares(y, generator, draws)
    distance = float(two_sample_tvd(x, y))
    return TwoSample(
        tvd=distance,
        floor=float(null.mean()),
        band=(float(low), float(high)),
        p=(int(reaches(statistic, observed).sum()) + 1) / (draws + 1),
        kind=kind,
        interval=difference_interval(x / n - y / m, redrawn, level),
        draws=draws,
    )
