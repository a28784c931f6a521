"""TCP and XTP over ATM: what follows from sizes, rates and distances, and what phases do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import layercast
from layercast_lab import style, transfers
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.transfers_alike import BOTH, PAPER, SPEC, save_scenario, seconds
from layercast_lab.experiments.transfers_unlike import LENGTHS
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt
from layercast_lab.transfers import LINK, NAMES, SLOT_S, US_PER_KM, Outcome, Setup, cells, most_mbps

TITLES = {"n": "Sizes, rates and the knee", "phases": "Phases: without any chance"}
KNEE_LOADS = tuple(range(0, 61, 5))


def bounds(setup: Setup) -> float:
    """Round trip of a full packet and its acknowledgement, nothing else being there, in s."""
    of_acks = {"tcp": 1, "gbn": 2, "sr": 2}[setup.protocols[0]]
    way = 2 * setup.lengths_km[0] * US_PER_KM * 1e-6
    # Whole at the first link, and its last cell over two more; so the acknowledgement.
    return way + (cells(setup.mps, setup.protocols[0]) + 2 + of_acks + 2) * SLOT_S


def adapters(setup: Setup) -> dict[str, dict[str, int]]:
    """What the adapters counted in a run."""
    summary = layercast.run(transfers.network(setup, 1), seed=1).summary
    return {one["router"]: one for one in summary["atm"]["adapters"]}


@experiment(f"{SPEC}/n", title=TITLES["n"], paper=f"{PAPER}, sections 3 and 4")
def n(context: Context) -> Report:
    """N1 to N10 of the specification."""
    rows = sizes()
    alone = {mps: Setup(("tcp",), mps, (1,), jitter_us=0) for mps, _ in BOTH}
    for mps, setup in alone.items():
        here = 8e-3 * mps / transfers.run(setup, 1).goodput[0]
        told = {9_140: 10.56, 1_142: 10.09}[mps]
        rows.append(row(f"N3 round trip, MPS {mps}, window 1", told, here, "ms", 2))
    for (mps, window), name in zip(BOTH, ("N4", "N5"), strict=True):
        found = transfers.run(Setup(mps=mps, jitter_us=0), 1)
        told = {9_140: 41.5, 1_142: 43.1}[mps]
        here = float(np.mean(found.goodput))
        rows.append(row(f"{name} goodput of TCP, {mps}/{window}, no background", told, here, "Mbit/s", 2))
        rows.append(row(f"{name} efficiency", 1.0, float(np.mean(found.efficiency)), "", 3))
    knees, found = knee(context)
    for (mps, window), told, least in zip(BOTH, (51, 41), (41, 31), strict=True):
        here = knees[mps]
        rows.append(
            Row(
                f"N6 one cell in 10 000 is lost from a background of, {mps}/{window}",
                f"{told} Mbit/s if the load is even; messages move it about 10 lower",
                f"{here} Mbit/s",
                f"{least} ±5, the grid",
                judge(abs(here - least) <= 5),
            )
        )
    for mps, window in ((9_140, 18), (1_142, 144)):
        one = transfers.run(Setup(mps=mps, windows=(window,)), 1)
        share = max(one.cells_lost)
        rows.append(
            Row(
                f"N7 {mps}/{window}, no background",
                "losses",
                f"{share:.2%} of cells",
                "some",
                judge(share > 0),
            )
        )
    for kind in ("gbn", "sr"):
        one = transfers.run(Setup((kind,) * 3, jitter_us=0), 1)
        rows.append(
            row(
                f"N8 goodput of {NAMES[kind]}, 9140/6, no background",
                41.5,
                float(np.mean(one.goodput)),
                "Mbit/s",
                2,
            )
        )
        lost, used = max(one.cells_lost), min(one.efficiency)
        rows.append(
            Row(
                "N8 loss and efficiency",
                "0 and 1",
                f"{lost:g} and {used:.3f}",
                "equal",
                judge(lost == 0 and used > 0.999),
            )
        )
    rows += [bursts(background) for background in ("fast", "slow")]
    spread = max(np.ptp(one.goodput) / np.mean(one.goodput) for one in found[9_140, 20])
    rows.append(
        Row(
            "N10 three alike, 9140/6, background 20",
            "within 1 to 2 % of each other",
            f"at most {spread:.1%}",
            "2 %",
            judge(spread <= 0.02),
        )
    )
    path = draw_knee(found, context)
    return Report(f"{SPEC}/n", TITLES["n"], rows, path, scenario=save_scenario(context, alone[9_140], "n"))


def row(name: str, told: float, here: float, unit: str, digits: int) -> Row:
    """A number that must be right within 1 %."""
    shown = [f"{value:.{digits}f} {unit}".strip() for value in (told, here)]
    off = abs(here / told - 1)
    return Row(name, shown[0], shown[1], "within 1 %", judge(off <= 0.01))


def sizes() -> list[Row]:
    """Cells of packets, counted by the adapters."""
    rows = []
    for mps, told in ((9_140, 192), (1_142, 25)):
        for kind, answer in (("tcp", 1), ("gbn", 2)):
            setup = Setup((kind,), mps, jitter_us=0, warm_up_s=0, seconds=5)
            both = adapters(setup)
            here = [both[end]["cells_sent"] / both[end]["frames_sent"] for end in ("s1", "r1")]
            rows.append(
                Row(
                    f"N1 cells of a packet and of its answer, {NAMES[kind]}, MPS {mps}",
                    f"{told} and {answer}",
                    f"{here[0]:.2f} and {here[1]:.2f} in the mean of 5 s",
                    "within 1 %: first packets are shorter",
                    judge(abs(here[0] / told - 1) <= 0.01 and abs(here[1] / answer - 1) <= 0.01),
                )
            )
    both = adapters(Setup(("sr",) * 3, 1_142, load=60, seconds=5))
    here = both["r1"]["cells_sent"] / both["r1"]["frames_sent"]
    rows.append(
        Row(
            "N1 cells of a status that tells ranges",
            "two or more",
            f"{here:.2f} in the mean, with others",
            "above 2",
            judge(here > 2),
        )
    )
    return rows


def knee(context: Context) -> tuple[dict[int, int], dict[tuple[int, int], list[Outcome]]]:
    """From which background on cells of TCP are lost, for each MPS."""
    points = [(mps, load) for mps, _ in BOTH for load in KNEE_LOADS]
    seeds = context.seed_range(2)
    jobs = [
        (Setup(mps=mps, load=load, seconds=seconds(context, 6)), seed)
        for mps, load in points
        for seed in seeds
    ]
    found = iter(run_all(context, "loads", lambda job: transfers.run(*job), jobs))
    outcomes = {point: [next(found) for _ in seeds] for point in points}
    first = {
        mps: next((load for load in KNEE_LOADS if lost(outcomes[mps, load]) > 1e-4), KNEE_LOADS[-1])
        for mps, _ in BOTH
    }
    return first, outcomes


def lost(outcomes: Sequence[Outcome]) -> float:
    """Share of cells."""
    return float(np.mean([one.cells_lost for one in outcomes]))


def bursts(background: str) -> Row:
    """The load of the background, and that it takes all of the link while it is ON."""
    setup = Setup(("tcp",), load=100, background=background, warm_up_s=0, seconds=170)
    load = rate_of_background(setup, 1)
    glance = replace(setup, seconds=GLANCE_S)
    peak = max(rate_of_background(glance, seed) for seed in range(1, GLANCES + 1))
    return Row(
        f"N9 {background} bursts at 100",
        "peak 150 Mbit/s: the link",
        f"{peak:.1f} Mbit/s in the fullest of {GLANCES} times {1_000 * GLANCE_S:g} ms, "
        f"{load:.1f} in the mean of {setup.seconds:g} s",
        "peak within 1 % of the link; 15 % about 100",
        judge(abs(load / 100 - 1) <= 0.15 and abs(1e6 * peak / LINK - 1) <= 0.01),
    )


GLANCE_S = 0.02
GLANCES = 20


def rate_of_background(setup: Setup, seed: int) -> float:
    """What the adapter of the background sends in a run, Mbit/s of cells."""
    summary = layercast.run(transfers.network(setup, seed), seed=seed).summary
    sent = next(one for one in summary["atm"]["adapters"] if one["router"] == "in")["cells_sent"]
    return sent * transfers.CELL_BITS / setup.seconds / 1e6


def draw_knee(found: dict[tuple[int, int], list[Outcome]], context: Context) -> str:
    """Losses of cells and the goodput that is left, by load."""
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.4))
    for number, (mps, window) in enumerate(BOTH):
        look = {"color": COLOURS[number], "marker": MARKERS[number], "ms": 4, "label": f"{mps}/{window}"}
        axes[0].plot(KNEE_LOADS, [100 * lost(found[mps, load]) for load in KNEE_LOADS], **look)
        goodput = [np.mean([one.goodput for one in found[mps, load]]) for load in KNEE_LOADS]
        axes[1].plot(KNEE_LOADS, goodput, **look)
        left = [most_mbps(mps) * (1 - load / 150) / 3 for load in KNEE_LOADS]
        axes[1].plot(KNEE_LOADS, left, color=COLOURS[number], ls=":")
    axes[0].set(xlabel="background (Mbit/s)", ylabel="cells of TCP lost (%)")
    axes[1].set(xlabel="background (Mbit/s)", ylabel="goodput of a connection (Mbit/s)", ylim=(0, 50))
    axes[1].plot([], [], ":", color="0.4", label="what is left")
    axes[1].legend()
    return style.save(figure, context.path("n"))


PHASES = 10
USER_RATE = 58
"""Mbit/s of cells if the rate of 50 counts user bytes only: three of them are more than the link."""


@experiment(f"{SPEC}/phases", title=TITLES["phases"], paper=f"{PAPER}, section 4.5")
def phases(context: Context) -> Report:
    """The same run at other phases: no jitter, cells of one instant in the order of the ports."""
    kinds = {
        "unshaped": {"jitter_us": 0, "ties": "ordered"},
        "shaped": {"jitter_us": 0, "ties": "ordered", "shaped": True},
        "unshaped, with jitter": {},
    }
    chosen = context.seed_range(PHASES)
    lines = {(kind, protocol): more for kind, more in kinds.items() for protocol in ("gbn", "sr")}
    setups = {
        line: Setup(
            (line[1],) * 3, 1_142, (48,) * 3, LENGTHS, rate=USER_RATE, seconds=seconds(context, 3), **more
        )
        for line, more in lines.items()
    }
    jobs = [(setup, seed) for setup in setups.values() for seed in chosen]
    found = iter(run_all(context, "phases", lambda job: transfers.run(*job), jobs))
    goodput = {line: np.array([next(found).goodput for _ in chosen]) for line in setups}
    rows = []
    for protocol in ("gbn", "sr"):
        least, most = (goodput["unshaped", protocol].min(axis=0), goodput["unshaped", protocol].max(axis=0))
        calm = np.ptp(goodput["shaped", protocol], axis=0)
        wild = most - least
        rows.append(
            Row(
                f"A19 {NAMES[protocol]}, unshaped, no background",
                "what a connection gets hangs on phases; shaping removes that",
                "10/100/1000 km: "
                + ", ".join(f"{a:.1f} to {b:.1f}" for a, b in zip(least, most, strict=True))
                + f" Mbit/s over {len(chosen)} phases; shaped they differ by {calm.max():.1f} at most",
                "5 Mbit/s for one of them, shaped a fifth of that",
                judge(wild.max() >= 5 and calm.max() <= wild.max() / 5),
            )
        )
    path = draw_phases(goodput, context)
    setup = setups["unshaped", "gbn"]
    return Report(
        f"{SPEC}/phases", TITLES["phases"], rows, path, scenario=save_scenario(context, setup, "phases")
    )


def draw_phases(goodput: dict[tuple[str, str], np.ndarray], context: Context) -> str:
    """A point for each connection and phase."""
    figure, axes = plt.subplots(1, len(goodput), figsize=(1 + 2 * len(goodput), 3.4), sharey=True)
    for axis, ((kind, protocol), values) in zip(axes, goodput.items(), strict=True):
        for number, length in enumerate(LENGTHS):
            axis.plot(
                values[:, number], COLOURS[number], marker=MARKERS[number], ls="", ms=4, label=f"{length} km"
            )
        axis.set_title(f"{NAMES[protocol]},\n{kind}", fontsize=8.5)
        axis.set_xlabel("run")
    axes[0].set(ylabel="goodput (Mbit/s)")
    axes[0].set_ylim(bottom=0)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=3, fontsize=8.5)
    return style.save(figure, context.path("phases"), 0.92)
