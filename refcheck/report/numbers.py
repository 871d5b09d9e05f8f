"""Numbers as the page prints them: never rounded to what they are not, a missing one a dash. It knows no result."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

LEAST = 1e-5  # the smallest share worth a number of its own
NO_BREAK = "\N{NO-BREAK SPACE}"
PER_CENT = f"{NO_BREAK}%"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def in_words(count: int) -> str:
    """Return a small number as a word."""
    return NUMBERS[count] if 0 <= count < len(NUMBERS) else f"{count:,}"


def several(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural where it is not one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def fixed(value: float | None, digits: int = 4) -> str:
    """Return a number with fixed decimals; an unscored one is a dash, never 0."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def share(value: float | None) -> str:
    """Return a share as a percentage of at most three significant digits."""
    if value is None:
        return "–"
    return f"{100 * value:.3g}{PER_CENT}" if value == 0 or value >= LEAST else f"under {100 * LEAST:g}{PER_CENT}"


def beside(value: float, other: float) -> str:
    """Return `value` with four decimals, or as many as show on which side of `other` it lies."""
    digits = next((digits for digits in range(4, 9) if float(f"{value:.{digits}f}") != other), 9)
    return fixed(value, digits)


def percent(value: float | None) -> str:
    """Return a share as a percentage with one decimal, for a column."""
    return "–" if value is None else f"{100 * value:.1f}{PER_CENT}"


def probability(value: float | None, draws: int = 0, reached: int | None = None) -> str:
    """Return a p-value, a small one as a power of ten.

    A Monte Carlo one, (reached + 1)/(draws + 1), that none of the `draws` reached is known from above only, so it is printed
    as a bound. Where `reached` is not told, the value itself tells it.
    """
    if value is None:
        return "–"
    at_floor = draws > 0 and (reached == 0 or (reached is None and isclose(value * (draws + 1), 1, rel_tol=1e-6)))
    bound = f"<{NO_BREAK}" if at_floor else ""
    if value >= 0.001 or value == 0:
        return f"{bound}{value:.3f}"
    digits, exponent = f"{value:.1e}".split("e")
    power = f"10{str(int(exponent)).translate(SUPERSCRIPT)}"
    return f"{bound}{power}" if at_floor and digits == "1.0" else f"{bound}{digits} × {power}"


def ends(pair: Sequence[float] | None, digits: int = 4) -> str:
    """Return an interval in words."""
    return "–" if pair is None else f"{pair[0]:.{digits}f} to {pair[1]:.{digits}f}"
