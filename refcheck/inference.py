"""What may be concluded from a tally: null bands, p-values, intervals, corrections and the sequential certificate.

Pure functions of counts, a reference and a generator that is passed in. It refuses to know scenes, devices and files.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, exp, expm1, inf, log, log1p, nan, sqrt
from typing import Literal

import numpy as np
import scipy.stats
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import betaln, lambertw, xlog1py, xlogy

from refcheck import metrics
from refcheck.metrics import FloatArray, check_counts, check_q

TIE = 1e-9
"""Statistics this close, relative to the larger of 1 and the observed one, are ties: sums differ in their last bits."""
LATTICE = 200_000
"""Up to this many possible tallies a p-value is summed exactly."""
LOOK = 256
"""Rollouts between two looks of the sequential test: part of what a certificate means, never a setting."""
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


def draw_null(n: int, q: ArrayLike, generator: Generator, draws: int = 50_000) -> Null:
    """Draw the null distribution of TVD and chi-square for n >= 1 valid rollouts and reference `q` (k,)."""
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


def monte_carlo_p_value(counts: ArrayLike, q: ArrayLike, null: Null, kind: Statistic = "chi_square") -> PValue:
    """Monte-Carlo p = (b + 1) / (B + 1), b the null tallies at least as extreme as the observed one, ties included.

    The observed tally counts as one of the draws, so that the test keeps its level and p is never 0 (Davison and Hinkley
    1997, Bootstrap Methods and their Application, 4.2.5; Phipson and Smyth 2010).
    """
    observed = float(STATISTICS[kind](counts, q))
    if int(check_counts(counts).sum()) != null.n:
        raise ValueError(f"the null was drawn for n = {null.n}, the counts sum to {int(np.sum(counts))}")
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


def exact_p_value(counts: ArrayLike, q: ArrayLike, kind: Statistic = "chi_square") -> PValue:
    """Sum q's multinomial probability over every tally at least as extreme as `counts` (k,). Raises over a large lattice."""
    x, p = check_counts(counts), check_q(q)
    n, observed = int(x.sum()), float(STATISTICS[kind](counts, q))
    if lattice_size(n, p.size) > LATTICE:
        raise ValueError(f"{lattice_size(n, p.size)} tallies are too many to sum, at most {LATTICE}; use Monte Carlo")
    tallies = lattice(n, p.size)
    extreme = tallies[reaches(STATISTICS[kind](tallies, p), observed)]
    value = float(scipy.stats.multinomial.pmf(extreme, n, p / p.sum()).sum()) if extreme.size else 0.0
    return PValue(min(1.0, value), observed, kind, "exact")


def p_value(
    counts: ArrayLike, q: ArrayLike, generator: Generator, *, kind: Statistic = "chi_square", draws: int = 10_000
) -> PValue:
    """Fixed-n p-value of the hypothesis that `counts` (k,) come from `q`: exact where that is cheap, else Monte Carlo.

    A number for one n fixed beforehand: after a sequential stop it describes the tally and proves nothing.
    """
    x, p = check_counts(counts), check_q(q)
    n = int(x.sum())
    if n == 0:
        return PValue(nan, nan, kind, "exact")
    if lattice_size(n, p.size) <= LATTICE:
        return exact_p_value(x, p, kind)
    return monte_carlo_p_value(x, p, draw_null(n, p, generator, draws), kind)


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


@dataclass(frozen=True)
class Interval:
    """A percentile interval at `level` from `draws` replicates."""

    low: float
    high: float
    level: float
    draws: int


def percentile_bootstrap_mntv(
    cells: list[tuple[ArrayLike, int, ArrayLike]], generator: Generator, draws: int = 50_000, level: float = 0.95
) -> Interval:
    """CaliBench's published bootstrap of mnTV: every cell redrawn as multinomial(N, its own shares *including null*).

    E0 is taken at the redrawn n, a redrawn cell without a valid rollout scores 1, and the percentiles are reported. The
    shares are the observed ones, so a redrawn cell is further from q than the cell is: the interval need not be centred
    on mnTV. Kept as published.

    Args:
        cells: (counts (k,), nulls, q (k,)) of every scene, each with at least one rollout.
        generator: source of the redraws.
        draws: replicates.
        level: of the interval.
    """
    total = np.zeros(draws)
    for counts, nulls, q in cells:
        x, p = check_counts(counts), check_q(q)
        size = int(x.sum()) + nulls
        if size < 1:
            raise ValueError("a cell without a rollout cannot be redrawn")
        redrawn = generator.multinomial(size, np.append(x, nulls) / size, size=draws)[:, :-1]
        valid = redrawn.sum(-1)
        sizes, where = np.unique(valid, return_inverse=True)  # n takes few values: a floor each
        floor = metrics.expected_tvd(sizes, p)[where]
        total += metrics.score(valid / size, metrics.excess_tvd(metrics.tvd(redrawn, p), floor))
    low, high = np.quantile(total / len(cells), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, draws)


def mixture_rho(epsilon: float, alpha: float) -> float:
    """Return rho of the half-normal mixture, tightest near intrinsic time V* = 1/epsilon^2 (Howard et al. 2021, section 3.5).

    rho = V* / (-W_{-1}(-(2 alpha)^2 / e) - 1), W_{-1} the lower branch of Lambert's function; alpha is one-sided.
    """
    return (1 / epsilon**2) / (-float(np.real(lambertw(-((2 * alpha) ** 2) / exp(1), -1))) - 1)


def mixture_radius(n: int, rho: float, alpha: float) -> float:
    """r(n): the mean of n increments that are 1/4-sub-Gaussian exceeds this at *any* n with probability <= alpha.

    r(n) = sqrt(2 (n/4 + rho) log(1 + sqrt((n/4 + rho)/rho) / (2 alpha))) / n, the one-sided normal mixture bound
    (Howard, Ramdas, McAuliffe, Sekhon 2021, Annals of Statistics 49, eq. 14); infinite at n = 0.
    """
    if n == 0:
        return inf
    v = n / 4 + rho
    return sqrt(2 * v * log1p(sqrt(v / rho) / (2 * alpha))) / n


def beta_binomial_interval(nulls: int, n: int, alpha: float) -> tuple[float, float]:
    """Time-uniform interval of a rate after `nulls` of n trials: each end is crossed at any n with probability <= alpha.

    All p0 with B(m+1, n-m+1) / (p0^m (1-p0)^(n-m)) < 1/alpha: the uniform mixture is a martingale under p0, so Ville's
    inequality holds at every n at once (Robbins 1970). On either side of m/n it is monotone: two roots.
    """
    if not 0 <= nulls <= n:
        raise ValueError(f"`nulls` must be from 0 to `n`, got {nulls} of {n}")
    if n == 0:
        return 0.0, 1.0
    top = float(betaln(nulls + 1, n - nulls + 1)) + log(alpha)
    rest, low, high = n - nulls, 0.0, 1.0
    # Roots in log p and in log (1 - p), since either may be tiny.
    if nulls > 0:
        low = exp(brentq(lambda t: top - float(xlogy(nulls, exp(t)) + xlog1py(rest, -exp(t))), -700, log(nulls / n)))
    if rest > 0:
        high = -expm1(brentq(lambda t: top - float(xlogy(nulls, -expm1(t)) + xlogy(rest, exp(t))), -700, log(rest / n)))
    return low, high


@dataclass(frozen=True)
class SequentialVerdict:
    """Where the sequential test stands after a look. Every number is defined at any n; `tvd` is NaN without an outcome.

    `lower` and `upper` bound TVD(p, q) in 0..1, each one-sided at 1 - alpha at all looks at once; `null_lower` and
    `null_upper` bound the null rate likewise. `n` counts valid rollouts, `nulls` the others. `reason` says what decided
    a `fails`: `distance`, `nulls`, or both; it is empty otherwise.
    """

    verdict: Literal["holds", "fails", "undecided"]
    reason: str
    tvd: float
    lower: float
    upper: float
    null_rate: float
    null_lower: float
    null_upper: float
    n: int
    nulls: int
    looks: int
    counts: tuple[int, ...]


class SequentialTest:
    """The sequential certificate of "p is within `epsilon` of q in total variation", valid at every look at once.

    Rollouts arrive in index order, `LOOK` at a time. Conditional on ending in an outcome they are n i.i.d. draws from p.
    `holds` when U(n) = TVD(p^, q) + r(n) < epsilon and the null rate is below `null_limit`: only the one fixed, unknown
    set that maximises p(A) - q(A) matters, so there is no union over sets. `fails` when
    L(n) = (1/n) sum_t [1{y_t in A_t} - q(A_t)] - r(n) > epsilon, A_t = {p^ > q} as of the look *before* t, or when the null
    rate is above its limit. An outcome with q_i = 0 needs no special case: it is in A_t once it has been seen.

    Under TVD(p, q) >= epsilon, or a null rate of at least `null_limit`, the chance of ever ending in `holds` is at most
    alpha; under TVD <= epsilon that of `fails` by distance is at most alpha, and by nulls under a null rate within the limit.

    Args:
        q: reference (k,).
        epsilon: the distance that matters, in (0, 1).
        alpha: error rate of each side, in (0, .5).
        null_limit: largest null rate a scene may have, in (0, 1).
    """

    def __init__(self, q: ArrayLike, epsilon: float, alpha: float = 0.01, null_limit: float = 0.02) -> None:
        self.q = check_q(q)
        if self.q.ndim != 1:
            raise ValueError(f"`q` must have shape (k,), got {self.q.shape}")
        for name, value, top in (("epsilon", epsilon, 1.0), ("alpha", alpha, 0.5), ("null_limit", null_limit, 1.0)):
            if not 0 < value < top:
                raise ValueError(f"`{name}` must be in (0, {top:g}), got {value}")
        self.epsilon, self.alpha, self.null_limit = epsilon, alpha, null_limit
        self._rho = mixture_rho(epsilon, alpha)
        self._counts = np.zeros(self.q.size, np.int64)
        self._nulls = self._looks = 0
        self._gain = 0.0  # sum over valid rollouts of 1{y_t in A_t} - q(A_t)
        self._last_was_short = False
        self.state = self._judge()

    def update(self, outcomes: ArrayLike) -> SequentialVerdict:
        """Take the next look's outcomes and return where the test now stands.

        Args:
            outcomes: (m,) integers in index order, positions in `q`, -1 for a null. m is `LOOK`, or less at the very end.

        Raises:
            ValueError: for an outcome outside -1..k-1, a look of the wrong size, or one after the verdict.
        """
        y = np.asarray(outcomes)
        if self.state.verdict != "undecided":
            raise ValueError(f"the test has ended: {self.state.verdict}")
        if y.ndim != 1 or not 1 <= y.size <= LOOK or self._last_was_short:
            raise ValueError(f"a look is {LOOK} outcomes (m,), fewer only at the end; got {y.shape} at look {self._looks + 1}")
        if not np.issubdtype(y.dtype, np.integer) or y.min() < -1 or y.max() >= self.q.size:
            raise ValueError(f"outcomes must be integers from -1 to {self.q.size - 1}, got {np.unique(y).tolist()}")
        valid = y[y >= 0]
        seen = self._counts.sum()
        favoured = self._counts / max(seen, 1) > self.q  # empty at the first look: nothing was seen before it
        self._gain += float(favoured[valid].sum() - valid.size * self.q[favoured].sum())
        self._counts += np.bincount(valid, minlength=self.q.size)
        self._nulls += int(y.size - valid.size)
        self._looks += 1
        self._last_was_short = y.size < LOOK
        self.state = self._judge()
        return self.state

    def _judge(self) -> SequentialVerdict:
        n = int(self._counts.sum())
        distance = float(metrics.tvd(self._counts, self.q))
        radius = mixture_radius(n, self._rho, self.alpha)
        upper = min(1.0, distance + radius) if n else 1.0
        lower = max(0.0, self._gain / n - radius) if n else 0.0
        total = n + self._nulls
        null_lower, null_upper = beta_binomial_interval(self._nulls, total, self.alpha)
        reasons = [
            *(["distance"] if lower > self.epsilon else []),
            *(["nulls"] if null_lower > self.null_limit else []),
        ]
        verdict: Literal["holds", "fails", "undecided"] = "undecided"
        if reasons:
            verdict = "fails"
        elif upper < self.epsilon and null_upper < self.null_limit:
            verdict = "holds"
        return SequentialVerdict(
            verdict=verdict,
            reason=" and ".join(reasons),
            tvd=distance,
            lower=lower,
            upper=upper,
            null_rate=self._nulls / total if total else nan,
            null_lower=null_lower,
            null_upper=null_upper,
            n=n,
            nulls=self._nulls,
            looks=self._looks,
            counts=tuple(int(count) for count in self._counts),
        )
