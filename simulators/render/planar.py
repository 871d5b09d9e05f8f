"""Antialiased pictures of a planar World (the x-z plane seen from -y), drawn with Skia.

It refuses other views, and to know what a state is called. Layers, far to near: what lies behind the moving plane; the
shadows of what lies in it; fixed bodies in it; moving ones; what lies in front. Skia's antialiasing depends on the clip, so
what moves is drawn unclipped on a full-size copy and then cropped: a region agrees with the whole bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import skia
from numpy.typing import NDArray

from simulators.device import State
from simulators.render import textures
from simulators.render.canvas import Image, Region, check_region, clip_region
from simulators.render.faces import basis, face, srgb
from simulators.render.primitives import half_extents, linear, texture_code
from simulators.rotation import Array, multiply, rotate, unrotate
from simulators.world import Body, Box, Camera, Capsule, Cylinder, Lathe, Light, Material, Part, Shape, Sphere, Vec3, World

_WALL = (0.93, 0.92, 0.90)  # behind everything
_PAINTED = (textures.PIPS, textures.COIN, textures.SECTORS, textures.NUMBER, textures.CARD, textures.SIGN)
_EDGE = 1e-9  # of a length: two depths nearer than this are one


@dataclass(frozen=True)
class _Item:
    """A part posed for drawing: its centre and rotation in the world, and its outline's paint."""

    part: Part
    centre: Array
    turn: Array
    shader: skia.Shader | None  # a texture's picture, in metres of the part's axes


class PlanarCanvas:
    """One planar world seen from -y by an orthographic camera, prepared: see `Canvas`.

    Raises `ValueError` for another camera.
    """

    def __init__(self, world: World, camera: Camera, light: Light, backdrop: Vec3 | None = None) -> None:
        _, down, forward = camera.axes()
        if camera.view_height is None or not (
            np.allclose(forward, (0, 1, 0), atol=1e-6) and np.allclose(down, (0, 0, -1), atol=1e-6)
        ):
            raise ValueError("the planar renderer needs an orthographic camera (`view_height`) that looks along +y with z up")
        self._width, self._height = camera.width, camera.height
        self._scale = camera.height / camera.view_height  # pixels a metre
        self._corner = np.array([camera.position[0], camera.position[2]])
        self._light, self._flat = light, light.ambient >= 1.0
        self._wall = _WALL if backdrop is None else backdrop
        self._unit = world.scale
        side = np.asarray(light.direction, float) / np.linalg.norm(light.direction)
        self._aim = (float(side[0]), float(-side[2]))  # towards the light, in the picture
        self._world = world
        self._shaders: dict[tuple[Part, tuple[float, ...]], skia.Shader] = {}
        plane = _plane(world)
        behind, within, front = self._layers(world.fixed, plane)
        self._behind = self._sheet(behind, shadows=within, opaque=True)
        self._within = self._sheet(within) if within else None
        self._front = self._sheet(front) if front else None
        self._background = self._compose([])[:, :, :3].copy()

    @property
    def background(self) -> Image:
        """Everything that never moves, (H, W, 3)."""
        return self._background

    def region(self, state: State, row: int) -> Region:
        """Return the pixels that what moves, and its shadow, can touch."""
        x0, y0, x1, y1 = float(self._width), float(self._height), 0.0, 0.0
        for item in self._items(self._world.moving, state.pos[row], state.quat[row]):
            box = self._outline(item).computeTightBounds()
            dx, dy, blur = self._shadow(item)
            reach = 3.0 * blur + 3.0
            x0, x1 = min(x0, box.left() + min(dx - reach, -2.0)), max(x1, box.right() + max(dx + reach, 2.0))
            y0, y1 = min(y0, box.top() + min(dy - reach, -2.0)), max(y1, box.bottom() + max(dy + reach, 2.0))
        if x0 >= x1 or y0 >= y1:
            return 0, 0, 0, 0
        return clip_region((math.floor(x0), math.floor(y0), math.ceil(x1), math.ceil(y1)), self._width, self._height)

    def frame(self, state: State, row: int, region: Region | None = None) -> Image:
        """Draw the whole image, or `region`."""
        whole = (0, 0, self._width, self._height)
        x0, y0, x1, y1 = check_region(whole if region is None else region, self._width, self._height)
        image = self._background[y0:y1, x0:x1].copy()
        changed = self.region(state, row)
        a, b, c, d = max(x0, changed[0]), max(y0, changed[1]), min(x1, changed[2]), min(y1, changed[3])
        if a < c and b < d:
            drawn = self._compose(self._items(self._world.moving, state.pos[row], state.quat[row]))
            image[b - y0 : d - y0, a - x0 : c - x0] = drawn[b:d, a:c, :3]
        return image

    def traced(self, state: State, row: int) -> Image:
        """Draw the whole image with no use of the background: what `frame` must equal."""
        return self._compose(self._items(self._world.moving, state.pos[row], state.quat[row]))[:, :, :3].copy()

    def _layers(self, bodies: Sequence[Body], plane: float) -> tuple[list[_Item], list[_Item], list[_Item]]:
        """Split the parts of fixed bodies into those behind, in and before the moving plane, each far to near."""
        pos = np.array([b.position for b in bodies], float).reshape(-1, 3)
        quat = np.array([b.quaternion for b in bodies], float).reshape(-1, 4)
        items = self._items(bodies, pos, quat)
        near = _EDGE * max(1.0, self._unit)
        behind = [i for i in items if i.centre[1] > plane + near]
        front = [i for i in items if i.centre[1] < plane - near]
        return behind, [i for i in items if abs(i.centre[1] - plane) <= near], front

    def _items(self, bodies: Sequence[Body], pos: Array, quat: Array) -> list[_Item]:
        """Return the posed parts of `bodies`, far first; of equal depth, in order."""
        items = [
            _Item(part, pos[i] + rotate(quat[i], part.position), turn, self._texture(part, turn))
            for i, body in enumerate(bodies)
            for part in body.parts
            for turn in [multiply(quat[i], part.quaternion)]
        ]
        return sorted(items, key=lambda item: -item.centre[1])

    def _pixel(self, x: float, z: float) -> tuple[float, float]:
        """Return picture coordinates of a place in the plane."""
        return (
            self._width / 2 + (x - self._corner[0]) * self._scale,
            self._height / 2 - (z - self._corner[1]) * self._scale,
        )

    def _sheet(self, items: list[_Item], shadows: list[_Item] | None = None, *, opaque: bool = False) -> skia.Image:
        """Draw a layer once: on the wall where `opaque`, else on nothing."""
        surface = self._surface()
        canvas = surface.getCanvas()
        canvas.clear(_color(self._wall) if opaque else skia.ColorTRANSPARENT)
        if opaque and not self._flat:
            self._vignette(canvas)
        for item in items:
            if opaque:
                self._draw_shadow(canvas, item)
            self._draw(canvas, item)
        for item in shadows or []:
            self._draw_shadow(canvas, item)
        return surface.makeImageSnapshot()

    def _surface(self) -> skia.Surface:
        return skia.Surface.MakeRaster(
            skia.ImageInfo.Make(self._width, self._height, skia.kRGBA_8888_ColorType, skia.kPremul_AlphaType)
        )

    def _compose(self, items: list[_Item]) -> NDArray[np.uint8]:
        """Return the picture (H, W, 4) with `items` as what moves."""
        pixels = np.empty((self._height, self._width, 4), np.uint8)
        canvas = skia.Surface(pixels, colorType=skia.kRGBA_8888_ColorType).getCanvas()
        canvas.drawImage(self._behind, 0, 0)
        for item in items:
            self._draw_shadow(canvas, item)
        if self._within is not None:
            canvas.drawImage(self._within, 0, 0)
        for item in items:
            self._draw(canvas, item)
        if self._front is not None:
            canvas.drawImage(self._front, 0, 0)
        return pixels

    def _vignette(self, canvas: skia.Canvas) -> None:
        """Light the wall from the upper left, so that it is a wall and no void."""
        shader = skia.GradientShader.MakeLinear(
            points=[(0, 0), (self._width * 0.4, self._height)], colors=[_color((1, 1, 1), 0.5), _color((0.5, 0.5, 0.55), 0.25)]
        )
        canvas.drawPaint(skia.Paint(Shader=shader, Dither=False))

    def _shadow(self, item: _Item) -> tuple[float, float, float]:
        """Return offset and blur of a part's shadow on what lies behind it [pixels]."""
        half = half_extents(item.part.shape)
        thick = min(2.2 * min(half), 0.012 * self._unit) * self._scale
        return -self._aim[0] * thick, -self._aim[1] * thick * 0.8, max(0.6, 0.55 * thick)

    def _draw_shadow(self, canvas: skia.Canvas, item: _Item) -> None:
        if self._flat:
            return
        dx, dy, blur = self._shadow(item)
        outline = self._outline(item)
        outline.offset(dx, dy)
        strength = 0.42 * (1.0 - 0.5 * self._light.ambient) * (0.25 + 0.75 * item.part.material.opacity)
        mask = skia.MaskFilter.MakeBlur(skia.kNormal_BlurStyle, blur)
        canvas.drawPath(outline, skia.Paint(AntiAlias=True, Color=_color((0.08, 0.07, 0.10), strength), MaskFilter=mask))

    def _outline(self, item: _Item) -> skia.Path:
        """Return a part's outline in picture coordinates."""
        shape, path = item.part.shape, skia.Path()
        x, y = self._pixel(item.centre[0], item.centre[2])
        axis = rotate(item.turn, (0.0, 0.0, 1.0))
        if isinstance(shape, Sphere) or (isinstance(shape, (Cylinder, Capsule)) and abs(axis[1]) > 1.0 - 1e-6):
            path.addCircle(x, y, shape.radius * self._scale)
            return path
        if isinstance(shape, Capsule):
            length = shape.length * self._scale * math.hypot(axis[0], axis[2])
            radius = shape.radius * self._scale
            path.addRoundRect(skia.Rect(-length / 2 - radius, -radius, length / 2 + radius, radius), radius, radius)
            path.transform(_turned(math.atan2(-axis[2], axis[0]), x, y))
            return path
        if isinstance(shape, Box):
            flat = _flat_axes(item.turn)
            if flat is not None:
                i, j, angle = flat
                w, h = shape.size[i] * self._scale / 2, shape.size[j] * self._scale / 2
                round_ = min(shape.fillet * self._scale, w, h)
                path.addRoundRect(skia.Rect(-w, -h, w, h), round_, round_)
                path.transform(_turned(angle, x, y))
                return path
        if isinstance(shape, Lathe) and abs(axis[1]) < 1e-6:  # from its side: the profile and its mirror image
            r, z = np.array(shape.profile).T
            side = np.concatenate([np.stack([r, z], axis=-1), np.stack([-r, z], axis=-1)[::-1]]) * self._scale
            path.addPoly([skia.Point(px, -pz) for px, pz in side.tolist()], True)
            path.transform(_turned(math.atan2(axis[0], axis[2]), x, y))
            return path
        hull = _hull(_corners(shape) if isinstance(shape, Box) else _rim(shape), item.turn)
        path.addPoly([skia.Point(x + px * self._scale, y - pz * self._scale) for px, pz in hull], True)
        return path

    def _draw(self, canvas: skia.Canvas, item: _Item) -> None:
        path, material = self._outline(item), item.part.material
        clear = material.opacity < 1.0
        if clear:
            canvas.saveLayerAlpha(path.computeTightBounds().makeOutset(2.0, 2.0), round(255 * material.opacity))
        if item.shader is not None:
            matrix = _turned(self._angle(item), *self._pixel(item.centre[0], item.centre[2]))
            canvas.drawPath(path, skia.Paint(AntiAlias=True, Shader=item.shader.makeWithLocalMatrix(matrix)))
        else:
            canvas.drawPath(path, skia.Paint(AntiAlias=True, Color=_color(material.color)))
        if clear:
            canvas.restore()
        if self._flat:
            return
        box = path.computeTightBounds()
        if isinstance(item.part.shape, Box):
            self._bevel(canvas, path, box)
        elif item.shader is None or isinstance(item.part.shape, Sphere):
            self._gloss(canvas, path, box, material)

    def _bevel(self, canvas: skia.Canvas, path: skia.Path, box: skia.Rect) -> None:
        """Lighten a board's upper left edges and darken the others."""
        width = min(max(0.0012 * self._unit * self._scale, 1.0), 0.25 * min(box.width(), box.height()))
        n = math.hypot(*self._aim) or 1.0
        for side, tone, strength in ((-1.0, (1.0, 1.0, 1.0), 0.30), (1.0, (0.0, 0.0, 0.0), 0.34)):
            inner = skia.Path(path)
            inner.offset(side * self._aim[0] / n * width, side * self._aim[1] / n * width)
            edge = skia.Op(path, inner, skia.PathOp.kDifference_PathOp)
            if edge is not None:
                canvas.drawPath(edge, skia.Paint(AntiAlias=True, Color=_color(tone, strength)))

    def _gloss(self, canvas: skia.Canvas, path: skia.Path, box: skia.Rect, material: Material) -> None:
        """Shade a round part: dark away from the light, and a highlight whose size is the material's roughness."""
        metal = material.texture in ("brushed", "coin")
        radius = 0.5 * max(box.width(), box.height())
        least = 0.5 * min(box.width(), box.height())
        ax, ay = self._aim
        n = math.hypot(ax, ay) or 1.0
        x, y = box.centerX() + 0.42 * least * ax / n, box.centerY() + 0.42 * least * ay / n
        body = [
            _color((1, 1, 1), 0.30 if metal else 0.16),
            _color((0, 0, 0), 0.0),
            _color((0, 0, 0), 0.30),
            _color((0, 0, 0), 0.62),
        ]
        shader = skia.GradientShader.MakeRadial(
            center=(x, y), radius=1.5 * radius, colors=body, positions=[0.0, 0.35, 0.72, 1.0]
        )
        canvas.drawPath(path, skia.Paint(AntiAlias=True, Shader=shader))
        strength = 0.25 + 0.7 * (1.0 - material.roughness)
        shine = [_color((1, 1, 1), strength), _color((1, 1, 1), 0.45 * strength), _color((1, 1, 1), 0.0)]
        spot = skia.GradientShader.MakeRadial(
            center=(x, y), radius=least * (0.30 + 0.35 * material.roughness), colors=shine, positions=[0.0, 0.35, 1.0]
        )
        canvas.drawPath(path, skia.Paint(AntiAlias=True, Shader=spot))

    def _texture(self, part: Part, turn: Array) -> skia.Shader | None:
        """Return a part's picture as a shader about its centre [pixels], made once for the side that is seen; None for none."""
        code = texture_code(part.material)
        board = isinstance(part.shape, Box) and code in (textures.WOOD, textures.FELT, textures.BRUSHED)
        if not board and (code not in _PAINTED or isinstance(part.shape, Lathe)):
            return None
        towards = np.round(unrotate(turn, (0.0, -1.0, 0.0)), 6) + 0.0
        if not (board or isinstance(part.shape, Sphere)) and np.abs(towards).max() < 1.0:
            return None  # neither a face nor a side
        key = (part, () if board else tuple(towards.tolist()))
        if key not in self._shaders:
            self._shaders[key] = self._paint_texture(part, code) if board else self._painted(part, towards)
        return self._shaders[key]

    def _painted(self, part: Part, towards: Array) -> skia.Shader:
        """Return what is painted on a part, drawn at twice the size."""
        pixels = face(part, towards, 0.5 / self._scale, self._unit)
        matrix = skia.Matrix.Translate(-pixels.shape[1] / 2, -pixels.shape[0] / 2)
        matrix.postScale(0.5, 0.5)
        return skia.Image.fromarray(pixels, colorType=skia.kRGBA_8888_ColorType).makeShader(
            skia.TileMode.kClamp, skia.TileMode.kClamp, skia.SamplingOptions(skia.FilterMode.kLinear), matrix
        )

    def _angle(self, item: _Item) -> float:
        """Return how far an item's texture is turned [rad], clockwise as seen."""
        if texture_code(item.part.material) not in _PAINTED:
            flat = _flat_axes(item.turn)
            return flat[2] if flat else 0.0
        right = rotate(item.turn, basis(np.round(unrotate(item.turn, (0.0, -1.0, 0.0)), 6) + 0.0)[0])
        return math.atan2(-right[2], right[0])

    def _paint_texture(self, part: Part, code: int) -> skia.Shader:
        half = half_extents(part.shape)
        i, j = 0, 2
        flat = _flat_axes(np.asarray(part.quaternion, float))
        if flat is not None:
            i, j = flat[0], flat[1]
        reach = math.hypot(self._width, self._height)
        wide = max(2, math.ceil(min(2 * half[i] * self._scale, reach)) + 4)
        high = max(2, math.ceil(min(2 * half[j] * self._scale, reach)) + 4)
        step = 1.0 / self._scale
        u = (np.arange(wide) - wide / 2 + 0.5) * step
        v = (np.arange(high) - high / 2 + 0.5) * step
        share, bright = textures.sheet(code, u, v, half[i] >= half[j], self._unit, 0.6 * step, 0.37 * half[i] + 1.7 * half[j])
        base, dark = linear(part.material.color), linear(part.material.accent)
        light = (base * (1.0 - share[..., None]) + dark * share[..., None]) * bright[..., None]
        pixels = np.full((high, wide, 4), 255, np.uint8)
        pixels[..., :3] = srgb(light)
        image = skia.Image.fromarray(pixels, colorType=skia.kRGBA_8888_ColorType)
        matrix = skia.Matrix.Translate(-wide / 2, -high / 2)
        return image.makeShader(
            skia.TileMode.kMirror, skia.TileMode.kMirror, skia.SamplingOptions(skia.FilterMode.kLinear), matrix
        )


def _plane(world: World) -> float:
    """Return the depth y [m] of the plane in which things move: the mean of the loose bodies', or 0 where there is none."""
    depths = [world.moving[i].position[1] for i in world.loose]
    return float(np.mean(depths)) if depths else 0.0


def _color(rgb: Sequence[float], alpha: float = 1.0) -> int:
    return skia.ColorSetARGB(*(round(255 * min(max(v, 0.0), 1.0)) for v in (alpha, *rgb)))


def _turned(angle: float, x: float, y: float) -> skia.Matrix:
    """Return the matrix that turns by `angle` [rad], clockwise as seen, and moves to (x, y)."""
    matrix = skia.Matrix.RotateDeg(math.degrees(angle))
    matrix.postTranslate(x, y)
    return matrix


def _flat_axes(turn: Array) -> tuple[int, int, float] | None:
    """Return the local axes that lie across and up the picture, and the angle by which it is turned; None for a tilted box."""
    local = np.abs(unrotate(turn, (0.0, 1.0, 0.0)))
    away = int(np.argmax(local))
    if local[away] < 1.0 - 1e-6:
        return None
    i, j = ((1, 2), (0, 2), (0, 1))[away]
    across = rotate(turn, np.eye(3)[i])
    return i, j, math.atan2(-across[2], across[0])


def _corners(shape: Shape) -> Array:
    half = np.asarray(half_extents(shape))
    return half * np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], float)


def _rim(shape: Shape) -> Array:
    """Return points on the circles that a cylinder's or lathe's outline runs through."""
    high = half_extents(shape)
    rings = shape.profile if isinstance(shape, Lathe) else ((high[0], high[2]), (high[0], -high[2]))
    angle = np.linspace(0.0, 2.0 * np.pi, 72, endpoint=False)
    unit = np.stack([np.cos(angle), np.sin(angle), np.zeros(72)], axis=-1)
    return np.concatenate([unit * r + (0.0, 0.0, z) for r, z in rings])


def _hull(points: Array, turn: Array) -> Array:
    """Return the convex outline (k, 2) in x and z of `points` (n, 3) turned by `turn` (Andrew's monotone chain)."""
    placed = sorted({(float(p[0]), float(p[2])) for p in rotate(turn, points)})
    chains = []
    for sequence in (placed, placed[::-1]):
        chain: list[tuple[float, float]] = []
        for p in sequence:
            while len(chain) > 1 and _left(chain[-2], chain[-1], p) <= 0.0:
                chain.pop()
            chain.append(p)
        chains.append(chain[:-1])
    return np.array(chains[0] + chains[1])


def _left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
