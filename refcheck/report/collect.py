"""Finds and reads the result.json files under a folder, as untrusted input: refused rather than repaired, all problems at once.

It follows no link out of the folder, and shows a picture only after decoding and encoding it again.
"""

from __future__ import annotations

import base64
import io
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from refcheck.command import UserError
from refcheck.output import RESULT
from refcheck.report.schema import Certificates, Controls, Header, Rendered, Validity, contradictions
from refcheck.report.score_schema import Score
from refcheck.untrusted import Problems, Strict, parse_json, parse_model, shown

MAXIMUM_BYTES = 16 << 20
"""A result with hundreds of scenes is a few megabytes."""
MAXIMUM_RESULTS = 500
MAXIMUM_ENTRIES = 500_000
"""Files and folders looked at, so that a mistaken `data=/` ends."""
MAXIMUM_IMAGE_BYTES, MAXIMUM_PIXELS = 32 << 20, 64_000_000
WIDEST = 1600  # px: what a page shows of a picture
QUALITY = 88
FORMS: dict[str, type[Strict]] = {
    "quincunx.verify/v1": Certificates,
    "quincunx.controls/v1": Controls,
    "quincunx.score/v1": Score,
    "quincunx.render/v1": Rendered,
    "quincunx.validity/v1": Validity,
}
PAGE = "quincunx.report/"


@dataclass(frozen=True)
class Result:
    """One result: its `folder`, that folder's `name` below the data, and what it says; `body` is None for other verbs."""

    folder: Path
    name: str
    header: Header
    body: Any


@dataclass(frozen=True)
class Material:
    """All that a page may show: results by name, and files that are not ours, by name."""

    results: tuple[Result, ...] = ()
    others: tuple[str, ...] = field(default_factory=tuple)

    def of(self, kind: type[Strict]) -> tuple[Result, ...]:
        """Return the results of one kind."""
        return tuple(result for result in self.results if isinstance(result.body, kind))


def collect(data: Path) -> Material:
    """Read every result under `data`. Raises `UserError` with everything wrong, or when there is none."""
    if not data.is_dir():
        raise UserError(f"data={data}: {'is a file' if data.exists() else 'there is no such folder'}; give a folder of results")
    problems, results, others = Problems(), list[Result](), list[str]()
    for path in _paths(data.resolve()):
        name = path.parent.relative_to(data.resolve()).as_posix()
        value = _read(path, problems)
        if value is None:
            continue
        form = value.get("schema") if isinstance(value, dict) else None
        if isinstance(form, str) and form.startswith(PAGE):
            continue  # a page's own result is no material for a page
        if not isinstance(form, str) or not form.startswith("quincunx."):
            others.append(name)
            continue
        header = parse_model(Header, value, path, problems)
        kind = FORMS.get(form)
        body = parse_model(kind, value, path, problems) if kind else None
        if header is None or (kind is not None and body is None):
            continue
        for problem in _contradictions(body):
            problems.add(path, problem)
        results.append(Result(path.parent, name, header, body))
    problems.check()
    if not results:
        raise UserError(
            f"data={data} holds no {RESULT} of quincunx, itself or below; make one with out=, such as "
            f"`quincunx verify scene=calibench/dice out={data}/verify`"
        )
    results.sort(key=lambda result: result.header.created)  # in the order they were made, folders' names within a second
    return Material(tuple(results), tuple(others))


def _paths(root: Path) -> Iterator[Path]:
    """Yield the results below `root`, sorted; links to folders are not followed."""
    entries = found = 0
    for folder, below, files in os.walk(root):
        below.sort()
        entries += len(below) + len(files)
        if entries > MAXIMUM_ENTRIES:
            raise UserError(f"data={root} holds over {MAXIMUM_ENTRIES} files: give the folder of the results themselves")
        if RESULT in files:
            found += 1
            if found > MAXIMUM_RESULTS:
                raise UserError(f"data={root} holds over {MAXIMUM_RESULTS} results: make a page of a part of them")
            yield Path(folder) / RESULT


def _read(path: Path, problems: Problems) -> Any:
    try:
        if path.is_symlink() or not path.is_file():
            raise ValueError("is not a regular file: links are not followed")
        with path.open("rb") as stream:
            data = stream.read(MAXIMUM_BYTES + 1)
        if len(data) > MAXIMUM_BYTES:
            raise ValueError(f"is larger than {MAXIMUM_BYTES >> 20} MiB, the most a result may be")
        return parse_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        problems.add(path, f"is not UTF-8 at byte {error.start}")
    except (OSError, ValueError) as error:
        problems.add(path, str(error))
    return None


def _contradictions(body: Any) -> list[str]:
    if isinstance(body, Score):
        cells = ((m, s, cell) for m, entry in body.models.items() for s, cell in entry.cells.items())
        return [f"{shown(m)} on {shown(s)} {problem}" for m, s, cell in cells for problem in cell.contradictions()]
    return contradictions(body)


def picture(result: Result, name: str) -> str:
    """Return the picture `name` in the result's folder as a data URI, decoded and encoded again.

    Raises `UserError` for a name that leads out of the folder, and for what is no picture or too large.
    """
    path = result.folder / name
    try:
        if not path.resolve().is_relative_to(result.folder.resolve()) or "\\" in name:
            raise ValueError("leads out of its result's folder")
        if not path.is_file() or path.stat().st_size > MAXIMUM_IMAGE_BYTES:
            raise ValueError(f"is no file of at most {MAXIMUM_IMAGE_BYTES >> 20} MiB")
        with warnings.catch_warnings(), Image.open(path, formats=("PNG", "JPEG", "WEBP")) as image:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is ours
            if image.width * image.height > MAXIMUM_PIXELS:
                raise ValueError(f"has {image.width} x {image.height} pixels, too many")
            shrunk = image.convert("RGB")
            shrunk.thumbnail((WIDEST, 20 * WIDEST), Image.Resampling.LANCZOS)
            buffer = io.BytesIO()
            shrunk.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # SyntaxError: a broken PNG
        raise UserError(f"picture {shown(name)} of {result.folder}: {error}") from error
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
