"""Where the trained judge looks: a detector that tells the cells of a picture which show a thing from those that do not.

It refuses to know scenes, files and words: pictures and places come in, places go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.ensemble import HistGradientBoostingClassifier

from refcheck.judges import features
from refcheck.judges.examples import Example
from refcheck.judges.features import FloatArray, Grid, Sight
from simulators.render.canvas import Region

CELLS = 5.0  # across the thing that is looked for
COARSEST = 8  # pixels of a cell: the middle of a large thing is found no less well
MOST_CELLS = 40_000
SHOWS, APART = 0.4, 0.02  # of a cell's pixels, from which and to which it shows the thing, and does not
INSIDE, BESIDE = (
    0.3,
    0.8,
)  # where the pixels are not known: sizes from the middle within which a cell shows the thing, and beyond which it does not
TRIED = 60  # pictures, about, on which it is seen which way of learning finds things better
NEGATIVES = 120  # cells that show something else, of a picture
FIXED = 2.0  # pixels: a thing whose middle varies less, as a wheel about its hub, is where it always is


@dataclass(frozen=True, eq=False)
class Detector:
    """Finds `count` things of `size` pixels in the cells of `grid`; without a model they are where they always are, `fixed`."""

    grid: Grid
    size: float
    count: int
    fixed: FloatArray
    model: HistGradientBoostingClassifier | None

    @classmethod
    def fit(
        cls, items: Sequence[Example], empty: Sequence[Sight], region: Region, size: float, count: int, generator: Generator
    ) -> Detector:
        """Learn from pictures with known places, and from pictures in which nothing is to be found."""
        places = np.array([one.places for one in items if one.places is not None])
        middle = places.mean(axis=0)
        area = (region[2] - region[0]) * (region[3] - region[1])
        cell = max(1, min(COARSEST, round(size / CELLS)), int(np.ceil(np.sqrt(area / MOST_CELLS))))
        grid = Grid(region, cell)
        if np.sqrt(((places - middle) ** 2).sum(axis=-1).mean(axis=0)).max() < FIXED:
            return cls(grid, size, count, middle, None)
        centres = grid.centres().reshape(-1, 2)
        rows, shows = list[NDArray[np.float32]](), list[NDArray[np.bool_]]()
        pictures = [(one.sight, one) for one in items if one.sight is not None and one.places is not None]
        for sight, one in [*pictures, *((sight, None) for sight in empty)]:
            cells = grid.describe(sight).reshape(len(centres), -1)
            own, other = _shown(one, grid, size)
            if len(other):
                weight = cells[other, 6].astype(float) + 2.0  # the cells that changed are those to be told apart
                other = generator.choice(other, min(NEGATIVES, len(other)), replace=False, p=weight / weight.sum())
            rows += [cells[own], cells[other]]
            shows += [np.ones(len(own), bool), np.zeros(len(other), bool)]
        model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, learning_rate=0.2, random_state=0)
        model.fit(np.concatenate(rows), np.concatenate(shows))
        return cls(grid, size, count, middle, model)

    @classmethod
    def best(
        cls, items: Sequence[Example], empty: Sequence[Sight], region: Region, size: float, count: int, generator: Generator
    ) -> Detector:
        """Learn as `fit` does, from the pixels that show the thing or from what is near its middle: what finds it better.

        The pixels of a long thing, as of a pendulum's arm, lie otherwise about its middle in every pose.
        """
        shaped = [one for one in items if one.shape is not None]
        if not shaped:
            return cls.fit(items, empty, region, size, count, generator)
        others = [one for one in items if one.shape is None and one.sight is not None and one.places is not None] or shaped
        near = [replace(one, shape=None) for one in shaped]
        seen = any(one.shape is not None and one.shape.any() for one in shaped)  # of glass no pixel is a thing's own
        tried = [cls.fit(some, empty, region, size, count, generator) for some in ((shaped, near) if seen else (near,))]
        return min(tried, key=lambda one: one.error(others[:: max(1, len(others) // TRIED)]))

    def error(self, items: Sequence[Example]) -> float:
        """Return by how far [px] things are found off their places, as a root mean square; `size` at most for each."""
        gaps = list[float]()
        for one in items:
            if one.sight is not None and one.places is not None:
                gap = np.linalg.norm(one.places[:, None] - self.find(one.sight)[0][None], axis=-1)
                gaps += np.minimum(gap[linear_sum_assignment(gap)], self.size).tolist()
        return float(np.sqrt(np.mean(np.square(gaps))))

    def find(self, sight: Sight) -> tuple[FloatArray, FloatArray]:
        """Return places (count, 2) [px] and the probability (count,) that each shows the thing."""
        if self.model is None:
            return self.fixed, np.ones(self.count)
        cells = self.grid.describe(sight)
        heat = self.model.predict_proba(cells.reshape(-1, cells.shape[-1]))[:, 1].reshape(self.grid.shape)
        places, scores = features.peaks(heat.astype(np.float32), self.grid, INSIDE * 2 * self.size, self.count)
        if self.count == 1:
            places = features.middle(heat.astype(np.float64), self.grid, self.size, places)
        return places, scores


def _shown(one: Example | None, grid: Grid, size: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cells that show the thing, and those that do not; by the pixels where they are known."""
    centres = grid.centres().reshape(-1, 2)
    if one is None or one.places is None:
        return np.zeros(0, np.int64), np.arange(len(centres))
    gap = np.linalg.norm(centres[:, None] - one.places[None], axis=-1).min(axis=1)
    if one.shape is None:
        return np.flatnonzero(gap < max(INSIDE * size, 0.75 * grid.cell)), np.flatnonzero(gap > BESIDE * size)
    share = grid.shares(one.shape).ravel()
    return np.flatnonzero(share >= min(SHOWS, float(share.max()) or 1.0)), np.flatnonzero(share <= APART)
