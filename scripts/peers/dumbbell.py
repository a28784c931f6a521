#!/usr/bin/env python3
"""The speed of the internetwork simulator beside htsim, ns-2 and ns-3: the same dumbbell, each as a process.

Usage: dumbbell.py TARGET_DIR. Writes TARGET_DIR/bench/dumbbell.json; docs/benchmarks.md says what it means.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Not as part of the package, which needs the bindings to be built.
sys.path.insert(0, str(ROOT / "python" / "layercast_lab"))
import peers  # noqa: E402

# Ten transfers by NewReno in segments of 1448 bytes, each segment acknowledged, through 100 Mb/s and 10 ms
# with room for 200 packets, over access links of 1 Gb/s and 1 ms.
SECONDS, FLOWS = 100, 10
TOLD = {
    "variant": "newreno",
    "delayed_acks": 0,
    "mss": 1448,
    "window": 2000,
    "initial_window": 10,
    "trunk_bps": 100_000_000,
    "trunk_delay": 0.01,
    "access_bps": 1_000_000_000,
    "access_delay": 0.001,
    "queue": 200,
    "red": 0,
    "starts": " ".join(f"{n / 1000}" for n in range(FLOWS)),
    "warm_up": 0,
    "seconds": SECONDS,
    "seed": 1,
    "count": 0,
}
OURS = f"""
schema = "internet/1"
name = "dumbbell"
run = {{ duration = "{SECONDS}s" }}

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
pairs = {FLOWS}
trunk = {{ rate = "100 Mbit/s", delay = "10ms", queue = "200 packets" }}
access = {{ rate = "1 Gbit/s", delay = "1ms", queue = "unlimited" }}
""" + "".join(
    f'\n[[flow]]\nfrom = "left{n + 1}"\nto = "right{n + 1}"\nstart = "{n}ms"\n' for n in range(FLOWS)
)
# Of the quick ones the median of so many; ns-3 takes half a minute.
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
    if name == "layercast":
        return printed["packet_hops"]
    if name == "ns-3":
        return printed["hops"]
    # htsim and ns-2 count at the ends: what was sent passed the first link, what was acknowledged two
    # more, its acknowledgement three.
    return printed["sent"] + 5 * printed["acks"]


def goodput(name: str, printed: dict) -> float:
    """Of all flows together, bit/s."""
    if name == "layercast":
        return sum(flow["goodput_bps"] for flow in printed["flows"])
    return sum(printed["goodputs"])


def commands(target: Path, scenario: Path) -> dict[str, list[str]]:
    """How each is run; of those that cannot be, the reason is printed."""
    scenario.write_text(OURS)
    words = [str(word) for pair in TOLD.items() for word in pair]
    found = {"layercast": [str(target / "release/layercast"), "sim", str(scenario), "--json"]}
    folder = target / "peers"
    makers = {"htsim": lambda: peers.htsim(folder), "ns-2": peers.ns2, "ns-3": lambda: peers.ns3(folder)}
    for name, make in makers.items():
        try:
            found[name] = [*make(), *words]
        except OSError as error:
            print(f"bench: without {name}: {error}", file=sys.stderr, flush=True)
    return found


def measure(target: Path) -> dict:
    """All that there are, in turn, so that what disturbs the machine disturbs each."""
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, list[dict]] = {}
        given = commands(target, Path(folder, "dumbbell.toml"))
        for round_ in range(max(RUNS.values())):
            for name, command in given.items():
                if round_ < RUNS[name]:
                    print(f"bench: dumbbell, {name}", file=sys.stderr, flush=True)
                    runs.setdefault(name, []).append(timed(command))
    result = {}
    for name, found in runs.items():
        median = sorted(found, key=lambda run: run["cpu_seconds"])[len(found) // 2]
        printed = median.pop("printed")
        packet_hops = hops(name, printed)
        result[name] = median | {
            "cpu_seconds_of_all": [run["cpu_seconds"] for run in found],
            "packet_hops": packet_hops,
            "packet_hops_per_cpu_second": round(packet_hops / median["cpu_seconds"]),
            "goodput_mbps": round(goodput(name, printed) / 1e6, 2),
        }
    ours = result["layercast"]["packet_hops_per_cpu_second"]
    for found in result.values():
        found["layercast_times_as_fast"] = round(ours / found["packet_hops_per_cpu_second"], 3)
    return result


if __name__ == "__main__":
    target = Path(sys.argv[1])
    out = target / "bench" / "dumbbell.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(measure(target), indent=2) + "\n")
    print(out.read_text())
