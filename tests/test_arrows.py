"""The arrows: refcheck -> scenes -> simulators, and nowhere an outcome drawn. Held by reading every import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "simulators": {"simulators"},
    "scenes": {"scenes", "simulators"},
    "refcheck": {"refcheck", "scenes", "simulators"},
}
OURS = {*MAY_IMPORT, "tests", "benchmarks"}
FILES = [path for package in MAY_IMPORT for path in sorted((ROOT / package).rglob("*.py"))]


def imported(source: str, package: str) -> Iterator[str]:
    """Yield the modules that `source` imports anywhere, in functions and by name as well; `package` is its own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield package if node.level else node.module or ""
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__", "find_spec"):
                for given in node.args[:1]:
                    literal = given.values[0] if isinstance(given, ast.JoinedStr) and given.values else given
                    if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                        yield literal.value


def wrong_arrows(source: str, package: str) -> list[str]:
    return [m for m in imported(source, package) if m.split(".")[0] in OURS and m.split(".")[0] not in MAY_IMPORT[package]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    assert wrong_arrows(path.read_text("utf-8"), path.relative_to(ROOT).parts[0]) == []


@pytest.mark.parametrize(
    ("package", "source", "wrong"),
    [
        ("simulators", "import scenes.scene", ["scenes.scene"]),
        ("simulators", "from refcheck import tally", ["refcheck"]),
        ("simulators", "def f():\n    from scenes.load import load_scene", ["scenes.load"]),
        ("simulators", "import importlib\nimportlib.import_module('refcheck.verify')", ["refcheck.verify"]),
        ("simulators", "from importlib import import_module as f, import_module\nimport_module(f'scenes.{1}')", ["scenes."]),
        ("simulators", "try:\n    import refcheck as r\nexcept ImportError:\n    pass", ["refcheck"]),
        ("scenes", "from refcheck.command import UserError", ["refcheck.command"]),
        ("scenes", "import tests.toy", ["tests.toy"]),
        ("scenes", "from simulators.world import Camera", []),
        ("scenes", "from . import scene", []),
        ("refcheck", "import scenes, simulators, numpy", []),
        ("refcheck", "import benchmarks.peg_board", ["benchmarks.peg_board"]),
    ],
)
def test_the_check_itself_sees_a_wrong_arrow(package, source, wrong):
    assert wrong_arrows(source, package) == wrong


def test_there_is_something_to_check():
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(MAY_IMPORT)


def test_physics_has_never_heard_of_a_reference():
    """Nothing in `simulators` names a Reference, or is handed `q`: an outcome is read off a state, never drawn."""
    for path in FILES:
        if path.relative_to(ROOT).parts[0] == "simulators":
            tree = ast.parse(path.read_text("utf-8"))
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            assert not names & {"Reference", "reference", "Scene", "outcome_of_fact"}, path
