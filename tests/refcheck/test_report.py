"""The page: it shows what the results say, and all of it comes from inside."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from report_pages import (
    ABOUT,
    FAILING,
    SECTIONS,
    certificate,
    controls,
    document,
    everything,
    made,
    pictures,
    put,
    rendered,
    with_scenes,
)

from refcheck import app
from refcheck.command import UserError
from refcheck.report import plots
from refcheck.report.collect import collect
from refcheck.report.numbers import beside, fixed, probability, share
from refcheck.report.page import headline
from refcheck.report.schema import Certificates


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
