"""Where a state shows what is read off it: which body decides, or which spot of one that turns in place.

It asks the device what a changed state would show, and refuses to know what labels say. Only training looks at states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from scenes.scene import Scene
from simulators import rotation
from simulators.device import Device, State
from simulators.render.annotations import motion
from simulators.render.canvas import clip_region
from simulators.render.looks import Look, canvas_of, shoot
from simulators.render.segmentation import Segmenter
from simulators.rotation import Array
from simulators.world import ORIGIN, Body, Camera, Sphere, World

_OFTEN = 0.2  # share of rollouts whose reading must depend on a body before it is one that is always looked at
_SEPARATORS = "+_"
_IN_PLACE = 1e-4  # of the apparatus' scale: a body whose middle moves less does nothing but turn
_ONE_AXIS = 0.99  # of the turns between final states about one axis
_TURNS = 36  # in which a body that turns in place is drawn: three in each sector of twelve
_TELLS = 2.0  # times the variance within facts that is between them, where the colour of a spot tells what is read
_LEVEL = 9.0  # variance of a level, of 255: what the codec alone leaves
_ALIKE = 0.7  # of the best: spots that tell as well, as the far side of two halves does
_SPOT = 0.1  # of the body's breadth: what is looked at about its spot, and is well within a sector of twelve


def stilled(state: State) -> State:
    """Return the states without their velocities: all that one picture shows of them."""
    return replace(state, vel=np.zeros_like(state.vel), omega=np.zeros_like(state.omega))


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


def bared(world: World) -> World:
    """Return the world with every loose body that has one ball about its own origin, as a pendulum's bob, reduced to that ball.

    The rod that it hangs on is long, and turns about it: it says little about where the ball is.
    """
    loose = {world.moving[k].name for k in world.loose}

    def ball(body: Body) -> Body:
        own = [part for part in body.parts if part.position == ORIGIN and isinstance(part.shape, Sphere)]
        return replace(body, parts=tuple(own)) if body.name in loose and len(own) == 1 else body

    return replace(world, bodies=tuple(ball(body) for body in world.bodies))


@dataclass(frozen=True)
class Focus:
    """Which bodies are looked at: all of `always` where a reading is a list, else the smallest that decides a rollout's.

    `usual` is the body looked at where none decides: one that came back to its pose by chance. `spot`, of a body that turns in
    place, is the point (3,) [m] where its colour is read.
    """

    world: World
    usual: int
    always: tuple[int, ...] = ()
    spot: Array | None = None

    @classmethod
    def of(cls, scene: Scene, ends: State) -> Focus:
        """Learn from final states which bodies decide what is read."""
        world = bared(scene.device.world())
        if parts_of(scene) is not None:
            return cls(world, world.loose[0], world.loose)
        share = deciding(scene.device, ends).mean(axis=0)
        sizes = _sizes(world, scene.camera, ends).mean(axis=0)
        often = [k for k in world.loose if share[k] >= _OFTEN]
        usual = min(often, key=lambda k: sizes[k]) if often else max(world.loose, key=lambda k: share[k])
        return cls(world, usual, spot=_spot(scene, ends, usual))

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

    def places(self, camera: Camera, states: State, bodies: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return the middle (n, c, 2) [px] and the size (n, c) [px] of what is looked at on the bodies (n, c) of each state."""
        rows = np.arange(len(states))[:, None]
        sizes = _sizes(self.world, camera, states)[rows, bodies]
        if self.spot is None:
            return motion(self.world, camera, states)["centre"][rows, bodies], sizes
        return np.broadcast_to(camera.project(self.spot), (*bodies.shape, 2)), _SPOT * sizes


def _spot(scene: Scene, ends: State, body: int) -> Array | None:
    """Return the point (3,) [m] of a body that turns in place where its colour tells what is read; None where none does.

    The body is drawn in turns about its axis, each of which the device reads. Of the points whose colour goes with the fact,
    and does not change within one, it is the one nearest to what stands before the body, as a pointer does: of two halves the
    far side tells as well.
    """
    world, camera = scene.device.world(), scene.camera
    states = _turns(world, ends, body)
    if states is None:
        return None
    facts = np.asarray(scene.device.read(states), np.int64)
    states, facts = states[np.flatnonzero(facts >= 0)], facts[facts >= 0]
    if len(np.unique(facts)) < 2:
        return None
    box = motion(world, camera, states)["box"][:, body]
    low, high = np.floor(box[:, :2].min(axis=0)).astype(int), np.ceil(box[:, 2:].max(axis=0)).astype(int)
    x0, y0, x1, y1 = clip_region((low[0], low[1], high[0], high[1]), camera.width, camera.height)
    canvas, segmenter = canvas_of(scene.renderer, world, shoot(Look(), camera, scene.light)), Segmenter(world, camera)
    pictures = np.stack([canvas.frame(states, row, (x0, y0, x1, y1)) for row in range(len(states))]).astype(np.float32)
    masks = [segmenter.masks(states, row) for row in range(len(states))]
    number = 1 + [one.name for one in world.bodies].index(world.moving[body].name)
    shows = np.stack([labels[y0:y1, x0:x1] == number for labels, _ in masks])
    tells = cv2.boxFilter(telling(pictures, facts), -1, (3, 3)) * shows.all(axis=0)
    if tells.max(initial=0.0) < _TELLS:
        return None
    rows, columns = np.nonzero(tells >= _ALIKE * tells.max())
    best = int(np.lexsort((-tells[rows, columns], _apart(np.any(shows, axis=0))[rows, columns]))[0])
    row, column = int(y0 + rows[best]), int(x0 + columns[best])
    return _point(camera, np.array([column, row]) + 0.5, float(masks[0][1][row, column]))


def _turns(world: World, ends: State, body: int) -> State | None:
    """Return the first final state with a body in turns about the axis that all of them turned it about, if there is one."""
    if len(ends) < 3 or np.ptp(ends.pos[:, body], axis=0).max() > _IN_PLACE * world.scale:
        return None
    first = ends.quat[0, body]
    apart = rotation.multiply(ends.quat[1:, body], rotation.conjugate(first))[:, :3]
    _, sizes, axes = np.linalg.svd(apart, full_matrices=False)
    if sizes[0] <= 0.0 or sizes[0] ** 2 < _ONE_AXIS * np.sum(sizes**2):
        return None
    states = stilled(State.concatenate([ends[:1]] * _TURNS))
    states.quat[:, body] = rotation.multiply(rotation.about(axes[0], 2.0 * np.pi * np.arange(_TURNS) / _TURNS), first)
    return states


def telling(pictures: NDArray[np.float32], words: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each pixel (h, w) of pictures (n, h, w, 3) how much of its variance is between words (n,), to that within.

    The ratio of the two, summed over the colours: under a wheel's pointer it is large, whatever the rest of the wheel shows.
    """
    middle, between, within = pictures.mean(axis=0), np.zeros(pictures.shape[1:]), np.zeros(pictures.shape[1:])
    for word in np.unique(words):
        some = pictures[words == word]
        between += len(some) / len(pictures) * (some.mean(axis=0) - middle) ** 2
        within += len(some) / len(pictures) * some.var(axis=0)
    return np.asarray((between / (within + _LEVEL)).sum(axis=-1))


def _apart(shows: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return how far [px] each pixel (h, w) is from what hides a part of the body that `shows`; 0 where nothing does."""
    outlines, _ = cv2.findContours(shows.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    whole = np.zeros(shows.shape, np.uint8)
    cv2.fillConvexPoly(whole, cv2.convexHull(np.concatenate(outlines)), 1)
    hidden = cv2.erode(whole & ~shows, np.ones((3, 3), np.uint8))  # the outline's own pixels are none
    if not hidden.any():
        return np.zeros(shows.shape, np.float32)
    return np.asarray(cv2.distanceTransform(1 - hidden, cv2.DIST_L2, cv2.DIST_MASK_PRECISE), np.float32)


def _point(camera: Camera, pixel: Array, depth: float) -> Array:
    """Return the point (3,) [m] that a pixel (2,) shows at `depth` [m] along the look."""
    right, down, forward = camera.axes()
    high = 2.0 * np.tan(camera.fov / 2.0) * depth if camera.view_height is None else camera.view_height
    x, y = high / camera.height * (pixel - 0.5 * np.array([camera.width, camera.height]))
    return np.asarray(camera.position) + x * right + y * down + depth * forward


def _sizes(world: World, camera: Camera, states: State) -> NDArray[np.float64]:
    """Return how large [px] each body (n, b) is in the picture: the longer edge of its box, a ball's own breadth."""
    box = motion(world, camera, states)["box"]
    sizes = np.maximum(box[..., 2] - box[..., 0], box[..., 3] - box[..., 1])
    for k, body in enumerate(world.moving):
        shape = body.parts[0].shape
        if _is_ball(body) and isinstance(shape, Sphere):  # the box about a turned ball's box is up to 1.7 times as wide
            edge = states.pos[:, k] + shape.radius * camera.axes()[0]
            sizes[:, k] = 2.0 * np.linalg.norm(camera.project(edge) - camera.project(states.pos[:, k]), axis=-1)
    return sizes


def _is_ball(body: Body) -> bool:
    return len(body.parts) == 1 and isinstance(body.parts[0].shape, Sphere) and body.parts[0].position == ORIGIN


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


def rolled(scene: Scene, states: State, bodies: NDArray[np.int64], draws: Generator) -> State:
    """Return the states with every ball among the bodies (n, c) that are looked at turned any way.

    A ball comes to rest in any turn as well as in another. One whose turn is read is left as it lay.
    """
    ball = np.array([_is_ball(body) for body in scene.device.world().moving])
    chosen = np.where((bodies >= 0) & ball[bodies], bodies, -1)
    changed = states.copy()
    rows, columns = np.nonzero(chosen >= 0)
    turns = draws.normal(size=(len(rows), 4))  # a normal vector's direction is uniform: so is the turn
    changed.quat[rows, chosen[rows, columns]] = turns / np.linalg.norm(turns, axis=-1, keepdims=True)
    other = np.asarray(scene.device.read(changed)) != np.asarray(scene.device.read(states))
    changed.quat[other] = states.quat[other]
    return changed
