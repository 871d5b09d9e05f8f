"""What a result says of its scene: the claim with its source, the words given to a model, the parameters of the physics.

It reads the scene's config as untrusted text, with bounds, and refuses to guess what is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from refcheck.report.collect import Result

LONGEST, SHORT = 2000, 120  # characters of a text, and of a parameter
DEEPEST, MOST = 4, 80  # levels and parameters of a config that are listed
RANDOM = "random"
STANDINGS = {
    "stated": "stated by the benchmark's authors",
    "derived": "derived from what the benchmark's authors state",
    "assumed": "assumed by us",
}


@dataclass(frozen=True)
class Pair:
    """That a scene shares its launches with `base`, and what it changes."""

    base: str
    kind: str
    change: str


@dataclass(frozen=True)
class About:
    """A scene as its config has it; an empty text is one that the result does not hold."""

    title: str
    derivation: str
    source: str
    standing: str
    note: str
    prompt: str
    action: str
    readout: str
    epsilon: float | None
    pair: Pair | None
    device: str
    fixed: tuple[tuple[str, str], ...]
    """Geometry and materials, by name."""
    drawn: tuple[tuple[str, str], ...]
    """What each launch draws anew: the strength of the action and its spread."""

    @property
    def claims(self) -> list[tuple[str, str]]:
        """What there is to say of the claim and of what a model is given."""
        said = [
            ("derivation", self.derivation),
            ("source", self.source),
            ("standing", STANDINGS.get(self.standing, self.standing)),
            ("action", self.action),
            ("prompt", self.prompt),
            ("read as", self.readout),
            ("note", self.note),
        ]
        return [(name, text) for name, text in said if text]


def about(result: Result, scene: str, stream: str | None = None) -> About:
    """Return what `result` says of `scene`; launches of another `stream` make it a pair even if its config is silent."""
    config = result.header.config.scenes.get(scene, {})
    reference, device, variant = (_part(config, name) for name in ("reference", "device", "variant"))
    epsilon = config.get("epsilon")
    pair = None
    if base := _text(variant, "base"):
        pair = Pair(base, _text(variant, "kind"), _text(variant, "change"))
    elif stream is not None and stream != scene:
        pair = Pair(stream, "", "")
    engine = _part(config, "engine")
    return About(
        title=_text(config, "title")[:200] or scene,
        derivation=_text(reference, "derivation"),
        source=_text(reference, "source"),
        standing=_text(reference, "standing"),
        note=_text(config, "note"),
        prompt=_text(config, "prompt"),
        action=_text(config, "action"),
        readout=_text(config, "readout_rule"),
        epsilon=float(epsilon) if isinstance(epsilon, (int, float)) and not isinstance(epsilon, bool) else None,
        pair=pair,
        device=_text(device, "_target_").rpartition(".")[2],
        fixed=tuple(
            [*_listed({name: value for name, value in device.items() if name != RANDOM}), *_listed(engine, "engine ")][:MOST]
        ),
        drawn=tuple((name, _law(law)) for name, law in list(_part(device, RANDOM).items())[:MOST]),
    )


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = config.get(name)
    return part if isinstance(part, dict) else {}


def _text(config: Mapping[str, Any], name: str) -> str:
    text = config.get(name)
    return text[:LONGEST] if isinstance(text, str) else ""


def _listed(part: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    for name, value in part.items():
        if name == "_target_":
            continue
        if isinstance(value, dict) and depth < DEEPEST:
            yield from _listed(value, f"{prefix}{name} ", depth + 1)
        else:
            yield f"{prefix}{name}".replace("_", " ")[:SHORT], _value(value)


def _law(law: Any) -> str:
    if not isinstance(law, dict):
        return _value(law)
    rest = ", ".join(f"{name} {_value(value)}" for name, value in law.items() if name != "dist")
    return f"{_value(law.get('dist', '?'))}: {rest}"[:SHORT]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value[:MOST]))[:SHORT] if all(not isinstance(one, (list, dict)) for one in value) else "…"
    return (f"{value:g}" if isinstance(value, float) else "…" if isinstance(value, dict) else str(value))[:SHORT]
