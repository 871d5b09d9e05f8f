"""The judges that `evaluate` can ask, what their readings depend on, and what asking them would take.

It knows no reference and computes no score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refcheck.command import UserError
from refcheck.corrected import read_controls
from refcheck.evaluate_data import Slot, Target, digest, picture_digest
from refcheck.evaluate_run import Read
from refcheck.judges import rubrics
from refcheck.judges.noisy import NoisyJudge
from refcheck.judges.state import StateJudge
from refcheck.running import pool_of, run_by
from refcheck.tally import Reading
from refcheck.untrusted import Problems, read_json, shown

REPLIES = "replies.jsonl"
SINGLE = ("trained", "vlm", "state", "noisy")


def endpoint_settings(values: Mapping[str, Any]) -> Any:
    """Return the endpoint's `Settings` among the options."""
    from refcheck.judges.endpoint import Settings

    names = Settings.__dataclass_fields__
    return Settings(**{name: values[name] for name in names if name != "model"}, model=values["model"] or "")


def check_judge(targets: Sequence[Target], slots: Sequence[Slot], values: Mapping[str, Any]) -> None:
    """Raise `UserError` where the judge cannot read one of the scenes, or what it is told of them is not of them."""
    without = [target.name for target in targets if target.scene is None]
    if "trained" in judges_asked(values) and without:
        raise UserError(f"judge=trained learns from a simulator, and there is none of {', '.join(without)}: use judge=vlm")
    if {"state", "noisy"} & set(judges_asked(values)):
        _check_truth(targets, slots, Path(values["truth"]))
    if "vlm" in judges_asked(values) and not values["dry"]:
        endpoint_settings(values).key()
    for target in targets:
        if "noisy" in judges_asked(values):
            _confusion(Path(values["confusion"]), target)
        weights_of(target.name, target.expected.outcomes, values)


def _check_truth(targets: Sequence[Target], slots: Sequence[Slot], path: Path) -> None:
    truth, problems = _truth(path), Problems()
    outcomes = {target.name: target.expected.outcomes for target in targets}
    clips = [(f"{slot.scene}/r{slot.repeat:03d}", outcomes[slot.scene]) for slot in slots if slot.path is not None]
    if unknown := [name for name, _ in clips if name not in truth]:
        problems.add(f"truth={path}", f"says nothing of {len(unknown)} clips: {', '.join(unknown[:5])}")
    for name, labels in clips:
        if name in truth and truth[name] not in labels:
            problems.add(f"truth={path}", f"{name} is {shown(truth[name])}, which is none of {', '.join(labels)}")
    problems.check()


def _protocol(target: Target, values: Mapping[str, Any]) -> str:
    return values["protocol"] or ("calibench" if target.calibench else "pawbench")


def judges_asked(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the judges that are asked: the members of an ensemble, or the one."""
    if values["judge"] != "ensemble":
        return (values["judge"],)
    return tuple(word.strip() for word in (values["of"] or "").split(",") if word.strip())


def judge_problems(values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the keys that say which judge is asked."""
    problems, asked = [], judges_asked(values)
    if values["judge"] == "ensemble":
        wrong = [word for word in asked if word not in SINGLE]
        if len(asked) < 2 or wrong or len(set(asked)) < len(asked):
            problems.append(f"of={values['of']}: an ensemble is of two or more of {', '.join(SINGLE)}, with commas, none twice")
    elif values["of"] is not None or values["weights"] is not None:
        problems.append("of= and weights= go with judge=ensemble, and with no other judge")
    if ({"state", "noisy"} & set(asked) != set()) != (values["truth"] is not None):
        problems.append("truth= goes with judge=state or noisy, which need it, and with no other judge")
    if ("noisy" in asked) != (values["confusion"] is not None):
        problems.append("confusion= goes with judge=noisy, which needs it, and with no other judge")
    return problems


def settings_of(target: Target, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a reading of this scene depends on, beside the clip. No secret is in it."""
    whole = {"judge": values["judge"], "item": asdict(target.item)}
    if values["judge"] != "ensemble":
        return whole | _settings(values["judge"], target, values)
    weights = [table.tolist() for table in weights_of(target.name, target.expected.outcomes, values)]
    return whole | {"weights": weights, "of": {kind: _settings(kind, target, values) for kind in judges_asked(values)}}


def _settings(kind: str, target: Target, values: Mapping[str, Any]) -> dict[str, Any]:
    if kind in ("state", "noisy"):
        told: dict[str, Any] = {"truth": digest(_truth(Path(values["truth"])))}
        if kind == "noisy":
            told |= {"confusion": digest(_confusion(Path(values["confusion"]), target)), "seed": values["seed"]}
        return told
    if kind == "trained":
        from refcheck.judges.trained import TrainedJudge
        from simulators.engines.loop import physics_digest

        if target.scene is None:
            raise ValueError(f"{target.name} has no simulator")
        scene = run_by(target.scene, values["engine"])
        return {
            "version": TrainedJudge.version,
            "seed": values["seed"],
            "per_outcome": values["per_outcome"],
            "physics": physics_digest(scene.device, scene.integrator),
            "source": picture_digest(target.source),
        }
    names = ("model", "base_url", "max_tokens", "frames", "seed")
    protocol = _protocol(target, values)
    source = picture_digest(target.source) if protocol == "pawbench" else None
    return {"rubrics": rubrics.VERSION, "protocol": protocol, "source": source} | {name: values[name] for name in names}


def judges_of(
    stack: ExitStack, values: Mapping[str, Any], out: Path, slots: Sequence[Slot]
) -> tuple[Callable[[Target], Read], Callable[[], dict[str, Any]]]:
    """Return what makes a scene's judge, and what says what was used up."""
    if values["judge"] != "ensemble":
        return _single(values["judge"], stack, values, out, slots)
    from refcheck.judges.ensemble import EnsembleJudge

    members = {kind: _single(kind, stack, values, out, slots) for kind in judges_asked(values)}

    def together(target: Target) -> Read:
        reads = {kind: of(target) for kind, (of, _) in members.items()}
        outcomes = target.expected.outcomes
        judge = EnsembleJudge(tuple(_Named(kind) for kind in reads), outcomes, weights_of(target.name, outcomes, values))
        return lambda path: judge.verdict([one(path) for one in reads.values()])

    return together, lambda: {kind: used for kind, (_, spent) in members.items() if (used := spent())}


@dataclass(frozen=True)
class _Named:
    """A member of an ensemble whose readings come from elsewhere."""

    name: str

    def read(self, path: Path) -> Reading:
        raise NotImplementedError(f"{self.name} is asked by whoever asks all of the ensemble")


def _single(
    kind: str, stack: ExitStack, values: Mapping[str, Any], out: Path, slots: Sequence[Slot]
) -> tuple[Callable[[Target], Read], Callable[[], dict[str, Any]]]:
    from refcheck.judges.vlm import Replies, Verdict, VlmJudge

    if kind == "vlm":
        from refcheck.judges.endpoint import Endpoint

        endpoint, replies = Endpoint(endpoint_settings(values)), Replies(out / REPLIES)
        stack.callback(replies.close)
        stack.callback(endpoint.close)

        def asked(target: Target) -> Read:
            protocol = _protocol(target, values)
            source = target.source if protocol == "pawbench" else None
            judge = VlmJudge(target.item, source, endpoint, replies, protocol, values["frames"], values["seed"])  # type: ignore[arg-type]
            return judge.judge

        return asked, lambda: {
            "requests": endpoint.requests,
            "replies_reused": replies.used,
            "input_tokens": endpoint.input_tokens,
            "output_tokens": endpoint.output_tokens,
            "completions_without_usage": endpoint.unpriced,
            "dollars": endpoint.spent,
        }
    if kind in ("state", "noisy"):
        truth = _truth(Path(values["truth"]))
        paths = [(f"{slot.scene}/r{slot.repeat:03d}", slot.path) for slot in slots if slot.path is not None]
        clips = [(name, path) for name, path in paths if path.stat().st_size]  # an empty file shows nothing, whatever is said
        state = StateJudge.sealed([path for _, path in clips], [truth[name] for name, _ in clips])
        if kind == "state":
            return lambda target: lambda path: Verdict(state.read(path)), lambda: {}

        def erring(target: Target) -> Read:
            table = _confusion(Path(values["confusion"]), target)
            judge = NoisyJudge.of(state, table, target.expected.outcomes, values["seed"])
            return lambda path: Verdict(judge.read(path))

        return erring, lambda: {}
    pool = stack.enter_context(pool_of(values, out))

    def trained(target: Target) -> Read:
        from refcheck.judges.trained import TrainedJudge  # scikit-learn: only where it is needed

        if target.scene is None:
            raise ValueError(f"{target.name} has no simulator")
        scene = run_by(target.scene, values["engine"])
        judge = TrainedJudge.train(scene, values["seed"], values["per_outcome"], pool=pool)
        return lambda path: Verdict(judge.read(path))

    return trained, lambda: {}


def weights_of(name: str, outcomes: tuple[str, ...], values: Mapping[str, Any]) -> tuple[NDArray[np.float64], ...]:
    """Return what `controls` measured of each member on this scene; nothing where votes are not weighed. Raises `UserError`."""
    if values["weights"] is None:
        return ()
    found = []
    for kind in judges_asked(values):
        path = Path(values["weights"]) / kind
        measured, _ = read_controls(path)
        held = [one for one in measured.values() if name in (one.scene, one.scene.rpartition("/")[2])]
        if not held or held[0].judge != kind:
            raise UserError(f"weights={values['weights']}: {path} holds no result of `controls` for {kind} on {name}")
        found.append(np.asarray(held[0].ordered(outcomes), np.float64))
    return tuple(found)


def _confusion(path: Path, target: Target) -> dict[str, dict[str, float]]:
    """Return the rows that confusion= has for a scene. Raises `UserError` for a file that is no such thing."""
    held = _object(path, '{"A-01": {"heads": {"tails": 0.02, "null": 0.05}}}')
    if target.name not in held:
        raise UserError(f"confusion={path} has no {target.name}, and a scene that errs nowhere is {{}}")
    table = held[target.name]
    try:
        NoisyJudge.of(StateJudge({}), table, target.expected.outcomes)
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}, {target.name}: {error}") from error
    return table  # type: ignore[no-any-return]


def _truth(path: Path) -> dict[str, str]:
    truth = _object(path, '{"A-01/r000": "heads"}')
    if not all(isinstance(label, str) for label in truth.values()):
        raise UserError(f'{path}: must be an object of labels by clip, {{"A-01/r000": "heads"}}, got {shown(truth)}')
    return truth


def _object(path: Path, example: str) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: must be an object, such as {example}, got {shown(value)}")
    return value


def clips_in(slots: Sequence[Slot]) -> int:
    """Return how many slots have a clip."""
    return sum(slot.path is not None for slot in slots)


def estimate_of(targets: Sequence[Target], slots: Sequence[Slot], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the whole would take at most, without what a checkpoint spares and without repairs and retries."""
    from refcheck.judges.vlm import clip_calls, clip_tokens

    calls = tokens = 0
    for target in targets:
        clips = [slot.path for slot in slots if slot.scene == target.name and slot.path is not None]
        if clips:
            protocol = _protocol(target, values)
            calls += len(clips) * clip_calls(protocol)
            tokens += len(clips) * clip_tokens(target.item, protocol, values["frames"], clips[0], values["picture_tokens"])
    most = calls * values["max_tokens"]
    return {
        "clips": clips_in(slots),
        "calls": calls,
        "input_tokens": tokens,
        "output_tokens_at_most": most,
        "dollars": endpoint_settings(values).cost(tokens, most),
        "minutes_at_least": calls / values["per_minute"] if values["per_minute"] else None,
        "disk_bytes": calls * 4 * values["max_tokens"],
        "assumes": f"{values['picture_tokens']} tokens a picture, 4 characters a token, {values['max_tokens']} tokens a reply",
    }
