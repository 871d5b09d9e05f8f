"""The deck: a shuffle permutes, recording changes nothing, and what lies face up is the card that was on top."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kernel_checks import check_batches, check_fold

from scenes.load import SceneError, load_scene
from simulators import rotation
from simulators.devices.card_deck import CARDS
from simulators.engines.loop import run
from simulators.sampling import Distribution, launch_block


@pytest.fixture(scope="module")
def scene():
    return load_scene("calibench/cards")


def test_batches_and_fold(scene):
    check_batches(scene.kernel, scene.device)
    check_fold(scene.kernel, scene.device, n=60)


def test_a_shuffle_is_a_permutation_and_a_riffle_keeps_the_order_within_both_packets(scene):
    launch = launch_block(scene.device.random, 1, "test", 0)
    order = scene.device.order(launch)
    assert np.array_equal(np.sort(order, axis=1), np.repeat(np.arange(52)[None], 1024, axis=0))
    once = dataclasses.replace(scene.device, riffles=1, random=laws(1))
    launch = launch_block(once.random, 1, "test", 0)
    place = np.argsort(once.order(launch), axis=1)
    cut = np.floor(launch["cuts"][:, 0] + 0.5).astype(int)
    for row in range(0, 1024, 97):
        assert np.all(np.diff(place[row, : cut[row]]) > 0) and np.all(np.diff(place[row, cut[row] :]) > 0)


def laws(riffles: int, dist: str = "norm") -> dict[str, Distribution]:
    cut = {"dist": "norm", "loc": 26.0, "scale": 3.6} if dist == "norm" else {"dist": "binom", "n": 52, "p": 0.5, "loc": 0}
    return {
        "cuts": Distribution.of({**cut, "size": riffles}),
        "drops": Distribution.of({"dist": "uniform", "loc": 0.0, "scale": 1.0, "size": 52 * riffles}),
    }


def test_the_card_shown_is_the_one_that_was_on_top(scene):
    rollouts = run(scene.kernel, scene.device, 4, "test", range(300))
    assert np.array_equal(rollouts.fact, scene.device.order(launch_block(scene.device.random, 4, "test", 0))[:300, 0])
    assert set(np.unique(scene.outcome(rollouts.fact))) == {0, 1, 2, 3}
    assert not rollouts.null.any()


def test_every_card_can_come_up(scene):
    """52 cards in 4,096 shuffles: one is missing with probability below 52 exp(-4096 / 60), were the least likely 1/60."""
    facts = run(scene.kernel, scene.device, 0, "test", range(4096)).fact
    assert len(np.unique(facts)) == len(CARDS)


def test_relabelling_the_suits_relabels_the_tally(scene):
    swapped = {"scene.outcomes.hearts": "S", "scene.outcomes.spades": "H"}
    facts = run(scene.kernel, scene.device, 2, "test", range(2000)).fact
    told = np.bincount(scene.outcome(facts), minlength=4)
    words = [f"{key}=[{','.join(r + suit for r in 'A 2 3 4 5 6 7 8 9 10 J Q K'.split())}]" for key, suit in swapped.items()]
    other = np.bincount(load_scene("calibench/cards", words).outcome(facts), minlength=4)
    assert told[[3, 1, 2, 0]].tolist() == other.tolist()


def test_sizes_that_do_not_fit_the_riffles_are_named():
    with pytest.raises(SceneError, match="one a riffle"):
        load_scene("calibench/cards", ["scene.device.riffles=3"])


def test_a_hidden_order_is_no_visible_mechanism(scene):
    from scenes.load import build_scene, compose_scene

    with pytest.raises(SceneError, match="hidden_state"):
        build_scene({**compose_scene("calibench/cards"), "basis": "mechanism"}, "here")


def test_the_turned_card_lies_with_its_head_away_from_the_camera(scene):
    """The camera looks from -y: a reader sees the card upright where its own +y, the top of its face, is still +y."""
    rollouts = run(scene.kernel, scene.device, 0, "test", range(8), fps=16.0)
    for fact, path in zip(rollouts.fact, rollouts.trajectories, strict=True):
        turn = path.quat[:, fact]
        np.testing.assert_allclose(rotation.rotate(turn[-1], np.array([0.0, 1.0, 0.0])), (0.0, 1.0, 0.0), atol=1e-12)
        np.testing.assert_allclose(rotation.upward(turn[[0, -1]])[:, 2], (-1.0, 1.0), atol=1e-12)
