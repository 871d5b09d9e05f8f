"""Mass runs: slices of indices on this thread, many threads, processes or a cluster, handed back in index order.

A slice is a pure function of its arguments and may be run twice: how many workers there are, where, and in which order they
finish change nothing.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from simulators.device import Device, Integrator, Kernel, Rollouts
from simulators.engines.loop import run
from simulators.sampling import BLOCK

T = TypeVar("T")
R = TypeVar("R")
Choice = Literal["auto", "serial", "threads", "process", "dask", "slurm"]
CHOICES: tuple[Choice, ...] = ("auto", "serial", "threads", "process", "dask", "slurm")

SECONDS = {"dask": 5.0, "slurm": 120.0}
"""How long a slice should take [s]: long enough to outweigh its journey; .2 on this machine, where that is short."""
FIRST, MOST = 32, 64 * BLOCK  # rollouts in a slice: to begin with, and at most


class InfrastructureError(RuntimeError):
    """A machine failed, not a rollout: nothing may be counted."""


class ExecutorError(ValueError):
    """The executor asked for cannot be had; the message says what to install or give."""


class Pool:
    """The workers of one command, made when first asked for and closed with it.

    `choice`: `auto` (threads for kernels, spawned processes for engines and pictures; this thread alone where one worker is
    enough), `serial`, `threads`, `process`, `dask` (`cluster`: a scheduler's address, else a local cluster of processes),
    `slurm` (submitit; `cluster`: `local` for its local mode, or its parameters such as `slurm_partition=cpu,timeout_min=60`).
    `folder` is where Slurm keeps its jobs. Raises `ExecutorError` where a package is missing.
    """

    def __init__(
        self, choice: Choice = "auto", workers: int | None = None, cluster: str | None = None, folder: Path = Path("slurm-jobs")
    ) -> None:
        self.workers = workers if workers is not None else len(os.sched_getaffinity(0))
        if self.workers < 1:
            raise ExecutorError(f"`workers` must be at least 1, got {self.workers}")
        if choice not in CHOICES:
            raise ExecutorError(f"`executor` must be one of {', '.join(CHOICES)}, got {choice!r}")
        if cluster is not None and choice not in ("dask", "slurm"):
            raise ExecutorError(f"`cluster` is {cluster!r}, which executor={choice} does not use: give executor=dask or slurm")
        self.choice, self.cluster, self.folder = choice, cluster, folder
        self._open: dict[str, Executor] = {}
        self._closing = ExitStack()

    def __enter__(self) -> Pool:
        """Return itself: nothing is made yet."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop what was made; what had not begun is dropped."""
        self._closing.close()

    def executor(self, integrator: Integrator | None = None) -> Executor | None:
        """Return what runs slices of `integrator`, or other pure work (None); None is this thread itself."""
        kind = self.kind(integrator)
        if kind == "serial":
            return None
        if kind not in self._open:
            self._open[kind] = getattr(self, f"_{kind}")()
        return self._open[kind]

    def kind(self, integrator: Integrator | None = None) -> str:
        """Return which executor that is; pictures never travel, they are drawn on this machine."""
        if self.choice in ("dask", "slurm") and integrator is not None:
            return self.choice
        if self.choice in ("auto", "dask", "slurm"):
            if self.workers == 1:
                return "serial"
            return "threads" if isinstance(integrator, Kernel) else "process"
        return self.choice

    def seconds(self, integrator: Integrator) -> float:
        """Return how long [s] a slice should take."""
        return SECONDS.get(self.kind(integrator), 0.2)

    def _threads(self) -> Executor:
        executor = ThreadPoolExecutor(self.workers)
        self._closing.callback(executor.shutdown, wait=True, cancel_futures=True)
        return executor

    def _process(self) -> Executor:
        context = multiprocessing.get_context("spawn")
        executor = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_end_with_parent)
        self._closing.callback(executor.shutdown, wait=True, cancel_futures=True)
        return executor

    def _dask(self) -> Executor:
        try:
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise ExecutorError("executor=dask needs a package more: pip install 'quincunx[dask]'") from error
        if self.cluster is None:
            local = LocalCluster(n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address=None)
            client = Client(self._closing.enter_context(local))
        else:
            try:
                client = Client(self.cluster, timeout="10s")
            except (OSError, ValueError) as error:
                raise ExecutorError(f"no Dask scheduler answers at cluster={self.cluster!r}: {error}") from error
        self._closing.enter_context(client)
        # A worker that dies takes its slice along; the scheduler runs it again elsewhere, and the bytes are the same.
        executor = cast(Executor, client.get_executor(retries=3))
        self._closing.callback(executor.shutdown)
        return executor

    def _slurm(self) -> Executor:
        try:
            import submitit
        except ImportError as error:
            raise ExecutorError("executor=slurm needs a package more: pip install 'quincunx[slurm]'") from error
        where = None if self.cluster is None or "=" in self.cluster else self.cluster
        try:
            executor = submitit.AutoExecutor(folder=self.folder / "%j", cluster=where)
            given = dict(pair.split("=", 1) for pair in self.cluster.split(",")) if self.cluster and where is None else {}
            executor.update_parameters(**{key: int(v) if v.isdigit() else v for key, v in given.items()})
        except (RuntimeError, ValueError, TypeError, NameError, AssertionError) as error:
            raise ExecutorError(f"executor=slurm with cluster={self.cluster!r} cannot be set up: {error}") from error
        return cast(Executor, executor)


def _end_with_parent() -> None:
    """Let a worker end when its parent is killed: the pool alone would leave it waiting for work for ever."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _submit(executor: Executor, function: Callable[..., R], *arguments: Any) -> Future[R]:
    """Submit a call. What a process cannot import is told as such: unpickled by the pool itself it would kill the worker."""
    if isinstance(executor, ProcessPoolExecutor):
        return executor.submit(_unpacked, pickle.dumps((function, arguments)))
    return executor.submit(function, *arguments)


def _unpacked(call: bytes) -> Any:
    try:
        function, arguments = pickle.loads(call)
    except (ImportError, AttributeError) as error:
        raise InfrastructureError(
            f"a worker process cannot import what it is to run ({error}): install it, or take workers=1"
        ) from error
    return function(*arguments)


def run_range(
    integrator: Integrator,
    device: Device,
    seed: int,
    stream: str,
    first: int,
    stop: int | None,
    pool: Pool | None = None,
    ahead: int | None = None,
) -> Iterator[Rollouts]:
    """Yield rollouts `first` to `stop` (None: without end) in index order, in slices sized by how long they take.

    At most `ahead` slices are in flight (default: two a worker); whoever stops iterating stops the run. Raises
    `InfrastructureError` when a worker dies.
    """
    executor = pool.executor(integrator) if pool is not None else None
    seconds = pool.seconds(integrator) if pool is not None else 0.2
    most = ahead if ahead is not None else 1 if executor is None or pool is None else 2 * pool.workers
    sizes = _Sizes(first, stop, seconds)
    if executor is None:
        for wanted in sizes:
            rollouts, took = _timed(integrator, device, seed, stream, wanted)
            sizes.learn(len(rollouts), took)
            yield rollouts
        return
    waiting: deque[Future[tuple[Rollouts, float]]] = deque()
    try:
        while True:
            for wanted in islice(sizes, most - len(waiting)):
                waiting.append(_submit(executor, _timed, integrator, device, seed, stream, wanted))
            if not waiting:
                return
            rollouts, took = waiting.popleft().result()
            sizes.learn(len(rollouts), took)
            yield rollouts
    except BrokenProcessPool as error:
        raise InfrastructureError("a worker process died (out of memory, or killed); its slice was not counted") from error
    except Exception as error:
        if _is_of_cluster(error):
            raise InfrastructureError(f"the cluster lost a slice, which was not counted: {error}") from error
        raise
    finally:
        for future in waiting:
            with suppress(Exception):  # a job that has ended cannot be cancelled, and need not be
                future.cancel()


def _is_of_cluster(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in ("distributed", "dask", "submitit")


def _timed(integrator: Integrator, device: Device, seed: int, stream: str, wanted: range) -> tuple[Rollouts, float]:
    begun = time.monotonic()
    return run(integrator, device, seed, stream, wanted), time.monotonic() - begun


class _Sizes:
    """Ranges one after the other, each meant to take `seconds` [s] at the rate learnt so far."""

    def __init__(self, first: int, stop: int | None, seconds: float) -> None:
        self.next, self.stop, self.seconds, self.size = first, stop, seconds, FIRST

    def __iter__(self) -> _Sizes:
        return self

    def __next__(self) -> range:
        first = self.next
        if self.stop is not None and first >= self.stop:
            raise StopIteration
        end = first + self.size
        if self.size >= BLOCK:
            end -= end % BLOCK  # launches are drawn a block at a time: no block is drawn twice
        self.next = end if self.stop is None else min(end, self.stop)
        return range(first, self.next)

    def learn(self, count: int, took: float) -> None:
        """Choose the next size: a power of two, at most eight times the last one, since a first slice compiles."""
        wanted = count * self.seconds / max(took, 1e-6)
        self.size = min(max(2 ** math.floor(math.log2(max(wanted, FIRST))), FIRST), 8 * self.size, MOST)


def spread(
    pool: Pool | None, function: Callable[[T], R], tasks: Sequence[T], advance: Callable[[R], Any] = lambda done: None
) -> list[R]:
    """Return `function(task)` of each task in order, on the pool's processes; `advance(result)` hears of each.

    Raises `InfrastructureError` when a worker dies.
    """
    executor = pool.executor() if pool is not None else None
    results = list[R]()
    if executor is None:
        for task in tasks:
            results.append(function(task))
            advance(results[-1])
        return results
    futures = [_submit(executor, function, task) for task in tasks]
    try:
        for future in futures:
            results.append(future.result())
            advance(results[-1])
    except BrokenProcessPool as error:
        raise InfrastructureError("a worker process died (out of memory, or killed); nothing of it was counted") from error
    finally:
        for future in futures:
            future.cancel()
    return results
