"""Words of messages about files from outside."""

from __future__ import annotations

from refcheck import untrusted
from refcheck.untrusted import Problems, read_text, suggestion


def test_what_is_allowed_is_a_sentence_of_its_own():
    assert f"'x' is none of them{suggestion('x', ('A-01',))}" == "'x' is none of them. Allowed: A-01"
    assert f"'card' is none{suggestion('card', ('cards',))}" == "'card' is none; did you mean 'cards'? Allowed: cards"


def test_a_file_that_is_too_large_is_told_of_any_file(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "MAXIMUM_BYTES", 1 << 20)
    path = tmp_path / "key.json"
    path.write_bytes(b"x" * ((1 << 20) + 1))
    assert read_text(path, problems := Problems()) is None
    assert problems.found == [f"{path}: is larger than the limit of 1 MiB"]
