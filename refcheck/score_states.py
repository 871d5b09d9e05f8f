"""Continuous terminal states (where it came to rest, at what angle) against a reference sample or law, for `score`.

A sampler that is right in its bins may be wrong within them. It reads files as untrusted and knows no outcome.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.stats
from numpy.random import Generator
from pydantic import Field
from rich.table import Table
from rich.text import Text

from refcheck.command import UserError
from refcheck.inference import adjust
from refcheck.metrics import FloatArray
from refcheck.ordered import Distance, OrderedTest, sample_test, uniform_test
from refcheck.score_tables import empty_table, figure, p_text
from refcheck.untrusted import Problems, Strict, check_name, parse_json, parse_model, read_text, shown

DRAWS = 2_000
"""At most so many permutations of each test."""
MOST = 50_000
"""States of one comparison: their permutations are drawn `DRAWS` times."""
Quantity = Literal["value", "angle"]
DISTANCES: dict[Quantity, tuple[Distance, ...]] = {"value": ("wasserstein", "energy", "kuiper"), "angle": ("kuiper",)}
"""Where a circle is cut open changes all but Kuiper's distance."""
HEADER = "columns must be scene, model, value (a number) or angle (radians), and seed if there is one"


class _Law(Strict):
    """A law of scipy.stats by name, with its own parameters."""

    dist: str
    parameters: dict[str, float | int] = Field(default_factory=dict)


class _Laws(Strict):
    scenes: dict[str, _Law] = Field(min_length=1)


@dataclass
class States:
    """Finite numbers by (scene, model), all of one `quantity`, and how many rollouts had none."""

    quantity: Quantity = "value"
    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    nulls: dict[tuple[str, str], int] = field(default_factory=dict)


def read_states(path: Path, *, reference: bool = False) -> tuple[States, dict[str, str]]:
    """Read a CSV of terminal states, and the file's digest; one that is a `reference` needs no model.

    An empty number is a rollout without an outcome, and counted. Raises `UserError` with everything wrong.
    """
    problems, found = Problems(), States()
    text = read_text(path, problems)
    problems.check()
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    seeds: dict[tuple[str, str, str], str] = {}
    try:
        header = next(reader)
        quantity: list[Quantity] = [name for name in DISTANCES if name in header]
        needed = {"scene", *quantity} | (set() if reference else {"model"})
        odd = set(header) - needed - {"seed", "model"}
        if len(quantity) != 1 or needed - set(header) or odd or len(set(header)) != len(header):
            problems.add(f"{path}, line 1", f"{HEADER}; got {shown(header)}")
            problems.check()
        found.quantity = quantity[0]
        for fields in reader:
            where = f"{path}, line {reader.line_num}"
            if fields and len(fields) != len(header):
                problems.add(where, f"has {len(fields)} fields, the header has {len(header)}")
            elif fields:
                _take(dict(zip(header, fields, strict=True)), where, found, seeds, problems)
    except csv.Error as error:
        problems.add(f"{path}, line {reader.line_num}", f"is not CSV: {error}")
    if not found.nulls and not problems.found:
        problems.add(path, "has a header and no states")
    problems.check()
    return found, {str(path): sha256((text or "").encode()).hexdigest()}


def _take(
    row: Mapping[str, str], where: str, found: States, seeds: dict[tuple[str, str, str], str], problems: Problems
) -> None:
    """Count one state, or note what is wrong with it."""
    at = row["scene"], row.get("model", "")
    for kind, name in zip(("scene", "model"), at if "model" in row else at[:1], strict=False):
        try:
            check_name(name)
        except ValueError as error:
            return problems.add(where, f"{kind} {shown(name)} {error}")
    if "seed" in row and (first := seeds.setdefault((*at, row["seed"]), where)) != where:
        return problems.add(
            where, f"seed {shown(row['seed'])} of {shown(at[0])}, {shown(at[1])} occurs twice, first in {first}"
        )
    word = row[found.quantity]
    try:
        number = float(word) if word else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        return problems.add(where, f"{found.quantity} {shown(word)} must be a finite number, or empty for no outcome")
    found.nulls[at] = found.nulls.get(at, 0) + (number is None)
    if number is not None:
        found.values.setdefault(at, []).append(number)
    return None


def read_laws(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Read stated laws (frozen scipy.stats distributions) by scene, and the file's digest. Raises `UserError`.

    The file: `{"scenes": {"spinner": {"dist": "norm", "parameters": {"loc": 0, "scale": 0.1}}}}`.
    """
    problems, laws = Problems(), dict[str, Any]()
    text, content = read_text(path, problems), None
    problems.check()
    try:
        content = parse_model(_Laws, parse_json(text or ""), path, problems)
    except ValueError as error:
        problems.add(path, str(error))
    for scene, law in content.scenes.items() if content else ():
        kind = getattr(scipy.stats, law.dist, None)
        try:
            if not isinstance(kind, scipy.stats.rv_continuous):
                raise ValueError(f"dist {shown(law.dist)} is no continuous distribution of scipy.stats")
            laws[scene] = kind(**law.parameters)
            if not math.isfinite(laws[scene].median()):
                raise ValueError(f"parameters {shown(law.parameters)} are outside {law.dist}'s range")
        except (ValueError, TypeError) as error:
            problems.add(f"{path}, scenes.{shown(scene)[1:-1]}", str(error))
    problems.check()
    return laws, {str(path): sha256((text or "").encode()).hexdigest()}


@dataclass(frozen=True)
class Compared:
    """States with what they are compared with: `samples` or `laws` by scene; neither for angles against the uniform."""

    states: States
    samples: Mapping[str, FloatArray]
    laws: Mapping[str, Any]


def read(path: Path, against: Path | None) -> tuple[Compared, dict[str, str]]:
    """Read states and what they are compared with, a CSV of states or a JSON of laws; and the files' digests.

    Raises `UserError` for a scene without a reference, values without any, or more than can be permuted.
    """
    states, files = read_states(path)
    samples, laws = dict[str, FloatArray](), dict[str, Any]()
    if against is not None and against.suffix.lower() == ".json":
        laws, more = read_laws(against)
        files |= more
    elif against is not None:
        other, more = read_states(against, reference=True)
        files |= more
        if other.quantity != states.quantity:
            raise UserError(f"{against}: holds {other.quantity}s, and {path} {states.quantity}s: give both as one of them")
        samples = _samples(other)
    elif states.quantity == "value":
        raise UserError(f"states={path} holds values, which need against=: a CSV of other states, or a JSON of laws")
    problems = []
    missing = sorted({scene for scene, _ in states.nulls} - (samples.keys() | laws.keys())) if against is not None else []
    if missing:
        problems.append(f"{against}: has no reference of scene {', '.join(shown(scene) for scene in missing)}")
    for (scene, model), values in states.values.items():
        size = len(values) + (samples[scene].size if scene in samples else 0)
        if size > MOST:
            problems.append(
                f"states={path}: {shown(scene)}, {shown(model)} has {size} states with its reference, at most {MOST}"
            )
    if problems:
        raise UserError(*problems)
    return Compared(states, samples, laws), files


def evaluate(
    compared: Compared, generator_for: Callable[[str], Generator], draws: int, step: Callable[[int], Any] = lambda count: None
) -> dict[str, Any]:
    """Return every cell's distances from its reference with p, and BH over the cells by distance. `step(1)` after each cell.

    Against a sample p is by permutation; against a law, or for angles without a reference the uniform law on the circle, it
    is of Kuiper's distance of F(x) from the uniform, by Monte Carlo.
    """
    states, cells, every = compared.states, list[dict[str, Any]](), list[dict[str, Any]]()
    for (scene, model), nulls in states.nulls.items():
        mine = np.array(states.values.get((scene, model), []))
        other, law = compared.samples.get(scene), compared.laws.get(scene)
        tests = _tests(mine, other, law, states.quantity, generator_for(f"{model}/{scene}"), min(draws, DRAWS))
        held = [{"kind": t.kind, "value": float(t.statistic), "p": float(t.p), "draws": t.draws} for t in tests]
        every += held
        reference_n = None if other is None else int(other.size)
        cells.append(
            {
                **{"scene": scene, "model": model, "n": int(mine.size), "nulls": nulls},
                **{"reference": "law" if other is None else "sample", "reference_n": reference_n, "distances": held},
            }
        )
        step(1)
    for kind in DISTANCES[states.quantity]:
        adjust(entry for entry in every if entry["kind"] == kind)
    return {"quantity": states.quantity, "cells": cells}


def _samples(states: States) -> dict[str, FloatArray]:
    """Return all states of each scene, whatever model they name."""
    found: dict[str, list[float]] = {}
    for (scene, _), values in states.values.items():
        found.setdefault(scene, []).extend(values)
    return {scene: np.array(values) for scene, values in found.items()}


def _tests(
    mine: FloatArray, other: FloatArray | None, law: Any, quantity: Quantity, generator: Generator, draws: int
) -> list[OrderedTest]:
    """Return the tests of one cell, none where no state was read."""
    if mine.size == 0:
        return []
    if quantity == "angle" and law is None:
        mine = mine / (2 * np.pi) % 1
        other = None if other is None else other / (2 * np.pi) % 1
    if other is not None:
        return [sample_test(mine, other, generator, kind, draws) for kind in DISTANCES[quantity]]
    return [uniform_test(mine if law is None else np.clip(law.cdf(mine), 0, 1 - 2**-53), generator, draws)]


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Return the table of distances."""
    table = empty_table(
        f"Terminal states: the {found['quantity']} itself",
        "Distance between the states and their reference, with p of one law behind both. Wasserstein in the unit of the "
        "states, energy in its square root, Kuiper in 0..2. BH: Benjamini-Hochberg over the cells, by distance.",
        *("scene", "model", "n", "nulls", "reference", "distance", "", "p", "BH"),
        left=2,
    )
    for cell in found["cells"]:
        of = cell["reference"] + (f", {cell['reference_n']}" if cell["reference_n"] is not None else "")
        shared = (Text(cell["scene"]), Text(cell["model"]), str(cell["n"]), str(cell["nulls"]), of)
        for entry in cell["distances"] or [{"kind": "-", "value": None, "p": None, "draws": None}]:
            ps = p_text(entry["p"], entry["draws"]), p_text(entry.get("p_benjamini_hochberg"))
            table.add_row(*shared, entry["kind"], figure(entry["value"], ".4g"), *ps)
    return [table]
