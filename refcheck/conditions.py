"""A swept setting (guidance, resolution, duration, prompt target): rho against TV at each value, with tests that pair seeds.

It compares conditions within one study, model and scene, of either benchmark; it knows nothing of how a setting acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from matplotlib.figure import Figure
from numpy.random import Generator
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from refcheck import metrics
from refcheck.calibench import SCENES
from refcheck.command import UserError
from refcheck.inference import adjust, draw_null, monte_carlo_p_value, reaches
from refcheck.labels import Cells, Row
from refcheck.metrics import FloatArray
from refcheck.output import atomic
from refcheck.policy import Policy
from refcheck.score_tables import empty_table, figure, p_text, span

Counts = NDArray[np.int64]
SWEEPS_IN_FULL = 9
"""Sweeps that are printed; the result holds all of them."""
LANE = "model_or_lane"
"""PAWBench's key of a model; swept, its lanes are the conditions."""
CHUNK = 1 << 22
"""Random counts drawn at once: bounds the memory of the permutations."""


@dataclass(frozen=True)
class Paired:
    """Two conditions compared over the `seeds` they share: differences second minus first, and their two-sided p.

    `rho_p` is McNemar's exact test of the seeds valid in one condition alone. `tv_p` and `score_p` are permutation tests
    that exchange the conditions within each seed; `score_ci95` is a percentile bootstrap over seeds.
    """

    seeds: int
    rho: float
    rho_p: float
    tv: float
    tv_p: float
    score: float
    score_ci95: tuple[float, float]
    score_p: float


def joint_table(first: Mapping[int, int | None], second: Mapping[int, int | None], k: int) -> Counts:
    """Return how often shared seeds ended in outcome i of `first` and j of `second`, (k+1, k+1), null last."""
    table = np.zeros((k + 1, k + 1), np.int64)
    for seed in first.keys() & second.keys():
        i, j = first[seed], second[seed]
        table[k if i is None else i - 1, k if j is None else j - 1] += 1
    return table


def _figures(counts: Counts, q: FloatArray, floor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return TV and score (...) of counts (..., k+1) whose last axis ends in the nulls; `floor` is E0 at n = 0, 1, ... N."""
    valid = counts[..., :-1].sum(-1)
    distance = metrics.tvd(counts[..., :-1], q)
    return distance, metrics.score(valid / counts.sum(-1), metrics.excess_tvd(distance, floor[valid]))


def paired(table: Counts, q: FloatArray, generator: Generator, draws: int = 50_000) -> Paired:
    """Compare two conditions from their joint table (k+1, k+1) over shared seeds, null last.

    Under the hypothesis that the setting changes nothing, (first, second) and (second, first) are equally likely for a
    seed, so c_ij seeds of kind (i, j) exchange Binomial(c_ij, 1/2) of them. A draw whose TV is undefined counts as extreme.
    p = (b+1)/(B+1), ties included. McNemar: McNemar 1947, Psychometrika 12. Raises `ValueError` without a shared seed.
    """
    size, k = int(table.sum()), table.shape[0] - 1
    if size == 0:
        raise ValueError("the conditions share no seed, so nothing can be paired")
    floor = metrics.expected_tvd(np.arange(size + 1), q)
    first, second = table.sum(1), table.sum(0)
    tv, score = (b - a for a, b in zip(_figures(first, q, floor), _figures(second, q, floor), strict=True))
    gained, lost = int(table[k, :k].sum()), int(table[:k, k].sum())
    i, j = np.nonzero(table * (1 - np.eye(k + 1, dtype=np.int64)))
    step = np.zeros((i.size, k + 1), np.int64)  # what one exchanged seed adds to the first condition's counts
    step[np.arange(i.size), j] += 1
    step[np.arange(i.size), i] -= 1
    kinds = table.ravel()
    left, reached, redrawn = draws, np.zeros(2, np.int64), list[FloatArray]()
    while left > 0:
        rows = min(left, max(1, CHUNK // kinds.size))
        left -= rows
        moved = generator.binomial(table[i, j], 0.5, size=(rows, i.size)) @ step
        null = [b - a for a, b in zip(_figures(first + moved, q, floor), _figures(second - moved, q, floor), strict=True)]
        for index, (values, observed) in enumerate(zip(null, (tv, score), strict=True)):
            reached[index] += int((reaches(np.abs(values), abs(float(observed))) | np.isnan(values)).sum())
        again = generator.multinomial(size, kinds / size, size=rows).reshape(rows, k + 1, k + 1)
        redrawn.append(_figures(again.sum(1), q, floor)[1] - _figures(again.sum(2), q, floor)[1])
    low, high = np.quantile(np.concatenate(redrawn), [0.025, 0.975])
    p = (reached + 1) / (draws + 1)
    return Paired(
        seeds=size,
        rho=(gained - lost) / size,
        rho_p=float(scipy.stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0,
        tv=float(tv),
        tv_p=nan if isnan(tv) else float(p[0]),
        score=float(score),
        score_ci95=(float(low), float(high)),
        score_p=float(p[1]),
    )


def in_order(conditions: Sequence[str]) -> list[str]:
    """Return conditions by their number if all have one, otherwise as they came."""
    try:
        return sorted(conditions, key=float)
    except ValueError:
        return list(conditions)


Swept = Mapping[tuple[str, str, str], Mapping[str, Cells]]


def pawbench_cells(
    settings: Mapping[str, Mapping[str, Mapping[str, Sequence[Row]]]], policy: Policy, by: str
) -> tuple[dict[tuple[str, str, str], dict[str, Cells]], list[str]]:
    """Return PAWBench's calibration cells as a sweep's, a repeat taken for a seed, and the coverage scenes left out.

    A coverage scene has no reference to be far from. No gate is applied: rho stands beside TV. Where the swept setting is
    the lane itself, lanes are the conditions, and no model is named.

    Args:
        settings: checked rows by value of the setting, model and scene.
        policy: what they were held to.
        by: the setting's key.

    Raises:
        UserError: for an infrastructure failure, which is no outcome and no null.
    """
    found: dict[tuple[str, str, str], dict[str, Cells]] = {}
    failed = []
    for setting, models in settings.items():
        for model, scenes in models.items():
            for scene in policy.track("calibration"):
                cells = Cells([0] * len(scene.outcomes))
                for row in scenes[scene.scene_id]:
                    cells.add(row.repeat, None if row.outcome_label is None else 1 + scene.outcomes.index(row.outcome_label))
                    if row.observation == "infrastructure_failure":
                        failed.append(f"{setting}, {model}, {scene.scene_id}, repeat {row.repeat}")
                lane = "" if by == LANE else model
                found.setdefault(("", lane, scene.scene_id), {})[setting] = cells
    if failed:
        more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
        raise UserError(f"by={by}: judge again what ended in an infrastructure failure: {'; '.join(failed[:5])}{more}")
    return found, [scene.scene_id for scene in policy.track("coverage")]


def evaluate(
    swept: Swept,
    by: str,
    generator_for: Callable[[str], Generator],
    draws: int = 50_000,
    step: Callable[[int], Any] = lambda count: None,
    references: Mapping[str, FloatArray] | None = None,
) -> list[dict[str, Any]]:
    """Return each sweep's conditions with their figures, and every pair of conditions compared.

    `p_benjamini_hochberg` is over the conditions of one sweep, `score_p_benjamini_hochberg` over its pairs. `step(1)` is
    called after each condition. `references` holds q (k,) of PAWBench's scenes; without it the scenes are CaliBench's.
    """
    sweeps = []
    protocol = "calibench" if references is None else "pawbench"
    for (study, model, scene), cells in swept.items():
        q = SCENES[scene].array() if references is None else references[scene]
        name = f"conditions/{study}/{model}/{scene}"
        order = in_order(list(cells))
        entries = []
        for condition in order:
            entries.append({by: condition, **_condition(cells[condition], q, generator_for(f"{name}/{condition}"), draws)})
            step(1)
        adjust(entries)
        pairs = []
        for a, b in combinations(order, 2):
            table = joint_table(cells[a].bins, cells[b].bins, q.size)
            compared = asdict(paired(table, q, generator_for(f"{name}/{a}/{b}"), draws)) if table.sum() else {"seeds": 0}
            pairs.append({"first": a, "second": b, **compared})
        adjust(pairs, "score_p")
        place = {"protocol": protocol, "study": study, "model": model, "scene": scene}
        sweeps.append({**place, "conditions": entries, "pairs": pairs})
    return sweeps


def _condition(cells: Cells, q: FloatArray, generator: Generator, draws: int) -> dict[str, Any]:
    cell = metrics.cell(cells.counts, cells.nulls, q)
    null = draw_null(cell.valid, q, generator, draws) if cell.valid else None
    return {
        **{"N": cell.total, "n_valid": cell.valid, "rho": cell.rho, "counts": cell.counts, "tv": cell.tvd, "e0": cell.e0},
        **{"band": null.band() if null else None, "excess": cell.excess, "score": cell.score},
        "p": monte_carlo_p_value(cells.counts, q, null).value if null and cell.testable else None,
    }


def tables(conditions: Mapping[str, Any], draws: int) -> list[Table]:
    """Return two tables a sweep, its p-values of so many `draws`: conditions, and the pairs that differ most surely."""
    by, made = conditions["by"], []
    for sweep in conditions["sweeps"][:SWEEPS_IN_FULL]:
        what = ", ".join(part for part in (sweep["study"], sweep["model"], sweep["scene"]) if part)
        table = empty_table(
            f"Conditions: {what}",
            "TV beside its floor (its mean if q holds) and band (95 % if q holds). BH: Benjamini-Hochberg over the sweep.",
            *(by, "n/N", "rho", "TV", "floor", "band", "score", "p", "BH"),
        )
        for entry in sweep["conditions"]:
            table.add_row(
                entry[by],
                f"{entry['n_valid']}/{entry['N']}",
                figure(entry["rho"]),
                _dash(entry["tv"], ".4f"),
                _dash(entry["e0"]),
                span(entry["band"]),
                figure(entry["score"]),
                p_text(entry["p"], draws),
                p_text(entry["p_benjamini_hochberg"]),
            )
        made.append(table)
        tested = sorted((pair for pair in sweep["pairs"] if pair["seeds"]), key=lambda pair: pair["score_p"])
        if not tested:
            continue
        table = empty_table(
            f"Pairs of {by}: the surest {min(10, len(tested))} of {len(tested)}, second minus first over shared seeds",
            "p: conditions exchanged within each seed. BH: Benjamini-Hochberg over the sweep's pairs. rho p: McNemar's exact.",
            *("pair", "rho", "rho p", "TV", "TV p", "score", "95 %", "p", "BH"),
        )
        for pair in tested[:10]:
            table.add_row(
                f"{pair['first']}, {pair['second']}",
                f"{pair['rho']:+.3f}",
                p_text(pair["rho_p"]),
                _dash(pair["tv"], "+.3f"),
                "-" if isnan(pair["tv_p"]) else p_text(pair["tv_p"], draws),
                f"{pair['score']:+.3f}",
                span(pair["score_ci95"], "+.2f"),
                p_text(pair["score_p"], draws),
                p_text(pair["score_p_benjamini_hochberg"]),
            )
        made.append(table)
    rest = len(conditions["sweeps"]) - SWEEPS_IN_FULL
    if rest > 0:
        made[-1].caption = Text(f"{made[-1].caption} {rest} more sweeps: result.json (out=DIR).")
    if conditions["left_out"]:
        told = f"Left out, having no reference: {', '.join(conditions['left_out'])}."
        made[-1].caption = Text(f"{made[-1].caption} {told}")
    return made


def _dash(value: float, form: str = ".3f") -> str:
    return figure(None if isnan(value) else value, form)


def plots(conditions: Mapping[str, Any], out: Path) -> list[Path]:
    """Draw each sweep's rho against TV into `out`, one PNG a sweep, and return where."""
    by, made = conditions["by"], []
    for number, sweep in enumerate(conditions["sweeps"], 1):
        entries = [entry for entry in sweep["conditions"] if not isnan(entry["tv"])]
        drawn = Figure(figsize=(6.4, 4.4), layout="constrained")
        axes = drawn.subplots()
        rho, tv = [entry["rho"] for entry in entries], [entry["tv"] for entry in entries]
        axes.plot(rho, tv, color="0.75", linewidth=1, zorder=1)
        bands = np.array([entry["band"] for entry in entries]).reshape(-1, 2)
        axes.vlines(rho, bands[:, 0], bands[:, 1], color="tab:green", alpha=0.35, linewidth=6, label="95 % if q holds")
        axes.plot(rho, [entry["e0"] for entry in entries], "_", color="tab:green", markersize=12, label="floor")
        axes.scatter(rho, tv, color="tab:blue", zorder=2, label="observed")
        for entry in entries:
            axes.annotate(entry[by], (entry["rho"], entry["tv"]), xytext=(6, 5), textcoords="offset points", parse_math=False)
        what = ", ".join(part for part in (sweep["study"], sweep["model"], sweep["scene"]) if part)
        axes.set_title(f"{what}: each point one value of {by}", parse_math=False, fontsize=10)
        axes.set(xlabel="rho, share of rollouts with an outcome", ylabel="TV over them", ylim=(0, None))
        axes.margins(x=0.1)
        axes.legend(frameon=False, fontsize=8)
        path = out / ("conditions.png" if len(conditions["sweeps"]) == 1 else f"conditions_{number}.png")
        with atomic(path) as temporary:
            drawn.savefig(temporary, dpi=150, format="png")
        made.append(path)
    return made
