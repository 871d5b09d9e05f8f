"""What stands in for the multinomial where rollouts are not independent draws: exact quotas, whole groups, subsamples of slots.

Pure functions of counts and a generator that is passed in. It refuses to know why rollouts are quotas or coupled, and to
split a group.
"""

from __future__ import annotations

import numpy as np
import scipy.stats
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from refcheck import metrics
from refcheck.intervals import Interval, difference_interval
from refcheck.metrics import FloatArray, check_counts, check_q

REMAINDER_DECIMALS = 9
"""Remainders equal to this many decimals are ties, which the order of the outcomes decides."""
NULL = -1
"""How a slot without an outcome is written among positions in q."""


def quota(q: ArrayLike, total: int) -> NDArray[np.int64]:
    """Share `total` rollouts out by the largest-remainder method (Hamilton): whole parts first, then largest remainders.

    x_i = floor(total q_i), and one more for the largest total q_i - x_i until the sum is `total`; ties go to the earlier
    outcome. The targets of exact controls and of PAWBench's Oracle PE.

    Args:
        q: reference (..., k).
        total: rollouts K >= 0.

    Returns:
        Counts (..., k), each within 1 of K q_i, summing to K.
    """
    p = check_q(q)
    if total < 0:
        raise ValueError(f"`total` must be at least 0, got {total}")
    exact = total * p / p.sum(-1, keepdims=True)
    counts = np.floor(exact + 10.0**-REMAINDER_DECIMALS)
    remainder = np.round(np.maximum(exact - counts, 0), REMAINDER_DECIMALS)
    rank = np.argsort(np.argsort(-remainder, axis=-1, kind="stable"), axis=-1)
    left = np.rint(total - counts.sum(-1, keepdims=True))
    return np.asarray(counts + (rank < left), np.int64)


def quota_residual(q: ArrayLike, total: int) -> FloatArray:
    """TVD (...) that a quota set of `total` rollouts scores under a perfect judge: its rounding, exactly, and no chance."""
    return metrics.tvd(quota(q, total), q)


def group_counts(slots: ArrayLike, outcomes: int, group: int) -> NDArray[np.int64]:
    """Count outcomes within consecutive groups of `group` slots.

    Args:
        slots: (N,) positions in q, -1 for a null, in slot order; N a multiple of `group`.
        outcomes: k.
        group: slots of a group, m.

    Returns:
        (N / m, k + 1) counts, nulls last.
    """
    y = check_slots(slots, outcomes)
    if group < 1 or y.size % group:
        raise ValueError(f"{y.size} slots are not whole groups of {group}")
    column = np.where(y == NULL, outcomes, y).reshape(-1, group)
    return np.asarray((column[..., None] == np.arange(outcomes + 1)).sum(1), np.int64)


def check_slots(slots: ArrayLike, outcomes: int) -> NDArray[np.int64]:
    """Return `slots` (N,) if they are positions in 0..k-1 or -1 for a null; raise `ValueError` otherwise."""
    y = np.asarray(slots)
    if y.ndim != 1 or y.size == 0 or not np.issubdtype(y.dtype, np.integer) or y.min() < NULL or y.max() >= outcomes:
        raise ValueError(f"`slots` must be (N,) integers from -1 to {outcomes - 1}, N >= 1")
    return np.asarray(y, np.int64)


def resample_groups(groups: ArrayLike, generator: Generator, draws: int) -> NDArray[np.int64]:
    """Draw `draws` bootstrap tallies (draws, c): G whole groups with replacement from `groups` (G, c), summed.

    Field and Welsh 2007, "Bootstrapping clustered data", JRSS B 69: groups are independent, what is within is kept as it is.
    """
    held = check_counts(groups)
    if held.ndim != 2 or len(held) < 2:
        raise ValueError(f"at least two groups are needed to resample, `groups` has shape {held.shape}")
    weights = generator.multinomial(len(held), np.full(len(held), 1 / len(held)), size=draws)
    return np.asarray(weights @ held.astype(np.int64), np.int64)


def group_bootstrap(
    groups: ArrayLike, q: ArrayLike, generator: Generator, draws: int = 10_000, level: float = 0.95
) -> Interval:
    """Interval of TVD(p, q) itself, p the coupled rollouts' marginal law: whole groups are resampled.

    `intervals.difference_interval` of the resampled shares. G groups resampled spread by sqrt((G-1)/G) of what G groups do,
    and their spread is itself estimated from G: errors are widened by sqrt(G/(G-1)) t/z, t and z the quantiles of Student's t
    with G - 1 degrees of freedom and of the normal law, a factor of 1.22 for C2C's ten groups at 95 %. Ten groups that show
    two or three patterns of counts only are too few for any interval drawn from them: read it with care then.

    Args:
        groups: counts (G, k), or (G, k + 1) with the nulls last, of each group.
        q: reference (k,).
        generator: source of the resamples.
        draws: replicates; one without a valid rollout is left out.
        level: of the interval.
    """
    p, held = check_q(q), check_counts(groups)
    if held.shape[-1] not in (p.size, p.size + 1):
        raise ValueError(f"`groups` must have {p.size} columns, or one more for nulls, got {held.shape[-1]}")
    counts = resample_groups(held, generator, draws)[:, : p.size]
    total, count = held.sum(0)[: p.size], len(held)
    if total.sum() < 1:
        raise ValueError("groups without a valid rollout have no distance")
    counts = counts[counts.sum(-1) > 0]
    difference, tail = total / total.sum() - p, (1 - level) / 2
    wider = np.sqrt(count / (count - 1)) * scipy.stats.t.isf(tail, count - 1) / scipy.stats.norm.isf(tail)
    errors = counts / counts.sum(-1, keepdims=True) - p - difference
    return difference_interval(difference, difference + wider * errors, level)


def subsample_slots(
    slots: ArrayLike, outcomes: int, size: int, generator: Generator, draws: int, *, group: int | None = None
) -> NDArray[np.int64]:
    """Draw tallies (draws, k + 1), nulls last, of `size` slots without replacement; whole groups where they are coupled.

    Raises:
        ValueError: for more slots than there are, or a `size` that is not whole groups.
    """
    y = check_slots(slots, outcomes)
    if not 1 <= size <= y.size:
        raise ValueError(f"K = {size} slots cannot be drawn without replacement from the {y.size} that exist")
    if group is None:
        held = np.bincount(np.where(y == NULL, outcomes, y), minlength=outcomes + 1)
        return np.asarray(generator.multivariate_hypergeometric(held, size, size=draws), np.int64)
    if size % group:
        raise ValueError(f"K = {size} is not whole groups of {group}")
    groups = group_counts(y, outcomes, group)
    order = np.argsort(generator.random((draws, len(groups))), axis=1)[:, : size // group]
    return np.asarray(groups[order].sum(1), np.int64)
