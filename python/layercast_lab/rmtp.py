"""RMTP's own tests (specs/rmtp-large-scale.md 3) on the multicast simulator."""

from __future__ import annotations

from typing import Any

from layercast_lab import group
from layercast_lab.multicast import PACKETS

SERVER = {"send_data": "70us", "send_control": "70us", "take_control": "230us"}
"""System time of the server, a Sun of 1996 (8.2)."""


def scenario(
    receivers: int,
    *,
    lossy: int | None = None,
    loss: float = 0.01,
    packets: int = PACKETS,
    alpha: float = 0.0,
    tat_ms: int = 100,
    delta: float | None = None,
    seed: int = 1,
    source: dict[str, Any] | None = None,
    **session: Any,
) -> dict[str, Any]:
    """The newspaper at 0.8 Mbit/s, as `multicast.paper` has it; where `lossy` do, the others lose none.

    As the paper's model has it a poll ends each pass, with a range of back-off for those that still respond,
    and without good-byes; `session` is what else is not as in the profile `rmtp`.
    """
    if delta is None:
        delta = 0.003 if receivers >= 1_000 else 0.0
    # Less by a packet and more than the turn-around time allows: answers at its very end are late.
    link = {"delay": f"{tat_ms // 2 - 10}ms"}
    lose = receivers if lossy is None else min(lossy, receivers)
    branches = [{"name": "mars", "count": lose, "loss": loss} | link]
    if lose < receivers:
        branches.append({"name": "lares", "count": receivers - lose} | link)
    times = {"tat": f"{tat_ms}ms", "alpha": f"{1e6 * alpha:.0f}us", "delta": f"{1e6 * delta:.0f}us"}
    policy = {"profile": "rmtp", "packets": packets, "unasked": False, "goodbye": False} | times | session
    return group.scenario("rmtp", policy, branches, seed, source=source or {})
