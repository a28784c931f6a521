"""Studies of partial order connections (crate `layercast-partial-order`), run from Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from layercast import _layercast
from layercast_lab.experiment import Context
from layercast_lab.simulator import run_all

MEDIA, GROUP = "media_per_media", "per_group"
POLICIES = {MEDIA: "media per media", GROUP: "per group"}
SECONDS, SEEDS = 120.0, 10
LAN = {"bps": 10e6, "delay_ms": 2.0, "jitter_ms": 4.0, "loss": 0.1}
"""The path of the measurements: 10 Mbit/s, one way 2 ms and exponential jitter, 10 % of the PDUs lost."""


def ask(what: str, **question: Any) -> Any:
    """The answer of the crate to `run` or `arrivals`; see crates/python/src/partial_order.rs."""
    return json.loads(_layercast.partial_order_json(json.dumps({"ask": what, **question})))


def rate(percent: float, window: int = 100) -> dict[str, Any]:
    """A tolerated loss in percent of the last settled SDUs."""
    return {"rate": {"ppm": round(percent * 1e4), "window": window}}


def setting(tolerance: Any, policy: str, *, late_ms: float = 0.0, **other: Any) -> dict[str, Any]:
    """Flows of 40 and 80 ms in blocks of two and one, `late_ms` before each submission of the second flow."""
    flows = [
        {"period_ms": 40.0, "bytes": 1_000, "count": 2, "tolerance": tolerance},
        {"period_ms": 80.0, "bytes": 640, "count": 1, "tolerance": tolerance, "late_ms": late_ms},
    ]
    return {"flows": flows, "path": LAN, "policy": policy, "seconds": SECONDS} | other


def runs(
    context: Context, what: str, settings: Sequence[dict[str, Any]], seeds: int = SEEDS
) -> list[list[dict[str, Any]]]:
    """The runs of each setting, one for each seed."""
    length = {"seconds": context.seconds} if context.seconds else {}
    numbers = context.seed_range(seeds)

    def one(base: dict[str, Any]) -> list[dict[str, Any]]:
        return ask("run", settings=[base | length | {"seed": seed} for seed in numbers])

    return run_all(context, what, one, settings)


def mean(found: Sequence[dict[str, Any]], key: str, flow: int | None = None) -> float:
    """Mean over the runs of a figure of the run or of a flow."""
    return float(np.mean([run[key] if flow is None else run["flows"][flow][key] for run in found]))


def share(found: Sequence[dict[str, Any]], key: str, flow: int | None = None) -> float:
    """Percent of the submitted SDUs, of one flow or of all."""
    flows = [it for run in found for it in (run["flows"] if flow is None else [run["flows"][flow]])]
    return 100 * sum(it[key] for it in flows) / max(sum(it["submitted"] for it in flows), 1)


def near(found: float, expected: float, part: float = 0.15, least: float = 0.5) -> bool:
    """Whether it is within a part of the expected value, or within `least`."""
    return abs(found - expected) <= max(part * expected, least)
