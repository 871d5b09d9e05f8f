"""One scene's controls from labels to an opened report: rollouts found, clips drawn, put out blind, read, and opened.

Labels are asked for by a reference here and nowhere else; each is then filled by a rollout that physics ended there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refcheck import blind, clips, control_judges, control_report
from refcheck.blind import Control, Opened
from refcheck.blind_key import Key
from refcheck.command import UserError
from refcheck.control_clips import Recipe, Wish, make
from refcheck.control_judges import Asked
from refcheck.control_sets import Wanted, draw_labels, fill, want
from refcheck.damage import KINDS, WITHOUT_OUTCOME
from scenes.scene import Scene
from simulators.device import NULL_REASONS, Rollouts
from simulators.execute import InfrastructureError, Pool
from simulators.sampling import generator
from simulators.video import CRF, ClipError

AGAIN_CRF = 23  # of clips that a judge which calls nobody reads again: other bytes, the same picture to the eye
Progress = Callable[..., Any]


@dataclass(frozen=True)
class Plan:
    """What is to be drawn: the labels of the set with a rollout for each, and what of damage there is to be, and is not."""

    wanted: Wanted
    chosen: Rollouts
    damaged: tuple[Wish, ...]
    absent: Mapping[str, str]

    def clean(self, scene: Scene) -> list[Wish]:
        """Return the clips of the set itself."""
        ends = zip(self.chosen.index, self.chosen.fact, self.chosen.null, strict=True)
        return [
            Wish(int(index), (int(fact), int(null)), scene.outcomes[label], batch=int(batch))
            for (index, fact, null), label, batch in zip(ends, self.wanted.labels, self.wanted.batch, strict=True)
        ]


def kinds_of(words: str | None) -> tuple[str, ...]:
    """Return the ways of damage named, all where none is. Raises `UserError` for one that is none."""
    named = tuple(word.strip() for word in words.split(",")) if words else tuple(KINDS)
    unknown = [word for word in named if word not in KINDS]
    if unknown:
        raise UserError(f"kinds={words}: {', '.join(unknown)} is no way of damage; there are {', '.join(KINDS)}")
    return named


def toward_of(scene: Scene, label: str | None) -> int:
    """Return the outcome that a negative set turns on: the one named, else the first that is neither certain nor impossible."""
    if label is None:
        q = scene.q()
        return next((k for k in range(len(q)) if 0 < q[k] < 1), 0)
    if label not in scene.outcomes:
        raise UserError(f"toward={label}: {scene.id} has the outcomes {', '.join(scene.outcomes)}")
    return scene.outcomes.index(label)


def plan(scene: Scene, values: Mapping[str, Any], pool: Pool | None, progress: Progress) -> Plan:
    """Decide labels and find a rollout for every clip, none used twice. Raises `UserError` where there are too few."""
    seed, each, kinds = values["seed"], values["damaged"], kinds_of(values["kinds"])
    draws = generator(seed, scene.stream, "labels wanted", 0, 0)
    try:
        toward = toward_of(scene, values["toward"])
        wanted = want(values["set"], scene.q(), values["k"], draws, toward=toward, tilt=values["tilt"])
    except ValueError as error:
        raise UserError(f"set={values['set']} of {scene.id}: {error}") from error
    made = [kind for kind in kinds if KINDS[kind].family != "null"]
    spoiled = draw_labels(scene.q(), each * len(made), generator(seed, scene.stream, "labels damaged", 0, 0))
    labels = np.concatenate([wanted.labels, spoiled])
    needed = np.bincount(labels, minlength=len(scene.outcomes))
    with progress(f"look for {len(labels)} rollouts", len(labels)) as advance:
        found = clips.search(scene, seed, needed, limit=values["limit"], pool=pool, advance=advance)
        chosen = fill(scene, labels, clips.require_all(scene, found, needed, values["limit"]))
    damaged, absent = list[Wish](), dict[str, str]()
    for number, kind in enumerate(made):
        for row in range(len(wanted.labels) + number * each, len(wanted.labels) + (number + 1) * each):
            end = int(chosen.fact[row]), int(chosen.null[row])
            truth = None if kind in WITHOUT_OUTCOME else scene.outcomes[labels[row]]
            damaged.append(Wish(int(chosen.index[row]), end, truth, kind))
    reasons = [kind for kind in kinds if KINDS[kind].family == "null"]
    if each and reasons:
        nulls = clips.find_nulls(scene, seed, each, limit=values["nulls"], pool=pool)
        for kind in reasons:
            rows = np.flatnonzero(nulls.null == NULL_REASONS.index(kind))
            damaged += [Wish(int(nulls.index[r]), (int(nulls.fact[r]), int(nulls.null[r])), None, kind) for r in rows]
            if not len(rows):
                absent[kind] = f"none of {values['nulls']} rollouts ended so"
    return Plan(wanted, chosen[: len(wanted.labels)], tuple(damaged), absent)


def through_the_door(
    scene: Scene,
    controls: list[Control],
    judge: Callable[[Key], Any],
    hidden: Path,
    threads: int,
    pool: Pool | None,
    progress: Progress,
    *,
    crf: int | None = None,
    recode: bool = True,
) -> list[Opened]:
    """Put clips out blind into `hidden`, have them read there, and open the readings with the key: as for any stack.

    They are encoded again at `crf`; with `recode` False the files themselves go, which were then drawn for this alone.
    Raises `InfrastructureError` where a clip is lost on the way out.
    """
    hidden.mkdir(parents=True)
    folder, sealed = hidden / "blind", hidden / "key.json"
    with progress("encode again, then read", 2 * len(controls)) as advance:
        try:
            crf = CRF if crf is None else crf
            key = blind.export([scene], controls, folder, "pawbench", recode=recode, crf=crf, pool=pool, advance=advance)
        except ClipError as error:
            raise InfrastructureError(f"a clip could not be encoded again: {error}") from error
        blind.seal(key, folder, sealed)
        entries = control_judges.ask(judge(key), key, folder, pool, threads, advance)
    control_judges.write_readings(hidden / "readings", entries)
    return blind.open_sealed(hidden / "readings", blind.read_key(sealed))


def retest(
    scene: Scene, controls: list[Control], first: list[Opened], asked: Asked, hidden: Path, threads: int, pool: Pool | None,
    progress: Progress, *, recode: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Read the same clips again: the noise from test to retest, and what the order of the labels does where there is one."""
    told: dict[str, Any] = {"how": "asked again" if asked.calls else f"encoded again at crf {AGAIN_CRF}"}
    by_index = sorted(first, key=lambda one: one.sealed.index)

    def other(judge: Callable[[Key], Any], name: str) -> dict[str, Any]:
        how: dict[str, Any] = {"recode": recode} if asked.calls else {"crf": AGAIN_CRF}
        second = through_the_door(scene, controls, judge, hidden / name, threads, pool, progress, **how)
        return control_report.disagreement(by_index, sorted(second, key=lambda one: one.sealed.index))

    told["retest"] = other(asked.again, "again")
    told["label_order"] = None if asked.reordered is None else other(asked.reordered, "reordered")
    return told


def sweep(
    scene: Scene, seed: int, chosen: Plan, recipes: Mapping[str, Recipe], asked: Asked, hidden: Path, threads: int,
    pool: Pool | None, progress: Progress,
) -> list[dict[str, Any]]:  # fmt: skip
    """Make the same rollouts' clips by each recipe, have them read, and return accuracy and abstention by its value."""
    rows = []
    for value, recipe in recipes.items():
        with progress(f"draw clips, {value}", len(chosen.chosen)) as advance:
            controls, _ = make(scene, seed, chosen.clean(scene), hidden / f"drawn-{value}", recipe, pool, advance)
        opened = through_the_door(scene, controls, asked.of, hidden / f"swept-{value}", threads, pool, progress)
        table = control_report.confusion(scene.outcomes, opened)
        answered, right = int(table[:, :-1].sum()), int(np.trace(table[:, :-1]))
        row = {"value": value, "clips": int(table.sum()), "answered": answered, "right": right, "confusion": table}
        rows.append(row | {"interval": control_report.interval(right, answered) if answered else None})
    return rows
