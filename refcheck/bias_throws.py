"""Real throws of a pictured object: their tally from a file, and how far the object's own distribution can be from others.

It refuses to know what was pictured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refcheck.anytime import DistanceInterval, distance_interval
from refcheck.image_reading.marks import Array
from refcheck.untrusted import Problems, parse_json, read_text, shown


@dataclass(frozen=True)
class Throws:
    """A tally of real throws of the pictured object: how far from the reference, and from what the picture implies."""

    n: int
    from_q: DistanceInterval
    from_image: DistanceInterval


def throws_of(tally: Array, q: Array, image: Array, alpha: float) -> Throws:
    """Return how far `tally` (k,) is from `q` (k,) and from counts of rollouts (k,), both with its own uncertainty taken out.

    The intervals hold at level 1 - `alpha` each.
    """
    share = (image + 0.5) / (image + 0.5).sum()  # none of the outcomes is impossible for having come up in no rollout
    return Throws(int(tally.sum()), distance_interval(tally, q, alpha), distance_interval(tally, share, alpha))


def read_tally(path: Path, outcomes: Sequence[str], problems: Problems) -> Array | None:
    """Return the counts (k,) that a JSON object gives for `outcomes` (those left out are 0), or None with the problems."""
    text = read_text(path, problems)
    if text is None:
        return None
    try:
        value = parse_json(text)
    except ValueError as error:
        problems.add(path, str(error))
        return None
    if not isinstance(value, dict) or not value:
        problems.add(path, f"must be an object with a count for each of {', '.join(outcomes)}")
        return None
    counts = np.zeros(len(outcomes))
    for label, number in value.items():
        if label not in outcomes:
            problems.add(path, f"{shown(label)} is no outcome; the scene has {', '.join(outcomes)}")
        elif not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= 10**9:
            problems.add(path, f"{shown(label)} must have a count from 0 to 10^9, got {shown(number)}")
        else:
            counts[list(outcomes).index(label)] = number
    if not counts.sum():
        problems.add(path, "has no throw that counts")
        return None
    return counts
