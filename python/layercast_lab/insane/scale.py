"""XUNET at rates of today, with a load that has grown with them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from layercast_lab.grid import load
from layercast_lab.insane.study import SCENARIO
from layercast_lab.simulator import toml_file

WORKLOADS = Path(__file__).resolve().parents[1] / "workloads"
"""The composite workload of the thesis and its distributions."""
BIGGER = ("itemsize", "reply")
"""Distributions of bytes: of files, and of what the Web answers."""
MORE = {"telnet": 8, "ftp": 4, "http": 2, "nntp": 4, "audio": 65, "video": 65}
"""Times as many conversations, so that a run of minutes has enough; the rest of the growth is in bytes.

Calls have the bytes of 1996. 65 times as many circuits for the Web could not be set up: signalling has eight
messages under way on a link, so at most 133 a second each way over the 30 ms of the longest.
"""


@dataclass(frozen=True)
class Network:
    """A backbone with its load."""

    name: str
    times: int
    """As fast as that of 1996, to a percent."""
    rate: str
    seconds: float
    warm_up: float = 0.0
    grown: bool = True
    """Whether the load has grown as the rate has."""
    cold: Mapping[str, float] = field(default_factory=dict)
    """How many times more conversations make up for a run that is too short for them to gather."""

    def fields(self, folder: Path) -> dict[str, Any]:
        """What is replaced in the scenario of the study; the workload is written into the folder.

        Buffers are as long in time as they were: 47 ms of a line for a circuit, 221 ms for a port.
        """
        queue = load(SCENARIO)[0]["atm"]["queue"]
        fields: dict[str, Any] = {
            "run.duration": f"{self.seconds:g}s",
            "run.warm_up": f"{self.warm_up:g}s",
            "topology.backbone": self.rate,
            "topology.lan": "100 Gbit/s",
            "atm.queue.per_vc_limit": queue["per_vc_limit"] * self.times,
            "atm.queue.port_limit": queue["port_limit"] * self.times,
        }
        if self.grown:
            # Today's 1 MiB at 100 Mbit/s is 93 ms of the line (8 KiB: 47 ms of a T1); as long at other rates.
            window = f"{16 * self.times} KiB"
            tcp = {"profile": "modern", "send_buffer": window, "recv_buffer": window}
            fields |= {"tcp.default": tcp, "workload.use": str(self.workload(folder).resolve())}
        return fields

    def workload(self, folder: Path) -> Path:
        """Writes that of the thesis with as many times more bytes: more conversations, and larger files."""
        folder.mkdir(parents=True, exist_ok=True)
        grown = tomllib.loads((WORKLOADS / "mah96.toml").read_text())
        for name, app in grown["app"].items():
            more = MORE.get(name, 1)
            app["arrival"]["mean_s"] /= more * self.cold.get(name, 1)
            for what in BIGGER:
                if what in app["dist"]:
                    app["dist"][what] = str(larger(app["dist"][what], self.times // more, folder).resolve())
        path = folder / f"mah96-{self.times}.toml"
        path.write_text(toml_file(grown))
        return path


def larger(name: str, times: int, folder: Path) -> Path:
    """Writes a distribution of whole numbers, each multiplied by a factor."""
    head, _, knots = (WORKLOADS / f"{name}.dist").read_text().partition("[knots]\n")
    lines = []
    for line in head.splitlines():
        title, _, value = line.partition("=")
        lines.append(f"mean = {float(value) * times:.10g}" if title.strip() == "mean" else line)
    lines.append("[knots]")
    for line in knots.splitlines():
        probability, value = line.split()
        lines.append(f"{probability} {int(value) * times}")
    path = folder / f"{name}-{times}.dist"
    path.write_text("\n".join(lines) + "\n")
    return path


# With `cold`, `layercast workload offered` has after the warm-up as many bit/s of each application as the
# workload of the thesis has in 4,000 s, in the mean over 40 seeds.
EMPTY = Network("100 Mbit/s, load x 1", 65, "100 Mbit/s", 1000, grown=False)
FAST = Network(
    "100 Mbit/s, load x 65",
    *(65, "100 Mbit/s", 120, 20),
    cold={"audio": 4.6, "video": 8.4, "http": 1.3},
)
FASTER = Network(
    "1 Gbit/s, load x 650",
    *(650, "1 Gbit/s", 30, 10),
    cold={"audio": 14, "video": 28, "http": 1.9, "ftp": 1.25},
)
NETWORKS = (EMPTY, FAST, FASTER)
