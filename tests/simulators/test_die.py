"""The die: what a state shows, and how the distribution moves when the scene is changed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from scenes.load import load_scene
from simulators import rotation
from simulators.device import ON_EDGE, UNDECIDED, State
from simulators.devices.die import Dice, Die
from simulators.engines.loop import run
from simulators.sampling import Distribution

UP = {  # the rotation that brings each face up, by where `Material` says that face is
    "1": ((0.0, 1.0, 0.0), -np.pi / 2),
    "6": ((0.0, 1.0, 0.0), np.pi / 2),
    "2": ((1.0, 0.0, 0.0), np.pi / 2),
    "5": ((1.0, 0.0, 0.0), -np.pi / 2),
    "3": ((1.0, 0.0, 0.0), 0.0),
    "4": ((1.0, 0.0, 0.0), np.pi),
}


@pytest.fixture(scope="module")
def scene():
    return load_scene("calibench/dice")


@pytest.fixture(scope="module")
def die(scene) -> Die:
    return scene.device


@pytest.fixture(scope="module")
def dice() -> Dice:
    return load_scene("pawbench/A21").device


def law(mean: float, sd: float = 0.0) -> Distribution:
    return Distribution.of({"dist": "norm", "loc": mean, "scale": sd})


def with_laws(die: Die, **laws: Distribution) -> Die:
    return dataclasses.replace(die, random={**die.random, **laws})


def posed(die: Die, height: float, quat) -> State:
    state = State.at_release(die.world(), 1)
    state.pos[0, 0], state.quat[0, 0] = (0.0, 0.0, height), quat
    return state


def shares(rollouts) -> np.ndarray:
    valid = rollouts.fact[rollouts.fact >= 0]
    return np.bincount(valid, minlength=6) / len(valid)


@pytest.mark.parametrize("face", list(UP))
@pytest.mark.parametrize("yaw", [0.0, 1.0, -2.5])
def test_read_each_face_at_any_yaw(die: Die, face: str, yaw: float) -> None:
    quat = rotation.multiply(rotation.about((0.0, 0.0, 1.0), yaw), rotation.about(*UP[face]))
    assert die.facts[die.read(posed(die, 0.01, quat))[0]] == face


def test_read_a_die_in_the_air_or_on_an_edge(die: Die) -> None:
    level, leaning = (0.0, 0.0, 0.0, 1.0), rotation.about((1.0, 0.0, 0.0), np.pi / 4)
    assert die.read(posed(die, 0.1, level))[0] == UNDECIDED
    assert die.read(posed(die, 0.0141, leaning))[0] == ON_EDGE


def test_read_a_flat_box_by_its_own_half_height(die: Die) -> None:
    flat = dataclasses.replace(die, size=(0.03, 0.02, 0.01))
    assert flat.read(posed(flat, 0.005, (0.0, 0.0, 0.0, 1.0)))[0] == 2  # on its broad side: '3' is up
    assert flat.read(posed(flat, 0.015, rotation.about(*UP["1"])))[0] == 0  # upright


@pytest.mark.parametrize("role", ["kernel", "engine"])
def test_dropped_level_without_spin_the_top_face_stays(scene, die: Die, role: str) -> None:
    """Zero the action: no speed, no spin, no tip. Face 3 is up in the picture and remains so."""
    still = with_laws(dataclasses.replace(die, tip=0.0, height=0.03), **{name: law(0.0) for name in die.variables})
    rollouts = run(getattr(scene, role), still, 0, scene.stream, range(4))
    assert np.all(rollouts.fact == die.facts.index("3"))


def test_without_noise_there_is_one_outcome(scene, die: Die) -> None:
    still = with_laws(die, **{name: law(float(d.mean())) for name, d in die.random.items()})
    rollouts = run(scene.kernel, still, 0, scene.stream, [0, 1, 1023, 1024, 5000])
    assert len(set(rollouts.fact)) == 1 and len(set(rollouts.settle_time)) == 1


@pytest.mark.parametrize("role", ["kernel", "engine"])
def test_a_die_that_leaves_the_box_is_a_null_with_its_reason(scene, die: Die, role: str) -> None:
    hard = with_laws(die, speed_x=law(4.0, 0.1), speed_z=law(2.0, 0.1))
    rollouts = run(getattr(scene, role), hard, 0, scene.stream, range(6))
    assert np.all(rollouts.fact == -1) and np.all(rollouts.null == 2)  # left_apparatus


def test_every_wrong_parameter_is_named_at_once(die: Die) -> None:
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(die, density=0.0, friction=-1.0, size=(0.02, 0.02))
    message = str(caught.value)
    for words in ("`density` must be larger than 0, got 0.0", "`friction` must be at least 0", "`size` must be three edges"):
        assert words in message


def test_read_two_dice_as_a_pair(dice: Dice) -> None:
    state = State.at_release(dice.world(), 1)
    state.pos[0, :2, 2] = dice.size[2] / 2
    state.quat[0, 0], state.quat[0, 1] = rotation.about(*UP["5"]), rotation.about(*UP["2"])
    assert dice.facts[dice.read(state)[0]] == "5+2"
    state.quat[0, 1] = rotation.about((1.0, 0.0, 0.0), np.pi / 4)
    assert dice.read(state)[0] == ON_EDGE
    state.pos[0, 1, 2] = 0.1
    assert dice.read(state)[0] == UNDECIDED


def test_a_pair_of_faces_is_its_sum() -> None:
    scene = load_scene("pawbench/A21")
    for fact, at in zip(scene.device.facts, scene.outcome_of_fact, strict=True):
        one, two = map(int, fact.split("+"))
        assert scene.outcomes[at] == f"sum_{one + two}"
    pairs = np.bincount(scene.outcome_of_fact) / 36.0
    assert np.allclose(pairs, scene.q())


def test_dice_need_room_between_them(dice: Dice) -> None:
    with pytest.raises(ValueError, match="`apart` must leave room"):
        dataclasses.replace(dice, apart=0.02)


def test_every_face_and_every_sum_is_reached_and_every_state_classified() -> None:
    for scene_id, labels in (("calibench/dice", 6), ("pawbench/A-02", 6), ("pawbench/A21", 11)):
        scene = load_scene(scene_id)
        rollouts = run(scene.kernel, scene.device, 9, scene.stream, range(1500))
        reached = scene.outcome(rollouts.fact)
        assert set(reached[reached >= 0]) == set(range(labels))
        assert np.all((rollouts.fact >= 0) == (rollouts.null == 0))
        assert np.mean(rollouts.null != 0) < 0.02


@pytest.mark.slow
def test_mirrored_the_die_shows_the_mirrored_faces(scene, die: Die) -> None:
    """Mirror in y: spin about x and z and speed along y change sign, faces 2 and 5 change places.

    n = 20,000 a side of a weak lopsided throw; each share within 4 standard errors of the other side's mirrored one:
    false-alarm rate below 6 * 6.4e-5.
    """
    n, faces = 20_000, {}
    for side in (1.0, -1.0):
        weak = with_laws(die, spin_x=law(side * 15.0, 3.0), spin_y=law(5.0, 3.0), spin_z=law(0.0, 1.0))
        faces[side] = shares(run(scene.kernel, weak, 2, f"{scene.stream}/{side}", range(n)))
    mirrored = faces[-1.0][[0, 4, 2, 3, 1, 5]]
    error = np.sqrt(2 * np.maximum(faces[1.0] * (1 - faces[1.0]), 1e-3) / n)
    assert np.all(np.abs(faces[1.0] - mirrored) < 4 * error)
    assert np.abs(faces[1.0] - faces[-1.0]).max() > 8 * error.max()  # lopsided enough for the mirror to matter


@pytest.mark.slow
def test_mirrored_two_dice_change_places(dice: Dice) -> None:
    """Mirror in y: the dice change places too. A weak throw that drives them together, n = 4,000 a side.

    Each of the 36 shares within 5 standard errors: false-alarm rate below 36 * 5.8e-7.
    """
    scene, n, pairs = load_scene("pawbench/A21"), 4000, {}
    for side in (1.0, -1.0):
        names = ("1", "2") if side > 0 else ("2", "1")
        laws = dict(dice.random)
        for name, speed, spin in zip(names, (0.4, -0.3), (12.0, 3.0), strict=True):
            laws[f"speed_y_{name}"], laws[f"spin_x_{name}"] = law(side * speed, 0.05), law(side * spin, 1.0)
            laws[f"spin_y_{name}"], laws[f"spin_z_{name}"] = law(5.0, 1.0), law(0.0, 1.0)
        thrown = dataclasses.replace(dice, random=laws, restitution=0.1, height=0.06)
        rollouts = run(scene.kernel, thrown, 3, f"{scene.stream}/{side}", range(n))
        assert rollouts.end.touched.mean() > 0.9
        fact = rollouts.fact[rollouts.fact >= 0]
        pairs[side] = np.bincount(fact, minlength=36).reshape(6, 6) / len(fact)
    change = [0, 4, 2, 3, 1, 5]
    mirrored = pairs[-1.0][np.ix_(change, change)].T
    error = np.sqrt(2 * np.maximum(pairs[1.0], 1e-3) / n)
    assert np.all(np.abs(pairs[1.0] - mirrored) < 5 * error)
    assert np.any(np.abs(pairs[1.0] - pairs[-1.0]) > 8 * error)
