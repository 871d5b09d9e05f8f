"""What touches, against gaps that are known by construction."""

import numpy as np
import pytest

from simulators.render.contacts import TOUCH, Contacts
from simulators.rotation import about
from simulators.world import Body, Box, Capsule, Cylinder, Lathe, Part, Sphere, World

FLAT = (0.0, 0.0, 0.0, 1.0)
ON_A_SIDE = tuple(about((1, 0, 0), np.pi / 2))
ON_AN_EDGE = tuple(about((1, 0, 0), np.pi / 4))
CONE = Lathe(((0.0, -0.02), (0.03, 0.01), (0.0, 0.01)))  # a top, its tip at -.02
BOWL = Lathe(((0.0, 0.0), (0.05, 0.0), (0.08, 0.04)))  # open above
CASES = [  # a shape, how it is turned, and how high its middle is above what it stands on
    (Sphere(0.02), FLAT, 0.02),
    (Box((0.016, 0.016, 0.016), 0.002), FLAT, 0.008),
    (Box((0.016, 0.016, 0.016)), ON_AN_EDGE, 0.008 * np.sqrt(2)),
    (Box((0.016, 0.016, 0.016), 0.002), ON_AN_EDGE, 0.006 * np.sqrt(2) + 0.002),
    (Cylinder(0.012, 0.002), FLAT, 0.001),
    (Cylinder(0.012, 0.002), ON_A_SIDE, 0.012),
    (Capsule(0.004, 0.03), FLAT, 0.019),
    (Capsule(0.004, 0.03), ON_A_SIDE, 0.004),
    (CONE, FLAT, 0.02),
]


def world(shape, below: Body, scale: float = 1.0) -> World:
    ball, post = Body("loose", (Part(shape),), 0.01), Body("post", (Part(Box((0.01, 0.01, 0.2))),), position=(0.2, 0, 0.1))
    return World((below, ball, post), ((-1, -1, -1), (1, 1, 1)), scale=scale)


def told(made: World, quat, height: float) -> list[bool]:
    contacts = Contacts(made)
    try:
        return contacts.touching(np.array([[0.0, 0.0, height]]), np.array([quat]))[0].tolist()
    finally:
        contacts.close()


@pytest.mark.parametrize(("shape", "quat", "height"), CASES)
@pytest.mark.parametrize("under", ["table", "bowl"])
def test_what_is_farther_away_than_said_does_not_touch_and_what_is_nearer_does(shape, quat, height, under):
    below = Body("below", (Part(Box((0.3, 0.3, 0.01)), (0, 0, -0.005)),) if under == "table" else (Part(BOWL),))
    made = world(shape, below)
    for gap, touches in ((-0.2 * TOUCH, True), (0.5 * TOUCH, True), (1.6 * TOUCH, False), (10 * TOUCH, False)):
        assert told(made, quat, height + gap) == [touches, False, False], gap


def test_the_limit_goes_with_the_worlds_scale():
    below = Body("below", (Part(Box((3, 3, 1)), (0, 0, -0.5)),))
    assert told(world(Sphere(0.2), below, scale=10.0), FLAT, 0.2 + 5 * TOUCH)[0]
    assert not told(world(Sphere(0.2), below, scale=1.0), FLAT, 0.2 + 5 * TOUCH)[0]


def test_two_loose_bodies_touch_one_another_and_an_actuator_has_no_row():
    parts = (Part(Sphere(0.01)),)
    made = World(
        (
            Body("a", parts, 0.01),
            Body("b", parts, 0.01),
            Body("rotor", parts, driven=True),
            Body("far", parts, position=(0, 0, 1)),
        ),
        ((-1, -1, -1), (1, 1, 1)),
    )
    contacts = Contacts(made)
    pos = np.array([[0, 0, 0], [0.02, 0, 0], [0.04, 0, 0]], float)
    order = [body.name for body in made.moving]
    assert order == ["a", "b", "rotor"]
    found = contacts.touching(pos, np.tile([0.0, 0, 0, 1], (3, 1)))
    contacts.close()
    assert found.tolist() == [[False, True, False, False], [True, False, True, False], [False] * 4]
