"""The verb `score`: published figures of a model from its outcome labels, each beside its finite-sample floor and null band.

It reads labels and references, never a clip; it knows no judge's error, and says nothing of why a model misses.

Two intervals stand beside mnTV. Each of the three published models, taken to have exactly the shares its 32 rollouts a scene
showed, was scored 2,000 times (`python benchmarks/interval_coverage.py`; standard errors .003 to .009). At a nominal .95 the
corrected interval held the expected mnTV in .939 (seedance), .976 (happyhorse) and .953 (wan) of them, the published one in
.791, .943 and .931.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from refcheck import (
    calibench_score,
    compare,
    conditions,
    corrected,
    curves,
    output,
    pairs,
    pawbench,
    policy,
    score_agreement,
    score_early,
    score_files,
    score_plan,
    score_references,
    score_states,
    score_tables,
)
from refcheck.calibench_score import EXTRACTION
from refcheck.command import Answer, Option, Request, UserError
from refcheck.labels import RECOGNISED, Labels, Row, read_labels
from refcheck.metrics import MAXIMUM_NULLS
from simulators.sampling import VALUES, generator

Streams = Callable[[str], Generator]
PUBLISHED = {"calibench": "calibench_outcomes.csv", "guidance": "calibench_dice_guidance.csv"}
"""Words for `data=`: label files that come with the package."""
SUMMARY = "Score outcome labels (CaliBench's or PAWBench's) beside the floor and band that chance alone gives."
USES_SCENES = False
OPTIONS = (
    Option("data", "path", None, f"the labels: {RECOGNISED}; or calibench, or guidance: the published ones"),
    Option(
        "human", "path", None, "a panel's CSV (scene,model,seed,vlm and human or human_1, human_2, ...), beside data= or alone"
    ),
    Option(
        "by",
        "str",
        None,
        "a swept setting, such as condition: a CSV's column, a key of rows (model_or_lane too), or folders named by its values",
    ),
    Option("budget", "str", None, "numbers of rollouts, such as 10,20,32: what so few would have scored"),
    Option(
        "plan", "float", None, "rollouts each scene needs to see a TVD of that size, and to rule it out", low=0.01, high=0.5
    ),
    Option("reference", "path", None, "JSON with another reference of some scenes: q, low and high, or counts of real throws"),
    Option("stop_width", "float", None, "stop early: at this width of each TVD's interval (0..1)", low=0.001, high=0.999),
    Option(
        "epsilon",
        "float",
        None,
        "test H0 TVD >= epsilon in every cell: p, and whether agreement is shown",
        low=1e-4,
        high=0.999,
    ),
    Option("anytime", "bool", False, "an interval of every TVD that holds at whatever n one stops, and an e-value of p = q"),
    Option(
        "states",
        "path",
        None,
        "CSV of continuous terminal states (scene,model,value; or angle in radians), beside data= or alone",
    ),
    Option(
        "against",
        "path",
        None,
        "what they are compared with: such a CSV (scene,value), or JSON laws by scene; angles alone: the uniform",
    ),
    Option("judge", "path", None, "result.json of `controls`, or a folder of them: distances are corrected by its errors"),
    Option("policy", "path", None, "PAWBench's scene policy (JSON): what rows.jsonl is held to"),
    Option("package", "path", None, "PAWBench's package (a folder with scenes.jsonl), instead of policy="),
    Option("partial", "bool", False, "score a PAWBench policy that has not as many scenes and repeats as it should"),
    Option("roster", "int", policy.SCENES, "PAWBench: scenes of a track", low=1, high=10_000),
    Option("repeats", "int", policy.REPEATS, "PAWBench: rollouts of a scene, K", low=1, high=1_000_000),
    Option("max_nulls", "int", MAXIMUM_NULLS, "PAWBench: nulls a scene may have of 50", low=0, high=1_000_000),
    Option(
        "gate",
        "str",
        "count",
        "PAWBench: what max_nulls is at another K, that count or that share",
        choices=("count", "share"),
    ),
    Option("min_valid", "int", 30, "PAWBench: the pooled null is given for these cells too", low=1, high=1_000_000),
    Option(
        "sampling",
        "str",
        "iid",
        "PAWBench: how rollouts were sampled; all but iid have no floor, band or p",
        choices=("iid", "quota", "coupled"),
    ),
    Option("group", "int", 5, "PAWBench: rollouts of a coupled group, consecutive repeats", low=2, high=1_000_000),
    Option("extraction", "str", EXTRACTION, "how bins came from clips; any other than the published makes mnTV partial"),
    Option("bins", "bool", False, "write CaliBench cells as <scene>_<model>_bins.json into out="),
    Option("draws", "int", 50_000, "Monte-Carlo draws of each null and of the bootstrap", low=1_000, high=1_000_000),
    Option("rate", "float", 0.05, "false-discovery rate of the tests over all cells", low=1e-6, high=0.5),
    Option("seed", "int", 0, "seed of the Monte-Carlo draws", low=0, high=2**64 - 1),
)


def run(request: Request) -> Answer:
    """Score what `data` holds. Raises `UserError` for anything in it, or beside it, that may not stand."""
    values = _published(request.values)
    if values["data"] is None and values["human"] is None and values["states"] is None:
        raise UserError(
            f"data= is missing: give data=PATH, {RECOGNISED}; or data=calibench, the published "
            "labels; or human=PATH, a panel's votes; or states=PATH, terminal states; or several of them"
        )
    labels = Labels() if values["data"] is None else read_labels(Path(values["data"]), values["by"])
    if values["bins"]:
        score_files.check_bins(labels, request.out)
    if values["sampling"] != "iid" and (labels.cells or labels.swept or labels.swept_rows):
        raise UserError(
            f"sampling={values['sampling']}: CaliBench's scores and tests, and those of conditions, assume independent "
            "rollouts, so quota or coupled ones are not scored"
        )
    _check_beyond(labels, values)
    confusions, controls = _judge(values)
    sizes = [] if values["budget"] is None else curves.sizes_of(values["budget"])
    rules = _rules(values)
    held_to = _policy(labels, values, rules)
    rows = policy.check_rows(labels.rows, held_to) if held_to and labels.rows else {}
    known = score_references.known_scenes(held_to, calibench=bool(labels.cells))
    references, read = ({}, {}) if values["reference"] is None else score_references.read_references(values["reference"], known)
    states, more = (None, {}) if values["states"] is None else score_states.read(values["states"], values["against"])
    result: dict[str, Any] = {
        "protocols": {},
        "inputs": labels.files | read | more,
        "ignored": labels.ignored,
        "draws": values["draws"],
        "models": {},
    }
    tables: list[Any] = []
    if values["human"] is not None:
        from refcheck.judges import human  # scikit-learn, which nothing else here needs

        agreement = human.agreement(human.read_panel(Path(values["human"])))
        result["human"] = output.plain(agreement)
        tables += human.tables(agreement)
    swept_rows, left_out = _swept_rows(labels, held_to, values["by"])
    steps = (
        sum(len(cells) for cells in (*labels.swept.values(), *swept_rows.values()))
        + 2 * len(labels.cells)
        + len(rows) * (len(held_to.scenes) if held_to else 0)
        + (len(states.states.nulls) if states else 0)
    )

    def generator_for(name: str) -> Generator:
        """Each cell's draws are its own: no cell's figures depend on which other cells were read."""
        return generator(values["seed"], "score", name, 0, VALUES)

    with request.progress("score", steps) as advance:
        if states is not None:
            streams = lambda name: generator_for(f"states/{name}")  # noqa: E731
            result["states"] = score_states.evaluate(states, streams, values["draws"], advance)
            tables += score_states.tables(result["states"])
        if labels.swept or swept_rows:
            shared = (values["by"], generator_for, values["draws"], advance)
            sweeps = conditions.evaluate(labels.swept, *shared)
            if held_to:
                references_of = {scene.scene_id: np.array(scene.q) for scene in held_to.track("calibration")}
                sweeps += conditions.evaluate(swept_rows, *shared, references_of)
            result["conditions"] = {"by": values["by"], "sweeps": sweeps, "left_out": left_out}
            tables += conditions.tables(result["conditions"], values["draws"])
            if request.out:
                conditions.plots(result["conditions"], request.out)
            result["conditions"] = output.plain(result["conditions"])
        if labels.cells:
            result["protocols"]["calibench"] = "arXiv 2608.16829"
            settings = calibench_score.Settings(values["draws"], values["rate"], values["extraction"])
            models, result["tests"] = calibench_score.evaluate(labels, settings, generator_for, advance)
            # Every table and every pair goes by mnTV, lowest first.
            result["models"] = dict(sorted(models.items(), key=lambda item: item[1]["mntv"]["value"]))
            tables += [score_tables.model_table(result["models"]), *score_tables.cell_tables(result["models"], result["tests"])]
            result["comparisons"] = compare.calibench(
                result["models"], lambda name: generator_for(f"compare/{name}"), values["draws"]
            )
            result["power"] = output.plain(calibench_score.power_table(generator_for, values["draws"]))
            tables.append(score_tables.null_table(result["models"], result["power"]))
            tables += score_tables.ordered_table(result["models"])
            tables += compare.calibench_tables(result["comparisons"])
        if held_to and labels.rows:
            streams = lambda name: generator_for(f"pawbench/{name}")  # noqa: E731
            result["protocols"]["pawbench"] = "arXiv 2608.27345"
            result["pawbench"] = pawbench.evaluate(rows, held_to, streams, values["draws"], advance, rules, values["min_valid"])
            tables += score_tables.track_tables(result["pawbench"])
            if values["sampling"] == "iid":
                result["pawbench"]["pairs"] = pairs.evaluate(
                    result["pawbench"], held_to, lambda name: generator_for(f"pairs/{name}"), values["draws"]
                )
                tables += pairs.tables(result["pawbench"]["pairs"])
                result["pawbench"]["comparisons"] = compare.pawbench(
                    result["pawbench"], held_to, lambda name: generator_for(f"compare/{name}"), values["draws"]
                )
                tables += compare.pawbench_tables(result["pawbench"]["comparisons"])
    if sizes:
        group = values["group"] if values["sampling"] == "coupled" else None
        held = {"calibench": curves.calibench_slots(labels)}
        if held_to and labels.rows:
            held["pawbench"] = curves.pawbench_slots(rows, result["pawbench"], held_to)
        streams = lambda name: generator_for(f"budget/{name}")  # noqa: E731
        points = [
            entry
            for protocol, slots in held.items()
            for entry in curves.evaluate(protocol, slots, sizes, streams, values["draws"], group)
        ]
        result["budget"] = output.plain(points)
        tables += curves.tables(points)
    tables += _beyond(result, labels, rows, known, references, values, generator_for)
    if confusions:
        found = _seen_through_the_judge(result, held_to, confusions, generator_for, values["draws"])
        result["judge"] = {"files": controls, "cells": output.plain(found)}
        tables += corrected.tables(found)
    if request.out:
        output.withdraw(request.out, output.RESULT)  # an earlier result never stands beside the tables of this run
        score_files.write_cells(result, request.out)
        if held_to and labels.rows:
            score_files.write_metrics(pawbench.official(result["pawbench"]), request.out)
        if values["bins"]:
            score_files.write_bins(labels, request.out)
    return Answer(result, tables)


def _published(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options with `data=calibench` or `data=guidance` as the packaged file, unless a path here has that name."""
    data = values["data"]
    if data is None or str(data) not in PUBLISHED or Path(data).exists():
        return values
    by = values["by"] or ("condition" if str(data) == "guidance" else None)
    return {**values, "data": Path(__file__).parent / "data" / PUBLISHED[str(data)], "by": by}


def _check_beyond(labels: Labels, values: Mapping[str, Any]) -> None:
    """Refuse what goes beyond both protocols for labels of which it says nothing."""
    if values["against"] is not None and values["states"] is None:
        raise UserError("against= is what states= is compared with: give states=PATH too, or leave it out")
    asked = [name for name in ("reference", "plan", "stop_width", "epsilon", "anytime") if values[name] not in (None, False)]
    for name in [*asked, *(["states"] if values["states"] is not None else [])]:
        if values["sampling"] != "iid":
            raise UserError(
                f"{name}= is for independent rollouts alone, and sampling={values['sampling']}: leave one of them out"
            )
    for name in [*asked, *(["budget"] if values["budget"] is not None else [])]:
        if not labels.cells and not labels.rows:
            raise UserError(f"{name}= is for cells of one setting, and data={values['data']} holds none: leave it out")


def _beyond(
    result: dict[str, Any],
    labels: Labels,
    rows: Mapping[str, Mapping[str, Sequence[Row]]],
    known: score_agreement.Known,
    references: Mapping[str, score_references.Reference],
    values: Mapping[str, Any],
    generator_for: Streams,
) -> list[Any]:
    """Write what was asked for beyond both protocols into the cells of `result`, and return its tables."""
    tables: list[Any] = []
    if references:
        streams = lambda name: generator_for(f"reference/{name}")  # noqa: E731
        tables += score_references.tables(score_references.evaluate(result, references, known, streams, values["draws"]))
    if values["plan"] is not None:
        result["plan"] = score_plan.evaluate(known, values["plan"], lambda name: generator_for(f"plan/{name}"))
        tables += score_plan.tables(result["plan"])
    if values["stop_width"] is not None:
        tables += score_early.tables(score_early.evaluate(result, labels, rows, known, values["stop_width"]))
    if values["epsilon"] is not None:
        agreed = score_agreement.equivalence(result, known, values["epsilon"], values["rate"])
        tables += score_agreement.equivalence_tables(agreed, values["rate"])
    if values["anytime"]:
        tables += score_agreement.anytime_tables(score_agreement.anytime(result, known))
    return tables


def _swept_rows(labels: Labels, held_to: policy.Policy | None, by: str) -> tuple[conditions.Swept, list[str]]:
    """Return PAWBench's cells by swept setting, every setting's rows held to the policy by themselves, and what is left out."""
    if held_to is None or not labels.swept_rows:
        return {}, []
    if by == conditions.LANE:
        every = policy.check_rows([row for rows in labels.swept_rows.values() for row in rows], held_to)
        settings = {lane: {lane: scenes} for lane, scenes in every.items()}
    else:
        settings = {setting: policy.check_rows(rows, held_to) for setting, rows in labels.swept_rows.items()}
    return conditions.pawbench_cells(settings, held_to, by)


def _judge(values: Mapping[str, Any]) -> tuple[dict[str, corrected.Confusion], dict[str, str]]:
    """Return what `judge=` holds, nothing where it is not given."""
    if values["judge"] is None:
        return {}, {}
    if values["sampling"] != "iid":
        raise UserError(f"judge= corrects independent rollouts alone, and sampling={values['sampling']}: leave one of them out")
    return corrected.read_controls(Path(values["judge"]))


def _seen_through_the_judge(
    result: Mapping[str, Any],
    held_to: policy.Policy | None,
    confusions: Mapping[str, corrected.Confusion],
    generator_for: Streams,
    draws: int,
) -> list[dict[str, Any]]:
    cells = corrected.calibench_cells(result["models"])
    if held_to is not None and "pawbench" in result:
        references = {scene.scene_id: scene.q for scene in held_to.scenes if scene.q is not None}
        cells += corrected.pawbench_cells(result["pawbench"], references)
    return corrected.evaluate(cells, confusions, lambda name: generator_for(f"judge/{name}"), draws)


def _rules(values: Mapping[str, Any]) -> policy.Rules:
    return policy.Rules(
        values["roster"],
        values["repeats"],
        values["max_nulls"],
        values["gate"],
        values["partial"],
        values["sampling"],
        values["group"],
    )


def _policy(labels: Labels, values: Mapping[str, Any], rules: policy.Rules) -> policy.Policy | None:
    given = [name for name in ("policy", "package") if values[name] is not None]
    if not labels.rows and not labels.swept_rows:
        if given:
            raise UserError(
                f"{given[0]}={values[given[0]]} is for PAWBench rows, and data={values['data']} holds none: leave it out"
            )
        return None
    if len(given) != 1:
        raise UserError(
            f"data={values['data']} holds PAWBench rows, which do not say their reference: give policy=FILE or package=FOLDER"
            + (", not both" if given else "")
        )
    reader = policy.read_policy if given == ["policy"] else policy.read_package
    return reader(Path(values[given[0]]), rules)
