"""The keys that every verb which runs physics shares: what integrates, and which workers it runs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from refcheck.command import Option, UserError
from scenes.scene import Scene
from simulators.execute import CHOICES, ExecutorError, Pool

ENGINE = Option("engine", "str", "auto", "what integrates: auto (the kernel where there is one), kernel, engine, or one's name")
WORKERS = Option("workers", "int", None, "how many at a time, by default one a core; the result is the same", low=1, high=1024)
EXECUTOR = Option(
    "executor", "str", "auto", "where rollouts run; auto: threads for kernels, processes for engines", choices=CHOICES
)
CLUSTER = Option("cluster", "str", None, "dask: a scheduler's address, else a local one; slurm: `local`, or its parameters")
RUNNING = (ENGINE, WORKERS, EXECUTOR, CLUSTER)


def run_by(scene: Scene, engine: str) -> Scene:
    """Return `scene` run by what `engine=` asks for. Raises `UserError` where it has no such integrator."""
    try:
        return scene.run_by(engine)
    except ValueError as error:
        raise UserError(str(error)) from error


@contextmanager
def pool_of(values: Mapping[str, Any], out: Path | None = None) -> Iterator[Pool]:
    """Yield the workers that the keys ask for. Raises `UserError` where they cannot be had."""
    folder = (out or Path()) / "slurm-jobs"
    try:
        with Pool(values["executor"], values["workers"], values["cluster"], folder) as pool:
            yield pool
    except ExecutorError as error:
        raise UserError(str(error)) from error
