"""`quincunx judge`: what judges say of clips, without a score: labels, agreement between judges, and a page for people.

It knows no reference. A clip that no judge could be asked about is a failure, and in no count.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.table import Table

from refcheck import evaluate, evaluate_run, output
from refcheck.command import COMPLETED, INFRASTRUCTURE, Answer, Option, Request, UserError
from refcheck.evaluate_data import Slot, Target, digest, find_clips, scene_targets
from refcheck.evaluate_judges import check_judge, clips_in, estimate_of, judges_asked, judges_of, settings_of
from refcheck.evaluate_run import CHECKPOINT, Entry
from refcheck.journal import Journal
from refcheck.judges import human, page
from refcheck.judges.ensemble import agreement
from refcheck.judges.page import SEALED, Shown
from refcheck.labels import Row, row_faults
from refcheck.untrusted import Problems, json_lines, parse_model, read_text, shown
from scenes.catalog import scene_ids
from simulators.sampling import VALUES, generator

SUMMARY = "what a judge says of clips: labels, agreement between judges, and a page for people"
_SHARED = {
    "data", "generator", "judge", "truth", "confusion", "of", "weights", "per_outcome", "model", "base_url", "api_key_env",
    "protocol", "frames", "timeout", "max_tokens", "retries", "per_minute", "concurrency", "price_in", "price_out",
    "picture_tokens", "budget", "seed", "engine", "workers", "executor", "cluster",
}  # fmt: skip
OPTIONS = (
    *(option for option in evaluate.OPTIONS if option.name in _SHARED),
    Option("against", "str", None, "folders with rows.jsonl of other judges of these clips, with commas: how far they agree"),
    Option("human", "bool", False, "make a page on which people say what the clips show"),
    Option("disagree", "bool", False, "human=true: only clips on which the judges do not all say the same; needs against="),
    Option("sample", "int", None, "human=true: so many clips, shared out over what the judge said", low=1, high=100_000),
    Option("votes", "str", None, "files of votes saved from the page, with commas: people's labels, and agreement with them"),
)
USES_SCENES = "optional"
ROWS, LABELS, PANEL = "rows.jsonl", "labels.csv", "panel.csv"
NULL = "null"
REPEATS = 1000  # r000 to r999


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return what is wrong with the values together."""
    problems = ["votes= reads what people said on a page, which human=true makes: two runs"] * bool(
        values["human"] and values["votes"] is not None
    )
    problems += [
        told for told in evaluate.mistakes({**values, "package": None, "dry": False}, scenes, overrides) if "out=" not in told
    ]
    if values["out"] is None:
        problems.append("out= is missing: a folder for the labels and the checkpoint that a later run goes on from")
    if values["disagree"] and values["against"] is None:
        problems.append("disagree=true compares judges: give against= with the folder of another one's rows")
    if (values["disagree"] or values["sample"] is not None) and not values["human"]:
        problems.append("disagree= and sample= choose clips for people: give human=true with them")
    return problems


def run(request: Request) -> Answer:
    """Judge what the checkpoint does not hold. Raises `UserError`, `InfrastructureError`; status 3 where a clip failed."""
    values, out = request.values, request.out
    if out is None:
        raise UserError("out= is missing")
    data = Path(values["data"])
    named = tuple(request.scenes) != scene_ids()
    targets = scene_targets(data, request.scenes, request.overrides, REPEATS, named=named) if data.is_dir() else []
    every, ignored = find_clips(data, targets)
    slots = [slot for slot in every if slot.path is not None]
    check_judge(targets, slots, {**values, "dry": False})
    others = {path: _rows(Path(path), targets) for path in _listed(values["against"])}
    asks = "vlm" in judges_asked(values)
    estimate = estimate_of(targets, slots, values) if asks else {"clips": clips_in(slots), "calls": 0}
    if values["budget"] is not None and estimate.get("dollars", 0.0) > values["budget"]:
        raise UserError(f"{estimate['calls']} calls may cost ${estimate['dollars']:.2f}, more than budget={values['budget']:g}")
    if values["human"]:
        page.refuse_second(out)
    panel = None if values["votes"] is None else page.panel_csv(out / SEALED, [Path(p) for p in _listed(values["votes"])])
    settings = {target.name: digest([settings_of(target, values), values["generator"]]) for target in targets}
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(out / CHECKPOINT))
        held = evaluate_run.held_entries(journal, targets, settings, values["generator"])
        judge_of, spent = judges_of(stack, values, out, slots)
        advance = stack.enter_context(request.progress("judge", len(slots)))
        done = evaluate_run.judge_all(
            targets, slots, values["generator"], settings, judge_of, journal, held, values["concurrency"], advance
        )
        used = spent()
    agreed = _agreement(targets, done.entries, values["judge"], others)
    people = _for_people(slots, done.entries, agreed, values) if values["human"] else []
    output.withdraw(out, output.RESULT, ROWS, LABELS, PANEL)  # only now: all that can be refused has been
    _write(out / ROWS, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in evaluate_run.row_lines(done.entries)))
    _write(out / LABELS, _csv(done.entries))
    result: dict[str, Any] = {
        "generator": values["generator"],
        "judge": {"name": values["judge"], "model": values["model"]},
        "clips": len(slots),
        "judged": done.judged,
        "reused": done.reused,
        "failures": evaluate_run.failures(done.entries),
        "ignored": ignored,
        "used": used,
        "labels": _counts(targets, done.entries),
        "agreement": agreed,
    }
    if people:
        chosen = page.choose(people, values["sample"], generator(values["seed"], "judge", "page", 0, VALUES))
        written = page.write_page(out, {target.name: target.item for target in targets}, chosen)
        result["page"] = {"file": str(written.relative_to(out)), "clips": len(chosen), "of": len(people)}
    if panel is not None:
        _write(out / PANEL, panel)
        result["human"] = human.agreement(human.read_panel(out / PANEL))
    return Answer(output.plain(result), _tables(result), INFRASTRUCTURE if result["failures"] else COMPLETED)


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _write(path: Path, text: str) -> None:
    with output.atomic(path) as temporary:
        temporary.write_text(text, "utf-8")


def _rows(folder: Path, targets: Sequence[Target]) -> dict[tuple[str, int], str | None]:
    """Return another judge's labels by scene and repeat; its failures are left out.

    Raises `UserError` for lines that are no rows, labels that are no outcomes of the scene, and slots read twice.
    """
    outcomes = {target.name: target.expected.outcomes for target in targets}
    problems, found = Problems(), dict[tuple[str, int], str | None]()
    path = folder / ROWS if folder.is_dir() else folder
    for where, value in json_lines(path, read_text(path, problems) or "", problems):
        row = parse_model(Row, value, where, problems)
        faults = [] if row is None else row_faults(row)
        for fault in faults:
            problems.add(where, fault)
        if row is None or faults or row.scene_id not in outcomes or row.observation == "infrastructure_failure":
            continue
        if row.outcome_label is not None and row.outcome_label not in outcomes[row.scene_id]:
            problems.add(where, f"outcome_label {shown(row.outcome_label)} is none of {', '.join(outcomes[row.scene_id])}")
        if (row.scene_id, row.repeat) in found:
            problems.add(where, f"{row.scene_id} repeat {row.repeat} is read twice")
        found[row.scene_id, row.repeat] = row.outcome_label
    problems.check()
    return found


def _csv(entries: Sequence[Entry]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["scene", "repeat", "label", "null", "confidence", "failure"])
    for entry in entries:
        said = entry.reading or {}
        confidence = said.get("confidence")
        shown = f"{confidence:.4f}" if isinstance(confidence, float) and confidence == confidence else ""
        writer.writerow([
            entry.scene_id, entry.repeat_index, entry.row.outcome_label or "", said.get("null") or "", shown,
            entry.row.failure_code or "",
        ])  # fmt: skip
    return text.getvalue()


def _counts(targets: Sequence[Target], entries: Sequence[Entry]) -> dict[str, dict[str, int]]:
    """Return how often each label was read in each scene, in the order of its outcomes, nulls last."""
    found = {}
    for target in targets:
        seen = Counter(e.row.outcome_label or NULL for e in entries if e.scene_id == target.name and not e.failed)
        found[target.name] = {label: seen[label] for label in (*target.expected.outcomes, NULL)}
    return found


def _agreement(
    targets: Sequence[Target], entries: Sequence[Entry], name: str, others: Mapping[str, Mapping[tuple[str, int], str | None]]
) -> dict[str, Any]:
    """Return how far the judges agree by scene, over the clips that all of them read."""
    found: dict[str, Any] = {}
    for target in targets if others else ():
        own = {e.repeat_index: e.row.outcome_label for e in entries if e.scene_id == target.name and not e.failed}
        both = [repeat for repeat in own if all((target.name, repeat) in rows for rows in others.values())]
        if both:
            said = {name: [own[r] for r in both]}
            said |= {path: [rows[target.name, r] for r in both] for path, rows in others.items()}
            told = agreement(said)
            found[target.name] = {**told, "disagree": [both[at] for at in told["disagree"]]}
    return found


def _for_people(
    slots: Sequence[Slot], entries: Sequence[Entry], agreed: Mapping[str, Any], values: Mapping[str, Any]
) -> list[Shown]:
    """Return the clips that people may be shown. Raises `UserError` where there is none."""
    paths = {(slot.scene, slot.repeat): slot.path for slot in slots}
    found = [
        Shown(e.scene_id, values["generator"], str(e.repeat_index), e.row.outcome_label or "", path)
        for e in entries
        if not e.failed and (path := paths[e.scene_id, e.repeat_index]) is not None
        if not values["disagree"] or e.repeat_index in agreed.get(e.scene_id, {}).get("disagree", ())
    ]
    if not found:
        raise UserError("there is no clip for people to see: the judges say the same of all of them")
    return found


def _tables(result: Mapping[str, Any]) -> list[Any]:
    table = Table(title=f"What {result['judge']['name']} says of {result['clips']} clips", title_justify="left")
    for name in ("scene", "labels"):
        table.add_column(name)
    table.add_column(NULL, justify="right")
    for scene, counts in result["labels"].items():
        said = ", ".join(f"{label} {count}" for label, count in counts.items() if count and label != NULL)
        table.add_row(scene, said or "none", str(counts[NULL]))
    shown: list[Any] = [table]
    if result["agreement"]:
        agreed = Table(title="Agreement between judges, null a label of its own", title_justify="left")
        for name in ("scene", "judges", "agree", "kappa"):
            agreed.add_column(name)
        for scene, told in result["agreement"].items():
            for pair, figures in told["pairs"].items():
                agreed.add_row(scene, pair, f"{figures['agree']} of {told['clips']}", f"{figures['kappa']:.3f}")
        shown.append(agreed)
    if "page" in result:
        shown.append(f"{result['page']['clips']} clips for people: open {result['page']['file']} below out=, then give votes=.")
    if "human" in result:
        shown += human.tables(result["human"])
    if result["failures"]:
        shown.append(f"{len(result['failures'])} clips could not be judged; they are in no count.")
    return shown
