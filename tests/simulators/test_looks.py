"""Ways of filming: seeded, repeatable, and never so far off that another thing is seen."""

import dataclasses
import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_render import FROM_FRONT, WORLDS, scattered
from test_render_marks import CAMERAS, showcase

from simulators.render.blur import Shutter
from simulators.render.canvas import nominal_state
from simulators.render.looks import LOOKS, Look, canvas_of, develop, dressed, look, shoot
from simulators.video import ClipError, clip_info, frames_of_clip, read_clip, write_clip
from simulators.world import Light

RENDERERS = ("planar", "raster")


def filmed(name: str, renderer: str, seed: int = 3, number: int = 0, count: int = 1):
    world, camera = WORLDS[renderer]
    shot = shoot(look(name), camera, Light(), seed, number)
    return list(develop([canvas_of(renderer, world, shot).frame(nominal_state(world), 0)] * count, shot))


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("name", LOOKS)
def test_a_seed_is_a_picture(name, renderer):
    first, again = filmed(name, renderer, count=2), filmed(name, renderer, count=2)
    assert np.array_equal(first, again)
    other = filmed(name, renderer, number=1)[0]
    assert np.array_equal(first[0], other) == (name != "phone")  # the one preset in which anything varies
    assert np.array_equal(first[0], first[1]) == (name != "phone")  # and that has noise


def test_studio_is_what_the_renderer_draws():
    world, camera = WORLDS["raster"]
    shot = shoot(look("studio"), camera, Light())
    assert (shot.camera, shot.light.ambient, shot.gains) == (camera, Light().ambient, (1.0, 1.0, 1.0))
    assert np.allclose(np.cross(shot.light.direction, Light().direction), 0.0, atol=1e-12)
    assert dressed(world, shot.look) is world


def clip_digest(name: str) -> str:
    """Return a digest of a short blurred and noisy clip of everything there is to draw."""
    world, shot = showcase(), shoot(look(name), CAMERAS[0], Light(), 2**64 - 1, 5)
    canvas = canvas_of("raster", world, shot)
    path = scattered(world, 9, 21)
    path = dataclasses.replace(path, time=np.arange(9) / shot.look.shutter.rate(16.0))
    frames = develop(frames_of_clip(canvas, path, 16.0, minimum=3, shutter=shot.look.shutter), shot)
    return hashlib.sha256(b"".join(frame.tobytes() for frame in frames)).hexdigest()


def test_other_processes_film_the_same_bits():
    program = "import sys; sys.path.insert(0, sys.argv[1]); from test_looks import clip_digest; print(clip_digest('phone'))"
    folder = str(Path(__file__).parent)
    told = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=True).stdout.strip()
    assert told == clip_digest("phone")
    assert told != clip_digest("toy")


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_shaken_camera_keeps_every_point_near_where_it_was(renderer):
    """Pan, dolly and roll of the phone move what is in the picture by a few hundredths of its height, never more."""
    world, camera = WORLDS[renderer]
    places = np.array([body.position for body in world.bodies])
    before = camera.project(places)
    inside = np.all((before > 0) & (before < (camera.width, camera.height)), axis=-1)
    moved = np.array([
        shoot(look("phone"), camera, Light(), 9, number).camera.project(places) - before for number in range(64)
    ])[:, inside]  # fmt: skip
    assert np.abs(moved).max() < 0.1 * camera.height
    assert np.ptp(moved[:, :, 0]) > 0.01 * camera.height
    assert np.linalg.norm(moved, axis=-1).min() > 0.0


def test_what_varies_has_the_spread_it_is_given_and_no_tails():
    # n = 400: the mean of a normal cut at 2 sd (whose sd is .88 of it before) is within 3.3 of its standard errors: 1 in 1,000
    _, camera = WORLDS["raster"]
    wide = Look(exposure_spread=0.5)
    stops = np.log2([shoot(wide, camera, Light(), 1, number).gains[1] for number in range(400)])
    assert np.abs(stops).max() <= 1.0
    assert abs(stops.mean()) < 3.3 * 0.5 * 0.88 / 20
    assert stops.std() == pytest.approx(0.5 * 0.959, rel=0.12)  # clipped, not redrawn, at 2 sd


def test_one_quantity_moves_no_other():
    _, camera = WORLDS["raster"]
    alone, both = (shoot(one, camera, Light(), 5, 2) for one in (Look(pan=0.02), Look(pan=0.02, warmth=0.3, roll=0.02)))
    assert alone.camera.position == both.camera.position
    assert alone.gains != both.gains


def test_exposure_multiplies_light():
    grey = np.full((8, 8, 3), 90, np.uint8)
    grey[0] = 30
    _, camera = WORLDS["raster"]

    def light(image):
        return ((image[4, 4] / 255.0 + 0.055) / 1.055) ** 2.4

    [brighter] = develop([grey], shoot(Look(exposure=1.0), camera, Light()))
    assert light(brighter) == pytest.approx(2.0 * light(grey), rel=0.02)


def test_noise_is_new_in_every_frame_and_as_strong_as_told():
    grey = np.full((120, 160, 3), 120, np.uint8)
    grey[:4] = 90
    _, camera = WORLDS["raster"]
    a, b = (frame[8:].astype(float) - 120 for frame in develop([grey] * 2, shoot(Look(noise=3.0), camera, Light())))
    # n = 53,760 pixels: the standard error of a standard deviation of 3 is .009
    assert a.std() == pytest.approx(3.0, abs=0.06)
    assert abs(a.mean()) < 0.1
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("value", [0, 200])
def test_noise_hides_no_blank_frame(value):
    _, camera = WORLDS["raster"]
    shot = shoot(look("phone"), camera, Light())
    with pytest.raises(ValueError, match="frame 1"):
        list(develop([filmed("studio", "raster")[0], np.full((120, 208, 3), value, np.uint8)], shot))


def test_toys_are_brighter_in_colour_and_stand_where_they_stood():
    world, _ = WORLDS["raster"]
    toy = dressed(world, look("toy"))
    for before, after in zip(world.bodies, toy.bodies, strict=True):
        for one, other in zip(before.parts, after.parts, strict=True):
            assert dataclasses.replace(other, material=one.material) == one
            assert np.ptp(other.material.color) >= np.ptp(one.material.color)
    assert toy != world


def test_unknown_looks_and_seeds_are_refused():
    with pytest.raises(ValueError, match="studio, phone, flat, toy"):
        look("phne")
    with pytest.raises(ValueError, match="seed"):
        shoot(look("phone"), FROM_FRONT, Light(), -1)


def test_stronger_compression_makes_smaller_clips(tmp_path):
    frames = filmed("phone", "raster", count=8)
    frames = [frame[:, :208] for frame in frames]
    sizes = []
    for crf in (16, 26, 40):
        path = tmp_path / f"{crf}.mp4"
        assert write_clip(path, frames, 16, crf) == 8 == clip_info(path).frames
        sizes.append(path.stat().st_size)
        off = np.abs(next(read_clip(path)).astype(int) - frames[0]).mean()
        assert off < crf / 2
    assert sizes[0] > 1.5 * sizes[1] > 1.5 * sizes[2]
    with pytest.raises(ClipError, match="crf"):
        write_clip(tmp_path / "x.mp4", frames, 16, 60)


def test_every_preset_asks_for_a_rate_that_can_be_recorded():
    for preset in LOOKS.values():
        assert preset.shutter.rate(16.0) <= 1200.0
    assert Shutter(0.5, 4).rate(16.0) == 128.0
