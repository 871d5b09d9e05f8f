"""Dask and Slurm, as far as one machine can show them: a real local cluster that loses a worker, and submitit's local mode.

They need the extras `dask` and `slurm`, which `make nightly` installs.
"""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from scenes.load import load_scene
from simulators.device import Rollouts
from simulators.execute import ExecutorError, Pool, run_range

pytestmark = pytest.mark.slow
SCENE = "pawbench/A-02"
N = 256


def rows(pool: Pool | None, n: int = N) -> Rollouts:
    scene = load_scene(SCENE).run_by("engine")
    return Rollouts.concatenate(list(run_range(scene.integrator, scene.device, 3, scene.stream, 0, n, pool)))


def assert_same(a: Rollouts, b: Rollouts) -> None:
    assert np.array_equal(a.index, b.index)
    for name in ("fact", "null", "first"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert a.settle_time.tobytes() == b.settle_time.tobytes()
    assert a.end.pos.tobytes() == b.end.pos.tobytes()


@pytest.fixture(scope="module")
def here() -> Rollouts:
    return rows(None)


def test_a_dask_cluster_that_loses_a_worker_gives_the_same_bytes(here, tmp_path):
    from distributed import Client, LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        with Client(cluster) as client:
            pids = list(client.run(os.getpid).values())
        assert len(set(pids)) == 2

        scene, parts = load_scene(SCENE).run_by("engine"), list[Rollouts]()
        with Pool("dask", 2, cluster.scheduler_address) as pool:
            for part in run_range(scene.integrator, scene.device, 3, scene.stream, 0, N, pool):
                if not parts:
                    os.kill(pids[0], signal.SIGKILL)  # its slices in flight are lost, and must come back
                parts.append(part)
    assert len(parts) > 2
    assert_same(Rollouts.concatenate(parts), here)


def test_a_local_dask_cluster_of_its_own(here):
    with Pool("dask", 2) as pool:
        assert_same(rows(pool), here)


def test_a_scheduler_that_is_not_there_is_one_clear_message():
    with Pool("dask", 2, "tcp://127.0.0.1:1") as pool, pytest.raises(ExecutorError, match=r"127\.0\.0\.1:1"):
        rows(pool, 4)


def test_submitit_in_its_local_mode(here, tmp_path):
    with Pool("slurm", 2, "local", tmp_path) as pool:
        assert_same(rows(pool), here)
