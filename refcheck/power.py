"""What a test of n rollouts can see: its power against a contaminated reference, and the smallest detectable distance.

Pure functions of n, a reference and a generator that is passed in. It refuses to know scenes and models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.stats
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from refcheck.inference import CHUNK, LATTICE, STATISTICS, Statistic, lattice, lattice_size, reaches
from refcheck.metrics import FloatArray, check_q, require_iid
from refcheck.tally import Sampling

Rule = Literal["published", "level"]
QUANTILE_ERROR = 1e-3
"""Standard error of the share below a 95 % quantile of 50,000 draws: where two values of a lattice both pass for the
quantile, the upper one is taken, whose size is at most alpha."""


def contaminated(q: ArrayLike, spike: int, epsilon: float) -> FloatArray:
    """Return (1 - epsilon) q + epsilon at outcome `spike`: its TVD from q is epsilon (1 - q_spike) (CaliBench)."""
    p = check_q(q)
    if not 0 <= epsilon <= 1 or not 0 <= spike < p.size:
        raise ValueError(f"`epsilon` must be in [0, 1] and `spike` a position in q, got {epsilon} and {spike}")
    mixed = (1 - epsilon) * p
    mixed[spike] += epsilon
    return mixed / mixed.sum()


@dataclass(frozen=True)
class Detectable:
    """The smallest contamination seen with the wanted power: `epsilon`, its `tvd`, and the test that sees it.

    The test rejects at `critical` and above; `size` is its chance of rejecting q itself, which under the published rule may
    exceed alpha on a coarse lattice.
    """

    epsilon: float
    tvd: float
    critical: float
    size: float
    power: float
    method: Literal["exact", "monte_carlo"]


class _Test:
    """One fixed-n test: the tallies of its lattice with their statistic, or draws from q that can be contaminated."""

    def __init__(
        self, n: int, q: ArrayLike, spike: int, generator: Generator, kind: Statistic, alpha: float, draws: int, rule: Rule
    ) -> None:
        p = check_q(q)
        if n < 1 or not 0 < alpha < 1:
            raise ValueError(f"`n` must be at least 1 and `alpha` in (0, 1), got {n} and {alpha}")
        self.n, self.q, self.spike, self.kind = n, p / p.sum(), spike, kind
        self.exact = lattice_size(n, p.size) <= LATTICE
        if self.exact:
            self.tallies = lattice(n, p.size)
            statistic, weight = STATISTICS[kind](self.tallies, p), scipy.stats.multinomial.pmf(self.tallies, n, self.q)
        else:
            rows = max(1, min(draws, CHUNK // n))
            self.outcomes = np.searchsorted(np.cumsum(self.q)[:-1], generator.random((rows, n)), side="right")
            self.uniform = generator.random((rows, n))
            drawn = generator.multinomial(n, self.q, size=draws)
            statistic, weight = STATISTICS[kind](drawn, p), np.full(draws, 1 / draws)
        values, where = np.unique(np.round(statistic, 9), return_inverse=True)  # equal statistics differ in their last bits
        cumulative = np.asarray(np.cumsum(np.bincount(where, weight)), np.float64)
        self.critical = float(values[min(int(np.searchsorted(cumulative, 1 - alpha + QUANTILE_ERROR)), values.size - 1)])
        if rule == "level":
            self.critical = _next_above(values, cumulative, self.critical, alpha)
        self.size = float(weight[reaches(statistic, self.critical)].sum())
        self.region = reaches(statistic, self.critical) if self.exact else None

    def power(self, epsilon: float) -> float:
        mixed = contaminated(self.q, self.spike, epsilon)
        if self.exact:
            return float(scipy.stats.multinomial.pmf(self.tallies[self.region], self.n, mixed).sum())
        y = np.where(self.uniform < epsilon, self.spike, self.outcomes)
        flat = (np.arange(len(y))[:, None] * self.q.size + y).ravel()
        counts = np.bincount(flat, minlength=len(y) * self.q.size).reshape(-1, self.q.size)
        return float(reaches(STATISTICS[self.kind](counts, self.q), self.critical).mean())


def _next_above(values: NDArray[np.float64], cumulative: NDArray[np.float64], critical: float, alpha: float) -> float:
    """Return the smallest value at and above which q has at most alpha, infinite when there is none."""
    at_least = 1 - np.concatenate([[0.0], cumulative[:-1]])
    allowed = (values >= critical) & (at_least <= alpha)
    return float(values[allowed][0]) if allowed.any() else float("inf")


def contamination_power(
    n: int,
    q: ArrayLike,
    spike: int,
    epsilon: ArrayLike,
    generator: Generator,
    *,
    kind: Statistic = "chi_square",
    alpha: float = 0.05,
    draws: int = 50_000,
    rule: Rule = "published",
    sampling: Sampling = "iid",
) -> FloatArray:
    """Chance (...) that the test of n rollouts rejects when they come from (1 - e) q + e at `spike`, for each e of `epsilon`.

    Exact over a small lattice, else by draws. The `published` rule rejects at the 1 - alpha quantile of the null and above,
    ties included, whatever its size; the `level` rule at the smallest value that keeps the level.
    """
    require_iid(sampling, "power")
    test = _Test(n, q, spike, generator, kind, alpha, draws, rule)
    values = np.asarray(epsilon, np.float64)
    return np.array([test.power(float(e)) for e in values.ravel()]).reshape(values.shape)


def smallest_detectable(
    n: int,
    q: ArrayLike,
    spike: int,
    generator: Generator,
    *,
    power: float = 0.8,
    kind: Statistic = "chi_square",
    alpha: float = 0.05,
    draws: int = 50_000,
    rule: Rule = "published",
    sampling: Sampling = "iid",
) -> Detectable:
    """Find the smallest contamination that n rollouts reject with the wanted power (CaliBench: 80 % at N = 32 and 16).

    Args:
        n: valid rollouts.
        q: reference (k,).
        spike: the outcome the contamination goes to (CaliBench: Galton's bin 6, roulette's green, else the first).
        generator: source of the draws where the lattice is too large to sum.
        power: wanted, in (0, 1).
        kind: the test's statistic.
        alpha: its level.
        draws: Monte-Carlo draws.
        rule: see `contamination_power`.
        sampling: anything but `iid` is refused.

    Returns:
        What is detected; NaN epsilon, tvd and power where even full contamination is not.
    """
    require_iid(sampling, "power")
    if not 0 < power < 1:
        raise ValueError(f"`power` must be in (0, 1), got {power}")
    test = _Test(n, q, spike, generator, kind, alpha, draws, rule)
    method: Literal["exact", "monte_carlo"] = "exact" if test.exact else "monte_carlo"
    if test.power(1.0) < power:
        return Detectable(np.nan, np.nan, test.critical, test.size, np.nan, method)
    epsilon = float(brentq(lambda e: test.power(e) - power, 0.0, 1.0, xtol=1e-4)) if test.power(0.0) < power else 0.0
    return Detectable(epsilon, epsilon * (1 - float(test.q[spike])), test.critical, test.size, test.power(epsilon), method)
