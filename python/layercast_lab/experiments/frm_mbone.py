"""FRM between three sites of the MBone, simulated."""

from __future__ import annotations

import numpy as np

from layercast_lab import group
from layercast_lab.experiment import Context, Report, Row, experiment
from layercast_lab.experiments.frm_model import PAPER
from layercast_lab.simulator import run_all

SITES = {"Lancaster": ("12ms", 0.02), "Sophia-Antipolis": ("18ms", 0.05)}
"""From Paris: one-way delay and loss of the tunnel, assumed; the paper has no numbers."""


@experiment(
    "fully-reliable-multicast/e4", title="A file to two sites of the MBone", paper=f"{PAPER}, section 5"
)
def e4(context: Context) -> Report:
    """Paris to Lancaster and Sophia-Antipolis over tunnels of 512 kbit/s that lose packets."""
    packets = 50 if context.seconds else 500
    ways = {"go-back-N": {}, "gaps reported": {"repair": "union", "on_complete": True}}
    seeds = context.seed_range(5)
    branches = [
        {"name": name, "delay": delay, "loss": loss, "back_loss": loss, "rate": "512 kbit/s"}
        for name, (delay, loss) in SITES.items()
    ]

    def one(job: tuple[str, int]) -> dict:
        policy = {"profile": "frm", "packet_size": 1_000, "window": 32, "k": 1.5, "weak": "keep", "tries": 8}
        stream = {"packets": packets, "interval": "25ms", "service": "0s"}
        made = group.scenario("mbone", policy | ways[job[0]], branches, job[1], stream=stream)
        return group.run(made)

    jobs = [(way, seed) for way in ways for seed in seeds]
    runs = dict(zip(jobs, run_all(context, "FRM, E4", one, jobs), strict=True))
    rows = []
    for way in ways:
        mine = [runs[way, seed] for seed in seeds]
        rate = np.median([8 * run["packets"] / (run["ended_s"] - run["opened_s"]) for run in mine])
        whole = all(run["stream"]["delivered"] == 2 * packets and run["failure"] is None for run in mine)
        again = np.mean([run["sent"]["again"] for run in mine]) / packets
        rows.append(
            Row(
                way,
                "a file reached both; no numbers",
                f"{'delivered' if whole else 'not delivered'} in {len(mine)} of {len(mine)} runs: "
                f"{rate:.0f} of 320 kbit/s, {again:.2f} repairs for each packet",
                "delivered",
                "open" if whole else "differs",
                "tunnels as assumed here: 512 kbit/s, 12 and 18 ms, 2 and 5 % lost each way",
            )
        )
    return Report("fully-reliable-multicast/e4", e4.__doc__ or "", rows)
