"""Validates a benchmark package, ours or anyone's, as data: every problem is told at once, and nothing in it is run or built.

It follows no link, opens no path that leads out of the package, and knows no scene of its own.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image as Pillow
from pydantic import Field

from refcheck.command import UserError
from refcheck.gates import LEAST_EVIDENCE
from refcheck.judges.state import fingerprint as sha256
from refcheck.metrics import Q_TOLERANCE, check_q
from refcheck.package import BENCHMARK, MANIFEST, NAME, OURS, REFERENCE_SCHEMA, TABLE, UNLISTED
from refcheck.policy import TRACKS
from refcheck.report.schema import Biased, Certificate, Controls, EvidenceCheck
from refcheck.untrusted import Problems, Strict, json_lines, parse_json, parse_model, read_text, shown, suggestion
from scenes import mechanism, schema
from scenes.catalog import parse_yaml
from scenes.schema import fraction

MAXIMUM_ENTRIES = 100_000
MAXIMUM_PICTURE, MAXIMUM_PIXELS, MINIMUM_SIDE = 64 << 20, 8192 * 8192, 16
FORMS: Mapping[str, type[Certificate] | type[Biased] | type[Controls]] = {
    "certificate": Certificate,
    "bias": Biased,
    "controls": Controls,
}
REQUIRED = tuple(FORMS)
"""The gates that a scene of ours has evidence of, or a reason why not."""


class Everything(Problems):
    """Problems without a limit: who is to mend a package needs all of them."""

    def add(self, where: object, what: str) -> None:
        """Note a problem."""
        self.found.append(f"{where}: {what}")


@dataclass(frozen=True)
class Checked:
    """What a check found: `ours` or a foreign package, scenes by track, its regular files, and every problem."""

    ours: bool
    scenes: Mapping[str, int]
    files: int
    problems: tuple[str, ...]


class _Scene(Strict):
    scene_id: str = Field(min_length=1)
    split: str
    action: str
    source_image_path: str
    outcome_labels: list[str] = Field(min_length=1)
    group: str | None = None
    prompt: str = ""
    reference_distribution: dict[str, float | int] | None = None


class _Entry(Strict):
    digest: str
    prompt: str
    rubric: str
    config: str
    evidence: dict[str, str]
    gates: dict[str, str]
    allowed: str | None = None


class _Ours(Strict):
    schema_: str = Field(alias="schema")
    versions: dict[str, str]
    references: str
    scenes: dict[str, Any]
    files: dict[str, str]


class _Exact(Strict):
    q: dict[str, str] | None


class _Package:
    """A folder with the regular files that are in it; only those are ever opened."""

    def __init__(self, folder: Path, problems: Problems) -> None:
        self.folder, self.problems = folder, problems
        self.files = _tree(folder, problems)

    def path(self, text: str, where: object, key: str) -> Path | None:
        """Return the file that a package's own words name, or None with the problem noted."""
        pure = PurePosixPath(text)
        if not text.isprintable() or "\\" in text or not text.strip():
            self.problems.add(where, f"{key} {shown(text)} is no relative path with forward slashes")
        elif pure.is_absolute() or ".." in pure.parts or ":" in "".join(pure.parts[:1]):
            self.problems.add(where, f"{key} {shown(text)} leads out of the package")
        elif pure.as_posix() not in self.files:
            self.problems.add(where, f"{key} {shown(text)}: there is no such regular file in the package")
        else:
            return self.folder / pure
        return None

    def json(self, path: Path) -> Any:
        """Return a JSON object, None with the problem noted."""
        text = read_text(path, self.problems)
        if text is None:
            return None
        try:
            value = parse_json(text)
        except ValueError as error:
            self.problems.add(path, str(error))
            return None
        if not isinstance(value, dict):
            self.problems.add(path, f"must be an object, is {shown(value)}")
            return None
        return value


def _tree(folder: Path, problems: Problems) -> set[str]:
    """Return the regular files below `folder` by relative name; links and other things are problems, and never followed."""
    files, entries, lower = set[str](), 0, dict[str, str]()
    for at, below, names in os.walk(folder):
        below.sort()
        for name in sorted([*below, *names]):
            entries += 1
            path = Path(at) / name
            relative = path.relative_to(folder).as_posix()
            if entries > MAXIMUM_ENTRIES:
                raise UserError(f"check={folder} holds over {MAXIMUM_ENTRIES} files: give the folder of the package itself")
            if path.is_symlink():
                problems.add(
                    folder / relative, f"is a symbolic link (to {shown(os.readlink(path))}): a package holds files alone"
                )
            elif not path.is_dir() and not path.is_file():
                problems.add(folder / relative, "is neither a file nor a folder")
            elif path.is_file():
                files.add(relative)
            if lower.setdefault(relative.lower(), relative) != relative:
                problems.add(
                    folder / relative, f"differs from {lower[relative.lower()]} in capitals alone: some systems merge them"
                )
    return files


def check(folder: Path) -> Checked:
    """Return everything that is wrong with the package in `folder`. Raises `UserError` where that is no folder."""
    if not folder.is_dir():
        raise UserError(f"check={folder}: {'is a file' if folder.exists() else 'there is no such folder'}; give a package's")
    problems = Everything()
    package = _Package(folder, problems)
    manifest, table = _manifest(package)
    rows = _table(package, table) if table is not None else []
    ours = "quincunx" in manifest
    if ours:
        _ours(package, manifest["quincunx"], rows)
    scenes = Counter(row.split for _, row in rows)
    return Checked(ours, {track: scenes[track] for track in TRACKS}, len(package.files), tuple(problems.found))


def _manifest(package: _Package) -> tuple[dict[str, Any], Path | None]:
    """Return the manifest and where the scene table is, as far as they can be had."""
    path, problems = package.folder / MANIFEST, package.problems
    manifest: dict[str, Any] = {}
    if MANIFEST in package.files:
        manifest = package.json(path) or {}
    else:
        problems.add(path, "there is no manifest")
    if manifest:
        if manifest.get("schema_version") != BENCHMARK:
            problems.add(path, f"schema_version is {shown(manifest.get('schema_version'))}; what can be read is {BENCHMARK!r}")
        table = manifest.get("scene_table")
        if isinstance(table, str):
            return manifest, package.path(table, path, "scene_table")
        problems.add(path, f"scene_table is {shown(table)}: it must name the file of the scenes, as in {TABLE!r}")
    if TABLE in package.files:  # read what is there: all problems at once
        return manifest, package.folder / TABLE
    problems.add(package.folder / TABLE, "there is no scene table")
    return manifest, None


def _table(package: _Package, path: Path) -> list[tuple[str, _Scene]]:
    """Return the rows of the scene table that can be read, with where each stands."""
    rows, first = list[tuple[str, _Scene]](), dict[str, str]()
    for where, value in json_lines(path, read_text(path, package.problems) or "", package.problems):
        row = parse_model(_Scene, value, where, package.problems)
        for key, text in value.items() if isinstance(value, dict) else ():
            if isinstance(text, str) and key.endswith("_path"):
                file = package.path(text, where, key)
                if file is not None and key == "source_image_path":
                    picture(file, package.problems)
        if row is None:
            continue
        told = first.setdefault(row.scene_id.lower(), where)
        if told != where:
            package.problems.add(where, f"scene_id {shown(row.scene_id)} is given twice, first in {told}")
        for problem in row_problems(row):
            package.problems.add(where, f"{shown(row.scene_id)}: {problem}")
        rows.append((where, row))
    if not first:
        package.problems.add(path, "holds no scene")
    return rows


def row_problems(row: _Scene) -> list[str]:
    """Return what is wrong with one scene beyond types and files: names, texts, labels, reference."""
    found = []
    if not NAME.fullmatch(row.scene_id):
        found.append("scene_id cannot be a folder's name: letters, digits and . _ - alone")
    if row.split not in TRACKS:
        found.append(f"split is {shown(row.split)}{suggestion(row.split, TRACKS)}")
    found += [f"{key} is blank" for key in ("action", "prompt") if not getattr(row, key).strip()]
    labels, q = row.outcome_labels, row.reference_distribution
    found += [f"outcome label {shown(label)} is given {n} times" for label, n in Counter(labels).items() if n > 1]
    if any(not label.strip() for label in labels):
        found.append("an outcome label is blank")
    if len(set(labels)) < 2:
        found.append(f"outcome_labels has {len(set(labels))}: at least two are needed")
    if row.split == "coverage" and q is not None:
        found.append("a coverage scene has no reference_distribution, only labels")
    if row.split == "calibration" and q is None:
        found.append("a calibration scene needs its reference_distribution")
    if q is not None:
        found += [f"reference_distribution has nothing for {shown(label)}" for label in dict.fromkeys(labels) if label not in q]
        found += [f"reference_distribution has {shown(label)}, which is no outcome label" for label in q if label not in labels]
        try:
            check_q(list(q.values()) or [np.nan])
        except ValueError as error:
            found.append(f"reference_distribution: {error} (tolerance {Q_TOLERANCE:g})")
    return found


def picture(path: Path, problems: Problems) -> None:
    """Note what is wrong with a source image: its size, its form, a frame of one colour."""
    try:
        if path.stat().st_size > MAXIMUM_PICTURE:
            raise ValueError(f"is larger than {MAXIMUM_PICTURE >> 20} MiB, which no source image is")
        with Pillow.open(io.BytesIO(path.read_bytes()), formats=("PNG", "JPEG", "WEBP")) as held:
            width, height = held.size
            if width * height > MAXIMUM_PIXELS or min(width, height) < MINIMUM_SIDE:
                raise ValueError(
                    f"has {width}x{height} pixels: from {MINIMUM_SIDE} a side to {MAXIMUM_PIXELS} in all are allowed"
                )
            pixels = np.asarray(held.convert("RGB"))
        if int(np.ptp(pixels.reshape(-1, 3), axis=0).max()) == 0:
            raise ValueError("is of one colour: it shows nothing")
    except (OSError, SyntaxError, Pillow.DecompressionBombError) as error:
        why = "" if isinstance(error, Pillow.UnidentifiedImageError) else f": {error}"  # which names a buffer, not the file
        problems.add(path, f"is no picture that can be read (PNG, JPEG or WebP){why}")
    except ValueError as error:
        problems.add(path, str(error))


def _ours(package: _Package, value: Any, rows: Sequence[tuple[str, _Scene]]) -> None:
    """Check what our own packages hold beyond the format: digests, exact references, evidence."""
    where, problems = package.folder / MANIFEST, package.problems
    if not isinstance(value, dict) or value.get("schema") != OURS:
        schema = value.get("schema") if isinstance(value, dict) else value
        problems.add(where, f"quincunx.schema is {shown(schema)}; what can be read is {OURS!r}")
        return
    told = parse_model(_Ours, value, f"{where}, quincunx", problems)
    if told is None:
        return
    for name, digest in told.files.items():
        path = package.path(name, where, "files names")
        if path is not None and (found := sha256(path)) != digest:
            problems.add(
                path, f"has changed since it was frozen: SHA-256 {found[:12]}..., the manifest says {shown(digest[:12])}..."
            )
    for name in sorted(package.files - set(told.files) - set(UNLISTED)):
        problems.add(package.folder / name, "is in no list of the manifest: it was put there since")
    _references(package, told.references, rows)
    names = [row.scene_id for _, row in rows]
    for name in sorted(set(names) ^ set(told.scenes)):
        has, lacks = ("the scene table", "the manifest") if name in names else ("the manifest", "the scene table")
        problems.add(where, f"{has} has the scene {shown(name)}, {lacks} has not")
    for _, row in rows:
        if row.scene_id in told.scenes:
            at = f"{where}, quincunx.scenes.{row.scene_id}"
            entry = parse_model(_Entry, told.scenes[row.scene_id], at, problems)
            if entry is not None:
                _entry(package, at, row, entry)


def _references(package: _Package, name: str, rows: Sequence[tuple[str, _Scene]]) -> None:
    """Hold the numbers of the scene table to the exact fractions."""
    path = package.path(name, package.folder / MANIFEST, "references")
    held = package.json(path) if path is not None else None
    if path is None or held is None:
        return
    if held.get("schema") != REFERENCE_SCHEMA or not isinstance(held.get("scenes"), dict):
        package.problems.add(path, f"schema is {shown(held.get('schema'))}; what can be read is {REFERENCE_SCHEMA!r}")
        return
    for _, row in rows:
        at = f"{path}, {shown(row.scene_id)}"
        exact = parse_model(_Exact, held["scenes"].get(row.scene_id), at, package.problems)
        if exact is None or (exact.q is None and row.split == "coverage"):
            continue
        values = {label: fraction(text) for label, text in (exact.q or {}).items()}
        wrong = [label for label, value in values.items() if value is None]
        for label in wrong:
            package.problems.add(
                at, f"q of {shown(label)} is {shown((exact.q or {})[label])}: it must be a fraction from 0 to 1"
            )
        if wrong:
            continue
        total = sum((value for value in values.values() if value is not None), Fraction(0))
        if total != 1:
            package.problems.add(at, f"q sums to {total}, and must sum to exactly 1")
        if {label: float(value) for label, value in values.items() if value is not None} != row.reference_distribution:
            package.problems.add(at, f"q is {shown(exact.q)}, the scene table says {shown(row.reference_distribution)}")


def _entry(package: _Package, at: str, row: _Scene, entry: _Entry) -> None:
    """Check one scene's evidence: what the gates say is what the files say, for this digest."""
    rubric = package.path(entry.rubric, at, "rubric")
    if rubric is not None:
        package.json(rubric)
    config = package.path(entry.config, at, "config")
    for problem in _config_problems(read_text(config, package.problems), row) if config is not None else ():
        package.problems.add(config, problem)
    prompt = package.path(entry.prompt, at, "prompt")
    text = read_text(prompt, package.problems) if prompt is not None else None
    if text is not None and text.strip() != row.prompt.strip():
        package.problems.add(f"{prompt}", "is not the prompt of the scene table")
    refused = [gate for gate in (*REQUIRED, *entry.gates) if entry.gates.get(gate) != "holds"]
    if refused and not (entry.allowed or "").strip():
        package.problems.add(at, f"the gate {', '.join(dict.fromkeys(refused))} does not hold, and no reason is recorded")
    for gate in REQUIRED:
        if gate not in entry.evidence:
            if entry.gates.get(gate) == "holds":
                package.problems.add(at, f"the gate {gate} is said to hold, and there is no evidence of it")
            continue
        path = package.path(entry.evidence[gate], at, f"evidence.{gate}")
        held = package.json(path) if path is not None else None
        if path is None or held is None:
            continue
        form = FORMS[gate]
        body = parse_model(form, held if gate == "controls" else held.get(gate), path, package.problems)
        for problem in body.contradictions() if body is not None else ():
            package.problems.add(path, problem)
        if isinstance(body, Certificate) and row.split == "calibration" and _numbers(body.q) != row.reference_distribution:
            package.problems.add(path, f"is for the reference {shown(body.q)}, not that of the scene table")
        if entry.gates.get(gate) != "holds":
            continue
        if isinstance(body, Certificate):
            ran = {name: check.n for name, check in body.evidence.items() if isinstance(check, EvidenceCheck) and check.n}
            for name in [name for name, n in ran.items() if n < LEAST_EVIDENCE]:
                package.problems.add(path, f"evidence.{name} is of {ran[name]} rollouts, {LEAST_EVIDENCE} are the fewest")
            if not ran:
                package.problems.add(path, "is said to hold, and no check of it was run")
        verdict = {"certificate": ("certificate", "verdict", "holds"), "bias": ("bias", "verdict", "faithful")}.get(gate)
        digest = _said(held, "certificate", "digest") if gate == "certificate" else held.get("digest")
        if digest != entry.digest:
            package.problems.add(f"{path}", f"is evidence for digest {shown(digest)}, the manifest says {shown(entry.digest)}")
        if verdict is not None and _said(held, *verdict[:2]) != verdict[2]:
            package.problems.add(f"{path}", f"does not say {verdict[2]!r}, as the manifest's gate has it")


def _numbers(q: Mapping[str, str]) -> dict[str, float | None]:
    """Return exact shares as the scene table has them."""
    exact = {label: fraction(text) for label, text in q.items()}
    return {label: None if share is None else float(share) for label, share in exact.items()}


def _config_problems(text: str | None, row: _Scene) -> list[str]:
    """Return what is wrong with a scene's file as far as that shows without building anything that it names."""
    if text is None:
        return []
    try:
        config = parse_yaml(text)
    except ValueError as error:
        return [str(error)]
    model, problems = schema.parse(config)
    problems = problems + schema.rules(model)
    for role in mechanism.TRUSTED:
        if isinstance(part := config.get(role), Mapping):
            problems += mechanism.named(role, part)[1]
    if not problems and list(model.outcomes) != row.outcome_labels:
        problems.append(f"`outcomes` are {shown(list(model.outcomes))}, the scene table says {shown(row.outcome_labels)}")
    return [shown(problem, 400)[1:-1] for problem in problems]


def _said(held: Mapping[str, Any], outer: str, inner: str) -> Any:
    inside = held.get(outer)
    return inside.get(inner) if isinstance(inside, dict) else None
