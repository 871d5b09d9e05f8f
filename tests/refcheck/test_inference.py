"""p-values, bands and the sequential certificate: exact distributions, published figures, and error rates by simulation."""

import json
from fractions import Fraction
from math import comb, lcm, sqrt
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from refcheck import inference, intervals
from refcheck.calibench import SCENES

EXPECTED = json.loads((Path(__file__).parent / "data" / "calibench_expected.json").read_text())
CELLS = [(scene, model) for scene, models in EXPECTED["cells"].items() for model in models]
VALID = [(scene, model) for scene, model in CELLS if EXPECTED["cells"][scene][model]["n_valid"]]
TESTED = [(scene, model) for scene, model in CELLS if EXPECTED["cells"][scene][model]["p"] is not None]
SMALL = [
    (scene, model)
    for scene, model in TESTED
    if inference.lattice_size(EXPECTED["cells"][scene][model]["n_valid"], len(SCENES[scene].q)) <= inference.LATTICE
]


def exact_tvd_law(n, q):
    """The exact law of TVD by another route: integer convolution over cells of sum |D x - n D q|, D the common denominator."""
    scale = lcm(*(share.denominator for share in q))
    size = 2 * n * scale + 1
    law = [np.zeros(size) for _ in range(n + 1)]  # by rollouts used; multinomial weights n! prod q^x / x!
    law[0][0] = 1.0
    for share in q:
        new = [np.zeros(size) for _ in range(n + 1)]
        for used in range(n + 1):
            for x in range(n + 1 - used):
                shift = int(abs(scale * x - n * scale * share))
                weight = float(share) ** x * comb(used + x, x)
                new[used + x][shift:] += weight * law[used][: size - shift]
        law = new
    return np.arange(size) / (2 * n * scale), law[n]


@pytest.mark.parametrize(("scene", "model"), VALID)
def test_band_ends_lie_at_the_exact_quantiles(scene, model):
    # The published rule: ends between the exact 2.3 and 2.7 %, and 97.3 and 97.7 % quantiles. 50,000 draws put .2 % at
    # 2.9 standard errors; the law is a lattice, so most ends cannot move at all. Fixed seed; false alarm below 1 % a cell.
    n, q = EXPECTED["cells"][scene][model]["n_valid"], SCENES[scene].q
    values, law = exact_tvd_law(n, q)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    below = np.cumsum(law)
    low, high = inference.draw_null(n, SCENES[scene].array(), np.random.default_rng([1, n])).band()
    for end, least, most in ((low, 0.023, 0.027), (high, 0.973, 0.977)):
        bounds = values[np.searchsorted(below, [least, most])]
        assert bounds[0] - 1e-9 <= end <= bounds[1] + 1e-9


@pytest.mark.parametrize(("scene", "model"), TESTED)
def test_monte_carlo_p_agrees_with_the_exact_one(scene, model):
    # The published rule, 4 standard errors + 1: false alarm below 1e-4 a cell. Fixed seed.
    expected = EXPECTED["cells"][scene][model]
    q = SCENES[scene].array()
    null = inference.draw_null(expected["n_valid"], q, np.random.default_rng(11))
    result = inference.monte_carlo_p_value(expected["counts"], q, null)
    exact, draws = expected["p_exact"], 50_000
    assert abs(result.reached - draws * exact) <= 4 * sqrt(draws * exact * (1 - exact)) + 1
    assert result.value == (result.reached + 1) / (draws + 1)


@pytest.mark.parametrize(("scene", "model"), SMALL)
def test_exact_p_of_published_cells(scene, model):
    expected = EXPECTED["cells"][scene][model]
    result = inference.p_value(expected["counts"], SCENES[scene].array(), np.random.default_rng(0))
    assert result.method == "exact"
    assert result.value == pytest.approx(expected["p_exact"], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("heads", [0, 3, 16, 21, 32])
@pytest.mark.parametrize("kind", ["chi_square", "tvd"])
def test_exact_p_of_a_coin_is_the_binomial_test(heads, kind):
    expected = scipy.stats.binomtest(heads, 32, 0.5).pvalue
    assert inference.exact_p_value([heads, 32 - heads], [0.5, 0.5], kind).value == pytest.approx(expected, rel=1e-9)


def test_lattice_holds_every_tally_once():
    tallies = inference.lattice(5, 4)
    assert tallies.shape == (inference.lattice_size(5, 4), 4) == (56, 4)
    assert np.all(tallies.sum(1) == 5)
    assert len({tuple(row) for row in tallies.tolist()}) == 56


def test_p_at_its_ends():
    rng = np.random.default_rng(0)
    impossible = inference.p_value([3, 1], [1, 0], rng)
    assert (impossible.value, impossible.statistic) == (0, np.inf)
    assert inference.p_value([5, 5], [0.5, 0.5], rng).value == 1
    assert np.isnan(inference.p_value([0, 0], [0.5, 0.5], rng).value)
    large = inference.p_value([300] * 11 + [700], [1 / 11] * 11 + [0], rng, draws=1000)
    assert (large.method, large.value) == ("monte_carlo", 1 / 1001)


def test_a_null_of_another_n_is_refused():
    with pytest.raises(ValueError, match="n = 5"):
        inference.monte_carlo_p_value([3, 3], [0.5, 0.5], inference.draw_null(5, [0.5, 0.5], np.random.default_rng(0), 10))
    with pytest.raises(ValueError, match="too many"):
        inference.exact_p_value([100] * 6, [1 / 6] * 6)


@pytest.mark.parametrize("model", ["wan", "seedance", "happyhorse"])
def test_published_bootstrap(model):
    # Published within .003; over eight seeds an end moved with a standard deviation below 3e-4. Fixed seed.
    cells = [
        (held["counts"], held["N"] - held["n_valid"], SCENES[scene].array())
        for scene, held in ((scene, EXPECTED["cells"][scene][model]) for scene in SCENES)
    ]
    interval = intervals.percentile_bootstrap_mntv(cells, np.random.default_rng(3))
    assert [interval.low, interval.high] == pytest.approx(EXPECTED["mntv_bootstrap_ci95"][model], abs=0.003)


@pytest.mark.parametrize("heads", [0, 2, 5, 9, 12])
def test_exact_multinomial_test_of_a_coin_is_the_binomial_test(heads):
    for share in (0.5, 0.3):
        expected = scipy.stats.binomtest(heads, 12, share).pvalue
        assert inference.exact_multinomial_p_value([heads, 12 - heads], [share, 1 - share]) == pytest.approx(expected)


def test_exact_multinomial_test_by_enumeration_of_sequences():
    q, counts = [0.5, 0.3, 0.2], [1, 1, 3]
    weight = lambda tally: scipy.stats.multinomial.pmf(tally, 5, q)  # noqa: E731
    tallies = [(a, b, 5 - a - b) for a in range(6) for b in range(6 - a)]
    expected = sum(weight(tally) for tally in tallies if weight(tally) <= weight(counts) * (1 + 1e-9))
    assert inference.exact_multinomial_p_value(counts, q) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="too many"):
        inference.exact_multinomial_p_value([100] * 6, [1 / 6] * 6)


@pytest.mark.parametrize("kind", ["chi_square", "tvd"])
def test_many_cells_at_once_are_each_as_alone(kind):
    rng = np.random.default_rng(12)
    q = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.7, 0.3, 0.0]])
    counts = np.array([[rng.multinomial(n, [0.4, 0.4, 0.2]) for _ in q] for n in (0, 7, 20, 20)])
    found = inference.p_values(counts, q, rng, kind=kind)
    assert found.shape == (4, 3)
    assert np.isnan(found[0]).all()
    for i, j in np.ndindex(3, 3):
        alone = inference.p_value(counts[i + 1, j], q[j], rng, kind=kind).value
        assert found[i + 1, j] == pytest.approx(alone, rel=1e-9, abs=1e-300)


def test_many_cells_by_monte_carlo():
    # p of about .5 from 4,000 draws each: their difference has a standard error of .011; 4 of them. Fixed seed.
    rng, q = np.random.default_rng(13), np.full(12, 1 / 12)
    counts = rng.multinomial(60, q, size=5)
    found = inference.p_values(np.concatenate([counts, [np.append(np.full(11, 0), 60)]]), q, rng, draws=4_000)
    for value, cell in zip(found, counts, strict=False):
        assert value == pytest.approx(inference.p_value(cell, q, rng, draws=4_000).value, abs=0.045)
    assert found[-1] == 1 / 4_001


def test_benjamini_hochberg_of_the_authors_own_example():
    # Benjamini and Hochberg 1995, section 4.1: at q* = .05 the four smallest of these fifteen are rejected.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    adjusted = inference.benjamini_hochberg([np.nan, *p[::-1], np.nan])
    assert np.isnan(adjusted[[0, -1]]).all()
    assert (adjusted[1:-1] < 0.05).tolist() == [False] * 11 + [True] * 4
    assert np.isnan(inference.benjamini_hochberg([np.nan])).all()


def test_fractions_of_the_table_sum_to_one():
    assert all(sum(scene.q) == Fraction(1) and len(scene.q) == len(scene.outcomes) for scene in SCENES.values())
