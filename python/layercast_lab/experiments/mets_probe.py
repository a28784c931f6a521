"""METS E5d: congestion that the adapter does not know of, and two ways to probe (specs/mets.md 4.8)."""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import ready_made, run_all
from layercast_lab.testbed import PAPER

PROBES = ("paper", "backoff")
# Once the receiver has come.
FROM_S, END_S = 2.0, 120.0


@experiment("mets/e5d", title="Probing for bandwidth when only the congestion bit tells", paper=PAPER)
def e5d(context: Context) -> Report:
    """E5d, not in the papers: a link that the mean rate fits and the peaks do not."""
    seeds = context.seed_range()
    base = ready_made("e5d")

    def run(job: tuple[str, int]) -> layercast.Receiver:
        probe, seed = job
        receivers = [dict(receiver) | {"probe": probe} for receiver in base["receiver"]]
        return layercast.run(base | {"receiver": receivers}, seed=seed).receiver("canyon-at-dwp")

    jobs = [(probe, seed) for probe in PROBES for seed in seeds]
    runs = run_all(context, "E5d, seeds", run, jobs)
    by_probe = dict(zip(PROBES, (runs[: len(seeds)], runs[len(seeds) :]), strict=True))
    changes = {probe: np.array([per_minute(r) for r in found]) for probe, found in by_probe.items()}
    times = [time for receiver in by_probe["paper"] for time in times_between_tries(receiver)]
    period = float(np.median(times)) if times else np.inf
    ratio = float(np.median(changes["paper"]) / max(np.median(changes["backoff"]), 1e-9))
    lost = {probe: int(sum(r.count("lost")[0] for r in found)) for probe, found in by_probe.items()}
    rows = [
        Row(
            "E5d probe = paper",
            "specs/mets.md 2.11 (C): 2, 1, 2, 1, ... forever, period 2 eras",
            f"E2 tried again every {period:.1f} s, {np.median(changes['paper']):.1f} level changes a minute",
            "2 eras ±25 %, and never settles",
            judge(1.5 <= period <= 2.5),
            "2, 1, 0, 1: the era after a step down still sees marks from before it took effect"
            if period > 2.5
            else "",
        ),
        Row(
            "E5d probe = backoff",
            "specs/mets.md 2.11 (L): hold-down doubles up to 64 eras",
            f"{np.median(changes['backoff']):.1f} level changes a minute, {ratio:.1f} times fewer",
            "fewer than with paper",
            judge(ratio > 1),
        ),
        Row(
            "E5d base layer",
            "guaranteed",
            f"{lost['paper']} frames lost with paper, {lost['backoff']} with backoff, {len(seeds)} seeds",
            "0",
            judge(not any(lost.values())),
            "selective discard of E2 and E1 in the queue of rook",
        ),
    ]
    return Report("mets/e5d", "METS E5d: paper and backoff probing", rows, draw(by_probe, context))


def changes_of(receiver: layercast.Receiver) -> np.ndarray:
    """Time and level of each change after the start."""
    return receiver.levels[receiver.levels[:, 0] >= FROM_S]


def per_minute(receiver: layercast.Receiver) -> float:
    """Level changes a minute."""
    return 60 * len(changes_of(receiver)) / (END_S - FROM_S)


def times_between_tries(receiver: layercast.Receiver) -> list[float]:
    """Seconds from one raise to E2 to the next."""
    tries = [time for time, level in changes_of(receiver) if level == 2]
    return [two - one for one, two in pairwise(tries)]


def draw(by_probe: dict[str, list[layercast.Receiver]], context: Context) -> str:
    """Levels against time for both ways, one seed."""
    figure, axes = plt.subplots(2, 1, sharex=True, figsize=(7.2, 3.8))
    for axis, (probe, runs) in zip(axes, by_probe.items(), strict=True):
        levels = np.vstack([runs[0].levels, [END_S, runs[0].levels[-1, 1]]])
        axis.step(levels[:, 0], levels[:, 1], where="post", color=style.ACCENT, lw=1.4)
        axis.set(yticks=[0, 1, 2], yticklabels=["BL", "BL+E1", "BL+E1+E2"], ylim=(-0.3, 2.4), xlim=(0, END_S))
        axis.set_title(f'probe = "{probe}" (seed 1)', loc="left", fontsize=10)
    axes[-1].set(xlabel="time (s)")
    return style.save(figure, context.path("e5d"))
