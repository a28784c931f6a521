"""INSANE M4: conversations on one policed circuit disturb one another (specs/insane-study.md 2.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.insane_study import PAPER
from layercast_lab.insane.line import CELL_S, cells, line, sites
from layercast_lab.pcap import Packet, packets
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all, simulate, toml_file
from layercast_lab.style import plt

TITLE = "INSANE M4: two conversations on one policed circuit"
LARGE, SMALL = 15_000, 400
"""Bytes of the files: one that its contract takes seven seconds for, and one of a packet."""
LARGE_EVERY_S, SMALL_EVERY_S = 70.0, 13.0
"""A circuit is idle for 10 s between small files, and is kept."""
SECONDS, SEEDS = 2_000.0, 2
QOS, MUX = ("noqos", "wc-ftp", "nwc-ftp"), ("conv", "app")
MEMORY_S = 2.0
"""Of a regulator."""
DATA_PORT = 20
LOAD = 0.9
"""Best effort beside it, of the link: without any, what wc holds back it sends immediately."""
BULK = 1_500
ALIKE, LATER = 0.25, 2.0
WAYS = {"east1->east": "west->west2", "west1->west": "east->east2"}
"""Where servers send, and where clients receive."""


@dataclass
class Transfer:
    """A data connection of FTP."""

    begun: float
    """When the server sent its first packet."""
    way: str
    first: int
    """Sequence number of the first byte."""
    ended: float = 0.0
    arrived: list[tuple[float, int]] = field(default_factory=list)
    """When the client got how many bytes that it had not got."""
    got: int = 0
    """A bit for each byte, the first the lowest."""

    @property
    def bytes(self) -> int:
        """All that the client got."""
        return self.got.bit_count()

    def take(self, packet: Packet) -> None:
        """A packet came to the client."""
        new = ((1 << packet.data) - 1) << (packet.seq - self.first & 0xFFFF_FFFF)
        if fresh := (new & ~self.got).bit_count():
            self.arrived.append((packet.at, fresh))
            self.got |= new
            self.ended = packet.at

    @property
    def took(self) -> float:
        """From the first packet to the last data."""
        return self.ended - self.begun


def workload() -> dict[str, Any]:
    """Large files now and then, and small ones more often, between the same two hosts."""

    def fetch(size: int, every_s: float) -> dict[str, Any]:
        return {
            "model": "ftp",
            "arrival": {"process": "periodic", "mean_s": every_s},
            "from": "workstation",
            "to": "server",
            "choose": "zipf",
            "dist": {"nitems": "const(1) files", "itemsize": f"const({size}) B", "ctlsize": "const(20) B"},
        }

    return {"app": {"large": fetch(LARGE, LARGE_EVERY_S), "small": fetch(SMALL, SMALL_EVERY_S)}}


def transfers(captured: Iterable[Packet]) -> list[Transfer]:
    """The data connections of a capture that were over by its end."""
    found: dict[tuple, Transfer] = {}
    ends = {end: start for start, end in WAYS.items()}
    done = []
    for packet in captured:
        if packet.source[1] != DATA_PORT:
            continue
        key = (packet.source, packet.destination)
        if packet.interface in WAYS and key not in found:
            found[key] = Transfer(packet.at, packet.interface, packet.seq + 1)
        elif packet.interface in ends and packet.data and key in found:
            before = found[key].bytes
            found[key].take(packet)
            if before < found[key].bytes in (SMALL, LARGE):
                done.append(found[key])
    return done


def run(context: Context, policy: str, seed: int) -> list[Transfer]:
    """One run."""
    gap_us = cells(BULK) * CELL_S / LOAD * 1e6
    others = {"gap": f"exp({gap_us:.3f}us)", "size": f"{BULK} B"}
    ends = (("west3", "east3"), ("east3", "west3"))
    scenario = line(
        "m4",
        context.seconds or SECONDS,
        hosts=3,
        delay=0.01,
        policy=policy,
        queue={"per_vc_limit": 170, "port_limit": 800},
        tcp={"default": {"profile": "bsd44lite"}},
        flow=[{"from": a, "to": b, "datagrams": others} for a, b in ends],
        workload={"use": context.path("m4-files.toml").name, "site": sites(2)},
    )
    name = f"m4-{policy}-{seed}"
    capture = context.path(f"{name}.pcapng")
    simulate(scenario, context.path(f"{name}.toml"), "--pcap", capture, "--no-cells", "--seed", str(seed))
    found = transfers(packets(capture, {*WAYS, *WAYS.values()}))
    capture.unlink()
    return found


def split(runs: Sequence[list[Transfer]]) -> tuple[list[float], list[float], list[float]]:
    """How long small files took while a large one was under way, and apart from any; and large ones."""
    beside, alone, large = [], [], []
    for found in runs:
        big = [one for one in found if one.bytes == LARGE]
        large += [one.took for one in big]
        for one in found:
            if one.bytes != SMALL:
                continue
            near = [b for b in big if b.way == one.way and b.begun <= one.begun]
            if any(one.begun <= b.ended for b in near):
                beside.append(one.took)
            elif all(one.begun > b.ended + MEMORY_S for b in near):
                alone.append(one.took)
    return beside, alone, large


@experiment("insane-study/m4", title=TITLE, paper=f"{PAPER}, figure 5-9")
def m4(context: Context) -> Report:
    """Small files beside a large one between the same hosts, on its circuit and on circuits of their own."""
    context.path("m4-files.toml").write_text(toml_file(workload()))
    policies = [f"{qos}-{mux}-svccache" for qos in QOS for mux in MUX]
    jobs = [(policy, seed) for policy in policies for seed in context.seed_range(SEEDS)]
    runs = run_all(context, "M4, runs", lambda job: run(context, *job), jobs)
    found = {
        policy: [r for r, job in zip(runs, jobs, strict=True) if job[0] == policy] for policy in policies
    }
    times = {policy: split(one) for policy, one in found.items()}
    rows = [row for qos in QOS for row in rows_of(qos, times)]
    path = draw(found, times, context.path("m4"))
    scenario = str(context.path("m4-nwc-ftp-app-svccache-1.toml"))
    return Report("insane-study/m4", TITLE, rows, path, scenario=scenario)


def rows_of(qos: str, times: Mapping[str, tuple[list[float], list[float], list[float]]]) -> list[Row]:
    """What a large file does to small ones with one service."""
    rows = []
    for mux in MUX:
        policy = f"{qos}-{mux}-svccache"
        beside, alone, large = times[policy]
        if not beside or not alone:
            rows.append(Row(policy, "-", "too short a run", "-", "missing"))
            continue
        near, apart = median(beside), median(alone)
        told = (
            f"{1e3 * near:.0f} ms beside a large file ({len(beside)}), "
            f"{1e3 * apart:.0f} ms else ({len(alone)}); large ones {median(large):.1f} s"
        )
        if qos == "noqos":
            rows.append(Row(policy, "no regulator, nothing owed", told, "none", "open", "the link is shared"))
        elif mux == "app":
            reported = "late: the circuit owes what the large file took in advance"
            late = judge(near >= LATER * apart)
            rows.append(Row(policy, reported, told, f"medians: {LATER:g} times at least", late))
        else:
            off = abs(near / apart - 1)
            alike = judge(off <= ALIKE)
            reported = "no effect: a circuit of its own"
            rows.append(Row(policy, reported, told, f"medians: within {ALIKE:.0%}", alike))
    return rows


def draw(
    found: Mapping[str, Sequence[list[Transfer]]],
    times: Mapping[str, tuple[list[float], list[float], list[float]]],
    path: Path,
) -> str:
    """What two conversations get over time, and how long small files take."""
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 6), width_ratios=(1.5, 1), sharex="col", sharey="col")
    for line_, mux in enumerate(MUX):
        left, right = axes[line_]
        chosen = found[f"nwc-ftp-{mux}-svccache"][0]
        large = [one for one in chosen if one.bytes == LARGE]
        if large:
            over_time(left, chosen, large[0])
        left.set_title(f"nwc-ftp-{mux}-svccache", loc="left", fontsize=9.5)
        left.set_ylabel("data arrived (kB)")
        for number, qos in enumerate(QOS):
            beside, alone, _ = times[f"{qos}-{mux}-svccache"]
            for waits, look in ((beside, "-"), (alone, ":")):
                share = np.arange(1, len(waits) + 1) / max(len(waits), 1)
                label = qos if look == "-" else None
                right.plot(np.sort(waits), share, look, color=COLOURS[number], label=label)
        right.set(xscale="log", ylabel="share of small files")
        right.set_title(f"{mux}: beside a large file (dotted: alone)", loc="left", fontsize=9.5)
    axes[0, 1].legend(loc="lower right")
    axes[1, 0].set_xlabel("time after the start of a large file (s)")
    axes[1, 1].set_xlabel("time of a small file (s)")
    return style.save(figure, path)


def over_time(axis: plt.Axes, chosen: Sequence[Transfer], large: Transfer) -> None:
    """A large file as it arrives, and small ones: from when they are sent to when they are there."""
    at = [moment - large.begun for moment, _ in large.arrived]
    axis.step(at, np.cumsum([size for _, size in large.arrived]) / 1e3, where="post", color=COLOURS[0])
    for one in chosen:
        begun = one.begun - large.begun
        if one.bytes == SMALL and one.way == large.way and -5 < begun < LARGE_EVERY_S:
            axis.axvspan(begun, begun + max(one.took, 0.15), color=style.ACCENT, alpha=0.6, lw=0)
    axis.set_xlim(-5, LARGE_EVERY_S)
