"""Processes of a mass run: none outlives the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

STRANGE = """
import sys, types
from simulators.execute import InfrastructureError, Pool, spread

class Strange:
    pass

Strange.__module__, Strange.__qualname__ = "nowhere_else", "Strange"
if __name__ == "__main__":
    sys.modules["nowhere_else"] = types.SimpleNamespace(Strange=Strange)
    with Pool("process", 2) as pool:
        try:
            spread(pool, len, [Strange()])
        except InfrastructureError as error:
            print(error)
"""
PARENT = """
import os, time
from simulators.execute import Pool
if __name__ == "__main__":
    with Pool("process", 2) as pool:
        executor = pool.executor()
        print(*{executor.submit(os.getpid).result() for _ in range(20)}, flush=True)
        time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_workers_end_when_their_parent_is_killed(tmp_path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert workers and all(alive(pid) for pid in workers)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30.0
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(alive(pid) for pid in workers)


def test_what_a_worker_cannot_import_is_named(tmp_path) -> None:
    """It would else be told as a worker that died."""
    script = tmp_path / "strange.py"
    script.write_text(STRANGE)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert "cannot import what it is to run (No module named 'nowhere_else')" in done.stdout, done.stderr
