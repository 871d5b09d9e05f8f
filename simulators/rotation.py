"""Unit quaternions (x, y, z, w) and rotations of vectors, broadcast over leading axes.

Written with elementwise arithmetic only: a matrix product gives other bits for a row than for a batch, and a
rollout must not depend on the batch it ran in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
IDENTITY = (0.0, 0.0, 0.0, 1.0)


def rotate(quat: ArrayLike, vector: ArrayLike) -> Array:
    """Rotate `vector` (..., 3) from body to world axes by `quat` (..., 4)."""
    q, v = np.asarray(quat, float), np.asarray(vector, float)
    axis, w = q[..., :3], q[..., 3:]
    t = 2.0 * _cross(axis, v)
    return v + w * t + _cross(axis, t)


def _cross(a: Array, b: Array) -> Array:
    """Return the vector product: `np.cross` takes over twice as long on a single row."""
    x = a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1]
    y = a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2]
    z = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return np.stack([x, y, z], axis=-1)


def upward(quat: ArrayLike) -> Array:
    """Return how far each body axis points up (..., 3): the z components in the world of the body's x, y and z axes."""
    x, y, z, w = np.moveaxis(np.asarray(quat, float), -1, 0)
    return np.stack([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)], axis=-1)


def unrotate(quat: ArrayLike, vector: ArrayLike) -> Array:
    """Rotate `vector` (..., 3) from world to body axes by `quat` (..., 4)."""
    return rotate(conjugate(quat), vector)


def conjugate(quat: ArrayLike) -> Array:
    """Return the inverse of unit quaternions (..., 4)."""
    return np.asarray(quat, float) * np.array([-1.0, -1.0, -1.0, 1.0])


def multiply(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the rotation `b` followed by `a`, both (..., 4)."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    av, aw, bv, bw = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    vector = aw * bv + bw * av + _cross(av, bv)
    scalar = aw * bw - np.sum(av * bv, axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def about(axis: Sequence[float], angle: ArrayLike) -> Array:
    """Return the rotation by `angle` (...) radians about the fixed `axis` (3,), right-handed."""
    unit = np.asarray(axis, float) / np.sqrt(np.sum(np.square(axis)))
    half = np.asarray(angle, float)[..., None] / 2.0
    return np.concatenate([np.sin(half) * unit, np.cos(half)], axis=-1)


def interpolate(a: ArrayLike, b: ArrayLike, share: float) -> Array:
    """Return the rotation a `share` of the short way from `a` to `b` (slerp), both (4,)."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if np.array_equal(a, b):
        return a
    cosine = float(np.sum(a * b))
    if cosine < 0.0:
        b, cosine = -b, -cosine
    if cosine > 1.0 - 1e-9:
        mixed = (1.0 - share) * a + share * b
        return mixed / np.sqrt(np.sum(mixed * mixed))
    angle = np.arccos(min(cosine, 1.0))
    return (np.sin((1.0 - share) * angle) * a + np.sin(share * angle) * b) / np.sin(angle)
