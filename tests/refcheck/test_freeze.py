"""The last gate: what holds is frozen, what does not is stopped where it should be, and says why."""

from __future__ import annotations

import copy
import dataclasses
import json
from functools import cache
from pathlib import Path

import evidence_files
import numpy as np
import pytest
import yaml
from PIL import Image

from refcheck import app, clips, gates, package_check
from refcheck.evidence import Evidence
from refcheck.freeze import read_results
from refcheck.judges.state import fingerprint
from refcheck.verify import Certificate
from scenes import catalog, mechanism
from scenes.load import compose_scene, load_scene
from simulators.engines.loop import physics_digest

SCENE = "pawbench/A-04"
Q = {"red": "1/3", "blue": "2/3"}


@cache
def loaded():
    return load_scene(SCENE), compose_scene(SCENE)


@cache
def results() -> dict[str, dict]:
    """Return what verify, bias and controls say of a scene of which all holds; keys as they write them."""
    scene, config = loaded()
    return evidence_files.results(scene, config, physics_digest(scene.device, scene.integrator))


def put(folder: Path, name: str, value: dict) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "result.json").write_text(json.dumps(value))


@pytest.fixture
def evidence(tmp_path) -> Path:
    for name, value in results().items():
        put(tmp_path / "evidence", name, value)
    return tmp_path / "evidence"


def freeze(*words: str, capsys) -> tuple[int, dict, str]:
    status = app.main(["freeze", "json=true", *words])
    told = capsys.readouterr()
    return status, json.loads(told.out) if told.out else {}, told.err


def test_a_scene_of_which_all_holds_is_frozen(evidence, tmp_path, capsys):
    out = tmp_path / "package"
    status, result, err = freeze(f"scene={SCENE}", f"evidence={evidence}", f"out={out}", capsys=capsys)
    told = [line for line in err.splitlines() if not line.startswith("draw source images: ")]  # how far it is, if it is slow
    assert (status, told) == (0, [])
    assert {gate["state"] for gate in result["scenes"][SCENE]["gates"].values()} == {"holds"}
    assert result["package"]["manifest_sha256"] == fingerprint(out / "manifest.json")
    assert package_check.check(out).problems == ()
    assert json.loads((out / "evidence/A-04/certificate.json").read_text())["certificate"]["q"] == Q
    assert freeze(f"check={out}", capsys=capsys)[1]["valid"]
    again, *_ = freeze(f"scene={SCENE}", f"evidence={evidence}", f"out={out}", capsys=capsys)
    assert again == 0  # into its own folder


def test_the_keys_that_are_read_are_those_that_are_written():
    """What verify, bias and controls write themselves is held by the tutorial's test."""
    names = {field.name for field in dataclasses.fields(Certificate)}
    assert set(results()["verify"]["certificates"][0]) <= names
    assert set(results()["verify"]["certificates"][0]["evidence"]) == {field.name for field in dataclasses.fields(Evidence)}


BIASED, UNCLEAR = {"lower": 0.1, "upper": 0.2}, {"lower": 0.0, "upper": 0.2}
CHECKS = ("certificates", 0, "evidence")
IDLE = {"said": "", "n": 9000, "tvd": 0.0, "lower": 0.0, "upper": 0.01, "shares": {"red": 0.0, "blue": 1.0}}
WRONG = [
    ("verify", ("certificates", 0, "verdict"), "fails", "certificate", "verify says fails"),
    ("verify", ("certificates", 0, "verdict"), "undecided", "certificate", "verify says undecided"),
    ("verify", ("certificates", 0, "digest"), "0" * 16, "certificate", "it is for digest 0000000000000000"),
    ("verify", ("certificates", 0, "q"), {"red": "1/2", "blue": "1/2"}, "certificate", "it is for the reference"),
    ("verify", ("certificates", 0, "epsilon"), 0.5, "certificate", "epsilon=0.5 (at most 0.02)"),
    ("verify", ("certificates", 0, "alpha"), 0.4, "certificate", "alpha=0.4 (at most 0.05)"),
    ("verify", ("certificates", 0, "null_rate"), {"value": 0.3, "limit": 0.9}, "certificate", "null_limit=0.9"),
    ("verify", (*CHECKS, "knock_out"), "not yet", "certificate", "it lacks knock out (n = 0"),
    (
        "verify",
        (*CHECKS, "second_integrator", "n"),
        499,
        "certificate",
        "it lacks second integrator (n = 499, 500 are the fewest)",
    ),
    (
        "verify",
        (*CHECKS, "knock_out", "lower"),
        0.0,
        "certificate",
        "it lacks a knock-out that decides (knock out: may or may not",
    ),
    ("verify", CHECKS, {}, "certificate", "it lacks second integrator (n = 0"),
    ("verify", (*CHECKS, "second_integrator", "shares"), {"red": 0.9, "blue": 0.1}, "certificate", "contradicts the verdict"),
    ("verify", (*CHECKS, "knock_out"), IDLE, "certificate", "but knock out: leaves the outcomes alone"),
    ("verify", ("certificates",), [], "certificate", "there is no result of it"),
    ("bias", ("bias", "verdict"), "biased", "bias", "bias says biased"),
    ("bias", ("bias", "verdict"), "unclear", "bias", "bias says unclear"),
    ("bias", ("bias", "epsilon"), 0.4, "bias", "epsilon=0.4 (at most 0.02)"),
    ("bias", ("image_sha256",), "1" * 64, "bias", "it measured the source image"),
    ("bias", ("config", "scenes", SCENE, "camera", "fov"), 0.9, "bias", "it is for another camera"),
    ("controls", ("digest",), "0" * 16, "controls", "they are for digest 0000000000000000"),
    ("controls", ("q",), {"red": "1/2", "blue": "1/2"}, "controls", "they are spread as"),
    ("controls", ("judge", "name"), "state", "controls", "reads no clip"),
    ("controls", ("set", "kind"), "tilted", "controls", "set=tilted"),
    ("controls", ("k",), 8, "controls", "there are 8, and 20 are the fewest"),
    ("controls", ("accuracy",), 0.7, "controls", "right in 0.7 of its answers, 0.95 is the least"),
    ("controls", ("accuracy",), None, "controls", "right in unknown of its answers"),
    ("controls", ("abstained",), 0.5, "controls", "leaves 0.5 unanswered"),
    ("controls", ("tvd_judged",), 0.4, "controls", "what is read is 0.4 from the reference"),
    ("controls", ("infrastructure_failures",), 2, "controls", "2 of them could not be read"),
]


def examined(held: dict[str, dict]) -> dict[str, gates.Gate]:
    scene, config = loaded()
    digest = physics_digest(scene.device, scene.integrator)
    told = gates.examine(scene, config, digest, [gates.Result(name, value) for name, value in held.items()], gates.Limits())
    return {gate.name: gate for gate in told}


@pytest.mark.parametrize(("verb", "keys", "value", "gate", "part"), WRONG)
def test_each_gate_refuses_what_it_should_and_says_why(verb, keys, value, gate, part):
    told = examined(changed(verb, keys, value))
    assert [name for name, one in told.items() if one.state != "holds"] == [gate]
    assert part in told[gate].told


LIES = [
    ("verify", ("certificates", 0, "tvd"), 0.8, "tvd is 0.8, its counts give 0.0"),
    ("verify", CHECKS, ["x"], "certificates.0.evidence: Input should be"),
    ("verify", (*CHECKS, "second_integrator", "n"), "x", "evidence.second_integrator"),
    ("verify", (*CHECKS, "second_integrator", "shares"), {"red": 1.0}, "has shares of"),
    ("verify", ("certificates", 0, "null_rate"), "x", "certificates.0.null_rate"),
    ("verify", ("config", "scenes"), [1], "config.scenes"),
    ("bias", ("bias", "upper"), 0.5, "says 'faithful', but 0.0 to 0.5 is 'unclear'"),
    ("bias", ("bias", "to_blame"), 5, "bias.to_blame"),
    ("bias", ("digests",), [1], "digests"),
    ("controls", ("judge",), "x", "judge"),
    ("controls", ("band_judged",), 5, "band_judged"),
    ("controls", ("accuracy",), 0.5, "accuracy is 0.5, its counts give 1.0"),
]


def changed(verb, keys, value) -> dict[str, dict]:
    held = copy.deepcopy(results())
    inside = held[verb]
    for key in keys[:-1]:
        inside = inside[key]
    inside[keys[-1]] = value
    return held


@pytest.mark.parametrize(("verb", "keys", "value", "part"), LIES)
def test_evidence_that_is_broken_or_contradicts_itself_is_named(tmp_path, verb, keys, value, part):
    put(tmp_path, verb, changed(verb, keys, value)[verb])
    problems = package_check.Everything()
    read_results(tmp_path, problems)
    assert any(part in told and str(tmp_path / verb / "result.json") in told for told in problems.found), problems.found


def test_a_non_causal_pair_shares_a_certificate_and_nothing_else():
    held = copy.deepcopy(results())
    held["verify"]["certificates"][0]["scene"] = "mine/its-pair"
    assert {gate.state for gate in examined(held).values()} == {"holds"}
    held["verify"]["certificates"][0]["stream"] = "mine/other"
    assert examined(held)["certificate"].state == "missing"
    held = copy.deepcopy(results())
    held["controls"]["scene"] = "mine/its-pair"
    assert examined(held)["controls"].state == "missing"


def test_what_is_refused_leaves_no_package(evidence, tmp_path, capsys):
    put(evidence, "bias", results()["bias"] | {"bias": {**results()["bias"]["bias"], "verdict": "biased", **BIASED}})
    out = tmp_path / "package"
    status, result, _ = freeze(f"scene={SCENE}", f"evidence={evidence}", f"out={out}", capsys=capsys)
    assert status == 1 and result["refused"] == [SCENE] and result["package"] is None
    assert sorted(path.name for path in out.iterdir()) == ["result.json"]


def test_a_verdict_is_not_chosen_among_runs():
    """A failing run beside a holding one fails, whichever is later; an undecided one gives way to one that decided."""
    for created in ("2026-11-29", "2026-12-01"):
        for verdict, state in (("fails", "fails"), ("undecided", "holds")):
            other = copy.deepcopy(results()["verify"]) | {"created": created}
            other["certificates"][0]["verdict"] = verdict
            told = examined(results() | {"other": other})["certificate"]
            assert told.state == state and ("is not chosen among runs" in told.told) == (state == "fails")


def test_a_picture_of_ones_own_is_frozen_byte_for_byte_if_it_is_the_one_that_bias_saw(evidence, tmp_path, capsys):
    folder = tmp_path / "images"
    folder.mkdir()
    path = folder / "A-04.JPG"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)).save(path, "JPEG")
    words = (f"scene={SCENE}", f"evidence={evidence}", f"out={tmp_path / 'package'}", f"images={folder}")
    status, result, _ = freeze(*words, capsys=capsys)
    assert status == 1 and "is the one of that name in images=" in result["scenes"][SCENE]["gates"]["bias"]["told"]
    put(evidence, "bias", results()["bias"] | {"image_sha256": fingerprint(path)})
    assert freeze(*words, capsys=capsys)[0] == 0
    assert (tmp_path / "package" / "source_images" / "A-04.jpg").read_bytes() == path.read_bytes()
    assert package_check.check(tmp_path / "package").problems == ()
    (folder / "A-05.png").write_bytes(b"no picture")
    status, _, err = freeze(*words, capsys=capsys)
    assert status == 2 and "is the picture of no scene to freeze; did you mean 'A-04'?" in err


def test_allow_freezes_with_the_reason_on_record(evidence, tmp_path, capsys):
    put(evidence, "bias", results()["bias"] | {"bias": {**results()["bias"]["bias"], "verdict": "unclear", **UNCLEAR}})
    out = tmp_path / "package"
    words = (f"scene={SCENE}", f"evidence={evidence}", f"out={out}")
    reason = "no picture shows so small a tilt"
    status, *_ = freeze(*words, f"allow={{{SCENE}: {reason}}}", capsys=capsys)
    assert status == 0
    entry = json.loads((out / "manifest.json").read_text())["quincunx"]["scenes"]["A-04"]
    assert entry["allowed"] == reason and entry["gates"]["bias"].startswith("unclear: bias says unclear")
    assert package_check.check(out).problems == ()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((f"allow={{{SCENE}: because}}",), "must give a reason in words"),
        (("allow={pawbench/A-4: it is a good one}",), "did you mean 'pawbench/A-04'"),
        (("allow=all",), "must name scenes and reasons"),
        (("scene.device.radius=0.1",), "a scene is frozen as its file has it"),
        (("check=x",), "check= and evidence= are both given"),
    ],
)
def test_mistakes_are_told(evidence, tmp_path, capsys, words, part):
    status, _, err = freeze(f"scene={SCENE}", f"evidence={evidence}", f"out={tmp_path / 'p'}", *words, capsys=capsys)
    assert status == 2 and part in err


def test_what_is_missing_is_told_at_once(capsys, tmp_path):
    status, _, err = freeze(f"scene={SCENE}", capsys=capsys)
    assert status == 2 and "evidence= is missing" in err and "out= is missing" in err
    status, _, err = freeze(f"check={tmp_path / 'none'}", capsys=capsys)
    assert status == 2 and "there is no such folder" in err


def test_an_assumption_is_not_frozen(tmp_path, capsys):
    (tmp_path / "evidence").mkdir()
    words = ("scene=calibench/walking", f"evidence={tmp_path / 'evidence'}", f"out={tmp_path / 'p'}")
    status, result, _ = freeze(*words, capsys=capsys)
    gates = result["scenes"]["calibench/walking"]["gates"]
    assert status == 1 and gates["basis"]["state"] == "fails" and "rests on an assumption" in gates["basis"]["told"]


# Deliberately bad scenes, each run for real through the gate that is to stop it.


@pytest.fixture
def author(tmp_path, monkeypatch):
    """Return a function that writes a scene of an author's own, a change of one of ours, and calls verbs on it."""
    monkeypatch.setenv(catalog.FOLDERS, str(tmp_path / "mine"))
    (tmp_path / "mine" / "scene" / "mine").mkdir(parents=True)
    (tmp_path / "evidence").mkdir()

    def write(base: str, change: dict, name: str = "bad") -> str:
        config = {key: value for key, value in catalog.raw_scene(base).items() if key not in ("variant", "tune", "ranges")}
        config = catalog.merge(config, {**change, "id": f"mine/{name}", "benchmark": "mine", "stream": f"mine/{name}"})
        (tmp_path / "mine" / "scene" / "mine" / f"{name}.yaml").write_text(yaml.safe_dump(config))
        return f"mine/{name}"

    return write


def stopped(verb: str, id: str, tmp_path: Path, capsys, *words: str) -> str:
    """Run a verb on the scene, then freeze, and return what the verb's gate says."""
    status = app.main([verb, f"scene={id}", f"out={tmp_path / 'evidence' / verb}", "workers=1", "json=true", *words])
    err = capsys.readouterr().err
    assert status == 0, err
    status, result, _ = freeze(f"scene={id}", f"evidence={tmp_path / 'evidence'}", f"out={tmp_path / 'p'}", capsys=capsys)
    assert status == 1 and not (tmp_path / "p" / "manifest.json").exists()
    one = result["scenes"][id]["gates"][{"verify": "certificate", "bias": "bias"}[verb]]
    assert one["state"] == "fails", one
    return one["told"]


def test_a_tilted_pencil_called_even_is_stopped_by_verify(author, tmp_path, capsys):
    """Half a degree decides 94 falls in a hundred (A-09): 512 rollouts are far past any doubt (alpha .01, seed fixed)."""
    id = author("pawbench/A-09", {"device": {"lean": -0.00873}})
    told = stopped("verify", id, tmp_path, capsys)
    assert "verify says fails (distance)" in told


def test_a_wheel_with_a_sector_five_percent_too_wide_is_stopped_by_bias(author, tmp_path, capsys):
    """The device is even, four quarters; its picture has a sector of .30 of the turn, so it is .05 from its reference."""
    colors = ["red", "blue", "green", "yellow"]
    quarter = {"device": {"colors": colors, "weights": [1.0] * 4}}
    other = {"derivation": "four quarters", "source": "made up", "standing": "assumed", "q": dict.fromkeys(colors, "1/4")}
    config = {**quarter, "outcomes": {color: [color] for color in colors}}
    path = tmp_path / "mine" / "scene" / "mine" / "bad.yaml"
    id = author("pawbench/A-03", config)
    held = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**held, "reference": other}))
    wide = load_scene(id, ["scene.device.weights=[0.3,0.2333333,0.2333333,0.2333334]"])
    clips.write_png(tmp_path / "wide.png", clips.source_of(wide))
    told = stopped("bias", id, tmp_path, capsys, f"image={tmp_path / 'wide.png'}", "camera=scene", "n=8000", "draws=9")
    assert "bias says biased of wide.png" in told and "to blame: shares" in told


def test_a_board_without_walls_is_stopped_by_verify(author, tmp_path, capsys, monkeypatch):
    """Balls that reach the side leave: a null is counted, and too many of them refuse the scene."""
    trusted = {role: (*roots, "wall_less.") for role, roots in mechanism.TRUSTED.items()}
    monkeypatch.setattr(mechanism, "TRUSTED", trusted)
    id = author("pawbench/A22", {"device": {"_target_": "wall_less.WallLess"}})
    told = stopped("verify", id, tmp_path, capsys)
    assert "verify says fails (nulls)" in told


def test_a_launch_that_randomises_the_picture_is_stopped_on_loading(author, tmp_path, capsys):
    id = author("pawbench/A-05", {"device": {"random": {"release_x": {"dist": "norm", "loc": 0.0, "scale": 5e-3}}}})
    for words in (("verify", "workers=1"), ("freeze", f"evidence={tmp_path / 'evidence'}", f"out={tmp_path / 'p'}")):
        assert app.main([*words, f"scene={id}"]) == 2
        assert "every launch must start from the same picture" in capsys.readouterr().err


@pytest.mark.slow
def test_a_die_with_one_axis_three_percent_short_is_stopped_by_verify(author, tmp_path, capsys):
    """In a lively box a cube's faces are .005 from 1/6 and those of the short die .022 (50,000 rollouts each, seed 22).

    At epsilon .012 the short one `holds`, or the cube `fails`, with probability at most .01 each; the seed is fixed.
    """
    lively = {"restitution": 0.65, "wall_height": 0.12}
    id = author("calibench/dice", {"device": {**lively, "size": [0.02, 0.02, 0.0194]}, "epsilon": 0.012})
    assert "verify says fails (distance)" in stopped("verify", id, tmp_path, capsys, "budget=400000")
    cube = author("calibench/dice", {"device": lively, "epsilon": 0.012}, "cube")
    assert app.main(["verify", f"scene={cube}", "budget=400000", "workers=1", "json=true"]) == 0
    assert json.loads(capsys.readouterr().out)["certificates"][0]["verdict"] == "holds"
