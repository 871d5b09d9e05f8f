"""Round things in a picture: a ball's outline to parts of a pixel, and small round spots of a given size."""

from __future__ import annotations

import cv2
import numpy as np
from scipy.ndimage import map_coordinates, maximum_filter

from refcheck.image_reading.marks import Array, Picture, Unreadable
from refcheck.image_reading.shapes import circle

RAYS = 90
SMALLEST, LARGEST = 0.012, 0.16  # of the picture's height: a ball's radius


LEAST = 5.0  # px: a smaller circle is found in any noise


def lab_of(picture: Picture) -> Array:
    """Return lightness and colour (H, W, 3), steps of about equal size to the eye."""
    return np.asarray(cv2.cvtColor(picture.astype(np.float32) / 255.0, cv2.COLOR_RGB2LAB), float)


def outline(lab: Array, centre: Array, radius: float) -> tuple[Array, float]:
    """Return where (n, 2) the colour changes most along rays from `centre`, and which share of them is on a circle."""
    angle = 2.0 * np.pi * np.arange(RAYS) / RAYS
    spoke = np.stack([np.cos(angle), np.sin(angle)], -1)
    for reach in (0.35, 0.2):
        step = np.linspace(1.0 - reach, 1.0 + reach, 61) * radius
        at = centre + step[None, :, None] * spoke[:, None]
        places = [at[..., 1] - 0.5, at[..., 0] - 0.5]
        colour = np.stack([map_coordinates(lab[..., c], places, order=1, mode="nearest") for c in range(3)], -1)
        slope = np.linalg.norm(cv2.GaussianBlur(np.gradient(colour, axis=1), (5, 1), 0), axis=2) / (step[1] - step[0])
        best = slope.argmax(1)
        # The middle of the edge, from the slope around its steepest place.
        weight = np.where(np.abs(np.arange(61)[None] - best[:, None]) <= 4, slope, 0.0) ** 2
        points = centre + ((weight * step).sum(1) / (weight.sum(1) + 1e-9))[:, None] * spoke
        strong = slope.max(1) > 2.0
        on = strong
        for tolerance in (0.12, 0.06, 0.04):
            if on.sum() < 20:
                return points[on], 0.0
            centre, radius = circle(points[on])
            on = strong & (np.abs(np.linalg.norm(points - centre, axis=1) - radius) < max(tolerance * radius, 0.5))
    return points[on], float(on.mean())


def circles(picture: Picture, smallest: float, largest: float, least: float) -> list[tuple[Array, Array, float, float]]:
    """Return outline (n, 2), centre (2,), radius [px] and share seen of every circle whose outline is seen for `least` of it.

    Hough's circles, in each of three channels and in bands of radius (a strong large one would hide a small one), refined.
    """
    lab, good, low = lab_of(picture), list[tuple[Array, Array, float, float]](), smallest
    while low < largest:
        high = min(1.7 * low, largest)
        zoom = 2.0 if low < 12.0 else 1.0
        for channel in range(3):
            plane = lab[..., channel]
            dark, light = np.percentile(plane, [0.2, 99.95])
            plane8 = (np.clip((plane - dark) / max(light - dark, 10.0), 0.0, 1.0) * 255).astype(np.uint8)
            large = cv2.resize(plane8, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_CUBIC)
            found = cv2.HoughCircles(
                cv2.GaussianBlur(large, (0, 0), 1.0),
                cv2.HOUGH_GRADIENT,
                dp=1.5,
                minDist=low * zoom,
                param1=80,
                param2=14,
                minRadius=int(0.9 * low * zoom),
                maxRadius=int(np.ceil(1.1 * high * zoom)),
            )
            for x, y, r in [] if found is None else np.asarray(found, float).reshape(-1, 3)[:30] / zoom:
                points, share = outline(lab, np.array([x, y]) + 0.5, r)
                if share < least or len(points) < 20:
                    continue
                centre, radius = circle(points)
                if not (smallest <= radius <= largest and np.hypot(*(centre - [x, y])) < r):
                    continue
                if all(np.hypot(*(centre - other)) > 0.3 * radius or share > seen for _, other, _, seen in good):
                    good.append((points, centre, radius, share))
        low = high
    return good


def find_ball(picture: Picture, least: float = 0.6) -> Array:
    """Return points (n, 2) on the outline of the largest ball: a circle most of whose outline (`least`) is seen."""
    height = picture.shape[0]
    good = circles(picture, max(SMALLEST * height, LEAST), LARGEST * height, least)
    if not good:
        raise Unreadable("no ball is seen whole enough")
    return max(good, key=lambda one: one[2] * one[3] ** 2)[0]


def spots(picture: Picture, radius: float, most: int) -> tuple[Array, Array]:
    """Return places (n, 2) and strengths (n,) of round spots of about `radius` [px] that differ from what is around them.

    The Laplacian of a Gaussian of sd radius/sqrt(2) answers most to a disc of that radius (Lindeberg, IJCV 30, 1998).
    """
    lab, sd = lab_of(picture), max(radius / np.sqrt(2.0), 0.8)
    answer = [cv2.Laplacian(cv2.GaussianBlur(lab[..., c], (0, 0), sd), cv2.CV_64F) * sd * sd for c in range(3)]
    strength = np.sqrt(sum(a * a for a in answer))
    size = max(3, int(1.5 * radius) | 1)
    peaks = (strength == maximum_filter(strength, size)) & (strength > 2.0)
    peaks[:2], peaks[-2:], peaks[:, :2], peaks[:, -2:] = False, False, False, False
    y, x = np.nonzero(peaks)
    order = np.argsort(-strength[y, x])[:most]
    y, x = y[order], x[order]

    def shift(before: Array, at: Array, after: Array) -> Array:
        curve = before - 2.0 * at + after
        return np.where(curve < 0.0, 0.5 * (before - after) / np.minimum(curve, -1e-9), 0.0)

    dx = shift(strength[y, x - 1], strength[y, x], strength[y, x + 1])
    dy = shift(strength[y - 1, x], strength[y, x], strength[y + 1, x])
    return np.column_stack([x + 0.5 + dx, y + 0.5 + dy]), strength[y, x]
