#!/usr/bin/env python3
"""Runs the benchmarks and prints their numbers: criterion for the hot paths, whole runs for the rest.

Usage: bench.py TARGET_DIR. Nothing is judged here; docs/src/results/bench-switch.md explains the
numbers.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

target = Path(sys.argv[1])
layercast = target / "release" / "layercast"


def say(text: str) -> None:
    """Progress, apart from the result."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def criterion(package: str, name: str) -> None:
    """Run one criterion benchmark; its own report goes to standard error."""
    say(f"criterion, {package} {name}")
    command = ["cargo", "bench", "--quiet", "-p", package, "--bench", name, "--", "--noplot"]
    subprocess.run(command, check=True, stdout=sys.stderr)


def estimates(group: str) -> dict[str, float]:
    """Median time per element in ns of the benchmarks whose group starts so."""
    found = {}
    for file in sorted((target / "criterion").glob(f"{group}*/**/new/benchmark.json")):
        about = json.loads(file.read_text())
        elements = (about["throughput"] or {}).get("Elements", 1)
        median = json.loads((file.parent / "estimates.json").read_text())["median"]
        found[about["full_id"]] = median["point_estimate"] / elements
    return found


def whole_run(scenario: str) -> dict[str, float]:
    """Speed and memory of `layercast sim`, median of three runs."""
    say(f"layercast sim {scenario}")
    runs = []
    for _ in range(3):
        start = time.monotonic()
        command = [layercast, "sim", scenario, "--json"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            raise SystemExit(f"bench: layercast sim {scenario} failed")
        runs.append((time.monotonic() - start, usage.ru_maxrss, json.loads(output)))
    seconds, memory, summary = sorted(runs, key=lambda run: run[0])[1]
    return {
        "process_seconds": round(seconds, 3),
        "simulated_seconds": summary["sim_seconds"],
        "events": summary["events"],
        "hops": summary["packet_hops"] + summary["cell_hops"],
        "peak_memory_mib": round(memory / 1024),
    }


def forwarding() -> dict[str, float]:
    """The soft switch beside a bare recvmmsg/sendmmsg loop, in one process."""
    say("soft switch on loopback beside a bare loop")
    command = ["cargo", "run", "--quiet", "--release", "-p", "layercast-net", "--example", "forward"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)


def sockets(what: str) -> dict:
    """One measurement of `examples/sockets` on this machine."""
    say(f"sockets {what}")
    command = ["cargo", "build", "--quiet", "--release", "-p", "layercast-net", "--example", "sockets"]
    subprocess.run(command, check=True)
    measure = [*urgent(), str(target / "release/examples/sockets"), what]
    found = json.loads(subprocess.run(measure, check=True, stdout=subprocess.PIPE).stdout)
    (target / "bench").mkdir(exist_ok=True)
    (target / "bench" / f"{what}.json").write_text(json.dumps(found, indent=2) + "\n")
    return found


def cells() -> dict:
    """The ATM backbone of the internetwork simulator, as trains of cells and cell by cell."""
    say("cells of internetworks")
    command = ["cargo", "run", "--quiet", "--release", "-p", "layercast-sim", "--example", "cells"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def picture() -> dict:
    """Classifier, AAL5+ and shared buffer on ten seconds of MPEG-2, beside memcpy and a plain queue."""
    say("cells of a transport stream")
    (target / "bench").mkdir(exist_ok=True)
    stream = target / "bench" / "picture.ts"
    words = f"-v error -nostdin -y -i {target}/demo/clip.m1v -f lavfi -i sine=r=48000 -map 0:v -map 1:a -t 10"
    words += f" -c:v mpeg2video -b:v 4M -maxrate 6M -bufsize 2M -g 12 -bf 2 -c:a mp2 -f mpegts {stream}"
    subprocess.run(["ffmpeg", *words.split()], check=True)
    command = ["cargo", "run", "--quiet", "--release", "-p", "layercast-picture", "--example", "aal5_plus"]
    done = subprocess.run([*command, "speed", stream], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def urgent() -> list[str]:
    """How to run before all others on a busy machine (BENCH_URGENT=1, as root)."""
    return ["chrt", "-f", "20"] if os.environ.get("BENCH_URGENT") else []


def cpu() -> str:
    """The processor's name."""
    match = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return match[1] if match else "unknown"


criterion("layercast-mets", "forward")
criterion("layercast-sim", "chain")
criterion("layercast-protect", "link")
criterion("layercast-protect", "group")
chain = estimates("chain")
result = {
    "cpu": cpu(),
    "switch_ns_per_unit": {name: round(ns, 1) for name, ns in estimates("switch").items()},
    "protect_ns_per_datagram": {
        name: round(ns) for part in ("link", "cipher") for name, ns in estimates(f"protect_{part}").items()
    },
    "protect_ns_per_packet_of_media": {name: round(ns) for name, ns in estimates("protect_media").items()},
    "protect_ns_per_proof_and_grant": {
        name: round(ns) for part in ("proof", "grant") for name, ns in estimates(f"protect_{part}").items()
    },
    "load": os.getloadavg(),
    "sim_hops_per_second": {name: round(1e9 / ns) for name, ns in chain.items()},
    "cells": cells(),
    "picture": picture(),
    "soft_switch": forwarding(),
    "sockets": {what: sockets(what) for what in ("latency", "pacing", "capacity")},
    "whole_runs": {name: whole_run(f"scenarios/{name}.toml") for name in ("e5", "demo")},
}
say("dumbbell beside htsim, ns-2 and ns-3")
subprocess.run([sys.executable, "scripts/peers/dumbbell.py", target], check=True, stdout=subprocess.DEVNULL)
result["dumbbell"] = json.loads((target / "bench" / "dumbbell.json").read_text())
say("XTP beside TCP, QUIC and SRT")
build = ["cargo", "build", "--quiet", "--release", "-p", "layercast-net", "--example", "transports"]
subprocess.run(build, check=True)
subprocess.run([sys.executable, "scripts/peers/transports.py", target], check=True, stdout=subprocess.DEVNULL)
result["xtp"] = json.loads((target / "bench" / "xtp.json").read_text())
say("erasure codes beside memcpy and ISA-L")
subprocess.run([sys.executable, "scripts/peers/fec.py", target], check=True, stdout=subprocess.DEVNULL)
result["fec_gigabytes_per_second"] = json.loads((target / "bench" / "fec.json").read_text())
out = target / "bench" / "bench.json"
out.write_text(json.dumps(result, indent=2) + "\n")
print(json.dumps(result, indent=2))
say(f"written to {out}")
