#!/usr/bin/env python3
"""SRT, Layercast and WebRTC side by side over the same emulated path, as seen on the screen.

Usage: srt.py LAYERCAST OUT_DIR [--runs 3] [--set srt|renditions] [--conditions "3 % loss,drop to 60 %"]
       [--variants "SRT 500|auto"]

Writes OUT_DIR/SET.json and, of srt, srt.png, quality over time, and prints a table.
docs/src/results/bench-media.md says what is compared and how; the set `renditions` is in bench-live.md.
"""

import argparse
import itertools
import json
import os
import re
import socket
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clip import FPS, FRAMES, GOP, SECONDS, Clip, Stream, arrivals
from draw import draw
from nodes import Programs, free_port, hurry
from quality import FROM, TO, decode, quantile, spread, summary, watch
from webrtc import run_webrtc

LAYERCAST, OUT = sys.argv[1], Path(sys.argv[2])
# The capacity of the path, as a multiple of what the stream needs, headers included.
HEADROOM = 1.3
DELAY_MS, JITTER_MS, QUEUE_MS = 20, 5, 200
DROP = (10, 20)
# The encoder sends no faster than this share of the path's capacity.
SMOOTHED = 0.95
LOSSES = (0, 3, 5)
DROPS = {loss: "drop to 60 %" + (f" with {loss} % loss" if loss else "") for loss in LOSSES}
CONDITIONS = {f"{loss} % loss": ["--loss", f"{loss}%"] for loss in LOSSES}
CONDITIONS |= {name: ["--loss", f"{loss}%"] for loss, name in DROPS.items()}
# What is compared, and under which conditions.
SETS = {"srt": ",".join(CONDITIONS), "renditions": ",".join(DROPS.values())}
# SRT connects before its media start; Layercast starts its media this long after its own start.
SETTLE = 2.0


def path_rate(clip: Clip) -> int:
    """Bits per second of the path."""
    return round(max(clip.mpeg1.rate, clip.h264.rate) * 1.06 * HEADROOM)


def path(to: int, rate: int | None, condition: str, seed: int, after: float) -> list:
    """The command of the emulated path; the drop comes `after` seconds after its first datagram."""
    listen = ["--to", f"127.0.0.1:{to}", "--seed", seed]
    way = ["--delay", f"{DELAY_MS}ms", "--jitter", f"{JITTER_MS}ms", *CONDITIONS[condition]]
    if rate:
        way += ["--rate", f"{rate}bit/s", "--queue", f"{QUEUE_MS}ms"]
        if condition.startswith("drop"):
            way += ["--schedule", schedule(after)]
    return ["emulate", *listen, *way]


def schedule(after: float) -> str:
    """The drop to 60 % as `layercast` reads it."""
    return f"{after + DROP[0]:.1f}s:60%,{after + DROP[1]:.1f}s:100%"


def feed(stream: Stream, port: int, rate: float, start: float) -> list[float]:
    """Send a transport stream as a live encoder would, frames at their times, within `rate`. When."""
    hurry()
    data = stream.path.read_bytes()
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sent, free = [], 0.0
    for number, packet in enumerate(stream.packets):
        due = start + number / FPS
        sent.append(due)
        for at in range(packet["start"], packet["end"], 1_316):
            chunk = data[at : min(at + 1_316, packet["end"])]
            free = max(free, due)
            wait = free - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            sender.sendto(chunk, ("127.0.0.1", port))
            free += len(chunk) * 8 / rate
    return sent


def listen(port: int, until: float) -> list[tuple[float, bytes]]:
    """The datagrams to a UDP port, with their times."""
    hurry()
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    receiver.bind(("127.0.0.1", port))
    receiver.settimeout(0.2)
    got = []
    while time.monotonic() < until:
        try:
            chunk = receiver.recv(65_536)
        except TimeoutError:
            continue
        got.append((time.monotonic(), chunk))
    return got


def run_srt(clip: Clip, stream: Stream, latency: int, condition: str, seed: int, folder: Path) -> dict:
    """One run of srt-live-transmit on both sides of the path."""
    entry, far, out = free_port(), free_port(), free_port()
    rate = path_rate(clip)
    options = f"latency={latency}"
    end = time.monotonic() + SETTLE + SECONDS + 3
    with Programs(LAYERCAST) as programs, ThreadPoolExecutor() as pool:
        got = pool.submit(listen, out, end)
        receive = ["srt-live-transmit", "-q", f"srt://127.0.0.1:{far}?mode=listener&{options}"]
        programs.start([*receive, f"udp://127.0.0.1:{out}"])
        time.sleep(0.3)
        entrance = programs.ready(path(far, rate, condition, seed, SETTLE - 0.3))
        send = ["srt-live-transmit", "-q", f"udp://127.0.0.1:{entry}"]
        programs.start([*send, f"srt://{entrance}?mode=caller&{options}"])
        start = time.monotonic() + SETTLE - 0.3
        sent = pool.submit(feed, stream, entry, rate * SMOOTHED, start).result()
        chunks = got.result()
    received = folder / "srt.ts"
    received.write_bytes(b"".join(chunk for _, chunk in chunks))
    came = arrivals(chunks)
    times = [packet["pts"] for packet in stream.packets]
    window = range(FROM, TO)
    delays = [came[times[k]] - sent[k] for k in window if times[k] in came]
    return {
        "pictures": decode(received, stream, 0),
        "delay_ms": {"p50": quantile(delays, 0.5), "p99": quantile(delays, 0.99)},
    }


def run_layercast(
    clip: Clip,
    stream: Stream,
    playout: int,
    knows: bool,
    condition: str,
    seed: int,
    folder: Path,
) -> dict:
    """One run of Layercast; its node at the bottleneck knows the rate of the line, or measures the path."""
    rate = path_rate(clip)
    line = f"receiver={rate}bit/s" if knows else "receiver=auto"
    if knows and condition.startswith("drop"):
        line += f",schedule={schedule(SETTLE)}"
    # H.264 as the very transport stream that SRT carries; MPEG-1 as the stream inside it, whose gaps
    # Layercast fills.
    whole = stream is not clip.mpeg1
    media, received = (
        (stream.path, folder / "layercast.ts") if whole else (clip.layered, folder / "layercast.m1v")
    )
    with Programs(LAYERCAST) as programs:
        serve = ["serve", media, "--flow", "bunny", "--start-in", f"{SETTLE}s"]
        serve += ["--listen", "127.0.0.1:0", "--port", line]
        if whole:
            # The base layer with references would not fit into the drop of the rate.
            levels = ["--renditions", "programs"] if stream is clip.renditions else ["--map", "ipb"]
            serve += ["--pacing", "serial", *levels]
        server = programs.ready(serve)
        port = int(server.rsplit(":", 1)[1])
        # The server's line is the bottleneck itself, or the path contains it and no program knows its rate.
        entrance = programs.ready(path(port, None if knows else rate, condition, seed, SETTLE))
        join = ["join", f"{entrance}/bunny", "--playout", f"{playout}ms", "--out", received]
        # The name of the link in `line`.
        join += ["--name", "receiver"]
        if whole:
            # Key frames are so large that sent in bursts they fill the queue; smoothed as for SRT.
            join += ["--drain", f"{round(rate * SMOOTHED)}bit/s"]
        told = programs.finish([*join, "--for", f"{SETTLE + SECONDS + 2}s"])
    receiver = told["receiver"]
    return {
        "pictures": decode(received, stream if whole else None, told["first_picture"] or 0),
        "delay_ms": {"p50": playout, "p99": playout},
        "network_delay_ms": receiver["delay_ms"],
        "frames": receiver["frames"],
        "lost": receiver["lost"],
        "late": {"all": receiver["late"], "BL": receiver["late_base"]},
        "withheld": receiver["withheld"],
        "levels": receiver["levels"],
    }


def variants(clip: Clip, which: str) -> dict:
    """What a set compares: name -> how to run it and what is clean."""

    def srt(stream, latency):
        return lambda *rest: run_srt(clip, stream, latency, *rest)

    def layercast(stream, playout, knows):
        return lambda *rest: run_layercast(clip, stream, playout, knows, *rest)

    def webrtc(latency):
        def run(condition, seed, folder):
            def between(port):
                return path(port, path_rate(clip), condition, seed, SETTLE)

            return run_webrtc(LAYERCAST, clip, round(clip.h264.rate), between, latency, SETTLE, folder)

        return run

    nodes = {"switch": True, "auto": False}
    if which == "renditions":
        found = {f"SRT {ms} ms": (srt(clip.h264, ms), "h264") for ms in (120, 300, 500)}
        found["WebRTC, at most 300 ms"] = (webrtc(300), "h264")
        for ms, (node, knows) in itertools.product((300, 500), nodes.items()):
            found[f"Layercast {ms} ms, {node}"] = (layercast(clip.renditions, ms, knows), "renditions")
        return found
    found = {f"SRT {ms} ms, H.264": (srt(clip.h264, ms), "h264") for ms in (120, 500)}
    found["SRT 120 ms, MPEG-1"] = (srt(clip.mpeg1, 120), "mpeg1")
    # A key frame of the stream of H.264 alone takes more than 200 ms on the path.
    layered = [("H.264", clip.h264, "h264", (500, 800)), ("MPEG-1", clip.mpeg1, "mpeg1", (200, 500))]
    for (name, stream, form, delays), (node, knows) in itertools.product(layered, nodes.items()):
        for ms in delays:
            found[f"Layercast {ms} ms, {name}, {node}"] = (layercast(stream, ms, knows), form)
    return found


def measure(clip: Clip, clean: dict, kind: tuple, name: str, condition: str, seed: int) -> dict:
    """One run of a variant, watched."""
    run, form = kind
    folder = OUT / "runs" / f"{name} {condition} {seed}".replace(" ", "_").replace(",", "").replace("%", "")
    folder.mkdir(parents=True, exist_ok=True)
    result = run(condition, seed, folder)
    with WATCHING:
        result |= watch(clip, result.pop("pictures"), clean[form]["psnr"])
    # While the path was narrow, and a second for what was under way.
    during = (DROP[0] * FPS, (DROP[1] + 1) * FPS)
    if condition.startswith("drop"):
        result["during"] = summary(result["psnr"], result["frozen"], clean[form]["psnr"], *during)
    return result


WATCHING = threading.Lock()


def about(clip: Clip, clean: dict) -> dict:
    """What was compared, and on how busy a machine."""
    return {
        "path": {
            "rate_bps": path_rate(clip),
            "delay_ms": DELAY_MS,
            "jitter_ms": JITTER_MS,
            "queue_ms": QUEUE_MS,
        },
        "clip": {
            "mpeg1_bps": round(clip.mpeg1.rate),
            "h264_bps": round(clip.h264.rate),
            "gop": GOP,
            "frames": FRAMES,
        },
        "clean": {form: round(statistics.mean(seen["psnr"][FROM:TO]), 2) for form, seen in clean.items()},
        "load": os.getloadavg(),
    }


def main() -> None:
    """Run everything and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layercast")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--set", choices=list(SETS), default="srt")
    parser.add_argument("--conditions")
    parser.add_argument("--variants", default="", help="a regular expression: only streams whose name has it")
    args = parser.parse_args()
    conditions = (args.conditions or SETS[args.set]).split(",")
    if unknown := set(conditions) - set(CONDITIONS):
        parser.error(f"no condition {', '.join(sorted(unknown))}; there are {', '.join(CONDITIONS)}")
    clip = Clip(OUT / "clip")
    clean = {
        "h264": watch(clip, decode(clip.h264.path, clip.h264, 0), None),
        "mpeg1": watch(clip, decode(clip.layered, None, 0), None),
        "renditions": watch(clip, decode(clip.renditions.path, clip.renditions, 0, "0:v:2"), None),
    }
    kinds = {name: kind for name, kind in variants(clip, args.set).items() if re.search(args.variants, name)}
    if not kinds:
        parser.error(f"no variant has {args.variants!r}")
    results = {condition: {name: [] for name in kinds} for condition in conditions}
    for seed, condition in itertools.product(range(1, args.runs + 1), conditions):
        print(f"{args.set}: {condition}, run {seed} of {args.runs}", file=sys.stderr, flush=True)
        names = results[condition]
        with ThreadPoolExecutor(len(names)) as pool:
            running = {n: pool.submit(measure, clip, clean, kinds[n], n, condition, seed) for n in names}
            for name, future in running.items():
                names[name].append(future.result())
        # What there is so far, for the impatient.
        report = about(clip, clean) | {"results": results}
        (OUT / f"{args.set}.json").write_text(json.dumps(report) + "\n")
    drawn = [name for name in ("3 % loss", "5 % loss", "drop to 60 %") if name in results]
    if args.set == "srt" and drawn:
        draw(results, drawn, FPS, DROP, OUT / "srt.png")
    print(json.dumps(about(clip, clean)))
    table(results)


def table(results: dict) -> None:
    """Print it for docs/src/results/bench-media.md."""
    keys = [
        "mean_psnr",
        "worst_5_percent_psnr",
        "frozen_percent",
        "stalls",
        "longest_freeze_ms",
        "broken_percent",
    ]
    print("| path | stream | delay ms | PSNR dB | worst 5 % | frozen % | stalls | longest ms | broken % |")
    print("|---|---|---|---|---|---|---|---|---|")
    for condition, by_name in results.items():
        by_name = {name: runs for name, runs in by_name.items() if runs}
        rows = [(condition, name, runs, runs) for name, runs in by_name.items()]
        if condition.startswith("drop"):
            during = "its 10 s"
            rows += [(during, name, runs, [run["during"] for run in runs]) for name, runs in by_name.items()]
        for label, name, runs, figures in rows:
            delays = [run["delay_ms"]["p50"] for run in runs if run["delay_ms"]["p50"] is not None]
            cells = [spread(delays) if delays else "-", *(spread([f[key] for f in figures]) for key in keys)]
            print(f"| {label} | {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
