"""The certificate: verdicts on mechanisms whose distribution is known exactly, the same whatever the workers."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from refcheck import app, verify
from refcheck.output import plain
from scenes.load import load_scene
from simulators.execute import FIRST, Pool

SIDE = "scene.device.random.release_x.loc"
TIMING = ("seconds", "rollouts_per_second")


def certificate(*overrides: str, **settings) -> verify.Certificate:
    return verify.certify(load_scene("toy/wedge", overrides), **{"epsilon": 0.1, **settings})


def shifted(share_right: float) -> str:
    """Return the override that makes P(right) exactly `share_right`: the launch is normal with sd .5 mm."""
    from scipy.stats import norm

    return f"{SIDE}={float(0.5e-3 * norm.ppf(share_right))!r}"


def timeless(certificate: verify.Certificate) -> dict:
    return {key: value for key, value in plain(certificate).items() if key not in TIMING}


def test_a_fair_wedge_holds(toy_conf):
    """False alarm of the fixed seed's verdict `undecided` or `fails`: below alpha = .01 for `fails`; the seed is fixed."""
    one = certificate()
    assert (one.verdict, one.reason) == ("holds", "distance")
    assert one.tvd < one.upper < 0.1 and one.lower == 0.0
    assert one.n == one.tally.total == 256 * one.looks
    assert one.null_rate.upper < one.null_rate.limit
    assert (one.basis, one.engine.name, one.evidence.step_halving.said) == ("mechanism", "closed", "not yet")
    # From TOP to WEDGE takes sqrt(2 * .1 / 9.81) = .143 s; rest is seen .25 s after the next reading at 60 Hz.
    assert one.settle_time.median == pytest.approx(math.sqrt(0.2 / 9.81) + 0.25, abs=1.5 / 60)
    assert one.first_rest_disagree == 0.0


def test_a_shifted_wedge_fails(toy_conf):
    """P(right) = .75, so TVD = .25: `holds` here has probability at most .01 (seed fixed)."""
    one = certificate(shifted(0.75))
    assert (one.verdict, one.reason) == ("fails", "distance")
    assert 0.1 < one.lower <= 0.25 <= one.upper
    assert one.p_value.value < 1e-6


def test_nulls_above_the_limit_fail_and_say_so(toy_conf):
    one = certificate("scene.device.dead_zone=0.1e-3")  # P(|x| < .2 sd) = .159
    assert (one.verdict, one.reason) == ("fails", "nulls")
    assert one.null_rate.lower > 0.02
    assert one.null_rate.lower < 0.159 < one.null_rate.upper
    assert one.tally.nulls["stuck"] == one.tally.null > 0


def test_a_spent_budget_is_undecided_and_says_so(toy_conf):
    one = certificate(shifted(0.6), budget=700)
    assert (one.verdict, one.reason, one.n, one.looks) == ("undecided", "budget", 700, 3)
    one = certificate(shifted(0.6), seconds=0.0)
    assert (one.verdict, one.reason, one.looks, one.n) == ("undecided", "seconds", 1, FIRST)


def test_an_assumption_never_holds(toy_conf):
    file = toy_conf / "wedge.yaml"
    file.write_text(file.read_text().replace("basis: mechanism", "basis: assumption"))
    one = certificate()
    assert one.verdict == "consistent (assumption)"
    assert not verify.meets(one.verdict, "holds") and verify.meets(one.verdict, "decided")
    assert certificate(shifted(0.75)).verdict == "fails"


def test_the_certificate_is_the_same_whatever_the_workers(toy_conf):
    alone = certificate(shifted(0.52), seed=7)
    assert alone.looks > 2
    for choice, workers in (("process", 2), ("threads", 3), ("serial", 1)):
        with Pool(choice, workers) as pool:
            assert timeless(certificate(shifted(0.52), seed=7, pool=pool)) == timeless(alone)


def test_seeds_give_other_rollouts_and_the_pair_shares_its_launches(toy_conf):
    counts = {certificate(seed=seed, budget=256).tally.counts for seed in range(4)}
    assert len(counts) > 1
    pair = verify.certify(load_scene("toy/wedge-glossy"), epsilon=0.1)
    base = certificate()
    assert (pair.stream, pair.tally) == (base.stream, base.tally)


def as_base(folder) -> None:
    """Let the pair of the toy scene differ from it in nothing that physics knows."""
    file = folder / "wedge-glossy.yaml"
    file.write_text(file.read_text().replace("device: {finish: glossy}\n", ""))


def test_rollouts_of_the_same_physics_are_run_once_and_certify_as_alone(toy_conf, monkeypatch):
    """What is kept of one scene serves the next: as far as it goes, and no further than its own budget."""
    asked, run_range = list[int](), verify.run_range

    def watched(*args, **settings):
        asked.append(args[4])
        return run_range(*args, **settings)

    monkeypatch.setattr(verify, "run_range", watched)
    as_base(toy_conf)
    same = {"epsilon": 0.05, "seed": 7}
    base, pair = (load_scene(name, [shifted(0.52)]) for name in ("toy/wedge", "toy/wedge-glossy"))
    alone, longer = verify.certify(pair, budget=1000, **same), verify.certify(pair, **same)
    assert longer.looks > 4
    kept = list[verify.Look]()
    verify.certify(base, budget=600, kept=kept, **same)
    assert len(kept) == 2  # a last look that is short is no look of a longer run
    after = verify.certify(pair, budget=1000, kept=kept, **same)
    assert timeless(after) == timeless(alone) and len(kept) == 3
    assert timeless(verify.certify(pair, kept=kept, **same)) == timeless(longer)
    again = verify.certify(base, kept=kept, **same)
    assert {**timeless(again), "scene": pair.id} == timeless(longer) and math.isnan(again.rollouts_per_second)
    assert asked == [0, 0, 0, 512, 768, 256 * longer.looks]


def test_a_command_runs_a_pair_once(toy_conf, capsys, monkeypatch):
    asked, run_range = list[int](), verify.run_range
    monkeypatch.setattr(verify, "run_range", lambda *args: asked.append(args[4]) or run_range(*args))
    words = ["verify", "epsilon=0.1", "workers=1", "json=true"]
    as_base(toy_conf)
    assert app.main([*words, "scenes=toy/*"]) == 0
    together = json.loads(capsys.readouterr().out)["certificates"]
    assert asked[0] == 0 and asked[1:] == [together[0]["n"]]
    for one in together:
        assert app.main([*words, f"scene={one['scene']}"]) == 0
        (alone,) = json.loads(capsys.readouterr().out)["certificates"]
        assert {**one, **dict.fromkeys(TIMING)} == {**alone, **dict.fromkeys(TIMING)}


def test_verify_on_the_command_line(toy_conf, capsys, tmp_path):
    words = ["verify", "scenes=toy/*", "epsilon=0.1", "workers=1", "json=true"]
    assert app.main([*words, "require=holds", f"out={tmp_path}"]) == 0
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert [line.split(",")[0] for line in told.err.splitlines()] == ["toy/wedge: holds", "toy/wedge-glossy: holds"]
    assert [c["verdict"] for c in document["certificates"]] == ["holds", "holds"]
    assert document["summary"] == {"mechanism": {"holds": 2}}
    assert set(document["digests"]) == {"toy/wedge", "toy/wedge-glossy"}
    first = document["certificates"][0]
    assert first["q"] == {"left": "1/2", "right": "1/2"} and first["evidence"]["second_integrator"]["said"] == "not yet"
    assert {field.name for field in dataclasses.fields(verify.Certificate)} == set(first)
    assert app.main(["verify", "scene=toy/wedge", "epsilon=0.1", "workers=1", shifted(0.75), "require=holds"]) == 1
    assert "fails" in capsys.readouterr().out


def test_a_scene_without_q_is_refused(toy_conf, capsys):
    path = toy_conf / "wedge.yaml"
    path.write_text(path.read_text().replace("q: {'left': '1/2', 'right': '1/2'}", "tally: {'left': 3, 'right': 4}"))
    assert app.main(["verify", "scene=toy/wedge", "workers=1"]) == 2
    assert "exact reference `q`" in capsys.readouterr().err


def test_what_was_required_and_not_met_is_named(toy_conf, capsys):
    assert app.main(["verify", "scenes=toy/*", "epsilon=0.1", "workers=1", "require=fails"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "require=fails: not met by toy/wedge (holds), toy/wedge-glossy (holds)." in told
    assert "toy/wedge-glossy runs on the launches of toy/wedge" in told
