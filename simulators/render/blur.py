"""Motion blur: a frame gathers the light of several states before its instant, as behind a shutter.

It refuses to invent a state: all of them are rows of a trajectory that was recorded at the rate it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulators.device import State
from simulators.render.canvas import Canvas, Image, Region
from simulators.render.faces import srgb
from simulators.render.primitives import linear

_LIGHT = linear(np.arange(256) / 255.0)


@dataclass(frozen=True)
class Shutter:
    """How long a frame gathers light: the share `opened` of the time between two frames, up to its instant, in `samples`.

    Looking back only, frame 0 is the source image, and no frame shows what is yet to come. One sample is a still.
    """

    opened: float = 0.0
    samples: int = 1

    def __post_init__(self) -> None:
        if self.samples < 1 or not (self.samples == 1 or 0.0 < self.opened <= 1.0):
            raise ValueError(f"a shutter needs `opened` in (0, 1] and at least 1 sample, got {self.opened} and {self.samples}")
        if self.samples > 1 and abs(self.samples / self.opened - self.stride) > 1e-9:
            raise ValueError(f"`samples` over `opened` must be whole, got {self.samples} / {self.opened}")

    @property
    def stride(self) -> int:
        """Recorded states from one frame to the next."""
        return 1 if self.samples == 1 else round(self.samples / self.opened)

    def rate(self, fps: float) -> float:
        """Return the rate [1/s] at which a trajectory must be recorded for clips of `fps` [1/s]."""
        return fps * self.stride


STILL = Shutter()


def exposed(canvas: Canvas, trajectory: State, row: int, samples: int, region: Region | None = None) -> Image:
    """Draw the mean light of `samples` rows up to `row`, or of as many as there are; whole, or the pixels of `region`.

    As with `Canvas.frame`, a region agrees with the whole bit for bit.
    """
    rows = range(max(row - samples + 1, 0), row + 1)
    if all(np.array_equal(v[one], v[row]) for v in (trajectory.pos, trajectory.quat) for one in rows):
        return canvas.frame(trajectory, row, region)
    height, width = canvas.background.shape[:2]
    x0, y0, x1, y1 = (0, 0, width, height) if region is None else region
    touched = [r for r in (canvas.region(trajectory, one) for one in rows) if r[0] < r[2] and r[1] < r[3]]
    image = canvas.frame(trajectory, row, (x0, y0, x1, y1)).copy()
    if not touched:
        return image
    a, b = max(min(r[0] for r in touched), x0), max(min(r[1] for r in touched), y0)
    c, d = min(max(r[2] for r in touched), x1), min(max(r[3] for r in touched), y1)
    if a < c and b < d:
        light = np.zeros((d - b, c - a, 3))
        for one in rows:
            light += _LIGHT[canvas.frame(trajectory, one, (a, b, c, d))]
        image[b - y0 : d - y0, a - x0 : c - x0] = srgb(light / len(rows))
    return image
