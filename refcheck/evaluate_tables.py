"""What `evaluate` shows of its result. It computes no figure."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from refcheck import corrected, score_tables
from refcheck.judges.rubrics import TRUST

SHOWN = 12
"""Failures and odd clips spelled out; all of them are in result.json."""


def tables(result: dict[str, Any]) -> tuple[Any, ...]:
    """Return the result as tables and lines; of a dry run the estimate alone."""
    if "slots" not in result:
        return tuple(_estimate(result["estimate"]))
    shown: list[Any] = []
    if "pawbench" in result:
        shown += score_tables.track_tables(result["pawbench"])
    elif result["models"]:
        shown += [score_tables.model_table(result["models"]), *score_tables.cell_tables(result["models"], result["tests"])]
    if "corrected" in result:
        shown += corrected.tables(result["corrected"])
    if result["trust"]:
        shown.append(_trust(result["trust"]))
    lines = [
        f"{result['slots']} slots: {result['judged']} judged now, {result['reused']} from the checkpoint"
        + (f"; {result['judged_again']} again, since clip or settings changed" if result["judged_again"] else "")
    ]
    if result.get("blocked"):
        lines.append(f"No score, for clips that could not be judged: {', '.join(result['blocked'])}.")
    if result["failures"]:
        lines.append(
            f"{len(result['failures'])} clips could not be judged, and are in no figure; the same command tries again:"
        )
        lines += _some([f"  {f['scene']}/r{f['repeat']:03d}: {f['code']}: {f['message']}" for f in result["failures"]])
    if result["trust_missing"]:
        lines.append(f"{result['trust_missing']} clips have a label and no trust audit; the same command asks for it again.")
    if result["odd_clips"]:
        lines += ["Clips unlike the others:", *_some([f"  {one}" for one in result["odd_clips"]])]
    if result["families"]["coincide"]:
        lines.append(f"Careful: judge and generator are both of {result['families']['judge']}; a judge may favour its own kin.")
    if result["used"]:
        lines.append(
            f"{result['used']['requests']} requests, {result['used']['replies_reused']} replies kept from before, "
            f"{result['used']['input_tokens']} + {result['used']['output_tokens']} tokens, ${result['used']['dollars']:.2f}"
        )
    return (*shown, "\n".join(lines))


def _some(lines: list[str]) -> list[str]:
    return lines[:SHOWN] + ([f"  ... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])


def _estimate(told: dict[str, Any]) -> list[str]:
    lines = [f"{told['clips']} clips, {told['calls']} calls"]
    if told["calls"]:
        lines.append(
            f"about {told['input_tokens']:,} input tokens and at most {told['output_tokens_at_most']:,} output tokens: "
            f"${told['dollars']:.2f} ({told['assumes']})"
        )
        least = told["minutes_at_least"]
        lines.append("no limit of requests a minute" if least is None else f"at least {least:.1f} minutes, for per_minute=")
        lines.append(f"up to {told['disk_bytes'] / 1e6:.1f} MB of replies on disk")
    lines.append("Nothing was asked; without dry=true it would be.")
    return ["\n".join(lines)]


def _trust(trust: dict[str, Any]) -> Table:
    columns = (*TRUST, "none")
    shown = ("scene", "read", *(name.lower() for name in columns))
    table = score_tables.empty_table("Trust audit", "Clips by what was read of them; it changes no score.", *shown, left=2)
    for scene, labels in trust.items():
        for label, counts in labels.items():
            table.add_row(scene, label, *(str(counts.get(name, 0) or ".") for name in columns))
    return table
