"""Mass runs: slices of indices on one process or many, handed back in index order.

A slice is a pure function of its arguments, so the number of workers and the order they finish in change nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice

from simulators.device import Device, Integrator, Rollouts
from simulators.engines.loop import run


class InfrastructureError(RuntimeError):
    """A machine failed, not a rollout: nothing may be counted."""


@contextmanager
def open_executor(workers: int | None = None) -> Iterator[Executor | None]:
    """Yield an executor of `workers` spawned processes (default: one a core), or None when one is enough."""
    count = workers if workers is not None else len(os.sched_getaffinity(0))
    if count < 1:
        raise ValueError(f"`workers` must be at least 1, got {count}")
    if count == 1:
        yield None
        return
    executor = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """Let a worker end when its parent is killed: the pool alone would leave it waiting for work for ever."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def run_slices(
    engine: Integrator,
    device: Device,
    seed: int,
    stream: str,
    slices: Iterable[range],
    executor: Executor | None = None,
    ahead: int = 8,
) -> Iterator[Rollouts]:
    """Yield the rollouts of each slice of indices, in the order given, with at most `ahead` slices in flight.

    `slices` may be endless: whoever stops iterating stops the run. Raises `InfrastructureError` when a worker dies.
    """
    if executor is None:
        for wanted in slices:
            yield run(engine, device, seed, stream, wanted)
        return
    waiting: deque[Future[Rollouts]] = deque()
    pending = iter(slices)
    try:
        while True:
            for wanted in islice(pending, ahead - len(waiting)):
                waiting.append(executor.submit(run, engine, device, seed, stream, wanted))
            if not waiting:
                return
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise InfrastructureError("a worker process died (out of memory, or killed); its slice was not counted") from error
    finally:
        for future in waiting:
            future.cancel()
