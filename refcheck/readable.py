"""What a clip that ends after T seconds still shows: the share of rollouts that have their outcome by then, and which outcomes.

It refuses to guess what a judge would read: an outcome counts once the scene's own readout has it for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from refcheck import metrics
from scenes.scene import Scene

SECONDS = (3.0, 4.0, 5.0, 8.0, 10.0)


@dataclass(frozen=True)
class ReadableBy:
    """Clips of `seconds` [s] from the start of the action; None: uncut.

    `share` of all rollouts have an outcome by then. `by_outcome` (k,): of the rollouts that end in each outcome, the share that
    have it by then (None where none ends there). `tvd`: how far the outcomes readable by then are from `q`, `floor`: how far so
    many rollouts of `q` itself would be on average; None where nothing is readable.
    """

    seconds: float | None
    share: float
    by_outcome: tuple[float | None, ...]
    tvd: float | None
    floor: float | None


def readable(
    scene: Scene, outcome: NDArray[np.integer], settle_time: NDArray[np.float64], seconds: Sequence[float] = SECONDS
) -> tuple[ReadableBy, ...]:
    """Return what is readable by each of `seconds` and uncut.

    The clock starts with the clip, a prelude before the release included. Readout `last` is read at the device's end time; all
    others count from rest, before which another outcome may still come (`first`: from rest at the latest). An outcome whose
    rest was never seen is readable uncut alone.

    Args:
        scene: for its outcomes, device and reference.
        outcome: (n,) positions in its outcomes, -1 for a null.
        settle_time: (n,) [s] from the release, NaN without rest.
        seconds: lengths of clips [s].
    """
    device = scene.device
    last = device.end_time if device.readout == "last" else None
    when = device.world().prelude + (settle_time if last is None else np.full(len(outcome), last))
    ends = np.bincount(outcome[outcome >= 0], minlength=len(scene.outcomes))
    rows = []
    for limit in (*seconds, None):
        by_then = (outcome >= 0) & (True if limit is None else when <= limit)  # NaN is never
        counts = np.bincount(outcome[by_then], minlength=len(scene.outcomes))
        n = int(counts.sum())
        rows.append(
            ReadableBy(
                seconds=limit,
                share=n / len(outcome),
                by_outcome=tuple(float(c / e) if e else None for c, e in zip(counts, ends, strict=True)),
                tvd=float(metrics.tvd(counts, scene.q())) if n else None,
                floor=float(metrics.expected_tvd(n, scene.q())) if n else None,
            )
        )
    return tuple(rows)


def table(scene_id: str, outcomes: Sequence[str], rows: Sequence[ReadableBy]) -> Table:
    """Return a row a clip length; of many outcomes the two that are readable least and most often."""
    shown = Table(title=f"{scene_id}: what a clip of T seconds shows", title_justify="left", box=box.SIMPLE)
    for name in ("T", "readable", "TVD from q", "floor"):
        shown.add_column(name, justify="right")
    shown.add_column("of each outcome, by then")
    for one in rows:
        known = sorted((share, label) for share, label in zip(one.by_outcome, outcomes, strict=True) if share is not None)
        ends = known if len(known) <= 3 else [known[0], known[-1]]
        shown.add_row(
            "uncut" if one.seconds is None else f"{one.seconds:g} s",
            f"{one.share:.2%}",
            "-" if one.tvd is None else f"{one.tvd:.4f}",
            "-" if one.floor is None else f"{one.floor:.4f}",
            ", ".join(f"{label} {share:.2f}" for share, label in ends),
        )
    return shown
