"""METS E1a: how fast a host of 1996 can send (specs/mets.md 4.2), and paced streams for E1b."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import run_all
from layercast_lab.testbed import (
    CELL_BITS,
    LINE_CELLS_PER_S,
    PAPER,
    PENTIUM_SENDER,
    packet_cells,
    scenario,
    thousands,
    write_trace,
)

SIZES = (1, 40, 100, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_768)
REPORTED_MAX = 32_000
START_S = 1.0
# Frames per second that a flow can be given.
MOST_FRAMES_PER_S = 1_000


@dataclass(frozen=True)
class Flood:
    """What a stream of equal packets became."""

    sent: float
    """Cells per second that left the sender's interface."""
    arrived: int
    """Cells that came to the interface of the receiver."""
    dropped: int
    """Cells of these that found it full."""
    packets: int
    """Packets sent."""
    delivered: int
    """Packets that reached the transport of the receiver whole."""

    @property
    def loss(self) -> float:
        """Share of the cells that the receiver dropped."""
        return self.dropped / self.arrived if self.arrived else 0.0


def flood(
    size: int,
    packets_per_s: float,
    seconds: float,
    seed: int,
    *,
    shaping: Any,
    receiver: Any,
    link: Mapping[str, Any] | None = None,
    sender: Mapping[str, Any] | None = None,
    drain_s: float = 0.0,
) -> Flood:
    """Sends packets of one size from atc to dwp for some seconds, and runs on for `drain_s`.

    More packets than a flow may have frames come in several flows; the stalls of the receiver,
    which specs/mets.md gives per flow, are then shared among them, so that there are as many as with one.
    """
    count = max(1, math.ceil(packets_per_s / MOST_FRAMES_PER_S))
    rate = packets_per_s / count
    if isinstance(receiver, Mapping):
        receiver = dict(receiver) | {"stall_rate": receiver.get("stall_rate", 0) / count}
    with tempfile.TemporaryDirectory() as folder:
        trace = write_trace(Path(folder, "clip"), [size] * math.ceil(rate * (seconds + 1)))
        flows = [
            {
                "name": f"f{i}",
                "clip": {"trace": str(trace)},
                "frame_rate": rate,
                # Apart by an even share of the period, so that several flows pace as one would.
                "start": f"{START_S + i / packets_per_s:.9f}s",
                "stop": f"{START_S + seconds:g}s",
                "shaping": shaping,
                "delay_max": "1s",
            }
            for i in range(count)
        ]
        # The clock of 10 ms releases two frames a tick: too few for small packets.
        clock = "10ms" if rate <= 150 else "1ms"
        hosts = {"atc": PENTIUM_SENDER | {"clock_tick": clock} | (sender or {}), "dwp": receiver}
        setup = scenario("e1", START_S + seconds + drain_s, flows, hosts=hosts, admission=False)
        for entry in setup["link"]:
            entry["queue"] = "4000 cells"
        setup["link"][-1] |= link or {}
        summary = layercast.run(setup, seed=seed).summary
    wire = {(queue["node"], queue["port"]): queue["link"]["sent"] for queue in summary["queues"]}
    received = [flow["receivers"][0] for flow in summary["flows"]]
    return Flood(
        sent=wire["atc", "chuff"] / seconds,
        arrived=wire["rook", "dwp"],
        dropped=sum(host["dropped_cells"] for host in summary["hosts"]),
        packets=sum(sum(flow["source"]["sent"].values()) for flow in summary["flows"]),
        delivered=sum(sum(r["frames"].values()) + r["late"] for r in received),
    )


def fastest(size: int, seconds: float, seed: int) -> float:
    """Cells per second that atc sends if it is given a third more than it can take."""
    costs_us = 31 * packet_cells(size) + 200
    return flood(size, 1.33e6 / costs_us, seconds, seed, shaping="off", receiver="ideal").sent


@experiment("mets/e1a", title="Most cells per second a sender reaches, by packet size", paper=PAPER)
def e1a(context: Context) -> Report:
    """E1a, [N] figure 5 and [P] figure 6, upper: shaper off, a receiver that takes everything.

    Nothing in it is random but the phases of the adapter, so three seeds stand for twenty.
    """
    seeds = context.seed_range(3)
    seconds = context.seconds or 20.0
    jobs = [(size, seed) for size in SIZES for seed in seeds]
    rates = run_all(context, "E1a, runs", lambda job: fastest(job[0], seconds, job[1]), jobs)
    curve = np.median(np.array(rates).reshape(len(SIZES), -1), axis=1)
    most = float(curve[-1])
    rising = bool(np.all(np.diff(curve) > 0))
    at_4k = float(curve[SIZES.index(4_000)] / curve.max())
    rows = [
        Row(
            "E1-1 fastest sender",
            "32 000 cells/s = 13.6 Mb/s",
            f"{thousands(most)} cells/s = {most * CELL_BITS / 1e6:.1f} Mb/s",
            "±2 %",
            judge(abs(most / REPORTED_MAX - 1) <= 0.02),
            "packets of 32 768 bytes",
        ),
        Row(
            "E1-2 line",
            "more than 235 000 cells/s",
            f"{thousands(LINE_CELLS_PER_S)} cells/s, the sender uses {100 * most / LINE_CELLS_PER_S:.1f} %",
            "235 849 cells/s, 13.6 %",
            judge(abs(100 * most / LINE_CELLS_PER_S - 13.6) < 0.3),
            "arithmetic: 100 Mbit/s in cells of 53 octets",
        ),
        Row(
            "E1-3 shape",
            "rises with packet size, most at large packets",
            f"rising: {'yes' if rising else 'no'}; {100 * at_4k:.0f} % of the most at 4 kB",
            "monotone, at least 90 % by 4 kB",
            judge(rising and at_4k >= 0.9),
        ),
    ]
    return Report("mets/e1a", "METS E1a: fastest sender", rows, draw(curve, context))


def draw(curve: np.ndarray, context: Context) -> str:
    """Cells per second against packet size."""
    figure, axis = plt.subplots(figsize=(7.2, 4.0))
    axis.plot(SIZES, curve / 1e3, marker="o", ms=4.5, color=style.LAYER_COLOURS["BL"], label="measured")
    axis.axhline(REPORTED_MAX / 1e3, color=style.ACCENT, ls="--", lw=1.2, label="as printed: 32 000 cells/s")
    style.log_sizes(axis)
    axis.set(ylabel="sent (1000 cells/s)", ylim=(0, 35))
    axis.set_title("Shaper off, receiver takes everything", loc="left", fontsize=10)
    axis.legend(loc="lower right")
    return style.save(figure, context.path("e1a"))
