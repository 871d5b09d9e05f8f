"""What stands behind a verdict, against exact figures: clips of T seconds, foretelling, rare outcomes, epsilon, evidence."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
import toy

from refcheck import app, metrics, verify
from refcheck.evidence import Check, Evidence
from refcheck.predictability import predictability
from refcheck.rare import Slice, edges, rare
from refcheck.readable import readable
from refcheck.support import bounded, supports
from refcheck.tolerance import epsilon_of, from_floor, wrong_epsilon
from scenes.load import load_scene
from simulators.sampling import Distribution, launch_block

LOC = "scene.device.random.release_x.loc"


def wedge(*overrides: str):
    return dataclasses.replace(load_scene("toy/wedge", overrides), kernel=toy.Instant())


def test_a_clip_that_ends_too_soon_shows_other_outcomes(toy_conf):
    """Left settles at 2 s and right at 6 s: a clip of 3 s shows left alone, TVD .5."""
    outcome = np.array([0] * 40 + [1] * 40 + [-1] * 20)
    settle = np.where(outcome == 0, 2.0, np.where(outcome == 1, 6.0, np.nan))
    by = {one.seconds: one for one in readable(wedge(), outcome, settle)}
    assert by[3.0].share == 0.4 and by[3.0].by_outcome == (1.0, 0.0) and by[3.0].tvd == 0.5
    assert by[8.0].share == by[None].share == 0.8 and by[8.0].tvd == 0.0 and by[8.0].floor > 0.0
    none = readable(wedge(), np.full(4, -1), np.full(4, np.nan))[0]
    assert none.share == 0.0 and none.by_outcome == (None, None) and none.tvd is None


def test_a_clip_begins_with_its_prelude():
    scene = load_scene("calibench/galton_board")
    prelude = scene.device.world().prelude
    assert prelude > 0.1
    at = np.array([3.0 - prelude - 0.01, 3.0 - prelude + 0.01, np.nan])
    assert readable(scene, np.array([5, 5, 5]), at)[0].share == pytest.approx(1 / 3)
    assert readable(scene, np.array([5, 5, 5]), at)[-1].share == 1.0  # never seen at rest: readable uncut alone


def test_what_the_launch_tells_is_found_and_what_it_does_not_tell_is_not(toy_conf):
    """The wedge's side is the sign of its one random number; outcomes drawn apart from it have nothing to do with it."""
    scene = wedge()
    n, seed = 1200, 5
    push = np.concatenate([launch_block(scene.device.random, seed, scene.stream, b)["release_x"] for b in (0, 1)])[:n]
    found = predictability(scene, (push > 0).astype(int), seed)
    assert found.launch.accuracy > 0.99 and found.launch.bits > 0.5
    assert found.frame0.numbers == 0 and found.frame0.bits == 0.0 and found.frame0.accuracy == found.majority
    blind = predictability(scene, np.random.default_rng(1).integers(0, 2, n), seed)
    # Under independence each guess is right half the time: 4 standard errors, false alarm 6e-5.
    assert abs(blind.launch.accuracy - 0.5) < 4 * 0.5 / n**0.5 and blind.launch.bits == 0.0
    assert predictability(scene, np.zeros(n, int), seed) is None


def test_strata_cover_the_law_exactly_once():
    cuts = edges()
    assert cuts[0] == 0.0 and cuts[-1] == 1.0 and np.all(np.diff(cuts) > 0.0)
    law = Distribution.of({"dist": "norm", "loc": 1.0, "scale": 2.0})
    generator = np.random.default_rng(3)
    for low, high in ((0.0, 0.1), (0.4, 0.6), (0.999, 1.0)):
        drawn = Slice(law.dist, law.parameters, low, high).draw(2000, generator)
        ranks = (scipy.stats.norm(1.0, 2.0).cdf(drawn) - low) / (high - low)
        assert ranks.min() >= -1e-9 and ranks.max() <= 1 + 1e-9
        assert scipy.stats.kstest(ranks, "uniform").pvalue > 1e-4  # false alarm 1e-4 each


def test_a_rare_outcome_is_estimated_without_bias_and_far_better_than_by_counting(toy_conf):
    """P(right) = Phi(-4) = 3.17e-5. 16 runs of 4,000: their mean within 4 standard errors of it (false alarm 1e-3)."""
    scene = wedge(f"{LOC}=-2.0e-3")  # four sd of the push
    exact = scipy.stats.norm.sf(4.0)
    found = [rare(scene, "right", 4000, seed=100 * k) for k in range(16)]
    estimates = np.array([one.probability for one in found])
    assert abs(estimates.mean() - exact) < 4 * estimates.std(ddof=1) / 16**0.5
    assert all(one.n <= 4400 and one.variable == "release_x" for one in found)
    plain = (exact / 4000) ** 0.5
    assert estimates.std(ddof=1) < plain / 5
    assert np.median([one.gain for one in found]) > 25
    # The errors that are stated cover what happens: 3 of them are missed by fewer than 3 of 16 (they lean to the large side).
    assert sum(abs(one.probability - exact) > 3 * one.error for one in found) < 3


def test_a_common_outcome_is_estimated_too_and_what_cannot_be_is_told(toy_conf):
    one = rare(wedge(f"{LOC}=0.25e-3"), "right", 4000, seed=1)
    assert one.probability == pytest.approx(scipy.stats.norm.cdf(0.5), abs=4 * one.error)
    law = Distribution.of({"dist": "norm", "loc": 0.0, "scale": 1.0, "size": 3})
    device = wedge().device
    vector = dataclasses.replace(wedge(), device=dataclasses.replace(device, random={"release_x": law}))
    with pytest.raises(ValueError, match="no continuous random variable"):
        rare(vector, "right", 500)


def test_epsilon_from_the_floor_hides_behind_the_benchmarks_own_noise():
    """A coin off by that much raises what K = 50 fair flips score by 5 %, by the exact binomial (Simpson's 4.6 to 5.6)."""
    scene = load_scene("pawbench/A-01")
    off = from_floor(scene)
    k = np.arange(51)
    law = scipy.stats.binom(50, 0.5 + off).pmf(k)
    raised = float((law * np.abs(k / 50 - 0.5)).sum()) / float(metrics.expected_tvd(50, [0.5, 0.5]))
    assert raised == pytest.approx(1.05, abs=0.006)
    assert epsilon_of(scene) == 0.02 and epsilon_of(scene, "floor") == off and epsilon_of(scene, 0.1) == 0.1
    without = dataclasses.replace(scene, epsilon=None)
    assert epsilon_of(without) == off
    assert from_floor(dataclasses.replace(scene, benchmark="calibench")) > off
    assert wrong_epsilon("flor") and wrong_epsilon("2") and not wrong_epsilon("floor") and not wrong_epsilon("0.02")


def test_bounds_of_a_distance_hold():
    """Of 300 samples of 500 each bound misses at most alpha = .05: 15, and 28 or more have probability 1e-3."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    generator = np.random.default_rng(8)
    found = [bounded(generator.multinomial(500, p), q, 0.05) for _ in range(300)]
    assert sum(one.lower > 0.1 for one in found) < 28 and sum(one.upper < 0.1 for one in found) < 28
    assert bounded(np.array([5_000_000, 3_000_000, 2_000_000]), q, 0.05).lower == pytest.approx(0.1, abs=2e-3)


def check(n: int, left: float, lower: float = 0.0, upper: float = 1.0) -> Check:
    return Check("ran", n=n, tvd=0.0, lower=lower, upper=upper, shares={"left": left, "right": 1 - left})


def test_holds_and_fails_are_asked_for_the_same_evidence(toy_conf):
    holds = verify.certify(wedge(), epsilon=0.1, seed=2)
    fails = verify.certify(wedge(f"{LOC}=0.5e-3"), epsilon=0.1, seed=2)
    assert (holds.verdict, fails.verdict) == ("holds", "fails")
    for one in (holds, fails):
        assert [each.status for each in one.supports] == ["missing", "agrees", "missing"]  # no step to halve
    q = np.array([0.5, 0.5])

    def statuses(one, second, knock):
        evidence = Evidence(second_integrator=check(4000, second), step_halving=check(4000, 0.5), knock_out=knock)
        return [each.status for each in supports(dataclasses.replace(one, evidence=evidence), q)]

    moved, still, unclear = check(4000, 0.9, lower=0.3), check(4000, 0.5, upper=0.02), check(4000, 0.5)
    assert statuses(holds, 0.52, moved) == ["agrees", "agrees", "agrees"]
    assert statuses(holds, 0.80, still) == ["contradicts", "agrees", "contradicts"]
    assert statuses(holds, 0.52, unclear)[2] == "open"
    assert statuses(fails, 0.80, moved) == ["agrees", "contradicts", "agrees"]  # half the step says that it holds
    assert statuses(fails, 0.50, moved) == ["contradicts", "contradicts", "agrees"]


def test_nulls_are_given_their_best_and_worst_outcomes(toy_conf):
    """A dead zone of .1 sd: 8 % nulls. Best fills what is short; worst piles all on one side, by the nulls' half or more."""
    one = verify.certify(load_scene("toy/wedge", ["scene.device.dead_zone=0.05e-3"]), epsilon=0.2, null_limit=0.2, budget=512)
    rho = one.null_rate.value
    assert 0.03 < rho < 0.15
    assert one.nulls.best == pytest.approx(max(0.0, (1 - rho) * (0.5 + one.tvd) - 0.5), abs=1e-9)
    assert one.nulls.worst == pytest.approx((1 - rho) * (0.5 + one.tvd) + rho - 0.5, abs=1e-9)


def test_the_command_line_says_all_of_it(toy_conf, tmp_path, capsys):
    file = toy_conf / "wedge.yaml"
    q = {"left": str(Fraction(99, 100)), "right": str(Fraction(1, 100))}
    text = file.read_text().replace("{'left': '1/2', 'right': '1/2'}", str(q)).replace("loc: 0,", "loc: -1.16317e-3,")
    file.write_text(text)  # Phi(-2.32634) = .01
    words = [
        "verify",
        "scene=toy/wedge",
        "epsilon=0.1",
        "workers=1",
        "predict=1024",
        "rare=300",
        "budget=1024",
        f"out={tmp_path}",
    ]
    assert app.main(words) == 0
    told = " ".join(capsys.readouterr().out.split())
    for part in (
        "what a clip of T seconds shows",
        "Guessing blind",
        "stands without: second integrator",
        "in strata of release_x",
    ):
        assert part in told
    result = json.loads((tmp_path / "result.json").read_text())
    (one,) = result["rare"]["toy/wedge"]
    assert one["outcome"] == "right" and abs(one["probability"] - 0.01) < 4 * one["error"]
    assert "Beyond" in (tmp_path / "references.md").read_text()
    assert app.main(["verify", "scene=toy/wedge", "epsilon=none"]) == 2
    assert "epsilon='none'" in capsys.readouterr().err
