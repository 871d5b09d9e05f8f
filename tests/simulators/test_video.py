"""Clips: what goes in comes out, counted; what cannot be a clip is refused with a reason and leaves nothing behind."""

import dataclasses
import subprocess
import tracemalloc

import imageio_ffmpeg
import numpy as np
import pytest

from simulators.device import State
from simulators.render import prepare
from simulators.render.canvas import nominal_state
from simulators.video import (
    ClipError,
    Limits,
    clip_info,
    clip_length,
    contact_sheet,
    evenly_spaced,
    frames_of_clip,
    read_clip,
    source_image,
    write_clip,
)
from simulators.world import Body, Box, Camera, Light, Material, Move, Part, Sphere, World


def world_and_camera() -> tuple[World, Camera]:
    wall = Body("wall", (Part(Box((1, 0.01, 1)), (0, 0.1, 0), material=Material((0.6, 0.45, 0.3), "wood")),))
    ball = Body("ball", (Part(Sphere(0.01), material=Material((0.8, 0.1, 0.1))),), 0.01)
    gate = Body("gate", (Part(Box((0.03, 0.02, 0.004))),), position=(0, 0, -0.02), collides=False)
    move = Move((-0.25, 0.0), ((0, 0, -0.02), (0.04, 0, -0.02)), ((0, 0, 0, 1), (0, 0, 0, 1)))
    world = World((wall, ball, gate), ((-1, -1, -1), (1, 1, 1)), {"gate": move}, planar=True)
    return world, Camera((0, -1, 0), (0, 0, 0), view_height=0.12, width=96, height=64)


def trajectory(world: World, frames: int, fps: float, sideways: float) -> State:
    """Return what a recorder gives: the prelude's poses, then a ball on its way, at `fps`."""
    rows = []
    for k in range(frames):
        time = k / fps - world.prelude
        pos, quat = world.poses(time)
        pos = pos + np.array([[sideways * max(time, 0.0), 0, 0], [0, 0, 0]])
        still = State.at_release(world, 1)
        rows.append(dataclasses.replace(still, time=np.array([time]), pos=pos[None], quat=quat[None]))
    return State.concatenate(rows)


@pytest.fixture(scope="module")
def canvas_and_world():
    world, camera = world_and_camera()
    return prepare("planar", world, camera, Light()), world


@pytest.fixture(scope="module")
def frames(canvas_and_world):
    canvas, world = canvas_and_world
    return list(frames_of_clip(canvas, trajectory(world, 30, 16, 0.02), 16))


def test_a_clip_comes_back_as_it_went_in(tmp_path, frames):
    path = tmp_path / "clip.mp4"
    assert write_clip(path, iter(frames), 16) == len(frames)
    info = clip_info(path)
    assert (info.width, info.height, info.frames, info.codec, info.pixel_format) == (96, 64, len(frames), "h264", "yuv420p")
    assert info.fps == 16
    back = list(read_clip(path))
    assert len(back) == len(frames)
    for sent, got in zip(frames, back, strict=True):
        assert 10 * np.log10(255**2 / np.mean((sent.astype(float) - got) ** 2)) > 30
        assert np.abs(sent.mean((0, 1)) - got.mean((0, 1))).max() < 2  # a wrong colour matrix shifts green by more
    assert [p.name for p in tmp_path.iterdir()] == ["clip.mp4"]


def test_saturated_colours_survive(tmp_path):
    # read with another matrix than written (BT.601 for BT.709), pure green is off by tens
    bars = np.zeros((64, 96, 3), np.uint8)
    for k, colour in enumerate([(200, 30, 30), (30, 200, 30), (30, 30, 200)]):
        bars[:, 32 * k : 32 * k + 32] = colour
    write_clip(tmp_path / "bars.mp4", [bars] * 4, 16)
    back = next(read_clip(tmp_path / "bars.mp4")).astype(int)
    for k in range(3):
        assert np.abs(back[:, 32 * k + 8 : 32 * k + 24].mean((0, 1)) - bars[0, 32 * k]).max() < 4


def test_luma_is_bt709_and_says_so(tmp_path):
    # Rec. ITU-R BT.709: Y' = 16 + 219 (.2126 R' + .7152 G' + .0722 B'); BT.601's green is 18 lower
    colour = np.array([30, 200, 30])
    image = np.tile(colour.astype(np.uint8), (64, 96, 1))
    image[:8] = 0
    write_clip(tmp_path / "green.mp4", [image] * 3, 16)
    ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-i", str(tmp_path / "green.mp4")]
    told = subprocess.run([*ffmpeg, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"], capture_output=True)
    luma = np.frombuffer(told.stdout[: 64 * 96], np.uint8).reshape(64, 96)
    assert luma[40, 48] == pytest.approx(16 + 219 * np.dot((0.2126, 0.7152, 0.0722), colour) / 255, abs=1.5)
    assert b"yuv420p(tv, bt709" in told.stderr


def test_the_index_is_at_the_front_and_bytes_repeat(tmp_path, frames):
    for name in ("a.mp4", "b.mp4"):
        write_clip(tmp_path / name, frames, 16)
    data = (tmp_path / "a.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    assert data == (tmp_path / "b.mp4").read_bytes()


@pytest.mark.parametrize("shape", [(63, 96, 3), (64, 95, 3)])
def test_odd_sizes_are_refused(tmp_path, shape):
    image = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
    with pytest.raises(ClipError, match="even"):
        write_clip(tmp_path / "odd.mp4", [image], 16)
    assert not list(tmp_path.iterdir())


def test_what_is_no_clip_is_refused_and_leaves_nothing(tmp_path, frames):
    def interrupted():
        yield from frames[:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_clip(tmp_path / "clip.mp4", interrupted(), 16)
    with pytest.raises(ClipError, match="at least one frame"):
        write_clip(tmp_path / "clip.mp4", [], 16)
    with pytest.raises(ClipError, match="frame 2 is one single colour"):
        write_clip(tmp_path / "clip.mp4", [*frames[:2], np.full_like(frames[0], 7)], 16)
    with pytest.raises(ClipError, match="frame 1 is 32x32"):
        write_clip(tmp_path / "clip.mp4", [frames[0], frames[0][:32, :32]], 16)
    with pytest.raises(ClipError, match="uint8"):
        write_clip(tmp_path / "clip.mp4", [frames[0].astype(float)], 16)
    with pytest.raises(ClipError, match="fps"):
        write_clip(tmp_path / "clip.mp4", frames, 0)
    assert not list(tmp_path.iterdir())


def test_an_old_clip_survives_a_failed_new_one(tmp_path, frames):
    path = tmp_path / "clip.mp4"
    write_clip(path, frames, 16)
    before = path.read_bytes()
    with pytest.raises(ClipError):
        write_clip(path, [*frames[:3], frames[0][:32]], 16)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["clip.mp4"]


def test_a_count_that_differs_is_an_error(tmp_path, frames, monkeypatch):
    import simulators.video as video

    whole = video._encode
    monkeypatch.setattr(video, "_encode", lambda path, some, *rest: whole(path, list(some)[:-1], *rest) + 1)  # one gets lost
    with pytest.raises(ClipError, match=f"{len(frames)} frames were sent to the encoder and {len(frames) - 1} came back"):
        write_clip(tmp_path / "clip.mp4", frames, 16)
    assert not list(tmp_path.iterdir())


def test_what_the_encoder_broke_is_an_error(tmp_path, frames, monkeypatch):
    import simulators.video as video

    whole = video._encode

    def broken(path, *rest):
        sent, data = whole(path, *rest), path.read_bytes()
        start = data.index(b"mdat") + len(data) // 4
        path.write_bytes(data[:start] + bytes(255 - b for b in data[start:]))
        return sent

    monkeypatch.setattr(video, "_encode", broken)
    with pytest.raises(ClipError, match="damaged"):
        write_clip(tmp_path / "clip.mp4", frames, 16)
    assert not list(tmp_path.iterdir())


def test_broken_files_are_named_as_such(tmp_path, frames):
    good = tmp_path / "good.mp4"
    write_clip(good, frames, 16)
    data = good.read_bytes()
    cases = {"half": data[: len(data) // 2], "text": b"not a video" * 50, "empty": b""}
    start = data.index(b"mdat") + len(data) // 4
    cases["scrambled"] = data[:start] + bytes(255 - b for b in data[start:])
    # a playlist may name any file of this machine: it is not a clip
    cases["playlist"] = f"#EXTM3U\n#EXTINF:1,\n{good}\n#EXT-X-ENDLIST\n".encode()
    for name, content in cases.items():
        path = tmp_path / f"{name}.mp4"
        path.write_bytes(content)
        with pytest.raises(ClipError, match=f"{name}.mp4"):
            list(read_clip(path))
    with pytest.raises(ClipError, match="there is no clip"):
        list(read_clip(tmp_path / "missing.mp4"))


def test_untrusted_clips_are_read_within_limits(tmp_path, frames):
    path = tmp_path / "clip.mp4"
    write_clip(path, frames, 16)
    for limits, word in ((Limits(size=100), "bytes"), (Limits(pixels=1000), "pixels"), (Limits(frames=10), "more than 10")):
        with pytest.raises(ClipError, match=word):
            clip_info(path, limits)
    assert len(list(read_clip(path, limit=7))) == 7
    assert len(list(read_clip(path, limits=Limits(frames=len(frames))))) == len(frames)


def test_the_final_state_is_held_for_an_eighth():
    for frames in (1, 20, 43, 44, 49, 50, 100, 333):
        total = clip_length(frames)
        assert total >= max(49, frames)
        assert (total - (frames - 1)) / total >= 1 / 8
    assert clip_length(100) == 114  # 99 moving and 15 held: 98.. + one frame less would not hold for an eighth
    with pytest.raises(ValueError, match="hold"):
        clip_length(10, hold=1.0)


def test_a_clip_starts_at_the_source_image_whatever_the_launch(canvas_and_world, frames):
    canvas, world = canvas_and_world
    other = list(frames_of_clip(canvas, trajectory(world, 40, 16, -0.02), 16))
    assert len(frames) == len(other) == 49
    image = source_image(canvas, world)
    assert np.array_equal(frames[0], image)
    assert np.array_equal(other[0], image)
    assert np.array_equal(image, canvas.traced(nominal_state(world), 0))
    assert not np.array_equal(frames[-1], other[-1])
    assert all(np.array_equal(frame, frames[29]) for frame in frames[29:])


def test_memory_stays_flat_in_clip_length(canvas_and_world, tmp_path):
    """Drawing, encoding and reading back 600 frames take no more than 60 do, to within twenty frames' pixels."""
    canvas, world = canvas_and_world
    peaks = []
    for count in (60, 60, 600):  # the first time modules and tables are loaded
        recorded, path = trajectory(world, count, 16, 0.001), tmp_path / "clip.mp4"
        tracemalloc.start()
        assert write_clip(path, frames_of_clip(canvas, recorded, 16), 16) == sum(1 for _ in read_clip(path)) >= count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 20 * canvas.background.nbytes


def test_another_rate_than_recorded_is_refused(canvas_and_world):
    canvas, world = canvas_and_world
    recorded = trajectory(world, 30, 16, 0.02)
    with pytest.raises(ValueError, match="not recorded at 24"):
        list(frames_of_clip(canvas, recorded, 24))
    # frames fall on the nearest integration step, the last one wherever rest was found
    nudged = dataclasses.replace(recorded, time=recorded.time + np.r_[0, np.full(28, 0.008), -0.02])
    assert len(list(frames_of_clip(canvas, nudged, 16))) == 49


def test_evenly_spaced_has_both_ends():
    assert evenly_spaced(range(49), 8) == [0, 7, 14, 21, 27, 34, 41, 48]
    assert evenly_spaced(range(5), 8) == [0, 1, 2, 3, 4]
    assert evenly_spaced(range(5), 1) == [4]
    for n in range(8, 60):
        chosen = evenly_spaced(range(n), 8)
        gaps = np.diff(chosen)
        assert chosen[0] == 0 and chosen[-1] == n - 1 and np.ptp(gaps) <= 1


def test_a_contact_sheet_lays_pictures_in_rows(frames):
    sheet = contact_sheet(frames[:5], 3, gap=4)
    assert sheet.shape == (2 * 64 + 3 * 4, 3 * 96 + 4 * 4, 3)
    assert np.array_equal(sheet[4:68, 104:200], frames[1])
    assert np.array_equal(sheet[72:136, 4:100], frames[3])
    assert contact_sheet(frames[:5], 3, [f"clip {k}" for k in range(5)]).shape[0] > sheet.shape[0]
    with pytest.raises(ValueError, match="labels"):
        contact_sheet(frames[:5], 3, ["one"])
    with pytest.raises(ValueError, match="one size"):
        contact_sheet([frames[0], frames[0][:10]], 2)


@pytest.mark.parametrize(
    "said",
    [
        "Stream #0:0: Video: h264, yuv420p, 2x2, 0.00000001 fps",
        "x\n  Stream #0:0: Video: h264, yuv420p, 2x2, 1.2.3 fps",
        "x\r  Stream #0:0(und): Video: mpeg4, gray, 64x64, 5 fps,",
    ],
)
def test_what_a_clip_says_of_itself_is_not_what_it_is(tmp_path, frames, said):
    """A title, a comment and a language that read like the decoder's own line about the stream."""
    write_clip(tmp_path / "plain.mp4", frames, 16)
    told = [word for name in ("title", "comment") for word in ("-metadata", f"{name}={said}")]
    for suffix, language in ((".mp4", "eng"), (".mkv", f"e): Video: h264, 2x2, 1 fps, {said[:40]}")):
        path = tmp_path / f"titled{suffix}"
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", tmp_path / "plain.mp4", "-c", "copy", *told]
        subprocess.run([*command, "-metadata:s:v:0", f"language={language}", path], check=True)
        found, real = clip_info(path), clip_info(tmp_path / "plain.mp4")
        assert (found.width, found.height, found.frames) == (real.width, real.height, real.frames)
        assert (found.codec, found.pixel_format, found.fps) == (real.codec, real.pixel_format, 16.0)


def test_a_rate_that_no_clip_has_is_refused(tmp_path, frames):
    write_clip(tmp_path / "plain.mp4", frames, 16)
    slow = ["-v", "error", "-itsscale", "1600", "-i", tmp_path / "plain.mp4", "-c", "copy", tmp_path / "slow.mp4"]
    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), *slow], check=True)
    with pytest.raises(ClipError, match=r"plays 0\.01 frames a second; a clip may play 0\.1 to 1000"):
        clip_info(tmp_path / "slow.mp4")
