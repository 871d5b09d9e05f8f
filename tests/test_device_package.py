"""A device from a package of its own: named in a scene from outside once its wheel is installed, and not before."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest
import toy

from scenes import mechanism

ROOT = Path(__file__).parent.parent
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "wedge-devices"
version = "1.0"

[project.entry-points."quincunx.devices"]
wedge = "wedge_devices"

[project.entry-points."quincunx.engines"]
wedge = "wedge_devices"
"""


def wheel(project: Path, out: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(project)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def test_only_installed_packages_add_to_what_is_trusted(toy_conf, monkeypatch):
    """The toy's module can be imported here, and its classes may be named only because the tests say so."""
    monkeypatch.setattr(mechanism, "TRUSTED", {role: roots[:-1] for role, roots in mechanism.TRUSTED.items()})
    config = {"_target_": "toy.Wedge", "radius": 5e-3, "random": {}}
    assert mechanism.build("device", config)[1] == [
        "`device._target_` is 'toy.Wedge': it must be a class below simulators.devices"
    ]

    class Point:
        module = "toy"

    monkeypatch.setattr(mechanism, "entry_points", lambda group: [Point()] if group == "quincunx.devices" else [])
    mechanism.installed.cache_clear()
    try:
        assert mechanism.target("device", config) == (toy.Wedge, [])
        assert mechanism.target("engine", {"_target_": "toy.Closed"})[0] is None
        for near in ("toyish.Wedge", "toy", "os.system"):
            assert mechanism.target("device", {"_target_": near})[0] is None
    finally:
        mechanism.installed.cache_clear()


@pytest.mark.slow
def test_a_separate_wheel_brings_a_device_and_its_engine(tmp_path):
    project = tmp_path / "project"
    (project / "wedge_devices").mkdir(parents=True)
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "wedge_devices" / "__init__.py").write_text("")
    shutil.copy(ROOT / "tests" / "toy.py", project / "wedge_devices" / "toy.py")
    scene = tmp_path / "mine" / "scene" / "mine" / "wedge.yaml"
    scene.parent.mkdir(parents=True)
    scene.write_text(
        toy.SCENE.replace("toy/wedge", "mine/wedge")
        .replace("benchmark: toy", "benchmark: mine")
        .replace(" toy.", " wedge_devices.toy.")
    )
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()))  # the dependencies; see test_packaging
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "QUINCUNX_SCENES")}

    def install(file: Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--quiet", str(file)]
        subprocess.run(command, check=True)

    def verify(*words: str, **more: str) -> subprocess.CompletedProcess:
        command = [str(home / "bin" / "quincunx"), "verify", "scene=mine/wedge", "epsilon=.1", "json=true", "workers=1", *words]
        return subprocess.run(command, cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True)

    install(wheel(ROOT, tmp_path / "ours"))
    told = verify(f"scene_dir={tmp_path / 'mine'}")
    assert told.returncode == 2 and "must be a class below simulators.devices" in told.stderr
    install(wheel(project, tmp_path / "theirs"))
    for told in (verify(f"scene_dir={tmp_path / 'mine'}"), verify(QUINCUNX_SCENES=str(tmp_path / "mine"))):
        assert told.returncode == 0, told.stderr
        (certificate,) = json.loads(told.stdout)["certificates"]
        assert (certificate["verdict"], certificate["engine"]["name"]) == ("holds", "closed")
    assert verify().returncode == 2  # no folder named: no such scene
