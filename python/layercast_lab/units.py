"""Numbers with their units as people write them."""

from __future__ import annotations

import re

PREFIXED = {
    "s": [(1, "s"), (1e-3, "ms"), (1e-6, "us")],
    "bit/s": [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")],
    "B": [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")],
}


def scale(most: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the unit after that, so that `most` is a handy number."""
    steps = PREFIXED.get(unit, [(1, unit)])
    return next((step for step in steps if abs(most) >= step[0]), steps[-1] if most else (1, unit))


def number(text: object) -> tuple[float, str] | None:
    """ "50 packets" as (50, "packets"), 0.1 as (0.1, ""); None of what does not begin with a number."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text), ""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?(?:e-?\d+)?) ?([^\d(]*)", str(text))
    return (float(found[1]), found[2]) if found else None
