"""What was measured, drawn on the picture it was measured in. Knows no verdict."""

from __future__ import annotations

import textwrap

import cv2
import numpy as np

from refcheck.image_reading.marks import Marks, Picture

COLOURS = ((255, 60, 200), (0, 230, 255), (255, 230, 0), (90, 255, 90), (255, 130, 40), (255, 255, 255))
STEP = 50  # px between the lines of the ruler


def overlay(picture: Picture, marks: Marks, lines: list[str], ruler: bool = False) -> Picture:
    """Return `picture` with its marks, a key of their names and `lines` of text below; `ruler` adds a scale of pixels."""
    image = picture.copy()
    height, width = image.shape[:2]
    if ruler:
        for at in range(STEP, max(width, height), STEP):
            for start, end, place in (((at, 0), (at, 8), (at - 10, 20)), ((0, at), (8, at), (12, at + 4))):
                cv2.line(image, start, end, (255, 255, 255), 1)
                cv2.putText(image, str(at), place, cv2.FONT_HERSHEY_SIMPLEX, 0.33, (255, 255, 255), 1, cv2.LINE_AA)
    key = []
    for index, (name, points) in enumerate(marks.points.items()):
        colour = COLOURS[index % len(COLOURS)]
        few = len(points) <= 12
        for number, (x, y) in enumerate(np.asarray(points)):
            # Pixel centres lie at .5; four more bits of the place for half a pixel to show.
            spot = (round((x - 0.5) * 16), round((y - 0.5) * 16))
            if few:
                cv2.circle(image, spot, 5 * 16, (0, 0, 0), 3, cv2.LINE_AA, 4)
            cv2.circle(image, spot, 5 * 16 if few else 16, colour, 1 if few else -1, cv2.LINE_AA, 4)
            if few and len(points) > 1:
                place = (round(x) + 8, round(y) - 6)
                for shade, thick in (((0, 0, 0), 3), (colour, 1)):
                    cv2.putText(image, str(number + 1), place, cv2.FONT_HERSHEY_SIMPLEX, 0.42, shade, thick, cv2.LINE_AA)
        key.append((name, colour))
    key += [(f"{name}: {word}", (255, 255, 255)) for name, word in marks.words.items()]
    lines = [part for text in lines for part in textwrap.wrap(text, max(20, width // 8), subsequent_indent="   ")]
    footer = np.full((28 + 20 * len(lines), width, 3), 32, np.uint8)
    x = 10
    for name, colour in key:
        cv2.circle(footer, (x + 4, 14), 4, colour, -1, cv2.LINE_AA)
        cv2.putText(footer, name, (x + 14, 19), cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour, 1, cv2.LINE_AA)
        x += 30 + 9 * len(name)
    for row, text in enumerate(lines):
        place = (10, 40 + 20 * row)
        cv2.putText(footer, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (235, 235, 235), 1, cv2.LINE_AA)
    return np.concatenate([image, footer])
