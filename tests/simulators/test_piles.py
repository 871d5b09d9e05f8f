"""The kernel of piles against mechanics, and the devices that it runs: what a heap shows, and what moves a draw."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from kernel_checks import check_batches, check_fold, tvd_bound
from scipy import stats

from scenes.load import load_scene
from simulators import rotation
from simulators.device import NULL_REASONS, STUCK, UNDECIDED, State
from simulators.devices.draw_box import DrawBox
from simulators.devices.tumbler import Tumbler
from simulators.engines.loop import run
from simulators.kernels.driven_shapes import poses_at
from simulators.kernels.piles import NEVER, Piles, _keys, _pile, contact_law, roll
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Cylinder, Move, Part, Sphere, Surface, World

G, RADIUS, MASS = 9.81, 0.02, 0.03
KERNEL = Piles(steps_per_second=6000, time_limit=10.0, contact_time=3e-3)
FLOOR = Part(Box((4.0, 4.0, 0.1)), (0.0, 0.0, -0.05))
FAR = Body("far", (FLOOR,), position=(0.0, 0.0, -5.0))


def ball(name: str = "ball", rolling: float = 0.0, restitution: float = 0.5, friction: float = 0.3) -> Body:
    surface = Surface(restitution, friction, rolling_friction=rolling)
    return Body(name, (Part(Sphere(RADIUS)),), mass=MASS, surface=surface)


def rolled(world: World, bodies: np.ndarray, seconds: float, kernel: Piles = KERNEL, drives=None) -> np.ndarray:
    """Every step's balls (steps, N, 13) of a world that starts with `bodies` (N, 13)."""
    steps = round(seconds * kernel.steps_per_second)
    frames = np.zeros((steps, len(bodies), 13))
    instants = np.zeros((steps + 1, len(bodies), 13))
    roll(
        bodies.copy(), *_pile(world, kernel.contact_time), *_keys(world, drives or {}), NEVER, 1.0 / kernel.steps_per_second,
        kernel.steps_per_second // 60, steps, False, 0.0, np.full(3, -9.0), np.full(3, 9.0), instants,
        np.arange(1, steps + 1), frames,
    )  # fmt: skip
    return frames


def at(*rows) -> np.ndarray:
    """Balls (N, 13) from (position, velocity, omega)."""
    return np.array([(*p, 0.0, 0.0, 0.0, 1.0, *v, *w) for p, v, w in rows], float)


STILL = (0.0, 0.0, 0.0)


@pytest.mark.parametrize("restitution", [0.2, 0.5, 0.9])
def test_rebound_speed_is_restitution_times_approach_speed(restitution: float) -> None:
    floor = Body("floor", (FLOOR,), surface=Surface(restitution, 0.0))
    world = World((ball(restitution=restitution), floor), ((-9.0,) * 3, (9.0,) * 3), gravity=0.0)
    speeds = rolled(world, at(((0.0, 0.0, 0.03), (0.0, 0.0, -1.0), STILL)), 0.1)[:, 0, 9]
    assert speeds[-1] == pytest.approx(restitution, abs=0.03)  # a contact is 18 steps long


def test_two_balls_exchange_momentum_and_lose_energy_as_restitution_says() -> None:
    world = World((ball("a"), ball("b"), FAR), ((-9.0,) * 3, (9.0,) * 3), gravity=0.0)
    end = rolled(world, at(((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), STILL), ((0.05, 0.0, 0.0), STILL, STILL)), 0.1)[-1]
    assert end[:, 7].sum() == pytest.approx(1.0, abs=1e-9)
    assert end[1, 7] - end[0, 7] == pytest.approx(0.5, abs=0.03)


def test_spin_and_motion_of_colliding_balls_keep_their_angular_momentum() -> None:
    world = World((ball("a"), ball("b"), FAR), ((-9.0,) * 3, (9.0,) * 3), gravity=0.0)
    start = at(((0.0, 0.0, 0.0), (1.0, 0.1, 0.0), (5.0, -9.0, 30.0)), ((0.05, 0.02, 0.0), STILL, (0.0, 20.0, -4.0)))
    frames = rolled(world, start, 0.1)

    def momentum(balls: np.ndarray) -> np.ndarray:
        return (MASS * np.cross(balls[:, :3], balls[:, 7:10]) + 0.4 * MASS * RADIUS**2 * balls[:, 10:]).sum(axis=0)

    # forces act at the surfaces of overlapping balls, so that up to the overlap's share (2 %) of the friction's moment is lost
    assert np.allclose(momentum(frames[-1]), momentum(start), atol=0.03 * np.abs(momentum(start)).max())
    assert not np.allclose(frames[-1, :, 10:], start[:, 10:], atol=1.0)


def test_a_sliding_ball_ends_rolling_at_five_sevenths_of_its_speed() -> None:
    """Coriolis 1835: whatever the friction, once it rolls without slipping."""
    world = World((ball(), Body("floor", (FLOOR,), surface=Surface(0.5, 0.3))), ((-9.0,) * 3, (9.0,) * 3))
    end = rolled(world, at(((0.0, 0.0, RADIUS), (1.0, 0.0, 0.0), STILL)), 0.5)[-1, 0]
    assert end[7] == pytest.approx(5.0 / 7.0, rel=0.01)
    assert end[11] * RADIUS == pytest.approx(end[7], rel=0.01)


def test_a_rolling_ball_is_slowed_by_rolling_friction() -> None:
    """Deceleration (5/7) g b/r of a ball that rolls with the moment b N against it."""
    arm = 4e-4
    world = World((ball(rolling=arm), Body("floor", (FLOOR,), surface=Surface(0.5, 0.3))), ((-9.0,) * 3, (9.0,) * 3))
    start = at(((0.0, 0.0, RADIUS), (0.5, 0.0, 0.0), (0.0, 0.5 / RADIUS, 0.0)))
    lost = 0.5 - rolled(world, start, 1.0)[-1, 0, 7]
    assert lost == pytest.approx(5.0 / 7.0 * G * arm * math.sqrt(0.3) / RADIUS, rel=0.03)


def test_a_ball_rolls_down_a_slope_at_five_sevenths_of_g_sine() -> None:
    tilt = tuple(rotation.about((0.0, 1.0, 0.0), 0.2).tolist())
    slope = Body("slope", (FLOOR,), quaternion=tilt, surface=Surface(0.5, 0.5))
    world = World((ball(friction=0.5), slope), ((-9.0,) * 3, (9.0,) * 3))
    normal = np.array(rotation.rotate(tilt, (0.0, 0.0, RADIUS)))
    end = rolled(world, at((normal, STILL, STILL)), 0.4)[-1, 0]
    assert np.hypot(end[7], end[9]) == pytest.approx(5.0 / 7.0 * G * math.sin(0.2) * 0.4, rel=0.02)


def test_friction_holds_three_balls_that_lean_and_without_it_they_part() -> None:
    """A ball on two others, in plane: it stands where mu >= 2 - sqrt(3) = .268 at floor and balls, and falls apart below."""
    spread = {}
    for friction in (0.1, 0.6):
        floor = Body("floor", (FLOOR,), surface=Surface(0.5, friction))
        balls = [ball(n, friction=friction) for n in ("a", "b", "c")]
        walls = [Part(Box((1.0, 0.02, 1.0)), (0.0, side * (RADIUS + 0.0101), 0.5)) for side in (-1.0, 1.0)]
        panes = Body("panes", tuple(walls), surface=Surface(0.5, 0.0))
        world = World((*balls, floor, panes), ((-9.0,) * 3, (9.0,) * 3))
        x, z = 1.0002 * RADIUS, (1.0 + math.sqrt(3.0)) * RADIUS
        start = at(((-x, 0.0, RADIUS), STILL, STILL), ((x, 0.0, RADIUS), STILL, STILL), ((0.0, 0.0, z), STILL, STILL))
        end = rolled(world, start, 1.0)[-1]
        spread[friction] = end[1, 0] - end[0, 0]
    assert spread[0.6] < 2.1 * RADIUS < 3.0 * RADIUS < spread[0.1]


@pytest.mark.parametrize("shape", [Box((0.1, 0.06, 0.04)), Capsule(0.03, 0.05)])
def test_a_moved_body_pushes_a_ball_at_its_speed(shape) -> None:
    pusher = Body("pusher", (Part(shape),), position=(-0.12, 0.0, 0.0), surface=Surface(1.0, 0.0), driven=True)
    world = World((ball(restitution=1.0), pusher), ((-9.0,) * 3, (9.0,) * 3), gravity=0.0)
    move = Move((0.0, 1.0), ((-0.12, 0.0, 0.0), (0.38, 0.0, 0.0)), (rotation.IDENTITY,) * 2, eased=False)
    end = rolled(world, at((STILL, STILL, STILL)), 0.4, drives={"pusher": move})[-1, 0]
    assert end[7] == pytest.approx(1.0, rel=0.02)  # an elastic ball leaves at twice the speed of what hits it


@pytest.mark.parametrize("eased", [True, False])
def test_driven_poses_are_those_of_the_move(eased: bool) -> None:
    turns = tuple(tuple(q) for q in rotation.about((0.0, 1.0, 0.0), np.array([0.0, 2.0, -2.5, 0.1])).tolist())
    move = Move((0.1, 0.3, 0.8, 1.0), ((0.0, 0.0, 0.0), (1.0, 0.0, 2.0), (1.0, 3.0, 2.0), STILL), turns, eased)
    world = World((ball(), Body("arm", (FLOOR,), driven=True)), ((-9.0,) * 3, (9.0,) * 3))
    times = np.linspace(0.0, 1.2, 61)
    places, quats = poses_at(times, *_keys(world, {"arm": move}))
    for i, time in enumerate(times):
        place, quat = move.at(float(time))
        assert np.allclose(places[i, 0], place, atol=1e-12)
        assert abs(np.sum(quats[i, 0] * quat)) == pytest.approx(1.0, abs=1e-12)


def test_a_world_that_is_no_pile_is_refused() -> None:
    with pytest.raises(TypeError, match="boxes, capsules and balls, not Cylinder"):
        _pile(World((ball(), Body("post", (Part(Cylinder(0.1, 0.1)),))), ((-1.0,) * 3, (1.0,) * 3)), 3e-3)
    with pytest.raises(TypeError, match="nothing for its balls to touch"):
        _pile(World((ball(),), ((-1.0,) * 3, (1.0,) * 3)), 3e-3)
    with pytest.raises(TypeError, match="all of one kind"):
        _pile(World((ball(), dataclasses.replace(ball("b"), mass=1.0), FAR), ((-1.0,) * 3, (1.0,) * 3)), 3e-3)
    with pytest.raises(ValueError, match="restitution must be from"):
        contact_law(Surface(0.01), Surface(0.01), 3e-3)
    with pytest.raises(ValueError, match="`contact_time` must be from 8 steps"):
        Piles(steps_per_second=600, time_limit=1.0, contact_time=3e-3)


def tumbler(id: str, *overrides: str) -> tuple[Piles, Tumbler]:
    scene = load_scene(id, overrides)
    return scene.kernel, scene.device


def shortened(device: Tumbler) -> Tumbler:
    return dataclasses.replace(device, turns=0.2, pause=0.0, dwell=0.1)


@pytest.mark.parametrize("id", ["pawbench/A-13", "pawbench/A19", "calibench/lottery", "quincunx/A19", "quincunx/lottery"])
def test_the_heap_of_the_picture_lies_still_and_inside(id: str) -> None:
    """Frame 0 is a heap at rest: left alone for half a second, no ball moves by a tenth of its radius, nor overlaps another."""
    scene = load_scene(id)
    world = scene.device.world()
    state = State.at_release(world, 1)
    bodies = np.concatenate([state.pos[0], state.quat[0], state.vel[0], state.omega[0]], axis=-1)[list(world.loose)]
    moved = np.sqrt(np.sum((rolled(world, bodies, 0.5, scene.kernel)[-1, :, :3] - bodies[:, :3]) ** 2, axis=-1))
    radius = scene.device.ball_radius
    assert moved.max() < 0.1 * radius
    apart = np.sqrt(np.sum((bodies[:, None, :3] - bodies[None, :, :3]) ** 2, axis=-1)) + 9.0 * np.eye(len(bodies))
    assert apart.min() > 1.999 * radius  # poured hard: nothing to spring out of


def test_where_one_ball_fills_the_depth_none_balances_on_another() -> None:
    """Poured in one plane each ball would stand straight on the one below and stay: a heap that no one could build."""
    scene = load_scene("quincunx/lottery")
    places = State.at_release(scene.device.world(), 1).pos[0, list(scene.device.world().loose)]
    apart = places[:, None] - places[None]
    touching = (np.linalg.norm(apart, axis=-1) < 2.01 * scene.device.ball_radius) & (apart[..., 2] > 0.0)
    assert touching.any()
    assert np.hypot(apart[..., 0], apart[..., 1])[touching].min() > 0.5 * scene.device.ball_radius


def test_batches_and_recording_change_no_bit() -> None:
    _, device = tumbler("pawbench/A19")
    check_batches(Piles(1440, 10.0, 6e-3), shortened(device))


def test_the_fold_is_the_devices_reading() -> None:
    kernel, device = tumbler("pawbench/A19")
    check_fold(kernel, shortened(device), n=16)
    scene = load_scene("pawbench/A-13")
    check_fold(scene.kernel, dataclasses.replace(scene.device, shake_time=0.3), n=16)


def test_a_ball_below_the_slide_is_read_and_two_are_none() -> None:
    _, device = tumbler("pawbench/A19")
    state = State.at_release(device.world(), 3)
    state.pos[1:, 4, 2] = 0.02  # a blue one
    state.pos[2, 0, 2] = 0.02
    assert device.read(state).tolist() == [UNDECIDED, device.facts.index("blue"), STUCK]


def test_the_ball_nearest_to_the_closed_hand_is_read() -> None:
    device: DrawBox = load_scene("pawbench/A-13").device
    state = State.at_release(device.world(), 3)
    state.time[:] = (0.0, device.closing, device.closing)
    hand = len(device.filling) + 1
    state.pos[1, hand] = state.pos[1, 11] + (0.0, 0.0, 0.05)
    state.pos[2, hand] = (0.5, 0.0, 0.5)
    assert device.read(state).tolist() == [UNDECIDED, device.facts.index("blue"), UNDECIDED]


def test_the_hand_lifts_the_ball_it_closed_on_and_no_other() -> None:
    scene = load_scene("pawbench/A-13")
    rollouts = run(scene.kernel, scene.device, 3, scene.stream, range(12))
    height = rollouts.end.pos[:, : len(scene.device.filling), 2]
    assert np.all((height > 0.15).sum(axis=1) == 1)
    names = np.array([scene.device.facts.index(name) for name in scene.device.filling])
    assert np.array_equal(names[np.argmax(height, axis=1)], rollouts.fact)


def test_another_filling_order_renames_the_same_draws() -> None:
    """Colour is no property of the motion: with the same launches the same place in the filling comes out."""
    kernel, device = tumbler("pawbench/A19", "scene.device.turns=0.5", "scene.device.dwell=0.2")
    numbered = dataclasses.replace(device, filling=tuple("abcdefgh"))
    place = run(kernel, numbered, 1, "order", range(16)).fact
    for filling in (device.filling, device.filling[::-1]):
        names = np.array([*(tuple(dict.fromkeys(filling)).index(name) for name in filling), -1])
        assert np.array_equal(
            run(kernel, dataclasses.replace(device, filling=filling), 1, "order", range(16)).fact, names[place]
        )


def test_an_unshaken_box_gives_what_lay_under_the_hand() -> None:
    """Zero the action: the hand, reaching narrowly to the left, finds red in every one of 40 draws."""
    scene = load_scene("pawbench/A-13", ("scene.device.amplitude=0",))
    narrow = {**scene.device.random, "reach_x": law(0.005), "reach_y": law(0.005)}
    rollouts = run(scene.kernel, dataclasses.replace(scene.device, random=narrow), 0, scene.stream, range(40))
    assert np.all(rollouts.fact == scene.device.facts.index("red"))


def test_another_filling_of_the_box_renames_the_same_draws() -> None:
    """The draw is a place in the box, whatever lies there: red and blue in a row, or in turn, exactly."""
    scene = load_scene("pawbench/A-13", ("scene.device.shake_time=0.5",))
    letters = tuple("abcdefghijkl")
    lettered = dataclasses.replace(scene.device, filling=letters, colors=dict.fromkeys(letters, (0.5, 0.5, 0.5)))
    place = run(scene.kernel, lettered, 1, "order", range(24)).fact
    for filling in (scene.device.filling, ("red", "blue") * 6):
        fact = run(scene.kernel, dataclasses.replace(scene.device, filling=filling), 1, "order", range(24)).fact
        assert np.array_equal(fact, np.array([("red", "blue").index(name) for name in filling])[place])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("turns", [0.1, 1.0, 2.5])
def test_the_rotor_makes_the_turns_it_says(reverse: bool, turns: float) -> None:
    """From rest to rest; one that is reversed makes them one way and the other, and ends where the last has led it."""
    _, device = tumbler("pawbench/A19", f"scene.device.turns={turns}", f"scene.device.reverse={str(reverse).lower()}")
    time, angle = device._turning(1.0, 0.0)
    steps = np.diff(angle) / (2.0 * math.pi)
    assert time[-1] == pytest.approx(device.stirring)
    assert np.abs(steps).sum() == pytest.approx(turns, abs=0.01)
    assert steps.sum() == pytest.approx({0.1: 0.1, 1.0: 1.0, 2.5: 0.5}[turns] if reverse else turns, abs=0.01)
    assert abs(steps[0]) < 0.6 * abs(steps).max() and abs(steps[-1]) < 0.6 * abs(steps).max()


def squeezed(kernel: Piles, device: Tumbler, n: int) -> np.ndarray:
    """Largest overlap (n,) of ball and rotor, in ball radii, while the rotor turns."""
    rollouts = run(kernel, device, 0, "squeezed", range(n), fps=240.0)
    world = device.world()
    rotor = next(body for body in world.moving if body.name == "rotor")
    blades = [part for part in rotor.parts if isinstance(part.shape, Box)][:2]
    deepest = []
    for frames in rollouts.trajectories or ():
        frames = frames[frames.time < device.stirring]
        balls = frames.pos[:, : len(device.filling)] - np.array(rotor.position)
        turn = frames.quat[:, [b.name for b in world.moving].index("rotor")]
        local = rotation.rotate(rotation.conjugate(turn)[:, None], balls)
        away = np.inf
        for blade in blades:
            beside = rotation.rotate(rotation.conjugate(np.array(blade.quaternion)), local - np.array(blade.position))
            outside = np.maximum(np.abs(beside) - np.array(blade.shape.size) / 2.0, 0.0)
            away = min(away, np.sqrt(np.sum(outside**2, axis=-1)).min())
        deepest.append(1.0 - away / device.ball_radius)
    return np.array(deepest)


@pytest.mark.parametrize("id", ["pawbench/A19", "calibench/lottery"])
def test_no_ball_is_wedged(id: str) -> None:
    """Balls whose contacts last a quarter as long are squeezed a quarter as deep, as by blows; a wedge closes all the same.

    Friction of .3 makes a wedge, for one.
    """
    kernel, device = tumbler(id, "scene.device.turns=1.0", "scene.device.pause=0.3")
    hard = dataclasses.replace(kernel, steps_per_second=4 * kernel.steps_per_second, contact_time=kernel.contact_time / 4.0)
    assert np.median(squeezed(hard, device, 2)) < 0.45 * np.median(squeezed(kernel, device, 3))
    wedge = dataclasses.replace(device, friction=0.3)
    assert np.median(squeezed(hard, wedge, 2)) > 3.0 * np.median(squeezed(hard, device, 2))


def test_an_unturned_crank_gives_the_same_ball_every_time() -> None:
    scene = load_scene("pawbench/A19", scene_knock_out("pawbench/A19"))
    rollouts = run(scene.kernel, scene.device, 0, scene.stream, range(4))
    assert len(set(rollouts.fact.tolist())) == 1 and rollouts.fact[0] >= 0


def scene_knock_out(id: str) -> tuple[str, ...]:
    return load_scene(id).knock_out.overrides


def law(sd: float) -> Distribution:
    return Distribution.of({"dist": "norm", "loc": 0.0, "scale": sd})


def test_every_null_has_a_reason_and_is_stuck() -> None:
    """A heap that a rough blade holds up, or that lies at the back, leaves the pocket empty. No other reason occurs."""
    kernel, device = tumbler("pawbench/A19", "scene.device.friction=0.3")
    rollouts = run(kernel, device, 0, "nulls", range(64))
    nulls = rollouts.null[rollouts.fact < 0]
    assert len(nulls) > 0 and {NULL_REASONS[code] for code in nulls} == {"stuck"}
    assert np.all(rollouts.null[rollouts.fact >= 0] == 0)


def test_every_wrong_parameter_is_named_at_once() -> None:
    _, device = tumbler("pawbench/A19")
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(device, ball_density=0.0, floor=0.0719, sides=3)
    for words in ("`ball_density` must be larger than 0", "`floor` must cut a mouth", "`sides` must be at least 5"):
        assert words in str(caught.value)
    with pytest.raises(ValueError, match="room for"):
        dataclasses.replace(device, filling=("red", "green") * 60).world()


@pytest.mark.slow
@pytest.mark.parametrize(("id", "n"), [("pawbench/A-13", 1000), ("pawbench/A19", 400)])
def test_halving_the_step_moves_nothing_beyond_noise(id: str, n: int) -> None:
    """Independent launches, n a side; every share within 4 standard errors: false-alarm rate below 5 * 6.4e-5."""
    scene = load_scene(id)
    halved = dataclasses.replace(scene.kernel, steps_per_second=2 * scene.kernel.steps_per_second)
    k = len(scene.outcomes)
    a, b = (
        np.bincount(scene.outcome(run(kernel, scene.device, seed, scene.stream, range(n)).fact) + 1, minlength=k + 1) / n
        for seed, kernel in ((1, scene.kernel), (2, halved))
    )
    error = np.sqrt((a * (1 - a) + b * (1 - b)) / n + 1e-6)
    assert np.all(np.abs(a - b) < 4 * error), (a, b)


@pytest.mark.slow
def test_bullet_draws_the_same_colors_from_the_shaken_box() -> None:
    """Another contact law and solver, the same launches: n = 300 of it, 2,000 of the kernel, what a minute or two allow.

    The bound holds with probability .99; .09 of it is the smallness of n = 300.
    """
    scene = load_scene("pawbench/A-13")
    drawn = [
        scene.outcome(run(e, scene.device, 0, scene.stream, range(n)).fact)
        for e, n in ((scene.engine, 300), (scene.kernel, 2000))
    ]
    distance, bound = tvd_bound(drawn[0], drawn[1], len(scene.outcomes))
    assert distance < 0.06 and bound < 0.16


@pytest.mark.slow
def test_a_brief_crank_does_not_mix_in_bullet_either() -> None:
    """Where no ball is wedged the two integrators agree on what comes out, and both refuse a quarter each.

    n = 100 of Bullet, what two minutes allow, 600 of the kernel; the bound holds with probability .99, and .16 of it is the
    smallness of n. Chi-square on 3 df beyond its 1e-4 point, in 1e-4 of all seeds if they mixed.
    """
    scene = load_scene("pawbench/A19")
    facts = [run(e, scene.device, 0, scene.stream, range(n)).fact for e, n in ((scene.engine, 100), (scene.kernel, 600))]
    for fact in facts:
        assert stats.chisquare(np.bincount(fact[fact >= 0], minlength=4)).pvalue < 1e-4
    distance, bound = tvd_bound(*facts, 4)
    assert distance < 0.15 and bound < 0.31
