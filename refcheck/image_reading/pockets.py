"""A roulette wheel in a picture: the colour of every pocket, in order around the rotor. It refuses to know which one pays."""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np
from numpy.typing import NDArray

from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from refcheck.image_reading.shapes import mapped, to_unit_disc
from refcheck.image_reading.wheel import labels, rim_of
from simulators.devices.roulette import COLORS, FELT, MAHOGANY, WALNUT, Roulette
from simulators.world import Camera

TURN = 1480  # places on a ring
RINGS = np.linspace(0.70, 0.97, 10)  # of the coloured ring's outer radius
PLAIN = 0.6  # of what is seen of a pocket must have its colour


class PocketsKind:
    """Each pocket's colour, clockwise from the device's first. How wide they are is not measured: frets are made alike."""

    title = "roulette wheel"
    units: Mapping[str, str] = {"colors": ""}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return nothing: a pocket has one colour or another."""
        return {}

    def marks(self, device: Roulette) -> Mapping[str, Mark]:
        """Return a word for each pocket."""
        known = tuple(dict.fromkeys(device.colors))
        words = {_word(name): Mark(f"the colour of pocket {name}, in clockwise order", words=known) for name in device.pockets}
        return {"rim": Mark("leave out, or points on the outer edge of the coloured ring", 0, 400), **words}

    def expected(self, device: Roulette, camera: Camera) -> Marks:
        """Return the colours as configured."""
        return Marks({}, {}, dict(zip(map(_word, device.pockets), device.colors, strict=True)))

    def find(self, picture: Picture, device: Roulette) -> Marks:
        """Find the coloured ring, see it square-on, and cut it into equal parts where its colours fit best.

        The order begins where it agrees best with the device's: which pocket is the first is not to be seen by its colour.
        """
        names = list(dict.fromkeys(device.colors))
        # What looks most like the wood or the felt around the ring is that, however red or green; noise is smoothed away.
        around = {"bowl": MAHOGANY.color, "rotor": WALNUT.color, "table": FELT.color}
        label = labels(cv2.medianBlur(picture, 5), {name: COLORS[name] for name in names} | around)
        label = np.where(label < len(names), label, -1.0)
        gap = np.ones((picture.shape[0] // 40,) * 2, np.uint8)  # frets and numbers part the ring
        rim = rim_of(cv2.morphologyEx(_inside(label >= 0).astype(np.uint8), cv2.MORPH_CLOSE, gap) > 0)
        (cx, cy), size, _ = cv2.fitEllipseDirect(rim.astype(np.float32)[:, None])
        # A circle's middle is seen beside its ellipse's: where equal parts fit the colours best. First roughly, then nearby.
        middle, cells = np.array([cx, cy]), np.empty((0, 0))
        for reach in (0.05, 0.015):
            steps = reach * min(size) / 2.0 * np.linspace(-1.0, 1.0, 5)
            tried = [middle + np.array([x, y]) for x in steps for y in steps]
            counted = [_cells(_votes(label, rim, at, len(names)), len(device.pockets)) for at in tried]
            best = int(np.argmax([one.max(0).sum() for one in counted]))
            middle, cells = tried[best], counted[best]
        share = cells.max(0) / np.maximum(cells.sum(0), 1)
        if share.min() < PLAIN or cells.sum(0).min() < 0.35 * RINGS.size * TURN / len(device.pockets):
            raise Unreadable(f"not every pocket's colour is plain: of one only {share.min():.2f} has one colour")
        found = [names[i] for i in cells.argmax(0)]
        turned = [found[k:] + found[:k] for k in range(len(found))]
        alike = [sum(a == b for a, b in zip(one, device.colors, strict=True)) for one in turned]
        words = dict(zip(map(_word, device.pockets), turned[int(np.argmax(alike))], strict=True))
        return Marks({"rim": rim[:: max(1, len(rim) // 200)]}, {"rim": 0.7}, words)

    def values(self, marks: Marks, device: Roulette) -> Values:
        """Return the colours in words, clockwise."""
        return {"colors": ", ".join(marks.words[_word(name)] for name in device.pockets)}

    def of_device(self, device: Roulette) -> Values:
        """Return the colours as configured."""
        return {"colors": ", ".join(device.colors)}

    def put(self, device: Roulette, values: Values) -> Roulette:
        """Return the device as it is: other paint is the same body with other labels (`relabel`)."""
        return device

    def relabel(self, device: Roulette, values: Values) -> NDArray[np.int64]:
        """Return for each pocket the first of the device's that has the colour it has in the picture; itself where alike."""
        painted = values["colors"].split(", ")
        own = list(device.colors)
        return np.array([i if own[i] == color else own.index(color) for i, color in enumerate(painted)], np.int64)


def _word(pocket: str) -> str:
    return f"pocket_{pocket}"


def _inside(mask: Array) -> Array:
    """Return a mask (H, W) without the parts that touch the picture's border: a table may have a pocket's colour."""
    _, parts = cv2.connectedComponents(mask.astype(np.uint8))
    border = np.unique(np.concatenate([parts[0], parts[-1], parts[:, 0], parts[:, -1]]))
    return mask & ~np.isin(parts, border)


def _votes(label: Array, rim: Array, middle: Array, colors: int) -> Array:
    """Return how many rings (`colors`, TURN) show each colour in each direction, clockwise, the ring being seen square-on."""
    back = np.linalg.inv(to_unit_disc(rim, middle))
    angle = 2.0 * np.pi * (np.arange(TURN) + 0.5) / TURN
    spoke = np.stack([np.cos(angle), np.sin(angle)], -1)  # clockwise: a picture's rows go down
    at = mapped(back, (RINGS[:, None, None] * spoke).reshape(-1, 2)).astype(int)
    x, y = np.clip(at, 0, np.array(label.shape[::-1]) - 1).T
    seen = label[y, x].reshape(RINGS.size, TURN)
    return np.stack([(seen == i).sum(0) for i in range(colors)])


def _cells(votes: Array, count: int) -> Array:
    """Return the votes (colours, `count`) within each of the equal parts, begun where they are of one colour the most."""
    each = TURN / count
    best, most = votes[:, :count], -1.0
    for start in np.arange(0.0, each, each / 24.0):
        cell = (np.floor((np.arange(TURN) - start) / each) % count).astype(int)
        cells = np.stack([np.bincount(cell, weights=row, minlength=count) for row in votes])
        if cells.max(0).sum() > most:
            best, most = cells, float(cells.max(0).sum())
    return best
