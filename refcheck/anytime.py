"""What may be said of a growing tally at every moment: e-values of p = q, and a confidence sequence for the distance from q.

Pure functions of outcomes and counts. It refuses to be told when to stop: every figure holds at all times at once, so that
looking early, often, or until one likes what one sees costs nothing.

Sources: Lindon and Malek 2022, "Anytime-valid inference for multinomial count data", NeurIPS; Ville 1939.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, rel_entr, xlogy

from refcheck.cells import Real, Whole, over_cells
from refcheck.metrics import Counts, FloatArray, check_q, iid_counts, require_iid
from refcheck.tally import Sampling

JEFFREYS = 0.5
"""Weight of each outcome in the confidence sequence's Dirichlet mixture (Krichevsky and Trofimov 1981)."""


def _prior(q: FloatArray, concentration: float) -> FloatArray:
    if not concentration > 0:
        raise ValueError(f"`concentration` must be above 0, got {concentration}")
    return concentration * q


def log_e_value(counts: Counts, q: ArrayLike, concentration: float | None = None, *, sampling: Sampling = "iid") -> FloatArray:
    """Log e-value (...) of H0 p = q after n i.i.d. rollouts: reject at any time once it reaches log(1/alpha).

    E_n = [G(A)/G(n+A)] prod_j [G(a_j+n_j)/G(a_j)] / prod_j q_j^n_j, G the gamma function, a = A q: the Dirichlet mixture's
    likelihood ratio, of mean 1 under H0 at every n, so it ever reaches 1/alpha with probability <= alpha (Ville). A = k by
    default. Outcomes with q_j = 0 take no part in the mixture, and once one is seen E is infinite: it has probability 0
    under H0.

    Args:
        counts: (..., k) or a `Tally`.
        q: reference (k,) or (..., k).
        concentration: A > 0: large where small distances matter, small for large ones.
        sampling: anything but `iid` is refused.
    """
    x, p = iid_counts(counts, "an e-value", sampling), check_q(q)
    if x.shape[-1] != p.shape[-1]:
        raise ValueError(f"`counts` and `q` must have equally many outcomes, got {x.shape[-1]} and {p.shape[-1]}")
    a = _prior(p, float(p.shape[-1]) if concentration is None else concentration)
    possible = p > 0
    safe = np.where(possible, a, 1.0)
    terms = np.where(possible, gammaln(safe + x) - gammaln(safe) - xlogy(x, np.where(possible, p, 1.0)), 0.0)
    total = a.sum(-1)
    value = gammaln(total) - gammaln(x.sum(-1) + total) + terms.sum(-1)
    return np.where(np.any((x > 0) & ~possible, axis=-1), inf, value)


def log_e_process(
    outcomes: ArrayLike, q: ArrayLike, concentration: float | None = None, *, sampling: Sampling = "iid"
) -> FloatArray:
    """Log e-values (t,) after each of t outcomes in the order they came: `log_e_value` of every prefix, in O(t k).

    The e-value of one step is the mixture's prediction over q's: (a_y + n_y) / (A + n) / q_y.

    Args:
        outcomes: (t,) positions in q; leave nulls out, they say nothing of H0.
        q: reference (k,).
        concentration: as in `log_e_value`.
        sampling: anything but `iid` is refused.
    """
    require_iid(sampling, "an e-value")
    p, y = check_q(q), np.asarray(outcomes)
    if y.ndim != 1 or (y.size and (not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= p.size)):
        raise ValueError(f"`outcomes` must be (t,) integers from 0 to {p.size - 1}")
    if y.size == 0:
        return np.zeros(0)
    a = _prior(p, float(p.size) if concentration is None else concentration)
    before = np.cumsum(y[:, None] == np.arange(p.size), axis=0)[np.arange(y.size), y] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.log((a[y] + before) / (a.sum() + np.arange(y.size))) - np.log(p[y])
    return np.cumsum(np.where(p[y] > 0, step, inf))


@dataclass(frozen=True)
class DistanceInterval:
    """TVD(p, q) lies in [`low`, `high`] at all n at once with probability >= 1 - alpha; `tvd` is the observed one.

    All but `alpha` are numbers for one cell, arrays (...) for many.
    """

    low: Real
    high: Real
    tvd: Real
    n: Whole
    alpha: float


def _reach(x: float, radius: float) -> tuple[float, float]:
    """Return the smallest and largest s with KL(Bernoulli(x) || Bernoulli(s)) <= `radius`."""

    def excess(s: float) -> float:
        return float(rel_entr(x, s) + rel_entr(1 - x, 1 - s)) - radius

    tiny = 1e-300
    low = 0.0 if x <= 0 or excess(tiny) <= 0 else float(brentq(excess, tiny, x))
    top = 1 - 2**-53
    high = 1.0 if x >= 1 or excess(top) <= 0 else float(brentq(excess, x, top))
    return low, high


@over_cells(counts=1, q=1)
def distance_interval(counts: Counts, q: ArrayLike, alpha: float = 0.05, *, sampling: Sampling = "iid") -> DistanceInterval:
    """Confidence sequence for TVD(p, q): the distances of every p that the Dirichlet mixture has not rejected yet.

    The region {p: E_n(p) < 1/alpha} = {p: n KL(p^ || p) < r}, r = max log-likelihood - log mixture + log(1/alpha), holds the
    true p at all n at once with probability >= 1 - alpha. For any set A it holds KL(p^(A) || p(A)) <= r/n, so
    s-(p^(A)) <= p(A) <= s+(p^(A)), the two ends of `_reach`.
    Upper: TVD = max_A p(A) - q(A) <= max_A s+(p^(A)) - q(A); s+ is concave, and with fractions of outcomes allowed in A the
    best A takes them in order of p^/q, which leaves a concave function of one number to maximise. Lower: the largest
    s-(p^(A)) - q(A) over the sets of that order.

    Args:
        counts: (..., k) or a `Tally`; each cell's ends are searched for by themselves.
        q: reference (k,) or (..., k).
        alpha: chance that the sequence ever misses, in (0, 1).
        sampling: anything but `iid` is refused.

    Returns:
        The interval after these n rollouts; [0, 1] and a NaN distance at n = 0.
    """
    x, p = iid_counts(counts, "a confidence sequence", sampling), check_q(q)
    if x.shape != p.shape or x.ndim != 1:
        raise ValueError(f"`counts` and `q` must be (k,) both, got shapes {x.shape} and {p.shape}")
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must be in (0, 1), got {alpha}")
    n = float(x.sum())
    if n == 0:
        return DistanceInterval(0.0, 1.0, float("nan"), 0, alpha)
    a = np.full(p.size, JEFFREYS)
    mixture = gammaln(a.sum()) - gammaln(n + a.sum()) + (gammaln(a + x) - gammaln(a)).sum()
    radius = (float(xlogy(x, x / n).sum() - mixture) + log(1 / alpha)) / n
    share = x / n
    ratio = np.divide(share, p, out=np.where(share > 0, inf, 0.0), where=p > 0)
    order = np.argsort(-ratio, kind="stable")
    mine, theirs = np.append(0, np.cumsum(share[order])), np.append(0, np.cumsum(p[order]))
    mine, theirs = np.minimum(mine, 1.0), np.minimum(theirs, 1.0)
    low = max(0.0, *(_reach(float(u), radius)[0] - float(v) for u, v in zip(mine, theirs, strict=True)))
    distance = float(np.abs(share - p).sum() / 2)
    # Unseen outcomes have no share: the path goes over shares, each q the least that so much share can come with.
    gain = lambda u: _reach(float(u), radius)[1] - float(np.interp(u, mine, theirs))  # noqa: E731
    best = minimize_scalar(lambda u: -gain(u), bounds=(0, 1), method="bounded", options={"xatol": 1e-6})
    high = max(float(-best.fun), *(gain(u) for u in mine))
    return DistanceInterval(low, float(min(1.0, high)), distance, int(n), alpha)


@dataclass(frozen=True)
class EarlyScore:
    """A score that stopped when it knew enough: the interval then, the log e-value of p = q, and what it used.

    `stopped` tells whether the wanted width was reached; `valid` and `nulls` are the rollouts taken by then.
    """

    interval: DistanceInterval
    log_e_value: float
    valid: int
    nulls: int
    stopped: bool


def score_until(
    outcomes: ArrayLike,
    q: ArrayLike,
    width: float,
    alpha: float = 0.05,
    look: int = 10,
    *,
    sampling: Sampling = "iid",
) -> EarlyScore:
    """Take rollouts in their order until TVD(p, q) is known to `width`, looking after every `look`-th: the rest is saved.

    The interval of `distance_interval` holds at all looks at once, so that stopping when it is narrow enough, or sooner for
    any other reason, leaves it valid at 1 - alpha.

    Args:
        outcomes: (t,) positions in q in index order, -1 for a null.
        q: reference (k,).
        width: wanted, in (0, 1).
        alpha: chance that the interval ever misses.
        look: rollouts between two looks.
        sampling: anything but `iid` is refused.
    """
    require_iid(sampling, "a score that stops early")
    p, y = check_q(q), np.asarray(outcomes)
    if y.ndim != 1 or (y.size and (not np.issubdtype(y.dtype, np.integer) or y.min() < -1 or y.max() >= p.size)):
        raise ValueError(f"`outcomes` must be (t,) integers from -1 to {p.size - 1}")
    if not 0 < width < 1 or look < 1:
        raise ValueError(f"`width` must be in (0, 1) and `look` at least 1, got {width} and {look}")
    interval, taken = distance_interval(np.zeros(p.size), p, alpha), 0
    while taken < y.size and interval.high - interval.low > width:
        taken = min(taken + look, y.size)
        seen = y[:taken]
        interval = distance_interval(np.bincount(seen[seen >= 0], minlength=p.size), p, alpha)
    seen = y[:taken]
    counts = np.bincount(seen[seen >= 0], minlength=p.size)
    return EarlyScore(
        interval=interval,
        log_e_value=float(log_e_value(counts, p)),
        valid=int(counts.sum()),
        nulls=taken - int(counts.sum()),
        stopped=bool(interval.high - interval.low <= width),
    )
