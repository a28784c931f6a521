"""The form of `results/*.json`: one file a group of experiments or benchmarks, checked when it is read."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from layercast_lab.experiment import VERDICT_TEXT

FORMAT = 1

SOURCES = {
    "paper": "printed in the paper",
    "restored": "computed from the paper's formulas or restored from its figures",
    "decision": "our own requirement",
    "calibration": "values that the parameters were fitted to, or of a prototype that was",
    "peer": "another program, measured with the same parameters",
}
"""Where an expected value comes from."""


class ResultError(ValueError):
    """A results file that does not have the form; the message names file and place."""


@dataclass
class Run:
    """How a figure was measured. What was not recorded is None."""

    command: str
    date: str
    commit: str | None
    machine: str | None
    cores: int | None
    length: str | None
    """`default`, `quick` (fewer seeds or seconds) or `full`."""
    conditions: str | None = None
    """Load, build, priority: whatever else the figures depend on."""


@dataclass
class Row:
    """One expected value beside what was measured: the row of `reproduce --json`, and three fields more."""

    id: str
    name: str
    reported: str
    source: str
    measured: str
    unit: str | None
    value: float | None
    """The measured number, where `measured` begins with a single one."""
    tolerance: str
    verdict: str
    note: str = ""
    cause: str = ""
    """Why it differs, written by hand and kept as long as the verdict is not `reproduced`."""


@dataclass
class Experiment:
    """A run of `layercast-lab reproduce ID`."""

    id: str
    title: str
    paper: str
    run: Run
    verdict: str
    rows: list[Row]


@dataclass
class Table:
    """Figures without a verdict, such as a benchmark's. A cell that was not measured is None."""

    id: str
    title: str
    run: Run
    columns: list[str]
    units: list[str | None]
    rows: list[list[str | None]]


@dataclass
class Summary:
    """Counts of verdicts of experiments whose rows were not kept; a table shows what was."""

    ids: list[str]
    """Ids of the experiments, or patterns."""
    label: str
    title: str
    counts: dict[str, int]
    table: str


@dataclass
class Group:
    """One file of results."""

    group: str
    title: str
    experiments: list[Experiment] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    format: int = FORMAT

    def experiment(self, id: str) -> Experiment | None:
        """The stored run of this experiment."""
        return next((stored for stored in self.experiments if stored.id == id), None)


def _built(kind: type, data: Any, place: str) -> Any:
    """`kind` of a JSON object, which has exactly its fields; those with defaults may be missing."""
    if not isinstance(data, dict):
        raise ResultError(f"{place}: an object is expected")
    known = {f.name: f for f in fields(kind)}
    if unknown := data.keys() - known.keys():
        raise ResultError(f"{place}: unknown field {min(unknown)!r}")
    try:
        return kind(**data)
    except TypeError as error:
        raise ResultError(f"{place}: {error}") from None


def _run(data: Any, place: str) -> Run:
    run = _built(Run, data, place)
    if not run.command:
        raise ResultError(f"{place}: no command")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", run.date):
        raise ResultError(f"{place}: the date {run.date!r} is not YYYY-MM-DD")
    if run.length not in ("default", "quick", "full", None):
        raise ResultError(f"{place}: the length {run.length!r} is not default, quick or full")
    return run


def _experiment(data: Any, place: str) -> Experiment:
    stored = _built(Experiment, data, place)
    place = f"{place} {stored.id}"
    stored.run = _run(stored.run, f"{place}: run")
    stored.rows = [_built(Row, row, f"{place}: row {n}") for n, row in enumerate(stored.rows)]
    if len({row.id for row in stored.rows}) < len(stored.rows):
        raise ResultError(f"{place}: two rows have the same id")
    for row in stored.rows:
        if row.verdict not in VERDICT_TEXT:
            raise ResultError(f"{place}: {row.id}: unknown verdict {row.verdict!r}")
        if row.source not in SOURCES:
            raise ResultError(f"{place}: {row.id}: unknown source {row.source!r}")
        if row.cause and row.verdict in ("reproduced", "arithmetic"):
            raise ResultError(f"{place}: {row.id}: a cause, but nothing differs")
    return stored


def _table(data: Any, place: str) -> Table:
    table = _built(Table, data, place)
    place = f"{place} {table.id}"
    table.run = _run(table.run, f"{place}: run")
    widths = {len(table.columns), len(table.units), *map(len, table.rows)}
    if len(widths) != 1:
        raise ResultError(f"{place}: rows, columns and units differ in length")
    return table


def _summary(data: Any, tables: list[Table], place: str) -> Summary:
    summary = _built(Summary, data, place)
    if all(table.id != summary.table for table in tables):
        raise ResultError(f"{place}: there is no table {summary.table!r}")
    if unknown := summary.counts.keys() - VERDICT_TEXT.keys():
        raise ResultError(f"{place}: unknown verdict {min(unknown)!r}")
    return summary


def parse(text: str, name: str) -> Group:
    """The results in a file's text; `name` is for errors."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ResultError(f"{name}: {error}") from None
    group = _built(Group, data, name)
    if group.format != FORMAT:
        raise ResultError(f"{name}: format {group.format}, not {FORMAT}")
    group.experiments = [_experiment(e, f"{name}: experiment") for e in group.experiments]
    group.tables = [_table(t, f"{name}: table") for t in group.tables]
    group.summaries = [_summary(s, group.tables, f"{name}: summary") for s in group.summaries]
    return group


def load(folder: Path) -> dict[str, Group]:
    """All groups of the folder by name."""
    found = {path.stem: parse(path.read_text(), path.name) for path in sorted(folder.glob("*.json"))}
    for stem, group in found.items():
        if group.group != stem:
            raise ResultError(f"{stem}.json: is group {group.group!r}")
    return found


def dump(group: Group) -> str:
    """The text of a group's file."""
    return json.dumps(asdict(group), indent=1, ensure_ascii=False) + "\n"
