"""What a clip shows, in numbers: poses, boxes, visibility, touches and facts of every frame; masks and depth on request.

It draws nothing and refuses to know labels and references.

Conventions, of `track.npz`, `masks.npz` and `meta.json` alike: SI units, radians, right-handed axes, z up; a planar world
lies in the x-z plane, seen from -y. Quaternions are (x, y, z, w) and take a body's axes to the world's; velocities are those of
the centre of mass, angular velocities in world axes. Time 0 is the release, so that the action before it has negative
times. Pixels are counted from the top left corner, x to the right, y down, their centres at .5; boxes are (x0, y0, x1, y1).
Images are row-major, top row first. Depth is the distance along the look, not along the ray, in metres, inf where there is
nothing. Row i is frame i of the clip, held frames included: they repeat the final state, its time too. Bodies are
`World.moving` in order, as `names` has them; in `segmentation` 0 is nothing and k + 1 is entry k of meta's `bodies`. Shapes,
where they are at a frame's instant, tell `contact` (see `contacts`); the integrator tells `touched`, of watched pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulators.device import NULL_REASONS, Device, Rollouts, State
from simulators.render.contacts import Contacts
from simulators.render.primitives import half_extents
from simulators.render.segmentation import Segmenter
from simulators.rotation import Array, multiply, rotate
from simulators.world import Camera, World

_ONCE = ("names", "camera")  # of what `motion` returns: the same in every row
_SIGNS = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], float)


def camera_matrix(camera: Camera) -> Array:
    """Return the 3x4 matrix M that takes (x, y, z, 1) [m] to (u w, v w, w): pixels after division, `w` the depth [m].

    For an orthographic camera w is 1.
    """
    right, down, forward = camera.axes()
    place = np.asarray(camera.position, float)
    axes = np.stack([right, down, forward])
    seen = np.column_stack([axes, -axes @ place])  # to the camera's axes: right, down, forward
    if camera.view_height is None:
        scale = camera.height / (2.0 * np.tan(camera.fov / 2.0))
        lens = np.array([[scale, 0.0, camera.width / 2.0], [0.0, scale, camera.height / 2.0], [0.0, 0.0, 1.0]])
        return lens @ seen
    scale = camera.height / camera.view_height
    flat = np.array([[scale, 0.0, 0.0], [0.0, scale, 0.0], [0.0, 0.0, 0.0]]) @ seen
    return flat + np.array([[0.0, 0.0, 0.0, camera.width / 2.0], [0.0, 0.0, 0.0, camera.height / 2.0], [0.0, 0.0, 0.0, 1.0]])


def motion(world: World, camera: Camera, trajectory: State) -> dict[str, Array]:
    """Return where everything is in the rows of a trajectory, n rows of b bodies.

    `camera` (3, 4) is `camera_matrix`; `time` (n,) [s], `pos` (n, b, 3), `quat` (n, b, 4), `vel` [m/s], `omega` [rad/s];
    `centre` (n, b, 2), where a body's own origin is in the picture; `box` (n, b, 4), the least upright rectangle about its
    parts' boxes, cut to the picture (empty outside of it); `depth` (n, b) [m], of its origin; `names` (b,).
    """
    n, b = trajectory.pos.shape[:2]
    size = np.array([camera.width, camera.height], float)
    box = np.zeros((n, b, 4))
    for number, body in enumerate(world.moving):
        corners = np.concatenate([
            np.asarray(part.position) + rotate(part.quaternion, _SIGNS * half_extents(part.shape)) for part in body.parts
        ])  # fmt: skip
        places = trajectory.pos[:, number, None] + rotate(trajectory.quat[:, number, None], corners)
        seen = camera.project(places)
        box[:, number, :2] = np.clip(seen.min(axis=1), 0.0, size)
        box[:, number, 2:] = np.clip(seen.max(axis=1), 0.0, size)
    return {
        "time": trajectory.time,
        "pos": trajectory.pos,
        "quat": trajectory.quat,
        "vel": trajectory.vel,
        "omega": trajectory.omega,
        "centre": camera.project(trajectory.pos),
        "box": box,
        "depth": np.sum((trajectory.pos - np.asarray(camera.position)) * camera.axes()[2], axis=-1),
        "names": np.array([body.name for body in world.moving]),
        "camera": camera_matrix(camera),
    }


def track(
    device: Device, camera: Camera, segmenter: Segmenter, contacts: Contacts, trajectory: State, rows: Sequence[int]
) -> dict[str, Array]:
    """Return the arrays of a clip's `track.npz`: rows `rows` of a trajectory, one a frame.

    Those of `motion`, and `pixels` (n, b), how many show a body; `visibility` (n, b), their share of those it would cover with
    nothing before it; `contact` (n, b, B), whether a loose body touches entry j of `bodies` (B,), all of the world's, at that
    instant (rows of actuators are False); `touched` (n, w), whether pair k of `watched` (w, 2) has ever touched; `fact` (n,),
    what the device reads off the frame alone: a position in meta's `facts`, -1 undecided, -2 at rest where nothing counts, -3
    on an edge.
    """
    world, shown = device.world(), np.asarray(rows)
    own, back = np.unique(shown, return_inverse=True)
    some = trajectory[own]
    seen = [segmenter.seen(trajectory, int(row)) for row in own]
    return {
        **{key: value if key in _ONCE else value[back] for key, value in motion(world, camera, some).items()},
        "pixels": np.array([count for count, _ in seen], np.int64)[back],
        "visibility": np.array([share for _, share in seen], float)[back],
        "contact": np.array([contacts.touching(*pose) for pose in zip(some.pos, some.quat, strict=True)], bool)[back],
        "bodies": np.array([body.name for body in world.bodies]),
        "touched": some.touched[back],
        "watched": np.array(world.watched, dtype=np.str_).reshape(-1, 2),
        "fact": np.asarray(device.read(some), np.int16)[back],
    }


def terminal(device: Device, rollout: Rollouts, fps: float) -> dict[str, Any]:
    """Return how a single recorded rollout ended, as numbers: what `meta.json` says of its physics.

    `decided` is when the first decisive fact was read and `settled` when rest was established [s, None if never]; `touches`
    when each watched pair is first seen to have touched, both to the recorded state; `terminal` of every loose body its
    final `position`, `quaternion`, `velocity`, `spin`, the `azimuth` of its place about the vertical axis through the origin
    (atan2(y, x)) and `turn`, the rotation vector from its nominal pose at the release, of at most pi.
    """
    world = device.world()
    trajectories = rollout.trajectories or ()
    if len(trajectories) != 1:
        raise ValueError(f"`rollout` must be one recorded rollout, got {len(trajectories)} trajectories")
    frames = trajectories[0]
    facts = np.asarray(device.read(frames))
    decisive = np.flatnonzero((facts == rollout.first[0]) & (facts >= 0) & (frames.time >= 0.0))
    settled = float(rollout.settle_time[0])
    end, (_, nominal) = rollout.end, world.poses(0.0)
    bodies = {}
    for k in world.loose:
        back = np.array([-1.0, -1.0, -1.0, 1.0]) * nominal[k]
        bodies[world.moving[k].name] = {
            "position": end.pos[0, k],
            "quaternion": end.quat[0, k],
            "velocity": end.vel[0, k],
            "spin": end.omega[0, k],
            "azimuth": float(np.arctan2(end.pos[0, k, 1], end.pos[0, k, 0])),
            "turn": rotation_vector(multiply(end.quat[0, k], back)),
        }
    fact, first = int(rollout.fact[0]), int(rollout.first[0])
    return {
        "fact": device.facts[fact] if fact >= 0 else None,
        "null": NULL_REASONS[int(rollout.null[0])],
        "first": device.facts[first] if first >= 0 else None,
        "readout": device.readout,
        "decided": float(frames.time[decisive[0]]) if len(decisive) else None,
        "settled": settled if np.isfinite(settled) else None,
        "ended": float(end.time[0]),
        "touches": [
            {"pair": list(pair), "time": float(frames.time[np.argmax(frames.touched[:, k])])}
            for k, pair in enumerate(world.watched)
            if frames.touched[:, k].any()
        ],
        "recorded_at": fps,
        "terminal": bodies,
    }


def rotation_vector(quaternion: Array) -> Array:
    """Return axis times angle [rad] (3,) of a quaternion (4,), the angle in [0, pi]."""
    x, w = quaternion[:3], quaternion[3]
    length = float(np.linalg.norm(x))
    if length == 0.0:
        return np.zeros(3)
    return x / length * 2.0 * np.arctan2(length, abs(w)) * (1.0 if w >= 0.0 else -1.0)
