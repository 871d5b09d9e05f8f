"""What `evaluate` is given: which scenes, from a package or our own, and which clip is in which slot. It reads no outcome.

A package and a folder of clips are untrusted: names and paths are checked, everything wrong is told at once.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from pydantic import Field

from refcheck import calibench
from refcheck.command import UserError
from refcheck.judges.rubrics import Item, trust_of
from refcheck.judges.state import fingerprint
from refcheck.policy import Expected, Policy, Rules, read_package
from refcheck.untrusted import Problems, Strict, json_lines, parse_model, read_text, shown, suggestion
from scenes.catalog import scene_ids
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.render.canvas import Image
from simulators.video import Limits

EXTENSIONS = (".mp4", ".mov", ".webm", ".avi")
MAXIMUM_PICTURE, MAXIMUM_PIXELS = 64 << 20, 8192 * 8192
_CLIP = re.compile(r"r([0-9]{3,6})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, eq=False)
class Target:
    """One scene to evaluate. `name` is its folder and its id in rows; `scene` is ours, where there is one."""

    name: str
    expected: Expected
    item: Item
    scene: Scene | None
    picture: Path | None = None

    @property
    def calibench(self) -> bool:
        """Whether its score is CaliBench's."""
        return self.scene is not None and self.scene.benchmark == "calibench" and self.picture is None

    @cached_property
    def source(self) -> Image:
        """The source image (H, W, 3): the package's, or ours. Raises `UserError` where the package's is no picture."""
        if self.picture is not None:
            return _read_picture(self.picture)
        if self.scene is None:
            raise ValueError(f"{self.name} has neither a picture nor a scene")
        from refcheck.clips import source_of  # renderers: only where they are needed

        return source_of(self.scene)


@dataclass(frozen=True)
class Slot:
    """One place for a clip: a repeat of a scene, with the file that is there, if any, and the digest of its bytes."""

    scene: str
    repeat: int
    path: Path | None
    fingerprint: str = ""


class _PackageItem(Strict):
    scene_id: str = Field(min_length=1)
    action: str
    prompt: str = ""
    source_image_path: str = Field(min_length=1)
    outcome_labels: list[str]


def package_targets(folder: Path, rules: Rules) -> list[Target]:
    """Read the scenes of a package. Raises `UserError` with everything wrong."""
    policy = read_package(folder, rules)
    problems, path = Problems(), folder / "scenes.jsonl"
    ours = {id.rpartition("/")[2]: id for id in scene_ids() if id.startswith("pawbench/")}
    expected, targets = {scene.scene_id: scene for scene in policy.scenes}, []
    for where, value in json_lines(path, read_text(path, problems) or "", problems):
        told = parse_model(_PackageItem, value, where, problems)
        if told is None:
            continue
        if not _NAME.fullmatch(told.scene_id):
            problems.add(where, f"scene_id {shown(told.scene_id)} cannot be a folder's name: letters, digits and . _ - alone")
            continue
        picture = folder / told.source_image_path
        try:
            if not picture.resolve().is_relative_to(folder.resolve()):
                problems.add(where, f"source_image_path {shown(told.source_image_path)} leads out of the package")
            elif not picture.is_file():
                problems.add(where, f"source_image_path {shown(told.source_image_path)}: there is no such file in {folder}")
        except (OSError, ValueError):  # too long, or with a NUL in it
            problems.add(where, f"source_image_path {shown(told.source_image_path)} can be no file's path")
        held = expected[told.scene_id]
        scene = load_scene(ours[told.scene_id]) if told.scene_id in ours else None
        if scene is not None and set(scene.outcomes) != set(held.outcomes):
            scene = None  # another version of it: its readout rule may be another one too
        item = Item.coverage(told.scene_id, told.action, told.prompt, held.outcomes)
        if scene is not None:
            item = replace(item, readout_rule=scene.readout_rule, trust=trust_of(scene.id))
        targets.append(Target(told.scene_id, held, item, scene, picture))
    problems.check()
    return targets


def scene_targets(
    data: Path, ids: Sequence[str], overrides: Sequence[str], repeats: int | None, *, named: bool
) -> list[Target]:
    """Return our scenes that `data` has a folder of; all of `ids`, with or without one, where they were `named`.

    Raises `UserError` where a folder's name is that of two scenes, where scenes of CaliBench and others are mixed, or where
    none is there.
    """
    problems = Problems()
    names = [id.rpartition("/")[2] for id in ids]
    there = [id for id, name in zip(ids, names, strict=True) if named or (data / name).is_dir()]
    for name in sorted({name for name in names if names.count(name) > 1 and (data / name).is_dir()}):
        both = [id for id in ids if id.endswith("/" + name)]
        problems.add(data / name, f"is the name of {' and '.join(both)}: say which with scenes=")
    kinds = {id.startswith("calibench/") for id in there}
    if len(kinds) > 1:
        problems.add(data, "holds scenes of two benchmarks, which are scored apart: put each one's folders into another")
    if not there:
        problems.add(data, f"has a folder of none of the scenes: {', '.join(names)}")
    problems.check()
    targets = []
    for id in there:
        scene = load_scene(id, overrides)
        q = tuple(scene.q()) if scene.track == "calibration" else None
        k = repeats or (calibench.ROLLOUTS if scene.benchmark == "calibench" else Rules().repeats)
        name = id.rpartition("/")[2]
        held = Expected(name, scene.track, scene.group, scene.outcomes, q, frozenset(range(k)))
        targets.append(Target(name, held, Item.of(scene), scene))
    return targets


def find_clips(data: Path, targets: Sequence[Target]) -> tuple[list[Slot], list[str]]:
    """Return every slot with the clip that is in it, and files that are no clips.

    Raises `UserError` with everything wrong: a folder that is no scene's, two files for one slot, the same bytes in two, a
    repeat that is not expected, another name.
    """
    if not data.is_dir():
        raise UserError(f"data={data}: there is no such folder; it holds <scene_id>/r000.mp4, r001.mp4, ...")
    problems, ignored = Problems(), list[str]()
    names = tuple(target.name for target in targets)
    for entry in sorted(data.iterdir()):
        if entry.name.startswith(".") or entry.name in names:
            continue
        if entry.is_dir():
            if not any(entry.iterdir()):  # as what an earlier run made for out= and did not use
                continue
            problems.add(entry, f"is the folder of no scene that is evaluated{suggestion(entry.name, names)}")
        else:
            ignored.append(str(entry))
    slots, first = list[Slot](), dict[str, Path]()
    for target in targets:
        held = dict[int, Path]()
        folder = data / target.name
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.startswith("."):
                continue
            if path.suffix.lower() not in EXTENSIONS:
                ignored.append(str(path))
            elif not (found := _CLIP.fullmatch(path.stem)):
                problems.add(path, f"must be named r000{path.suffix}, r001{path.suffix}, ...: the number is the repeat")
            elif (repeat := int(found.group(1))) not in target.expected.repeats:
                problems.add(
                    path, f"repeat {repeat} is beyond the scene's {len(target.expected.repeats)}, counted from 0; see k="
                )
            elif not path.is_file():
                problems.add(path, "is no regular file")  # a folder, a pipe that would never end, a link to nothing
            elif repeat in held:
                problems.add(path, f"is a second clip of repeat {repeat}, beside {held[repeat].name}: keep one")
            else:
                held[repeat] = path
        for repeat in sorted(target.expected.repeats):
            clip = held.get(repeat)
            size = 0 if clip is None else clip.stat().st_size
            # What is too large to be read is not hashed either: it is named as broken, and never taken for another.
            digest = "" if clip is None else fingerprint(clip) if size <= Limits().size else f"{clip.name}: {size} bytes"
            if (
                clip is not None and 0 < size <= Limits().size and first.setdefault(digest, clip) != clip
            ):  # an empty one is broken
                problems.add(clip, f"is the same clip as {first[digest]}: it would be counted as two rollouts")
            slots.append(Slot(target.name, repeat, clip, digest))
    if not any(slot.path for slot in slots) and not problems.found:
        problems.add(data, f"holds no clip; looked for <scene_id>/r000{'|'.join(EXTENSIONS)}")
    problems.check()
    return slots, ignored


def policy_of(targets: Sequence[Target]) -> Policy:
    """Return what the rows of these scenes are held to."""
    return Policy(tuple(target.expected for target in targets))


def policy_file(targets: Sequence[Target], model: str) -> dict[str, object]:
    """Return PAWBench's scene policy of these scenes, for `quincunx score policy=`."""
    tracks: dict[str, object] = {}
    for track in ("calibration", "coverage"):
        scenes = []
        for one in (target.expected for target in targets if target.expected.track == track):
            entry: dict[str, object] = {"scene_id": one.scene_id, "track": track, "group": one.group}
            entry["expected_repeat_indices"] = sorted(one.repeats)
            if one.q is None:
                entry["support_labels"] = list(one.outcomes)
            else:
                entry["reference_distribution"] = dict(zip(one.outcomes, one.q, strict=True))
            scenes.append(entry)
        tracks[track] = {"scenes": scenes}
    return {"model_or_lanes": [model], "tracks": tracks}


def digest(value: object) -> str:
    """Return the SHA-256 of plain data, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def picture_digest(image: Image) -> str:
    """Return the SHA-256 of a picture's pixels and size."""
    return hashlib.sha256(str(image.shape).encode() + np.ascontiguousarray(image).tobytes()).hexdigest()


def _read_picture(path: Path) -> Image:
    if path.stat().st_size > MAXIMUM_PICTURE:
        raise UserError(f"{path}: is larger than {MAXIMUM_PICTURE >> 20} MiB, which no source image is")
    try:
        with Pillow.open(io.BytesIO(path.read_bytes()), formats=("PNG", "JPEG", "WEBP")) as picture:
            if picture.width * picture.height > MAXIMUM_PIXELS:
                raise UserError(f"{path}: has {picture.width}x{picture.height} pixels, which no source image has")
            return np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError) as error:
        raise UserError(f"{path}: is no picture that can be read (PNG, JPEG or WebP): {error}") from error
