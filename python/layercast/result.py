"""A simulation run and its result."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from layercast import _checks, _layercast

LAYERS = ("BL", "E1", "E2")


@dataclass(frozen=True)
class Receiver:
    """What one receiver was granted and got; times in seconds of the scenario."""

    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name in the scenario."""
        return self.data["name"]

    @cached_property
    def levels(self) -> np.ndarray:
        """Levels granted: shape (changes, 2), columns time in s and level 0..2."""
        return np.array(self.data["levels"], dtype=float).reshape(-1, 2)

    @cached_property
    def received(self) -> np.ndarray:
        """Highest layer seen in each GOP: shape (GOPs, 2), columns time in s and level 0..2."""
        return np.array(self.data["received"], dtype=float).reshape(-1, 2)

    @cached_property
    def series(self) -> dict[str, np.ndarray]:
        """One value a second of each measured quantity, by name; NaN where there is none.

        What is counted by layer comes as one array each, such as "cells_E1".
        """
        rows = [flatten(row) for row in self.data["series"]]
        names = rows[0].keys() if rows else ()
        return {name: np.array([row[name] for row in rows], dtype=float) for name in names}

    def level_at(self, time_s: float) -> int | None:
        """Level in force at `time_s`; None before the first."""
        index = int(np.searchsorted(self.levels[:, 0], time_s, side="right")) - 1
        return int(self.levels[index, 1]) if index >= 0 else None

    def count(self, what: str) -> np.ndarray:
        """Counters of BL, E1, E2: `what` is "frames" or "lost"; shape (3,)."""
        return np.array([self.data[what][layer] for layer in LAYERS], dtype=np.int64)


@dataclass(frozen=True)
class Result:
    """The summary of a run, as `layercast sim --json` prints it, with arrays on top."""

    summary: Mapping[str, Any]

    @cached_property
    def receivers(self) -> list[Receiver]:
        """All receivers of all flows; internetworks have none."""
        flows = self.summary["flows"]
        return [Receiver(data) for flow in flows for data in flow.get("receivers", ())]

    def receiver(self, name: str) -> Receiver:
        """The receiver called `name`; KeyError lists those there are."""
        for receiver in self.receivers:
            if receiver.name == name:
                return receiver
        raise KeyError(f"no receiver {name!r}; there are {[r.name for r in self.receivers]}")


def flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    """{"a": 1, "b": {"c": 2}} as {"a": 1, "b_c": 2}."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}_{inner}": v for inner, v in value.items()}
        else:
            flat[name] = value
    return flat


def probe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a video file consists of, as `layercast probe --json` prints it.

    Raises LayercastError with the offset for a file that is no MPEG-1 or MPEG-2 video.
    """
    try:
        name = os.fsencode(path)
    except UnicodeError:
        raise ValueError(f"path is {path!r}: give a path that the file system can have") from None
    return json.loads(_layercast.probe_json(name))


def run(
    scenario: str | os.PathLike[str] | Mapping[str, Any],
    *,
    seed: int | None = None,
    base_dir: str | os.PathLike[str] = ".",
) -> Result:
    """Run a scenario in the simulator.

    `scenario` is a mapping, a path of a TOML file, or TOML text (recognised by its line breaks), of METS or,
    with `schema = "internet/1"`, of an internetwork; of that the result has the summary, and no
    receivers. Clips and workloads it names are relative to `base_dir`; `layercast sim` takes clips
    relative to the working directory, workloads relative to the file. `seed` replaces the
    scenario's. Raises LayercastError with the field and what is accepted.
    The interpreter lock is released while the simulation runs, so threads run in parallel.
    """
    if seed is not None:
        seed = _checks.whole("seed", seed, 0, (1 << 64) - 1)
    if isinstance(scenario, Mapping):
        text, form = json.dumps(scenario), "json"
    elif isinstance(scenario, str) and "\n" in scenario:
        text, form = scenario, "toml"
    else:
        text, form = Path(scenario).read_text(), "toml"
    return Result(json.loads(_layercast.run(text, form, os.fspath(base_dir), seed)))
