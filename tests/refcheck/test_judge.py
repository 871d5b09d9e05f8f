"""`judge`: labels of clips without a score, agreement between judges by scene, a page for people and their votes back."""

from __future__ import annotations

import csv
import json
import os

import numpy as np
import pytest

from refcheck import app
from simulators.video import write_clip

TRUTH = ["heads", "tails", "heads", "tails", "heads", "heads"]


@pytest.fixture
def place(tmp_path):
    """Six clips of A-01 that nobody need look at, their truth, and a judge that takes some heads for tails."""
    (tmp_path / "clips" / "A-01").mkdir(parents=True)
    for number in range(len(TRUTH)):
        frame = np.full((32, 48, 3), 40 + 20 * number, np.uint8)
        frame[8:16] = 250
        write_clip(tmp_path / "clips" / "A-01" / f"r{number:03d}.mp4", [frame] * 3, 8.0)
    told = {f"A-01/r{number:03d}": label for number, label in enumerate(TRUTH)}
    (tmp_path / "truth.json").write_text(json.dumps(told))
    (tmp_path / "errors.json").write_text(json.dumps({"A-01": {"heads": {"tails": 1.0}}}))
    return tmp_path


def judge(place, *more, out, status=0):
    words = [
        "judge",
        "scene=pawbench/A-01",
        f"data={place / 'clips'}",
        f"truth={place / 'truth.json'}",
        f"out={place / out}",
        *more,
    ]
    assert app.main(words) == status
    path = place / out / "result.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_labels_are_counted_and_written(place):
    result = judge(place, "judge=state", out="a")
    assert result["labels"] == {"A-01": {"heads": 4, "tails": 2, "null": 0}} and result["judged"] == 6
    with (place / "a" / "labels.csv").open() as file:
        assert [row["label"] for row in csv.DictReader(file)] == TRUTH
    assert judge(place, "judge=state", out="a")["reused"] == 6


def test_a_clip_that_cannot_be_read_is_a_failure_and_no_label(place):
    (place / "clips" / "A-01" / "r002.mp4").write_bytes(b"no clip")
    result = judge(place, "judge=state", out="a", status=3)
    assert result["labels"]["A-01"] == {"heads": 3, "tails": 2, "null": 0}
    assert [one["repeat"] for one in result["failures"]] == [2]


def test_judges_that_disagree_are_compared_and_people_see_where(place):
    """Every head is taken for a tail: 2 of 6 agree, kappa 0, and the page holds the four heads."""
    judge(place, "judge=state", out="a")
    result = judge(
        place,
        "judge=noisy",
        f"confusion={place / 'errors.json'}",
        f"against={place / 'a'}",
        "human=true",
        "disagree=true",
        out="b",
    )
    assert result["labels"]["A-01"] == {"heads": 0, "tails": 6, "null": 0}
    told = result["agreement"]["A-01"]
    (pair,) = told["pairs"].values()
    assert (told["clips"], pair["agree"], told["disagree"]) == (6, 2, [0, 2, 4, 5]) and pair["kappa"] == pytest.approx(0.0)
    assert result["page"] == {"file": "page/index.html", "clips": 4, "of": 4}
    key = [json.loads(line) for line in (place / "b" / "key.jsonl").read_text().splitlines()]
    assert sorted(line["seed"] for line in key) == ["0", "2", "4", "5"]
    votes = place / "votes.csv"
    votes.write_text("clip,annotator,answer\n" + "".join(f"{line['clip']},ada,heads\n" for line in key))
    again = judge(place, "judge=noisy", f"confusion={place / 'errors.json'}", f"votes={votes}", "overwrite=true", out="b")
    assert (again["human"]["decisive"], again["human"]["agree"], again["human"]["wrong_label"]) == (4, 0, 4)


def test_an_ensemble_counts_a_null_as_a_vote_and_weighs_by_controls(place):
    """The truth and a judge that is always wrong: no majority; weighed by what controls found, the truth is followed."""
    errors = f"confusion={place / 'errors.json'}"
    result = judge(place, "judge=ensemble", "of=state,noisy", errors, out="a")
    assert result["labels"]["A-01"] == {"heads": 0, "tails": 2, "null": 4}
    for name, table in (("state", [[50, 0, 0], [0, 50, 0]]), ("noisy", [[0, 50, 0], [0, 50, 0]])):
        (place / "weights" / name).mkdir(parents=True)
        held = {"schema": "quincunx.controls/v1", "scene": "pawbench/A-01", "judge": {"name": name}, "confusion": table}
        held |= {"outcomes": ["heads", "tails"], "confusion_columns": ["heads", "tails", "null"]}
        (place / "weights" / name / "result.json").write_text(json.dumps(held))
    weighed = judge(place, "judge=ensemble", "of=state,noisy", errors, f"weights={place / 'weights'}", out="b")
    assert weighed["labels"]["A-01"] == {"heads": 4, "tails": 2, "null": 0}


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("judge=noisy",), "confusion= goes with judge=noisy"),
        (("judge=state", "disagree=true", "human=true"), "disagree=true compares judges"),
        (("judge=state", "sample=3"), "give human=true"),
        (("judge=state", "of=state,vlm"), "go with judge=ensemble"),
        (("judge=ensemble", "of=state"), "two or more"),
        (("judge=ensemble", "of=state,eye"), "two or more"),
        (("judge=trained",), "truth= goes with"),
    ],
)
def test_mistakes_are_told(place, capsys, words, wrong):
    judge(place, *words, out="a", status=2)
    assert wrong in " ".join(capsys.readouterr().err.split())


def changed(path, change):
    """Change the first line of a file of JSON lines."""
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text(json.dumps({**json.loads(first), **change}) + "\n" + "".join(rest))


def test_what_is_refused_leaves_an_earlier_result_as_it_was(place, capsys):
    """A second page, votes of no file, a truth that says too little, and judges with nothing to disagree on."""
    judge(place, "judge=state", "human=true", out="a")
    before = {path: path.read_bytes() for path in (place / "a").rglob("*") if path.is_file()}
    judge(place, "judge=state", "human=true", out="a", status=2)
    assert "holds a page already" in capsys.readouterr().err
    judge(place, "judge=state", f"votes={place / 'nope.csv'}", "overwrite=true", out="a", status=2)
    (place / "truth.json").write_text("{}")
    judge(place, "judge=state", "overwrite=true", out="a", status=2)
    assert {path: path.read_bytes() for path in (place / "a").rglob("*") if path.is_file()} == before


def test_judges_that_agree_leave_no_page_and_the_earlier_result(place, capsys):
    judge(place, "judge=state", out="a")
    judge(place, "judge=state", out="b")
    more = (f"against={place / 'a'}", "human=true", "disagree=true", "overwrite=true")
    result = judge(place, "judge=state", *more, out="b", status=2)
    assert "the judges say the same" in capsys.readouterr().err and result["labels"]["A-01"]["heads"] == 4


@pytest.mark.parametrize("name", ["state", "noisy"])
def test_a_truth_that_is_no_outcome_is_refused(place, capsys, name):
    (place / "truth.json").write_text(json.dumps({f"A-01/r{k:03d}": "=banana<b>" if k < 2 else "heads" for k in range(6)}))
    more = (f"confusion={place / 'errors.json'}",) if name == "noisy" else ()
    assert judge(place, f"judge={name}", *more, out="a", status=2) is None
    told = capsys.readouterr().err
    assert "A-01/r000 is '=banana<b>', which is none of heads, tails" in told and "A-01/r001" in told


def test_errors_of_another_scene_make_no_perfect_judge(place, capsys):
    (place / "errors.json").write_text('{"ZZ": {}}')
    judge(place, "judge=noisy", f"confusion={place / 'errors.json'}", out="a", status=2)
    assert "has no A-01" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"repeat_index": "abc"}, "repeat_index 'abc' must be a whole number"),
        ({"outcome_label": "banana<script>"}, "outcome_label 'banana<script>' is none of heads, tails"),
        ({"outcome_label": None}, "outcomes alone have one"),
        ({"repeat_index": 1}, "A-01 repeat 1 is read twice"),
    ],
)
def test_rows_of_another_judge_are_not_trusted(place, capsys, change, part):
    judge(place, "judge=state", out="a")
    changed(place / "a" / "rows.jsonl", change)
    judge(place, "judge=state", f"against={place / 'a'}", out="b", status=2)
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"clip": {"w": 1}}, "clip.width"),
        ({"scene_id": "A-02"}, "its row is of 'A-01'"),
        ({"trust": {}}, "its trust has no status"),
        ({"reading": {"outcome": "edge", "null": ""}}, "its reading is 'edge', and its row says 'heads'"),
        ({"reading": {"votes": 5}}, "reading.votes"),
        ({"row": None, "reading": None}, "row: Input should be"),
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_not_gone_on_from(place, capsys, change, part):
    judge(place, "judge=state", "concurrency=1", out="a")
    changed(place / "a" / "checkpoint.jsonl", change)
    judge(place, "judge=state", "concurrency=1", out="a", status=2)
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('"outcome_label": "heads"', '"outcome_label": null', "outcomes alone have one"),
        ('"heads"', '"edge"', "outcome_label 'edge' is none of heads, tails"),
    ],
)
def test_a_label_that_cannot_be_is_not_gone_on_from(place, capsys, old, new, part):
    judge(place, "judge=state", out="a")
    path = place / "a" / "checkpoint.jsonl"
    path.write_text(path.read_text().replace(old, new))
    judge(place, "judge=state", out="a", status=2)
    assert part in capsys.readouterr().err


def test_what_is_no_file_is_no_clip_and_two_empty_ones_are_broken(place, capsys):
    folder = place / "clips" / "A-01"
    for number in range(3):
        (folder / f"r00{number}.mp4").unlink()
    os.mkfifo(folder / "r000.mp4")
    (folder / "r001.mp4").mkdir()
    (folder / "r002.mp4").symlink_to(place / "nothing.mp4")
    judge(place, "judge=state", out="a", status=2)
    assert capsys.readouterr().err.count("is no regular file") == 3
    (folder / "r000.mp4").unlink()
    (folder / "r001.mp4").rmdir()
    (folder / "r002.mp4").unlink()
    for number in (0, 1):
        (folder / f"r00{number}.mp4").touch()
    result = judge(place, "judge=state", out="a", status=3)
    assert [(one["repeat"], one["code"]) for one in result["failures"]] == [(0, "broken_clip"), (1, "broken_clip")]
