"""The one sampler of launches: declared distributions, counter-based streams, blocks of 1024.

A value depends on (seed, stream, variable name, index) and nothing else: not on the batch, the worker, the order, or
which other variables are declared. It refuses to know what a launch will lead to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import scipy.stats
from numpy.random import Generator, Philox

from simulators.rotation import Array

BLOCK = 1024  # part of the format: changing it changes every launch ever drawn
VALUES, ACT = 0, 1


@dataclass(frozen=True)
class Distribution:
    """A distribution of `scipy.stats` by its name, with its own parameters, in the units of what it stands for.

    A parameter `size` is ours: a vector of that many independent values.

    >>> Distribution.of({"dist": "norm", "loc": 0.0, "scale": 0.5e-3})
    Distribution(dist='norm', parameters=(('loc', 0.0), ('scale', 0.0005)))
    """

    dist: str
    parameters: tuple[tuple[str, float | tuple[float, ...]], ...] = ()

    def __post_init__(self) -> None:
        family = getattr(scipy.stats, self.dist, None)
        if self.dist.startswith("_") or isinstance(family, type) or not hasattr(family, "rvs"):  # a type is scipy's own base
            raise ValueError(f"`dist` must be the name of a scipy.stats distribution, got {self.dist!r}")
        try:
            sample = self.draw(4, Generator(Philox(0)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"scipy.stats.{self.dist} refuses {dict(self.parameters)}: {error}") from error
        if sample.ndim not in (1, 2) or not np.all(np.isfinite(sample)):
            raise ValueError(f"scipy.stats.{self.dist} with {dict(self.parameters)} does not give finite numbers or vectors")

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Distribution:
        """Build from a config such as `{dist: norm, loc: 0, scale: 0.5e-3}`. Raises `ValueError`."""
        rest = {key: tuple(v) if isinstance(v, (list, tuple)) else v for key, v in config.items() if key != "dist"}
        return cls(str(config.get("dist", "")), tuple(sorted(rest.items())))  # type: ignore[arg-type]

    @property
    def size(self) -> int | None:
        """How many independent values make one draw; None for what the law itself gives."""
        size = dict(self.parameters).get("size")
        return None if size is None else int(size)  # type: ignore[arg-type]

    def draw(self, rows: int, generator: Generator) -> Array:
        """Return `rows` draws, (rows,), or (rows, d) of a vector."""
        shape = rows if self.size is None else (rows, self.size)
        return np.asarray(_frozen(self).rvs(size=shape, random_state=generator), float)

    @property
    def is_discrete(self) -> bool:
        """Whether only countably many values can come out."""
        return isinstance(getattr(scipy.stats, self.dist), scipy.stats.rv_discrete)

    def mean(self) -> Array:
        """Return the mean (), or (d,) of a vector."""
        given = dict(self.parameters)
        if given.get("scale") == 0.0:  # a point, whose mean scipy gives as NaN
            return np.asarray(given.get("loc", 0.0), float)
        mean = _frozen(self).mean
        value = np.asarray(mean() if callable(mean) else mean, float)
        return value if self.size is None else np.full(self.size, value)


@lru_cache(maxsize=256)
def _frozen(distribution: Distribution):  # scipy's frozen classes share no public base
    given = {name: value for name, value in distribution.parameters if name != "size"}
    return getattr(scipy.stats, distribution.dist)(**given)


def check_seed(seed: int) -> int:
    """Return `seed` if it is an unsigned 64-bit integer; raise `ValueError` otherwise. 0 is a seed."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"`seed` must be an integer from 0 to 2**64 - 1, got {seed!r}")
    return int(seed)


def generator(seed: int, stream: str, name: str, number: int, kind: int) -> Generator:
    """Return the generator of variable `name` in block `number` (kind 0), or of `act` in rollout `number` (kind 1)."""
    word = int.from_bytes(blake2b(f"{stream}/{name}".encode(), digest_size=8).digest(), "little")
    key = np.array([check_seed(seed), word], np.uint64)  # a list would pass through float64 and lose bits
    return Generator(Philox(key=key, counter=np.array([0, 0, number, kind], np.uint64)))


def launch_block(random: Mapping[str, Distribution], seed: int, stream: str, block: int) -> dict[str, Array]:
    """Draw the whole block of launches `block * 1024` onwards: each variable (1024,), or (1024, d) for a vector."""
    return {name: law.draw(BLOCK, generator(seed, stream, name, block, VALUES)) for name, law in random.items()}


def nominal_launch(random: Mapping[str, Distribution], rows: int = 1) -> dict[str, Array]:
    """Return launches at every variable's mean: what the picture shows, and what zero noise would do."""
    return {name: np.repeat(law.mean()[None], rows, axis=0) for name, law in random.items()}
