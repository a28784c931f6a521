"""FRM's own simulation (specs/fully-reliable-multicast.md 3) on the multicast simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layercast_lab import group

SPACING_MS = 10
RATE = 200_000
"""Octets per second that the source makes: 2000 each 10 ms."""
LOSS = 1e-4
# Seconds after which a run that cannot keep up has shown it.
LONGEST = 120


def scenario(
    receivers: int | Sequence[group.Branch],
    *,
    packets: int = 600,
    seed: int = 1,
    loss: float = LOSS,
    cells: bool = False,
    fault: Sequence[dict[str, Any]] = (),
    **session: Any,
) -> dict[str, Any]:
    """Table 1: processors of 0.5 ms for control, echoes and the algorithm, 1.5 ms for data; 10 to 15 ms away.

    With `cells` it is cells of AAL5 that are lost. `session` holds the deviations from the profile `frm`; by
    default no receiver is expelled.
    """
    policy = {"profile": "frm", "packet_size": 2_000, "window": 32, "k": 1.5, "weak": "keep"} | session
    branches = [star(receivers, loss, cells=cells)] if isinstance(receivers, int) else receivers
    return group.scenario(
        "frm",
        policy,
        branches,
        seed,
        run={"duration": f"{LONGEST}s"},
        stream={"packets": packets, "interval": f"{SPACING_MS}ms", "service": "0.5ms"},
        source={"send_data": "1.5ms", "send_control": "0.5ms", "take_control": "0.5ms", "evaluate": "0.5ms"},
        fault=list(fault),
    )


def star(count: int, loss: float = LOSS, name: str = "receiver", **other: Any) -> group.Branch:
    """Receivers at the ends of links of 155.5 Mbit/s."""
    host = {"take_data": "1.5ms", "take_control": "0.5ms", "send_control": "0.5ms"}
    link = {"loss": loss, "delay": "10ms", "delay_to": "15ms", "rate": "155.5 Mbit/s"}
    return {"name": name, "count": count, "host": host} | link | other


def eject(rate: int = 180_000, rounds: int = 3) -> dict[str, Any]:
    """Expels a receiver that limits the others to less than 90 % of the offer; checked each second."""
    return {"eject": {"min_release": rate, "interval": "1s", "slow_rounds": rounds}}
