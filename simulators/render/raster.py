"""Ray-cast pictures of a three-dimensional World: supersampled, one key light with a soft shadow, procedural textures.

It refuses to know what any state is called. Conventions are the Camera's; pixels are sRGB, mixed in linear light.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulators.device import State
from simulators.render import raster_kernels as kernels
from simulators.render import raster_shadow as shadow
from simulators.render.canvas import Image, Region, check_region, clip_region
from simulators.render.marks import Ink
from simulators.render.primitives import Primitives, linear
from simulators.rotation import Array
from simulators.world import Camera, Light, Vec3, World

_BACKDROP = (0.50, 0.52, 0.56)  # linear, beyond .08: a quiet wall
SHADOW_RAYS = 8  # a sample; the four samples of a pixel take different ones


def disc_directions(light: Light) -> Array:
    """Return directions (4, SHADOW_RAYS, 3) to points spread evenly over the light's disc."""
    towards = np.asarray(light.direction, float)
    towards = towards / np.linalg.norm(towards)
    side = np.cross(towards, np.eye(3)[np.argmin(np.abs(towards))])
    side /= np.linalg.norm(side)
    index = np.arange(4 * SHADOW_RAYS)
    radius = np.sqrt((index + 0.5) / len(index)) * np.tan(light.softness)
    angle = index * (np.pi * (3.0 - np.sqrt(5.0)))  # a sunflower: even everywhere, no rows
    offset = radius[:, None] * (np.cos(angle)[:, None] * side + np.sin(angle)[:, None] * np.cross(towards, side))
    rays = towards + offset
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    return np.ascontiguousarray(rays.reshape(SHADOW_RAYS, 4, 3).transpose(1, 0, 2))


@dataclass(frozen=True)
class _Posed:
    """Primitives where they are: the arrays that `raster_kernels` tells of."""

    kinds: NDArray[np.int64]
    prims: Array
    rects: NDArray[np.int64]
    groups: Array

    def and_then(self, other: _Posed) -> _Posed:
        """Return these and `other`, whose groups count on from these."""
        return _Posed(*(np.concatenate([getattr(self, one), getattr(other, one)]) for one in self.__dataclass_fields__))


class RasterCanvas:
    """One world, camera and light, prepared: see `Canvas`."""

    def __init__(self, world: World, camera: Camera, light: Light, backdrop: Vec3 | None = None) -> None:
        if not 0.0 <= light.softness < 0.8:
            raise ValueError(f"`softness` must be in [0, 0.8) radians, got {light.softness}")
        self._width, self._height = camera.width, camera.height
        self._camera = camera_row(camera)
        direction = np.asarray(light.direction, float) / np.linalg.norm(light.direction)
        behind = _BACKDROP if backdrop is None else linear(backdrop) - 0.08
        self._light = np.array([*direction, np.tan(light.softness), light.ambient, world.scale, *behind])
        self._directions = disc_directions(light)
        ink = Ink(linear)
        fixed, self._moving = Primitives(world.fixed, ink, still=True), Primitives(world.moving, ink, still=False)
        self._ink = ink.numbers()
        prims = fixed.place(
            np.array([b.position for b in world.fixed], float).reshape(-1, 3),
            np.array([b.quaternion for b in world.fixed], float).reshape(-1, 4),
        )
        rects = rectangles(self._camera, prims, world.scale)
        self._fixed = _Posed(fixed.kinds, prims, rects, fixed.groups(prims, rects))
        shape = (camera.height, camera.width)
        self._depth = np.full((*shape, kernels.SAMPLES), np.inf)
        self._ident = np.full((*shape, kernels.SAMPLES), -1, np.int32)
        self._kept = np.full((*shape, 6), -1.0)
        self._background = np.zeros((*shape, 3), np.uint8)
        self._tiles = np.empty((-(-camera.height // 8), -(-camera.width // 8), 4))
        self._still = np.zeros(self._tiles.shape[:2], np.int64)
        self._trace(self._background, 0, 0, self._fixed, self._depth, self._ident, self._kept)
        kernels.bound_tiles(self._camera, self._depth, self._tiles)
        kernels.near_tiles(self._fixed.groups, 0, self._light, self._tiles, self._still)

    @property
    def background(self) -> Image:
        """Everything that never moves, (H, W, 3)."""
        return self._background

    def region(self, state: State, row: int) -> Region:
        """Return the pixels that what moves, and its shadow, can touch."""
        scene = self._posed(state, row)
        return self._region(scene, self._near(scene))

    def frame(self, state: State, row: int, region: Region | None = None) -> Image:
        """Draw the whole image, or `region`; only what moved is traced, the rest is the background."""
        whole = (0, 0, self._width, self._height)
        x0, y0, x1, y1 = check_region(whole if region is None else region, self._width, self._height)
        image = self._background[y0:y1, x0:x1].copy()
        scene = self._posed(state, row)
        near = self._near(scene)
        changed = self._region(scene, near)
        a, b = max(x0, changed[0]), max(y0, changed[1])
        c, d = min(x1, changed[2]), min(y1, changed[3])
        if a < c and b < d:
            piece = np.empty((d - b, c - a, 3), np.uint8)
            self._trace(piece, a, b, scene, self._depth, self._ident, self._kept, near)
            image[b - y0 : d - y0, a - x0 : c - x0] = piece
        return image

    def traced(self, state: State, row: int) -> Image:
        """Draw the whole image with no use of the background: what `frame` must equal."""
        image = np.empty_like(self._background)
        kept = np.full_like(self._kept, -1.0)
        self._trace(image, 0, 0, self._posed(state, row), self._depth.copy(), self._ident.copy(), kept)
        return image

    def _posed(self, state: State, row: int) -> _Posed:
        prims = self._moving.place(state.pos[row], state.quat[row])
        rects = rectangles(self._camera, prims, self._light[5])
        groups = self._moving.groups(prims, rects, len(self._fixed.prims))
        return self._fixed.and_then(_Posed(self._moving.kinds, prims, rects, groups))

    def _trace(
        self, out: Image, x0: int, y0: int, scene: _Posed, depth: Array, ident: NDArray[np.int32], kept: Array,
        near: NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        """Draw all pixels of `out` anew, or with `near` those that the fixed ones' picture does not hold."""
        glass, casters = np.flatnonzero(scene.kinds[:, 3] > 0), np.empty(len(scene.prims), np.int64)
        shadow.casters_of(scene.prims, scene.groups, self._light, casters)
        kernels.trace(
            out, x0, y0, self._camera, scene.kinds, scene.prims, self._ink, scene.groups, scene.rects, len(self._fixed.groups),
            self._light, self._directions, depth, ident, self._background, kept, self._still if near is None else near,
            casters, np.zeros((kernels.SAMPLES, 8)), glass, np.zeros((kernels.SAMPLES, 2 * len(glass) + 1, 5)), np.empty(6),
            near is not None,
        )  # fmt: skip

    def _near(self, scene: _Posed) -> NDArray[np.int64]:
        """Return the groups that come into question in each tile: see `raster_kernels.near_tiles`."""
        near = self._still.copy()
        kernels.near_tiles(scene.groups, len(self._fixed.groups), self._light, self._tiles, near)
        return near

    def _region(self, scene: _Posed, near: NDArray[np.int64]) -> Region:
        """Return the pixels that what moves can cover or shade."""
        moving = scene.prims[len(self._fixed.prims) :]
        first = len(self._fixed.groups)
        x0, y0, x1, y1 = kernels.shadowed(
            self._camera, moving, scene.groups, first, near, moving.copy(), self._light, self._tiles, self._depth
        )
        return clip_region((int(x0), int(y0), int(x1), int(y1)), self._width, self._height)


def camera_row(camera: Camera) -> Array:
    """Return the camera as `raster_kernels` reads it."""
    right, down, forward = camera.axes()
    scale = camera.height / (2.0 * np.tan(camera.fov / 2.0) if camera.view_height is None else camera.view_height)
    flat = float(camera.view_height is not None)
    return np.concatenate([camera.position, right, down, forward, [scale, flat, camera.width, camera.height]])


def rectangles(camera: Array, prims: Array, unit: float) -> NDArray[np.int64]:
    """Return for each primitive the pixels (n, 4) that it can cover: its box's corners, projected. `unit` is a length [m]."""
    width, height = int(camera[14]), int(camera[15])
    signs = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], float)
    axes = prims[:, 3:12].reshape(-1, 3, 3)
    local = signs[None] * prims[:, None, 12:15]
    corners = prims[:, None, :3] + np.sum(axes[:, None] * local[:, :, None, :], axis=-1)
    offset = corners - camera[:3]
    right, down, forward = (np.sum(offset * camera[i : i + 3], axis=-1) for i in (3, 6, 9))
    rects = np.tile(np.array([0, 0, width, height], np.int64), (len(prims), 1))
    perspective = camera[13] == 0.0
    near = 1e-3 * unit
    safe = np.all(forward > near, axis=1) if perspective else np.ones(len(prims), bool)
    depth = np.where(forward > near, forward, near) if perspective else np.ones_like(forward)
    x = width / 2 + right / depth * camera[12]
    y = height / 2 + down / depth * camera[12]
    for column, value, size, grow in ((0, x, width, -1), (1, y, height, -1)):
        low, high = np.floor(value.min(axis=1)) + grow, np.ceil(value.max(axis=1)) - grow
        rects[:, column] = np.where(safe, np.clip(low, 0, size), rects[:, column])
        rects[:, column + 2] = np.where(safe, np.clip(high, 0, size), rects[:, column + 2])
    return rects
