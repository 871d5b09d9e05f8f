"""Quotas, whole groups and subsamples; and that no multinomial figure is given for what is not i.i.d."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcheck import inference, metrics, resample, sequential
from refcheck.tally import Tally

Q3 = np.array([18, 18, 1]) / 37


@pytest.mark.parametrize(
    ("q", "total", "counts"),
    [
        ([1 / 6] * 6, 50, [9, 9, 8, 8, 8, 8]),
        ([1 / 3, 2 / 3], 50, [17, 33]),
        (Q3, 50, [24, 24, 2]),  # 24.324, 24.324, 1.351
        ([0.5, 0.5, 0.0], 7, [4, 3, 0]),
        ([0.47, 0.16, 0.158, 0.12, 0.061, 0.031], 10, [5, 2, 1, 1, 1, 0]),  # the textbook example of the method
        ([1.0], 0, [0]),
    ],
)
def test_quota(q, total, counts):
    assert resample.quota(q, total).tolist() == counts


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any), st.integers(0, 200))
def test_quota_sums_and_stays_within_one_of_its_share(weights, total):
    q = [Fraction(w, sum(weights)) for w in weights]
    counts = resample.quota([float(share) for share in q], total)
    assert counts.sum() == total
    assert all(abs(int(x) - total * share) < 1 for x, share in zip(counts, q, strict=True))


def test_a_quota_set_scores_its_rounding_and_nothing_else():
    residual = Fraction(1, 2) * (2 * abs(Fraction(9, 50) - Fraction(1, 6)) + 4 * abs(Fraction(8, 50) - Fraction(1, 6)))
    assert resample.quota_residual([1 / 6] * 6, 50) == pytest.approx(float(residual), abs=1e-15)
    assert resample.quota_residual([1 / 6] * 6, 48) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("sampling", ["quota", "coupled", "other"])
def test_no_multinomial_figure_for_what_is_not_iid(sampling):
    rng, match = np.random.default_rng(0), "must be iid" if sampling == "other" else "independent rollouts"
    for call in (
        lambda: metrics.expected_tvd(10, [0.5, 0.5], sampling=sampling),
        lambda: metrics.cell([5, 5], 0, [0.5, 0.5], sampling=sampling),
        lambda: inference.draw_null(10, [0.5, 0.5], rng, sampling=sampling),
        lambda: inference.p_values([[5, 5]], [0.5, 0.5], rng, sampling=sampling),
        lambda: inference.exact_multinomial_p_value([5, 5], [0.5, 0.5], sampling=sampling),
        lambda: sequential.SequentialTest([0.5, 0.5], 0.1, sampling=sampling),
        lambda: inference.exact_p_value([5, 5], [0.5, 0.5], sampling=sampling),
        lambda: inference.p_value([5, 5], [0.5, 0.5], rng, sampling=sampling),
        lambda: inference.monte_carlo_p_value(
            [5, 5], [0.5, 0.5], inference.draw_null(10, [0.5, 0.5], rng, 10), sampling=sampling
        ),
    ):
        with pytest.raises(ValueError, match=match):
            call()


def test_a_tally_says_itself_how_it_was_sampled():
    rng = np.random.default_rng(0)
    for tally in (Tally(("a", "b"), (5, 5), sampling="quota"), Tally(("a", "b"), (5, 5), sampling="coupled", group=5)):
        with pytest.raises(ValueError, match="independent rollouts"):
            inference.p_value(tally, [0.5, 0.5], rng)
    assert inference.p_value(Tally(("a", "b"), (5, 5)), [0.5, 0.5], rng).value == 1


def test_groups_are_counted_in_order():
    assert resample.group_counts([0, 1, -1, 1, 1, 0], 2, 3).tolist() == [[1, 1, 1], [1, 2, 0]]
    with pytest.raises(ValueError, match="whole groups"):
        resample.group_counts([0, 1, 1], 2, 2)


def test_whole_groups_are_resampled():
    # All of a group alike: a tally is a multiple of the group's size, and its variance is m times the multinomial's.
    groups = np.repeat([[5, 0]], 6, 0).tolist() + np.repeat([[0, 5]], 4, 0).tolist()
    drawn = resample.resample_groups(groups, np.random.default_rng(1), 20_000)
    assert set((drawn % 5).ravel()) == {0}
    assert np.all(drawn.sum(1) == 50)
    variance = 25 * 10 * 0.6 * 0.4  # relative standard error of a variance of 20,000: 1 %; 4 of them, false alarm 6e-5
    assert drawn[:, 0].var() == pytest.approx(variance, rel=0.04)
    with pytest.raises(ValueError, match="two groups"):
        resample.resample_groups([[5, 0]], np.random.default_rng(1), 10)


def test_group_bootstrap_is_wider_than_one_that_ignores_the_groups():
    groups = np.repeat([[5, 0]], 7, 0).tolist() + np.repeat([[0, 5]], 3, 0).tolist()
    whole = resample.group_bootstrap(groups, [0.5, 0.5], np.random.default_rng(2))
    split = resample.group_bootstrap(
        np.repeat([[1, 0]], 35, 0).tolist() + np.repeat([[0, 1]], 15, 0).tolist(), [0.5, 0.5], np.random.default_rng(2)
    )
    assert whole.high - whole.low > 1.5 * (split.high - split.low)
    with pytest.raises(ValueError, match="no distance"):
        resample.group_bootstrap([[0, 0, 5], [0, 0, 5]], [0.5, 0.5], np.random.default_rng(2))
    with pytest.raises(ValueError, match="columns"):
        resample.group_bootstrap(groups, [0.5, 0.3, 0.1, 0.1], np.random.default_rng(2))


@pytest.mark.parametrize("p", [[0.5, 0.3, 0.2], [0.15, 0.35, 0.5]])
@pytest.mark.parametrize("concentration", [3.0, np.inf])
def test_group_interval_holds_the_distance_of_the_marginal_law(p, concentration):
    # Ten groups of five, their outcomes drawn from shares of the group's own (or all from p). 300 runs; were the coverage .9,
    # more than 285 hits would have a chance of .2 %: at least .92 are asked for. Fixed seed.
    rng, q, hits = np.random.default_rng([5, round(10 * p[0])]), np.array([0.5, 0.3, 0.2]), 0
    for _ in range(300):
        shares = [p] * 10 if np.isinf(concentration) else rng.dirichlet(np.array(p) * concentration, size=10)
        interval = resample.group_bootstrap([rng.multinomial(5, share) for share in shares], q, rng, 400)
        hits += interval.low <= np.abs(p - q).sum() / 2 <= interval.high
    assert hits / 300 >= 0.92


def test_subsamples_are_without_replacement():
    slots = [0] * 12 + [1] * 30 + [-1] * 8
    assert resample.subsample_slots(slots, 2, 50, np.random.default_rng(3), 4).tolist() == [[12, 30, 8]] * 4
    drawn = resample.subsample_slots(slots, 2, 10, np.random.default_rng(3), 20_000)
    # hypergeometric: mean 2.4, variance 10 .24 .76 40/49; 4 standard errors, false alarm 6e-5
    spread = 10 * 0.24 * 0.76 * 40 / 49
    assert drawn[:, 0].mean() == pytest.approx(2.4, abs=4 * sqrt(spread / 20_000))
    assert drawn[:, 0].var() == pytest.approx(spread, rel=0.04)
    with pytest.raises(ValueError, match="K = 51"):
        resample.subsample_slots(slots, 2, 51, np.random.default_rng(3), 4)


def test_subsamples_of_coupled_slots_are_whole_groups():
    slots = np.repeat([0, 1, 1, 0, -1], 5)
    drawn = resample.subsample_slots(slots, 2, 10, np.random.default_rng(4), 200, group=5)
    assert set((drawn % 5).ravel()) == {0}
    assert np.all(drawn.sum(1) == 10)
    with pytest.raises(ValueError, match="whole groups"):
        resample.subsample_slots(slots, 2, 12, np.random.default_rng(4), 4, group=5)
    with pytest.raises(ValueError, match="`slots`"):
        resample.subsample_slots([0, 2], 2, 1, np.random.default_rng(4), 4)
