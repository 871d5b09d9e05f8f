"""How often the two intervals of mnTV hold the truth, measured on models whose every outcome probability is known.

The models are the three published ones, each taken to have exactly the shares of outcomes and nulls that its 32 rollouts a
scene showed, and scored anew over and over. The truth is the mnTV such a model has on average over its evaluations.

    python benchmarks/interval_coverage.py [runs] [bootstrap draws of each]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import refcheck
from refcheck.calibench import SCENES
from refcheck.intervals import measure_coverage
from refcheck.labels import read_labels

LABELS = Path(refcheck.__file__).parent / "data" / "calibench_outcomes.csv"


def main(runs: int = 2_000, draws: int = 1_000) -> None:
    """Print the coverage of both 95 % intervals, with its standard error, for each published model."""
    cells = read_labels(LABELS).cells
    for index, model in enumerate(dict.fromkeys(model for model, _ in cells)):
        known = []
        for scene in SCENES.values():
            held = cells[model, scene.id]
            size = sum(held.counts) + held.nulls
            known.append((np.array([*held.counts, held.nulls]) / size, size, scene.array()))
        found = measure_coverage(known, np.random.default_rng([5, index]), runs=runs, draws=draws)
        for name, measured in found.items():
            print(
                f"{model:<11}{name:<11}{measured.rate:.3f} +- {measured.error:.3f}, mean width {measured.width:.3f}, "
                f"truth {measured.truth:.4f}"
            )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
