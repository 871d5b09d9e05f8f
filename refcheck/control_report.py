"""What a judge may be used for: its errors on clips of known truth, and what they do to a score that it is asked for.

Pure functions of opened readings. It refuses to know who read them, and counts no machine's failure as an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import beta

from refcheck import metrics
from refcheck.blind import Opened
from refcheck.damage import KINDS, WITHOUT_OUTCOME
from refcheck.inference import draw_null
from refcheck.matched import draw_tvd
from refcheck.metrics import MAXIMUM_NULLS, FloatArray
from refcheck.power import contaminated
from simulators.sampling import generator

NULL = "null"
RIGHT, SURE, ABSTAINED, ANSWERED = 0.99, 0.95, 0.05, 0.05
"""A judge is usable where at least this share of its answers is right, the lower 95 % bound of that share is at least `SURE`,
and it abstains from no more clean clips and answers no more unreadable ones than this."""
K, ALPHA, POWER = 50, 0.05, 0.8
"""The score that is asked for: PAWBench's 50 clips, a test of this level, and the power with which a tilt must be seen."""
DRAWS = 4_000
STEP = 0.005
"""Half a percent: how finely the smallest tilt is found."""
DISTRUST = ("UNTRUSTED", "QUESTIONABLE")


def interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the two-sided interval of a share, `hits` of `n` (Clopper and Pearson 1934); 0 to 1 where n is 0."""
    side = (1 - level) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(side, hits, n - hits + 1))
    return low, 1.0 if hits == n else float(beta.ppf(1 - side, hits + 1, n - hits))


def lower_bound(hits: int, n: int, level: float = 0.95) -> float:
    """Return the one-sided lower bound of a share, `hits` of `n` (Clopper and Pearson 1934)."""
    return 0.0 if hits == 0 else float(beta.ppf(1 - level, hits, n - hits + 1))


def upper_bound(hits: int, n: int, level: float = 0.95) -> float:
    """Return the one-sided upper bound of a share, `hits` of `n` (Clopper and Pearson 1934)."""
    return 1.0 if hits == n else float(beta.ppf(level, hits + 1, n - hits))


def clean(opened: Sequence[Opened]) -> list[Opened]:
    """Return the clips that were not damaged and could be put before the judge."""
    return [one for one in opened if one.failure is None and not one.sealed.kind]


def confusion(outcomes: Sequence[str], opened: Sequence[Opened]) -> NDArray[np.int64]:
    """Return counts (k, k + 1) of true outcome by reading over clean clips, the last column null. Failures are in no cell."""
    order = list(outcomes)
    table = np.zeros((len(order), len(order) + 1), np.int64)
    for one in clean(opened):
        if one.sealed.truth is not None:
            column = len(order) if one.reading is None else order.index(one.reading)
            table[order.index(one.sealed.truth), column] += 1
    return table


def check(outcomes: Sequence[str], opened: Sequence[Opened], table: NDArray[np.int64]) -> list[str]:
    """Return what is wrong with a confusion matrix: rows that are not the true counts, columns that are not the readings."""
    held, told = clean(opened), list[str]()
    truth = Counter(one.sealed.truth for one in held)
    said = Counter(one.reading for one in held)
    if table[:, :-1].sum(axis=0).tolist() != [said[label] for label in outcomes] or int(table[:, -1].sum()) != said[None]:
        told.append("its columns are not the counts of what was read")
    if table.sum(axis=1).tolist() != [truth[label] for label in outcomes]:
        told.append("its rows are not the counts of what is true")
    return told


def figures(outcomes: Sequence[str], q: FloatArray, table: NDArray[np.int64], draws: Generator) -> dict[str, Any]:
    """Return every figure of a score that follows from truth and readings: distances, floors, bands, CaliBench's score."""
    true_counts, read_counts, nulls = table.sum(axis=1), table[:, :-1].sum(axis=0), int(table[:, -1].sum())
    answered, total = int(read_counts.sum()), int(table.sum())
    truth, seen = metrics.cell(true_counts, 0, q), metrics.cell(read_counts, nulls, q)

    def band(n: int) -> tuple[float, float]:
        return draw_null(n, q, draws).band() if n else (float("nan"), float("nan"))

    return {
        "truth": {"counts": true_counts},
        "confusion": table,
        "confusion_columns": [*outcomes, NULL],
        "accuracy": float(np.trace(table[:, :-1])) / answered if answered else float("nan"),
        "answered": answered,
        "abstained": nulls / total if total else float("nan"),
        "tvd_truth": truth.tvd,
        "tvd_judged": seen.tvd,
        "floor": truth.e0,
        "floor_judged": seen.e0,
        "band": band(truth.valid),
        "band_judged": band(seen.valid),
        "score_truth": truth.score,
        "score_judged": seen.score,
    }


def by_outcome(outcomes: Sequence[str], table: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return for each outcome how often it was shown, answered and right, with the lower 95 % bound of right of answered.

    Of a cell of the matrix, `cells` has the share of the row with its 95 % interval.
    """
    rows = []
    for k, label in enumerate(outcomes):
        clips, answered, right = int(table[k].sum()), int(table[k, :-1].sum()), int(table[k, k])
        cells = [{"share": int(n) / clips if clips else None, "interval": interval(int(n), clips)} for n in table[k]]
        row = {"outcome": label, "clips": clips, "answered": answered, "right": right}
        rows.append(row | {"lower": lower_bound(right, answered) if answered else None, "cells": cells})
    return rows


def by_kind(opened: Sequence[Opened]) -> dict[str, Any]:
    """Return for each way of damage what was read: answered, right, null by cause, and what the audit made of it."""
    told: dict[str, Any] = {}
    for kind in KINDS:
        held = [one for one in opened if one.sealed.kind == kind and one.failure is None]
        if not held:
            continue
        answered = [one for one in held if one.reading is not None]
        row: dict[str, Any] = {"family": KINDS[kind].family, "clips": len(held), "answered": len(answered)}
        row["right"] = sum(one.reading == one.sealed.truth and one.reading is not None for one in held)
        row["nulls"] = dict(Counter(one.null for one in held if one.reading is None))
        row["right_cause"] = sum(one.reading is None and one.null == one.sealed.null for one in held)
        row["answered_interval"] = interval(len(answered), len(held))
        audited = [one for one in held if one.trust is not None]
        if audited and KINDS[kind].family == "broken":
            caught = sum((one.trust or {}).get("status") in DISTRUST for one in audited)
            axis = sum((one.trust or {}).get(KINDS[kind].axis) == "FAIL" for one in audited)
            row["audit"] = {"clips": len(audited), "distrusted": caught, "right_axis": axis, "axis": KINDS[kind].axis,
                            "interval": interval(caught, len(audited))}  # fmt: skip
        told[kind] = row
    return told


def false_alarms(opened: Sequence[Opened]) -> dict[str, Any]:
    """Return how often the audit distrusted a clean clip, and by which axis. Empty where no clip was audited."""
    audited = [one.trust for one in clean(opened) if one.trust is not None]
    if not audited:
        return {}
    alarms = sum(trust.get("status") in DISTRUST for trust in audited)
    axes = Counter(axis for trust in audited for axis, said in trust.items() if said == "FAIL")
    return {"clips": len(audited), "alarms": alarms, "interval": interval(alarms, len(audited)), "by_axis": dict(axes)}


@dataclass(frozen=True)
class Stack:
    """What a score of K clips makes of this judge's errors, and of none.

    `tvd` is the mean TVD that a perfect model is reported with and `floor` that with a perfect judge; `alarm` how often it is
    rejected at level `ALPHA`; `tilt` the smallest TVD from q towards `toward` that is rejected with power `POWER`, and
    `tilt_perfect` that with a perfect judge. NaN where no tilt is seen.
    """

    toward: str
    tvd: float
    floor: float
    alarm: float
    tilt: float
    tilt_perfect: float


def measure_stack(
    outcomes: Sequence[str], q: FloatArray, table: NDArray[np.int64], draws: Generator, toward: int | None = None
) -> Stack:
    """Return what a score of `K` clips of a model can show through this confusion matrix (k, k + 1).

    The stack is PAWBench's: at most 30 nulls of 50, TVD over valid clips, tested against the matched null at their number.
    Raises `ValueError` where an outcome that q allows was never shown, or q leaves nothing to tilt.
    """
    law = np.asarray(q, np.float64) / np.sum(q)
    unseen = [outcomes[k] for k in np.flatnonzero((table.sum(axis=1) == 0) & (law > 0)).tolist()]
    if unseen:
        raise ValueError(f"no control shows {', '.join(unseen)}: what the judge makes of it is unknown")
    spike = next((k for k in range(len(law)) if 0 < law[k] < 1), None) if toward is None else toward
    if spike is None or law[spike] >= 1:
        raise ValueError("the reference has one certain outcome: there is no tilt towards it")
    sizes = np.maximum(table.sum(axis=1, keepdims=True), 1)
    judge, perfect = table / sizes, np.eye(*table.shape)
    critical = {n: _critical(draw_tvd(n, law, draws, DRAWS)) for n in range(K - MAXIMUM_NULLS, K + 1)}

    def scored(tilt: float, matrix: FloatArray) -> tuple[float, float]:
        """Return the mean TVD reported, and how often it is rejected."""
        shares = contaminated(law, spike, min(1.0, tilt / (1 - law[spike]))) @ matrix
        counts = draws.multinomial(K, shares / shares.sum(), size=DRAWS)
        kept = counts[metrics.passes_gate(counts[:, -1])]
        if not len(kept):
            return float("nan"), 0.0
        valid = kept[:, :-1].sum(axis=1)
        distance = metrics.tvd(kept[:, :-1], law)
        limits = np.array([critical[int(n)] for n in valid])
        return float(np.mean(distance)), float(np.sum(distance >= limits - 1e-9)) / DRAWS

    def smallest(matrix: FloatArray) -> float:
        low, high = 0.0, 1 - law[spike]
        if scored(high, matrix)[1] < POWER:
            return float("nan")
        while high - low > STEP:
            middle = (low + high) / 2
            low, high = (low, middle) if scored(middle, matrix)[1] >= POWER else (middle, high)
        return float(high)

    reported, alarm = scored(0.0, judge)
    floor = float(metrics.expected_tvd(K, law))
    return Stack(outcomes[spike], reported, floor, alarm, smallest(judge), smallest(perfect))


def _critical(null: FloatArray) -> float:
    """Return the smallest TVD that at most a share `ALPHA` of the null reaches."""
    values = np.unique(np.round(null, 9))
    shares = 1 - np.searchsorted(np.sort(null), values - 1e-9) / len(null)
    allowed = values[shares <= ALPHA]
    return float(allowed[0]) if len(allowed) else float("inf")


def disagreement(first: Sequence[Opened], second: Sequence[Opened]) -> dict[str, Any]:
    """Return how often two readings of the same clips differ, a null being a reading too."""
    pairs = [(a.reading, b.reading) for a, b in zip(first, second, strict=True) if a.failure is None and b.failure is None]
    differ = sum(a != b for a, b in pairs)
    return {"clips": len(pairs), "differ": differ, "interval": interval(differ, len(pairs)) if pairs else None}


def verdict(table: NDArray[np.int64], kinds: dict[str, Any]) -> tuple[bool, list[str]]:
    """Return whether a judge may be used for this scene, and every reason against it."""
    answered, total = int(table[:, :-1].sum()), int(table.sum())
    right = int(np.trace(table[:, :-1]))
    against = []
    if not total:
        return False, ["no clean clip was read"]
    if not answered or right / answered < RIGHT:
        against.append(f"right in {right} of {answered} answers, fewer than {RIGHT:.0%}")
    elif (bound := lower_bound(right, answered)) < SURE:
        against.append(f"{answered} answers are too few: the lower bound of their rightness is {bound:.3f}, below {SURE}")
    if (silent := total - answered) / total > ABSTAINED:
        against.append(f"no answer to {silent} of {total} clean clips, more than {ABSTAINED:.0%}")
    hidden = [row for kind, row in kinds.items() if kind in WITHOUT_OUTCOME]
    clips, said = sum(row["clips"] for row in hidden), sum(row["answered"] for row in hidden)
    if clips and said / clips > ANSWERED:
        against.append(f"an answer to {said} of {clips} clips that show no outcome, more than {ANSWERED:.0%}")
    return not against, against


def report(outcomes: Sequence[str], q: FloatArray | None, opened: Sequence[Opened], seed: int, stream: str) -> dict[str, Any]:
    """Return everything that readings of one scene's controls say of the judge, as plain data."""
    table, kinds = confusion(outcomes, opened), by_kind(opened)
    usable, against = verdict(table, kinds)
    answered, right = int(table[:, :-1].sum()), int(np.trace(table[:, :-1]))
    rows = by_outcome(outcomes, table)
    hidden = [row for kind, row in kinds.items() if kind in WITHOUT_OUTCOME]
    waits = [one.latency for one in opened if np.isfinite(one.latency)]
    spent = [one.cost for one in opened if np.isfinite(one.cost)]
    told: dict[str, Any] = {
        "right": right,
        "lower": lower_bound(right, answered) if answered else None,
        "by_outcome": rows,
        "worst_lower": min((row["lower"] for row in rows if row["lower"] is not None), default=None),
        "by_kind": kinds,
        "hidden": {"clips": sum(row["clips"] for row in hidden), "answered": sum(row["answered"] for row in hidden)},
        "false_alarms": false_alarms(opened),
        "latency": float(np.mean(waits)) if waits else None,
        "cost": {"clips": len(spent), "dollars": float(np.sum(spent))} if spent else None,
        "usable": usable,
        "against": against,
        "stack": None,
    }
    if q is not None:
        try:
            told["stack"] = measure_stack(outcomes, q, table, generator(seed, stream, "stack", 0, 0))
        except ValueError as error:
            told["stack_refused"] = str(error)
    return told
