"""Intervals of mnTV and of differences between models, with the coverage they were measured to have.

Pure functions of cells and a generator that is passed in; a cell is (counts (k,), nulls, q (k,)). It refuses to know scenes,
models and files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from refcheck import metrics
from refcheck.metrics import check_counts, check_q


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
