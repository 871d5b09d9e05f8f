"""The roulette wheel: what a state shows, how its kernel holds to its contract, and how pockets move with the wheel."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from scenes.load import load_scene
from simulators import rotation
from simulators.device import STUCK, UNDECIDED, Launches, State
from simulators.devices.roulette import Roulette
from simulators.engines.loop import run
from simulators.sampling import Distribution, nominal_launch
from tests.simulators.kernel_checks import check_batches, check_fold, tvd_bound

SCENES = ("calibench/roulette", "pawbench/A16")
MANY = 20_000


@pytest.fixture(scope="module")
def scene():
    return load_scene("calibench/roulette")


@pytest.fixture(scope="module")
def wheel(scene) -> Roulette:
    return scene.device


def law(mean: float, sd: float = 0.0) -> Distribution:
    return Distribution.of({"dist": "norm", "loc": mean, "scale": sd})


def with_laws(device: Roulette, **laws: Distribution) -> Roulette:
    return dataclasses.replace(device, random={**device.random, **laws})


def labels(scene, rollouts) -> np.ndarray:
    return scene.outcome(rollouts.fact)


def tvd_from(q: np.ndarray, outcomes: np.ndarray) -> float:
    valid = outcomes[outcomes >= 0]
    return 0.5 * float(np.abs(np.bincount(valid, minlength=len(q)) / len(valid) - q).sum())


def posed(wheel: Roulette, azimuth: float, radius: float, height: float, rotor: float, spin: float = 0.0) -> State:
    state = State.at_release(wheel.world(), 1)
    place = np.array([radius * math.cos(azimuth), radius * math.sin(azimuth), height])
    state.pos[0, 1], state.quat[0, 0] = place, rotation.about((0.0, 0.0, 1.0), rotor)
    state.omega[0, 0, 2] = spin
    state.vel[0, 1] = spin * np.array([-place[1], place[0], 0.0])
    return state


@pytest.mark.parametrize("rotor", [0.0, 1.0, -4.0])
@pytest.mark.parametrize("clockwise", [0, 1, 18, 36])
def test_read_each_pocket_as_the_rotor_has_it(wheel: Roulette, clockwise: int, rotor: float) -> None:
    """Pocket k is the k-th clockwise from the rotor's x axis, turning or not."""
    azimuth = rotor - 2.0 * math.pi * (clockwise + 0.5) / 37
    deep = wheel.floor + wheel.ball_radius
    for spin in (0.0, 1.5):
        assert wheel.read(posed(wheel, azimuth, 0.155, deep, rotor, spin))[0] == clockwise


def test_the_printed_order_and_the_painted_order_agree(wheel: Roulette) -> None:
    """What the picture paints under a ball is the pocket that is read: sectors run counterclockwise, pockets clockwise."""
    ring = next(b for b in wheel.world().bodies if b.name == "rotor").parts[0].material.sectors
    state = posed(wheel, 2.0 * math.pi * 5.5 / 37, 0.155, wheel.floor + wheel.ball_radius, 0.0)
    assert ring[5].label == wheel.facts[wheel.read(state)[0]]


def test_read_a_ball_that_no_pocket_holds(wheel: Roulette) -> None:
    rolling = posed(wheel, 0.0, wheel.track_radius, wheel.track_height, 0.0)
    assert wheel.read(rolling)[0] == STUCK  # at rest on the rim
    rolling.vel[0, 1, 1] = 1.0
    assert wheel.read(rolling)[0] == UNDECIDED
    fast = posed(wheel, 0.1, 0.155, wheel.floor + wheel.ball_radius, 0.0)
    fast.vel[0, 1, 2] = 0.05
    assert wheel.read(fast)[0] == UNDECIDED


@pytest.mark.parametrize("name", SCENES)
def test_the_kernel_keeps_its_contract(name: str) -> None:
    one = load_scene(name)
    check_batches(one.kernel, one.device)
    check_fold(one.kernel, one.device, n=100)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_its_facts_are_the_devices_on_a_thousand(name: str) -> None:
    one = load_scene(name)
    check_fold(one.kernel, one.device)


def test_every_label_is_reached_and_every_end_classified() -> None:
    for name in SCENES:
        one = load_scene(name)
        rollouts = run(one.kernel, one.device, 3, one.stream, range(200))
        assert set(labels(one, rollouts)) >= set(range(len(one.outcomes)))
        assert np.all((rollouts.fact >= 0) != (rollouts.null > 0))


def test_without_noise_there_is_one_outcome(scene, wheel: Roulette) -> None:
    still = with_laws(wheel, **{name: law(float(d.mean())) for name, d in wheel.random.items()})
    rollouts = run(scene.kernel, still, 0, scene.stream, [0, 1, 1023, 1024, 5000])
    assert len(set(rollouts.fact)) == 1 and len(set(rollouts.settle_time)) == 1


def test_a_ball_thrown_over_the_wall_is_a_null_with_its_reason(scene, wheel: Roulette) -> None:
    """Nothing that a hand does throws it out: so it starts outside and above the wall, moving off."""
    launches = Launches(np.arange(1), {}, wheel.start(nominal_launch(wheel.random)), 0, scene.stream)
    launches.start.vel[0, 1] = (0.0, 0.0, -0.5)
    launches.start.pos[0, 1] = (wheel.wall_radius + 1.5 * wheel.ball_radius, 0.0, wheel.cone(wheel.wall_radius) + 0.1)
    rollouts = scene.kernel.integrate(wheel, launches, None)
    assert rollouts.fact[0] == -1 and rollouts.null[0] == 2  # left_apparatus


def test_rotating_the_order_relabels(scene, wheel: Roulette) -> None:
    """The names on the pockets are paint: the same launches end in the same places."""
    turned = dataclasses.replace(wheel, pockets=(*wheel.pockets[5:], *wheel.pockets[:5]))
    one, other = (run(scene.kernel, device, 0, scene.stream, range(100)) for device in (wheel, turned))
    assert np.array_equal(one.fact, other.fact)
    assert [turned.facts[f] for f in other.fact] == [wheel.facts[(f + 5) % 37] for f in one.fact]


def test_every_wrong_parameter_is_named_at_once(wheel: Roulette) -> None:
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(wheel, slope=-1.0, restitution=1.5, ball_radius=0.02, colors=("red",))
    message = str(caught.value)
    for words in (
        "`slope` must be larger than 0, got -1.0",
        "`restitution` must be from 0 to 1",
        "`ball_radius` must fit a pocket",
    ):
        assert words in message
    assert "`colors` must be 37, one a pocket" in message


def test_a_weak_short_launch_is_far_from_the_reference(scene, wheel: Roulette) -> None:
    """n = 500; a distribution at the reference is this far from it in less than one of 1e9 such samples (McDiarmid)."""
    weak = with_laws(wheel, ball_speed=law(0.85, 0.01), rotor_speed=law(1.6, 0.01))
    rollouts = run(scene.kernel, weak, 1, scene.stream, range(500))
    pockets = rollouts.fact[rollouts.fact >= 0]
    assert tvd_from(np.full(37, 1 / 37), pockets) > 0.35  # E[TVD] of 500 fair spins is .11


@pytest.mark.slow
def test_half_the_step_moves_nothing() -> None:
    """n = 20,000 a side of A16, whose colours are not all alike: chi-square two-sample, false-alarm rate 1e-4.

    The mean time to rest, the wheel's, is no witness: `first`'s is what contacts decide, but the colours are the outcome.
    """
    from scipy.stats import chi2_contingency

    one = load_scene("pawbench/A16")
    tallies = [
        np.bincount(labels(one, run(kernel, one.device, seed, one.stream, range(20_000))) + 1, minlength=5)
        for seed, kernel in enumerate((one.kernel, dataclasses.replace(one.kernel, steps_per_second=4800)))
    ]
    table = np.array(tallies)
    assert chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_soft_contacts_agree(name: str) -> None:
    """The upper bound of the distance from soft contacts is below .10: n = 10,000 and 1,000, wrong once in a hundred.

    Together they know as much as 2,000 a side; soft contacts take some 80 ms a ball.
    """
    one = load_scene(name)
    sides = [run(e, one.device, seed, one.stream, range(n)) for seed, e, n in ((7, one.kernel, 10_000), (8, one.engine, 1000))]
    assert tvd_bound(*(labels(one, side) for side in sides), len(one.outcomes))[1] < 0.10


@pytest.mark.slow
def test_soft_contacts_leave_the_rim_at_the_same_time(scene, wheel: Roulette) -> None:
    """The rim's equation of motion against contacts from the launch on: mean time of leaving within 3 %, speed within 1 %."""
    left = {}
    for engine in (scene.kernel, scene.engine):
        rollouts = run(engine, wheel, 0, scene.stream, range(6), fps=60.0)
        times, speeds = [], []
        for frames in rollouts.trajectories or ():
            radius = np.hypot(frames.pos[:, 1, 0], frames.pos[:, 1, 1])
            at = int(np.argmax((frames.time > 0.0) & (radius < wheel.track_radius - 3e-4)))
            times.append(frames.time[at])
            speeds.append(float(np.linalg.norm(frames.vel[at, 1])))
        left[engine.name] = np.mean(times), np.mean(speeds)
    (t1, v1), (t2, v2) = left.values()
    assert t1 == pytest.approx(t2, rel=0.03)
    assert v1 == pytest.approx(v2, rel=0.01)


@pytest.mark.slow
def test_deflectors_and_colours_that_share_a_factor(scene) -> None:
    """Six deflectors under colours that repeat three times a turn favour some; none do not: A16, n = 20,000.

    A fair wheel is .03 from even in less than one of 1e9 such samples.
    """
    one = load_scene("pawbench/A16")
    far = tvd_from(one.q(), labels(one, run(one.kernel, one.device, 4, one.stream, range(20_000))))
    bare = dataclasses.replace(one.device, deflectors=0)
    near = tvd_from(one.q(), labels(one, run(one.kernel, bare, 4, one.stream, range(20_000))))
    assert far > 0.03 > 2.0 * near


def weak(device: Roulette, way: float = 1.0, **changes) -> Roulette:
    """A short spin in a bowl without deflectors, far from even over the pockets; `way` -1: ball and rotor the other way."""
    slow = with_laws(device, ball_speed=law(way * 0.85, 0.01), rotor_speed=law(way * 1.6, 0.01))
    return dataclasses.replace(slow, deflectors=0, **changes)


def pockets_of(scene, device: Roulette, seed: int, n: int) -> np.ndarray:
    """How many of n rollouts end in each pocket (37,)."""
    fact = run(scene.kernel, device, seed, scene.stream, range(n)).fact
    return np.bincount(fact[fact >= 0], minlength=37)


def alike(one: np.ndarray, other: np.ndarray) -> float:
    """The p-value of two tallies of one distribution: chi-square of the cells with 10 or more in both together."""
    from scipy.stats import chi2_contingency

    table = np.array([one, other])
    return float(chi2_contingency(table[:, table.sum(axis=0) >= 10]).pvalue)


@pytest.mark.slow
def test_a_mirrored_launch_ends_in_the_mirrored_pockets(scene, wheel: Roulette) -> None:
    """Seen in a mirror along the rotor's x axis, pocket k is pocket 36 - k: n = 20,000 a side, false-alarm rate 1e-4."""
    there = pockets_of(scene, weak(wheel), 5, MANY)
    back = pockets_of(scene, weak(wheel, -1.0, entrance=-wheel.entrance), 6, MANY)
    assert alike(there, back[::-1]) > 1e-4 > alike(there, back)


@pytest.mark.slow
def test_a_tilt_moves_the_pockets_and_turns_with_everything_else(scene, wheel: Roulette) -> None:
    """.2 degrees; entrance and tilt turned by 5 pockets turn the outcomes by 5. n = 20,000 a side, false-alarm rate 1e-4."""
    turn = -5.0 * 2.0 * math.pi / 37.0  # pockets are counted clockwise
    tilted = weak(wheel, tilt=math.radians(0.2), tilt_towards=0.5)
    turned = dataclasses.replace(tilted, tilt_towards=0.5 + turn, entrance=wheel.entrance + turn)
    level, one, other = (pockets_of(scene, d, seed, MANY) for seed, d in enumerate((weak(wheel), tilted, turned)))
    assert alike(level, one) < 1e-4
    assert alike(np.roll(one, 5), other) > 1e-4 > alike(one, other)
