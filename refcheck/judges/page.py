"""A page on which people say what clips show: one file and its clips, offline, the choices closed, no judge's answer on it.

Clips have random names and a random order; which is which stands in a key beside the page's folder, never in it.
"""

from __future__ import annotations

import csv
import io
import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.random import Generator

from refcheck.command import UserError
from refcheck.judges.human import CANNOT_TELL, KEY, NULL
from refcheck.judges.rubrics import Item
from refcheck.output import atomic
from refcheck.untrusted import Problems, Strict, check_name, json_lines, parse_model, read_text, shown

PAGE, CLIPS, SEALED = "index.html", "clips", "key.jsonl"
NO_OUTCOME = "none of these happens"
HEADER = ["clip", "annotator", "answer"]


@dataclass(frozen=True)
class Shown:
    """A clip on a page: its scene, model and seed, what the judge said (empty for null), and its file."""

    scene: str
    model: str
    seed: str
    judge: str
    path: Path


class _Sealed(Strict):
    """One line of the key."""

    clip: str
    scene: str
    model: str
    seed: str
    vlm: str
    choices: list[str]


def choose(clips: Sequence[Shown], count: int | None, generator: Generator) -> list[Shown]:
    """Return at most `count` clips, shared out over what the judge said in each scene as evenly as there are clips.

    People then see rare labels and nulls as often as common ones, so agreement must be read by stratum and weighed back.
    """
    strata: dict[tuple[str, str], list[Shown]] = {}
    for at in generator.permutation(len(clips)):
        strata.setdefault((clips[at].scene, clips[at].judge), []).append(clips[at])
    chosen = list[Shown]()
    waiting = [strata[name] for name in sorted(strata)]
    while waiting and (count is None or len(chosen) < count):
        for held in waiting:
            if count is None or len(chosen) < count:
                chosen.append(held.pop())
        waiting = [held for held in waiting if held]
    return [chosen[at] for at in generator.permutation(len(chosen))]


def refuse_second(out: Path) -> None:
    """Raise `UserError` where a page is in `out` already."""
    page = out / "page"
    if (page / PAGE).exists() or (out / SEALED).exists():
        raise UserError(f"{page} holds a page already, which people may have answered: give another folder with out=")


def write_page(out: Path, items: Mapping[str, Item], clips: Sequence[Shown]) -> Path:
    """Write `out/page/index.html` with its clips and `out/key.jsonl`, and return the page.

    Raises `UserError` where a page is there already: people may have begun on it.
    """
    refuse_second(out)
    page, sealed = out / "page" / PAGE, out / SEALED
    (page.parent / CLIPS).mkdir(parents=True, exist_ok=True)
    told, key = list[dict[str, Any]](), list[_Sealed]()
    for one in clips:
        name = secrets.token_hex(8)
        file = f"{CLIPS}/{name}{one.path.suffix.lower()}"
        shutil.copyfile(one.path, page.parent / file)
        item = items[one.scene]
        choices = [*item.outcomes, NO_OUTCOME, CANNOT_TELL]
        told.append({"clip": name, "file": file, "question": item.readout_rule, "choices": choices})
        key.append(_Sealed(clip=name, scene=one.scene, model=one.model, seed=one.seed, vlm=one.judge, choices=choices))
    data = json.dumps({"header": HEADER, "clips": told}, ensure_ascii=False).replace("<", "\\u003c")
    with atomic(sealed) as path:
        path.write_text("".join(json.dumps(line.model_dump(), ensure_ascii=False) + "\n" for line in key), "utf-8")
    with atomic(page) as path:
        path.write_text(_HTML.replace("__DATA__", data), "utf-8")
    return page


def panel_csv(key: Path, votes: Sequence[Path]) -> str:
    """Return the votes of annotators' files as the CSV that `human.read_panel` takes, one column an annotator.

    "None of these happens" is a null, written as that label. Raises `UserError` with everything wrong: a clip that is not in
    the key, an answer that was no choice, an annotator who answers a clip twice, a file of other columns.
    """
    problems, sealed = Problems(), dict[str, _Sealed]()
    for where, value in json_lines(key, read_text(key, problems) or "", problems):
        line = parse_model(_Sealed, value, where, problems)
        if line is not None:
            sealed[line.clip] = line
    cast = dict[str, dict[str, str]]()
    for path in votes:
        text = read_text(path, problems)
        try:
            rows = list(csv.reader(io.StringIO(text or "", newline=""), strict=True))
        except csv.Error as error:
            problems.add(path, f"is not CSV: {error}")
            continue
        if text is not None and (not rows or rows[0] != HEADER):
            problems.add(f"{path}, line 1", f"columns must be {','.join(HEADER)}; got {shown(rows[0] if rows else '', 120)}")
            continue
        for number, fields in enumerate(rows[1:], 2):
            where = f"{path}, line {number}"
            if not fields:
                continue
            if len(fields) != len(HEADER):
                problems.add(where, f"has {len(fields)} fields, the header has {len(HEADER)}")
                continue
            clip, who, answer = (field.strip() for field in fields)
            try:
                check_name(who)
            except ValueError as error:
                problems.add(where, f"annotator {shown(who)} {error}")
            if clip not in sealed:
                problems.add(where, f"clip {shown(clip)} is not in {key}: it belongs to another page")
            elif answer not in sealed[clip].choices:
                problems.add(where, f"answer {shown(answer)} was no choice: {', '.join(sealed[clip].choices)}")
            elif cast.setdefault(who, {}).setdefault(clip, answer) != answer:
                problems.add(where, f"{shown(who)} has answered clip {shown(clip)} otherwise before: {cast[who][clip]}")
    if not cast and not problems.found:
        problems.add(key.parent, "no votes were given")
    problems.check()
    panel, people = io.StringIO(), sorted(cast)
    writer = csv.writer(panel, lineterminator="\n")
    writer.writerow([*KEY, "vlm", *(f"human_{k}" for k in range(1, len(people) + 1))])
    for clip, line in sealed.items():
        answers = [NULL if (said := cast[who].get(clip, "")) == NO_OUTCOME else said for who in people]
        if any(answers):
            writer.writerow([line.scene, line.model, line.seed, line.vlm, *answers])
    return panel.getvalue()


_HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>What does the clip show?</title>
<style>
:root { color-scheme: light dark }
body { font: 17px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 1.5rem auto; padding: 0 1rem }
video { width: 100%; background: #222; border-radius: 6px }
button { font: inherit; padding: .5rem .9rem; margin: .25rem; border: 1px solid #888; border-radius: 6px; cursor: pointer }
button.chosen { background: #1a5fb4; color: #fff; border-color: #1a5fb4 }
button.other { border-style: dashed }
#bar { display: flex; gap: .6rem; align-items: center; flex-wrap: wrap }
#bar label { flex: 1 } #who { font: inherit; width: 14rem }
#rule { margin: .8rem 0 } #note { color: #888; font-size: .9rem }
</style>
<div id="bar"><label>Your name or initials <input id="who" autocomplete="off"></label>
<span id="count"></span><button id="save">Save answers (CSV)</button></div>
<p><video id="video" controls loop muted playsinline></video></p>
<p id="rule"></p>
<div id="choices"></div>
<p><button id="back">&larr; back</button><button id="next">next &rarr;</button></p>
<p id="note">Say what the clip shows, not what you expect. Keys: 1 to 9 choose, arrows move. Answers stay in this browser
until you save them; nothing is sent anywhere.</p>
<script>
const data = __DATA__;
const store = "quincunx-votes-" + data.clips.map(c => c.clip).join("").slice(0, 64);
let held = {who: "", answers: {}};
try { held = JSON.parse(localStorage.getItem(store)) || held } catch (error) {}
let at = Math.max(0, data.clips.findIndex(c => !(c.clip in held.answers)));
const by = id => document.getElementById(id);
function keep() { try { localStorage.setItem(store, JSON.stringify(held)) } catch (error) {} }
function show() {
  const one = data.clips[at];
  if (by("video").getAttribute("src") !== one.file) { by("video").src = one.file; by("video").play().catch(() => {}) }
  by("rule").textContent = one.question;
  by("choices").replaceChildren(...one.choices.map((choice, k) => {
    const b = document.createElement("button");
    b.textContent = choice;
    b.className = (held.answers[one.clip] === choice ? "chosen " : "") + (k >= one.choices.length - 2 ? "other" : "");
    b.onclick = () => { held.answers[one.clip] = choice; keep(); show() };
    return b;
  }));
  by("count").textContent = `clip ${at + 1} of ${data.clips.length}, ${Object.keys(held.answers).length} answered`;
  by("back").disabled = at === 0;
  by("next").disabled = at === data.clips.length - 1;
}
function go(step) { at = Math.min(Math.max(at + step, 0), data.clips.length - 1); show() }
by("who").value = held.who;
by("who").oninput = () => { held.who = by("who").value.trim(); keep() };
by("back").onclick = () => go(-1);
by("next").onclick = () => go(1);
document.onkeydown = event => {
  if (event.target.id === "who") return;
  if (event.key === "ArrowRight") go(1);
  if (event.key === "ArrowLeft") go(-1);
  const buttons = by("choices").children, number = Number(event.key);
  if (number >= 1 && number <= buttons.length) buttons[number - 1].click();
};
by("save").onclick = () => {
  if (!held.who) { by("who").focus(); alert("Give your name or initials first."); return }
  const quoted = text => '"' + text.replaceAll('"', '""') + '"';
  const rows = data.clips.filter(c => c.clip in held.answers).map(c => [c.clip, held.who, held.answers[c.clip]]);
  const text = [data.header, ...rows].map(row => row.map(quoted).join(",")).join("\\n") + "\\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
  link.download = "votes-" + held.who.replace(/[^A-Za-z0-9_-]+/g, "_") + ".csv";
  link.click();
};
show();
</script>
</html>
"""
