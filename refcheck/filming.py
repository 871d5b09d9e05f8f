"""How clips of a scene are filmed, and what is told of each beside it: a track, masks, what made it and how it ended.

It refuses to know a reference or a judge.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from refcheck.command import UserError
from refcheck.output import atomic, plain
from scenes.scene import Scene
from simulators.device import Rollouts, State
from simulators.engines.loop import physics_digest
from simulators.render import Canvas, Image, Renderer, looks
from simulators.render.annotations import terminal, track
from simulators.render.blur import STILL, Shutter
from simulators.render.contacts import Contacts
from simulators.render.looks import Look, Shot
from simulators.render.segmentation import Segmenter, write_masks
from simulators.video import MINIMUM, frames_of_clip, rows_of_clip, source_image

FPS = 16.0
TRACK, MASKS, META = ".track.npz", ".masks.npz", ".meta.json"  # in place of a clip's `.mp4`
NOTES = (TRACK, MASKS, META)
META_SCHEMA = "quincunx.clip/v1"
_PACKAGES = {"planar": "skia-python", "raster": "numba", "photoreal": "mitsuba"}
_STRIDE = 8  # recorded states from one frame to the next behind an open shutter


@dataclass(frozen=True)
class Film:
    """How clips are filmed: by the scene's own renderer, in the studio, the way that gives its source image.

    `renderer` and `shutter` stand in for the scene's and the look's. Clips share variation number `variation` of the look,
    and so their source image; with `each`, every clip has its own, numbered by its rollout. `frames` is the fewest a clip has,
    and `held` the fewest in which its final state is shown once more.
    `notes` puts a track and what made a clip beside it, `masks` segmentation and depth too.
    """

    look: str = "studio"
    renderer: Renderer | None = None
    shutter: Shutter | None = None
    variation: int = 0
    each: bool = False
    frames: int = MINIMUM
    held: int = 0
    fps: float = FPS
    notes: bool = False
    masks: bool = False

    def number(self, index: int) -> int:
        """Return the number of the variation that films rollout `index`."""
        return index if self.each else self.variation

    def least(self, states: int, shutter: Shutter) -> int:
        """Return the fewest frames of the clip of a trajectory of so many states."""
        return max(self.frames, len(rows_of_clip(states, shutter, 1, 0.0)) + self.held)

    def shot(self, scene: Scene, seed: int, index: int) -> Shot:
        """Return camera, light and sensor for rollout `index`."""
        look: Look = looks.look(self.look)
        look = look if self.shutter is None else dataclasses.replace(look, shutter=self.shutter)
        return looks.shoot(look, scene.camera, scene.light, seed, self.number(index))

    def renderer_of(self, scene: Scene) -> Renderer:
        """Return the renderer that draws."""
        return self.renderer or scene.renderer

    @property
    def exposure(self) -> Shutter:
        """The shutter in use."""
        return looks.look(self.look).shutter if self.shutter is None else self.shutter

    @property
    def rate(self) -> float:
        """Recorded states a second."""
        return self.exposure.rate(self.fps)

    def described(self, scene: Scene) -> dict[str, Any]:
        """Return what an index of clips says of them all."""
        look = looks.look(self.look)
        return {
            "renderer": {"name": self.renderer_of(scene), "version": renderer_version(self.renderer_of(scene))},
            "look": {"name": self.look, **dataclasses.asdict(dataclasses.replace(look, shutter=self.exposure))},
            "variation": "each" if self.each else self.variation,
        }

    def comment(self, scene: Scene, index: int) -> str:
        """Return what a clip's own metadata says: who drew it and how, nothing of what it shows."""
        name = self.renderer_of(scene)
        return f"renderer {name} ({renderer_version(name)}); look {self.look}; variation {self.number(index)}"


PLAIN = Film()


def shutter_of(opened: float) -> Shutter:
    """Return a shutter open for a share of the time between frames, in eighths; 0 is sharp.

    Raises `UserError` where `opened` is none of 0, 2/8, 3/8 ... 1: one eighth is a single instant, as sharp as 0.
    """
    samples = round(opened * _STRIDE)
    if abs(samples - opened * _STRIDE) > 1e-9 or samples == 1:
        raise UserError(f"shutter={opened:g} must be 0 (sharp), or a multiple of .125 from .25 to 1 (open all the time)")
    return Shutter(samples / _STRIDE, samples) if samples else STILL


def problems(scene: Scene, film: Film) -> list[str]:
    """Return why clips of `scene` cannot be filmed so, as far as that shows before anything is drawn."""
    told, rate = [], film.rate
    most = scene.integrator.steps_per_second
    if most is not None and rate > most:
        told.append(
            f"{scene.id}: fps={film.fps:g} needs {rate:g} states a second, and {scene.integrator.name} makes {most}: "
            "give a lower fps= or shutter=0"
        )
    return told


def canvas_of(scene: Scene, film: Film = PLAIN, shot: Shot | None = None) -> Canvas:
    """Return a canvas of the scene's world as it is filmed. Raises `UserError` where the renderer cannot."""
    shot = film.shot(scene, 0, 0) if shot is None else shot
    try:
        return looks.canvas_of(film.renderer_of(scene), scene.device.world(), shot)
    except ValueError as error:
        raise UserError(f"{scene.id} cannot be drawn by {film.renderer_of(scene)}: {error}") from error


def source_of(scene: Scene, film: Film = PLAIN, seed: int = 0, index: int = 0) -> Image:
    """Return the scene's source image, frame 0 of every clip (of rollout `index` where each is filmed anew), (H, W, 3)."""
    shot = film.shot(scene, seed, index)
    return next(looks.develop([source_image(canvas_of(scene, film, shot), scene.device.world())], shot))


class Filming:
    """A scene prepared for filming, once for all clips that share a shot."""

    def __init__(self, scene: Scene, film: Film, seed: int) -> None:
        self.scene, self.film, self.seed = scene, film, seed
        self._number: int | None = None
        self._contacts: Contacts | None = None

    def _load(self, index: int) -> None:
        if self._number == self.film.number(index):
            return
        self._number = self.film.number(index)
        self.shot = self.film.shot(self.scene, self.seed, index)
        self._canvas = canvas_of(self.scene, self.film, self.shot)
        self._preludes: dict[float, Image] = {}
        self._segmenter: Segmenter | None = None

    def frames(self, index: int, trajectory: State) -> Iterator[Image]:
        """Yield the frames of the clip of rollout `index`."""
        self._load(index)
        shutter = self.shot.look.shutter
        least = self.film.least(len(trajectory), shutter)
        drawn = frames_of_clip(self._canvas, trajectory, self.film.fps, least, preludes=self._preludes, shutter=shutter)
        yield from looks.develop(drawn, self.shot)

    @property
    def crf(self) -> int:
        """Return how strongly clips are compressed."""
        return looks.look(self.film.look).crf

    def notes(self, path: Path, rollout: Rollouts, outcome: str | None) -> None:
        """Write track, masks and meta of the clip at `path`: `rollout` is the one that it shows, recorded."""
        index = int(rollout.index[0])
        self._load(index)
        world, trajectory = self.scene.device.world(), (rollout.trajectories or ())[0]
        if self._segmenter is None:
            self._segmenter = Segmenter(world, self.shot.camera)
        if self._contacts is None:
            self._contacts = Contacts(world)
        shutter = self.shot.look.shutter
        rows = rows_of_clip(len(trajectory), shutter, self.film.least(len(trajectory), shutter))
        with atomic(path.with_suffix(TRACK)) as temporary, open(temporary, "wb") as file:
            arrays = track(self.scene.device, self.shot.camera, self._segmenter, self._contacts, trajectory, rows)
            np.savez_compressed(file, allow_pickle=False, **arrays)
        if self.film.masks:
            with atomic(path.with_suffix(MASKS)) as temporary:
                write_masks(temporary, self._segmenter, trajectory, rows)
        told = {
            "schema": META_SCHEMA,
            "clip": path.name,
            "scene": self.scene.id,
            "digest": physics_digest(self.scene.device, self.scene.integrator),
            "stream": self.scene.stream,
            "seed": self.seed,
            "index": index,
            "outcome": outcome,
            **terminal(self.scene.device, rollout, self.film.rate),
            "facts": self.scene.device.facts,
            "prompt": self.scene.prompt,
            **self.film.described(self.scene),
            "variation": self.film.number(index),
            "camera": self.shot.camera,
            "light": self.shot.light,
            "gains": self.shot.gains,
            "fps": self.film.fps,
            "frames": len(rows),
            "held_from": rows.index(rows[-1]),
            "bodies": [body.name for body in world.bodies],
            "moving": [body.name for body in world.moving],
        }
        with atomic(path.with_suffix(META)) as temporary:
            temporary.write_text(json.dumps(plain(told), indent=2) + "\n", "utf-8")


def renderer_version(name: Renderer) -> str:
    """Return what drew: this package's version and that of the library it draws with."""
    named = []
    for package in ("quincunx", _PACKAGES[name]):
        try:
            named.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            named.append(f"{package} (not installed)")
    if name == "photoreal":
        from simulators.render.photoreal import variant  # which of Mitsuba's variants works here changes the noise

        named.append(variant())
    return ", ".join(named)
