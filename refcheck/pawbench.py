"""PAWBench's protocol over checked rows: gate, TVD or coverage of each scene, groups, tracks, matched null.

It reads no files and repairs no input. Source: Pu et al. 2026, arXiv 2608.27345.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from refcheck import metrics
from refcheck.calibench_score import COVERAGE_LIMIT, INTERVAL_DRAWS
from refcheck.coverage import coverage_null, expected_coverage, unseen
from refcheck.inference import adjust, reaches
from refcheck.intervals import tvd_interval
from refcheck.labels import Row
from refcheck.matched import compare_average, draw_tvd
from refcheck.metrics import FloatArray
from refcheck.policy import PAWBENCH, TRACKS, Expected, Policy, Rules, Track
from refcheck.resample import group_bootstrap, group_counts, quota_residual

METRIC = {"calibration": "calibration_tvd_percent", "coverage": "coverage_percent"}
OFFICIAL = {
    "track": ("status", "blockers", "models"),
    "model": ("status", "blockers", "scenes", "groups", "track_average", "scene_pass_rate"),
    "scene": (
        *("model_or_lane", "track", "scene_id", "group", "expected_rollouts", "valid_outcomes", "null_observations"),
        *("infrastructure_failures", "status", "metric"),
    ),
}
"""The keys of `pawbench.metrics/v1`; whatever else stands in ours is left out of its file."""


def evaluate(
    rows: dict[str, dict[str, list[Row]]],
    policy: Policy,
    generator_for: Callable[[str], Generator],
    draws: int = 50_000,
    step: Callable[[int], Any] = lambda count: None,
    rules: Rules = PAWBENCH,
    minimum_valid: int = 30,
) -> dict[str, Any]:
    """Return PAWBench's metrics (`pawbench.metrics/v1`) of checked rows, with floor, band and matched null beside them.

    Ours beside theirs: each calibration scene has `floor` (E0), `band` (2.5 to 97.5 % under q), both in the metric's
    percent, `p` of its TVD and the `interval` (95 %) of what endless rollouts would show, and its coverage beside the
    expectation and band under q; each coverage scene, which has no q, an estimate of the unseen mass. Rollouts that are not
    independent have none of these. Beside every p its Benjamini-Hochberg value, over all
    models' scenes, or over the models. Each calibration track has its `matched_null`, and all models' cells together, once
    whole and once from `minimum_valid` valid rollouts on, their `pooled_null`. `generator_for(name)` gives the generator of
    one scene's draws, so that no model's figures depend on another's; `step(1)` is called after each scene.
    """
    tracks: dict[str, Any] = {}
    for track in TRACKS:
        if not policy.track(track):
            continue
        pool: list[_NullCell] = []
        models = {
            model: _track(model, track, held, policy, generator_for, draws, step, rules, minimum_valid, pool)
            for model, held in rows.items()
        }
        adjust(scene for entry in models.values() for scene in entry["scenes"] if "p" in scene)
        adjust(entry["matched_null"] for entry in models.values() if entry["matched_null"])
        blockers = [blocker for entry in models.values() for blocker in entry["blockers"]]
        tracks[track] = {"status": "blocked" if blockers else "ok", "blockers": blockers, "models": models}
        if track == "calibration" and rules.sampling == "iid":
            tracks[track]["pooled_null"] = [_pooled(pool, least) for least in dict.fromkeys((1, minimum_valid))]
    blockers = [blocker for entry in tracks.values() for blocker in entry["blockers"]]
    return {
        "schema_version": "pawbench.metrics/v1",
        "status": "blocked" if blockers else "ok",
        "blockers": blockers,
        "tracks": tracks,
        "gate": rules.described(),
        "sampling": rules.sampling + (f" in groups of {rules.group}" if rules.sampling == "coupled" else ""),
        "partial": rules.partial,
    }


def official(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return what `metrics.json` holds: the keys of `pawbench.metrics/v1` alone."""

    def model(entry: dict[str, Any]) -> dict[str, Any]:
        scenes = [{key: scene[key] for key in OFFICIAL["scene"]} for scene in entry["scenes"]]
        return {key: entry[key] for key in OFFICIAL["model"]} | {"scenes": scenes}

    def track(entry: dict[str, Any]) -> dict[str, Any]:
        models = {name: model(held) for name, held in entry["models"].items()}
        return {key: entry[key] for key in OFFICIAL["track"]} | {"models": models}

    tracks = {name: track(held) for name, held in evaluation["tracks"].items()}
    return {key: evaluation[key] for key in ("schema_version", "status", "blockers")} | {"tracks": tracks}


@dataclass(frozen=True)
class _NullCell:
    """One passing cell: valid rollouts, observed TVD in percent, and the TVD (draws,) of models that draw as many from q."""

    valid: int
    observed: float
    null: FloatArray


def _track(
    model: str,
    track: Track,
    held: dict[str, list[Row]],
    policy: Policy,
    generator_for: Callable[[str], Generator],
    draws: int,
    step: Callable[[int], Any],
    rules: Rules,
    minimum_valid: int,
    pool: list[_NullCell],
) -> dict[str, Any]:
    """Score one model on one track, adding its calibration cells to `pool`. One failure leaves every aggregate null."""
    scenes = policy.track(track)
    blockers: list[dict[str, Any]] = []
    entries, nulls = [], list[_NullCell]()
    for scene in scenes:
        kinds = Counter(row.observation for row in held[scene.scene_id])
        seen = Counter(row.outcome_label for row in held[scene.scene_id] if row.outcome_label is not None)
        counts = [seen[label] for label in scene.outcomes]
        failures = [row for row in held[scene.scene_id] if row.observation == "infrastructure_failure"]
        blockers += [
            {
                "model_or_lane": model,
                "track": track,
                "scene_id": scene.scene_id,
                "repeat_index": row.repeat,
                "failure_code": row.failure_code,
            }
            for row in failures
        ]
        limit = rules.limit(len(scene.repeats))
        passes = bool(metrics.passes_gate(kinds["null_observation"], limit)) and sum(counts) > 0
        entry: dict[str, Any] = {
            "model_or_lane": model,
            "track": track,
            "scene_id": scene.scene_id,
            "group": scene.group,
            "expected_rollouts": len(scene.repeats),
            "valid_outcomes": sum(counts),
            "null_observations": kinds["null_observation"],
            "infrastructure_failures": len(failures),
            "status": "blocked" if failures else "pass" if passes else "fail",
            "metric": None,
            "counts": dict(zip(scene.outcomes, counts, strict=True)),
        }
        if entry["status"] == "pass":
            value = metrics.coverage(counts) if scene.q is None else metrics.tvd(counts, scene.q)
            entry["metric"] = {"name": METRIC[track], "value": _percent(value)}
            if rules.sampling != "iid":
                entry |= _without_independence(held[scene.scene_id], scene, rules, generator_for(f"{model}/{scene.scene_id}"))
            elif scene.q is not None:
                null = draw_tvd(sum(counts), scene.q, generator_for(f"{model}/{scene.scene_id}"), draws)
                entry |= _beside_tvd(counts, scene.q, float(value), null)
                redraws = generator_for(f"{model}/{scene.scene_id}/interval")
                interval = tvd_interval(counts, scene.q, redraws, min(draws, INTERVAL_DRAWS))
                entry["interval"] = [_percent(interval.low), _percent(interval.high)]
                nulls.append(_NullCell(sum(counts), entry["metric"]["value"], null))
            else:
                mass = unseen(counts)
                entry["unseen_mass"] = {"good_turing": float(mass.mass), "chao_jost": float(mass.mass_refined)}
                entry["chao1"] = float(mass.richness)
        entries.append(entry)
        step(1)
    passing = [entry for entry in entries if entry["status"] == "pass"]
    groups = {}
    for group in dict.fromkeys(scene.group for scene in scenes if scene.group is not None):
        mine = [entry for entry in passing if entry["group"] == group]
        groups[group] = {
            "passing_scenes": len(mine),
            "scene_denominator": sum(scene.group == group for scene in scenes),
            "metric": None if blockers else _mean(mine, track),
        }
    average = None if blockers else _mean(passing, track)
    pool += [] if blockers else nulls
    return {
        "status": "blocked" if blockers else "ok",
        "blockers": blockers,
        "scenes": entries,
        "groups": groups,
        "track_average": average,
        "matched_null": _matched_null(nulls) if average and nulls else None,
        "matched_null_from": _pooled(nulls, minimum_valid) if average and nulls else None,
        "scene_pass_rate": {
            "passing_scenes": None if blockers else len(passing),
            "scene_denominator": len(scenes),
            "value": None if blockers else round(metrics.scene_pass_rate(len(passing), len(scenes)), 12),
        },
    }


def _beside_tvd(counts: list[int], q: Sequence[float], value: float, null: FloatArray) -> dict[str, Any]:
    """Return what stands beside a scene's TVD when its rollouts are independent; `null` holds TVDs (draws,) under q."""
    n = sum(counts)
    covered = coverage_null(counts, q) if n <= COVERAGE_LIMIT else None
    return {
        "floor": _percent(metrics.expected_tvd(n, q)),
        "band": [_percent(end) for end in np.quantile(null, [0.025, 0.975])],
        "p": (int(reaches(null, value).sum()) + 1) / (null.size + 1),
        "draws": null.size,
        "coverage": _percent(metrics.coverage(counts)),
        "coverage_if_q": _percent(expected_coverage(n, q)),
        "coverage_if_q_band": [_percent(covered.low), _percent(covered.high)] if covered else None,
    }


def _without_independence(rows: Sequence[Row], scene: Expected, rules: Rules, generator: Generator) -> dict[str, Any]:
    """Return what may stand beside a TVD of quota or coupled rollouts: no floor, band or p, which assume independence.

    A quota set: the rounding that a perfect judge would score. Coupled groups (consecutive repeats): an interval from whole
    groups resampled. Nothing for coverage, which has no reference.
    """
    if scene.q is None:
        return {}
    if rules.sampling == "quota":
        return {"quota_residual": _percent(quota_residual(scene.q, len(rows)))}
    position = {label: index for index, label in enumerate(scene.outcomes)}
    slots = [-1 if r.outcome_label is None else position[r.outcome_label] for r in sorted(rows, key=lambda r: r.repeat)]
    interval = group_bootstrap(group_counts(slots, len(position), rules.group), scene.q, generator)
    return {"interval_groups": [_percent(interval.low), _percent(interval.high)]}


def _percent(value: Any) -> float:
    return round(100 * float(value), 12)


def _mean(entries: list[dict[str, Any]], track: Track) -> dict[str, Any] | None:
    values = [entry["metric"]["value"] for entry in entries]
    return {"name": METRIC[track], "value": round(float(np.mean(values)), 12)} if values else None


def _matched_null(cells: Sequence[_NullCell]) -> dict[str, Any]:
    """Compare a mean TVD with models that draw the same n from every q, in percent (`matched.compare_average`)."""
    found = compare_average([cell.observed / 100 for cell in cells], np.stack([cell.null for cell in cells]))
    return {"mean": 100 * found.mean, "q99": 100 * found.q99, "draws": found.draws, "p": found.p}


def _pooled(pool: Sequence[_NullCell], least: int) -> dict[str, Any]:
    """Pool the cells that have at least `least` valid rollouts, each cell weighing the same."""
    cells = [cell for cell in pool if cell.valid >= least]
    if not cells:
        return {"minimum_valid": least, "cells": 0, "observed": None}
    observed = float(np.mean([cell.observed for cell in cells]))
    return {"minimum_valid": least, "cells": len(cells), "observed": observed, **_matched_null(cells)}
