"""Puts every clip before a judge once: a checkpoint that survives being killed, and rows in which no failure is an answer.

It knows no reference and no score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from refcheck.evaluate_data import Slot, Target
from refcheck.journal import Journal
from refcheck.judges.vlm import Verdict
from refcheck.labels import Row, row_faults
from refcheck.output import plain
from refcheck.untrusted import Problems, Strict, parse_model, shown
from simulators.video import ClipError, clip_info

CHECKPOINT, SCHEMA = "checkpoint.jsonl", "pawbench.checkpoint/v1"
MISSING, BROKEN, MACHINE = "missing_clip", "broken_clip", "machine"
Read = Callable[[Path], Verdict]


@with_config(ConfigDict(strict=True))
class Said(TypedDict, total=False):
    """A judge's `Reading` as a line holds it; what is not known is null."""

    outcome: str | None
    null: str
    confidence: float | None
    votes: list[str | None]
    latency: float | None
    cost: float | None


@with_config(ConfigDict(strict=True))
class Seen(TypedDict):
    """A clip as it was decoded."""

    width: int
    height: int
    frames: int
    fps: float | None


class Entry(Strict):
    """One line of the checkpoint: PAWBench's keys, and ours. `settings` is the digest of all that made the reading."""

    schema_version: str = SCHEMA
    scene_id: str
    repeat_index: int = Field(ge=0)
    video_fingerprint: str
    row: Row
    settings: str = ""
    reading: Said | None = None
    trust: dict[str, str] | None = None
    trust_failure: str | None = None
    clip: Seen | None = None
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether no judge could be asked."""
        return self.row.observation == "infrastructure_failure"


@dataclass(frozen=True)
class Run:
    """Every slot's entry in order, how many were judged now, taken over, or judged again since clip or settings changed."""

    entries: tuple[Entry, ...]
    judged: int
    reused: int
    again: int


def parse_entry(value: Any, where: object, problems: Problems) -> Entry | None:
    """Return a line of a checkpoint, or None with the problems noted: of its types, and where it contradicts itself."""
    entry = parse_model(Entry, value, where, problems)
    if entry is None:
        return None
    faults, row = row_faults(entry.row), entry.row
    if row.scene_id != entry.scene_id or str(row.repeat_index) != str(entry.repeat_index):
        faults.append(f"its row is of {shown(row.scene_id)} repeat {shown(row.repeat_index)}, and the line of another slot")
    if entry.reading is not None and "outcome" in entry.reading and entry.reading["outcome"] != row.outcome_label:
        faults.append(f"its reading is {shown(entry.reading['outcome'])}, and its row says {shown(row.outcome_label)}")
    if entry.trust is not None and "status" not in entry.trust:
        faults.append("its trust has no status")
    for fault in faults:
        problems.add(where, fault)
    return None if faults else entry


def held_entries(
    journal: Journal, targets: Sequence[Target], settings: Mapping[str, str], model: str
) -> dict[tuple[str, int], list[Entry]]:
    """Return the checkpoint's entries by slot, oldest first.

    Raises `UserError` for lines that are none; under these `settings`, which are those of `model`'s clips, for a label that is
    no outcome of its scene and for what a row of it says otherwise.
    """
    known = {(target.name, settings[target.name]): target for target in targets}
    problems, held = Problems(), dict[tuple[str, int], list[Entry]]()
    for number, line in enumerate(journal.lines, 1):
        where = f"{journal.path}, line {number}"
        entry = parse_entry(line, where, problems)
        if entry is not None:
            label, target = entry.row.outcome_label, known.get((entry.scene_id, entry.settings))
            if target is not None and label is not None and label not in target.expected.outcomes:
                problems.add(where, f"outcome_label {shown(label)} is none of {', '.join(target.expected.outcomes)}")
            for name, right in _row(target, entry.repeat_index, model).items() if target is not None else ():
                if (given := getattr(entry.row, name)) != right:
                    problems.add(where, f"{name} is {shown(given)}, where this run writes {shown(right)}")
            held.setdefault((entry.scene_id, entry.repeat_index), []).append(entry)
    problems.check()
    return held


def usable(entries: Sequence[Entry], slot: Slot, settings: str) -> Entry | None:
    """Return the latest entry of a slot that was read off this very clip under these very settings, and is whole."""
    for entry in reversed(entries):
        same = entry.video_fingerprint == slot.fingerprint and entry.settings == settings
        if same and not entry.failed and entry.trust_failure is None:
            return entry
    return None


def judge_all(
    targets: Sequence[Target],
    slots: Sequence[Slot],
    model: str,
    settings: Mapping[str, str],
    judge_of: Callable[[Target], Read],
    journal: Journal,
    held: Mapping[tuple[str, int], Sequence[Entry]],
    threads: int,
    advance: Callable[[int], Any],
) -> Run:
    """Judge what the checkpoint does not hold yet, scene by scene, `threads` clips at a time.

    `held` is what `journal` held (`held_entries`); `settings` digests by scene what a reading depends on; `judge_of` is called
    only for a scene that has something to judge.
    """
    found, again, reused = dict[tuple[str, int], Entry](), 0, 0
    waiting: dict[str, list[Slot]] = {}
    for slot in slots:
        key = (slot.scene, slot.repeat)
        known = held.get(key, [])
        entry = usable(known, slot, settings[slot.scene])
        if entry is not None:
            found[key], reused = entry, reused + 1
            advance(1)
        elif slot.path is None:
            found[key] = _entry(targets, slot, model, settings[slot.scene], MISSING, "there is no clip")
            advance(1)
        else:
            waiting.setdefault(slot.scene, []).append(slot)
            again += any(not one.failed and one.trust_failure is None for one in known)
    for target in targets:
        pending = waiting.get(target.name, [])
        if not pending:
            continue
        read = judge_of(target)
        pool = ThreadPoolExecutor(threads)
        try:
            futures = [pool.submit(_judge, target, slot, model, settings[target.name], read) for slot in pending]
            for future in as_completed(futures):
                entry = future.result()
                journal.add(plain(entry.model_dump()))
                found[entry.scene_id, entry.repeat_index] = entry
                advance(1)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    judged = sum(len(pending) for pending in waiting.values())
    return Run(tuple(found[slot.scene, slot.repeat] for slot in slots), judged, reused, again)


def _judge(target: Target, slot: Slot, model: str, settings: str, read: Read) -> Entry:
    """Judge one clip. What keeps it from a judge is a failure with a code; mistakes of ours are raised."""
    path, targets = slot.path, (target,)
    if path is None:
        raise ValueError(f"slot {slot.scene}, {slot.repeat} has no clip to judge")
    try:
        verdict = read(path)
        clip = verdict.clip or clip_info(path)
    except ClipError as error:
        return _entry(targets, slot, model, settings, BROKEN, str(error))
    except OSError as error:  # also a call that failed, which brings its code
        return _entry(targets, slot, model, settings, getattr(error, "code", MACHINE), getattr(error, "message", str(error)))
    reading = verdict.reading
    row = _row(target, slot.repeat, model) | {"observation": "null_observation" if reading.outcome is None else "outcome"}
    row |= {} if reading.outcome is None else {"outcome_label": reading.outcome}
    return Entry(
        scene_id=slot.scene,
        repeat_index=slot.repeat,
        video_fingerprint=slot.fingerprint,
        row=Row.model_validate(row),
        settings=settings,
        reading=plain(reading),
        trust=verdict.trust,
        trust_failure=verdict.trust_failure,
        clip=plain(clip),
    )


def _row(target: Target, repeat: int, model: str) -> dict[str, Any]:
    """Return what a row says before anything is judged."""
    source = f"{model}::{target.name}::r{repeat:03d}"
    return {
        "sample_id": f"{source}::repeat={repeat}",
        "source_sample_id": source,
        "scene_id": target.name,
        "track": target.expected.track,
        "model_or_lane": model,
        "repeat_index": repeat,
    }


def _entry(targets: Sequence[Target], slot: Slot, model: str, settings: str, code: str, message: str) -> Entry:
    target = next(target for target in targets if target.name == slot.scene)
    row = Row.model_validate(_row(target, slot.repeat, model) | {"observation": "infrastructure_failure", "failure_code": code})
    return Entry(
        scene_id=slot.scene,
        repeat_index=slot.repeat,
        video_fingerprint=slot.fingerprint,
        row=row,
        settings=settings,
        message=message,
    )


def row_lines(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return PAWBench's rows: a key that does not go with the observation is left out."""
    return [entry.row.model_dump(exclude_none=True) for entry in entries]


def failures(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return every failure: where, its code, and what was said."""
    return [
        {"scene": e.scene_id, "repeat": e.repeat_index, "code": e.row.failure_code, "message": e.message}
        for e in entries
        if e.failed
    ]


def odd_clips(entries: Sequence[Entry]) -> list[str]:
    """Name the clips whose size, or number or rate of frames, differs from what most clips of the run have."""
    seen = [(entry, entry.clip) for entry in entries if entry.clip is not None]
    told = []
    for what, of in (
        ("is {}x{}", lambda clip: (clip["width"], clip["height"])),
        ("has {} frames", lambda clip: (clip["frames"],)),
        ("has {} frames a second", lambda clip: (clip["fps"],)),
    ):
        counts = Counter(of(clip) for _, clip in seen)
        if len(counts) > 1:
            usual = counts.most_common(1)[0][0]
            told += [
                f"{entry.scene_id}/r{entry.repeat_index:03d} {what.format(*of(clip))}; most clips: {what.format(*usual)}"
                for entry, clip in seen
                if of(clip) != usual
            ]
    return told


def trust_table(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the trust audit by scene, crossed with what was read: {scene: {label or null: {status: clips}}}.

    A clip without an audit counts under `none`, in no rate.
    """
    table: dict[str, Any] = {}
    for entry in entries:
        if not entry.failed:
            label = entry.row.outcome_label or "null"
            status = entry.trust["status"] if entry.trust else "none"
            row = table.setdefault(entry.scene_id, {}).setdefault(label, {})
            row[status] = row.get(status, 0) + 1
    return table
