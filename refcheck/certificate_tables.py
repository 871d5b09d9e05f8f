"""Certificates as people read them: a table on the terminal, and the page of references that `docs/` keeps.

It refuses to compute anything: every figure comes from a certificate, every sentence from a scene's file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from refcheck import depth_tables
from refcheck.evidence import NOT_YET, aim_of, evidence_of
from refcheck.inference import PValue
from scenes.scene import Scene

if TYPE_CHECKING:
    from refcheck.verify import Certificate

STYLES = {"holds": "green", "fails": "red", "undecided": "yellow", "consistent (assumption)": "cyan"}


def certificates(some: Sequence[Certificate]) -> Table:
    """Return one row a certificate; a distance never stands without its interval."""
    shown = Table(title="Does the scene's physics give its reference?", title_justify="left", box=box.SIMPLE)
    shown.add_column("scene", no_wrap=True)
    shown.add_column("verdict")
    for name in ("TVD", "interval", "epsilon", "n", "nulls", "p (fixed n)", "runs/s"):
        shown.add_column(name, justify="right", no_wrap=name == "interval")
    shown.add_column("basis")
    for one in some:
        verdict = _verdict(one)
        shown.add_row(
            one.scene,
            Text(verdict, style=STYLES[one.verdict]),
            f"{one.tvd:.4f}",
            f"{one.lower:.4f}-{one.upper:.4f}",
            f"{one.epsilon:g}",
            str(one.n),
            f"{one.null_rate.value:.2%}",
            _p(one.p_value),
            "shared" if math.isnan(one.rollouts_per_second) else f"{one.rollouts_per_second:.0f}",
            one.basis,
        )
    return shown


def _verdict(one: Certificate) -> str:
    return one.verdict if one.reason == "distance" and one.verdict != "undecided" else f"{one.verdict} ({one.reason})"


def _p(p: PValue) -> str:
    """Return a p-value as it may be printed: one that no null draw reached is known from above only."""
    return f"< {p.value:.1g}" if p.method == "monte_carlo" and p.reached == 0 else f"{p.value:.2g}"


def closing(certificates: Sequence[Certificate], scenes: Sequence[Scene]) -> list[str]:
    """Return what stands below a table: what its intervals mean, what was not gathered, which scenes share launches."""
    alphas = sorted({one.alpha for one in certificates})
    notes = [f"Intervals hold at every look at once, each end with error {', '.join(f'{a:g}' for a in alphas)}."]
    lacking = {name for one in certificates for name, check in evidence_of(one).items() if check.said == NOT_YET}
    if lacking:
        notes.append(f"Not gathered: {', '.join(n.replace('_', ' ') for n in sorted(lacking))}; evidence=2000 does it.")
    shown = {one.scene for one in certificates}
    notes += [
        f"{scene.id} runs on the launches of {scene.variant.base}: the two are no independent evidence."
        for scene in scenes
        if scene.variant is not None and scene.variant.base in shown
    ]
    return notes


def markdown(some: Sequence[Certificate], scenes: Sequence[Scene]) -> str:
    """Return the page of references: one table, then a section a scene with every figure and what it rests on."""
    lines = [
        "# The references, simulated",
        "",
        "Written by `quincunx verify`; nothing here is typed. For each scene: does its own physics, as its file declares it, "
        "give the reference distribution `q`? TVD is the total variation distance of the outcomes from `q`; its interval holds "
        f"at whatever moment the run stopped, each end with error {some[0].alpha:g}. A null ends in no outcome.",
        "",
        "| scene | verdict | TVD | interval | epsilon | n | nulls | basis | standing of q |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one, scene in zip(some, scenes, strict=True):
        anchor = one.scene.replace("/", "").lower()
        lines.append(
            f"| [{one.scene}](#{anchor}) | {_verdict(one)} | {one.tvd:.4f} | {one.lower:.4f} to {one.upper:.4f} | "
            f"{one.epsilon:g} | {one.n:,} | {one.null_rate.value:.2%} | {one.basis} | {scene.reference.standing} |"
        )
    for note in closing(some, scenes):
        lines += ["", note]
    lines += agreement(some, scenes)
    for one, scene in zip(some, scenes, strict=True):
        lines += ["", f"## {one.scene}", "", *_section(one, scene)]
    return "\n".join(lines) + "\n"


def agreement(some: Sequence[Certificate], scenes: Sequence[Scene]) -> list[str]:
    """Return the table of second integrators: how alike single launches end, and how far the distributions can be apart."""
    rows = []
    for one, scene in zip(some, scenes, strict=True):
        check = one.evidence.second_integrator
        if check.upper is None or check.lower is None or check.alike is None:
            continue
        aim = aim_of(one.engine.name).distance
        met = "yes" if check.upper <= aim else "no" if check.lower > aim else "open at this n"
        names = f"{one.engine.name}, {scene.integrators[1].name}"
        rows.append(
            f"| {one.scene} | {names} | {check.n:,} | {check.alike:.2%} | {check.tvd:.4f} | "
            f"{check.lower:.4f} to {check.upper:.4f} | {aim:.2f} | {met} |"
        )
    if not rows:
        return []
    return [
        "",
        "## Two integrators",
        "",
        "The same launches run by two integrators: how many end alike (nearly all where motion is not chaotic), how far apart "
        f"the two distributions of outcomes and nulls are. Each end of an interval has error {some[0].alpha:g}; no distance is "
        "larger than the share of launches that end differently. Within: whether the upper end is within the aim.",
        "",
        "| scene | integrators | n | alike | TVD | interval | aim | within |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _section(one: Certificate, scene: Scene) -> list[str]:
    reference = scene.reference
    tally = one.tally
    lines = [
        f"**{scene.title}: {_verdict(one)}.** TVD {one.tvd:.4f} ({one.lower:.4f} to {one.upper:.4f}), {one.n:,} rollouts by "
        f"{one.engine.name} ({_rate(one)}), seed {one.seed}, digest `{one.digest}`; basis {one.basis.replace('_', ' ')}.",
        "",
        "| outcome | q | simulated | count |",
        "|---|---|---|---|",
    ]
    for label, count in zip(tally.outcomes, tally.counts, strict=True):
        share = f"{count / tally.valid:.4f}" if tally.valid else "-"
        lines.append(f"| {label} | {one.q[label]} | {share} | {count:,} |")
    nulls = ", ".join(f"{reason} {count:,}" for reason, count in tally.nulls.items() if count)
    lines += [
        "",
        f"Nulls: {nulls or 'none'}. Settling takes {_seconds(one.settle_time.median)} (median), 95 % within "
        f"{_seconds(one.settle_time.p95)}.",
        "",
    ]
    told = [("q", f"{reference.derivation} ({reference.standing}; {reference.source})"), ("Weak point", scene.weak_point)]
    told += [(name.replace("_", " ").capitalize(), check.said) for name, check in evidence_of(one).items()]
    told += [("Time", depth_tables.by_time(one.readable)), ("Beyond", " ".join(depth_tables.lines(one)))]
    if scene.variant is not None:
        told.append(("Pair", f"{scene.variant.kind.replace('_', '-')} variant of {scene.variant.base}: {scene.variant.change}"))
    told.append(("Found", scene.note))
    lines += [f"- **{name}.** {_sentence(said)}" for name, said in told if said]
    return lines


def _sentence(text: str) -> str:
    flat = " ".join(text.split())
    return flat if flat.endswith((".", "!", "?")) else flat + "."


def _rate(one: Certificate) -> str:
    rate = one.engine.steps_per_second
    return "event to event" if rate is None else f"{rate:,} steps/s"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value == value else "no rest"
