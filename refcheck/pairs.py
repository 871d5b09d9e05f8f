"""PAWBench's paired scenes: did the change between two scenes shift a model's outcomes, with interval, test and effect size.

It compares outcomes of the same model and refuses to say what the change was meant to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from rich.table import Table
from rich.text import Text

from refcheck import metrics
from refcheck.inference import TIE, adjust
from refcheck.intervals import PSEUDO_ROLLOUTS, centred_interval
from refcheck.metrics import FloatArray
from refcheck.policy import Policy
from refcheck.score_tables import MODELS_IN_FULL, empty_table, figure, p_text, span

PUBLISHED = (
    *(("A-09", "A25"), ("A-05", "A-11"), ("A-01", "A23"), ("A-06", "A20")),
    *(("A-07", "A-12"), ("A-08", "A-15"), ("A-13", "A-14"), ("A19", "A24")),
)
"""The eight published pairs (base, variant); in the first two the reference changes (Pu et al. 2026)."""
OURS = (("A-03", "A-04"),)
"""The sector share, a natural ninth that is not confirmed among the eight: a family of its own."""


def shift(base: Mapping[str, int], variant: Mapping[str, int], generator: Generator, draws: int = 50_000) -> dict[str, Any]:
    """Compare two tallies over the same outcomes.

    `shift` is the TVD between their shares; `floor` its mean when there is no shift, from the same permutations that give
    `p` = (b + 1)/(B + 1) (outcomes shared out anew, both n kept; exact under equal laws); `ci95` the centred bootstrap
    interval of the shift expected at these n, not below 0; `effect` Cohen's w of the 2 x k table, sqrt(X^2 / (n + m)).

    Raises:
        ValueError: for tallies over different outcomes or without a valid rollout.
    """
    if set(base) != set(variant):
        raise ValueError(f"the tallies must have the same outcomes, got {list(base)} and {list(variant)}")
    x = np.array(list(base.values()), np.int64)
    y = np.array([variant[label] for label in base], np.int64)
    n, m = int(x.sum()), int(y.sum())
    if min(n, m) < 1:
        raise ValueError("both tallies need a valid rollout")
    pooled = x + y
    observed = float(_distance(x, y))
    mine = generator.multivariate_hypergeometric(pooled, n, size=draws, method="marginals")
    null = _distance(mine, pooled - mine)
    fitted = [(counts + PSEUDO_ROLLOUTS / counts.size) / (counts.sum() + PSEUDO_ROLLOUTS) for counts in (x, y)]
    redrawn = _distance(generator.multinomial(n, fitted[0], size=draws), generator.multinomial(m, fitted[1], size=draws))
    interval = centred_interval(observed, redrawn, 0.95)
    seen = pooled > 0
    square = sum(float(metrics.chi_square(counts[seen], pooled[seen] / (n + m))) for counts in (x, y))
    return {
        "shift": observed,
        "floor": float(null.mean()),
        "ci95": [max(0.0, interval.low), min(1.0, interval.high)],
        "p": (int((null >= observed - TIE).sum()) + 1) / (draws + 1),
        "effect": float(np.sqrt(square / (n + m))),
        "n": [n, m],
        "draws": draws,
    }


def _distance(first: ArrayLike, second: ArrayLike) -> FloatArray:
    first, second = np.asarray(first), np.asarray(second)
    return np.asarray(0.5 * np.abs(first / first.sum(-1)[..., None] - second / second.sum(-1)[..., None]).sum(-1))


def evaluate(
    evaluation: Mapping[str, Any], policy: Policy, generator_for: Callable[[str], Generator], draws: int = 50_000
) -> dict[str, list[dict[str, Any]]]:
    """Return, by model, the pairs that the policy holds, as `pawbench.evaluate` scored their scenes.

    `expected` is the TVD between the two references. A pair with a failed or blocked scene, or with different outcomes, has
    a `status` saying so and no test. `p_benjamini_hochberg` is over the published pairs of one model that were tested;
    the ninth pair is a family of its own, so its p stands as it is.
    """
    q = {scene.scene_id: dict(zip(scene.outcomes, scene.q, strict=True)) for scene in policy.track("calibration") if scene.q}
    found: dict[str, list[dict[str, Any]]] = {}
    for model, held in evaluation["tracks"].get("calibration", {"models": {}})["models"].items():
        scenes = {scene["scene_id"]: scene for scene in held["scenes"]}
        entries = []
        for base, variant in (pair for pair in (*PUBLISHED, *OURS) if set(pair) <= scenes.keys()):
            a, b = scenes[base], scenes[variant]
            same = set(a["counts"]) == set(b["counts"])
            worst = next((scene for scene in (a, b) if scene["status"] != "pass"), None)
            entry: dict[str, Any] = {
                "base": base,
                "variant": variant,
                "family": "published" if (base, variant) in PUBLISHED else "ours",
                "status": "tested"
                if same and worst is None
                else f"{worst['scene_id']}: {worst['status']}"
                if worst
                else "outcomes differ",
                "expected": sum(abs(q[base][label] - q[variant][label]) for label in q[base]) / 2 if same else None,
            }
            if entry["status"] == "tested":
                entry |= shift(a["counts"], b["counts"], generator_for(f"{model}/{base}/{variant}"), draws)
            entries.append(entry)
        for family in ("published", "ours"):
            adjust(entry for entry in entries if entry["family"] == family)
        if entries:
            found[model] = entries
    return found


def tables(found: Mapping[str, list[dict[str, Any]]]) -> list[Table]:
    """Return one table of pairs a model, of the first few models."""
    made = []
    for model, entries in list(found.items())[:MODELS_IN_FULL]:
        table = empty_table(
            f"PAWBench pairs: {model}",
            "Shift: TVD between the outcomes of the two scenes; floor: its mean without a shift; expected: between their "
            "references. Effect: Cohen's w. BH: over the published pairs; A-03, A-04 is ours and a family of its own.",
            *("pair", "status", "expected", "shift", "floor", "95 %", "effect", "p", "BH"),
            left=2,
        )
        for entry in entries:
            table.add_row(
                Text(f"{entry['base']}, {entry['variant']}"),
                Text(entry["status"]),
                figure(entry["expected"]),
                *(figure(entry.get(key)) for key in ("shift", "floor")),
                span(entry.get("ci95"), ".2f"),
                figure(entry.get("effect"), ".2f"),
                p_text(entry.get("p"), entry.get("draws")),
                p_text(entry["p_benjamini_hochberg"]),
            )
        made.append(table)
    if len(found) > MODELS_IN_FULL:
        made[-1].caption = Text(f"{made[-1].caption} The pairs of the other models: result.json (out=DIR).")
    return made
