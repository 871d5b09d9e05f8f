"""Base and variant of a pair, filmed: the same rollout, and nothing but the stated change to be seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import ndimage

from refcheck.filming import canvas_of
from scenes.catalog import raw_scene, scene_ids
from scenes.load import load_scene
from simulators.engines.loop import run
from simulators.render.annotations import motion
from simulators.render.primitives import half_extents
from simulators.render.segmentation import Segmenter
from simulators.rotation import conjugate, multiply, rotate

CUES = {
    "pawbench/A-12": {"sign"},
    "pawbench/A-14": {"prop 1", "prop 2", "prop 3"},
    "pawbench/A20": {"sign"},
    "pawbench/A24": {"sign"},
    "quincunx/A-14": {"prop 1", "prop 2", "prop 3"},
    "quincunx/A20": {"sign"},
    "quincunx/A24": {"sign"},
}
FPS = 4.0


def pair_of(id):
    variant = load_scene(id, ("scene.camera.width=416", "scene.camera.height=240"))
    base = load_scene(variant.variant.base, ("scene.camera.width=416", "scene.camera.height=240"))
    return base, variant


def recorded(base, variant, count, fps=FPS):
    return [run(s.integrator, s.device, 0, s.stream, range(count), fps=fps).trajectories for s in (base, variant)]


def places(camera, depth):
    """Return the world's point (h, w, 3) [m] that each pixel's middle shows, very far where nothing."""
    depth = np.where(np.isfinite(depth), depth, 1e6)
    right, down, forward = camera.axes()
    y, x = np.mgrid[0 : camera.height, 0 : camera.width] + 0.5
    unit = camera.height / (2 * np.tan(camera.fov / 2) if camera.view_height is None else camera.view_height)
    a, b = (x - camera.width / 2) / unit, (y - camera.height / 2) / unit
    grow = depth if camera.view_height is None else 1.0
    aside = (a * grow)[..., None] * right + (b * grow)[..., None] * down
    return np.asarray(camera.position) + aside + depth[..., None] * forward


def shaded(world, names, light, points):
    """Say of `points` (h, w, 3) whether a box about a part of one of the bodies may be before any of the light's disc."""
    towards = np.asarray(light.direction) / np.linalg.norm(light.direction)
    found = np.zeros(points.shape[:2], bool)
    for body in (body for body in world.bodies if body.name in names):
        for part in body.parts:
            turn = conjugate(multiply(np.asarray(body.quaternion), np.asarray(part.quaternion)))
            centre = np.asarray(body.position) + rotate(np.asarray(body.quaternion), np.asarray(part.position))
            at, way = rotate(turn, points - centre), rotate(turn, towards)
            half = np.asarray(half_extents(part.shape)) + np.linalg.norm(at, axis=-1)[..., None] * np.tan(light.softness)
            with np.errstate(divide="ignore", invalid="ignore"):
                low, high = (-half - at) / way, (half - at) / way
            near, far = np.minimum(low, high).max(axis=-1), np.maximum(low, high).min(axis=-1)
            found |= (near <= far) & (far > 0.0)
    return found


@pytest.mark.parametrize("id", CUES)
def test_a_cue_changes_no_pixel_but_those_that_show_or_are_shaded_by_it(id):
    base, variant = pair_of(id)
    world, names = variant.device.world(), CUES[id]
    assert {b.name for b in world.bodies} - {b.name for b in base.device.world().bodies} == names
    assert (base.camera, base.light, base.renderer) == (variant.camera, variant.light, variant.renderer)
    with_cue, without = canvas_of(variant), canvas_of(base)
    cue = [k + 1 for k, body in enumerate(world.bodies) if body.name in names]
    segmenter, seen = Segmenter(world, variant.camera), Segmenter(base.device.world(), base.camera)
    for one, other in zip(*recorded(base, variant, 1), strict=True):
        assert all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
        for row in range(0, len(one), max(1, len(one) // 6)):
            differs = np.any(with_cue.frame(other, row) != without.frame(one, row), axis=-1)
            shows = np.isin(segmenter.masks(other, row)[0], cue)
            dim = shaded(world, names, variant.light, places(base.camera, seen.masks(one, row)[1].astype(float)))
            assert differs.any() and shows.any()
            assert not np.any(differs & ~ndimage.binary_dilation(shows | dim, np.ones((3, 3))))
            assert np.mean(ndimage.binary_dilation(shows | dim, np.ones((3, 3)))) < 0.25  # a test of most of the picture


def test_the_other_face_of_a_coin_changes_no_pixel_outside_the_coin():
    """Until it first touches the table; from then on the two differ by rounding, which bounces make large."""
    base, variant = pair_of("pawbench/A23")
    with_back, with_front = canvas_of(variant), canvas_of(base)
    world = variant.device.world()
    coin = [body.name for body in world.moving].index("coin")
    for one, other in zip(*recorded(base, variant, 2, fps=16.0), strict=True):
        flying = np.flatnonzero(one.time < 0.3)
        assert len(flying) > 10 and np.array_equal(one.pos[flying], other.pos[flying])
        half_turn = np.abs(np.sum(one.quat[flying, coin] * other.quat[flying, coin], axis=-1))
        assert np.allclose(half_turn, 0.0, atol=1e-9)
        boxes = motion(world, variant.camera, other)["box"][:, coin]
        for row in flying[::3]:
            difference = np.abs(with_back.frame(other, row).astype(int) - with_front.frame(one, row).astype(int)).max(axis=-1)
            x0, y0, x1, y1 = np.round(boxes[row]).astype(int) + np.array([-2, -2, 2, 2])
            assert difference[y0:y1, x0:x1].max() > 20
            difference[y0:y1, x0:x1] = 0
            assert difference.max() <= 1


def test_a_framing_moves_the_camera_and_nothing_in_the_world():
    base, variant = pair_of("pawbench/A-15")
    assert base.device == variant.device and base.light == variant.light and base.renderer == variant.renderer
    for one, other in zip(*recorded(base, variant, 8), strict=True):
        assert all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
        width, height = variant.camera.width, variant.camera.height
        boxes = [motion(s.device.world(), s.camera, one)["box"][:, list(s.device.world().loose)] for s in (base, variant)]
        for box in boxes:  # what decides is wholly in the picture, in either framing
            assert np.all(box[..., :2] > 0.0) and np.all(box[..., 2] < width) and np.all(box[..., 3] < height)
        shift = boxes[1] - boxes[0]
        assert np.all(shift[..., [0, 2]] > 0.1 * width) and np.all(np.abs(shift[..., [1, 3]]) < 0.02 * height)


def test_every_pair_with_a_sign_or_things_is_tested():
    changes = {id: (raw_scene(id).get("variant") or {}).get("change", "") for id in scene_ids()}
    assert {id for id, change in changes.items() if "sign" in change or "stand" in change} == set(CUES)
