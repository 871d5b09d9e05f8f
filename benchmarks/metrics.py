"""How fast the matched null and the bootstrap of mnTV are, beside the loops over replicates that one would write first.

The two sides run in turn in this process. The loop does fewer replicates, and its time is scaled by their number; ours does
all of them. Sizes are the published ones: 11 models x 25 scenes, and 54 cells, at 50,000 draws each.

    python benchmarks/metrics.py [repeats] [replicates of the loops]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from refcheck import metrics
from refcheck.calibench import SCENES
from refcheck.intervals import CellCounts, corrected_bootstrap_mntv, percentile_bootstrap_mntv
from refcheck.matched import matched_null

DRAWS = 50_000
OUTCOMES = (2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 4, 4, 4, 6, 6, 6, 8, 2, 2, 11, 11, 12, 3, 37)
"""Outcomes of 25 scenes of a calibration track, about as PAWBench's are."""


def table(generator: np.random.Generator) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """11 models x 25 scenes of counts and q, with 20 to 50 valid rollouts."""
    models = {}
    for model in range(11):
        cells = []
        for k in OUTCOMES:
            q = np.full(k, 1 / k)
            cells.append((generator.multinomial(generator.integers(20, 51), q), q))
        models[str(model)] = cells
    return models


def rosters(generator: np.random.Generator) -> list[list[CellCounts]]:
    """6 models x 9 scenes, 32 rollouts a cell: the 54 cells of the published table."""
    found = []
    for _ in range(6):
        cells: list[CellCounts] = []
        for scene in SCENES.values():
            q = scene.array()
            redrawn = generator.multinomial(32, np.append(0.8 * q, 0.2))
            cells.append((redrawn[:-1], int(redrawn[-1]), q))
        found.append(cells)
    return found


def null_loop(models: dict[str, list[tuple[np.ndarray, np.ndarray]]], generator: np.random.Generator, draws: int) -> None:
    """The matched null, a replicate at a time."""
    for cells in models.values():
        averages = []
        for _ in range(draws):
            distances = []
            for counts, q in cells:
                n = counts.sum()
                drawn = generator.multinomial(n, q)
                distances.append(0.5 * np.abs(drawn / n - q).sum())
            averages.append(np.mean(distances))
        np.quantile(averages, 0.99)


def bootstrap_loop(models: list[list[CellCounts]], generator: np.random.Generator, draws: int) -> None:
    """The bootstrap of mnTV, a replicate at a time, with E0 looked up."""
    for cells in models:
        prepared = []
        for counts, nulls, q in cells:
            x = np.append(counts, nulls)
            prepared.append((x.sum(), x / x.sum(), q, metrics.expected_tvd(np.arange(x.sum() + 1), q)))
        means = []
        for _ in range(draws):
            scores = []
            for size, shares, q, floor in prepared:
                drawn = generator.multinomial(size, shares)[:-1]
                n = drawn.sum()
                if n == 0:
                    scores.append(1.0)
                    continue
                distance = 0.5 * np.abs(drawn / n - q).sum()
                scores.append((1 - n / size) + n / size * (distance - floor[n]) / (1 - floor[n]))
            means.append(np.mean(scores))
        np.quantile(means, [0.025, 0.975])


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main(repeats: int, replicates: int) -> None:
    """Run both comparisons in turn and print medians and ratios."""
    generator = np.random.default_rng(0)
    models, cells = table(generator), rosters(generator)
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "matched null, 11 x 25": (
            lambda: matched_null(models, generator, DRAWS, (1, 30)),
            lambda: null_loop(models, generator, replicates),
        ),
        "bootstrap, 54 cells": (
            lambda: [percentile_bootstrap_mntv(roster, generator, DRAWS) for roster in cells],
            lambda: bootstrap_loop(cells, generator, replicates),
        ),
        "corrected bootstrap, 54 cells": (
            lambda: [corrected_bootstrap_mntv(roster, generator, DRAWS) for roster in cells],
            lambda: bootstrap_loop(cells, generator, replicates),
        ),
    }
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in pairs}
    for _ in range(repeats):
        for name, (ours, loop) in pairs.items():
            times[name][0].append(timed(ours))
            times[name][1].append(timed(loop) * DRAWS / replicates)
    for name, (ours, loop) in times.items():
        ratios = [b / a for a, b in zip(ours, loop, strict=True)]
        print(
            f"{name}, {DRAWS} draws: {statistics.median(ours):.2f} s ({min(ours):.2f} to {max(ours):.2f}); loop, scaled from "
            f"{replicates}: {statistics.median(loop):.0f} s; ratio {statistics.median(ratios):.0f} "
            f"({min(ratios):.0f} to {max(ratios):.0f})"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, int(sys.argv[2]) if len(sys.argv) > 2 else 500)
