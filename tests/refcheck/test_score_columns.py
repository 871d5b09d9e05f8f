"""What the tables and the written cells carry: every figure asked for, BH beside every p, bounds where no draw was reached."""

import csv
import json

import pyarrow.parquet as parquet
import pytest
import scipy.stats
from scoring import CSV, answer, drawn, policy_of, rows_of, write

from refcheck import score_files


def balls(tmp_path, left, right):
    path = tmp_path / "x.csv"
    bins = ["1"] * left + ["2"] * right
    path.write_text("scene,model,seed,bin\n" + "".join(f"ball,m,{seed},{bin}\n" for seed, bin in enumerate(bins)))
    return path


def beside(tmp_path):
    """A reference and a judge's controls for `ball`."""
    (tmp_path / "reference.json").write_text(json.dumps({"scenes": {"ball": {"counts": {"left": 300, "right": 300}}}}))
    confusion = {"confusion": [[900, 100, 0], [100, 900, 0]], "confusion_columns": ["left", "right", "no outcome"]}
    judge = {"schema": "quincunx.controls/v1", "scene": "calibench/ball", "judge": {"name": "t"}, "outcomes": ["left", "right"]}
    (tmp_path / "controls.json").write_text(json.dumps(judge | confusion))
    return {"reference": tmp_path / "reference.json", "judge": tmp_path / "controls.json"}


def test_the_written_cells_carry_what_was_asked_for(tmp_path):
    asked = {"stop_width": 0.2, "epsilon": 0.3, "anytime": True, **beside(tmp_path)}
    result = answer(data=balls(tmp_path, 350, 250), out=tmp_path, **asked).result
    cell, seen = result["models"]["m"]["cells"]["ball"], result["judge"]["cells"][0]
    expected = {
        **{"tvd_low": cell["tv_ci95"][0], "tvd_high": cell["tv_ci95"][1], "log_e": cell["log_e"]},
        **{"chi_square_p": cell["p"], "chi_square_p_exact": cell["p_exact"], "p_benjamini_hochberg": cell["p"]},
        **{"equivalence_p": cell["equivalence"]["p"], "equivalence_verdict": "within"},
        **{"anytime_low": cell["anytime"]["interval"][0], "anytime_high": cell["anytime"]["interval"][1]},
        **{f"reference_{name}": cell["reference"][name] for name in ("kind", "tvd", "floor", "p")},
        **{"reference_low": cell["reference"]["ci95"][0], "reference_high": cell["reference"]["ci95"][1]},
        **{f"early_{name}": cell["early"][name] for name in ("taken", "reached", "tvd")},
        **{"early_low": cell["early"]["interval"][0], "early_high": cell["early"]["interval"][1]},
        **{f"corrected_{name}": seen[name] for name in ("tvd", "floor", "bias")},
        **{"corrected_low": seen["interval"]["low"], "corrected_high": seen["interval"]["high"]},
    }
    assert None not in expected.values() and cell["early"]["reached"]
    (row,) = parquet.read_table(tmp_path / "cells.parquet").to_pylist()
    assert {name: row[name] for name in expected} == expected
    with (tmp_path / "cells.csv").open(newline="") as lines:
        (flat,) = csv.DictReader(lines)
    assert list(flat) == list(score_files.COLUMNS) and float(flat["corrected_tvd"]) == seen["tvd"]
    assert flat["reference_smallest"] == "" and flat["wasserstein"] == ""


def test_an_interval_as_reference_has_its_ends_in_the_cells(tmp_path):
    low, high = {"left": 0.4, "right": 0.4}, {"left": 0.6, "right": 0.6}
    (tmp_path / "reference.json").write_text(json.dumps({"scenes": {"ball": {"low": low, "high": high}}}))
    answer(data=balls(tmp_path, 70, 30), reference=tmp_path / "reference.json", out=tmp_path)
    (row,) = parquet.read_table(tmp_path / "cells.parquet").to_pylist()
    assert (row["reference_smallest"], row["reference_largest"]) == (pytest.approx(0.1), pytest.approx(0.3))


def test_bh_stands_beside_every_p_of_pawbench(tmp_path):
    policy = policy_of(scenes=3, repeats=40, models=("m", "n"))
    share = {"A-00": 40, "A-01": 27, "A-02": 21}

    def outcome(scene, repeat):
        return "a" if scene[0] == "B" or repeat < share[scene] else "b"

    rows = rows_of(policy, outcome)
    failed = next(row for row in rows if row["scene_id"] == "A-02" and row["model_or_lane"] == "m")
    failed |= {"observation": "infrastructure_failure", "outcome_label": None, "failure_code": "timeout"}
    answered = answer(**write(tmp_path, policy, rows), partial=True, out=tmp_path)
    models = answered.result["pawbench"]["tracks"]["calibration"]["models"]
    scenes = [scene for entry in models.values() for scene in entry["scenes"] if "p" in scene]
    assert len(scenes) == 5 and models["m"]["status"] == "blocked"
    adjusted = scipy.stats.false_discovery_control([scene["p"] for scene in scenes])
    assert [scene["p_benjamini_hochberg"] for scene in scenes] == pytest.approx(list(adjusted))
    assert models["n"]["matched_null"]["p_benjamini_hochberg"] == models["n"]["matched_null"]["p"]
    # All heads of 40: no draw comes near, of a blocked model's scene too.
    lines = [line for line in drawn(answered.tables).splitlines() if "A-00" in line and "/40" in line]
    assert len(lines) == 2 and all("< 1e-3" in line for line in lines)
    assert (
        "draws" not in json.loads((tmp_path / "metrics.json").read_text())["tracks"]["calibration"]["models"]["m"]["scenes"][0]
    )


def test_bh_stands_beside_the_others():
    result = answer(data=CSV).result
    for family in (
        result["comparisons"],
        [c["wasserstein"] for e in result["models"].values() for c in e["cells"].values() if "wasserstein" in c],
    ):
        adjusted = scipy.stats.false_discovery_control([entry["p"] for entry in family])
        assert len(family) > 1 and [entry["p_benjamini_hochberg"] for entry in family] == pytest.approx(list(adjusted))
    sweep = answer(data="guidance").result["conditions"]["sweeps"][0]
    adjusted = scipy.stats.false_discovery_control([entry["p"] for entry in sweep["conditions"]])
    assert [entry["p_benjamini_hochberg"] for entry in sweep["conditions"]] == pytest.approx(list(adjusted))
