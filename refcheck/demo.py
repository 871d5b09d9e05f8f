"""The whole story in one run: certify three scenes and draw them, test a judge on known clips, score models, write the page.

It computes everything anew, by the verbs that a user has, and stops at the first that does not succeed.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refcheck import app, options
from refcheck.command import COMPLETED, USER_MISTAKE, Option, UserError

SUMMARY = "certificates, pictures, controls, scores and the page, all computed now"
OPTIONS = (
    Option("seed", "int", 0, "seed of launches and draws", low=0, high=2**64 - 1),
    Option("workers", "int", None, "processes, by default one a core", low=1, high=1024),
    Option("k", "int", 50, "clips that the judge reads", low=1, high=1000),
)
SCENES = "scenes=calibench/dice,pawbench/A-01,calibench/galton_board"
NOT_OURS = ("  json=", "  overwrite=")
WITH_WORKERS = ("verify", "render", "controls")
FOLDER = Path("out/demo")
OUTCOMES = Path(__file__).parent / "data" / "calibench_outcomes.csv"


@dataclass(frozen=True)
class Step:
    """One verb of the demo: what it does in words, its folder, and its `key=value` words."""

    title: str
    verb: str
    folder: str
    words: tuple[str, ...]


def steps(seed: int = 0, k: int = 50) -> tuple[Step, ...]:
    """Return what the demo does, in order.

    A scene is tested at its own epsilon, but for coin and die, which a minute of two cores decides at a coarser one: twice
    as fine takes four times as long.
    """
    limit, coarse, seeded, die = "seconds=60", "epsilon=0.05", f"seed={seed}", "scene=calibench/dice"
    return (
        Step("Certify the die", "verify", "verify-dice", (die, coarse, limit, seeded)),
        Step("Certify the coin", "verify", "verify-coin", ("scene=pawbench/A-01", coarse, limit, seeded)),
        Step("Certify the Galton board", "verify", "verify-board", ("scene=calibench/galton_board", limit, seeded)),
        Step("Draw the three scenes, a clip of each outcome", "render", "render", (SCENES, "sheet=true", seeded)),
        Step("Judge clips of known outcome", "controls", "controls", (die, f"k={k}", "judge=trained", seeded)),
        Step("Score three published models", "score", "score", (f"data={OUTCOMES}", seeded)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status: that of the first verb that did not complete, else 0."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    module: Any = sys.modules[__name__]
    if {"--help", "-h"} & set(words):
        lines = options.describe("demo", module).replace("quincunx demo", "python -m refcheck.demo").splitlines()
        print("\n".join(line for line in lines if not line.startswith(NOT_OURS)))
        return COMPLETED
    try:
        asked = options.parse(module, words)
        if asked.json or asked.overwrite:
            raise UserError("json= and overwrite= are keys of the verbs, not of the demo, which always runs them all anew")
    except UserError as error:
        print("\n".join(f"demo: {problem}" for problem in error.problems), file=sys.stderr)
        return USER_MISTAKE
    if arguments is None:
        app._own_standard_output()
    out, values, begun = asked.out or FOLDER, asked.values, time.monotonic()
    plan = steps(values["seed"], values["k"])
    for old in (out / "report.html", *(out / step.folder / "result.json" for step in plan)):
        old.unlink(missing_ok=True)  # a page must not show what an earlier run computed
    workers = () if values["workers"] is None else (f"workers={values['workers']}",)
    for number, step in enumerate(plan, 1):
        _say(f"\n[{number}/{len(plan) + 1}] {step.title}: quincunx {step.verb} {' '.join(step.words)}")
        own = workers if step.verb in WITH_WORKERS else ()
        status = _run([step.verb, *step.words, *own, f"out={out / step.folder}", "overwrite=true"], begun)
        if status != COMPLETED:
            return status
    _say(f"\n[{len(plan) + 1}/{len(plan) + 1}] Write the page: quincunx report data={out}")
    status = _run(["report", f"data={out}"], begun)
    if status == COMPLETED:
        _say("\n" + "\n".join(summary(out)))
        _say(f"\nThe page: {(out / 'report.html').resolve()}  ({time.monotonic() - begun:.0f} s in all, on {_cores()} cores)")
        _say(following(Path(sys.executable).parent, Path.cwd()))
    return status


def following(programs: Path, here: Path) -> str:
    """Return how to use the command line next, its programs being in `programs`, from the folder `here`."""
    near = programs.relative_to(here) if programs.is_relative_to(here) else programs
    if (programs / "activate").is_file():
        first, command = f"`. {shlex.quote(str(near / 'activate'))}`, then ", "quincunx"
    else:
        first, command = "", shlex.quote(str(near / "quincunx"))
    return f"Next, the command line: {first}`{command} list` for the scenes, `{command} --help` for the verbs."


def _run(words: list[str], begun: float) -> int:
    started = time.monotonic()
    status = app.main(words)
    now = time.monotonic()
    told = "done" if status == COMPLETED else f"did not complete (exit status {status}); the demo stops here"
    _say(f"    {told} in {now - started:.1f} s; {now - begun:.0f} s since the start")
    return status


def summary(out: Path) -> list[str]:
    """Return what was found, a line each, as the results under `out` have it."""
    lines = []
    for step in steps():
        result = json.loads((out / step.folder / "result.json").read_text("utf-8"))
        for one in result.get("certificates", ()):
            lines.append(
                f"{one['scene']}: {one['verdict']} (TVD between {one['lower']:.4f} and {one['upper']:.4f}, "
                f"epsilon {one['epsilon']:g}, {one['n']} rollouts)"
            )
        if step.verb == "controls":
            lines.append(
                f"the judge answered {sum(result['judged']['counts'])} of {result['k']} clips; right in "
                f"{_percent(result['accuracy'])} of its answers"
            )
        for name, model in sorted(result.get("models", {}).items(), key=lambda item: item[1]["mntv"]["value"]):
            mntv = model["mntv"]
            lines.append(
                f"{name}: mnTV {mntv['value']:.4f} (95 % {mntv['ci95'][0]:.3f} to {mntv['ci95'][1]:.3f}; "
                f"{mntv['if_q']:.3f} if it were q)"
            )
    return lines


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
