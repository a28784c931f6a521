"""Scenarios of two sites, `west` and `east`, at a backbone with a single slow link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

T1 = 1_536_000
"""bit/s, without framing."""
CELL_S = 424 / T1
"""Time of a cell at T1."""
FAST = "10000 Gbit/s"
"""Of all other links: what they add is below the nanoseconds of a capture."""
ROOM = {"per_vc_limit": 1_000_000, "port_limit": 1_000_000}
"""Queues that lose nothing."""


def cells(packet: int) -> int:
    """Cells of an IP packet of this size in bytes."""
    return -(-(packet + 8) // 48)


def line(
    name: str,
    duration: float,
    *,
    hosts: int = 1,
    delay: float = 0.0,
    policy: str = "noqos-router-pvc",
    queue: Mapping[str, Any] = ROOM,
    **more: Any,
) -> dict[str, Any]:
    """Hosts `west1`.. at a router `west`, which reaches the router `east` with hosts `east1`.. over a T1.

    That link is between the switches `w` and `e` and has this delay in seconds. `more` are other
    sections of the scenario.
    """
    sides = ("west", "east")
    ends = [(f"{side}{{1..{hosts}}}", side) for side in sides]
    links = [{"ends": [many, one], "rate": FAST, "delay": "0s", "queue": "unlimited"} for many, one in ends]
    adapters = [{"ends": [side, side[0]], "rate": FAST, "delay": "0s"} for side in sides]
    trunk = {"ends": ["w", "e"], "rate": f"{T1} bit/s", "delay": f"{delay:g}s"}
    return {
        "schema": "internet/1",
        "name": name,
        "run": {"duration": f"{duration:g}s"},
        "host": [{"name": many} for many, _ in ends],
        "router": [{"name": side} for side in sides],
        "link": links,
        "atm": {
            "policy": policy,
            "queue": dict(queue),
            "switch": [{"name": "w"}, {"name": "e"}],
            "link": [*adapters, trunk],
        },
    } | more


def sites(hosts: int) -> list[dict[str, Sequence[str]]]:
    """For a workload: the first host of each side is its server, the others are workstations."""
    return [{"workstations": [f"{side}{{2..{hosts}}}"], "servers": [f"{side}1"]} for side in ("west", "east")]
