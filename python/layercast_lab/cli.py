"""The command `layercast-lab`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from layercast import LayercastError
from layercast_lab.experiment import VERDICT_TEXT, Context, Report, experiments

app = typer.Typer(
    help="Reproduce the figures and tables that Layercast stands on, and see how close it comes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()
errors = Console(stderr=True)
COLOURS = {"reproduced": "green", "shape": "yellow", "differs": "red"}


@app.command("list")
def list_experiments(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the experiments with the paper each comes from."""
    found = experiments().values()
    if as_json:
        print(json.dumps([{"id": e.id, "title": e.title, "paper": e.paper} for e in found], indent=2))
        return
    table = Table("id", "what it shows", "paper")
    for e in found:
        table.add_row(e.id, e.title, e.paper)
    console.print(table)


@app.command()
def reproduce(
    id: Annotated[str, typer.Argument(help="An experiment id, such as mets/e5; see `layercast-lab list`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("target/lab"),
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds to run instead of the default.")] = None,
) -> None:
    """Run one experiment: print reported beside measured, write its figure, give a verdict.

    Exit status: 0 whatever the verdict, 1 if the experiment could not run, 2 for an unknown id.
    """
    found = experiments()
    if id not in found:
        errors.print(f"error: there is no experiment {id!r}; `layercast-lab list` names all", markup=False)
        raise typer.Exit(2)

    def progress(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
        # `track` redraws on a terminal and stays silent in a pipe.
        return track(items, description=what, total=total, console=errors, disable=not errors.is_terminal)

    try:
        report = found[id].run(Context(out=out / Path(id).parent, seeds=seeds, progress=progress))
    except (LayercastError, OSError) as error:
        errors.print(f"error: {id}: {error}", markup=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        errors.print("interrupted; nothing was written")
        raise typer.Exit(130) from None
    if as_json:
        json.dump(report.to_json(), sys.stdout, indent=2)
        print()
    else:
        show(report)


def show(report: Report) -> None:
    """Print a report as a table."""
    table = Table("", "reported", "measured", "tolerance", "verdict", "note", title=report.title)
    for row in report.rows:
        verdict = f"[{COLOURS[row.verdict]}]{VERDICT_TEXT[row.verdict]}[/]"
        table.add_row(row.name, row.reported, row.measured, row.tolerance, verdict, row.note)
    console.print(table)
    console.print(f"{report.id}: [{COLOURS[report.verdict]}]{VERDICT_TEXT[report.verdict]}[/]")
    if report.figure:
        console.print(f"figure: {report.figure}", highlight=False)


if __name__ == "__main__":
    app()
