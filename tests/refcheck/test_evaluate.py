"""`evaluate`: every clip judged once, whatever fails or is killed; what is not judged is named, blocks, and is in no score."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import openai._base_client
import pytest
from PIL import Image
from provider import KEY, Provider
from test_vlm import paint

from refcheck import app
from refcheck.command import UserError
from refcheck.journal import Journal
from refcheck.labels import read_labels
from simulators.video import read_clip, write_clip

LABELS = {"A-03": ["red", "blue", "red", None], "Z-01": ["green", "red", "blue", "green"]}
"""What the clips of a small package show; Z-01 is none of our scenes."""


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """Return a folder with a package and a model's clips, to be copied."""
    root = tmp_path_factory.mktemp("stock")
    (root / "package" / "source_images").mkdir(parents=True)
    lines = []
    for scene, split in (("A-03", "calibration"), ("Z-01", "coverage")):
        picture = np.tile(np.arange(64, dtype=np.uint8)[None, :, None], (48, 1, 3))
        Image.fromarray(picture).save(root / "package" / "source_images" / f"{scene}.png")
        line = {"scene_id": scene, "split": split, "group": "rotation", "action": "Spin it once.", "prompt": "It turns."}
        line |= {
            "source_image_path": f"source_images/{scene}.png",
            "outcome_labels": ["red", "blue", "green"][: 2 if scene == "A-03" else 3],
        }
        line |= {"reference_distribution": {"red": 0.5, "blue": 0.5}} if split == "calibration" else {}
        lines.append(json.dumps(line))
        (root / "clips" / scene).mkdir(parents=True)
        for repeat, label in enumerate(LABELS[scene]):
            paint(root / "clips" / scene / f"r{repeat:03d}.mp4", label, mark=len(lines) * 100 + repeat)
    (root / "package" / "scenes.jsonl").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture
def place(stock, tmp_path):
    shutil.copytree(stock, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.02)
    monkeypatch.setattr("refcheck.judges.endpoint.BACKOFF", 0.02)
    server = Provider()
    yield server
    server.close()


def words(place, provider, *more, out="out"):
    judge = ["judge=vlm", "model=eye-1", f"base_url={provider.url}", "api_key_env=JUDGE_KEY", "timeout=5"]
    where = [
        f"data={place / 'clips'}",
        f"package={place / 'package'}",
        "partial=true",
        "k=4",
        "generator=painter",
        "draws=1000",
    ]
    given = {word.partition("=")[0] for word in more}
    keep = [word for word in (*where, *judge) if word.partition("=")[0] not in given]
    return ["evaluate", *keep, *more, *([f"out={place / out}"] if out else [])]


def evaluate(place, provider, *more, out="out"):
    """Run the verb; return its exit status, its result, and how many requests it made."""
    before = len(provider.requests)
    status = app.main(words(place, provider, *more, out=out))
    result = json.loads((place / out / "result.json").read_text())
    return status, result, len(provider.requests) - before


def rows(place, out="out"):
    return [json.loads(line) for line in (place / out / "rows.jsonl").read_text().splitlines()]


def labels_of(place, out="out"):
    found = {}
    for row in rows(place, out):
        found.setdefault(row["scene_id"], []).append(
            row.get("outcome_label") if row["observation"] != "infrastructure_failure" else "?"
        )
    return found


def test_a_run_from_end_to_end(place, provider, capsys):
    status, result, requests = evaluate(place, provider)
    assert (status, requests, result["judged"]) == (0, 16, 8)
    assert labels_of(place) == LABELS
    first = rows(place)[0]
    assert first == {
        "sample_id": "painter::A-03::r000::repeat=0",
        "source_sample_id": "painter::A-03::r000",
        "scene_id": "A-03",
        "track": "calibration",
        "model_or_lane": "painter",
        "repeat_index": 0,
        "observation": "outcome",
        "outcome_label": "red",
    }
    metrics = json.loads((place / "out" / "metrics.json").read_text())
    (scene,) = metrics["tracks"]["calibration"]["models"]["painter"]["scenes"]
    assert (scene["valid_outcomes"], scene["null_observations"], metrics["status"]) == (3, 1, "ok")
    assert scene["metric"]["value"] == pytest.approx(100 * (2 / 3 - 1 / 2))
    assert result["trust"]["A-03"] == {"red": {"TRUSTED": 2}, "blue": {"TRUSTED": 1}, "null": {"TRUSTED": 1}}
    told = json.loads((place / "out" / "run.json").read_text())
    assert told["schema_version"] == "pawbench.run/v1" and told["provider"]["api_key_env"] == "JUDGE_KEY"
    lines = [json.loads(line) for line in (place / "out" / "checkpoint.jsonl").read_text().splitlines()]
    assert {line["schema_version"] for line in lines} == {"pawbench.checkpoint/v1"} and len(lines) == 8
    assert len(read_labels(place / "out" / "rows.jsonl").rows) == 8, "our own `score` reads what was written"
    assert (
        app.main(
            [
                "score",
                f"data={place / 'out' / 'rows.jsonl'}",
                f"policy={place / 'out' / 'policy.json'}",
                "partial=true",
                "draws=1000",
                "json=true",
            ]
        )
        == 0
    )
    everything = capsys.readouterr()
    files = b"".join(path.read_bytes() for path in (place / "out").rglob("*") if path.is_file())
    assert KEY.encode() not in files and KEY not in everything.out + everything.err


def test_nothing_is_asked_twice(place, provider):
    evaluate(place, provider)
    status, result, requests = evaluate(place, provider)
    assert (status, requests, result["judged"], result["reused"]) == (0, 0, 0, 8) and labels_of(place) == LABELS
    checkpoint = place / "out" / "checkpoint.jsonl"
    lines = checkpoint.read_bytes().splitlines(keepends=True)
    checkpoint.write_bytes(b"".join(lines[:5]) + lines[5][:40])  # killed within a line
    (place / "out" / "replies.jsonl").unlink()
    status, result, requests = evaluate(place, provider)
    assert (status, requests, result["judged"], result["reused"]) == (0, 6, 3, 5) and labels_of(place) == LABELS
    assert len(checkpoint.read_bytes().splitlines()) == 8
    checkpoint.unlink()
    status, result, requests = evaluate(place, provider)
    assert (status, requests, result["judged"]) == (0, 10, 8), "three clips' replies were kept"
    checkpoint.write_bytes(b"junk\n" + checkpoint.read_bytes())
    assert app.main(words(place, provider)) == 2


def test_what_has_changed_is_judged_again(place, provider):
    evaluate(place, provider)
    paint(place / "clips" / "A-03" / "r001.mp4", "red", mark=7)
    status, result, requests = evaluate(place, provider)
    assert (status, requests, result["judged_again"]) == (0, 2, 1)
    assert labels_of(place)["A-03"] == ["red", "red", "red", None]
    assert app.main(words(place, provider, "model=eye-2")) == 2, "the result of another judge is not replaced in silence"
    status, result, requests = evaluate(place, provider, "model=eye-2", "overwrite=true")
    assert (requests, result["judged_again"], result["reused"]) == (16, 8, 0)
    status, result, requests = evaluate(place, provider, "overwrite=true")
    assert (requests, result["reused"]) == (0, 8), "readings under the first judge are still its readings"
    status, result, requests = evaluate(place, provider, "generator=other", "overwrite=true")
    assert (requests, result["reused"]) == (0, 0), "what the judge said of these bytes is kept, rows of another model are not"
    assert {row["model_or_lane"] for row in rows(place)} == {"other"} and labels_of(place)["A-03"] == [
        "red",
        "red",
        "red",
        None,
    ]
    assert evaluate(place, provider, "overwrite=true")[1]["reused"] == 8
    lines = (place / "package" / "scenes.jsonl").read_text().replace("Spin it once.", "Spin it twice.", 1)
    (place / "package" / "scenes.jsonl").write_text(lines)
    status, result, requests = evaluate(place, provider)
    assert (requests, result["reused"], result["judged_again"]) == (8, 4, 4), "the changed prompt's scene alone"


def test_a_checkpoint_that_says_another_model_is_refused_before_anything_is_touched(place, provider, capsys):
    evaluate(place, provider)
    path, before = place / "out" / "checkpoint.jsonl", (place / "out" / "rows.jsonl").read_bytes()
    path.write_text(path.read_text().replace('"model_or_lane": "painter"', '"model_or_lane": "sora"', 1))
    assert app.main(words(place, provider)) == 2
    told = capsys.readouterr().err
    assert "checkpoint.jsonl, line 1: model_or_lane is 'sora', where this run writes 'painter'" in told
    assert (place / "out" / "rows.jsonl").read_bytes() == before and (place / "out" / "metrics.json").is_file()


def test_names_that_are_no_text_and_clips_too_large_to_read_lose_no_result(place, provider, monkeypatch):
    """A stray file's name of bytes that are no UTF-8; and a clip beyond the limit, which is named and not hashed."""
    (place / "clips" / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    with (place / "clips" / "A-03" / "r000.mp4").open("r+b") as file:
        file.truncate(2**40)  # sparse
    status, result, _ = evaluate(place, provider)
    assert status == 3 and result["ignored"] == [str(place / "clips" / "caf\\udce9.txt")]
    assert "a clip may hold" in result["failures"][0]["message"] and len(result["failures"]) == 1


def test_what_cannot_be_judged_is_named_and_blocks(place, provider, capsys):
    (place / "clips" / "A-03" / "r000.mp4").unlink()
    (place / "clips" / "A-03" / "r001.mp4").write_bytes(b"no clip at all")
    whole = (place / "clips" / "A-03" / "r002.mp4").read_bytes()
    (place / "clips" / "A-03" / "r002.mp4").write_bytes(whole[: len(whole) // 2])
    frames = list(read_clip(place / "clips" / "Z-01" / "r000.mp4"))
    write_clip(place / "clips" / "Z-01" / "r000.mp4", frames[-4:], 16.0)
    write_clip(place / "clips" / "Z-01" / "r001.mp4", [frame[:, :32] for frame in frames], 16.0)
    status, result, requests = evaluate(place, provider)
    assert status == 3 and requests == 10
    assert [(f["scene"], f["repeat"], f["code"]) for f in result["failures"]] == [
        ("A-03", 0, "missing_clip"),
        ("A-03", 1, "broken_clip"),
        ("A-03", 2, "broken_clip"),
    ]
    assert labels_of(place)["A-03"] == ["?", "?", "?", None]
    odd = " ".join(result["odd_clips"])
    assert "Z-01/r000 has 4 frames" in odd and "Z-01/r001 is 32x48" in odd
    tracks = json.loads((place / "out" / "metrics.json").read_text())["tracks"]
    assert tracks["calibration"]["status"] == "blocked" and tracks["coverage"]["status"] == "ok"
    assert tracks["calibration"]["models"]["painter"]["track_average"] is None
    told = capsys.readouterr().out
    assert "A-03/r000: missing_clip" in told and "A-03/r001: broken_clip" in told


def test_failures_are_tried_again_and_then_count_once(place, provider):
    provider.always = ("readout", "500")
    status, result, _ = evaluate(place, provider, "retries=0")
    assert (status, len(result["failures"])) == (3, 8) and {f["code"] for f in result["failures"]} == {"status_500"}
    provider.always = ("trust", "500")
    status, result, _ = evaluate(place, provider, "retries=0")
    assert (status, result["failures"], result["trust_missing"]) == (0, [], 8) and labels_of(place) == LABELS
    provider.always = None
    status, result, requests = evaluate(place, provider, "retries=0")
    assert (status, requests, result["trust_missing"]) == (0, 8, 0), "the audits alone: the readings were kept"
    assert labels_of(place) == LABELS


def test_an_outage_asks_once_and_scores_nothing(place, provider):
    provider.always = (True, "402")
    status, result, requests = evaluate(place, provider, "concurrency=1")
    assert (status, requests) == (3, 1)
    assert [f["code"] for f in result["failures"]] == ["status_402"] + ["stopped"] * 7
    assert {row["observation"] for row in rows(place)} == {"infrastructure_failure"}
    assert KEY not in (place / "out" / "checkpoint.jsonl").read_text() + json.dumps(result)


@pytest.mark.parametrize("fault", ["cut", "label"])
def test_now_and_then_a_failure_changes_no_row(place, provider, fault):
    provider.faults = [fault if k % 3 == 0 else None for k in range(12)]
    status, result, _ = evaluate(place, provider, "concurrency=1")  # so that no question meets two of them
    assert (status, result["failures"]) == (0, []) and labels_of(place) == LABELS


def test_every_mistake_in_the_folder_is_told_at_once(place, provider, capsys):
    clips = place / "clips"
    shutil.copy(clips / "A-03" / "r000.mp4", clips / "A-03" / "r000.mov")
    shutil.copy(clips / "A-03" / "r001.mp4", clips / "Z-01" / "r003.mp4")
    paint(clips / "Z-01" / "r009.mp4", "red", mark=5)
    paint(clips / "Z-01" / "take2.mp4", "red", mark=6)
    (clips / "A-3").mkdir()
    shutil.move(clips / "Z-01" / "r000.mp4", clips / "A-3" / "r000.mp4")
    (clips / "unused").mkdir()  # is not
    assert app.main(words(place, provider)) == 2
    told = capsys.readouterr().err
    for part in (
        "second clip of repeat 0",
        "is the same clip as",
        "repeat 9 is beyond",
        "take2.mp4: must be named",
        "did you mean 'A-03'",
    ):
        assert part in told, part
    assert not provider.requests and not (place / "out" / "checkpoint.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"source_image_path": "../clips/A-03/r000.mp4"}, "leads out of the package"),
        ({"source_image_path": "source_images/none.png"}, "there is no such file"),
        ({"scene_id": "../../A-03"}, "cannot be a folder's name"),
        ({"source_image_path": "a\0b.png"}, "can be no file's path"),
        ({"source_image_path": 5000 * "a"}, "can be no file's path"),
        ({"prompt": "\ud800"}, "half of a surrogate pair"),
        ({"action": 5}, "action"),
        ({"reference_distribution": {"red": 0.7, "blue": 0.7}}, "reference_distribution"),
    ],
)
def test_a_package_is_not_trusted(place, provider, capsys, change, told):
    path = place / "package" / "scenes.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | change), *others]))
    assert app.main(words(place, provider)) == 2
    assert told in capsys.readouterr().err and not provider.requests


def test_a_dry_run_asks_nothing(place, provider, capsys, monkeypatch):
    monkeypatch.delenv("JUDGE_KEY")
    assert app.main([*words(place, provider, "price_in=10", "price_out=100", "dry=true", out=None), "json=true"]) == 0
    estimate = json.loads(capsys.readouterr().out)["estimate"]
    assert (estimate["clips"], estimate["calls"], estimate["output_tokens_at_most"]) == (8, 16, 16 * 2048)
    assert estimate["input_tokens"] > 16 * 9 * 1000 and not provider.requests
    assert estimate["dollars"] == pytest.approx((estimate["input_tokens"] * 10 + 16 * 2048 * 100) / 1e6)
    monkeypatch.setenv("JUDGE_KEY", KEY)
    assert app.main(words(place, provider, "price_in=10", "price_out=100", "budget=1")) == 2
    assert "may cost" in capsys.readouterr().err and not provider.requests


def test_without_a_key_nothing_starts(place, provider, capsys, monkeypatch):
    monkeypatch.delenv("JUDGE_KEY")
    assert app.main(words(place, provider)) == 2
    assert "JUDGE_KEY holds no key" in capsys.readouterr().err and not provider.requests
    monkeypatch.setenv("JUDGE_KEY", "schlüssel")
    assert app.main(words(place, provider)) == 2
    assert "JUDGE_KEY holds letters that no key has" in capsys.readouterr().err and not provider.requests


def test_kin_are_told(place, provider, capsys):
    _, result, _ = evaluate(place, provider, "model=gemini-9", "generator=veo-9")
    assert result["families"] == {"judge": "google", "generator": "google", "coincide": True}
    assert "may favour its own kin" in capsys.readouterr().out


def test_our_own_scenes_are_asked_about_with_their_rule_and_source(toy_conf, tmp_path, provider, capsys):
    provider.words = {"red": "left", "blue": "right"}
    for repeat, label in enumerate(("red", "blue", "red")):
        (tmp_path / "clips" / "wedge").mkdir(parents=True, exist_ok=True)
        paint(tmp_path / "clips" / "wedge" / f"r{repeat:03d}.mp4", label, mark=repeat)
    judge = ["judge=vlm", "model=eye-1", f"base_url={provider.url}", "api_key_env=JUDGE_KEY", "draws=1000"]
    asked = ["evaluate", f"data={tmp_path / 'clips'}", *judge, "k=3"]
    assert app.main([*asked, f"out={tmp_path / 'out'}"]) == 0
    assert labels_of(tmp_path) == {"wedge": ["left", "right", "left"]}
    content = provider.requests[0]["messages"][1]["content"]
    assert "which side the ball lies on" in content[-1]["text"] and len(content) == 10
    source = Image.open(io.BytesIO(base64.b64decode(content[0]["image_url"]["url"].partition(",")[2])))
    assert source.size == (768, 443), "832x480, the scene's own"
    status = app.main([*asked, "scenes=toy/wedge-glossy,toy/wedge", f"out={tmp_path / 'all'}"])
    missing = json.loads((tmp_path / "all" / "result.json").read_text())["failures"]
    assert status == 3 and {(f["scene"], f["code"]) for f in missing} == {("wedge-glossy", "missing_clip")}


def test_calibench_bins_from_known_truth(tmp_path, capsys):
    truth = {}
    for repeat, label in enumerate(["6", "1", "1"]):
        (tmp_path / "clips" / "dice").mkdir(parents=True, exist_ok=True)
        paint(tmp_path / "clips" / "dice" / f"r{repeat:03d}.mp4", "red", mark=repeat)
        truth[f"dice/r{repeat:03d}"] = label
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    asked = [
        "evaluate",
        f"data={tmp_path / 'clips'}",
        "judge=state",
        f"truth={tmp_path / 'truth.json'}",
        "generator=m",
        "draws=1000",
    ]
    assert app.main([*asked, "k=3", f"out={tmp_path / 'out'}"]) == 0
    bins = json.loads((tmp_path / "out" / "bins" / "dice_m_bins.json").read_text())
    assert bins == {
        "scene": "dice",
        "model": "m",
        "num_bins": 6,
        "rollouts": [{"seed": s, "bin": b} for s, b in enumerate((6, 1, 1))],
    }
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["models"]["m"]["cells"]["dice"]["counts"] == [2, 0, 0, 0, 0, 1] and result["models"]["m"]["mntv"]["partial"]
    confusion = [[10 * (row == column) for column in range(7)] for row in range(6)]
    measured = {"schema": "quincunx.controls/v1", "scene": "calibench/dice", "outcomes": list("123456"), "confusion": confusion}
    measured |= {"confusion_columns": [*"123456", "null"], "judge": {"name": "state"}}
    (tmp_path / "controls.json").write_text(json.dumps(measured))
    controls = f"controls={tmp_path / 'controls.json'}"
    assert app.main([*asked, "k=3", controls, f"out={tmp_path / 'seen'}"]) == 0
    (cell,) = json.loads((tmp_path / "seen" / "result.json").read_text())["corrected"]
    assert cell["scene"] == "dice" and cell["tvd"] == pytest.approx(2 / 3, abs=1e-3), "a judge without errors corrects nothing"
    (tmp_path / "controls.json").write_text(json.dumps(measured | {"judge": {"name": "trained"}}))
    assert app.main([*asked, "k=3", controls, f"out={tmp_path / 'other'}"]) == 2
    assert app.main([*asked, "k=4", f"out={tmp_path / 'out'}", "overwrite=true"]) == 3, "a missing clip blocks the scene"
    assert not list((tmp_path / "out" / "bins").iterdir())
    assert json.loads((tmp_path / "out" / "result.json").read_text())["blocked"] == ["dice"]


def test_only_the_judge_that_calls_needs_the_extra(place, provider, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "refcheck.judges.transport", raising=False)
    assert app.main(words(place, provider)) == 2
    assert "pip install 'quincunx[judge]'" in capsys.readouterr().err
    truth = {f"{scene}/r{k:03d}": "red" for scene, held in LABELS.items() for k in range(len(held))}
    (place / "truth.json").write_text(json.dumps(truth))
    assert app.main(words(place, provider, "judge=state", f"truth={place / 'truth.json'}", out="known")) == 0
    assert labels_of(place, "known") == {"A-03": ["red"] * 4, "Z-01": ["red"] * 4} and not provider.requests


def test_a_journal_keeps_what_it_acknowledged(tmp_path):
    path = tmp_path / "lines.jsonl"
    with Journal(path) as journal:
        journal.add({"a": 1})
        assert path.read_bytes() == b'{"a": 1}\n'
        with pytest.raises(UserError, match="another run"):
            Journal(path)
    path.write_bytes(path.read_bytes() + b'{"a": 2')
    with Journal(path) as journal:
        assert journal.lines == [{"a": 1}]
        journal.add({"a": 3})
    with Journal(path) as journal:
        assert journal.lines == [{"a": 1}, {"a": 3}]


@pytest.mark.slow
def test_killed_at_any_point_nothing_is_lost_or_doubled(place, provider):
    """Kill the process at random moments until a run gets through: rows are right, and few questions were asked twice."""
    draws, concurrency, kills = random.Random(0), 2, 0
    code = "import sys; from refcheck.app import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *words(place, provider, f"concurrency={concurrency}")]
    environment = {**os.environ, "JUDGE_KEY": KEY}
    provider.slow = 0.2
    acknowledged = 0
    for _ in range(40):
        before = provider.replies
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while provider.replies == before and process.poll() is None:
            time.sleep(0.01)  # until it is at work, however long that takes
        try:
            status = process.wait(draws.uniform(0.0, 0.6))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        whole = (place / "out" / "checkpoint.jsonl").read_bytes().count(b"\n")
        assert whole >= acknowledged, "a line that was there is gone"
        acknowledged = whole
    assert status == 0 and kills >= 3
    assert labels_of(place) == LABELS
    lines = [json.loads(line) for line in (place / "out" / "checkpoint.jsonl").read_text().splitlines()]
    assert sorted((line["scene_id"], line["repeat_index"]) for line in lines) == [
        (s, k) for s in sorted(LABELS) for k in range(4)
    ]
    assert 16 <= len(provider.requests) <= 16 + concurrency * kills
