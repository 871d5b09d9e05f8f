"""Whether a reference that models are scored against holds on the same page. It refuses a certificate of other physics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from refcheck.report.about import About
from refcheck.report.schema import Certificate

UNCHECKED = "not checked here"


@dataclass(frozen=True)
class Shown:
    """A certificate on the page, under the anchor `link`; `overridden` when it is not of the scene as its file has it."""

    it: Certificate
    about: About
    link: str
    overridden: bool


@dataclass(frozen=True)
class Standing:
    """What the page's certificates say of one reference: `word`, and the card to look at, if any."""

    word: str
    fails: bool = False
    link: str = ""
    verdict: str = ""


def standing(shown: Sequence[Shown], scene: str, q: Mapping[str, str] | None) -> Standing:
    """Return the standing of the reference `q` of `scene`; of the scene alone where the scores do not tell their q.

    Certificates of overridden scenes and of another q do not count. Where several count, each verdict is named, and one
    that fails is never hidden by one that holds.
    """
    found = [one for one in shown if one.it.scene == scene and not one.overridden and (q is None or _same(one.it.q, q))]
    if not found:
        return Standing(UNCHECKED)
    failing = [one for one in found if one.it.verdict == "fails"]
    words = list(dict.fromkeys(_word(one) for one in [*failing, *found]))
    first = (failing or found)[0]
    return Standing(", ".join(words), bool(failing), first.link, first.it.verdict)


def other_epsilon(one: Certificate, about: About) -> bool:
    """Tell whether a certificate was made at another ε than its scene's own."""
    return about.epsilon is not None and about.epsilon != one.epsilon


def _word(one: Shown) -> str:
    return f"{one.it.verdict} (at ε = {one.it.epsilon:g})" if other_epsilon(one.it, one.about) else one.it.verdict


def _same(mine: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return mine.keys() == other.keys() and all(Fraction(mine[label]) == Fraction(other[label]) for label in mine)
