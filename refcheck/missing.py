"""What nulls can hide: the smallest and largest distance over every outcome they might have had, and the vote that makes one.

Pure functions of counts and votes. It refuses to assume that rollouts without an outcome are missing at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refcheck import metrics
from refcheck.metrics import FloatArray, check_counts, check_q

WHOLE = 1e-9
"""A deficit this close below a whole number is that number: N q_i carries rounding."""


@dataclass(frozen=True)
class NullBounds:
    """TVD of all N rollouts, each (...): nulls given `best` and `worst` outcomes, and `reported` with each null a miss."""

    best: FloatArray
    worst: FloatArray
    reported: FloatArray


def null_bounds(counts: ArrayLike, nulls: ArrayLike, q: ArrayLike) -> NullBounds:
    """Bound the TVD of all N = n + m rollouts over every outcome the m nulls might have had (CaliBench's mcar check).

    With deficits d_i = N q_i - x_i, TVD = (1/N) sum_i max(d_i, 0). Best gives one null at a time to the largest deficit: a
    unit removes 1 of a deficit of at least 1, and the fraction of one below. Worst gives all to the one outcome that makes
    TVD largest. Reported is (1 - rho) + rho TVD, which counts a null as wholly off.

    Args:
        counts: (..., k).
        nulls: m (...).
        q: (k,) or (..., k).

    Returns:
        Bounds (...), NaN where N = 0.
    """
    x, p, m = check_counts(counts), check_q(q), np.asarray(nulls, np.float64)
    if np.any(m < 0) or np.any(m != np.floor(m)):
        raise ValueError(f"`nulls` must be whole numbers of at least 0, got {m.tolist()}")
    if x.shape[-1] != p.shape[-1]:
        raise ValueError(f"`counts` and `q` must have equally many outcomes, got {x.shape[-1]} and {p.shape[-1]}")
    total = x.sum(-1) + m
    deficit = np.maximum(total[..., None] * p - x, 0)
    whole = np.floor(deficit + WHOLE)
    fractions = -np.sort(-np.maximum(deficit - whole, 0), axis=-1)
    left = np.maximum(m - whole.sum(-1), 0)
    removed = np.minimum(m, whole.sum(-1)) + np.where(np.arange(p.shape[-1]) < left[..., None], fractions, 0).sum(-1)
    size = np.where(total > 0, total, np.nan)
    best = np.maximum(deficit.sum(-1) - removed, 0) / size
    piled = x[..., None, :] + m[..., None, None] * np.eye(p.shape[-1])
    worst = metrics.tvd(piled, p[..., None, :]).max(-1)
    rho = metrics.valid_share(x.sum(-1), total)
    reported = (1 - rho) + np.where(rho > 0, rho * metrics.tvd(x, p), 0)
    return NullBounds(np.asarray(best), np.asarray(worst), np.asarray(reported))


def vote(votes: ArrayLike) -> NDArray[np.int64]:
    """Return the most frequent of the votes (..., v), -1 being the vote for no outcome; a tie for the most is -1.

    Of CaliBench's three votes: two alike decide, three different answers are null, and null is a vote like another.
    """
    y = np.asarray(votes)
    if y.ndim == 0 or y.shape[-1] == 0 or not np.issubdtype(y.dtype, np.integer) or np.any(y < -1):
        raise ValueError("`votes` must be integers (..., v) of at least -1, v >= 1")
    same = (y[..., :, None] == y[..., None, :]).sum(-1)
    most = same.max(-1, keepdims=True)
    winner = np.take_along_axis(y, same.argmax(-1)[..., None], -1)
    tied = np.any((same == most) & (y != winner), axis=-1)
    return np.asarray(np.where(tied, -1, winner[..., 0]), np.int64)
