"""The blind door: clips go out in a benchmark's own layout under names that say nothing, and readings come back to be opened.

What a clip truly shows stands in a key outside the folder, and nowhere else. Any stack may stand behind the door; our own
judges are put behind it too.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import nan
from pathlib import Path
from typing import Any, Literal

from refcheck.blind_key import SCHEMA, Key, KeyScene, Layout, Sealed, faults, seal_of
from refcheck.clips import source_of, write_png
from refcheck.command import UserError
from refcheck.control_sets import refuse_twice
from refcheck.evaluate_run import CHECKPOINT, parse_entry
from refcheck.judges.state import fingerprint
from refcheck.labels import Labels, read_labels
from refcheck.output import atomic, plain, to_json
from refcheck.untrusted import Problems, json_lines, parse_model, read_json, read_text, shown
from scenes.scene import Scene
from simulators.execute import Pool, spread
from simulators.video import CRF, ClipError, clip_info, read_clip, write_clip

SEAL = "seal.txt"
CLIPS, PACKAGE = "clips", "package"
LAYOUTS: tuple[Layout, ...] = ("pawbench", "calibench")
MODEL = "controls"
NUMBERS: tuple[Literal["confidence", "latency", "cost"], ...] = ("confidence", "latency", "cost")
EPOCH = 315_532_800  # s: 1980, the time that every file of a blind folder bears


@dataclass(frozen=True)
class Control:
    """One clip before it is disguised: its file, the rollout it shows, and what is true of it.

    `truth` is the outcome that a judge should name, None where it should name none and give `null` instead; `kind` the way
    of damage, `axis` what a trust audit must fail it for; `batch` its part of the set.
    """

    path: Path
    scene: str
    index: int
    truth: str | None
    fps: float
    frames: int
    null: str = ""
    kind: str = ""
    axis: str = ""
    batch: int = 0


@dataclass(frozen=True)
class Opened:
    """One clip with its truth and what was read of it. `failure` is a machine's: such a clip is in no figure of the judge's."""

    sealed: Sealed
    reading: str | None
    null: str = ""
    confidence: float = float("nan")
    latency: float = float("nan")
    cost: float = float("nan")
    trust: Mapping[str, str] | None = None
    failure: str | None = None
    votes: tuple[str | None, ...] = field(default=())


def name_of(scene: str) -> str:
    """Return what a scene is called in a benchmark's own files."""
    return scene.rpartition("/")[2]


def path_of(folder: Path, scene: str, repeat: int) -> Path:
    """Return where the clip of a slot is in a blind folder."""
    return folder / CLIPS / scene / f"r{repeat:03d}.mp4"


def within(path: Path) -> Path | None:
    """Return the sealed blind folder that a path is, or lies in; None where it does not."""
    whole = path.resolve()
    return next((folder for folder in (whole, *whole.parents) if (folder / SEAL).is_file()), None)


def check_key_path(folder: Path, key: Path) -> None:
    """Raise `UserError` where the key would lie within the blind folder, or within another one."""
    if key.resolve().is_relative_to(folder.resolve()) or within(key):
        raise UserError(f"key={key} lies in blind={folder}: whoever is given the clips would be given the truth")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder within `folder`; what is in it moves up when the block ends well, and else nothing of it is left."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder) as there:
            yield Path(there)
            for item in Path(there).iterdir():
                item.rename(folder / item.name)
            made = False
    finally:
        if made:
            folder.rmdir()


def check_folder_and_names(folder: Path, scenes: Sequence[Scene]) -> None:
    """Raise `UserError` where something is in the folder already, or two scenes have one name in a benchmark's files."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"blind={folder} is a file: give a new folder")
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"blind={folder} is not empty: what is there would be taken for controls; give a new folder")
    names = [name_of(scene.id) for scene in scenes]
    if len(set(names)) < len(names):
        raise UserError(f"two of the scenes have one name in a benchmark's files: {', '.join(s.id for s in scenes)}")


@dataclass(frozen=True)
class _Copy:
    source: Path
    target: Path
    fps: float
    frames: int
    crf: int


def _recode(task: _Copy) -> None:
    """Decode and encode again: nothing of the file but its pixels goes over. Raises `ClipError` where a frame is lost."""
    held = write_clip(task.target, read_clip(task.source), task.fps, task.crf)
    if held != task.frames:
        raise ValueError(f"{task.source} holds {held} frames, and {task.frames} were drawn")
    os.utime(task.target, (EPOCH, EPOCH))


def export(
    scenes: Sequence[Scene],
    controls: Sequence[Control],
    folder: Path,
    layout: Layout,
    *,
    sets: Mapping[str, str] | None = None,
    recode: bool = True,
    crf: int = CRF,
    pool: Pool | None = None,
    advance: Callable[[int], Any] = lambda count: None,
) -> Key:
    """Write `clips/<scene>/r000.mp4 ...` in an order that no seed gives, and a `package` of what is read there; return the key.

    Args:
        scenes: those that the controls are of.
        controls: every clip, its rollout used once.
        folder: new, or empty.
        layout: `pawbench` adds `scenes.jsonl` with source images and prompts, `calibench` a `scenes.json` with bins in order.
        sets: what set was made of each scene, by id.
        recode: encode each clip anew; False copies files that were encoded for this folder alone.
        crf: how strongly they are compressed then (x264).
        pool: workers.
        advance: hears of every clip.

    Raises:
        UserError: where something is in the folder already. ValueError: where a rollout is used twice, or frames are lost.
    """
    check_folder_and_names(folder, scenes)
    sealed, tasks = list[Sealed](), list[_Copy]()
    for scene in scenes:
        mine = [control for control in controls if control.scene == scene.id]
        refuse_twice([control.index for control in mine])
        (folder / CLIPS / name_of(scene.id)).mkdir(parents=True)
        order = list(range(len(mine)))
        secrets.SystemRandom().shuffle(order)
        for control, repeat in zip(mine, order, strict=True):
            target = path_of(folder, name_of(scene.id), repeat)
            tasks.append(_Copy(control.path, target, control.fps, control.frames, crf))
            told = {k: getattr(control, k) for k in ("index", "frames", "truth", "null", "kind", "axis", "batch")}
            sealed.append(Sealed(scene=name_of(scene.id), repeat=repeat, sha256="0" * 64, **told))
    if recode:
        spread(pool, _recode, tasks, lambda done: advance(1))
    else:
        for task in tasks:
            shutil.copyfile(task.source, task.target)
            os.utime(task.target, (EPOCH, EPOCH))
            advance(1)
    sealed = [one.model_copy(update={"sha256": fingerprint(task.target)}) for one, task in zip(sealed, tasks, strict=True)]
    _write_scenes(scenes, folder / PACKAGE, layout)
    held = {
        name_of(scene.id): KeyScene(
            id=scene.id,
            outcomes=list(scene.outcomes),
            q=None if scene.reference.q is None else [float(share) for share in scene.q()],
            set=(sets or {}).get(scene.id, ""),
        )
        for scene in scenes
    }
    return Key(schema=SCHEMA, layout=layout, scenes=held, clips=sorted(sealed, key=lambda one: (one.scene, one.repeat)))


def _write_scenes(scenes: Sequence[Scene], folder: Path, layout: Layout) -> None:
    """Write what the benchmark gives a stack beside the clips."""
    folder.mkdir()
    if layout == "calibench":
        told = [{"scene": name_of(s.id), "num_bins": len(s.outcomes), "outcomes": list(s.outcomes)} for s in scenes]
        (folder / "scenes.json").write_text(to_json({"scenes": told}), "utf-8")
        return
    (folder / "source_images").mkdir()
    (folder / "prompts").mkdir()
    lines = []
    for scene in scenes:
        name = name_of(scene.id)
        write_png(folder / "source_images" / f"{name}.png", source_of(scene))
        (folder / "prompts" / f"{name}.txt").write_text(scene.prompt + "\n", "utf-8")
        line: dict[str, Any] = {"scene_id": name, "split": scene.track, "group": scene.group, "action": scene.action}
        line |= {"prompt": scene.prompt, "source_image_path": f"source_images/{name}.png"}
        line |= {"outcome_labels": list(scene.outcomes)}
        if scene.track == "calibration" and scene.reference.q is not None:
            line["reference_distribution"] = {label: float(scene.reference.q[label]) for label in scene.outcomes}
        lines.append(json.dumps(line, ensure_ascii=False))
    (folder / "scenes.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    manifest = {"schema_version": "pawbench.benchmark_inputs/v1", "scene_table": "scenes.jsonl"}
    (folder / "manifest.json").write_text(to_json(manifest), "utf-8")


def seal(key: Key, folder: Path, path: Path) -> str:
    """Write the key to `path` and its digest to the folder: later it can be shown that no truth was changed since.

    Raises `UserError` as `check_key_path`, and where a key is there already: its clips could never be opened again.
    """
    check_key_path(folder, path)
    if path.exists():
        raise UserError(f"key={path} is there already, and opens other clips: give another file")
    content = plain(key.model_dump(by_alias=True))
    text = to_json(content | {"seal": seal_of(content)})
    with atomic(path) as temporary:
        temporary.write_text(text, "utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / SEAL).write_text(f"sha256 of the key: {digest}\n", "utf-8")
    return digest


def read_key(path: Path) -> Key:
    """Read a key. Raises `UserError` for a file that is none, or that was changed since it was written."""
    problems, value = Problems(), read_json(path)
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise UserError(f"{path} is no key of `controls blind=`: its schema is not {SCHEMA}")
    if value.pop("seal", None) != seal_of(value):
        problems.add(
            path, "was changed since it was written: its own `seal` is of other content. Take it from where it is kept"
        )
    key = parse_model(Key, value, path, problems)
    for fault in faults(key) if key else ():
        problems.add(path, fault)
    problems.check()
    if key is None:
        raise UserError(f"{path} is no key of `controls blind=`")
    return key


def check_seal(folder: Path, path: Path, key: Key) -> None:
    """Raise `UserError` where a blind folder was sealed with another key, or its clips are not those that went out."""
    problems = Problems()
    text = read_text(folder / SEAL, problems)
    if text is not None and text.split()[-1] != fingerprint(path):
        problems.add(path, f"is not the key that {folder / SEAL} was written for, or was changed since")
    for fault in check_folder(folder, key):
        problems.add(folder, fault)
    problems.check()


def check_folder(folder: Path, key: Key) -> list[str]:
    """Return what is wrong with a blind folder: a clip that is missing, was changed, or has lost or gained frames."""
    told = []
    for clip in key.clips:
        path = path_of(folder, clip.scene, clip.repeat)
        where = f"{clip.scene}/r{clip.repeat:03d}"
        if not path.is_file():
            told.append(f"{where} is missing")
            continue
        try:
            frames = clip_info(path).frames
        except ClipError as error:
            told.append(f"{where} cannot be read: {error}")
            continue
        if frames != clip.frames:
            told.append(f"{where} holds {frames} frames and was made of {clip.frames}")
        elif fingerprint(path) != clip.sha256:
            told.append(f"{where} is not the file that was sealed")
    return told


def open_sealed(read: Path, key: Key) -> list[Opened]:
    """Return every clip of the key with what a stack read of it, from rows, bins or a CSV, or a folder of them.

    A `checkpoint.jsonl` of `evaluate` in that folder adds causes, confidence and the trust audit. A clip without a reading is a
    failure. Raises `UserError` for files that are none, readings of several models, or of clips that are not in the key.
    """
    if read.is_dir() and (read / CHECKPOINT).is_file():
        found = _from_checkpoint(read / CHECKPOINT, key)
    else:
        found = _from_labels(read_labels(read), key, read)
    known, problems = {(clip.scene, clip.repeat) for clip in key.clips}, Problems()
    for (scene, repeat), said in found.items():
        where = f"{read}: {shown(scene)[1:-1]} repeat {repeat}"
        if (scene, repeat) not in known:
            problems.add(where, "the key does not know it: is it the key of other clips?")
        elif said.reading is not None and said.reading not in key.scenes[scene].outcomes:
            problems.add(where, f"is read as {shown(said.reading)}, which is none of {', '.join(key.scenes[scene].outcomes)}")
    problems.check()
    lost = _Said(None, failure="no reading of this clip came back")
    return [Opened(clip, **asdict(found.get((clip.scene, clip.repeat), lost))) for clip in key.clips]


@dataclass(frozen=True)
class _Said:
    reading: str | None
    null: str = ""
    confidence: float = float("nan")
    latency: float = float("nan")
    cost: float = float("nan")
    trust: dict[str, str] | None = None
    failure: str | None = None
    votes: tuple[str | None, ...] = ()


def _from_labels(labels: Labels, key: Key, read: Path) -> dict[tuple[str, int], _Said]:
    models = {row.model_or_lane for _, row in labels.rows} | {model for model, _ in labels.cells}
    if len(models) > 1:
        names = ", ".join(map(shown, sorted(models)[:5]))
        raise UserError(f"{read}: holds readings under {len(models)} names ({names}): give one stack's")
    found = {}
    for where, row in labels.rows:
        slot = (row.scene_id, row.repeat)
        if slot in found:
            raise UserError(f"{where}: {shown(row.scene_id)[1:-1]} repeat {row.repeat} is read twice")
        null = "unread" if row.observation == "null_observation" else ""
        found[slot] = _Said(row.outcome_label, null, failure=row.failure_code)
    for (_, scene), cell in labels.cells.items():
        for repeat, position in cell.bins.items():
            held = key.scenes.get(scene)
            label = None if position is None or held is None else held.outcomes[position - 1]
            found[scene, repeat] = _Said(label, "unread" if position is None else "")
    return found


def _from_checkpoint(path: Path, key: Key) -> dict[tuple[str, int], _Said]:
    problems, found, whole = Problems(), dict[tuple[str, int], _Said](), dict[tuple[str, int], str]()
    sealed = {(clip.scene, clip.repeat): clip.sha256 for clip in key.clips}
    for where, value in json_lines(path, read_text(path, problems) or "", problems):
        entry = parse_entry(value, where, problems)
        if entry is None:
            continue
        told, slot = entry.reading or {}, (entry.scene_id, entry.repeat_index)
        if not entry.failed and sealed.get(slot, entry.video_fingerprint) != entry.video_fingerprint:
            problems.add(where, f"was not read off the clip that was sealed as {shown(slot[0])} repeat {slot[1]}")
        if slot in whole:
            again = "a second reading" if entry.settings == whole[slot] else "a reading by another judge or other settings"
            problems.add(
                where, f"holds {again} of {shown(slot[0])} repeat {slot[1]}: give rows.jsonl, or the folder of one run"
            )
        if not entry.failed and entry.trust_failure is None:
            whole[slot] = entry.settings
        null = told.get("null") or "unread" if entry.row.observation == "null_observation" else ""
        numbers = {name: nan if (number := told.get(name)) is None else float(number) for name in NUMBERS}
        votes = tuple(told.get("votes", ()))
        failure = (entry.message or entry.row.failure_code) if entry.failed else None
        found[slot] = _Said(entry.row.outcome_label, null, trust=entry.trust, failure=failure, votes=votes, **numbers)
    problems.check()
    return found
