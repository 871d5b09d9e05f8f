"""A peg board (quincunx): a ball let go above rows of pegs that ends in one of the bins. Knows its bins, not their odds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, get_args

import numpy as np

from simulators import rotation
from simulators.device import IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.devices.regions import Region, read_regions
from simulators.rotation import IDENTITY, Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Cylinder, Material, Move, Part, Quat, Sphere, Surface, Vec3, World

CLEARANCE = 2.2  # ball radii: the narrowest passage a board may have; anything tighter is a jam in waiting
ALONG_Y: Quat = tuple(rotation.about((1.0, 0.0, 0.0), math.pi / 2.0).tolist())
HOLD = 0.5  # s: how long before the release a clip starts
SLIDE = 3.3  # the gate slides for that many times sqrt(ball radius / 9.81 m/s^2) before the release, and as long after it
Lattice = Literal["full", "triangle", "funnel", "row", "empty"]
Look = Literal["wood", "metal", "flat"]
TRAVEL = 5.0  # ball radii: with `SLIDE`, fast enough that the plate never cuts into the falling ball


@dataclass(frozen=True)
class PegBoard:
    """A ball on a sliding gate above a staggered lattice of pegs, bins below; an upright board, seen from the front.

    Setup (SI): `rows` of pegs of `peg_radius`, `spacing` apart and staggered by half of it, rows `row_spacing` apart;
    `rows` + 1 bins as wide as the spacing, `bin_depth` deep, their dividers half a row below the last pegs (too near for
    the ball to pass between); side walls at the outer bins' outer edges. `lattice` is `full` (every row spans the board;
    a peg that would leave the ball no passage at the wall is left out), `triangle` (1, 2, 3 ... pegs, nothing beside them),
    `funnel` (the triangle between two rails, which run where the next pegs of its rows would stand), `row` (the last row of
    the triangle alone: one peg above each divider) or `empty` (no pegs). The ball of `ball_radius` and `ball_density` waits
    `drop` above the first row's centres and `offset` to the right of the middle. `restitution` and `friction` are those of
    the ball with pegs, walls and dividers, `floor_restitution` with the bins' floor, a lining on which alone the ball has
    `rolling_friction` [m]. `look` is `wood`, `metal` or `flat`, `sign` is written on a plate above the board, and a `hood`
    in front of the waiting ball hides where it starts (but for a soft shadow); none of these changes the physics.
    Random at the launch: `release_x` [m], where the ball lies on the gate, measured from its nominal place.
    Outcomes: the bins, "1" leftmost. A state shows one once the whole ball is below the tops of the dividers.
    No outcome: `stuck` (at rest on a peg), `left_apparatus` (over a wall), `unsettled`.
    Known gap: the motion is planar (no touch of back plate or glass), pegs are rigid, the gate's friction is left out.
    """

    rows: int
    spacing: float
    row_spacing: float
    peg_radius: float
    ball_radius: float
    ball_density: float
    bin_depth: float
    drop: float
    restitution: float
    floor_restitution: float
    friction: float
    rolling_friction: float
    readout: Readout
    random: Mapping[str, Distribution]
    offset: float = 0.0
    lattice: Lattice = "full"
    look: Look = field(default="wood", metadata={"physics": False})
    sign: str = field(default="", metadata={"physics": False})
    hood: bool = field(default=False, metadata={"physics": False})

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("release_x",)
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        lengths = ("spacing", "row_spacing", "peg_radius", "ball_radius", "ball_density", "bin_depth", "drop")
        check_fields(
            self,
            positive=lengths,
            share=("restitution", "floor_restitution"),
            at_least_zero=("friction", "rolling_friction"),
            further=self._proportions()
            if all(isinstance(getattr(self, name), (int, float)) for name in (*lengths, "rows", "offset", "restitution"))
            else [],
        )

    def _proportions(self) -> list[tuple[bool, str, str]]:
        passage, ball = CLEARANCE * self.ball_radius, self.ball_radius
        whole = isinstance(self.rows, int) and not isinstance(self.rows, bool)
        diagonal = math.hypot(self.spacing / 2.0, self.row_spacing) - 2.0 * self.peg_radius
        under = self.row_spacing / 2.0 - 1.5 * self.peg_radius
        return [
            (whole and self.rows >= 1, "rows", "must be an integer of at least 1"),
            (self.lattice in get_args(Lattice), "lattice", f"must be one of {', '.join(get_args(Lattice))}"),
            (self.look in get_args(Look), "look", f"must be one of {', '.join(get_args(Look))}"),
            (self.readout in ("first", "rest"), "readout", "must be 'first' or 'rest'"),
            (
                self.spacing - 2.0 * self.peg_radius >= passage,
                "spacing",
                f"must leave {passage:g} m between pegs (1.1 ball diameters)",
            ),
            (diagonal >= passage, "row_spacing", f"must leave {passage:g} m between pegs of neighbouring rows"),
            (under < 2.0 * ball, "row_spacing", "must not let the ball pass between the last pegs and the dividers"),
            (0.0 < ball < 0.2, "ball_radius", "must be less than 0.2 m, so that the gate opens within the half second before"),
            (self.bin_depth >= 3.0 * ball, "bin_depth", f"must be at least 1.5 ball diameters ({3.0 * ball:g} m)"),
            (
                self.drop > ball + self.peg_radius + self.gate_thickness,
                "drop",
                f"must be more than {ball + self.peg_radius + self.gate_thickness:g} m (the gate lies above the first peg)",
            ),
            (
                self.floor_restitution**2 <= self.restitution,
                "floor_restitution",
                "must be at most the root of `restitution` (a pair's value is the geometric mean of its two sides)",
            ),
            (
                abs(self.offset) <= self.half_width - 2.0 * ball,
                "offset",
                f"must leave the ball between the walls ({self.half_width:g} m from the middle)",
            ),
        ]

    @property
    def facts(self) -> tuple[str, ...]:
        """The bins from the viewer's left, counted from "1"."""
        return tuple(str(bin + 1) for bin in range(self.rows + 1))

    @property
    def half_width(self) -> float:
        """Distance [m] from the middle to the inner face of a side wall."""
        return (self.rows + 1) * self.spacing / 2.0

    @property
    def gate_thickness(self) -> float:
        """Thickness [m] of the gate's plate."""
        return 0.3 * self.ball_radius

    @property
    def release_height(self) -> float:
        """Height [m] of the waiting ball's centre above the bins' floor."""
        return self.row_height(0) + self.drop

    def row_height(self, row: int) -> float:
        """Return the height [m] of the centres of `row`'s pegs (0: the top) above the bins' floor."""
        return self.bin_depth + (self.rows - row - 0.5) * self.row_spacing

    def pegs(self) -> list[tuple[float, float]]:
        """Return the (x, z) of every peg's centre [m], row by row from the top, left to right."""
        outermost = self.half_width - CLEARANCE * self.ball_radius - self.peg_radius
        centres = []
        for row in range(self.rows):
            count = row + 1
            if self.lattice == "full":
                while (count + 1) * self.spacing / 2.0 <= outermost:  # two more still leave a passage at the walls
                    count += 2
            elif self.lattice == "empty" or (self.lattice == "row" and row < self.rows - 1):
                count = 0
            centres += [((j - (count - 1) / 2.0) * self.spacing, self.row_height(row)) for j in range(count)]
        return centres

    def rails(self) -> list[tuple[float, float, float, float]]:
        """Return (x, z, x, z) of both ends of each rail [m]: beside the triangle of a funnel, and upright beside its neck."""
        if self.lattice != "funnel":
            return []
        neck, foot = self.row_height(-1), self.row_height(self.rows - 1)
        slope = (self.spacing / 2.0, neck, self.half_width, foot)
        upright = (self.spacing / 2.0, neck, self.spacing / 2.0, max(neck, self.release_height))
        return [(side * a, b, side * c, d) for side in (-1.0, 1.0) for a, b, c, d in (slope, upright)]

    def world(self) -> World:
        """Return back plate, frame, floor, dividers, pegs, rails, ball, gate and sign."""
        return self._world

    @cached_property
    def _world(self) -> World:
        look = LOOKS[self.look]
        depth, wall, ball = 2.4 * self.ball_radius, 0.3 * self.spacing, self.ball_radius
        width, top = 2.0 * self.half_width, self.release_height + 2.5 * ball
        side, divider = (width + wall) / 2.0, self.peg_radius
        surface = Surface(restitution=self.restitution, friction=self.friction)
        # A pair's value is the geometric mean of the two sides; the ball's own side is `restitution`.
        soft = self.floor_restitution**2 / self.restitution if self.restitution > 0.0 else 0.0

        def box(size: Vec3, position: Vec3, material: Material, fillet: float = 0.0) -> Part:
            return Part(Box(size, fillet), position, material=material)

        back = box((width + 2.0 * wall, wall, top + 2.0 * wall), (0.0, (depth + wall) / 2.0, top / 2.0), look["back"])
        walls = tuple(box((wall, depth, top + 2.0 * wall), (x, 0.0, top / 2.0), look["frame"]) for x in (-side, side))
        floor = box((width, depth, wall), (0.0, 0.0, -wall / 2.0), look["frame"])
        dividers = tuple(
            box(
                (divider, depth, self.bin_depth),
                ((k - (self.rows - 1) / 2.0) * self.spacing, 0.0, self.bin_depth / 2.0),
                look["divider"],
                0.49 * divider,  # a rounded top: nothing can balance on it
            )
            for k in range(self.rows)
        )
        pegs = tuple(Part(Cylinder(self.peg_radius, depth), (x, 0.0, z), ALONG_Y, look["peg"]) for x, z in self.pegs())
        rails = tuple(self._rail(*ends, look["peg"]) for ends in self.rails())
        mass = self.ball_density * 4.0 / 3.0 * math.pi * ball**3
        released: Vec3 = (self.offset, 0.0, self.release_height)
        gate, move = self._gate(depth, look)
        return World(
            bodies=(
                Body("back", (back,), collides=False),
                Body("frame", walls, surface=surface),
                Body("floor", (floor,), surface=Surface(soft, self.friction, rolling_friction=self.rolling_friction)),
                Body("dividers", dividers, surface=surface),
                Body("pegs", pegs + rails, surface=surface),
                Body(
                    "ball",
                    (Part(Sphere(ball), material=look["ball"]),),
                    mass=mass,
                    position=released,
                    surface=surface,
                ),
                gate,
                *((Body("sign", (self._sign(width, top + wall),), collides=False),) if self.sign else ()),
                *((Body("hood", (self._hood(depth, look["frame"]),), collides=False),) if self.hood else ()),
            ),
            bounds=((-side - wall / 2.0, -depth, -wall), (side + wall / 2.0, depth, top + 4.0 * self.drop)),
            moves={"gate": move},
            planar=True,
        )

    def _rail(self, x0: float, z0: float, x1: float, z1: float, material: Material) -> Part:
        """Return a round rod of a peg's radius between two points of the plane."""
        lean = math.atan2(x1 - x0, z1 - z0)
        turn: Quat = tuple(rotation.about((0.0, 1.0, 0.0), lean).tolist())
        return Part(
            Capsule(self.peg_radius, math.hypot(x1 - x0, z1 - z0)), ((x0 + x1) / 2.0, 0.0, (z0 + z1) / 2.0), turn, material
        )

    def _sign(self, width: float, bottom: float) -> Part:
        """Return the plate with the text, in the middle above the board."""
        height = 0.2 * width
        plate = Box((0.8 * width, 0.3 * self.ball_radius, height), 0.1 * self.ball_radius)
        material = Material((0.97, 0.94, 0.82), "sign", (0.12, 0.14, 0.30), 0.8, label=self.sign)
        return Part(plate, (0.0, 0.0, bottom + height / 2.0), material=material)

    def _hood(self, depth: float, material: Material) -> Part:
        """Return the plate in front of ball and gate; what falls comes out below it, above the first pegs."""
        ball = self.ball_radius
        low, high = self.release_height - ball - 1.5 * self.gate_thickness, self.release_height + 2.0 * ball
        return Part(
            Box((8.0 * ball, 0.3 * ball, high - low), 0.1 * ball),
            (self.offset, -(depth + 0.3 * ball) / 2.0, (low + high) / 2.0),
            material=material,
        )

    def _gate(self, depth: float, look: Mapping[str, Material]) -> tuple[Body, Move]:
        """Return the gate's plate with its knob, and its slide: its left edge passes under the ball's centre at t = 0."""
        ball, thickness = self.ball_radius, self.gate_thickness
        slide = SLIDE * math.sqrt(ball / 9.81)
        height = self.release_height - ball - thickness / 2.0
        half = TRAVEL / 2.0 * ball  # an eased move is half way at half time: the release
        length = half + 2.0 * ball
        closed: Vec3 = (self.offset + (2.0 * ball - half) / 2.0, 0.0, height)
        parts = (
            Part(Box((length, depth, thickness), 0.3 * thickness), material=look["gate"]),
            Part(Box((0.5 * ball, depth, 1.1 * ball), 0.2 * ball), (length / 2.0, 0.0, 0.0), material=look["knob"]),
        )
        opened: Vec3 = (closed[0] + 2.0 * half, 0.0, height)
        times = (-HOLD, -slide, slide)
        return Body("gate", parts, position=closed, collides=False), Move(times, (closed, closed, opened), (IDENTITY,) * 3)

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the ball at rest where it lay on the gate (n rows)."""
        world = self.world()
        rows = len(launch["release_x"])
        pos = np.zeros((rows, len(world.moving), 3))
        pos[:, world.loose[0], 0] = launch["release_x"]
        return State.at_release(world, rows, pos=pos)

    def regions(self) -> tuple[Region, ...]:
        """Return where each bin holds the whole ball: below the tops of the dividers."""
        edges = [-self.half_width + bin * self.spacing for bin in range(self.rows + 2)]
        top = self.bin_depth - self.ball_radius
        return tuple(Region(bin, edges[bin], edges[bin + 1], 0.0, top) for bin in range(self.rows + 1))

    def read(self, state: State) -> IntArray:
        """Return the bin that the whole ball is in; UNDECIDED before."""
        ball = state.pos[:, 0]  # the world's first moving body
        return read_regions(self.regions(), ball[:, 0], ball[:, 2])


LOOKS: Mapping[str, Mapping[str, Material]] = {
    "wood": {
        "back": Material((0.87, 0.76, 0.58), "wood", (0.74, 0.60, 0.41), 0.7),
        "frame": Material((0.42, 0.27, 0.16), "wood", (0.30, 0.18, 0.10), 0.6),
        "divider": Material((0.42, 0.27, 0.16), "plain", (0.30, 0.18, 0.10), 0.6),
        "peg": Material((0.80, 0.62, 0.27), "brushed", (0.62, 0.46, 0.18), 0.3),
        "ball": Material((0.80, 0.10, 0.12), "plain", (1.0, 0.8, 0.8), 0.12),
        "gate": Material((0.36, 0.38, 0.42), "brushed", (0.28, 0.30, 0.33), 0.4),
        "knob": Material((0.13, 0.14, 0.16), "plain", roughness=0.5),
    },
    "metal": {
        "back": Material((0.70, 0.72, 0.74), "brushed", (0.62, 0.64, 0.67), 0.5),
        "frame": Material((0.34, 0.36, 0.39), "brushed", (0.28, 0.30, 0.33), 0.4),
        "divider": Material((0.42, 0.45, 0.49), "plain", (0.3, 0.3, 0.3), 0.35),
        "peg": Material((0.22, 0.24, 0.27), "plain", (0.3, 0.3, 0.3), 0.3),
        "ball": Material((0.93, 0.94, 0.96), "plain", (1.0, 1.0, 1.0), 0.08),
        "gate": Material((0.13, 0.28, 0.52), "plain", (0.1, 0.2, 0.4), 0.4),
        "knob": Material((0.10, 0.11, 0.13), "plain", roughness=0.5),
    },
    "flat": {
        "back": Material((0.95, 0.95, 0.93), roughness=1.0),
        "frame": Material((0.30, 0.33, 0.38), roughness=1.0),
        "divider": Material((0.30, 0.33, 0.38), roughness=1.0),
        "peg": Material((0.30, 0.33, 0.38), roughness=1.0),
        "ball": Material((0.13, 0.66, 0.29), roughness=1.0),
        "gate": Material((0.85, 0.48, 0.14), roughness=1.0),
        "knob": Material((0.62, 0.32, 0.08), roughness=1.0),
    },
}
