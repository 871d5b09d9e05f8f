"""Clips of chosen rollouts: found by how they ended, replayed by what ran them, drawn, encoded, counted.

It refuses to know a reference or a judge. An outcome here is one that a simulated rollout ended in.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from refcheck.command import UserError
from refcheck.filming import FPS, NOTES, PLAIN, Film, Filming, canvas_of, source_of
from refcheck.judges.focus import Focus
from refcheck.output import RESULT, atomic, plain, withdraw
from scenes.scene import Scene
from simulators.device import NULL_REASONS, Rollouts, State
from simulators.engines.loop import physics_digest, run
from simulators.execute import InfrastructureError, Pool, run_range, spread
from simulators.render import Image
from simulators.video import contact_sheet, evenly_spaced, read_clip, write_clip
from simulators.world import Camera

__all__ = ["FPS", "canvas_of", "source_of"]  # of filming, where clips are made
INDEX, SOURCE, SHEET = "clips.json", "source.png", "sheet.png"
FEWEST = 4  # final states from which it is learned where to look
FOLDER, SCHEMA = "clips", "quincunx.clips/v1"
A_TASK = 10  # most clips drawn by a worker at a time: they share a canvas and the frames before the release
_FILE = re.compile(r"clips/[A-Za-z0-9_.-]+\.mp4")

Advance = Callable[[int], Any]


def _silent(count: int) -> None:
    """Stand in for a progress bar."""


@dataclass(frozen=True)
class Clip:
    """One clip: its `file` beside the index file, the rollout it shows, and how that ended."""

    file: str
    index: int
    outcome: str | None
    null: str
    frames: int


def search(
    scene: Scene,
    seed: int,
    needed: Sequence[int] | NDArray[np.integer],
    *,
    limit: int,
    stream: str | None = None,
    pool: Pool | None = None,
    advance: Advance = _silent,
) -> Rollouts:
    """Return the first `needed[k]` rollouts of a mass run that ended in each outcome k, in index order.

    What is chosen depends on scene, seed, stream (the scene's own by default) and `needed` alone. Fewer rows come back where
    `limit` rollouts do not hold enough (see `require_all`). `advance(count)` hears of every rollout found. Raises
    `InfrastructureError` when a worker dies.
    """
    left = np.array(needed, np.int64)
    if left.shape != (len(scene.outcomes),) or left.min() < 0:
        raise ValueError(f"`needed` must be a count of at least 0 for each of {len(scene.outcomes)} outcomes, got {needed}")
    return _firsts(scene, seed, left, lambda part: scene.outcome(part.fact), limit, stream, pool, advance)


def find_nulls(
    scene: Scene,
    seed: int,
    each: int,
    *,
    limit: int,
    reasons: Sequence[str] = NULL_REASONS[1:],
    stream: str | None = None,
    pool: Pool | None = None,
) -> Rollouts:
    """Return the first `each` rollouts of a mass run of at most `limit` for every one of `reasons` to end in nothing.

    They are found, never made: fewer come back where physics gives fewer.
    """
    left = np.array([each * (reason in reasons) for reason in NULL_REASONS])
    return _firsts(scene, seed, left, lambda part: part.null, limit, stream, pool, _silent)


def _firsts(
    scene: Scene,
    seed: int,
    left: NDArray[np.int64],
    kind_of: Callable[[Rollouts], NDArray[Any]],
    limit: int,
    stream: str | None,
    pool: Pool | None,
    advance: Advance,
) -> Rollouts:
    """Return the first `left[k]` of at most `limit` rollouts whose `kind_of` is k, in index order."""
    found = [run(scene.integrator, scene.device, seed, stream or scene.stream, [])]
    parts = run_range(scene.integrator, scene.device, seed, stream or scene.stream, 0, limit, pool)
    try:
        while left.any():
            part = next(parts, None)
            if part is None:
                break
            kind = kind_of(part)
            # Of each kind the first rows of this slice, as many as are wanted still.
            taken = np.sort(np.concatenate([np.flatnonzero(kind == k)[:count] for k, count in enumerate(left)]))
            left = left - np.bincount(kind[taken], minlength=len(left))
            found.append(part[taken])
            advance(len(taken))
    finally:
        parts.close()  # type: ignore[attr-defined]
    return Rollouts.concatenate(found)


def require_all(scene: Scene, rollouts: Rollouts, needed: Sequence[int] | NDArray[np.integer], limit: int) -> Rollouts:
    """Return `rollouts` if they hold `needed[k]` of each outcome; raise `UserError` naming what is missing otherwise."""
    have = np.bincount(scene.outcome(rollouts.fact), minlength=len(scene.outcomes))
    short = [f"{label!r} ({have[k]} of {needed[k]})" for k, label in enumerate(scene.outcomes) if have[k] < needed[k]]
    if short:
        raise UserError(
            f"{limit} rollouts of {scene.id} did not end often enough in {', '.join(short)}: give more with limit=, or run "
            f"`quincunx verify scene={scene.id}` to see whether the scene ends so at all"
        )
    return rollouts


@dataclass(frozen=True)
class _Task:
    """Some clips for one worker: rollouts by index, how each ended, and where its clip goes."""

    scene: Scene
    seed: int
    indices: tuple[int, ...]
    ends: tuple[tuple[int, int], ...]
    paths: tuple[Path, ...]
    film: Film


def _render(task: _Task) -> list[int]:
    """Replay, draw and encode; return the frames of each clip."""
    scene, frames = task.scene, list[int]()
    filming = Filming(scene, task.film, task.seed)
    for index, end, path in zip(task.indices, task.ends, task.paths, strict=True):
        again = run(scene.integrator, scene.device, task.seed, scene.stream, [index], fps=task.film.rate)
        ended = int(again.fact[0]), int(again.null[0])
        if ended != end:
            raise InfrastructureError(
                f"rollout {index} of {scene.id} ended in {_end(scene, *ended)} when replayed and in {_end(scene, *end)} before"
            )
        if again.trajectories is None:
            raise InfrastructureError(f"rollout {index} of {scene.id} was run again and not recorded")
        try:
            pictures, comment = filming.frames(index, again.trajectories[0]), task.film.comment(scene, index)
            frames.append(write_clip(path, pictures, task.film.fps, filming.crf, comment))
        except ValueError as error:
            raise InfrastructureError(f"the clip of rollout {index} of {scene.id} was not written: {error}") from error
        if task.film.notes:
            label = int(scene.outcome(again.fact)[0])
            filming.notes(path, again, scene.outcomes[label] if label >= 0 else None)
    return frames


def _end(scene: Scene, fact: int, null: int) -> str:
    return scene.device.facts[fact] if fact >= 0 else NULL_REASONS[null]


def render_clips(
    scene: Scene,
    seed: int,
    rollouts: Rollouts,
    out: Path,
    *,
    names: Sequence[str] | None = None,
    film: Film = PLAIN,
    pool: Pool | None = None,
    advance: Advance = _silent,
) -> list[Clip]:
    """Write the clip of each of `rollouts` to `out/clips`, notes beside it if `film` has them, and `out/clips.json`.

    A rollout is run again with recording, and must end as it did. `names` are file names without `.mp4`, by default the
    index. First the result of an earlier run goes, with the clips that its index lists. The index is written before
    anything is drawn, so that clips of a run that was cut short are known as such, and again when all are there. Raises
    `UserError` as `check_folder`; `InfrastructureError` where a replay ends otherwise, an encoder fails or a worker dies.
    """
    files = files_of([f"{index:08d}" for index in rollouts.index] if names is None else names)
    if len(files) != len(rollouts) or len(set(files)) < len(files):
        raise ValueError(f"{len(rollouts)} clips need as many names, all different, got {files}")
    forget(out, files)
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    outcome = scene.outcome(rollouts.fact)
    clips = [
        Clip(file, int(index), scene.outcomes[o] if o >= 0 else None, NULL_REASONS[null], 0)
        for file, index, o, null in zip(files, rollouts.index, outcome, rollouts.null, strict=True)
    ]
    _write_index(out, described(scene, seed, film, clips), complete=False)
    ends = [(int(f), int(n)) for f, n in zip(rollouts.fact, rollouts.null, strict=True)]
    workers = pool.workers if pool is not None else 1
    size = -(-len(files) // (workers * -(-len(files) // (workers * A_TASK)))) if files else 1  # every worker as many
    tasks = [
        _Task(
            scene,
            seed,
            tuple(int(i) for i in rollouts.index[at : at + size]),
            tuple(ends[at : at + size]),
            tuple(out / file for file in files[at : at + size]),
            film,
        )
        for at in range(0, len(files), size)
    ]
    counts = [count for some in spread(pool, _render, tasks, lambda some: advance(len(some))) for count in some]
    clips = [replace(clip, frames=count) for clip, count in zip(clips, counts, strict=True)]
    _write_index(out, described(scene, seed, film, clips), complete=True)
    return clips


def files_of(names: Sequence[str]) -> list[str]:
    """Return where the clips of these names go, below the folder of their index."""
    return [f"{FOLDER}/{name}.mp4" for name in names]


def _write_index(out: Path, index: dict[str, Any], *, complete: bool) -> None:
    if not complete:  # nobody has counted them yet
        index = {**index, "clips": [{**clip, "frames": None} for clip in index["clips"]]}
    with atomic(out / INDEX) as path:
        path.write_text(json.dumps({**index, "complete": complete}, indent=2) + "\n", "utf-8")


def described(scene: Scene, seed: int, film: Film, clips: Sequence[Clip]) -> dict[str, Any]:
    """Return what the index file says: the physics and the picture that make the clips, and one entry for each."""
    return plain(
        {
            "schema": SCHEMA,
            "scene": scene.id,
            "digest": physics_digest(scene.device, scene.integrator),
            "stream": scene.stream,
            "seed": seed,
            **film.described(scene),
            "camera": scene.camera,
            "light": scene.light,
            "fps": film.fps,
            "clips": clips,
        }
    )


def check_folder(out: Path, files: Sequence[str] = ()) -> list[str]:
    """Return the clips of an earlier run in `out`, as its index (of a whole run or of one cut short) lists them.

    Raises `UserError` for an index that is none of ours, and where one of `files` is there and no index says that it is ours.
    """
    refused = UserError(f"{out / INDEX} is no index of clips: give another folder with out=, or move the file away")
    try:
        index = json.loads((out / INDEX).read_text("utf-8"))
        listed = [clip["file"] for clip in index["clips"]]
        ours = index["schema"] == SCHEMA and all(_FILE.fullmatch(file) for file in listed)
    except FileNotFoundError:
        listed, ours = [], True
    except (ValueError, KeyError, TypeError, RecursionError, IsADirectoryError) as error:
        raise refused from error
    if not ours or any((out / file).is_dir() for file in listed):
        raise refused
    if (out / FOLDER).exists() and not (out / FOLDER).is_dir():
        raise UserError(f"{out / FOLDER} is a file, and clips go to a folder of that name: give another folder with out=")
    new = [Path(file).with_suffix(suffix) for file in files if file not in set(listed) for suffix in (".mp4", *NOTES)]
    strangers = [file for file in new if (out / file).exists()]
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise UserError(
            f"{out / strangers[0]}{more} would be overwritten, and no {INDEX} says that an earlier run made it: give another "
            "folder with out=, or move it away"
        )
    return listed


def forget(out: Path, files: Sequence[str] = ()) -> None:
    """Remove what an earlier run left in `out`: its result and pictures first, then the clips of its index, also half-written.

    A reader finds no result that tells of clips which are gone. Nothing else in the folder is touched. Raises `UserError`
    as `check_folder` does, before anything is removed.
    """
    listed = check_folder(out, files)
    withdraw(out, RESULT, SHEET, SOURCE)
    stems = {Path(file).stem[:40] for file in listed}  # as `write_clip` names what it is still writing
    for path in (out / FOLDER).glob(".*-????????.mp4") if listed else ():
        if path.name[1 : -len("-????????.mp4")] in stems:
            path.unlink(missing_ok=True)
    for file in listed:
        for suffix in (".mp4", *NOTES):
            (out / file).with_suffix(suffix).unlink(missing_ok=True)
    (out / INDEX).unlink(missing_ok=True)


def write_png(path: Path, image: Image) -> None:
    """Write an image (H, W, 3), atomically."""
    with atomic(path) as temporary:
        Pillow.fromarray(np.ascontiguousarray(image)).save(temporary, format="PNG")


def rows_sheet(paths: Sequence[Path], labels: Sequence[str], frames: int = 8, width: int = 240) -> Image:
    """Return a contact sheet with one row a clip: `frames` evenly spaced frames, the label below the first."""
    images, captions = list[Image](), list[str]()
    for path, label in zip(paths, labels, strict=True):
        shown = evenly_spaced(list(read_clip(path)), frames)
        shown += [shown[-1]] * (frames - len(shown))
        images += shown
        captions += [label, *[""] * (frames - 1)]
    return contact_sheet(images, frames, captions, width)


def looked_at(scene: Scene, ends: State, cameras: Sequence[Camera]) -> list[NDArray[np.float64]]:
    """Return where (c, 2) [px] the camera of each final state sees what decides its outcome."""
    if not len(ends):
        return []
    known = ends
    if len(ends) < FEWEST:  # too few to tell that something does nothing but turn
        known = State.concatenate([ends, run(scene.integrator, scene.device, 0, scene.stream, range(FEWEST)).end])
    focus = Focus.of(scene, known)
    bodies = focus.bodies(scene, ends)
    return [focus.places(camera, ends[k : k + 1], bodies[k : k + 1])[0][0] for k, camera in enumerate(cameras)]


def with_closer_look(image: Image, points: NDArray[np.floating], side: int = 64, zoom: int = 3) -> Image:
    """Return `image` with a magnified square about each of the pixels `points` (n, 2), in the corner away from them.

    One square about their middle where that shows them all.
    """
    high, wide = image.shape[:2]
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return image
    middle = points.mean(axis=0)
    if np.ptp(points, axis=0).max() < side / 2:
        points = middle[None]
    squares = []
    for point in points[np.argsort(points[:, 0])]:
        x, y = np.clip(np.round(point - side / 2), 0, [wide - side, high - side]).astype(int)
        piece = Pillow.fromarray(np.ascontiguousarray(image[y : y + side, x : x + side]))
        enlarged = np.asarray(piece.resize((side * zoom, side * zoom), Pillow.Resampling.LANCZOS))
        squares.append(np.pad(enlarged, ((4, 4), (4, 4), (0, 0)), constant_values=250))
    framed = np.concatenate(squares, axis=1)
    out = image.copy()
    h, w = framed.shape[:2]
    if h > high or w > wide:
        return out
    columns = slice(0, w) if middle[0] > wide / 2 else slice(wide - w, wide)
    lines = slice(0, h) if middle[1] > high / 2 else slice(high - h, high)
    out[lines, columns] = framed
    return out


@contextmanager
def folder_for(out: Path | None) -> Iterator[Path]:
    """Yield `out`, or a folder that is gone afterwards where there is none."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="quincunx-") as name:
        yield Path(name)
