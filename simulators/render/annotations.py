"""What a clip shows, in numbers: poses, velocities, boxes and depths of every body in every frame, and the camera's matrix.

It draws nothing and refuses to name a final state. Lengths in metres, angles in radians, pixels as the Camera counts them:
x to the right, y down, pixel centres at .5. Rows are a trajectory's rows, bodies are `World.moving` in order.
"""

from __future__ import annotations

import numpy as np

from simulators.device import State
from simulators.render.primitives import half_extents
from simulators.rotation import Array, rotate
from simulators.world import Camera, World

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


def track(world: World, camera: Camera, trajectory: State) -> dict[str, Array]:
    """Return the arrays of a clip's `track.npz`, n rows of b bodies.

    `time` (n,) [s], `pos` (n, b, 3), `quat` (n, b, 4: x, y, z, w), `vel` [m/s], `omega` [rad/s]; `centre` (n, b, 2), where a
    body's own origin is in the picture; `box` (n, b, 4), x0, y0, x1, y1 of the least upright rectangle about its parts' boxes,
    cut to the picture (empty outside of it); `depth` (n, b) [m], its origin's distance along the look; `names` (b,).
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
