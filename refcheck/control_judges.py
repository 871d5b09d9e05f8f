"""The judges that controls can be put before, and what asking them takes: each clip once, from behind the blind door.

A judge is made from what a judge may know of a scene. The truth is in the key, which only the oracle is given.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from refcheck.blind import MODEL, name_of, path_of
from refcheck.blind_key import Key
from refcheck.clips import plain, source_of
from refcheck.command import UserError
from refcheck.evaluate_judges import REPLIES, SINGLE, endpoint_settings, judges_asked, weights_of
from refcheck.evaluate_run import BROKEN, CHECKPOINT, Entry, row_lines
from refcheck.judges import Failure, Judge, read_all
from refcheck.judges.noisy import NoisyJudge
from refcheck.judges.rubrics import Item
from refcheck.judges.state import fingerprint
from refcheck.labels import Row
from refcheck.tally import Reading
from refcheck.untrusted import Problems, parse_json, read_text
from scenes.scene import Scene
from simulators.execute import Pool
from simulators.video import ClipError

JUDGES = (*SINGLE, "ensemble")


@dataclass(frozen=True)
class Oracle:
    """The judge that knows: it looks a clip's bytes up in the key, nulls included, and errs nowhere."""

    truth: Mapping[str, Reading]

    name: ClassVar[str] = "state"

    @classmethod
    def of(cls, key: Key) -> Oracle:
        """Take every clip's truth from the key."""
        return cls({c.sha256: Reading(c.truth, "" if c.truth else c.null or "unreadable", confidence=1.0) for c in key.clips})

    def read(self, path: Path) -> Reading:
        """Return the truth. Raises `ClipError` for a clip that the key does not know."""
        try:
            return self.truth[fingerprint(path)]
        except KeyError as error:
            raise ClipError(f"{path} is none of the clips whose truth was sealed") from error


@dataclass
class Asked:
    """A judge for one scene: `of(key)` gives it, `again(key)` gives it afresh and `reordered(key)` with other label orders.

    Where it calls nobody, asking it again means clips encoded once more; `cost` says what calls took.
    """

    name: str
    described: dict[str, Any]
    of: Callable[[Key], Judge]
    again: Callable[[Key], Judge]
    reordered: Callable[[Key], Judge] | None = None
    calls: bool = False
    cost: Callable[[], dict[str, Any]] = dict


def check_judge(values: Mapping[str, Any], scene: Scene) -> None:
    """Raise `UserError` where a file or a key that the judge needs is not there, or is no such thing."""
    asked = judges_asked(values)
    if "noisy" in asked:
        _errors(Path(values["confusion"]), scene)
    if "vlm" in asked:
        endpoint_settings(values).key()
    weights_of(name_of(scene.id), scene.outcomes, values)


def judge_for(
    values: Mapping[str, Any], scene: Scene, stack: ExitStack, out: Path | None, pool: Pool | None, progress: Callable[..., Any]
) -> Asked:
    """Return the judge that `values` ask for, made ready for a scene. Raises `UserError` where it cannot be."""
    if values["judge"] == "ensemble":
        of = {kind: judge_for({**values, "judge": kind}, scene, stack, out, pool, progress) for kind in judges_asked(values)}
        return _together(of, scene, weights_of(name_of(scene.id), scene.outcomes, values))
    if values["judge"] == "state":
        return Asked("state", {}, Oracle.of, Oracle.of)
    if values["judge"] == "noisy":
        rows, seed = _errors(Path(values["confusion"]), scene), values["seed"]

        def erring(again: int) -> Callable[[Key], Judge]:
            return lambda key: NoisyJudge.of(Oracle.of(key), rows, scene.outcomes, seed, again)

        return Asked("noisy", {"confusion": rows}, erring(0), erring(1))
    if values["judge"] == "vlm":
        return _vlm(values, scene, stack, out)
    from refcheck.judges.trained import TRAINING, TrainedJudge  # scikit-learn: only where it is needed

    with progress("train the judge", values["per_outcome"] * len(scene.outcomes)) as advance:
        judge = TrainedJudge.train(scene, values["seed"], values["per_outcome"], pool=pool, advance=advance)
    told = {"version": judge.version, "stream": scene.stream + TRAINING, "per_outcome": values["per_outcome"]}
    told |= {"threshold": judge.threshold, **plain(judge.training)}
    return Asked("trained", told, lambda key: judge, lambda key: judge)


def _together(of: Mapping[str, Asked], scene: Scene, weights: tuple[NDArray[np.float64], ...]) -> Asked:
    """Return an ensemble: each of its judges is asked in its own way."""
    from refcheck.judges.ensemble import EnsembleJudge

    def together(judges: Callable[[Asked], Callable[[Key], Judge]]) -> Callable[[Key], Judge]:
        return lambda key: EnsembleJudge(tuple(judges(one)(key) for one in of.values()), scene.outcomes, weights)

    reordered = together(lambda one: one.reordered or one.of) if any(one.reordered for one in of.values()) else None
    told = {"of": {kind: one.described for kind, one in of.items()}, "weighed": bool(weights)}
    calls = any(one.calls for one in of.values())
    cost = {kind: one.cost for kind, one in of.items() if one.calls}
    return Asked(
        "ensemble", told, together(lambda one: one.of), together(lambda one: one.again), reordered, calls,
        lambda: next((one() for one in cost.values()), {}),
    )  # fmt: skip


def _errors(path: Path, scene: Scene) -> dict[str, dict[str, float]]:
    """Return the rows that confusion= has for a scene. Raises `UserError` for a file that is no such thing."""
    problems = Problems()
    text = read_text(path, problems)
    problems.check()
    try:
        rows = parse_json(text or "")[name_of(scene.id)]
        NoisyJudge.of(Oracle({}), rows, scene.outcomes)
    except KeyError as error:
        raise UserError(f"confusion={path} has no {error}, the scene that is judged") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"confusion={path}, {scene.id}: {error}") from error
    return dict(rows)


def _vlm(values: Mapping[str, Any], scene: Scene, stack: ExitStack, out: Path | None) -> Asked:
    from refcheck.judges.endpoint import Endpoint
    from refcheck.judges.vlm import Replies, VlmJudge, family

    endpoint = Endpoint(endpoint_settings(values))
    kept = Replies(None if out is None else out / REPLIES)
    stack.callback(kept.close)
    stack.callback(endpoint.close)
    protocol = values["protocol"] or ("calibench" if scene.benchmark == "calibench" else "pawbench")
    source = source_of(scene) if protocol == "pawbench" else None

    def asked(replies: Replies, seed: int) -> Callable[[Key], Judge]:
        judge = VlmJudge(Item.of(scene), source, endpoint, replies, protocol, values["frames"], seed)  # type: ignore[arg-type]
        return lambda key: cast(Judge, judge)

    def cost() -> dict[str, Any]:
        told = {"requests": endpoint.requests, "replies_reused": kept.used, "dollars": endpoint.spent}
        return told | {"input_tokens": endpoint.input_tokens, "output_tokens": endpoint.output_tokens}

    told = {"model": values["model"], "family": family(values["model"]), "protocol": protocol, "frames": values["frames"]}
    seed = values["seed"]
    return Asked("vlm", told, asked(kept, seed), asked(Replies(), seed), asked(Replies(), seed + 1), True, cost)


def ask(judge: Judge, key: Key, folder: Path, pool: Pool | None, threads: int, advance: Callable[[int], Any]) -> list[Entry]:
    """Put every clip of a blind folder before a judge; what could not be asked is a failure and no answer.

    A judge that calls someone is asked by `threads` at a time, from this process; any other on the pool.
    """
    paths = [path_of(folder, clip.scene, clip.repeat) for clip in key.clips]
    trust: list[dict[str, str] | None] = [None] * len(paths)
    audit = getattr(judge, "judge", None)
    if not callable(audit):
        said: list[Reading | Failure] = read_all(judge, paths, pool, advance)
    else:
        with ThreadPoolExecutor(threads) as workers:
            both = list(workers.map(lambda path: _audited(audit, path, advance), paths))
        said, trust = [one for one, _ in both], [one for _, one in both]
    return [_entry(key, k, one, trust[k]) for k, one in enumerate(said)]


def _audited(
    audit: Callable[[Path], Any], path: Path, advance: Callable[[int], Any]
) -> tuple[Reading | Failure, dict[str, str] | None]:
    try:
        verdict = audit(path)
    except (ClipError, OSError) as error:  # also a call that failed
        return Failure(str(error)), None
    finally:
        advance(1)
    return verdict.reading, verdict.trust


def _entry(key: Key, number: int, said: Reading | Failure, trust: dict[str, str] | None) -> Entry:
    clip = key.clips[number]
    failed, label = isinstance(said, Failure), None if isinstance(said, Failure) else said.outcome
    source = f"{MODEL}::{clip.scene}::r{clip.repeat:03d}"
    row = Row(
        sample_id=f"{source}::repeat={clip.repeat}",
        source_sample_id=source,
        scene_id=clip.scene,
        track="calibration" if key.scenes[clip.scene].q is not None else "coverage",
        model_or_lane=MODEL,
        repeat_index=clip.repeat,
        observation="infrastructure_failure" if failed else "null_observation" if label is None else "outcome",
        outcome_label=label,
        failure_code=BROKEN if failed else None,
    )
    reading = None if isinstance(said, Failure) else plain(dataclasses.asdict(said))
    message = said.reason if isinstance(said, Failure) else ""
    return Entry(
        scene_id=clip.scene, repeat_index=clip.repeat, video_fingerprint=clip.sha256, row=row, reading=reading, trust=trust,
        message=message,
    )  # fmt: skip


def write_readings(folder: Path, entries: Sequence[Entry]) -> None:
    """Write what a stack hands back: PAWBench's rows, and the checkpoint with causes, confidence and trust."""
    folder.mkdir()
    rows = row_lines(entries)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    lines = [json.dumps(plain(entry.model_dump()), ensure_ascii=False) + "\n" for entry in entries]
    (folder / CHECKPOINT).write_text("".join(lines), "utf-8")
