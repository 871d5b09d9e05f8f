"""How many rollouts it takes: to see a distance, to know one to a width, and what a score would have been at a smaller K.

Pure functions. It refuses to extrapolate: a score at a K above what exists is not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, log, log1p, sqrt

import numpy as np
import scipy.stats
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from refcheck import metrics
from refcheck.metrics import FloatArray, check_q, require_iid
from refcheck.resample import check_slots, subsample_slots
from refcheck.tally import Sampling

SUBSETS = 20
"""Up to this many outcomes the set that makes a distance hardest to see is found exactly."""


def _check(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must be in (0, 1), got {value}")


def noncentrality(k: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """Noncentrality at which Pearson's chi-square over k outcomes rejects at level alpha with the wanted power."""
    _check("power", power)
    _check("alpha", alpha)
    if k < 2:
        raise ValueError(f"`k` must be at least 2, got {k}")
    if power <= alpha:
        return 0.0
    critical = scipy.stats.chi2.isf(alpha, k - 1)
    return float(brentq(lambda x: scipy.stats.ncx2.sf(critical, k - 1, x) - power, 1e-9, 1e5))


def rollouts_to_detect(
    q: ArrayLike, p: ArrayLike, *, power: float = 0.8, alpha: float = 0.05, sampling: Sampling = "iid"
) -> int:
    """Rollouts at which the chi-square test of q rejects rollouts from p with the wanted power.

    n = lambda / sum_i (p_i - q_i)^2 / q_i, lambda the noncentrality (Cohen 1988, chapter 7): an approximation for large n.
    Where p shows outcomes that q excludes, one of them is enough: n = log(1 - power) / log(1 - p(excluded)), or fewer.

    Args:
        q: reference (k,).
        p: what the rollouts come from (k,).
        power: wanted.
        alpha: level.
        sampling: anything but `iid` is refused.

    Raises:
        ValueError: for p = q, which no number tells apart.
    """
    require_iid(sampling, "a number of rollouts")
    reference, truth = check_q(q), check_q(p)
    if reference.shape != truth.shape or reference.ndim != 1:
        raise ValueError(f"`q` and `p` must be (k,) alike, got {reference.shape} and {truth.shape}")
    if np.abs(reference - truth).max() <= metrics.Q_TOLERANCE:
        raise ValueError("`p` is `q`: no number of rollouts tells them apart")
    positive = reference > 0
    excluded = float(truth[~positive].sum())
    by_violation = inf if excluded <= 0 else 1.0 if excluded >= 1 else log(1 - power) / log1p(-excluded)
    effect = float(((truth - reference)[positive] ** 2 / reference[positive]).sum())
    outcomes = int(positive.sum())
    by_shape = noncentrality(outcomes, power, alpha) / effect if outcomes > 1 and effect > 0 else inf
    return ceil(min(by_violation, by_shape) - 1e-9)


def hardest_effect(q: ArrayLike, distance: float) -> float:
    """Smallest sum_i (p_i - q_i)^2 / q_i of any p at TVD `distance` from q: the direction a chi-square sees last.

    For mass moved onto a set A, in proportion to q on either side, the sum is d^2 / (q(A) (1 - q(A))), and no p with the
    same A does better (Cauchy and Schwarz). The hardest set has q(A) nearest 1/2: listed up to `SUBSETS` outcomes, beyond
    them taken to be 1/2 exactly, which errs towards more rollouts.
    """
    p = check_q(q)
    _check("distance", distance)
    if p.ndim != 1:
        raise ValueError(f"`q` must be (k,), got shape {p.shape}")
    if p.size > SUBSETS:
        return 4 * distance**2
    sums = np.zeros(1)
    for share in p:
        sums = np.concatenate([sums, sums + share])
    possible = sums[(sums <= 1 - distance + 1e-12) & (sums > 1e-12)]
    if possible.size == 0:
        return inf
    return float((distance**2 / (possible * (1 - possible))).min())


def rollouts_to_detect_distance(
    q: ArrayLike, distance: float, *, power: float = 0.8, alpha: float = 0.05, sampling: Sampling = "iid"
) -> int:
    """Rollouts at which the chi-square test rejects *every* p at TVD `distance` from q with about the wanted power.

    `rollouts_to_detect` in the hardest direction (`hardest_effect`). Raises `ValueError` where every such p shows outcomes
    that q excludes: then `rollouts_to_detect` says it for a given p.
    """
    require_iid(sampling, "a number of rollouts")
    effect = hardest_effect(q, distance)
    if effect == inf:
        raise ValueError(f"every distribution at TVD {distance} from `q` shows outcomes that `q` excludes")
    return ceil(noncentrality(int((check_q(q) > 0).sum()), power, alpha) / effect - 1e-9)


def rollouts_for_width(width: float, *, share: float = 0.5, level: float = 0.95, sampling: Sampling = "iid") -> int:
    """Rollouts at which an interval of TVD is `width` wide, by its normal approximation.

    At a distance well above the floor TVD(p^, q) = p^(A) - q(A) for a set A that no longer changes, so its standard error is
    sqrt(p(A) (1 - p(A)) / n): n = (2 z / width)^2 s (1 - s), s = p(A); 1/2 asks for most.

    Args:
        width: wanted, in (0, 1).
        share: s = p(A), in (0, 1).
        level: of the interval.
        sampling: anything but `iid` is refused.
    """
    require_iid(sampling, "a number of rollouts")
    for name, value in (("width", width), ("share", share), ("level", level)):
        _check(name, value)
    z = float(scipy.stats.norm.isf((1 - level) / 2))
    return ceil((2 * z / width) ** 2 * share * (1 - share) - 1e-9)


@dataclass(frozen=True)
class BudgetPoint:
    """The mean TVD over scenes at K slots: its mean over subsamples, central range at `level`, and mean floor E0.

    `scored` is how many scenes a subsample could be scored on, on average: one without a valid rollout cannot be. The floor
    is NaN for coupled slots, which have none.
    """

    size: int
    mean: float
    low: float
    high: float
    floor: float
    scored: float
    draws: int


def budget_curve(
    scenes: Sequence[tuple[ArrayLike, ArrayLike]],
    sizes: Sequence[int],
    generator: Generator,
    *,
    draws: int = 1_000,
    level: float = 0.95,
    group: int | None = None,
) -> list[BudgetPoint]:
    """Score subsamples of the slots that exist, without replacement, to see what fewer rollouts would have said.

    Scenes are those that pass at full K, whatever a subsample's nulls. TVD rises as K falls, because its floor does: read the
    two together. Coupled slots are taken by whole groups.

    Args:
        scenes: (slots (N,) as positions in q with -1 for a null, q (k,)) of each passing scene.
        sizes: numbers K, each at most every scene's N.
        generator: source of the subsamples.
        draws: subsamples at each K.
        level: of the range.
        group: slots of a group, for coupled ones.

    Raises:
        ValueError: for a K above what exists, or one that is not whole groups.
    """
    if not scenes or not sizes:
        raise ValueError("at least one scene and one size are needed")
    _check("level", level)
    checked = [(check_slots(slots, np.size(q)), check_q(q)) for slots, q in scenes]
    points = []
    for size in sizes:
        distances, floors = np.empty((len(checked), draws)), np.full((len(checked), draws), np.nan)
        for row, (slots, q) in enumerate(checked):
            tallies = subsample_slots(slots, q.size, size, generator, draws, group=group)[:, : q.size]
            distances[row] = metrics.tvd(tallies, q)
            if group is None:
                floors[row] = _floors(tallies.sum(-1), q)
        scored = ~np.isnan(distances)
        means = np.divide(np.where(scored, distances, 0).sum(0), scored.sum(0), out=np.full(draws, np.nan), where=scored.any(0))
        if np.isnan(means).all():
            points.append(BudgetPoint(size, np.nan, np.nan, np.nan, np.nan, 0.0, draws))
            continue
        low, high = np.nanquantile(means, [(1 - level) / 2, (1 + level) / 2])
        floor = float(floors[~np.isnan(floors)].mean()) if group is None else np.nan
        scenes_scored = float(scored.sum(0).mean())
        points.append(BudgetPoint(size, float(np.nanmean(means)), float(low), float(high), floor, scenes_scored, draws))
    return points


def _floors(valid: NDArray[np.int64], q: FloatArray) -> FloatArray:
    sizes, where = np.unique(valid, return_inverse=True)
    return metrics.expected_tvd(sizes, q)[where]


def detectable_distance(n: int, q: ArrayLike, *, power: float = 0.8, alpha: float = 0.05, sampling: Sampling = "iid") -> float:
    """Smallest TVD that n rollouts see in every direction with about the wanted power: the inverse of the above.

    sqrt(lambda / n) / sqrt(effect of a distance of 1), 1 where even that is more than there is.
    """
    require_iid(sampling, "a detectable distance")
    if n < 1:
        raise ValueError(f"`n` must be at least 1, got {n}")
    k = int((check_q(q) > 0).sum())
    needed = noncentrality(k, power, alpha) / n
    low, high = 1e-9, 1 - 1e-9
    if hardest_effect(q, high) < needed:
        return 1.0
    return float(brentq(lambda d: sqrt(min(hardest_effect(q, d), 1e12)) - sqrt(needed), low, high))
