"""The pencil: what a state shows, its fall and slide in two formulations and in Bullet, and how the sides answer to a lean."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats
from kernel_checks import check_batches, check_fold, tvd_bound

from scenes.load import load_scene
from simulators import rotation
from simulators.device import ON_EDGE, UNDECIDED, Device, State
from simulators.devices.pencil import Pencil
from simulators.engines.bullet import Bullet
from simulators.engines.loop import run
from simulators.kernels.pencil import PencilKernel
from simulators.sampling import Distribution
from simulators.world import Capsule, Part

MANY = 20_000
BAND = 4 * 0.5 / math.sqrt(MANY)  # 4 standard errors of a share: false alarm 6e-5


@pytest.fixture(scope="module")
def scene():
    return load_scene("pawbench/A-09")


@pytest.fixture(scope="module")
def pencil(scene) -> Pencil:
    return scene.device


def pushes(x: tuple[float, float], y: tuple[float, float]) -> dict[str, Distribution]:
    laws = {"push_x": x, "push_y": y}
    return {name: Distribution.of({"dist": "norm", "loc": loc, "scale": scale}) for name, (loc, scale) in laws.items()}


def leaning(pencil: Pencil, degrees: float, azimuth: float) -> State:
    """One state of the pencil on its tip at the origin, by `degrees` towards `azimuth` [rad] (0: right, pi/2: away)."""
    state = State.at_release(pencil.world(), 1)
    axis = (-math.sin(azimuth), math.cos(azimuth), 0.0)
    state.quat[0, 0] = rotation.about(axis, math.radians(degrees))
    state.pos[0, 0] = pencil.centre * rotation.rotate(state.quat[0, 0], (0.0, 0.0, 1.0))
    return state


def left(scene, pencil: Pencil, n: int = MANY, seed: int = 3) -> float:
    fact = run(scene.kernel, pencil, seed, scene.stream, range(n)).fact
    return float(np.mean(fact[fact >= 0] == 0))


@pytest.mark.parametrize(
    ("degrees", "azimuth", "shown"),
    [
        (44.0, 0.0, UNDECIDED),
        (46.0, 0.0, 1),
        (46.0, math.pi, 0),
        (80.0, 1.0, 1),
        (80.0, 2.5, 0),
        (60.0, math.pi / 2, UNDECIDED),
        (89.0, math.pi / 2, ON_EDGE),
        (89.0, -math.pi / 2 + 0.019, ON_EDGE),
        (89.0, -math.pi / 2 + 0.023, 1),
    ],
)
def test_read(pencil, degrees: float, azimuth: float, shown: int) -> None:
    assert isinstance(pencil, Device)
    assert pencil.read(leaning(pencil, degrees, azimuth)) == [shown]


def test_a_thin_pencil_is_a_uniform_rod(pencil) -> None:
    thin = dataclasses.replace(pencil, length=0.15, radius=1e-5, point=1e-4)
    assert thin.centre == pytest.approx(0.075, rel=1e-3) and thin.gyration == pytest.approx(0.15**2 / 12.0, rel=2e-3)
    assert thin.growth == pytest.approx(math.sqrt(1.5 * 9.81 / 0.15), rel=1e-3)


def test_a_bulky_pencil_weighs_as_its_points_do(pencil) -> None:
    """Centre of mass and moment against 400,000 points thrown into the solid; errors below .5 % at 4 standard errors."""
    bulky = dataclasses.replace(pencil, radius=0.012, point=0.06)
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-0.012, 0.012, (2, 600_000)), rng.uniform(0.0, 0.18, 600_000)
    inside = np.hypot(*x) < 0.012 * np.minimum(z / 0.06, 1.0)
    x, z = x[0][inside], z[inside]
    assert bulky.centre == pytest.approx(z.mean(), rel=2e-3)
    assert bulky.gyration == pytest.approx(np.mean(x**2 + (z - z.mean()) ** 2), rel=5e-3)


def test_the_start_is_as_pictured_with_the_tip_at_rest(pencil) -> None:
    lean = dataclasses.replace(pencil, lean=0.3)
    start = lean.start({"push_x": np.array([1.0, 0.0]), "push_y": np.array([0.0, 2.0])})
    axis = rotation.rotate(start.quat[:, 0], (0.0, 0.0, 1.0))
    tip = start.vel[:, 0] - lean.centre * np.cross(start.omega[:, 0], axis)
    assert np.allclose(tip, 0.0, atol=1e-15) and np.allclose(start.pos[:, 0], lean.centre * axis)
    assert np.allclose(np.cross(start.omega[:, 0], axis), [[math.cos(0.3), 0.0, -math.sin(0.3)], [0.0, 2.0, 0.0]])


def test_the_hand_has_let_go_at_the_release(pencil) -> None:
    """The fingertips are above the eraser from t = 0 on, and hold it before the hand moves."""
    world = pencil.world()
    hand = [body.name for body in world.moving].index("hand")
    heights = [world.poses(time)[0][hand, 2] for time in (-0.5, -0.1, 0.0, 0.3)]
    assert heights[0] == heights[1] < pencil.length < heights[2] < heights[3]


def test_a_sliding_tip_without_friction_loses_no_energy(scene, pencil) -> None:
    """On ice the centre of mass falls straight down; until it lands its height pays for every motion."""
    ice = dataclasses.replace(pencil, friction=0.0, lean=0.2, random=pushes((0.3, 0.0), (0.2, 0.0)))
    frames = run(scene.kernel, ice, 0, "x", [0], fps=240.0).trajectories[0]
    axis = rotation.rotate(frames.quat[:, 0], (0.0, 0.0, 1.0))
    free = (frames.time >= 0.0) & (axis[:, 2] > 0.3)
    spin = np.sum(frames.omega[free, 0] ** 2, axis=-1)
    energy = 0.5 * np.sum(frames.vel[free, 0] ** 2, axis=-1) + 0.5 * pencil.gyration * spin + 9.81 * frames.pos[free, 0, 2]
    assert free.sum() > 15 and np.ptp(energy[1:]) < 1e-6
    drift = frames.pos[free, 0, :2] - frames.pos[free, 0, :2][:1] - frames.vel[free, 0, :2][:1] * frames.time[free, None]
    assert np.abs(drift[1:]).max() < 2e-3


@pytest.mark.parametrize("friction", [0.2, 0.4, 1.0])
def test_the_tip_slides_as_a_falling_rod_does(scene, pencil, friction: float) -> None:
    """Below .371 the tip of a thin rod slides backwards, by 35 degrees at the latest; above, forwards, beyond 48.2 degrees.

    F/N = 3 sin t (3 cos t - 2) / (1 - 3 cos t)^2 for a uniform rod on a standing tip, let go upright.
    """
    thin = dataclasses.replace(pencil, radius=1e-4, point=1e-3, friction=friction, random=pushes((0.05, 0.0), (0.0, 0.0)))
    frames = run(scene.kernel, thin, 0, "x", [0], fps=240.0).trajectories[0]
    axis = rotation.rotate(frames.quat[:, 0], (0.0, 0.0, 1.0))
    tip = frames.pos[:, 0] - thin.centre * axis
    angle = np.degrees(np.arccos(np.clip(axis[:, 2], -1.0, 1.0)))
    slides = np.flatnonzero(np.abs(tip[:, 0]) > 1e-5)[0]
    grid = np.radians(np.linspace(0.1, 69.0, 5000))
    ratio = 3.0 * np.sin(grid) * (3.0 * np.cos(grid) - 2.0) / (1.0 - 3.0 * np.cos(grid)) ** 2
    expected = np.degrees(grid[np.flatnonzero(np.abs(ratio) > friction)[0]])
    assert expected - 0.5 < angle[slides] < expected + 8.0  # it takes some frames to be seen
    assert np.sign(tip[slides, 0]) == (-1.0 if friction < 0.371 else 1.0)


def test_it_lies_on_its_side_and_stays(scene, pencil) -> None:
    rollouts = run(scene.kernel, pencil, 0, scene.stream, range(300))
    lies = ~np.isin(rollouts.null, [1])
    axis = rotation.rotate(rollouts.end.quat[lies, 0], (0.0, 0.0, 1.0))
    assert np.abs(axis[:, 2]).max() < 1e-12 and np.allclose(rollouts.end.pos[lies, 0, 2], pencil.radius)
    assert not rollouts.end.vel[lies].any() and not rollouts.end.omega[lies].any()
    assert np.all(rollouts.settle_time[lies] < 2.0)


def agree(scene, pencil: Pencil, n: int) -> float:
    """Return in which share of n launches both end alike; those that lie do so in the same place."""
    ours, theirs = (run(one, pencil, 4, scene.stream, range(n)) for one in (scene.kernel, scene.engine))
    assert np.abs(ours.settle_time - theirs.settle_time).max() <= 2.5 / 60  # a slide that ends within a step
    assert np.abs(ours.end.pos - theirs.end.pos).max() < 5e-4  # the turn onto the side is at an even acceleration in one alone
    assert tvd_bound(ours.fact, theirs.fact, 2)[0] <= 0.01
    return float(np.mean((ours.fact == theirs.fact) & (ours.null == theirs.null)))


@pytest.mark.parametrize(("friction", "lean"), [(0.4, 0.0), (0.15, -0.0873), (1.0, 0.2)])
def test_two_formulations_end_alike(scene, pencil, friction: float, lean: float) -> None:
    assert agree(scene, dataclasses.replace(pencil, friction=friction, lean=lean), 8) == 1.0


@pytest.mark.slow
def test_two_formulations_end_alike_in_1000(scene, pencil) -> None:
    """No difference in 1,000 shared launches: with confidence .99 the two laws are within .0046 (Clopper and Pearson).

    A distance is at most the rate at which coupled rollouts differ; where some differ, the bound grows as it should.
    """
    n = 1000
    differ = round((1.0 - agree(scene, pencil, n)) * n)
    assert scipy.stats.beta.ppf(0.99, differ + 1, n - differ) <= 0.03 and differ <= n // 100


def test_bullet_falls_to_the_same_side(scene, pencil) -> None:
    """A capsule as long and heavy as the pencil in an engine that knows nothing of tips, at friction 1: 12 launches."""
    rough = dataclasses.replace(pencil, friction=1.0, random=pushes((0.0, 0.5), (0.0, 0.5)))
    world = rough.world()
    low = -pencil.centre + 5e-4
    capsule = Part(Capsule(5e-4, pencil.length - 1e-3), (0.0, 0.0, low + (pencil.length - 1e-3) / 2.0))
    bodies = tuple(dataclasses.replace(b, parts=(capsule,)) if b.name == "pencil" else b for b in world.bodies)
    thin = dataclasses.replace(rough)
    object.__setattr__(thin, "world", lambda: dataclasses.replace(world, bodies=bodies))
    ours, theirs = (run(one, d, 9, "bullet", range(12)) for one, d in ((scene.kernel, rough), (Bullet(1200, 6.0), thin)))
    assert np.all(ours.null == 0) and np.array_equal(ours.first, theirs.first)
    assert set(ours.first.tolist()) == {0, 1}


def test_the_kernel_gives_the_same_bits_in_any_batch(scene, pencil) -> None:
    check_batches(scene.kernel, pencil)


def test_the_kernel_folds_what_the_device_reads(scene, pencil) -> None:
    check_fold(scene.kernel, dataclasses.replace(pencil, radius=0.008, point=0.02), 150)  # a thick one: several on the line


@pytest.mark.slow
def test_the_kernel_folds_what_the_device_reads_in_1000(scene, pencil) -> None:
    check_fold(scene.kernel, pencil, 1000)


def test_half_the_step_changes_no_outcome(scene, pencil) -> None:
    """On 20,000 shared launches a side is decided by a smooth motion: not one in a thousand may differ."""
    half = PencilKernel(2 * scene.kernel.steps_per_second, scene.kernel.time_limit)
    ours, theirs = (run(one, pencil, 5, scene.stream, range(MANY)) for one in (scene.kernel, half))
    assert np.mean(ours.fact != theirs.fact) < 1e-3
    assert np.mean(ours.settle_time) == pytest.approx(np.mean(theirs.settle_time), rel=0.005)


def test_a_mirrored_pencil_falls_to_the_other_side(scene, pencil) -> None:
    right, other = (
        dataclasses.replace(pencil, lean=sign * 0.003, random=pushes((sign * 0.01, 0.05), (0.0, 0.05))) for sign in (1.0, -1.0)
    )
    ours, theirs = left(scene, right), left(scene, other, seed=9)
    assert abs(ours - (1.0 - theirs)) < math.sqrt(2) * BAND
    assert ours < 0.5 - 2 * BAND


def test_nothing_at_all_leaves_it_standing(scene, pencil) -> None:
    rollouts = run(scene.kernel, dataclasses.replace(pencil, random=pushes((0.0, 0.0), (0.0, 0.0))), 0, "x", [0, 1])
    assert rollouts.fact.tolist() == [-1, -1] and rollouts.null.tolist() == [1, 1]


def test_a_fall_along_the_line_of_sight_is_on_edge(scene, pencil) -> None:
    for sign in (1.0, -1.0):
        rollouts = run(scene.kernel, dataclasses.replace(pencil, random=pushes((0.0, 0.0), (sign * 0.1, 0.0))), 0, "x", [0])
        assert rollouts.null.tolist() == [3] and rollouts.end.pos[0, 0, 1] * sign > 0.1


def test_every_null_is_explained(scene, pencil) -> None:
    """About 1.3 % fall within the eraser's radius of the line of sight; still ones are those hardly touched at all."""
    rollouts = run(scene.kernel, pencil, 0, scene.stream, range(MANY))
    axis = rotation.rotate(rollouts.end.quat[:, 0], (0.0, 0.0, 1.0))
    assert set(rollouts.null.tolist()) == {0, 1, 3}
    assert np.all(axis[rollouts.null == 1, 2] > 0.999)
    eraser = rollouts.end.pos[:, 0, 0] + (pencil.length - pencil.centre) * axis[:, 0]
    assert np.all(np.abs(eraser[rollouts.null == 3]) <= pencil.radius)
    assert np.mean(rollouts.null > 0) < 0.02


def test_the_leaning_pair_falls_the_way_it_leans() -> None:
    scene = load_scene("pawbench/A25")
    assert set(run(scene.kernel, scene.device, 0, scene.stream, range(MANY)).fact.tolist()) == {0}


def test_wrong_parameters_are_named_at_once(pencil) -> None:
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(pencil, length=0.03, friction=1.5, lean=1.0, table=(0.05, 0.3), random={})
    for words in (
        "`point` must be less than half",
        "`friction` must be from 0 to 1",
        "`lean` must",
        "`table` must",
        "lacks push_x",
    ):
        assert words in str(caught.value)
    with pytest.raises(ValueError, match="`steps_per_second`"):
        PencilKernel(100, 1.0)
    with pytest.raises(TypeError, match="got Spinner"):
        run(PencilKernel(600, 1.0), load_scene("pawbench/A-03").device, 0, "x", [0])
