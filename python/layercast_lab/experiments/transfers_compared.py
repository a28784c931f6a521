"""TCP beside XTP over ATM, sections 4.3 and 4.4: the same load, short links, background in bursts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.transfers_alike import (
    BOTH,
    LOADS,
    PAPER,
    SPEC,
    USUAL_S,
    Sweep,
    ceiling,
    confidence,
    curve,
    draw,
    of,
    percents,
    save_scenario,
    sweep,
    usual,
)
from layercast_lab.transfers import NAMES, Setup

KINDS = ("tcp", "gbn", "sr")
TITLES = {
    "e3": "TCP beside XTP",
    "e4": "TCP and XTP over 10 km",
    "e5": "Background of fast bursts",
    "e6": "Background of slow bursts",
}
MEASURED_S = {"poisson": USUAL_S, "fast": USUAL_S, "slow": 170}
"""Seconds of runs by background: 350 of the fast bursts, 200 of the slow."""


def compared(context: Context, background: str) -> Sweep:
    """All three with both MPS."""
    lines = {
        (kind, mps, window, background): usual(kind, mps, background=background)
        for kind in KINDS
        for mps, window in BOTH
    }
    return sweep(context, background, lines, MEASURED_S[background])


def pick(found: Sweep, mps: int, window: int, background: str, what: str = "goodput") -> list[np.ndarray]:
    """TCP, go-back-n, selective."""
    return [of(found, (kind, mps, window, background), what) for kind in KINDS]


def beside(values: Sequence[np.ndarray], digits: int = 1) -> str:
    """The three, one after the other."""
    return "; ".join(
        f"{kind} {curve(one, digits)}" for kind, one in zip(("TCP", "GBN", "SR"), values, strict=True)
    )


@experiment(f"{SPEC}/e3", title=TITLES["e3"], paper=f"{PAPER}, section 4.3")
def e3(context: Context) -> Report:
    """What the authors conclude of Figures 2 and 3."""
    found = compared(context, "poisson")
    rows = []
    for mps, window in BOTH:
        tcp, back, selective = pick(found, mps, window, "poisson")
        waste = pick(found, mps, window, "poisson", "efficiency")
        rows += [
            Row(
                f"A10 goodput, MPS {mps}",
                "TCP slightly above go-back-n",
                beside((tcp, back, selective)),
                "not less than 95 % at any load from 40 on",
                judge(bool(np.all(tcp[2:] >= 0.95 * back[2:]))),
            ),
            Row(
                f"A10 efficiency, MPS {mps}",
                "that of TCP always far above XTP's",
                beside(waste, 2),
                "more than both from 40 on",
                judge(
                    bool(np.all(waste[0][2:] > np.maximum(waste[1], waste[2])[2:])),
                ),
            ),
            Row(
                f"A11 goodput, MPS {mps}",
                "selective at least TCP, above go-back-n" + (" (minimal margin)" if mps > 5_000 else ""),
                beside((tcp, back, selective)),
                "95 % of TCP at every load, above go-back-n from 40 on",
                judge(
                    bool(np.all(selective >= 0.95 * tcp) and np.all(selective[2:] > back[2:])),
                ),
            ),
        ]
    large, small = (pick(found, *pair, "poisson") for pair in BOTH)
    wastes = [pick(found, *pair, "poisson", "efficiency")[0] for pair in BOTH]
    rows.append(
        Row(
            "A12 TCP with large packets",
            "efficiency significantly worse, goodput about equal",
            f"efficiency {curve(wastes[0], 2)} beside {curve(wastes[1], 2)}; "
            f"goodput {percents(large[0] / small[0] - 1)}",
            "0.05 less from 60 on; goodput within 15 % at every load",
            judge(
                bool(
                    np.all(wastes[1][3:] - wastes[0][3:] >= 0.05)
                    and np.all(np.abs(large[0] / small[0] - 1) <= 0.15)
                ),
            ),
        )
    )
    for number in (1, 2):
        change = large[number] / small[number] - 1
        rows.append(
            Row(
                f"A12 {NAMES[KINDS[number]]} with large packets",
                "goodput is up",
                f"{percents(change)}: {curve(large[number])} beside {curve(small[number])}",
                "more at every load from 40 on",
                judge(bool(np.all(change[2:] > 0))),
            )
        )
    spread = max(
        float(np.abs(one[2:] / two[2:] - 1).max())
        for pair in BOTH
        for one, two in [(pick(found, *pair, "poisson")[0], pick(found, *pair, "poisson")[2])]
    )
    rows.append(
        Row(
            "A25 goodput of TCP and selective XTP, 40 to 100",
            "the two protocols differ little, except if mixed",
            f"within {spread:.0%} at every load",
            "30 % at every load",
            judge(spread <= 0.3),
        )
    )
    return report(context, "e3", rows, found, "poisson")


@experiment(f"{SPEC}/e4", title=TITLES["e4"], paper=f"{PAPER}, section 4.3")
def e4(context: Context) -> Report:
    """Links of 10 km, where a window of one packet is the right one."""
    lines = {
        (kind, 9_140, window): {
            "protocols": (kind,) * 3,
            "windows": (window,),
            "lengths_km": (10,),
        }
        for kind in KINDS
        for window in (1, 2, 6)
    }
    found = sweep(context, "10 km", lines)
    rows = []
    for kind in KINDS:
        goodput, efficiency = (of(found, (kind, 9_140, 1), what) for what in ("goodput", "efficiency"))
        share = [value / ceiling(9_140, load) for value, load in zip(goodput, LOADS, strict=True)]
        rows.append(
            Row(
                f"A13 {NAMES[kind]}, stop and wait (window 1)",
                "good goodput and efficiency" + ("" if kind == "tcp" else ": very high"),
                f"{curve(goodput)} Mbit/s, {curve(100 * np.array(share), 0)} % of what is left; "
                f"efficiency {curve(efficiency, 2)}",
                "efficiency 0.98 and 85 % of what is left, to 60",
                judge(
                    bool(np.all(efficiency[:4] >= 0.98) and min(share[:4]) >= 0.85),
                ),
            )
        )
        wide = of(found, (kind, 9_140, 6), "efficiency")
        rows.append(
            Row(
                f"A13 {NAMES[kind]}, window 6 instead of 1",
                "both must act almost as stop and wait",
                f"efficiency {curve(wide, 2)}; goodput {curve(of(found, (kind, 9_140, 6)))}",
                "below 0.9 at every load",
                judge(bool(np.all(wide < 0.9))),
            )
        )
    known = {"tcp": (32.6, 23.2), "gbn": (25.2, 21.0), "sr": (25.3, 20.9)}
    for kind, pair in known.items():
        here = [of(found, (kind, 9_140, window))[2] for window in (2, 6)]
        rows.append(
            Row(
                f"{NAMES[kind]}, windows 2 and 6, background 40: the specification's prototype",
                f"{pair[0]} and {pair[1]} Mbit/s",
                f"{here[0]:.1f} and {here[1]:.1f} Mbit/s",
                "within 15 %",
                judge(
                    all(abs(a / b - 1) <= 0.15 for a, b in zip(here, pair, strict=True)),
                ),
            )
        )
    rows.append(confidence(context, found))
    panels = {
        f"window {window}": {NAMES[kind]: (kind, 9_140, window) for kind in KINDS} for window in (1, 2, 6)
    }
    path = draw(panels, found, context.path("e4"))
    setup = Setup(("sr",) * 3, 9_140, (1,), (10,), load=40)
    return Report(f"{SPEC}/e4", TITLES["e4"], rows, path, scenario=save_scenario(context, setup, "e4"))


KNOWN: dict[str, dict[tuple[str, int], tuple[float, ...]]] = {
    "fast": {
        ("tcp", 9_140): (40.5, 37.9, 21.2, 15.4, 10.0, 3.1),
        ("gbn", 9_140): (41.1, 37.9, 20.9, 14.8, 11.8, 4.6),
        ("sr", 9_140): (41.1, 37.9, 22.1, 16.0, 11.6, 4.4),
    },
    "slow": {
        ("tcp", 9_140): (40.5, 37.8, 23.9, 21.3, 15.3, 8.4),
        ("gbn", 9_140): (41.1, 37.6, 23.6, 18.6, 14.7, 5.9),
        ("sr", 9_140): (41.1, 37.6, 24.3, 19.7, 14.9, 4.9),
    },
}
"""Goodput at LOADS in the prototype of the specification."""


def bursty(context: Context, background: str) -> tuple[Sweep, list[Row]]:
    """What both experiments with bursts ask."""
    found = compared(context, background)
    rows = []
    for mps, window in BOTH:
        waste = pick(found, mps, window, background, "efficiency")
        rows.append(
            Row(
                f"A14 efficiency, MPS {mps}",
                "TCP better than XTP",
                beside(waste, 2),
                "more than both from 40 to 80",
                judge(
                    bool(np.all(waste[0][2:5] > np.maximum(waste[1], waste[2])[2:5])),
                ),
            )
        )
        tcp, back, selective = pick(found, mps, window, background)
        rows.append(
            Row(
                f"{'A14' if background == 'fast' else 'A16'} goodput, MPS {mps}, to 80",
                "comparable" if background == "fast" else "about equal, also at high load",
                beside((tcp, back, selective)),
                "TCP within 25 % of the mean of both",
                judge(
                    bool(np.all(np.abs(tcp / ((back + selective) / 2) - 1)[:5] <= 0.25)),
                ),
            )
        )
    poisson = compared(context, "poisson")
    for kind in KINDS:
        for what in ("goodput", "efficiency"):
            line = (kind, *BOTH[0])
            here, there = of(found, (*line, background), what), of(poisson, (*line, "poisson"), what)
            digits = 1 if what == "goodput" else 2
            rows.append(
                Row(
                    f"A17 {what}, {NAMES[kind]}, MPS 9140",
                    "more than with messages of the same load",
                    f"{curve(here, digits)} beside {curve(there, digits)}",
                    "at 60 and at 80",
                    judge(bool(np.all(here[3:5] > there[3:5]))),
                )
            )
    for (kind, mps), known in KNOWN[background].items():
        here = of(found, (kind, mps, dict(BOTH)[mps], background))
        off = here / np.array(known) - 1
        rows.append(
            Row(
                f"{NAMES[kind]}, {mps}: the specification's prototype",
                f"{curve(known)} Mbit/s",
                f"{curve(here)} Mbit/s",
                "each within 15 % to 80",
                judge(bool(np.all(np.abs(off[:5]) <= 0.15))),
            )
        )
    return found, rows


@experiment(f"{SPEC}/e5", title=TITLES["e5"], paper=f"{PAPER}, Figure 4")
def e5(context: Context) -> Report:
    """ON and OFF for 57 and 28 ms in the mean."""
    found, rows = bursty(context, "fast")
    for mps, window in BOTH:
        tcp, back, selective = pick(found, mps, window, "fast")
        rows.append(
            Row(
                f"A14 goodput, MPS {mps}, background 100",
                "TCP falls below XTP: its window grows slowly",
                beside([one[5:] for one in (tcp, back, selective)]),
                "less than both",
                judge(bool(tcp[5] < min(back[5], selective[5]))),
            )
        )
    return report(context, "e5", rows, found, "fast")


@experiment(f"{SPEC}/e6", title=TITLES["e6"], paper=f"{PAPER}, Figure 5")
def e6(context: Context) -> Report:
    """ON and OFF for 565 and 283 ms in the mean."""
    found, rows = bursty(context, "slow")
    fast = compared(context, "fast")
    for kind in KINDS:
        lines: list[tuple[Any, ...]] = [(kind, *BOTH[0], background) for background in ("slow", "fast")]
        here, there = of(found, lines[0]), of(fast, lines[1])
        rows.append(
            Row(
                f"A15 {NAMES[kind]}, MPS 9140, slow beside fast",
                "better with slow bursts",
                f"{curve(here)} beside {curve(there)} Mbit/s",
                "at every load from 40 on",
                judge(bool(np.all(here[2:] > there[2:]))),
            )
        )
    return report(context, "e6", rows, found, "slow")


def report(context: Context, name: str, rows: list[Row], found: Sweep, background: str) -> Report:
    """With a panel for each MPS."""
    panels = {
        f"{mps} bytes, window {window}": {NAMES[kind]: (kind, mps, window, background) for kind in KINDS}
        for mps, window in BOTH
    }
    rows.append(confidence(context, found))
    path = draw(panels, found, context.path(name))
    setup = Setup(background=background, load=60)
    return Report(f"{SPEC}/{name}", TITLES[name], rows, path, scenario=save_scenario(context, setup, name))
