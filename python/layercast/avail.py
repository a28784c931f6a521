"""The synchronicity index of a path: can it carry a real-time service now?

A packet leaves each period; the index is high when the packets of others come between them in bursts.

>>> estimator = AvailEstimator(period_ms=10)
>>> for seq in range(301):
...     estimator.feed(arrival_s=seq / 100 + (0.004 if seq % 2 else 0), seq=seq)
>>> [estimate] = estimator
>>> round(estimate.xi_ms, 1)
4.2
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from layercast import _checks, _layercast

__all__ = ["AvailEstimator", "Counters", "Estimate", "NoEstimate"]


@dataclass(frozen=True)
class Estimate:
    """The index of a block of windows, and what belongs to it."""

    xi_ms: float
    """A low percentile of the standard deviations of the windows."""
    xi_over_period: float
    mean_ms: float
    """Mean of the lags."""
    queue_ms: float | None
    """95th percentile of the queueing delay above the least one of the last minute."""
    loss_ppm: int
    floor_ms: float
    """The least index that the clock of the receiver can show."""
    reordered: int
    lost: int
    n: int
    m: int
    eps: float
    period_us: int
    coarse_clock: bool
    sender_unreliable: bool


@dataclass(frozen=True)
class NoEstimate:
    """A block without an index: the service is not supported."""

    reason: Literal["insufficient", "no_signal"]
    loss_ppm: int


@dataclass(frozen=True)
class Counters:
    """What arrived since the start."""

    in_order: int
    reordered: int
    duplicates: int
    stale: int
    lost: int
    skipped: int
    late: int
    clock_anomalies: int
    slots: int


class AvailEstimator:
    """Feed it the packets of a train, and iterate over the results that are there.

    `mode="rolling"` gives a result for each window, `filter="paper"` the lags of the paper.
    """

    def __init__(
        self,
        period_ms: float = 10.0,
        m: int = 10,
        n: int = 30,
        eps: float = 0.3,
        *,
        mode: Literal["tumbling", "rolling"] = "tumbling",
        filter: Literal["paper", "robust"] = "robust",
        resolution_ms: float = 0.0,
        baseline_ms: float = 0.0,
    ):
        options = {"period_ms": period_ms, "m": m, "n": n, "eps": eps, "mode": mode, "filter": filter}
        options |= {"resolution_ms": resolution_ms, "baseline_ms": baseline_ms}
        self._raw = _layercast.SyncEstimator(json.dumps(options))
        self._found: deque[Estimate | NoEstimate] = deque()

    def feed(self, arrival_s: float, seq: int, tx_s: float | None = None) -> None:
        """A packet: arrival, number, and departure by the clock of the sender, if it is known."""
        self._take(self._raw.feed(arrival_s, _checks.whole("seq", seq, 0, 2**32 - 1), tx_s))

    def advance(self, now_s: float) -> None:
        """No packet came until now: after ten periods, at least a second, there is no signal."""
        self._take(self._raw.advance(now_s))

    @property
    def counters(self) -> Counters:
        """What arrived since the start."""
        return Counters(**json.loads(self._raw.counters()))

    def __iter__(self) -> Iterator[Estimate | NoEstimate]:
        while self._found:
            yield self._found.popleft()

    def _take(self, events: str) -> None:
        for event in json.loads(events):
            if event["event"] == "outcome":
                self._found.append(_result(event))


def _result(event: dict[str, Any]) -> Estimate | NoEstimate:
    values = {key: value for key, value in event.items() if key not in ("event", "outcome")}
    if event["outcome"] == "estimate":
        return Estimate(**values)
    return NoEstimate(event["outcome"], **values)
