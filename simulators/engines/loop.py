"""Runs launches to rest or to a null reason, one rollout an index, the same for every engine.

It knows devices, engines and states; it has never heard of a label or a reference.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simulators.device import (
    NULL_REASONS,
    ON_EDGE,
    Acting,
    Device,
    Engine,
    Integrator,
    Kernel,
    Launches,
    Rollouts,
    Simulation,
    State,
)
from simulators.rotation import Array
from simulators.sampling import BLOCK, launch_block
from simulators.world import Body, Box, Capsule, Cylinder, Lathe, Move, Shape, Sphere, World

READ_RATE = 60  # 1/s: how often a state is read, in every engine and kernel
REST_TIME = 0.25  # s
REST_DISTANCE = 0.2e-3  # m at scale 1; a resting box jitters in speed, so rest is judged by pose alone


class BlowUpError(ArithmeticError):
    """An engine's numbers are no longer finite: a failure of the integration, never a null."""


def physics_digest(device: Device, engine: Integrator) -> str:
    """Return 16 hex digits that name the physics: what two runs must share for index i to be the same rollout.

    Covers device, random variables, its other parameters (but for fields whose metadata say `physics: False`: a look),
    readout, engine with version, step, time limit and bounds; not the prompt, the camera or a cue, so that a non-causal
    pair shares its certificate.
    """
    described = {
        "device": type(device).__qualname__,
        "device_version": getattr(device, "version", 1),
        "parameters": _plain(device),
        "readout": device.readout,
        "engine": [engine.name, engine.version, _plain(engine)],
        "bounds": _plain(device.world().bounds),
        "block": BLOCK,
        "read": [READ_RATE, REST_TIME, REST_DISTANCE],
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        fields = [f for f in dataclasses.fields(value) if f.metadata.get("physics", True)]
        return {f.name: _plain(getattr(value, f.name)) for f in fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value + 0.0  # -0.0 is 0.0
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"a device's or engine's parameter must be plain data to be digested, got {value!r}")


def check_engine(engine: Integrator) -> None:
    """Raise `ValueError` where an engine's settings cannot be read at 60 Hz or never end."""
    rate = engine.steps_per_second
    if rate is not None and (rate <= 0 or rate % READ_RATE):
        raise ValueError(f"`steps_per_second` must be a positive multiple of {READ_RATE}, got {rate}")
    if not 0.0 < engine.time_limit <= 3600.0:
        raise ValueError(f"`time_limit` must be in (0, 3600] seconds, got {engine.time_limit}")


def run(
    engine: Integrator, device: Device, seed: int, stream: str, indices: Sequence[int] | np.ndarray, fps: float | None = None
) -> Rollouts:
    """Run the rollouts `indices` (n,) and return them in that order.

    Row i depends on (physics digest, stream, seed, index) alone. With `fps` [1/s] the frames of each are recorded, from the
    start of the prelude to rest. Raises `ValueError` for an index, seed or engine setting out of range.
    """
    wanted = np.asarray(indices)
    if wanted.ndim != 1 or not (np.issubdtype(wanted.dtype, np.integer) or wanted.size == 0):
        raise ValueError(f"`indices` must be a one-dimensional sequence of integers, got {indices!r}")
    if wanted.size and wanted.min() < 0:
        raise ValueError(f"an index must be at least 0, got {wanted.min()}")
    rate = engine.steps_per_second or math.inf
    if fps is not None and not 0.0 < fps <= rate:
        raise ValueError(f"`fps` must be in (0, {rate}] (the integration rate), got {fps}")
    check_engine(engine)
    world = device.world()
    if isinstance(engine, Kernel):
        return _run_kernel(engine, device, world, seed, stream, wanted.astype(np.int64), fps)
    simulation = engine.open(world)
    try:
        rows = []
        for launches in _by_block(device, seed, stream, wanted.astype(np.int64)):
            for i, index in enumerate(launches.index):
                drives = device.drive(launches.row(i)) if isinstance(device, Acting) else {}
                rows.append(_one(simulation, engine, device, world, int(index), launches.start[i : i + 1], drives, fps))
    finally:
        simulation.close()
    return Rollouts.concatenate(rows) if rows else _no_rollouts(world, fps)


def _by_block(device: Device, seed: int, stream: str, wanted: np.ndarray, most: int = BLOCK) -> Iterator[Launches]:
    """Yield the launches of `wanted` in order, split where the block of 1024 changes and after `most` rows.

    Always from the whole block: a row computed alone may differ in its last bit.
    """
    if not len(wanted):
        return
    drawn, values, starts = -1, dict[str, Array](), None
    cuts = np.flatnonzero(np.diff(wanted // BLOCK)) + 1
    for part in np.split(wanted, cuts):
        block = int(part[0]) // BLOCK
        if block != drawn:
            drawn, values = block, launch_block(device.random, seed, stream, block)
            starts = device.start(values)
        for at in range(0, len(part), most):
            some = part[at : at + most]
            rows = some % BLOCK
            yield Launches(some, {k: v[rows] for k, v in values.items()}, starts[rows], seed, stream)  # type: ignore[index]


RECORDED = 16  # rollouts a kernel records at a time: their frames are in memory together


def _run_kernel(
    kernel: Kernel, device: Device, world: World, seed: int, stream: str, wanted: np.ndarray, fps: float | None
) -> Rollouts:
    parts = [
        kernel.integrate(device, launches, fps)
        for launches in _by_block(device, seed, stream, wanted, BLOCK if fps is None else RECORDED)
    ]
    return Rollouts.concatenate(parts) if parts else _no_rollouts(world, fps)


def _no_rollouts(world: World, fps: float | None) -> Rollouts:
    empty = State.at_release(world, 0)
    return Rollouts(
        np.zeros(0, np.int64), np.zeros(0, np.int16), np.zeros(0, np.uint8), np.zeros(0, np.int16), np.zeros(0), empty,
        None if fps is None else (),
    )  # fmt: skip


def _one(
    simulation: Simulation,
    engine: Engine,
    device: Device,
    world: World,
    index: int,
    start: State,
    drives: Mapping[str, Move],
    fps: float | None,
) -> Rollouts:
    """Run one launch to its end: rest, `end_time`, out of bounds, or the time limit."""
    rate = engine.steps_per_second
    per_read, limit = rate // READ_RATE, round(engine.time_limit * rate)
    last = round(device.end_time * rate) if device.readout == "last" and device.end_time is not None else limit
    low, high = world.bounds
    loose = world.loose
    recorder = _Recorder(world, rate, fps)
    rest = _Rest(world)
    simulation.reset(start, drives)
    recorder.offer(0, simulation)
    step, first, strongest, code = 0, -1, -1, -1
    settled = gone = False
    while not (settled or gone or step >= min(last, limit)):
        target = min(step + per_read, last, limit)
        while step < target:
            stop = min(target, recorder.next_step)
            simulation.step(stop - step)
            step = stop
            recorder.offer(step, simulation)
        state = simulation.state()
        code = int(device.read(state)[0])
        first = code if first < 0 <= code else first
        strongest = max(strongest, code)
        places, turns = state.pos[0].tolist(), state.quat[0].tolist()
        if not all(math.isfinite(places[i][axis]) for i in loose for axis in range(3)):
            raise BlowUpError(
                f"rollout {index} blew up in {engine.name} {step / rate:.3f} s after release: its state is not finite. That "
                f"is no physical outcome; raise steps_per_second ({rate}) or mend the device's parameters"
            )
        gone = not all(low[axis] <= places[i][axis] <= high[axis] for i in loose for axis in range(3))
        settled = device.readout != "last" and rest.is_still(step / rate, places, turns)
    recorder.finish(step, simulation)
    fact, null = fold(device.readout, *(np.array([column]) for column in (code, first, strongest, settled, gone)))
    return Rollouts(
        index=np.array([index], np.int64),
        fact=fact,
        null=null,
        first=np.array([max(first, -1)], np.int16),
        settle_time=np.array([step / rate if settled else np.nan]),
        end=simulation.state(),
        trajectories=None if fps is None else (recorder.trajectory(),),
    )


def fold(
    readout: str, code: np.ndarray, first: np.ndarray, strongest: np.ndarray, settled: np.ndarray, gone: np.ndarray
) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    """Return facts (n,), -1 without one, and null codes (n,) from what the instants of each rollout showed.

    `code` is what the last instant showed; `first` and `strongest` are facts, negative without one; `settled` and `gone` (out
    of bounds) say how it ended.
    """
    latched = {"first": first, "strongest": strongest}.get(readout, np.full(len(code), -1))
    reads_end = readout in ("rest", "last")
    open_ended = ~settled & (readout != "last")
    fact = np.where(latched >= 0, latched, np.where(~gone & ~open_ended & reads_end & (code >= 0), code, -1))
    still = np.where(code == ON_EDGE, NULL_REASONS.index("on_edge"), NULL_REASONS.index("stuck"))
    null = np.where(gone, NULL_REASONS.index("left_apparatus"), np.where(open_ended, NULL_REASONS.index("unsettled"), still))
    return fact.astype(np.int16), np.where(fact >= 0, 0, null).astype(np.uint8)


def reach(body: Body) -> float:
    """Return the largest distance [m] of a body's surface from its centre: what turns an angle into a movement."""
    return max(float(np.linalg.norm(part.position)) + _shape_reach(part.shape) for part in body.parts)


def _shape_reach(shape: Shape) -> float:
    match shape:
        case Box(size=size):
            return float(np.linalg.norm(size)) / 2.0
        case Sphere(radius=radius):
            return radius
        case Cylinder(radius=radius, length=length):
            return float(np.hypot(radius, length / 2.0))
        case Capsule(radius=radius, length=length):
            return radius + length / 2.0
        case Lathe(profile=profile):
            return max(math.hypot(r, z) for r, z in profile)


class _Rest:
    """Rest by poses: no loose body has moved more than .2 mm (times the scale), turning included, for .25 s.

    Plain floats throughout: this runs 60 times a simulated second, and numpy's price a call is larger than the work.
    """

    def __init__(self, world: World) -> None:
        self.tolerance = REST_DISTANCE * world.scale
        self.reach = {i: reach(world.moving[i]) for i in world.loose}
        self.since = -math.inf
        self.places: list[list[float]] = []
        self.turns: list[list[float]] = []

    def is_still(self, time: float, places: list[list[float]], turns: list[list[float]]) -> bool:
        """Take in the next instant, positions and quaternions by body; say whether the loose ones now count as at rest."""
        if self.places and all(self._moved(i, places[i], turns[i]) <= self.tolerance for i in self.reach):
            return time - self.since >= REST_TIME - 1e-9
        self.since, self.places, self.turns = time, places, turns
        return False

    def _moved(self, body: int, place: list[float], turn: list[float]) -> float:
        """Return how far [m] a body's surface may have moved since the pose that is held against it."""
        cosine = min(1.0, abs(sum(a * b for a, b in zip(turn, self.turns[body], strict=True))))
        return math.dist(place, self.places[body]) + 2.0 * math.acos(cosine) * self.reach[body]


def prelude_frames(world: World, fps: float, tolerance: float = 1e-9) -> list[State]:
    """Return the frames at `fps` [1/s] from the start of the prelude up to `tolerance` [s] before the release."""
    frames = list[State]()
    still = State.at_release(world, 1)
    while (time := len(frames) / fps - world.prelude) < -tolerance:
        pos, quat = world.poses(time)
        frames.append(dataclasses.replace(still, time=np.array([time]), pos=pos[None], quat=quat[None]))
    return frames


class _Recorder:
    """Frames at `fps`, the first at the start of the prelude, each at the nearest integration step."""

    def __init__(self, world: World, rate: int, fps: float | None) -> None:
        self.world, self.rate, self.fps = world, rate, fps
        self.frames: list[State] = []
        self.next_step = 2**62
        if fps is not None:
            self.frames = prelude_frames(world, fps, 0.5 / rate)
            self.next_step = round(self._time() * rate)

    def _time(self) -> float:
        return len(self.frames) / self.fps - self.world.prelude  # type: ignore[operator]

    def offer(self, step: int, simulation: Simulation) -> None:
        if step == self.next_step:
            self.frames.append(simulation.state())
            self.next_step = round(self._time() * self.rate)

    def finish(self, step: int, simulation: Simulation) -> None:
        """Close with the final state, so that a clip can hold it."""
        if self.fps is not None and (not self.frames or self.frames[-1].time[0] < step / self.rate):
            self.frames.append(simulation.state())

    def trajectory(self) -> State:
        return State.concatenate(self.frames)
