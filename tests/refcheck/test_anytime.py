"""e-values against their definition and their mean, and error rates when one looks at every moment."""

from math import exp, gamma, log, sqrt

import numpy as np
import pytest
import scipy.special
import scipy.stats

from refcheck import anytime, inference
from refcheck.tally import Tally


def test_e_value_is_the_formula():
    counts, q, total = [3, 0, 2], [0.5, 0.2, 0.3], 3.0
    a = [total * share for share in q]
    value = gamma(total) / gamma(5 + total)
    for n, weight, share in zip(counts, a, q, strict=True):
        value *= gamma(weight + n) / gamma(weight) / share**n
    assert exp(anytime.log_e_value(counts, q)) == pytest.approx(value, rel=1e-12)
    assert anytime.log_e_value([0, 0, 0], q) == 0


@pytest.mark.parametrize("q", [[0.5, 0.5], [0.6, 0.3, 0.1], [1 / 37, 18 / 37, 18 / 37], [0.4, 0.6, 0.0]])
@pytest.mark.parametrize("concentration", [None, 0.3, 40.0])
def test_mean_under_the_hypothesis_is_one(q, concentration):
    tallies = inference.lattice(7, len(q))
    weights = scipy.stats.multinomial.pmf(tallies, 7, q)
    seen = weights > 0
    assert weights[seen] @ np.exp(anytime.log_e_value(tallies[seen], q, concentration)) == pytest.approx(1, abs=1e-10)


def test_process_is_the_e_value_of_every_prefix():
    y = np.random.default_rng(0).choice(4, size=60, p=[0.1, 0.2, 0.3, 0.4])
    q = [0.4, 0.3, 0.2, 0.1]
    prefixes = [np.bincount(y[: t + 1], minlength=4) for t in range(60)]
    assert anytime.log_e_process(y, q, 2.0) == pytest.approx(anytime.log_e_value(prefixes, q, 2.0), abs=1e-10)
    assert anytime.log_e_process([], q).shape == (0,)


@pytest.mark.parametrize("violations", [0, 1, 50])
def test_an_excluded_outcome_makes_it_infinite_and_for_ever(violations):
    q = [0.5, 0.5, 0.0]
    value = anytime.log_e_value([25, 25, violations], q)
    assert value == np.inf if violations else np.isfinite(value)
    y = [0, 1] * 5 + [2] * violations + [0, 1]
    process = anytime.log_e_process(y, q)
    assert not np.isnan(process).any()
    assert np.isfinite(process[:10]).all()
    assert (process[-1] == np.inf) == bool(violations)
    interval = anytime.distance_interval([25, 25, violations], q)
    assert 0 <= interval.low <= interval.tvd <= interval.high <= 1
    assert (violations < 50) or interval.low > 0.25


@pytest.mark.parametrize("q", [[0.5, 0.5], [1 / 6] * 6, [18 / 37, 18 / 37, 1 / 37]])
def test_false_alarms_at_every_moment_are_at_most_alpha(q):
    # 1,000 runs looked at after each of 2,000 rollouts; alpha + 3 standard errors is .071: false alarm below .2 %. A
    # chi-square looked at as often is wrong in about half the runs: it must be above .3 here. Fixed seed.
    rng, q, alpha, runs = np.random.default_rng([1, len(q)]), np.array(q), 0.05, 1_000
    alarms = peeking = 0
    for _ in range(runs):
        y = rng.choice(q.size, size=2_000, p=q)
        alarms += anytime.log_e_process(y, q).max() >= log(1 / alpha)
    for _ in range(200):
        counts = np.cumsum(rng.choice(q.size, size=2_000, p=q)[:, None] == np.arange(q.size), axis=0)[20:]
        n = counts.sum(1, keepdims=True)
        peeking += (((counts - n * q) ** 2 / (n * q)).sum(1) > scipy.stats.chi2.isf(alpha, q.size - 1)).any()
    assert alarms / runs <= alpha + 3 * sqrt(alpha * (1 - alpha) / runs)
    assert peeking / 200 > 0.3


def test_a_wrong_reference_is_found():
    y = np.random.default_rng(2).choice(2, size=3_000, p=[0.4, 0.6])
    assert anytime.log_e_process(y, [0.5, 0.5])[-1] > log(1e6)


@pytest.mark.parametrize(
    ("counts", "q"), [([40, 35, 25], [0.5, 0.3, 0.2]), ([90, 10, 0], [1 / 3] * 3), ([20, 50, 4], [0.5, 0.5, 0.0])]
)
def test_interval_is_what_an_optimiser_finds_over_the_region(counts, q):
    # The region {p: E(p) < 1/alpha} with a = 1/2 each, over a fine grid: the bounds must hold it, and not by much.
    counts, q, alpha = np.array(counts), np.array(q), 0.05
    found = anytime.distance_interval(counts, q, alpha)
    steps = np.linspace(1e-9, 1, 1_201)
    p = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2)
    p = np.column_stack([p, 1 - p.sum(1)])
    p = p[p[:, 2] > 0]
    n = counts.sum()
    log_mixture = log(gamma(1.5)) - scipy.special.gammaln(n + 1.5)
    log_mixture += sum(scipy.special.gammaln(0.5 + x) - log(gamma(0.5)) for x in counts)
    inside = p[log_mixture - np.where(counts > 0, counts * np.log(p), 0).sum(1) < log(1 / alpha)]
    distances = np.abs(inside - q).sum(1) / 2
    assert found.low <= distances.min() + 1e-9
    assert found.high >= distances.max() - 1e-9
    assert found.low >= distances.min() - 0.02
    assert found.high <= distances.max() + 0.05


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.5], [0.5, 0.5]),
        ([0.3, 0.2, 0.2, 0.1, 0.1, 0.1], [1 / 6] * 6),
        ([18 / 37, 17 / 37, 2 / 37], [18 / 37, 18 / 37, 1 / 37]),
        ([0.5, 0.49, 0.01], [0.5, 0.5, 0.0]),
    ],
)
def test_the_sequence_misses_at_most_alpha_at_any_look(p, q):
    # 150 runs of 12 looks; alpha + 3 standard errors is .173: false alarm below .2 %. Fixed seed.
    rng, alpha, runs, missed = np.random.default_rng([3, len(p)]), 0.1, 150, 0
    truth = np.abs(np.array(p) - q).sum() / 2
    for _ in range(runs):
        counts = rng.multinomial(30, p, size=12).cumsum(0)
        bounds = [anytime.distance_interval(look, q, alpha) for look in counts]
        missed += any(not bound.low <= truth <= bound.high for bound in bounds)
    assert missed / runs <= alpha + 3 * sqrt(alpha * (1 - alpha) / runs)


def test_the_interval_closes_on_the_truth():
    rng = np.random.default_rng(4)
    p = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    widths = []
    for n in (100, 1_000, 10_000, 100_000):
        found = anytime.distance_interval(rng.multinomial(n, p), [1 / 6] * 6)
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.03


def test_a_score_stops_when_it_knows_enough_and_not_before():
    rng = np.random.default_rng(5)
    y = rng.choice([-1, 0, 1], size=20_000, p=[0.1, 0.6, 0.3])
    found = anytime.score_until(y, [0.5, 0.5], 0.1, look=50)
    assert found.stopped
    assert (found.valid + found.nulls) % 50 == 0
    seen = y[: found.valid + found.nulls]
    counts = np.bincount(seen[seen >= 0], minlength=2)
    assert found.interval == anytime.distance_interval(counts, [0.5, 0.5])
    assert found.interval.high - found.interval.low <= 0.1
    before = seen[:-50]
    earlier = anytime.distance_interval(np.bincount(before[before >= 0], minlength=2), [0.5, 0.5])
    assert earlier.high - earlier.low > 0.1
    assert found.interval.low <= 1 / 6 <= found.interval.high
    assert found.log_e_value == anytime.log_e_value(counts, [0.5, 0.5])
    assert not anytime.score_until(y[:40], [0.5, 0.5], 0.1).stopped
    nothing = anytime.score_until(np.full(7, -1), [0.5, 0.5], 0.1)
    assert (nothing.valid, nothing.nulls, nothing.interval.high, nothing.log_e_value) == (0, 7, 1, 0)


def test_renaming_the_labels_changes_nothing():
    counts, q, order = np.array([4, 9, 0, 2, 5]), np.array([0.1, 0.3, 0.2, 0.15, 0.25]), [3, 0, 4, 1, 2]
    assert anytime.log_e_value(counts[order], q[order]) == pytest.approx(float(anytime.log_e_value(counts, q)), abs=1e-10)
    one, other = anytime.distance_interval(counts, q), anytime.distance_interval(counts[order], q[order])
    assert (one.low, one.high) == (pytest.approx(other.low, abs=1e-9), pytest.approx(other.high, abs=1e-9))


def test_refusals_and_no_rollout():
    assert anytime.distance_interval([0, 0], [0.5, 0.5]).high == 1
    with pytest.raises(ValueError, match="independent rollouts"):
        anytime.log_e_value(Tally(("a", "b"), (1, 1), sampling="quota"), [0.5, 0.5])
    with pytest.raises(ValueError, match="coupled"):
        anytime.log_e_process([0, 1], [0.5, 0.5], sampling="coupled")
    with pytest.raises(ValueError, match="`outcomes`"):
        anytime.log_e_process([0, -1], [0.5, 0.5])
    with pytest.raises(ValueError, match="`concentration`"):
        anytime.log_e_value([1, 1], [0.5, 0.5], 0)
    with pytest.raises(ValueError, match="`width`"):
        anytime.score_until([0, 1], [0.5, 0.5], 0)
    with pytest.raises(ValueError, match="`outcomes`"):
        anytime.score_until([0, 2], [0.5, 0.5], 0.1)
    with pytest.raises(ValueError, match="`alpha`"):
        anytime.distance_interval([1, 1], [0.5, 0.5], 1.0)
