#!/usr/bin/env python3
"""What repair costs without loss: processor time of `serve` and `join` with repair over that without.

Usage: repair_cost.py LAYERCAST FOLDER [--pairs 12] [--seconds 8] [--rate 17]

Runs with and without repair alternate, in the order with, without, without, with, so that a drift of the
machine falls on both. Each run sends an MPEG-1 stream of `rate` Mbit/s over loopback. Its figures are those
of the last `seconds`, after the first five, in which reports are frequent. Prints a JSON line for each run,
and at the end the ratio of the medians with its confidence interval (95 %, bootstrap of the pairs), and what
the feedback takes. docs/src/results/bench-live.md has the table.
BENCH_URGENT=1, as root: the measured programs run before all others.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from clip import run as command
from nodes import Programs

SETTLE_S = 5.0
# Octets of a report on the wire: its fixed part, 16 arrival times, and the headers of UDP and IPv4.
REPORT_OCTETS = 22 + 16 * 5 + 28


def film(folder: Path, mbps: float) -> Path:
    """Noise in MPEG-1 at about this rate."""
    path = folder / f"cost-{mbps:g}.m1v"
    if not path.exists():
        kbps = round(1_000 * mbps)
        source = ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25,noise=alls=30:allf=t", "-t", "10"]
        rate = ["-b:v", f"{kbps}k", "-maxrate", f"{kbps}k", "-bufsize", "4M", "-g", "12", "-bf", "2"]
        command(["ffmpeg", "-v", "error", "-y", *source, "-c:v", "mpeg1video", *rate, str(path)])
    return path


def spent(process: subprocess.Popen) -> float:
    """Processor time of all threads of a process in seconds."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def measure(args: argparse.Namespace, how: str) -> dict:
    """One run."""
    with Programs(args.layercast) as programs:
        serve = ["serve", film(args.folder, args.rate), "--flow", "film", "--loop", "--listen", "127.0.0.1:0"]
        address = programs.ready([*serve, "--repair", how])
        server = programs.running[-1]
        join = ["join", f"{address}/film", "--repair", how, "--out", "/dev/null"]
        seconds = SETTLE_S + args.seconds
        node = programs.node([*join, "--for", f"{seconds + 1:g}s"])
        receiver = programs.start(node, stdout=subprocess.PIPE, text=True)
        time.sleep(SETTLE_S)
        before = [spent(server), spent(receiver)]
        time.sleep(args.seconds)
        after = [spent(server), spent(receiver)]
        summary = json.loads(receiver.stdout.read().splitlines()[-1])
    used = [b - a for a, b in zip(before, after, strict=True)]
    receiving = summary["link_repair"]["receiving"] if how != "off" else {"feedback": 0, "requested": 0}
    frames, lost = summary["receiver"]["frames"], summary["receiver"]["lost"]
    row = {"repair": how, "serve_ms": round(1e3 * used[0], 1), "join_ms": round(1e3 * used[1], 1)}
    row |= {"both_ms": round(1e3 * sum(used), 1), "reports": receiving["feedback"]}
    row |= {"requested": receiving["requested"], "frames": sum(frames.values()), "lost": sum(lost.values())}
    print(json.dumps(row), flush=True)
    return row


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Median with repair over median without."""
    return statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layercast")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rate", type=float, default=17.0, help="Mbit/s of the stream")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    pairs, reports = [], []
    for pair in range(args.pairs):
        order = ("auto", "off") if pair % 2 == 0 else ("off", "auto")
        runs = {how: measure(args, how) for how in order}
        pairs.append((runs["auto"]["both_ms"], runs["off"]["both_ms"]))
        reports.append(runs["auto"]["reports"] / (SETTLE_S + args.seconds + 1))
    drawn = random.Random(1)
    resampled = sorted(ratio(drawn.choices(pairs, k=len(pairs))) for _ in range(2_000))
    kbps = statistics.median(reports) * REPORT_OCTETS * 8 / 1_000
    result = {
        "pairs": len(pairs),
        "rate_mbps": args.rate,
        "with_over_without": round(ratio(pairs), 4),
        "interval_95": [round(resampled[50], 4), round(resampled[1_949], 4)],
        "feedback_kbps": round(kbps, 1),
        "runs": [{"with_ms": a, "without_ms": b} for a, b in pairs],
    }
    print(json.dumps(result), flush=True)
    (args.folder / "repair_cost.json").write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    sys.exit(main())
