"""METS E2 on real sockets, hosts of 1996 emulated (specs/mets.md 3.3, 4.4 and section 5, b2)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import sockets, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.mets_loss import FRAME_RATE, MODES, REPORTED, crosses, yes
from layercast_lab.sockets import RECEIVER_1996, SENDER_1996, Run
from layercast_lab.testbed import PAPER, video_sizes

FLOWS = (1, 2, 3, 4, 5, 6, 7, 8)
REPEATS = 5
SECONDS = 15.0
AT_ONCE = 3
# By how much a shaper has to be better, from four flows on.
GAP_POINTS = 5


@experiment("mets/e2-sockets", title="E2 on sockets: frames lost against the number of flows", paper=PAPER)
def e2_sockets(context: Context) -> Report:
    """E2 over loopback, one to eight flows of Canyon to one emulated receiver."""
    seeds = context.seed_range(REPEATS)
    seconds = context.seconds or SECONDS
    jobs = [(mode, n, seed) for n in reversed(FLOWS) for mode in MODES for seed in seeds]
    runs = dict(
        zip(
            jobs,
            sockets.run_together(context, "E2 on sockets", lambda j: canyon(*j, seconds), jobs, AT_ONCE),
            strict=True,
        )
    )
    lost = {job: lost_percent(run, seconds) for job, run in runs.items()}
    curves = {mode: np.array([[lost[mode, n, seed] for seed in seeds] for n in FLOWS]) for mode in MODES}
    table = [*rows(curves), sockets.kernel_row(runs.values())]
    title = "METS E2 on sockets: METS packets lost, Canyon at 12 frames/s"
    return Report("mets/e2-sockets", title, table, draw(curves, context))


def canyon(mode: str, flows: int, seed: int, seconds: float) -> Run:
    """Flows of Canyon at random phases, all frames labelled I pictures as in the simulator's E2."""
    rng = np.random.default_rng([seed, flows])
    entries = [
        sockets.flow(
            video_sizes("canyon", round((seconds + 1) * FRAME_RATE), rng),
            FRAME_RATE,
            start=rng.uniform(0, 12 / FRAME_RATE),
            shaping=MODES[mode],
        )
        for _ in range(flows)
    ]
    return sockets.run(
        {
            "seconds": seconds + 2,
            "seed": seed,
            "flows": entries,
            "sender": SENDER_1996,
            "receiver": RECEIVER_1996,
            "frames": True,
        }
    )


def lost_percent(run: Run, seconds: float) -> float:
    """Per cent of the packets sent in the first seconds that did not reach the transport of dwp.

    The flows continue for a second, so that packets in flight at the end are not lost with them.
    """
    arrived = np.concatenate([frames.arrived[frames.sent < seconds] for frames in run.flows])
    return 100 * float(np.isnan(arrived).mean())


def rows(curves: dict[str, np.ndarray]) -> list[Row]:
    """What section 5 asks of b2, and the numbers of the papers beside."""
    regulated, unregulated = (np.median(curves[mode], axis=1) for mode in MODES)
    gap = unregulated - regulated
    below = bool(np.all(gap[3:] > 0))
    steps = [float(np.diff(curve[3:]).min()) for curve in (regulated, unregulated)]
    rising = all(curve[7] > curve[3] >= curve[0] for curve in (regulated, unregulated))

    def number(name: str, mode: str, n: int) -> Row:
        values, reported = curves[mode][n - 1], REPORTED[mode].get(n)
        median = float(np.median(values))
        return Row(
            name,
            f"{reported:g} %",
            f"{median:.1f} % ({values.min():.1f} to {values.max():.1f})",
            "that of b1: " + {15: "7 to 20 %", 60: "40 to 65 %", 33: "25 to 40 %"}[reported],
            judge(
                {15: 7 <= median <= 20, 60: 40 <= median <= 65, 33: 25 <= median <= 40}[reported],
            ),
        )

    crossing = crosses(regulated, 10.0)
    return [
        Row(
            "E2-5 shape",
            "regulated below, both rise",
            f"regulated below by {gap[3:].min():.1f} to {gap[3:].max():.1f} points from 4 flows on; "
            f"both rise: {yes(rising)}, smallest step {min(steps):.1f} points",
            f"all n from 4, gap at least {GAP_POINTS} points",
            judge(below and rising and bool(np.all(gap[3:] >= GAP_POINTS))),
        ),
        number("E2-1 unregulated, 4 flows", "unregulated", 4),
        number("E2-2 unregulated, 8 flows", "unregulated", 8),
        Row(
            "E2-3 regulated reaches 10 %",
            "at 4 flows, or as n approaches 5",
            f"at {crossing:.1f} flows" if crossing else "never",
            "that of b1: between 4 and 6 flows",
            judge(crossing is not None and 4 <= crossing <= 6),
        ),
        number("E2-4 regulated, 8 flows", "regulated", 8),
    ]


def draw(curves: dict[str, np.ndarray], context: Context) -> str:
    """Median and range for both modes, and what the papers print."""
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    colours = {"regulated": style.LAYER_COLOURS["E1"], "unregulated": style.ACCENT}
    for mode, values in curves.items():
        colour = colours[mode]
        axis.fill_between(FLOWS, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.15, lw=0)
        axis.plot(
            FLOWS,
            np.median(values, axis=1),
            marker="o",
            ms=4,
            color=colour,
            label=f"{mode}, median and range",
        )
        printed = REPORTED[mode]
        axis.plot(
            printed.keys(), printed.values(), ls="", marker="D", ms=7, mfc="white", mec=colour, mew=1.6,
            label=f"{mode}, as printed",
        )  # fmt: skip
    axis.set(xlabel="flows", ylabel="METS packets lost (%)", ylim=(0, 100), xticks=FLOWS)
    repeats = next(iter(curves.values())).shape[1]
    axis.set_title(f"Canyon at 12 frames/s over loopback, {repeats} runs each", loc="left", fontsize=10)
    axis.legend(loc="upper left")
    return style.save(figure, context.path("e2-sockets"))
