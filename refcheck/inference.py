"""What may be concluded from one tally at a fixed n: null bands, p-values and corrections for many tests.

Pure functions of counts, a reference and a generator that is passed in. It refuses to know scenes, devices and files, and
gives no figure for a tally that is not independent draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, nan
from typing import Literal

import numpy as np
import scipy.stats
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from refcheck import metrics
from refcheck.metrics import Counts, FloatArray, check_q, iid_counts
from refcheck.tally import Sampling

TIE = 1e-9
"""Statistics this close, relative to the larger of 1 and the observed one, are ties: sums differ in their last bits."""
LATTICE = 200_000
"""Up to this many possible tallies a p-value is summed exactly."""
CHUNK = 1 << 22
"""Random counts drawn at once: bounds the memory of a Monte-Carlo null."""

Statistic = Literal["chi_square", "tvd"]
STATISTICS = {"chi_square": metrics.chi_square, "tvd": metrics.tvd}


def reaches(statistic: ArrayLike, observed: float) -> NDArray[np.bool_]:
    """Tell which statistics are at least as extreme as `observed`, ties included."""
    values = np.asarray(statistic, np.float64)
    return values >= (observed - TIE * max(1.0, observed) if np.isfinite(observed) else observed)


@dataclass(frozen=True)
class Null:
    """Statistics of `draws` tallies of n rollouts drawn from q itself, each (draws,)."""

    n: int
    tvd: FloatArray
    chi_square: FloatArray

    def band(self, level: float = 0.95) -> tuple[float, float]:
        """Central `level` range of TVD when the model *is* q: percentiles (CaliBench: 2.5 and 97.5 %)."""
        low, high = np.quantile(self.tvd, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def draw_null(n: int, q: ArrayLike, generator: Generator, draws: int = 50_000, *, sampling: Sampling = "iid") -> Null:
    """Draw the null distribution of TVD and chi-square for n >= 1 i.i.d. valid rollouts and reference `q` (k,)."""
    metrics.require_iid(sampling, "the multinomial null")
    p = check_q(q)
    if n < 1 or draws < 1:
        raise ValueError(f"`n` and `draws` must be at least 1, got {n} and {draws}")
    p = p / p.sum()  # the generator refuses a sum above 1 by more than 1e-12
    rows, distances, squares = max(1, CHUNK // p.size), [], []
    for start in range(0, draws, rows):
        counts = generator.multinomial(n, p, size=min(rows, draws - start))
        distances.append(metrics.tvd(counts, p))
        squares.append(metrics.chi_square(counts, p))
    return Null(n, np.concatenate(distances), np.concatenate(squares))


@dataclass(frozen=True)
class PValue:
    """A p-value with its evidence: the observed `statistic`, and for Monte Carlo the `draws` and how many `reached` it."""

    value: float
    statistic: float
    kind: Statistic
    method: Literal["exact", "monte_carlo"]
    draws: int = 0
    reached: int = 0


def monte_carlo_p_value(
    counts: Counts, q: ArrayLike, null: Null, kind: Statistic = "chi_square", *, sampling: Sampling = "iid"
) -> PValue:
    """Monte-Carlo p = (b + 1) / (B + 1), b the null tallies at least as extreme as the observed one, ties included.

    The observed tally counts as one of the draws, so that the test keeps its level and p is never 0 (Davison and Hinkley
    1997, Bootstrap Methods and their Application, 4.2.5; Phipson and Smyth 2010).
    """
    x = iid_counts(counts, "a p-value", sampling)
    observed = float(STATISTICS[kind](x, q))
    if int(x.sum()) != null.n:
        raise ValueError(f"the null was drawn for n = {null.n}, the counts sum to {int(x.sum())}")
    drawn = null.chi_square if kind == "chi_square" else null.tvd
    reached = int(reaches(drawn, observed).sum())
    return PValue((reached + 1) / (drawn.size + 1), observed, kind, "monte_carlo", drawn.size, reached)


def lattice_size(n: int, k: int) -> int:
    """Return how many tallies of n rollouts over k outcomes there are: C(n + k - 1, k - 1)."""
    return comb(n + k - 1, k - 1)


def lattice(n: int, k: int) -> NDArray[np.int64]:
    """Return all tallies of n rollouts over k outcomes, (C(n+k-1, k-1), k)."""
    tallies = np.zeros((1, 0), np.int64)
    left = np.full(1, n)
    for _ in range(k - 1):
        rows = np.repeat(np.arange(left.size), left + 1)
        first = np.cumsum(left + 1) - (left + 1)
        value = np.arange(rows.size) - first[rows]
        tallies, left = np.column_stack([tallies[rows], value]), left[rows] - value
    return np.column_stack([tallies, left])


def exact_p_value(counts: Counts, q: ArrayLike, kind: Statistic = "chi_square", *, sampling: Sampling = "iid") -> PValue:
    """Sum q's multinomial probability over every tally at least as extreme as `counts` (k,). Raises over a large lattice."""
    x, p = iid_counts(counts, "a p-value", sampling), check_q(q)
    n, observed = int(x.sum()), float(STATISTICS[kind](x, p))
    if lattice_size(n, p.size) > LATTICE:
        raise ValueError(f"{lattice_size(n, p.size)} tallies are too many to sum, at most {LATTICE}; use Monte Carlo")
    tallies = lattice(n, p.size)
    extreme = tallies[reaches(STATISTICS[kind](tallies, p), observed)]
    value = float(scipy.stats.multinomial.pmf(extreme, n, p / p.sum()).sum()) if extreme.size else 0.0
    return PValue(min(1.0, value), observed, kind, "exact")


def p_value(
    counts: Counts,
    q: ArrayLike,
    generator: Generator,
    *,
    kind: Statistic = "chi_square",
    draws: int = 10_000,
    sampling: Sampling = "iid",
) -> PValue:
    """Fixed-n p-value of the hypothesis that `counts` (k,) come from `q`: exact where that is cheap, else Monte Carlo.

    An outcome q excludes makes the chi-square infinite, which no draw from q reaches: p is 0 exactly, 1/(B + 1) by Monte
    Carlo. A number for one n fixed beforehand: after a sequential stop it describes the tally and proves nothing.
    """
    x, p = iid_counts(counts, "a p-value", sampling), check_q(q)
    n = int(x.sum())
    if n == 0:
        return PValue(nan, nan, kind, "exact")
    if lattice_size(n, p.size) <= LATTICE:
        return exact_p_value(x, p, kind)
    return monte_carlo_p_value(x, p, draw_null(n, p, generator, draws), kind)


def exact_multinomial_p_value(counts: Counts, q: ArrayLike, *, sampling: Sampling = "iid") -> float:
    """Exact multinomial test: q's probability of every tally no likelier than `counts` (k,). Raises over a large lattice.

    Tallies are ordered by their own probability, as in the exact binomial test (k = 2), with its tie tolerance of 1e-7.
    """
    x, p = iid_counts(counts, "a p-value", sampling), check_q(q)
    n = int(x.sum())
    if lattice_size(n, p.size) > LATTICE:
        raise ValueError(f"{lattice_size(n, p.size)} tallies are too many to sum, at most {LATTICE}; use Monte Carlo")
    law = scipy.stats.multinomial.pmf(lattice(n, p.size), n, p / p.sum())
    observed = scipy.stats.multinomial.pmf(x, n, p / p.sum())
    return float(min(1.0, law[law <= observed * (1 + 1e-7)].sum()))


def p_values(
    counts: ArrayLike,
    q: ArrayLike,
    generator: Generator,
    *,
    kind: Statistic = "chi_square",
    draws: int = 10_000,
    sampling: Sampling = "iid",
) -> FloatArray:
    """Return p-values (...) of many cells at once, each as `p_value` gives it; NaN for a cell without a valid rollout.

    Cells of equal n and reference share one lattice or one null, so that ten thousand cells cost little more than one; their
    Monte-Carlo errors are then not independent.

    Args:
        counts: (..., k).
        q: (k,) or (..., k).
        generator: source of the nulls.
        kind: the statistic.
        draws: of each Monte-Carlo null.
        sampling: anything but `iid` is refused.
    """
    x, p = iid_counts(counts, "a p-value", sampling), check_q(q)
    statistic = np.asarray(STATISTICS[kind](x, p))
    shape = statistic.shape
    x, p = (np.broadcast_to(part, (*shape, x.shape[-1])).reshape(-1, x.shape[-1]) for part in (x, p))
    values, flat = np.full(len(x), nan), statistic.ravel()
    cells, where = np.unique(np.column_stack([x.sum(-1), p]), axis=0, return_inverse=True)
    for i, cell in enumerate(cells):
        n, reference, mine = int(cell[0]), cell[1:], np.flatnonzero(where.ravel() == i)
        if n == 0:
            continue
        exact = lattice_size(n, reference.size) <= LATTICE
        if exact:
            tallies = lattice(n, reference.size)
            drawn = np.asarray(STATISTICS[kind](tallies, reference))
            weight = scipy.stats.multinomial.pmf(tallies, n, reference / reference.sum())
        else:
            null = draw_null(n, reference, generator, draws)
            drawn = null.chi_square if kind == "chi_square" else null.tvd
            weight = np.ones(draws)
        order = np.argsort(drawn)
        above = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)  # tails summed directly, from their far end
        observed = flat[mine]
        edge = observed - TIE * np.where(np.isfinite(observed), np.maximum(1.0, observed), 0.0)
        tail = above[np.searchsorted(drawn[order], edge, side="left")]
        values[mine] = np.minimum(tail, 1.0) if exact else (tail + 1) / (draws + 1)
    return values.reshape(shape)


def benjamini_hochberg(p: ArrayLike) -> FloatArray:
    """Adjusted p-values (t,) of t tests: reject those below the false-discovery rate wanted. NaN (untested) stays NaN.

    p~_(i) = min over j >= i of t p_(j) / j (Benjamini and Hochberg 1995, JRSS B 57).
    """
    values = np.asarray(p, np.float64)
    adjusted = np.full(values.shape, nan)
    tested = ~np.isnan(values)
    if tested.any():
        adjusted[tested] = scipy.stats.false_discovery_control(values[tested], method="bh")
    return adjusted
