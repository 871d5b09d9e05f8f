"""The coin: what a state shows, what the action does, and how the distribution moves when the scene is changed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from scenes.load import load_scene
from simulators import rotation
from simulators.device import ON_EDGE, UNDECIDED, State
from simulators.devices.coin import Coin
from simulators.engines.loop import run
from simulators.sampling import Distribution


@pytest.fixture(scope="module")
def scene():
    return load_scene("pawbench/A-01")


@pytest.fixture(scope="module")
def coin(scene) -> Coin:
    return scene.device


def fixed(value: float) -> Distribution:
    return Distribution.of({"dist": "norm", "loc": value, "scale": 0.0})


def with_laws(coin: Coin, **laws: Distribution) -> Coin:
    return dataclasses.replace(coin, random={**coin.random, **laws})


def posed(coin: Coin, height: float, tilt: float, start: str = "heads") -> State:
    """One state with the coin's centre at `height`, turned by `tilt` [rad] about x from heads up."""
    world = dataclasses.replace(coin, start_face=start).world()
    state = State.at_release(world, 1)
    state.pos[0, 0], state.quat[0, 0] = (0.0, 0.0, height), rotation.about((1.0, 0.0, 0.0), tilt)
    return state


@pytest.mark.parametrize(
    ("height", "tilt", "shown"),
    [
        (0.0009, 0.0, 0),
        (0.0009, np.pi, 1),
        (0.0009, 0.05, 0),
        (0.1, 0.0, UNDECIDED),
        (0.1, np.pi, UNDECIDED),
        (0.0121, np.pi / 2, ON_EDGE),
        (0.009, np.pi / 4, ON_EDGE),
    ],
)
def test_read(coin: Coin, height: float, tilt: float, shown: int) -> None:
    assert coin.read(posed(coin, height, tilt))[0] == shown


def test_the_face_of_the_picture_is_the_face_that_is_up(coin: Coin) -> None:
    """The heads design is on local +z: `start_face` must be what a camera above the table sees."""
    for face, up in (("heads", 1.0), ("tails", -1.0)):
        start = State.at_release(dataclasses.replace(coin, start_face=face).world(), 1)
        assert rotation.rotate(start.quat[0, 0], (0.0, 0.0, 1.0))[2] == pytest.approx(up)


def test_without_spin_the_face_shown_at_the_start_stays_up(scene, coin: Coin) -> None:
    still = with_laws(coin, spin=fixed(0.0), precession=fixed(0.0))
    for face, fact in (("heads", 0), ("tails", 1)):
        rollouts = run(scene.engine, dataclasses.replace(still, start_face=face), 0, scene.stream, range(12))
        assert np.all(rollouts.fact == fact)


def test_without_noise_there_is_one_outcome(scene, coin: Coin) -> None:
    means = {name: fixed(float(law.mean())) for name, law in coin.random.items()}
    rollouts = run(scene.engine, with_laws(coin, **means), 0, scene.stream, [0, 1, 1023, 1024, 5000])
    assert len(set(rollouts.fact)) == 1 and len(set(rollouts.settle_time)) == 1


def test_every_wrong_parameter_is_named_at_once(coin: Coin) -> None:
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(coin, thickness=-1.0, restitution=1.5, start_face="edge", random={"spin": fixed(0.0)})
    message = str(caught.value)
    for words in ("`thickness` must be larger than 0, got -1.0", "`restitution` must be from 0 to 1", "`start_face`", "lacks"):
        assert words in message


@pytest.mark.slow
def test_the_start_face_swaps_the_outcomes_and_nothing_else(scene, coin: Coin) -> None:
    """A disc turned over is the same disc: P(heads | heads up) = P(tails | tails up).

    n = 4,000 a side; two-sided, 4 standard errors of the difference: false-alarm rate 6e-5. A wide precession gives the
    start face a strong say, so that the test would see a reading that is not symmetric.
    """
    wide = with_laws(coin, precession=Distribution.of({"dist": "norm", "loc": 0.0, "scale": 20.0}))
    same = []
    for face, fact in (("heads", 0), ("tails", 1)):
        rollouts = run(scene.engine, dataclasses.replace(wide, start_face=face), 1, f"{scene.stream}/{face}", range(4000))
        same.append(np.mean(rollouts.fact[rollouts.fact >= 0] == fact))
    error = np.sqrt(0.25 / 4000)
    assert abs(same[0] - same[1]) < 4 * np.sqrt(2) * error
    assert min(same) > 0.5 + 4 * error  # it leans into its turn: the start face is favoured


@pytest.mark.slow
def test_a_weak_flick_depends_on_its_strength(scene, coin: Coin) -> None:
    """Less than a quarter turn in the air leaves the face, about half a turn turns it over: n = 4,000 each."""
    turns = {}
    for spin in (1.0, 10.0):
        weak = with_laws(coin, spin=Distribution.of({"dist": "norm", "loc": spin, "scale": 0.2}))
        rollouts = run(scene.engine, weak, 1, scene.stream, range(4000))
        turns[spin] = np.mean(rollouts.fact[rollouts.fact >= 0] == 1)
    assert turns[1.0] < 0.001
    assert turns[10.0] > 0.9
