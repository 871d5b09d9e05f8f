"""Intervals of mnTV and of differences between models, and the coverage they have when it is measured.

Pure functions of cells and a generator that is passed in; a cell is (counts (k,), nulls, q (k,)). It refuses to know scenes,
models and files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from refcheck import metrics
from refcheck.cells import Real, over_cells
from refcheck.matched import draw_tallies
from refcheck.metrics import Counts, FloatArray, check_counts, check_q, iid_counts
from refcheck.tally import Sampling

CellCounts = tuple[ArrayLike, int, ArrayLike]
"""Counts (k,), nulls and reference (k,) of one cell of independent rollouts."""

PSEUDO_ROLLOUTS = 2
"""Rollouts, spread evenly over outcomes and null, that the corrected bootstrap adds to a cell before it is redrawn: a cell
whose rollouts all agree would otherwise be redrawn without any spread (as Agresti and Coull 1998 for one rate)."""


@dataclass(frozen=True)
class Interval:
    """An interval at `level` from `draws` replicates; its ends are numbers for one cell, arrays (...) for many."""

    low: Real
    high: Real
    level: float
    draws: int


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1), got {level}")


def percentile_interval(replicates: FloatArray, level: float) -> Interval:
    """Central `level` range of the replicates (draws,)."""
    _check_level(level)
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, replicates.size)


def centred_interval(value: float, replicates: FloatArray, level: float) -> Interval:
    """Pivot on the replicates' own mean: [value - d_high, value - d_low], d the quantiles of replicate - mean(replicates).

    For an estimate of *its own expectation* at this sample size, which is what a floor-corrected distance is: under the
    fitted distribution that expectation is the mean of the replicates, so d is the error of the estimate there. The usual
    basic interval pivots on `value` instead and, since a redrawn tally lies further from q than the tally it came from,
    would subtract that shift where there is none to subtract (Davison and Hinkley 1997, 2.4 and 5.2).
    """
    _check_level(level)
    low, high = np.quantile(replicates - replicates.mean(), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value - high), float(value - low), level, replicates.size)


def difference_interval(difference: FloatArray, replicates: FloatArray, level: float) -> Interval:
    """Interval, within 0..1, for the distance (1/2) sum |d_i| itself, from redrawn differences of two distributions.

    With D the estimated distance and e = d* - d the redrawn errors: low = D - quantile of (1/2) sum |e_i|, since an estimated
    distance exceeds the true one by no more than the error's own size (triangle inequality); high = D + quantile of
    -e(A), A = {d > 0}, since D >= d(A) for every set, the one that attains the true distance among them. Safe on both sides;
    the low end is cautious when the distance is large.

    Args:
        difference: d = p^ - q (k,), or of two estimated distributions.
        replicates: d* (draws, k), redrawn at d.
        level: of the interval; each end misses with (1 - level) / 2.
    """
    _check_level(level)
    distance, errors = float(np.abs(difference).sum() / 2), replicates - difference
    favoured = difference > 0
    size = np.abs(errors).sum(-1) / 2
    down = float(np.quantile(size, (1 + level) / 2))
    up = float(np.quantile(-errors[:, favoured].sum(-1) if favoured.any() else size, (1 + level) / 2))
    return Interval(max(0.0, distance - down), min(1.0, distance + max(0.0, up)), level, len(replicates))


def redraw_shares(counts: FloatArray, generator: Generator, draws: int) -> FloatArray:
    """Return shares (draws, k) redrawn around the observed ones with the spread of slightly shrunk ones."""
    n = int(counts.sum())
    shrunk = (counts + PSEUDO_ROLLOUTS / counts.size) / (n + PSEUDO_ROLLOUTS)
    return generator.multinomial(n, shrunk, size=draws) / n - shrunk + counts / n


@over_cells(counts=1, q=1)
def tvd_interval(
    counts: Counts,
    q: ArrayLike,
    generator: Generator,
    draws: int = 10_000,
    level: float = 0.95,
    *,
    sampling: Sampling = "iid",
) -> Interval:
    """Interval of the TVD(p, q) that endless rollouts would show, from counts (..., k) (`difference_interval`).

    Beside a TVD, which lies above it by up to the floor. Every cell is redrawn by itself. Raises `ValueError` without a valid
    rollout, or for a tally that is not i.i.d.
    """
    x, p = iid_counts(counts, "an interval of TVD", sampling), check_q(q)
    if x.shape != p.shape or x.ndim != 1 or x.sum() < 1:
        raise ValueError(f"`counts` and `q` must be (k,) alike with a valid rollout, got shapes {x.shape} and {p.shape}")
    return difference_interval(x / x.sum() - p, redraw_shares(x, generator, draws) - p, level)


def _scores(redrawn: ArrayLike, size: int, q: FloatArray) -> FloatArray:
    """Scores (...) of tallies (..., k + 1), nulls last, of `size` rollouts; the floor is looked up, n takes few values."""
    counts = np.asarray(redrawn)[..., :-1]
    valid = counts.sum(-1)
    sizes, where = np.unique(valid, return_inverse=True)
    floor = metrics.expected_tvd(sizes, q)[where].reshape(valid.shape)
    return metrics.score(valid / size, metrics.excess_tvd(metrics.tvd(counts, q), floor))


def _observed(item: CellCounts) -> tuple[FloatArray, int, FloatArray]:
    """Return the tally (k + 1,) with nulls last, its size and q of one checked cell."""
    counts, nulls, q = item
    x, p = check_counts(counts), check_q(q)
    if x.shape != p.shape or x.ndim != 1:
        raise ValueError(f"a cell has counts (k,) and q (k,), got shapes {x.shape} and {p.shape}")
    tally = check_counts(np.append(x, nulls))
    if tally.sum() < 1:
        raise ValueError("a cell without a rollout cannot be redrawn")
    return tally, int(tally.sum()), p


def _bootstrap(cells: Sequence[CellCounts], generator: Generator, draws: int, pseudo: int) -> tuple[float, FloatArray]:
    """Return mnTV and its replicates (draws,): every cell redrawn from its shares, nulls and `pseudo` rollouts included."""
    if not cells or draws < 1:
        raise ValueError("at least one cell and one draw are needed")
    value, total = 0.0, np.zeros(draws)
    for item in cells:
        tally, size, p = _observed(item)
        value += float(_scores(tally, size, p))
        shares = (tally + pseudo / tally.size) / (size + pseudo)
        total += _scores(draw_tallies(size, shares, generator, draws), size, p)
    return value / len(cells), total / len(cells)


def percentile_bootstrap_mntv(
    cells: Sequence[CellCounts], generator: Generator, draws: int = 50_000, level: float = 0.95
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
    return percentile_interval(_bootstrap(cells, generator, draws, 0)[1], level)


def corrected_bootstrap_mntv(
    cells: Sequence[CellCounts], generator: Generator, draws: int = 50_000, level: float = 0.95
) -> Interval:
    """Interval of the mnTV this model has on average over reruns of as many rollouts: sampling noise is counted once.

    Redraws as in `percentile_bootstrap_mntv`, from shares shrunk by `PSEUDO_ROLLOUTS`, and centred (`centred_interval`).
    Arguments as there.
    """
    value, replicates = _bootstrap(cells, generator, draws, PSEUDO_ROLLOUTS)
    return centred_interval(value, replicates, level)


@dataclass(frozen=True)
class Difference:
    """mnTV of model a less that of model b, its interval, and a permutation p of "the two do not differ on any scene"."""

    value: float
    interval: Interval
    p: float
    draws: int


def difference_mntv(
    a: Sequence[CellCounts], b: Sequence[CellCounts], generator: Generator, draws: int = 50_000, level: float = 0.95
) -> Difference:
    """Compare two models on the same scenes, their rollouts independent of one another.

    Interval: the difference of independent centred bootstraps. p: on every scene the labels of both, nulls included, are
    shared out anew between the models (multivariate hypergeometric), which is exact under equal outcome laws;
    p = (b + 1) / (B + 1), two-sided, ties included.

    Args:
        a: cells of the first model.
        b: cells of the second, scene by scene with the same q.
        generator: source of the draws.
        draws: of the bootstrap and of the permutation each.
        level: of the interval.
    """
    if len(a) != len(b):
        raise ValueError(f"the models must have the same scenes, got {len(a)} and {len(b)}")
    value_a, first = _bootstrap(a, generator, draws, PSEUDO_ROLLOUTS)
    value_b, second = _bootstrap(b, generator, draws, PSEUDO_ROLLOUTS)
    value, shuffled = value_a - value_b, np.zeros(draws)
    for item_a, item_b in zip(a, b, strict=True):
        (x, n, p), (y, m, q) = _observed(item_a), _observed(item_b)
        if p.shape != q.shape or np.abs(p - q).max() > metrics.Q_TOLERANCE:
            raise ValueError("the models must have the same scenes, and these have different references")
        pooled = (x + y).astype(np.int64)
        mine = generator.multivariate_hypergeometric(pooled, n, size=draws, method="marginals")
        shuffled += (_scores(mine, n, p) - _scores(pooled - mine, m, p)) / len(a)
    reached = int((np.abs(shuffled) >= abs(value) - 1e-9).sum())
    return Difference(value, centred_interval(value, first - second, level), (reached + 1) / (draws + 1), draws)


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the truth: `rate` of `runs`, its Monte-Carlo `error` (one standard error), mean `width`.

    `truth` is the expected mnTV of the model the runs were drawn from, `limit` what its mnTV tends to with N.
    """

    rate: float
    error: float
    width: float
    truth: float
    limit: float
    runs: int


def measure_coverage(
    models: Sequence[tuple[ArrayLike, int, ArrayLike]],
    generator: Generator,
    *,
    runs: int = 500,
    draws: int = 1_000,
    level: float = 0.95,
) -> dict[str, Coverage]:
    """Measure the coverage of both intervals of mnTV by simulation from models that are fully known.

    Args:
        models: (shares (k + 1,) with the null's last, N, q (k,)) of every scene.
        generator: source of everything.
        runs: simulated evaluations of the whole roster.
        draws: bootstrap replicates of each.
        level: of the intervals.

    Returns:
        `percentile` (as published) and `corrected`, each against the expected mnTV at N.
    """
    checked = [(check_q(shares), size, check_q(q)) for shares, size, q in models]
    sample = [generator.multinomial(size, shares, size=20_000) for shares, size, _ in checked]
    truth = float(np.mean([_scores(x, size, q).mean() for x, (_, size, q) in zip(sample, checked, strict=True)]))
    limit = float(np.mean([s[-1] + 0.5 * np.abs(s[:-1] - (1 - s[-1]) * q).sum() for s, _, q in checked]))
    held: dict[str, list[tuple[bool, float]]] = {"percentile": [], "corrected": []}
    for _ in range(runs):
        tallies = [generator.multinomial(size, shares) for shares, size, _ in checked]
        cells: list[CellCounts] = [(x[:-1], int(x[-1]), q) for x, (_, _, q) in zip(tallies, checked, strict=True)]
        for name, interval in (
            ("percentile", percentile_bootstrap_mntv(cells, generator, draws, level)),
            ("corrected", corrected_bootstrap_mntv(cells, generator, draws, level)),
        ):
            held[name].append((bool(interval.low <= truth <= interval.high), float(interval.high - interval.low)))
    return {
        name: Coverage(
            rate := float(np.mean([hit for hit, _ in found])),
            sqrt(rate * (1 - rate) / runs),
            float(np.mean([width for _, width in found])),
            truth,
            limit,
            runs,
        )
        for name, found in held.items()
    }
