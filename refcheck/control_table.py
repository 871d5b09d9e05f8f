"""`quincunx controls suite=table`: every scene's judge on clips in looks that it never learned from, one row a scene.

It goes on where it stopped: a scene whose settings, physics and judge are those of its file is not judged again.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from refcheck import clips, control_report, control_run
from refcheck.blind import Control
from refcheck.command import COMPLETED, INFRASTRUCTURE, Answer, Request, UserError
from refcheck.control_clips import Recipe, Wish, make
from refcheck.control_judges import judge_for
from refcheck.control_sets import draw_labels, fill
from refcheck.damage import KINDS, find_nulls
from refcheck.filming import FPS, Film
from refcheck.output import atomic, plain, to_json
from refcheck.running import pool_of, run_by
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import NULL_REASONS
from simulators.engines.loop import physics_digest
from simulators.engines.loop import run as run_rollouts
from simulators.execute import Pool
from simulators.render.blur import STILL
from simulators.sampling import generator

VERSION = 2  # of what a row is made of
LOOKS = (("phone", 0), ("phone", 1), ("flat", 0), ("toy", 0))
"""Ways of filming, with the number of the variation: the trained judge learns none of them, but the studio and its own."""
NAMES = ", ".join(dict.fromkeys(look for look, _ in LOOKS))
DRAWN = 3  # frames of a clip that are drawn: its opening, one on the way, and its held end; the judge reads first and last
LONGEST = 64  # frames of a clip at full rate, which is lower where what it shows takes longer
HEAP, FEW = 8, 400
"""Of more loose bodies than this a rollout takes a tenth of a second and more, and so few are looked through."""
EACH = 2  # clips for each way of damage
UNREADABLE = tuple(kind.name for kind in KINDS.values() if kind.family == "unreadable")
MARKDOWN = "judges.md"
COLUMNS = ("scene", "judge", "right of answers", "at least", "worst outcome", "no answer", "answers to hidden", "tilt seen",
           "TVD of q", "usable", "s a clip")  # fmt: skip


def run(request: Request) -> Answer:
    """Judge every scene asked for. Raises `UserError` without `out=`; status 3 where a scene could not be judged."""
    if request.out is None:
        raise UserError("out= is missing: suite=table keeps every scene's file there, and goes on where it stopped")
    if request.values["judge"] == "vlm":
        raise UserError("suite=table draws what the trained judge reads, an opening and an end: give judge=trained or state")
    rows = list[dict[str, Any]]()
    with ExitStack() as stack:
        pool = stack.enter_context(pool_of(request.values, request.out))
        advance = stack.enter_context(request.progress("scenes", len(request.scenes)))
        for id in request.scenes:
            scene = run_by(load_scene(id), request.values["engine"])
            rows.append(_kept_or_judged(request, scene, request.out, pool))
            _write(request.out, request, rows)  # after every scene: what there is can be read while the rest is judged
            advance(1)
    failed = [row["scene"] for row in rows if row["failures"]]
    result = {"schema": "quincunx.judges/v1", "suite": "table", "rows": rows}
    told = (_shown(rows), f"{request.out / MARKDOWN} holds the table.")
    return Answer(result, told, INFRASTRUCTURE if failed else COMPLETED)


def judge_source(kind: str) -> str:
    """Return the digest of the judge's own code: what another version of it said is no reading of this one."""
    if kind != "trained":
        return ""
    from refcheck.judges import trained

    files = sorted(Path(trained.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def settings_of(scene: Scene, values: Mapping[str, Any]) -> str:
    """Return the digest of all that a row depends on."""
    whole = {
        "version": VERSION,
        "judge": [values["judge"], judge_source(values["judge"]), values["per_outcome"]],
        "physics": physics_digest(scene.device, scene.integrator),
        "picture": repr((scene.camera, scene.light, scene.renderer)),
        "outcomes": scene.outcomes,
        "set": [values["k"], values["seed"], values["limit"], values["nulls"], LOOKS, DRAWN, LONGEST, EACH, UNREADABLE],
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _kept_or_judged(request: Request, scene: Scene, out: Path, pool: Pool | None) -> dict[str, Any]:
    path, settings = out / f"{scene.id.replace('/', '-')}.json", settings_of(scene, request.values)
    try:
        row = json.loads(path.read_text("utf-8"))
        if row["settings"] == settings and not row["failures"]:
            return dict(row)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        pass  # nothing to go on from: it is judged
    row = plain({"scene": scene.id, "settings": settings, **judge_scene(request, scene, pool)})
    with atomic(path) as temporary:
        temporary.write_text(to_json(row), "utf-8")
    return dict(row)


def judge_scene(request: Request, scene: Scene, pool: Pool | None) -> dict[str, Any]:
    """Return one row: the judge made ready, put before balanced clips in other looks and before damaged ones."""
    values, begun = request.values, time.monotonic()
    row: dict[str, Any] = {"judge": values["judge"], "outcomes": scene.outcomes, "failures": [], "refused": None}
    with ExitStack() as stack:
        hidden = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quincunx-")))
        try:
            asked = judge_for(values, scene, stack, None, pool, request.progress)
        except UserError as error:
            return row | {"refused": str(error), "seconds": time.monotonic() - begun}
        trained = time.monotonic()
        wishes, never = _wishes(scene, values, pool)
        controls, not_made = _drawn(scene, values["seed"], wishes, hidden, pool, request)
        made = time.monotonic()
        opened = control_run.through_the_door(
            scene, controls, asked.of, hidden / "door", 1, pool, request.progress, recode=False
        )
    q = None if scene.reference.q is None else scene.q()
    table = control_report.confusion(scene.outcomes, opened)
    looks = {
        f"{look} {variation}": np.sum(control_report.confusion(scene.outcomes, [o for o in opened if o.sealed.batch == number])
                     * np.eye(len(scene.outcomes), len(scene.outcomes) + 1, dtype=np.int64))
        for number, (look, variation) in enumerate(LOOKS)
    }  # fmt: skip
    return row | {
        "described": asked.described,
        "never": never,
        "not_made": not_made,
        "confusion": table,
        "right_by_look": looks,
        "failures": [f"r{one.sealed.repeat:03d}: {one.failure}" for one in opened if one.failure is not None],
        "report": control_report.report(scene.outcomes, q, opened, values["seed"], scene.stream),
        "seconds": {"train": trained - begun, "draw": made - trained, "read": time.monotonic() - made},
    }


def _wishes(scene: Scene, values: Mapping[str, Any], pool: Pool | None) -> tuple[list[Wish], list[str]]:
    """Return every clip wanted, and the outcomes of which no rollout came: those are in no figure."""
    seed, count = values["seed"], len(scene.outcomes)
    heap = len(scene.device.world().loose) > HEAP
    limit, nulls = (min(values[name], FEW) if heap else values[name] for name in ("limit", "nulls"))
    each, spoiled = -(-values["k"] // count), EACH * len(UNREADABLE)
    found = clips.search(scene, seed, [each + spoiled] * count, limit=limit, pool=pool)
    have = np.bincount(scene.outcome(found.fact), minlength=count)
    if not have.all():  # their clips go to the outcomes that do come
        each = -(-values["k"] // max(1, int(np.sum(have > 0))))
        found = clips.search(scene, seed, np.where(have > 0, each + spoiled, 0), limit=limit, pool=pool)
        have = np.bincount(scene.outcome(found.fact), minlength=count)
    clean = np.minimum(each, have)
    labels = generator(seed, scene.stream, "labels wanted", 1, 0).permutation(np.repeat(np.arange(count), clean))
    left = (have - clean).astype(float)
    if left.any():  # of the rollouts that are left, as often as they are there
        draws = generator(seed, scene.stream, "labels damaged", 1, 0)
        more = draw_labels(left, 20 * spoiled, draws)
        order = [k for i, k in enumerate(more.tolist()) if np.sum(more[:i] == k) < left[k]][:spoiled]
    else:
        order = []
    chosen = fill(scene, np.concatenate([labels, np.array(order, np.int64)]), found)
    ends = list(zip(chosen.index.tolist(), chosen.fact.tolist(), chosen.null.tolist(), strict=True))
    wishes = [
        Wish(index, (fact, null), scene.outcomes[label], batch=number % len(LOOKS))
        for number, ((index, fact, null), label) in enumerate(zip(ends, labels, strict=False))
    ]
    for number, (index, fact, null) in enumerate(ends[len(labels) :]):
        wishes.append(Wish(index, (fact, null), None, UNREADABLE[number % len(UNREADABLE)], number % len(LOOKS)))
    ended = find_nulls(scene, seed, EACH, nulls, pool)
    for number, (index, fact, null) in enumerate(zip(ended.index, ended.fact, ended.null, strict=True)):
        wishes.append(Wish(int(index), (int(fact), int(null)), None, NULL_REASONS[null], number % len(LOOKS)))
    return wishes, [label for label, n in zip(scene.outcomes, have, strict=True) if n == 0]


def _drawn(
    scene: Scene, seed: int, wishes: Sequence[Wish], hidden: Path, pool: Pool | None, request: Request
) -> tuple[list[Control], dict[str, str]]:
    """Draw every clip as its batch is filmed, as sparsely as still is whole for what the judge reads; say what was not made."""
    controls, not_made = list[Control](), dict[str, str]()
    one = run_rollouts(scene.integrator, scene.device, seed, scene.stream, [wishes[0].index], fps=FPS)
    whole = len((one.trajectories or ((),))[0])
    rows = min(whole, LONGEST)
    fps = FPS * rows / whole
    with request.progress(f"draw clips of {scene.id}", len(wishes)) as advance:
        for number, (look, variation) in enumerate(LOOKS):
            film = Film(look=look, shutter=STILL, variation=variation, frames=rows, fps=fps)
            mine = [wish for wish in wishes if wish.batch == number]
            made, refused = make(
                scene, seed, mine, hidden / str(number), Recipe(film, sparse=max(1, rows // DRAWN)), pool, advance
            )
            controls += made
            not_made |= refused
    return controls, not_made


def _write(out: Path, request: Request, rows: Sequence[Mapping[str, Any]]) -> None:
    with atomic(out / MARKDOWN) as path:
        path.write_text(markdown(rows, request.values), "utf-8")


def markdown(rows: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
    """Return the page: what was done, a row a scene, and every reason against a judge."""
    usable = sum(bool(row.get("report") and row["report"]["usable"]) for row in rows)
    lines = [
        "# The judge, by scene",
        "",
        f"Written by `quincunx controls suite=table k={values['k']} seed={values['seed']} judge={values['judge']}`; nothing "
        "here is typed. Every clip is a rollout of known outcome, in equal numbers by outcome, replayed on launches and in "
        f"looks ({NAMES}) that the judge did not learn from, and read from behind the blind door. "
        "Of a clip "
        f"about {DRAWN} frames are drawn, among them the opening and the held end, which is what this judge reads. "
        f"Digest of the judge's code: {judge_source(values['judge'])[:12] or 'none'}.",
        "",
        f"Usable: right in {control_report.RIGHT:.0%} of its answers, the lower 95 % bound of that at least "
        f"{control_report.SURE}, no answer to at most {control_report.ABSTAINED:.0%} of clean clips, and an answer to at most "
        f"{control_report.ANSWERED:.0%} of clips that show no outcome ({', '.join(UNREADABLE)}, and rollouts that ended in "
        f"nothing). **{usable} of {len(rows)} scenes.**",
        "",
        "Tilt: the smallest distance from q that a score of 50 clips shows through this judge in 80 % of cases, at level .05; "
        "in brackets with a perfect judge. TVD of q: what a perfect model is reported with, in brackets by a perfect judge.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(_line(row) for row in rows),
        "",
        "## What stands against it",
        "",
    ]
    for row in rows:
        reasons = [row["refused"]] if row["refused"] else list(row["report"]["against"])
        if row.get("never"):
            reasons.append(f"never seen, since no rollout ended so: {', '.join(row['never'])}")
        if row.get("described", {}).get("unlearned"):
            reasons.append(f"never learned, too rare: {', '.join(row['described']['unlearned'])}")
        if row["failures"]:
            reasons.append(f"{len(row['failures'])} clips could not be read")
        if row.get("report"):
            reasons += [f"{kind} not made: {why}" for kind, why in row["not_made"].items()]
            kinds = row["report"]["by_kind"].items()
            answered = [f"{kind} {told['answered']} of {told['clips']}" for kind, told in kinds if told["answered"]]
            reasons += [f"answered: {', '.join(answered)}"] if answered else []
            reasons += [_mistaken(row)] if _mistaken(row) else []
        if reasons:
            lines.append(f"- {row['scene']}: {'; '.join(reasons)}.")
    return "\n".join(lines) + "\n"


def _mistaken(row: Mapping[str, Any]) -> str:
    """Return which outcomes were read as which."""
    outcomes = row["outcomes"]
    wrong = [
        f"{outcomes[i]} as {outcomes[j]} ({n})"
        for i, counts in enumerate(row["confusion"])
        for j, n in enumerate(counts[:-1])
        if n and i != j
    ]
    return f"read wrongly: {', '.join(wrong)}" if wrong else ""


def _line(row: Mapping[str, Any]) -> str:
    if row["refused"]:
        return f"| {row['scene']} | {row['judge']} | - | - | - | - | - | - | - | no | - |"
    told, table = row["report"], np.array(row["confusion"])
    answered, total = int(table[:, :-1].sum()), int(table.sum())
    worst = min((one for one in told["by_outcome"] if one["lower"] is not None), key=lambda one: one["lower"], default=None)
    worst_told = "-" if worst is None else f"{worst['outcome']}: {worst['right']} of {worst['answered']}, {worst['lower']:.2f}"
    stack = told["stack"]
    tilt = "-" if stack is None else f"{_figure(stack['tilt'])} ({_figure(stack['tilt_perfect'])})"
    tvd = "-" if stack is None else f"{_figure(stack['tvd'])} ({_figure(stack['floor'])})"
    cells = [
        row["scene"], row["judge"], f"{told['right']} of {answered}", _figure(told["lower"]), worst_told,
        f"{total - answered} of {total}", f"{told['hidden']['answered']} of {told['hidden']['clips']}", tilt, tvd,
        "yes" if told["usable"] else "no", "-" if told["latency"] is None else f"{told['latency']:.2f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _shown(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table(title="The judge by scene", title_justify="left")
    for column in ("scene", "right", "no answer", "to hidden", "usable"):
        shown.add_column(column, justify="left" if column == "scene" else "right")
    for row in rows:
        if row["refused"]:
            shown.add_row(row["scene"], "-", "-", "-", "no")
            continue
        table, told = np.array(row["confusion"]), row["report"]
        answered, total = int(table[:, :-1].sum()), int(table.sum())
        hidden = f"{told['hidden']['answered']} of {told['hidden']['clips']}"
        usable = "yes" if told["usable"] else "no"
        shown.add_row(row["scene"], f"{told['right']} of {answered}", f"{total - answered} of {total}", hidden, usable)
    return shown
