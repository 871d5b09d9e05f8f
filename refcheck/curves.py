"""Scores against the number of rollouts K: what fewer of the slots that exist would have said.

It takes slots from labels that were read, and refuses a K above what exists; `budget` does the subsampling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from refcheck.budget import budget_curve
from refcheck.calibench import SCENES
from refcheck.command import UserError
from refcheck.labels import Labels, Row
from refcheck.metrics import FloatArray
from refcheck.policy import Policy
from refcheck.score_tables import empty_table, figure, span

DRAWS = 1_000
"""At most so many subsamples at each K."""
Slots = list[tuple[NDArray[np.int64], FloatArray]]


def sizes_of(words: str) -> list[int]:
    """Return the K's of `budget=10,20,50`. Raises `UserError` for what is no list of whole numbers of at least 1."""
    parts = [part.strip() for part in words.strip("[]").split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 8 and int(part) > 0 for part in parts):
        raise UserError(f"budget={words}: must be whole numbers of at least 1, such as budget=10,20,50")
    return sorted({int(part) for part in parts})


def calibench_slots(labels: Labels) -> dict[str, Slots]:
    """Return, by model, the slots and q of every CaliBench cell with an outcome, in the order of seeds."""
    found: dict[str, Slots] = {}
    for (model, scene), cell in labels.cells.items():
        if sum(cell.counts):
            slots = [-1 if bin is None else bin - 1 for _, bin in sorted(cell.bins.items())]
            found.setdefault(model, []).append((np.array(slots), SCENES[scene].array()))
    return found


def pawbench_slots(
    rows: Mapping[str, Mapping[str, Sequence[Row]]], evaluation: Mapping[str, Any], policy: Policy
) -> dict[str, Slots]:
    """Return, by unblocked model, the slots and q of its calibration scenes that pass at full K, in the order of repeats."""
    scenes = {scene.scene_id: scene for scene in policy.track("calibration")}
    found: dict[str, Slots] = {}
    for model, entry in evaluation["tracks"].get("calibration", {"models": {}})["models"].items():
        for held in entry["scenes"] if entry["status"] == "ok" else ():
            scene = scenes[held["scene_id"]]
            if held["status"] == "pass" and scene.q is not None:
                ordered = sorted(rows[model][scene.scene_id], key=lambda row: row.repeat)
                slots = [-1 if row.outcome_label is None else scene.outcomes.index(row.outcome_label) for row in ordered]
                found.setdefault(model, []).append((np.array(slots), np.array(scene.q)))
    return found


def evaluate(
    protocol: str,
    held: Mapping[str, Slots],
    sizes: Sequence[int],
    generator_for: Callable[[str], Generator],
    draws: int = DRAWS,
    group: int | None = None,
) -> list[dict[str, Any]]:
    """Return each model's mean TVD over its scenes at each K, in 0..1, with range and floor.

    Raises `UserError` for a K above what exists, or one that is not whole groups.
    """
    found, problems = [], []
    for model, scenes in held.items():
        most = min(slots.size for slots, _ in scenes)
        for size in sizes:
            if size > most:
                problems.append(f"budget={size}: {protocol}, model {model!a} has {most} rollouts of a scene; K is at most that")
            elif group is not None and size % group:
                problems.append(f"budget={size}: rollouts are coupled in groups of {group}; K must be whole groups")
        if not problems:
            points = budget_curve(scenes, sizes, generator_for(f"{protocol}/{model}"), draws=min(draws, DRAWS), group=group)
            found.append({"protocol": protocol, "model": model, "scenes": len(scenes), "points": [asdict(p) for p in points]})
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return found


def tables(found: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return the table of scores against K, none where there is nothing."""
    if not found:
        return []
    table = empty_table(
        "Mean TVD against the number of rollouts K",
        "Slots drawn without replacement, the scenes that pass at full K kept. Range: 95 % of subsamples. The floor rises as K "
        "falls, and TVD with it: read the two together.",
        *("protocol", "model", "scenes", "K", "mean TVD", "range", "floor"),
        left=2,
    )
    for entry in found:
        for point in entry["points"]:
            floor = None if np.isnan(point["floor"]) else point["floor"]
            table.add_row(
                entry["protocol"],
                Text(entry["model"]),
                str(entry["scenes"]),
                str(point["size"]),
                *(
                    (figure(None), "-")
                    if np.isnan(point["mean"])
                    else (figure(point["mean"]), span([point["low"], point["high"]]))
                ),
                figure(floor),
            )
    return [table]
