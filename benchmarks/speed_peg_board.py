"""Peg boards by their kernel beside the shortest plain Pymunk loop of the same board."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pymunk

from benchmarks.compare import Comparison, Ends
from scenes.load import load_scene
from simulators.devices.peg_board import PegBoard
from simulators.sampling import launch_block

# 1/s: a single peg is as good at 240; what boards of several rows give still changes between 3840 and 7680, so that 4800 is
# kind to the loop.
RATES = {"pawbench/A-05": 240, "pawbench/A22": 4800, "calibench/galton_board": 4800}
LIMIT = 12.0  # s
PEER = "Pymunk with circles and segments at 1/{} s, until the ball is below the tops of the dividers"


def plain(scene_id: str) -> Callable[[int, int], Ends]:
    """Return a function that drops n balls on the scene's board with nothing but Pymunk.

    It stops where the bin is known; ours goes on until the ball lies still.
    """
    scene = load_scene(scene_id)
    board = scene.device
    release = launch_block(board.random, 0, scene.stream, 0)["release_x"]

    def drop(n: int, rate: int) -> Ends:
        return [_drop_one(board, board.offset + float(release[row]), rate) for row in np.arange(n) % len(release)]

    return drop


def _drop_one(board: PegBoard, x: float, rate: int) -> tuple[int, float]:
    space = pymunk.Space()
    space.gravity = (0.0, -9.81)
    space.collision_slop = 1e-5  # the default is a tenth of a metre
    ground = space.static_body
    width, top, thick = board.half_width, board.release_height + board.drop, board.peg_radius / 2
    shapes: list[pymunk.Shape] = [pymunk.Circle(ground, board.peg_radius, centre) for centre in board.pegs()]
    shapes += [pymunk.Segment(ground, (side, 0.0), (side, top), 1e-4) for side in (-width, width)]
    for k in range(board.rows):
        middle = (k - (board.rows - 1) / 2) * board.spacing
        shapes.append(pymunk.Segment(ground, (middle, 0.0), (middle, board.bin_depth - thick), thick))
    shapes.append(pymunk.Segment(ground, (-width, 0.0), (width, 0.0), 1e-4))
    radius = board.ball_radius
    mass = board.ball_density * 4 / 3 * np.pi * radius**3
    ball = pymunk.Body(mass, 0.4 * mass * radius**2)
    ball.position = (x, board.release_height)
    shapes.append(pymunk.Circle(ball, radius))
    for shape in shapes:
        shape.elasticity, shape.friction = board.restitution**0.5, board.friction**0.5
    space.add(ball, *shapes)
    steps = 0
    while steps < LIMIT * rate and ball.position.y > board.bin_depth - radius:
        space.step(1 / rate)
        steps += 1
    bin_number = math.floor(ball.position.x / board.spacing + (board.rows + 1) / 2)
    return bin_number if ball.position.y <= board.bin_depth - radius else -1, steps / rate


COMPARISONS = tuple(
    Comparison(scene, PEER.format(RATES[scene]), plain(scene), RATES[scene], rollouts, 100.0)
    for scene, rollouts in (("pawbench/A-05", 1000), ("pawbench/A22", 100), ("calibench/galton_board", 50))
)
