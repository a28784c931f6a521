"""Queue disciplines under TCP beside ns-3 with the same parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import peers, style
from layercast_lab.experiment import Context, Report, Row, experiment
from layercast_lab.experiments.tcp_dumbbell import Cell, ours

TITLE = "Queue disciplines beside ns-3"
NAMES = {"codel": "CoDel", "fq_codel": "FQ-CoDel", "pie": "PIE"}
ROOM = 1_000
"""Packets: none is dropped for want of room."""
WINDOW = 3_000
WAIT_TOLERANCE, GOODPUT_TOLERANCE = 0.10, 0.05


@dataclass(frozen=True)
class Found:
    """Means over the seeds."""

    wait_ms: float
    mbps: float


def arguments(aqm: str, cell: Cell, seed: int) -> dict[str, Any]:
    """Those of the programs of the peers, with a discipline at the trunk."""
    return cell.arguments(seed) | {"aqm": aqm, "queue": ROOM, "window": WINDOW}


def mean(runs: Sequence[dict[str, Any]]) -> Found:
    """What is compared of several runs."""
    waits = [1e3 * run["mean_wait"] for run in runs]
    return Found(float(np.mean(waits)), float(np.mean([sum(run["goodputs"]) / 1e6 for run in runs])))


@experiment("tcp/queues", title=TITLE, paper="ns-3.37 with the same parameters; RFC 8289, 8290, 8033")
def queues(context: Context) -> Report:
    """Time in the queue of a trunk with CoDel, FQ-CoDel and PIE, and goodput; needs ns-3."""
    kept = context.path("peers")
    ns3 = peers.ns3(kept)
    rtts = (20, 50, 100) if context.full else (50,)
    cells = [Cell("sack", flows, 10, rtt, False) for flows, rtt in product((1, 10), rtts)]
    chosen = list(product(NAMES, cells))
    found: dict[tuple[str, Cell], tuple[Found, Found]] = {}
    facts = []
    for aqm, cell in context.progress(chosen, len(chosen), "dumbbells"):
        # PIE draws; one flow without it is the same whatever the seed is.
        chance = aqm == "pie" or cell.flows > 1
        told = [arguments(aqm, cell, seed) for seed in context.seed_range(3 if chance else 1)]
        here = [ours(one) for one in told]
        there = [peers.run_kept(kept, ns3, one) for one in told]
        found[aqm, cell] = mean(here), mean(there)
        facts.append({"discipline": aqm, "cell": cell.name, "ours": here, "ns-3": there})
    (kept / "queues.json").write_text(json.dumps(facts, indent=1) + "\n")
    rows = [row(aqm, cell, *pair) for (aqm, cell), pair in found.items()]
    return Report("tcp/queues", TITLE, rows, draw(found, context))


def row(aqm: str, cell: Cell, here: Found, there: Found) -> Row:
    """One line of the report."""
    ratio, share = here.wait_ms / there.wait_ms, here.mbps / there.mbps
    near = abs(ratio - 1) <= WAIT_TOLERANCE and abs(share - 1) <= GOODPUT_TOLERANCE
    return Row(
        f"{NAMES[aqm]}, {cell.mbps} Mb/s, {cell.rtt_ms} ms, {cell.flows} flow{'s' * (cell.flows > 1)}",
        f"ns-3 {there.wait_ms:.2f} ms, {there.mbps:.3f} Mb/s",
        f"{here.wait_ms:.2f} ms, {here.mbps:.3f} Mb/s; ratios {ratio:.3f}, {share:.3f}",
        "±10 % of the time, ±5 % of the goodput",
        "reproduced" if near else "differs",
    )


def draw(found: dict[tuple[str, Cell], tuple[Found, Found]], context: Context) -> str:
    """Mean times in the queue."""
    figure, axis = plt.subplots(figsize=(7, 3.2))
    looks = (("ours", "x", style.ACCENT), ("ns-3", "s", "#334155"))
    for which, (name, marker, colour) in enumerate(looks):
        waits = [pair[which].wait_ms for pair in found.values()]
        axis.plot(waits, marker, color=colour, mfc="none", ls="none", label=name)
    labels = [f"{NAMES[aqm]}\n{cell.flows}x, {cell.rtt_ms} ms" for aqm, cell in found]
    axis.set_xticks(range(len(found)), labels, fontsize=7)
    axis.set(ylabel="mean time in the queue (ms)", ylim=(0, None))
    axis.legend()
    return style.save(figure, context.path("queues"))
