"""How much of the outcome can be read off the launch before anything happens, and off the picture it starts from.

A simple classifier on simulated launches: what it finds is there, what it does not find may still be. It knows no reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from scenes import frame0
from scenes.scene import Scene
from simulators.rotation import Array
from simulators.sampling import BLOCK, launch_block

FOLDS = 5
TREES = 200
LEAF = 5  # launches: the least that a leaf may hold, so that its shares are no mere memory
WIDEST = 64  # numbers of one random variable: more (a shuffle's cuts) are its first ones


@dataclass(frozen=True)
class Guess:
    """How often the outcome is guessed right from some numbers, cross-validated, and the bits it is known by.

    `accuracy` with its standard error; `bits`: entropy of the outcomes less the guesses' mean log loss, at least 0.
    """

    accuracy: float
    error: float
    bits: float
    numbers: int


@dataclass(frozen=True)
class Predictability:
    """Over `n` rollouts with an outcome. `majority`: the share of the most frequent one, what a guess without any look gets.

    `frame0`: from where everything stands in frame 0, exactly, which no picture shows so well; `launch`: from every random
    variable too. `entropy` [bits] is the outcomes' own.
    """

    n: int
    majority: float
    entropy: float
    frame0: Guess
    launch: Guess

    def said(self) -> str:
        """Return it as a sentence."""
        return (
            f"guessing blind is right {self.majority:.3f} of the time; off frame 0 (exact poses) {_told(self.frame0)}; off the "
            f"whole launch {_told(self.launch)}, of {self.entropy:.2f} bits that the outcome has (n = {self.n}, "
            "cross-validated trees: at least so much is there)"
        )


def _told(guess: Guess) -> str:
    return f"{guess.accuracy:.3f} +- {guess.error:.3f} ({guess.bits:.2f} bits)"


def predictability(scene: Scene, outcome: NDArray[np.integer], seed: int) -> Predictability | None:
    """Return what the launches 0 to n of `scene` tell of their outcomes (n,); None where fewer than two outcomes came often.

    An outcome that came fewer than `FOLDS` times is left out: no fold could learn it.
    """
    launch, start = _numbers(scene, len(outcome), seed)
    counts = np.bincount(outcome[outcome >= 0], minlength=len(scene.outcomes))
    kept = (outcome >= 0) & np.isin(outcome, np.flatnonzero(counts >= FOLDS))
    y = outcome[kept]
    if len(np.unique(y)) < 2:
        return None
    shares = np.bincount(y) / len(y)
    entropy = float(-np.sum(shares[shares > 0] * np.log2(shares[shares > 0])))
    return Predictability(
        n=len(y),
        majority=float(shares.max()),
        entropy=entropy,
        frame0=_guess(start[kept], y, entropy, seed),
        launch=_guess(np.hstack([start, launch])[kept], y, entropy, seed),
    )


def _numbers(scene: Scene, n: int, seed: int) -> tuple[Array, Array]:
    """Return the random variables (n, d) of the launches, and the poses (n, m) of all that moves as frame 0 has them."""
    values, poses = [], []
    world = scene.device.world()
    for block in range(-(-n // BLOCK)):
        launch: Mapping[str, Array] = launch_block(scene.device.random, seed, scene.stream, block)
        start = scene.device.start(launch)
        pos, quat = frame0.as_seen(world, start.pos, start.quat)
        values.append(np.column_stack([value.reshape(BLOCK, -1)[:, :WIDEST] for value in launch.values()]))
        poses.append(np.column_stack([pos.reshape(BLOCK, -1), quat.reshape(BLOCK, -1)]))
    return np.concatenate(values)[:n], np.concatenate(poses)[:n]


def _guess(numbers: Array, y: NDArray[np.integer], entropy: float, seed: int) -> Guess:
    varying = numbers[:, np.ptp(numbers, axis=0) > 0.0]
    majority = float(np.bincount(y).max() / len(y))
    if varying.shape[1] == 0:
        return Guess(majority, math.sqrt(majority * (1.0 - majority) / len(y)), 0.0, 0)
    trees = ExtraTreesClassifier(TREES, min_samples_leaf=LEAF, random_state=seed % 2**32, n_jobs=1)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed % 2**32)
    probability = cross_val_predict(trees, varying, y, cv=folds, method="predict_proba")
    classes = np.unique(y)
    right = classes[probability.argmax(axis=1)] == y
    own = probability[np.arange(len(y)), np.searchsorted(classes, y)]
    loss = float(-np.mean(np.log2(np.maximum(own, 1.0 / len(y)))))
    accuracy = float(right.mean())
    return Guess(accuracy, math.sqrt(accuracy * (1.0 - accuracy) / len(y)), max(0.0, entropy - loss), varying.shape[1])
