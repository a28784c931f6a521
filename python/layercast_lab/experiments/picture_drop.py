"""Discard by class at a port beside selective layer discard, on sockets (specs/mpeg-picture-quality.md 8)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import layercast
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.picture_cells import CLIP
from layercast_lab.experiments.picture_switch import PAPER
from layercast_lab.simulator import command, toml_file

END, GUEST = 26.0, (8.0, 20.0)
"""Seconds: the film ends 2 s before the run; in between the base layer of a second film is on its link."""
SEEDS = 2
LAYERS = "selective layer discard"
POLICIES = ("fifo", "exclp", "exclp_epd", "dependent", "whole_gops")
UNSHARED = "1000000 cells/s"
"""An adapter that divides this never lowers a level: the queue alone decides."""
FAST = {"rate": "100 Mbit/s", "delay": "0.5 us", "queue": "1 s", "efci": 0.5}


def scenario(policy: str, seed: int) -> dict[str, Any]:
    """The shared part of the demo: `wide` sees all of a film until a guest joins another one on its link."""
    shared = FAST | {
        "a": "sparrow",
        "b": "rook",
        "rate": {"fits": "bunny", "level": 2, "spare": 0.05},
        "queue": "500 ms",
    }
    if policy != LAYERS:
        shared |= {"discard": policy, "adapt_capacity": UNSHARED}
    hosts = [("atc", "chuff"), ("magpie", "chuff"), ("chuff", "sparrow"), ("rook", "dwp"), ("rook", "scaup")]
    links = [FAST | {"a": a, "b": b} for a, b in hosts]
    switches = ("chuff", "sparrow", "rook")
    nodes = ["atc", "magpie", *switches, "dwp", "scaup"]

    def flow(name: str, source: str, path: Path) -> dict[str, Any]:
        clip = {"file": str(path)}
        span = {"start": "2s", "stop": f"{END - 2:g}s", "delay_max": "1s"}
        return {"name": name, "source": source, "clip": clip, **span}

    return {
        "name": "drop",
        "duration": f"{END:g}s",
        "seed": seed,
        "node": [{"name": node, "kind": "switch" if node in switches else "host"} for node in nodes],
        "link": [*links, shared],
        "flow": [flow("bunny", "atc", CLIP), flow("bikes", "magpie", CLIP.with_name("bikes.m1v"))],
        "receiver": [
            {"name": "wide", "node": "dwp", "flow": "bunny", "level": 2},
            {
                "name": "guest",
                "node": "scaup",
                "flow": "bikes",
                "level": 0,
                "join": f"{GUEST[0]:g}s",
                "leave": f"{GUEST[1]:g}s",
            },
        ],
    }


def run(job: tuple[str, int]) -> dict[str, Any]:
    """What `wide` saw with real processes, and what the simulator says."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "drop.toml")
        file.write_text(toml_file(scenario(*job)))
        words = [command(), "demo", "--scenario", str(file), "--out", folder, "--json"]
        done = subprocess.run(words, capture_output=True, text=True)
        # 1 is a broken promise, which is for the rows to tell.
        if done.returncode not in (0, 1) or not done.stdout:
            raise layercast.LayercastError(done.stderr.strip())
        told = json.loads(done.stdout)
    real, simulated = (
        next(it for it in told[kind] if it["flow"] == "bunny") for kind in ("receivers", "simulated")
    )
    return {
        "real": real,
        "simulated": simulated,
        "kernel": sum(it["udp"]["host_lost"] for it in told["switches"]),
    }


def mean(runs: list[dict[str, Any]], key: str) -> float:
    """Mean over the seeds of a figure of the receiver."""
    return sum(run["real"][key] for run in runs) / len(runs)


def shown(runs: list[dict[str, Any]]) -> float:
    """Pictures of the film that were shown, in percent."""
    return 100 * mean(runs, "shown") / (mean(runs, "shown") + mean(runs, "frozen"))


def lost(runs: list[dict[str, Any]], side: str) -> str:
    """Lost frames of each layer, over all seeds."""
    sums = {layer: sum(run[side]["lost"][layer] for run in runs) for layer in ("BL", "E1", "E2")}
    return " ".join(f"{layer} {count}" for layer, count in sums.items())


@experiment("mpeg-picture-quality/drop", title="A capacity drop: discard by class beside layers", paper=PAPER)
def drop(context: Context) -> Report:
    """Pictures shown, PSNR and lost frames of a receiver whose link is shared for 12 s, on sockets."""
    seeds = context.seed_range(SEEDS)
    jobs = [(policy, seed) for policy in (LAYERS, *POLICIES) for seed in seeds]
    done = [run(job) for job in context.progress(jobs, len(jobs), "capacity drop")]
    found = {
        policy: [it for job, it in zip(jobs, done, strict=True) if job[0] == policy] for policy, _ in jobs
    }
    rows = []
    for policy, runs in found.items():
        quality = (
            f"{shown(runs):.1f} % shown, PSNR {mean(runs, 'psnr_db'):.1f} dB, SSIM {mean(runs, 'ssim'):.3f}"
        )
        base = sum(it["real"]["lost"]["BL"] for it in runs)
        rows.append(
            Row(
                f"{policy}: pictures and quality of `wide`",
                "ours",
                f"{quality}; lost {lost(runs, 'real')} (simulator {lost(runs, 'simulated')})",
                "no base layer lost" if policy == LAYERS else "-",
                judge(base == 0) if policy == LAYERS else "open",
            )
        )
    best = max(POLICIES, key=lambda policy: shown(found[policy]))
    rows += [
        Row(
            "pictures shown: the best policy beside fifo",
            "more",
            f"{best} {shown(found[best]):.1f} %, fifo {shown(found['fifo']):.1f} %",
            "more",
            judge(shown(found[best]) > shown(found["fifo"])),
        ),
        Row(
            "pictures shown: the best policy beside selective layer discard",
            "layers are announced, so that nothing that is sent is in vain: ours",
            f"{best} {shown(found[best]):.1f} %, {LAYERS} {shown(found[LAYERS]):.1f} %",
            "-",
            "open",
        ),
        Row(
            "datagrams lost by the kernel",
            "-",
            f"{sum(it['kernel'] for it in done)}",
            "0, else the run is invalid",
            judge(sum(it["kernel"] for it in done) == 0),
        ),
    ]
    return Report("mpeg-picture-quality/drop", "A capacity drop: discard by class beside layers", rows)
