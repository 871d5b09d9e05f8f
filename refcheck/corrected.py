"""Scores seen through a measured judge: results of `controls` give its confusion, and each cell its corrected distance.

It matches files to cells and prints the assumption; `correction` does the estimating.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from numpy.random import Generator
from pydantic import Field
from rich.table import Table
from rich.text import Text

from refcheck.calibench import SCENES
from refcheck.command import UserError
from refcheck.correction import ConfusionError, correct
from refcheck.output import RESULT
from refcheck.score_tables import empty_table, figure, span
from refcheck.untrusted import Problems, Strict, parse_json, parse_model, read_text, shown

DRAWS = 1_000
"""Redraws of clips and controls for each floor, bias and interval: each one runs EM."""
CONTROLS = "quincunx.controls/v1"


class _Judge(Strict):
    name: str


class _Controls(Strict):
    """What is needed of a result of `controls`."""

    scene: str
    judge: _Judge
    outcomes: list[str] = Field(min_length=2)
    confusion: list[list[int]]
    confusion_columns: list[str]


@dataclass(frozen=True)
class Confusion:
    """Counts (k, k + 1) of true outcome by label, nulls last, that a judge gave on controls of one scene."""

    scene: str
    judge: str
    outcomes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    where: str

    def ordered(self, outcomes: tuple[str, ...]) -> list[list[int]]:
        """Return the counts in the order of `outcomes`. Raises `UserError` where they are not the same."""
        if set(outcomes) != set(self.outcomes):
            raise UserError(
                f"{self.where}: its controls have the outcomes {shown(list(self.outcomes))}, the labels of {self.scene} are "
                f"{shown(list(outcomes))}"
            )
        at = [self.outcomes.index(label) for label in outcomes]
        return [[self.counts[row][column] for column in [*at, len(at)]] for row in at]


@dataclass(frozen=True)
class CellLabels:
    """What a judge said of one model's clips of one scene: counts (k,), nulls, reference q (k,)."""

    protocol: str
    model: str
    scene: str
    outcomes: tuple[str, ...]
    counts: tuple[int, ...]
    nulls: int
    q: tuple[float, ...]


def read_controls(path: Path) -> tuple[dict[str, Confusion], dict[str, str]]:
    """Read the confusion of every scene from a result of `controls`, or a folder of them (itself and one level down).

    Returns:
        Confusions by scene id, and the digests of the files.

    Raises:
        UserError: with everything wrong: no such result, a scene twice, or counts that are no confusion matrix.
    """
    problems, found, files = Problems(), dict[str, Confusion](), dict[str, str]()
    paths = sorted([*path.glob(RESULT), *path.glob(f"*/{RESULT}")]) if path.is_dir() else [path]
    for item in paths:
        text = read_text(item, problems)
        try:
            value = parse_json(text) if text is not None else None
        except ValueError as error:
            problems.add(item, str(error))
            continue
        if value is None:
            continue
        if not isinstance(value, dict) or value.get("schema") != CONTROLS:
            if not path.is_dir():  # a folder may hold other verbs' results
                problems.add(item, f"is not a result of `controls` (schema {CONTROLS})")
            continue
        held = parse_model(_Controls, value, item, problems)
        if held is None:
            continue
        k = len(held.outcomes)
        shapes = {len(row) for row in held.confusion}
        if len(held.confusion) != k or shapes != {k + 1} or held.confusion_columns[:-1] != held.outcomes:
            problems.add(item, f"confusion must be {k} rows of {k + 1} counts in the order of the outcomes, nulls last")
            continue
        if min(count for row in held.confusion for count in row) < 0:
            problems.add(item, "confusion holds a negative count")
            continue
        if held.scene in found:
            problems.add(item, f"scene {shown(held.scene)} has two results of controls, the first in {found[held.scene].where}")
            continue
        counts = tuple(tuple(row) for row in held.confusion)
        found[held.scene] = Confusion(held.scene, held.judge.name, tuple(held.outcomes), counts, str(item))
        files[str(item)] = sha256((text or "").encode()).hexdigest()
    problems.check()
    if not found:
        raise UserError(f"judge={path}: holds no result of `controls`; make one with `quincunx controls scene=... out=DIR`")
    return found, files


def calibench_cells(models: Mapping[str, Any]) -> list[CellLabels]:
    """Return the labels of CaliBench's scored cells."""
    return [
        CellLabels(
            "calibench",
            model,
            scene,
            SCENES[scene].outcomes,
            tuple(cell["counts"]),
            cell["N"] - cell["n_valid"],
            tuple(SCENES[scene].array()),
        )
        for model, entry in models.items()
        for scene, cell in entry["cells"].items()
    ]


def pawbench_cells(evaluation: Mapping[str, Any], references: Mapping[str, tuple[float, ...]]) -> list[CellLabels]:
    """Return the labels of PAWBench's passing calibration scenes; `references` holds q by scene."""
    return [
        CellLabels(
            "pawbench",
            model,
            scene["scene_id"],
            tuple(scene["counts"]),
            tuple(scene["counts"].values()),
            scene["null_observations"],
            references[scene["scene_id"]],
        )
        for model, entry in evaluation["tracks"].get("calibration", {"models": {}})["models"].items()
        for scene in entry["scenes"]
        if scene["status"] == "pass"
    ]


def evaluate(
    cells: Iterable[CellLabels],
    confusions: Mapping[str, Confusion],
    generator_for: Callable[[str], Generator],
    draws: int = DRAWS,
) -> list[dict[str, Any]]:
    """Return the corrected distance of every cell whose scene has controls, or why it is `refused`.

    Raises `UserError` where no cell has controls, or outcomes differ.
    """
    found, wanted = [], set[str]()
    for cell in cells:
        wanted.add(f"{cell.protocol}/{cell.scene}")
        controls = confusions.get(f"{cell.protocol}/{cell.scene}")
        if controls is None:
            continue
        entry: dict[str, Any] = {"protocol": cell.protocol, "model": cell.model, "scene": cell.scene, "judge": controls.judge}
        table = controls.ordered(cell.outcomes)
        if sum(cell.counts) + cell.nulls == 0:
            continue
        try:
            generator = generator_for(f"{cell.protocol}/{cell.model}/{cell.scene}")
            entry |= asdict(correct([*cell.counts, cell.nulls], table, cell.q, generator, draws=min(draws, DRAWS)))
        except ConfusionError as error:
            entry["refused"] = str(error)
        found.append(entry)
    if not found:
        raise UserError(
            f"judge= has controls of {', '.join(confusions)}, and data= none of these scenes: {', '.join(sorted(wanted))}"
        )
    return found


def tables(found: list[dict[str, Any]]) -> list[Table]:
    """Return the table of corrected distances, the assumption under it."""
    table = empty_table(
        "Seen through the judge: TVD corrected by its measured errors",
        " ".join(dict.fromkeys(entry["assumption"] for entry in found if "assumption" in entry))
        + " Floor: mean corrected TVD of a model that is q. Bias: how far the corrected TVD lies too high on average.",
        *("model", "scene", "TVD as read", "corrected", "floor", "bias", "95 %"),
        left=2,
    )
    for entry in found:
        if "refused" in entry:
            table.add_row(Text(entry["model"]), entry["scene"], "refused", *["-"] * 3, "")
            continue
        ends = [entry["interval"]["low"], entry["interval"]["high"]]
        row = (figure(entry[key]) for key in ("raw", "tvd", "floor"))
        table.add_row(Text(entry["model"]), Text(entry["scene"]), *row, f"{entry['bias']:+.3f}", span(ends))
    refusals = [f"{entry['scene']}: {entry['refused']}" for entry in found if "refused" in entry]
    if refusals:
        table.caption = Text(f"{table.caption} " + "; ".join(dict.fromkeys(refusals)))
    return [table]
