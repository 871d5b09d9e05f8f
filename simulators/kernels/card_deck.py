"""Turns the top card of a shuffled deck over and lays it down: a path, since the hand holds the card all the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators.device import Device, Launches, Rollouts
from simulators.devices.card_deck import TURN, CardDeck
from simulators.engines.loop import REST_TIME
from simulators.kernels.frames import READ_STEP, Columns, assemble, bodies_at, frame_times


@dataclass(frozen=True)
class CardTurn:
    """Moves the card that the shuffle put on top along the device's own path; the rest of the deck stays where it is.

    At rest one rest time after the first instant at which the card lies.
    """

    name: ClassVar[str] = "card_turn"
    version: ClassVar[str] = "1"
    steps_per_second: ClassVar[None] = None
    time_limit: ClassVar[float] = 5.0

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """See `simulators.device.Kernel`."""
        if not isinstance(device, CardDeck):
            raise TypeError(f"{self.name} knows card decks, not {type(device).__name__}")
        world = device.world()
        rows = np.arange(len(launches))
        begin = bodies_at(launches.start, world.loose)
        top = np.argmax(begin[:, :, 2], axis=1)
        lies = np.ceil(TURN / READ_STEP - 1e-9) * READ_STEP
        end = lies + np.ceil(REST_TIME / READ_STEP - 1e-9) * READ_STEP
        times = frame_times(world, fps, end)
        columns = Columns.empty(len(rows), len(world.loose), 0, len(times))
        columns.end[:] = begin
        columns.frames[:] = begin[:, None]
        columns.frame_count[:] = len(times)
        columns.end[rows, top, :7] = np.concatenate(device.turned(1.0))
        for k, time in enumerate(times):
            columns.frames[rows, k, top, :7] = np.concatenate(device.turned(min(float(time) / TURN, 1.0)))
        columns.end_time[:] = end
        columns.settled[:] = True
        shown = device.read(assemble(device, launches, columns, None, np.zeros(0)).end)
        columns.code[:] = columns.first[:] = columns.strongest[:] = shown
        return assemble(device, launches, columns, fps, times)
