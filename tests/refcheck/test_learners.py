"""What the trained judge is made of: networks, readers of crops, and the curve from margin to probability."""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np
from numpy.random import Generator, Philox
from scipy.special import expit

from refcheck.judges import features, learners


def test_what_is_swayed_is_read_by_the_mean_of_both_ways_round():
    """Three marks, each a little elsewhere, are told from four whichever way round the picture is shown."""
    draws = np.random.default_rng(0)

    def drawn(marks: int) -> features.Look:
        image = np.full((40, 40, 3), 200, np.uint8)
        for k in range(marks):
            cv2.circle(image, (12 + 6 * k, 14 + 7 * (k % 2) + int(draws.integers(-1, 2))), 2, (20, 20, 120), -1)
        return features.Look(image, image[10:30, 10:30], draws.normal(size=2))

    y = np.tile([3, 4], 60)
    looks = [drawn(int(marks)) for marks in y]
    generator = Generator(Philox(key=np.array([0, 0], np.uint64)))
    described = learners.Described.of(looks, y).and_turned(learners.SWAYED, looks, generator)
    reader = learners.Reader.of(learners.SWAYED, described, y, np.arange(len(y)), 1.0)
    fresh = [drawn(int(marks)) for marks in y[:20]]
    mirrored = [dataclasses.replace(one, fine=np.ascontiguousarray(one.fine[:, ::-1])) for one in fresh]
    for several in (fresh, mirrored):
        words, _ = reader.decide(several)
        assert np.array_equal(words, y[:20])
    assert np.allclose(features.turned(fresh[0].fine, 0.0, mirrored=True), features.turned(mirrored[0].fine, 0.0))


def test_what_lies_between_two_words_has_none_of_them():
    """Dots left and right of a line are named, those near it are not, and all of them show something; a blank shows nothing.

    Of 40 fresh dots a reader that is right with .99 leaves 4 or more wrong with probability 1e-3.
    """
    draws = np.random.default_rng(0)

    def drawn(x: float) -> features.Look:
        image = draws.integers(190, 210, (40, 40, 3)).astype(np.uint8)
        if np.isfinite(x):
            cv2.circle(image, (20, 20), 6, (20, 20, 120), -1)
        return features.Look(image, image[10:30, 10:30], np.array([x if np.isfinite(x) else draws.uniform(0, 100), 50.0]))

    x = np.concatenate([draws.uniform(0, 45, 60), draws.uniform(55, 100, 60), draws.uniform(46, 54, 20), np.full(30, np.nan)])
    y = np.repeat([0, 1, learners.BETWEEN, learners.NOTHING], [60, 60, 20, 30])
    looks = [drawn(one) for one in x]
    shows, best = learners.learn(looks, y, np.arange(len(y)) % 3, Generator(Philox(3)))
    fresh = np.concatenate([draws.uniform(0, 40, 10), draws.uniform(60, 100, 10), draws.uniform(48, 52, 20)])
    words, _ = best.reader.decide([drawn(one) for one in fresh])
    assert np.sum(words != np.repeat([0, 1, learners.BETWEEN], [10, 10, 20])) <= 3
    assert np.all(shows.decide([drawn(one) for one in fresh])[0] == 1)
    assert shows.decide([drawn(np.nan)])[0][0] == 0
    named, right = best.answers.named, best.answers.right
    assert len(named) == 120 and right.sum() <= named.sum() and best.accuracies[best.reader.kind] > 0.9


def test_what_lies_between_two_words_and_was_named_makes_like_margins_doubtful():
    """Words with margins of .5 to 1.5, all right; what lies between is named with .5 to 1: half of those margins is wrong."""
    sure = np.ones(200, bool)
    alone = learners.Answers(sure, sure, np.linspace(0.5, 1.5, 200), np.zeros(0))
    among = dataclasses.replace(alone, astray=np.linspace(0.5, 1.0, 100))
    assert alone.answered.all() and alone.serve and among.serve
    assert not among.answered[:100].any() and among.answered[150:].all() and among.loss > alone.loss


def test_the_weight_of_what_lies_between_leaves_as_few_unanswered_as_any(monkeypatch):
    """Each weight is tried, and the one taken leaves no more unanswered than any of them."""
    draws = Generator(Philox(5))
    x = draws.uniform(0, 100, 300)
    y = np.where(np.abs(x - 50) < 4, learners.BETWEEN, (x > 50).astype(int))
    looks = []
    for one in x:
        image = draws.integers(190, 210, (40, 40, 3)).astype(np.uint8)
        looks.append(features.Look(image, image[10:30, 10:30], np.array([one, 50.0])))
    tried = {}
    compare = learners.compare

    def watched(described, kinds, y, rows, ways, weight=learners.WEIGHTS[0]):
        found = compare(described, kinds, y, rows, ways, weight)
        tried[weight] = found.unanswered
        return found

    monkeypatch.setattr(learners, "compare", watched)
    described, rows, ways = learners.Described.of(looks, y), np.arange(300), np.arange(300) % 3
    best = learners._weighed(watched(described, ("place",), y, rows, ways), described, y, rows, ways)
    assert set(tried) == set(learners.WEIGHTS) and best.unanswered == min(tried.values())


def test_a_network_tells_known_words_and_its_pairs_are_odds():
    """Three normal clouds 6 standard deviations apart, one of them 10 times as common: .95 of each right.

    The best rule is right with .997 at least: 3 or more of 50 wrong have probability 1e-3.
    """
    draws = Generator(Philox(4))
    y = np.repeat([2, 5, 7], [500, 50, 50])
    x = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[np.repeat([0, 1, 2], [500, 50, 50])] + draws.normal(size=(600, 2))
    net = learners.Net.fit(x, y)
    words, margins = learners._words(net, net.decision_function(x))
    assert min(np.mean(words[y == word] == word) for word in (2, 5, 7)) >= 0.95
    likely = np.sort(net.model.predict_proba(net.scale * x), axis=1)
    assert np.allclose(margins, np.log(likely[:, 2] / np.maximum(likely[:, 1], learners.UNLIKELY)), atol=1e-4)
    two = learners.Net.fit(x[y != 7], y[y != 7])
    assert two.decision_function(x).shape == (600,)


def test_calibration_recovers_a_known_curve():
    """Rightness drawn with probability expit(3 m - 1): slope and offset within four standard errors (false alarm 1e-4)."""
    draws = Generator(Philox(2))
    margins = draws.uniform(0.0, 2.0, 20_000)
    right = draws.uniform(size=margins.size) < expit(3.0 * margins - 1.0)
    slope, offset = learners.calibrate(margins, right)
    p = expit(3.0 * margins - 1.0)
    design = np.stack([margins, np.ones_like(margins)])
    error = np.sqrt(np.diag(np.linalg.inv((design * p * (1 - p)) @ design.T)))
    assert abs(slope - 3.0) < 4 * error[0] and abs(offset + 1.0) < 4 * error[1]


def test_no_error_among_the_examples_is_still_no_certainty():
    slope, offset = learners.calibrate(np.linspace(0.5, 1.0, 30), np.ones(30, bool))
    assert np.all(expit(slope * np.linspace(0.5, 1.0, 30) + offset) < 0.99)


def test_a_tie_between_two_words_is_no_answer_although_no_example_was_wrong():
    slope, offset = learners.calibrate(np.linspace(0.5, 1.0, 300), np.ones(300, bool))
    assert expit(offset) < 0.9 < expit(slope * 0.75 + offset)


def test_margins_that_do_not_separate_right_from_wrong_are_never_believed():
    """The wrong answers are as sure as the right ones, 4 in 100 of them: their share alone would be enough to answer."""
    margins = np.concatenate([np.linspace(0.5, 1.0, 96), np.full(4, 0.9)])
    slope, offset = learners.calibrate(margins, np.arange(100) < 96)
    assert np.all(expit(slope * margins + offset) < 0.9)
