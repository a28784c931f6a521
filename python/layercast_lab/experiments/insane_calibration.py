"""The buffers of the switches, which the thesis does not print: swept on noqos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import isfinite, log
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from layercast_lab import style
from layercast_lab.campaign import Campaign
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.insane_study import PAPER, fields_of, folder
from layercast_lab.grid import load
from layercast_lab.insane import study
from layercast_lab.insane.judge import span, write
from layercast_lab.insane.pictures import scale
from layercast_lab.insane.target import Range, value
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.style import plt

TITLE = "INSANE: the buffers of the switches"
CONV, ROUTER = "noqos-conv-svc", "noqos-router-svc"
LIMITS, PORTS = (128, 160, 170, 192), (500, 800, 1000)
SHARED = 256, 256
"""The whole port for all traffic: the start of the specification."""
TIMES = "audio loss, router to conv"
"""How many times more audio is lost with circuits per router, means over the seeds."""
CLEARLY = 0.1
"""E-fold."""
TARGETS: Mapping[str, Range] = {
    "audio loss": value(0.002, 0.003),
    "video loss": value(0.011, 0.026),
    "cells lost": value(0.00051),
    "audio overdue": value(0.04, 0.07),
    TIMES: value(4.1, 9.8),
}
"""Reported of noqos (specs/insane-study.md 5.5, 5.8 and 6)."""
Buffer = tuple[int, int]
"""Cells of a circuit, and of a port."""
Found = dict[tuple[Buffer, str, str], list[float]]


def frozen() -> Buffer:
    """What xunet.toml has."""
    queue = load(study.SCENARIO)[0]["atm"]["queue"]
    return queue["per_vc_limit"], queue["port_limit"]


def buffers(full: bool) -> list[Buffer]:
    """All that are tried: one limit at a time, or every combination."""
    limit, port = frozen()
    if full:
        tried = list(product(LIMITS, PORTS))
    else:
        tried = [(other, port) for other in LIMITS] + [(limit, other) for other in PORTS]
    return list(dict.fromkeys([SHARED, *tried, frozen()]))


def name(buffer: Buffer) -> str:
    """As reports call it."""
    return f"{buffer[0]} cells of a circuit, {buffer[1]} of a port"


def sweep(context: Context, tried: Sequence[Buffer]) -> Found:
    """Each metric under each buffer and policy; runs at the frozen value are those of the study."""
    labels = {
        name(buffer): {"atm.queue.per_vc_limit": buffer[0], "atm.queue.port_limit": buffer[1]}
        for buffer in tried
    }
    grid = {"buffer": labels, study.AXIS: [CONV, ROUTER]}
    grid |= {field: [value] for field, value in fields_of(context).items()}
    seeds = list(context.seed_range(study.SEEDS))
    metrics = study.USERS | study.NETWORK
    campaign = Campaign(study.SCENARIO, grid, seeds, collect=metrics, out=folder(context))
    study.complete(campaign)
    found: Found = {}
    by_name = {name(buffer): buffer for buffer in tried}
    for label, policy, metric, number in (
        campaign.frame().select("buffer", study.AXIS, "metric", "value").iter_rows()
    ):
        if number is not None:
            found.setdefault((by_name[label], policy, metric), []).append(number)
    for buffer in tried:
        lost = [found.get((buffer, policy, "audio loss"), []) for policy in (CONV, ROUTER)]
        if all(lost) and sum(lost[0]):
            conv, router = (sum(runs) / len(runs) for runs in lost)
            found[buffer, CONV, TIMES] = [router / conv]
    return found


def distance(found: Found, buffer: Buffer) -> float:
    """How many e-fold the metrics under conv-svc are from what is reported, in the mean."""
    apart = []
    for metric, reported in TARGETS.items():
        runs = found.get((buffer, CONV, metric), [])
        mean = sum(runs) / len(runs) if runs else 0
        if not mean:
            return float("inf")
        apart.append(max(0.0, log(reported.low / mean), log(mean / reported.high)))
    return sum(apart) / len(apart)


@experiment("insane-study/calibration", title=TITLE, paper=f"{PAPER}, what it leaves out")
def calibration(context: Context) -> Report:
    """Audio, video and cells lost under noqos with other buffers; --full takes every combination."""
    tried = buffers(context.full)
    found = sweep(context, tried)
    here = frozen()
    rows = [against(found, here, metric) for metric in TARGETS]
    apart = {buffer: distance(found, buffer) for buffer in tried}
    rows.append(frozen_row(apart, here))
    rows += [sensitivity(found, tried, metric) for metric in TARGETS]
    path = draw(found, here, context.path("calibration"))
    facts = {name(buffer): apart[buffer] for buffer in tried}
    return Report("insane-study/calibration", TITLE, rows, path, facts, str(study.SCENARIO))


def frozen_row(apart: Mapping[Buffer, float], here: Buffer) -> Row:
    """Whether another buffer is clearly nearer to what is reported."""
    told, asked = "not printed", f"no other is nearer by more than {CLEARLY}"
    if not isfinite(apart[here]):
        return Row("frozen value", told, name(here), asked, "missing", "nothing was lost in so short a run")
    best = min(apart, key=apart.__getitem__)
    measured = f"{name(here)}: {apart[here]:.2f} e-fold from what is reported"
    verdict = judge(apart[here] <= apart[best] + CLEARLY)
    return Row("frozen value", told, measured, asked, verdict, f"nearest: {name(best)}, {apart[best]:.2f}")


def against(found: Found, buffer: Buffer, metric: str) -> Row:
    """What is reported of a metric beside what the frozen value gives."""
    reported, runs = TARGETS[metric], found.get((buffer, CONV, metric), [])
    low, high = reported.widened()
    told = span(reported.low, reported.high, "value", metric)
    band = span(low, high, "value", metric)
    if not runs:
        return Row(f"{CONV}: {metric}", told, "not run", band, "missing")
    mean = sum(runs) / len(runs)
    verdict = judge(low <= mean <= high)
    shown = write(mean, "value", metric)
    if len(runs) > 1:
        shown += f" ({span(min(runs), max(runs), 'value', metric)})"
    return Row(f"{CONV}: {metric}", told, shown, f"{band}; shape: half to twice", verdict)


def sensitivity(found: Found, tried: Sequence[Buffer], metric: str) -> Row:
    """From the least to the most over all buffers."""
    means = {
        buffer: sum(runs) / len(runs) for buffer in tried if (runs := found.get((buffer, CONV, metric), []))
    }
    title = f"{CONV}: {metric} over all buffers"
    if not means:
        return Row(title, "-", "not run", "none", "missing")
    least, most = (choose(means, key=means.__getitem__) for choose in (min, max))
    note = f"least with {'/'.join(map(str, least))}, most with {'/'.join(map(str, most))}"
    return Row(title, "-", span(means[least], means[most], "value", metric), "none", "open", note)


def draw(found: Found, here: Buffer, path: Path) -> str:
    """Each metric against each limit, the other as frozen; grey is what is reported of conv-svc."""
    figure, axes = plt.subplots(
        len(TARGETS), 2, figsize=(8, 1 + 2.1 * len(TARGETS)), sharey="row", sharex="col"
    )
    for line, metric in enumerate(TARGETS):
        for column, varied in enumerate(("of a circuit", "of a port")):
            axis = axes[line, column]
            fixed = here[1 - column]
            tried = sorted({b for b, _, _ in found if b[1 - column] == fixed}, key=lambda b: b[column])
            curve(axis, found, tried, column, metric)
            factor = scale(metric, 0)[0]
            low, high = TARGETS[metric].low / factor, TARGETS[metric].high / factor
            axis.axhspan(low, high if high > low else low * 1.02, color="#d0d5dd", zorder=0)
            axis.axvline(here[column], color="black", linewidth=0.8, linestyle=":")
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
            axis.yaxis.set_minor_formatter(lambda *_: "")
            if line == len(TARGETS) - 1:
                other = ("of a port", "of a circuit")[column]
                axis.set_xlabel(f"cells {varied} ({fixed} {other})")
            if column == 0:
                axis.set_ylabel(f"{metric} (%)" if factor != 1 else "router / conv (times)")
    axes[0, 1].legend(loc="best")
    return style.save(figure, path)


def curve(axis: Axes, found: Found, tried: Sequence[Buffer], column: int, metric: str) -> None:
    """Means of both policies, with bars from the least to the most."""
    factor = scale(metric, 0)[0]
    for number, policy in enumerate((CONV, ROUTER)):
        points = [
            (b[column], np.array(found[b, policy, metric]) / factor)
            for b in tried
            if (b, policy, metric) in found
        ]
        if not points:
            continue
        means = np.array([runs.mean() for _, runs in points])
        ends = [[m - runs.min(), runs.max() - m] for m, (_, runs) in zip(means, points, strict=True)]
        look = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 4, "linewidth": 1.3}
        axis.errorbar([at for at, _ in points], means, np.array(ends).T, capsize=2.5, label=policy, **look)
