"""A Y track: a ball let go in a channel that splits in two and ends in trays. It knows its trays, not their odds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, get_args

import numpy as np

from simulators import rotation
from simulators.device import IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.devices.peg_board import ALONG_Y
from simulators.devices.regions import Region, read_regions
from simulators.rotation import IDENTITY, Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Cylinder, Material, Move, Part, Quat, Sphere, Surface, Vec3, World

ROLLING = 5.0 / 7.0  # of the pull along a board is left to a solid ball that rolls on it: m a = m g sin(incline) - (2/5) m a
HOLD = 0.5  # s: how long before the release a clip starts
SLIDE = 3.3  # the gate slides for that many times sqrt(ball radius / pull) before the release, and as long after it
TRAVEL = 5.0  # ball radii: with `SLIDE`, fast enough that the plate never cuts into the moving ball
PASSAGE = 2.2  # ball radii: the narrowest channel a track may have
Look = Literal["wood", "metal"]


@dataclass(frozen=True)
class YTrack:
    """A ball behind a gate in a channel that splits in two; a tilted board with rails on it, seen square-on.

    Setup (SI): on a board inclined by `incline` [rad], rails of half-thickness `rail_radius` with round ends leave a channel of
    inner width `channel`, straight for `inlet` from the waiting ball's centre to where its rails turn outwards. Two branches as
    wide as the channel run off at `angle` from straight down, `branch` long along their outer rails, and end in trays that
    are `tray_depth` deep. The inner rails meet in the divider's tip, which is as round as they are. The ball of `ball_radius`
    and `ball_density` waits on a gate `offset` to the right of the middle. `restitution` and `friction` are those of ball and
    rails, `floor_restitution` of the trays' lined ends, where alone the ball has `rolling_friction` [m]. `look` is `wood` or
    `metal`, and `sign` is written on a plate beside the channel, on the viewer's right; neither changes the physics.
    The ball rolls on the board without slip, so 5/7 of gravity's part along it are left: 5/7 9.81 sin(incline) m/s^2.
    Random at the launch: `release_x` [m], where the ball lies on the gate, measured from its nominal place; `release_vx`
    [m/s], the sideways velocity that the gate leaves it.
    Outcomes: "left" and "right", the trays. A state shows one once the whole ball is below the inner rail's corner.
    No outcome: `stuck` (at rest on the divider's tip or elsewhere), `left_apparatus`, `unsettled`.
    Known gap: the roll on the board is in the pull alone: at a rail the ball's spin about the board's own axes is left out, and
    so is its grip on the board. Rails are rigid, and nothing rubs while the gate opens.
    """

    ball_radius: float
    ball_density: float
    incline: float
    channel: float
    inlet: float
    angle: float
    branch: float
    rail_radius: float
    tray_depth: float
    restitution: float
    floor_restitution: float
    friction: float
    rolling_friction: float
    readout: Readout
    random: Mapping[str, Distribution]
    offset: float = 0.0
    look: Look = field(default="wood", metadata={"physics": False})
    sign: str = field(default="", metadata={"physics": False})

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("release_x", "release_vx")
    facts: ClassVar[tuple[str, ...]] = ("left", "right")
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        lengths = ("ball_radius", "ball_density", "channel", "inlet", "branch", "rail_radius", "tray_depth")
        angles = ("incline", "angle")
        numbers = (*lengths, *angles, "restitution", "floor_restitution", "offset")
        check_fields(
            self,
            positive=(*lengths, *angles),
            share=("restitution", "floor_restitution"),
            at_least_zero=("friction", "rolling_friction"),
            further=self._proportions() if all(isinstance(getattr(self, name), (int, float)) for name in numbers) else [],
        )

    def _proportions(self) -> list[tuple[bool, str, str]]:
        ball = self.ball_radius
        return [
            (self.look in get_args(Look), "look", f"must be one of {', '.join(get_args(Look))}"),
            (self.readout in ("first", "rest"), "readout", "must be 'first' or 'rest'"),
            (0.0 < self.incline <= 1.0, "incline", "must be in (0, 1] rad: on a steeper board no ball rolls without slip"),
            (0.2 <= self.angle <= 1.3, "angle", "must be in [0.2, 1.3] rad"),
            (self.channel >= PASSAGE * ball, "channel", f"must be at least {PASSAGE * ball:g} m (1.1 ball diameters)"),
            (self.inlet >= 3.0 * ball, "inlet", f"must be at least {3.0 * ball:g} m (1.5 ball diameters)"),
            (self.tray_depth >= 3.0 * ball, "tray_depth", f"must be at least {3.0 * ball:g} m (1.5 ball diameters)"),
            (
                self.half_width > 1.5 * self._pitch,
                "branch",
                "must be so long that each tray lies wholly to its side of the channel",
            ),
            (
                self.floor_restitution**2 <= self.restitution,
                "floor_restitution",
                "must be at most the root of `restitution` (a pair's value is the geometric mean of its two sides)",
            ),
            (
                abs(self.offset) <= self.channel / 2.0 - ball,
                "offset",
                f"must leave the ball in the channel, so be at most {self.channel / 2.0 - ball:g} m",
            ),
        ]

    @property
    def pull(self) -> float:
        """What accelerates the ball down the board [m/s^2]: 5/7 g sin(incline)."""
        return ROLLING * 9.81 * math.sin(self.incline)

    @property
    def _pitch(self) -> float:
        """Distance [m] between the middle lines of a passage's two rails."""
        return self.channel + 2.0 * self.rail_radius

    @property
    def half_width(self) -> float:
        """Distance [m] from the middle to the middle line of a tray's outer rail."""
        return self._pitch / 2.0 + self.branch * math.sin(self.angle)

    @property
    def tip_height(self) -> float:
        """Height [m] up the board of the centre of the divider's round tip, above the trays' ends."""
        return self.tray_depth + (self.half_width - self._pitch) / math.tan(self.angle)

    @property
    def mouth_height(self) -> float:
        """Height [m] up the board at which the channel's rails turn outwards."""
        return self.tip_height + self._pitch / math.sin(self.angle) - self._pitch / 2.0 / math.tan(self.angle)

    @property
    def release_height(self) -> float:
        """Height [m] up the board of the waiting ball's centre."""
        return self.mouth_height + self.inlet

    def _detour(self) -> tuple[tuple[float, float], ...]:
        """Return the corners (x, z) [m] of the right rail between its top and the fork: none, the channel is straight."""
        return ()

    def _island(self, depth: float, material: Material) -> tuple[Part, ...]:
        """Return what parts the channel above the fork: nothing."""
        return ()

    def world(self) -> World:
        """Return back plate, rails, the trays' ends, ball, gate and sign, in the board's own upright axes."""
        return self._world

    @cached_property
    def _world(self) -> World:
        look, ball, rail = LOOKS[self.look], self.ball_radius, self.rail_radius
        depth, side, inner, half = 2.4 * ball, self.half_width, self.half_width - self._pitch, self._pitch / 2.0
        top, corner = self.release_height + 2.0 * ball, self.mouth_height - self.branch * math.cos(self.angle)
        surface = Surface(restitution=self.restitution, friction=self.friction)
        # A pair's value is the geometric mean of the two sides; the ball's own side is `restitution`.
        soft = self.floor_restitution**2 / self.restitution if self.restitution > 0.0 else 0.0
        outer = ((half, top), *self._detour(), (half, self.mouth_height), (side, corner), (side, 0.0))
        divider = ((0.0, self.tip_height), (inner, self.tray_depth), (inner, 0.0))
        tip = Part(Cylinder(1.001 * rail, depth), (0.0, 0.0, self.tip_height), ALONG_Y, look["divider"])  # one round, not two
        back = Box((2.0 * (side + 3.0 * ball), rail, top + 6.0 * ball), 0.3 * rail)
        floor = Box((self._pitch + 2.0 * rail, depth, 2.0 * rail), 0.3 * rail)
        gate, move = sliding_gate(ball, self.offset, self.release_height, self.pull, depth, look)
        released: Vec3 = (self.offset, 0.0, self.release_height)
        return World(
            bodies=(
                Body("back", (Part(back, (0.0, (depth + rail) / 2.0, top / 2.0), material=look["back"]),), collides=False),
                Body("rails", both_sides(outer, rail, depth, look["rail"]), surface=surface),
                Body(
                    "divider",
                    (tip, *both_sides(divider, rail, depth, look["divider"]), *self._island(depth, look["divider"])),
                    surface=surface,
                ),
                Body(
                    "floor",
                    tuple(Part(floor, (s * (side - half), 0.0, -rail), material=look["rail"]) for s in (-1.0, 1.0)),
                    surface=Surface(soft, self.friction, rolling_friction=self.rolling_friction),
                ),
                Body(
                    "ball",
                    (Part(Sphere(ball), material=look["ball"]),),
                    mass=self.ball_density * 4.0 / 3.0 * math.pi * ball**3,
                    position=released,
                    surface=surface,
                ),
                gate,
                *((Body("sign", (self._sign(depth),), collides=False),) if self.sign else ()),
            ),
            bounds=((-side - rail, -depth, -rail), (side + rail, depth, top + 4.0 * ball)),
            moves={"gate": move},
            gravity=self.pull,
            planar=True,
        )

    def _sign(self, depth: float) -> Part:
        """Return the plate with the text, on the board to the right of the channel."""
        left = self._pitch / 2.0 + 4.0 * self.rail_radius
        width = self.half_width + 2.0 * self.ball_radius - left
        plate = Box((width, 0.3 * depth, 0.5 * width), 0.02 * width)
        material = Material((0.97, 0.94, 0.82), "sign", (0.12, 0.14, 0.30), 0.8, label=self.sign)
        return Part(plate, (left + width / 2.0, 0.3 * depth, self.mouth_height + 0.1 * width), material=material)

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the ball where it lay on the gate, with the sideways velocity that it was left (n rows)."""
        world = self.world()
        pos, vel = np.zeros((2, len(launch["release_x"]), len(world.moving), 3))
        pos[:, world.loose[0], 0] = launch["release_x"]
        vel[:, world.loose[0], 0] = launch["release_vx"]
        return State.at_release(world, len(pos), pos=pos, vel=vel)

    def regions(self) -> tuple[Region, ...]:
        """Return where each tray holds the whole ball: below the inner rails' corners."""
        side, inner, top = self.half_width, self.half_width - self._pitch, self.tray_depth - self.ball_radius
        return Region(0, -side, -inner, 0.0, top), Region(1, inner, side, 0.0, top)

    def read(self, state: State) -> IntArray:
        """Return the tray that the whole ball is in; UNDECIDED before."""
        ball = state.pos[:, 0]  # the world's first moving body
        return read_regions(self.regions(), ball[:, 0], ball[:, 2])


def plank(a: tuple[float, float], b: tuple[float, float], radius: float, depth: float, material: Material) -> Part:
    """Return a board on edge from (x, z) `a` to `b` [m], 2 `radius` thick, its ends round about them."""
    lean = math.atan2(b[0] - a[0], b[1] - a[1])
    turn: Quat = tuple(rotation.about((0.0, 1.0, 0.0), lean).tolist())
    size = (2.0 * radius, depth, math.dist(a, b) + 2.0 * radius)
    # A fillet of the whole radius would leave the box no core along its thickness.
    return Part(Box(size, 0.999 * radius), ((a[0] + b[0]) / 2.0, 0.0, (a[1] + b[1]) / 2.0), turn, material)


def both_sides(line: tuple[tuple[float, float], ...], radius: float, depth: float, material: Material) -> tuple[Part, ...]:
    """Return planks along the corners (x, z) of `line` and their mirror images."""
    return tuple(
        plank((s * a[0], a[1]), (s * b[0], b[1]), radius, depth, material)
        for s in (-1.0, 1.0)
        for a, b in itertools.pairwise(line)
    )


def sliding_gate(
    ball: float, x: float, height: float, pull: float, depth: float, look: Mapping[str, Material]
) -> tuple[Body, Move]:
    """Return a gate's plate with its knob under a ball at (x, height), and its slide to the right.

    Its left edge passes under the ball's centre at t = 0.
    """
    thickness = 0.3 * ball
    slide = min(SLIDE * math.sqrt(ball / pull), HOLD)
    level = height - ball - thickness / 2.0
    half = TRAVEL / 2.0 * ball  # an eased move is half way at half time: the release
    length = half + 2.0 * ball
    closed: Vec3 = (x + (2.0 * ball - half) / 2.0, 0.0, level)
    parts = (
        Part(Box((length, 1.1 * depth, thickness), 0.3 * thickness), material=look["gate"]),
        Part(Box((0.5 * ball, 1.1 * depth, 1.1 * ball), 0.2 * ball), (length / 2.0, 0.0, 0.0), material=look["knob"]),
    )
    opened: Vec3 = (closed[0] + 2.0 * half, 0.0, level)
    times = (-1.2 * HOLD, -slide, slide)
    return Body("gate", parts, position=closed, collides=False), Move(times, (closed, closed, opened), (IDENTITY,) * 3)


LOOKS: Mapping[str, Mapping[str, Material]] = {
    "wood": {
        "back": Material((0.90, 0.80, 0.63), "wood", (0.79, 0.66, 0.47), 0.7),
        "rail": Material((0.47, 0.29, 0.16), "wood", (0.36, 0.21, 0.11), 0.6),
        "divider": Material((0.24, 0.42, 0.55), "plain", roughness=0.55),
        "ball": Material((0.82, 0.10, 0.11), "plain", (1.0, 0.8, 0.8), 0.12),
        "gate": Material((0.36, 0.38, 0.42), "brushed", (0.28, 0.30, 0.33), 0.4),
        "knob": Material((0.13, 0.14, 0.16), "plain", roughness=0.5),
    },
    "metal": {
        "back": Material((0.17, 0.27, 0.36), "plain", roughness=0.9),
        "rail": Material((0.66, 0.70, 0.74), "plain", roughness=0.5),
        "divider": Material((0.86, 0.55, 0.16), "plain", roughness=0.5),
        "ball": Material((0.90, 0.91, 0.93), "plain", (1.0, 1.0, 1.0), 0.06),
        "gate": Material((0.75, 0.20, 0.15), "plain", roughness=0.5),
        "knob": Material((0.45, 0.10, 0.08), "plain", roughness=0.5),
    },
}
