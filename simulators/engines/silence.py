"""Keeps what a C library prints at import from the user's terminal; a Python error still shows as ever."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Send the process's standard error to nowhere while the block runs."""
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error to keep silent
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
