"""The page of kernels beside engines is put together from what ran: it goes on from what is kept, and says what is not met."""

from __future__ import annotations

import numpy as np

from benchmarks import agreement
from benchmarks.agreement import PART, ends, main, row
from scenes.load import load_scene
from simulators.engines.loop import physics_digest


def test_a_page_is_made_from_what_is_kept_and_its_rows_are_what_ran(tmp_path, monkeypatch, capsys):
    """The tracks agree in every launch; of 250 alike the upper bound at 99 % is 1 - .01^(1/250) or a little more."""
    monkeypatch.setattr(agreement, "RECORDED", 8)
    page = tmp_path / "agreement.md"
    assert main([f"keep={tmp_path}", "only=pawbench/A-05", f"n={PART}", f"out={page}"]) == 0
    text = page.read_text()
    assert "| pawbench/A-05 | planar_ball (300 steps/s) | planar (9600 steps/s) | 250 | 0.0000 |" in text
    assert "Further apart" not in text
    scene = load_scene("pawbench/A-05")
    kept = tmp_path / f"{physics_digest(scene.device, scene.integrators[1])}-0.npy"
    rows = np.load(kept)
    rows[: PART // 2, 0] = 1 - rows[: PART // 2, 0]  # as if half of the engine's balls had gone the other way
    np.save(kept, rows)
    told, line = row(scene, PART, tmp_path, np.inf)
    assert told[6] == "no" and told[7] == "50.0%" and line.startswith("- pawbench/A-05: left ")
    assert len(ends(scene, scene.integrators[1], 2 * PART, tmp_path, 0.0)) == PART, "no time: what is kept, and no more"
    assert main(["n=1"]) == 2 and "keep=" in capsys.readouterr().err
