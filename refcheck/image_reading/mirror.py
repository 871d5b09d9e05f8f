"""A track or a crest in a picture: how far the ball lies from the apparatus's own axis, and how unlike its two sides are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np

from refcheck.image_reading.circles import find_ball
from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from refcheck.image_reading.shapes import circle, line, upright
from simulators.devices.crest import Crest
from simulators.devices.track import YTrack
from simulators.world import Camera

AGREE = 0.8  # px
LEAST = 0.06  # of the picture's height: the shortest edge that counts


class MirrorKind:
    """The ball's offset from the axis, in ball radii, and how far the sides are from mirror images, in ball radii too."""

    title = "track"
    units: Mapping[str, str] = {"offset": "ball radii"}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return what light from one side does to the edges of rounded parts: half a pixel, for a ball of ten to twenty.

        A camera that is not known may besides have stood a little to the side of an apparatus with depth (assumed).
        """
        return {"offset": 0.05 if marks.camera is not None else 0.07}

    def marks(self, device: YTrack | Crest) -> Mapping[str, Mark]:
        """Return the points of an apparatus with two like sides."""
        return {
            "ball": Mark("points on the ball's outline, all around", 3, 400),
            "left": Mark("points of the left side, such as corners", 1, 60),
            "right": Mark("the same points of the right side, in the same order", 1, 60),
        }

    def expected(self, device: YTrack | Crest, camera: Camera) -> Marks:
        """Return the ball's outline and some corners, in the plane that the ball moves in."""
        turn = 2.0 * np.pi * np.arange(24) / 24.0
        world = device.world()
        ball = next(body for body in world.bodies if body.name == "ball")
        ring = np.array(ball.position) + device.ball_radius * np.column_stack([np.cos(turn), 0.0 * turn, np.sin(turn)])
        if isinstance(device, Crest):
            corners = np.array([[device.half_base, 0.0, device.tray_depth]])
        else:
            side = device.half_width
            corners = np.array(
                [[side, 0.0, 0.0], [side, 0.0, device.tray_depth], [device.channel / 2.0, 0.0, device.release_height]]
            )
        points = {
            "ball": camera.project(ring),
            "left": camera.project(corners * [-1.0, 1.0, 1.0]),
            "right": camera.project(corners),
        }
        return Marks(points, dict.fromkeys(points, 0.5))

    def find(self, picture: Picture, device: YTrack | Crest) -> Marks:
        """Find the ball, and pairs of straight edges that mirror each other at one upright axis near it."""
        outline = find_ball(picture)
        centre, radius = circle(outline)
        left, right = _pairs(picture, centre, radius)
        return Marks({"ball": outline, "left": left, "right": right}, {"ball": 0.4, "left": 0.6, "right": 0.6})

    def values(self, marks: Marks, device: YTrack | Crest) -> Values:
        """Return the offset of the ball's middle from the line midway between left and right."""
        left, right, ball = (upright(marks.points[name], marks.camera) for name in ("left", "right", "ball"))
        if len(left) != len(right):
            raise Unreadable(f"left has {len(left)} points and right {len(right)}: they are pairs")
        centre, radius = circle(ball)
        half = (left + right) / 2.0
        at, way = half.mean(0), np.array([0.0, 1.0])
        if len(half) > 2 and np.ptp(half[:, 1]) > 4.0 * radius:
            at, way = line(half)
        elif np.linalg.norm(right[0] - left[0]) > 0.0:  # across the axis lie the pairs themselves
            across = (right - left).sum(0)
            way = np.array([-across[1], across[0]]) / np.linalg.norm(across)
        normal = np.array([abs(way[1]), -way[0] * math.copysign(1.0, way[1])])
        return {"offset": float((centre - at) @ normal / radius)}

    def of_device(self, device: YTrack | Crest) -> Values:
        """Return the offset as configured."""
        return {"offset": device.offset / device.ball_radius}

    def put(self, device: YTrack | Crest, values: Values) -> YTrack | Crest:
        """Return the device with its ball there."""
        return replace(device, offset=float(values["offset"]) * device.ball_radius)


def _pairs(picture: Picture, ball: Array, radius: float) -> tuple[Array, Array]:
    """Return points (n, 2) of the left and the right edges of the pairs that agree on one axis."""
    grey = cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (0, 0), 1.0)  # a sensor's noise breaks long edges
    found = cv2.createLineSegmentDetector().detect(grey)[0]
    segments = np.empty((0, 4)) if found is None else np.asarray(found, float).reshape(-1, 4) + 0.5
    upwards = segments[:, 1] > segments[:, 3]  # the detector draws along an edge with its dark side always on one hand
    segments = np.where(upwards[:, None], segments[:, [2, 3, 0, 1]], segments)  # downwards
    way = segments[:, 2:] - segments[:, :2]
    length = np.hypot(*way.T)
    slant = np.arctan2(way[:, 0], way[:, 1])
    keep = (length > LEAST * picture.shape[0]) & (np.abs(slant) < math.radians(80.0)) & (segments[:, 3] > ball[1])
    segments, slant, upwards = segments[keep], slant[keep], upwards[keep]
    pairs = []
    for i in range(len(segments)):
        for j in range(len(segments)):
            low, high = max(segments[i, 1], segments[j, 1]), min(segments[i, 3], segments[j, 3])
            whole = max(segments[i, 3], segments[j, 3]) - min(segments[i, 1], segments[j, 1])
            if upwards[i] == upwards[j] or abs(slant[i] + slant[j]) > 0.04 or high - low < 0.5 * whole:
                continue
            rows = np.linspace(low, high, 5)
            xs = [np.interp(rows, segments[k, [1, 3]], segments[k, [0, 2]]) for k in (i, j)]
            if np.all(xs[1] - xs[0] > 0.5 * radius):
                pairs.append((float(np.mean(xs[0] + xs[1]) / 2.0), high - low, rows, *xs))
    near = [pair for pair in pairs if abs(pair[0] - ball[0]) < 3.0 * radius]
    if not near:
        raise Unreadable("no two straight edges mirror each other near the ball")
    axes, weights = np.array([pair[0] for pair in near]), np.array([pair[1] for pair in near])
    # The axis that the greatest length of edges agrees on; the edges of shadows and shades have others.
    agreed = [float(weights[np.abs(axes - axis) < AGREE].sum()) for axis in axes]
    axis = axes[int(np.argmax(agreed))]
    chosen = [pair for pair in near if abs(pair[0] - axis) < AGREE]
    if len(chosen) < 2:
        raise Unreadable("too few edges mirror each other to tell the axis")
    left = np.concatenate([np.column_stack([xs, rows]) for _, _, rows, xs, _ in chosen])
    right = np.concatenate([np.column_stack([xs, rows]) for _, _, rows, _, xs in chosen])
    return left, right
