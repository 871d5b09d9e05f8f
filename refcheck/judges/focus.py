"""Where a state shows what is read off it: which body decides, found by putting bodies back to where they started.

It asks the device what a changed state would show and refuses to know pixels. Only training looks at states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scenes.scene import Scene
from simulators.device import Device, State
from simulators.render.annotations import motion
from simulators.world import Camera, World

_OFTEN = 0.2  # share of rollouts whose reading must depend on a body before it is one that is always looked at
_SEPARATORS = "+_"


def deciding(device: Device, ends: State) -> NDArray[np.bool_]:
    """Return (n, b) whether the fact of end i hangs on loose body k.

    It does where the fact would be another with the body back in its pose at the release. Where that is so of no body (another
    ball like it is read in its stead), it does of the one that changes the fact most often by changing places with bodies that
    differ from it in looks alone.
    """
    world = device.world()
    places, turns = world.poses(0.0)
    facts = np.asarray(device.read(ends))
    found = np.zeros((len(ends), ends.pos.shape[1]), bool)
    for k in world.loose:
        changed = ends.copy()
        changed.pos[:, k], changed.quat[:, k] = places[k], turns[k]
        found[:, k] = np.asarray(device.read(changed)) != facts
    rows = np.flatnonzero(~found.any(axis=1))
    changes = np.zeros((len(rows), ends.pos.shape[1]), np.int64)
    for group in alike(world) if len(rows) else ():
        for one, other in combinations(group, 2):
            different = np.asarray(device.read(_swapped(ends[rows], one, other))) != facts[rows]
            changes[:, one] += different
            changes[:, other] += different
    some = changes.max(axis=1, initial=0) > 0
    found[rows[some], np.argmax(changes[some], axis=1)] = True
    return found


def _swapped(states: State, one: int, other: int) -> State:
    """Return states in which two bodies have changed places."""
    changed = states.copy()
    for values in (changed.pos, changed.quat, changed.vel, changed.omega):
        values[:, [one, other]] = values[:, [other, one]]
    return changed


def parts_of(scene: Scene) -> tuple[tuple[str, ...], ...] | None:
    """Return of each fact what every loose body shows, where facts are such lists (`2+5`, `heads_tails`); None elsewhere.

    A list is one only where its order changes no outcome: a picture does not tell two like dice apart.
    """
    count = len(scene.device.world().loose)
    for separator in _SEPARATORS if count > 1 else "":
        split = [tuple(fact.split(separator)) for fact in scene.device.facts]
        words = {word for parts in split for word in parts}
        if all(len(parts) == count for parts in split) and len(split) == len(words) ** count:
            label = {parts: scene.outcome_of_fact[k] for k, parts in enumerate(split)}
            if all(label[parts] == label[tuple(sorted(parts))] for parts in split):
                return tuple(split)
    return None


@dataclass(frozen=True)
class Focus:
    """Which bodies are looked at: all of `always` where a reading is a list, else the smallest that decides a rollout's.

    `usual` is the body looked at where none decides: one that came back to its pose by chance.
    """

    world: World
    usual: int
    always: tuple[int, ...] = ()

    @classmethod
    def of(cls, scene: Scene, ends: State) -> Focus:
        """Learn from final states which bodies decide what is read."""
        world = scene.device.world()
        if parts_of(scene) is not None:
            return cls(world, world.loose[0], world.loose)
        share = deciding(scene.device, ends).mean(axis=0)
        sizes = _sizes(world, scene.camera, ends).mean(axis=0)
        often = [k for k in world.loose if share[k] >= _OFTEN]
        return cls(world, min(often, key=lambda k: sizes[k]) if often else max(world.loose, key=lambda k: share[k]))

    @property
    def count(self) -> int:
        """How many places of a picture are looked at."""
        return max(1, len(self.always))

    def bodies(self, scene: Scene, ends: State) -> NDArray[np.int64]:
        """Return the bodies looked at (n, count) in each state."""
        if self.always:
            return np.tile(np.array(self.always), (len(ends), 1))
        decides = deciding(scene.device, ends)
        sizes = np.where(decides, _sizes(self.world, scene.camera, ends), np.inf)
        chosen = np.where(decides[:, self.usual] | ~decides.any(axis=1), self.usual, np.argmin(sizes, axis=1))
        return chosen[:, None]


def _sizes(world: World, camera: Camera, states: State) -> NDArray[np.float64]:
    box = motion(world, camera, states)["box"]
    return np.maximum(box[..., 2] - box[..., 0], box[..., 3] - box[..., 1])


def places(world: World, camera: Camera, states: State, bodies: NDArray[np.int64]) -> tuple[NDArray, NDArray]:
    """Return the middle (n, c, 2) and the longer and shorter edge (n, c, 2) [px] of the bodies (n, c) of each state."""
    seen = motion(world, camera, states)
    rows = np.arange(len(states))[:, None]
    box = seen["box"][rows, bodies]
    edges = np.stack([box[..., 2] - box[..., 0], box[..., 3] - box[..., 1]], axis=-1)
    return seen["centre"][rows, bodies], np.sort(edges, axis=-1)[..., ::-1]


def alike(world: World) -> list[list[int]]:
    """Return the groups of loose bodies that differ in their looks alone."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for k in world.loose:
        body = world.moving[k]
        groups.setdefault((body.mass, tuple((part.shape, part.position) for part in body.parts)), []).append(k)
    return [group for group in groups.values() if len(group) > 1]


def exchanged(scene: Scene, ends: State, needed: Sequence[int]) -> tuple[State, NDArray[np.int64]]:
    """Return states, and the outcome of each, in which the deciding body and one that differs in looks alone changed places.

    At most `needed[k]` of outcome k. The device reads every one anew: these are pictures to learn from, and were never rolled
    out; nothing is counted in them.
    """
    world, left, states, labels = scene.device.world(), list(needed), list[State](), list[int]()
    groups = {k: group for group in alike(world) for k in group}
    bodies = Focus.of(scene, ends).bodies(scene, ends)[:, 0]
    for shift in range(1, max((len(group) for group in groups.values()), default=1)):
        for row, body in enumerate(bodies.tolist()):
            group = groups.get(body, [body])
            if shift >= len(group) or not any(left):
                continue
            other = group[(group.index(body) + shift + 7 * row) % len(group)]
            if other == body:
                continue
            state = _swapped(ends[slice(row, row + 1)], body, other)
            fact = int(scene.device.read(state)[0])
            outcome = scene.outcome_of_fact[fact] if fact >= 0 else -1
            if outcome >= 0 and left[outcome] > 0:
                left[outcome] -= 1
                states.append(state)
                labels.append(outcome)
    none = ends[slice(0, 0)]
    return State.concatenate(states) if states else none, np.array(labels, np.int64)
