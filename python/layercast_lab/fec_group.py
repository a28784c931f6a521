"""Models of FEC beside the multicast simulator: what its machines send for each packet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from layercast_lab import group
from layercast_lab.experiment import Context, Row, judge
from layercast_lab.simulator import run_all

Job = TypeVar("Job")
Star = tuple[tuple[int, int], float, int]
"""A code, a loss rate, receivers."""


def packets(context: Context, all_of_them: int) -> int:
    """Packets of a run: a fifth of them in short runs, ten times as many with --full."""
    return all_of_them // 5 if context.seconds else 10 * all_of_them if context.full else all_of_them


def stars(context: Context, what: str, jobs: Sequence[Star]) -> list[float]:
    """Packets sent for each source packet to stars, by RMTP above a code."""
    count = packets(context, 4_200)
    return run_all(context, f"{what}, simulated", lambda job: group.coded(*job, count), jobs)


def trees(
    context: Context, what: str, function: Callable[[Job], list[group.Branch]], jobs: Sequence[Job]
) -> list[float]:
    """Transmissions by RMTP to the trees that `function` makes of the jobs."""
    count = packets(context, 4_000)
    return run_all(context, f"{what}, simulated", lambda job: group.transmissions(function(job), count), jobs)


def row(context: Context, found: Sequence[float], told: Sequence[float], what: str) -> Row:
    """How far simulated points are from the model."""
    off = [one / other - 1 for one, other in zip(found, told, strict=True)]
    worst = max(off, key=abs)
    # A fifth of the packets scatter more than twice as much, and fill fewer blocks.
    tolerance = 0.06 if context.seconds else 0.02
    return Row(
        f"simulated, {len(found)} points",
        "the model",
        f"at most {100 * worst:+.2f} % off",
        f"{tolerance:.0%}",
        judge(abs(worst) <= tolerance),
        what,
    )
