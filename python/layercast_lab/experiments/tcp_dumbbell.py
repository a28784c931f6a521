"""TCP on a dumbbell beside ns-2 and ns-3 with the same parameters."""

from __future__ import annotations

import json
import math
import random
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import peers, style
from layercast_lab.experiment import Context, Report, Row, Verdict, experiment
from layercast_lab.simulator import command, toml_file

TITLE = "TCP on a dumbbell beside ns-2 and ns-3"
SIMULATORS = ("ours", "ns-2", "ns-3")
MSS, HEADERS = 1_448, 40
ACCESS_BPS, ACCESS_S = 1_000_000_000, 0.001
INITIAL_WINDOW = 10
RED_MAX_P, RED_WEIGHT = 0.1, 0.002
TOLERANCE = 0.05
# Flows start at random within this time: simultaneous starts would synchronize their losses.
STARTS_S = (0.1, 1.1)
# How long a run takes to forget its start, and ends, by rate of the trunk in Mb/s.
TIMES_S = {1: (30, 300), 10: (15, 100), 100: (10, 40)}


@dataclass(frozen=True)
class Cell:
    """One choice of everything that is varied."""

    variant: str
    flows: int
    mbps: int
    rtt_ms: int
    red: bool
    delayed_acks: bool = False
    shorter: float = 1.0
    """The share of its duration that is run."""

    @property
    def name(self) -> str:
        """As the report names it."""
        queue = "RED" if self.red else "drop-tail"
        acks = ", delayed ACK" if self.delayed_acks else ""
        rate = f"{self.mbps} Mb/s, {self.rtt_ms} ms, {self.flows} flow{'s' * (self.flows > 1)}"
        return f"{self.variant}, {queue}, {rate}{acks}"

    @property
    def product_packets(self) -> float:
        """What is on its way when the trunk is full, without its queue."""
        return self.mbps * 1e3 * self.rtt_ms / 8 / (MSS + HEADERS)

    @property
    def queue(self) -> int:
        """Packets that may wait: a quarter of the product, so that a window halved leaves the trunk idle, 20
        at least; with RED four times as many as its upper threshold."""
        return 4 * self.red_thresholds[1] if self.red else max(20, round(self.product_packets / 4))

    @property
    def red_thresholds(self) -> tuple[int, int]:
        """Between them packets are dropped at random."""
        least = max(5, round(self.product_packets / 12))
        return least, 3 * least

    @property
    def chance(self) -> bool:
        """Whether another seed gives another run."""
        return self.red or self.flows > 1

    def arguments(self, seed: int) -> dict[str, Any]:
        """The arguments of the programs of the peers."""
        rng = random.Random(f"{self.flows}/{seed}")
        warm_up, seconds = (time * self.shorter for time in TIMES_S[self.mbps])
        least, most = self.red_thresholds
        return {
            "variant": self.variant,
            "delayed_acks": int(self.delayed_acks),
            "mss": MSS,
            "window": 4 * math.ceil(self.product_packets + self.queue) + 100,
            "initial_window": INITIAL_WINDOW,
            "trunk_bps": self.mbps * 1_000_000,
            "trunk_delay": round(self.rtt_ms / 2_000 - 2 * ACCESS_S, 6),
            "access_bps": ACCESS_BPS,
            "access_delay": ACCESS_S,
            "queue": self.queue,
            "red": int(self.red),
            "red_min": least,
            "red_max": most,
            "red_max_p": RED_MAX_P,
            "red_weight": RED_WEIGHT,
            "starts": " ".join(f"{rng.uniform(*STARTS_S):.6f}" for _ in range(self.flows)),
            "warm_up": warm_up,
            "seconds": seconds,
            "seed": seed,
            "count": 1,
        }


def scenario(told: dict[str, Any]) -> dict[str, Any]:
    """The same for `layercast sim`."""
    trunk: dict[str, Any] = {
        "rate": f"{told['trunk_bps']} bit/s",
        "delay": f"{told['trunk_delay']:.6f}s",
        "queue": f"{told['queue']} packets",
    }
    if told["red"]:
        red = {"min": told["red_min"], "max": told["red_max"], "max_p": told["red_max_p"]}
        trunk["red"] = red | {"weight": told["red_weight"], "gentle": True}
    if "aqm" in told:
        trunk["discipline"] = {told["aqm"]: {}}
    buffer = told["window"] * told["mss"]
    starts = enumerate(told["starts"].split(), 1)
    return {
        "schema": "internet/1",
        "name": "dumbbell",
        "run": {
            "duration": f"{told['seconds']}s",
            "warm_up": f"{told['warm_up']}s",
            "seed": told["seed"],
        },
        "tcp": {
            "default": {
                "profile": "modern",
                "variant": told["variant"],
                "sack": told["variant"] == "sack",
                "timestamps": False,
                "frto": False,
                "mss": told["mss"],
                "initial_window": told["initial_window"],
                "fast_tick": "40ms" if told["delayed_acks"] else "off",
                "send_buffer": buffer,
                "recv_buffer": buffer,
            }
        },
        "topology": {
            "kind": "dumbbell",
            "pairs": len(told["starts"].split()),
            "trunk": trunk,
            "access": {
                "rate": f"{told['access_bps']} bit/s",
                "delay": f"{told['access_delay']}s",
                "queue": "unlimited",
            },
        },
        "flow": [{"from": f"left{n}", "to": f"right{n}", "start": f"{start}s"} for n, start in starts],
    }


def ours(told: dict[str, Any]) -> dict[str, Any]:
    """Runs `layercast sim`; goodputs as the programs of the peers print them, and the wait at the trunk."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "dumbbell.toml")
        text = scenario(told)
        file.write_text(toml_file(text))
        done = subprocess.run([command(), "sim", file, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    summary = json.loads(done.stdout)
    goodputs = [flow["goodput_bps"] for flow in summary["flows"]]
    return {"goodputs": goodputs, "mean_wait": summary["queues"][0]["mean_wait"]}


@dataclass(frozen=True)
class Found:
    """The goodput of all flows together, Mb/s, for each seed; without any the program crashed."""

    runs: Sequence[float]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return float(np.mean(self.runs)) if self.runs else math.nan

    def __str__(self) -> str:
        if not self.runs:
            return "crashed"
        spread = (max(self.runs) - min(self.runs)) / 2
        return f"{self.mean:.3f}" + (f" ±{spread:.3f}" if len(self.runs) > 1 else "")


def judge(found: dict[str, Found]) -> tuple[Verdict, str]:
    """Reproduced within 5 % of peers that agree within 5 %.

    Peers that do not agree are no reference: a row between them or within 5 % of one is not judged.
    """
    our, one, two = (found[name].mean for name in SIMULATORS)
    if math.isnan(one + two):
        alone = two if math.isnan(one) else one
        return ("open" if abs(our / alone - 1) <= TOLERANCE else "differs"), "one peer crashed"
    both = (one + two) / 2
    apart = abs(one - two) / both
    if apart <= TOLERANCE:
        return ("reproduced" if abs(our / both - 1) <= TOLERANCE else "differs"), ""
    note = f"ns-2 and ns-3 are {100 * apart:.0f} % apart"
    near = [name for name in SIMULATORS[1:] if abs(our / found[name].mean - 1) <= TOLERANCE]
    if near:
        return "open", f"{note}; here as {near[0]}"
    return ("open" if min(one, two) < our < max(one, two) else "differs"), note


def cells(full: bool) -> list[Cell]:
    """Those to run: with `full` all, otherwise some of 10 Mb/s and 50 ms."""
    variants, queues = ("newreno", "sack"), (False, True)
    if not full:
        return [Cell(*choice) for choice in product(variants, (1, 10), (10,), (50,), queues)]
    # 100 Mb/s are minutes of ns-3.
    grid = product(variants, (1, 2, 10, 50), (1, 10, 100), (10, 50, 200), queues)
    chosen = [Cell(*choice) for choice in grid if choice[2] < 100 or choice[1] in (1, 10)]
    delayed = product(variants, (1, 10), (10,), (50,), (False,), (True,))
    return chosen + [Cell(*choice) for choice in delayed]


@experiment("tcp/dumbbell", title=TITLE, paper="ns-2.35 and ns-3.37 with the same parameters")
def dumbbell(context: Context) -> Report:
    """Goodput of long transfers, all flows together; needs ns-2 and ns-3."""
    kept = context.path("peers")
    ns2, ns3 = peers.ns2(), peers.ns3(kept)
    runs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "ours": ours,
        "ns-2": lambda told: peers.run_kept(kept, ns2, told),
        "ns-3": lambda told: peers.run_kept(kept, ns3, told),
    }
    chosen = cells(context.full)
    if context.seconds:
        chosen = [replace(cell, shorter=context.seconds / TIMES_S[cell.mbps][1]) for cell in chosen]
    found: dict[Cell, dict[str, Found]] = {}
    facts = []
    # One at a time: the peers take minutes, and other programs may want a processor.
    for cell in context.progress(chosen, len(chosen), "dumbbells"):
        seeds = context.seed_range(2 if cell.mbps < 100 else 1) if cell.chance else range(1, 2)
        results = {name: [run(cell.arguments(seed)) for seed in seeds] for name, run in runs.items()}
        found[cell] = {
            name: Found([sum(run["goodputs"]) / 1e6 for run in outcome if "goodputs" in run])
            for name, outcome in results.items()
        }
        facts.append({"cell": cell.name} | results)
    rows = [row(cell, outcome) for cell, outcome in found.items()]
    (kept / "runs.json").write_text(json.dumps(facts, indent=1) + "\n")
    return Report("tcp/dumbbell", TITLE, rows, draw(found, context))


def row(cell: Cell, found: dict[str, Found]) -> Row:
    """One line of the report."""
    verdict, note = judge(found)
    our = found["ours"]
    beside = [found[name] for name in SIMULATORS[1:]]
    ratios = " / ".join(f"{our.mean / peer.mean:.3f}" if peer.runs else "-" for peer in beside)
    reported = f"ns-2 {found['ns-2']}, ns-3 {found['ns-3']} Mb/s"
    return Row(cell.name, reported, f"{our} Mb/s; ratio {ratios}", "±5 % where they agree", verdict, note)


def draw(found: dict[Cell, dict[str, Found]], context: Context) -> str:
    """For each cell the share of the trunk that each simulator filled with data."""
    variants = list(dict.fromkeys(cell.variant for cell in found))
    looks = {"ns-2": ("o", "#64a3c4"), "ns-3": ("s", "#334155"), "ours": ("x", style.ACCENT)}
    figure, axes = plt.subplots(len(variants), 1, squeeze=False, figsize=(9, 3.2 * len(variants)))
    for axis, variant in zip(axes[:, 0], variants, strict=True):
        chosen = [cell for cell in found if cell.variant == variant]
        for name in ("ns-2", "ns-3", "ours"):
            marker, colour = looks[name]
            full = [cell.mbps * MSS / (MSS + HEADERS) for cell in chosen]
            shares = [100 * found[cell][name].mean / most for cell, most in zip(chosen, full, strict=True)]
            axis.plot(shares, marker, color=colour, ms=4.5, mfc="none", label=name, ls="none")
        labels = [
            f"{cell.flows}×{cell.mbps}M {cell.rtt_ms}ms {'R' if cell.red else 'D'}{'d' * cell.delayed_acks}"
            for cell in chosen
        ]
        axis.set_xticks(range(len(chosen)), labels, rotation=90, fontsize=5 if len(chosen) > 40 else 7)
        axis.set(ylabel="goodput (% of the trunk)")
        axis.set_title(f"{variant} (D drop-tail, R RED, d delayed ACK)", loc="left", fontsize=10)
    axes[0, 0].legend(ncols=3, loc="lower right")
    return style.save(figure, context.path("dumbbell"))
