"""Where the trained judge looks: at the body that decides, under the pointer, at the ball in the hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator, Philox

from refcheck import clips
from refcheck.judges import focus
from scenes.load import load_scene


def test_the_body_that_decides_is_found_by_putting_bodies_back():
    """Roulette: the ball, not the larger rotor. Two dice: both. Lottery: the ball in the tube, another one each time."""
    wheel = load_scene("calibench/roulette")
    ends = clips.search(wheel, 0, [2, 2, 2], limit=200).end
    names = [body.name for body in wheel.device.world().moving]
    assert {names[k] for k in focus.Focus.of(wheel, ends).bodies(wheel, ends)[:, 0]} == {"ball"}
    dice = load_scene("pawbench/A21")
    assert focus.parts_of(dice)[7] == ("2", "2") and focus.parts_of(wheel) is None
    rolled = clips.search(dice, 0, [1] * 11, limit=200).end
    assert focus.Focus.of(dice, rolled).count == 2
    draw = load_scene("pawbench/A19")
    drawn = clips.search(draw, 0, [1, 0, 1, 1], limit=64)
    bodies = focus.Focus.of(draw, drawn.end).bodies(draw, drawn.end)[:, 0]
    assert [draw.device.filling[k] for k in bodies] == [draw.device.facts[fact] for fact in drawn.fact]


@pytest.mark.parametrize("name", ["pawbench/A-03", pytest.param("quincunx/prize_wheel", marks=pytest.mark.slow)])
def test_a_wheel_is_looked_at_under_its_pointer(name):
    """Within 12 pixels of the tip, by the wheel's measures, although the far side of two halves tells as well."""
    scene = load_scene(name)
    wheel, ends = scene.device, clips.search(scene, 0, [2] * len(scene.outcomes), limit=64).end
    where = focus.Focus.of(scene, ends)
    tip = wheel.radius + 0.10 + (wheel.peg_circle if wheel.pegs else wheel.radius - 0.018)
    middles, sizes = where.places(scene.camera, ends, where.bodies(scene, ends))
    assert np.all(np.linalg.norm(middles - scene.camera.project((0.0, -0.014, tip)), axis=-1) < 12.0)
    assert np.all(sizes < 48.0)


def test_what_moves_about_has_no_spot():
    """The ball in a roulette's pocket turns, and is elsewhere each time."""
    scene = load_scene("calibench/roulette")
    ends = clips.search(scene, 0, [2, 2, 2], limit=200).end
    assert focus.Focus.of(scene, ends).spot is None


def test_the_ball_in_the_hand_is_found_although_another_lies_below():
    """A-13: of all balls the highest by far decides, and it has the colour that is read."""
    scene = load_scene("pawbench/A-13")
    drawn = clips.search(scene, 0, [3, 3], limit=24)
    bodies = focus.Focus.of(scene, drawn.end).bodies(scene, drawn.end)[:, 0]
    balls = drawn.end.pos[:, : len(scene.device.filling), 2]
    assert bodies.tolist() == balls.argmax(axis=1).tolist()
    assert [scene.device.filling[k] for k in bodies] == [scene.device.facts[fact] for fact in drawn.fact]


def test_a_pendulum_is_looked_at_by_its_bob():
    """28 mm of ball at 1.05 m: 21 pixels by the lens, in every pose; with the arm its box is up to 106 pixels long."""
    scene = load_scene("calibench/pendulum")
    ends = clips.search(scene, 0, [4, 4], limit=64).end
    where = focus.Focus.of(scene, ends)
    middles, sizes = where.places(scene.camera, ends, where.bodies(scene, ends))
    assert np.all(np.abs(sizes - 0.028 * 240 / np.tan(0.3) / 1.05) < 1.0)
    pivot = scene.camera.project((0.0, 0.0, 0.36))[0]
    assert np.array_equal(middles[:, 0, 0] > pivot, scene.outcome(scene.device.read(ends)) == 1)


def test_a_ball_is_turned_any_way_and_what_its_turn_decides_is_not():
    """Turns are uniform: a mean of 3 * 400 components is 0 within 4 standard errors of 1/2 each (false alarm 1e-4)."""
    scene = load_scene("pawbench/A19")
    ends = clips.search(scene, 0, [1, 0, 1, 1], limit=64).end
    states = type(ends).concatenate([ends[:1]] * 400)
    bodies = focus.Focus.of(scene, states[:1]).bodies(scene, states[:1])
    turned = focus.rolled(scene, states, np.tile(bodies, (400, 1)), Generator(Philox(3)))
    body = int(bodies[0, 0])
    assert abs(turned.quat[:, body, :3].mean()) < 4 * 0.5 / np.sqrt(1200)
    assert np.allclose(np.linalg.norm(turned.quat[:, body], axis=-1), 1.0)
    others = [k for k in range(states.pos.shape[1]) if k != body]
    assert np.array_equal(turned.quat[:, others], states.quat[:, others]) and np.array_equal(turned.pos, states.pos)
    dice = load_scene("pawbench/A21")
    rolled = clips.search(dice, 0, [1] * 11, limit=200).end
    both = focus.Focus.of(dice, rolled).bodies(dice, rolled)
    assert np.array_equal(focus.rolled(dice, rolled, both, Generator(Philox(3))).quat, rolled.quat)


def test_like_bodies_change_places_and_the_device_reads_them_anew():
    scene = load_scene("pawbench/A19")
    drawn = clips.search(scene, 0, [2, 0, 2, 2], limit=64)
    states, labels = focus.exchanged(scene, drawn.end, [3, 3, 3, 3])
    assert np.bincount(labels, minlength=4).tolist() == [3, 3, 3, 3]
    assert np.array_equal(scene.outcome(scene.device.read(states)), labels)
