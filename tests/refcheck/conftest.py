"""Shared by the tests of the page: one result of `score`, made once."""

from __future__ import annotations

import json

import pytest
from report_pages import OUTCOMES

from refcheck import app


@pytest.fixture(scope="session")
def scored(tmp_path_factory):
    """The published models' result, made by the verb itself."""
    folder = tmp_path_factory.mktemp("score")
    assert app.main(["score", f"data={OUTCOMES}", "draws=1000", f"out={folder}"]) == 0
    return json.loads((folder / "result.json").read_text())
