#!/usr/bin/env python3
"""The jitter filter beside GStreamer's rtpjitterbuffer: playout delay for an equal share of late frames.

Usage: jitter.py LAYERCAST OUT_DIR. Both get the same arrivals.
docs/src/results/bench-media.md explains the comparison.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from clip import FPS as CLIP_FPS
from clip import Clip
from nodes import Programs

FPS, GOP, SECONDS = 24, 12, 60
SETTINGS = [{"permille": p} for p in (1, 2, 5, 10, 20, 50)] + [{"r": r} for r in (2.0, 3.0, 4.0)]
SETTINGS += [{"permille": p, "spares_stalls": True} for p in (5, 10, 20)]
SETTINGS += [{"permille": p, "quantile": True, "spares_stalls": True} for p in (5, 10, 20)]
# Latencies configured for rtpjitterbuffer; its default is 200 ms.
LATENCIES_MS = [*range(4, 36, 4), 40, 50, 60, 80, *range(100, 320, 20), 350]
# The stalls of METS E4: from, length (specs/mets.md 4.7).
STALLS = ((42.6, 0.18), (43.15, 0.25))


def arrive(delays: np.ndarray, stalls=()) -> list[tuple[float, float, int]]:
    """Frames with these delays; frames of a stall arrive at its end, and nothing overtakes."""
    frames, last = [], 0.0
    for number, delay in enumerate(delays):
        sent = number / FPS
        arrived = sent + max(float(delay), 0.0)
        for start, length in stalls:
            if start <= arrived < start + length:
                arrived = start + length
        last = max(last, arrived)
        frames.append((sent, last, number))
    return frames


def made(seed: int) -> dict:
    """The traces that are drawn at random."""
    random, count = np.random.default_rng(seed), FPS * SECONDS
    gamma = 0.0022 + random.gamma(2, 0.0024, count)
    return {
        "Gaussian, 20 ± 5 ms": arrive(random.normal(0.020, 0.005, count)),
        "Gamma, 2.2 + 2 × 2.4 ms": arrive(gamma),
        "Gamma and two stalls": arrive(gamma, STALLS),
    }


def recorded(layercast: str, folder: Path) -> list[tuple[float, float, int]]:
    """Frames of a real flow that came through a path it nearly fills."""
    clip, trace = Clip(folder / "clip"), folder / "recorded.jsonseq"
    with Programs(layercast) as programs:
        serve = ["serve", clip.layered, "--flow", "bunny", "--loop", "--listen", "127.0.0.1:0"]
        port = programs.ready(serve).rsplit(":", 1)[1]
        rate = f"{round(clip.mpeg1.rate * 1.3)}bit/s"
        way = [
            "--to",
            f"127.0.0.1:{port}",
            "--rate",
            rate,
            "--delay",
            "20ms",
            "--jitter",
            "5ms",
            "--queue",
            "1s",
        ]
        entrance = programs.ready(["emulate", *way])
        programs.finish(["join", f"{entrance}/bunny", "--for", f"{SECONDS}s", "--trace", trace])
    events = [json.loads(line) for line in trace.read_text().split("\x1e")[1:]]
    frames = [event for event in events if event.get("event") == "received" and "seq" in event]
    # From the first I picture on; a frame was due when its number says.
    start = next(place for place, frame in enumerate(frames) if frame["layer"] == "BL")
    frames = frames[start:]
    sent = [(frame["seq"] - frames[0]["seq"]) / CLIP_FPS for frame in frames]
    arrived = [frame["time"] / 1e12 for frame in frames]
    # The clocks of both are one, but the instant of the first frame is not known: the least delay is
    # that of the path.
    base = min(b - a for a, b in zip(sent, arrived, strict=True)) - 0.020
    numbers = [frame["seq"] - frames[0]["seq"] for frame in frames]
    return [(a, b - base, n) for a, b, n in zip(sent, arrived, numbers, strict=True)]


def outcome(trace: list, given: list, latency_ms: int) -> tuple[float, float]:
    """Mean delay in ms and per cent of late packets of rtpjitterbuffer at a latency.

    Late is what came after the time that the schedule of the packet before it gave it. rtpjitterbuffer
    does not drop it: it begins a new schedule there, and plays everything later until it has seen that it
    need not.
    """
    times, late, delays, offset = dict(given), 0, [], None
    for sent, arrived, number in trace:
        if (number & 0xFFFF) not in times:
            late += 1
            continue
        if offset is not None and arrived > sent + offset + latency_ms / 1_000:
            late += 1
        else:
            delays.append(times[number & 0xFFFF] - sent + latency_ms / 1_000)
        offset = times[number & 0xFFFF] - sent
    return 1_000 * float(np.mean(delays)), 100 * late / len(trace)


def main() -> None:
    """Play the same arrivals to both, print the table and write the figures."""
    layercast, folder = sys.argv[1], Path(sys.argv[2])
    traces = made(1) | {"recorded": recorded(layercast, folder)}
    question = json.dumps(
        {"fps": FPS, "gop": GOP, "settings": SETTINGS, "latencies_ms": LATENCIES_MS} | {"traces": traces}
    )
    command = ["cargo", "run", "--quiet", "--release", "-p", "layercast-qos", "--example", "playout"]
    ours = json.loads(
        subprocess.run(command, input=question, stdout=subprocess.PIPE, text=True, check=True).stdout
    )
    helper = ["/usr/bin/python3", str(Path(__file__).with_name("rtpjitter.py"))]
    theirs = json.loads(
        subprocess.run(helper, input=question, stdout=subprocess.PIPE, text=True, check=True).stdout
    )
    results = {}
    print("| arrivals | setting | late % | filter, delay ms | rtpjitterbuffer, delay ms |")
    print("|---|---|---|---|---|")
    for name, trace in traces.items():
        rows_of_peer = zip(theirs[name], LATENCIES_MS, strict=True)
        curve = [outcome(trace, given, ms) for given, ms in rows_of_peer]
        rows = []
        for setting, point in zip(SETTINGS, ours[name], strict=True):
            # The least latency that loses no more than the filter did.
            equal = [delay for delay, late in curve if late <= point["late_percent"]]
            rows.append({"setting": setting, **point, "peer_delay_ms": min(equal, default=None)})
            what = f"r = {setting['r']:g}" if "r" in setting else f"aim {setting['permille'] / 10:g} %"
            what += ", by quantile" if setting.get("quantile") else ""
            what += ", stalls spared" if setting.get("spares_stalls") else ""
            peer = f"{min(equal):.1f}" if equal else "-"
            print(f"| {name} | {what} | {point['late_percent']:.2f} | {point['delay_ms']:.1f} | {peer} |")
        # The default.
        delay, late = curve[LATENCIES_MS.index(200)]
        print(f"| {name} | rtpjitterbuffer's 200 ms | {late:.2f} | - | {delay:.1f} |")
        results[name] = {"rows": rows, "peer": curve, "packets": len(trace)}
    (folder / "jitter.json").write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
