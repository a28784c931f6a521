"""The numbers of a run's summary as a tidy table, and that as Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

FORMAT = 1
"""Goes into the address of a run: another way to make tables is another result."""

# What tells the entries of a list apart, in the order of the name they make.
NAMES = ("node", "port", "application", "flow", "router", "branch", "rule", "name")

Row = tuple[str, str, str, float | None, float]


def rows(summary: Mapping[str, Any]) -> Iterator[Row]:
    """(part, of, figure, t, value) of every number of a summary, in its order.

    The goodput of a flow is ("flows", "left1->right1", "goodput_bps", None, 5931008.0); what belongs to no
    part of the network, such as "events", is of the part "run". `t` is there for what has a time. Truth
    values are 0 or 1; texts are left out, and so is the time that the run took.
    """
    alone = {
        name: value for name, value in summary.items() if name not in ("scenario", "seed", "wall_seconds")
    }
    yield "run", "", "partial", None, float(summary.get("stopped") is not None)
    yield from inside("run", "", alone)


def inside(part: str, of: str, value: Mapping[str, Any], before: str = "") -> Iterator[Row]:
    """The numbers of one object, and of those in it."""
    for name, inner in value.items():
        figure = before + name
        match inner:
            case bool() | int() | float():
                yield part, of, figure, None, float(inner)
            case dict() if part == "run" and not before:
                # Such as "atm": what is in it has names of its own.
                yield from inside(name, of, inner)
            case dict():
                yield from inside(part, of, inner, f"{figure}_")
            case list():
                yield from listed(part, of, figure, inner)


def listed(part: str, of: str, figure: str, values: list[Any]) -> Iterator[Row]:
    """The numbers of a list: of named objects, of objects with times, or of pairs of time and value."""
    for number, value in enumerate(values):
        match value:
            case {"t": t, **others}:
                for _, _, name, _, v in inside(part, of, others, f"{figure}_"):
                    yield part, of, name, float(t), v
            case dict():
                names = [value[name] for name in NAMES if isinstance(value.get(name), str)]
                name = "/".join(([of] if of else []) + (names or [str(number)]))
                nested = figure if part in ("run", "flows") else f"{part}.{figure}"
                yield from inside(nested, name, value)
            case [int() | float() as t, int() | float() as v]:
                yield part, of, figure, float(t), float(v)


def parquet(summary: Mapping[str, Any], about: Mapping[str, Any]) -> bytes:
    """The table as a Parquet file that says what it is `about`; the same run gives the same bytes."""
    import polars as pl

    columns = {"part": pl.String, "of": pl.String, "figure": pl.String, "t": pl.Float64, "value": pl.Float64}
    table = pl.DataFrame(list(rows(summary)), schema=columns, orient="row")
    file = io.BytesIO()
    table.write_parquet(file, metadata={"layercast": json.dumps(about, sort_keys=True)})
    return file.getvalue()
