"""`quincunx evaluate`: a model's clips, put before a judge, counted by the benchmark's own rules.

It refuses to count what could not be judged: a failing machine blocks a score and is in none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from numpy.random import Generator

from refcheck import calibench, calibench_score, corrected, evaluate_run, output, pawbench, score_files
from refcheck.command import COMPLETED, INFRASTRUCTURE, Answer, Option, Request, UserError
from refcheck.evaluate_data import (
    Slot,
    Target,
    digest,
    find_clips,
    package_targets,
    policy_file,
    policy_of,
    scene_targets,
)
from refcheck.evaluate_judges import (
    check_judge,
    clips_in,
    endpoint_settings,
    estimate_of,
    judge_problems,
    judges_asked,
    judges_of,
    settings_of,
)
from refcheck.evaluate_run import CHECKPOINT, Entry, Run
from refcheck.evaluate_tables import tables
from refcheck.journal import Journal
from refcheck.labels import Cells, Labels
from refcheck.policy import Rules, check_rows
from refcheck.running import RUNNING
from refcheck.untrusted import check_name
from scenes.catalog import scene_ids
from simulators.sampling import VALUES, generator

SUMMARY = "a model's clips, read by a judge and scored: resumable, every failure named"
OPTIONS = (
    Option("data", "path", ..., "the clips: <scene>/r000.mp4, r001.mp4, ... (mp4, mov, webm, avi)"),
    Option("generator", "str", "model", "the name of what made the clips"),
    Option("judge", "str", "trained", "trained on each scene, vlm (a model behind an endpoint), state: truth= tells, noisy: "
           "state that errs as confusion= says, or ensemble: several, of=",
           choices=("trained", "vlm", "state", "noisy", "ensemble")),
    Option("package", "path", None, "PAWBench's package (a folder with scenes.jsonl); otherwise our own scenes"),
    Option("partial", "bool", False, "take a package that has not as many scenes as it should"),
    Option("k", "int", None, "rollouts of a scene (default PAWBench's 50, CaliBench's 32)", low=1, high=100_000),
    Option("truth", "path", None, 'judge=state or noisy: JSON with what each clip shows, {"A-01/r000": "heads", ...}'),
    Option("confusion", "path", None, 'judge=noisy: errors as JSON, {"A-01": {"heads": {"tails": 0.02, "null": 0.1}}}'),
    Option("of", "str", None, "judge=ensemble: its judges, with commas, such as trained,vlm"),
    Option("weights", "path", None, "judge=ensemble: <judge>/result.json of `controls` for each, whose errors weigh its votes"),
    Option("per_outcome", "int", 60, "judge=trained: rollouts of each outcome that it learns from", low=8, high=10_000),
    Option("model", "str", None, "judge=vlm: the judge's name at its endpoint"),
    Option("base_url", "str", "https://api.openai.com/v1", "judge=vlm: an OpenAI-compatible endpoint"),
    Option("api_key_env", "str", "OPENAI_API_KEY", "judge=vlm: the environment variable that holds the key"),
    Option("protocol", "str", None, "judge=vlm: two calls (readout, trust) or three votes; by default the benchmark's own",
           choices=("pawbench", "calibench")),
    Option("frames", "str", "eight", "judge=vlm: eight evenly spaced, or rate: two a second with first, middle and last",
           choices=("eight", "rate")),
    Option("timeout", "float", 120.0, "judge=vlm: seconds a request may take", low=0.1, high=3600.0),
    Option("max_tokens", "int", 2048, "judge=vlm: most tokens of a reply", low=16, high=1_000_000),
    Option("retries", "int", 4, "judge=vlm: further tries of a request", low=0, high=20),
    Option("per_minute", "float", 0.0, "judge=vlm: most requests a minute; 0 is no limit", low=0.0, high=1e6),
    Option("concurrency", "int", 4, "clips judged at a time", low=1, high=256),
    Option("price_in", "float", 0.0, "judge=vlm: dollars a million input tokens", low=0.0, high=1e6),
    Option("price_out", "float", 0.0, "judge=vlm: dollars a million output tokens", low=0.0, high=1e6),
    Option("picture_tokens", "int", 1000, "judge=vlm: tokens of a picture, for the estimate alone", low=1, high=100_000),
    Option("budget", "float", None, "judge=vlm: dollars; nothing starts that may cost more, no call is made beyond", low=0.0),
    Option("controls", "path", None, "result.json of `controls` for this judge, or a folder of them: scores beside its errors"),
    Option("dry", "bool", False, "say what it would take, and make no call"),
    Option("draws", "int", 50_000, "Monte-Carlo draws of each null", low=1_000, high=1_000_000),
    Option("seed", "int", 0, "seed of label orders, training and draws", low=0, high=2**64 - 1),
    *RUNNING,
)  # fmt: skip
USES_SCENES = "optional"
ROWS, METRICS, POLICY, RUN, BINS = "rows.jsonl", "metrics.json", "policy.json", "run.json", "bins"


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return what is wrong with the values together."""
    problems = []
    if values["dry"] and values["out"] is not None:
        problems.append("dry=true writes nothing: leave out= out")
    if not values["dry"] and values["out"] is None:
        problems.append("out= is missing: a folder for rows, metrics and the checkpoint that a later run goes on from")
    if values["package"] is not None and (overrides or tuple(scenes) != scene_ids()):
        problems.append("package= brings its own scenes: leave scene= and scenes= out")
    if "vlm" in judges_asked(values):
        if values["model"] is None:
            problems.append("model= is missing: the judge's name at its endpoint, such as gpt-4o")
        problems += endpoint_settings(values).problems()
    problems += judge_problems(values)
    try:
        check_name(values["generator"])
    except ValueError as error:
        problems.append(f"generator={values['generator']!a} {error}")
    if not score_files.SAFE.fullmatch(values["generator"]):
        problems.append(f"generator={values['generator']!a} becomes part of file names: use letters, digits and . _ + -")
    return problems


def run(request: Request) -> Answer:
    """Judge and score. Raises `UserError`, `InfrastructureError`; what could not be judged makes the exit status 3."""
    values, data = request.values, Path(request.values["data"])
    rules = Rules(repeats=values["k"] or Rules.repeats, partial=values["partial"] or values["package"] is None)
    if values["package"] is not None:
        targets = package_targets(Path(values["package"]), rules)
    elif data.is_dir():
        named = tuple(request.scenes) != scene_ids()
        targets = scene_targets(data, request.scenes, request.overrides, values["k"], named=named)
    else:
        targets = []
    slots, ignored = find_clips(data, targets)
    check_judge(targets, slots, values)
    confusions = _confusions(values)
    asks = "vlm" in judges_asked(values)
    estimate = estimate_of(targets, slots, values) if asks else {"clips": clips_in(slots), "calls": 0}
    budget = values["budget"]
    if budget is not None and estimate.get("dollars", 0.0) > budget:
        raise UserError(
            f"{estimate['calls']} calls may cost ${estimate['dollars']:.2f}, more than budget={budget:g}: give more"
        )
    if values["dry"] or request.out is None:
        return Answer({"dry": True, "estimate": estimate, "ignored": ignored}, tables({"estimate": estimate}))
    out = request.out
    settings = {target.name: digest([settings_of(target, values), values["generator"]]) for target in targets}
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(out / CHECKPOINT))
        held = evaluate_run.held_entries(journal, targets, settings, values["generator"])
        judge_of, spent = judges_of(stack, values, out, slots)
        # Only now: what can be refused has been, and nothing of an earlier run was touched.
        output.withdraw(out, output.RESULT, ROWS, METRICS, POLICY, RUN, *(f"{BINS}/{name}" for name in _old_bins(out)))
        _write_run(out, targets, settings, values)
        advance = stack.enter_context(request.progress("judge", len(slots)))
        done = evaluate_run.judge_all(
            targets, slots, values["generator"], settings, judge_of, journal, held, values["concurrency"], advance
        )
        used = spent()
    result = _result(targets, slots, done, values, rules, out, request)
    result |= {"ignored": ignored, "estimate": estimate, "used": used}
    if confusions:
        result["corrected"] = output.plain(_corrected(result, targets, confusions, values))
    return Answer(result, tables(result), INFRASTRUCTURE if result["failures"] else COMPLETED)


def _old_bins(out: Path) -> list[str]:
    return [path.name for path in (out / BINS).glob("*_bins.json")] if (out / BINS).is_dir() else []


def _write_run(out: Path, targets: Sequence[Target], settings: Mapping[str, str], values: Mapping[str, Any]) -> None:
    names = ("model", "base_url", "api_key_env", "timeout", "max_tokens")
    vlm = {name: values[name] for name in names} if "vlm" in judges_asked(values) else {"model": values["judge"]}
    told = {
        "schema_version": "pawbench.run/v1",
        "fingerprint": digest([settings, values["generator"]]),
        "benchmark": {
            "path": str(values["package"]) if values["package"] is not None else "quincunx",
            "digest": digest([[asdict(t.item), t.expected.q, sorted(t.expected.repeats)] for t in targets]),
        },
        "evaluator_digest": digest(dict(settings)),
        "model_or_lane": values["generator"],
        "provider": {"provider": "openai-compatible" if "vlm" in judges_asked(values) else "quincunx", **vlm},
        "settings": dict(settings),
    }
    with output.atomic(out / RUN) as path:
        path.write_text(output.to_json(output.plain(told)), "utf-8")


def _result(
    targets: Sequence[Target],
    slots: Sequence[Slot],
    done: Run,
    values: Mapping[str, Any],
    rules: Rules,
    out: Path,
    request: Request,
) -> dict[str, Any]:
    """Write rows, metrics and bins, and return the verb's own result."""
    rows = evaluate_run.row_lines(done.entries)
    with output.atomic(out / ROWS) as path:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    with output.atomic(out / POLICY) as path:
        path.write_text(output.to_json(output.plain(policy_file(targets, values["generator"]))), "utf-8")
    result: dict[str, Any] = {
        "benchmark": "calibench" if targets[0].calibench else "pawbench",
        "generator": values["generator"],
        "judge": {"name": values["judge"], "model": values["model"], "settings": _told(values)},
        "families": _families(values),
        "slots": len(slots),
        "judged": done.judged,
        "reused": done.reused,
        "judged_again": done.again,
        "failures": evaluate_run.failures(done.entries),
        "trust_missing": sum(entry.trust_failure is not None for entry in done.entries),
        "odd_clips": evaluate_run.odd_clips(done.entries),
        "trust": evaluate_run.trust_table(done.entries) if "vlm" in judges_asked(values) else {},
    }

    def generator_for(name: str) -> Generator:
        """Each cell's draws are its own."""
        return generator(values["seed"], "evaluate", name, 0, VALUES)

    with request.progress("score", len(targets)) as advance:
        if targets[0].calibench:
            result |= _calibench(targets, done.entries, values, out, generator_for)
        else:
            checked = check_rows(((f"rows.jsonl, line {i}", e.row) for i, e in enumerate(done.entries, 1)), policy_of(targets))
            result["pawbench"] = pawbench.evaluate(checked, policy_of(targets), generator_for, values["draws"], advance, rules)
            score_files.write_metrics(pawbench.official(result["pawbench"]), out)
    return result


def _calibench(
    targets: Sequence[Target],
    entries: Sequence[Entry],
    values: Mapping[str, Any],
    out: Path,
    streams: Callable[[str], Generator],
) -> dict[str, Any]:
    """Score and write CaliBench's bins. A scene with a failure has neither: it is blocked."""
    blocked = sorted({entry.scene_id for entry in entries if entry.failed})
    labels = Labels()
    for target in targets:
        if target.name not in blocked:
            order = calibench.SCENES[target.name].outcomes
            cell = labels.cells.setdefault((values["generator"], target.name), Cells([0] * len(order)))
            for entry in (entry for entry in entries if entry.scene_id == target.name):
                label = entry.row.outcome_label
                cell.add(entry.repeat_index, None if label is None else order.index(label) + 1)
    if not labels.cells:
        return {"blocked": blocked, "models": {}, "tests": {}}
    score_files.write_bins(labels, out)
    voted = values["judge"] == "vlm" and values["protocol"] in (None, "calibench")
    extraction = calibench_score.EXTRACTION if voted else f"judge {values['judge']}"
    scored = calibench_score.Settings(values["draws"], extraction=extraction)
    models, tests = calibench_score.evaluate(labels, scored, streams)
    return {"blocked": blocked, "models": models, "tests": tests}


def _confusions(values: Mapping[str, Any]) -> dict[str, corrected.Confusion]:
    """Return what `controls=` measured, by scene. Raises `UserError` where it was another judge that was measured."""
    if values["controls"] is None:
        return {}
    found, _ = corrected.read_controls(Path(values["controls"]))
    others = sorted({held.judge for held in found.values()} - {values["judge"]})
    if others:
        raise UserError(f"controls={values['controls']} measured the judge {', '.join(others)}, not {values['judge']}")
    return found


def _corrected(
    result: Mapping[str, Any],
    targets: Sequence[Target],
    confusions: Mapping[str, corrected.Confusion],
    values: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return each cell as it is behind the judge's measured errors."""
    references = {target.name: target.expected.q for target in targets if target.expected.q is not None}
    if "pawbench" in result:
        cells = corrected.pawbench_cells(result["pawbench"], references)
    else:
        cells = corrected.calibench_cells(result["models"])
    streams = lambda name: generator(values["seed"], "evaluate", f"judge/{name}", 0, VALUES)  # noqa: E731
    return corrected.evaluate(cells, confusions, streams, values["draws"])


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "vlm": ("base_url", "api_key_env", "protocol", "frames", "timeout", "max_tokens", "retries"),
        "trained": ("per_outcome",),
        "noisy": ("confusion",),
    }
    told = {name: values[name] for kind in judges_asked(values) for name in names.get(kind, ())}
    return told | ({"of": values["of"], "weights": values["weights"]} if values["judge"] == "ensemble" else {})


def _families(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return who made judge and generator, and whether they are the same: a judge may favour its own kin."""
    from refcheck.judges.vlm import family

    judge = family(values["model"]) if "vlm" in judges_asked(values) and values["model"] else None
    made = family(values["generator"])
    return {"judge": judge, "generator": made, "coincide": judge is not None and judge == made}
