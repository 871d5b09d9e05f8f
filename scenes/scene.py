"""A scene: a device in front of a camera, an action prompt, an outcome set, a readout rule and a reference.

Labels meet physics here and nowhere else: a pure map from the device's facts to outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulators.device import Device, Engine
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
class Scene:
    """One benchmark item. `outcomes` orders `Y`; `outcome_of_fact` has a position in it for each of the device's facts.

    `stream` names the launches: the base scene's id, shared by its pair. `epsilon` is the distance at which a
    certificate tells `holds` from `fails`.
    """

    id: str
    title: str
    benchmark: str
    track: Track
    group: str
    device: Device
    engine: Engine
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
    epsilon: float = 0.03
    variant: Variant | None = None
    note: str = ""

    def outcome(self, fact: NDArray[np.integer]) -> NDArray[np.int16]:
        """Return the position in `outcomes` of each device fact (n,); a null (-1) stays -1."""
        table = np.array([*self.outcome_of_fact, -1], np.int16)
        return table[np.asarray(fact)]

    def q(self) -> NDArray[np.float64]:
        """Return the reference as probabilities (k,) in the order of `outcomes`. Raises `ValueError` without one."""
        if self.reference.q is None:
            raise ValueError(f"scene {self.id} has no exact reference `q`")
        return np.array([float(self.reference.q[label]) for label in self.outcomes])
