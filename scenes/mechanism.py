"""Builds a scene's device and engine from their configs: only classes of ours, every parameter checked, all problems kept.

It refuses to know outcomes and references.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, get_type_hints

import scipy.stats
from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from scenes.catalog import suggest
from scenes.schema import describe
from simulators.device import Acting, Device, Integrator
from simulators.engines.loop import check_engine
from simulators.sampling import Distribution, launch_block

TRUSTED: dict[str, tuple[str, ...]] = {
    "device": ("simulators.devices.",),
    "engine": ("simulators.engines.",),
    "kernel": ("simulators.kernels.",),
}
"""Where `_target_` may point: a config is data, and must not be a way to run any other code.

Only installing a package adds to it: its entry points in the groups `quincunx.devices`, `quincunx.engines` and
`quincunx.kernels` name the modules whose classes a config may name.
"""

STAND_IN = Distribution("norm", (("loc", 0.0), ("scale", 1.0)))
"""Takes the place of a law that is wrong and has been reported, so that the rest can be checked as well."""


@cache
def installed(role: str) -> tuple[str, ...]:
    """Return the roots that installed packages add for `role`, each ending in a dot."""
    return tuple(sorted(f"{point.module}." for point in entry_points(group=f"quincunx.{role}s")))


def named(role: str, config: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the name in `_target_`, with what is wrong where it is none that a config may name; nothing is imported."""
    name = config.get("_target_")
    roots = (*TRUSTED[role], *installed(role))
    if not isinstance(name, str) or not name.startswith(roots) or not all(part.isidentifier() for part in name.split(".")):
        return "", [f"`{role}._target_` is {name!r}: it must be a class below {' or '.join(r[:-1] for r in roots)}"]
    return name, []


def target(role: str, config: Mapping[str, Any]) -> tuple[type | None, list[str]]:
    """Return the class that `_target_` names, or None with what is wrong. `role` is `device`, `engine` or `kernel`."""
    name, problems = named(role, config)
    if problems:
        return None, problems
    module_name, _, class_name = name.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # a package that the module needs is missing: the machine's fault, not the config's
        return None, [
            f"`{role}._target_` is {name!r}: there is no module {module_name}{suggest(module_name, _modules(module_name))}"
        ]
    made = {key: item for key, item in vars(module).items() if isinstance(item, type) and item.__module__ == module_name}
    found = made.get(class_name)
    if found is None or not dataclasses.is_dataclass(found):
        known = [key for key, item in made.items() if dataclasses.is_dataclass(item) and not key.startswith("_")]
        has = ", ".join(known) or "no such class"
        return None, [f"`{role}._target_` is {name!r}: {module_name} has {has}{suggest(class_name, known)}"]
    return found, []


def _modules(module_name: str) -> list[str]:
    package = importlib.import_module(module_name.rpartition(".")[0])
    return [f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(getattr(package, "__path__", ()))]


def parameters(cls: type) -> tuple[str, ...]:
    """Return the names a config may give to `cls`."""
    return tuple(f.name for f in dataclasses.fields(cls) if f.init)


def declared_facts(config: object) -> tuple[str, ...]:
    """Return the facts that a device's class declares whatever its parameters, none where they depend on them."""
    cls = target("device", config)[0] if isinstance(config, Mapping) else None
    facts = getattr(cls, "facts", ())
    return facts if isinstance(facts, tuple) else ()


def build(role: str, config: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return the device, engine or kernel that `config` describes, or None with every problem found."""
    cls, problems = target(role, config)
    if cls is None:
        return None, problems
    given, reported, problems = typed(role, cls, config)
    missing = _missing(cls, config)
    reported |= set(missing)
    problems += [f"`{role}.{name}` is missing: {cls.__name__} needs it" for name in missing]
    if "random" in given and role == "device":
        given["random"], wrong = _laws(given["random"])
        problems += wrong
    try:
        built = cls(**given)
        problems += check_device(built) if role == "device" else _engine(role, built)
    except (ValueError, TypeError) as error:
        # The constructor names its own parameters; those whose type was reported are not told twice.
        lines = [line for line in str(error).splitlines() if not any(line.startswith(f"`{name}`") for name in reported)]
        if isinstance(error, ValueError):
            problems += [line.replace("`", f"`{role}.", 1) if line.startswith("`") else f"`{role}`: {line}" for line in lines]
        elif not problems:
            raise
        built = None
    return (None if problems else built), problems


def typed(role: str, cls: type, config: Mapping[str, Any]) -> tuple[dict[str, Any], set[str], list[str]]:
    """Return the values given, by name (in the field's type), the names reported, and the problems; some may be missing."""
    hints, known = get_type_hints(cls), parameters(cls)
    values, reported, problems = {}, set(), []
    for name, value in config.items():
        if name == "_target_":
            continue
        if name not in known:
            problems.append(
                f"`{role}.{name}` is not a parameter of {cls.__name__}{suggest(name, known)}; it takes {', '.join(known)}"
            )
            continue
        values[name] = value
        if name == "random":
            continue
        try:
            values[name] = TypeAdapter(hints[name]).validate_json(json.dumps(value), strict=True)
        except PydanticSchemaGenerationError:
            pass  # a type of ours that pydantic cannot read from data: its own constructor checks it
        except ValidationError as error:
            reported.add(name)
            problems += describe(error, at=f"{role}.{name}")
    return values, reported, problems


def _missing(cls: type, config: Mapping[str, Any]) -> list[str]:
    """Return the parameters that `cls` needs and `config` has not."""
    return [
        field.name
        for field in dataclasses.fields(cls)
        if field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.name not in config
    ]


def _laws(random: object) -> tuple[dict[str, Distribution], list[str]]:
    if not isinstance(random, Mapping):
        return {}, [f"`device.random` is {random!r}: it must map each random variable to a distribution"]
    laws, problems = {}, []
    for name, law in random.items():
        laws[name], wrong = _law(f"device.random.{name}", law)
        problems += wrong
    return laws, problems


def _law(at: str, law: object) -> tuple[Distribution, list[str]]:
    if not isinstance(law, Mapping) or not isinstance(law.get("dist"), str):
        return STAND_IN, [f"`{at}` is {law!r}: it must be a distribution such as {{dist: norm, loc: 0.0, scale: 1.0e-3}}"]
    name = law["dist"]
    family = getattr(scipy.stats, name, None)
    if name.startswith("_") or isinstance(family, type) or not hasattr(family, "rvs"):
        known = [n for n, one in vars(scipy.stats).items() if hasattr(one, "rvs") and not isinstance(one, type)]
        return STAND_IN, [f"`{at}.dist` is {name!r}, which is no distribution of scipy.stats{suggest(name, known)}"]
    numbers = {key: value for key, value in law.items() if key != "dist"}
    problems = [
        f"`{at}.{key}` is {value!r}: it must be a number, or a list of numbers"
        for key, value in numbers.items()
        if isinstance(value, (bool, str, Mapping)) or value is None
    ]
    if isinstance(family, (scipy.stats.rv_continuous, scipy.stats.rv_discrete)):
        # Every parameter is written down: scipy's silent scale of 1 is one metre, or one radian a second.
        shapes = [s.strip() for s in (family.shapes or "").split(",") if s.strip()]
        needed = [*shapes, "loc", "scale"] if isinstance(family, scipy.stats.rv_continuous) else [*shapes, "loc"]
        problems += [f"`{at}.{key}` is missing: {name} takes {', '.join(needed)}" for key in needed if key not in numbers]
        size = numbers.get("size", 1)
        if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= 100_000:
            problems.append(f"`{at}.size` is {size!r}: it must be a whole number from 1 to 100000, of independent values")
        for key in numbers:
            if key not in (*needed, "size"):
                problems.append(
                    f"`{at}.{key}` is not a parameter of {name}{suggest(key, needed)}; it takes {', '.join(needed)}"
                )
    if problems:
        return STAND_IN, problems
    # 0 and 0.0 are the same physics: one digest
    as_floats = {key: value if key == "size" else _floats(value) for key, value in numbers.items()}
    try:
        return Distribution.of({"dist": name, **as_floats}), []
    except ValueError as error:
        return STAND_IN, [f"`{at}`: {error}"]


def _floats(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_floats(item) for item in value]
    return float(value) if isinstance(value, int) else value


def changed_laws(before: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the problems of laws whose `dist` is changed without giving every parameter anew.

    Hydra merges `{dist: uniform}` into what stood there, and a normal's loc and scale would silently become a uniform's.
    `before` and `given` are whole configs, or parts of them.
    """
    old, new = (dict((c.get("device") or {}).get("random") or {}) for c in (before, given))
    problems = []
    for name, law in new.items():
        was = old.get(name)
        if not isinstance(law, Mapping) or not isinstance(was, Mapping) or law.get("dist", was.get("dist")) == was.get("dist"):
            continue
        for key in was.keys() - law.keys() - {"dist"}:
            problems.append(
                f"`device.random.{name}.dist` changes from {was['dist']!r} to {law['dist']!r}, but `{key}: {was[key]}` would "
                f"stay from before: give every parameter anew, as in scene.device.random.{name}={{dist: {law['dist']}, ...}}"
            )
    return sorted(problems)


class _Asked(dict[str, Any]):
    """A block of launches that remembers which variables a device read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def check_device(device: Device) -> list[str]:
    """Return what shows only when a device is used: a world that cannot be, variables missing or read by nothing."""
    problems = []
    if device.readout == "last" and device.end_time is None:
        problems.append("`device.end_time` is missing: the readout `last` needs it")
    device.world()
    launch = _Asked(launch_block(device.random, 0, "check", 0))
    try:
        device.start(launch)
    except KeyError as error:
        near = difflib.get_close_matches(str(error.args[0]), list(launch), n=1)
        hint = f" (did you mean it by {near[0]!r}?)" if near else ""
        return [*problems, f"`device.random.{error.args[0]}` is missing: {type(device).__name__} needs it{hint}"]
    if isinstance(device, Acting):
        row = _Asked({name: value[0] for name, value in launch.items()})
        device.drive(row)
        launch.names |= row.names
    launch.names |= set(getattr(device, "later", ()))  # what its kernel reads in the rollout
    for name in sorted(launch.keys() - launch.names):
        problems.append(f"`device.random.{name}` is read by nothing{suggest(name, launch.names)}")
    return problems


def _engine(role: str, engine: Integrator) -> list[str]:
    try:
        check_engine(engine)
    except ValueError as error:
        return [f"`{role}`: {error}"]
    return []
