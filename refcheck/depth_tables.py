"""What stands behind a verdict, as people read it: what supports it, what nulls could hide, what clips show, what is foretold.

It refuses to compute anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refcheck.rare import Rare
from refcheck.readable import ReadableBy, table
from scenes.scene import Scene

if TYPE_CHECKING:
    from refcheck.verify import Certificate

FEW = 3  # scenes: of more, only what is amiss is printed


def beyond(some: Sequence[Certificate], scenes: Sequence[Scene], rares: Mapping[str, Sequence[Rare]]) -> list[Any]:
    """Return what is printed below the table of certificates."""
    if len(some) > FEW:
        amiss = [f"{one.scene}: {each.said}." for one in some for each in one.supports if each.status == "contradicts"]
        return ["\n".join(amiss)] if amiss else []
    shown = list[Any]()
    for one, scene in zip(some, scenes, strict=True):
        shown.append(table(one.scene, scene.outcomes, one.readable))
        shown.append("\n".join([*lines(one), *(_rare(each, scene) for each in rares.get(one.scene, ()))]))
    return shown


def lines(one: Certificate) -> list[str]:
    """Return a certificate's depth as sentences."""
    best, worst = float(one.nulls.best), float(one.nulls.worst)
    told = [f"Whatever outcomes the nulls had, TVD of all {one.n:,} is from {best:.4f} to {worst:.4f}."]
    told += [f"{each.said[0].upper()}{each.said[1:]}." for each in one.supports if each.status != "missing"]
    if lacking := [each.check.replace("_", " ") for each in one.supports if each.status == "missing"]:
        told.append(f"So `{one.verdict}` stands without: {', '.join(lacking)}.")
    if one.predictability is not None:
        said = one.predictability.said()
        told.append(f"{said[0].upper()}{said[1:]}.")
    return told


def by_time(rows: Sequence[ReadableBy]) -> str:
    """Return what clips show as a sentence: up to the length that shows as much as an uncut one."""
    enough = next(k for k, one in enumerate(rows) if one.share == rows[-1].share)
    parts = [
        f"{one.share:.1%} {'uncut' if one.seconds is None else f'by {one.seconds:g} s'}"
        + ("" if one.tvd is None else f" (TVD {one.tvd:.3f})")
        for one in rows[: enough + 1]
    ]
    return f"Readable, of all rollouts, from the clip's start: {', '.join(parts)}"


def _rare(one: Rare, scene: Scene) -> str:
    q = float((scene.reference.q or {})[one.outcome])
    return (
        f"{one.outcome}: {one.probability:.3g} +- {one.error:.1g} (q {q:.3g}) of all rollouts, from {one.n:,} in strata of "
        f"{one.variable}; counting would take {one.gain:.2g} times as many."
    )
