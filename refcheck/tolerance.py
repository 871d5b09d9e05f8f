"""How far a reference may be off before it matters: a scene's own epsilon, or what the benchmark's own noise would hide.

It refuses to look at what was simulated.
"""

from __future__ import annotations

from refcheck import metrics
from scenes.scene import Scene

ROLLOUTS = {"pawbench": 50, "calibench": 32}
"""Rollouts K a scene: PAWBench (arXiv 2608.27345) and CaliBench (arXiv 2608.16829)."""
OTHERS = 50
PART = 0.4
"""Of the noise floor. A fair coin's reference that is wrong by d < s = 1/(2 sqrt(K)) raises what a model that is right scores
by a share of about d^2 / (2 s^2) (normal law), and the floor is s sqrt(2/pi): so much of it raises it by a twentieth."""
LOW, HIGH = 1e-4, 0.99
FLOOR = "floor"


def from_floor(scene: Scene) -> float:
    """Return `PART` of the noise floor E[TVD] of a model that is right, at the K of the scene's benchmark, to three digits."""
    rollouts = ROLLOUTS.get(scene.benchmark, OTHERS)
    return float(f"{PART * float(metrics.expected_tvd(rollouts, scene.q())):.3g}")


def epsilon_of(scene: Scene, asked: float | str | None = None) -> float:
    """Return the distance that matters: `asked`, else the scene's own; from the floor for `floor` or where none is."""
    given = scene.epsilon if asked is None else asked
    return from_floor(scene) if given is None or given == FLOOR else float(given)


def wrong_epsilon(asked: str | None) -> list[str]:
    """Return what is wrong with the word epsilon= was given."""
    if asked is None or asked == FLOOR:
        return []
    try:
        fine = LOW <= float(asked) <= HIGH
    except ValueError:
        fine = False
    return [] if fine else [f"epsilon={asked!r}: must be a number at least {LOW:g} and at most {HIGH:g}, or {FLOOR!r}"]
