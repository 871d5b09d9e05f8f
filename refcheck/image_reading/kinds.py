"""Which way of measuring belongs to which device."""

from __future__ import annotations

from refcheck.image_reading.marks import Kind
from refcheck.image_reading.pencil import PencilKind
from refcheck.image_reading.wheel import WheelKind
from simulators.device import Device
from simulators.devices.pencil import Pencil
from simulators.devices.spinner import Spinner

KINDS: dict[type, Kind] = {
    Pencil: PencilKind(),
    Spinner: WheelKind(),
}


def kind_of(device: Device) -> Kind | None:
    """Return how a picture of `device` is measured, None where it is not."""
    return KINDS.get(type(device))
