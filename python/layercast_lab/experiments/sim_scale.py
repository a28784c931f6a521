"""What an internetwork costs to simulate as hosts and traffic grow together."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.pyplot as plt

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import command, toml_file

# A region is a router with five pairs of sites; a site is a router with twelve hosts.
PAIRS, HOSTS = 5, 12
REGION = 2 * PAIRS * HOSTS
FANOUT = 10
SIZES, FULL_SIZE = (120, 1_200, 12_000), 120_000
DURATION_S = 5.0
TRUNK_BPS = 4_000_000
# Repetitions of a run of this size, of which the median is taken: short runs vary more.
REPEATS = {120: 7, 1_200: 5, 12_000: 3}
# Largest cost factor of ten times the size.
BOUND = 13.0
# Required speed-up of the largest network, per number of threads.
THREADS_WORTH = 0.75
# Runs a program and tells its processor time and memory. The greatest memory of a child counts from when it
# is still a copy of its parent; this process is larger than a small network.
METER = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""
TRUNK = re.compile(r"r\d+[ab]\d+->r\d+|r\d+->r\d+[ab]\d+")


def network(hosts: int, seed: int) -> dict[str, Any]:
    """Sites in pairs, regions of them, and a tree above, ten below each of its routers.

    Eleven hosts of a site have a TCP connection that always has data to the host of their number in the other
    site of the pair, and one back; the twelfth sends datagrams to a site in the other half of the network.
    """
    regions = hosts // REGION
    every = f"r{{1..{regions}}}"
    routers = [every, *(f"{every}{side}{{1..{PAIRS}}}" for side in "ab")]
    access = {"rate": "100 Mbit/s", "delay": "100us", "queue": "100 packets"}
    trunk = {"rate": f"{TRUNK_BPS} bit/s", "delay": "5ms", "queue": "100 packets"}
    wide = {"rate": "1 Gbit/s", "delay": "2ms", "queue": "1000 packets"}
    links = []
    for side in "ab":
        sites = f"{every}{side}{{1..{PAIRS}}}"
        links += [{"ends": [f"{every}{side}{i}", every]} | trunk for i in range(1, PAIRS + 1)]
        links += [{"ends": [f"{sites}h{i}", sites]} | access for i in range(1, HOSTS + 1)]
    level, width = "r", regions
    while width > 1:
        above = -(-width // FANOUT)
        name = f"{level}t"
        routers.append(f"{name}{{1..{above}}}")
        for i in range(above):
            below = f"{level}{{{i * FANOUT + 1}..{min((i + 1) * FANOUT, width)}}}"
            links.append({"ends": [below, f"{name}{i + 1}"]} | wide)
        level, width = name, above
    starts, flows = random.Random(seed), []
    for region, host in product(range(1, regions + 1), range(1, HOSTS)):
        ends = [f"r{region}{side}{{1..{PAIRS}}}h{host}" for side in "ab"]
        for a, b in (ends, reversed(ends)):
            flows.append({"from": a, "to": b, "start": f"{starts.uniform(0, 1):.6f}s"})
    for a, b in far(regions):
        flows.append({"from": a, "to": b, "datagrams": {"gap": "exp(50ms)", "size": "200 B"}})
    return {
        "schema": "internet/1",
        "name": f"scale-{hosts}",
        "run": {"duration": f"{DURATION_S:g}s", "seed": seed},
        "host": [{"name": f"{every}{side}{{1..{PAIRS}}}h{{1..{HOSTS}}}"} for side in "ab"],
        "router": [{"name": name} for name in routers],
        "link": links,
        "flow": flows,
    }


def far(regions: int) -> list[tuple[str, str]]:
    """Senders and the receivers in the other half; of a single region, at the other site."""
    if regions == 1:
        ends = [f"r1{side}{{1..{PAIRS}}}h{HOSTS}" for side in "ab"]
        return [(ends[0], ends[1]), (ends[1], ends[0])]
    half = regions // 2
    pairs = []
    for side in "ab":
        ends = [
            f"r{{{first}..{first + half - 1}}}{side}{{1..{PAIRS}}}h{HOSTS}"
            for first in (1, regions - half + 1)
        ]
        pairs += [(ends[0], ends[1]), (ends[1], ends[0])]
    return pairs


@dataclass(frozen=True)
class Measured:
    """What a run gave and cost."""

    hosts: int
    flows: int
    cpu_s: float
    """Processor time of the process: reading the scenario and writing the result included."""
    memory_mib: float
    events: int
    hops: int
    busy: float
    """Mean use of the links of sites to their region, both ways."""
    silent: int
    """Hosts whose connection or stream never sent anything."""
    wall_s: float
    """What the simulation itself took on the clock, with one thread."""
    together_s: float | None
    """The same with a thread for each processor, if there is more than one."""
    same: bool
    """Whether both gave the same result."""


def measure(hosts: int, seed: int) -> Measured:
    """Runs a network with `layercast sim`; the median of its processor time over some runs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scenario.toml")
        file.write_text(toml_file(network(hosts, seed)))
        times, walls, together, memory, same = [], [], [], 0, True
        for _ in range(REPEATS.get(hosts, 1)):
            cpu_s, kib, summary = simulate(file, 1)
            times.append(cpu_s)
            walls.append(summary.pop("wall_seconds"))
            memory = max(memory, kib)
            if processors() > 1:
                *_, other = simulate(file, processors())
                together.append(other.pop("wall_seconds"))
                same = same and other == summary
    queues = summary["queues"]
    trunks = [queue["utilisation"] for queue in queues if TRUNK.fullmatch(queue["name"])]
    tcp = [flow for flow in summary["flows"] if f"h{HOSTS}->" not in flow["name"]]
    return Measured(
        hosts,
        len(tcp),
        median(times),
        memory / 1024,
        summary["events"],
        summary["packet_hops"],
        sum(trunks) / len(trunks),
        sum(flow["sent"] == 0 for flow in summary["flows"]),
        median(walls),
        median(together) if together else None,
        same,
    )


def processors() -> int:
    """How many a run may use."""
    return len(os.sched_getaffinity(0))


def simulate(file: Path, threads: int) -> tuple[float, int, dict[str, Any]]:
    """Runs a scenario with a number of threads: processor time, memory in KiB, summary."""
    output = file.with_name("summary.json")
    with output.open("wb") as out:
        ours = [command(), "sim", file, "--json", f"--threads={threads}"]
        meter = [sys.executable, "-S", "-c", METER]
        done = subprocess.run([*meter, *ours], stdout=out, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    cpu_s, kib = done.stderr.split()[-2:]
    return float(cpu_s), int(kib), json.loads(output.read_bytes())


@experiment(
    "sim/scale",
    title="Internetworks of 120 to 12,000 or, with --full, 120,000 hosts",
    paper="No paper: ten times the hosts and traffic for at most thirteen times the time",
)
def scale(context: Context) -> Report:
    """Processor time and memory where every host has conversations, and there are more and more hosts."""
    sizes = [*SIZES, FULL_SIZE] if context.full else list(SIZES)
    runs = list(context.progress((measure(size, 1) for size in sizes), len(sizes), "scale, networks"))
    title = f"The internetwork simulator at scale: up to {sizes[-1]:,} hosts"
    return Report("sim/scale", title, rows(runs), draw(runs, context))


def rows(runs: Sequence[Measured]) -> list[Row]:
    """What each ten times cost, and that all of it ran."""
    found = []
    for small, large in pairwise(runs):
        ratio, events = large.cpu_s / small.cpu_s, large.events / small.events
        found.append(
            Row(
                f"X-1 {small.hosts:,} to {large.hosts:,} hosts",
                f"at most {BOUND:g} times the time",
                f"{ratio:.1f} times: {small.cpu_s:.2f} s, {large.cpu_s:.2f} s",
                f"{BOUND:g}",
                judge(ratio <= BOUND),
                f"{events:.1f} times the events; {each_ns(small):.0f} and {each_ns(large):.0f} ns for each",
            )
        )
    last = runs[-1]
    alike = all(abs(run.busy / runs[0].busy - 1) <= 0.05 for run in runs)
    return [
        *found,
        Row(
            "X-2 memory",
            "grows with the hosts",
            "; ".join(f"{run.hosts:,}: {run.memory_mib:.0f} MiB" for run in runs),
            f"{BOUND:g} times for ten times the hosts, from {runs[-2].hosts:,} on",
            judge(last.memory_mib <= BOUND * runs[-2].memory_mib),
            f"{last.memory_mib * 1024 / last.hosts:.1f} KiB for each host with its connection, both ends",
        ),
        Row(
            "X-3 all of it runs",
            "every host sends, and trunks are used alike",
            f"{last.flows:,} concurrent TCP connections, {last.silent} hosts silent; trunks "
            + ", ".join(f"{run.busy:.1%}" for run in runs),
            "none silent; trunks within 5 % of those of the smallest",
            judge(last.silent == 0 and alike),
        ),
        *threads(runs),
    ]


def threads(runs: Sequence[Measured]) -> list[Row]:
    """What several threads make of it, where there are processors for them."""
    pairs = [(run, run.together_s) for run in runs if run.together_s is not None]
    if not pairs:
        return []
    aim = THREADS_WORTH * processors()
    times = [f"{run.hosts:,}: {run.wall_s:.2f} and {together_s:.2f} s" for run, together_s in pairs]
    gain, same = runs[-1].wall_s / pairs[-1][1], all(run.same for run in runs)
    return [
        Row(
            f"X-4 {processors()} threads",
            "the same result, sooner",
            f"{gain:.2f} times as fast at {runs[-1].hosts:,} hosts; on the clock with one and all: "
            + "; ".join(times),
            f"{aim:g} times; nothing differs",
            judge(same and gain >= aim),
            "the same results" if same else "results differ",
        )
    ]


def each_ns(run: Measured) -> float:
    """Processor time of an event, nanoseconds."""
    return run.cpu_s / run.events * 1e9


def draw(runs: Sequence[Measured], context: Context) -> str:
    """Time (of one thread in processor time), time of an event, and memory against the number of hosts."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.2, 3.2))
    sizes = [run.hosts for run in runs]
    times = [run.cpu_s for run in runs]
    left.plot(sizes, times, marker="o", color=style.ACCENT, label="one thread")
    if all(run.together_s is not None for run in runs):
        together = [run.together_s for run in runs]
        left.plot(sizes, together, marker="s", color=style.LAYER_COLOURS["BL"], label="all processors")
    for factor, line in ((10.0, ":"), (BOUND, "--")):
        bound = [times[0] * factor**i for i in range(len(sizes))]
        left.plot(sizes, bound, line, color=style.LAYER_COLOURS["E1"], label=f"{factor:g} times a step")
    left.set(yscale="log", ylabel=f"time for {DURATION_S:g} s (s)")
    left.legend(loc="upper left")
    middle.plot(sizes, [each_ns(run) for run in runs], marker="o", color=style.ACCENT)
    middle.set(ylim=(0, None), ylabel="processor time of an event (ns)")
    memory = [run.memory_mib * 1024 / run.hosts for run in runs]
    right.plot(sizes, memory, marker="o", color=style.LAYER_COLOURS["BL"])
    right.set(yscale="log", ylabel="memory for each host (KiB)")
    for axis in (left, middle, right):
        axis.set(xscale="log", xlabel="hosts")
    return style.save(figure, context.path("scale"))
