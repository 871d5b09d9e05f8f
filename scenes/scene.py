"""A scene: a device in front of a camera, an action prompt, an outcome set, a readout rule and a reference.

Labels meet physics here and nowhere else: a pure map from the device's facts to outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulators.device import Device, Integrator, Kernel
from simulators.world import Camera, Light

Basis = Literal["mechanism", "hidden_state", "assumption"]
Standing = Literal["stated", "derived", "assumed"]
Track = Literal["calibration", "coverage"]


@dataclass(frozen=True)
class Reference:
    """The outcome distribution a benchmark claims, with where it comes from.

    Exactly one of: `q`, exact fractions by outcome summing to 1; `interval`, a (low, high) pair an outcome; `tally`, counts
    of real throws. `standing`: `stated` by the authors, `derived`, or `assumed` by us.
    """

    derivation: str
    source: str
    standing: Standing
    q: Mapping[str, Fraction] | None = None
    interval: Mapping[str, tuple[Fraction, Fraction]] | None = None
    tally: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Variant:
    """How a paired scene differs from its base: `kind` non_causal leaves the reference as it is."""

    base: str
    kind: Literal["causal", "non_causal"]
    change: str


@dataclass(frozen=True)
class KnockOut:
    """A change that takes the mechanism away: what it `removes`, and the overrides (`scene.device.x=0`) that do it.

    A reference that holds must move under it; where it does not, something else than the mechanism decides.
    """

    removes: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """One benchmark item. `outcomes` orders `Y`; `outcome_of_fact` has a position in it for each of the device's facts.

    `stream` names the launches: the base scene's id, shared by its pair. `epsilon` is the distance at which a certificate tells
    `holds` from `fails`; None leaves it to the benchmark's noise. At least one of `kernel` and `engine` integrates the device:
    the kernel where there is one, the engine being its independent check. `weak_point` says what the reference rests on and
    would give way first; `note` what was found. `ranges` says over which physics the reference is claimed: by override path
    (`scene.device.x`) `low`, `high`, whether `log`, and a `source`; None leaves it to verify's defaults. `tune` says between
    which values of which parameters it may be, or was, looked for where the reference holds; paths joined by `|` are given the
    same value.
    """

    id: str
    title: str
    benchmark: str
    track: Track
    group: str
    device: Device
    engine: Integrator | None
    outcomes: tuple[str, ...]
    outcome_of_fact: tuple[int, ...]
    reference: Reference
    readout_rule: str
    basis: Basis
    action: str
    prompt: str
    camera: Camera
    light: Light
    renderer: Literal["planar", "raster"]
    stream: str
    epsilon: float | None = None
    kernel: Kernel | None = None
    variant: Variant | None = None
    knock_out: KnockOut | None = None
    ranges: Mapping[str, Mapping[str, object]] | None = None
    tune: Mapping[str, Mapping[str, object]] | None = None
    weak_point: str = ""
    note: str = ""

    @property
    def integrators(self) -> tuple[Integrator, ...]:
        """What can run the device, the one that does first."""
        return tuple(one for one in (self.kernel, self.engine) if one is not None)

    @property
    def integrator(self) -> Integrator:
        """What runs the device. Raises `ValueError` where nothing can."""
        for one in self.integrators:
            return one
        raise ValueError(f"scene {self.id} has neither a kernel nor an engine")

    def run_by(self, choice: str) -> Scene:
        """Return the scene run by `choice` alone: `kernel`, `engine` or one's name; `auto` leaves it as it is.

        Raises `ValueError` naming what there is.
        """
        if choice == "auto":
            return self
        for role, one in (("kernel", self.kernel), ("engine", self.engine)):
            if one is not None and choice in (role, one.name):
                return replace(self, kernel=None, engine=one) if role == "engine" else replace(self, engine=None)
        have = ", ".join(f"{role} ({one.name})" for role, one in (("kernel", self.kernel), ("engine", self.engine)) if one)
        raise ValueError(f"engine={choice!r} cannot run {self.id}, which has: {have}; or engine=auto")

    def outcome(self, fact: NDArray[np.integer]) -> NDArray[np.int16]:
        """Return the position in `outcomes` of each device fact (n,); a null (-1) stays -1."""
        table = np.array([*self.outcome_of_fact, -1], np.int16)
        return table[np.asarray(fact)]

    def q(self) -> NDArray[np.float64]:
        """Return the reference as probabilities (k,) in the order of `outcomes`. Raises `ValueError` without one."""
        if self.reference.q is None:
            raise ValueError(f"scene {self.id} has no exact reference `q`")
        return np.array([float(self.reference.q[label]) for label in self.outcomes])
