"""What the trained judge sees of a clip: its end against its opening, where in it something lies, and crops of that place.

It refuses to know outcomes, and of a clip anything but its pixels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from simulators.render.canvas import Image, Region
from simulators.video import read_clip

FloatArray = NDArray[np.float64]

LAST = 3  # frames whose median is read: the codec's noise goes, a still object stays
COARSE = 4  # pixels across, of those that motion and the still part of a picture are judged by
HELD = 10  # the end is compared with what was shown a tenth of the clip earlier: a clip holds its end for an eighth
NOISE = 12.0  # levels of 255: what H.264 alone changes is less
BOXES = (3, 7)  # cells across, over which a cell's surroundings are averaged
FINE, CONTEXT = 1.5, 4.0  # edges of the crops, in sizes of the thing
WIDEST = 160.0  # pixels of the wider crop's edge, where the thing itself is not larger
CONTEXT_SIDE = 20  # pixels
TURNED, MIDDLE = 48, 0.8  # pixels of a crop that is turned, and the share of the fine crop that is in it
DIRECTIONS, POOLED = 8, 12  # of edges, and cells across that they are counted in
SOFT = 1.5  # pixels by which a place in it is blurred, as a standard deviation
HUES, FAINT = 32, 8.0  # of a circle of hues, and levels of chroma below which a pixel has none
WHITE = 95.0  # percent of a thing's levels that are below what is taken for white on it
LARGEST_GAIN = 4.0
WITHIN, STEPS = 0.6, 5  # sizes to each side of a thing's middle that are looked at to find it, and how often


@dataclass(frozen=True, eq=False)
class Ends:
    """A clip's first frame and the median of its last ones, (H, W, 3), and by how many levels its end still changes."""

    opening: Image
    closing: Image
    stirring: float


def ends(path: Path) -> Ends:
    """Read a clip. Raises `ClipError` where the file is no readable clip."""
    opening: Image | None = None
    last: deque[Image] = deque(maxlen=LAST)
    small: deque[NDArray[np.int16]] = deque(maxlen=64)
    count = 0
    for frame in read_clip(path):
        count += 1
        opening = frame if opening is None else opening
        last.append(frame)
        size = max(1, frame.shape[1] // COARSE), max(1, frame.shape[0] // COARSE)
        small.append(np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.int16))
    back = min(max(1, count // HELD), len(small) - 1)
    closing = last[-1] if len(last) < LAST else np.asarray(np.median(np.stack(last), axis=0), np.uint8)
    return Ends(last[0] if opening is None else opening, closing, float(np.abs(small[-1] - small[-1 - back]).max()))


def _edges(image: Image) -> NDArray[np.float32]:
    """Return how strong the edges are at half the size: what another light or colour leaves as it is."""
    grey = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA).astype(np.float32)
    half = cv2.GaussianBlur(small, (0, 0), 1.0)
    strength = np.hypot(cv2.Sobel(half, cv2.CV_32F, 1, 0), cv2.Sobel(half, cv2.CV_32F, 0, 1))
    return np.sqrt(strength).astype(np.float32)


def likeness(image: Image, source: Image) -> float:
    """Return the correlation of two pictures' edges, 1 for the same picture."""
    return _correlation(_edges(image), _edges(source))


def _correlation(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(np.vdot(a, b) / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-9))


def align(opening: Image, source: Image) -> tuple[FloatArray, float]:
    """Return the affine map (2, 3) from the source image's pixels to those of a clip's opening, and how alike they are then.

    By maximal correlation of edges (Evangelidis and Psarakis 2008, doi 10.1109/TPAMI.2008.113); the map is believed only
    where it makes the pictures more alike.
    """
    here, there = _edges(opening), _edges(source)
    none, before = np.eye(2, 3), _correlation(here, there)
    shift, _ = cv2.phaseCorrelate(there.astype(np.float64), here.astype(np.float64))
    start = np.eye(2, 3, dtype=np.float32)
    if max(map(abs, shift)) < 0.1 * there.shape[1]:
        start[:, 2] = shift
    stop = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 40, 1e-5)
    try:
        _, warp = cv2.findTransformECC(there, here, start, cv2.MOTION_AFFINE, stop)
    except cv2.error:  # it did not converge: the pictures have nothing in common
        return none, before
    moved = cv2.warpAffine(here, warp, there.shape[::-1], flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=1)
    after = _correlation(np.asarray(moved, np.float32), there)
    if after < before:
        return none, before
    found = np.asarray(warp, float)
    found[:, 2] = 2.0 * found[:, 2] + 0.5 * (found[:, :2].sum(axis=1) - 1.0)  # from halves to whole pixels, centres at .5
    return found, after


def _moved(image: Image, move: FloatArray, shape: tuple[int, ...]) -> Image:
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(image, move, shape[1::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE), np.uint8)


@dataclass(frozen=True, eq=False)
class Sight:
    """A clip's end as the source image would show it.

    `picture` (H, W, 3), and the clip's `opening`, in the source image's place and colours; `alike`, how far the opening is the
    source image.
    """

    picture: Image
    opening: Image
    alike: float

    @property
    def change(self) -> NDArray[np.int16]:
        """What the end adds to the opening (H, W, 3)."""
        return self.picture.astype(np.int16) - self.opening


class Frame:
    """What stays from picture to picture of one clip: its opening, where the camera stood and how light fell in `region`.

    `region` is the part of the picture in which something may lie.
    """

    def __init__(self, opening: Image, source: Image, region: Region) -> None:
        self._shape = source.shape
        opening = self._sized(opening)
        self.move, self.alike = align(opening, source)
        opening = _moved(opening, self.move, source.shape)
        x0, y0, x1, y1 = region
        wanted, have = (image[y0:y1, x0:x1].reshape(-1, 3).astype(float) + 8.0 for image in (source, opening))
        gains = np.clip(np.median(wanted / have, axis=0), 1.0 / LARGEST_GAIN, LARGEST_GAIN)
        self._table = np.clip(np.arange(256)[:, None] * gains, 0, 255).astype(np.uint8)
        self._opening = self._tinted(opening)

    def _sized(self, image: Image) -> Image:
        if image.shape == self._shape:
            return image
        return np.asarray(cv2.resize(image, self._shape[1::-1], interpolation=cv2.INTER_AREA), np.uint8)

    def _tinted(self, image: Image) -> Image:
        return np.stack([self._table[:, c][image[..., c]] for c in range(3)], axis=-1)

    def back(self, points: FloatArray) -> FloatArray:
        """Return where points (n, 2) of the clip's own pictures are in the source image's."""
        inverse = np.linalg.inv(np.vstack([self.move, [0.0, 0.0, 1.0]]))
        return (points - 0.5) @ inverse[:2, :2].T + inverse[:2, 2] + 0.5

    def sight(self, closing: Image) -> Sight:
        """Return what a picture of this clip shows."""
        picture = self._tinted(_moved(self._sized(closing), self.move, self._shape))
        return Sight(picture, self._opening, self.alike)


def coarse_change(change: NDArray[np.int16]) -> FloatArray:
    """Return by how much a picture changed (h, w), a sixteenth of its pixels, with what the codec alone does removed."""
    high, wide = change.shape[:2]
    small = cv2.resize(change.astype(np.float32), (wide // COARSE, high // COARSE), interpolation=cv2.INTER_AREA)
    return np.maximum(np.abs(small).max(axis=-1) - NOISE, 0.0).astype(np.float64)


@dataclass(frozen=True)
class Grid:
    """The cells that are looked through for a thing: squares of `cell` pixels that fill `region`."""

    region: Region
    cell: int

    @property
    def shape(self) -> tuple[int, int]:
        """Cells down and across."""
        x0, y0, x1, y1 = self.region
        return max(1, (y1 - y0) // self.cell), max(1, (x1 - x0) // self.cell)

    def centres(self) -> FloatArray:
        """Return the middles of the cells (h, w, 2) in pixels."""
        high, wide = self.shape
        x, y = np.meshgrid(np.arange(wide), np.arange(high))
        return np.stack([self.region[0] + (x + 0.5) * self.cell, self.region[1] + (y + 0.5) * self.cell], axis=-1)

    def shares(self, shape: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the share (h, w) of each cell's pixels that are in `shape` (H, W)."""
        high, wide = self.shape
        x0, y0 = self.region[:2]
        box = shape[y0 : y0 + high * self.cell, x0 : x0 + wide * self.cell].astype(np.float32)
        return np.asarray(cv2.resize(box, (wide, high), interpolation=cv2.INTER_AREA), np.float32)

    def describe(self, sight: Sight) -> NDArray[np.float32]:
        """Return features of every cell (h, w, d): colour, change, both of its surroundings, and where it is."""
        high, wide = self.shape
        x0, y0 = self.region[:2]
        box = slice(y0, y0 + high * self.cell), slice(x0, x0 + wide * self.cell)
        picture = sight.picture[box].astype(np.float32)
        own = np.concatenate([picture, picture - sight.opening[box]], axis=-1)
        own = np.concatenate([own, np.abs(own[..., 3:]).max(axis=-1, keepdims=True)], axis=-1)
        small = [cv2.resize(own[..., c], (wide, high), interpolation=cv2.INTER_AREA) for c in range(own.shape[-1])]
        around = [cv2.blur(one, (k, k), borderType=cv2.BORDER_REPLICATE) for k in BOXES for one in small]
        return np.stack([*small, *around, *np.moveaxis(self.centres().astype(np.float32), -1, 0)], axis=-1)


def peaks(heat: NDArray[np.float32], grid: Grid, size: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the `count` places (count, 2) [px] where most heat lies within `size` pixels, and how much there (count,)."""
    width = max(1, round(size / grid.cell))
    left, places, scores = heat.astype(np.float64), [], []
    centres = grid.centres()
    for _ in range(count):
        dense = cv2.boxFilter(left, -1, (width, width), borderType=cv2.BORDER_CONSTANT)
        y, x = np.unravel_index(int(np.argmax(dense)), dense.shape)
        half = width // 2 + 1
        window = slice(max(0, int(y) - half), int(y) + half + 1), slice(max(0, int(x) - half), int(x) + half + 1)
        weight = left[window] ** 2
        total = float(weight.sum())
        here = centres[window]
        places.append((here * weight[..., None]).sum(axis=(0, 1)) / total if total > 0 else centres[y, x])
        scores.append(float(left[window].max()))
        left = left.copy()
        left[window] = 0.0
    return np.array(places), np.array(scores)


def middle(heat: FloatArray, grid: Grid, size: float, places: FloatArray) -> FloatArray:
    """Return the middle (1, 2) [px] of what lies hot about `places` (1, 2) and is `size` pixels large."""
    centres, half, at = grid.centres(), max(WITHIN * size, grid.cell), places[0]
    for _ in range(STEPS):
        near = np.abs(centres - at).max(axis=-1) <= half
        weight = np.where(near, heat, 0.0) ** 2
        if weight.sum() <= 0.0:
            break
        at = (centres * weight[..., None]).sum(axis=(0, 1)) / weight.sum()
    return at[None]


def crop(picture: Image, place: FloatArray, edge: float, side: int) -> Image:
    """Return the square of `edge` pixels about `place` as (side, side, 3); what is outside the picture repeats its border."""
    half = max(1.0, edge / 2)
    x0, y0 = (int(np.floor(v - half)) for v in place)
    x1, y1 = (int(np.ceil(v + half)) for v in place)
    high, wide = picture.shape[:2]
    columns, rows = np.clip(np.arange(x0, x1), 0, wide - 1), np.clip(np.arange(y0, y1), 0, high - 1)
    piece = picture[rows[:, None], columns[None]]
    far = cv2.INTER_AREA if len(columns) > side else cv2.INTER_LINEAR
    # The square that was asked for, to a fraction of a pixel: a shift of less than one is visible in a small crop.
    scale = side / edge
    if scale < 1.0:
        return np.asarray(cv2.resize(piece, (side, side), interpolation=far), np.uint8)
    move = np.array([[scale, 0.0, scale * (x0 - place[0] + half)], [0.0, scale, scale * (y0 - place[1] + half)]])
    move[:, 2] += 0.5 * (scale - 1.0)
    return np.asarray(cv2.warpAffine(piece, move, (side, side), flags=far, borderMode=cv2.BORDER_REPLICATE), np.uint8)


@dataclass(frozen=True, eq=False)
class Look:
    """What lies at one place: `fine` (s, s, 3) of the thing, `context` (CONTEXT_SIDE, CONTEXT_SIDE, 3), `place` (2,) [px]."""

    fine: Image
    context: Image
    place: FloatArray


def reach(size: float) -> float:
    """Return the edge [px] of all that is looked at about what is `size` pixels large."""
    return max(FINE * size, min(CONTEXT * size, WIDEST))


def look(sight: Sight, place: FloatArray, size: float) -> Look:
    """Describe what is `size` pixels large at `place`."""
    edge = FINE * size
    side = int(np.clip(0.8 * edge, 28, 56))
    around = crop(sight.picture, place, reach(size), CONTEXT_SIDE)
    return Look(crop(sight.picture, place, edge, side), around, place)


def turned(
    image: Image, angle: float, scale: float = 1.0, shift: tuple[float, float] = (0.0, 0.0), mirrored: bool = False
) -> NDArray[np.float32]:
    """Return where in the middle of a square picture, turned by `angle` [degrees], edges of which direction are, (d,).

    A histogram of oriented gradients (Dalal and Triggs 2005, doi 10.1109/CVPR.2005.177), softly pooled: colour, brightness and
    a shift of a pixel change it little. `scale` and `shift` (shares of the edge) move what is cut out; `mirrored` swaps left
    and right first.
    """
    edge = image.shape[0]
    if mirrored:
        image = np.ascontiguousarray(image[:, ::-1])
    turn = cv2.getRotationMatrix2D((edge / 2 - 0.5, edge / 2 - 0.5), angle, scale / MIDDLE * TURNED / edge)
    turn[:, 2] += (TURNED - edge) / 2 + TURNED * np.asarray(shift)
    cut = cv2.warpAffine(image, turn, (TURNED, TURNED), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    grey = cv2.cvtColor(cut, cv2.COLOR_RGB2GRAY).astype(np.float32)
    across, down = cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)
    strength, towards = np.hypot(across, down), np.arctan2(down, across) / (2 * np.pi) * DIRECTIONS % DIRECTIONS
    gap = np.abs(towards - np.arange(DIRECTIONS)[:, None, None])
    share = np.clip(1.0 - np.minimum(gap, DIRECTIONS - gap), 0.0, 1.0) * strength
    pooled = [cv2.resize(cv2.GaussianBlur(one, (0, 0), SOFT), (POOLED, POOLED), interpolation=cv2.INTER_AREA) for one in share]
    flat = np.stack(pooled).ravel()
    return np.sqrt(flat / (np.linalg.norm(flat) + 1e-6)).astype(np.float32)


def hues(image: Image) -> NDArray[np.float32]:
    """Return how much of each hue (HUES,) the thing in the middle of a square picture shows, against what is white on it.

    In whatever way a thing lies its hues are the same, and by its own white so they are in whatever light.
    """
    edge = image.shape[0]
    across, down = np.meshgrid(np.arange(edge) - (edge - 1) / 2, np.arange(edge) - (edge - 1) / 2)
    own = image[np.hypot(across, down) < edge / 2 / FINE].astype(np.float32)
    own = np.clip(own / np.maximum(np.percentile(own, WHITE, axis=0), 1.0), 0.0, 1.0).astype(np.float32)
    chroma = cv2.cvtColor(own[None], cv2.COLOR_RGB2LAB)[0, :, 1:]
    weight = np.maximum(np.hypot(chroma[:, 0], chroma[:, 1]) - FAINT, 0.0)
    hue = np.arctan2(chroma[:, 1], chroma[:, 0]) / (2 * np.pi) * HUES % HUES
    low = hue.astype(int)
    found = np.bincount(low % HUES, weight * (1.0 - hue + low), HUES) + np.bincount(
        (low + 1) % HUES, weight * (hue - low), HUES
    )
    return np.sqrt(found / (found.sum() + 1e-6)).astype(np.float32)


def colours(images: Sequence[Image]) -> NDArray[np.float32]:
    """Return crops as vectors (n, d) of all their levels, in quarters of full scale."""
    return np.stack([image.ravel() for image in images]).astype(np.float32) / 64.0
