"""Coverage at n against enumeration and closed forms; the unseen against hand-worked figures."""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from refcheck import coverage
from refcheck.tally import Tally

BINOMIAL = np.array([comb(10, i) / 1024 for i in range(11)])


@pytest.mark.parametrize("q", [[0.5, 0.5], [0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.25] * 4, [1.0]])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_law_is_that_of_every_sequence(q, n):
    law = np.zeros(len(q) + 1)
    for sequence in product(range(len(q)), repeat=n):
        law[len(set(sequence))] += np.prod([q[i] for i in sequence])
    assert coverage.coverage_law(n, q) == pytest.approx(law, abs=1e-13)
    assert coverage.expected_coverage(n, q) == pytest.approx(law @ np.arange(len(q) + 1) / len(q), abs=1e-13)


def test_coupon_collector_in_closed_form():
    # All six faces in n throws: sum_j (-1)^j C(6, j) (1 - j/6)^n.
    for n in (6, 20, 50):
        every = sum((-1) ** j * comb(6, j) * (1 - j / 6) ** n for j in range(7))
        assert coverage.coverage_law(n, [1 / 6] * 6)[6] == pytest.approx(every, abs=1e-12)


def test_law_of_many_draws():
    # Labels that cannot be missed, two that may be: by independence of Poisson counts nearly, and exactly for one of them.
    n, share = 1_000_000, 1.5e-6
    law = coverage.coverage_law(n, [0.5, 0.5 - share, share])
    assert law[2] == pytest.approx((1 - share) ** n, rel=1e-9)
    assert law[3] == pytest.approx(1 - (1 - share) ** n, rel=1e-9)
    assert coverage.coverage_law(5_000, [1 / 37] * 37)[37] == pytest.approx(1)


@pytest.mark.parametrize(("n", "q"), [(50, BINOMIAL), (1000, np.full(37, 1 / 37)), (32, np.array([18, 18, 1]) / 37)])
def test_law_agrees_with_the_expectation_at_real_sizes(n, q):
    law = coverage.coverage_law(n, q)
    assert law.sum() == pytest.approx(1)
    assert law @ np.arange(q.size + 1) / q.size == pytest.approx(float(coverage.expected_coverage(n, q)), rel=1e-10)


def test_a_perfect_sampler_does_not_cover_eleven_bins_in_fifty_draws():
    counts = [0, 1, 2, 6, 10, 12, 10, 6, 2, 1, 0]
    null = coverage.coverage_null(counts, BINOMIAL)
    assert null.high < 1
    assert null.low <= 9 / 11 <= null.high
    assert null.p > 0.3
    collapsed = coverage.coverage_null([0, 0, 0, 0, 25, 25, 0, 0, 0, 0, 0], BINOMIAL)
    assert collapsed.p < 1e-6


def test_expectation_is_vectorised_and_nan_without_a_rollout():
    values = coverage.expected_coverage([0, 1, 10], [[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]])
    assert np.isnan(values[0])
    assert values[1:].tolist() == [0.5, 0.5]


def test_unseen_by_hand():
    # n = 10: f1 = 2, f2 = 1, four labels seen. Chao1: 4 + .9 * 2 * 1 / (2 * 2) = 4.45; Good-Turing 2/10;
    # Chao and Jost: .2 * 9 * 2 / (9 * 2 + 2) = .18.
    found = coverage.unseen([6, 2, 1, 1, 0, 0])
    assert (found.mass, found.mass_refined, found.richness) == pytest.approx((0.2, 0.18, 4.45), abs=1e-12)
    # No pair: (2/7) * 6 * 1 / (6 * 1 + 2).
    assert coverage.unseen([5, 1, 1]).mass_refined == pytest.approx(2 / 7 * 0.75, abs=1e-12)
    none = coverage.unseen([[5, 5, 0], [0, 0, 0]])
    assert (none.mass[0], none.richness[0]) == (0, 2)
    assert np.isnan(none.mass[1])


def test_good_turing_is_nearly_unbiased():
    # E[f1/n] is the unseen mass expected after n - 1 draws. 4,000 runs, 4 standard errors: false alarm 6e-5. Fixed seed.
    q, n = BINOMIAL, 20
    estimates = coverage.unseen(np.random.default_rng(1).multinomial(n, q, size=4_000)).mass
    expected = (q * (1 - q) ** (n - 1)).sum()
    assert estimates.mean() == pytest.approx(expected, abs=4 * estimates.std() / 4_000**0.5)


def test_rarefied_coverage_is_the_mean_over_all_subsets():
    values = np.array([0, 0, 0, 1, 1, 2])
    subsets = [sum(1 << int(v) for v in set(values[list(rows)])).bit_count() / 4 for rows in combinations(range(6), 3)]
    assert coverage.rarefied_coverage([3, 2, 1, 0], 3) == pytest.approx(np.mean(subsets), abs=1e-12)
    assert coverage.rarefied_coverage([3, 2, 1, 0], 6) == 0.75
    assert coverage.rarefied_coverage([3, 2, 1, 0], 1) == pytest.approx(0.25)


def test_refusals():
    with pytest.raises(ValueError, match="independent rollouts"):
        coverage.coverage_null(Tally(("a", "b"), (5, 5), sampling="quota"), [0.5, 0.5])
    with pytest.raises(ValueError, match="coupled"):
        coverage.unseen([1, 2], sampling="coupled")
    with pytest.raises(ValueError, match="`n`"):
        coverage.rarefied_coverage([3, 2], 6)
    with pytest.raises(ValueError, match="`n`"):
        coverage.coverage_null([0, 0], [0.5, 0.5])
