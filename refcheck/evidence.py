"""What else speaks for a certificate: another integrator, half the step, and the mechanism taken away.

It compares tallies of physics with tallies of physics; a reference has no part in what it runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import beta

from refcheck.command import UserError
from refcheck.output import atomic
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import NULL_REASONS, Integrator
from simulators.engines.loop import physics_digest
from simulators.execute import Pool, run_range

NOT_YET = "not yet"
KEEP_EVERY = 20.0  # s: an interrupted run loses no more than this
MOST = 10**8  # rollouts of a check


@dataclass(frozen=True)
class Aim:
    """How far apart two integrators of a scene may be shown to be at most, and the rollouts that can show it."""

    distance: float
    n: int


AIM = Aim(0.03, 20_000)
CHAOTIC_AIM = Aim(0.10, 2_000)  # chaotic motion in space, slow to run
CHAOTIC = ("roulette_kernel", "top_kernel", "piles")  # the first integrator's name


def aim_of(integrator: str) -> Aim:
    """Return the aim of scenes that the integrator of this name runs first."""
    return CHAOTIC_AIM if integrator in CHAOTIC else AIM


def asked_rollouts(word: str) -> int | None:
    """Return what evidence= asks for: rollouts of each check, or None for as many as each scene's `Aim`. Raises ValueError."""
    if word == "aim":
        return None
    n = int(word)
    if not 0 <= n <= MOST:
        raise ValueError(word)
    return n


def wrong_evidence(word: str) -> list[str]:
    """Return what is wrong with the word evidence= was given."""
    try:
        asked_rollouts(word)
    except ValueError:
        return [f"evidence={word!r}: must be a whole number from 0 to {MOST:,}, or 'aim', for as many as each scene needs"]
    return []


@dataclass(frozen=True)
class Check:
    """One comparison of the scene's physics with changed physics over the same launches, 0 to n, or more of the scene's own.

    `tvd` is the total variation distance of the two samples of outcomes, each null reason a class of its own; the distance of
    what they are samples of lies in [`lower`, `upper`], each end with error alpha. `alike` is the share of launches that ended
    in the same class under both. `shares` are the changed physics' outcomes among all n. `said` is a sentence; without
    rollouts (n = 0) it says why.
    """

    said: str = NOT_YET
    n: int = 0
    tvd: float | None = None
    lower: float | None = None
    upper: float | None = None
    shares: dict[str, float] = field(default_factory=dict)
    alike: float | None = None


@dataclass(frozen=True)
class Evidence:
    """What else was run for a certificate."""

    second_integrator: Check = Check()
    step_halving: Check = Check()
    knock_out: Check = Check()


def paired_distance(a: NDArray[np.integer], b: NDArray[np.integer], classes: int, alpha: float) -> tuple[float, float, float]:
    """Return the TVD between samples `a` (n,) and `b` (m,) of classes 0 to `classes` - 1, and bounds of the true distance.

    Entry i of both comes from launch i, so that pairs are independent and the two of a pair need not be; n is at least m. For a
    set A let D = 1{a in A} - 1{b in A}, which is -1, 0 or 1, and 0 wherever the two agree: the true distance is at most
    d = P(a != b) (the coupling inequality: Levin and Peres 2017, proposition 4.7). It is the mean of D for one fixed, unknown
    set, whose sample mean the samples' distance is never below: the upper end is the largest distance t for which the mean of m
    such D is so low with a Chernoff probability above alpha/2. For the lower end A is at each pair {a more frequent than b so
    far}: the mean of D is then at most the true distance whatever happened before, and the same probability bounds a mean so
    high. d is the Clopper-Pearson limit of the share of unequal pairs, with alpha/2 too.

    Where n is larger than m, the distance of all of both is within sqrt(log(1/alpha) (1/m + 3/n) / 2) above (McDiarmid 1989: a
    launch moves it by 1/n, or by 1/n + 1/m). Each of the two upper ends then has alpha/2, and the smaller one is returned, with
    the distance that it belongs to.
    """
    n, m = len(a), len(b)
    paired, lower, upper = _by_pairs(a[:m], b, classes, alpha)
    if n > m:
        upper = _by_pairs(a[:m], b, classes, alpha / 2.0)[2]
        p, q = np.bincount(a, minlength=classes) / n, np.bincount(b, minlength=classes) / m
        whole = 0.5 * float(np.abs(p - q).sum())
        further = whole + math.sqrt(math.log(2.0 / alpha) * (1.0 / m + 3.0 / n) / 2.0)
        if further < upper:
            return whole, min(lower, whole), further
    return paired, lower, upper


def _by_pairs(a: NDArray[np.integer], b: NDArray[np.integer], classes: int, alpha: float) -> tuple[float, float, float]:
    n = len(a)
    counts = np.zeros((n + 1, classes), np.int64)
    np.add.at(counts, (np.arange(1, n + 1), a), 1)
    np.add.at(counts, (np.arange(1, n + 1), b), -1)
    ahead = np.cumsum(counts, axis=0)
    tvd = float(np.abs(ahead[-1]).sum()) / (2 * n)
    chosen, each = ahead[:-1] > 0, np.arange(n)
    foreseen = float(np.mean(chosen[each, a].astype(int) - chosen[each, b].astype(int)))
    unequal = int(np.count_nonzero(a != b))
    most = float(beta.ppf(1.0 - alpha / 2.0, unequal + 1, n - unequal)) if unequal < n else 1.0
    limit = math.log(alpha / 2.0) / n

    def beyond(t: float) -> float:
        """Below 0 where a distance `t` makes a mean as low as `tvd` too improbable."""
        return log_chernoff(tvd, t, most) - limit

    def short(t: float) -> float:
        """The same of a mean as high as `foreseen`: the mirror image."""
        return log_chernoff(-foreseen, -t, most) - limit

    upper = most if tvd >= most or beyond(most) >= 0.0 else float(brentq(beyond, tvd, most))
    lower = 0.0 if foreseen <= 0.0 or short(0.0) >= 0.0 else float(brentq(short, 0.0, min(foreseen, most)))
    return tvd, lower, upper


def log_chernoff(z: float, t: float, d: float) -> float:
    """Return the logarithm of inf over w >= 0 of E exp(w (z - D)), D of mean `t` and 1 or -1 with probabilities summing to `d`.

    n times it bounds log P(mean of n such D <= z) for |t| <= d <= 1, also where the probabilities sum to less, and where the
    mean is larger than t. With v = exp(w) the derivative is 0 at the positive root of
    (1 + z) (d - t)/2 v^2 + z (1 - d) v - (1 - z) (d + t)/2.
    """
    if z >= t:
        return 0.0
    up, down = (d + t) / 2.0, (d - t) / 2.0
    first, second, third = (1.0 + z) * down, z * (1.0 - d), -(1.0 - z) * up
    if first <= 0.0 and second <= 0.0:  # no D is ever below z: the infimum is at infinity
        return math.log(1.0 - d) if z == 0.0 and d < 1.0 else -math.inf
    v = -third / second if first <= 0.0 else (-second + math.sqrt(second**2 - 4.0 * first * third)) / (2.0 * first)
    return z * math.log(v) + math.log(1.0 - d + down * v + up / v)


class Gatherer:
    """Runs the checks of one command; rollouts of the same physics are run once, whichever scene asks (a pair shares them)."""

    def __init__(
        self,
        n: int | None,
        seed: int = 0,
        alpha: float = 0.01,
        *,
        seconds: float | None = None,
        pool: Pool | None = None,
        folder: Path | None = None,
    ) -> None:
        """Gather over rollouts 0 to `n` (None: to each scene's `Aim`), for at most `seconds` [s] each.

        `folder` keeps what was run, to go on from.
        """
        self.n, self.seed, self.alpha, self.seconds, self.pool, self.folder = n, seed, alpha, seconds, pool, folder
        self._seen: dict[str, NDArray[np.int64]] = {}

    def gather(self, scene: Scene, overrides: Sequence[str] = ()) -> Evidence:
        """Return the evidence for `scene`, which was loaded with `overrides`. Raises `SceneError` for a knock-out amiss."""
        base = self._classes(scene, scene.integrator)
        return Evidence(
            second_integrator=self._second(scene, base),
            step_halving=self._halved(scene, base),
            knock_out=self._knocked_out(scene, base, overrides),
        )

    def _second(self, scene: Scene, base: NDArray[np.int64]) -> Check:
        if len(scene.integrators) < 2:
            return Check(f"none: only {scene.integrator.name} integrates this device")
        other = scene.integrators[1]
        return self._check(scene, base, self._classes(scene, other), f"{described(other)} on the same launches")

    def _halved(self, scene: Scene, base: NDArray[np.int64]) -> Check:
        one = scene.integrator
        rate = one.steps_per_second
        if rate is None:
            return Check(f"none: {one.name} goes from event to event and has no step")
        finer: Integrator = dataclasses.replace(one, steps_per_second=2 * rate)  # type: ignore[type-var]
        return self._check(scene, base, self._classes(scene, finer), f"{one.name} at {2 * rate} steps/s instead of {rate}")

    def _knocked_out(self, scene: Scene, base: NDArray[np.int64], overrides: Sequence[str]) -> Check:
        if scene.knock_out is None:
            return Check("none is declared for this scene")
        without = load_scene(scene.id, (*overrides, *scene.knock_out.overrides))
        same = next(i for i, one in enumerate((scene.kernel, scene.engine)) if one is not None)
        integrator = (without.kernel, without.engine)[same] or without.integrator
        what, seed = f"without {scene.knock_out.removes}", self.seed
        if _sizes(without) != _sizes(scene):  # then its launch i is made of numbers that other launches of the scene have used
            what, seed = f"{what} (on launches of its own)", (self.seed + 1) % 2**64
        return self._check(scene, base, self._classes(without, integrator, seed), what)

    def _check(self, scene: Scene, base: NDArray[np.int64], other: NDArray[np.int64], what: str) -> Check:
        """Compare the first n of each, and what there is of the scene's own beyond."""
        n = min(len(base), len(other))
        tvd, lower, upper = paired_distance(base, other[:n], _classes_of(scene), self.alpha)
        alike = float(np.mean(base[:n] == other[:n]))
        shares = np.bincount(other[:n], minlength=_classes_of(scene))[: len(scene.outcomes)] / n
        return Check(
            said=f"{what}: TVD {tvd:.4f} between the two ({lower:.4f} to {upper:.4f}), {alike:.2%} of {n:,} launches end alike",
            n=n,
            tvd=tvd,
            lower=lower,
            upper=upper,
            shares=dict(zip(scene.outcomes, shares.tolist(), strict=True)),
            alike=alike,
        )

    def _classes(self, scene: Scene, integrator: Integrator, seed: int | None = None) -> NDArray[np.int64]:
        """Return outcome or null class of the rollouts asked for, from 0, or of as many as the time allows."""
        seed = self.seed if seed is None else seed
        described = repr((physics_digest(scene.device, integrator), scene.outcomes, scene.outcome_of_fact, scene.stream, seed))
        key = hashlib.blake2b(described.encode(), digest_size=8).hexdigest()
        if key not in self._seen:
            end = math.inf if self.seconds is None else time.monotonic() + self.seconds
            n = aim_of(scene.integrators[0].name).n if self.n is None else self.n
            parts = [self._kept(key, _classes_of(scene))]
            kept, stored = len(parts[0]), time.monotonic()
            stream = run_range(integrator, scene.device, seed, scene.stream, kept, n, self.pool)
            for part in stream if kept < n else ():
                outcome = scene.outcome(part.fact).astype(np.int64)
                parts.append(np.where(outcome >= 0, outcome, len(scene.outcomes) - 1 + part.null))
                now = time.monotonic()
                if now - stored > KEEP_EVERY:
                    self._keep(key, parts)
                    stored = now
                if now >= end:
                    break
            stream.close()  # type: ignore[attr-defined]
            if len(parts) > 1:
                self._keep(key, parts)
            self._seen[key] = np.concatenate(parts)[:n]
        return self._seen[key]

    def _file(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{key}.npy"

    def _keep(self, key: str, parts: Sequence[NDArray[np.int64]]) -> None:
        if (file := self._file(key)) is not None:
            file.parent.mkdir(exist_ok=True)
            with atomic(file) as path:
                np.save(path, np.concatenate(parts).astype(np.int16))

    def _kept(self, key: str, classes: int) -> NDArray[np.int64]:
        """Return the classes of rollouts 0 to m that an earlier run has left. Raises `UserError` for a file that is none."""
        file = self._file(key)
        if file is None or not file.exists():
            return np.zeros(0, np.int64)
        try:
            held = np.load(file, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise UserError(f"{file} is no record of rollouts ({error}): remove it") from error
        if held.ndim != 1 or held.dtype != np.int16 or np.any((held < 0) | (held >= classes)):
            raise UserError(f"{file} is no record of rollouts that end in {classes} classes: remove it")
        return held.astype(np.int64)


def _classes_of(scene: Scene) -> int:
    return len(scene.outcomes) + len(NULL_REASONS) - 1


def _sizes(scene: Scene) -> dict[str, int | None]:
    return {name: one.size for name, one in scene.device.random.items()}


def described(integrator: Integrator) -> str:
    """Return an integrator's name with its step, as a table shows it."""
    rate = integrator.steps_per_second
    return f"{integrator.name} ({'event to event' if rate is None else f'{rate} steps/s'})"


def evidence_of(certificate: Any) -> dict[str, Check]:
    """Return a certificate's checks by name."""
    return {f.name: getattr(certificate.evidence, f.name) for f in dataclasses.fields(Evidence)}
