"""The roulette wheel beside what is published of real ones: the rim, a tilted table, the strength that uniformity needs."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numba import njit
from scipy.integrate import solve_ivp
from scipy.stats import chisquare

from scenes.load import load_scene
from simulators.devices.roulette import Roulette
from simulators.engines.loop import run
from simulators.kernels.roulette_rim import Wheel, rim_step, wall_push
from simulators.sampling import Distribution


@pytest.fixture(scope="module")
def scene():
    return load_scene("calibench/roulette")


def law(mean: float, sd: float = 0.0) -> Distribution:
    return Distribution.of({"dist": "norm", "loc": mean, "scale": sd})


@njit
def leave(wheel, azimuth, v):
    while wall_push(wheel, azimuth, v) > 0.0:
        azimuth, v = rim_step(wheel, azimuth, v, 1.0 / 240.0)
    return azimuth


def empty_part(device: Roulette, degrees: float) -> float:
    """Return the part of the rim, in 36 pieces, that no ball of 2,000 speeds over 1.0 to 1.6 m/s leaves from."""
    wheel = Wheel.of(dataclasses.replace(device, tilt=math.radians(degrees)))
    azimuths = np.array([leave(wheel, device.entrance, -float(v)) for v in np.linspace(1.0, 1.6, 2000)])
    return float(np.mean(np.bincount((np.mod(azimuths, 2 * math.pi) * 18 / math.pi).astype(int), minlength=36) == 0))


def test_without_losses_but_air_the_rim_slows_as_in_closed_form(scene) -> None:
    """v' = -k v^2 / M alone (Small and Tse 2012, arXiv 1204.6412): 1/v grows linearly in time."""
    smooth = dataclasses.replace(scene.device, rolling_friction=0.0)
    wheel = Wheel.of(smooth)
    lean = (1.0 - math.sin(smooth.slope)) / math.cos(smooth.slope)
    rate = wheel.drag / (1.0 + 0.4 * (1.0 + lean**2))
    azimuth, v = 0.0, -2.0
    for _ in range(300):
        azimuth, v = rim_step(wheel, azimuth, v, 1.0 / 60.0)
    assert -v == pytest.approx(1.0 / (1.0 / 2.0 + rate * 5.0), rel=1e-9)
    assert -azimuth == pytest.approx(math.log(1.0 + 2.0 * rate * 5.0) / rate / smooth.track_radius, rel=1e-9)


def test_a_tilted_rim_conserves_energy_without_losses(scene) -> None:
    """Rolling on a tilted circle trades speed for height: M v^2/2 + g r sin(tilt) cos(azimuth) stays, by an ODE solver too."""
    tilted = dataclasses.replace(scene.device, rolling_friction=0.0, tilt=0.02, tilt_towards=0.5)
    wheel = Wheel.of(tilted)._replace(drag=0.0)
    lean = (1.0 - math.sin(tilted.slope)) / math.cos(tilted.slope)
    inertia = 1.0 + 0.4 * (1.0 + lean**2)

    def energy(azimuth: float, v: float) -> float:
        return inertia * v * v / 2.0 - 9.81 * math.sin(0.02) * tilted.track_radius * math.cos(azimuth - 0.5)

    azimuth, v = 0.0, -2.0
    for _ in range(300):
        azimuth, v = rim_step(wheel, azimuth, v, 1.0 / 60.0)
    assert energy(azimuth, v) == pytest.approx(energy(0.0, -2.0), rel=1e-6)
    along = lambda _, y: [y[1] / tilted.track_radius, -9.81 * math.sin(0.02) * math.sin(y[0] - 0.5) / inertia]  # noqa: E731
    solved = solve_ivp(along, (0.0, 5.0), [0.0, -2.0], rtol=1e-10, atol=1e-12)
    assert azimuth == pytest.approx(solved.y[0, -1], abs=1e-4)


def test_a_ball_leaves_the_rim_where_gravity_beats_the_wall(scene) -> None:
    """v^2/R = g tan(slope) for a ball that does not turn (Eichberger 2004; Small and Tse 2012); the turning lowers it.

    Its angular momentum must turn with the circle, at F = 2/5 l v^2/R across the motion: v^2/R (1 + 2/5 l/cos s) = g tan s.
    """
    device = scene.device
    lean = (1.0 - math.sin(device.slope)) / math.cos(device.slope)
    critical = math.sqrt(device.track_radius * 9.81 * math.tan(device.slope) / (1.0 + 0.4 * lean / math.cos(device.slope)))
    wheel = Wheel.of(device)
    assert wall_push(wheel, 0.3, 1.001 * critical) > 0.0 > wall_push(wheel, 0.3, 0.999 * critical)


def test_a_tilt_of_a_fifth_of_a_degree_forbids_part_of_the_rim(scene) -> None:
    """Thorp: a tilt of .2 degrees forbids a quarter to a third of the rim; it takes a rim as smooth as a casino's.

    A ball leaves everywhere where losses lower the wall's push faster, in a radian, than the tilt raises it. A rolling friction
    of .02 mm forbids Thorp's part; the .1 mm of our small wheel, whose ball stops within seconds, forbids none.
    """
    smooth = dataclasses.replace(scene.device, rolling_friction=2e-5)
    assert empty_part(smooth, 0.0) == 0.0
    assert 0.2 < empty_part(smooth, 0.2) < 0.4
    assert empty_part(scene.device, 0.2) == 0.0


@pytest.mark.slow
def test_strong_launches_are_uniform_over_pockets_and_weak_ones_not(scene) -> None:
    """Arbitrary functions (Hopf): the spread of the launch decides. n = 10,000 strong, 1,000 weak; false-alarm rate 1e-4."""
    strong = run(scene.kernel, scene.device, 11, scene.stream, range(10_000)).fact
    assert chisquare(np.bincount(strong[strong >= 0], minlength=37)).pvalue > 1e-4
    tight = {"ball_speed": law(0.85, 0.01), "rotor_speed": law(1.6, 0.01)}
    weak = run(scene.kernel, dataclasses.replace(scene.device, random=tight), 11, scene.stream, range(1000)).fact
    assert chisquare(np.bincount(weak[weak >= 0], minlength=37)).pvalue < 1e-9
