"""METS E5b, E5c, E5e, E5f: merging, a filter in a node, lost messages, any rate (specs/mets.md 4.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.mets_adaptation import ERA_S, base_damage, lost_base, max_level
from layercast_lab.simulator import ready_made, run_all
from layercast_lab.testbed import PAPER

SEEDS = 20
# Canyon at 24 pictures a second (specs/mets.md 3.2).
L1, L2 = 960, 2_880
# Level by level, and the seconds in which it is in force.
E5_PHASES = ((0, 20, 870), (20, 50, L2), (50, 80, 2_420))


def run_seeds(context: Context, what: str, changed: Mapping[str, Any]) -> list[layercast.Result]:
    """The scenario with every seed."""
    seeds = context.seed_range(SEEDS)
    return run_all(context, what, lambda seed: layercast.run(changed, seed=seed), seeds)


def above_base(receiver: layercast.Receiver, start: float, end: float) -> float:
    """Mean cells/s of E1 and E2 played in the whole seconds of [start, end)."""
    series = receiver.series
    inside = (series["t"] >= start) & (series["t"] < end)
    return float(np.mean(series["cells_E1"][inside] + series["cells_E2"][inside]))


def in_force(receiver: layercast.Receiver, level: int, start: float, end: float) -> float:
    """Share of [start, end) in which `level` is in force."""
    times = np.arange(start, end, 0.05)
    return float(np.mean([receiver.level_at(time) == level for time in times]))


def base_row(name: str, damage: int, runs: int) -> Row:
    """The row that no base layer may suffer."""
    measured = f"{damage} frames lost or late, all receivers, {runs} runs"
    return Row(f"{name} base layer", "guaranteed", measured, "0", judge(damage == 0))


def level_row(
    name: str, level: int, receivers: Sequence[layercast.Receiver], start: float, end: float
) -> Row:
    """The row of a level that must be in force from `start` to `end` without a change."""

    def steady(receiver: layercast.Receiver) -> bool:
        changes = receiver.levels[:, 0]
        still = not np.any((changes > start) & (changes < end))
        return still and receiver.level_at(start) == level

    good = sum(steady(receiver) for receiver in receivers)
    measured = f"level {level} in {good} of {len(receivers)} seeds"
    rule = f"level {level}, {start:.0f}-{end:.0f} s"
    return Row(name, "specs/mets.md 2.11", measured, rule, judge(good == len(receivers)))


def advertised(receiver: layercast.Receiver, start: float, end: float) -> float:
    """Mean cells/s above the base layer that ADAPT gave in [start, end)."""
    adapts = [entry for entry in receiver.data["adapter"] if entry["kind"] == "ADAPT"]
    return float(np.mean([entry["rate"] for entry in adapts if start <= entry["t"] < end]))


def rate_row(name: str, budget: float, rates: Sequence[float], budgets: Sequence[float] | None = None) -> Row:
    """The row of a rate that must be within 5 % in every seed: of `budget`, or of each seed's own."""
    off = np.array(rates) / np.array(budgets or [budget]) - 1
    measured = f"{np.median(rates):.0f} cells/s (median), {off.min():+.1%} to {off.max():+.1%}"
    ok = bool(np.all(np.abs(off) <= 0.05))
    return Row(name, f"budget {budget:.0f} cells/s", measured, "5 %", judge(ok))


@experiment("mets/e5b", title="Two receivers of one flow: merged demands", paper=PAPER)
def e5b(context: Context) -> Report:
    """E5b, not in the papers: dwp can have E1, mr-little all, and both merges give the same."""
    rows, damage, runs, shown = [], 0, 0, None
    for merge in ("join", "hull"):
        results = run_seeds(context, f"E5b, {merge}", ready_made("e5b") | {"merge": merge})
        shown = shown or results[0]
        damage += lost_base(results)
        runs += len(results)
        for name, level in (("dwp", 1), ("mr-little", 2)):
            receivers = [result.receiver(f"canyon-at-{name}") for result in results]
            rows.append(level_row(f"E5b {name}, merge = {merge}", level, receivers, 4, 39))
        e2 = sum(int(result.receiver("canyon-at-dwp").count("frames")[2]) for result in results)
        rows.append(
            Row(
                f"E5b selector, merge = {merge}",
                "an E2 frame to mr-little only",
                f"{e2} E2 frames at dwp",
                "0",
                judge(e2 == 0),
            )
        )
    rows.append(base_row("E5b", damage, runs))
    figure = draw(shown, ["canyon-at-dwp", "canyon-at-mr-little"], "E5b", context.path("e5b"))
    return Report("mets/e5b", "METS E5b: two receivers, merged demands", rows, figure)


@experiment("mets/e5c", title="A filter in a node: virtual source and sink", paper=PAPER)
def e5c(context: Context) -> Report:
    """E5c, not in the papers: what dwp gets without and with a filter at rook."""
    base = ready_made("e5c")
    rows: list[Row] = []
    damage = runs = 0
    shown = None
    # Capacity to dwp less the base layer of Canyon; the low-pass leaves 75.5 % of each frame.
    rules = (None, "low-pass:10", "drs", "thin:1/2", "keep:IP")
    expected = {"low-pass:10": 0.755 * L2, "drs": 3_000 - 480}
    for rule in rules:
        filters = [] if rule is None else [dict(base["filter"][0]) | {"rule": rule}]
        results = run_seeds(context, f"E5c, {rule or 'no filter'}", base | {"filter": filters})
        damage += lost_base(results)
        runs += len(results)
        dwp = [result.receiver("canyon-at-dwp") for result in results]
        level = 1 if rule in (None, "keep:IP") else 2
        name = f"E5c {rule or 'no filter'}"
        rows.append(level_row(f"{name}, level at dwp", level, dwp, 10, 39))
        if rule in expected:
            rows.append(
                rate_row(f"{name}, rate at dwp", expected[rule], [above_base(r, 10, 38) for r in dwp])
            )
        lost = sum(int(r.count("lost")[1:].sum()) for r in dwp)
        rows.append(Row(f"{name}, frames lost at dwp", "none", f"{lost}", "0", judge(lost == 0)))
        if rule == "low-pass:10":
            shown = results[0]
            little = [above_base(result.receiver("canyon-at-mr-little"), 10, 38) for result in results]
            rows.append(rate_row("E5c mr-little, before the filter", L2, little))
    rows.append(base_row("E5c", damage, runs))
    figure = draw(
        shown, ["canyon-at-dwp", "canyon-at-mr-little"], "E5c, low-pass:10 at rook", context.path("e5c")
    )
    return Report("mets/e5c", "METS E5c: a filter at rook", rows, figure)


@experiment("mets/e5e", title="Adaptation when RES and ADAPT get lost", paper=PAPER)
def e5e(context: Context) -> Report:
    """E5e, not in the papers: E5 with a fifth of all RES and ADAPT lost on every link."""
    base = ready_made("e5")
    links = [dict(link) | {"adapter_loss": 0.2} for link in base["link"]]
    results = run_seeds(context, "E5e", base | {"link": links})
    canyon = [result.receiver("canyon-at-dwp") for result in results]
    rows = []
    for start, end, level in ((0, 20, 0), (20, 50, 2), (50, 80, 1)):
        # A receiver that misses ADAPT of a change gets the next one an era later. Layers stop immediately.
        above = sum(max_level(receiver, start + 2 * ERA_S, end) > level for receiver in canyon)
        shares = [in_force(receiver, level, start + 2 * ERA_S, end) for receiver in canyon]
        often = f"in force {np.median(shares):.0%} of the time (median)"
        measured = f"{often}, above it in {above} of {len(canyon)} seeds"
        rule = f"level {level} in every seed, never more from two eras after the change on"
        ok = not above and min(shares) > 0
        note = (
            "three eras of silence lower a level: of the RES, 0.8^4 pass all links, of the ADAPT too"
            if level
            else ""
        )
        rows.append(
            Row(f"E5e level, {start}-{end} s", "repaired by the next era", measured, rule, judge(ok), note)
        )
    damage = sum(base_damage(result) for result in results)
    rows.append(base_row("E5e", damage, len(results)))
    figure = draw(results[0], ["canyon-at-dwp"], "E5e, 20 % of RES and ADAPT lost", context.path("e5e"))
    return Report("mets/e5e", "METS E5e: lost adapter messages", rows, figure)


@experiment("mets/e5f", title="Continuous mode: any rate by dynamic rate shaping", paper=PAPER)
def e5f(context: Context) -> Report:
    """E5f, not in the papers: E5 with the source shaping E1 and E2 to the advertised rate."""
    results = run_seeds(context, "E5f", ready_made("e5f"))
    canyon = [result.receiver("canyon-at-dwp") for result in results]
    rows = []
    for start, end, residual in E5_PHASES:
        inside = (start + 4, end - 1)
        budgets = [advertised(receiver, *inside) for receiver in canyon]
        rates = [above_base(receiver, *inside) for receiver in canyon]
        rows.append(rate_row(f"E5f rate above BL, {start}-{end} s", residual, rates, budgets))
    lost = sum(int(r.count("lost")[1:].sum()) for r in canyon)
    rows.append(Row("E5f shaped frames lost", "none", f"{lost} of E1 and E2", "0", judge(lost == 0)))
    damage = sum(base_damage(result) for result in results)
    rows.append(base_row("E5f", damage, len(results)))
    figure = draw(results[0], ["canyon-at-dwp"], "E5f, continuous mode", context.path("e5f"))
    return Report("mets/e5f", "METS E5f: continuous mode", rows, figure)


def draw(result: layercast.Result, names: list[str], title: str, path: Path) -> str:
    """What each layer brought to each receiver against time, and the level or rate granted."""
    figure, axes = plt.subplots(
        len(names), 1, sharex=True, squeeze=False, figsize=(7.2, 1.2 + 2.2 * len(names))
    )
    for axis, name in zip(axes[:, 0], names, strict=True):
        receiver = result.receiver(name)
        series = receiver.series
        style.layers(axis, series)
        adapts = [
            (entry["t"], entry["rate"]) for entry in receiver.data["adapter"] if entry["kind"] == "ADAPT"
        ]
        base = float(np.mean(series["cells_BL"][2:-2]))
        if adapts:
            times, rates = zip(*adapts, strict=True)
            axis.step(
                times, np.array(rates) + base, where="post", color=style.ACCENT, lw=1.5, label="advertised"
            )
        axis.set(ylabel="cells/s", xlim=(0, None))
        axis.set_title(f"{title}: {name} (seed {result.summary['seed']})", loc="left", fontsize=10)
    axes[-1, 0].set(xlabel="time (s)")
    axes[0, 0].set_title(axes[0, 0].get_title(loc="left"), loc="left", fontsize=10, pad=22)
    axes[0, 0].legend(loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=4, fontsize=8)
    return style.save(figure, path)
