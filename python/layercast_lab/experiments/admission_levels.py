"""Admission control: the algorithm of the paper, which adapts its window to a promise of late bits."""

from __future__ import annotations

from typing import Any

from layercast_lab import style
from layercast_lab.admission import (
    FIXED,
    HOURS,
    PAPER,
    RANDOM,
    TARGETS,
    Found,
    ask,
    falls,
    levels,
    mean,
    rises,
    runs,
    summary,
)
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.style import plt

EQUAL = {
    0.01: (4.71, 25.3, 0.0122, 85.85),
    0.05: (3.94, 25.7, 0.0530, 87.19),
    0.1: (3.95, 26.1, 0.1201, 86.94),
    0.2: (3.48, 25.9, 0.2058, 88.06),
    1.0: (2.19, 27.4, 1.0139, 91.00),
    2.0: (1.72, 27.7, 2.0060, 92.36),
}
"""Table 4 by target: mean window in s, admitted calls, late bits and utilisation in percent."""
UNEQUAL = {
    0.01: (7.15, 21.3, 0.0232, 74.86),
    0.05: (6.00, 22.5, 0.0498, 77.32),
    0.1: (5.65, 22.7, 0.1048, 78.05),
    0.2: (4.65, 23.4, 0.2080, 80.82),
    1.0: (3.30, 24.4, 0.9988, 84.51),
    2.0: (2.72, 25.8, 1.9809, 86.59),
}
"""Table 5."""
OWN = (77.4, 80.4, 81.3, 82.9, 87.0, 88.9)
"""Utilisation of a prototype by target, calls declaring their own peak."""
INDEPENDENT = (73.9, 76.8, 78.8, 80.2, 84.5, 86.9)
"""The same, calls declaring a peak drawn independently."""


def promised(context: Context, what: str, **other: Any) -> dict[float, Found]:
    """Runs by target."""
    settings = [{"target": target, "algorithm": levels()} | other for target in TARGETS]
    return dict(zip(TARGETS, runs(context, f"admission, {what}", settings), strict=True))


def told(row: tuple[float, ...]) -> str:
    """A row of tables 4 to 6."""
    window, admitted, late, utilisation = row
    return f"W {window} s, admitted {admitted} %, late {late} %, utilisation {utilisation} %"


def late_is(found: Found, target: float) -> bool:
    """Whether the promise is met: 5 % or 0.01 points."""
    return abs(mean(found, "late") - target) <= max(0.05 * target, 0.01)


def orders(found: dict[float, Found]) -> Row:
    """What holds between targets."""
    windows = [mean(it, "window_s") for it in found.values()]
    used = [mean(it, "utilisation") for it in found.values()]
    return Row(
        "looser targets",
        "shorter windows, more calls, higher utilisation",
        "W "
        + ", ".join(f"{it:.2f}" for it in windows)
        + " s; utilisation "
        + ", ".join(f"{it:.1f}" for it in used)
        + " %",
        "windows fall, utilisation rises",
        judge(falls(windows) and rises(used)),
    )


def picture(context: Context, name: str, curves: dict[str, Any]) -> str:
    """Late bits and utilisation by target; a curve is runs by target or rows of the paper."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.6))
    left.plot(TARGETS, TARGETS, color="0.6", lw=1, ls=":")
    for colour, marker, (label, curve) in zip(COLOURS, MARKERS, curves.items(), strict=False):
        values = [
            (row[2], row[3]) if isinstance(row, tuple) else (mean(row, "late"), mean(row, "utilisation"))
            for row in curve.values()
        ]
        look = {"color": colour, "marker": marker, "ms": 4, "label": label}
        left.plot(TARGETS, [late for late, _ in values], **look)
        right.plot(TARGETS, [used for _, used in values], **look)
    left.set(xscale="log", yscale="log", xlabel="target (% late)", ylabel="late bits (%)")
    right.set(xscale="log", xlabel="target (% late)", ylabel="utilisation (%)")
    left.legend(fontsize=8.5)
    return style.save(figure, context.path(name))


def packets(context: Context, fluid: Found) -> Row:
    """The version with packets beside the fluid."""
    setting = {"target": 1.0, "algorithm": levels(), "peaks": FIXED, "packets": True}
    (found,) = runs(context, "admission, packets", [setting], seeds=1)
    off = abs(mean(found, "utilisation") - EQUAL[1.0][3])
    late = mean(found, "late")
    return Row(
        "B8 packets of 1 kbit, target 1 %",
        told(EQUAL[1.0]),
        f"{summary(found)}; fluid {mean(fluid, 'utilisation'):.2f} %",
        "utilisation ± 1 point, late ± 10 %",
        judge(off <= 1 and 0.9 <= late <= 1.1),
        "one seed",
    )


def same(context: Context) -> Row:
    """Whether runs of one seed have one log."""
    setting = {"target": 1.0, "algorithm": levels(), "seconds": 3_600.0, "seed": 1}
    one, two, other = ask("run", settings=[setting, setting, setting | {"seed": 2}])
    return Row(
        "B9 log of all events and decisions by seed",
        "ours",
        f"seed 1: {one['log']}, {two['log']}; seed 2: {other['log']}",
        "equal for one seed",
        judge(one == two and one["log"] != other["log"]),
        "the crate's tests compare a log with a recorded one on every machine",
    )


@experiment("admission-control/m4", title="Equal sources by target", paper=f"{PAPER}, table 4")
def m4(context: Context) -> Report:
    """Twelve hours of calls of 64 kbit/s: late bits go to the target, and the window with them."""
    found = promised(context, "equal sources", peaks=FIXED)
    rows = []
    for target, row in EQUAL.items():
        it = found[target]
        used = abs(mean(it, "utilisation") - row[3]) <= (3 if target == 0.01 else 2)
        late = target < 0.1 or late_is(it, target)
        window = target < 0.05 or abs(mean(it, "window_s") / row[0] - 1) <= 0.25
        limits = ["utilisation ± 3 points" if target == 0.01 else "utilisation ± 2 points"]
        limits += ["late ± 5 % or 0.01 points"] if target >= 0.1 else []
        limits += ["W ± 25 %"] if target >= 0.05 else []
        verdict = judge(used and late and window)
        rows.append(Row(f"B3 target {target} %", told(row), summary(it), ", ".join(limits), verdict))
    rows += [orders(found), packets(context, found[1.0]), same(context)]
    path = picture(context, "mbac-m4", {"paper": EQUAL, "runs": found})
    return Report("admission-control/m4", m4.__doc__ or "", rows, path)


@experiment("admission-control/m5", title="Unequal sources by target", paper=f"{PAPER}, table 5")
def m5(context: Context) -> Report:
    """The same with exponential peak rates, declared as they are or drawn independently."""
    own = promised(context, "own peaks declared", peaks=RANDOM, declared="peak")
    other = promised(context, "independent peaks declared", peaks=RANDOM, declared="independent")
    rows = []
    for target, paper, a, b in zip(TARGETS, UNEQUAL.values(), OWN, INDEPENDENT, strict=True):
        first, second = mean(own[target], "utilisation"), mean(other[target], "utilisation")
        rows.append(
            Row(
                f"B4 target {target} %, own peak declared",
                f"prototype: utilisation {a} %",
                summary(own[target]),
                "utilisation ± 2 points",
                judge(abs(first - a) <= 2),
                "as the text of the paper says; small calls are favoured",
            )
        )
        near = abs(second - paper[3]) <= 2 and abs(second - b) <= 2
        rows.append(
            Row(
                f"B4 target {target} %, independent peak declared",
                f"{told(paper)}; a simulation of ours had {b} %",
                summary(other[target]),
                "utilisation ± 2 points of both",
                judge(near),
                "as the numbers of the paper say (specs/admission-control.md 6, point 7)",
            )
        )
    rows += [orders(own), sizes(context, own[0.1])]
    path = picture(context, "mbac-m5", {"paper": UNEQUAL, "own peak": own, "independent peak": other})
    return Report("admission-control/m5", m5.__doc__ or "", rows, path)


def by_size(found: Found) -> dict[str, float]:
    """Admitted share of the requests in percent, by declared peak below and above 128 kbit/s."""
    counts: dict[str, list[int]] = {"below 128 kbit/s": [0, 0], "above": [0, 0]}
    for run in found:
        for power, size in run["sizes"]:
            entry = counts["below 128 kbit/s" if power < 17 else "above"]
            entry[0] += size["offered"]
            entry[1] += size["admitted"]
    return {name: 100 * admitted / max(offered, 1) for name, (offered, admitted) in counts.items()}


def sizes(context: Context, plain: Found) -> Row:
    """Whether large calls get their share, without and with a wait of the smaller ones."""
    setting = {
        "target": 0.1,
        "algorithm": levels(),
        "peaks": RANDOM,
        "declared": "peak",
        "fair_block": True,
    }
    (fair,) = runs(context, "admission, fair to large calls", [setting], seeds=2)

    def bias(found: Found) -> float:
        """By how much more of the small calls than of the large ones are admitted: 0 is no bias."""
        small, large = by_size(found).values()
        return small / max(large, 1e-9) - 1

    small, large = by_size(plain).values()
    fair_small, fair_large = by_size(fair).values()
    return Row(
        "admitted of the calls below and above 128 kbit/s, target 0.1 %",
        "ours",
        f"{small:.1f} and {large:.1f} %; small calls wait for refused large ones: {fair_small:.1f}"
        f" and {fair_large:.1f} %",
        "the wait at least halves the bias",
        judge(abs(bias(fair)) <= abs(bias(plain)) / 2),
        f"utilisation {mean(plain, 'utilisation'):.1f} and {mean(fair, 'utilisation'):.1f} %",
    )


@experiment(
    "admission-control/m6", title="Late bits and trigger over 12 hours", paper=f"{PAPER}, figures 4 and 5"
)
def m6(context: Context) -> Report:
    """Late bits since the start rise, then converge; the trigger rises while they are below the target."""
    targets = (1.0, 0.1, 0.01)
    length = context.seconds or HOURS
    settings = [
        {
            "target": target,
            "algorithm": levels(),
            "peaks": RANDOM,
            "declared": "independent",
            "points_s": length / 432,
        }
        for target in targets
    ]
    found = [it[0] for it in runs(context, "admission, over the time", settings, seeds=1)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.6))
    rows = []
    for colour, target, run in zip(COLOURS, targets, found, strict=False):
        points = run["points"]
        times = [point["at_s"] / 3_600 for point in points]
        left.plot(times, [point["late"] for point in points], color=colour, lw=1.2, label=f"{target} %")
        left.axhline(target, color=colour, lw=0.8, ls=":")
        right.plot(times, [point["trigger"] for point in points], color=colour, lw=1.2)
        peak = max(points, key=lambda point: point["late"])
        outside = [point for point in points if abs(point["late"] / target - 1) > 0.2]
        settled = outside[-1]["at_s"] if outside else 0.0
        early = settled < 0.5 * length
        rows.append(
            Row(
                f"target {target} %",
                "settles long before 12 h"
                if target > 0.01
                else "does not settle in 12 h, the first peak is too high",
                f"peak {peak['late']:.3f} % at {peak['at_s']:.0f} s; within 20 % from {settled:.0f} s on;"
                f" {points[-1]['late']:.4f} % at the end;"
                f" trigger {run['triggers'][0]:.2f} to {run['triggers'][1]:.2f} Mbit/s",
                "within 20 % before half of the time" if target > 0.01 else "not before half of the time",
                judge(early == (target > 0.01)),
            )
        )
    left.set(xlabel="time (h)", ylabel="late bits since the start (%)", yscale="log")
    right.set(xlabel="time (h)", ylabel="trigger (Mbit/s)")
    left.legend(fontsize=8.5)
    path = style.save(figure, context.path("mbac-m6"))
    return Report("admission-control/m6", m6.__doc__ or "", rows, path)
