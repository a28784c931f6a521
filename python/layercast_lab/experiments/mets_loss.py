"""METS E2: what a shaper does for the loss of several flows (specs/mets.md 4.4)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import run_all
from layercast_lab.testbed import PAPER, scenario, video_sizes, write_trace

FLOWS = range(1, 9)
FRAME_RATE = 12
MODES = {"regulated": {"b": 4, "p": 1}, "unregulated": "off"}
# What the papers print, in per cent.
REPORTED = {"regulated": {4.5: 10, 8: 33}, "unregulated": {4: 15, 8: 60}}
START_S = 2.0
PAUSES = "the sender's 200 us for a packet are a pause between frames, in which the receiver catches up"


@experiment(
    "mets/e2", title="Frames lost against the number of flows, with and without a shaper", paper=PAPER
)
def e2(context: Context) -> Report:
    """E2, [N] figure 6 and [P] figure 7: Canyon at 12 frames/s, one to eight times."""
    seeds = context.seed_range()
    jobs = [(mode, n, seed) for n in reversed(FLOWS) for mode in MODES for seed in seeds]
    lost = run_all(context, "E2, runs", lambda job: loss_percent(*job, context.seconds or 60.0), jobs)
    table = dict(zip(jobs, lost, strict=True))
    # Shape: flows, seeds.
    curves = {mode: np.array([[table[mode, n, s] for s in seeds] for n in FLOWS]) for mode in MODES}
    return Report(
        "mets/e2", "METS E2: METS packets lost, Canyon at 12 frames/s", rows(curves), draw(curves, context)
    )


def loss_percent(mode: str, flows: int, seed: int, seconds: float) -> float:
    """Per cent of the METS packets sent in one run that did not reach the transport of dwp.

    Every frame is labelled an I picture: a sink counts from the first I picture it gets, and so it
    counts all. Frames have the sizes of Canyon's I, P and B pictures. Flows start at random
    phases of the GOP.
    """
    rng = np.random.default_rng([seed, flows])
    with tempfile.TemporaryDirectory() as folder:
        entries = []
        for i in range(flows):
            sizes = video_sizes("canyon", round(seconds * FRAME_RATE), rng)
            entries.append(
                {
                    "name": f"canyon{i}",
                    "clip": {"trace": str(write_trace(Path(folder, f"{i}.trace"), sizes))},
                    "frame_rate": FRAME_RATE,
                    "start": f"{START_S + rng.uniform(0, 12 / FRAME_RATE):.6f}s",
                    "shaping": MODES[mode],
                    # A fixed playout point: nothing is dropped for coming late.
                    "delay_max": "1s",
                }
            )
        result = layercast.run(
            scenario("e2", seconds + START_S + 3, entries, admission=False), seed=seed, base_dir=folder
        )
    sent = sum(sum(flow["source"]["sent"].values()) for flow in result.summary["flows"])
    got = sum(int(r.count("frames").sum()) + r.data["late"] for r in result.receivers)
    return 100 * (1 - got / sent)


def rows(curves: dict[str, np.ndarray]) -> list[Row]:
    """The rows of specs/mets.md 5, each on the median over the seeds."""
    regulated, unregulated = (np.median(curves[mode], axis=1) for mode in MODES)
    rising = all(np.all(np.diff(curve[1:]) > 0) for curve in (regulated, unregulated))
    ordered = bool(np.all(regulated[1:] < unregulated[1:]))
    # Growth per flow before and after the fourth.
    steep = (unregulated[7] - unregulated[3]) / 4 > (unregulated[3] - unregulated[0]) / 3

    def number(name: str, reported: float, mode: str, n: int, low: float, high: float, inside: bool) -> Row:
        values = curves[mode][n - 1]
        median = float(np.median(values))
        ok = low <= median <= high and (not inside or values.min() <= reported <= values.max())
        return Row(
            name,
            f"{reported:g} %",
            f"{median:.1f} % ({values.min():.1f} to {values.max():.1f})",
            f"median {low:g} to {high:g} %" + (f", {reported:g} within the seeds" if inside else ""),
            judge(ok),
            "range over the start phases of the flows" if ok or mode == "regulated" else PAUSES,
        )

    crossing = crosses(regulated, 10.0)
    return [
        number("E2-1 unregulated, 4 flows", 15, "unregulated", 4, 7, 20, True),
        number("E2-2 unregulated, 8 flows", 60, "unregulated", 8, 40, 65, True),
        Row(
            "E2-3 regulated reaches 10 %",
            "at 4 flows, or as n approaches 5",
            f"at {crossing:.1f} flows" if crossing else "never",
            "between 4 and 6 flows",
            judge(crossing is not None and 4 <= crossing <= 6),
            "the papers say both"
            if crossing and crossing <= 6
            else "b = 4 is our guess; the papers do not give it",
        ),
        number("E2-4 regulated, 8 flows", 33, "regulated", 8, 25, 40, False),
        Row(
            "E2-5 shape",
            "regulated below; both rise; unregulated steep from 4",
            f"below: {yes(ordered)}; rising: {yes(rising)}; steeper beyond 4: {yes(steep)}",
            "medians, all n from 2",
            judge(rising and ordered and steep),
        ),
    ]


def crosses(curve: np.ndarray, level: float) -> float | None:
    """Number of flows at which a curve over 1, 2, ... flows first reaches a level."""
    above = np.flatnonzero(curve >= level)
    if not len(above):
        return None
    i = int(above[0])
    if i == 0:
        return 1.0
    return i + float((level - curve[i - 1]) / (curve[i] - curve[i - 1]))


def yes(what: bool | np.bool_) -> str:
    """As a word."""
    return "yes" if what else "no"


def draw(curves: dict[str, np.ndarray], context: Context) -> str:
    """Median and range over the seeds for both modes, and what the papers print."""
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    colours = {"regulated": style.LAYER_COLOURS["E1"], "unregulated": style.ACCENT}
    for mode, values in curves.items():
        median = np.median(values, axis=1)
        axis.fill_between(
            FLOWS, values.min(axis=1), values.max(axis=1), color=colours[mode], alpha=0.15, lw=0
        )
        axis.plot(FLOWS, median, marker="o", ms=4, color=colours[mode], label=f"{mode}, median and range")
        points = REPORTED[mode]
        axis.plot(
            points.keys(), points.values(), ls="", marker="D", ms=7, mfc="white", mec=colours[mode], mew=1.6,
            label=f"{mode}, as printed",
        )  # fmt: skip
    axis.set(xlabel="flows", ylabel="METS packets lost (%)", ylim=(0, 100), xticks=FLOWS)
    seeds = next(iter(curves.values())).shape[1]
    axis.set_title(f"Canyon at 12 frames/s, atc→dwp, {seeds} seeds", loc="left", fontsize=10)
    axis.legend(loc="upper left")
    return style.save(figure, context.path("e2"))
