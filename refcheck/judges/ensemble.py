"""Several judges as one: most votes, or votes weighed by each judge's measured confusion; and how far judges agree.

It reads no picture itself, and refuses to know a reference: every outcome is as likely before the votes are in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import fsum, isnan, nan
from pathlib import Path
from typing import Any, ClassVar

import krippendorff
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from refcheck.judges import Judge
from refcheck.judges.vlm import Verdict
from refcheck.tally import Reading, null_of

PRIOR = 0.5  # added to every cell of a measured confusion (Jeffreys): a judge never seen to err is not thought infallible
THRESHOLD = 0.9  # of the posterior probability; below it a weighed vote is an abstention


@dataclass(frozen=True, eq=False)
class EnsembleJudge:
    """Reads a clip by all of `judges`. Without `confusions` the label that more than half give; null is a vote too.

    With `confusions`, a table (k, k + 1) of counts for each judge, true outcome by reading and null last: the outcome of
    highest posterior probability, judges erring independently of each other given the outcome (Dawid and Skene 1979, doi
    10.2307/2346806, with the error rates known), where it reaches `threshold`.
    """

    judges: tuple[Judge, ...]
    outcomes: tuple[str, ...]
    confusions: tuple[NDArray[np.float64], ...] = ()
    threshold: float = THRESHOLD

    name: ClassVar[str] = "ensemble"

    def __post_init__(self) -> None:
        if not self.judges:
            raise ValueError("`judges` must hold at least one")
        shape = len(self.outcomes), len(self.outcomes) + 1
        if self.confusions and (len(self.confusions) != len(self.judges) or any(c.shape != shape for c in self.confusions)):
            raise ValueError(f"`confusions` must hold a table of shape {shape} for each of {len(self.judges)} judges")

    def read(self, path: Path) -> Reading:
        """Return what the judges say together. Raises what one of them raises: a judge that fails casts no vote for null."""
        return self.judge(path).reading

    def judge(self, path: Path) -> Verdict:
        """Return the reading, and the trust audit of the first judge that has one. Raises as `read`."""
        return self.verdict([_asked(judge, path) for judge in self.judges])

    def verdict(self, said: Sequence[Verdict]) -> Verdict:
        """Return one verdict of several, one a judge in order."""
        audited = next((one for one in said if one.trust or one.trust_failure), Verdict(said[0].reading))
        return replace(audited, reading=self.together([one.reading for one in said]))

    def together(self, said: Sequence[Reading]) -> Reading:
        """Return one reading of several, one a judge in order."""
        votes = tuple(one.outcome for one in said)
        latency, cost = fsum(one.latency for one in said), cost_of(said)
        if not self.confusions:
            answer, count = Counter(votes).most_common(1)[0]
            if answer is not None and 2 * count > len(votes):
                return Reading(answer, votes=votes, latency=latency, cost=cost)
            return Reading(None, null_of([one.null for one in said]), votes=votes, latency=latency, cost=cost)
        posterior = self.posterior(votes)
        best = int(np.argmax(posterior))
        confidence = float(posterior[best])
        if confidence < self.threshold or all(vote is None for vote in votes):
            return Reading(None, null_of([one.null for one in said]), confidence, votes, latency, cost)
        return Reading(self.outcomes[best], "", confidence, votes, latency, cost)

    def posterior(self, votes: Sequence[str | None]) -> NDArray[np.float64]:
        """Return the probability (k,) of each outcome given the votes, all outcomes alike before them."""
        log = np.zeros(len(self.outcomes))
        for vote, table in zip(votes, self.confusions, strict=True):
            rates = table + PRIOR
            column = len(self.outcomes) if vote is None else self.outcomes.index(vote)
            log += np.log(rates[:, column] / rates.sum(axis=1))
        weight = np.exp(log - log.max())
        return weight / weight.sum()


def _asked(judge: Judge, path: Path) -> Verdict:
    audit = getattr(judge, "judge", None)
    return audit(path) if callable(audit) else Verdict(judge.read(path))


def cost_of(said: Sequence[Reading]) -> float:
    """Return what readings cost together [$]: of those whose cost is known, NaN where none is."""
    known = [one.cost for one in said if not isnan(one.cost)]
    return fsum(known) if known else nan


def agreement(readings: Mapping[str, Sequence[str | None]]) -> dict[str, Any]:
    """Return how far judges agree on one scene's clips: labels by judge, in the same order of clips, null a label of its own.

    `alpha` is Krippendorff's (nominal; NaN with one label in all), `pairs` exact agreement and Cohen's kappa of every two,
    `disagree` the positions of the clips on which not all say the same. Raises `ValueError` for unequal lengths.
    """
    names, lengths = list(readings), {len(said) for said in readings.values()}
    if len(names) < 2 or len(lengths) != 1:
        raise ValueError(
            f"agreement needs two judges or more on the same clips, got { ({n: len(readings[n]) for n in names}) }"
        )
    words = {vote: k for k, vote in enumerate(sorted({v for said in readings.values() for v in said}, key=str))}
    table = np.array([[words[vote] for vote in readings[name]] for name in names])
    one = len(words) < 2
    alpha = nan if one else float(krippendorff.alpha(table, level_of_measurement="nominal"))
    pairs = {
        f"{a}, {b}": {
            "agree": int(np.sum(table[i] == table[j])),
            "kappa": nan if len({*table[i], *table[j]}) < 2 else float(cohen_kappa_score(table[i], table[j])),
        }
        for (i, a), (j, b) in combinations(enumerate(names), 2)
    }
    different = np.flatnonzero((table != table[0]).any(axis=0))
    return {"clips": table.shape[1], "judges": names, "alpha": alpha, "pairs": pairs, "disagree": different.tolist()}
