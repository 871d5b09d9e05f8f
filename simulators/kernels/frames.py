"""What every kernel needs around its compiled loop: when to record, when a body is at rest, and how columns make Rollouts.

It refuses to know any device; a kernel hands over what its instants showed, and `fold` of the engines' loop decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulators.compiled import jit
from simulators.device import Acting, Device, Launches, Rollouts, State
from simulators.engines.loop import READ_RATE, REST_DISTANCE, REST_TIME, fold, prelude_frames, reach
from simulators.rotation import Array
from simulators.world import Move, World

READ_STEP = 1.0 / READ_RATE  # s
NUMBERS = 13  # of a body at an instant: pos 3, quat 4 (x, y, z, w), vel 3, omega 3


@dataclass(frozen=True, eq=False)
class Columns:
    """What a kernel's compiled loop gives for n rollouts of a world with L loose bodies, W watched pairs, F frame times.

    code, first, strongest (n,): what the last 60 Hz instant showed, the first fact, the largest fact (negative: none);
    settled, gone (n,) bool; end_time (n,) [s]: of the end state, which is when rest was established if it was;
    end (n, L, 13); touched (n, W); frames (n, F, L, 13) and frame_count (n,): frames reached before the end (F = 0: none).
    """

    code: NDArray[np.integer]
    first: NDArray[np.integer]
    strongest: NDArray[np.integer]
    settled: NDArray[np.bool_]
    gone: NDArray[np.bool_]
    end_time: Array
    end: Array
    touched: NDArray[np.bool_]
    frames: Array
    frame_count: NDArray[np.integer]

    @staticmethod
    def empty(n: int, loose: int, watched: int, frames: int) -> Columns:
        """Return columns for a compiled loop to fill: nothing shown, nothing settled."""
        return Columns(
            code=np.full(n, -1, np.int16),
            first=np.full(n, -1, np.int16),
            strongest=np.full(n, -1, np.int16),
            settled=np.zeros(n, np.bool_),
            gone=np.zeros(n, np.bool_),
            end_time=np.zeros(n),
            end=np.zeros((n, loose, NUMBERS)),
            touched=np.zeros((n, watched), np.bool_),
            frames=np.zeros((n, frames, loose, NUMBERS)),
            frame_count=np.zeros(n, np.int64),
        )

    def filled(self, gone: bool = True) -> tuple[np.ndarray, ...]:
        """Return the columns that a compiled loop without watched pairs fills, in order; without `gone` if it has no bounds."""
        names = (
            "code",
            "first",
            "strongest",
            "settled",
            *(("gone",) if gone else ()),
            "end_time",
            "end",
            "frames",
            "frame_count",
        )
        return tuple(getattr(self, name) for name in names)


def set_up(device: Device, launches: Launches, fps: float | None, limit: float) -> tuple[Array, Array, float, Array, Columns]:
    """Return what a compiled loop takes of any device, and what it fills.

    The starts (n, L, 13), each loose body's reach (L,) [m], how far counts as rest [m], the frames' times (F,) [s], columns.
    """
    world = device.world()
    times = frame_times(world, fps, limit)
    columns = Columns.empty(len(launches), len(world.loose), len(world.watched), len(times))
    return bodies_at(launches.start, world.loose), reaches(world), rest_distance(world), times, columns


def frame_times(world: World, fps: float | None, limit: float) -> Array:
    """Return the times (F,) [s] from the release to `limit` at which a clip that starts with the prelude has its frames."""
    if fps is None:
        return np.zeros(0)
    number = np.arange(math.ceil((world.prelude + limit) * fps) + 1)
    times = number / fps - world.prelude
    return np.maximum(times[(times >= -1e-9) & (times <= limit)], 0.0)


def bodies_at(state: State, loose: tuple[int, ...]) -> Array:
    """Return the loose bodies of `state` as a kernel takes them, (n, L, 13)."""
    rows = list(loose)
    return np.concatenate([getattr(state, name)[:, rows] for name in ("pos", "quat", "vel", "omega")], axis=-1)


def reaches(world: World) -> Array:
    """Return for each loose body (L,) the largest distance [m] of its surface from its centre."""
    return np.array([reach(world.moving[i]) for i in world.loose])


def rest_distance(world: World) -> float:
    """Return how far [m] a surface may move in .25 s and count as at rest."""
    return REST_DISTANCE * world.scale


@jit
def still_since(time, bodies, held, since, reach, tolerance):
    """Take in the next 60 Hz instant `bodies` (L, 13+); return since when [s] all have stayed where they are.

    `held` (L, 7) keeps the poses that are held against them; `since` is NaN at the start. At rest: `is_rest(time, since)`.
    """
    if not math.isnan(since):
        moved = False
        for i in range(len(bodies)):
            cosine = 0.0
            for k in range(3, 7):
                cosine += bodies[i, k] * held[i, k]
            dx, dy, dz = bodies[i, 0] - held[i, 0], bodies[i, 1] - held[i, 1], bodies[i, 2] - held[i, 2]
            turn = 2.0 * math.acos(min(1.0, abs(cosine)))
            if math.sqrt(dx * dx + dy * dy + dz * dz) + turn * reach[i] > tolerance:
                moved = True
                break
        if not moved:
            return since
    for i in range(len(bodies)):
        for k in range(7):
            held[i, k] = bodies[i, k]
    return time


@jit
def is_rest(time, since):
    """Tell whether bodies that have stayed since `since` [s] (NaN: never) count as at rest at `time` [s]."""
    return time - since >= REST_TIME - 1e-9


def assemble(device: Device, launches: Launches, columns: Columns, fps: float | None, times: Array) -> Rollouts:
    """Return the rollouts that `columns` describe: facts folded, actuators and driven bodies where their moves have them.

    `times` (F,) are those of `frame_times`. With `fps` each trajectory is the prelude, the frames, and the end state.
    """
    world = device.world()
    fact, null = fold(device.readout, columns.code, columns.first, columns.strongest, columns.settled, columns.gone)
    nominal = dict(world.moves)
    trajectories = None
    if fps is not None:
        before = prelude_frames(world, fps)
        trajectories = tuple(
            _trajectory(world, before, launches, i, columns, times, nominal | dict(_drives(device, launches, i)))
            for i in range(len(launches))
        )
    end = _states(world, columns.end_time, columns.end, columns.touched, launches.start)
    for i in range(len(launches)) if isinstance(device, Acting) else ():
        _place(world, end, slice(i, i + 1), dict(_drives(device, launches, i)))
    if world.moves:
        _place(world, end, slice(None), nominal)
    return Rollouts(
        index=launches.index,
        fact=fact,
        null=null,
        first=np.maximum(columns.first, -1).astype(np.int16),
        settle_time=np.where(columns.settled, columns.end_time, np.nan),
        end=end,
        trajectories=trajectories,
    )


def _drives(device: Device, launches: Launches, i: int) -> Mapping[str, Move]:
    return device.drive(launches.row(i)) if isinstance(device, Acting) else {}


def _states(world: World, time: Array, bodies: Array, touched: NDArray[np.bool_], like: State) -> State:
    """Return states of times (n,) and loose bodies (n, L, 13); other bodies as at the release."""
    n = len(time)
    state = replace(State.at_release(world, n), time=np.array(time), touched=touched, bond=np.repeat(like.bond[:1], n, axis=0))
    for row, i in enumerate(world.loose):
        state.pos[:, i], state.quat[:, i] = bodies[:, row, :3], bodies[:, row, 3:7]
        state.vel[:, i], state.omega[:, i] = bodies[:, row, 7:10], bodies[:, row, 10:13]
    return state


def _place(world: World, state: State, rows: slice, moves: Mapping[str, Move]) -> None:
    """Set the bodies that `moves` name to where they are at each row's time: each distinct time is worked out once."""
    for i, body in enumerate(world.moving):
        if body.name not in moves or body.mass > 0.0:
            continue
        move = moves[body.name]
        clamped = np.clip(state.time[rows], move.times[0], move.times[-1])  # it holds its first and last pose
        times, which = np.unique(clamped, return_inverse=True)
        poses = [move.at(float(t)) for t in times]
        state.pos[rows, i] = np.array([p for p, _ in poses])[which]
        state.quat[rows, i] = np.array([q for _, q in poses])[which]


def _trajectory(
    world: World, before: list[State], launches: Launches, i: int, columns: Columns, times: Array, moves: Mapping[str, Move]
) -> State:
    count = int(columns.frame_count[i])
    time, bodies = times[:count], columns.frames[i, :count]
    if not count or time[-1] < columns.end_time[i]:
        time, bodies = np.append(time, columns.end_time[i]), np.concatenate([bodies, columns.end[i : i + 1]])
    # A touch is known of the end alone: what has touched when is not recorded.
    touched = np.zeros((len(time), columns.touched.shape[1]), np.bool_)
    touched[-1] = columns.touched[i]
    frames = _states(world, time, bodies, touched, launches.start[i : i + 1])
    _place(world, frames, slice(None), moves)
    return State.concatenate([*before, frames])
