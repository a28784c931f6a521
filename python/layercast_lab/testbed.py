"""The testbed of the METS papers as a scenario (specs/mets.md 3.2 and 4.1), and its clips."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PAPER = "Campbell, Coulson: QoS Adaptive Transports (IEEE Network 1997); PfHSN'96 chapter 14"

PATH = ("atc", "chuff", "sparrow", "rook", "dwp")
SWITCHES = PATH[1:-1]

CELL_BITS = 424
LINE_CELLS_PER_S = 100e6 / CELL_BITS
# METS header and AAL5 trailer.
OVERHEAD_BYTES = 24 + 8

# GOP in coded order; mean cells of I, P and B pictures, and their coefficient of variation.
GOP = "IPBBPBBPBBBB"
CLIPS = {
    "canyon": ({"I": 240, "P": 160, "B": 120}, 0.10),
    "lougher": ({"I": 120, "P": 55, "B": 35}, 0.25),
}
LARGEST_FRAME_CELLS = 683

# The costs of `host = "1996"` (specs/mets.md 3.2), for experiments that change one of them.
PENTIUM_SENDER = {"send_cell": "31us", "send_packet": "200us", "clock_tick": "10ms"}
PENTIUM_RECEIVER = {
    "receive_cell": "56us",
    "receive_packet": "100us",
    "nic_cells": 128,
    "stall_rate": 1.5,
    "stall_max": "16ms",
    "deliver_packet": "300us",
    "deliver_cell": "25us",
}


def scenario(
    name: str,
    seconds: float,
    flows: Sequence[Mapping[str, Any]],
    *,
    hosts: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Flows from atc to dwp over chuff, sparrow and rook, all of 1996 unless `hosts` says otherwise.

    Each flow gets a receiver of its own at dwp; `more` are further fields of the scenario.
    """
    hosts = hosts or {}
    nodes = [
        {"name": node, "kind": "switch" if node in SWITCHES else "host"}
        | ({"host": hosts[node]} if node in hosts else {})
        for node in PATH
    ]
    links = [{"a": a, "b": b, "rate": "100 Mbit/s", "delay": "0.5 us"} for a, b in itertools.pairwise(PATH)]
    return {
        "name": name,
        "duration": f"{seconds:g}s",
        "carriage": "cells",
        "host": "1996",
        "node": nodes,
        "link": links,
        "flow": [{"source": "atc"} | dict(flow) for flow in flows],
        "receiver": [
            {"name": f"{flow['name']}-at-dwp", "node": "dwp", "flow": flow["name"]} for flow in flows
        ],
    } | more


def packet_bytes(cells: int) -> int:
    """Media bytes of a packet that fills this number of cells."""
    return cells * 48 - OVERHEAD_BYTES


def packet_cells(media_bytes: int) -> int:
    """Cells of a packet with this number of media bytes."""
    return -(-(media_bytes + OVERHEAD_BYTES) // 48)


def video_sizes(clip: str, frames: int, rng: np.random.Generator) -> list[int]:
    """Frame sizes in bytes like those of a clip: log-normal by picture type, in whole cells."""
    means, variation = CLIPS[clip]
    sigma = np.sqrt(np.log(1 + variation**2))
    mean = np.array([means[GOP[i % len(GOP)]] for i in range(frames)])
    cells = np.rint(rng.lognormal(np.log(mean) - sigma**2 / 2, sigma))
    return [packet_bytes(int(n)) for n in np.clip(cells, 1, LARGEST_FRAME_CELLS)]


def write_trace(path: Path, sizes: Iterable[int], types: str = "I") -> Path:
    """Writes a frame-size trace, the picture types repeating."""
    lines = (f"{i} {types[i % len(types)]} {size}" for i, size in enumerate(sizes))
    path.write_text("\n".join(lines) + "\n")
    return path


def thousands(value: float) -> str:
    """A count in groups of three digits; "never" for infinity."""
    return f"{value:,.0f}".replace(",", " ") if np.isfinite(value) else "never"
