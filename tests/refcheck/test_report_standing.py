"""A score on the page says what is known of the reference that it was scored against."""

from __future__ import annotations

import re

from report_pages import ABOUT, certificate, document, made, put, with_scenes


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


def test_a_paired_scene_is_no_independent_evidence(tmp_path):
    variant = {"base": "toy/coin", "kind": "non_causal", "change": "The back is up."}
    both = document("verify", certificates=[certificate(), certificate(scene="toy/back")])
    put(tmp_path, "verify", with_scenes(both, toy__back={**ABOUT, "variant": variant}))
    text = made(tmp_path)[1].text
    told = "it shares its launches with toy/coin, so it is no independent evidence. What differs (non-causal): The back is up."
    assert text.count(told) == 1
    assert "toy/back shares its launches with toy/coin: not independent evidence." in text
