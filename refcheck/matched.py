"""The matched finite-sample null of a table: what averages of TVD a model would have that *is* the reference, at its own n.

Pure functions of counts and references, made for many cells at many draws. It refuses to know gates, tracks and files.

Source: PAWBench (Pu et al. 2026, arXiv 2608.27345) compares each model's average with such a null, B = 50,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from refcheck import metrics
from refcheck.metrics import FloatArray, check_counts, check_q, require_iid
from refcheck.tally import Sampling

GUIDE = 256
"""Steps of the table that says where to begin reading an inverse distribution function."""
LARGEST_TABLE = 1_000
"""Above this n the tables of all conditional binomials cost more than drawing from them."""
TIE = 1e-9


class _Binomials:
    """Inverse distribution functions of Binomial(m, r) for m = 0..n at once, read through a guide (Chen and Asau 1974)."""

    def __init__(self, n: int, rate: float, log_choose: FloatArray) -> None:
        x = np.arange(n + 1)
        with np.errstate(invalid="ignore"):
            log_p = log_choose + x * np.log(rate) + (x[:, None] - x) * np.log1p(-rate)
        below = np.minimum(np.cumsum(np.exp(log_p), axis=-1), 1.0)
        below[x[:, None] <= x] = 1.0  # m rollouts are never more than m, whatever the sum rounds to
        self.width = n + 1
        self.below = below.ravel()
        starts = (x[:, None] + np.arange(GUIDE) / GUIDE).ravel()  # rows laid end to end: row m takes up [m, m + 1]
        found = np.searchsorted((below + x[:, None]).ravel(), starts, side="right")
        self.guide = (found.reshape(n + 1, GUIDE) - x[:, None] * self.width).ravel()

    def draw(self, m: NDArray[np.int64], generator: Generator) -> NDArray[np.int64]:
        """Draw one count for each of the numbers of trials m (draws,)."""
        u = generator.random(m.size)
        x = self.guide.take(m * GUIDE + (u * GUIDE).astype(np.int64))
        row = m * self.width
        x += u >= self.below.take(row + x)
        late = np.flatnonzero(u >= self.below.take(row + x))
        while late.size:
            x[late] += 1
            late = late[u[late] >= self.below.take(row[late] + x[late])]
        return np.asarray(x)


def draw_tvd(n: int, q: ArrayLike, generator: Generator, draws: int = 50_000, *, sampling: Sampling = "iid") -> FloatArray:
    """Draw TVDs (draws,) of n >= 1 rollouts from q (k,) itself, several times faster than tallies from the generator.

    The multinomial is drawn outcome by outcome, X_i given the rest being Binomial(m, q_i / rest), each by inversion from one
    table for every m; the likeliest outcomes first, so that few rollouts are left for the others.
    """
    require_iid(sampling, "the matched null")
    p = check_q(q)
    if n < 1 or draws < 1 or p.ndim != 1:
        raise ValueError(f"`n` and `draws` must be at least 1 and `q` (k,), got {n}, {draws} and shape {p.shape}")
    p = p / p.sum()
    if n > LARGEST_TABLE:
        return metrics.tvd(generator.multinomial(n, p, size=draws), p)
    distance = np.zeros(draws)
    for place, count in _columns(n, p, generator, draws):
        distance += np.abs(count - n * p[place])
    return distance / (2 * n)


def draw_tallies(n: int, p: ArrayLike, generator: Generator, draws: int) -> NDArray[np.int64]:
    """Draw tallies (draws, k) of n >= 1 rollouts from the shares `p` (k,), as `draw_tvd` does, outcomes in their order."""
    shares = check_q(p)
    shares = shares / shares.sum()
    if n > LARGEST_TABLE:
        return np.asarray(generator.multinomial(n, shares, size=draws), np.int64)
    tallies = np.zeros((draws, shares.size), np.int64)
    for place, count in _columns(n, shares, generator, draws):
        tallies[:, place] = count
    return tallies


def _columns(n: int, p: FloatArray, generator: Generator, draws: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield (place in p, counts (draws,)) of every outcome that can occur, the likeliest first."""
    order = [int(place) for place in np.argsort(-p, kind="stable") if p[place] > 0]
    x = np.arange(n + 1)
    with np.errstate(invalid="ignore"):
        log_choose = gammaln(x[:, None] + 1) - gammaln(x + 1) - gammaln(np.maximum(x[:, None] - x, 0) + 1)
    left, rest = np.full(draws, n, np.int64), 1.0
    for place in order[:-1]:
        count = _Binomials(n, min(p[place] / rest, 1 - 2**-53), log_choose).draw(left, generator)
        yield place, count
        left -= count
        rest -= p[place]
    yield order[-1], left


@dataclass(frozen=True)
class MatchedNull:
    """An average TVD over `cells` cells beside `draws` averages under the null: mean, 99 % quantile, p. In 0..1.

    NaN where there is no cell.
    """

    cells: int
    observed: float
    mean: float
    q99: float
    p: float
    draws: int


def compare_average(observed: ArrayLike, nulls: ArrayLike) -> MatchedNull:
    """Compare the mean of `observed` TVDs (cells,) with the means of `nulls` (cells, draws): p = (b + 1) / (B + 1)."""
    values, drawn = np.asarray(observed, np.float64), np.asarray(nulls, np.float64)
    if drawn.ndim != 2 or values.shape != drawn.shape[:1]:
        raise ValueError(f"`observed` must be (cells,) and `nulls` (cells, draws), got {values.shape} and {drawn.shape}")
    total = _Sum(drawn.shape[1])
    total.observed, total.nulls, total.cells = float(values.sum()), drawn.sum(0), len(values)
    return total.compare()


class _Sum:
    """Sums over cells of the observed TVD and of its null's draws."""

    def __init__(self, draws: int) -> None:
        self.observed, self.nulls, self.cells = 0.0, np.zeros(draws), 0

    def compare(self) -> MatchedNull:
        draws = self.nulls.size
        if self.cells == 0:
            return MatchedNull(0, np.nan, np.nan, np.nan, np.nan, draws)
        value, averages = self.observed / self.cells, self.nulls / self.cells
        reached = int((averages >= value - TIE).sum())
        q99 = float(np.quantile(averages, 0.99))
        return MatchedNull(self.cells, value, float(averages.mean()), q99, (reached + 1) / (draws + 1), draws)


@dataclass(frozen=True)
class MatchedTable:
    """The null per model, and of all models' cells pooled, over cells of at least `minimum` valid rollouts."""

    minimum: int
    models: dict[str, MatchedNull]
    pooled: MatchedNull


def matched_null(
    models: Mapping[str, Sequence[tuple[ArrayLike, ArrayLike]]],
    generator: Generator,
    draws: int = 50_000,
    minimums: Sequence[int] = (1,),
    *,
    sampling: Sampling = "iid",
) -> dict[int, MatchedTable]:
    """Compare every model's average TVD, and that of all cells, with draws of the same n from every reference.

    Each cell has a stream of its own, so that the null of one does not depend on which others are there after it.

    Args:
        models: of each, its passing cells as (counts (k,), q (k,)), each with a valid rollout.
        generator: parent of the cells' streams.
        draws: B.
        minimums: thresholds on n; a table for each, from the same draws.
        sampling: anything but `iid` is refused.

    Returns:
        Tables by threshold.
    """
    require_iid(sampling, "the matched null")
    if not minimums or min(minimums) < 1:
        raise ValueError(f"`minimums` must be at least 1 each, got {list(minimums)}")
    found: dict[int, dict[str, MatchedNull]] = {minimum: {} for minimum in minimums}
    pooled = {minimum: _Sum(draws) for minimum in minimums}
    for model, cells in models.items():
        mine = {minimum: _Sum(draws) for minimum in minimums}
        for (counts, q), stream in zip(cells, generator.spawn(len(cells)), strict=True):
            x = check_counts(counts)
            n, observed = int(x.sum()), float(metrics.tvd(x, q))
            if n < 1:
                raise ValueError(f"a cell of model {model!r} has no valid rollout: it does not pass, so leave it out")
            if n < min(minimums):
                continue
            null = draw_tvd(n, q, stream, draws)
            for minimum in minimums:
                if n >= minimum:
                    for total in (mine[minimum], pooled[minimum]):
                        total.observed += observed
                        total.nulls += null
                        total.cells += 1
        for minimum in minimums:
            found[minimum][model] = mine[minimum].compare()
    return {minimum: MatchedTable(minimum, found[minimum], pooled[minimum].compare()) for minimum in minimums}
