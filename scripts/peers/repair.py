#!/usr/bin/env python3
"""Repair of lost packets by Layercast, SRT and RIST: one live stream over the same lossy path, as seen on the
screen.

Usage: repair.py LAYERCAST OUT_DIR [--runs 3] [--conditions "1 %,5 %"] [--variants REGEX]

Every variant gets the same datagrams of a transport stream (H.264) at the same moments by UDP, and gives them
by UDP: the delay is from the first byte of a frame at the input to its last byte at the output. Prints a JSON
line for each run and writes OUT_DIR/repair.json; docs/src/results/bench-media.md has the table.
BENCH_URGENT=1, as root: the measured programs run before all others.
"""

import argparse
import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from clip import FPS, FRAMES, VIDEO, Clip, Stream, arrivals, presentation_time
from nodes import Programs, free_port, hurry
from quality import decode, psnr, quantile, summary

DELAY_MS = 20
# A frame leaves the encoder at this rate.
ENCODER_RATE = 20e6
# Until then the nodes measure the stream, and receivers join.
JUDGED_FROM, JUDGED_TO = 10 * FPS, FRAMES - FPS
CONDITIONS = {
    "no loss": [],
    "1 %": ["--loss", "1%"],
    "3 %": ["--loss", "3%"],
    "5 %": ["--loss", "5%"],
    "10 %": ["--loss", "10%"],
    "5 % in bursts of 5": ["--loss", "5%", "--burst", 5],
    "5 % in bursts of 20": ["--loss", "5%", "--burst", 20],
    "reordering by up to 8 ms": ["--jitter", "8ms", "--reorder"],
    "5 % on each of three hops": ["--loss", "5%"],
}
# The links of a path that has several, each of 10 ms. Only Layercast has nodes between them.
HOPS = {"5 % on each of three hops": 3}
HOP_DELAY_MS = 10
# Of Layercast: options of `serve` and of `join`. Of the others: latency or buffer in milliseconds.
VARIANTS = {
    f"Layercast, playout {ms} ms": ("layercast", [[], ["--playout", f"{ms}ms"]])
    for ms in (120, 200, 250, 300, 500)
}
VARIANTS |= {"Layercast, default playout": ("layercast", [[], []])}
VARIANTS |= {
    f"Layercast, lead 0, playout {ms} ms": ("layercast", [["--lead", "0"], ["--playout", f"{ms}ms"]])
    for ms in (120, 100, 80)
}
VARIANTS |= {"Layercast, lead 0, default playout": ("layercast", [["--lead", "0"], []])}
VARIANTS |= {f"SRT {ms} ms": ("srt", ms) for ms in (100, 120, 160, 200, 300)}
VARIANTS |= {f"RIST {ms} ms": ("rist", ms) for ms in (120, 160, 200, 300)}


@dataclass
class Run:
    """One variant in a run."""

    kind: str
    options: list | int
    folder: Path
    entry: int = field(default_factory=free_port)
    out: int = field(default_factory=free_port)
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    # Share of repairs in what was sent besides, and what else the receiver counted.
    figures: dict = field(default_factory=dict)
    receiver: subprocess.Popen | None = None

    def start(self, programs: Programs, links: list[list]) -> None:
        """Start the programs; those of Layercast need the stream to be under way."""
        getattr(self, f"_{self.kind}")(programs, links)

    def _layercast(self, programs: Programs, links: list[list]) -> None:
        at_source, at_receiver = self.options
        own = ["--listen", "127.0.0.1:0"]
        serve = ["serve", f"udp://127.0.0.1:{self.entry}", "--flow", "bunny", *own]
        address = programs.ready([*serve, *at_source])
        for number, link in enumerate(links):
            if number > 0:
                address = programs.ready(["switch", "--upstream", address, *own])
            address = programs.ready([*link, "--to", address])
        join = ["join", f"{address}/bunny", "--out", f"udp://127.0.0.1:{self.out}"]
        # It ends with the stream: the summary is its last line.
        said = (self.folder / "join.jsonl").open("w")
        self.receiver = programs.start(programs.node([*join, *at_receiver]), stdout=said)

    @staticmethod
    def _path(programs: Programs, links: list[list], far: int) -> str:
        """The entrance of a path without nodes between its links."""
        address = f"127.0.0.1:{far}"
        for link in links:
            address = programs.ready([*link, "--to", address])
        return address

    def _srt(self, programs: Programs, links: list[list]) -> None:
        far, options = free_port(), f"latency={self.options}"
        entrance = self._path(programs, links, far)
        program = ["srt-live-transmit", "-q"]
        programs.start(
            [*program, f"srt://127.0.0.1:{far}?mode=listener&{options}", f"udp://127.0.0.1:{self.out}"]
        )
        time.sleep(0.3)
        told = ["-f", "-s", 500, "-pf", "json", "-statsout", self.folder / "srt.json"]
        to = f"srt://{entrance}?mode=caller&{options}"
        programs.start([*program, *told, f"udp://127.0.0.1:{self.entry}", to])

    def _rist(self, programs: Programs, links: list[list]) -> None:
        far, options = free_port(), f"buffer={self.options}"
        entrance = self._path(programs, links, far)
        receive = ["ristreceiver", "-i", f"rist://@127.0.0.1:{far}?{options}"]
        programs.start([*receive, "-o", f"udp://127.0.0.1:{self.out}"])
        time.sleep(0.3)
        send = ["ristsender", "-i", f"udp://@127.0.0.1:{self.entry}", "-o", f"rist://{entrance}?{options}"]
        programs.start([*send, "-S", 1000], stderr=(self.folder / "rist.log").open("w"))

    def end(self) -> None:
        """Read what the programs counted."""
        if self.kind == "layercast":
            self.receiver.wait(30)
            summary = json.loads((self.folder / "join.jsonl").read_text().splitlines()[-1])
            receiver, links = summary["receiver"], summary["link_repair"]["receiving"]
            repairs = sum(links["repaired"].values()) + links["spurious"]
            self.figures = {
                "lost": sum(receiver["lost"].values()),
                "late": receiver["late"],
                "repairs": repairs,
                "sent": links["received"] - repairs,
                "spurious": links["spurious"],
            }
        elif self.kind == "srt":
            send = json.loads(_lines(self.folder / "srt.json")[-1])["send"]
            self.figures = {"repairs": send["packetsRetransmitted"], "sent": send["packetsUnique"]}
        else:
            told = [
                line[line.index("{") :] for line in _lines(self.folder / "rist.log") if "sender-stats" in line
            ]
            stats = [json.loads(line)["sender-stats"]["peer"]["stats"] for line in told]
            repairs = sum(it["retransmitted"] for it in stats)
            self.figures = {"repairs": repairs, "sent": sum(it["sent"] for it in stats) - repairs}


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip()]


def feed(stream: Stream, ports: list[int], start: float) -> None:
    """Send the stream to all ports as a live encoder would: a frame when it is due, at `ENCODER_RATE`."""
    hurry()
    data = stream.path.read_bytes()
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    free = start
    for number, packet in enumerate(stream.packets):
        free = max(free, start + number / FPS)
        for at in range(packet["start"], packet["end"], 1_316):
            time.sleep(max(free - time.monotonic(), 0))
            chunk = data[at : min(at + 1_316, packet["end"])]
            for port in ports:
                sender.sendto(chunk, ("127.0.0.1", port))
            free += len(chunk) * 8 / ENCODER_RATE


def listen(runs: list[Run], until: Callable[[], bool]) -> None:
    """Take the datagrams of all variants, with their times, `until` it is over."""
    hurry()
    sockets = {}
    for run in runs:
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        receiver.bind(("127.0.0.1", run.out))
        sockets[receiver] = run
    while not until():
        for receiver in select.select(list(sockets), [], [], 0.2)[0]:
            sockets[receiver].chunks.append((time.monotonic(), receiver.recv(65_536)))


class Judge:
    """Compares what was received with the clip, and with what the encoder made of it."""

    def __init__(self, folder: Path) -> None:
        os.nice(19)
        self.clip = Clip(folder)
        self.encoded = decode(self.clip.h264.path, self.clip.h264, 0)
        originals = enumerate(self.clip.pictures)
        self.clean = [round(psnr(original, self.encoded[k]), 2) for k, original in originals]
        self.frames: dict[int, bytes] | None = None

    def see(self, received: Path) -> dict:
        """What a viewer of a stream saw: each picture in its turn, or the last one again."""
        told = {"pictures": JUDGED_TO - JUDGED_FROM, "damaged": self._damaged(received)}
        if not told["damaged"]:
            # The same octets are the same pictures: no decoder is needed to see them.
            received.unlink()
            still = [False] * len(self.clean)
            return summary(self.clean, still, self.clean, JUDGED_FROM, JUDGED_TO) | told | {"wrong": 0}
        pictures = decode(received, self.clip.h264, 0)
        received.unlink()
        quality, frozen, wrong = [], [], 0
        shown = np.zeros_like(self.clip.pictures[0])
        for k, original in enumerate(self.clip.pictures):
            picture, right = pictures.get(k), self.encoded[k]
            moved = k > 0 and not np.array_equal(right, self.encoded[k - 1])
            frozen.append(bool(moved and (picture is None or np.array_equal(picture, shown))))
            shown = shown if picture is None else picture
            is_right = np.array_equal(shown, right)
            wrong += not is_right and JUDGED_FROM <= k < JUDGED_TO
            quality.append(self.clean[k] if is_right else psnr(original, shown))
        figures = summary(quality, frozen, self.clean, JUDGED_FROM, JUDGED_TO)
        return figures | told | {"wrong": wrong}

    def _damaged(self, received: Path) -> int:
        """How many of the frames that the judged pictures need did not arrive as the encoder gave them."""
        if self.frames is None:
            self.frames = frames(self.clip.h264.path.read_bytes())
        came = frames(received.read_bytes())
        # From the key frame a second before on, and with the reference of the last pictures.
        judged = range(JUDGED_FROM - FPS, JUDGED_TO + 3)
        needed = [packet["pts"] for packet in self.clip.h264.packets]
        needed = [pts for pts in needed if self.clip.h264.index(pts) in judged]
        return sum(came.get(pts) != self.frames[pts] for pts in needed)


def frames(stream: bytes) -> dict[int, bytes]:
    """The octets of each video frame in a transport stream, without headers of PES, by its time."""
    found: dict[int, list[bytes]] = {}
    current = None
    for at in range(0, len(stream) - 187, 188):
        if (stream[at + 1] & 0x1F) << 8 | stream[at + 2] != VIDEO or not stream[at + 3] & 0x10:
            continue
        start = at + (5 + stream[at + 4] if stream[at + 3] & 0x20 else 4)
        payload = stream[start : at + 188]
        if stream[at + 1] & 0x40:
            current = presentation_time(payload)
            payload = payload[9 + payload[8] :]
            # A frame that comes twice is no frame of the encoder.
            found[current] = [b"twice"] if current in found else []
        if current is not None:
            found[current].append(payload)
    return {pts: b"".join(parts) for pts, parts in found.items()}


def be_judge(folder: Path) -> None:
    """Makes this process the judge."""
    global JUDGE
    JUDGE = Judge(folder)


def see(received: Path) -> dict:
    """What the judge of this process says."""
    return JUDGE.see(received)


def delays(run: Run, stream: Stream, start: float) -> dict:
    """How long frames took from the encoder to their last byte at the output."""
    came = arrivals(run.chunks)
    times = [packet["pts"] for packet in stream.packets]
    window = range(JUDGED_FROM, JUDGED_TO)
    found = [came[times[k]] - (start + k / FPS) for k in window if times[k] in came]
    return {"p50": quantile(found, 0.5), "p99": quantile(found, 0.99)}


def compare(args: argparse.Namespace, stream: Stream, condition: str, seed: int) -> list[tuple[dict, Path]]:
    """All variants simultaneously under one condition: what was counted, and what was received."""
    runs = {}
    for name, (kind, options) in args.variants.items():
        folder = args.folder / "runs" / re.sub("[ ,%]+", "_", f"{condition} {name} {seed}")
        folder.mkdir(parents=True, exist_ok=True)
        runs[name] = Run(kind, options, folder)
    over = threading.Event()
    with Programs(args.layercast) as programs, ThreadPoolExecutor(len(runs) + 2) as pool:
        listening = pool.submit(listen, list(runs.values()), over.is_set)
        hops = HOPS.get(condition, 1)
        delay = DELAY_MS if hops == 1 else HOP_DELAY_MS
        way = ["emulate", "--delay", f"{delay}ms", *CONDITIONS[condition]]
        # Each link has losses of its own; the first one those of the seed.
        links = [[*way, "--seed", seed + 100 * number] for number in range(hops)]
        begin = time.monotonic() + 1.0
        feeding = pool.submit(feed, stream, [run.entry for run in runs.values()], begin)
        for starting in [pool.submit(run.start, programs, links) for run in runs.values()]:
            starting.result()
        feeding.result()
        time.sleep(1.0)
        for run in runs.values():
            if run.receiver:
                run.receiver.terminate()
        for run in runs.values():
            run.end()
        over.set()
        listening.result()
    rows = []
    for name, run in runs.items():
        received = run.folder / "received.ts"
        received.write_bytes(b"".join(chunk for _, chunk in run.chunks))
        row = {"path": condition, "stream": name, "seed": seed, "delay_ms": delays(run, stream, begin)}
        rows.append((row | run.figures, received))
    return rows


def main() -> None:
    """Run everything, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layercast")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--variants", default="", help="a pattern of the names of those that run")
    args = parser.parse_args()
    unknown = set(args.conditions.split(",")) - set(CONDITIONS)
    if unknown:
        parser.error(f"no condition {', '.join(sorted(unknown))}; there are {', '.join(CONDITIONS)}")
    args.variants = {name: how for name, how in VARIANTS.items() if re.search(args.variants, name)}
    if not args.variants:
        parser.error(f"no variant has such a name; there are {', '.join(VARIANTS)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    folder = args.folder / "clip"
    stream = Clip(folder).h264
    judged, rows = [], []
    # Pictures are compared beside the runs that follow, at the lowest priority.
    with ProcessPoolExecutor(1, initializer=be_judge, initargs=[folder]) as judges:
        for seed in range(1, args.runs + 1):
            for condition in args.conditions.split(","):
                print(f"repair: {condition}, run {seed} of {args.runs}", file=sys.stderr, flush=True)
                for row, received in compare(args, stream, condition, seed):
                    judged.append((row, judges.submit(see, received)))
        for row, seen in judged:
            rows.append(row | seen.result())
            print(json.dumps(rows[-1]), flush=True)
    (args.folder / "repair.json").write_text(json.dumps({"rows": rows}) + "\n")


if __name__ == "__main__":
    main()
