"""INSANE W-1, W-2: the composite workload without a network and in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.insane_simulator_results import line
from layercast_lab.experiments.insane_study import made
from layercast_lab.insane import simulator, study
from layercast_lab.insane.study import Values
from layercast_lab.insane.workloads import PAPER, ask, span, whole
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

W1 = "INSANE W-1: the composite workload without a network"
SEEDS = 8
SECONDS = 4000
THEIRS = 16
"""Seeds behind the numbers of 5.3."""
WEST, EAST = slice(0, None, 2), slice(1, None, 2)
"""Sites take turns, so that popular servers do (specs/insane-simulator.md 2.9)."""
Offer = Mapping[str, Any]


@dataclass(frozen=True)
class Expected:
    """A line of 5.3: mean, least and most of 16 seeds; without a range, its mean alone."""

    name: str
    mean: float
    of: Callable[[Offer], float]
    low: float | None = None
    high: float | None = None
    unit: str = ""
    note: str = ""

    def reported(self) -> str:
        """As it is printed."""
        ends = "" if self.low is None else f" [{self.write(self.low)} to {self.write(self.high)}]"
        return f"{self.write(self.mean)}{ends} {self.unit}".rstrip()

    def write(self, value: float) -> str:
        """With three digits, or all before the point."""
        return whole(value) if self.mean >= 1000 else f"{value:.3g}"


def count(app: str, what: str) -> Callable[[Offer], float]:
    """Conversations, requests and so on."""
    return lambda one: one["apps"][app][what]


def record(app: str, name: str) -> Callable[[Offer], float]:
    """Files, pages."""
    return lambda one: one["apps"][app]["records"].get(name, 0)


def rate(app: str) -> Callable[[Offer], float]:
    """Payload, Mb/s."""
    return lambda one: one["apps"][app]["bytes"] * 8 / one["seconds"] / 1e6


def long_link(app: str, east: bool) -> Callable[[Offer], float]:
    """Payload from west to east or back, kb/s."""

    def of(one: Offer) -> float:
        matrix = np.array(one["apps"][app]["matrix"])
        part = matrix[WEST, EAST] if east else matrix[EAST, WEST]
        return part.sum() * 8 / one["seconds"] / 1e3

    return of


def circuits(sharing: str, what: str) -> Callable[[Offer], float]:
    """Of all circuits that would be set up."""
    return lambda one: one[sharing][what]


SHARED = "the specification does not say how long its files of FTP took"
EXPECTED = (
    Expected("telnet sessions", 2406, count("telnet", "conversations"), 2313, 2512),
    Expected("telnet keystrokes", 717_000, count("telnet", "requests"), 669_000, 763_000),
    Expected("FTP sessions", 1593, count("ftp", "conversations"), 1528, 1659),
    Expected("FTP files", 12_200, record("ftp", "ftp.file"), 11_200, 13_800),
    Expected("FTP", 0.99, rate("ftp"), 0.75, 1.27, "Mb/s"),
    Expected("HTTP pages", 16_600, record("http", "http.page"), 15_900, 17_600),
    Expected("HTTP files", 48_200, record("http", "http.item"), 45_600, 50_200),
    Expected("HTTP", 0.93, rate("http"), 0.86, 1.04, "Mb/s"),
    Expected("SMTP conversations", 6015, count("smtp", "conversations")),
    Expected("NNTP conversations", 107, count("nntp", "conversations")),
    Expected("SMTP", 0.020, rate("smtp"), unit="Mb/s"),
    Expected("NNTP", 0.17, rate("nntp"), 0.12, 0.26, "Mb/s"),
    Expected("audio conversations", 40, count("audio", "conversations")),
    Expected("video conversations", 40, count("video", "conversations")),
    Expected("long link west to east: FTP", 343, long_link("ftp", True), 208, 502, "kb/s"),
    Expected("long link west to east: HTTP", 320, long_link("http", True), 269, 374, "kb/s"),
    Expected("long link west to east: NNTP", 63, long_link("nntp", True), unit="kb/s"),
    Expected("long link west to east: SMTP", 6, long_link("smtp", True), unit="kb/s"),
    Expected("long link east to west: FTP", 243, long_link("ftp", False), 130, 333, "kb/s"),
    Expected("long link east to west: HTTP", 241, long_link("http", False), 203, 287, "kb/s"),
    Expected("long link east to west: NNTP", 43, long_link("nntp", False), unit="kb/s"),
    Expected("long link east to west: SMTP", 6, long_link("smtp", False), unit="kb/s"),
    Expected(
        "circuits, a pair per connection", 165_800, circuits("per_connection", "setups"), 159_500, 169_900
    ),
    Expected(
        "circuits, shared by application and hosts",
        71_000,
        circuits("per_application", "setups"),
        68_700,
        73_200,
    ),
    Expected(
        "most simultaneous circuits at a site, per connection",
        240,
        circuits("per_connection", "max_open"),
        234,
        246,
        note=SHARED,
    ),
    Expected(
        "most simultaneous circuits at a site, shared", 119, circuits("per_application", "max_open"), 112, 126
    ),
    Expected(
        "most in a second, per connection",
        31.5,
        circuits("per_connection", "peak_per_second"),
        29,
        34,
        note=SHARED,
    ),
    Expected("most in a second, shared", 12.5, circuits("per_application", "peak_per_second"), 12, 13),
)
THESIS = {"per_connection": 168_936, "per_application": 71_136}
LEAST = 0.05
"""How far a mean without a range may be; or two deviations of the difference, if that is more."""


@experiment("insane-workloads/w1", title=W1, paper=f"specs/insane-workloads.md 5.3; {PAPER}, table 3-2")
def w1(context: Context) -> Report:
    """As many runs as seeds over a network that is infinitely fast."""
    seconds = context.seconds or SECONDS
    found = run_all(context, "W-1, seeds", lambda seed: offered(seconds, seed), context.seed_range(SEEDS))
    rows = [row(one, found, context.seconds is None) for one in EXPECTED]
    return Report("insane-workloads/w1", W1, [*rows, *beside(found)], drawn(found, context.path("w1")))


def offered(seconds: float, seed: int) -> Offer:
    """What `layercast workload offered` counts."""
    return ask("offered", "--duration", f"{seconds:g}s", "--seed", seed)


def row(expected: Expected, found: Sequence[Offer], whole_length: bool) -> Row:
    """Our mean in the range of theirs."""
    values = [expected.of(one) for one in found]
    mean = float(np.mean(values))
    if expected.low is not None:
        low, high = expected.low, expected.high
        tolerance = "mean in the range"
    else:
        # Theirs scatter as ours do, and may be rounded to whole numbers.
        chance = float(np.std(values)) * np.sqrt(1 / len(values) + 1 / THEIRS)
        half = 0.5 if isinstance(expected.mean, int) else 0.0
        off = max(LEAST * expected.mean, 2 * chance, half)
        low, high = expected.mean - off, expected.mean + off
        tolerance = f"{off / expected.mean:.0%}"
    measured = f"{span(values, expected.write)} {expected.unit}".rstrip()
    verdict = judge(low <= mean <= high) if whole_length else "open"
    return Row(expected.name, expected.reported(), measured, tolerance, verdict, expected.note)


def beside(found: Sequence[Offer]) -> list[Row]:
    """Circuits beside those that the thesis counts in its network."""
    rows = []
    for sharing, reported in THESIS.items():
        mean = np.mean([one[sharing]["setups"] for one in found]) * SECONDS / found[0]["seconds"]
        told = f"{whole(mean)}, {mean / reported - 1:+.1%}"
        note = "its network, retransmissions and waits included"
        rows.append(
            Row(f"thesis: circuits {sharing.replace('_', ' ')}", whole(reported), told, "none", "open", note)
        )
    return rows


def drawn(found: Sequence[Offer], path: Path) -> str:
    """Every line, relative to what is expected."""
    figure, axis = plt.subplots(figsize=(9.2, 7.2))
    for place, one in enumerate(reversed(EXPECTED)):
        if one.low is not None:
            axis.barh(place, (one.high - one.low) / one.mean, 0.62, left=one.low / one.mean, color="#d0d5dd")
        values = [of / one.mean for of in map(one.of, found)]
        axis.plot(values, [place] * len(values), "o", color=COLOURS[1], ms=3, alpha=0.6)
        axis.plot(np.mean(values), place, "|", color=COLOURS[0], ms=11, mew=1.6)
    axis.axvline(1, color="black", lw=0.8, ls=":")
    axis.set_yticks(range(len(EXPECTED)), [one.name for one in reversed(EXPECTED)], fontsize=8)
    axis.set(
        xlabel="measured / expected; a dot for each seed, a bar for their mean, grey the range of 16 seeds"
    )
    axis.set_ylim(-0.7, len(EXPECTED) - 0.3)
    axis.grid(axis="y", visible=False)
    return style.save(figure, path)


W2 = "INSANE W-2: circuits of the composite workload in the simulator"
POLICIES = ("noqos-conv-svc", "noqos-app-svc")
RATIO = 0.421
"""Circuits shared by applications, of those of conversations (specs/insane-workloads.md 6)."""
TARGETS = [
    target
    for target in simulator.TARGETS
    if target.metrics[0] in ("requests", "peak requests", "most circuits")
    and set(target.policies) <= set(POLICIES)
]


@experiment("insane-workloads/w2", title=W2, paper=f"{PAPER}, chapters 5 and 6; specs/insane-simulator.md 5")
def w2(context: Context) -> Report:
    """What the campaign of the study has of these policies; what is missing is run first only with --full."""
    campaign = made(context, POLICIES, make=context.full)
    frame = campaign.frame()
    values = study.values(frame) if len(frame) else {}
    seconds = context.seconds or SECONDS
    seeds = context.seed_range(study.SEEDS)
    offers = run_all(context, "W-2, seeds", lambda seed: offered(seconds, seed), seeds)
    rows = [*(line(target, values) for target in TARGETS), ratio(values), *(waiting(values, offers))]
    path = circuits_drawn(values, offers, context.path("w2"))
    return Report("insane-workloads/w2", W2, rows, path, scenario=str(study.SCENARIO))


def ratio(values: Values) -> Row:
    """How much sharing saves."""
    conv, app = (values.get((policy, "requests"), []) for policy in POLICIES)
    name, told = "circuits asked for, app-svc / conv-svc", f"{RATIO}"
    if not conv or not app:
        return Row(name, told, "not run", "5 %", "missing")
    found = np.mean(app) / np.mean(conv)
    near = abs(found / RATIO - 1)
    return Row(name, told, f"{found:.3f}", "5 %", judge(near <= 0.05))


def waiting(values: Values, offers: Sequence[Offer]) -> list[Row]:
    """What the network adds to what would be set up without one."""
    rows = []
    for policy, sharing in zip(POLICIES, THESIS, strict=True):
        asked = values.get((policy, "requests"), [])
        without = np.mean([one[sharing]["setups"] for one in offers])
        told = f"{whole(np.mean(asked))}, {np.mean(asked) / without - 1:+.1%}" if asked else "not run"
        name = f"{policy}: beside none at all"
        rows.append(
            Row(name, whole(without), told, "none", "open" if asked else "missing", "without a network, ours")
        )
    return rows


def circuits_drawn(values: Values, offers: Sequence[Offer], path: Path) -> str:
    """Circuits of the thesis, of the simulator, and without a network."""
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    for place, (policy, sharing) in enumerate(zip(POLICIES, THESIS, strict=True)):
        bars = {
            "thesis": [THESIS[sharing]],
            "simulator": values.get((policy, "requests"), []),
            "no network": [one[sharing]["setups"] for one in offers],
        }
        for number, (name, runs) in enumerate(bars.items()):
            at, colour = place + 0.27 * (number - 1), (style.ACCENT, COLOURS[0], COLOURS[2])[number]
            axis.bar(at, np.mean(runs) if runs else 0, 0.25, color=colour, label=name if place == 0 else None)
            if runs:
                axis.plot([at] * len(runs), runs, ".", color="black", ms=4)
            else:
                axis.annotate("not run", (at, 0), rotation=90, ha="center", va="bottom", fontsize=8)
    axis.set_xticks(range(len(POLICIES)), POLICIES)
    axis.set_ylabel("circuits asked for in a run")
    axis.legend()
    axis.grid(axis="x", visible=False)
    return style.save(figure, path)
