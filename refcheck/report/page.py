"""Puts results into one self-contained page: words, figures and pictures, each number as its result has it.

It measures nothing; all it adds is the floor and band that a distance is read against, drawn from a fixed seed.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from scipy.stats import binomtest

from refcheck import metrics
from refcheck.inference import draw_null
from refcheck.report import judge, plots
from refcheck.report.about import about
from refcheck.report.collect import Material, Result, picture
from refcheck.report.numbers import NO_BREAK, beside, ends, fixed, in_words, percent, probability, several, share
from refcheck.report.pictures import Pictures, all_pictures
from refcheck.report.schema import Certificate, Certificates, Controls, Fact, Validity, Verdict, probabilities
from refcheck.report.score_schema import Score
from refcheck.report.standing import Shown, Standing, other_epsilon, standing
from simulators.sampling import VALUES, generator

DRAWS, SEED = 20_000, 0
"""Of the null bands that the page adds beside certificates."""
REASONS = {
    "distance": "the interval of TVD cleared ε",
    "nulls": "the share of nulls cleared its limit",
    "budget": "nothing: its budget of rollouts ran out",
    "seconds": "nothing: its time ran out",
}
NOT_SHOWN = ("workers",)
BASES = {
    "mechanism": ("mechanism", "the randomness is in the visible mechanism itself"),
    "hidden_state": ("hidden state", "the randomness is in a state that the image does not show"),
    "assumption": ("assumption", "the physics assumes what it should show"),
}
VERDICTS: tuple[Verdict, ...] = ("holds", "fails", "undecided", "consistent (assumption)")
SYMBOLS = {"holds": "✓", "fails": "✕", "undecided": "?", "consistent (assumption)": "≈"}
CLASSES = {"holds": "holds", "fails": "fails", "undecided": "undecided", "consistent (assumption)": "consistent"}
EVIDENCE = {
    "second_integrator": "second integrator",
    "step_halving": "step halving",
    "knock_out": "knock-out",
}


def page(material: Material, created: str) -> str:
    """Return the page as HTML. Raises `UserError` for a picture that may not be shown."""
    pictures = all_pictures(material)
    shown = [
        (result, Shown(one, about(result, one.scene, one.stream), f"c{index}-{place}", bool(result.header.config.overrides)))
        for index, result in enumerate(material.of(Certificates))
        for place, one in enumerate(result.body.certificates)
    ]
    tested = [one for _, one in shown]
    drawn: set[tuple[str, str]] = set()
    certificates = [_certificate(one, result, pictures, drawn) for result, one in shown]
    controls = [_controls(result) for result in material.of(Controls)]
    scores = [_score(result, f"s{index}", tested) for index, result in enumerate(material.of(Score))]
    pawbench_ranks = [name for one in scores for name, _ in one["models"]]
    for one in scores:
        one["tracks"] = _tracks(one["it"], pawbench_ranks, tested)
    environment = Environment(
        loader=PackageLoader("refcheck.report", "."),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {
            "fixed": fixed,
            "share": share,
            "percent": percent,
            "probability": probability,
            "ends": ends,
            "count": "{:,}".format,
            "several": several,
        }
    )
    return environment.get_template("page.html.j2").render(
        created=created,
        version=version("quincunx"),
        headline=headline([one.it for one in tested]),
        by_basis=by_basis([one.it for one in tested]),
        pairs=pairs(tested),
        verdicts=VERDICTS,
        symbols=SYMBOLS,
        classes=CLASSES,
        certificates=certificates,
        pictures=[one for key, one in pictures.items() if key not in drawn and one.sheet],
        validity=[validity_of(result.body.facts) for result in material.of(Validity)],
        controls=controls,
        scores=scores,
        draws=DRAWS,
        provenance=[_origin(result) for result in material.results],
        not_drawn=[(result.name, result.header.verb) for result in material.results if result.body is None],
        others=material.others,
    )


def validity_of(facts: Sequence[Fact]) -> list[tuple[str, list[Fact]]]:
    """Return the facts by device, in order of names."""
    return [(name, [fact for fact in facts if fact.device == name]) for name in sorted({fact.device for fact in facts})]


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
                f"The scene as built here does not give the reference: its outcomes are at least {at_least} away from it, and "
                f"{epsilon} was allowed. The geometry, the materials and the strength of the action are those listed below; "
                "another build of the scene may give another distribution."
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


def pairs(tested: Sequence[Shown]) -> list[tuple[str, str]]:
    """Return the scenes that share their launches with another scene on the page, and that scene: one evidence, not two."""
    here = {one.it.scene for one in tested}
    found = [(one.it.scene, one.about.pair.base) for one in tested if one.about.pair and one.about.pair.base in here]
    return list(dict.fromkeys(found))


def _certificate(
    shown: Shown, result: Result, pictures: Mapping[tuple[str, str], Pictures], drawn: set[tuple[str, str]]
) -> dict[str, Any]:
    one, key = shown.it, (shown.it.scene, shown.it.digest)
    seen, again = pictures.get(key), key in drawn
    if seen:
        drawn.add(key)
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
        "about": shown.about,
        "link": shown.link,
        "other_epsilon": other_epsilon(one, shown.about),
        "overrides": result.header.config.overrides,
        "pictures": None if again else seen,
        "pictured_above": again,
        "p": probability(
            one.p_value.value, one.p_value.draws if one.p_value.method == "monte_carlo" else 0, one.p_value.reached
        ),
        "meaning": meaning(one),
        "decided_by": " and ".join(REASONS.get(reason, reason) for reason in one.reason.split(" and ")),
        "basis": BASES[one.basis],
        "valid": valid,
        "rows": rows,
        "nulls": sorted(((name, count) for name, count in one.tally.nulls.items() if count), key=lambda item: -item[1]),
        "floor": float(metrics.expected_tvd(valid, q)) if valid else None,
        "band": band,
        "shares": Markup(plots.shares(outcomes, counts, q, f"Share of each outcome. {told}", f"{shown.link}a")),
        "distance": Markup(
            plots.distance(
                one.tvd,
                one.lower,
                one.upper,
                one.epsilon,
                band,
                f"TVD {fixed(one.tvd)}, interval {ends([one.lower, one.upper])}, epsilon {one.epsilon:g}",
                f"{shown.link}b",
            )
        )
        if band and one.tvd is not None
        else "",
        "evidence": [
            (EVIDENCE.get(name, name.replace("_", " ")), check if isinstance(check, str) else check.said)
            for name, check in one.evidence.items()
        ],
        "from": result.name,
    }


def _controls(result: Result) -> dict[str, Any]:
    it: Controls = result.body
    answered = it.answered
    right = it.right
    interval = binomtest(right, answered).proportion_ci(0.95, "exact") if answered else None
    largest = [max(sum(row), 1) for row in it.confusion]
    outcomes = set(it.outcomes)
    return {
        "it": it,
        "title": about(result, it.scene).title,
        "judge": str(it.judge.get("name", "unnamed"))[:100],
        "described": judge.described(it.judge),
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


def _score(result: Result, identity: str, tested: Sequence[Shown]) -> dict[str, Any]:
    it: Score = result.body
    models = sorted(it.models.items(), key=lambda item: item[1].mntv.value)
    rows = [
        plots.Interval(name, one.value, one.ci95[0], one.ci95[1], (one.if_q_band95[0], one.if_q_band95[1]))
        for name, one in ((name, model.mntv) for name, model in models)
    ]
    told = "; ".join(f"{row.name} {row.value:.3f}, 95 % {ends([row.low, row.high], 3)}" for row in rows)
    standings = {
        (name, scene): standing(tested, f"calibench/{scene}", dict(zip(cell.outcomes, cell.q, strict=True)))
        for name, model in models
        for scene, cell in model.cells.items()
    }
    return {
        "it": it,
        "models": models,
        "plot": Markup(plots.models(rows, f"mnTV of each model. {told}", f"{identity}m")) if rows else "",
        "standings": standings,
        "failed": _named(standings, lambda one: one.fails),
        "checked": _named(standings, lambda one: bool(one.link)),
        "scenes": _named(standings, lambda one: True),
        "undrawn": [told for held, told in ((it.comparisons, "differences between models"), (it.power, "power")) if held],
        "from": result.name,
    }


def _named(standings: Mapping[tuple[str, str], Standing], wanted: Callable[[Standing], bool]) -> list[str]:
    return list(dict.fromkeys(scene for (_, scene), one in standings.items() if wanted(one)))


def _tracks(it: Score, ranks: Sequence[str], tested: Sequence[Shown]) -> list[dict[str, Any]]:
    """Return PAWBench's tracks, models in the order of the page's other tables, the rest by their average."""
    tracks = []
    for name, track in it.pawbench.tracks.items() if it.pawbench else ():
        best = 1.0 if name == "calibration" else -1.0  # a distance is better low, a coverage high

        def order(item: tuple[str, Any], best: float = best) -> tuple[int, float]:
            rank = ranks.index(item[0]) if item[0] in ranks else len(ranks)
            average = item[1].track_average
            return rank, best * average.value if average else float("inf")

        scenes = {scene.scene_id for model in track.models.values() for scene in model.scenes}
        standings = {scene: standing(tested, f"pawbench/{scene}", None) for scene in sorted(scenes)}
        tracks.append(
            {
                "name": name,
                "models": sorted(track.models.items(), key=order),
                "standings": standings,
                "failed": [scene for scene, one in standings.items() if one.fails] if name == "calibration" else [],
            }
        )
    return tracks


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
