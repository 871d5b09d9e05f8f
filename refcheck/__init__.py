"""The checks of a scene's reference and of a judge's readings."""
