"""Controls put before a judge behind an endpoint, on loopback: its audit's false alarms, noise, label order and cost."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image
from provider import KEY, Provider

from refcheck import app
from refcheck.judges import rubrics

SMALL = ("scene.camera.width=208", "scene.camera.height=120")
WIDE = ("scene.device.random.release_x={dist: norm, loc: 0.0, scale: 30e-3}", *SMALL)


class Looker(Provider):
    """Sees on which side something new lies in the last picture, and distrusts a clip where nothing does halfway."""

    def __init__(self):
        super().__init__()
        self.alarms, self.first_label = 0, False

    def label(self, body):
        content = body["messages"][1]["content"]
        urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
        pictures = [Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB") for url in urls]
        source, last = (np.asarray(picture, int) for picture in (pictures[0], pictures[-1]))
        new = np.abs(last - source).sum(axis=-1)[last.shape[0] // 2 :] > 60
        if new.sum() < 4:
            return None
        if self.first_label and "scene_grounding" not in str(content[-1]):  # it takes the label that it is shown first
            return _order(body)[0]
        return "left" if np.nonzero(new)[1].mean() < last.shape[1] / 2 else "right"

    def answer(self, kind, scene, label):
        said = Provider.answer(kind, scene, label)
        if kind == "trust" and self.alarms:
            self.alarms -= 1
            said |= {"status": "UNTRUSTED", "object_continuity": "FAIL"}
        return said


@pytest.fixture
def looker(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = Looker()
    yield server
    server.close()


def controls(looker, out, *words, judge=("judge=vlm",)):
    asked = ["controls", "scene=toy/wedge", *WIDE, "k=10", *judge, "model=m", f"base_url={looker.url}", "workers=1"]
    status = app.main([*asked, "concurrency=1", "protocol=pawbench", "price_in=10", f"out={out}", *words])
    return status, json.loads((out / "result.json").read_text())


def test_readings_false_alarms_and_cost_come_from_its_calls(toy_conf, tmp_path, looker):
    looker.alarms = 3
    status, result = controls(looker, tmp_path / "o", "damaged=1", "kinds=vanish,no_action")
    report = result["report"]
    assert status == 0 and result["accuracy"] == 1.0 and result["answered"] == 10
    alarms = report["false_alarms"]["alarms"] + sum(row["audit"]["distrusted"] for row in _audited(report))
    assert alarms == 3 and report["false_alarms"]["clips"] == 10
    assert report["by_kind"]["no_action"]["nulls"] == {"unreadable": 1} and report["hidden"]["answered"] == 0
    assert result["cost"]["requests"] == 2 * 12 == len(looker.requests)
    assert result["cost"]["dollars"] == pytest.approx(24 * 1000 * 10 / 1e6)
    assert report["cost"] == {"clips": 12, "dollars": pytest.approx(result["cost"]["dollars"])}, "every call is some clip's"
    assert KEY not in (tmp_path / "o" / "result.json").read_text()


def _audited(report):
    return [row for row in report["by_kind"].values() if "audit" in row]


def test_what_is_asked_again_is_asked_afresh(toy_conf, tmp_path, looker):
    status, result = controls(looker, tmp_path / "o", "again=true")
    assert status == 0 and result["cost"]["requests"] == 60, "ten clips, two calls, three times: none from what was kept"
    assert result["again"]["retest"]["differ"] == 0 == result["again"]["label_order"]["differ"]
    shown = [_order(body) for body in looker.requests if "scene_grounding" not in str(body)]
    assert len(shown) == 30 and {tuple(order) for order in shown} == {("left", "right"), ("right", "left")}


def _order(body):
    prompt = next(part["text"] for part in body["messages"][1]["content"] if part["type"] == "text")
    return json.loads(prompt.partition("means nothing: ")[2].partition("\n")[0])


def test_a_judge_that_takes_the_first_label_shows_in_another_order(toy_conf, tmp_path, looker):
    """Each of ten clips has its order drawn anew: all ten alike come once in 1,024 seeds, and this seed is fixed."""
    looker.first_label = True
    _, result = controls(looker, tmp_path / "o", "again=true")
    assert result["again"]["retest"]["differ"] == 0 < result["again"]["label_order"]["differ"]


def test_a_call_that_fails_is_no_answer(toy_conf, tmp_path, looker):
    looker.always = ("readout", "400")
    status, result = controls(looker, tmp_path / "o", "retries=0")
    assert status == 3 and result["infrastructure_failures"] == 10 and np.sum(result["confusion"]) == 0
    assert result["report"]["against"] == ["no clean clip was read"]


def test_the_rubrics_ask_for_what_the_provider_answers():
    assert "means nothing: " in rubrics.readout_prompt(
        rubrics.Item("s", "a", "p", ("x", "y")), ("x", "y"), ""
    )  # what `_order` reads the labels from


def test_an_ensemble_asks_each_of_its_judges_once_a_clip_and_pays_once(toy_conf, tmp_path, looker):
    """The audit and the cost are the endpoint's; the majority of the two is what both say, and both are right."""
    status, result = controls(looker, tmp_path / "o", judge=("judge=ensemble", "of=state,vlm"))
    assert status == 0 and result["judge"]["name"] == "ensemble" and set(result["judge"]["of"]) == {"state", "vlm"}
    assert result["accuracy"] == 1.0 and result["answered"] == 10 and result["report"]["false_alarms"]["clips"] == 10
    assert result["cost"]["requests"] == 20 == len(looker.requests)
    assert result["report"]["cost"] == {"clips": 10, "dollars": pytest.approx(result["cost"]["dollars"])}


def test_an_ensemble_of_nothing_is_refused(toy_conf, tmp_path, capsys):
    asked = ["controls", "scene=toy/wedge", "judge=ensemble", f"out={tmp_path / 'o'}"]
    assert app.main(asked) == 2 and "an ensemble is of two or more" in capsys.readouterr().err
    assert app.main([*asked, "of=state,vlm"]) == 2 and "model= is missing" in capsys.readouterr().err
    assert app.main(["controls", "suite=table", "scenes=toy/*", *asked[2:], "of=state,vlm"]) == 2
    assert "draws what the trained judge reads" in capsys.readouterr().err
