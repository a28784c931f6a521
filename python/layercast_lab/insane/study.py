"""The campaign of the study: which runs, what is looked at, and where the results are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layercast_lab.campaign import Campaign
from layercast_lab.insane import policies
from layercast_lab.metrics import Metric
from layercast_lab.simulator import SCENARIOS

if TYPE_CHECKING:
    import polars as pl

NAME = "insane-1996"
SCENARIO = SCENARIOS / "internet" / "xunet.toml"
AXIS = "atm.policy"
SEEDS = 3
MESH = 30
"""Circuits between all pairs of the six routers."""


def times(application: str, name: str) -> dict[str, Metric]:
    """Median and 90th percentile of a measured time."""
    path, short = f"measurements/{application}/{name}", name.replace(".", " ")
    shown = {"telnet rtt": "telnet response"}.get(short, short)
    return {
        f"{shown} median": Metric(f"{path}/p50", optional=True),
        f"{shown} p90": Metric(f"{path}/p90", optional=True),
    }


def lost(application: str) -> Metric:
    """The share of packets sent that did not come."""
    path = f"measurements/{application}/stream"
    sent, received = f"{path}/stream_sent", f"{path}/stream_received"
    return Metric(sent, less=received, per=sent, optional=True)


USERS = {
    **times("telnet", "telnet.connect"),
    **times("telnet", "telnet.rtt"),
    **times("ftp", "ftp.file"),
    **times("ftp", "ftp.session"),
    **times("http", "http.item"),
    **times("http", "http.page"),
    "audio loss": lost("audio"),
    "audio overdue": Metric(
        "measurements/audio/stream/stream_overdue",
        per="measurements/audio/stream/stream_received",
        optional=True,
    ),
    "video loss": lost("video"),
}
"""The fifteen metrics of table 3-3: what users see."""


def circuits(figure: str) -> Metric:
    """A count over all routers."""
    return Metric(f"atm.adapters/*/{figure}", "sum")


def cells(figure: str) -> Metric:
    """A share of all cells that came to a queue, over all queues of switches and adapters."""
    return Metric(f"atm.queues/*/{figure}", "sum", per="atm.queues/*/received")


NETWORK = {
    "requests": circuits("requests"),
    "requests guaranteed": circuits("elevated"),
    "hits": circuits("hits"),
    "misses": circuits("misses"),
    "refusals": circuits("fallbacks"),
    "refusals with an idle circuit": circuits("fallback_hits"),
    "failures": circuits("failures"),
    "refused": Metric("atm.adapters/*/fallbacks", "sum", per="atm.adapters/*/elevated"),
    "peak requests": Metric("atm.adapters/*/peak_requests", "max"),
    "most circuits": Metric("atm.adapters/*/max_circuits", "max"),
    "circuits at the end": circuits("circuits"),
    "cells lost": cells("dropped"),
    "cells lost at the limit of a circuit": cells("drops_vc_limit"),
    "cells lost at the limit of a port": cells("drops_port_limit"),
    "cells lost with their frame": cells("drops_ppd"),
    "cells lost in a regulator": cells("drops_regulator"),
    "cells lost with a level": Metric(
        "atm.queues/*/levels_dropped", "sum", per="atm.queues/*/levels_received"
    ),
    "packets without circuit": Metric("atm/packets_discarded"),
    "unfinished": Metric("applications/*/started", "sum", less="applications/*/ended"),
}
"""What the network had to do for it."""


SHARES = {"audio loss", "audio overdue", "video loss", "refused", "hit rate"}


def campaign(
    chosen: Sequence[str],
    seeds: int | str | Sequence[int] = SEEDS,
    *,
    fields: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> Campaign:
    """Runs of these policies, with `fields` of the scenario replaced."""
    grid = {AXIS: list(chosen)} | {name: [value] for name, value in (fields or {}).items()}
    out = out or Path("target/lab/campaigns") / NAME
    return Campaign(SCENARIO, grid, seeds, collect=USERS | NETWORK, out=out)


def built_in(
    select: Iterable[str] | None,
    seeds: int | str | None,
    fields: Mapping[str, Any],
    out: Path | None,
) -> Campaign:
    """`layercast-lab campaign insane-1996`; raises PolicyError for a selection of nothing."""
    return campaign(policies.select(select), seeds or SEEDS, fields=fields, out=out)


Values = dict[tuple[str, str], list[float]]
"""Of a policy and a metric, the value of each run that has one, by seed."""


def values(frame: pl.DataFrame) -> Values:
    """A campaign's frame by policy and metric; `hit rate` and `requests beyond the mesh` with it."""
    found: Values = {}
    for policy, metric, value in frame.select(AXIS, "metric", "value").iter_rows():
        if value is not None:
            found.setdefault((policy, metric), []).append(value)
    for policy in {policy for policy, _ in found}:
        hits, misses = (found.get((policy, metric), []) for metric in ("hits", "misses"))
        shares = [hit / (hit + miss) for hit, miss in zip(hits, misses, strict=True) if hit + miss]
        found[policy, "hit rate"] = shares
        found[policy, "requests beyond the mesh"] = [n - MESH for n in found.get((policy, "requests"), [])]
    return found


def unit(metric: str) -> str:
    """What a metric is measured in: "s", "%" if it is a share, nothing if a count."""
    if metric in SHARES or metric.startswith("cells lost"):
        return "%"
    return "s" if metric in USERS else ""


def complete(campaign: Campaign) -> Campaign:
    """The campaign, after the runs that had no result yet."""
    pending = campaign.pending()
    if pending:
        print(f"{len(pending)} runs are missing in {campaign.out}", file=sys.stderr, flush=True)
        outcome = campaign.run()
        if outcome.interrupted:
            raise KeyboardInterrupt
        if outcome.failed:
            print(f"{len(outcome.failed)} failed: {outcome.failed[0]['error']}", file=sys.stderr)
    return campaign
