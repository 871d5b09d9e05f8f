"""A deck of cards, riffled before the first frame, whose top card is turned over. Knows cards, not how probable each is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulators import rotation
from simulators.device import UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.rotation import Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Material, Move, Part, Vec3, World

RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
SUITS = ("S", "D", "C", "H")
CARDS = tuple(rank + suit for suit in SUITS for rank in RANKS)
"""A new deck from the top down, by its usual suits: spades, diamonds, clubs, hearts, each from the ace to the king."""

TABLE_DEPTH = 0.04  # m
REACH = 0.6  # s: the hand comes to the deck
TURN = 0.9  # s: it turns the card over
AWAY = 0.7  # s: it leaves the picture


@dataclass(frozen=True)
class CardDeck:
    """A new deck that is riffled `riffles` times, put face down on a table, and shows its top card.

    Setup (SI): 52 cards of `size` (x, y) and `thickness`, from the top down in the order of `CARDS` before the first riffle.
    Hidden before frame 0: in each riffle the deck is cut (`cuts`, in cards from its top, one a riffle) and the cards of both
    packets drop when their time comes: `drops`, 52 a riffle, of which each packet takes its share in order from below. With a
    binomial cut and uniform times that is the Gilbert-Shannon-Reeds shuffle (any interleaving of the packets equally likely).
    After frame 0 nothing is random: the top card is turned over beside the deck by a hand.
    Outcomes: the card that lies face up beside the deck.
    No outcome: none. Known gap: cards drop one by one, as from good hands; clumps, and cards seen in the shuffle, are left out.
    """

    size: tuple[float, float]
    thickness: float
    riffles: int
    random: Mapping[str, Distribution]

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("cuts", "drops")
    facts: ClassVar[tuple[str, ...]] = CARDS
    readout: ClassVar[Readout] = "rest"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "size", tuple(self.size))
        sizes = {name: law.size for name, law in self.random.items()}
        check_fields(
            self,
            positive=("thickness",),
            further=[
                (min(self.size) > 0.0, "size", "must be two edges larger than 0"),
                (1 <= self.riffles <= 1000, "riffles", "must be from 1 to 1000"),
                (sizes.get("cuts") == self.riffles, "random", f"must give `cuts` the size {self.riffles}, one a riffle"),
                (sizes.get("drops") == 52 * self.riffles, "random", f"must give `drops` the size {52 * self.riffles}"),
            ],
        )

    @property
    def height(self) -> float:
        """Height [m] of the deck."""
        return 52 * self.thickness

    def place(self, position: ArrayLike) -> Array:
        """Return the centre (..., 3) [m] of a card at `position` (...) in the deck, 0 being the top."""
        z = self.height - (np.asarray(position, float) + 0.5) * self.thickness
        return np.stack([np.full_like(z, -0.75 * self.size[0]), np.zeros_like(z), z], axis=-1)

    @property
    def shown_at(self) -> Vec3:
        """Where [m] the turned card ends, beside the deck."""
        return (0.75 * self.size[0], 0.0, 0.5 * self.thickness)

    def world(self) -> World:
        """Return the table, the cards in the order of a new deck, and the hand."""
        width, depth = self.size
        table = Body("table", (Part(Box((0.5, 0.36, TABLE_DEPTH), 0.012), (0.0, 0.0, -TABLE_DEPTH / 2.0), material=FELT),))
        shape = Box((width, depth, self.thickness))
        cards = tuple(
            Body(
                card,
                (Part(shape, material=Material((0.97, 0.96, 0.93), "card", (0.10, 0.20, 0.45), 0.55, label=card)),),
                mass=1.8e-3,
                position=tuple(self.place(i).tolist()),  # type: ignore[arg-type]
                quaternion=FACE_DOWN,
            )
            for i, card in enumerate(CARDS)
        )
        leaning = tuple(rotation.about((1.0, 0.0, 0.0), math.pi / 2.6).tolist())
        skin = Material((0.85, 0.63, 0.51), roughness=0.7)
        fingers = tuple(Part(Capsule(0.0075, 0.16), (x, -0.075, 0.05), leaning, skin) for x in (-0.011, 0.011))
        return World(
            bodies=(table, *cards, Body("hand", fingers, position=self._grip(0.0), collides=False)),
            bounds=((-0.25, -0.18, -TABLE_DEPTH), (0.25, 0.18, 0.5)),
            moves={"hand": self._hand()},
            alike=(CARDS,),
        )

    def turned(self, share: float) -> tuple[Array, Array]:
        """Return centre (3,) [m] and quaternion (4,) of the top card when a `share` of its way over has passed.

        It goes over like a page: about an axis half way between the deck and its place beside it.
        """
        eased = share * share * (3.0 - 2.0 * share)
        angle, arm = math.pi * eased, 0.75 * self.size[0]
        low = (1.0 - eased) * float(self.place(0.0)[2]) + eased * self.shown_at[2]
        centre = np.array([-arm * math.cos(angle), 0.0, low + arm * math.sin(angle)])
        return centre, rotation.multiply(rotation.about((0.0, 1.0, 0.0), angle), FACE_DOWN)

    def _grip(self, share: float) -> Vec3:
        x, y, z = self.turned(share)[0].tolist()
        return (x, y - 0.52 * self.size[1], z + 0.012)

    def _hand(self) -> Move:
        """Return the way of the hand: to the card, over with it, and out of the picture."""
        steps = 18
        on_the_way = [self._grip(k / steps) for k in range(steps + 1)]
        far = [(x, y - 0.75 * self.size[1] - 0.12, z + 0.10) for x, y, z in (on_the_way[0], on_the_way[-1])]
        times = (-REACH, *(TURN * k / steps for k in range(steps + 1)), TURN + AWAY)
        places = (far[0], *on_the_way, far[1])
        return Move(times, places, (rotation.IDENTITY,) * len(times), eased=False)

    def order(self, launch: Mapping[str, Array]) -> NDArray[np.int64]:
        """Return the shuffled decks (n, 52): which card of `CARDS` is at each position from the top."""
        rows = len(launch["cuts"])
        deck = np.repeat(np.arange(52)[None], rows, axis=0)
        position = np.arange(52)[None]
        for riffle in range(self.riffles):
            cut = np.clip(np.floor(launch["cuts"][:, riffle] + 0.5), 0, 52)[:, None]
            times = launch["drops"][:, 52 * riffle : 52 * riffle + 52]
            # A packet's cards drop from below, so its times, latest first, belong to its cards from the top down; and what
            # drops last of all lies on top.
            apart = np.where(position < cut, 0.0, 2.0 * np.ptp(times, axis=1, keepdims=True) + 1.0)
            dropped = np.take_along_axis(times, np.argsort(apart - times, axis=1, kind="stable"), axis=1)
            deck = np.take_along_axis(deck, np.argsort(-dropped, axis=1, kind="stable"), axis=1)
        return deck

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the deck as shuffled (n rows)."""
        order = self.order(launch)
        world = self.world()
        place = self.place(np.argsort(order, axis=1))  # where each card of `CARDS` is
        pos = np.zeros((len(order), len(world.moving), 3))
        pos[:, : len(CARDS)] = place - self.place(np.arange(52))
        return State.at_release(world, len(order), pos=pos)

    def read(self, state: State) -> IntArray:
        """Return the card that lies face up beside the deck; UNDECIDED before."""
        up = rotation.upward(state.quat[:, :52])[..., 2] > math.cos(math.radians(10.0))
        near = np.abs(state.pos[:, :52, 0] - self.shown_at[0]) < 0.5 * self.size[0]
        low = state.pos[:, :52, 2] < 2.0 * self.thickness
        shown = up & near & low
        return np.where(shown.any(axis=1), shown.argmax(axis=1), UNDECIDED)


FACE_DOWN = (0.0, 1.0, 0.0, 0.0)  # half a turn about y, the axis it is turned over about: then its face, +z, stands upright
FELT = Material((0.07, 0.30, 0.18), "felt", (0.05, 0.22, 0.13), 0.95)
