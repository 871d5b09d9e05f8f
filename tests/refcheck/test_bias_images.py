"""How well pictures of known geometry are read, over looks (light, colours, a hand-held camera, noise); and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from refcheck.image_reading.kinds import kind_of
from refcheck.image_reading.marks import Marks, Picture, Unreadable
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.render.looks import canvas_of, develop, look, shoot
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


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOKS)
def test_balls_are_counted_or_refused_and_never_miscounted(name: str):
    scene, draw = load_scene("pawbench/A-13"), np.random.default_rng([12, LOOKS.index(name)])
    device = filling(scene.device, draw)
    image, _ = filmed(scene, device, name, 0)
    kind = kind_of(device)
    assert kind is not None
    try:
        found = kind.values(kind.find(image, scene.device), scene.device)
    except Unreadable:
        return
    told = {word.split()[1]: int(word.split()[0]) for word in found["counts"].split(", ")}
    assert told == {color: device.filling.count(color) for color in ("red", "blue")}


def test_the_upper_face_of_a_die_is_counted():
    scene = load_scene("pawbench/A-02")
    kind = kind_of(scene.device)
    assert kind is not None
    image, _ = filmed(scene, scene.device, "studio", 0)
    assert kind.find(image, scene.device).words["top"] == "3"


@pytest.mark.parametrize("id", ["pawbench/A-01", "pawbench/A-04", "pawbench/A-05", "pawbench/A-08", "pawbench/A-09"])
def test_what_is_not_there_is_not_read(id: str):
    scene, kind = load_scene(id), kind_of(load_scene(id).device)
    assert kind is not None
    noise = np.random.default_rng(0).integers(90, 140, (120, 208, 3)).astype(np.uint8)
    for image in (np.full((120, 208, 3), 128, np.uint8), noise):
        with pytest.raises(Unreadable):
            found: Marks = kind.find(image, scene.device)
            kind.values(found, scene.device)
