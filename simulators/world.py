"""ONE description of a physical scene that engines integrate and renderers draw.

It refuses to know what any final state is called, or how likely it is. SI units, radians, right-handed axes, z up;
a planar world lives in the x-z plane, seen from -y. Quaternions are (x, y, z, w).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from simulators.rotation import IDENTITY, Array, interpolate

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]
ORIGIN: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Box:
    """A box of full edge lengths `size` [m], its edges rounded with radius `fillet` [m]."""

    size: Vec3
    fillet: float = 0.0


@dataclass(frozen=True)
class Sphere:
    """A ball [m]; in a planar world a disc in the x-z plane."""

    radius: float


@dataclass(frozen=True)
class Cylinder:
    """A solid cylinder about its local z axis: `radius`, full `length` [m], rims rounded with radius `fillet` [m]."""

    radius: float
    length: float
    fillet: float = 0.0


@dataclass(frozen=True)
class Capsule:
    """A cylinder about local z with hemispherical ends: `radius` and the `length` [m] between the ends' centres."""

    radius: float
    length: float


@dataclass(frozen=True)
class Lathe:
    """A surface of revolution about local z through `profile`, points (r, z) [m] with r >= 0, joined by straight lines.

    A closed solid starts and ends on the axis (r = 0): a pencil, a top. An open one is a wall without thickness: a bowl.
    Drawn by the raster renderer; in the Bullet engine a loose one collides as its convex hull, a fixed one not at all.
    """

    profile: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if len(self.profile) < 2 or any(r < 0.0 for r, _ in self.profile):
            raise ValueError(f"a Lathe's `profile` must be two or more points (r, z) with r >= 0, got {self.profile}")


Shape = Box | Sphere | Cylinder | Capsule | Lathe


@dataclass(frozen=True)
class Sector:
    """A slice of a disc: its `share` of the turn, its `color` in sRGB, and a `label` written on it, if any."""

    share: float
    color: Vec3
    label: str = ""


@dataclass(frozen=True)
class Material:
    """How a surface looks; physics never reads it.

    `color` and `accent` are sRGB in 0..1. `texture` names a procedural pattern that renderers know: `plain`, `wood`,
    `felt`, `brushed` (metal), `pips` (a box: one pip on +x, 6 on -x, 2 on +y, 5 on -y, 3 on +z, 4 on -z), `coin` (a
    cylinder: heads on +z, tails on -z), `sectors` (a cylinder's +z face or a lathe: `sectors` counterclockwise from the local
    +x axis, seen from +z, their labels written between `band` (two radii [m]), which is also where the colours are when it is
    given), `number` (a ball: `label` on white spots at both ends of its three axes), `card` (a box: `label` such as 'QH' on its
    +z face, the back's pattern on -z), `sign` (a box: `label` written on its -y face).
    `roughness` runs from 0 (mirror) to 1 (matt). `opacity` below 1 is clear glass or acrylic: what is behind shows through.
    """

    color: Vec3 = (0.8, 0.8, 0.8)
    texture: str = "plain"
    accent: Vec3 = (0.1, 0.1, 0.1)
    roughness: float = 0.6
    opacity: float = 1.0
    label: str = ""
    sectors: tuple[Sector, ...] = ()
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class Surface:
    """Contact behaviour of a body.

    The value of a pair is the geometric mean of its two bodies' values: each side contributes the square root, since
    both engines multiply. So two bodies of the same surface have exactly the stated restitution and friction.
    `rolling_friction` and `spinning_friction` [m] combine otherwise: set them on the moving body alone, and small.
    """

    restitution: float = 0.5
    friction: float = 0.5
    rolling_friction: float = 0.0
    spinning_friction: float = 0.0


@dataclass(frozen=True)
class Part:
    """One shape of a body, with its pose in the body's axes and its look."""

    shape: Shape
    position: Vec3 = ORIGIN
    quaternion: Quat = IDENTITY
    material: Material = Material()


@dataclass(frozen=True)
class Body:
    """Rigidly joined parts. `mass` 0 [kg] is a fixed body, or an actuator when the world moves it.

    A massless body that is `driven` collides and is moved after the release by the device's `drive`: a crank, a shaken
    box. `inertia` [kg m^2] gives principal moments about the body's own axes, where its shape does not say them.

    `position` and `quaternion` are the nominal pose at the release (t = 0), and the same in every launch. A body that does
    not collide is drawn and nothing else. `angular_damping` [1/s] acts from the first contact on.
    """

    name: str
    parts: tuple[Part, ...]
    mass: float = 0.0
    position: Vec3 = ORIGIN
    quaternion: Quat = IDENTITY
    surface: Surface = Surface()
    collides: bool = True
    angular_damping: float = 0.0
    driven: bool = False
    inertia: Vec3 | None = None


@dataclass(frozen=True)
class Move:
    """A rigid move through keyframes, `eased` in and out of each or uniform: `times` [s] ascend, the release being t = 0.

    Poses are held before the first keyframe and after the last. Up to the release a move may carry a loose body along;
    after it, only actuators that do not collide.
    """

    times: tuple[float, ...]
    positions: tuple[Vec3, ...]
    quaternions: tuple[Quat, ...]
    eased: bool = True

    def __post_init__(self) -> None:
        if not (len(self.times) == len(self.positions) == len(self.quaternions) > 0):
            raise ValueError("a Move needs as many positions and quaternions as times, and at least one")
        if any(b <= a for a, b in zip(self.times, self.times[1:], strict=False)):
            raise ValueError(f"a Move's `times` must ascend, got {self.times}")

    def at(self, time: float) -> tuple[Array, Array]:
        """Return position (3,) and quaternion (4,) at `time` [s]."""
        after = int(np.searchsorted(self.times, time, side="right"))
        if after in (0, len(self.times)):
            nearest = min(after, len(self.times) - 1)
            return np.array(self.positions[nearest], float), np.array(self.quaternions[nearest], float)
        before = after - 1
        share = (time - self.times[before]) / (self.times[after] - self.times[before])
        share = share * share * (3.0 - 2.0 * share) if self.eased else share
        a, b = np.asarray(self.positions[before]), np.asarray(self.positions[after])
        return a + share * (b - a), interpolate(self.quaternions[before], self.quaternions[after], share)


@dataclass(frozen=True)
class World:
    """Everything that is there: bodies, the rigid moves of the action, and where a rollout counts as gone.

    `moves` (by body name) is the action as a prelude: drawn, never integrated. `watched` names pairs of bodies whose first
    touch is remembered. A loose body whose centre leaves `bounds` (two corners [m]) has left the apparatus. `scale` is
    the length scale relative to a hand-sized apparatus (dice, coins, boards: 1); tolerances grow with it. `alike` names groups
    of bodies that cannot be told apart in the source image, cards face down: which of them is where is a hidden state.
    """

    bodies: tuple[Body, ...]
    bounds: tuple[Vec3, Vec3]
    moves: Mapping[str, Move] = field(default_factory=dict)
    watched: tuple[tuple[str, str], ...] = ()
    gravity: float = 9.81
    planar: bool = False
    scale: float = 1.0
    alike: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        names = [body.name for body in self.bodies]
        if len(set(names)) < len(names):
            raise ValueError(f"body names must be unique, got {names}")
        unknown = (set(self.moves) | {name for pair in self.watched for name in pair}) - set(names)
        if unknown:
            raise ValueError(f"moves or watched pairs name bodies that are not there: {sorted(unknown)}")
        for body in self.bodies:
            if body.driven and (body.mass > 0.0 or not body.collides):
                raise ValueError(f"driven body {body.name!r} must be massless and collide; a loose one moves by itself")
        for name, move in self.moves.items():
            body = self.bodies[names.index(name)]
            if body.mass == 0.0 and body.collides and not body.driven:
                raise ValueError(f"actuator {name!r} must not collide: a prelude is drawn, not integrated")
            if body.mass > 0.0 and move.times[-1] > 0.0:
                raise ValueError(f"loose body {name!r} is moved after its release at t = 0")

    @property
    def moving(self) -> tuple[Body, ...]:
        """Loose and driven bodies and actuators, in order: the body axis B of every `State`."""
        return tuple(b for b in self.bodies if b.mass > 0.0 or b.driven or b.name in self.moves)

    @property
    def fixed(self) -> tuple[Body, ...]:
        """Bodies that never move: a picture's background."""
        return tuple(b for b in self.bodies if b.mass == 0.0 and not b.driven and b.name not in self.moves)

    @property
    def loose(self) -> tuple[int, ...]:
        """Positions in `moving` of the bodies that an engine integrates."""
        return tuple(i for i, b in enumerate(self.moving) if b.mass > 0.0)

    @property
    def prelude(self) -> float:
        """Seconds that the action takes before the release; a clip starts there."""
        return max((-move.times[0] for move in self.moves.values()), default=0.0)

    def poses(self, time: float) -> tuple[Array, Array]:
        """Return nominal positions (B, 3) and quaternions (B, 4) of `moving` at `time` [s] (loose bodies: up to release)."""
        poses = [
            self.moves[b.name].at(time) if b.name in self.moves else (np.array(b.position), np.array(b.quaternion))
            for b in self.moving
        ]
        return np.array([p for p, _ in poses], float).reshape(-1, 3), np.array([q for _, q in poses], float).reshape(-1, 4)


@dataclass(frozen=True)
class Light:
    """One key light: unit `direction` towards it, `softness` as the angular radius of its disc [rad], and the ambient share.

    An ambient share of 1 leaves no key light: plain colours, no shadow, no gloss, as in a flat drawing.
    """

    direction: Vec3 = (-0.35, -0.45, 0.82)
    softness: float = 0.06
    ambient: float = 0.45


@dataclass(frozen=True)
class Camera:
    """A pinhole camera, or an orthographic one when `view_height` [m] is set. Pixel (0, 0) is the top left corner.

    `fov` is the vertical field of view [rad]. x grows to the viewer's right, y downwards; pixel centres lie at .5.
    """

    position: Vec3
    target: Vec3
    up: Vec3 = (0.0, 0.0, 1.0)
    fov: float = 0.6
    view_height: float | None = None
    width: int = 832
    height: int = 480

    def axes(self) -> tuple[Array, Array, Array]:
        """Return the unit vectors right, down and forward, each (3,)."""
        forward = np.subtract(self.target, self.position)
        forward = forward / np.linalg.norm(forward)
        right = np.cross(forward, self.up)
        right = right / np.linalg.norm(right)
        return right, np.cross(forward, right), forward

    def project(self, points: ArrayLike) -> Array:
        """Return pixel coordinates (..., 2) of world `points` (..., 3)."""
        right, down, forward = self.axes()
        offset = np.asarray(points, float) - np.asarray(self.position)
        x, y, depth = (np.sum(offset * axis, axis=-1) for axis in (right, down, forward))
        if self.view_height is None:
            per_unit = self.height / (2.0 * np.tan(self.fov / 2.0)) / depth
        else:
            per_unit = np.full_like(depth, self.height / self.view_height)
        return np.stack([self.width / 2 + x * per_unit, self.height / 2 + y * per_unit], axis=-1)
