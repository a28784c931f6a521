#!/usr/bin/env python3
"""Link repair of Layercast beside SRT over the same lossy path without a rate, as seen on the screen.

Usage: repair.py LAYERCAST OUT_DIR [RUNS]. Prints one JSON line a run.
docs/src/how-to/lossy-links.md has the results.
BENCH_URGENT=1, as root: the measured programs run before all others.
"""

import json
import re
import sys
from pathlib import Path

import srt
from clip import SECONDS, Clip
from nodes import Programs
from quality import decode, watch
from srt import LAYERCAST, OUT, RUNS, SETTLE

# Playout delay in milliseconds (None: the default), `join --repair` and `serve --pacing` of each variant.
LAYERCAST_RUNS = {
    "no repair, 300 ms": (300, "off", None),
    "paced, 200 ms": (200, "auto", None),
    "paced, 300 ms": (300, "auto", None),
    "paced, default": (None, "auto", None),
    "not paced, 120 ms": (120, "auto", "off"),
    "not paced, 200 ms": (200, "auto", "off"),
    "not paced, default": (None, "auto", "off"),
}
SRT_RUNS = {"SRT 120 ms": 120, "SRT 300 ms": 300}
LIMITED_PATH = srt.path


def path(to: int, rate: int | None, condition: str, seed: int, after: float) -> list:
    """The command of the emulated path, without its rate."""
    del rate
    return LIMITED_PATH(to, None, condition, seed, after)


srt.path = path
srt.JITTER_MS = 0


def run(clip: Clip, variant: tuple, condition: str, seed: int, folder: Path) -> dict:
    """One run of serve and join."""
    playout, repair, pacing = variant
    received = folder / "layercast.ts"
    with Programs(LAYERCAST) as programs:
        serve = [
            "serve",
            clip.h264.path,
            "--flow",
            "bunny",
            "--start-in",
            f"{SETTLE}s",
            "--listen",
            "127.0.0.1:0",
        ]
        server = programs.ready([*serve, *(["--pacing", pacing] if pacing else [])])
        entrance = programs.ready(path(int(server.rsplit(":", 1)[1]), None, condition, seed, SETTLE))
        join = ["join", f"{entrance}/bunny", "--out", received, "--repair", repair]
        join += ["--playout", f"{playout}ms"] if playout else []
        summary = programs.finish([*join, "--for", f"{SETTLE + SECONDS + 2}s"])
    receiver = summary["receiver"]
    delays = [second["playout_ms"] for second in receiver["series"] if second["playout_ms"] is not None]
    figures = {"delay_ms": max(delays, default=None), "lost": receiver["lost"], "late": receiver["late"]}
    figures["frames"] = receiver["frames"]
    if "link_repair" in summary:
        figures["link_repair"] = summary["link_repair"]["receiving"]
    return figures | {"pictures": decode(received, clip.h264, summary["first_picture"] or 0)}


def main() -> None:
    """Run everything, seed by seed."""
    OUT.mkdir(parents=True, exist_ok=True)
    clip = Clip(OUT / "clip")
    clean = watch(clip, decode(clip.h264.path, clip.h264, 0), None)
    for seed in range(1, RUNS + 1):
        for condition in ["1 % loss", "3 % loss", "5 % loss"]:
            for name in [*LAYERCAST_RUNS, *SRT_RUNS]:
                folder = OUT / re.sub("[ ,%]+", "_", f"{name} {condition} {seed}")
                folder.mkdir(exist_ok=True)
                if name in SRT_RUNS:
                    figures = srt.run_srt(clip, clip.h264, SRT_RUNS[name], condition, seed, folder)
                else:
                    figures = run(clip, LAYERCAST_RUNS[name], condition, seed, folder)
                figures |= watch(clip, figures.pop("pictures"), clean["psnr"])
                shown = {key: value for key, value in figures.items() if key not in ("psnr", "frozen")}
                print(json.dumps({"path": condition, "stream": name, "seed": seed, **shown}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
