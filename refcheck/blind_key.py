"""The key of a blind folder: what each clip truly shows, and what no key that was written here holds.

It opens no reading and looks at no clip.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from math import fsum, isclose
from typing import Any, Literal

from pydantic import Field

from refcheck.control_sets import SETS
from refcheck.damage import KINDS, WITHOUT_OUTCOME, truth_null
from refcheck.untrusted import Strict, check_name, shown

SCHEMA = "quincunx.key/v1"
Layout = Literal["pawbench", "calibench"]


class Sealed(Strict):
    """One line of the key: where a clip went, the digest of its bytes, and what is true of it."""

    scene: str
    repeat: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    index: int = Field(ge=0)
    frames: int = Field(ge=1)
    truth: str | None
    null: str
    kind: str
    axis: str
    batch: int = Field(ge=0)


class KeyScene(Strict):
    """What a reading is held to: the id in our catalogue, outcomes in their order, and the reference where there is one."""

    id: str
    outcomes: list[str] = Field(min_length=1)
    q: list[float] | None
    set: str = ""


class Key(Strict):
    """The sealed truth of a blind folder. `seed` draws the same clips again, so it is as secret as they are."""

    schema_: str = Field(alias="schema")
    layout: Layout
    seed: int | None = None
    scenes: dict[str, KeyScene] = Field(min_length=1)
    clips: list[Sealed] = Field(min_length=1)


def seal_of(content: Mapping[str, Any]) -> str:
    """Return the digest that a key's file carries of its own content: truths changed by an accident do not open it.

    Who means to can seal a changed key anew; the digest in the blind folder is what shows that.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def faults(key: Key) -> Iterator[str]:
    """Yield what no key that was written here holds."""
    for name, scene in key.scenes.items():
        where = f"scene {shown(name)}"
        for text in (name, scene.id, *scene.outcomes):
            try:
                check_name(text)
            except ValueError as error:
                yield f"{where}: {shown(text)} {error}"
        if len(set(scene.outcomes)) < len(scene.outcomes):
            yield f"{where}: an outcome is listed twice"
        if scene.q is not None:
            if len(scene.q) != len(scene.outcomes) or not all(0.0 <= share <= 1.0 for share in scene.q):
                yield f"{where}: q must be a share of each of {len(scene.outcomes)} outcomes, got {shown(scene.q)}"
            elif not isclose(fsum(scene.q), 1.0, abs_tol=1e-6):
                yield f"{where}: q must sum to 1, got {fsum(scene.q):.9g}"
        if scene.set not in ("", *SETS):
            yield f"{where}: set {shown(scene.set)} is none of {', '.join(SETS)}"
        if not any(clip.scene == name for clip in key.clips):
            yield f"{where}: has no clip"
    for what, values in (
        ("slot", [f"{clip.scene} repeat {clip.repeat}" for clip in key.clips]),
        ("rollout", [f"{clip.index} of {clip.scene}" for clip in key.clips]),
        ("digest", [clip.sha256 for clip in key.clips]),
    ):
        for value in (value for value, count in Counter(values).items() if count > 1):
            yield f"{what} {shown(value)} is listed twice"
    for clip in key.clips:
        where, held = f"{shown(clip.scene)} repeat {clip.repeat}", key.scenes.get(clip.scene)
        if held is None:
            yield f"{where}: is of no scene of the key"
        elif clip.truth is not None and clip.truth not in held.outcomes:
            yield f"{where}: truth {shown(clip.truth)} is none of {', '.join(map(shown, held.outcomes))}"
        if clip.kind and clip.kind not in KINDS:
            yield f"{where}: kind {shown(clip.kind)} is no way of damage"
        elif (clip.truth is None) != (clip.kind in WITHOUT_OUTCOME) or clip.null != (
            truth_null(clip.kind) if clip.kind else ""
        ):
            yield f"{where}: truth {shown(clip.truth)} and null {shown(clip.null)} do not go with kind {shown(clip.kind)}"
        elif clip.axis != (KINDS[clip.kind].axis if clip.kind else ""):
            yield f"{where}: axis {shown(clip.axis)} does not go with kind {shown(clip.kind)}"
