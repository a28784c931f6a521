"""What the commands that draw a picture have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import polars as pl
import typer
from matplotlib.figure import Figure
from rich.console import Console

from layercast_lab import style

console = Console()
errors = Console(stderr=True)


def complain(text: str) -> None:
    """A line on standard error, as it is."""
    errors.print(text, markup=False, highlight=False, soft_wrap=True)


def read_table(
    file: Path, schema: Mapping[str, pl.DataType], remedy: str, more: Collection[str] = ()
) -> pl.DataFrame:
    """The columns of `schema` of a Parquet file, and of `more` those it has; ends the command without."""
    try:
        found = pl.read_parquet_schema(file)
        wrong = [name for name, kind in schema.items() if found.get(name) != kind]
        if not wrong:
            return pl.read_parquet(file, columns=[name for name in found if name in schema or name in more])
        error = f"no column {wrong[0]} of type {schema[wrong[0]]}"
    except (OSError, pl.exceptions.PolarsError) as failed:
        error = str(failed)
    complain(f"error: {file}: {error}; {remedy}")
    raise typer.Exit(1)


def check_picture(out: Path) -> None:
    """Ends the command if the name of the picture is none of a picture."""
    if out.suffix not in (".png", ".svg"):
        complain(f"error: {out}: give --out a name that ends with .png or .svg")
        raise typer.Exit(2)


def write_picture(figure: Figure, out: Path) -> None:
    """Writes the picture as PNG and SVG, and prints both names; ends the command if it cannot be written."""
    try:
        picture = Path(style.save(figure, out))
    except OSError as error:
        complain(f"error: {out}: {error.strerror}; give --out a file in a folder that exists")
        raise typer.Exit(1) from None
    console.print(f"{picture}\n{picture.with_suffix('.svg')}", highlight=False, markup=False, soft_wrap=True)
