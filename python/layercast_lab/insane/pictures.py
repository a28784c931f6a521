"""The study as pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log2, log10
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from layercast_lab import style, units
from layercast_lab.analysis import separated
from layercast_lab.insane.policies import QOS, SETUPS, every, parts
from layercast_lab.insane.study import USERS, Values, unit
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

GREY = "#98a2b3"
WIDEST = 6.0
"""Inches of a panel that has another beside it."""
LEGEND = 0.3
"""Inches above the panels."""
FACTOR = 3.0
"""Powers of two at which the colours of the heat map end."""


@dataclass(frozen=True)
class Bars:
    """Bars: a panel for each metric, in it a group for each setup, in that a bar for each policy."""

    metrics: Sequence[str]
    groups: Sequence[str]
    series: Sequence[str]
    policy: Callable[[str, str], str]
    """The policy of a group and a series."""
    log: bool = False

    @property
    def policies(self) -> list[str]:
        """All that are drawn."""
        return [self.policy(group, one) for group in self.groups for one in self.series]


def by_qos(metrics: Sequence[str], *names: str, log: bool = False) -> Bars:
    """QoS beside each other in each setup."""
    return Bars(metrics, SETUPS, names, lambda setup, name: f"{name}-{setup}", log)


def by_mux(metrics: Sequence[str], *names: str, mux: Sequence[str] = ("app", "conv"), log=False) -> Bars:
    """Ways to share circuits beside each other."""
    groups = [f"{name}-{vc}" for name in names for vc in ("svc", "svccache")]

    def policy(group: str, mux: str) -> str:
        name, vc = group.rsplit("-", 1)
        return f"{name}-{mux}-{vc}"

    return Bars(metrics, groups, mux, policy, log)


def by_vc(metrics: Sequence[str], *names: str, mux: Sequence[str] = ("app", "conv"), pvc=False) -> Bars:
    """Ways to keep circuits beside each other."""
    series = ("pvc", "svc", "svccache") if pvc else ("svc", "svccache")
    groups = [f"{name}-{m}" for name in names for m in mux]
    return Bars(metrics, groups, series, lambda group, vc: f"{group}-{vc}")


def bars(picture: Bars, values: Values, path: Path) -> str:
    """Means over the runs with lines from the least to the most; a star where a bar differs at 90 %.

    That is from the first of its group, by complete separation of three runs from three.
    """
    width = 2 + 0.28 * len(picture.groups) * len(picture.series)
    columns = min(len(picture.metrics), 2 if width < WIDEST else 1)
    lines = -(-len(picture.metrics) // columns)
    size = (columns * max(width, 3.8), 0.6 + 2.6 * lines)
    figure, axes = plt.subplots(lines, columns, figsize=size, squeeze=False)
    for axis, metric in zip(axes.flat, picture.metrics, strict=False):
        panel(axis, picture, metric, values)
    for axis in axes.flat[len(picture.metrics) :]:
        axis.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), bbox_to_anchor=(0.5, 1.0))
    return style.save(figure, path, top=1 - LEGEND / size[1])


def panel(axis: Axes, picture: Bars, metric: str, values: Values) -> None:
    """One metric."""
    found = {name: values.get((name, metric), []) for name in picture.policies}
    factor, shown = scale(metric, max((max(runs) for runs in found.values() if runs), default=0))
    width = 0.8 / len(picture.series)
    for number, one in enumerate(picture.series):
        for place, group in enumerate(picture.groups):
            at = place + (number - (len(picture.series) - 1) / 2) * width
            name = picture.policy(group, one)
            # Named once, and by groups without runs, too.
            label = one if place == 0 else None
            runs = np.array(found[name]) / factor
            if not len(runs):
                axis.bar(at, 0, width * 0.92, color=COLOURS[number % len(COLOURS)], label=label)
                axis.annotate("none", (at, 0), rotation=90, ha="center", va="bottom", fontsize=6, color=GREY)
                continue
            mean = runs.mean()
            axis.bar(at, mean, width * 0.92, color=COLOURS[number % len(COLOURS)], label=label)
            axis.vlines(at, runs.min(), runs.max(), color="black", linewidth=1)
            base = found[picture.policy(group, picture.series[0])]
            if number and len(runs) >= 3 and len(base) >= 3 and separated(base, found[name]):
                mark = {"xytext": (0, 1), "textcoords": "offset points", "ha": "center", "fontsize": 9}
                axis.annotate("*", (at, runs.max()), **mark)
    names = ["-\n".join(group.rsplit("-", 1)) for group in picture.groups]
    axis.set_xticks(range(len(picture.groups)), names)
    axis.tick_params(axis="x", labelsize=8, length=0)
    axis.grid(axis="x", visible=False)
    axis.margins(y=0.12)
    positive = [number / factor for runs in found.values() for number in runs if number > 0]
    if picture.log and positive:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
        axis.yaxis.set_minor_formatter(lambda *_: "")
        axis.set_ylim(bottom=10 ** floor(log10(min(positive))))
    elif not positive:
        axis.set_ylim(0, 1)
    axis.set_title(f"{metric} ({shown})" if shown else metric, loc="left", fontsize=9.5)


def scale(metric: str, most: float) -> tuple[float, str]:
    """What to divide a metric by, and its unit then."""
    found = unit(metric)
    return (0.01, "%") if found == "%" else units.scale(most, found)


def ratio(new: Sequence[float], base: Sequence[float]) -> float:
    """The logarithm to the base 2 of how many times more it is in the mean; not a number without runs."""
    if not new or not base:
        return np.nan
    after, before = sum(new) / len(new), sum(base) / len(base)
    if not before or not after:
        return np.nan if before == after else np.copysign(np.inf, after - before)
    return log2(after / before)


def heat_map(values: Values, path: Path) -> str:
    """All policies and what users see: how many times more or less than with noqos in the same setup.

    What is of noqos itself is beside noqos-conv-svc. A dot is significant at 90 %.
    """
    names = sorted(every(), key=lambda name: (QOS.index(parts(name)[0]), *parts(name)[1:]))
    table = np.full((len(names), len(USERS)), np.nan)
    figure, axis = plt.subplots(figsize=(8.4, 17.5))
    for row, name in enumerate(names):
        qos, mux, vc = parts(name)
        base = "noqos-conv-svc" if qos == "noqos" else f"noqos-{mux}-{vc}"
        for column, metric in enumerate(USERS):
            new, old = values.get((name, metric), []), values.get((base, metric), [])
            table[row, column] = ratio(new, old)
            if len(new) >= 3 and len(old) >= 3 and separated(old, new):
                axis.plot(column, row, ".", color="black", markersize=3)
    colours = plt.get_cmap("RdBu_r").with_extremes(bad="#e4e7ec")
    image = axis.imshow(
        np.clip(table, -FACTOR, FACTOR), cmap=colours, vmin=-FACTOR, vmax=FACTOR, aspect="auto"
    )
    axis.set_xticks(range(len(USERS)), list(USERS), rotation=60, ha="left", rotation_mode="anchor")
    axis.xaxis.tick_top()
    axis.set_yticks(range(len(names)), names, fontsize=6.5)
    axis.grid(visible=False)
    axis.tick_params(length=0)
    for row in range(1, len(names)):
        if parts(names[row])[0] != parts(names[row - 1])[0]:
            axis.axhline(row - 0.5, color="white", linewidth=2)
    bar = figure.colorbar(image, ax=axis, orientation="horizontal", shrink=0.6, pad=0.01, fraction=0.012)
    ticks = np.arange(-FACTOR, FACTOR + 1)
    bar.set_ticks(ticks, labels=[f"{2**tick:g}" for tick in ticks])
    bar.set_label(
        "times noqos of the same setup (noqos: noqos-conv-svc); dots: significant at 90 %; grey: no runs"
    )
    bar.outline.set_visible(False)
    return style.save(figure, path)
