"""Judges read pixels and nothing else: whatever the file is called, and not where there is nothing to read."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess

import cv2
import imageio_ffmpeg
import numpy as np
import pytest
from numpy.random import Generator, Philox
from scipy.special import expit

from refcheck import clips
from refcheck.command import UserError
from refcheck.controls import disguise
from refcheck.judges import Failure, features, read_all, trained
from refcheck.judges.state import StateJudge
from refcheck.judges.trained import TrainedJudge
from scenes.load import load_scene
from simulators.video import ClipError, read_clip, write_clip

# Sides that a picture shows, and a gap of two balls between them.
WIDE = (
    "scene.device.random.release_x={dist: norm, loc: 0.0, scale: 30e-3}",
    "scene.device.dead_zone=10e-3",
    "scene.camera.width=416",
    "scene.camera.height=240",
)


@pytest.fixture
def scene(toy_conf):
    return load_scene("toy/wedge", WIDE)


@pytest.fixture
def judge(scene):
    return TrainedJudge.train(scene, 0, 16)


@pytest.fixture
def made(scene, tmp_path):
    """Six clips of the toy, three of either side, and their truth."""
    rollouts = clips.search(scene, 1, [3, 3], limit=64)
    listed = clips.render_clips(scene, 1, rollouts, tmp_path)
    return [tmp_path / clip.file for clip in listed], [clip.outcome for clip in listed]


def test_the_trained_judge_reads_what_happened(judge, made):
    paths, truth = made
    readings = [judge.read(path) for path in paths]
    assert [reading.outcome for reading in readings] == truth
    assert all(0.9 <= reading.confidence <= 1.0 and reading.latency > 0 for reading in readings)
    assert judge.training.features == "place" and judge.training.examples == {"left": 16, "right": 16}


def test_a_name_and_metadata_say_nothing(judge, made, tmp_path):
    """The same frames under a random name, encoded anew; then every file under the name of one of the other side."""
    paths, truth = made
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    copies = disguise(paths, hidden, 16.0, None, lambda count: None)
    assert all(copy.stem not in {path.stem for path in paths} and len(copy.stem) == 32 for copy in copies)
    assert len({copy.stem for copy in copies}) == len(copies)
    assert [judge.read(copy).outcome for copy in copies] == truth
    left, right = paths[truth.index("left")], paths[truth.index("right")]
    shutil.copy(left, tmp_path / "kept.mp4")
    shutil.copy(right, left)
    shutil.copy(tmp_path / "kept.mp4", right)
    assert (judge.read(left).outcome, judge.read(right).outcome) == ("right", "left")


def test_a_control_is_encoded_anew_and_metadata_stays_behind(made, tmp_path):
    """The answer in the container's title and as a trailing box: neither is in the copy, and the pictures are."""
    paths, _ = made
    told, hidden = tmp_path / "told.mp4", tmp_path / "hidden"
    hidden.mkdir()
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-i",
        paths[0],
        "-c",
        "copy",
        "-metadata",
        "title=ended-left",
        told,
    ]
    subprocess.run(command, check=True)
    box = b"ended-left-too"
    told.write_bytes(told.read_bytes() + (8 + len(box)).to_bytes(4, "big") + b"free" + box)
    assert told.read_bytes().count(b"ended-left") == 2
    (copy,) = disguise([told], hidden, 16.0, None, lambda count: None)
    assert b"ended-left" not in copy.read_bytes() and copy.read_bytes() != paths[0].read_bytes()
    before, after = (np.stack(list(read_clip(path))).astype(int) for path in (paths[0], copy))
    assert before.shape == after.shape and 0.0 < np.mean(np.abs(before - after)) < 2.0


def test_a_picture_unlike_anything_learned_is_unreadable(judge, scene, tmp_path):
    noise = Generator(Philox(0)).integers(0, 6, (240, 416, 3)).astype(np.uint8)
    source = clips.source_of(scene)
    empty = judge.stage.empty  # the thing that should lie there is hidden
    for number, frame in enumerate((noise + 120, 255 - source, np.maximum(empty, noise))):
        write_clip(tmp_path / f"{number}.mp4", [source] * 4 + [frame] * 4, 16.0)
        reading = judge.read(tmp_path / f"{number}.mp4")
        assert (reading.outcome, reading.null) == (None, "unreadable")


def test_below_the_threshold_the_judge_abstains_and_says_how_sure_it_was(judge, made):
    paths, _ = made
    sure = judge.read(paths[0]).confidence
    strict = dataclasses.replace(judge, threshold=np.nextafter(sure, 1.0))
    reading = strict.read(paths[0])
    assert (reading.outcome, reading.null, reading.confidence) == (None, "unreadable", sure)


def test_a_damaged_file_is_a_failure_and_no_reading(judge, made, tmp_path):
    paths, truth = made
    paths[1].write_bytes(paths[1].read_bytes()[:2000])
    (tmp_path / "text.mp4").write_text("left")
    with pytest.raises(ClipError):
        judge.read(paths[1])
    said = read_all(judge, [*paths[:2], tmp_path / "text.mp4", tmp_path / "none.mp4"])
    assert said[0].outcome == truth[0]
    assert all(isinstance(one, Failure) and one.reason for one in said[1:])


def test_a_camera_a_little_off_is_registered():
    """A board's picture moved by (14, 10) pixels, and one at half the size, come back to within the codec's noise."""
    source = clips.source_of(load_scene("calibench/galton_board"))
    moved = np.pad(source, ((10, 0), (14, 0), (0, 0)), mode="edge")[:480, :832]
    small = cv2.resize(source, (416, 240), interpolation=cv2.INTER_AREA)
    for changed in (moved, small):
        back = features.register(changed, source)
        apart = np.abs(back[20:-20, 20:-20].astype(int) - source[20:-20, 20:-20])
        assert back.shape == source.shape and np.mean(apart) < 2.0


def test_registration_finds_a_known_shift_and_invents_none():
    draws = Generator(Philox(1))
    source = np.kron(draws.integers(0, 255, (24, 40, 3)), np.ones((10, 10, 1))).astype(np.uint8)
    moved = np.roll(source, (-6, 9), (0, 1))
    back = features.register(moved, source)
    assert np.mean(np.abs(back[20:-20, 20:-20].astype(int) - source[20:-20, 20:-20])) < 1.0
    other = draws.integers(0, 255, source.shape).astype(np.uint8)
    assert np.array_equal(features.register(other, source), other)


def test_the_same_seed_gives_the_same_judge(scene, made):
    paths, _ = made
    one, two = (TrainedJudge.train(scene, 4, 8) for _ in range(2))
    assert [one.read(path).confidence for path in paths] == [two.read(path).confidence for path in paths]


def test_training_never_meets_a_rollout_that_may_be_judged(scene, monkeypatch):
    streams = []
    search = clips.search

    def spy(*arguments, **named):
        streams.append(named["stream"])
        return search(*arguments, **named)

    monkeypatch.setattr(trained, "search", spy)
    TrainedJudge.train(scene, 0, 8)
    assert streams == ["toy/wedge/training"] and scene.stream == "toy/wedge"


def test_too_few_examples_are_told(toy_conf):
    one_sided = load_scene("toy/wedge", ["scene.device.random.release_x={dist: norm, loc: 50e-3, scale: 1e-3}"])
    with pytest.raises(UserError, match="left: 0, right: 8"):
        TrainedJudge.train(one_sided, 0, 8, limit=64)


def test_calibration_recovers_a_known_curve():
    """Rightness drawn with probability expit(3 m - 1): slope and offset within four standard errors (false alarm 1e-4)."""
    draws = Generator(Philox(2))
    margins = draws.uniform(0.0, 2.0, 20_000)
    right = draws.uniform(size=margins.size) < expit(3.0 * margins - 1.0)
    slope, offset = trained._calibrate(margins, right)
    p = expit(3.0 * margins - 1.0)
    design = np.stack([margins, np.ones_like(margins)])
    error = np.sqrt(np.diag(np.linalg.inv((design * p * (1 - p)) @ design.T)))
    assert abs(slope - 3.0) < 4 * error[0] and abs(offset + 1.0) < 4 * error[1]


def test_no_error_among_the_examples_is_still_no_certainty():
    slope, offset = trained._calibrate(np.linspace(0.5, 1.0, 30), np.ones(30, bool))
    assert np.all(expit(slope * np.linspace(0.5, 1.0, 30) + offset) < 0.99)


def test_the_state_judge_knows_its_clips_by_their_bytes_alone(made, tmp_path):
    paths, truth = made
    judge = StateJudge.sealed(paths, truth)
    shutil.copy(paths[0], tmp_path / "other-name.mp4")
    assert judge.read(tmp_path / "other-name.mp4").outcome == truth[0]
    (tmp_path / "new.mp4").write_bytes(b"0")
    with pytest.raises(ClipError, match="sealed"):
        judge.read(tmp_path / "new.mp4")
    with pytest.raises(ValueError, match="equals another clip"):
        StateJudge.sealed([paths[0], tmp_path / "other-name.mp4"], ["left", "right"])


@pytest.mark.slow
def test_dice_are_read_and_shuffled_labels_are_not():
    """240 dice held out: at least .95 of the answered right; trained on shuffled labels the share is within chance.

    A judge right with probability .98 fails the first at 200 answers with probability .01. Chance: 1/6 +- 4 standard
    errors, which a judge at chance leaves with probability 1e-4.
    """
    scene = load_scene("calibench/dice")
    learned = clips.search(scene, 0, [60] * 6, limit=4000, stream=scene.stream + trained.TRAINING)
    held_out = clips.search(scene, 0, [40] * 6, limit=4000)
    source = clips.source_of(scene)
    stage, looks = trained._looks(scene, learned, source, None)
    tested = [look for part in _seen(scene, held_out, source, stage) for look in part]
    labels, truth = scene.outcome(learned.fact).astype(np.int64), scene.outcome(held_out.fact)
    judge = TrainedJudge.fit(scene.outcomes, labels, looks, source, stage, Generator(Philox(0)))
    answers, margins = trained._decide(judge.features, judge.model, tested)
    answered = expit(judge.slope * margins + judge.offset) >= judge.threshold
    assert answered.mean() > 0.75
    assert np.mean((answers == truth)[answered]) >= 0.95
    mixed = Generator(Philox(5)).permutation(labels)
    blind = TrainedJudge.fit(scene.outcomes, mixed, looks, source, stage, Generator(Philox(0)))
    share = np.mean(trained._decide(blind.features, blind.model, tested)[0] == truth)
    assert abs(share - 1 / 6) < 4 * np.sqrt(5 / 36 / len(truth))


def _seen(scene, rollouts, source, stage):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as name:
        for at in range(0, len(rollouts), 40):
            path = Path(name) / f"{at}.mp4"
            trained._draw(trained._Draw(scene, rollouts.end[slice(at, at + 40)], path))
            yield trained._see(trained._See(path, source, stage))
