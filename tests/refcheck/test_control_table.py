"""The table of judges: each row follows from its scene's clips, a row that stands is not made again, and nothing is typed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from refcheck import app, control_table
from refcheck.damage import KINDS
from scenes.load import load_scene

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

    def counted(request, scene, pool):
        made.append(scene.id)
        return judge_scene(request, scene, pool)

    monkeypatch.setattr(control_table, "judge_scene", counted)
    assert table(tmp_path / "o") == 0 and made == ["toy/wedge", "toy/wedge-glossy"]
    text = (tmp_path / "o" / "judges.md").read_text()
    row = json.loads((tmp_path / "o" / "toy-wedge.json").read_text())
    assert "| toy/wedge | state | 8 of 8 |" in text and "8 answers are too few" in text and "**0 of 2 scenes.**" in text
    assert np.sum(row["confusion"]) == 8 and sum(row["right_by_look"].values()) == 8
    assert set(row["report"]["by_kind"]) <= {kind.name for kind in KINDS.values() if kind.family != "broken"}
    assert row["report"]["hidden"]["answered"] == 0 < row["report"]["hidden"]["clips"]
    assert "crop" in row["not_made"] and "crop not made: one single colour is left" in text
    assert table(tmp_path / "o") == 0 and len(made) == 2, "nothing is made again"
    assert (tmp_path / "o" / "judges.md").read_text() == text
    (tmp_path / "o" / "toy-wedge.json").write_text("{")
    assert table(tmp_path / "o") == 0 and made[2:] == ["toy/wedge"], "what is broken is made again"
    assert table(tmp_path / "o", "seed=1") == 0 and len(made) == 5, "with another seed all is made anew"


def test_clips_of_outcomes_that_never_come_go_to_the_others(toy_conf):
    """A push that is always to the right: all eight clips are of that side, and the other is named."""
    always = "scene.device.random.release_x={dist: norm, loc: 0.05, scale: 1e-3}"
    scene = load_scene("toy/wedge", [always])
    wishes, never = control_table._wishes(scene, {"seed": 0, "k": 8, "limit": 64, "nulls": 8}, None)
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
