"""The command `layercast-lab slowdown`: slowdown of generated transfers against their length, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from matplotlib.figure import Figure

from layercast_lab.commands import check_picture, complain, read_table, write_picture
from layercast_lab.style import plt

GROUPS = 20
"""Groups of transfers of similar length; each has as many transfers."""
LEAST = 20
"""Transfers that a group has at least, so that its high percentiles mean something."""
COLUMNS = {"bytes": pl.Int64(), "slowdown": pl.Float64()}
PERCENTILES = {50: "-", 95: "--", 99: ":"}


def slowdown(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders that `layercast sim --out` wrote, one colour each.")
    ],
    out: Annotated[
        Path, typer.Option(help="The picture; it is written as .png and as .svg beside it.")
    ] = Path("slowdown.png"),
) -> None:
    """Draw the slowdown of generated transfers against their length: median, 95th and 99th percentile.

    Exit status: 0, 1 if a run cannot be read or the picture not be written, 2 wrong use.

    layercast-lab slowdown web-search --out slowdown.svg
    """
    check_picture(out)
    curves = {}
    for run in runs:
        file = run / "transfers.parquet"
        transfers = read_table(
            file, COLUMNS, "layercast sim --out writes it if the scenario has [[generate]]"
        )
        curves[run.name or str(run)] = curve(transfers)
    if all(rows.is_empty() for rows in curves.values()):
        complain("error: no transfer ended before the end of its run; give the run a longer `duration`")
        raise typer.Exit(1)
    write_picture(draw(curves), out)


def curve(transfers: pl.DataFrame) -> pl.DataFrame:
    """Percentiles of the slowdown of complete transfers, in groups with as many transfers each, by length."""
    done = transfers.drop_nulls().sort("bytes")
    groups = max(1, min(GROUPS, done.height // LEAST))
    place = pl.int_range(pl.len()) * groups // pl.len()
    spread = [
        pl.col("slowdown").quantile(percent / 100, "higher").alias(f"p{percent}") for percent in PERCENTILES
    ]
    found = done.with_columns(group=place).group_by("group", maintain_order=True)
    return found.agg(pl.col("bytes").median(), pl.len().alias("transfers"), *spread)


def draw(curves: dict[str, pl.DataFrame]) -> Figure:
    """One colour for each run, one line style for each percentile."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for number, (name, rows) in enumerate(curves.items()):
        for percent, line in PERCENTILES.items():
            axis.plot(
                rows["bytes"],
                rows[f"p{percent}"],
                line,
                marker=".",
                color=f"C{number}",
                label=f"{name}, p{percent}",
            )
    axis.set(xscale="log", yscale="log", xlabel="length of the transfer (bytes)", ylabel="slowdown")
    axis.axhline(1, color="#334155", linewidth=0.8)
    axis.legend(fontsize=8)
    return figure
