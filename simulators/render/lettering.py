"""Letters, digits, suits and marks as strokes and filled outlines: one font for every renderer and every machine.

It refuses to draw, and to know what is written. A capital is 1 high; a line of text is centred about (0, 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from simulators.rotation import Array

STROKE = 0.085  # half the width of a line: a bold face, readable when small
GAP = 0.17  # between two glyphs
SPACE = 0.36
Point = tuple[float, float]


@dataclass(frozen=True)
class Outline:
    """A line through `points` (n, 2), `radius` to either side; filled, and without width, where `radius` is below 0."""

    points: Array
    radius: float = STROKE


@dataclass(frozen=True)
class Glyph:
    """One character: its outlines about its own middle (0, 0), and how wide it is, strokes included."""

    outlines: tuple[Outline, ...]
    width: float


@dataclass(frozen=True)
class Placed:
    """A character at `x` of a line of text."""

    character: str
    glyph: Glyph
    x: float


def _arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> list[Point]:
    """Return an arc from `start` to `end` [degrees, counterclockwise from +x] in steps of at most 18."""
    turns = np.radians(np.linspace(start, end, max(2, math.ceil(abs(end - start) / 18.0) + 1)))
    return [(x + rx * math.cos(t), y + ry * math.sin(t)) for t in turns]


# drawn on a grid 6 high; a list of points is one line
_NINE = [_arc(2, 4.1, 2, 1.9, 0, 360), _arc(0.6, 4.1, 3.4, 4.1, 0, -85)]
_LINES: dict[str, list[list[Point]]] = {
    "0": [_arc(2, 3, 2, 3, 0, 360)],
    "1": [[(0.5, 4.5), (2, 6), (2, 0)], [(0.6, 0), (3.4, 0)]],
    "2": [[*_arc(2, 4.1, 1.95, 1.9, 165, -38), (0, 0), (4, 0)]],
    "3": [[*_arc(1.9, 4.45, 1.75, 1.55, 150, -90), *_arc(1.9, 1.5, 2.0, 1.5, 90, -150)]],
    "4": [[(3, 0), (3, 6), (0, 1.7), (4.2, 1.7)]],
    "5": [[(3.7, 6), (0.7, 6), (0.35, 3.1), *_arc(1.85, 1.95, 2.05, 1.95, 125, -148)]],
    "6": [[(4 - x, 6 - y) for x, y in line] for line in _NINE],
    "7": [[(0, 6), (4, 6), (1.4, 0)]],
    "8": [_arc(2, 4.55, 1.65, 1.45, 0, 360), _arc(2, 1.55, 2, 1.55, 0, 360)],
    "9": _NINE,
    "A": [[(0, 0), (2.2, 6), (4.4, 0)], [(0.8, 2), (3.6, 2)]],
    "B": [[(0, 3.1), (0, 6), *_arc(2, 4.55, 1.6, 1.45, 90, -90), (0, 3.1), (0, 0), *_arc(2.1, 1.55, 1.9, 1.55, -90, 90)]],
    "C": [_arc(2.3, 3, 2.3, 3, 48, 312)],
    "D": [[(0, 0), (0, 6), *_arc(1.5, 3, 2.6, 3, 90, -90), (0, 0)]],
    "E": [[(3.4, 6), (0, 6), (0, 0), (3.4, 0)], [(0, 3.1), (2.9, 3.1)]],
    "F": [[(3.4, 6), (0, 6), (0, 0)], [(0, 3.1), (2.9, 3.1)]],
    "G": [[*_arc(2.3, 3, 2.3, 3, 48, 345), (4.4, 2.8), (2.7, 2.8)]],
    "H": [[(0, 0), (0, 6)], [(4, 0), (4, 6)], [(0, 3.1), (4, 3.1)]],
    "I": [[(0, 0), (0, 6)]],
    "J": [[(3.4, 6), *_arc(1.7, 1.8, 1.7, 1.8, 0, -165)]],
    "K": [[(0, 0), (0, 6)], [(3.9, 6), (0, 2.2)], [(1.5, 3.6), (4.1, 0)]],
    "L": [[(0, 6), (0, 0), (3.3, 0)]],
    "M": [[(0, 0), (0, 6), (2.5, 1.8), (5, 6), (5, 0)]],
    "N": [[(0, 0), (0, 6), (4, 0), (4, 6)]],
    "O": [_arc(2.4, 3, 2.4, 3, 0, 360)],
    "P": [[(0, 0), (0, 6), *_arc(2.1, 4.4, 1.7, 1.6, 90, -90), (0, 2.8)]],
    "Q": [_arc(2.4, 3, 2.4, 3, 0, 360), [(2.9, 1.6), (4.7, -0.3)]],
    "R": [[(0, 0), (0, 6), *_arc(2.1, 4.4, 1.7, 1.6, 90, -90), (0, 2.8)], [(2, 2.8), (4, 0)]],
    "S": [[*_arc(2, 4.5, 1.85, 1.5, 35, 270), *_arc(2, 1.5, 2, 1.5, 90, -150)]],
    "T": [[(0, 6), (4.2, 6)], [(2.1, 6), (2.1, 0)]],
    "U": [[(0, 6), *_arc(2, 2, 2, 2, 180, 360), (4, 6)]],
    "V": [[(0, 6), (2.1, 0), (4.2, 6)]],
    "W": [[(0, 6), (1.4, 0), (3, 5), (4.6, 0), (6, 6)]],
    "X": [[(0, 0), (4, 6)], [(0, 6), (4, 0)]],
    "Y": [[(0, 6), (2.1, 3), (4.2, 6)], [(2.1, 3), (2.1, 0)]],
    "Z": [[(0, 6), (4, 6), (0, 0), (4, 0)]],
    "-": [[(0, 2.9), (2.4, 2.9)]],
    "+": [[(0, 2.9), (3.4, 2.9)], [(1.7, 1.2), (1.7, 4.6)]],
    "=": [[(0, 2), (3.2, 2)], [(0, 4), (3.2, 4)]],
    ".": [[(0, 0), (0.01, 0)]],
    ",": [[(0.3, 0), (0, -1)]],
    ":": [[(0, 0.8), (0.01, 0.8)], [(0, 3.8), (0.01, 3.8)]],
    "!": [[(0, 6), (0, 2)], [(0, 0), (0.01, 0)]],
    "?": [[*_arc(1.8, 4.4, 1.8, 1.6, 165, -60), (1.8, 2.4), (1.8, 1.8)], [(1.8, 0), (1.81, 0)]],
    "'": [[(0, 6), (0, 4.6)]],
    "/": [[(0, -0.3), (2.6, 6.3)]],
    "%": [_arc(0.9, 4.9, 0.9, 1.1, 0, 360), _arc(4.1, 1.1, 0.9, 1.1, 0, 360), [(0.6, 0), (4.4, 6)]],
    "#": [[(0.9, 0), (1.6, 6)], [(2.8, 0), (3.5, 6)], [(0, 2), (4.2, 2)], [(0.2, 4), (4.4, 4)]],
    "$": [[*_arc(2, 4.5, 1.85, 1.5, 35, 270), *_arc(2, 1.5, 2, 1.5, 90, -150)], [(2, -0.8), (2, 6.8)]],
    "(": [_arc(2, 3, 2, 3.9, 120, 240)],
    ")": [_arc(0, 3, 2, 3.9, 60, -60)],
    "<": [[(3.4, 5), (0, 3), (3.4, 1)]],
    ">": [[(0, 5), (3.4, 3), (0, 1)]],
    "→": [[(0, 3), (5, 3)], [(3, 5), (5, 3), (3, 1)]],
    "←": [[(5, 3), (0, 3)], [(2, 5), (0, 3), (2, 1)]],
    "↑": [[(2, 0), (2, 6)], [(0, 4), (2, 6), (4, 4)]],
    "↓": [[(2, 6), (2, 0)], [(0, 2), (2, 0), (4, 2)]],
}  # fmt: skip


def _heart(up: float) -> Array:
    t = np.linspace(0.0, 2.0 * np.pi, 41)[:-1]
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([16 * np.sin(t) ** 3, up * (y + 2.5)], axis=-1) / 29.0


def _ring(x: float, y: float, r: float) -> Array:
    return np.array(_arc(x, y, r, r, 0.0, 345.0))


def _diamond() -> Array:
    t = np.linspace(0.0, 1.0, 7)
    side = np.stack([0.39 * (1 - t) ** 1.15, 0.55 * t**1.15], axis=-1)  # hollowed
    upper = np.concatenate([side, side[-2:0:-1] * (-1, 1)])
    return np.concatenate([upper, -upper])


_STEM = np.array([(0.04, 0.0), (0.07, -0.25), (0.2, -0.5), (-0.2, -0.5), (-0.07, -0.25), (-0.04, 0.0)])
_FILLED = {
    "♥": (_heart(1.0),),
    "♦": (_diamond(),),
    "♠": (_heart(-1.0) * (0.98, 0.9) + (0, 0.05), _STEM),
    "♣": (_ring(0, 0.26, 0.23), _ring(-0.25, -0.1, 0.23), _ring(0.25, -0.1, 0.23), _ring(0, 0, 0.12), _STEM),
}
SUITS = {"S": "♠", "H": "♥", "D": "♦", "C": "♣"}


@cache
def glyph(character: str) -> Glyph:
    """Return a character's glyph; small letters are capitals. Raises `ValueError` for one that the font has not."""
    character = character.upper()
    if character in _FILLED:
        return Glyph(tuple(Outline(points, -1.0) for points in _FILLED[character]), 1.0)
    if character not in _LINES:
        raise ValueError(f"a label cannot hold {character!r}; it can hold {''.join([*_LINES, *_FILLED])} and spaces")
    lines = [np.array(line) / 6.0 * (1 - 2 * STROKE) for line in _LINES[character]]
    left, right = min(line[:, 0].min() for line in lines), max(line[:, 0].max() for line in lines)
    middle = ((left + right) / 2.0, 0.5 - STROKE)
    return Glyph(tuple(Outline(line - middle) for line in lines), float(right - left) + 2 * STROKE)


def upside_down(label: str) -> bool:
    """Say whether a number reads as another one when turned by half: it is underlined then, as on lottery balls."""
    turned = label[::-1].translate(str.maketrans("69", "96"))
    return label.isdecimal() and set(label) <= set("01689") and turned != label and turned[0] != "0"


def layout(label: str) -> tuple[tuple[Placed, ...], float]:
    """Return the glyphs of one line of text and how wide it is [capital heights]."""
    placed, x = [], 0.0
    for character in label:
        if character == " ":
            x += SPACE
            continue
        one = glyph(character)
        placed.append((character, one, x + one.width / 2.0))
        x += one.width + GAP
    width = max(x - GAP, 0.0)
    return tuple(Placed(character, one, at - width / 2.0) for character, one, at in placed), width
