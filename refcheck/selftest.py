"""`quincunx controls suite=smoke`: known defects, put one at a time into the real pipeline, each of which must be caught.

What clips show is read off their pixels by means that know no label map: pips counted, a face compared, a place measured. A
check that also complains without its defect is as much a failure as one that does not complain with it.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from rich.table import Table

from refcheck import blind, clips, control_judges, control_report, pawbench
from refcheck.blind import Control
from refcheck.blind_key import Key
from refcheck.command import COMPLETED, INFRASTRUCTURE, Answer, Request
from refcheck.control_clips import Recipe, Wish, make
from refcheck.control_judges import Oracle
from refcheck.control_sets import fill, want
from refcheck.filming import Film
from refcheck.image_reading.faces import CoinKind
from refcheck.image_reading.marks import Unreadable
from refcheck.judges import rubrics
from refcheck.judges.rubrics import Item
from refcheck.labels import Row
from refcheck.metrics import MAXIMUM_NULLS
from refcheck.policy import Expected, Policy, Rules, check_rows
from refcheck.running import pool_of
from scenes.catalog import scene_ids
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.execute import Pool
from simulators.render.canvas import Image
from simulators.sampling import generator
from simulators.video import read_clip, write_clip
from simulators.world import Camera

CLIPS, FPS = 6, 2.0  # a scene; the last picture is what counts
READ = 4  # at least so many of them must have been readable
SEED = 0
BALL, COIN, DIE, BOARD = "calibench/ball", "pawbench/A-01", "calibench/dice", "calibench/galton_board"
Frames = Callable[[Iterator[Image]], Iterator[Image]]


@dataclass(frozen=True)
class Defect:
    """One defect: its name, what is done, and the check, which returns what it complains of, given whether it is there."""

    name: str
    told: str
    check: Callable[[bool], list[str]]


@dataclass(frozen=True)
class _Bench:
    """What the checks share: a folder, workers, and clips of scenes, drawn once each."""

    folder: Path
    pool: Pool | None
    drawn: dict[tuple[str, str], list[Control]] = dataclasses.field(default_factory=dict)

    @cached_property
    def everything(self) -> list[Scene]:
        """Return every scene there is."""
        return [load_scene(id) for id in scene_ids()]

    def scene(self, id: str) -> Scene:
        scene = load_scene(id)
        if id == DIE:  # from straight above, so that one face is seen, and near enough to count its pips
            camera = scene.camera
            high = 2.0 * np.tan(camera.fov / 2.0) * float(np.linalg.norm(np.subtract(camera.position, camera.target)))
            above = (camera.target[0], camera.target[1], camera.target[2] + 2.0)
            camera = Camera(above, camera.target, (0.0, 1.0, 0.0), view_height=high, width=1664, height=960)
            scene = dataclasses.replace(scene, camera=camera)
        return scene

    def controls(self, id: str, name: str = "", outcome_of_fact: tuple[int, ...] | None = None) -> tuple[Scene, list[Control]]:
        """Return clips of `CLIPS` balanced labels through the pipeline, with another map from facts to labels if asked."""
        scene = self.scene(id)
        labelled = scene if outcome_of_fact is None else dataclasses.replace(scene, outcome_of_fact=outcome_of_fact)
        if (id, name) not in self.drawn:
            wanted = want("balanced", np.ones(len(scene.outcomes)), CLIPS, generator(SEED, scene.stream, "smoke", 0, 0))
            needed = np.bincount(wanted.labels, minlength=len(scene.outcomes))
            found = clips.search(labelled, SEED, needed, limit=20_000, pool=self.pool)
            chosen = fill(labelled, wanted.labels, found)
            ends = zip(chosen.index.tolist(), chosen.fact.tolist(), chosen.null.tolist(), strict=True)
            wishes = [
                Wish(i, (fact, null), scene.outcomes[label]) for (i, fact, null), label in zip(ends, wanted.labels, strict=True)
            ]
            folder = self.folder / f"{id.replace('/', '-')}-{name}"
            made, _ = make(labelled, SEED, wishes, folder, Recipe(Film(fps=FPS, frames=4)), self.pool)
            self.drawn[id, name] = made
        return labelled, self.drawn[id, name]

    def again(self, controls: Sequence[Control], name: str, change: Frames) -> list[Control]:
        """Return the controls with other frames, as if the pipeline had made them so."""
        (self.folder / name).mkdir(exist_ok=True)
        moved = []
        for control in controls:
            path = self.folder / name / control.path.name
            write_clip(path, change(read_clip(control.path)), control.fps)
            moved.append(dataclasses.replace(control, path=path))
        return moved

    def put_out(self, scene: Scene, controls: Sequence[Control]) -> tuple[Path, Key]:
        """Put clips out blind; return the folder and the key as read back."""
        root = Path(tempfile.mkdtemp(dir=self.folder))
        key = blind.export([scene], controls, root / "blind", "pawbench", pool=self.pool)
        blind.seal(key, root / "blind", root / "key.json")
        return root / "blind", blind.read_key(root / "key.json")


# --- what pixels say, whatever the labels ---


def side(frames: Sequence[Image], scene: Scene) -> str:
    """Return on which side something new lies in the lower third of the last picture."""
    first, last = frames[0].astype(int), frames[-1].astype(int)
    new = np.abs(last - first).max(axis=-1)[2 * first.shape[0] // 3 :] > 40
    if new.sum() < 20:
        raise Unreadable("nothing new lies at the bottom")
    return "left" if float(np.nonzero(new)[1].mean()) < first.shape[1] / 2 else "right"


def coin_face(frames: Sequence[Image], scene: Scene) -> str:
    """Return the face of the coin in the last picture, by its likeness to a drawing of either."""
    return CoinKind().find(frames[-1], scene.device).words["start_face"]  # type: ignore[arg-type]


def pips(frames: Sequence[Image], scene: Scene) -> str:
    """Return how many dark spots the largest white thing in the last picture has, seen from straight above."""
    white = (frames[-1].min(axis=-1) > 195).astype(np.uint8)
    count, parts, stats, _ = cv2.connectedComponentsWithStats(white)
    if count < 2:
        raise Unreadable("no white die is seen")
    die = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    outline, _ = cv2.findContours((parts == die).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    body = np.zeros(white.shape, np.uint8)
    cv2.drawContours(body, [cv2.convexHull(np.concatenate(outline))], -1, 1, -1)
    spots = ((frames[-1].max(axis=-1) < 120) & (cv2.erode(body, np.ones((3, 3), np.uint8)) > 0)).astype(np.uint8)
    number, _, sizes, _ = cv2.connectedComponentsWithStats(spots)
    return str(sum(int(sizes[k, cv2.CC_STAT_AREA]) > 0.005 * body.sum() for k in range(1, number)))


def bin_number(frames: Sequence[Image], scene: Scene) -> str:
    """Return the bin, counted from the left, above which something new lies at the bottom: by the spacing of the pegs."""
    first, last = frames[0].astype(int), frames[-1].astype(int)
    new = np.abs(last - first).max(axis=-1)
    rows = np.flatnonzero((new > 40).sum(axis=1))
    if not len(rows):
        raise Unreadable("nothing new lies on the board")
    columns = np.nonzero(new[rows[-1] - 8 : rows[-1] + 1] > 40)[1]
    spacing = scene.device.spacing  # type: ignore[attr-defined]
    at = scene.camera.project([[0.0, 0.0, 0.0], [spacing, 0.0, 0.0]])
    middle = (len(scene.outcomes) + 1) / 2
    return str(round(middle + (float(columns.mean()) - at[0, 0]) / (at[1, 0] - at[0, 0])))


def _as_labelled(
    bench: _Bench, scene: Scene, controls: Sequence[Control], read: Callable[[Sequence[Image], Scene], str]
) -> list[str]:
    """Return every clip whose sealed truth is not what its pixels say, and that too few could be read."""
    folder, key = bench.put_out(scene, controls)
    told, count = [], 0
    for clip in key.clips:
        try:
            seen = read(list(read_clip(blind.path_of(folder, clip.scene, clip.repeat))), scene)
        except Unreadable:
            continue
        count += 1
        if seen != clip.truth:
            told.append(f"a clip sealed as {clip.truth} shows {seen}")
    return told if count >= READ else [*told, f"only {count} of {len(key.clips)} clips could be read off their pixels"]


# --- the defects ---


def defects(bench: _Bench) -> list[Defect]:
    """Return every defect with its check."""

    def mirrored(there: bool) -> list[str]:
        scene, controls = bench.controls(BALL)
        if there:
            controls = bench.again(controls, "mirrored", lambda frames: (frame[:, ::-1] for frame in frames))
        return _as_labelled(bench, scene, controls, side)

    def mapped(id: str, read: Callable[[Sequence[Image], Scene], str], change: Callable[[list[int]], list[int]]) -> Any:
        def check(there: bool) -> list[str]:
            map_ = tuple(change(list(bench.scene(id).outcome_of_fact))) if there else None
            scene, controls = bench.controls(id, "mapped" if there else "", map_)
            return _as_labelled(bench, scene, controls, read)

        return check

    return [
        Defect("left and right mirrored", "every frame is turned about", mirrored),
        Defect("heads and tails swapped", "facts are given the other label", mapped(COIN, coin_face, lambda m: m[::-1])),
        Defect("opposite faces permuted", "1 is called 6, 2 is called 5, 3 is called 4", mapped(DIE, pips, lambda m: m[::-1])),
        Defect("bins off by one", "every bin is called by its neighbour's number", mapped(BOARD, bin_number, _shifted)),
        Defect("a null scored as a label", "what shows no outcome is given a label", lambda t: _null_as_label(bench, t)),
        Defect("gate 29 for 30", "a scene with 30 nulls of 50 does not pass", _gate),
        Defect("a rollout used twice", "two labels are filled by one rollout", lambda t: _twice(bench, t)),
        Defect("last frame dropped", "the encoder is given all frames but one", lambda t: _dropped(bench, t)),
        Defect("transposed confusion matrix", "rows are readings and columns the truth", lambda t: _transposed(bench, t)),
        Defect("q in a prompt", "a judge is told what is to be expected", lambda t: _told(bench.everything, t)),
    ]


def _shifted(order: list[int]) -> list[int]:
    return [*order[1:], order[0]]


def _readings(bench: _Bench, scene: Scene, controls: Sequence[Control], said: Callable[[str | None], str | None]) -> Any:
    """Return the opened readings of a stack that says `said(truth)` of every clip."""
    folder, key = bench.put_out(scene, controls)
    entries = control_judges.ask(Oracle.of(key), key, folder, bench.pool, 1, lambda count: None)
    for number, entry in enumerate(entries):
        label = said(entry.row.outcome_label)
        row = entry.row.model_copy(
            update={"outcome_label": label, "observation": "null_observation" if label is None else "outcome"}
        )
        null = "" if label is not None else "unreadable"
        reading = None if entry.reading is None else {**entry.reading, "outcome": label, "null": null}
        entries[number] = entry.model_copy(update={"row": row, "reading": reading})
    control_judges.write_readings(folder.parent / "readings", entries)
    return blind.open_sealed(folder.parent / "readings", key)


def _null_as_label(bench: _Bench, there: bool) -> list[str]:
    scene, controls = bench.controls(BALL)
    hidden = [dataclasses.replace(c, truth=None, null="unreadable", kind="occlusion") for c in controls[:2]]
    first = scene.outcomes[0]
    opened = _readings(bench, scene, [*hidden, *controls[2:]], lambda label: first if there and label is None else label)
    _, against = control_report.verdict(control_report.confusion(scene.outcomes, opened), control_report.by_kind(opened))
    return [reason for reason in against if "show no outcome" in reason]


def _gate(there: bool) -> list[str]:
    rules = Rules(partial=True, maximum_nulls=29 if there else MAXIMUM_NULLS)
    told = []
    for nulls, passes in ((30, "pass"), (31, "fail")):
        policy = Policy((Expected("A-01", "calibration", "toss", ("heads", "tails"), (0.5, 0.5), frozenset(range(50))),))
        rows = [_row(repeat, None if repeat < nulls else "heads") for repeat in range(50)]
        checked = check_rows(((f"row {k}", row) for k, row in enumerate(rows)), policy)
        streams = lambda name: generator(SEED, "smoke", name, 0, 0)  # noqa: E731
        entry = pawbench.evaluate(checked, policy, streams, 1_000, rules=rules)
        status = entry["tracks"]["calibration"]["models"]["m"]["scenes"][0]["status"]
        if status != passes:
            told.append(f"a scene with {nulls} nulls of 50 is said to {status}")
    return told


def _row(repeat: int, label: str | None) -> Row:
    outcome = {"observation": "null_observation"} if label is None else {"observation": "outcome", "outcome_label": label}
    told = {"sample_id": f"m::A-01::r{repeat:03d}::0", "source_sample_id": f"m::A-01::r{repeat:03d}", "scene_id": "A-01"}
    return Row.model_validate(told | {"track": "calibration", "model_or_lane": "m", "repeat_index": repeat} | outcome)


def _twice(bench: _Bench, there: bool) -> list[str]:
    scene, controls = bench.controls(BALL)
    if there:
        controls = [*controls[:-1], dataclasses.replace(controls[-1], path=controls[0].path, index=controls[0].index)]
    return _refused(bench, scene, controls)


def _dropped(bench: _Bench, there: bool) -> list[str]:
    scene, controls = bench.controls(BALL)
    if there:
        controls = bench.again(controls, "dropped", lambda frames: (frame for frame, _ in pairwise(frames)))
    return _refused(bench, scene, controls)


def _refused(bench: _Bench, scene: Scene, controls: Sequence[Control]) -> list[str]:
    try:
        folder, key = bench.put_out(scene, controls)
    except ValueError as error:
        return [str(error)]
    return blind.check_folder(folder, key)


def _transposed(bench: _Bench, there: bool) -> list[str]:
    scene, controls = bench.controls(BALL)
    wrong = scene.outcomes[0]  # a judge that says one thing whatever it sees: its matrix is far from symmetric
    opened = _readings(bench, scene, controls, lambda label: wrong)
    table = control_report.confusion(scene.outcomes, opened)
    if there:
        table = np.column_stack([table[:, :-1].T, table[:, -1]])
    return control_report.check(scene.outcomes, opened, table)


def _told(scenes: Sequence[Scene], there: bool) -> list[str]:
    told = []
    for scene in scenes:
        item = Item.of(scene)
        if there and scene.reference.q is not None:
            told_q = ", ".join(f"{label} {share}" for label, share in scene.reference.q.items())
            item = dataclasses.replace(item, prompt=f"{item.prompt} ({told_q})")
        prompts = (rubrics.readout_prompt(item, item.outcomes, ""), rubrics.trust_prompt(item, ""))
        told += [f"{scene.id}: {word}" for word in leaks(" ".join((rubrics.SYSTEM, *prompts)), scene)]
    return told


def leaks(prompt: str, scene: Scene) -> list[str]:
    """Return words of a prompt that tell a judge what is expected: a share of the reference, or talk of chances."""
    shares = set[str]()
    for share in (scene.reference.q or {}).values():
        if 0 < share < 1:
            percent = f"{100 * float(share):.3g}"
            shares |= {str(share), f"{float(share):.3g}", f"{float(share):.2f}", f"{percent}%", f"{percent} %"}
    words = ("probab", "likely", "chance of", "percent", "uniform", "odds")
    return [word for word in sorted((*shares, *words)) if word in prompt]


# --- the suite ---


def run(request: Request) -> Answer:
    """Run every check without its defect and with it. Status 3 where one is not caught, or complains of nothing."""
    rows, begun = list[Mapping[str, Any]](), time.monotonic()
    with ExitStack() as stack:
        pool = stack.enter_context(pool_of(request.values, request.out))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quincunx-")))
        bench = _Bench(folder, pool)
        listed = defects(bench)
        advance = stack.enter_context(request.progress("defects", len(listed)))
        for defect in listed:
            sound, caught = defect.check(False), defect.check(True)
            rows.append({"defect": defect.name, "told": defect.told, "sound": sound, "caught": caught[:5]})
            advance(1)
    missed = [row["defect"] for row in rows if row["sound"] or not row["caught"]]
    shown = Table(title="Defects put into the pipeline", title_justify="left")
    for column in ("defect", "without it", "with it"):
        shown.add_column(column)
    for row in rows:
        shown.add_row(
            row["defect"], row["sound"][0] if row["sound"] else "nothing", row["caught"][0] if row["caught"] else "NOT CAUGHT"
        )
    result = {
        "schema": "quincunx.smoke/v1",
        "suite": "smoke",
        "defects": rows,
        "missed": missed,
        "seconds": time.monotonic() - begun,
    }
    told = "Every defect is caught." if not missed else f"Not caught, or complained of without cause: {', '.join(missed)}."
    return Answer(result, (shown, told), INFRASTRUCTURE if missed else COMPLETED)
