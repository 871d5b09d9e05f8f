"""A physics digest names what its rollouts were: nothing under it may move without a version that moves the digest too.

`golden.json` holds, for each scene and integrator, the digest and a hash of the first rollouts. A digest that is not the one
kept means that somebody said that the physics changed: then the file is written anew, by
`python tests/simulators/test_golden.py`, and the change is in the commit. The same digest with other rollouts is the fault that
this is here for.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from scenes.catalog import scene_ids
from scenes.load import load_scene
from simulators.device import Rollouts
from simulators.engines.loop import physics_digest, run

FILE = Path(__file__).with_name("golden.json")
FIRST, OTHERS = 16, 2  # rollouts of the scene's first integrator, and of its others, which are engines and slow
MACHINE = [platform.machine(), *platform.libc_ver(), numba.__version__, np.__version__]  # what may move a last bit


def named(rollouts: Rollouts) -> str:
    """Return a hash of what rollouts ended in, and when, to the last bit."""
    columns = (rollouts.fact, rollouts.null, rollouts.first, rollouts.settle_time, rollouts.end.pos)
    return hashlib.blake2b(b"".join(x.tobytes() for x in columns), digest_size=8).hexdigest()


def digests(id: str) -> list[str]:
    """Return the digest of each of a scene's integrators."""
    scene = load_scene(id)
    return [physics_digest(scene.device, one) for one in scene.integrators]


def measured(id: str) -> dict[str, list[str]]:
    """Return digest and hash of each of a scene's integrators."""
    scene = load_scene(id)
    found = {}
    for rank, one in enumerate(scene.integrators):
        rollouts = run(one, scene.device, 0, scene.stream, range(OTHERS if rank else FIRST))
        found[one.name] = [physics_digest(scene.device, one), named(rollouts)]
    return found


@pytest.mark.parametrize("id", scene_ids())
def test_the_same_digest_gives_the_same_rollouts(id):
    kept = json.loads(FILE.read_text("utf-8"))
    known = [digest for digest, _ in kept["scenes"].get(id, {}).values()]
    assert digests(id) == known, f"{id}: the physics is said to be another than in {FILE.name}: python {__file__}"
    if kept["machine"] != MACHINE:
        pytest.skip(f"kept on {kept['machine']}; this is {MACHINE}, where a last bit may differ")
    assert measured(id) == kept["scenes"].get(id), (
        f"{id}: rollouts are others than in {FILE.name}, and the digest is the same: the physics moved unsaid. Give the "
        f"device, kernel or engine a new version, and write the file anew: python {__file__}"
    )


if __name__ == "__main__":
    scenes = {}
    for id in scene_ids():
        scenes[id] = measured(id)
        print(id, scenes[id], file=sys.stderr, flush=True)
    lines = ",\n".join(f"  {json.dumps(id)}: {json.dumps(found)}" for id, found in scenes.items())
    FILE.write_text(f'{{"machine": {json.dumps(MACHINE)}, "scenes": {{\n{lines}\n}}}}\n', "utf-8")
