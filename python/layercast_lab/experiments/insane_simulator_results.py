"""INSANE: what the thesis reports of its simulator beside ours (specs/insane-simulator.md 5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from statistics import mean, median

from layercast_lab import style
from layercast_lab.campaign import Campaign
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.insane_study import PAPER, made
from layercast_lab.insane import study
from layercast_lab.insane.judge import judge as judge_target
from layercast_lab.insane.line import CELL_S
from layercast_lab.insane.policies import every
from layercast_lab.insane.simulator import TARGETS
from layercast_lab.insane.study import Values
from layercast_lab.insane.target import Target
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

TITLE = "INSANE: the simulator beside that of the thesis"
ULTRA_1, SPARC_10, PENTIUM = 3.6, 11, 8
"""Seconds of a machine of 1996 for one of the network."""
RUNS, LONG_S = 336, 4000.0
AIM_S, AIM_BYTES = 30.0, 1e9
"""What a run may take (section 5), and its memory."""
LONGEST_S = LONG_S * ULTRA_1


@experiment("insane-simulator/results", title=TITLE, paper=f"{PAPER}, chapters 3 to 6")
def results(context: Context) -> Report:
    """Everything of what the campaign has run; with --full, what is missing for it is run first."""
    names = {name for target in TARGETS for name in target.policies}
    campaign = made(context, names, make=context.full)
    frame = campaign.frame()
    values = study.values(frame) if len(frame) else {}
    lines = [counted(), *cell_time(campaign), *(line(target, values) for target in TARGETS), *cost(campaign)]
    path = draw(values, context.path("results"))
    return Report("insane-simulator/results", TITLE, lines, path, scenario=str(study.SCENARIO))


def counted() -> Row:
    """The size of the study."""
    count, seeds = len(every()), study.SEEDS
    told = f"{count} configurations; {count * seeds} runs with {seeds} seeds; {LONG_S:g} s"
    verdict = judge(count == 103)
    note = "27 runs of the thesis are extra, of what it does not say"
    return Row("campaign", f"103 configurations, {RUNS} runs, 4000 s", told, "configurations", verdict, note)


def line(target: Target, values: Values) -> Row:
    """A row of a number."""
    return replace(judge_target(target, values).row(), name=target.name)


def cell_time(campaign: Campaign) -> list[Row]:
    """From how long a link was sending how many cells."""
    name, told = "cell time at T1", "276 us"
    paths = ("atm.queues/w1->e1/sent", "atm.queues/w1->e1/utilisation", "run/seconds")
    sent, busy, seconds = (campaign.rows(path)["value"].to_list() for path in paths)
    runs = zip(busy, seconds, sent, strict=True)
    times = [part * whole / count for part, whole, count in runs if count]
    if not times:
        return [Row(name, told, "not run", "exact", "missing")]
    measured = f"{1e6 * min(times):.2f} to {1e6 * max(times):.2f} us on the long link, {len(times)} runs"
    exact = all(abs(time - CELL_S) < 1e-9 for time in times)
    return [Row(name, told, measured, "424 bits at 1.536 Mbit/s, to 1 ns", judge(exact))]


def cost(campaign: Campaign) -> list[Row]:
    """What the runs took on the machine that made them, as the campaign's log says."""
    here = {run.address for run in campaign.runs}
    log = campaign.out / "log.jsonl"
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    entries = [entry for entry in entries if entry["address"] in here]
    machines = f"Ultra 1: 4 h, {ULTRA_1:g} : 1; SPARCstation 10: {SPARC_10} : 1; Pentium 100: {PENTIUM} : 1"
    names = [f"time of a run of {LONG_S:g} s", "time and memory of a run, aim"]
    whole = (
        campaign.scenario["run"]["duration"] == f"{LONG_S:g}s" and "run.duration" not in campaign.grid.axes
    )
    aim = f"at most {AIM_S:g} s and {AIM_BYTES / 1e9:g} GB"
    if not entries or not whole:
        told = zip(names, (machines, aim), strict=True)
        return [Row(name, reported, "not run", "-", "missing") for name, reported in told]
    took = [entry["seconds"] for entry in entries]
    typical, memory = median(took), max(entry["memory"] for entry in entries)
    times = f"{typical:.1f} s ({min(took):.1f} to {max(took):.1f}, {len(took)} runs)"
    return [
        Row(
            names[0],
            machines,
            f"{times}: 1 : {LONG_S / typical:.0f}, {LONGEST_S / typical:.0f} times an Ultra 1",
            "none: another machine",
            "open",
            "as many in parallel as there are processors",
        ),
        Row(
            names[1],
            aim,
            f"{times}; {memory / 2**20:.0f} MiB at most",
            "all runs",
            judge(max(took) <= AIM_S and memory <= AIM_BYTES),
            "ours; the thesis has none",
        ),
    ]


def draw(values: Values, path: Path) -> str:
    """Of each reported value how many times as much it is here; bars are what is allowed."""
    of_values = [target for target in TARGETS if target.range and target.range.scale == "value"]
    shown = [one for one in of_values if one.range.low > 0 and isfinite(one.range.high)]
    figure, axis = plt.subplots(figsize=(9.2, 0.9 + 0.27 * len(shown)))
    for place, target in enumerate(reversed(shown)):
        low, high = target.range.widened()
        middle = (low + high) / 2
        axis.barh(place, (high - low) / middle, 0.62, left=low / middle, color="#d0d5dd")
        found = [mean(runs) / middle for runs in of(target.policies, target.metrics, values)]
        axis.plot(found, [place] * len(found), "o", color=COLOURS[1], ms=4)
        if not found:
            axis.annotate("not run", (1, place), ha="center", va="center", fontsize=7, color=COLOURS[0])
    axis.axvline(1, color="black", lw=0.8, ls=":")
    axis.set_yticks(range(len(shown)), [target.name for target in reversed(shown)], fontsize=8)
    axis.set(xscale="log", xlabel="measured / middle of what is allowed (grey); a dot for each policy")
    ticks = (0.03, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2)
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_ylim(-0.7, len(shown) - 0.3)
    axis.grid(axis="y", visible=False)
    return style.save(figure, path)


def of(policies: Sequence[str], metrics: Sequence[str], values: Values) -> list[list[float]]:
    """The runs of each policy that has some."""
    found = (values.get((policy, metric), []) for policy in policies for metric in metrics)
    return [runs for runs in found if runs]
