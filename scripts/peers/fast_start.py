#!/usr/bin/env python3
"""What a viewer that joins between two key frames sees, with and without fast start, over lossy paths.

Usage: fast_start.py LAYERCAST FOLDER [--gops 0.5,2,8] [--loss 0,1,3,10] [--seeds 1] [--jobs 3] [--delay 20]

Each run: a server of a real clip with sound, a path with loss on each link, a receiver that writes a file.
The pictures of the file are decoded and compared with those of the clip. One JSON object a run, then a table;
FOLDER/fast_start.json has the runs, docs/src/results/bench-live.md the table.
BENCH_URGENT=1, as root: the programs run before all others.
"""

import argparse
import itertools
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clip import FPS
from latency import clip
from nodes import Programs

START_S = 2.0
PLACES = ("direct", "switch")
VIEWERS = ("first", "second")


def pictures(path: Path, *, strict: bool) -> dict[int, tuple[str, bool]]:
    """Digest of each picture, and whether it is a key frame, by presentation time in units of 1/90000 s."""
    command = ["ffmpeg", "-v", "error", "-nostdin", "-threads", "1", "-copyts"]
    command += ["-flags", "+output_corrupt", "-i", str(path), "-map", "0:v", "-fps_mode", "passthrough"]
    command += ["-enc_time_base", "1:90000", "-f", "framehash", "-hash", "md5", "-"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=strict)
    found = {}
    for line in done.stdout.splitlines():
        if not line.startswith("#"):
            fields = [field.strip() for field in line.split(",")]
            found[int(fields[2])] = fields[-1]
    return found


def run(args: argparse.Namespace, case: tuple) -> dict:
    """One receiver."""
    gop, loss, place, viewer, on, seed = case
    seconds = max(6.0, 2.2 * gop + 4.0)
    # In the third GOP, at another place for each seed.
    join_at = max(3.0, 2.0 * gop) + gop * (0.2 + 0.13 * seed % 0.6)
    source = clip(args.folder, gop, 60)
    way = ["--loss", f"{loss:g}%", "--delay", f"{args.delay}ms"]
    how = "on" if on else "off"
    name = f"{gop:g}-{loss:g}-{place}-{viewer}-{how}-{seed}"
    received = args.folder / f"{name}.ts"
    received.unlink(missing_ok=True)

    def link(address: str, number: int) -> str:
        port = address.rsplit(":", 1)[1]
        return programs.ready(["emulate", "--to", f"127.0.0.1:{port}", "--seed", 10 * seed + number, *way])

    with Programs(args.layercast) as programs:
        own = ["--listen", "127.0.0.1:0", "--fast-start", how]
        server = programs.ready(["serve", source, "--flow", "film", "--start-in", f"{START_S}s", *own])
        begun = time.monotonic() + START_S
        near = server
        if place == "switch":
            near = programs.ready(["switch", "--upstream", link(server, 1), *own])
        address = link(near, 2)
        if viewer == "second":
            programs.start(programs.node(["join", f"{near}/film", "--for", "50s"]))
        time.sleep(max(0.0, begun + join_at - time.monotonic()))
        called = time.monotonic()
        summary = programs.finish(["join", f"{address}/film", "--out", received, "--for", f"{seconds}s"])
        called -= begun
    reference, shown = args.known[gop], pictures(received, strict=False)
    first = min(reference)
    index = {time: round((time - first) * FPS / 90_000) for time in reference}
    # The receiver leaves between a P picture and the B pictures that are shown before it.
    times = sorted(shown)[:-3]
    row = {"gop_s": gop, "loss": loss, "place": place, "viewer": viewer, "fast_start": on, "seed": seed}
    receiver = summary["receiver"]
    row["first_ms"] = round(1e3 * receiver["received"][0][0]) if receiver["received"] else None
    row["sent_again"] = summary["sink"]["fast_start"]
    row["lost"], row["late"] = sum(receiver["lost"].values()), receiver["late"]
    # From the first picture that is shown to the last one: each should be there as in the clip.
    if times:
        whole = [time for time in sorted(reference) if times[0] <= time <= times[-1]]
        bad = [time for time in whole if shown.get(time) != reference[time]]
        row["pictures"], row["bad"] = len(whole), len(bad)
        # Those up to the second key frame after the join, and those behind it.
        border = (int(called / gop) + 1) * gop * FPS
        row["bad_running"] = sum(index[time] < border for time in bad)
    playouts = [second["playout_ms"] for second in receiver["series"] if second["playout_ms"] is not None]
    row["playout_ms"] = round(playouts[-2]) if len(playouts) > 1 else None
    received.unlink(missing_ok=True)
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layercast")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gops", default="0.5,2,8")
    parser.add_argument("--loss", default="0,1,3,10")
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--viewers", default=",".join(VIEWERS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--delay", type=int, default=20)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    gops, losses = ([float(part) for part in text.split(",")] for text in (args.gops, args.loss))
    args.known = {gop: pictures(clip(args.folder, gop, 60), strict=True) for gop in gops}
    places, viewers = args.places.split(","), args.viewers.split(",")
    seeds = range(1, args.seeds + 1)
    runs = itertools.product(gops, losses, places, viewers, [False, True], seeds)
    with ThreadPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(lambda case: run(args, case), runs))
    (args.folder / "fast_start.json").write_text(json.dumps({"rows": rows}) + "\n")
    print(
        "| GOP | loss | path | viewer | first picture off / on | wrong pictures off / on | playout off / on |"
    )
    print("|---|---|---|---|---|---|---|")
    for of in itertools.product(gops, losses, places, viewers):
        group = [row for row in rows if (row["gop_s"], row["loss"], row["place"], row["viewer"]) == of]
        both = [[row for row in group if row["fast_start"] == on] for on in (False, True)]
        shown = []
        for figure in ("first_ms", "bad", "playout_ms"):
            means = [[row.get(figure) or 0 for row in half] for half in both]
            shown.append(" / ".join(f"{sum(values) / len(values):.0f}" for values in means))
        print(f"| {of[0]:g} s | {of[1]:g} % | {of[2]} | {of[3]} | {' | '.join(shown)} |")


if __name__ == "__main__":
    sys.exit(main())
