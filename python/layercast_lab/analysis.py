"""What few runs say about a difference: exact, and without assuming how values are distributed.

Intervals are Mann and Whitney's for the shift between two sets of runs (specs/insane-study.md 3). Counts
are integers and probabilities fractions: with three runs against three, 90 % is the very edge.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, floor

Level = Fraction | float | str


@dataclass(frozen=True)
class Shift:
    """How far the values of one set lie from those of another, new less base."""

    estimate: float
    """Hodges and Lehmann's: the median of all differences."""
    low: float
    high: float
    """The interval that the confidence is for."""
    confidence: Fraction
    """What the interval really has, at least what was asked for."""

    @property
    def significant(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def quantile(values: Iterable[float], share: float) -> float:
    """The value that this share of all are below, interpolated linearly (type 7 of Hyndman and Fan)."""
    ordered = sorted(values)
    if not ordered or not 0 <= share <= 1:
        raise ValueError("a quantile needs values, and a share from 0 to 1")
    place = (len(ordered) - 1) * share
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Iterable[float]) -> float:
    """The value in the middle, or halfway between the two there."""
    return quantile(values, 0.5)


@functools.cache
def orders(n: int, m: int) -> tuple[int, ...]:
    """Of all orders of n and m different values, how many have U = 0, 1, ..., n * m.

    Mann and Whitney's U is the number of pairs in which the second value is the smaller one.
    """
    if n == 0 or m == 0:
        return (1,)
    counts = [0] * (n * m + 1)
    # The largest value is one of the first, or one of the second and before none of them.
    for u, count in enumerate(orders(n - 1, m)):
        counts[u + m] += count
    for u, count in enumerate(orders(n, m - 1)):
        counts[u] += count
    return tuple(counts)


def exact(level: Level) -> Fraction:
    """0.9 as nine tenths, not as the binary number that is nearest."""
    found = Fraction(str(level)) if isinstance(level, float) else Fraction(level)
    if not 0 < found < 1:
        raise ValueError(f"a confidence is between 0 and 1, not {level}")
    return found


def attainable(n: int, m: int) -> Fraction:
    """The highest confidence that these numbers of runs allow."""
    return 1 - Fraction(2, comb(n + m, n))


def shift(base: Sequence[float], new: Sequence[float], confidence: Level = Fraction(9, 10)) -> Shift:
    """The interval of the shift from `base` to `new`, by Mann and Whitney's U.

    With ties it has at least the requested confidence, and may be of no width. Raises ValueError if
    the values are too few for that confidence.
    """
    n, m, wanted = len(base), len(new), exact(confidence)
    if not n or not m or attainable(n, m) < wanted:
        most = f"{float(attainable(n, m)):.4g}" if n and m else "none"
        raise ValueError(f"{float(wanted):g} is not attainable with {n}+{m} values: at most {most} is")
    return interval([b - a for a in base for b in new], orders(n, m), wanted)


def interval(values: Sequence[float], counts: Sequence[int], wanted: Fraction) -> Shift:
    """The middle of the values, given the numbers of equally probable cases with 0, 1, ... above zero."""
    ordered, everything, tail, cut = sorted(values), sum(counts), 0, 0
    # The largest cut with P(cut - 1 or fewer) <= alpha / 2.
    while 2 * (tail + counts[cut]) <= (1 - wanted) * everything:
        tail += counts[cut]
        cut += 1
    attained = 1 - Fraction(2 * tail, everything)
    return Shift(median(ordered), ordered[cut - 1], ordered[len(ordered) - cut], attained)


@functools.cache
def signs(n: int) -> tuple[int, ...]:
    """Of all ways to choose from 1, 2, ..., n, how many have the sum 0, 1, ..., n * (n + 1) / 2."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = [0] * rank + counts
        for total, count in enumerate(counts):
            longer[total] += count
        counts = longer
    return tuple(counts)


def paired_shift(base: Sequence[float], new: Sequence[float], confidence: Level = Fraction(9, 10)) -> Shift:
    """`shift` of values that belong together two by two, such as runs of the same seeds.

    What the seeds have in common drops out; 90 % takes five pairs. The interval is that of Wilcoxon's signed
    ranks and assumes that differences lie symmetrically about the shift.
    """
    wanted, differences = exact(confidence), [b - a for a, b in zip(base, new, strict=True)]
    attained = 1 - Fraction(2, 2 ** len(differences))
    if attained < wanted:
        most = f"{float(attained):.4g}" if len(differences) > 1 else "none"
        raise ValueError(f"{float(wanted):g} is not attainable with {len(base)} pairs: at most {most} is")
    means = [(a + b) / 2 for i, a in enumerate(differences) for b in differences[i:]]
    return interval(means, signs(len(differences)), wanted)


def separated(base: Sequence[float], new: Sequence[float]) -> int:
    """1 if all of `new` is above all of `base`, -1 if below, 0 if they overlap.

    With three runs against three this, and nothing less, is significant at 90 %.
    """
    if not base or not new:
        return 0
    return int(min(new) > max(base)) - int(max(new) < min(base))


def p_value(base: Sequence[float], new: Sequence[float]) -> Fraction:
    """How probable a U as far from its mean as this, or farther, is if both are of one distribution.

    Of ties each gets the mean of their ranks; all choices of `base` from all values are equally probable.
    """
    n, m = len(base), len(new)
    if not n or not m:
        raise ValueError("a test needs values of both")
    # Twice the ranks, which are whole numbers even of ties.
    times, ranks, below = Counter([*base, *new]), {}, 0
    for value in sorted(times):
        ranks[value] = 2 * below + times[value] + 1
        below += times[value]
    sums: list[Counter[int]] = [Counter({0: 1})] + [Counter() for _ in range(n)]
    for value in [*base, *new]:
        for chosen in range(n - 1, -1, -1):
            for total, count in sums[chosen].items():
                sums[chosen + 1][total + ranks[value]] += count
    mean = n * (n + m + 1)
    found = abs(sum(ranks[value] for value in base) - mean)
    as_far = sum(count for total, count in sums[n].items() if abs(total - mean) >= found)
    return Fraction(as_far, comb(n + m, n))


def false_discovery(p_values: Sequence[Fraction | float]) -> list[float]:
    """Benjamini and Hochberg's q of each p: the share of false ones among all that are no less striking."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__, reverse=True)
    found, least = [0.0] * len(p_values), 1.0
    for rank, place in zip(range(len(order), 0, -1), order, strict=True):
        least = min(least, float(p_values[place] * len(order) / rank))
        found[place] = least
    return found
