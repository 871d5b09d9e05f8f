"""Which body each pixel shows, how far it is and how much of a body is seen: by rays through pixel centres.

It is the same for every renderer, flat drawings included, and refuses to know colours, light and what any state is called.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulators.compiled import borrowing
from simulators.device import State
from simulators.render.marks import Ink
from simulators.render.primitives import Primitives, linear
from simulators.render.raster import camera_row, rectangles
from simulators.render.raster_kernels import ray
from simulators.render.raster_shapes import MISS, cast
from simulators.rotation import Array
from simulators.world import Body, Camera, World

Labels = NDArray[np.uint16]
Depths = NDArray[np.float32]


@borrowing
def _identify(camera, kinds, prims, groups, rects, owner, labels, depth, seen, covered, last):
    """Put the nearest opaque primitives' owners into `labels` (H, W) where they are nearer than `depth` (H, W) [m].

    `covered` counts, by owner, the pixels it would have alone; `seen` those that it has in the end. `last` (all -1) is room to
    work in: the last pixel counted for each owner.
    """
    for py in range(depth.shape[0]):
        for px in range(depth.shape[1]):
            ox, oy, oz, dx, dy, dz = ray(camera, px + 0.5, py + 0.5)
            along = dx * camera[9] + dy * camera[10] + dz * camera[11]
            nearest, who = depth[py, px], -1
            for g in range(len(groups)):
                if groups[g, 6] <= px < groups[g, 8] and groups[g, 7] <= py < groups[g, 9]:
                    for i in range(int(groups[g, 4]), int(groups[g, 5])):
                        if kinds[i, 3] == 0 and rects[i, 0] <= px < rects[i, 2] and rects[i, 1] <= py < rects[i, 3]:
                            t = cast(kinds, prims, i, ox, oy, oz, dx, dy, dz)
                            if t < MISS:
                                body = owner[i]
                                if last[body] != py * depth.shape[1] + px:
                                    last[body] = py * depth.shape[1] + px
                                    covered[body] += 1
                                if t * along < nearest:
                                    nearest, who = t * along, body
            if who >= 0:
                depth[py, px], labels[py, px] = nearest, who
                seen[who] += 1


class Segmenter:
    """A world before a camera, prepared: what is fixed is cast once.

    Labels: 0 is nothing, k + 1 is body number k of `world.bodies`. Glass (`opacity` below 1) hides nothing and is not labelled:
    what is behind it is.
    """

    def __init__(self, world: World, camera: Camera) -> None:
        self._camera, self._unit = camera_row(camera), world.scale
        number = {body.name: k + 1 for k, body in enumerate(world.bodies)}
        self._moving, self._owner = self._primitives(world.moving, number, still=False)
        self._bodies = np.array([number[body.name] for body in world.moving], np.int64)
        self._count = len(world.bodies) + 1
        fixed, owner = self._primitives(world.fixed, number, still=True)
        self._labels = np.zeros((camera.height, camera.width), np.uint16)
        self._depth = np.full((camera.height, camera.width), np.inf)
        pos = np.array([body.position for body in world.fixed], float).reshape(-1, 3)
        quat = np.array([body.quaternion for body in world.fixed], float).reshape(-1, 4)
        self._cast(fixed, owner, pos, quat, self._labels, self._depth)

    @staticmethod
    def _primitives(bodies: Sequence[Body], number: dict[str, int], *, still: bool) -> tuple[Primitives, NDArray[np.int64]]:
        made = Primitives(bodies, Ink(linear), still=still)
        return made, np.array([number[bodies[k].name] for k in made.owner], np.int64)

    def _cast(
        self, made: Primitives, owner: NDArray[np.int64], pos: Array, quat: Array, labels: Labels, depth: Array
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        seen, covered = np.zeros(self._count, np.int64), np.zeros(self._count, np.int64)
        prims = made.place(pos, quat)
        rects = rectangles(self._camera, prims, self._unit)
        groups, last = made.groups(prims, rects), np.full(self._count, -1, np.int64)
        _identify(self._camera, made.kinds, prims, groups, rects, owner, labels, depth, seen, covered, last)
        return seen, covered

    def _of(self, state: State, row: int) -> tuple[Labels, Array, NDArray[np.int64], NDArray[np.int64]]:
        labels, depth = self._labels.copy(), self._depth.copy()
        seen, covered = self._cast(self._moving, self._owner, state.pos[row], state.quat[row], labels, depth)
        return labels, depth, seen[self._bodies], covered[self._bodies]

    def masks(self, state: State, row: int) -> tuple[Labels, Depths]:
        """Return the label of each pixel (H, W) and the distance along the look [m] of what it shows (inf where nothing)."""
        labels, depth, *_ = self._of(state, row)
        return labels, depth.astype(np.float32)

    def seen(self, state: State, row: int) -> tuple[NDArray[np.int64], Array]:
        """Return of each moving body (b,) the pixels that show it, and their share of those it would cover alone.

        A body outside the picture has no pixels and share 0. Of a glass body nothing counts as seen.
        """
        *_, seen, covered = self._of(state, row)
        return seen, seen / np.maximum(covered, 1)


def write_masks(path: Path, segmenter: Segmenter, trajectory: State, rows: Sequence[int]) -> None:
    """Write `segmentation` (n, H, W) uint16 and `depth` (n, H, W) float32 [m] of some rows to an .npz, frame by frame.

    One frame is held at a time, however long the clip.
    """
    with zipfile.ZipFile(path, "w") as archive:
        chosen: tuple[tuple[str, type, Callable[[int], NDArray]], ...] = (
            ("segmentation", np.uint16, lambda row: segmenter.masks(trajectory, row)[0]),
            ("depth", np.float32, lambda row: segmenter.masks(trajectory, row)[1]),
        )
        for name, kind, of in chosen:
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, so that the bytes are the same in every run
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                shape = (len(rows), *of(rows[0]).shape)
                described = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, described)
                image: NDArray[Any] = np.zeros(0, kind)
                before = -1
                for row in rows:
                    if row != before:
                        image, before = of(row), row
                    file.write(np.ascontiguousarray(image).tobytes())
