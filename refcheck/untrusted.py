"""Files from outside, read without trust: text of sane size, strict JSON, models that convert nothing, all problems at once.

It knows no label, scene or protocol, and repairs nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from refcheck.command import UserError

MAXIMUM_BYTES = 64 << 20
"""A label file is text of at most a few hundred bytes a rollout, so a larger one is something else."""
SHOWN = 20
"""Problems spelled out before the rest is only counted."""
Model = TypeVar("Model", bound=BaseModel)


class Problems:
    """Everything wrong with what was read, collected so that it is reported at once."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.more = 0

    def add(self, where: object, what: str) -> None:
        """Note a problem: `where` (file, line), `what` with the value and what is allowed."""
        if len(self.found) < SHOWN:
            self.found.append(f"{where}: {what}")
        else:
            self.more += 1

    def check(self) -> None:
        """Raise `UserError` with all problems, if there are any."""
        if self.found:
            raise UserError(*self.found, *([f"... and {self.more} more problems"] if self.more else []))


def shown(value: object, width: int = 60) -> str:
    """Return `value` for a message: its ASCII repr, shortened, so that nothing in a file can write to the terminal."""
    text = ascii(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def suggestion(word: str, allowed: list[str] | tuple[str, ...]) -> str:
    """Return `; did you mean ...?` if there is a close match among `allowed`, else a full stop, and what is allowed."""
    close = get_close_matches(word, allowed, n=1)
    return (f"; did you mean {close[0]!r}?" if close else ".") + f" Allowed: {', '.join(allowed)}"


def read_text(path: Path, problems: Problems) -> str | None:
    """Return the text of a UTF-8 file (a byte-order mark is skipped), or None with the problem noted."""
    wrong = ""
    data = b""
    try:
        if path.is_file():
            with path.open("rb") as stream:
                data = stream.read(MAXIMUM_BYTES + 1)
        else:
            wrong = "is not a regular file" if path.exists() else "there is no such file"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        wrong = f"cannot be read: {error}"
    if len(data) > MAXIMUM_BYTES:
        wrong = f"is larger than the limit of {MAXIMUM_BYTES >> 20} MiB"
    elif not wrong and not data.strip():
        wrong = "is empty"
    if not wrong and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        wrong = "is not UTF-8 but UTF-16, by its first two bytes; save it as UTF-8"
    if not wrong:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            wrong = f"is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}; save it as UTF-8"
    problems.add(path, wrong)
    return None


def parse_json(text: str, *, halves: bool = False) -> Any:
    """Return strict JSON: no NaN or infinity, no key twice, no half of a surrogate pair (but where `halves` may stay).

    Raises `ValueError` saying what is wrong.
    """

    def constant(name: str) -> None:
        raise ValueError(f"{name} is not a JSON number; an unknown outcome is null")

    def integer(digits: str) -> int:
        if len(digits) > 30:
            raise ValueError(f"{digits[:10]}... is a number of {len(digits)} digits")
        return int(digits)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if twice:
            raise ValueError(f"key {shown(twice[0])} occurs twice in one object")
        return dict(pairs)

    try:
        value = json.loads(text, parse_constant=constant, parse_int=integer, object_pairs_hook=unique)
        if not halves:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise ValueError(f"holds {error.object[error.start]!a}, half of a surrogate pair, which is no text") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def parse_model(kind: type[Model], value: Any, where: object, problems: Problems) -> Model | None:
    """Return `value` checked against a pydantic model, or None with every problem noted."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        for item in error.errors(include_url=False, include_context=False):
            place = ".".join(str(part) for part in item["loc"]) or "the whole"
            got = "" if item["type"] == "missing" else f", got {shown(item['input'])}"
            problems.add(where, f"{shown(place, 80)[1:-1]}: {item['msg']}{got}")
        return None


def check_name(name: str) -> str:
    """Return a model's name if it can be printed and is of sane length; raise `ValueError` otherwise."""
    if not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip():
        raise ValueError("must be 1 to 100 printable characters without surrounding spaces")
    return name


class Strict(BaseModel):
    """No type is converted silently; keys we do not know say nothing we use."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


def read_json(path: Path) -> Any:
    """Return what a JSON file holds (see `parse_json`). Raises `UserError` naming the file for one that cannot be read."""
    problems, value = Problems(), None
    text = read_text(path, problems)
    if text is not None:
        try:
            value = parse_json(text)
        except ValueError as error:
            problems.add(path, str(error))
    problems.check()
    return value


def json_lines(path: Path, text: str, problems: Problems) -> Iterator[tuple[str, Any]]:
    """Yield (where, value) of each line of JSON; blank lines are skipped, bad ones noted."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                value = parse_json(line)
            except ValueError as error:
                problems.add(where, str(error))
                continue
            yield where, value
