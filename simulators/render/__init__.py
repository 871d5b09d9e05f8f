"""Pictures of a World in a State, one file a renderer; `prepare` is the way in."""

from __future__ import annotations

from typing import Literal

from simulators.render.canvas import Canvas, Image, Region, nominal_state, refuse_blank
from simulators.world import Camera, Light, Vec3, World

__all__ = ["RENDERERS", "Canvas", "Image", "Region", "Renderer", "prepare"]

Renderer = Literal["planar", "raster", "photoreal"]
RENDERERS: tuple[Renderer, ...] = ("planar", "raster", "photoreal")


def prepare(renderer: Renderer, world: World, camera: Camera, light: Light, backdrop: Vec3 | None = None) -> Canvas:
    """Prepare a canvas; `backdrop` is the sRGB colour of what lies behind everything, by default the renderer's own.

    Where all light is ambient (`Light.ambient` 1) the picture is flat: plain colours and no shadow.

    Raises `ValueError` for an unknown renderer, for a camera that it cannot use, and where the nominal picture is one
    single colour or black: nobody could read anything in it.
    """
    canvas: Canvas
    if renderer == "planar":
        from simulators.render.planar import PlanarCanvas

        canvas = PlanarCanvas(world, camera, light, backdrop)
    elif renderer == "raster":
        from simulators.render.raster import RasterCanvas

        canvas = RasterCanvas(world, camera, light, backdrop)
    elif renderer == "photoreal":
        from simulators.render.photoreal import PhotorealCanvas

        canvas = PhotorealCanvas(world, camera, light, backdrop)
    else:
        raise ValueError(f"`renderer` must be one of {', '.join(RENDERERS)}, got {renderer!r}")
    refuse_blank(canvas.frame(nominal_state(world), 0), "the nominal picture")
    return canvas
