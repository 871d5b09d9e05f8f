"""A judge of one scene, trained on the scene's own rollouts: it reads the end of a clip against its opening, or abstains.

It refuses to know the reference: every outcome it learns weighs the same. It sees pixels and the public source image alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import cv2
import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import expit
from threadpoolctl import threadpool_limits

from refcheck.clips import source_of
from refcheck.command import UserError
from refcheck.judges import examples, features, focus
from refcheck.judges.detector import BESIDE, Detector
from refcheck.judges.examples import TRAINING, Advance, Example, Examples
from refcheck.judges.features import FloatArray, Look, Sight
from refcheck.judges.learners import BETWEEN, NOTHING, THRESHOLD, Reader, learn
from refcheck.tally import Reading
from scenes.scene import Scene
from simulators.execute import Pool
from simulators.render.canvas import Image, nominal_state

__all__ = ["TRAINING", "TrainedJudge", "Training"]
UNSURE, MORE = 0.015, 3
LEAST = 4  # examples that an outcome needs to be learned
FURTHER = 1.25  # times: a thing is found so much less exactly in looks that were not learned from
SPOILT = 60  # pictures, about, that are spoilt for what nothing can be read from to be learned
STIRRING = 20.0  # levels of 255, of sixteen pixels together: what still changes so much at a clip's end has not come to rest
UNLIKE = 0.6  # of the least likeness of a training clip's opening to the source image
SCORE = 0.2  # least probability that a cell shows what decides
SMALLER = 8  # times, before a picture is blurred, for speed
BEYOND = 3.0  # times the change of what never moves
BEGUN = 0.3  # of the least change of a training clip's end: where less changed, nothing was done


@dataclass(frozen=True)
class Training:
    """How a judge came to be: examples by outcome, outcomes not learned, and figures over examples in looks not learned from.

    `accuracy` is the share right among all, `answered_accuracy` among those answered, `abstained` the share of the rest;
    `candidates` the accuracy of each kind of features, the best of which is `features`. `seconds` by stage.
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
    """Reads a clip by its end, brought to the source image's place and colours through the clip's own opening.

    `detector` finds what decides, `shows` says whether it is there, `reader` names what it shows, in the words of `answers`: an
    outcome for each combination. `slope` and `offset` turn the margin between the best answer and the next into the probability
    of being right. A clip is unreadable where its opening is less than `alike` like the source image, where less than `begun`
    changed in the picture or more than `outside` in the `still` part of it, where nothing like what decides is found, where
    that lies on a line between two outcomes, and where it `rests` in no end.
    """

    outcomes: tuple[str, ...]
    source: Image
    detector: Detector
    shows: Reader
    reader: Reader
    answers: dict[tuple[int, ...], int]
    slope: float
    offset: float
    alike: float
    still: NDArray[np.bool_]
    outside: float
    begun: float
    rests: bool
    training: Training
    threshold: float = THRESHOLD

    name: ClassVar[str] = "trained"
    version: ClassVar[int] = 6

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
        """Learn a scene from at most `per_outcome` rollouts of each outcome, out of at most `limit`, on a stream of its own.

        Of many outcomes fewer each are learned from, see `examples.MOST`. A judge that these leave without an answer to more
        than `UNSURE` of its own examples, in looks left out, learns anew from `MORE` times as many, of which those that come on
        top are close calls. An outcome of which fewer than four pictures can be had is not learned, and `training.unlearned`
        says so. `advance(count)` hears of every example found. Raises `UserError` where no outcome can be learned.
        """
        judge = cls._learned(scene, seed, per_outcome, examples.MOST, limit, pool, advance)
        if judge.training.abstained > UNSURE:
            judge = cls._learned(scene, seed, MORE * per_outcome, MORE * examples.MOST, limit, pool, advance, 1 - 1 / MORE)
        return judge

    @classmethod
    def _learned(
        cls,
        scene: Scene,
        seed: int,
        per_outcome: int,
        most: int,
        limit: int,
        pool: Pool | None,
        advance: Advance,
        close: float = 0.0,
    ) -> TrainedJudge:
        begun = time.monotonic()
        states = examples.collect(scene, seed, per_outcome, limit, pool, advance, most, close)
        found = time.monotonic()
        source = source_of(scene)
        counts = np.bincount(states.labels[states.labels >= 0], minlength=len(scene.outcomes))
        if counts.max() < LEAST:
            told = ", ".join(f"{label}: {count}" for label, count in zip(scene.outcomes, counts, strict=True))
            raise UserError(f"a judge needs {LEAST} examples of an outcome, and found {told}: give more with limit=")
        drawn = examples.draw(scene, states, source, seed, pool)
        seen = time.monotonic()
        judge = cls.fit(scene, drawn, source, Generator(Philox(key=np.array([seed, 0], np.uint64))))
        seconds = {"rollouts": found - begun, "pictures": seen - found, "fit": time.monotonic() - seen}
        return replace(judge, training=replace(judge.training, seconds=seconds))

    @classmethod
    def fit(cls, scene: Scene, drawn: Examples, source: Image, generator: Generator) -> TrainedJudge:
        """Fit to drawn examples, whose labels are what it learns; `generator` chooses cells and damage to learn from."""
        labels = np.array([one.label for one in drawn.items])
        counts = np.bincount(labels[labels >= 0], minlength=len(scene.outcomes))
        learned = {k for k in range(len(scene.outcomes)) if counts[k] >= LEAST} | {NOTHING}
        learned |= {BETWEEN} if np.sum(labels == BETWEEN) >= LEAST else set()
        kept = [one for one in drawn.items if one.label in learned]
        words, answers = vocabulary(scene)
        with threadpool_limits(1):  # the same bits on any machine, and no waiting for a busy core
            shown = [one.sight for one in kept if one.sight is not None and one.label >= 0]
            opened = int(scene.device.read(focus.stilled(nominal_state(scene.device.world())))[0]) >= 0
            some = shown[:: max(1, len(shown) // SPOILT)]
            spoilt = [damaged(sight, drawn.region, generator, undone=not opened) for sight in some]
            empty = [one.sight for one in kept if one.sight is not None and one.label == NOTHING]
            detector = Detector.best(kept, [*empty, *spoilt], drawn.region, drawn.size, drawn.count, generator)
            looks, y, ways = learnable(kept, words, detector, generator)
            for place, sight in enumerate([*empty, *spoilt]):
                places, _ = detector.find(sight)
                looks += [features.look(sight, at, drawn.size) for at in places]
                y += [NOTHING] * len(places)
                ways += [place % examples.LOOKS] * len(places)
            shows, best = learn(looks, np.array(y), np.array(ways), generator)
        right, (slope, offset) = best.answers.right, best.answers.curve
        answered = best.answers.answered
        training = Training(
            examples={label: int(count) for label, count in zip(scene.outcomes, counts, strict=True)},
            unlearned=tuple(label for k, label in enumerate(scene.outcomes) if k not in learned),
            features=best.reader.kind,
            candidates=best.accuracies,
            accuracy=float(right.mean()),
            answered_accuracy=float(right[answered].mean()) if answered.any() else float("nan"),
            abstained=best.unanswered,
            seconds={},
        )
        still, outside = _still([one.sight for one in kept if one.sight is not None])
        begun = BEGUN * min(float(features.coarse_change(sight.change).mean()) for sight in shown)
        return cls(
            scene.outcomes, source, detector, shows, best.reader, answers, slope, offset,
            UNLIKE * min(one.alike for one in shown), still, outside, begun, scene.device.readout in ("rest", "last"), training,
        )  # fmt: skip

    def read(self, path: Path) -> Reading:
        """Return what a clip shows at its end. Raises `ClipError` where the file is no readable clip: that is no answer."""
        begun = time.monotonic()
        outcome, confidence = self.decide(features.ends(path))
        taken = time.monotonic() - begun
        if outcome is None:
            return Reading(None, "unreadable", confidence, latency=taken)
        return Reading(outcome, confidence=confidence, latency=taken)

    def decide(self, seen: features.Ends) -> tuple[str | None, float]:
        """Return the outcome, None where there is no reading, and the probability of its being right, NaN where not asked."""
        if self.rests and seen.stirring > STIRRING:
            return None, float("nan")
        sight = features.Frame(seen.opening, self.source, self.detector.grid.region).sight(seen.closing)
        change = features.coarse_change(sight.change)
        if sight.alike < self.alike or change.mean() < self.begun or float(change[self.still].mean()) > self.outside:
            return None, float("nan")
        places, scores = self.detector.find(sight)
        if scores.min() < SCORE:
            return None, float("nan")
        with threadpool_limits(1):
            looks = [features.look(sight, at, self.detector.size) for at in places]
            if (self.shows.decide(looks)[0] < 1).any():
                return None, float("nan")
            words, margins = self.reader.decide(looks)
        confidence = float(expit(self.slope * margins.min() + self.offset))
        if (words < 0).any() or confidence < self.threshold:
            return None, confidence
        return self.outcomes[self.answers[tuple(words.tolist())]], confidence


def vocabulary(scene: Scene) -> tuple[NDArray[np.int64], dict[tuple[int, ...], int]]:
    """Return the words (f, c) that the looks of each fact's bodies are learned as, and the outcome of each list of words.

    One body: the word is the outcome. Several: what each of them shows (`2` and `5`).
    """
    parts = focus.parts_of(scene)
    if parts is None:
        return np.array(scene.outcome_of_fact)[:, None], {(k,): k for k in range(len(scene.outcomes))}
    every = sorted({word for several in parts for word in several})
    words = np.array([[every.index(word) for word in several] for several in parts])
    return words, {tuple(row.tolist()): scene.outcome_of_fact[fact] for fact, row in enumerate(words)}


def learnable(
    items: Sequence[Example], words: NDArray[np.int64], detector: Detector, generator: Generator
) -> tuple[list[Look], list[int], list[int]]:
    """Return every look at what decides, its word, and the way of filming it was seen in.

    Where a whole picture is there, as `detector` finds it, and once more as far off as it finds things: it may find them always
    a little to one side, as to their shadows'. Elsewhere as it was cut out.
    """
    looks, y, ways = list[Look](), list[int](), list[int]()
    found, errors = list[tuple[Example, FloatArray, list[int]]](), list[FloatArray]()
    for one in items:
        told = words[one.fact].tolist() if words.shape[1] > 1 else [one.label]
        for several in one.looks:
            looks += several
            y += told
            ways += [one.way] * len(several)
        if one.sight is None or one.places is None:
            continue
        places, _ = detector.find(one.sight)
        gaps = np.linalg.norm(one.places[:, None] - places[None], axis=-1)
        known, which = linear_sum_assignment(gaps)
        near = gaps[known, which] < BESIDE * detector.size
        found.append((one, np.where(near[:, None], places[which], np.nan), told))
        errors += list(places[which][near] - one.places[known][near])
    off = np.array(errors or [np.zeros(2)])
    for one, places, told in found:
        moved = generator.normal(off.mean(axis=0), FURTHER * off.std(axis=0), places.shape)
        for place, word in zip([*places, *(np.asarray(one.places) + moved)], [*told, *told], strict=True):
            if one.sight is not None and not np.isnan(place).any():
                looks.append(features.look(one.sight, place, detector.size))
                y.append(word)
                ways.append(one.way)
    return looks, y, ways


def damaged(sight: Sight, region: tuple[int, int, int, int], generator: Generator, *, undone: bool) -> Sight:
    """Return a sight in which nothing can be read: blurred, too coarse, hidden behind a board, or, `undone`, as it began.

    An opening that shows an outcome where it is looked at, as a wheel before its spin, is told by nothing having changed.
    """
    high, size, pair = sight.picture.shape[0], sight.picture.shape[1::-1], (sight.picture, sight.opening)
    kind = int(generator.integers(3 + undone))
    if kind == 0:
        spread = float(generator.uniform(0.05, 0.12)) * high / SMALLER
        small = [cv2.resize(image, None, fx=1 / SMALLER, fy=1 / SMALLER, interpolation=cv2.INTER_AREA) for image in pair]
        soft = [cv2.resize(cv2.GaussianBlur(image, (0, 0), spread), size, interpolation=cv2.INTER_CUBIC) for image in small]
        return replace(sight, picture=np.asarray(soft[0], np.uint8), opening=np.asarray(soft[1], np.uint8))
    if kind == 1:
        across = int(generator.integers(10, 24))
        coarse = [cv2.resize(image, (across, across), interpolation=cv2.INTER_AREA) for image in pair]
        big = [np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_CUBIC), np.uint8) for image in coarse]
        return replace(sight, picture=big[0], opening=big[1])
    if kind == 2:
        hidden = sight.picture.copy()
        x0, y0, x1, y1 = region
        hidden[y0:y1, x0:x1] = generator.integers(40, 200, 3)
        return replace(sight, picture=hidden)
    return replace(sight, picture=sight.opening)


def _still(sights: Sequence[Sight]) -> tuple[NDArray[np.bool_], float]:
    """Return where (h, w) nothing ever changes, and the most that the codec and the light change there, with room."""
    changes = np.stack([features.coarse_change(sight.change) for sight in sights])
    touched = np.asarray((changes > 0).any(axis=0), np.uint8)
    still = ~np.asarray(cv2.dilate(touched, np.ones((7, 7), np.uint8)), bool)
    if not still.any():
        still[:1] = True
    return still, BEYOND * float(changes[:, still].mean(axis=1).max()) + 1.0
