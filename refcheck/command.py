"""What a verb is: its options, what it is asked, what it answers. Standard library only, so that starting costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

COMPLETED, NOT_MET, USER_MISTAKE, INFRASTRUCTURE = 0, 1, 2, 3
"""Exit statuses: done; a `require=` verdict not met; the user's mistake; a machine's."""


class UserError(Exception):
    """Mistakes in what the user gave: one clear sentence each (what, where, what is allowed, what to do), all at once."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def printable(text: str) -> str:
    """Return `text` with everything but letters, signs, spaces and new lines escaped: nothing in a file drives a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


@dataclass(frozen=True)
class Option:
    """One `key=value` a verb takes. `kind` converts; `low` and `high` bound numbers; `choices` bound words.

    A `default` of `...` makes the key required.
    """

    name: str
    kind: Literal["int", "float", "bool", "str", "path"]
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """A verb's checked input: option values by name, the ids of the scenes asked for, and overrides of their configs.

    `progress(label, total)` is a context manager that yields `advance(count)`; it draws to standard error.
    """

    values: Mapping[str, Any]
    scenes: tuple[str, ...]
    overrides: tuple[str, ...]
    out: Path | None
    progress: Callable[..., Any]
    overwrite: bool = False


@dataclass(frozen=True)
class Answer:
    """What a verb gives back: the JSON `result`, readable `tables` (rich renderables or strings), and the exit status.

    The command line adds schema, versions, config and seeds to `result`, and writes it to `out` atomically.
    """

    result: dict[str, Any]
    tables: Sequence[Any] = field(default_factory=tuple)
    status: int = COMPLETED
