"""Masks against pictures, depth and visibility against geometry that can be worked out by hand."""

import dataclasses

import numpy as np
import pytest
from scipy import ndimage
from test_render import BOUNDS, FROM_FRONT, WORLDS, scattered

from simulators.render import prepare
from simulators.render.canvas import nominal_state
from simulators.render.segmentation import Segmenter, write_masks
from simulators.world import Body, Box, Camera, Light, Material, Part, Sphere, World


@pytest.mark.parametrize("name", WORLDS)
def test_a_mask_is_where_the_picture_changes(name):
    world, camera = WORLDS[name]
    states = scattered(world, 6, 31)
    canvas, segmenter = prepare(name.split("-")[0], world, camera, Light(ambient=1.0)), Segmenter(world, camera)
    number = {body.name: k + 1 for k, body in enumerate(world.bodies)}
    seen = 0
    for row in range(len(states)):
        for k, body in enumerate(world.moving):
            pos = states.pos.copy()
            pos[row, [i for i in range(len(world.moving)) if i != k]] += (0, 0, 50.0)
            alone = dataclasses.replace(states, pos=pos)
            shown = np.any(canvas.frame(alone, row) != canvas.background, axis=-1)
            mask = segmenter.masks(alone, row)[0] == number[body.name]
            if mask.sum() < 30:
                continue
            # The outline may differ: a picture has parts of pixels, a mask has centres, and a tip can fall between centres. A
            # body's own marks may have the background's colour.
            assert np.sum(shown & ~ndimage.binary_dilation(mask, iterations=2)) <= 2
            assert np.mean(shown[ndimage.binary_erosion(mask)]) > 0.97
            seen += 1
    assert seen >= 6


def test_depth_of_a_ball_and_of_the_wall_behind_it():
    wall = Body("wall", (Part(Box((1.0, 0.1, 1.0)), (0, 0.25, 0)),))
    ball = Body("ball", (Part(Sphere(0.05)),), 0.1)
    camera = Camera((0, -1, 0), (0, 0, 0), fov=0.5, width=101, height=101)
    world = World((wall, ball), BOUNDS)
    labels, depth = Segmenter(world, camera).masks(nominal_state(world), 0)
    assert labels[50, 50] == 2 and depth[50, 50] == pytest.approx(0.95)  # the camera is 1 m from the ball's centre
    assert labels[0, 0] == 1 and np.allclose(depth[labels == 1], 1.2)  # along the look, not along the ray


@pytest.mark.parametrize(("opacity", "share"), [(1.0, 0.5), (0.2, 1.0)])
def test_half_hidden_behind_a_wall_but_not_behind_glass(opacity, share):
    plate = Body("plate", (Part(Box((0.2, 0.01, 0.2)), (-0.1, -0.1, 0), material=Material(opacity=opacity)),))
    cube = Body("cube", (Part(Box((0.05, 0.05, 0.05))),), 0.1)
    world = World((plate, cube), BOUNDS)
    pixels, visibility = Segmenter(world, FROM_FRONT).seen(nominal_state(world), 0)
    assert visibility.tolist() == [pytest.approx(share)]
    assert pixels.tolist() == [pytest.approx(share * (0.05 / 0.3 * FROM_FRONT.height) ** 2)]


def test_a_body_outside_the_picture_has_no_share():
    world = World((Body("far", (Part(Sphere(0.01)),), 0.1, (0.9, 0, 0)),), BOUNDS)
    pixels, visibility = Segmenter(world, FROM_FRONT).seen(nominal_state(world), 0)
    assert pixels.tolist() == [0] and visibility.tolist() == [0.0]


def test_masks_are_written_frame_by_frame_and_the_same_bytes_again(tmp_path):
    world, camera = WORLDS["raster"]
    states, segmenter = scattered(world, 3, 5), Segmenter(world, camera)
    for name in ("a.npz", "b.npz"):
        write_masks(tmp_path / name, segmenter, states, [0, 2, 2])
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as kept:
        for frame, row in enumerate((0, 2, 2)):
            labels, depth = segmenter.masks(states, row)
            assert np.array_equal(kept["segmentation"][frame], labels) and np.array_equal(kept["depth"][frame], depth)
    assert (tmp_path / "a.npz").stat().st_size < 3 * labels.size * 3  # of 6 bytes a pixel
