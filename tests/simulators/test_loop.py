"""The loop that ends a rollout, driven by a scripted device; and the name of the physics."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from scenes.load import load_scene, scene_ids
from simulators.device import NULL_REASONS, ON_EDGE, STUCK, UNDECIDED, State
from simulators.engines.loop import REST_TIME, BlowUpError, physics_digest, run
from simulators.sampling import Distribution
from simulators.world import Body, Part, Sphere, World

FAST, STILL = 1.0, 0.0
OUT = 100.0  # m


@dataclass(frozen=True)
class Script:
    """A ball whose place and reading at each of 60 instants a second are written down; the last pair goes on for ever."""

    places: tuple[float, ...]
    codes: tuple[int, ...]
    readout: str = "rest"
    end_time: float | None = None
    random: dict = field(default_factory=lambda: {"nothing": Distribution.of({"dist": "norm", "loc": 0.0, "scale": 1.0})})
    facts: ClassVar[tuple[str, ...]] = ("a", "b", "c")

    def world(self) -> World:
        return World((Body("ball", (Part(Sphere(0.01)),), mass=1.0),), ((-10.0,) * 3, (10.0,) * 3))

    def start(self, launch):
        return State.at_release(self.world(), len(launch["nothing"]))

    def read(self, state: State):
        tick = round(float(state.time[0]) * 60)
        return np.array([self.codes[min(tick - 1, len(self.codes) - 1)]])


@dataclass(frozen=True)
class Replay:
    """An engine that shows the script's places."""

    script: Script
    steps_per_second: int = 60
    time_limit: float = 2.0
    name: ClassVar[str] = "replay"
    version: ClassVar[str] = "1"

    def open(self, world):
        return self

    def reset(self, start, drives=None):
        object.__setattr__(self, "tick", 0)

    def step(self, steps):
        object.__setattr__(self, "tick", self.tick + steps)

    def state(self):
        row = State.at_release(self.script.world(), 1)
        row.time[0] = self.tick / 60
        places = self.script.places
        row.pos[0, 0, 0] = places[min(self.tick, len(places)) - 1] if self.tick else 0.0
        return row

    def close(self):
        pass


def ended(places, codes, **settings):
    script = Script(tuple(places), tuple(codes), **settings)
    rollouts = run(Replay(script), script, 0, "s", [0])
    return int(rollouts.fact[0]), NULL_REASONS[rollouts.null[0]], int(rollouts.first[0]), float(rollouts.settle_time[0])


MOVING = [0.1 * (k % 2) for k in range(200)]


def test_first_latches_the_first_fact_and_rest_reads_the_last():
    places, codes = [*MOVING[:10], 0.0], [UNDECIDED, 0, 1, 2, 1]
    assert ended(places, codes, readout="first")[:3] == (0, "", 0)
    assert ended(places, codes, readout="rest")[:3] == (1, "", 0)
    assert ended(places, codes, readout="strongest")[:3] == (2, "", 0)


def test_rest_takes_a_quarter_of_a_second_without_moving():
    fact, _, _, settled = ended([*MOVING[:31], 0.05], [0])
    assert fact == 0
    assert settled == pytest.approx(32 / 60 + REST_TIME, abs=1.01 / 60)


def test_a_slow_creep_is_no_rest():
    assert ended(np.linspace(0.0, 0.2, 200), [0])[1] == "unsettled"  # 17 micrometres an instant, 4 mm in .25 s


@pytest.mark.parametrize(
    ("places", "codes", "settings", "fact", "reason"),
    [
        ([0.0], [STUCK], {}, -1, "stuck"),
        ([0.0], [UNDECIDED], {}, -1, "stuck"),
        ([0.0], [ON_EDGE], {}, -1, "on_edge"),
        ([0.0], [UNDECIDED], {"readout": "first"}, -1, "stuck"),
        (MOVING, [0], {}, -1, "unsettled"),
        (MOVING, [0], {"readout": "first"}, 0, ""),
        ([0.1, OUT], [0], {}, -1, "left_apparatus"),
        ([0.1, OUT], [0], {"readout": "first"}, 0, ""),
        ([0.1, OUT], [UNDECIDED], {"readout": "first"}, -1, "left_apparatus"),
        (MOVING, [UNDECIDED] * 29 + [2], {"readout": "last", "end_time": 0.5}, 2, ""),
        (MOVING, [2] * 29 + [UNDECIDED], {"readout": "last", "end_time": 0.5}, -1, "stuck"),
        ([0.1, OUT], [2], {"readout": "last", "end_time": 0.5}, -1, "left_apparatus"),
        (MOVING, [0, 2, 1], {"readout": "strongest"}, 2, ""),
    ],
)
def test_how_a_rollout_ends(places, codes, settings, fact, reason):
    assert ended(places, codes, **settings)[:2] == (fact, reason)


def test_numbers_that_blow_up_are_a_failure_and_no_null():
    with pytest.raises(BlowUpError, match="rollout 0 blew up in replay"):
        ended([0.1, float("nan")], [0])


@pytest.mark.parametrize("indices", [[-1], [0.5], [[0]], ["0"]])
def test_an_index_that_is_none_is_refused(indices):
    script = Script((0.0,), (0,))
    with pytest.raises(ValueError, match=r"`indices` must be|at least 0"):
        run(Replay(script), script, 0, "s", indices)


# --- the digest ---


def other(value):
    """Return a value of the same kind that is another."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return type(value)(value * 2) if value else type(value)(1)
    if isinstance(value, tuple):
        return (other(value[0]), *value[1:]) if value else (1,)
    if isinstance(value, dict):
        if not value:
            return {"more": 1}
        name, first = next(iter(value.items()))
        return {**value, name: other(first)}
    if isinstance(value, Distribution):
        return Distribution(value.dist, tuple((key, number + 0.25) for key, number in value.parameters if key != "size"))
    return f"{value}?"


@pytest.mark.parametrize("scene_id", scene_ids())
def test_the_digest_covers_every_parameter_and_nothing_else(scene_id, monkeypatch):
    scene = load_scene(scene_id)
    fixed = scene.device.world()
    digests = [physics_digest(scene.device, scene.integrator)]
    for part, names in (("device", scene.device), ("integrator", scene.integrator)):
        cls = type(names)
        for one in dataclasses.fields(cls):
            changed = object.__new__(cls)  # past the checks: some changes are no possible device
            for f in dataclasses.fields(cls):
                value = getattr(names, f.name)
                object.__setattr__(changed, f.name, other(value) if f.name == one.name else value)
            if part == "device":
                monkeypatch.setattr(cls, "world", lambda self: fixed)
            digest = physics_digest(*((changed, scene.integrator) if part == "device" else (scene.device, changed)))
            monkeypatch.undo()
            if one.metadata.get("physics", True):
                digests.append(digest)
            else:
                assert digest == digests[0], one.name
    assert len(set(digests)) == len(digests)
    assert physics_digest(scene.device, scene.integrator) == digests[0]


def test_the_digest_knows_the_engine_s_version_the_bounds_and_the_readout(monkeypatch):
    script = Script((0.0,), (0,))
    digests = {physics_digest(script, Replay(Script((0.0,), (0,))))}
    monkeypatch.setattr(Replay, "version", "2")
    digests.add(physics_digest(script, Replay(Script((0.0,), (0,)))))
    digests.add(physics_digest(dataclasses.replace(script, readout="first"), Replay(Script((0.0,), (0,)))))
    monkeypatch.setattr(Script, "world", lambda self: World((), ((-1.0,) * 3, (1.0,) * 3)))
    digests.add(physics_digest(script, Replay(Script((0.0,), (0,)))))
    assert len(digests) == 4


TOUCHING = [id for id in scene_ids() if hasattr(load_scene(id).device, "restitution")]  # a wheel on its axle meets nothing


@pytest.mark.parametrize("scene_id", TOUCHING)
def test_what_meets_has_the_stated_restitution_and_friction(scene_id):
    """The pair's value is the geometric mean of the two sides (see `Surface`)."""
    scene = load_scene(scene_id)
    world = scene.device.world()
    bodies = [body for body in world.bodies if body.collides]
    loose = [world.moving[i] for i in world.loose]
    pairs = [(one, other) for one in loose for other in bodies if other is not one]
    bounces = [np.sqrt(one.surface.restitution * other.surface.restitution) for one, other in pairs]
    grips = [np.sqrt(one.surface.friction * other.surface.friction) for one, other in pairs]
    assert any(value == pytest.approx(scene.device.restitution) for value in bounces)
    assert any(value == pytest.approx(scene.device.friction) for value in grips)
