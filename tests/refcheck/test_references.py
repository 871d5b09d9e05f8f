"""Sets of references against brute force, two samples against scipy and published tallies of real dice."""

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import refcheck
from refcheck import inference, metrics, references
from refcheck.tally import Tally

DATA = Path(refcheck.__file__).parent / "data"


def wolf(die):
    rows = csv.DictReader((DATA / "dice_wolf.csv").read_text().splitlines())
    return np.array([int(row["count"]) for row in rows if row["die"] == die])


def weldon():
    return np.array([int(row["count"]) for row in csv.DictReader((DATA / "dice_weldon.csv").read_text().splitlines())])


@pytest.mark.parametrize("seed", range(30))
def test_range_over_a_set_is_that_of_its_vertices_and_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(3))
    low, high = np.maximum(q - rng.uniform(0, 0.2, 3), 0), np.minimum(q + rng.uniform(0, 0.2, 3), 1)
    counts = rng.multinomial(20, rng.dirichlet(np.ones(3)))
    steps = [np.linspace(low[i], high[i], 161) for i in range(2)]
    grid = np.array([(a, b, 1 - a - b) for a, b in product(*steps)])
    ends = []  # vertices of the set: all but one outcome at an end
    for i in range(3):
        for picks in product((0, 1), repeat=2):
            point = np.where(np.insert(picks, i, 0), high, low).astype(float)
            point[i] = 1 - np.delete(point, i).sum()
            ends.append(point)
    grid = np.vstack([grid, ends])
    grid = grid[np.all((grid >= low - 1e-12) & (grid <= high + 1e-12), axis=1)]
    distances = np.abs(counts / 20 - grid).sum(1) / 2
    found = references.distance_range(counts, q, low, high)
    assert found.largest == pytest.approx(distances.max(), abs=1e-9)  # a convex function: at a vertex
    assert distances.min() - 0.004 <= found.smallest <= distances.min() + 1e-9
    assert found.smallest - 1e-12 <= found.frozen <= found.largest + 1e-9
    assert found.frozen == pytest.approx(float(metrics.tvd(counts, q)))


def test_a_set_of_one_is_the_frozen_reference():
    q = [0.5, 0.3, 0.2]
    found = references.distance_range([5, 5, 0], q, q, q)
    assert (found.smallest, found.largest) == (pytest.approx(found.frozen), pytest.approx(found.frozen))
    wide = references.distance_range([5, 5, 0], q, [0] * 3, [1] * 3)
    assert (wide.smallest, wide.largest) == (pytest.approx(0), pytest.approx(1))
    assert np.isnan(references.distance_range([0, 0, 0], q, q, q).smallest)


def test_two_sample_statistics():
    a, b = np.array([10, 20, 5, 0]), np.array([7, 9, 30, 0])
    expected = scipy.stats.chi2_contingency(np.array([a, b])[:, :3], correction=False).statistic
    assert references.two_sample_chi_square(a, b) == pytest.approx(expected, rel=1e-12)
    assert references.two_sample_tvd(a, b) == pytest.approx(np.abs(a / 35 - b / 46).sum() / 2)
    assert np.isnan(references.two_sample_tvd([[0, 0], [1, 0]], [1, 1])[0])


def test_two_coins_are_fishers_exact_test():
    # Two-sided Fisher orders tables by probability and the chi-square orders them by distance: the same where n = m.
    # 40,000 draws: 4 standard errors of p are at most .01; false alarm 6e-5. Fixed seed.
    found = references.two_sample([14, 6], [8, 12], np.random.default_rng(1), draws=40_000)
    assert found.p == pytest.approx(scipy.stats.fisher_exact([[14, 6], [8, 12]]).pvalue, abs=0.01)


def test_level_and_coverage_with_the_noise_of_both():
    # 300 runs. p <= .1 in at most .1 + 3 standard errors = .152 (false alarm .2 %). A 95 % interval that covers .85 fails
    # the second bound with a chance above .99, and one that covers .93 with less than .1 %. Fixed seed.
    rng = np.random.default_rng(2)
    p, q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.25] * 4)
    truth, rejected, covered = np.abs(p - q).sum() / 2, 0, [0, 0]
    for _ in range(300):
        same = references.two_sample(rng.multinomial(40, q), rng.multinomial(60, q), rng, draws=300)
        rejected += same.p <= 0.1
        covered[0] += same.interval.low <= 0
        other = references.two_sample(rng.multinomial(200, p), rng.multinomial(150, q), rng, draws=300)
        covered[1] += other.interval.low <= truth <= other.interval.high
    assert rejected / 300 <= 0.152
    assert min(covered) / 300 >= 0.89


def test_wolfs_dice():
    # Jaynes gives X^2 = 271 for the white die. Both are biased beyond doubt, and not alike.
    uniform = [1 / 6] * 6
    assert wolf("white").sum() == wolf("red").sum() == 20_000
    assert metrics.chi_square(wolf("white"), uniform) == pytest.approx(271, abs=0.5)
    rng = np.random.default_rng(3)
    assert inference.p_value(wolf("red"), uniform, rng, draws=1_000).value == 1 / 1_001
    found = references.two_sample(wolf("white"), wolf("red"), rng, draws=1_000)
    assert found.p == 1 / 1_001
    assert found.interval.low > found.band[1]


def test_weldons_dice():
    # 5 or 6 on 12 dice: not Binomial(12, 1/3), and well described by the p that fits, .3377.
    counts = weldon()
    assert counts.sum() == 26_306
    fitted = counts @ np.arange(11) / 12 / counts.sum()
    assert fitted == pytest.approx(0.3377, abs=1e-4)

    def binomial(p):
        law = scipy.stats.binom.pmf(np.arange(13), 12, p)
        return np.append(law[:10], law[10:].sum())

    rng = np.random.default_rng(4)
    assert inference.p_value(counts, binomial(1 / 3), rng, draws=4_000).value < 0.001
    assert inference.p_value(counts, binomial(fitted), rng, draws=4_000).value > 0.1


def test_refusals():
    rng = np.random.default_rng(5)
    with pytest.raises(ValueError, match="no distribution"):
        references.distance_range([1, 1], [0.5, 0.5], [0.6, 0.5], [0.7, 0.6])
    with pytest.raises(ValueError, match="frozen member"):
        references.distance_range([1, 1], [0.5, 0.5], [0.6, 0.1], [0.9, 0.4])
    with pytest.raises(ValueError, match="low <= high"):
        references.check_box([0.6], [0.5])
    with pytest.raises(ValueError, match="at least one valid"):
        references.two_sample([0, 0], [1, 1], rng)
    with pytest.raises(ValueError, match="independent rollouts"):
        references.two_sample(Tally(("a", "b"), (1, 1), sampling="quota"), [1, 1], rng)
