"""The tutorial's commands, read out of it and run as they stand, for two scenes where it has ten."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refcheck import package_check

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"
TEN = "00 01 02 03 04 05 06 07 08 09"


def commands() -> str:
    """Return all of its shell blocks, in order."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", TUTORIAL.read_text("utf-8"), re.M | re.S))


def test_its_commands_are_those_of_ten_scenes():
    text = commands()
    assert "n=10" in text and text.count(f"for i in {TEN}; do") == 2
    for verb in ("generate", "verify", "bias", "controls", "freeze scene_dir", "freeze check"):
        assert f"quincunx {verb}" in text


@pytest.mark.slow
def test_an_author_gets_to_a_frozen_package(tmp_path):
    text = commands().replace("n=10", "n=2").replace(TEN, "00 01")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("QUINCUNX_SCENES", None)
    done = subprocess.run(["bash", "-eu", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = package_check.check(tmp_path / "package")
    assert found.problems == () and found.ours and found.scenes["calibration"] == 2
    manifest = json.loads((tmp_path / "package" / "manifest.json").read_text())
    for entry in manifest["quincunx"]["scenes"].values():
        assert set(entry["gates"].values()) == {"holds"} and set(entry["evidence"]) == {"certificate", "bias", "controls"}
