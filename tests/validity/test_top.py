"""The spinning top beside theory: the heavy symmetric top's precession, a free body's invariants, friction's bookkeeping."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from scenes.load import load_scene
from simulators import rotation
from simulators.devices.top import Top
from simulators.kernels.top import Solid, advance, angular_momentum

RATE = 2400  # 1/s


@pytest.fixture(scope="module")
def top() -> Top:
    return load_scene("pawbench/A18").device


def body_at(lean: float, omega: np.ndarray, position: np.ndarray) -> np.ndarray:
    body = np.zeros(13)
    body[:3], body[3:7], body[10:] = position, rotation.about((0.0, 1.0, 0.0), lean), omega
    return body


def march(solid: Solid, body: np.ndarray, steps: int, rate: int = RATE) -> tuple[np.ndarray, np.ndarray]:
    """Return the bodies (steps + 1, 13) and angular momenta (steps + 1, 3) of a march."""
    table, last = np.zeros((6, 14)), np.zeros(6, bool)
    momentum = angular_momentum(solid, body)
    bodies, momenta = [body.copy()], [np.array(momentum)]
    for _ in range(steps):
        momentum = advance(solid, body, momentum, 1.0 / rate, table, last)
        bodies.append(body.copy())
        momenta.append(np.array(momentum))
    return np.array(bodies), np.array(momenta)


@pytest.mark.parametrize("spin", [100.0, 150.0])
def test_it_precesses_as_the_heavy_symmetric_top(top: Top, spin: float) -> None:
    """Steady precession about a tip on a floor without friction: (I1 cos a) W^2 - I3 w W + m g l = 0, the slow root.

    On a smooth floor the centre of mass does not move sideways, and for a steady lean nor up: I1 is the one about the centre.
    """
    smooth = dataclasses.replace(top, friction=0.0, turning_friction=0.0, restitution=0.0, tip_radius=2e-5)
    solid = Solid.of(smooth)
    lean, length = 0.2, -solid.tip
    a, b, c = solid.across * math.cos(lean), solid.axial * spin, solid.mass * 9.81 * length
    rate = (b - math.sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
    axis = np.array([math.sin(lean), 0.0, math.cos(lean)])
    # omega = precession about the vertical, and about the axis what makes the total along it `spin`
    omega = rate * np.array([0.0, 0.0, 1.0]) + (spin - rate * math.cos(lean)) * axis
    bodies, _ = march(solid, body_at(lean, omega, np.array([0.0, 0.0, length * math.cos(lean) + 2e-5])), RATE)
    axes = rotation.rotate(bodies[:, 3:7], (0.0, 0.0, 1.0))
    turned = np.unwrap(np.arctan2(axes[:, 1], axes[:, 0]))[-1]
    assert turned == pytest.approx(rate, rel=0.01)  # in one second
    assert np.all(np.abs(np.arccos(axes[:, 2]) - lean) < 0.01)


def test_in_free_flight_angular_momentum_stays_and_energy_nearly(top: Top) -> None:
    solid = Solid.of(top)
    omega = np.array([12.0, -5.0, 110.0])
    bodies, momenta = march(solid, body_at(0.3, omega, np.array([0.0, 0.0, 10.0])), RATE)
    assert np.array_equal(momenta[0], momenta[-1])
    energy = 0.5 * np.sum(bodies[1:, 10:] * momenta[1:], axis=1)
    assert np.ptp(energy) < 1e-3 * energy[0]


def test_a_sleeping_top_slows_by_its_tips_friction(top: Top) -> None:
    """Upright, friction against spinning alone acts: I3 w' = -f m g."""
    solid = Solid.of(top)
    bodies, _ = march(
        solid, body_at(0.0, np.array([0.0, 0.0, 120.0]), np.array([0.0, 0.0, -solid.tip + solid.tip_radius])), RATE
    )
    expected = 120.0 - top.turning_friction * solid.mass * 9.81 / solid.axial
    assert bodies[-1, 12] == pytest.approx(expected, rel=1e-3)


def test_slow_it_falls_fast_it_sleeps(top: Top) -> None:
    """A heavy top is stable upright above (I3 w)^2 = 4 I1 m g l; on a smooth floor I1 is that about the centre of mass."""
    smooth = dataclasses.replace(top, friction=0.0, turning_friction=0.0, restitution=0.0, tip_radius=2e-5)
    solid = Solid.of(smooth)
    critical = 2.0 * math.sqrt(solid.across * solid.mass * 9.81 * -solid.tip) / solid.axial
    leans = {}
    for share in (0.8, 1.2):
        start = body_at(0.01, share * critical * np.array([math.sin(0.01), 0.0, math.cos(0.01)]), np.zeros(3))
        start[2] = -solid.tip * math.cos(0.01) + 2e-5
        bodies, _ = march(solid, start, RATE)
        leans[share] = float(np.arccos(rotation.rotate(bodies[:, 3:7], (0.0, 0.0, 1.0))[:, 2]).max())
    assert leans[1.2] < 0.05 < 0.3 < leans[0.8]


def test_energy_is_only_ever_lost(top: Top) -> None:
    """Dropped leaning and slow, it falls and rolls: no fortieth of a second gains more than .2 % of the energy at the start."""
    solid = Solid.of(top)
    start = body_at(0.3, np.array([0.0, 0.0, 60.0]), np.array([0.0, 0.0, 0.03]))
    bodies, momenta = march(solid, start, 3 * RATE)
    speed2 = np.sum(bodies[:, 7:10] ** 2, axis=1)
    energy = 0.5 * solid.mass * speed2 + solid.mass * 9.81 * bodies[:, 2] + 0.5 * np.sum(bodies[:, 10:] * momenta, axis=1)
    coarse = energy[::60]
    assert np.all(np.diff(coarse) < 2e-3 * energy[0])
    assert coarse[-1] < 0.5 * energy[0]
