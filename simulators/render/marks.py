"""What is written and painted on a part: coloured sectors with labels, numbers on balls, card faces, signs.

`Ink` lays labels and colours out as numbers; the compiled functions evaluate them at a surface point, edges softened over a
pixel's footprint so that nothing shimmers. It refuses to know bodies, cameras and light. Colours are linear.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from simulators.compiled import borrowing
from simulators.render.lettering import SUITS, glyph, layout, upside_down
from simulators.rotation import Array
from simulators.world import Box, Cylinder, Lathe, Part, Sphere

SPOT = 0.72  # rad, angular radius of a ball's white spots
WHITE, BLACK = (0.86, 0.86, 0.84), (0.012, 0.012, 0.015)
_RED = (0.56, 0.010, 0.018)
_CARD = re.compile(r"(10|[2-9AJQK])([SHDC])")
_SHAPES = {"sectors": (Cylinder, Lathe), "number": (Sphere,), "card": (Box,), "sign": (Box,)}


class Ink:
    """Labels and colours of many materials in one array of numbers; `add` returns where a part's begin, or -1 for none."""

    def __init__(self, linear: Callable[[tuple[float, ...]], Array]) -> None:
        self._linear = linear
        self._numbers: list[float] = []
        self._glyphs: dict[str, int] = {}

    def numbers(self) -> Array:
        """Return everything added so far (n,); at least one number."""
        return np.array([*self._numbers, 0.0])

    def add(self, part: Part) -> int:
        """Lay out a part's marks. Raises `ValueError` where its shape or its material cannot carry them."""
        texture = part.material.texture
        if texture not in _SHAPES:
            return -1
        if not isinstance(part.shape, _SHAPES[texture]):
            allowed = " or ".join(one.__name__ for one in _SHAPES[texture])
            raise ValueError(f"texture {texture!r} is for a {allowed}, got a {type(part.shape).__name__}")
        if texture == "sectors":
            return self._sectors(part)
        if texture == "number":
            return self._text(part.material.label, upside_down(part.material.label))
        if texture == "card":
            return self._card(part.material.label)
        return self._sign(part)

    def _append(self, *numbers: float) -> int:
        self._numbers += numbers
        return len(self._numbers) - len(numbers)

    def _glyph(self, character: str) -> int:
        """Lay out a character once: how many outlines, then for each its points' number, radius, and the points."""
        if character not in self._glyphs:
            one = glyph(character)
            self._glyphs[character] = self._append(float(len(one.outlines)))
            for outline in one.outlines:
                self._append(float(len(outline.points)), outline.radius, *outline.points.ravel().tolist())
        return self._glyphs[character]

    def _text(self, label: str, underlined: bool = False) -> int:
        """Lay out a line of text: glyphs, width, underlined or not, then for each glyph its middle, half width and place."""
        line, width = layout(label)
        parts = [(at.x, at.glyph.width / 2.0, float(self._glyph(at.character))) for at in line]
        return self._append(float(len(line)), width, float(underlined), *(number for part in parts for number in part))

    def _sectors(self, part: Part) -> int:
        material, shape = part.material, part.shape
        total = sum(sector.share for sector in material.sectors)
        if abs(total - 1.0) > 1e-9 or min(sector.share for sector in material.sectors) <= 0.0:
            raise ValueError(f"the shares of `sectors` must be above 0 and sum to 1, got {total:g}")
        radius = shape.radius if isinstance(shape, Cylinder) else max(r for r, _ in shape.profile)  # type: ignore[union-attr]
        low, high = (0.0, radius) if material.band is None else material.band
        if not 0.0 <= low < high:
            raise ValueError(f"`band` must be two radii, the smaller first, got {material.band}")
        # where the disc is coloured to its middle, labels stand near its rim
        inner, outer = max(low, 0.55 * high), high if material.band is not None else 0.96 * high
        texts = [self._text(sector.label) if sector.label else -1 for sector in material.sectors]
        end, rows = 0.0, []
        chords = [2.0 * (0.8 * inner + 0.2 * outer) * math.sin(math.pi * min(sector.share, 0.5)) for sector in material.sectors]
        widths = [self._numbers[text + 1] if text >= 0 else 1.0 for text in texts]
        heights = [min(0.62 * (outer - inner), 0.80 * chord / width) for chord, width in zip(chords, widths, strict=True)]
        least = min([height for height, text in zip(heights, texts, strict=True) if text >= 0], default=1.0)
        for sector, text, own in zip(material.sectors, texts, heights, strict=True):
            end += sector.share
            height = min(own, 1.4 * least)  # much alike all around
            color = self._linear(sector.color)
            bright = float(color @ (0.2126, 0.7152, 0.0722))  # white letters on a dark sector: the larger contrast
            rows.append((end, *color, float(text), height, float(bright < 0.18)))
        return self._append(low, high, (inner + outer) / 2.0, float(len(rows)), *(number for row in rows for number in row))

    def _card(self, label: str) -> int:
        """Lay out a card: red or black, rank, suit (-1: a plain label)."""
        match = _CARD.fullmatch(label)
        if match is None:
            return self._append(0.0, float(self._text(label)), -1.0)
        rank, suit = match.groups()
        return self._append(float(suit in "HD"), float(self._text(rank)), float(self._text(SUITS[suit])))

    def _sign(self, part: Part) -> int:
        """Lay out a sign: the height of its letters [m], how many lines, each line's text."""
        if not isinstance(part.shape, Box):
            raise ValueError("a sign is a Box")
        lines = [self._text(line) for line in part.material.label.split("\n")]
        wide, high = part.shape.size[0], part.shape.size[2]
        frame = 0.18 * min(wide, high)
        widest = max([self._numbers[line + 1] for line in lines] + [0.5])
        height = min((high - 2.0 * frame) / (1.5 * len(lines) - 0.5), (wide - 2.0 * frame) / widest)
        return self._append(height, float(len(lines)), *(float(line) for line in lines))


@borrowing
def _cover(distance, footprint):
    """Return the share of a pixel inside an edge at a signed distance."""
    return min(max(0.5 - distance / footprint, 0.0), 1.0)


@borrowing
def _glyph_distance(ink, at, u, v):
    """Return the signed distance to a glyph [capital heights]."""
    best = 9.0
    outlines, at = int(ink[at]), at + 1
    for _ in range(outlines):
        count, radius = int(ink[at]), ink[at + 1]
        at += 2
        near, inside = 81.0, False
        filled = radius < 0.0
        for k in range(count if filled else count - 1):
            a, b = at + 2 * k, at + 2 * ((k + 1) % count)
            px, py, dx, dy = u - ink[a], v - ink[a + 1], ink[b] - ink[a], ink[b + 1] - ink[a + 1]
            t = min(max((px * dx + py * dy) / (dx * dx + dy * dy), 0.0), 1.0)
            near = min(near, (px - t * dx) ** 2 + (py - t * dy) ** 2)
            if filled and (ink[a + 1] > v) != (ink[b + 1] > v) and px < py * dx / dy:
                inside = not inside
        near = math.sqrt(near)
        best = min(best, (-near if inside else near) if filled else near - radius)
        at += 2 * count
    return best


@borrowing
def text_distance(ink, at, u, v):
    """Return the signed distance to a line of text centred about (0, 0) [capital heights]."""
    best = 9.0
    if abs(v) > 1.0 or abs(u) > 0.5 * ink[at + 1] + 0.3:
        return best
    for k in range(int(ink[at])):
        x, half = ink[at + 3 + 3 * k], ink[at + 4 + 3 * k]
        if abs(u - x) < half + 0.3:
            best = min(best, _glyph_distance(ink, int(ink[at + 5 + 3 * k]), u - x, v))
    if ink[at + 2] > 0.0:
        best = min(best, max(abs(u) - 0.5 * ink[at + 1], abs(v + 0.78) - 0.11))
    return best


@borrowing
def _mix(a, b, share):
    return a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]), a[2] + share * (b[2] - a[2])


@borrowing
def sectors(ink, at, base, x, y, footprint):
    """Return the colour of a disc or lathe with sectors at (x, y) [m] from its axis; `base` outside of the band."""
    rho = math.hypot(x, y)
    low, high, middle, count = ink[at], ink[at + 1], ink[at + 2], int(ink[at + 3])
    inside = _cover(rho - high, footprint) * (1.0 if low <= 0.0 else _cover(low - rho, footprint))
    if inside <= 0.0:
        return base
    turn = math.atan2(y, x) / (2.0 * math.pi)
    turn -= math.floor(turn)
    k, start = 0, 0.0
    while k < count - 1 and turn >= ink[at + 4 + 7 * k]:
        start = ink[at + 4 + 7 * k]
        k += 1
    row = at + 4 + 7 * k
    end = ink[row]
    color = (ink[row + 1], ink[row + 2], ink[row + 3])
    # the other side of the nearer edge shares the pixel
    before, after = (turn - start) * 2.0 * math.pi * rho, (end - turn) * 2.0 * math.pi * rho
    other = at + 4 + 7 * ((k - 1) % count if before < after else (k + 1) % count)
    color = _mix(color, (ink[other + 1], ink[other + 2], ink[other + 3]), _cover(min(before, after), footprint))
    if ink[row + 4] >= 0.0:
        angle, height = 2.0 * math.pi * (turn - 0.5 * (start + end)), ink[row + 5]
        u, v = -rho * math.sin(angle) / height, (rho * math.cos(angle) - middle) / height
        written = _cover(text_distance(ink, int(ink[row + 4]), u, v) * height, footprint)
        color = _mix(color, WHITE if ink[row + 6] > 0.0 else BLACK, written)
    return _mix(base, color, inside)


@borrowing
def number(ink, at, base, x, y, z, radius, footprint):
    """Return the colour of a ball with its label on white spots at the ends of all three axes, at a surface point [m]."""
    a, b, c = abs(x), abs(y), abs(z)
    if c >= a and c >= b:
        u, v, w = x, math.copysign(y, y * z), c  # half a turn about x takes one spot to the other
    elif a >= b:
        u, v, w = math.copysign(y, y * x), z, a
    else:
        u, v, w = -math.copysign(x, x * y), z, b
    flat = math.hypot(u, v)
    angle = math.atan2(flat, w)
    spot = _cover((angle - SPOT) * radius, footprint)
    if spot <= 0.0:
        return base
    ring = _cover((abs(angle - 0.95 * SPOT) - 0.02) * radius, footprint)
    color = _mix(WHITE, BLACK, 0.85 * ring)
    # as on paper laid on the ball: arc lengths count
    stretch = angle * radius / max(flat, 1.0e-12 * radius)
    height = min(1.05 * SPOT, 1.42 * SPOT / max(ink[at + 1], 0.5)) * radius
    if ink[at + 2] > 0.0:
        height *= 0.85
    written = _cover(text_distance(ink, at, u * stretch / height, v * stretch / height) * height, footprint)
    return _mix(base, _mix(color, BLACK, written), spot)


@borrowing
def _card_back(accent, u, v, wide, high, footprint):
    """Return the colour of a card's back: a lattice of lozenges in a frame."""
    edge = max(abs(u) - 0.5 * wide, abs(v) - 0.5 * high)
    step = wide / 9.0
    a, b = (u + v) / step, (u - v) / step
    line = 0.7071 * step * min(abs(a - math.floor(a + 0.5)), abs(b - math.floor(b + 0.5)))
    fine = min(max(1.5 - 3.0 * footprint / step, 0.0), 1.0)  # a lattice too fine to see is its mean
    light = fine * _cover(line - 0.07 * step, footprint) + (1.0 - fine) * 0.36
    color = _mix(accent, WHITE, 0.8 * light)
    color = _mix(color, accent, _cover(abs(edge + 0.10 * wide) - 0.018 * wide, footprint))
    return _mix(WHITE, color, _cover(edge + 0.085 * wide, footprint))


@borrowing
def card(ink, at, base, accent, x, y, nz, hx, hy, footprint):
    """Return the colour of a card's face (`nz` > 0) or back at (x, y) [m]; its longer edge is up."""
    u, v, wide, high = x, y, 2.0 * hx, 2.0 * hy
    if hx > hy:
        u, v, wide, high = -y, x, high, wide
    if nz < 0.0:
        return _card_back(accent, u, v, wide, high, footprint)
    ruddy, rank, suit = ink[at] > 0.0, int(ink[at + 1]), int(ink[at + 2])
    paint = _RED if ruddy else BLACK
    if suit < 0:
        height = min(0.3 * high, 0.8 * wide / max(ink[rank + 1], 0.5))
        return _mix(base, paint, _cover(text_distance(ink, rank, u / height, v / height) * height, footprint))
    size = 0.34 * high
    scale = min(size, 0.62 * wide / ink[rank + 1])
    written = _cover(text_distance(ink, rank, u / scale, (v - 0.215 * high) / scale) * scale, footprint)
    size = 0.40 * high
    written = max(written, _cover(text_distance(ink, suit, u / size, (v + 0.20 * high) / size) * size, footprint))
    for side in (-1.0, 1.0):  # the small corner marks, one of them upside down
        a, b = side * u + 0.38 * wide, side * v - 0.41 * high
        size = min(0.10 * high, 0.16 * wide / ink[rank + 1])
        written = max(written, _cover(text_distance(ink, rank, a / size, b / size) * size, footprint))
        b += 0.105 * high
        size = 0.085 * high
        written = max(written, _cover(text_distance(ink, suit, a / size, b / size) * size, footprint))
    return _mix(base, paint, written)


@borrowing
def sign(ink, at, base, accent, x, z, hx, hz, footprint):
    """Return the colour of a sign's front at (x, z) [m]: lines of text in a frame."""
    height, lines = ink[at], int(ink[at + 1])
    least = 2.0 * min(hx, hz)
    edge = max(abs(x) - hx, abs(z) - hz)
    written = _cover(abs(edge + 0.075 * least) - 0.02 * least, footprint)
    for k in range(lines):
        v = z - (0.5 * (lines - 1) - k) * 1.5 * height
        written = max(written, _cover(text_distance(ink, int(ink[at + 2 + k]), x / height, v / height) * height, footprint))
    return _mix(base, accent, written)
