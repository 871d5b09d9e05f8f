"""Tables of what `score` computed, for a terminal of 100 columns. They compute no figure."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from refcheck.calibench import SCENES

MODELS_IN_FULL = 3
"""PAWBench models whose scenes are printed; the result holds all of them."""


def figure(value: float | None, form: str = ".3f") -> str:
    """Return a number, or a dash for what is unscored."""
    return "-" if value is None else format(value, form)


def span(ends: list[float] | None, form: str = ".3f") -> str:
    """Return a range as `low to high`, or a dash."""
    return "-" if ends is None else f"{ends[0]:{form}} to {ends[1]:{form}}"


def p_text(value: float | None) -> str:
    """Return a p-value, a small one by its magnitude."""
    return "-" if value is None else f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def empty_table(title: str, caption: str, *columns: str, left: int = 1) -> Table:
    """Return an empty table for 100 columns, the first `left` of its columns words and the others figures."""
    table = Table(title=Text(title), caption=Text(caption), title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", no_wrap=index >= left, overflow="fold")
    return table


def model_table(models: dict[str, Any]) -> Table:
    """Return the table of mnTV, lowest first."""
    means = {name: entry["mntv"] for name, entry in models.items()}
    missing = [f"{name} lacks {', '.join(mean['missing'])}." for name, mean in means.items() if mean["missing"]]
    odd = [f"{name}: {'; '.join(mean['notes'])}." for name, mean in means.items() if mean["notes"]]
    table = empty_table(
        "CaliBench: mnTV, 0 is calibrated and 1 the worst",
        "95 %: the published bootstrap, which need not be centred. If q: the mean and 95 % range of a model with the same "
        "nulls whose every outcome came from q. " + " ".join(missing + odd),
        *("model", "mnTV", "95 %", "if q", "if q, 95 %", "scenes"),
    )
    for name, mntv in sorted(means.items(), key=lambda item: item[1]["value"]):
        table.add_row(
            Text(name),
            figure(mntv["value"], ".4f"),
            span(mntv["ci95"]),
            figure(mntv["if_q"]),
            span(mntv["if_q_band95"]),
            f"{mntv['scenes']} of {len(SCENES)}" + (", partial" if mntv["partial"] else ""),
        )
    return table


def cell_tables(models: dict[str, Any], tests: dict[str, Any]) -> list[Table]:
    """Return one table of scenes a model."""
    tables = []
    for model, entry in models.items():
        table = empty_table(
            f"CaliBench: {model} by scene", "", *("scene", "n/N", "TV", "floor", "band", "excess", "score", "p")
        )
        for scene, cell in entry["cells"].items():
            table.add_row(
                scene,
                f"{cell['n_valid']}/{cell['N']}",
                figure(cell["tv"]),
                figure(cell["e0"]),
                span(cell["band"]),
                figure(cell["excess"]),
                figure(cell["score"]),
                p_text(cell["p"]) + ("*" if cell["rejected"] else " "),
            )
        tables.append(table)
    tables[-1].caption = Text(
        "n/N: rollouts that ended in an outcome. TV beside its floor (its mean if q holds) and band (95 % if q holds). "
        f"* p rejects q at false-discovery rate {tests['rate']:g}: {tests['rejected_benjamini_hochberg']} of "
        f"{tests['testable']} testable cells, {tests['rejected_bonferroni']} by Bonferroni."
    )
    return tables


def track_tables(evaluation: dict[str, Any]) -> list[Table]:
    """Return a table of models for each track, and for calibration the scenes of a few models with floors and bands."""
    tables = []
    for track, held in evaluation["tracks"].items():
        calibration = track == "calibration"
        unit = "TVD %" if calibration else "coverage %"
        table = empty_table(
            f"PAWBench {track}: mean {unit} over passing scenes",
            (
                "If q: mean and 99 % quantile of models that draw the same n from every q; p against them. "
                if calibration
                else ""
            )
            + "A model is blocked by an infrastructure failure, which is no outcome: judge that clip again.",
            *("model", unit, *(("if q", "if q, 99 %", "p") if calibration else ()), "scenes passing"),
        )
        for model, entry in held["models"].items():
            null, rate, average = entry["matched_null"] or {}, entry["scene_pass_rate"], entry["track_average"]
            expected = [figure(null.get("mean"), ".2f"), figure(null.get("q99"), ".2f"), p_text(null.get("p"))]
            table.add_row(
                Text(model),
                figure(average["value"] if average else None, ".2f"),
                *(expected if calibration else []),
                f"blocked by {len(entry['blockers'])}"
                if entry["blockers"]
                else f"{rate['passing_scenes']} of {rate['scene_denominator']}",
            )
        tables.append(table)
        if calibration:
            tables += [_scene_table(model, entry) for model, entry in list(held["models"].items())[:MODELS_IN_FULL]]
            if len(held["models"]) > MODELS_IN_FULL:
                tables[-1].caption = Text("The scenes of the other models are in result.json (out=DIR).")
    return tables


def _scene_table(model: str, entry: dict[str, Any]) -> Table:
    table = empty_table(
        f"PAWBench calibration: {model} by scene",
        "TVD beside its floor (its mean if q holds) and band (95 % if q holds), all x100.",
        *("scene", "status", "valid", "nulls", "TVD %", "floor", "band"),
        left=2,
    )
    for scene in entry["scenes"]:
        table.add_row(
            Text(scene["scene_id"]),
            scene["status"],
            str(scene["valid_outcomes"]),
            str(scene["null_observations"]),
            figure(scene["metric"]["value"] if scene["metric"] else None, ".2f"),
            figure(scene.get("floor"), ".2f"),
            span(scene.get("band"), ".1f"),
        )
    return table
