"""What is known of peg boards, held against the kernel: free fall, symmetry, momentum that persists, elastic boards."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.stats

from scenes.load import load_scene
from simulators import rotation
from simulators.device import IntArray, State
from simulators.devices.peg_board import PegBoard
from simulators.devices.regions import Region, read_regions
from simulators.engines.loop import run
from simulators.kernels.planar_ball import PlanarBall
from simulators.rotation import Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Cylinder, Part, Sphere, Surface, World

KERNEL = PlanarBall(4800, 12.0)
G = 9.81


def board(id: str) -> PegBoard:
    return load_scene(id).device


@pytest.mark.parametrize("id", ["pawbench/A22", "pawbench/A-05"])
def test_the_ball_falls_freely_to_the_first_peg(id):
    """Galilei: z = g t^2 / 2, exactly, until the ball is at the peg; n = 32, seed 1."""
    device = board(id)
    for frames in run(KERNEL, device, 1, "fall", range(32), fps=480.0).trajectories:
        fall = device.release_height - frames.pos[:, 0, 2]
        x0 = frames.pos[frames.time <= 0.0][-1, 0, 0]
        reach = math.sqrt((device.ball_radius + device.peg_radius) ** 2 - x0**2)
        before = (frames.time >= 0.0) & (frames.time < math.sqrt(2.0 * (device.drop - reach) / G))
        assert before.sum() > 10
        np.testing.assert_allclose(fall[before], G * frames.time[before] ** 2 / 2.0, atol=1e-12)


@pytest.mark.parametrize(
    "id", ["pawbench/A22", "pawbench/A-05", pytest.param("calibench/galton_board", marks=pytest.mark.slow)]
)
def test_left_and_right_are_equally_likely(id):
    """Symmetry: a centred, mirror-symmetric board has a mirror-symmetric distribution.

    n = 20,000, seed 2: chi-square of each bin against its mirror image; false alarm 1e-3 a board.
    """
    device = board(id)
    fact = run(KERNEL, device, 2, "sides", range(20_000)).fact
    counts = np.bincount(fact[fact >= 0], minlength=device.rows + 1)
    pairs = [(counts[k], counts[-1 - k]) for k in range(len(counts) // 2)]
    chi = sum((a - b) ** 2 / (a + b) for a, b in pairs if a + b)
    assert scipy.stats.chi2.sf(chi, len(pairs)) > 1e-3


def persistent_walk(steps: int, rho: float) -> Array:
    """Shares of the end places of a fair walk whose next step equals the last one with probability (1 + rho) / 2, exactly."""
    at = {(1, 1): 0.5, (-1, -1): 0.5}
    for _ in range(steps - 1):
        following: dict[tuple[int, int], float] = {}
        for (place, last), share in at.items():
            for step, part in ((last, (1.0 + rho) / 2.0), (-last, (1.0 - rho) / 2.0)):
                following[place + step, step] = following.get((place + step, step), 0.0) + share * part
        at = following
    shares = np.zeros(steps + 1)
    for (place, _), share in at.items():
        shares[(place + steps) // 2] += share
    return shares


def variance(steps: int, rho: float) -> float:
    """Var(sum of the steps) / steps of a walk with lag-1 correlation `rho`."""
    return (1.0 + rho) / (1.0 - rho) - 2.0 * rho * (1.0 - rho**steps) / (steps * (1.0 - rho) ** 2)


def distance_from_binomial(shares: Array) -> float:
    rows = len(shares) - 1
    return 0.5 * float(np.abs(shares - scipy.stats.binom.pmf(range(rows + 1), rows, 0.5)).sum())


@pytest.mark.parametrize(
    ("rho", "spread", "far"), [(0.1, 1.202, 0.048), (0.2, 1.448, 0.095), (0.3, 1.755, 0.143), (-0.1, 0.832, 0.049)]
)
def test_the_walk_that_boards_are_held_to(rho, spread, far):
    """Twelve correlated steps: Var/n = (1 + rho)/(1 - rho) - 2 rho (1 - rho^n)/(n (1 - rho)^2), and a Markov walk's TVD."""
    shares = persistent_walk(12, rho)
    assert variance(12, rho) == pytest.approx(spread, abs=5e-4)
    assert (shares * (2.0 * np.arange(13) - 12.0) ** 2).sum() / 12.0 == pytest.approx(variance(12, rho), rel=1e-12)
    assert distance_from_binomial(shares) == pytest.approx(far, abs=5e-4)


def lanes(device: PegBoard, frames: State) -> Array:
    """Return the lanes between pegs through which the ball last crossed each row, in half spacings (rows + 1,)."""
    x, z = frames.pos[:, 0, 0], frames.pos[:, 0, 2]
    found = [0.0]
    for row in range(device.rows):
        height = device.row_height(row)
        k = int(np.flatnonzero((z[:-1] > height) & (z[1:] <= height))[-1])
        share = (z[k] - height) / (z[k] - z[k + 1])
        place = (x[k] + share * (x[k + 1] - x[k])) / device.spacing
        shift = (row % 2) / 2.0  # pegs of even rows lie at whole spacings, of odd ones at halves
        found.append(2.0 * (math.floor(place + shift) + 0.5 - shift))
    return np.array(found)


def test_a_boards_own_correlation_predicts_its_spread_and_its_distance():
    """Momentum persists: the lag-1 correlation of a board's steps gives its variance and its TVD from the binomial.

    calibench/galton_board, n = 1,000 with frames, 10,000 without (seed 3): rho .386 says Var/n 2.05
    and TVD .192; the board has 2.03 and .172.
    Standard errors: rho .01, hence Var/n .04 (2 %); Var/n measured 5 %; so 15 % has a false alarm below 1e-2 were they
    independent, and .05 in TVD is 4 standard errors. Steps over two lanes (1.6 %) and the walls are what the walk leaves out.
    """
    device = board("calibench/galton_board")
    rollouts = run(KERNEL, device, 3, "steps", range(1000), fps=240.0)
    steps = np.diff([lanes(device, frames) for frames in rollouts.trajectories], axis=1)
    assert (np.abs(steps) == 1.0).mean() > 0.97
    rho = float((steps[:, 1:] * steps[:, :-1]).mean() / (steps**2).mean())
    assert 0.3 < rho < 0.45  # far from the independent rows of the binomial
    fact = run(KERNEL, device, 3, "steps", range(10_000)).fact
    assert 4.0 * fact.var() / device.rows == pytest.approx(variance(device.rows, rho), rel=0.15)
    shares = np.bincount(fact[fact >= 0], minlength=device.rows + 1) / len(fact)
    assert distance_from_binomial(shares) == pytest.approx(distance_from_binomial(persistent_walk(device.rows, rho)), abs=0.05)


@dataclass(frozen=True)
class Elastic:
    """A ball that falls for ever through a staggered lattice without loss: restitution 1, no friction.

    Two smooth walls on mirror lines of the lattice stand in for a board without end: unfolded, it is one. Pegs (with the ball)
    take .46 of the distance between pegs: no straight line misses them all (finite horizon, .433 for a triangular lattice).
    """

    random: dict[str, Distribution] = field(
        default_factory=lambda: {"release_x": Distribution.of({"dist": "uniform", "loc": -0.01, "scale": 0.02})}
    )
    readout: str = "last"
    end_time: float = 128.0

    facts: ClassVar[tuple[str, ...]] = ("fallen",)
    ball: ClassVar[float] = 0.01
    peg: ClassVar[float] = 0.0043
    spacing: ClassVar[float] = 0.0311
    rows: ClassVar[int] = 400

    def world(self) -> World:
        turn: Any = tuple(rotation.about((1.0, 0.0, 0.0), math.pi / 2.0).tolist())
        pegs = []
        for row in range(self.rows):
            z = -row * self.spacing * math.sqrt(0.75)
            pegs += [
                Part(Cylinder(self.peg, 1.0), (column * self.spacing, 0.0, z), turn)
                for column in np.arange(-2.0, 2.5) + 0.5 * (row % 2)
            ]
        wall = 2.0 * self.spacing + self.ball  # the ball's centre turns on the mirror line
        depth = self.rows * self.spacing
        sides = [Part(Box((0.1, 1.0, 2.0 * depth)), (side * (wall + 0.05), 0.0, -0.9 * depth)) for side in (-1, 1)]
        smooth = Surface(1.0, 0.0)
        falling = Body("ball", (Part(Sphere(self.ball)),), 0.01, (0.25 * self.spacing, 0.0, 0.03), surface=smooth)
        return World(
            (falling, Body("lattice", (*pegs, *sides), surface=smooth)),
            ((-1.0, -1.0, -2.0 * depth), (1.0, 1.0, 1.0)),
            planar=True,
        )

    def start(self, launch: dict[str, Array]) -> State:
        pos = np.zeros((len(launch["release_x"]), 1, 3))
        pos[:, 0, 0] = launch["release_x"]
        return State.at_release(self.world(), len(pos), pos=pos)

    def regions(self) -> tuple[Region, ...]:
        return (Region(0, -1.0, 1.0, -100.0, 1.0),)

    def read(self, state: State) -> IntArray:
        return read_regions(self.regions(), state.pos[:, 0, 0], state.pos[:, 0, 2])


@pytest.mark.slow
def test_on_an_elastic_board_depth_grows_as_time_to_two_thirds():
    """Chernov and Dolgopyat 2009 (Galton board without loss): speed grows as t^(1/3), so depth as t^(2/3).

    n = 96, seed 0, mean speed and depth at 4 to 128 s (mean free times are some 20 ms): the slopes in logarithms. Seeds 0, 1, 2
    gave .366, .369, .390 and .70, .72, .74: above the limit, and far from diffusion (1/2) and from a steady fall (1).
    """
    rollouts = run(replace(KERNEL, time_limit=200.0), Elastic(), 0, "elastic", range(96), fps=0.25)
    assert not rollouts.null.any()
    times = 4.0 * 2.0 ** np.arange(6)
    frames = [t[(times / 4.0).astype(int)] for t in rollouts.trajectories]
    fallen = np.array([0.03 - f.pos[:, 0, 2] for f in frames])
    speed = np.array([np.linalg.norm(f.vel[:, 0], axis=-1) for f in frames])
    np.testing.assert_allclose(0.5 * speed**2, G * fallen, rtol=1e-6)
    assert fallen.max() < Elastic.rows * Elastic.spacing * 0.8
    growth = [float(np.polyfit(np.log(times), np.log(x.mean(axis=0)), 1)[0]) for x in (speed, fallen)]
    assert growth == pytest.approx([1.0 / 3.0, 2.0 / 3.0], abs=0.08)
