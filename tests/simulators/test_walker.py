"""The walker: what the model says about itself, since it says nothing about people."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kernel_checks import check_batches, check_fold, tvd_bound

from scenes.load import load_scene
from simulators.engines.loop import run

N = 20_000


@pytest.fixture(scope="module")
def scene():
    return load_scene("calibench/walking")


@pytest.fixture(scope="module")
def rollouts(scene):
    return run(scene.kernel, scene.device, 0, "test", range(N))


def test_batches_and_fold(scene):
    check_batches(scene.kernel, scene.device)
    check_fold(scene.kernel, scene.device, n=300)


def test_everybody_takes_a_side_and_stops_there(scene, rollouts):
    assert not rollouts.null.any()
    x, y = rollouts.end.pos[:, 0, 0], rollouts.end.pos[:, 0, 1]
    assert np.array_equal(rollouts.fact, (x > 0).astype(int)) and np.array_equal(rollouts.first, rollouts.fact)
    assert np.all(np.abs(x) >= scene.device.end) and np.all(y > scene.device.length)


def test_sides_are_even_by_symmetry_and_not_with_a_preference(scene, rollouts):
    """A share of N halves is off by more than .0142 with probability 6e-5 (four standard errors)."""
    assert abs(np.mean(rollouts.fact) - 0.5) < 0.0142
    for preference in (0.1, -0.1):
        leaning = dataclasses.replace(scene.device, preference=preference)
        share = np.mean(run(scene.kernel, leaning, 0, "test", range(4000)).fact)
        assert np.sign(share - 0.5) == np.sign(preference) and abs(share - 0.5) > 0.05


def test_without_noise_the_first_heading_decides(scene):
    calm = dataclasses.replace(scene.device, restlessness=0.0)
    some = run(scene.kernel, calm, 0, "test", range(500))
    heading = -2.0 * np.arctan2(calm.start(_launch(calm)).quat[:500, 0, 2], 1.0)
    assert not 0.01 < np.mean(some.fact == (heading > 0)) < 0.99  # the same side for all, which steering back may turn round


def _launch(device):
    from simulators.sampling import launch_block

    return launch_block(device.random, 0, "test", 0)


def test_half_the_step_moves_nothing(scene, rollouts):
    finer = dataclasses.replace(scene.kernel, steps_per_second=480)
    other = run(finer, scene.device, 0, "test", range(4000))
    assert tvd_bound(rollouts.fact[:4000], other.fact, 2)[0] < 0.01  # the same forces: few change sides
    assert np.mean(rollouts.fact[:4000] == other.fact) > 0.99


def test_a_walker_who_has_no_time_is_unsettled(scene):
    hurried = dataclasses.replace(scene.kernel, time_limit=1.0)
    some = run(hurried, scene.device, 0, "test", range(20))
    assert np.all(some.null == 4) and np.all(some.fact == -1)
