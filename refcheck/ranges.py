"""A reference over a declared range of physics: where it holds, where it breaks first, and which parameter drives it.

One comfortable point certifies little. The bounds here hold at all points at once; the worst is the worst *found*.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc, spearmanr

from refcheck.support import bounded
from refcheck.tolerance import epsilon_of
from scenes.load import SceneError, compose_scene, load_scene
from scenes.scene import Scene
from simulators.device import Integrator
from simulators.devices.spinner import Spinner
from simulators.execute import Pool, run_range

RESTITUTION = 0.15
ASSUMED = "assumption: plausible for the everyday object, not measured"
EVALUATIONS = 40  # of the local search from the worst point
SPREADS = tuple(2.0 ** (k / 2.0) for k in range(-12, 3))  # factors on every spread of the launch, 1/64 to 2


@dataclass(frozen=True)
class Factor:
    """One parameter that varies: the override `path`, from `low` to `high` (on a log scale or not), and on whose authority."""

    path: str
    nominal: float
    low: float
    high: float
    log: bool
    source: str

    def at(self, unit: float) -> float:
        """Return its value at `unit` in 0..1."""
        if self.log:
            return math.exp(math.log(self.low) + unit * (math.log(self.high) - math.log(self.low)))
        return self.low + unit * (self.high - self.low)

    def unit(self) -> float:
        """Return where its nominal value lies in 0..1."""
        if self.low == self.high:
            return 0.5
        if self.log:
            return (math.log(self.nominal) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (self.nominal - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Point:
    """The reference at one place of the range: TVD of n rollouts, with bounds that hold at all points at once.

    `settle_p95` [s]: within it 95 % of those that came to rest had done so; NaN where none did.
    """

    values: dict[str, float]
    tvd: float
    lower: float
    upper: float
    null_rate: float
    n: int
    shares: tuple[float, ...]
    settle_p95: float = math.nan


@dataclass(frozen=True)
class Range:
    """A reference over its declared range. `holds` and `fails` are shares of the points; `influence` is a rank correlation.

    `worst` was searched for on the launches of `points` and run again on fresh ones (`seed + 1`), so that it was not chosen
    by luck. `smallest_spread`: the factor on every spread of the launch from which on, up to 1, the reference holds; None where
    it does not hold at 1. `closed_form`: the factor from which on theory says so (`closed_form_spread`), None without one.
    """

    factors: tuple[Factor, ...]
    points: tuple[Point, ...]
    holds: float
    fails: float
    undecided: float
    worst: Point
    influence: dict[str, float]
    smallest_spread: float | None
    closed_form: float | None
    spreads: tuple[tuple[float, float, float, float], ...]
    half_step: Point | None
    double_step: Point | None
    second_integrator: Point | None


def factors_of(scene: Scene, overrides: Sequence[str] = (), declared: Mapping[str, Any] | None = None) -> tuple[Factor, ...]:
    """Return what varies: what the scene declares, else restitution +-.15, and friction, density and every spread and strength.

    Friction, density and spreads are halved and doubled, strengths (non-zero means of a launch) go from two thirds to one and
    a half. A spread that frame 0 would show is doubled only as far as it may be.
    """
    config = compose_scene(scene.id, overrides)["device"]
    if declared:
        return tuple(
            Factor(path, float(_leaf(config, path)), float(one["low"]), float(one["high"]), bool(one.get("log")), one["source"])
            for path, one in declared.items()
        )
    found = []
    for path, value in _numbers(config, "scene.device"):
        name = path.rsplit(".", 1)[-1]
        if "restitution" in name:
            found.append(Factor(path, value, max(0.0, value - RESTITUTION), min(0.98, value + RESTITUTION), False, ASSUMED))
        elif ("friction" in name or "density" in name or name == "mass") and value > 0.0:
            found.append(Factor(path, value, value / 2.0, value * 2.0, True, ASSUMED))
        elif name == "scale" and value > 0.0:
            most = _most(scene, overrides, path, value)
            found.append(Factor(path, value, value / 2.0, most, True, ASSUMED))
        elif name == "loc" and value != 0.0:
            ends = sorted((value / 1.5, value * 1.5))
            found.append(Factor(path, value, ends[0], ends[1], False, ASSUMED))
    return tuple(found)


def _numbers(node: Any, at: str) -> Iterator[tuple[str, float]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _numbers(value, f"{at}.{key}")
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield at, float(node)


def _leaf(config: Mapping[str, Any], path: str) -> Any:
    node: Any = config
    for step in path.removeprefix("scene.device.").split("."):
        node = node[step]
    return node


def _most(scene: Scene, overrides: Sequence[str], path: str, value: float) -> float:
    """Return the largest spread up to twice `value` with which every launch still starts from the same picture."""
    for factor in (2.0, 1.75, 1.5, 1.25, 1.1):
        try:
            load_scene(scene.id, (*overrides, f"{path}={factor * value!r}"))
        except SceneError:
            continue
        return factor * value
    return value


class Sweep:
    """Runs one scene at many places of its range, on common launches."""

    def __init__(
        self, scene: Scene, overrides: Sequence[str], n: int, places: int, *, alpha: float, seed: int, pool: Pool | None
    ) -> None:
        self.scene, self.overrides, self.n, self.seed, self.pool = scene, tuple(overrides), n, seed, pool
        self.alpha = alpha / places  # each end, at every place at once (Bonferroni)
        self.role = "kernel" if scene.kernel is not None else "engine"

    def at(self, values: Mapping[str, float], *, seed: int | None = None, n: int | None = None) -> Point:
        """Return the reference at `values` of the factors. Raises `SceneError` where such a scene cannot be."""
        words = (*self.overrides, *(f"{path}={value!r}" for path, value in values.items()))
        scene = load_scene(self.scene.id, words).run_by(self.role)
        return self.of(scene, scene.integrator, values, seed=seed, n=n)

    def of(
        self,
        scene: Scene,
        integrator: Integrator,
        values: Mapping[str, float],
        *,
        seed: int | None = None,
        n: int | None = None,
    ) -> Point:
        """Return the reference of `scene` under `integrator`."""
        counts, total, rest = np.zeros(len(scene.outcomes), np.int64), 0, list[np.ndarray]()
        stop = self.n if n is None else n
        for part in run_range(integrator, scene.device, self.seed if seed is None else seed, scene.stream, 0, stop, self.pool):
            outcome = scene.outcome(part.fact)
            counts += np.bincount(outcome[outcome >= 0], minlength=len(counts))
            total += len(part)
            rest.append(part.settle_time[~np.isnan(part.settle_time)])
        settled = np.concatenate(rest)
        p95 = float(np.quantile(settled, 0.95)) if len(settled) else math.nan
        valid = int(counts.sum())
        if valid == 0:
            return Point(dict(values), 1.0, 0.0, 1.0, 1.0, total, tuple(0.0 for _ in counts), p95)
        found = bounded(counts, scene.q(), self.alpha)
        return Point(
            values=dict(values),
            tvd=found.tvd,
            lower=found.lower,
            upper=found.upper,
            null_rate=1.0 - valid / total,
            n=total,
            shares=tuple((counts / valid).tolist()),
            settle_p95=p95,
        )


def sweep(
    scene: Scene,
    overrides: Sequence[str] = (),
    *,
    points: int = 64,
    n: int = 4096,
    epsilon: float | None = None,
    alpha: float = 0.01,
    seed: int = 0,
    pool: Pool | None = None,
    advance: Callable[[int], Any] = lambda count: None,
) -> Range:
    """Run `scene` over its declared range at space-filling points, then look for the worst. Raises `SceneError`."""
    epsilon = epsilon_of(scene, epsilon)
    factors = factors_of(scene, overrides, scene.ranges)
    runner = Sweep(scene, overrides, n, points + len(SPREADS) + 5, alpha=alpha, seed=seed, pool=pool)
    units = qmc.Sobol(max(len(factors), 1), rng=np.random.default_rng(seed)).random(points)
    found, kept = list[Point](), list[np.ndarray]()
    for unit in units:
        try:
            found.append(runner.at({one.path: one.at(float(u)) for one, u in zip(factors, unit, strict=False)}))
            kept.append(unit)
        except SceneError:  # two parameters that do not go together, such as a bevel thicker than the coin: no such object
            pass
        advance(1)
    if not found:
        raise SceneError(f"{scene.id}: none of the {points} places of its range is a scene that can be built")
    distances = np.array([point.tvd for point in found])
    influence = {
        one.path: _rank_correlation(np.array(kept)[:, i], distances) for i, one in enumerate(factors) if len(found) > 2
    }
    worst = _search(runner, factors, np.array(kept)[int(distances.argmax())], seed, n)
    spreads = _spreads(runner, factors, advance)
    verdicts = [_side(point, epsilon) for point in found]
    good = [factor for factor, _, upper, _ in spreads if upper < epsilon]
    bad = [factor for factor, _, upper, _ in spreads if not upper < epsilon and factor <= 1.0]
    smallest = min((f for f in good if f <= 1.0 and all(f > b for b in bad)), default=None)
    return Range(
        factors=factors,
        points=tuple(found),
        holds=verdicts.count(1) / len(found),
        fails=verdicts.count(-1) / len(found),
        undecided=verdicts.count(0) / len(found),
        worst=worst,
        influence=dict(sorted(influence.items(), key=lambda item: -abs(item[1]))),
        smallest_spread=smallest,
        closed_form=closed_form_spread(scene, epsilon),
        spreads=tuple(spreads),
        half_step=_other_step(runner, scene, 2.0),
        double_step=_other_step(runner, scene, 0.5),
        second_integrator=_second(runner, scene, n),
    )


def _rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    value = float(spearmanr(x, y).statistic)
    return 0.0 if math.isnan(value) else value


def _side(point: Point, epsilon: float) -> int:
    return 1 if point.upper < epsilon else -1 if point.lower > epsilon else 0


def _search(runner: Sweep, factors: Sequence[Factor], start: np.ndarray, seed: int, n: int) -> Point:
    """Return the worst place near `start`, climbed to on common launches and run again on fresh ones, four times as many."""
    if not factors:
        return runner.at({}, seed=seed + 1)
    best: dict[str, Any] = {"tvd": -1.0, "values": {}}

    def distance(unit: np.ndarray) -> float:
        values = {one.path: one.at(float(u)) for one, u in zip(factors, np.clip(unit, 0.0, 1.0), strict=True)}
        try:
            tvd = runner.at(values).tvd
        except SceneError:
            return 0.0
        if tvd > best["tvd"]:
            best.update(tvd=tvd, values=values)
        return -tvd

    corners = np.vstack([start, *(np.clip(start + 0.25 * np.eye(len(factors))[i], 0, 1) for i in range(len(factors)))])
    minimize(
        distance,
        start,
        method="Nelder-Mead",
        bounds=[(0.0, 1.0)] * len(factors),
        options={"maxfev": EVALUATIONS, "initial_simplex": corners},
    )
    return runner.at(best["values"], seed=seed + 1, n=4 * n)


def _spreads(
    runner: Sweep, factors: Sequence[Factor], advance: Callable[[int], Any]
) -> list[tuple[float, float, float, float]]:
    """Return (factor, TVD, upper, lower) with every spread of the launch times a factor, all else nominal."""
    rows = []
    scales = [one for one in factors if one.path.endswith(".scale")]
    for factor in SPREADS if scales else ():
        values = {one.path: min(factor * one.nominal, max(one.high, one.nominal)) for one in scales}
        try:
            point = runner.at(values)
        except SceneError:
            continue
        rows.append((factor, point.tvd, point.upper, point.lower))
        advance(1)
    return rows


def closed_form_spread(scene: Scene, epsilon: float) -> float | None:
    """Return the factor on the spread of the action at which theory has the distance fall to `epsilon`; None without one.

    A wheel that a normal speed sets going, without pegs: with friction a and drag c it stops after an angle whose derivative is
    w / (a + c w), so that its sd is s = sd(w) w / (a + c w) / (2 pi) turns, and the angle mod 1 is (2/pi) exp(-2 pi^2 s^2)
    from uniform (the first Fourier term of a wrapped normal; Mardia and Jupp 2000, 3.5.7). Sectors tell no more than the angle.
    """
    device = scene.device
    if not isinstance(device, Spinner) or device.pegs or device.random["speed"].dist != "norm":
        return None
    given = dict(device.random["speed"].parameters)
    speed, spread = (float(given[name]) for name in ("loc", "scale"))  # type: ignore[arg-type]
    turns = spread * speed / (device.friction + device.drag * speed) / (2.0 * math.pi)
    return math.sqrt(max(0.0, math.log(2.0 / (math.pi * epsilon))) / 2.0) / (math.pi * turns)


def _other_step(runner: Sweep, scene: Scene, factor: float) -> Point | None:
    one = scene.integrator
    rate = one.steps_per_second
    if rate is None or rate * factor % 60:
        return None
    other = dataclasses.replace(one, steps_per_second=int(rate * factor))  # type: ignore[type-var]
    return runner.of(scene, other, {"steps_per_second": rate * factor})


def _second(runner: Sweep, scene: Scene, n: int) -> Point | None:
    if len(scene.integrators) < 2:
        return None
    return runner.of(scene, scene.integrators[1], {}, n=min(n, 1024))


def reference_file(id: str, outcomes: Sequence[str], found: Range, source: str) -> dict[str, Any]:
    """Return the set of distributions of a range in the form that `score references=` reads: ends for every outcome."""
    shares = np.array([point.shares for point in (*found.points, found.worst)])
    low, high = shares.min(axis=0), shares.max(axis=0)
    ends = {
        "low": dict(zip(outcomes, (round(float(x), 6) for x in low), strict=True)),
        "high": dict(zip(outcomes, (min(1.0, round(float(x) + 1e-6, 6)) for x in high), strict=True)),
    }
    return {"scenes": {id: {**ends, "source": source}}}
