"""A double pendulum in a picture: the angles that its two arms are held at, and how long they are to each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np

from refcheck.image_reading.circles import circles
from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from refcheck.image_reading.shapes import upright
from simulators.devices.double_pendulum import DoublePendulum
from simulators.world import Camera


class PendulumKind:
    """Angles [degrees] from straight down, counterclockwise, and the outer arm's length as a share of the inner one's."""

    title = "double pendulum"
    units: Mapping[str, str] = {"inner_angle": "deg", "outer_angle": "deg", "length_ratio": "inner lengths"}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return how far off plumb a camera may be held, and what looking a little from above adds: assumed."""
        return {
            "inner_angle": 0.05 if marks.camera is not None else 0.5,
            "outer_angle": 0.05 if marks.camera is not None else 0.5,
            "length_ratio": 0.01,
        }

    def marks(self, device: DoublePendulum) -> Mapping[str, Mark]:
        """Return the points of a pendulum."""
        return {
            "pivot": Mark("the middle of the fixed pivot"),
            "inner": Mark("the middle of the bob that hangs on the pivot"),
            "outer": Mark("the middle of the bob that hangs on the other bob"),
        }

    def expected(self, device: DoublePendulum, camera: Camera) -> Marks:
        """Return pivot and bobs."""
        inner, outer = device.bobs()
        places = {"pivot": (0.0, 0.0, device.pivot_height), "inner": inner, "outer": outer}
        return Marks({name: camera.project(at)[None] for name, at in places.items()}, dict.fromkeys(places, 0.5))

    def find(self, picture: Picture, device: DoublePendulum) -> Marks:
        """Find two bobs of different colours, the rod between them, and the rod from one of them to an upright stand."""
        height = picture.shape[0]
        bobs = sorted(circles(picture, 0.012 * height, 0.08 * height, 0.45), key=lambda one: -one[3])
        segments = _segments(picture)
        best: tuple[float, Array, Array, Array] | None = None
        for _, inner, r, _ in bobs[:12]:
            for _, outer, s, _ in bobs[:12]:
                if not (np.hypot(*(inner - outer)) > 3.0 * r and 0.75 < r / s < 1.33):
                    continue
                joined = _along(segments, inner, outer)
                pivot = _pivot(segments, inner, outer, r, height)
                if joined > 0.2 and pivot is not None and (best is None or joined * pivot[1] > best[0]):
                    best = joined * pivot[1], pivot[0], inner, outer
        if best is None:
            raise Unreadable("no two bobs joined by a rod, one of them by another to an upright stand, are seen")
        _, pivot_at, inner, outer = best
        return Marks(
            {"pivot": pivot_at[None], "inner": inner[None], "outer": outer[None]}, {"pivot": 1.0, "inner": 0.6, "outer": 0.6}
        )

    def values(self, marks: Marks, device: DoublePendulum) -> Values:
        """Return the directions of both arms in the upright plane."""
        pivot, inner, outer = (upright(marks.points[name], marks.camera)[0] for name in ("pivot", "inner", "outer"))
        if min(np.hypot(*(inner - pivot)), np.hypot(*(outer - inner))) <= 0.0:
            raise Unreadable("two of pivot, inner and outer are the same point")

        def angle(arm: Array) -> float:
            return math.degrees(math.atan2(arm[0], arm[1])) % 360.0

        ratio = float(np.hypot(*(outer - inner)) / np.hypot(*(inner - pivot)))
        return {"inner_angle": angle(inner - pivot), "outer_angle": angle(outer - inner), "length_ratio": ratio}

    def of_device(self, device: DoublePendulum) -> Values:
        """Return the angles and the ratio as configured."""
        return {
            "inner_angle": math.degrees(device.inner_angle) % 360.0,
            "outer_angle": math.degrees(device.outer_angle) % 360.0,
            "length_ratio": device.outer_length / device.inner_length,
        }

    def put(self, device: DoublePendulum, values: Values) -> DoublePendulum:
        """Return a pendulum held at these angles."""
        angles = {name: math.radians(values[name]) for name in ("inner_angle", "outer_angle") if name in values}
        if "length_ratio" in values:
            device = replace(device, outer_length=float(values["length_ratio"]) * device.inner_length)
        return replace(device, **angles)  # type: ignore[arg-type]


def _segments(picture: Picture) -> Array:
    found = cv2.createLineSegmentDetector().detect(cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (0, 0), 1.0))[0]
    return np.empty((0, 4)) if found is None else np.asarray(found, float).reshape(-1, 4) + 0.5


def _near(segments: Array, at: Array, way: Array, within: float) -> Array:
    """Return which segments (n,) run along the line through `at` with unit direction `way`, no farther off than `within` px."""
    normal = np.array([-way[1], way[0]])
    return (np.abs((segments[:, :2] - at) @ normal) < within) & (np.abs((segments[:, 2:] - at) @ normal) < within)


def _along(segments: Array, start: Array, end: Array) -> float:
    """Return the share of the way from `start` to `end` along which an edge runs."""
    length = float(np.hypot(*(end - start)))
    way, covered = (end - start) / length, np.zeros(100, bool)
    for segment in segments[_near(segments, start, way, 5.0)]:
        low, high = sorted((segment.reshape(2, 2) - start) @ way / length)
        covered[max(0, int(100 * low)) : max(0, int(100 * high))] = True
    return float(covered.mean())


def _pivot(segments: Array, inner: Array, outer: Array, radius: float, height: int) -> tuple[Array, float] | None:
    """Return where a rod from `inner` meets the middle line of an upright stand, and the share of it that is seen."""
    way = segments[:, 2:] - segments[:, :2]
    length = np.hypot(*way.T)
    steep = (np.abs(way[:, 0]) < 0.02 * length) & (length > 0.15 * height)
    sides = segments[steep]
    best: tuple[Array, float] | None = None
    for i in range(len(sides)):
        for j in range(len(sides)):
            left, right = sides[i, [0, 2]].mean(), sides[j, [0, 2]].mean()
            top = max(min(sides[i, 1], sides[i, 3]), min(sides[j, 1], sides[j, 3]))
            if not (2.0 < right - left < 4.0 * radius and top > 0.1 * height):
                continue
            stand = (left + right) / 2.0
            for segment in segments[(length > 2.0 * radius) & ~steep]:
                along = segment[2:] - segment[:2]
                along = along / np.hypot(*along)
                if abs((inner - segment[:2]) @ np.array([-along[1], along[0]])) > 0.5 * radius or abs(along[0]) < 0.05:
                    continue
                pivot = inner + along * (stand - inner[0]) / along[0]
                seen = _along(segments, inner, pivot) if np.hypot(*(pivot - inner)) > 3.0 * radius else 0.0
                if (
                    np.hypot(*(pivot - outer)) > 2.0 * radius
                    and top - 1.0 < pivot[1] < top + 6.0 * radius
                    and seen > 0.5
                    and (best is None or seen > best[1])
                ):
                    best = pivot, seen
    return best
