"""The spinner: what a state shows, its closed form against DOP853, and how the colours answer when the wheel is changed."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from kernel_checks import check_batches, check_fold, tvd_bound

from scenes.load import load_scene
from simulators.device import ON_EDGE, UNDECIDED, Device, State
from simulators.devices.coin import Coin
from simulators.devices.spinner import SLOW, SWEEP, Spinner
from simulators.engines.loop import run
from simulators.kernels.spinner import SpinnerKernel, turned
from simulators.sampling import Distribution

IDS = ["pawbench/A-03", "pawbench/A-04", "quincunx/prize_wheel"]
MANY = 20_000


@pytest.fixture(scope="module", params=IDS)
def scene(request):
    return load_scene(request.param)


@pytest.fixture(scope="module")
def equal():
    return load_scene("pawbench/A-03")


def speed(loc: float, scale: float) -> dict[str, Distribution]:
    return {"speed": Distribution.of({"dist": "norm", "loc": loc, "scale": scale})}


@pytest.fixture(scope="module")
def prize():
    return load_scene("quincunx/prize_wheel")


def changed(device: Spinner, **changes) -> Spinner:
    return dataclasses.replace(device, **changes)


def share(scene, device: Spinner, color: str, n: int = MANY) -> float:
    """The share of `color` among the rollouts that show one."""
    fact = run(scene.kernel, device, 3, scene.stream, range(n)).fact
    return float(np.mean(fact[fact >= 0] == device.facts.index(color)))


def at_angle(device: Spinner, angle: float, rate: float = 0.0) -> State:
    """One state with the first sector's edge at `angle` [rad] counterclockwise from the right."""
    state = State.at_release(device.world(), 1)
    state.quat[0, 0], state.omega[0, 0, 1] = device.turned(angle), rate
    return state


def test_the_colour_under_the_pointer_is_read(equal) -> None:
    """The red half spans half a turn counterclockwise from its edge; the pointer is at a quarter turn."""
    device = equal.device
    assert isinstance(device, Device)
    for angle, shown in ((0.0, 0), (1.5, 0), (-1.5, 0), (1.65, 1), (3.1, 1), (-1.65, 1)):
        assert device.read(at_angle(device, angle)) == [shown], angle
    for edge in (math.pi / 2, -math.pi / 2):
        tip = device.pointer / device.radius
        assert device.read(at_angle(device, edge + 0.9 * tip)) == [ON_EDGE] == device.read(at_angle(device, edge - 0.9 * tip))
        assert device.read(at_angle(device, edge + 1.1 * tip)) != [ON_EDGE] != device.read(at_angle(device, edge - 1.1 * tip))
    assert device.read(at_angle(device, 0.0, 1.01 * SLOW)) == [UNDECIDED]


def test_colours_of_several_sectors_are_one_fact(equal) -> None:
    four = changed(equal.device, colors=("red", "blue", "red", "green"), weights=(1.0, 1.0, 1.0, 1.0))
    assert four.facts == ("red", "blue", "green")
    shown = [int(four.read(at_angle(four, math.radians(90.0 - middle)))[0]) for middle in (45, 135, 225, 315)]
    assert shown == [0, 1, 0, 2]


def test_the_picture_is_fixed_and_the_wheel_follows_the_hand(equal) -> None:
    world = equal.device.world()
    first, last = world.poses(-world.prelude)[1][0], world.poses(0.0)[1][0]
    assert np.allclose(first, equal.device.turned(equal.device.phase))
    assert np.allclose(last, equal.device.turned(equal.device.phase_at_release))
    begun = equal.device.start({"speed": np.array([10.0, 20.0])})
    assert np.array_equal(begun.quat[0], begun.quat[1]) and begun.omega[:, 0, 1].tolist() == [10.0, 20.0]


@pytest.mark.parametrize("drag", [0.0, 1e-6, 1e-3, 0.1, 3.0])
def test_the_closed_form_stops_where_energy_says(drag: float) -> None:
    """Without drag the angle is w^2 / 2a; with it, (w - a t) / b for the time t = log(1 + w b / a) / b to the stop."""
    w, a = 15.0, 2.0
    angle, left = turned(1e3, w, a, drag)
    expected = w * w / (2 * a) if drag == 0.0 else (w - a * math.log1p(w * drag / a) / drag) / drag
    assert left == 0.0 and angle == pytest.approx(expected, rel=2e-4 if drag == 1e-6 else 1e-9)
    back = turned(1e3, -w, a, drag)
    assert back == (-angle, 0.0)
    before, slope = (turned(t, w, a, drag) for t in (0.999, 1.001))
    assert (slope[0] - before[0]) / 0.002 == pytest.approx(turned(1.0, w, a, drag)[1], rel=1e-4)


def test_the_kernel_gives_the_same_bits_in_any_batch(scene) -> None:
    check_batches(scene.kernel, scene.device)


def test_the_kernel_folds_what_the_device_reads(scene) -> None:
    check_fold(scene.kernel, scene.device, 100)


@pytest.mark.slow
def test_the_kernel_folds_what_the_device_reads_in_1000(scene) -> None:
    check_fold(scene.kernel, scene.device, 1000)


def agree(scene, n: int) -> float:
    """The same launch ends alike in both, and at the same time; return the bound on their distance."""
    ours, theirs = (run(one, scene.device, 4, scene.stream, range(n)) for one in (scene.kernel, scene.engine))
    assert np.mean((ours.fact == theirs.fact) & (ours.null == theirs.null)) >= 0.99
    assert np.abs(ours.settle_time - theirs.settle_time).max() <= 1.5 / 60
    # DOP853 is wrong by 1e-9 of the angle each step: with pegs some 40 rad and a hundred phases of a step or more
    assert np.abs(ours.end.quat - theirs.end.quat).max() < (4e-6 if scene.device.pegs else 1e-6)
    distance, bound = tvd_bound(ours.fact, theirs.fact, len(scene.device.facts))
    assert distance <= 0.01
    return bound


def test_the_closed_form_and_dop853_agree(scene) -> None:
    agree(scene, 6 if scene.device.pegs else 60)


@pytest.mark.slow
def test_the_closed_form_and_dop853_agree_in_20000(equal) -> None:
    """n = 20,000 on the same launches: the bound on the distance of two independent samples is .015 above what is seen."""
    assert agree(equal, 20_000) <= 0.03


@pytest.mark.slow
def test_pegs_and_flapper_in_closed_form_and_dop853_agree_in_600(prize) -> None:
    """n = 600 shared launches (a wheel's DOP853 takes an eighth of a second): bound on the distance of what is seen + .088."""
    assert agree(prize, 600) <= 0.09


# n = 20,000; a share has a standard error of at most .0036: 4 of them, false alarm 6e-5 each.
BAND = 4 * 0.5 / math.sqrt(MANY)


def test_a_wide_spin_gives_each_colour_its_share(equal) -> None:
    for weights in ((1.0, 1.0), (1.0, 2.0), (1.0, 9.0)):
        device = changed(equal.device, weights=weights)
        assert share(equal, device, "red") == pytest.approx(weights[0] / sum(weights), abs=BAND)


def test_colours_swapped_are_outcomes_swapped(equal) -> None:
    swapped = changed(equal.device, colors=("blue", "red"))
    ours, theirs = (run(equal.kernel, d, 3, equal.stream, range(MANY)).fact for d in (equal.device, swapped))
    assert np.array_equal(ours, theirs)  # facts are in the order of the sectors, so that red is now the second
    assert share(equal, swapped, "blue") == share(equal, equal.device, "red")


def test_a_weak_spin_stops_where_it_is_sent(equal) -> None:
    """Two strengths of the push, each with little spread: each gives one colour, and not the same."""
    facts = [run(equal.kernel, changed(equal.device, random=speed(w, 0.02)), 0, "weak", range(500)).fact for w in (6.0, 6.8)]
    assert [set(f.tolist()) for f in facts] == [{0}, {1}]


def test_without_noise_there_is_one_outcome_and_the_phase_decides_it(equal) -> None:
    still = changed(equal.device, random=speed(15.0, 0.0))
    there = run(equal.kernel, still, 0, "still", [0, 1, 1023, 5000])
    back = run(equal.kernel, changed(still, phase=still.phase + math.pi), 0, "still", [0])
    assert len(set(there.fact.tolist())) == 1 and len(set(there.settle_time.tolist())) == 1
    assert there.fact[0] == 1 - back.fact[0]


def test_without_pegs_the_flapper_is_nothing(equal) -> None:
    other = changed(equal.device, peg_radius=0.004, flap_stiffness=1.0, flap_reach=0.02)
    ours, theirs = (run(equal.kernel, d, 3, equal.stream, range(200)) for d in (equal.device, other))
    assert np.array_equal(ours.end.quat, theirs.end.quat) and np.array_equal(ours.settle_time, theirs.settle_time)


def gone(device: Spinner, states: State) -> np.ndarray:
    """The wheel's angle (n,) [rad], counterclockwise, between -pi and pi from the release."""
    x, y, z, w = states.quat[:, 0].T
    angle = np.arctan2(2.0 * (x * z - w * y), 1.0 - 2.0 * (y * y + z * z))
    return np.remainder(angle - device.phase_at_release + math.pi, 2.0 * math.pi) - math.pi


def from_peg(device: Spinner, states: State) -> np.ndarray:
    """How far (n,) [rad] the nearest peg is counterclockwise of the flapper's place."""
    place = gone(device, states) + device.phase_at_release - math.pi / 2.0
    return place - device.spacing * np.round(place / device.spacing)


def test_with_pegs_the_wheel_stops_between_them(prize) -> None:
    """It rests where no peg is at the flapper, but for what the bearing holds against it; without pegs it rests anywhere."""
    device = prize.device
    rollouts = run(prize.kernel, device, 3, prize.stream, range(4000))
    assert np.all(rollouts.null == 0)
    nearest = np.abs(from_peg(device, rollouts.end)).min()
    assert device.peg_half - device.friction / device.flap_rate <= nearest < 1.1 * device.peg_half
    bare = run(prize.kernel, changed(device, pegs=0), 3, prize.stream, range(4000))
    assert np.mean(bare.null == 3) == pytest.approx(12 * 2 * device.tip, abs=0.007)  # 4 standard errors


def test_each_click_costs_the_energy_of_the_flapper(prize) -> None:
    """Without drag w^2 / 2 falls by a times the way and by k s^2 / 2 a click: at 600 instants with no peg at the flapper."""
    device = changed(prize.device, drag=0.0, random=speed(14.0, 0.0))
    assert abs(from_peg(device, device.start({"speed": np.zeros(1)}))[0]) > device.peg_half  # the hand leaves it free
    trajectories = run(prize.kernel, device, 0, "click", [0], fps=240.0).trajectories
    assert trajectories is not None
    frames = trajectories[0][(trajectories[0].time >= 0.0) & (trajectories[0].omega[:, 0, 1] > 1.0)]
    way = -np.unwrap(gone(device, frames))
    clicks = np.floor((way + math.pi / 2.0 - device.phase_at_release) / device.spacing)
    clicks -= clicks[0]
    free = np.abs(from_peg(device, frames)) > device.slip
    energy = 0.5 * (14.0**2 - frames.omega[free, 0, 1] ** 2) * 0.5 * device.mass * device.radius**2
    moment = 0.5 * device.mass * device.radius**2
    assert free.sum() > 300 and clicks[free].max() > 30
    assert energy == pytest.approx(moment * device.friction * way[free] + clicks[free] * device.click_energy, rel=1e-9)


def test_a_wheel_too_slow_for_a_click_rolls_back(prize) -> None:
    """Just below and above the speed that lifts the flapper: one comes back to the sector, the other goes on to the next."""
    device = changed(prize.device, drag=0.0, friction=1e-6)
    lifting = math.sqrt(device.flap_rate) * device.slip
    for factor, back in ((0.99, True), (1.01, False)):
        slow = changed(device, random=speed(factor * lifting, 0.0))
        trajectories = run(SpinnerKernel(0.7), slow, 0, "slow", [0], fps=240.0).trajectories
        assert trajectories is not None
        frames = trajectories[0][trajectories[0].time >= 0.0]
        assert (frames.omega[:, 0, 1].min() < 0.0) == back
        assert frames.omega[-1, 0, 1] == pytest.approx(-factor * lifting, rel=1e-4) or not back


def test_pushed_the_other_way_the_mirrored_wheel_stops_mirrored(prize) -> None:
    """A wheel let go at the mirrored angle with the opposite push, its turns at the flapper included: 24 pushes."""
    device = prize.device
    mirrored = changed(device, phase=math.pi - device.phase_at_release + SWEEP)
    ends = []
    for one, way in ((device, 1.0), (mirrored, -1.0)):
        assert abs(from_peg(one, one.start({"speed": np.zeros(1)}))[0]) > one.slip  # the hand leaves the flapper free
        runs = [run(prize.kernel, changed(one, random=speed(way * w, 0.0)), 3, "mirror", [0]) for w in np.linspace(5, 16, 24)]
        ends.append([float(gone(one, rollouts.end)[0]) for rollouts in runs])
    assert np.abs(np.array(ends[0]) + np.array(ends[1])).max() < 1e-9


def test_without_a_push_the_picture_stays(equal) -> None:
    rollouts = run(equal.kernel, changed(equal.device, random=speed(0.0, 0.0)), 0, "still", [0])
    assert rollouts.settle_time[0] == pytest.approx(1 / 60 + 0.25)
    assert rollouts.fact[0] == equal.device.read(State.at_release(equal.device.world(), 1))[0]


def test_every_null_is_explained(equal) -> None:
    wide = changed(equal.device, pointer=0.01)
    rollouts = run(equal.kernel, wide, 0, equal.stream, range(2000))
    assert set(rollouts.null.tolist()) == {0, 3}
    assert np.array_equal(rollouts.null == 3, wide.read(rollouts.end) == ON_EDGE)
    hurried = run(SpinnerKernel(3.0), equal.device, 0, equal.stream, range(50))
    assert np.all(hurried.null == 4) and np.all(hurried.end.time == 3.0)


def test_wrong_parameters_are_named_at_once(equal) -> None:
    with pytest.raises(ValueError) as caught:
        changed(equal.device, colors=("red", "mauve"), weights=(1.0,), friction=0.0, random={})
    for words in ("`colors` must be among red", "`weights` must be as many", "`friction` must be larger than 0", "lacks speed"):
        assert words in str(caught.value)
    with pytest.raises(ValueError) as caught:
        changed(equal.device, pegs=12, flap_reach=0.003, flap_stiffness=1e-9, phase=math.pi / 2.0)
    for words in ("`flap_reach` must be at least a peg's", "`flap_stiffness` must make", "`phase` must leave"):
        assert words in str(caught.value)
    for pegs in (True, 2, 3.0, -1):
        with pytest.raises(ValueError, match="`pegs` must be 0, or from 3 to 200"):
            changed(equal.device, pegs=pegs)
    with pytest.raises(ValueError, match="`time_limit`"):
        SpinnerKernel(0.0)


def test_another_device_is_refused(equal) -> None:
    coin = load_scene("pawbench/A-01").device
    assert isinstance(coin, Coin)
    for one in (equal.kernel, equal.engine):
        with pytest.raises(TypeError, match="got Coin"):
            run(one, coin, 0, "x", [0])
