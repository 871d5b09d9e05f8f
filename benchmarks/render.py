"""Frames a second of the renderers, encoding included, and whether encoding overlaps drawing and clips use all cores.

    python -m benchmarks.render [--only planar,raster,overlap,clips,photoreal] [--scenes ID,...] [--repeats 3] [--most 80]

Rollouts of the scenes themselves, filmed as `quincunx render` films them. The peer is the shortest loop over PyBullet's
`getCameraImage` that draws the same shapes, from the same camera, antialiased by 2x2 samples and with shadows. Ours and the
peer take turns, so that other load hits both; figures are medians, of overlap the least. What is `a core` counts processor
time, drawing, encoding and reading back together: on a busy machine it alone says what each costs. It knows nothing of
outcomes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pybullet as bullet
from pybullet_utils.bullet_client import BulletClient

from refcheck import clips
from refcheck.filming import FPS, PLAIN, Film, canvas_of
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import State
from simulators.engines.loop import run
from simulators.execute import Pool
from simulators.render.canvas import Canvas
from simulators.render.meshes import meshes
from simulators.render.primitives import half_extents
from simulators.rotation import multiply, rotate
from simulators.video import evenly_spaced, frames_of_clip, write_clip
from simulators.world import Box, Camera, Lathe, Light, Part, Sphere, World

PLANAR = ("calibench/galton_board", "pawbench/A22")
RASTER = ("pawbench/A-02", "calibench/dice", "pawbench/A-01", "pawbench/A-13", "calibench/roulette", "calibench/lottery")
PHOTOREAL = ("pawbench/A-02", "calibench/galton_board", "pawbench/A22", "pawbench/A18")
OVERLAPPING = ("calibench/galton_board", "calibench/roulette")
MANY = "pawbench/A-02"
PEER_FRAMES = 3


class Tiny:
    """A world in PyBullet's software renderer: every part a visual shape of its own, of one colour."""

    def __init__(self, world: World, camera: Camera, light: Light) -> None:
        self._world, self._camera, self._light = world, camera, light
        self._client = BulletClient(bullet.DIRECT)
        self._parts = [(body.name, part, self._made(part)) for body in world.bodies for part in body.parts]
        self._poses = {body.name: (np.array(body.position), np.array(body.quaternion)) for body in world.bodies}
        self._place(set(self._poses))

    def _made(self, part: Part) -> int:
        client, shape, material = self._client, part.shape, part.material
        color = [*(material.sectors[0].color if material.sectors else material.color), material.opacity]
        x, y, z = half_extents(shape)
        if isinstance(shape, Lathe):
            pieces = meshes(shape, Part(shape), 0.1, 1.0)
            starts = np.cumsum([0, *(len(piece.places) for piece in pieces)])
            index = np.concatenate([piece.faces + start for piece, start in zip(pieces, starts, strict=False)]).ravel()
            places = np.concatenate([piece.places for piece in pieces])
            made = client.createVisualShape(bullet.GEOM_MESH, vertices=places.tolist(), indices=index.tolist(), rgbaColor=color)
        elif isinstance(shape, Box):
            made = client.createVisualShape(bullet.GEOM_BOX, halfExtents=[x, y, z], rgbaColor=color)
        elif isinstance(shape, Sphere):
            made = client.createVisualShape(bullet.GEOM_SPHERE, radius=x, rgbaColor=color)
        else:
            kind = bullet.GEOM_CYLINDER if type(shape).__name__ == "Cylinder" else bullet.GEOM_CAPSULE
            made = client.createVisualShape(kind, radius=x, length=shape.length, rgbaColor=color)
        return int(client.createMultiBody(baseVisualShapeIndex=made))

    def _place(self, names: set[str]) -> None:
        for name, part, handle in self._parts:
            if name in names:
                pos, quat = self._poses[name]
                turn = multiply(quat, np.array(part.quaternion))
                at = pos + rotate(quat, np.array(part.position))
                self._client.resetBasePositionAndOrientation(handle, at.tolist(), turn.tolist())

    def frame(self, trajectory: State, row: int) -> np.ndarray:
        """Draw a row of a trajectory at twice the size and average 2x2 pixels, (H, W, 3)."""
        for k, body in enumerate(self._world.moving):
            self._poses[body.name] = trajectory.pos[row, k], trajectory.quat[row, k]
        self._place({body.name for body in self._world.moving})
        camera, wide, high = self._camera, 2 * self._camera.width, 2 * self._camera.height
        far = float(np.linalg.norm(np.subtract(camera.target, camera.position)))
        view = bullet.computeViewMatrix(camera.position, camera.target, camera.up)
        lens = bullet.computeProjectionMatrixFOV(np.degrees(camera.fov), camera.width / camera.height, 0.05 * far, 5.0 * far)
        image = self._client.getCameraImage(
            wide, high, view, lens, lightDirection=self._light.direction, shadow=1, renderer=bullet.ER_TINY_RENDERER
        )[2]
        pixels = np.reshape(image, (camera.height, 2, camera.width, 2, 4))[..., :3]
        return pixels.mean(axis=(1, 3)).astype(np.uint8)

    def close(self) -> None:
        """End the client."""
        self._client.disconnect()


def recorded(scene: Scene, film: Film = PLAIN, most: int = 10_000) -> State:
    """Return rollout 0 as it is filmed, cut after `most` rows."""
    return (run(scene.integrator, scene.device, 0, scene.stream, [0], fps=film.rate).trajectories or ())[0][:most]


def timed(work: Callable[[], int]) -> tuple[float, float, int]:
    """Return wall clock, processor time of this process and of those it waited for [s], and what `work` returns."""
    before, begun = os.times(), time.perf_counter()
    count = work()
    wall, after = time.perf_counter() - begun, os.times()
    return wall, sum(after[:4]) - sum(before[:4]), count


def rates(id: str, repeats: int, most: int, folder: Path, *, peer: bool) -> str:
    """Return a line on a scene's clip, drawn, encoded and read back, beside the peer's frames, if any."""
    scene = load_scene(id)
    path, canvas = recorded(scene, most=most), canvas_of(scene)
    canvas.frame(path, 0)
    tiny = Tiny(scene.device.world(), scene.camera, scene.light) if peer else None
    walls, cores, peers, peer_cores = list[float](), list[float](), list[float](), list[float]()
    for _ in range(repeats):
        wall, cpu, count = timed(lambda: write_clip(folder / "clip.mp4", frames_of_clip(canvas, path, FPS), FPS))
        walls.append(count / wall)
        cores.append(count / cpu)
        if tiny is not None:
            rows = evenly_spaced(range(len(path)), PEER_FRAMES)
            wall, cpu, _ = timed(lambda rows=rows: sum(1 for row in rows if tiny.frame(path, row).size))  # type: ignore[misc]
            peers.append(len(rows) / wall)
            peer_cores.append(len(rows) / cpu)
    wall, core = statistics.median(walls), statistics.median(cores)
    told = f"{id:24s} {count:4d} frames: {wall:6.1f} frames/s, {core:6.1f} a core"
    if tiny is None:
        return f"{told}; {core / 60.0:.2f} x 60 a core (wanted: 1)"
    tiny.close()
    other = statistics.median(peers)
    ratios = f"{wall / other:5.1f} by the clock, {core / statistics.median(peer_cores):5.1f} a core"
    return f"{told}; getCameraImage {other:5.2f} frames/s; ratio {ratios} (wanted: 5)"


def overlap(id: str, repeats: int, most: int, folder: Path) -> str:
    """Return a line on how much of the shorter of drawing and encoding is hidden behind the other.

    By the clock, so each is the least of `repeats`: what other load adds is left out as far as it can be.
    """
    scene = load_scene(id)
    path, canvas = recorded(scene, most=most), canvas_of(scene)
    kept = list(frames_of_clip(canvas, path, FPS))
    drawing, encoding, both = list[float](), list[float](), list[float]()
    for _ in range(repeats):
        drawing.append(timed(lambda: sum(1 for _ in frames_of_clip(canvas, path, FPS)))[0])
        encoding.append(timed(lambda: write_clip(folder / "clip.mp4", kept, FPS))[0])
        both.append(timed(lambda: write_clip(folder / "clip.mp4", frames_of_clip(canvas, path, FPS), FPS))[0])
    a, b, c = min(drawing), min(encoding), min(both)
    return (
        f"{id:24s} drawing {a:5.2f} s, encoding and reading back {b:5.2f} s, sum {a + b:5.2f} s; together {c:5.2f} s: "
        f"{(a + b - c) / min(a, b):4.0%} of the shorter is hidden (none: 0 %)"
    )


def many(repeats: int, folder: Path) -> str:
    """Return a line on 50 clips: with a worker a core, beside one worker."""
    scene, cores = load_scene(MANY), len(os.sched_getaffinity(0))
    rollouts = run(scene.integrator, scene.device, 0, scene.stream, range(50))
    took: dict[int, list[float]] = {1: [], cores: []}
    busy = list[float]()
    for _ in range(repeats):
        for workers in sorted(took):
            with Pool(workers=workers) as pool:
                clips.render_clips(scene, 0, rollouts[:workers], folder, pool=pool)  # workers start and load what is compiled
                before = os.times()
                wall, _, _ = timed(lambda pool=pool: len(clips.render_clips(scene, 0, rollouts, folder, pool=pool)))  # type: ignore[misc]
                took[workers].append(wall)
        after = os.times()  # of the pool, which has ended and been waited for
        busy.append((sum(after[:4]) - sum(before[:4])) / (took[cores][-1] * cores))
    one, all_of = (statistics.median(took[workers]) for workers in (1, cores))
    return (
        f"{MANY:24s} 50 clips: {one:5.1f} s with one worker, {all_of:5.1f} s with {cores}: {one / all_of:4.2f} x; "
        f"{statistics.median(busy):4.0%} of {cores} cores in use"
    )


def photoreal(id: str, folder: Path) -> str:
    """Return a line on a photoreal clip of 49 frames, on all cores."""
    scene, film = load_scene(id), Film(renderer="photoreal")
    path = recorded(scene, film)
    path = path[np.linspace(0, len(path) - 1, min(len(path), 43)).astype(int)]  # with the held end 49 frames
    times = np.arange(len(path)) / film.rate + path.time[0]
    path = State(**{**{name: getattr(path, name) for name in path.__dataclass_fields__}, "time": times})

    def clip() -> int:
        canvas: Canvas = canvas_of(scene, film)
        return write_clip(folder / "clip.mp4", frames_of_clip(canvas, path, FPS), FPS)

    wall, core, count = timed(clip)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{id:24s} {count:4d} frames in {wall:5.1f} s, {core:5.1f} s of processor time, {core / cores:5.1f} for each of "
        f"{cores} cores (wanted: under 60 for 49)"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="planar,raster,overlap,clips,photoreal")
    parser.add_argument("--scenes", help="of planar, raster, overlap and photoreal these alone")
    parser.add_argument("--most", type=int, default=10_000, help="frames of a rollout that are drawn")
    arguments = parser.parse_args()
    only, repeats, most = arguments.only.split(","), arguments.repeats, arguments.most

    def of(scenes: tuple[str, ...]) -> list[str]:
        return [id for id in scenes if arguments.scenes is None or id in arguments.scenes.split(",")]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sections: dict[str, list[Callable[[], str]]] = {
            "planar": [lambda id=id: rates(id, repeats, most, folder, peer=False) for id in of(PLANAR)],  # type: ignore[misc]
            "raster": [lambda id=id: rates(id, repeats, most, folder, peer=True) for id in of(RASTER)],  # type: ignore[misc]
            "overlap": [lambda id=id: overlap(id, repeats, most, folder) for id in of(OVERLAPPING)],  # type: ignore[misc]
            "clips": [lambda: many(repeats, folder / "many")],
            "photoreal": [lambda id=id: photoreal(id, folder) for id in of(PHOTOREAL)],  # type: ignore[misc]
        }
        for section, lines in sections.items():
            if section in only:
                print(f"## {section}", flush=True)
                for line in lines:
                    print(line(), flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
