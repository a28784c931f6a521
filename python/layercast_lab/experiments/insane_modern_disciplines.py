"""Deficit round robin and earliest deadline first in the place of static priority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment
from layercast_lab.experiments.insane_study import PAPER, fields_of, folder
from layercast_lab.insane import study, today
from layercast_lab.insane.judge import judge, measured
from layercast_lab.insane.pictures import LEGEND, Bars, panel
from layercast_lab.insane.study import Values
from layercast_lab.insane.target import Target, qos
from layercast_lab.style import plt

TITLE = "INSANE with deficit round robin and earliest deadline first"
LATER = ("drr", "edf")
SETUP = "app-svc"
ELEVATED = ("telnet", "ftp", "audio", "video", "qos1")
"""The elevated classes; the conclusions about static priority concern these."""
BESIDE = ("app-svccache", "conv-svc")
"""Of qos1, for the conclusions about sharing and keeping circuits."""
BASES = tuple(f"noqos-{setup}" for setup in (SETUP, *BESIDE))
GUARANTEED = tuple(f"{name}-{which}-{SETUP}" for name in ("wc", "nwc") for which in ("audio", "video", "ftp"))
SHOWN = ("telnet response p90", "telnet connect p90", "ftp session p90", "http page p90")
SHOWN += ("audio loss", "audio overdue", "video loss")
FELT = ("telnet response p90", "http item p90", "ftp session p90", "audio loss", "audio overdue")
"""The effect of a discipline on classes that it does not elevate."""


def elevating(scheduler: str) -> list[str]:
    """The policies of a discipline that are run."""
    names = [f"{scheduler}-{which}-{SETUP}" for which in ELEVATED]
    return names + [f"{scheduler}-qos1-{setup}" for setup in BESIDE]


POLICIES = (*BASES, *(name for scheduler in ("sp", *LATER) for name in elevating(scheduler)), *GUARANTEED)


def found(context: Context) -> Values:
    """Of all policies; those of the thesis are runs of the campaign insane-1996."""
    seeds = list(context.seed_range(study.SEEDS))
    campaign = study.campaign(POLICIES, seeds, fields=fields_of(context), out=folder(context))
    return study.values(study.complete(campaign).frame())


@experiment("insane-modern/disciplines", title=TITLE, paper=f"{PAPER}, with disciplines of today")
def disciplines(context: Context) -> Report:
    """The conclusions about static priority, asked of drr and edf; what the others feel, and guarantees."""
    values = found(context)
    asked = {scheduler: today.ask((*BASES, *elevating(scheduler)), scheduler) for scheduler in LATER}
    rows = [today.row(name, one, values, values) for name in LATER for one in asked[name]]
    rows += [felt(name, metric, values) for name in ("sp", *LATER) for metric in FELT]
    rows += [beside(name, other, values) for name in LATER for other in ("sp", "wc", "nwc")]
    columns = {name: today.conclusions(asked[name], values) for name in LATER}
    context.path("disciplines.md").write_text(today.table(columns))
    path = draw(values, context.path("disciplines"))
    scenario = str(study.SCENARIO)
    return Report("insane-modern/disciplines", TITLE, rows, path, scenario=scenario)


def felt(scheduler: str, metric: str, values: Values) -> Row:
    """The effect of a discipline that elevates only video on the other circuits, against noqos."""
    target = Target("5.9", (), "", (metric,), qos(f"{scheduler}-video", setups=(SETUP,)), "", "R")
    return open_row(f"{scheduler}-video, not elevated: {metric}", "noqos", target, values)


def beside(scheduler: str, other: str, values: Values) -> Row:
    """Audio first, beside another way to say so."""
    pairs = qos(f"{scheduler}-audio", f"{other}-audio", (SETUP,))
    target = Target("5.9", (), "", ("audio overdue",), pairs, "", "R")
    return open_row(f"{scheduler}-audio: audio overdue", f"{other}-audio", target, values)


def open_row(name: str, base: str, target: Target, values: Values) -> Row:
    """A comparison that no paper reports."""
    judged = judge(target, values)
    return Row(name, f"beside {base}", measured(judged), "none", judged.verdict)


def draw(values: Values, path: Path) -> str:
    """A panel per metric, a group per set of elevated classes, a bar per discipline."""
    picture = Bars(SHOWN, ELEVATED, ("noqos", "sp", *LATER), policy)
    return panels(picture, values, path, columns=2)


def policy(elevated: str, scheduler: str) -> str:
    """That of a group and a bar."""
    return f"noqos-{SETUP}" if scheduler == "noqos" else f"{scheduler}-{elevated}-{SETUP}"


def panels(picture: Bars, values: Values, path: Path, columns: int, labels: Sequence[str] = ()) -> str:
    """Small panels of bars, times on logarithmic axes; the legend has the place of one if that is free."""
    lines = -(-len(picture.metrics) // columns)
    size = (4.8 * columns, 0.5 + 2.0 * lines)
    figure, axes = plt.subplots(lines, columns, figsize=size, squeeze=False)
    for axis, metric in zip(axes.flat, picture.metrics, strict=False):
        panel(axis, replace(picture, log=study.unit(metric) == "s"), metric, values)
        if labels:
            axis.set_xticks(range(len(labels)), labels)
    handles, names = axes.flat[0].get_legend_handles_labels()
    free = axes.flat[len(picture.metrics) :]
    for axis in free:
        axis.set_axis_off()
    top = 1.0
    if len(free):
        free[0].legend(handles, names, loc="center", fontsize=10)
    else:
        figure.legend(handles, names, loc="upper center", ncols=len(names), bbox_to_anchor=(0.5, 1.0))
        top = 1 - LEGEND / size[1]
    return style.save(figure, path, top=top)
