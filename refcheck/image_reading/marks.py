"""Marks: pixel points that say where the parts of a device are in a picture, found by us or given by a person.

What follows from them is one pure function a device (`values`), so both come to the same figures with the same uncertainty.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageOps
from pydantic import Field

from refcheck.untrusted import Problems, Strict, parse_json, parse_model, read_text
from simulators.device import Device
from simulators.world import Camera

Array = NDArray[Any]
Picture = NDArray[Any]
Values = dict[str, Any]
"""A device's parameters as the picture has them, by measure: a float, an array of floats, or words."""

MOST_BYTES, MOST_PIXELS, LEAST_SIDE, MOST_SIDE = 32 << 20, 25_000_000, 64, 2000
"""A picture is a photograph or a frame, not an archive; larger ones are read at `MOST_SIDE` pixels along their longer side."""
FORMATS = ("PNG", "JPEG", "WEBP")
BY_HAND = 1.5
"""sd [px] of a point that a person gives without saying how sure it is."""


class Unreadable(Exception):
    """The picture does not show plainly enough what is to be measured. The message says what is missing."""


@dataclass(frozen=True)
class Marks:
    """Points (n, 2) [px] by name, each with one standard deviation [px] a name, and words where a part is told by a word.

    `camera` is the one that took the picture, where it is known.
    """

    points: Mapping[str, Array]
    sigma: Mapping[str, float]
    words: Mapping[str, str] = field(default_factory=dict)
    camera: Camera | None = None

    def moved(self, generator: np.random.Generator) -> Marks:
        """Return the marks as another look at the picture might have them: every point moved by its own uncertainty."""
        points = {name: at + generator.normal(size=at.shape) * self.sigma[name] for name, at in self.points.items()}
        return replace(self, points=points)


@dataclass(frozen=True)
class Mark:
    """What one name among the marks stands for: how many points (`least` to `most`), or one of `words`."""

    help: str
    least: int = 1
    most: int = 1
    words: tuple[str, ...] = ()


class Kind(Protocol):
    """How one family of devices is measured. `units` has every measure's unit."""

    title: str
    units: Mapping[str, str]

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return the sd, in the measures' units, of what marks cannot tell, such as a camera held askew."""
        ...

    def marks(self, device: Any) -> Mapping[str, Mark]:
        """Return what has to be pointed at."""
        ...

    def expected(self, device: Any, camera: Camera) -> Marks:
        """Return where `camera` would see the marks of `device` as it is configured."""
        ...

    def find(self, picture: Picture, device: Any) -> Marks:
        """Return the marks of the device in `picture`; raise `Unreadable`."""
        ...

    def values(self, marks: Marks, device: Any) -> Values:
        """Return what the marks say of the device; raise `Unreadable` where they are no such device."""
        ...

    def of_device(self, device: Any) -> Values:
        """Return the same measures of the device as it is configured."""
        ...

    def put(self, device: Any, values: Values) -> Device:
        """Return the device with these of its measures changed; raise `ValueError` where that is no device."""
        ...


class Relabelling(Protocol):
    """A kind whose picture may show the same body with its facts in other places, such as a die that is held otherwise."""

    def relabel(self, device: Any, values: Values) -> NDArray[np.int64]:
        """Return which fact each of the device's facts (f,) is on the pictured body."""
        ...


def read_picture(path: Path, problems: Problems) -> tuple[Picture, float] | None:
    """Return an untrusted picture (H, W, 3) and the factor it was reduced by, or None with the problem noted.

    Only `FORMATS`, by content; at most `MOST_BYTES` and `MOST_PIXELS`, checked before decoding.
    """
    try:
        if not path.is_file():
            problems.add(path, "is not a regular file" if path.exists() else "there is no such file")
            return None
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            problems.add(path, f"is larger than the limit of {MOST_BYTES >> 20} MiB for a picture")
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            with Pillow.open(io.BytesIO(data), formats=FORMATS) as opened:
                width, height = opened.size
                if width * height > MOST_PIXELS or min(width, height) < LEAST_SIDE:
                    problems.add(
                        path, f"has {width}x{height} pixels; each side at least {LEAST_SIDE}, at most {MOST_PIXELS:,} in all"
                    )
                    return None
                if opened.format in ("PNG", "WEBP") and getattr(opened, "is_animated", False):
                    problems.add(path, f"has {getattr(opened, 'n_frames', 2)} frames: give one of them as a picture of its own")
                    return None
                if opened.has_transparency_data and np.asarray(opened.convert("RGBA"))[..., 3].min() < 255:
                    problems.add(
                        path, "is transparent in places, and what lies behind is not in it: save it without transparency"
                    )
                    return None
                upright = ImageOps.exif_transpose(opened)
                if upright.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip
                    upright = Pillow.fromarray((np.asarray(upright).astype(np.uint32) // 257).astype(np.uint8))
                upright = upright.convert("RGB")
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError, Pillow.DecompressionBombWarning) as error:
        problems.add(path, f"is no picture that can be read ({', '.join(FORMATS)}): {type(error).__name__}")
        return None
    factor = min(1.0, MOST_SIDE / max(upright.size))
    if factor < 1.0:
        upright = upright.resize((round(upright.width * factor), round(upright.height * factor)), Pillow.Resampling.LANCZOS)
    return np.asarray(upright, np.uint8), factor


_Pixel = Annotated[list[float], Field(min_length=2, max_length=2)]


class _File(Strict):
    """An annotation file: points in pixels of the picture, their standard deviation, and words."""

    points: dict[str, list[_Pixel]] = Field(default_factory=dict)
    words: dict[str, str] = Field(default_factory=dict)
    sigma: float = Field(default=BY_HAND, gt=0.0, le=100.0)


def read_annotations(
    path: Path, needed: Mapping[str, Mark], size: tuple[int, int], factor: float, problems: Problems
) -> Marks | None:
    """Return the marks that a file gives in pixels of the picture of `size` (width, height) before it was reduced by `factor`.

    None with every problem noted: names there are none of, too few or too many points, points outside the picture.
    """
    text = read_text(path, problems)
    if text is None:
        return None
    try:
        value = parse_json(text)
        model = parse_model(_File, value, path, problems)
    except ValueError as error:
        problems.add(path, str(error))
        return None
    if model is None:
        return None
    allowed = ", ".join(needed)
    for name in (*model.points, *model.words):
        if name not in needed:
            problems.add(path, f"{ascii(name)[:60]} is no mark of this device; it has {allowed}")
    points, words, wide = {}, {}, np.array(size) / factor
    for name, mark in needed.items():
        if mark.words:
            word = model.words.get(name)
            if word not in mark.words:
                problems.add(path, f"words.{name} must be one of {', '.join(mark.words)}, got {ascii(word)[:60]} ({mark.help})")
            else:
                words[name] = word
            continue
        at = np.array(model.points.get(name, []), float).reshape(-1, 2)
        if not mark.least <= len(at) <= mark.most:
            count = f"{mark.least}" if mark.least == mark.most else f"{mark.least} to {mark.most}"
            problems.add(path, f"points.{name} must be {count} points, got {len(at)} ({mark.help})")
        elif not (np.all(at >= 0.0) and np.all(at <= wide)):
            problems.add(path, f"points.{name} lies outside the picture of {wide[0]:.0f}x{wide[1]:.0f} pixels")
        elif len(at):
            points[name] = at * factor
    return Marks(points, dict.fromkeys(points, model.sigma * factor), words)


def annotation_text(marks: Marks, needed: Mapping[str, Mark], factor: float) -> str:
    """Return an annotation file that says `marks`, with what each stands for."""
    document = {
        "help": {name: mark.help for name, mark in needed.items()},
        "sigma": BY_HAND,
        "points": {name: np.round(at / factor, 2).tolist() for name, at in marks.points.items()},
        "words": dict(marks.words),
    }
    return json.dumps(document, indent=1) + "\n"
