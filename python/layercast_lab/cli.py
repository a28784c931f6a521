"""The command `layercast-lab`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from layercast import LayercastError
from layercast_lab import gallery
from layercast_lab.classes import classes
from layercast_lab.cli_campaign import campaign, new
from layercast_lab.experiment import VERDICT_TEXT, Context, Report, Row, experiments
from layercast_lab.series import series
from layercast_lab.slowdown import slowdown
from layercast_lab.tables import put

app = typer.Typer(
    help="Run campaigns of simulations, and reproduce the figures and tables that Layercast stands on.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()
errors = Console(stderr=True)
app.command()(campaign)
app.command()(new)
app.command()(classes)
app.command()(slowdown)
app.command()(series)
COLOURS = {
    "arithmetic": "dim",
    "reproduced": "green",
    "open": "dim",
    "shape": "yellow",
    "differs": "red",
    "missing": "dim",
}


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
    put(console, table)


@app.command()
def reproduce(
    id: Annotated[
        str | None, typer.Argument(help="An experiment id, such as mets/e5; see `layercast-lab list`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run all experiments, with a summary.")] = False,
    skip: Annotated[
        list[str] | None, typer.Option(help="With --all: leave these out, such as '*-sockets' (repeatable).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    csv_file: Annotated[
        Path | None,
        typer.Option(
            "--csv", help="Also write a CSV file with a line for each row; - prints it instead of a table."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a row differs, and name it.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for figures and the gallery.")] = Path("target/lab"),
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds to run instead of the default.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Seconds of each run, where no script fixes it.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Run the sizes that take minutes, too.")] = False,
) -> None:
    """Run one experiment: print reported beside measured, write its figure, give a verdict.

    With --all run every one and print a summary. Each report goes into the gallery index.html
    in the output folder. Exit status: 0 whatever the verdict (with --strict 1 if a row
    differs), 1 if an experiment could not run, 2 for an unknown id.
    """
    found = experiments()
    if everything == (id is not None):
        errors.print("error: give either an experiment id or --all")
        raise typer.Exit(2)
    if skip and not everything:
        errors.print("error: --skip goes with --all")
        raise typer.Exit(2)
    csv_only = csv_file == Path("-")
    if csv_only and as_json:
        errors.print("error: --csv - and --json both print to standard output; give --csv a file")
        raise typer.Exit(2)
    if id is not None and id not in found:
        errors.print(f"error: there is no experiment {id!r}; `layercast-lab list` names all", markup=False)
        raise typer.Exit(2)

    def progress(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
        # `track` redraws on a terminal and stays silent in a pipe.
        return track(items, description=what, total=total, console=errors, disable=not errors.is_terminal)

    reports, failed = [], False
    chosen = [name for name in found if not any(fnmatchcase(name, pattern) for pattern in skip or [])]
    for name in chosen if id is None else [id]:
        context = Context(
            out=out / Path(name).parent, seeds=seeds, seconds=seconds, full=full, progress=progress
        )
        try:
            report = found[name].run(context)
        except (LayercastError, OSError) as error:
            errors.print(f"error: {name}: {error}", markup=False)
            failed = True
            continue
        except KeyboardInterrupt:
            errors.print(f"interrupted; nothing of {name} was written")
            raise typer.Exit(130) from None
        reports.append(report)
        gallery.add(out, report, found[name], command_of(name, seeds, seconds, full))
        if not as_json and not csv_only:
            show(report)
    if csv_file is not None:
        write_csv(csv_file, reports)
    if as_json and reports:
        told = [report.to_json() for report in reports]
        json.dump(told if everything else told[0], sys.stdout, indent=2)
        print()
    elif not as_json and not csv_only:
        if everything:
            summarise(reports)
        if reports:
            console.print(f"gallery: {out / 'index.html'}", highlight=False)
    differing = [f"{it.id}: {row.name}" for it in reports for row in it.rows if row.verdict == "differs"]
    if strict:
        for name in differing:
            errors.print(f"differs: {name}", markup=False, highlight=False)
    if failed or (strict and differing):
        raise typer.Exit(1)


def write_csv(path: Path, reports: list[Report]) -> None:
    """Write a line for each row of the reports, with verdicts as in JSON; `-` is standard output."""
    columns = [it.name for it in fields(Row)]
    lines = [[it.id, *(getattr(row, name) for name in columns)] for it in reports for row in it.rows]

    def write(file: TextIO) -> None:
        csv.writer(file, lineterminator="\n").writerows([["experiment", *columns], *lines])

    if path == Path("-"):
        write(sys.stdout)
        return
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            write(file)
    except OSError as error:
        errors.print(
            f"error: {path}: {error.strerror}; give --csv a file in a folder that exists", markup=False
        )
        raise typer.Exit(1) from error


def command_of(id: str, seeds: int | None, seconds: float | None, full: bool) -> str:
    """The command that makes this report again."""
    options = [f" --seeds {seeds}" if seeds else "", f" --seconds {seconds:g}" if seconds else ""]
    return f"layercast-lab reproduce {id}" + "".join(options) + (" --full" if full else "")


def summarise(reports: list[Report]) -> None:
    """Print how many rows of each report have which verdict."""
    table = Table("id", "title", *VERDICT_TEXT.values(), "verdict", title="All experiments")
    for report in reports:
        counts = [str(sum(row.verdict == verdict for row in report.rows)) for verdict in VERDICT_TEXT]
        verdict = f"[{COLOURS[report.verdict]}]{VERDICT_TEXT[report.verdict]}[/]"
        table.add_row(report.id, report.title, *counts, verdict)
    put(console, table)


def show(report: Report) -> None:
    """Print a report as a table."""
    table = Table("", "reported", "measured", "tolerance", "verdict", "note", title=report.title)
    for row in report.rows:
        verdict = f"[{COLOURS[row.verdict]}]{VERDICT_TEXT[row.verdict]}[/]"
        table.add_row(row.name, row.reported, row.measured, row.tolerance, verdict, row.note)
    put(console, table)
    console.print(f"{report.id}: [{COLOURS[report.verdict]}]{VERDICT_TEXT[report.verdict]}[/]")
    if report.figure:
        console.print(f"figure: {report.figure}", highlight=False)


if __name__ == "__main__":
    app()
