"""The page: it shows what the results say, all of it from inside, and nothing that a hostile result would like it to."""

from __future__ import annotations

import base64
import json
import re
import shlex
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refcheck import app, metrics
from refcheck.command import UserError
from refcheck.report import plots
from refcheck.report.collect import MAXIMUM_BYTES, collect
from refcheck.report.numbers import beside, fixed, probability, share
from refcheck.report.page import command, headline
from refcheck.report.schema import Certificates
from refcheck.sequential import beta_binomial_interval, mixture_radius, mixture_rho

OUTCOMES = Path(app.__file__).parent / "data" / "calibench_outcomes.csv"
SECTIONS = ("certificates", "controls", "models", "reading", "provenance")
VOID = {"meta", "img", "br", "link", "input", "hr"}
SVG_EMPTY = {"path", "use", "circle", "line", "rect", "g"}


class Page(HTMLParser):
    """Parses a page and checks that its tags close in order; keeps ids, attributes that load something, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.loads += [given[name] for name in ("src", "href", "xlink:href", "srcset", "data", "action") if name in given]
        assert not [name for name in given if name.startswith("on")], f"a script in an attribute of {tag}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes what was not open"

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def certificate(lies={}, **changes):  # noqa: B006
    """A certificate whose bounds follow from its tally, but for the `lies` about them."""
    one = {
        "scene": "toy/coin",
        "digest": "0123456789abcdef",
        "stream": "toy/coin",
        "seed": 7,
        "verdict": "holds",
        "reason": "distance",
        "tally": {
            "outcomes": ["heads", "tails"],
            "counts": [5060, 4940],
            "nulls": {"stuck": 0, "on_edge": 17},
            "sampling": "iid",
            "group": None,
        },
        "q": {"heads": "1/2", "tails": "1/2"},
        "tvd": 0.006,
        "lower": 0.0,
        "epsilon": 0.03,
        "alpha": 0.01,
        "null_rate": {"value": 17 / 10017, "limit": 0.02},
        "p_value": {"value": 0.2339, "statistic": 1.44, "kind": "chi_square", "method": "exact", "draws": 0, "reached": 0},
        "basis": "mechanism",
        "engine": {"name": "bullet", "version": "1", "steps_per_second": 1200, "time_limit": 8.0},
        "n": 10017,
        "looks": 40,
        "first_rest_disagree": 0.031,
        "settle_time": {"median": 1.4, "p95": 1.9},
        "seconds": 12.5,
        "rollouts_per_second": 801.4,
        "evidence": {"second_integrator": "not yet", "step_halving": "agrees", "knock_out": "not yet"},
    }
    one |= changes
    valid, nulls = sum(one["tally"]["counts"]), sum(one["tally"]["nulls"].values())
    radius = mixture_radius(valid, mixture_rho(one["epsilon"], one["alpha"]), one["alpha"])
    lower, upper = beta_binomial_interval(nulls, valid + nulls, one["alpha"])
    ends = {
        "upper": min(1.0, float(one["tvd"] or 0.0) + radius),
        "null_rate": {**one["null_rate"], "lower": lower, "upper": upper},
    }
    return {**one, **ends, **{key: value for key, value in lies.items() if key in ends}}


FREE = {"value": 17 / 10017, "lower": 0.0, "upper": 0.001, "limit": 0.02}

FAILING = certificate(
    scene="toy/bent",
    verdict="fails",
    tally={"outcomes": ["heads", "tails"], "counts": [700, 300], "nulls": {}, "sampling": "iid", "group": None},
    n=1000,
    tvd=0.2,
    lower=0.1234,
    null_rate={"value": 0.0, "limit": 0.02},
)


def document(verb, **body):
    return {
        "schema": f"quincunx.{verb}/v1",
        "verb": verb,
        "version": "0.1.0",
        "created": "2026-01-02T03:04:05+00:00",
        "versions": {"python": "3.11.7", "numpy": "2.0.0"},
        "config": {"options": {"seed": 7, "workers": 2, "epsilon": None}, "overrides": [], "scenes": {}},
        "seed": 7,
        **body,
    }


def controls(**changes):
    confusion = [[7, 1, 1], [0, 11, 0]]
    counts, judged = np.array([9, 11]), np.array([7, 12])
    body = {
        "scene": "toy/coin",
        "digest": "0123456789abcdef",
        "k": 20,
        "judge": {"name": "trained"},
        "outcomes": ["heads", "tails"],
        "q": {"heads": "1/2", "tails": "1/2"},
        "truth": {"counts": counts.tolist()},
        "judged": {"counts": judged.tolist(), "nulls": {"unreadable": 1}},
        "confusion": confusion,
        "confusion_columns": ["heads", "tails", "null"],
        "accuracy": 18 / 19,
        "abstained": 0.05,
        "tvd_truth": float(metrics.tvd(counts, [0.5, 0.5])),
        "tvd_judged": float(metrics.tvd(judged, [0.5, 0.5])),
        "floor": 0.0881,
        "floor_judged": 0.0903,
        "band": [0.0, 0.2],
        "band_judged": [0.0263, 0.2368],
        "score_truth": -0.0418,
        "score_judged": 0.0935,
        "infrastructure_failures": 0,
        "clips": [],
        "sheet": "sheet.png",
        "source": "source.png",
    }
    return document("controls", **{**body, **changes})


def put(root, name, content):
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def pictures(folder):
    for name, size in (("sheet.png", (320, 200)), ("source.png", (64, 48))):
        Image.new("RGB", size, (10, 120, 200)).save(folder / name)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The published models' result, made by the verb itself."""
    folder = tmp_path_factory.mktemp("score")
    assert app.main(["score", f"data={OUTCOMES}", "draws=1000", f"out={folder}"]) == 0
    return json.loads((folder / "result.json").read_text())


def everything(root, scored):
    put(root, "verify", document("verify", certificates=[certificate(), FAILING]))
    pictures(put(root, "controls", controls()))
    put(root, "score", scored)
    return root


def made(root, *words) -> tuple[str, Page]:
    assert app.main(["report", f"data={root}", *words]) == 0
    text = (root / "report.html").read_text("utf-8")
    return text, Page(text)


def test_the_page_is_whole_self_contained_and_parses(tmp_path, scored):
    text, page = made(everything(tmp_path, scored))
    assert set(SECTIONS) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids)), "ids must be unlike each other"
    assert page.loads and all(item.startswith(("data:image/jpeg;base64,", "#")) for item in page.loads)
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert "script" not in page.tags and "Not here" not in page.text
    anchors = {item[1:] for item in page.loads if item.startswith("#")}
    assert anchors <= set(page.ids), "every link and every reference within a figure leads somewhere"


def test_every_number_is_its_results_own(tmp_path, scored):
    _, page = made(everything(tmp_path, scored))
    text = page.text
    for part in ("One reference holds and one fails.", "By mechanism : holds 1 , fails 1"):
        assert part in text
    ends = (f"0.0000 and {certificate()['upper']:.4f}", f"0.1234 and {FAILING['upper']:.4f}")
    for part in ("0.0060", *ends, "10,017", "on edge 17", "0.234", "step halving: agrees"):
        assert part in text
    assert text.count("not yet") >= 4
    for part in (
        "heads 7 1 1 9",
        "tails 0 11 0 11",
        "heads 1/2 9 7",
        "TVD 0.132",
        "18 of 19 answers",
        "0.026 to 0.237",
        "0.0935",
    ):
        assert part in text
    for name, model in scored["models"].items():
        mean = model["mntv"]
        ends = f"{mean['ci95'][0]:.3f} to {mean['ci95'][1]:.3f}"
        assert f"{name} {mean['value']:.4f} {ends} {mean['if_q']:.3f}" in text
        for cell in model["cells"].values():
            if cell["tv"] is not None:
                band = f"{cell['band'][0]:.3f} to {cell['band'][1]:.3f}"
                assert f"{cell['tv']:.3f} {cell['e0']:.3f} {band}" in text, "a distance stands beside its floor and band"


def test_the_same_results_give_the_same_figures(tmp_path, scored):
    """But for the minute it was made: ids, paths and bands come from the results alone."""
    first, second = everything(tmp_path / "a", scored), everything(tmp_path / "b", scored)
    pages = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", made(root)[0]) for root in (first, second)]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("present", ["verify", "controls", "score"])
def test_a_section_without_results_says_so_and_how_to_get_some(tmp_path, scored, present):
    bodies = {"verify": document("verify", certificates=[certificate()]), "controls": controls(), "score": scored}
    pictures(put(tmp_path, present, bodies[present]))
    _, page = made(tmp_path)
    assert page.text.count("Not here:") == 2
    assert set(SECTIONS) <= set(page.ids)
    for verb in bodies.keys() - {present}:
        assert f"quincunx {verb} " in page.text


ABOUT = {
    "title": "A toy coin",
    "reference": {"q": {"heads": "1/2"}, "derivation": "Two like faces.", "source": "Toy (2026)", "standing": "derived"},
    "note": "A note on the toy.",
    "prompt": "The coin is tossed.",
    "epsilon": 0.03,
    "device": {
        "_target_": "toys.Coin",
        "thickness": 0.00215,
        "table": [0.5, 0.46],
        "random": {"spin": {"dist": "norm", "loc": 130.0, "scale": 20.0}},
    },
    "engine": {"steps_per_second": 1200},
}


def with_scenes(result, **scenes):
    result["config"] = {**result["config"], "scenes": {name.replace("__", "/"): one for name, one in scenes.items()}}
    return result


def dice(scored, **changes):
    """A certificate of CaliBench's die, on the q that its models are scored against."""
    q = scored["models"]["wan"]["cells"]["dice"]["q"]
    tally = {"outcomes": [*"123456"], "counts": [4000] * 6, "nulls": {}, "sampling": "iid"}
    part = {"scene": "calibench/dice", "stream": "calibench/dice", "tally": tally, "q": dict(zip("123456", q, strict=True))}
    null_rate = {"value": 0.0, "limit": 0.02}
    return certificate(**{**part, "n": 24_000, "tvd": 0.0, "null_rate": null_rate, **changes})


def row(text, scene):
    """What the first table of models says of a reference: the cell between a scene and its answered clips."""
    return re.search(rf" {scene} ([^0-9†]*?(?:\(at ε = [0-9.]+\) )?)\d+ of 32 ", text).group(1).strip()


def test_a_score_says_whether_its_reference_holds_on_the_page(tmp_path, scored):
    counts = {"outcomes": [*"123456"], "counts": [200, 80, 80, 80, 80, 80], "nulls": {}, "sampling": "iid"}
    failing = dice(scored, verdict="fails", lower=0.1, n=600, tally=counts, tvd=200 / 600 - 1 / 6)
    put(tmp_path / "a", "score", scored)
    assert row(made(tmp_path / "a")[1].text, "dice") == "not checked here"
    put(tmp_path / "a", "verify", document("verify", certificates=[failing]))
    text, page = made(tmp_path / "a")
    assert row(page.text, "dice") == "✕ fails" and row(page.text, "cards") == "not checked here"
    assert page.text.count("†") == 1 + sum("dice" in model["cells"] for model in scored["models"].values())
    assert "the score is against the published q , which this page's physics does not reproduce" in page.text
    assert "includes scores against a reference that the physics on this page does not reproduce: dice" in page.text
    assert re.search(r'<a href="#([^"]+)" class="fails">', text).group(1) in page.ids
    # One that fails is never hidden by one that holds.
    put(tmp_path / "a", "again", document("verify", certificates=[dice(scored)]))
    assert row(made(tmp_path / "a")[1].text, "dice") == "✕ fails, holds"
    put(tmp_path / "b", "score", scored)
    put(tmp_path / "b", "verify", document("verify", certificates=[dice(scored)]))
    text = made(tmp_path / "b")[1].text
    assert row(text, "dice") == "✓ holds" and "†" not in text


def test_only_a_certificate_of_the_same_claim_and_physics_speaks_for_a_reference(tmp_path, scored):
    other = {"1": "1/2", **dict.fromkeys("23456", "1/10")}
    put(tmp_path, "score", scored)
    put(tmp_path, "other", document("verify", certificates=[dice(scored, q=other, verdict="undecided", tvd=2 / 6)]))
    overridden = document("verify", certificates=[dice(scored)])
    overridden["config"]["overrides"] = ["scene.device.height=0.01"]
    put(tmp_path, "overridden", overridden)
    text = made(tmp_path)[1].text
    assert row(text, "dice") == "not checked here"
    assert "Not the scene as its file has it: run with scene.device.height=0.01" in text


def test_another_epsilon_than_the_scenes_own_is_flagged(tmp_path, scored):
    put(tmp_path, "score", scored)
    put(tmp_path, "verify", with_scenes(document("verify", certificates=[dice(scored, epsilon=0.05)]), calibench__dice=ABOUT))
    text = made(tmp_path)[1].text
    assert "Tested at ε = 0.05, not at the scene's own 0.03: a coarser question" in text
    assert row(text, "dice") == "✓ holds (at ε = 0.05)"
    put(tmp_path, "verify", with_scenes(document("verify", certificates=[dice(scored)]), calibench__dice=ABOUT))
    text = made(tmp_path)[1].text
    assert "Tested at" not in text and row(text, "dice") == "✓ holds"


def test_a_card_gives_the_claim_its_source_and_the_build(tmp_path):
    put(tmp_path, "verify", with_scenes(document("verify", certificates=[certificate(), FAILING]), toy__coin=ABOUT))
    text = made(tmp_path)[1].text
    for part in (
        "A toy coin toy/coin",
        "derivation Two like faces.",
        "source Toy (2026)",
        "standing derived from what the benchmark's authors state",
        "note A note on the toy.",
        "prompt The coin is tossed.",
        "thickness 0.00215",
        "table 0.5, 0.46",
        "engine steps per second 1200",
        "spin norm: loc 130, scale 20",
        "The result does not hold the scene's own words.",
        "The scene as built here does not give the reference",
    ):
        assert part in text, part
    assert "has to change" not in text


def test_a_paired_scene_is_no_independent_evidence(tmp_path):
    variant = {"base": "toy/coin", "kind": "non_causal", "change": "The back is up."}
    both = document("verify", certificates=[certificate(), certificate(scene="toy/back")])
    put(tmp_path, "verify", with_scenes(both, toy__back={**ABOUT, "variant": variant}))
    text = made(tmp_path)[1].text
    told = "it shares its launches with toy/coin, so it is no independent evidence. What differs (non-causal): The back is up."
    assert text.count(told) == 1
    assert "toy/back shares its launches with toy/coin: not independent evidence." in text


def rendered(digest="0123456789abcdef", single=False):
    clips = [{"file": f"clips/{i}.mp4", "index": i, "outcome": label, "null": ""} for i, label in enumerate(("heads", "tails"))]
    one = {"scene": "toy/coin", "digest": digest, "clips": clips, "source": "source.png", "sheet": "sheet.png"}
    return (
        document("render", **one) if single else document("render", scenes=[{**one, "folder": "toy-coin"}], sheet="sheet.png")
    )


@pytest.mark.parametrize("single", [False, True])
def test_a_certificate_shows_its_scene(tmp_path, capsys, single):
    put(tmp_path, "verify", document("verify", certificates=[certificate()]))
    assert "No picture of this physics is among the results" in made(tmp_path)[1].text
    folder = put(tmp_path, "render", rendered(single=single))
    (folder / "toy-coin").mkdir()
    pictures(folder if single else folder / "toy-coin")
    capsys.readouterr()
    page = made(tmp_path)[1]
    assert page.tags.count("img") == 2 and "No picture" not in page.text and "More scenes" not in page.text
    assert "One rendered rollout of each outcome that was found." in page.text and "not a model's" in page.text
    assert "1 scene in pictures" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_pictures_of_other_physics_are_not_shown_as_a_certificates(tmp_path):
    put(tmp_path, "verify", document("verify", certificates=[certificate()]))
    pictures(put(tmp_path, "render", rendered(digest="fedcba9876543210", single=True)))
    text = made(tmp_path)[1].text
    assert "No picture of this physics is among the results" in text
    assert "More scenes, in pictures" in text and "physics fedcba9876543210" in text


def test_a_picture_of_render_that_leads_out_of_its_folder_is_refused(tmp_path, capsys):
    hostile = rendered()
    hostile["scenes"][0]["folder"] = "../elsewhere"
    put(tmp_path / "data", "render", hostile)
    (tmp_path / "data" / "elsewhere").mkdir()
    pictures(tmp_path / "data" / "elsewhere")
    assert app.main(["report", f"data={tmp_path / 'data'}"]) == 2
    assert "leads out of its result's folder" in capsys.readouterr().err


def test_without_render_the_controls_source_image_stands_beside_the_certificate(tmp_path):
    put(tmp_path, "verify", document("verify", certificates=[certificate()]))
    pictures(put(tmp_path, "controls", controls()))
    page = made(tmp_path)[1]
    assert page.tags.count("img") == 3 and "No picture" not in page.text


def test_a_p_value_that_no_draw_reached_is_printed_as_a_bound(tmp_path, scored):
    floor = {"value": 1 / 10001, "statistic": 99.0, "kind": "chi_square", "method": "monte_carlo", "draws": 10000, "reached": 0}
    small = {**floor, "value": 2 / 10001, "reached": 1}
    silent = {key: value for key, value in floor.items() if key != "reached"}
    for name, p, told in (("a", floor, "< 10⁻⁴ (chi"), ("b", small, "p-value 2.0 × 10⁻⁴ (chi"), ("c", silent, "< 10⁻⁴ (chi")):
        put(tmp_path / name, "verify", document("verify", certificates=[certificate(p_value=p)]))
        assert told in made(tmp_path / name)[1].text
    cells = deepcopy(scored)
    cell = cells["models"]["wan"]["cells"]["dice"]
    assert (cell["p_reached"], scored["draws"]) == (0, 1000), "the published counts are far from q"
    put(tmp_path / "d", "score", cells)
    assert f"{cell['score']:.3f} < 10⁻³" in made(tmp_path / "d")[1].text
    cell |= {"p": 2 / 1001, "p_reached": 1}
    put(tmp_path / "d", "score", cells)
    assert f"{cell['score']:.3f} 0.002" in made(tmp_path / "d")[1].text


def test_the_judge_is_told_in_plain_names_and_as_a_best_case(tmp_path):
    said = {"name": "trained", "version": 1, "per_outcome": 60, "threshold": 0.9, "seconds": {"fit": 3.15}, "unlearned": []}
    said |= {"features": "appearance", "answered_accuracy": 0.994, "abstained": 0.0139, "candidates": {"place": 0.18}}
    pictures(put(tmp_path, "controls", controls(judge=said)))
    text = made(tmp_path)[1].text
    for part in ("at most 60 rollouts of each outcome", "at least 90 % sure", "right in 99.4 % of its answers"):
        assert part in text
    assert "same renderer as those it learned from" in text and "this is a best case" in text
    assert "candidates" not in text and "3.15" not in text and "in its own words" not in text
    assert "An inset is an enlargement" in text


def test_what_is_not_drawn_and_plurals_are_told_on_the_terminal(tmp_path, capsys):
    put(tmp_path, "verify", document("verify", certificates=[certificate()]))
    put(tmp_path, "simulated", document("simulate", scene="toy/coin"))
    page = made(tmp_path)[1]
    told = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "1 certificate, 0 controls and 0 scores on" in told
    assert "Found but not drawn on the page, which has no form for them: simulated (simulate)" in told
    assert "Results found but not drawn, since this page has no form for them: simulated (simulate)" in page.text


def test_the_table_says_why_tv_and_p_can_disagree_and_what_it_leaves_out(tmp_path, scored):
    put(tmp_path, "score", scored)
    text = made(tmp_path)[1].text
    assert "but not drawn here: differences between models, power." in text
    assert "TV and p can disagree." in text and "no evidence of a difference" not in text


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;$x^$ {{ 7*7 }}"


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


def test_the_headline_counts_verdicts_in_words_and_bases_apart(tmp_path):
    undecided = certificate(verdict="undecided", reason="budget")
    assumed = certificate(verdict="consistent (assumption)", basis="assumption")
    hidden = certificate(basis="hidden_state")
    body = Certificates.model_validate({"certificates": [certificate(), hidden, FAILING, undecided, assumed]})
    assert headline(body.certificates) == (
        "Two references hold, one fails, one is undecided and one is consistent with its assumption."
    )
    assert headline(()) == "No reference was put to the test here."
    put(tmp_path, "verify", document("verify", certificates=[certificate(), hidden, FAILING, undecided, assumed]))
    text = made(tmp_path)[1].text
    for part in ("By mechanism : holds 1 , fails 1 , undecided 1", "By hidden state : holds 1", "consistent (assumption) 1"):
        assert part in text
    assert "neither for the reference nor against it" in text and "certifies nothing" in text


def test_numbers_never_hide_that_they_are_none():
    assert (fixed(None), fixed(-0.5, 2), probability(None)) == ("–", "−0.50", "–")
    assert (probability(0.05), probability(2e-5)) == ("0.050", "2.0 × 10⁻⁵")
    assert (share(0), share(1e-9), share(0.02)) == (
        "0\N{NO-BREAK SPACE}%",
        "under 0.001\N{NO-BREAK SPACE}%",
        "2\N{NO-BREAK SPACE}%",
    )
    assert (beside(0.2, 0.03), beside(0.030004, 0.03)) == ("0.2000", "0.030004"), (
        "on which side of ε it lies is never rounded off"
    )


def test_a_certificate_without_an_outcome_is_shown_without_a_distance(tmp_path):
    empty = certificate(
        verdict="fails",
        reason="nulls",
        tally={"outcomes": ["heads", "tails"], "counts": [0, 0], "nulls": {"stuck": 256}, "sampling": "iid"},
        n=256,
        tvd=None,
        null_rate={"value": 1.0, "limit": 0.02},
        p_value={"value": None, "statistic": None, "kind": "chi_square", "method": "exact"},
        first_rest_disagree=None,
        settle_time={"median": None, "p95": None},
    )
    put(tmp_path, "verify", document("verify", certificates=[empty]))
    text = made(tmp_path)[1].text
    assert "no distance" in text and "none came to rest" in text and "at least 96" in text


def test_bars_end_at_the_observed_shares():
    """Bars read back from the picture: heights stand to each other as the counts do, to the figure's rounding."""
    svg = plots.shares(["a", "b", "c"], [10, 40, 50], np.array([0.2, 0.3, 0.5]), "told", "x")
    assert svg.startswith("<svg role=") and "xmlns" not in svg and "#0102" not in svg
    heights = []
    for path in re.findall(r'<path d="([^"]*)"[^>]*style="fill: var\(--simulated\)', svg):
        y = [float(number) for number in re.findall(r"[ML] [-0-9.]+ ([-0-9.]+)", path)]
        heights.append(max(y) - min(y))
    assert len(heights) == 3
    np.testing.assert_allclose(np.array(heights) / sum(heights), [0.1, 0.4, 0.5], atol=1e-4)


def test_many_and_long_labels_are_drawn(tmp_path):
    labels = [f"pocket number {number} of the wheel" for number in range(37)]
    svg = plots.shares(labels, [1] * 37, np.full(37, 1 / 37), "told", "x")
    assert svg.count("pocket number") == 37


def test_the_template_travels_in_the_package():
    assert (Path(app.__file__).parent / "report" / "page.html.j2").is_file()


def test_help_names_the_key(capsys):
    with pytest.raises(UserError):
        collect(Path("/nonexistent"))
    assert app.main(["report"]) == 2
    assert "data= is missing" in capsys.readouterr().err


def test_pawbench_figures_stand_beside_their_floor_and_band(tmp_path):
    """Rows scored by the verb itself: one model answers, another is blocked by a machine's failure."""
    scene = {
        "scene_id": "A-01",
        "track": "calibration",
        "group": "toss",
        "expected_repeat_indices": [0, 1, 2, 3],
        "reference_distribution": {"heads": 0.5, "tails": 0.5},
    }
    policy = {"model_or_lanes": ["m", "n"], "tracks": {"calibration": {"scenes": [scene]}}}
    rows = []
    for model in ("m", "n"):
        for repeat, label in enumerate(("heads", "heads", "heads", None)):
            row = {"sample_id": f"{model}{repeat}", "source_sample_id": f"{model}{repeat}", "scene_id": "A-01"}
            row |= {"track": "calibration", "model_or_lane": model, "repeat_index": repeat}
            row |= {"observation": "outcome", "outcome_label": label} if label else {"observation": "null_observation"}
            if model == "n" and not label:
                row |= {"observation": "infrastructure_failure", "failure_code": "timeout"}
            rows.append(row)
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = [f"data={tmp_path / 'rows.jsonl'}", f"policy={tmp_path / 'policy.json'}", "partial=true", "draws=1000"]
    assert app.main(["score", *words, f"out={tmp_path / 'score'}"]) == 0
    entry = json.loads((tmp_path / "score" / "result.json").read_text())["pawbench"]["tracks"]["calibration"]["models"]["m"]
    (one,) = entry["scenes"]
    text = made(tmp_path)[1].text
    assert "PAWBench: calibration partial: not the whole benchmark" in text and "blocked by failures of the machine" in text
    assert f"A-01 not checked here pass 3 1 50.00 {one['floor']:.2f} {one['band'][0]:.1f} to {one['band'][1]:.1f}" in text
    assert f"m 50.00 {entry['matched_null']['mean']:.2f}" in text and "A-01 not checked here blocked 3 0 –" in text


def test_facts_of_validity_are_a_section_and_what_fails_shows(tmp_path):
    facts = [
        {"device": "coin", "fact": "a caught coin <b>", "told": "n = 10", "source": "Diaconis 2007", "passed": 2, "cases": 3,
         "seconds": 1.5}
    ]  # fmt: skip
    put(tmp_path, "validity", document("validity", facts=facts))
    text = made(tmp_path)[0]
    assert "Physics against theory and measurement" in text and "2 of 3" in text
    assert "a caught coin &lt;b&gt;" in text and "<b>" not in text.split("Physics against")[1].split("</section>")[0]
