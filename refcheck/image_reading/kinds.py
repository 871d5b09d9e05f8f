"""Which way of measuring belongs to which device."""

from __future__ import annotations

from refcheck.image_reading.balls import BallsKind
from refcheck.image_reading.board import BoardKind
from refcheck.image_reading.dice import DiceKind
from refcheck.image_reading.faces import CoinKind, DieKind
from refcheck.image_reading.marks import Kind
from refcheck.image_reading.mirror import MirrorKind
from refcheck.image_reading.pencil import PencilKind
from refcheck.image_reading.pendulum import PendulumKind
from refcheck.image_reading.pockets import PocketsKind
from refcheck.image_reading.wheel import WheelKind
from simulators.device import Device
from simulators.devices.coin import Coin
from simulators.devices.crest import Crest
from simulators.devices.die import Dice, Die
from simulators.devices.double_pendulum import DoublePendulum
from simulators.devices.draw_box import DrawBox
from simulators.devices.peg_board import PegBoard
from simulators.devices.pencil import Pencil
from simulators.devices.roulette import Roulette
from simulators.devices.spinner import Spinner
from simulators.devices.track import YTrack
from simulators.devices.two_stage_track import TwoStageTrack

KINDS: dict[type, Kind] = {
    Coin: CoinKind(),
    Crest: MirrorKind(),
    Dice: DiceKind(),
    Die: DieKind(),
    DoublePendulum: PendulumKind(),
    DrawBox: BallsKind(),
    PegBoard: BoardKind(),
    Pencil: PencilKind(),
    Roulette: PocketsKind(),
    Spinner: WheelKind(),
    TwoStageTrack: MirrorKind(),
    YTrack: MirrorKind(),
}


def kind_of(device: Device) -> Kind | None:
    """Return how a picture of `device` is measured, None where it is not."""
    return KINDS.get(type(device))
