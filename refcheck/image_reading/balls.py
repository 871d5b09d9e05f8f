"""Balls of several colours in a picture: how many of each there are. A ball that others hide is never guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np
from scipy.ndimage import maximum_filter

from refcheck.image_reading.circles import lab_of
from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from simulators.devices.draw_box import DrawBox
from simulators.world import Camera

COVERED = 0.9  # of a colour's pixels must lie on its balls
HUE, STRENGTH = 0.33, 0.25  # how far [rad] a pixel's hue is from a ball's, and the least chroma: a quarter is left behind glass
SMALLEST, LARGEST = 0.010, 0.08  # of the picture's height: a ball's radius
NEAR = 12.0  # radii: how far from one another the balls of a box are
FINE = 40.0  # px: the radius at which balls are looked at
WITHIN = 0.8
GLEAM = 0.2  # of a radius squared: the largest hole in a ball's colour; what four balls leave free between them is larger


class BallsKind:
    """Counts by name, the names being colours."""

    title = "balls"
    units: Mapping[str, str] = {"counts": "balls"}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return nothing: balls are counted."""
        return {}

    def marks(self, device: DrawBox) -> Mapping[str, Mark]:
        """Return the points of the balls, by name."""
        return {name: Mark(f"the middle of every ball that is {name}", 0, 300) for name in device.facts}

    def expected(self, device: DrawBox, camera: Camera) -> Marks:
        """Return where the balls lie, by name."""
        world = device.world()
        pos, _ = world.poses(0.0)
        loose = [world.moving[i] for i in world.loose]
        at = camera.project(pos[list(world.loose)])
        points = {name: at[[i for i, filled in enumerate(device.filling) if filled == name]] for name in device.facts}
        if len(loose) != len(device.filling):
            raise Unreadable("the device moves more than its balls")
        return Marks(points, dict.fromkeys(points, 1.0))

    def find(self, picture: Picture, device: DrawBox) -> Marks:
        """Find the largest circles within each colour's patches, and check that they cover all there is of it.

        Balls of one colour that touch or hide a part of one another make one patch, and are its widest places.
        """
        height, f = picture.shape[0], list[Array]()
        lab = lab_of(picture)
        for name in device.facts:
            at, radius = _inscribed(_filled(_patch(lab, device.colors[name]), 0.0002 * height**2), SMALLEST * height)
            f.append(np.column_stack([at, radius])[radius < LARGEST * height])
        seen = np.concatenate(f)
        if not len(seen):
            raise Unreadable(f"no ball that is {' or '.join(device.facts)} is seen")
        # Of all such circles in the picture, a shirt's and a table's too, the most that are of one size and together.
        together = [
            (np.hypot(*(seen[:, :2] - one[:2]).T) < NEAR * one[2]) & (np.abs(np.log(seen[:, 2] / one[2])) < 0.25)
            for one in seen
        ]
        heap = seen[max(together, key=lambda near: int(near.sum()))]
        size, low = float(np.median(heap[:, 2])), np.maximum(heap[:, :2].min(0) - 4.0 * heap[:, 2].max(), 0.0).astype(int)
        high = (heap[:, :2].max(0) + 4.0 * heap[:, 2].max()).astype(int)
        zoom = max(2, round(FINE / size))
        crop = picture[low[1] : high[1], low[0] : high[0]]
        lab = lab_of(cv2.resize(crop, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_CUBIC)).astype(np.float32)
        lab, size = cv2.GaussianBlur(lab, (0, 0), 0.5 * zoom).astype(float), zoom * size
        pale = lab[np.hypot(lab[..., 1], lab[..., 2]) < 20.0]
        grey = np.median(pale[:, 1:], axis=0) if len(pale) else np.zeros(2)
        points = {}
        for name in device.facts:
            patch = _filled(_patch(lab, device.colors[name], grey), GLEAM * size**2)
            at, _ = _inscribed(patch, 0.6 * size)
            cover = np.zeros(patch.shape, np.uint8)
            for x, y in at.astype(int):
                cv2.circle(cover, (int(x), int(y)), int(1.2 * size), 1, -1)
            if patch.sum() > 0.5 * np.pi * size**2 and (patch & (cover > 0)).sum() < COVERED * patch.sum():
                raise Unreadable(
                    f"balls that are {name} hide each other: some of their colour belongs to no ball that is found"
                )
            points[name] = at / zoom + low
        count = sum(len(at) for at in points.values())
        if count != len(device.filling):  # one hidden, or a gloss taken for one: either way a count would be a guess
            raise Unreadable(f"{count} balls are seen, and the scene's box holds {len(device.filling)}")
        return Marks(points, dict.fromkeys(points, 1.0))

    def values(self, marks: Marks, device: DrawBox) -> Values:
        """Return the counts."""
        return {"counts": ", ".join(f"{len(marks.points.get(name, ()))} {name}" for name in device.facts)}

    def of_device(self, device: DrawBox) -> Values:
        """Return the counts as configured."""
        held = Counter(device.filling)
        return {"counts": ", ".join(f"{held[name]} {name}" for name in device.facts)}

    def put(self, device: DrawBox, values: Values) -> DrawBox:
        """Return a box so filled: as the device's where that has the same counts, else by changing as few names as can be."""
        wanted = {word.split()[1]: int(word.split()[0]) for word in values["counts"].split(", ")}
        filling, spare = list[str](), Counter(wanted)
        for name in device.filling:
            if spare[name]:
                spare[name] -= 1
                filling.append(name)
            else:
                filling.append("")
        rest = list(spare.elements())
        filling = [name or (rest.pop() if rest else "") for name in filling]
        return replace(device, filling=tuple(name for name in (*filling, *rest) if name))


def _patch(lab: Array, colour: tuple[float, float, float], grey: Array | tuple[float, float] = (0.0, 0.0)) -> Array:
    """Return the pixels (H, W) of a colour's hue, as strong as it is behind glass; what is `grey` (a, b) has no hue.

    Glass mixes what is behind it with its own tint, so that hue is counted about what clear things look like there.
    """
    _, a, b = cv2.cvtColor(np.array([[colour]], np.float32), cv2.COLOR_RGB2LAB)[0, 0] - np.array([0.0, *grey])
    across, along = lab[..., 1] - grey[0], lab[..., 2] - grey[1]
    turn = np.arctan2(along, across) - np.arctan2(b, a)
    return (np.abs(np.angle(np.exp(1j * turn))) < HUE) & (np.hypot(across, along) > STRENGTH * float(np.hypot(a, b)))


def _filled(patch: Array, most: float) -> Array:
    """Return `patch` (H, W) with its holes of less than `most` pixels filled: gleams."""
    _, parts, stats, _ = cv2.connectedComponentsWithStats((~patch).astype(np.uint8), connectivity=4)
    small = stats[:, cv2.CC_STAT_AREA] < most
    small[0] = False
    return np.asarray(patch | small[parts])


def _inscribed(patch: Array, least: float) -> tuple[Array, Array]:
    """Return centres (n, 2) and radii (n,) of circles within `patch` (H, W) that are larger than their neighbours.

    Of two whose centres are nearer than .9 of the larger radius the larger stays, and none that lies for `WITHIN` of it in
    larger ones: the waist between two balls is no third. None is below `least` [px].
    """
    inside = cv2.distanceTransform(np.pad(patch, 1).astype(np.uint8), cv2.DIST_L2, 5)[1:-1, 1:-1]
    y, x = np.nonzero((inside == maximum_filter(inside, size=3)) & (inside > least))
    at, radius, kept = np.column_stack([x, y]) + 0.5, inside[y, x], list[int]()
    turn, share = np.arange(64) * 2.4, np.sqrt((np.arange(64) + 0.5) / 64.0)  # a sunflower fills a disc evenly
    disc = np.column_stack([share * np.cos(turn), share * np.sin(turn)])
    for i in np.argsort(-radius, kind="stable"):
        apart = np.linalg.norm(at[i] - at[kept], axis=1)
        far = np.linalg.norm(at[i] + radius[i] * disc[:, None] - at[kept], axis=2)
        if np.all(apart > 0.9 * radius[kept]) and np.mean(np.any(far < radius[kept], axis=1)) < WITHIN:
            kept.append(int(i))
    return at[kept].reshape(-1, 2), radius[kept]
