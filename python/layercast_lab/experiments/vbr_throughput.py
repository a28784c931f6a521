"""VBR in an ATM LAN, Figures 3 and 5 to 9: TCP over a policed circuit by timer, MTU and burst, and shaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from layercast_lab import style, vbr
from layercast_lab.experiment import Context, Report, Row, arithmetic, experiment, judge
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all, toml_file
from layercast_lab.style import plt
from layercast_lab.vbr import BURSTS, MTUS, Outcome, Setup

PAPER = "Bonaventure, Klovning and Danthine 1996"
TITLES = {
    "v1": "TCP of SunOS over a policed VBR circuit",
    "v3": "A timer of 200 ms instead of 500",
    "v4": "A timer of 10 ms",
    "v5": "Packets sent again",
    "v8": "The adapter sends at the sustainable rate",
    "v10": "Shaping packets, free and at the ticks of a clock",
    "v11": "Shaping by a dual leaky bucket",
}
SEEDS = 3
LARGE = MTUS[1:]
PACKETS = 459
"""Data packets of a transfer at an MTU of 9188 bytes."""

Point = tuple[Any, int]
"""What a line of a figure is of, and the burst."""
Sweep = dict[Point, list[Outcome]]


def sweep(context: Context, what: str, setups: Mapping[Point, Setup], seeds: int = SEEDS) -> Sweep:
    """Runs each of them with each seed."""
    chosen = context.seed_range(seeds)
    jobs = [(setup, seed) for setup in setups.values() for seed in chosen]
    found = iter(run_all(context, what, lambda job: vbr.transfer(*job), jobs))
    return {point: [next(found) for _ in chosen] for point in setups}


def grid(tick_ms: int, mtus: Sequence[int] = MTUS, **more: Any) -> dict[Point, Setup]:
    """Every MTU and burst."""
    return {(mtu, burst): Setup(mtu, burst, tick_ms, **more) for mtu in mtus for burst in BURSTS}


def mbps(found: Sweep, line: Any, bursts: Sequence[int] = BURSTS) -> np.ndarray:
    """Mean over the seeds by burst."""
    return np.array([mean(one.bps for one in found[line, burst]) / 1e6 for burst in bursts])


def discards(found: Sweep) -> int:
    """Cells that the policers discarded in all."""
    ones = [one for many in found.values() for one in many]
    return sum(one.upc["discarded_peak"] + one.upc["discarded_sustained"] for one in ones)


def curve(values: Sequence[float], digits: int = 2) -> str:
    """Numbers in the order of the bursts."""
    return " ".join(f"{value:.{digits}f}" for value in values)


def save_scenario(context: Context, setup: Setup, name: str) -> str:
    """A scenario file for `layercast sim`."""
    path = context.path(f"{name}.toml")
    path.write_text(toml_file(vbr.lan(setup)))
    return str(path)


@experiment("vbr-atm-lan/v1", title=TITLES["v1"], paper=f"{PAPER}, Figure 3")
def v1(context: Context) -> Report:
    """Throughput with the coarse timer of BSD, 500 ms."""
    found = sweep(context, "transfers", grid(500))
    rows = [stock(found, mtu) for mtu in LARGE]
    small, next_one = (mbps(found, mtu) for mtu in MTUS[:2])
    rows.append(
        Row(
            "552 beside 1500 bytes",
            "slightly more, still poor (Mbit/s)",
            f"{curve(small)} beside {curve(next_one)}",
            "more from MBS 1500 on",
            judge(bool(np.all(small[1:] > next_one[1:]))),
        )
    )
    path = draw(found, MTUS, context.path("v1"), label=mtu_label, bound_s=1.0)
    scenario = save_scenario(context, Setup(9_188, 2_000), "v1")
    return Report("vbr-atm-lan/v1", TITLES["v1"], rows, path, scenario=scenario)


def stock(found: Sweep, mtu: int) -> Row:
    """A large MTU with the coarse timer."""
    values = mbps(found, mtu)
    return Row(
        f"MTU {mtu}, MBS 1000 to 4000",
        "below 1 Mbit/s, about a tenth of what was bought",
        f"{curve(values)} Mbit/s, mean {values.mean():.2f}",
        "each at most 1.4, mean at most 1",
        judge(bool(values.max() <= 1.4 and values.mean() <= 1.0)),
    )


@experiment("vbr-atm-lan/v3", title=TITLES["v3"], paper=f"{PAPER}, Figure 6")
def v3(context: Context) -> Report:
    """Throughput with the timers of Solaris."""
    slow = sweep(context, "transfers, 500 ms", grid(500))
    found = sweep(context, "transfers, 200 ms", grid(200))
    rows = []
    for mtu in MTUS:
        ratio = mbps(found, mtu).mean() / mbps(slow, mtu).mean()
        rows.append(
            Row(
                f"MTU {mtu}, mean over MBS",
                "almost doubled",
                f"{ratio:.2f} times {mbps(slow, mtu).mean():.2f} Mbit/s",
                "1.5 to 3.2 times",
                judge(1.5 <= ratio <= 3.2),
            )
        )
    small = mbps(found, 552)
    rows.append(
        Row(
            "MTU 552, MBS 1000 and 4000",
            "2 and 6 Mbit/s",
            f"{small[0]:.2f} and {small[-1]:.2f} Mbit/s",
            "1 to 3, 4.5 to 7",
            judge(1 <= small[0] <= 3 and 4.5 <= small[-1] <= 7),
        )
    )
    large = np.array([mbps(found, mtu) for mtu in LARGE])
    rows.append(
        Row(
            "MTU 1500 to 9188",
            "below 2 Mbit/s",
            f"{large.min():.2f} to {large.max():.2f} Mbit/s, mean {large.mean():.2f}; "
            f"{int((large < 2).sum())} of {large.size} below",
            "each below 2",
            judge(bool(large.max() < 2)),
        )
    )
    path = draw(found, MTUS, context.path("v3"), label=mtu_label, bound_s=0.4)
    scenario = save_scenario(context, Setup(9_188, 2_000, 200), "v3")
    return Report("vbr-atm-lan/v3", TITLES["v3"], rows, path, scenario=scenario)


@experiment("vbr-atm-lan/v4", title=TITLES["v4"], paper=f"{PAPER}, Figure 7")
def v4(context: Context) -> Report:
    """Throughput with a timer as fine as the clock of the host, every segment acknowledged."""
    found = sweep(context, "transfers", grid(10))
    rows = []
    for mtu in MTUS[:-1]:
        values = mbps(found, mtu)
        rows.append(
            Row(
                f"MTU {mtu}, MBS 1000 to 4000",
                "high throughput everywhere",
                f"{curve(values)} Mbit/s",
                "5 at least",
                judge(bool(values.min() >= 5)),
            )
        )
    values = mbps(found, 9_188)
    inner = values[1:-1]
    low = int(inner.argmin()) + 1
    rest = np.delete(values[1:], low - 1)
    dips = values[low] < 0.85 * min(values[low - 1], values[low + 1])
    rows.append(
        Row(
            "MTU 9188, MBS 1000 to 4000",
            "high, with a dip at MBS 2000",
            f"{curve(values)} Mbit/s; least inside at MBS {BURSTS[low]}",
            "6 at least from MBS 1500 on but for one dip of 15 % or more",
            judge(bool(rest.min() >= 6 and dips)),
            "the dip is a race between the host and the timer: its place moves with the host's costs",
        )
    )
    path = draw(found, MTUS, context.path("v4"), label=mtu_label, most=True)
    scenario = save_scenario(context, Setup(9_188, BURSTS[low], 10), "v4")
    return Report("vbr-atm-lan/v4", TITLES["v4"], rows, path, scenario=scenario)


@experiment("vbr-atm-lan/v5", title=TITLES["v5"], paper=f"{PAPER}, Figure 8")
def v5(context: Context) -> Report:
    """What the finer timer costs: retransmissions of the 459 packets of a transfer."""
    setups = {(tick, burst): Setup(9_188, burst, tick) for tick in vbr.TICKS_MS for burst in BURSTS}
    found = sweep(context, "transfers", setups)
    shares = {
        tick: np.array([100 * mean(one.again for one in found[tick, burst]) / PACKETS for burst in BURSTS])
        for tick in vbr.TICKS_MS
    }
    packets = {round(mean(one.sent - one.again for one in many)) for many in found.values()}
    rows = [
        Row(
            "packets of a transfer",
            "459 with data",
            f"{min(packets)} to {max(packets)} with those that open and close",
            "459 to 463",
            judge(min(packets) >= 459 and max(packets) <= 463),
        )
    ]
    for tick, place, reported, low, high in (
        (10, 0, "80 %", 65, 105),
        (10, -1, "40 %", 35, 70),
        (200, -1, "20 %", 15, 30),
        (500, -1, "20 %", 15, 30),
    ):
        share = shares[tick][place]
        rows.append(
            Row(
                f"{tick} ms, MBS {BURSTS[place]}",
                reported,
                f"{share:.0f} %",
                f"{low} to {high} %",
                judge(low <= share <= high),
            )
        )
    ratio = shares[10][-1] / shares[500][-1]
    falls = all(share[-1] < share[0] for share in shares.values())
    rows.append(
        Row(
            "10 beside 500 ms, MBS 4000",
            "twice as many; fewer with longer bursts",
            f"{ratio:.2f} times; {'fewer' if falls else 'not fewer'} at MBS 4000 than at 1000",
            "1.7 times, and fewer",
            judge(ratio >= 1.7 and falls),
        )
    )
    path = draw_shares(shares, context.path("v5"))
    scenario = save_scenario(context, Setup(9_188, 1_000, 10), "v5")
    return Report("vbr-atm-lan/v5", TITLES["v5"], rows, path, scenario=scenario)


@experiment("vbr-atm-lan/v8", title=TITLES["v8"], paper=f"{PAPER}, Figure 9")
def v8(context: Context) -> Report:
    """The remedy that the authors could try: cells at 10 Mbit/s, with TCP as it is."""
    found = sweep(context, "transfers", grid(500, contract={"shape": "sustained"}), 2)
    rows = [shaped(found, mtu, 0.88, 1.0) for mtu in LARGE]
    lost = discards({point: many for point, many in found.items() if point[0] in LARGE})
    rows.append(Row("cells discarded, 1500 to 9188", "none", f"{lost}", "0", judge(lost == 0)))
    small = mbps(found, 552)
    dropped = sum(one.busy for burst in BURSTS for one in found[552, burst])
    rows.append(
        Row(
            "MTU 552",
            "less than 6 Mbit/s: the receiver drops packets",
            f"{small.min():.2f} to {small.max():.2f} Mbit/s; {dropped} packets dropped by the receiver",
            "below 6, with drops",
            judge(bool(small.max() < 6 and dropped > 0)),
        )
    )
    path = draw(found, MTUS, context.path("v8"), label=mtu_label, most=True)
    scenario = save_scenario(context, Setup(9_188, 1_000, contract={"shape": "sustained"}), "v8")
    return Report("vbr-atm-lan/v8", TITLES["v8"], rows, path, scenario=scenario)


def shaped(found: Sweep, mtu: int, least: float, most_share: float = 1.04) -> Row:
    """Throughput of a shaped circuit beside what it can carry.

    Where the shaper allows bursts, what a full bucket lets through in the first comes on top.
    """
    values, most = mbps(found, mtu), vbr.most_bps(mtu) / 1e6
    shares = values / most
    return Row(
        f"MTU {mtu}",
        f"about 90 % of {most:.2f} Mbit/s",
        f"{values.min():.2f} to {values.max():.2f} Mbit/s, {shares.min():.1%} to {shares.max():.1%}",
        f"{least:.0%} to {most_share:.0%}",
        judge(bool(least <= shares.min() and shares.max() <= most_share)),
    )


SHAPES = {"cells": "cell by cell", "packets": "packets", "softclock": "packets at 10 ms ticks"}


@experiment("vbr-atm-lan/v10", title=TITLES["v10"], paper=f"{PAPER}, 5.3")
def v10(context: Context) -> Report:
    """What the authors propose for drivers: whole packets when the contract allows them."""
    found = sweep(context, "transfers", shapes(), 1)
    each = vbr.cells(9_188) * (vbr.T_SCR_US - vbr.T_PCR_US) / 1e3
    exact = arithmetic(round(each, 3) == 7.617)
    rows = [Row("pause for one more packet of 9188", "7.6 ms", f"{each:.3f} ms", "7.617 ms", exact)]
    for mtu in LARGE:
        free, ticked = mbps(found, ("packets", mtu)), mbps(found, ("softclock", mtu))
        # A packet waits at most 10 ms for a tick, and the bucket holds that: it costs no rate.
        slower = free / ticked - 1
        rows.append(
            Row(
                f"MTU {mtu}: at ticks beside free",
                "at most a tick later each packet",
                f"{curve(ticked)} beside {curve(free)} Mbit/s",
                "within 5 %",
                judge(bool(np.abs(slower).max() <= 0.05)),
            )
        )
    lost = discards({point: many for point, many in found.items() if point[0][0] != "cells"})
    rows.append(Row("cells discarded", "none", f"{lost}", "0", judge(lost == 0)))
    chosen = {(SHAPES[shape], burst): found[(shape, 9_188), burst] for shape in SHAPES for burst in BURSTS}
    path = draw(chosen, list(SHAPES.values()), context.path("v10"), label=str, most=True, close=True)
    scenario = save_scenario(context, Setup(9_188, 1_000, contract={"shape": "softclock"}), "v10")
    return Report("vbr-atm-lan/v10", TITLES["v10"], rows, path, scenario=scenario)


@experiment("vbr-atm-lan/v11", title=TITLES["v11"], paper=f"{PAPER}, 5.3")
def v11(context: Context) -> Report:
    """What the authors propose for adapters: each cell when both rates allow it."""
    found = sweep(context, "transfers", shapes(["cells"]), 2)
    named = {(mtu, burst): many for ((_, mtu), burst), many in found.items()}
    rows = [shaped(named, mtu, 0.95) for mtu in LARGE]
    lost = discards(named)
    rows.append(Row("cells discarded", "none", f"{lost}", "0", judge(lost == 0)))
    path = draw(named, LARGE, context.path("v11"), label=mtu_label, most=True, close=True)
    scenario = save_scenario(context, Setup(9_188, 1_000, contract={"shape": "cells"}), "v11")
    return Report("vbr-atm-lan/v11", TITLES["v11"], rows, path, scenario=scenario)


def shapes(names: Sequence[str] = tuple(SHAPES)) -> dict[Point, Setup]:
    """Every shape, large MTU and burst."""
    return {
        ((shape, mtu), burst): Setup(mtu, burst, contract={"shape": shape})
        for shape in names
        for mtu in LARGE
        for burst in BURSTS
    }


def mtu_label(mtu: int) -> str:
    """In a legend."""
    return f"MTU {mtu}"


def draw(
    found: Sweep,
    lines: Sequence[Any],
    path: Path,
    *,
    label: Any,
    bound_s: float | None = None,
    most: bool = False,
    close: bool = False,
) -> str:
    """Throughput against the burst, with bars over the seeds; dotted what the bursts and waits allow."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for number, line in enumerate(lines):
        values = mbps(found, line)
        all_of = [[one.bps / 1e6 for one in found[line, burst]] for burst in BURSTS]
        bars = np.abs(np.array([[min(ones), max(ones)] for ones in all_of]).T - values)
        look = {"color": COLOURS[number], "marker": MARKERS[number], "ms": 4.5, "capsize": 2.5, "lw": 1.3}
        axis.errorbar(BURSTS, values, yerr=bars, label=label(line), **look)
        if bound_s and line in LARGE:
            bound = [vbr.burst_len(line, burst) * (line - vbr.HEADERS) * 8e-6 / bound_s for burst in BURSTS]
            axis.plot(BURSTS, bound, ":", color=COLOURS[number], lw=1.2)
    if bound_s:
        axis.plot([], [], ":", color="0.4", lw=1.2, label=f"one burst each {bound_s:g} s")
    if most:
        limit = vbr.most_bps(9_188) / 1e6
        axis.axhline(limit, ls="--", lw=1, color="0.4")
        above = 0.02 if close else 0.12
        axis.text(BURSTS[0], limit + above, "10 Mbit/s of cells, MTU 9188", fontsize=8, color="0.3")
    axis.set(xlabel="longest burst of the contract, MBS (cells)", ylabel="throughput (Mbit/s)")
    if close:
        axis.set_ylim(8, 9.4)
    else:
        axis.set_ylim(0, 10.4 if most else None)
    axis.legend(loc="upper left" if bound_s else "lower right", ncols=2, fontsize=8.5)
    return style.save(figure, path)


def draw_shares(shares: Mapping[int, np.ndarray], path: Path) -> str:
    """Retransmissions against the burst for each timer."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for number, (tick, share) in enumerate(shares.items()):
        look = {"color": COLOURS[number], "marker": MARKERS[number], "ms": 4.5}
        # The first two lie on each other.
        look |= {"ms": 9, "mfc": "none"} if number == 0 else {}
        axis.plot(BURSTS, share, label=f"{tick} ms", **look)
    for burst, share, number in ((1_000, 80, 2), (4_000, 40, 2), (4_000, 20, 0)):
        told = {"label": "in the text of the paper"} if burst == 1_000 else {}
        axis.plot(burst, share, "*", ms=11, mfc="none", color=COLOURS[number], **told)
    axis.set(xlabel="longest burst of the contract, MBS (cells)", ylabel="packets sent again (% of 459)")
    axis.set_ylim(bottom=0)
    axis.legend(title="coarse timer")
    return style.save(figure, path)
