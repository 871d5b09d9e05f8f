"""An append-only file of JSON lines that survives being killed at any point. It knows nothing of what the lines say."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from refcheck.command import UserError
from refcheck.untrusted import parse_json


class Journal:
    """Lines of a file, read when it is opened; each one added is on the disk before `add` returns.

    A last line without its end is what a killed writer left: `add` never returned for it, so it is taken away. Raises
    `UserError` where another process has the file open, or where a line is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise UserError(f"{path} is being written by another run: wait for it, or give another folder with out=") from error
        try:
            self.lines = self._read()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> list[dict[str, Any]]:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        lines = []
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                value = parse_json(line.decode("utf-8"))
                if not isinstance(value, dict):
                    raise ValueError("is not a JSON object")
            except ValueError as error:
                raise UserError(
                    f"{self.path}, line {number}: {error}; the file was changed by something else: mend the line, or give "
                    "another folder with out="
                ) from error
            lines.append(value)
        return lines

    def add(self, line: Mapping[str, Any]) -> None:
        """Append one line and wait until it is on the disk; several threads may call."""
        data = json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with self._lock:
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Give the file up."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
