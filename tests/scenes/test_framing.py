"""The camera of every scene shows what its readout rule needs."""

from __future__ import annotations

import numpy as np
import pytest

from scenes.load import load_scene, scene_ids
from simulators.engines.loop import run

MARGIN = 12  # px


@pytest.mark.parametrize("scene_id", scene_ids())
def test_what_decides_the_outcome_comes_to_rest_in_the_picture(scene_id: str) -> None:
    scene = load_scene(scene_id)
    rollouts = run(scene.integrator, scene.device, 21, scene.stream, range(48))
    ended = rollouts.fact >= 0
    pixels = scene.camera.project(rollouts.end.pos[ended][:, list(scene.device.world().loose)])
    size = np.array([scene.camera.width, scene.camera.height])
    assert ended.any()
    assert np.all(pixels >= MARGIN) and np.all(pixels <= size - MARGIN)
