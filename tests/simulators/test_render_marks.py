"""What is written, painted and clear: read back from the pixels, and drawn alike whatever the region."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from test_render import BOUNDS, FROM_ABOVE, scattered

from simulators.render import prepare
from simulators.render.canvas import nominal_state
from simulators.render.lettering import SUITS, glyph, layout, upside_down
from simulators.rotation import about, multiply
from simulators.world import (
    Body,
    Box,
    Camera,
    Cylinder,
    Lathe,
    Light,
    Material,
    Part,
    Sector,
    Sphere,
    World,
)

RED, GREEN, BLUE, YELLOW = (0.85, 0.05, 0.05), (0.05, 0.6, 0.1), (0.08, 0.1, 0.8), (0.95, 0.85, 0.05)
QUARTERS = tuple(Sector(0.25, color) for color in (RED, GREEN, BLUE, YELLOW))
TO_VIEWER = tuple(about((1, 0, 0), np.pi / 2).tolist())  # local +z to -y
FROM_FRONT = Camera((0, -1, 0), (0, 0, 0), view_height=0.03, width=160, height=160)
GLASS = Material((0.8, 0.9, 0.95), roughness=0.1, opacity=0.15)
BOWL = Lathe(tuple((0.03 * np.sin(a), 0.03 - 0.03 * np.cos(a)) for a in np.linspace(0, 1.5, 9)))


def showcase() -> World:
    """Clear things that stand and that move, lathes open and closed, everything that can be written on."""
    wood = Material((0.6, 0.4, 0.2), "wood", (0.3, 0.15, 0.06))
    floor = Body("floor", (Part(Box((0.5, 0.5, 0.02)), (0, 0, -0.01), material=wood),))
    panes = tuple(Part(Box((0.002, 0.1, 0.06)), (x, 0, 0.03), material=GLASS) for x in (-0.06, 0.06))
    tube = Part(Lathe(((0.02, 0.0), (0.02, 0.05))), (0.0, 0.06, 0), material=GLASS)
    top = Lathe(((0, 0), (0.02, 0.012), (0.019, 0.016), (0.003, 0.02), (0.003, 0.035), (0, 0.035)))
    sign = Part(Box((0.06, 0.004, 0.03)), (-0.02, 0.09, 0.02), material=Material((0.9, 0.9, 0.8), "sign", label="GO\nLEFT"))
    loose = (
        Body("ball", (Part(Sphere(0.012), material=Material(RED, "number", label="16")),), 0.01, (0.03, 0.0, 0.012)),
        Body("glass", (Part(Sphere(0.015), material=GLASS), Part(Cylinder(0.004, 0.04), material=GLASS)), 0.01, (0, 0, 0.05)),
        Body("top", (Part(top, material=Material((0.7, 0.4, 0.1), "sectors", sectors=QUARTERS)),), 0.01, (-0.03, 0, 0.01)),
        Body(
            "card",
            (Part(Box((0.03, 0.042, 0.001)), material=Material((1, 1, 1), "card", label="10D")),),
            0.01,
            (0, -0.05, 0.01),
        ),
        Body("bowl", (Part(BOWL),), 0.01, (0.07, 0.03, 0.0)),
        Body("jar", (Part(BOWL, material=GLASS),), 0.01, (0.0, 0.0, 0.0)),
    )
    return World((floor, Body("still", (*panes, tube, sign)), *loose), BOUNDS)


CAMERAS = (
    Camera((0.02, -0.28, 0.22), (0, 0, 0.01), fov=0.5, width=160, height=96),
    Camera((0, -0.3, 0.3), (0, 0, 0), view_height=0.2, width=110, height=91),
)


@pytest.mark.parametrize("camera", CAMERAS)
def test_regions_agree_through_glass(camera):
    world = showcase()
    canvas, states, rng = prepare("raster", world, camera, Light()), scattered(world, 5, 11), np.random.default_rng(12)
    for row in range(len(states)):
        whole, drawn = canvas.frame(states, row), canvas.traced(states, row)
        assert np.array_equal(drawn, whole)
        x0, y0, x1, y1 = canvas.region(states, row)
        outside = np.ones(whole.shape[:2], bool)
        outside[y0:y1, x0:x1] = False
        assert np.array_equal(drawn[outside], canvas.background[outside])
        for _ in range(8):
            a, c = sorted(rng.integers(0, camera.width + 1, 2).tolist())
            b, d = sorted(rng.integers(0, camera.height + 1, 2).tolist())
            assert np.array_equal(canvas.frame(states, row, (a, b, c, d)), whole[b:d, a:c])


def test_planar_regions_agree_with_everything_painted():
    yellow = Material(YELLOW, opacity=0.4)
    wheel = Material(texture="sectors", sectors=tuple(Sector(0.5, c, "7") for c in (RED, BLUE)))
    bodies = (
        Body("wall", (Part(Box((0.3, 0.01, 0.3)), (0, 0.03, 0), material=Material((0.6, 0.4, 0.2), "wood")),)),
        Body("sign", (Part(Box((0.1, 0.004, 0.03)), (0, 0.01, 0.04), material=Material((1, 1, 1), "sign", label="LEFT")),)),
        Body("wheel", (Part(Cylinder(0.02, 0.01), (0, 0, 0), TO_VIEWER, wheel),), 1.0),
        Body("ball", (Part(Sphere(0.012), material=Material(RED, "number", label="3")),), 1.0, (0.05, 0, 0)),
        Body("pane", (Part(Box((0.03, 0.01, 0.03)), material=yellow), Part(BOWL, (0.02, 0, 0))), 1.0, (-0.05, 0, 0)),
    )
    world = World(bodies, BOUNDS, planar=True)
    camera = Camera((0, -1, 0), (0, 0, 0), view_height=0.16, width=200, height=120)
    canvas, states = prepare("planar", world, camera, Light()), scattered(world, 4, 13)
    for row in range(len(states)):
        whole = canvas.frame(states, row)
        assert np.array_equal(canvas.traced(states, row), whole)
        x0, y0, x1, y1 = canvas.region(states, row)
        assert np.array_equal(canvas.frame(states, row, (x0, y0, x1, y1)), whole[y0:y1, x0:x1])
        assert np.any(whole != canvas.background)


@pytest.mark.parametrize("renderer", ["planar", "raster"])
@pytest.mark.parametrize("turn", [0.0, 0.6])
def test_sectors_run_counterclockwise_from_x(renderer, turn):
    material = Material(texture="sectors", sectors=QUARTERS, roughness=1.0)
    camera, quat = FROM_ABOVE, about((0, 0, 1), turn)
    if renderer == "planar":
        camera, quat = FROM_FRONT, multiply(about((0, -1, 0), turn), TO_VIEWER)
    disc = Body("disc", (Part(Cylinder(0.013, 0.002), material=material),), 1.0, quaternion=tuple(quat))
    wall = Body("wall", (Part(Box((1, 1, 0.01)), (0, 0, -0.05)), Part(Box((1, 0.01, 1)), (0, 0.05, 0))))
    world = World((wall, disc), BOUNDS, planar=renderer == "planar")
    image = prepare(renderer, world, camera, Light(ambient=1.0)).frame(nominal_state(world), 0).astype(int)
    hues = np.array([sector.color for sector in QUARTERS])
    hues /= hues.max(axis=1, keepdims=True)
    for k in range(4):
        angle = turn + (k + 0.5) * np.pi / 2
        seen = image[int(80 - 48 * np.sin(angle)), int(80 + 48 * np.cos(angle))]
        assert np.argmin(np.abs(seen / seen.max() - hues).sum(axis=1)) == k


def shares(sectors, shape, band=None) -> np.ndarray:
    """Return the share of the disc's pixels in each primary colour, from straight above in even light."""
    material = Material((0.5, 0.5, 0.5), texture="sectors", sectors=sectors, band=band, roughness=1.0)
    floor = Body("floor", (Part(Box((1, 1, 0.01)), (0, 0, -0.05), material=Material((0.5, 0.5, 0.5))),))
    world = World((floor, Body("disc", (Part(shape, material=material),), 1.0)), BOUNDS)
    image = prepare("raster", world, FROM_ABOVE, Light(ambient=1.0)).frame(nominal_state(world), 0) / 255.0
    light = ((image + 0.055) / 1.055) ** 2.4
    return np.array([np.clip(light[..., c] - light[..., (c + 1) % 3], 0, None).sum() for c in range(3)])


@pytest.mark.parametrize("shape", [Cylinder(0.013, 0.002), Lathe(((0, 0.001), (0.013, 0.0)))])
def test_sectors_have_their_areas(shape):
    # pure colours of equal light: what each channel gathers is the sector's area, edges included
    sectors = tuple(Sector(share, tuple(np.eye(3)[k])) for k, share in enumerate((0.5, 0.3, 0.2)))
    gathered = shares(sectors, shape)
    assert gathered / gathered.sum() == pytest.approx([0.5, 0.3, 0.2], abs=0.004)
    narrow = shares(sectors, shape, band=(0.006, 0.01))
    assert narrow.sum() / gathered.sum() == pytest.approx((0.01**2 - 0.006**2) / 0.013**2, rel=0.03)


def test_shares_that_do_not_fill_the_disc_are_refused():
    for sectors in ((Sector(0.5, RED), Sector(0.4, BLUE)), (Sector(1.2, RED), Sector(-0.2, BLUE))):
        with pytest.raises(ValueError, match="sum to 1"):
            shares(sectors, Cylinder(0.013, 0.002))


def photographed(part: Part, size: int) -> np.ndarray:
    camera = dataclasses.replace(FROM_ABOVE, width=size, height=size)
    floor = Body("floor", (Part(Box((1, 1, 0.01)), (0, 0, -0.05), material=Material((0.5, 0.5, 0.5))),))
    world = World((floor, Body("it", (part,), 1.0)), BOUNDS)
    return prepare("raster", world, camera, Light(ambient=1.0)).frame(nominal_state(world), 0).astype(float)


def similar(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def test_every_pocket_number_differs_from_every_other_at_eight_pixels():
    """As a template matcher reads it: a label drawn small is likest to the same label drawn large and then shrunk."""
    labels = [str(n) for n in range(37)]

    def drawn(label: str, size: int) -> np.ndarray:
        half = 0.0145
        part = Part(Box((2 * half, 2 * half, 0.002)), material=Material((1, 1, 1), "card", label=label))
        return photographed(part, size)[..., 0]

    small = [drawn(label, 27) for label in labels]  # capitals of 8 pixels
    large = [drawn(label, 108).reshape(27, 4, 27, 4).mean(axis=(1, 3)) for label in labels]
    table = np.array([[similar(a, b) for b in large] for a in small])
    assert np.array_equal(np.argmax(table, axis=1), np.arange(37))
    table[np.arange(37), np.arange(37)] = -1
    assert table.max() < 0.97  # and no two labels are much alike


def test_a_ball_shows_a_spot_at_any_turn():
    rng = np.random.default_rng(3)
    for _ in range(12):
        quat = rng.normal(size=4)
        part = Part(Sphere(0.013), (0, 0, 0), tuple(quat / np.linalg.norm(quat)), Material(RED, "number", label="16"))
        image = photographed(part, 100)
        y, x = np.indices(image.shape[:2]) - 49.5
        middle = image[np.hypot(x, y) < 36]
        white, black = middle.min(axis=-1) > 150, middle.max(axis=-1) < 90
        assert white.mean() > 0.12
        assert black.sum() > 25


def test_the_number_on_top_is_upright_seen_from_z():
    image = photographed(Part(Sphere(0.013), material=Material(RED, "number", label="7")), 120)
    ink = image[..., 0] < 90
    ink &= np.hypot(*(np.indices(ink.shape) - 59.5)) < 26
    rows = np.flatnonzero(ink.any(axis=1))
    top, foot = ink[rows[0] : rows[0] + 5], ink[rows[-1] - 4 : rows[-1] + 1]
    assert top.sum() > 2 * foot.sum()  # the bar of a 7 is above
    assert np.flatnonzero(foot.any(axis=0)).mean() < 59.5  # its foot is to the left of its bar's end


@pytest.mark.parametrize(("label", "ruddy"), [("QH", True), ("AS", False), ("10D", True), ("7C", False)])
def test_a_card_is_red_or_black_and_upright(label, ruddy):
    part = Part(Box((0.019, 0.027, 0.0005)), material=Material((1, 1, 1), "card", (0.1, 0.2, 0.6), label=label))
    image = photographed(part, 200)
    face = image[15:185, 45:155]
    ink = face[..., 1] < 90
    assert 0.1 < ink.mean() < 0.4
    assert (np.median(face[ink][:, 0]) > 150) == ruddy
    back = photographed(dataclasses.replace(part, quaternion=tuple(about((0, 1, 0), np.pi).tolist())), 200)[15:185, 45:155]
    assert (back[..., 2] > back[..., 0] + 25).mean() > 0.3


def test_what_cannot_be_written_is_said():
    odd = [
        (Box((0.01,) * 3), Material(texture="sectors", sectors=QUARTERS), "Cylinder or Lathe"),
        (Sphere(0.01), Material(texture="sign", label="A"), "Box"),
        (Sphere(0.01), Material(texture="number", label="\N{SNOWMAN}"), "cannot hold"),
        (Cylinder(0.01, 0.01), Material(texture="sectors", sectors=QUARTERS, band=(0.02, 0.01)), "band"),
        (Cylinder(0.01, 0.01), Material(texture="sectors"), "sum to 1"),
    ]
    for shape, material, message in odd:
        with pytest.raises(ValueError, match=message):
            photographed(Part(shape, material=material), 20)


def test_glyphs_fill_one_height_and_stand_apart():
    for character in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "".join(SUITS.values()):
        points = np.concatenate([o.points for o in glyph(character).outlines])
        reach = np.abs(points[:, 1]).max() + max(o.radius for o in glyph(character).outlines if o.radius > -2)
        assert 0.4 < np.abs(points[:, 1]).max() < 0.56, character
        assert reach < 0.65 or character == "Q"
    line, width = layout("10 J")
    ends = [(p.x - p.glyph.width / 2, p.x + p.glyph.width / 2) for p in line]
    assert all(a[1] < b[0] for a, b in pairwise(ends))
    assert ends[0][0] == pytest.approx(-width / 2)
    assert ends[-1][1] == pytest.approx(width / 2)


def test_numbers_that_turn_into_others_are_underlined():
    assert [n for n in range(100) if upside_down(str(n))] == [6, 9, 16, 18, 19, 61, 66, 68, 81, 86, 89, 91, 98, 99]


@pytest.mark.parametrize("opacity", [0.1, 0.6])
def test_a_pane_lets_through_what_fresnel_and_beer_leave(opacity):
    # straight on: 4 % go back (n = 1.5), `opacity` of the rest stay. Half in front of a light wall, half of a dark one
    def light_seen(pane: bool) -> np.ndarray:
        walls = tuple(
            Part(Box((0.5, 0.01, 1)), (x, 0.2, 0), material=Material((c,) * 3, roughness=1))
            for x, c in ((-0.25, 0.6), (0.25, 0.1))
        )
        glass = Part(Box((0.2, 0.004, 0.2)), (0, 0.02, 0), material=Material((0.5,) * 3, roughness=1.0, opacity=opacity))
        ball = Body("b", (Part(Sphere(0.001)),), 1.0, (0.9, 0, 0))
        world = World((Body("walls", walls), *([Body("pane", (glass,))] if pane else []), ball), BOUNDS)
        image = prepare("raster", world, FROM_FRONT, Light((0, 0, 1), ambient=0.99)).background[80] / 255.0
        light = ((image + 0.055) / 1.055) ** 2.4
        return light[20, 1] - light[140, 1]

    assert light_seen(True) / light_seen(False) == pytest.approx((1 - opacity) * 0.96, abs=0.02)


def test_glass_shadows_less_than_wood():
    def shade(opacity: float) -> float:
        floor = Body("floor", (Part(Box((1, 1, 0.02)), (0, 0, -0.02), material=Material((0.5,) * 3)),))
        lid = Part(Box((0.02, 0.02, 0.001)), (0, 0, 0.02), material=Material(opacity=opacity))
        world = World((floor, Body("lid", (lid,), 1.0)), BOUNDS)
        light = Light((0.45, 0, 0.9), ambient=0.3)
        image = prepare("raster", world, dataclasses.replace(FROM_ABOVE, view_height=0.08), light).frame(
            nominal_state(world), 0
        )
        return float(image[80, 50, 1])  # 15 mm to the left of the lid's middle: in its shadow, not under it

    none, clear, solid = shade(0.0), shade(0.2), shade(1.0)
    assert solid < clear - 20 < none - 22
