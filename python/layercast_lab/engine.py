"""The simulator in a process of its own: a run that crashes or eats all memory costs that run."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@functools.cache
def version() -> str:
    """Tells this build of the simulator from others: what its file holds."""
    from layercast import _layercast

    with open(_layercast.__file__, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


@dataclass(frozen=True)
class Job:
    """One run."""

    address: str
    text: str
    """The scenario, `Point.text`."""
    seed: int
    about: Mapping[str, Any]
    """What the result says of itself."""


@dataclass(frozen=True)
class Done:
    """A run that came to its end."""

    address: str
    data: bytes
    """Its result, a Parquet file."""
    partial: bool
    """Whether its budget ended it."""
    events: int
    seconds: float
    """That the simulator was at work."""
    memory: int
    """Most that the process ever had, bytes."""
    worker: str


@dataclass(frozen=True)
class Failed:
    """A run without a result."""

    address: str
    error: str


class Engine:
    """A process that makes one run after the other; not for several threads simultaneously.

    `memory` is the most it may have, bytes (Linux; elsewhere there is no bound), `inputs` the folder of files
    that scenarios name.
    """

    def __init__(self, inputs: Path, memory: int | None = None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        # One thread each: there are as many of these processes as there are processors.
        quiet = {
            "POLARS_MAX_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "RUST_BACKTRACE": "0",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "layercast_lab.engine", str(inputs), str(memory or 0)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=os.environ | quiet | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            # Ctrl-C is for the process that started the campaign; this one gets a message.
            start_new_session=True,
        )
        self._memory = memory
        self.alive = True

    def run(self, job: Job, timeout: float | None = None) -> Done | Failed:
        """Makes a run; the engine is not `alive` after one that took more than `timeout` s or died."""
        if not self._send(job):
            return Failed(job.address, self._end())
        if timeout is not None and not select.select([self._process.stdout], [], [], timeout)[0]:
            self.kill()
            self._end()
            return Failed(job.address, f"it took more than {timeout:g} s")
        try:
            return pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            return Failed(job.address, self._end())

    def _send(self, job: Job) -> bool:
        try:
            pickle.dump(job, self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def kill(self) -> None:
        """Ends the process, whatever it does; from any thread."""
        self._process.kill()

    def close(self) -> None:
        """Ends the process."""
        self.kill()
        self._end()

    def _end(self) -> str:
        """Waits until the process has ended; what is known of why."""
        self.alive = False
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 2_000))
        told = self._stderr.read().decode(errors="replace").splitlines()
        told = [line for line in told if line and not line.startswith("note: ")]
        self._stderr.close()
        bound = f"; it may have {self._memory / 2**20:.0f} MiB" if self._memory else ""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the simulator died ({how}{bound})" + (f": {told[-1]}" if told else "")


def serve(inputs: str, memory: int) -> None:
    """Makes the runs that come in by standard input until there are no more."""
    bound_memory(memory)
    # Whatever prints to standard output may not disturb the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                jobs.put(pickle.load(sys.stdin.buffer))
        except BaseException:
            # The current run is not wanted any more, either.
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        pickle.dump(simulate(jobs.get(), inputs), answers)
        answers.flush()


def simulate(job: Job, inputs: str) -> Done | Failed:
    """Makes one run in this process."""
    import json

    import layercast
    from layercast_lab.rows import parquet

    if job.about["engine"] != version():
        return Failed(job.address, f"{name()} has another build of layercast: {version()}")
    try:
        started = time.perf_counter()
        summary = layercast.run(json.loads(job.text), seed=job.seed, base_dir=inputs).summary
        seconds = time.perf_counter() - started
        data = parquet(summary, job.about)
    except layercast.LayercastError as error:
        return Failed(job.address, str(error))
    except MemoryError:
        return Failed(job.address, "out of memory")
    # Panics of the simulator are no Exceptions.
    except BaseException as error:
        return Failed(job.address, f"{type(error).__name__}: {error}")
    partial = summary.get("stopped") is not None
    return Done(job.address, data, partial, summary["events"], seconds, most_memory(), name())


def name() -> str:
    """This process among those of all machines."""
    return f"{os.uname().nodename}:{os.getpid()}"


def bound_memory(bytes: int) -> None:
    """Lets allocations beyond this fail."""
    if bytes and sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (bytes, bytes))


def most_memory() -> int:
    """Most memory this process ever had, bytes."""
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    # As the module that others import, so that what is pickled has the same name on both sides.
    from layercast_lab import engine

    engine.serve(sys.argv[1], int(sys.argv[2]))
