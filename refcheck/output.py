"""What leaves a verb: result.json with all that reproduces it, tables, and progress on standard error.

It refuses to know what a verb computes.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from refcheck.command import UserError, printable
from refcheck.options import Asked

RESULT = "result.json"
LIBRARIES = ("numpy", "scipy", "pybullet", "pymunk", "numba")
QUIET, EVERY = 2.0, 10.0  # s: nothing is drawn for what takes less; a line at most so often where there is no terminal
NOT_PHYSICS = ("workers", "executor", "cluster")
"""Options that change no result, so that a rerun with others is the same run."""


def header(verb: str, version: str, asked: Asked) -> dict[str, Any]:
    """Return what every result says of its origin. Raises `SceneError` with what is wrong in any of the scenes asked for."""
    document: dict[str, Any] = {
        "schema": f"quincunx.{verb}/v1",
        "verb": verb,
        "version": version,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: _installed(name) for name in LIBRARIES}},
        "config": {"options": plain(asked.values), "overrides": list(asked.overrides)},
    }
    if "seed" in asked.values:
        document["seed"] = asked.values["seed"]
    if asked.uses in (True, "one") or (asked.uses == "optional" and len(asked.scenes) == 1):
        document["config"]["scenes"], document["digests"] = _scenes(asked)
    return document


def _scenes(asked: Asked) -> tuple[dict[str, Any], dict[str, str]]:
    from refcheck.running import run_by
    from scenes.load import SceneError, build_scene, compose_scene, where
    from simulators.engines.loop import physics_digest

    configs, digests, problems = {}, {}, list[str]()
    for id in asked.scenes:
        try:
            configs[id] = compose_scene(id, asked.overrides)
            scene = run_by(build_scene(configs[id], where(id, asked.overrides)), asked.values.get("engine", "auto"))
            digests[id] = physics_digest(scene.device, scene.integrator)
        except SceneError as error:
            problems += error.problems
    if problems:
        raise SceneError(*problems)
    return configs, digests


def _installed(name: str) -> str | None:
    try:
        return installed(name)
    except PackageNotFoundError:
        return None


def claim(asked: Asked, document: Mapping[str, Any]) -> None:
    """Make the folder `out` before anything is computed; refuse one that holds the result of another run.

    The same command may be run again into its own folder. Raises `UserError`; `OSError` where it cannot be written.
    """
    out = asked.out
    if out is None:
        return
    if out.exists() and not out.is_dir():
        raise UserError(f"out={out} is a file: give a folder")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):
        pass  # fails now, not after an hour
    there = out / RESULT
    if there.is_dir():
        raise UserError(f"{there} is a folder, and a result is to be written there: give another folder with out=")
    if not there.exists() or asked.overwrite:
        return
    try:
        previous = json.loads(there.read_text("utf-8"))
        same = _identity(previous) == _identity(plain(document))
        described = f"{previous['schema']} of {previous['created']}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{there} is no result of ours: give another folder with out=, or add overwrite=true") from error
    if not same:
        raise UserError(f"out={out} holds {described}, from another command: give another folder, or add overwrite=true")


def _identity(document: Mapping[str, Any]) -> object:
    config = dict(document["config"])
    config["options"] = {key: value for key, value in config["options"].items() if key not in NOT_PHYSICS}
    return document["verb"], document["version"], config


def complete(document: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole document: origin first, then the verb's own result. Raises `ValueError` where they share a key.

    A verb whose result has more than one form may name that in its `schema`.
    """
    if shared := sorted((document.keys() & result.keys()) - {"schema"}):
        raise ValueError(f"a verb's result may not use the keys {shared}")
    return plain({**document, **result})


def withdraw(out: Path, *names: str) -> None:
    """Remove files of an earlier run from `out`, before a new one writes there: what is left never mixes the two."""
    for name in names:
        (out / name).unlink(missing_ok=True)


def write(out: Path, document: Mapping[str, Any]) -> None:
    """Write `result.json`, atomically."""
    with atomic(out / RESULT) as path:
        path.write_text(to_json(document), "utf-8")


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it takes the place of `path` only when the block ends well."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp's is 0600: a result is for colleagues too
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def to_json(document: Mapping[str, Any]) -> str:
    """Return JSON that any reader takes: no NaN, no infinity."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return plain JSON data: dataclasses as mappings, arrays as lists, fractions and paths as text, NaN and inf as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # a file's name may be bytes that are no text
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (Fraction, Path)):
        return plain(str(value))
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return plain(value.tolist())
    raise TypeError(f"a result must be plain data, got {value!r}")


class _Console(Console):
    """Prints no control characters: a name or a label in a file may hold what would drive a terminal."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Return the text of cells, titles and lines alike."""
        return super().render_str(printable(text), **how)


def _console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console that prints text as it is: a label or a path may hold brackets, or a word between colons."""
    return _Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def show(tables: Sequence[Any], document: Mapping[str, Any], *, as_json: bool, where: Path | None) -> None:
    """Print the JSON alone, or the tables and where the result is."""
    if as_json:
        print(to_json(document), end="", flush=True)
        return
    console = _console()
    if not console.is_terminal:
        console = _console(width=120)
    for table in tables:
        console.print(table)
    if where:
        print(f"{where / RESULT} holds the whole result")


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Yield `advance(count)`. After two seconds draws a bar on standard error, or plain lines where that is no terminal."""
    console = _console(stderr=True)
    begun = last = time.monotonic()
    done = 0
    bar: Bar | None = None

    def advance(count: int = 1) -> None:
        nonlocal done, last, bar
        done += count
        now = time.monotonic()
        if now - begun < QUIET:
            return
        if console.is_terminal:
            if bar is None:
                columns = (
                    TextColumn("{task.description}", markup=False),
                    BarColumn(),
                    MofNCompleteColumn(),
                    TextColumn("{task.fields[rate]}"),
                    TimeElapsedColumn(),
                    TimeRemainingColumn(),
                )
                bar = Bar(*columns, console=console, transient=True)
                bar.add_task(label, total=total, rate="")
                bar.start()
            bar.update(bar.task_ids[0], completed=done, rate=f"{done / (now - begun):,.0f}/s")
        elif now - last >= EVERY:
            last = now
            rate = done / (now - begun)
            left = f", {(total - done) / rate:.0f} s left" if total and rate > 0.0 else ""
            console.print(f"{label}: {done}{f' of {total}' if total else ''} in {now - begun:.0f} s, {rate:,.0f}/s{left}")

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()
