"""The hand that acts in a picture: parts of an actuator, drawn and never integrated. It knows no device and no outcome."""

from __future__ import annotations

from simulators import rotation
from simulators.world import Box, Capsule, Cylinder, Material, Part, Quat, Vec3

SKIN = Material(color=(0.86, 0.66, 0.54), accent=(0.78, 0.56, 0.45), roughness=0.8)
SLEEVE = Material(color=(0.20, 0.29, 0.42), texture="felt", accent=(0.16, 0.24, 0.36), roughness=1.0)
FINGER = 0.0075  # m, radius
LENGTH = 0.055  # m, of a finger beyond the palm


def hand(fingers: tuple[float, ...], along: Quat = rotation.IDENTITY) -> tuple[Part, ...]:
    """Return a flat hand of which the fingertips reach down to its origin's height, palm, wrist and sleeve above.

    `fingers` are their places [m] along the hand's local x axis, side by side; `along` turns the hand about its origin, so
    that it reaches elsewhere than down.
    """
    middle, half = (min(fingers) + max(fingers)) / 2.0, (max(fingers) - min(fingers)) / 2.0 + FINGER
    parts: list[tuple[Box | Capsule | Cylinder, Vec3, Material]] = [
        (Capsule(FINGER, LENGTH), (x, 0.0, FINGER + LENGTH / 2.0), SKIN) for x in fingers
    ]
    palm = 0.075
    parts.append((Box((2.0 * half, 2.6 * FINGER, palm), FINGER), (middle, 0.0, LENGTH + palm / 2.0), SKIN))
    parts.append((Cylinder(0.024, 0.05), (middle, 0.0, LENGTH + palm + 0.02), SKIN))
    parts.append((Cylinder(0.032, 0.25, 0.004), (middle, 0.0, LENGTH + palm + 0.16), SLEEVE))
    turned = (tuple(rotation.rotate(along, place).tolist()) for _, place, _ in parts)
    return tuple(Part(shape, place, along, material) for (shape, _, material), place in zip(parts, turned, strict=True))
