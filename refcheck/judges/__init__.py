"""Judges: readers of clips. A judge is given the bytes of a re-encoded clip under a random name, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from refcheck.tally import Reading
from simulators.execute import Pool, spread
from simulators.video import ClipError


class Judge(Protocol):
    """What reads a clip. `name` is how results call it."""

    @property
    def name(self) -> str:
        """How results call it."""

    def read(self, path: Path) -> Reading:
        """Return what the clip shows. Raises `ClipError` where there is no readable clip: that is no answer."""


@dataclass(frozen=True)
class Failure:
    """A clip that no judge could be asked about, with the machine's reason. It is never an answer and never a null."""

    reason: str


@dataclass(frozen=True)
class _Task:
    judge: Judge
    path: Path


def _read(task: _Task) -> Reading | Failure:
    try:
        return task.judge.read(task.path)
    except (ClipError, OSError) as error:
        return Failure(str(error))


def read_all(
    judge: Judge, paths: Sequence[Path], pool: Pool | None = None, advance: Callable[[int], Any] = lambda count: None
) -> list[Reading | Failure]:
    """Return what `judge` says of each clip, in order; a file that cannot be read is a `Failure`.

    Raises `InfrastructureError` when a worker dies.
    """
    return spread(pool, _read, [_Task(judge, path) for path in paths], lambda done: advance(1))
