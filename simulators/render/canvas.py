"""What a renderer promises: one world, camera and light prepared once, then frames and the region that each one changes.

It refuses to know what a picture means.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulators.device import State
from simulators.world import World

Image = NDArray[np.uint8]
Region = tuple[int, int, int, int]
BLACK = 16  # of 255: what a screen shows as black


class Canvas(Protocol):
    """A prepared picture of one world. For any region r, `frame(s, i, r)` equals `frame(s, i)[r]` bit for bit."""

    @property
    def background(self) -> Image:
        """Everything that never moves, (H, W, 3)."""

    def region(self, state: State, row: int) -> Region:
        """Return pixels (x0, y0, x1, y1), half-open, outside of which the frame is the background."""

    def frame(self, state: State, row: int, region: Region | None = None) -> Image:
        """Draw row `row` of `state`: the whole image (H, W, 3), or the pixels of `region` (y1 - y0, x1 - x0, 3)."""


def nominal_state(world: World) -> State:
    """Return the single row that a source image shows: nominal poses at the start of the prelude."""
    pos, quat = world.poses(-world.prelude)
    still = State.at_release(world, 1)
    return dataclasses.replace(still, time=np.array([-world.prelude]), pos=pos[None], quat=quat[None])


def refuse_blank(image: Image, what: str) -> None:
    """Raise `ValueError` where every pixel of `image` (h, w, 3) is the same, or all are as good as black."""
    if image.size == 0 or np.all(image == image[0, 0]):
        raise ValueError(f"{what} is one single colour: the camera does not see the apparatus")
    if image.max() < BLACK:
        raise ValueError(f"{what} is black: no pixel reaches {BLACK} of 255")


def clip_region(region: Region, width: int, height: int) -> Region:
    """Return `region` cut to the image; an empty one collapses to no pixels."""
    x0, y0 = min(max(region[0], 0), width), min(max(region[1], 0), height)
    return x0, y0, max(min(region[2], width), x0), max(min(region[3], height), y0)


def check_region(region: Region, width: int, height: int) -> Region:
    """Return `region` if it lies in the image; raise `ValueError` otherwise."""
    x0, y0, x1, y1 = region
    if not (0 <= x0 <= x1 <= width and 0 <= y0 <= y1 <= height):
        raise ValueError(f"`region` must be (x0, y0, x1, y1) inside {width}x{height}, got {region}")
    return region
