"""Label files from outside: read as untrusted input, checked whole, refused rather than repaired. It computes no score.

Recognised: a CSV with the columns scene, model, seed, bin (or three votes in place of the bin; or a swept setting beside
them); CaliBench's `<scene>_<model>_bins.json`; PAWBench's `rows.jsonl`; or a folder of them (itself and one level down). With a
swept setting, bins and rows that do not state its value take the name of the folder they are in.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import Field

from refcheck.calibench import SCENES
from refcheck.command import UserError
from refcheck.untrusted import Problems, Strict, check_name, json_lines, parse_json, parse_model, read_text, shown, suggestion

MAXIMUM_FILES = 20_000
COLUMNS = ("scene", "model", "seed", "bin")
VOTES = ("vote_1", "vote_2", "vote_3")
"""In place of `bin`: what three calls said of the clip, each a bin or empty."""
STUDY = "study"
"""A column that may stand beside a swept setting: conditions are compared within a study."""
RECOGNISED = "a .csv (scene,model,seed,bin), a <scene>_<model>_bins.json, a rows.jsonl, or a folder of them"


class BinsRollout(Strict):
    """One rollout of a bins file: `bin` is 1-based, or null."""

    seed: int = Field(ge=0, lt=2**64)
    bin: int | None


class Bins(Strict):
    """CaliBench's `<scene>_<model>_bins.json`."""

    scene: str
    model: str
    num_bins: int
    rollouts: list[BinsRollout] = Field(min_length=1)


class Row(Strict):
    """One line of PAWBench's `rows.jsonl`: what was observed in one slot."""

    sample_id: str = Field(min_length=1)
    source_sample_id: str = Field(min_length=1)
    scene_id: str = Field(min_length=1)
    track: Literal["calibration", "coverage"]
    model_or_lane: str
    repeat_index: int | str
    observation: Literal["outcome", "null_observation", "infrastructure_failure"]
    outcome_label: str | None = None
    failure_code: str | None = None

    @property
    def repeat(self) -> int:
        """The repeat as a number: 7 and "7" are the same."""
        return int(self.repeat_index)


def row_faults(row: Row) -> list[str]:
    """Return what is wrong with a row in itself: a name, a repeat that is no number, a label or a code that does not fit."""
    told = []
    try:
        check_name(row.model_or_lane)
    except ValueError as error:
        told.append(f"model_or_lane {shown(row.model_or_lane)} {error}")
    if not re.fullmatch(r"[0-9]{1,9}", str(row.repeat_index)):
        told.append(f"repeat_index {shown(row.repeat_index)} must be a whole number of at least 0")
    if (row.outcome_label is not None) != (row.observation == "outcome"):
        told.append(f"outcome_label {shown(row.outcome_label)} does not go with {row.observation!r}: outcomes alone have one")
    if bool(row.failure_code) != (row.observation == "infrastructure_failure"):
        told.append(f"failure_code {shown(row.failure_code)} does not go with {row.observation!r}: failures alone have one")
    return told


@dataclass
class Cells:
    """Counts by bin and nulls of one model on one CaliBench scene, and the bin (1-based, or None) of each seed."""

    counts: list[int]
    nulls: int = 0
    bins: dict[int, int | None] = field(default_factory=dict)

    def add(self, seed: int, position: int | None) -> None:
        """Count one rollout."""
        self.bins[seed] = position
        if position is None:
            self.nulls += 1
        else:
            self.counts[position - 1] += 1


@dataclass
class Labels:
    """What was read: CaliBench cells by (model, scene); PAWBench rows with where each stood; files with their digests.

    `swept` holds, in place of `cells`, the cells by (study, model, scene) and then by the value of the swept setting, and
    `swept_rows`, in place of `rows`, the rows by that value.
    """

    cells: dict[tuple[str, str], Cells] = field(default_factory=dict)
    swept: dict[tuple[str, str, str], dict[str, Cells]] = field(default_factory=dict)
    rows: list[tuple[str, Row]] = field(default_factory=list)
    swept_rows: dict[str, list[tuple[str, Row]]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def decided(votes: list[int | None]) -> int | None:
    """Return what most calls said, None being a vote too; None where no answer has more than half (CaliBench, three calls)."""
    answer, count = Counter(votes).most_common(1)[0]
    return answer if 2 * count > len(votes) else None


class _Reader:
    """Reads files into `Labels`, remembering where each slot was first seen."""

    def __init__(self, by: str | None) -> None:
        self.labels, self.problems, self.by = Labels(), Problems(), by
        self._first: dict[tuple[str, str, str, str, int], str] = {}
        self._folder: str | None = None

    def take(self, path: Path, folder: str | None = None) -> None:
        """Read one file; `folder` names the one it is in, below the folder that was asked for."""
        self._folder = folder
        text = read_text(path, self.problems)
        if text is None:
            return
        self.labels.files[str(path)] = sha256(text.encode()).hexdigest()
        {".csv": self._csv, ".jsonl": self._rows}.get(path.suffix.lower(), self._bins)(path, text)

    def _rollout(
        self, where: str, scene: str, model: str, seed: int, votes: list[int | None], study: str = "", condition: str = ""
    ) -> None:
        """Count one rollout of CaliBench, read once or by three votes, after checking that all of it may stand."""
        if scene not in SCENES:
            return self.problems.add(where, f"scene {shown(scene)} is none of CaliBench's" + suggestion(scene, tuple(SCENES)))
        for kind, name in (
            ("model", model),
            *([(self.by, condition)] if self.by else []),
            *([(STUDY, study)] if study else []),
        ):
            try:
                check_name(name)
            except ValueError as error:
                return self.problems.add(where, f"{kind} {shown(name)} {error}")
        k = len(SCENES[scene].outcomes)
        for position in votes:
            if position is not None and not 1 <= position <= k:
                return self.problems.add(
                    where,
                    f"bin {position} of scene {scene!r} must be from 1 to {k} ({', '.join(SCENES[scene].outcomes)}), or empty",
                )
        first = self._first.setdefault((scene, model, study, condition, seed), where)
        if first != where:
            at = f", {self.by} {shown(condition)}" if self.by else ""
            return self.problems.add(
                where, f"seed {seed} of {scene!r}, model {shown(model)}{at} occurs twice, first in {first}"
            )
        if self.by:
            cell = self.labels.swept.setdefault((study, model, scene), {}).setdefault(condition, Cells([0] * k))
        else:
            cell = self.labels.cells.setdefault((model, scene), Cells([0] * k))
        return cell.add(seed, decided(votes))

    def _csv(self, path: Path, text: str) -> None:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        try:
            header = next(reader)
            if wrong := self._wrong_header(header):
                return self.problems.add(f"{path}, line 1", wrong)
            lines = 0
            for fields in reader:
                if not fields:
                    continue  # a blank line says nothing
                lines += 1
                where = f"{path}, line {reader.line_num}"
                if len(fields) != len(header):
                    self.problems.add(where, f"has {len(fields)} fields, the header has {len(header)}")
                    continue
                self._csv_row(where, dict(zip(header, fields, strict=True)))
        except csv.Error as error:
            return self.problems.add(f"{path}, line {reader.line_num}", f"is not CSV: {error}")
        return None if lines else self.problems.add(path, "has a header and no rollouts")

    def _wrong_header(self, header: list[str]) -> str:
        """Say what is wrong with a CSV's columns, nothing if they are fine."""
        asked = (*COLUMNS, *([self.by] if self.by else []))
        needed = tuple(name for name in asked if name != "bin") + VOTES if set(VOTES) & set(header) else asked
        if set(header) - ({STUDY} if self.by else set()) == set(needed) and len(set(header)) == len(header):
            return ""
        unknown = [name for name in header if name not in needed and not (self.by and name == STUDY)]
        odd = ", ".join(shown(name) for name in unknown) or "none unknown"
        missing = ", ".join(name for name in needed if name not in header) or "none missing"
        hint = "; give by=COLUMN to compare the values of a swept setting" if missing == "none missing" and not self.by else ""
        if "vlm" in unknown:
            hint = "; people's labels are given as human=PATH"
        return f"columns must be {','.join(needed)}, each once; unknown: {odd}; missing: {missing}{hint}"

    def _csv_row(self, where: str, row: dict[str, str]) -> None:
        seed, votes = row["seed"], [row[name] for name in (VOTES if VOTES[0] in row else ("bin",))]
        fine = True
        if not re.fullmatch(r"[0-9]{1,20}", seed) or int(seed) >= 2**64:
            self.problems.add(where, f"seed {shown(seed)} must be a whole number from 0 to 2**64 - 1")
            fine = False
        for position in votes:
            if not re.fullmatch(r"[0-9]{0,6}", position):
                self.problems.add(where, f"bin {shown(position)} must be a whole number from 1 on, or empty for no outcome")
                fine = False
        if fine:
            bins = [int(position) if position else None for position in votes]
            condition = row[self.by] if self.by else ""
            self._rollout(where, row["scene"], row["model"], int(seed), bins, row.get(STUDY, ""), condition)

    def _states_no_setting(self, where: object) -> None:
        self.problems.add(
            where,
            f"states no {self.by}: by={self.by} needs a CSV with that column, rows with that key, or for each value a folder "
            "of that name in data=",
        )

    def _bins(self, path: Path, text: str) -> None:
        if self.by and self._folder is None:
            return self._states_no_setting(path)
        try:
            bins = parse_model(Bins, parse_json(text), path, self.problems)
        except ValueError as error:
            return self.problems.add(path, str(error))
        if bins is None:
            return None
        if path.name.endswith("_bins.json") and path.name != f"{bins.scene}_{bins.model}_bins.json":
            self.problems.add(path, f"holds scene {shown(bins.scene)}, model {shown(bins.model)}: its name says otherwise")
        if bins.scene in SCENES and bins.num_bins != len(SCENES[bins.scene].outcomes):
            return self.problems.add(path, f"num_bins: must be {len(SCENES[bins.scene].outcomes)}, got {bins.num_bins}")
        for index, rollout in enumerate(bins.rollouts):
            where = f"{path}, rollouts.{index}"
            self._rollout(where, bins.scene, bins.model, rollout.seed, [rollout.bin], condition=self._folder or "")
        return None

    def _rows(self, path: Path, text: str) -> None:
        for where, value in json_lines(path, text, self.problems):
            row = parse_model(Row, value, where, self.problems)
            if row is None or not self._row_fits(where, row):
                continue
            if self.by is None:
                self.labels.rows.append((where, row))
            elif (setting := value.get(self.by, self._folder)) is None:
                return self._states_no_setting(where)
            elif isinstance(setting, bool) or not isinstance(setting, str | int | float) or not str(setting).isprintable():
                self.problems.add(where, f"{self.by} {shown(setting)} must be printable text or a number")
            else:
                self.labels.swept_rows.setdefault(str(setting), []).append((where, row))
        return None

    def _row_fits(self, where: str, row: Row) -> bool:
        faults = row_faults(row)
        for fault in faults:
            self.problems.add(where, fault)
        return not faults


def _label_file(path: Path) -> bool:
    return path.name == "rows.jsonl" or path.name.endswith("_bins.json") or path.suffix.lower() == ".csv"


def read_labels(path: Path, by: str | None = None) -> Labels:
    """Read a label file, or a folder of them; `by` names a swept setting: `Labels.swept` and `swept_rows`.

    Raises `UserError` with every problem found; nothing is half read.
    """
    if by in (*COLUMNS, *VOTES, STUDY, *(name for name in Row.model_fields if name != "model_or_lane")):
        raise UserError(f"by={by}: names the swept setting, such as condition; {by!r} is another column or key")
    reader = _Reader(by)
    if not path.is_dir():
        if path.exists() and path.suffix.lower() not in (".csv", ".json", ".jsonl"):
            raise UserError(f"{path}: not a kind of file that is recognised; give {RECOGNISED}")
        reader.take(path)
    else:
        found = [
            item for item in sorted([*path.glob("*"), *path.glob("*/*")]) if not item.is_dir() and not item.name.startswith(".")
        ]
        if len(found) > MAXIMUM_FILES:
            raise UserError(f"{path}: holds {len(found)} files, at most {MAXIMUM_FILES} are read; give a smaller folder")
        for item in found:
            if _label_file(item):
                reader.take(item, item.parent.name if item.parent != path else None)
            else:
                reader.labels.ignored.append(str(item))
        if not reader.labels.files and not reader.problems.found:
            raise UserError(f"{path}: holds no label file; looked for {RECOGNISED}")
    reader.problems.check()
    return reader.labels
