"""What coverage means at n draws: its expectation and band under a stated reference, and the mass not seen yet without one.

Pure functions of counts and q. It refuses to judge a coverage by itself: even a perfect sampler misses rare outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike
from scipy.special import gammaln

from refcheck.cells import Real, Whole, alike, real, whole
from refcheck.metrics import Counts, FloatArray, check_q, iid_counts, require_iid
from refcheck.tally import Sampling

NEGLIGIBLE = 1e-18
"""Chances below this are left out of the exact law of the number of labels seen."""
WIDEST = 128
"""A label that may be missed has no more draws than this: the chance of more, for Poisson(41.4), is below 1e-24."""


def expected_coverage(n: ArrayLike, q: ArrayLike, *, sampling: Sampling = "iid") -> FloatArray:
    """Mean share of the k labels seen in n draws from q: (1/k) sum_i [1 - (1 - q_i)^n], shape (...); NaN where n = 0.

    A label with q_i = 0 is never seen and still counts among the k, as in PAWBench's coverage.
    """
    require_iid(sampling, "expected coverage")
    p, size = check_q(q), np.asarray(n, np.float64)
    if np.any(size < 0) or np.any(size != np.floor(size)):
        raise ValueError(f"`n` must be whole numbers of at least 0, got {size.tolist()}")
    with np.errstate(divide="ignore"):
        missed = np.exp(np.maximum(size, 1)[..., None] * np.log1p(-np.minimum(p, 1)))
    return np.where(size > 0, 1 - missed.mean(-1), np.nan)


def coverage_law(n: int, q: ArrayLike, *, sampling: Sampling = "iid") -> FloatArray:
    """Exact probabilities (k + 1,) of seeing 0..k of the labels in n >= 1 draws from q (k,).

    The counts of n multinomial draws are independent Poisson(n q_i) given their sum: labels are added one at a time to the
    joint law of (labels seen, draws used), those that cannot be missed all at once, and the end is divided by
    P(Poisson(n) = n).
    """
    require_iid(sampling, "the law of coverage")
    p = check_q(q)
    if n < 1 or p.ndim != 1:
        raise ValueError(f"`n` must be at least 1 and `q` (k,), got {n} and shape {p.shape}")
    p = p / p.sum()
    sure = n * p > -np.log(NEGLIGIBLE)
    rare = p[~sure]
    weights = scipy.stats.poisson.pmf(np.arange(min(n, WIDEST) + 1), n * rare[:, None])
    length = min(n, len(rare) * WIDEST) + 1
    law = np.zeros((len(rare) + 1, length))
    law[0, 0] = 1.0
    for i, weight in enumerate(weights):
        new = law * weight[0]
        last = int(np.flatnonzero(weight > NEGLIGIBLE)[-1])
        for s in range(i + 1):
            new[s + 1, 1:] += np.convolve(law[s, :-1], weight[1 : last + 1])[: length - 1] if last else 0.0
        law = new
    rest = scipy.stats.poisson.pmf(n - np.arange(length), n * p[sure].sum())
    seen = np.append(np.zeros(int(sure.sum())), law @ rest)
    return seen / seen.sum()


@dataclass(frozen=True)
class CoverageNull:
    """Coverage of n draws from q: `expected`, central band [`low`, `high`] at `level`, and `p` of no more labels than seen.

    All but `level` are numbers for one cell, arrays (...) for many.
    """

    n: Whole
    expected: Real
    low: Real
    high: Real
    level: float
    p: Real


def coverage_null(counts: Counts, q: ArrayLike, level: float = 0.95, *, sampling: Sampling = "iid") -> CoverageNull:
    """Place the coverage of `counts` (..., k) in its exact law under q (k,) or (..., k) at the same n.

    Cells of equal n and reference share one law. Raises `ValueError` for a cell without a rollout.
    """
    x, p = iid_counts(counts, "the band of coverage", sampling), check_q(q)
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1), got {level}")
    if x.shape[-1] != p.shape[-1]:
        raise ValueError(f"`counts` and `q` must have equally many outcomes, got {x.shape[-1]} and {p.shape[-1]}")
    x, p = np.broadcast_arrays(x, p)
    shape, k = x.shape[:-1], x.shape[-1]
    n, seen = x.sum(-1).ravel(), (x > 0).sum(-1).ravel()
    low, high, value = np.empty(n.size), np.empty(n.size), np.empty(n.size)
    for row, mine in alike(n, p.reshape(-1, k)):
        below = np.cumsum(coverage_law(int(row[0]), row[1:]))
        ends = [int(np.searchsorted(below, end - 1e-12)) for end in ((1 - level) / 2, (1 + level) / 2)]
        low[mine], high[mine] = ends[0] / k, min(ends[1], k) / k
        value[mine] = np.minimum(1.0, below[seen[mine]])
    return CoverageNull(
        n=whole(n.reshape(shape)),
        expected=real(expected_coverage(n.reshape(shape), p)),
        low=real(low.reshape(shape)),
        high=real(high.reshape(shape)),
        level=level,
        p=real(value.reshape(shape)),
    )


@dataclass(frozen=True)
class Unseen:
    """What was not seen, without a reference; each (...), NaN without a rollout.

    `mass` is the probability of the unseen by Good-Turing, `mass_refined` by Chao and Jost; `richness` is Chao's lower bound
    on the number of outcomes that can occur.
    """

    mass: FloatArray
    mass_refined: FloatArray
    richness: FloatArray


def unseen(counts: Counts, *, sampling: Sampling = "iid") -> Unseen:
    """Estimate the unseen from the outcomes seen once (f1) and twice (f2) in n draws.

    Good-Turing: f1/n (Good 1953, Biometrika 40). Chao and Jost 2012 (Ecology 93): (f1/n) (n-1) f1 / ((n-1) f1 + 2 f2), with
    f1 - 1 for f1 and 1 for f2 in the second factor where f2 = 0. Chao1, bias-corrected:
    S + ((n-1)/n) f1 (f1 - 1) / (2 (f2 + 1)) (Chao 1984; Chao 2005). The number of labels k is not used: richness may exceed
    it when many were seen once.

    Args:
        counts: (..., k) or a `Tally`.
        sampling: anything but `iid` is refused.
    """
    x = iid_counts(counts, "an estimate of the unseen mass", sampling)
    n = np.where(x.sum(-1) > 0, x.sum(-1), np.nan)
    once, twice, seen = (x == 1).sum(-1), (x == 2).sum(-1), (x > 0).sum(-1)
    mass = once / n
    alone = np.where(twice > 0, once, np.maximum(once - 1, 0))
    refined = mass * (n - 1) * alone / ((n - 1) * alone + 2 * np.maximum(twice, 1))
    return Unseen(mass, refined, seen + (n - 1) / n * once * (once - 1) / (2 * (twice + 1)))


def rarefied_coverage(counts: Counts, n: ArrayLike, *, sampling: Sampling = "iid") -> FloatArray:
    """Coverage that n of the rollouts, drawn without replacement, show on average: coverages at different n compared.

    (1/k) sum_i [1 - C(N - x_i, n) / C(N, n)], N = sum x (Hurlbert 1971, Ecology 52).

    Args:
        counts: (..., k) or a `Tally`.
        n: rollouts (...), from 1 to N.
        sampling: anything but `iid` is refused.
    """
    x, size = iid_counts(counts, "rarefied coverage", sampling), np.asarray(n, np.float64)
    total = x.sum(-1)
    if np.any(size < 1) or np.any(size > total) or np.any(size != np.floor(size)):
        raise ValueError(f"`n` must be whole numbers from 1 to the {total.tolist()} valid rollouts, got {size.tolist()}")
    rest = total[..., None] - x - size[..., None]
    kept = gammaln(total[..., None] - x + 1) - gammaln(np.maximum(rest, 0) + 1)
    log_missed = kept - (gammaln(total + 1) - gammaln(total - size + 1))[..., None]
    return np.asarray(1 - np.where(rest >= 0, np.exp(log_missed), 0.0).mean(-1))
