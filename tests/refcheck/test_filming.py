"""How clips are filmed, and the notes beside them: they tell what the pixels show; the studio is the scene's own picture."""

from __future__ import annotations

import json
import subprocess

import imageio_ffmpeg
import numpy as np
import pytest

from refcheck import app, clips
from refcheck.filming import Film, source_of
from scenes.load import load_scene
from simulators.engines.loop import run
from simulators.render import prepare
from simulators.render.blur import Shutter
from simulators.render.canvas import nominal_state
from simulators.render.contacts import Contacts
from simulators.video import read_clip

SMALL = ("scene.camera.width=416", "scene.camera.height=240")


@pytest.fixture
def scene(toy_conf):
    return load_scene("toy/wedge", SMALL)


def made(scene, out, film, count=2, seed=0):
    rollouts = run(scene.integrator, scene.device, seed, scene.stream, range(count))
    return rollouts, clips.render_clips(scene, seed, rollouts, out, film=film)


def first(path):
    return next(read_clip(path, limit=1))


def test_the_studio_is_the_scenes_own_picture(scene):
    world = scene.device.world()
    own = prepare(scene.renderer, world, scene.camera, scene.light).frame(nominal_state(world), 0)
    assert np.array_equal(source_of(scene), own)


def test_notes_say_what_the_clip_shows(scene, tmp_path):
    film = Film(look="phone", notes=True, masks=True)
    rollouts, listed = made(scene, tmp_path, film)
    for row, clip in enumerate(listed):
        path = tmp_path / clip.file
        told = json.loads(path.with_suffix(".meta.json").read_text())
        assert (told["index"], told["outcome"], told["frames"]) == (clip.index, clip.outcome, clip.frames)
        assert told["renderer"]["name"] == scene.renderer and told["renderer"]["version"].startswith("quincunx ")
        assert told["look"]["name"] == "phone" and told["variation"] == 0
        assert np.allclose(told["terminal"]["ball"]["position"], rollouts.end.pos[row, scene.device.world().loose[0]])
        with np.load(path.with_suffix(".track.npz"), allow_pickle=False) as track:
            frames = {key: track[key] for key in track.files}
        per_frame = {"time", "pos", "quat", "vel", "omega", "centre", "box", "depth", "pixels", "visibility", "touched", "fact"}
        assert {key for key, value in frames.items() if len(value) == clip.frames} >= per_frame
        assert scene.device.facts[frames["fact"][-1]] == told["fact"]
        assert list(frames["bodies"]) == told["bodies"]
        contacts = Contacts(scene.device.world())
        touching = [contacts.touching(*pose) for pose in zip(frames["pos"], frames["quat"], strict=True)]
        contacts.close()
        assert np.array_equal(frames["contact"], touching)
        held = told["held_from"]
        assert frames["time"][held] == frames["time"][-1] > frames["time"][held - 1]
        with np.load(path.with_suffix(".masks.npz")) as masks:
            ball = masks["segmentation"] == told["bodies"].index("ball") + 1
            k = list(frames["names"]).index("ball")
            assert np.array_equal(ball.sum(axis=(1, 2)), frames["pixels"][:, k])
        rows, columns = np.nonzero(ball[-1])
        x0, y0, x1, y1 = frames["box"][-1, k]
        assert x0 <= columns.min() + 1 and columns.max() <= x1 and y0 <= rows.min() + 1 and rows.max() <= y1


def test_clips_share_a_source_image_unless_each_is_filmed_anew(scene, tmp_path):
    _, shared = made(scene, tmp_path / "shared", Film(look="phone", variation=3))
    _, own = made(scene, tmp_path / "own", Film(look="phone", each=True))
    assert np.array_equal(*(first(tmp_path / "shared" / clip.file) for clip in shared))
    one, other = (first(tmp_path / "own" / clip.file).astype(float) for clip in own)
    assert np.abs(one - other).mean() > 1.0
    assert (
        np.abs(first(tmp_path / "own" / own[0].file) - source_of(scene, Film(look="phone", each=True)).astype(float)).mean() < 4
    )


def test_an_open_shutter_changes_neither_the_end_nor_the_count(scene, tmp_path):
    rollouts, sharp = made(scene, tmp_path / "sharp", Film())
    blurred_rollouts, blurred = made(scene, tmp_path / "blurred", Film(shutter=Shutter(0.5, 4)))
    assert sharp == blurred and np.array_equal(rollouts.fact, blurred_rollouts.fact)
    a, b = (np.array(list(read_clip(tmp_path / name / sharp[0].file)), float) for name in ("sharp", "blurred"))
    assert np.abs(a[-1] - b[-1]).mean() < 0.5 < np.abs(a - b).max(axis=(1, 2, 3)).max()


def test_a_clips_own_metadata_names_the_renderer_and_tells_no_outcome(scene, tmp_path):
    _, (clip, _) = made(scene, tmp_path, Film(look="toy"))
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", tmp_path / clip.file, "-f", "ffmetadata", "-"]
    told = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert f"renderer {scene.renderer} (quincunx" in told and "look toy\\; variation 0" in told
    assert not any(label in told for label in scene.outcomes)


def test_notes_of_an_earlier_run_go_with_its_clips(scene, tmp_path):
    made(scene, tmp_path, Film(notes=True, masks=True))
    made(scene, tmp_path, Film(), count=1)
    assert [path.name for path in (tmp_path / "clips").iterdir()] == ["00000000.mp4"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("shutter=0.1",), "shutter=0.1 must be 0 (sharp), or a multiple of .125"),
        (("look=fone",), "studio, phone, flat, toy"),
        (("scene.camera.width=417",), "should be a multiple of 2"),
        (("fps=120", "shutter=1"), "give a lower fps= or shutter=0"),
        (("vary=true", "variation=2"), "variation= and vary=true are both given"),
        (("masks=true", "notes=false"), "leave notes=false out"),
        (("scene.camera.target=[0,-9,0]",), "cannot be drawn by"),
    ],
)
def test_mistakes_are_told_before_anything_is_drawn(toy_conf, tmp_path, capsys, words, part):
    assert app.main(["render", "scene=toy/wedge", *words, "workers=1", f"out={tmp_path / 'o'}"]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert part in err and "Traceback" not in err
    assert not (tmp_path / "o" / "clips").exists()


@pytest.mark.parametrize(("id", "where"), [("pawbench/A21", "loose"), ("pawbench/A-03", "pointer")])
def test_a_closer_look_is_at_what_decides(id, where):
    """Both dice; of a wheel the spot under its pointer, although two ends alone do not say that it only turns."""
    scene = load_scene(id)
    ends = run(scene.integrator, scene.device, 0, scene.stream, range(2)).end
    for end, points in enumerate(clips.looked_at(scene, ends, [scene.camera] * 2)):
        if where == "loose":
            wanted = scene.camera.project(ends.pos[end, list(scene.device.world().loose)])
            assert np.allclose(points, wanted, atol=3.0)
        else:
            hub = scene.camera.project(ends.pos[end, scene.device.world().loose[0]])
            assert abs(points[0, 0] - hub[0]) < 10.0 and points[0, 1] < hub[1] - 60.0


def test_a_closer_look_shows_each_point_in_the_corner_away_from_them():
    image = np.zeros((480, 832, 3), np.uint8)
    image[90:110, 90:110], image[390:410, 290:310] = (255, 0, 0), (0, 0, 255)
    both = clips.with_closer_look(image, np.array([[300.0, 400.0], [100.0, 100.0]]))
    assert np.array_equal(both[:, :400], image[:, :400])
    inset = both[-200:, -400:] if both[-1, -1].any() else both[:200, -400:]
    assert inset[100, 100].tolist() == [255, 0, 0] and inset[100, 300].tolist() == [0, 0, 255]
    one = clips.with_closer_look(image, np.array([[95.0, 100.0], [105.0, 100.0]]))
    assert (one != image).any(axis=-1).sum() <= 200 * 200
    assert np.array_equal(clips.with_closer_look(image, np.full((1, 2), np.nan)), image)
