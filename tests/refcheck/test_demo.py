"""The demo: real verbs in order, everything anew, and a status that does not hide what failed."""

from __future__ import annotations

import json

import pytest

from refcheck import app, demo, options
from refcheck.demo import OUTCOMES, Step

SCORE = Step("Score", "score", "score", (f"data={OUTCOMES}", "draws=1000", "seed=0"))
CERTIFY = Step("Certify", "verify", "verify", ("scene=toy/wedge", "epsilon=0.1", "seed=0", "workers=1"))


@pytest.fixture
def plan(monkeypatch):
    def use(*steps):
        monkeypatch.setattr(demo, "steps", lambda seed=0, k=50: steps)

    return use


def test_it_runs_the_verbs_and_writes_the_page(toy_conf, plan, tmp_path, capsys):
    plan(CERTIFY, SCORE)
    assert demo.main([f"out={tmp_path}"]) == 0
    told = capsys.readouterr().out
    result = json.loads((tmp_path / "verify" / "result.json").read_text())
    (one,) = result["certificates"]
    assert f"toy/wedge: {one['verdict']} (TVD between {one['lower']:.4f} and {one['upper']:.4f}" in told
    for part in ("[1/3] Certify", "[2/3] Score", "[3/3] Write the page", "seedance: mnTV 0.3907 (95 %", "s since the start"):
        assert part in told
    *_, where, following = told.rstrip().splitlines()
    assert where.startswith(f"The page: {tmp_path.resolve() / 'report.html'}") and "quincunx" in following
    assert [told.index(f"\n{name}: mnTV") for name in ("seedance", "happyhorse", "wan")] == sorted(
        told.index(f"\n{name}: mnTV") for name in ("wan", "seedance", "happyhorse")
    ), "models in the order of their mnTV, as on the page"
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "toy/wedge" in page and "0.3907" in page


def test_it_stops_at_the_first_verb_that_does_not_complete_and_shows_no_earlier_page(toy_conf, plan, tmp_path, capsys):
    plan(CERTIFY, SCORE)
    assert demo.main([f"out={tmp_path}"]) == 0
    plan(CERTIFY, Step("Break", "score", "score", (f"data={tmp_path / 'nowhere.csv'}",)), SCORE)
    capsys.readouterr()
    assert demo.main([f"out={tmp_path}"]) == 2
    told = capsys.readouterr().out
    assert "did not complete (exit status 2)" in told and "[3/4]" not in told and "The page" not in told
    assert not (tmp_path / "report.html").exists()
    assert not (tmp_path / "score" / "result.json").exists()


def test_a_verdict_not_met_is_not_success(toy_conf, plan, tmp_path):
    plan(Step("Require", "verify", "verify", (*CERTIFY.words, "require=fails")))
    assert demo.main([f"out={tmp_path}"]) == 1


@pytest.mark.parametrize("step", demo.steps(), ids=lambda step: step.folder)
def test_every_step_is_a_command_that_its_verb_takes(step):
    """Parsed as the command line would, so that a renamed key or scene is found here and not in the demo."""
    asked = options.parse(app._module(step.verb), [*step.words, "out=x", "overwrite=true"])
    assert asked.overwrite
    if step.verb in demo.WITH_WORKERS:
        assert asked.scenes and "workers" in asked.values


def test_what_it_certifies_and_reads():
    assert [step.verb for step in demo.steps()] == ["verify", "verify", "verify", "render", "controls", "score"]
    words = " ".join(word for step in demo.steps(seed=3, k=7) for word in step.words)
    for part in ("calibench/dice", "pawbench/A-01", "calibench/galton_board", "judge=trained", "k=7", "calibench_outcomes.csv"):
        assert part in words
    assert words.count("seed=3") == 6
    certified = {word.partition("=")[2] for step in demo.steps() if step.verb == "verify" for word in step.words[:1]}
    assert certified == set(demo.SCENES.partition("=")[2].split(",")), "what is certified is what is drawn"


def test_it_says_how_to_use_the_command_line_next(tmp_path):
    """The environment that runs the demo, activated or by its path, from a folder within it or not."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    assert "`.venv/bin/quincunx list`" in demo.following(programs, tmp_path)
    (programs / "activate").touch()
    assert "`. .venv/bin/activate`, then `quincunx list`" in demo.following(programs, tmp_path)
    assert f"`. {programs / 'activate'}`" in demo.following(programs, tmp_path / "elsewhere")


@pytest.mark.parametrize("word", ["sed=1", "json=true", "overwrite=true", "seed=-1"])
def test_a_wrong_key_is_told_before_anything_runs(plan, capsys, word):
    plan()
    assert demo.main([word]) == 2
    told = capsys.readouterr()
    assert told.out == "" and word.split("=")[0] in told.err


def test_help(capsys):
    assert demo.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert "python -m refcheck.demo" in told and "workers=" in told and "json=" not in told
