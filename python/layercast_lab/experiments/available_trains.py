"""Available bandwidth: a file transfer that begins beside a train, and the table of indices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.available import MINUTE, NV, PAPER, ask, ftp, lags, poisson, run, windows, xi, xis
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

SOURCE = "F. Davoli, O. Khan, P. Maryni, Estimating the available bandwidth for real-time traffic, PfHSN 1996"
START = 5_000
"""The packet at which the file transfer begins."""
UPPER = PAPER | {"eps": 0.9}
SHORT = PAPER | {"n": 10}
BURSTS = {1: 3.3, 2: 7.2, 4: 13.2, 8: 17.2, 11: 19.1, 16: 20.4}
"""Index in ms of the prototype of the specification, by segments of an acknowledgement."""
POISSON = {0.2: 0.9, 0.4: 1.8, 0.6: 2.9, 0.8: 3.9, 0.9: 4.6, 0.95: 4.9}
"""The same by the load of packets of 700 bytes."""
WITHIN_S = 0.2
"""A frame of video is in time if it is whole by then: two frame times."""
GRADES = {"best": 0.99, "medium": 0.9, "sufficient": 0.75}
"""Frames in time that a level needs."""


def beginning(context: Context) -> dict[str, Any]:
    """100 s, of which the second half has a file transfer; there is nothing random in it."""
    whole = Context(context.out, seeds=1, progress=context.progress)
    analyses = [PAPER, UPPER, SHORT]
    return run(whole, "train, ftp from 50 s", [[ftp(start_s=50.0)]], probes=10_000, analyses=analyses)[0][0]


def near(measured: list[float], prototype: dict[Any, float]) -> bool:
    """Whether each index is within 15 % or 0.5 ms of that of the prototype."""
    pairs = zip(measured, prototype.values(), strict=True)
    return all(abs(index - wanted) <= max(0.5, 0.15 * wanted) for index, wanted in pairs)


def points(path: Path, x: np.ndarray, y: np.ndarray, labels: tuple[str, str], top: float) -> str:
    """A scatter diagram."""
    figure, axis = plt.subplots(figsize=(6.2, 3.4))
    axis.plot(x, y, ".", ms=2, color=COLOURS[0])
    axis.set(xlabel=labels[0], ylabel=labels[1], ylim=(0, top))
    return style.save(figure, path)


@experiment(
    "available-bandwidth/e1",
    title="Lags before and after a file transfer begins",
    paper=f"{SOURCE}, figure 2",
)
def e1(context: Context) -> Report:
    """The lags themselves."""
    slots, values = lags(beginning(context)).T
    before, after = values[slots < START], values[slots > START + 10]
    off = float(np.abs(before - 10).max())
    near, top = float(np.mean(after < 1)), float(np.quantile(after, 0.99))
    rows = [
        Row(
            "before: lags at T",
            "gathered at 10 ms (figure only)",
            f"{off:.3f} ms off at most",
            "0.1 ms",
            judge(off <= 0.1),
        ),
        Row(
            "after: lags close to 0",
            "many (figure only)",
            f"{100 * near:.0f} % below 1 ms",
            "at least 10 %",
            judge(near >= 0.1),
        ),
        Row(
            "after: spread of the lags",
            "up to about 20 ms (axis)",
            f"{top:.1f} ms (99th percentile)",
            "15 to 25 ms",
            judge(15 <= top <= 25),
            "" if 15 <= top <= 25 else "one burst of four segments of 1500 bytes occupies the line for 31 ms",
        ),
    ]
    figure = points(context.path("lags.png"), slots, values, ("packet", "lag (ms)"), 40)
    return Report("available-bandwidth/e1", "Lags before and after a file transfer begins", rows, figure)


@experiment("available-bandwidth/e2", title="Window means of the lags", paper=f"{SOURCE}, figure 3")
def e2(context: Context) -> Report:
    """Their means in windows of ten."""
    values = 1e3 * windows(beginning(context), "mean_ms")
    before, after = values[:499], values[502:]
    off = float(np.abs(before - 1e4).max())
    low, high = np.quantile(after, (0.025, 0.975))
    rows = [
        Row(
            "before",
            "about 10 000 us (figure only)",
            f"{off:.0f} us off at most",
            "100 us",
            judge(off <= 100),
        ),
        Row(
            "after: 95 % of the windows",
            "roughly 6000 to 15 000 us (axis)",
            f"{low:.0f} to {high:.0f} us",
            "within these limits, at least 3000 us apart",
            judge(low >= 6_000 and high <= 15_000 and high - low >= 3_000),
        ),
        Row(
            "after: the period persists",
            "ours",
            f"{after.mean():.0f} us in the mean",
            "10 000 us within 2 %",
            judge(abs(after.mean() - 1e4) <= 200),
        ),
    ]
    figure = points(
        context.path("means.png"), np.arange(len(values)), values / 1e3, ("window of 10", "mean (ms)"), 20
    )
    return Report("available-bandwidth/e2", "Window means of the lags", rows, figure)


@experiment("available-bandwidth/e3", title="Window deviations of the lags", paper=f"{SOURCE}, figure 4")
def e3(context: Context) -> Report:
    """Their deviations in windows of ten."""
    values = windows(beginning(context), "sd_ms")
    before, after = float(values[:499].max()), float(np.quantile(values[502:], 0.1))
    rows = [
        Row(
            "deviation after the file transfer begins",
            "clearly higher (figure only)",
            f"nine of ten windows above {after:.1f} ms, before at most {before:.3f} ms",
            "ten times as much",
            judge(after > 10 * before and after > 1),
        )
    ]
    figure = points(
        context.path("deviations.png"), np.arange(len(values)), values, ("window of 10", "deviation (ms)"), 25
    )
    return Report("available-bandwidth/e3", "Window deviations of the lags", rows, figure)


def jump(values: np.ndarray) -> int:
    """The first block, from 1, whose index is above 4 ms."""
    return int(np.argmax(values > 4)) + 1


@experiment(
    "available-bandwidth/e5",
    title="The index of each block, with a file transfer from 50 s on",
    paper=f"{SOURCE}, figure 6",
)
def e5(context: Context) -> Report:
    """The index, and why its jump is where it is."""
    found = beginning(context)
    low, high, short = (xis(found, at) for at in range(3))
    before, after = low[:17], low[17:33]
    rows = [
        Row(
            "A1 abrupt change",
            "right after block 17",
            f"block {jump(low)} is the first of the high ones",
            "18",
            judge(jump(low) == 18),
        ),
        Row(
            "A1 blocks 1 to 17",
            "low (figure only)",
            f"{before.max():.3f} ms at most",
            "below 1 ms",
            judge(bool(before.max() < 1)),
        ),
        Row(
            "A1 blocks 18 to 33",
            "high (figure only)",
            f"{after.min():.1f} to {after.max():.1f} ms",
            "above 8 ms",
            judge(bool(after.min() > 8)),
        ),
        Row(
            "A2 abrupt change of the percentile 0.9",
            "ours: block 17, since 20 of its 30 windows are quiet",
            f"block {jump(high)}",
            "17",
            judge(jump(high) == 17),
        ),
        Row(
            "n = 10 in place of 30 (subscript of table 1)",
            "ours: the index is insensitive to n",
            f"{short[60:].mean():.1f} beside {after.mean():.1f} ms",
            "10 %",
            judge(abs(short[60:].mean() / after.mean() - 1) <= 0.1),
        ),
    ]
    figure, axis = plt.subplots(figsize=(6.2, 3.4))
    for colour, (label, values) in zip(COLOURS, {"0.3": low, "0.9": high}.items(), strict=False):
        axis.step(
            np.arange(1, len(values) + 1), values, where="mid", color=colour, label=f"percentile {label}"
        )
    axis.set(xlabel="block of 30 windows", ylabel="index (ms)", ylim=(0, None))
    axis.legend()
    picture = style.save(figure, context.path("index.png"))
    return Report("available-bandwidth/e5", "The index of each block", rows, picture)


@experiment(
    "available-bandwidth/e6",
    title="The index of an empty path, of video, of a file transfer",
    paper=f"{SOURCE}, table 1",
)
def e6(context: Context) -> Report:
    """Table 1, and how the index depends on bursts and load."""
    beside: list[list[dict[str, Any]]] = [[], [NV], [ftp()], [NV, ftp()]]
    beside += [[ftp(burst)] for burst in BURSTS] + [[poisson(load)] for load in POISSON]
    found = run(context, "train beside others", [*beside, [ftp(1, start_s=10.0)]])
    smooth = found.pop()
    empty, video, bulk, both = (xi(one) for one in found[:4])
    bursts = [xi(one) for one in found[4 : 4 + len(BURSTS)]]
    loads = [xi(one) for one in found[4 + len(BURSTS) :]]
    large = bursts[2:]
    # Without the blocks before the file transfer and the one in which it begins.
    blocks = [it for one in smooth for it in one["analyses"][0]["outcomes"][4:]]
    queue = np.mean([it["queue_ms"] for it in blocks])
    index = np.mean([it["xi_ms"] for it in blocks])
    rows = [
        Row("A3 empty path", "0", f"{empty:.2f} ms", "at most 0.1 ms", judge(empty <= 0.1)),
        Row(
            "A3 one nv",
            "5",
            f"{video:.1f} ms",
            "1.5 ms",
            judge(abs(video - 5) <= 1.5),
            "rate and frame rate of nv are fitted to this",
        ),
        Row(
            "A3 one ftp",
            "12",
            f"{bulk:.1f} ms",
            "1.5 ms",
            judge(abs(bulk - 12) <= 1.5),
            "the burst of four segments is fitted to this",
        ),
        Row(
            "A4 order, bursts of 4, 8, 11, 16 segments",
            "empty < nv < ftp",
            f"{empty:.1f} < {video:.1f} < {', '.join(f'{it:.1f}' for it in large)} ms",
            "each",
            judge(all(empty < video < it for it in large)),
        ),
        Row(
            "A5 nv and ftp together",
            "best is refused (12 ms)",
            f"{both:.1f} ms",
            "above 12 ms",
            judge(both > 12),
        ),
        Row(
            "ftp by segments of an acknowledgement: 1, 2, 4, 8, 11, 16",
            "prototype: " + " ".join(f"{it:.1f}" for it in BURSTS.values()) + " ms",
            " ".join(f"{it:.1f}" for it in bursts) + " ms",
            "15 % or 0.5 ms",
            judge(
                near(bursts, BURSTS),
            ),
        ),
        Row(
            "packets of 700 bytes at random, load 0.2, 0.4, 0.6, 0.8, 0.9, 0.95",
            "prototype: " + " ".join(f"{it:.1f}" for it in POISSON.values()) + " ms",
            " ".join(f"{it:.1f}" for it in loads) + " ms",
            "15 % or 0.5 ms",
            judge(
                near(loads, POISSON),
            ),
        ),
        Row(
            "ftp with an acknowledgement for each segment from 10 s on: level of the queue",
            "ours: seen by the level, though the index is low",
            f"{queue:.1f} ms beside an index of {index:.1f} ms",
            "level above 5 ms",
            judge(bool(queue > 5)),
        ),
    ]
    figure, axis = plt.subplots(figsize=(6.2, 3.4))
    axis.plot(list(POISSON), loads, "o-", color=COLOURS[0], label="packets at random, by load")
    axis.plot([1] * len(bursts), bursts, "s", color=COLOURS[1], label="ftp, by burst (1 to 16 segments)")
    axis.set(xlabel="load of the line", ylabel="index (ms)", ylim=(0, None))
    axis.legend()
    return Report(
        "available-bandwidth/e6",
        "The index of three situations",
        rows,
        style.save(figure, context.path("table.png")),
    )


def grade(found: dict[str, Any]) -> str:
    """The level that the video of a run had."""
    frames = [it is not None and it <= WITHIN_S for it in found["frames"]]
    share = float(np.mean(frames)) if frames else 0.0
    return next((name for name, least in GRADES.items() if share >= least), "none")


@experiment("available-bandwidth/e7", title="Thresholds of three levels of nv", paper=f"{SOURCE}, table 2")
def e7(context: Context) -> Report:
    """Table 2, from runs of the video under loads."""
    beside: list[list[dict[str, Any]]] = [[NV]]
    beside += [[NV, ftp(burst)] for burst in (1, 2, 4, 6, 8, 11, 14, 16)]
    beside += [[NV, poisson(load)] for load in (0.2, 0.4, 0.6, 0.7)]
    found = run(context, "nv beside others", beside, probes=MINUTE)
    runs = [(xi([one]), grade(one)) for many in found for one in many]
    reached = [name for name in GRADES if any(quality == name for _, quality in runs)]
    service = ask("calibrate", name="nv", levels=reached, runs=runs)
    thresholds = {level["name"]: level["xi_max_ms"] for level in service["level"]}
    alone, beside_ftp = (
        runs[0][0],
        float(np.mean([xi_ms for xi_ms, _ in runs[3 * len(found[0]) : 4 * len(found[0])]])),
    )
    expected = {"best": 12.0, "medium": 20.0, "sufficient": 25.0}
    rows = [
        Row(
            "nv alone, by the table of the paper",
            "best",
            f"{alone:.1f} ms",
            "below 12 ms",
            judge(alone < 12),
        ),
        Row(
            "nv beside ftp, by the table of the paper",
            "cannot run at best quality",
            f"{beside_ftp:.1f} ms",
            "12 ms or more",
            judge(beside_ftp >= 12),
        ),
    ]
    for name, told in expected.items():
        value = thresholds.get(name)
        share = f"{100 * GRADES[name]:.0f} % of the frames whole within {1e3 * WITHIN_S:.0f} ms"
        rows.append(
            Row(
                f"threshold of {name}: {share}",
                f"{told:.0f} ms",
                "no run has this level as its best" if value is None else f"{value:.1f} ms",
                "30 %",
                judge(value is not None and abs(value / told - 1) <= 0.3),
                "the paper judges pictures by eye and tells neither load nor play-out",
            )
        )
    figure, axis = plt.subplots(figsize=(6.2, 3.4))
    shares = [
        np.mean([it is not None and it <= WITHIN_S for it in one["frames"]]) for many in found for one in many
    ]
    axis.plot([it for it, _ in runs], 100 * np.array(shares), "o", ms=4, color=COLOURS[0])
    for name, told in expected.items():
        axis.axvline(told, color="0.6", ls=":", lw=1)
        axis.text(told, 2, name, rotation=90, fontsize=8)
    axis.set(xlabel="index (ms)", ylabel="frames in time (%)", ylim=(0, 102))
    return Report(
        "available-bandwidth/e7",
        "Thresholds of three levels of nv",
        rows,
        style.save(figure, context.path("thresholds.png")),
    )
