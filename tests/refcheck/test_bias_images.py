"""How well pictures of known geometry are read, over looks (light, colours, a hand-held camera, noise); and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from benchmarks.render import Tiny
from refcheck.image_reading.kinds import kind_of
from refcheck.image_reading.marks import Marks, Picture, Unreadable
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.render.canvas import nominal_state
from simulators.render.looks import canvas_of, develop, look, shoot
from simulators.rotation import about, multiply, rotate
from simulators.video import source_image

LOOKS = ("studio", "phone", "flat", "toy")


def filmed(scene: Scene, device: Any, name: str, number: int) -> tuple[Picture, Any]:
    """Return the source image of `device` in a look, and the camera that took it."""
    shot, world = shoot(look(name), scene.camera, scene.light, 0, number), device.world()
    image = source_image(canvas_of(scene.renderer, world, shot), world)
    return next(iter(develop([image], shot))), shot.camera


def lean(device: Any, draw: Generator) -> Any:
    return replace(device, lean=float(draw.uniform(-0.1, 0.1)))


def sectors(device: Any, draw: Generator) -> Any:
    k = int(draw.integers(2, 6))
    colors = ("red", "blue", "green", "yellow", "white")[:k]
    return replace(device, colors=colors, weights=tuple(draw.uniform(0.6, 2.0, k)), phase=float(draw.uniform(0.0, 6.28)))


def offset(share: float, of: str) -> Callable[[Any, Generator], Any]:
    return lambda device, draw: replace(device, offset=float(draw.uniform(-share, share)) * getattr(device, of))


def face(device: Any, draw: Generator) -> Any:
    return replace(device, start_face=("heads", "tails")[int(draw.integers(2))])


def angles(device: Any, draw: Generator) -> Any:
    inner, outer = np.radians([draw.uniform(130.0, 160.0), draw.uniform(190.0, 230.0)])
    return replace(device, inner_angle=float(inner), outer_angle=float(outer))


def filling(device: Any, draw: Generator) -> Any:
    red = int(draw.integers(3, 10))
    return replace(device, filling=tuple(draw.permutation(["red"] * red + ["blue"] * (12 - red)).tolist()))


READ = {
    "pawbench/A-09": (lean, {"lean": 0.3}),  # degrees
    "pawbench/A-03": (sectors, {"shares": 0.005, "phase": 1.0}),  # turns, degrees
    "calibench/galton_board": (offset(0.3, "spacing"), {"offset": 0.02, "row_spacing": 0.01}),  # spacings
    "pawbench/A22": (offset(0.3, "spacing"), {"offset": 0.02, "row_spacing": 0.01}),
    "pawbench/A-05": (offset(0.15, "spacing"), {"offset": 0.02}),
    "pawbench/A-06": (offset(0.15, "spacing"), {"offset": 0.02}),
    "pawbench/A-01": (face, {"start_face": 0.0}),
    "pawbench/A-07": (offset(0.25, "ball_radius"), {"offset": 0.2}),  # ball radii: up to three pixels' light on edges
    "calibench/pendulum": (angles, {"inner_angle": 1.0, "outer_angle": 1.0, "length_ratio": 0.03}),
}
QUICK = {("pawbench/A22", "toy"), ("pawbench/A-09", "studio")}


def cases() -> list[Any]:
    every = [(id, name) for id in READ for name in LOOKS]
    return [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in every]


@pytest.mark.parametrize(("id", "name"), cases())
def test_known_geometry_is_read(id: str, name: str):
    vary, tolerance = READ[id]
    scene, draw = load_scene(id), np.random.default_rng([11, LOOKS.index(name), list(READ).index(id)])
    device = vary(scene.device, draw)
    image, camera = filmed(scene, device, name, 0)
    kind = kind_of(device)
    assert kind is not None
    told = device if id == "pawbench/A-03" else scene.device  # a wheel's colours are the scene's to say; shares are not
    found = kind.values(replace(kind.find(image, told), camera=camera), told)
    truth = kind.of_device(device)
    for measure, within in tolerance.items():
        if isinstance(truth[measure], str):
            assert found[measure] == truth[measure]
        else:
            off = np.abs(np.asarray(found[measure]) - truth[measure])
            assert np.max(np.minimum(off, 360.0 - off)) < within, (measure, found, truth)


def counted(image: Picture, scene: Scene) -> dict[str, int]:
    kind = kind_of(scene.device)
    assert kind is not None
    found = kind.values(kind.find(image, scene.device), scene.device)
    return {word.split()[1]: int(word.split()[0]) for word in found["counts"].split(", ")}


BALLS = [pytest.param(name, marks=() if name == "phone" else pytest.mark.slow) for name in LOOKS]


@pytest.mark.parametrize("name", BALLS)
def test_balls_are_counted_exactly(name: str):
    """Touching one another, a row of them behind glass; of each look variations that nothing was set by."""
    scene, draw = load_scene("pawbench/A-13"), np.random.default_rng([12, LOOKS.index(name)])
    for number in range(20, 24):
        device = filling(scene.device, draw)
        image, _ = filmed(scene, device, name, number)
        assert counted(image, scene) == {color: device.filling.count(color) for color in ("red", "blue")}


def test_a_ball_that_cannot_be_seen_is_never_guessed():
    """One ball painted over with what is behind it: eleven are seen, and the picture is refused, not completed."""
    scene = load_scene("pawbench/A-13")
    image, camera = filmed(scene, scene.device, "studio", 0)
    kind = kind_of(scene.device)
    assert kind is not None
    x, y = kind.expected(scene.device, camera).points["red"][0]
    image = image.copy()
    high, wide = np.ogrid[: image.shape[0], : image.shape[1]]
    image[np.hypot(wide - x, high - y) < 17.0] = (140, 150, 156)
    with pytest.raises(Unreadable, match=r"balls are seen|hide each other"):
        kind.find(image, scene.device)


def dice(id: str, name: str, number: int, orientations: Iterable[Any]) -> Iterator[tuple[int, Picture]]:
    """Yield the pips that are up and the picture of a scene's die held in other orientations (quaternions)."""
    scene = load_scene(id)
    shot, world = shoot(look(name), scene.camera, scene.light, 0, number), scene.device.world()
    canvas, still, die = canvas_of(scene.renderer, world, shot), nominal_state(world), world.loose[0]
    for turn in orientations:
        quat = still.quat.copy()
        quat[0, die] = multiply(quat[0, die], turn)
        up = [rotate(quat[0, die], axis)[2] for axis in np.eye(3)]
        axis = int(np.argmax(np.abs(up)))
        pips = axis + 1 if up[axis] > 0.0 else 6 - axis
        yield pips, next(iter(develop([canvas.frame(replace(still, quat=quat), 0)], shot)))


TILTS = [about(axis, angle) for axis, angle in
         [((1, 0, 0), k * np.pi / 2) for k in range(4)] + [((0, 1, 0), np.pi / 2), ((0, 1, 0), -np.pi / 2)]]  # fmt: skip
TURNS = [multiply(about((0, 0, 1), k * np.pi / 2), tilt) for tilt in TILTS for k in range(4)]
SHADED = ("studio", "toy")


@pytest.mark.parametrize(
    ("id", "name", "turns"),
    [
        ("pawbench/A-02", "studio", TILTS),
        *(
            pytest.param(id, name, TURNS, marks=pytest.mark.slow)
            for id in ("pawbench/A-02", "calibench/dice")
            for name in SHADED
        ),
    ],
)
def test_the_upper_face_of_a_die_is_read(id: str, name: str, turns: list[Any]):
    """All 24 orientations in two looks of two scenes, 96 pictures: all are read, and right.

    Known gap: by a phone's lamp that makes the front as bright as the top, pips of both are taken together. Most such pictures
    are refused, and some of few pips are read wrong.
    """
    kind, device = kind_of(load_scene(id).device), load_scene(id).device
    assert kind is not None
    assert {pips for pips, _ in dice(id, name, 7, TILTS[:1])} == {3}
    for pips, image in dice(id, name, 7, turns):
        assert kind.find(image, device).words["top"] == str(pips)


def test_a_die_drawn_flat_is_refused():
    """All its faces are as bright: which pips are whose would be a guess."""
    kind, device = kind_of(load_scene("pawbench/A-02").device), load_scene("pawbench/A-02").device
    assert kind is not None
    for _, image in dice("pawbench/A-02", "flat", 0, TILTS):
        with pytest.raises(Unreadable):
            kind.find(image, device)


@pytest.mark.parametrize("id", ["pawbench/A-01", "pawbench/A-04", "pawbench/A-05", "pawbench/A-08", "pawbench/A-09"])
def test_what_is_not_there_is_not_read(id: str):
    scene, kind = load_scene(id), kind_of(load_scene(id).device)
    assert kind is not None
    noise = np.random.default_rng(0).integers(90, 140, (120, 208, 3)).astype(np.uint8)
    for image in (np.full((120, 208, 3), 128, np.uint8), noise):
        with pytest.raises(Unreadable):
            found: Marks = kind.find(image, scene.device)
            kind.values(found, scene.device)


def drawn_by_another(scene: Scene, device: Any) -> Picture:
    """Return the picture of a device by PyBullet's renderer, which nothing here was developed on: plain colours, no glass."""
    world = device.world()
    bodies = tuple(replace(b, parts=tuple(p for p in b.parts if p.material.opacity == 1.0)) for b in world.bodies)
    tiny = Tiny(replace(world, bodies=bodies), scene.camera, scene.light)
    try:
        return tiny.frame(nominal_state(world), 0)
    finally:
        tiny.close()


FOREIGN = [
    pytest.param("pawbench/A-13", filling, {}),
    pytest.param("pawbench/A-05", offset(0.15, "spacing"), {"offset": 0.02}, marks=pytest.mark.slow),
    pytest.param("pawbench/A-07", offset(0.25, "ball_radius"), {"offset": 0.2}, marks=pytest.mark.slow),
    pytest.param("pawbench/A-09", lean, {"lean": 0.3}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("id", "vary", "tolerance"), FOREIGN)
def test_pictures_of_another_renderer_are_read_as_well_or_refused(id: str, vary: Any, tolerance: dict[str, float]):
    """Six pictures each, of which at least three are read: what is read is right."""
    scene, draw, read = load_scene(id), np.random.default_rng([13, len(id)]), 0
    for _ in range(6):
        device = vary(scene.device, draw)
        kind, image = kind_of(device), drawn_by_another(scene, device)
        assert kind is not None
        try:
            found = kind.values(replace(kind.find(image, scene.device), camera=scene.camera), scene.device)
        except Unreadable:
            continue
        read += 1
        if not tolerance:
            assert counted(image, scene) == {color: device.filling.count(color) for color in ("red", "blue")}
        for measure, within in tolerance.items():
            assert abs(found[measure] - kind.of_device(device)[measure]) < within
    assert read >= 3
