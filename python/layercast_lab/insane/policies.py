"""The names of policies: <qos>-<mux>-<vc>, and which of them are (specs/insane-study.md 2.1)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import product

SCHEDULERS = ("sp", "wc", "nwc")
APPLICATIONS = ("telnet", "ftp", "http", "audio", "video", "isp", "av", "qos1")
QOS = ("noqos", *(f"{scheduler}-{which}" for scheduler in SCHEDULERS for which in APPLICATIONS))
MUX = ("conv", "app", "router")
VC = ("pvc", "svc", "svccache")
SETUPS = ("app-svc", "app-svccache", "conv-svc", "conv-svccache")
"""Ways to share and keep circuits that every QoS has."""
RULES = {
    "R1": "circuits between routers (router) carry everything, and no contract fits that: only with noqos",
    "R2": "permanent circuits (pvc) between all hosts are too many: only with router",
}
NEAREST = 3


class PolicyError(ValueError):
    """A name that is no policy; the text says why, and what was perhaps meant."""


def broken(qos: str, mux: str, vc: str) -> str | None:
    """The rule that a combination breaks."""
    if mux == "router" and qos != "noqos":
        return "R1"
    if vc == "pvc" and mux != "router":
        return "R2"
    return None


def every() -> list[str]:
    """All 103."""
    return ["-".join(parts) for parts in product(QOS, MUX, VC) if broken(*parts) is None]


def parts(policy: str) -> tuple[str, str, str]:
    """QoS, multiplexing and management of circuits of a name."""
    qos, mux, vc = policy.rsplit("-", 2)
    return qos, mux, vc


def modern(name: str) -> str:
    """A name or pattern as it is spelled today, not sp-noqos-*, noqos-*-pvc-router, or qosl for qos1."""
    words = [{"qosl": "qos1", "nogos": "noqos"}.get(word, word) for word in name.split("-")]
    if words[:2] == ["sp", "noqos"]:
        del words[0]
    if words[:2] == ["noqos", "*"] and len(words) == 4:
        del words[1]
    if len(words) >= 3 and words[-1] == "router" and words[-2] in VC:
        words[-2:] = words[:-3:-1]
    return "-".join(words)


def policy(name: str) -> str:
    """A name, or an old spelling of it, as a policy; raises PolicyError."""
    found = modern(name)
    if found in every():
        return found
    words = found.rsplit("-", 2)
    why = "a name is <qos>-<mux>-<vc>"
    if len(words) == 3:
        known = (("QoS", QOS), ("multiplexing", MUX), ("management of circuits", VC))
        unknown = [
            (word, what, all) for word, (what, all) in zip(words, known, strict=True) if word not in all
        ]
        if unknown:
            word, what, there = unknown[0]
            why = f"{word!r} is no {what}; there are {', '.join(there)}"
        elif rule := broken(*words):
            why = f"rule {rule}: {RULES[rule]}"
    raise PolicyError(f"policy {name!r}: {why}; nearest: {', '.join(nearest(found))}")


def nearest(name: str) -> list[str]:
    """Policies with names like this."""
    return difflib.get_close_matches(name, every(), NEAREST, 0)


def select(patterns: Iterable[str] | None) -> list[str]:
    """The policies that match one of the patterns, such as "sp-*-*-svccache"; all without any.

    A name without * or ? has to be one. Raises PolicyError for what matches none.
    """
    wanted: Sequence[str] = [modern(pattern) for pattern in patterns or ()] or ["*"]
    for pattern in wanted:
        if not any(sign in pattern for sign in "*?["):
            policy(pattern)
        elif not any(fnmatchcase(name, pattern) for name in every()):
            raise PolicyError(f"no policy is like {pattern!r}; nearest: {', '.join(nearest(pattern))}")
    return [name for name in every() if any(fnmatchcase(name, pattern) for pattern in wanted)]
