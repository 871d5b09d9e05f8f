"""Motion blur against what a shutter gathers: the mean light of the states it saw, and no more."""

import dataclasses

import numpy as np
import pytest
from test_render import BOUNDS, WORLDS

from simulators.device import State
from simulators.render import prepare
from simulators.render.blur import Shutter, exposed
from simulators.rotation import about
from simulators.video import frames_of_clip, source_image
from simulators.world import Body, Box, Camera, Cylinder, Light, Material, Part, Sphere, World


def moved(world: World, rate: float, seconds: float) -> State:
    """Return a trajectory at `rate` whose first body crosses the picture turning and then rests for a tenth of the time."""
    rows = round(rate * seconds) + 1
    share = np.minimum(np.arange(rows) / (rows - 1) / 0.9, 1.0)
    still = State.at_release(world, rows)
    pos, quat = still.pos.copy(), still.quat.copy()
    pos[:, 0, 0] += 0.1 * share - 0.05
    quat[:, 0] = about((0, 1, 0), 6.0 * share)
    return dataclasses.replace(still, time=np.arange(rows) / rate, pos=pos, quat=quat)


@pytest.mark.parametrize("name", ["planar", "raster"])
def test_a_region_of_a_blurred_frame_equals_the_whole(name):
    world, camera = WORLDS[name]
    canvas, path, rng = prepare(name, world, camera, Light()), moved(world, 128.0, 0.2), np.random.default_rng(4)
    for row in (2, 9, 20):
        whole = exposed(canvas, path, row, 4)
        assert np.any(whole != canvas.frame(path, row))
        for _ in range(10):
            a, c = sorted(rng.integers(0, camera.width + 1, 2).tolist())
            b, d = sorted(rng.integers(0, camera.height + 1, 2).tolist())
            assert np.array_equal(exposed(canvas, path, row, 4, (a, b, c, d)), whole[b:d, a:c])
        outside = np.ones(whole.shape[:2], bool)
        for one in range(max(row - 3, 0), row + 1):
            x0, y0, x1, y1 = canvas.region(path, one)
            outside[y0:y1, x0:x1] = False
        assert np.array_equal(whole[outside], canvas.background[outside])


def test_a_ball_that_crosses_is_spread_as_long_as_the_shutter_is_open():
    # a white ball on black, 2 px wide, moves 64 px a frame: half open, it is smeared over 32 px, and loses no light
    camera = Camera((0, -1, 0), (0, 0, 0), view_height=0.064, width=128, height=64)
    wall = Body("wall", (Part(Box((1, 0.01, 1)), (0, 0.1, 0), material=Material((0, 0, 0), roughness=1.0)),))
    ball = Body("ball", (Part(Sphere(0.002), material=Material((0.6,) * 3, roughness=1.0)),), 1.0, (-0.03, 0, 0))
    world, shutter = World((wall, ball), BOUNDS), Shutter(0.5, 16)
    still = State.at_release(world, 65)
    pos = still.pos.copy()
    pos[:, 0, 0] += 0.064 / shutter.stride * np.arange(65)
    path = dataclasses.replace(still, time=np.arange(65) / shutter.rate(16.0), pos=pos)
    canvas = prepare("raster", world, camera, Light(ambient=1.0))

    def light(image):
        return np.clip(((image / 255.0 + 0.055) / 1.055) ** 2.4 - ((canvas.background / 255.0 + 0.055) / 1.055) ** 2.4, 0, None)

    sharp, blurred = light(canvas.frame(path, 24)).sum(axis=(0, 2)), light(exposed(canvas, path, 24, 16)).sum(axis=(0, 2))
    assert blurred.sum() == pytest.approx(sharp.sum(), rel=0.1)
    middle = np.arange(128) + 0.5
    assert (middle * blurred).sum() / blurred.sum() == pytest.approx((middle * sharp).sum() / sharp.sum() - 15.0, abs=0.7)
    ends = np.flatnonzero(blurred > 0.1 * blurred.max())
    assert abs((ends[-1] - ends[0]) - (30 + 3)) <= 2


def test_a_clip_starts_at_the_source_image_and_ends_sharp():
    world, camera = WORLDS["raster"]
    shutter = Shutter(0.5, 4)
    canvas, path = prepare("raster", world, camera, Light()), moved(world, shutter.rate(16.0), 1.0)
    frames = list(frames_of_clip(canvas, path, 16.0, minimum=20, shutter=shutter))
    stills = list(frames_of_clip(canvas, moved(world, 16.0, 1.0), 16.0, minimum=20))
    assert len(frames) == len(stills) == 20
    assert np.array_equal(frames[0], stills[0])
    assert np.array_equal(frames[0], canvas.frame(path, 0))
    assert np.array_equal(frames[-1], stills[-1])
    assert not np.array_equal(frames[8], stills[8])
    with pytest.raises(ValueError, match="not recorded at 128"):
        list(frames_of_clip(canvas, moved(world, 16.0, 1.0), 16.0, shutter=shutter))
    assert source_image(canvas, world).shape == frames[0].shape


def test_what_stands_still_is_the_same_picture():
    world, camera = WORLDS["raster"]
    canvas, path = prepare("raster", world, camera, Light()), moved(world, 128.0, 0.5)
    last = len(path) - 1
    assert np.array_equal(exposed(canvas, path, last, 4), canvas.frame(path, last))
    nudged = dataclasses.replace(path, pos=path.pos + 1e-12 * np.arange(len(path))[:, None, None])
    drift = exposed(canvas, nudged, last, 4).astype(int) - canvas.frame(nudged, last)
    assert np.abs(drift).max() <= 1  # the mean of equal lights, up to a rounding of the eye's bits


def test_a_turning_coin_shows_no_single_face():
    # 21 turns a second at 16 fps: a still shows a face that says nothing of the turning, a shutter mixes both
    spin, shutter = 2 * np.pi * 21.0, Shutter(0.8, 16)
    floor = Body("floor", (Part(Box((1, 1, 0.02)), (0, 0, -0.05)),))
    coin = Part(Cylinder(0.0106, 0.002), material=Material((0.83, 0.68, 0.4), "coin", (0.16, 0.11, 0.06)))
    world = World((floor, Body("coin", (coin,), 1.0)), BOUNDS)
    rate = shutter.rate(16.0)
    still = State.at_release(world, 81)
    time = np.arange(81) / rate
    path = dataclasses.replace(still, time=time, quat=about((1, 0, 0), spin * time)[:, None])
    camera = Camera((0, 0, 1), (0, 0, 0), up=(0, 1, 0), view_height=0.03, width=60, height=60)
    canvas = prepare("raster", world, camera, Light())
    stills = [canvas.frame(path, row).astype(int) for row in (40, 60, 80)]
    blurred = [exposed(canvas, path, row, shutter.samples).astype(int) for row in (40, 60, 80)]
    apart = [max(np.abs(a - b).mean() for a in some for b in some) for some in (stills, blurred)]
    assert apart[1] < 0.5 * apart[0]


@pytest.mark.parametrize(("opened", "samples"), [(0.5, 0), (0.0, 4), (1.5, 4), (0.3, 4)])
def test_shutters_that_no_rate_serves_are_refused(opened, samples):
    with pytest.raises(ValueError, match="sample"):
        Shutter(opened, samples)
