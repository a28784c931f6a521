"""METS E5 on real sockets (specs/mets.md 3.3 and section 5, b2): levels as in the simulator."""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import command, toml_file
from layercast_lab.testbed import PAPER

LENGTH_S, FLIGHT_ENDS_S, LOUGHER_STARTS_S, END_S = 82.0, 20.0, 50.0, 80.0
# How many times as fast as in the papers; the faster, the more a late process counts.
DEFAULT_SCALE = 1.0
FLOWS = {"Canyon": ("canyon", 24, 2), "Flight": ("flight", 5, 0), "Lougher": ("lougher", 5, 0)}


@experiment("mets/e5-sockets", title="E5 with real processes on loopback, beside the simulator", paper=PAPER)
def e5_sockets(context: Context) -> Report:
    """E5 by `layercast demo`: one process for each node, levels of Canyon as the simulator computes them.

    `--seconds 16.4` is five times as fast as the original. Three seeds by default.
    """
    scale = LENGTH_S / context.seconds if context.seconds else DEFAULT_SCALE
    runs = []
    for seed in context.progress(context.seed_range(3), context.seeds or 3, "E5 on sockets"):
        runs.append(run(scale, seed))
    equal = [levels(real, "canyon") == levels(simulated, "canyon") for real, simulated, _ in runs]
    sequences = [levels(real, "canyon") for real, _, _ in runs]
    base = sum(receiver["lost"]["BL"] + receiver["late_base"] for real, _, _ in runs for receiver in real)
    kernel = sum(host_lost for _, _, host_lost in runs)
    worst = max(apart(real, simulated) for real, simulated, _ in runs)
    rows = [
        Row(
            "E5 levels on sockets and in the simulator",
            "identical from the same seed",
            f"identical in {sum(equal)} of {len(equal)} seeds: {', '.join(map(str, sequences))}",
            "all seeds",
            judge(all(equal)),
            f"{scale:g} times as fast as 1996" if scale != 1 else "original length",
        ),
        Row(
            "E5 instants of the changes",
            "-",
            f"at most {worst:.2f} s apart",
            f"an era, {1 / scale:g} s",
            judge(worst <= 1 / scale),
            "simulated and real seconds of the fast run",
        ),
        Row("E5 base layer on sockets", "guaranteed", f"{base} frames lost or late", "0", judge(base == 0)),
        Row(
            "datagrams lost by the kernel",
            "-",
            str(kernel),
            "0, else the run is invalid (specs/mets.md 3.3)",
            judge(kernel == 0),
        ),
    ]
    return Report("mets/e5-sockets", "METS E5 on real sockets", rows, draw(runs[0], context))


def draw(seen: tuple[list[dict], list[dict], int], context: Context) -> str:
    """The level of Canyon over time in the first run, on sockets and in the simulator."""
    figure, axis = plt.subplots(figsize=(7.2, 2.6))
    for receivers, label, line in ((seen[0], "sockets", "-"), (seen[1], "simulator", "--")):
        steps = changes(receivers, "canyon")
        if steps:
            times, granted = zip(*steps, strict=True)
            axis.step(times, granted, line, where="post", label=label)
    axis.set(xlabel="s", ylabel="level granted", ylim=(-0.2, 2.2), yticks=(0, 1, 2))
    axis.legend()
    return style.save(figure, context.path("e5-sockets"))


def run(scale: float, seed: int) -> tuple[list[dict], list[dict], int]:
    """What receivers saw on sockets and in the simulator, and what the kernel lost."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "e5.toml")
        file.write_text(toml_file(scenario(scale, seed)))
        arguments = [command(), "demo", "--scenario", str(file), "--out", folder, "--json"]
        done = subprocess.run(arguments, capture_output=True, text=True)
        # 1 is a broken promise, which is for the rows to tell.
        if done.returncode not in (0, 1) or not done.stdout:
            raise layercast.LayercastError(done.stderr.strip())
        told = json.loads(done.stdout)
    host_lost = sum(switch["udp"]["host_lost"] for switch in told["switches"])
    return told["receivers"], told["simulated"], host_lost


def scenario(scale: float, seed: int) -> dict[str, Any]:
    """E5, accelerated by a factor: times shrink, rates grow.

    A demo has one process for each receiver; so that all of them stay behind the one link of 3500
    cells/s, dwp is a switch here, with the receivers on hosts of their own.
    """

    def time(seconds: float) -> str:
        return f"{seconds / scale * 1e6:.0f} us"

    hosts = [f"{name}-host" for name in ("canyon", "flight", "lougher")]
    path = ["atc", "chuff", "sparrow", "rook", "dwp"]
    nodes = [{"name": name, "kind": "switch" if name != "atc" else "host"} for name in path]
    nodes += [{"name": name, "kind": "host"} for name in hosts]
    ends = [*itertools.pairwise(path), *(("dwp", host) for host in hosts)]
    links: list[dict[str, Any]] = [
        {"a": a, "b": b, "rate": f"{100 * scale:g} Mbit/s", "delay": "0.5 us"} for a, b in ends
    ]
    links[3]["adapt_capacity"] = f"{3500 * scale:.0f} cells/s"
    flows, receivers = [], []
    starts, stops = {"Lougher": LOUGHER_STARTS_S}, {"Flight": FLIGHT_ENDS_S}
    for name, (clip, rate, top) in FLOWS.items():
        flow = {
            "name": name,
            "source": "atc",
            "clip": {"synthetic": clip},
            "frame_rate": rate * scale,
            "top": top,
        }
        flow |= {"stop": time(stops.get(name, END_S)), "random_phase": True, "delay_max": time(2.5)}
        receiver = {"name": name.lower(), "node": f"{name.lower()}-host", "flow": name, "level": top}
        if name in starts:
            flow["start"] = receiver["join"] = time(starts[name])
        if name in stops:
            receiver["leave"] = time(stops[name])
        flows.append(flow)
        receivers.append(receiver)
    return {
        "name": "e5-sockets",
        "seed": seed,
        "duration": time(LENGTH_S),
        "carriage": "cells",
        "host": "ideal",
        "era": time(1),
        "res_interval": time(0.25),
        "node": nodes,
        "link": links,
        "flow": flows,
        "receiver": receivers,
    }


def changes(receivers: list[dict], name: str) -> list[tuple[float, int]]:
    """The levels granted to a receiver, each from when it differs from the one before."""
    found = next(receiver for receiver in receivers if receiver["name"] == name)
    kept: list[tuple[float, int]] = []
    for at, level in found["levels"]:
        if not kept or kept[-1][1] != level:
            kept.append((at, level))
    return kept


def levels(receivers: list[dict], name: str) -> list[int]:
    """The sequence of levels of a receiver."""
    return [level for _, level in changes(receivers, name)]


def apart(real: list[dict], simulated: list[dict]) -> float:
    """Longest time between a change of Canyon's level on sockets and the same in the simulator."""
    pairs = zip(changes(real, "canyon"), changes(simulated, "canyon"), strict=False)
    # The first is the level it starts with.
    return max([abs(a - b) for (a, _), (b, _) in list(pairs)[1:]], default=0.0)
