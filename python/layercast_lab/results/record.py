"""Runs experiments and keeps their rows in `results/*.json`."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path

from layercast_lab import units
from layercast_lab.cli import command_of
from layercast_lab.experiment import experiments
from layercast_lab.results.schema import Experiment, Group, Row, Run, dump, load


@dataclass(frozen=True)
class Length:
    """The options of `reproduce` that say how much is run."""

    seeds: int | None = None
    seconds: float | None = None
    full: bool = False

    @property
    def name(self) -> str:
        """The word of `Run.length`."""
        return "full" if self.full else "quick" if self.seeds or self.seconds else "default"

    @property
    def options(self) -> list[str]:
        """As arguments of `reproduce`."""
        seeds = ["--seeds", str(self.seeds)] if self.seeds else []
        seconds = ["--seconds", f"{self.seconds:g}"] if self.seconds else []
        return seeds + seconds + (["--full"] if self.full else [])


EXTENSIONS = re.compile(
    r"mets/(e2[cd]|e5[b-f]|sweep|scale)|packet-level-fec/(s[23]|base)|where-to-use-fec/x|partial-order-transport/e[78]"
)
"""Experiments that take a paper's name and ask what it does not."""


def slug(text: str) -> str:
    """Letters and digits in lower case, joined by single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def source_of(id: str, paper: str, reported: str, note: str = "") -> str:
    """The kind of source of a row's expected value, a key of `SOURCES`.

    What a row says of itself goes first: its name or note tells what parameters were fitted to, `reported`
    a prototype or a model (METS's is a prototype, others are the papers'), and a requirement of ours has
    no reported value. Otherwise it is the experiment's: its `paper` names no paper for our own.
    """
    of_prototype = id.startswith("mets/") and reported.startswith("model")
    if (
        of_prototype
        or re.search(r"fitted to this|specification's prototype", note)
        or re.search(r"prototype|calibrated|specification's own", reported)
    ):
        return "calibration"
    if reported in ("", "-", "ours", "guaranteed") or reported.startswith(("ours", "at most 1.10")):
        return "decision"
    if re.search(r"\(by (definition|construction)\)|the truth of the simulator", reported):
        return "decision"
    if re.search(r"figures? only|curves only|the model|model [AB]\b|^model|E\(T\)|^formula", reported):
        return "restored"
    if id.startswith("tcp/"):
        return "peer"
    if EXTENSIONS.match(id) or re.search(r"\bours\b|what it leaves out|a test of the simulator", paper):
        return "decision"
    return "decision" if re.match(r"No paper|\S+\.md", paper) else "paper"


def rows_of(report: dict, paper: str, before: Experiment | None = None) -> list[Row]:
    """The rows of one report of `reproduce --json`, with the causes and sources that the same rows had."""
    causes = {row.id: row.cause for row in before.rows} if before else {}
    # Where the rules below were corrected by hand.
    sources = {(row.id, row.reported): row.source for row in before.rows} if before else {}
    found: list[Row] = []
    for told in report["rows"]:
        id, n = slug(told["name"])[:60].strip("-"), 2
        while any(row.id == id for row in found):
            id, n = f"{slug(told['name'])[:56]}-{n}", n + 1
        value = units.number(re.sub(r" ?\(.*\)$", "", told["measured"]))
        known = value is not None and len(value[1]) < 12
        cause = "" if told["verdict"] in ("reproduced", "arithmetic") else causes.get(id, "")
        found.append(
            Row(
                id=id,
                source=sources.get((id, told["reported"]))
                or source_of(report["id"], paper, told["reported"], f"{told['name']}; {told['note']}"),
                unit=(value[1].strip() or None) if known else None,
                value=value[0] if known else None,
                cause=cause,
                **told,
            )
        )
    return found


def here() -> dict:
    """Commit, machine and load of now."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    build = Path(os.environ.get("LAYERCAST", "release/layercast")).parent.name
    conditions = f"{build} build, load {os.getloadavg()[0]:.0f} at the start"
    return {"commit": commit(), "machine": model, "cores": os.cpu_count(), "conditions": conditions}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def commit() -> str | None:
    """$LAYERCAST_COMMIT, or the checked-out commit; None outside of a repository."""
    if named := os.environ.get("LAYERCAST_COMMIT"):
        return named
    told = subprocess.run(["git", "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True)
    return told.stdout.strip() or None


def keep(folder: Path, group_name: str, stored: Experiment) -> None:
    """Puts the experiment into its group's file, in the place of the run before."""
    group = load(folder).get(group_name) or Group(group_name, group_name)
    rest = [other for other in group.experiments if other.id != stored.id]
    group.experiments = sorted([*rest, stored], key=lambda one: order(one.id))
    write(folder, group)


def write(folder: Path, group: Group) -> None:
    """Writes the group's file whole or not at all."""
    path = folder / f"{group.group}.json"
    new = path.with_suffix(".new")
    new.write_text(dump(group))
    new.replace(path)


def order(id: str) -> list:
    """Numbers in an id count as numbers: e2 before e10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", id)]


def record(folder: Path, id: str, length: Length, out: Path, timeout: float | None) -> str:
    """Runs one experiment and keeps it; returns its verdict, or why there is none."""
    known = experiments()[id]
    place = here()
    arguments = [sys.executable, "-m", "layercast_lab.cli", "reproduce", id, "--json", "--out", str(out)]
    try:
        ran = subprocess.run([*arguments, *length.options], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"not recorded: it takes longer than {timeout:g} s"
    if ran.returncode:
        return f"not recorded: {ran.stderr.strip().splitlines()[-1:]}"
    report = json.loads(ran.stdout)
    group_name = id.split("/")[0]
    before = group.experiment(id) if (group := load(folder).get(group_name)) else None
    run = Run(
        command=command_of(id, length.seeds, length.seconds, length.full),
        date=date.today().isoformat(),
        length=length.name,
        **place,
    )
    rows = rows_of(report, known.paper, before)
    keep(folder, group_name, Experiment(id, known.title, known.paper, run, report["verdict"], rows))
    return report["verdict"]


def row_fields() -> set[str]:
    """The fields of a row that `reproduce --json` gives."""
    return {f.name for f in fields(Row)} - {"id", "source", "unit", "value", "cause"}
