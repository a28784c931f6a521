"""Campaigns as files, TOML or Python that makes one, and those that have a name."""

from __future__ import annotations

import difflib
import re
import runpy
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layercast_lab.campaign import Campaign
from layercast_lab.grid import GridError
from layercast_lab.insane import study
from layercast_lab.insane.policies import PolicyError
from layercast_lab.metrics import MetricError

SCHEMA = Path(__file__).with_name("campaign.schema.json")
"""The JSON Schema of a campaign in TOML."""
FIELDS = {"scenario", "seeds", "grid", "collect", "plot"}
PLOT = {"x", "y", "by", "log"}
BUILT_IN = {study.NAME: (study.built_in, "layercast-lab reproduce insane-study/summary")}
"""Campaigns that have a name and no file, and what to do then."""


class DescriptionError(ValueError):
    """A file that describes no campaign; the text says what is wrong with it."""


@dataclass(frozen=True)
class Plot:
    """The picture a campaign ends with."""

    x: str
    """The axis from left to right."""
    y: list[str]
    """What is collected, one above the other."""
    by: str | None = None
    """The axis that has a line for each value."""
    log: bool = False
    """Whether the axis from left to right is logarithmic."""


@dataclass(frozen=True)
class Description:
    """What a file says."""

    campaign: Campaign
    plot: Plot | None = None
    then: str | None = None
    """The command that makes something of the results, if a table of all would be too long."""


def read(
    path: Path,
    out: Path | None = None,
    instead: Mapping[str, Any] | None = None,
    seeds: str | None = None,
    select: Sequence[str] | None = None,
) -> Description:
    """The campaign that a file describes, its results in `out` or target/lab/campaigns/NAME.

    NAME is that of the file, or of its folder if the file is called campaign.toml. `instead` are fields of
    the scenario and values for them, `seeds` a number or FIRST..LAST instead of those of the file. Of a
    campaign that has a name instead of a file, `select` are patterns of what is run. A TOML file has
    `scenario` (a file, relative to this one), `seeds`, and the tables `grid`, `collect` and `plot`; a Python
    file makes a `Campaign` and calls it `campaign`. Raises DescriptionError, or OSError if there is no file.
    """
    counted = int(seeds) if seeds and re.fullmatch("[0-9]{1,20}", seeds) else seeds
    if str(path) in BUILT_IN:
        try:
            build, then = BUILT_IN[str(path)]
            return Description(build(select, counted, instead or {}, out), then=then)
        except (GridError, PolicyError) as error:
            raise DescriptionError(str(error)) from None
    if select:
        raise DescriptionError(f"--select is for {', '.join(BUILT_IN)}")
    name = path.resolve().parent.name if path.stem == "campaign" else path.stem
    out = out or Path("target/lab/campaigns") / name
    if path.suffix == ".py":
        if instead or seeds:
            raise DescriptionError(f"{path}: --set and --seeds are for campaigns in TOML")
        return Description(from_python(path, out))
    text = ""
    try:
        text = path.read_text()
        return from_toml(path, tomllib.loads(text), out, instead or {}, counted)
    except (GridError, MetricError, DescriptionError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        line = line_of(text, str(error))
        raise DescriptionError(f"{path}{f':{line}' if line else ''}: {error}") from None


def line_of(text: str, message: str) -> int | None:
    """The line of the field that `message` begins with, such as "plot.x: ..." or "grid: 'a.b' ..."."""
    field = re.match(r"(?P<table>[\w.]+): (?:['\"](?P<axis>[^'\"]+)['\"])?", message)
    if not field:
        return None
    table, _, key = field["table"].rpartition(".")
    # Axes of the grid are keys of its table; other texts in quotes are values.
    if field["table"] in ("grid", "collect") and field["axis"]:
        table, key = field["table"], field["axis"]
    inside, header = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*\[([^\]]+)\]", line):
            inside = found[1].strip()
            header = number if inside in (table, key) else header
        elif inside == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return header


def from_python(path: Path, out: Path) -> Campaign:
    """What the module at `path` calls `campaign`."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}")
    campaign = runpy.run_path(str(path), run_name="campaign").get("campaign")
    if not isinstance(campaign, Campaign):
        raise DescriptionError(f"{path} makes no Campaign called `campaign`")
    campaign.out = out
    return campaign


def from_toml(
    path: Path, told: Mapping[str, Any], out: Path, instead: Mapping[str, Any], seeds: int | str | None
) -> Description:
    """The campaign of a TOML file."""
    known("", told, FIELDS)
    if not isinstance(told.get("scenario"), str) or not told["scenario"]:
        raise DescriptionError("scenario: name the file of a scenario, relative to this one")
    for table in ("grid", "collect", "plot"):
        if not isinstance(told.get(table, {}), Mapping):
            raise DescriptionError(f"{table}: make it a table, [{table}]")
    scenario = path.parent / told["scenario"]
    if not scenario.is_file():
        raise DescriptionError(f"scenario: there is no {scenario}")
    # An axis of one value is a replacement; it comes last so that it wins over the others.
    fixed = {name: [value] for name, value in instead.items()}
    grid = {name: axis for name, axis in told.get("grid", {}).items() if name not in fixed} | fixed
    seeds = seeds if seeds is not None else told.get("seeds", 5)
    campaign = Campaign(scenario, grid, seeds, collect=told.get("collect", {}), out=out)
    return Description(campaign, plot(told["plot"], campaign) if "plot" in told else None)


def plot(told: Mapping[str, Any], campaign: Campaign) -> Plot:
    """The table [plot]."""
    known("plot.", told, PLOT)
    for field in ("x", "by"):
        if not isinstance(told.get(field, ""), str):
            raise DescriptionError(
                f"plot.{field}: it is {told[field]!r}; expected the name of an axis in quotes"
            )
    several = [told["y"]] if isinstance(told.get("y"), str) else told.get("y", [])
    if not isinstance(several, list) or not all(isinstance(name, str) for name in several):
        raise DescriptionError(f"plot.y: it is {told['y']!r}; expected a collected name, or a list of them")
    if not isinstance(told.get("log", False), bool):
        raise DescriptionError(f"plot.log: it is {told['log']!r}; expected true or false")
    y = told.get("y", list(campaign.collect))
    found = Plot(told.get("x", ""), [y] if isinstance(y, str) else y, told.get("by"), told.get("log", False))
    for field, value in (("x", found.x), ("by", found.by)):
        if value is not None and value not in campaign.grid.axes:
            raise DescriptionError(
                f"plot.{field}: {value!r} is no axis; there are {', '.join(campaign.grid.axes)}"
            )
    for name in found.y:
        if name not in campaign.collect:
            raise DescriptionError(
                f"plot.y: {name!r} is not collected; that is {', '.join(campaign.collect)}"
            )
    if not found.y:
        raise DescriptionError("plot.y: nothing is collected")
    return found


def known(where: str, told: Mapping[str, Any], fields: set[str]) -> None:
    """Raises an error for an unknown field."""
    for field in told:
        if field not in fields:
            near = difflib.get_close_matches(field, fields, 1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise DescriptionError(
                f"{where}{field}: there is no such field; {meant}expected {', '.join(sorted(fields))}"
            )
