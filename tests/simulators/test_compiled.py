"""Compiled code is kept between runs where the user can write, says when it compiles, and is never stale."""

import os
import subprocess
import sys

from simulators import compiled

PROBE = "from simulators.compiled import jit\n\n@jit\ndef twice(x):\n    return 2 * x\n\nprint(twice(21))\n"


def run_probe(folder, **variables):
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")} | variables
    return subprocess.run([sys.executable, "-c", "import probe"], cwd=folder, env=env, capture_output=True, text=True)


def test_the_first_run_says_that_it_compiles_and_the_second_does_not(tmp_path):
    (tmp_path / "probe.py").write_text(PROBE)
    first, second = (run_probe(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kept")) for _ in range(2))
    assert first.stdout == second.stdout == "42\n"
    assert "compiling" in first.stderr and str(tmp_path / "kept") in first.stderr
    assert len(first.stderr.splitlines()) == 1
    assert second.stderr == ""
    assert list((tmp_path / "kept").rglob("probe*.nbi"))


def test_without_a_choice_it_is_kept_in_the_users_cache(tmp_path):
    (tmp_path / "probe.py").write_text(PROBE)
    told = run_probe(tmp_path, XDG_CACHE_HOME=str(tmp_path / "xdg"))
    assert told.returncode == 0
    assert list((tmp_path / "xdg" / "quincunx" / "numba").rglob("probe*.nbi"))


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "probe.py").write_text(PROBE)
    (tmp_path / "file").write_text("in the way")
    told = run_probe(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert told.returncode != 0
    assert "CacheError" in told.stderr and str(tmp_path / "file" / "cache") in told.stderr and "NUMBA_CACHE_DIR" in told.stderr


def test_code_is_named_by_all_that_it_comes_from():
    # numba itself looks only at the file a function stands in, and would load stale code after an edit elsewhere
    from simulators.render import raster_kernels

    names = {path.name for path in compiled._sources(compiled.Path(raster_kernels.__file__))}
    assert {"raster_kernels.py", "raster_shapes.py", "textures.py", "compiled.py"} <= names
    assert "planar.py" not in names


def test_an_edit_of_what_is_imported_gives_another_folder(tmp_path, monkeypatch):
    (tmp_path / "simulators").mkdir()
    part, user = tmp_path / "simulators" / "part.py", tmp_path / "simulators" / "user.py"
    part.write_text("LIMIT = 1\n")
    user.write_text("from simulators.part import (\n    LIMIT,\n)\n")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "simulators" / "compiled.py"))
    monkeypatch.setattr(compiled, "cache_root", lambda: tmp_path)
    before = compiled._folder(str(user))
    part.write_text("LIMIT = 2\n")
    assert compiled._folder(str(user)) != before
    part.write_text("LIMIT = 1\n")
    assert compiled._folder(str(user)) == before
