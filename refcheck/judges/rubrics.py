"""What a vision-language model is asked about a clip, in our own words: the outcome, and whether the clip can be trusted.

It is made from what a judge may know of a scene, an `Item`, which has no reference: what is expected is in no prompt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from refcheck.command import UserError
from refcheck.untrusted import Problems, Strict, parse_json, parse_model
from scenes.catalog import conf, read_yaml
from scenes.scene import Scene

VERSION = 2
"""Bumped when a prompt or a reply's form changes; readings under another version are no readings under this one."""
WHOLE_CLIP = ("ball", "walking", "pendulum")
"""CaliBench's scenes that are read from the whole clip; its others are read from the last frame."""
GENERIC_RULE = (
    "The state that the labels speak of, at the first moment after the action at which it is settled and clearly seen."
)

IN_SCHEMA, NOT_READABLE, OUT_OF_SCHEMA = "IN_SCHEMA", "NOT_READABLE", "OUT_OF_SCHEMA"
TRUST = ("TRUSTED", "QUESTIONABLE", "UNTRUSTED", "UNCERTAIN")
AXES = ("scene_grounding", "action_execution", "object_continuity", "physical_process")

SYSTEM = (
    "You read single frames of a short video clip and report what they show. Report only what is to be seen: never what you "
    "would have foreseen, never the nearest label, never a guess. Answer with one JSON object and nothing around it."
)


@dataclass(frozen=True)
class Item:
    """What a judge may know of a scene. `last_frame`: CaliBench reads it from the last frame alone.

    `trust` says what would give away a false clip of this scene; empty where nothing is known beyond what holds for all.
    """

    scene_id: str
    action: str
    prompt: str
    outcomes: tuple[str, ...]
    readout_rule: str = GENERIC_RULE
    last_frame: bool = False
    trust: str = ""

    @classmethod
    def of(cls, scene: Scene) -> Item:
        """Take from a scene what its judge may know."""
        name = scene.id.rpartition("/")[2]
        last = scene.benchmark == "calibench" and name not in WHOLE_CLIP
        return cls(name, scene.action, scene.prompt, scene.outcomes, scene.readout_rule, last, trust_of(scene.id))

    @classmethod
    def coverage(cls, name: str, action: str, prompt: str, outcomes: tuple[str, ...]) -> Item:
        """Take what we say of PAWBench's coverage scene `name`, if it is one with these labels, and of any scene otherwise."""
        ours = rubrics()["coverage"].get(name)
        if ours is None or set(ours["outcomes"]) != set(outcomes):  # another version of it has another rule
            return cls(name, action, prompt, outcomes)
        return cls(name, action, prompt, outcomes, ours["readout_rule"], trust=ours["trust"])


@cache
def rubrics() -> dict[str, Any]:
    """Return `conf/rubrics.yaml`: what `trust` says by scene id, and the 25 scenes of the `coverage` track by name."""
    return read_yaml(conf() / "rubrics.yaml", aliases=True)


def trust_of(scene_id: str) -> str:
    """Return what would give away a false clip of one of our scenes, empty where that is not written."""
    return str(rubrics()["trust"].get(scene_id, ""))


class Readout(Strict):
    """A judge's reply about the outcome."""

    scene_id: str
    outcome_readable: bool
    outcome_in_schema: Literal["IN_SCHEMA", "NOT_READABLE", "OUT_OF_SCHEMA"]
    outcome_label: str | None
    observed_result: str
    failure_axes: list[str]


class Trust(Strict):
    """A judge's reply about how the clip came to its end."""

    scene_id: str
    status: Literal["TRUSTED", "QUESTIONABLE", "UNTRUSTED", "UNCERTAIN"]
    scene_grounding: Literal["PASS", "FAIL", "UNCLEAR", "NOT_APPLICABLE"]
    action_execution: Literal["PASS", "FAIL", "UNCLEAR", "NOT_APPLICABLE"]
    object_continuity: Literal["PASS", "FAIL", "UNCLEAR", "NOT_APPLICABLE"]
    physical_process: Literal["PASS", "FAIL", "UNCLEAR", "NOT_APPLICABLE"]


def readout_prompt(item: Item, labels: Sequence[str], pictures: str) -> str:
    """Return the question for the outcome; `labels` are the item's in the order to be shown, `pictures` says what is sent."""
    return "\n".join(
        (
            f"Scene: {item.scene_id}",
            f"Pictures: {pictures}",
            f"Action: {item.action}",
            f"What the clip was asked to show: {item.prompt}",
            f"How the outcome is read: {item.readout_rule}",
            f"Outcome labels, in an order that means nothing: {json.dumps(list(labels), ensure_ascii=False)}",
            "",
            "Which of the labels does the clip end in, by that rule?",
            f"- {IN_SCHEMA}: the pictures show it clearly, and it is one of the labels. Impossible motion before it does not "
            "change the label; it is judged elsewhere.",
            f"- {NOT_READABLE}: it is hidden, blurred, cut off or not yet settled, or two labels fit it alike, or "
            "the action never happened.",
            f"- {OUT_OF_SCHEMA}: a clear result that is none of the labels, such as an object that is stuck or has left.",
            "",
            "Reply with these keys:",
            f'"scene_id": "{item.scene_id}"',
            '"outcome_readable": true or false',
            f'"outcome_in_schema": "{IN_SCHEMA}", "{NOT_READABLE}" or "{OUT_OF_SCHEMA}"',
            f'"outcome_label": one of the labels, letter for letter, or null where it is not {IN_SCHEMA}',
            '"observed_result": one sentence on what is to be seen',
            '"failure_axes": a list of words for what stood in the way, empty where nothing did',
        )
    )


def trust_prompt(item: Item, pictures: str) -> str:
    """Return the question whether the clip is one of this scene, and went as things go. It names no label."""
    return "\n".join(
        (
            f"Scene: {item.scene_id}",
            f"Pictures: {pictures}",
            f"Action: {item.action}",
            f"What the clip was asked to show: {item.prompt}",
            "",
            "Which outcome it ends in is no matter here. Judge how the clip gets there:",
            "- scene_grounding: objects, their number, their marks and the camera are those of the source image.",
            "- action_execution: the action is carried out, once, and by nothing else than it says.",
            "- object_continuity: nothing appears, disappears, splits, merges, swaps places or changes its marks.",
            "- physical_process: motion, contact, gravity and slowing down are such as could be filmed.",
            *((f"In this scene: {item.trust}",) if item.trust else ()),
            "",
            "Reply with these keys:",
            f'"scene_id": "{item.scene_id}"',
            '"status": "TRUSTED" (nothing wrong), "QUESTIONABLE" (a small fault), "UNTRUSTED" (a plain fault), or "UNCERTAIN" '
            "(the pictures do not tell)",
            *(f'"{axis}": "PASS", "FAIL", "UNCLEAR" or "NOT_APPLICABLE"' for axis in AXES),
        )
    )


def repair_prompt(problem: str) -> str:
    """Return what is said to a reply that cannot be used."""
    return f"That reply cannot be used: {problem}. Reply again, to the same question, with the JSON object alone."


def parse_readout(text: str, item: Item) -> Readout:
    """Return a checked reply about the outcome. Raises `ValueError` saying what is wrong; nothing is put right."""
    reply = _model(Readout, text)
    _same_scene(reply.scene_id, item)
    inside = reply.outcome_in_schema == IN_SCHEMA
    if inside and reply.outcome_label not in item.outcomes:
        raise ValueError(f"outcome_label {reply.outcome_label!a} is none of the labels {json.dumps(item.outcomes)}")
    if not inside and reply.outcome_label is not None:
        raise ValueError(f"outcome_label must be null where outcome_in_schema is {reply.outcome_in_schema}")
    if reply.outcome_readable == (reply.outcome_in_schema == NOT_READABLE):
        raise ValueError(f"outcome_readable {reply.outcome_readable} contradicts outcome_in_schema {reply.outcome_in_schema}")
    return reply


def parse_trust(text: str, item: Item) -> Trust:
    """Return a checked reply about trust. Raises `ValueError` saying what is wrong."""
    reply = _model(Trust, text)
    _same_scene(reply.scene_id, item)
    return reply


def _same_scene(said: str, item: Item) -> None:
    if said != item.scene_id:
        raise ValueError(f"scene_id is {said!a} and must be {item.scene_id!a}")


def _model(kind: Any, text: str) -> Any:
    problems = Problems()
    found = parse_model(kind, parse_json(_object(text)), "the reply", problems)
    try:
        problems.check()
    except UserError as error:
        raise ValueError("; ".join(error.problems)) from error
    return found


def _object(text: str) -> str:
    """Return the text from its first brace to its last: prose or a code fence around one object changes nothing it says."""
    first, last = text.find("{"), text.rfind("}")
    if not 0 <= first < last:
        raise ValueError("it holds no JSON object")
    return text[first : last + 1]
