"""INSANE S4: every cell is accounted for, whatever the network and its load (specs/insane-simulator.md 4)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.line import T1, cells
from layercast_lab.insane.policies import every
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all, simulate
from layercast_lab.style import plt

TITLE = "INSANE S4: cells in are cells delivered, dropped or under way"
NETWORKS, SEEDS = 40, 3
QUIET_S, BUSY_S, DRAINED_S = 2.0, 20.0, 600.0
"""When the load begins and ends, and when all of it has left or is lost."""
ROUTERS, SWITCHES, FLOWS = (3, 5), (2, 4), (4, 8)
OVERLOAD = (0.6, 1.6)
"""What the flows of a router offer together, of its link."""
CAUSES = ("vc_limit", "port_limit", "low", "ppd", "epd", "regulator", "unknown_vc")
ROOMY = 100_000
"""Cells of a port, more than its circuits may have together."""
SET_UP = 4
"""Cells that adapters send for a circuit: call and answer, and an acknowledgement for each."""


def network(number: int) -> dict[str, Any]:
    """A random tree of switches with routers, each with a host, and what they send to one another.

    Half of the networks have datagrams only and keep the circuits they begin with. The others have TCP,
    too, any policy, and ports that their circuits cannot fill: at a full port signalling loses cells as well,
    and those that switches then send again are in no count of what came in (S6 is about them).
    """
    rng = random.Random(f"s4/{number}")
    plain = number % 2 == 0
    switches = [f"s{i}" for i in range(rng.randint(*SWITCHES))]
    routers = [f"r{i}" for i in range(rng.randint(*ROUTERS))]
    rates = {router: rng.choice((1, 2, 4)) * T1 for router in routers}
    tree = [
        {"ends": [rng.choice(switches[:i]), switch], "rate": f"{rng.choice((1, 2)) * T1} bit/s"}
        for i, switch in enumerate(switches)
        if i
    ]
    leaves = [
        {"ends": [router, rng.choice(switches)], "rate": f"{rate} bit/s"} for router, rate in rates.items()
    ]
    discard = rng.choice(("none", "partial", "early") if plain else ("none", "partial"))
    port = rng.randint(60, 400)
    queue = {"discard": discard, "per_vc_limit": rng.randint(33, port), "port_limit": port}
    if not plain:
        queue["port_limit"] = ROOMY
    elif discard == "early":
        queue["early_above"] = rng.randint(10, port)
    return {
        "schema": "internet/1",
        "name": f"s4-{number}",
        "run": {"duration": f"{DRAINED_S:g}s"},
        "host": [{"name": f"h{router}"} for router in routers],
        "router": [{"name": router} for router in routers],
        "link": [
            {"ends": [f"h{router}", router], "rate": "100 Mbit/s", "delay": "0s", "queue": "unlimited"}
            for router in routers
        ],
        "atm": {
            "policy": "noqos-router-pvc" if plain else rng.choice(every()),
            "queue": queue,
            "switch": [{"name": switch} for switch in switches],
            "link": [link | {"delay": f"{rng.randint(0, 30)}ms"} for link in tree + leaves],
        },
        "flow": flows(rng, rates, plain),
    }


def flows(rng: random.Random, rates: Mapping[str, int], plain: bool) -> list[dict[str, Any]]:
    """One datagram from each to each for their circuits; then streams, and TCP unless `plain`."""
    routers = list(rates)
    pairs = [(a, b) for a in routers for b in routers if a != b]
    first = {"datagrams": {"gap": "1s", "size": "40 B"}, "stop": "0.5s"}
    found = [{"name": f"call-{a}-{b}", "from": f"h{a}", "to": f"h{b}"} | first for a, b in pairs]
    count = rng.randint(*FLOWS)
    for number in range(count):
        a, b = rng.choice(pairs)
        size = rng.randint(40, 1500)
        load = rng.uniform(*OVERLOAD) / 2
        gap_us = 53 * 8 * cells(size) / (rates[a] * load) * 1e6
        what: dict[str, Any] = {"datagrams": {"gap": f"exp({gap_us:.3f}us)", "size": f"{size} B"}}
        if not plain and number % 3 == 0:
            what = {"bytes": rng.randint(1_000, 1_000_000)}
        times = {"start": f"{QUIET_S:g}s"} | ({"stop": f"{BUSY_S:g}s"} if "datagrams" in what else {})
        found.append({"name": f"{number}-{a}-{b}", "from": f"h{a}", "to": f"h{b}"} | what | times)
    return found


@dataclass(frozen=True)
class Account:
    """The cells of a run, and its frames."""

    policy: str
    discard: str
    entered: int
    """Cells that adapters gave to their links."""
    delivered: int
    """Cells that reached adapters."""
    drops: Mapping[str, int]
    waiting: int
    """In queues at the end, counted by them."""
    wires: int
    """On links at the end."""
    leaks: int
    """Cells by which a queue's counts do not add up, over all queues."""
    expected: int | None
    """Cells that the packets sent make, with those that set circuits up; known of streams alone."""
    frames: tuple[int, int]
    """Datagrams that arrived, and frames that were put together whole; of streams alone."""

    @property
    def dropped(self) -> int:
        """By all causes."""
        return sum(self.drops.values())

    @property
    def missing(self) -> int:
        """Cells that came in and are nowhere."""
        return self.entered - self.delivered - self.dropped - self.waiting - self.wires


def account(scenario: Mapping[str, Any], summary: Mapping[str, Any]) -> Account:
    """Adds up what a run reports."""
    atm = summary["atm"]
    queues = {tuple(queue["name"].split("->")): queue for queue in atm["queues"]}
    routers = {router["name"] for router in scenario["router"]}
    drops = {cause: sum(q["drops"][cause] for q in queues.values()) for cause in CAUSES}
    waiting = [q["received"] - q["sent"] - q["dropped"] for q in queues.values()]
    sent = sum(q["sent"] for q in queues.values())
    streams = all("datagrams" in flow for flow in scenario["flow"])
    expected = None
    if streams and scenario["atm"]["policy"].endswith("pvc"):
        sizes = [int(flow["datagrams"]["size"].split()[0]) for flow in scenario["flow"]]
        data = sum(flow["sent"] * cells(size) for flow, size in zip(summary["flows"], sizes, strict=True))
        expected = data + SET_UP * sum(adapter["ready"] for adapter in atm["adapters"])
    frames = (
        sum(flow["received"] for flow in summary["flows"]),
        sum(adapter["frames"] for adapter in atm["adapters"]),
    )
    return Account(
        scenario["atm"]["policy"],
        scenario["atm"]["queue"]["discard"],
        sum(q["received"] for (start, _), q in queues.items() if start in routers),
        sum(q["sent"] for (_, end), q in queues.items() if end in routers),
        drops,
        sum(waiting),
        sent - summary["cell_hops"],
        sum(abs(q["dropped"] - sum(q["drops"].values())) for q in queues.values()) - min(0, *waiting),
        expected,
        frames if streams else (0, 0),
    )


def accounts(context: Context, number: int) -> list[Account]:
    """Those of a network, for each seed."""
    scenario, file = network(number), context.path(f"s4-{number}.toml")
    seeds = context.seed_range(SEEDS)
    return [account(scenario, simulate(scenario, file, "--seed", str(seed))) for seed in seeds]


@experiment("insane-simulator/s4", title=TITLE, paper="specs/insane-simulator.md 4: a test of the simulator")
def s4(context: Context) -> Report:
    """Random overloaded backbones, until all of it has left; --full takes ten times as many."""
    numbers = range(NETWORKS * (10 if context.full else 1))
    found = run_all(context, "S4, networks", lambda number: accounts(context, number), numbers)
    runs = [run for network in found for run in network]
    scenario = str(context.path("s4-0.toml"))
    return Report("insane-simulator/s4", TITLE, rows(runs), draw(runs, context.path("s4")), scenario=scenario)


def rows(runs: Sequence[Account]) -> list[Row]:
    """Nothing may be missing anywhere."""

    def line(name: str, chosen: Sequence[Account], off: Callable[[Account], int], cells: int) -> Row:
        wrong = sum(off(run) != 0 for run in chosen)
        told = f"{len(chosen)} runs, {cells:,} cells: {wrong} do not add up"
        return Row(name, "exactly", told, "0 in all runs", judge(bool(chosen) and not wrong))

    known = [run for run in runs if run.expected is not None]
    entered, dropped = (sum(getattr(run, name) for run in runs) for name in ("entered", "dropped"))
    lossy = sum(run.dropped > 0 for run in runs)
    causes = [cause for cause in CAUSES if sum(run.drops[cause] for run in runs)]
    policies = {run.policy for run in runs}
    return [
        line("cells in = delivered + dropped + under way", runs, lambda run: run.missing, entered),
        line(
            "each queue: received = sent + dropped by cause + waiting", runs, lambda run: run.leaks, entered
        ),
        line(
            "cells in = those of the packets sent + 4 for each circuit",
            known,
            lambda run: run.entered - (run.expected or 0),
            sum(run.entered for run in known),
        ),
        line(
            "datagrams that arrive = frames that come whole",
            known,
            lambda run: run.frames[0] - run.frames[1],
            sum(run.entered for run in known),
        ),
        Row(
            "networks are overloaded",
            "cells are lost, for every cause there is without contracts",
            f"{lossy} of {len(runs)} runs lose {dropped / entered:.1%}: {', '.join(causes)}; "
            f"{len(policies)} policies",
            "nine runs of ten, three causes at least",
            judge(lossy >= 0.9 * len(runs) and len(causes) >= 3),
        ),
    ]


def draw(runs: Sequence[Account], path: Path) -> str:
    """What became of the cells of each run."""
    runs = sorted(runs, key=lambda run: run.dropped / max(run.entered, 1))
    figure, axis = plt.subplots(figsize=(9.2, 3.6))
    at, bottom = np.arange(len(runs)), np.zeros(len(runs))
    parts = {"delivered": [run.delivered for run in runs]}
    parts |= {cause: [run.drops[cause] for run in runs] for cause in CAUSES}
    entered = np.array([run.entered for run in runs])
    names = {"ppd": "rest of a frame", "epd": "early", "vc_limit": "circuit full", "port_limit": "port full"}
    for number, (name, counts) in enumerate(parts.items()):
        if not sum(counts):
            continue
        share = 100 * np.array(counts) / entered
        label = names.get(name, name)
        axis.bar(at, share, 1.0, bottom=bottom, color=COLOURS[number % len(COLOURS)], label=label)
        bottom += share
    axis.axhline(100, color="black", lw=0.8, ls=":")
    axis.set(xlabel="runs, by what they lose", ylabel="cells that came in (%)", ylim=(0, 108))
    axis.set(xlim=(-0.5, len(runs) - 0.5))
    axis.legend(loc="lower left", ncols=3, frameon=True, framealpha=0.9)
    return style.save(figure, path)
