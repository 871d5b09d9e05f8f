"""Scoring that stops early: rollouts taken in the order of their slots until each cell's distance is known well enough.

It takes slots as they were read; `anytime` keeps the intervals valid at every look, so that stopping costs no coverage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from refcheck.anytime import score_until
from refcheck.labels import Labels, Row
from refcheck.metrics import FloatArray
from refcheck.score_references import cells_of
from refcheck.score_tables import brief, empty_table, figure

ALPHA = 0.05
LOOKS = 100
"""At most so many looks a cell: fixed by how many slots there are, never by what they hold."""


def slots_of(
    labels: Labels, rows: Mapping[str, Mapping[str, Sequence[Row]]], model: str, scene: str, outcomes: tuple[str, ...]
) -> NDArray[np.int64]:
    """Return a cell's outcomes (t,) as positions in `outcomes`, -1 for a null, by seed or by repeat."""
    if (model, scene) in labels.cells:
        slots = [-1 if bin is None else bin - 1 for _, bin in sorted(labels.cells[model, scene].bins.items())]
    else:
        ordered = sorted(rows[model][scene], key=lambda row: row.repeat)
        slots = [-1 if row.outcome_label is None else outcomes.index(row.outcome_label) for row in ordered]
    return np.array(slots, np.int64)


def evaluate(
    result: Mapping[str, Any],
    labels: Labels,
    rows: Mapping[str, Mapping[str, Sequence[Row]]],
    known: Mapping[str, tuple[tuple[str, ...], FloatArray]],
    width: float,
) -> list[dict[str, Any]]:
    """Write `early` into every cell, and return them with model and scene.

    `taken` of the `slots` rollouts were looked at, `reached` says whether the 95 % interval of TVD (0..1, valid at whatever
    look one stops) came down to `width`. Where it did, `taken` rollouts would have sufficed; else all were too few.
    """
    held = []
    for model, scene, cell, _ in cells_of(result):
        outcomes, q = known[scene]
        slots = slots_of(labels, rows, model, scene, outcomes)
        early = score_until(slots, q, width, ALPHA, look=max(1, -(-slots.size // LOOKS)))
        entry = {
            "width": width,
            "alpha": ALPHA,
            "slots": int(slots.size),
            "taken": early.valid + early.nulls,
            "valid": early.valid,
            "nulls": early.nulls,
            "reached": early.stopped,
            "tvd": early.interval.tvd if early.valid else None,
            "interval": [early.interval.low, early.interval.high],
            "log_e": early.log_e_value if np.isfinite(early.log_e_value) else None,
        }
        cell["early"] = entry
        held.append({"model": model, "scene": scene, **entry})
    return held


def tables(held: list[dict[str, Any]]) -> list[Table]:
    """Return the table of how many rollouts would have sufficed, nothing without a cell."""
    if not held:
        return []
    table = empty_table(
        f"Stopping early: an interval of TVD no wider than {held[0]['width']:g}",
        f"Taken in the order of slots, with at most {LOOKS} looks. The 95 % interval is valid at whatever look one stops, and "
        "so is wider than one for a number fixed beforehand. Too few: all rollouts did not bring it to that width.",
        *("scene", "model", "sufficed", "valid", "TVD then", "95 %, anytime"),
        left=2,
    )
    for entry in held:
        table.add_row(
            Text(entry["scene"]),
            Text(entry["model"]),
            f"{entry['taken']} of {entry['slots']}" if entry["reached"] else f"too few: {entry['slots']}",
            str(entry["valid"]),
            figure(entry["tvd"]),
            brief(entry["interval"]),
        )
    return [table]
