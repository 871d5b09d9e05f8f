"""All speed figures in one run, each beside its peer: what a rollout costs, how that grows, and where the limit is.

    python -m benchmarks [out=docs/performance.md] [only=pawbench/A22,...] [repeats=5]

One core unless workers are the question. Ours and the peer take turns, so that a noisy machine is noisy for both; a ratio is
that of the medians.
"""

from __future__ import annotations

import cProfile
import importlib
import io
import os
import platform
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import Comparison
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.engines.loop import run
from simulators.execute import Pool, run_range
from simulators.sampling import BLOCK, launch_block

SECONDS = 1.0  # of a timed run of ours


def timed(work: Callable[[], object]) -> float:
    """Return how long `work` takes [s]."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def rate_of(scene: Scene, n: int) -> float:
    """Return rollouts a second on one core, of rollouts 0 to n."""
    return n / timed(lambda: run(scene.integrator, scene.device, 0, scene.stream, range(n)))


def enough(scene: Scene) -> int:
    """Return an n of whole blocks (or fewer rollouts, of a slow scene) that takes about a second; compiles on the way."""
    run(scene.integrator, scene.device, 0, scene.stream, [0])
    n = 16
    while n < 64 * BLOCK and (took := n / rate_of(scene, n)) < SECONDS / 2:
        n *= min(8, max(2, int(SECONDS / took)))
    return max(n // BLOCK, 1) * BLOCK if n > BLOCK else n


def comparisons() -> list[Comparison]:
    """Return what the `speed_*` files compare, by scene."""
    files = sorted(Path(__file__).parent.glob("speed_*.py"))
    found = [one for file in files for one in importlib.import_module(f"benchmarks.{file.stem}").COMPARISONS]
    return sorted(found, key=lambda one: one.scene)


def measure(one: Comparison, repeats: int) -> tuple[float, float]:
    """Return rollouts a second of ours and of the peer, medians of runs taken in turn."""
    scene = load_scene(one.scene)
    n = enough(scene)
    one.run_peer(2, one.rate)
    ours, peers = [], []
    for _ in range(repeats):
        ours.append(rate_of(scene, n))
        peers.append(one.peer_rollouts / timed(lambda: one.run_peer(one.peer_rollouts, one.rate)))
    return statistics.median(ours), statistics.median(peers)


def publish(lines: Sequence[str], given: Mapping[str, str]) -> None:
    """Print a page, and write it where `out=` says."""
    page = "\n".join(lines) + "\n"
    print(page)
    if "out" in given:
        Path(given["out"]).write_text(page, "utf-8")


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a Markdown table, its columns aligned."""
    cells = [header, *rows]
    width = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)) + " |" for row in cells]
    return [lines[0], "|" + "|".join("-" * (w + 2) for w in width) + "|", *lines[1:]]


def against_peers(only: tuple[str, ...], repeats: int) -> list[str]:
    """Return the section of ratios."""
    rows = []
    for one in comparisons():
        if only and one.scene not in only:
            continue
        ours, peer = measure(one, repeats)
        told = f"{ours / peer:,.0f}" if ours > 10 * peer else f"{ours / peer:.1f}"
        scene = load_scene(one.scene)
        rows.append((one.scene, scene.integrator.name, f"{ours:,.0f}", f"{peer:,.1f}", told, f"{one.target:g}", one.peer))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    header = ("scene", "ours", "ours/s", "peer/s", "ratio", "wanted", "peer")
    told = [
        "One core each, in turn, medians. A plain loop runs at the coarsest step whose half changes neither its outcomes nor",
        "how long it runs, where there is one: see [peer_steps.md](peer_steps.md).",
    ]
    return ["## Against the shortest plain loop", "", *told, "", *table(header, rows)]


def growth(id: str, what: str, changes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a table of rates of the device of `id` over changes of its fields, by the name that a row gives them."""
    scene, rows = load_scene(id), []
    for name, change in changes.items():
        changed = replace(scene, device=replace(scene.device, **change))  # type: ignore[type-var]
        n = enough(changed)
        rate = statistics.median(rate_of(changed, n) for _ in range(3))
        rows.append((name, f"{rate:,.0f}", f"{1e6 / rate:,.1f}"))
    return [f"### Over {what}: {id}", "", *table((what, "rollouts/s", "microseconds each"), rows), ""]


def through(scene: Scene, n: int, pool: Pool | None = None) -> float:
    """Return how long [s] rollouts 0 to n take, each slice being dropped when it has come."""
    return timed(lambda: sum(len(part) for part in run_range(scene.integrator, scene.device, 0, scene.stream, 0, n, pool)))


def over_n(id: str) -> list[str]:
    """Return a table of rates and of peak memory over n, rollouts being run and dropped slice by slice."""
    scene, rows = load_scene(id), []
    for n in (10**3, 10**4, 10**5, 10**6):
        took = through(scene, n)
        peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
        rows.append((f"{n:,}", f"{n / took:,.0f}", f"{peak:,.0f}"))
    header = ("n", "rollouts/s", "peak memory of the process so far [MiB]")
    return [f"### Over n: {id}", "", *table(header, rows), ""]


def over_workers(ids: Iterable[str]) -> list[str]:
    """Return a table of rates over workers, threads for kernels and processes for engines."""
    cores, rows = len(os.sched_getaffinity(0)), []
    for id in ids:
        scene = load_scene(id)
        n = max(4 * enough(scene), 256)
        for workers in sorted({1, 2, cores}):
            with Pool("auto", workers) as pool:
                began = through(scene, 64, pool)  # workers start, and load what is compiled
                took = through(scene, n, pool)
                rows.append((id, pool.kind(scene.integrator), str(workers), f"{n / took:,.0f}", f"{began:.1f}"))
    header = ("scene", "executor", "workers", "rollouts/s", "start [s]")
    return ["### Over workers", "", *table(header, rows), ""]


def limits(ids: Iterable[str]) -> list[str]:
    """Return what cannot be beaten: the launches' random numbers and the bytes of a row, beside the rate."""
    rows = []
    block = np.zeros(64 * 1024 * 1024 // 8)
    copied = block.nbytes * 2 / statistics.median(timed(block.copy) for _ in range(5))
    for id in ids:
        scene = load_scene(id)
        draws = statistics.median(
            timed(lambda scene=scene, b=b: launch_block(scene.device.random, 0, scene.stream, b)) for b in range(20)
        )
        world = scene.device.world()
        bytes_a_row = 8 * (13 * len(world.moving) + 2) + 2 * 4
        rate = rate_of(scene, enough(scene))
        rows.append((id, f"{rate:,.0f}", f"{BLOCK / draws:,.0f}", f"{copied / bytes_a_row:,.0f}"))
    header = ("scene", "ours/s", "launches drawn/s, and nothing else", "rows written/s at memory speed")
    told = f"Memory copies {copied / 2**30:.1f} GiB/s here, read and written."
    return ["### The limit", "", told, "", *table(header, rows), ""]


def profile(id: str) -> list[str]:
    """Return where the time of a kernel's run goes, by function (its compiled loop is one of them)."""
    scene = load_scene(id)
    n = enough(scene)
    profiler = cProfile.Profile()
    profiler.runcall(run, scene.integrator, scene.device, 0, scene.stream, range(n))
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(8)
    lines = [line for line in text.getvalue().splitlines() if line.strip()]
    start = next(i for i, line in enumerate(lines) if line.lstrip().startswith("ncalls"))
    return [f"### Where it goes: {id}, {n:,} rollouts", "", "```", *lines[start:], "```", ""]


def main(arguments: list[str]) -> int:
    """Measure, print, and write the page if `out=` names one."""
    given = dict(word.split("=", 1) for word in arguments)
    if unknown := set(given) - {"out", "only", "repeats"}:
        print(f"unknown: {', '.join(sorted(unknown))}; there are out=, only=, repeats=", file=sys.stderr)
        return 2
    only = tuple(given["only"].split(",")) if "only" in given else ()
    lines = [
        "# Performance",
        "",
        "Written by `python -m benchmarks out=docs/performance.md`; nothing here is typed. Ratios travel; rates are",
        f"this machine's: {platform.machine()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}.",
        "",
        *against_peers(only, int(given.get("repeats", "5"))),
        "",
    ]
    if not only:
        typical = ("pawbench/A22", "pawbench/A-01", "calibench/dice", "pawbench/A-03")
        lines += ["## How cost grows", "", *over_n("pawbench/A22")]
        lines += growth("calibench/galton_board", "rows", {str(k): {"rows": k} for k in (2, 4, 8, 16, 32)})
        balls = load_scene("calibench/lottery").device.filling  # type: ignore[attr-defined]
        lines += growth("calibench/lottery", "balls", {str(k): {"filling": balls[:k]} for k in (5, 10, 15, 20)})
        lines += over_workers(typical[:3]) + limits(typical) + profile("pawbench/A22") + profile("pawbench/A-03")
    publish(lines, given)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
