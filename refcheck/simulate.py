"""`quincunx simulate`: many rollouts of one scene, one row each. It never compares them with a reference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.table import Table

from refcheck.command import Answer, Option, Request, UserError
from refcheck.output import RESULT, atomic, withdraw
from refcheck.running import RUNNING, pool_of, run_by
from refcheck.tally import Tally
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import NULL_REASONS, Rollouts
from simulators.engines.loop import physics_digest
from simulators.execute import run_range
from simulators.sampling import BLOCK

SUMMARY = "rollouts of a scene to Parquet: index, outcome, null reason, settle time"
OPTIONS = (
    Option("n", "int", 1000, "rollouts", low=1, high=10**12),
    Option("first", "int", 0, "index of the first", low=0, high=2**53),
    Option("seed", "int", 0, "seed of the launches", low=0, high=2**64 - 1),
    *RUNNING,
)
USES_SCENES = "one"

ROLLOUTS, LEDGER = "rollouts.parquet", "_ledger.json"
PART = 32 * BLOCK  # rows a file: what a run that is killed may have to do again


def tally_of(scene: Scene, fact: np.ndarray, null: np.ndarray) -> Tally:
    """Return the tally of rollouts given as facts (n,) and null codes (n,): independent, since each has its own index."""
    facts = np.bincount(fact[fact >= 0], minlength=len(scene.device.facts))
    return tally_of_counts(scene, facts, np.bincount(null[fact < 0], minlength=len(NULL_REASONS)))


def run(request: Request) -> Answer:
    """Run the rollouts, count them, and write them where `out` says, a part at a time.

    Killed at any moment and started again it goes on after the last part that is whole. Raises `UserError` where `out` holds
    the rows of another run, `InfrastructureError` when a worker dies.
    """
    values = request.values
    scene = run_by(load_scene(request.scenes[0], request.overrides), values["engine"])
    n, first, seed = values["n"], values["first"], values["seed"]
    identity = {
        "schema": "quincunx.rollouts/v1",
        "scene": scene.id,
        "digest": physics_digest(scene.device, scene.integrator),
        "stream": scene.stream,
        "seed": str(seed),
    }
    if request.out:
        withdraw(request.out, RESULT)  # an earlier result never stands beside the rows of this run
    store = Store(request.out / ROLLOUTS, {**identity, "first": first, "n": n}, request.overwrite) if request.out else None
    facts, nulls = np.zeros(len(scene.device.facts), np.int64), np.zeros(len(NULL_REASONS), np.int64)
    done = 0
    for part in store.parts if store else ():
        facts += part["facts"]
        nulls += part["nulls"]
        done += part["n"]
    with pool_of(values, request.out) as pool, request.progress(scene.id, n) as advance:
        advance(done)
        stream = run_range(scene.integrator, scene.device, seed, scene.stream, first + done, first + n, pool)
        for some in _chunks(stream, PART, advance):
            counts = np.bincount(some.fact[some.fact >= 0], minlength=len(facts)), np.bincount(some.null, minlength=len(nulls))
            facts += counts[0]
            nulls += counts[1]
            if store:
                store.add(table_of(scene, some, identity), counts)
    tally = tally_of_counts(scene, facts, nulls)
    result: dict[str, Any] = {
        "scene": scene.id,
        "digest": identity["digest"],
        "stream": scene.stream,
        "first": first,
        "n": n,
        "tally": tally,
        "null_rate": tally.null / tally.total,
    }
    if store:
        result["rollouts"] = ROLLOUTS
    return Answer(result, (tally_table(scene.id, tally),))


def _chunks(stream: Iterator[Rollouts], size: int, advance: Any) -> Iterator[Rollouts]:
    """Yield rollouts `size` at a time, the last as many as are left; `advance` hears of each slice."""
    held, count = list[Rollouts](), 0
    for part in stream:
        advance(len(part))
        held.append(part)
        count += len(part)
        while count >= size:
            whole = Rollouts.concatenate(held)
            yield whole[:size]
            held, count = [whole[size:]], count - size
    if count:
        yield Rollouts.concatenate(held)


class Store:
    """A folder of Parquet files and their ledger; any Parquet reader takes the folder as one table.

    A file takes its name only when it is whole, and its entry in the ledger after that: files without an entry are written
    again, to the same bytes.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], overwrite: bool) -> None:
        self.folder, self.identity = folder, identity
        if folder.is_file():
            raise UserError(f"{folder} is a file, and rows are to be written to a folder there: give another folder with out=")
        folder.mkdir(parents=True, exist_ok=True)
        self.parts: list[dict[str, Any]] = []
        there = folder / LEDGER
        if there.exists() and not overwrite:
            try:
                ledger = json.loads(there.read_text("utf-8"))
                same, parts = ledger["identity"] == identity, list(ledger["parts"])
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{there} is no ledger of ours: give another folder, or add overwrite=true") from error
            if not same:
                raise UserError(f"{folder} holds rows of another run: give another folder with out=, or add overwrite=true")
            for part in parts:
                file = folder / part["file"]
                if file.name != _name(len(self.parts)) or not file.is_file() or _sha256(file) != part["sha256"]:
                    break
                self.parts.append(part)
        keep = {part["file"] for part in self.parts}
        for old in folder.iterdir():
            if old.is_file() and old.name not in keep:
                old.unlink()
        self._write()

    def add(self, table: pa.Table, counts: tuple[np.ndarray, np.ndarray]) -> None:
        """Write the next part, then its entry."""
        file = self.folder / _name(len(self.parts))
        with atomic(file) as temporary:
            pq.write_table(table, temporary)
        entry = {"file": file.name, "n": len(table), "facts": counts[0].tolist(), "nulls": counts[1].tolist()}
        self.parts.append({**entry, "sha256": _sha256(file)})
        self._write()

    def _write(self) -> None:
        with atomic(self.folder / LEDGER) as temporary:
            temporary.write_text(json.dumps({"identity": self.identity, "parts": self.parts}, indent=1) + "\n", "utf-8")


def _name(number: int) -> str:
    return f"part-{number:08d}.parquet"


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def table_of(scene: Scene, rollouts: Rollouts, names: dict[str, str]) -> pa.Table:
    """Return one row a rollout; `names` (digest, seed, stream ...) go into the table's metadata.

    Columns: index; outcome, fact and first_outcome (null without one); null_reason (null with an outcome); settle_time [s].
    """
    return pa.table(
        {
            "index": pa.array(rollouts.index, pa.int64()),
            "outcome": _words(scene.outcomes, scene.outcome(rollouts.fact)),
            "fact": _words(scene.device.facts, rollouts.fact),
            "first_outcome": _words(scene.outcomes, scene.outcome(rollouts.first)),
            "null_reason": _words(NULL_REASONS[1:], rollouts.null.astype(np.int16) - 1),
            "settle_time": pa.array(rollouts.settle_time, pa.float64(), mask=np.isnan(rollouts.settle_time)),
        }
    ).replace_schema_metadata(names)


def _words(words: Sequence[str], positions: np.ndarray) -> pa.Array:
    """Return text (n,) by its position in `words`, null for a negative one."""
    table = np.array([*words, ""], object)
    return pa.array(table[np.where(positions < 0, len(words), positions)], pa.string(), mask=positions < 0)


def tally_of_counts(scene: Scene, facts: np.ndarray, nulls: np.ndarray) -> Tally:
    """Return the tally of rollouts counted by fact and by null code (code 0 is none)."""
    counts = np.zeros(len(scene.outcomes), np.int64)
    np.add.at(counts, np.array(scene.outcome_of_fact), facts)
    reasons = {reason: int(nulls[code]) for code, reason in enumerate(NULL_REASONS) if reason}
    return Tally(scene.outcomes, tuple(int(c) for c in counts), reasons, "iid")


def tally_table(title: str, tally: Tally) -> Table:
    """Return outcomes and null reasons with counts and shares: of the valid rollouts, and of all."""
    table = Table(
        title=f"{title}: {tally.total} rollouts, {tally.valid} ended in an outcome", title_justify="left", box=box.SIMPLE
    )
    table.add_column("outcome")
    for name in ("count", "share of valid", "share of all"):
        table.add_column(name, justify="right")
    for label, count in zip(tally.outcomes, tally.counts, strict=True):
        share = f"{count / tally.valid:.4f}" if tally.valid else "-"
        table.add_row(label, str(count), share, f"{count / tally.total:.4f}")
    for reason, count in tally.nulls.items():
        table.add_row(f"null: {reason}", str(count), "", f"{count / tally.total:.4f}", style="dim" if not count else "yellow")
    return table
