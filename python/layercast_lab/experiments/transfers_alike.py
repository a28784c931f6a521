"""TCP and XTP over ATM, Figures 2 and 3: three connections of one protocol, a background of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style, transfers
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all, toml_file
from layercast_lab.style import plt
from layercast_lab.transfers import LINK, NAMES, WINDOWS, Outcome, Setup, most_mbps

PAPER = "Ajmone Marsan, Baldi, Bianco, Lo Cigno and Munafò 1996"
SPEC = "tcp-xtp-over-atm"
SEEDS = 5
MORE_SEEDS = 10
"""For points whose mean is not known well enough after SEEDS."""
USUAL_S = 30
"""The measured part of a run, if nothing else is said (specs/tcp-xtp-over-atm.md 2.11)."""
NARROW_MBPS = 0.02 * LINK / 3e6
"""Widest half of a 95 % interval of a goodput."""
LOADS = (0, 20, 40, 60, 80, 100)
ALL_LOADS = tuple(range(0, 101, 10))
BOTH = ((9_140, 6), (1_142, 48))
PROTOTYPE = {
    ("tcp", 9_140, 6): ((40.6, 38.9, 24.8, 17.9, 13.8, 9.8), (1, 1, 0.92, 0.85, 0.81, 0.74)),
    ("tcp", 9_140, 18): ((22.7, 19.0, 16.9, 14.8, 12.2, 9.1), (0.81, 0.75, 0.75, 0.75, 0.74, 0.71)),
    ("tcp", 1_142, 48): ((43.1, 37.4, 17.6, 13.8, 11.2, 8.6), (1, 1, 0.94, 0.91, 0.89, 0.88)),
    ("tcp", 1_142, 144): ((16.6, 15.7, 13.9, 12.3, 10.7, 8.5), (0.91, 0.86, 0.87, 0.87, 0.88, 0.87)),
    ("gbn", 9_140, 6): ((41.1, 38.9, 22.4, 13.4, 9.9, 6.7), (1, 1, 0.69, 0.50, 0.47, 0.40)),
    ("gbn", 1_142, 48): ((43.0, 37.4, 15.0, 9.9, 6.2, 4.2), (1, 1, 0.45, 0.33, 0.23, 0.18)),
    ("sr", 9_140, 6): ((41.1, 38.9, 26.3, 18.1, 12.8, 8.7), (1, 1, 0.90, 0.76, 0.66, 0.55)),
    ("sr", 1_142, 48): ((43.0, 37.4, 25.3, 19.9, 15.0, 10.6), (1, 1, 0.87, 0.78, 0.70, 0.60)),
}
"""Goodput and efficiency at LOADS in the prototype of the specification: another simulator, not the paper."""

Line = tuple[Any, ...]
Sweep = dict[tuple[Line, int], list[Outcome]]


def loads(context: Context) -> Sequence[int]:
    """Background loads, Mbit/s; all of the paper's with --full."""
    return ALL_LOADS if context.full else LOADS


def seconds(context: Context, usual: float = USUAL_S) -> float:
    """The measured part of a run."""
    return context.seconds or usual


def sweep(
    context: Context, what: str, lines: Mapping[Line, Mapping[str, Any]], usual: float = USUAL_S
) -> Sweep:
    """Runs each line at each load with each seed, and with more where the mean is not known well enough."""
    length = seconds(context, usual)
    points = {
        (line, load): Setup(load=load, seconds=length, **more)
        for line, more in lines.items()
        for load in loads(context)
    }

    def run(chosen: Sequence[tuple[Line, int]], seeds: range) -> Sweep:
        jobs = [(points[point], seed) for point in chosen for seed in seeds]
        found = iter(run_all(context, what, lambda job: transfers.run(*job), jobs))
        return {point: [next(found) for _ in seeds] for point in chosen}

    found = run(list(points), context.seed_range(SEEDS))
    if context.seeds is None:
        wide = [point for point, runs in found.items() if uncertain(runs) > NARROW_MBPS]
        for point, runs in run(wide, range(SEEDS + 1, MORE_SEEDS + 1)).items():
            found[point] += runs
    return found


def uncertain(runs: Sequence[Outcome]) -> float:
    """Half of the 95 % interval of the mean goodput of connections that are alike, the widest, Mbit/s."""
    values = np.array([one.groups for one in runs], dtype=float)
    if len(values) < 2:
        return float("inf")
    return float((STUDENT[len(values) - 2] * values.std(axis=0, ddof=1) / len(values) ** 0.5).max())


STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom."""


def confidence(context: Context, found: Sweep) -> Row:
    """How well the means are known, whatever they are."""
    half = {point: uncertain(runs) for point, runs in found.items()}
    wide = [point for point, value in half.items() if value > NARROW_MBPS]
    widest = max(half.values())
    told = f"the widest is ±{widest:.2f} Mbit/s" if np.isfinite(widest) else "one run has none"
    return Row(
        "2.11 95 % interval of a goodput, at all points",
        "below 2 % of a third of the link",
        f"{len(half) - len(wide)} of {len(half)} points; {told}",
        f"all within ±{NARROW_MBPS:g} Mbit/s",
        judge(not wide) if context.seconds is None and context.seeds is None else "open",
        f"{SEEDS} seeds, {MORE_SEEDS} where that is not enough",
    )


def of(found: Sweep, line: Line, what: str = "goodput", which: slice = slice(None)) -> np.ndarray:
    """Mean over seeds and connections at LOADS; not a number where none of them has one."""
    values = [np.array([getattr(one, what)[which] for one in found[line, load]]) for load in LOADS]
    return np.array([np.nan if np.isnan(one).all() else np.nanmean(one) for one in values])


def curve(values: Sequence[float], digits: int = 1) -> str:
    """Numbers in the order of the loads; a dash where there is none."""
    return " ".join("–" if np.isnan(value) else f"{value:.{digits}f}" for value in values)


def percents(changes: Sequence[float]) -> str:
    """Changes in the order of the loads."""
    return " ".join(f"{100 * change:+.0f}" for change in changes) + " %"


def ceiling(mps: int, load: float, senders: int = 3) -> float:
    """What is left for user bytes of each connection."""
    return most_mbps(mps) * (1 - load * 1e6 / LINK) / senders


def beside_prototype(found: Sweep, line: Line, known: tuple[Sequence[float], Sequence[float]]) -> Row:
    """How far two simulators agree."""
    goodput, efficiency = of(found, line), of(found, line, "efficiency")
    off = goodput / np.array(known[0]) - 1
    apart = np.abs(efficiency - np.array(known[1]))
    name = f"{NAMES[line[0]]}, {line[1]}/{line[2]}: the specification's prototype"
    return Row(
        name,
        f"{curve(known[0])} Mbit/s; {curve(known[1], 2)}",
        f"{curve(goodput)} Mbit/s; {curve(efficiency, 2)}",
        "each within 15 % and 0.07",
        judge(
            bool(np.all(np.abs(off) <= 0.15) and np.all(apart <= 0.07)),
        ),
    )


def windows(context: Context, protocol: str, sizes: Sequence[tuple[int, int]]) -> Sweep:
    """Runs of one protocol, shaped and not."""
    lines = {
        (protocol, mps, window, shaped): {
            "protocols": (protocol,) * 3,
            "mps": mps,
            "windows": (window,),
            "shaped": shaped,
        }
        for mps, window in sizes
        for shaped in (False, True)
    }
    return sweep(context, NAMES[protocol], lines)


FOUR = (*BOTH, (9_140, 18), (1_142, 144))


@experiment(f"{SPEC}/e1", title="Three TCP connections", paper=f"{PAPER}, Figure 2")
def e1(context: Context) -> Report:
    """TCP by window and MPS, shaped and not."""
    found = windows(context, "tcp", FOUR)
    rows = []
    for mps, window in BOTH:
        line = ("tcp", mps, window, False)
        rows += [light(found, line, "A1"), knee(found, line)]
    for (mps, window), wide in zip(BOTH, (18, 144), strict=True):
        well, ill = (of(found, ("tcp", mps, w, False)) for w in (window, wide))
        rows.append(
            Row(
                f"A3 window {wide} instead of {window}, MPS {mps}",
                "very poor goodput at every load, even 0",
                f"{curve(ill)} instead of {curve(well)} Mbit/s",
                "less at every load, at most 70 % at 0",
                judge(bool(np.all(ill < well) and ill[0] <= 0.7 * well[0])),
            )
        )
    large, small = (of(found, ("tcp", *pair, False)) for pair in BOTH)
    change = small / large - 1
    rows.append(
        Row(
            "A4 goodput, MPS 1142 beside 9140",
            "negligible effect",
            f"{percents(change)}: {curve(small)} beside {curve(large)} Mbit/s",
            "within 15 % at every load",
            judge(bool(np.all(np.abs(change) <= 0.15))),
        )
    )
    large, small = (of(found, ("tcp", *pair, False), "efficiency") for pair in BOTH)
    rows.append(
        Row(
            "A4 efficiency, MPS 1142 beside 9140",
            "clearly better with small packets, most so in overload",
            f"{curve(small, 2)} beside {curve(large, 2)}",
            "0.03 more at 60, 0.08 at 100",
            judge(bool(small[3] - large[3] >= 0.03 and small[5] - large[5] >= 0.08)),
        )
    )
    rows += [shaping(found, ("tcp", *pair), "A5") for pair in FOUR]
    rows += [alike(found, ("tcp", *pair, False)) for pair in FOUR]
    rows += [beside_prototype(found, ("tcp", *pair, False), PROTOTYPE["tcp", *pair]) for pair in FOUR]
    rows.append(confidence(context, found))
    return report(context, "e1", "Three TCP connections", rows, found, ["tcp"], FOUR)


@experiment(f"{SPEC}/e2", title="Three XTP connections", paper=f"{PAPER}, Figure 3")
def e2(context: Context) -> Report:
    """XTP that goes back, and XTP that sends again what is missing, shaped and not."""
    found = windows(context, "gbn", BOTH) | windows(context, "sr", BOTH)
    rows = []
    for protocol in ("gbn", "sr"):
        rows += [shaping(found, (protocol, *pair), "A6") for pair in BOTH]
        rows += [light(found, (protocol, *pair, False), "A7") for pair in BOTH]
    for pair in BOTH:
        back, selective = (of(found, (protocol, *pair, False)) for protocol in ("gbn", "sr"))
        waste = [of(found, (protocol, *pair, False), "efficiency") for protocol in ("gbn", "sr")]
        rows.append(
            Row(
                f"A8 loaded, MPS {pair[0]}",
                "go-back-n collapses, selective declines smoothly",
                f"efficiency {curve(waste[0], 2)} beside {curve(waste[1], 2)}; "
                f"goodput {curve(back)} beside {curve(selective)}",
                "less from 40 on; efficiency below two thirds of it at 60",
                judge(
                    bool(np.all(back[2:] < selective[2:]) and waste[0][3] < waste[1][3] * 2 / 3),
                ),
            )
        )
    for protocol in ("gbn", "sr"):
        line = (protocol, *BOTH[0], False)
        counts = of(found, line, "timeouts") / seconds(context)
        rows.append(
            Row(
                f"A9 handshakes, {NAMES[protocol]}, MPS 9140",
                "about none below the knee; they come with losses",
                f"{curve(counts)} a second and connection",
                "below 0.1 at 0 and 20, above from 60 on",
                judge(bool(max(counts[:2]) < 0.1 < min(counts[3:]))),
            )
        )
    for protocol in ("gbn", "sr"):
        rows += [
            beside_prototype(found, (protocol, *pair, False), PROTOTYPE[protocol, *pair]) for pair in BOTH
        ]
    rows.append(confidence(context, found))
    return report(context, "e2", "Three XTP connections", rows, found, ["gbn", "sr"], BOTH)


def light(found: Sweep, line: Line, name: str) -> Row:
    """Below the knee all that is sent arrives, and what the link or the window allows is sent."""
    protocol, mps, window, _ = line
    goodput, efficiency = of(found, line)[:2], of(found, line, "efficiency")[:2]
    trip = 2 * 1_000 * transfers.US_PER_KM * 1e-6
    trip += (transfers.cells(mps, protocol) + 5) * transfers.SLOT_S
    most = [min(ceiling(mps, load), 8e-6 * window * mps / trip) for load in LOADS[:2]]
    off = goodput / np.array(most) - 1
    return Row(
        f"{name} {NAMES[protocol]}, {mps}/{window}, background 0 and 20",
        "efficiency 1, goodput about what is left",
        f"{curve(efficiency, 3)}; {curve(goodput)} of {curve(most)} Mbit/s",
        "0.99 at least, within 7 %",
        judge(
            bool(np.all(efficiency >= 0.99) and np.all(np.abs(off) <= 0.07)),
        ),
    )


def alike(found: Sweep, line: Line) -> Row:
    """How far three connections of one kind are apart without background, each in the mean over the runs."""
    means = np.mean([one.goodput for one in found[line, 0]], axis=0)
    spread = np.abs(means / means.mean() - 1).max()
    return Row(
        f"N10 {NAMES[line[0]]}, {line[1]}/{line[2]}, no background: three alike",
        "each within 1 to 2 % of the mean",
        f"{' / '.join(f'{value:.1f}' for value in means)} Mbit/s in {len(found[line, 0])} runs: {spread:.1%}",
        "2 %",
        judge(spread <= 0.02),
    )


def knee(found: Sweep, line: Line) -> Row:
    """What is beyond the load at which the windows overflow pipe and buffer."""
    protocol, mps, window, _ = line
    goodput, efficiency = of(found, line), of(found, line, "efficiency")
    used = [value / ceiling(mps, load) for value, load in zip(goodput, LOADS, strict=True)]
    return Row(
        f"A2 {NAMES[protocol]}, {mps}/{window}, background 20 and 60",
        "beyond the knee both fall sharply",
        f"{used[1]:.0%} of what is left, then {used[3]:.0%}; "
        f"efficiency {efficiency[1]:.2f}, {efficiency[3]:.2f}",
        "a fifth less, and efficiency 0.05 less",
        judge(
            used[3] <= 0.8 * used[1] and efficiency[3] <= efficiency[1] - 0.05,
        ),
    )


def shaping(found: Sweep, line: Line, name: str) -> Row:
    """What a shaper of 50 Mbit/s changes."""
    protocol, mps, window = line
    free, shaped = (of(found, (*line, which)) for which in (False, True))
    change = shaped / free - 1
    return Row(
        f"{name} {NAMES[protocol]}, {mps}/{window}, shaped",
        "no significant change; may even hurt TCP" if protocol == "tcp" else "no significant change",
        f"{percents(change)}: {curve(shaped)} instead of {curve(free)} Mbit/s",
        "within 10 % at every load",
        judge(bool(np.all(np.abs(change) <= 0.1))),
    )


def report(
    context: Context,
    name: str,
    title: str,
    rows: list[Row],
    found: Sweep,
    protocols: Sequence[str],
    sizes: Sequence[tuple[int, int]],
) -> Report:
    """With a panel for each MPS and window, as in the paper."""
    panels = {
        f"{mps} bytes, window {window}": {
            NAMES[protocol] + (", shaped" if shaped else ""): (protocol, mps, window, shaped)
            for protocol in protocols
            for shaped in (False, True)
        }
        for mps, window in sizes
    }
    path = draw(panels, found, context.path(name))
    mps, window = sizes[0]
    setup = Setup((protocols[0],) * 3, mps, (window,), load=60)
    return Report(f"{SPEC}/{name}", title, rows, path, scenario=save_scenario(context, setup, name))


def save_scenario(context: Context, setup: Setup, name: str) -> str:
    """A scenario file for `layercast sim`."""
    path = context.path(f"{name}.toml")
    path.write_text(toml_file(transfers.network(setup, 1)))
    return str(path)


def draw(panels: Mapping[str, Mapping[str, Line]], found: Sweep, path: Path) -> str:
    """Goodput above efficiency, a column for each panel, with what the background leaves."""
    figure, axes = plt.subplots(
        2, len(panels), figsize=(1 + 2.7 * len(panels), 5), sharex=True, sharey="row", squeeze=False
    )
    xs = sorted({load for _, load in found})
    for column, (title, lines) in enumerate(panels.items()):
        for number, (label, line) in enumerate(lines.items()):
            colour = COLOURS[number // 2 if ", shaped" in "".join(lines) else number]
            shaped = ", shaped" in label
            for row, what in enumerate(("goodput", "efficiency")):
                ys = [np.nanmean([getattr(one, what) for one in found[line, x]]) for x in xs]
                axes[row, column].plot(
                    xs,
                    ys,
                    color=colour,
                    ls="--" if shaped else "-",
                    marker=MARKERS[number],
                    mfc="none" if shaped else colour,
                    ms=4,
                    label=label,
                )
        axes[0, column].plot(
            xs, [(150 - x) / 3 for x in xs], color="0.5", ls="-.", lw=1, label="a third of what is left"
        )
        axes[0, column].set_title(title, fontsize=9.5)
        axes[1, column].set_xlabel("background (Mbit/s)")
    axes[0, 0].set(ylabel="goodput of a connection (Mbit/s)", ylim=(0, 52))
    axes[1, 0].set(ylabel="efficiency", ylim=(0, 1.05))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=3, fontsize=8.5)
    return style.save(figure, path, 0.93 if len(labels) <= 3 else 0.9)


def usual(protocol: str, mps: int, **more: Any) -> dict[str, Any]:
    """Three alike with the window of the study."""
    return {"protocols": (protocol,) * 3, "mps": mps, "windows": (WINDOWS[mps],)} | more
