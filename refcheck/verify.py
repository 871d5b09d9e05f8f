"""`quincunx verify`: does a scene's own physics give its reference? A sequential certificate, by simulation alone.

It refuses to know how an outcome could be drawn; it counts what rollouts ended in, in index order.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.random import Generator, Philox

from refcheck import certificate_tables as tables
from refcheck import depth_tables, range_tables
from refcheck.command import COMPLETED, NOT_MET, Answer, Option, Request, UserError
from refcheck.evidence import Evidence, Gatherer, asked_rollouts, wrong_evidence
from refcheck.inference import PValue, p_value
from refcheck.missing import NullBounds, null_bounds
from refcheck.output import atomic, to_json
from refcheck.predictability import Predictability, predictability
from refcheck.ranges import Range, reference_file, sweep
from refcheck.rare import Rare, rare
from refcheck.readable import ReadableBy, readable
from refcheck.running import RUNNING, pool_of, run_by
from refcheck.sequential import LOOK, SequentialTest, SequentialVerdict
from refcheck.simulate import tally_of
from refcheck.support import Support, supports
from refcheck.tally import Tally
from refcheck.tolerance import epsilon_of, wrong_epsilon
from scenes.load import load_scene
from scenes.scene import Basis, Scene
from simulators.device import Rollouts
from simulators.engines.loop import physics_digest
from simulators.engines.loop import run as run_rollouts
from simulators.execute import Pool, run_range

SUMMARY = "certify, refute or leave undecided a scene's reference, by its own physics"
OPTIONS = (
    Option("epsilon", "str", None, "total variation distance that matters, by default the scene's own; or `floor`, from noise"),
    Option("alpha", "float", 0.01, "error rate of `holds` and of `fails`, each, over all looks at once", low=1e-9, high=0.49),
    Option("null_limit", "float", 0.02, "largest share of rollouts that may end in no outcome", low=1e-4, high=0.99),
    Option("budget", "int", 50_000, "most rollouts a scene", low=LOOK, high=100_000_000),
    Option("seconds", "float", None, "most seconds a scene; then it is undecided (and depends on the machine)", low=0.1),
    Option("seed", "int", 0, "seed of the launches", low=0, high=2**64 - 1),
    *RUNNING,
    Option(
        "evidence",
        "str",
        "0",
        "rollouts of each check: second integrator, half the step, knock-out; `aim`: what each scene needs",
    ),
    Option("evidence_seconds", "float", None, "most seconds of each such check (it then depends on the machine)", low=0.1),
    Option(
        "predict", "int", 0, "rollouts from which to learn how much launch and frame 0 tell of the outcome", low=0, high=10**6
    ),
    Option("rare", "int", 0, "rollouts for each rare outcome (q below .02), in strata of the launch", low=0, high=10**8),
    Option("range", "int", 0, "places of its range of physics to run as well (64 is a good number)", low=0, high=65_536),
    Option("range_n", "int", 4096, "rollouts at each of them", low=64, high=10**8),
    Option("require", "str", None, "exit with status 1 unless every scene says so", choices=("holds", "fails", "decided")),
)
USES_SCENES = True
REFERENCES = "references.md"
RARE = 0.02
MOST_KEPT = 2**24 // LOOK  # looks of one scene's physics that are kept for another of the same: a fifth of a GiB
EVIDENCE = "evidence"  # the folder in `out` from which an interrupted gathering of evidence goes on

Verdict = Literal["holds", "fails", "undecided", "consistent (assumption)"]


@dataclass(frozen=True)
class Rate:
    """A share with its time-uniform interval and the limit it is held to."""

    value: float
    lower: float
    upper: float
    limit: float


@dataclass(frozen=True)
class EngineSettings:
    """What integrated the rollouts."""

    name: str
    version: str
    steps_per_second: int | None
    time_limit: float


@dataclass(frozen=True)
class SettleTime:
    """Simulated seconds from release to rest, over the rollouts that came to rest; NaN where none did."""

    median: float
    p95: float


@dataclass(frozen=True)
class Certificate:
    """The result of verify. `lower` and `upper` bound the distance of the scene's true distribution from `q`.

    `reason` says what decided: `distance`, `nulls`, or what ran out. `p_value` is for an n fixed beforehand: it describes the
    tally and decides nothing. `first_rest_disagree` is the share of outcomes whose first commitment was another one. `nulls`:
    the distance if every null had the outcome that suits `q` best, or worst. `readable`: what clips of some lengths show.
    `supports`: what each check of the evidence, missing ones too, says of the verdict.
    All but `seconds` and `rollouts_per_second` follow from scene, digest, seed and options, whatever the workers.
    """

    scene: str
    digest: str
    stream: str
    seed: int
    verdict: Verdict
    reason: str
    tally: Tally
    q: Mapping[str, str]
    tvd: float
    lower: float
    upper: float
    epsilon: float
    alpha: float
    null_rate: Rate
    p_value: PValue
    basis: Basis
    engine: EngineSettings
    n: int
    looks: int
    first_rest_disagree: float
    settle_time: SettleTime
    seconds: float
    rollouts_per_second: float
    nulls: NullBounds
    readable: tuple[ReadableBy, ...]
    evidence: Evidence = field(default_factory=Evidence)
    supports: tuple[Support, ...] = ()
    predictability: Predictability | None = None


def certify(
    scene: Scene,
    *,
    epsilon: float | str | None = None,
    alpha: float = 0.01,
    null_limit: float = 0.02,
    seed: int = 0,
    budget: int = 50_000,
    seconds: float | None = None,
    predict: int = 0,
    pool: Pool | None = None,
    advance: Callable[[int], Any] = lambda count: None,
    kept: list[Look] | None = None,
) -> Certificate:
    """Run `scene` in looks of 256 rollouts until the sequential test decides, or `budget` or `seconds` [s] run out.

    Of its first rollouts, at most `predict`, it is learnt how much the launch tells of the outcome. What `pool` has in flight
    at the verdict is dropped. `advance(count)` hears of every look. `kept` are the first looks of the same rollouts (digest,
    stream, seed), which are not run again; what is run is added to it. Raises `ValueError` for a scene
    without an exact `q`, `InfrastructureError` when a worker dies.
    """
    epsilon = epsilon_of(scene, epsilon)
    test = SequentialTest(scene.q(), epsilon, alpha, null_limit)
    state, seen = test.state, list[Look]()
    if seconds is not None:  # what compiling takes, on a new machine, is no time of the scene's
        run_rollouts(scene.integrator, scene.device, seed, scene.stream, [0])
    begun, ran_out = time.monotonic(), "budget"
    end = math.inf if seconds is None else begun + seconds
    known = [] if kept is None else kept[: budget // LOOK]
    stream = run_range(scene.integrator, scene.device, seed, scene.stream, LOOK * len(known), budget, pool)
    for look in chain(known, _looks(stream, end)):
        state = test.update(scene.outcome(look.fact))
        seen.append(look)
        advance(len(look.fact))
        if state.verdict != "undecided":
            break
        if time.monotonic() >= end:
            ran_out = "seconds"
            break
    stream.close()  # type: ignore[attr-defined]
    one = _certificate(scene, state, seen, epsilon, alpha, null_limit, seed, time.monotonic() - begun, ran_out)
    if known:
        ran = one.n - min(one.n, LOOK * len(known))
        one = replace(one, rollouts_per_second=ran / one.seconds if ran else float("nan"))
    if kept is not None:
        kept += [look for look in seen[len(kept) : MOST_KEPT] if len(look.fact) == LOOK]
    if predict:
        told = predictability(scene, scene.outcome(_columns(seen).fact[:predict]), seed)
        one = replace(one, predictability=told)
    return one


@dataclass(frozen=True)
class Look:
    """The columns of a look that a certificate needs; final states would fill the memory."""

    fact: np.ndarray
    null: np.ndarray
    first: np.ndarray
    settle_time: np.ndarray

    def __getitem__(self, rows: slice) -> Look:
        return Look(self.fact[rows], self.null[rows], self.first[rows], self.settle_time[rows])


def _looks(stream: Iterator[Rollouts], end: float) -> Iterator[Look]:
    """Yield looks of exactly 256 rows, whatever the slices; the last of all, or the one at the time `end`, may be short."""
    held: Look | None = None
    for part in stream:
        held = _columns([part] if held is None else [held, part])
        late = time.monotonic() >= end
        for at in range(0, len(held.fact) + 1 - (1 if late else LOOK), LOOK):
            yield held[at : at + LOOK]
        held = held[len(held.fact) :] if late else held[len(held.fact) // LOOK * LOOK :]
    if held is not None and len(held.fact):
        yield held


def _columns(parts: Sequence[Rollouts | Look]) -> Look:
    return Look(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("fact", "null", "first", "settle_time")))


def _certificate(
    scene: Scene,
    state: SequentialVerdict,
    seen: Sequence[Look],
    epsilon: float,
    alpha: float,
    null_limit: float,
    seed: int,
    seconds: float,
    ran_out: str,
) -> Certificate:
    rows = _columns(seen)
    tally = tally_of(scene, rows.fact, rows.null)
    outcome, first = scene.outcome(rows.fact), scene.outcome(rows.first)
    both = (outcome >= 0) & (first >= 0)
    settled = rows.settle_time[~np.isnan(rows.settle_time)]
    verdict: Verdict = state.verdict
    if verdict == "holds" and scene.basis == "assumption":
        verdict = "consistent (assumption)"  # physics that assumes the answer can agree with it, not certify it
    reason = state.reason or (ran_out if state.verdict == "undecided" else "distance")
    draws = Generator(Philox(key=np.array([seed, 0], np.uint64)))
    exact, engine = scene.reference.q or {}, scene.integrator
    one = Certificate(
        scene=scene.id,
        digest=physics_digest(scene.device, scene.integrator),
        stream=scene.stream,
        seed=seed,
        verdict=verdict,
        reason=reason,
        tally=tally,
        q={label: str(exact[label]) for label in scene.outcomes},
        tvd=state.tvd,
        lower=state.lower,
        upper=state.upper,
        epsilon=epsilon,
        alpha=alpha,
        null_rate=Rate(state.null_rate, state.null_lower, state.null_upper, null_limit),
        p_value=p_value(tally.array(), scene.q(), draws),
        basis=scene.basis,
        engine=EngineSettings(engine.name, engine.version, engine.steps_per_second, engine.time_limit),
        n=tally.total,
        looks=state.looks,
        first_rest_disagree=float(np.mean(outcome[both] != first[both])) if both.any() else float("nan"),
        settle_time=SettleTime(*(np.quantile(settled, [0.5, 0.95]).tolist() if len(settled) else (float("nan"),) * 2)),
        seconds=seconds,
        rollouts_per_second=tally.total / seconds if seconds > 0 else float("nan"),
        nulls=null_bounds(tally.array(), tally.null, scene.q()),
        readable=readable(scene, outcome, rows.settle_time),
    )
    return replace(one, supports=supports(one, scene.q()))


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return what is wrong with epsilon= and evidence= before anything is run."""
    return wrong_epsilon(values["epsilon"]) + wrong_evidence(values["evidence"])


def run(request: Request) -> Answer:
    """Certify every scene asked for, one after the other on shared workers. Raises `UserError`, `InfrastructureError`."""
    values = dict(request.values)
    further, further_seconds = asked_rollouts(values.pop("evidence")), values.pop("evidence_seconds")
    places, each = values.pop("range"), values.pop("range_n")
    rarely = values.pop("rare")
    required, running = values.pop("require"), {option.name: values.pop(option.name) for option in RUNNING}
    loaded = [run_by(load_scene(id, request.overrides), running["engine"]) for id in request.scenes]
    without = [scene.id for scene in loaded if scene.reference.q is None]
    if without:
        raise UserError(
            f"verify needs an exact reference `q`, which these scenes have not: {', '.join(without)}; leave them out"
        )
    certificates, ranges, rares = [], dict[str, Range](), dict[str, list[Rare]]()
    # Scenes of one physics and stream, such as a pair that differs in a cue, have the same rollouts: they are run once.
    physics = [(physics_digest(scene.device, scene.integrator), scene.stream) for scene in loaded]
    kept = dict[tuple[str, str], list[Look]]()
    with pool_of(running, request.out) as pool:
        folder = None if request.out is None else request.out / EVIDENCE
        gatherer = Gatherer(further, values["seed"], values["alpha"], seconds=further_seconds, pool=pool, folder=folder)
        for number, scene in enumerate(loaded):
            same = physics[number]
            shared = kept.pop(same, list[Look]())
            with request.progress(f"verify {scene.id}") as advance:
                one = certify(scene, pool=pool, advance=advance, kept=shared, **values)
            if same in physics[number + 1 :]:
                kept[same] = shared
            if further != 0:
                one = replace(one, evidence=gatherer.gather(scene, request.overrides))
                one = replace(one, supports=supports(one, scene.q()))
            certificates.append(one)
            if rarely:
                seldom = [label for label, q in zip(scene.outcomes, scene.q(), strict=True) if q < RARE]
                rares[scene.id] = [rare(scene, label, rarely, seed=values["seed"], pool=pool) for label in seldom]
            if places:
                settings = {"epsilon": one.epsilon, "alpha": values["alpha"], "seed": values["seed"], "pool": pool}
                with request.progress(f"range of {scene.id}", places) as advance:
                    ranges[scene.id] = sweep(scene, request.overrides, points=places, n=each, advance=advance, **settings)
            if len(loaded) > 1:  # a run of many scenes may be stopped before its table
                print(_line(certificates[-1]), file=sys.stderr, flush=True)
    unmet = [one for one in certificates if required is not None and not meets(one.verdict, required)]
    notes = tables.closing(certificates, loaded)
    if required is not None:
        told = f"not met by {', '.join(f'{one.scene} ({one.verdict})' for one in unmet)}" if unmet else "met by every scene"
        notes.append(f"require={required}: {told}.")
    if request.out is None:
        notes.append("Nothing was kept: out=DIR writes the certificates, for `quincunx report data=DIR`.")
    result: dict[str, Any] = {"certificates": certificates, "summary": summary(certificates)}
    if ranges:
        result["ranges"] = ranges
    if rares:
        result["rare"] = rares
    if request.out is not None:
        for scene in loaded if ranges else ():
            name = f"{scene.id.replace('/', '-')}-range.json"
            with atomic(request.out / name) as path:
                source = f"range of {scene.id}, digest {physics_digest(scene.device, scene.integrator)}"
                path.write_text(to_json(reference_file(scene.id, scene.outcomes, ranges[scene.id], source)), "utf-8")
            with atomic(request.out / name.replace(".json", ".png")) as path:
                range_tables.plot(ranges[scene.id], scene, path)
        with atomic(request.out / REFERENCES) as path:
            path.write_text(tables.markdown(certificates, loaded), "utf-8")
        result["references"] = REFERENCES
    shown = [tables.certificates(certificates), "\n".join(notes)]
    shown += depth_tables.beyond(certificates, loaded, rares)
    for scene in loaded if ranges else ():
        shown += range_tables.tables(ranges[scene.id], scene)
    return Answer(result, shown, NOT_MET if unmet else COMPLETED)


def _line(one: Certificate) -> str:
    return f"{one.scene}: {one.verdict}, TVD {one.tvd:.4f} in {one.lower:.4f}-{one.upper:.4f}, {one.n} rollouts"


def meets(verdict: Verdict, required: str) -> bool:
    """Tell whether a verdict is what `require=` asks for; `decided` is anything but undecided."""
    return verdict != "undecided" if required == "decided" else verdict == required


def summary(certificates: Sequence[Certificate]) -> dict[str, dict[str, int]]:
    """Return counts of verdicts by basis: a mechanism, a hidden state and an assumption are never added up."""
    counts: dict[str, dict[str, int]] = {}
    for certificate in certificates:
        of_basis = counts.setdefault(certificate.basis, {})
        of_basis[certificate.verdict] = of_basis.get(certificate.verdict, 0) + 1
    return counts
