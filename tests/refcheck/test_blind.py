"""The blind door: nothing but pixels goes out, and what comes back is opened by the key and by nothing else."""

from __future__ import annotations

import json
import subprocess

import imageio_ffmpeg
import numpy as np
import pytest

from refcheck import app, blind, control_judges
from refcheck.blind import Control
from refcheck.command import UserError
from refcheck.control_clips import Recipe, Wish, make
from refcheck.filming import Film
from scenes.load import load_scene
from simulators.engines.loop import run
from simulators.video import ClipError, read_clip, write_clip

SMALL = ("scene.camera.width=208", "scene.camera.height=120")


@pytest.fixture
def made(toy_conf, tmp_path):
    """Six clips of the toy, drawn once."""
    scene = load_scene("toy/wedge", SMALL)
    rollouts = run(scene.engine, scene.device, 0, scene.stream, range(6))
    wishes = [
        Wish(int(i), (int(f), int(n)), scene.outcomes[int(scene.outcome(f))])
        for i, f, n in zip(rollouts.index, rollouts.fact, rollouts.null, strict=True)
    ]
    controls, _ = make(scene, 0, wishes, tmp_path / "made", Recipe(Film(fps=4.0, frames=6)))
    return scene, controls


def test_names_order_and_metadata_tell_nothing(made, tmp_path):
    scene, controls = made
    orders = set()
    for number in range(4):
        folder = tmp_path / f"blind{number}"
        key = blind.export([scene], controls, folder, "pawbench")
        found = sorted(path for path in folder.rglob("*.mp4"))
        assert [path.name for path in found] == [f"r{k:03d}.mp4" for k in range(6)]
        assert {path.stat().st_mtime for path in found} == {blind.EPOCH}
        orders.add(tuple(clip.index for clip in key.clips))
    assert len(orders) > 1, "the order is nobody's seed: four alike of 720 come once in 3e8 runs"
    told = subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-i", found[0]], capture_output=True).stderr.decode()
    assert "comment" not in told and "creation_time" not in told
    text = "".join(path.read_text("utf-8") for path in folder.rglob("*") if path.suffix in (".json", ".jsonl", ".txt"))
    assert '"truth"' not in text and not any(control.path.name in text for control in controls)


def test_the_key_stays_outside_and_is_sealed(made, tmp_path):
    scene, controls = made
    key = blind.export([scene], controls, tmp_path / "b", "pawbench")
    with pytest.raises(UserError, match="whoever is given the clips would be given the truth"):
        blind.seal(key, tmp_path / "b", tmp_path / "b" / "clips" / "key.json")
    digest = blind.seal(key, tmp_path / "b", tmp_path / "key.json")
    assert digest in (tmp_path / "b" / blind.SEAL).read_text()
    assert blind.read_key(tmp_path / "key.json") == key
    with pytest.raises(UserError, match="is there already, and opens other clips"):
        blind.seal(key, tmp_path / "b", tmp_path / "key.json")
    with pytest.raises(UserError, match="is not empty"):
        blind.export([scene], controls, tmp_path / "b", "pawbench")


def test_our_own_evaluate_reads_what_goes_out(made, tmp_path):
    """PAWBench's layout: the package's reader and the slots' finder take it as it is."""
    from refcheck.evaluate_data import find_clips, package_targets
    from refcheck.policy import Rules

    scene, controls = made
    blind.export([scene], controls, tmp_path / "b", "pawbench")
    targets = package_targets(tmp_path / "b" / "package", Rules(repeats=6, partial=True))
    slots, ignored = find_clips(tmp_path / "b" / "clips", targets)
    assert [slot.repeat for slot in slots if slot.path is not None] == list(range(6)) and ignored == []
    assert targets[0].item.outcomes == scene.outcomes


def test_a_lost_frame_and_a_rollout_used_twice_do_not_go_out(made, tmp_path):
    scene, controls = made
    frames = list(read_clip(controls[0].path))
    write_clip(tmp_path / "short.mp4", frames[:-1], 4.0)
    short = [*controls[1:], Control(tmp_path / "short.mp4", scene.id, 0, "left", 4.0, len(frames))]
    with pytest.raises(ValueError, match=f"holds {len(frames) - 1} frames, and {len(frames)} were drawn"):
        blind.export([scene], short, tmp_path / "b", "pawbench")
    with pytest.raises(ValueError, match="are in the set twice"):
        blind.export([scene], [*controls, controls[0]], tmp_path / "c", "pawbench")


def test_a_folder_that_was_changed_is_known(made, tmp_path):
    scene, controls = made
    key = blind.export([scene], controls, tmp_path / "b", "pawbench")
    assert blind.check_folder(tmp_path / "b", key) == []
    paths = [blind.path_of(tmp_path / "b", "wedge", k) for k in range(3)]
    frames = list(read_clip(paths[0]))
    write_clip(paths[0], frames[:-1], 4.0)
    write_clip(paths[1], list(read_clip(paths[1])), 4.0, 40)
    paths[2].unlink()
    told = blind.check_folder(tmp_path / "b", key)
    assert (
        len(told) == 3 and "wedge/r000 holds" in told[0] and "r001 is not the file" in told[1] and "r002 is missing" in told[2]
    )


def rows_of(key, said):
    """Return PAWBench's rows of a stack that says `said(clip)`: a label, or None."""
    rows = []
    for clip in key.clips:
        label = said(clip)
        source = f"m::{clip.scene}::r{clip.repeat:03d}"
        row = {"sample_id": source + "::0", "source_sample_id": source, "scene_id": clip.scene, "track": "calibration"}
        row |= {"model_or_lane": "m", "repeat_index": clip.repeat}
        row |= {"observation": "null_observation"} if label is None else {"observation": "outcome", "outcome_label": label}
        rows.append(row)
    return rows


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_and_bins_of_any_stack_are_opened_alike(made, tmp_path):
    scene, controls = made
    key = blind.export([scene], controls, tmp_path / "b", "pawbench")
    truth = [clip.truth for clip in key.clips]
    rows = write_rows(tmp_path / "rows.jsonl", rows_of(key, lambda clip: clip.truth if clip.repeat else None))
    opened = blind.open_sealed(rows, key)
    assert [one.reading for one in opened] == [None, *truth[1:]] and opened[0].null == "unread"
    assert [one.sealed.truth for one in opened] == truth
    ball = key.model_copy(update={"scenes": {"ball": key.scenes["wedge"]}})
    ball = ball.model_copy(update={"clips": [clip.model_copy(update={"scene": "ball"}) for clip in key.clips]})
    bins = [{"seed": clip.repeat, "bin": ["left", "right"].index(clip.truth) + 1} for clip in key.clips]
    told = {"scene": "ball", "model": "m", "num_bins": 2, "rollouts": bins}
    (tmp_path / "ball_m_bins.json").write_text(json.dumps(told))
    assert [one.reading for one in blind.open_sealed(tmp_path / "ball_m_bins.json", ball)] == truth


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda rows: rows[:-1], None),
        (lambda rows: [*rows, rows[0]], "is read twice"),
        (lambda rows: [{**rows[0], "outcome_label": "mauve"}, *rows[1:]], "is read as 'mauve', which is none of left, right"),
        (lambda rows: [{**rows[0], "repeat_index": 77}, *rows[1:]], "repeat 77: the key does not know it"),
        (lambda rows: [{**rows[0], "model_or_lane": "n"}, *rows[1:]], "readings under 2 names"),
    ],
)
def test_readings_that_do_not_fit_are_refused_and_missing_ones_are_no_answers(made, tmp_path, change, part):
    scene, controls = made
    key = blind.export([scene], controls, tmp_path / "b", "pawbench")
    rows = write_rows(tmp_path / "rows.jsonl", change(rows_of(key, lambda clip: clip.truth)))
    if part is not None:
        with pytest.raises(UserError, match=part):
            blind.open_sealed(rows, key)
        return
    opened = blind.open_sealed(rows, key)
    assert [one.failure for one in opened] == [None] * 5 + ["no reading of this clip came back"]


def test_out_and_in_from_the_command_line(toy_conf, tmp_path, capsys):
    words = ["controls", "scene=toy/wedge", *SMALL, "k=6", "workers=1", "seed=2"]
    assert app.main([*words, f"blind={tmp_path / 'b'}", f"out={tmp_path / 'o'}"]) == 0
    key_path = tmp_path / "b.key.json"
    key = blind.read_key(key_path)
    scene = load_scene("toy/wedge", SMALL)
    side = np.where(run(scene.engine, scene.device, 2, scene.stream, range(1024)).fact == 0, *scene.outcomes)
    assert [clip.truth for clip in key.clips] == [side[clip.index] for clip in key.clips]
    wrong = {"left": "right", "right": "left"}
    rows = write_rows(tmp_path / "rows.jsonl", rows_of(key, lambda clip: wrong[clip.truth]))
    assert app.main(["controls", f"read={rows}", f"key={key_path}", f"out={tmp_path / 'r'}"]) == 0
    row = json.loads((tmp_path / "r" / "result.json").read_text())["scenes"][0]
    assert np.trace(np.array(row["confusion"])[:, :2]) == 0 and row["accuracy"] == 0.0 and not row["report"]["usable"]
    assert "right in 0 of 6 answers" in capsys.readouterr().out


def test_nobody_can_make_the_clips_again_without_the_key(toy_conf, tmp_path, capsys):
    """Were the seed a default, the same command would give the same bytes with a key of one's own."""
    words = ["controls", "scene=toy/wedge", *SMALL, "k=3", "workers=1"]
    for name in "ab":
        assert app.main([*words, f"blind={tmp_path / name}", f"out={tmp_path / 'o' / name}"]) == 0
    keys = [blind.read_key(tmp_path / f"{name}.key.json") for name in "ab"]
    assert keys[0].seed != keys[1].seed, "64 bits drawn alike come once in 2e19 runs"
    written = "".join(p.read_text() for root in "abo" for p in (tmp_path / root).rglob("*.json*"))
    assert not any(str(key.seed) in written for key in keys)
    assert "whoever knows or guesses it" not in capsys.readouterr().out
    assert app.main([*words, f"blind={tmp_path / 'c'}", f"seed={keys[0].seed}"]) == 0
    again = blind.read_key(tmp_path / "c.key.json")
    assert {c.index for c in again.clips} == {c.index for c in keys[0].clips}
    assert "whoever knows or guesses it can make these clips again" in capsys.readouterr().out.replace("\n", " ")


def test_a_result_never_lies_with_the_clips(toy_conf, tmp_path, capsys):
    words = ["controls", "scene=toy/wedge", *SMALL, "k=2", "workers=1", f"blind={tmp_path / 'b'}"]
    assert app.main([*words, f"out={tmp_path / 'b' / 'in'}"]) == 2 and not (tmp_path / "b").exists()
    assert app.main(words) == 0
    (tmp_path / "other").symlink_to(tmp_path / "b")
    rows = write_rows(tmp_path / "rows.jsonl", rows_of(blind.read_key(tmp_path / "b.key.json"), lambda clip: clip.truth))
    capsys.readouterr()
    for out in ("b", "b/clips", "other"):
        assert app.main(["controls", f"read={rows}", f"key={tmp_path / 'b.key.json'}", f"out={tmp_path / out}"]) == 2
        assert "lies in the blind folder" in capsys.readouterr().err
    assert not list(tmp_path.rglob("result.json"))


def test_what_is_stopped_leaves_no_clips_without_a_key(toy_conf, tmp_path, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    words = ["controls", "scene=toy/wedge", *SMALL, "k=2", "workers=1", f"blind={tmp_path / 'b'}"]
    with monkeypatch.context() as patch:
        patch.setattr(blind, "_write_scenes", stop)
        assert app.main(words) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["conf"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "empty")
    assert app.main(words) == 0
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == ["clips", "package", "seal.txt"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("read=rows.jsonl",), "key= is missing"),
        (("key=k.json", "scene=toy/wedge"), "key= goes with blind="),
        (("read=r", "key=k", "suite=smoke"), "each is a run of its own"),
        (("read=r", "key=k", "k=3", "judge=state", "scene=toy/wedge"), "leave k=, judge=, scene= out"),
        (("scenes=toy/*",), "scene= is missing"),
        (("scene=toy/wedge", "blind=b", "key=b/k.json"), "would be given the truth"),
        (("scene=toy/wedge", "blind=b", "layout=calibench"), "layout=calibench is for CaliBench's own scenes"),
        (("scene=toy/wedge", "blind=conf/config.yaml", "key=k.json"), "is a file: give a new folder"),
        (("scene=toy/wedge", "judge=vlm"), "model= is missing"),
    ],
)
def test_mistakes_at_the_door(toy_conf, tmp_path, monkeypatch, capsys, words, part):
    monkeypatch.chdir(tmp_path)
    assert app.main(["controls", *words, "workers=1"]) == 2
    assert part in capsys.readouterr().err


def test_a_folder_in_use_is_refused_before_any_work(toy_conf, tmp_path, monkeypatch, capsys):
    from refcheck import control_run

    monkeypatch.setattr(control_run, "plan", None)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("mine")
    assert app.main(["controls", "scene=toy/wedge", f"blind={tmp_path / 'b'}", "workers=1"]) == 2
    assert "is not empty" in capsys.readouterr().err and (tmp_path / "b" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda lines: [{**lines[0], "video_fingerprint": "0" * 64}, *lines[1:]], "was not read off the clip that was sealed"),
        (lambda lines: [{**lines[0], "scene_id": "zzz"}, *lines[1:]], "its row is of 'wedge'"),
        (lambda lines: [*lines, lines[0]], "holds a second reading"),
        (lambda lines: [*lines, {**lines[0], "settings": "another"}], "holds a reading by another judge"),
        (
            lambda lines: [{**lines[0], "row": {**lines[0]["row"], "outcome_label": None}}, *lines[1:]],
            "outcomes alone have one",
        ),
        (lambda lines: [{**lines[0], "reading": {"votes": 5}}, *lines[1:]], "reading.votes"),
    ],
)
def test_a_checkpoint_that_comes_back_is_not_trusted(made, tmp_path, change, part):
    scene, controls = made
    key = blind.export([scene], controls, tmp_path / "b", "pawbench")
    entries = control_judges.ask(control_judges.Oracle.of(key), key, tmp_path / "b", None, 1, lambda count: None)
    control_judges.write_readings(tmp_path / "readings", entries)
    path = tmp_path / "readings" / "checkpoint.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    blind.open_sealed(tmp_path / "readings", key)
    write_rows(path, change(lines))
    with pytest.raises(UserError, match=part):
        blind.open_sealed(tmp_path / "readings", key)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda key: key["scenes"]["wedge"].update(q=[1.0]), "q must be a share of each of 2 outcomes"),
        (lambda key: key["scenes"]["wedge"].update(q=[2.0, -1.0]), "q must be a share"),
        (lambda key: key["scenes"]["wedge"].update(q=[0.1, 0.1]), "q must sum to 1"),
        (lambda key: key["scenes"]["wedge"].update(outcomes=["left", "left"], q=None), "an outcome is listed twice"),
        (lambda key: key["scenes"]["wedge"].update(id="toy/\x1b[31mX"), "'toy/\\\\x1b[31mX' must be"),
        (lambda key: key["scenes"]["wedge"].update(set="zz"), "set 'zz' is none of"),
        (lambda key: key["scenes"].update(other=key["scenes"]["wedge"]), "scene 'other': has no clip"),
        (lambda key: key["clips"].append(key["clips"][0]), "slot 'wedge repeat 0' is listed twice"),
        (lambda key: [clip.update(index=7) for clip in key["clips"]], "rollout '7 of wedge' is listed twice"),
        (lambda key: key["clips"][0].update(kind="<b>"), "kind '<b>' is no way of damage"),
        (lambda key: key["clips"][0].update(truth=None), "do not go with kind ''"),
        (lambda key: key["clips"][0].update(null="unreadable"), "do not go with kind ''"),
        (lambda key: key["clips"][0].update(axis="zz"), "axis 'zz' does not go with kind"),
        (lambda key: key["clips"][0].update(truth="mauve"), "truth 'mauve' is none of"),
        (lambda key: key.update(clips=[]), "clips: List should have at least 1 item"),
    ],
)
def test_a_key_that_none_can_be_is_refused(made, tmp_path, change, part):
    scene, controls = made
    blind.seal(blind.export([scene], controls, tmp_path / "b", "pawbench"), tmp_path / "b", tmp_path / "key.json")
    key = json.loads((tmp_path / "key.json").read_text())
    change(key)
    (tmp_path / "wrong.json").write_text(json.dumps(key))
    with pytest.raises(UserError, match=part.replace("[", "\\[")):
        blind.read_key(tmp_path / "wrong.json")


def test_truths_changed_since_are_known_by_the_seal(made, tmp_path, capsys):
    scene, controls = made
    key = blind.export([scene], controls, tmp_path / "b", "pawbench")
    blind.seal(key, tmp_path / "b", tmp_path / "key.json")
    rows = write_rows(tmp_path / "rows.jsonl", rows_of(key, lambda clip: clip.truth))
    words = ["controls", f"read={rows}", f"blind={tmp_path / 'b'}"]
    assert app.main([*words, f"key={tmp_path / 'key.json'}"]) == 0
    assert "Seal and clips are as they went out" in capsys.readouterr().out
    text = (tmp_path / "key.json").read_text()
    flipped = text.replace('"truth": "left"', '"truth": "x"').replace('"truth": "right"', '"truth": "left"')
    (tmp_path / "flipped.json").write_text(flipped.replace('"truth": "x"', '"truth": "right"'))
    assert app.main([*words, f"key={tmp_path / 'flipped.json'}"]) == 2
    assert "was changed since" in capsys.readouterr().err
    assert app.main([*words[:2], f"key={tmp_path / 'flipped.json'}"]) == 2  # without the folder, by the key's own seal
    assert "its own `seal` is of other content" in capsys.readouterr().err
    blind.path_of(tmp_path / "b", "wedge", 0).write_bytes(b"no clip")
    blind.path_of(tmp_path / "b", "wedge", 1).unlink()
    assert app.main([*words, f"key={tmp_path / 'key.json'}"]) == 2
    told = capsys.readouterr().err
    assert "r000" in told and "wedge/r001 is missing" in told


def test_everything_wrong_with_readings_is_told_at_once(made, tmp_path, capsys):
    scene, controls = made
    blind.seal(blind.export([scene], controls, tmp_path / "b", "pawbench"), tmp_path / "b", tmp_path / "key.json")
    rows = rows_of(blind.read_key(tmp_path / "key.json"), lambda clip: clip.truth)
    rows[0]["repeat_index"], rows[1]["outcome_label"], rows[2]["scene_id"] = 77, "mauve", "\x1b[31mX"
    read = write_rows(tmp_path / "rows.jsonl", rows)
    assert app.main(["controls", f"read={read}", f"key={tmp_path / 'key.json'}"]) == 2
    told = capsys.readouterr().err
    assert "repeat 77" in told and "'mauve'" in told and "\\x1b[31mX" in told and "\x1b" not in told
    assert app.main(["controls", "read=nope", "key=nope2"]) == 2
    told = capsys.readouterr().err
    assert "read=nope:" in told and "key=nope2:" in told


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("judge=ensemble", "of=state,noisy", "confusion=c.json", "weights=nope"), "nope/state: there is no such file"),
        (("judge=noisy", "confusion=nope.json"), "nope.json: there is no such file"),
        (("judge=vlm", "model=eye", "api_key_env=NO_SUCH_KEY"), "NO_SUCH_KEY holds no key"),
    ],
)
def test_what_a_judge_needs_is_looked_for_before_anything_is_drawn(toy_conf, tmp_path, monkeypatch, capsys, words, part):
    from refcheck import control_run

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(control_run, "plan", None)
    (tmp_path / "c.json").write_text('{"wedge": {}}')
    assert app.main(["controls", "scene=toy/wedge", *SMALL, *words, "k=2", "workers=1"]) == 2
    assert part in capsys.readouterr().err


def test_the_oracle_is_never_wrong_and_knows_no_other_clip(made, tmp_path):
    scene, controls = made
    hidden = [*controls[:5], Control(controls[5].path, scene.id, 5, None, 4.0, controls[5].frames, "out_of_schema", "stuck")]
    key = blind.export([scene], hidden, tmp_path / "b", "calibench")
    oracle = control_judges.Oracle.of(key)
    entries = control_judges.ask(oracle, key, tmp_path / "b", None, 1, lambda count: None)
    control_judges.write_readings(tmp_path / "readings", entries)
    opened = blind.open_sealed(tmp_path / "readings", key)
    assert [(one.reading, one.null) for one in opened] == [(c.truth, c.null) for c in key.clips]
    assert sum(one.null == "out_of_schema" for one in opened) == 1
    with pytest.raises(ClipError, match="none of the clips"):
        oracle.read(controls[0].path)
