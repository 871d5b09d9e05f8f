"""Other references for `score`: a file that gives a scene an exact q, an interval for every outcome, or somebody's real throws.

It reads the file as untrusted and says how far each cell is from it; the frozen q of the benchmark stays where it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field
from rich.table import Table
from rich.text import Text

from refcheck import metrics
from refcheck.calibench import SCENES
from refcheck.inference import adjust, draw_null, monte_carlo_p_value
from refcheck.intervals import tvd_interval
from refcheck.policy import Policy
from refcheck.references import check_box, distance_range, two_sample
from refcheck.score_tables import brief, empty_table, figure, p_text
from refcheck.untrusted import Problems, Strict, parse_json, parse_model, read_text, shown

DRAWS = 10_000
"""At most so many permutations and redraws for each cell."""
MOST = 500_000_000
"""Throws of a tally, more than anybody made: the permutations take fewer than 10^9."""
NUMBER = re.compile(r"[0-9]{1,15}(/[0-9]{1,15}|\.[0-9]{1,20})?")


class _Scene(Strict):
    """Exactly one of `q`, `counts`, or `low` with `high`, each by outcome. Probabilities are numbers or text such as "1/6"."""

    q: dict[str, float | str] | None = None
    low: dict[str, float | str] | None = None
    high: dict[str, float | str] | None = None
    counts: dict[str, int] | None = None
    source: str = Field(default="", max_length=500)


class _File(Strict):
    scenes: dict[str, _Scene] = Field(min_length=1)


@dataclass(frozen=True)
class Reference:
    """A scene's other reference over `outcomes` (k,): `exact` (q), `interval` (low, high) or `empirical` (counts)."""

    kind: Literal["exact", "interval", "empirical"]
    values: tuple[tuple[float, ...], ...]
    source: str


def known_scenes(held_to: Policy | None, *, calibench: bool) -> dict[str, tuple[tuple[str, ...], metrics.FloatArray]]:
    """Return outcomes and frozen q (k,) of every scene that may have another reference, by id."""
    known = {id: (scene.outcomes, scene.array()) for id, scene in SCENES.items()} if calibench else {}
    for paw in held_to.track("calibration") if held_to else ():
        if paw.q is not None:
            known[paw.scene_id] = (tuple(paw.outcomes), np.asarray(paw.q, np.float64))
    return known


def read_references(
    path: Path, known: Mapping[str, tuple[tuple[str, ...], metrics.FloatArray]]
) -> tuple[dict[str, Reference], dict[str, str]]:
    """Return references by scene and the file with its digest. Raises `UserError` with everything wrong in it.

    The file: `{"scenes": {"dice": {"counts": {"1": 3246, ...}, "source": "who threw them"}}}`, or `q`, or `low` and `high`
    in place of `counts`, each over exactly the scene's outcomes.
    """
    problems = Problems()
    text = read_text(path, problems)
    content = None
    if text is not None:
        try:
            content = parse_model(_File, parse_json(text), path, problems)
        except ValueError as error:
            problems.add(path, str(error))
    found: dict[str, Reference] = {}
    for id, scene in content.scenes.items() if content else ():
        where = f"{path}, scenes.{shown(id)[1:-1]}"
        if id not in known:
            near = get_close_matches(id, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            problems.add(where, f"is no scene with a reference in data={hint} They are: {', '.join(known)}")
            continue
        try:
            found[id] = _reference(scene, *known[id])
        except ValueError as error:
            problems.add(where, str(error))
    problems.check()
    return found, {str(path): sha256((text or "").encode()).hexdigest()}


def _reference(scene: _Scene, outcomes: tuple[str, ...], frozen: metrics.FloatArray) -> Reference:
    """Return a checked reference. Raises `ValueError`."""
    given = {name for name in ("q", "low", "high", "counts") if getattr(scene, name) is not None}
    if given not in ({"q"}, {"counts"}, {"low", "high"}):
        raise ValueError(f"must give q, or counts, or low and high; got {', '.join(sorted(given)) or 'none of them'}")
    ordered = {name: _ordered(name, getattr(scene, name), outcomes) for name in given}
    if scene.q is not None:
        q = metrics.check_q(ordered["q"])
        return Reference("exact", (tuple(float(share) for share in q),), scene.source)
    if scene.counts is not None:
        throws = list(scene.counts.values())
        if min(throws) < 0 or not 0 < sum(throws) <= MOST:
            raise ValueError(f"counts: must be at least 0 and sum to 1 to {MOST}, got {shown(throws)}")
        return Reference("empirical", (ordered["counts"],), scene.source)
    low, high = check_box(ordered["low"], ordered["high"])
    if np.any(frozen < low - metrics.Q_TOLERANCE) or np.any(frozen > high + metrics.Q_TOLERANCE):
        raise ValueError(f"the frozen q ({', '.join(f'{share:.4g}' for share in frozen)}) does not lie between low and high")
    return Reference("interval", (ordered["low"], ordered["high"]), scene.source)


def _ordered(name: str, given: Mapping[str, float | int | str], outcomes: tuple[str, ...]) -> tuple[float, ...]:
    """Return numbers in the order of `outcomes`. Raises `ValueError` where the labels or a number are wrong."""
    if set(given) != set(outcomes):
        raise ValueError(f"{name}: must name exactly the outcomes {', '.join(outcomes)}, got {shown(list(given))}")
    numbers = []
    for label in outcomes:
        value = given[label]
        try:
            if isinstance(value, str) and not NUMBER.fullmatch(value):
                raise ValueError
            numbers.append(float(Fraction(value) if isinstance(value, str) else value))
        except (ValueError, ZeroDivisionError, OverflowError) as error:
            raise ValueError(f'{name}.{label}: must be a number or a fraction such as "1/6", got {shown(value)}') from error
    return tuple(numbers)


def cells_of(result: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], list[int]]]:
    """Yield (model, scene, its result, counts (k,)) of every scored cell of either benchmark that has a reference."""
    for model, entry in result["models"].items():
        for scene, cell in entry["cells"].items():
            yield model, scene, cell, list(cell["counts"])
    tracks = result.get("pawbench", {"tracks": {}})["tracks"]
    for model, entry in tracks.get("calibration", {"models": {}})["models"].items():
        for cell in entry["scenes"]:
            if cell["status"] != "blocked":
                yield model, cell["scene_id"], cell, list(cell["counts"].values())


def evaluate(
    result: Mapping[str, Any],
    found: Mapping[str, Reference],
    known: Mapping[str, tuple[tuple[str, ...], metrics.FloatArray]],
    generator_for: Callable[[str], Generator],
    draws: int,
) -> list[dict[str, Any]]:
    """Write `reference` into every cell that has one, and return them with model and scene. All in 0..1.

    `exact`: tvd, floor, band, p, ci95 as under any q, and BH of p over these cells. `empirical`: the same from two
    samples, the noise of both in each.
    `interval`: the distance from the `frozen` q, and the `smallest` and `largest` over the set. None without a rollout.
    """
    held = list[tuple[str, str, dict[str, Any]]]()
    for model, scene, cell, counts in cells_of(result):
        if scene in found:
            entry = _compare(counts, found[scene], *known[scene], generator_for(f"{model}/{scene}"), min(draws, DRAWS))
            cell["reference"] = entry
            held.append((model, scene, entry))
    adjust(entry for *_, entry in held if entry["kind"] != "interval")
    return [{"model": model, "scene": scene, **entry} for model, scene, entry in held]


def _compare(
    counts: list[int],
    reference: Reference,
    outcomes: tuple[str, ...],
    frozen: metrics.FloatArray,
    generator: Generator,
    draws: int,
) -> dict[str, Any]:
    names = {"exact": ("q",), "interval": ("low", "high"), "empirical": ("counts",)}[reference.kind]
    entry: dict[str, Any] = {"kind": reference.kind, "source": reference.source}
    for name, values in zip(names, reference.values, strict=True):
        whole = reference.kind == "empirical"
        entry[name] = {label: int(v) if whole else v for label, v in zip(outcomes, values, strict=True)}
    n = sum(counts)
    if reference.kind == "interval":
        ends = distance_range(counts, frozen, *reference.values)
        return entry | dict.fromkeys(("frozen", "smallest", "largest")) if n == 0 else entry | vars(ends)
    if n == 0:
        return entry | dict.fromkeys(("tvd", "floor", "band", "p", "ci95"))
    if reference.kind == "empirical":
        two = two_sample(counts, np.array(reference.values[0], np.int64), generator, draws=draws)
        ends95 = [two.interval.low, two.interval.high]
        return entry | {"tvd": two.tvd, "floor": two.floor, "band": list(two.band), "p": two.p, "ci95": ends95, "draws": draws}
    q = np.array(reference.values[0])
    null = draw_null(n, q, generator, draws)
    band, interval = null.band(), tvd_interval(counts, q, generator, draws)
    return entry | {
        "tvd": float(metrics.tvd(counts, q)),
        "floor": float(metrics.expected_tvd(n, q)),
        "band": list(band) if band else None,
        "p": monte_carlo_p_value(counts, q, null).value,
        "ci95": [interval.low, interval.high],
        "draws": draws,
    }


def tables(held: list[dict[str, Any]]) -> list[Table]:
    """Return a table of distances from other distributions, and one of ranges over sets; none where there is nothing."""
    made = []
    if points := [entry for entry in held if entry["kind"] != "interval"]:
        table = empty_table(
            "Against the reference given",
            "Floor and band: of a model whose law is the reference; p: of that. With real throws (empirical) all of them, and "
            "the 95 % interval, carry the noise of both samples. BH: Benjamini-Hochberg over these cells.",
            *("scene", "model", "kind", "TVD", "95 %", "floor", "band", "p", "BH"),
            left=3,
        )
        for entry in points:
            table.add_row(
                Text(entry["scene"]),
                Text(entry["model"]),
                entry["kind"],
                figure(entry["tvd"]),
                brief(entry["ci95"]),
                figure(entry["floor"]),
                brief(entry["band"]),
                p_text(entry["p"], entry.get("draws")),
                p_text(entry["p_benjamini_hochberg"]),
            )
        made.append(table)
    if sets := [entry for entry in held if entry["kind"] == "interval"]:
        table = empty_table(
            "Against the set of references given",
            "TVD of the observed shares from the frozen q, and the smallest and largest over every reference of the set.",
            *("scene", "model", "frozen q", "smallest", "largest"),
            left=2,
        )
        for entry in sets:
            ends = [figure(entry[key]) for key in ("frozen", "smallest", "largest")]
            table.add_row(Text(entry["scene"]), Text(entry["model"]), *ends)
        made.append(table)
    return made
