"""Correction for the judge: closed forms, an optimiser as second opinion, coverage by simulation, and every refusal."""

import numpy as np
import pytest
from scipy.optimize import minimize

from refcheck import correction
from refcheck.correction import ConfusionError


def symmetric(k, error, null, controls):
    """Counts of a judge that errs evenly over the other labels and gives none with probability `null`."""
    shares = np.full((k, k), error / (k - 1))
    np.fill_diagonal(shares, 1 - error)
    return np.rint(controls * np.column_stack([(1 - null) * shares, np.full(k, null)])).astype(int)


@pytest.mark.parametrize("error", [0.0, 0.1, 0.3])
def test_a_symmetric_error_shrinks_the_distance_by_a_known_factor_and_is_undone(error):
    # Seen through an error e over k classes the TVD from uniform shrinks by exactly 1 - k e / (k - 1).
    k, truth = 5, np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    confusion = symmetric(k, error, 0, 100_000)
    labels = np.rint(100_000 * truth @ (confusion[:, :k] / 100_000)).astype(int)
    found = correction.correct(np.append(labels, 0), confusion, np.full(k, 1 / k), np.random.default_rng(0), draws=20)
    assert found.tvd == pytest.approx(0.3, abs=1e-4)
    assert found.raw == pytest.approx(0.3 * (1 - k * error / (k - 1)), abs=1e-4)
    assert found.shares == pytest.approx(truth, abs=1e-4)


def test_nulls_of_the_judge_are_told_from_those_of_the_clips():
    # Every tenth clip ends in nothing; of the rest the judge gives none to 5 % of heads and 20 % of tails.
    truth = np.array([0.54, 0.36, 0.1])
    confusion = np.array([[9_500, 0, 500], [0, 8_000, 2_000]])
    labels = np.rint(10_000 * truth @ np.array([[0.95, 0, 0.05], [0, 0.8, 0.2], [0, 0, 1]])).astype(int)
    found = correction.correct(labels, confusion, [0.6, 0.4], np.random.default_rng(1), draws=50)
    assert found.null == pytest.approx(0.1, abs=1e-4)
    assert found.tvd == pytest.approx(0, abs=1e-4)
    assert found.raw > 0.03
    assert "No control ended without" in found.assumption
    measured = correction.correct(labels, [*confusion, [0, 0, 500]], [0.6, 0.4], np.random.default_rng(1), draws=50)
    assert measured.assumption == correction.ASSUMPTION
    assert measured.null == pytest.approx(found.null, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_em_finds_what_an_optimiser_finds(seed):
    rng = np.random.default_rng(seed)
    k = 2 + seed % 4
    matrix = 0.7 * np.eye(k + 1) + 0.3 * rng.dirichlet(np.ones(k + 1), size=k + 1)
    labels = rng.multinomial(60, rng.dirichlet(np.full(k + 1, 0.5)))

    def cost(z):
        p = np.exp(z - z.max())
        return -(labels * np.log((p / p.sum()) @ matrix)).sum()

    found = correction.maximum_likelihood(labels, matrix)
    best = min(minimize(cost, rng.normal(size=k + 1), method="BFGS").fun for _ in range(3))
    assert -(labels * np.log(found @ matrix)).sum() <= best + 1e-4
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)


def test_many_at_once_are_each_by_itself():
    rng = np.random.default_rng(9)
    matrices = 0.8 * np.eye(4) + 0.2 * rng.dirichlet(np.ones(4), size=(5, 4))
    labels = rng.multinomial(50, [0.4, 0.3, 0.2, 0.1], size=5)
    together = correction.maximum_likelihood(labels, matrices)
    for i in range(5):
        assert together[i] == pytest.approx(correction.maximum_likelihood(labels[i], matrices[i]), abs=1e-7)


def test_floor_and_bias_exceed_those_of_a_perfect_judge():
    q = np.full(6, 1 / 6)
    labels = [10, 8, 9, 7, 8, 8, 0]
    perfect = correction.correct(labels, symmetric(6, 0, 0, 50), q, np.random.default_rng(2), draws=2_000)
    poor = correction.correct(labels, symmetric(6, 0.2, 0.1, 50), q, np.random.default_rng(2), draws=2_000)
    # n = 50, die: .127 exactly; 2,000 draws of spread .035: 4 standard errors .0032
    assert perfect.floor == pytest.approx(0.127, abs=0.004)
    assert poor.floor > perfect.floor + 0.02
    assert poor.bias > 0
    assert perfect.tvd == pytest.approx(perfect.raw, abs=1e-6)


def test_interval_carries_both_samples():
    # 150 runs, 80 clips, 40 controls an outcome; of the true distance. .95 would leave .9 or less to a chance of about .7 %;
    # the interval is cautious by construction. An interval that knew only the clips' noise is narrower. Fixed seed.
    rng = np.random.default_rng(3)
    truth, q = np.array([0.5, 0.3, 0.2]), np.full(3, 1 / 3)
    judge = symmetric(3, 0.15, 0.05, 1_000) / 1_000
    covered, widths = 0, []
    for _ in range(150):
        labels = rng.multinomial(80, truth @ judge)
        confusion = np.array([rng.multinomial(40, row) for row in judge])
        interval = correction.correct(labels, confusion, q, rng, draws=200).interval
        covered += interval.low <= 1 / 6 <= interval.high
        widths.append(interval.high - interval.low)
    sure = correction.correct(rng.multinomial(80, truth @ judge), judge * 10**6 // 1, q, rng, draws=200).interval
    assert covered / 150 > 0.9
    assert np.mean(widths) > sure.high - sure.low


@pytest.mark.parametrize(
    ("confusion", "match"),
    [
        ([[10, 0, 0], [0, 0, 0]], "no control shows outcome"),
        ([[10, 10, 0], [10, 10, 0]], "too poor to invert"),
        ([[6, 4, 0], [5, 5, 0]], "too poor to invert"),
        ([[10, 0, 0], [0, 0, 10]], "too poor to invert"),
        ([[9, 1, 0], [1, 9, 0], [5, 5, 0]], "too poor to invert"),  # no control was ever given none
    ],
)
def test_a_matrix_that_is_too_poor_is_refused(confusion, match):
    with pytest.raises(ConfusionError, match=match):
        correction.correct([5, 5, 0], confusion, [0.5, 0.5], np.random.default_rng(4))


def test_other_refusals():
    rng = np.random.default_rng(5)
    with pytest.raises(ConfusionError, match="without an outcome alone"):
        correction.correct([0, 0, 9], [[10, 0, 0], [0, 10, 0]], [0.5, 0.5], rng)
    with pytest.raises(ValueError, match="coupled"):
        correction.correct([5, 5, 0], [[9, 1, 0], [1, 9, 0]], [0.5, 0.5], rng, sampling="coupled")
    with pytest.raises(ValueError, match="must be"):
        correction.correct([5, 5, 0], [[9, 1], [1, 9], [0, 1]], [0.5, 0.5], rng)
    with pytest.raises(ValueError, match="columns"):
        correction.correct([5, 5], [[9, 1, 0], [1, 9, 0]], [0.5, 0.5], rng)
