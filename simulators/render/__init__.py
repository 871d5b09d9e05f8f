"""Pictures of a World in a State, one file a renderer; `prepare` is the way in."""

from __future__ import annotations

from typing import Literal

from simulators.render.canvas import Canvas, Image, Region, nominal_state, refuse_blank
from simulators.world import Camera, Light, World

__all__ = ["Canvas", "Image", "Region", "Renderer", "prepare"]

Renderer = Literal["planar", "raster"]


def prepare(renderer: Renderer, world: World, camera: Camera, light: Light) -> Canvas:
    """Prepare a canvas.

    Raises `ValueError` for an unknown renderer, for a camera that it cannot use, and where the nominal picture is one
    single colour: nobody could read anything in it.
    """
    canvas: Canvas
    if renderer == "planar":
        from simulators.render.planar import PlanarCanvas

        canvas = PlanarCanvas(world, camera, light)
    elif renderer == "raster":
        from simulators.render.raster import RasterCanvas

        canvas = RasterCanvas(world, camera, light)
    else:
        raise ValueError(f"`renderer` must be 'planar' or 'raster', got {renderer!r}")
    refuse_blank(canvas.frame(nominal_state(world), 0), "the nominal picture")
    return canvas
