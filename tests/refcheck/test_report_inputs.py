"""What a page is made from is data: nothing hostile, broken or strange in it gets onto the page or past a clear refusal."""

from __future__ import annotations

import base64
import json
import os
import shlex
from copy import deepcopy

import pytest
from PIL import Image
from report_pages import FREE, Page, certificate, controls, document, made, pictures, put, rendered

from refcheck import app
from refcheck.report.collect import MAXIMUM_BYTES, collect
from refcheck.report.page import command

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;$x^$ {{ 7*7 }}"


def test_a_picture_of_render_that_leads_out_of_its_folder_is_refused(tmp_path, capsys):
    hostile = rendered()
    hostile["scenes"][0]["folder"] = "../elsewhere"
    put(tmp_path / "data", "render", hostile)
    (tmp_path / "data" / "elsewhere").mkdir()
    pictures(tmp_path / "data" / "elsewhere")
    assert app.main(["report", f"data={tmp_path / 'data'}"]) == 2
    assert "leads out of its result's folder" in capsys.readouterr().err


def test_what_a_result_says_is_text_and_never_markup(tmp_path, scored):
    document_ = document("verify", certificates=[certificate(scene=HOSTILE, reason=HOSTILE, digest=HOSTILE, stream=HOSTILE)])
    one = document_["certificates"][0]
    one["tally"] = {"outcomes": [HOSTILE, "tails"], "counts": [5060, 4940], "nulls": {HOSTILE: 17}, "sampling": "iid"}
    one["q"] = {HOSTILE: "1/2", "tails": "1/2"}
    one["evidence"] = {HOSTILE: HOSTILE}
    one["engine"]["name"] = HOSTILE
    document_["version"] = document_["created"] = HOSTILE
    raw = {name: HOSTILE for name in ("title", "prompt", "note", "action", "readout_rule")}
    raw |= {"reference": dict.fromkeys(("derivation", "source", "standing"), HOSTILE), "engine": [HOSTILE], "epsilon": "x"}
    raw |= {"variant": dict.fromkeys(("base", "kind", "change"), HOSTILE)}
    raw |= {"device": {"_target_": HOSTILE, HOSTILE: {HOSTILE: {HOSTILE: [HOSTILE]}}, "random": {HOSTILE: {HOSTILE: HOSTILE}}}}
    document_["config"] |= {"scenes": {HOSTILE: raw}, "overrides": [HOSTILE], "options": {"data": HOSTILE}}
    put(tmp_path, "verify", document_)
    judged = controls(scene=HOSTILE, judge={"name": HOSTILE})
    pictures(put(tmp_path, "controls", judged))
    models = deepcopy(scored)
    models["models"] = {HOSTILE: models["models"]["wan"]}
    put(tmp_path, "score", models)
    text, page = made(tmp_path)
    assert "script" not in page.tags and page.tags.count("img") == 2
    assert "<script" not in text and "onerror=alert(2)>" not in text and " 49 " not in text
    assert page.text.count("alert(1)") > 20, "it is shown, as text"


def test_commands_are_quoted_for_a_shell(tmp_path):
    evil = document("verify", certificates=[certificate()])
    evil["config"] = {"options": {"data": "x; rm -rf ~", "seed": 1, "workers": 4}, "overrides": ["scene.a=$(id)"], "scenes": {}}
    put(tmp_path, "a b", evil)
    words = shlex.split(command(collect(tmp_path).results[0]))
    assert words == ["quincunx", "verify", "data=x; rm -rf ~", "seed=1", "scene.a=$(id)", "out=a b"]
    assert ";" not in command(collect(tmp_path).results[0]).replace("'data=x; rm -rf ~'", "")


@pytest.mark.parametrize(
    "name", ["../secret.png", "/etc/hostname", "link.png", "sub/../../secret.png", "missing.png", "text.png"]
)
def test_a_picture_outside_its_folder_or_that_is_none_is_refused(tmp_path, capsys, name):
    data = tmp_path / "data"
    folder = put(data, "controls", controls(sheet=name))
    pictures(folder)
    Image.new("RGB", (8, 8)).save(data / "secret.png")
    (folder / "link.png").symlink_to(data / "secret.png")
    (folder / "text.png").write_text("<svg onload='alert(1)'/>")
    assert app.main(["report", f"data={data}"]) == 2
    told = capsys.readouterr().err
    assert name in told and "Traceback" not in told
    assert not (data / "report.html").exists()


def test_a_picture_is_encoded_again_so_that_nothing_rides_along(tmp_path):
    folder = put(tmp_path, "controls", controls())
    pictures(folder)
    with (folder / "sheet.png").open("ab") as stream:
        stream.write(b"<script>stowaway</script>")
    _, page = made(tmp_path)
    for item in (item for item in page.loads if item.startswith("data:")):
        data = base64.b64decode(item.partition(",")[2])
        assert data.startswith(b"\xff\xd8") and b"stowaway" not in data


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "is not JSON"),
        ('{"schema": "quincunx.verify/v1", "schema": "x"}', "occurs twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"schema": "quincunx.verify/v1"}', "certificates"),
        (json.dumps(document("verify", certificates=[certificate(tvd=0.001)])), "tvd is 0.001, its counts give 0.006"),
        (json.dumps(document("verify", certificates=[certificate({"upper": 0.04})])), "says 'holds'"),
        (json.dumps(document("verify", certificates=[certificate({"upper": 0.02})])), "upper is 0.02, its counts give 0.02"),
        (
            json.dumps(document("verify", certificates=[certificate({"null_rate": FREE})])),
            "null_rate.upper is 0.001, its counts",
        ),
        (json.dumps(document("verify", certificates=[certificate(lower=0.5)])), "above its upper"),
        (json.dumps(document("verify", certificates=[certificate(verdict="fails")])), "says 'fails'"),
        (json.dumps(document("verify", certificates=[certificate(basis="assumption")])), "on an assumption"),
        (json.dumps(document("verify", certificates=[certificate(verdict="passes")])), "passes"),
        (json.dumps(document("verify", certificates=[certificate(n=9)])), "n is 9"),
        (json.dumps(document("verify", certificates=[certificate(q={"heads": "1/2", "tails": "1/3"})])), "sums to"),
        (json.dumps(document("verify", certificates=[certificate(q={"heads": "1/0", "tails": "1/2"})])), "denominator 0"),
        (json.dumps(document("verify", certificates=[certificate(q={"heads": "1e999999999", "tails": "0"})])), "pattern"),
        (json.dumps(document("verify", certificates=[certificate(tvd="0.006")])), "tvd"),
        (json.dumps(controls(accuracy=1.0)), "accuracy is 1.0, its counts give 0.947"),
        (json.dumps(controls(confusion=[[7, 1], [0, 11]])), "shape"),
        (json.dumps(controls(tvd_judged=0.0)), "tvd_judged is 0.0"),
        (json.dumps(controls(infrastructure_failures=1)), "k is 20"),
        (json.dumps(controls(truth={"counts": [10, 10]})), "sums are not its counts"),
    ],
)
def test_a_result_that_is_wrong_or_contradicts_itself_is_refused(tmp_path, capsys, content, part):
    pictures(put(tmp_path, "bad", content))
    put(tmp_path, "good", document("verify", certificates=[certificate()]))
    assert app.main(["report", f"data={tmp_path}"]) == 2
    told = capsys.readouterr().err
    assert part in told and "bad/result.json" in told and "Traceback" not in told
    assert not (tmp_path / "report.html").exists()


def test_all_problems_are_told_at_once(tmp_path, capsys):
    put(tmp_path, "a", "{")
    put(tmp_path, "b", document("verify", certificates=[certificate(n=9)]))
    assert app.main(["report", f"data={tmp_path}"]) == 2
    told = capsys.readouterr().err
    assert "a/result.json" in told and "b/result.json" in told


def test_a_huge_file_a_link_and_an_empty_folder_are_refused(tmp_path, capsys):
    huge = put(tmp_path / "huge", "a", "") / "result.json"
    with huge.open("wb") as stream:
        stream.truncate(MAXIMUM_BYTES + 1)
    (tmp_path / "real.json").write_text(json.dumps(document("verify", certificates=[certificate()])))
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "result.json").symlink_to(tmp_path / "real.json")
    (tmp_path / "empty").mkdir()
    for name, part in (
        ("huge", "larger than 16 MiB"),
        ("link", "links are not followed"),
        ("empty", "no result.json"),
        ("none", "no such folder"),
        ("real.json", "is a file"),
    ):
        assert app.main(["report", f"data={tmp_path / name}"]) == 2
        assert part in capsys.readouterr().err


def test_results_stand_in_the_order_they_were_made(tmp_path):
    for name, minute in (("a", 3), ("b", 1), ("c", 2)):
        made_then = document("verify", certificates=[certificate(scene=f"toy/{name}")])
        put(tmp_path, name, {**made_then, "created": f"2026-01-01T00:0{minute}:00+00:00"})
    assert [result.name for result in collect(tmp_path).results] == ["b", "c", "a"]


def test_other_files_and_other_verbs_are_named_and_not_drawn(tmp_path):
    put(tmp_path, "verify", document("verify", certificates=[certificate()]))
    put(tmp_path, "simulated", document("simulate", scene="toy/coin"))
    put(tmp_path, "foreign", {"accuracy": 1.0})
    put(tmp_path, "earlier", document("report", page="report.html"))
    out = tmp_path / "page"
    assert app.main(["report", f"data={tmp_path}", f"out={out}"]) == 0
    page = Page((out / "report.html").read_text("utf-8"))
    assert "simulated (not drawn on this page)" in page.text and "files are not ours: foreign" in page.text
    result = json.loads((out / "result.json").read_text())
    assert (result["certificates"], result["not_shown"], result["not_ours"]) == (1, ["simulated"], ["foreign"])


def test_a_page_of_ours_is_replaced_and_a_file_of_the_users_is_not(tmp_path, capsys):
    put(tmp_path, "verify", document("verify", certificates=[certificate()]))
    made(tmp_path)
    made(tmp_path)
    (tmp_path / "report.html").write_text("my own notes")
    assert app.main(["report", f"data={tmp_path}"]) == 2
    assert "no page of ours" in capsys.readouterr().err
    assert (tmp_path / "report.html").read_text() == "my own notes"


def test_a_folder_whose_name_is_no_text_is_on_the_page_all_the_same(tmp_path):
    put(tmp_path / "data" / os.fsdecode(b"caf\xe9"), "verify", document("verify", certificates=[certificate()]))
    assert app.main(["report", f"data={tmp_path / 'data'}", f"out={tmp_path / 'out'}"]) == 0
    assert "caf\\udce9" in (tmp_path / "out" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(("name", "value"), [("alpha", 0.0), ("alpha", 0.5), ("alpha", 1e-320), ("epsilon", 0.0)])
def test_an_error_or_a_distance_that_no_test_has_is_refused(tmp_path, capsys, name, value):
    put(tmp_path, "verify", document("verify", certificates=[certificate() | {name: value}]))
    assert app.main(["report", f"data={tmp_path}"]) == 2
    assert f"certificates.0.{name}: Input should be" in capsys.readouterr().err
