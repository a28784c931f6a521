"""METS E1b: what of a paced stream a receiver of 1996 takes (specs/mets.md 4.3)."""

from __future__ import annotations

import itertools
from math import gcd

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.mets_throughput import SIZES, Flood, fastest, flood
from layercast_lab.simulator import run_all
from layercast_lab.testbed import CELL_BITS, PAPER, PENTIUM_RECEIVER, packet_cells, thousands

REPORTED_GOODPUT, REPORTED_SHARE, REPORTED_SAFE = 17_500, 0.54, 8_000
SIZE = 8_000
# Cells per second offered: where the papers' two figures lie with all seeds, elsewhere with few.
JUDGED = (7_000, 7_500, 8_000, 9_000, 10_000, 11_000, 16_500, 17_000, 17_500, 18_000, 19_000)
AROUND = (2_000, 5_000, 14_000, 22_000, 26_000, 30_000)
RATES = tuple(sorted(JUDGED + AROUND))
FEW = 3
SIGNIFICANT = 0.01
CELL_LOSS = 0.001
IDEAL_SENDER = {"send_cell": "0us", "send_packet": "0us"}


def paced(size: int, cells_per_s: int, seconds: float, seed: int) -> Flood:
    """A stream at a rate that is a multiple of 1 cell per p milliseconds."""
    ticks = 1_000 // gcd(cells_per_s, 1_000)
    bucket = {"b": cells_per_s * ticks // 1_000, "p": ticks}
    rate = cells_per_s / packet_cells(size)
    return flood(size, rate, seconds, seed, shaping=bucket, receiver=PENTIUM_RECEIVER)


@experiment("mets/e1b", title="Goodput of a paced stream, by rate and packet size", paper=PAPER)
def e1b(context: Context) -> Report:
    """E1b, [N] figure 5 and [P] figure 6, lower: shaper on, the receiver's costs on."""
    seeds = context.seed_range()
    seconds = context.seconds or 60.0
    few = seeds[:FEW]
    jobs = [(rate, seed) for rate in reversed(RATES) for seed in (seeds if rate in JUDGED else few)]
    floods = run_all(context, "E1b, runs", lambda job: paced(SIZE, job[0], seconds, job[1]), jobs)
    by_rate: dict[int, list[Flood]] = {rate: [] for rate in RATES}
    for (rate, _), result in zip(jobs, floods, strict=True):
        by_rate[rate].append(result)
    loss = np.array([[one.loss for one in by_rate[rate]] for rate in JUDGED])
    sent = np.array([[one.sent for one in by_rate[rate]] for rate in JUDGED])
    by_size = run_all(
        context, "E1b, packet sizes", lambda size: goodput_of_size(size, min(seconds, 10.0), few), SIZES
    )
    most = fastest(SIZES[-1], min(seconds, 20.0), 1)
    by_cells = run_all(context, "E1b, one lost cell", lambda size: packet_loss(size, seconds), SIZES[3:])
    rows = rate_rows(loss, sent, most)
    rows.append(mechanism_row(by_cells))
    return Report(
        "mets/e1b",
        "METS E1b: goodput of a paced stream",
        rows,
        draw(by_rate, by_size, context),
    )


def rate_rows(loss: np.ndarray, sent: np.ndarray, most: float) -> list[Row]:
    """E1-4 to E1-6 from the judged rates; arrays have the shape rates, seeds."""
    goodput = np.array([best(one, rate) for one, rate in zip(loss.T, sent.T, strict=True)])
    first = np.array([next((r for r, v in zip(JUDGED, one, strict=True) if v > 0), np.inf) for one in loss.T])
    good, start = float(np.median(goodput)), float(np.median(first))
    at_7500 = float(np.median(loss[JUDGED.index(7_500)]))
    return [
        Row(
            "E1-4 goodput",
            "17 500 cells/s = 7.4 Mb/s",
            f"{thousands(good)} cells/s = {good * CELL_BITS / 1e6:.1f} Mb/s "
            f"({thousands(goodput.min())} to {thousands(goodput.max())})",
            "±3 %",
            judge(abs(good / REPORTED_GOODPUT - 1) <= 0.03),
            "highest rate with at most 1 % of the cells lost, packets of 8 kB",
        ),
        Row(
            "E1-5 goodput of the fastest sender",
            "54 %",
            f"{100 * good / most:.1f} %",
            "54.7 ±2 %",
            judge(abs(good / most - 0.547) <= 0.02),
        ),
        Row(
            "E1-6 drops begin",
            "beyond 8 000 cells/s",
            f"at {thousands(start)} cells/s ({thousands(first.min())} to {thousands(first.max())}); "
            f"{100 * at_7500:.3f} % at 7 500",
            "7 000 to 11 000; at most 0.01 % at 7 500",
            judge(7_000 <= start <= 11_000 and at_7500 <= 1e-4),
            "the least rate offered that lost a cell in 60 s",
        ),
    ]


def best(loss: np.ndarray, sent: np.ndarray) -> float:
    """The highest rate up to which no rate lost significantly."""
    over = np.flatnonzero(loss > SIGNIFICANT)
    fine = sent[: over[0]] if len(over) else sent
    return float(fine.max()) if len(fine) else 0.0


def goodput_of_size(size: int, seconds: float, seeds: range) -> float:
    """The highest rate in steps of 250 cells/s without significant loss, by bisection."""
    low, high, good = 0, 20_000, 0.0
    while high - low > 250:
        middle = (low + high) // 500 * 250
        runs = [paced(size, middle, seconds, seed) for seed in seeds]
        if np.median([run.loss for run in runs]) <= SIGNIFICANT:
            low, good = middle, max(good, float(np.median([run.sent for run in runs])))
        else:
            high = middle
    return good


def packet_loss(size: int, seconds: float) -> tuple[int, float, float]:
    """Cells of a packet, the share of packets lost on a link that loses cells, and what to expect."""
    cells = packet_cells(size)
    link = {"loss": {"bernoulli": CELL_LOSS}}
    rate = 20_000 / cells
    # What is delivered is counted when it is played, a second after it was sent.
    run = flood(
        size, rate, seconds, 1, shaping="off", receiver="ideal", link=link, sender=IDEAL_SENDER, drain_s=2.0
    )
    return cells, 1 - run.delivered / run.packets, 1 - (1 - CELL_LOSS) ** cells


def mechanism_row(by_cells: list[tuple[int, float, float]]) -> Row:
    """E1-7: a packet is lost with any of its cells."""
    lost = [share for _, share, _ in by_cells]
    close = all(abs(share - expected) <= 0.2 * expected + 0.01 for _, share, expected in by_cells)
    rising = all(one < two for one, two in itertools.pairwise(lost))
    (small, *_), (large, *_) = by_cells[0], by_cells[-1]
    return Row(
        "E1-7 one lost cell",
        "loses the packet; worse for larger packets",
        f"1 cell in 1000 lost: {100 * lost[0]:.1f} % of packets of {small} cells, "
        f"{100 * lost[-1]:.0f} % of {large} cells",
        "1 - (1 - p)^cells, within a fifth",
        judge(close and rising),
    )


def draw(by_rate: dict[int, list[Flood]], by_size: list[float], context: Context) -> str:
    """Delivered against offered, and goodput against packet size."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.8))
    offered = [np.median([one.sent for one in runs]) / 1e3 for runs in by_rate.values()]
    delivered = [np.median([one.sent * (1 - one.loss) for one in runs]) / 1e3 for runs in by_rate.values()]
    left.plot([0, 31], [0, 31], color="#98a2b3", ls=":", lw=1)
    left.plot(offered, delivered, marker="o", ms=3.5, color=style.LAYER_COLOURS["BL"], label="measured")
    for rate, text in ((REPORTED_SAFE, "8 000: drops begin"), (REPORTED_GOODPUT, "17 500: goodput")):
        left.axvline(rate / 1e3, color=style.ACCENT, ls="--", lw=1.1)
        left.text(rate / 1e3 + 0.4, 30.5, text, color=style.ACCENT, fontsize=8, rotation=90, va="top")
    left.set(
        xlabel="sent (1000 cells/s)",
        ylabel="taken by the receiver (1000 cells/s)",
        xlim=(0, 31),
        ylim=(0, 31),
    )
    left.set_title("Packets of 8 kB, medians", loc="left", fontsize=10)
    right.plot(SIZES, np.array(by_size) / 1e3, marker="o", ms=4, color=style.LAYER_COLOURS["BL"])
    right.axhline(REPORTED_GOODPUT / 1e3, color=style.ACCENT, ls="--", lw=1.1)
    style.log_sizes(right)
    right.set(ylabel="goodput (1000 cells/s)", ylim=(0, 20))
    right.set_title("At most 1 % of the cells lost", loc="left", fontsize=10)
    return style.save(figure, context.path("e1b"))
