"""Clips of controls, clean and damaged, drawn from replayed rollouts; and clips that match a model's own.

It refuses to know a reference or a judge.
"""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import imageio_ffmpeg
import numpy as np

from refcheck.blind import Control
from refcheck.command import UserError
from refcheck.damage import KINDS, Damager, truth_null
from refcheck.faults import NotApplicable
from refcheck.filming import Film, Filming
from scenes.scene import Scene
from simulators.device import State
from simulators.engines.loop import run
from simulators.execute import InfrastructureError, Pool, spread
from simulators.render import Image, looks
from simulators.video import ClipError, clip_info, evenly_spaced, read_clip, write_clip

A_TASK = 6
HELD = 2  # frames more, of sparse clips: the last state must be seen to last
FULL_RATE = ("early_cut", "frozen_start", "energy_gain")
"""Damage in time: at the film's own rate, however sparse the rest is, since a low rate would give it away."""
CODECS = {"h264": "libx264", "hevc": "libx265", "vp9": "libvpx-vp9", "mpeg4": "mpeg4", "av1": "libaom-av1"}
SWEEPS: dict[str, tuple[Any, ...]] = {
    "fps": (4.0, 8.0, 16.0, 24.0),
    "duration": (49, 81, 121),  # frames at least, the last state held
    "resolution": (208, 416, 832, 1248),  # px across
    "compression": (16, 28, 36, 44),  # x264's crf
    "look": ("studio", "phone", "flat", "toy"),
}
Advance = Callable[[int], Any]


@dataclass(frozen=True)
class Like:
    """What a model's clips are: size, frames, rate, codec and bits a second. Controls are made the same."""

    width: int
    height: int
    frames: int
    fps: float
    codec: str
    bitrate: float

    @classmethod
    def of(cls, path: Path) -> Like:
        """Measure a clip. Raises `UserError` where it is none, or of a codec that cannot be written."""
        try:
            info = clip_info(path)
        except ClipError as error:
            raise UserError(f"like={path}: {error}") from error
        if info.codec not in CODECS:
            raise UserError(f"like={path} is {info.codec}; clips can be written as {', '.join(CODECS)}")
        if not info.fps > 0 or info.frames < 2 or info.width % 2 or info.height % 2:
            size = f"{info.width}x{info.height}"
            raise UserError(f"like={path}: {info.frames} frames of {size} at {info.fps:g} a second cannot be matched")
        rate = 8 * path.stat().st_size * info.fps / info.frames
        return cls(info.width, info.height, info.frames, info.fps, info.codec, rate)


@dataclass(frozen=True)
class Recipe:
    """How clips of a set are made: as `film` has it, at x264's `crf` (None: the look's), `width` px across (None: the scene's).

    Of `sparse` frames one is drawn, at a rate that is lower by as much: for judges that read stills, at a fraction of the work.
    """

    film: Film = dataclasses.field(default_factory=Film)
    crf: int | None = None
    width: int | None = None
    like: Like | None = None
    sparse: int = 1

    def scene(self, scene: Scene) -> Scene:
        """Return the scene as this recipe's camera sees it."""
        if self.width is None:
            return scene
        high = round(self.width * scene.camera.height / scene.camera.width / 2) * 2
        return dataclasses.replace(scene, camera=dataclasses.replace(scene.camera, width=self.width, height=high))


def swept(recipe: Recipe, sweep: str, value: Any) -> Recipe:
    """Return the recipe with one setting of a sweep."""
    film = recipe.film
    if sweep == "fps":
        return dataclasses.replace(recipe, film=dataclasses.replace(film, fps=value))
    if sweep == "duration":
        return dataclasses.replace(recipe, film=dataclasses.replace(film, frames=value))
    if sweep == "look":
        return dataclasses.replace(recipe, film=dataclasses.replace(film, look=value))
    return dataclasses.replace(recipe, **{{"resolution": "width", "compression": "crf"}[sweep]: value})


@dataclass(frozen=True)
class Wish:
    """One clip to be made: the rollout, how it ended (fact and null code), the true label, damage, and part of the set."""

    index: int
    end: tuple[int, int]
    truth: str | None
    kind: str = ""
    batch: int = 0


@dataclass(frozen=True)
class _Task:
    scene: Scene
    seed: int
    wishes: tuple[Wish, ...]
    numbers: tuple[int, ...]
    folder: Path
    recipe: Recipe


def make(
    scene: Scene,
    seed: int,
    wishes: Sequence[Wish],
    folder: Path,
    recipe: Recipe,
    pool: Pool | None = None,
    advance: Advance = lambda count: None,
) -> tuple[list[Control], dict[str, str]]:
    """Draw every clip into `folder`; return them, and by kind why some damage could not be done to this scene.

    Raises `InfrastructureError` where a replay ends otherwise than it did, or an encoder fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wishes = sorted(wishes, key=lambda wish: wish.kind)  # a task shares its canvases
    tasks = [
        _Task(scene, seed, tuple(wishes[at : at + A_TASK]), tuple(range(at, min(at + A_TASK, len(wishes)))), folder, recipe)
        for at in range(0, len(wishes), A_TASK)
    ]
    made = [one for some in spread(pool, _draw, tasks, lambda some: advance(len(some))) for one in some]
    controls = [one for one in made if isinstance(one, Control)]
    refused = {one[0]: one[1] for one in made if isinstance(one, tuple)}
    return controls, refused


def _draw(task: _Task) -> list[Control | tuple[str, str]]:
    made: list[Control | tuple[str, str]] = []
    scene, recipe = task.recipe.scene(task.scene), task.recipe
    film, few = recipe.film, recipe.sparse
    sparse = dataclasses.replace(film, fps=film.fps / few, frames=math.ceil(film.frames / few), held=(few > 1) * HELD)
    films = {1: film, few: sparse}
    damagers = {stride: Damager(scene, one, task.seed) for stride, one in films.items() if any(w.kind for w in task.wishes)}
    filming = Filming(scene, sparse, task.seed)
    for wish, number in zip(task.wishes, task.numbers, strict=True):
        stride = 1 if wish.kind in FULL_RATE else few
        if wish.kind:
            trajectory = _replay(scene, task.seed, wish, films[stride].fps)
            length = films[stride].frames + number % films[stride].frames  # still clips must not be equal
            frames = damagers[stride].frames(wish.kind, wish.index, trajectory, length)
        else:
            frames = filming.frames(wish.index, _replay(scene, task.seed, wish, sparse.rate))
        path = task.folder / f"{number:05d}.mp4"
        crf = looks.look(film.look).crf if recipe.crf is None else recipe.crf
        fps = recipe.like.fps if recipe.like else films[stride].fps
        try:
            shown = _matched(frames, recipe.like) if recipe.like else frames
            count = write_clip(path, shown, fps, 0 if recipe.like else crf)
            if recipe.like:
                _encode_like(path, recipe.like)
        except NotApplicable as error:
            made.append((wish.kind, str(error)))
            continue
        except ClipError as error:
            raise InfrastructureError(f"the clip of rollout {wish.index} of {scene.id} was not written: {error}") from error
        axis = KINDS[wish.kind].axis if wish.kind else ""
        null = truth_null(wish.kind) if wish.kind else ""
        made.append(Control(path, scene.id, wish.index, wish.truth, fps, count, null, wish.kind, axis, wish.batch))
    return made


def _replay(scene: Scene, seed: int, wish: Wish, rate: float) -> State:
    again = run(scene.integrator, scene.device, seed, scene.stream, [wish.index], fps=rate)
    ended = int(again.fact[0]), int(again.null[0])
    if ended != wish.end or again.trajectories is None:
        raise InfrastructureError(
            f"rollout {wish.index} of {scene.id} ended otherwise when it was replayed: {ended}, {wish.end}"
        )
    return again.trajectories[0]


def _matched(frames: Iterator[Image], like: Like) -> Iterator[Image]:
    """Yield as many frames as the model's clip has, from first to last: the whole motion, faster or slower than it was."""
    held = list(frames)
    while len(held) < like.frames:
        held.append(held[-1])
    for frame in evenly_spaced(held, like.frames):
        yield np.asarray(cv2.resize(frame, (like.width, like.height), interpolation=cv2.INTER_AREA), np.uint8)


def _encode_like(path: Path, like: Like) -> None:
    """Encode a clip again by the model's codec, at its bit rate.

    Raises `ClipError` where the encoder fails or frames are lost.
    """
    target = path.with_suffix(".like.mp4")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error", "-nostdin", "-i", str(path), "-an", "-map_metadata", "-1"]
    command += ["-c:v", CODECS[like.codec], "-b:v", str(round(like.bitrate)), "-maxrate", str(round(1.5 * like.bitrate))]
    command += ["-bufsize", str(round(2 * like.bitrate)), "-pix_fmt", "yuv420p", "-threads", "1", "-fflags", "+bitexact"]
    command += ["-r", str(Fraction(like.fps).limit_denominator(100_000)), "-fps_mode", "passthrough"][2:]
    done = subprocess.run([*command, str(target)], capture_output=True, timeout=600)
    if done.returncode:
        said = re.sub(r"0x[0-9a-f]+", "", done.stderr.decode(errors="replace"))
        raise ClipError(f"{like.codec} could not be written: {said[:300]}")
    held = sum(1 for _ in read_clip(target))
    if held != like.frames:
        raise ClipError(f"{like.frames} frames were sent to {like.codec}, and {held} came back")
    target.replace(path)
