"""VBR in an ATM LAN, sections 5.3 and 6: tagging before a tight switch, and policers that know frames."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import layercast
from layercast_lab import style, vbr
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.vbr_throughput import (
    PAPER,
    Point,
    curve,
    discards,
    draw,
    mbps,
    save_scenario,
    shaped,
    sweep,
)
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all, toml_file
from layercast_lab.style import plt
from layercast_lab.vbr import BURSTS, PCR, SCR, Setup

TITLES = {
    "v12": "Tagging: by the network and by the adapter",
    "v13": "Policers that know frames",
    "v15": "A 10 Mbit/s circuit to an Ethernet",
}
MTU = 9_188
TRUNK = 34_368_000
"""bit/s of cells between the two switches (E3)."""
OFFERED = 2 * SCR
LOADS = (0.7, 0.85, 1.0, 1.1, 1.2)
"""Of the trunk by all that is offered."""
ROOM, LOW_ROOM = 1_000, 400
"""Cells that wait for the trunk, and above how many those with CLP = 1 are lost; a packet alone is 150."""
SECONDS = 10
KINDS: dict[str, dict[str, Any]] = {
    "discarded by the network": {"conformance": "C"},
    "tagged by the network": {"conformance": "B"},
    "tagged by the adapter": {"conformance": "B", "shape": "tagged"},
}


def tight(kind: str, load: float, seconds: float = SECONDS) -> dict[str, Any]:
    """Packets at twice the rate of their contract, and others, over a trunk between two switches."""
    scenario = vbr.lan(Setup(MTU, 1_000, contract=KINDS[kind], endless_s=seconds))
    link = scenario["link"][0]
    scenario["host"] = [{"name": name} for name in "abxy"]
    scenario["router"] = [{"name": f"at-{name}"} for name in "abxy"]
    scenario["link"] = [link | {"ends": [name, f"at-{name}"]} for name in "abxy"]
    adapter = {"rate": f"{PCR} bit/s", "delay": "10us"}
    sides = {"a": "left", "x": "left", "b": "right", "y": "right"}
    scenario["atm"] |= {
        "queue": {"discard": "none", "per_vc_limit": ROOM, "port_limit": ROOM, "low_limit": LOW_ROOM},
        "switch": [{"name": "left"}, {"name": "right"}],
        "link": [
            *[adapter | {"ends": [f"at-{name}", side]} for name, side in sides.items()],
            {"ends": ["left", "right"], "rate": f"{TRUNK} bit/s", "delay": "1ms"},
        ],
    }
    us = vbr.cells(MTU) * vbr.CELL_BITS / OFFERED * 1e6
    scenario["flow"][0]["datagrams"] = {"gap": f"{us:.3f}us", "size": f"{MTU} B"}
    others_us = vbr.cells(1_500) * vbr.CELL_BITS / (load * TRUNK - OFFERED) * 1e6
    others = {"gap": f"exp({others_us:.3f}us)", "size": "1500 B"}
    scenario["flow"].append({"name": "others", "from": "x", "to": "y", "datagrams": others})
    return scenario


def arrived(kind: str, load: float, seed: int, seconds: float = SECONDS) -> tuple[float, float]:
    """Share of the packets that arrived: of the contract, and of the others."""
    flows = layercast.run(tight(kind, load, seconds), seed=seed).summary["flows"]
    ours, others = (flow["received"] / flow["sent"] for flow in flows)
    return ours, others


@experiment("vbr-atm-lan/v12", title=TITLES["v12"], paper=f"{PAPER}, section 5.3")
def v12(context: Context) -> Report:
    """Cells beyond the contract may use what is free if somebody marks them, best as whole packets."""
    seeds = context.seed_range(2)
    jobs = [(kind, load, seed) for kind in KINDS for load in LOADS for seed in seeds]
    shares = iter(run_all(context, "runs", lambda job: arrived(*job, context.seconds or SECONDS), jobs))
    found = {(kind, load): [next(shares) for _ in seeds] for kind in KINDS for load in LOADS}
    ours = {kind: np.array([mean(one[0] for one in found[kind, load]) for load in LOADS]) for kind in KINDS}
    lost, by_network, by_adapter = ours.values()
    rows = [
        Row(
            "twice the contract, discarded",
            "packets lose cells: nearly none is whole",
            f"{curve(100 * lost, 0)} % of packets arrive",
            "below 15 %; the contract is for 50 %",
            judge(lost.max() < 0.15),
        ),
        Row(
            "tagged, light load",
            "what exceeds the contract gets through",
            f"{by_network[0]:.1%} by the network, {by_adapter[0]:.1%} by the adapter",
            "95 %",
            judge(min(by_network[0], by_adapter[0]) >= 0.95),
        ),
        Row(
            "tagged by the adapter, overload",
            "the contract is kept: marked packets go first",
            f"{curve(100 * by_adapter, 0)} % of packets arrive",
            "47 % at least at every load",
            judge(by_adapter.min() >= 0.47),
        ),
        Row(
            f"tagged by the network, load {LOADS[-1]:g}",
            "any packet may lose tagged cells",
            f"{by_network[-1]:.1%} beside {by_adapter[-1]:.1%} by the adapter",
            "half of it at most",
            judge(by_network[-1] <= by_adapter[-1] / 2),
        ),
    ]
    path = draw_loads(ours, context.path("v12"))
    file = context.path("v12.toml")
    file.write_text(toml_file(tight("tagged by the adapter", LOADS[-1])))
    return Report("vbr-atm-lan/v12", TITLES["v12"], rows, path, scenario=str(file))


def draw_loads(ours: Mapping[str, np.ndarray], path: Path) -> str:
    """Packets that arrive against the load."""
    figure, axis = plt.subplots(figsize=(6.4, 3.7))
    axis.axhline(50, color="0.5", lw=1, ls="--")
    axis.text(LOADS[0], 51.5, "what the contract is for", fontsize=8, color="0.3")
    for number, (kind, shares) in enumerate(ours.items()):
        axis.plot(LOADS, 100 * shares, color=COLOURS[number], marker=MARKERS[number], ms=4.5, label=kind)
    axis.set(xlabel="load of the trunk by all that is offered", ylabel="packets that arrive (%)")
    axis.set_ylim(0, 104)
    axis.legend(loc="center left", bbox_to_anchor=(0.0, 0.28), fontsize=8.5)
    return style.save(figure, path)


POLICERS = {"cells": "each cell", "partial": "PPD", "early": "EPD", "first": "F-GCRA"}
FATES = ("frames_intact", "frames_partial", "frames_none")
MIX_BPS, MIX_BYTES = 1.5 * SCR, 2_500


def mixed(frames: str, burst: int, seed: int, seconds: float, constant: bool = False) -> Mapping[str, int]:
    """What a policer did to packets of many sizes at half more than the sustainable rate."""
    scenario = vbr.lan(Setup(MTU, burst, contract={"frames": frames}, endless_s=seconds))
    for host in scenario["host"]:
        del host["cpu"]
    size = MTU if constant else MIX_BYTES
    us = 8e6 * size / (MIX_BPS * 48 / 53)
    law = f"{size} B" if constant else f"exp({size} B)"
    scenario["flow"][0]["datagrams"] = {"gap": f"exp({us:.1f}us)", "size": law}
    return layercast.run(scenario, seed=seed).summary["atm"]["contracts"][0]["upc"]


@experiment("vbr-atm-lan/v13", title=TITLES["v13"], paper=f"{PAPER}, section 6")
def v13(context: Context) -> Report:
    """Whole packets instead of cells: partial and early discard, and what became of them, F-GCRA."""
    chosen, seconds = BURSTS[::2], context.seconds or 10
    cases = product(POLICERS, chosen, (False, True))
    jobs = [(frames, burst, 1, seconds, alike) for frames, burst, alike in cases]
    stats = dict(zip(jobs, run_all(context, "mixes", lambda job: mixed(*job), jobs), strict=True))

    def share(frames: str, what: str, alike: bool = False) -> np.ndarray:
        of = [stats[frames, burst, 1, seconds, alike] for burst in chosen]
        return np.array([upc[what] / sum(upc[name] for name in FATES) for upc in of])

    intact = {frames: share(frames, "frames_intact") for frames in POLICERS}
    partial = {frames: share(frames, "frames_partial") for frames in POLICERS}
    vain, vain_alike = (share("early", "frames_false", alike) for alike in (False, True))
    setups: dict[Point, Setup] = {
        (frames, burst): Setup(MTU, burst, contract={"frames": frames})
        for frames, burst in product(POLICERS, BURSTS)
    }
    found = sweep(context, "transfers", setups, 2)
    cut = min(partial["cells"].min(), partial["partial"].min()) > 0
    whole = max(partial["early"].max(), partial["first"].max()) == 0
    best = np.minimum(intact["first"], intact["partial"])
    ppd, plain = mbps(found, "partial"), mbps(found, "cells")
    rows = [
        Row(
            "packets cut by the policer",
            "all that exceed, cell by cell; none by EPD",
            ", ".join(f"{name} {100 * partial[frames].mean():.1f} %" for frames, name in POLICERS.items()),
            "some by the first two, none by the others",
            judge(cut and whole),
        ),
        Row(
            "whole packets of many sizes, MBS 1000 to 4000",
            "more if the policer knows frames",
            "; ".join(f"{name} {curve(100 * intact[frames], 0)} %" for frames, name in POLICERS.items()),
            "F-GCRA and PPD above cells",
            judge(bool(np.all(best > intact["cells"]))),
        ),
        Row(
            "EPD: discarded though they conformed",
            "short packets are: undesirable",
            f"{vain.mean():.1%} of packets of many sizes, {vain_alike.mean():.1%} if all are the largest",
            "some, and none",
            judge(vain.min() > 0 and vain_alike.max() == 0),
        ),
        Row(
            "TCP with a timer of 500 ms, PPD",
            "the curve of a reassembly timer: monotone in MBS (prototype: 0.41 to 1.77)",
            f"{curve(ppd)} instead of {curve(plain)} Mbit/s",
            "more with each step",
            judge(bool(np.all(np.diff(ppd) > 0))),
        ),
    ]
    named = {(POLICERS[frames], burst): found[frames, burst] for frames, burst in found}
    path = draw(named, list(POLICERS.values()), context.path("v13"), label=str)
    scenario = save_scenario(context, Setup(MTU, 2_000, contract={"frames": "first"}), "v13")
    return Report("vbr-atm-lan/v13", TITLES["v13"], rows, path, scenario=scenario)


def ethernet(setup: Setup) -> dict[str, Any]:
    """A server at a switch, and behind a router with an adapter an Ethernet with its client."""
    scenario = vbr.lan(setup)
    scenario["link"] = [link for link in scenario["link"] if "b" not in link["ends"]]
    lan = {"name": "ethernet", "rate": "10 Mbit/s", "stations": ["at-b", "b"], "mtu": setup.mtu}
    return scenario | {"lan": [lan]}


@experiment("vbr-atm-lan/v15", title=TITLES["v15"], paper=f"{PAPER}, Figure 2")
def v15(context: Context) -> Report:
    """The configuration that the authors think of, in which the circuit has the rate of the Ethernet."""
    seeds = context.seed_range(2)
    chosen = {"peak": "policed", "sustained": "shaped"}
    setups = {
        (shape, burst): Setup(1_500, burst, contract={"shape": shape}) for shape in chosen for burst in BURSTS
    }

    def run(job: tuple[Point, int]) -> vbr.Outcome:
        point, seed = job
        return vbr.outcome(layercast.run(ethernet(setups[point]), seed=seed).summary)

    jobs = [(point, seed) for point in setups for seed in seeds]
    ones = iter(run_all(context, "transfers", run, jobs))
    found = {(chosen[shape], burst): [next(ones) for _ in seeds] for shape, burst in setups}
    values = mbps(found, "policed")
    named = {(1_500, burst): found["shaped", burst] for burst in BURSTS}
    lost = discards(named)
    rows = [
        Row(
            "policed, MBS 1000 to 4000",
            "as in Figure 3 (expected by the specification)",
            f"{curve(values)} Mbit/s",
            "each at most 1.4",
            judge(values.max() <= 1.4),
            "acknowledgements come at the pace of the Ethernet, hardly faster than the contract is kept",
        ),
        shaped(named, 1_500, 0.88),
        Row("cells discarded, shaped", "none", f"{lost}", "0", judge(lost == 0)),
    ]
    path = draw(found, list(chosen.values()), context.path("v15"), label=str, most=True)
    file = context.path("v15.toml")
    file.write_text(toml_file(ethernet(setups["sustained", 1_000])))
    return Report("vbr-atm-lan/v15", TITLES["v15"], rows, path, scenario=str(file))
