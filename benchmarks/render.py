"""Frames a second of both renderers, encoding included, beside PyBullet's software renderer on the same die scene.

Run it with `python benchmarks/render.py`. Repeats alternate, so that other load hits all alike; it prints medians and
ratios. It knows nothing of outcomes: the motion is made up.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pybullet as bullet
from pybullet_utils.bullet_client import BulletClient

from simulators.device import State
from simulators.render import Canvas, prepare
from simulators.rotation import about, multiply
from simulators.video import contact_sheet, frames_of_clip, write_clip
from simulators.world import Body, Box, Camera, Cylinder, Lathe, Light, Material, Part, Sector, Sphere, World

FPS, FRAMES = 16, 49
BOUNDS = ((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
DIE_CAMERA = Camera((0.0, -0.24, 0.24), (0.0, 0.0, 0.0), fov=0.5)
WHEEL_CAMERA = Camera((0.0, -0.42, 0.62), (0.0, -0.01, 0.0), fov=0.62)
BOARD_CAMERA = Camera((0.0, -1.0, -0.16), (0.0, 0.0, -0.16), view_height=0.54)


def die_in_tray() -> World:
    """A die on felt in a tray with low wooden walls, on a table."""
    wood, felt = Material((0.62, 0.40, 0.22), "wood", (0.30, 0.15, 0.06), 0.5), Material((0.10, 0.36, 0.22), "felt")
    table = Part(Box((2.0, 2.0, 0.02)), (0, 0, -0.012), material=Material((0.45, 0.30, 0.20), "wood", (0.2, 0.1, 0.05)))
    floor = Part(Box((0.24, 0.24, 0.002)), (0, 0, -0.001), material=felt)
    walls = [Part(Box((0.252, 0.006, 0.02), 0.0015), (0, y, 0.01), material=wood) for y in (-0.123, 0.123)]
    walls += [Part(Box((0.006, 0.24, 0.02), 0.0015), (x, 0, 0.01), material=wood) for x in (-0.123, 0.123)]
    die = Part(Box((0.016,) * 3, 0.002), material=Material((0.93, 0.90, 0.82), "pips", (0.05, 0.05, 0.06), 0.3))
    return World((Body("tray", (table, floor, *walls)), Body("die", (die,), 0.005, (0, 0, 0.008))), BOUNDS)


def peg_board() -> World:
    """Ten rows of brass pegs on a wooden plate with bins below, and a ball."""
    brass = Material((0.80, 0.62, 0.28), "brushed", roughness=0.25)
    wood, dark = Material((0.70, 0.50, 0.30), "wood", (0.35, 0.18, 0.08)), Material((0.42, 0.26, 0.15), "wood")
    forward = tuple(about((1, 0, 0), -np.pi / 2))
    places = [((k + 0.5 * (row % 2)) * 0.03, 0.0, -row * 0.026) for row in range(10) for k in range(-5, 6 - row % 2)]
    pegs = tuple(Part(Cylinder(0.004, 0.02), place, forward, brass) for place in places)
    plate = Body("plate", (Part(Box((0.42, 0.01, 0.50)), (0, 0.02, -0.16), material=wood),))
    bins = tuple(Part(Box((0.004, 0.03, 0.11)), ((k + 0.5) * 0.03, 0, -0.345), material=dark) for k in range(-6, 6))
    ball = Body("ball", (Part(Sphere(0.009), material=Material((0.78, 0.12, 0.10), roughness=0.25)),), 0.01, (0, 0, 0.03))
    return World((plate, Body("pegs", pegs), Body("bins", bins), ball), BOUNDS, planar=True)


def wheel() -> World:
    """A roulette wheel in a bowl of glass: 37 numbered pockets and as many frets turn, lathes stand about them."""
    colors = [(0.10, 0.45, 0.20) if k == 0 else (0.70, 0.08, 0.08) if k % 2 else (0.05, 0.05, 0.06) for k in range(37)]
    pockets = tuple(Sector(1 / 37, color, str(k)) for k, color in enumerate(colors))
    cone = Lathe(((0.0, 0.05), (0.012, 0.048), (0.018, 0.03), (0.09, 0.016), (0.135, 0.006), (0.19, 0.014)))
    painted = Material((0.55, 0.38, 0.20), "sectors", roughness=0.4, sectors=pockets, band=(0.137, 0.19))
    angles = np.arange(37) * 2 * np.pi / 37
    frets = tuple(
        Part(Box((0.03, 0.0015, 0.008)), (0.15 * np.cos(a), 0.15 * np.sin(a), 0.01), tuple(about((0, 0, 1), a))) for a in angles
    )
    bowl = Lathe(((0.30, 0.0), (0.30, 0.055), (0.275, 0.05), (0.2, 0.018), (0.19, 0.012)))
    glass = Lathe(((0.31, 0.0), (0.31, 0.07)))
    still = (
        Part(Box((1.4, 1.2, 0.04)), (0, 0, -0.02), material=Material((0.10, 0.33, 0.22), "felt")),
        Part(bowl, material=Material((0.42, 0.22, 0.10), "wood", (0.25, 0.10, 0.05), 0.35)),
        Part(glass, material=Material((0.8, 0.9, 0.95), roughness=0.1, opacity=0.1)),
    )
    ball = Body("ball", (Part(Sphere(0.0095), material=Material((0.93, 0.93, 0.92), roughness=0.25)),), 0.01, (0.15, 0, 0.016))
    return World((Body("still", still), Body("rotor", (Part(cone, material=painted), *frets), 1.0), ball), BOUNDS)


def turning(world: World, frames: int) -> State:
    """Return frames of the wheel's first body turning and its second one circling the other way."""
    still, turn = State.at_release(world, frames), np.arange(frames) * 0.1
    pos, quat = still.pos.copy(), still.quat.copy()
    quat[:, 0] = about((0, 0, 1), turn)
    pos[:, 1, 0], pos[:, 1, 1] = 0.15 * np.cos(2 * turn), -0.15 * np.sin(2 * turn)
    return dataclasses.replace(still, time=np.arange(frames) / FPS, pos=pos, quat=quat)


def motion(world: World, planar: bool) -> State:
    """Return 43 frames of a body crossing the picture, turning as it goes, and coming to rest."""
    share = np.linspace(0.0, 1.0, 43)
    still = State.at_release(world, len(share))
    way = np.stack([0.09 * np.sin(5 * share), 0 * share, -0.34 * share], axis=-1)
    if not planar:
        way = np.stack([0.16 * share - 0.08, 0.05 * np.sin(4 * share), 0.05 * np.abs(np.cos(6 * share)) * (1 - share)], axis=-1)
    quat = multiply(about((0, 0, 1), 7 * share), about((1, 0, 0), 9 * share))
    quat = still.quat if planar else quat[:, None]
    return dataclasses.replace(still, time=np.arange(len(share)) / FPS, pos=still.pos + way[:, None], quat=quat)


def tiny_frames(world: World, trajectory: State, frames: int) -> list[np.ndarray]:
    """Draw the die scene with PyBullet's TinyRenderer at twice the size and average 2x2 pixels."""
    client = BulletClient(bullet.DIRECT)
    try:
        bodies = {}
        for body in world.bodies:
            for k, part in enumerate(body.parts):
                half = [edge / 2 for edge in part.shape.size]  # boxes alone in this scene
                shape = client.createVisualShape(bullet.GEOM_BOX, halfExtents=half, rgbaColor=[*part.material.color, 1.0])
                at = np.add(body.position, part.position).tolist()
                bodies[body.name, k] = client.createMultiBody(baseVisualShapeIndex=shape, basePosition=at)
        camera = DIE_CAMERA
        view = bullet.computeViewMatrix(camera.position, camera.target, camera.up)
        lens = bullet.computeProjectionMatrixFOV(np.degrees(camera.fov), camera.width / camera.height, 0.01, 5.0)
        drawn = []
        for row in range(frames):
            client.resetBasePositionAndOrientation(bodies["die", 0], trajectory.pos[row, 0], trajectory.quat[row, 0])
            width, height = 2 * camera.width, 2 * camera.height
            image = client.getCameraImage(
                width, height, view, lens, lightDirection=Light().direction, shadow=1, renderer=bullet.ER_TINY_RENDERER
            )[2]
            pixels = np.reshape(image, (camera.height, 2, camera.width, 2, 4))[..., :3]
            drawn.append(pixels.mean(axis=(1, 3)).astype(np.uint8))
        return drawn
    finally:
        client.disconnect()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sheet", type=Path, help="also save a sheet of one frame of each")
    arguments = parser.parse_args()
    die, board = die_in_tray(), peg_board()
    raster, planar = prepare("raster", die, DIE_CAMERA, Light()), prepare("planar", board, BOARD_CAMERA, Light())
    roulette, wheel_path = prepare("raster", wheel(), WHEEL_CAMERA, Light()), turning(wheel(), 8)
    die_path, ball_path = motion(die, planar=False), motion(board, planar=True)
    folder = Path(tempfile.mkdtemp())

    def drawn(canvas: Canvas, path: State) -> Callable[[], int]:
        return lambda: sum(1 for _ in frames_of_clip(canvas, path, FPS))

    def clip(canvas: Canvas, path: State) -> Callable[[], int]:
        return lambda: write_clip(folder / "clip.mp4", frames_of_clip(canvas, path, FPS), FPS)

    def whole() -> int:
        raster.traced(die_path, 20)  # type: ignore[attr-defined]
        return 1

    tasks: dict[str, Callable[[], int]] = {
        "raster, die in a tray, drawn": drawn(raster, die_path),
        "raster, die in a tray, drawn, encoded, read back": clip(raster, die_path),
        "raster, die in a tray, no use of the background": whole,
        "raster, roulette, rotor turning, drawn": lambda: sum(1 for k in range(8) if roulette.frame(wheel_path, k).size),
        "planar, peg board, drawn": drawn(planar, ball_path),
        "planar, peg board, drawn, encoded, read back": clip(planar, ball_path),
        "TinyRenderer, die in a tray, 2x2 samples, drawn": lambda: len(tiny_frames(die, die_path, 4)),
    }
    rates: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(arguments.repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            count = task()
            rates[name].append(count / (time.perf_counter() - start))
    base = statistics.median(rates["TinyRenderer, die in a tray, 2x2 samples, drawn"])
    for name, values in rates.items():
        middle = statistics.median(values)
        print(
            f"{name:52s} {middle:8.1f} frames/s ({min(values):.1f} to {max(values):.1f})  {middle / base:7.1f} x TinyRenderer"
        )
    if arguments.sheet is not None:
        from PIL import Image

        pictures = [raster.frame(die_path, 30), tiny_frames(die, die_path, 31)[30], planar.frame(ball_path, 20)]
        pictures.append(roulette.frame(wheel_path, 3))
        Image.fromarray(contact_sheet(pictures, 2, ["raster", "TinyRenderer", "planar", "raster"])).save(arguments.sheet)


if __name__ == "__main__":
    main()
