"""What the trained judge is made of: a detector of cells, readers of crops, and the curve from margin to probability.

It refuses to know scenes and files: arrays and pictures come in, places and words go out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold
from sklearn.svm import SVC

from refcheck.judges import features, focus
from refcheck.judges.examples import Example
from refcheck.judges.features import FloatArray, Grid, Look, Sight
from simulators.render.canvas import Region

CELLS = 5.0  # across the thing that is looked for
COARSEST = 8  # pixels of a cell: the middle of a large thing is found no less well
MOST_CELLS = 40_000
INSIDE, BESIDE = 0.3, 0.8  # sizes from the middle within which a cell shows the thing, and beyond which it does not
NEGATIVES = 120  # cells that show something else, of a picture
FIXED = 2.0  # pixels: a thing whose middle varies less, as a wheel about its hub, is where it always is
FOLDS = 3
COMPONENTS = (60, 100)  # of upright and of turned looks
JITTER = (0.06, 0.03)  # of scale and place, as shares: nothing is ever cut out quite in the same place
TURNS = tuple(30.0 * k for k in range(12))  # degrees: a thing that lies on a table may lie any way round
READ_TURNS = tuple(45.0 * k for k in range(8))
GOOD = 0.995  # accuracy at which turned crops, slow to learn from, are not tried
KINDS = ("place", "spot", "fine", "fine, context", "fine, context, place", "shape", "shape, place", "turned")
SPOT = 7  # pixels across of the part of a fine crop that tells words apart best


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
        pictures = [(one.sight, one.places) for one in items if one.sight is not None and one.places is not None]
        for sight, at in [*pictures, *((sight, None) for sight in empty)]:
            cells = grid.describe(sight).reshape(len(centres), -1)
            gap = np.full(len(centres), np.inf)
            if at is not None:
                gap = np.linalg.norm(centres[:, None] - at[None], axis=-1).min(axis=1)
            own = np.flatnonzero(gap < max(INSIDE * size, 0.75 * cell))
            other = np.flatnonzero(gap > BESIDE * size)
            if len(other):
                weight = cells[other, 6].astype(float) + 2.0  # the cells that changed are those to be told apart
                other = generator.choice(other, min(NEGATIVES, len(other)), replace=False, p=weight / weight.sum())
            rows += [cells[own], cells[other]]
            shows += [np.ones(len(own), bool), np.zeros(len(other), bool)]
        model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, learning_rate=0.2, random_state=0)
        model.fit(np.concatenate(rows), np.concatenate(shows))
        return cls(grid, size, count, middle, model)

    def find(self, sight: Sight) -> tuple[FloatArray, FloatArray]:
        """Return places (count, 2) [px] and the probability (count,) that each shows the thing."""
        if self.model is None:
            return self.fixed, np.ones(self.count)
        cells = self.grid.describe(sight)
        heat = self.model.predict_proba(cells.reshape(-1, cells.shape[-1]))[:, 1].reshape(self.grid.shape)
        return features.peaks(heat.astype(np.float32), self.grid, INSIDE * 2 * self.size, self.count)


@dataclass(frozen=True, eq=False)
class Block:
    """One part of a description: principal components of looks, scaled to a total variance of 1. It knows no words."""

    kind: str
    reduce: PCA
    scale: float
    spot: tuple[int, int]

    @classmethod
    def of(cls, kind: str, raw: NDArray[np.float32], spot: tuple[int, int] = (0, 0)) -> Block:
        """Learn from raw features (n, d); `spot` is where in a crop they were taken, for those that are taken at one."""
        parts = min(COMPONENTS[kind == "turned"], raw.shape[1], len(raw) - 1)
        reduce = PCA(parts, svd_solver="randomized", random_state=0).fit(raw)
        return cls(kind, reduce, 1.0 / max(float(np.sqrt(reduce.explained_variance_.sum())), 1e-9), spot)

    def __call__(self, raw: NDArray[np.float32]) -> FloatArray:
        """Return raw features (n, d) described, (n, c)."""
        return np.asarray(self.scale * self.reduce.transform(raw), np.float64)


def telling(looks: Sequence[Look], y: NDArray[np.int64]) -> tuple[int, int]:
    """Return the corner (row, column) of the part of a fine crop where words `y` (n,) differ most, against what else varies.

    Looks at nothing (-1) do not count.
    """
    x = np.stack([look.fine for look in looks])[y >= 0].astype(np.float32)
    ratio = cv2.boxFilter(focus.telling(x, y[y >= 0]), -1, (3, 3))
    row, column = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    most = ratio.shape[0] - SPOT
    return int(np.clip(row - SPOT // 2, 0, most)), int(np.clip(column - SPOT // 2, 0, most))


def _raw(kind: str, looks: Sequence[Look], turn: float = 0.0, spot: tuple[int, int] = (0, 0)) -> NDArray[np.float32]:
    if kind == "spot":
        row, column = spot
        return features.colours([look.fine[row : row + SPOT, column : column + SPOT] for look in looks])
    if kind == "place":
        return np.stack([look.place for look in looks]).astype(np.float32)
    if kind == "context":
        return features.colours([look.context for look in looks])
    if kind in ("shape", "turned"):
        return np.stack([features.turned(look.fine, turn) for look in looks])
    return features.colours([look.fine for look in looks])


@dataclass(frozen=True, eq=False)
class Described:
    """Looks under every block, and, where things are turned, at every turn: what readers learn from and are compared on."""

    blocks: dict[str, Block]
    upright: dict[str, FloatArray]
    turned: tuple[FloatArray, ...]
    read: tuple[FloatArray, ...]

    @classmethod
    def of(cls, looks: Sequence[Look], y: NDArray[np.int64]) -> Described:
        """Describe looks upright; their words `y` (n,) say where to look and nothing else."""
        spot = telling(looks, y)
        raw = {kind: _raw(kind, looks, spot=spot) for kind in ("place", "spot", "fine", "context", "shape")}
        blocks = {kind: Block.of(kind, one, spot) for kind, one in raw.items()}
        return cls(blocks, {kind: block(raw[kind]) for kind, block in blocks.items()}, (), ())

    def and_turned(self, looks: Sequence[Look], generator: Generator) -> Described:
        """Return these, and looks as things that may lie any way round; `generator` moves and scales what is cut out."""
        rows = []
        for turn in TURNS:
            scales, shifts = generator.uniform(-1, 1, len(looks)), generator.uniform(-1, 1, (len(looks), 2))
            rows.append([
                features.turned(one.fine, turn, 1.0 + JITTER[0] * scale, (JITTER[1] * shift[0], JITTER[1] * shift[1]))
                for one, scale, shift in zip(looks, scales, shifts, strict=True)
            ])  # fmt: skip
        learned = [np.stack(some) for some in rows]
        block = Block.of("turned", np.concatenate([some[k % 2 :: 2] for k, some in enumerate(learned)]))
        read = tuple(block(_raw("turned", looks, turn)) for turn in READ_TURNS)
        return Described({**self.blocks, "turned": block}, self.upright, tuple(block(some) for some in learned), read)

    def learn(self, kind: str, rows: NDArray[np.int64], y: NDArray[np.int64]) -> SVC:
        """Fit words `y` (n,) of looks `rows` (n,) in the features `kind`."""
        if kind == "turned":  # each look at half of the turns
            parts = [(x[rows[k % 2 :: 2]], y[k % 2 :: 2]) for k, x in enumerate(self.turned)]
            x, words = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
            return SVC(C=10.0, class_weight="balanced").fit(x, words)
        return SVC(C=30.0, class_weight="balanced").fit(joined(self.upright, kind)[rows], y)

    def scores(self, kind: str, model: SVC, rows: NDArray[np.int64]) -> FloatArray:
        """Return what a model says of looks `rows`."""
        if kind == "turned":
            return np.mean([model.decision_function(x[rows]) for x in self.read], axis=0)
        return np.asarray(model.decision_function(joined(self.upright, kind)[rows]))


def joined(parts: Mapping[str, FloatArray], kind: str) -> FloatArray:
    """Return the parts that `kind` names, side by side."""
    return np.concatenate([parts[name] for name in kind.split(", ")], axis=1)


@dataclass(frozen=True, eq=False)
class Reader:
    """Names what a look shows: words from 0, and -1 for a look at nothing."""

    kind: str
    blocks: tuple[Block, ...]
    model: SVC

    @classmethod
    def of(cls, kind: str, described: Described, y: NDArray[np.int64]) -> Reader:
        """Learn words `y` (n,) from all looks described by `kind`, parts of `KINDS` with commas between."""
        blocks = tuple(described.blocks[name] for name in kind.split(", "))
        return cls(kind, blocks, described.learn(kind, np.arange(len(y)), y))

    def decide(self, looks: Sequence[Look]) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the words (n,) of looks and the margins (n,) to the next."""
        turns = READ_TURNS if self.kind == "turned" else (0.0,)
        x = [
            np.concatenate([block(_raw(block.kind, looks, turn, block.spot)) for block in self.blocks], axis=1)
            for turn in turns
        ]
        return _words(self.model, np.mean([self.model.decision_function(one) for one in x], axis=0))


def _words(model: SVC, scores: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    classes = np.asarray(model.classes_, np.int64)
    if scores.ndim == 1:
        return classes[(scores > 0).astype(int)], np.abs(scores)
    ordered = np.sort(scores, axis=1)
    return classes[np.argmax(scores, axis=1)], ordered[:, -1] - ordered[:, -2]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Which features serve best: the `reader` by them, every accuracy, margin and rightness (n,) of the looks at outcomes."""

    reader: Reader
    accuracies: dict[str, float]
    margins: FloatArray
    right: NDArray[np.bool_]


def compare(looks: Sequence[Look], y: NDArray[np.int64], ways: NDArray[np.int64], generator: Generator) -> Comparison:
    """Return the reader by the best kind of features.

    Each look is read by a reader that has learned nothing filmed in its way: `ways` (n,) are the groups that are left out
    (but for the principal components, which know no word). Accuracy is the mean over words, looks at nothing among them.
    """
    described = Described.of(looks, y)
    told, best, found = dict[str, float](), "", (np.zeros(0), np.zeros(0, bool))
    for kind in KINDS:
        if kind == "turned":
            if max(told.values()) >= GOOD:
                continue
            described = described.and_turned(looks, generator)
        margins, right = np.zeros(len(y)), np.zeros(len(y), bool)
        for learn, test in GroupKFold(FOLDS).split(y, y, ways):
            model = described.learn(kind, learn, y[learn])
            words, margins[test] = _words(model, described.scores(kind, model, test))
            right[test] = words == y[test]
        told[kind] = float(np.mean([right[y == word].mean() for word in np.unique(y)]))
        if not best or told[kind] > told[best]:
            best, found = kind, (margins[y >= 0], right[y >= 0])
    return Comparison(Reader.of(best, described, y), told, *found)


def calibrate(margins: FloatArray, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and offset of the logistic curve from margin to the probability of being right.

    Platt's method with his smoothed targets (Platt 1999, "Probabilistic outputs for support vector machines"), so that a
    judge without an error among its examples is still not certain.
    """
    good, bad = int(right.sum()), int((~right).sum())
    target = np.where(right, (good + 1) / (good + 2), 1 / (bad + 2))

    def loss(parameters: FloatArray) -> float:
        z = parameters[0] * margins + parameters[1]
        return float(np.sum(np.logaddexp(0.0, z) - target * z))

    found = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead")
    return float(max(found.x[0], 0.0)), float(found.x[1])
