"""What an experiment is, what it returns, and the list of those there are."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Verdict = Literal["arithmetic", "reproduced", "open", "shape", "differs", "missing"]
"""In the order in which they weaken a report. `arithmetic` has one formula on both sides: no evidence."""

VERDICT_TEXT: dict[Verdict, str] = {
    "arithmetic": "arithmetic",
    "reproduced": "reproduced",
    "open": "not judged",
    "shape": "shape only",
    "differs": "differs",
    "missing": "not run",
}


@dataclass(frozen=True)
class Row:
    """One reported number or statement beside what we measured."""

    name: str
    reported: str
    measured: str
    tolerance: str
    verdict: Verdict
    note: str = ""


def judge(ok: bool) -> Verdict:
    """`reproduced` if the tolerance of the row is kept, else `differs`, whatever the sign."""
    return "reproduced" if ok else "differs"


def judge_shape(kept: bool) -> Verdict:
    """Of a row whose specification asks for a shape alone: `shape` if it is there, else `differs`."""
    return "shape" if kept else "differs"


def arithmetic(ok: bool) -> Verdict:
    """Of a row with one formula on both sides: shown, not counted; `differs` if the two are not equal."""
    return "arithmetic" if ok else "differs"


@dataclass
class Report:
    """The outcome of an experiment."""

    id: str
    title: str
    rows: list[Row]
    figure: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    scenario: str = ""
    """A file that `layercast sim` runs: that of all runs, or of one of many alike."""

    @property
    def verdict(self) -> Verdict:
        """The weakest verdict of the rows."""
        order = list(VERDICT_TEXT)
        return max((row.verdict for row in self.rows), key=order.index, default="differs")

    def to_json(self) -> dict[str, Any]:
        """The form documented in docs/src/reference/json.md."""
        return {
            "id": self.id,
            "title": self.title,
            "verdict": self.verdict,
            "rows": [asdict(row) for row in self.rows],
            "figure": self.figure,
        }


@dataclass(frozen=True)
class Context:
    """Where an experiment writes and how much it runs."""

    out: Path
    seeds: int | None = None
    seconds: float | None = None
    """Length of the measured part of a run, if not that of the paper's."""
    full: bool = False
    """Whether to run the sizes that take minutes, too."""
    progress: Callable[[Iterable[Any], int, str], Iterable[Any]] = lambda items, total, what: items

    def seed_range(self, default: int = 20) -> range:
        """The seeds to run: 1, 2, ... as many as asked for, or `default`."""
        return range(1, (self.seeds or default) + 1)

    def path(self, name: str) -> Path:
        """A file of this name in the output folder, which is made if need be."""
        self.out.mkdir(parents=True, exist_ok=True)
        return self.out / name


@dataclass(frozen=True)
class Experiment:
    """A registered experiment."""

    id: str
    title: str
    paper: str
    run: Callable[[Context], Report]


_registry: dict[str, Experiment] = {}


def experiment(id: str, *, title: str, paper: str) -> Callable[[Callable[[Context], Report]], Callable]:
    """Register a function as the experiment `id` = `<spec file>/<experiment in that spec>`."""

    def register(function: Callable[[Context], Report]) -> Callable[[Context], Report]:
        if id in _registry:
            raise ValueError(f"experiment {id} is registered twice")
        _registry[id] = Experiment(id, title, paper, function)
        return function

    return register


def experiments() -> dict[str, Experiment]:
    """All experiments by id, in the order of their ids."""
    from layercast_lab import experiments as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_registry.items()))
