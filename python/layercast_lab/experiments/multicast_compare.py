"""What no paper has: seven ways to deliver to all, beside each other in one simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt

from layercast_lab import fec, group, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all

SIZES = (10, 100, 1_000, 10_000, 100_000)
PACKETS, SIZE = 2_000, 1_400
LOSS = 0.01
RATE = "8 Mbit/s"
# Receivers of a site.
SITE = 100
CODE, LAN_CODE = (7, 1), (14, 2)


@dataclass(frozen=True)
class Way:
    """One way to deliver."""

    what: str
    most: int
    """The largest group that is run."""
    full: int
    """The same with --full."""
    colour: str


WAYS = {
    "FRM": Way("go-back-N of a stream, all echoes immediately", 1_000, 10_000, "#a16207"),
    "FRM, gaps reported": Way("the same, receivers keep what is behind a gap", 10_000, 10_000, "#d6b35a"),
    "RMTP": Way("union of what is missing, answers spread", 10_000, 100_000, COLOURS[0]),
    "RMTP over 7+1": Way("the same above a code from source to receivers", 10_000, 10_000, COLOURS[4]),
    "RMTP, 14+2 on LANs": Way("the same, a code in the last hop only", 10_000, 10_000, COLOURS[3]),
    "Layercast": Way("fresh parities, answers suppressed", 10_000, 100_000, COLOURS[1]),
    "Layercast, aggregators": Way("the same, each site answers once", 10_000, 100_000, COLOURS[2]),
}


@dataclass(frozen=True)
class Measured:
    """What one way gave for one group."""

    way: str
    receivers: int
    transmissions: float
    """Packets that the source sent for each source packet, parities of codes counted."""
    last_hop: float
    """Packets on a receiver's link for each source packet, polls and parities counted."""
    seconds: float
    """From the opening until the sender knows that all have it."""
    answers: int
    """Packets that came to the source."""
    peak: int
    """Most of them in 0.1 s."""
    delivered: bool
    """Whether all receivers have all of it."""
    wall_s: float


def scenario(way: str, receivers: int, seed: int, packets: int = PACKETS) -> dict[str, Any]:
    """2,000 packets at 8 Mbit/s to sites of 100; each receiver loses 1 % on its own link, the last."""
    below = min(receivers, SITE)
    site: dict[str, Any] = {"name": "site", "count": receivers // below, "delay": "9ms", "delay_to": "45ms"}
    last = {"name": "receiver", "parent": "site", "count": below, "loss": LOSS}
    branches = [site, last | {"delay": "3ms"}]
    other: dict[str, Any] = {}
    if way.startswith("FRM"):
        # The window holds sent packets until they can be released (2 k round trips); no receiver is expelled.
        session = {"profile": "frm", "packet_size": SIZE, "rate": RATE, "window": 256, "weak": "keep"}
        if way == "FRM, gaps reported":
            session |= {"repair": "union", "on_complete": True}
        other["stream"] = {"packets": packets, "interval": "1.4ms", "service": "0s"}
        other["run"] = {"duration": "300s"}
    elif way.startswith("RMTP"):
        session = group.union(packets)
    else:
        session = {"profile": "layercast", "packets": packets, "rate": RATE, "packet_size": SIZE}
    match way:
        case "RMTP over 7+1":
            other["fec"] = [code(CODE, "site", "receiver")]
        case "RMTP, 14+2 on LANs":
            other["fec"] = [code(LAN_CODE, "receiver")]
        case "Layercast, aggregators":
            site["aggregator"] = True
    return group.scenario(way, session, branches, seed, **other)


def code(of: tuple[int, int], *branches: str) -> dict[str, Any]:
    """A code on branches."""
    return {"branches": list(branches), "scheme": "xor-shift", "n": of[0], "m": of[1]}


def measure(job: tuple[str, int, int]) -> Measured:
    """Runs one."""
    way, receivers, packets = job
    return summarise(way, group.run(scenario(way, receivers, 1, packets)))


def summarise(way: str, run: Mapping[str, Any]) -> Measured:
    """What of a result is compared."""
    links = {link["name"]: link for link in run["links"]}
    packets, receivers, stream = run["packets"], run["receivers"], run.get("stream")
    sites = receivers // min(receivers, SITE)
    # Parities on the links of sites come from the source; those of codes on LANs do not.
    parities = links["site"]["parities"] / sites
    took = stream["delivered"] == packets * receivers if stream else run["outcomes"]["complete"] == receivers
    return Measured(
        way,
        receivers,
        (run["sent"]["data"] + parities) / packets,
        links["receiver"]["down"] / receivers / packets,
        (run["ended_s"] or run["sim_seconds"]) - run["opened_s"],
        run["feedback"]["packets"],
        run["feedback"]["peak"],
        took and not run["partial"],
        run["wall_seconds"],
    )


@experiment(
    "multicast/compare",
    title="Four papers' ways and Layercast's own, same receivers, same loss",
    paper="No paper: transmissions, completion time, feedback; 10 to 10,000 receivers, 100,000 with --full",
)
def compare(context: Context) -> Report:
    """Transmissions for each packet, completion time and feedback load against the size of the group."""
    packets = 200 if context.seconds else PACKETS
    jobs = []
    for name, way in WAYS.items():
        most = way.full if context.full else min(way.most, 1_000 if context.seconds else way.most)
        jobs += [(name, size, packets) for size in SIZES if size <= most]
    # The longest first: otherwise one processor ends alone.
    jobs.sort(key=lambda job: (-job[1], job[0]))
    runs = run_all(context, "multicast/compare, runs", measure, jobs)
    runs.sort(key=lambda run: (list(WAYS).index(run.way), run.receivers))
    title = f"{packets:,} packets to receivers that lose {LOSS:.0%} each on their last hop: seven ways"
    return Report("multicast/compare", title, rows(runs), draw(runs, context))


def models(receivers: int) -> dict[str, float]:
    """Transmissions by the models of specs/packet-level-fec.md; with a code, every transmission is coded."""
    layered = float(fec.cost(CODE, LOSS, [receivers])[0])
    left = float(fec.cost(LAN_CODE, LOSS, [receivers])[0]) * LAN_CODE[0] / sum(LAN_CODE)
    parity = fec.ask("integrated", points=[(100, 0, LOSS, float(receivers))])[0]
    union = float(fec.cost((1, 0), LOSS, [receivers])[0])
    told = {"RMTP": union, "RMTP over 7+1": layered, "RMTP, 14+2 on LANs": left}
    return told | {"FRM, gaps reported": union, "Layercast": parity, "Layercast, aggregators": parity}


def rows(runs: Sequence[Measured]) -> list[Row]:
    """The bar, and every number."""
    bar = next(run for run in runs if (run.way, run.receivers) == ("Layercast", 1_000))
    found = [
        Row(
            "parity, 1,000 receivers",
            "at most 1.10 transmissions for each packet",
            f"{bar.transmissions:.4f}",
            "1.10",
            judge(bar.transmissions <= 1.10),
            "the project's bar",
        )
    ]
    for run in runs:
        told = models(run.receivers).get(run.way)
        close = told is None or abs(run.transmissions / told - 1) <= 0.05
        found.append(
            Row(
                f"{run.way}, {run.receivers:,}",
                "no model" if told is None else f"{told:.3f} transmissions by the model",
                f"{run.transmissions:.3f} transmissions, {run.last_hop:.3f} packets on the last hop, "
                f"{run.seconds:.2f} s, {run.answers:,} answers, {run.peak:,} in 0.1 s",
                "all of them have it" + ("" if told is None else "; model ± 5 %"),
                judge(run.delivered and close),
                f"{WAYS[run.way].what}; simulated in {run.wall_s:.1f} s",
            )
        )
    return found


def draw(runs: Sequence[Measured], context: Context) -> str:
    """Four pictures against the size of the group."""
    figure, axes = plt.subplots(2, 2, figsize=(8.6, 6.4), sharex=True)
    panels = {
        "transmissions": "source: packets sent for each packet",
        "last_hop": "last hop: packets for each packet",
        "seconds": "until the sender knows that all have it (s)",
        "peak": "most answers to the source in 0.1 s",
    }
    for axis, (of, label) in zip(axes.flat, panels.items(), strict=True):
        for name, way in WAYS.items():
            mine = [run for run in runs if run.way == name]
            sizes, values = [run.receivers for run in mine], [getattr(run, of) for run in mine]
            axis.plot(sizes, values, marker="o", ms=4, color=way.colour, label=name)
        axis.set(xscale="log", ylabel=label)
        axis.set(yscale="linear" if of in ("transmissions", "last_hop") else "log")
    for axis in axes[1]:
        axis.set(xlabel="receivers")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper center", ncols=4, fontsize=8)
    return style.save(figure, context.path("multicast-compare"), top=0.93)
