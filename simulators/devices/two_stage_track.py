"""A track of two stages: round an island on either side, and on to a fork. Knows its trays, not their odds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from simulators.devices.peg_board import ALONG_Y
from simulators.devices.track import YTrack, both_sides
from simulators.world import Cylinder, Material, Part


@dataclass(frozen=True)
class TwoStageTrack(YTrack):
    """A Y track whose channel first parts round an island and meets again in a straight lane above the fork.

    Setup (SI): as `YTrack`; between channel and fork the rails run out by `detour`, and back, at the fork's `angle`, and leave
    a passage as wide as the channel on either side of a rhombus, which is as round at its corners as the rails. From there
    the lane is straight for `lane` down to where the rails turn outwards to the branches.
    Random at the launch: as `YTrack`. Outcomes: "left" and "right", the trays; which way the ball went round is not read.
    No outcome: as `YTrack`; `stuck` is at rest on either tip.
    Known gap: as `YTrack`.
    """

    detour: float = 0.055
    lane: float = 0.06

    version: ClassVar[int] = 1

    def _proportions(self) -> list[tuple[bool, str, str]]:
        least = self._pitch / math.cos(self.angle) - self._pitch / 2.0 + 2.0 * self.rail_radius
        return [
            *super()._proportions(),
            (self.detour >= least, "detour", f"must be at least {least:g} m, so that there is an island"),
            (
                self.lane >= 3.0 * self.ball_radius,
                "lane",
                f"must be at least {3.0 * self.ball_radius:g} m (1.5 ball diameters)",
            ),
        ]

    @property
    def meeting_height(self) -> float:
        """Height [m] up the board at which the two ways round the island have met: the lane's upper end."""
        return self.mouth_height + self.lane

    @property
    def parting_height(self) -> float:
        """Height [m] up the board at which the channel's rails turn outwards to pass the island."""
        return self.meeting_height + 2.0 * self.detour / math.tan(self.angle)

    @property
    def release_height(self) -> float:
        """Height [m] up the board of the waiting ball's centre."""
        return self.parting_height + self.inlet

    def _detour(self) -> tuple[tuple[float, float], ...]:
        half = self._pitch / 2.0
        widest = (half + self.detour, (self.meeting_height + self.parting_height) / 2.0)
        return ((half, self.parting_height), widest, (half, self.meeting_height))

    def _island(self, depth: float, material: Material) -> tuple[Part, ...]:
        middle = (self.meeting_height + self.parting_height) / 2.0
        half = self._pitch / 2.0 + self.detour - self._pitch / math.cos(self.angle)  # a pitch inside the rails, square to them
        high = half / math.tan(self.angle)
        sides = both_sides(((0.0, middle + high), (half, middle), (0.0, middle - high)), self.rail_radius, depth, material)
        round_tip = Cylinder(1.001 * self.rail_radius, depth)  # one round, not two
        return (*sides, *(Part(round_tip, (0.0, 0.0, middle + s * high), ALONG_Y, material) for s in (-1.0, 1.0)))
