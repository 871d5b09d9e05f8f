"""The PyBullet engine against mechanics, at the step and length scale of every scene that uses it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scenes.load import load_scene, scene_ids
from simulators import rotation
from simulators.device import State
from simulators.engines.bullet import Bullet, BulletSimulation
from simulators.engines.loop import run
from simulators.rotation import IDENTITY
from simulators.world import Body, Box, Cylinder, Move, Part, Shape, Sphere, Surface, World

G = 9.81
FLOOR = 0.02  # m, half thickness


def is_tossed(scene_id: str) -> bool:
    """Coins and dice: loose boxes and cylinders that this engine integrates and that nothing drives."""
    scene = load_scene(scene_id)
    world = scene.device.world()
    loose = [world.moving[i].parts[0].shape for i in world.loose]
    driven = any(body.driven for body in world.moving)
    return getattr(scene.engine, "name", None) == "bullet" and not driven and all(isinstance(s, (Box, Cylinder)) for s in loose)


SCENES = [scene_id for scene_id in scene_ids() if is_tossed(scene_id)]


def world_of(shape: Shape, restitution: float = 0.5, friction: float = 0.5, *, floor: bool = True) -> World:
    """A loose body at the origin of positions, above a floor whose top is z = 0."""
    surface = Surface(restitution, friction)
    body = Body("body", (Part(shape),), mass=0.01, surface=surface)
    slab = Body("floor", (Part(Box((4.0, 4.0, 2 * FLOOR)), (0.0, 0.0, -FLOOR)),), surface=surface)
    return World((slab, body) if floor else (body,), bounds=((-9.0,) * 3, (9.0,) * 3))


def start(world: World, pos=(0.0, 0.0, 1.0), vel=(0.0, 0.0, 0.0), omega=(0.0, 0.0, 0.0)) -> State:
    return State.at_release(world, 1, pos=np.array([[pos]]), vel=np.array([[vel]]), omega=np.array([[omega]]))


@pytest.fixture(scope="module", params=SCENES)
def scene(request):
    return load_scene(request.param)


@pytest.fixture
def engine(scene) -> Bullet:
    return scene.engine


def size_of(scene) -> float:
    """Half the smallest extent of the scene's loose body: the length that its contacts must be right at."""
    shape = scene.device.world().moving[scene.device.world().loose[0]].parts[0].shape
    return (min(shape.size) if isinstance(shape, Box) else shape.length) / 2.0


def test_free_fall_has_the_acceleration_of_gravity(engine: Bullet) -> None:
    world = world_of(Sphere(0.01), floor=False)
    simulation = engine.open(world)
    simulation.reset(start(world))
    steps = round(0.3 * engine.steps_per_second)
    simulation.step(steps)
    fallen = 1.0 - simulation.state().pos[0, 0, 2]
    simulation.close()
    time, step = steps / engine.steps_per_second, 1.0 / engine.steps_per_second
    known = G * step * time / 2.0  # a semi-implicit engine falls that much too far
    assert 2.0 * (fallen - known) / time**2 == pytest.approx(G, rel=0.005)


def rebound(simulation: BulletSimulation, rate: int, world: World, height: float, half: float) -> tuple[float, float]:
    """Return the approach speed and the rebound speed of a body dropped from rest."""
    simulation.reset(start(world, (0.0, 0.0, height + half)))
    falling, out = 0.0, -1.0
    for _ in range(rate):
        simulation.step(1)
        speed = simulation.state().vel[0, 0, 2]
        if speed > -0.5 * abs(falling) and falling < -0.2:
            break
        falling = speed
    for _ in range(4):
        out = max(out, simulation.state().vel[0, 0, 2])
        simulation.step(1)
    return -falling, out


@pytest.mark.parametrize("restitution", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("shape", ["ball", "box"])
def test_rebound_speed_is_restitution_times_approach_speed(scene, engine: Bullet, shape: str, restitution: float) -> None:
    half = size_of(scene)
    body: Shape = Sphere(half) if shape == "ball" else Box((2 * half,) * 3)
    world = world_of(body, restitution, 0.0)
    simulation = engine.open(world)
    for height in np.linspace(0.05, 0.2, 7):  # the height decides how deep the step that hits lands
        approach, out = rebound(simulation, engine.steps_per_second, world, height, half)
        assert approach == pytest.approx(math.sqrt(2 * G * height), rel=0.02)
        tolerance = max(0.02 * restitution * approach, G / engine.steps_per_second)
        assert abs(out - restitution * approach) <= tolerance, (height, approach, out)
    simulation.close()


@pytest.mark.parametrize("friction", [0.2, 0.4])
def test_sliding_distance_is_speed_squared_over_two_mu_g(scene, engine: Bullet, friction: float) -> None:
    half = size_of(scene)
    world = world_of(Box((8 * half, 8 * half, 2 * half)), 0.2, friction)  # flat, so that it does not topple
    simulation = engine.open(world)
    simulation.reset(start(world, (0.0, 0.0, half), (1.0, 0.0, 0.0)))
    simulation.step(round(1.0 / (friction * G) * 1.5 * engine.steps_per_second))
    distance = simulation.state().pos[0, 0, 0]
    simulation.close()
    assert distance == pytest.approx(1.0 / (2 * friction * G), rel=0.02)


def moments(shape: Shape, mass: float) -> np.ndarray:
    """Principal moments [kg m^2], from the textbook."""
    if isinstance(shape, Box):
        a, b, c = shape.size
        return mass / 12.0 * np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    side = mass * (3 * shape.radius**2 + shape.length**2) / 12.0
    return np.array([side, side, mass * shape.radius**2 / 2.0])


def test_energy_never_exceeds_its_start(scene) -> None:
    """In 24 real launches, read 240 times a second: kinetic, rotational and potential energy of all loose bodies together."""
    world = scene.device.world()
    rollouts = run(scene.engine, scene.device, 11, scene.stream, range(24), fps=240)
    for track in rollouts.trajectories:
        flight = track[track.time >= 0.0]
        energy = sum(energy_of(world.moving[row], flight, row, world.gravity) for row in world.loose)
        assert energy[-1] < 0.5 * energy[0]  # the action's energy is really in it, and is lost at rest
        assert np.max(energy) <= energy[0] * (1.0 + 1e-3)


def energy_of(body: Body, flight: State, row: int, gravity: float) -> np.ndarray:
    spin = rotation.unrotate(flight.quat[:, row], flight.omega[:, row])
    rotational = 0.5 * np.sum(moments(body.parts[0].shape, body.mass) * spin**2, axis=-1)
    kinetic = 0.5 * body.mass * np.sum(flight.vel[:, row] ** 2, axis=-1)
    return kinetic + rotational + body.mass * gravity * flight.pos[:, row, 2]


@pytest.mark.parametrize("psi", [30.0, 60.0, 85.0])
def test_precession_of_a_free_coin(engine: Bullet, psi: float) -> None:
    """N(t).K = cos^2 psi + sin^2 psi cos(|M| t / I1) (Diaconis, Holmes and Montgomery 2007), over .5 s at 38 Hz."""
    coin = Cylinder(0.012, 0.00175)
    base = world_of(coin, floor=False)
    world = World(base.bodies, base.bounds, gravity=0.0)
    side, _, along = moments(coin, 0.01)
    angle, rate = math.radians(psi), 2.0 * math.pi * 38.0
    momentum = side * rate * np.array([math.sin(angle), 0.0, math.cos(angle)])
    simulation = engine.open(world)
    simulation.reset(start(world, omega=tuple(momentum / np.array([side, side, along]))))
    worst, ticks = 0.0, 300
    for tick in range(1, ticks + 1):
        simulation.step(engine.steps_per_second // 600)
        seen = rotation.rotate(simulation.state().quat[0, 0], (0.0, 0.0, 1.0))[2]
        time = tick * (engine.steps_per_second // 600) / engine.steps_per_second
        exact = math.cos(angle) ** 2 + math.sin(angle) ** 2 * math.cos(rate * time)
        worst = max(worst, abs(seen - exact))
    simulation.close()
    assert worst < 0.02


def test_a_watched_pair_remembers_its_first_touch() -> None:
    base = world_of(Sphere(0.01), 0.8)
    world = World(base.bodies, base.bounds, watched=(("body", "floor"),))
    simulation = Bullet(1200, 5.0).open(world)
    simulation.reset(start(world, (0.0, 0.0, 0.05)))
    simulation.step(60)
    assert not simulation.state().touched[0, 0]
    simulation.step(120)
    state = simulation.state()
    assert state.touched[0, 0]
    assert state.pos[0, 0, 2] > 0.0101  # in the air again, and still remembered
    simulation.close()


def test_angular_damping_waits_for_the_first_contact() -> None:
    surface = Surface(0.5, 0.5)
    body = Body("body", (Part(Sphere(0.01)),), mass=0.01, surface=surface, angular_damping=5.0)
    world = World((world_of(Sphere(0.01)).bodies[0], body), bounds=((-9.0,) * 3, (9.0,) * 3))
    simulation = Bullet(1200, 5.0).open(world)
    simulation.reset(start(world, (0.0, 0.0, 0.21), omega=(0.0, 0.0, 10.0)))
    simulation.step(220)  # .183 s: 4.5 cm above the floor
    assert simulation.state().omega[0, 0, 2] == pytest.approx(10.0, rel=1e-9)
    simulation.step(300)
    assert simulation.state().omega[0, 0, 2] < 9.0
    simulation.close()


@pytest.mark.parametrize("spin", [1.0, 100.0])
def test_angular_damping_is_a_rate_whatever_the_spin(spin: float) -> None:
    """exp(-d t) from the first contact on. Bullet's own damping, d (1 + spin), would leave .083 of 100 rad/s after .1 s."""
    surface = Surface(0.5, 0.0)
    body = Body("body", (Part(Sphere(0.01)),), mass=0.01, surface=surface, angular_damping=5.0)
    world = World((world_of(Sphere(0.01)).bodies[0], body), bounds=((-9.0,) * 3, (9.0,) * 3))
    simulation = Bullet(1200, 5.0).open(world)
    simulation.reset(start(world, (0.0, 0.0, 0.0101), omega=(0.0, 0.0, spin)))
    simulation.step(60)
    before = simulation.state().omega[0, 0, 2]
    simulation.step(120)
    assert before < spin
    assert simulation.state().omega[0, 0, 2] == pytest.approx(before * np.exp(-5.0 * 0.1), rel=1e-6)
    simulation.close()


def test_a_used_simulation_gives_the_bits_of_a_fresh_one(scene) -> None:
    used = run(scene.engine, scene.device, 3, scene.stream, [5, 6, 7])
    fresh = run(scene.engine, scene.device, 3, scene.stream, [7])
    for name in ("pos", "quat", "vel", "omega", "time"):
        assert np.array_equal(getattr(used.end, name)[2:], getattr(fresh.end, name)), name


def test_a_loose_body_of_several_parts_needs_its_moments() -> None:
    body = Body("pair", (Part(Sphere(0.01)), Part(Sphere(0.01), (0.02, 0.0, 0.0))), mass=0.01)
    world = World((body,), bounds=((-1.0,) * 3, (1.0,) * 3))
    with pytest.raises(ValueError, match="'pair' has several parts"):
        Bullet(1200, 5.0).open(world).reset(State.at_release(world, 1))


def test_a_compound_of_two_spheres_falls_and_turns_as_one() -> None:
    ball = Part(Sphere(0.01))
    parts = (replace(ball, position=(-0.02, 0.0, 0.0)), replace(ball, position=(0.02, 0.0, 0.0)))
    body = Body("pair", parts, mass=0.01, position=(0.0, 0.0, 0.5), inertia=(8e-7, 4.8e-6, 4.8e-6))
    world = World((body,), bounds=((-1.0,) * 3, (1.0,) * 3), gravity=0.0)
    simulation = Bullet(1200, 5.0).open(world)
    simulation.reset(State.at_release(world, 1, omega=np.array([[[0.0, 0.0, 2.0 * np.pi]]])))
    simulation.step(300)
    end = simulation.state()
    simulation.close()
    assert end.pos[0, 0] == pytest.approx([0.0, 0.0, 0.5], abs=1e-9)
    assert rotation.rotate(end.quat[0, 0], (1.0, 0.0, 0.0)) == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)  # a quarter turn


def test_a_driven_box_carries_a_ball_at_its_own_speed() -> None:
    tray = Body("tray", (Part(Box((0.2, 0.2, 0.02))),), position=(0.0, 0.0, -0.01), surface=Surface(0.0, 1.0), driven=True)
    cube = Body("cube", (Part(Box((0.02, 0.02, 0.02))),), mass=0.01, position=(0.0, 0.0, 0.01), surface=Surface(0.0, 1.0))
    world = World((tray, cube), bounds=((-1.0,) * 3, (1.0,) * 3))
    move = Move((0.0, 1.0), ((0.0, 0.0, -0.01), (0.1, 0.0, -0.01)), (IDENTITY, IDENTITY))
    simulation = Bullet(1200, 5.0).open(world)
    simulation.reset(State.at_release(world, 1), {"tray": move})
    simulation.step(1200)
    end = simulation.state()
    simulation.close()
    assert end.pos[0, 0] == pytest.approx([0.1, 0.0, -0.01], abs=1e-9)
    assert end.pos[0, 1, 0] == pytest.approx(0.1, abs=1e-3)  # at most .6 m/s^2, far below what friction 1 can give
