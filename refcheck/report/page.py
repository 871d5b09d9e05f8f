"""Puts results into one self-contained page: words, figures and pictures, each number as its result has it.

It measures nothing; all it adds is the floor and band that a distance is read against, drawn from a fixed seed.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from scipy.stats import binomtest

from refcheck import metrics
from refcheck.inference import draw_null
from refcheck.report import plots
from refcheck.report.collect import Material, Result, picture
from refcheck.report.schema import Certificate, Certificates, Controls, Score, Verdict, probabilities
from simulators.sampling import VALUES, generator

DRAWS, SEED = 20_000, 0
"""Of the null bands that the page adds beside certificates."""
REASONS = {"distance": "the distance", "nulls": "the nulls", "budget": "its budget of rollouts", "seconds": "its time limit"}
NOT_SHOWN = ("workers",)
BASES = {
    "mechanism": ("mechanism", "the randomness is in the visible mechanism itself"),
    "hidden_state": ("hidden state", "the randomness is in a state that the image does not show"),
    "assumption": ("assumption", "the physics assumes what it should show"),
}
VERDICTS: tuple[Verdict, ...] = ("holds", "fails", "undecided", "consistent (assumption)")
SYMBOLS = {"holds": "✓", "fails": "✕", "undecided": "?", "consistent (assumption)": "≈"}
CLASSES = {"holds": "holds", "fails": "fails", "undecided": "undecided", "consistent (assumption)": "consistent"}
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
SHORT = 160  # characters of what a judge says of itself
LEAST = 1e-5  # the smallest share worth a number of its own
NO_BREAK = "\N{NO-BREAK SPACE}"
PER_CENT = f"{NO_BREAK}%"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
EVIDENCE = {
    "second_integrator": "second integrator",
    "step_halving": "step halving",
    "knock_out": "knock-out",
}


def page(material: Material, created: str) -> str:
    """Return the page as HTML. Raises `UserError` for a picture that may not be shown."""
    certificates = [
        _certificate(one, result, f"c{index}-{place}")
        for index, result in enumerate(material.of(Certificates))
        for place, one in enumerate(result.body.certificates)
    ]
    controls = [_controls(result, f"k{index}") for index, result in enumerate(material.of(Controls))]
    scores = [_score(result, f"s{index}") for index, result in enumerate(material.of(Score))]
    environment = Environment(
        loader=PackageLoader("refcheck.report", "."),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {"fixed": fixed, "share": share, "percent": percent, "probability": probability, "ends": ends, "count": "{:,}".format}
    )
    return environment.get_template("page.html.j2").render(
        created=created,
        version=version("quincunx"),
        headline=headline([one["it"] for one in certificates]),
        by_basis=by_basis([one["it"] for one in certificates]),
        verdicts=VERDICTS,
        symbols=SYMBOLS,
        classes=CLASSES,
        certificates=certificates,
        controls=controls,
        scores=scores,
        draws=DRAWS,
        provenance=[_origin(result) for result in material.results],
        others=material.others,
    )


def in_words(count: int) -> str:
    """Return a small number as a word."""
    return NUMBERS[count] if 0 <= count < len(NUMBERS) else f"{count:,}"


def headline(certificates: Sequence[Certificate]) -> str:
    """Return in one sentence what the certificates say."""
    if not certificates:
        return "No reference was put to the test here."
    counts = Counter(one.verdict for one in certificates)
    verbs = {
        "holds": ("holds", "hold"),
        "fails": ("fails", "fail"),
        "undecided": ("is undecided", "are undecided"),
        "consistent (assumption)": ("is consistent with its assumption", "are consistent with their assumptions"),
    }
    parts = [(in_words(counts[verdict]), verbs[verdict][counts[verdict] > 1]) for verdict in VERDICTS if counts[verdict]]
    number, verb = parts[0]
    noun = "reference" if number == "one" else "references"
    clauses = [f"{number} {noun} {verb}", *(f"{number} {verb}" for number, verb in parts[1:])]
    sentence = clauses[0] if len(clauses) == 1 else ", ".join(clauses[:-1]) + " and " + clauses[-1]
    return sentence[0].upper() + sentence[1:] + "."


def by_basis(certificates: Sequence[Certificate]) -> list[dict[str, Any]]:
    """Return counts of verdicts for each basis: the three are never added up."""
    return [
        {
            "name": name,
            "meaning": meaning,
            "counts": {verdict: sum(c.basis == basis and c.verdict == verdict for c in certificates) for verdict in VERDICTS},
        }
        for basis, (name, meaning) in BASES.items()
    ]


def meaning(one: Certificate) -> str:
    """Return what a verdict means, in plain words."""
    at_most, at_least = beside(one.upper, one.epsilon), beside(one.lower, one.epsilon)
    epsilon = f"ε = {one.epsilon:g}".replace(" ", NO_BREAK)
    if one.verdict == "holds":
        return (
            f"In this physics the outcomes follow the reference to within {epsilon}: their distribution is at most "
            f"{at_most} away from it. A scene further away than ε would pass so at most {share(one.alpha)} of the time."
        )
    if one.verdict == "fails":
        parts = []
        if one.lower > one.epsilon:
            parts.append(
                f"In this physics the outcomes do not follow the reference: their distribution is at least {at_least} away "
                f"from it, and {epsilon} was allowed. The scene, or the reference, has to change."
            )
        if one.null_rate.lower > one.null_rate.limit:
            parts.append(
                f"Too many rollouts end in no outcome: at least {share(one.null_rate.lower)} of them do, and "
                f"{share(one.null_rate.limit)} was allowed."
            )
        return " ".join(parts)
    if one.verdict == "undecided":
        ran_out = {"budget": "its rollouts ran out", "seconds": "its time ran out"}.get(one.reason, "it was stopped")
        return (
            f"The run ended because {ran_out}, before the interval had cleared {epsilon} on either side. "
            "This speaks neither for the reference nor against it; more rollouts would."
        )
    return (
        f"The outcomes are within {epsilon} of the reference, but the physics assumes what it should show: "
        "this is consistent with the reference and certifies nothing."
    )


def _certificate(one: Certificate, result: Result, identity: str) -> dict[str, Any]:
    counts, outcomes = one.tally.counts, one.tally.outcomes
    q, valid = probabilities(one.q, outcomes), sum(counts)
    band = None
    if valid:
        draw = generator(SEED, "report", f"{one.digest}/{one.seed}", 0, VALUES)
        band = draw_null(valid, q, draw, DRAWS).band()
    rows: list[dict[str, Any]] = [
        {"outcome": label, "q": one.q[label], "expected": float(p), "count": count, "share": count / valid if valid else None}
        for label, p, count in zip(outcomes, q, counts, strict=True)
    ]
    told = "; ".join(f"{row['outcome']}: {share(row['share'])}, reference {share(row['expected'])}" for row in rows)
    return {
        "it": one,
        "title": _title(result, one.scene),
        "meaning": meaning(one),
        "ended_by": " and ".join(REASONS.get(reason, reason) for reason in one.reason.split(" and ")),
        "basis": BASES[one.basis],
        "valid": valid,
        "rows": rows,
        "nulls": sorted(((name, count) for name, count in one.tally.nulls.items() if count), key=lambda item: -item[1]),
        "floor": float(metrics.expected_tvd(valid, q)) if valid else None,
        "band": band,
        "shares": Markup(plots.shares(outcomes, counts, q, f"Share of each outcome. {told}", f"{identity}a")),
        "distance": Markup(
            plots.distance(
                one.tvd,
                one.lower,
                one.upper,
                one.epsilon,
                band,
                f"TVD {fixed(one.tvd)}, interval {ends([one.lower, one.upper])}, epsilon {one.epsilon:g}",
                f"{identity}b",
            )
        )
        if band and one.tvd is not None
        else "",
        "evidence": [(EVIDENCE.get(name, name.replace("_", " ")), said) for name, said in one.evidence.items()],
        "from": result.name,
    }


def _title(result: Result, scene: str) -> str:
    title = result.header.config.scenes.get(scene, {}).get("title")
    return title if isinstance(title, str) and 0 < len(title) <= 200 else scene


def _controls(result: Result, identity: str) -> dict[str, Any]:
    it: Controls = result.body
    answered = it.answered
    right = it.right
    interval = binomtest(right, answered).proportion_ci(0.95, "exact") if answered else None
    largest = [max(sum(row), 1) for row in it.confusion]
    outcomes = set(it.outcomes)
    return {
        "it": it,
        "title": _title(result, it.scene),
        "judge": str(it.judge.get("name", "unnamed"))[:100],
        "described": [(str(key)[:60].replace("_", " "), _short(said)) for key, said in it.judge.items() if key != "name"][:20],
        "distances": [
            ("true outcomes", it.tvd_truth, it.floor, it.band, it.score_truth),
            ("as judged", it.tvd_judged, it.floor_judged, it.band_judged, it.score_judged),
        ],
        "answered": answered,
        "right": right,
        "accuracy95": [interval.low, interval.high] if interval else None,
        "nulls": sorted(it.judged.nulls.items()),
        "heat": [
            {
                "truth": label,
                "total": sum(row),
                "cells": [
                    {
                        "count": count,
                        "weight": round(12 + 55 * count / top) if count else 0,
                        "kind": "right" if column == label else "wrong" if column in outcomes else "null",
                    }
                    for column, count in zip(it.confusion_columns, row, strict=True)
                ],
            }
            for label, row, top in zip(it.outcomes, it.confusion, largest, strict=True)
        ],
        "rows": [
            {"outcome": label, "q": q, "truth": truth, "judged": judged}
            for label, q, truth, judged in zip(it.outcomes, it.q_in_order, it.truth.counts, it.judged.counts, strict=True)
        ],
        "source": Markup(picture(result, it.source)) if it.source else "",
        "sheet": Markup(picture(result, it.sheet)) if it.sheet else "",
        "from": result.name,
    }


def _short(value: object) -> str:
    """Return a value of the judge's own description as a few words."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_short(said)}" for key, said in value.items())[:SHORT] or "none"
    if isinstance(value, list):
        return ", ".join(map(_short, value))[:SHORT] or "none"
    return (fixed(value, 3) if isinstance(value, float) else str(value))[:SHORT]


def _score(result: Result, identity: str) -> dict[str, Any]:
    it: Score = result.body
    models = sorted(it.models.items(), key=lambda item: item[1].mntv.value)
    rows = [
        plots.Interval(name, one.value, one.ci95[0], one.ci95[1], (one.if_q_band95[0], one.if_q_band95[1]))
        for name, one in ((name, model.mntv) for name, model in models)
    ]
    told = "; ".join(f"{row.name} {row.value:.3f}, 95 % {ends([row.low, row.high], 3)}" for row in rows)
    return {
        "it": it,
        "models": models,
        "plot": Markup(plots.models(rows, f"mnTV of each model. {told}", f"{identity}m")) if rows else "",
        "tracks": list(it.pawbench.tracks.items()) if it.pawbench else [],
        "from": result.name,
    }


def command(result: Result) -> str:
    """Return the command that makes this result again, quoted for a shell."""
    config = result.header.config
    words = [f"{key}={_word(value)}" for key, value in config.options.items() if value is not None and key not in NOT_SHOWN]
    scenes = list(config.scenes)
    if scenes:
        words.insert(0, ("scene=" if len(scenes) == 1 else "scenes=") + ",".join(scenes))
    out = f"out={result.name}" if result.name != "." else ""
    return shlex.join(["quincunx", result.header.verb, *words, *config.overrides, *([out] if out else [])])


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(result: Result) -> dict[str, Any]:
    header = result.header
    return {
        "name": result.name,
        "verb": header.verb,
        "created": header.created,
        "version": header.version,
        "versions": ", ".join(f"{name} {number}" for name, number in header.versions.items() if number),
        "seed": header.seed,
        "shown": result.body is not None,
        "command": command(result),
    }


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


def probability(value: float | None) -> str:
    """Return a p-value, a small one as a power of ten: never 0."""
    if value is None:
        return "–"
    if value >= 0.001 or value == 0:
        return f"{value:.3f}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits} × 10{str(int(exponent)).translate(SUPERSCRIPT)}"


def ends(pair: Sequence[float] | None, digits: int = 4) -> str:
    """Return an interval in words."""
    return "–" if pair is None else f"{pair[0]:.{digits}f} to {pair[1]:.{digits}f}"
