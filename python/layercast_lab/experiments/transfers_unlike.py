"""TCP and XTP over ATM, Figures 6 to 8: 10, 100 and 1000 km together, and both protocols together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.transfers_alike import (
    LOADS,
    PAPER,
    SPEC,
    Line,
    Sweep,
    confidence,
    curve,
    of,
    save_scenario,
    sweep,
)
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.style import plt
from layercast_lab.transfers import NAMES, Setup

LENGTHS = (10, 100, 1_000)
WINDOW_SETS = ((48, 48, 48), (2, 5, 48), (6, 10, 48))
TITLES = {
    "e7": "XTP over 10, 100 and 1000 km together",
    "e8": "TCP over 10, 100 and 1000 km together",
    "e9": "TCP and XTP together",
}


def by_length(found: Sweep, line: Line, what: str = "goodput") -> np.ndarray:
    """A row for each length, by load."""
    return np.array([of(found, line, what, slice(n, n + 1)) for n in range(len(LENGTHS))])


def told(values: np.ndarray, at: Sequence[int], digits: int = 1) -> str:
    """The three lengths at each of these loads."""
    return ", ".join(
        f"{load}: " + "/".join(f"{value:.{digits}f}" for value in values[:, LOADS.index(load)]) for load in at
    )


def together(context: Context, protocol: str, windows: Sequence[tuple[int, ...]]) -> Sweep:
    """One of each length, 1142 bytes, shaped and not."""
    lines: dict[Line, dict[str, object]] = {
        (protocol, window, shaped): {
            "protocols": (protocol,) * 3,
            "mps": 1_142,
            "windows": window,
            "lengths_km": LENGTHS,
            "shaped": shaped,
        }
        for window in windows
        for shaped in (False, True)
    }
    return sweep(context, NAMES[protocol], lines)


@experiment(f"{SPEC}/e7", title=TITLES["e7"], paper=f"{PAPER}, Figure 6")
def e7(context: Context) -> Report:
    """XTP with the same window over all distances."""
    window = (48, 48, 48)
    found = together(context, "gbn", [window]) | together(context, "sr", [window])
    rows = []
    shaped = {kind: by_length(found, (kind, window, True)) for kind in ("gbn", "sr")}
    for kind, goodput in shaped.items():
        loaded = goodput[:, 2:].mean(axis=1)
        gaps = loaded[0] - loaded[1], loaded[1] - loaded[2]
        rows.append(
            Row(
                f"A18 {NAMES[kind]}, shaped",
                "1000 km worst; from 100 to 1000 km far more than from 10 to 100",
                f"Mbit/s at {told(goodput, (20, 40, 60, 100))}",
                "least at 1000 km from 40 on; the gap 3 times as large",
                judge(
                    bool(np.all(goodput[2, 2:] < goodput[:2, 2:].min(axis=0))) and gaps[1] > 3 * abs(gaps[0]),
                ),
            )
        )
    sums = {kind: goodput.sum(axis=0) for kind, goodput in shaped.items()}
    rows.append(
        Row(
            "A18 selective beside go-back-n, shaped",
            "better",
            f"{curve(sums['sr'])} beside {curve(sums['gbn'])} Mbit/s together",
            "from 40 on",
            judge(bool(np.all(sums["sr"][2:] > sums["gbn"][2:]))),
        )
    )
    for kind in ("gbn", "sr"):
        free = by_length(found, (kind, window, False))
        rows.append(
            Row(
                f"A19 {NAMES[kind]}, unshaped",
                "puzzling: the shortest very poor at low load",
                f"Mbit/s at {told(free, (0, 20, 40, 60))}",
                "10 km below half of the best at 0 or 20",
                judge(bool(np.any(free[0, :2] < 0.5 * free[:, :2].max(axis=0)))),
            )
        )
        waste = of(found, (kind, window, False), "efficiency")
        rows.append(
            Row(
                f"A20 efficiency, {NAMES[kind]}, unshaped",
                "drops drastically as soon as there is background",
                curve(waste, 2),
                "a fifth less at 40 than at 0",
                judge(waste[2] <= 0.8 * waste[0]),
            )
        )
    known = {"gbn": (19.2, 18.2, 6.7), "sr": (34.6, 33.9, 10.4)}
    for kind, expected in known.items():
        here = shaped[kind][:, 2]
        rows.append(prototype(f"{NAMES[kind]}, shaped, background 40", here, expected))
    rows.append(confidence(context, found))
    titles = {
        (kind, window, which): name(NAMES[kind], which) for kind in ("gbn", "sr") for which in (False, True)
    }
    path = draw(found, titles, context.path("e7"))
    setup = Setup(("sr",) * 3, 1_142, window, LENGTHS, load=40, shaped=True)
    return Report(f"{SPEC}/e7", TITLES["e7"], rows, path, scenario=save_scenario(context, setup, "e7"))


def name(what: str, shaped: bool) -> str:
    """Title of a panel."""
    return what + (", shaped" if shaped else "")


def prototype(what: str, here: np.ndarray, expected: Sequence[float]) -> Row:
    """Beside the other simulator: one of each length."""
    off = np.abs(here / np.array(expected) - 1)
    return Row(
        f"{what}: the specification's prototype",
        "/".join(f"{value:g}" for value in expected) + " Mbit/s",
        "/".join(f"{value:.1f}" for value in here) + " Mbit/s",
        "each within 15 %, or 1.5 Mbit/s",
        judge(
            bool(np.all((off <= 0.15) | (np.abs(here - np.array(expected)) <= 1.5))),
        ),
    )


@experiment(f"{SPEC}/e8", title=TITLES["e8"], paper=f"{PAPER}, Figure 7")
def e8(context: Context) -> Report:
    """TCP with windows that suit the distance, and without."""
    found = together(context, "tcp", WINDOW_SETS)
    alike, suited, larger = WINDOW_SETS
    free, shaped = (by_length(found, ("tcp", alike, which)) for which in (False, True))
    share = free[2] / free.sum(axis=0)
    rows = [
        Row(
            "A21 48-48-48, unshaped",
            "strong bias against 1000 km, less as the background grows",
            f"Mbit/s at {told(free, (0, 20, 40, 60, 100))}; at 1000 km {curve(100 * share, 1)} % of all",
            "a seventh at most at 0 and 20; more at 60 than at 0",
            judge(bool(np.all(share[:2] <= 1 / 7) and share[3] > share[0])),
        ),
        Row(
            "A21 48-48-48, shaped",
            "shaping reduces it",
            f"Mbit/s at {told(shaped, (0, 20, 60, 100))}",
            "1000 km gets more at 0 and 20",
            judge(bool(np.all(shaped[2, :2] > free[2, :2]))),
        ),
    ]
    free, shaped = (by_length(found, ("tcp", suited, which)) for which in (False, True))
    spread = [values.max(axis=0) / values.min(axis=0) for values in (free, shaped)]
    rows += [
        Row(
            "A22 2-5-48, unshaped",
            "the order is reversed: the longest gets most",
            f"Mbit/s at {told(free, (0, 20, 60, 100))}",
            "most at 1000 km at 40 and 60",
            judge(
                bool(np.all(free[2, 2:4] > free[:2, 2:4].max(axis=0))),
            ),
        ),
        Row(
            "A22 2-5-48, shaped",
            "fairer",
            f"most over least {curve(spread[1], 2)} instead of {curve(spread[0], 2)}",
            "less at every load",
            judge(bool(np.all(spread[1] < spread[0]))),
        ),
    ]
    free = by_length(found, ("tcp", larger, False))
    spread = free.max(axis=0) / free.min(axis=0)
    rows.append(
        Row(
            "A23 6-10-48, unshaped",
            "near-fair over a limited range of loads only",
            f"most over least {curve(spread, 2)}; Mbit/s at {told(free, (0, 20, 60, 80))}",
            "below 1.3 at some loads, above 2 at others",
            judge(bool(spread.min() < 1.3 and spread.max() > 2)),
        )
    )
    for window, which, load, expected in (
        (alike, False, 0, (76, 20.9, 1.1)),
        (alike, True, 20, (38.8, 38.0, 13.7)),
        (suited, False, 60, (16.1, 22.1, 39.5)),
        (larger, False, 20, (36.0, 37.7, 38.4)),
        (larger, False, 80, (27.4, 27.2, 4.5)),
    ):
        here = by_length(found, ("tcp", window, which))[:, LOADS.index(load)]
        label = "-".join(str(one) for one in window) + (", shaped" if which else "")
        rows.append(prototype(f"{label}, background {load}", here, expected))
    waste = np.array([of(found, ("tcp", window, False), "efficiency") for window in WINDOW_SETS])
    rows.append(
        Row(
            "A20 efficiency of TCP, unshaped",
            "stays reasonably high",
            "; ".join(curve(one, 2) for one in waste),
            "0.75 at every load",
            judge(bool(np.nanmin(waste) >= 0.75)),
            "at loads at which the connections offered anything",
        )
    )
    rows.append(confidence(context, found))
    titles = {
        ("tcp", window, which): name("windows " + "-".join(str(one) for one in window), which)
        for window in WINDOW_SETS
        for which in (False, True)
    }
    path = draw(found, titles, context.path("e8"))
    setup = Setup(("tcp",) * 3, 1_142, suited, LENGTHS, load=60)
    return Report(f"{SPEC}/e8", TITLES["e8"], rows, path, scenario=save_scenario(context, setup, "e8"))


MIXED = ((9_140, 3), (1_142, 24))


@experiment(f"{SPEC}/e9", title=TITLES["e9"], paper=f"{PAPER}, Figure 8")
def e9(context: Context) -> Report:
    """Three of each, with half the window and half the rate."""
    lines: dict[Line, dict[str, object]] = {
        (kind, mps, window): {
            "protocols": (kind,) * 3 + ("tcp",) * 3,
            "mps": mps,
            "windows": (window,),
            "rate": 25,
        }
        for kind in ("gbn", "sr")
        for mps, window in MIXED
    }
    found = sweep(context, "mixed", lines)
    first, last = slice(0, 3), slice(3, 6)
    rows = []
    for line in lines:
        xtp, tcp = (of(found, line, "goodput", which) for which in (first, last))
        waste = [of(found, line, "efficiency", which) for which in (first, last)]
        label = f"{NAMES[line[0]]}, {line[1]}/{line[2]}"
        rows += [
            Row(
                f"A24 goodput, {label}",
                "TCP far below XTP",
                f"TCP {curve(tcp)} beside XTP {curve(xtp)} Mbit/s",
                "less from 40 on, three quarters at 60, half from 80 on",
                judge(
                    bool(
                        np.all(tcp[2:] < xtp[2:])
                        and np.all(tcp[3:] < 0.75 * xtp[3:])
                        and np.all(tcp[4:] < 0.5 * xtp[4:])
                    ),
                ),
            ),
            Row(
                f"A24 efficiency, {label}",
                "TCP ends below XTP, too",
                f"TCP {curve(waste[1], 2)} beside XTP {curve(waste[0], 2)}",
                "at 100",
                judge(waste[1][5] < waste[0][5]),
            ),
        ]
    known = {
        ("gbn", 9_140, 3): ((20.1, 19.4, 14.5, 13.1, 11.4, 9.4), (20.1, 19.4, 13.1, 8.0, 3.9, 1.0)),
        ("sr", 1_142, 24): ((21.5, 18.7, 18.1, 16.8, 14.4, 11.2), (21.5, 18.7, 8.7, 5.5, 2.8, 0.8)),
    }
    for line, pair in known.items():
        here = [of(found, line, "goodput", which) for which in (first, last)]
        off = [np.abs(a - np.array(b)) for a, b in zip(here, pair, strict=True)]
        rows.append(
            Row(
                f"{NAMES[line[0]]}, {line[1]}/{line[2]}: the specification's prototype",
                f"XTP {curve(pair[0])}, TCP {curve(pair[1])} Mbit/s",
                f"XTP {curve(here[0])}, TCP {curve(here[1])} Mbit/s",
                "each within 1.5 Mbit/s",
                judge(max(one.max() for one in off) <= 1.5),
            )
        )
    rows.append(confidence(context, found))
    path = draw_mixed(found, list(lines), context)
    setup = Setup(("sr",) * 3 + ("tcp",) * 3, 1_142, (24,), load=60, rate=25)
    return Report(f"{SPEC}/e9", TITLES["e9"], rows, path, scenario=save_scenario(context, setup, "e9"))


def draw(found: Sweep, titles: dict[Line, str], path: object) -> str:
    """Goodput above efficiency for each length, a column for each panel."""
    figure, axes = plt.subplots(
        2, len(titles), figsize=(1 + 2.3 * len(titles), 5), sharex=True, sharey="row", squeeze=False
    )
    for column, (line, title) in enumerate(titles.items()):
        for row, what in enumerate(("goodput", "efficiency")):
            for number, ys in enumerate(by_length(found, line, what)):
                look = {"color": COLOURS[number], "marker": MARKERS[number], "ms": 4}
                axes[row, column].plot(LOADS, ys, label=f"{LENGTHS[number]} km", **look)
        axes[0, column].set_title(title, fontsize=9.5)
        axes[1, column].set_xlabel("background (Mbit/s)")
    return finish(figure, axes, path)


def draw_mixed(found: Sweep, lines: Sequence[Line], context: Context) -> str:
    """Goodput above efficiency of both protocols."""
    figure, axes = plt.subplots(2, len(lines), figsize=(1 + 2.5 * len(lines), 5), sharex=True, sharey="row")
    for column, line in enumerate(lines):
        for row, what in enumerate(("goodput", "efficiency")):
            for number, label in enumerate(("XTP", "TCP")):
                ys = of(found, line, what, slice(3 * number, 3 * number + 3))
                look = {"color": COLOURS[number], "marker": MARKERS[number], "ms": 4}
                axes[row, column].plot(LOADS, ys, label=label, **look)
        kind, mps, window = line
        axes[0, column].set_title(f"{NAMES[kind]}, {mps}/{window}", fontsize=9.5)
        axes[1, column].set_xlabel("background (Mbit/s)")
    return finish(figure, axes, context.path("e9"))


def finish(figure: plt.Figure, axes: np.ndarray, path: object) -> str:
    """Names the axes and saves."""
    axes[0, 0].set(ylabel="goodput (Mbit/s)")
    axes[0, 0].set_ylim(bottom=0)
    axes[1, 0].set(ylabel="efficiency", ylim=(0, 1.05))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=3, fontsize=8.5)
    return style.save(figure, path, 0.94)
