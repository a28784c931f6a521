"""The testbed of the METS papers on the sockets of this machine (specs/mets.md 3.3): `sockets testbed`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import layercast
from layercast_lab.experiment import Context, Row, judge
from layercast_lab.simulator import Frames
from layercast_lab.testbed import PENTIUM_RECEIVER, PENTIUM_SENDER

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

# Runs in real time that wait most of the time; a run at 17 500 cells/s takes half a processor.
AT_ONCE = 2
# No sender uses steps below this: a rate that is a rational number of frames per second is one.
MOST_DENOMINATOR = 10_000


@dataclass(frozen=True)
class Run:
    """What came of flows from atc to dwp."""

    told: Mapping[str, Any]
    """As `sockets testbed` prints it."""
    flows: list[Frames]
    """The frames of each flow, if they were asked for."""

    @property
    def sent(self) -> float:
        """Cells per second that left the emulated sender, from its first to its last."""
        atc = self.told["atc"]
        return 1e6 * atc["sent_cells"] / atc["sent_for_us"]

    @property
    def cell_loss(self) -> float:
        """Share of the cells that found the emulated interface full."""
        dwp = self.told["dwp"]
        return dwp["interface"]["dropped_cells"] / dwp["received_cells"]

    @property
    def host_lost(self) -> int:
        """Datagrams that the kernel dropped: with any, a run is not valid."""
        return self.told["host_lost"]


def flow(
    sizes: Sequence[int],
    frames_per_s: float,
    *,
    start: float,
    shaping: Any,
    types: str = "I",
    delay_max_ms: int = 1_000,
) -> dict[str, Any]:
    """A flow of frames of these sizes in bytes, the picture types repeating."""
    rate = Fraction(frames_per_s).limit_denominator(MOST_DENOMINATOR)
    return {
        "trace": "".join(f"{i} {types[i % len(types)]} {size}\n" for i, size in enumerate(sizes)),
        "frame_rate": [rate.numerator, rate.denominator],
        "start": start,
        "shaping": {"bucket": shaping} if isinstance(shaping, Mapping) else shaping,
        "delay_max_ms": delay_max_ms,
    }


def costs(profile: Mapping[str, Any]) -> dict[str, Any]:
    """A host profile of a scenario with its times in microseconds."""
    units = {"us": 1, "ms": 1_000}

    def plain(value: Any) -> Any:
        return int(value[:-2]) * units[value[-2:]] if isinstance(value, str) else value

    return {name: plain(value) for name, value in profile.items()}


SENDER_1996, RECEIVER_1996 = costs(PENTIUM_SENDER), costs(PENTIUM_RECEIVER)


def run(job: Mapping[str, Any]) -> Run:
    """Runs flows from atc over chuff, sparrow and rook to dwp, in real time."""
    done = subprocess.run(
        [*urgent(), program(), "testbed"], input=json.dumps(job), capture_output=True, text=True
    )
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    told = json.loads(done.stdout)
    return Run(told, frames(told.pop("frames"), len(job["flows"])))


def run_together(
    context: Context,
    what: str,
    function: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    at_once: int = AT_ONCE,
) -> list[Outcome]:
    """Runs `function` on each job, some at a time, with progress."""
    pool = ThreadPoolExecutor(at_once)
    try:
        return list(context.progress(pool.map(function, jobs), len(jobs), what))
    finally:
        pool.shutdown(cancel_futures=True)


def frames(seen: Iterable[tuple[str, int, int, float, float]], flows: int) -> list[Frames]:
    """The times of the frames of each flow; flows are numbered from 1."""
    times: list[dict[int, list[float]]] = [{} for _ in range(flows)]
    # Of a node the ends are recorded by two threads: what was sent comes first.
    for what, number, seq, time, delay in sorted(seen, key=lambda one: one[0] != "sent"):
        of_flow = times[number - 1]
        match what:
            case "sent":
                of_flow.setdefault(seq, [time, np.nan, np.nan, np.nan])
            case "received":
                of_flow[seq][1:3] = time, time - delay
            case "played":
                of_flow[seq][3] = time
    columns = [np.array(list(one.values()), dtype=float).reshape(-1, 4).T for one in times]
    numbers = [np.array(list(one), dtype=np.int64) for one in times]
    return [Frames(seq, *column) for seq, column in zip(numbers, columns, strict=True)]


def kernel_row(runs: Iterable[Run]) -> Row:
    """What makes runs invalid (specs/mets.md 3.3), and how late this machine was."""
    runs = list(runs)
    lost = sum(one.host_lost for one in runs)
    late = max((one.told["latest_timer_us"] for one in runs), default=0) / 1e3
    return Row(
        "datagrams lost by the kernel",
        "-",
        f"{lost}; the latest timer of a node ran {late:.1f} ms late",
        "0, else the runs are invalid",
        judge(lost == 0),
    )


def urgent() -> list[str]:
    """How to run before all others, where a machine has other things to do (BENCH_URGENT=1, as root)."""
    return ["chrt", "-f", "20"] if os.environ.get("BENCH_URGENT") else []


def program() -> str:
    """The `sockets` program: $LAYERCAST_SOCKETS, or the release build of this source tree."""
    target = os.environ.get("CARGO_TARGET_DIR") or Path(__file__).resolve().parents[2] / "target"
    built = os.environ.get("LAYERCAST_SOCKETS") or str(Path(target, "release", "examples", "sockets"))
    if os.access(built, os.X_OK):
        return built
    raise FileNotFoundError(f"{built} is no program: experiments on sockets need it; `make build` makes it")
