"""Path-traced pictures of a World by Mitsuba 3: area lights, a lens with a focus, planar worlds too, which have depth.

It needs the extra `photoreal`, and it refuses to promise what the other renderers do: two renders of one place differ by
their noise, so a region of a frame is cut out of it, and a clip is one window of moving things on a still background.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
from scipy import ndimage

from simulators.device import State
from simulators.render.canvas import Image, Region, check_region, clip_region
from simulators.render.faces import srgb
from simulators.render.meshes import METAL, Mesh, meshes
from simulators.render.primitives import linear
from simulators.render.raster import RasterCanvas
from simulators.rotation import Array, rotate
from simulators.world import Body, Camera, Light, Material, Part, Vec3, World

STILL = 36  # samples a pixel of what never moves
SAMPLES = 1_600_000  # most of a frame's window: .7 s on two cores, so that a clip takes under a minute
FEWEST, MOST = 4, 36  # samples a pixel of a window
MARGIN, FEATHER = 28, 14  # px about what moves and its shadow, for what it mirrors and darkens; over which a window fades out
DEPTH, GLASS_DEPTH = 6, 20  # bounces; between the two sides of a pane seen at a grazing look light goes to and fro
ALIKE = 0.2  # of a place's brightness: so much may change and most of its noise is still the same
SPARK = 1.6, 0.08  # how many times brighter than what is about it, and how much more of linear light, a spark is
_FOCAL = 400.0  # distances to the subject in a lens's radius: a stop at which all that matters is sharp
_BACKDROP = (0.50, 0.52, 0.56)
_PROBE = """
import mitsuba as mi
mi.set_variant("llvm_ad_rgb")
scene = mi.load_dict({"type": "scene", "integrator": {"type": "path"}, "ball": {"type": "sphere"},
    "light": {"type": "constant"}, "sensor": {"type": "perspective", "film": {"type": "hdrfilm", "width": 8, "height": 8}}})
print(float(mi.render(scene, spp=1).numpy().mean()) > 0.0)
"""


class PhotorealError(ValueError):
    """Mitsuba is not installed."""


@cache
def variant() -> str:
    """Return the variant of Mitsuba that works here: LLVM's, about three times faster, where it does, else the plain one.

    An unfit libLLVM ends the whole process, so it is tried in another.
    """
    told = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, timeout=300, env={**os.environ})
    return "llvm_ad_rgb" if told.returncode == 0 and told.stdout.strip().endswith(b"True") else "scalar_rgb"


def _mitsuba() -> Any:
    try:
        import mitsuba
    except ImportError as error:
        raise PhotorealError("the renderer `photoreal` needs Mitsuba: pip install 'quincunx[photoreal]'") from error
    mitsuba.set_variant(variant())  # holds for the calling thread
    return mitsuba


class PhotorealCanvas:
    """One world, camera and light, prepared: see `Canvas`, but for noise.

    `frame` renders one window for all rows after the action, the pixels that anything moving, or its shadow, touches in any of
    them; a row before, while actuators move, has its own. Held states are the same picture.

    Clear walls are thin: they mirror as glass does and let light and looks straight through, unbent.
    """

    def __init__(self, world: World, camera: Camera, light: Light, backdrop: Vec3 | None = None) -> None:
        self._mi = _mitsuba()
        self._world, self._camera, self._light = world, camera, light
        self._raster = RasterCanvas(world, camera, light, backdrop)  # what of the picture changes
        self._behind = np.array(_BACKDROP) if backdrop is None else linear(backdrop)
        self._bsdfs: dict[tuple[Material, int], Any] = {}
        # through glass, `volpath` alone looks for the light; where there is none `path` is faster
        self._clear = any(part.material.opacity < 1.0 for body in world.bodies for part in body.parts)
        self._acted = max([0.0, *(move.times[-1] for move in world.moves.values())])
        self._seen: tuple[bytes, Region] = (b"", (0, 0, 0, 0))
        self._grain: tuple[tuple[Region, bool] | None, Array, Array] = None, np.zeros((0, 0, 3)), np.zeros((0, 0, 3))
        self._still = [
            shape
            for body in world.fixed
            for shape in self._shapes(body, np.asarray(body.position, float), np.asarray(body.quaternion, float))
        ]
        whole = (0, 0, camera.width, camera.height)
        self._light_of_still = self._render(self._still, whole, STILL)
        self._background = self._encode(self._light_of_still)

    @property
    def background(self) -> Image:
        """Everything that never moves, (H, W, 3)."""
        return self._background

    def region(self, state: State, row: int) -> Region:
        """Return the window of the frame."""
        width, height = self._camera.width, self._camera.height

        def grown(one: int) -> Region:
            x0, y0, x1, y1 = self._raster.region(state, one)
            return clip_region((x0 - MARGIN, y0 - MARGIN, x1 + MARGIN, y1 + MARGIN), width, height)

        if state.time[row] < self._acted:
            return grown(row)
        key = state.pos.tobytes() + state.quat.tobytes()
        if self._seen[0] != key:
            all_of = np.array([grown(one) for one in range(len(state)) if state.time[one] >= self._acted])
            window = (*all_of[:, :2].min(axis=0).tolist(), *all_of[:, 2:].max(axis=0).tolist())
            self._seen = key, window
        return self._seen[1]

    def frame(self, state: State, row: int, region: Region | None = None) -> Image:
        """Draw the whole image, or cut `region` out of it."""
        width, height = self._camera.width, self._camera.height
        a, b, c, d = check_region((0, 0, width, height) if region is None else region, width, height)
        x0, y0, x1, y1 = window = self.region(state, row)
        rests = state.time[row] >= self._acted
        moving, resting = list[Any](), list[Any]()
        for k, body in enumerate(self._world.moving):
            kind = resting if rests and body.mass == 0.0 and body.name in self._world.moves else moving
            kind += self._shapes(body, state.pos[row, k], state.quat[row, k])
        most = SAMPLES if rests else SAMPLES / 2.0  # a row's own window is drawn twice: see `_window`
        most = float(np.clip(most / max((x1 - x0) * (y1 - y0), 1), FEWEST, MOST))
        samples = int(np.sqrt(most)) ** 2  # a square number: the sampler lays them out in rows
        light = self._light_of_still.copy()
        share = self._feather(window)
        light[y0:y1, x0:x1] += share * (self._window(moving, resting, window, samples) - light[y0:y1, x0:x1])
        return self._encode(light)[b:d, a:c]

    def _window(self, moving: list[Any], resting: list[Any], window: Region, samples: int) -> Array:
        """Return the light of a window, as free of grain where nothing changes as the background is.

        Actuators that are `resting` after the action belong to what does not change. Of one seed, paths that meet nothing that
        moves are the same ones with it and without it, and so is their noise (common random numbers): it is taken away, as far
        as the two pictures agree in a pixel and about it.
        """
        x0, y0, x1, y1 = window
        shapes = [*self._still, *resting]
        key = window, bool(resting)
        if self._grain[0] != key:
            background = self._render(shapes, window, STILL) if resting else self._light_of_still[y0:y1, x0:x1]
            self._grain = key, background, self._render(shapes, window, samples)
        _, background, still = self._grain
        light = self._render([*shapes, *moving], window, samples)
        change = np.abs(light - still).mean(axis=-1)
        change = np.maximum(change, ndimage.uniform_filter(change, 5))
        brightness = ndimage.uniform_filter(still.mean(axis=-1), 5)
        alike = np.clip(1.5 - change / (ALIKE * brightness + 1e-6), 0.0, 1.0)
        return light + alike[..., None] * (background - still)

    def _feather(self, window: Region) -> Array:
        """Return how much of a window's pixels shows (h, w, 1): all but at edges inside the picture, where it fades out."""
        sides = []
        for low, high, most in ((window[1], window[3], self._camera.height), (window[0], window[2], self._camera.width)):
            at = np.arange(low, high) + 0.5
            near = np.full(len(at), np.inf) if low == 0 else at - low
            far = np.full(len(at), np.inf) if high == most else high - at
            sides.append(np.clip(np.minimum(near, far) / FEATHER, 0.0, 1.0))
        return (sides[0][:, None] * sides[1])[..., None]

    def _encode(self, light: Array) -> Image:
        """Return 8-bit sRGB; the brightest part of lit colours is rolled off, not cut, as by the ray caster."""
        return srgb(np.where(light > 0.8, 0.8 + 0.2 * (1.0 - np.exp(-(np.maximum(light, 0.8) - 0.8) / 0.2)), light))

    def _render(self, shapes: list[Any], window: Region, samples: int) -> Array:
        """Return linear light (h, w, 3) of a window, the backdrop behind what is there."""
        mi = self._mi
        mi.set_variant(variant())
        scene = mi.load_dict({
            "type": "scene",
            "integrator": {
                "type": "volpath" if self._clear else "path", "max_depth": GLASS_DEPTH if self._clear else DEPTH,
                "hide_emitters": True,
            },
            "sensor": self._sensor(window),
            **self._lights(),
            **{f"shape{k}": shape for k, shape in enumerate(shapes)},
        })  # fmt: skip
        pixels = np.array(mi.render(scene, spp=samples, seed=0), float)
        alpha = np.clip(pixels[..., 3:4], 0.0, 1.0)
        return _without_sparks(pixels[..., :3]) + (1.0 - alpha) * self._behind

    def _sensor(self, window: Region) -> dict[str, Any]:
        mi, camera = self._mi, self._camera
        x0, y0, x1, y1 = window
        film = {
            "type": "hdrfilm", "width": camera.width, "height": camera.height, "pixel_format": "rgba",
            "rfilter": {"type": "box"}, "crop_offset_x": x0, "crop_offset_y": y0, "crop_width": x1 - x0, "crop_height": y1 - y0,
        }  # fmt: skip
        place = mi.ScalarTransform4f().look_at(origin=list(camera.position), target=list(camera.target), up=list(camera.up))
        distance = float(np.linalg.norm(np.subtract(camera.target, camera.position)))
        common = {"film": film, "near_clip": 1e-3 * distance, "far_clip": 1e3 * distance, "sampler": {"type": "multijitter"}}
        if camera.view_height is None:
            return {
                "type": "thinlens", "to_world": place, "fov": float(np.degrees(camera.fov)), "fov_axis": "y",
                "aperture_radius": distance / _FOCAL, "focus_distance": distance, **common,
            }  # fmt: skip
        half = camera.view_height * camera.width / camera.height / 2.0
        return {"type": "orthographic", "to_world": place @ mi.ScalarTransform4f().scale([half, half, 1.0]), **common}

    def _lights(self) -> dict[str, Any]:
        """Return the key light as a far disc and the room as an even sky, as bright as the ray caster has them."""
        mi, light = self._mi, self._light
        lights: dict[str, Any] = {"sky": {"type": "constant", "radiance": {"type": "rgb", "value": [0.95 * light.ambient] * 3}}}
        if light.ambient >= 1.0:
            return lights
        target, far = np.asarray(self._camera.target, float), 40.0 * self._world.scale
        direction = np.asarray(light.direction, float) / np.linalg.norm(light.direction)
        radius = np.tan(max(light.softness, 0.02))
        up = np.eye(3)[int(np.argmin(np.abs(direction)))]
        place = mi.ScalarTransform4f().look_at(
            origin=(target + far * direction).tolist(), target=target.tolist(), up=up.tolist()
        )
        lights["key"] = {
            "type": "disk", "to_world": place @ mi.ScalarTransform4f().scale([far * radius] * 3),
            "emitter": {"type": "area", "radiance": {"type": "rgb", "value": [1.35 * (1.0 - light.ambient) / radius**2] * 3}},
        }  # fmt: skip
        return lights

    def _shapes(self, body: Body, pos: Array, quat: Array) -> list[Any]:
        """Return Mitsuba's meshes of a body at a pose."""
        made = []
        for part in body.parts:
            at = pos + rotate(quat, np.asarray(part.position))
            bare = Part(part.shape, material=part.material)
            for number, mesh in enumerate(meshes(part.shape, bare, self._texel(at), self._world.scale)):
                places = pos + rotate(quat, np.asarray(part.position) + rotate(part.quaternion, mesh.places))
                normals = rotate(quat, rotate(part.quaternion, mesh.normals))
                made.append(self._mesh(mesh, places, normals, self._bsdf(part.material, number, mesh)))
        return made

    def _texel(self, at: Array) -> float:
        """Return the size [m] of a pixel where a part is, in powers of two so that paint is shared, and finer than that."""
        camera = self._camera
        if camera.view_height is not None:
            pixel = camera.view_height / camera.height
        else:
            depth = float((at - np.asarray(camera.position)) @ camera.axes()[2])
            distance = float(np.linalg.norm(np.subtract(camera.target, camera.position)))
            pixel = max(depth, 0.3 * distance) * 2.0 * np.tan(camera.fov / 2.0) / camera.height
        return float(2.0 ** np.floor(np.log2(0.7 * pixel)))

    def _mesh(self, mesh: Mesh, places: Array, normals: Array, bsdf: Any) -> Any:
        mi = self._mi
        props = mi.Properties()
        props["mesh_bsdf"] = bsdf
        made = mi.Mesh("part", len(places), len(mesh.faces), has_vertex_normals=True, has_vertex_texcoords=True, props=props)
        values = mi.traverse(made)
        values["vertex_positions"] = np.ascontiguousarray(places, np.float32).ravel()
        values["vertex_normals"] = np.ascontiguousarray(normals, np.float32).ravel()
        values["vertex_texcoords"] = np.ascontiguousarray(mesh.uv, np.float32).ravel()
        values["faces"] = mesh.faces.ravel()
        values.update()
        return made

    def _bsdf(self, material: Material, number: int, mesh: Mesh) -> Any:
        key = material, id(mesh)
        if key in self._bsdfs:
            return self._bsdfs[key]
        mi = self._mi
        color: dict[str, Any] = {"type": "rgb", "value": [float(v) for v in mesh.paint[0, 0]]}
        if mesh.paint.shape[:2] != (1, 1):
            color = {
                "type": "bitmap", "bitmap": mi.Bitmap(np.ascontiguousarray(mesh.paint)), "raw": True, "wrap_mode": "clamp",
            }  # fmt: skip
        solid = {
            "type": "principled", "base_color": color, "roughness": max(material.roughness, 0.08),
            "metallic": METAL.get(material.texture, 0.0), "specular": 0.5,
        }  # fmt: skip
        solid = {"type": "twosided", "inner": solid}
        if material.opacity < 1.0:  # a wall is passed twice
            weight = 1.0 - float(np.sqrt(1.0 - material.opacity))
            solid = {"type": "blendbsdf", "weight": weight, "first": {"type": "thindielectric"}, "second": solid}
        self._bsdfs[key] = mi.load_dict(solid)
        return self._bsdfs[key]


def _without_sparks(light: Array) -> Array:
    """Return light (h, w, 3) with pixels that a rare bright path hit set to the median about them.

    They are brighter than all of their eight neighbours but one, so that a stroke of a letter stays, and a gleam.
    """
    around = np.ones((3, 3), bool)
    around[1, 1] = False
    brightness = light.max(axis=-1)
    second = ndimage.rank_filter(brightness, -2, footprint=around)
    spark = brightness > SPARK[0] * second + SPARK[1]
    return np.where(spark[..., None], ndimage.median_filter(light, (3, 3, 1)), light)
