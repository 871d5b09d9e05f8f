"""`quincunx controls suite=table`: every scene's judge on clips in looks that it never learned from, one row a scene.

It goes on where it stopped: a scene whose settings, physics and judge are those of its file is not judged again. A scene that
is drawn as an earlier one is, and differs in its launches alone, is said to be so: what its clips look like is the other's.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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
from refcheck.damage import KINDS, WITHOUT_OUTCOME
from refcheck.evaluate_judges import judges_asked
from refcheck.filming import FPS, Film
from refcheck.output import atomic, plain, to_json
from refcheck.running import pool_of, run_by
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import NULL_REASONS
from simulators.engines.loop import physics_digest
from simulators.engines.loop import run as run_rollouts
from simulators.execute import InfrastructureError, spread
from simulators.render.blur import STILL
from simulators.sampling import generator

VERSION = 4  # of what a row is made of
_Filmed = tuple[str, int | None]
LOOKS: tuple[_Filmed, ...] = (("phone", 0), ("phone", 1), ("flat", 0), ("toy", 0))
"""Ways of filming, with the number of the variation: the trained judge learns none of them, but the studio and its own."""
AGAIN: _Filmed = ("phone", None)
"""How a clip is filmed that has come out as another one has, byte for byte: in a variation of its own."""
NAMES = ", ".join(dict.fromkeys(look for look, _ in LOOKS))
DRAWN = 3  # frames of a clip that are drawn: its opening, one on the way, and its held end; the judge reads first and last
LONGEST = 64  # frames of a clip at full rate, which is lower where what it shows takes longer
HEAP, FEW = 8, 400
"""Of more loose bodies than this a rollout takes a tenth of a second and more, and so few are looked through."""
EACH = 4  # clips for each way of damage: one in each look
UNREADABLE = tuple(kind.name for kind in KINDS.values() if kind.family == "unreadable")
MARKDOWN = "judges.md"
COLUMNS = ("scene", "judge", "right of answers", "at least", "worst outcome", "no answer", "answers to hidden", "tilt seen",
           "TVD of q", "usable", "s a clip")  # fmt: skip


def run(request: Request) -> Answer:
    """Judge every scene asked for. Raises `UserError` without `out=`; status 3 where a scene could not be judged."""
    if request.out is None:
        raise UserError("out= is missing: suite=table keeps every scene's file there, and goes on where it stopped")
    if "vlm" in judges_asked(request.values):
        raise UserError("suite=table draws what the trained judge reads, an opening and an end: give judge=trained or state")
    rows, tasks, seen = dict[str, dict[str, Any]](), list[_Task](), dict[str, str]()
    for id in request.scenes:
        scene = run_by(load_scene(id), request.values["engine"])
        path, settings = request.out / f"{id.replace('/', '-')}.json", settings_of(scene, request.values)
        like = seen.setdefault(picture_of(scene), id)
        kept = _like(scene, like, settings, request.values) if like != id else _kept(path, settings)
        if kept is None:
            tasks.append(_Task(id, settings, path, dict(request.values)))
        else:
            rows[id] = kept

    def write(row: dict[str, Any] | None = None) -> None:
        """Write the page after every scene: what there is can be read while the rest is judged."""
        if row is not None:
            rows[row["scene"]] = row
            advance(1)
        with atomic(request.out / MARKDOWN) as page:  # type: ignore[operator]
            page.write_text(markdown([rows[id] for id in request.scenes if id in rows], request.values), "utf-8")

    with pool_of(request.values, request.out) as pool, request.progress("scenes", len(tasks)) as advance:
        write()
        spread(pool, _judged, tasks, write)
    done = [rows[id] for id in request.scenes]
    result = {"schema": "quincunx.judges/v1", "suite": "table", "rows": done}
    told = (_shown(done), f"{request.out / MARKDOWN} holds the table.")
    return Answer(result, told, INFRASTRUCTURE if any(row["failures"] for row in done) else COMPLETED)


def judge_source(kind: str) -> str:
    """Return the digest of the judge's own code: what another version of it said is no reading of this one."""
    if kind not in ("trained", "ensemble"):
        return ""
    from refcheck.judges import detector, examples, features, focus, learners, trained

    own = (detector, examples, features, focus, learners, trained)
    return hashlib.sha256(b"".join(Path(str(module.__file__)).read_bytes() for module in own)).hexdigest()


def settings_of(scene: Scene, values: Mapping[str, Any]) -> str:
    """Return the digest of all that a row depends on."""
    whole = {
        "version": VERSION,
        "judge": [values["judge"], judge_source(values["judge"]), values["per_outcome"], values["of"], values["weights"]],
        "physics": physics_digest(scene.device, scene.integrator),
        "picture": repr((scene.camera, scene.light, scene.renderer)),
        "outcomes": scene.outcomes,
        "set": [*(values[name] for name in ("k", "seed", "limit", "nulls")), LOOKS, DRAWN, LONGEST, EACH, UNREADABLE],
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def picture_of(scene: Scene) -> str:
    """Return the digest of all that a clip of a scene can show, launches apart, and of what it is read as."""
    whole = (scene.device.world(), scene.camera, scene.light, scene.renderer, scene.device.facts, scene.device.readout)
    return hashlib.sha256(repr((whole, scene.outcomes, scene.outcome_of_fact)).encode()).hexdigest()


def _like(scene: Scene, like: str, settings: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a scene that is drawn as the scene `like` is."""
    return {"scene": scene.id, "judge": values["judge"], "settings": settings, "like": like, "refused": None, "failures": []}


def _kept(path: Path, settings: str) -> dict[str, Any] | None:
    """Return the row that a file holds, None where there is nothing to go on from: the scene is judged."""
    try:
        row = json.loads(path.read_text("utf-8"))
        return dict(row) if row["settings"] == settings and not row["failures"] else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class _Task:
    id: str
    settings: str
    path: Path
    values: dict[str, Any]


@contextmanager
def _silent(label: str, total: int) -> Iterator[Callable[[int], Any]]:
    """Show no progress: a scene is judged by a worker, which has no screen."""
    yield lambda count: None


def _judged(task: _Task) -> dict[str, Any]:
    """Judge one scene by this worker alone, and keep its row. What a machine does to one scene stops no other."""
    scene, begun = run_by(load_scene(task.id), task.values["engine"]), time.monotonic()
    head = {
        "scene": task.id,
        "settings": task.settings,
        "like": None,
        "judge": task.values["judge"],
        "outcomes": scene.outcomes,
    }
    try:
        told = judge_scene(task.values, scene)
    except (InfrastructureError, UserError) as error:
        told = {"failures": [str(error)], "refused": str(error)}
    row = plain(head | told | {"seconds": {"whole": time.monotonic() - begun, **told.get("seconds", {})}})
    with atomic(task.path) as temporary:
        temporary.write_text(to_json(row), "utf-8")
    return dict(row)


def judge_scene(values: Mapping[str, Any], scene: Scene) -> dict[str, Any]:
    """Return one row: the judge made ready, put before balanced clips in other looks and before damaged ones.

    Raises `InfrastructureError`, and `UserError` where the door does not take the clips.
    """
    begun = time.monotonic()
    with ExitStack() as stack:
        hidden = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quincunx-")))
        try:
            asked = judge_for(values, scene, stack, None, None, _silent)
        except UserError as error:
            return {"failures": [], "refused": str(error)}
        trained = time.monotonic()
        wishes, never = _wishes(scene, values)
        controls, not_made = _drawn(scene, values["seed"], wishes, hidden)
        made = time.monotonic()
        opened = control_run.through_the_door(scene, controls, asked.of, hidden / "door", 1, None, _silent, recode=False)
    q = None if scene.reference.q is None else scene.q()
    table = control_report.confusion(scene.outcomes, opened)
    looks = {
        f"{look} {'each' if variation is None else variation}": _right(scene, [o for o in opened if o.sealed.batch == number])
        for number, (look, variation) in enumerate((*LOOKS, AGAIN))
    }
    return {
        "refused": None,
        "described": asked.described,
        "never": never,
        "not_made": not_made,
        "confusion": table,
        "right_by_look": looks,
        "failures": [f"r{one.sealed.repeat:03d}: {one.failure}" for one in opened if one.failure is not None],
        "report": control_report.report(scene.outcomes, q, opened, values["seed"], scene.stream),
        "seconds": {"train": trained - begun, "draw": made - trained, "read": time.monotonic() - made},
    }


def _right(scene: Scene, opened: Sequence[control_report.Opened]) -> int:
    """Return how many clean clips were read as what they are."""
    return int(np.trace(control_report.confusion(scene.outcomes, opened)[:, :-1]))


def _wishes(scene: Scene, values: Mapping[str, Any]) -> tuple[list[Wish], list[str]]:
    """Return every clip wanted, and the outcomes of which no rollout came: those are in no figure."""
    seed, count, looks = values["seed"], len(scene.outcomes), len(LOOKS)
    heap = len(scene.device.world().loose) > HEAP
    limit, nulls = (min(values[name], FEW) if heap else values[name] for name in ("limit", "nulls"))
    each, spoiled = -(-values["k"] // count), EACH * len(UNREADABLE)
    found = clips.search(scene, seed, [each + spoiled] * count, limit=limit)
    have = np.bincount(scene.outcome(found.fact), minlength=count)
    if not have.all():  # their clips go to the outcomes that do come
        each = -(-values["k"] // max(1, int(np.sum(have > 0))))
        found = clips.search(scene, seed, np.where(have > 0, each + spoiled, 0), limit=limit)
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
        Wish(index, (fact, null), scene.outcomes[label], batch=number % looks)
        for number, ((index, fact, null), label) in enumerate(zip(ends, labels, strict=False))
    ]
    for number, (index, fact, null) in enumerate(ends[len(labels) :]):
        wishes.append(Wish(index, (fact, null), None, UNREADABLE[number % len(UNREADABLE)], number % looks))
    ended = clips.find_nulls(scene, seed, EACH, limit=nulls)
    for number, (index, fact, null) in enumerate(zip(ended.index, ended.fact, ended.null, strict=True)):
        wishes.append(Wish(int(index), (int(fact), int(null)), None, NULL_REASONS[null], number % looks))
    return wishes, [label for label, n in zip(scene.outcomes, have, strict=True) if n == 0]


def _drawn(scene: Scene, seed: int, wishes: Sequence[Wish], hidden: Path) -> tuple[list[Control], dict[str, str]]:
    """Draw every clip as its batch is filmed, as sparsely as still is whole for what the judge reads; say what was not made.

    Two rollouts may look alike to the byte, where the image hides what differs between them: the second is filmed again.
    """
    controls, not_made = list[Control](), dict[str, str]()
    one = run_rollouts(scene.integrator, scene.device, seed, scene.stream, [wishes[0].index], fps=FPS)
    whole = len((one.trajectories or ((),))[0])
    rows = min(whole, LONGEST)
    fps = FPS * rows / whole
    seen, alike = set[bytes](), list[Wish]()
    for number, (look, variation) in enumerate((*LOOKS, AGAIN)):
        film = Film(look, shutter=STILL, variation=variation or 0, each=variation is None, frames=rows, fps=fps)
        mine = {wish.index: wish for wish in (wishes if number < len(LOOKS) else alike) if wish.batch == number}
        made, refused = make(scene, seed, list(mine.values()), hidden / str(number), Recipe(film, sparse=max(1, rows // DRAWN)))
        not_made |= refused
        for control in made:
            digest = hashlib.sha256(control.path.read_bytes()).digest()
            if digest in seen and number < len(LOOKS):
                alike.append(replace(mine[control.index], batch=len(LOOKS)))
            else:
                controls.append(control)
            seen.add(digest)
    return controls, not_made


def markdown(rows: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
    """Return the page: what was done, a row a scene, and every reason against a judge."""
    own = [row for row in rows if not row["like"]]
    usable = sum(bool(row.get("report") and row["report"]["usable"]) for row in own)
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
        f"nothing). **{usable} of {len(own)} scenes.**",
        "",
        "Answers to hidden: those to clips that show no outcome, in brackets with the upper 95 % bound of their share. A scene "
        "that is said to be as another is drawn as that one is, and differs in its launches alone.",
        "",
        "Tilt: the smallest distance from q that a score of 50 clips shows through this judge in 80 % of cases, at level .05; "
        "in brackets with a perfect judge. TVD of q: what a perfect model is reported with, in brackets by a perfect judge.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(_line(row) for row in rows),
        "",
        "## Answers to clips that show no outcome, all scenes together",
        "",
        "| what was done | answers | share at most (95 %) |",
        "|---|---|---|",
        *_hidden(own),
        "",
        "## What stands against it",
        "",
    ]
    for row in own:
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


def _hidden(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each way in which clips show no outcome, and one for all of them."""
    told = [row["report"]["by_kind"] for row in rows if row.get("report")]
    lines, total, answers = list[str](), 0, 0
    for kind in (kind for kind in KINDS if kind in WITHOUT_OUTCOME):
        clips, said = (sum(kinds[kind][name] for kinds in told if kind in kinds) for name in ("clips", "answered"))
        total, answers = total + clips, answers + said
        if clips:
            lines.append(
                f"| {KINDS[kind].told} (`{kind}`) | {said} of {clips} | {control_report.upper_bound(said, clips):.3f} |"
            )
    if total:
        lines.append(f"| all | {answers} of {total} | {control_report.upper_bound(answers, total):.3f} |")
    return lines


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
    if row["like"]:
        return f"| {row['scene']} | as {row['like']} |{' |' * (len(COLUMNS) - 2)}"
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
        f"{total - answered} of {total}", _answers(told["hidden"]), tilt, tvd,
        "yes" if told["usable"] else "no", "-" if told["latency"] is None else f"{told['latency']:.2f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _answers(hidden: Mapping[str, int]) -> str:
    bound = control_report.upper_bound(hidden["answered"], hidden["clips"])
    return f"{hidden['answered']} of {hidden['clips']} ({bound:.2f})"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _shown(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table(title="The judge by scene", title_justify="left")
    for column in ("scene", "right", "no answer", "to hidden", "usable"):
        shown.add_column(column, justify="left" if column == "scene" else "right")
    for row in rows:
        if row["like"] or row["refused"]:
            shown.add_row(row["scene"], "-", "-", "-", f"as {row['like']}" if row["like"] else "no")
            continue
        table, told = np.array(row["confusion"]), row["report"]
        answered, total = int(table[:, :-1].sum()), int(table.sum())
        hidden = f"{told['hidden']['answered']} of {told['hidden']['clips']}"
        usable = "yes" if told["usable"] else "no"
        shown.add_row(row["scene"], f"{told['right']} of {answered}", f"{total - answered} of {total}", hidden, usable)
    return shown
