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
}
"""One row a model and scene. Distances and coverages in 0..1; empty where the protocol has no such figure."""
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
    return [{name: row.get(name) for name in COLUMNS} for row in found]


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
