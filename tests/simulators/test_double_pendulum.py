"""The double pendulum: what a state shows, energy, two formulations against each other, and mirrored releases."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from kernel_checks import check_batches, check_fold, tvd_bound

from scenes.load import load_scene
from simulators.device import ON_EDGE, Device, State
from simulators.devices.double_pendulum import DoublePendulum
from simulators.engines.loop import run
from simulators.engines.ode import Ode
from simulators.kernels.double_pendulum import DoublePendulumKernel
from simulators.rotation import Array, rotate
from simulators.sampling import Distribution, launch_block

MANY = 20_000
G = 9.81


@pytest.fixture(scope="module")
def scene():
    return load_scene("calibench/pendulum")


@pytest.fixture(scope="module")
def device(scene) -> DoublePendulum:
    return scene.device


def pushes(scale: float) -> dict[str, Distribution]:
    law = Distribution.of({"dist": "norm", "loc": 0.0, "scale": scale})
    return {"inner_push": law, "outer_push": law}


def energy(states: State) -> Array:
    """Energy over the mass of one bob [J/kg] of states (n,)."""
    return 0.5 * np.sum(states.vel[:, :2] ** 2, axis=(1, 2)) + G * states.pos[:, :2, 2].sum(axis=1)


def test_the_side_of_the_pivot_is_read(device) -> None:
    assert isinstance(device, Device)
    state = State.at_release(device.world(), 1)
    for x, shown in ((-0.2, 0), (-0.0011, 0), (-0.0009, ON_EDGE), (0.0009, ON_EDGE), (0.0011, 1), (0.2, 1)):
        state.pos[0, 1, 0] = x
        assert device.read(state) == [shown]


def test_the_arms_hang_together_as_pictured(device) -> None:
    """Theta1 146 and theta2 215 degrees from straight down, l2/l1 .82, l1 .15 m (Sadeghi et al. 2026)."""
    world = device.world()
    pos, quat = world.poses(0.0)
    back = rotate(quat[:2], (0.0, 0.0, 1.0))
    assert np.allclose(pos[0] + 0.15 * back[0], (0.0, 0.0, device.pivot_height))
    assert np.allclose(pos[1] + 0.123 * back[1], pos[0])
    for arm, degrees in enumerate((146.0, 215.0)):
        assert math.degrees(math.atan2(-back[arm, 0], back[arm, 2])) % 360.0 == pytest.approx(degrees)


def test_a_push_turns_each_arm_counterclockwise_at_its_rate(scene, device) -> None:
    pushed = dataclasses.replace(device, end_time=1e-3)
    start = device.start({"inner_push": np.array([2.0]), "outer_push": np.array([-3.0])})
    assert start.omega[0, :2, 1].tolist() == [-2.0, 3.0]
    assert np.hypot(*start.vel[0, 0, [0, 2]]) == pytest.approx(2.0 * 0.15)
    assert np.hypot(*(start.vel[0, 1] - start.vel[0, 0])[[0, 2]]) == pytest.approx(3.0 * 0.123)
    assert run(scene.kernel, pushed, 0, "x", [0]).end.omega[0, 1, 1] != 0.0


def test_energy_and_lengths_are_kept(scene, device) -> None:
    """1,024 launches over 5 s: the worst drift was 1.2e-5 J/kg, beside the 7.6 J/kg between start and hanging at rest."""
    launches = launch_block(device.random, 0, scene.stream, 0)
    begun, ended = device.start(launches), run(scene.kernel, device, 0, scene.stream, range(1024)).end
    assert np.abs(energy(ended) - energy(begun)).max() < 1e-4
    pivot = np.array([0.0, 0.0, device.pivot_height])
    assert np.allclose(np.linalg.norm(ended.pos[:, 0] - pivot, axis=-1), 0.15, atol=1e-12)
    assert np.allclose(np.linalg.norm(ended.pos[:, 1] - ended.pos[:, 0], axis=-1), 0.123, atol=1e-12)


def test_two_formulations_agree_before_chaos_parts_them(scene, device) -> None:
    """Cartesian Runge-Kutta against DOP853 in angles, to 2 s: the two differed by .2 mm at most in 60 launches."""
    early = dataclasses.replace(device, end_time=2.0)
    ours, theirs = (run(one, early, 0, scene.stream, range(12)) for one in (scene.kernel, scene.engine))
    assert np.abs(ours.end.pos - theirs.end.pos).max() < 2e-3
    assert np.abs(ours.end.vel - theirs.end.vel).max() < 0.05
    assert np.abs(ours.end.omega - theirs.end.omega).max() < 0.5
    assert np.array_equal(ours.fact, theirs.fact)


def test_small_swings_have_the_known_modes(scene, device) -> None:
    """Equal masses, equal rods: w^2 = (2 -+ sqrt 2) g / l, in the shapes (1, +-sqrt 2); half a period turns a shape over."""
    small = 1e-3
    for sign in (1.0, -1.0):
        half = math.pi / math.sqrt((2.0 - sign * math.sqrt(2.0)) * G / 0.15)
        angles = (small, sign * math.sqrt(2.0) * small)
        linear = dataclasses.replace(
            device, outer_length=0.15, inner_angle=angles[0], outer_angle=angles[1], end_time=half, random=pushes(0.0)
        )
        begun = linear.bobs()[1][0]
        ended = run(scene.kernel, linear, 0, "x", [0]).end.pos[0, 1, 0]
        assert ended == pytest.approx(-begun, rel=1e-4)


def test_the_kernel_gives_the_same_bits_in_any_batch(scene, device) -> None:
    check_batches(scene.kernel, dataclasses.replace(device, end_time=1.0))


def test_the_kernel_folds_what_the_device_reads(scene, device) -> None:
    check_fold(scene.kernel, dataclasses.replace(device, end_time=1.0), 100)


@pytest.mark.slow
def test_the_kernel_folds_what_the_device_reads_in_1000(scene, device) -> None:
    check_fold(scene.kernel, device, 1000)


@pytest.mark.slow
def test_both_give_one_distribution_of_sides(scene, device) -> None:
    """n = 20,000 launches, shared: three in four end alike, so that the two samples are nearer than independent ones.

    The bound (confidence .99) lies .015 above the distance seen, which independent samples of one law would keep below .0148
    in all but 3 of 1,000 seeds.
    """
    loose = Ode(10.0, 1e-7)
    ours, theirs = (run(one, device, 4, scene.stream, range(MANY)).fact for one in (scene.kernel, loose))
    assert tvd_bound(ours, theirs, 2)[1] <= 0.03


# False alarm: 4 standard errors of a difference of two shares of n = 20,000, 6e-5.
BAND = 4 * math.sqrt(0.5 / MANY)


@pytest.mark.slow
def test_half_the_step_moves_nothing_beyond_noise(scene, device) -> None:
    half = DoublePendulumKernel(2 * scene.kernel.steps_per_second, scene.kernel.time_limit)
    left = [np.mean(run(one, device, 5, scene.stream, range(MANY)).fact == 0) for one in (scene.kernel, half)]
    assert abs(left[0] - left[1]) < BAND


def test_a_mirrored_release_gives_the_mirrored_side(scene, device) -> None:
    """Launch by launch, as long as rounding has not been blown up: to 1.5 s, when most have not changed sides."""
    early = dataclasses.replace(device, end_time=1.5)
    mirrored = dataclasses.replace(early, inner_angle=-device.inner_angle, outer_angle=-device.outer_angle)
    launch = {name: np.linspace(-0.1, 0.1, 200) for name in device.variables}
    a = early.start(launch)
    b = mirrored.start({name: -value for name, value in launch.items()})
    assert np.allclose(a.vel[..., 0], -b.vel[..., 0]) and np.allclose(a.pos[..., 0], -b.pos[..., 0])
    still = [dataclasses.replace(d, random=pushes(0.0)) for d in (early, mirrored)]
    ours, theirs = (run(scene.kernel, d, 0, "x", [0]) for d in still)
    assert ours.fact[0] == 1 - theirs.fact[0] and ours.null[0] == theirs.null[0] == 0


@pytest.mark.slow
def test_a_mirrored_release_gives_the_mirrored_shares(scene, device) -> None:
    """At 1.2 s left has about .64 of the rollouts: mirrored, right has. n = 20,000 each."""
    early = dataclasses.replace(device, end_time=1.2)
    mirrored = dataclasses.replace(early, inner_angle=-device.inner_angle, outer_angle=-device.outer_angle)
    ours = np.mean(run(scene.kernel, early, 6, scene.stream, range(MANY)).fact == 0)
    theirs = np.mean(run(scene.kernel, mirrored, 7, scene.stream, range(MANY)).fact == 1)
    assert abs(ours - theirs) < BAND < ours - 0.5


def test_a_gentle_swing_has_one_outcome(scene) -> None:
    tame = load_scene(scene.id, scene.knock_out.overrides)
    assert len(set(run(tame.kernel, tame.device, 0, tame.stream, range(300)).fact.tolist())) == 1


def test_both_sides_come_up_and_every_null_is_on_the_line(scene, device) -> None:
    rollouts = run(scene.kernel, device, 0, scene.stream, range(1000))
    assert set(rollouts.fact.tolist()) == {-1, 0, 1}
    assert np.array_equal(rollouts.null == 3, np.abs(rollouts.end.pos[:, 1, 0]) <= device.margin)
    assert set(rollouts.null.tolist()) == {0, 3} and np.all(rollouts.end.time == 5.0)


def test_wrong_parameters_are_named_at_once(device) -> None:
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(device, inner_length=0.0, outer_angle=math.nan, end_time=100.0)
    for words in ("`inner_length` must be larger than 0", "`outer_angle` must be finite", "`end_time` must be at most 60 s"):
        assert words in str(caught.value)
    for settings in ((100, 1.0), (0, 1.0), (1200, 0.0)):
        with pytest.raises(ValueError, match="must be"):
            DoublePendulumKernel(*settings)


def test_another_device_is_refused(scene) -> None:
    with pytest.raises(TypeError, match="got Spinner"):
        run(scene.kernel, load_scene("pawbench/A-03").device, 0, "x", [0])
