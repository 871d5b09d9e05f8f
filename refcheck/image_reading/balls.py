"""Balls of several colours in a picture: how many of each there are. A ball that others hide is never guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np

from refcheck.image_reading.circles import circles, lab_of
from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from simulators.devices.draw_box import DrawBox
from simulators.world import Camera

COVERED = 0.9  # of a colour's pixels must lie on its balls
HUE = 0.45  # rad


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
        """Find circles of one size in each colour, and check that they cover all there is of it."""
        lab, height = lab_of(picture), picture.shape[0]
        patches = {name: _patch(lab, device.colors[name]) for name in device.facts}
        found = [one for one in circles(picture, 0.012 * height, 0.08 * height, 0.35)]
        named = []
        for _, centre, radius, share in found:
            inside = _disc(lab.shape[:2], centre, 0.85 * radius)
            shares = {name: float(patch[inside].mean()) if inside.any() else 0.0 for name, patch in patches.items()}
            name = max(shares, key=lambda key: shares[key])
            if shares[name] > 0.6:
                named.append((name, centre, radius, share))
        if not named:
            raise Unreadable(f"no ball that is {' or '.join(device.facts)} is seen")
        size = float(np.median([radius for _, _, radius, _ in named]))
        named = sorted((one for one in named if 0.7 < one[2] / size < 1.4), key=lambda one: -one[3])
        kept = list[tuple[str, Array, float]]()
        for name, centre, radius, _ in named:
            if all(np.hypot(*(centre - other)) > 0.45 * size for _, other, _ in kept):
                kept.append((name, centre, radius))
        for name, patch in patches.items():
            near = np.zeros(patch.shape, bool)
            for _, centre, _ in kept:
                near |= _disc(patch.shape, centre, 8.0 * size)
            wanted, cover = patch & near, np.zeros(patch.shape, bool)
            for other, centre, radius in kept:
                if other == name:
                    cover |= _disc(patch.shape, centre, 1.15 * radius)
            if wanted.sum() > 0.5 * np.pi * size**2 and (wanted & cover).sum() < COVERED * wanted.sum():
                raise Unreadable(
                    f"balls that are {name} hide each other: some of their colour belongs to no ball that is found"
                )
        if len(kept) != len(device.filling):  # one hidden, or a gloss taken for one: either way a count would be a guess
            raise Unreadable(f"{len(kept)} balls are seen, and the scene's box holds {len(device.filling)}")
        points = {name: np.array([c for n, c, _ in kept if n == name]).reshape(-1, 2) for name in device.facts}
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


def _patch(lab: Array, colour: tuple[float, float, float]) -> Array:
    """Return the pixels (H, W) of a colour's hue, as strong as it is behind glass."""
    _, a, b = cv2.cvtColor(np.array([[colour]], np.float32), cv2.COLOR_RGB2LAB)[0, 0]
    hue, chroma = np.arctan2(lab[..., 2], lab[..., 1]), np.hypot(lab[..., 1], lab[..., 2])
    return (np.abs(np.angle(np.exp(1j * (hue - np.arctan2(b, a))))) < HUE) & (chroma > 0.4 * float(np.hypot(a, b)))


def _disc(shape: tuple[int, ...], centre: Array, radius: float) -> Array:
    y, x = np.ogrid[: shape[0], : shape[1]]
    return np.asarray(np.hypot(x + 0.5 - centre[0], y + 0.5 - centre[1]) < radius)
