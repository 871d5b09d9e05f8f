"""Writes what the tests of validity found as a result of ours, for a page: `pytest tests/validity --validity-out=DIR`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

MOST = 1000  # characters of a fact


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--validity-out", type=Path, help="folder for result.json: every fact checked, and how it went")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--validity-out") is not None:
        config.pluginmanager.register(Facts(config.getoption("--validity-out")), "validity-facts")


class Facts:
    """Gathers one line a test function: its device, what it says, how many of its cases passed, in what time."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.facts: dict[tuple[str, str], dict] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo):
        outcome = yield
        report = outcome.get_result()
        if report.when != "call" or "validity" not in item.path.parts:
            return
        function = item.function
        words = " ".join((function.__doc__ or "").split())
        claim = function.__name__.removeprefix("test_").replace("_", " ")
        key = item.path.stem.removeprefix("test_"), function.__name__
        source = " ".join((item.module.__doc__ or "").split())
        fact = self.facts.setdefault(
            key,
            {"device": key[0].replace("_", " "), "fact": claim[:MOST], "told": words[:MOST], "source": source[:MOST],
             "passed": 0, "cases": 0, "seconds": 0.0},
        )  # fmt: skip
        fact["cases"] += 1
        fact["passed"] += report.passed
        fact["seconds"] += report.duration

    def pytest_sessionfinish(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        document = {
            "schema": "quincunx.validity/v1",
            "verb": "validity",
            "version": version("quincunx"),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {name: version(name) for name in ("numpy", "scipy", "numba", "pybullet")},
            "config": {"options": {}, "overrides": []},
            "facts": [self.facts[key] for key in sorted(self.facts)],
        }
        (self.out / "result.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
