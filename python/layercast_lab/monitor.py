"""The QoS monitor (crate `layercast-monitor`): its events, and scenarios with a monitor at each node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from layercast import _layercast

OPEN, SENT, RECEIVED, PROBE_START, PROBE_END, ERR_REPORT = 1, 3, 4, 5, 6, 7
"""Actions of an event (specs/user-to-user-qos.md 2.1)."""
SIZE, RTT, SPANS_HEAD, SPAN = 1, 3, 4, 5
"""Kinds of its values."""
XTP, METS = 1, 3
"""Numbers of descriptors."""
IN, OUT = 0, 1
"""Places of the directions in a report."""
SECOND = 1_000_000_000


def ask(what: str, **question: Any) -> Any:
    """The answer to a question; see crates/python/src/monitor.rs."""
    return json.loads(_layercast.monitor_json(json.dumps({"ask": what, **question})))


def opened(descriptor: int = XTP) -> dict[str, int]:
    """The event with which connection 1 opens."""
    return {"action": OPEN, "aux": descriptor}


def packets(times_ns: Sequence[int], octets: int) -> list[dict[str, int]]:
    """Packets of one size that leave."""
    bits = 8 * octets
    return [
        {"action": SENT, "info_type": SIZE, "t_ns": t, "a": bits, "b": bits * n}
        for n, t in enumerate(times_ns, 1)
    ]


def regular(begin_s: float, end_s: float, bps: float, octets: int) -> list[int]:
    """Instants of packets at a steady rate."""
    gap = 8 * octets * SECOND / bps
    count = round((end_s - begin_s) * SECOND / gap)
    return [round(begin_s * SECOND + (n + 1) * gap) for n in range(count)]


def report(seq: int, rseq: int, spans: Sequence[tuple[int, int]], t_ns: int) -> list[dict[str, int]]:
    """A report of what the peer has."""
    about = {"action": ERR_REPORT, "t_ns": t_ns}
    head = about | {"info_type": SPANS_HEAD, "a": seq, "b": rseq, "aux": len(spans)}
    return [head] + [about | {"info_type": SPAN, "a": left, "b": right} for left, right in spans]


def transfer(
    octets: int,
    *,
    rate: str = "10 Mbit/s",
    delay: str = "10ms",
    loss: float = 0.0,
    back: Mapping[str, Any] | None = None,
    xtp: Mapping[str, Any] | None = None,
    cpu: Mapping[str, Any] | None = None,
    both: bool = False,
    seconds: float = 60,
) -> dict[str, Any]:
    """One XTP transfer from left to right, or one each way, over one link."""
    link = {"ends": ["left", "right"], "rate": rate, "delay": delay, "queue": "1000 packets", "loss": loss}
    config = {"ask": 1} | dict(xtp or {})
    flow = {"bytes": octets, "xtp": config, "start": "0s"}
    ways = [("left", "right"), ("right", "left")]
    return {
        "schema": "internet/1",
        "name": "monitor",
        "run": {"duration": f"{round(seconds * 1e3)}ms"},
        "host": [{"name": "left"} | ({"cpu": dict(cpu)} if cpu else {}), {"name": "right"}],
        "link": [link | ({"back": dict(back)} if back else {})],
        "flow": [{"name": a, "from": a, "to": b} | flow for a, b in ways[: 2 if both else 1]],
    }


def watch(scenario: Mapping[str, Any], seed: int = 1, **more: Any) -> dict[str, Any]:
    """A run with a monitor at each node; `same` says whether it is that without them."""
    return ask("watch", scenario=dict(scenario), seed=seed, **more)


def last(found: Mapping[str, Any], node: str, place: int | None = None) -> dict[str, Any]:
    """The last report of a node, or one direction of it."""
    at = found["nodes"][node]["reports"][-1]
    return at if place is None else at["directions"][place]
