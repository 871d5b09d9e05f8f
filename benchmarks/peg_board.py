"""How fast our rollouts of the peg boards are, beside the shortest plain Pymunk loop of the same board.

Both run in this process, in turn, on the same launches and at the same step; the ratio is of the medians over the repeats.

    python benchmarks/peg_board.py [repeats] [rollouts a repeat]
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pymunk
from hydra.utils import instantiate
from omegaconf import OmegaConf

from simulators.devices.peg_board import PegBoard
from simulators.engines.loop import run
from simulators.engines.planar import Planar
from simulators.sampling import launch_block

SCENES = Path(__file__).parents[1] / "conf" / "scene"


def bare(board: PegBoard, engine: Planar, release: float) -> int:
    """Run one ball with nothing but Pymunk, until it has been slow for a quarter of a second; return its bin."""
    space = pymunk.Space()
    space.gravity = (0.0, -9.81)
    space.collision_slop = 1e-5
    ground = space.static_body
    width, floor, top = board.half_width, 0.0, board.release_height + board.drop
    shapes: list[pymunk.Shape] = [pymunk.Circle(ground, board.peg_radius, centre) for centre in board.pegs()]
    shapes += [pymunk.Segment(ground, (x, floor), (x, top), 1e-4) for x in (-width, width)]
    for k in range(board.rows):
        x = (k - (board.rows - 1) / 2) * board.spacing
        shapes.append(pymunk.Segment(ground, (x, floor), (x, board.bin_depth), board.peg_radius / 2))
    shapes.append(pymunk.Segment(ground, (-width, floor), (width, floor), 1e-4))
    radius = board.ball_radius
    mass = board.ball_density * 4 / 3 * np.pi * radius**3
    ball = pymunk.Body(mass, 0.4 * mass * radius**2)
    ball.position = (release, board.release_height)
    shapes.append(pymunk.Circle(ball, radius))
    for shape in shapes:
        shape.elasticity, shape.friction = board.restitution**0.5, board.friction**0.5
    space.add(ball, *shapes)
    dt, quiet = 1 / engine.steps_per_second, 0
    for _ in range(round(engine.time_limit / dt)):
        space.step(dt)
        quiet = quiet + 1 if ball.velocity.length < 1e-2 and ball.position.y < board.bin_depth else 0
        if quiet * dt > 0.25:
            break
    return int((ball.position.x + width) // board.spacing)


def main(repeats: int = 5, rollouts: int = 20) -> None:
    """Print rollouts a second of both, and the ratio."""
    for scene in ("pawbench/A22", "calibench/galton_board"):
        config = OmegaConf.load(SCENES / f"{scene}.yaml")
        board, engine = instantiate(config.device, _convert_="all"), instantiate(config.engine)
        release = launch_block(board.random, 0, scene, 0)["release_x"]
        ours, theirs = [], []
        for repeat in range(repeats):
            indices = np.arange(repeat * rollouts, (repeat + 1) * rollouts)
            start = time.perf_counter()
            run(engine, board, 0, scene, indices)
            between = time.perf_counter()
            for index in indices:
                bare(board, engine, float(release[index]))
            ours.append(between - start)
            theirs.append(time.perf_counter() - between)
        mine, other = statistics.median(ours) / rollouts, statistics.median(theirs) / rollouts
        print(
            f"{scene}: ours {1 / mine:.0f}/s, bare Pymunk {1 / other:.0f}/s, ours/bare {other / mine:.2f} at {engine.steps_per_second} Hz"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
