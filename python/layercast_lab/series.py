"""The command `layercast-lab series`: windows, round trips, rates and queues against time, drawn."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from matplotlib.figure import Figure

from layercast_lab.commands import check_picture, complain, read_table, write_picture
from layercast_lab.style import plt

MOST = 8
"""Lines of a panel at most, if no name is given."""
MEANS = 200
"""Points of a line of rates at most."""
COUNTS = "delivered cwnd ssthresh in_flight acknowledged retransmitted waiting dropped marked"
COLUMNS: dict[str, pl.DataType] = {
    **{name: pl.String() for name in ("kind", "name")},
    **{name: pl.Float64() for name in ("at", "rate_bps", "srtt")},
    **{name: pl.Int64() for name in COUNTS.split()},
}
SENDERS = ("flow", "transfer")
QUEUES = ("queue", "cells", "port")


@dataclass(frozen=True)
class Panel:
    """A diagram: what of which points it shows."""

    column: str
    kinds: tuple[str, ...]
    label: str
    scale: float = 1.0
    limit: str | None = None
    """A column that is drawn dotted beside it."""


PANELS = (
    Panel("cwnd", SENDERS, "window (kB)", 1e-3, "ssthresh"),
    Panel("in_flight", SENDERS, "in flight (kB)", 1e-3),
    Panel("srtt", SENDERS, "round trip (ms)", 1e3),
    Panel("rate_bps", SENDERS, "rate (Mbit/s)", 1e-6),
    Panel("waiting", QUEUES, "waiting"),
    Panel("rate_bps", QUEUES, "sent (Mbit/s)", 1e-6),
    Panel("marked", QUEUES, "marked so far"),
    Panel("dropped", QUEUES, "dropped so far"),
    Panel("down", QUEUES, "lost, link down"),
)


def series(
    run: Annotated[
        Path,
        typer.Argument(help="File that `layercast sim --series` wrote, or the folder with series.parquet."),
    ],
    out: Annotated[
        Path, typer.Option(help="The picture; it is written as .png and as .svg beside it.")
    ] = Path("series.png"),
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Only flows and queues with this name, such as 'left*'; several times for several. "
            f"Without, the {MOST} flows that delivered most and the {MOST} longest queues."
        ),
    ] = None,
    begin: Annotated[float, typer.Option("--from", help="Seconds at which the picture begins.")] = 0.0,
    end: Annotated[float | None, typer.Option("--to", help="Seconds at which it ends.")] = None,
) -> None:
    """Draw a series: windows, round trips and rates of flows; lengths, rates, marks and drops of queues.

    Exit status: 0, 1 if the series cannot be read or has nothing of that name, or the picture not be written,
    2 wrong use.

    layercast-lab series run.parquet --name 'left*' --out run.svg
    """
    check_picture(out)
    points = read(run)
    chosen = choose(points.filter(pl.col("at").is_between(begin, end or float("inf"))), name or [])
    if chosen.is_empty():
        names = ", ".join(sorted(points["name"].unique())[:MOST])
        complain(f"error: {run}: no point of that name and time; names are {names or 'none'}")
        raise typer.Exit(1)
    write_picture(draw(chosen), out)


def read(run: Path) -> pl.DataFrame:
    """The points that `layercast sim --series` wrote, one a row; ends the command if there are none."""
    file = run / "series.parquet" if run.is_dir() else run
    return read_table(file, COLUMNS, "layercast sim SCENARIO --series FILE writes one", more=("down",))


def choose(points: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """The points of flows and queues with these names; without names those of the most important ones."""
    if names:
        known = points["name"].unique().to_list()
        wanted = [name for name in known if any(fnmatchcase(name, pattern) for pattern in names)]
        return points.filter(pl.col("name").is_in(wanted))
    weight = (
        pl.when(pl.col("kind").is_in(SENDERS))
        .then(pl.max_horizontal("delivered", "acknowledged").max())
        .otherwise(pl.col("waiting").max())
    )
    found = points.with_columns(of_queues=pl.col("kind").is_in(QUEUES))
    ranked = found.group_by("of_queues", "kind", "name").agg(weight.first().alias("weight"))
    ranked = ranked.sort("weight", "name", descending=[True, False], nulls_last=True)
    top = ranked.group_by("of_queues", maintain_order=True).head(MOST)
    # A queue that never held anything has nothing to show.
    top = top.filter(~pl.col("of_queues") | (pl.col("weight") > 0))
    return points.join(top.select("kind", "name"), on=["kind", "name"], how="semi")


def draw(points: pl.DataFrame) -> Figure:
    """A panel for each value that there is, one below the other, with one colour for each flow or queue."""
    panels = [panel for panel in PANELS if not shown(points, panel).is_empty()]
    figure, axes = plt.subplots(
        len(panels), 1, sharex=True, squeeze=False, figsize=(7.4, 0.6 + 1.25 * len(panels))
    )
    labelled: set[tuple[str, ...]] = set()
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        rows = smooth(shown(points, panel), panel)
        for number, (name, of_name) in enumerate(sorted(rows.group_by("name"), key=lambda it: str(it[0]))):
            colour = f"C{number % 10}"
            axis.plot(
                of_name["at"], of_name[panel.column] * panel.scale, color=colour, label=str(name[0]), lw=1
            )
            if panel.limit:
                limit = of_name.drop_nulls(panel.limit)
                axis.plot(limit["at"], limit[panel.limit] * panel.scale, ":", color=colour, lw=0.8)
        axis.set(ylabel=panel.label)
        axis.set_ylim(bottom=0)
        if panel.kinds not in labelled:
            labelled.add(panel.kinds)
            axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    axes[-1, 0].set(xlabel="time (s)")
    figure.align_ylabels()
    return figure


def smooth(rows: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """Of rates the means over a part of the picture: bursts would hide everything else. Else the rows."""
    span = rows["at"].max() - rows["at"].min()
    if panel.column != "rate_bps" or not span:
        return rows
    place = (pl.col("at") * MEANS / span).ceil() * span / MEANS
    found = rows.with_columns(at=place).group_by("kind", "name", "at").agg(pl.col("rate_bps").mean())
    return found.sort("name", "at")


def shown(points: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """The points that a panel shows; of counts none if nothing was counted. Older files have no `down`."""
    if panel.column not in points.columns:
        return points.clear()
    rows = points.filter(pl.col("kind").is_in(panel.kinds)).drop_nulls(panel.column)
    is_count = panel.column in ("marked", "dropped", "down")
    return rows.clear() if is_count and (rows[panel.column] == 0).all() else rows
