"""INSANE B-1 and B-2: the two states of video (specs/insane-workloads.md 2.7, 3.2, 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.workloads import PAPER, VIDEO_MODEL, ask, samples, span, tell, video, whole
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

SECONDS = 5520.0
"""92 minutes: the seminar of 1 November 1995."""
US_A_BYTE, FRAME_S = 62.5, 0.125
B1 = "INSANE B-1: packets of video and the gaps after them"
JITTERS_MS = (0, 5, 10, 20, 40)
"""What a network may add to the time of a packet, uniformly from nothing."""
LABELLED = 40_000


@experiment("insane-workloads/b1", title=B1, paper=f"{PAPER}, figure B-2")
def b1(context: Context) -> Report:
    """Where the packets of the model lie, and whether they are distinguished though times are moved."""
    packets = video(context, "b1", 1, context.seconds or SECONDS)
    states = context.path("b1-states.csv")
    tell("analyze", "video", packets, "--out", states)
    found = ask("analyze", "video", packets)
    moved = [(ms, *told_apart(context, ms)) for ms in JITTERS_MS]
    rows = [*lines(found), *(recovered(*one) for one in moved)]
    return Report("insane-workloads/b1", B1, rows, scatter(states, moved, context.path("b1")))


def lines(found: Mapping[str, Any]) -> list[Row]:
    """The stream of the model itself."""
    slope, off = 1e6 * found["slope"]["slope"], found["off_lines"]
    return [
        Row(
            "gap of changed blocks",
            f"about 61 us a byte ({US_A_BYTE} by the rate)",
            f"{slope:.2f} us a byte",
            "5 % of 61",
            judge(abs(slope / 61 - 1) <= 0.05),
        ),
        Row(
            "packets off the two lines",
            "few",
            f"{whole(off * found['packets'])} of {whole(found['packets'])}",
            "none: no network",
            judge(off == 0),
        ),
    ]


def labelled(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, sizes and states (true for changed blocks) by the text of appendix B, from draws of our own."""
    runs = [samples(VIDEO_MODEL[name], number).astype(int) for name in ("packets_cr", "packets_bg")]
    turns = np.stack(runs, axis=1).ravel()
    motion = np.repeat(np.arange(len(turns)) % 2 == 0, turns)[:number]
    sizes = np.where(motion, *(samples(VIDEO_MODEL[name], number) for name in ("size_cr", "size_bg")))
    gaps = np.where(motion, sizes * US_A_BYTE * 1e-6, FRAME_S)
    return np.concatenate([[0], np.cumsum(gaps)[:-1]]), sizes, motion


def told_apart(context: Context, ms: float) -> tuple[float, float]:
    """The share of packets whose state is found, and the slope, when a network moves them."""
    times, sizes, motion = labelled(LABELLED)
    rng = np.random.default_rng(ms)
    # None overtakes another.
    late = np.maximum.accumulate(times + rng.uniform(0, ms / 1e3, len(times)))
    file, states = context.path(f"b1-{ms}ms.csv"), context.path(f"b1-{ms}ms-states.csv")
    np.savetxt(file, np.stack([late, sizes], axis=1), fmt=("%.6f", "%d"), delimiter=",")
    tell("analyze", "video", file, "--out", states)
    found = np.loadtxt(states, delimiter=",", skiprows=1, usecols=3, dtype=str) == "cr"
    slope = ask("analyze", "video", file)["slope"]["slope"]
    return float(np.mean(found == motion[:-1])), 1e6 * slope


def recovered(ms: float, share: float, slope: float) -> Row:
    """99 % on the lines; how much a network may move them is not said."""
    told = f"{share:.3%} right; {slope:.1f} us a byte"
    name = "states found" if ms == 0 else f"states found, times moved by up to {ms} ms"
    good = share >= 0.99
    return Row(name, "99 %", told, "at least", judge(good) if ms <= 20 else "open")


def scatter(states: Path, moved: Sequence[tuple[float, float, float]], path: Path) -> str:
    """Figure B-2, and how many are right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.8), width_ratios=(1.6, 1))
    table = np.loadtxt(states, delimiter=",", skiprows=1, usecols=(1, 2))
    motion = np.loadtxt(states, delimiter=",", skiprows=1, usecols=3, dtype=str) == "cr"
    sizes = np.array([0, 1100])
    left.plot(sizes, sizes * US_A_BYTE / 1e3, color="black", lw=0.8, label="62.5 us a byte")
    left.axhline(1e3 * FRAME_S, color="black", lw=0.8, ls=":", label="125 ms")
    for mask, name, colour in ((motion, "changed blocks", style.ACCENT), (~motion, "background", COLOURS[2])):
        # All would be a line without a point in it.
        some = np.flatnonzero(mask)[:: max(1, mask.sum() // 300)]
        left.plot(*table[some].T * np.array([[1], [1e3]]), ".", color=colour, ms=3, label=name)
    left.set(xlabel="packet (bytes)", ylabel="time to the next (ms)", xlim=(0, 1100), ylim=(0, 150))
    left.legend(loc="upper left", bbox_to_anchor=(0.02, 0.8), fontsize=8)
    right.plot([ms for ms, *_ in moved], [100 * share for _, share, _ in moved], "o-", color=COLOURS[0], ms=4)
    right.axhline(99, color=style.ACCENT, lw=1, ls="--", label="asked for: 99 %")
    right.set(xlabel="times moved by up to (ms)", ylabel="states found (%)")
    right.legend(loc="center left")
    return style.save(figure, path)


B2 = "INSANE B-2: the two states of video"
SEEDS = 10
TOLD = {
    "cr": ("changed blocks", 758, 5.03, 37, 27.9e6, 1744),
    "bg": ("background", 338, 4.43, 462, 10.9e6, 4031),
}
"""Of each state mean size, mean and longest run, bytes and seconds (3.2)."""


@experiment("insane-workloads/b2", title=B2, paper=f"{PAPER}, appendix B, figures B-3, B-4")
def b2(context: Context) -> Report:
    """As many seminars as seeds."""
    seconds = context.seconds or SECONDS
    seeds = context.seed_range(SEEDS)
    files = run_all(context, "B-2, seeds", lambda seed: video(context, "b2", seed, seconds), seeds)
    found = [ask("analyze", "video", file) for file in files]
    rows = [row for state in TOLD for row in moments(state, found)]
    rows += totals(found, context.seconds is None)
    states = context.path("b2-states.csv")
    tell("analyze", "video", files[0], "--out", states)
    return Report("insane-workloads/b2", B2, rows, states_drawn(states, context.path("b2")))


def moments(state: str, found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Sizes and runs of a state."""
    name, size, run, longest, *_ = TOLD[state]
    sizes = [one[state]["size"]["mean"] for one in found]
    runs, most = ([one[state]["run"][what] for one in found] for what in ("mean", "max"))
    # A single run of hundreds moves the mean of background runs.
    off = 0.03 if state == "cr" else 0.06
    near, long = abs(np.mean(sizes) / size - 1), abs(np.mean(runs) / run - 1)
    return [
        Row(
            f"{name}: packet, mean",
            f"{size} B",
            f"{span(sizes, '{:.1f}'.format)} B",
            "2 %",
            judge(near <= 0.02),
        ),
        Row(
            f"{name}: packets in a row, mean",
            f"{run}",
            span(runs),
            f"{off:.0%}",
            judge(long <= off),
        ),
        Row(
            f"{name}: packets in a row, most",
            f"{longest}",
            span(most, whole),
            "not above; a seed reaches half",
            judge(max(most) <= longest) if max(most) >= longest / 2 else "differs",
        ),
    ]


def totals(found: Sequence[Mapping[str, Any]], whole_length: bool) -> list[Row]:
    """What the seminar was made of; its rate is above that of the model made of it."""
    rates = [8 * one["bytes"] / one["seconds"] / 1e3 for one in found]
    shares = [one["cr"]["bytes"] / one["bytes"] for one in found]
    mean = float(np.mean(rates))
    rows = [
        Row(
            "rate, by the model's moments",
            "53.6 kb/s",
            f"{span(rates)} kb/s",
            "3 %",
            judge(abs(mean / 53.6 - 1) <= 0.03),
        ),
        Row(
            "rate of the seminar",
            "56 kb/s",
            f"{span(rates)} kb/s",
            "5 %",
            judge(abs(mean / 56 - 1) <= 0.05),
            "its moments take 5 775 s for what was sent in 5 520 s",
        ),
        Row(
            "changed blocks, of all bytes",
            "72 %",
            span(shares, "{:.1%}".format),
            "3 points",
            judge(abs(np.mean(shares) - 0.72) <= 0.03),
        ),
    ]
    if whole_length:
        packets, bytes = ([one[what] for one in found] for what in ("packets", "bytes"))
        near = abs(np.mean(packets) / 69_135 - 1) <= 0.1 and abs(np.mean(bytes) / 38.8e6 - 1) <= 0.1
        told = f"{span(packets, whole)}; {span([one / 1e6 for one in bytes])} MB"
        rows.append(Row("packets; bytes in 92 minutes", "69 135; 38.8 MB", told, "10 %", judge(near)))
    return rows


def states_drawn(states: Path, path: Path) -> str:
    """Figures B-3 and B-4."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7))
    sizes = np.loadtxt(states, delimiter=",", skiprows=1, usecols=1)
    motion = np.loadtxt(states, delimiter=",", skiprows=1, usecols=3, dtype=str) == "cr"
    turns = np.flatnonzero(np.diff(motion)) + 1
    runs = np.diff(turns)
    for number, (name, mask, of_runs) in enumerate(
        (
            ("changed blocks", motion, runs[motion[turns[:-1]]]),
            ("background", ~motion, runs[~motion[turns[:-1]]]),
        )
    ):
        for axis, values in ((left, sizes[mask]), (right, of_runs)):
            values = np.sort(values)
            steps = np.arange(1, len(values) + 1) / len(values)
            axis.step(values, steps, where="post", color=COLOURS[number], label=name)
            mean = values.mean()
            axis.plot(mean, np.interp(mean, values, steps), "o", color=COLOURS[number], ms=5)
    left.set(xlabel="packet (bytes)", ylabel="share of packets up to this")
    right.set(xscale="log", xlabel="packets in a row", ylabel="share of runs up to this")
    for axis in (left, right):
        axis.legend(title="dot: mean", loc="lower right")
    return style.save(figure, path)
