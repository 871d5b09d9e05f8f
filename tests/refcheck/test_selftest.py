"""The suite of known defects: that each is caught, that nothing else is complained of, and that a blind suite says so."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from refcheck import app, selftest
from refcheck.judges.rubrics import Item, readout_prompt
from refcheck.selftest import Defect
from scenes.load import load_scene


def test_every_defect_that_the_design_names_is_in_the_suite(tmp_path):
    names = [defect.name for defect in selftest.defects(selftest._Bench(tmp_path, None))]
    assert names == [
        "left and right mirrored", "heads and tails swapped", "opposite faces permuted", "bins off by one",
        "a null scored as a label", "gate 29 for 30", "a rollout used twice", "last frame dropped",
        "transposed confusion matrix", "q in a prompt",
    ]  # fmt: skip


def test_what_needs_no_clip_is_caught_at_once():
    assert selftest._gate(False) == [] and selftest._gate(True)


@pytest.fixture(scope="module")
def some():
    return {id: load_scene(id) for id in ("calibench/dice", "pawbench/A-01", "pawbench/A16")}


def test_a_prompt_that_tells_q_is_found_in_every_scene(some):
    assert selftest._told(list(some.values()), False) == []
    assert {word.partition(":")[0] for word in selftest._told(list(some.values()), True)} == set(some)


@pytest.mark.parametrize("words", ["each is equally likely", "heads: 50%", "with a chance of a half", "1/6 each", "16.7 %"])
def test_a_share_is_found_however_it_is_written(some, words):
    scene = some["calibench/dice" if "6" in words else "pawbench/A-01"]
    item = Item.of(scene)
    prompt = readout_prompt(item, item.outcomes, "")
    assert selftest.leaks(prompt, scene) == [] and selftest.leaks(prompt + words, scene)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_pips_are_counted_on_a_die_drawn_by_hand(count):
    """A square turned by 20 degrees, with dark discs where a die has them."""
    places = {1: [(0, 0)], 2: [(-1, -1), (1, 1)], 3: [(-1, -1), (0, 0), (1, 1)], 4: [(-1, -1), (1, 1), (-1, 1), (1, -1)]}
    places[5] = [*places[4], (0, 0)]
    places[6] = [*places[4], (-1, 0), (1, 0)]
    picture = np.full((200, 300, 3), (40, 90, 60), np.uint8)
    turn = cv2.getRotationMatrix2D((0.0, 0.0), 20.0, 1.0)[:, :2]
    corners = np.array([(-30, -30), (30, -30), (30, 30), (-30, 30)]) @ turn.T + (150, 100)
    cv2.fillPoly(picture, [corners.round().astype(np.int32)], (240, 240, 236))
    for place in places[count]:
        x, y = (turn @ np.multiply(place, 15) + (150, 100)).round().astype(int)
        cv2.circle(picture, (int(x), int(y)), 5, (20, 20, 20), -1)
    assert selftest.pips([picture], None) == str(count)


def test_a_suite_that_misses_a_defect_ends_in_status_3(tmp_path, monkeypatch, capsys):
    checks = {"missed": lambda there: [], "cries wolf": lambda there: ["x"], "good": lambda there: ["x"] if there else []}
    monkeypatch.setattr(selftest, "defects", lambda bench: [Defect(name, "", check) for name, check in checks.items()])
    assert app.main(["controls", "suite=smoke", "workers=1", f"out={tmp_path / 'o'}"]) == 3
    assert json.loads((tmp_path / "o" / "result.json").read_text())["missed"] == ["missed", "cries wolf"]
    assert "NOT CAUGHT" in capsys.readouterr().out


def test_each_defect_is_caught_and_nothing_else(tmp_path):
    assert app.main(["controls", "suite=smoke", "workers=1", f"out={tmp_path / 'o'}"]) == 0
    result = json.loads((tmp_path / "o" / "result.json").read_text())
    assert result["missed"] == [] and all(row["caught"] and not row["sound"] for row in result["defects"])
