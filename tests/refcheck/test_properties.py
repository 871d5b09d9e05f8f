"""Properties every statistic must have whatever the cell: invariances, bounds, monotonicity, agreement of two routes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcheck import anytime, coverage, equivalence, inference, metrics, missing, ordered, references, resample


@st.composite
def cells(draw, most=12):
    """Counts (k,) with a rollout, a reference (k,) in which zeros occur, and an order of the outcomes."""
    k = draw(st.integers(2, 5))
    weights = draw(st.lists(st.integers(0, 9), min_size=k, max_size=k).filter(any))
    counts = draw(st.lists(st.integers(0, most), min_size=k, max_size=k).filter(any))
    return np.array(counts), np.array(weights) / sum(weights), draw(st.permutations(range(k)))


@given(cells(most=8))  # 40 rollouts over 5 outcomes are still summed exactly
@settings(deadline=None, max_examples=40)
def test_renaming_the_labels_changes_no_statistic(case):
    counts, q, order = case
    order = list(order)
    renamed, there = counts[order], q[order]
    for figure in (
        lambda x, p: coverage.coverage_null(x, p).p,
        lambda x, p: coverage.expected_coverage(x.sum(), p),
        lambda x, p: missing.null_bounds(x, 3, p).best,
        lambda x, p: missing.null_bounds(x, 3, p).worst,
        lambda x, p: anytime.log_e_value(x, p),
        lambda x, p: anytime.distance_interval(x, p).low,
        lambda x, p: anytime.distance_interval(x, p).high,
        lambda x, p: equivalence.exact_equivalence(x, p, 0.2).p,
        lambda x, p: references.distance_range(x, p, p * 0.5, np.minimum(1, 2 * p)).largest,
        lambda x, p: references.distance_range(x, p, p * 0.5, np.minimum(1, 2 * p)).smallest,
        lambda x, p: inference.exact_p_value(x, p).value,
        lambda x, p: inference.exact_multinomial_p_value(x, p),
    ):
        first, second = float(figure(counts, q)), float(figure(renamed, there))
        assert first == pytest.approx(second, rel=1e-7, abs=1e-9) or first == second == np.inf
    other = counts[::-1]
    assert references.two_sample_chi_square(renamed, other[order]) == pytest.approx(
        float(references.two_sample_chi_square(counts, other))
    )


@given(cells(), st.floats(0.05, 0.45))
@settings(deadline=None, max_examples=60)
def test_bounds(case, epsilon):
    counts, q, _ = case
    bounds = missing.null_bounds(counts, 4, q)
    assert -1e-12 <= bounds.best <= bounds.worst <= 1 + 1e-12
    assert bounds.best <= bounds.reported + 1e-12
    interval = anytime.distance_interval(counts, q)
    assert 0 <= interval.low <= interval.tvd + 1e-9
    assert interval.tvd - 1e-9 <= interval.high <= 1
    assert 0 <= equivalence.exact_equivalence(counts, q, epsilon).p <= 1
    null = coverage.coverage_null(counts, q)
    shares = np.arange(len(q) + 1) / len(q)
    inside = (shares >= null.low - 1e-12) & (shares <= null.high + 1e-12)
    assert coverage.coverage_law(int(counts.sum()), q)[inside].sum() >= 0.95 - 1e-9
    assert 0 <= float(coverage.unseen(counts).mass) <= 1


@given(cells(), st.integers(1, 60))
@settings(max_examples=60)
def test_more_draws_cover_more_and_lower_the_floor(case, n):
    _, q, _ = case
    assert coverage.expected_coverage(n + 1, q) >= coverage.expected_coverage(n, q) - 1e-12
    assert metrics.expected_tvd(2 * n, q) <= metrics.expected_tvd(n, q) + 1e-12


@given(cells(), st.floats(0.05, 0.3), st.floats(0.05, 0.3))
@settings(max_examples=60)
def test_a_larger_tolerance_is_easier_to_show(case, a, b):
    counts, q, _ = case
    small, large = sorted((a, b))
    exact = equivalence.exact_equivalence
    assert exact(counts, q, large).p <= exact(counts, q, small).p + 1e-9


@given(cells(), st.floats(0.01, 0.2), st.floats(0.01, 0.2))
@settings(deadline=None, max_examples=40)
def test_a_smaller_alpha_widens_the_sequence(case, a, b):
    counts, q, _ = case
    small, large = sorted((a, b))
    wide, narrow = anytime.distance_interval(counts, q, small), anytime.distance_interval(counts, q, large)
    assert wide.low <= narrow.low + 1e-9
    assert wide.high >= narrow.high - 1e-9


@given(cells())
@settings(max_examples=60)
def test_order_knows_more_than_tvd(case):
    # Moving a share anywhere moves it at least one step, at most k - 1: TVD <= W1 <= (k - 1) TVD at unit steps.
    counts, q, _ = case
    k = len(q)
    distance, moved = metrics.tvd(counts, q), ordered.wasserstein(counts, q, np.arange(k))
    assert distance - 1e-12 <= moved <= (k - 1) * distance + 1e-12
    assert ordered.kuiper(counts, q) <= distance + 1e-12


@given(cells())
@settings(max_examples=60)
def test_a_quota_set_is_as_near_as_any_tally_of_its_size(case):
    _, q, _ = case
    if len(q) <= 3:
        tallies = inference.lattice(9, len(q))
        assert resample.quota_residual(q, 9) <= metrics.tvd(tallies, q).min() + 1e-12
