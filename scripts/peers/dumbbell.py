#!/usr/bin/env python3
"""The speed of the internetwork simulator beside htsim, ns-2 and ns-3: the same dumbbell, each as a process.

And what ten times the flows through ten times the rate cost, beside htsim, up to LARGEST flows.

Usage: dumbbell.py TARGET_DIR [LARGEST]. Writes TARGET_DIR/bench/dumbbell.json;
docs/src/results/bench-simulator.md says what
it means.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Not as part of the package, which needs the bindings to be built.
sys.path.insert(0, str(ROOT / "python" / "layercast_lab"))
import peers  # noqa: E402

# Ten transfers by NewReno in segments of 1448 bytes, each segment acknowledged, through 100 Mb/s and 10 ms
# with room for 200 packets, over access links of 1 Gb/s and 1 ms.
SECONDS, FLOWS, FIRST_SECONDS = 100, 10, 0.01
# As many times more transfers through as many times the rate and room, for a shorter time, beside the only
# other one that is quick enough.
GROWTH_SECONDS, GROWTH_BESIDE = 10, "htsim"
GROWTH_RUNS = {10: 5, 100: 3, 1_000: 3}
LARGEST = 1_000


@dataclass(frozen=True)
class Case:
    """A dumbbell of a number of flows, which all start evenly in the first of its seconds."""

    flows: int = FLOWS
    seconds: float = SECONDS
    first_seconds: float = FIRST_SECONDS

    def starts(self) -> list[float]:
        """When they do, seconds."""
        return [round(n * self.first_seconds / self.flows, 6) for n in range(self.flows)]

    def told(self) -> dict:
        """The arguments of the peers' programs."""
        return {
            "variant": "newreno",
            "delayed_acks": 0,
            "mss": 1448,
            "window": 2000,
            "initial_window": 10,
            "trunk_bps": 10_000_000 * self.flows,
            "trunk_delay": 0.01,
            "access_bps": 1_000_000_000,
            "access_delay": 0.001,
            "queue": 20 * self.flows,
            "red": 0,
            "starts": " ".join(f"{start:g}" for start in self.starts()),
            "warm_up": 0,
            "seconds": self.seconds,
            "seed": 1,
            "count": 0,
        }

    def scenario(self) -> str:
        """The same for us."""
        flows = (
            f'\n[[flow]]\nfrom = "left{n}"\nto = "right{n}"\nstart = "{start:f}s"\n'
            for n, start in enumerate(self.starts(), 1)
        )
        return f"""
schema = "internet/1"
name = "dumbbell"
run = {{ duration = "{self.seconds}s" }}

[tcp.default]
variant = "newreno"
sack = false
timestamps = false
fast_tick = "off"
mss = 1448
send_buffer = {2000 * 1448}
recv_buffer = {2000 * 1448}

[topology]
kind = "dumbbell"
pairs = {self.flows}
trunk = {{ rate = "{10 * self.flows} Mbit/s", delay = "10ms", queue = "{20 * self.flows} packets" }}
access = {{ rate = "1 Gbit/s", delay = "1ms", queue = "unlimited" }}
""" + "".join(flows)


PROCESSORS = len(os.sched_getaffinity(0))
# A run of ours with a thread for each of them: of interest is its time on the clock.
THREADED = "layercast_threads"
OURS = ("layercast", THREADED)
# Of the quick ones the median of several runs; ns-3 takes half a minute.
RUNS = {"layercast": 5, "htsim": 5, "ns-2": 5, "ns-3": 1}


def timed(command: list[str]) -> dict:
    """Runs a process; what it printed, and its wall and processor time."""
    first = ["chrt", "-f", "20"] if os.environ.get("BENCH_URGENT") else []
    start = time.monotonic()
    child = subprocess.Popen([*first, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise OSError(f"{command[0]} failed with status {status}")
    return {
        "wall_seconds": round(time.monotonic() - start, 3),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "printed": json.loads(printed),
    }


def hops(name: str, printed: dict) -> int:
    """Packets that passed a link, each link of their way counted."""
    if name in OURS:
        return printed["packet_hops"]
    if name == "ns-3":
        return printed["hops"]
    # htsim and ns-2 count at the ends: what was sent passed the first link, what was acknowledged two
    # more, its acknowledgement three.
    return printed["sent"] + 5 * printed["acks"]


def goodput(name: str, printed: dict) -> float:
    """Of all flows together, bit/s."""
    if name in OURS:
        return sum(flow["goodput_bps"] for flow in printed["flows"])
    return sum(printed["goodputs"])


def programs(target: Path) -> dict[str, list[str]]:
    """How each is begun; of those that cannot be, the reason is printed."""
    folder, found = target / "peers", {}
    makers = {"htsim": lambda: peers.htsim(folder), "ns-2": peers.ns2, "ns-3": lambda: peers.ns3(folder)}
    for name, make in makers.items():
        try:
            found[name] = make()
        except OSError as error:
            print(f"bench: without {name}: {error}", file=sys.stderr, flush=True)
    return found


def measure(target: Path, others: dict[str, list[str]], case: Case, runs: dict[str, int]) -> dict:
    """All that there are, in turn, so that what disturbs the machine disturbs each."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, "dumbbell.toml")
        scenario.write_text(case.scenario())
        words = [str(word) for pair in case.told().items() for word in pair]
        ours = [str(target / "release/layercast"), "sim", str(scenario), "--json", "--threads"]
        given = {"layercast": [*ours, "1"]}
        if THREADED in runs:
            given[THREADED] = [*ours, str(PROCESSORS)]
        given |= {name: [*command, *words] for name, command in others.items()}
        found: dict[str, list[dict]] = {}
        for round_ in range(max(runs.values())):
            for name, command in given.items():
                if round_ < runs[name]:
                    print(f"bench: dumbbell of {case.flows:,}, {name}", file=sys.stderr, flush=True)
                    found.setdefault(name, []).append(timed(command))
    result = {name: summary(name, of_it) for name, of_it in found.items()}
    ours = result["layercast"]["packet_hops_per_cpu_second"]
    for it in result.values():
        it["layercast_times_as_fast"] = round(ours / it["packet_hops_per_cpu_second"], 3)
    return result


def summary(name: str, runs: list[dict]) -> dict:
    """The run of median processor time."""
    median = sorted(runs, key=lambda run: run["cpu_seconds"])[len(runs) // 2]
    printed = median.pop("printed")
    packet_hops = hops(name, printed)
    return median | {
        "cpu_seconds_of_all": [run["cpu_seconds"] for run in runs],
        "packet_hops": packet_hops,
        "packet_hops_per_cpu_second": round(packet_hops / median["cpu_seconds"]),
        "goodput_mbps": round(goodput(name, printed) / 1e6, 2),
    }


def growth(target: Path, others: dict[str, list[str]], largest: int) -> dict[str, dict]:
    """By flows; what ten times as many cost is `times_the_time`."""
    others = {name: command for name, command in others.items() if name == GROWTH_BESIDE}
    result: dict[str, dict] = {}
    before, flows = {}, FLOWS
    while flows <= largest:
        ours = OURS if PROCESSORS > 1 else OURS[:1]
        runs = dict.fromkeys([*ours, *others], GROWTH_RUNS.get(flows, 1))
        found = measure(target, others, Case(flows, GROWTH_SECONDS, 1.0), runs)
        for name, it in found.items():
            if name in before:
                it["times_the_time"] = round(it["cpu_seconds"] / before[name]["cpu_seconds"], 1)
        result[str(flows)] = before = found
        flows *= 10
    return result


if __name__ == "__main__":
    target = Path(sys.argv[1])
    largest = int(sys.argv[2]) if len(sys.argv) > 2 else LARGEST
    others = programs(target)
    result = measure(target, others, Case(), RUNS)
    result["growth"] = growth(target, others, largest)
    out = target / "bench" / "dumbbell.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n")
    print(out.read_text())
