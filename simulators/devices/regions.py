"""Where a ball's centre shows which fact: rectangles in the plane of a board or a track.

It refuses to know what the facts mean; a device gives the rectangles, and whatever integrates the ball reads them the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from simulators.device import UNDECIDED, IntArray


@dataclass(frozen=True)
class Region:
    """The ball shows `fact` (a position in `Device.facts`) while its centre is in x0 <= x < x1 and z0 <= z < z1 [m]."""

    fact: int
    x0: float
    x1: float
    z0: float
    z1: float


@runtime_checkable
class BallRouter(Protocol):
    """A planar device whose one loose ball is read by regions: `read` is `read_regions(self.regions(), x, z)`."""

    def regions(self) -> tuple[Region, ...]:
        """Return where the ball shows which fact."""


def read_regions(regions: Sequence[Region], x: ArrayLike, z: ArrayLike) -> IntArray:
    """Return the fact of the first region that holds each centre `x`, `z` (n,) [m], and UNDECIDED where none does."""
    x, z = np.asarray(x, float), np.asarray(z, float)
    facts = np.full(np.broadcast(x, z).shape, UNDECIDED, np.int64)
    for region in reversed(regions):
        inside = (region.x0 <= x) & (x < region.x1) & (region.z0 <= z) & (z < region.z1)
        facts[inside] = region.fact
    return facts
