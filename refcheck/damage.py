"""Clips damaged by a known amount: unreadable ones, physically broken ones, and real rollouts that ended in nothing.

Every clip begins as a rollout that physics ran; what is then done to its trajectory or its pixels is named, and with it what
a judge may say. It refuses to know a reference.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from refcheck.faults import (
    NotApplicable,
    backwards,
    companions,
    like,
    motion,
    moved,
    movers,
    protagonist,
    reach_of,
    repainted,
    swapped,
)
from refcheck.filming import Film, canvas_of
from scenes.scene import Scene
from simulators.device import State
from simulators.engines.loop import run
from simulators.render import Canvas, Image, looks
from simulators.render.blur import STILL
from simulators.render.canvas import Region
from simulators.video import MINIMUM, frames_of_clip, read_clip, write_clip

Family = Literal["unreadable", "broken", "null"]


@dataclass(frozen=True)
class Kind:
    """One way of damage: what is done, in words, and which axis of a trust audit must fail for it (`broken` alone).

    A judge may still name the outcome of a broken clip, which is the rollout's; of the others there is none to name.
    """

    name: str
    family: Family
    told: str
    axis: str = ""


KINDS = {
    kind.name: kind
    for kind in (
        Kind("blur", "unreadable", "Gaussian blur, standard deviation a tenth of the picture's height"),
        Kind("occlusion", "unreadable", "after the release, a grey board hides all that the outcome could be read from"),
        Kind("crop", "unreadable", "the part of the picture beside all that the outcome could be read from, enlarged"),
        Kind("early_cut", "unreadable", "the clip ends after 35 % of the time that the outcome takes to be decided"),
        Kind("frozen_start", "unreadable", "the source image is held, and the clip ends 35 % into what decides the outcome"),
        Kind("low_resolution", "unreadable", "8 pixels across, enlarged"),
        Kind("compression", "unreadable", "a twentieth of the size at x264's crf 51, its worst, enlarged"),
        Kind("teleport", "broken", "what moves most jumps aside in the middle of its motion, and back", "object_continuity"),
        Kind("duplicate", "broken", "a second one of what moves most appears for a while", "object_continuity"),
        Kind("vanish", "broken", "what moves most is gone for a while", "object_continuity"),
        Kind("swap", "broken", "two like bodies of different looks change places for a while", "object_continuity"),
        Kind("repaint", "broken", "sectors, or what moves most, have other colours for a while", "object_continuity"),
        Kind("energy_gain", "broken", "the middle of the motion runs backwards once, against all losses", "physical_process"),
        Kind("no_action", "broken", "the source image for the whole clip: the action is never performed", "action_execution"),
        Kind("drift", "broken", "the apparatus drifts aside, by a tenth of the picture's width in all", "scene_grounding"),
        Kind("stuck", "null", "a rollout that came to rest where nothing counts"),
        Kind("left_apparatus", "null", "a rollout that left the apparatus"),
        Kind("on_edge", "null", "a rollout that came to rest balanced between two outcomes"),
        Kind("unsettled", "null", "a rollout that had not come to rest at its time limit"),
    )
}
WITHOUT_OUTCOME = frozenset(kind.name for kind in KINDS.values() if kind.family != "broken") | {"no_action"}
"""Damage after which a clip shows no outcome: any answer is wrong."""
OUT_OF_SCHEMA = frozenset(("stuck", "left_apparatus"))
"""What is seen clearly and is no outcome; the rest of `WITHOUT_OUTCOME` is unreadable."""
EARLY = 0.35  # of the time from the release to the decision
ASIDE = 0.15  # of the picture's height that a teleported or second body is away
DRIFT = 0.1  # of the picture's width
ACROSS, SMALLER = 8, 20
BROKEN_ROWS = 8  # fewest frames that a fault is seen for, where the motion is as long: one in eight of a short clip
BOARD = (92, 92, 96)
SAMPLE, SAMPLE_FPS = 8, 12.0  # rollouts, and states a second, that tell where an outcome can be read from


def truth_null(kind: str) -> str:
    """Return the null reason that a judge should give, or nothing where the clip still shows its outcome."""
    if kind not in WITHOUT_OUTCOME:
        return ""
    return "out_of_schema" if kind in OUT_OF_SCHEMA else "unreadable"


def decided_at(scene: Scene, trajectory: State) -> int:
    """Return the row at which a trajectory's outcome is decided: the first decisive one, or the last at which it moves."""
    if scene.device.readout == "first":
        facts = scene.device.read(trajectory)
        rows = np.flatnonzero((facts >= 0) & (trajectory.time >= 0.0))
        if len(rows):
            return int(rows[0])
    return motion(trajectory)[1]


class Damager:
    """Draws damaged clips of one scene, filmed as `film` says; `seed` is that of launches and looks."""

    def __init__(self, scene: Scene, film: Film, seed: int) -> None:
        self.scene, self.film, self.seed = scene, dataclasses.replace(film, shutter=looks.look("studio").shutter), seed
        self.world = scene.device.world()
        self._number: int | None = None

    def frames(self, kind: str, index: int, trajectory: State, length: int = MINIMUM) -> Iterator[Image]:
        """Yield the frames of rollout `index`, recorded at the film's rate, damaged in the way `kind`.

        A clip without any motion is `length` frames long. Raises `NotApplicable`; `ValueError` for a name that is none.
        """
        self._load(index)
        if kind not in KINDS:
            raise ValueError(f"`kind` must be one of {', '.join(KINDS)}, got {kind!r}")
        if KINDS[kind].family == "null":
            yield from self._film(trajectory)
        elif kind == "no_action":
            opening = next(self._film(trajectory))
            yield from (opening for _ in range(length))
        elif KINDS[kind].family == "broken":
            yield from self._broken(kind, trajectory)
        else:
            for frame in self._unreadable(kind, trajectory):
                yield _not_plain(frame)

    @cached_property
    def _sample(self) -> Sequence[State]:
        scene = self.scene
        return (
            run(scene.integrator, scene.device, self.seed, scene.stream + "/region", range(SAMPLE), fps=SAMPLE_FPS).trajectories
            or ()
        )

    # --- drawing ---

    def _load(self, index: int) -> None:
        if self._number != self.film.number(index):
            self._number = self.film.number(index)
            self._shot = self.film.shot(self.scene, self.seed, index)
            self._canvas = canvas_of(self.scene, self.film, self._shot)
            self._other: Canvas | None = None
            self._hidden: Region | None = None

    def _film(self, trajectory: State, canvas: Canvas | None = None) -> Iterator[Image]:
        least = self.film.least(len(trajectory), STILL)
        drawn = frames_of_clip(canvas or self._canvas, trajectory, self.film.fps, least)
        yield from looks.develop(drawn, self._shot)

    def _region(self) -> Region:
        """Return where anything moves once the outcome begins to show: all that it could be read from, in any rollout."""
        if self._hidden is None:
            right, down, _ = self._shot.camera.axes()
            boxes = []
            for trajectory in self._sample:
                first, _ = motion(trajectory)
                after = trajectory[slice(first + int(EARLY * (decided_at(self.scene, trajectory) - first)), None)]
                for body in movers(after):
                    reach = reach_of(self.world.moving[body])
                    corners = [after.pos[:, body] + x * reach * right + y * reach * down for x in (-1, 1) for y in (-1, 1)]
                    pixels = self._shot.camera.project(np.concatenate(corners))
                    boxes.append((*pixels.min(axis=0), *pixels.max(axis=0)))
            if not boxes:
                raise NotApplicable("nothing moves once the outcome begins to show")
            low, high = np.array(boxes)[:, :2].min(axis=0), np.array(boxes)[:, 2:].max(axis=0)
            self._hidden = _inside(
                (int(low[0]), int(low[1]), int(high[0]) + 1, int(high[1]) + 1), self._canvas.background.shape
            )
        return self._hidden

    # --- unreadable ---

    def _unreadable(self, kind: str, trajectory: State) -> Iterator[Image]:
        first, _ = motion(trajectory)
        if kind in ("early_cut", "frozen_start"):
            stop = first + max(1, int(EARLY * (decided_at(self.scene, trajectory) - first)))
            shown = islice(self._film(trajectory), stop + 1)
            if kind == "frozen_start":
                opening = next(self._film(trajectory))
                yield from (opening for _ in range(max(self.film.frames - stop - 1, MINIMUM // 2)))
            yield from shown
        elif kind == "occlusion":
            x0, y0, x1, y1 = self._region()
            for row, frame in enumerate(self._film(trajectory)):
                if row >= first:
                    frame = frame.copy()
                    frame[y0:y1, x0:x1] = BOARD
                    frame[y0 : y0 + 3, x0:x1] = frame[y1 - 3 : y1, x0:x1] = np.add(BOARD, 40)  # an edge: a board, not a hole
                yield frame
        elif kind == "crop":
            x0, y0, x1, y1 = _beside(self._region(), self._canvas.background.shape)
            for frame in self._film(trajectory):
                yield _sized(frame[y0:y1, x0:x1], frame.shape)
        elif kind == "blur":
            for frame in self._film(trajectory):
                eighth = cv2.resize(
                    frame, None, fx=1 / 8, fy=1 / 8, interpolation=cv2.INTER_AREA
                )  # the same blur, 64 times faster
                yield _sized(np.asarray(cv2.GaussianBlur(eighth, (0, 0), frame.shape[0] / 80), np.uint8), frame.shape)
        elif kind == "low_resolution":
            for frame in self._film(trajectory):
                small = (ACROSS, max(1, round(ACROSS * frame.shape[0] / frame.shape[1])))
                yield _sized(np.asarray(cv2.resize(frame, small, interpolation=cv2.INTER_AREA), np.uint8), frame.shape)
        else:
            yield from self._compressed(trajectory)

    def _compressed(self, trajectory: State) -> Iterator[Image]:
        high, wide = self._canvas.background.shape[:2]
        small = (wide // SMALLER // 2 * 2, high // SMALLER // 2 * 2)
        with tempfile.TemporaryDirectory(prefix="quincunx-") as name:
            path = Path(name) / "small.mp4"
            frames = (cv2.resize(f, small, interpolation=cv2.INTER_AREA) for f in self._film(trajectory))
            write_clip(path, (_not_plain(np.asarray(frame, np.uint8)) for frame in frames), self.film.fps, 51)
            for frame in read_clip(path):
                yield _sized(frame, (high, wide))

    # --- broken ---

    def _broken(self, kind: str, trajectory: State) -> Iterator[Image]:
        first, last = motion(trajectory)
        if kind == "energy_gain":
            yield from self._film(backwards(trajectory, first, last, self.film.fps))
            return
        if kind == "drift":
            yield from self._drifting(trajectory)
            return
        span = max(BROKEN_ROWS, round(0.35 * (last - first)))
        begin = min(first + max(1, round(0.3 * (last - first))), len(trajectory) - 2)
        rows = slice(begin, min(begin + span, len(trajectory) - 1))
        if kind == "repaint":
            if self._other is None:
                self._other = looks.canvas_of(self.film.renderer_of(self.scene), repainted(self.world, self._most(trajectory)),
                                              self._shot)  # fmt: skip
            both = zip(self._film(trajectory), self._film(trajectory, self._other), strict=True)
            for row, (frame, other) in enumerate(both):
                yield other if rows.start <= row < rows.stop else frame
            return
        most = self._most(trajectory)
        if kind == "swap":
            yield from self._film(swapped(trajectory, most, like(self.world, most), rows))
            return
        right, down, _ = self._shot.camera.axes()
        away, cast = self._aside(trajectory, most), companions(self.world, most, trajectory)
        if kind == "teleport":
            yield from self._film(moved(trajectory, cast, rows, away * right))
        elif kind == "vanish":
            yield from self._film(moved(trajectory, cast, rows, 1e3 * self._high(trajectory, most) * down))
        else:
            everywhere = slice(0, len(trajectory))
            gone = moved(trajectory, cast, everywhere, 1e3 * self._high(trajectory, most) * down)
            second = self._film(moved(trajectory, cast, everywhere, away * right))
            streams = zip(self._film(trajectory), second, self._film(gone), strict=True)
            for row, (frame, beside, without) in enumerate(streams):
                if rows.start <= row < rows.stop:
                    there = np.abs(beside.astype(np.int16) - without).max(axis=-1, keepdims=True) > 8
                    frame = np.where(there, beside, frame)
                yield frame

    def _most(self, trajectory: State) -> int:
        return protagonist(self.world, self._shot.camera.project(trajectory.pos), trajectory)

    def _high(self, trajectory: State, body: int) -> float:
        """Return the height [m] of what the picture shows at the depth of a body."""
        at = trajectory.pos[-1, body]
        _, down, _ = self._shot.camera.axes()
        pixels = float(np.linalg.norm(np.subtract(*self._shot.camera.project(np.stack([at + 1e-3 * down, at])))))
        return 1e-3 * self._shot.camera.height / pixels

    def _aside(self, trajectory: State, body: int) -> float:
        """Return how far [m] to the right a body is put, towards the side that has more room."""
        x = float(self._shot.camera.project(trajectory.pos[len(trajectory) // 2, body])[0])
        return (1.0 if x < self._shot.camera.width / 2 else -1.0) * ASIDE * self._high(trajectory, body)

    def _drifting(self, trajectory: State) -> Iterator[Image]:
        frames = list(self._film(trajectory))
        for number, frame in enumerate(frames):
            shift = DRIFT * frame.shape[1] * number / max(1, len(frames) - 1)
            move = np.array([[1.0, 0.0, shift], [0.0, 1.0, 0.0]])
            size = (frame.shape[1], frame.shape[0])
            yield np.asarray(cv2.warpAffine(frame, move, size, borderMode=cv2.BORDER_REPLICATE), np.uint8)


def _sized(frame: Image, shape: Sequence[int]) -> Image:
    return np.asarray(cv2.resize(np.ascontiguousarray(frame), (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC), np.uint8)


def _not_plain(frame: Image) -> Image:
    """Return the frame. Raises `NotApplicable` where it is one single colour, of which no clip is written."""
    if np.all(frame == frame[0, 0]):
        raise NotApplicable("one single colour is left of the picture: no clip is written of that")
    return frame


def _inside(box: tuple[int, int, int, int], shape: Sequence[int]) -> Region:
    return max(int(box[0]), 0), max(int(box[1]), 0), min(int(box[2]), shape[1]), min(int(box[3]), shape[0])


def _beside(region: Region, shape: Sequence[int]) -> Region:
    """Return the largest part of a picture, of its own proportions, that lies wholly beside `region`."""
    high, wide = shape[:2]
    x0, y0, x1, y1 = region
    strips = [(0, 0, x0, high), (x1, 0, wide, high), (0, 0, wide, y0), (0, y1, wide, high)]
    share, strip = max((min((x - a) / wide, (y - b) / high), (a, b, x, y)) for a, b, x, y in strips)
    if share < 0.1:
        raise NotApplicable("what the outcome is read from fills the picture: nothing is left to crop to")
    a, b, x, y = strip
    across, down = int(share * wide), int(share * high)
    a, b = a + (x - a - across) // 2, b + (y - b - down) // 2
    return a, b, a + across, b + down
