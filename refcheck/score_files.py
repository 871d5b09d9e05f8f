"""Files that `score` leaves beside result.json: one row a cell as CSV and Parquet, and CaliBench's bins files.

It computes no figure and decides on no name: what cannot be a file's name is refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from refcheck.calibench import SCENES
from refcheck.command import UserError
from refcheck.labels import Labels
from refcheck.output import atomic, to_json

COLUMNS: dict[str, pa.DataType] = {
    **dict.fromkeys(("protocol", "model", "track", "scene", "condition", "status"), pa.string()),
    **dict.fromkeys(("rollouts", "valid", "nulls", "failures"), pa.int64()),
    **dict.fromkeys(("tvd", "tvd_floor", "tvd_band_low", "tvd_band_high", "tvd_p"), pa.float64()),
    **dict.fromkeys(("excess", "score", "chi_square", "chi_square_p", "p_benjamini_hochberg"), pa.float64()),
    **dict.fromkeys(("coverage", "coverage_if_q", "coverage_if_q_low", "coverage_if_q_high", "unseen_mass"), pa.float64()),
    **dict.fromkeys(("nulls_best", "nulls_worst"), pa.float64()),
    **dict.fromkeys(("tvd_low", "tvd_high", "chi_square_p_exact", "log_e", "wasserstein", "wasserstein_p"), pa.float64()),
    **dict.fromkeys(("equivalence_p", "equivalence_p_benjamini_hochberg", "anytime_low", "anytime_high"), pa.float64()),
    **{"equivalence_verdict": pa.string(), "reference_kind": pa.string()},
    **dict.fromkeys(
        (f"reference_{name}" for name in ("tvd", "floor", "p", "low", "high", "smallest", "largest")), pa.float64()
    ),
    **{"early_taken": pa.int64(), "early_reached": pa.bool_()},
    **dict.fromkeys(("early_tvd", "early_low", "early_high"), pa.float64()),
    **dict.fromkeys((f"corrected_{name}" for name in ("tvd", "floor", "bias", "low", "high")), pa.float64()),
}
"""One row a model and scene. tvd_low to tvd_high: 95 %; reference_: against the reference given; early_: when stopped early;
corrected_: for the judge's errors. Distances and coverages in 0..1; empty where the protocol has no such figure."""
SAFE = re.compile(r"[A-Za-z0-9 ._+-]{1,100}")


def rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a result's cells as flat rows with the keys `COLUMNS`."""
    found: list[dict[str, Any]] = []
    for model, entry in result.get("models", {}).items():
        found += [{"protocol": "calibench", "model": model, "scene": scene, **_cell(c)} for scene, c in entry["cells"].items()]
    swept = result.get("conditions", {"by": "", "sweeps": []})
    for sweep in swept["sweeps"]:
        shared = {"protocol": sweep["protocol"], "model": sweep["model"], "scene": sweep["scene"]}
        found += [{**shared, "condition": cell[swept["by"]], **_cell(cell)} for cell in sweep["conditions"]]
    for track, held in result.get("pawbench", {"tracks": {}})["tracks"].items():
        for model, entry in held["models"].items():
            found += [{"protocol": "pawbench", "model": model, "track": track, **_scene(scene)} for scene in entry["scenes"]]
    seen_through = {(c["protocol"], c["model"], c["scene"]): c for c in result.get("judge", {"cells": []})["cells"]}
    for row in found:
        row |= _corrected(seen_through.get((row["protocol"], row["model"], row["scene"]), {}))
    return [{name: row.get(name) for name in COLUMNS} for row in found]


def _corrected(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a cell seen through the judge; none where there is no such cell, or it was refused."""
    if "tvd" not in cell:
        return {}
    ends = {f"corrected_{end}": cell["interval"][end] for end in ("low", "high")}
    return {f"corrected_{name}": cell[name] for name in ("tvd", "floor", "bias")} | ends


def _beyond(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a cell, of either benchmark, that its user asked for beside the protocol's."""
    agreed, against, early = (cell.get(name, {}) for name in ("equivalence", "reference", "early"))
    any_low, any_high = _ends(cell.get("anytime", {}).get("interval"))
    low, high = _ends(against.get("ci95"))
    early_low, early_high = _ends(early.get("interval"))
    found = {f"equivalence_{name}": agreed.get(name) for name in ("p", "p_benjamini_hochberg", "verdict")}
    found |= {"anytime_low": any_low, "anytime_high": any_high, "reference_low": low, "reference_high": high}
    found |= {f"reference_{name}": against.get(name) for name in ("kind", "tvd", "floor", "p", "smallest", "largest")}
    found |= {f"early_{name}": early.get(name) for name in ("taken", "reached", "tvd")}
    return found | {"early_low": early_low, "early_high": early_high}


def _ends(band: list[float] | None, scale: float = 1) -> tuple[float | None, float | None]:
    return (None, None) if band is None else (band[0] / scale, band[1] / scale)


def _cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    low, high = _ends(cell["band"])
    least, most = _ends(cell.get("coverage_if_q_band95"))
    return {
        **{"rollouts": cell["N"], "valid": cell["n_valid"], "nulls": cell["N"] - cell["n_valid"], "failures": 0},
        **{"tvd": cell["tv"], "tvd_floor": cell["e0"], "tvd_band_low": low, "tvd_band_high": high},
        **{"excess": cell["excess"], "score": cell["score"], "chi_square": cell.get("chi2"), "chi_square_p": cell["p"]},
        "p_benjamini_hochberg": cell.get("p_benjamini_hochberg"),
        **{"coverage": cell.get("coverage"), "coverage_if_q": cell.get("coverage_if_q")},
        **{"coverage_if_q_low": least, "coverage_if_q_high": most},
        **{f"nulls_{end}": cell.get("nulls", {}).get(end) for end in ("best", "worst")},
        **dict(zip(("tvd_low", "tvd_high"), _ends(cell.get("tv_ci95")), strict=True)),
        **{"chi_square_p_exact": cell.get("p_exact"), "log_e": cell.get("log_e", cell.get("anytime", {}).get("log_e"))},
        **{"wasserstein": cell.get("wasserstein", {}).get("value"), "wasserstein_p": cell.get("wasserstein", {}).get("p")},
        **_beyond(cell),
    }


def _scene(scene: Mapping[str, Any]) -> dict[str, Any]:
    """Return one of PAWBench's scenes with its percents as shares."""
    calibration = scene["track"] == "calibration"
    value = _share(scene["metric"]["value"] if scene["metric"] else None)
    low, high = _ends(scene.get("band"), 100)
    least, most = _ends(scene.get("coverage_if_q_band"), 100)
    return {
        **{"scene": scene["scene_id"], "status": scene["status"], "rollouts": scene["expected_rollouts"]},
        **{"valid": scene["valid_outcomes"], "nulls": scene["null_observations"], "failures": scene["infrastructure_failures"]},
        **{"tvd": value if calibration else None, "tvd_floor": _share(scene.get("floor"))},
        **{"tvd_band_low": low, "tvd_band_high": high, "tvd_p": scene.get("p")},
        **{"coverage": _share(scene.get("coverage")) if calibration else value},
        **{"coverage_if_q": _share(scene.get("coverage_if_q")), "coverage_if_q_low": least, "coverage_if_q_high": most},
        "unseen_mass": scene.get("unseen_mass", {}).get("good_turing"),
        "p_benjamini_hochberg": scene.get("p_benjamini_hochberg"),
        **dict(zip(("tvd_low", "tvd_high"), _ends(scene.get("interval"), 100), strict=True)),
        "log_e": scene.get("anytime", {}).get("log_e"),
        **_beyond(scene),
    }


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def write_cells(result: Mapping[str, Any], out: Path) -> None:
    """Write `cells.csv` and `cells.parquet` into `out`, nothing where there is no cell."""
    flat = rows(result)
    if not flat:
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    with atomic(out / "cells.csv") as path:
        path.write_text(text.getvalue(), "utf-8")
    with atomic(out / "cells.parquet") as path:
        pq.write_table(pa.Table.from_pylist(flat, schema=pa.schema(list(COLUMNS.items()))), path)


def write_metrics(official: Mapping[str, Any], out: Path) -> None:
    """Write PAWBench's `metrics.json`."""
    with atomic(out / "metrics.json") as path:
        path.write_text(to_json(official), "utf-8")


def check_bins(labels: Labels, out: Path | None) -> None:
    """Raise `UserError` if CaliBench's bins files cannot be written: no folder, no cells, or a name that is no file's."""
    problems = []
    if out is None:
        problems.append("bins=true writes files: give out=DIR")
    if not labels.cells:
        problems.append("bins=true writes CaliBench cells, and there are none in data=")
    for model in dict.fromkeys(model for model, _ in labels.cells):
        if not SAFE.fullmatch(model):
            problems.append(f"bins=true: model {model!a} cannot be part of a file's name; use letters, digits and . _ + -")
    if problems:
        raise UserError(*problems)


def write_bins(labels: Labels, out: Path) -> None:
    """Write `bins/<scene>_<model>_bins.json` of every cell: {scene, model, num_bins, rollouts: [{seed, bin or null}]}."""
    (out / "bins").mkdir(exist_ok=True)
    for (model, scene), cells in labels.cells.items():
        content = {
            "scene": scene,
            "model": model,
            "num_bins": len(SCENES[scene].outcomes),
            "rollouts": [{"seed": seed, "bin": position} for seed, position in sorted(cells.bins.items())],
        }
        with atomic(out / "bins" / f"{scene}_{model}_bins.json") as path:
            path.write_text(to_json(content), "utf-8")
