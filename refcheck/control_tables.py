"""Tables of what controls found of a judge. It computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from refcheck.control_report import NULL


def tables(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the confusion matrix of one scene's controls and what follows from it, in words."""
    shown = Table(
        title=f"{result['scene']}: {result['k']} controls read by the judge {result['judge']['name']}", title_justify="left"
    )
    shown.add_column("truth")
    for label in result["confusion_columns"]:
        shown.add_column(label if label == NULL else f"read {label}", justify="right")
    for label, row in zip(result["outcomes"], result["confusion"], strict=True):
        shown.add_row(label, *(str(count) if count else "." for count in row))
    low, high = result["band"]
    lines = [
        f"Right where it answered: {result['accuracy']:.3f} of {result['answered']}; abstained {result['abstained']:.1%}.",
        f"Distance from the reference: truth {result['tvd_truth']:.4f}, as judged {result['tvd_judged']:.4f} "
        f"(floor {result['floor']:.4f}, band of a perfect model {low:.4f} to {high:.4f}).",
        f"CaliBench score: truth {result['score_truth']:.4f}, as judged {result['score_judged']:.4f} (0 is a perfect model).",
        *_words(result["report"]),
    ]
    if unlearned := result["judge"].get("unlearned"):
        lines.append(f"Never learned, too rare: {', '.join(unlearned)}.")
    if noise := result["again"]:
        lines.append(f"Read again ({noise['how']}): {noise['retest']['differ']} of {noise['retest']['clips']} readings differ.")
        if order := noise["label_order"]:
            lines.append(f"Labels in another order: {order['differ']} of {order['clips']} readings differ.")
    if cost := result["cost"]:
        each = result["report"]["cost"]
        a_clip = f"; ${each['dollars'] / each['clips']:.4f} a clip" if each else ""
        lines.append(f"Cost: {cost['requests']} requests, ${cost['dollars']:.4f}{a_clip}.")
    if result["infrastructure_failures"]:
        lines.append(f"{result['infrastructure_failures']} clips could not be put before the judge; they are in no figure.")
    found: list[Any] = [shown, "\n".join(lines)]
    if result["report"]["by_kind"]:
        found.append(_kinds(result["report"]["by_kind"]))
    if not_made := result["not_made"]:
        found.append("Not made: " + "; ".join(f"{kind}: {why}" for kind, why in not_made.items()) + ".")
    if result["sweep"]:
        found.append(_sweep(result["sweep"]))
    return tuple(found)


def _words(report: Mapping[str, Any]) -> list[str]:
    told = []
    if report["lower"] is not None:
        told.append(
            f"Right, with 95 % confidence: at least {report['lower']:.3f}; the worst outcome: {_share(report['worst_lower'])}."
        )
    if stack := report["stack"]:
        seen, perfect = _share(stack.tilt), _share(stack.tilt_perfect)
        told.append(
            f"A score of 50 clips: a perfect model is reported {stack.tvd:.4f} from the reference ({stack.floor:.4f} with a "
            f"perfect judge) and rejected in {stack.alarm:.1%}; the smallest tilt towards {stack.toward} that is seen is "
            f"{seen} ({perfect} with a perfect judge)."
        )
    else:
        told.append(f"What a score of 50 clips would show is unknown: {report.get('stack_refused', 'there is no reference')}.")
    if alarms := report["false_alarms"]:
        told.append(f"The audit distrusted {alarms['alarms']} of {alarms['clips']} clean clips.")
    told.append("Usable for this scene." if report["usable"] else f"Not usable for this scene: {'; '.join(report['against'])}.")
    return told


def _share(tilt: float) -> str:
    return "none" if tilt != tilt else f"{tilt:.3f}"


def _kinds(kinds: Mapping[str, Any]) -> Table:
    shown = Table(title="Damaged clips", title_justify="left")
    for column in ("damage", "clips", "answered", "right", "no answer, and why", "distrusted"):
        shown.add_column(column, justify="left" if column in ("damage", "no answer, and why") else "right")
    for kind, row in kinds.items():
        nulls = ", ".join(f"{count} {reason}" for reason, count in row["nulls"].items()) or "-"
        right = str(row["right"]) if row["family"] == "broken" else "-"
        audit = row.get("audit")
        distrusted = "-" if audit is None else f"{audit['distrusted']} of {audit['clips']}"
        shown.add_row(kind, str(row["clips"]), str(row["answered"]), right, nulls, distrusted)
    return shown


def _sweep(sweep: Mapping[str, Any]) -> Table:
    shown = Table(title=f"The same rollouts by {sweep['of']}", title_justify="left")
    for column in (sweep["of"], "clips", "answered", "right", "95 % of answers"):
        shown.add_column(column, justify="right")
    for row in sweep["rows"]:
        ends = "-" if row["interval"] is None else f"{row['interval'][0]:.3f} to {row['interval'][1]:.3f}"
        shown.add_row(row["value"], str(row["clips"]), str(row["answered"]), str(row["right"]), ends)
    return shown


def report_tables(rows: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    """Return one row a scene of an opened blind folder, and the reasons against a judge."""
    shown = Table(title="The judge by scene", title_justify="left")
    for column in ("scene", "right of answers", "at least", "no answer", "answers to hidden", "usable"):
        shown.add_column(column, justify="left" if column == "scene" else "right")
    against = []
    for row in rows:
        told, total = row["report"], int(row["confusion"].sum())
        answered = int(row["confusion"][:, :-1].sum())
        bound = "-" if told["lower"] is None else f"{told['lower']:.3f}"
        hidden = told["hidden"]
        shown.add_row(
            row["scene"], f"{told['right']} of {answered}", bound, f"{total - answered} of {total}",
            f"{hidden['answered']} of {hidden['clips']}", "yes" if told["usable"] else "no",
        )  # fmt: skip
        against += [f"{row['scene']}: {reason}." for reason in told["against"]]
        if row["failures"]:
            against.append(f"{row['scene']}: {len(row['failures'])} clips without a reading; they are in no figure.")
    return (shown, "\n".join(against)) if against else (shown,)
