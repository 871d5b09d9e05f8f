"""From an id and overrides to a Scene: all keys and values are checked here, then Hydra composes.

Whatever is wrong is told at once in one `SceneError`. It refuses to know what a scene is used for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import OverrideType, QuotedString
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from scenes import catalog, frame0, mechanism, schema
from scenes.catalog import SceneError, conf, match, raw_scene, scene_ids, suggest
from scenes.scene import KnockOut, Reference, Scene, Variant
from simulators.world import Camera, Light

__all__ = ["SceneError", "compose_scene", "conf", "load_scene", "match", "raw_scene", "scene_ids"]

FIXED = ("id", "variant", "basis")
"""Keys that say which scene it is and what kind of claim it makes; an override of them would only mislead."""


def load_scene(id: str, overrides: Iterable[str] = ()) -> Scene:
    """Return the scene `id`, with overrides such as `scene.device.thickness=2e-3` laid over its file.

    Raises `SceneError` with every problem of file and overrides.
    """
    return build_scene(compose_scene(id, overrides), where(id, tuple(overrides)))


def compose_scene(id: str, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Return the whole config of a scene as plain data, composed by Hydra and not yet checked beyond its overrides."""
    overrides = tuple(overrides)
    raw = raw_scene(id)
    base = catalog.base_of(id)
    problems = [] if base is None else mechanism.changed_laws(raw_scene(base), catalog.own_scene(id))
    problems = [f"{catalog.scene_file(id)}: {problem}" for problem in problems]
    for_hydra, given, wrong = _check_overrides(raw, overrides)
    wrong += mechanism.changed_laws(raw, given)
    problems += wrong
    try:
        with initialize_config_dir(str(conf()), version_base="1.3"):
            composed = compose("config", overrides=[f"scene={id}", *_searched(), *for_hydra])
        plain = OmegaConf.to_container(composed.scene, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise SceneError(*problems, f"{where(id, overrides)}: {' '.join(str(error).split())}") from error
    if problems:  # tell what is wrong with the rest in the same breath
        raise SceneError(*problems, *_problems(plain, where(id, overrides)))  # type: ignore[arg-type]
    return plain  # type: ignore[return-value]


def _searched() -> list[str]:
    """Return the override that shows Hydra the folders of scenes beside our own."""
    others = [f"file://{folder}".replace("\\", "\\\\").replace("'", "\\'") for folder in catalog.folders()[1:]]
    return ["hydra.searchpath=[" + ",".join(f"'{other}'" for other in others) + "]"] if others else []


def build_scene(config: Mapping[str, Any], where: str) -> Scene:
    """Return the scene that a composed `config` describes. Raises `SceneError`; `where` names it in the message."""
    scene, problems = _build(config)
    if scene is None:
        raise SceneError(*(f"{where}: {problem}" for problem in problems))
    return scene


def _problems(config: Mapping[str, Any], where: str) -> list[str]:
    return [f"{where}: {problem}" for problem in _build(config)[1]]


def where(id: str, overrides: Sequence[str]) -> str:
    """Return how messages name a scene: its file, or the words that changed it."""
    return f"scene={id} with {' '.join(overrides)}" if overrides else str(catalog.scene_file(id))


def _build(config: Mapping[str, Any]) -> tuple[Scene | None, list[str]]:
    model, problems = schema.parse(config)
    parts: dict[str, Any] = {}
    for role in ("device", "engine", "kernel"):
        part = config.get(role)
        if isinstance(part, Mapping):
            parts[role], wrong = mechanism.build(role, part)
            problems += wrong
    problems += schema.rules(model) + _identity(model)
    device = parts.get("device")
    facts = device.facts if device is not None else mechanism.declared_facts(config.get("device"))
    if facts and schema.has(model, "outcomes"):
        problems += _facts(model.outcomes, facts)
    if problems or device is None:
        return None, problems
    outcomes = tuple(model.outcomes)
    outcome_of = {fact: outcomes.index(label) for label, facts in model.outcomes.items() for fact in facts}
    plain = model.model_dump(include={"camera", "light"})
    scene = Scene(
        **{name: getattr(model, name) for name in _COPIED},
        device=device,
        engine=parts.get("engine"),
        kernel=parts.get("kernel"),
        outcomes=outcomes,
        outcome_of_fact=tuple(outcome_of[fact] for fact in device.facts),
        reference=_reference(model.reference),
        camera=Camera(**plain["camera"]),
        light=Light(**plain["light"]),
        variant=Variant(**model.variant.model_dump()) if model.variant else None,
        ranges={path: one.model_dump() for path, one in model.ranges.items()} if model.ranges else None,
        tune={path: one.model_dump() for path, one in model.tune.items()} if model.tune else None,
        knock_out=KnockOut(model.knock_out.removes, tuple(model.knock_out.overrides)) if model.knock_out else None,
    )
    problems = _honest(scene)
    return (None, problems) if problems else (scene, [])


def _honest(scene: Scene) -> list[str]:
    """Return where a launch could stand in for the mechanism: by what the picture shows, or by drawing few values."""
    problems = frame0.problems(scene.device, scene.camera, scene.stream)
    if scene.basis == "mechanism":
        if scene.device.world().alike:
            problems.append("`basis` is 'mechanism', but the device hides which of its bodies is where: that is 'hidden_state'")
        problems += [
            f"`device.random.{name}.dist` is {law.dist!r}, a discrete law: under basis 'mechanism' a launch varies "
            "continuously, else the draw decides and not the physics; a hidden draw before frame 0 is basis 'hidden_state'"
            for name, law in scene.device.random.items()
            if law.is_discrete
        ]
    return problems


_COPIED = (
    *("id", "title", "benchmark", "track", "group", "readout_rule", "basis", "action", "prompt"),
    *("renderer", "stream", "epsilon", "weak_point", "note"),
)


def _facts(outcomes: Mapping[str, Sequence[str]], facts: Sequence[str]) -> list[str]:
    """Return the facts of the device that no outcome or several outcomes name, and the names that are no fact."""
    named = [(fact, label) for label, some in outcomes.items() for fact in some]
    problems = [
        f"`outcomes.{label}` names {fact!r}, which the device cannot show{suggest(fact, facts)}; it shows {', '.join(facts)}"
        for fact, label in named
        if fact not in facts
    ]
    for fact in facts:
        labels = [label for name, label in named if name == fact]
        if not labels:
            problems.append(f"`outcomes` has no label for the device's fact {fact!r}: every fact makes exactly one outcome")
        elif len(labels) > 1:
            problems.append(f"`outcomes` names the fact {fact!r} {len(labels)} times ({', '.join(labels)}): once is allowed")
    return problems


def _identity(model: schema.SceneConfig) -> list[str]:
    """Return what does not fit the scene's place among the others: id, benchmark, base and stream."""
    if not schema.has(model, "id", "benchmark"):
        return []
    problems = []
    if model.id not in scene_ids():
        problems.append(
            f"`id` is {model.id!r}: it must be the file's place, <benchmark>/<name>{suggest(model.id, scene_ids())}"
        )
    elif model.benchmark != model.id.split("/")[0]:
        problems.append(f"`benchmark` is {model.benchmark!r}: the file stands under {model.id.split('/')[0]!r}")
    if not schema.has(model, "variant", "stream", "reference") or model.variant is None:
        return problems
    base = model.variant.base
    if base not in scene_ids():
        return [*problems, f"`variant.base` is {base!r}, which is no scene{suggest(base, scene_ids())}"]
    raw = raw_scene(base)
    if model.stream != raw.get("stream"):
        problems.append(f"`stream` is {model.stream!r}: a pair shares the launches of its base, {raw.get('stream')!r}")
    if model.variant.kind == "non_causal" and model.reference.q != (raw.get("reference") or {}).get("q"):
        problems.append("`reference.q` differs from the base's, but `variant.kind: non_causal` says that nothing causal did")
    return problems


def _reference(model: schema.ReferenceConfig) -> Reference:
    fraction = schema.Fraction
    return Reference(
        derivation=model.derivation,
        source=model.source,
        standing=model.standing,
        q={label: fraction(text) for label, text in model.q.items()} if model.q else None,
        interval={k: (fraction(a), fraction(b)) for k, (a, b) in model.interval.items()} if model.interval else None,
        tally=model.tally,
    )


def _check_overrides(raw: Mapping[str, Any], overrides: Sequence[str]) -> tuple[list[str], dict[str, Any], list[str]]:
    """Return the overrides for Hydra, what they give leaf by leaf, and the problems; wrong ones are left out."""
    parser = OverridesParser.create()
    for_hydra: list[str] = []
    given: dict[str, Any] = {}
    problems: list[str] = []
    for text in overrides:
        try:
            override = parser.parse_override(text)
        except HydraException as error:
            problems.append(f"override {text!r} cannot be read: {' '.join(str(error).split())}")
            continue
        key = override.key_or_group
        path = key.split(".")[1:]
        if override.type != OverrideType.CHANGE or override.is_sweep_override() or not path or not key.startswith("scene."):
            problems.append(
                f"override {text!r} is not allowed: write scene.<path>=<one value>, without +, ~ or lists of choices"
            )
            continue
        wrong = _path_problem(raw, path)
        if wrong:
            problems.append(wrong)
            continue
        nested: Any = _value(override.value())
        if "${" in text:
            problems.append(f"override {text!r} refers to another value by ${{...}}: write the value itself")
            continue
        if path[:2] == ["device", "random"] and len(path) == 3 and isinstance(nested, dict) and "dist" in nested:
            if path[2] in (raw.get("device") or {}).get("random", {}):
                for_hydra.append(f"~{key}")  # a law given whole replaces what stood there; Hydra alone would merge
        else:
            for step in reversed(path):
                nested = {step: nested}
            given = catalog.merge(given, nested)
        for_hydra.append(f"++{text}")  # a parameter the file leaves at its default may be given too
    return for_hydra, given, problems


def _value(parsed: Any) -> Any:
    if isinstance(parsed, QuotedString):
        return parsed.text
    if isinstance(parsed, dict):
        return {str(_value(key)): _value(item) for key, item in parsed.items()}
    return [_value(item) for item in parsed] if isinstance(parsed, list) else parsed


def _path_problem(raw: Mapping[str, Any], path: Sequence[str]) -> str | None:
    """Return what is wrong with the key `scene.<path>`, if it is."""
    if path[0] in FIXED:
        return f"`scene.{'.'.join(path)}` says which scene it is, or what its claim rests on, and cannot be overridden"
    for depth, step in enumerate(path):
        known = _names(raw, path[:depth])
        if known is None:
            return None
        if step not in known:
            at = ".".join(["scene", *path[:depth]])
            if not known:
                return f"`{at}.{step}` does not exist: `{at}` is a single value"
            return f"`{at}.{step}` does not exist{suggest(step, known)}; `{at}` has {', '.join(known)}"
    return None


def _names(raw: Mapping[str, Any], path: Sequence[str]) -> list[str] | None:
    """Return the keys that may stand at `path`, or None where anything may (a distribution's parameters)."""
    match list(path):
        case ["device", "random", _]:
            return None
        case ["device" | "engine" | "kernel" as role]:
            cls, _ = mechanism.target(role, raw.get(role) or {})
            return ["_target_", *mechanism.parameters(cls)] if cls else list(raw.get(role) or {})
        case ["device", "random"]:
            cls, _ = mechanism.target("device", raw.get("device") or {})
            present = list((raw.get("device") or {}).get("random") or {})
            return present + [name for name in getattr(cls, "variables", ()) if name not in present]
    fields = schema.fields_at(schema.SceneConfig, path)
    if fields:
        return list(fields)
    node: Any = raw
    for step in path:
        node = node.get(step) if isinstance(node, Mapping) else None
    return list(node) if isinstance(node, Mapping) else []
