"""A panel of people beside a judge: decisive labels, the comparable set, agreement by consensus, and reliability.

It reads what was voted and knows no reference: agreement says nothing of whether a model is calibrated.

Sources: CaliBench's human check (Sadeghi et al. 2026, arXiv 2608.16829); PAWBench's human study (Pu et al. 2026,
arXiv 2608.27345): seven votes a clip, decisive where one answer other than "cannot tell" is the unique mode.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
from rich.table import Table
from sklearn.metrics import cohen_kappa_score

from refcheck.score_tables import empty_table
from refcheck.untrusted import Problems, read_text, shown

CANNOT_TELL = "cannot tell"
NULL = "(no outcome)"
"""What an empty cell of `human` and `vlm` means, as a label that agreement is computed over."""
KEY = ("scene", "model", "seed")
STRATA = ((1, 2), (3, 4), (5, 5), (6, 7))
"""Votes for the decisive label that make a stratum, PAWBench's three and one below; more votes are their own."""


@dataclass(frozen=True)
class Clip:
    """One clip: `votes` of the panel (labels, `CANNOT_TELL` or, from a single labeller, `NULL`) and the judge's label.

    `judge` is `NULL` where the judge gave no outcome.
    """

    name: str
    votes: tuple[str, ...]
    judge: str


def decisive(votes: Sequence[str]) -> str | None:
    """Return the unique mode of the votes, unless it is "cannot tell" or shared; then None."""
    ranked = Counter(votes).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]) or ranked[0][0] == CANNOT_TELL:
        return None
    return ranked[0][0]


def stratum(votes: Sequence[str]) -> str:
    """Return the consensus stratum of a decisive clip: how many votes its label has."""
    count = Counter(votes).most_common(1)[0][1]
    low, high = next(((low, high) for low, high in STRATA if low <= count <= high), (count, count))
    return f"{low}" if low == high else f"{low} to {high}"


def read_panel(path: Path) -> list[Clip]:
    """Read a panel's CSV: scene, model, seed, vlm (the judge), and either `human` or `human_1`, `human_2`, ...

    With one labeller an empty `human` is a rollout without an outcome. With several an empty cell is a vote not cast and
    `cannot tell` a vote; every clip needs one. An empty `vlm` is a null of the judge. Raises `UserError` with everything
    wrong: unknown, missing or doubled columns, a clip that occurs twice, a line of other length, an empty file.
    """
    problems = Problems()
    text = read_text(path, problems)
    problems.check()
    reader = csv.reader(io.StringIO(text or "", newline=""), strict=True)
    clips, first = list[Clip](), dict[tuple[str, ...], int]()
    try:
        header = next(reader)
        panel = [name for name in header if re.fullmatch(r"human(_[0-9]+)?", name)]
        fine = set(header) == {*KEY, "vlm", *panel} and len(set(header)) == len(header)
        if not fine or not panel or ("human" in panel and len(panel) > 1):
            problems.add(
                f"{path}, line 1",
                f"columns must be {','.join(KEY)},vlm and either human or human_1, human_2, ...; got {shown(header, 120)}",
            )
            problems.check()
        for fields in reader:
            if not fields:
                continue
            where = f"{path}, line {reader.line_num}"
            if len(fields) != len(header):
                problems.add(where, f"has {len(fields)} fields, the header has {len(header)}")
                continue
            row = dict(zip(header, (field.strip() for field in fields), strict=True))
            key = tuple(row[name] for name in KEY)
            if not all(key):
                problems.add(where, f"{', '.join(KEY)} must all be given, got {shown(key)}")
            if first.setdefault(key, reader.line_num) != reader.line_num:
                problems.add(where, f"clip {shown(key)} occurs twice, first in line {first[key]}")
            cast = [row[name] for name in panel if row[name]]
            if panel == ["human"]:
                cast = [row["human"] or NULL]
            elif not cast:
                problems.add(where, f"clip {shown(key)} has no vote; `{CANNOT_TELL}` is one")
            clips.append(Clip("/".join(key), tuple(cast), row["vlm"] or NULL))
    except csv.Error as error:
        problems.add(f"{path}, line {reader.line_num}", f"is not CSV: {error}")
    if not clips and not problems.found:
        problems.add(path, "has a header and no clips")
    problems.check()
    return clips


def agreement(clips: Sequence[Clip]) -> dict[str, Any]:
    """Return what the judge does against the panel's decisive labels.

    `comparable`: clips with a decisive label that is an outcome and a judge in schema (PAWBench). Over all decisive clips,
    nulls among them: `agree`, `false_null` (the panel saw an outcome, the judge none), `missed_null` (the reverse) and
    `wrong_label` (CaliBench). Cohen's kappa is of judge and decisive label with the null as a label; Krippendorff's alpha
    (nominal) of the panel, over its votes with "cannot tell" as a label, NaN with one labeller or with one label in all.
    """
    settled = [(clip, label) for clip in clips if (label := decisive(clip.votes)) is not None]
    outcome = [(clip, label) for clip, label in settled if label != NULL]
    comparable = [(clip, label) for clip, label in outcome if clip.judge != NULL]
    strata: dict[str, list[bool]] = {}
    for clip, label in comparable:
        strata.setdefault(stratum(clip.votes), []).append(clip.judge == label)
    return {
        "clips": len(clips),
        "votes": sum(len(clip.votes) for clip in clips),
        "decisive": len(settled),
        "agree": sum(clip.judge == label for clip, label in settled),
        "panel_outcomes": len(outcome),
        "judge_in_schema": sum(clip.judge != NULL for clip in clips),
        "false_null": sum(clip.judge == NULL for clip, _ in outcome),
        "missed_null": sum(label == NULL and clip.judge != NULL for clip, label in settled),
        "wrong_label": sum(clip.judge != label for clip, label in comparable),
        "comparable": len(comparable),
        "comparable_agree": sum(clip.judge == label for clip, label in comparable),
        "strata": {
            name: {"comparable": len(held), "agree": sum(held)}
            for name, held in sorted(strata.items(), key=lambda item: int(item[0].split()[0]))
        },
        "cohen_kappa": _kappa([label for _, label in settled], [clip.judge for clip, _ in settled]),
        "krippendorff_alpha": _alpha(clips),
    }


def _kappa(panel: Sequence[str], judge: Sequence[str]) -> float:
    # With one label in all, agreement by chance is certain and kappa is 0/0.
    return float(cohen_kappa_score(panel, judge)) if len({*panel, *judge}) > 1 else nan


def _alpha(clips: Sequence[Clip]) -> float:
    """Return Krippendorff's alpha of the panel. The votes are nominal, so who cast which does not matter."""
    labels = {label: index for index, label in enumerate(sorted({vote for clip in clips for vote in clip.votes}))}
    if max((len(clip.votes) for clip in clips), default=0) < 2 or len(labels) < 2:
        return nan
    counts = np.zeros((len(clips), len(labels)), np.int64)
    for row, clip in enumerate(clips):
        for vote in clip.votes:
            counts[row, labels[vote]] += 1
    return float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal"))


def tables(result: dict[str, Any]) -> list[Table]:
    """Return the agreement as a table, and its strata where votes were several."""
    table = empty_table(
        "Judge against people",
        "Exact agreement over all clips with a decisive label, no outcome among the labels. False null: people saw an "
        "outcome, the judge none.",
        *("clips", "decisive", "agree", "false nulls", "missed nulls", "wrong label", "kappa", "alpha"),
        left=0,
    )
    table.add_row(
        str(result["clips"]),
        str(result["decisive"]),
        f"{result['agree']} of {result['decisive']}",
        f"{result['false_null']} of {result['panel_outcomes']}",
        str(result["missed_null"]),
        str(result["wrong_label"]),
        *(_dash(result[key]) for key in ("cohen_kappa", "krippendorff_alpha")),
    )
    if result["votes"] == result["clips"]:
        return [table]
    strata = empty_table(
        f"Agreement by consensus: {result['comparable_agree']} of {result['comparable']} comparable clips",
        "Comparable: decided by the panel for an outcome, and the judge gave one.",
        *("votes for the label", "agree"),
    )
    for name, held in result["strata"].items():
        strata.add_row(name, f"{held['agree']} of {held['comparable']}")
    return [table, strata]


def _dash(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"
