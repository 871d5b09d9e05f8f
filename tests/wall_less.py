"""A peg board whose side walls are left out: for tests alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from simulators.devices.peg_board import PegBoard
from simulators.world import World


@dataclass(frozen=True)
class WallLess(PegBoard):
    """A board that a ball can leave sideways."""

    @cached_property
    def _world(self) -> World:
        whole = PegBoard._world.func(self)
        return replace(whole, bodies=tuple(body for body in whole.bodies if body.name != "frame"))
