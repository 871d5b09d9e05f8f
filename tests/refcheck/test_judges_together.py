"""Judges that err by a known amount, several judges as one, and pages for people: known answers, nothing given away."""

from __future__ import annotations

import csv
import json
from math import isnan

import numpy as np
import pytest
from numpy.random import Generator, Philox

from refcheck.command import UserError
from refcheck.judges import page
from refcheck.judges.ensemble import EnsembleJudge, agreement
from refcheck.judges.human import CANNOT_TELL, read_panel
from refcheck.judges.human import agreement as with_people
from refcheck.judges.noisy import NoisyJudge
from refcheck.judges.page import NO_OUTCOME, Shown
from refcheck.judges.rubrics import Item
from refcheck.judges.state import StateJudge
from refcheck.tally import Reading

OUTCOMES = ("a", "b", "c")


@pytest.fixture
def sealed(tmp_path):
    """3,000 files of different bytes, a third of each outcome."""
    paths = [tmp_path / f"{number}.mp4" for number in range(3000)]
    for number, path in enumerate(paths):
        path.write_bytes(number.to_bytes(4, "big"))
    truth = [OUTCOMES[number % 3] for number in range(len(paths))]
    return paths, truth, StateJudge.sealed(paths, truth)


def test_a_noisy_judge_errs_as_its_confusion_says(sealed):
    """1,000 readings of each outcome: every cell within 4.4 standard errors (12 cells, false alarm 1.3e-4 in all)."""
    paths, truth, state = sealed
    table = np.array([[0.9, 0.04, 0.01, 0.05], [0.0, 1.0, 0.0, 0.0], [0.2, 0.2, 0.5, 0.1]])
    judge = NoisyJudge(state, OUTCOMES, table, seed=3)
    counts = np.zeros((3, 4))
    for path, label in zip(paths, truth, strict=True):
        said = judge.read(path)
        counts[OUTCOMES.index(label), 3 if said.outcome is None else OUTCOMES.index(said.outcome)] += 1
    assert np.all(np.abs(counts / 1000 - table) <= 4.4 * np.sqrt(table * (1 - table) / 1000))
    assert np.array_equal(counts[1], [0, 1000, 0, 0])


def test_a_noisy_judge_says_the_same_when_asked_twice_and_errs_anew_when_told_to(sealed):
    paths, _, state = sealed
    table = np.full((3, 4), 0.25)
    one, same, again = (NoisyJudge(state, OUTCOMES, table, seed=1, again=k) for k in (0, 0, 1))
    said = [[judge.read(path).outcome for path in paths[:200]] for judge in (one, same, again)]
    assert said[0] == said[1] and said[0] != said[2]
    reversed_order = [one.read(path).outcome for path in reversed(paths[:200])]
    assert reversed_order[::-1] == said[0]


def test_a_confusion_by_labels_leaves_the_rest_right(sealed):
    paths, _, state = sealed
    judge = NoisyJudge.of(state, {"a": {"b": 0.25, "null": 0.25}}, OUTCOMES)
    assert np.allclose(judge.confusion, [[0.5, 0.25, 0.0, 0.25], [0, 1, 0, 0], [0, 0, 1, 0]])
    assert judge.read(paths[1]).outcome == "b"
    for rows, wrong in (({"d": {}}, "no outcomes"), ({"a": {"d": 0.1}}, "names d"), ({"a": {"b": 1.5}}, "sum to 1")):
        with pytest.raises(ValueError, match=wrong):
            NoisyJudge.of(state, rows, OUTCOMES)


def said(*labels):
    return [Reading(label, "" if label else "unreadable", latency=1.0, cost=0.5) for label in labels]


@pytest.mark.parametrize(
    ("votes", "answer"),
    [(("a", "a", "b"), "a"), (("a", "b", "c"), None), ((None, None, "a"), None), (("a", None, "a"), "a"), (("a", "b"), None)],
)
def test_a_majority_is_more_than_half_and_null_is_a_vote(votes, answer):
    judge = EnsembleJudge(tuple(StateJudge({}) for _ in votes), OUTCOMES)
    reading = judge.together(said(*votes))
    assert reading.outcome == answer and reading.votes == votes
    assert reading.null == ("" if answer else "unreadable" if None in votes else "votes_split")
    assert reading.latency == len(votes) and reading.cost == 0.5 * len(votes)


def test_weighed_votes_are_bayes_rule_by_hand():
    """Two judges, right 9 in 10 and 6 in 10 of two outcomes, disagree: the odds are (.9/.1)(.4/.6) = 6, so 6/7."""
    tables = (
        np.array([[900.0, 100.0, 0.0], [100.0, 900.0, 0.0]]) * 1e6,
        np.array([[600.0, 400.0, 0], [400.0, 600.0, 0]]) * 1e6,
    )
    judge = EnsembleJudge((StateJudge({}), StateJudge({})), ("a", "b"), tables, threshold=0.8)
    assert judge.posterior(("a", "b")) == pytest.approx([6 / 7, 1 / 7], abs=1e-6)
    assert judge.together(said("a", "b")).outcome == "a"
    assert EnsembleJudge(judge.judges, judge.outcomes, tables, threshold=0.9).together(said("a", "b")).outcome is None
    assert judge.together(said(None, None)).outcome is None


def test_weights_beat_a_majority_that_errs_together(sealed):
    """One judge right of 98 % against two right of 60 %: weighed, the good one is followed; n = 600, no chance: fixed seed."""
    paths, truth, state = sealed
    rates = (0.98, 0.6, 0.6)
    tables = [np.column_stack([np.full((3, 3), (1 - r) / 2) + np.eye(3) * (r - (1 - r) / 2), np.zeros(3)]) for r in rates]
    judges = tuple(NoisyJudge(state, OUTCOMES, table, seed=k) for k, table in enumerate(tables))
    weighed = EnsembleJudge(judges, OUTCOMES, tuple(table * 1000 for table in tables), threshold=0.5)
    right = [weighed.read(path).outcome == label for path, label in zip(paths[:600], truth, strict=False)]
    most = EnsembleJudge(judges, OUTCOMES)
    plain = [most.read(path).outcome == label for path, label in zip(paths[:600], truth, strict=False)]
    assert np.mean(right) > 0.95 > np.mean(plain)


def test_agreement_is_krippendorffs_and_cohens():
    """Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", data A: alpha .095; kappa of [[20, 5], [10, 15]]: .4."""
    alpha = agreement({"one": list("0100000010"), "two": list("1110010000")})
    assert alpha["alpha"] == pytest.approx(0.095, abs=5e-4) and alpha["pairs"]["one, two"]["agree"] == 6
    assert alpha["disagree"] == [0, 2, 5, 8]
    pairs = [("y", "y")] * 20 + [("y", None)] * 5 + [(None, "y")] * 10 + [(None, None)] * 15
    kappa = agreement({"one": [a for a, _ in pairs], "two": [b for _, b in pairs]})
    assert kappa["pairs"]["one, two"]["kappa"] == pytest.approx(0.4)
    assert isnan(agreement({"one": ["y"] * 3, "two": ["y"] * 3})["alpha"])
    with pytest.raises(ValueError, match="two judges"):
        agreement({"one": ["y"]})


ITEM = Item("A-01", "flick", "a coin is flicked", ("heads", "tails"), "The face up at the end.")


def clips(folder, count=12):
    made = []
    for number in range(count):
        path = folder / f"secret-heads-{number}.mp4"
        path.write_bytes(bytes([number]))
        made.append(Shown("A-01", "model", str(number), ("heads", "heads", "heads", "tails", "heads", "")[number % 6], path))
    return made


def test_a_page_gives_nothing_away_and_works_offline(tmp_path):
    shown = clips(tmp_path)
    written = page.write_page(tmp_path / "out", {"A-01": ITEM}, shown)
    text, files = written.read_text(), list((written.parent / "clips").iterdir())
    assert len(files) == 12 and not any("secret" in file.name for file in files)
    data = json.loads(text.split("const data = ")[1].split(";\n")[0])
    assert "secret" not in text and "http" not in text.replace("http-equiv", "")
    for one in data["clips"]:
        assert set(one) == {"clip", "file", "question", "choices"} and (written.parent / one["file"]).is_file()
        assert one["choices"] == ["heads", "tails", NO_OUTCOME, CANNOT_TELL]
    assert not (written.parent / "key.jsonl").exists()
    with pytest.raises(UserError, match="holds a page already"):
        page.write_page(tmp_path / "out", {"A-01": ITEM}, shown)


def test_a_scene_cannot_write_into_the_page(tmp_path):
    evil = Item("A-01", "x", "x", ("</script><script>alert(1)</script>", "b"), "</script>")
    text = page.write_page(tmp_path / "out", {"A-01": evil}, clips(tmp_path, 1)).read_text()
    assert text.count("</script>") == 1


def test_clips_are_shared_out_over_what_the_judge_said(tmp_path):
    chosen = page.choose(clips(tmp_path), 6, Generator(Philox(0)))
    assert sorted(one.judge for one in chosen) == ["", "", "heads", "heads", "tails", "tails"]
    assert len(page.choose(clips(tmp_path), None, Generator(Philox(0)))) == 12


def test_votes_come_back_as_a_panel(tmp_path):
    """Three people on three clips: agreed, decided against the judge, and nothing to be told."""
    out = tmp_path / "out"
    page.write_page(out, {"A-01": ITEM}, clips(tmp_path, 3))
    key = {line["seed"]: line["clip"] for line in map(json.loads, (out / "key.jsonl").read_text().splitlines())}
    answers = {"0": ["heads", "heads", "heads"], "1": ["tails", "tails", "heads"], "2": [NO_OUTCOME, CANNOT_TELL, CANNOT_TELL]}
    paths = []
    for who in range(3):
        paths.append(tmp_path / f"votes-{who}.csv")
        with paths[-1].open("w", newline="") as file:
            csv.writer(file).writerows([page.HEADER, *([key[seed], f"p{who}", said[who]] for seed, said in answers.items())])
    (out / "panel.csv").write_text(page.panel_csv(out / "key.jsonl", paths))
    told = with_people(read_panel(out / "panel.csv"))
    assert (told["clips"], told["votes"], told["decisive"], told["agree"], told["wrong_label"]) == (3, 9, 2, 1, 1)
    with pytest.raises(UserError, match="answered clip"):
        (tmp_path / "twice.csv").write_text(f"clip,annotator,answer\n{key['0']},p0,tails\n")
        page.panel_csv(out / "key.jsonl", [*paths, tmp_path / "twice.csv"])
    for line, wrong in (
        ("zz,p9,heads", "another page"),
        (f"{key['0']},p9,both", "was no choice"),
        (f"{key['0']},p9", "2 fields"),
    ):
        (tmp_path / "bad.csv").write_text(f"clip,annotator,answer\n{line}\n")
        with pytest.raises(UserError, match=wrong):
            page.panel_csv(out / "key.jsonl", [tmp_path / "bad.csv"])
