"""`quincunx simulate`: many rollouts of one scene, one row each. It never compares them with a reference."""

from __future__ import annotations

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
from refcheck.tally import Tally
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import NULL_REASONS, Rollouts
from simulators.engines.loop import physics_digest
from simulators.execute import open_executor, run_slices

ENGINE = Option("engine", "str", "auto", "what integrates: auto (the kernel where there is one), kernel, engine, or one's name")

SUMMARY = "rollouts of a scene to Parquet: index, outcome, null reason, settle time"
OPTIONS = (
    Option("n", "int", 1000, "rollouts", low=1, high=10_000_000),
    Option("first", "int", 0, "index of the first", low=0, high=2**53),
    Option("seed", "int", 0, "seed of the launches", low=0, high=2**64 - 1),
    Option("workers", "int", None, "processes, by default one a core; the rows are the same", low=1, high=1024),
    ENGINE,
)
USES_SCENES = "one"

SLICE = 64  # rollouts a worker is given at a time: a fraction of a second, so that no worker waits long for another
ROLLOUTS = "rollouts.parquet"


def run_by(scene: Scene, engine: str) -> Scene:
    """Return `scene` run by what `engine=` asks for. Raises `UserError` where it has no such integrator."""
    try:
        return scene.run_by(engine)
    except ValueError as error:
        raise UserError(str(error)) from error


def slices(first: int, stop: int | None, size: int = SLICE) -> Iterator[range]:
    """Yield ranges of at most `size` indices from `first` to `stop`, or without end."""
    while stop is None or first < stop:
        yield range(first, first + size if stop is None else min(first + size, stop))
        first += size


def tally_of(scene: Scene, fact: np.ndarray, null: np.ndarray) -> Tally:
    """Return the tally of rollouts given as facts (n,) and null codes (n,): independent, since each has its own index."""
    outcome = scene.outcome(fact)
    counts = np.bincount(outcome[outcome >= 0], minlength=len(scene.outcomes))
    nulls = np.bincount(null[outcome < 0], minlength=len(NULL_REASONS))
    reasons = {reason: int(nulls[code]) for code, reason in enumerate(NULL_REASONS) if reason}
    return Tally(scene.outcomes, tuple(int(c) for c in counts), reasons, "iid")


def run(request: Request) -> Answer:
    """Run the rollouts, count them, and write them where `out` says. Raises `InfrastructureError` when a worker dies."""
    values = request.values
    scene = run_by(load_scene(request.scenes[0], request.overrides), request.values["engine"])
    n, first, seed = values["n"], values["first"], values["seed"]
    parts: list[Rollouts] = []
    with open_executor(values["workers"]) as executor, request.progress(scene.id, n) as advance:
        for part in run_slices(scene.integrator, scene.device, seed, scene.stream, slices(first, first + n), executor):
            parts.append(part)
            advance(len(part))
    rollouts = Rollouts.concatenate(parts)
    tally = tally_of(scene, rollouts.fact, rollouts.null)
    digest = physics_digest(scene.device, scene.integrator)
    result: dict[str, Any] = {
        "scene": scene.id,
        "stream": scene.stream,
        "first": first,
        "n": n,
        "tally": tally,
        "null_rate": tally.null / tally.total,
    }
    if request.out:
        withdraw(request.out, RESULT)  # an earlier result never stands beside the rows of this run
        write_parquet(request.out / ROLLOUTS, scene, rollouts, {"digest": digest, "seed": str(seed), "stream": scene.stream})
        result["rollouts"] = ROLLOUTS
    return Answer(result, (tally_table(scene.id, tally),))


def write_parquet(path: Path, scene: Scene, rollouts: Rollouts, names: dict[str, str]) -> None:
    """Write one row a rollout, atomically; `names` (digest, seed, stream) go into the file's metadata.

    Columns: index; outcome, fact and first_outcome (null without one); null_reason (null with an outcome); settle_time [s].
    """
    table = pa.table(
        {
            "index": pa.array(rollouts.index, pa.int64()),
            "outcome": _words(scene.outcomes, scene.outcome(rollouts.fact)),
            "fact": _words(scene.device.facts, rollouts.fact),
            "first_outcome": _words(scene.outcomes, scene.outcome(rollouts.first)),
            "null_reason": _words(NULL_REASONS[1:], rollouts.null.astype(np.int16) - 1),
            "settle_time": pa.array(rollouts.settle_time, pa.float64(), mask=np.isnan(rollouts.settle_time)),
        }
    ).replace_schema_metadata({"schema": "quincunx.rollouts/v1", "scene": scene.id, **names})
    with atomic(path) as temporary:
        pq.write_table(table, temporary)


def _words(words: Sequence[str], positions: np.ndarray) -> pa.Array:
    """Return text (n,) by its position in `words`, null for a negative one."""
    table = np.array([*words, ""], object)
    return pa.array(table[np.where(positions < 0, len(words), positions)], pa.string(), mask=positions < 0)


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
