"""Tune on a mechanism whose distance is known everywhere: P(right) of the wedge is Phi(mean / sd) of the push."""

from __future__ import annotations

import json

import pytest

from refcheck import app, tune, tune_file
from refcheck.command import UserError
from scenes.load import load_scene

LOC, SCALE = "scene.device.random.release_x.loc", "scene.device.random.release_x.scale"
KNOCK_OUT = """
knock_out:
  removes: the middle
  overrides: ['scene.device.random.release_x.loc=2.0e-3']
kernel:
  _target_: toy.Instant
"""
SMALL = ("workers=1", "n=512", "tries=16", "evidence=200", "budget=10240", "epsilon=0.08")

FEWER = (*SMALL[:2], "tries=8", *SMALL[3:])


@pytest.fixture
def biased(toy_conf):
    """A wedge whose ball is pushed to the right by .6 sd: .226 from a half."""
    file = toy_conf / "wedge.yaml"
    file.write_text(file.read_text().replace("loc: 0,", "loc: 0.3e-3,") + KNOCK_OUT)
    return toy_conf


def test_it_finds_the_middle_and_writes_a_scene_that_says_where_it_comes_from(biased, tmp_path, capsys):
    """Of 16 places in -.5 to .5 mm a simplex ends within .05 mm of the middle: .04 from a half. Seeds are fixed."""
    out = tmp_path / "out"
    words = ["tune", "scene=toy/wedge", f"free={{{LOC}: [-0.5e-3, 0.5e-3]}}", "id=toy/tuned", "scene.device.radius=6e-3"]
    assert app.main([*words, *SMALL, f"out={out}"]) == 0
    told = capsys.readouterr().out
    assert "is the new scene" in told and "After, on fresh launches" in told
    (biased / "tuned.yaml").write_text((out / "tuned.yaml").read_text())
    made, base = load_scene("toy/tuned"), load_scene("toy/wedge")
    loc = dict(made.device.random["release_x"].parameters)["loc"]
    result = json.loads((out / "result.json").read_text())["tuned"]
    assert abs(loc) < 0.05e-3 and loc == result["found"]["values"][LOC]
    assert made.device.radius == 6e-3 and made.reference.q == base.reference.q and made.stream == base.stream
    assert made.variant is not None and made.variant.base == "toy/wedge" and "loc" in made.variant.change
    assert made.tune == {LOC: {"low": -0.5e-3, "high": 0.5e-3, "log": False}}
    assert f"{result['certificate']['n']:,}" in made.note and made.reference.standing == "assumed"
    assert result["before"]["tvd"] == pytest.approx(0.226, abs=0.08)  # 512 rollouts: 4 sd
    # Search, race, certificate and evidence each have launches of their own.
    assert result["certificate"]["seed"] == 2 and result["holds"] and not result["lacking"]


def test_without_a_mechanism_that_makes_the_distribution_nothing_is_written(biased, tmp_path, capsys):
    file = biased / "wedge.yaml"
    file.write_text(file.read_text().replace(f"{LOC}=2.0e-3", "scene.device.finish=glossy"))
    assert app.main(["tune", "scene=toy/wedge", f"free={{{LOC}: [-0.5e-3, 0.5e-3]}}", *FEWER, f"out={tmp_path / 'out'}"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "draws the distribution and not the device" in told and "no scene was written" in told
    assert not (tmp_path / "out" / "wedge.yaml").exists()


def test_where_no_place_gives_the_reference_it_says_so(biased, capsys):
    words = ["tune", "scene=toy/wedge", f"free={{{LOC}: [0.4e-3, 0.6e-3]}}"]  # at best .288 from a half
    assert app.main([*words, *FEWER]) == 1
    assert "the certificate says fails" in " ".join(capsys.readouterr().out.split())


def test_a_launch_wider_than_frame_0_hides_is_refused():
    scene = load_scene("calibench/galton_board")
    free = tune.free_of(f"{{{SCALE}: [0.3e-3, 3.0e-3]}}", scene)
    runner = tune.Search(scene, (), free, n=64, settle=8.0)
    assert runner.cost([1.0]) == tune.REFUSED
    assert "source image" in runner.refused[0] and not runner.trials


def test_what_is_wrong_with_free_is_told_at_once(toy_conf):
    scene = load_scene("toy/wedge")
    with pytest.raises(UserError) as error:
        tune.free_of("{scene.epsilon: [0.1, 0.2], scene.device.radius: [2, 1], scene.device.dead_zone: [0, 1, log]}", scene)
    assert len(error.value.problems) == 3
    for text in ("[1, 2]", "{", "{}"):
        with pytest.raises(UserError):
            tune.free_of(text, scene)
    with pytest.raises(UserError, match="has no `tune:`"):
        tune.free_of(None, scene)
    with pytest.raises(UserError, match="only numbers"):
        tune_file.leaf({"device": {"finish": "matt"}}, "scene.device.finish")
    assert tune_file.wrong_id("a b") and not tune_file.wrong_id("quincunx/galton_board")


def test_paths_joined_share_a_value_and_a_scene_may_declare_what_is_free(toy_conf):
    file = toy_conf / "wedge.yaml"
    file.write_text(file.read_text() + f"\ntune:\n  {LOC}|{SCALE}: {{low: 1.0e-4, high: 1.0e-3, log: true}}\n")
    scene = load_scene("toy/wedge")
    (one,) = tune.free_of(None, scene)
    assert one.paths == (LOC, SCALE) and one.log
    assert one.at(0.5) == pytest.approx(10**-3.5, rel=1e-3) and one.unit(10**-3.5) == pytest.approx(0.5)
    words = tune.Search(scene, (), (one,), n=64, settle=8.0).words({one.name: 3e-4})
    assert words == (f"{LOC}=0.0003", f"{SCALE}=0.0003")


def test_the_worst_of_its_range_counts_where_that_is_asked_for(toy_conf):
    """Pushed by .25 sd the wedge is .099 from a half; with half to twice the spread, .05 to .19: the worst is above .099."""
    file = toy_conf / "wedge.yaml"
    file.write_text(file.read_text().replace("loc: 0,", "loc: 0.125e-3,") + KNOCK_OUT)
    scene = load_scene("toy/wedge")
    free = tune.free_of("{scene.device.radius: [4.0e-3, 6.0e-3]}", scene)
    runner = tune.Search(scene, (), free, n=4096, settle=8.0, over=4)
    alone = tune.Search(scene, (), free, n=4096, settle=8.0)
    values = {"scene.device.radius": 5e-3}
    assert len(runner.places) == 5 and runner.places[0] == ()
    assert runner.trial(values).tvd > alone.trial(values).tvd + 0.02
    assert alone.trial(values).settle_p95 == pytest.approx(0.393, abs=0.001)  # sqrt(.2 / 9.81) + .25
    late = tune.Search(scene, (), free, n=64, settle=0.1).trial(values)
    assert late.cost == pytest.approx(late.tvd + late.null_rate + tune.SETTLING * (late.settle_p95 - 0.1))
