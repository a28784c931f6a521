"""What was reported, as data: a number or a statement, and of which policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from layercast_lab.analysis import Level
from layercast_lab.insane.policies import SETUPS
from layercast_lab.insane.study import USERS

Grade = Literal["E", "B", "S", "N", "R"]
"""How a target is judged (specs/insane-study.md 5).

E: exactly. B: a range, widened, in which all of ours are. S: the direction, and significance where reported.
N: no significant effect. R: reported only, not judged.
"""
Scale = Literal["percent", "change", "value"]

APP = ("app-svc", "app-svccache")
CONV = ("conv-svc", "conv-svccache")
FRESH = ("app-svc", "conv-svc")
CACHED = ("app-svccache", "conv-svccache")


@dataclass(frozen=True)
class Pair:
    """Two policies beside each other, or one alone."""

    label: str
    """What this pair has that others of a target have not, such as "app-svc"."""
    base: str | None
    new: str


@dataclass(frozen=True)
class Range:
    """Reported numbers: differences in percent or in the unit of the metric, or values of the new policy."""

    scale: Scale
    low: float
    high: float
    slack: float | None = None
    """How far out of it a number may be; without, half its width or a quarter of the number."""

    def widened(self) -> tuple[float, float]:
        """The range in which ours has to be: widened as the specification says."""
        if self.slack is not None:
            return self.low - self.slack, self.high + self.slack
        half = (self.high - self.low) / 2
        low = self.low - max(half, abs(self.low) / 4)
        high = self.high + max(half, abs(self.high) / 4)
        # What was reported to become more is not reproduced by less, however wide the range is.
        return max(low, 0) if self.low >= 0 else low, min(high, 0) if self.high <= 0 else high


@dataclass(frozen=True)
class Target:
    """One line of section 5 of the specification."""

    section: str
    experiments: tuple[str, ...]
    """Those that show it, such as Q1."""
    name: str
    metrics: tuple[str, ...]
    pairs: tuple[Pair, ...]
    reported: str
    """As it is printed."""
    grade: Grade
    range: Range | None = None
    sign: int = 0
    """Whether it is reported to become more or less."""
    significant: tuple[str, ...] = ()
    """Labels of the pairs in which the difference is reported to be significant."""
    insignificant: tuple[str, ...] = ()
    every: bool = False
    """Whether each pair has to have the sign, not only their mean."""
    confidence: Level = "0.9"

    @property
    def policies(self) -> list[str]:
        """All it is about."""
        return list(dict.fromkeys(name for pair in self.pairs for name in (pair.base, pair.new) if name))


def percent(low: float, high: float | None = None) -> Range:
    """Differences in percent of the base."""
    return Range("percent", low, low if high is None else high)


def change(low: float, high: float) -> Range:
    """Differences in the unit of the metric."""
    return Range("change", low, high)


def value(low: float, high: float | None = None, slack: float | None = None) -> Range:
    """Values under the new policy."""
    return Range("value", low, low if high is None else high, slack)


def qos(new: str, base: str = "noqos", setups: Sequence[str] = SETUPS) -> tuple[Pair, ...]:
    """Two of QoS in the same setups."""
    return tuple(Pair(setup, f"{base}-{setup}", f"{new}-{setup}") for setup in setups)


def mux(*names: str, vc: Sequence[str] = ("svc", "svccache")) -> tuple[Pair, ...]:
    """From circuits per application to circuits per conversation."""
    return tuple(
        Pair(v if len(names) == 1 else f"{name} {v}", f"{name}-app-{v}", f"{name}-conv-{v}")
        for name in names
        for v in vc
    )


def router(*vc: str) -> tuple[Pair, ...]:
    """From circuits per conversation to circuits per router."""
    return tuple(Pair(v, f"noqos-conv-{v}", f"noqos-router-{v}") for v in vc or ("svc", "svccache"))


def cache(*names: str, mux: Sequence[str] = ("app", "conv")) -> tuple[Pair, ...]:
    """From circuits that are given back to those that are kept."""
    return tuple(
        Pair(m if len(names) == 1 else f"{name} {m}", f"{name}-{m}-svc", f"{name}-{m}-svccache")
        for name in names
        for m in mux
    )


def alone(*policies: str) -> tuple[Pair, ...]:
    """Policies beside none."""
    return tuple(Pair(policy, None, policy) for policy in policies)


def of(*words: str) -> tuple[str, ...]:
    """The metrics of users that have one of the words in their names."""
    return tuple(name for name in USERS if any(word in name for word in words))


def but(*words: str) -> tuple[str, ...]:
    """The metrics of users that have none of the words in their names."""
    return tuple(name for name in USERS if not any(word in name for word in words))
