"""`quincunx bias`: what a scene's source image itself implies. Its geometry is measured, put into the device, and simulated.

It refuses to know how an outcome could be drawn: the picture changes the device's parameters, and rollouts do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator, Philox

from refcheck import bias_tables as tables
from refcheck import clips, metrics
from refcheck.bias_throws import Throws, read_tally, throws_of
from refcheck.command import COMPLETED, NOT_MET, Answer, Option, Request, UserError
from refcheck.image_reading.kinds import KINDS, kind_of
from refcheck.image_reading.marks import (
    MOST_PIXELS,
    Array,
    Kind,
    Marks,
    Picture,
    Unreadable,
    Values,
    annotation_text,
    read_annotations,
    read_picture,
)
from refcheck.image_reading.overlay import overlay
from refcheck.judges.state import fingerprint
from refcheck.output import RESULT, atomic, withdraw
from refcheck.running import RUNNING, pool_of, run_by
from refcheck.tolerance import epsilon_of
from refcheck.untrusted import Problems, read_text
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import Device
from simulators.execute import Pool, run_range

SUMMARY = "measure a source image and simulate what it implies"
OPTIONS = (
    Option("image", "path", None, "the picture, PNG, JPEG or WebP; by default the scene's own source image"),
    Option("annotations", "path", None, "points marked by hand (JSON), instead of what is found; template=true writes one"),
    Option("template", "bool", False, "write annotations.json and a picture of it to correct by hand; measure nothing"),
    Option("camera", "str", None, "whose took it; by default the scene's for its own image", choices=("scene", "unknown")),
    Option("tally", "path", None, "real throws of the pictured object: JSON, a count for each outcome"),
    Option("n", "int", 40_000, "rollouts of the pictured device, as many of the scene's", low=1_000, high=10**8),
    Option("draws", "int", 39, "ways the picture may be meant, drawn from its uncertainty; 39 give 95 %", low=9, high=999),
    Option("epsilon", "float", None, "distance that matters, by default the scene's own", low=1e-4, high=0.99),
    Option("seed", "int", 0, "seed of launches and of uncertainty", low=0, high=2**64 - 1),
    *RUNNING,
    Option("require", "str", None, "exit with status 1 unless the picture is", choices=("faithful", "decided")),
)
USES_SCENES = "one"
OVERLAY, ANNOTATIONS, TEMPLATE = "measured.png", "annotations.json", "template.png"
LEVEL = 0.95

Verdict = Literal["faithful", "biased", "unclear"]


@dataclass(frozen=True)
class Measure:
    """One measure: what the picture has (with its sd) and what the scene has, in `unit`.

    `shift` is the TVD between the scene's outcomes and those with this measure alone taken from the picture, both on the same
    launches; `noise` what the finite number of rollouts could make of no shift at all.
    """

    name: str
    unit: str
    value: Any
    sigma: Any
    scene: Any
    shift: float
    noise: float


@dataclass(frozen=True)
class Bias:
    """The result of bias. `lower` and `upper` bound TVD(q_image, q) over what the picture may mean, at `LEVEL`."""

    scene: str
    picture: str
    read_by: Literal["machine", "annotations"]
    measures: tuple[Measure, ...]
    outcomes: tuple[str, ...]
    q: tuple[float, ...]
    q_scene: tuple[float, ...]
    q_image: tuple[float, ...]
    q_image_low: tuple[float, ...]
    q_image_high: tuple[float, ...]
    tvd_scene: float
    tvd: float
    lower: float
    upper: float
    epsilon: float
    verdict: Verdict
    to_blame: tuple[str, ...]
    null_rate: float
    impossible: int
    n: int
    draws: int
    throws: Throws | None = None


@dataclass(frozen=True)
class Pictured:
    """A device as a picture has it, and which fact each of its facts (f,) is there; None where it is the same one."""

    device: Device
    fact: tuple[int, ...] | None = None


def pictured(kind: Kind, device: Device, values: Values) -> Pictured:
    """Return `device` with these of its measures changed. Raises `ValueError` where that is no device."""
    relabel = getattr(kind, "relabel", None)
    fact = None if relabel is None or not values else tuple(relabel(device, values).tolist())
    return Pictured(kind.put(device, values), fact)


def count(scene: Scene, shown: Pictured, seed: int, first: int, n: int, pool: Pool | None = None) -> tuple[Array, int]:
    """Return outcome counts (k,) and nulls of `n` rollouts of a device from index `first` of the scene's own launches."""
    counts, nulls = np.zeros(len(scene.outcomes)), 0
    table = None if shown.fact is None else np.array([*shown.fact, -1])
    for part in run_range(scene.integrator, shown.device, seed, scene.stream, first, first + n, pool):
        outcome = scene.outcome(part.fact if table is None else table[part.fact])
        counts += np.bincount(outcome[outcome >= 0], minlength=len(counts))
        nulls += int((outcome < 0).sum())
    return counts, nulls


def drawn_values(kind: Kind, marks: Marks, device: Device, draws: int, generator: Generator) -> list[Values]:
    """Return `draws` ways the picture may be meant: marks moved by their uncertainty, and what no mark can tell."""
    values = []
    for _ in range(draws):
        drawn = kind.values(marks.moved(generator), device)
        for name, sd in kind.systematic(drawn, marks).items():
            if sd > 0.0:
                drawn[name] = drawn[name] + sd * generator.normal(size=np.shape(drawn[name]))
        values.append(drawn)
    return values


def between(counts: Array) -> Array:
    """Return shares (M, k) of each draw, drawn in to spread as the true shares do: without the spread of finite counts.

    The variance between draws is the observed one less the multinomial one (summed over outcomes, at least 0); shares are
    pulled towards their mean by the root of its part (constrained empirical Bayes, Louis, JASA 79, 1984).
    """
    n = counts.sum(axis=1, keepdims=True)
    share, mean = counts / n, counts.sum(0) / counts.sum()
    if len(share) < 2:
        return share
    seen = float(np.sum(np.var(share, axis=0, ddof=1)))
    finite = float(np.sum(mean * (1.0 - mean)) * np.mean(1.0 / n))
    part = max(0.0, 1.0 - finite / seen) if seen > 0.0 else 0.0
    return np.asarray(mean + np.sqrt(part) * (share - mean))


def radius(counts: Array, generator: Generator, redraws: int = 2000) -> float:
    """Return what TVD(p^, p) stays below at `LEVEL`, by redrawing: |TVD(p^, q) - TVD(p, q)| is no larger for any q."""
    n = int(counts.sum())
    again = generator.multinomial(n, counts / counts.sum(), size=redraws)
    return float(np.quantile(np.abs(again / n - counts / counts.sum()).sum(1) / 2.0, LEVEL))


def measure_bias(
    scene: Scene,
    kind: Kind,
    marks: Marks,
    *,
    picture: str = "",
    read_by: Literal["machine", "annotations"] = "machine",
    n: int = 40_000,
    draws: int = 39,
    epsilon: float | None = None,
    seed: int = 0,
    tally: Array | None = None,
    pool: Pool | None = None,
    advance: Callable[[int], Any] = lambda count: None,
) -> Bias:
    """Simulate the device that `marks` show, as often as its uncertainty has it, and compare with the reference.

    Draws whose measures make no device are left out and counted (`impossible`). Raises `UserError` when that is most of
    them, or when most rollouts end in no outcome.
    """
    generator = Generator(Philox(key=np.array([seed, 1], np.uint64)))
    q, device = scene.q(), scene.device
    epsilon = epsilon_of(scene, epsilon)
    values = kind.values(marks, device)
    drawn = drawn_values(kind, marks, device, draws, generator)
    devices, impossible = [], list[str]()
    for one in drawn:
        try:
            devices.append(pictured(kind, device, one))
        except ValueError as error:
            impossible.append(str(error).splitlines()[0])
    if len(devices) < 0.8 * draws:
        raise UserError(f"{len(impossible)} of {draws} draws of what the picture shows are no such device: {impossible[0]}")
    if all(one == devices[0] for one in devices):
        devices = devices[:1]  # what was measured is a word or a count: nothing is left to vary
    each = max(1, n // len(devices))
    table, nulls = np.zeros((len(devices), len(q))), 0
    for index, shown_device in enumerate(devices):
        table[index], null = count(scene, shown_device, seed, index * each, each, pool)
        nulls += null
        advance(each)
    if nulls > 0.5 * each * len(devices) or table.sum(1).min() < 1:
        raise UserError(f"{nulls} of {each * len(devices)} rollouts of the pictured device end in no outcome")
    own, _ = count(scene, Pictured(device), seed, 0, n, pool)
    advance(n)
    shares, reach = between(table), radius(table.sum(0), generator)
    distances = np.abs(shares - q).sum(1) / 2.0
    lower, upper = max(0.0, float(distances.min()) - reach), min(1.0, float(distances.max()) + reach)
    spread = reach if len(q) == 2 else 1.96 * np.sqrt(shares.mean(0) * (1 - shares.mean(0)) / table.sum())
    verdict: Verdict = "biased" if lower > epsilon else "faithful" if upper <= epsilon else "unclear"
    measures = _measures(scene, kind, values, drawn, seed, max(1000, n // 4), pool, generator, advance)
    tvd_scene = float(metrics.tvd(own, q))
    return Bias(
        scene=scene.id,
        picture=picture,
        read_by=read_by,
        measures=measures,
        outcomes=scene.outcomes,
        q=tuple(q.tolist()),
        q_scene=tuple((own / own.sum()).tolist()),
        q_image=tuple((table.sum(0) / table.sum()).tolist()),
        q_image_low=tuple(np.clip(shares.min(0) - spread, 0.0, 1.0).tolist()),
        q_image_high=tuple(np.clip(shares.max(0) + spread, 0.0, 1.0).tolist()),
        tvd_scene=tvd_scene,
        tvd=float(metrics.tvd(table.sum(0), q)),
        lower=lower,
        upper=upper,
        epsilon=epsilon,
        verdict=verdict,
        to_blame=_to_blame(verdict, measures, tvd_scene, epsilon, radius(own, generator)),
        null_rate=nulls / (each * len(devices)),
        impossible=len(impossible),
        n=each * len(devices),
        draws=len(devices),
        throws=None if tally is None else throws_of(tally, q, table.sum(0), 1.0 - LEVEL),
    )


def _measures(
    scene: Scene,
    kind: Kind,
    values: Values,
    drawn: Sequence[Values],
    seed: int,
    n: int,
    pool: Pool | None,
    generator: Generator,
    advance: Callable[[int], Any],
) -> tuple[Measure, ...]:
    """Return every measure with its shift: the scene's device with that one alone as the picture has it."""
    of_scene = kind.of_device(scene.device)
    own, _ = count(scene, Pictured(scene.device), seed, 0, n, pool)
    measures = []
    for name, value in values.items():
        shift = noise = float("nan")
        try:
            alone, _ = count(scene, pictured(kind, scene.device, {name: value}), seed, 0, n, pool)
            if alone.sum() and own.sum():
                shift = float(np.abs(alone / alone.sum() - own / own.sum()).sum() / 2.0)
                noise = float(np.sqrt(2.0)) * radius((own + alone) / 2.0, generator)
        except ValueError:
            pass  # alone it makes no device; together with the others it may, and its shift stays unknown
        advance(n)
        sigma = None if isinstance(value, str) else np.std([one[name] for one in drawn], axis=0, ddof=1)
        measures.append(Measure(name, kind.units[name], value, sigma, of_scene[name], shift, noise))
    return tuple(measures)


def _to_blame(verdict: Verdict, measures: Sequence[Measure], tvd_scene: float, epsilon: float, noise: float) -> tuple[str, ...]:
    """Return the measures that shift outcomes by more than chance could, the largest first; and the scene's device itself."""
    if verdict == "faithful":
        return ()
    moved = sorted((one for one in measures if one.shift > one.noise), key=lambda one: -one.shift)
    blame = [one.name for one in moved]
    if tvd_scene - noise > epsilon:
        blame.append("the scene's device, which is off before anything is measured")
    return tuple(blame)


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return keys that do not go together."""
    if not values["template"]:
        return []
    given = [key for key in ("annotations", "tally") if values[key] is not None]
    told = [f"template=true and {key}= are both given: a template only says where to mark" for key in given]
    return told + (["template=true writes a file to correct: say where with out=DIR"] if values["out"] is None else [])


def run(request: Request) -> Answer:
    """Measure one picture and simulate it. Raises `UserError`, `InfrastructureError`."""
    values = request.values
    scene = run_by(load_scene(request.scenes[0], request.overrides), values["engine"])
    kind, problems = kind_of(scene.device), Problems()
    if kind is None:
        known = ", ".join(sorted(one.__name__ for one in KINDS))
        raise UserError(f"bias cannot measure pictures of a {type(scene.device).__name__} ({scene.id}); it can of {known}")
    if scene.reference.q is None:
        raise UserError(f"bias needs an exact reference `q`, which {scene.id} has not")
    _spare(request, problems)
    if values["image"] is None:
        picture, factor, name = clips.source_of(scene), 1.0, f"the source image of {scene.id}"
    else:
        read = read_picture(Path(values["image"]), problems)
        picture, factor = read if read else (np.zeros((1, 1, 3), np.uint8), 1.0 / MOST_PIXELS)  # any mark lies inside
        name = Path(values["image"]).name
    needed, size = kind.marks(scene.device), (picture.shape[1], picture.shape[0])
    marks = None
    if values["annotations"] is not None:
        marks = read_annotations(Path(values["annotations"]), needed, size, factor, problems)
    tally = read_tally(Path(values["tally"]), scene.outcomes, problems) if values["tally"] is not None else None
    problems.check()
    camera = values["camera"] or ("scene" if values["image"] is None else "unknown")
    seen_by = _camera(scene, size) if camera == "scene" else None
    if values["template"]:
        return _template(request, scene, kind, picture, factor)
    try:
        if marks is None:
            marks = kind.find(picture, scene.device)
        marks = Marks(marks.points, marks.sigma, marks.words, seen_by)
        kind.values(marks, scene.device)
    except Unreadable as error:
        if values["annotations"] is not None:
            raise UserError(f"{values['annotations']}: these marks are no such {kind.title}: {error}") from error
        raise UserError(
            f"{name}: the {kind.title} cannot be measured: {error}. Mark it by hand: `quincunx bias scene={scene.id} "
            f"template=true out=DIR` (with the same image=) writes a file to correct, and annotations=FILE takes it"
        ) from error
    total = 2 * values["n"] + max(1000, values["n"] // 4) * len(kind.units)
    with pool_of(values, request.out) as pool, request.progress(f"simulate {name}", total) as advance:
        bias = measure_bias(
            scene,
            kind,
            marks,
            picture=name,
            read_by="machine" if values["annotations"] is None else "annotations",
            tally=tally,
            pool=pool,
            advance=advance,
            **{key: values[key] for key in ("n", "draws", "epsilon", "seed")},
        )
    shown_image = None if values["image"] is None else fingerprint(Path(values["image"]))
    result: dict[str, Any] = {"bias": bias, "image_sha256": shown_image}
    if request.out is not None:
        withdraw(request.out, OVERLAY, TEMPLATE)
        said = [tables.line(one) for one in bias.measures]
        clips.write_png(request.out / OVERLAY, overlay(picture, marks, [*said, tables.verdict(bias)]))
        result["overlay"] = OVERLAY
    met = {None: True, "faithful": bias.verdict == "faithful", "decided": bias.verdict != "unclear"}[values["require"]]
    return Answer(result, tables.tables(bias), COMPLETED if met else NOT_MET)


def _spare(request: Request, problems: Problems) -> None:
    """Note what people made and this run would remove or leave beside other figures: `out` is for files of ours."""
    if request.out is None:
        return
    ours = {(request.out / name).resolve(): name for name in (RESULT, OVERLAY, TEMPLATE, ANNOTATIONS)}
    for key in ("image", "annotations", "tally"):
        if request.values[key] is not None and Path(request.values[key]).resolve() in ours:
            problems.add(f"{key}={request.values[key]}", "lies where out= is to be written: give another out=")
    if not request.values["template"] and (request.out / ANNOTATIONS).exists():
        problems.add(request.out / ANNOTATIONS, "is there already, perhaps corrected by hand: give another out=")


def _camera(scene: Scene, size: tuple[int, int]) -> Any:
    """Return the scene's camera at the size of the picture. Raises `UserError` for another shape."""
    own = scene.camera
    if abs(size[0] * own.height - size[1] * own.width) > max(own.height, own.width):
        raise UserError(
            f"camera=scene: the picture has {size[0]}x{size[1]} pixels, another shape than the scene's camera takes "
            f"({own.width}x{own.height}); give camera=unknown"
        )
    return replace(own, width=size[0], height=size[1])


def _template(request: Request, scene: Scene, kind: Kind, picture: Picture, factor: float) -> Answer:
    out, needed = request.out or Path(), kind.marks(scene.device)
    size = (picture.shape[1], picture.shape[0])
    try:
        marks, how = kind.find(picture, scene.device), "what was found in the picture"
    except Unreadable as error:
        marks, how = kind.expected(scene.device, _fitting(scene, size)), f"places to start from (nothing was found: {error})"
    file, text = out / ANNOTATIONS, annotation_text(marks, needed, factor)
    if file.exists() and read_text(file, Problems()) != text:
        raise UserError(f"{file} is there already and says something else, perhaps by hand: remove it, or give another out=")
    withdraw(out, OVERLAY, TEMPLATE)
    with atomic(file) as path:
        path.write_text(text, "utf-8")
    lines = [f"{name}: {mark.help}" for name, mark in needed.items()]
    clips.write_png(out / TEMPLATE, overlay(picture, marks, lines, ruler=True))
    told = f"{file} holds {how}; {out / TEMPLATE} shows them. Correct it and give it as annotations=."
    return Answer({"annotations": ANNOTATIONS, "template": TEMPLATE, "holds": how}, (told,))


def _fitting(scene: Scene, size: tuple[int, int]) -> Any:
    """Return the scene's camera for a picture of another shape: its height filled as in the scene's own."""
    return replace(scene.camera, width=size[0], height=size[1])
