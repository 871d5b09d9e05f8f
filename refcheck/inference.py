"""What may be concluded from one tally at a fixed n: null bands, p-values and corrections for many tests.

Pure functions of counts, a reference and a generator that is passed in. It refuses to know scenes, devices and files, and
gives no figure for a tally that is not independent draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb, isnan, nan
from typing import Any, Literal

import numpy as np
import scipy.stats
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from refcheck import metrics
from refcheck.cells import Real, Whole, alike, real, whole
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


def _edge(observed: FloatArray) -> FloatArray:
    """Return the least statistic (...) that is still as extreme as the observed one, ties included."""
    return observed - TIE * np.where(np.isfinite(observed), np.maximum(1.0, observed), 0.0)


def reaches(statistic: ArrayLike, observed: float) -> NDArray[np.bool_]:
    """Tell which statistics are at least as extreme as `observed`, ties included."""
    return np.asarray(np.asarray(statistic, np.float64) >= _edge(np.asarray(observed, np.float64)))


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
    """A p-value with its evidence: the observed `statistic`, and for Monte Carlo the `draws` and how many `reached` it.

    `value`, `statistic` and `reached` are numbers for one cell, arrays (...) for many.
    """

    value: Real
    statistic: Real
    kind: Statistic
    method: Literal["exact", "monte_carlo"]
    draws: int = 0
    reached: Whole = 0


def monte_carlo_p_value(
    counts: Counts, q: ArrayLike, null: Null, kind: Statistic = "chi_square", *, sampling: Sampling = "iid"
) -> PValue:
    """Monte-Carlo p = (b + 1) / (B + 1), b the null tallies at least as extreme as the observed one, ties included.

    The observed tally counts as one of the draws, so that the test keeps its level and p is never 0 (Davison and Hinkley
    1997, Bootstrap Methods and their Application, 4.2.5; Phipson and Smyth 2010).

    Args:
        counts: (..., k), each cell of `null.n` rollouts, or a `Tally`.
        q: the reference (k,) that `null` was drawn from.
        null: as from `draw_null`.
        kind: the statistic.
        sampling: anything but `iid` is refused.
    """
    x = iid_counts(counts, "a p-value", sampling)
    observed = np.asarray(STATISTICS[kind](x, q))
    if np.any(x.sum(-1) != null.n):
        raise ValueError(f"the null was drawn for n = {null.n}, the counts sum to {_numbers(x.sum(-1))}")
    drawn = np.sort(null.chi_square if kind == "chi_square" else null.tvd)
    reached = np.asarray(drawn.size - np.searchsorted(drawn, _edge(observed), side="left"))
    return PValue(
        real(np.asarray((reached + 1) / (drawn.size + 1))), real(observed), kind, "monte_carlo", drawn.size, whole(reached)
    )


def _numbers(values: FloatArray) -> str:
    """Return the distinct whole numbers among `values`, the first few."""
    found = [f"{value:g}" for value in np.unique(values)]
    return ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")


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


def _summable(n: int, k: int) -> NDArray[np.int64]:
    """Return the lattice of n over k, (t, k). Raises `ValueError` where it is too large."""
    if lattice_size(n, k) > LATTICE:
        raise ValueError(f"{lattice_size(n, k)} tallies are too many to sum, at most {LATTICE}; use Monte Carlo")
    return lattice(n, k)


def _cells(counts: FloatArray, q: FloatArray) -> tuple[tuple[int, ...], FloatArray, FloatArray]:
    """Return the leading shape of counts and q broadcast, and both as (cells, k)."""
    if counts.shape[-1] != q.shape[-1]:
        raise ValueError(f"`counts` and `q` must have equally many outcomes, got {counts.shape[-1]} and {q.shape[-1]}")
    x, p = np.broadcast_arrays(counts, q)
    return x.shape[:-1], x.reshape(-1, x.shape[-1]), p.reshape(-1, x.shape[-1])


def _tail(drawn: FloatArray, weight: FloatArray, observed: FloatArray) -> FloatArray:
    """Return the weight of the statistics `drawn` (t,) as extreme as each `observed` (cells,), summed from the far end."""
    order = np.argsort(drawn)
    above = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return np.asarray(above[np.searchsorted(drawn[order], _edge(observed), side="left")])


def exact_p_value(counts: Counts, q: ArrayLike, kind: Statistic = "chi_square", *, sampling: Sampling = "iid") -> PValue:
    """Sum q's multinomial probability over every tally at least as extreme as the observed one; NaN without a rollout.

    Cells of equal n and reference share one enumeration. Raises `ValueError` over more than `LATTICE` tallies.

    Args:
        counts: (..., k) or a `Tally`.
        q: (k,) or (..., k).
        kind: the statistic.
        sampling: anything but `iid` is refused.
    """
    shape, x, p = _cells(iid_counts(counts, "a p-value", sampling), check_q(q))
    observed, values = np.asarray(STATISTICS[kind](x, p)), np.full(len(x), nan)
    for row, mine in alike(x.sum(-1), p):
        n, reference = int(row[0]), row[1:]
        if n:
            tallies = _summable(n, reference.size)
            weight = scipy.stats.multinomial.pmf(tallies, n, reference / reference.sum())
            values[mine] = np.minimum(1.0, _tail(np.asarray(STATISTICS[kind](tallies, reference)), weight, observed[mine]))
    return PValue(real(values.reshape(shape)), real(observed.reshape(shape)), kind, "exact")


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


def exact_multinomial_p_value(counts: Counts, q: ArrayLike, *, sampling: Sampling = "iid") -> Real:
    """Exact multinomial test: q's probability of every tally no likelier than the observed one (...); NaN without a rollout.

    Tallies are ordered by their own probability, as in the exact binomial test (k = 2), with its tie tolerance of 1e-7.
    Arguments and refusals as `exact_p_value`.
    """
    shape, x, p = _cells(iid_counts(counts, "a p-value", sampling), check_q(q))
    values = np.full(len(x), nan)
    for row, mine in alike(x.sum(-1), p):
        n, reference = int(row[0]), row[1:] / row[1:].sum()
        if n:
            law = np.sort(scipy.stats.multinomial.pmf(_summable(n, reference.size), n, reference))
            observed = np.atleast_1d(scipy.stats.multinomial.pmf(x[mine], n, reference))
            below = np.append(0.0, np.cumsum(law))
            values[mine] = np.minimum(1.0, below[np.searchsorted(law, observed * (1 + 1e-7), side="right")])
    return real(values.reshape(shape))


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
    shape, x, p = _cells(iid_counts(counts, "a p-value", sampling), check_q(q))
    observed, values = np.asarray(STATISTICS[kind](x, p)), np.full(len(x), nan)
    for row, mine in alike(x.sum(-1), p):
        n, reference = int(row[0]), row[1:]
        if n and lattice_size(n, reference.size) <= LATTICE:
            values[mine] = exact_p_value(x[mine], reference, kind).value
        elif n:
            null = draw_null(n, reference, generator, draws)
            drawn = null.chi_square if kind == "chi_square" else null.tvd
            values[mine] = (_tail(drawn, np.ones(draws), observed[mine]) + 1) / (draws + 1)
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


def adjust(entries: Iterable[dict[str, Any]], key: str = "p") -> None:
    """Write `<key>_benjamini_hochberg` beside the p-value `key` of every entry of one family; None where p is None or missing.

    What was not tested counts in no family. Entries are results on their way to JSON, which are plain mappings.
    """
    family = list(entries)
    values = [nan if entry.get(key) is None else float(entry[key]) for entry in family]
    for entry, value in zip(family, benjamini_hochberg(values), strict=True):
        entry[f"{key}_benjamini_hochberg"] = None if isnan(value) else float(value)
