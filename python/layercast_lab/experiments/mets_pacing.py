"""METS E2c and E2d: what specs/mets.md 8 proposes beyond the papers: serial pacing, staggered phases."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import run_all
from layercast_lab.testbed import scenario, video_sizes, write_trace

FLOWS = range(1, 9)
FRAME_RATE = 12
START_S = 2.0
# The numbers beside ours are those of the throw-away model of specs/mets.md 4.9 and 8, not of any paper.
SPEC = "No paper: ideas of specs/mets.md 8, beside the numbers of its throw-away model"

SHAPERS: dict[str, Any] = {"none": "off", "paper (b = 4)": {"b": 4, "p": 1}, "serial": "serial"}
# Cell spacing of a drain rate that is right (nine tenths of what the receiver's processor takes), and
# of two that are too fast, as in specs/mets.md 8.
SPACING_US = {"62 µs (right)": None, "58 µs": 17_241, "50 µs": 20_000, "not advertised": 0}
COLOURS = {
    "none": style.ACCENT,
    "paper (b = 4)": style.LAYER_COLOURS["E1"],
    "serial": style.LAYER_COLOURS["BL"],
}


@dataclass(frozen=True)
class Outcome:
    """What one run gave over all its flows."""

    lost_percent: float
    """METS packets that did not reach the transport."""
    delay_ms: float
    """Median one-way delay of those that did, from their scheduled time on; the mean over the flows."""


def canyons(
    flows: int, seed: int, seconds: float, shaping: Any, phases: str = "random", drain: int | None = None
) -> Outcome:
    """N Canyon flows at 12 frames/s from atc to dwp, as in E2.

    `phases` of their starts: "random" over a GOP, "in step", or "staggered" over a frame period by the
    scenario. `drain` is what dwp says it takes in, in cells/s; none is what its costs allow.
    """
    rng = np.random.default_rng([seed, flows])
    with tempfile.TemporaryDirectory() as folder:
        entries: list[Mapping[str, Any]] = []
        for i in range(flows):
            sizes = video_sizes("canyon", round(seconds * FRAME_RATE), rng)
            phase = rng.uniform(0, 12 / FRAME_RATE)
            entries.append(
                {
                    "name": f"canyon{i}",
                    "clip": {"trace": str(write_trace(Path(folder, f"{i}.trace"), sizes))},
                    "frame_rate": FRAME_RATE,
                    "start": f"{START_S + (phase if phases == 'random' else 0):.6f}s",
                    "stagger": phases == "staggered",
                    "shaping": shaping,
                    "delay_max": "1s",
                }
            )
        setup = scenario("e2c", seconds + START_S + 3, entries, admission=False)
        if drain is not None:
            for receiver in setup["receiver"]:
                receiver["drain"] = f"{drain} cells/s"
        result = layercast.run(setup, seed=seed, base_dir=folder)
    sent = sum(sum(flow["source"]["sent"].values()) for flow in result.summary["flows"])
    got = sum(int(receiver.count("frames").sum()) + receiver.data["late"] for receiver in result.receivers)
    delays = [receiver.data["delay_ms"]["p50"] for receiver in result.receivers]
    return Outcome(100 * (1 - got / sent), float(np.mean(delays)))


@experiment(
    "mets/e2c", title="Frame-serial pacing at the receiver's rate, beside the paper's shaper", paper=SPEC
)
def e2c(context: Context) -> Report:
    """E2c: the set-up of E2, all flows of the sender through one pacer, frame after frame."""
    seeds = context.seed_range()
    seconds = context.seconds or 60.0
    jobs: list[tuple[str, str, int, int]] = [
        (shaper, "62 µs (right)", n, seed) for n in reversed(FLOWS) for shaper in SHAPERS for seed in seeds
    ]
    jobs += [("serial", spacing, 8, seed) for spacing in list(SPACING_US)[1:] for seed in seeds]

    def run(job: tuple[str, str, int, int]) -> Outcome:
        shaper, spacing, n, seed = job
        return canyons(n, seed, seconds, SHAPERS[shaper], drain=SPACING_US[spacing])

    table = dict(zip(jobs, run_all(context, "E2c, runs", run, jobs), strict=True))
    lost = {
        shaper: np.array([[table[shaper, "62 µs (right)", n, s].lost_percent for s in seeds] for n in FLOWS])
        for shaper in SHAPERS
    }
    delay = {
        shaper: np.array([[table[shaper, "62 µs (right)", n, s].delay_ms for s in seeds] for n in FLOWS])
        for shaper in SHAPERS
    }
    wrong = {
        spacing: np.array([table["serial", spacing, 8, s].lost_percent for s in seeds])
        for spacing in SPACING_US
    }
    return Report(
        "mets/e2c",
        "METS E2c: frame-serial pacing, Canyon at 12 frames/s",
        [*pacing_rows(lost, delay), *wrong_rows(wrong, lost)],
        draw_pacing(lost, wrong, context),
    )


def spread(values: np.ndarray) -> str:
    """Median and range, in per cent."""
    return f"{np.median(values):.1f} % ({values.min():.1f} to {values.max():.1f})"


def pacing_rows(lost: Mapping[str, np.ndarray], delay: Mapping[str, np.ndarray]) -> list[Row]:
    """What specs/mets.md 8 computes for eight flows."""
    serial, paper, none = (lost[shaper][7] for shaper in ("serial", "paper (b = 4)", "none"))
    medians = [float(np.median(values)) for values in (serial, paper, none)]
    serial_ms, paper_ms = (float(np.mean(delay[shaper][7])) for shaper in ("serial", "paper (b = 4)"))
    best = all(
        np.median(lost["serial"][i]) <= min(np.median(lost[s][i]) for s in SHAPERS) + 0.5
        for i in range(len(FLOWS))
    )
    narrow = float(np.ptp(serial)), float(np.ptp(paper))
    return [
        Row(
            "E2c-1 loss, 8 flows",
            "model: 10 % (9 to 12)",
            spread(serial),
            "median 7 to 13 %",
            judge(7 <= medians[0] <= 13),
        ),
        Row(
            "E2c-2 against the shaper and against none",
            "model: 29 % (23 to 94) and 51 %",
            f"{spread(paper)} and {spread(none)}",
            "serial at most two thirds of either",
            judge(medians[0] <= min(medians[1:]) / 1.5),
        ),
        Row(
            "E2c-3 delay, 8 flows",
            "model: mean 18 ms against 38 ms",
            f"{serial_ms:.0f} ms against {paper_ms:.0f} ms",
            "serial at most two thirds",
            judge(serial_ms <= paper_ms / 1.5),
            "medians of the packets that arrived; they count the 10 ms clock of the scheduler, too",
        ),
        Row(
            "E2c-4 start phases",
            "model: nearly insensitive",
            f"seeds {narrow[0]:.1f} points apart, {narrow[1]:.1f} with the shaper",
            "at most half as wide",
            judge(narrow[0] <= narrow[1] / 2),
        ),
        Row(
            "E2c-5 any number of flows",
            "–",
            "serial is the best or equal: " + ("yes" if best else "no"),
            "medians, within 0.5 points",
            judge(best),
        ),
    ]


def wrong_rows(wrong: Mapping[str, np.ndarray], lost: Mapping[str, np.ndarray]) -> list[Row]:
    """What a drain rate that is too high costs."""
    means = {spacing: float(values.mean()) for spacing, values in wrong.items()}
    fallback = float(np.median(wrong["not advertised"])) - float(np.median(lost["none"][7]))
    return [
        Row(
            "E2c-6 drain rate too high",
            "model: 11 % at 58 µs, 24 % at 50 µs",
            f"{means['58 µs']:.1f} % and {means['50 µs']:.1f} % (mean)",
            "7 to 15 % and 16 to 32 %",
            judge(7 <= means["58 µs"] <= 15 and 16 <= means["50 µs"] <= 32),
            "so the rate must be advertised: RES carries it",
        ),
        Row(
            "E2c-7 drain rate not advertised",
            "–",
            f"{spread(wrong['not advertised'])}: the bucket of 2.4 times the mean of each flow",
            "no worse than no shaper",
            judge(fallback <= 0),
            "n·b is above the drain there: specs/mets.md 4.9",
        ),
    ]


def draw_pacing(lost: Mapping[str, np.ndarray], wrong: Mapping[str, np.ndarray], context: Context) -> str:
    """Loss against flows, and against the advertised drain rate."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 4.0), width_ratios=[1.7, 1], sharey=True)
    for shaper, values in lost.items():
        left.fill_between(
            FLOWS, values.min(axis=1), values.max(axis=1), color=COLOURS[shaper], alpha=0.13, lw=0
        )
        left.plot(FLOWS, np.median(values, axis=1), marker="o", ms=4, color=COLOURS[shaper], label=shaper)
    model = {"none": 51, "paper (b = 4)": 29, "serial": 10}
    for shaper, value in model.items():
        left.plot([8], [value], ls="", marker="D", ms=6, mfc="white", mec=COLOURS[shaper], mew=1.4)
    left.plot(
        [], [], ls="", marker="D", ms=6, mfc="white", mec="#666", mew=1.4, label="model, specs/mets.md 8"
    )
    left.set(xlabel="flows", ylabel="METS packets lost (%)", ylim=(0, 100), xticks=FLOWS)
    seeds = next(iter(lost.values())).shape[1]
    left.set_title(f"Canyon at 12 frames/s, {seeds} seeds: median and range", loc="left", fontsize=10)
    left.legend(loc="upper left")
    right.boxplot(
        list(wrong.values()), tick_labels=[name.replace(" (", "\n(") for name in wrong], whis=(0, 100)
    )
    right.set_title("8 flows, serial, by cell spacing", loc="left", fontsize=10)
    return style.save(figure, context.path("e2c"))


PHASES = ("in step", "random", "staggered")
STAGGER_SHAPERS: dict[str, Any] = {"none": "off", "b = 5": {"b": 5, "p": 1}, "serial": "serial"}
STAGGER_FLOWS = (2, 4, 5, 6, 8)


@experiment("mets/e2d", title="Staggered start phases of the flows of one source", paper=SPEC)
def e2d(context: Context) -> Report:
    """E2d: the set-up of E2 with flows that start in step, at random, or k periods / n apart."""
    seeds = context.seed_range()
    seconds = context.seconds or 60.0
    jobs = [
        (shaper, phases, n, seed)
        for n in reversed(STAGGER_FLOWS)
        for shaper in STAGGER_SHAPERS
        for phases in PHASES
        for seed in seeds
    ]
    outcomes = run_all(
        context,
        "E2d, runs",
        lambda job: canyons(job[2], job[3], seconds, STAGGER_SHAPERS[job[0]], job[1]).lost_percent,
        jobs,
    )
    table = dict(zip(jobs, outcomes, strict=True))
    lost = {
        (shaper, phases): np.array([[table[shaper, phases, n, s] for s in seeds] for n in STAGGER_FLOWS])
        for shaper in STAGGER_SHAPERS
        for phases in PHASES
    }
    return Report(
        "mets/e2d", "METS E2d: phases of flows of one source", stagger_rows(lost), draw_phases(lost, context)
    )


def stagger_rows(lost: Mapping[tuple[str, str], np.ndarray]) -> list[Row]:
    """In step is the worst case of specs/mets.md 4.9; staggering is its cure."""

    def median(shaper: str, phases: str, n: int) -> float:
        return float(np.median(lost[shaper, phases][STAGGER_FLOWS.index(n)]))

    step = median("b = 5", "in step", 5), median("none", "in step", 5)

    def beats(shaper: str, other: str) -> bool:
        pairs = [(median(shaper, "staggered", n), median(shaper, other, n)) for n in STAGGER_FLOWS]
        return all(a <= b + 0.5 for a, b in pairs)

    rows = [
        Row(
            "E2d-1 all in step, 5 flows",
            "model: 99.9 % with b = 5, 71 % unshaped",
            f"{step[0]:.1f} %, {step[1]:.1f} %",
            "95 % or more; 60 to 82 %",
            judge(step[0] >= 95 and 60 <= step[1] <= 82),
        )
    ]
    for shaper in STAGGER_SHAPERS:
        figures = ", ".join(
            f"{phases} {median(shaper, phases, 4):.1f} / {median(shaper, phases, 8):.1f} %"
            for phases in PHASES
        )
        always = beats(shaper, "random")
        better = beats(shaper, "in step")
        rows.append(
            Row(
                f"E2d-2 staggered, {shaper}",
                "–",
                f"4 / 8 flows: {figures}",
                "never above in step nor the median of random phases (0.5 points)",
                judge(always and better),
            )
        )
    return rows


def draw_phases(lost: Mapping[tuple[str, str], np.ndarray], context: Context) -> str:
    """Loss against flows for the three kinds of phases, one panel for each shaper."""
    figure, axes = plt.subplots(1, 3, figsize=(9.2, 3.6), sharey=True)
    colours: Sequence[str] = (style.ACCENT, style.LAYER_COLOURS["E1"], style.LAYER_COLOURS["BL"])
    for axis, shaper in zip(axes, STAGGER_SHAPERS, strict=True):
        for phases, colour in zip(PHASES, colours, strict=True):
            values = lost[shaper, phases]
            axis.fill_between(
                STAGGER_FLOWS, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.13, lw=0
            )
            axis.plot(STAGGER_FLOWS, np.median(values, axis=1), marker="o", ms=4, color=colour, label=phases)
        axis.set(xlabel="flows", ylim=(0, 100), xticks=STAGGER_FLOWS)
        axis.set_title(f"shaper: {shaper}", loc="left", fontsize=10)
    axes[0].set(ylabel="METS packets lost (%)")
    axes[0].legend(loc="upper left")
    return style.save(figure, context.path("e2d"))
