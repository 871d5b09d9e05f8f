"""The planar engine against mechanics: free fall, rebounds, sliding, rolling, spin, energy, at each planar scene's step."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymunk
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from simulators import rotation
from simulators.device import Engine, Simulation, State
from simulators.engines.loop import run
from simulators.engines.planar import Planar, moment_about_y
from simulators.sampling import launch_block
from simulators.world import Body, Box, Capsule, Cylinder, Part, Sphere, Surface, World

CONF = Path(__file__).parents[2] / "conf" / "scene"
GRAVITY = 9.81
PLAIN = Surface()


def planar_scenes() -> list:
    """Return (id, device, engine) of every scene that runs in the planar engine."""
    found = []
    for path in sorted(CONF.glob("*/*.yaml")):
        config = OmegaConf.load(path)
        if "engine" in config and config.engine._target_.endswith(".Planar"):
            device, engine = (instantiate(config[key], _convert_="all") for key in ("device", "engine"))
            found.append(pytest.param(device, engine, id=str(config.id)))
    return found


SCENES = planar_scenes()
each_scene = pytest.mark.parametrize(("device", "engine"), SCENES)


def test_the_scenes_that_these_tests_are_for_are_found():
    assert {"pawbench/A22", "calibench/galton_board"} <= {param.id for param in SCENES}


def table(body: Body, surface: Surface = PLAIN, **world) -> World:
    floor = Body("floor", (Part(Box((20.0, 1.0, 1.0)), (0.0, 0.0, -0.5)),), surface=surface)
    return World((floor, body), bounds=((-9.0, -1.0, -1.0), (9.0, 1.0, 9.0)), planar=True, **world)


def ball(device, surface: Surface = PLAIN, height: float | None = None) -> Body:
    r = device.ball_radius
    return Body("ball", (Part(Sphere(r)),), mass=0.01, position=(0.0, 0.0, r if height is None else height), surface=surface)


def launched(engine: Engine, world: World, vel=(0.0, 0.0, 0.0), omega: float = 0.0, quat=None) -> Simulation:
    state = State.at_release(world, 1, vel=np.array([[vel]]), omega=np.array([[(0.0, omega, 0.0)]]))
    if quat is not None:
        state = replace(state, quat=np.array([[quat]]))
    simulation = engine.open(world)
    simulation.reset(state)
    return simulation


def path(simulation: Simulation, steps: int) -> State:
    states = [simulation.state()]
    for _ in range(steps):
        simulation.step(1)
        states.append(simulation.state())
    return State.concatenate(states)


@each_scene
def test_free_fall_is_exact(device, engine):
    world = table(ball(device, height=5.0))
    simulation = launched(engine, world, vel=(0.3, 0.0, 0.2))
    for seconds in (1 / 60, 0.1, 0.5):
        simulation.step(
            round(seconds * engine.steps_per_second) - round(float(simulation.state().time[0]) * engine.steps_per_second)
        )
        state = simulation.state()
        assert state.time[0] == pytest.approx(seconds, abs=1e-12)
        np.testing.assert_allclose(
            state.pos[0, 0], (0.3 * seconds, 0.0, 5.0 + 0.2 * seconds - GRAVITY * seconds**2 / 2), atol=1e-9
        )
        np.testing.assert_allclose(state.vel[0, 0], (0.3, 0.0, 0.2 - GRAVITY * seconds), atol=1e-9)


@each_scene
@pytest.mark.parametrize("restitution", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("radii", [1.5, 4.0, 20.0])  # drops of one row, of two or three, of the whole board
def test_rebound_speed(device, engine, restitution, radii):
    surface = Surface(restitution, friction=0.3)
    drop = radii * device.ball_radius
    world = table(ball(device, surface, device.ball_radius + drop), surface)
    speed = math.sqrt(2 * GRAVITY * drop)
    simulation = launched(engine, world)
    flight = path(simulation, math.ceil((speed / GRAVITY + 0.005) * engine.steps_per_second))
    rebound = flight.vel[:, 0, 2].max()
    assert abs(rebound - restitution * speed) <= max(0.02 * restitution * speed, GRAVITY / engine.steps_per_second)


@each_scene
def test_a_pairs_restitution_is_the_geometric_mean(device, engine):
    drop = 20 * device.ball_radius
    speed = math.sqrt(2 * GRAVITY * drop)
    world = table(ball(device, Surface(0.9, 0.0), device.ball_radius + drop), Surface(0.4, 0.0))
    flight = path(launched(engine, world), math.ceil((speed / GRAVITY + 0.005) * engine.steps_per_second))
    assert flight.vel[:, 0, 2].max() == pytest.approx(0.6 * speed, rel=0.02)


@each_scene
@pytest.mark.parametrize("friction", [0.2, 0.5])
def test_sliding_distance(device, engine, friction):
    size, speed = device.ball_radius, 0.3
    surface = Surface(0.0, friction)
    block = Body(
        "block", (Part(Box((4 * size, size, size), 0.1 * size)),), mass=0.01, position=(0.0, 0.0, size / 2), surface=surface
    )
    simulation = launched(engine, table(block, surface), vel=(speed, 0.0, 0.0))
    simulation.step(engine.steps_per_second // 2)
    assert simulation.state().pos[0, 0, 0] == pytest.approx(speed**2 / (2 * friction * GRAVITY), rel=0.02)


@each_scene
def test_a_sliding_ball_rolls_at_five_sevenths_of_its_speed(device, engine):
    surface = Surface(0.0, 0.3)
    simulation = launched(engine, table(ball(device, surface), surface), vel=(0.5, 0.0, 0.0))
    simulation.step(engine.steps_per_second // 2)
    state = simulation.state()
    assert state.vel[0, 0, 0] == pytest.approx(0.5 * 5 / 7, rel=0.005)
    assert state.omega[0, 0, 1] == pytest.approx(0.5 * 5 / 7 / device.ball_radius, rel=0.005)  # to the right: about +y


@each_scene
def test_rolling_friction_stops_a_ball_where_theory_says(device, engine):
    arm, speed, radius = 3e-4, 0.1, device.ball_radius
    floor, moving = Surface(0.0, 0.5, rolling_friction=arm / 3), Surface(0.0, 0.5, rolling_friction=arm * 2 / 3)
    simulation = launched(engine, table(ball(device, moving), floor), (speed, 0.0, 0.0), omega=speed / radius)
    simulation.step(3 * engine.steps_per_second)
    distance = speed**2 / 2 / (GRAVITY * arm / radius / 1.4)  # torque arm m g about the contact, moment 7/5 m r^2
    assert simulation.state().pos[0, 0, 0] == pytest.approx(distance, rel=0.02)


@each_scene
def test_angular_damping_begins_at_the_first_contact(device, engine):
    damped = replace(ball(device, Surface(0.0, 0.0), 3 * device.ball_radius), angular_damping=4.0)
    fall = math.sqrt(4 * device.ball_radius / GRAVITY)
    simulation = launched(engine, table(damped, Surface(0.0, 0.0)), omega=50.0)
    simulation.step(int(0.9 * fall * engine.steps_per_second))
    assert simulation.state().omega[0, 0, 1] == pytest.approx(50.0, rel=1e-12)
    simulation.step(round((fall + 0.25) * engine.steps_per_second) - int(0.9 * fall * engine.steps_per_second))
    assert simulation.state().omega[0, 0, 1] == pytest.approx(50.0 * math.exp(-1.0), rel=0.005)


@each_scene
def test_energy_never_rises_above_the_start(device, engine):
    world = device.world()
    body = next(b for b in world.moving if b.mass)
    i, moment = world.loose[0], moment_about_y(body)
    starts = device.start(launch_block(device.random, 5, "energy", 0))
    simulation = engine.open(world)
    for row in range(4):
        simulation.reset(starts[row : row + 1])
        frames = [simulation.state()]
        for _ in range(2 * 240):
            simulation.step(engine.steps_per_second // 240)
            frames.append(simulation.state())
        s = State.concatenate(frames)
        energy = body.mass * (GRAVITY * s.pos[:, i, 2] + np.sum(s.vel[:, i] ** 2, -1) / 2) + moment * s.omega[:, i, 1] ** 2 / 2
        assert energy.max() <= energy[0] * (1 + 1e-3)
        assert energy[-1] < 0.5 * energy[0]  # it did go down the board


@each_scene
def test_an_elastic_ball_keeps_its_height(device, engine):
    surface, drop = Surface(1.0, 0.0), 10 * device.ball_radius
    world = table(ball(device, surface, device.ball_radius + drop), surface)
    flight = path(launched(engine, world), engine.steps_per_second)
    period = 2 * math.sqrt(2 * drop / GRAVITY)
    last = flight.pos[-round(period * engine.steps_per_second) :, 0, 2].max() - device.ball_radius
    assert last == pytest.approx(drop, rel=0.005)


def test_rolling_over_the_joint_of_two_boxes_does_not_kick_the_ball():
    surface = Surface(0.5, 0.3)
    halves = tuple(Part(Box((0.5, 0.1, 0.1)), (x, 0.0, -0.05)) for x in (-0.25, 0.25))
    rolling = Body("ball", (Part(Sphere(0.008)),), mass=0.01, position=(-0.05, 0.0, 0.008), surface=surface)
    world = World((Body("floor", halves, surface=surface), rolling), bounds=((-1,) * 3, (1,) * 3), planar=True)
    flight = path(launched(Planar(9600, 5.0), world, (0.4, 0.0, 0.0), omega=50.0), 2400)
    assert flight.pos[-1, 0, 0] == pytest.approx(0.05, abs=2e-3)
    assert flight.pos[:, 0, 2].max() < 0.008 + 2e-5


@each_scene
def test_a_resting_ball_is_still_and_an_overlap_is_pushed_apart_to_the_slop(device, engine):
    surface = Surface(0.5, 0.3)
    simulation = launched(engine, table(ball(device, surface, device.ball_radius - 5e-4), surface))
    simulation.step(engine.steps_per_second)
    state = simulation.state()
    assert np.abs(state.vel[0, 0]).max() < 1e-9
    assert -1.1 * engine.slop < state.pos[0, 0, 2] - device.ball_radius < 0.0


def test_rotation_turns_about_minus_y_in_pymunk_and_plus_y_here():
    world = table(Body("rod", (Part(Box((0.1, 0.02, 0.01))),), mass=0.1, position=(0.0, 0.0, 3.0)))
    simulation = launched(Planar(2400, 5.0), world, omega=2.0, quat=rotation.about((0.0, 1.0, 0.0), 0.3))
    simulation.step(240)
    np.testing.assert_allclose(simulation.state().quat[0, 0], rotation.about((0.0, 1.0, 0.0), 0.5), atol=1e-9)


def test_a_leaning_plank_falls_to_the_side_it_leans_to():
    plank = Body("plank", (Part(Box((0.01, 0.02, 0.1))),), mass=0.1, position=(0.0, 0.0, 0.0505))
    simulation = launched(Planar(2400, 5.0), table(plank), quat=rotation.about((0.0, 1.0, 0.0), 0.15))
    simulation.step(2400)
    state = simulation.state()
    assert state.pos[0, 0, 0] > 0.02
    assert rotation.rotate(state.quat[0, 0], (0.0, 0.0, 1.0))[0] == pytest.approx(1.0, abs=0.01)


# Steiner's theorem and the tables of any textbook; a capsule twice as long as thick is weighed by its two solids.
@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Part(Sphere(0.1)), 0.4 * 0.01),
        (Part(Sphere(0.1), (0.3, 0.0, 0.4)), 0.4 * 0.01 + 0.25),
        (Part(Box((0.2, 5.0, 0.1))), (0.04 + 0.01) / 12),
        (Part(Cylinder(0.1, 3.0), quaternion=tuple(rotation.about((1, 0, 0), math.pi / 2))), 0.005),
        (Part(Cylinder(0.1, 0.6)), 0.01 / 4 + 0.36 / 12),
        (Part(Capsule(1e-4, 0.6)), 0.36 / 12),
    ],
)
def test_moments_of_inertia(part, expected):
    assert moment_about_y(Body("b", (part,), mass=1.0)) == pytest.approx(expected, rel=1e-3)


def test_shapes_collide_where_they_are_drawn():
    along_y = tuple(rotation.about((1.0, 0.0, 0.0), math.pi / 2))
    along_x = tuple(rotation.about((0.0, 1.0, 0.0), math.pi / 2))
    for part, top in (
        (Part(Box((0.2, 0.1, 0.06), 0.01), (0.0, 0.0, 0.02)), 0.05),
        (Part(Cylinder(0.05, 0.1), quaternion=along_y), 0.05),
        (Part(Capsule(0.03, 0.2), quaternion=along_x), 0.03),
        (Part(Cylinder(0.04, 0.2, 0.01), quaternion=along_x), 0.04),
        (Part(Sphere(0.07)), 0.07),
    ):
        stand = Body("stand", (part,), position=(0.5, 0.0, 0.2), surface=Surface(0.0, 0.5))
        falling = Body("ball", (Part(Sphere(0.01)),), mass=0.01, position=(0.5, 0.0, 0.4), surface=Surface(0.0, 0.5))
        simulation = launched(Planar(2400, 5.0), World((stand, falling), ((-1,) * 3, (1,) * 3), planar=True))
        simulation.step(1200)
        assert simulation.state().pos[0, 0, 2] == pytest.approx(0.2 + top + 0.01, abs=5e-4), part.shape


def test_watched_pairs_are_remembered_and_drawn_only_bodies_are_not_there():
    ghost = Body("ghost", (Part(Box((1.0, 1.0, 0.1))),), position=(0.0, 0.0, 1.0), collides=False)
    low, high = (
        Body(name, (Part(Sphere(0.05)),), mass=0.1, position=(0.0, 0.0, z)) for name, z in (("low", 1.5), ("high", 2.0))
    )
    floor = Body("floor", (Part(Box((2.0, 1.0, 0.2)), (0.0, 0.0, -0.1)),))
    pairs = (("high", "low"), ("floor", "low"), ("floor", "ghost"))
    simulation = Planar(2400, 5.0).open(World((ghost, floor, low, high), ((-9,) * 3, (9,) * 3), watched=pairs, planar=True))
    simulation.reset(State.at_release(simulation._world, 1))
    assert not simulation.state().touched.any()
    simulation.step(round(0.5 * 2400))
    assert not simulation.state().touched.any()
    simulation.step(round(0.12 * 2400))  # low reaches the floor after sqrt(2 * 1.45 / g) = .544 s, high meets it later
    assert simulation.state().touched[0, 1]
    simulation.step(2400)
    assert simulation.state().touched[0].tolist() == [True, True, False]


@each_scene
def test_a_rollout_does_not_depend_on_its_batch_nor_on_what_is_recorded(device, engine):
    mass = run(engine, device, 7, "batch", np.arange(8))
    alone = run(engine, device, 7, "batch", [5])
    recorded = run(engine, device, 7, "batch", [6, 5], fps=16)
    for other, row in ((alone, 0), (recorded, 1)):
        for name in ("pos", "quat", "vel", "omega", "time"):
            assert getattr(mass.end, name)[5].tobytes() == getattr(other.end, name)[row].tobytes(), name
        assert mass.fact[5] == other.fact[row]


def test_fast_stepping_is_pymunks_own():
    surface = Surface(0.5, 0.3)
    body = Body("ball", (Part(Sphere(0.01)),), mass=0.01, position=(0.0, 0.0, 0.2), surface=surface)
    simulation = launched(Planar(2400, 5.0), table(body, surface), vel=(0.4, 0.0, 0.0))
    twin = launched(Planar(2400, 5.0), table(body, surface), vel=(0.4, 0.0, 0.0))
    simulation.step(2400)
    for _ in range(2400):
        twin._space.step(1 / 2400)
    assert tuple(simulation._bodies[0].position) == tuple(twin._bodies[0].position)


def test_what_it_refuses():
    leaning = Part(Box((1.0, 1.0, 1.0)), quaternion=tuple(rotation.about((1.0, 0.0, 0.0), 0.3)))
    with pytest.raises(ValueError, match="leans out of the x-z plane"):
        Planar(2400, 5.0).open(table(Body("b", (leaning,), mass=1.0)))
    with pytest.raises(ValueError, match="planar world"):
        Planar(2400, 5.0).open(World((), ((-1,) * 3, (1,) * 3)))
    with pytest.raises(ValueError, match="turned out of the x-z plane"):
        launched(Planar(2400, 5.0), table(Body("b", (Part(Sphere(1.0)),), mass=1.0)), quat=rotation.about((1.0, 0.0, 0.0), 0.3))
    with pytest.raises(ValueError, match="`slop` must be larger than 0"):
        Planar(2400, 5.0, slop=0.0)
    with pytest.raises(RuntimeError, match="reset"):
        Planar(2400, 5.0).open(World((), ((-1,) * 3, (1,) * 3), planar=True)).step(1)


def test_the_version_names_the_library():
    assert Planar(2400, 5.0).version == f"pymunk-{pymunk.version}"
