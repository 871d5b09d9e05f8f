"""What PAWBench's rows are held to: the policy's scenes, references and repeats. It repairs nothing and scores nothing.

Source: Pu et al. 2026, arXiv 2608.27345.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from refcheck import metrics
from refcheck.labels import Row
from refcheck.metrics import Q_TOLERANCE
from refcheck.tally import Sampling
from refcheck.untrusted import Problems, Strict, check_name, json_lines, parse_model, read_json, read_text, shown

Track = Literal["calibration", "coverage"]
TRACKS: tuple[Track, ...] = ("calibration", "coverage")
SCENES, REPEATS = 25, 50
"""Scenes of a track and rollouts of a scene: anything else is not this benchmark."""


@dataclass(frozen=True)
class Rules:
    """What the benchmark holds a policy to, with PAWBench's values as defaults; `partial` takes any roster and repeats.

    `gate` says what more nulls than `maximum_nulls` of 50 mean at another K: that `count`, or that `share` of K. `group` is
    the size of a `coupled` group, consecutive repeats (PAWBench's C2C noise: 5).
    """

    roster: int = SCENES
    repeats: int = REPEATS
    maximum_nulls: int = metrics.MAXIMUM_NULLS
    gate: Literal["count", "share"] = "count"
    partial: bool = False
    sampling: Sampling = "iid"
    group: int = 5

    def limit(self, rollouts: int) -> int:
        """Return how many nulls a scene of so many rollouts may have."""
        return self.maximum_nulls if self.gate == "count" else self.maximum_nulls * rollouts // REPEATS

    def described(self) -> str:
        """Return the gate in words."""
        if self.gate == "count":
            return f"absolute count: a scene passes with at most {self.maximum_nulls} nulls, whatever K"
        return f"null share: a scene passes with nulls in at most {self.maximum_nulls}/{REPEATS} of its K rollouts"


PAWBENCH = Rules()


@dataclass(frozen=True)
class Expected:
    """What a scene's rows are held to: its outcomes, its reference (calibration alone) and the repeats that must be there."""

    scene_id: str
    track: Track
    group: str | None
    outcomes: tuple[str, ...]
    q: tuple[float, ...] | None
    repeats: frozenset[int]


@dataclass(frozen=True)
class Policy:
    """The scenes of each track, and the models that must have rows; None takes the models that have some."""

    scenes: tuple[Expected, ...]
    models: tuple[str, ...] | None = None

    def track(self, track: Track) -> tuple[Expected, ...]:
        """Return the scenes of one track, in their order."""
        return tuple(scene for scene in self.scenes if scene.track == track)


class _PolicyScene(Strict):
    scene_id: str = Field(min_length=1)
    track: Track
    group: str | None = None
    expected_repeat_indices: list[int | str]
    reference_distribution: dict[str, float | int] | None = None
    support_labels: list[str] | None = None


class _PolicyTrack(Strict):
    scenes: list[_PolicyScene]


class _PolicyTracks(Strict):
    calibration: _PolicyTrack = _PolicyTrack(scenes=[])
    coverage: _PolicyTrack = _PolicyTrack(scenes=[])


class _PolicyFile(Strict):
    model_or_lanes: list[str] = Field(min_length=1)
    tracks: _PolicyTracks


class _PackageScene(Strict):
    scene_id: str = Field(min_length=1)
    split: Track
    group: str | None = None
    outcome_labels: list[str] = Field(min_length=1)
    reference_distribution: dict[str, float | int] | None = None


def read_policy(path: Path, rules: Rules = PAWBENCH) -> Policy:
    """Read a scene policy (JSON) and hold it to `rules`. Raises `UserError` with everything wrong."""
    problems, value = Problems(), read_json(path)
    parsed = parse_model(_PolicyFile, value, path, problems)
    problems.check()
    if parsed is None:
        raise RuntimeError("a policy that does not parse has a problem")
    for name, count in Counter(parsed.model_or_lanes).items():
        _check_model(name, count, path, problems)
    scenes = []
    for track in TRACKS:
        for index, item in enumerate(getattr(parsed.tracks, track).scenes):
            where = f"{path}, tracks.{track}.scenes.{index} ({shown(item.scene_id)})"
            if item.track != track:
                problems.add(where, f"track {item.track!r} stands under {track!r}")
            labels = item.support_labels if track == "coverage" else list(item.reference_distribution or ())
            repeats = _repeats(item.expected_repeat_indices, where, problems)
            scenes.append(_expected(item.scene_id, track, item.group, labels or [], item, repeats, where, problems))
    return _policy(scenes, tuple(parsed.model_or_lanes), path, rules, problems)


def read_package(folder: Path, rules: Rules = PAWBENCH) -> Policy:
    """Read the scenes of a benchmark package, `scenes.jsonl` in `folder`. Raises as `read_policy`."""
    path = folder / "scenes.jsonl"
    problems = Problems()
    text = read_text(path, problems)
    problems.check()
    scenes = []
    for where, value in json_lines(path, text or "", problems):
        item = parse_model(_PackageScene, value, where, problems)
        if item is not None:
            repeats = frozenset(range(rules.repeats))
            scenes.append(_expected(item.scene_id, item.split, item.group, item.outcome_labels, item, repeats, where, problems))
    return _policy(scenes, None, path, rules, problems)


def _check_model(name: str, count: int, where: object, problems: Problems) -> None:
    try:
        check_name(name)
    except ValueError as error:
        problems.add(where, f"model_or_lanes: {shown(name)} {error}")
    if count > 1:
        problems.add(where, f"model_or_lanes: {shown(name)} occurs {count} times")


def _repeats(values: list[int | str], where: str, problems: Problems) -> frozenset[int]:
    good = [int(value) for value in values if re.fullmatch(r"[0-9]{1,9}", str(value))]
    if len(good) != len(values) or len(set(good)) != len(good) or not good:
        problems.add(where, "expected_repeat_indices must be whole numbers of at least 0, each once (7 and '7' are the same)")
    return frozenset(good)


def _expected(
    scene_id: str,
    track: Track,
    group: str | None,
    labels: list[str],
    item: _PolicyScene | _PackageScene,
    repeats: frozenset[int],
    where: str,
    problems: Problems,
) -> Expected:
    """Build one scene's expectation, noting what is wrong with its labels and reference."""
    reference = item.reference_distribution
    q = None
    if not labels or len(set(labels)) != len(labels) or "" in labels:
        problems.add(where, f"outcome labels must be at least one, none empty or twice, got {shown(labels)}")
    if track == "coverage":
        if reference is not None:
            problems.add(where, "a coverage scene has no reference_distribution, only labels")
    elif reference is None:
        problems.add(where, "a calibration scene needs its reference_distribution")
    elif set(reference) != set(labels):
        problems.add(where, f"reference_distribution is over {shown(list(reference))}, the labels are {shown(labels)}")
    else:
        q = tuple(float(reference[label]) for label in labels)
        try:
            metrics.check_q(q or (np.nan,))
        except ValueError as error:
            problems.add(where, f"reference_distribution: {error} (tolerance {Q_TOLERANCE:g})")
    return Expected(scene_id, track, group, tuple(labels), q, repeats)


def _policy(scenes: list[Expected], models: tuple[str, ...] | None, where: object, rules: Rules, problems: Problems) -> Policy:
    for scene_id, count in Counter(scene.scene_id for scene in scenes).items():
        if count > 1:
            problems.add(where, f"scene {shown(scene_id)} occurs {count} times")
    for track in TRACKS:
        held = [scene for scene in scenes if scene.track == track]
        whose = "PAWBench has" if rules.roster == SCENES and rules.repeats == REPEATS else "roster= and repeats= ask for"
        if not rules.partial and len(held) != rules.roster:
            problems.add(
                where, f"track {track} has {len(held)} scenes, {whose} {rules.roster}; partial=true scores it as it is"
            )
        for scene in held:
            if not rules.partial and scene.repeats != frozenset(range(rules.repeats)):
                problems.add(
                    where,
                    f"scene {shown(scene.scene_id)} expects {len(scene.repeats)} repeats, {whose} 0 to {rules.repeats - 1}; "
                    "partial=true scores it as it is",
                )
        for scene in held if rules.sampling == "coupled" else ():
            if len(scene.repeats) % rules.group or len(scene.repeats) // rules.group < 2:
                problems.add(
                    where,
                    f"scene {shown(scene.scene_id)} expects {len(scene.repeats)} repeats: they must make at least two whole "
                    f"groups of group={rules.group}",
                )
    if not scenes:
        problems.add(where, "holds no scene")
    problems.check()
    return Policy(tuple(scenes), models)


Slot = tuple[str, str, int]


def check_rows(rows: Iterable[tuple[str, Row]], policy: Policy) -> dict[str, dict[str, list[Row]]]:
    """Return rows by model and scene, each expected slot exactly once. Raises `UserError` with everything wrong.

    Refused: a missing, doubled or unexpected slot, a sample used twice, a label outside the scene's outcomes.
    """
    problems, first, samples = Problems(), dict[Slot, str](), dict[str, str]()
    sorted_rows: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    scenes = {scene.scene_id: scene for scene in policy.scenes}
    for where, row in rows:
        scene = scenes.get(row.scene_id)
        if scene is None:
            problems.add(where, f"scene {shown(row.scene_id)} is not in the policy")
            continue
        if policy.models is not None and row.model_or_lane not in policy.models:
            problems.add(where, f"model {shown(row.model_or_lane)} is not in the policy: {', '.join(policy.models)}")
            continue
        if row.track != scene.track:
            problems.add(where, f"track {row.track!r} of scene {shown(row.scene_id)} must be {scene.track!r}")
        if row.repeat not in scene.repeats:
            problems.add(where, f"repeat_index {row.repeat} of scene {shown(row.scene_id)} is not expected")
        if row.outcome_label is not None and row.outcome_label not in scene.outcomes:
            problems.add(
                where,
                f"outcome_label {shown(row.outcome_label)} of scene {shown(row.scene_id)} must be one of {scene.outcomes}",
            )
        seen = first.setdefault((row.model_or_lane, row.scene_id, row.repeat), where)
        if seen != where:
            problems.add(where, f"slot {shown(row.model_or_lane)}, {row.scene_id}, {row.repeat} occurs twice, first in {seen}")
        # A clip behind two slots would be counted as two rollouts, so both its names are checked.
        for kind, name in (("sample_id", row.sample_id), ("source_sample_id", row.source_sample_id)):
            used = samples.setdefault(f"{kind} {name}", where)
            if used != where:
                problems.add(where, f"{kind} {shown(name)} is used twice, first in {used}")
        sorted_rows[row.model_or_lane][row.scene_id].append(row)
    for model in policy.models or tuple(sorted_rows):
        for scene in policy.scenes:
            missing = sorted(scene.repeats - {row.repeat for row in sorted_rows[model][scene.scene_id]})
            if missing:
                problems.add(
                    f"model {shown(model)}, scene {shown(scene.scene_id)}",
                    f"{len(missing)} of {len(scene.repeats)} repeats have no row: {shown(missing)}",
                )
    problems.check()
    return {model: {scene: list(held) for scene, held in by_scene.items()} for model, by_scene in sorted_rows.items()}
