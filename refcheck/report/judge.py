"""What a controls result says of its judge, in plain words: the items that mean something to a reader, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refcheck.report.numbers import share

LOOKS_AT = {
    "appearance": "the thing that moved, cut out of the last picture",
    "place": "where the last picture differs from the empty scene",
}


def described(judge: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a judge's name for each thing known of it, and what it is; keys that say nothing here are left out."""
    if judge.get("name") == "state":
        return [("reads", "the sealed truth itself, so that it tests the counting and not the reading")]
    said = []
    if count := _count(judge, "per_outcome"):
        said.append(("learned from", f"at most {count:,} rollouts of each outcome, of launches apart from these clips'"))
    unlearned = judge.get("unlearned")
    if isinstance(unlearned, list) and unlearned:
        names = ", ".join(str(one)[:60] for one in unlearned[:20])
        said.append(("cannot answer", f"{names}: too few examples to learn from"))
    looks = judge.get("features")
    if isinstance(looks, str) and looks in LOOKS_AT:
        said.append(("looks at", LOOKS_AT[looks]))
    if (threshold := _share(judge, "threshold")) is not None:
        said.append(("answers when", f"at least {share(threshold)} sure; it abstains otherwise"))
    right, silent = _share(judge, "answered_accuracy"), _share(judge, "abstained")
    if right is not None and silent is not None:
        text = f"right in {share(right)} of its answers, no answer to {share(silent)}; by cross-validation"
        said.append(("on what it learned from", text))
    return said


def _count(judge: Mapping[str, Any], name: str) -> int | None:
    value = judge.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None


def _share(judge: Mapping[str, Any], name: str) -> float | None:
    value = judge.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1 else None
