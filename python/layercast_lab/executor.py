"""Runs on Dask: processors of this machine, or of any cluster."""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import os
import queue
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import dask
from distributed import Client, Future, LocalCluster

from layercast_lab import engine
from layercast_lab.engine import Done, Engine, Failed, Job

AHEAD = 4
"""Runs that each worker has or is about to get: few, so that campaigns of any size take little memory."""
LEAST_AHEAD = 64
LOOK_EVERY_S = 1
"""For workers that have come or gone: batch systems start them when there is room."""
WAIT_S = 60
"""For a scheduler that does not answer."""


class ClusterError(OSError):
    """A cluster that cannot make the runs; the text says why."""


class Worker:
    """What a process that makes runs keeps from one to the next: engines, and files that scenarios name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[int | None, Engine]] = []
        self._busy: dict[str, Engine] = {}
        self._folder: tempfile.TemporaryDirectory | None = None

    def run(
        self, job: Job, inputs: Mapping[str, bytes], memory: int | None, timeout: float | None
    ) -> Done | Failed:
        """Makes a run in an engine that has nothing to do, or a new one."""
        with self._lock:
            folder = self._provide(inputs)
            bounded = [entry for entry in self._idle if entry[0] == memory]
            if bounded:
                self._idle.remove(bounded[0])
            found = bounded[0][1] if bounded else Engine(folder, memory)
            self._busy[job.address] = found
        try:
            return found.run(job, timeout)
        finally:
            with self._lock:
                del self._busy[job.address]
                if found.alive:
                    self._idle.append((memory, found))

    def _provide(self, inputs: Mapping[str, bytes]) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="layercast-")
            atexit.register(self._folder.cleanup)
        folder = Path(self._folder.name)
        for name, data in inputs.items():
            if not (folder / name).exists():
                (folder / name).write_bytes(data)
        return folder

    def stop(self, addresses: Iterable[str]) -> None:
        """Ends these runs, if they are under way here, and engines that have nothing to do."""
        with self._lock:
            for address in self._busy.keys() & set(addresses):
                self._busy[address].kill()
            for _, idle in self._idle:
                idle.close()
            self._idle.clear()


here = Worker()


def make(job: Job, inputs: Mapping[str, bytes], memory: int | None, timeout: float | None) -> Done | Failed:
    """A task: one run, wherever it is made."""
    return here.run(job, inputs, memory, timeout)


def stop(addresses: Iterable[str]) -> None:
    """Ends what a campaign has left in this process."""
    here.stop(addresses)


def memory_per_worker(jobs: int) -> int | None:
    """An equal part of this machine's memory for each of `jobs`."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // jobs
    except (ValueError, OSError):
        return None


class Executor:
    """Makes runs on a Dask cluster: that at the address `scheduler`, or `jobs` processes of this machine."""

    def __init__(
        self, scheduler: str | None, jobs: int | None, memory: int | None, timeout: float | None
    ) -> None:
        self._cluster: LocalCluster | None = None
        self._memory, self._timeout = memory, timeout
        if scheduler is None:
            # The simulators take all processors: that they leave Dask waiting is nothing to warn of, and what
            # it would do besides (a sample of all stacks each 10 ms, a tick each 20 ms) is 3 % of one.
            quiet = {"admin.tick.limit": "1h", "admin.tick.interval": "1s", "worker.profile.enabled": False}
            dask.config.set({f"distributed.{name}": value for name, value in quiet.items()})
            jobs = jobs or os.cpu_count() or 1
            self._memory = memory or memory_per_worker(jobs)
            self._cluster = LocalCluster(
                n_workers=1,
                threads_per_worker=jobs,
                processes=False,
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
                local_directory=tempfile.gettempdir(),
            )
        try:
            self._client = Client(self._cluster or scheduler, timeout=WAIT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"there is no Dask scheduler at {scheduler}: {error}") from None
        self._running: dict[Future, Job] = {}
        self._lost = False
        self._done: queue.SimpleQueue[Future | None] = queue.SimpleQueue()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancels what is under way, and ends the engines."""
        left = [job.address for job in self._running.values()]
        with contextlib.suppress(Exception):
            if not self._lost:
                self._client.cancel(list(self._running))
                self._client.run(stop, left)
            self._client.close(timeout=1 if self._lost else WAIT_S)
        if self._cluster:
            self._cluster.close()

    def workers(self) -> int:
        """How many runs can be made concurrently, now."""
        return sum(self._client.nthreads().values())

    def check(self) -> None:
        """Raises ClusterError unless all workers that are there have this build of the simulator."""
        wanted = engine.version()
        for worker, found in self._client.run(engine.version, on_error="return").items():
            if isinstance(found, BaseException):
                raise ClusterError(f"worker {worker} has no layercast: {found}")
            if found != wanted:
                raise ClusterError(
                    f"worker {worker} has another build of layercast: {found}, here it is {wanted}"
                )

    def run(self, jobs: Iterable[Job], inputs: Mapping[str, bytes]) -> Iterator[Done | Failed]:
        """The outcome of each job, as they come."""
        # Once to each worker, not once to each run; a task, as its outcome comes back when a worker is lost.
        key = "layercast-inputs-" + "-".join(sorted(inputs))
        sent = self._client.submit(dict, dict(inputs), key=key)
        waiting = iter(jobs)
        ahead, looked = LEAST_AHEAD, -math.inf

        def submit() -> None:
            nonlocal ahead, looked
            if time.monotonic() - looked >= LOOK_EVERY_S:
                # That the scheduler is lost, the runs tell.
                with contextlib.suppress(OSError):
                    ahead = max(AHEAD * self.workers(), LEAST_AHEAD)
                looked = time.monotonic()
            for job in islice(waiting, max(0, ahead - len(self._running))):
                arguments = (job, sent, self._memory, self._timeout)
                future = self._client.submit(make, *arguments, key=f"layercast-{job.address}", pure=False)
                self._running[future] = job
                future.add_done_callback(self._done.put)

        submit()
        while self._running:
            future = self._done.get()
            if future is None:
                return
            if future.cancelled():
                self._lost = True
                # It would tell at length that it cannot connect again.
                logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
                raise ClusterError("the connection to the scheduler was lost; the same command continues")
            job = self._running.pop(future)
            submit()
            yield outcome(future, job)

    def interrupt(self) -> None:
        """Makes `run` come to its end; from any thread, or a handler of a signal."""
        self._done.put(None)


def outcome(future: Future, job: Job) -> Done | Failed:
    """What became of a job; a worker that died or cannot load the task costs the run, not the campaign."""
    try:
        return future.result()
    except Exception as error:
        return Failed(job.address, f"{type(error).__name__}: {error}")
