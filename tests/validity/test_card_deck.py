"""Riffle shuffles against the exact theory of Bayer and Diaconis, "Trailing the dovetail shuffle to its lair", 1992."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from scenes.load import load_scene
from simulators.devices.card_deck import CardDeck
from simulators.sampling import Distribution, launch_block

N = 52


def deck(riffles: int) -> CardDeck:
    """The device with a binomial cut: exactly the Gilbert-Shannon-Reeds model."""
    return CardDeck(
        (63e-3, 88e-3),
        0.3e-3,
        riffles,
        {
            "cuts": Distribution.of({"dist": "binom", "n": N, "p": 0.5, "loc": 0, "size": riffles}),
            "drops": Distribution.of({"dist": "uniform", "loc": 0.0, "scale": 1.0, "size": N * riffles}),
        },
    )


def orders(riffles: int, blocks: int, seed: int = 0) -> np.ndarray:
    device = deck(riffles)
    return np.concatenate([device.order(launch_block(device.random, seed, "riffle", b)) for b in range(blocks)])


@cache
def eulerian(n: int) -> tuple[int, ...]:
    """Numbers of permutations of n with r rising sequences, r = 1 to n: exact integers."""
    row = [1]
    for m in range(2, n + 1):
        row = [(k + 1) * (row[k] if k < m - 1 else 0) + (m - k) * (row[k - 1] if k > 0 else 0) for k in range(m)]
    return tuple(row)


def rising_law(riffles: int) -> np.ndarray:
    """P(r rising sequences) after k riffles: C(2^k + n - r, n) / 2^(kn) times the number of such permutations."""
    piles = 2**riffles
    return np.array([comb(piles + N - r, N) * count / piles**N for r, count in enumerate(eulerian(N), 1)])


@pytest.mark.parametrize(("riffles", "published"), [(5, 0.924), (6, 0.614), (7, 0.334), (8, 0.167), (9, 0.085), (10, 0.043)])
def test_the_exact_law_gives_the_published_distances(riffles, published):
    uniform = np.array([float(count) for count in eulerian(N)]) / float(sum(eulerian(N)))
    assert 0.5 * np.abs(rising_law(riffles) - uniform).sum() == pytest.approx(published, abs=6e-4)


@pytest.mark.parametrize("riffles", [1, 3, 5, 7])
def test_rising_sequences_have_the_exact_law(riffles):
    """n = 8,192, seed 0; chi-square at .001, cells pooled to at least 5 expected."""
    place = np.argsort(orders(riffles, 8), axis=1)
    rising = 1 + np.sum(np.diff(place, axis=1) < 0, axis=1)  # a new one where the next card lies above
    expected = rising_law(riffles) * len(rising)
    counts = np.bincount(rising, minlength=N + 1)[1:].astype(float)
    assert counts[expected < 1e-12].sum() == 0
    assert pooled_p(counts, expected) > 1e-3


def pooled_p(counts: np.ndarray, expected: np.ndarray) -> float:
    """Return the chi-square p-value, cells of fewer than 5 expected being one cell."""
    rare = expected < 5.0
    if rare.any():
        counts, expected = np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1e-9 or len(expected) == 1:
        counts, expected = counts[: max(len(expected) - 1, 1)], expected[: max(len(expected) - 1, 1)]
    return 1.0 if len(expected) == 1 else float(chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def top_law(riffles: int) -> np.ndarray:
    """P(the card from position i is on top) after an a-shuffle, a = 2^k.

    Packet j has N_j cards after N_<j others, the sizes being multinomial, and its top card drops last of all with probability
    N_j / n: so P(i) = sum_j P(N_<j = i) E[N_j | N_<j = i] / n with N_<j ~ Bin(n, j/a), N_j then ~ Bin(n - i, 1/(a - j)).
    """
    a, i = 2**riffles, np.arange(N)
    return sum(binom.pmf(i, N, j / a) * (N - i) / (a - j) / N for j in range(a))


@pytest.mark.parametrize("riffles", [1, 2, 7])
def test_the_top_card_has_the_exact_law(riffles):
    """n = 16,384, seed 1; chi-square at .001."""
    top = orders(riffles, 16, seed=1)[:, 0]
    law = top_law(riffles)
    assert law.sum() == pytest.approx(1.0)
    expected, counts = law * len(top), np.bincount(top, minlength=N).astype(float)
    assert counts[expected < 1e-12].sum() == 0
    assert pooled_p(counts, expected) > 1e-3


def test_seven_riffles_leave_the_top_suit_within_a_hundredth_of_its_quarter_and_one_does_not():
    def suits(riffles: int) -> np.ndarray:
        return top_law(riffles).reshape(4, 13).sum(axis=1)

    assert 0.5 * np.abs(suits(7) - 0.25).sum() < 0.01
    assert 0.5 * np.abs(suits(1) - 0.25).sum() == pytest.approx(0.25, abs=1e-3)  # a half spades, no hearts to speak of


def test_the_scene_is_that_shuffle_with_a_hand_that_cuts_by_eye():
    assert load_scene("calibench/cards").device.riffles == 7
