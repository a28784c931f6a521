"""Models of reliable multicast (crate `layercast-multicast`), asked for in Python."""

from __future__ import annotations

import json
from typing import Any

from layercast import _layercast

PACKETS = 2_000
"""Of the newspaper: 2 Mbyte in packets of 1024 octets."""
PACKETS_PER_S = 800_000 / 8 / 1_024


def ask(what: str, **question: Any) -> Any:
    """An answer of the crate: `session`, `mean-rounds`, ...; see crates/python/src/multicast.rs.

    >>> round(ask("rule-of-thumb", points=[(2000, 5000, 0.01)])[0], 2)
    3.5
    """
    return json.loads(_layercast.multicast_json(json.dumps({"ask": what, **question})))


def paper(receivers: int, *, lossy: int | None = None, loss: float = 0.01, **other: float) -> dict[str, Any]:
    """The model of the RMTP paper's tests: 0.8 Mbit/s, TAT 100 ms, delta 3 ms from 1000 receivers on."""
    delta = 0.003 if receivers >= 1_000 else 0.0
    common = {"packets": PACKETS, "rate": PACKETS_PER_S, "tat": 0.1, "delta": delta, "loss": loss}
    return {"receivers": receivers, "lossy": lossy} | common | other


def sessions(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What sessions of RMTP take: seconds, packets, seconds of the processor, and each pass."""
    return ask("session", models=models)


def close(found: float, told: float, digits: int) -> bool:
    """Whether it is the same to a number of decimal places."""
    return abs(found - told) <= 0.5001 * 10**-digits
