"""What else speaks for a certificate: another integrator, half the step, and the mechanism taken away.

It compares tallies of physics with tallies of physics; a reference has no part in what it runs.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenes.load import load_scene
from scenes.scene import Scene
from simulators.device import NULL_REASONS, Integrator
from simulators.engines.loop import physics_digest
from simulators.execute import Pool, run_range

NOT_YET = "not yet"


@dataclass(frozen=True)
class Check:
    """One comparison of the scene's physics with changed physics, both over rollouts 0 to n.

    `tvd` is the total variation distance of the two samples of outcomes, each null reason a class of its own; the distance of
    what they are samples of lies in [`lower`, `upper`], each end with error alpha. `shares` are the changed physics' outcomes
    among all n. `said` is a sentence; without rollouts (n = 0) it says why.
    """

    said: str = NOT_YET
    n: int = 0
    tvd: float | None = None
    lower: float | None = None
    upper: float | None = None
    shares: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """What else was run for a certificate."""

    second_integrator: Check = Check()
    step_halving: Check = Check()
    knock_out: Check = Check()


def sample_distance(a: NDArray[np.integer], b: NDArray[np.integer], classes: int, alpha: float) -> tuple[float, float, float]:
    """Return the TVD between two samples of classes 0 to `classes` - 1, (n,) and (m,), and bounds of the true distance.

    One rollout moves it by 1/n or 1/m, so it stays within r = sqrt(log(1/alpha) (1/n + 1/m) / 2) of its mean on each side with
    probability 1 - alpha (McDiarmid 1989). On average it is too large, by at most sum_i sqrt(s_i (1 - s_i) (1/n + 1/m)) / 2
    with s the pooled shares (Jensen): the upper end is tvd + r, the lower end tvd - that - r.
    """
    p, q = (np.bincount(x, minlength=classes) / len(x) for x in (a, b))
    inverse = 1.0 / len(a) + 1.0 / len(b)
    pooled = (p * len(a) + q * len(b)) / (len(a) + len(b))
    radius = math.sqrt(math.log(1.0 / alpha) * inverse / 2.0)
    bias = 0.5 * float(np.sqrt(pooled * (1.0 - pooled) * inverse).sum())
    distance = 0.5 * float(np.abs(p - q).sum())
    return distance, max(0.0, distance - bias - radius), min(1.0, distance + radius)


class Gatherer:
    """Runs the checks of one command; rollouts of the same physics are run once, whichever scene asks (a pair shares them)."""

    def __init__(
        self, n: int, *, seed: int = 0, alpha: float = 0.01, seconds: float | None = None, pool: Pool | None = None
    ) -> None:
        self.n, self.seed, self.alpha, self.seconds, self.pool = n, seed, alpha, seconds, pool
        self._seen: dict[tuple[str, str], NDArray[np.int64]] = {}

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
        return self._check(scene, base, self._classes(without, integrator), f"without {scene.knock_out.removes}")

    def _check(self, scene: Scene, base: NDArray[np.int64], other: NDArray[np.int64], what: str) -> Check:
        n = min(len(base), len(other))
        tvd, lower, upper = sample_distance(base[:n], other[:n], _classes_of(scene), self.alpha)
        shares = np.bincount(other[:n], minlength=_classes_of(scene))[: len(scene.outcomes)] / n
        return Check(
            said=f"{what}: TVD {tvd:.4f} between the two ({lower:.4f} to {upper:.4f}), n = {n}",
            n=n,
            tvd=tvd,
            lower=lower,
            upper=upper,
            shares=dict(zip(scene.outcomes, shares.tolist(), strict=True)),
        )

    def _classes(self, scene: Scene, integrator: Integrator) -> NDArray[np.int64]:
        """Return outcome or null class of rollouts 0 to n, or of as many as the time allows."""
        key = physics_digest(scene.device, integrator), repr((scene.outcomes, scene.outcome_of_fact, scene.stream))
        if key not in self._seen:
            end = math.inf if self.seconds is None else time.monotonic() + self.seconds
            parts = []
            stream = run_range(integrator, scene.device, self.seed, scene.stream, 0, self.n, self.pool)
            for part in stream:
                outcome = scene.outcome(part.fact).astype(np.int64)
                parts.append(np.where(outcome >= 0, outcome, len(scene.outcomes) - 1 + part.null))
                if time.monotonic() >= end:
                    break
            stream.close()  # type: ignore[attr-defined]
            self._seen[key] = np.concatenate(parts)
        return self._seen[key]


def _classes_of(scene: Scene) -> int:
    return len(scene.outcomes) + len(NULL_REASONS) - 1


def described(integrator: Integrator) -> str:
    """Return an integrator's name with its step, as a table shows it."""
    rate = integrator.steps_per_second
    return f"{integrator.name} ({'event to event' if rate is None else f'{rate} steps/s'})"


def evidence_of(certificate: Any) -> dict[str, Check]:
    """Return a certificate's checks by name."""
    return {f.name: getattr(certificate.evidence, f.name) for f in dataclasses.fields(Evidence)}
