"""Words of messages about files from outside."""

from __future__ import annotations

import json

import pytest

from refcheck import untrusted
from refcheck.untrusted import Problems, parse_json, read_text, suggestion


def test_what_is_allowed_is_a_sentence_of_its_own():
    assert f"'x' is none of them{suggestion('x', ('A-01',))}" == "'x' is none of them. Allowed: A-01"
    assert f"'card' is none{suggestion('card', ('cards',))}" == "'card' is none; did you mean 'cards'? Allowed: cards"


def test_a_file_that_is_too_large_is_told_of_any_file(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "MAXIMUM_BYTES", 1 << 20)
    path = tmp_path / "key.json"
    path.write_bytes(b"x" * ((1 << 20) + 1))
    assert read_text(path, problems := Problems()) is None
    assert problems.found == [f"{path}: is larger than the limit of 1 MiB"]


@pytest.mark.parametrize("text", ['"\\ud800"', '{"a": ["\\udc00x"]}', '{"\\ud83d": 1}'])
def test_half_of_a_surrogate_pair_is_no_text(text):
    """It could be written to no file: it is refused where it comes in, and a whole pair is one character."""
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        parse_json(text)
    assert parse_json(text, halves=True) == json.loads(text)
    assert parse_json('"\\ud83d\\ude00"') == "\U0001f600"
