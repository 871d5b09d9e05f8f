"""Evidence for agreement in `score`: is a cell's TVD below a distance that matters, and where is it at whatever n one stops.

It takes cells as they were scored; `equivalence` and `anytime` do the statistics. No difference found is not agreement.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, log
from typing import Any

from rich.table import Table
from rich.text import Text

from refcheck.anytime import distance_interval, log_e_value
from refcheck.equivalence import exact_equivalence
from refcheck.inference import adjust
from refcheck.metrics import FloatArray
from refcheck.score_references import cells_of
from refcheck.score_tables import brief, empty_table, figure, p_text

ALPHA = 0.05
Known = Mapping[str, tuple[tuple[str, ...], FloatArray]]


def equivalence(result: Mapping[str, Any], known: Known, epsilon: float, rate: float) -> list[dict[str, Any]]:
    """Write `equivalence` into every cell with an outcome, and return them with model and scene.

    `p` is of H0 TVD >= `epsilon`, exact at any n; `verdict` is `within` where its Benjamini-Hochberg value over all cells is
    below `rate`, `not shown` otherwise: too few rollouts, or too far away.
    """
    held = []
    for model, scene, cell, counts in cells_of(result):
        if sum(counts):
            found = exact_equivalence(counts, known[scene][1], epsilon)
            cell["equivalence"] = {"epsilon": epsilon, "p": float(found.p)}
            held.append((model, scene, float(found.tvd), sum(counts), cell["equivalence"]))
    adjust(entry for *_, entry in held)
    for *_, entry in held:
        entry["verdict"] = "within" if entry["p_benjamini_hochberg"] < rate else "not shown"
    return [{"model": model, "scene": scene, "tvd": tvd, "n": n, **entry} for model, scene, tvd, n, entry in held]


def anytime(result: Mapping[str, Any], known: Known) -> list[dict[str, Any]]:
    """Write `anytime` into every cell with an outcome, and return them with model and scene.

    `interval` holds TVD (0..1) at all n at once at 95 %; `log_e` is of p = q, null where infinite, and `rejects` tells
    whether it has reached log 20. No correction for many cells: each is valid by itself.
    """
    held = []
    for model, scene, cell, counts in cells_of(result):
        if sum(counts):
            q = known[scene][1]
            interval, log_e = distance_interval(counts, q, ALPHA), float(log_e_value(counts, q))
            cell["anytime"] = {
                "alpha": ALPHA,
                "interval": [float(interval.low), float(interval.high)],
                "log_e": log_e if isfinite(log_e) else None,
                "rejects": log_e >= log(1 / ALPHA),
            }
            held.append({"model": model, "scene": scene, "tvd": float(interval.tvd), "n": sum(counts), **cell["anytime"]})
    return held


def equivalence_tables(held: list[dict[str, Any]], rate: float) -> list[Table]:
    """Return the table of verdicts, nothing without a cell."""
    if not held:
        return []
    table = empty_table(
        f"Agreement: is TVD below {held[0]['epsilon']:g}?",
        "p: of a TVD of at least that, exact at any n. Within: BH (Benjamini-Hochberg over these cells) is below "
        f"{rate:g}. Not shown says nothing: too few rollouts, or too far away.",
        *("scene", "model", "n", "TVD", "p", "BH", "verdict"),
        left=2,
    )
    for entry in held:
        ps = (p_text(entry[key]) for key in ("p", "p_benjamini_hochberg"))
        table.add_row(Text(entry["scene"]), Text(entry["model"]), str(entry["n"]), figure(entry["tvd"]), *ps, entry["verdict"])
    return [table]


def anytime_tables(held: list[dict[str, Any]]) -> list[Table]:
    """Return the table of confidence sequences, nothing without a cell."""
    if not held:
        return []
    table = empty_table(
        "At whatever n one stops: where TVD is",
        "The 95 % interval holds at all n at once, so one may look and add rollouts as one likes. ln e: of p = q; from 3.00 "
        "on (e = 20) q is rejected at 5 %, at any time (*).",
        *("scene", "model", "n", "TVD", "95 %, anytime", "ln e"),
        left=2,
    )
    for entry in held:
        log_e = "inf" if entry["log_e"] is None else f"{entry['log_e']:+.2f}"
        table.add_row(
            *(Text(entry["scene"]), Text(entry["model"]), str(entry["n"]), figure(entry["tvd"]), brief(entry["interval"])),
            log_e + ("*" if entry["rejects"] else " "),
        )
    return [table]
