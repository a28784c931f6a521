"""What campaigns found, as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from layercast_lab import style, units
from layercast_lab.style import plt

COLOURS = (
    style.LAYER_COLOURS["BL"],
    style.ACCENT,
    style.LAYER_COLOURS["E1"],
    "#4d7c0f",
    "#7e22ce",
    "#a16207",
)
MARKERS = "osD^vP"


def sweep(
    frame: pl.DataFrame,
    path: str | Path,
    *,
    x: str,
    y: Sequence[str],
    by: str | None = None,
    log: bool = False,
) -> str:
    """Metrics against an axis, one above the other: medians over the seeds, bars from least to most.

    `frame` is that of a campaign, `x` and `by` are axes of it and `y` metrics; each value of `by` has a line.
    Values of `x` that begin with numbers, such as "50 packets", lie where the numbers say, `log` on a
    logarithmic scale. Writes `path` as PNG and as SVG; returns the PNG's path.
    """
    figure, axes = plt.subplots(len(y), 1, figsize=(5.6, 1.1 + 2.1 * len(y)), sharex=True, squeeze=False)
    places, unit = scale_of(frame[x].unique(maintain_order=True).to_list())
    lines = frame[by].unique(maintain_order=True).to_list() if by else [None]
    for axis, metric in zip(axes[:, 0], y, strict=True):
        chosen = frame.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
        factor, shown = units.scale(chosen["value"].abs().max() or 0, chosen["unit"].first() or "")
        for number, line in enumerate(lines):
            part = chosen.filter(pl.col(by) == line) if by else chosen
            name = None if line is None else str(line)
            draw(axis, part, x, places, factor, number, name)
        axis.set_ylabel(f"{metric} ({shown})" if shown else metric)
        if (chosen["value"] >= 0).all():
            axis.set_ylim(bottom=0)
    bottom = axes[-1, 0]
    bottom.set_xlabel(f"{x} ({unit})" if unit else x)
    if log:
        bottom.set_xscale("log")
    if log or unit is None:
        names = [str(value) if unit is None else f"{place:g}" for value, place in places.items()]
        bottom.set_xticks(list(places.values()), names)
        bottom.minorticks_off()
    if by:
        axes[0, 0].legend(title=by.rpartition(".")[2], loc="best")
    return style.save(figure, Path(path))


def draw(
    axis: Axes, part: pl.DataFrame, x: str, places: dict, factor: float, number: int, name: str | None
) -> None:
    """One line with its bars."""
    value = pl.col("value") / factor
    points = part.group_by(x, maintain_order=True).agg(
        value.median().alias("m"), value.min().alias("l"), value.max().alias("h")
    )
    points = points.with_columns(at=pl.Series([places[key] for key in points[x]], dtype=pl.Float64)).sort(
        "at"
    )
    middle = points["m"].to_numpy()
    bars = np.abs(np.stack([middle - points["l"].to_numpy(), points["h"].to_numpy() - middle]))
    look = {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4,
    }
    axis.errorbar(points["at"], middle, yerr=bars, capsize=2.5, linewidth=1.3, label=name, **look)


def scale_of(values: list) -> tuple[dict, str | None]:
    """Where the values of an axis lie, and their unit; None for names, which lie one after the other."""
    numbers = [units.number(value) for value in values]
    found = {number[1] for number in numbers if number}
    if None in numbers or len(found) != 1:
        return {value: float(place) for place, value in enumerate(values)}, None
    return {value: number[0] for value, number in zip(values, numbers, strict=True)}, found.pop()
