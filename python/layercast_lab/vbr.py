"""TCP over a policed VBR circuit in an ATM LAN: the packet-train model, and two hosts at a switch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import layercast

PCR, SCR = 155_520_000, 10_000_000
"""bit/s of cells with their headers."""
CELL_BITS = 424
T_PCR_US, T_SCR_US = 2.726, 42.4
"""From cell to cell, as the paper has them."""
BURSTS = (1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000)
"""Cells of the longest burst, MBS."""
MTUS = (552, 1_500, 4_832, 9_188)
HEADERS = 40
WINDOW = 49_152
TRANSFER = 4 << 20
"""Bytes of a transfer."""
TICKS_MS = {500: "sunos413", 200: "solaris", 10: "tick10"}
"""Profiles of TCP by their coarse timer."""
SEND_US_BYTE = (900 - 600) / (9_188 - 4_832)
SEND_US = 900 - 9_188 * SEND_US_BYTE
"""Time of the sender for a packet: the line through the two that were measured (4832 and 9188 bytes)."""
RTT_US = 1_800
"""Of small packets, by ping."""
RECEIVE_US_BYTE, ACK_US, INPUT_QUEUE = 0.055, 150, 50
JITTER = 0.05
LINK_US = 254
"""One way of each host's link: with all else the round trip is that of ping."""


def cells(mtu: int) -> int:
    """Cells of a packet, with LLC/SNAP and the trailer of AAL5."""
    return -(-(mtu + 16) // 48)


def send_us(mtu: int) -> float:
    """From the start of a packet to that of the next, if the sender is never idle: Ig, to 0.1 us."""
    return round(SEND_US + SEND_US_BYTE * mtu, 1)


def gap_us(mtu: int) -> float:
    """From the end of a packet to the start of the next: Ip."""
    return send_us(mtu) - cells(mtu) * T_PCR_US


def burst_len(mtu: int, burst: int, gap: float | None = None) -> float:
    """Packets of a train that an idle policer lets pass before it discards a cell, Eq (2) in closed form.

    `gap` is that between packets in us, by default that of the paper's host; inf if the train has no end.
    """
    pause = gap_us(mtu) if gap is None else gap
    each = T_SCR_US - T_PCR_US
    count = cells(mtu)
    if burst < count:
        return 0
    if pause >= count * each:
        return float("inf")
    return 1 + int((burst - count) * each / (count * each - pause))


def most_bps(mtu: int) -> float:
    """What is left for data of the sustainable rate: 48 of 53 bytes of a cell, less headers and padding."""
    return SCR * (mtu - HEADERS) * 8 / (cells(mtu) * CELL_BITS)


@dataclass(frozen=True)
class Setup:
    """One transfer: the sender, the data and the contract."""

    mtu: int
    burst: int
    tick_ms: int = 500
    tcp: Mapping[str, Any] = field(default_factory=dict)
    """What is different from the profile of the tick."""
    contract: Mapping[str, Any] = field(default_factory=dict)
    """What is different from a policed contract whose cells leave at the peak rate."""
    reassembly_timer: str | None = None
    flows: int = 1
    jitter: float = JITTER
    endless_s: float | None = None
    """A fixed number of seconds of endless data instead of a transfer."""
    bytes: int = TRANSFER


LONGEST_S = 2_000


def receive_us(mtu: int) -> float:
    """Time of the receiver for a packet without its bytes, from the throughput without policer at 552."""
    return 365 if mtu == 552 else 250


def lan(setup: Setup) -> dict[str, Any]:
    """Two hosts with adapters at one switch, and a circuit each way; that of the data has a contract."""
    link = {"rate": "10 Gbit/s", "delay": f"{LINK_US}us", "mtu": setup.mtu, "queue": "unlimited"}
    adapter = {"rate": f"{PCR} bit/s", "delay": "10us"}
    sender = {
        "per_packet": f"{ACK_US}us",
        "per_sent": f"{SEND_US:.6f}us",
        "per_sent_byte": f"{SEND_US_BYTE * 1e3:.6f}ns",
        "jitter": setup.jitter,
    }
    receiver = {
        "per_packet": f"{receive_us(setup.mtu):g}us",
        "per_byte": f"{RECEIVE_US_BYTE * 1e3:g}ns",
        "jitter": setup.jitter,
        "queue": INPUT_QUEUE,
    }
    flow = {"from": "a", "to": "b"}
    flow |= {} if setup.endless_s else {"bytes": setup.bytes}
    terms = {"kind": "vbr", "peak": f"{PCR} bit/s", "sustained": f"{SCR} bit/s", "burst": setup.burst}
    flows = [flow | {"name": f"flow{n}"} for n in range(1, setup.flows + 1)]
    flows[0]["contract"] = terms | dict(setup.contract)
    atm = {
        "policy": "noqos-router-pvc",
        "mtu": setup.mtu,
        "queue": {"discard": "none", "per_vc_limit": 100_000, "port_limit": 100_000},
        "switch": [{"name": "lan"}],
        "link": [adapter | {"ends": [f"at-{host}", "lan"]} for host in "ab"],
    }
    if setup.reassembly_timer:
        atm["reassembly_timer"] = setup.reassembly_timer
    profile = {"profile": TICKS_MS[setup.tick_ms], "mss": setup.mtu - HEADERS}
    windows = {"send_buffer": WINDOW, "recv_buffer": WINDOW}
    return {
        "schema": "internet/1",
        "name": "vbr",
        "run": {"duration": f"{setup.endless_s or LONGEST_S:g}s"},
        "tcp": {"default": profile | windows | dict(setup.tcp)},
        "host": [{"name": "a", "cpu": sender}, {"name": "b", "cpu": receiver}],
        "router": [{"name": "at-a"}, {"name": "at-b"}],
        "link": [link | {"ends": [host, f"at-{host}"]} for host in "ab"],
        "atm": atm,
        "flow": flows,
    }


@dataclass(frozen=True)
class Outcome:
    """What became of a transfer."""

    bps: float
    """Bytes over the time to the last of them, waits included."""
    sent: int
    """Segments, those sent again included."""
    again: int
    timeouts: int
    upc: Mapping[str, int]
    damaged: int
    """Times that the receiver put cells together that were no packet."""
    busy: int
    """Packets that the receiver had no time for."""


def outcome(summary: Mapping[str, Any]) -> Outcome:
    """From what a run reports."""
    flows, atm = summary["flows"], summary["atm"]
    ends = [flow["completed"] for flow in flows]
    seconds = summary["seconds"] if None in ends else max(ends)
    return Outcome(
        8 * sum(flow["bytes"] for flow in flows) / seconds,
        sum(flow["sent"] for flow in flows),
        sum(flow["retransmitted"] for flow in flows),
        sum(flow["timeouts"] for flow in flows),
        atm["contracts"][0]["upc"],
        sum(adapter["damaged"] for adapter in atm["adapters"]),
        summary["node_drops"]["busy"],
    )


def transfer(setup: Setup, seed: int) -> Outcome:
    """Runs it."""
    return outcome(layercast.run(lan(setup), seed=seed).summary)
