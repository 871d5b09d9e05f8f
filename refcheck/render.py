"""`quincunx render`: clips of chosen rollouts, the source image, and a contact sheet. It knows no reference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from refcheck import clips
from refcheck.clips import SHEET, SOURCE, Clip
from refcheck.command import Answer, Option, Request, UserError
from refcheck.filming import FPS, Film, problems, shutter_of, source_of
from refcheck.options import suggest
from refcheck.output import RESULT
from refcheck.running import RUNNING, pool_of, run_by
from scenes.load import SceneError, compose_scene, load_scene, raw_scene
from scenes.scene import Scene
from simulators.device import State
from simulators.engines.loop import run as run_rollouts
from simulators.execute import Pool
from simulators.render import RENDERERS
from simulators.render.canvas import Image
from simulators.render.looks import LOOKS
from simulators.video import MINIMUM, contact_sheet, read_clip
from simulators.world import Camera

SUMMARY = "clips of chosen rollouts, by index or by outcome; source images and contact sheets"
OPTIONS = (
    Option("index", "int", None, "the first rollout to draw, by its index (default 0)", low=0, high=2**53),
    Option("outcome", "str", None, "the first rollouts that ended in this outcome, instead of index="),
    Option("count", "int", 1, "clips", low=1, high=10_000),
    Option("sheet", "bool", False, "one clip of every outcome of each scene, on a page; for any number of scenes"),
    Option("limit", "int", 5_000, "most rollouts to look through for an outcome", low=1, high=10_000_000),
    Option("look", "str", "studio", "how it is filmed", choices=tuple(LOOKS)),
    Option("renderer", "str", "scene", "who draws: scene leaves it to the scene", choices=("scene", *RENDERERS)),
    Option(
        "shutter",
        "float",
        None,
        "share of a frame's time in which light is gathered (0: sharp); else the look's",
        low=0,
        high=1,
    ),
    Option(
        "variation", "int", 0, "which of the look's variations of camera, light and sensor all clips share", low=0, high=2**53
    ),
    Option("vary", "bool", False, "another variation for every clip, numbered by its rollout"),
    Option("fps", "float", FPS, "frames a second", low=1.0, high=120.0),
    Option("frames", "int", MINIMUM, "fewest frames of a clip; the final state is held", low=1, high=10_000),
    Option("notes", "bool", True, "a track (poses, boxes, visibility) and what made it beside each clip"),
    Option("masks", "bool", False, "segmentation and depth beside each clip too"),
    Option("seed", "int", 0, "seed of the launches", low=0, high=2**64 - 1),
    *RUNNING,
)
USES_SCENES = True
SHEET_ROWS = 24  # clips on one sheet; more could be seen by nobody
COLUMNS, WIDTH = 4, 416  # of a page of scenes


def default_out(values: Mapping[str, Any], scenes: Sequence[str]) -> Path:
    """Return where clips go when `out=` is not given: a folder named after what was asked for, so that two never collide."""
    asked = scenes[0] if len(scenes) == 1 else f"{len(scenes)}-scenes"
    chosen = "sheet" if values["sheet"] else f"{values['outcome']}" if values["outcome"] else f"at-{values['index'] or 0}"
    count = f"-x{values['count']}" if values["count"] != 1 else ""
    return Path("out") / re.sub(r"[^A-Za-z0-9._-]", "-", f"render-{asked}-{chosen}{count}")


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return what is wrong with the values together, and an outcome that the scene does not have."""
    told = []
    if values["sheet"] and (values["index"] is not None or values["outcome"] is not None):
        told.append("sheet=true takes one clip of every outcome: leave index= and outcome= out")
    if values["index"] is not None and values["outcome"] is not None:
        told.append("index= and outcome= are both given: give one of them")
    if len(scenes) > 1 and not values["sheet"]:
        told.append(f"{len(scenes)} scenes are asked for: give one with scene=, or add sheet=true")
    if values["outcome"] is not None and len(scenes) == 1 and not values["sheet"]:
        told += _unknown(values["outcome"], scenes[0], _outcomes(scenes[0], overrides))
    if values["vary"] and values["variation"]:
        told.append("variation= and vary=true are both given: give one of them")
    if values["masks"] and not values["notes"]:
        told.append("masks=true needs the track that says whose they are: leave notes=false out")
    try:
        film_of(values)
    except UserError as error:
        told += error.problems
    return told


def film_of(values: Mapping[str, Any]) -> Film:
    """Return how the values ask to film. Raises `UserError`."""
    return Film(
        look=values["look"],
        renderer=None if values["renderer"] == "scene" else values["renderer"],
        shutter=None if values["shutter"] is None else shutter_of(values["shutter"]),
        variation=values["variation"],
        each=values["vary"],
        frames=values["frames"],
        fps=values["fps"],
        notes=values["notes"],
        masks=values["masks"],
    )


def _outcomes(id: str, overrides: Sequence[str]) -> Sequence[str]:
    """Return the outcomes of a scene without building it; none where its config cannot be read, which is told elsewhere."""
    try:
        changed = any("outcomes" in word for word in overrides)
        outcomes = (compose_scene(id, overrides) if changed else raw_scene(id)).get("outcomes")
    except SceneError:
        return ()
    return [str(label) for label in outcomes] if isinstance(outcomes, dict) else ()


def _unknown(outcome: str, id: str, outcomes: Sequence[str]) -> list[str]:
    if outcome in outcomes or not outcomes:
        return []
    return [f"outcome={outcome!r} is none of {id}{suggest(outcome, outcomes)}: it has {', '.join(outcomes)}"]


def run(request: Request) -> Answer:
    """Find, replay, draw and encode what passed `mistakes`. Raises `UserError`, `InfrastructureError`."""
    values, out = request.values, request.out or default_out(request.values, request.scenes)
    loaded, film = [run_by(load_scene(id, request.overrides), values["engine"]) for id in request.scenes], film_of(values)
    if told := [line for scene in loaded for line in problems(scene, film)]:
        raise UserError(*told)
    with pool_of(values, request.out) as pool:
        if values["sheet"]:
            return _pages(request, out, loaded, film, pool)
        return _chosen(request, out, loaded[0], film, pool)


def _chosen(request: Request, out: Path, scene: Scene, film: Film, pool: Pool | None) -> Answer:
    values, count, seed = request.values, request.values["count"], request.values["seed"]
    if values["outcome"] is None:
        first = values["index"] or 0
        clips.check_folder(out, clips.files_of([f"{index:08d}" for index in range(first, first + count)]))
        rollouts = run_rollouts(scene.integrator, scene.device, seed, scene.stream, range(first, first + count))
    else:
        if problems := _unknown(values["outcome"], scene.id, scene.outcomes):
            raise UserError(*problems)
        clips.check_folder(out)  # before anything takes time; which rollouts they are is not known yet
        needed = np.where(np.array(scene.outcomes) == values["outcome"], count, 0)
        with request.progress(f"look for {values['outcome']}", count) as advance:
            found = clips.search(scene, seed, needed, limit=values["limit"], pool=pool, advance=advance)
        rollouts = clips.require_all(scene, found, needed, values["limit"])
    source = source_of(scene, film, seed, int(rollouts.index[0]))  # before any clip: it may not be possible to draw it so
    with request.progress(f"draw {scene.id}", count) as advance:
        made = clips.render_clips(scene, seed, rollouts, out, film=film, pool=pool, advance=advance)
    clips.write_png(out / SOURCE, source)
    shown = made[:SHEET_ROWS]
    clips.write_png(out / SHEET, clips.rows_sheet([out / clip.file for clip in shown], [_label(clip) for clip in shown]))
    result = {"scene": scene.id, **clips.described(scene, seed, film, made), "source": SOURCE, "sheet": SHEET}
    return Answer(_without_origin(result), (_table(scene.id, made, out), f"{out / SHEET} shows them"))


def _pages(request: Request, out: Path, loaded: Sequence[Scene], film: Film, pool: Pool | None) -> Answer:
    values, seed, results, tables, pages = request.values, request.values["seed"], [], list[Any](), list[Image]()
    for scene in loaded:
        clips.check_folder(folder := out / scene.id.replace("/", "-"))
        if (folder / RESULT).exists():  # a run of its own, which nobody asked to replace
            raise UserError(f"{folder / RESULT} is the result of another command: give another folder with out=")
    clips.forget(out)
    for scene in loaded:
        folder = out / scene.id.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        with request.progress(f"look through {scene.id}", len(scene.outcomes)) as advance:
            needed = np.full(len(scene.outcomes), values["count"])
            found = clips.search(scene, seed, needed, limit=values["limit"], pool=pool, advance=advance)
        rollouts = found[np.argsort(scene.outcome(found.fact), kind="stable")]
        source = source_of(scene, film, seed, int(rollouts.index[0]) if len(rollouts) else 0)
        with request.progress(f"draw {scene.id}", len(rollouts)) as advance:
            made = clips.render_clips(scene, seed, rollouts, folder, film=film, pool=pool, advance=advance)
        clips.write_png(folder / SOURCE, source)
        cameras = [film.shot(scene, seed, clip.index).camera for clip in made]
        page = page_of(scene, source, [folder / clip.file for clip in made], rollouts.end, made, cameras)
        clips.write_png(folder / SHEET, page)
        pages.append(page)
        missing = [label for label in scene.outcomes if label not in {clip.outcome for clip in made}]
        described = _without_origin(clips.described(scene, seed, film, made))
        results.append({"folder": folder.name, **described, "source": SOURCE, "sheet": SHEET, "missing": missing})
        tables.append(_table(scene.id, made, folder))
        if missing:
            tables.append(f"{scene.id}: none of {values['limit']} rollouts ended in {', '.join(missing)}")
    clips.write_png(out / SHEET, _stacked(pages))
    return Answer({"scenes": results, "sheet": SHEET}, (*tables, f"{out / SHEET} shows them"))


def page_of(
    scene: Scene, source: Image, paths: Sequence[Path], ends: State, made: Sequence[Clip], cameras: Sequence[Camera]
) -> Image:
    """Return the source image and the last picture of each clip, with a closer look at what decides in `ends` (n rows)."""
    images, labels = [source], [f"{scene.id}: source image"]
    for path, points, clip in zip(paths, clips.looked_at(scene, ends, cameras), made, strict=True):
        *_, last = read_clip(path)
        images.append(clips.with_closer_look(last, points))
        labels.append(_label(clip))
    return contact_sheet(images, COLUMNS, labels, WIDTH)


def _stacked(pages: Sequence[Image]) -> Image:
    wide = max(page.shape[1] for page in pages)
    padded = [np.pad(page, ((0, 0), (0, wide - page.shape[1]), (0, 0)), constant_values=250) for page in pages]
    return np.concatenate(padded)


def _label(clip: Clip) -> str:
    return f"{clip.outcome or f'null: {clip.null}'} (index {clip.index})"


def _without_origin(described: dict[str, Any]) -> dict[str, Any]:
    """Leave out what every result says of its origin in a place of its own."""
    return {key: value for key, value in described.items() if key not in ("schema", "seed")}


def _table(title: str, made: Sequence[Clip], out: Path) -> Table:
    table = Table(title=f"{title}: {len(made)} clips in {out}", title_justify="left")
    for name in ("clip", "outcome"):
        table.add_column(name, no_wrap=True)
    for name in ("index", "frames"):
        table.add_column(name, justify="right")
    for clip in made:
        table.add_row(clip.file, clip.outcome or f"null: {clip.null}", str(clip.index), str(clip.frames))
    return table
