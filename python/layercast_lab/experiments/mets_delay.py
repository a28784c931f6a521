"""METS E3: one-way delay of packets, one flow and several (specs/mets.md 4.5 and 4.6)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge, judge_shape
from layercast_lab.simulator import Frames, run_all, run_traced
from layercast_lab.testbed import PAPER, PENTIUM_SENDER, scenario

FLOWS = range(1, 9)
START_S = 2.0
# As printed in [N], in milliseconds.
REPORTED_ONE = {"min": 2, "mean": 4, "max": 19, "sd": 2}
REPORTED_MAX_8 = 61


def lougher(flows: int, seed: int, seconds: float) -> list[Frames]:
    """Frames of one run of N Lougher flows at 24 frames/s through a shaper of b = 17, p = 1."""
    entries = [
        {
            "name": f"lougher{i}",
            "clip": {"synthetic": "lougher"},
            "frame_rate": 24,
            "start": f"{START_S:g}s",
            "stop": f"{START_S + seconds:g}s",
            "random_phase": True,
            "shaping": {"b": 17, "p": 1},
            "delay_max": "1s",
        }
        for i in range(flows)
    ]
    # The frame clock and the shaper's timer of a machine do not start together.
    hosts = {"atc": PENTIUM_SENDER | {"random_clock": True}}
    return run_traced(scenario("e3", seconds + START_S + 2, entries, admission=False, hosts=hosts), seed)


def delays_of(flows: Sequence[Frames]) -> np.ndarray:
    """Delays in milliseconds of all packets of all flows."""
    return np.concatenate([frames.delay_ms for frames in flows])


@experiment("mets/e3a", title="One-way delay of a single flow", paper=PAPER)
def e3a(context: Context) -> Report:
    """E3a, [N] figure 7 and [P] figure 8: Lougher alone at 24 frames/s."""
    seeds = context.seed_range()
    seconds = context.seconds or 60.0
    runs = run_all(context, "E3a, seeds", lambda seed: lougher(1, seed, seconds)[0], seeds)
    figures = {"min": np.min, "mean": np.mean, "max": np.max, "sd": np.std}
    accepted = {"min": (1.8, 2.6), "mean": (3.5, 5), "max": (14, 24), "sd": (1.5, 2.5)}
    rows = []
    for name, figure in figures.items():
        values = np.array([figure(frames.delay_ms) for frames in runs])
        median, (low, high) = float(np.median(values)), accepted[name]
        ok = low <= median <= high
        rows.append(
            Row(
                f"E3-1 {name}",
                f"{REPORTED_ONE[name]} ms",
                f"{median:.1f} ms ({values.min():.1f} to {values.max():.1f})",
                f"median {low:g} to {high:g} ms",
                judge(ok),
            )
        )
    return Report("mets/e3a", "METS E3a: one-way delay of one flow", rows, draw_one(runs[0], context))


def draw_one(frames: Frames, context: Context) -> str:
    """Delay against time and its histogram, for one seed."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.4), width_ratios=[2.2, 1], sharey=True)
    arrived = ~np.isnan(frames.arrived)
    delay = frames.delay_ms
    left.plot(frames.sent[arrived] - START_S, delay, ".", ms=2.5, color=style.LAYER_COLOURS["BL"])
    left.axhline(delay.mean(), color=style.ACCENT, lw=1.2)
    left.text(
        0.99,
        0.97,
        f"mean {delay.mean():.1f} ms",
        color=style.ACCENT,
        transform=left.transAxes,
        ha="right",
        va="top",
    )
    left.set(xlabel="time (s)", ylabel="one-way delay (ms)", ylim=(0, None))
    left.set_title("Lougher at 24 frames/s (seed 1)", loc="left", fontsize=10)
    right.hist(delay, bins=60, orientation="horizontal", color=style.LAYER_COLOURS["E1"])
    right.set(xlabel="packets")
    return style.save(figure, context.path("e3a"))


@experiment("mets/e3b", title="One-way delay against the number of flows", paper=PAPER)
def e3b(context: Context) -> Report:
    """E3b, [N] figure 8 and [P] figure 9: Lougher one to eight times."""
    seeds = context.seed_range()
    seconds = context.seconds or 60.0
    jobs = [(n, seed) for n in reversed(FLOWS) for seed in seeds]

    def mean_and_max(job: tuple[int, int]) -> tuple[float, float]:
        delay = delays_of(lougher(*job, seconds))
        return float(delay.mean()), float(delay.max())

    table = dict(zip(jobs, run_all(context, "E3b, runs", mean_and_max, jobs), strict=True))
    mean, most = (np.array([[table[n, s][i] for s in seeds] for n in FLOWS]) for i in (0, 1))
    return Report(
        "mets/e3b",
        "METS E3b: one-way delay against the number of flows",
        rows_several(np.median(mean, axis=1), np.median(most, axis=1), most),
        draw_several(mean, most, context),
    )


def rows_several(mean: np.ndarray, most: np.ndarray, seeds: np.ndarray) -> list[Row]:
    """The rows of specs/mets.md 5: medians over the seeds, and the greatest delay of each seed."""
    growth = float(mean[7] - mean[0])
    monotone = bool(np.all(np.diff(most) >= 0))
    return [
        Row(
            "E3-2 mean, from 1 to 8 flows",
            "+6 ms (4 to about 10)",
            f"+{growth:.1f} ms ({mean[0]:.1f} to {mean[7]:.1f})",
            "+3 to +8 ms",
            judge(3 <= growth <= 8),
        ),
        Row(
            "E3-3 maximum, 8 flows",
            "61 ms, from 19 at one flow",
            f"{most[7]:.0f} ms ({seeds[7].min():.0f} to {seeds[7].max():.0f}), from {most[0]:.0f}",
            "median at least 35 ms and 1.6 times that of one flow",
            judge(most[7] >= 35 and most[7] >= 1.6 * most[0]),
            "61 is one draw of a long tail",
        ),
        Row(
            "E3-4 maximum by flows",
            "up to 20 ms at 1 and 2, 20-30 at 3, 30-40 at 4 to 6, 50-61 at 7 and 8",
            ", ".join(f"{value:.0f}" for value in most) + " ms",
            "rising, shape only",
            judge_shape(monotone),
            "restored from what is left of a plot"
            if monotone
            else "medians of maxima do not rise with every flow",
        ),
    ]


def draw_several(mean: np.ndarray, most: np.ndarray, context: Context) -> str:
    """Mean and greatest delay against the number of flows."""
    figure, axis = plt.subplots(figsize=(7.2, 4.0))
    for values, colour, name in ((most, style.ACCENT, "maximum"), (mean, style.LAYER_COLOURS["BL"], "mean")):
        axis.fill_between(FLOWS, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.15, lw=0)
        axis.plot(
            FLOWS,
            np.median(values, axis=1),
            marker="o",
            ms=4,
            color=colour,
            label=f"{name}, median and range",
        )
    printed = {"ls": "", "marker": "D", "ms": 7, "mfc": "white", "mew": 1.6}
    axis.plot(
        [1, 8],
        [REPORTED_ONE["max"], REPORTED_MAX_8],
        mec=style.ACCENT,
        label="maximum, as printed",
        **printed,
    )
    axis.plot([1, 8], [4, 10], mec=style.LAYER_COLOURS["BL"], label="mean, as printed", **printed)
    axis.set(xlabel="flows", ylabel="one-way delay (ms)", xticks=FLOWS, ylim=(0, None))
    axis.set_title(f"Lougher at 24 frames/s, atc→dwp, {mean.shape[1]} seeds", loc="left", fontsize=10)
    axis.legend(loc="upper left", ncols=2, fontsize=8.5)
    return style.save(figure, context.path("e3b"))
