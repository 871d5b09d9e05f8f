"""A package as files: what ours holds, and a check that finds every fault of anyone's, each told once, none of it run."""

from __future__ import annotations

import json
import os
import shutil
from fractions import Fraction
from functools import cache
from pathlib import Path

import evidence_files
import numpy as np
import pytest
from PIL import Image

from refcheck import app, package, package_check
from refcheck.evaluate_data import package_targets
from refcheck.judges.state import fingerprint
from refcheck.policy import Rules
from scenes.load import compose_scene, load_scene
from simulators.engines.loop import physics_digest

SCENE = "pawbench/A-04"


def picture(path: Path, side: int = 64) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def line(name: str, **changes) -> dict:
    return {
        "scene_id": name,
        "split": "calibration",
        "group": "toss",
        "action": "Flick the coin once.",
        "prompt": "A coin is flicked. The camera does not move.",
        "source_image_path": f"source_images/{name}.png",
        "outcome_labels": ["heads", "tails"],
        "reference_distribution": {"heads": 0.5, "tails": 0.5},
        **changes,
    }


def foreign(root: Path, *lines: dict | str) -> Path:
    """Write a package as another author would."""
    root.mkdir(exist_ok=True)
    (root / "manifest.json").write_text(json.dumps({"schema_version": package.BENCHMARK, "scene_table": "scenes.jsonl"}))
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    (root / "scenes.jsonl").write_text("\n".join(texts) + "\n")
    for one in lines:
        if isinstance(one, dict) and str(one.get("source_image_path", "/")).startswith("source_images/"):
            picture(root / one["source_image_path"])
    return root


def evidence(scene, config: dict, digest: str) -> dict:
    told = evidence_files.results(scene, config, digest)
    certificate = {"certificate": told["verify"]["certificates"][0]}
    return {"certificate": certificate, "bias": {**told["bias"], "digest": digest}, "controls": told["controls"]}


@cache
def held(id: str):
    scene = load_scene(id)
    return scene, compose_scene(id), physics_digest(scene.device, scene.integrator)


def packed(id: str = SCENE, **changes) -> package.Packed:
    scene, config, digest = held(id)
    pixels = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
    gates = dict.fromkeys(("basis", "certificate", "bias", "controls"), "holds")
    return package.Packed(scene, config, digest, pixels, evidence(scene, config, digest), **{"gates": gates, **changes})


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("written")
    package.write(root, [packed()])
    return root


@pytest.fixture
def ours(tmp_path, written) -> Path:
    return Path(shutil.copytree(written, tmp_path / "ours"))


def problems(folder: Path) -> list[str]:
    return list(package_check.check(folder).problems)


def test_a_foreign_package_in_order_has_no_problem(tmp_path):
    coverage = {key: value for key, value in line("B", split="coverage").items() if key != "reference_distribution"}
    found = package_check.check(foreign(tmp_path, line("A"), coverage))
    assert (found.problems, found.ours, dict(found.scenes)) == ((), False, {"calibration": 1, "coverage": 1})


def test_a_foreign_package_with_ten_errors_is_refused_with_all_ten(tmp_path, capsys):
    root = foreign(
        tmp_path / "theirs",
        line("A", reference_distribution={"heads": 0.5, "tails": 0.4}),  # 1: sums to .9
        line("B", reference_distribution={"heads": 0.5, "edge": 0.5}),  # 2, 3: tails has none, edge is none
        line("A"),  # 4: an id twice
        line("C", source_image_path="../outside.png"),  # 5
        line("D", source_image_path="source_images/none.png"),  # 6, once its file is gone
        line("E", split="training"),  # 7
        "{not json",  # 8
        line("F"),  # 9: its picture is none
    )
    (root / "source_images" / "none.png").unlink()
    (root / "source_images" / "F.png").write_bytes(b"GIF89a, or so it says")
    (root / "prompts").symlink_to(tmp_path)  # 10
    wanted = {
        "must sum to 1": "'A'",
        "has nothing for 'tails'": "'B'",
        "has 'edge', which is no outcome label": "'B'",
        "is given twice": "'A'",
        "leads out of the package": "outside.png",
        "there is no such regular file": "none.png",
        "split is 'training'": "'E'",
        "is not JSON": "line 7",
        "is no picture that can be read": "F.png",
        "is a symbolic link": "prompts",
    }
    assert app.main(["freeze", f"check={root}", "json=true"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is False and len(found["problems"]) == len(wanted) == 10
    for what, where in wanted.items():
        assert [one for one in found["problems"] if what in one and where in one], (what, found["problems"])


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"outcome_labels": ["heads", "heads"]}, "is given 2 times"),
        ({"outcome_labels": []}, "outcome_labels"),
        ({"outcome_labels": ["heads", " "], "reference_distribution": {"heads": 0.5, " ": 0.5}}, "blank"),
        ({"reference_distribution": None}, "needs its reference_distribution"),
        ({"reference_distribution": {"heads": 1.5, "tails": -0.5}}, "at least 0"),
        ({"reference_distribution": {"heads": "0.5", "tails": 0.5}}, "reference_distribution.heads"),
        ({"reference_distribution": {"heads": True, "tails": False}}, "reference_distribution.heads"),
        ({"split": "coverage"}, "a coverage scene has no reference_distribution"),
        ({"scene_id": "a/b"}, "cannot be a folder's name"),
        ({"scene_id": 7}, "scene_id"),
        ({"action": "  "}, "action is blank"),
        ({"prompt": ""}, "prompt is blank"),
        ({"source_image_path": "/etc/passwd"}, "leads out of the package"),
        ({"source_image_path": "a\\b.png"}, "forward slashes"),
        ({"mask_path": "masks/../../x"}, "leads out of the package"),
    ],
)
def test_each_fault_of_a_row_is_named(tmp_path, change, part):
    assert any(part in one for one in problems(foreign(tmp_path, line("A", **change))))


@pytest.mark.parametrize(
    ("manifest", "part"),
    [
        ('{"schema_version": "pawbench.benchmark_inputs/v9", "scene_table": "scenes.jsonl"}', "schema_version is"),
        ('{"schema_version": "pawbench.benchmark_inputs/v1"}', "scene_table is None"),
        ('{"schema_version": "pawbench.benchmark_inputs/v1", "scene_table": "/scenes.jsonl"}', "leads out"),
        ('{"a": 1, "a": 2}', "occurs twice"),
        ("[]", "must be an object"),
        ("", "is empty"),
    ],
)
def test_each_fault_of_a_manifest_is_named_and_its_scenes_are_read_all_the_same(tmp_path, manifest, part):
    root = foreign(tmp_path, line("A", action=""))
    (root / "manifest.json").write_text(manifest)
    found = problems(root)
    assert any(part in one for one in found), found
    assert any("action is blank" in one for one in found) or "leads out" in part


def test_pictures_are_decoded_bounded_and_not_blank(tmp_path):
    root = foreign(tmp_path, *(line(name) for name in "ABC"))
    Image.new("RGB", (64, 64), (9, 9, 9)).save(root / "source_images" / "A.png")
    Image.new("L", (8193, 8193)).save(root / "source_images" / "B.png")
    data = (root / "source_images" / "C.png").read_bytes()
    (root / "source_images" / "C.png").write_bytes(data[: len(data) // 2])
    found = problems(root)
    assert [part in one for part, one in zip(("one colour", "8193x8193", "no picture"), found, strict=True)] == [True] * 3


def test_a_picture_that_is_none_is_named_once(tmp_path):
    (tmp_path / "a.png").write_bytes(b"GIF89a, or so it says")
    package_check.picture(tmp_path / "a.png", told := package_check.Everything())
    assert told.found == [f"{tmp_path / 'a.png'}: is no picture that can be read (PNG, JPEG or WebP)"]


def test_no_link_is_followed_and_no_pipe_is_read(tmp_path):
    """A check that opened the pipe would wait for a writer for ever."""
    root = foreign(tmp_path / "in", line("A"), line("B"))
    secret = tmp_path / "secret.png"
    picture(secret)
    for name, make in (("A", lambda at: at.symlink_to(secret)), ("B", os.mkfifo)):
        at = root / "source_images" / f"{name}.png"
        at.unlink()
        make(at)
    found = problems(root)
    assert sum("symbolic link" in one for one in found) == 1 and sum("neither a file nor a folder" in one for one in found) == 1
    assert sum("no such regular file" in one for one in found) == 2


def test_ours_is_in_order_exact_and_read_by_evaluate(ours):
    found = package_check.check(ours)
    assert found.problems == () and found.ours
    manifest = json.loads((ours / "manifest.json").read_text())
    assert set(manifest["quincunx"]["files"]) == {
        path.relative_to(ours).as_posix() for path in ours.rglob("*") if path.is_file() and path.name != "manifest.json"
    }
    assert {"quincunx", "numpy", "pybullet", "skia-python"} <= set(manifest["quincunx"]["versions"])
    exact = json.loads((ours / "references.json").read_text())["scenes"]["A-04"]["q"]
    assert {label: Fraction(text) for label, text in exact.items()} == {"red": Fraction(1, 3), "blue": Fraction(2, 3)}
    (target,) = package_targets(ours, Rules(partial=True))
    assert target.name == "A-04" and target.expected.q == (1 / 3, 2 / 3)
    rubric = json.loads((ours / "rubrics" / "A-04.json").read_text())
    assert load_scene(SCENE).readout_rule in rubric["readout"] and "1/3" not in json.dumps(rubric)


def test_the_same_scenes_are_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        package.write(tmp_path / name, [packed()])
    assert (tmp_path / "a/manifest.json").read_bytes() == (tmp_path / "b/manifest.json").read_bytes()


def test_whatever_changes_in_ours_is_found(ours):
    for path in sorted(path for path in ours.rglob("*") if path.is_file() and path.name != "manifest.json"):
        kept = path.read_bytes()
        path.write_bytes(kept[:-2] + bytes([kept[-2] ^ 1]) + kept[-1:])
        assert any("has changed since it was frozen" in one and path.name in one for one in problems(ours)), path
        path.unlink()
        assert any("no such regular file" in one and path.name in one for one in problems(ours)), path
        path.write_bytes(kept)
    (ours / "evidence" / "more.txt").write_text("x")
    assert any("was put there since" in one for one in problems(ours))


def edited(root: Path, file: str, change) -> list[str]:
    """Change a JSON file of a package, put its digest right, and return what is still wrong."""
    path, manifest = root / file, root / "manifest.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    if path != manifest:
        held = json.loads(manifest.read_text())
        held["quincunx"]["files"][file] = fingerprint(path)
        manifest.write_text(json.dumps(held))
    return problems(root)


def of(value, *keys):
    for key in keys:
        value = value[key]
    return value


HALVED = ("certificate", "evidence", "step_halving")
SCENES = ("quincunx", "scenes", "A-04")


@pytest.mark.parametrize(
    ("file", "keys", "value", "part"),
    [
        ("references.json", ("scenes", "A-04", "q", "red"), "0.3333333333333333", "sums to"),
        ("references.json", ("scenes", "A-04", "q"), {"red": "1/2", "blue": "1/2"}, "the scene table says"),
        ("references.json", ("scenes", "A-04", "q", "red"), "a third", "must be a fraction"),
        ("references.json", ("schema",), "quincunx.references/v9", "schema is"),
        ("manifest.json", (*SCENES, "gates", "bias"), "unclear", "gate bias does not hold"),
        ("manifest.json", (*SCENES, "gates"), {}, "gate certificate, bias, controls does not hold"),
        ("manifest.json", (*SCENES, "digest"), "0" * 16, "is evidence for digest"),
        ("manifest.json", (*SCENES, "evidence"), {}, "no evidence of it"),
        ("manifest.json", ("quincunx", "schema"), "quincunx.package/v9", "quincunx.schema is"),
        ("manifest.json", ("quincunx", "scenes"), {}, "the scene table has the scene 'A-04'"),
        ("evidence/A-04/certificate.json", ("certificate", "verdict"), "fails", "does not say 'holds'"),
        ("evidence/A-04/certificate.json", ("certificate",), [], "is evidence for digest None"),
        ("evidence/A-04/bias.json", ("bias", "verdict"), "biased", "does not say 'faithful'"),
        ("evidence/A-04/bias.json", ("bias", "upper"), 0.4, "is 'unclear' at epsilon"),
        ("evidence/A-04/certificate.json", ("certificate", "tvd"), 0.8, "tvd is 0.8, its counts give"),
        ("evidence/A-04/certificate.json", ("certificate", "n"), "x", "n: Input should be"),
        ("evidence/A-04/certificate.json", (*HALVED, "n"), 499, "step_halving is of 499 rollouts, 500 are the fewest"),
        ("evidence/A-04/certificate.json", ("certificate", "evidence"), {}, "no check of it was run"),
        ("evidence/A-04/certificate.json", ("certificate", "q", "red"), "1/2", "is for the reference"),
        ("evidence/A-04/controls.json", ("accuracy",), 0.5, "accuracy is 0.5, its counts give 1.0"),
    ],
)
def test_ours_contradicts_itself_nowhere(ours, file, keys, value, part):
    def change(held):
        of(held, *keys[:-1])[keys[-1]] = value

    found = edited(ours, file, change)
    assert any(part in one for one in found), found


def test_a_package_is_data_and_nothing_in_it_is_built(ours, monkeypatch):
    """A config that names any code is read as data, and named."""
    path = ours / "configs" / "A-04.yaml"
    monkeypatch.setattr("scenes.load.build_scene", lambda *_: pytest.fail("a package's scene was built"))
    monkeypatch.setattr("scenes.mechanism.importlib.import_module", lambda *_: pytest.fail("what a package names was imported"))
    text = path.read_text()
    for changed, part in (
        (text.replace("simulators.devices", "os"), "must be a class below simulators.devices"),
        (text + "more: !!python/object:os.x {}\n", "has the tag"),
        (text.replace("action: ", "action: ${oc.env:HOME} "), "refers to another value"),
        (text.replace("readout_rule: ", "readout_rul: "), "is not a key here"),
        ("- 1\n", "must hold `key: value` lines"),
    ):
        assert changed != text
        path.write_text(changed)
        found = edited(
            ours, "manifest.json", lambda held: held["quincunx"]["files"].update({"configs/A-04.yaml": fingerprint(path)})
        )
        assert found and all("configs/A-04.yaml" in one for one in found) and any(part in one for one in found), found


def test_a_rubric_is_json(ours):
    (ours / "rubrics" / "A-04.json").write_text("not JSON")
    assert any("is not JSON" in one for one in problems(ours))


@pytest.mark.parametrize("text", [".", "./", "..", "C:/x", "/"])
def test_a_path_that_is_no_file_is_named(ours, tmp_path, text):
    found = package_check.check(foreign(tmp_path / "theirs", line("A", source_image_path=text))).problems
    assert any("source_image_path" in one for one in found), found
    for key in ("prompt", "rubric", "config"):
        found = edited(ours, "manifest.json", lambda held, key=key: of(held, *SCENES).update({key: text}))
        assert any(f"{key} " in one for one in found), found
    assert edited(ours, "manifest.json", lambda held: held.update(scene_table=text))


def test_a_refused_gate_needs_a_reason(tmp_path):
    gates = {"basis": "holds", "certificate": "fails: TVD .3", "bias": "holds", "controls": "holds"}
    package.write(tmp_path, [packed(gates=gates, reason="a demonstration of a scene that fails")])
    assert problems(tmp_path) == []
    found = edited(tmp_path, "manifest.json", lambda held: of(held, *SCENES).pop("allowed"))
    assert any("gate certificate does not hold, and no reason is recorded" in one for one in found)


def test_a_folder_of_other_files_is_not_written_over(tmp_path, ours):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "scenes.jsonl").write_text("mine")
    with pytest.raises(package.UserError, match="no package of ours"):
        package.write(tmp_path / "other", [packed()])
    (ours / "evidence" / "notes.md").write_text("mine")
    before = (ours / "manifest.json").read_bytes()
    with pytest.raises(package.UserError, match=r"holds 'evidence/notes.md', which no package of ours put there"):
        package.write(ours, [packed()])
    assert (ours / "manifest.json").read_bytes() == before
    (ours / "evidence" / "notes.md").unlink()
    package.write(ours, [packed("pawbench/A-03")])  # one of ours gives way whole
    assert problems(ours) == [] and not list(ours.rglob("A-04*"))
