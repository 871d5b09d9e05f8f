"""Two dice in a picture: which faces are up before the throw, of the one nearer to the viewer and of the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from refcheck.image_reading.cube import see
from refcheck.image_reading.faces import UNSEEN, DieKind, made_out
from refcheck.image_reading.marks import Mark, Marks, Picture, Values
from simulators.devices.die import FACES, Dice
from simulators.world import Camera

ONE = DieKind()
DICE = ("nearer", "farther")  # the device's first die is the nearer one


class DiceKind:
    """The faces that are up and towards the viewer, of each of two dice."""

    title = "dice"
    units: Mapping[str, str] = dict.fromkeys(DICE, "")

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return nothing: faces are counted."""
        return {}

    def marks(self, device: Dice) -> Mapping[str, Mark]:
        """Return the words for both dice's faces."""
        return {
            name: mark
            for die in DICE
            for name, mark in (
                (f"top_{die}", Mark(f"the pips of the {die} die's face that is up", words=tuple("123456"))),
                (f"front_{die}", Mark(f"the pips of its face towards the viewer, or {UNSEEN}", words=(*"123456", UNSEEN))),
                (f"outline_{die}", Mark("leave out, or points on its upper face's outline", 0, 400)),
            )
        }

    def expected(self, device: Dice, camera: Camera) -> Marks:
        """Return the faces as every die of ours is held."""
        return Marks({}, {}, {f"top_{die}": FACES[4] for die in DICE} | {f"front_{die}": FACES[3] for die in DICE})

    def find(self, picture: Picture, device: Dice) -> Marks:
        """Find two cubes; the one whose upper face is lower in the picture is the nearer."""
        points, words = {}, {}
        seen = sorted(see(picture, len(DICE)), key=lambda one: -float(one.corners[:, 1].mean()))
        for die, one in zip(DICE, seen, strict=True):
            points[f"outline_{die}"], words[f"top_{die}"], words[f"front_{die}"] = made_out(one)
        return Marks(points, dict.fromkeys(points, 1.0), words)

    def values(self, marks: Marks, device: Dice) -> Values:
        """Return both dice's faces in words, each as a single die's."""
        return {
            die: ONE.values(Marks({}, {}, {side: marks.words[f"{side}_{die}"] for side in ("top", "front")}), device)["faces"]
            for die in DICE
        }

    def of_device(self, device: Dice) -> Values:
        """Return the faces as every die of ours is held."""
        return dict.fromkeys(DICE, ONE.of_device(device)["faces"])

    def put(self, device: Dice, values: Values) -> Dice:
        """Return the device as it is: another face up is the same body with other labels (`relabel`)."""
        return device

    def relabel(self, device: Dice, values: Values) -> NDArray[np.int64]:
        """Return the fact that each of the device's facts (36,) is with the pictured dice; one not given is the device's."""
        nearer, farther = (
            ONE.relabel(device, {"faces": values[die]}) if die in values else np.arange(len(FACES)) for die in DICE
        )
        return (len(FACES) * nearer[:, None] + farther).reshape(-1)
