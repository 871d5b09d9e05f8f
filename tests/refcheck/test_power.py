"""Power and smallest detectable contamination against CaliBench's figures, the binomial test, and brute force."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from refcheck import power
from refcheck.calibench import SCENES

EXPECTED = json.loads((Path(__file__).parent / "data" / "calibench_expected.json").read_text())["power"]
CASES = {
    "galton": ("galton_board", 5),
    "binary": ("ball", 0),
    "dice": ("dice", 0),
    "cards": ("cards", 0),
    "lottery": ("lottery", 0),
    "roulette": ("roulette", 2),
}


@pytest.mark.parametrize("n", ["32", "16"])
@pytest.mark.parametrize("case", CASES)
def test_published_smallest_detectable(n, case):
    # 50,000 draws where the lattice is large: epsilon's standard error is below .001 there. Fixed seed.
    scene, spike = CASES[case]
    found = power.smallest_detectable(int(n), SCENES[scene].array(), spike, np.random.default_rng(1))
    assert found.epsilon == pytest.approx(EXPECTED[n][case]["eps"], abs=0.01)
    assert found.tvd == pytest.approx(EXPECTED[n][case]["tv"], abs=0.01)


def test_power_of_a_coin_is_the_binomial_tail():
    # n = 32, published rule: reject at |heads - 16| >= 6.
    for epsilon in (0.0, 0.2, 0.6):
        p = 0.5 + epsilon / 2
        expected = scipy.stats.binom.cdf(10, 32, p) + scipy.stats.binom.sf(21, 32, p)
        found = power.contamination_power(32, [0.5, 0.5], 0, epsilon, np.random.default_rng(0))
        assert found == pytest.approx(expected, rel=1e-9)


def test_the_level_rule_keeps_its_level():
    for n in (5, 16, 32):
        found = power.smallest_detectable(n, [0.5, 0.5], 0, np.random.default_rng(0), rule="level")
        assert found.size <= 0.05
    assert power.smallest_detectable(16, [0.5, 0.5], 0, np.random.default_rng(0)).size > 0.05
    assert np.isnan(power.smallest_detectable(2, [0.5, 0.5], 0, np.random.default_rng(0), rule="level").epsilon)


def test_draws_agree_with_the_lattice(monkeypatch):
    # 20,000 draws: 4 standard errors of a power near .8 are .011; false alarm 6e-5. Fixed seed.
    exact = power.contamination_power(32, [0.25] * 4, 0, 0.35, np.random.default_rng(0))
    monkeypatch.setattr(power, "LATTICE", 1)
    drawn = power.contamination_power(32, [0.25] * 4, 0, 0.35, np.random.default_rng(0), draws=20_000)
    assert drawn == pytest.approx(exact, abs=0.011)


def test_refusals():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="coupled"):
        power.smallest_detectable(32, [0.5, 0.5], 0, rng, sampling="coupled")
    with pytest.raises(ValueError, match="`epsilon`"):
        power.contaminated([0.5, 0.5], 2, 0.1)
    with pytest.raises(ValueError, match="`power`"):
        power.smallest_detectable(32, [0.5, 0.5], 0, rng, power=1.0)
