"""What a scene's config may say: keys, types and the rules that need no physics. Collects every problem.

It refuses to know devices and engines, whose own parameters `mechanism` checks.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from scenes.catalog import suggest
from scenes.scene import Basis, Standing, Track

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Vector = tuple[float, float, float]
EXACT = r"^[0-9]{1,20}(/[0-9]{1,20}|\.[0-9]{1,20})?$"
"""How an exact share is written. Bounded, and without exponents: 1e-9999999 would be a number of ten million digits."""
MOST_OUTCOMES = 200
"""Labels of one reference; a deck has 52."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class ReferenceConfig(_Strict):
    """See `scenes.scene.Reference`; fractions are quoted text such as '1/6'."""

    derivation: Text
    source: Text
    standing: Standing
    q: Annotated[dict[str, str], Field(max_length=MOST_OUTCOMES)] | None = None
    interval: dict[str, tuple[str, str]] | None = None
    tally: dict[str, int] | None = None


class VariantConfig(_Strict):
    """See `scenes.scene.Variant`."""

    base: Text
    kind: Literal["causal", "non_causal"]
    change: Text


class KnockOutConfig(_Strict):
    """See `scenes.scene.KnockOut`."""

    removes: Text
    overrides: Annotated[list[Text], Field(min_length=1)]


class RangeConfig(_Strict):
    """From where to where a parameter is claimed to make no difference, and on whose authority."""

    low: float
    high: float
    log: bool = False
    source: Text


class TuneConfig(_Strict):
    """Between which values a parameter may be chosen so that the reference holds."""

    low: float
    high: float
    log: bool = False


class CameraConfig(_Strict):
    """See `simulators.world.Camera`."""

    position: Vector
    target: Vector
    up: Vector = (0.0, 0.0, 1.0)
    fov: Annotated[float, Field(gt=0.0, lt=math.pi)] = 0.6
    view_height: Annotated[float, Field(gt=0.0)] | None = None
    width: Annotated[int, Field(ge=16, le=8192, multiple_of=2)] = 832
    height: Annotated[int, Field(ge=16, le=8192, multiple_of=2)] = 480


class LightConfig(_Strict):
    """See `simulators.world.Light`."""

    direction: Vector = (-0.35, -0.45, 0.82)
    softness: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.06
    ambient: Annotated[float, Field(ge=0.0, le=1.0)] = 0.45


class SceneConfig(_Strict):
    """One file under `conf/scene`; see `scenes.scene.Scene`. `outcomes` maps each label to the device's facts that make it."""

    id: Text
    title: Text
    benchmark: Text
    track: Track
    group: Text
    stream: Text
    device: dict[str, Any]
    engine: dict[str, Any] | None = None
    kernel: dict[str, Any] | None = None
    outcomes: dict[str, list[str]]
    reference: ReferenceConfig
    readout_rule: Text
    basis: Basis
    action: Text
    prompt: Text
    camera: CameraConfig
    light: LightConfig = LightConfig()
    renderer: Literal["planar", "raster"]
    epsilon: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    variant: VariantConfig | None = None
    knock_out: KnockOutConfig | None = None
    ranges: dict[str, RangeConfig] | None = None
    tune: dict[str, TuneConfig] | None = None
    weak_point: str = ""
    note: str = ""


def parse(config: Mapping[str, Any]) -> tuple[SceneConfig, list[str]]:
    """Return the typed config, and every key that is missing, unknown or of the wrong type or range.

    With problems the config has only the fields that are right: enough to check the rest in the same go.
    """
    problems = list(_keys_not_text(config))
    if problems:
        return SceneConfig.model_construct(), problems
    try:
        return SceneConfig.model_validate_json(json.dumps(config)), []
    except ValidationError as error:
        wrong = {found["loc"][0] for found in error.errors()}
        hints: dict[str, Any] = {name: field.annotation for name, field in SceneConfig.model_fields.items()}
        right = {
            name: TypeAdapter(hint).validate_json(json.dumps(config[name]), strict=True)
            for name, hint in hints.items()
            if name in config and name not in wrong
        }
        return SceneConfig.model_construct(**right), describe(error, SceneConfig)


def describe(error: ValidationError, model: type[BaseModel] | None = None, at: str = "") -> list[str]:
    """Return one sentence for each of pydantic's findings: the key, its value, what is allowed."""
    return [_sentence(found, model, at) for found in error.errors()]


def _sentence(found: Any, model: type[BaseModel] | None, at: str) -> str:
    key = ".".join([at, *map(str, found["loc"])] if at else map(str, found["loc"]))
    if found["type"] == "missing":
        return f"`{key}` is missing"
    if found["type"] == "extra_forbidden":
        allowed = fields_at(model, found["loc"][:-1])
        return f"`{key}` is not a key here{suggest(str(found['loc'][-1]), allowed)}; allowed are {', '.join(allowed)}"
    message = found["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return f"`{key}` is {found['input']!r}: it {message}"


def fields_at(model: type[BaseModel] | None, path: Iterable[object]) -> tuple[str, ...]:
    """Return the names of the fields of the (nested) model at `path`, none where there is no model."""
    for step in path:
        field = model.model_fields.get(str(step)) if model else None
        options = [field.annotation, *getattr(field.annotation, "__args__", ())] if field else []
        model = next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
    return tuple(model.model_fields) if model else ()


def _keys_not_text(node: object, at: str = "") -> Iterable[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            path = f"{at}.{key}" if at else str(key)
            if not isinstance(key, str):
                yield f"the key `{path}` is read as {type(key).__name__} {key!r}: quote it, as in '{key}'"
            yield from _keys_not_text(value, path)
    elif isinstance(node, list):
        for number, item in enumerate(node):
            yield from _keys_not_text(item, f"{at}[{number}]")


def rules(model: SceneConfig) -> list[str]:
    """Return what is wrong beyond types: labels, reference, camera, light."""
    problems = _outcomes(model.outcomes) if has(model, "outcomes") else []
    if has(model, "engine", "kernel") and model.engine is None and model.kernel is None:
        problems.append("`engine` and `kernel` are both missing: at least one must integrate the device")
    problems += _reference(model) if has(model, "outcomes", "reference", "track") else []
    problems += _ranges(model.ranges or {}) if has(model, "ranges") else []
    problems += _camera(model.camera) if has(model, "camera") else []
    if has(model, "light") and not any(model.light.direction):
        problems.append("`light.direction` is [0, 0, 0]: it must point towards the light")
    return problems


def has(model: SceneConfig, *names: str) -> bool:
    """Tell whether all of these fields were right (see `parse`)."""
    return all(hasattr(model, name) for name in names)


def _ranges(ranges: Mapping[str, RangeConfig]) -> list[str]:
    problems = [
        f"`ranges` names {path!r}: it must be a path below scene.device"
        for path in ranges
        if not path.startswith("scene.device.")
    ]
    for path, one in ranges.items():
        if not one.low <= one.high or (one.log and one.low <= 0.0):
            above = ", both above 0 on a log scale" if one.log else ""
            problems.append(f"`ranges.{path}` goes from {one.low} to {one.high}: `low` must be at most `high`{above}")
    return problems


def _outcomes(outcomes: Mapping[str, list[str]]) -> list[str]:
    problems = [f"`outcomes.{label}` names no fact" for label, facts in outcomes.items() if not facts]
    problems += [f"`outcomes` has the label {label!r}: it must not be blank" for label in outcomes if not label.strip()]
    if len(outcomes) < 2:
        problems.append(f"`outcomes` has {len(outcomes)} label(s): a benchmark item needs at least two")
    return problems


def _camera(camera: CameraConfig) -> list[str]:
    forward = [b - a for a, b in zip(camera.position, camera.target, strict=True)]
    if not any(forward):
        return [f"`camera.target` is {list(camera.target)}, which is also its position: it must look somewhere"]
    if _parallel(forward, camera.up):
        return [f"`camera.up` is {list(camera.up)}, along the view: for a view from above use [0, 1, 0]"]
    return []


def _parallel(a: Iterable[float], b: Iterable[float]) -> bool:
    (a1, a2, a3), (b1, b2, b3) = a, b
    cross = math.hypot(a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1)
    return cross <= 1e-9 * math.hypot(a1, a2, a3) * math.hypot(b1, b2, b3)


def _reference(model: SceneConfig) -> list[str]:
    reference, labels = model.reference, set(model.outcomes)
    given = {name: table for name in ("q", "interval", "tally") if (table := getattr(reference, name)) is not None}
    problems = []
    if len(given) > 1 or (not given and model.track == "calibration"):
        problems.append(
            f"`reference` gives {' and '.join(given) or 'no distribution'}: a calibration scene gives exactly one of q, "
            "interval, tally, a coverage scene at most one"
        )
    for name, table in given.items():
        for label in sorted(labels - set(table)):
            problems.append(f"`reference.{name}` has nothing for the outcome {label!r}")
        for label in sorted(set(table) - labels):
            problems.append(f"`reference.{name}` has {label!r}, which is no outcome{suggest(label, labels)}")
    problems += _q(reference.q) + _interval(reference.interval)
    if reference.tally is not None and (min(reference.tally.values(), default=0) < 0 or not sum(reference.tally.values())):
        problems.append(f"`reference.tally` is {reference.tally}: counts must not be negative, nor all be 0")
    return problems


def fraction(text: str) -> Fraction | None:
    """Return the exact value of text such as '1/6' or '0.25', or None where it is none from 0 to 1."""
    if not re.fullmatch(EXACT, text):
        return None
    try:
        value = Fraction(text)
    except ZeroDivisionError:
        return None
    return value if value <= 1 else None


def _q(q: Mapping[str, str] | None) -> list[str]:
    if q is None:
        return []
    values = {label: fraction(text) for label, text in q.items()}
    problems = [
        f"`reference.q.{label}` is {q[label]!r}: it must be an exact fraction from 0 to 1, quoted, such as '1/6'"
        for label, value in values.items()
        if value is None
    ]
    total = sum((v for v in values.values() if v is not None), Fraction(0))
    if not problems and total != 1:
        problems.append(f"`reference.q` sums to {total} (= {float(total):.6g}): it must sum to exactly 1")
    return problems


def _interval(interval: Mapping[str, tuple[str, str]] | None) -> list[str]:
    problems = []
    for label, pair in (interval or {}).items():
        low, high = map(fraction, pair)
        if low is None or high is None or low > high:
            problems.append(
                f"`reference.interval.{label}` is {list(pair)}: it must be [low, high], fractions from 0 to 1 in order"
            )
    return problems
