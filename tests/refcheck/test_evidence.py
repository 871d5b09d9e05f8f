"""Further checks of a certificate, on physics whose distance is known in closed form."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import norm

from refcheck import app
from refcheck.evidence import NOT_YET, Gatherer, sample_distance
from scenes.load import load_scene

KNOCK_OUT = """
knock_out:
  removes: the symmetry of the push
  overrides: [scene.device.random.release_x.loc=0.5e-3]
weak_point: the push
"""


@pytest.fixture
def with_knock_out(toy_conf):
    file = toy_conf / "wedge.yaml"
    file.write_text(file.read_text() + KNOCK_OUT)
    return load_scene("toy/wedge")


def test_a_knock_out_moves_the_outcomes_by_what_theory_says(with_knock_out):
    check = Gatherer(4000, seed=2).gather(with_knock_out).knock_out
    exact = norm.cdf(1.0) - 0.5  # P(x > 0) with a mean of one sd
    assert check.lower <= exact <= check.upper and check.lower > 0.2
    assert check.tvd == pytest.approx(exact, abs=0.04)  # five standard errors of the two shares
    assert "without the symmetry of the push" in check.said and check.n == 4000
    assert sum(check.shares.values()) == pytest.approx(1.0)


def test_half_the_step_of_an_exact_engine_changes_nothing(with_knock_out):
    check = Gatherer(500).gather(with_knock_out).step_halving
    assert (check.tvd, check.lower) == (0.0, 0.0) and "480 steps/s instead of 240" in check.said


def test_what_cannot_be_run_says_why(toy_conf):
    evidence = Gatherer(64).gather(load_scene("toy/wedge"))
    assert "only closed integrates" in evidence.second_integrator.said
    assert "none is declared" in evidence.knock_out.said
    assert evidence.knock_out.n == 0 and evidence.knock_out.tvd is None


def test_the_bounds_of_a_distance_hold_as_often_as_they_say():
    """400 pairs of samples, alpha .05: above 38 misses of an end would have probability below 1e-4 (binomial)."""
    draws = np.random.default_rng(7)
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    low = high = 0
    for _ in range(400):
        a, b = draws.choice(3, 300, p=p), draws.choice(3, 500, p=q)
        _, lower, upper = sample_distance(a, b, 3, 0.05)
        low, high = low + (lower > 0.1), high + (upper < 0.1)
    assert low <= 38 and high <= 38
    same = [sample_distance(draws.choice(3, 300, p=p), draws.choice(3, 300, p=p), 3, 0.05)[1] for _ in range(400)]
    assert np.mean(np.array(same) > 0.0) <= 0.095


def test_verify_gathers_it_and_writes_the_page_of_references(with_knock_out, tmp_path, capsys):
    words = ["verify", "scenes=toy/*", "epsilon=0.1", "workers=1", "evidence=300", f"out={tmp_path}"]
    assert app.main(words) == 0
    assert "Not gathered" not in capsys.readouterr().out
    one = json.loads((tmp_path / "result.json").read_text())["certificates"][0]
    assert one["evidence"]["knock_out"]["n"] == 300 and one["evidence"]["knock_out"]["said"] != NOT_YET
    page = (tmp_path / "references.md").read_text()
    for told in ("## toy/wedge", "| left | 1/2 |", "**Weak point.** the push.", "without the symmetry"):
        assert told in page, told
    assert f"{one['tally']['counts'][0]:,}" in page
