"""What the trained judge looks at: the last picture against the empty stage, where they differ most, and a crop of it.

It refuses to know outcomes, and of a clip anything but its pixels.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from simulators.render.canvas import Image
from simulators.video import read_clip

FloatArray = NDArray[np.float64]

LAST = 3  # frames whose median is read: the codec's noise goes, a still object stays
SIDE = 56  # pixels of a crop's edge as it is cut out
FINE = 28  # and as it is described
GRID = (44, 40)  # cells, across and down, of the picture of differences
NOISE = 12.0  # levels of 255: what H.264 alone changes is less
LARGEST_SHIFT = 0.1  # of the width: a larger one is no registration
HALF_PIXEL = 0.5
NEARER = 0.9  # of the difference to the source image: what a true shift leaves at most


def last_picture(path: Path) -> Image:
    """Return the median of a clip's last frames (H, W, 3). Raises `ClipError` where the file is no readable clip."""
    frames: deque[Image] = deque(read_clip(path), maxlen=LAST)
    if len(frames) == 1:
        return frames[0]
    return np.median(np.stack(frames), axis=0).astype(np.uint8)


def _grey(image: Image) -> FloatArray:
    return cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY).astype(np.float64)


def register(image: Image, source: Image) -> Image:
    """Return `image` in the source image's size and place: scaled, and moved by the shift that phase correlation finds.

    A shift is believed only where it brings the pictures clearly nearer: on a smooth table the correlation has no peak.
    """
    high, wide = source.shape[:2]
    if image.shape != source.shape:
        image = np.asarray(cv2.resize(image, (wide, high), interpolation=cv2.INTER_AREA), np.uint8)
    window = cv2.createHanningWindow((wide, high), cv2.CV_64F)
    (dx, dy), _ = cv2.phaseCorrelate(_grey(source), _grey(image), window)
    if max(abs(dx), abs(dy)) < HALF_PIXEL or max(abs(dx), abs(dy)) > LARGEST_SHIFT * wide:
        return image
    move = np.array([[1.0, 0.0, -dx], [0.0, 1.0, -dy]])
    moved = np.asarray(
        cv2.warpAffine(image, move, (wide, high), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), np.uint8
    )
    before, after = (float(np.mean(cv2.absdiff(picture, source))) for picture in (image, moved))
    return moved if after < NEARER * before else image


@dataclass(frozen=True, eq=False)
class Stage:
    """What a scene looks like with nothing lying on it, (H, W, 3), and how large [px] that is which lies there."""

    empty: Image
    size: float

    @classmethod
    def of(cls, pictures: NDArray[np.uint8]) -> Stage:
        """Learn from last pictures (n, H, W, 3): the median of each pixel, since no place is covered in most of them."""
        strips = [np.median(strip, axis=0) for strip in np.array_split(pictures, 16, axis=1)]  # bounds the memory
        empty = np.concatenate(strips).astype(np.uint8)
        sizes = [_extent(difference(picture, empty)) for picture in pictures]
        return cls(empty, float(np.median(sizes)))


def difference(picture: Image, empty: Image) -> FloatArray:
    """Return the largest difference of the three channels at each pixel (H, W), with what the codec alone does removed."""
    apart = np.abs(picture.astype(np.int16) - empty).max(axis=-1).astype(np.float64)
    return np.maximum(apart - NOISE, 0.0)


def _extent(apart: FloatArray) -> float:
    """Return the edge [px] of a square as large as the largest connected piece of difference."""
    mask = (apart > 0.35 * apart.max()).astype(np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask)
    return float(np.sqrt(stats[1:, cv2.CC_STAT_AREA].max())) if len(stats) > 1 else 1.0


@dataclass(frozen=True, eq=False)
class Look:
    """One clip as features.

    `crop` (SIDE, SIDE) grey at the largest difference; `grid` of differences over the whole picture; `inside` and `outside`:
    mean difference in the crop, and in the rest.
    """

    crop: Image
    grid: FloatArray
    inside: float
    outside: float


def look(picture: Image, stage: Stage) -> Look:
    """Find what lies on the stage of a registered picture (H, W, 3) and describe it."""
    apart = difference(picture, stage.empty)
    edge = max(4.0, 1.5 * stage.size)
    width = max(1, round(stage.size))
    density = cv2.boxFilter(apart, -1, (width, width), borderType=cv2.BORDER_CONSTANT)
    y, x = np.unravel_index(int(np.argmax(density)), density.shape)
    half = int(np.ceil(edge / 2))
    y0, x0 = max(0, int(y) - half), max(0, int(x) - half)
    window = apart[y0 : int(y) + half + 1, x0 : int(x) + half + 1]
    strong = window > 0.35 * window.max() if window.max() > 0 else np.ones(window.shape, bool)
    rows, columns = np.nonzero(strong)
    middle = (x0 + float(columns.mean()), y0 + float(rows.mean()))
    scale = SIDE / edge
    move = np.array([[scale, 0.0, SIDE / 2 - 0.5 - scale * middle[0]], [0.0, scale, SIDE / 2 - 0.5 - scale * middle[1]]])
    crop = cv2.warpAffine(
        np.ascontiguousarray(picture), move, (SIDE, SIDE), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    total, within = float(apart.sum()), float(window.sum())
    rest = max(1, apart.size - window.size)
    return Look(
        np.asarray(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), np.uint8),
        np.asarray(cv2.resize(apart, GRID, interpolation=cv2.INTER_AREA), np.float64),
        within / window.size,
        (total - within) / rest,
    )


def turned(crop: Image, angle: float, scale: float = 1.0, shift: tuple[float, float] = (0.0, 0.0)) -> Image:
    """Return a crop turned about its middle by `angle` [degrees], scaled, and shifted [px]."""
    if angle == 0.0 and scale == 1.0 and shift == (0.0, 0.0):
        return crop
    middle = (SIDE / 2 - 0.5, SIDE / 2 - 0.5)
    turn = cv2.getRotationMatrix2D(middle, angle, scale)
    turn[:, 2] += np.asarray(shift)
    return np.asarray(cv2.warpAffine(crop, turn, (SIDE, SIDE), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))


def appearance(crop: Image) -> FloatArray:
    """Return a crop's grey levels (FINE * FINE,), in quarters of full scale: how the thing looks, wherever it lies."""
    small = cv2.resize(crop, (FINE, FINE), interpolation=cv2.INTER_AREA)
    return np.asarray(small.ravel().astype(np.float64) / 64.0)


def place(grid: FloatArray) -> FloatArray:
    """Return the picture of differences as a vector of length 1: where the thing lies, however it looks."""
    flat = grid.ravel()
    return np.asarray(flat / max(float(np.linalg.norm(flat)), 1e-9))
