"""The two-stage track: what the island leaves open, both ways round it, mirrored launches, and a second integrator."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kernel_checks import check_batches, check_fold, tvd_bound

from scenes.load import load_scene
from simulators.device import Device, Launches
from simulators.devices.regions import BallRouter
from simulators.devices.two_stage_track import TwoStageTrack
from simulators.engines.loop import run
from simulators.sampling import Distribution, launch_block

SCENE = load_scene("calibench/ball")
FIELDS = {field.name: getattr(SCENE.device, field.name) for field in dataclasses.fields(SCENE.device)}
TRACK = TwoStageTrack(**FIELDS)


def test_the_contract() -> None:
    assert isinstance(TRACK, Device) and isinstance(TRACK, BallRouter)
    check_batches(SCENE.kernel, TRACK)
    check_fold(SCENE.kernel, TRACK, n=100)


def test_both_ways_round_the_island_are_as_wide_as_the_channel() -> None:
    """From a rail's middle line to that of the island's side along it: the channel and two half rails."""
    world = TRACK.world()
    island = next(body for body in world.bodies if body.name == "divider").parts[5:]  # after the divider's planks and its tip
    assert len(island) == 6  # four sides and two round tips
    across, up = np.cos(TRACK.angle), np.sin(TRACK.angle)
    widest = TRACK.channel / 2.0 + TRACK.rail_radius + TRACK.detour
    middle = (TRACK.meeting_height + TRACK.parting_height) / 2.0
    tip = max(part.position[2] for part in island)
    # The rail's line through its widest corner, and the island's through its upper tip, both at `angle` from upright
    away = widest * across + (middle - tip) * up
    assert away == pytest.approx(TRACK.channel + 2.0 * TRACK.rail_radius, rel=1e-9)


def test_balls_pass_on_either_side_and_end_on_either() -> None:
    """n = 400, seed 2: of each of two fair sides fewer than 140 come up with a probability of 1e-9 (binomial)."""
    rollouts = run(SCENE.kernel, TRACK, 2, "two stages", range(400), fps=60)
    middle = (TRACK.meeting_height + TRACK.parting_height) / 2.0
    way = []
    for trajectory in rollouts.trajectories or ():
        ball = trajectory.pos[:, 0]
        way.append(ball[np.argmax(ball[:, 2] < middle), 0])
    passed = np.array(way)
    assert np.abs(passed).min() > TRACK.ball_radius  # beside the island, not through it
    assert np.all(rollouts.fact >= 0)
    for right in ((passed > 0.0).sum(), (rollouts.fact == 1).sum()):
        assert 140 <= right <= 260


def test_a_mirrored_launch_ends_on_the_other_side() -> None:
    """n = 1,000, seed 5. A rounding in another order may tip a launch that is as good as balanced at one of three tips."""
    values = {name: value[:1000] for name, value in launch_block(TRACK.random, 5, "two stages", 0).items()}

    def facts(sign: float) -> np.ndarray:
        launch = {name: sign * value for name, value in values.items()}
        return SCENE.kernel.integrate(TRACK, Launches(np.arange(1000), launch, TRACK.start(launch), 5, "x"), None).fact

    assert np.sum(facts(-1.0) != 1 - facts(1.0)) <= 3


def test_without_a_perturbation_the_ball_balances_on_the_island() -> None:
    none = {name: Distribution.of({"dist": "norm", "loc": 0.0, "scale": 0.0}) for name in TRACK.variables}
    rollouts = run(SCENE.kernel, dataclasses.replace(TRACK, random=none), 1, "still", range(2))
    assert np.all(rollouts.fact < 0) and np.all(rollouts.end.pos[:, 0, 2] > TRACK.meeting_height)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"detour": 0.02}, "`detour` must be at least"), ({"lane": 0.01}, "`lane` must be at least"), ({"angle": 2.0}, "`angle`")],
)
def test_wrong_parameters_are_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TwoStageTrack(**{**FIELDS, **changes})


@pytest.mark.slow
def test_pymunk_gives_the_same_distribution() -> None:
    """n = 1,000 each, the same launches, seed 7: the bound holds with 99 %, of which the samples' noise makes most."""
    ours, theirs = (run(one, TRACK, 7, "two stages", range(1000)) for one in (SCENE.kernel, SCENE.engine))
    assert tvd_bound(ours.fact, theirs.fact, 2)[1] < 0.1
