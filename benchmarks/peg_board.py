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
    """Run one ball with nothing but Pymunk, until it has been slow for a quarter of a second; return the steps it took.

    It has no felt, so it rolls for longer than ours.
    """
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
    dt, quiet, steps = 1 / engine.steps_per_second, 0, 0
    while steps * dt < engine.time_limit:
        space.step(dt)
        steps += 1
        quiet = quiet + 1 if ball.velocity.length < 1e-2 and ball.position.y < board.bin_depth else 0
        if quiet * dt > 0.25:
            break
    return steps


def main(repeats: int = 5, rollouts: int = 20) -> None:
    """Print rollouts a second of both, and the ratio."""
    for scene in ("pawbench/A22", "calibench/galton_board"):
        config = OmegaConf.load(SCENES / f"{scene}.yaml")
        board, engine = instantiate(config.device, _convert_="all"), instantiate(config.engine)
        release = launch_block(board.random, 0, scene, 0)["release_x"]
        ours, theirs = [], []  # (seconds, simulated seconds) of each repeat
        for repeat in range(repeats):
            indices = np.arange(repeat * rollouts, (repeat + 1) * rollouts)
            start = time.perf_counter()
            simulated = float(run(engine, board, 0, scene, indices).end.time.sum())
            between = time.perf_counter()
            steps = sum(bare(board, engine, float(release[index])) for index in indices)
            ours.append((between - start, simulated))
            theirs.append((time.perf_counter() - between, steps / engine.steps_per_second))
        print(f"{scene} at {engine.steps_per_second} Hz, per core")
        rates = [
            (statistics.median(rollouts / t for t, _ in x), statistics.median(s / t for t, s in x)) for x in (ours, theirs)
        ]
        for name, (rate, speed) in zip(("ours", "bare Pymunk"), rates, strict=True):
            print(f"  {name}: {rate:.1f} rollouts/s, {speed:.1f} simulated seconds a second")
        print(f"  ours/bare: {rates[0][0] / rates[1][0]:.2f} by rollouts, {rates[0][1] / rates[1][1]:.2f} by simulated time")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
