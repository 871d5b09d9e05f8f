"""The judge that knows: it looks a clip's bytes up in the sealed truth, to tell a pipeline's own errors from a judge's.

It refuses to look at a picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from refcheck.tally import Reading
from simulators.video import ClipError


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class StateJudge:
    """Answers with the outcome that the rollout truly ended in; `truth` maps a clip's fingerprint to it."""

    truth: Mapping[str, str]

    name: ClassVar[str] = "state"

    @classmethod
    def sealed(cls, paths: Sequence[Path], outcomes: Sequence[str]) -> StateJudge:
        """Seal the outcomes of clips. Raises `ValueError` where equal clips are said to end differently."""
        truth: dict[str, str] = {}
        for path, outcome in zip(paths, outcomes, strict=True):
            if truth.setdefault(fingerprint(path), outcome) != outcome:
                raise ValueError(f"{path} equals another clip, and ends in {outcome!r} where that one does not")
        return cls(truth)

    def read(self, path: Path) -> Reading:
        """Return the truth, with confidence 1. Raises `ClipError` for a clip that was not sealed."""
        try:
            return Reading(self.truth[fingerprint(path)], confidence=1.0)
        except KeyError as error:
            raise ClipError(f"{path} is none of the clips whose truth was sealed") from error
