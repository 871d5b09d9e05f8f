"""The judge that errs by a known amount: another judge's reading, passed through a given confusion matrix.

It looks at no picture: it shows what statistics make of a judge whose errors are exactly known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from refcheck.judges import Judge
from refcheck.judges.state import fingerprint
from refcheck.tally import Reading
from simulators.sampling import VALUES, generator


@dataclass(frozen=True, eq=False)
class NoisyJudge:
    """Reads as `judge` does, then errs: row k of `confusion` (k, k + 1) says what becomes of outcome k, the last column null.

    What becomes of a clip depends on `seed`, `again` and the clip's bytes alone: asked twice it says the same, and with another
    `again` it errs anew. Where `judge` has no outcome it has none either.
    """

    judge: Judge
    outcomes: tuple[str, ...]
    confusion: NDArray[np.float64]
    seed: int = 0
    again: int = 0

    name: ClassVar[str] = "noisy"

    def __post_init__(self) -> None:
        shape = len(self.outcomes), len(self.outcomes) + 1
        if self.confusion.shape != shape:
            raise ValueError(
                f"`confusion` must be of shape {shape}, an outcome a row and null last, got {self.confusion.shape}"
            )
        if not np.all(self.confusion >= 0.0) or not np.allclose(self.confusion.sum(axis=1), 1.0, atol=1e-9):
            raise ValueError("each row of `confusion` must be probabilities that sum to 1")

    @classmethod
    def of(
        cls, judge: Judge, rows: Mapping[str, Mapping[str, float]], outcomes: Sequence[str], seed: int = 0, again: int = 0
    ) -> NoisyJudge:
        """Build from rows by label, `{heads: {tails: .02, null: .05}}`: what is not named stays right.

        Raises `ValueError` for a label that is none, and for a row of more than 1.
        """
        columns = [*outcomes, "null"]
        table = np.zeros((len(outcomes), len(columns)))
        if unknown := [label for label in rows if label not in outcomes]:
            raise ValueError(f"`confusion` has rows for {', '.join(unknown)}, which are no outcomes: {', '.join(outcomes)}")
        for k, label in enumerate(outcomes):
            row = rows.get(label, {})
            if unknown := [word for word in row if word not in columns]:
                raise ValueError(f"`confusion` of {label} names {', '.join(unknown)}, and not one of {', '.join(columns)}")
            for word, share in row.items():
                table[k, columns.index(word)] = share
            if label not in row:
                table[k, k] = 1.0 - table[k].sum()
        return cls(judge, tuple(outcomes), table, seed, again)

    def read(self, path: Path) -> Reading:
        """Return what becomes of the judge's reading. Raises `ClipError` as the judge does."""
        said = self.judge.read(path)
        if said.outcome is None:
            return said
        chance = generator(self.seed, f"noisy/{fingerprint(path)}", "reading", self.again, VALUES).random()
        row = np.cumsum(self.confusion[self.outcomes.index(said.outcome)])
        column = min(int(np.searchsorted(row, chance * row[-1], side="right")), len(self.outcomes))
        if column == len(self.outcomes):
            return replace(said, outcome=None, null="unreadable", confidence=float("nan"))
        return replace(said, outcome=self.outcomes[column], confidence=float("nan"))
