"""A judge of one scene, trained on the scene's own rollouts: it reads the last picture of a clip, or abstains.

It refuses to know the reference: every outcome it learns weighs the same. It sees pixels and the public source image alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from refcheck.clips import FPS, canvas_of, search, source_of
from refcheck.command import UserError
from refcheck.judges import features
from refcheck.judges.features import Look, Stage
from refcheck.tally import Reading
from scenes.scene import Scene
from simulators.device import Rollouts, State
from simulators.execute import Pool, spread
from simulators.render.canvas import Image
from simulators.video import read_clip, write_clip

TRAINING = "/training"
"""Added to a scene's stream: no seed lets a clip that is judged be one that was trained on."""
THRESHOLD = 0.9  # of the calibrated probability that the answer is right; below it the judge abstains. Fixed, for every scene
LEAST = 4  # examples that an outcome needs to be learned
FOLDS = 3
COMPONENTS = 120
LEARN_TURNS = tuple(30.0 * k for k in range(12))  # degrees: a thing that lies on a table may lie any way round
READ_TURNS = tuple(45.0 * k for k in range(8))
JITTER = (0.07, 2.0)  # share in scale, and pixels of a crop's 56: nothing is ever cut out quite in the same place
STAGE = 48  # pictures that the empty stage is learned from
A_TASK = 24  # training pictures drawn by a worker at a time
REPEAT = 2  # frames a training picture is encoded for; the last is learned from, as it is from a clip's held end

Advance = Callable[[int], Any]


@dataclass(frozen=True)
class Training:
    """How a judge came to be: examples by outcome, outcomes not learned, and cross-validated figures over the examples.

    `accuracy` is the share right among all, `answered_accuracy` among those answered, `abstained` the share of the rest;
    `candidates` the accuracy of each kind of features, the better of which is `features`. `seconds` by stage.
    """

    examples: dict[str, int]
    unlearned: tuple[str, ...]
    features: str
    candidates: dict[str, float]
    accuracy: float
    answered_accuracy: float
    abstained: float
    seconds: dict[str, float]


@dataclass(frozen=True, eq=False)
class TrainedJudge:
    """Reads a clip by its last picture, registered to the source image and compared with the empty stage.

    `slope` and `offset` turn the margin between the best outcome and the next into the probability of being right.
    `inside` bounds the difference where something lies, `outside` the difference everywhere else: a picture beyond them is
    unlike anything learned, and unreadable.
    """

    outcomes: tuple[str, ...]
    source: Image
    stage: Stage
    features: str
    model: Pipeline
    slope: float
    offset: float
    inside: tuple[float, float]
    outside: float
    training: Training
    threshold: float = THRESHOLD

    name: ClassVar[str] = "trained"
    version: ClassVar[int] = 1

    @classmethod
    def train(
        cls,
        scene: Scene,
        seed: int,
        per_outcome: int = 60,
        *,
        limit: int = 4000,
        pool: Pool | None = None,
        advance: Advance = lambda count: None,
    ) -> TrainedJudge:
        """Learn a scene from `per_outcome` rollouts of each outcome, out of at most `limit`, on a stream of its own.

        An outcome of which fewer than four turn up is not learned, and `training.unlearned` says so. `advance(count)` hears
        of every example found. Raises `UserError` where fewer than two outcomes can be learned.
        """
        needed = [per_outcome] * len(scene.outcomes)
        begun = time.monotonic()
        examples = search(scene, seed, needed, limit=limit, stream=scene.stream + TRAINING, pool=pool, advance=advance)
        found = time.monotonic()
        labels = scene.outcome(examples.fact).astype(np.int64)
        source = source_of(scene)
        stage, looks = _looks(scene, examples, source, pool)
        seen = time.monotonic()
        generator = Generator(Philox(key=np.array([seed, 0], np.uint64)))
        judge = cls.fit(scene.outcomes, labels, looks, source, stage, generator)
        seconds = {"rollouts": found - begun, "pictures": seen - found, "fit": time.monotonic() - seen}
        return replace(judge, training=replace(judge.training, seconds=seconds))

    @classmethod
    def fit(
        cls,
        outcomes: tuple[str, ...],
        labels: NDArray[np.int64],
        looks: Sequence[Look],
        source: Image,
        stage: Stage,
        generator: Generator,
    ) -> TrainedJudge:
        """Fit both kinds of features to `looks` labelled by positions in `outcomes`, and keep the better.

        `generator` moves and scales the crops that are learned from.
        Raises `UserError` where fewer than two outcomes have four examples.
        """
        counts = np.bincount(labels, minlength=len(outcomes))
        learned = [k for k in range(len(outcomes)) if counts[k] >= LEAST]
        if len(learned) < 2:
            told = ", ".join(f"{label}: {count}" for label, count in zip(outcomes, counts, strict=True))
            raise UserError(f"a judge needs {LEAST} examples of at least two outcomes, and found {told}: give more with limit=")
        rows = np.flatnonzero(np.isin(labels, learned)).tolist()
        y, kept = labels[rows], [looks[i] for i in rows]
        with threadpool_limits(1):  # the same bits on any machine, and no waiting for a busy core
            fitted = {kind: _validate(kind, kept, y, generator) for kind in KINDS}
            best = max(fitted, key=lambda kind: fitted[kind][0])
            model = _fit(best, kept, y, generator)
        accuracy, margins, right = fitted[best]
        slope, offset = _calibrate(margins, right)
        answered = expit(slope * margins + offset) >= THRESHOLD
        training = Training(
            examples={label: int(count) for label, count in zip(outcomes, counts, strict=True)},
            unlearned=tuple(label for k, label in enumerate(outcomes) if k not in learned),
            features=best,
            candidates={kind: figures[0] for kind, figures in fitted.items()},
            accuracy=accuracy,
            answered_accuracy=float(right[answered].mean()) if answered.any() else float("nan"),
            abstained=float(1 - answered.mean()),
            seconds={},
        )
        inside = np.array([look.inside for look in kept])
        outside = max(look.outside for look in kept)
        return cls(
            outcomes, source, stage, best, model, slope, offset,
            (float(inside.min()) / 2, float(inside.max()) * 2), 3 * outside + 1.0, training,
        )  # fmt: skip

    def read(self, path: Path) -> Reading:
        """Return what a clip shows at its end. Raises `ClipError` where the file is no readable clip: that is no answer."""
        begun = time.monotonic()
        seen = features.look(features.register(features.last_picture(path), self.source), self.stage)
        if not self.inside[0] <= seen.inside <= self.inside[1] or seen.outside > self.outside:
            return Reading(None, "unreadable", latency=time.monotonic() - begun)
        answers, margins = _decide(self.features, self.model, [seen])
        confidence = float(expit(self.slope * margins[0] + self.offset))
        taken = time.monotonic() - begun
        if confidence < self.threshold:
            return Reading(None, "unreadable", confidence, latency=taken)
        return Reading(self.outcomes[int(answers[0])], confidence=confidence, latency=taken)


# --- pictures of the training rollouts, through the codec ---


@dataclass(frozen=True)
class _Draw:
    scene: Scene
    end: State
    path: Path


def _draw(task: _Draw) -> None:
    """Draw the final states of some rollouts, as one clip."""
    canvas = canvas_of(task.scene)
    write_clip(task.path, (f for row in range(len(task.end)) for f in [canvas.frame(task.end, row)] * REPEAT), FPS)


@dataclass(frozen=True)
class _See:
    path: Path
    source: Image
    stage: Stage


def _pictures(path: Path) -> list[Image]:
    return [frame for number, frame in enumerate(read_clip(path)) if number % REPEAT == REPEAT - 1]


def _see(task: _See) -> list[Look]:
    return [features.look(features.register(picture, task.source), task.stage) for picture in _pictures(task.path)]


def _looks(scene: Scene, examples: Rollouts, source: Image, pool: Pool | None) -> tuple[Stage, list[Look]]:
    """Return the empty stage, and the look of each example as it comes out of the codec."""
    with tempfile.TemporaryDirectory(prefix="quincunx-") as name:
        slices = [slice(at, at + A_TASK) for at in range(0, len(examples), A_TASK)]
        paths = [Path(name) / f"{number}.mp4" for number in range(len(slices))]
        ends = [examples.end[rows] for rows in slices]
        spread(pool, _draw, [_Draw(scene, end, path) for end, path in zip(ends, paths, strict=True)])
        some: list[Image] = []
        for path in paths:
            if len(some) >= STAGE:
                break
            some += _pictures(path)
        stage = Stage.of(np.stack(some[:STAGE]))
        seen = spread(pool, _see, [_See(path, source, stage) for path in paths])
    return stage, [look for part in seen for look in part]


# --- learning ---

KINDS = ("appearance", "place")


def _learn_from(kind: str, looks: Sequence[Look], generator: Generator) -> tuple[NDArray[np.float64], int]:
    """Return features (r n, d) of every example, and r: appearance is learned turned, scaled and shifted a little."""
    if kind == "place":
        return np.stack([features.place(look.grid) for look in looks]), 1
    scale, shift = JITTER
    rows = [
        features.appearance(
            features.turned(
                look.crop,
                turn,
                generator.uniform(1 - scale, 1 + scale),
                (generator.uniform(-shift, shift), generator.uniform(-shift, shift)),
            )
        )
        for turn in LEARN_TURNS
        for look in looks
    ]
    return np.stack(rows), len(LEARN_TURNS)


def _fit(kind: str, looks: Sequence[Look], y: NDArray[np.int64], generator: Generator) -> Pipeline:
    x, repeats = _learn_from(kind, looks, generator)
    solver = "covariance_eigh" if len(x) > x.shape[1] else "full"
    reduce = PCA(min(COMPONENTS, len(looks) - 1, x.shape[1]), svd_solver=solver)
    last = LogisticRegression(C=100.0, max_iter=2000) if kind == "place" else SVC(C=10.0, class_weight="balanced")
    return make_pipeline(reduce, last).fit(x, np.tile(y, repeats))


def _decide(kind: str, model: Pipeline, looks: Sequence[Look]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the best class of each look (n,) and its margin over the next best (n,).

    Appearance is decided eight times, the crop turned, and the scores averaged: fewer errors than one decision makes.
    """
    if kind == "place":
        scores = model.decision_function(np.stack([features.place(look.grid) for look in looks]))
    else:
        turned = [np.stack([features.appearance(features.turned(look.crop, turn)) for look in looks]) for turn in READ_TURNS]
        scores = np.mean([model.decision_function(x) for x in turned], axis=0)
    if scores.ndim == 1:
        return model.classes_[(scores > 0).astype(int)], np.abs(scores)
    ordered = np.sort(scores, axis=1)
    return model.classes_[np.argmax(scores, axis=1)], ordered[:, -1] - ordered[:, -2]


def _validate(
    kind: str, looks: Sequence[Look], y: NDArray[np.int64], generator: Generator
) -> tuple[float, NDArray[np.float64], NDArray[np.bool_]]:
    """Return cross-validated accuracy, and margin and rightness (n,) of every example when it was not learned from."""
    margins, right = np.zeros(len(y)), np.zeros(len(y), bool)
    for learn, test in StratifiedKFold(FOLDS).split(y, y):
        model = _fit(kind, [looks[i] for i in learn], y[learn], generator)
        answers, margins[test] = _decide(kind, model, [looks[i] for i in test])
        right[test] = answers == y[test]
    return float(right.mean()), margins, right


def _calibrate(margins: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and offset of the logistic curve from margin to the probability of being right.

    Platt's method with his smoothed targets (Platt 1999, "Probabilistic outputs for support vector machines"), so that a
    judge without an error among its examples is still not certain.
    """
    good, bad = int(right.sum()), int((~right).sum())
    target = np.where(right, (good + 1) / (good + 2), 1 / (bad + 2))

    def loss(parameters: NDArray[np.float64]) -> float:
        z = parameters[0] * margins + parameters[1]
        return float(np.sum(np.logaddexp(0.0, z) - target * z))

    found = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead")
    return float(max(found.x[0], 0.0)), float(found.x[1])
