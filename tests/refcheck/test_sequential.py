"""The sequential certificate against closed forms, numerical integration, and error rates by simulation."""

from math import comb, log, sqrt

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad
from scipy.special import betaln

from refcheck import sequential
from refcheck.sequential import LOOK, SequentialTest


@pytest.mark.parametrize("alpha", [0.01, 0.05])
@pytest.mark.parametrize("n", [256, 9_472, 100_096])
def test_radius_is_where_the_half_normal_mixture_reaches_one_over_alpha(n, alpha):
    # The bound is a closed form just outside the mixture's own boundary (Howard et al. 2021): there, the mixture by
    # numerical integration is at least 1/alpha, and not by much.
    rho = sequential.mixture_rho(0.02, alpha)
    total, v = n * sequential.mixture_radius(n, rho, alpha), n / 4
    peak = total / (v + rho)
    value, _ = quad(
        lambda x: 2 * scipy.stats.norm.pdf(x, scale=1 / sqrt(rho)) * np.exp(x * total - x * x * v / 2),
        0,
        peak + 12 / sqrt(v + rho),
        points=[peak],
        limit=200,
    )
    assert 1 <= value * alpha < 1.2


def test_rho_makes_the_radius_tightest_near_its_target():
    target, alpha = 4 * round(1 / 0.02**2), 0.01
    best = sequential.mixture_radius(target, sequential.mixture_rho(0.02, alpha), alpha)
    others = [sequential.mixture_radius(target, 10**power, alpha) for power in np.linspace(0, 5, 200)]
    assert best <= min(others) * 1.002


@pytest.mark.parametrize(("nulls", "n"), [(0, 768), (5, 768), (400, 768), (767, 768), (768, 768), (1, 10**6)])
def test_null_interval_ends_solve_the_mixture_equation(nulls, n):
    low, high = sequential.beta_binomial_interval(nulls, n, 0.01)
    assert 0 <= low <= nulls / n <= high <= 1
    for end in {low, high} - {0.0, 1.0}:
        likelihood = nulls * log(end) + (n - nulls) * np.log1p(-end)
        assert betaln(nulls + 1, n - nulls + 1) - likelihood == pytest.approx(log(100), abs=1e-5)
    assert (low == 0) == (nulls == 0)
    assert (high == 1) == (nulls == n)


def test_null_interval_without_a_null_in_closed_form():
    # m = 0: (1 - p)^n = alpha / (n + 1)
    assert sequential.beta_binomial_interval(0, 512, 0.05) == (0, pytest.approx(1 - (0.05 / 513) ** (1 / 512), rel=1e-12))
    assert sequential.beta_binomial_interval(0, 0, 0.05) == (0, 1)


def test_null_interval_misses_at_most_alpha_at_all_looks_at_once():
    # 1,000 runs of 80 looks at a true rate of .02; alpha + 3 standard errors: false alarm below .2 %. Fixed seed.
    rng, alpha, runs, missed = np.random.default_rng(5), 0.05, 1_000, 0
    for nulls in rng.binomial(LOOK, 0.02, size=(runs, 80)).cumsum(1):
        ends = [sequential.beta_binomial_interval(int(m), LOOK * (i + 1), alpha) for i, m in enumerate(nulls) if i % 4 == 3]
        missed += any(low > 0.02 or high < 0.02 for low, high in ends)
    assert missed / runs <= alpha + 3 * sqrt(alpha * (1 - alpha) / runs)


BINOMIAL = np.array([comb(10, i) / 1024 for i in range(11)])
SHIFTS = {
    2: (np.full(2, 1 / 2), np.array([1.0, -1.0])),
    6: (np.full(6, 1 / 6), np.array([1, 1, 1, -1, -1, -1]) / 3),
    11: (BINOMIAL, np.array([0, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0.0])),
}


def ends(q, p, epsilon, alpha, looks, runs, rng):
    """Run the test on rollouts from p; return the shares that end in holds and in fails, and the valid rollouts taken."""
    verdicts, taken = [], []
    for _ in range(runs):
        test = SequentialTest(q, epsilon, alpha)
        while test.state.verdict == "undecided" and test.state.looks < looks:
            test.update(rng.choice(q.size, size=LOOK, p=p))
        verdicts.append(test.state.verdict)
        taken.append(test.state.n)
    return verdicts.count("holds") / runs, verdicts.count("fails") / runs, np.array(taken)


@pytest.mark.parametrize("k", SHIFTS)
def test_false_verdicts_are_at_most_alpha(k):
    # 400 runs of up to 20 looks; alpha + 3 standard errors is .083, so a false alarm has less than .2 % a check. Fixed seed.
    q, direction = SHIFTS[k]
    rng, epsilon, alpha, runs = np.random.default_rng([2, k]), 0.1, 0.05, 400
    limit = alpha + 3 * sqrt(alpha * (1 - alpha) / runs)
    false_holds, _, _ = ends(q, q + epsilon * direction, epsilon, alpha, 20, runs, rng)
    _, false_fails, _ = ends(q, q + 0.99 * epsilon * direction, epsilon, alpha, 20, runs, rng)
    assert false_holds <= limit
    assert false_fails <= limit


@pytest.mark.parametrize("k", SHIFTS)
def test_true_verdicts_are_reached(k):
    # 40 runs each; were wrong verdicts as likely as alpha allows, 7 or more of 40 would have a chance of .4 %. Fixed seed.
    q, direction = SHIFTS[k]
    rng = np.random.default_rng([3, k])
    assert ends(q, q, 0.1, 0.05, 40, 40, rng)[0] >= 0.85
    assert ends(q, q + 0.2 * direction, 0.1, 0.05, 80, 40, rng)[1] >= 0.85


@pytest.mark.parametrize(("share", "side"), [(0.4, 0), (0.1, 1)])
def test_the_simulation_would_see_a_radius_that_is_too_small(monkeypatch, share, side):
    # The check of the check: with part of the radius, false verdicts pass the limit. `fails` needs a smaller part, since
    # the first look earns L nothing and `holds` ends many of the runs. Fixed seed.
    radius = sequential.mixture_radius
    monkeypatch.setattr(sequential, "mixture_radius", lambda *args: share * radius(*args))
    q, direction = SHIFTS[2]
    distance = (0.1, 0.099)[side]
    assert ends(q, q + distance * direction, 0.1, 0.05, 20, 200, np.random.default_rng(4))[side] > 0.083


def towards(q, gains, losses, epsilon):
    """Move `epsilon` of the mass of q from the outcomes `losses`, in proportion to what they have, to `gains`, evenly."""
    p = q.copy()
    p[losses] -= epsilon * q[losses] / q[losses].sum()
    p[gains] += epsilon / len(gains)
    assert p.min() >= 0
    return p


def even(k):
    return np.full(k, 1 / k)


ROULETTE = np.array([18, 18, 1]) / 37
ZEROS = np.array([0.4, 0.3, 0.3, 0.0, 0.0, 0.0])
SKEWED = np.append(np.full(10, 1 / 370), 36 / 37)  # ten rare outcomes and a common one
HARD = {  # q, outcomes that gain, outcomes that lose
    "2": (even(2), [0], [1]),
    "2 skewed to 1/37": (np.array([1, 36]) / 37, [0], [1]),
    "3 even": (even(3), [0], [1, 2]),
    "3 roulette, green gains": (ROULETTE, [2], [0, 1]),
    "3 roulette, red gains from black": (ROULETTE, [0], [1]),
    "6 half to half": (even(6), [0, 1, 2], [3, 4, 5]),
    "6 one to one": (even(6), [0], [1]),
    "6 all to one": (even(6), [0], [1, 2, 3, 4, 5]),
    "6 with three zeros, none used": (ZEROS, [0], [1, 2]),
    "6 with three zeros, one used": (ZEROS, [3], [0, 1, 2]),
    "6 with three zeros, all used": (ZEROS, [3, 4, 5], [0, 1, 2]),
    "11 binomial, middle": (BINOMIAL, [3], [5]),
    "11 binomial, tails gain": (BINOMIAL, [0, 1, 9, 10], [4, 5, 6]),
    "11 skewed, the rare gain": (SKEWED, list(range(10)), [10]),
    "20 half to half": (even(20), list(range(10)), list(range(10, 20))),
    "20 one gains": (even(20), [0], list(range(1, 20))),
    "37 half to half": (even(37), list(range(18)), list(range(18, 37))),
    "37 one gains": (even(37), [0], list(range(1, 37))),
    "37 one to two": (even(37), [0], [1, 2]),
}


def many(q, p, epsilon, alpha, looks, runs, rng):
    """Run the test as `ends` does, all runs at once and with no limit on nulls: the shares that end in holds and in fails."""
    counts, gain = np.zeros((runs, q.size), np.int64), np.zeros(runs)
    verdict, rho = np.zeros(runs, int), sequential.mixture_rho(epsilon, alpha)
    for look in range(looks):
        favoured = counts > q * counts.sum(1, keepdims=True)
        new = rng.multinomial(LOOK, p, size=runs)
        gain += (new * favoured).sum(1) - LOOK * (favoured @ q)
        counts += new
        n = LOOK * (look + 1)
        radius = sequential.mixture_radius(n, rho, alpha)
        holds = np.abs(counts / n - q).sum(1) / 2 + radius < epsilon
        fails = gain / n - radius > epsilon
        verdict = np.where(verdict == 0, np.where(fails, -1, np.where(holds, 1, 0)), verdict)
    return (verdict == 1).mean(), (verdict == -1).mean()


class _Replay:
    """A generator whose multinomial rows are given."""

    def __init__(self, rows):
        self.rows = iter(rows)

    def multinomial(self, *args, **kwargs):
        return next(self.rows)


@pytest.mark.parametrize("case", ["3 roulette, green gains", "6 with three zeros, one used", "37 half to half"])
def test_many_runs_at_once_are_the_test_itself(case):
    q, gains, losses = HARD[case]
    for shift, side in ((0.0, 0), (0.3, 1)):
        rng = np.random.default_rng([14, q.size])
        p, looks = towards(q, gains, losses, shift), 40
        rows = rng.multinomial(LOOK, p, size=(looks, 5))
        fast = many(q, p, 0.12, 0.05, looks, 5, _Replay(rows))
        verdicts = []
        for run in range(5):
            test, look = SequentialTest(q, 0.12, 0.05, null_limit=0.99), 0
            while test.state.verdict == "undecided" and look < looks:
                test.update(rng.permutation(np.repeat(np.arange(q.size), rows[look, run])))
                look += 1
            verdicts.append(test.state.verdict)
        assert fast == (verdicts.count("holds") / 5, verdicts.count("fails") / 5)
        assert fast[side] == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", HARD)
def test_false_verdicts_are_at_most_alpha_in_hard_directions(case, record_property):
    # 10,000 runs of up to 150 looks, stopped at the first verdict. A rate of .05 has a Monte-Carlo standard error of .0022;
    # the limit alpha + 3 of them is .0565: false alarm below .2 % a check. Fixed seed.
    q, gains, losses = HARD[case]
    epsilon, alpha, runs = 0.05, 0.05, 10_000
    rng = np.random.default_rng([13, len(case), q.size])
    holds, _ = many(q, towards(q, gains, losses, epsilon), epsilon, alpha, 150, runs, rng)
    _, fails = many(q, towards(q, gains, losses, 0.99 * epsilon), epsilon, alpha, 150, runs, rng)
    for name, rate in (("false holds", holds), ("false fails", fails)):
        record_property(name, f"{rate:.4f} +- {sqrt(rate * (1 - rate) / runs):.4f}")
        print(f"{case}: {name} {rate:.4f} +- {sqrt(rate * (1 - rate) / runs):.4f}")
        assert rate <= alpha + 3 * sqrt(alpha * (1 - alpha) / runs)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "median"), [(np.full(2, 1 / 2), 9_500), (np.full(6, 1 / 6), 15_600), (BINOMIAL, 17_700)])
def test_rollouts_needed_when_the_reference_holds(q, median):
    # The design's medians at epsilon .02, alpha .01, p = q. A median of 300 has a standard error of 2 to 3 %, a look is
    # 256 rollouts; 10 % leaves a false alarm below 1 %. Fixed seed.
    holds, _, taken = ends(q, q, 0.02, 0.01, 400, 300, np.random.default_rng([8, q.size]))
    assert holds >= 0.98
    assert np.median(taken) == pytest.approx(median, rel=0.1)


def until_decided(test, look, limit=200):
    """Feed looks until there is a verdict, or `limit` of them have given none."""
    while test.state.verdict == "undecided" and test.state.looks < limit:
        test.update(look())
    return test.state


def naive(q, outcomes, epsilon, alpha):
    """The design's U and L one rollout at a time, as written: the favoured set is renewed after each look."""
    rho = sequential.mixture_rho(epsilon, alpha)
    k, valid, gain, favoured = len(q), [], 0.0, set()
    for index, y in enumerate(outcomes, 1):
        if y >= 0:
            valid.append(y)
            gain += (y in favoured) - sum(q[i] for i in favoured)
        if index % LOOK == 0:
            favoured = {i for i in range(k) if valid.count(i) / len(valid) > q[i]}
    n = len(valid)
    radius = sqrt(2 * (n / 4 + rho) * log(1 + sqrt((n / 4 + rho) / rho) / (2 * alpha))) / n
    distance = sum(abs(valid.count(i) / n - q[i]) for i in range(k)) / 2
    return gain / n - radius, distance + radius, n


def test_bounds_are_the_formulas_of_the_design():
    q = np.array([0.5, 0.3, 0.2, 0.0])
    y = np.random.default_rng(9).choice([-1, 0, 1, 2, 3], size=6 * LOOK, p=[0.1, 0.3, 0.2, 0.2, 0.2])
    test = SequentialTest(q, 0.24, 0.01, null_limit=0.5)
    for look in range(6):
        state = test.update(y[look * LOOK : (look + 1) * LOOK])
    lower, upper, n = naive(q, y.tolist(), 0.24, 0.01)
    assert lower > 0
    assert (state.lower, state.upper) == (pytest.approx(lower, abs=1e-12), pytest.approx(min(1, upper), abs=1e-12))
    assert (state.n, state.nulls, state.looks) == (n, 6 * LOOK - n, 6)
    assert state.counts == tuple(np.bincount(y[y >= 0], minlength=4))


def test_an_outcome_the_reference_excludes_leads_to_fails():
    test = SequentialTest([0.5, 0.5, 0.0], 0.05, 0.01)
    rng = np.random.default_rng(10)
    state = until_decided(test, lambda: rng.choice(3, size=LOOK, p=[0.4, 0.4, 0.2]))
    assert (state.verdict, state.reason) == ("fails", "distance")


def test_nulls_alone_can_fail_and_can_withhold_holds():
    def alternating(nulls):
        y = np.arange(LOOK) % 2
        y[:nulls] = -1
        return y

    many = SequentialTest([0.5, 0.5], 0.1)
    until_decided(many, lambda: alternating(20))
    assert (many.state.verdict, many.state.reason) == ("fails", "nulls")
    assert many.state.null_lower > 0.02
    some = SequentialTest([0.5, 0.5], 0.1)
    for _ in range(40):
        some.update(alternating(4))  # 1.6 %: too near the limit to be told from it
    assert some.state.verdict == "undecided"
    assert some.state.upper < 0.1 and some.state.null_upper > 0.02
    every = SequentialTest([0.5, 0.5], 0.1)
    state = every.update(np.full(LOOK, -1))
    assert (state.verdict, state.n, state.lower, state.upper) == ("fails", 0, 0, 1)
    assert np.isnan(state.tvd)


def test_nothing_is_decided_before_the_first_look():
    state = SequentialTest([0.5, 0.5], 0.1).state
    assert (state.verdict, state.n, state.looks, state.lower, state.upper) == ("undecided", 0, 0, 0, 1)
    assert (state.null_lower, state.null_upper) == (0, 1)


@pytest.mark.parametrize(
    "outcomes", [np.zeros(LOOK + 1, int), np.zeros(0, int), np.zeros(5), [2], [-2], np.zeros((2, 2), int), [True]]
)
def test_what_is_no_look_is_refused(outcomes):
    with pytest.raises(ValueError):
        SequentialTest([0.5, 0.5], 0.1).update(outcomes)


def test_a_short_look_is_the_last_and_a_verdict_is_final():
    test = SequentialTest([0.5, 0.5], 0.1)
    test.update([0, 1])
    with pytest.raises(ValueError, match="look"):
        test.update([0, 1])
    test = SequentialTest([0.5, 0.5], 0.1)
    until_decided(test, lambda: np.zeros(LOOK, int))
    with pytest.raises(ValueError, match="ended"):
        test.update(np.zeros(LOOK, int))


@pytest.mark.parametrize(
    "change", [{"epsilon": 0}, {"epsilon": 1}, {"alpha": 0.5}, {"alpha": float("nan")}, {"null_limit": 0}, {"q": [0.5, 0.6]}]
)
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(ValueError, match="must"):
        SequentialTest(**({"q": [0.5, 0.5], "epsilon": 0.1} | change))
