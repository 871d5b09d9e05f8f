"""Models compared without the bias of which scenes survived: passing scenes, shared scenes, and bounds over every null.

Pure functions of what was scored. It refuses to call an order supported that other scenes, or nulls imputed alike, would turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from rich.table import Table
from rich.text import Text

from refcheck import metrics
from refcheck.calibench import SCENES
from refcheck.inference import TIE, adjust
from refcheck.intervals import PSEUDO_ROLLOUTS, CellCounts, centred_interval, difference_mntv
from refcheck.metrics import FloatArray
from refcheck.missing import null_bounds
from refcheck.policy import Expected, Policy
from refcheck.score_tables import empty_table, figure, p_text, span

DRAWS = 10_000
"""At most so many draws of each bootstrap and permutation: with eleven models there are 55 pairs."""
PRINTED = 12
"""Pairs of models that are printed; the result holds all of them."""
Bounds = tuple[float, float]


def statistic(counts: ArrayLike, scene: Expected) -> FloatArray:
    """Return the scene's metric in percent of counts (..., k): TVD where there is a reference, else coverage."""
    return 100 * (metrics.coverage(counts) if scene.q is None else metrics.tvd(counts, scene.q))


def imputed(counts: Iterable[int], nulls: int, scene: Expected) -> Bounds:
    """Return the smallest and largest metric in percent over every outcome that the nulls might have had.

    TVD: `missing.null_bounds`. Coverage: at least what was seen (one label where nothing was), at most one more label for
    each null. Raises `ValueError` for a scene without a rollout.
    """
    x = np.asarray(list(counts), np.int64)
    if x.sum() + nulls < 1:
        raise ValueError("a scene without a rollout has no bounds")
    if scene.q is not None:
        bounds = null_bounds(x, nulls, scene.q)
        return 100 * float(bounds.best), 100 * float(bounds.worst)
    seen = int((x > 0).sum())
    return 100 * max(seen, 1) / x.size, 100 * min(seen + nulls, x.size) / x.size


def order(difference: float | None) -> str:
    """Return which model is lower, `first` or `second`, or `tie`, from first minus second; `open` when it is unknown."""
    if difference is None:
        return "open"
    return "tie" if abs(difference) <= TIE else "first" if difference < 0 else "second"


def order_of_bounds(first: Bounds, second: Bounds) -> str:
    """Return which model is lower whatever the nulls were, or `open` where their bounds overlap."""
    if first[1] < second[0] - TIE:
        return "first"
    return "second" if second[1] < first[0] - TIE else "open"


def pawbench_track(
    entries: Mapping[str, Mapping[str, Any]],
    scenes: tuple[Expected, ...],
    generator_for: Callable[[str], Generator],
    draws: int = DRAWS,
) -> dict[str, Any]:
    """Compare the unblocked models of one track, as `pawbench.evaluate` scored them.

    Views of each pair: `passing`, each model on its own passing scenes (the track average); `intersection`, both on the
    scenes that both pass; `bounds`, both on the whole roster, failed scenes too, with every null given its best and its
    worst outcome. `lower` says which model is lower on its passing scenes, on the shared ones, with all nulls at their best
    and with all at their worst. The order is `supported` when the four agree on one, `unsupported` otherwise; it holds
    `whatever_the_nulls` when the two bounds do not even overlap, so that no nulls of either model could turn it.

    On the intersection the difference (first minus second) has a centred bootstrap interval at 95 % and a permutation p:
    outcomes are shared out anew between the models within each scene, their valid rollouts kept, p = (b + 1)/(B + 1).
    `of_floors` is the part of the difference that unequal numbers of valid rollouts alone make under q.
    """
    models = {name: entry for name, entry in entries.items() if entry["status"] == "ok"}
    held = {name: {scene["scene_id"]: scene for scene in entry["scenes"]} for name, entry in models.items()}
    passing = {name: {id for id, scene in by.items() if scene["status"] == "pass"} for name, by in held.items()}
    common = [scene for scene in scenes if all(scene.scene_id in kept for kept in passing.values())]
    figures: dict[str, Any] = {}
    for name, by in held.items():
        ends = [imputed(by[s.scene_id]["counts"].values(), by[s.scene_id]["null_observations"], s) for s in scenes]
        average = models[name]["track_average"]
        figures[name] = {
            "passing": average["value"] if average else None,
            "passing_scenes": len(passing[name]),
            "intersection": float(np.mean([by[s.scene_id]["metric"]["value"] for s in common])) if common else None,
            "bounds": [float(end) for end in np.mean(ends, axis=0)],
        }
    replicates = {
        (name, scene.scene_id): _bootstrap(held[name][scene.scene_id], scene, generator_for(f"{name}/{scene.scene_id}"), draws)
        for name in held
        for scene in scenes
        if scene.scene_id in passing[name]
    }
    pairs = []
    for a, b in combinations(held, 2):
        shared = [scene for scene in scenes if scene.scene_id in passing[a] & passing[b]]
        x, y = figures[a], figures[b]
        on_passing = None if x["passing"] is None or y["passing"] is None else x["passing"] - y["passing"]
        pair: dict[str, Any] = {
            "first": a,
            "second": b,
            "passing": on_passing,
            "intersection": _on_shared(a, b, held, shared, replicates, generator_for, draws),
            "bounds": [x["bounds"][0] - y["bounds"][1], x["bounds"][1] - y["bounds"][0]],
        }
        orders = {
            "passing": order(on_passing),
            "intersection": order(pair["intersection"]["difference"]),
            "best": order(x["bounds"][0] - y["bounds"][0]),
            "worst": order(x["bounds"][1] - y["bounds"][1]),
        }
        agreed = len(set(orders.values())) == 1 and orders["passing"] in ("first", "second")
        apart = order_of_bounds(tuple(x["bounds"]), tuple(y["bounds"])) != "open"
        verdict = "supported" if agreed else "unsupported"
        pairs.append({**pair, "lower": orders, "order": verdict, "whatever_the_nulls": agreed and apart})
    adjust(pair["intersection"] for pair in pairs)
    return {"models": figures, "intersection": [scene.scene_id for scene in common], "pairs": pairs, "draws": draws}


def _bootstrap(entry: Mapping[str, Any], scene: Expected, generator: Generator, draws: int) -> FloatArray:
    """Metric (draws,) of the scene's valid rollouts redrawn from their shares, shrunk as in `intervals`."""
    counts = np.array(list(entry["counts"].values()))
    n = int(counts.sum())
    shares = (counts + PSEUDO_ROLLOUTS / counts.size) / (n + PSEUDO_ROLLOUTS)
    return statistic(generator.multinomial(n, shares, size=draws), scene)


def _on_shared(
    a: str,
    b: str,
    held: Mapping[str, Mapping[str, Any]],
    shared: list[Expected],
    replicates: Mapping[tuple[str, str], FloatArray],
    generator_for: Callable[[str], Generator],
    draws: int,
) -> dict[str, Any]:
    """Compare two models on the scenes that both pass; every figure is None where there is none."""
    ids = [scene.scene_id for scene in shared]
    if not shared:
        return {"scenes": ids, "size": 0, "difference": None, "ci95": None, "p": None, "of_floors": None}
    generator = generator_for(f"{a}/{b}")
    observed, of_floors, shuffled, redrawn = 0.0, 0.0, np.zeros(draws), np.zeros(draws)
    for scene in shared:
        x, y = (np.array(list(held[name][scene.scene_id]["counts"].values())) for name in (a, b))
        n, m = int(x.sum()), int(y.sum())
        observed += float(statistic(x, scene) - statistic(y, scene))
        if scene.q is not None:
            of_floors += 100 * float(metrics.expected_tvd(n, scene.q) - metrics.expected_tvd(m, scene.q))
        mine = generator.multivariate_hypergeometric(x + y, n, size=draws, method="marginals")
        shuffled += statistic(mine, scene) - statistic(x + y - mine, scene)
        redrawn += replicates[a, scene.scene_id] - replicates[b, scene.scene_id]
    size = len(shared)
    interval = centred_interval(observed / size, redrawn / size, 0.95)
    reached = int((np.abs(shuffled) >= abs(observed) - TIE).sum())
    return {
        "scenes": ids,
        "size": size,
        "difference": observed / size,
        "ci95": [interval.low, interval.high],
        "p": (reached + 1) / (draws + 1),
        "of_floors": of_floors / size if shared[0].q is not None else None,
    }


def pawbench(
    evaluation: Mapping[str, Any], policy: Policy, generator_for: Callable[[str], Generator], draws: int = DRAWS
) -> dict[str, Any]:
    """Compare the models on each track that has at least two unblocked ones."""
    compared = {}
    for track, held in evaluation["tracks"].items():
        if sum(entry["status"] == "ok" for entry in held["models"].values()) > 1:
            named = lambda name, track=track: generator_for(f"{track}/{name}")  # noqa: E731
            compared[track] = pawbench_track(held["models"], policy.track(track), named, min(draws, DRAWS))
    return compared


def calibench(models: Mapping[str, Any], generator_for: Callable[[str], Generator], draws: int = DRAWS) -> list[dict[str, Any]]:
    """Compare every two models' mnTV over the scenes that both have (`intervals.difference_mntv`).

    mnTV counts a null as a miss, so no scene drops out; `bounds` say what the nulls could do instead: the difference of
    mean TV over all rollouts with every null given its best and its worst outcome. `nulls` says whether that could turn
    the order.
    """
    compared = []
    draws = min(draws, DRAWS)
    for a, b in combinations(models, 2):
        shared = [scene for scene in SCENES if scene in models[a]["cells"] and scene in models[b]["cells"]]
        if not shared:
            continue
        cells, ends = list[list[CellCounts]](), list[list[float]]()
        for name in (a, b):
            mine = [models[name]["cells"][scene] for scene in shared]
            cells.append(
                [
                    (cell["counts"], cell["N"] - cell["n_valid"], SCENES[scene].array())
                    for cell, scene in zip(mine, shared, strict=True)
                ]
            )
            ends.append([float(np.mean([cell["nulls"][end] for cell in mine])) for end in ("best", "worst")])
        difference = difference_mntv(cells[0], cells[1], generator_for(f"{a}/{b}"), draws)
        beyond = order_of_bounds((ends[0][0], ends[0][1]), (ends[1][0], ends[1][1]))
        partial = models[a]["mntv"]["partial"] or models[b]["mntv"]["partial"]
        compared.append(
            {
                "first": a,
                "second": b,
                "name": "partial mnTV" if partial or len(shared) < len(SCENES) else "mnTV",
                "scenes": shared,
                "difference": difference.value,
                "ci95": [difference.interval.low, difference.interval.high],
                "p": difference.p,
                "draws": draws,
                "bounds": [ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]],
                "nulls": "cannot turn it" if beyond == order(difference.value) else "could turn it",
            }
        )
    adjust(compared)
    return compared


def _first_rows(pairs: list[dict[str, Any]], key: Callable[[dict[str, Any]], float]) -> tuple[list[dict[str, Any]], str]:
    told = f" The surest {PRINTED} of {len(pairs)} pairs; result.json (out=DIR) holds all." if len(pairs) > PRINTED else ""
    return sorted(pairs, key=key)[:PRINTED], told


def calibench_tables(compared: list[dict[str, Any]]) -> list[Table]:
    """Return a table of differences in mnTV, none where there is no pair."""
    if not compared:
        return []
    rows, told = _first_rows(compared, lambda pair: pair["p"])
    table = empty_table(
        "CaliBench: differences, first minus second",
        "p: labels shared out anew within each scene; BH: over the pairs. Bounds: difference of mean TV over all rollouts, "
        "whatever the nulls were; nulls: whether those could turn the order." + told,
        *("first", "second", "", "difference", "95 %", "p", "BH", "bounds", "nulls"),
        left=3,
    )
    for pair in rows:
        table.add_row(
            Text(pair["first"]),
            Text(pair["second"]),
            pair["name"],
            f"{pair['difference']:+.3f}",
            span(pair["ci95"], "+.3f"),
            p_text(pair["p"], pair["draws"]),
            p_text(pair["p_benjamini_hochberg"]),
            span(pair["bounds"], "+.2f"),
            pair["nulls"],
        )
    return [table]


def _who(lower: Mapping[str, str]) -> str:
    """Return who is lower in the four views, once where they agree."""
    short = {"first": "1", "second": "2", "tie": "=", "open": "?"}
    return ": " + (next(iter(lower.values())) if len(set(lower.values())) == 1 else " ".join(short[w] for w in lower.values()))


def pawbench_tables(compared: Mapping[str, Any]) -> list[Table]:
    """Return two tables a track: models in the three views, and pairs of models."""
    made = []
    for track, held in compared.items():
        unit = "TVD %" if track == "calibration" else "coverage %"
        shared = held["intersection"]
        table = empty_table(
            f"PAWBench {track}: {unit} without the survivors' bias",
            f"Shared: the {len(shared)} scenes that every model passes: {', '.join(shared) or 'none'}. Bounds: the whole "
            "roster, nulls and failed scenes given their best and worst outcomes.",
            *("model", "passing", "scenes", "shared", "bounds"),
        )
        for name, entry in held["models"].items():
            table.add_row(
                Text(name),
                figure(entry["passing"], ".2f"),
                str(entry["passing_scenes"]),
                figure(entry["intersection"], ".2f"),
                span(entry["bounds"], ".1f"),
            )
        made.append(table)
        rows, told = _first_rows(
            held["pairs"], lambda pair: 2 if pair["intersection"]["p"] is None else pair["intersection"]["p"]
        )
        table = empty_table(
            f"PAWBench {track}: differences, first minus second, on the scenes both pass",
            "p: outcomes shared out anew within each scene; BH: over the pairs. Order: who is lower on passing scenes, on "
            "shared scenes, with all nulls at best and at worst; unsupported where these differ; * where the bounds do not "
            "overlap either, so that no nulls could turn it." + told,
            *("first", "second", "order", "scenes", "difference", "95 %", "p", "BH"),
            left=3,
        )
        for pair in rows:
            on = pair["intersection"]
            table.add_row(
                Text(pair["first"]),
                Text(pair["second"]),
                pair["order"] + ("*" if pair["whatever_the_nulls"] else "") + _who(pair["lower"]),
                str(on["size"]),
                figure(on["difference"], "+.2f"),
                span(on["ci95"], "+.1f"),
                p_text(on["p"], held["draws"]),
                p_text(on["p_benjamini_hochberg"]),
            )
        made.append(table)
    return made
