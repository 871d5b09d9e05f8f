"""How far a kernel and its engine are apart at the scene's own launches: outcomes, times to rest, and impacts on the way.

    python -m benchmarks.agreement keep=FOLDER [out=docs/agreement.md] [only=pawbench/A-01,...] [n=20000] [seconds=420]

The contact laws are matched as far as each device's docstring says; steps are the scene's own. n is by default what the
scene's aim needs (`refcheck.evidence.aim_of`). An engine's rollouts go to `keep` as they come, so that what was run stays, and
a run that was ended goes on. `seconds` ends a scene's run early.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.__main__ import publish, table
from refcheck.evidence import aim_of, described, paired_distance
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import NULL_REASONS, Integrator, State
from simulators.engines.loop import physics_digest, run

SCENES = (
    "pawbench/A-01",
    "pawbench/A-10",
    "pawbench/A-02",
    "pawbench/A21",
    "calibench/dice",
    "pawbench/A-03",
    "pawbench/A-05",
    "pawbench/A-06",
    "pawbench/A-07",
    "pawbench/A-08",
    "pawbench/A-09",
    "pawbench/A17",
    "pawbench/A22",
    "calibench/ball",
    "calibench/galton_board",
    "calibench/galton_board_real",
    "calibench/pendulum",
    "calibench/roulette",
    "pawbench/A16",
    "pawbench/A18",
    "pawbench/A-13",
    "pawbench/A19",
    "calibench/lottery",
)
PART = 250  # rollouts
RECORDED, FRAMES = 100, 600.0  # rollouts whose impacts are counted; frames a second, or the coarser one's steps
MORE, MOST_SECONDS = 8, 240.0  # rollouts of the kernel for one of the engine, and how long it may take: they narrow the bounds
JUMP = 0.1  # m/s: what counts as an impact
HEAD = """# Kernels beside engines

Written by `python -m benchmarks.agreement keep=FOLDER out=docs/agreement.md`: the same n launches in both, from index 0,
seed 0, and more by the kernel. The distance's bounds use both (see `refcheck.evidence.paired_distance`). Wanted is an upper
bound of .03, of .10 where a ball goes round a roulette, a top wanders or balls lie in a heap; times and impacts within 5 %."""
APART = """## Further apart than wanted, or not shown to be nearer

Shares of each outcome, by the kernel and by the engine. What is known of the cause is in the scene's note."""


def ends(scene: Scene, integrator: Integrator, n: int, keep: Path, seconds: float) -> NDArray[np.float64]:
    """Return outcome class and time to rest (n, 2) of rollouts 0 to n, or of as many whole parts as the time allows."""
    begun, parts = time.monotonic(), []
    for start in range(0, n, PART):
        file = keep / f"{physics_digest(scene.device, integrator)}-{start}.npy"
        if not file.exists():
            if time.monotonic() - begun > seconds:
                break
            rollouts = run(integrator, scene.device, 0, scene.stream, range(start, start + PART))
            outcome = scene.outcome(rollouts.fact)
            kind = np.where(outcome >= 0, outcome, len(scene.outcomes) - 1 + rollouts.null)
            np.save(file, np.column_stack([kind, rollouts.settle_time]))
        parts.append(np.load(file))
    return np.concatenate(parts)[:n]


def impacts(frames: State, loose: tuple[int, ...]) -> int:
    """Return how often a loose body's velocity jumps by more than `JUMP` from one frame to the next, gravity apart."""
    flight = frames[frames.time >= 0.0]
    jump = np.diff(flight.vel[:, list(loose)], axis=0)
    jump[:, :, 2] += 9.81 * np.diff(flight.time)[:, None]
    hard = np.sqrt(np.sum(jump**2, axis=-1)) > JUMP
    return int(np.sum(hard[1:] & ~hard[:-1]) + np.sum(hard[0]))


def mean_impacts(scene: Scene, integrator: Integrator, fps: float) -> float:
    """Return the mean number of impacts of `RECORDED` rollouts, seen at `fps` frames a second."""
    recorded = run(integrator, scene.device, 0, scene.stream, range(RECORDED), fps=fps).trajectories or ()
    return float(np.mean([impacts(frames, scene.device.world().loose) for frames in recorded]))


def row(scene: Scene, n: int, keep: Path, seconds: float) -> tuple[tuple[str, ...], str]:
    """Return a scene's row of the table, and a line of shares where the distance is not shown to be what is wanted.

    The row tells distance and bounds, then how the means of the kernel's times and impacts differ.
    """
    ours, theirs = scene.integrators[:2]
    b = ends(scene, theirs, n, keep, seconds)
    ends(scene, ours, len(b), keep, np.inf)
    a = ends(scene, ours, MORE * len(b), keep, MOST_SECONDS)
    kinds = a[:, 0].astype(np.int64), b[:, 0].astype(np.int64)
    a = a[: len(b)]
    classes, wanted = (*scene.outcomes, *NULL_REASONS[1:]), aim_of(ours.name).distance
    tvd, lower, upper = paired_distance(*kinds, len(classes), 0.01)
    alike = np.mean(a[:, 0] == b[:, 0])
    longer = "-" if np.all(np.isnan(b[:, 1])) else f"{np.nanmean(a[:, 1]) / np.nanmean(b[:, 1]) - 1.0:+.1%}"
    fps = min(FRAMES, *(one.steps_per_second or FRAMES for one in (ours, theirs)))
    hits = [] if scene.device.readout == "last" else [mean_impacts(scene, one, fps) for one in (ours, theirs)]
    often = f"{hits[0] / hits[1] - 1.0:+.1%}" if hits and hits[1] > 0.0 else "-"  # a wheel at its axle meets nothing
    told = (f"{tvd:.4f}", f"{lower:.4f} to {upper:.4f}", "yes" if upper <= wanted else "no", f"{alike:.1%}", longer, often)
    shares = [np.bincount(kind, minlength=len(classes)) / len(kind) for kind in kinds]
    seen = [f"{name} {a:.3f}, {b:.3f}" for name, a, b in zip(classes, *shares, strict=True) if a or b]
    line = "" if upper <= wanted else f"- {scene.id}: {'; '.join(seen)}."
    return (scene.id, described(ours), described(theirs), f"{len(b):,}", *told), line


def main(arguments: list[str]) -> int:
    """Run what is not kept yet, print the table, and write the page if `out=` names one."""
    given = dict(word.split("=", 1) for word in arguments)
    if "keep" not in given or set(given) - {"keep", "out", "only", "n", "seconds"}:
        print("there are keep= (needed), out=, only=, n=, seconds=", file=sys.stderr)
        return 2
    keep = Path(given["keep"])
    keep.mkdir(parents=True, exist_ok=True)
    seconds = float(given.get("seconds", "inf"))
    rows, lines = [], []
    for scene_id in given["only"].split(",") if "only" in given else SCENES:
        scene = load_scene(scene_id)
        n = int(given["n"]) if "n" in given else aim_of(scene.integrators[0].name).n
        told, line = row(scene, n, keep, seconds)
        rows.append(told)
        lines += [line] if line else []
        print("  ".join(told), file=sys.stderr, flush=True)
    header = ("scene", "kernel", "engine", "n", "TVD", "99 % each way", "wanted", "alike", "rests later by", "impacts more by")
    publish([HEAD, "", *table(header, rows), *(["", APART, "", *lines] if lines else [])], given)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
