"""The command `layercast workload`, and the workloads that its traces are made of."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import layercast
from layercast_lab.experiment import Context
from layercast_lab.simulator import command, run_all, toml_file

PAPER = "B. A. Mah, Quality of Service and ATM in IP Internetworks, 1996"
SITES, WORKSTATIONS, SERVERS = 6, 17, 2
"""102 workstations: in the traces of the thesis there are about a hundred."""
SPAN_S = 142_849
"""Of the trace of 19 September 1995."""
SEEDS = 5
HTTP_MODEL = {
    "request": "http.request",
    "reply": "http.reply",
    "files_per_page": "http.files_per_page",
    "think": "http.think",
    "consecutive_pages": "http.consecutive_pages",
}
VIDEO_MODEL = {
    "size_cr": "video.size_cr",
    "size_bg": "video.size_bg",
    "packets_cr": "geometric(0.1984,37) packets",
    "packets_bg": "lomax(1.9,3.5823,462) packets",
}
"""As in mah96.toml; where that says how the conversation ends, each experiment says it itself."""


def tell(*arguments: str | Path | float) -> str:
    """What `layercast workload` prints; raises LayercastError with what it complains of."""
    done = run(*arguments)
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    return done.stdout


def ask(*arguments: str | Path | float) -> Any:
    """The same with --json. One that says that something is bad, by its exit code, says what in it."""
    done = run(*arguments, "--json")
    if not done.stdout:
        raise layercast.LayercastError(done.stderr.strip())
    return json.loads(done.stdout)


def run(*arguments: str | Path | float) -> subprocess.CompletedProcess[str]:
    """Runs it."""
    words = [command(), "workload", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True)


def samples(name: str, number: int, seed: int = 1) -> np.ndarray:
    """Values of a distribution."""
    return np.array(tell("sample", name, "-n", number, "--seed", seed).split()[1:], dtype=float)


def column(path: Path) -> np.ndarray:
    """Samples that `analyze http --out` wrote."""
    return np.loadtxt(path, ndmin=1)


@dataclass(frozen=True)
class Web:
    """A trace of the Web with what `layercast workload offered` counted itself."""

    connections: Path
    offered: dict[str, Any]
    seed: int

    def analysed(self, *options: str | Path | float) -> dict[str, Any]:
        """What `layercast workload analyze http` finds."""
        return ask("analyze", "http", self.connections, *options)

    def samples(self, *options: str | Path | float) -> dict[str, np.ndarray]:
        """The samples it finds, by quantity."""
        folder = self.connections.with_suffix("")
        tell("analyze", "http", self.connections, "--out", folder, *options)
        return {name: column(folder / f"{name}.csv") for name in HTTP_MODEL}


def web(context: Context, name: str, seed: int, parallel: int = 1) -> Web:
    """Browsers and nothing else for as long as the thesis listened, on an infinitely fast network."""
    app = {
        "model": "http",
        "arrival": {"process": "poisson", "mean_s": 5, "placement": "distinct"},
        "from": "workstation",
        "to": "server",
        "choose": "zipf",
        "parallel": parallel,
        "dist": HTTP_MODEL,
    }
    file = context.path(f"{name}.toml")
    file.write_text(toml_file({"app": {"http": app}}))
    connections = context.path(f"{name}-{seed}.csv")
    seconds = context.seconds or SPAN_S
    population = ("--sites", SITES, "--workstations", WORKSTATIONS, "--servers", SERVERS)
    found = ask(
        *("offered", "--workload", file, "--duration", f"{seconds:g}s", "--seed", seed, *population),
        *("--connections", connections),
    )
    return Web(connections, found, seed)


def webs(context: Context, name: str, seeds: int = SEEDS) -> list[Web]:
    """A trace of each seed."""
    return run_all(
        context, f"{name}, seeds", lambda seed: web(context, name, seed), context.seed_range(seeds)
    )


def video(context: Context, name: str, seed: int, seconds: float) -> Path:
    """The packets of one conversation of video."""
    app = {
        "model": "video",
        "arrival": {"process": "periodic", "mean_s": seconds},
        "from": "workstation",
        "to": "workstation",
        "rate_bps": 128_000,
        "frames_per_s": 8,
        "overdue_ms": 150,
        "dist": VIDEO_MODEL | {"duration": f"const({seconds:g}) s"},
    }
    file, packets = context.path(f"{name}.toml"), context.path(f"{name}-{seed}.csv")
    file.write_text(toml_file({"app": {"video": app}}))
    # Each site starts one in its length: few are made for the one that is wanted.
    tell(
        *("offered", "--workload", file, "--duration", f"{2 * seconds:g}s", "--seed", seed),
        *("--sites", 2, "--workstations", 1, "--servers", 1, "--packets", packets),
    )
    return packets


def model(name: str) -> dict[str, Any]:
    """Mean and quantiles of the sampler of a distribution."""
    return ask("list", name)[0]


def fit(name: str, path: Path) -> dict[str, Any]:
    """Samples of a file beside a distribution."""
    return ask("compare", name, "--samples", path)


def span(values: Sequence[float], write: Callable[[float], str] = "{:,.3g}".format) -> str:
    """Mean and range."""
    text = write(float(np.mean(values)))
    ends = [write(end) for end in (min(values), max(values))]
    return text if ends[0] == ends[1] else f"{text} [{ends[0]} to {ends[1]}]"


def whole(value: float) -> str:
    """Without digits after the point, and spaces between thousands."""
    return f"{value:,.0f}".replace(",", " ")
