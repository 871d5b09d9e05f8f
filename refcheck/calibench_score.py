"""CaliBench's protocol over counted labels: each cell's figures, the tests over all of them, each model's mnTV.

It reads no files and compares no models. Source: Sadeghi et al. 2026, arXiv 2608.16829.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.random import Generator

from refcheck import metrics
from refcheck.anytime import log_e_value
from refcheck.calibench import ORDERED, ROLLOUTS, SCENES, SPIKES
from refcheck.coverage import coverage_null, expected_coverage
from refcheck.inference import (
    LATTICE,
    PValue,
    adjust,
    benjamini_hochberg,
    draw_null,
    exact_multinomial_p_value,
    exact_p_value,
    lattice_size,
    monte_carlo_p_value,
)
from refcheck.intervals import CellCounts, corrected_bootstrap_mntv, percentile_bootstrap_mntv, tvd_interval
from refcheck.labels import Labels
from refcheck.metrics import Cell, FloatArray
from refcheck.missing import null_bounds
from refcheck.ordered import Distance, ordered_test
from refcheck.power import smallest_detectable

Step = Callable[[int], Any]
EXTRACTION = "calibench"
"""The published way from a clip to a bin: three calls, decided by `labels.decided`."""


IN_A_ROW: tuple[Distance, ...] = ("wasserstein", "energy")
INTERVAL_DRAWS = 10_000
"""At most so many redraws for the interval beside one TVD."""
COVERAGE_LIMIT = 5000
"""Up to this many valid rollouts the exact band of coverage is given; its cost grows with their square."""


@dataclass(frozen=True)
class Settings:
    """Draws of each null and bootstrap, false-discovery rate of the tests, and how the labels came from the clips."""

    draws: int = 50_000
    rate: float = 0.05
    extraction: str = EXTRACTION


@dataclass(frozen=True)
class _Scored:
    """One CaliBench cell with its null; `null` holds the scores (draws,) of a model that has the same n and is q.

    `beyond` is what neither benchmark has: the exact p of chi-square and of the multinomial test where the lattice is small,
    the log of an e-value for H0 p = q that is valid whenever one looks, and for outcomes in a row the Wasserstein distance in
    bins, and the energy distance, with their p.
    """

    cell: Cell
    band: tuple[float, float] | None
    p: PValue | None
    null: FloatArray
    interval: tuple[float, float] | None
    beyond: dict[str, Any]


def evaluate(
    labels: Labels, settings: Settings, generator_for: Callable[[str], Generator], step: Step = lambda count: None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the models' figures by name, and what the tests over all testable cells say.

    `generator_for(name)` gives the generator of one cell's or one model's draws, so that no figure depends on what else
    was read; `step` is told of each cell twice.
    """
    scored: dict[str, dict[str, _Scored]] = {}
    for model in dict.fromkeys(model for model, _ in labels.cells):
        scored[model] = {}
        for scene in (scene for scene in SCENES if (model, scene) in labels.cells):
            scored[model][scene] = _score_cell(labels, model, scene, settings, generator_for)
            step(1)
    flat = [(model, scene, item.p) for model, cells in scored.items() for scene, item in cells.items()]
    adjusted = benjamini_hochberg([np.nan if p is None else float(p.value) for _, _, p in flat])
    testable = sum(p is not None for _, _, p in flat)
    q_values = {(model, scene): float(value) for (model, scene, _), value in zip(flat, adjusted, strict=True)}
    models = {}
    for model, cells in scored.items():
        models[model] = {
            "mntv": _mntv(model, cells, settings, generator_for),
            "cells": {
                scene: _cell_result(scene, item, q_values[model, scene], testable, settings.rate)
                for scene, item in cells.items()
            },
        }
        step(len(cells))
    every = [cell for entry in models.values() for cell in entry["cells"].values()]
    for kind in IN_A_ROW:
        adjust(cell[kind] for cell in every if kind in cell)
    tests = {
        "testable": testable,
        "rate": settings.rate,
        # By the exact p where there is one: two of the published cells lie a tenth of a standard error from .05.
        "rejected_uncorrected": sum(
            (cell["p"] if cell["p_exact"] is None else cell["p_exact"]) < settings.rate
            for cell in every
            if cell["p"] is not None
        ),
        "rejected_benjamini_hochberg": sum(cell["rejected"] is True for cell in every),
        "rejected_bonferroni": sum(cell["rejected_bonferroni"] is True for cell in every),
        "largest_rejected_p": max((cell["p"] for cell in every if cell["rejected"]), default=None),
    }
    return models, tests


def _score_cell(
    labels: Labels, model: str, scene: str, settings: Settings, generator_for: Callable[[str], Generator]
) -> _Scored:
    held, q = labels.cells[model, scene], SCENES[scene].array()
    cell = metrics.cell(held.counts, held.nulls, q)
    if cell.valid == 0:
        return _Scored(cell, None, None, np.ones(settings.draws), None, {})
    null = draw_null(cell.valid, q, generator_for(f"null/{model}/{scene}"), settings.draws)
    p = monte_carlo_p_value(held.counts, q, null) if cell.testable else None
    interval = tvd_interval(held.counts, q, generator_for(f"interval/{model}/{scene}"), min(settings.draws, INTERVAL_DRAWS))
    scores = metrics.score(cell.rho, metrics.excess_tvd(null.tvd, cell.e0))
    exact = cell.testable and lattice_size(cell.valid, q.size) <= LATTICE
    beyond: dict[str, Any] = {
        "p_exact": exact_p_value(held.counts, q).value if exact else None,
        "p_multinomial": exact_multinomial_p_value(held.counts, q) if exact else None,
        "log_e": float(log_e_value(held.counts, q)),
    }
    for kind in IN_A_ROW if scene in ORDERED else ():
        stream = generator_for(f"ordered/{kind}/{model}/{scene}")
        test = ordered_test(held.counts, q, stream, kind, np.arange(q.size), min(settings.draws, INTERVAL_DRAWS))
        beyond[kind] = {"value": test.statistic, "p": test.p, "draws": test.draws}
    return _Scored(cell, null.band(), p, scores, (float(interval.low), float(interval.high)), beyond)


def _mntv(
    model: str, cells: dict[str, _Scored], settings: Settings, generator_for: Callable[[str], Generator]
) -> dict[str, Any]:
    """Return mnTV with its published bootstrap interval and what the same nulls would give if every outcome came from q."""
    held: list[CellCounts] = [
        (item.cell.counts, item.cell.total - item.cell.valid, SCENES[scene].array()) for scene, item in cells.items()
    ]
    interval = percentile_bootstrap_mntv(held, generator_for(f"bootstrap/{model}"), settings.draws)
    corrected = corrected_bootstrap_mntv(held, generator_for(f"corrected/{model}"), settings.draws)
    null = np.mean([item.null for item in cells.values()], axis=0)
    missing = [scene for scene in SCENES if scene not in cells]
    odd = [
        f"{scene} has {item.cell.total} rollouts, not {ROLLOUTS}"
        for scene, item in cells.items()
        if item.cell.total != ROLLOUTS
    ]
    if settings.extraction != EXTRACTION:
        odd.append(f"labels by {settings.extraction}, not by three votes as published")
    partial = bool(missing or odd)
    return {
        "name": "partial mnTV" if partial else "mnTV",
        "value": float(metrics.mntv([item.cell.score for item in cells.values()])),
        "ci95": [interval.low, interval.high],
        "ci_method": "percentile bootstrap, nulls redrawn too (as published; it need not be centred on the value)",
        "ci95_corrected": [corrected.low, corrected.high],
        "ci_corrected_method": "centred bootstrap of the mnTV this model has on average over reruns: noise counted once",
        "if_q": float(null.mean()),
        "if_q_band95": [float(end) for end in np.quantile(null, [0.025, 0.975])],
        "scenes": len(cells),
        "partial": partial,
        "missing": missing,
        "notes": odd,
    }


def power_table(generator_for: Callable[[str], Generator], draws: int = 50_000) -> dict[str, Any]:
    """Return, by number of valid rollouts and scene, the smallest contamination rejected with 80 % power (CaliBench)."""
    return {
        str(n): {
            scene: asdict(smallest_detectable(n, SCENES[scene].array(), SPIKES.get(scene, 0), generator_for(name), draws=draws))
            for scene, name in ((scene, f"power/{n}/{scene}") for scene in SCENES)
        }
        for n in (ROLLOUTS, ROLLOUTS // 2)
    }


def _cell_result(scene: str, item: _Scored, adjusted: float, testable: int, rate: float) -> dict[str, Any]:
    cell, p, q = item.cell, item.p, SCENES[scene].array()
    bounds = null_bounds(cell.counts, cell.total - cell.valid, q)
    covered = coverage_null(cell.counts, q) if 0 < cell.valid <= COVERAGE_LIMIT else None
    return {
        "N": cell.total,
        "n_valid": cell.valid,
        "rho": cell.rho,
        "outcomes": list(SCENES[scene].outcomes),
        "q": [str(share) for share in SCENES[scene].q],
        "counts": list(cell.counts),
        "tv": _number(cell.tvd),
        "e0": _number(cell.e0),
        "band": list(item.band) if item.band else None,
        "tv_ci95": list(item.interval) if item.interval else None,
        "coverage": _number(cell.coverage),
        "coverage_if_q": _number(float(expected_coverage(cell.valid, q))),
        "coverage_if_q_band95": [covered.low, covered.high] if covered else None,
        "nulls": {"best": float(bounds.best), "worst": float(bounds.worst), "reported": float(bounds.reported)},
        "excess": _number(cell.excess),
        "score": cell.score,
        "chi2": _number(cell.chi_square),
        "p": p.value if p else None,
        "p_reached": p.reached if p else None,
        **item.beyond,
        "p_benjamini_hochberg": _number(adjusted),
        "rejected": adjusted < rate if p else None,
        "rejected_bonferroni": p.value * testable < rate if p else None,
    }


def _number(value: float) -> float | None:
    """Return a number JSON can hold: NaN, which is unscored, becomes null."""
    return value if isfinite(value) else None
