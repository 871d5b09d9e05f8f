"""A coin or a die in a picture: which face is up before the throw. Compares with faces as we draw them, or fits a cube."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from refcheck.image_reading.circles import lab_of
from refcheck.image_reading.cube import Seen, see
from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from simulators.devices.coin import Coin
from simulators.devices.die import FACES, Die
from simulators.render.faces import face
from simulators.world import Camera, Part

SIDE = 64  # px of a coin's face set square-on
TURNS = 120  # ways that it is turned to be compared
ALIKE, CLEARER = 0.45, 0.12  # least correlation with the face, and how much more than with the other one
UNSEEN = "unseen"
PLAIN, SURER = 0.45, 1.2  # most that may be left unexplained of a die's lightness, and how much more any other top must leave


class CoinKind:
    """The face that is up. A coin of other relief than ours has to be marked by hand."""

    title = "coin"
    units: Mapping[str, str] = {"start_face": ""}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return nothing: a face is one or the other."""
        return {}

    def marks(self, device: Coin) -> Mapping[str, Mark]:
        """Return the word for a coin's face."""
        return {
            "start_face": Mark("the face that is up", words=("heads", "tails")),
            "rim": Mark("leave out, or points on the coin's outline", 0, 400),
        }

    def expected(self, device: Coin, camera: Camera) -> Marks:
        """Return the coin's face and the outline of its upper side."""
        turn = 2.0 * np.pi * np.arange(24) / 24.0
        ring = device.diameter / 2.0 * np.column_stack([np.cos(turn), np.sin(turn), 0.0 * turn])
        at = np.add(ring, (0.0, -device.set_back, device.height + device.thickness / 2.0))
        return Marks({"rim": camera.project(at)}, {"rim": 0.5}, {"start_face": device.start_face})

    def find(self, picture: Picture, device: Coin) -> Marks:
        """Find the ellipse whose inside, set square-on, is most like one of the faces at any turn."""
        lab, best = lab_of(picture), list[tuple[float, float, str, Array]]()
        part = next(body for body in device.world().bodies if body.name.startswith("coin")).parts[0]
        heads, tails = _coin_faces(part, device.diameter)
        for rim in _ellipses(lab):
            flat = _square_on(lab[..., 0], rim)
            scores = [_likeness(flat, stack) for stack in (heads, tails)]
            best.append((max(scores), abs(scores[0] - scores[1]), "heads" if scores[0] > scores[1] else "tails", rim))
        if not best:
            raise Unreadable("nothing in it has the outline of a coin")
        score, margin, said, rim = max(best, key=lambda one: one[0])
        if score < ALIKE or margin < CLEARER:
            raise Unreadable(f"its face is not plain: {score:.2f} alike to {said}, {score - margin:.2f} to the other")
        return Marks({"rim": rim}, {"rim": 0.7}, {"start_face": said})

    def values(self, marks: Marks, device: Coin) -> Values:
        """Return the face that is up."""
        return {"start_face": marks.words["start_face"]}

    def of_device(self, device: Coin) -> Values:
        """Return the face as configured."""
        return {"start_face": device.start_face}

    def put(self, device: Coin, values: Values) -> Coin:
        """Return a coin with that face up."""
        return replace(device, start_face=values["start_face"])


@lru_cache(maxsize=4)
def _coin_faces(part: Part, diameter: float) -> tuple[Array, Array]:
    """Return both faces (TURNS, SIDE, SIDE), lightness within the rim, at every turn, of mean 0 and length 1."""
    stacks = []
    for towards in (1.0, -1.0):
        step = diameter / 200.0
        drawn = face(part, np.array([0.0, 0.0, towards]), step, step)[..., :3]
        lightness = lab_of(np.ascontiguousarray(drawn))[..., 0]
        middle = (np.array(lightness.shape[::-1])) / 2.0
        turns = []
        for turn in range(TURNS):
            spin = cv2.getRotationMatrix2D((float(middle[0]), float(middle[1])), 360.0 * turn / TURNS, 1.0)
            turned = cv2.warpAffine(lightness, spin, lightness.shape[::-1], borderMode=cv2.BORDER_REPLICATE)
            ring = middle + 100.0 * np.column_stack([np.cos(np.arange(12.0)), np.sin(np.arange(12.0))])
            turns.append(_unit(_square_on(turned, ring)))
        stacks.append(np.array(turns))
    return stacks[0], stacks[1]


def _square_on(plane: Array, rim: Array) -> Array:
    """Return the inside (SIDE, SIDE) of the ellipse through `rim` as a disc; the relief of a rim is left out."""
    (cx, cy), (a, b), angle = cv2.fitEllipseDirect(rim.astype(np.float32)[:, None])
    t = np.radians(angle)
    turn = np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])
    shape = turn.T @ np.diag([a / 2.0, b / 2.0]) @ turn
    grid = np.linspace(-0.88, 0.88, SIDE)
    x, y = np.meshgrid(grid, grid)
    at = np.stack([x, y], -1) @ shape.T + [cx, cy]
    smooth = cv2.GaussianBlur(plane, (0, 0), max(0.3, min(a, b) / 90.0))
    inside = map_coordinates(smooth, [at[..., 1] - 0.5, at[..., 0] - 0.5], order=1, mode="nearest")
    return np.where(x * x + y * y < 0.77, inside, np.nan)


def _unit(flat: Array) -> Array:
    level = np.where(np.isnan(flat), 0.0, flat - np.nanmean(flat))
    return np.asarray(level / (np.linalg.norm(level) + 1e-9))


def _likeness(flat: Array, stack: Array) -> float:
    """Return the largest correlation of a disc with a face at any turn."""
    return float(np.max(np.einsum("nij,ij->n", stack, _unit(flat))))


def _ellipses(lab: Array) -> list[Array]:
    """Return outlines (n, 2) of patches that are ellipses, from many thresholds on lightness and colour."""
    found, height = [], lab.shape[0]
    for channel in range(3):
        plane = cv2.GaussianBlur(lab[..., channel], (0, 0), 0.7)
        for level in np.percentile(plane, [2, 5, 10, 50, 80, 90, 95, 97, 98, 99, 99.5]):
            for mask in (plane > level, plane < level):
                contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
                for contour in contours:
                    points = contour[:, 0].astype(float) + 0.5
                    if len(points) < 40 or not 0.03 * height < np.ptp(points[:, 1]) < 0.9 * height:
                        continue
                    for _ in range(3):  # clips that touch it are cut off
                        (cx, cy), (a, b), angle = cv2.fitEllipseDirect(points.astype(np.float32)[:, None])
                        if not (np.isfinite([a, b, cx, cy]).all() and 0.03 * height < min(a, b) and max(a, b) < 1.2 * height):
                            points = points[:0]
                            break
                        t = np.radians(angle)
                        x, y = (points - [cx, cy]).T
                        u = (x * np.cos(t) + y * np.sin(t)) / (a / 2)
                        v = (-x * np.sin(t) + y * np.cos(t)) / (b / 2)
                        off = np.abs(np.hypot(u, v) - 1.0)
                        points = points[off < max(0.12, 1.5 * float(np.median(off)))]
                        if len(points) < 30:
                            break
                    if len(points) < 30:
                        continue
                    (cx, cy), (a, b), _ = cv2.fitEllipseDirect(points.astype(np.float32)[:, None])
                    around = np.unique((np.degrees(np.arctan2(*(points - [cx, cy]).T)) // 10).astype(int))
                    if len(around) >= 24 and min(a, b) > 0.35 * max(a, b) and float(np.mean(off < 0.06)) > 0.7:
                        found.append(points)
    return found


class DieKind:
    """The faces that are up and towards the viewer: the pips of all six follow, and with them which label a face has."""

    title = "die"
    units: Mapping[str, str] = {"faces": ""}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return nothing: faces are counted."""
        return {}

    def marks(self, device: Die) -> Mapping[str, Mark]:
        """Return the words for a die's faces."""
        return {
            "top": Mark("the pips of the face that is up", words=tuple("123456")),
            "front": Mark("the pips of the face towards the viewer, or unseen", words=(*"123456", UNSEEN)),
            "outline": Mark("leave out, or points on the upper face's outline", 0, 400),
        }

    def expected(self, device: Die, camera: Camera) -> Marks:
        """Return the faces as every die of ours is held."""
        return Marks({}, {}, {"top": FACES[4], "front": FACES[3]})

    def find(self, picture: Picture, device: Die) -> Marks:
        """Find the cube whose visible faces have their pips where it is dark. A scoop may hide what is in front."""
        (seen,) = see(picture)
        outline, top, front = made_out(seen)
        return Marks({"outline": outline}, {"outline": 1.0}, {"top": top, "front": front})

    def values(self, marks: Marks, device: Die) -> Values:
        """Return the faces in words. A front that was not seen is the device's if the top is, and asked for if not."""
        top, front = marks.words["top"], marks.words["front"]
        if front == UNSEEN:
            if top != FACES[4]:
                raise Unreadable(f"it shows {top} up and not {FACES[4]}, and which face is in front then was not read")
            return {"faces": f"{top} up"}
        if top == front or int(top) + int(front) == 7:
            raise Unreadable(f"no die shows {top} and {front} on neighbouring faces")
        return {"faces": f"{top} up, {front} in front"}

    def of_device(self, device: Die) -> Values:
        """Return the faces as every die of ours is held."""
        return {"faces": f"{FACES[4]} up, {FACES[3]} in front"}

    def put(self, device: Die, values: Values) -> Die:
        """Return the device as it is: another face up is the same body with other labels (`relabel`)."""
        return device

    def relabel(self, device: Die, values: Values) -> NDArray[np.int64]:
        """Return the fact that each of the device's facts (6,) is on the pictured die."""
        said = [word.split()[0] for word in values["faces"].split(", ")]
        if len(said) == 1:
            return np.arange(6)
        top, front = (FACES.index(word) for word in said)
        axis = {2 * i + side: (1 - 2 * side) * np.eye(3)[i] for i in range(3) for side in (0, 1)}
        up, near = axis[top], axis[front]
        right = np.cross(up, near)  # as +x = z cross -y
        now = {0: right, 1: -right, 2: -near, 3: near, 4: up, 5: -up}
        fact = np.zeros(6, np.int64)
        for side, direction in now.items():
            shown = next(face for face, way in axis.items() if np.allclose(way, direction))
            fact[int(FACES[side]) - 1] = int(FACES[shown]) - 1
        return fact


def made_out(seen: Seen) -> tuple[Array, str, str]:
    """Return points (n, 2) on the outline of a die's upper face, and the words for top and front.

    Raises `Unreadable` where another top explains the picture nearly as well.
    """
    if seen.misfit > PLAIN or seen.rival < seen.misfit * SURER:
        raise Unreadable(
            f"its upper face is not plain: a die with {seen.top} up leaves {seen.misfit:.2f} of what is seen unexplained,"
            f" the next {seen.rival:.2f}"
        )
    along = np.linspace(0.0, 1.0, 10, endpoint=False)[:, None]
    edges = [a + along * (b - a) for a, b in zip(seen.corners, np.roll(seen.corners, -1, 0), strict=True)]
    return np.concatenate(edges), str(seen.top), str(seen.front) if seen.front else UNSEEN
