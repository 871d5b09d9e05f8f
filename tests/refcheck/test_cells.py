"""Leading cell axes: a call of many cells gives what as many calls of one cell give."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from refcheck import anytime, correction, coverage, equivalence, inference, intervals, ordered, references
from refcheck.cells import SETTINGS
from refcheck.tally import Tally

RNG = np.random.default_rng(0)
Q = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
X = RNG.multinomial(20, [0.4, 0.4, 0.2], size=(4, 2)) + RNG.integers(0, 3, (4, 2, 3))  # (4, 2, k) against q (2, k)
Y = RNG.multinomial(30, [0.3, 0.3, 0.4], size=(4, 2))
JUDGE = np.array([[40, 5, 2, 3], [4, 41, 3, 2], [1, 3, 45, 1]])


def judged(x, q, g):
    return correction.correct(np.concatenate([x, x[..., :1]], -1), JUDGE, q, g, draws=20)


NULL = inference.draw_null(24, Q[0], np.random.default_rng(1), 500)
OF_24 = RNG.multinomial(24, [0.4, 0.4, 0.2], size=(4, 2))
FUNCTIONS = {
    "exact_p_value": lambda x, q, g: inference.exact_p_value(x, q),
    "exact_p_value by tvd": lambda x, q, g: inference.exact_p_value(x, q, "tvd"),
    "exact_multinomial_p_value": lambda x, q, g: inference.exact_multinomial_p_value(x, q),
    "coverage_null": lambda x, q, g: coverage.coverage_null(x, q),
    "exact_equivalence": lambda x, q, g: equivalence.exact_equivalence(x, q, 0.2),
    "bootstrap_equivalence": lambda x, q, g: equivalence.bootstrap_equivalence(x, q, 0.2, g, 50),
    "distance_interval": lambda x, q, g: anytime.distance_interval(x, q),
    "tvd_interval": lambda x, q, g: intervals.tvd_interval(x, q, g, 50),
    "two_sample": lambda x, q, g: references.two_sample(x, x[..., ::-1], g, draws=50),
    "distance_range": lambda x, q, g: references.distance_range(x, q, q * 0.9, np.minimum(1, q * 1.1)),
    "correct": judged,
    "ordered_test": lambda x, q, g: ordered.ordered_test(x, q, g, positions=[0, 1, 3], draws=50),
}


def same(many, ones, index):
    """Compare one cell of `many` with a result of one cell, field by field."""
    if is_dataclass(many):
        for field in fields(many):
            part = getattr(many, field.name)
            single = field.name in SETTINGS or (
                field.name == "reached" and getattr(many, "method", "") == "exact"
            )  # nothing was drawn
            same(part, getattr(ones, field.name), None if single else index)
    else:
        assert np.array_equal(many if index is None else np.asarray(many)[index], ones, equal_nan=not isinstance(many, str))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_cells_are_as_many_calls(name):
    function = FUNCTIONS[name]
    many = function(X, Q, np.random.default_rng(3))
    one_by_one = np.random.default_rng(3)
    for i, j in np.ndindex(4, 2):
        one = function(X[i, j], Q[j], one_by_one)
        same(many, one, (i, j))
        assert np.ndim(getattr(one, "p", getattr(one, "value", 0))) == 0


def test_a_null_serves_every_cell_of_its_size():
    many = inference.monte_carlo_p_value(OF_24, Q[0], NULL)
    for at in np.ndindex(4, 2):
        same(many, inference.monte_carlo_p_value(OF_24[at], Q[0], NULL), at)
    with pytest.raises(ValueError, match=r"null was drawn for n = 24, the counts sum to 20, 21"):
        inference.monte_carlo_p_value([[20, 0, 0], [21, 0, 0]], Q[0], NULL)


def test_ten_thousand_cells():
    """What cells share is worked out once: 10,000 of them hold at most 10 sizes here."""
    rng = np.random.default_rng(4)
    x = np.array([rng.multinomial(n, Q[0]) for n in rng.integers(10, 20, 10_000)])
    found = {
        "exact": inference.exact_p_value(x, Q[0]).value,
        "multinomial": inference.exact_multinomial_p_value(x, Q[0]),
        "coverage": coverage.coverage_null(x, Q[0]).p,
        "equivalence": equivalence.exact_equivalence(x, Q[0], 0.3).p,
    }
    for at in (0, 4_321, 9_999):
        assert found["exact"][at] == inference.exact_p_value(x[at], Q[0]).value
        assert found["multinomial"][at] == inference.exact_multinomial_p_value(x[at], Q[0])
        assert found["coverage"][at] == coverage.coverage_null(x[at], Q[0]).p
        assert found["equivalence"][at] == equivalence.exact_equivalence(x[at], Q[0], 0.3).p
    # p-values of q itself are no smaller than uniform ones: P(p <= .05) <= .05, so 10,000 cells stay below .05 + 4 se,
    # sqrt(.05 .95 / 10,000) = .0022; false-alarm rate 3e-5 each.
    for name in ("exact", "multinomial", "coverage"):
        assert found[name].shape == (10_000,) and (found[name] <= 0.05).mean() <= 0.05 + 4 * 0.0022


def test_a_cell_that_is_refused_is_named():
    with pytest.raises(ValueError, match=r"cell 1: .*valid rollout"):
        references.two_sample([[1, 2], [0, 0]], [3, 4], RNG)
    with pytest.raises(correction.ConfusionError, match=r"cell \(1, 0\): no control shows outcome \[0\]"):
        correction.correct([5, 5, 0], [[[[9, 1, 0], [1, 9, 0]]], [[[0, 0, 0], [1, 9, 0]]]], [0.5, 0.5], RNG, draws=20)
    with pytest.raises(ValueError, match="at least one cell"):
        anytime.distance_interval(np.zeros((0, 2)), [0.5, 0.5])


def test_a_tally_is_one_cell():
    found = anytime.distance_interval(Tally(("a", "b"), (30, 20)), [0.5, 0.5])
    assert found == anytime.distance_interval([30, 20], [0.5, 0.5]) and isinstance(found.low, float)
    many = anytime.distance_interval(Tally(("a", "b"), (30, 20)), [[0.5, 0.5], [0.6, 0.4]])
    assert many.low.shape == (2,) and many.low[0] == found.low


def test_cells_without_a_rollout_have_no_p_value():
    found = inference.exact_p_value([[0, 0], [3, 1]], [0.5, 0.5]).value
    assert np.isnan(found[0]) and found[1] == pytest.approx(10 / 16)
