"""How many rollouts a scene needs before a distance can be seen, ruled out, or known: for planning, from references alone.

It looks at no label: what was observed must not decide how much would have been enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from numpy.random import Generator
from rich.table import Table
from rich.text import Text

from refcheck.budget import hardest_effect, rollouts_for_width, rollouts_to_detect_distance
from refcheck.equivalence import equivalence_size
from refcheck.metrics import FloatArray
from refcheck.score_tables import empty_table, figure

POWER = 0.8
ALPHA = 0.05
LARGEST = 10**9
"""Beyond any number that a distance of .01, the smallest that is asked for, takes over a few hundred outcomes."""


def evaluate(
    known: Mapping[str, tuple[tuple[str, ...], FloatArray]], distance: float, generator_for: Callable[[str], Generator]
) -> dict[str, Any]:
    """Return valid rollouts by scene: to `detect` a TVD of `distance`, to show `agreement` within it, and the `width`.

    `detect`: the chi-square test rejects whatever lies that far away, in the hardest direction, with 80 % power at 5 %; None
    where everything that far away shows an outcome that q excludes. `agreement`: a sampler that is q passes the exact test of
    H0 TVD >= distance with that power. `width` is the same for every scene: a 95 % interval of TVD is `distance` wide.
    `distance` is at most .5, so that something is that far from any q.
    """
    scenes: dict[str, dict[str, int | None]] = {}
    for scene, (_, q) in known.items():
        seen = hardest_effect(q, distance) < inf
        agreement = equivalence_size(q, distance, generator_for(scene), alpha=ALPHA, power=POWER, largest=LARGEST)
        detect = rollouts_to_detect_distance(q, distance, power=POWER, alpha=ALPHA) if seen else None
        scenes[scene] = {"detect": detect, "agreement": agreement}
    return {"distance": distance, "power": POWER, "alpha": ALPHA, "width": rollouts_for_width(distance), "scenes": scenes}


def tables(plan: Mapping[str, Any]) -> list[Table]:
    """Return the table of numbers, nothing without a scene."""
    if not plan["scenes"]:
        return []
    distance = plan["distance"]
    table = empty_table(
        f"Rollouts with an outcome that a TVD of {distance:g} takes",
        f"To detect it: chi-square rejects whatever lies that far from q, with {POWER:.0%} power at {ALPHA:.0%}. To show "
        f"agreement: the exact test of epsilon={distance:g} is passed by a model that is q, likewise. To know TVD to a 95 % "
        f"interval {distance:g} wide: about {plan['width']}, in any scene. Nulls come on top.",
        *("scene", "to detect it", "to show agreement"),
    )
    for scene, entry in plan["scenes"].items():
        table.add_row(Text(scene), figure(entry["detect"], "d"), figure(entry["agreement"], "d"))
    return [table]
