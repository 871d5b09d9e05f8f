"""The judges that `evaluate` can ask, what their readings depend on, and what asking them would take.

It knows no reference and computes no score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from refcheck.command import UserError
from refcheck.evaluate_data import Slot, Target, digest, picture_digest
from refcheck.evaluate_run import Read
from refcheck.judges import rubrics
from refcheck.judges.state import StateJudge
from refcheck.running import pool_of, run_by
from refcheck.untrusted import Problems, parse_json, read_text, shown

REPLIES = "replies.jsonl"


def endpoint_settings(values: Mapping[str, Any]) -> Any:
    """Return the endpoint's `Settings` among the options."""
    from refcheck.judges.endpoint import Settings

    names = Settings.__dataclass_fields__
    return Settings(**{name: values[name] for name in names if name != "model"}, model=values["model"] or "")


def check_judge(targets: Sequence[Target], values: Mapping[str, Any]) -> None:
    """Raise `UserError` where the judge cannot read one of the scenes."""
    without = [target.name for target in targets if target.scene is None]
    if values["judge"] == "trained" and without:
        raise UserError(f"judge=trained learns from a simulator, and there is none of {', '.join(without)}: use judge=vlm")


def _protocol(target: Target, values: Mapping[str, Any]) -> str:
    return values["protocol"] or ("calibench" if target.calibench else "pawbench")


def settings_of(target: Target, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a reading of this scene depends on, beside the clip. No secret is in it."""
    kind, whole = values["judge"], {"judge": values["judge"], "item": asdict(target.item)}
    if kind == "state":
        return whole | {"truth": digest(_truth(Path(values["truth"])))}
    if kind == "trained":
        from refcheck.judges.trained import TrainedJudge
        from simulators.engines.loop import physics_digest

        if target.scene is None:
            raise ValueError(f"{target.name} has no simulator")
        scene = run_by(target.scene, values["engine"])
        return whole | {
            "version": TrainedJudge.version,
            "seed": values["seed"],
            "per_outcome": values["per_outcome"],
            "physics": physics_digest(scene.device, scene.integrator),
            "source": picture_digest(target.source),
        }
    names = ("model", "base_url", "max_tokens", "frames", "seed")
    protocol = _protocol(target, values)
    source = picture_digest(target.source) if protocol == "pawbench" else None
    return whole | {"rubrics": rubrics.VERSION, "protocol": protocol, "source": source} | {name: values[name] for name in names}


def judges_of(
    stack: ExitStack, values: Mapping[str, Any], out: Path, slots: Sequence[Slot]
) -> tuple[Callable[[Target], Read], Callable[[], dict[str, Any]]]:
    """Return what makes a scene's judge, and what says what was used up."""
    from refcheck.judges.vlm import Replies, Verdict, VlmJudge

    kind = values["judge"]
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
    if kind == "state":
        truth = _truth(Path(values["truth"]))
        clips = [(f"{slot.scene}/r{slot.repeat:03d}", slot.path) for slot in slots if slot.path is not None]
        if unknown := [name for name, _ in clips if name not in truth]:
            raise UserError(f"truth={values['truth']} says nothing of {len(unknown)} clips: {', '.join(unknown[:5])}")
        state = StateJudge.sealed([path for _, path in clips], [truth[name] for name, _ in clips])
        return lambda target: lambda path: Verdict(state.read(path)), lambda: {}
    pool = stack.enter_context(pool_of(values, out))

    def trained(target: Target) -> Read:
        from refcheck.judges.trained import TrainedJudge  # scikit-learn: only where it is needed

        if target.scene is None:
            raise ValueError(f"{target.name} has no simulator")
        scene = run_by(target.scene, values["engine"])
        judge = TrainedJudge.train(scene, values["seed"], values["per_outcome"], pool=pool)
        return lambda path: Verdict(judge.read(path))

    return trained, lambda: {}


def _truth(path: Path) -> dict[str, str]:
    problems = Problems()
    text = read_text(path, problems)
    problems.check()
    try:
        truth = parse_json(text or "")
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    if not isinstance(truth, dict) or not all(isinstance(label, str) for label in truth.values()):
        raise UserError(f'{path}: must be an object of labels by clip, {{"A-01/r000": "heads"}}, got {shown(truth)}')
    return truth


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
