"""METS beside TCP: what is left of the promise of a base layer at a link that other traffic shares."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import ready_made, run_all, simulate
from layercast_lab.style import plt

PAPER = "No paper: the base layer of METS beside TCP of today"
SEEDS = 10
SECONDS = 60.0
# The TCP flows begin when the films have their levels.
TCP_FROM_S = 5.0
"""When TCP begins, at most half of the run."""
FLOWS = (0, 1, 3, 10)
MANY = FLOWS[-1]
TRUNK_MBPS = 20
PLAIN = "plain"
# Why a METS port drops a unit.
DROPS = ("queue_full", "selective_discard", "partial_discard")


@dataclass(frozen=True)
class Means:
    """What is done about losses."""

    name: str
    repair: bool = False
    parities: str = ""
    estimates: bool = False
    """Whether the ports across the foreign link estimate what it carries."""


FOREIGN = (
    Means(PLAIN),
    Means("repair", repair=True),
    Means("parities 6+2", parities="6+2"),
    Means("auto rate, repair", repair=True, estimates=True),
)


@dataclass(frozen=True)
class Job:
    """A run with this number of CUBIC flows, these means and this seed."""

    flows: int
    means: Means
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What a run gave, both films together."""

    lost: float
    """Share of the base-layer frames that did not arrive whole, in percent."""
    late: int
    enhancements: float
    """Share of the frames of E1 and E2 that did not arrive whole, in percent of those sent."""
    shown: int
    """Frames of E1 and E2 that were played."""
    delay_ms: float
    """The 99 % quantile of the delay of the slower film."""
    tcp_mbps: float
    dropped_by_ports: int
    lost_in_network: int


def tcp_from(seconds: float) -> float:
    """When TCP begins in a run of this length."""
    return min(TCP_FROM_S, seconds / 2)


def scenario(name: str, job: Job, seconds: float) -> dict[str, Any]:
    """The ready-made scenario `name` with the flows and means of a job."""
    told = ready_made(f"internet/{name}")
    told["run"] = {"duration": f"{seconds}s", "seed": job.seed}
    del told["flow"]
    if job.flows:
        ends = {"from": f"bulk{{1..{job.flows}}}", "to": f"drain{{1..{job.flows}}}"}
        told["flow"] = [ends | {"start": f"{tcp_from(seconds)}s"}]
    for peering in told["mets"]["peering"]:
        peering["repair"] = job.means.repair
    if job.means.estimates:
        # The first one crosses the foreign link.
        told["mets"]["peering"][0]["rate"] = "auto"
    for film in told["mets"]["flow"]:
        if job.means.parities:
            film["protect_base"] = job.means.parities
    return told


def outcome(summary: dict[str, Any], seconds: float) -> Outcome:
    """Of the summary that `layercast sim --json` prints."""
    mets = summary["mets"]
    receivers = [receiver for flow in mets["flows"] for receiver in flow["receivers"]]

    def total(kind: str, *layers: str) -> int:
        return sum(receiver[kind][layer] for receiver in receivers for layer in layers)

    def share(*layers: str) -> float:
        lost = total("lost", *layers)
        return 100 * lost / max(lost + total("frames", *layers), 1)

    drops = [peering[cause]["BL"] for peering in mets["peerings"] for cause in DROPS]
    carried = 8 * sum(flow["bytes"] for flow in summary["flows"])
    return Outcome(
        lost=share("BL"),
        late=sum(receiver["late"] for receiver in receivers),
        enhancements=share("E1", "E2"),
        shown=total("frames", "E1", "E2"),
        delay_ms=max(receiver["delay_ms"]["p99"] for receiver in receivers),
        tcp_mbps=carried / (seconds - tcp_from(seconds)) / 1e6,
        dropped_by_ports=sum(drops),
        lost_in_network=sum(peering["link"]["lost"] for peering in mets["peerings"]),
    )


Found = dict[tuple[int, str], list[Outcome]]


def measure(context: Context, name: str, means: tuple[Means, ...]) -> Found:
    """All runs over a scenario, by number of flows and means."""
    seconds = context.seconds or SECONDS
    seeds = context.seed_range(SEEDS)
    jobs = [Job(flows, one, seed) for flows in FLOWS for one in means for seed in seeds]

    def run(job: Job) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            summary = simulate(scenario(name, job, seconds), Path(folder, "scenario.toml"))
        return outcome(summary, seconds)

    found: Found = {}
    for job, one in zip(jobs, run_all(context, f"{name}, runs", run, jobs), strict=True):
        found.setdefault((job.flows, job.means.name), []).append(one)
    return found


def median(runs: list[Outcome], what: str) -> float:
    """Over the seeds."""
    return float(np.median([getattr(one, what) for one in runs]))


def spread(runs: list[Outcome], what: str, unit: str) -> str:
    """Median and range over the seeds."""
    values = [getattr(one, what) for one in runs]
    return f"{np.median(values):.2f} {unit} ({min(values):.2f} to {max(values):.2f})"


def foreign(context: Context, id: str, name: str, kind: str) -> Report:
    """A link that knows nothing of layers."""
    found = measure(context, name, FOREIGN)
    alone = found[0, PLAIN]
    rows = [
        Row(
            "alone",
            "no base-layer frame lost or late",
            f"{spread(alone, 'lost', '%')} lost, {sum(one.late for one in alone)} late",
            "0",
            judge(not any(one.lost or one.late for one in alone)),
        )
    ]
    for flows in FLOWS[1:]:
        runs = found[flows, PLAIN]
        rows.append(
            Row(
                f"{flows} CUBIC flow{'s' * (flows > 1)}",
                "no promise: the link is foreign",
                f"base layer {spread(runs, 'lost', '%')} lost, "
                f"E1 and E2 {median(runs, 'enhancements'):.2f} %; TCP {median(runs, 'tcp_mbps'):.1f} Mbit/s",
                "none",
                "open",
                f"delay p99 {median(runs, 'delay_ms'):.0f} ms",
            )
        )
    many = found[MANY, PLAIN]
    rows.append(
        Row(
            "what loses them",
            "the link, not the METS ports",
            f"{sum(one.dropped_by_ports for one in many)} base-layer units dropped by METS ports, "
            f"{sum(one.lost_in_network for one in many)} packets lost behind them",
            "0 by ports",
            judge(not any(one.dropped_by_ports for one in many)),
        )
    )
    for means in FOREIGN[1:]:
        runs = found[MANY, means.name]
        rows.append(
            Row(
                f"{means.name}, {MANY} CUBIC flows",
                "fewer losses",
                f"base layer {spread(runs, 'lost', '%')} lost, {median(runs, 'shown'):.0f} "
                f"frames of E1 and E2 played ({median(alone, 'shown'):.0f} alone); "
                f"TCP {median(runs, 'tcp_mbps'):.1f} Mbit/s",
                "below plain",
                judge(median(runs, "lost") < median(many, "lost")),
            )
        )
    title = f"METS beside TCP on a foreign {kind} link"
    path = draw(found, FOREIGN, context.path(id.partition("/")[2]), title)
    return Report(id, title, rows, path, scenario=f"scenarios/internet/{name}.toml")


@experiment("mets/beside-tcp-droptail", title="METS beside TCP on a foreign drop-tail link", paper=PAPER)
def droptail(context: Context) -> Report:
    """A queue of 100 packets."""
    return foreign(context, "mets/beside-tcp-droptail", "mets-beside-tcp", "drop-tail")


@experiment("mets/beside-tcp-red", title="METS beside TCP on a foreign RED link", paper=PAPER)
def red(context: Context) -> Report:
    """RED from 15 to 45 packets."""
    return foreign(context, "mets/beside-tcp-red", "mets-beside-tcp-red", "RED")


@experiment(
    "mets/beside-tcp-port", title="METS beside TCP at Layercast ports with a class queue", paper=PAPER
)
def port(context: Context) -> Report:
    """Both ends of the link are METS switches; TCP waits beside their ports."""
    id, name, means = "mets/beside-tcp-port", "mets-class-queue", (Means(PLAIN),)
    found = measure(context, name, means)
    everything = [one for runs in found.values() for one in runs]
    alone, many = found[0, PLAIN], found[MANY, PLAIN]
    # A packet of TCP that is on the line.
    residual_ms = 1_500 * 8 / TRUNK_MBPS / 1e3
    later = median(many, "delay_ms") - median(alone, "delay_ms")
    rows = [
        Row(
            "base layer",
            "guaranteed",
            f"{max(one.lost for one in everything):.2f} % lost, {sum(one.late for one in everything)} late, "
            f"{len(everything)} runs",
            "0",
            judge(not any(one.lost or one.late for one in everything)),
        ),
        Row(
            "E1 and E2",
            "what the adapter grants arrives",
            f"{max(one.enhancements for one in everything):.2f} % lost",
            "0",
            judge(not any(one.enhancements for one in everything)),
        ),
        Row(
            f"delay, {MANY} CUBIC flows",
            f"a packet of TCP on the line: {residual_ms:.1f} ms",
            f"p99 {median(many, 'delay_ms'):.1f} ms, {later:.2f} ms more than alone",
            "a packet, and the step of 5 % of the quantile",
            judge(later <= residual_ms + 0.05 * median(alone, "delay_ms")),
        ),
        Row(
            f"TCP, {MANY} CUBIC flows",
            f"what METS leaves of {TRUNK_MBPS} Mbit/s",
            spread(many, "tcp_mbps", "Mbit/s"),
            "none",
            "open",
        ),
    ]
    title = "METS beside TCP at Layercast ports with a class queue"
    path = draw(found, means, context.path("beside-tcp-port"), title)
    return Report(id, title, rows, path, scenario=f"scenarios/internet/{name}.toml")


def draw(found: Found, means: tuple[Means, ...], path: Path, title: str) -> str:
    """Losses of the base layer, delays, and the rate of TCP, by number of flows.

    Points are medians over the seeds, bars ranges.
    """
    figure, axes = plt.subplots(1, 3, figsize=(10.2, 3.2))
    places = np.arange(len(FLOWS))
    panels = [
        ("lost", "base-layer frames lost (%)"),
        ("delay_ms", "delay p99 (ms)"),
        ("tcp_mbps", "TCP (Mbit/s)"),
    ]
    for axis, (what, label) in zip(axes, panels, strict=True):
        for n, one in enumerate(means):
            runs = [found[flows, one.name] for flows in FLOWS]
            values = np.array([[getattr(run, what) for run in group] for group in runs])
            middle = np.median(values, axis=1)
            error = [middle - values.min(axis=1), values.max(axis=1) - middle]
            shift = 0.08 * (n - (len(means) - 1) / 2)
            axis.errorbar(places + shift, middle, error, marker="o", ms=4, lw=1.2, capsize=2, label=one.name)
        axis.set_xticks(places, [str(flows) for flows in FLOWS])
        axis.set(xlabel="CUBIC flows", ylabel=label)
        axis.set_ylim(bottom=0)
    if len(means) > 1:
        axes[0].legend(fontsize=9)
    axes[1].set_title(title, fontsize=10)
    return style.save(figure, path)
