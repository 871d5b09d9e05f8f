"""Tally and Reading: what was counted, and what a judge said of one clip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Sampling = Literal["iid", "quota", "coupled"]
SPLIT = "votes_split"  # the null reason where several votes decide nothing, though each names an outcome


@dataclass(frozen=True)
class Tally:
    """Outcome counts in the order of `outcomes`, null counts by reason, and how it was sampled.

    `group` is the group size m of `coupled` sampling. Infrastructure failures are in no tally.
    """

    outcomes: tuple[str, ...]
    counts: tuple[int, ...]
    nulls: Mapping[str, int] = field(default_factory=dict)
    sampling: Sampling = "iid"
    group: int | None = None

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.outcomes):
            raise ValueError(f"`counts` has {len(self.counts)} entries for {len(self.outcomes)} outcomes")
        if min((*self.counts, *self.nulls.values()), default=0) < 0:
            raise ValueError(f"counts must not be negative, got {self.counts} and {dict(self.nulls)}")
        if (self.sampling == "coupled") != (self.group is not None):
            raise ValueError(f"`group` belongs to coupled sampling and to nothing else, got {self.sampling!r}, {self.group!r}")

    @property
    def valid(self) -> int:
        """Rollouts that ended in an outcome, n."""
        return sum(self.counts)

    @property
    def null(self) -> int:
        """Rollouts that ended in none, m."""
        return sum(self.nulls.values())

    @property
    def total(self) -> int:
        """All rollouts, K = n + m."""
        return self.valid + self.null

    def array(self) -> NDArray[np.int64]:
        """Return the outcome counts (k,)."""
        return np.array(self.counts, np.int64)


@dataclass(frozen=True)
class Reading:
    """What a judge says of a clip: an outcome, or None with a null reason (`unreadable`, `out_of_schema`, `votes_split`).

    `confidence` is the probability it gives its answer, NaN when it gives none; `votes` are its single answers;
    `latency` [s]; `cost` [dollars], NaN where it is not known.
    """

    outcome: str | None
    null: str = ""
    confidence: float = float("nan")
    votes: tuple[str | None, ...] = ()
    latency: float = float("nan")
    cost: float = float("nan")

    def __post_init__(self) -> None:
        if (self.outcome is None) == (self.null == ""):
            raise ValueError(f"a Reading has an outcome or a null reason, got {self.outcome!r} and {self.null!r}")


def null_of(reasons: Sequence[str]) -> str:
    """Return the null reason of votes that decide nothing: that of most nulls, the first where they are even."""
    given = [reason for reason in reasons if reason]
    return Counter(given).most_common(1)[0][0] if given else SPLIT
