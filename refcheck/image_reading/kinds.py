"""Which way of measuring belongs to which device."""

from __future__ import annotations

from refcheck.image_reading.board import BoardKind
from refcheck.image_reading.marks import Kind
from refcheck.image_reading.mirror import MirrorKind
from refcheck.image_reading.pencil import PencilKind
from refcheck.image_reading.wheel import WheelKind
from simulators.device import Device
from simulators.devices.crest import Crest
from simulators.devices.peg_board import PegBoard
from simulators.devices.pencil import Pencil
from simulators.devices.spinner import Spinner
from simulators.devices.track import YTrack

KINDS: dict[type, Kind] = {
    Crest: MirrorKind(),
    PegBoard: BoardKind(),
    Pencil: PencilKind(),
    Spinner: WheelKind(),
    YTrack: MirrorKind(),
}


def kind_of(device: Device) -> Kind | None:
    """Return how a picture of `device` is measured, None where it is not."""
    return KINDS.get(type(device))
