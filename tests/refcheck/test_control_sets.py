"""Sets of labels: as the reference says, or off it by a known amount. False alarms of the statistical tests: 1e-4 each."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.random import Generator, Philox

from refcheck import control_sets, metrics
from refcheck.control_sets import want

Q = np.array([0.5, 0.3, 0.2, 0.0])
N = 20_000


def draws(seed=0):
    return Generator(Philox(seed))


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        ("iid", Q),
        ("tilted", [0.5 - 0.1 * 0.5 / 0.7, 0.4, 0.2 - 0.1 * 0.2 / 0.7, 0.0]),
        ("missing", [0.5 / 0.7, 0.0, 0.2 / 0.7, 0.0]),
    ],
)
def test_drawn_sets_follow_their_law(kind, law):
    """Chi-square of 20,000 labels against the law worked out by hand; what has probability 0 never comes."""
    wanted = want(kind, Q, N, draws(), toward=1, tilt=0.1)
    counts, law = np.bincount(wanted.labels, minlength=4), np.array(law)
    assert counts[law == 0].sum() == 0 and wanted.sampling == "iid"
    assert np.allclose(wanted.law, law[None])
    assert scipy.stats.chisquare(counts[law > 0], N * law[law > 0]).pvalue > 1e-4


def test_a_tilt_is_as_large_as_it_says():
    for tilt in (0.05, 0.3, 0.7):
        law = want("tilted", Q, 10, draws(), toward=1, tilt=tilt).expected()
        assert float(np.abs(law - Q).sum() / 2) == pytest.approx(tilt)
    with pytest.raises(ValueError, match=r"`tilt` must be in \(0, 0.7\], .* got 0.71"):
        want("tilted", Q, 10, draws(), toward=1, tilt=0.71)


def test_quota_is_the_largest_remainder_rounding():
    """Hamilton's rounding of 7 (.5, .3, .2): 3.5, 2.1, 1.4 gives 4, 2, 1; of 5 (1/3, 1/3, 1/3) the first two get two."""
    assert np.bincount(want("quota", Q, 7, draws()).labels, minlength=4).tolist() == [4, 2, 1, 0]
    assert np.bincount(want("quota", np.ones(3) / 3, 5, draws()).labels).tolist() == [2, 2, 1]
    shuffled = [tuple(want("quota", Q, 7, draws(seed)).labels) for seed in range(5)]
    assert len(set(shuffled)) > 1


def test_balanced_is_even_over_what_the_reference_allows():
    wanted = want("balanced", np.array([1, 1000, 0, 23]) / 1024, 30, draws())
    assert np.bincount(wanted.labels, minlength=4).tolist() == [10, 10, 0, 10] and wanted.sampling == "quota"


def test_batches_differ_and_say_which_is_which():
    """The halves' TVD is the tilt; 10,000 labels of each are farther apart than chance allows (chi-square, p < 1e-6)."""
    wanted = want("batches", Q, N, draws(), toward=0, tilt=0.2)
    halves = [np.bincount(wanted.labels[wanted.batch == number], minlength=3)[:3] for number in (0, 1)]
    assert [half.sum() for half in halves] == [N // 2, N // 2]
    assert float(metrics.tvd(wanted.law[0] * 1e6, wanted.law[1])) == pytest.approx(0.2)
    assert scipy.stats.chi2_contingency(halves).pvalue < 1e-6
    assert np.allclose(wanted.expected(), wanted.law.mean(axis=0))


def test_collapsed_is_one_outcome():
    assert want("collapsed", Q, 9, draws(), toward=2).labels.tolist() == [2] * 9


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="`kind` must be one of iid, quota"):
        want("odd", Q, 9, draws())
    with pytest.raises(ValueError, match="certain cannot be missing"):
        want("missing", np.array([1.0, 0.0]), 9, draws(), toward=0)


def test_a_rollout_in_a_set_twice_is_refused():
    control_sets.refuse_twice([3, 1, 2])
    with pytest.raises(ValueError, match=r"rollouts \[3\] are in the set twice"):
        control_sets.refuse_twice([3, 1, 3])
