"""VBR in an ATM LAN, sections 4.2 and 5: how TCP recovers from what a policer takes, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style, vbr
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.vbr_throughput import (
    PAPER,
    Point,
    curve,
    draw,
    mbps,
    save_scenario,
    sweep,
)
from layercast_lab.pcap import Packet, packets
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all, simulate
from layercast_lab.style import plt
from layercast_lab.vbr import BURSTS, Setup

TITLES = {
    "v6": "A chain of time-outs",
    "v7": "Two duplicates, and selective acknowledgements",
    "v9": "Several connections over one circuit",
    "v14": "A reassembly timer in the receiver",
}
TICK_S = 0.01


def waits(sent: Sequence[Packet]) -> list[int]:
    """After how many ticks of silence TCP sent a segment again, for each time that it did."""
    highest, last = 0, 0.0
    found = []
    start = sent[0].seq if sent else 0
    for packet in sent:
        place = (packet.seq - start) % 2**32
        silent = packet.at - last
        if place < highest and silent > TICK_S:
            # A time-out counts ticks: of 2 ticks it takes between 1 and 2, and what the host needs.
            found.append(max(1, round(silent / TICK_S)))
        highest, last = max(highest, place + packet.data), packet.at
    return found


CHAIN = ((1, 2), (3, 4), (7, 9), (15, 17))
"""Ticks of silence before time-outs of 20, 40, 80 and 160 ms."""


def chains(transfers: Sequence[Sequence[int]], bands: Sequence[tuple[int, int]]) -> int:
    """How often waits in these bands follow each other in a transfer."""

    def begins(waited: Sequence[int], at: int) -> bool:
        some = waited[at : at + len(bands)]
        return len(some) == len(bands) and all(a <= w <= b for w, (a, b) in zip(some, bands, strict=True))

    return sum(begins(waited, at) for waited in transfers for at in range(len(waited)))


def chain(context: Context, burst: int, seed: int, **more: Any) -> list[int]:
    """The waits of a transfer at 10 ms ticks."""
    name = f"v6-{burst}-{seed}" + "-".join(["", *more])
    capture = context.path(f"{name}.pcapng")
    scenario = vbr.lan(Setup(9_188, burst, 10, **more))
    simulate(scenario, context.path(f"{name}.toml"), "--pcap", capture, "--no-cells", "--seed", str(seed))
    sent = [packet for packet in packets(capture, {"a->at-a"}) if packet.data]
    capture.unlink()
    return waits(sent)


@experiment("vbr-atm-lan/v6", title=TITLES["v6"], paper=f"{PAPER}, section 5.1")
def v6(context: Context) -> Report:
    """Where the dip of Figure 7 comes from: time-outs of 20, 40, 80 and 160 ms."""
    seeds = context.seed_range(3)
    jobs = [(burst, seed) for burst in BURSTS for seed in seeds]
    found = iter(run_all(context, "captures", lambda job: chain(context, *job), jobs))
    each = {burst: [next(found) for _ in seeds] for burst in BURSTS}
    by_burst = {burst: [wait for waited in many for wait in waited] for burst, many in each.items()}
    long = {
        burst: sum(wait > 5 for wait in waited) / max(1, len(waited)) for burst, waited in by_burst.items()
    }
    dip = max(BURSTS[1:-1], key=long.__getitem__)
    at = BURSTS.index(dip)
    beside = {burst: long[burst] for burst in (BURSTS[at - 1], BURSTS[at + 1])}
    waited = each[dip]
    whole = chains(waited, CHAIN)
    counts = Counter(min(16, wait) for wait in by_burst[dip])
    rows = [
        Row(
            f"at the dip, MBS {dip}",
            "80 and 160 ms again and again (prototype: 31 % of time-outs)",
            f"{long[dip]:.0%} of {len(by_burst[dip])} waits are longer than 50 ms; "
            + ", ".join(f"{count} of {10 * ticks} ms" for ticks, count in sorted(counts.items())),
            "a tenth at least",
            judge(long[dip] >= 0.1),
        ),
        Row(
            f"the chain of time-outs at the dip, MBS {dip}",
            "20, 40, 80, 160 ms, again and again",
            f"{whole} times 20, 40, 80, 160 ms in a row in {len(seeds)} transfers; "
            f"{chains(waited, CHAIN[2:])} times 80, 160; {chains(waited, CHAIN[1:3])} times 40, 80",
            "the whole chain at least twice",
            judge(whole >= 2),
            "a time-out of n ticks takes n - 1 to n, and what the host needs",
        ),
        Row(
            "one step beside it",
            "normally not more than 40 ms (prototype: 3 %)",
            ", ".join(f"MBS {burst}: {share:.0%}" for burst, share in beside.items()),
            "less than half of that at the dip",
            judge(min(beside.values()) < long[dip] / 2),
        ),
    ]
    path = draw_waits(by_burst, context.path("v6"))
    scenario = save_scenario(context, Setup(9_188, dip, 10), "v6")
    return Report("vbr-atm-lan/v6", TITLES["v6"], rows, path, scenario=scenario)


def draw_waits(by_burst: dict[int, list[int]], path: Path) -> str:
    """Shares of waits by length for each burst."""
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    edges = ((1, 2), (3, 5), (6, 10), (11, 1_000))
    names = ("to 20 ms", "30 to 50 ms", "60 to 100 ms", "longer")
    bottom = np.zeros(len(BURSTS))
    for number, ((low, high), name) in enumerate(zip(edges, names, strict=True)):
        shares = np.array(
            [100 * np.mean([low <= wait <= high for wait in by_burst[burst] or [0]]) for burst in BURSTS]
        )
        colour = ("#b9d7e5", "#64a3c4", COLOURS[0], style.ACCENT)[number]
        axis.bar(range(len(BURSTS)), shares, bottom=bottom, color=colour, label=name, width=0.7)
        bottom += shares
    axis.set_xticks(range(len(BURSTS)), [str(burst) for burst in BURSTS])
    axis.set(xlabel="longest burst of the contract, MBS (cells)", ylabel="waits before a time-out (%)")
    axis.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8.5)
    axis.grid(axis="x", visible=False)
    return style.save(figure, path)


@experiment("vbr-atm-lan/v7", title=TITLES["v7"], paper=f"{PAPER}, section 5.2")
def v7(context: Context) -> Report:
    """Recovery without a time-out needs packets that get through while the bucket is empty: none do."""
    kinds: dict[str, dict[str, Any]] = {
        "3 duplicates": {},
        "2 duplicates": {"dup_acks": 2},
        "SACK": {"variant": "sack", "sack": True},
        "timestamps": {"timestamps": True},
    }
    setups = {
        ((kind, tick), burst): Setup(9_188, burst, tick, tcp=tcp)
        for kind, tcp in kinds.items()
        for tick in (500, 10)
        for burst in BURSTS
    }
    found = sweep(context, "transfers", setups, 2)
    rows = []
    for kind, told, tick in (
        ("2 duplicates", "no gain", 500),
        ("SACK", "no gain in a LAN", 500),
        ("2 duplicates", "no gain", 10),
        ("SACK", "no gain in a LAN", 10),
    ):
        base, values = (mbps(found, (name, tick)) for name in ("3 duplicates", kind))
        change = values.mean() / base.mean() - 1
        rows.append(
            Row(
                f"{kind}, {tick} ms",
                told,
                f"{change:+.1%} of {base.mean():.2f} Mbit/s ({curve(values)})",
                "within 10 %",
                judge(abs(change) <= 0.1),
            )
        )
    base, stamped = (mbps(found, (name, 10))[1:] for name in ("3 duplicates", "timestamps"))
    depth = [values.min() / np.median(values) for values in (base, stamped)]
    rows.append(
        Row(
            "timestamps, 10 ms: the dip",
            "would be gone",
            f"least is {depth[1]:.0%} of the median with them, {depth[0]:.0%} without",
            "85 % at least",
            judge(depth[1] >= 0.85),
        )
    )
    chosen = {(kind, burst): found[(kind, 10), burst] for kind in kinds for burst in BURSTS}
    path = draw(chosen, list(kinds), context.path("v7"), label=str, most=True)
    scenario = save_scenario(context, Setup(9_188, 2_500, 10, tcp=kinds["SACK"]), "v7")
    return Report("vbr-atm-lan/v7", TITLES["v7"], rows, path, scenario=scenario)


NUMBERS = (1, 2, 4, 8)
SHARED_S = 60


@experiment("vbr-atm-lan/v9", title=TITLES["v9"], paper=f"{PAPER}, section 4.2")
def v9(context: Context) -> Report:
    """More connections do not fill the circuit: they all wait for the same tick."""
    chosen = (1_000, 2_000, 4_000)
    setups: dict[Point, Setup] = {
        (number, burst): Setup(9_188, burst, flows=number, endless_s=SHARED_S)
        for number in NUMBERS
        for burst in chosen
    }
    found = sweep(context, "runs", setups, 2)
    rows = []
    for burst in chosen:
        values = [mbps(found, number, [burst])[0] for number in NUMBERS]
        bound = vbr.burst_len(9_188, burst) * (9_188 - vbr.HEADERS) * 8e-6 / 0.5
        rows.append(
            Row(
                f"MBS {burst}, 1, 2, 4 and 8 connections",
                "no significant improvement",
                f"{curve(values)} Mbit/s",
                f"at most {bound:.2f}, a burst each tick of 500 ms",
                judge(max(values) <= bound),
            )
        )
    off = ticks(context)
    rows.append(
        Row(
            "time-outs of 4 connections",
            "synchronised by the common timer",
            f"{len(off)} times; {min(off):.1f} to {max(off):.1f} ms after a tick of 500 ms",
            "all within 25 ms of one phase",
            judge(max(off) - min(off) <= 25),
            "a retransmission of a connection waits for those of the others, 0.9 ms each",
        )
    )
    lines = {burst: [mbps(found, number, [burst])[0] for number in NUMBERS] for burst in chosen}
    path = draw_numbers(lines, context.path("v9"))
    scenario = save_scenario(context, Setup(9_188, 2_000, flows=4, endless_s=SHARED_S), "v9")
    return Report("vbr-atm-lan/v9", TITLES["v9"], rows, path, scenario=scenario)


def ticks(context: Context) -> list[float]:
    """How long after the first of them, modulo 500 ms, connections send again after a silence, in ms."""
    capture = context.path("v9.pcapng")
    scenario = vbr.lan(Setup(9_188, 2_000, flows=4, endless_s=20))
    simulate(scenario, context.path("v9-ticks.toml"), "--pcap", capture, "--no-cells")
    last: dict[int, float] = {}
    highest: dict[int, int] = {}
    found = []
    for packet in packets(capture, {"a->at-a"}):
        if not packet.data:
            continue
        port = packet.source[1]
        again = packet.seq < highest.get(port, 0)
        if again and packet.at - last[port] > 0.25:
            found.append(packet.at)
        last[port] = packet.at
        highest[port] = max(highest.get(port, 0), packet.seq)
    capture.unlink()
    phases = (np.array(found) - found[0]) % 0.5
    return list(1e3 * np.where(phases > 0.25, phases - 0.5, phases))


def draw_numbers(values: dict[int, list[float]], path: Path) -> str:
    """Throughput against the number of connections."""
    figure, axis = plt.subplots(figsize=(5.8, 3.6))
    for number, (burst, line) in enumerate(values.items()):
        axis.plot(NUMBERS, line, color=COLOURS[number], marker=MARKERS[number], ms=4.5, label=f"MBS {burst}")
        bound = vbr.burst_len(9_188, burst) * (9_188 - vbr.HEADERS) * 8e-6 / 0.5
        axis.axhline(bound, color=COLOURS[number], ls=":", lw=1.2)
    axis.plot([], [], ":", color="0.4", label="a burst each 500 ms")
    axis.set(xlabel="connections over the circuit", ylabel="throughput together (Mbit/s)", xscale="log")
    axis.set_xticks(NUMBERS, [str(number) for number in NUMBERS])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8.5)
    return style.save(figure, path)


@experiment("vbr-atm-lan/v14", title=TITLES["v14"], paper=f"{PAPER}, section 4.2")
def v14(context: Context) -> Report:
    """What a lost last cell does to the next packet, and to the throughput."""
    both = (4_832, 9_188)
    setups = {
        ((mtu, timer), burst): Setup(mtu, burst, reassembly_timer=timer)
        for mtu in both
        for timer in (None, "5ms")
        for burst in BURSTS
    }
    found = sweep(context, "transfers", setups)
    rows = []
    for mtu in both:
        off, on = (mbps(found, (mtu, timer)) for timer in (None, "5ms"))
        rises = bool(np.all(np.diff(on) > 0))
        better = bool(np.all(on >= off))
        rows.append(
            Row(
                f"MTU {mtu}, MBS 1000 to 4000",
                "fewer time-outs after time-outs",
                f"{curve(on)} instead of {curve(off)} Mbit/s",
                "never less, and more with each step of MBS",
                judge(rises and better),
            )
        )
    named = {
        (f"MTU {mtu}, {'timer' if timer else 'no timer'}", burst): found[(mtu, timer), burst]
        for mtu in both
        for timer in (None, "5ms")
        for burst in BURSTS
    }
    lines = list(dict.fromkeys(line for line, _ in named))
    path = draw(named, lines, context.path("v14"), label=str)
    scenario = save_scenario(context, Setup(9_188, 2_000, reassembly_timer="5ms"), "v14")
    return Report("vbr-atm-lan/v14", TITLES["v14"], rows, path, scenario=scenario)
