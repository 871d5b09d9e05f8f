"""`quincunx tune`: change a scene's free parameters until its reference is true, and write the scene that came of it.

It changes the mechanism and never the reading. It refuses a launch wider than frame 0 hides, and a scene that gives its
reference with the mechanism taken away: there the launch would draw the distribution.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import differential_evolution, minimize
from scipy.stats import qmc

from refcheck import tune_file
from refcheck.command import COMPLETED, NOT_MET, Answer, Option, Request, UserError
from refcheck.evidence import Gatherer
from refcheck.output import atomic
from refcheck.ranges import Factor, Sweep, factors_of
from refcheck.running import RUNNING, pool_of, run_by
from refcheck.support import Support, supports
from refcheck.tolerance import wrong_epsilon
from refcheck.verify import Certificate, certify
from scenes.load import SceneError, compose_scene, load_scene, scene_ids
from scenes.scene import Scene
from simulators.execute import Pool

SUMMARY = "change a scene until its reference is true, and write the new scene"
OPTIONS = (
    Option("free", "str", None, "what may change: '{scene.device.restitution: [0.2, 0.9]}', by default the scene's `tune:`"),
    Option("id", "str", None, "id of the new scene, by default quincunx/<the old one's name>"),
    Option("n", "int", 4096, "rollouts at each place that is tried", low=64, high=10**7),
    Option("tries", "int", 200, "most places that are tried", low=8, high=100_000),
    Option("over", "int", 0, "places of its range of physics at which it must be good as well", low=0, high=1024),
    Option("settle", "float", 8.0, "seconds within which 95 % should be at rest", low=0.1),
    Option("epsilon", "str", None, "total variation distance that matters, by default the scene's own; or `floor`, from noise"),
    Option("alpha", "float", 0.01, "error rate of the certificate", low=1e-9, high=0.49),
    Option("budget", "int", 100_000, "most rollouts of the certificate, on fresh launches", low=256, high=10**8),
    Option(
        "evidence", "int", 2000, "rollouts of each check of it: second integrator, half the step, knock-out", low=64, high=10**8
    ),
    Option("evidence_seconds", "float", None, "most seconds of each such check (it then depends on the machine)", low=0.1),
    Option("ablation", "float", 0.1, "least distance from q without the mechanism (the knock-out)", low=0.0, high=0.99),
    Option("seed", "int", 0, "seed of the launches and of the search; fresh ones follow it", low=0, high=2**64 - 16),
    *RUNNING,
)
USES_SCENES = "one"

SETTLING = 0.01  # cost of each second beyond `settle`: as much as so much distance
FINALISTS = 3
DIGITS = 4  # of the values in the new scene
NEAR = 0.06  # of each parameter's range: the first simplex
REFUSED = 2.0  # cost of what cannot be: more than the largest distance and null rate together


@dataclass(frozen=True)
class Free:
    """A free parameter: the override `paths` that are all given its value, and where it may lie."""

    paths: tuple[str, ...]
    low: float
    high: float
    log: bool

    @property
    def name(self) -> str:
        """Its paths as a config names them."""
        return "|".join(self.paths)

    def at(self, unit: float) -> float:
        """Return its value at `unit` in 0..1, with as many digits as the new scene will say."""
        as_factor = Factor(self.name, self.low, self.low, self.high, self.log, "")
        return float(f"{as_factor.at(min(max(unit, 0.0), 1.0)):.{DIGITS}g}")

    def unit(self, value: float) -> float:
        """Return where `value` lies in 0..1, clipped to it."""
        inside = min(max(value, self.low), self.high)
        return Factor(self.name, inside, self.low, self.high, self.log, "").unit()


@dataclass(frozen=True)
class Trial:
    """What was seen at `values` (by name of the free parameter).

    `cost` is TVD of `n` rollouts and null rate, the worst of the places it was run at, and `SETTLING` for each second of
    `settle_p95` [s] beyond the limit.
    """

    values: dict[str, float]
    cost: float
    tvd: float
    null_rate: float
    settle_p95: float
    n: int


@dataclass(frozen=True)
class Tuned:
    """What tune found. `before` is the scene as its file has it; `holds` asks all of `lacking` to be empty.

    `supports` says how far from `q` it is under other integration and without the mechanism, each on fresh launches.
    """

    scene: str
    id: str
    free: tuple[Free, ...]
    tried: int
    refused: int
    why_refused: str | None
    before: Trial
    finalists: tuple[Trial, ...]
    found: Trial
    certificate: Certificate
    supports: tuple[Support, ...]
    lacking: tuple[str, ...]
    holds: bool


def free_of(text: str | None, scene: Scene) -> tuple[Free, ...]:
    """Return the free parameters that `text` names (YAML: path: [low, high], or [low, high, log]), else the scene's own.

    Raises `UserError` with every mistake.
    """
    given: Mapping[str, Any]
    if text is None:
        if not scene.tune:
            raise UserError(
                f"free= is missing, and {scene.id} has no `tune:` of its own: give what may change, such as "
                "free='{scene.device.restitution: [0.2, 0.9]}'"
            )
        given = scene.tune
    else:
        given = tune_file.mapping(text)
    found, problems = [], list[str]()
    for name, value in given.items():
        try:
            found.append(_free(name, value))
        except ValueError as error:
            problems.append(f"free: {name!r} is {value!r}: {error}")
    if problems:
        raise UserError(*problems)
    return tuple(found)


def _free(name: str, value: Any) -> Free:
    paths = tuple(part.strip() for part in str(name).split("|"))
    if not all(path.startswith(("scene.device.", "scene.kernel.")) for path in paths):
        raise ValueError("its path must begin with scene.device. (several that share one value are joined by |)")
    if isinstance(value, Mapping):
        value = [value["low"], value["high"], *(["log"] if value.get("log") else [])]
    is_log = isinstance(value, (list, tuple)) and list(value[2:]) == ["log"]
    numbers = list(value[:2]) if isinstance(value, (list, tuple)) and len(value) == 2 + is_log else []
    if len(numbers) != 2 or any(isinstance(x, bool) or not isinstance(x, (int, float)) for x in numbers):
        raise ValueError("it must be [low, high] or [low, high, log]")
    low, high = map(float, numbers)
    if not (math.isfinite(low) and math.isfinite(high) and low < high) or (is_log and low <= 0.0):
        raise ValueError("low must be below high, and above 0 on a log scale")
    return Free(paths, low, high, is_log)


class Search:
    """Tries places of the free parameters, on launches common to all of them."""

    def __init__(
        self,
        scene: Scene,
        overrides: Sequence[str],
        free: Sequence[Free],
        *,
        n: int,
        settle: float,
        over: int = 0,
        seed: int = 0,
        pool: Pool | None = None,
        advance: Callable[[int], Any] = lambda count: None,
    ) -> None:
        self.scene, self.overrides, self.free = scene, tuple(overrides), tuple(free)
        self.n, self.settle, self.seed, self.pool, self.advance = n, settle, seed, pool, advance
        mine = {path for one in free for path in one.paths}
        factors = tuple(one for one in factors_of(scene, overrides, scene.ranges) if one.path not in mine) if over else ()
        units = qmc.Sobol(max(len(factors), 1), rng=np.random.default_rng(seed)).random(over)
        self.places = [()] + [
            tuple(f"{one.path}={one.at(float(u))!r}" for one, u in zip(factors, unit, strict=True)) for unit in units if factors
        ]
        self.trials: list[Trial] = []
        self.refused: list[str] = []

    def words(self, values: Mapping[str, float]) -> tuple[str, ...]:
        """Return the overrides that make the scene at `values`."""
        named = tuple(f"{path}={values[one.name]!r}" for one in self.free for path in one.paths)
        return (*self.overrides, *named)

    def cost(self, unit: np.ndarray) -> float:
        """Return the cost at `unit` (d,) in 0..1, and remember the trial. What cannot be a scene costs `REFUSED`."""
        values = {one.name: one.at(float(u)) for one, u in zip(self.free, unit, strict=True)}
        self.advance(1)
        try:
            trial = self.trial(values)
        except SceneError as error:
            self.refused.append(error.problems[0])
            return REFUSED
        self.trials.append(trial)
        return trial.cost

    def trial(
        self, values: Mapping[str, float], *, seed: int | None = None, n: int | None = None, finer: bool = False
    ) -> Trial:
        """Return the worst of the places at `values`; with `finer`, of half the step as well. Raises `SceneError`."""
        count = self.n if n is None else n
        runner = Sweep(self.scene, (), count, 1, alpha=0.01, seed=self.seed if seed is None else seed, pool=self.pool)
        seen = []
        for place in self.places:
            scene = load_scene(self.scene.id, (*self.words(values), *place))
            scene = scene.run_by(runner.role)
            integrators = [scene.integrator]
            rate = scene.integrator.steps_per_second
            if finer and rate is not None:
                integrators.append(dataclasses.replace(scene.integrator, steps_per_second=2 * rate))  # type: ignore[type-var]
            seen += [runner.of(scene, integrator, {}) for integrator in integrators]
        tvd, nulls = max(point.tvd for point in seen), max(point.null_rate for point in seen)
        settle = max(point.settle_p95 for point in seen)
        late = 0.0 if math.isnan(settle) else max(0.0, settle - self.settle)
        return Trial(dict(values), tvd + nulls + SETTLING * late, tvd, nulls, settle, count)


def search(runner: Search, tries: int, seed: int) -> None:
    """Look for the least cost in at most `tries` trials: differential evolution, then the simplex method from its best.

    Storn and Price 1997; Nelder and Mead 1965, for the last quarter. It begins at Sobol points and the scene as it is, clipped
    to the bounds.
    """
    config, dimensions = compose_scene(runner.scene.id, runner.overrides), len(runner.free)
    size = max(8, 2 ** round(math.log2(3 * dimensions)))  # a power of two, as Sobol points ask
    start = np.array([one.unit(tune_file.leaf(config, one.paths[0])) for one in runner.free])
    found = differential_evolution(
        runner.cost,
        [(0.0, 1.0)] * dimensions,
        x0=start,
        init=qmc.Sobol(dimensions, rng=np.random.default_rng(seed)).random(size),
        maxiter=max(0, tries * 3 // 4 // size - 1),
        tol=0.0,
        polish=False,
        rng=np.random.default_rng(seed),
    )
    steps = np.where(found.x > 0.5, -NEAR, NEAR) * np.eye(dimensions)
    minimize(
        runner.cost,
        found.x,
        method="Nelder-Mead",
        bounds=[(0.0, 1.0)] * dimensions,
        options={"maxfev": max(1, tries - found.nfev), "initial_simplex": np.vstack([found.x, found.x + steps])},
    )


def tune(
    scene: Scene,
    overrides: Sequence[str],
    free: Sequence[Free],
    *,
    id: str,
    n: int = 4096,
    tries: int = 200,
    over: int = 0,
    settle: float = 8.0,
    epsilon: float | str | None = None,
    alpha: float = 0.01,
    budget: int = 100_000,
    evidence: int = 2000,
    evidence_seconds: float | None = None,
    ablation: float = 0.1,
    seed: int = 0,
    pool: Pool | None = None,
    advance: Callable[[int], Any] = lambda count: None,
) -> Tuned:
    """Search, run the best again on fresh launches at both steps, and certify the best of those on fresh ones again."""
    runner = Search(scene, overrides, free, n=n, settle=settle, over=over, seed=seed, pool=pool, advance=advance)
    before = Search(scene, (), (), n=n, settle=settle, over=over, seed=seed, pool=pool).trial({})
    search(runner, tries, seed)
    if not runner.trials:
        raise SceneError(f"{scene.id}: none of {len(runner.refused)} places is a scene that can be: {runner.refused[0]}")
    best = sorted({tuple(one.values.items()): one for one in runner.trials}.values(), key=lambda one: one.cost)[:FINALISTS]
    finalists = sorted((runner.trial(one.values, seed=seed + 1, n=4 * n, finer=True) for one in best), key=lambda one: one.cost)
    found = finalists[0]
    words = runner.words(found.values)
    made = load_scene(scene.id, words)
    certificate = certify(made, epsilon=epsilon, alpha=alpha, seed=seed + 2, budget=budget, pool=pool)
    gatherer = Gatherer(evidence, seed=seed + 3, alpha=alpha, seconds=evidence_seconds, pool=pool)
    certificate = dataclasses.replace(certificate, evidence=gatherer.gather(made, words))
    some = supports(certificate, made.q())
    lacking = _lacking(certificate, some, ablation)
    return Tuned(
        scene=scene.id,
        id=id,
        free=tuple(free),
        tried=len(runner.trials) + len(runner.refused),
        refused=len(runner.refused),
        why_refused=runner.refused[0] if runner.refused else None,
        before=before,
        finalists=tuple(finalists),
        found=found,
        certificate=certificate,
        supports=some,
        lacking=tuple(lacking),
        holds=not lacking,
    )


def _lacking(certificate: Certificate, some: Sequence[Support], ablation: float) -> list[str]:
    """Return what keeps the found scene from being called true: one sentence each."""
    told = []
    if certificate.verdict not in ("holds", "consistent (assumption)"):
        told.append(f"the certificate says {certificate.verdict} ({certificate.reason})")
    told += [one.said for one in some if one.status != "agrees"]
    told += [
        f"without the mechanism it is at least {one.distance.lower:.4f} from q and must be {ablation:g} away, else the launch "
        "draws the distribution and not the device"
        for one in some
        if one.check == "knock_out" and one.distance is not None and not one.distance.lower > ablation
    ]
    return told


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return what is wrong with id= and epsilon= before anything is run."""
    return [*([] if values["id"] is None else tune_file.wrong_id(values["id"])), *wrong_epsilon(values["epsilon"])]


def run(request: Request) -> Answer:
    """Tune one scene. The new scene's file is written only where it holds. Raises `UserError`, `InfrastructureError`."""
    values = dict(request.values)
    running = {option.name: values.pop(option.name) for option in RUNNING}
    text, id = values.pop("free"), values.pop("id")
    scene = run_by(load_scene(request.scenes[0], request.overrides), running["engine"])
    if scene.reference.q is None:
        raise UserError(f"tune needs an exact reference `q`, which {scene.id} has not")
    free = free_of(text, scene)
    id = f"quincunx/{scene.id.split('/')[-1]}" if id is None else id
    with pool_of(running, request.out) as pool, request.progress(f"tune {scene.id}", values["tries"]) as advance:
        found = tune(scene, request.overrides, free, id=id, pool=pool, advance=advance, **values)
    result: dict[str, Any] = {"tuned": found}
    notes = tune_file.notes(found)
    if found.holds and request.out is not None:
        name = id.split("/")[-1] + ".yaml"
        with atomic(request.out / name) as path:
            path.write_text(tune_file.written(found, scene, request.overrides), "utf-8")
        result["file"] = name
        taken = " (which is there already)" if id in scene_ids() else ""
        notes.append(f"{request.out / name} is the new scene; its place is conf/scene/{id}.yaml{taken}.")
    elif found.holds:
        notes.append("Nothing was kept: out=DIR writes the new scene.")
    return Answer(result, [tune_file.table(found), "\n".join(notes)], COMPLETED if found.holds else NOT_MET)
