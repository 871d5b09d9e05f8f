"""A roulette wheel: a ball sent round the rim of a bowl into the pockets of a turning rotor. Knows pockets, not their odds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np

from simulators import rotation
from simulators.device import STUCK, UNDECIDED, IntArray, Readout, State
from simulators.devices.checks import check_fields, laws
from simulators.rotation import IDENTITY, Array
from simulators.sampling import Distribution
from simulators.world import Body, Box, Capsule, Lathe, Material, Move, Part, Quat, Sector, Sphere, Surface, Vec3, World

HELD, PUSH, CLEAR = 0.5, 0.35, 0.5  # s: the ball held, swept along the rim, and the hand's way out of the picture
KEYS = 14  # keyframes of the sweep: an arc of one turn is .3 mm from its chords at the radii of these wheels
CAPTURED = 0.03  # m/s beside the rotor: .05 mm of climb, and a ball in a pocket is millimetres below the top of its frets


@dataclass(frozen=True)
class Roulette:
    """A ball swept along the rim of a bowl, against the rotor's turn; it slows, drops over deflectors, ends in a pocket.

    Setup (SI): a bowl whose track is a cone of `slope` [rad] inside an upright wall of `wall_height`; on the rim the ball's
    centre runs at `track_radius`. The rotor carries on the same cone from `seam_radius` to `pocket_outer`, where the
    pockets lie `pocket_depth` below, down to `pocket_inner`; from there a cone of `inner_slope` [rad] rises to a turret of
    `turret_radius`. Frets of `fret_thickness` with rounded tops stand `fret_height` above the pockets' floor. `pockets` names
    the pockets clockwise from the rotor's +x axis (as printed on wheels), `colors` paints them (`plain` colours below).
    `deflectors` capsules of `deflector_width` and `deflector_length` lie half sunk in the cone at `deflector_radius`, by
    turns along and across it. A ball of `ball_radius` and `ball_density` has `restitution` and `friction` with everything and
    `rolling_friction` [m], which resists all turning against what it touches. The rotor slows by `rotor_friction` [rad/s^2].
    `tilt` [rad] leans the table towards azimuth `tilt_towards`; `entrance` is the azimuth [rad] at which the hand lets go.
    Random at the launch: `ball_speed` [m/s], clockwise, and `rotor_speed` [rad/s], counterclockwise. The picture shows the
    rotor's phase: at the release it is the same in every launch.
    Outcomes: the pocket that the ball is in at rest, ball and rotor. `first` is the first instant that the ball is below the
    top of the frets and slower than .03 m/s beside the rotor.
    No outcome: `stuck` (at rest elsewhere), `left_apparatus` (over the wall), `unsettled`.
    Known gap: the ball does not slow the rotor (.3 % of its moment of inertia); a tilt is not drawn; bodies are rigid.
    """

    pockets: tuple[str, ...]
    colors: tuple[str, ...] = field(metadata={"physics": False})
    numbered: bool = field(metadata={"physics": False})
    track_radius: float
    slope: float
    wall_height: float
    seam_radius: float
    pocket_outer: float
    pocket_inner: float
    pocket_depth: float
    fret_height: float
    fret_thickness: float
    inner_slope: float
    turret_radius: float
    deflectors: int
    deflector_radius: float
    deflector_length: float
    deflector_width: float
    ball_radius: float
    ball_density: float
    restitution: float
    friction: float
    rolling_friction: float
    rotor_friction: float
    entrance: float
    random: Mapping[str, Distribution]
    tilt: float = 0.0
    tilt_towards: float = 0.0

    version: ClassVar[int] = 1
    variables: ClassVar[tuple[str, ...]] = ("ball_speed", "rotor_speed")
    readout: ClassVar[Readout] = "rest"
    end_time: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", laws(self.random))
        object.__setattr__(self, "pockets", tuple(self.pockets))
        object.__setattr__(self, "colors", tuple(self.colors))
        lengths = ("turret_radius", "pocket_inner", "pocket_outer", "seam_radius", "deflector_radius", "track_radius")
        positive = (
            *lengths, "slope", "wall_height", "pocket_depth", "fret_height", "fret_thickness", "inner_slope",
            "deflector_length", "deflector_width", "ball_radius", "ball_density", "rotor_friction",
        )  # fmt: skip
        numbers = all(isinstance(getattr(self, name), (int, float)) for name in positive)
        check_fields(
            self,
            positive=positive,
            share=("restitution",),
            at_least_zero=("friction", "rolling_friction", "tilt", "deflectors"),
            further=[
                (
                    len(self.pockets) >= 3 and len(set(self.pockets)) == len(self.pockets),
                    "pockets",
                    "must be three or more names",
                ),
                (len(self.colors) == len(self.pockets), "colors", f"must be {len(self.pockets)}, one a pocket"),
                (set(self.colors) <= set(COLORS), "colors", f"must be of {', '.join(COLORS)}"),
                *(self._proportions(lengths) if numbers else []),
            ],
        )

    def _proportions(self, lengths: tuple[str, ...]) -> list[tuple[bool, str, str]]:
        gap = 2.0 * self.pocket_inner * math.sin(math.pi / len(self.pockets)) - self.fret_thickness
        rules = [
            (getattr(self, inner) < getattr(self, outer), inner, f"must be less than `{outer}` ({getattr(self, outer):g} m)")
            for inner, outer in pairwise(lengths)
        ]
        return [
            *rules,
            (max(self.slope, self.inner_slope, self.tilt) < 1.0, "slope", "must be below 1 rad, as `inner_slope` and `tilt`"),
            (2.2 * self.ball_radius < gap, "ball_radius", f"must fit a pocket: {gap:g} m between frets, 1.1 ball diameters"),
            (
                2.2 * self.ball_radius < self.pocket_outer - self.pocket_inner,
                "pocket_inner",
                "must leave 1.1 ball diameters to `pocket_outer`",
            ),
            (
                self.fret_height > self.ball_radius,
                "fret_height",
                "must be more than the ball's radius to hold it",
            ),
            (self.wall_height > 2.0 * self.ball_radius, "wall_height", "must be more than the ball's diameter"),
        ]

    @property
    def facts(self) -> tuple[str, ...]:
        """The pockets' names, clockwise."""
        return self.pockets

    @property
    def wall_radius(self) -> float:
        """Radius [m] of the upright wall that the ball leans on at the rim."""
        return self.track_radius + self.ball_radius

    @property
    def floor(self) -> float:
        """Height [m] of the pockets' floor; the seam between bowl and rotor is at 0."""
        return self.cone(self.pocket_outer) - self.pocket_depth

    @property
    def mass(self) -> float:
        """Mass [kg] of the ball."""
        return self.ball_density * 4.0 / 3.0 * math.pi * self.ball_radius**3

    @property
    def track_height(self) -> float:
        """Height [m] of the ball's centre on the rim."""
        return self.cone(self.track_radius) + self.ball_radius / math.cos(self.slope)

    def cone(self, radius: float) -> float:
        """Return the height [m] of the bowl's cone at `radius`."""
        return (radius - self.seam_radius) * math.tan(self.slope)

    def deflector_ends(self) -> Array:
        """Return the ends of the deflectors' axes [m], (m, 2, 3)."""
        ends = np.zeros((self.deflectors, 2, 3))
        for k in range(self.deflectors):
            azimuth, half = 2.0 * math.pi * (k + 0.5) / self.deflectors, self.deflector_length / 2.0
            out, around = (math.cos(azimuth), math.sin(azimuth)), (-math.sin(azimuth), math.cos(azimuth))
            for end, side in enumerate((-half, half)):
                along, across = (side * math.cos(self.slope), 0.0) if k % 2 == 0 else (0.0, side)
                radius = self.deflector_radius + along
                ends[k, end] = (*(radius * o + across * a for o, a in zip(out, around, strict=True)), self.cone(radius))
        return ends

    def world(self) -> World:
        """Return bowl with deflectors, rotor with frets, ball and the hand's finger."""
        surface = Surface(self.restitution, self.friction, rolling_friction=self.rolling_friction)
        wall, top, low = self.wall_radius, self.cone(self.wall_radius) + self.wall_height, self.floor - 0.012
        outside = wall + 0.16 * wall
        rail = ((wall, top), (wall + 0.02 * wall, top + 0.004), (outside - 0.02 * wall, top + 0.004), (outside, top - 0.006))
        bowl = Lathe(((self.seam_radius, low), (self.seam_radius, 0.0), (wall, self.cone(wall)), *rail, (outside, low)))
        bodies = [
            Body("table", (Part(Box((8.0, 8.0, 0.02)), (0.0, 0.0, low - 0.011), material=FELT),), collides=False),
            Body("bowl", (Part(bowl, material=MAHOGANY), *self._deflectors()), surface=surface),
        ]
        rotor = Body("rotor", self._rotor(), mass=2.0, inertia=(0.03, 0.03, 0.06), surface=surface)
        free = self._on_rim(self.entrance)
        bodies += [rotor, Body("ball", (Part(Sphere(self.ball_radius), material=WHITE),), self.mass, free, surface=surface)]
        behind = self.entrance + self._behind
        bodies += [Body("finger", self._finger(), 0.0, self._on_rim(behind), _quat(_turned(behind)), collides=False)]
        margin = wall + 2.0 * self.ball_radius
        return World(
            bodies=tuple(bodies),
            bounds=((-margin, -margin, low - 0.05), (margin, margin, top + 0.5)),
            moves=self._moves(),
        )

    def _deflectors(self) -> tuple[Part, ...]:
        shape = Capsule(self.deflector_width / 2.0, self.deflector_length)
        parts = []
        for k, (start, end) in enumerate(self.deflector_ends()):
            azimuth = 2.0 * math.pi * (k + 0.5) / self.deflectors
            lie = rotation.about((0.0, 1.0, 0.0), math.pi / 2.0 - self.slope) if k % 2 == 0 else SIDEWAYS
            turned = rotation.multiply(rotation.about((0.0, 0.0, 1.0), azimuth), lie)
            parts.append(Part(shape, _vec(0.5 * (start + end)), _quat(turned), BRASS))
        return tuple(parts)

    def _rotor(self) -> tuple[Part, ...]:
        outer, inner, floor = self.pocket_outer, self.pocket_inner, self.floor
        shares = 1.0 / len(self.pockets)
        names = [(color, name if self.numbered else "") for color, name in zip(self.colors, self.pockets, strict=True)][::-1]
        ring = tuple(Sector(shares, COLORS[color], name) for color, name in names)
        bare = tuple(Sector(shares, COLORS[color]) for color, _ in names)
        number_ring = Lathe(((outer, self.cone(outer)), (self.seam_radius, 0.0)))
        pocket_ring = Lathe(((inner, floor), (outer, floor), (outer, self.cone(outer))))
        rise = floor + (inner - self.turret_radius) * math.tan(self.inner_slope)
        turret = self.turret_radius
        spindle = (
            (turret, rise),
            (turret, rise + 0.8 * turret),
            (0.5 * turret, rise + 1.4 * turret),
            (0.0, rise + 1.6 * turret),
        )
        band = (outer, self.seam_radius)
        parts = [
            Part(number_ring, material=Material(texture="sectors", sectors=ring, band=band, accent=PALE, roughness=0.4)),
            Part(pocket_ring, material=Material(texture="sectors", sectors=bare, band=(inner, outer), roughness=0.5)),
            Part(Lathe(((inner, floor), (turret, rise))), material=WALNUT),
            Part(Lathe(spindle), material=BRASS),
        ]
        length, high = outer - inner, self.fret_height + self.fret_thickness / 2.0
        for k in range(len(self.pockets)):
            azimuth, middle = 2.0 * math.pi * k / len(self.pockets), (outer + inner) / 2.0
            place = (middle * math.cos(azimuth), middle * math.sin(azimuth), floor + high / 2.0)
            turned = _quat(rotation.about((0.0, 0.0, 1.0), azimuth))
            parts.append(Part(Box((length, self.fret_thickness, high), 0.49 * self.fret_thickness), place, turned, STEEL))
        return tuple(parts)

    @property
    def _behind(self) -> float:
        """How far [rad] behind the ball the finger's centre is."""
        return 1.8 * self.ball_radius / self.track_radius

    def _finger(self) -> tuple[Part, ...]:
        """Return a finger that leans away from the ball, in axes whose y points back along the rim."""
        rod, length, lean = 0.7 * self.ball_radius, 8.0 * self.ball_radius, 0.9
        middle = (0.0, 0.5 * length * math.sin(lean), 0.5 * length * math.cos(lean))
        return (Part(Capsule(rod, length), middle, _quat(rotation.about((1.0, 0.0, 0.0), -lean)), SKIN),)

    def _on_rim(self, azimuth: float) -> Vec3:
        return (self.track_radius * math.cos(azimuth), self.track_radius * math.sin(azimuth), self.track_height)

    def _moves(self) -> dict[str, Move]:
        """Return the prelude: the rotor turning, the finger sweeping the ball along the rim from rest to its mean speed."""
        speed, turning = float(self.random["ball_speed"].mean()), float(self.random["rotor_speed"].mean())
        times = tuple(-PUSH * (1.0 - k / (KEYS - 1)) for k in range(KEYS))
        # From rest to `speed` at constant acceleration: at time t before the release it is this far from the entrance.
        to_go = [0.5 * speed * PUSH * (1.0 - ((t + PUSH) / PUSH) ** 2) / self.track_radius for t in times]
        start = -HELD - PUSH
        ball = tuple(self._on_rim(self.entrance + angle) for angle in (to_go[0], *to_go))
        behind = tuple(self.entrance + angle + self._behind for angle in (to_go[0], *to_go))
        finger, pointing = tuple(map(self._on_rim, behind)), tuple(_quat(_turned(azimuth)) for azimuth in behind)
        away = (2.6 * finger[-1][0], 2.6 * finger[-1][1], finger[-1][2] + self.track_radius)
        still = (IDENTITY,) * (KEYS + 1)
        return {
            "rotor": Move((start, 0.0), ((0.0, 0.0, 0.0),) * 2, (_quat(_turned(start * turning)), IDENTITY), eased=False),
            "ball": Move((start, *times), ball, still, eased=False),
            "finger": Move((start, *times, CLEAR), (*finger, away), (*pointing, pointing[-1]), eased=False),
        }

    def start(self, launch: Mapping[str, Array]) -> State:
        """Return the ball on the rim with the launch's speed, rolling on track and wall, and the rotor turning (n rows)."""
        world = self.world()
        rotor, ball = world.loose
        vel = np.zeros((len(launch["ball_speed"]), len(world.moving), 3))
        omega = np.zeros_like(vel)
        out = np.array([math.cos(self.entrance), math.sin(self.entrance), 0.0])
        vel[:, ball] = launch["ball_speed"][:, None] * np.array([out[1], -out[0], 0.0])
        # Clockwise, at rest where it touches the wall (spin b omega_z = v) and the track (see `kernels.roulette_rim`).
        inwards = -(1.0 - math.sin(self.slope)) / math.cos(self.slope)
        omega[:, ball] = (launch["ball_speed"] / self.ball_radius)[:, None] * (np.array([0.0, 0.0, 1.0]) - inwards * out)
        omega[:, rotor, 2] = launch["rotor_speed"]
        return State.at_release(world, len(vel), vel=vel, omega=omega)

    def read(self, state: State) -> IntArray:
        """Return the pocket of a ball below the tops of the frets and slow beside the rotor; STUCK for one slow elsewhere."""
        turn = 2.0 * np.arctan2(state.quat[:, 0, 2], state.quat[:, 0, 3])  # the rotor is the world's first moving body
        x, y, z = np.moveaxis(state.pos[:, 1], -1, 0)
        spin = state.omega[:, 0, 2]
        across, along = state.vel[:, 1, 0] + spin * y, state.vel[:, 1, 1] - spin * x
        slow = np.sqrt(across**2 + along**2 + state.vel[:, 1, 2] ** 2) < CAPTURED
        still = np.sqrt(np.sum(np.square(state.vel[:, 1]), axis=-1)) < CAPTURED
        radius = np.sqrt(x**2 + y**2)
        inside = (z < self.floor + self.fret_height) & (radius < self.pocket_outer) & (radius > self.pocket_inner)
        count = len(self.pockets)
        sector = np.floor(np.mod(np.arctan2(y, x) - turn, 2.0 * np.pi) * count / (2.0 * np.pi)).astype(np.int64)
        clockwise = count - 1 - np.minimum(sector, count - 1)
        return np.where(inside & slow, clockwise, np.where(slow | still, STUCK, UNDECIDED))


def _vec(values: Array) -> Vec3:
    return (float(values[0]), float(values[1]), float(values[2]))


def _quat(values: Array) -> Quat:
    return (float(values[0]), float(values[1]), float(values[2]), float(values[3]))


def _turned(angle: float) -> Array:
    return rotation.about((0.0, 0.0, 1.0), angle)


SIDEWAYS: Array = rotation.about((1.0, 0.0, 0.0), math.pi / 2.0)  # local z along y, which the azimuth then turns
PALE: Vec3 = (0.95, 0.93, 0.88)
COLORS: Mapping[str, Vec3] = {
    "red": (0.72, 0.09, 0.10),
    "black": (0.07, 0.07, 0.08),
    "green": (0.05, 0.42, 0.20),
    "blue": (0.10, 0.28, 0.70),
    "yellow": (0.93, 0.76, 0.13),
}
MAHOGANY = Material((0.42, 0.20, 0.11), "plain", (0.30, 0.13, 0.07), 0.45)
WALNUT = Material((0.45, 0.29, 0.17), "plain", roughness=0.5)
BRASS = Material((0.83, 0.68, 0.35), "plain", roughness=0.3)
STEEL = Material((0.80, 0.81, 0.83), "plain", roughness=0.35)
WHITE = Material((0.97, 0.97, 0.96), roughness=0.2)
FELT = Material((0.10, 0.30, 0.20), "plain", roughness=1.0)
SKIN = Material((0.85, 0.62, 0.48), roughness=0.7)
