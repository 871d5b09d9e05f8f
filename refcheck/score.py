"""The verb `score`: published figures of a model from its outcome labels, each beside its finite-sample floor and null band.

It reads labels and references, never a clip; it knows no judge's error, and says nothing of why a model misses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from refcheck import metrics, pawbench
from refcheck.calibench import ROLLOUTS, SCENES
from refcheck.command import Answer, Option, Request, UserError
from refcheck.inference import PValue, benjamini_hochberg, draw_null, monte_carlo_p_value, percentile_bootstrap_mntv
from refcheck.labels import RECOGNISED, Labels, read_labels
from refcheck.metrics import Cell, FloatArray
from simulators.sampling import VALUES, generator

SUMMARY = "Score outcome labels (CaliBench's or PAWBench's) beside the floor and band that chance alone gives."
USES_SCENES = False
OPTIONS = (
    Option("data", "path", ..., f"the labels: {RECOGNISED}"),
    Option("policy", "path", None, "PAWBench's scene policy (JSON): what rows.jsonl is held to"),
    Option("package", "path", None, "PAWBench's package (a folder with scenes.jsonl), instead of policy="),
    Option("partial", "bool", False, "score a PAWBench policy that has not 25 scenes a track and 50 repeats"),
    Option("draws", "int", 50_000, "Monte-Carlo draws of each null and of the bootstrap", low=1_000, high=1_000_000),
    Option("rate", "float", 0.05, "false-discovery rate of the tests over all cells", low=1e-6, high=0.5),
    Option("seed", "int", 0, "seed of the Monte-Carlo draws", low=0, high=2**64 - 1),
)
Step = Callable[[int], Any]
MODELS_IN_FULL = 3
"""PAWBench models whose scenes are printed; the result holds all of them."""


@dataclass(frozen=True)
class _Scored:
    """One CaliBench cell with its null; `null` holds the scores (draws,) of a model that has the same n and is q."""

    cell: Cell
    band: tuple[float, float] | None
    p: PValue | None
    null: FloatArray


def run(request: Request) -> Answer:
    """Score what `data` holds. Raises `UserError` for anything in it, or beside it, that may not stand."""
    values = request.values
    labels = read_labels(Path(values["data"]))
    policy = _policy(labels, values)
    rows = pawbench.check_rows(labels.rows, policy) if policy else {}
    result: dict[str, Any] = {
        "protocols": {},
        "inputs": labels.files,
        "ignored": labels.ignored,
        "draws": values["draws"],
        "models": {},
    }
    tables: list[Any] = []
    steps = 2 * len(labels.cells) + len(rows) * (len(policy.scenes) if policy else 0)
    with request.progress("score", steps) as advance:
        if labels.cells:
            result["protocols"]["calibench"] = "arXiv 2608.16829"
            result["models"], result["tests"] = _calibench(labels, values, advance)
            tables += [_model_table(result["models"]), *_cell_tables(result["models"], result["tests"])]
        if policy:
            streams = lambda name: _generator(values["seed"], f"pawbench/{name}")  # noqa: E731
            result["pawbench"] = pawbench.evaluate(rows, policy, streams, values["draws"], advance)
            result["protocols"]["pawbench"] = "arXiv 2608.27345"
            result["pawbench"]["partial"] = values["partial"]
            tables += _track_tables(result["pawbench"])
    return Answer(result, tables)


def _policy(labels: Labels, values: Any) -> pawbench.Policy | None:
    given = [name for name in ("policy", "package") if values[name] is not None]
    if not labels.rows:
        if given:
            raise UserError(
                f"{given[0]}={values[given[0]]} is for PAWBench rows, and data={values['data']} holds none: leave it out"
            )
        return None
    if len(given) != 1:
        raise UserError(
            f"data={values['data']} holds PAWBench rows, which do not say their reference: give policy=FILE or package=FOLDER"
            + (", not both" if given else "")
        )
    reader = pawbench.read_policy if given == ["policy"] else pawbench.read_package
    return reader(Path(values[given[0]]), values["partial"])


def _generator(seed: int, name: str) -> Generator:
    """Return the generator of one cell's draws: no cell's figures depend on which other cells were read."""
    return generator(seed, "score", name, 0, VALUES)


def _calibench(labels: Labels, values: Any, advance: Step) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the models' figures, and what the tests over all testable cells say."""
    scored: dict[str, dict[str, _Scored]] = {}
    for model in dict.fromkeys(model for model, _ in labels.cells):
        scored[model] = {}
        for scene in (scene for scene in SCENES if (model, scene) in labels.cells):
            scored[model][scene] = _score_cell(labels, model, scene, values)
            advance(1)
    flat = [(model, scene, item.p) for model, cells in scored.items() for scene, item in cells.items()]
    adjusted = benjamini_hochberg([np.nan if p is None else p.value for _, _, p in flat])
    testable = sum(p is not None for _, _, p in flat)
    q_values = {(model, scene): float(value) for (model, scene, _), value in zip(flat, adjusted, strict=True)}
    models = {}
    for model, cells in scored.items():
        models[model] = {
            "mntv": _mntv(model, cells, values),
            "cells": {
                scene: _cell_result(scene, item, q_values[model, scene], testable, values["rate"])
                for scene, item in cells.items()
            },
        }
        advance(len(cells))
    every = [cell for entry in models.values() for cell in entry["cells"].values()]
    tests = {
        "testable": testable,
        "rate": values["rate"],
        "rejected_benjamini_hochberg": sum(cell["rejected"] is True for cell in every),
        "rejected_bonferroni": sum(cell["rejected_bonferroni"] is True for cell in every),
    }
    return models, tests


def _score_cell(labels: Labels, model: str, scene: str, values: Any) -> _Scored:
    held, q = labels.cells[model, scene], SCENES[scene].array()
    cell = metrics.cell(held.counts, held.nulls, q)
    if cell.valid == 0:
        return _Scored(cell, None, None, np.ones(values["draws"]))
    null = draw_null(cell.valid, q, _generator(values["seed"], f"null/{model}/{scene}"), values["draws"])
    p = monte_carlo_p_value(held.counts, q, null) if cell.testable else None
    return _Scored(cell, null.band(), p, metrics.score(cell.rho, metrics.excess_tvd(null.tvd, cell.e0)))


def _mntv(model: str, cells: dict[str, _Scored], values: Any) -> dict[str, Any]:
    """Return mnTV with its published bootstrap interval and what the same nulls would give if every outcome came from q."""
    interval = percentile_bootstrap_mntv(
        [(item.cell.counts, item.cell.total - item.cell.valid, SCENES[scene].array()) for scene, item in cells.items()],
        _generator(values["seed"], f"bootstrap/{model}"),
        values["draws"],
    )
    null = np.mean([item.null for item in cells.values()], axis=0)
    missing = [scene for scene in SCENES if scene not in cells]
    odd = [
        f"{scene} has {item.cell.total} rollouts, not {ROLLOUTS}"
        for scene, item in cells.items()
        if item.cell.total != ROLLOUTS
    ]
    return {
        "value": float(metrics.mntv([item.cell.score for item in cells.values()])),
        "ci95": [interval.low, interval.high],
        "ci_method": "percentile bootstrap, nulls redrawn too (as published; it need not be centred on the value)",
        "if_q": float(null.mean()),
        "if_q_band95": [float(end) for end in np.quantile(null, [0.025, 0.975])],
        "scenes": len(cells),
        "partial": bool(missing),
        "missing": missing,
        "notes": odd,
    }


def _cell_result(scene: str, item: _Scored, adjusted: float, testable: int, rate: float) -> dict[str, Any]:
    cell, p = item.cell, item.p
    return {
        "N": cell.total,
        "n_valid": cell.valid,
        "rho": cell.rho,
        "outcomes": list(SCENES[scene].outcomes),
        "q": [str(share) for share in SCENES[scene].q],
        "counts": list(cell.counts),
        "tv": _number(cell.tvd),
        "e0": _number(cell.e0),
        "band": list(item.band) if item.band else None,
        "excess": _number(cell.excess),
        "score": cell.score,
        "chi2": _number(cell.chi_square),
        "p": p.value if p else None,
        "p_reached": p.reached if p else None,
        "p_benjamini_hochberg": _number(adjusted),
        "rejected": adjusted < rate if p else None,
        "rejected_bonferroni": p.value * testable < rate if p else None,
    }


def _number(value: float) -> float | None:
    """Return a number JSON can hold: NaN, which is unscored, becomes null."""
    return value if isfinite(value) else None


def _figure(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


def _range(ends: list[float] | None, form: str = ".3f") -> str:
    return "-" if ends is None else f"{ends[0]:{form}} to {ends[1]:{form}}"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def _table(title: str, caption: str, *columns: str, left: int = 1) -> Table:
    """Return an empty table for 100 columns, the first `left` of its columns words and the others figures."""
    table = Table(title=Text(title), caption=Text(caption), title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", no_wrap=index >= left, overflow="fold")
    return table


def _model_table(models: dict[str, Any]) -> Table:
    means = {name: entry["mntv"] for name, entry in models.items()}
    missing = [f"{name} lacks {', '.join(mean['missing'])}." for name, mean in means.items() if mean["partial"]]
    odd = [f"{name}: {'; '.join(mean['notes'])}." for name, mean in means.items() if mean["notes"]]
    table = _table(
        "CaliBench: mnTV, 0 is calibrated and 1 the worst",
        "95 %: the published bootstrap, which need not be centred. If q: the mean and 95 % range of a model with the same "
        "nulls whose every outcome came from q. " + " ".join(missing + odd),
        *("model", "mnTV", "95 %", "if q", "if q, 95 %", "scenes"),
    )
    for name, mntv in sorted(means.items(), key=lambda item: item[1]["value"]):
        table.add_row(
            Text(name),
            _figure(mntv["value"], ".4f"),
            _range(mntv["ci95"]),
            _figure(mntv["if_q"]),
            _range(mntv["if_q_band95"]),
            f"{mntv['scenes']} of {len(SCENES)}" + (", partial" if mntv["partial"] else ""),
        )
    return table


def _cell_tables(models: dict[str, Any], tests: dict[str, Any]) -> list[Table]:
    """Return one table of scenes a model."""
    tables = []
    for model, entry in models.items():
        table = _table(f"CaliBench: {model} by scene", "", *("scene", "n/N", "TV", "floor", "band", "excess", "score", "p"))
        for scene, cell in entry["cells"].items():
            table.add_row(
                scene,
                f"{cell['n_valid']}/{cell['N']}",
                _figure(cell["tv"]),
                _figure(cell["e0"]),
                _range(cell["band"]),
                _figure(cell["excess"]),
                _figure(cell["score"]),
                _p(cell["p"]) + ("*" if cell["rejected"] else " "),
            )
        tables.append(table)
    tables[-1].caption = Text(
        "n/N: rollouts that ended in an outcome. TV beside its floor (its mean if q holds) and band (95 % if q holds). "
        f"* p rejects q at false-discovery rate {tests['rate']:g}: {tests['rejected_benjamini_hochberg']} of "
        f"{tests['testable']} testable cells, {tests['rejected_bonferroni']} by Bonferroni."
    )
    return tables


def _track_tables(evaluation: dict[str, Any]) -> list[Table]:
    """Return a table of models for each track, and for calibration the scenes of a few models with floors and bands."""
    tables = []
    for track, held in evaluation["tracks"].items():
        calibration = track == "calibration"
        figure = "TVD %" if calibration else "coverage %"
        table = _table(
            f"PAWBench {track}: mean {figure} over passing scenes",
            (
                "If q: mean and 99 % quantile of models that draw the same n from every q; p against them. "
                if calibration
                else ""
            )
            + "A model is blocked by an infrastructure failure, which is no outcome: judge that clip again.",
            *("model", figure, *(("if q", "if q, 99 %", "p") if calibration else ()), "scenes passing"),
        )
        for model, entry in held["models"].items():
            null, rate, average = entry["matched_null"] or {}, entry["scene_pass_rate"], entry["track_average"]
            expected = [_figure(null.get("mean"), ".2f"), _figure(null.get("q99"), ".2f"), _p(null.get("p"))]
            table.add_row(
                Text(model),
                _figure(average["value"] if average else None, ".2f"),
                *(expected if calibration else []),
                f"blocked by {len(entry['blockers'])}"
                if entry["blockers"]
                else f"{rate['passing_scenes']} of {rate['scene_denominator']}",
            )
        tables.append(table)
        if calibration:
            tables += [_scene_table(model, entry) for model, entry in list(held["models"].items())[:MODELS_IN_FULL]]
            if len(held["models"]) > MODELS_IN_FULL:
                tables[-1].caption = Text("The scenes of the other models are in result.json (out=DIR).")
    return tables


def _scene_table(model: str, entry: dict[str, Any]) -> Table:
    table = _table(
        f"PAWBench calibration: {model} by scene",
        "TVD beside its floor (its mean if q holds) and band (95 % if q holds), all x100.",
        *("scene", "status", "valid", "nulls", "TVD %", "floor", "band"),
        left=2,
    )
    for scene in entry["scenes"]:
        table.add_row(
            Text(scene["scene_id"]),
            scene["status"],
            str(scene["valid_outcomes"]),
            str(scene["null_observations"]),
            _figure(scene["metric"]["value"] if scene["metric"] else None, ".2f"),
            _figure(scene.get("floor"), ".2f"),
            _range(scene.get("band"), ".1f"),
        )
    return table
