"""A coin flicked into the air and caught in a flat hand where it left. Knows its faces, not their probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from simulators import rotation
from simulators.device import UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.devices.coin import GOLD
from simulators.rotation import Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Cylinder, Material, Part, World

DROP = 0.06  # m below the hand at which a coin that nobody took counts as gone
SKIN = Material(color=(0.86, 0.67, 0.55), roughness=0.9)


@dataclass(frozen=True)
class CaughtCoin:
    """A coin that flies freely and is read at the instant its centre comes back down to where it started.

    Setup (SI): a plain disc of `diameter`, `thickness` and `mass`, its centre of mass `load` towards tails from its middle,
    which a flight does not feel; held `height` up over a palm, `start_face` up. Random at the launch, all as velocities:
    `speed` [m/s] upwards, `spin` [rad/s] about the x axis, `precession` [rad/s] about the coin's own normal. With moments I
    across and 2 I along, the angular momentum is tilted from the normal by psi = atan(spin / (2 precession)).
    Outcomes: the face whose normal points up at that instant, whatever the instants of reading are: a free flight is closed
    form, so the first reading after the catch shows what was caught.
    No outcome: `unsettled` (never back within the time limit).
    Known gap: a hand takes time to close, is not exactly flat, and moves; no air drag.
    """

    thickness: float
    diameter: float
    mass: float
    height: float
    start_face: Literal["heads", "tails"]
    random: Mapping[str, Distribution]
    load: float = 0.0

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("speed", "spin", "precession")
    facts: ClassVar[tuple[str, ...]] = ("heads", "tails")
    readout: ClassVar[Readout] = "first"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        check_fields(
            self,
            positive=("thickness", "diameter", "mass", "height"),
            further=[
                (self.start_face in self.facts, "start_face", "must be 'heads' or 'tails'"),
                (abs(self.load) < self.thickness / 2.0, "load", "must lie inside the coin"),
                (self.height > DROP, "height", f"must be larger than {DROP:g} m"),
            ],
        )

    @property
    def moments(self) -> tuple[float, float]:
        """Moments of inertia [kg m^2] about a diameter through the centre of mass and about the normal: a plain disc's."""
        radius = self.diameter / 2.0
        return self.mass * (3.0 * radius**2 + self.thickness**2) / 12.0, self.mass * radius**2 / 2.0

    def world(self) -> World:
        """Return the coin and the palm under it, which takes no part in the flight."""
        across, along = self.moments
        coin = Body(
            "coin",
            (Part(Cylinder(self.diameter / 2.0, self.thickness), (0.0, 0.0, self.load), material=GOLD),),
            mass=self.mass,
            position=(0.0, 0.0, self.height),
            quaternion=rotation.IDENTITY if self.start_face == "heads" else (1.0, 0.0, 0.0, 0.0),
            inertia=(across, across, along),
        )
        palm = Part(Box((0.08, 0.10, 0.02), 0.008), (0.0, 0.0, self.height - self.diameter - 0.01), material=SKIN)
        low = self.height - DROP
        return World((coin, Body("palm", (palm,), collides=False)), bounds=((-1.0, -1.0, low), (1.0, 1.0, 100.0)))

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the coin in the hand with the launch's velocities (n rows)."""
        vel = np.zeros((len(launch["speed"]), 1, 3))
        omega = np.zeros_like(vel)
        vel[:, 0, 2], omega[:, 0, 0], omega[:, 0, 2] = launch["speed"], launch["spin"], launch["precession"]
        return State.at_release(self.world(), len(vel), vel=vel, omega=omega)

    def read(self, state: State) -> IntArray:
        """Return 0 (heads up) or 1 (tails up) of the coin as it was when it came back down to its starting height."""
        gravity = self.world().gravity
        fallen, vz = self.height - state.pos[:, 0, 2], state.vel[:, 0, 2]
        back = (fallen > 0.0) & (vz < 0.0)
        since = np.where(back, (-vz - np.sqrt(np.maximum(vz**2 - 2.0 * gravity * fallen, 0.0))) / gravity, 0.0)
        across, along = self.moments
        quat, omega = state.quat[:, 0], state.omega[:, 0]
        own = rotation.unrotate(quat, omega) * np.array([across, across, along])
        momentum = rotation.rotate(quat, own) / across
        rate = np.sqrt(np.sum(momentum**2, axis=-1))
        axis = momentum / np.where(rate > 0.0, rate, 1.0)[:, None]
        half = -0.5 * rate * since  # the normal turns about the angular momentum at |L| / I
        turn = np.concatenate([np.sin(half)[:, None] * axis, np.cos(half)[:, None]], axis=-1)
        up = rotation.upward(rotation.multiply(turn, quat))[:, 2]
        return np.where(back, np.where(up > 0.0, 0, 1), UNDECIDED)
