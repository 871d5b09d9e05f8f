"""Proposals: references counted from what is visible, unlike one another, reproducible, in words that give nothing away."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import yaml

from refcheck import app, families, family_files, generate, prompt_check
from refcheck.command import UserError
from refcheck.output import plain
from scenes import catalog, mechanism
from scenes.load import load_scene
from simulators.device import State
from simulators.devices.spinner import Spinner
from simulators.engines.loop import physics_digest
from simulators.render import prepare
from simulators.render.canvas import nominal_state
from simulators.sampling import generator
from simulators.world import Camera, Light

NAMES = sorted(families.BUILDERS)


@cache
def pool(name: str, seed: int = 1, count: int = 24):
    return generate.candidates(generate.read_family(generate.family_file(name)), name, seed, count)


@pytest.mark.parametrize("name", NAMES)
def test_every_family_proposes_scenes_that_load_with_their_partners(name, tmp_path):
    found, _ = pool(name)
    assert len(found) >= 8
    one = found[0].proposal
    base = generate.scene_config(one, f"quincunx/{name}-0", "A title", f"family={name}", 416)
    kinds = (("causal", one.causal), ("non_causal", one.non_causal))
    configs = [base, *(generate.partner_config(base, partner, kind) for kind, partner in kinds if partner)]
    folder = tmp_path / "scene" / "quincunx"
    folder.mkdir(parents=True)
    for config in configs:
        (folder / f"{config['id'].partition('/')[2]}.yaml").write_text(yaml.safe_dump(plain(config), sort_keys=False))
    with catalog.beside(tmp_path):
        scenes = [load_scene(config["id"]) for config in configs]
    assert prompt_check.action_problems(scenes[0].action) == []
    assert prompt_check.naming_problems(scenes[0].action, scenes[0].prompt, scenes[0].outcomes) == []
    for scene in scenes:
        assert (scene.camera.width, scene.camera.height) == (416, 240)
        assert sum((scene.reference.q or {}).values()) == 1 and scene.stream == scenes[0].id
        assert scene.variant is None or (scene.reference.q != scenes[0].reference.q) == (scene.variant.kind == "causal")


@pytest.mark.parametrize("name", NAMES)
def test_references_are_fractions_that_sum_to_one_over_the_outcomes(name):
    for one in pool(name)[0]:
        q = one.proposal.q
        assert all(isinstance(share, Fraction) and share >= 0 for share in q.values()) and sum(q.values()) == 1
        assert list(q) == list(one.proposal.config["outcomes"])


def test_a_wheel_claims_what_a_stop_at_every_angle_alike_shows():
    """The device's own reading at 5,760 evenly spaced angles: each edge costs at most one of them."""
    for one in pool("wheel")[0][:6]:
        for config, q in ((one.proposal.config["device"], one.proposal.q), (_changed(one.proposal), one.proposal.causal.q)):
            wheel = Spinner(**{key: value for key, value in config.items() if key != "_target_"} | {"pointer": 1e-6})
            angle = 2.0 * np.pi * (np.arange(5760) + 0.5) / 5760
            world = wheel.world()
            state = State.at_release(world, len(angle))
            quat = np.stack([wheel.turned(float(a)) for a in angle])[:, None]
            fact = wheel.read(dataclasses.replace(state, quat=quat))
            share = np.bincount(fact[fact >= 0], minlength=len(wheel.facts)) / 5760
            assert np.abs(share - [float(q[label]) for label in wheel.facts]).max() <= len(wheel.colors) / 5760


def _changed(proposal: families.Proposal) -> dict:
    return catalog.merge(proposal.config["device"], proposal.causal.config["device"])


@pytest.mark.parametrize(("name", "of"), [("die", 6), ("cards", 52), ("roulette", None)])
def test_faces_cards_and_pockets_are_counted(name, of):
    for one in pool(name)[0]:
        device, problems = mechanism.build("device", one.proposal.config["device"])
        assert problems == []
        outcomes = one.proposal.config["outcomes"]
        assert sorted(fact for facts in outcomes.values() for fact in facts) == sorted(device.facts)
        assert {label: Fraction(len(facts), of or len(device.facts)) for label, facts in outcomes.items()} == one.proposal.q


def test_pockets_have_the_colours_that_their_outcomes_say():
    for one in pool("roulette")[0]:
        config = one.proposal.config
        color = dict(zip(config["device"]["pockets"], config["device"]["colors"], strict=True))
        assert all(color[pocket] == label for label, pockets in config["outcomes"].items() for pocket in pockets)


def test_a_board_read_by_sides_is_its_own_mirror_image():
    for one in pool("board")[0]:
        config = one.proposal.config
        device, _ = mechanism.build("device", config["device"])
        assert np.array(sorted((-x, z) for x, z in device.pegs())) == pytest.approx(np.array(sorted(device.pegs())))
        assert device.offset == 0.0
        bins = list(device.facts)
        assert config["outcomes"] == {"left": bins[: len(bins) // 2], "right": bins[len(bins) // 2 :]}


def test_a_hood_hides_where_the_ball_starts_and_is_no_physics():
    """Moved by half its radius behind the hood the ball changes frame 0 by a breath of soft shadow; in the open by itself."""
    config = pool("hooded_board")[0][0].proposal.config
    kernel, _ = mechanism.build("kernel", config["kernel"])
    hooded, _ = mechanism.build("device", config["device"])
    bare = dataclasses.replace(hooded, hood=False)
    assert hooded.hood and physics_digest(hooded, kernel) == physics_digest(bare, kernel)
    camera = Camera(**config["camera"], width=416, height=240)
    changes = []
    for device in (hooded, bare):
        world = device.world()
        still = nominal_state(world)
        pos = still.pos.copy()
        pos[0, world.loose[0], 0] += 0.5 * device.ball_radius
        canvas = prepare("planar", world, camera, Light())
        one, other = (canvas.frame(state, 0).astype(int) for state in (still, dataclasses.replace(still, pos=pos)))
        changes.append(int(np.abs(one - other).max()))
    assert changes[0] <= 10 and changes[1] > 60  # of 255


def test_compositions_are_alike():
    """C(5, 2) = 10 ways to write 6 as three parts; 5,000 draws, chi-square (9): false alarm 1e-4 at 33.7; seed fixed."""
    ranges = families.Ranges({}, generator(7, "test", "parts", 0, 0))
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(5000):
        parts = tuple(ranges.parts(6, 3))
        assert sum(parts) == 6 and min(parts) >= 1
        seen[parts] = seen.get(parts, 0) + 1
    assert len(seen) == 10 and sum((n - 500) ** 2 / 500 for n in seen.values()) < 33.7


def fake(one: generate.Candidate, id: str) -> np.ndarray:
    return np.random.default_rng(one.number).integers(0, 255, (60, 104, 3), np.uint8)


def chosen(candidates, n: int, draw=fake) -> tuple[list[generate.Candidate], generate.Choice]:
    choice = generate.choose(candidates, "x", 0, n, draw, lambda count: None)
    return [one for one, _, _ in choice.chosen], choice


def test_the_choice_is_diverse_and_fewer_are_the_first_of_more():
    """The least difference among ten chosen exceeds that among the first ten proposals, of every seed tried."""

    def least(some) -> float:
        return min(float(np.abs(a.place - b.place).max()) for i, a in enumerate(some) for b in some[:i])

    for seed in (1, 2, 3):
        candidates = pool("wheel", seed, 120)[0]
        ten, _ = chosen(candidates, 10)
        assert len(ten) == 10 and least(ten) > least(candidates[:10])
        assert chosen(candidates, 4)[0] == ten[:4]
    assert len({one.proposal.q[next(iter(one.proposal.q))] for one in ten}) >= 6  # in its reference too


def test_near_duplicates_are_rejected_by_physics_by_place_and_by_picture():
    candidates = pool("wheel", 1, 24)[0]
    first = candidates[0]
    twice = dataclasses.replace(first, number=99, place=first.place + 0.5)
    found, choice = chosen([first, twice], 2)
    assert len(found) == 1 and choice.rejected["the same scene as one chosen"] == 1
    other = dataclasses.replace(first.proposal, config={**first.proposal.config, "epsilon": 0.01})
    near = dataclasses.replace(first, number=99, proposal=other, place=first.place + 0.01)
    found, choice = chosen([first, near], 2)
    assert len(found) == 1 and choice.rejected["nearly one chosen, in all that varies"] == 1
    like = dataclasses.replace(near, place=first.place + 0.5)
    found, choice = chosen([first, like], 2, lambda one, id: np.full((60, 104, 3), 90 + (one.number == 99), np.uint8))
    assert len(found) == 1 and choice.rejected["nearly the picture and the reference of one chosen"] == 1


def test_what_cannot_be_built_is_passed_over():
    def draw(one, id):
        if one.number % 2:
            raise catalog.SceneError("a.yaml: it moves an outline")
        return fake(one, id)

    found, choice = chosen(pool("wheel", 1, 60)[0], 5, draw)
    assert len(found) == 5 and all(one.number % 2 == 0 for one in found) and choice.rejected["it moves an outline"]


def test_difficulty_is_known_for_coins_and_dice():
    """Entropy of 6 equal faces log2 6; E|X/50 - 1/2| of a fair coin C(50, 25) / 2^51 (De Moivre's mean absolute deviation)."""
    dice = generate.difficulty({str(face): Fraction(1, 6) for face in range(6)}, 50)
    assert dice["entropy"] == pytest.approx(np.log2(6.0)) and dice["smallest"] == "1/6" and dice["support"] == 6
    coin = generate.difficulty({"a": Fraction(1, 2), "b": Fraction(1, 2)}, 50)
    assert coin["floor"] == pytest.approx(math.comb(50, 25) / 2**51)
    assert generate.difficulty({"a": Fraction(1), "b": Fraction(0)}, 50)["entropy"] == 0.0


@pytest.mark.parametrize(
    ("action", "part"),
    [
        ("Spin the wheel. Stop it.", "2 sentences"),
        ("Spin the wheel twice.", "'twice'"),
        ("Flick the coin, then catch it.", "'then'"),
        ("Shake the box until it stops.", "'until'"),
        ("Lift it and turn it and drop it.", "more than two deeds"),
    ],
)
def test_an_action_is_one_and_atomic(action, part):
    assert any(part in problem for problem in prompt_check.action_problems(action))


def test_an_outcome_is_not_named_alone():
    named = prompt_check.naming_problems
    assert named("Spin it once.", "The wheel stops on red.", ("red", "blue")) == [
        "the outcome 'red' is named in action or prompt, and others are not"
    ]
    assert named("Spin it once.", "A red and blue wheel turns.", ("red", "blue")) == []
    assert named("Spin it once.", "A coloured wheel; it is rendered.", ("red", "blue")) == []  # a word, not letters
    assert len(named("Let it go once.", "It falls left.", ("falls_left", "falls_right"))) == 1


def test_what_decides_is_kept_in_the_picture():
    scene = load_scene("pawbench/A-05")
    assert prompt_check.problems(scene) == ["the outcome 'right' is named in action or prompt, and others are not"]
    near = dataclasses.replace(scene, camera=dataclasses.replace(scene.camera, fov=0.05), prompt="A ball falls.")
    told = prompt_check.problems(near)
    assert any("camera" in one for one in told) and any("ball is not in the picture where it ends" in one for one in told)


def test_generate_writes_all_of_a_scene_and_again_the_same(tmp_path, capsys):
    words = ["generate", "family=board", "n=1", "seed=4", "candidates=6", "partners=true", "json=true", "workers=1"]
    for name in ("a", "b"):
        assert app.main([*words, f"out={tmp_path / name}", *(["verify=true"] if name == "b" else [])]) == 0
    told = capsys.readouterr().out.replace("}\n{", "}\n\n{").split("\n\n")
    result, certified = (json.loads(text) for text in told)
    assert [one["scene"] for one in certified["certificates"]] == [row["id"] for row in result["scenes"]]
    assert {one["verdict"] for one in certified["certificates"]} == {"holds"}  # sides: wrong by chance at most .01 each
    ids = [row["id"] for row in result["scenes"]]
    assert ids == [f"quincunx/board-s4-00{partner}" for partner in ("", "-causal", "-non-causal")]  # one peg
    digest = {row["id"]: row["digest"] for row in result["scenes"]}
    assert digest["quincunx/board-s4-00"] == digest["quincunx/board-s4-00-non-causal"]  # a sign is no physics
    for id in ids:
        name = id.partition("/")[2]
        for file in (f"scene/{id}.yaml", f"source_images/{name}.png", f"prompts/{name}.txt", f"rubrics/{name}.json"):
            assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    with catalog.beside(tmp_path / "a"):
        assert load_scene(ids[0]).reference.q == {"left": Fraction(1, 2), "right": Fraction(1, 2)}
    assert not [id for id in catalog.scene_ids() if "-s4-" in id]  # and they are gone from this process


def files(folder) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


WHEEL = ["generate", "family=wheel", "n=1", "candidates=3", "width=256", "json=true", "workers=1"]


def test_overwrite_leaves_nothing_of_another_run(tmp_path, capsys):
    assert app.main([*WHEEL, "seed=0", f"out={tmp_path}"]) == 0
    assert app.main([*WHEEL, "seed=1", f"out={tmp_path}", "overwrite=true"]) == 0
    name = "wheel-s1-00"
    assert files(tmp_path) == {
        *(f"scene/quincunx/{name}.yaml", f"source_images/{name}.png", f"prompts/{name}.txt", f"rubrics/{name}.json"),
        "result.json",
    }


def test_a_proposal_that_will_not_do_is_counted_and_the_next_is_taken(tmp_path, capsys, monkeypatch):
    seen = []

    def first_alone(scene):
        seen.append(scene.id)
        return ["the ball is not in the picture where it ends"] if len(seen) == 1 else []

    monkeypatch.setattr(prompt_check, "problems", first_alone)
    assert app.main([*WHEEL, f"out={tmp_path / 'a'}"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["candidates"]["rejected"] == {"the ball is not in the picture where it ends": 1} and len(seen) == 2
    monkeypatch.setattr(prompt_check, "problems", lambda scene: ["it is too dark"])
    assert app.main([*WHEEL, f"out={tmp_path / 'b'}"]) == 2
    assert "2 x it is too dark" in capsys.readouterr().err
    assert files(tmp_path / "b") == set()


def test_the_margin_of_a_picture_goes_with_its_size():
    scene = load_scene("calibench/galton_board")
    small = dataclasses.replace(scene, camera=dataclasses.replace(scene.camera, width=256, height=148))
    assert prompt_check._view(small) == prompt_check._view(scene) == []


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"base": "pawbench/A-3"}, "is no scene (did you mean 'pawbench/A-13'?)"),
        ({"builder": "whel"}, "builder"),
        ({"ranges": {"colors": [2, 3]}}, "ranges.sectors is missing"),
        ({"ranges": {"coulors": [2, 3]}}, "ranges.coulors is no range of wheel (did you mean 'colors'?)"),
        ({"ranges": {"phase": [3, 1]}}, "ranges.phase is [3, 1]: it must be [low, high]"),
        ({"ranges": {"palette": []}}, "ranges.palette is []: it must list what to choose from"),
        ({"ranges": {"palette": [1]}}, "it must list words"),
        ({"ranges": {"phase": [0.18, math.inf]}}, "ranges.phase is [0.18, inf]: it must be [low, high]"),
        (
            {"ranges": {"sectors": [1, 10**9]}},
            "[1, 1000000000]: it must be [low, high], whole numbers from 1 to 100",
        ),
        ({"ranges": {"sectors": [2.5, 3.5]}}, "whole numbers from 1 to 100"),
        ({"scene": {"title": {"a": 1}}}, "scene: `title`"),
        ({"scene": {"zzz": {"a": 1}}}, "scene: `zzz` is not a key here"),
        ({"scene": {"device": "x"}}, "scene: `device`"),
        ({"scene": {"device": {"zzz": 1}}}, "`device.zzz` is not a parameter of Spinner"),
        ({"scene": {"device": {"friction": "x"}}}, "`device.friction`"),
        ({"base": "calibench/dice"}, "base 'calibench/dice' has a 'simulators.devices.die.Die'; builder wheel needs a"),
    ],
)
def test_a_family_is_checked(tmp_path, change, part):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**catalog.read_yaml(generate.family_file("wheel")), **change}))
    with pytest.raises(UserError) as caught:
        generate.read_family(path)
    assert part in str(caught.value)


def test_a_range_of_words_is_of_words_that_say_something():
    assert family_files.range_problem("board", "reading", ["zzz"]) == "it must list some of sides, bins"
    assert family_files.range_problem("cards", "reading", ["suit", "ranks"]) == ""
    assert family_files.range_problem("pencil", "lean", [0, 1.5]) == "it must list whole degrees, -45 to 45"


def test_a_family_that_is_not_there_is_told(tmp_path, capsys):
    assert app.main(["generate", "family=wheels", f"out={tmp_path}"]) == 2
    assert "no family is named 'wheels' (did you mean 'wheel'?)" in capsys.readouterr().err
