"""Campaigns: a scenario, a grid of changes to it, and seeds; every run once."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layercast_lab import engine, rows, scrape
from layercast_lab.engine import Done, Failed, Job
from layercast_lab.grid import MOST_RUNS, Axis, Grid, GridError, Point, canonical, digest, load, seeds_of
from layercast_lab.metrics import Metric, collect, named, scan
from layercast_lab.progress import Meter
from layercast_lab.store import Store

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Run:
    """One run of a campaign."""

    address: str
    """Tells it from all others: scenario with the files it names, seed, build of the simulator."""
    point: Point
    seed: int

    def label(self) -> dict[str, Any]:
        """What a person calls it."""
        return {**self.point.values, "seed": self.seed}


@dataclass
class Outcome:
    """What became of the runs of a campaign."""

    runs: int
    kept: int = 0
    """Results of earlier starts."""
    computed: int = 0
    damaged: int = 0
    """Results that were not what had been written, and were computed again."""
    failed: list[dict[str, Any]] = field(default_factory=list)
    """Labels of runs without a result, each with its `error`."""
    partial: list[dict[str, Any]] = field(default_factory=list)
    """Labels of runs that their budget ended."""
    interrupted: bool = False

    @property
    def left(self) -> int:
        """Runs that nothing became of."""
        return self.runs - self.kept - self.computed - len(self.failed)


class Campaign:
    """All combinations of the values of `grid` put into a scenario, each with all seeds.

    `scenario` is a path of a TOML file or a mapping, `grid` as in `Grid`, `seeds` a number (5 is 1 to 5),
    "FIRST..LAST" or a list, `collect` what is looked at of each run, by name (`Metric`). Results go to the
    folder `out`, where a later start finds them.

    >>> campaign = Campaign(
    ...     "scenarios/internet/dumbbell.toml",
    ...     {"tcp.default.variant": ["reno", "cubic"]},
    ...     seeds=5,
    ...     collect={"wait": "queues/left->right/mean_wait"},
    ... )                                                           # doctest: +SKIP
    >>> campaign.run()                                              # doctest: +SKIP
    >>> campaign.frame()                                            # doctest: +SKIP
    """

    def __init__(
        self,
        scenario: str | Path | Mapping[str, Any],
        grid: Mapping[str, Axis] | None = None,
        seeds: int | str | Sequence[int] = 5,
        *,
        collect: Mapping[str, str | Mapping[str, Any] | Metric] | None = None,
        out: str | Path | None = None,
    ) -> None:
        self.scenario, folder = load(scenario)
        self.grid = Grid(self.scenario, folder, grid or {})
        self.seeds = seeds_of(seeds)
        runs = math.prod(map(len, self.grid.axes.values())) * len(self.seeds)
        if runs > MOST_RUNS:
            raise GridError(
                f"grid: {runs:,} runs are more than {MOST_RUNS:,}: name fewer values, axes or seeds"
            )
        self.collect = {name: named(name, given) for name, given in (collect or {}).items()}
        self.out = Path(out or Path("target/lab/campaigns") / str(self.scenario.get("name", "campaign")))

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, seeds fastest."""
        return [Run(address(point, seed), point, seed) for point in self.grid.points() for seed in self.seeds]

    def pending(self) -> list[Run]:
        """The runs that have no result yet, one of those that are the same."""
        there = Store(self.out).find(run.address for run in self.runs)
        return list({run.address: run for run in self.runs if run.address not in there}.values())

    def run(
        self,
        *,
        jobs: int | None = None,
        scheduler: str | None = None,
        memory: int | None = None,
        timeout: float | None = None,
        quiet: bool = False,
        metrics: str | None = None,
    ) -> Outcome:
        """Makes all runs that have no result.

        `jobs` run at a time on this machine, by default as many as it has processors, each in a process that
        may have `memory` bytes (an equal part of what there is); with `scheduler`, such as
        "tcp://10.0.0.1:8786", on that Dask cluster instead. A run that takes more than `timeout` s fails.
        `metrics` is where Prometheus reads how far it is: "9401", "127.0.0.1:9401".
        A run that fails does not stop the others; Ctrl-C does, and what is done is kept. Raises OSError
        if another campaign is at work in the folder, the cluster has another build, or the address of
        `metrics` is taken; ValueError if that is no address.
        """
        with scrape.serve(metrics) as figures, Store(self.out) as store:
            self._describe(store)
            labels: dict[str, list[Run]] = {}
            for run in self.runs:
                labels.setdefault(run.address, []).append(run)
            there = store.find(labels)
            damaged = set(store.remove_damaged(there))
            outcome = Outcome(len(self.runs), damaged=len(damaged))
            outcome.kept = sum(len(labels[a]) for a in there if a not in damaged)
            missing = [same[0] for a, same in labels.items() if a not in there or a in damaged]
            figures.begin(len(missing), outcome.kept)
            if missing:
                # Takes a second to load, and a campaign that is done needs none of it.
                from layercast_lab.executor import Executor

                with (
                    Executor(scheduler, jobs, memory, timeout) as executor,
                    Meter(len(missing), quiet) as meter,
                ):
                    executor.check()
                    with interrupts(executor.interrupt) as interrupted:
                        for found in executor.run(map(job, missing), self.grid.inputs):
                            self._keep(store, labels[found.address], found, outcome)
                            meter.add(found)
                            figures.add(found)
                    outcome.interrupted = bool(interrupted)
            outcome.partial = self._partial()
            store.write_json("outcome.json", {"left": outcome.left, **asdict(outcome)})
        return outcome

    def _keep(self, store: Store, same: list[Run], found: Done | Failed, outcome: Outcome) -> None:
        match found:
            case Failed():
                outcome.failed += [{**run.label(), "error": found.error} for run in same]
            case Done():
                store.put(found.address, found.data)
                outcome.computed += len(same)
                entry = asdict(found) | {"at": time.time(), "data": len(found.data)}
                store.log(entry)

    def _describe(self, store: Store) -> None:
        """What the addresses of the results stand for, those of earlier starts in the folder with them."""
        earlier = store.read_json("campaign.json").get("points", [])
        points = {point["digest"]: point for point in earlier if "digest" in point}
        for point in {run.point.digest: run.point for run in self.runs}.values():
            told = {"digest": point.digest, "values": dict(point.values), "scenario": point.text}
            points[point.digest] = told
        store.write_json(
            "campaign.json",
            {
                "engine": engine.version(),
                "seeds": self.seeds,
                "axes": list(self.grid.axes),
                "collect": {name: asdict(one) for name, one in self.collect.items()},
                "points": list(points.values()),
            },
        )

    def _files(self) -> dict[str, Path]:
        return Store(self.out).find(run.address for run in self.runs)

    def _partial(self) -> list[dict[str, Any]]:
        found = self.rows("run/partial")
        return found.filter(found["value"] == 1).drop("part", "of", "figure", "t", "value").to_dicts()

    def frame(self) -> pl.DataFrame:
        """What is collected of the runs that have a result: axes, seed, metric, value, unit.

        Raises MetricError if no run has a metric.
        """
        files = self._files()
        if not files or not self.collect:
            return self._join(files, None, ["metric", "value", "unit"])
        return self._join(files, collect(sorted(files.values()), self.collect))

    def rows(self, path: str = "*/*/*") -> pl.DataFrame:
        """What matches `path` in all results: axes, seed, part, of, figure, t, value."""
        files = self._files()
        if not files:
            return self._join(files, None, ["part", "of", "figure", "t", "value"])
        return self._join(files, scan(sorted(files.values()), path))

    def _join(
        self, files: Mapping[str, Path], found: pl.DataFrame | None, columns: Sequence[str] = ()
    ) -> pl.DataFrame:
        """Axes and seed beside what was found in the files, in the order of the runs."""
        import polars as pl

        there = [run for run in self.runs if run.address in files]
        axes = {name: column([run.point.values[name] for run in there]) for name in self.grid.axes}
        labels = pl.DataFrame(axes | {"seed": pl.Series([run.seed for run in there], dtype=pl.UInt64)})
        if found is None:
            return labels.with_columns(pl.lit(None, pl.Float64).alias(name) for name in columns)
        names = pl.Series("file", [files[run.address].name for run in there])
        joined = labels.with_columns(names).join(found, on="file", how="inner", maintain_order="left_right")
        return joined.drop("file")


@contextlib.contextmanager
def interrupts(tell: Callable[[], None]) -> Iterator[list[int]]:
    """Calls `tell` at Ctrl-C, or when a batch system wants an end; yields the signals there were.

    A second one is not waited for. Only the main thread hears of signals, and nothing changes for others.
    """
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def heard(number: int, _: object) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)
        tell()

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def column(values: list[Any]) -> list[Any]:
    """Values of an axis as a column of one type: numbers, truth values or texts."""
    if all(type(value) in (int, float) for value in values) or all(type(value) is bool for value in values):
        return values
    return [value if isinstance(value, str) else canonical(value) for value in values]


def address(point: Point, seed: int) -> str:
    """What a run is called."""
    return digest(canonical(about(point, seed)).encode())


def about(point: Point, seed: int) -> dict[str, Any]:
    """All that a result depends on."""
    return {"engine": engine.version(), "format": rows.FORMAT, "scenario": point.digest, "seed": seed}


def job(run: Run) -> Job:
    """The run as it goes to a worker."""
    return Job(run.address, run.point.text, run.seed, about(run.point, run.seed))
