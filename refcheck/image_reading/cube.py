"""A die in a picture as what it is: a cube seen from above, whose three visible faces carry pips where a die has them.

It refuses to know which face is lit: a face has any brightness of its own, and only where dark and light lie tells anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from scipy.optimize import minimize

from refcheck.image_reading.circles import lab_of
from refcheck.image_reading.marks import Array, Picture, Unreadable
from simulators.devices.die import FACES

FOCAL = 1.5  # of the picture's height, where nobody tells: a vertical view of 37 degrees. It only leans what stands upright
SIDE = 44  # px of the longer side of what is compared: pips are then some 5 px wide
HEIGHTS = np.radians(np.arange(30.0, 90.0, 7.5))  # of the camera above the horizon
YAWS = np.radians(np.arange(-45.0, 45.0, 7.5))
SPACING, RADIUS = 0.52, 0.175  # of pips, of half an edge: where the search begins
LEAST_DARK = 12.0  # steps of lightness: a pip that is less dark than its face is none
TRIED = 5  # poses that are made exact

LATTICE = np.array([(u, v) for v in (-1, 0, 1) for u in (-1, 0, 1)], float)
PATTERNS = {  # places of the lattice; those that look otherwise after a quarter turn are given both ways
    1: ["000010000"], 2: ["100000001", "001000100"], 3: ["100010001", "001010100"], 4: ["101000101"],
    5: ["101010101"], 6: ["111000111", "101101101"],
}  # fmt: skip
INK = np.array([[int(place) for place in pattern] for one in PATTERNS.values() for pattern in one], float).T  # (9, 9)
PIPS = np.array([pips for pips, one in PATTERNS.items() for _ in one])
FIRST = np.searchsorted(PIPS, np.arange(1, 7))


class Held(NamedTuple):
    """How a die lies: pips up, towards the viewer and to the right."""

    top: int
    front: int
    right: int


@dataclass(frozen=True)
class Seen:
    """What of a die was made out: pips up, those in front (0 where that is not plain), the upper face's corners (4, 2) [px].

    `misfit` is the share of the picture's variance on the die that is left, `rival` that of the best die of another top.
    """

    top: int
    front: int
    corners: Array
    misfit: float
    rival: float


def _squarely() -> tuple[Held, ...]:
    """Return the 24 ways that a die can lie squarely."""
    axis = {int(name): (1 - 2 * (i % 2)) * np.eye(3, dtype=int)[i // 2] for i, name in enumerate(FACES)}
    name = {tuple(way): pips for pips, way in axis.items()}
    return tuple(
        Held(top, front, name[tuple(np.cross(axis[front] * -1, axis[top]))])
        for top in axis
        for front in axis
        if front not in (top, 7 - top)
    )


WAYS = _squarely()
_top, _front, _right = np.array(WAYS).T
SHOWN = {"top": _top, "front": _front, "right": _right, "left": 7 - _right}  # pips (24,) of each way by face


@dataclass(frozen=True)
class _Patch:
    """What is compared: lightness (h, w), which pixels belong to the die, and where in the picture they are."""

    light: Array
    body: Array
    corner: Array
    scale: float
    size: tuple[int, int]

    def pixels(self) -> Array:
        """Return the middles (h * w, 2) of all pixels, in the patch's own."""
        high, wide = self.light.shape
        return np.stack(np.meshgrid(np.arange(wide) + 0.5, np.arange(high) + 0.5), -1).reshape(-1, 2)

    def towards(self) -> Array:
        """Return the patch's middle (3,) as the camera sees it: right, down, forward, forward 1."""
        high, wide = self.light.shape
        middle = self.corner + np.array([wide, high]) / 2.0 / self.scale
        return np.append((middle - np.array(self.size) / 2.0) / (FOCAL * self.size[1]), 1.0)


def _patches(picture: Picture, count: int) -> list[_Patch]:
    """Cut out the `count` largest white patches that are no larger than a die and do not touch the picture's border.

    Several dice may lie so near to each other that only a line parts them: then no gap of a patch is closed.
    """
    lab = lab_of(picture)
    white = ((lab[..., 0] > 60.0) & (np.hypot(lab[..., 1], lab[..., 2]) < 18.0)).astype(np.uint8)
    if count == 1:
        white = np.asarray(cv2.morphologyEx(white, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8)), np.uint8)
    found, parts, stats, _ = cv2.connectedComponentsWithStats(white)
    height, width = white.shape
    inside = [
        i
        for i in range(1, found)
        if stats[i, 0] > 1 and stats[i, 0] + stats[i, 2] < width - 1
        and stats[i, 1] > 1 and stats[i, 1] + stats[i, 3] < height - 1
        and 0.0004 * height * width < stats[i, 4] < 0.2 * height * width
        and 0.4 < stats[i, 2] / stats[i, 3] < 2.5
    ]  # fmt: skip
    if len(inside) < count:
        raise Unreadable("no white die is seen" if count == 1 else f"{len(inside)} white dice are seen and not {count}")
    largest = sorted(inside, key=lambda i: -int(stats[i, 4]))[:count]
    return [_patch(lab, parts, stats, die) for die in largest]


def _patch(lab: Array, parts: Array, stats: Array, die: int) -> _Patch:
    """Cut out one white part of a picture, given in Lab."""
    height, width = parts.shape
    x, y, w, h = (int(v) for v in stats[die, :4])
    scale = SIDE / max(w, h)
    x0, y0 = x - 2, y - 2
    cut = np.s_[y0 : y + h + 2, x0 : x + w + 2]
    wide, high = round((w + 4) * scale), round((h + 4) * scale)
    how = cv2.INTER_AREA if scale < 1.0 else cv2.INTER_CUBIC
    light = cv2.resize(lab[cut][..., 0], (wide, high), interpolation=how)
    contours, _ = cv2.findContours((parts[cut] == die).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    hull = cv2.convexHull(np.concatenate(contours))[:, 0] + 0.5
    hull = (hull - hull.mean(0)) * (1.0 + 1.0 / np.ptp(hull, axis=0)) + hull.mean(0)  # to the pixels' outer edges
    body = np.zeros((high, wide), np.uint8)
    cv2.fillPoly(body, [np.round(hull * [wide / (w + 4), high / (h + 4)] * 16.0 - 8.0).astype(np.int32)], 1, shift=4)
    return _Patch(light, body.astype(bool), np.array([x0, y0], float), wide / (w + 4), (width, height))


def _axes(height: float, yaw: float, roll: float) -> Array:
    """Return the die's axes (3, 3), rows x, y, z, as seen by a camera (right, down, forward) that looks down by `height`."""
    up = np.array([0.0, -np.cos(height), -np.sin(height)])
    away = np.array([0.0, -np.sin(height), np.cos(height)])
    across = np.array([1.0, 0.0, 0.0])
    x, y = np.cos(yaw) * across + np.sin(yaw) * away, -np.sin(yaw) * across + np.cos(yaw) * away
    turn = np.array([[np.cos(roll), np.sin(roll), 0.0], [-np.sin(roll), np.cos(roll), 0.0], [0.0, 0.0, 1.0]])
    return np.array([x, y, up]) @ turn


FRAMES = {  # by face: its middle, and the ways of u and v on it, in the die's axes
    "top": ((0, 0, 1), (1, 0, 0), (0, 1, 0)),
    "front": ((0, -1, 0), (1, 0, 0), (0, 0, 1)),
    "right": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "left": ((-1, 0, 0), (0, 1, 0), (0, 0, 1)),
}
CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


class _Fit:
    """A patch, and how far a cube in a pose is from it. A pose is height, yaw, roll, half edge, place (2), spacing, radius."""

    def __init__(self, patch: _Patch) -> None:
        self.patch = patch
        self.at = patch.pixels()
        self.light = patch.light.reshape(-1)
        self.body = patch.body.reshape(-1)
        rim = int(np.ceil(patch.scale)) * 2 + 1  # where the picture's pixels are part background
        self.inner = cv2.erode(patch.body.astype(np.uint8), np.ones((rim, rim), np.uint8)).reshape(-1).astype(bool)
        self.ray = patch.towards()
        self.focal = FOCAL * patch.size[1] * patch.scale
        self.middle = np.array(patch.light.shape[::-1]) / 2.0
        within = self.light[self.inner]
        self.bright = float(np.percentile(within, 75))
        self.variance = float(within.var())
        self.outside = (0.25 * (self.bright - float(np.percentile(within, 2)))) ** 2  # price of a pixel of the wrong outline

    def seen(self, pose: Array, points: Array) -> Array:
        """Return where (n, 2) in the patch points (n, 3) of the die, in half edges, are seen."""
        place = self.ray + points @ _axes(*pose[:3]) * (pose[3] / self.focal)
        flat = (place[:, :2] / place[:, 2:] - self.ray[:2]) * self.focal
        return np.asarray(flat + self.middle + pose[4:6])

    def start(self, height: float, yaw: float) -> tuple[float, Array]:
        """Return the pose whose outline is the patch's as seen from above, by least squares, and what is left [px]."""
        angle = np.radians(np.arange(-165.0, -14.0, 7.5))
        way = np.column_stack([np.cos(angle), np.sin(angle)])
        pose = np.array([height, yaw, 0.0, 1.0, 0.0, 0.0, SPACING, RADIUS])
        cube = np.max((self.seen(pose, CORNERS) - self.middle) @ way.T, axis=0)
        rows = np.column_stack([cube, way])
        want = np.max((self.at[self.body] - self.middle) @ way.T, axis=0) + 0.5
        found, *_ = np.linalg.lstsq(rows, want, rcond=None)
        pose[3:6] = found
        return float(np.sqrt(np.mean(np.square(rows @ found - want)))), pose

    def faces(self, pose: Array) -> dict[str, tuple[Array, Array]]:
        """Return, by visible face, which pixels (n,) it covers and where on it they lie (m, 2), in half edges."""
        axes, found = _axes(*pose[:3]), {}
        for name, frame in FRAMES.items():
            middle, u, v = (np.array(one, float) for one in frame)
            facing = (self.ray + (pose[3] / self.focal) * (middle @ axes)) @ (middle @ axes)
            if facing > -0.02:
                continue
            corner = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
            at = self.seen(pose, middle + corner[:, :1] * u + corner[:, 1:] * v)
            back = cv2.getPerspectiveTransform(at.astype(np.float32), corner.astype(np.float32))
            on = cv2.perspectiveTransform(self.at[None], back)[0].astype(float)
            covered = (np.abs(on[:, 0]) <= 1.0) & (np.abs(on[:, 1]) <= 1.0)
            found[name] = (covered, on[covered])
        return found

    def costs(self, pose: Array) -> tuple[float, dict[str, Array]]:
        """Return the cost of the outline, and by face what is left (7,) with 1 to 6 pips on it (entry 0 is none)."""
        covered = np.zeros(len(self.at), bool)
        left: dict[str, Array] = {}
        stray = 0
        for name, (pixels, on) in self.faces(pose).items():
            covered |= pixels
            if name == "top":
                stray += int((~self.body[pixels]).sum())
            inner = self.inner[pixels]
            light, on = self.light[pixels][inner], on[inner]
            cost = np.zeros(7)
            if len(light) > 8:
                which, ink = _cells(on, pose, 2.0 / np.sqrt(max(int(pixels.sum()), 1)))
                even = light - light.mean()
                dark, both, square = (np.asarray(np.bincount(which, w, 9) @ INK) for w in (ink, ink * even, ink * ink))
                spread = square - dark**2 / len(light) + 1e-9
                rest = even @ even - np.maximum(-both, 0.0) ** 2 / spread
                cost[1:] = np.minimum.reduceat(rest, FIRST)  # of both ways that a pattern can lie
            left[name] = cost
        stray += int((self.body & ~covered).sum())
        return stray * self.outside, left

    def upper(self, pose: Array) -> Array:
        """Return how dark (9,) the upper face is at each place of the lattice, 1 at the darkest."""
        pixels, on = self.faces(pose)["top"]
        which, ink = _cells(on, pose, 2.0 / np.sqrt(max(int(pixels.sum()), 1)))
        below = float(np.percentile(self.light[pixels], 75)) - self.light[pixels]
        dark = np.bincount(which, ink * below, 9) / (np.bincount(which, ink, 9) + 1e-9)
        return np.asarray(dark / max(float(dark.max()), LEAST_DARK))

    def misfits(self, pose: Array) -> Array:
        """Return the misfit (24,) of each way that the die can lie."""
        outline, left = self.costs(pose)
        none = np.zeros(7)
        sides = (left.get(name, none)[pips] for name, pips in SHOWN.items())
        return np.asarray((outline + sum(sides)) / (self.variance * max(int(self.inner.sum()), 1)))

    def best(self, pose: Array, wanted: Array) -> float:
        """Return the least misfit of the ways wanted (24,), infinite for a pose out of bounds."""
        height, yaw, roll, half, _, _, spacing, radius = pose
        if not (0.3 < height < 1.57 and abs(yaw) < 0.95 and abs(roll) < 0.15 and half > 5.0):
            return np.inf
        if not (0.42 < spacing < 0.62 and 0.11 < radius < 0.24):
            return np.inf
        return float(self.misfits(pose)[wanted].min())


def _cells(on: Array, pose: Array, step: float) -> tuple[Array, Array]:
    """Return the place of the lattice that each point (n, 2) of a face is nearest to, and how far (n,) a pip there covers it.

    `step` is the size of a pixel, in half edges.
    """
    cell = np.clip(np.rint(on / pose[6]), -1.0, 1.0)
    ink = np.clip((pose[7] - np.hypot(*(on - pose[6] * cell).T)) / step + 0.5, 0.0, 1.0)
    return (4.0 + cell @ [1.0, 3.0]).astype(int), ink


def see(picture: Picture, count: int = 1) -> list[Seen]:
    """Return what lies up on each of `count` dice in a picture. Raises `Unreadable` where there are fewer."""
    return [_see(_Fit(patch)) for patch in _patches(picture, count)]


def _see(fit: _Fit) -> Seen:
    starts = [fit.start(height, yaw) for height in HEIGHTS for yaw in YAWS]
    first = [(fit.misfits(pose), pose) for off, pose in starts if pose[3] > 5.0 and off < 0.06 * SIDE]
    if not first:
        raise Unreadable("the white patch has not the outline of a die")
    every = np.ones(24, bool)
    first.sort(key=lambda one: float(one[0].min()))
    exact = [_refined(fit, pose, every) for _, pose in first[:TRIED]]
    misfit, pose = _refined(fit, min(exact, key=lambda one: one[0])[1], every)  # a simplex that has shrunk starts anew
    misfits = fit.misfits(pose)
    way = WAYS[int(misfits.argmin())]
    spots = fit.upper(pose) > 0.5
    if not any(np.array_equal(spots, ink > 0.0) for ink in INK.T[way.top == PIPS]):
        raise Unreadable(f"its upper face is most like a {way.top}, but has {spots.sum()} dark spots where a die has pips")
    # Every other top is given the best pose that can be found for it, from where it starts best and from here.
    others = []
    for wanted in (SHOWN["top"] == top for top in range(1, 7) if top != way.top):
        begin = min([*first, (misfits, pose)], key=lambda one: float(one[0][wanted].min()))[1]
        others.append((*_refined(fit, begin, wanted), wanted))
    _, nearest, wanted = min(others, key=lambda one: one[0])
    rival, _ = _refined(fit, nearest, wanted)
    same = (SHOWN["top"] == way.top) & (SHOWN["front"] != way.front)
    front = way.front if abs(pose[1]) < 0.5 and misfits[same].min() > 1.5 * misfit else 0
    square = np.array([(-1.0, -1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 1.0), (-1.0, 1.0, 1.0)])
    corners = fit.seen(pose, square) / fit.patch.scale + fit.patch.corner
    return Seen(way.top, front, corners, misfit, rival)


def _refined(fit: _Fit, pose: Array, wanted: Array) -> tuple[float, Array]:
    """Return the least misfit of the ways wanted (24,) near a pose, and where it is."""
    simplex = np.vstack([pose, pose + np.diag([0.08, 0.08, 0.02, 1.0, 1.0, 1.0, 0.03, 0.02])])
    options = {"initial_simplex": simplex, "maxfev": 160, "xatol": 1e-3, "fatol": 1e-5}
    found = minimize(fit.best, pose, args=(wanted,), method="Nelder-Mead", options=options)
    return float(found.fun), found.x
