"""INSANE S6: calls end exactly once although their cells get lost (specs/insane-simulator.md 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.line import CELL_S, line
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all, simulate
from layercast_lab.style import plt

TITLE = "INSANE S6: signalling whose cells get lost"
LOSSES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
WANTED = 0.3
"""What the specification asks for."""
LESS = 0.05
"""By which the share that gets lost may miss what was meant."""
SEEDS, SECONDS = 3, 300.0
FULL_FROM_S = 2.0
"""By then the circuit is there that fills the buffer."""
QUIET_S = 1000.0
"""After the traffic: for repetitions, idle circuits, and what is kept of them."""
HOSTS = 30
GAP_S = 30.0
"""Mean time between packets of a conversation; after 10 s its circuit is given back."""
BUFFER = 20
ONE_CELL = 40
DELAY_S = 0.01
LEAST = 6
"""Cells over the slow link for a call that loses none."""
POLICY = "noqos-app-svc"
"""A circuit for all datagrams between two hosts: the first one opens that of the overload."""


@dataclass(frozen=True)
class Calls:
    """What became of the calls of a run."""

    wanted: float
    """The share of cells meant to be lost."""
    lost: float
    """The share of signalling cells lost at the two ports of the slow link."""
    cells: int
    """Signalling cells that came to these ports."""
    requests: int
    ready: int
    refused: int
    left: int
    """Circuits at the end."""
    strays: int
    """Cells on circuits that were not."""

    @property
    def exact(self) -> bool:
        """Whether every call ended once, and nothing is left."""
        return self.requests == self.ready + self.refused and not self.left and not self.strays


def scenario(loss: float, seconds: float) -> dict[str, Any]:
    """Conversations of single packets, each with a circuit of its own, and what fills the buffer of the link.

    Cells of signalling have priority but share the buffer: any cell that finds it full is lost. The
    scenario language has no loss on links of cells, so overload stands for it.
    """
    hosts = HOSTS + 1
    talk = {"gap": f"exp({GAP_S:g}s)", "size": f"{ONE_CELL} B"}
    flows: list[dict[str, Any]] = []
    for a, b in (("west", "east"), ("east", "west")):
        ends = {"from": f"{a}{{2..{hosts}}}", "to": f"{b}{{2..{hosts}}}"}
        flows.append(ends | {"datagrams": talk, "stop": f"{seconds:g}s"})
        if loss:
            gap_us = CELL_S * (1 - loss) * 1e6
            full = {"gap": f"exp({gap_us:.3f}us)", "size": f"{ONE_CELL} B"}
            ends = {"from": f"{a}1", "to": f"{b}1", "stop": f"{seconds:g}s"}
            flows.append(ends | {"name": f"{a}-first", "datagrams": full | {"gap": "1s"}})
            start = f"{FULL_FROM_S:g}s"
            flows.append(ends | {"name": f"{a}-full", "datagrams": full, "start": start})
    queue = {"per_vc_limit": BUFFER, "port_limit": BUFFER}
    end = seconds + QUIET_S
    return line("s6", end, hosts=hosts, delay=DELAY_S, policy=POLICY, queue=queue, flow=flows)


def calls(context: Context, loss: float, seed: int) -> Calls:
    """One run."""
    told = scenario(loss, context.seconds or SECONDS)
    summary = simulate(told, context.path(f"s6-{loss:g}-{seed}.toml"), "--seed", str(seed))
    atm = summary["atm"]
    ports = [queue for queue in atm["queues"] if queue["name"] in ("w->e", "e->w")]
    # Packets of a call that is refused never come to the link.
    offered = sum(flow["sent"] for flow in summary["flows"]) - atm["packets_discarded"]
    arrived = sum(flow["received"] for flow in summary["flows"])
    signalling = sum(port["received"] for port in ports) - offered
    lost = sum(port["dropped"] for port in ports) - (offered - arrived)
    requests, ready, refused, left = (
        sum(adapter[name] for adapter in atm["adapters"])
        for name in ("requests", "ready", "failures", "circuits")
    )
    return Calls(
        loss,
        lost / signalling,
        signalling,
        requests,
        ready,
        refused,
        left,
        atm["unknown_vc"],
    )


@experiment("insane-simulator/s6", title=TITLE, paper="specs/insane-simulator.md 4: a test of the simulator")
def s6(context: Context) -> Report:
    """Thousands of calls over a link that loses up to half of all cells, signalling among them."""
    seeds = context.seed_range(SEEDS)
    jobs = [(loss, seed) for loss in LOSSES for seed in seeds]
    found = run_all(context, "S6, runs", lambda job: calls(context, *job), jobs)
    rows = [row(loss, [one for one in found if one.wanted == loss]) for loss in LOSSES]
    scenario = str(context.path(f"s6-{WANTED:g}-1.toml"))
    return Report("insane-simulator/s6", TITLE, rows, draw(found, context.path("s6")), scenario=scenario)


def row(wanted: float, runs: Sequence[Calls]) -> Row:
    """All calls of all seeds."""
    lost = sum(run.lost * run.cells for run in runs) / sum(run.cells for run in runs)
    counted = ("requests", "ready", "refused", "left", "strays")
    requests, ready, refused, left, strays = (sum(getattr(run, name) for run in runs) for name in counted)
    told = (
        f"{lost:.1%} of signalling cells lost; {requests:,} calls, {ready:,} answered, {refused} refused, "
        f"{left} circuits left, {strays} stray cells"
    )
    exact = all(run.exact for run in runs)
    return Row(
        f"{wanted:.0%} of all cells meant to be lost",
        "every call completes exactly once" + (" at 30 %" if wanted == WANTED else ""),
        told,
        f"calls = answered + refused, nothing left; {max(0, wanted - LESS):.0%} lost at least",
        judge(exact and lost >= wanted - LESS),
        "refused after 60 s without an answer" if refused else "",
    )


def draw(runs: Sequence[Calls], path: Path) -> str:
    """Cells that a call takes against the share that is lost."""
    figure, axis = plt.subplots(figsize=(7.2, 3.6))
    look = {"color": COLOURS[1], "marker": MARKERS[0], "ms": 4.5, "ls": "none"}
    axis.plot([100 * run.lost for run in runs], [run.cells / run.requests for run in runs], **look)
    axis.axhline(LEAST, color=COLOURS[0], lw=0.8, ls=":", label="call, answer and release, each acknowledged")
    axis.set_xlabel("signalling cells lost at the slow link (%)")
    axis.set_ylabel("signalling cells offered to it, per call")
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left")
    return style.save(figure, path)
