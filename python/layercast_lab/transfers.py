"""TCP and XTP file transfers over an ATM bottleneck: the networks of the study, and what came of a run."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import layercast

LINK = 150_000_000
"""bit/s of every link, cells with their headers; all share one clock (specs/tcp-xtp-over-atm.md 2.3)."""
CELL_BITS = 424
SLOT_S = CELL_BITS / LINK
BUFFER = 1_000
"""Cells of an output port of a switch."""
US_PER_KM = 5
WINDOWS = {9_140: 6, 1_142: 48}
"""The window of the study for each MPS, in PDUs."""
HEADERS = {"tcp": 40, "gbn": 32, "sr": 32}
NAMES = {"tcp": "TCP", "gbn": "XTP go-back-n", "sr": "XTP selective"}
TICK_US = {10: 50, 1_000: 1_000}
"""Tick of TCP by the shortest connection: below its propagation delay."""
MESSAGE = (20, 200)
"""Mean and largest number of cells of a background message."""
BURSTS_CELLS = {"fast": (20_000, 10_000), "slow": (200_000, 100_000)}
"""Mean ON and OFF times of the background, in cell slots."""
ON_CELLS = 10
"""Cells of a background packet while the source is ON: they follow each other without a gap."""


@dataclass(frozen=True)
class Setup:
    """Connections of these protocols through the bottleneck, all simultaneously."""

    protocols: tuple[str, ...] = ("tcp",) * 3
    mps: int = 9_140
    windows: tuple[int, ...] = ()
    """PDUs, one for each connection; empty: the study's for this MPS."""
    lengths_km: tuple[int, ...] = (1_000,)
    """One for each connection, or one for all."""
    load: int = 0
    """Background in Mbit/s of cells."""
    background: str = "poisson"
    shaped: bool = False
    """Cells of each connection leave at 50 Mbit/s."""
    rate: int = 50
    """Of each XTP connection, Mbit/s of cells."""
    jitter_us: int = 50
    """Receivers answer after a random time up to this."""
    tcp: tuple[tuple[str, Any], ...] = ()
    """What is different of TCP."""
    xtp: tuple[tuple[str, Any], ...] = ()
    """What is different of XTP."""
    queue: tuple[tuple[str, Any], ...] = ()
    """What is different of the queues."""
    ties: str = "random"
    slots: bool = True
    """Whether cells of all inputs come to a switch at the same instants."""
    warm_up_s: float = 2
    seconds: float = 10
    """The part that is measured."""

    def each(self, values: Sequence[int]) -> list[int]:
        """A value for each connection."""
        return list(values) if len(values) == len(self.protocols) else [values[0]] * len(self.protocols)

    @property
    def window_list(self) -> list[int]:
        """The window of each connection."""
        return self.each(self.windows or (WINDOWS[self.mps],))


def cells(mps: int, protocol: str) -> int:
    """Cells of a full PDU: user bytes, headers, and the trailer of AAL5."""
    return -(-(mps + HEADERS[protocol] + 8) // 48)


def most_mbps(mps: int, protocol: str = "tcp") -> float:
    """User bytes that a link carries if nothing else is on it."""
    return 8 * mps / (cells(mps, protocol) * CELL_BITS) * LINK / 1e6


def tcp(setup: Setup, window: int) -> dict[str, Any]:
    """4.3BSD-Reno, each segment acknowledged, with a tick that suits the distances."""
    tick = TICK_US.get(min(setup.lengths_km), TICK_US[1_000])
    held = window * setup.mps
    first = f"{max(12 * tick, 100_000)}us"
    return {
        "profile": "bsd44lite",
        "variant": "reno",
        "mss": setup.mps,
        "send_buffer": 2 * held,
        "recv_buffer": held,
        "max_cwnd": f"{max(held, 65_535)} B",
        "window_scaling": held > 65_535,
        "fast_tick": "off",
        "slow_tick": f"{tick}us",
        "min_rto": f"{2 * tick}us",
        "first_rto": first,
        "unsampled_rto": first,
        "max_rto": f"{max(128 * tick, 1_000_000)}us",
        "max_retries": 200,
        "extra_eighth": True,
    } | dict(setup.tcp)


def xtp(setup: Setup, protocol: str, window: int) -> dict[str, Any]:
    """XTP as the study uses it: rate control, an output buffer as the window, a question with each packet."""
    return {
        "delivery": "context",
        "max_data": setup.mps,
        "send_buffer": window * setup.mps,
        "window": 4 << 20,
        "rate": f"{setup.rate} Mbit/s",
        "flow_control": False,
        "fast_nak": True,
        "ask": 1,
        "single_timer": True,
        "first_wait": "100ms",
        "least_wait": "1us",
        "retries": 1_000,
        "retransmission": {"gbn": "go-back-n", "sr": "selective"}[protocol],
    } | dict(setup.xtp)


def background(setup: Setup) -> tuple[dict[str, Any], float]:
    """The background's packets, and the rate at which their cells follow each other, bit/s."""
    load = setup.load * 1e6
    if setup.background == "poisson":
        mean, most = MESSAGE
        gap = f"exp({mean * CELL_BITS / load * 1e9:.3f}ns)"
        return {"gap": gap, "size": f"cells({mean}, {most})"}, 1.2 * load
    on, off = (slots * SLOT_S for slots in BURSTS_CELLS[setup.background])
    peak = load * (on + off) / on
    period = {"gap": f"{ON_CELLS * CELL_BITS / peak * 1e9:.3f}ns", "size": f"{ON_CELLS * 48 - 8} B"}
    return period | {"on": f"exp({on * 1e6:.6f}us)", "off": f"exp({off * 1e6:.6f}us)"}, peak


def network(setup: Setup, seed: int) -> dict[str, Any]:
    """Senders at one switch, receivers at another, and a source of background with a shaper."""
    numbers = range(1, len(setup.protocols) + 1)
    lengths = setup.each(setup.lengths_km)
    trunk = min(2, min(lengths) / 5)
    draw = random.Random(seed)
    links = [bottleneck(["a", "b"], LINK, trunk)]
    hosts, flows, stacks = [], [], {}
    jitter = {"cpu": {"per_packet": f"{setup.jitter_us * 500}ns", "jitter": 1.0}} if setup.jitter_us else {}
    for n, protocol, window, length in zip(numbers, setup.protocols, setup.window_list, lengths, strict=True):
        stack = {"tcp": f"w{window}"}
        stacks[f"w{window}"] = tcp(setup, window)
        hosts += [{"name": f"s{n}"} | stack, {"name": f"r{n}"} | stack | jitter]
        links += [
            bottleneck([end, at], LINK, (length - trunk) / 2) for end, at in ((f"s{n}", "a"), (f"r{n}", "b"))
        ]
        start = f"{draw.uniform(0, 10_000):.3f}us"
        flow = {"name": f"{protocol}{n}", "from": f"s{n}", "to": f"r{n}", "start": start}
        flow |= {} if protocol == "tcp" else {"xtp": xtp(setup, protocol, window)}
        flows.append(flow | (shaper(50_000_000) if setup.shaped else {}))
    if setup.load:
        packets, peak = background(setup)
        hosts += [{"name": "in"}, {"name": "out"}]
        links += [bottleneck(["in", "a"], LINK, 0), bottleneck(["out", "b"], LINK, 0)]
        flow = {"name": "background", "from": "in", "to": "out", "datagrams": packets}
        flows.append(flow | shaper(peak))
    return {
        "schema": "internet/1",
        "name": "transfers",
        "run": {
            "duration": f"{setup.warm_up_s + setup.seconds:g}s",
            "warm_up": f"{setup.warm_up_s:g}s",
            "ties": setup.ties,
        },
        "tcp": stacks,
        "host": hosts,
        "atm": {
            "policy": "noqos-conv-svc",
            "slots": setup.slots,
            "mtu": 48 * MESSAGE[1] - 8,
            "queue": {
                "discard": "none",
                "per_vc_limit": BUFFER,
                "port_limit": BUFFER,
                "adapter_limit": 1_000_000,
            }
            | dict(setup.queue),
            "switch": [{"name": "a"}, {"name": "b"}],
            "link": links,
        },
        "flow": flows,
    }


def shaper(rate: float) -> dict[str, Any]:
    """The cells of a flow leave at this distance, bit/s, and none is lost."""
    return {"contract": {"kind": "ubr", "peak": f"{round(rate)} bit/s", "police": False, "queue": 100_000}}


def bottleneck(ends: list[str], rate: int, km: float) -> dict[str, Any]:
    """An ATM link of this length."""
    return {"ends": ends, "rate": f"{rate} bit/s", "delay": f"{km * US_PER_KM:g}us"}


@dataclass(frozen=True)
class Outcome:
    """What a run gave: a number for each connection, in their order."""

    goodput: tuple[float, ...]
    """User bytes in order, Mbit/s."""
    efficiency: tuple[float, ...]
    """Goodput over what was given to the network; not a number if that was nothing."""
    timeouts: tuple[int, ...]
    """Of XTP: handshakes."""
    cells_lost: tuple[float, ...]
    """Share of the cells sent."""
    pdus_lost: tuple[float, ...]
    background_lost: float
    used: float
    """Share of the time that the bottleneck was sending."""
    longest: int
    """Most cells that waited for it."""
    kinds: tuple[Any, ...] = ()
    """What tells connections apart: protocol, window and length; those with the same are alike."""

    @property
    def groups(self) -> list[float]:
        """Mean goodput of the connections of each kind, Mbit/s."""
        names = list(dict.fromkeys(self.kinds))
        alike = [
            [g for g, kind in zip(self.goodput, self.kinds, strict=True) if kind == name] for name in names
        ]
        return [sum(values) / len(values) for values in alike]


def outcome(summary: Mapping[str, Any], setup: Setup) -> Outcome:
    """From what a run reports; cells are of the whole run, warm-up included."""
    flows = [flow for flow in summary["flows"] if flow["name"] != "background"]
    adapters = {one["router"]: one for one in summary["atm"]["adapters"]}
    queues = {one["name"]: one for one in summary["atm"]["queues"]}

    def lost(host: str, what: str) -> float:
        sent = adapters.get(host, {}).get(f"{what}_sent", 0)
        return adapters[host][f"{what}_lost"] / sent if sent else 0.0

    senders = [f"s{n}" for n in range(1, len(flows) + 1)]
    return Outcome(
        tuple(8e-6 * flow["bytes"] / setup.seconds for flow in flows),
        tuple(flow["bytes"] / offered if (offered := flow["offered_bytes"]) else math.nan for flow in flows),
        tuple(flow["timeouts"] for flow in flows),
        tuple(lost(host, "cells") for host in senders),
        tuple(lost(host, "frames") for host in senders),
        lost("in", "cells"),
        queues["a->b"]["utilisation"],
        queues["a->b"]["max_len"],
        tuple(zip(setup.protocols, setup.window_list, setup.each(setup.lengths_km), strict=True)),
    )


@functools.lru_cache(maxsize=10_000)
def run(setup: Setup, seed: int) -> Outcome:
    """Runs it; what was run once in this process is known."""
    return outcome(layercast.run(network(setup, seed), seed=seed).summary, setup)
