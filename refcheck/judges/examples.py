"""What the trained judge learns from: pictures of final and of undecided states, in looks of its own, through the codec.

Every state comes from rollouts on a stream that nothing judged is drawn from. It refuses to know the reference.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from refcheck.clips import FPS, find_nulls, search
from refcheck.judges import features, focus
from refcheck.judges.features import FloatArray, Frame, Sight
from refcheck.judges.features import Look as Seen
from refcheck.judges.focus import Focus
from refcheck.judges.learners import BETWEEN, NOTHING
from scenes.scene import Scene
from simulators.device import State
from simulators.engines.loop import REST_TIME, run
from simulators.execute import Pool, spread
from simulators.render import Image, looks
from simulators.render.canvas import Region, clip_region, nominal_state
from simulators.render.looks import Look, Shot
from simulators.render.segmentation import Segmenter
from simulators.sampling import Distribution
from simulators.video import read_clip, write_clip

TRAINING = "/training"
"""Added to a scene's stream: no seed lets a clip that is judged be one that was trained on."""
LOOKS = 6  # ways of filming that are learned from: the studio, and others that are none of the presets
WHOLE, OPEN = 8, 6  # whole pictures of a look where much moves, and pictures of undecided states
MUCH = 8  # bodies that move: with no more of them a whole picture costs hardly more than what is near one
SHAPED = 16  # pictures of a look in which it is told which pixels show what decides
MOST = 400  # final states in all: what they teach, and what drawing them costs, does not grow with the outcomes
CLUSTER = 96  # rollouts of a heap of like bodies: who lies where is changed, so that few show every outcome
WIDER = (4.0, 16.0, 64.0)  # times the spread of a launch, for outcomes that never come
VARIANTS = 2  # times that what decides is cut out of a picture
RARE = 4  # times as many rollouts are looked through for those that ended between two outcomes: one in hundreds does
RECORDED = 12  # rollouts that undecided states are taken from
INEXACT = 1.2  # pixels at least, standard deviation of a place: dice were found so in looks not learned (1.1 and 1.7)
ROOM = 120.0  # pixels about a spot: colours are measured there, and must be those of more than one sector
MARGIN = 12.0  # pixels drawn beyond what is looked at: it is cut out a little elsewhere each time

Advance = Callable[[int], Any]


@dataclass(frozen=True, eq=False)
class States:
    """Final states with an outcome each, or `BETWEEN` two, and states that show none."""

    ends: State
    labels: NDArray[np.int64]
    facts: NDArray[np.int64]
    undecided: State


def collect(
    scene: Scene,
    seed: int,
    per_outcome: int,
    limit: int,
    pool: Pool | None,
    advance: Advance,
    most: int = MOST,
    close: float = 0.0,
) -> States:
    """Return at most `per_outcome` final states of each outcome, `most` in all, as many as turn up in `limit` rollouts.

    Of what one body decides, the share `close` of them are close calls: of all `limit` those that lie nearest to another
    outcome's. In a heap the deciding body changes places with others of other looks. For an outcome that does not come the
    launch is spread wider: only what it looks like is learned. Of what one body decides, as many states again that ended
    between two outcomes: how near to the line nothing may be said.
    """
    count = len(scene.outcomes)
    per = min(per_outcome, max(8, most // count))
    heap = any(len(group) > 2 for group in focus.alike(scene.device.world()))
    alone = not heap and focus.parts_of(scene) is None
    stream, near = scene.stream + TRAINING, round(close * per) if alone else 0
    needed = np.full(count, per)
    if near:
        found = search(scene, seed, np.full(count, limit), limit=limit, stream=stream, pool=pool)
        found = found[_with_close_calls(found.end.pos, scene.outcome(found.fact), per - near, near)]
        advance(len(found))
    else:
        few = min(limit, CLUSTER) if heap else limit
        found = search(scene, seed, needed, limit=few, stream=stream, pool=pool, advance=advance)
    ends, facts = [found.end], [found.fact.astype(np.int64)]
    labels = [scene.outcome(found.fact).astype(np.int64)]
    if heap and len(found):
        short = (needed - np.bincount(labels[0], minlength=count)).tolist()
        more, outcome = focus.exchanged(scene, found.end, short)
        draws = Generator(Philox(key=np.array([seed, 6], np.uint64)))
        more = focus.rolled(scene, more, Focus.of(scene, found.end).bodies(scene, more), draws)
        ends.append(more)
        labels.append(outcome)
        facts.append(np.asarray(scene.device.read(more), np.int64))
    for factor in WIDER:
        have = np.bincount(np.concatenate(labels), minlength=count)
        if have.min() > 0:
            break
        needed = np.where(have > 0, 0, per)
        wide = search(widened(scene, factor), seed, needed, limit=min(limit, 512), stream=stream, pool=pool)
        ends.append(wide.end)
        labels.append(scene.outcome(wide.fact).astype(np.int64))
        facts.append(wide.fact.astype(np.int64))
    if alone:
        balanced = find_nulls(scene, seed, per, limit=RARE * limit, reasons=("on_edge",), stream=stream, pool=pool)
        ends.append(balanced.end)
        labels.append(np.full(len(balanced), BETWEEN))
        facts.append(balanced.fact.astype(np.int64))
    return States(State.concatenate(ends), np.concatenate(labels), np.concatenate(facts), _undecided(scene, seed))


def _with_close_calls(pos: FloatArray, outcome: NDArray[np.integer], first: int, near: int) -> NDArray[np.int64]:
    """Return of each outcome the `first` rows, and of the others the `near` that lie nearest to a row of another outcome.

    `pos` (n, L, 3) are places [m], `outcome` (n,) positions of outcomes.
    """
    places, kept = pos.reshape(len(pos), -1), list[NDArray[np.int64]]()
    for k in np.unique(outcome):
        own, other = np.flatnonzero(outcome == k), np.flatnonzero(outcome != k)
        rest = own[first:]
        if len(other):
            apart = cKDTree(places[other]).query(places[rest])[0]
            rest = rest[np.argsort(apart, kind="stable")]
        kept += [own[:first], rest[:near]]
    return np.sort(np.concatenate(kept))


def widened(scene: Scene, factor: float) -> Scene:
    """Return the scene with launches spread `factor` times as wide about the same means."""
    random = {name: _wider(law, factor) for name, law in scene.device.random.items()}
    return dataclasses.replace(scene, device=dataclasses.replace(scene.device, random=random))  # type: ignore[type-var]


def _wider(law: Distribution, factor: float) -> Distribution:
    given = dict(law.parameters)
    scale = given.get("scale")
    if law.is_discrete or not isinstance(scale, float) or law.size is not None:
        return law
    before = law.mean()
    wide = Distribution(law.dist, tuple(sorted({**given, "scale": factor * scale}.items())))
    moved = float(before - wide.mean())
    return Distribution(law.dist, tuple(sorted({**dict(wide.parameters), "loc": float(given.get("loc", 0.0)) + moved}.items())))  # type: ignore[arg-type]


def _undecided(scene: Scene, seed: int) -> State:
    """Return states on the way that a picture tells from final ones: standing still, they would decide nothing.

    What moves through a place where it might have stopped, as a wheel's sectors past the pointer, is told by its motion alone.
    """
    device, integrator = scene.device, scene.integrator
    rollouts = run(integrator, device, seed, scene.stream + TRAINING + "/open", range(RECORDED), fps=FPS)
    kept = list[State]()
    for k, trajectory in enumerate(rollouts.trajectories or ()):
        ends = float(rollouts.end.time[k])  # rest is established by having lasted
        ends -= REST_TIME if device.readout == "rest" else 0.0
        states = focus.stilled(trajectory) if device.readout in ("rest", "last") else trajectory
        rows = np.flatnonzero((np.asarray(device.read(states)) < 0) & (trajectory.time < ends))
        if len(rows):
            wanted = LOOKS * OPEN // RECORDED + 1
            kept.append(trajectory[rows[np.linspace(0, len(rows) - 1, wanted).astype(int)]])
    kept.append(rollouts.end[np.flatnonzero(rollouts.null > 0)])
    return State.concatenate(kept)


def training_looks(seed: int, count: int = LOOKS) -> list[Look]:
    """Return the studio and `count` - 1 looks drawn for this seed; none of the other presets is among them.

    Of their light's ambient shares there is one in each equal part of what is drawn from: faces of a solid differ little where
    it is large, and most where it is small.
    """
    draws = Generator(Philox(key=np.array([seed, 7], np.uint64)))
    made = [Look()]
    for part in draws.permutation(count - 1):
        made.append(
            Look(
                ambient=float(0.3 + 0.7 * (part + draws.uniform()) / (count - 1)),
                softness=float(draws.uniform(0.02, 0.3)),
                light_turn=0.2,
                saturation=float(draws.uniform(0.8, 1.3)),
                gloss=float(draws.uniform(0.4, 1.6)),
                backdrop=tuple(float(v) for v in draws.uniform(0.35, 1.0, 3)),  # type: ignore[arg-type]
                pan=0.01,
                dolly=0.02,
                roll=0.01,
                exposure_spread=0.2,
                warmth=0.15,
                noise=float(draws.uniform(0.0, 3.0)),
                crf=int(draws.integers(14, 28)),
            )
        )
    return made


# --- drawing ---


@dataclass(frozen=True, eq=False)
class _Task:
    """What one look shows: states, of which the first `whole` are drawn whole and the rest in `regions` alone.

    `bodies` (n, c) are those that decide, -1 where none does; None where a spot of one does.
    `middles` (n, c, 2): where the bodies that decide are in the camera's picture, NaN where none does; `size` [px] of them.
    """

    scene: Scene
    shot: Shot
    states: State
    bodies: NDArray[np.int64] | None
    whole: int
    regions: tuple[Region, ...]
    middles: FloatArray
    size: float
    source: Image
    region: Region
    path: Path


@dataclass(frozen=True, eq=False)
class Example:
    """One picture that is learned from: `label` is its outcome's position, or `NOTHING`, or `BETWEEN`; `fact` the device's.

    `sight` where all of it was drawn; `places` (c, 2) [px] of what decides, None where nothing does. Without a sight, `looks`:
    how what decides looks (a list of c, more than once, each cut out a little elsewhere). `shape` (H, W): the source image's
    pixels that would show what decides; None where that was not asked for.
    """

    way: int
    label: int
    fact: int
    sight: Sight | None
    places: FloatArray | None
    looks: tuple[tuple[Seen, ...], ...]
    shape: NDArray[np.bool_] | None


_Drawn = tuple[Sight | None, FloatArray | None, tuple[tuple[Seen, ...], ...], NDArray[np.bool_] | None]


def _draw(task: _Task) -> list[_Drawn]:
    canvas = looks.canvas_of(task.scene.renderer, task.scene.device.world(), task.shot)
    opening = canvas.frame(nominal_state(task.scene.device.world()), 0)

    def pictures() -> Iterator[Image]:
        yield from (opening, opening)
        for row in range(len(task.states)):
            if row < task.whole:
                yield canvas.frame(task.states, row)
                continue
            x0, y0, x1, y1 = task.regions[row]
            image = canvas.background.copy()
            image[y0:y1, x0:x1] = canvas.frame(task.states, row, task.regions[row])
            yield image

    write_clip(task.path, looks.develop(pictures(), task.shot), FPS, task.shot.look.crf)
    found = list[_Drawn]()
    world = task.scene.device.world()
    segmenter, names = Segmenter(focus.bared(world), task.scene.camera), [body.name for body in world.bodies]
    numbers = np.array([1 + names.index(body.name) for body in world.moving])
    frame: Frame | None = None
    draws = Generator(Philox(key=np.array([task.shot.seed, 9 + task.shot.number], np.uint64)))
    for number, picture in enumerate(read_clip(task.path)):
        if number == 1:
            frame = Frame(picture, task.source, task.region)
        elif frame is not None:
            sight, row = frame.sight(picture), number - 2
            at = None if np.isnan(task.middles[row]).any() else frame.back(task.middles[row])
            cut = () if at is None or row < task.whole else tuple(_cut(sight, at, task.size, draws) for _ in range(VARIANTS))
            shape = None
            if task.bodies is not None and at is not None and row < min(task.whole, OPEN + SHAPED):
                shape = np.isin(segmenter.masks(task.states, row)[0], numbers[task.bodies[row]])
            found.append((sight if row < task.whole else None, at, cut, shape))
    task.path.unlink()
    return found


def _cut(sight: Sight, places: FloatArray, size: float, draws: Generator) -> tuple[Seen, ...]:
    """Return what lies at places (c, 2) [px], cut out and placed as inexactly as a detector finds them."""
    spread = min(0.5 + 0.03 * size, 2.5)
    looks_at = [features.look(sight, place, size) for place in places + draws.normal(0.0, spread, places.shape)]
    near = places + draws.normal(0.0, max(INEXACT, spread), places.shape)
    return tuple(dataclasses.replace(one, place=place) for one, place in zip(looks_at, near, strict=True))


@dataclass(frozen=True, eq=False)
class Examples:
    """All of them, and the part of the picture where what decides may be, `size` pixels large."""

    items: tuple[Example, ...]
    region: Region
    size: float
    count: int


def draw(scene: Scene, states: States, source: Image, seed: int, pool: Pool | None) -> Examples:
    """Draw the states under the training looks: some whole, of the others what is near the deciding body."""
    where = Focus.of(scene, states.ends[np.flatnonzero(states.labels >= 0)])
    bodies = where.bodies(scene, states.ends)
    middle, sizes = where.places(scene.camera, states.ends, bodies)
    size = float(np.quantile(sizes, 0.9))
    region = _about(middle.reshape(-1, 2), max(1.5 * size, 24.0 if where.spot is None else ROOM), scene)
    draws = Generator(Philox(key=np.array([seed, 8], np.uint64)))
    order = draws.permutation(len(states.ends))
    spare = draws.permutation(len(states.undecided))
    made = training_looks(seed)
    tasks, told = list[_Task](), list[NDArray[np.int64]]()
    with tempfile.TemporaryDirectory(prefix="quincunx-") as name:
        for number, look in enumerate(made):
            others = spare[number :: len(made)][:OPEN]
            rows = _varied_first(order[number :: len(made)], states.labels)
            shot = looks.shoot(look, scene.camera, scene.light, seed, number)
            at, _ = where.places(shot.camera, states.ends[rows], bodies[rows])
            some = State.concatenate([states.undecided[others], states.ends[rows]])
            near = tuple(_about(one, features.reach(size) / 2 + MARGIN, scene) for one in at)
            none = np.full((len(others), where.count, 2), np.nan)
            path = Path(name) / f"{number}.mp4"
            regions: tuple[Region, ...] = (*((0, 0, 1, 1) for _ in others), *near)
            few = len(scene.device.world().moving) <= MUCH
            whole, middles = len(others) + (len(rows) if few else WHOLE), np.concatenate([none, at])
            decide = None if where.spot is not None else np.concatenate([np.full(none.shape[:2], -1), bodies[rows]])
            tasks.append(_Task(scene, shot, some, decide, whole, regions, middles, size, source, region, path))
            told.append(np.concatenate([np.full(len(others), -1), rows]))
        drawn = spread(pool, _draw, tasks)
    labels, facts = np.append(states.labels, NOTHING), np.append(states.facts, -1)  # row -1 is undecided
    items = [
        Example(way, int(labels[row]), int(facts[row]), sight, at, cut, shape)
        for way, (rows, some_drawn) in enumerate(zip(told, drawn, strict=True))
        for row, (sight, at, cut, shape) in zip(rows, some_drawn, strict=True)
    ]
    return Examples(tuple(items), region, size, where.count)


def _varied_first(rows: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows so that those drawn whole show as many outcomes as they can."""
    seen: dict[int, int] = {}
    rank = []
    for row in rows:
        rank.append(seen.get(int(labels[row]), 0))
        seen[int(labels[row])] = rank[-1] + 1
    return rows[np.argsort(rank, kind="stable")]


def _about(points: FloatArray, margin: float, scene: Scene) -> Region:
    low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
    box = math.floor(low[0]), math.floor(low[1]), math.ceil(high[0]), math.ceil(high[1])
    x0, y0, x1, y1 = clip_region(box, scene.camera.width, scene.camera.height)
    return (x0, y0, x1, y1) if x1 > x0 and y1 > y0 else (0, 0, scene.camera.width, scene.camera.height)
