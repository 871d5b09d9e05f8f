"""Reads `key=value` words for a verb: every mistake at once, each with what is allowed. Standard library only.

It refuses to know what a scene's own keys are; `scenes.load` checks those.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from refcheck.command import Option, Request, UserError

Use = Literal[False, True, "one", "optional"]
"""A verb's `USES_SCENES`: none; some, asked for; exactly one; those asked for, else all."""

OUT = Option("out", "path", None, "folder for result.json and the verb's files; made if it is not there")
JSON = Option("json", "bool", False, "the result alone on standard output")
OVERWRITE = Option("overwrite", "bool", False, "replace the result of another run in out=")
SCENE = Option("scene", "str", None, "one scene, such as calibench/dice; its config may be changed by scene.<path>=<value>")
SCENES = Option("scenes", "str", None, "patterns over whole ids, separated by commas: 'pawbench/*'")
SCENE_DIR = Option("scene_dir", "path", None, "more scenes: a folder with scene/<benchmark>/<name>.yaml (or QUINCUNX_SCENES)")


@dataclass(frozen=True)
class Asked:
    """What the words said: option values by name, scene ids, overrides of the one scene, and where the result goes."""

    values: dict[str, Any]
    scenes: tuple[str, ...]
    overrides: tuple[str, ...]
    uses: Use
    out: Path | None
    json: bool
    overwrite: bool

    def request(self, progress: Callable[..., Any]) -> Request:
        """Return the verb's input."""
        return Request(self.values, self.scenes, self.overrides, self.out, progress, self.overwrite)


def keys_of(module: ModuleType) -> tuple[Option, ...]:
    """Return every option that the verb takes, its own first."""
    use = _use(module)
    common = {False: (), "one": (SCENE, SCENE_DIR)}.get(use, (SCENE, SCENES, SCENE_DIR))
    own = tuple(module.OPTIONS)
    return (*own, *(o for o in (*common, OUT, JSON, OVERWRITE) if o.name not in {mine.name for mine in own}))


def _use(module: ModuleType) -> Use:
    return getattr(module, "USES_SCENES", False)


def scene_folder(module: ModuleType, words: Sequence[str]) -> Path | None:
    """Return what `scene_dir=` says, if it does: needed before the other words, which may name scenes from there."""
    given = [word.partition("=")[2] for word in words if word.startswith("scene_dir=")]
    return Path(given[-1]) if given and given[-1] and SCENE_DIR in keys_of(module) else None


def parse(module: ModuleType, words: Sequence[str]) -> Asked:
    """Return what `words` ask of the verb. Raises `UserError` with every mistake."""
    allowed = {option.name: option for option in keys_of(module)}
    use, problems = _use(module), list[str]()
    values: dict[str, Any] = {option.name: option.default for option in allowed.values()}
    given, overrides = set[str](), list[str]()
    for word in words:
        key, equals, text = word.partition("=")
        if use and key.lstrip("+~").startswith("scene.") and (equals or key[0] in "+~"):
            overrides.append(word)  # also one that removes a key: the scene says that it may not
        elif not equals or not key:
            hint = f"; did you mean {key}=...?" if key in allowed else ""
            problems.append(f"{word!r} is not key=value{hint}")
        elif key not in allowed:
            problems.append(
                f"{key!r} (given as {word!r}) is no key of this verb{suggest(key, allowed)}; keys: {', '.join(allowed)}"
            )
        elif key in given:
            problems.append(f"{key!r} is given twice, the second time as {word!r}: give it once")
        else:
            given.add(key)
            try:
                values[key] = convert(allowed[key], text)
            except ValueError as error:
                problems.append(str(error))
    problems += [f"{o.name}= is missing: {o.help}" for o in module.OPTIONS if o.default is ... and o.name not in given]
    scenes, wrong = _scenes(use, values.pop("scene", None), values.pop("scenes", None), overrides)
    problems += wrong
    if hasattr(module, "mistakes"):  # those that the verb finds before anything is made
        problems += module.mistakes(values, scenes, tuple(overrides))
    if problems:
        raise UserError(*problems, *_wrong_overrides(scenes, overrides))
    if hasattr(module, "settled"):  # a verb with a default that depends on other keys
        values |= module.settled(values)
    values.pop("scene_dir", None)  # `scene_folder` has seen to it, and results hold the scenes whole
    out, as_json, overwrite = values.pop("out"), values.pop("json"), values.pop("overwrite")
    if out is None and hasattr(module, "default_out"):  # a verb whose work is files puts them somewhere
        out = module.default_out(values, scenes)
    return Asked(values, scenes, tuple(overrides), use, out, as_json, overwrite)


def _scenes(use: Use, scene: str | None, scenes: str | None, overrides: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    if not use:
        return (), []
    problems = []
    if scene is not None and scenes is not None:
        problems.append("scene= and scenes= are both given: give one of them")
    if overrides and (scene is None or scenes is not None):
        problems.append(f"{overrides[0]!r} changes one scene's config: name that scene with scene=<id>")
    if scene is None and scenes is None and use != "optional":
        problems.append("scene= is missing: name a scene, such as scene=calibench/dice" + _all(use))
    if problems:
        return (), problems
    from scenes.catalog import SceneError, match, scene_ids, suggest  # here, so that help and wrong keys cost nothing

    try:
        if scene is not None:
            if scene not in scene_ids():
                raise SceneError(f"no scene is named {scene!r}{suggest(scene, scene_ids())}; see `quincunx list`{_all(use)}")
            return (scene,), []
        if scenes is not None:
            return match([p.strip() for p in scenes.strip("[]").split(",")]), []
        return scene_ids(), []
    except SceneError as error:
        return (), list(error.problems)


def _wrong_overrides(scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return what is wrong with the config asked for, to be told with mistakes elsewhere; else it is told when it is read."""
    if not overrides or len(scenes) != 1:
        return []
    from scenes.load import SceneError, load_scene

    try:
        load_scene(scenes[0], overrides)
    except SceneError as error:
        return list(error.problems)
    return []


def _all(use: Use) -> str:
    return "" if use == "one" else ", or several with scenes='calibench/*'"


def convert(option: Option, text: str) -> Any:
    """Return `text` as the option's kind. Raises `ValueError` naming the value and what is allowed."""
    word = text.strip()
    try:
        value = _KINDS[option.kind](word)
    except ValueError:
        value = None
    if value is None:
        raise ValueError(f"{option.name}={text!r}: must be {_allowed(option)}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = (-math.inf if option.low is None else option.low), (math.inf if option.high is None else option.high)
        if not low <= value <= high:
            raise ValueError(f"{option.name}={text}: must be {_allowed(option)}")
    if option.choices and value not in option.choices:
        raise ValueError(f"{option.name}={text!r}: must be {_allowed(option)}{suggest(word, option.choices)}")
    return value


def _integer(word: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+(_[0-9]+)*", word):
        raise ValueError
    return int(word)


def _number(word: str) -> float:
    if not math.isfinite(value := float(word)):
        raise ValueError
    return value


def _word(word: str) -> str:
    if not word:
        raise ValueError
    return word


_KINDS: dict[str, Callable[[str], Any]] = {
    "int": _integer,
    "float": _number,
    "bool": lambda word: {"true": True, "false": False}.get(word.lower()),
    "str": _word,
    "path": lambda word: Path(_word(word)).expanduser(),
}


def _allowed(option: Option) -> str:
    if option.choices:
        return "one of " + ", ".join(option.choices)
    kind = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word", "path": "a path"}[
        option.kind
    ]
    bounds = [
        f"{word} {_brief(bound)}" for word, bound in (("at least", option.low), ("at most", option.high)) if bound is not None
    ]
    return " ".join([kind, " and ".join(bounds)]).strip()


def _brief(number: float) -> str:
    return "2**64 - 1" if number == 2**64 - 1 else f"{number:g}"


def describe(verb: str, module: ModuleType) -> str:
    """Return the help of a verb."""
    lines = [f"quincunx {verb}: {module.SUMMARY}", "", f"  quincunx {verb} key=value ...", ""]
    for option in keys_of(module):
        default = "required" if option.default is ... else "" if option.default is None else f"default {_shown(option.default)}"
        facts = ", ".join(part for part in (_allowed(option), default) if part)
        lines.append(f"  {option.name + '=':<12}{option.help} ({facts})")
    return "\n".join(lines)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def suggest(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` when something in `known` is near `word`, else nothing."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""
