"""Ordered distances against scipy, closed forms, and the sampler they are there to find."""

import numpy as np
import pytest
import scipy.stats

from refcheck import ordered
from refcheck.tally import Tally

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("case", range(6))
def test_binned_distances_agree_with_scipy(case):
    rng = np.random.default_rng(case)
    k = 2 + case
    positions, q = np.sort(rng.normal(size=k)), rng.dirichlet(np.ones(k))
    counts = rng.multinomial(30, rng.dirichlet(np.ones(k)))
    args = (positions, positions, counts, q)
    assert ordered.wasserstein(counts, q, positions) == pytest.approx(scipy.stats.wasserstein_distance(*args), abs=1e-12)
    assert ordered.energy(counts, q, positions) == pytest.approx(scipy.stats.energy_distance(*args), abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_sample_distances_agree_with_scipy(ties):
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=20), rng.normal(0.4, size=33)
    if ties:
        a, b = a.round(1), b.round(1)
    assert ordered.sample_distance(a, b) == pytest.approx(scipy.stats.wasserstein_distance(a, b), abs=1e-12)
    assert ordered.sample_distance(a, b, "energy") == pytest.approx(scipy.stats.energy_distance(a, b), abs=1e-12)
    one_sided = [scipy.stats.ks_2samp(a, b, alternative=side, method="asymp").statistic for side in ("less", "greater")]
    assert ordered.sample_distance(a, b, "kuiper") == pytest.approx(sum(one_sided), abs=1e-12)


def test_nothing_happens_within_a_tie():
    for kind in ("wasserstein", "energy", "kuiper"):
        assert ordered.sample_distance([1, 1, 1], [1, 1], kind) == 0
        assert ordered.sample_distance([1, 1, 2, 2], [1, 2], kind) == pytest.approx(0, abs=1e-12)


def test_uniform_kuiper_is_the_sum_of_the_one_sided_kolmogorov_distances():
    u = np.random.default_rng(4).random(40)
    expected = sum(scipy.stats.kstest(u, "uniform", alternative=side).statistic for side in ("less", "greater"))
    assert ordered.uniform_kuiper(u) == pytest.approx(expected, abs=1e-12)


def test_kuiper_does_not_care_where_the_circle_is_cut():
    u = np.random.default_rng(5).random(50) ** 2
    assert ordered.uniform_kuiper(u + 0.37) == pytest.approx(ordered.uniform_kuiper(u), abs=1e-12)
    counts, q = np.array([5, 1, 9, 2, 3]), np.array([0.1, 0.3, 0.2, 0.15, 0.25])
    assert ordered.kuiper(np.roll(counts, 2), np.roll(q, 2)) == pytest.approx(float(ordered.kuiper(counts, q)), abs=1e-12)


def test_asymptotic_tail_of_kuiper():
    # Kuiper 1960 with Stephens' correction: V* = V (sqrt n + .155 + .24 / sqrt n); the 5 % point is 1.747.
    n = 100
    drawn = np.sort(np.random.default_rng(6).random((20_000, n)), axis=-1)
    tail = (ordered._uniform_kuiper(drawn) * (n**0.5 + 0.155 + 0.24 / n**0.5) >= 1.747).mean()
    assert tail == pytest.approx(0.05, abs=0.0062)  # 4 standard errors: false alarm 6e-5


def test_a_sampler_right_in_its_bins_and_wrong_within_them_is_found():
    rng = np.random.default_rng(7)
    honest = rng.random(2_000)
    u = (np.arange(200) % 4 + 0.05 + 0.1 * rng.random(200)) / 4  # four sectors equally often, always near their start
    assert np.bincount((4 * u).astype(int)).tolist() == [50] * 4
    for kind in ("wasserstein", "energy", "kuiper"):
        assert ordered.sample_test(u, honest, rng, kind, 999).p < 0.05
    assert ordered.uniform_test(u, rng, 999).p == 1 / 1000


@pytest.mark.parametrize("kind", ["wasserstein", "energy", "kuiper"])
def test_p_values_keep_their_level(kind):
    # 300 runs; p <= .1 in at most .1 + 3 standard errors = .152: false alarm .2 %. Fixed seed.
    rng, low = np.random.default_rng([8, len(kind)]), [0, 0]
    q, positions = np.array([0.1, 0.4, 0.3, 0.2]), [1, 2, 3, 4]
    for _ in range(300):
        low[0] += ordered.ordered_test(rng.multinomial(40, q), q, rng, kind, positions, 199).p <= 0.1
        low[1] += ordered.sample_test(rng.normal(size=15), rng.normal(size=20), rng, kind, 199).p <= 0.1
    assert max(low) / 300 <= 0.152


def test_far_is_farther_than_near_where_tvd_sees_no_difference():
    q = [0.25] * 4
    near, far = [5, 15, 10, 10], [5, 10, 10, 15]
    for distance in (ordered.wasserstein, ordered.energy):
        assert distance(far, q, [0, 1, 2, 3]) > distance(near, q, [0, 1, 2, 3])


def test_leading_axes_and_no_rollout():
    counts = np.array([[[1, 2, 3]], [[0, 0, 0]]])
    values = ordered.wasserstein(counts, [0.2, 0.3, 0.5], [0, 1, 3])
    assert values.shape == (2, 1)
    assert np.isnan(values[1, 0])


def test_refusals():
    with pytest.raises(ValueError, match="increasing"):
        ordered.wasserstein([1, 2], [0.5, 0.5], [1, 1])
    with pytest.raises(ValueError, match="`positions`"):
        ordered.ordered_test([1, 2], [0.5, 0.5], RNG)
    with pytest.raises(ValueError, match="without a valid"):
        ordered.ordered_test([0, 0], [0.5, 0.5], RNG, "kuiper")
    with pytest.raises(ValueError, match="independent rollouts"):
        ordered.ordered_test(Tally(("a", "b"), (1, 1), sampling="quota"), [0.5, 0.5], RNG, "kuiper")
    with pytest.raises(ValueError, match="finite"):
        ordered.sample_test([1, np.nan], [1, 2], RNG)
