"""Which labels a set of controls asks for: positive sets as the reference says, negative ones off it by a known amount.

It deals in labels alone. Which rollout fills one is decided by how physics ended it (`fill`), never here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from refcheck.metrics import FloatArray
from refcheck.power import contaminated
from refcheck.tally import Sampling
from scenes.scene import Scene
from simulators.device import Rollouts

POSITIVE = ("iid", "quota", "balanced")
NEGATIVE = ("collapsed", "tilted", "missing", "batches")
SETS = (*POSITIVE, *NEGATIVE)
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Wanted:
    """A set of labels: positions in the outcomes (n,), the distribution (k,) each half was made from, and how.

    `batch` (n,) numbers the part of the set that a label belongs to; `law` has a row a part. `sampling` is `quota` where
    the counts were set and not drawn.
    """

    labels: Labels
    batch: Labels
    law: FloatArray
    sampling: Sampling

    def expected(self) -> FloatArray:
        """Return the distribution (k,) that the whole set is made from."""
        sizes = np.bincount(self.batch, minlength=len(self.law))
        return np.asarray(sizes @ self.law / sizes.sum(), np.float64)


def draw_labels(q: FloatArray, k: int, draws: Generator) -> Labels:
    """Return k positions in the outcomes (k,), i.i.d. from the reference `q`: the labels wanted, not yet any rollout's."""
    return draws.choice(len(q), size=k, p=q / q.sum())


def quota(q: FloatArray, k: int, draws: Generator) -> Labels:
    """Return k positions in shuffled order whose counts are the largest-remainder rounding of k q.

    Ties of remainders go to the earlier outcome (PAWBench's Oracle PE, arXiv 2608.27345).
    """
    exact = k * q / q.sum()
    counts = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - counts).round(9), kind="stable")
    counts[order[: k - counts.sum()]] += 1
    return draws.permutation(np.repeat(np.arange(len(q)), counts))


def want(kind: str, q: FloatArray, k: int, draws: Generator, *, toward: int = 0, tilt: float = 0.0) -> Wanted:
    """Return the labels of one set of k.

    Args:
        kind: `iid` from q; `quota`: q rounded; `balanced`: every outcome that q allows as often as every other; `collapsed`:
            `toward` alone; `tilted`: i.i.d. from q moved by `tilt`; `missing`: i.i.d. from q without `toward`; `batches`: the
            first half from q, the second from q moved by `tilt`.
        q: reference (k,).
        k: labels.
        draws: where they are drawn from.
        toward: the outcome that a negative set turns on.
        tilt: TVD from q, in (0, 1 - q at `toward`].

    Raises:
        ValueError: for a set that q leaves no room for.
    """
    law = np.asarray(q, np.float64) / np.sum(q)
    uniform, point = (law > 0) / np.sum(law > 0), np.eye(len(law))[toward]
    if kind in ("tilted", "batches"):
        if not 0 < tilt <= 1 - law[toward] + 1e-12:
            raise ValueError(f"`tilt` must be in (0, {1 - law[toward]:.4g}], which is as far as q can be moved, got {tilt:g}")
        moved = contaminated(law, toward, min(1.0, tilt / (1 - law[toward])))
    one = np.zeros(k, np.int64)
    if kind == "quota":
        return Wanted(quota(law, k, draws), one, law[None], "quota")
    if kind == "balanced":
        return Wanted(quota(uniform, k, draws), one, uniform[None], "quota")
    if kind == "collapsed":
        return Wanted(np.full(k, toward, np.int64), one, point[None], "quota")
    if kind == "batches":
        first = k - k // 2
        labels = np.concatenate([draw_labels(law, first, draws), draw_labels(moved, k - first, draws)])
        return Wanted(labels, (np.arange(k) >= first).astype(np.int64), np.stack([law, moved]), "iid")
    if kind == "missing":
        if law[toward] >= 1:
            raise ValueError("an outcome that is certain cannot be missing")
        moved = law * (1 - point) / (1 - law[toward])
    elif kind != "tilted":
        if kind != "iid":
            raise ValueError(f"`kind` must be one of {', '.join(SETS)}, got {kind!r}")
        moved = law
    return Wanted(draw_labels(moved, k, draws), one, moved[None], "iid")


def fill(scene: Scene, labels: Labels, rollouts: Rollouts) -> Rollouts:
    """Return for each label (k,) a rollout that ended in it, none twice, in index order within an outcome.

    Raises `ValueError` where `rollouts` do not suffice.
    """
    outcome = scene.outcome(rollouts.fact)
    waiting = {int(label): np.flatnonzero(outcome == label).tolist() for label in np.unique(labels)}
    if any(len(waiting[int(label)]) < np.sum(labels == label) for label in np.unique(labels)):
        raise ValueError("there are fewer rollouts of an outcome than labels that ask for it")
    return rollouts[np.array([waiting[int(label)].pop(0) for label in labels], np.int64)]


def refuse_twice(indices: Sequence[int]) -> None:
    """Raise `ValueError` where a rollout is in a set twice: its clips would be one observation counted as two."""
    seen, twice = np.unique(np.asarray(indices, np.int64), return_counts=True)
    if np.any(twice > 1):
        raise ValueError(f"rollouts {seen[twice > 1][:5].tolist()} are in the set twice")
