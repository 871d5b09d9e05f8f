"""A family's file, checked before anything is proposed: base, builder, texts, and from where to where what varies.

It refuses to know what a builder makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from refcheck.command import UserError
from refcheck.families import CHOICES, NEEDED, Config
from refcheck.untrusted import Problems, Strict, parse_model, shown
from scenes import mechanism, schema
from scenes.catalog import folders, raw_scene, read_yaml, scene_ids, suggest

DROPPED = ("id", "title", "benchmark", "stream", "reference", "variant", "ranges", "tune", "note")
"""What a scene does not take over from the base of its family."""
WHOLE, MOST_PARTS = ("balls", "colors", "groups", "outcomes", "pockets", "riffles", "rows", "sectors", "units"), 100
"""Ranges of whole numbers from 1 on, of things that are made one by one, and the most of them."""
LARGEST = 1e6  # no angle, length or speed of a tabletop, in SI units, comes near
READINGS: Mapping[str, tuple[str, ...]] = {"board": ("sides", "bins"), "cards": ("suit", "color", "ranks")}
DEVICES: Mapping[str, str] = {
    "board": "simulators.devices.peg_board.PegBoard",
    "cards": "simulators.devices.card_deck.CardDeck",
    "die": "simulators.devices.die.Die",
    "draw": "simulators.devices.draw_box.DrawBox",
    "pencil": "simulators.devices.pencil.Pencil",
    "roulette": "simulators.devices.roulette.Roulette",
    "track": "simulators.devices.track.YTrack",
    "two_stage": "simulators.devices.two_stage_track.TwoStageTrack",
    "wheel": "simulators.devices.spinner.Spinner",
}
"""The device whose parameters a builder gives."""


class Family(Strict):
    """A family's file: a `base` scene, texts and fixed parameters laid over it (`scene`), and what varies."""

    base: str
    builder: Literal["board", "cards", "die", "draw", "pencil", "roulette", "track", "two_stage", "wheel"]
    scene: dict[str, Any] = Field(default_factory=dict)
    ranges: dict[str, list[Any]]


def family_file(name: str) -> Path:
    """Return a family's file. Raises `UserError` naming the families there are."""
    files = {path.stem: path for folder in reversed(folders()) for path in sorted((folder / "family").glob("*.yaml"))}
    if name not in files:
        raise UserError(f"no family is named {name!r}{suggest(name, files)}; there are {', '.join(sorted(files))}")
    return files[name]


def read_family(path: Path) -> Family:
    """Return a family checked: builder, base and every range. Raises `UserError` with everything wrong."""
    problems = Problems()
    family = parse_model(Family, read_yaml(path), path, problems)
    problems.check()
    if family is None:
        raise RuntimeError("a family that does not parse has a problem")
    needed = NEEDED[family.builder]
    for name in sorted(set(needed) ^ set(family.ranges)):
        said = "is missing" if name in needed else f"is no range of {family.builder}{suggest(name, needed)}"
        problems.add(path, f"ranges.{name} {said}; it takes {', '.join(needed)}")
    for name in needed:
        if name in family.ranges and (wrong := range_problem(family.builder, name, family.ranges[name])):
            problems.add(path, f"ranges.{name} is {shown(family.ranges[name])}: {wrong}")
    if family.base not in scene_ids():
        problems.add(path, f"base {family.base!r} is no scene{suggest(family.base, scene_ids())}")
    else:
        for problem in _ground_problems(family):
            problems.add(path, problem)
    problems.check()
    return family


def ground(family: Family) -> Config:
    """Return what every scene of a family starts from: its base, with the family's own `scene` laid over it."""
    held: Config = {key: value for key, value in raw_scene(family.base).items() if key not in DROPPED}
    for key, value in family.scene.items():
        both = isinstance(value, dict) and isinstance(held.get(key), dict)
        held[key] = {**held[key], **value} if both else value
    return held


def _ground_problems(family: Family) -> list[str]:
    """Return what is wrong with what a family lays over its base, before anything is proposed."""
    held = ground(family)
    reference = {"derivation": "-", "source": "-", "standing": "derived"}
    named = {"title": "-", **held, "id": "-", "benchmark": "-", "stream": "-", "reference": reference}
    problems = [f"scene: {problem}" for problem in schema.parse(named)[1]]
    device, wanted = held.get("device"), DEVICES[family.builder]
    if not isinstance(device, dict):
        return problems
    if device.get("_target_") != wanted:
        return [
            *problems,
            f"base {family.base!r} has a {shown(device.get('_target_'))}; builder {family.builder} needs a {wanted}",
        ]
    cls, wrong = mechanism.target("device", device)
    if cls is None:
        return [*problems, *wrong]
    looks = [{"look": look} for look in family.ranges.get("look", ())]
    for given in (family.scene.get("device", {}), *looks):
        problems += [f"scene or ranges: {problem}" for problem in mechanism.typed("device", cls, given)[2]]
    return problems


def range_problem(builder: str, name: str, held: Sequence[Any]) -> str:
    """Return what is wrong with what a family's file gives for one of its builder's ranges, nothing where it will do."""
    if name not in CHOICES:
        numbers = [value for value in held if isinstance(value, (int, float)) and not isinstance(value, bool)]
        ordered = len(numbers) == len(held) == 2 and numbers[0] <= numbers[1]
        if ordered and name in WHOLE and not all(isinstance(value, int) and 1 <= value <= MOST_PARTS for value in numbers):
            return f"it must be [low, high], whole numbers from 1 to {MOST_PARTS}"
        if not ordered or max(map(abs, numbers)) > LARGEST:
            return f"it must be [low, high], of at most {LARGEST:g}"
        return ""
    if not held:
        return "it must list what to choose from"
    if name == "lean":
        return "" if all(type(value) is int and abs(value) <= 45 for value in held) else "it must list whole degrees, -45 to 45"
    allowed = READINGS[builder] if name == "reading" else ()
    if not all(isinstance(value, str) and (not allowed or value in allowed) for value in held):
        return f"it must list some of {', '.join(allowed)}" if allowed else "it must list words"
    return ""
