"""How the trained judge names what it has found: readers of crops, and the curve from margin to probability.

It refuses to know scenes and files: arrays and pictures come in, words go out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from refcheck.judges import features, focus
from refcheck.judges.features import FloatArray, Look

NOTHING, BETWEEN = -1, -2  # in place of a word: nothing to be named is there, or what is there lies between two
WEIGHTS = (0.5, 1.0, 0.15)  # that what lies between two words may have at most, where a word has about 1
FOLDS = 3
COMPONENTS = (60, 100)  # of upright and of turned looks
JITTER = (0.1, 0.05)  # of scale and place, as shares: nothing is ever cut out quite in the same place
TURNS = tuple(30.0 * k for k in range(12))  # degrees: a thing that is looked down on may lie any way round
SWAY = 30.0  # degrees, either way, where its sides are seen too: they are always below
MOST_ROWS = 16_000  # of turned looks, about, that pairs of words are learned from: what that takes grows with their square
HIDDEN, BATCH, RATE = 128, 256, 2e-3  # units of a network, turned looks that it learns from at a time, and how fast
PASSES, STEPS = 12, 1500  # how often at least it sees every one, and how often some
UNLIKELY = 1e-6  # least probability that a network gives a word
THRESHOLD = 0.9  # of the calibrated probability that an answer is right; below it there is none. Fixed, for every scene
GOOD = 0.995  # accuracy at which turned crops, slow to learn from, are not tried
KINDS = ("place", "spot", "fine", "fine, context", "fine, context, place", "shape", "shape, place", "fine, shape, place")
SWAYED, TURNED, COLOURED = "swayed", "turned", "turned, hues"  # the last is learned by a network, from every look at every turn
READ_TURNS = {  # degrees, and whether mirrored: what a look is read at, by block; the mean decides
    SWAYED: tuple((angle, mirrored) for angle in (0.0, -10.0, 10.0) for mirrored in (False, True)),
    TURNED: tuple((45.0 * k, False) for k in range(8)),
}
SHOWING = ("fine", "fine, context", "shape", "fine, shape")
NEAR = 0.01  # of accuracy: of kinds no further apart the one whose probabilities serve best is taken
TOSSES = 2
SPOT = 7  # pixels across of the part of a fine crop that tells words apart best


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
        parts = min(COMPONENTS[kind in READ_TURNS], raw.shape[1], len(raw) - 1)
        reduce = PCA(parts, svd_solver="randomized", random_state=0).fit(raw)
        return cls(kind, reduce, 1.0 / max(float(np.sqrt(reduce.explained_variance_.sum())), 1e-9), spot)

    def __call__(self, raw: NDArray[np.float32]) -> FloatArray:
        """Return raw features (n, d) described, (n, c)."""
        return np.asarray(self.scale * self.reduce.transform(raw), np.float64)


def telling(looks: Sequence[Look], y: NDArray[np.int64]) -> tuple[int, int]:
    """Return the corner (row, column) of the part of a fine crop where words `y` (n,) differ most, against what else varies.

    Looks at what has no word (below 0) do not count.
    """
    x = np.stack([look.fine for look in looks])[y >= 0].astype(np.float32)
    ratio = cv2.boxFilter(focus.telling(x, y[y >= 0]), -1, (3, 3))
    row, column = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    most = ratio.shape[0] - SPOT
    return int(np.clip(row - SPOT // 2, 0, most)), int(np.clip(column - SPOT // 2, 0, most))


def _raw(
    kind: str, looks: Sequence[Look], turn: float = 0.0, mirrored: bool = False, spot: tuple[int, int] = (0, 0)
) -> NDArray[np.float32]:
    if kind == "spot":
        row, column = spot
        return features.colours([look.fine[row : row + SPOT, column : column + SPOT] for look in looks])
    if kind == "place":
        return np.stack([look.place for look in looks]).astype(np.float32)
    if kind == "context":
        return features.colours([look.context for look in looks])
    if kind == "hues":
        return np.stack([features.hues(look.fine) for look in looks])
    if kind in ("shape", *READ_TURNS):
        return np.stack([features.turned(look.fine, turn, mirrored=mirrored) for look in looks])
    return features.colours([look.fine for look in looks])


@dataclass(frozen=True, eq=False)
class Net:
    """A network of one hidden layer, which learns from many looks in the time that pairs of words take for few.

    It says of every pair of words, as `SVC` does, by how much the first is the likelier (in logarithms of the odds).
    """

    scale: float
    model: MLPClassifier

    @classmethod
    def fit(cls, x: FloatArray, y: NDArray[np.int64]) -> Net:
        """Learn words `y` (n,) of descriptions (n, d), every word as often as the commonest."""
        words, counts = np.unique(y, return_counts=True)
        rows = np.concatenate([np.resize(np.flatnonzero(y == word), counts.max()) for word in words])
        scale = 1.0 / max(float(x.std()), 1e-9)
        batch = min(BATCH, len(rows))
        passes = max(PASSES, math.ceil(STEPS * batch / len(rows)))
        model = MLPClassifier((HIDDEN,), max_iter=passes, batch_size=batch, learning_rate_init=RATE, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is stopped early on purpose
            return cls(scale, model.fit(scale * x[rows], y[rows]))

    @property
    def classes_(self) -> NDArray[np.int64]:
        """The words (w,)."""
        return np.asarray(self.model.classes_, np.int64)

    def decision_function(self, x: FloatArray) -> FloatArray:
        """Return for descriptions (n, d) the score of each pair of words (n, w (w - 1) / 2); of two words the second's (n,)."""
        likely = np.log(np.maximum(self.model.predict_proba(self.scale * x), UNLIKELY))
        if likely.shape[1] == 2:
            return np.asarray(likely[:, 1] - likely[:, 0])
        first, second = np.triu_indices(likely.shape[1], 1)
        return np.asarray(likely[:, first] - likely[:, second])


@dataclass(frozen=True, eq=False)
class Described:
    """Looks under every block, and, by block, at every turn: `turned` to learn from, `read` to be told apart at."""

    blocks: dict[str, Block]
    upright: dict[str, FloatArray]
    turned: dict[str, tuple[FloatArray, ...]]
    read: dict[str, tuple[FloatArray, ...]]

    @classmethod
    def of(cls, looks: Sequence[Look], y: NDArray[np.int64]) -> Described:
        """Describe looks upright; their words `y` (n,) say where to look and nothing else."""
        spot = telling(looks, y)
        raw = {kind: _raw(kind, looks, spot=spot) for kind in ("place", "spot", "fine", "context", "shape", "hues")}
        blocks = {kind: Block.of(kind, one, spot) for kind, one in raw.items()}
        return cls(blocks, {kind: block(raw[kind]) for kind, block in blocks.items()}, {}, {})

    def and_turned(self, name: str, looks: Sequence[Look], generator: Generator) -> Described:
        """Return these, and looks in the block `name`; `generator` turns, moves and scales what is cut out.

        `turned`: things that may lie any way round. `swayed`: a little to and fro, and every other time in a mirror.
        """
        rows = []
        for k, turn in enumerate(TURNS):
            scales, shifts = generator.uniform(-1, 1, len(looks)), generator.uniform(-1, 1, (len(looks), 2))
            angles = SWAY * generator.uniform(-1, 1, len(looks)) if name == SWAYED else np.full(len(looks), turn)
            rows.append([
                features.turned(
                    one.fine, angle, 1.0 + JITTER[0] * scale, (JITTER[1] * shift[0], JITTER[1] * shift[1]),
                    name == SWAYED and k // 2 % 2 == 1,
                )
                for one, angle, scale, shift in zip(looks, angles, scales, shifts, strict=True)
            ])  # fmt: skip
        learned = [np.stack(some) for some in rows]
        block = Block.of(name, np.concatenate([some[k % 2 :: 2] for k, some in enumerate(learned)]))
        read = tuple(block(_raw(name, looks, *way)) for way in READ_TURNS[name])
        return Described(
            {**self.blocks, name: block}, self.upright,
            {**self.turned, name: tuple(block(some) for some in learned)}, {**self.read, name: read},
        )  # fmt: skip

    def _any_way(self, kind: str, turned: Mapping[str, tuple[FloatArray, ...]]) -> list[FloatArray]:
        """Return, of every turn, looks in the features `kind`."""
        name = kind.split(", ")[0]
        return [joined({**self.upright, name: x}, kind) for x in turned[name]]

    def learn(self, kind: str, rows: NDArray[np.int64], y: NDArray[np.int64], weight: float) -> SVC | Net:
        """Fit words `y` (n,) of looks `rows` (n,) in the features `kind`; `weight` as in `_pairwise`."""
        if kind == COLOURED:
            return Net.fit(np.concatenate([x[rows] for x in self._any_way(kind, self.turned)]), np.tile(y, len(TURNS)))
        if kind in self.turned:  # each look at half of the turns, at fewer where there are many looks
            turned = self.turned[kind]
            step = max(2, round(len(rows) * len(turned) / MOST_ROWS))
            parts = [(x[rows[k % step :: step]], y[k % step :: step]) for k, x in enumerate(turned)]
            x, words = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
            return _pairwise(10.0, x, words, weight)
        return _pairwise(30.0, joined(self.upright, kind)[rows], y, weight)

    def scores(self, kind: str, model: SVC | Net, rows: NDArray[np.int64]) -> FloatArray:
        """Return what a model says of looks `rows`."""
        if kind.split(", ")[0] in self.read:
            return np.mean([model.decision_function(x[rows]) for x in self._any_way(kind, self.read)], axis=0)
        return np.asarray(model.decision_function(joined(self.upright, kind)[rows]))


def _pairwise(cost: float, x: FloatArray, y: NDArray[np.int64], weight: float) -> SVC:
    """Fit a classifier of each pair of words `y` (n,) to descriptions (n, d): every word weighs the same, `BETWEEN` `weight`.

    What lies between two is rare: weighed as they are, it may take in all that is near the line.
    """
    words, counts = np.unique(y, return_counts=True)
    weights = dict(zip(words.tolist(), (counts.mean() / counts).tolist(), strict=True))
    if BETWEEN in weights:
        weights[BETWEEN] = min(weight, weights[BETWEEN])
    return SVC(C=cost, class_weight=weights, decision_function_shape="ovo").fit(x, y)


def joined(parts: Mapping[str, FloatArray], kind: str) -> FloatArray:
    """Return the parts that `kind` names, side by side."""
    return np.concatenate([parts[name] for name in kind.split(", ")], axis=1)


@dataclass(frozen=True, eq=False)
class Reader:
    """Names what a look shows: words from 0, `BETWEEN` for what lies between two, `NOTHING`, where it learned those."""

    kind: str
    blocks: tuple[Block, ...]
    model: SVC | Net

    @classmethod
    def of(cls, kind: str, described: Described, y: NDArray[np.int64], rows: NDArray[np.int64], weight: float) -> Reader:
        """Learn words `y` (n,) from the looks `rows` described by `kind`, names of blocks with commas between."""
        blocks = tuple(described.blocks[name] for name in kind.split(", "))
        return cls(kind, blocks, described.learn(kind, rows, y[rows], weight))

    def decide(self, looks: Sequence[Look]) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the words (n,) of looks and the margins (n,) to the next."""
        ways = READ_TURNS.get(self.blocks[0].kind, ((0.0, False),))
        x = [
            np.concatenate([block(_raw(block.kind, looks, *way, block.spot)) for block in self.blocks], axis=1) for way in ways
        ]
        return _words(self.model, np.mean([self.model.decision_function(one) for one in x], axis=0))


def _words(model: SVC | Net, scores: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the words (n,) that win most of their pairs, and by how much (n,) each wins the pair that it is least sure of."""
    classes = np.asarray(model.classes_, np.int64)
    if scores.ndim == 1:
        return classes[(scores > 0).astype(int)], np.abs(scores)
    first, second = np.triu_indices(len(classes), 1)
    pairs = np.zeros((len(scores), len(classes), len(classes)))
    pairs[:, first, second], pairs[:, second, first] = scores, -scores
    rank = (pairs > 0).sum(axis=2) + expit(pairs.sum(axis=2))  # a sum decides between as many pairs won
    best = np.argmax(rank, axis=1)
    won = pairs[np.arange(len(scores)), best]
    won[np.arange(len(scores)), best] = np.inf
    return classes[best], won.min(axis=1)


@dataclass(frozen=True, eq=False)
class Answers:
    """What was said of looks left out: of each (n,) at an outcome whether it is `named` at all, whether `right`, its margin.

    `astray` (m,): margins of what lies between two words and was named all the same. That is wrong as well: however rare it is,
    it counts like a word.
    """

    named: NDArray[np.bool_]
    right: NDArray[np.bool_]
    margins: FloatArray
    astray: FloatArray

    @cached_property
    def curve(self) -> tuple[float, float]:
        """Slope and offset of the logistic curve from a margin to the probability of being right, see `calibrate`."""
        return calibrate(*self._sure)

    @property
    def serve(self) -> bool:
        """Whether what is named has a probability of being right that follows from its margin."""
        return separates(*self._sure)

    @property
    def loss(self) -> float:
        """The mean logarithmic loss of the calibrated probabilities of being right."""
        slope, offset = self.curve
        if not np.isfinite(offset):
            return np.inf
        margins, right = self._sure
        z = slope * margins + offset
        return float(np.mean(np.logaddexp(0.0, z) - right * z))

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Of each look (n,) at an outcome whether what is named is likely enough to be right."""
        slope, offset = self.curve
        return self.named & (expit(slope * self.margins + offset) >= THRESHOLD)

    @property
    def _sure(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        right = np.concatenate([self.right[self.named], np.zeros(len(self.astray), np.bool_)])
        return np.concatenate([self.margins[self.named], self.astray]), right


@dataclass(frozen=True, eq=False)
class Comparison:
    """Which features serve best: the `reader` by them, what it said of looks left out, and every kind's accuracy."""

    reader: Reader
    answers: Answers
    accuracies: dict[str, float]

    @property
    def unanswered(self) -> float:
        """The share of looks at outcomes that are left without an answer."""
        return float(1.0 - self.answers.answered.mean())


def compare(
    described: Described,
    kinds: Sequence[str],
    y: NDArray[np.int64],
    rows: NDArray[np.int64],
    ways: NDArray[np.int64],
    weight: float = WEIGHTS[0],
) -> Comparison:
    """Return the reader of words `y` (n,) by the best of `kinds`, learned from the looks `rows` (m,) of those described.

    Each look is read by a reader that has learned nothing filmed in its way: `ways` (n,) are the groups that are left out
    (but for the principal components, which know no word). Accuracy is the mean over words.
    """
    told, tried = dict[str, float](), dict[str, Answers]()
    outcome, between = y[rows] >= 0, y[rows] == BETWEEN
    for kind in kinds:
        margins, said = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
        for learn, test in GroupKFold(FOLDS).split(rows, groups=ways[rows]):
            model = described.learn(kind, rows[learn], y[rows[learn]], weight)
            said[test], margins[test] = _words(model, described.scores(kind, model, rows[test]))
        named, right = said >= 0, said == y[rows]
        told[kind] = float(np.mean([right[y[rows] == word].mean() for word in np.unique(y[rows]) if word != BETWEEN]))
        tried[kind] = Answers(named[outcome], right[outcome], margins[outcome], margins[between & named])
    serve = {kind: told[kind] for kind, answers in tried.items() if answers.serve}
    serve = serve or told  # whose answers are then none
    alike = [kind for kind, share in serve.items() if share >= max(serve.values()) - NEAR]
    best = min(alike, key=lambda kind: tried[kind].loss)
    return Comparison(Reader.of(best, described, y, rows, weight), tried[best], told)


def learn(
    looks: Sequence[Look], y: NDArray[np.int64], ways: NDArray[np.int64], generator: Generator
) -> tuple[Reader, Comparison]:
    """Return what tells looks at something (1) from looks at nothing (0), and the best reader of words.

    They are two, since a place tells words apart and nothing else: something wrong may lie anywhere. A scene with a single word
    is read against nothing. What lies between two words shows no less than they do: where it lies alone tells it.
    """
    described, clear = Described.of(looks, y), np.flatnonzero(y != BETWEEN)
    shows = compare(described, SHOWING, (y >= 0).astype(np.int64), clear, ways)
    rows = np.flatnonzero(y != NOTHING) if len(np.unique(y[y >= 0])) > 1 else clear
    best = compare(described, KINDS, y, rows, ways)
    # A network is as sure of dice that it reads wrong as of others: it is taken only where it reads far more.
    for kind, gain in ((SWAYED, 0.0), (TURNED, 0.0), (COLOURED, NEAR)):
        if max(best.accuracies.values()) >= GOOD:
            break
        if kind in READ_TURNS:
            described = described.and_turned(kind, looks, generator)
        other = compare(described, (kind,), y, rows, ways)
        accuracies = best.accuracies | other.accuracies
        better = other.answers.serve and accuracies[kind] > accuracies[best.reader.kind] + gain
        best = replace(other if better else best, accuracies=accuracies)
    return shows.reader, _weighed(best, described, y, rows, ways)


def _weighed(
    best: Comparison, described: Described, y: NDArray[np.int64], rows: NDArray[np.int64], ways: NDArray[np.int64]
) -> Comparison:
    """Return the comparison in which what lies between two words weighs what leaves the fewest looks unanswered."""
    others = WEIGHTS[1:] if BETWEEN in y and best.reader.kind != COLOURED else ()
    tried = [best, *(compare(described, (best.reader.kind,), y, rows, ways, weight) for weight in others)]
    return replace(min(tried, key=lambda one: (not one.answers.serve, one.unanswered)), accuracies=best.accuracies)


def separates(margins: FloatArray, right: NDArray[np.bool_]) -> bool:
    """Return whether right answers have the larger margins (n,): without that no probability follows from them."""
    return bool(right.any() and (right.all() or np.median(margins[right]) > np.median(margins[~right])))


def calibrate(margins: FloatArray, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and offset of the logistic curve from margin to the probability of being right.

    Where margins do not separate right from wrong the offset is minus infinity: no answer of such features may be believed.

    Platt's method with his smoothed targets (Platt 1999, "Probabilistic outputs for support vector machines"), so that a
    judge without an error among its examples is still not certain. Where two words score alike the answer is a toss: `TOSSES`
    examples at margin 0, right in half, say so where there are few errors or none to say it.
    """
    if not separates(margins, right):
        return 0.0, -np.inf
    good, bad = int(right.sum()), int((~right).sum())
    target = np.where(right, (good + 1) / (good + 2), 1 / (bad + 2))
    margins, target = np.append(margins, np.zeros(TOSSES)), np.append(target, np.full(TOSSES, 0.5))

    def likelihood(parameters: FloatArray) -> float:
        z = parameters[0] * margins + parameters[1]
        return float(np.sum(np.logaddexp(0.0, z) - target * z))

    found = minimize(likelihood, np.array([1.0, 0.0]), method="Nelder-Mead")
    return float(max(found.x[0], 0.0)), float(found.x[1])
