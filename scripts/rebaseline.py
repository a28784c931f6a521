"""Compare the results of two builds of the simulator over many seeds: what moved, and by how much.

A change of the simulator that draws other random numbers moves single runs and must move no distribution. Run
the same scenarios with the `layercast` of before and with the new one, then compare:

    python scripts/rebaseline.py run --layercast old/layercast --out target/rebaseline/old
    python scripts/rebaseline.py run --layercast new/layercast --out target/rebaseline/new
    python scripts/rebaseline.py compare target/rebaseline/old target/rebaseline/new

`run` leaves a file for each scenario and seed and skips those that are there, so it can be stopped at any
time, given a limit (`--minutes`) and continued. `compare` takes the seeds that both have: for each figure the
medians, the quartiles and Mann and Whitney's p, corrected for the number of figures (Holm). It ends with 1 if
a figure differs at 5 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from layercast_lab.analysis import p_value, quantile

ROOT = Path(__file__).resolve().parents[1]
# The ready-made scenarios that need no file of another program, and how long each runs (none: to its end).
SCENARIOS: dict[str, str | None] = {
    "quickstart": "22s",
    "e5": "82s",
    "e5b": "100s",
    "e5f": "100s",
    "fec": "10s",
    "lossy": "20s",
    "internet/dumbbell": "10s",
    "internet/fat-tree": "1s",
    "internet/parking-lot": "30s",
    "internet/star": "2s",
    "internet/tree": "10s",
    "internet/vbr": "5s",
    "internet/xtp": "10s",
    "internet/xtp-multicast": "10s",
    "internet/mets-beside-tcp": "30s",
    "internet/mets-beside-tcp-red": "30s",
    "internet/mets-class-queue": "30s",
    "internet/mets-lan": "30s",
    "internet/transfers": "30s",
    "internet/xunet": "400s",
    "internet/xunet-chain": "400s",
    "group/star": None,
    "group/tree": None,
    "group/frm": None,
    "group/rmtp": None,
    "group/aggregators": None,
}
# What is not a result: the work of the simulator, and what is given.
NO_FIGURES = {"events", "wall_seconds", "seed"}
SIGNIFICANT = 0.05

Figures = dict[str, float]


def figures(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Each number of a report under its path; elements of a list by their names."""
    match value:
        case bool():
            return
        case int() | float():
            yield path, float(value)
        case Mapping():
            for key, inner in value.items():
                if key not in NO_FIGURES:
                    yield from figures(inner, f"{path}.{key}" if path else key)
        case list():
            for number, inner in enumerate(value):
                name = inner.get("name", number) if isinstance(inner, Mapping) else number
                yield from figures(inner, f"{path}[{name}]")


def run(arguments: argparse.Namespace) -> int:
    """Runs what is missing; 1 if a run failed."""
    end = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    chosen = [name for name in SCENARIOS if not arguments.only or name in arguments.only]
    # Seed by seed, so that every scenario has some when time is up.
    for seed in range(1, arguments.seeds + 1):
        for name in chosen:
            file = arguments.out / name / f"{seed}.json"
            if file.exists():
                continue
            if end and time.monotonic() > end:
                print(f"time is up before {name}, seed {seed}; the same command continues")
                return 0
            scenario = ROOT / "scenarios" / f"{name}.toml"
            duration = SCENARIOS[name]
            limit = [] if duration is None else ["--duration", duration]
            options = ["--seed", str(seed), *limit, "--json"]
            done = subprocess.run(
                [arguments.layercast, "sim", scenario, *options], capture_output=True, text=True
            )
            if done.returncode:
                print(f"{name}, seed {seed}: {done.stderr.strip()}", file=sys.stderr)
                return 1
            file.parent.mkdir(parents=True, exist_ok=True)
            # A file is there whole or not at all.
            part = file.with_suffix(".part")
            part.write_text(json.dumps(dict(figures(json.loads(done.stdout)))))
            part.replace(file)
    print(f"complete: {len(chosen)} scenarios, {arguments.seeds} seeds")
    return 0


def read(folder: Path) -> dict[tuple[str, str], Figures]:
    """The figures of each scenario and seed."""
    files = folder.rglob("*.json")
    return {
        (file.parent.relative_to(folder).as_posix(), file.stem): json.loads(file.read_text())
        for file in files
    }


def differences(old: Mapping[Any, Figures], new: Mapping[Any, Figures]) -> list[dict[str, Any]]:
    """Each figure of which some run differs, the most striking first, over the seeds that both sides have."""
    both = old.keys() & new.keys()
    rows = []
    for scenario in sorted({scenario for scenario, _ in both}):
        seeds = sorted(seed for name, seed in both if name == scenario)
        # What counts only in some runs, such as drops by a cause, is zero in the others.
        names = {name for side in (old, new) for seed in seeds for name in side[scenario, seed]}
        for name in sorted(names):
            before, after = ([side[scenario, seed].get(name, 0.0) for seed in seeds] for side in (old, new))
            if before != after:
                p = p_value(before, after)
                rows.append(
                    {"scenario": scenario, "figure": name, "seeds": len(seeds), "p": p}
                    | {"before": quartiles(before), "after": quartiles(after)}
                )
    rows.sort(key=lambda row: row["p"])
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["holm"] = corrected
    return rows


def quartiles(values: Iterable[float]) -> tuple[float, ...]:
    """Median, lower and upper quartile."""
    values = list(values)
    return tuple(quantile(values, share) for share in (0.5, 0.25, 0.75))


def holm(ascending: Iterable[Fraction]) -> list[float]:
    """Holm's correction of probabilities in ascending order."""
    ascending = list(ascending)
    corrected, least = [], 0.0
    for rank, p in enumerate(ascending):
        least = max(least, min(1.0, float(p) * (len(ascending) - rank)))
        corrected.append(least)
    return corrected


def page(rows: list[dict[str, Any]], runs: int) -> str:
    """The comparison as Markdown."""
    striking = [row for row in rows if row["holm"] < SIGNIFICANT]
    uncorrected = sum(row["p"] < SIGNIFICANT for row in rows)
    lines = [
        f"{runs} runs of each build. {len(rows)} figures differ in some run; "
        f"{uncorrected} of them have p < {SIGNIFICANT} "
        f"(by chance about {SIGNIFICANT * len(rows):.0f}), {len(striking)} after Holm's correction.",
        "",
        "| scenario | figure | seeds | before (quartiles) | after (quartiles) | p | Holm |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in striking or rows[:10]:
        before, after = ("{:.6g} ({:.6g} to {:.6g})".format(*row[side]) for side in ("before", "after"))
        lines.append(
            f"| {row['scenario']} | `{row['figure']}` | {row['seeds']} | {before} | {after} "
            f"| {float(row['p']):.2g} | {row['holm']:.2g} |"
        )
    return "\n".join(lines) + "\n"


def compare(arguments: argparse.Namespace) -> int:
    """Prints the comparison; 1 if something differs."""
    old, new = read(arguments.old), read(arguments.new)
    both = old.keys() & new.keys()
    if not both:
        print("no scenario and seed is in both folders; `run` makes them", file=sys.stderr)
        return 2
    rows = differences(old, new)
    text = page(rows, len(both))
    if arguments.page:
        arguments.page.write_text(text)
    print(text, end="")
    return int(any(row["holm"] < SIGNIFICANT for row in rows))


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = found.add_subparsers(required=True)
    runs = commands.add_parser("run", help="run the scenarios with one build")
    runs.add_argument("--layercast", type=Path, required=True, help="the command of the build")
    runs.add_argument("--out", type=Path, required=True, help="folder for the figures")
    runs.add_argument("--seeds", type=int, default=40, help="seeds of each scenario [40]")
    runs.add_argument("--only", action="append", choices=SCENARIOS, help="this scenario (repeatable)")
    runs.add_argument("--minutes", type=float, help="stop after this time")
    runs.set_defaults(function=run)
    both = commands.add_parser("compare", help="compare the figures of two builds")
    both.add_argument("old", type=Path, help="folder of the build of before")
    both.add_argument("new", type=Path, help="folder of the new build")
    both.add_argument("--page", type=Path, help="write the comparison to this file, too")
    both.set_defaults(function=compare)
    return found


if __name__ == "__main__":
    given = parser().parse_args()
    sys.exit(given.function(given))
