"""Both renderers' contract: regions agree with the whole bit for bit, and pictures show geometry where the camera says."""

import dataclasses
import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from simulators.device import State
from simulators.render import prepare
from simulators.render.canvas import nominal_state
from simulators.rotation import about, multiply
from simulators.world import Body, Box, Camera, Capsule, Cylinder, Light, Material, Move, Part, Sphere, World

BOUNDS = ((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
RENDERERS = ("planar", "raster")
RED, GREEN, BLUE = Material((0.9, 0.05, 0.05)), Material((0.05, 0.8, 0.05)), Material((0.05, 0.05, 0.9))
Y_UP = tuple(about((1, 0, 0), -np.pi / 2))  # a cylinder's axis along y
FROM_FRONT = Camera((0, -1, 0), (0, 0, 0), view_height=0.3, width=208, height=120)
FROM_ABOVE = Camera((0, 0, 1), (0, 0, 0), up=(0, 1, 0), view_height=0.03, width=160, height=160)


def tabletop() -> World:
    """A die, a coin, a ball and a rod over a tray: every shape, every texture, something near a wall."""
    wood = Material((0.6, 0.4, 0.2), "wood", (0.3, 0.15, 0.06))
    floor = Body("floor", (Part(Box((0.5, 0.5, 0.02)), (0, 0, -0.01), material=Material((0.1, 0.36, 0.22), "felt")),))
    walls = tuple(Part(Box((0.01, 0.2, 0.03), 0.002), (x, 0, 0.015), material=wood) for x in (-0.08, 0.08))
    brass = Material((0.8, 0.6, 0.3), "brushed", roughness=0.3)
    post = Part(Cylinder(0.006, 0.05, 0.001), (0.03, 0.05, 0.025), material=brass)
    loose = (
        Body("die", (Part(Box((0.03,) * 3, 0.004), material=Material((0.9, 0.9, 0.85), "pips")),), 0.01, (-0.04, 0, 0.02)),
        Body("coin", (Part(Cylinder(0.02, 0.003, 0.0005), material=Material(texture="coin")),), 0.01, (0.03, -0.02, 0.002)),
        Body("ball", (Part(Sphere(0.012), material=RED), Part(Capsule(0.004, 0.03), (0, 0, 0.02))), 0.01, (0, 0.05, 0.03)),
    )
    return World((floor, Body("walls", (*walls, post)), *loose), BOUNDS)


def board() -> World:
    """A planar board with a plate behind, pegs in the plane, a pane in front, a ball, a plank and a gate."""
    wood = Material((0.7, 0.5, 0.3), "wood", (0.3, 0.15, 0.06))
    plate = Body("plate", (Part(Box((0.3, 0.01, 0.26)), (0, 0.03, 0), material=wood),))
    pegs = tuple(Part(Cylinder(0.004, 0.02), (x, 0, z), Y_UP) for x in np.linspace(-0.1, 0.1, 7) for z in (-0.04, 0.0, 0.04))
    front = Body("front", (Part(Box((0.3, 0.002, 0.03)), (0, -0.03, -0.1), material=wood),))
    ball = Body("ball", (Part(Sphere(0.012), material=RED),), 0.01, (0.01, 0, 0.06))
    plank = Body(
        "plank", (Part(Box((0.05, 0.02, 0.012), 0.002), material=wood), Part(Capsule(0.004, 0.03), (0, 0, 0.02))), 0.01
    )
    gate = Body("gate", (Part(Box((0.04, 0.02, 0.004))),), position=(0, 0, 0.045), collides=False)
    swing = Move((-0.5, -0.1), ((0, 0, 0.045), (0.05, 0, 0.045)), ((0, 0, 0, 1), tuple(about((0, 1, 0), 0.7))))
    return World((plate, Body("pegs", pegs), front, ball, plank, gate), BOUNDS, {"gate": swing}, planar=True)


WORLDS = {
    "planar": (board(), FROM_FRONT),
    "raster": (tabletop(), Camera((0.02, -0.28, 0.22), (0, 0, 0.01), fov=0.5, width=208, height=120)),
    "raster-orthographic": (tabletop(), Camera((0, -0.3, 0.3), (0, 0, 0), view_height=0.2, width=150, height=121)),
}


@pytest.fixture(scope="module", params=WORLDS)
def prepared(request):
    world, camera = WORLDS[request.param]
    return world, prepare(request.param.split("-")[0], world, camera, Light())


def scattered(world: World, rows: int, seed: int) -> State:
    """Return states with the moving bodies anywhere, some outside the picture."""
    rng = np.random.default_rng(seed)
    still = State.at_release(world, rows)
    pos = still.pos + rng.normal(0.0, 0.04, still.pos.shape) * ((1, 0, 1) if world.planar else (1, 1, 0.5))
    if world.planar:
        quat = about((0, 1, 0), rng.uniform(0, 2 * np.pi, still.pos.shape[:2]))
    else:
        quat = rng.normal(size=still.quat.shape)
        quat /= np.linalg.norm(quat, axis=-1, keepdims=True)
    return dataclasses.replace(still, pos=pos, quat=quat)


def test_any_region_equals_the_whole(prepared):
    world, canvas = prepared
    states, rng = scattered(world, 5, 1), np.random.default_rng(2)
    height, width = canvas.background.shape[:2]
    for row in range(len(states)):
        whole = canvas.frame(states, row)
        x0, y0, x1, y1 = canvas.region(states, row)
        regions = [(0, 0, width, height), (0, 0, 1, height), (width - 1, 0, width, height), (0, height - 1, width, height)]
        regions += [
            (x0, y0, x1, y1),
            ((x0 + x1) // 2, y0, (x0 + x1) // 2 + 1, y1),
            (x0, (y0 + y1) // 2, x1, (y0 + y1) // 2 + 1),
        ]
        for _ in range(25):
            a, c = sorted(rng.integers(0, width + 1, 2))
            b, d = sorted(rng.integers(0, height + 1, 2))
            regions.append((int(a), int(b), int(c), int(d)))
        for a, b, c, d in regions:
            assert np.array_equal(canvas.frame(states, row, (a, b, c, d)), whole[b:d, a:c])


def test_nothing_changes_outside_the_region(prepared):
    world, canvas = prepared
    states = scattered(world, 12, 3)
    changed = 0
    for row in range(len(states)):
        drawn = canvas.traced(states, row)  # with no use of the background
        assert np.array_equal(drawn, canvas.frame(states, row))
        x0, y0, x1, y1 = canvas.region(states, row)
        outside = np.ones(drawn.shape[:2], bool)
        outside[y0:y1, x0:x1] = False
        assert np.array_equal(drawn[outside], canvas.background[outside])
        changed += int(np.any(drawn != canvas.background))
    assert changed >= 8


def test_a_region_is_small_where_little_moves(prepared):
    world, canvas = prepared
    x0, y0, x1, y1 = canvas.region(nominal_state(world), 0)
    assert 0 < (x1 - x0) * (y1 - y0) < 0.9 * canvas.background.shape[0] * canvas.background.shape[1]


def test_regions_outside_the_image_are_refused(prepared):
    world, canvas = prepared
    with pytest.raises(ValueError, match="inside"):
        canvas.frame(nominal_state(world), 0, (0, 0, 5, 1000))


def test_other_processes_draw_the_same_bits():
    program = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_render import WORLDS, scattered, prepare, Light\n"
        "for name, (world, camera) in WORLDS.items():\n"
        "    canvas = prepare(name.split('-')[0], world, camera, Light())\n"
        "    print(hashlib.sha256(canvas.frame(scattered(world, 2, 7), 1).tobytes()).hexdigest())\n"
    )
    folder = str(Path(__file__).parent)
    told = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=True).stdout.split()
    here = []
    for name, (world, camera) in WORLDS.items():
        canvas = prepare(name.split("-")[0], world, camera, Light())
        here.append(hashlib.sha256(canvas.frame(scattered(world, 2, 7), 1).tobytes()).hexdigest())
    assert told == here


def centroid(mask):
    rows, columns = np.nonzero(mask)
    return np.array([columns.mean() + 0.5, rows.mean() + 0.5])


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_ball_is_where_the_camera_says_and_as_large(renderer):
    camera = Camera((0.01, -1, 0.02), (0.01, 0, 0.02), view_height=0.5, width=640, height=480)
    centre, radius = (0.06, 0.0, 0.05), 0.12
    red, blue = Material((0.9, 0, 0), roughness=1.0), Material((0, 0, 0.9), roughness=1.0)
    wall = Body("wall", (Part(Box((2, 0.01, 2)), (0, 0.3, 0), material=blue),))
    world = World((wall, Body("ball", (Part(Sphere(radius), material=red),), 1.0, centre)), BOUNDS, planar=True)
    image = prepare(renderer, world, camera, Light(ambient=1.0)).frame(nominal_state(world), 0)
    touched = ndimage.binary_fill_holes(image[..., 0] > 40)
    covered = ndimage.binary_fill_holes(image[..., 2] < 60)  # half way between the two is the disc, whatever its edge's shade
    assert 0 < touched.sum() - covered.sum() < 4 * np.pi * radius * 480 / 0.5
    assert np.allclose((centroid(touched) + centroid(covered)) / 2, camera.project(centre), atol=0.1)
    assert (touched.sum() + covered.sum()) / 2 == pytest.approx(np.pi * (radius * 480 / 0.5) ** 2, rel=0.01)


def test_antialiasing_measures_coverage():
    # an edge across a pixel column: its brightness, in linear light, is the covered share to a quarter
    camera = Camera((0, -1, 0), (0, 0, 0), view_height=0.08, width=8, height=8)
    for share in (0.25, 0.5, 0.75):
        black, white = Material((0, 0, 0), roughness=1.0), Material((0.5, 0.5, 0.5), roughness=1.0)
        wall = Body("wall", (Part(Box((1, 0.01, 1)), (0, 0.1, 0), material=black),))
        half = Part(Box((1.0, 0.01, 1.0)), (-0.5 + share * 0.01, 0, 0), material=white)
        world = World((wall, Body("half", (half,), 1.0)), BOUNDS)
        image = prepare("raster", world, camera, Light(ambient=1.0)).frame(nominal_state(world), 0)[4, :, 0] / 255.0
        light = ((image + 0.055) / 1.055) ** 2.4
        assert (light[4] - light[7]) / (light[0] - light[7]) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(
    ("renderer", "camera"),
    [
        ("planar", Camera((0, -1, 0), (0, 0, 0), view_height=0.5, width=416, height=240)),
        ("raster", Camera((0, -1, 0), (0, 0, 0), view_height=0.5, width=416, height=240)),
        ("raster", Camera((0, -1, 0), (0, 0, 0), fov=0.5, width=416, height=240)),
        ("raster", Camera((0.3, -0.7, 0.5), (0.02, 0, 0.01), fov=0.5, width=416, height=240)),
    ],
)
def test_right_is_right_and_up_is_up(renderer, camera):
    wall = Body("wall", (Part(Box((4, 0.01, 4)), (0, 0.6, 0), material=Material((0.5, 0.5, 0.5))),))
    places = {"middle": ((0, 0, 0), RED), "right": ((0.15, 0, 0), GREEN), "up": ((0, 0, 0.1), BLUE)}
    balls = tuple(Body(n, (Part(Sphere(0.015), material=look),), 1.0, place) for n, (place, look) in places.items())
    world = World((wall, *balls), BOUNDS)
    image = prepare(renderer, world, camera, Light(ambient=0.9)).frame(nominal_state(world), 0).astype(int)
    seen = {}
    for channel, (name, (place, _)) in enumerate(places.items()):
        others = [c for c in range(3) if c != channel]
        seen[name] = centroid(image[..., channel] > image[..., others].max(axis=-1) + 40)
        assert np.allclose(seen[name], camera.project(place), atol=0.6)
    assert seen["right"][0] > seen["middle"][0] + 20
    assert seen["up"][1] < seen["middle"][1] - 20


def test_a_shadow_falls_away_from_the_light_and_as_far_as_the_sun_says():
    # light from +x at 45 degrees: a step of height h shades h beyond its foot, on -x
    camera = Camera((0, 0, 1), (0, 0, 0), up=(0, 1, 0), view_height=0.2, width=200, height=200)
    floor = Body("floor", (Part(Box((1, 1, 0.02)), (0, 0, -0.01)),))
    block = Body("block", (Part(Box((0.04, 0.4, 0.05)), material=RED),), 1.0, (0.0, 0, 0.025))
    world = World((floor, block), BOUNDS)
    light = Light(direction=(1.0, 0.0, 1.0), softness=0.05)
    image = prepare("raster", world, camera, light).frame(nominal_state(world), 0)[100, :, 2].astype(int)
    lit, dark = image[180], image[70]
    assert dark < 0.8 * lit
    edge = np.nonzero(image[:80] < (lit + dark) / 2)[0].min()
    assert abs(edge - (100 - 1000 * (0.02 + 0.05))) <= 2
    penumbra = np.count_nonzero((image[:80] > dark + 2) & (image[:80] < lit - 2))
    assert 4 <= penumbra <= 12  # 2 * .05 rad * .05 m / cos^2: about 10 pixels


def test_a_face_turned_from_the_light_is_darker():
    camera = Camera((0, 0, 1), (0, 0, 0), up=(0, 1, 0), view_height=0.1, width=100, height=100)
    roof = tuple(
        Part(Box((0.03, 0.06, 0.001)), (x, 0, 0), tuple(about((0, 1, 0), turn))) for x, turn in ((-0.02, -0.5), (0.02, 0.5))
    )
    world = World((Body("roof", roof, 1.0),), BOUNDS)
    image = prepare("raster", world, camera, Light(direction=(1, 0, 1))).frame(nominal_state(world), 0).astype(int)
    assert image[50, 70].mean() > 1.3 * image[50, 30].mean()


# which way up a die lies: the rotation that brings a body axis to the top, and the pips the World promises there
UP = {
    "+x": (about((0, 1, 0), -np.pi / 2), 1), "-x": (about((0, 1, 0), np.pi / 2), 6),
    "+y": (about((1, 0, 0), np.pi / 2), 2), "-y": (about((1, 0, 0), -np.pi / 2), 5),
    "+z": (about((1, 0, 0), 0.0), 3), "-z": (about((1, 0, 0), np.pi), 4),
}  # fmt: skip


@pytest.mark.parametrize("axis", UP)
@pytest.mark.parametrize("size", [(0.016,) * 3, (0.016, 0.0155, 0.0165)])
def test_each_face_shows_its_pips(axis, size):
    turn, pips = UP[axis]
    die = Body("die", (Part(Box(size, 0.002), material=Material((0.95, 0.95, 0.9), "pips")),), 0.01)
    floor = Body("floor", (Part(Box((1, 1, 0.02)), (0, 0, -0.03), material=Material((0.9, 0.9, 0.9))),))
    quat = multiply(about((0, 0, 1), 0.3), turn)
    world = World((floor, dataclasses.replace(die, quaternion=tuple(quat))), BOUNDS)
    image = prepare("raster", world, FROM_ABOVE, Light(ambient=0.8)).frame(nominal_state(world), 0)
    _, found = ndimage.label(image.max(axis=-1) < 90)
    assert found == pips


def coin_picture(heads: bool, diameter: int) -> np.ndarray:
    camera = dataclasses.replace(
        FROM_ABOVE, width=diameter + 8, height=diameter + 8, view_height=0.0212 * (diameter + 8) / diameter
    )
    turn = about((1, 0, 0), 0.0 if heads else np.pi)
    coin = Part(Cylinder(0.0106, 0.002, 0.0003), material=Material((0.83, 0.68, 0.4), "coin", (0.16, 0.11, 0.06), 0.3))
    floor = Body("floor", (Part(Box((1, 1, 0.02)), (0, 0, -0.03)),))
    world = World((floor, Body("coin", (coin,), 0.005, quaternion=tuple(turn))), BOUNDS)
    return prepare("raster", world, camera, Light()).frame(nominal_state(world), 0).mean(axis=-1)


@pytest.mark.parametrize("diameter", [28, 60, 150])
def test_heads_and_tails_differ_at_any_turn_about_the_axis(diameter):
    heads, tails = coin_picture(True, diameter), coin_picture(False, diameter)
    y, x = np.indices(heads.shape) + 0.5 - heads.shape[0] / 2
    rho = np.hypot(x, y) / (diameter / 2)
    field = (rho > 0.55) & (rho < 0.82) & (y < 0.3 * diameter / 2)  # beside the portrait, between the star and the rim
    assert tails[field].mean() > heads[field].mean() + 25
    middle = rho < 0.15
    assert heads[middle].mean() > tails[middle].mean() + 25


def test_the_portrait_is_upright_and_looks_left():
    heads = coin_picture(True, 150)
    bright = heads > 0.5 * (heads.max() + heads.min())
    y, x = np.indices(heads.shape) + 0.5 - heads.shape[0] / 2
    inside = bright & (np.hypot(x, y) < 0.8 * 75)
    shoulders, crown = inside[y[:, 0] > 40].sum(), inside[y[:, 0] < -40].sum()
    assert shoulders > 1.5 * crown
    # the knot of hair is on the right, at (.39, .12) radii; on the left there is field at that height
    right, left = (heads[(np.abs(y + 9) < 4) & (np.abs(x - side * 29) < 4)].mean() for side in (1, -1))
    assert right > left + 25


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_blank_picture_is_refused(renderer):
    # the camera stands inside a plain board and sees one colour
    wall = Body("wall", (Part(Box((50, 0.01, 50)), (0, 0.3, 0), material=Material((1, 1, 1))),))
    ball = Body("ball", (Part(Sphere(0.01)),), 1.0, (0.9, 0, 0.9))
    world = World((wall, ball), BOUNDS)
    with pytest.raises(ValueError, match="one single colour"):
        prepare(renderer, world, FROM_FRONT, Light(ambient=1.0))


@pytest.mark.parametrize("renderer", RENDERERS)
def test_ambient_light_alone_leaves_plain_colours(renderer):
    colors = {"wall": (0.9, 0.88, 0.8), "ball": (0.8, 0.1, 0.2), "rod": (0.1, 0.3, 0.7)}
    shapes = {"wall": Box((1, 0.01, 1)), "ball": Sphere(0.03), "rod": Capsule(0.01, 0.06)}
    places = {"wall": (0, 0.05, 0), "ball": (0.04, 0, 0), "rod": (-0.05, 0, 0.02)}
    parts = {name: Part(shapes[name], material=Material(colors[name], roughness=0.1)) for name in shapes}
    bodies = [Body(n, (part,), 0.0 if n == "wall" else 1.0, places[n]) for n, part in parts.items()]
    world = World(tuple(bodies), BOUNDS, planar=True)
    image = prepare(renderer, world, FROM_FRONT, Light(ambient=1.0)).frame(nominal_state(world), 0).reshape(-1, 3).astype(int)
    expected = np.round(255 * np.array(list(colors.values())))
    plain = (np.abs(image[:, None] - expected) <= 1).all(axis=-1)
    assert plain.any(axis=0).all()
    edges = ~plain.any(axis=1)
    assert edges.mean() < 0.03  # what is left is antialiased outlines: no shadow, no gloss, no shade


@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_backdrop_is_what_is_asked_for(renderer):
    ball = Body("ball", (Part(Sphere(0.03)),), 1.0)
    world = World((ball,), BOUNDS, planar=True)
    canvas = prepare(renderer, world, FROM_FRONT, Light(ambient=1.0), (0.2, 0.5, 0.35))
    assert np.abs(canvas.background[0, 0].astype(int) - np.round(255 * np.array((0.2, 0.5, 0.35)))).max() <= 1


def test_a_black_picture_is_refused():
    wall = Body("wall", (Part(Box((50, 0.01, 50)), (0, 0.3, 0), material=Material((0.02, 0.02, 0.02))),))
    ball = Body("ball", (Part(Sphere(0.02), material=Material((0.0, 0.0, 0.0), roughness=1.0)),), 1.0)
    with pytest.raises(ValueError, match="black"):
        prepare("raster", World((wall, ball), BOUNDS), FROM_FRONT, Light(ambient=1.0))


def test_what_a_renderer_cannot_do_is_said():
    world, camera = WORLDS["raster"]
    with pytest.raises(ValueError, match="orthographic"):
        prepare("planar", world, camera, Light())
    with pytest.raises(ValueError, match="orthographic"):
        prepare("planar", world, FROM_ABOVE, Light())
    with pytest.raises(ValueError, match="renderer"):
        prepare("tiny", world, camera, Light())  # type: ignore[arg-type]
    odd = World((Body("b", (Part(Sphere(0.1), material=Material(texture="tartan")),), 1.0),), BOUNDS)
    for renderer in RENDERERS:
        with pytest.raises(ValueError, match="tartan"):
            prepare(renderer, odd, FROM_FRONT, Light())
