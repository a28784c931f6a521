"""The points of a campaign: a scenario with some of its fields replaced, as bytes that name it."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from layercast_lab.simulator import toml_file

Axis = Sequence[Any] | Mapping[str, Mapping[str, Any]]
COLUMNS = {"seed", "file", "part", "of", "figure", "t", "metric", "value", "unit"}
NAME = r"[A-Za-z0-9_-]+"
FIELD = re.compile(rf"{NAME}(?:\.{NAME}|\[(?:[0-9]{{1,9}}|\*)\])*")
MOST_SEEDS = 100_000
"""Seeds of a campaign."""
MOST_RUNS = 1_000_000
"""Runs of a campaign."""


class GridError(ValueError):
    """A scenario or grid that makes no points; the text says which field."""


@dataclass(frozen=True)
class Point:
    """One combination of the values of all axes."""

    values: Mapping[str, Any]
    """Of each axis: what is put into the field, or the label of what is put into several."""
    text: str
    """The scenario as canonical JSON: sorted, without its seed, files named by their content."""

    @cached_property
    def digest(self) -> str:
        """Tells this scenario, with all that its files hold, from others."""
        return digest(self.text.encode())


def digest(data: bytes) -> str:
    """128 bits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:32]


def load(scenario: str | Path | Mapping[str, Any]) -> tuple[dict[str, Any], Path]:
    """A scenario as a mapping, and the folder that its files are relative to."""
    if isinstance(scenario, Mapping):
        return dict(scenario), Path(".")
    path = Path(scenario)
    try:
        return tomllib.loads(path.read_text()), path.parent
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GridError(f"{path}: {error}") from None


class Grid:
    """All combinations of the values of the axes, the last axis fastest.

    The name of an axis is the field it replaces, such as "topology.trunk.queue", "flow[0].bytes" or
    "flow[*].start", and its values are a list. An axis that replaces several fields together has a
    name of its own, and a table of labels: {"slow": {"link[0].rate": "1 Mbit/s", ...}, ...}.
    """

    def __init__(self, scenario: Mapping[str, Any], folder: Path, axes: Mapping[str, Axis]) -> None:
        self.axes = {name: choices(name, axis) for name, axis in axes.items()}
        self.inputs: dict[str, bytes] = {}
        """What the scenario's files hold, by the name that `Point.text` has for each."""
        self._scenario, self._folder = dict(scenario), folder
        self._read: dict[Path, str] = {}

    def points(self) -> Iterator[Point]:
        """All points; raises GridError for a field that cannot be replaced."""
        for chosen in itertools.product(*(choices.items() for choices in self.axes.values())):
            # A copy of everything, and a complaint about what JSON has no form for.
            scenario = json.loads(canonical(self._scenario))
            for _, fields in chosen:
                for path, value in fields.items():
                    replace(scenario, path, value)
            scenario.pop("seed", None)
            if isinstance(scenario.get("run"), dict):
                scenario["run"].pop("seed", None)
            labels = (key.value for key, _ in chosen)
            text = canonical(self._by_content(scenario))
            yield Point(dict(zip(self.axes, labels, strict=True)), text)

    def _by_content(self, value: Any) -> Any:
        """The value with every file it names replaced by a name made of what the file holds."""
        match value:
            case dict():
                return {name: self._by_content(inner) for name, inner in value.items()}
            case list():
                return [self._by_content(inner) for inner in value]
            # Names of hosts, laws and units have neither.
            case str() if "." in value or "/" in value:
                path = self._folder / value
                return self._input(path) if path.is_file() else value
        return value

    def _input(self, path: Path) -> str:
        if path not in self._read:
            data = path.read_bytes()
            if path.suffix == ".toml":
                # A workload names files, too, relative to the same folder.
                data = toml_file(self._by_content(tomllib.loads(data.decode()))).encode()
            self._read[path] = digest(data) + path.suffix
            self.inputs[self._read[path]] = data
        return self._read[path]


@dataclass(frozen=True)
class Key:
    """A value of an axis, identified by its text: lists have no hash, and 1 equals 1.0 and true."""

    value: Any
    text: str

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.text == other.text


def choices(name: str, axis: Axis) -> dict[Key, Mapping[str, Any]]:
    """The fields that each value of an axis replaces."""
    if name in COLUMNS:
        raise GridError(f"grid: an axis cannot be called {name!r}, as a column of results is")
    if isinstance(axis, str) or not isinstance(axis, Mapping | Sequence) or not axis:
        raise GridError(f"grid: {name!r} needs a list of values, or a table of labels")
    if isinstance(axis, Mapping):
        for label, fields in axis.items():
            if not isinstance(fields, Mapping):
                raise GridError(f"grid: {name!r}: {label!r} needs a table of fields and values")
        found = [(Key(label, label), fields) for label, fields in axis.items()]
    else:
        found = [(Key(value, canonical(value)), {name: value}) for value in axis]
    for _, fields in found:
        for path in fields:
            steps(path)
    if len(dict(found)) < len(found):
        raise GridError(f"grid: {name!r} has a value twice")
    return dict(found)


def steps(path: str) -> list[str | int]:
    """ "flow[0].bytes" as ["flow", 0, "bytes"]; "*" stands for all of a list."""
    if not FIELD.fullmatch(path):
        raise GridError(f"grid: {path!r} is no field; write it as topology.trunk.queue or flow[0].bytes")
    found = re.findall(rf"({NAME})|\[([0-9]+|\*)\]", path)
    return [name or (index if index == "*" else int(index)) for name, index in found]


def replace(scenario: dict[str, Any], path: str, value: Any) -> None:
    """Puts `value` where `path` leads; tables on the way are made, entries of lists are not."""
    *way, last = steps(path)
    holders: list[Any] = [scenario]
    for step in way:
        holders = [inner for holder in holders for inner in enter(holder, step, path)]
    for holder in holders:
        if last == "*":
            enter(holder, last, path)
            holder[:] = [value] * len(holder)
        elif isinstance(last, int):
            enter(holder, last, path)
            holder[last] = value
        elif isinstance(holder, dict):
            holder[last] = value
        else:
            raise GridError(f"grid: {path!r}: {last!r} is inside something that is no table")


def enter(holder: Any, step: str | int, path: str) -> list[Any]:
    """What one step of a path leads to."""
    if isinstance(step, int) or step == "*":
        if not isinstance(holder, list):
            raise GridError(f"grid: {path!r}: the scenario has no list there")
        if step == "*":
            return holder
        if step >= len(holder):
            raise GridError(f"grid: {path!r}: the scenario has {len(holder)} there, numbered from 0")
        return [holder[step]]
    if not isinstance(holder, dict):
        raise GridError(f"grid: {path!r}: {step!r} is inside something that is no table")
    return [holder.setdefault(step, {})]


def canonical(value: Any) -> str:
    """JSON that is the same for the same value."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise GridError(f"a scenario cannot have this: {error}") from None


def seeds_of(seeds: int | str | Sequence[int] | range) -> list[int]:
    """Seeds as a list: 5 is 1 to 5, "3..7" is 3 to 7, a sequence is itself."""
    wrong = GridError(f"seeds: {seeds!r} is neither a number, nor FIRST..LAST, nor a list of numbers")
    if isinstance(seeds, str):
        ends = re.fullmatch(r"([0-9]{1,20})\.\.([0-9]{1,20})", seeds)
        if not ends:
            raise wrong
        found: Sequence[int] = range(int(ends[1]), int(ends[2]) + 1)
    elif isinstance(seeds, int) and not isinstance(seeds, bool):
        found = range(1, seeds + 1)
    elif isinstance(seeds, Sequence):
        found = seeds
    else:
        raise wrong
    # The slice has a length where that of the range is too large for `len`.
    if len(found[: MOST_SEEDS + 1]) > MOST_SEEDS:
        raise GridError(f"seeds: a campaign has at most {MOST_SEEDS:,} seeds")
    if not found or not all(type(seed) is int and 0 <= seed < 1 << 64 for seed in found):
        raise wrong
    if len(set(found)) < len(found):
        raise GridError("seeds: one is there twice")
    return list(found)
