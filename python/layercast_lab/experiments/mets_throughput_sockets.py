"""METS E1a and E1b on real sockets, hosts of 1996 emulated (specs/mets.md 3.3, 4.2, 4.3, 5, class b2)."""

from __future__ import annotations

import math
from math import gcd

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import sockets, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.mets_goodput import REPORTED_GOODPUT, REPORTED_SAFE, SIZE, best
from layercast_lab.experiments.mets_throughput import MOST_FRAMES_PER_S, REPORTED_MAX, SIZES
from layercast_lab.sockets import RECEIVER_1996, SENDER_1996, Run
from layercast_lab.testbed import CELL_BITS, PAPER, packet_cells, thousands

REPEATS = 3
SECONDS = 4.0
# Cells per second offered in E1b.
RATES = (
    2_000,
    5_000,
    7_000,
    7_500,
    8_000,
    9_000,
    10_000,
    12_000,
    15_000,
    17_000,
    17_500,
    18_000,
    19_000,
    22_000,
)


def flood(
    size: int,
    packets_per_s: float,
    seconds: float,
    seed: int,
    *,
    shaping: object,
    sender: object,
    receiver: object,
) -> Run:
    """Packets of one size for some seconds; more than a flow may have frames come in several flows."""
    count = max(1, math.ceil(packets_per_s / MOST_FRAMES_PER_S))
    rate = packets_per_s / count
    flows = [
        sockets.flow([size] * math.ceil(rate * seconds), rate, start=i / packets_per_s, shaping=shaping)
        for i in range(count)
    ]
    return sockets.run(
        {"seconds": seconds, "seed": seed, "flows": flows, "sender": sender, "receiver": receiver}
    )


def fastest(size: int, seconds: float, seed: int) -> Run:
    """A sender that is given a third more than it can take, and a receiver that takes everything."""
    costs_us = SENDER_1996["send_cell"] * packet_cells(size) + SENDER_1996["send_packet"]
    # A clock of 10 ms releases two frames a tick: too few for small packets.
    sender = SENDER_1996 | {"clock_tick": 1_000}
    return flood(size, 1.33e6 / costs_us, seconds, seed, shaping="off", sender=sender, receiver={})


@experiment(
    "mets/e1a-sockets", title="E1a on sockets: most cells per second an emulated sender reaches", paper=PAPER
)
def e1a_sockets(context: Context) -> Report:
    """E1a over loopback: the costs of the sender are a spacing in real time, everything else is of today."""
    seeds = context.seed_range(REPEATS)
    jobs = [(size, seed) for size in SIZES for seed in seeds]
    runs = sockets.run_together(
        context, "E1a on sockets", lambda job: fastest(job[0], context.seconds or SECONDS, job[1]), jobs
    )
    rates = np.array([run.sent for run in runs]).reshape(len(SIZES), -1)
    curve = np.median(rates, axis=1)
    rising = bool(np.all(np.diff(curve) > 0))
    at_4k = float(curve[SIZES.index(4_000)] / curve.max())
    rows = [
        Row(
            "E1-1 fastest sender",
            "32 000 cells/s = 13.6 Mb/s",
            f"{thousands(curve[-1])} cells/s = {curve[-1] * CELL_BITS / 1e6:.1f} Mb/s "
            f"({thousands(rates[-1].min())} to {thousands(rates[-1].max())})",
            "±2 % (of b1; b2 asks for the shape only)",
            judge(abs(curve[-1] / REPORTED_MAX - 1) <= 0.02),
            "packets of 32 768 bytes",
        ),
        Row(
            "E1-3 shape",
            "rises with packet size, most at large packets",
            f"rising: {'yes' if rising else 'no'}; {100 * at_4k:.0f} % of the most at 4 kB",
            "monotone",
            judge(rising),
        ),
        sockets.kernel_row(runs),
    ]
    return Report("mets/e1a-sockets", "METS E1a on sockets: fastest sender", rows, draw_sizes(rates, context))


def draw_sizes(rates: np.ndarray, context: Context) -> str:
    """Cells per second against packet size, and what the costs alone would give."""
    figure, axis = plt.subplots(figsize=(7.2, 3.8))
    cells = np.array([packet_cells(size) for size in SIZES])
    ideal = 1e6 * cells / (SENDER_1996["send_cell"] * cells + SENDER_1996["send_packet"])
    axis.plot(SIZES, ideal / 1e3, color="#98a2b3", ls=":", label="the emulated costs")
    axis.plot(
        SIZES,
        np.median(rates, axis=1) / 1e3,
        marker="o",
        ms=4.5,
        color=style.LAYER_COLOURS["BL"],
        label="sockets",
    )
    axis.axhline(REPORTED_MAX / 1e3, color=style.ACCENT, ls="--", lw=1.2, label="as printed: 32 000 cells/s")
    style.log_sizes(axis)
    axis.set(ylabel="sent (1000 cells/s)", ylim=(0, 35))
    axis.set_title("Shaper off, receiver takes everything, over loopback", loc="left", fontsize=10)
    axis.legend(loc="lower right")
    return style.save(figure, context.path("e1a-sockets"))


def paced(cells_per_s: int, seconds: float, seed: int) -> Run:
    """Packets of 8 kB through the shaper, at a rate of 1 cell per p milliseconds."""
    ticks = 1_000 // gcd(cells_per_s, 1_000)
    bucket = {"b": cells_per_s * ticks // 1_000, "p": ticks}
    rate = cells_per_s / packet_cells(SIZE)
    return flood(SIZE, rate, seconds, seed, shaping=bucket, sender=SENDER_1996, receiver=RECEIVER_1996)


@experiment(
    "mets/e1b-sockets", title="E1b on sockets: what of a paced stream an emulated receiver takes", paper=PAPER
)
def e1b_sockets(context: Context) -> Report:
    """E1b over loopback: shaper on, sender and receiver of 1996 emulated, packets of 8 kB."""
    seeds = context.seed_range(REPEATS)
    seconds = context.seconds or 10.0
    jobs = [(rate, seed) for rate in RATES for seed in seeds]
    runs = sockets.run_together(context, "E1b on sockets", lambda job: paced(job[0], seconds, job[1]), jobs)
    most = fastest(SIZES[-1], min(seconds, SECONDS), 1)
    loss = np.array([run.cell_loss for run in runs]).reshape(len(RATES), -1)
    offered = np.array(RATES, dtype=float)[:, None].repeat(len(seeds), axis=1)
    goodput = np.array([best(one, rate) for one, rate in zip(loss.T, offered.T, strict=True)])
    # One run at one rate may fall into a moment in which this machine stood still: medians decide.
    middle = np.median(loss, axis=1)
    good = best(middle, np.array(RATES, dtype=float))
    start = next((rate for rate, lost in zip(RATES, middle, strict=True) if lost > 0), np.inf)
    share = good / most.sent
    at_7500 = float(np.median(loss[RATES.index(7_500)]))
    rows = [
        Row(
            "E1-4 goodput",
            "17 500 cells/s = 7.4 Mb/s",
            f"{thousands(good)} cells/s = {good * CELL_BITS / 1e6:.1f} Mb/s "
            f"(run by run {thousands(goodput.min())} to {thousands(goodput.max())})",
            "±3 % (of b1)",
            judge(abs(good / REPORTED_GOODPUT - 1) <= 0.03),
            "highest rate with at most 1 % of the cells lost in the median, packets of 8 kB",
        ),
        Row(
            "E1-5 goodput of the fastest sender",
            "54 %",
            f"{100 * share:.1f} %",
            "55 ±5 %",
            judge(abs(share - 0.55) <= 0.05),
        ),
        Row(
            "E1-6 drops begin",
            "beyond 8 000 cells/s",
            f"at {thousands(start)} cells/s; {100 * at_7500:.3f} % at 7 500",
            "7 000 to 11 000; at most 0.01 % at 7 500 (of b1)",
            judge(7_000 <= start <= 11_000 and at_7500 <= 1e-4),
            f"the least rate offered at which the median run of {seconds:g} s lost a cell",
        ),
        sockets.kernel_row([*runs, most]),
    ]
    return Report(
        "mets/e1b-sockets", "METS E1b on sockets: goodput of a paced stream", rows, draw_rates(loss, context)
    )


def draw_rates(loss: np.ndarray, context: Context) -> str:
    """Delivered against offered, and the loss."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.6))
    offered = np.array(RATES)
    left.plot([0, 23], [0, 23], color="#98a2b3", ls=":", lw=1)
    taken = offered[:, None] * (1 - loss) / 1e3
    left.fill_between(
        offered / 1e3, taken.min(axis=1), taken.max(axis=1), color=style.LAYER_COLOURS["E1"], alpha=0.3, lw=0
    )
    left.plot(offered / 1e3, np.median(taken, axis=1), marker="o", ms=3.5, color=style.LAYER_COLOURS["BL"])
    for rate, text in ((REPORTED_SAFE, "8 000: drops begin"), (REPORTED_GOODPUT, "17 500: goodput")):
        left.axvline(rate / 1e3, color=style.ACCENT, ls="--", lw=1.1)
        left.text(rate / 1e3 + 0.3, 1, text, color=style.ACCENT, fontsize=8, rotation=90)
    left.set(xlabel="offered (1000 cells/s)", ylabel="taken (1000 cells/s)", xlim=(0, 23), ylim=(0, 23))
    left.set_title("Packets of 8 kB over loopback", loc="left", fontsize=10)
    right.fill_between(
        offered / 1e3, 100 * loss.min(axis=1), 100 * loss.max(axis=1), color=style.ACCENT, alpha=0.15, lw=0
    )
    right.plot(offered / 1e3, 100 * np.median(loss, axis=1), marker="o", ms=3.5, color=style.ACCENT)
    right.axhline(1, color="#98a2b3", ls=":", lw=1)
    right.set(xlabel="offered (1000 cells/s)", ylabel="cells lost (%)")
    right.set_title("Median and range", loc="left", fontsize=10)
    return style.save(figure, context.path("e1b-sockets"))
