"""`quincunx controls`: clips whose true outcomes are spread exactly as the reference says, put before a judge.

The labels wanted are drawn from the reference here and nowhere else; each is then filled by a rollout that physics ended
there. A judge is given re-encoded bytes under random names.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.table import Table

from refcheck import clips, metrics
from refcheck.clips import SHEET, SOURCE
from refcheck.command import COMPLETED, INFRASTRUCTURE, Answer, Option, Request, UserError
from refcheck.inference import draw_null
from refcheck.judges import Failure, Judge, read_all
from refcheck.judges.state import StateJudge
from refcheck.running import RUNNING, pool_of, run_by
from refcheck.tally import Reading
from scenes.load import SceneError, load_scene, raw_scene
from scenes.scene import Scene
from simulators.device import Rollouts
from simulators.engines.loop import physics_digest
from simulators.execute import Pool, spread
from simulators.render.canvas import Image
from simulators.sampling import generator
from simulators.video import ClipError, contact_sheet, read_clip, write_clip

SUMMARY = "calibrated controls: clips of known outcome, spread as the reference says, to test a judge"
OPTIONS = (
    Option("k", "int", 50, "clips", low=2, high=10_000),
    Option("judge", "str", "trained", "trained on this scene, or state: the truth", choices=("trained", "state")),
    Option("per_outcome", "int", 60, "rollouts of each outcome that the trained judge learns from", low=8, high=10_000),
    Option("limit", "int", 20_000, "most rollouts to look through for the outcomes needed", low=1, high=10_000_000),
    Option("seed", "int", 0, "seed of labels and launches", low=0, high=2**64 - 1),
    *RUNNING,
)
USES_SCENES = "one"

SHOWN = 12  # clips on the sheet
NULL = "null"


@dataclass(frozen=True)
class Judged:
    """One control as it went: the clip's file, its rollout, the true outcome, and what the judge said."""

    file: str
    index: int
    truth: str
    reading: str | None
    confidence: float
    null: str | None
    failure: str | None


def draw_labels(q: NDArray[np.float64], k: int, draws: Generator) -> NDArray[np.int64]:
    """Return k positions in the outcomes (k,), i.i.d. from the reference `q`: the labels wanted, not yet any rollout's."""
    return draws.choice(len(q), size=k, p=q / q.sum())


def fill(scene: Scene, labels: NDArray[np.int64], rollouts: Rollouts) -> Rollouts:
    """Return for each label (k,) a rollout that ended in it, none twice, in index order within an outcome.

    Raises `ValueError` where `rollouts` do not suffice.
    """
    outcome = scene.outcome(rollouts.fact)
    waiting = {int(label): np.flatnonzero(outcome == label).tolist() for label in np.unique(labels)}
    if any(len(waiting[int(label)]) < np.sum(labels == label) for label in np.unique(labels)):
        raise ValueError("there are fewer rollouts of an outcome than labels that ask for it")
    return rollouts[np.array([waiting[int(label)].pop(0) for label in labels], np.int64)]


@dataclass(frozen=True)
class _Copy:
    source: Path
    target: Path
    fps: float


def _recode(task: _Copy) -> None:
    write_clip(task.target, read_clip(task.source), task.fps)


def disguise(paths: Sequence[Path], folder: Path, fps: float, pool: Pool | None, advance: Callable[[int], Any]) -> list[Path]:
    """Decode and encode each clip again under a random name in `folder`: no name, order or metadata tells what it shows."""
    copies = [folder / f"{secrets.token_hex(16)}.mp4" for _ in paths]
    tasks = [_Copy(source, target, fps) for source, target in zip(paths, copies, strict=True)]
    spread(pool, _recode, tasks, lambda done: advance(1))
    return copies


def confusion(scene: Scene, judged: Sequence[Judged]) -> NDArray[np.int64]:
    """Return counts (k, k + 1) of true outcome by reading, the last column null. Failures are in no cell."""
    table = np.zeros((len(scene.outcomes), len(scene.outcomes) + 1), np.int64)
    for one in judged:
        if one.failure is None:
            column = len(scene.outcomes) if one.reading is None else scene.outcomes.index(one.reading)
            table[scene.outcomes.index(one.truth), column] += 1
    return table


def figures(scene: Scene, judged: Sequence[Judged], seed: int) -> dict[str, Any]:
    """Return every figure that follows from truth and readings, over the clips that could be put before the judge."""
    q, table = scene.q(), confusion(scene, judged)
    true_counts, read_counts, nulls = table.sum(axis=1), table[:, :-1].sum(axis=0), int(table[:, -1].sum())
    answered, total = int(read_counts.sum()), int(table.sum())
    truth, seen = metrics.cell(true_counts, 0, q), metrics.cell(read_counts, nulls, q)

    def band(n: int) -> tuple[float, float]:
        if n == 0:
            return float("nan"), float("nan")
        return draw_null(n, q, generator(seed, scene.stream, "null band", n, 0)).band()

    reasons: dict[str, int] = {}
    for one in judged:
        if one.null:
            reasons[one.null] = reasons.get(one.null, 0) + 1
    return {
        "outcomes": list(scene.outcomes),
        "q": {label: str((scene.reference.q or {})[label]) for label in scene.outcomes},
        "truth": {"counts": true_counts},
        "judged": {"counts": read_counts, "nulls": reasons},
        "confusion": table,
        "confusion_columns": [*scene.outcomes, NULL],
        "accuracy": float(np.trace(table[:, :-1])) / answered if answered else float("nan"),
        "answered": answered,
        "abstained": nulls / total if total else float("nan"),
        "tvd_truth": truth.tvd,
        "tvd_judged": seen.tvd,
        "floor": truth.e0,
        "floor_judged": seen.e0,
        "band": band(truth.valid),
        "band_judged": band(seen.valid),
        "score_truth": truth.score,
        "score_judged": seen.score,
        "sampling": "iid",
    }


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return that the scene has no exact reference, where that is so; a file that cannot be read is told of elsewhere."""
    try:
        reference = raw_scene(scenes[0]).get("reference") if scenes else None
    except SceneError:
        return []
    stated = not isinstance(reference, dict) or reference.get("q") or any("reference" in word for word in overrides)
    return [] if stated else [_no_reference(scenes[0])]


def _no_reference(id: str) -> str:
    return f"controls needs an exact reference `q`, which {id} has not"


def run(request: Request) -> Answer:
    """Make the controls, have them read, compare. Status 3 where a clip could not be put before the judge.

    Raises `UserError`, `InfrastructureError`.
    """
    values, k, seed, seconds = request.values, request.values["k"], request.values["seed"], dict[str, float]()
    scene = run_by(load_scene(request.scenes[0], request.overrides), request.values["engine"])
    if scene.reference.q is None:
        raise UserError(_no_reference(scene.id))
    labels = draw_labels(scene.q(), k, generator(seed, scene.stream, "labels wanted", 0, 0))
    needed = np.bincount(labels, minlength=len(scene.outcomes))
    clock = _Clock(seconds)
    names = [f"{number:0{len(str(k - 1))}d}" for number in range(k)]
    if request.out:  # before anything takes time
        clips.check_folder(request.out, clips.files_of(names))
    with (
        pool_of(values, request.out) as pool,
        clips.folder_for(request.out) as out,
        tempfile.TemporaryDirectory(prefix="quincunx-") as hidden,
    ):
        with clock("rollouts"), request.progress(f"look for {k} rollouts", k) as advance:
            found = clips.search(scene, seed, needed, limit=values["limit"], pool=pool, advance=advance)
            chosen = fill(scene, labels, clips.require_all(scene, found, needed, values["limit"]))
        with clock("judge"):
            trained, described = _train(request, scene, pool) if values["judge"] == "trained" else (None, {})
        with clock("clips"), request.progress("draw clips", k) as advance:
            made = clips.render_clips(scene, seed, chosen, out, names=names, pool=pool, advance=advance)
            clips.write_png(out / SOURCE, clips.source_of(scene))
        truth = [scene.outcomes[label] for label in labels]
        with clock("readings"), request.progress("encode again, then read", 2 * k) as advance:
            try:
                copies = disguise([out / clip.file for clip in made], Path(hidden), clips.FPS, pool, advance)
            except ClipError as error:
                raise clips.InfrastructureError(f"a clip could not be encoded again: {error}") from error
            judge: Judge = trained if trained is not None else StateJudge.sealed(copies, truth)
            readings = read_all(judge, copies, pool, advance)
        judged = [_judged(clip.file, clip.index, true, said) for clip, true, said in zip(made, truth, readings, strict=True)]
        ends = chosen.end.pos
        clips.write_png(out / SHEET, sheet(scene, out, judged[:SHOWN], ends[:SHOWN]))
    failures = [{"file": one.file, "reason": one.failure} for one in judged if one.failure is not None]
    result = {
        "scene": scene.id,
        "digest": physics_digest(scene.device, scene.integrator),
        "k": k,
        "judge": {"name": values["judge"], **described},
        **figures(scene, judged, seed),
        "infrastructure_failures": len(failures),
        "failures": failures,
        "clips": judged,
        "sheet": SHEET,
        "source": SOURCE,
        "seconds": seconds,
    }
    if request.out is None:
        del result["sheet"], result["source"]  # they are gone with their folder
    return Answer(result, _tables(scene, result), INFRASTRUCTURE if failures else COMPLETED)


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


def _train(request: Request, scene: Scene, pool: Pool | None) -> tuple[Judge, dict[str, Any]]:
    from refcheck.judges.trained import TRAINING, TrainedJudge  # scikit-learn: only where it is needed

    values = request.values
    total = values["per_outcome"] * len(scene.outcomes)
    with request.progress("train the judge", total) as advance:
        judge = TrainedJudge.train(scene, values["seed"], values["per_outcome"], pool=pool, advance=advance)
    described = {
        "version": judge.version,
        "stream": scene.stream + TRAINING,
        "per_outcome": values["per_outcome"],
        "threshold": judge.threshold,
        **clips.plain(judge.training),
    }
    return judge, described


def _judged(file: str, index: int, truth: str, said: Reading | Failure) -> Judged:
    if isinstance(said, Failure):
        return Judged(file, index, truth, None, float("nan"), None, said.reason)
    return Judged(file, index, truth, said.outcome, said.confidence, said.null or None, None)


def sheet(scene: Scene, out: Path, judged: Sequence[Judged], ends: NDArray[np.float64]) -> Image:
    """Return the last picture of each clip, with a closer look at what moves (`ends` (n, B, 3) [m]), truth and reading."""
    loose, images, labels = list(scene.device.world().loose), [], []
    for one, end in zip(judged, ends, strict=True):
        *_, last = read_clip(out / one.file)
        images.append(clips.with_closer_look(last, scene.camera.project(end[loose])))
        said = "failed" if one.failure else one.reading or f"no answer ({one.null})"
        labels.append(f"truth {one.truth}, read {said}")
    return contact_sheet(images, 3, labels, 416)


def _tables(scene: Scene, result: dict[str, Any]) -> tuple[Any, ...]:
    shown = Table(title=f"{scene.id}: {result['k']} controls read by the judge {result['judge']['name']}", title_justify="left")
    shown.add_column("truth")
    for label in result["confusion_columns"]:
        shown.add_column(label if label == NULL else f"read {label}", justify="right")
    for label, row in zip(scene.outcomes, result["confusion"], strict=True):
        shown.add_row(label, *(str(count) if count else "." for count in row))
    low, high = result["band"]
    lines = [
        f"Right where it answered: {result['accuracy']:.3f} of {result['answered']}; abstained {result['abstained']:.1%}.",
        f"Distance from the reference: truth {result['tvd_truth']:.4f}, as judged {result['tvd_judged']:.4f} "
        f"(floor {result['floor']:.4f}, band of a perfect model {low:.4f} to {high:.4f}).",
        f"CaliBench score: truth {result['score_truth']:.4f}, as judged {result['score_judged']:.4f} (0 is a perfect model).",
    ]
    if unlearned := result["judge"].get("unlearned"):
        lines.append(f"Never learned, too rare: {', '.join(unlearned)}.")
    if result["infrastructure_failures"]:
        lines.append(f"{result['infrastructure_failures']} clips could not be put before the judge; they are in no figure.")
    return shown, "\n".join(lines)
