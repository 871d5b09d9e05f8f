"""A pencil in a picture: how far its axis leans. It takes the picture's own vertical for plumb unless a plumb line is given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np
from scipy.ndimage import map_coordinates

from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from refcheck.image_reading.shapes import line, upright
from simulators import rotation
from simulators.devices.pencil import ERASER, FERRULE, Pencil
from simulators.world import Camera

LEAST_LENGTH = 0.12  # of the picture's height
STEEPEST = math.radians(45.0)


class PencilKind:
    """Lean [degrees] to the viewer's right of the line along the pencil."""

    title = "pencil"
    units: Mapping[str, str] = {"lean": "deg"}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return how far off plumb a camera may be held [degrees], and what looking down on a lean adds to it: assumed.

        Half a degree is what our own look of a hand-held camera rolls by (`phone`, sd); with a plumb line its end points do.
        """
        if marks.camera is not None:
            return {"lean": 0.05}
        return {"lean": (0.1 if "plumb" in marks.points else 0.5) + 0.05 * abs(values["lean"])}

    def marks(self, device: Pencil) -> Mapping[str, Mark]:
        """Return the points of a pencil."""
        return {
            "axis": Mark("points along the middle of the barrel, the ends of what is seen of it", 2, 40),
            "plumb": Mark("leave out, or 2 points, upper and lower, of something near it that is known to be plumb", 0, 2),
        }

    def expected(self, device: Pencil, camera: Camera) -> Marks:
        """Return both ends of the painted barrel."""
        axis = rotation.rotate(rotation.about((0.0, 1.0, 0.0), device.lean), (0.0, 0.0, 1.0))
        ends = np.array([device.point, device.length - ERASER - FERRULE])
        return Marks({"axis": camera.project(ends[:, None] * axis)}, {"axis": 0.5})

    def find(self, picture: Picture, device: Pencil) -> Marks:
        """Find two long parallel edges, steep and as far apart as a barrel's, and follow them to parts of a pixel."""
        planes = [cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), cv2.cvtColor(picture, cv2.COLOR_RGB2LAB)[..., 2]]
        barrels = [barrel for plane in planes for barrel in _barrel(np.ascontiguousarray(plane), device)]
        if not barrels:
            raise Unreadable("there is no pair of long, steep, parallel edges as a pencil's barrel has")
        start, end, width = barrels[0]  # a yellow pencil before grey is as bright as that: only its colour has edges
        return Marks({"axis": _followed(picture, start, end, width)}, {"axis": 0.4})

    def values(self, marks: Marks, device: Pencil) -> Values:
        """Return the lean of the axis from the plumb line."""
        lean = _slant(upright(marks.points["axis"], marks.camera))
        plumb = marks.points.get("plumb")
        return {"lean": lean - (_slant(upright(plumb, marks.camera)) if plumb is not None and len(plumb) == 2 else 0.0)}

    def of_device(self, device: Pencil) -> Values:
        """Return the lean as configured."""
        return {"lean": math.degrees(device.lean)}

    def put(self, device: Pencil, values: Values) -> Pencil:
        """Return a pencil that leans so."""
        return replace(device, lean=math.radians(values["lean"]))


def _slant(points: Array) -> float:
    """Return the angle [degrees] of the line through `points` from the picture's vertical, to the right positive."""
    _, (x, y) = line(points)
    return math.degrees(math.atan2(-x, y) if y > 0 else math.atan2(x, -y))


def _barrel(grey: Picture, device: Pencil) -> list[tuple[Array, Array, float]]:
    """Return the ends of the middle line of the best pair of edges, and their distance [px]; nothing where there is none."""
    found = cv2.createLineSegmentDetector().detect(grey)[0]
    segments = np.empty((0, 4)) if found is None else np.asarray(found, float).reshape(-1, 4)
    way = segments[:, 2:] - segments[:, :2]
    length = np.hypot(*way.T)
    angle = np.arctan2(way[:, 0], way[:, 1])
    angle = (angle + np.pi / 2.0) % np.pi - np.pi / 2.0
    keep = (length > 0.25 * LEAST_LENGTH * grey.shape[0]) & (np.abs(angle) < STEEPEST)
    segments, angle = _joined(segments[keep], angle[keep])
    thin = 2.0 * device.radius / device.length
    pairs = list[tuple[float, float, Array, Array]]()
    for i in range(len(segments)):
        along = np.array([math.sin(angle[i]), math.cos(angle[i])])
        across = np.array([along[1], -along[0]])
        for j in range(len(segments)):
            middle = (segments[j, :2] + segments[j, 2:]) / 2.0 - (segments[i, :2] + segments[i, 2:]) / 2.0
            apart = middle @ across
            if apart <= 2.0 or abs(angle[i] - angle[j]) > 0.02:
                continue
            ends = [sorted((segments[k].reshape(2, 2) @ along).tolist()) for k in (i, j)]
            low, high = max(ends[0][0], ends[1][0]), min(ends[0][1], ends[1][1])
            shared = high - low
            # The barrel is what is seen of a rod: no thicker for its length than half as long a pencil would be.
            if shared < LEAST_LENGTH * grey.shape[0] or not 0.3 * thin < apart / shared < 4.0 * thin:
                continue
            base = (segments[i, :2] @ across + segments[j, :2] @ across) / 2.0 * across
            pairs.append((shared, float(apart), base + low * along, base + high * along))
    if not pairs:
        return []
    longest = max(shared for shared, *_ in pairs)
    # The widest of the long ones: a barrel's edge and the line of its gloss are a pair as well.
    _, apart, start, end = max((pair for pair in pairs if pair[0] > 0.7 * longest), key=lambda pair: pair[1])
    return [(start, end, apart)]


def _joined(segments: Array, angle: Array) -> tuple[Array, Array]:
    """Return segments (n, 4) and their angles with those added that parts of one line make: a horizon behind breaks an edge."""
    made, turned = [segments], [angle]
    for i in range(len(segments)):
        along = np.array([math.sin(angle[i]), math.cos(angle[i])])
        ends = segments.reshape(-1, 2, 2) - segments[i, :2]
        on = (np.abs(ends @ np.array([along[1], -along[0]])).max(axis=1) < 2.0) & (np.abs(angle - angle[i]) < 0.05)
        if on.sum() > 1:
            at, way = line(segments[on].reshape(-1, 2))
            way *= math.copysign(1.0, way[1])
            places = ((segments[on].reshape(-1, 2) - at) @ way).tolist()
            made.append(np.concatenate([at + way * min(places), at + way * max(places)])[None])
            turned.append(np.array([math.atan2(way[0], way[1])]))
    return np.concatenate(made), np.concatenate(turned)


def _followed(picture: Picture, start: Array, end: Array, width: float) -> Array:
    """Return points (n, 2) on the middle line, from both edges' places in cuts across it; outliers (a hand) are left out."""
    along = (end - start) / np.linalg.norm(end - start)
    across = np.array([-along[1], along[0]])
    reach = np.linspace(-1.6 * width, 1.6 * width, 129)
    cuts = start + np.linspace(0.04, 0.96, 40)[:, None] * (end - start)
    at = cuts[:, None] + reach[None, :, None] * across
    lab = cv2.cvtColor(picture, cv2.COLOR_RGB2LAB).astype(float)
    colour = np.stack(
        [map_coordinates(lab[..., c], [at[..., 1] - 0.5, at[..., 0] - 0.5], order=1, mode="nearest") for c in range(3)], -1
    )
    slope = np.linalg.norm(np.gradient(cv2.GaussianBlur(colour, (1, 5), 0), axis=1), axis=2) ** 2
    sides = []
    for side in (-1.0, 1.0):
        near = np.exp(-(((reach - side * width / 2.0) / (0.25 * width)) ** 2))
        weight = slope * near
        sides.append((weight * reach).sum(1) / (weight.sum(1) + 1e-9))
    shift = (sides[0] + sides[1]) / 2.0
    points = cuts + shift[:, None] * across
    for _ in range(3):
        middle, direction = line(points)
        off = np.abs((points - middle) @ np.array([-direction[1], direction[0]]))
        keep = off <= max(3.0 * 1.4826 * float(np.median(off)), 0.3)
        points = points[keep]
    if len(points) < 15:
        raise Unreadable("the edges of the barrel cannot be followed along it")
    return points
