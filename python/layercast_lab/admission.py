"""Studies of admission control (crate `layercast-admission`), run from Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from layercast import _layercast
from layercast_lab.experiment import Context
from layercast_lab.simulator import run_all

PAPER = (
    "C. Casetti, J. Kurose, D. Towsley, A new algorithm for measurement-based admission control, PfHSN 1996"
)
HOURS = 43_200.0
"""Twelve hours, the commitment period of the paper, in seconds."""
TARGETS = (0.01, 0.05, 0.1, 0.2, 1.0, 2.0)
"""Late bits that are promised, percent."""
FIXED, RANDOM = {"fixed": 64e3}, {"exponential": 64e3}
"""Peak rates: all 64 kbit/s, or exponential with this mean."""

Found = list[dict[str, Any]]


def ask(what: str, **question: Any) -> Any:
    """The answer of the crate to `run`, `token-rate`, `loss`, `policing`: crates/python/src/admission.rs.

    >>> round(ask("token-rate", points=[(64e3, 0.3125, 0.3125, 4e3, 1e-6)])[0])
    62732
    """
    return json.loads(_layercast.admission_json(json.dumps({"ask": what, **question})))


def jdsz(window: float, utilisation: float = 95.0, bound_ms: float | None = 16.0) -> dict[str, Any]:
    """The algorithm of Jamin, Danzig, Shenker and Zhang."""
    return {"kind": "jdsz", "window_s": window, "utilisation": utilisation, "bound_ms": bound_ms}


def levels(
    trigger: float = 9e6, up: float = 1e4, down: float = 5e4, first: float = 1.0, **other: Any
) -> dict[str, Any]:
    """The algorithm of the paper: trigger and its steps in bit/s, first window in seconds."""
    return {
        "kind": "levels",
        "trigger_bps": trigger,
        "raise_bps": up,
        "lower_bps": down,
        "first_s": first,
        "now": "since_expiry",
        "anti_windup": False,
    } | other


def runs(
    context: Context,
    what: str,
    settings: Sequence[dict[str, Any]],
    *,
    seconds: float = HOURS,
    seeds: int = 6,
) -> list[Found]:
    """The runs of each setting, one for each seed."""
    length = context.seconds or seconds
    numbers = context.seed_range(seeds)
    jobs = [base | {"seconds": length, "seed": seed} for base in settings for seed in numbers]
    found = run_all(context, what, lambda job: ask("run", settings=[job])[0], jobs)
    return [found[at : at + len(numbers)] for at in range(0, len(found), len(numbers))]


def mean(found: Found, key: str) -> float:
    """Mean of a figure over the runs."""
    return float(np.mean([run[key] for run in found]))


def spread(found: Found, key: str) -> float:
    """Standard deviation of a figure over the runs."""
    return float(np.std([run[key] for run in found]))


def ratio(found: Found) -> float:
    """Admitted calls per refused call, percent."""
    admitted, rejected = (sum(run[key] for run in found) for key in ("admitted", "rejected"))
    return 100 * admitted / max(rejected, 1)


def share(found: Found) -> float:
    """Admitted calls per call that asked, percent."""
    admitted, offered = (sum(run[key] for run in found) for key in ("admitted", "offered"))
    return 100 * admitted / max(offered, 1)


def summary(found: Found) -> str:
    """Window, admitted calls, late bits and utilisation, as a row has them."""
    return (
        f"W {mean(found, 'window_s'):.2f} s, admitted {ratio(found):.1f} % of the refused"
        f" ({share(found):.1f} % of the offered), late {mean(found, 'late'):.4f}"
        f" ± {spread(found, 'late'):.4f} %,"
        f" utilisation {mean(found, 'utilisation'):.2f} ± {spread(found, 'utilisation'):.2f} %"
    )


def falls(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether each value is at most the one before."""
    return all(after <= before + slack for before, after in pairwise(values))


def rises(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether each value is at least the one before."""
    return falls([-value for value in values], slack)
