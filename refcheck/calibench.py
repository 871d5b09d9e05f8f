"""CaliBench's nine scenes: outcomes in bin order and references, as its authors state them. It knows no labels that were read.

Source: Sadeghi et al. 2026, arXiv 2608.16829.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np

from refcheck.metrics import FloatArray

ROLLOUTS = 32
"""Rollouts of a cell in the published protocol."""


@dataclass(frozen=True)
class CalibenchScene:
    """One scene: bin b (1-based, in label files) is `outcomes[b - 1]`, whose reference probability is `q[b - 1]`."""

    id: str
    outcomes: tuple[str, ...]
    q: tuple[Fraction, ...]

    def array(self) -> FloatArray:
        """Return the reference as (k,) probabilities."""
        return np.array([float(share) for share in self.q])


def _uniform(scene: str, *outcomes: str) -> CalibenchScene:
    return CalibenchScene(scene, outcomes, (Fraction(1, len(outcomes)),) * len(outcomes))


def _binomial(scene: str, rows: int) -> CalibenchScene:
    bins = tuple(str(1 + i) for i in range(rows + 1))
    return CalibenchScene(scene, bins, tuple(Fraction(comb(rows, i), 2**rows) for i in range(rows + 1)))


ORDERED = ("galton_board_real", "galton_board")
"""Scenes whose outcomes lie in a row, so that near misses differ from far ones."""
SPIKES = {"galton_board_real": 5, "galton_board": 5, "roulette": 2}
"""Where CaliBench's contamination goes when it asks for power, as a position in the outcomes; the first for other scenes."""

SCENES = {
    scene.id: scene
    for scene in (
        _binomial("galton_board_real", 10),
        _binomial("galton_board", 10),
        _uniform("ball", "left", "right"),
        _uniform("walking", "left", "right"),
        _uniform("pendulum", "left", "right"),
        _uniform("dice", *"123456"),
        _uniform("cards", "hearts", "diamonds", "clubs", "spades"),
        _uniform("lottery", *(str(1 + i) for i in range(20))),
        CalibenchScene("roulette", ("red", "black", "green"), (Fraction(18, 37), Fraction(18, 37), Fraction(1, 37))),
    )
}
"""By id, in the paper's order."""
