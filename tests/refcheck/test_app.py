"""The command line as a user meets it: exit statuses, messages, JSON alone on standard output, files written whole."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.table import Table

from refcheck import app, options, output
from refcheck.command import Answer, Option, UserError

REFCHECK = Path(app.__file__).parent


def run(*words: str, capsys) -> tuple[int, str, str]:
    status = app.main(words)
    told = capsys.readouterr()
    return status, told.out, told.err


def test_starting_imports_the_standard_library_and_the_contract_alone():
    code = "import sys; before = set(sys.modules); import refcheck.app; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    outside = {name.split(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names
    assert outside == {"refcheck"}


def test_listing_imports_no_physics_and_no_hydra():
    code = (
        "import sys; from refcheck.app import main; main(['list', 'json=true']); main(['list']);"
        "print(sorted({'numpy', 'scipy', 'hydra', 'pybullet', 'pymunk', 'pydantic'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_help_and_version(capsys):
    for words in ((), ("--help",), ("-h",)):
        status, out, _ = run(*words, capsys=capsys)
        assert status == 0 and "VERB key=value" in out and "verify" in out
    status, out, _ = run("--version", capsys=capsys)
    assert status == 0 and out.startswith("quincunx 0.")
    status, out, _ = run("verify", "--help", capsys=capsys)
    assert status == 0
    for part in ("epsilon=", "require=", "holds, fails, decided", "scenes=", "out=", "default 0.01"):
        assert part in out


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_has_a_summary_that_is_read_without_importing_it(verb):
    module = app._module(verb)
    assert app._summary(verb) == module.SUMMARY
    assert verb in options.describe(verb, module)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("verfy",), ["'verfy' is not a verb", "did you mean 'verify'"]),
        (("verify",), ["scene= is missing", "scenes="]),
        (("simulate",), ["scene= is missing"]),
        (("simulate", "scenes=*"), ["'scenes'", "no key of this verb", "did you mean 'scene'"]),
        (("verify", "scene=toy/wegde"), ["'toy/wegde'", "did you mean 'toy/wedge'", "quincunx list"]),
        (("verify", "scenes=toy/x*,toy/wedge"), ["no scene matches 'toy/x*'"]),
        (("verify", "scene=toy/wedge", "scenes=*"), ["both given"]),
        (("verify", "scenes=*", "scene.device.radius=1"), ["changes one scene's config", "scene=<id>"]),
        (("verify", "toy/wedge"), ["'toy/wedge' is not key=value"]),
        (("simulate", "scene=toy/wedge", "n=abc"), ["n='abc'", "a whole number at least 1"]),
        (("simulate", "scene=toy/wedge", "n=0"), ["n=0", "at least 1"]),
        (("simulate", "scene=toy/wedge", "n=1e3"), ["n='1e3'", "a whole number"]),
        (("simulate", "scene=toy/wedge", "seed=-1"), ["seed=-1", "at least 0", "2**64 - 1"]),
        (("simulate", "scene=toy/wedge", f"seed={2**64}"), ["seed=", "at most 2**64 - 1"]),
        (("verify", "scene=toy/wedge", "alpha=nan"), ["alpha='nan'", "a number"]),
        (("verify", "scene=toy/wedge", "require=hold"), ["require='hold'", "did you mean 'holds'"]),
        (("verify", "scene=toy/wedge", "json=maybe"), ["json='maybe'", "true or false"]),
        (("verify", "scene=toy/wedge", "out="), ["out=''", "a path"]),
        (("verify", "scene=toy/wedge", "seed=1", "seed=2"), ["'seed' is given twice"]),
        (("simulate", "scene=toy/wedge", "scene.device.radios=1"), ["scene.device.radios", "did you mean 'radius'"]),
    ],
)
def test_a_mistake_ends_in_status_2_one_message_and_no_traceback(toy_conf, capsys, words, parts):
    status, out, err = run(*words, capsys=capsys)
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    for part in parts:
        assert part in err


def test_all_mistakes_are_told_at_once(toy_conf, capsys):
    status, _, err = run("simulate", "scene=toy/wegde", "n=abc", "sede=1", "first=-1", "what", capsys=capsys)
    assert status == 2
    for part in ("toy/wegde", "n='abc'", "did you mean 'seed'", "first=-1", "'what'"):
        assert part in err


def test_mistakes_in_a_scene_are_told_with_those_elsewhere(toy_conf, capsys):
    wrong = ("scene.devic.x=1", "scene.device.radios=2", "scene.engine.steps=3")
    for more in (("n=abc",), ("~scene.note",), ("+scene.note=1", "what")):
        status, _, err = run("simulate", "scene=toy/wedge", *more, *wrong, capsys=capsys)
        assert status == 2
        for part in (*more, "scene.devic", "scene.device.radios", "scene.engine.steps"):
            assert part.replace("n=abc", "n='abc'") in err
    status, _, err = run("render", "scene=toy/wedge", "index=1", "outcome=lefd", "scene.device.radios=2", capsys=capsys)
    assert status == 2
    for part in ("both given", "did you mean 'left'", "scene.device.radios"):
        assert part in err


def test_simulate_writes_rows_and_a_result_that_reproduces_them(toy_conf, tmp_path, capsys):
    out = tmp_path / "a" / "run"
    words = ("simulate", "scene=toy/wedge", "n=300", "first=900", "seed=5", "workers=1", "scene.device.dead_zone=0.1e-3")
    status, told, err = run(*words, f"out={out}", "json=true", capsys=capsys)
    assert (status, err) == (0, "")
    document = json.loads(told)
    assert document == json.loads((out / "result.json").read_text())
    assert document["schema"] == "quincunx.simulate/v1"
    assert document["seed"] == 5 and document["versions"]["numpy"] == np.__version__
    assert document["config"]["scenes"]["toy/wedge"]["device"]["dead_zone"] == 0.1e-3
    assert sorted(path.name for path in out.iterdir()) == ["result.json", "rollouts.parquet"]
    table = pq.read_table(out / "rollouts.parquet")
    rows = table.to_pylist()
    assert [row["index"] for row in rows] == list(range(900, 1200))
    tally = document["tally"]
    assert tally["counts"] == [sum(row["outcome"] == label for row in rows) for label in ("left", "right")]
    assert tally["nulls"]["stuck"] == sum(row["null_reason"] == "stuck" for row in rows) > 0
    assert all((row["outcome"] is None) == (row["null_reason"] is not None) for row in rows)
    assert table.schema.metadata[b"digest"].decode() == document["digests"]["toy/wedge"]


def test_an_outcome_is_the_side_of_the_launch_itself(toy_conf, tmp_path):
    """The rows against the launches drawn apart from them: an outcome that came from elsewhere would not match."""
    from scenes.load import load_scene
    from simulators.sampling import launch_block

    assert app.main(["simulate", "scene=toy/wedge", "n=1024", "seed=3", "workers=1", f"out={tmp_path}"]) == 0
    launch = launch_block(load_scene("toy/wedge").device.random, 3, "toy/wedge", 0)["release_x"]
    outcomes = pq.read_table(tmp_path / "rollouts.parquet")["outcome"].to_pylist()
    assert outcomes == np.where(launch > 0, "right", "left").tolist()


def test_a_folder_with_another_result_is_not_overwritten_unless_asked(toy_conf, tmp_path, capsys):
    words = ["simulate", "scene=toy/wedge", "n=64", f"out={tmp_path}"]
    assert app.main([*words, "workers=1"]) == 0
    assert app.main([*words, "workers=1"]) == 0, "the same command may be run again"
    before = (tmp_path / "result.json").read_bytes()
    status, _, err = run(*words, "workers=1", "seed=1", capsys=capsys)
    assert status == 2 and "overwrite=true" in err
    assert (tmp_path / "result.json").read_bytes() == before
    assert app.main([*words, "workers=1", "seed=1", "overwrite=true"]) == 0
    (tmp_path / "result.json").write_text("[]")
    status, _, err = run(*words, "workers=1", capsys=capsys)
    assert status == 2 and f"{tmp_path / 'result.json'} is no result of ours" in err


@pytest.mark.parametrize("text", ["[" * 200_000, '{"config": ' * 200_000, "{", "[1]"])
def test_a_result_file_that_is_none_of_ours_is_refused_by_name(toy_conf, tmp_path, capsys, text):
    (tmp_path / "result.json").write_text(text)
    status, _, err = run("simulate", "scene=toy/wedge", "n=4", f"out={tmp_path}", "workers=1", capsys=capsys)
    assert status == 2 and f"{tmp_path / 'result.json'} is no result of ours" in err and "Traceback" not in err
    assert (tmp_path / "result.json").read_text() == text


def test_the_old_result_is_gone_before_new_rows_take_the_old_ones_place(toy_conf, tmp_path, monkeypatch):
    words = ["simulate", "scene=toy/wedge", "n=4", "workers=1", f"out={tmp_path}"]
    assert app.main(words) == 0
    there = []

    def cut_short(table, path):
        there.extend(sorted(file.name for file in path.parent.parent.iterdir()))
        raise KeyboardInterrupt

    monkeypatch.setattr("refcheck.simulate.pq.write_table", cut_short)
    assert app.main([*words, "seed=1", "overwrite=true"]) == 130
    assert "result.json" not in there and "rollouts.parquet" in there


def test_out_that_is_a_file_is_a_mistake_and_out_that_cannot_be_made_is_the_machines(toy_conf, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    status, _, err = run("simulate", "scene=toy/wedge", f"out={tmp_path / 'file'}", capsys=capsys)
    assert status == 2 and "give a folder" in err
    status, _, err = run("simulate", "scene=toy/wedge", f"out={tmp_path / 'file' / 'below'}", capsys=capsys)
    assert status == 3 and "below" in err and "Traceback" not in err


def test_list_answers_for_all_scenes_and_for_a_pattern(toy_conf, capsys):
    status, out, _ = run("list", "json=true", capsys=capsys)
    assert status == 0
    assert [scene["id"] for scene in json.loads(out)["scenes"]] == ["toy/wedge", "toy/wedge-glossy"]
    status, out, _ = run("list", "scenes=*glossy", capsys=capsys)
    assert status == 0 and "Wedge, glossy" in out and "toy/wedge " not in out


def test_a_broken_scene_does_not_hide_the_others(toy_conf, capsys):
    (toy_conf / "a.yaml").write_text("a: [")
    (toy_conf / "b.yaml").write_text("outcomes: 5\nreference: [x]\n")
    status, out, _ = run("list", capsys=capsys)
    assert status == 2 and out.index("toy/wedge-glossy") < out.index("a.yaml: not YAML") and "toy/b" in out
    status, out, _ = run("list", "json=true", capsys=capsys)
    document = json.loads(out)
    assert status == 2 and [scene["id"] for scene in document["scenes"]] == ["toy/b", "toy/wedge", "toy/wedge-glossy"]
    assert len(document["problems"]) == 1
    status, out, err = run("list", "scene=toy/a", capsys=capsys)
    assert (status, out) == (2, "") and "not YAML" in err


class Verb:
    """A verb whose `run` is the test's."""

    SUMMARY, OPTIONS, USES_SCENES, __name__ = "tests", (Option("data", "path", ..., "the data"),), False, "fake"

    def __init__(self, run) -> None:
        self.run = run


def fail(error):
    def run(request):
        raise error

    return run


class InfrastructureError(RuntimeError):
    pass


@pytest.mark.parametrize(
    ("error", "status", "part", "traceback"),
    [
        (UserError("a is wrong", "b is wrong"), 2, "quincunx: b is wrong", False),
        (KeyboardInterrupt(), 130, "stopped; no result was written", False),
        (PermissionError(13, "Permission denied", "/x"), 3, "/x", False),
        (InfrastructureError("a worker died"), 3, "a worker died", False),
        (ZeroDivisionError("oops"), 3, "please report", True),
    ],
)
def test_how_a_verb_may_end(monkeypatch, capsys, error, status, part, traceback):
    monkeypatch.setattr(app, "_module", lambda verb: Verb(fail(error)))
    got, out, err = run("score", "data=x", capsys=capsys)
    assert (got, out) == (status, "")
    assert part in err and ("Traceback" in err) == traceback


def test_a_required_key_that_is_missing_is_told(monkeypatch, capsys):
    monkeypatch.setattr(app, "_module", lambda verb: Verb(lambda request: Answer({})))
    status, _, err = run("score", capsys=capsys)
    assert status == 2 and "data= is missing" in err


def test_a_result_may_not_hide_where_it_came_from():
    with pytest.raises(ValueError, match="seed"):
        output.complete({"seed": 1}, {"seed": 2})


def test_json_has_no_nan_and_an_atomic_write_leaves_the_old_file_when_it_fails(tmp_path):
    assert output.to_json(output.plain({"a": float("nan"), "b": np.array([1.5, np.inf]), "c": np.int64(2)})).split() == (
        '{ "a": null, "b": [ 1.5, null ], "c": 2 }'.split()
    )
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), output.atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with output.atomic(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o666 & ~output._umask()


def test_what_an_engine_prints_itself_stays_off_standard_output():
    code = """
import os, sys, types
from refcheck import app
from refcheck.command import Answer
def run(request):
    os.write(1, b"b3Warning: noise")
    return Answer({"models": {}})
app._module = lambda verb: types.SimpleNamespace(OPTIONS=(), SUMMARY="", run=run)
sys.argv = ["quincunx", "score", "json=true"]
sys.exit(app.main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "noise" in done.stderr
    assert json.loads(done.stdout)["models"] == {}


def test_a_closed_pipe_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "refcheck.app", "--help"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert "Traceback" not in done.stderr


def test_what_data_says_is_printed_as_it_is(toy_conf, tmp_path, capsys):
    """Titles, outcomes and folders that look like a library's markup."""
    wedge = toy_conf / "wedge.yaml"
    wedge.write_text(re.sub("(?m)^title: .*", "title: 'x [/nope] :apple:'", wedge.read_text()))
    status, told, err = run("list", "scenes=toy/wedge", capsys=capsys)
    assert (status, err) == (0, "") and "x [/nope] :apple:" in " ".join(told.split())
    table = Table(title="clips in /tmp/x[/red]")
    table.add_column("[bold]outcome")
    table.add_row("[heads]")
    table.add_row("[/t]")
    output.show((table, "[/also]"), {}, as_json=False, where=None)
    told = capsys.readouterr().out
    for part in ("/tmp/x[/red]", "[bold]outcome", "[heads]", "[/t]", "[/also]"):
        assert part in told


def test_a_bar_shows_its_label_as_it_is(monkeypatch):
    now, shown = [0.0], io.StringIO()
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    console = Console(file=shown, force_terminal=True, width=80, markup=False)
    monkeypatch.setattr(output, "_console", lambda **named: console)
    with output.progress("look for [/t]", 3) as advance:
        now[0] += 5.0
        advance(1)
    assert "look for [/t]" in shown.getvalue()


def test_progress_is_silent_for_what_is_quick_and_sparse_without_a_terminal(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    with output.progress("quick", 10) as advance:
        advance(10)
    assert capsys.readouterr().err == ""
    with output.progress("slow", 100) as advance:
        for _ in range(100):
            now[0] += 0.5
            advance(1)
    lines = capsys.readouterr().err.splitlines()
    assert 4 <= len(lines) <= 5 and lines[0].startswith("slow: 20 of 100")


def test_no_module_of_the_command_line_imports_a_heavy_package_at_its_top():
    heavy = {"numpy", "scipy", "rich", "hydra", "pydantic", "yaml"}
    for name in ("app", "options", "command"):
        tree = ast.parse((REFCHECK / f"{name}.py").read_text())
        names = {a.name.split(".")[0] for node in tree.body if isinstance(node, ast.Import) for a in node.names}
        names |= {(node.module or "").split(".")[0] for node in tree.body if isinstance(node, ast.ImportFrom)}
        assert not names & heavy, name


def test_nothing_that_a_file_holds_drives_a_terminal(toy_conf, capsys):
    """Escapes, bells and C1 controls in a message, a cell, a title or a line are shown and not sent."""
    evil = "a\x1b[31mb\x07\x9bz"
    status, _, err = run("controls", f"read={evil}", "key=k", capsys=capsys)
    table = Table(title=evil)
    table.add_column(evil)
    table.add_row(evil + "é [b]")
    output.show([table, evil], {}, as_json=False, where=None)
    told = capsys.readouterr().out
    assert status == 2 and err.count("a\\x1b[31mb\\x07\\x9bz") == 1 and told.count("a\\x1b[31mb\\x07\\x9bz") == 4
    assert "é [b]" in told and not set("\x1b\x07\x9b") & set(told + err)
