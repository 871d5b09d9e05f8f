"""The sequential certificate: is p within epsilon of q in total variation, said at whatever look it becomes clear.

Pure functions of outcome indices and a reference. It refuses to know scenes, devices and files.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, log, log1p, nan, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betaln, lambertw, xlog1py, xlogy

from refcheck import metrics
from refcheck.metrics import check_q, require_iid
from refcheck.tally import Sampling

LOOK = 256
"""Rollouts between two looks of the sequential test: part of what a certificate means, never a setting."""


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
        sampling: anything but `iid` is refused.
    """

    def __init__(
        self,
        q: ArrayLike,
        epsilon: float,
        alpha: float = 0.01,
        null_limit: float = 0.02,
        *,
        sampling: Sampling = "iid",
    ) -> None:
        require_iid(sampling, "the sequential certificate")
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
