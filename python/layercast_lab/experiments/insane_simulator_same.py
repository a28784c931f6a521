"""INSANE S5: one scenario and seed, one result, however cells are moved (specs/insane-simulator.md 4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.grid import canonical, load
from layercast_lab.insane.study import AXIS, SCENARIO
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import SCENARIOS, simulate
from layercast_lab.style import plt

TITLE = "INSANE S5: the same result for the same seed"
POLICIES = ("noqos-conv-svc", "sp-qos1-conv-svccache", "nwc-http-conv-svc", "wc-ftp-app-svc")
SECONDS = {"xunet": 100.0, "dumbbell": 10.0, "star": 10.0}
SHOWN = 12
"""Digits of a digest in a report."""


@dataclass(frozen=True)
class Found:
    """The digests of one scenario, by how it was run."""

    name: str
    digests: Mapping[str, str]
    other_seed: str
    cells: int
    seconds: Mapping[str, float]
    """Of the clock, for the two ways to move cells."""


def digest(summary: Mapping[str, Any]) -> str:
    """Of all that a run reports, but for the time it took."""
    told = {name: value for name, value in summary.items() if name != "wall_seconds"}
    return hashlib.sha256(canonical(told).encode()).hexdigest()


def scenarios(context: Context) -> dict[str, dict[str, Any]]:
    """Those that are run, by name."""
    found = {}
    for policy in POLICIES:
        found[policy] = load(SCENARIO)[0]
        part, _, field = AXIS.partition(".")
        found[policy][part][field] = policy
    found |= {name: load(SCENARIOS / "internet" / f"{name}.toml")[0] for name in ("dumbbell", "star")}
    for name, scenario in found.items():
        seconds = context.seconds or SECONDS.get(name, SECONDS["xunet"])
        scenario["run"] |= {"duration": f"{seconds:g}s", "warm_up": "0s"}
    return found


def ways(context: Context, name: str, scenario: Mapping[str, Any]) -> Found:
    """Runs one in every way there is."""
    file = context.path(f"s5-{name}.toml")
    first = simulate(scenario, file, "--seed", "1")
    digests = {"run": digest(first), "again": digest(simulate(scenario, file, "--seed", "1"))}
    seconds = {"default": first["wall_seconds"]}
    if "atm" in scenario:
        each = simulate(scenario, file, "--seed", "1", "--per-cell")
        digests["cell by cell"] = digest(each)
        seconds["cell by cell"] = each["wall_seconds"]
    digests["from Python"] = digest(layercast.run(dict(scenario), seed=1).summary)
    other = digest(simulate(scenario, file, "--seed", "2"))
    return Found(name, digests, other, first["cell_hops"], seconds)


@experiment("insane-simulator/s5", title=TITLE, paper="specs/insane-simulator.md 4: a test of the simulator")
def s5(context: Context) -> Report:
    """Digests of all that is reported: run twice, cell by cell, from Python; and with another seed."""
    chosen = scenarios(context)
    jobs = context.progress(chosen.items(), len(chosen), "S5, scenarios")
    found = [ways(context, name, scenario) for name, scenario in jobs]
    rows = [row(one) for one in found]
    facts = {one.name: one.digests["run"] for one in found}
    scenario = str(context.path(f"s5-{POLICIES[0]}.toml"))
    return Report("insane-simulator/s5", TITLE, rows, draw(found, context.path("s5")), facts, scenario)


def row(found: Found) -> Row:
    """One digest for one seed, and another for another."""
    same = set(found.digests.values())
    told = " and ".join(sorted(one[:SHOWN] for one in same))
    return Row(
        found.name,
        "identical",
        f"{told}: {', '.join(found.digests)}; seed 2: {found.other_seed[:SHOWN]}",
        "one digest for seed 1, another for seed 2",
        judge(len(same) == 1 and found.other_seed not in same),
        f"{found.cells:,} cell-hops" if found.cells else "",
    )


def draw(found: Sequence[Found], path: Path) -> str:
    """What the two ways to move cells take for the same result."""
    chosen = [one for one in found if len(one.seconds) == 2]
    figure, axis = plt.subplots(figsize=(7.2, 3.4))
    for number, way in enumerate(("default", "cell by cell")):
        times = [one.seconds[way] for one in chosen]
        at = np.arange(len(chosen)) + (number - 0.5) * 0.36
        axis.bar(at, times, 0.34, color=COLOURS[number], label=way)
        for place, one, time in zip(at, chosen, times, strict=True):
            key = "run" if way == "default" else way
            mark = {"ha": "center", "va": "bottom", "fontsize": 6.5, "family": "monospace"}
            axis.annotate(one.digests[key][:SHOWN], (place, time), rotation=20, **mark)
    axis.set_xticks(range(len(chosen)), [one.name.replace("-", "-\n", 2) for one in chosen])
    axis.set(ylabel="time of the run (s)")
    axis.margins(y=0.2)
    axis.grid(axis="x", visible=False)
    axis.legend(loc="upper right")
    axis.set_title("digests of the results; times hang on what else runs", loc="left", fontsize=9.5)
    return style.save(figure, path)
