"""INSANE S3: what has priority waits for at most one cell that has none (specs/insane-simulator.md 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.line import CELL_S, cells, line, sites
from layercast_lab.pcap import packets
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all, simulate, toml_file
from layercast_lab.style import plt

TITLE = "INSANE S3: priority inversion of at most one cell"
POLICIES = ("noqos-conv-svc", "sp-audio-conv-svc")
SECONDS, SEEDS = 200.0, 4
SETTLED_S = 3.0
"""By then the conversation has begun, and has its circuit."""
LOAD = 1.3
"""Best effort, of the link."""
BULK, VOICE, MEDIA_PORT = 552, 320 + 28, 5004
QUEUE = {"per_vc_limit": 170, "port_limit": 800}
TOLERANCE_S = 1e-6
TIGHT = 0.9
"""Of a cell time that somebody has to have waited, or the bound was not tried."""
WAYS = (("west2->west", "east->east2"), ("east2->east", "west->west2"))


def voices(seconds: float) -> dict[str, Any]:
    """One voice from each side to the other, without pauses."""
    length = f"const({seconds:g}) s"
    return {
        "app": {
            "audio": {
                "model": "audio",
                "arrival": {"process": "periodic", "mean_s": 1.0, "placement": "distinct"},
                "from": "workstation",
                "to": "workstation",
                "payload": VOICE - 28,
                "period_ms": 40,
                "overdue_ms": 150,
                "dist": {"talkspurt": length, "pause": "const(1) s", "duration": length},
            }
        }
    }


def excess(context: Context, policy: str, seed: int) -> np.ndarray:
    """How much longer than alone each packet of the voices was under way, in cell times."""
    seconds = context.seconds or SECONDS
    workload = context.path("s3-voices.toml")
    gap = cells(BULK) * CELL_S / LOAD
    bulk = {"gap": f"exp({gap * 1e6:.3f}us)", "size": f"{BULK} B"}
    flows = [{"from": a, "to": b, "datagrams": bulk} for a, b in (("west1", "east1"), ("east1", "west1"))]
    scenario = line(
        "s3",
        seconds,
        hosts=2,
        policy=policy,
        queue=QUEUE,
        flow=flows,
        workload={"use": workload.name, "site": sites(2)},
    )
    name = f"s3-{policy}-{seed}"
    capture = context.path(f"{name}.pcapng")
    simulate(scenario, context.path(f"{name}.toml"), "--pcap", capture, "--no-cells", "--seed", str(seed))
    times: dict[str, list[float]] = {}
    for packet in packets(capture, {end for way in WAYS for end in way}):
        if packet.destination[1] == MEDIA_PORT:
            times.setdefault(packet.interface, []).append(packet.at)
    capture.unlink()
    found = []
    for entry, end in WAYS:
        # In order, and none is lost: the last ones are still under way.
        sent, arrived = np.array(times[entry]), np.array(times[end])
        sent = sent[: len(arrived)]
        found.append((arrived - sent)[sent > SETTLED_S])
    return np.concatenate(found) / CELL_S - cells(VOICE)


@experiment("insane-simulator/s3", title=TITLE, paper="specs/insane-simulator.md 4: a test of the simulator")
def s3(context: Context) -> Report:
    """Voices over a T1 link that best effort overloads, without and with priority."""
    context.path("s3-voices.toml").write_text(toml_file(voices(context.seconds or SECONDS)))
    jobs = [(policy, seed) for policy in POLICIES for seed in context.seed_range(SEEDS)]
    runs = run_all(context, "S3, runs", lambda job: excess(context, *job), jobs)
    found = {
        policy: np.concatenate([r for r, job in zip(runs, jobs, strict=True) if job[0] == policy])
        for policy in POLICIES
    }
    plain, first = (found[policy] for policy in POLICIES)
    limit = 1 + TOLERANCE_S / CELL_S
    # This number of cells takes longer than the interval between two packets of a voice.
    full = QUEUE["per_vc_limit"] + cells(VOICE)
    rows = [
        Row(
            "longest wait with priority",
            "at most one cell",
            f"{first.max():.4f} cells; {len(first)} packets, mean {first.mean():.3f}",
            f"at most 1 cell (±{TOLERANCE_S * 1e6:g} us), at least {TIGHT:g}: the bound was tried",
            judge(TIGHT <= first.max() <= limit),
        ),
        Row(
            "shortest wait with priority",
            "none",
            f"{first.min():.4f} cells",
            f"not below 0 (±{TOLERANCE_S * 1e6:g} us), at most {1 - TIGHT:.1f}",
            judge(-TOLERANCE_S / CELL_S <= first.min() <= 1 - TIGHT),
            "or a packet would have overtaken itself",
        ),
        Row(
            "longest wait without",
            "all that waits",
            f"{plain.max():.1f} cells; {len(plain)} packets, mean {plain.mean():.1f}",
            f"at most the {QUEUE['per_vc_limit']} of the other circuit, a packet before it, and a cell; more "
            "than half of that",
            judge(full / 2 < plain.max() <= full + limit),
        ),
    ]
    scenario = str(context.path(f"s3-{POLICIES[1]}-1.toml"))
    return Report("insane-simulator/s3", TITLE, rows, draw(found, context.path("s3")), scenario=scenario)


def draw(found: dict[str, np.ndarray], path: Path) -> str:
    """The share of the packets that waited at most this time."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.4), sharey=True)
    for axis, most in ((left, None), (right, 1.6)):
        for number, (policy, waits) in enumerate(found.items()):
            share = np.arange(1, len(waits) + 1) / len(waits)
            axis.plot(np.sort(waits), share, color=COLOURS[number], label=policy)
        axis.set(xlabel="wait for others (cell times)", xlim=(0 if most is None else -0.05, most))
    right.axvline(1, color="black", lw=0.8, ls=":")
    left.set(ylabel="share of packets")
    left.legend(loc="center left")
    left.set_title(f"voice beside best effort of {LOAD:g} times the link", loc="left", fontsize=9.5)
    right.set_title("the same, enlarged; dotted: one cell", loc="left", fontsize=9.5)
    return style.save(figure, path)
