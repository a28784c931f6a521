"""RMTP, not in its paper: a bottleneck that is shared with TCP, under three ways to choose the rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from layercast_lab import group, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

LINE = 8.0
"""Mbit/s of the bottleneck."""
SIZE, RECEIVERS = 1_400, 20
FLOWS = (1, 2, 4, 8)
BOUNDS = {"start": "1 Mbit/s", "least": "100 kbit/s", "most": f"{LINE:g} Mbit/s"}
CONTROLS: dict[str, dict[str, Any]] = {
    "fixed, the whole line": {"rate": f"{LINE:g} Mbit/s"},
    "monitor bits (2.5)": {"monitor": BOUNDS},
    "TCP's equation (RFC 4654)": {"monitor": BOUNDS | {"friendly": True}},
}
VARIANTS = ("newreno", "cubic")
Job = tuple[str, str, int, int]
"""Control, TCP, connections, seed."""


@dataclass(frozen=True)
class Shared:
    """What one run gave."""

    group: float
    """Mbit/s of source packets that the group delivered, repairs not counted."""
    tcp: tuple[float, ...]
    """Mbit/s of each connection meanwhile."""
    seconds: float
    whole: bool


def shared(control: str, variant: str, flows: int, seed: int, packets: int) -> Shared:
    """An object to 20 receivers behind a line of 8 Mbit/s, shared with N endless connections."""
    session = group.union(packets)
    del session["rate"]
    branches = [
        {"name": "access", "delay": "1ms"},
        # Three quarters of what is under way at a round trip of 60 ms.
        {"name": "line", "parent": "access", "delay": "20ms", "rate": f"{LINE:g} Mbit/s", "queue": 45_000},
        {"name": "receiver", "parent": "line", "count": RECEIVERS, "delay": "5ms", "delay_to": "15ms"},
    ]
    cross = {"branch": "line", "flows": flows, "delay": "10ms", "tcp": {"variant": variant}}
    made = group.scenario(
        "shared",
        session | CONTROLS[control],
        branches,
        seed,
        cross=[cross] if flows else [],
        run={"duration": "3600s"},
    )
    return summarise(group.run(made))


def summarise(run: Mapping[str, Any]) -> Shared:
    """Rates from the opening until the end."""
    seconds = (run["ended_s"] or run["sim_seconds"]) - run["opened_s"]
    rates = [1e-6 * rate for cross in run["cross"] for rate in cross["goodput_bps"]]
    delivered = run["outcomes"]["delivered"] == run["receivers"]
    return Shared(8e-6 * run["packets"] * SIZE / seconds, tuple(rates), seconds, delivered)


def index(rates: np.ndarray) -> float:
    """Jain's index of fairness."""
    return float(rates.sum() ** 2 / (len(rates) * (rates**2).sum()))


@experiment(
    "rmtp-large-scale/r12",
    title="A bottleneck that is shared with TCP",
    paper="specs/rmtp-large-scale.md 4, ours",
)
def r12(context: Context) -> Report:
    """Shares of a line of 8 Mbit/s, and transfer time, by how the sender chooses its rate."""
    packets, seeds = (1_500, [1]) if context.seconds else (10_000, context.seed_range(5))
    variants = VARIANTS[:1] if context.seconds else VARIANTS
    jobs: list[Job] = [
        (control, variant, flows, seed)
        for control in CONTROLS
        for variant in variants
        for flows in FLOWS
        for seed in seeds
    ]
    found = dict(
        zip(jobs, run_all(context, "RMTP, R12", lambda job: shared(*job, packets), jobs), strict=True)
    )
    rows, ratios = [], {}
    for control in CONTROLS:
        for variant in variants:
            by_flows = [[found[control, variant, flows, seed] for seed in seeds] for flows in FLOWS]
            ratio = [float(np.median([it.group / np.mean(it.tcp) for it in runs])) for runs in by_flows]
            fair = [
                float(np.median([index(np.array([it.group, *it.tcp])) for it in runs])) for runs in by_flows
            ]
            times = [float(np.median([it.seconds for it in runs])) for runs in by_flows]
            ratios[control, variant] = ratio
            whole = all(it.whole for runs in by_flows for it in runs)
            friendly = control.startswith("TCP")
            within = all(0.5 <= it <= 2 for it in ratio)
            rows.append(
                Row(
                    f"{control}; TCP {variant}, {', '.join(map(str, FLOWS))} connections",
                    "the group has a connection's rate" if friendly else "ours: no rule of fairness",
                    f"{listed(ratio)} of it; Jain's index {listed(fair)}; {listed(times, 0)} s",
                    "half to twice, all delivered" if friendly else "all delivered",
                    judge(whole and (within or not friendly)),
                    f"object of {packets * SIZE / 1e6:g} Mbyte; medians of {len(seeds)} seeds",
                )
            )
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8))
    draw(axes, found, ratios, variants, seeds)
    path = style.save(figure, context.path("rmtp-r12"))
    return Report("rmtp-large-scale/r12", r12.__doc__ or "", rows, path)


def listed(numbers: list[float], digits: int = 2) -> str:
    """As a row has them."""
    return " / ".join(f"{number:.{digits}f}" for number in numbers)


def draw(
    axes: np.ndarray,
    found: Mapping[Job, Shared],
    ratios: Mapping[tuple[str, str], list[float]],
    variants: tuple[str, ...],
    seeds: list[int],
) -> None:
    """The group's rate over a connection's, and the time that it takes."""
    for colour, mark, control in zip(COLOURS, MARKERS, CONTROLS, strict=False):
        for look, variant in zip(("-", "--"), variants, strict=False):
            runs = [[found[control, variant, flows, seed].seconds for seed in seeds] for flows in FLOWS]
            label = f"{control}; {variant}"
            axes[0].plot(FLOWS, ratios[control, variant], look + mark, color=colour, ms=4, label=label)
            axes[1].plot(FLOWS, [np.median(it) for it in runs], look + mark, color=colour, ms=4)
    axes[0].axhspan(0.5, 2, color="0.9")
    axes[0].set(xscale="log", yscale="log", ylabel="the group's rate over a connection's")
    axes[1].set(xscale="log", yscale="log", ylabel="transfer time (s)")
    for axis in axes:
        axis.set(xlabel="TCP connections", xticks=FLOWS, xticklabels=FLOWS)
        axis.minorticks_off()
    axes[0].legend(fontsize=6.5)
