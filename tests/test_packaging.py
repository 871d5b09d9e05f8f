"""What a user installs: one wheel that works from any folder, with nothing of ours loose in site-packages."""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from scenes.catalog import scene_ids

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("quincunx-*.whl"))


def test_the_wheel_holds_the_packages_and_the_configs_inside_one_of_them(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert top == {"simulators", "scenes", "refcheck"}
    assert {f"scenes/conf/scene/{id}.yaml" for id in scene_ids()} | {"scenes/conf/config.yaml"} <= set(names)
    assert any(name.startswith("refcheck/data/") for name in names)


def test_installed_it_works_from_another_folder(wheel, tmp_path):
    """A fresh environment that borrows only the dependencies of this one: a `.pth` line runs no other `.pth`, so our
    editable install stays out of it."""
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--quiet", str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def call(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert str(packages) in call(str(python), "-c", "import scenes.catalog as c; print(c.__file__)")
    listed = json.loads(call(str(home / "bin" / "quincunx"), "list", "json=true"))["scenes"]
    assert tuple(scene["id"] for scene in listed) == scene_ids()
    if listed:
        done = call(str(home / "bin" / "quincunx"), "simulate", f"scene={listed[0]['id']}", "n=2", "workers=1", "json=true")
        assert sum(json.loads(done)["tally"]["counts"]) + sum(json.loads(done)["tally"]["nulls"].values()) == 2


def test_the_constraints_pin_everything_that_is_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"], *project["build-system"]["requires"]]
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(line.count("==") == 1 for line in lines)
    pinned = {line.split("==")[0].lower() for line in lines}
    wanted = {re.split(r"[\[=<>~! ]", name)[0].lower() for name in asked}
    assert wanted <= pinned, wanted - pinned
