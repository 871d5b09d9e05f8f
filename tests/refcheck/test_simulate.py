"""Mass runs: parts and their ledger, killed and taken up again, the same bytes whatever ran them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from refcheck import app, simulate
from scenes.load import load_scene
from simulators.execute import ExecutorError, Pool, run_range

TESTS = Path(__file__).parent.parent


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / simulate.ROLLOUTS).iterdir())}


def words(out: Path, *more: str) -> list[str]:
    return ["simulate", "scene=toy/wedge", "n=1000", "first=40", "workers=1", f"out={out}", *more]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(simulate, "PART", 300)


def test_parts_are_one_table_and_the_ledger_counts_them(toy_conf, tmp_path, small_parts):
    assert app.main(words(tmp_path)) == 0
    assert list(files(tmp_path)) == ["_ledger.json", *(f"part-{k:08d}.parquet" for k in range(4))]
    table = pq.read_table(tmp_path / simulate.ROLLOUTS)
    assert table["index"].to_pylist() == list(range(40, 1040))
    ledger = json.loads((tmp_path / simulate.ROLLOUTS / simulate.LEDGER).read_text())
    result = json.loads((tmp_path / "result.json").read_text())
    assert [part["n"] for part in ledger["parts"]] == [300, 300, 300, 100]
    assert np.sum([part["facts"] for part in ledger["parts"]], axis=0).tolist() == result["tally"]["counts"]
    assert ledger["identity"]["digest"] == result["digest"]


@pytest.mark.parametrize("whole", [0, 1, 3, 4])
def test_a_run_cut_short_goes_on_and_ends_with_the_same_files(toy_conf, tmp_path, small_parts, monkeypatch, whole):
    straight, broken = tmp_path / "a", tmp_path / "b"
    assert app.main(words(straight)) == 0
    write, done = pq.write_table, []

    def killed(table, path):
        write(table, path)
        if len(done) == whole:
            (path.parent / ".part-left.parquet").write_bytes(b"half")
            raise KeyboardInterrupt
        done.append(path)

    with monkeypatch.context() as patch:
        patch.setattr("refcheck.simulate.pq.write_table", killed)
        assert app.main(words(broken)) == (130 if whole < 4 else 0)
    ran = []
    original = simulate.run_range
    monkeypatch.setattr(simulate, "run_range", lambda *args: ran.append(args[4]) or original(*args))
    assert app.main(words(broken)) == 0
    assert ran == [40 + min(300 * whole, 1000)], "what was whole is not run again"
    assert files(broken) == files(straight)
    first, second = (json.loads((out / "result.json").read_text()) for out in (straight, broken))
    assert first["tally"] == second["tally"]


def test_a_damaged_part_is_made_again_with_all_after_it(toy_conf, tmp_path, small_parts):
    assert app.main(words(tmp_path)) == 0
    before = files(tmp_path)
    (tmp_path / simulate.ROLLOUTS / "part-00000001.parquet").write_bytes(b"not what was written")
    assert app.main(words(tmp_path)) == 0
    assert files(tmp_path) == before


def test_rows_of_another_run_are_not_mixed_in_silence(toy_conf, tmp_path, small_parts, capsys):
    assert app.main(words(tmp_path)) == 0
    (tmp_path / "result.json").unlink()  # as a killed run leaves it
    assert app.main(words(tmp_path, "seed=1")) == 2
    assert "rows of another run" in capsys.readouterr().err
    assert app.main(words(tmp_path, "seed=1", "overwrite=true")) == 0
    (tmp_path / simulate.ROLLOUTS / simulate.LEDGER).write_text("[]")
    assert app.main(words(tmp_path, "seed=1")) == 2
    assert "no ledger of ours" in capsys.readouterr().err


@pytest.mark.parametrize("executor", ["threads", "process"])
def test_any_executor_gives_the_same_files(toy_conf, tmp_path, small_parts, executor):
    assert app.main(words(tmp_path / "serial", "executor=serial")) == 0
    out = tmp_path / executor
    assert (
        app.main(["simulate", "scene=toy/wedge", "n=1000", "first=40", "workers=3", f"out={out}", f"executor={executor}"]) == 0
    )
    assert files(out) == files(tmp_path / "serial")


def test_slices_come_in_order_and_whole_whatever_their_sizes(toy_conf):
    scene = load_scene("toy/wedge")
    with Pool("threads", 3) as pool:
        parts = list(run_range(scene.integrator, scene.device, 0, scene.stream, 5, 3000, pool))
    assert np.concatenate([part.index for part in parts]).tolist() == list(range(5, 3000))
    assert len({len(part) for part in parts}) > 1


def test_an_executor_that_cannot_be_had_is_one_clear_message(toy_conf, capsys):
    for wrong, named in (
        (("executor=dusk",), "dask"),
        (("cluster=tcp://x:1",), "executor=dask or slurm"),
        (("workers=0",), "1"),
    ):
        assert app.main(["simulate", "scene=toy/wedge", "n=4", *wrong]) == 2
        assert named in capsys.readouterr().err
    with pytest.raises(ExecutorError, match="executor"):
        Pool("many")  # type: ignore[arg-type]


@pytest.mark.slow
def test_killed_at_random_moments_and_started_again(toy_conf, tmp_path):
    """SIGKILL, twenty times, wherever it may be: the files end as those of an undisturbed run."""
    script = tmp_path / "run.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "from pathlib import Path\nimport scenes.load, refcheck.simulate as simulate\n"
        "from refcheck import app\nfrom scenes import catalog, mechanism\n"
        f"simulate.PART = 512\ncatalog.conf = scenes.load.conf = lambda: Path({str(toy_conf.parent.parent)!r})\n"
        "mechanism.TRUSTED = {role: (*roots, 'toy.') for role, roots in mechanism.TRUSTED.items()}\n"
        "sys.exit(app.main(sys.argv[1:]))\n"
    )
    command = [sys.executable, str(script), "simulate", "scene=toy/wedge", "n=6000", "workers=1"]
    subprocess.run([*command, f"out={tmp_path / 'a'}"], check=True, capture_output=True)
    draws = np.random.default_rng(0)
    for _ in range(20):
        process = subprocess.Popen([*command, f"out={tmp_path / 'b'}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(float(draws.uniform(0.6, 2.2)))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run([*command, f"out={tmp_path / 'b'}"], check=True, capture_output=True)
    assert files(tmp_path / "b") == files(tmp_path / "a")
