"""The one place that configures numba: where compiled code is kept, and the word that the first use says.

It refuses to compute anything, and to go on quietly when compiled code cannot be kept.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config, event

_F = TypeVar("_F", bound=Callable[..., Any])
_log = logging.getLogger("quincunx")
_ours: set[int] = set()


class CacheError(RuntimeError):
    """Compiled code cannot be kept where it should be."""


@cache
def cache_root() -> Path:
    """Return the folder that keeps compiled code: `NUMBA_CACHE_DIR`, else quincunx/numba in the user's cache folder.

    Raises `CacheError`, naming the place and the variable to set, when it cannot be written.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        root = Path(chosen)
    else:
        home = os.environ.get("XDG_CACHE_HOME")
        root = (Path(home) if home else Path.home() / ".cache") / "quincunx" / "numba"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise CacheError(
            f"compiled code cannot be kept in {root} ({error.strerror}); set NUMBA_CACHE_DIR to a folder you can write to"
        ) from error
    return root


def _imported(file: Path, package: Path) -> Iterator[Path]:
    """Yield the files of `package` that a module takes names from; a package's own file only for names that it defines."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[tuple[str, str]] = []
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [(node.module, alias.name) for alias in node.names]
        for module, name in names:
            place = package.parent.joinpath(*module.split("."))
            choices = ((place / name).with_suffix(".py"), place / name / "__init__.py") if name else ()
            files = (*choices, place.with_suffix(".py"), place / "__init__.py")
            if module.split(".")[0] == package.name:
                yield from [f for f in files if f.is_file()][:1]


@cache
def _sources(path: Path) -> frozenset[Path]:
    """Return a module's file and those of `simulators` that it imports, directly or not."""
    package = Path(__file__).resolve().parent
    found: set[Path] = set()
    pending = [path.resolve()]
    while pending:
        file = pending.pop()
        if file not in found:
            found.add(file)
            pending += _imported(file, package)
    return frozenset(found)


def _folder(module_file: str) -> Path:
    """Return the cache folder of one module, named by every source its compiled code can come from.

    Numba looks only at the file a function is written in: after an edit of a constant or a function elsewhere it would
    load stale code, and stale physics is a wrong result.
    """
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for file in sorted(_sources(Path(module_file))):
        digest.update(file.read_bytes())
    return cache_root() / digest.hexdigest()


class _Announcer(event.Listener):
    """Says once in a process that code is compiled; a load from the cache does not raise this event."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: event.Event) -> None:
        if not self.said and id(event.data.get("dispatcher")) in _ours:
            self.said = True
            _log.warning("compiling for the first use on this machine (under a minute); kept in %s", cache_root())

    def on_end(self, event: event.Event) -> None:
        """Nothing to say."""


event.register("numba:compile", _Announcer())


def jit(function: _F) -> _F:
    """Compile `function` on first use: no Python objects, no interpreter lock, IEEE arithmetic, kept between runs.

    Raises `CacheError` where compiled code cannot be kept.
    """
    return _compiled(function)


def borrowing(function: _F) -> _F:
    """Compile like `jit` a function that makes no array: those it is given are borrowed from the caller, not counted.

    Numba counts references to an array at every call that it passes through; where small functions call one another for
    every ray that was half of the time.
    """
    return _compiled(function, _nrt=False)


def inlined(function: _F) -> _F:
    """Compile like `borrowing` a small function that is put into each of its callers.

    An array is passed as seven to nine numbers at every call; where small functions are called for every ray, that was half of
    the time.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: _F, **options: bool) -> _F:
    file = sys.modules[function.__module__].__file__ or ""
    before = config.CACHE_DIR  # type: ignore[attr-defined]
    # read when a function's cache is attached, so it serves even where numba was imported earlier by somebody else
    config.CACHE_DIR = str(_folder(file))  # type: ignore[attr-defined]
    try:
        settings: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": False, "error_model": "numpy", **options}
        compiled: Any = numba.njit(**settings)
        dispatcher = compiled(function)
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]
    _ours.add(id(dispatcher))
    return cast(_F, dispatcher)
