"""Loading scenes: real files, Hydra against the raw reader, overrides, and messages that tell everything at once."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import pairwise

import pytest

from scenes import catalog, load, schema
from scenes.catalog import SceneError
from simulators.engines.loop import physics_digest
from simulators.sampling import Distribution

IDS = catalog.scene_ids()
LETTERS = "abcdefghij"


def problems(id="toy/wedge", *overrides) -> list[str]:
    with pytest.raises(SceneError) as caught:
        load.load_scene(id, overrides)
    return list(caught.value.problems)


def edit(folder, *changes, name="wedge") -> None:
    """Replace text in a toy scene's file; a change that does not apply is a mistake of the test."""
    path = folder / f"{name}.yaml"
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


@pytest.mark.parametrize("id", IDS)
def test_every_scene_loads_and_is_what_its_file_says(id):
    scene = load.load_scene(id)
    assert scene.id == id
    assert scene.q().sum() == pytest.approx(1.0)
    assert sorted(set(scene.outcome_of_fact)) == list(range(len(scene.outcomes)))
    assert len(physics_digest(scene.device, scene.integrator)) == 16


@pytest.mark.parametrize("id", IDS)
def test_the_raw_reader_equals_hydra(id):
    assert catalog.raw_scene(id) == load.compose_scene(id)


def test_a_toy_scene_and_its_pair(toy_conf):
    base, pair = load.load_scene("toy/wedge"), load.load_scene("toy/wedge-glossy")
    assert base.device.random == {"release_x": Distribution("norm", (("loc", 0.0), ("scale", 0.5e-3)))}
    assert pair.device.finish == "glossy"
    assert pair.stream == base.stream == "toy/wedge"
    assert pair.variant is not None and pair.variant.base == "toy/wedge"
    assert catalog.raw_scene("toy/wedge-glossy") == load.compose_scene("toy/wedge-glossy")


@pytest.mark.parametrize(
    "text", ["1e-3", "1.5e-3", "-2E+4", ".5", "1_000.0", "12", "0x1F", "yes", "2020-01-01", "'1/2'", "1:30.5", ".inf", "~"]
)
def test_the_raw_reader_reads_values_as_omegaconf_does(text, tmp_path):
    from omegaconf import OmegaConf

    path = tmp_path / "value.yaml"
    path.write_text(f"value: {text}\n")
    ours, theirs = catalog.read_yaml(path)["value"], OmegaConf.to_container(OmegaConf.load(path))["value"]
    assert (type(ours), ours) == (type(theirs), theirs)


def test_overrides_reach_the_device_and_the_engine(toy_conf):
    scene = load.load_scene(
        "toy/wedge",
        [
            "scene.device.radius=2e-3",
            "scene.engine.steps_per_second=480",
            "scene.device.random.release_x.scale=0",
            "scene.device.dead_zone=1e-4",
        ],
    )
    assert (scene.device.radius, scene.engine.steps_per_second, scene.device.dead_zone) == (2e-3, 480, 1e-4)
    assert dict(scene.device.random["release_x"].parameters)["scale"] == 0.0


def test_a_law_given_whole_replaces_what_stood_there(toy_conf):
    edit(toy_conf, ("{dist: norm, loc: 0, scale: 0.5e-3}", "{dist: truncnorm, a: -2, b: 2, loc: 0, scale: 0.5e-3}"))
    scene = load.load_scene("toy/wedge", ["scene.device.random.release_x={dist: uniform, loc: -1e-3, scale: 2e-3}"])
    assert scene.device.random["release_x"] == Distribution("uniform", (("loc", -1e-3), ("scale", 2e-3)))


def test_zero_and_zero_point_zero_are_the_same_physics(toy_conf):
    digests = {
        physics_digest(scene.device, scene.integrator)
        for scene in (load.load_scene("toy/wedge", [f"scene.device.dead_zone={zero}"]) for zero in ("0", "0.0"))
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("scene.device.radios=1", ["scene.device.radios", "did you mean 'radius'", "dead_zone"]),
        ("scene.devise.radius=1", ["scene.devise", "did you mean 'device'"]),
        ("scene.device.random.relase_x.scale=1", ["relase_x", "did you mean 'release_x'"]),
        ("scene.device.random.release_x.scael=1", ["release_x.scael", "did you mean 'scale'", "norm"]),
        ("scene.device.radius=abc", ["scene.device.radius=abc", "device.radius", "'abc'", "number"]),
        ("scene.device.radius=-1", ["device.radius", "larger than 0", "-1"]),
        ("scene.device.radius=true", ["device.radius", "True", "number"]),
        ("scene.device.finish=shiny", ["device.finish", "'shiny'", "glossy"]),
        ("scene.device.random.release_x.scale=-1", ["release_x", "-1"]),
        ("scene.device.random.release_x.dist=uniform", ["release_x", "loc: 0", "scale", "give every parameter anew"]),
        ("scene.device.random.release_x={dist: uniform}", ["release_x.loc", "missing"]),
        ("scene.device.random.release_x={dist: nrom, loc: 0, scale: 1}", ["'nrom'", "did you mean 'norm'"]),
        ("scene.engine.steps_per_second=250", ["steps_per_second", "60", "250"]),
        ("scene.engine.time_limit=0", ["time_limit", "0"]),
        ("scene.device._target_=os.system", ["_target_", "os.system", "simulators.devices"]),
        ("scene.device._target_=simulators.devices.coin.Distribution", ["_target_", "Coin"]),
        ("scene.device._target_=simulators.devices.cion.Coin", ["_target_", "did you mean 'simulators.devices.coin'"]),
        ("scene.epsilon=2", ["epsilon", "2", "less than 1"]),
        ("scene.camera.fov=4", ["camera.fov", "4"]),
        ("scene.camera.target=[0,-1,0.1]", ["camera.target", "must look somewhere"]),
        ("scene.camera.up=[0,1,0]", ["camera.up", "along the view"]),
        ("scene.id=toy/other", ["scene.id", "cannot be overridden"]),
        ("+scene.device.radius=1", ["+scene.device.radius=1", "not allowed"]),
        ("scene.device.radius=1,2", ["scene.device.radius=1,2", "not allowed"]),
        ("scene.device.radius=[1", ["cannot be read"]),
        ("scene.reference.q.left='2/3'", ["reference.q", "7/6", "exactly 1"]),
    ],
)
def test_a_wrong_override_is_told_with_what_is_allowed(toy_conf, override, parts):
    told = problems("toy/wedge", override)
    assert len(told) <= 2
    for part in parts:
        assert part in "\n".join(told)


def test_all_problems_of_file_and_overrides_are_told_at_once(toy_conf):
    edit(
        toy_conf,
        ("'1/2', 'right': '1/2'", "'1/3', 'rigth': '2/3'"),
        ("'right': ['right']", "'right': ['right', 'left']"),
        ("standing: assumed", "standing: guessed"),
        ("radius: 5e-3", "radius: -5e-3"),
        ("renderer: planar", "rendrer: planar"),
    )
    told = problems("toy/wedge", "scene.device.radios=1")
    assert len(told) == 6 and len(set(told)) == 6
    for part in ("radios", "device.radius", "'guessed'", "`rendrer`", "did you mean 'renderer'", "`renderer` is missing"):
        assert part in "\n".join(told)
    edit(toy_conf, ("standing: guessed", "standing: assumed"))  # a table is judged once its section can be read
    told = "\n".join(problems())
    for part in (
        "'rigth'",
        "did you mean 'right'",
        "nothing for the outcome 'right'",
        "the fact 'left' 2 times",
        "device.radius",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("'right': ['right']", "'right': ['rihgt']", "no label for the device's fact 'right'"),
        ("'right': ['right']", "'right': []", "names no fact"),
        ("{'left': '1/2', 'right': '1/2'}", "{'left': 0.5, 'right': '1/2'}", "reference.q.left"),
        ("{'left': '1/2', 'right': '1/2'}", "{'left': '1/2', 'right': '0.499'}", "999/1000"),
        ("{'left': '1/2', 'right': '1/2'}", "{'left': '3/2', 'right': '-1/2'}", "'3/2'"),
        (
            "  q: {'left': '1/2', 'right': '1/2'}",
            "  q: {'left': '1/2', 'right': '1/2'}\n  tally: {'left': 1, 'right': 2}",
            "exactly one of",
        ),
        ("'left': ['left']", "no: ['left']", "quote it"),
        ("prompt: A ball is let go above a wedge.", "prompt: ' '", "prompt"),
        ("basis: mechanism", "basis: faith", "'faith'"),
        ("release_x: {", "x: {dist: norm, loc: 0, scale: 1}\n    release_x: {", "unknown x"),
        ("id: toy/wedge", "id: toy/wegde", "did you mean 'toy/wedge'"),
        ("benchmark: toy", "benchmark: pawbench", "`benchmark`"),
        ("title: Wedge", "title: Wedge\ntitle: Wedge", "given twice"),
        ("title: Wedge", "title: [Wedge", "not YAML"),
        ("title: Wedge", "title: !!bool x", "has the tag"),
        ("title: Wedge", "title: !!timestamp x", "has the tag"),
        ("title: Wedge", "title: !!set {Wedge}", "has the tag"),
        ("title: Wedge", "title: Wedge\n? [a, b]\n: c", "a key is itself a list or a mapping"),
        ("radius: 5e-3", f"radius: 0x{'f' * 100_000}", "a number of 100002 digits"),
        ("radius: 5e-3", "radius: .nan", "radius"),
        ("  radius: 5e-3\n", "", "`device.radius` is missing"),
        ("_target_: toy.Wedge", "target: toy.Wedge", "_target_"),
    ],
)
def test_a_wrong_file_is_told(toy_conf, old, new, part):
    edit(toy_conf, (old, new))
    assert part in "\n".join(problems())


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("toy/wedge@_here_", "toy/wegde@_here_", "did you mean 'toy/wedge'"),
        ("toy/wedge@_here_", "toy/wedge-glossy@_here_", "in a circle"),
        ("[toy/wedge@_here_, _self_]", "[toy/wedge]", "`defaults`"),
        ("base: toy/wedge,", "base: toy/none,", "variant.base"),
        ("title: Wedge", "stream: other\ntitle: Wedge", "shares the launches of its base"),
        ("title: Wedge", "reference: {q: {'left': '1/3', 'right': '2/3'}}\ntitle: Wedge", "non_causal"),
        ("{finish: glossy}", "{random: {release_x: {dist: uniform}}}", "give every parameter anew"),
    ],
)
def test_a_wrong_pair_is_told(toy_conf, old, new, part):
    edit(toy_conf, (old, new), name="wedge-glossy")
    assert part in "\n".join(problems("toy/wedge-glossy"))


def test_a_variable_that_nothing_reads_is_told():
    from types import SimpleNamespace

    import toy

    from scenes.mechanism import check_device

    law = Distribution("norm", (("loc", 0.0), ("scale", 1.0)))
    wedge = toy.Wedge(1e-3, {"release_x": law})
    loose = SimpleNamespace(
        readout="rest", end_time=None, random={"release_x": law, "sped": law}, world=wedge.world, start=wedge.start
    )
    assert check_device(loose) == ["`device.random.sped` is read by nothing"]
    loose.random = {"release": law}
    assert "did you mean it by 'release'" in check_device(loose)[0]


def test_patterns_match_the_whole_id_and_cross_the_slash(toy_conf):
    assert catalog.match(["*"]) == ("toy/wedge", "toy/wedge-glossy")
    assert catalog.match(["toy/*glossy", "toy/wedge"]) == ("toy/wedge-glossy", "toy/wedge")
    assert catalog.match(["t*e"]) == ("toy/wedge",)
    with pytest.raises(SceneError) as caught:
        catalog.match(["wedge", "toy/wegde"])
    assert "did you mean 'toy/wedge'" in caught.value.problems[0]
    assert "did you mean 'toy/wedge'" in caught.value.problems[1]


def test_an_unknown_scene_is_told(toy_conf):
    assert "did you mean 'toy/wedge'" in problems("toy/wegde")[0]


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("scene.basis=hidden_state", ["`scene.basis`", "cannot be overridden"]),
        ("scene.device.random.release_x={dist: bernoulli, p: 0.5, loc: 0}", ["'bernoulli'", "discrete", "hidden_state"]),
        ("scene.device.random.release_x={dist: rv_continuous, loc: 0, scale: 1}", ["'rv_continuous'", "no distribution"]),
        ("scene.note=${oc.env:HOME}", ["${...}", "write the value itself"]),
    ],
)
def test_a_way_around_the_mechanism_is_refused(toy_conf, override, parts):
    with pytest.raises(load.SceneError) as caught:
        load.load_scene("toy/wedge", [override])
    assert all(part in str(caught.value) for part in parts), str(caught.value)


@pytest.mark.parametrize(
    ("scene_id", "law", "told"),
    [
        ("pawbench/A22", "{dist: norm, loc: 0, scale: 0.03}", "spreads it by"),
        ("pawbench/A22", "{dist: norm, loc: 0.005, scale: 0}", "moves an outline"),
    ],
)
def test_a_launch_that_the_picture_shows_is_refused(scene_id, law, told):
    with pytest.raises(load.SceneError, match=told):
        load.load_scene(scene_id, [f"scene.device.random.release_x={law}"])


@pytest.mark.parametrize("text", ["${oc.env:HOME}", "My ${scene.id}", "'${oc.env:HOME}'"])
def test_a_file_reads_nothing_but_itself(toy_conf, text):
    """Interpolation would put what is in the environment into results and packages."""
    edit(toy_conf, ("track:", f"note: {text}\ntrack:"))
    assert any("refers to another value" in problem and "wedge.yaml" in problem for problem in problems())


BOMB = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x]", *(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise(LETTERS))]
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BOMB, "refers to another place"),
        ("a: &a [*a]", "refers to another place"),
        ("a: " + "[" * 90 + "]" * 90, "inside one another"),
    ],
)
def test_yaml_that_grows_without_end_is_refused(tmp_path, text, told):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(SceneError, match=told):
        catalog.read_yaml(path)


def test_a_scene_that_is_no_file_is_named_where_it_is(tmp_path, monkeypatch):
    root = tmp_path / "scene" / "mine"
    (root / "folder.yaml").mkdir(parents=True)
    os.mkfifo(root / "pipe.yaml")
    (root / "link.yaml").symlink_to(tmp_path / "nowhere")
    monkeypatch.setenv(catalog.FOLDERS, str(tmp_path))
    for name, told in (("folder", "not a regular file"), ("pipe", "not a regular file"), ("link", "no such file")):
        with pytest.raises(SceneError, match=f"{root / name}.yaml: .*{told}"):
            catalog.raw_scene(f"mine/{name}")


@pytest.mark.parametrize(
    "text", ["1e-9999999", "1e-5000", "1E5000", "1" * 5000, "1/" + "9" * 5000, " 1/2", "-1/2", "3/2", "1/0"]
)
def test_a_share_is_a_short_number_from_0_to_1(text):
    assert schema.fraction(text) is None


def test_shares_that_are_one():
    assert [schema.fraction(text) for text in ("1/6", "0.25", "0", "1")] == [Fraction(1, 6), Fraction(1, 4), 0, 1]


def test_a_digest_is_a_word_and_no_number():
    digest = "ab12" * 16
    assert catalog.parse_yaml(f"sha256: {digest}") == {"sha256": digest}
    with pytest.raises(ValueError, match="a number of 64 digits"):
        catalog.parse_yaml(f"sha256: {'1234' * 16}")
