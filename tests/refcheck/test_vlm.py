"""The vision-language judge against a provider that fails: no reading is lost, no failure is an answer, no key gets out."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import openai._base_client
import pytest
from PIL import Image
from provider import COLOURS, KEY, Provider

from refcheck.command import UserError
from refcheck.judges import read_all, rubrics
from refcheck.judges.endpoint import CallError, Endpoint, Settings
from refcheck.judges.rubrics import Item
from refcheck.judges.state import fingerprint
from refcheck.judges.vlm import Replies, VlmJudge, evidence, family, picks
from scenes.catalog import scene_ids
from scenes.load import load_scene
from simulators.video import ClipError, write_clip

ITEM = Item("A-03", "Spin the wheel once.", "The wheel turns and stops.", ("red", "blue", "green"))
SOURCE = np.tile(np.arange(64, dtype=np.uint8)[None, :, None], (48, 1, 3))


def paint(path, label, mark=0, frames=9):
    """Write a clip whose lower half is grey first and, from the middle on, in the colour of `label`, or grey to the end."""
    pattern = np.random.Generator(np.random.Philox(mark)).integers(0, 255, (24, 64, 1), np.uint8).repeat(3, axis=2)
    told = COLOURS.get(label, (128, 128, 128))
    pictures = []
    for k in range(frames):
        lower = np.full((24, 64, 3), told if k > frames // 2 else (128, 128, 128), np.uint8)
        pictures.append(np.concatenate([pattern, lower]))
    write_clip(path, pictures, 16.0)
    return path


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.02)
    monkeypatch.setattr("refcheck.judges.endpoint.BACKOFF", 0.02)
    server = Provider()
    yield server
    server.close()


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return paint(tmp_path_factory.mktemp("clips") / "a.mp4", "blue")


def judge_at(provider, replies=None, protocol="pawbench", seed=0, item=ITEM, **changes):
    settings = Settings(**{"model": "eye-1", "base_url": provider.url, "api_key_env": "JUDGE_KEY", "timeout": 0.6} | changes)
    return VlmJudge(item, SOURCE, Endpoint(settings), replies or Replies(), protocol, "eight", seed)


# --- evidence and prompts ---


def test_frames_are_those_of_the_protocol():
    assert picks(49, 16.0, "eight") == [0, 7, 14, 21, 27, 34, 41, 48]
    assert picks(5, 16.0, "eight") == [0, 1, 2, 3, 4]
    assert picks(49, 16.0, "rate") == [0, 8, 16, 24, 32, 40, 48]
    assert picks(50, 16.0, "rate") == [0, 8, 16, 24, 32, 40, 48, 49]
    assert picks(49, 16.0, "last") == [48]
    with pytest.raises(ClipError, match="states no frame rate"):
        picks(49, float("nan"), "rate")


def test_the_source_image_comes_first_and_pictures_are_small(tmp_path):
    wide = np.random.Generator(np.random.Philox(0)).integers(0, 255, (8, 8, 3), np.uint8).repeat(60, 0).repeat(104, 1)
    write_clip(tmp_path / "wide.mp4", [wide] * 3 + [255 - wide] * 6, 16.0)
    images, told, info = evidence(tmp_path / "wide.mp4", SOURCE, "eight")
    sizes = [Image.open(io.BytesIO(image)).size for image in images]
    assert sizes == [(64, 48)] + [(768, 443)] * 8
    assert told.startswith("first the source image") and "of 9" in told and info.frames == 9
    assert {Image.open(io.BytesIO(image)).format for image in images} == {"JPEG"}


SCENES = scene_ids()
CHANCE = re.compile(
    r"\d\s*/\s*\d|\d\s*%|(?<![\d.])0?\.\d|percent|probab|chance|likel|odds|equal|fair|uniform|distribut|random", re.I
)


def test_what_would_be_a_leak_is_found():
    for text in ("1/2", "18 / 37", "50 %", "0.5", ".5", "equally likely", "a fair coin", "random"):
        assert CHANCE.search(text), text
    for text in ("A-01", "face_1", "the 8 others; 49 frames", "4.5 cm is no share, nor is r000.mp4"):
        assert not CHANCE.search(text), text


@pytest.mark.parametrize("id", SCENES)
def test_no_prompt_of_any_scene_knows_the_reference(id):
    scene = load_scene(id)
    skewed = {label: Fraction(int(k == 0)) for k, label in enumerate(scene.outcomes)}
    other = dataclasses.replace(scene, reference=dataclasses.replace(scene.reference, q=skewed, derivation="x", source="y"))
    item = Item.of(scene)
    assert Item.of(other) == item, "a changed reference changes what the judge is told"
    for prompt in (
        rubrics.readout_prompt(item, item.outcomes, "8 frames"),
        rubrics.trust_prompt(item, "8 frames"),
        rubrics.SYSTEM,
    ):
        assert (found := CHANCE.search(prompt)) is None, f"{found.group(0)!r} in {prompt}"
    assert all(
        json.dumps(label, ensure_ascii=False) in rubrics.readout_prompt(item, item.outcomes, "") for label in item.outcomes
    )
    assert not any(json.dumps(label) in rubrics.trust_prompt(item, "") for label in item.outcomes)


def test_every_calibration_scene_says_what_would_give_a_false_clip_away():
    named = set(rubrics.rubrics()["trust"])
    assert named == {id for id in SCENES if id.startswith(("pawbench/", "calibench/"))} and len(named) == 34
    for id in named:
        item = Item.of(load_scene(id))
        assert item.trust in rubrics.trust_prompt(item, "") and item.trust not in rubrics.readout_prompt(
            item, item.outcomes, ""
        )


def test_every_coverage_scene_has_a_rubric_of_its_own():
    """PAWBench's coverage track: 25 scenes (arXiv 2608.27345)."""
    told = rubrics.rubrics()["coverage"]
    assert len(told) == 25 and len({one["readout_rule"] for one in told.values()}) >= 20  # a pair shares how it is read
    for name, one in told.items():
        outcomes = tuple(one["outcomes"])
        item = Item.coverage(name, one["action"], "", outcomes)
        prompts = rubrics.readout_prompt(item, outcomes, ""), rubrics.trust_prompt(item, "")
        assert one["readout_rule"] in prompts[0] and one["trust"] in prompts[1]
        assert not any(CHANCE.search(prompt) for prompt in prompts), name
        other = Item.coverage(name, one["action"], "", (*outcomes, "something_else"))
        assert other.readout_rule == rubrics.GENERIC_RULE, "a version with other labels has another rule"


# --- replies ---

GOOD = Provider.answer("readout", "A-03", "red")


@pytest.mark.parametrize(
    "change",
    [
        {"scene_id": "A-04"},
        {"outcome_label": "Red"},
        {"outcome_label": None},
        {"outcome_in_schema": "NOT_READABLE"},
        {"outcome_in_schema": "OUT_OF_SCHEMA"},
        {"outcome_in_schema": "in_schema"},
        {"outcome_readable": False},
        {"outcome_readable": "true"},
        {"outcome_label": 1},
        {"outcome_label": ["red"]},
    ],
)
def test_a_reply_that_contradicts_itself_is_none(change):
    assert rubrics.parse_readout(json.dumps(GOOD), ITEM).outcome_label == "red"
    with pytest.raises(ValueError):
        rubrics.parse_readout(json.dumps(GOOD | change), ITEM)


@pytest.mark.parametrize("text", ["", "red", "{", "[]", "null", '{"a": NaN}', f"{json.dumps(GOOD)} or {json.dumps(GOOD)}"])
def test_what_is_not_one_object_is_no_reply(text):
    with pytest.raises(ValueError):
        rubrics.parse_readout(text, ITEM)


# --- a provider that fails, and then does not ---

TRANSIENT = ("429", "500", "timeout", "cut", "drip", "html", "truncated_envelope", "huge")
REPAIRED = ("truncated", "length", "scene", "label", "nothing")


@pytest.mark.parametrize("fault", [*TRANSIENT, *REPAIRED, "prose"])
def test_one_failure_costs_one_request_and_no_reading(provider, clip, fault):
    provider.faults = [fault]
    verdict = judge_at(provider).judge(clip)
    assert verdict.reading.outcome == "blue" and verdict.trust["status"] == "TRUSTED"
    assert len(provider.requests) == (2 if fault == "prose" else 3)
    roles = [message["role"] for message in provider.requests[1]["messages"]]
    assert roles == (["system", "user", "assistant", "user"] if fault in REPAIRED else ["system", "user"])


@pytest.mark.parametrize("fault", [*TRANSIENT, *REPAIRED, "400", "402"])
def test_a_lasting_failure_is_no_answer_and_tells_no_key(provider, clip, fault):
    provider.always = (True, fault)
    judge = judge_at(provider, retries=1, timeout=0.3)
    with pytest.raises(CallError) as caught:
        judge.judge(clip)
    codes = {
        **{"timeout": "timeout", "drip": "timeout", "cut": "connection", "huge": "connection"},
        **{"html": "malformed_response", "truncated_envelope": "malformed_response"},
        **{code: f"status_{code}" for code in ("429", "500", "400", "402")},
    }
    assert caught.value.code == codes.get(fault, "malformed_reply")
    assert KEY not in str(caught.value) and KEY not in repr(caught.value.__cause__)
    assert len(provider.requests) == (1 if fault in ("400", "402") else 2), "retried once, or repaired once"
    (said,) = read_all(judge, [clip])
    assert not hasattr(said, "outcome") and KEY not in said.reason


def test_the_key_is_sent_and_nothing_else_has_it(provider, clip):
    judge_at(provider).judge(clip)
    assert {headers["Authorization"] for headers in provider.headers} == {f"Bearer {KEY}"}
    assert KEY not in json.dumps(provider.requests)


def test_retry_after_is_waited_for(provider, clip):
    provider.faults = ["429_after"]
    assert judge_at(provider).judge(clip).reading.outcome == "blue"
    assert provider.times[1] - provider.times[0] >= 1.2


def test_requests_keep_their_distance_whoever_makes_them(provider, clip):
    provider.faults = ["500"]
    endpoint = judge_at(provider, per_minute=1200).endpoint
    begun = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        turns = sorted(pool.map(lambda k: (endpoint.wait_for_turn(), time.monotonic())[1], range(8)))
    assert all(turn - begun >= 0.05 * k for k, turn in enumerate(turns))
    judge = judge_at(provider, per_minute=1200)
    judge.judge(clip)
    assert judge.endpoint.requests == len(provider.requests) == 3, "a retry waits for its turn too"


@pytest.mark.parametrize("fault", ["500", "scene", "html"])
def test_a_bad_audit_leaves_the_label(provider, clip, fault):
    provider.always = ("trust", fault)
    verdict = judge_at(provider, retries=1).judge(clip)
    assert verdict.reading.outcome == "blue"
    assert verdict.trust is None and verdict.trust_failure in ("status_500", "malformed_reply", "malformed_response")


def test_without_money_nothing_more_is_asked(provider, clip):
    provider.faults = ["402"]
    judge = judge_at(provider)
    for code in ("status_402", "stopped", "stopped"):
        with pytest.raises(CallError) as caught:
            judge.judge(clip)
        assert caught.value.code == code
    assert len(provider.requests) == 1


def test_the_budget_ends_the_calls(provider, clip):
    judge = judge_at(provider, price_in=10.0, price_out=100.0, budget=0.015)  # a call: 1000 and 50 tokens, $.015
    verdict = judge.judge(clip)
    assert verdict.reading.outcome == "blue" and verdict.trust_failure == "budget"
    assert len(provider.requests) == 1 and judge.endpoint.spent == pytest.approx(0.015)


# --- votes, label order, kept replies ---


def test_three_votes_each_with_its_own_order(provider, clip):
    many = dataclasses.replace(ITEM, outcomes=(*ITEM.outcomes, *"abcdefgh"))
    judge = judge_at(provider, protocol="calibench", item=many)
    reading = judge.judge(clip).reading
    assert reading.outcome == "blue" and reading.votes == ("blue",) * 3 and len(provider.requests) == 3
    orders = [
        json.loads(re.search(r"means nothing: (\[.*\])", str(r["messages"][1]["content"][-1]["text"])).group(1))
        for r in provider.requests
    ]
    assert all(sorted(order) == sorted(many.outcomes) for order in orders)
    assert len({tuple(order) for order in orders}) == 3  # false alarm: two of 3 permutations of 11 equal, 8e-8
    assert orders == [list(judge.order(fingerprint(clip), f"vote-{k + 1}")) for k in range(3)]
    assert all(len(r["messages"][1]["content"]) == 9 for r in provider.requests), "eight frames and no source image"


def test_scenes_read_from_the_last_frame_show_it_alone(provider, clip):
    judge_at(provider, protocol="calibench", item=dataclasses.replace(ITEM, last_frame=True)).judge(clip)
    assert {len(r["messages"][1]["content"]) for r in provider.requests} == {2}
    assert Item.of(load_scene("calibench/dice")).last_frame and not Item.of(load_scene("calibench/ball")).last_frame


def test_a_null_is_a_vote(provider, tmp_path):
    reading = judge_at(provider, protocol="calibench").judge(paint(tmp_path / "grey.mp4", None)).reading
    assert (reading.outcome, reading.null, reading.votes) == (None, "unreadable", (None,) * 3)


def test_kept_replies_are_asked_for_once_and_only_for_the_same_question(provider, clip, tmp_path):
    replies = Replies(tmp_path / "replies.jsonl")
    judge_at(provider, replies).judge(clip)
    replies.close()
    replies = Replies(tmp_path / "replies.jsonl")
    assert judge_at(provider, replies).judge(clip).reading.outcome == "blue" and len(provider.requests) == 2
    judge_at(provider, replies, timeout=9.0, retries=1).judge(clip)
    assert len(provider.requests) == 2, "what changes no reply changes no key"
    other = Provider()
    re_encoded = paint(tmp_path / "again.mp4", "blue", frames=10)
    changed = [
        (judge_at(provider, replies, model="eye-2"), clip, 2),
        (judge_at(provider, replies, max_tokens=999), clip, 2),
        (judge_at(provider, replies, item=dataclasses.replace(ITEM, readout_rule="Another.")), clip, 1),
        (judge_at(provider, replies, protocol="calibench"), clip, 3),
        (judge_at(provider, replies), re_encoded, 2),
        (dataclasses.replace(judge_at(provider, replies), source=255 - SOURCE), clip, 2),
        (judge_at(other, replies), clip, 2),
    ]
    for number, (judge, path, calls) in enumerate(changed):
        before = len(provider.requests) + len(other.requests)
        judge.judge(path)
        assert len(provider.requests) + len(other.requests) - before == calls, f"change {number}"
    other.close()
    assert (
        len({judge_at(provider, seed=seed).order("x", "readout") for seed in range(30)}) == 6
    )  # missing one: 6 (5/6)^30 = .025


def test_two_runs_do_not_share_a_file(tmp_path):
    first = Replies(tmp_path / "replies.jsonl")
    with pytest.raises(UserError, match="another run"):
        Replies(tmp_path / "replies.jsonl")
    first.close()


def test_settings_hold_no_secret(monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with pytest.raises(UserError, match="JUDGE_KEY"):
        Settings("m", "http://x/v1", "JUDGE_KEY").key()
    for url in ("http://me:secret@x/v1", "https://x/v1?key=secret"):
        (told,) = Settings("m", url).problems()
        assert "secret" not in told
    (told,) = Settings("m", "http://x", api_key_env="sk-secret-1").problems()
    assert "secret" not in told


def test_families():
    known = {
        "gpt-4o": "openai",
        "sora-2": "openai",
        "google/gemini-2.5-pro": "google",
        "veo-3": "google",
        "Wan2.2-I2V": "alibaba",
    }
    known |= {"qwen2.5-vl-72b": "alibaba", "seedance-1.0": "bytedance", "kling-v2": "kuaishou", "my-model": None, "swan": None}
    assert {name: family(name) for name in known} == known
