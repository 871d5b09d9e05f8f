"""`quincunx controls`: clips whose true outcomes are known, put before a judge through a blind door.

The labels wanted come from the reference here and nowhere else; each is filled by a rollout that physics ended there. A judge,
ours or anyone's, is given re-encoded bytes under names that say nothing.
"""

from __future__ import annotations

import dataclasses
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refcheck import blind, calibench, clips, control_judges, control_report, control_run, evaluate
from refcheck.blind import Control, Opened
from refcheck.clips import SHEET, SOURCE
from refcheck.command import COMPLETED, INFRASTRUCTURE, Answer, Option, Request, UserError
from refcheck.control_clips import SWEEPS, Like, Recipe, make, swept
from refcheck.control_judges import JUDGES, judge_for
from refcheck.control_sets import SETS
from refcheck.control_tables import report_tables, tables
from refcheck.evaluate_judges import endpoint_settings, judge_problems, judges_asked
from refcheck.filming import Film
from refcheck.running import RUNNING, pool_of, run_by
from scenes.catalog import scene_ids
from scenes.load import SceneError, load_scene, raw_scene
from scenes.scene import Scene
from simulators.device import State
from simulators.engines.loop import physics_digest
from simulators.render import looks
from simulators.render.canvas import Image
from simulators.sampling import generator
from simulators.video import contact_sheet, read_clip

SUMMARY = "clips of known outcome, as the reference says or off it by a known amount, to test a judge"
_CALLS = ("model", "base_url", "api_key_env", "protocol", "frames", "timeout", "max_tokens", "retries", "per_minute",
          "concurrency", "price_in", "price_out", "budget", "confusion", "of", "weights")  # fmt: skip
OPTIONS = (
    Option("k", "int", 50, "clips", low=2, high=10_000),
    Option("set", "str", "iid", "labels: as the reference says (iid, quota, balanced over outcomes), or off it (see tilt=)",
           choices=SETS),
    Option("tilt", "float", 0.2, "set=tilted, batches: TVD from the reference", low=0.0, high=1.0),
    Option("toward", "str", None, "set=tilted, batches, collapsed, missing: the outcome it turns on, by default the first"),
    Option("damaged", "int", 0, "further clips for each way of damage", low=0, high=1_000),
    Option("kinds", "str", None, "damaged=: which ways, separated by commas; by default all"),
    Option("nulls", "int", 2_000, "damaged=: rollouts looked through for those that ended in nothing", low=1, high=10_000_000),
    Option("sweep", "str", None, "the same rollouts again at other settings", choices=tuple(SWEEPS)),
    Option("look", "str", "studio", "how clips are filmed", choices=tuple(looks.LOOKS)),
    Option("like", "path", None, "a model's clip: controls get its size, rate, length, codec and bit rate"),
    Option("judge", "str", "trained", "trained on the scene, vlm (an endpoint), state (the truth), noisy (errs), ensemble",
           choices=JUDGES),
    Option("again", "bool", False, "read every clip again: noise from test to retest, and of the order of labels"),
    Option("blind", "path", None, "write clips for another stack into this new folder, and judge nothing; see key=. "
           "With read=: the folder as it went out, whose clips and seal are checked"),
    Option("layout", "str", "pawbench", "blind=: whose files lie beside the clips", choices=blind.LAYOUTS),
    Option("read", "path", None, "what a stack read of a blind folder: rows.jsonl, bins, or a folder of them; see key="),
    Option("key", "path", None, "the sealed truth of a blind folder, outside it"),
    Option("suite", "str", None, "smoke: known defects, each to be caught; table: every scene, one row each",
           choices=("smoke", "table")),
    Option("per_outcome", "int", 60, "rollouts of each outcome that the trained judge learns from", low=8, high=10_000),
    Option("limit", "int", 20_000, "most rollouts to look through for the outcomes needed", low=1, high=10_000_000),
    Option("seed", "int", None, "seed of labels and launches (default 0; blind=: secret, in the key)", low=0, high=2**64 - 1),
    *(option for option in evaluate.OPTIONS if option.name in _CALLS),
    *RUNNING,
)  # fmt: skip
USES_SCENES = "optional"

_READS = ("read", "key", "blind", "seed", "engine", "workers", "executor", "cluster")
"""Keys that change something, or may stand, where readings are opened."""
SHOWN = 12  # clips on the sheet


@dataclass(frozen=True)
class Judged:
    """One control as it went: the clip's file, its rollout, the true outcome, and what the judge said."""

    file: str
    index: int
    truth: str | None
    reading: str | None
    confidence: float
    null: str | None
    failure: str | None


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return what is wrong with the values together; a file that cannot be read is told of elsewhere."""
    told = []
    modes = [name for name in ("suite", "read", "blind") if values[name] is not None]
    if len(modes) > 1 and modes != ["read", "blind"]:
        told.append(f"{' and '.join(f'{name}=' for name in modes)} are both given, and each is a run of its own: give one")
    if values["key"] is None and values["read"] is not None:
        told.append("key= is missing: the sealed truth of the clips that read= has readings of")
    if values["out"] is not None:
        folder = blind.within(values["out"]) or (values["blind"] and values["blind"].resolve())
        if folder and values["out"].resolve().is_relative_to(folder):
            told.append(f"out={values['out']} lies in the blind folder {folder}: whoever gets the clips would get it too")
    if values["key"] is not None and not {"read", "blind"} & set(modes):
        told.append("key= goes with blind=, which writes it, and with read=, which opens it")
    if "vlm" in judges_asked(values) and not modes:
        if values["model"] is None:
            told.append("model= is missing: the judge's name at its endpoint, such as gpt-4o")
        told += endpoint_settings(values).problems()
    sealed = "the key's" if {"state", "noisy"} & set(judges_asked(values)) else None
    told += judge_problems({**values, "truth": sealed})
    if values["read"] is not None:
        idle = [o.name for o in OPTIONS if o.name not in _READS and values[o.name] != o.default]
        idle += ["scene"] if tuple(scenes) != scene_ids() else []
        if idle:
            told.append(f"read= opens what is there: leave {', '.join(f'{name}=' for name in idle)} out")
    elif values["blind"] is not None and values["layout"] == "calibench":
        others = [id for id in scenes if blind.name_of(id) not in calibench.SCENES]
        if others:
            told.append(f"layout=calibench is for CaliBench's own scenes, and takes no bins of {', '.join(others[:5])}")
    if values["like"] is not None and (values["sweep"] is not None or values["look"] != "studio"):
        told.append("like= says how clips are made: leave sweep= and look= out")
    if not modes and len(scenes) != 1:
        told.append("scene= is missing: name a scene, such as scene=calibench/dice; all of them with suite=table")
    if values["suite"] is not None or values["read"] is not None:
        return told
    for scene in scenes if len(scenes) < len(scene_ids()) or len(scene_ids()) == 1 else ():
        try:
            reference = raw_scene(scene).get("reference")
        except SceneError:
            continue
        if isinstance(reference, dict) and not reference.get("q") and not any("reference" in word for word in overrides):
            told.append(_no_reference(scene))
    return told


def settled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seed where none is given: 0, but none for clips that go out blind, which whoever knows it can draw again."""
    goes_out = values["blind"] is not None and values["read"] is None
    return {} if goes_out or values["seed"] is not None else {"seed": 0}


def _no_reference(id: str) -> str:
    return f"controls needs an exact reference `q`, which {id} has not"


def run(request: Request) -> Answer:
    """Make controls, have them read, compare. Status 3 where a clip could not be put before the judge.

    Raises `UserError`, `InfrastructureError`.
    """
    if request.values["suite"] == "smoke":
        from refcheck import selftest

        return selftest.run(request)
    if request.values["suite"] == "table":
        from refcheck import control_table

        return control_table.run(request)
    if request.values["read"] is not None:
        return _read(request)
    if request.values["blind"] is not None:
        return _blind(request)
    return _judge(request)


def _load(request: Request, id: str) -> Scene:
    scene = run_by(load_scene(id, request.overrides), request.values["engine"])
    if scene.reference.q is None:
        raise UserError(_no_reference(scene.id))
    return scene


def recipe_of(values: Mapping[str, Any]) -> Recipe:
    """Return how clips are made."""
    return Recipe(Film(look=values["look"]), like=None if values["like"] is None else Like.of(values["like"]))


def _judge(request: Request) -> Answer:
    values, seed, seconds = request.values, request.values["seed"], dict[str, float]()
    scene, recipe = _load(request, request.scenes[0]), recipe_of(request.values)
    clock, k, threads = _Clock(seconds), request.values["k"], request.values["concurrency"]
    names = [f"{number:0{len(str(k - 1))}d}" for number in range(k)]
    control_judges.check_judge(values, scene)  # before anything takes time
    if request.out:
        clips.check_folder(request.out, clips.files_of(names))
    with ExitStack() as stack:
        pool = stack.enter_context(pool_of(values, request.out))
        out = stack.enter_context(clips.folder_for(request.out))
        hidden = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quincunx-")))
        with clock("rollouts"):
            planned = control_run.plan(scene, values, pool, request.progress)
        with clock("judge"):
            asked = judge_for(values, scene, stack, request.out, pool, request.progress)
        chosen = planned.chosen
        with clock("clips"), request.progress("draw clips", k + len(planned.damaged)) as advance:
            made = clips.render_clips(scene, seed, chosen, out, names=names, film=recipe.film, pool=pool, advance=advance)
            clips.write_png(out / SOURCE, clips.source_of(scene, recipe.film))
            truth, batch = [scene.outcomes[label] for label in planned.wanted.labels], planned.wanted.batch.tolist()
            plain = [
                Control(out / clip.file, scene.id, clip.index, true, recipe.film.fps, clip.frames, batch=number)
                for clip, true, number in zip(made, truth, batch, strict=True)
            ]
            if recipe.like:
                plain, _ = make(scene, seed, planned.clean(scene), hidden / "like", recipe, pool)
            spoiled, refused = make(scene, seed, planned.damaged, hidden / "damaged", recipe, pool, advance)
        controls = [*plain, *spoiled]
        with clock("readings"):
            door = (threads, pool, request.progress)
            recode = recipe.like is None  # what was matched to a model's encoder is left as it came out of it
            opened = control_run.through_the_door(scene, controls, asked.of, hidden / "first", *door, recode=recode)
            again = (scene, controls, opened, asked, hidden, *door)
            noise = control_run.retest(*again, recode=recode) if values["again"] else None
        with clock("sweep"):
            recipes = {str(value): swept(recipe, values["sweep"], value) for value in SWEEPS.get(values["sweep"], ())}
            rows = control_run.sweep(scene, seed, planned, recipes, asked, hidden, *door)
        said = {one.sealed.index: one for one in opened}
        judged = [_judged(clip.file, clip.index, said[clip.index]) for clip in made]
        clips.write_png(out / SHEET, sheet(scene, out, judged[:SHOWN], chosen.end[:SHOWN]))
    cost = asked.cost()
    q, table = scene.q(), control_report.confusion(scene.outcomes, opened)
    failures = [_slot(one) | {"reason": one.failure} for one in opened if one.failure is not None]
    result = {
        "scene": scene.id,
        "digest": physics_digest(scene.device, scene.integrator),
        "k": k,
        "judge": {"name": asked.name, **asked.described},
        "outcomes": list(scene.outcomes),
        "q": {label: str((scene.reference.q or {})[label]) for label in scene.outcomes},
        **control_report.figures(scene.outcomes, q, table, generator(seed, scene.stream, "null band", k, 0)),
        "judged": {"counts": table[:, :-1].sum(axis=0), "nulls": _nulls(opened)},
        "set": {"kind": values["set"], "expected": planned.wanted.expected(), "law": planned.wanted.law},
        "sampling": planned.wanted.sampling,
        "batches": _batches(scene, opened) if values["set"] == "batches" else None,
        "report": control_report.report(scene.outcomes, q, opened, seed, scene.stream),
        "again": noise,
        "sweep": {"of": values["sweep"], "rows": rows} if rows else None,
        "not_made": {**refused, **planned.absent},
        "cost": cost,
        "infrastructure_failures": sum(one.failure is not None and not one.sealed.kind for one in opened),
        "failures": failures,
        "clips": judged,
        "damaged_clips": [
            dataclasses.asdict(_judged("", o.sealed.index, o)) | {"kind": o.sealed.kind} for o in opened if o.sealed.kind
        ],
        "sheet": SHEET,
        "source": SOURCE,
        "seconds": seconds,
    }
    if request.out is None:
        del result["sheet"], result["source"]  # they are gone with their folder
    return Answer(result, tables(result), INFRASTRUCTURE if failures else COMPLETED)


def _nulls(opened: Sequence[Opened]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for one in control_report.clean(opened):
        if one.reading is None:
            reasons[one.null] = reasons.get(one.null, 0) + 1
    return reasons


def _batches(scene: Scene, opened: Sequence[Opened]) -> list[dict[str, Any]]:
    """Return true and read counts of each batch."""
    told = []
    for number in sorted({one.sealed.batch for one in control_report.clean(opened)}):
        table = control_report.confusion(scene.outcomes, [one for one in opened if one.sealed.batch == number])
        told.append({"batch": number, "truth": table.sum(axis=1), "judged": table[:, :-1].sum(axis=0)})
    return told


def _slot(one: Opened) -> dict[str, Any]:
    return {"file": f"{one.sealed.scene}/r{one.sealed.repeat:03d}.mp4", "index": one.sealed.index, "kind": one.sealed.kind}


def _judged(file: str, index: int, one: Opened) -> Judged:
    null = one.null if one.reading is None and one.failure is None else None
    return Judged(file, index, one.sealed.truth, one.reading, one.confidence, null, one.failure)


def _blind(request: Request) -> Answer:
    """Write a blind folder and its key."""
    folder, given = Path(request.values["blind"]), request.values["seed"]
    values = {**request.values, "seed": secrets.randbits(64) if given is None else given}
    key_path = Path(values["key"]) if values["key"] is not None else folder.with_name(folder.name + ".key.json")
    blind.check_key_path(folder, key_path)
    if key_path.exists():
        raise UserError(f"key={key_path} is there already, and opens other clips: give another file")
    recipe = recipe_of(values)
    scenes, controls, absent = [_load(request, id) for id in request.scenes], list[Control](), dict[str, Any]()
    blind.check_folder_and_names(folder, scenes)  # before anything takes time
    with blind.new_folder(folder) as built:
        with ExitStack() as stack:
            hidden = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quincunx-")))
            pool = stack.enter_context(pool_of(values, request.out))
            for number, scene in enumerate(scenes):
                planned = control_run.plan(scene, values, pool, request.progress)
                wishes = [*planned.clean(scene), *planned.damaged]
                with request.progress(f"draw clips of {scene.id}", len(wishes)) as advance:
                    made, refused = make(scene, values["seed"], wishes, hidden / str(number), recipe, pool, advance)
                controls += made
                absent[scene.id] = {**refused, **planned.absent}
            recode = recipe.like is None
            with request.progress("put out", len(controls)) as advance:
                sets = {scene.id: values["set"] for scene in scenes}
                made_by = {"sets": sets, "recode": recode, "pool": pool, "advance": advance}
                key = blind.export(scenes, controls, built, values["layout"], **made_by)
        digest = blind.seal(key.model_copy(update={"seed": values["seed"]}), built, key_path)
    counts = {scene.id: sum(c.scene == scene.id for c in controls) for scene in scenes}
    result = {
        "schema": "quincunx.blind/v1",
        "blind": folder,
        "key": key_path,
        "sha256": digest,
        "layout": values["layout"],
        "clips": counts,
        "not_made": absent,
    }
    told = [
        f"{len(controls)} clips of {len(scenes)} scenes are in {folder / blind.CLIPS}, under names that say nothing. Give away "
        f"{folder} and keep {key_path}: `quincunx controls read=ROWS key={key_path}` opens what comes back."
    ]
    if given is not None:
        told.append(f"seed={given} was given: whoever knows or guesses it can make these clips again, and read off the truth.")
    return Answer(result, told)


def _read(request: Request) -> Answer:
    """Open what a stack read of a blind folder."""
    values = request.values
    if missing := [f"{name}={values[name]}: there is no such file" for name in ("read", "key") if not values[name].exists()]:
        raise UserError(*missing)
    key = blind.read_key(values["key"])
    if values["blind"] is not None:
        blind.check_seal(values["blind"], values["key"], key)
    opened = blind.open_sealed(values["read"], key)
    rows = []
    for name, held in key.scenes.items():
        mine = [one for one in opened if one.sealed.scene == name]
        q = None if held.q is None else np.asarray(held.q)
        table = control_report.confusion(held.outcomes, mine)
        row: dict[str, Any] = {"scene": held.id, "outcomes": held.outcomes, "set": held.set, "confusion": table}
        row["confusion_columns"] = [*held.outcomes, control_report.NULL]
        row["failures"] = [_slot(one) | {"reason": one.failure} for one in mine if one.failure is not None]
        if q is not None:
            row |= control_report.figures(held.outcomes, q, table, generator(values["seed"], held.id, "null band", 0, 0))
        rows.append(row | {"report": control_report.report(held.outcomes, q, mine, values["seed"], held.id)})
    status = INFRASTRUCTURE if any(row["failures"] for row in rows) else COMPLETED
    sealed = values["blind"] is not None
    result = {"schema": "quincunx.opened/v1", "read": values["read"], "key": values["key"], "sealed": sealed, "scenes": rows}
    told = (
        "Seal and clips are as they went out." if sealed else "Seal and clips were not checked: give blind= with their folder."
    )
    return Answer(result, (*report_tables(rows), told), status)


class _Clock:
    """Collects the seconds that named stages take."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def __call__(self, name: str) -> _Clock:
        self.name, self.begun = name, time.monotonic()
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.seconds[self.name] = time.monotonic() - self.begun


def sheet(scene: Scene, out: Path, judged: Sequence[Judged], ends: State) -> Image:
    """Return the last picture of each clip, with a closer look at what decides in `ends` (n rows), truth and reading."""
    images, labels = [], []
    for one, points in zip(judged, clips.looked_at(scene, ends, [scene.camera] * len(ends)), strict=True):
        *_, last = read_clip(out / one.file)
        images.append(clips.with_closer_look(last, points))
        said = "failed" if one.failure else one.reading or f"no answer ({one.null})"
        labels.append(f"truth {one.truth}, read {said}")
    return contact_sheet(images, 3, labels, 416)
