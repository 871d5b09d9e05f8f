"""How a clip is filmed: presets of light, lens, shutter, sensor and encoder, and what of them differs from clip to clip.

All as data. It refuses to know what is filmed, and to move, hide or recolour anything in a way that a state does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from simulators.render import Renderer, prepare
from simulators.render.blur import STILL, Shutter
from simulators.render.canvas import Canvas, Image, refuse_blank
from simulators.render.faces import srgb
from simulators.render.primitives import linear
from simulators.rotation import Array, about, rotate
from simulators.sampling import VALUES, check_seed, generator
from simulators.world import Camera, Light, Material, Vec3, World

_MARGIN = 2.0  # standard deviations at which what varies is cut
_TILE = 64  # pixels by which the sheet of noise is larger than a frame


@dataclass(frozen=True)
class Look:
    """A way of filming. What differs from clip to clip is normal with the standard deviation named here, cut at two of them.

    Light: `ambient` share and `softness` [rad] in place of the scene's; `light_turn` [rad] by which its direction varies.
    Colour: `saturation` and `gloss` (1 as the material, 0 none, larger more) of every material; `backdrop` (sRGB).
    Camera: `pan` and `dolly`, shares of the picture's height and of the distance; `roll` [rad], for a perspective camera.
    Sensor: `exposure` and its variation [stops], `warmth` [stops of red over blue], `noise` [8-bit steps, at mid grey].
    Then the shutter and the encoder's `crf`.
    """

    ambient: float | None = None
    softness: float | None = None
    light_turn: float = 0.0
    saturation: float = 1.0
    gloss: float = 1.0
    backdrop: Vec3 | None = None
    pan: float = 0.0
    dolly: float = 0.0
    roll: float = 0.0
    exposure: float = 0.0
    exposure_spread: float = 0.0
    warmth: float = 0.0
    noise: float = 0.0
    shutter: Shutter = STILL
    crf: int = 16


LOOKS = {
    "studio": Look(),
    "phone": Look(
        softness=0.10, light_turn=0.15, pan=0.008, dolly=0.015, roll=0.008, exposure_spread=0.18, warmth=0.12, noise=2.2,
        shutter=Shutter(0.5, 4), crf=26,
    ),
    "flat": Look(ambient=1.0, backdrop=(0.96, 0.96, 0.94)),
    "toy": Look(ambient=0.55, softness=0.22, saturation=1.3, gloss=1.5, backdrop=(0.98, 0.93, 0.80)),
}  # fmt: skip


def look(name: str) -> Look:
    """Return the preset `name`. Raises `ValueError` naming those there are."""
    if name not in LOOKS:
        raise ValueError(f"`look` must be one of {', '.join(LOOKS)}, got {name!r}")
    return LOOKS[name]


@dataclass(frozen=True)
class Shot:
    """A look as it came out for one clip: where the camera stood, how the light fell, what the sensor did with it.

    `gains` (red, green, blue) multiply linear light. `seed` and `number` name the clip's noise.
    """

    look: Look
    camera: Camera
    light: Light
    gains: tuple[float, float, float]
    seed: int
    number: int


def shoot(look: Look, camera: Camera, light: Light, seed: int = 0, number: int = 0) -> Shot:
    """Return how clip `number` of `seed` is filmed; clips that must share a source image share both.

    Each quantity has its own stream, so that setting one moves no other. Raises `ValueError` for a seed that is none.
    """
    check_seed(seed)

    def varied(name: str, spread: float) -> float:
        value = float(generator(seed, "look", name, number, VALUES).standard_normal())
        return spread * min(max(value, -_MARGIN), _MARGIN)

    right, down, forward = camera.axes()
    distance = float(np.linalg.norm(np.subtract(camera.target, camera.position)))
    high = 2.0 * np.tan(camera.fov / 2.0) * distance if camera.view_height is None else camera.view_height
    aside = varied("pan_x", look.pan) * high * right + varied("pan_y", look.pan) * high * down
    nearer = varied("dolly", look.dolly)
    changes: dict[str, object] = {"target": _vector(camera.target + aside)}
    if camera.view_height is None:
        changes["position"] = _vector(camera.position + aside + nearer * distance * forward)
        changes["up"] = _vector(rotate(about(_vector(forward), varied("roll", look.roll)), camera.up))
    else:
        changes["position"] = _vector(camera.position + aside)
        changes["view_height"] = camera.view_height * (1.0 - nearer)
    direction = np.asarray(light.direction, float) / np.linalg.norm(light.direction)
    for axis, name in ((np.array([0.0, 0.0, 1.0]), "light_azimuth"), (right, "light_elevation")):
        direction = rotate(about(_vector(axis), varied(name, look.light_turn)), direction)
    stops, warm = look.exposure + varied("exposure", look.exposure_spread), varied("warmth", look.warmth)
    return Shot(
        look=look,
        camera=dataclasses.replace(camera, **changes),  # type: ignore[arg-type]
        light=Light(
            _vector(direction),
            light.softness if look.softness is None else look.softness,
            light.ambient if look.ambient is None else look.ambient,
        ),
        gains=(2.0 ** (stops + warm / 2.0), 2.0**stops, 2.0 ** (stops - warm / 2.0)),
        seed=seed,
        number=number,
    )


def _vector(values: Array) -> Vec3:
    x, y, z = (float(v) for v in values)
    return x, y, z


def dressed(world: World, look: Look) -> World:
    """Return the world with every material's colours and gloss as the look has them; nothing moves."""
    if look.saturation == 1.0 and look.gloss == 1.0:
        return world

    def vivid(color: Vec3) -> Vec3:
        grey = float(np.dot(color, (0.2126, 0.7152, 0.0722)))
        return _vector(np.clip(grey + look.saturation * (np.asarray(color) - grey), 0.0, 1.0))

    def painted(material: Material) -> Material:
        rough = 1.0 - min(1.0, look.gloss * (1.0 - material.roughness))
        sectors = tuple(dataclasses.replace(sector, color=vivid(sector.color)) for sector in material.sectors)
        return dataclasses.replace(
            material, color=vivid(material.color), accent=vivid(material.accent), roughness=rough, sectors=sectors
        )

    bodies = tuple(
        dataclasses.replace(
            body, parts=tuple(dataclasses.replace(part, material=painted(part.material)) for part in body.parts)
        )
        for body in world.bodies
    )
    return dataclasses.replace(world, bodies=bodies)


def canvas_of(renderer: Renderer, world: World, shot: Shot) -> Canvas:
    """Prepare a canvas for a shot. Raises `ValueError` as `prepare`."""
    return prepare(renderer, dressed(world, shot.look), shot.camera, shot.light, shot.look.backdrop)


def develop(frames: Iterable[Image], shot: Shot) -> Iterator[Image]:
    """Yield frames as the shot's sensor saw them: exposure, white balance, noise that is new in every frame.

    The noise is one sheet of normal values for the clip, laid elsewhere on each frame: drawing it anew would take longer
    than drawing the picture. Raises `ValueError` for a frame of one colour or black, which noise would hide.
    """
    gains, noise = shot.gains, shot.look.noise
    table = np.stack([srgb(_rolled(gain * linear(np.arange(256) / 255.0))) for gain in gains], axis=-1)
    chance, sheet = generator(shot.seed, "look", "noise", shot.number, VALUES), None
    for number, frame in enumerate(frames):
        refuse_blank(frame, f"frame {number}")
        image = frame if gains == (1.0, 1.0, 1.0) else np.stack([table[frame[..., c], c] for c in range(3)], axis=-1)
        if noise > 0.0:
            height, width = frame.shape[:2]
            if sheet is None:
                sheet = np.round(chance.normal(0.0, noise, (height + _TILE, width + _TILE, 3))).astype(np.int16)
            y, x = chance.integers(0, _TILE + 1, 2).tolist()
            image = np.clip(image + sheet[y : y + height, x : x + width], 0, 255).astype(np.uint8)
        yield image


def _rolled(light: Array) -> Array:
    """Return linear light below 1 whatever the gain: bright parts are rolled off as film does, not cut."""
    return np.where(light > 0.8, 0.8 + 0.2 * (1.0 - np.exp(-(light - 0.8) / 0.2)), light)
