"""What is known of drawing from heaps: mixing takes turns, and a draw from a well mixed heap is one without replacement."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from scenes.load import load_scene
from simulators.engines.loop import run


def early_share(scene, device, seed: int, n: int) -> tuple[float, int]:
    """Share of draws of a ball of the first half of the filling, and how many draws gave a ball."""
    fact = run(scene.kernel, device, seed, "validity", range(n)).fact
    drawn = fact[fact >= 0]
    return float(np.mean(drawn < len(device.filling) // 2)), len(drawn)


def test_a_badly_mixed_urn_keeps_the_order_it_was_filled_in() -> None:
    """Fienberg 1971, of the 1970 draft lottery: capsules poured in by month and barely stirred came out by month.

    Here the drum of twenty, stirred for .3 of a turn: n = 40, seed 1. Were the order lost, chi-square on 19 df would exceed
    its 1e-4 point in 1e-4 of all seeds.
    """
    scene = load_scene("calibench/lottery")
    barely = dataclasses.replace(scene.device, turns=0.3, pause=0.2)
    fact = run(scene.kernel, barely, 1, "validity", range(40)).fact
    counts = np.bincount(fact[fact >= 0], minlength=20)
    assert counts.sum() >= 30
    assert stats.chisquare(counts).pvalue < 1e-4


def test_colors_in_three_to_one_come_out_by_place_not_by_share_without_mixing() -> None:
    """An urn that is not stirred draws its top layer: nine of twelve red give red always, never or in between, not 3/4.

    The box of twelve, not shaken, red wherever the hand may reach: exact, no false alarm.
    """
    scene = load_scene("pawbench/A-13", load_scene("pawbench/A-13").knock_out.overrides)
    device = dataclasses.replace(scene.device, filling=("red",) * 9 + ("blue",) * 3)
    law = dict(scene.device.random)
    still = {
        name: dataclasses.replace(d, parameters=(("loc", 0.0), ("scale", 0.005))) if "reach" in name else d
        for name, d in law.items()
    }
    fact = run(scene.kernel, dataclasses.replace(device, random=still), 0, "validity", range(60)).fact
    assert np.all(fact == 0)


@pytest.mark.slow
def test_a_well_stirred_drum_forgets_which_half_was_poured_in_first() -> None:
    """Ten turns, n = 400, seed 2: balls 1 to 10 come out in half the draws, within 4 standard errors: false alarms 6.4e-5."""
    scene = load_scene("calibench/lottery")
    share, n = early_share(scene, scene.device, 2, 400)
    assert n > 390
    assert abs(share - 0.5) < 4 * np.sqrt(0.25 / n)
