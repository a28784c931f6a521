"""The conclusions of the study at 100 Mbit/s and 1 Gbit/s, with the load of 1996 and one that has grown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from layercast_lab.campaign import Campaign
from layercast_lab.experiment import Context, Report, Row, experiment
from layercast_lab.experiments.insane_modern_disciplines import panels
from layercast_lab.experiments.insane_study import PAPER, fields_of, folder
from layercast_lab.insane import study, today
from layercast_lab.insane.pictures import Bars
from layercast_lab.insane.scale import EMPTY, FAST, FASTER, NETWORKS, Network
from layercast_lab.insane.study import Values
from layercast_lab.metrics import Metric

TITLE = "INSANE at 100 Mbit/s and at 1 Gbit/s"
SETUP = "app-svc"
NOQOS = f"noqos-{SETUP}"
CIRCUITS = (NOQOS, "noqos-app-svccache", "noqos-conv-svc", "noqos-router-svc")
PRIORITY = tuple(f"sp-{which}-{SETUP}" for which in ("telnet", "ftp", "audio", "video", "qos1"))
CALLS = tuple(f"{name}-{which}-{SETUP}" for name in ("wc", "nwc") for which in ("audio", "video"))
POLICED = tuple(f"{name}-{which}-{SETUP}" for name in ("wc", "nwc") for which in ("ftp", "http"))
REFUSED = tuple(f"nwc-{which}-{SETUP}" for which in ("isp", "qos1"))
ROUTER = ("noqos-conv-svccache", "noqos-router-svccache", "noqos-router-pvc")
FAIR = tuple(f"drr-{which}-{SETUP}" for which in ("telnet", "ftp"))
POLICIES: Mapping[str, tuple[str, ...]] = {
    EMPTY.name: (*CIRCUITS, *ROUTER, *PRIORITY, *CALLS, *POLICED, *REFUSED, "nwc-ftp-app-svccache"),
    # The contracts of the thesis for files say nothing of files that are 65 times as large.
    FAST.name: (*CIRCUITS, *PRIORITY, *CALLS[2:], *FAIR),
    FASTER.name: (NOQOS, "noqos-app-svccache", f"sp-telnet-{SETUP}", f"sp-ftp-{SETUP}"),
}
SHOWN = ("telnet connect median", "telnet response p90", "http page p90", "ftp session p90")
SHOWN += ("audio overdue", "audio loss", "video loss")
SERIES = {
    NOQOS: "noqos",
    "noqos-app-svccache": "noqos, circuits kept",
    f"sp-telnet-{SETUP}": "telnet first",
    f"sp-ftp-{SETUP}": "FTP first",
}
STUDY = "1.5 Mbit/s"
NETWORK = {
    "busiest link": Metric("atm.queues/*/utilisation", "max"),
    "longest queue": Metric("atm.queues/*/max_len", "max"),
}


def changed(network: Network, context: Context) -> dict[str, Any]:
    """What is replaced in the scenario of the study."""
    fields = network.fields(context.path("workload"))
    if context.seconds:
        fields |= {"run.duration": f"{context.seconds:g}s", "run.warm_up": f"{context.seconds / 6:g}s"}
    return fields


def values_of(policies: Iterable[str], fields: Mapping[str, Any], context: Context, out: Path) -> Values:
    """What policies give with these fields replaced; what has no result is run first."""
    grid = {study.AXIS: list(policies)} | {name: [value] for name, value in fields.items()}
    seeds = list(context.seed_range(study.SEEDS))
    metrics = study.USERS | study.NETWORK | NETWORK
    campaign = Campaign(study.SCENARIO, grid, seeds, collect=metrics, out=out)
    return study.values(study.complete(campaign).frame())


@experiment("insane-modern/rates", title=TITLE, paper=f"{PAPER}, at rates of today")
def rates(context: Context) -> Report:
    """What can be asked of each network, beside the study; the longest runs come last."""
    wanted = list(dict.fromkeys(name for names in POLICIES.values() for name in names))
    found = {STUDY: values_of(wanted, fields_of(context), context, folder(context))}
    out = context.out.parent / "campaigns" / "insane-modern"
    for network in NETWORKS:
        found[network.name] = values_of(POLICIES[network.name], changed(network, context), context, out)
    asked = {STUDY: today.ask(wanted)} | {n.name: today.ask(POLICIES[n.name]) for n in NETWORKS}
    rows = [used(where, values) for where, values in found.items()]
    for network in NETWORKS:
        name = network.name
        rows += [today.row(name, one, found[STUDY], found[name]) for one in asked[name]]
        fair = today.ask(POLICIES[name], "drr")
        rows += [today.row(f"{name}, drr", one, found[STUDY], found[name]) for one in fair]
    columns = {where: today.conclusions(asked[where], found[where]) for where in found}
    context.path("rates.md").write_text(today.table(columns))
    path = draw(found, context.path("rates"))
    return Report("insane-modern/rates", TITLE, rows, path, scenario=str(study.SCENARIO))


def used(where: str, values: Values) -> Row:
    """How busy a network is without QoS, which has to be alike for a comparison."""
    links, longest, lost = (
        values.get((NOQOS, metric), []) for metric in ("busiest link", "longest queue", "cells lost")
    )
    if not links:
        return Row(f"{where}: busiest link, {NOQOS}", "-", "not run", "none", "missing")
    shown = f"{100 * min(links):.0f} to {100 * max(links):.0f} %"
    shown += f"; longest queue {max(longest):.0f} cells, {100 * sum(lost) / len(lost):.3f} % of cells lost"
    return Row(f"{where}: busiest link, {NOQOS}", "-", shown, "none", "open")


def draw(found: Mapping[str, Values], path: Path) -> str:
    """A panel for each metric, a group for each network, a bar for each policy."""
    values = {
        (f"{where} {SERIES[policy]}", metric): numbers
        for where, values in found.items()
        for (policy, metric), numbers in values.items()
        if policy in SERIES
    }
    picture = Bars(
        SHOWN, list(found), list(SERIES.values()), lambda where, series: f"{where} {series}", log=True
    )
    labels = [where.replace(", ", ",\n") for where in found]
    return panels(picture, values, path, columns=2, labels=labels)
