"""Clips of chosen rollouts, and controls: physics fills every label, and what cannot be judged is never an answer."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
import scipy.stats
from numpy.random import Generator, Philox
from PIL import Image

from refcheck import app, clips, control_judges, control_sets, metrics, render
from refcheck.command import UserError
from scenes.load import load_scene
from simulators.engines.loop import run
from simulators.execute import InfrastructureError
from simulators.sampling import launch_block
from simulators.video import clip_info, read_clip, write_clip

SMALL = ("scene.camera.width=208", "scene.camera.height=120")
WIDE = ("scene.device.random.release_x={dist: norm, loc: 0.0, scale: 30e-3}", *SMALL)
CLEAR = ("scene.camera.width=416", "scene.camera.height=240", "scene.device.dead_zone=10e-3")  # what a judge can see


def sides(scene, seed, count=1024):
    """Return the side of each launch, from the launches themselves."""
    launch = launch_block(scene.device.random, seed, scene.stream, 0)["release_x"][:count]
    return np.where(launch > 0, "right", "left")


def test_search_takes_the_first_of_each_outcome(toy_conf):
    scene = load_scene("toy/wedge")
    side = sides(scene, 3)
    found = clips.search(scene, 3, [5, 40], limit=1024)
    wanted = sorted([*np.flatnonzero(side == "left")[:5], *np.flatnonzero(side == "right")[:40]])
    assert found.index.tolist() == wanted
    assert [scene.outcomes[o] for o in scene.outcome(found.fact)] == side[wanted].tolist()


def test_an_outcome_that_does_not_come_is_told(toy_conf):
    scene = load_scene("toy/wedge")
    short = clips.search(scene, 0, [2, 60], limit=64)
    with pytest.raises(UserError, match=r"64 rollouts of toy/wedge .* 'right' \(\d+ of 60\)"):
        clips.require_all(scene, short, [2, 60], 64)
    assert np.bincount(scene.outcome(short.fact)).tolist()[0] == 2


def test_a_replay_that_ends_otherwise_is_an_error(toy_conf, tmp_path):
    scene = load_scene("toy/wedge", SMALL)
    found = clips.search(scene, 0, [1, 0], limit=64)
    wrong = dataclasses.replace(found, fact=1 - found.fact)
    with pytest.raises(InfrastructureError, match="ended in left when replayed and in right before"):
        clips.render_clips(scene, 0, wrong, tmp_path)
    assert json.loads((tmp_path / clips.INDEX).read_text())["complete"] is False


def test_the_index_file_says_what_the_clips_are_and_old_ones_go(toy_conf, tmp_path):
    scene = load_scene("toy/wedge", SMALL)
    rollouts = run(scene.engine, scene.device, 7, scene.stream, range(3))
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "mine.mp4").write_text("not yours")
    clips.render_clips(scene, 7, rollouts, tmp_path)
    made = clips.render_clips(scene, 7, rollouts[np.array([2])], tmp_path)
    told = json.loads((tmp_path / clips.INDEX).read_text())
    assert [clip["index"] for clip in told["clips"]] == [2] and told["seed"] == 7 and told["stream"] == scene.stream
    assert sorted(path.name for path in (tmp_path / "clips").iterdir()) == ["00000002.mp4", "mine.mp4"]
    info = clip_info(tmp_path / made[0].file)
    assert (info.frames, info.fps) == (made[0].frames, told["fps"]) == (49, 16.0)


def killed_after(monkeypatch, count):
    """Have the machine go away while a clip is being written, `count` others being done: what a killed process leaves."""
    write, done = clips.write_clip, []

    def cut_short(path, *rest):
        if len(done) == count:
            (path.parent / f".{path.stem}-a1b2_c3d.mp4").write_bytes(b"half")
            raise KeyboardInterrupt
        done.append(path)
        return write(path, *rest)

    monkeypatch.setattr(clips, "write_clip", cut_short)


def test_clips_of_a_run_cut_short_are_no_part_of_the_next(toy_conf, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        killed_after(patch, 5)
        assert app.main(["controls", "scene=toy/wedge", *SMALL, "k=12", "judge=state", "workers=1", f"out={tmp_path}"]) == 130
    told = json.loads((tmp_path / clips.INDEX).read_text())
    assert told["complete"] is False and len(told["clips"]) == 12 and told["clips"][0]["frames"] is None
    left = {path.name for path in (tmp_path / "clips").iterdir()}
    assert left == {"00.mp4", "01.mp4", "02.mp4", "03.mp4", "04.mp4", ".05-a1b2_c3d.mp4"}
    (tmp_path / "clips" / ".mine-a1b2_c3d.mp4").write_text("not yours")
    words = ["controls", "scene=toy/wedge", *SMALL, "k=2", "judge=state", "workers=1", f"out={tmp_path}"]
    assert app.main(words) == 0
    told = json.loads((tmp_path / clips.INDEX).read_text())
    assert told["complete"] is True and [clip["file"] for clip in told["clips"]] == ["clips/0.mp4", "clips/1.mp4"]
    assert {path.name for path in (tmp_path / "clips").iterdir()} == {"0.mp4", "1.mp4", ".mine-a1b2_c3d.mp4"}


@pytest.mark.parametrize("words", [("count=3", "scene=toy/wedge"), ("sheet=true", "scenes=toy/wedge")])
def test_no_old_result_stands_beside_clips_of_a_run_cut_short(toy_conf, tmp_path, monkeypatch, words):
    assert app.main(["render", *words, "workers=1", f"out={tmp_path / 'o'}"]) == 0
    assert (tmp_path / "o" / "result.json").exists()
    killed_after(monkeypatch, 1)
    assert app.main(["render", *words, "workers=1", f"out={tmp_path / 'o'}", "seed=1", "overwrite=true"]) == 130
    assert not {"result.json", "sheet.png", "source.png"} & {path.name for path in (tmp_path / "o").rglob("*")}


def test_a_page_does_not_replace_a_run_in_the_folder_of_a_scene(toy_conf, tmp_path, capsys):
    theirs = tmp_path / "o" / "toy-wedge"
    assert app.main(["render", "scene=toy/wedge", *SMALL, "workers=1", f"out={theirs}"]) == 0
    before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    assert app.main(["render", "scenes=toy/*", "sheet=true", "workers=1", f"out={tmp_path / 'o'}", "overwrite=true"]) == 2
    assert f"{theirs / 'result.json'} is the result of another command" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}


def test_a_clip_that_no_index_explains_is_not_overwritten(toy_conf, tmp_path, monkeypatch, capsys):
    (tmp_path / "clips").mkdir()
    mine = [tmp_path / "clips" / name for name in ("1.mp4", "00000001.mp4", "other.mp4")]
    for path in mine:
        path.write_text("mine")
    (tmp_path / "result.json").write_text("{}")
    monkeypatch.setattr(clips, "search", None)  # refused before any work
    for verb, clip in (("controls", "1.mp4"), ("render", "00000001.mp4")):
        count = "k=2" if verb == "controls" else "count=2"
        assert app.main([verb, "scene=toy/wedge", count, "workers=1", f"out={tmp_path}", "overwrite=true"]) == 2
        assert f"clips/{clip} would be overwritten" in capsys.readouterr().err
    assert all(path.read_text() == "mine" for path in mine) and (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": "quincunx.clips/v1", "clips": [{"file": "clips/.."}]}',
        '{"schema": "quincunx.clips/v1", "clips": [{"file": "../mine.mp4"}]}',
        '{"schema": "quincunx.clips/v1", "clips": [{"file": "clips/folder.mp4"}]}',
        '{"schema": "quincunx.clips/v1", "clips": [{"file": 1}]}',
        '{"clips": [{"file": "clips/mine.mp4"}]}',
        "[" * 200_000,
        "{",
    ],
)
def test_an_index_that_is_none_of_ours_is_refused_by_name(toy_conf, tmp_path, capsys, text):
    (tmp_path / "o" / "clips" / "folder.mp4").mkdir(parents=True)
    mine = [tmp_path / "mine.mp4", tmp_path / "o" / "clips" / "mine.mp4"]
    for path in mine:
        path.write_text("mine")
    (tmp_path / "o" / clips.INDEX).write_text(text)
    assert app.main(["render", "scene=toy/wedge", "workers=1", f"out={tmp_path / 'o'}"]) == 2
    err = capsys.readouterr().err
    assert f"{tmp_path / 'o' / 'clips.json'} is no index of clips" in err and "Traceback" not in err
    assert all(path.exists() for path in mine)


def test_render_draws_the_rollouts_asked_for(toy_conf, tmp_path, capsys):
    out = tmp_path / "out"
    status = app.main(["render", "scene=toy/wedge", *WIDE, "outcome=right", "count=2", "seed=3", "workers=1", f"out={out}"])
    assert status == 0 and "00000" in capsys.readouterr().out
    result = json.loads((out / "result.json").read_text())
    scene = load_scene("toy/wedge", WIDE)
    assert [clip["index"] for clip in result["clips"]] == np.flatnonzero(sides(scene, 3) == "right")[:2].tolist()
    source = np.asarray(Image.open(out / "source.png"))
    first, *_, last = read_clip(out / result["clips"][0]["file"])
    assert np.mean(np.abs(first.astype(int) - source)) < 2.0
    darkest = np.abs(last.astype(int) - first).sum(-1)[60:]  # what lies at the bottom was not there at the start
    assert np.median(np.nonzero(darkest > 60)[1]) > 104, "the ball lies on the right"
    assert np.asarray(Image.open(out / "sheet.png")).shape[1] > 8 * 200


def test_render_without_out_goes_to_a_folder_of_its_own(toy_conf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for index in (0, 5):
        assert app.main(["render", "scene=toy/wedge", *SMALL, f"index={index}", "workers=1"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["render-toy-wedge-at-0", "render-toy-wedge-at-5"]


def test_a_page_of_scenes(toy_conf, tmp_path):
    assert app.main(["render", "scenes=toy/*", "sheet=true", "workers=1", f"out={tmp_path / 'p'}"]) == 0
    result = json.loads((tmp_path / "p" / "result.json").read_text())
    assert [[clip["outcome"] for clip in one["clips"]] for one in result["scenes"]] == [["left", "right"]] * 2
    assert [one["missing"] for one in result["scenes"]] == [[], []]
    assert np.asarray(Image.open(tmp_path / "p" / "sheet.png")).shape[1] > 3 * 400


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("scene=toy/wedge", "index=1", "outcome=left"), "both given"),
        (("scene=toy/wedge", "outcome=middle"), "'middle' is none of toy/wedge: it has left, right"),
        (("scene=toy/wedge", "outcome=../../../x"), "'../../../x' is none of toy/wedge"),
        (("scenes=toy/*",), "add sheet=true"),
        (("scene=toy/wedge", "sheet=true", "index=1"), "leave index= and outcome= out"),
    ],
)
def test_mistakes_with_render(toy_conf, tmp_path, capsys, words, part):
    assert app.main(["render", *words, "workers=1", f"out={tmp_path / 'o'}"]) == 2
    assert part in capsys.readouterr().err
    assert not (tmp_path / "o").exists(), "nothing is made for what is refused"


def test_render_without_out_makes_nothing_for_what_is_refused(toy_conf, tmp_path, monkeypatch):
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "below")
    for outcome in ("../../../x", "lefd"):
        assert app.main(["render", "scene=toy/wedge", f"outcome={outcome}", "workers=1"]) == 2
    assert [path.name for path in tmp_path.rglob("*") if tmp_path / "conf" not in (path, *path.parents)] == ["here", "below"]


def test_default_folders_differ_by_what_is_asked_and_are_one_name_each():
    asked = {"sheet": False, "outcome": "tails", "index": None, "count": 1}
    several = [{**asked, **change} for change in ({}, {"count": 2}, {"outcome": None}, {"outcome": None, "count": 2})]
    names = [render.default_out(values, ["toy/wedge"]).as_posix() for values in several]
    start = "out/render-toy-wedge-"
    assert names == [f"{start}tails", f"{start}tails-x2", f"{start}at-0", f"{start}at-0-x2"]
    odd = render.default_out({**asked, "outcome": "../a b\n[/x]é"}, ["toy/wedge"])
    assert odd.parent.as_posix() == "out" and re.fullmatch("[A-Za-z0-9._-]+", odd.name)


def test_labels_wanted_follow_the_reference():
    """Chi-square of 20,000 labels against q; false alarm 1e-4. An outcome of probability 0 is never wanted."""
    q = np.array([0.5, 0.3, 0.2, 0.0])
    counts = np.bincount(control_sets.draw_labels(q, 20_000, Generator(Philox(0))), minlength=4)
    assert counts[3] == 0
    assert scipy.stats.chisquare(counts[:3], 20_000 * q[:3]).pvalue > 1e-4


def test_every_label_gets_a_rollout_that_ended_there_and_none_is_used_twice(toy_conf):
    scene = load_scene("toy/wedge")
    labels = control_sets.draw_labels(scene.q(), 60, Generator(Philox(1)))
    found = clips.search(scene, 2, np.bincount(labels), limit=1024)
    chosen = control_sets.fill(scene, labels, found)
    assert scene.outcome(chosen.fact).tolist() == labels.tolist()
    assert len(set(chosen.index.tolist())) == 60
    assert [scene.outcomes[label] for label in labels] == sides(scene, 2)[chosen.index].tolist()
    with pytest.raises(ValueError, match="fewer rollouts"):
        control_sets.fill(scene, np.append(labels, labels), found)


def run_controls(out, *words):
    own = [] if any(word.startswith("k=") for word in words) else ["k=6"]
    status = app.main(["controls", "scene=toy/wedge", *WIDE, *own, "workers=1", f"out={out}", *words])
    return status, json.loads((out / "result.json").read_text())


def test_the_state_judge_loses_nothing_on_the_way(toy_conf, tmp_path, capsys):
    status, result = run_controls(tmp_path, "judge=state", "seed=4")
    assert status == 0
    assert result["accuracy"] == 1.0 and result["abstained"] == 0.0 and result["infrastructure_failures"] == 0
    counts = result["truth"]["counts"]
    assert result["judged"]["counts"] == counts and sum(counts) == 6
    assert result["confusion"] == [[counts[0], 0, 0], [0, counts[1], 0]]
    assert result["tvd_judged"] == result["tvd_truth"] == pytest.approx(float(metrics.tvd(counts, [0.5, 0.5])))
    assert result["floor"] == pytest.approx(float(metrics.expected_tvd(6, [0.5, 0.5])))
    side = sides(load_scene("toy/wedge", WIDE), 4)
    assert [clip["truth"] for clip in result["clips"]] == [side[clip["index"]] for clip in result["clips"]]
    assert {path.name for path in tmp_path.iterdir()} >= {"result.json", "clips.json", "sheet.png", "source.png", "clips"}


def test_a_scene_without_an_exact_reference_is_refused_before_a_folder_is_made(toy_conf, tmp_path, capsys):
    wedge = toy_conf / "wedge.yaml"
    text, found = re.subn(
        r"(?m)^  q: .*(\n    .*)*", "  interval: {left: ['0.4', '0.6'], right: ['0.4', '0.6']}", wedge.read_text()
    )
    assert found == 1
    wedge.write_text(text)
    status, err = (
        app.main(["controls", "scene=toy/wedge", "k=2", "workers=1", f"out={tmp_path / 'o'}"]),
        capsys.readouterr().err,
    )
    assert status == 2 and "exact reference `q`, which toy/wedge has not" in err
    assert not (tmp_path / "o").exists()


def test_the_trained_judge_sees_neither_names_nor_the_folder(toy_conf, tmp_path, monkeypatch):
    given, seen = [], []
    read_all = control_judges.read_all

    def spy(judge, paths, *rest):
        given.extend(paths)
        seen.extend(path.read_bytes() for path in paths)
        return read_all(judge, paths, *rest)

    monkeypatch.setattr(control_judges, "read_all", spy)
    status, result = run_controls(tmp_path, "k=12", "per_outcome=16", "seed=1", *CLEAR)
    assert status == 0 and result["accuracy"] == 1.0 and result["answered"] >= 10
    drawn = {(tmp_path / clip["file"]).read_bytes() for clip in result["clips"]}
    assert len(seen) == len(drawn) == 12 and not drawn & set(seen), "what the judge reads was encoded anew"
    assert all(tmp_path not in path.parents and not path.exists() for path in given)
    assert sorted(path.name for path in given) == [f"r{number:03d}.mp4" for number in range(12)]
    assert min(result["judge"]["examples"].values()) >= 16


def test_a_clip_that_cannot_be_read_is_counted_apart_and_ends_in_status_3(toy_conf, tmp_path, monkeypatch):
    read_all = control_judges.read_all

    def damage(judge, paths, *rest):
        paths[2].write_bytes(b"not a clip")
        return read_all(judge, paths, *rest)

    monkeypatch.setattr(control_judges, "read_all", damage)
    status, result = run_controls(tmp_path, "judge=state")
    assert status == 3 and result["infrastructure_failures"] == 1
    assert np.sum(result["confusion"]) == 5 == sum(result["truth"]["counts"])
    assert result["abstained"] == 0.0, "a failure is no abstention"
    assert sum(bool(clip["failure"]) for clip in result["clips"]) == 1 == len(result["failures"])


def test_a_noisy_judge_errs_as_its_matrix_says_and_is_not_usable(toy_conf, tmp_path):
    """It calls every left right and half of right null: of 10, 1 to 9 in all but 1 of 512 seeds, and this one is fixed."""
    errors = tmp_path / "errors.json"
    errors.write_text(json.dumps({"wedge": {"left": {"right": 1.0}, "right": {"null": 0.5}}}))
    words = ("judge=noisy", f"confusion={errors}", "k=20", "set=balanced", "again=true")
    status, result = run_controls(tmp_path / "o", *words)
    (_, wrong, none), (false, right, null) = result["confusion"]
    assert status == 0 and (wrong, none, false) == (10, 0, 0) and right + null == 10 and 1 <= null <= 9
    assert result["report"]["usable"] is False and result["sampling"] == "quota"
    assert 1 <= result["again"]["retest"]["differ"] <= 9, "it errs anew"


def test_sets_off_the_reference_and_sweeps_from_the_command_line(toy_conf, tmp_path):
    status, result = run_controls(tmp_path / "a", "judge=state", "set=collapsed", "toward=right")
    assert status == 0 and result["truth"]["counts"] == [0, 6] and result["tvd_truth"] == 0.5
    status, result = run_controls(tmp_path / "b", "judge=state", "set=batches", "tilt=.5", "sweep=fps", "k=2")
    assert status == 0 and [sum(one["truth"]) for one in result["batches"]] == [1, 1]
    assert result["batches"][1]["truth"] == [1, 0], "tilted by a half: all to the first"
    assert [(row["value"], row["right"]) for row in result["sweep"]["rows"]] == [(v, 2) for v in ("4.0", "8.0", "16.0", "24.0")]


def test_a_page_of_a_folder_takes_controls_and_leaves_their_other_forms(toy_conf, tmp_path):
    from refcheck.corrected import read_controls
    from refcheck.report.collect import collect
    from refcheck.report.schema import Controls

    assert run_controls(tmp_path / "data" / "own", "judge=state", "k=2")[0] == 0
    words = ["controls", "scene=toy/wedge", *SMALL, "k=2", "workers=1", f"blind={tmp_path / 'b'}"]
    assert app.main([*words, f"out={tmp_path / 'data' / 'blind'}"]) == 0
    results = collect(tmp_path / "data").results
    assert [isinstance(one.body, Controls) for one in sorted(results, key=lambda one: one.name)] == [False, True]
    assert list(read_controls(tmp_path / "data")[0]) == ["toy/wedge"]


def test_clips_like_a_model_s_reach_the_judge_as_its_encoder_left_them(toy_conf, tmp_path, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 255, (21, 90, 160, 3)).astype(np.uint8)
    write_clip(tmp_path / "model.mp4", noise, 10.0, 40)
    seen = []
    read_all = control_judges.read_all

    def spy(judge, paths, *rest):
        seen.extend(clip_info(path) for path in paths)
        return read_all(judge, paths, *rest)

    monkeypatch.setattr(control_judges, "read_all", spy)
    status, result = run_controls(tmp_path / "o", "judge=state", "k=2", f"like={tmp_path / 'model.mp4'}", "again=true")
    assert status == 0 and result["accuracy"] == 1.0 and result["again"]["retest"]["differ"] == 0
    assert {(info.width, info.height, info.frames, info.fps) for info in seen} == {(160, 90, 21, 10.0)} and len(seen) == 4
