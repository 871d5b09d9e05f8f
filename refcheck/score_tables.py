"""Tables of what `score` computed, for a terminal of 100 columns. They compute no figure."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from refcheck.calibench import SCENES

MODELS_IN_FULL = 3
"""PAWBench models whose scenes are printed; the result holds all of them."""

MANY_NULLS = ("cards", "roulette", "lottery", "pendulum")
"""Scenes whose nulls CaliBench gives a best and a worst case."""


def figure(value: float | None, form: str = ".3f") -> str:
    """Return a number, or a dash for what is unscored."""
    return "-" if value is None else format(value, form)


def span(ends: list[float] | None, form: str = ".3f") -> str:
    """Return a range as `low to high`, or a dash."""
    return "-" if ends is None else f"{ends[0]:{form}} to {ends[1]:{form}}"


def brief(ends: list[float] | None, form: str = ".2f") -> str:
    """Return a range of numbers of at least 0 as `low-high`, or a dash."""
    if ends is None:
        return "-"
    form = ".3f" if form == ".2f" and ends[1] < 0.1 else form  # ends of many rollouts are told apart
    return f"{ends[0]:{form}}-{ends[1]:{form}}"


def p_text(value: float | None, draws: int | None = None) -> str:
    """Return a p-value, a small one by its magnitude; the least that (b + 1) / (B + 1) can be of B `draws` as a bound."""
    if value is not None and draws and value * (draws + 1) < 1.5:
        return f"< {1 / draws:.0e}".replace("e-0", "e-")
    return "-" if value is None else f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def empty_table(title: str, caption: str, *columns: str, left: int = 1) -> Table:
    """Return an empty table for 100 columns, the first `left` of its columns words and the others figures."""
    table = Table(title=Text(title), caption=Text(caption), title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
    table.padding = (0, 1, 0, 0)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", no_wrap=index >= left, overflow="fold")
    return table


def model_table(models: dict[str, Any]) -> Table:
    """Return the table of mnTV, in the order of `models`."""
    means = {name: entry["mntv"] for name, entry in models.items()}
    missing = [f"{name} lacks {', '.join(mean['missing'])}." for name, mean in means.items() if mean["missing"]]
    odd = [f"{name}: {'; '.join(mean['notes'])}." for name, mean in means.items() if mean["notes"]]
    partial = "A partial mnTV is not compared with the published ones. " if any(m["partial"] for m in means.values()) else ""
    table = empty_table(
        "CaliBench: mnTV, 0 is calibrated and 1 the worst",
        "95 %: of the mnTV this model has on average over reruns. Corrected: ours, centred, noise counted once; it held the "
        "truth in .94 to .98 of simulated evaluations of the three published models. As published: CaliBench's percentile "
        "bootstrap, noise counted twice; .79 to .94 (benchmarks/interval_coverage.py). If q: the mean and 95 % range of a "
        "model with the same nulls whose every outcome came from q. " + partial + " ".join(missing + odd),
        *("model", "mnTV", "95 % corrected", "as published", "if q", "if q, 95 %", "scenes"),
    )
    for name, mntv in means.items():
        table.add_row(
            Text(name),
            figure(mntv["value"], ".4f"),
            span(mntv["ci95_corrected"]),
            span(mntv["ci95"]),
            figure(mntv["if_q"]),
            span(mntv["if_q_band95"]),
            f"{mntv['scenes']} of {len(SCENES)}" + (", partial" if mntv["partial"] else ""),
        )
    return table


def null_table(models: dict[str, Any], power: dict[str, Any]) -> Table:
    """Return what nulls could hide in CaliBench's four scenes of many nulls, and what each scene can detect at all."""
    table = empty_table(
        "CaliBench: what nulls and few rollouts can hide",
        "Best and worst: TV over all rollouts with every null given the outcome that makes it smallest or largest; reported: "
        "a null as a miss. Detectable: smallest TV that 32 or 16 valid rollouts reject with 80 % power, by contamination.",
        *("scene", "model", "nulls", "best", "worst", "reported", *(f"detectable, {n}" for n in power)),
        left=2,
    )
    for scene in SCENES:
        held = [(model, entry["cells"][scene]) for model, entry in models.items() if scene in entry["cells"]]
        for index, (model, cell) in enumerate(held if scene in MANY_NULLS else []):
            seen = [figure(at[scene]["tvd"]) if index == 0 else "" for at in power.values()]
            ends = [figure(cell["nulls"][end]) for end in ("best", "worst", "reported")]
            table.add_row(scene if index == 0 else "", Text(model), str(cell["N"] - cell["n_valid"]), *ends, *seen)
        if held and scene not in MANY_NULLS:
            table.add_row(scene, "", *[""] * 4, *(figure(at[scene]["tvd"]) for at in power.values()))
    return table


def cell_tables(models: dict[str, Any], tests: dict[str, Any]) -> list[Table]:
    """Return one table of scenes a model."""
    tables = []
    for model, entry in models.items():
        table = empty_table(
            f"CaliBench: {model} by scene", "", *("scene", "n/N", "TV", "95 %", "floor", "band", "excess", "score", "p", "BH")
        )
        for scene, cell in entry["cells"].items():
            least = round(1 / cell["p"]) - 1 if cell["p_reached"] == 0 else None  # the draws, none of which reached it
            table.add_row(
                scene,
                f"{cell['n_valid']}/{cell['N']}",
                figure(cell["tv"]),
                brief(cell["tv_ci95"]),
                figure(cell["e0"]),
                brief(cell["band"]),
                figure(cell["excess"]),
                figure(cell["score"]),
                p_text(cell["p"], least) + ("*" if cell["rejected"] else " "),
                p_text(cell["p_benjamini_hochberg"]),
            )
        tables.append(table)
    tables[-1].caption = Text(
        "n/N: rollouts that ended in an outcome. TV beside its floor (its mean if q holds) and band (95 % if q holds); "
        "95 %: of the TV that endless rollouts would show. "
        f"BH: Benjamini-Hochberg over all cells; * it rejects q at false-discovery rate {tests['rate']:g}: "
        f"{tests['rejected_benjamini_hochberg']} of "
        f"{tests['testable']} testable cells, {tests['rejected_bonferroni']} by Bonferroni."
    )
    return tables


def ordered_table(models: dict[str, Any]) -> list[Table]:
    """Return the table of distances that know the order of bins, nothing where no scene has one."""
    table = empty_table(
        "CaliBench: outcomes in a row",
        "Distances that tell a miss by one bin from a miss by ten. Wasserstein: bins that the mass is moved by, on average; "
        "energy: in its square root. p: of q. BH: over these cells, by distance.",
        *("scene", "model", "Wasserstein", "p", "BH", "energy", "p", "BH"),
        left=2,
    )
    for model, entry in models.items():
        for scene, cell in entry["cells"].items():
            if "wasserstein" in cell:
                row = [
                    text
                    for test in (cell["wasserstein"], cell["energy"])
                    for text in (
                        figure(test["value"]),
                        p_text(test["p"], test["draws"]),
                        p_text(test["p_benjamini_hochberg"]),
                    )
                ]
                table.add_row(scene, Text(model), *row)
    return [table] if table.row_count else []


def track_tables(evaluation: dict[str, Any]) -> list[Table]:
    """Return a table of models for each track, and for calibration the scenes of a few models with floors and bands."""
    tables = []
    for track, held in evaluation["tracks"].items():
        calibration = track == "calibration"
        unit = "TVD %" if calibration else "coverage %"
        table = empty_table(
            f"PAWBench {track}: mean {unit} over passing scenes",
            (
                "If q: mean and 99 % quantile of models that draw the same n from every q; p against them, BH over the models. "
                if calibration
                else ""
            )
            + "A model is blocked by an infrastructure failure, which is no outcome: judge that clip again.",
            *("model", unit, *(("if q", "if q, 99 %", "p", "BH") if calibration else ()), "scenes passing"),
        )
        for model, entry in held["models"].items():
            null, rate, average = entry["matched_null"] or {}, entry["scene_pass_rate"], entry["track_average"]
            p = p_text(null.get("p"), null.get("draws"))
            expected = [
                figure(null.get("mean"), ".2f"),
                figure(null.get("q99"), ".2f"),
                p,
                p_text(null.get("p_benjamini_hochberg")),
            ]
            table.add_row(
                Text(model),
                figure(average["value"] if average else None, ".2f"),
                *(expected if calibration else []),
                f"blocked by {len(entry['blockers'])}"
                if entry["blockers"]
                else f"{rate['passing_scenes']} of {rate['scene_denominator']}",
            )
        tables.append(table)
        pooled = [null for null in held.get("pooled_null", []) if null["cells"]]
        if pooled:
            tables.append(_pooled_table(pooled))
        tables += [_scene_table(model, entry, calibration) for model, entry in list(held["models"].items())[:MODELS_IN_FULL]]
        if len(held["models"]) > MODELS_IN_FULL:
            tables[-1].caption = Text(f"{tables[-1].caption} The scenes of the other models: result.json (out=DIR).")
    return tables


def _pooled_table(pooled: list[dict[str, Any]]) -> Table:
    table = empty_table(
        "PAWBench calibration: all models' cells pooled",
        "",
        *("cells", "TVD %", "if q", "if q, 99 %", "p"),
    )
    for null in pooled:
        which = f"{null['cells']}" + (f" with n >= {null['minimum_valid']}" if null["minimum_valid"] > 1 else "")
        p = p_text(null["p"], null["draws"])
        table.add_row(which, *(figure(null[key], ".2f") for key in ("observed", "mean", "q99")), p)
    return table


def _scene_table(model: str, entry: dict[str, Any], calibration: bool) -> Table:
    table = empty_table(
        f"PAWBench {'calibration' if calibration else 'coverage'}: {model} by scene",
        "All x100. TVD beside its floor (its mean if q holds) and band (95 % if q holds); coverage beside the same. "
        "n/K: rollouts with an outcome. BH: Benjamini-Hochberg over all models' scenes."
        if calibration
        else "All x100. Unseen: probability of an outcome not seen yet, by Good-Turing, so that other n may be compared.",
        *("scene", "status", "n/K"),
        *(
            ("TVD %", "95 %", "floor", "band", "p", "BH", "coverage", "if q", "band")
            if calibration
            else ("coverage %", "unseen")
        ),
        left=2,
    )
    for scene in entry["scenes"]:
        value = figure(scene["metric"]["value"] if scene["metric"] else None, ".2f")
        table.add_row(
            Text(scene["scene_id"]),
            scene["status"],
            f"{scene['valid_outcomes']}/{scene['expected_rollouts']}",
            value,
            *(
                (
                    brief(scene.get("interval"), ".0f"),
                    figure(scene.get("floor"), ".2f"),
                    brief(scene.get("band"), ".1f"),
                    p_text(scene.get("p"), scene.get("draws")),
                    p_text(scene.get("p_benjamini_hochberg")),
                    figure(scene.get("coverage"), ".0f"),
                    figure(scene.get("coverage_if_q"), ".0f"),
                    brief(scene.get("coverage_if_q_band"), ".0f"),
                )
                if calibration
                else (figure(100 * scene["unseen_mass"]["good_turing"] if "unseen_mass" in scene else None, ".1f"),)
            ),
        )
    return table
