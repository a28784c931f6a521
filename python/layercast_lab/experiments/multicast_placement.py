"""Where redundancy pays under real engines: X3 of specs/where-to-use-fec.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import fec, group, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.fec_trees import HEIGHT, LAN_LINKS, PAPER, tree4
from layercast_lab.fec import within
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all

SHARED, RECEIVERS, PACKETS = 10, 1_000, 2_000
WAN_LOSS, LAN_LOSS = 1e-3, 1e-4
SIZES = (5, 25, 100)
"""Receivers of a LAN, of which there are as many as make 1,000."""
ENGINES = ("RMTP", "FRM", "FRM, gaps reported", "Layercast")
PLACES: dict[str, tuple[str, ...]] = {
    "none": (),
    "WAN": ("shared", "wan"),
    "LAN": ("lan",),
    "whole tree": ("shared", "wan", "lan"),
}
CODES = {"none": (1, 0), "WAN": (20, 4), "LAN": (20, 1), "whole tree": (20, 4)}
"""They take at least two orders off the loss of their part (2.4): 2.5 % in the WAN, 0.05 % in a LAN."""


@dataclass(frozen=True)
class Measured:
    """What one engine gave with one placement."""

    engine: str
    size: int
    place: str
    transmissions: float
    load: float
    """Packets on all links for each source packet, parities, polls and what was lost there counted."""
    seconds: float
    """From the opening until the sender knows that all have it."""
    repairs: int
    left: float
    """Share of packets that the code lost and did not recover."""
    added_ms: float


def scenario(engine: str, size: int, place: str, seed: int, packets: int = PACKETS) -> dict[str, Any]:
    """Tree 4 with a code at a place."""
    branches = group.tree4(RECEIVERS, size, SHARED, (WAN_LOSS, WAN_LOSS, LAN_LOSS))
    for branch, delay in zip(branches, ("20ms", "30ms", "1ms"), strict=True):
        branch["delay"] = delay
    other: dict[str, Any] = {}
    if PLACES[place]:
        n, m = CODES[place]
        other["fec"] = [{"branches": list(PLACES[place]), "scheme": "xor-shift", "n": n, "m": m}]
    match engine:
        case "RMTP":
            session = group.union(packets)
        case "FRM" | "FRM, gaps reported":
            session = {
                "profile": "frm",
                "rate": "8 Mbit/s",
                "packet_size": 1_400,
                "window": 256,
                "weak": "keep",
            }
            if engine != "FRM":
                session |= {"repair": "union", "on_complete": True}
            other["stream"] = {"packets": packets, "interval": "1.4ms", "service": "0s"}
        case _:
            session = {"profile": "layercast", "packets": packets, "rate": "8 Mbit/s"}
    return group.scenario(f"{engine}, code on: {place}", session, branches, seed, **other)


def summarise(engine: str, size: int, place: str, run: Mapping[str, Any]) -> Measured:
    """What of a result is compared."""
    code = run["codes"][0] if run["codes"] else {"expected": 1, "lost": 0, "recovered": 0, "added_ms": 0.0}
    hops = {"shared": SHARED, "wan": HEIGHT - LAN_LINKS - SHARED, "lan": LAN_LINKS}
    return Measured(
        engine,
        size,
        place,
        run["transmissions_per_packet"],
        sum(hops[link["name"]] * link["down"] for link in run["links"]) / run["packets"],
        run["ended_s"] - run["opened_s"],
        run["sent"]["data"] - run["packets"],
        (code["lost"] - code["recovered"]) / code["expected"],
        code["added_ms"],
    )


def told(size: int, place: str) -> float:
    """E(T) by the recursion, each link of the part better by what the code makes of its path."""
    losses = {"WAN": [WAN_LOSS, HEIGHT - LAN_LINKS], "LAN": [LAN_LOSS, LAN_LINKS]}
    for part, law in losses.items():
        if place in (part, "whole tree"):
            path = 1 - (1 - law[0]) ** law[1]
            law[0] *= fec.ask("residual", points=[(*CODES[place], path)])[0] / path
    wan, lan = losses["WAN"][0], losses["LAN"][0]
    return float(tree4([RECEIVERS], [SHARED], size, (wan, wan, lan))[0, 0])


@experiment(
    "where-to-use-fec/x3",
    title="Codes in a tree below real engines",
    paper=f"{PAPER}, FRM, RMTP and parity repair instead of its ideal source",
)
def placement(context: Context) -> Report:
    """The gain of each placement under real engines beside the recursion; transfer time and repairs."""
    packets = 200 if context.seconds else PACKETS
    jobs = [("RMTP", size, place, packets) for size in SIZES for place in PLACES]
    jobs += [(engine, 25, place, packets) for engine in ENGINES[1:] for place in PLACES]
    runs = run_all(
        context,
        "where-to-use-fec/x3, runs",
        lambda job: summarise(*job[:3], group.run(scenario(*job[:3], 1, job[3]))),
        jobs,
    )
    found = {(run.engine, run.size, run.place): run for run in runs}
    return Report("where-to-use-fec/x3", placement.__doc__ or "", rows(found), draw(found, context))


Found = Mapping[tuple[str, int, str], Measured]


def rows(found: Found) -> list[Row]:
    """The recursion beside RMTP, and what other engines make of a code."""
    made = []
    for size in SIZES:
        for place in PLACES:
            run, expected = found["RMTP", size, place], told(size, place)
            plain = found["RMTP", size, "none"]
            gain = plain.transmissions / run.transmissions
            made.append(
                Row(
                    f"RMTP, {size} a LAN, code: {place}",
                    f"E(T) {expected:.3f}, gain {told(size, 'none') / expected:.3f}",
                    f"{run.transmissions:.3f}, gain {gain:.3f}; {run.repairs} repairs, {run.seconds:.2f} s",
                    "2 %",
                    judge(within(run.transmissions, expected, 0.02)),
                    f"{run.load / plain.load:.3f} of the packets on links without a code; "
                    f"{run.left:.1e} lost after decoding, recovered {run.added_ms:.0f} ms later",
                )
            )
        wan, lan = (found["RMTP", size, place].transmissions for place in ("WAN", "LAN"))
        better = told(size, "WAN") < told(size, "LAN")
        made.append(
            Row(
                f"where a code saves more, {size} a LAN",
                "WAN" if better else "LAN",
                "WAN" if wan < lan else "LAN",
                "the same",
                judge((wan < lan) == better),
            )
        )
    for engine in ENGINES:
        times = {place: found[engine, 25, place] for place in PLACES}
        made.append(
            Row(
                f"{engine}, 25 a LAN: time, repairs",
                "fewer losses, fewer passes",
                "; ".join(f"{place} {run.seconds:.2f} s, {run.repairs:,}" for place, run in times.items()),
                "code everywhere: least repairs, no later",
                judge(
                    times["whole tree"].repairs == min(run.repairs for run in times.values())
                    and times["whole tree"].seconds <= times["none"].seconds,
                ),
                "what is recovered comes late, and go-back-N has dropped what came meanwhile"
                if engine == "FRM"
                else "",
            )
        )
    best = min((found["RMTP", 25, place] for place in PLACES), key=lambda run: run.load)
    parity = found["Layercast", 25, "none"]
    made.append(
        Row(
            "parities on request, 25 a LAN",
            "reactive parities make redundancy cheap (spec 8)",
            f"{parity.load:,.0f} packets on all links for each packet without a code; "
            f"RMTP at best {best.load:,.0f} (code: {best.place})",
            "fewer than with any placement",
            judge(parity.load < best.load),
        )
    )
    return made


def draw(found: Found, context: Context) -> str:
    """Transmissions of RMTP by place and size of the LANs; time of each engine."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.6))
    places = list(PLACES)
    at = np.arange(len(places))
    for number, size in enumerate(SIZES):
        values = [found["RMTP", size, place].transmissions for place in places]
        left.bar(at + 0.27 * (number - 1), values, 0.25, color=COLOURS[number], label=f"{size} a LAN")
        left.plot(at + 0.27 * (number - 1), [told(size, place) for place in places], "k_", ms=9)
    left.plot([], [], "k_", ms=9, label="recursion")
    left.set(ylim=(1, None), ylabel="RMTP: transmissions for each packet")
    for number, engine in enumerate(ENGINES):
        values = [found[engine, 25, place].seconds for place in places]
        right.bar(at + 0.2 * (number - 1.5), values, 0.19, color=COLOURS[number], label=engine)
    # Room for the legend above the bars.
    right.set(ylabel="until the sender knows (s), 25 a LAN", yscale="log", ylim=(1, 200))
    for axis in (left, right):
        axis.set_xticks(at, places)
        axis.legend(fontsize=7.5, ncols=2 if axis is right else 1)
    return style.save(figure, context.path("fec-x3"))
