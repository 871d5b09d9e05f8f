"""The table of judges: each row follows from its scene's clips, a row that stands is not made again, and nothing is typed."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from refcheck import app, control_table
from refcheck.damage import KINDS
from scenes.load import load_scene
from simulators.execute import InfrastructureError

SCENES = ("scenes=toy/*",)


def table(out, *words):
    asked = ["controls", "suite=table", *SCENES, "judge=state", "k=8", "nulls=64", "workers=1", f"out={out}", "overwrite=true"]
    return app.main([*asked, *words])


@pytest.fixture
def small(toy_conf):
    """Make the toy's pictures small."""
    wedge = toy_conf / "wedge.yaml"
    text = wedge.read_text().replace("view_height: 0.3}", "view_height: 0.3, width: 208, height: 120}")
    assert "width: 208" in text
    wedge.write_text(text)
    return toy_conf


def test_a_row_a_scene_resumed_and_written_by_code(small, tmp_path, monkeypatch, capsys):
    made = []
    judge_scene = control_table.judge_scene

    def counted(values, scene):
        made.append(scene.id)
        return judge_scene(values, scene)

    monkeypatch.setattr(control_table, "judge_scene", counted)
    assert table(tmp_path / "o") == 0 and made == ["toy/wedge"], "its glossy pair is drawn like it"
    text = (tmp_path / "o" / "judges.md").read_text()
    row = json.loads((tmp_path / "o" / "toy-wedge.json").read_text())
    assert "| toy/wedge | state | 8 of 8 |" in text and "8 answers are too few" in text and "**0 of 1 scenes.**" in text
    assert "| toy/wedge-glossy | as toy/wedge |" in text
    assert np.sum(row["confusion"]) == 8 and sum(row["right_by_look"].values()) == 8
    assert set(row["report"]["by_kind"]) <= {kind.name for kind in KINDS.values() if kind.family != "broken"}
    clips = row["report"]["hidden"]["clips"]
    assert row["report"]["hidden"]["answered"] == 0 < clips
    assert f"| 0 of {clips} ({1 - 0.05 ** (1 / clips):.2f}) |" in text, "the upper bound of none in n is 1 - .05^(1/n)"
    assert f"| all | 0 of {clips} |" in text
    assert "crop" in row["not_made"] and "crop not made: one single colour is left" in text
    assert table(tmp_path / "o") == 0 and len(made) == 1, "nothing is made again"
    assert (tmp_path / "o" / "judges.md").read_text() == text
    (tmp_path / "o" / "toy-wedge.json").write_text("{")
    assert table(tmp_path / "o") == 0 and made[1:] == ["toy/wedge"], "what is broken is made again"
    assert table(tmp_path / "o", "seed=1") == 0 and len(made) == 3, "with another seed all is made anew"


def test_what_a_machine_does_to_one_scene_stops_no_other(toy_conf, tmp_path, monkeypatch, capsys):
    (toy_conf / "wedge-wider.yaml").write_text(
        "defaults: [toy/wedge@_here_, _self_]\nid: toy/wedge-wider\ncamera: {view_height: 0.4}\n"
    )

    def broken(values, scene):
        raise InfrastructureError(f"the encoder of {scene.id} failed")

    monkeypatch.setattr(control_table, "judge_scene", broken)
    assert table(tmp_path / "o") == 3
    text = (tmp_path / "o" / "judges.md").read_text()
    assert "the encoder of toy/wedge failed" in text and "the encoder of toy/wedge-wider failed" in text


def test_clips_of_outcomes_that_never_come_go_to_the_others(toy_conf):
    """A push that is always to the right: all eight clips are of that side, and the other is named."""
    always = "scene.device.random.release_x={dist: norm, loc: 0.05, scale: 1e-3}"
    scene = load_scene("toy/wedge", [always])
    wishes, never = control_table._wishes(scene, {"seed": 0, "k": 8, "limit": 64, "nulls": 8})
    clean = [wish for wish in wishes if not wish.kind]
    assert [wish.truth for wish in clean] == ["right"] * 8 and never == ["left"]
    assert len({wish.index for wish in wishes}) == len(wishes), "no rollout is used twice"
    assert all(wish.truth is None for wish in wishes if wish.kind)


def test_the_table_says_what_it_cannot_do(toy_conf, tmp_path, capsys):
    assert app.main(["controls", "suite=table", *SCENES, "judge=state"]) == 2
    assert "out= is missing" in capsys.readouterr().err
    asked = ["controls", "suite=table", *SCENES, "judge=vlm", "workers=1", f"out={tmp_path / 'o'}"]
    assert app.main(asked) == 2
    assert "draws what the trained judge reads" in capsys.readouterr().err


def test_a_clip_that_comes_out_as_another_one_is_filmed_again(tmp_path):
    """Two rollouts that turn up the same card are the same bytes where both are filmed alike; a third is another card."""
    scene = load_scene("calibench/cards")
    wishes, _ = control_table._wishes(scene, {"k": 8, "seed": 0, "limit": 400, "nulls": 8})
    same = [wish for wish in wishes if wish.end == wishes[0].end][:2]
    other = next(wish for wish in wishes if wish.end != wishes[0].end)
    three = [dataclasses.replace(wishes[0], index=wish.index, end=wish.end, batch=2) for wish in (*same, other)]
    controls, refused = control_table._drawn(scene, 0, three, tmp_path)
    assert len(same) == 2 and refused == {}
    assert [(one.index, one.batch) for one in controls] == [
        (three[0].index, 2), (three[2].index, 2), (three[1].index, len(control_table.LOOKS)),
    ]  # fmt: skip
    assert len({one.path.read_bytes() for one in controls}) == 3
