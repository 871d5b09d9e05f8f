"""The metric core against CaliBench's figures, exact enumeration, published finite-sample values, and its invariances."""

import json
from fractions import Fraction
from itertools import product
from math import comb, factorial, isnan, prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcheck import metrics
from refcheck.calibench import SCENES

EXPECTED = json.loads((Path(__file__).parent / "data" / "calibench_expected.json").read_text())
CELLS = [(scene, model) for scene, models in EXPECTED["cells"].items() for model in models]


def near(value, expected):
    return isnan(value) if expected is None else value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("scene", "model"), CELLS)
def test_every_published_cell(scene, model):
    expected = EXPECTED["cells"][scene][model]
    cell = metrics.cell(expected["counts"], expected["N"] - expected["n_valid"], SCENES[scene].array())
    assert (cell.total, cell.valid, list(cell.counts)) == (expected["N"], expected["n_valid"], expected["counts"])
    assert near(cell.rho, expected["rho"])
    assert near(cell.tvd, expected["tv"])
    assert near(cell.e0, expected["e0"])
    assert near(cell.excess, expected["excess"])
    assert near(cell.score, expected["score"])
    assert cell.testable == (expected["chi2"] is not None)
    assert isnan(cell.chi_square) if expected["chi2"] is None else cell.chi_square == pytest.approx(expected["chi2"], rel=1e-12)


@pytest.mark.parametrize("model", ["wan", "seedance", "happyhorse"])
def test_published_mntv(model):
    assert metrics.mntv([EXPECTED["cells"][scene][model]["score"] for scene in SCENES]) == pytest.approx(
        EXPECTED["mntv"][model], abs=1e-12
    )


def binomial(rows):
    return [comb(rows, i) / 2**rows for i in range(rows + 1)]


@pytest.mark.parametrize(
    ("n", "q", "mean"),
    [
        (50, [1 / 2] * 2, 0.056),
        (50, [1 / 6] * 6, 0.127),
        (200, [1 / 6] * 6, 0.063),
        (100, binomial(12), 0.108),
        (1000, [1 / 37] * 37, 0.076),
    ],
)
def test_floor_agrees_with_tabulated_values(n, q, mean):
    assert metrics.expected_tvd(n, q) == pytest.approx(mean, abs=6e-4)  # the table has three decimals


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("q", ["1/2 1/2", "18/37 18/37 1/37", "1/2 1/2 0", "1 0", "1/8 3/8 1/4 1/4"])
def test_floor_is_the_exact_mean_over_all_sequences_tallies(n, q):
    shares = [Fraction(word) for word in q.split()]
    mean = Fraction(0)
    for tally in product(range(n + 1), repeat=len(shares)):
        if sum(tally) == n:
            ways = factorial(n) // prod(factorial(x) for x in tally)
            weight = ways * prod(share**x for share, x in zip(shares, tally, strict=True))
            mean += weight * sum(abs(Fraction(x, n) - share) for x, share in zip(tally, shares, strict=True)) / 2
    assert metrics.expected_tvd(n, [float(share) for share in shares]) == pytest.approx(float(mean), abs=1e-14)


def test_floor_where_n_q_is_whole_and_at_the_ends():
    # floor(49 q) may fall one short of 1 in floating point; De Moivre's form is the same either way.
    q = 1 / 49
    assert metrics.expected_tvd(49, [q, 1 - q]) == pytest.approx(2 * q * (1 - q) * 48 * q * (1 - q) ** 47, rel=1e-12)
    assert metrics.expected_tvd(1, [q, 1 - q]) == pytest.approx(2 * q * (1 - q), rel=1e-12)
    assert metrics.expected_tvd(7, [0.0, 1.0]) == 0
    assert isnan(metrics.expected_tvd(0, [0.5, 0.5]))


def test_floor_agrees_with_simulation():
    # Seed fixed; 4 standard errors: false alarm 6e-5.
    q = np.array([18, 18, 1]) / 37
    drawn = metrics.tvd(np.random.default_rng(7).multinomial(32, q, size=40_000), q)
    assert abs(drawn.mean() - metrics.expected_tvd(32, q)) < 4 * drawn.std() / 200


@st.composite
def cells(draw, rows=1):
    k = draw(st.integers(2, 7))
    weights = draw(st.lists(st.integers(0, 9), min_size=k, max_size=k).filter(any))
    counts = draw(st.lists(st.integers(0, 40), min_size=k, max_size=k).filter(any))
    return np.array(counts), np.array(weights) / sum(weights)


@given(cells(), st.randoms(use_true_random=False))
def test_renaming_the_labels_changes_nothing(case, random):
    counts, q = case
    order = list(range(len(q)))
    random.shuffle(order)
    n = counts.sum()
    assert metrics.tvd(counts[order], q[order]) == pytest.approx(metrics.tvd(counts, q), abs=1e-12)
    assert metrics.expected_tvd(n, q[order]) == pytest.approx(metrics.expected_tvd(n, q), abs=1e-12)
    assert metrics.chi_square(counts[order], q[order]) == pytest.approx(metrics.chi_square(counts, q), rel=1e-9, abs=1e-9)
    assert metrics.coverage(counts[order]) == metrics.coverage(counts)


@given(cells(), st.integers(0, 50))
def test_bounds(case, nulls):
    cell = metrics.cell(case[0], nulls, case[1])
    assert 0 <= cell.tvd <= 1 + 1e-12
    assert 0 <= cell.e0 < 1
    assert cell.excess <= cell.tvd + 1e-12
    assert cell.score <= 1 + 1e-12
    assert 1 / len(case[1]) <= cell.coverage <= 1


@given(cells())
def test_merging_two_outcomes_never_raises_tvd_nor_floor(case):
    counts, q = case
    merged, together = np.append(counts[2:], counts[:2].sum()), np.append(q[2:], q[:2].sum())
    assert metrics.tvd(merged, together) <= metrics.tvd(counts, q) + 1e-12
    assert metrics.expected_tvd(counts.sum(), together) <= metrics.expected_tvd(counts.sum(), q) + 1e-12


@given(cells())
@settings(max_examples=30)
def test_leading_axes_broadcast(case):
    counts, q = case
    stack = np.stack([counts, counts[::-1], np.zeros_like(counts)])
    assert np.array_equal(metrics.tvd(stack, q)[:2], [metrics.tvd(counts, q), metrics.tvd(counts[::-1], q)])
    assert metrics.tvd(stack[:, None], np.stack([q, q])).shape == (3, 2)
    assert metrics.expected_tvd(stack.sum(-1), q).shape == (3,)
    assert isnan(metrics.tvd(stack, q)[2])
    assert isnan(metrics.chi_square(stack, q)[2])


def test_what_cannot_be_scored_is_nan_and_not_zero():
    assert isnan(metrics.tvd([0, 0], [0.5, 0.5]))
    assert isnan(metrics.coverage([0, 0]))
    assert isnan(metrics.valid_share(0, 0))
    assert isnan(metrics.mntv([0.5, np.nan]))
    assert isnan(metrics.scene_pass_rate(0, 0))
    assert metrics.cell([0, 0], 32, [0.5, 0.5]).score == 1


def test_an_outcome_the_reference_excludes_counts():
    assert metrics.tvd([3, 1], [1, 0]) == 0.25
    assert metrics.chi_square([3, 1], [1, 0]) == np.inf
    assert metrics.chi_square([3, 0], [1, 0]) == 0


def test_gate_and_pass_rate():
    assert metrics.passes_gate([0, 30, 31]).tolist() == [True, True, False]
    assert metrics.scene_pass_rate(23, 25) == 0.92


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (metrics.tvd, ([1, -1], [0.5, 0.5])),
        (metrics.tvd, ([1, 0.5], [0.5, 0.5])),
        (metrics.tvd, ([1, np.nan], [0.5, 0.5])),
        (metrics.tvd, ([1, 2, 3], [0.5, 0.5])),
        (metrics.tvd, ([1, 2], [0.5, 0.6])),
        (metrics.tvd, ([1, 2], [1.5, -0.5])),
        (metrics.tvd, ([1, 2], [np.nan, 1])),
        (metrics.expected_tvd, (1.5, [0.5, 0.5])),
        (metrics.expected_tvd, (-1, [0.5, 0.5])),
        (metrics.passes_gate, (-1,)),
        (metrics.scene_pass_rate, (26, 25)),
        (metrics.valid_share, (3, 2)),
    ],
)
def test_what_is_no_tally_or_no_distribution_is_refused(function, arguments):
    with pytest.raises(ValueError, match="must"):
        function(*arguments)
