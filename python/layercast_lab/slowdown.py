"""The command `layercast-lab slowdown`: slowdown of generated transfers against their length, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from matplotlib.figure import Figure
from rich.console import Console

from layercast_lab import style
from layercast_lab.style import plt

console = Console()
errors = Console(stderr=True)

GROUPS = 20
"""Groups of transfers of similar length; each has as many transfers."""
LEAST = 20
"""Transfers that a group has at least, so that its high percentiles mean something."""
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
    if out.suffix not in (".png", ".svg"):
        complain(f"error: {out}: give --out a name that ends with .png or .svg")
        raise typer.Exit(2)
    curves = {}
    for run in runs:
        file = run / "transfers.parquet"
        try:
            curves[run.name or str(run)] = curve(pl.read_parquet(file, columns=["bytes", "slowdown"]))
        except (OSError, pl.exceptions.PolarsError) as error:
            complain(
                f"error: {file}: {error}; layercast sim --out writes it if the scenario has [[generate]]"
            )
            raise typer.Exit(1) from None
    try:
        picture = Path(style.save(draw(curves), out))
    except OSError as error:
        complain(f"error: {out}: {error.strerror}; give --out a file in a folder that exists")
        raise typer.Exit(1) from None
    console.print(f"{picture}\n{picture.with_suffix('.svg')}", highlight=False, markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """A line on standard error, as it is."""
    errors.print(text, markup=False, highlight=False, soft_wrap=True)


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
