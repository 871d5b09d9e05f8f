"""What is known of wheels, held against the spinner's kernel: how wide a push must be for the angle to be uniform."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats

from scenes.load import load_scene
from simulators.devices.spinner import Spinner
from simulators.engines.loop import run
from simulators.kernels.spinner import SpinnerKernel
from simulators.sampling import Distribution

KERNEL = SpinnerKernel(120.0)
N = 20_000
FAST = 60.0  # rad/s: its spread is narrow beside it, so that the stopping angle is as good as normal


@pytest.fixture(scope="module")
def spinner() -> Spinner:
    return load_scene("pawbench/A-03").device


def turns(spinner: Spinner, sd: float) -> tuple[Spinner, float]:
    """Return a wheel without drag whose stopping angle has this sd [turns], and its mean [turns]: w^2 / (4 pi a)."""
    spread, a = 0.4, FAST * 0.4 / (2.0 * math.pi * sd)
    law = Distribution.of({"dist": "norm", "loc": FAST, "scale": spread})
    wheel = dataclasses.replace(spinner, drag=0.0, friction=a, random={"speed": law})
    return wheel, (FAST**2 + spread**2) / (4.0 * math.pi * a)


def stopped(wheel: Spinner, seed: int) -> np.ndarray:
    """The angles [turns, modulo 1] that n wheels went through, clockwise."""
    x, y, z, w = run(KERNEL, wheel, seed, "validity", range(N)).end.quat[:, 0].T
    angle = np.arctan2(2.0 * (x * z - w * y), 1.0 - 2.0 * (y * y + z * z))
    return np.mod((wheel.phase_at_release - angle) / (2.0 * math.pi), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("sd", "published"), [(0.2, 0.290), (0.3, 0.1077), (0.5, 0.0046)])
def test_the_distance_from_uniform_is_that_of_a_wrapped_normal(spinner: Spinner, sd: float, published: float) -> None:
    """TV(X mod 1, uniform) is about (2/pi) exp(-2 pi^2 s^2) for a normal X: the better half of the wheel has 1/2 + TV.

    n = 20,000, seed 1; 4 standard errors, false-alarm rate 6e-5 a case. And TV <= V(f)/8 (Hopf; Engel 1992).
    """
    wheel, mean = turns(spinner, sd)
    away = np.mod(stopped(wheel, 1) - mean + 0.5, 1.0) - 0.5
    distance = np.mean(np.abs(away) < 0.25) - 0.5
    error = 4.0 * 0.5 / math.sqrt(N)
    assert distance == pytest.approx(published, abs=error + 0.0005)
    edges = np.arange(-20, 21)
    exact = float(np.sum(scipy.stats.norm.cdf((edges + 0.25) / sd) - scipy.stats.norm.cdf((edges - 0.25) / sd))) - 0.5
    assert exact == pytest.approx(published, abs=0.006) and distance == pytest.approx(exact, abs=error + 0.001)
    assert distance - error < 2.0 / (sd * math.sqrt(2.0 * math.pi)) / 8.0


@pytest.mark.slow
def test_a_weak_spin_is_not_uniform(spinner: Spinner) -> None:
    """Pushes of 3 +- .3 rad/s: a fourteenth of a turn (sd), so nearly all stop in half of the wheel. n = 20,000, seed 2."""
    law = Distribution.of({"dist": "norm", "loc": 3.0, "scale": 0.3})
    weak = dataclasses.replace(spinner, random={"speed": law})
    angle = stopped(weak, 2)
    centre = np.angle(np.mean(np.exp(2j * math.pi * angle))) / (2.0 * math.pi)
    assert np.mean(np.abs(np.mod(angle - centre + 0.5, 1.0) - 0.5) < 0.25) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 2.0), (1.0, 11.0)])
def test_a_wide_spin_gives_a_sector_its_share(spinner: Spinner, weights: tuple[float, float]) -> None:
    """Equal or not (Engel 1992). The push of pawbench/A-03 spreads the stop by 1.7 turns; n = 20,000, seed 3.

    4 standard errors: false-alarm rate 6e-5 a case.
    """
    fact = run(KERNEL, dataclasses.replace(spinner, weights=weights), 3, "validity", range(N)).fact
    share = weights[0] / sum(weights)
    assert np.mean(fact[fact >= 0] == 0) == pytest.approx(share, abs=4.0 * math.sqrt(share * (1.0 - share) / N))
