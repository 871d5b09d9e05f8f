"""A vision-language model as a judge: PAWBench's two calls a clip, or CaliBench's three votes, over sampled frames.

It is given frames, the source image and an `Item`; it has no reference, no file name and no other clip to go by.
Protocols: Pu et al. 2026, arXiv 2608.27345 (two calls, frames); Sadeghi et al. 2026, arXiv 2608.16829 (three votes).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from PIL import Image as Pillow

from refcheck.journal import Journal
from refcheck.judges import rubrics
from refcheck.judges.endpoint import CallError, Endpoint, Message
from refcheck.judges.rubrics import Item
from refcheck.judges.state import fingerprint
from refcheck.labels import decided
from refcheck.tally import Reading, null_of
from simulators.render.canvas import Image
from simulators.sampling import VALUES, generator
from simulators.video import ClipError, ClipInfo, clip_info, evenly_spaced, read_clip

Protocol = Literal["pawbench", "calibench"]
Frames = Literal["eight", "rate"]
Reply = TypeVar("Reply")
Asked = tuple[Reply, float, float]  # a reply, the seconds it took, and the dollars
EDGE, QUALITY = 768, 85  # px of the longest edge and JPEG's quality, as PAWBench's judge has them
EIGHT, PER_SECOND, VOTES = 8, 2.0, 3
NULL = {rubrics.NOT_READABLE: "unreadable", rubrics.OUT_OF_SCHEMA: "out_of_schema"}
FAMILIES = {
    "openai": ("gpt", "o3", "o4", "sora", "chatgpt", "openai"),
    "google": ("gemini", "gemma", "veo", "google"),
    "anthropic": ("claude", "anthropic"),
    "alibaba": ("qwen", "qwq", "qvq", "wan", "happyhorse", "alibaba"),
    "bytedance": ("seed", "seedance", "doubao", "bytedance"),
    "kuaishou": ("kling", "keye", "kuaishou"),
    "tencent": ("hunyuan", "hy", "tencent"),
    "minimax": ("minimax", "hailuo"),
    "xai": ("grok", "xai"),
    "meta": ("llama", "meta", "movie"),
    "nvidia": ("cosmos", "nemotron", "nvidia"),
    "lightricks": ("ltx", "ltxv", "lightricks"),
    "zhipu": ("glm", "cogvideo", "cogvideox", "zhipu"),
}


def family(model: str) -> str | None:
    """Return who made a model, by the first word of its name that tells; None where none does."""
    words = "".join(c if c.isalpha() else " " for c in model.lower()).split()
    whole = "".join(c if c.isalnum() else " " for c in model.lower()).split()
    for word in (*words, *whole):
        for maker, names in FAMILIES.items():
            if word in names:
                return maker
    return None


def picks(frames: int, fps: float, how: Frames | Literal["last"]) -> list[int]:
    """Return which of a clip's frames are shown, in order.

    Eight evenly spaced; two a second with first, middle and last; or the last alone. Raises `ClipError` where the rate is
    asked for and the clip states none.
    """
    if how == "last":
        return [frames - 1]
    if how == "eight":
        return evenly_spaced(range(frames), EIGHT)
    if not (math.isfinite(fps) and fps > 0.0):
        raise ClipError("the clip states no frame rate, and two frames a second were asked for: use frames=eight")
    every = (int(k * fps / PER_SECOND + 0.5) for k in range(math.ceil(frames * PER_SECOND / fps)))
    return sorted({0, (frames - 1) // 2, frames - 1, *(index for index in every if index < frames)})


def jpeg(image: Image) -> bytes:
    """Return a picture (H, W, 3) as JPEG, its longest edge at most `EDGE` pixels."""
    picture = Pillow.fromarray(np.ascontiguousarray(image))
    picture.thumbnail((EDGE, EDGE), Pillow.Resampling.LANCZOS)  # never enlarges
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def evidence(path: Path, source: Image | None, how: Frames | Literal["last"]) -> tuple[list[bytes], str, ClipInfo]:
    """Return the pictures of a clip as JPEG, the source image first where there is one; words for what they are; its size.

    Raises `ClipError` for a clip that cannot be read.
    """
    info = clip_info(path)
    wanted = picks(info.frames, info.fps, how)
    chosen = set(wanted)
    images = [jpeg(frame) for index, frame in enumerate(read_clip(path)) if index in chosen]
    which = f"frames {', '.join(str(index + 1) for index in wanted)} of {info.frames}, in the order of time"
    told = "the last frame of the clip" if how == "last" else f"{which}; the last is the clip's last"
    if source is not None:
        return [jpeg(source), *images], f"first the source image, which the clip starts from; then {told}.", info
    return images, f"{told}.", info


class Replies:
    """Replies that could be used, kept under a key that holds everything they depend on. Without a path they are not kept."""

    def __init__(self, path: Path | None = None) -> None:
        self._journal = None if path is None else Journal(path)
        lines = [] if self._journal is None else self._journal.lines
        self._held = {str(line.get("key")): str(line.get("reply")) for line in lines}
        self.used = 0

    def get(self, key: str) -> str | None:
        """Return the reply kept under a key."""
        found = self._held.get(key)
        self.used += found is not None
        return found

    def put(self, key: str, reply: str, told: dict[str, Any]) -> None:
        """Keep a reply; it is on the disk before this returns. `told` says what it was about, for people."""
        self._held[key] = reply
        if self._journal is not None:
            self._journal.add({"schema_version": "quincunx.replies/v1", "key": key, **told, "reply": reply})

    def close(self) -> None:
        """Give the file up."""
        if self._journal is not None:
            self._journal.close()


@dataclass(frozen=True)
class Verdict:
    """A reading with the trust audit beside it: `trust` its status and axes, or `trust_failure` why there is none.

    `clip` is what was decoded, where the judge tells.
    """

    reading: Reading
    trust: dict[str, str] | None = None
    trust_failure: str | None = None
    clip: ClipInfo | None = None


@dataclass(frozen=True, eq=False)
class VlmJudge:
    """Reads one scene's clips through an endpoint. `seed` orders the labels, anew for each clip and call."""

    item: Item
    source: Image | None
    endpoint: Endpoint
    replies: Replies
    protocol: Protocol = "pawbench"
    frames: Frames = "eight"
    seed: int = 0

    name: ClassVar[str] = "vlm"

    def read(self, path: Path) -> Reading:
        """Return what the model says of a clip. Raises `ClipError` for a clip, `CallError` for a call: neither is an answer."""
        return self.judge(path).reading

    def judge(self, path: Path) -> Verdict:
        """Return the reading and, by PAWBench's protocol, the trust audit. A failing audit leaves the reading as it is."""
        if self.protocol == "calibench":
            images, told, info = evidence(path, None, "last" if self.item.last_frame else self.frames)
            clip = fingerprint(path)  # after what limits its size
            votes = [self._readout(clip, images, told, f"vote-{k + 1}") for k in range(VOTES)]
            return Verdict(_voted(votes), clip=info)
        images, told, info = evidence(path, self.source, self.frames)
        clip = fingerprint(path)
        reading = _voted([self._readout(clip, images, told, "readout")])
        try:
            said, _, cost = self._ask(clip, images, "trust", rubrics.trust_prompt(self.item, told), rubrics.parse_trust)
        except CallError as error:
            return Verdict(reading, trust_failure=error.code, clip=info)
        reading = replace(reading, cost=reading.cost + cost)  # what asking about the clip took, both calls
        return Verdict(reading, {"status": said.status, **{axis: getattr(said, axis) for axis in rubrics.AXES}}, clip=info)

    def order(self, clip: str, call: str) -> tuple[str, ...]:
        """Return the labels in the order that one call shows them in."""
        draws = generator(self.seed, f"labels/{self.item.scene_id}/{clip}", call, 0, VALUES)
        return tuple(self.item.outcomes[k] for k in draws.permutation(len(self.item.outcomes)))

    def _readout(self, clip: str, images: Sequence[bytes], told: str, call: str) -> Asked[rubrics.Readout]:
        prompt = rubrics.readout_prompt(self.item, self.order(clip, call), told)
        return self._ask(clip, images, call, prompt, rubrics.parse_readout)

    def _ask(
        self, clip: str, images: Sequence[bytes], call: str, prompt: str, parse: Callable[[str, Item], Reply]
    ) -> Asked[Reply]:
        """Return a checked reply, the seconds it took and the dollars; one that cannot be used is asked for once more.

        Raises `CallError`.
        """
        key = self._key(clip, images, call, prompt)
        kept = self.replies.get(key)
        if kept is not None:
            return parse(kept, self.item), 0.0, 0.0
        messages: list[Message] = [
            {"role": "system", "content": rubrics.SYSTEM},
            {"role": "user", "content": _content(prompt, images)},
        ]
        latency, cost, problem = 0.0, 0.0, ""
        for _ in range(2):
            said = self.endpoint.complete(messages)
            latency, cost = latency + said.latency, cost + said.cost
            try:
                if not said.complete:
                    raise ValueError("it was cut off before its end")
                reply = parse(said.text, self.item)
            except ValueError as error:
                problem = str(error)
                messages = [
                    *messages[:2],
                    {"role": "assistant", "content": said.text or "(nothing)"},
                    {"role": "user", "content": rubrics.repair_prompt(problem)},
                ]
                continue
            self.replies.put(key, said.text, {"scene_id": self.item.scene_id, "clip": clip, "call": call})
            return reply, latency, cost
        raise CallError("malformed_reply", f"{call}, asked twice: {problem[:300]}")

    def _key(self, clip: str, images: Sequence[bytes], call: str, prompt: str) -> str:
        """Return the digest of everything that a reply depends on; the prompt holds the order of the labels."""
        settings = self.endpoint.settings
        whole = {
            "rubrics": rubrics.VERSION,
            "base_url": settings.base_url,
            "model": settings.model,
            "max_tokens": settings.max_tokens,
            "system": rubrics.SYSTEM,
            "prompt": prompt,
            "images": [hashlib.sha256(image).hexdigest() for image in images],
            "clip": clip,
            "call": call,
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _content(prompt: str, images: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return a message's parts: the pictures in their order, then the question."""
    urls = [f"data:image/jpeg;base64,{base64.b64encode(image).decode()}" for image in images]
    return [*({"type": "image_url", "image_url": {"url": url}} for url in urls), {"type": "text", "text": prompt}]


def _voted(replies: Sequence[Asked[rubrics.Readout]]) -> Reading:
    """Return what most calls say, a null being a vote; its reason is that of most nulls, the first where they are even."""
    votes = [said.outcome_label for said, _, _ in replies]
    latency, cost = sum(seconds for _, seconds, _ in replies), sum(dollars for _, _, dollars in replies)
    labels = sorted({vote for vote in votes if vote is not None})
    answer = decided([None if vote is None else labels.index(vote) for vote in votes])
    if answer is not None:
        return Reading(labels[answer], votes=tuple(votes), latency=latency, cost=cost)
    reasons = [NULL[said.outcome_in_schema] for said, _, _ in replies if said.outcome_label is None]
    return Reading(None, null_of(reasons), votes=tuple(votes), latency=latency, cost=cost)


def clip_calls(protocol: str) -> int:
    """Return how many calls a clip takes, without repairs."""
    return VOTES if protocol == "calibench" else 2


def clip_tokens(item: Item, protocol: str, frames: Frames, clip: Path, picture_tokens: int) -> int:
    """Return about how many input tokens a clip like `clip` takes, at 4 characters a token. Raises no error for a broken one.

    A clip that cannot be read is taken for one of eight pictures: it will be named when its turn comes.
    """
    how: Frames | Literal["last"] = "last" if protocol == "calibench" and item.last_frame else frames
    try:
        info = clip_info(clip) if how == "rate" else None
        pictures = 1 if how == "last" else len(picks(info.frames, info.fps, how)) if info else EIGHT
    except ClipError:
        pictures = EIGHT
    readout = len(rubrics.SYSTEM + rubrics.readout_prompt(item, item.outcomes, "")) // 4
    if protocol == "calibench":
        return VOTES * (readout + pictures * picture_tokens)
    trust = len(rubrics.SYSTEM + rubrics.trust_prompt(item, "")) // 4
    return readout + trust + 2 * (pictures + 1) * picture_tokens
