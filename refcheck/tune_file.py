"""The scene file that tune writes, with where it comes from, and tune's table.

It refuses to choose anything: every value was found, checked and handed in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from rich import box
from rich.table import Table

from refcheck.command import UserError
from scenes.catalog import raw_scene
from scenes.scene import Scene

if TYPE_CHECKING:
    from refcheck.tune import Tuned

ID = re.compile(r"[a-z][a-z0-9_]*/[A-Za-z0-9][A-Za-z0-9_-]*")
MOST = 10_000  # characters of free=


def mapping(text: str) -> dict[str, Any]:
    """Return the mapping written in `text`, YAML such as {scene.device.friction: [0.1, 0.6]}. Raises `UserError`."""
    try:
        found = yaml.safe_load(text) if len(text) <= MOST else None
    except yaml.YAMLError as error:
        raise UserError(f"free={text!r} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict) or not found:
        raise UserError(f"free={text[:80]!r}: must be a mapping such as {{scene.device.restitution: [0.2, 0.9]}}")
    return {str(key): value for key, value in found.items()}


def wrong_id(id: str) -> list[str]:
    """Return what is wrong with the id of a new scene."""
    return [] if ID.fullmatch(id) else [f"id={id!r}: must be <benchmark>/<name>, such as quincunx/galton_board"]


def leaf(config: Mapping[str, Any], path: str) -> float:
    """Return the number at an override path of a composed scene. Raises `UserError` where there is none."""
    node: Any = config
    for step in path.split(".")[1:]:
        node = node.get(step) if isinstance(node, Mapping) else None
    if isinstance(node, bool) or not isinstance(node, (int, float)):
        raise UserError(f"free: {path} is {node!r} in the scene: only numbers that its file gives can be tuned")
    return float(node)


def written(found: Tuned, scene: Scene, overrides: Sequence[str]) -> str:
    """Return the new scene as YAML: a causal variant of the old one that says what was changed, how and to what end."""
    config: dict[str, Any] = {
        "defaults": [f"{scene.id}@_here_", "_self_"],
        "id": found.id,
        "title": f"{scene.title}, tuned",
        "benchmark": found.id.split("/")[0],
        "variant": {"base": scene.id, "kind": "causal", "change": _change(found, overrides)},
    }
    changes = {path: found.found.values[one.name] for one in found.free for path in one.paths}
    parser = OverridesParser.create()
    for word in overrides:
        parsed = parser.parse_override(word)
        changes.setdefault(parsed.key_or_group, _plain(parsed.value()))
    for path, value in changes.items():
        node = config
        *steps, last = path.split(".")[1:]
        for step in steps:
            node = node.setdefault(step, {})
        node[last] = value
    reference = scene.reference
    config["reference"] = {
        "source": f"Our own variant of {scene.id}, whose reference is {reference.standing}: {reference.source}",
        "standing": "assumed",
    }
    config["tune"] = {one.name: {"low": one.low, "high": one.high, **({"log": True} if one.log else {})} for one in found.free}
    config["note"] = provenance(found)
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    return f"# {scene.title}: a variant whose reference holds, found and checked by tune.\n{text}"


def _change(found: Tuned, overrides: Sequence[str]) -> str:
    names = [path.removeprefix("scene.") for one in found.free for path in one.paths]
    given = [word.removeprefix("scene.") for word in overrides if not word.startswith("scene.knock_out.")]
    return f"Tuned: {', '.join(names)}" + (f"; given: {', '.join(given)}" if given else "") + "."


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def provenance(found: Tuned) -> str:
    """Return how the scene was found and what was measured of it, as a paragraph."""
    one = found.certificate
    said = " ".join(f"{each.said[0].upper()}{each.said[1:]}." for each in found.supports)
    return (
        f"Found by tune among {found.tried} places (seed {one.seed - 2}); {found.scene} is {found.before.tvd:.3f} from the "
        f"reference in {found.before.n:,} rollouts. {one.verdict.capitalize()} on fresh launches: {one.tvd:.4f} from the "
        f"reference ({one.lower:.4f} to {one.upper:.4f}) at n = {one.n:,} (seed {one.seed}), nulls {one.null_rate.value:.2%}, "
        f"95 % at rest within {one.settle_time.p95:.1f} s. {said}"
    )


def table(found: Tuned) -> Table:
    """Return the free parameters, before and after."""
    shown = Table(title=f"{found.scene} tuned: {found.tried} places tried", title_justify="left", box=box.SIMPLE)
    shown.add_column("parameter")
    for name in ("was", "is", "from", "to"):
        shown.add_column(name, justify="right")
    raw = {"scene": raw_scene(found.scene)}
    for one in found.free:
        node: Any = raw
        for step in one.paths[0].split("."):
            node = node.get(step) if isinstance(node, Mapping) else None
        was = f"{node:g}" if isinstance(node, (int, float)) else "-"
        name = one.name.replace("scene.device.", "")
        shown.add_row(name, was, f"{found.found.values[one.name]:g}", f"{one.low:g}", f"{one.high:g}")
    return shown


def notes(found: Tuned) -> list[str]:
    """Return what stands below the table: before, after, what speaks for it and what does not."""
    one = found.certificate
    told = [
        f"TVD before: {found.before.tvd:.4f} (nulls {found.before.null_rate:.2%}). After, on fresh launches: {one.tvd:.4f} "
        f"({one.lower:.4f} to {one.upper:.4f}), n = {one.n}: {one.verdict}.",
        *(f"{each.said[0].upper()}{each.said[1:]}." for each in found.supports),
    ]
    if found.refused:
        told.append(f"{found.refused} of {found.tried} places were refused, the first because {found.why_refused}.")
    if found.lacking:
        told.append(f"Not accepted, and no scene was written: {'; '.join(found.lacking)}.")
    return told
