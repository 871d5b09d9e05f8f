"""The matched null against exact laws and a per-replicate loop."""

from math import sqrt

import numpy as np
import pytest
import scipy.stats

from refcheck import inference, matched, metrics


@pytest.mark.parametrize(
    ("n", "q"),
    [
        (50, [0.5, 0.5]),
        (50, [1 / 6] * 6),
        (32, [18 / 37, 18 / 37, 1 / 37]),
        (20, [0.7, 0.0, 0.3]),
        (1, [0.2, 0.3, 0.5]),
        (3, [1.0]),
        (1_500, [0.1, 0.9]),
        (50, np.random.default_rng(0).dirichlet(np.ones(37))),
    ],
)
def test_mean_of_the_draws_is_the_exact_floor(n, q):
    # 4 standard errors: false alarm 6e-5 a case. Fixed seed.
    drawn = matched.draw_tvd(n, q, np.random.default_rng(1), 50_000)
    assert drawn.mean() == pytest.approx(float(metrics.expected_tvd(n, q)), abs=4 * drawn.std() / sqrt(50_000) + 1e-12)


@pytest.mark.parametrize(("n", "q"), [(8, [0.5, 0.3, 0.2]), (20, [0.05, 0.15, 0.8]), (6, [0.25] * 4), (31, [0.01, 0.99])])
def test_draws_have_the_exact_law(n, q):
    # Chi-square of 40,000 draws against the law summed over the lattice; p > 1e-4. Fixed seed.
    tallies = inference.lattice(n, len(q))
    values, where = np.unique(np.round(metrics.tvd(tallies, q), 9), return_inverse=True)
    law = np.bincount(where, scipy.stats.multinomial.pmf(tallies, n, q))
    drawn = np.round(matched.draw_tvd(n, q, np.random.default_rng(2), 40_000), 9)
    seen = np.array([(np.abs(drawn - value) < 1e-8).sum() for value in values])
    assert seen.sum() == 40_000
    large = law * 40_000 >= 5
    seen, expected = np.append(seen[large], seen[~large].sum()), np.append(law[large], law[~large].sum()) * 40_000
    keep = expected > 0.5
    assert scipy.stats.chisquare(seen[keep], expected[keep] * seen[keep].sum() / expected[keep].sum()).pvalue > 1e-4


def test_table_by_hand_and_by_loop():
    rng = np.random.default_rng(3)
    q = np.array([0.2, 0.3, 0.5])
    models = {"a": [([20, 10, 5], q), ([3, 3, 3], q)], "b": [([10, 15, 25], q)], "c": [([2, 1, 0], q)]}
    tables = matched.matched_null(models, rng, 4_000, (1, 30))
    assert {name: null.cells for name, null in tables[1].models.items()} == {"a": 2, "b": 1, "c": 1}
    assert {name: null.cells for name, null in tables[30].models.items()} == {"a": 1, "b": 1, "c": 0}
    assert tables[1].pooled.cells == 4
    observed = [float(metrics.tvd(counts, q)) for counts in ([20, 10, 5], [3, 3, 3], [10, 15, 25], [2, 1, 0])]
    assert tables[1].pooled.observed == pytest.approx(np.mean(observed), abs=1e-12)
    assert np.isnan(tables[30].models["c"].p)
    loop = np.random.default_rng(4)
    averages = [np.mean([metrics.tvd(loop.multinomial(n, q), q) for n in (35, 9)]) for _ in range(4_000)]
    null = tables[1].models["a"]
    # both means have a standard error below .001 (the averages spread by .055): 5 of their difference's, false alarm 6e-7
    assert null.mean == pytest.approx(np.mean(averages), abs=0.0065)
    assert null.q99 == pytest.approx(np.quantile(averages, 0.99), abs=0.03)
    assert tables[1].models["b"].p == 1  # no draw is nearer to q than q itself


def test_compare_average_counts_ties():
    found = matched.compare_average([0.2, 0.4], [[0.1, 0.3, 0.5], [0.1, 0.3, 0.5]])
    assert (found.observed, found.p) == (pytest.approx(0.3), 3 / 4)
    with pytest.raises(ValueError, match="`nulls`"):
        matched.compare_average([0.2], [[0.1], [0.2]])


def test_a_cells_null_does_not_depend_on_those_after_it():
    q, one = [0.5, 0.5], ([20, 10], [0.5, 0.5])
    alone = matched.matched_null({"a": [one]}, np.random.default_rng(5), 500)
    more = matched.matched_null({"a": [one], "b": [([5, 9], q)]}, np.random.default_rng(5), 500)
    assert alone[1].models["a"] == more[1].models["a"]


def test_refusals():
    rng = np.random.default_rng(6)
    with pytest.raises(ValueError, match="'a' has no valid rollout"):
        matched.matched_null({"a": [([0, 0], [0.5, 0.5])]}, rng, 10)
    with pytest.raises(ValueError, match="`minimums`"):
        matched.matched_null({}, rng, 10, ())
    with pytest.raises(ValueError, match="coupled"):
        matched.draw_tvd(5, [0.5, 0.5], rng, sampling="coupled")


@pytest.mark.parametrize(
    ("n", "p"), [(8, [0.3, 0.5, 0.2]), (6, [0.0, 0.25, 0.5, 0.25]), (31, [0.01, 0.99]), (1_200, [0.4, 0.6])]
)
def test_tallies_have_the_multinomial_law_outcome_by_outcome(n, p):
    # Each outcome's count against its binomial: mean and variance within 5 standard errors of 40,000 draws. Fixed seed.
    drawn = matched.draw_tallies(n, p, np.random.default_rng(3), 40_000)
    assert np.all(drawn.sum(1) == n) and np.all(drawn[:, np.array(p) == 0] == 0)
    variance = n * np.array(p) * (1 - np.array(p))
    assert np.all(np.abs(drawn.mean(0) - n * np.array(p)) <= 5 * np.sqrt(variance / 40_000) + 1e-12)
    assert np.allclose(np.cov(drawn.T), n * (np.diag(p) - np.outer(p, p)), atol=5 * variance.max() * sqrt(2 / 40_000) * 1.1)
