"""INSANE S2: waits in one queue beside Pollaczek and Khinchine (specs/insane-simulator.md 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import NormalDist, mean, stdev
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.line import CELL_S, T1, line
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all, simulate
from layercast_lab.style import plt

TITLE = "INSANE S2: a queue for a T1 link beside M/D/1"
LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
WARM_UP_S, SECONDS = 5.0, 60.0
HEAVY, LONGER = 0.9, 3
"""From this load on, the memory of queues is long, and runs are longer by this factor."""
SEEDS = 20
ONE_CELL, PACKET = 40, 552
SLOWER = 8 * PACKET / 424
"""How many times the service of a packet is that of a cell: its runs are as much longer."""
CONFIDENCE = 0.99
WIDEST = 0.05
"""Half of an interval, of the mean."""


@dataclass(frozen=True)
class Found:
    """Mean waits in service times, one for each seed, at a load."""

    what: str
    load: float
    waits: Sequence[float]

    @property
    def theory(self) -> float:
        """Mean wait of M/D/1 in service times."""
        return self.load / (2 * (1 - self.load))

    @property
    def half(self) -> float:
        """Half of the interval of the mean."""
        n = len(self.waits)
        return student(CONFIDENCE, n - 1) * stdev(self.waits) / sqrt(n) if n > 1 else float("inf")


def student(confidence: float, freedom: int) -> float:
    """The two-sided quantile of Student's t, by Cornish and Fisher's expansion (1 % off at most from 8)."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    first = (z**3 + z) / (4 * freedom)
    return z + first + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def poisson(load: float, size: int, service_s: float) -> dict[str, Any]:
    """Datagrams of this size that keep a link busy for such a share of the time."""
    return {"gap": f"exp({service_s / load * 1e6:.6f}us)", "size": f"{size} B"}


def cells(load: float, seconds: float) -> dict[str, Any]:
    """Packets of one cell through a port of a switch."""
    flow = {"from": "west1", "to": "east1", "datagrams": poisson(load, ONE_CELL, CELL_S)}
    scenario = line("s2-cells", seconds + WARM_UP_S, flow=[flow])
    scenario["run"]["warm_up"] = f"{WARM_UP_S:g}s"
    return scenario


def packets(load: float, seconds: float) -> dict[str, Any]:
    """Packets through a link."""
    link = {"ends": ["a", "b"], "rate": f"{T1} bit/s", "delay": "0s", "queue": "unlimited"}
    return {
        "schema": "internet/1",
        "name": "s2-packets",
        "run": {"duration": f"{seconds + WARM_UP_S:g}s", "warm_up": f"{WARM_UP_S:g}s"},
        "host": [{"name": "a"}, {"name": "b"}],
        "link": [link],
        "flow": [{"from": "a", "to": "b", "datagrams": poisson(load, PACKET, 8 * PACKET / T1)}],
    }


def waits(context: Context, what: str, load: float) -> Found:
    """The mean wait of each seed."""
    make = {"cells": cells, "packets": packets}[what]
    seconds = (context.seconds or SECONDS) * (LONGER if load >= HEAVY else 1)
    scenario = make(load, seconds if what == "cells" else seconds * SLOWER)
    file = context.path(f"s2-{what}-{load:g}.toml")
    found = []
    for seed in context.seed_range(SEEDS):
        summary = simulate(scenario, file, "--seed", str(seed))
        if what == "cells":
            # All other links take no time: what is not the wait is one cell time.
            found.append(summary["flows"][0]["mean_delay"] / CELL_S - 1)
        else:
            found.append(summary["queues"][0]["mean_wait"] / (8 * PACKET / T1))
    return Found(what, load, found)


@experiment("insane-simulator/s2", title=TITLE, paper="specs/insane-simulator.md 4: a test of the simulator")
def s2(context: Context) -> Report:
    """Poisson arrivals, constant service: cells through a port, and packets of one size through a link."""
    jobs = [(what, load) for what in ("cells", "packets") for load in LOADS]
    found = run_all(context, "S2, loads", lambda job: waits(context, *job), jobs)
    path = draw(found, context.path("s2"))
    scenario = str(context.path("s2-cells-0.8.toml"))
    return Report("insane-simulator/s2", TITLE, [row(one) for one in found], path, scenario=scenario)


def row(found: Found) -> Row:
    """Theory in the interval of the mean, which is narrow."""
    middle = mean(found.waits)
    inside = abs(middle - found.theory) <= found.half <= WIDEST * found.theory
    return Row(
        f"{found.what}, load {found.load:g}",
        f"{found.theory:.4f} service times",
        f"{middle:.4f} ±{found.half:.4f} ({len(found.waits)} seeds)",
        f"within ±, which is {CONFIDENCE:.0%} of the mean, and at most {WIDEST:.0%} of it",
        judge(inside),
    )


def draw(found: Sequence[Found], path: Path) -> str:
    """Waits against the load, and how far they are from theory."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.6))
    loads = np.linspace(0.02, 0.96, 200)
    left.plot(loads, loads / (2 * (1 - loads)), color=COLOURS[0], lw=1, label="M/D/1")
    right.axhline(0, color=COLOURS[0], lw=1)
    for number, what in enumerate(("cells", "packets")):
        chosen = [one for one in found if one.what == what]
        at = np.array([one.load for one in chosen])
        middle = np.array([mean(one.waits) for one in chosen])
        half, theory = (np.array([getattr(one, name) for one in chosen]) for name in ("half", "theory"))
        look = {"color": COLOURS[number + 1], "marker": MARKERS[number], "ms": 4.5, "ls": "none"}
        left.plot(at, middle, mfc="none", label=f"{what}, simulated", **look)
        shift = 0.006 * (2 * number - 1)
        scale = 100 / theory
        right.errorbar(at + shift, (middle - theory) * scale, half * scale, capsize=2.5, label=what, **look)
    left.set(xlabel="load", ylabel="mean wait (service times)", yscale="log")
    left.legend(loc="upper left")
    right.set(xlabel="load", ylabel="off theory (%), 99 % intervals")
    right.legend(loc="upper left")
    return style.save(figure, path)
