"""Path-traced pictures against the ray caster's: another renderer of the same geometry, paint and camera."""

import dataclasses
import sys

import numpy as np
import pytest
from scipy import ndimage
from test_render import BOUNDS, WORLDS, scattered

from simulators.render import photoreal, prepare
from simulators.render.canvas import nominal_state
from simulators.render.meshes import meshes
from simulators.render.primitives import linear
from simulators.rotation import about
from simulators.world import Body, Box, Camera, Capsule, Cylinder, Lathe, Light, Material, Part, Sector, Sphere, World

HALVES = (Sector(0.3, (0.8, 0.1, 0.1), "7"), Sector(0.7, (0.1, 0.1, 0.5), "R"))


def painted() -> World:
    """A sign, a card, a wheel, a numbered ball and a top side by side: marks that a mirrored texture would spoil."""
    towards = tuple(about((1, 0, 0), np.pi / 2))  # +z to the camera
    wheel = Material(texture="sectors", sectors=HALVES)
    cone = Lathe(((0.0, 0.02), (0.05, 0.0), (0.0, -0.02)))
    parts = (
        Part(Box((0.14, 0.01, 0.06)), (-0.13, 0, 0.06), material=Material(texture="sign", label="LEFT")),
        Part(Box((0.06, 0.09, 0.002)), (0.02, 0, 0.06), towards, Material((0.9, 0.9, 0.9), "card", label="7H")),
        Part(Cylinder(0.05, 0.01), (0.14, 0, 0.06), towards, wheel),
        Part(Sphere(0.04), (-0.13, 0, -0.05), material=Material(texture="number", label="4")),
        Part(cone, (0.0, 0, -0.05), towards, dataclasses.replace(wheel, band=(0.01, 0.05))),
        Part(Cylinder(0.045, 0.01), (0.13, 0, -0.05), towards, Material((0.8, 0.7, 0.3), "coin", (0.1, 0.1, 0.1))),
    )
    return World((Body("still", parts), Body("bead", (Part(Sphere(0.005)),), 0.1, (0.2, 0, 0.12))), BOUNDS)


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    monkeypatch.setattr(photoreal, "STILL", 16)
    monkeypatch.setattr(photoreal, "SAMPLES", 100_000)


def likeness(a, b):
    """Return the correlation of two pictures (h, w, 3), their finest noise smoothed away and their slow shading taken out."""
    one, other = (ndimage.gaussian_filter(x.astype(float), (0.7, 0.7, 0)) for x in (a, b))
    one, other = (x - ndimage.gaussian_filter(x, (12, 12, 0)) for x in (one, other))
    return np.corrcoef(one.ravel(), other.ravel())[0, 1]


@pytest.mark.parametrize("name", [*WORLDS, "painted"])
def test_it_sees_what_the_ray_caster_sees(name):
    world, camera = (
        (painted(), Camera((0, -1, 0), (0, 0, 0), view_height=0.26, width=260, height=150))
        if name == "painted"
        else WORLDS[name]
    )
    states = scattered(world, 1, 3) if name != "painted" else nominal_state(world)
    own, other = (prepare(who, world, camera, Light()) for who in ("photoreal", "raster"))
    a, b = own.frame(states, 0), other.frame(states, 0)
    agree = likeness(a, b)
    assert agree > 0.85
    for wrong in (b[:, ::-1], b[::-1], np.roll(b, 4, axis=1), np.roll(b, 4, axis=0)):
        assert likeness(a, wrong) < agree - 0.03


def test_only_one_window_changes_in_a_clip_and_the_same_bits_come_again():
    world, camera = WORLDS["raster"]
    states = scattered(world, 3, 8)
    states = dataclasses.replace(states, time=np.arange(3) / 16.0)
    canvas = prepare("photoreal", world, camera, Light())
    windows = {canvas.region(states, row) for row in range(3)}
    assert len(windows) == 1
    x0, y0, x1, y1 = windows.pop()
    outside = np.ones(canvas.background.shape[:2], bool)
    outside[y0:y1, x0:x1] = False
    frames = [canvas.frame(states, row) for row in range(3)]
    assert all(np.array_equal(frame[outside], canvas.background[outside]) for frame in frames)
    assert not np.array_equal(frames[0], frames[1])
    assert np.array_equal(canvas.frame(states, 1), frames[1])
    assert np.array_equal(canvas.frame(states, 1, (5, 6, 50, 40)), frames[1][6:40, 5:50])


def test_a_window_is_no_grainier_than_the_background(monkeypatch):
    """Where the ray caster sees nothing change the frame is the background to a level; with its own noise it is far from it."""
    world, camera = WORLDS["raster"]
    states, grain = scattered(world, 1, 8), list[float]()
    other = prepare("raster", world, camera, Light())
    unchanged = np.all(other.frame(states, 0) == other.background, axis=-1)
    for alike in (photoreal.ALIKE, 1e-9):
        monkeypatch.setattr(photoreal, "ALIKE", alike)
        canvas = prepare("photoreal", world, camera, Light())
        x0, y0, x1, y1 = canvas.region(states, 0)
        off = np.abs(canvas.frame(states, 0).astype(float) - canvas.background).mean(axis=-1)
        grain.append(off[y0:y1, x0:x1][unchanged[y0:y1, x0:x1]].mean())
    assert grain[0] < 1.0 < 3.0 * grain[0] < grain[1]


def test_light_comes_through_glass():
    """A felt floor under a pane: a little darker than without it, by what glass sends back twice (eight per cent each way)."""
    floor = Body("floor", (Part(Box((0.4, 0.4, 0.01)), (0, 0, -0.005), material=Material((0.6, 0.6, 0.6))),))
    bead = Body("bead", (Part(Sphere(0.004)),), 0.1, (0.15, 0.15, 0.004))
    pane = Body("pane", (Part(Box((0.3, 0.3, 0.004)), (0, 0, 0.1), material=Material((0.9, 0.9, 0.9), opacity=0.02)),))
    camera = Camera((0, -0.05, 1.0), (0, 0, 0), fov=0.2, width=96, height=64)
    light = Light((0.6, 0.0, 1.0), ambient=0.1)  # mirrored past the camera
    bare, covered = (
        linear(prepare("photoreal", World(bodies, BOUNDS), camera, light).background / 255.0).mean()
        for bodies in ((floor, bead), (floor, pane, bead))
    )
    assert 0.72 < covered / bare < 0.97


def test_a_window_fades_into_the_background():
    world, camera = WORLDS["raster"]
    share = prepare("photoreal", world, camera, Light())._feather((20, 0, 120, 60))[..., 0]
    assert share[0, 50] == share[30, 50] == 1.0  # at the picture's own edge and in the middle
    assert share[30, 0] < 0.05 > share[-1, 50] and np.all(np.diff(share[30, :14]) > 0.0)


@pytest.mark.parametrize(
    ("shape", "area"),
    [
        (Sphere(0.02), 4 * np.pi * 0.02**2),
        (Box((0.02, 0.03, 0.04)), 2 * (0.0006 + 0.0008 + 0.0012)),
        (Cylinder(0.02, 0.05), 2 * np.pi * 0.02 * (0.02 + 0.05)),
        (Capsule(0.01, 0.03), 2 * np.pi * 0.01 * 0.03 + 4 * np.pi * 0.01**2),
        (Lathe(((0.0, 0.03), (0.04, 0.0))), np.pi * 0.04 * 0.05),
    ],
)
def test_areas_and_normals_of_meshes(shape, area):
    total = 0.0
    for mesh in meshes(shape, Part(shape), 1e-3, 1.0):
        a, b, c = (mesh.places[mesh.faces[:, k]] for k in range(3))
        across = np.cross(b - a, c - a)
        size = np.linalg.norm(across, axis=1)
        total += size.sum() / 2
        lean = mesh.normals[mesh.faces].mean(axis=1)
        real = size > 1e-12
        cosine = np.sum(across * lean, axis=1)[real] / size[real] / np.linalg.norm(lean, axis=1)[real]
        assert np.abs(cosine).min() > 0.95
    assert total == pytest.approx(area, rel=5e-3)


def test_a_rounded_box_is_the_box_shrunk_and_grown_again():
    [*made] = meshes(Box((0.02, 0.02, 0.02), 0.004), Part(Box((0.02, 0.02, 0.02), 0.004)), 1e-3, 1.0)
    for mesh in made:
        core = np.clip(mesh.places, -0.006, 0.006)
        assert np.allclose(np.linalg.norm(mesh.places - core, axis=1), 0.004)
        assert np.allclose(mesh.places - core, 0.004 * mesh.normals)


def test_a_spark_goes_and_a_gleam_or_a_stroke_stays():
    light = np.full((20, 20, 3), 0.4)
    light[5, 5] = light[5, 6] = 9.0  # two at once
    light[8, 15] = 1.0
    light[12:15, 12:15] = 9.0
    stroke = np.arange(3, 8)
    light[stroke + 10, stroke] = 1.0  # a white line, a pixel wide and slanting
    kept = photoreal._without_sparks(light)
    changed = np.argwhere(np.any(kept != light, axis=-1)).tolist()
    assert changed == [[5, 5], [5, 6], [8, 15], [13, 3], [17, 7]]  # of the line its ends alone


def test_without_mitsuba_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    world, camera = WORLDS["raster"]
    with pytest.raises(ValueError, match=r"pip install 'quincunx\[photoreal\]'"):
        prepare("photoreal", world, camera, Light())


def test_a_broken_probe_leaves_the_plain_variant(monkeypatch):
    monkeypatch.setattr(photoreal, "_PROBE", "import os; os.abort()")
    photoreal.variant.cache_clear()
    try:
        assert photoreal.variant() == "scalar_rgb"
    finally:
        photoreal.variant.cache_clear()
