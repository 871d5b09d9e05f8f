"""Pictures of a World in a State, one file a renderer."""

from simulators.render.canvas import Canvas, Image, Region, Renderer, prepare

__all__ = ["Canvas", "Image", "Region", "Renderer", "prepare"]
