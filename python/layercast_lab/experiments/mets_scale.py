"""METS at scale: one group of thousands of receivers behind a tree of switches, simulated."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import command, toml_file

FANOUT = 10
ERA_S = 1.0
SOON_S = 2 * ERA_S
RES_INTERVAL_S = 0.25
# When receivers come, a guest joins behind every switch of the last row, and the guests leave.
JOINED_S, GUESTS_S, GONE_S, END_S = 2.0, 15.0, 30.0, 45.0
# Rates of Canyon at 24 frames/s by cumulative level, of Lougher's I pictures, cells/s (specs/mets.md 3.2).
CANYON = (480, 1_440, 3_360)
GUEST = 600
# Adaptive capacities are drawn from these, cells/s: of links to hosts, and of links between switches.
HOST_CAPACITY, TRUNK_CAPACITY = (1_080, 4_500), (2_000, 6_000)


@dataclass(frozen=True)
class Tree:
    """A scenario with what its author knows of it."""

    scenario: dict[str, Any]
    paths: dict[str, list[tuple[int, bool]]]
    """Per receiver of the group the capacity of each link, and whether the guests' flow passes it."""


def tree(receivers: int, seed: int) -> Tree:
    """A source, a root, and as many rows of switches as it takes, ten hosts to a switch of the last."""
    rng = np.random.default_rng([seed, receivers])
    rows = [-(-receivers // FANOUT)]
    while rows[0] > 1:
        rows.insert(0, -(-rows[0] // FANOUT))
    nodes = [{"name": "studio", "kind": "host"}]
    wide = {"rate": "1 Gbit/s", "delay": "1ms"}
    links: list[dict[str, Any]] = [{"a": "studio", "b": "s0-0"} | wide]
    trunks: dict[str, list[tuple[int, bool]]] = {"s0-0": []}

    def link(above: str, below: str, bounds: tuple[int, int], guest: bool) -> list[tuple[int, bool]]:
        capacity = int(rng.integers(*bounds))
        links.append({"a": above, "b": below, "adapt_capacity": f"{capacity} cells/s"} | wide)
        return [*trunks[above], (capacity, guest)]

    for row, width in enumerate(rows):
        for i in range(width):
            name = f"s{row}-{i}"
            nodes.append({"name": name, "kind": "switch"})
            if row:
                trunks[name] = link(f"s{row - 1}-{i // FANOUT}", name, TRUNK_CAPACITY, True)
    paths, joins, guests = {}, rng.uniform(0, JOINED_S, receivers), []
    for i in range(receivers):
        host = f"h{i}"
        nodes.append({"name": host, "kind": "host"})
        paths[host] = link(f"s{len(rows) - 1}-{i // FANOUT}", host, HOST_CAPACITY, i % FANOUT == 0)
        if i % FANOUT == 0:
            times = {"join": f"{GUESTS_S:g}s", "leave": f"{GONE_S:g}s"}
            guests.append({"name": f"guest{i}", "node": host, "flow": "guest", "level": 0} | times)
    members = [{"node": f"h{i}", "flow": "group", "join": f"{join:.6f}s"} for i, join in enumerate(joins)]
    canyon = {"name": "group", "clip": {"synthetic": "canyon"}, "frame_rate": 24}
    lougher = {"name": "guest", "clip": {"synthetic": "lougher"}, "frame_rate": 5, "top": 0}
    common = {"source": "studio", "stop": f"{END_S - 2:g}s", "delay_max": "1s"}
    return Tree(
        {
            "name": f"tree-{receivers}",
            "duration": f"{END_S:g}s",
            "carriage": "datagrams",
            "node": nodes,
            "link": links,
            "flow": [canyon | common, lougher | common],
            "receiver": members + guests,
        },
        paths,
    )


# The rates above are means, the sizes of a run are drawn: a capacity as near to one as this may do or not.
MARGIN = 0.02


def ideal(path: Sequence[tuple[int, bool]], guests: bool) -> tuple[int, int]:
    """The max-min level of a receiver, by what the narrowest link of its path has left for the group.

    Two levels, the lower first, where the drawn sizes decide which it is.
    """
    left = min(capacity - (GUEST if guest and guests else 0) for capacity, guest in path)

    def level(room: float) -> int:
        return max((level for level in (1, 2) if CANYON[level] <= room), default=0)

    return level(left * (1 - MARGIN)), level(left * (1 + MARGIN))


@dataclass(frozen=True)
class Measured:
    """What a run gave."""

    receivers: int
    converged_s: tuple[float, float, float]
    """From each change until the last receiver has its ideal level for good: joins, guests, no guests."""
    slow: tuple[float, float, float]
    """Share of the receivers that take longer than two eras."""
    jain: tuple[float, float, float]
    """Fairness of rate over ideal rate at the end of each of the three stretches."""
    base_lost: int
    messages: float
    """Most RES and ADAPT on one direction of one link in an era."""
    mean_messages: float
    cpu_s: float
    """Processor time of the run, reading the scenario and writing the summary included."""
    memory_mib: float
    events: int


def measure(receivers: int, seed: int) -> Measured:
    """Runs a tree with `layercast sim` and compares each receiver with its ideal."""
    made = tree(receivers, seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scenario.toml")
        file.write_text(toml_file(made.scenario))
        arguments = [command(), "sim", str(file), "--seed", str(seed), "--json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        # One at a time and the larger ones last: the greatest child so far is then this one.
        done = subprocess.run(arguments, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    summary = json.loads(done.stdout)
    members = {receiver["name"]: receiver for receiver in summary["flows"][0]["receivers"]}
    changes = ((JOINED_S, GUESTS_S, False), (GUESTS_S, GONE_S, True), (GONE_S, END_S - 3, False))
    late, slow, fair = [], [], []
    for start, end, guests in changes:
        wanted = {name: ideal(path, guests) for name, path in made.paths.items()}
        times = [settled(members[name], levels, start, end) for name, levels in wanted.items()]
        late.append(max(times))
        slow.append(float(np.mean(np.array(times) > SOON_S)))
        shares = []
        for name, levels in wanted.items():
            level = level_at(members[name], end)
            shares.append(1.0 if level in levels else CANYON[level] / CANYON[levels[1]])
        fair.append(sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares)))
    lost = sum(
        receiver["lost"]["BL"] + receiver["late_base"]
        for flow in summary["flows"]
        for receiver in flow["receivers"]
    )
    eras = END_S / ERA_S
    per_link = [queue["adapter"] / eras for queue in summary["queues"]]
    return Measured(
        receivers,
        (late[0], late[1], late[2]),
        (slow[0], slow[1], slow[2]),
        (fair[0], fair[1], fair[2]),
        lost,
        max(per_link),
        float(np.mean([n for n in per_link if n])),
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        after.ru_maxrss / 1024,
        summary["events"],
    )


def level_at(receiver: Mapping[str, Any], at: float) -> int:
    """The level granted to a receiver at a time."""
    return next((level for t, level in reversed(receiver["levels"]) if t < at), 0)


def settled(receiver: Mapping[str, Any], levels: tuple[int, int], start: float, end: float) -> float:
    """Seconds from `start` until a receiver has its level for good; infinite if it has not at `end`."""
    if level_at(receiver, end) not in levels:
        return float("inf")
    changes = [t for t, _ in receiver["levels"] if start <= t < end]
    return changes[-1] - start if changes else 0.0


SIZES, FULL_SIZE = (10, 100, 1_000), 10_000


@experiment(
    "mets/scale",
    title="One group of 1,000 or, with --full, 10,000 receivers",
    paper="No paper: the claim that merging makes the adapter scale (specs/mets.md 2.11)",
)
def scale(context: Context) -> Report:
    """Adapter messages, convergence, fairness and base layer with growing numbers of receivers."""
    sizes = [*SIZES, FULL_SIZE] if context.full else list(SIZES)
    runs = list(context.progress((measure(size, 1) for size in sizes), len(sizes), "scale, trees"))
    return Report(
        "mets/scale", f"METS at scale: up to {sizes[-1]:,} receivers", rows(runs), draw(runs, context)
    )


def rows(runs: Sequence[Measured]) -> list[Row]:
    """What should not depend on the number of receivers, and what it costs to simulate them."""
    last = runs[-1]
    hops = len(str(last.receivers))
    # An era until the demand, a RES interval at each switch, one for the source, a GOP for ADAPT.
    bound = ERA_S + hops * RES_INTERVAL_S + RES_INTERVAL_S + 0.5
    most = 1 / RES_INTERVAL_S * 2
    slowest = max(last.converged_s[1:])

    def each(figure: str) -> str:
        return "; ".join(f"{run.receivers:,}: {format(getattr(run, figure), '.1f')}" for run in runs)

    return [
        Row(
            "S-1 RES and ADAPT on the busiest link",
            "O(1): RES are merged",
            f"per era, {each('messages')}",
            f"at most {most:g} (two flows, one per RES interval), the same for all sizes within 2",
            judge(last.messages <= most and last.messages - runs[0].messages <= 2),
            f"mean over links {last.mean_messages:.1f}; unmerged the root's would carry {last.receivers:,}",
        ),
        Row(
            "S-2 convergence",
            f"specs/mets.md 6.2 (11): era + hops × RES interval + ADAPT = {bound:.2f} s",
            "; ".join(
                f"{run.receivers:,}: {run.converged_s[1]:.2f} s down, {run.converged_s[2]:.2f} s up"
                for run in runs
            ),
            "every receiver at its ideal within the bound",
            judge(slowest <= bound),
            f"after the last of {last.receivers:,} joins in {JOINED_S:g} s: {last.converged_s[0]:.2f} s; "
            f"slower than {SOON_S:g} s are {last.slow[1]:.1%} down, {last.slow[2]:.1%} up",
        ),
        Row(
            "S-3 fairness",
            "max-min: each what its narrowest link leaves",
            "Jain " + ", ".join(f"{jain:.4f}" for jain in last.jain),
            "at least 0.999 at the end of each stretch",
            judge(min(last.jain) >= 0.999),
            "of rate over ideal rate: alone, with guests, alone again",
        ),
        Row(
            "S-4 base layer",
            "guaranteed",
            f"{sum(run.base_lost for run in runs)} frames lost or late",
            "0",
            judge(all(run.base_lost == 0 for run in runs)),
        ),
        Row(
            "S-5 cost of the simulation",
            "–",
            f"{last.cpu_s:.1f} s of processor, {last.memory_mib:.0f} MiB, {last.events / 1e6:.0f} M events",
            f"at most a linear growth from {runs[-2].receivers:,} on (factor 1.5)",
            judge(
                last.cpu_s / runs[-2].cpu_s <= 1.5 * last.receivers / runs[-2].receivers,
            ),
            "; ".join(f"{run.receivers:,}: {run.cpu_s:.2f} s, {run.memory_mib:.0f} MiB" for run in runs),
        ),
    ]


def draw(runs: Sequence[Measured], context: Context) -> str:
    """Messages per link, convergence, and cost against the number of receivers."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.2, 3.2))
    sizes = [run.receivers for run in runs]
    left.plot(sizes, [run.messages for run in runs], marker="o", color=style.ACCENT, label="busiest link")
    left.plot(
        sizes, [run.mean_messages for run in runs], marker="o", color=style.LAYER_COLOURS["E1"], label="mean"
    )
    left.set(ylim=(0, 10), ylabel="RES and ADAPT per era")
    left.legend(loc="upper left")
    for i, name in enumerate(("joins", "guests come", "guests go")):
        middle.plot(sizes, [run.converged_s[i] for run in runs], marker="o", label=name)
    middle.set(ylabel="convergence (s)", ylim=(0, None))
    middle.legend(loc="lower right")
    right.plot(sizes, [run.cpu_s for run in runs], marker="o", color=style.LAYER_COLOURS["BL"])
    right.set(yscale="log", ylabel=f"processor time of {END_S:g} s (s)")
    for axis in (left, middle, right):
        axis.set(xscale="log", xlabel="receivers")
    return style.save(figure, context.path("scale"))
