"""Evidence *for* agreement at a fixed n: a test of H0 TVD(p, q) >= epsilon, and the rollouts it takes.

Pure functions of counts, a reference and a generator that is passed in. It refuses to read the absence of a difference as
agreement. For a number of rollouts that was not fixed beforehand use `sequential` or `anytime`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.stats
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from refcheck import metrics
from refcheck.cells import Real, Whole, alike, over_cells, real, whole
from refcheck.metrics import Counts, FloatArray, check_q, iid_counts, require_iid
from refcheck.tally import Sampling

Method = Literal["exact", "bootstrap"]
GRID = 1_001
"""Values of q(A) at which the exact p-value looks where subsets are too many to list."""
SUBSETS = 12
"""Up to this many outcomes every q(A) is listed."""


@dataclass(frozen=True)
class Equivalence:
    """p-value of H0 TVD(p, q) >= `epsilon`: small where the tally speaks for agreement. `tvd` is the observed distance.

    `p`, `tvd` and `n` are numbers for one cell, arrays (...) for many.
    """

    p: Real
    tvd: Real
    epsilon: float
    n: Whole
    method: Method


def _check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < 1:
        raise ValueError(f"`epsilon` must be in (0, 1), got {epsilon}")


def exact_equivalence(counts: Counts, q: ArrayLike, epsilon: float, *, sampling: Sampling = "iid") -> Equivalence:
    """Test H0 TVD(p, q) >= epsilon with a level that holds for every p and n, at some cost in power when k is large.

    Under H0 some set A has p(A) >= q(A) + epsilon. An observed distance of at most t means p^(A) <= q(A) + t for that A, so
    p = max over A of P(Binomial(n, q(A) + epsilon) <= n (q(A) + t)), over the sums q(A) <= 1 - epsilon; above `SUBSETS`
    outcomes over a grid of [0, 1 - epsilon], each interval bounded from both its ends.

    Cells of equal n, distance and reference share one search.

    Args:
        counts: (..., k) or a `Tally`, at least one valid rollout a cell.
        q: reference (k,) or (..., k).
        epsilon: the distance that matters, in (0, 1).
        sampling: anything but `iid` is refused.
    """
    _check_epsilon(epsilon)
    x, p, n = _observed(counts, q, sampling)
    distance, value = metrics.tvd(x, p), np.empty(n.shape)
    for row, mine in alike(n.ravel(), distance.ravel(), p.reshape(-1, p.shape[-1])):
        value.flat[mine] = _exact_tail(int(row[0]), row[2:], float(row[1]), epsilon)
    return Equivalence(real(value), real(distance), epsilon, whole(n), "exact")


def _exact_tail(n: int, q: FloatArray, distance: float, epsilon: float) -> float:
    """Return the largest chance of an observed distance of at most `distance` that the binomial bound leaves under H0."""
    if q.size <= SUBSETS:
        sums = np.unique(((np.arange(2**q.size)[:, None] >> np.arange(q.size)) & 1) @ q)
        low = high = sums[sums <= 1 - epsilon + 1e-12]
    else:
        grid = np.linspace(0, 1 - epsilon, GRID)
        low, high = grid[:-1], grid[1:]
    tail = scipy.stats.binom.cdf(np.floor(n * (high + distance) + 1e-9), n, np.minimum(low + epsilon, 1))
    return float(min(1.0, tail.max(initial=0.0)))


@over_cells(counts=1, q=1)
def bootstrap_equivalence(
    counts: Counts, q: ArrayLike, epsilon: float, generator: Generator, draws: int = 10_000, *, sampling: Sampling = "iid"
) -> Equivalence:
    """Test H0 TVD(p, q) >= epsilon at points of the boundary, with more power than the exact test (after Ostrovski 2017).

    At each of several distributions at distance epsilon, (b + 1) / (B + 1), b the tallies drawn from it that come as near to
    q as the observed one; p is the largest. The points: on the ray from q through the observed shares; and with mass moved in
    proportion to q, from the outcomes that fell short to those that did not, and between two halves of q, either way. The ray
    alone errs too often: a tally that comes near points somewhere by chance, and where mass is spread evenly the observed
    distance exceeds epsilon least. The level is asymptotic. p = 1 where the observed distance is epsilon or more. Every cell
    has a boundary of its own, so many cells take as long as so many calls.

    Args:
        counts: (..., k) or a `Tally`, at least one valid rollout a cell.
        q: reference (k,) or (..., k).
        epsilon: the distance that matters.
        generator: source of the draws.
        draws: B at each point.
        sampling: anything but `iid` is refused.

    Raises:
        ValueError: where no distribution is epsilon away from q.
    """
    _check_epsilon(epsilon)
    x, p, size = _observed(counts, q, sampling)
    n, distance = int(size), float(metrics.tvd(x, p))
    if distance >= epsilon:
        return Equivalence(1.0, distance, epsilon, n, "bootstrap")
    largest = 0.0
    for truth in _boundary(p, x / n - p, epsilon):
        drawn = metrics.tvd(generator.multinomial(n, truth, size=draws), p)
        largest = max(largest, (int((drawn <= distance + 1e-9).sum()) + 1) / (draws + 1))
    return Equivalence(largest, distance, epsilon, n, "bootstrap")


def _halves(p: FloatArray) -> FloatArray:
    """Return a direction (k,) from the lighter to the heavier of two near halves of q, in proportion to q within each."""
    side, weight = np.zeros(p.size, bool), [0.0, 0.0]
    for i in np.argsort(-p, kind="stable"):
        heavier = weight[1] > weight[0]
        side[i] = not heavier
        weight[int(side[i])] += float(p[i])
    return _spread(p, side)


def _spread(p: FloatArray, gains: NDArray[np.bool_]) -> FloatArray:
    """Return the direction (k,) that moves mass onto `gains` in proportion to q on either side; evenly where q is 0."""
    up, down = np.where(gains, p, 0.0), np.where(gains, 0.0, p)
    up = gains.astype(float) if up.sum() == 0 else up
    return up / max(up.sum(), 1e-300) - down / max(down.sum(), 1e-300)


def _boundary(p: FloatArray, lean: FloatArray, epsilon: float) -> list[FloatArray]:
    """Return the distributions at TVD epsilon from q that a tally leaning to `lean` (k,) is compared with; at least one."""
    halves, points = _halves(p), []
    for direction in (lean, _spread(p, lean > 0), halves, -halves):
        try:
            points.append(boundary_point(p, direction, epsilon))
        except ValueError:
            continue  # no distribution is that far this way: not a point of the hypothesis
    if not points:
        raise ValueError(f"no distribution lies {epsilon} from `q`: the hypothesis is empty")
    return points


def _observed(counts: Counts, q: ArrayLike, sampling: Sampling) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return counts (..., k), q (..., k) of sum 1 and n (...) of checked cells."""
    x, p = iid_counts(counts, "an equivalence p-value", sampling), check_q(q)
    if x.shape[-1] != p.shape[-1] or np.any(x.sum(-1) < 1):
        raise ValueError("`counts` must have as many outcomes as `q` and at least one valid rollout a cell")
    x, p = np.broadcast_arrays(x, p / p.sum(-1, keepdims=True))
    return x, p, x.sum(-1)


def boundary_point(q: ArrayLike, direction: ArrayLike, epsilon: float) -> FloatArray:
    """Return the distribution (k,) at TVD epsilon from q along `direction` (k,), gains and losses in their proportions.

    No outcome loses more than it has: the rest is taken from the other losers, then from outcomes that were to stay, then
    from those that were to gain least.

    Raises:
        ValueError: where no distribution is that far in this direction, or it is none.
    """
    p, d = check_q(q), np.asarray(direction, np.float64)
    _check_epsilon(epsilon)
    gain, loss = np.maximum(d, 0), np.maximum(-d, 0)
    while np.count_nonzero(gain) > 1 and p[gain == 0].sum() < epsilon:
        gain[np.where(gain > 0, gain, np.inf).argmin()] = 0.0
    if gain.sum() <= 1e-12 or p[gain == 0].sum() < epsilon - 1e-12:
        raise ValueError(f"no distribution lies {epsilon} from q in this direction")
    point, left = p + epsilon * gain / gain.sum(), epsilon
    for weight in (loss, np.where(gain > 0, 0.0, 1.0) * p):
        for _ in range(p.size):  # each round empties an outcome or ends
            mine = np.where((gain == 0) & (point > 0), weight, 0.0)
            if left <= 0 or mine.sum() <= 0:
                break
            taken = np.minimum(point, left * mine / mine.sum())
            point, left = point - taken, left - float(taken.sum())
    return point / point.sum()


def equivalence_size(
    q: ArrayLike,
    epsilon: float,
    generator: Generator,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    method: Method = "exact",
    draws: int = 2_000,
    largest: int = 1_000_000,
    sampling: Sampling = "iid",
) -> int:
    """Rollouts at which a sampler that *is* q passes the test with the wanted power, to within 1 %.

    Bisection on n: tallies from q are drawn, and the share whose p is at most alpha is the power. For the bootstrap the
    boundary is taken between two halves of q, one null for all tallies.

    Raises:
        ValueError: where more than `largest` are needed.
    """
    require_iid(sampling, "a sample size")
    p = check_q(q)
    _check_epsilon(epsilon)
    p = p / p.sum()
    boundary = _boundary(p, _halves(p), epsilon)

    def passes(n: int) -> float:
        distance = metrics.tvd(generator.multinomial(n, p, size=draws), p)
        if method == "bootstrap":
            nulls = [metrics.tvd(generator.multinomial(n, truth, size=draws), p) for truth in boundary]
            return float((distance <= min(np.quantile(null, alpha) for null in nulls)).mean())
        middle = float(np.quantile(distance, power))  # the p-value grows with the distance, so this one decides
        return 1.0 if _exact_tail(n, p, middle, epsilon) <= alpha else 0.0

    low, high = 1, 64
    while passes(high) < power:
        low, high = high, 2 * high
        if high > largest:
            raise ValueError(f"more than {largest} rollouts are needed")
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) >= power else (middle, high)
    return high
