"""A spinning top on a round tray whose floor is painted in sectors. Knows its sectors, not their odds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import ON_EDGE, STUCK, UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.rotation import IDENTITY, Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Cylinder, Lathe, Material, Move, Part, Quat, Sector, Surface, Vec3, World

HELD, TWIST, CLEAR = 0.6, 0.15, 0.35  # s: fingers round the stem, twisting it, and their way out of the picture
LINE = 0.35e-3  # m: a pixel of the source image; nearer to a line than this nobody can say on which side the centre is
FALLEN = 0.93  # a lying top's axis has this much of the upright or less
SLOW = 0.02  # m/s
PLATE = 0.02  # m: thickness of the tray's floor
WALL_PIECES = 48


@dataclass(frozen=True)
class Top:
    """A top spun by two fingers in the middle of a tray; it wanders, precesses, falls, rolls on its rim and comes to rest.

    Setup (SI): a solid of revolution and uniform `density`: a tip of `tip_radius`, a sharp rim of `rim_radius`
    `tip_length` above the tip's end, cones between them and up to a stem of `stem_radius` that ends `stem_length` above the
    rim. The tray's flat floor of `tray_radius` has an upright wall of `wall_height`; its sectors, `shares` of the turn
    counterclockwise from +x (the viewer's right), are painted `colors`. Restitution and friction are the pair's;
    `turning_friction` [m] resists rolling and spinning at every touching point. Random at the launch, all as velocities, so
    that frame 0 is one picture: `spin` [rad/s] about the axis (against the clock where `direction` is 1), `kick_x`, `kick_y`
    [rad/s] across it, `drift_x`, `drift_y` [m/s].
    Outcomes: the sector that the centre of the top lies in at rest. A spinning top stands in a sector that it will leave, and
    an instant does not show which: so not the first sector held but the one at rest counts. `first` is the first instant that
    the top has fallen and its centre is slower than .02 m/s.
    No outcome: `on_edge` (the centre within .35 mm of a line: a pixel), `stuck` (standing, or on the wall),
    `left_apparatus` (over the wall), `unsettled`.
    Known gap: no air drag; the fingers leave without friction; floor and wall are rigid and level.
    """

    tip_radius: float
    tip_length: float
    rim_radius: float
    stem_radius: float
    stem_length: float
    density: float
    tray_radius: float
    wall_height: float
    shares: tuple[float, ...]
    colors: tuple[str, ...]
    restitution: float
    friction: float
    turning_friction: float
    random: Mapping[str, Distribution]
    direction: float = 1.0

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("spin", "kick_x", "kick_y", "drift_x", "drift_y")
    readout: ClassVar[Readout] = "rest"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "shares", tuple(self.shares))
        object.__setattr__(self, "colors", tuple(self.colors))
        check_fields(
            self,
            positive=(
                "tip_radius", "tip_length", "rim_radius", "stem_radius", "stem_length", "density", "tray_radius", "wall_height",
            ),
            share=("restitution",),
            at_least_zero=("friction", "turning_friction"),
            further=[
                (abs(self.direction) == 1.0, "direction", "must be 1.0 (counterclockwise) or -1.0"),
                (min(self.shares, default=0.0) > 0.0, "shares", "must be larger than 0"),
                (abs(sum(self.shares) - 1.0) < 1e-9, "shares", "must sum to 1"),
                (len(self.colors) == len(set(self.colors)) == len(self.shares), "colors", "must be one a share, no two alike"),
                (set(self.colors) <= set(COLORS), "colors", f"must be of {', '.join(COLORS)}"),
                (self.tray_radius > 2.0 * self.rim_radius, "tray_radius", "must be more than the top's diameter"),
                (self.tip_length > 2.0 * self.tip_radius, "tip_length", "must be more than the tip's diameter"),
                (self.rim_radius > self.stem_radius, "rim_radius", "must be more than the stem's"),
            ],
        )  # fmt: skip

    @property
    def facts(self) -> tuple[str, ...]:
        """The sectors' colours, counterclockwise from +x."""
        return self.colors

    def profile(self) -> tuple[tuple[float, float], ...]:
        """Return the half section (r, z) [m], z from the tip's end, up the outside from axis to axis."""
        tip = [(self.tip_radius * math.sin(a), self.tip_radius * (1.0 - math.cos(a))) for a in (0.0, 0.35, 0.7, 1.05)]
        top = self.tip_length + self.stem_length
        stem = [(self.stem_radius, top - self.stem_length / 2.0), (self.stem_radius, top - self.stem_radius)]
        end = [(self.stem_radius * math.cos(a), top - self.stem_radius * (1.0 - math.sin(a))) for a in (0.5, 1.0)]
        return (*tip, (self.rim_radius, self.tip_length), *stem, *end, (0.0, top))

    def solid(self) -> tuple[float, float, float, float]:
        """Return mass [kg], height of the centre of mass above the tip [m], moments [kg m^2] about the axis and across it."""
        nodes, weights = np.polynomial.legendre.leggauss(4)  # exact: the integrands are polynomials of degree up to 4
        mass = first = axial = across = 0.0
        profile = self.profile()
        for (r0, z0), (r1, z1) in pairwise(profile):
            share = 0.5 * (nodes + 1.0)
            r, z, dz = r0 + share * (r1 - r0), z0 + share * (z1 - z0), 0.5 * weights * (z1 - z0) * self.density * math.pi
            mass += float(np.sum(dz * r**2))
            first += float(np.sum(dz * r**2 * z))
            axial += float(np.sum(dz * r**4)) / 2.0
            across += float(np.sum(dz * (r**4 / 4.0 + r**2 * z**2)))
        centre = first / mass
        return mass, centre, axial, across - mass * centre**2

    def lines(self) -> Array:
        """Return the azimuths (k,) [rad] at which the sectors begin."""
        return 2.0 * math.pi * np.concatenate([[0.0], np.cumsum(self.shares)[:-1]])

    def world(self) -> World:
        """Return tray, top and two fingers."""
        mass, centre, axial, across = self.solid()
        surface = Surface(self.restitution, self.friction)
        sectors = tuple(Sector(s, COLORS[c]) for s, c in zip(self.shares, self.colors, strict=True))
        floor = Cylinder(self.tray_radius + 0.004, PLATE)
        painted = Material(texture="sectors", sectors=sectors, roughness=0.55)
        inner, outer = self.tray_radius, self.tray_radius + 0.010
        rim = Lathe(((inner, -PLATE), (inner, self.wall_height), (outer, self.wall_height), (outer, -PLATE)))
        # An engine collides with boxes that stand inside the drawn wall, faces tangent to its inner side.
        piece = Box((0.008, 2.0 * (inner + 0.008) * math.tan(math.pi / WALL_PIECES), self.wall_height + PLATE))
        pieces = []
        for k in range(WALL_PIECES):
            azimuth = 2.0 * math.pi * k / WALL_PIECES
            place = (inner + 0.004) * np.array([math.cos(azimuth), math.sin(azimuth)])
            turned = _quat(rotation.about((0.0, 0.0, 1.0), azimuth))
            pieces.append(Part(piece, (float(place[0]), float(place[1]), (self.wall_height - PLATE) / 2.0), turned, BEECH))
        shape = Lathe(tuple((r, z - centre) for r, z in self.profile()))
        # Bullet multiplies a body's turning friction by the other side's sliding friction, which is the pair's root.
        turning = self.turning_friction / math.sqrt(self.friction) if self.friction > 0.0 else 0.0
        body = Body(
            "top",
            (Part(shape, material=Material(texture="sectors", sectors=STRIPES, roughness=0.35)),),
            mass,
            (0.0, 0.0, centre),
            surface=Surface(self.restitution, self.friction, turning, turning),
            inertia=(across, across, axial),
        )
        bodies = [
            Body("table", (Part(Box((8.0, 8.0, 0.02)), (0.0, 0.0, -PLATE - 0.011), material=TABLE),), collides=False),
            Body("tray", (Part(floor, (0.0, 0.0, -PLATE / 2.0), material=painted), *pieces), surface=surface),
            Body("rim", (Part(rim, material=BEECH),), collides=False),
            body,
        ]
        moves = {}
        grip = self.tip_length + 0.7 * self.stem_length
        for name, side in (("thumb", -1.0), ("finger", 1.0)):
            nail, length = 0.005, 0.06
            lie = rotation.multiply(rotation.about((0.0, 0.0, 1.0), 0.0 if side > 0 else math.pi), LYING)
            at = (side * (self.stem_radius + nail), 0.0, grip)
            part = Part(Capsule(nail, length), (0.5 * side * length * C60, 0.0, 0.5 * length * S60), _quat(lie), SKIN)
            bodies.append(Body(name, (part,), position=at, collides=False))
            # The twist: thumb and finger slide past each other along y, as a counterclockwise spin has them
            slide = self.direction * side * 0.012
            before, after = (at[0], -slide, grip), (at[0], slide, grip)
            away = (side * 0.3, 2.0 * slide, grip + 0.15)
            times = (-HELD - TWIST, -TWIST, 0.0, CLEAR)
            moves[name] = Move(times, (before, before, after, away), (IDENTITY,) * 4)
        edge = outer + self.rim_radius
        return World(
            bodies=tuple(bodies),
            bounds=((-edge, -edge, -PLATE), (edge, edge, 0.5)),
            moves=moves,
        )

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the top upright in the middle with the launch's velocities (n rows)."""
        world = self.world()
        vel = np.zeros((len(launch["spin"]), len(world.moving), 3))
        omega = np.zeros_like(vel)
        top = world.loose[0]
        vel[:, top, 0], vel[:, top, 1] = launch["drift_x"], launch["drift_y"]
        omega[:, top, 0], omega[:, top, 1] = launch["kick_x"], launch["kick_y"]
        omega[:, top, 2] = self.direction * launch["spin"]
        return State.at_release(world, len(vel), vel=vel, omega=omega)

    def read(self, state: State) -> IntArray:
        """Return the sector of a fallen, slow top's centre; ON_EDGE within .35 mm of a line, STUCK where it stands."""
        x, y = state.pos[:, 0, 0], state.pos[:, 0, 1]
        upright = rotation.upward(state.quat[:, 0])[:, 2]
        slow = np.sqrt(np.sum(np.square(state.vel[:, 0]), axis=-1)) < SLOW
        lines = self.lines()
        azimuth = np.mod(np.arctan2(y, x), 2.0 * np.pi)
        sector = np.sum(azimuth[:, None] >= lines[1:], axis=1)
        along = x[:, None] * np.cos(lines) + y[:, None] * np.sin(lines)
        across = np.abs(y[:, None] * np.cos(lines) - x[:, None] * np.sin(lines))
        near = np.where(along > 0.0, across, np.sqrt(x**2 + y**2)[:, None]).min(axis=1) < LINE
        shown = np.where(near, ON_EDGE, np.where(np.abs(upright) < FALLEN, sector, STUCK))
        return np.where(slow, shown, UNDECIDED)


def _quat(values: Array) -> Quat:
    return (float(values[0]), float(values[1]), float(values[2]), float(values[3]))


C60, S60 = math.cos(math.radians(60.0)), math.sin(math.radians(60.0))
LYING: Array = rotation.about((0.0, 1.0, 0.0), math.radians(30.0))  # local z up and outwards, 60 degrees above the table
COLORS: Mapping[str, Vec3] = {
    "red": (0.78, 0.13, 0.12),
    "blue": (0.13, 0.32, 0.72),
    "green": (0.13, 0.55, 0.25),
    "yellow": (0.94, 0.78, 0.16),
}
STRIPES = tuple(Sector(0.125, (0.93, 0.90, 0.83) if k % 2 == 0 else (0.35, 0.22, 0.14)) for k in range(8))
BEECH = Material((0.80, 0.62, 0.42), roughness=0.6)
TABLE = Material((0.33, 0.36, 0.40), roughness=0.9)
SKIN = Material((0.85, 0.62, 0.48), roughness=0.7)
