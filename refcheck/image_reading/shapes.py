"""Circles, lines and conics through points, and the plane rectified: the geometry that the devices' measures share."""

from __future__ import annotations

import cv2
import numpy as np

from refcheck.image_reading.marks import Array, Unreadable
from simulators.world import Camera


def circle(points: Array) -> tuple[Array, float]:
    """Return centre (2,) and radius of the circle through `points` (n, 2), by least squares of the algebraic distance.

    Kasa's fit: x^2 + y^2 + D x + E y + F = 0 is linear in D, E, F. Raises `Unreadable` for points on a line.
    """
    middle = points.mean(axis=0)
    p = points - middle
    solution, _, rank, _ = np.linalg.lstsq(np.column_stack([p, np.ones(len(p))]), -np.sum(p * p, axis=1), rcond=None)
    if rank < 3:
        raise Unreadable("the points on the ball's outline lie on a line")
    centre = -solution[:2] / 2.0
    return middle + centre, float(np.sqrt(max(centre @ centre - solution[2], 0.0)))


def line(points: Array) -> tuple[Array, Array]:
    """Return a point (2,) and the unit direction (2,) of the line through `points` (n, 2): least squares across it."""
    middle = points.mean(axis=0)
    return middle, np.linalg.svd(points - middle)[2][0]


def to_unit_disc(rim: Array, centre: Array) -> Array:
    """Return the homography (3, 3) that takes the ellipse through `rim` (n >= 5, 2) to the unit circle and `centre` to 0.

    A projective map of the disc onto itself moves any inner point to the middle (Klein's model of the hyperbolic plane: for
    the point (a, 0) it is the Lorentz boost of velocity a), so the picture of a circle and of its centre is enough to see
    the circle square-on, up to a turn, whatever the camera. Raises `Unreadable` where `rim` is no ellipse around `centre`.
    """
    (cx, cy), (full_a, full_b), angle = cv2.fitEllipseDirect(rim.astype(np.float32)[:, None])
    if not (np.isfinite([cx, cy, full_a, full_b]).all() and min(full_a, full_b) > 1.0):
        raise Unreadable("the rim's points lie on no ellipse")
    c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    turn = np.array([[c, s], [-s, c]])
    whiten = turn.T @ np.diag([2.0 / full_a, 2.0 / full_b]) @ turn  # symmetric: up stays up
    affine = np.eye(3)
    affine[:2, :2], affine[:2, 2] = whiten, -whiten @ np.array([cx, cy])
    inner = whiten @ (centre - np.array([cx, cy]))
    a = float(np.linalg.norm(inner))
    if a >= 0.9:
        raise Unreadable("the hub does not lie within the rim")
    if a < 1e-12:
        return affine
    along = inner / a
    basis = np.array([[along[0], along[1], 0.0], [-along[1], along[0], 0.0], [0.0, 0.0, 1.0]])
    root = np.sqrt(1.0 - a * a)
    boost = np.array([[1.0, 0.0, -a], [0.0, root, 0.0], [-a, 0.0, 1.0]])
    return basis.T @ boost @ basis @ affine


def mapped(homography: Array, points: Array) -> Array:
    """Return `points` (n, 2) under a homography (3, 3)."""
    lifted = np.column_stack([points, np.ones(len(points))]) @ homography.T
    return lifted[:, :2] / lifted[:, 2:]


def upright(points: Array, camera: Camera | None) -> Array:
    """Return where `points` (n, 2) [px] lie in the upright plane y = 0, as (x, -z) [m]: a picture of it without perspective.

    Without a camera they are returned as they are: the picture is taken to be square-on.
    """
    if camera is None:
        return points
    right, down, forward = camera.axes()
    x, y = (points - [camera.width / 2.0, camera.height / 2.0]).T
    eye = np.array(camera.position, float)
    if camera.view_height is not None:
        scale = camera.view_height / camera.height
        start, way = eye + scale * (x[:, None] * right + y[:, None] * down), np.tile(forward, (len(points), 1))
    else:
        scale = 2.0 * np.tan(camera.fov / 2.0) / camera.height
        start, way = np.tile(eye, (len(points), 1)), forward + scale * (x[:, None] * right + y[:, None] * down)
    hit = start - (start[:, 1] / way[:, 1])[:, None] * way
    return np.column_stack([hit[:, 0], -hit[:, 2]])
