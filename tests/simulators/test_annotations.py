"""The numbers beside a clip against its pixels and against the Camera's own projection."""

import dataclasses

import numpy as np
import pytest
from test_render import WORLDS, scattered

from simulators.render import prepare
from simulators.render.annotations import camera_matrix, motion
from simulators.world import Light


@pytest.mark.parametrize("name", WORLDS)
def test_the_matrix_is_the_camera(name):
    _, camera = WORLDS[name]
    points = np.random.default_rng(1).normal(0.0, 0.05, (50, 3))
    u, v, w = camera_matrix(camera) @ np.column_stack([points, np.ones(50)]).T
    assert np.allclose(np.stack([u / w, v / w], axis=-1), camera.project(points))
    if camera.view_height is None:
        assert np.allclose(w, (points - camera.position) @ camera.axes()[2])


@pytest.mark.parametrize("name", WORLDS)
def test_a_body_is_inside_its_box(name):
    world, camera = WORLDS[name]
    states = scattered(world, 6, 31)
    canvas, told = prepare(name.split("-")[0], world, camera, Light(ambient=1.0)), motion(world, camera, states)
    seen = 0
    for row in range(len(states)):
        for body in range(len(world.moving)):
            alone = states.pos.copy()
            alone[row, [k for k in range(len(world.moving)) if k != body]] += (0, 0, 50.0)
            picture = canvas.frame(dataclasses.replace(states, pos=alone), row)  # without shadow: all light is ambient
            rows, columns = np.nonzero(np.any(picture != canvas.background, axis=-1))
            if len(rows) < 20:
                continue
            x0, y0, x1, y1 = told["box"][row, body]
            assert x0 - 1.5 <= columns.min() and columns.max() + 1 <= x1 + 1.5
            assert y0 - 1.5 <= rows.min() and rows.max() + 1 <= y1 + 1.5
            seen += 1
    assert seen >= 8
    assert told["box"].shape == (6, len(world.moving), 4)
    assert list(told["names"]) == [body.name for body in world.moving]


def test_a_track_is_saved_and_read_without_pickles(tmp_path):
    world, camera = WORLDS["raster"]
    told = motion(world, camera, scattered(world, 3, 5))
    np.savez_compressed(tmp_path / "track.npz", **told)
    with np.load(tmp_path / "track.npz", allow_pickle=False) as kept:
        assert set(kept) == set(told)
        assert all(np.array_equal(kept[key], told[key]) for key in told)
