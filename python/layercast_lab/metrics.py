"""What is looked at of each run: figures of its table by name, one number for each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import polars as pl

Take = Literal["mean", "sum", "median", "min", "max"]
AT_ONCE = 200
SUFFIXES = {"_bps": "bit/s", "bytes": "B", "_ms": "ms", "_ms_p50": "ms", "_ms_p99": "ms"}
SECONDS = {"mean_wait", "mean_delay", "completed", "seconds", "sim_seconds", "p50", "p90"}


class MetricError(ValueError):
    """A metric that no run has; the text says what there is."""


@dataclass(frozen=True)
class Metric:
    """One number of each run.

    `of` is PART/NAME/FIGURE as in the tables of runs, such as "queues/left->right/mean_wait", with * for
    anything; of what belongs to no part it is "run/events". If several figures match, `take` makes one of
    them. With `less`, which is another such path, that is taken from it; with `per`, the number is a ratio.
    """

    of: str
    take: Take = "mean"
    per: str | None = None
    unit: str | None = None
    """What it is measured in, if its name does not tell."""
    less: str | None = None
    optional: bool = False
    """Whether all runs may be without it."""

    def __post_init__(self) -> None:
        if self.take not in get_args(Take):
            raise MetricError(f"take: {self.take!r} is none of {', '.join(get_args(Take))}")
        for path in (self.of, self.per, self.less):
            if path is not None and "/" not in path:
                raise MetricError(f"{path!r} is no PART/NAME/FIGURE, such as queues/left->right/mean_wait")

    def shown_unit(self) -> str:
        """What to write on an axis."""
        if self.unit is not None:
            return self.unit
        units = [unit_of(path.rpartition("/")[2]) for path in (self.of, self.per) if path is not None]
        return (
            units[0] if len(units) == 1 else "" if units[0] == units[1] else "/".join(u or "1" for u in units)
        )


def unit_of(figure: str) -> str:
    """What a figure of a summary is measured in; "" for counts and shares."""
    if figure in SECONDS:
        return "s"
    return next((unit for suffix, unit in SUFFIXES.items() if figure.endswith(suffix)), "")


def metric(given: str | Mapping[str, Any] | Metric) -> Metric:
    """A metric from its path, or from its fields."""
    match given:
        case Metric():
            return given
        case str():
            return Metric(given)
        case Mapping():
            unknown = given.keys() - Metric.__annotations__.keys()
            texts = all(isinstance(v, str) for name, v in given.items() if name != "optional")
            if unknown or "of" not in given or not texts or type(given.get("optional", False)) is not bool:
                raise MetricError(
                    f"{dict(given)} is no metric: it has of, take, less, per, unit, all texts, and optional"
                )
            return Metric(**given)
    raise MetricError(
        f"{given!r} is no metric: write PART/NAME/FIGURE or a table of of, take, less, per, unit"
    )


def named(name: str, given: str | Mapping[str, Any] | Metric) -> Metric:
    """The metric with this name. Raises MetricError with the name."""
    try:
        return metric(given)
    except MetricError as error:
        raise MetricError(f"collect: {name!r}: {error}") from None


def scan(files: Sequence[Path], path: str) -> pl.DataFrame:
    """The rows that match a path, of all files: file (its name), part, of, figure, t, value."""
    import polars as pl

    part, of, figure = (".*".join(map(re.escape, text.split("*"))) for text in split(path))
    wanted = {"part": part, "of": of, "figure": figure}
    matches = [pl.col(name).str.contains(f"^{text}$") for name, text in wanted.items()]
    name = pl.col("file").str.split("/").list.last()
    found = []
    for some in batched(files):
        chosen = pl.scan_parquet(some, include_file_paths="file").filter(*matches)
        found.append(chosen.select(name, "part", "of", "figure", "t", "value").collect())
    return pl.concat(found)


def batched(files: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """A few hundred files at a time: polars takes memory for each that it has open."""
    for first in range(0, len(files), AT_ONCE):
        yield files[first : first + AT_ONCE]


def split(path: str) -> tuple[str, str, str]:
    """PART/NAME/FIGURE in three; names may have strokes in them."""
    part, _, rest = path.partition("/")
    of, _, figure = rest.rpartition("/")
    return part, of, figure


def collect(files: Sequence[Path], metrics: Mapping[str, Metric]) -> pl.DataFrame:
    """Each metric of each file that has it: file (its name), metric, value, unit.

    Raises MetricError for one that none has.
    """
    import polars as pl

    columns = {"file": pl.String, "metric": pl.String, "value": pl.Float64, "unit": pl.String}
    found = [pl.DataFrame(schema=columns)]
    for name, one in metrics.items():
        try:
            value = take(files, name, one.of, one.take)
        except MetricError:
            if one.optional:
                continue
            raise
        if one.less is not None:
            less = take(files, name, one.less, one.take).rename({"value": "less"})
            rest = pl.col("value") - pl.col("less")
            value = value.join(less, on="file", how="left", maintain_order="left").select("file", value=rest)
        if one.per is not None:
            per = take(files, name, one.per, one.take).rename({"value": "per"})
            # Of nothing there is no share.
            shares = pl.when(pl.col("per") != 0).then(pl.col("value") / pl.col("per"))
            value = value.join(per, on="file", how="left", maintain_order="left").select("file", value=shares)
        found.append(
            value.select(
                "file", pl.lit(name).alias("metric"), "value", pl.lit(one.shown_unit()).alias("unit")
            )
        )
    return pl.concat(found)


def take(files: Sequence[Path], name: str, path: str, how: Take) -> pl.DataFrame:
    """One number of each file: of the figures that match, without those that have times."""
    import polars as pl

    rows = scan(files, path).filter(pl.col("t").is_null())
    if rows.is_empty():
        raise MetricError(f"collect: {name!r}: no run has {path!r}{nearest(files[0], path)}")
    return rows.group_by("file", maintain_order=True).agg(getattr(pl.col("value"), how)())


def nearest(file: Path, path: str) -> str:
    """A hint at what a run has."""
    import polars as pl

    rows = (
        pl.read_parquet(file)
        .filter(pl.col("t").is_null())
        .select("part", "of", "figure")
        .unique(maintain_order=True)
    )
    there = ["/".join(filter(None, row)) for row in rows.iter_rows()]
    close = difflib.get_close_matches(path, there, 3, 0.4)
    return f"; there are {', '.join(close)}" if close else f"; there is {there[0]}, for instance"
