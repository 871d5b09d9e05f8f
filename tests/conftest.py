"""Shared by all tests: a folder of configs with the toy scenes in it, and which tests need an extra."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import toy

from scenes import catalog, mechanism

EXTRAS = {
    "openai": ("refcheck/test_vlm.py", "refcheck/test_evaluate.py", "refcheck/test_control_vlm.py"),
    "mitsuba": ("simulators/test_photoreal.py",),
    "distributed": ("simulators/test_clusters.py",),
}
"""Tests of what only an extra brings: `make nightly` installs the extras and runs them; `make test` must not need them."""
collect_ignore = [file for package, files in EXTRAS.items() if find_spec(package) is None for file in files]


@pytest.fixture
def toy_conf(tmp_path, monkeypatch):
    """Make the toy's scenes the only ones there are; return their folder, for a test to change."""
    root = tmp_path / "conf"
    (root / "scene" / "toy").mkdir(parents=True)
    (root / "config.yaml").write_text("defaults:\n  - scene: ???\n  - _self_\n")
    (root / "scene" / "toy" / "wedge.yaml").write_text(toy.SCENE)
    (root / "scene" / "toy" / "wedge-glossy.yaml").write_text(toy.PAIR)
    monkeypatch.setattr(catalog, "conf", lambda: root)
    monkeypatch.setattr("scenes.load.conf", lambda: root)
    trusted = {role: (*roots, "toy.") for role, roots in mechanism.TRUSTED.items()}
    monkeypatch.setattr(mechanism, "TRUSTED", trusted)
    return root / "scene" / "toy"
