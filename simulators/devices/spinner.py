"""A wheel of coloured sectors, spun by a hand under a fixed pointer. Knows its sectors, not how often each comes up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import ON_EDGE, UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.devices.hand import FINGER, hand
from simulators.rotation import Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Cylinder, Lathe, Material, Move, Part, Quat, Sector, Vec3, World

HOLD, SWEEP_TIME, CLEAR = 0.5, 0.1, 0.35  # s: the prelude, the part of it that pushes, and the hand's way out
SWEEP = 0.75  # rad that the hand takes the rim along: from rest to 15 rad/s in .1 s
THICKNESS = 0.012  # m, of the wheel
SLOW = 0.2  # rad/s: below it the sectors are no longer blurred past the pointer
POINTER_LENGTH = 0.055  # m
POINTER_PLACE = -THICKNESS / 2.0 - 0.008  # m, in front of the wheel's face
RIM = 0.010  # m from the rim to the circle of the pegs' middles
FLAPPER_MASS = 0.004  # kg, which nothing feels
FLAPPER_SHOWN = 60  # keyframes of the flapper in the prelude: each peg lifts it within a few of them
FACING: Quat = tuple(rotation.about((1.0, 0.0, 0.0), math.pi / 2.0).tolist())  # local z towards the viewer at -y
COLORS: Mapping[str, Vec3] = {
    "red": (0.80, 0.13, 0.14),
    "blue": (0.12, 0.29, 0.69),
    "green": (0.13, 0.52, 0.25),
    "yellow": (0.95, 0.78, 0.16),
    "white": (0.94, 0.94, 0.92),
    "black": (0.10, 0.10, 0.11),
    "orange": (0.93, 0.49, 0.13),
    "purple": (0.46, 0.22, 0.58),
}


@dataclass(frozen=True)
class Spinner:
    """An upright wheel on a bearing, its coloured face to the viewer, a pointer fixed above its rim.

    Setup (SI): a disc of `radius` and `mass` whose face is divided into sectors of `colors`, in proportion to `weights`,
    counterclockwise from an edge that stands at `phase` [rad] counterclockwise from the right in the picture. A hand at the
    rim's right pushes it down by `SWEEP` until t = 0. The bearing slows it by `friction` [rad/s^2] and by `drag` [1/s] times
    its speed. A pointer of tip radius `pointer` [m] shows what is under it.
    With `pegs` the wheel is a prize wheel: that many pegs of `peg_radius` stand on its face, evenly, the first on the first
    sector's edge, and the pointer is a springy flapper that hangs in their way. A peg pushes it along the rim against
    `flap_stiffness` [N/m] by `flap_reach` [m], then it slips off and swings back: each click costs the wheel
    `click_energy`, and a wheel too slow for one is pushed back, by the flapper, towards the peg before.
    Random at the launch: `speed` [rad/s], clockwise, when the hand lets go; nothing that the picture shows.
    Outcomes: the colour under the pointer at rest. `first` is what it shows when the wheel has slowed down to `SLOW`.
    No outcome: `on_edge` (a boundary within the pointer's tip), `unsettled`.
    Known gap: the bearing's friction is even all around, and the wheel balanced; a pointer without pegs does not touch it.
    The flapper has stiffness and no mass, loss or rubbing of its own, and is back before the next peg comes.
    """

    radius: float
    mass: float
    colors: tuple[str, ...]
    weights: tuple[float, ...]
    phase: float
    friction: float
    drag: float
    pointer: float
    random: Mapping[str, Distribution]
    pegs: int = 0
    peg_radius: float = 0.0025
    flap_stiffness: float = 250.0
    flap_reach: float = 0.008

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("speed",)
    readout: ClassVar[Readout] = "rest"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "colors", tuple(self.colors))
        object.__setattr__(self, "weights", tuple(self.weights))
        known = ", ".join(COLORS)
        check_fields(
            self,
            positive=("radius", "mass", "friction", "pointer", "peg_radius", "flap_stiffness", "flap_reach"),
            at_least_zero=("drag",),
            further=[
                (len(self.colors) >= 2, "colors", "must be at least two"),
                (set(self.colors) <= set(COLORS), "colors", f"must be among {known}"),
                (len(self.weights) == len(self.colors), "weights", "must be as many as the colors"),
                (all(w > 0.0 for w in self.weights), "weights", "must be larger than 0"),
                (math.isfinite(self.phase), "phase", "must be finite"),
                (self.pointer < 0.1 * self.radius, "pointer", "must be less than a tenth of the wheel's radius"),
                (type(self.pegs) is int and (self.pegs == 0 or 3 <= self.pegs <= 200), "pegs", "must be 0, or from 3 to 200"),
            ],
        )
        if self.pegs:
            check_fields(self, further=self._pegs_fit())

    def _pegs_fit(self) -> list[tuple[bool, str, str]]:
        """Return what must hold of pegs and flapper: (does it, parameter, what it must be)."""
        place = math.remainder(self.phase - math.pi / 2.0, self.spacing)
        room = self.spacing * self.peg_circle - 2.0 * self.peg_radius
        return [
            (
                self.flap_reach >= 2.0 * self.peg_radius,
                "flap_reach",
                "must be at least a peg's diameter, to swing back behind it",
            ),
            (self.flap_reach < room, "flap_reach", f"must be less than the {room:g} m between two pegs"),
            (self.flap_reach < 0.5 * POINTER_LENGTH, "flap_reach", "must be less than half the flapper's length, .055 m"),
            (self.flap_rate > self.drag**2 / 4.0, "flap_stiffness", "must make the wheel swing against its drag"),
            (abs(place) > self.peg_half, "phase", "must leave the flapper between two pegs: one stands under it"),
        ]

    @property
    def facts(self) -> tuple[str, ...]:
        """The colours, each once, in the order of the sectors."""
        return tuple(dict.fromkeys(self.colors))

    @property
    def edges(self) -> Array:
        """Sector edges (k + 1,) in turns, counterclockwise from the wheel's own x axis."""
        return np.concatenate([[0.0], np.cumsum(self.weights) / math.fsum(self.weights)])

    @property
    def fact_of_sector(self) -> IntArray:
        """The position in `facts` of each sector's colour (k,)."""
        return np.array([self.facts.index(color) for color in self.colors])

    @property
    def phase_at_release(self) -> float:
        """Where the first sector's edge stands [rad] when the hand lets go."""
        return self.phase - SWEEP

    @property
    def tip(self) -> float:
        """Half the angle [turns] that the pointer's tip covers on the rim."""
        return self.pointer / self.radius / (2.0 * math.pi)

    @property
    def peg_circle(self) -> float:
        """Radius [m] of the circle that the pegs' middles stand on."""
        return self.radius - RIM

    @property
    def spacing(self) -> float:
        """Angle [rad] from peg to peg."""
        return 2.0 * math.pi / self.pegs

    @property
    def peg_half(self) -> float:
        """Half the angle [rad] that a peg covers, seen from the axle."""
        return self.peg_radius / self.peg_circle

    @property
    def slip(self) -> float:
        """Angle [rad] that a peg pushes the flapper along before it slips off."""
        return self.flap_reach / self.peg_circle

    @property
    def flap_rate(self) -> float:
        """The flapper's torque over angle and the wheel's moment of inertia, m r^2 / 2 [1/s^2]."""
        return self.flap_stiffness * self.peg_circle**2 / (0.5 * self.mass * self.radius**2)

    @property
    def click_energy(self) -> float:
        """Energy [J] that each passing peg leaves in the flapper, where it is lost: k s^2 / 2."""
        return 0.5 * self.flap_stiffness * self.flap_reach**2

    @property
    def flap_length(self) -> float:
        """Length [m] of the flapper: as it slips off, its tip lies on the circle of the pegs' middles."""
        lifted = self.peg_circle * math.cos(self.slip)
        return math.hypot(self.peg_circle * math.sin(self.slip), self.peg_circle + POINTER_LENGTH - lifted)

    def peg_ahead(self, angle: float) -> float:
        """Return the wheel's angle [rad] at which the peg counterclockwise of the flapper would stand under it.

        The wheel has come to `angle` clockwise from `phase`, and each peg has pushed the flapper until it slipped off.
        """
        first = self.phase - math.fmod(math.fmod(self.phase - math.pi / 2.0, self.spacing) + self.spacing, self.spacing)
        clicks = math.ceil((self.peg_half - self.slip - (angle - first)) / self.spacing)
        return first - self.spacing * max(clicks, 0)

    def flapped(self, angle: float) -> Quat:
        """Return the flapper's orientation in the prelude, where the wheel stands at `angle` [rad]."""
        pushed = max(self.peg_half - (angle - self.peg_ahead(angle)), 0.0)  # clockwise, so to the viewer's right
        tilt = -math.asin(pushed * self.peg_circle / self.flap_length)
        return tuple(rotation.about((0.0, 1.0, 0.0), tilt).tolist())

    def world(self) -> World:
        """Return stand, pointer, wheel and hand."""
        r, hub = self.radius, self.radius + 0.10  # the axle's height above the table
        axle: Vec3 = (0.0, 0.0, hub)
        share = self.edges[1:] - self.edges[:-1]
        sectors = tuple(Sector(float(s), COLORS[c]) for s, c in zip(share, self.colors, strict=True))
        face = Material(color=COLORS[self.colors[0]], texture="sectors", sectors=sectors, roughness=0.5)
        behind = THICKNESS / 2.0 + 0.012
        stand = (
            Part(Box((1.6, 1.0, 0.04)), (0.0, 0.25, -0.02), material=TABLE),
            Part(Box((1.6, 0.04, 1.4)), (0.0, 0.55, 0.7), material=WALL),
            Part(Box((0.30, 0.16, 0.03), 0.006), (0.0, behind, 0.015), material=WOOD),
            Part(Box((0.05, 0.02, hub + r + 0.075), 0.005), (0.0, behind, (hub + r + 0.075) / 2.0), material=WOOD),
        )
        tip = hub + (r - 0.018 if self.pegs == 0 else self.peg_circle)
        neck = Part(
            Box((0.024, behind + THICKNESS + 0.014, 0.022), 0.004),
            (0.0, 0.0, tip + POINTER_LENGTH + 0.009),
            material=POINTER,
        )
        released = self.turned(self.phase_at_release)
        wheel = Body(
            "wheel",
            (
                Part(Cylinder(r, THICKNESS, 0.002), material=face),
                Part(Cylinder(0.022, THICKNESS + 0.012, 0.003), material=STEEL),
                *self._pegs(),
            ),
            mass=self.mass,
            position=axle,
            quaternion=released,
        )
        reached = self._hand()
        start = self._at_rim(0.0)
        share_of = [(i / 8.0) ** 2 for i in range(9)]  # evenly accelerated
        times = tuple(-SWEEP_TIME * (1.0 - i / 8.0) for i in range(9))
        turns = tuple(self.turned(self.phase - SWEEP * s) for s in share_of)
        along = tuple(self._at_rim(-SWEEP * s) for s in share_of)
        gone: Vec3 = (along[-1][0] + 0.9, along[-1][1] - 0.05, along[-1][2] - 0.35)
        still = (rotation.IDENTITY,) * 11
        loose: tuple[Body, ...]
        if self.pegs:
            shown = np.linspace(0.0, 1.0, FLAPPER_SHOWN)
            angles = [self.phase - SWEEP * float(s) ** 2 for s in shown]
            flaps = tuple(self.flapped(angle) for angle in angles)
            spun = (-HOLD, *(-SWEEP_TIME * (1.0 - float(s)) for s in shown))
            flapper = self._pointer(self.flap_length, (0.0, 0.0, -self.flap_length))
            held: Vec3 = (0.0, POINTER_PLACE, tip + POINTER_LENGTH)
            loose = (wheel, Body("flapper", (flapper,), FLAPPER_MASS, held, flaps[-1], collides=False))
            fixed: tuple[Part, ...] = (neck,)
            flapping = {"flapper": Move(spun, (held,) * len(spun), (flaps[0], *flaps), eased=False)}
        else:
            loose, fixed, flapping = (wheel,), (self._pointer(POINTER_LENGTH, (0.0, POINTER_PLACE, tip)), neck), {}
        return World(
            bodies=(
                Body("stand", stand, collides=False),
                Body("pointer", fixed, collides=False),
                *loose,
                Body("hand", reached, position=start, collides=False),
            ),
            bounds=((-1.0, -1.0, -0.1), (1.0, 1.0, hub + 2.0 * r)),
            moves={
                "wheel": Move((-HOLD, *times), (axle,) * 10, (turns[0], *turns), eased=False),
                "hand": Move((-HOLD, *times, CLEAR), (start, *along, gone), still, eased=False),
            }
            | flapping,
        )

    def _pointer(self, length: float, tip: Vec3) -> Part:
        """Return a pointer of that length [m], its tip down."""
        return Part(Lathe(((0.0, 0.0), (self.pointer, 0.001), (0.012, length), (0.0, length))), tip, material=POINTER)

    def _pegs(self) -> tuple[Part, ...]:
        """Return the pegs in the wheel's own axes, the first on its x axis."""
        at = [i * 2.0 * math.pi / self.pegs for i in range(self.pegs)]
        peg, out = Cylinder(self.peg_radius, 0.020, 0.001), THICKNESS / 2.0 + 0.009
        return tuple(Part(peg, (self.peg_circle * math.cos(a), self.peg_circle * math.sin(a), out), material=STEEL) for a in at)

    def turned(self, angle: float) -> Quat:
        """Return the wheel's orientation with its first sector's edge at `angle` [rad] counterclockwise from the right."""
        return tuple(rotation.multiply(FACING, rotation.about((0.0, 0.0, 1.0), angle)).tolist())

    def _at_rim(self, angle: float) -> Vec3:
        """Return where the hand's fingertips lie on the wheel's face after it has gone `angle` [rad] counterclockwise."""
        at, place = 0.35 + angle, self.radius - 0.02
        hub = self.radius + 0.10
        return (place * math.cos(at), -THICKNESS / 2.0 - FINGER, hub + place * math.sin(at))

    def _hand(self) -> tuple[Part, ...]:
        """Return a hand that reaches the rim from the viewer's right."""
        leftwards = tuple(rotation.about((0.0, 1.0, 0.0), 1.9).tolist())
        return hand((-0.024, -0.008, 0.008, 0.024), leftwards)

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the wheel as the hand leaves it, turning clockwise (n rows)."""
        world = self.world()
        omega = np.zeros((len(launch["speed"]), len(world.moving), 3))
        omega[:, world.loose[0], 1] = launch["speed"]  # clockwise for a viewer at -y is right-handed about +y
        return State.at_release(world, len(omega), omega=omega)

    def read(self, state: State) -> IntArray:
        """Return the colour under the pointer; ON_EDGE within its tip of a boundary, UNDECIDED while the wheel is fast."""
        x, y, z, w = np.moveaxis(state.quat[:, 0], -1, 0)  # the wheel is the world's first moving body
        angle = np.arctan2(2.0 * (x * z - w * y), 1.0 - 2.0 * (y * y + z * z))
        under = np.mod(0.25 - angle / (2.0 * math.pi), 1.0)  # turns, in the wheel's own axes
        edges = self.edges
        sector = np.clip(np.searchsorted(edges, under, side="right") - 1, 0, len(self.colors) - 1)
        off = np.minimum(under - edges[sector], edges[sector + 1] - under)
        shown = np.where(off < self.tip, ON_EDGE, self.fact_of_sector[sector])
        return np.where(np.abs(state.omega[:, 0, 1]) < SLOW, shown, UNDECIDED)


WOOD = Material(color=(0.48, 0.31, 0.18), texture="wood", accent=(0.35, 0.22, 0.12), roughness=0.7)
TABLE = Material(color=(0.62, 0.47, 0.32), texture="wood", accent=(0.50, 0.36, 0.23), roughness=0.7)
WALL = Material(color=(0.80, 0.80, 0.77), roughness=1.0)
STEEL = Material(color=(0.70, 0.71, 0.73), texture="brushed", accent=(0.55, 0.56, 0.58), roughness=0.3)
POINTER = Material(color=(0.14, 0.14, 0.16), roughness=0.4)
