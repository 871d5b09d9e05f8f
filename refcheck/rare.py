"""Outcomes too rare to count: rollouts from strata of one random variable of the launch, weighted back exactly.

It changes how launches are sampled, never how they run or are read. Owen 2013, Monte Carlo theory, methods and examples,
chapters 8.4 (stratification, Neyman's allocation) and 9 (importance sampling: strata of unequal weight are a proposal that is
constant in each).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.stats
from numpy.random import Generator
from numpy.typing import NDArray

from scenes.scene import Scene
from simulators.device import Device
from simulators.engines.loop import run
from simulators.execute import Pool, run_range
from simulators.rotation import Array
from simulators.sampling import BLOCK, Distribution, launch_block

MIDDLE = 14  # strata of a sixteenth
TAILS = 12  # strata in either tail, each half as wide as the one before: the outermost begin at 2^-16
LEAST = 4  # rollouts in each stratum: none is taken to hold nothing unseen
PILOT = 0.25  # of the rollouts, to find the variable and the shares; half of it each


@dataclass(frozen=True)
class Slice(Distribution):
    """A continuous law cut to its quantiles `low` to `high`, drawn by inversion: exact, and one uniform number a draw."""

    low: float = 0.0
    high: float = 1.0

    def draw(self, rows: int, generator: Generator) -> Array:
        """Return `rows` draws (rows,)."""
        law = getattr(scipy.stats, self.dist)(**dict(self.parameters))
        return np.asarray(law.ppf(self.low + (self.high - self.low) * generator.random(rows)), float)


@dataclass(frozen=True)
class Rare:
    """The probability of `outcome` among all rollouts (nulls too): unbiased, from `n` rollouts in strata of `variable`.

    `error` and `plain_error` are standard errors, of the estimate and of counting as many plain rollouts (pilots included):
    `gain` is the ratio of their squares, how many rollouts counting would take for each one run here.
    """

    outcome: str
    variable: str
    probability: float
    error: float
    plain_error: float
    gain: float
    n: int


def edges() -> NDArray[np.float64]:
    """Return the quantiles (strata + 1,) at which strata meet: sixteenths, and halvings of the outermost two."""
    inner = np.arange(1, MIDDLE + 2) / 16.0
    tail = 2.0 ** -np.arange(4.0 + TAILS, 4.0, -1.0)
    return np.concatenate([[0.0], tail, inner, 1.0 - tail[::-1], [1.0]])


def rare(scene: Scene, outcome: str, n: int, *, seed: int = 0, pool: Pool | None = None) -> Rare:
    """Estimate the probability of `outcome` with about `n` rollouts.

    A pilot of plain rollouts chooses the variable whose strata differ most, a second one in its strata how many rollouts each
    is worth (in proportion to weight times standard deviation); the estimate comes from a third set alone, on launches of its
    own, so that what was chosen cannot bias it. Raises `ValueError` where no continuous scalar variable is there.
    """
    names = [name for name, law in scene.device.random.items() if law.size is None and _is_continuous(law)]
    if not names:
        raise ValueError(f"{scene.id} has no continuous random variable to take strata of")
    label = scene.outcomes.index(outcome)
    some = max(64, int(PILOT * n / 2.0))
    hits = _hits(scene, scene.device, label, seed, some, pool)
    variable = max(names, key=lambda name: _between(scene, name, hits, seed))
    cuts = edges()
    weights = np.diff(cuts)
    few = max(4, some // len(weights))
    seen = np.array([_stratum(scene, variable, cuts, k, label, seed + 1, few, pool).sum() for k in range(len(weights))])
    guessed = _shrunk(seen, np.full(len(weights), few), weights)
    worth = weights * np.sqrt(guessed * (1.0 - guessed))
    sizes = np.maximum(LEAST, np.rint((n - some - few * len(weights)) * worth / worth.sum())).astype(int)
    found = np.array([_stratum(scene, variable, cuts, k, label, seed + 2, int(m), pool).sum() for k, m in enumerate(sizes)])
    probability = float((weights * found / sizes).sum())
    smooth = _shrunk(found, sizes, weights)
    error = math.sqrt(float((weights**2 * smooth * (1.0 - smooth) / sizes).sum()))
    total = int(sizes.sum()) + some + few * len(weights)
    plain = math.sqrt(max(probability, 0.5 / total) * (1.0 - probability) / total)
    return Rare(outcome, variable, probability, error, plain, (plain / error) ** 2, total)


def _shrunk(hits: NDArray[np.int64], sizes: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares (strata,) drawn towards the whole's by one rollout: a stratum without a hit may yet hold some."""
    whole = max(float((weights * hits / sizes).sum()), 1.0 / float(sizes.sum() + 1))
    return np.asarray((hits + whole) / (sizes + 1.0))


def _is_continuous(law: Distribution) -> bool:
    return isinstance(getattr(scipy.stats, law.dist), scipy.stats.rv_continuous)


def _hits(scene: Scene, device: Device, label: int, seed: int, n: int, pool: Pool | None) -> NDArray[np.bool_]:
    if n <= BLOCK:  # a stratum is small: its one block of launches is drawn once
        return np.asarray(scene.outcome(run(scene.integrator, device, seed, scene.stream, range(n)).fact) == label)
    parts = run_range(scene.integrator, device, seed, scene.stream, 0, n, pool)
    return np.concatenate([scene.outcome(part.fact) == label for part in parts])


def _stratum(
    scene: Scene, variable: str, cuts: NDArray[np.float64], k: int, label: int, seed: int, n: int, pool: Pool | None
) -> NDArray[np.bool_]:
    """Return which of `n` rollouts of stratum `k` end in `label`; each stratum has launches of its own."""
    law = scene.device.random[variable]
    cut = Slice(law.dist, law.parameters, float(cuts[k]), float(cuts[k + 1]))
    given = {**scene.device.random, variable: cut}
    device = cast(Device, dataclasses.replace(scene.device, random=given))  # type: ignore[type-var]
    word = np.random.SeedSequence([seed % 2**64, k]).generate_state(1, np.uint64)[0]
    return _hits(scene, device, label, int(word), n, pool)


def _between(scene: Scene, name: str, hits: NDArray[np.bool_], seed: int) -> float:
    """Return how much the shares of hits differ between sixteenths of the variable: chi-square of homogeneity, scaled."""
    n = len(hits)
    law = {name: scene.device.random[name]}
    value = np.concatenate([launch_block(law, seed, scene.stream, block)[name] for block in range(-(-n // BLOCK))])[:n]
    ranks = np.argsort(np.argsort(value, kind="stable"), kind="stable") * 16 // n
    mean = hits.mean()
    return float(sum(len(part) * (part.mean() - mean) ** 2 for part in (hits[ranks == r] for r in range(16)) if len(part)))
