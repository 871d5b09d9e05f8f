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
    scene = load_scene("pawbench/A-13", ("scene.device.amplitude=0",))
    device = dataclasses.replace(scene.device, filling=("red",) * 9 + ("blue",) * 3)
    law = dict(scene.device.random)
    still = {
        name: dataclasses.replace(d, parameters=(("loc", 0.0), ("scale", 0.005))) if "reach" in name else d
        for name, d in law.items()
    }
    fact = run(scene.kernel, dataclasses.replace(device, random=still), 0, "validity", range(60)).fact
    assert np.all(fact == 0)


@pytest.mark.slow
def test_ten_turns_lose_most_but_not_all_of_the_order_of_filling() -> None:
    """Balls 1 to 10 come out in .39 of n = 400 (seed 2) where forgetting would give half, and an unstirred drum all or none.

    .2 from a half is 8 standard errors: a share that is .39 gets there in under 1e-3 of all seeds.
    """
    scene = load_scene("calibench/lottery")
    share, n = early_share(scene, scene.device, 2, 400)
    assert n > 390
    assert abs(share - 0.5) < 0.2


@pytest.mark.slow
def test_three_to_one_in_a_well_stirred_drum_comes_out_as_three_to_one() -> None:
    """Fifteen red and five blue, every fourth one blue, ten turns: red in 3/4 of n = 400 (seed 3).

    Within 4 standard errors (.087): false alarms 6.4e-5. By place or layer a drum could give any share.
    """
    scene = load_scene("calibench/lottery")
    colors = {"red": (0.8, 0.1, 0.1), "blue": (0.1, 0.3, 0.8)}
    device = dataclasses.replace(scene.device, filling=("red", "red", "red", "blue") * 5, colors=colors)
    fact = run(scene.kernel, device, 3, "validity", range(400)).fact
    assert abs(np.mean(fact[fact >= 0] == 0) - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 400)


def test_draws_without_replacement_need_the_corrected_chi_square() -> None:
    """Genest, Lockhart and Stephens 2002: X^2 (N-1)/(N-k) ~ chi2(N-1) for k of N without replacement; plain X^2 is not.

    Made urns, no physics: D = 300 draws of 6 of 20, 400 times, seed 4. The mean of the corrected statistic is 19 within
    4 standard errors (4 sqrt(38/400) = 1.23): false alarms 6.4e-5; the plain one's is 14, further away than that.
    """
    rng, d, k, n = np.random.default_rng(4), 300, 6, 20
    plain = []
    for _ in range(400):
        counts = np.bincount(np.argsort(rng.random((d, n)), axis=1)[:, :k].ravel(), minlength=n)
        plain.append(np.sum((counts - d * k / n) ** 2) / (d * k / n))
    assert abs(np.mean(plain) * (n - 1) / (n - k) - (n - 1)) < 1.23 < abs(np.mean(plain) - (n - 1))
