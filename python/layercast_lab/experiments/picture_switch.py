"""Picture quality on ATM: what a shared buffer loses of many videos (specs/mpeg-picture-quality.md 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.picture import POLICIES, ask, letters
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

PAPER = "Mehaoua, Boutaba, Pujolle, PfHSN'96"
SECONDS, SEEDS = 20.0, 3
PHASES = 32
"""Seeds of the runs without smoothing: phases hold for a run, and which I pictures meet is their draw."""
FOUR = ("fifo", "clp", "exclp", "exclp_epd")
Losses = tuple[float, float, float, float]

PROTOTYPE: dict[tuple[float, str], tuple[Losses, float | None]] = {
    (1.05, "fifo"): ((4.7, 4.6, 4.7, 4.8), 5),
    (1.05, "clp"): ((0, 0, 11.1, 11.3), 22),
    (1.05, "exclp"): ((0, 0, 0, 36.4), 45),
    (1.05, "exclp_epd"): ((0, 0, 0, 36.6), 66),
    (1.10, "fifo"): ((8.9, 9.0, 9.0, 9.0), 4),
    (1.10, "clp"): ((0, 0, 21.5, 21.6), 21),
    (1.10, "exclp"): ((0, 0, 0.3, 69.5), 34),
    (1.10, "exclp_epd"): ((0, 0, 0, 70.3), 48),
    (1.149, "fifo"): ((12.9, 12.8, 12.9, 13.0), 4),
    (1.149, "clp"): ((0, 0, 30.7, 30.9), 21),
    (1.149, "exclp"): ((0, 0, 4.0, 91.3), 22),
    (1.149, "exclp_epd"): ((0, 0, 2.8, 94.2), 26),
    (1.25, "clp"): ((0, 0, 47.5, 47.7), 21),
    (1.25, "exclp"): ((0, 0, 24.7, 99.4), 21),
    (1.724, "exclp"): ((0, 2.5, 95.8, 99.8), 4),
    (2.0, "fifo"): ((50.0, 49.9, 49.9, 50), 4),
    (2.0, "clp"): ((14.6, 13.9, 99.8, 99.8), 4),
    (2.0, "exclp"): ((0, 15.3, 99.8, 99.9), 4),
}
"""Of a prototype, by load and policy: losses of S, I, P and B in percent, decodable pictures in percent."""

ROUGH: dict[str, tuple[Losses, float | None]] = {
    "exclp": ((0, 6.4, 10, 13), 14),
    "fifo": ((4.8, 11.4, 4.4, 4.4), None),
}
"""The same without smoothing: 20 videos of 4 Mbit/s at a load of 0.8."""


def formula(load: float) -> Losses:
    """Losses of perfectly mixed traffic with ideal push-out, in percent."""
    left = 1 - 1 / load
    losses = []
    for share in (0.13, 0.29, 0.53, 0.05):
        lost = min(max(left, 0.0), share)
        losses.append(100 * lost / share)
        left -= lost
    b, p, i, s = losses
    return s, i, p, b


def mean(runs: list[dict[str, Any]], key: str) -> list[float]:
    """Mean over the seeds of a figure, or of each of several."""
    values = [run[key] if isinstance(run[key], list) else [run[key]] for run in runs]
    return [sum(column) / len(column) for column in zip(*values, strict=True)]


def named(policies: Sequence[str], percents: Sequence[float], digits: int = 0) -> str:
    """Percents of policies."""
    pairs = zip(policies, percents, strict=True)
    return ", ".join(f"{policy} {value:.{digits}f}" for policy, value in pairs) + " %"


def settings(
    context: Context, wanted: list[dict[str, Any]], seeds: int = SEEDS
) -> list[list[dict[str, Any]]]:
    """The runs of each setting, one for each seed."""
    seconds = context.seconds or SECONDS
    seeds = context.seed_range(seeds)

    def one(setting: dict[str, Any]) -> list[dict[str, Any]]:
        return ask("run", settings=[setting | {"seconds": seconds, "seed": seed} for seed in seeds])

    return run_all(context, "shared buffer", one, wanted)


def by_load(
    context: Context, loads: Sequence[float], policies: Sequence[str]
) -> dict[tuple[float, str], list[dict[str, Any]]]:
    """The runs of each load and policy."""
    points = [(load, policy) for load in loads for policy in policies]
    wanted = [{"load": load, "policy": policy} for load, policy in points]
    return dict(zip(points, settings(context, wanted), strict=True))


def row(name: str, expected: tuple[Losses, float | None], runs: list[dict[str, Any]], note: str = "") -> Row:
    """Losses and decodable pictures beside those of the prototype."""
    losses, decodable = mean(runs, "loss_percent"), mean(runs, "decodable_percent")[0]
    near = all(abs(found - wanted) <= 3 for found, wanted in zip(losses, expected[0], strict=True))
    reported = f"prototype: {letters(list(expected[0]))}"
    if expected[1] is not None:
        reported += f"; {expected[1]:.0f} % decodable"
    measured = f"{letters(losses)}; {decodable:.0f} % decodable"
    return Row(name, reported, measured, "losses within 3 points", judge(near), note)


@experiment("mpeg-picture-quality/q2", title="Losses of a shared buffer by policy and load", paper=PAPER)
def q2(context: Context) -> Report:
    """Losses by class and decodable pictures of 100 videos of 2 Mbit/s in a buffer of 1000 cells."""
    loads = sorted({load for load, _ in PROTOTYPE})
    found = by_load(context, loads, list(POLICIES))
    rows = [
        row(f"load {load:g}, {policy}", expected, found[load, policy])
        for (load, policy), expected in PROTOTYPE.items()
    ]
    for load in loads:
        losses = mean(found[load, "exclp"], "loss_percent")
        ideal = formula(load)
        near = all(abs(a - b) <= 3 for a, b in zip(losses, ideal, strict=True))
        rows.append(
            Row(
                f"load {load:g}, exclp beside ideal push-out",
                f"closed form: {letters(list(ideal))}",
                letters(losses),
                "within 3 points",
                judge(near),
            )
        )
    for load in (load for load in loads if 1 < load <= 1.15):
        decodable = [mean(found[load, policy], "decodable_percent")[0] for policy in FOUR]
        rows.append(
            Row(
                f"load {load:g}, order of the policies by decodable pictures",
                "exclp_epd, exclp, clp, fifo",
                named(FOUR, decodable, 1),
                "each more than the next",
                judge(all(a <= b for a, b in pairwise(decodable))),
            )
        )
    protected = [mean(found[load, policy], "loss_percent")[0] for load in loads for policy in FOUR[2:]]
    rows.append(
        Row(
            "loss of class S with exclp and exclp_epd up to a load of 2",
            "none",
            f"{max(protected):.3f} %",
            "0",
            judge(max(protected) == 0),
        )
    )
    beside = ("thresholds", "dedicated")
    other = [mean(found[1.05, policy], "decodable_percent")[0] for policy in beside]
    rows.append(
        Row("load 1.05, other policies, decodable pictures", "ours", named(beside, other), "-", "open")
    )
    rows += unsmoothed(context)
    title = "Losses of a shared buffer by policy and load"
    return Report("mpeg-picture-quality/q2", title, rows, draw(context, "picture-q2", list(POLICIES), found))


def spread(runs: list[dict[str, Any]]) -> str:
    """Least and most loss of I pictures over the seeds."""
    lost = [run["loss_percent"][1] for run in runs]
    return f"I by seed {min(lost):.1f} to {max(lost):.1f} %"


def unsmoothed(context: Context) -> list[Row]:
    """The warning: without smoothing headers alone are safe."""
    rough = {"sources": 20, "bps": 4e6, "load": 0.8, "smoothing": "none"}
    names = list(ROUGH)
    found = settings(context, [rough | {"policy": policy} for policy in names], PHASES)
    rows = [
        row(f"load 0.8, each picture in its frame time, {policy}", ROUGH[policy], runs, spread(runs))
        for policy, runs in zip(names, found, strict=True)
    ]
    losses = mean(found[0], "loss_percent")
    warns = losses[0] == 0 and losses[1] > 2
    shape = Row(
        "load 0.8, each picture in its frame time, exclp",
        "I pictures are lost, although the load is below 1; headers are not",
        letters(losses),
        "S 0, I above 2 %",
        judge(warns),
    )
    return [*rows, replace(shape, name=f"{shape.name}: the warning")]


def draw(
    context: Context,
    name: str,
    policies: Sequence[str],
    found: dict[tuple[float, str], list[dict[str, Any]]],
) -> str:
    """Decodable pictures over load, a line for each policy."""
    loads = sorted({load for load, _ in found})
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    for policy, colour, marker in zip(policies, COLOURS, MARKERS, strict=False):
        values = [mean(found[load, policy], "decodable_percent")[0] for load in loads]
        axis.plot(loads, values, marker=marker, color=colour, label=policy)
    axis.set(xlabel="load", ylabel="decodable pictures (%)", ylim=(0, 100))
    axis.legend()
    return style.save(figure, context.path(name))
