"""Many runs in one call, and runs with every frame's times."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import layercast
from layercast_lab.experiment import Context

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

PS_PER_S = 1e12
SCENARIOS = Path(__file__).resolve().parent / "scenarios"


def ready_made(name: str) -> dict[str, Any]:
    """A scenario of the folder `scenarios`, by its name without ".toml"."""
    return tomllib.loads((SCENARIOS / f"{name}.toml").read_text())


def run_all(
    context: Context, what: str, function: Callable[[Job], Outcome], jobs: Sequence[Job]
) -> list[Outcome]:
    """Runs `function` on each job, in as many threads as there are processors, with progress."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(context.progress(pool.map(function, jobs), len(jobs), what))
    finally:
        # After Ctrl-C only what has begun is waited for.
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Frames:
    """The frames of one flow: a row for each that was sent, times in seconds."""

    seq: np.ndarray
    """Its number in the flow, frames that were not sent counted too."""
    sent: np.ndarray
    """When it left the frame scheduler."""
    arrived: np.ndarray
    """When its last cell reached the transport; NaN if it never did."""
    emitted: np.ndarray
    """The timestamp it carries, its scheduled time; NaN if it never arrived."""
    played: np.ndarray
    """When it was played; NaN if it never arrived or came too late."""

    @property
    def delay_ms(self) -> np.ndarray:
        """From departure to arrival, of those that arrived."""
        delay = (self.arrived - self.sent) * 1e3
        return delay[~np.isnan(delay)]


def run_traced(scenario: Mapping[str, Any], seed: int) -> list[Frames]:
    """Runs a scenario with `layercast sim --trace`; the frames of each of its flows.

    The Python bindings return the summary only, and that has no frames. Raises OSError if there is
    no `layercast` command.
    """
    with tempfile.TemporaryDirectory() as folder:
        file, trace = Path(folder, "scenario.toml"), Path(folder, "trace")
        file.write_text(toml_file(scenario))
        arguments = ["sim", file, "--seed", str(seed), "--json", "--trace", trace]
        done = subprocess.run([command(), *arguments], capture_output=True, text=True)
        if done.returncode:
            raise layercast.LayercastError(done.stderr.strip())
        with trace.open() as lines:
            return frames(lines, len(scenario["flow"]))


def frames(lines: Any, flows: int) -> list[Frames]:
    """What a trace tells of the frames of each flow; flows are numbered from 1."""
    times: list[dict[int, list[float]]] = [{} for _ in range(flows)]
    for line in lines:
        # Only these three are wanted, and reading JSON is slow.
        if not any(f'"event":"{event}"' in line for event in ("sent", "received", "played")):
            continue
        record = json.loads(line.lstrip("\x1e"))
        if record["machine"] not in ("source", "sink"):
            continue
        flow, time = times[record["flow"] - 1], record["time"] / PS_PER_S
        match record["event"]:
            case "sent":
                flow.setdefault(record["seq"], [time, np.nan, np.nan, np.nan])
            case "received":
                flow[record["seq"]][1:3] = time, time - record["delay"] / PS_PER_S
            case "played":
                flow[record["seq"]][3] = time
    columns = [np.array(list(flow.values()), dtype=float).reshape(-1, 4).T for flow in times]
    numbers = [np.array(list(flow), dtype=np.int64) for flow in times]
    return [Frames(seq, *column) for seq, column in zip(numbers, columns, strict=True)]


def simulate(scenario: Mapping[str, Any], file: Path, *options: str | Path) -> dict[str, Any]:
    """Writes a scenario to a file and runs `layercast sim` on it; what `--json` prints."""
    file.write_text(toml_file(scenario))
    done = subprocess.run([command(), "sim", file, "--json", *options], capture_output=True, text=True)
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    return json.loads(done.stdout)


def command() -> str:
    """The `layercast` command: $LAYERCAST, this source tree's release build, or the one installed."""
    target = os.environ.get("CARGO_TARGET_DIR") or Path(__file__).resolve().parents[2] / "target"
    built = Path(target, "release", "layercast")
    named = os.environ.get("LAYERCAST")
    for candidate in [named] if named else [str(built), shutil.which("layercast")]:
        if candidate and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    missing = f"$LAYERCAST, {named}, is no program" if named else "there is no `layercast` command"
    raise FileNotFoundError(f"{missing}: `make build` makes it")


def toml_file(value: Mapping[str, Any]) -> str:
    """A mapping as TOML, a line for each of its names."""
    return "".join(f"{key(name)} = {toml(inner)}\n" for name, inner in value.items())


def toml(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {toml(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    # JSON and TOML agree on strings, numbers and truth values.
    return json.dumps(value)


def key(name: str) -> str:
    """A name as TOML has it, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
