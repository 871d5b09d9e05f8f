"""Numbers of rollouts against published ones and simulation; subsampled scores against exact means."""

from math import sqrt

import numpy as np
import pytest
import scipy.stats

from refcheck import budget, metrics


def test_a_coin_at_508_takes_thirty_thousand_flips():
    # Published: 30,658 flips at 80 % power.
    assert budget.rollouts_to_detect([0.5, 0.5], [0.508, 0.492]) == pytest.approx(30_658, rel=1e-3)
    assert budget.rollouts_to_detect_distance([0.5, 0.5], 0.008) == pytest.approx(30_658, rel=1e-3)
    assert budget.detectable_distance(30_658, [0.5, 0.5]) == pytest.approx(0.008, rel=1e-3)


def test_noncentrality_of_one_degree_of_freedom():
    z = scipy.stats.norm.isf(0.025) + scipy.stats.norm.isf(0.2)
    assert budget.noncentrality(2) == pytest.approx(z**2, rel=1e-4)


@pytest.mark.parametrize(
    ("q", "p"), [([1 / 6] * 6, [0.2, 0.2, 0.2, 0.4 / 3, 0.4 / 3, 0.4 / 3]), ([0.5, 0.3, 0.2], [0.45, 0.3, 0.25])]
)
def test_the_power_is_there_when_it_is_simulated(q, p):
    # 4,000 tests by the chi-square's asymptotic level; the approximation is within .03 here. Fixed seed.
    n = budget.rollouts_to_detect(q, p)
    statistic = metrics.chi_square(np.random.default_rng(1).multinomial(n, p, size=4_000), q)
    assert (statistic > scipy.stats.chi2.isf(0.05, len(q) - 1)).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_no_direction_is_harder_than_the_hardest(seed):
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 7)), 0.05
    q = rng.dirichlet(np.ones(k)) * 0.7 + 0.3 / k
    least = budget.hardest_effect(q, d)
    for _ in range(200):
        step = rng.normal(size=k)
        step -= step.mean()
        p = q + d * step / (np.abs(step).sum() / 2)
        if p.min() >= 0:
            assert ((p - q) ** 2 / q).sum() >= least - 1e-12


def test_more_outcomes_than_can_be_listed_err_towards_more_rollouts():
    q = np.full(37, 1 / 37)
    exact = 0.05**2 / (18 / 37 * 19 / 37)
    assert budget.hardest_effect(q, 0.05) <= exact


def test_an_excluded_outcome_is_enough_once():
    n = budget.rollouts_to_detect([0.5, 0.5, 0.0], [0.49, 0.49, 0.02])
    assert 1 - 0.98**n >= 0.8 > 1 - 0.98 ** (n - 1)
    assert budget.rollouts_to_detect([1.0, 0.0], [0.0, 1.0]) == 1
    with pytest.raises(ValueError, match="excludes"):
        budget.rollouts_to_detect_distance([1.0, 0.0], 0.1)


def test_width_is_what_replicates_show():
    # Central 95 % range of 20,000 replicates of TVD at a far p; two quantiles of relative error below 2 % each. Fixed seed.
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.5, 0.4])
    n = budget.rollouts_for_width(0.1, share=0.5)
    values = metrics.tvd(np.random.default_rng(2).multinomial(n, p, size=20_000), q)
    low, high = np.quantile(values, [0.025, 0.975])
    assert high - low == pytest.approx(0.1, rel=0.05)
    assert n == 385  # (2 * 1.96 / .1)^2 / 4 = 384.1


def test_curve_has_the_exact_mean_and_ends_at_the_full_score():
    slots, q = np.repeat([0, 1, -1], [12, 28, 10]), np.array([0.5, 0.5])
    points = budget.budget_curve([(slots, q)], [1, 10, 50], np.random.default_rng(3), draws=4_000)
    full = points[-1]
    assert [full.mean, full.low, full.high] == pytest.approx([float(metrics.tvd([12, 28], q))] * 3, abs=1e-12)
    assert full.floor == pytest.approx(float(metrics.expected_tvd(40, q)))
    # One slot: TVD 1/2 whenever it is valid, 40 of 50; 4 standard errors of a share of 4,000: .025
    assert (points[0].mean, points[0].floor) == (0.5, 0.5)
    assert points[0].scored == pytest.approx(0.8, abs=0.026)
    # Ten slots, by enumeration over the hypergeometric
    ways = [(x, y) for x in range(11) for y in range(11 - x) if x + y > 0]
    weights = np.array([scipy.stats.multivariate_hypergeom.pmf([x, y, 10 - x - y], [12, 28, 10], 10) for x, y in ways])
    exact = (weights * metrics.tvd(ways, q)).sum() / weights.sum()
    assert points[1].mean == pytest.approx(exact, abs=4 * 0.15 / sqrt(4_000))
    assert points[1].floor > full.floor


def test_coupled_slots_are_taken_by_whole_groups():
    slots = np.tile([0, 0, 0, 1, 1], 10)  # every group has the same counts: no subsample of groups can vary
    points = budget.budget_curve([(slots, [0.5, 0.5])], [5, 25], np.random.default_rng(4), draws=50, group=5)
    assert [(point.low, point.high) for point in points] == [(pytest.approx(0.1), pytest.approx(0.1))] * 2
    assert np.isnan(points[0].floor)
    with pytest.raises(ValueError, match="whole groups"):
        budget.budget_curve([(slots, [0.5, 0.5])], [7], np.random.default_rng(4), group=5)


def test_refusals():
    rng = np.random.default_rng(5)
    with pytest.raises(ValueError, match="K = 5 "):
        budget.budget_curve([([0, 1, 0, 1], [0.5, 0.5])], [5], rng)
    with pytest.raises(ValueError, match="at least one scene"):
        budget.budget_curve([], [5], rng)
    with pytest.raises(ValueError, match="tells them apart"):
        budget.rollouts_to_detect([0.5, 0.5], [0.5, 0.5])
    with pytest.raises(ValueError, match="`width`"):
        budget.rollouts_for_width(0)
    with pytest.raises(ValueError, match="independent rollouts"):
        budget.rollouts_for_width(0.1, sampling="quota")
