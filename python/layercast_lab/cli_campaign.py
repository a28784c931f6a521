"""The commands `layercast-lab campaign` and `layercast-lab new`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from layercast_lab import description, scaffold, scrape, units
from layercast_lab.campaign import Outcome
from layercast_lab.description import Description, DescriptionError
from layercast_lab.grid import GridError
from layercast_lab.metrics import MetricError
from layercast_lab.tables import put

if TYPE_CHECKING:
    import polars as pl

console = Console()
errors = Console(stderr=True)
MOST_ROWS = 60
BYTES = {"K": 2**10, "M": 2**20, "G": 2**30}


def campaign(
    file: Annotated[
        Path | None,
        typer.Argument(help="What to run: TOML, Python that makes a `campaign`, or insane-1996."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of results, of this and earlier starts (target/lab/campaigns/NAME)."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time on this machine (as many as processors).")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="A Dask scheduler, such as tcp://10.0.0.1:8786, instead of this machine."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Most memory of a run, such as 2G (an equal part of this machine's).")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Seconds after which a run has failed.")
    ] = None,
    replacements: Annotated[
        list[str] | None,
        typer.Option("--set", help="FIELD=VALUE of the scenario, such as run.duration=1s (repeatable)."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many seeds, or FIRST..LAST (what the file says).")
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option(help="Only the policies like 'sp-*-*-svccache' (repeatable).")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            help="Serve progress for Prometheus at http://ADDR/metrics; a port alone is one of 127.0.0.1.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of a campaign file, for editors.")
    ] = False,
) -> None:
    """Run a scenario with a grid of changes and many seeds, each run once.

    A start continues where the last one ended: whatever has a result in the folder is not computed again.
    Results are the same wherever they are computed. Exit status: 0 done, 1 some runs failed or came to the
    end of their budget, 2 wrong use, 130 stopped by Ctrl-C; the same command continues.

    layercast-lab campaign sweep.toml --set run.duration=1s --dry-run

    layercast-lab campaign sweep.toml --scheduler tcp://10.0.0.1:8786

    layercast-lab campaign insane-1996 --select 'sp-*-*-svccache'
    """
    if schema == (file is not None):
        complain("error: give either a FILE or --schema")
        raise typer.Exit(2)
    if file is None:
        print(description.SCHEMA.read_text(), end="")
        return
    try:
        if scheduler is not None and jobs is not None:
            raise DescriptionError("--jobs is for this machine; a cluster has the workers it has")
        if metrics is not None:
            try:
                scrape.address(metrics)
            except ValueError as error:
                raise DescriptionError(str(error)) from None
        bound = bytes_of(memory) if memory is not None else None
        found = description.read(file, out, dict(map(assignment, replacements or [])), seeds, select)
        if dry_run:
            tell_plan(found, as_json)
            return
        outcome = found.campaign.run(
            jobs=jobs, scheduler=scheduler, memory=bound, timeout=timeout, quiet=as_json, metrics=metrics
        )
        files, frame = write(found, outcome)
    except (DescriptionError, GridError, MetricError) as error:
        complain(f"error: {error}")
        raise typer.Exit(2) from None
    except OSError as error:
        complain(f"error: {error}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    tell(found, outcome, files, frame, as_json)
    if outcome.interrupted:
        errors.print(f"stopped with {outcome.left} runs to go; the same command continues", highlight=False)
        raise typer.Exit(130)
    if outcome.failed or outcome.partial:
        raise typer.Exit(1)


def new(
    folder: Annotated[Path, typer.Argument(help="A folder that is not there yet, such as my_experiment.")],
) -> None:
    """Begin a campaign of your own: a scenario, what to vary in it, and what to make of the results.

    The files run as they are: layercast-lab campaign my_experiment/campaign.toml
    """
    try:
        made = scaffold.new(folder)
    except (ValueError, OSError) as error:
        complain(f"error: {error}")
        raise typer.Exit(2) from None
    for path in made:
        console.print(str(path), highlight=False, soft_wrap=True)
    console.print(f"next: layercast-lab campaign {folder / 'campaign.toml'}", highlight=False, soft_wrap=True)


def complain(text: str) -> None:
    """Prints what is wrong on one line, brackets and all."""
    errors.print(text, markup=False, highlight=False, soft_wrap=True)


def assignment(text: str) -> tuple[str, Any]:
    """FIELD=VALUE; the value as TOML, or text without the quotes."""
    name, equals, value = text.partition("=")
    if not equals:
        raise DescriptionError(f"--set {text}: write FIELD=VALUE")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def bytes_of(text: str) -> int:
    """2G as bytes."""
    found = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", text)
    if not found or not int(found[1]):
        raise DescriptionError(f"--memory {text}: write it as 512M or 2G")
    return int(found[1]) * BYTES.get(found[2], 1)


def write(found: Description, outcome: Outcome) -> tuple[list[Path], pl.DataFrame]:
    """Writes what was collected, and its picture; the files, and the table."""
    campaign = found.campaign
    frame = campaign.frame()
    if frame.is_empty() or not campaign.collect:
        return [], frame
    csv = campaign.out / "metrics.csv"
    frame.write_csv(csv)
    frame.write_parquet(csv.with_suffix(".parquet"))
    files = [csv, csv.with_suffix(".parquet")]
    if found.plot:
        # Takes a while to load.
        from layercast_lab import plots

        one = found.plot
        path = plots.sweep(frame, campaign.out / "plot.png", x=one.x, y=one.y, by=one.by, log=one.log)
        files.append(Path(path))
    return files, frame


def tell_plan(found: Description, as_json: bool) -> None:
    """What a start would do."""
    campaign = found.campaign
    pending = len(campaign.pending())
    axes = {name: [key.value for key in choices] for name, choices in campaign.grid.axes.items()}
    plan = {
        "runs": len(campaign.runs),
        "pending": pending,
        "out": str(campaign.out),
        "axes": axes,
        "seeds": campaign.seeds,
    }
    if as_json:
        print(json.dumps(plan, indent=2))
        return
    table = Table("axis", "values")
    for name, values in axes.items():
        table.add_row(name, ", ".join(map(str, values)))
    table.add_row("seeds", ", ".join(map(str, campaign.seeds)))
    put(console, table)
    console.print(f"{plan['runs']} runs, {pending} of them have no result in {campaign.out}", highlight=False)


def tell(found: Description, outcome: Outcome, files: list[Path], frame: pl.DataFrame, as_json: bool) -> None:
    """What became of the runs."""
    campaign = found.campaign
    if as_json:
        told = {
            "runs": outcome.runs,
            "computed": outcome.computed,
            "kept": outcome.kept,
            "damaged": outcome.damaged,
            "left": outcome.left,
            "failed": outcome.failed,
            "partial": outcome.partial,
            "metrics": summary(frame).to_dicts() if files else [],
            "files": [str(path) for path in files],
        }
        print(json.dumps(told, indent=2))
        return
    if files and not found.then:
        show(summary(frame), list(campaign.grid.axes))
    alike: dict[str, list[dict[str, Any]]] = {}
    for run in outcome.failed:
        # Where in its scenario each has the same mistake is no difference.
        alike.setdefault(re.sub(r"\d+", "", run["error"]), []).append(run)
    for first, *others in alike.values():
        label = ", ".join(f"{name} = {value}" for name, value in first.items() if name != "error")
        more = f" (and {len(others)} more)" if others else ""
        complain(f"failed: {label}{more}: {first['error']}")
    if outcome.partial:
        errors.print(f"{len(outcome.partial)} runs came to the end of their budget", highlight=False)
    text = f"{outcome.runs} runs: {outcome.computed} computed, {outcome.kept} kept"
    for number, what in ((len(outcome.failed), "failed"), (outcome.damaged, "of them damaged before")):
        text += f", {number} {what}" if number else ""
    console.print(f"{text}; results in {campaign.out}", highlight=False)
    for path in files:
        console.print(str(path), highlight=False, soft_wrap=True)
    if found.then and files:
        console.print(f"next: {found.then}", highlight=False, soft_wrap=True)


def summary(frame: pl.DataFrame) -> pl.DataFrame:
    """Median, least and most over the seeds."""
    import polars as pl

    value = pl.col("value")
    labels = [name for name in frame.columns if name not in ("seed", "value")]
    return frame.group_by(labels, maintain_order=True).agg(
        value.median().alias("median"),
        value.min().alias("min"),
        value.max().alias("max"),
        value.count().alias("runs"),
    )


def show(table: pl.DataFrame, axes: list[str]) -> None:
    """Prints a summary, without axes of one value."""
    table = table.drop([name for name in axes if table[name].n_unique() == 1])
    axes = [name for name in axes if name in table.columns]
    short = [name.rpartition(".")[2] for name in axes]
    shown = Table(
        *(short if len(set(short)) == len(short) else axes), "metric", "median", "min", "max", "runs"
    )
    most = {metric: part["max"].abs().max() for (metric,), part in table.group_by("metric")}
    for row in table.head(MOST_ROWS).iter_rows(named=True):
        factor, unit = units.scale(most[row["metric"]] or 0, row["unit"])
        numbers = (
            "-" if row[name] is None else f"{row[name] / factor:.4g}" for name in ("median", "min", "max")
        )
        metric = f"{row['metric']} ({unit})" if unit else row["metric"]
        shown.add_row(*(str(row[name]) for name in axes), metric, *numbers, str(row["runs"]))
    put(console, shown)
    if len(table) > MOST_ROWS:
        console.print(f"and {len(table) - MOST_ROWS} more rows", highlight=False)
