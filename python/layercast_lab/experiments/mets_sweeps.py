"""Sweeps of what the METS papers fix or leave open: shaper depth, era, marking threshold, late target."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.mets_adaptation import base_damage, lost_base, reached
from layercast_lab.experiments.mets_jitter import Outcome, outcome
from layercast_lab.experiments.mets_jitter_scenarios import PAPER_FILTER, stalled
from layercast_lab.experiments.mets_pacing import canyons
from layercast_lab.simulator import ready_made, run_all

SPEC = "No paper: sweeps that specs/mets.md asks for (sections 4.7, 4.9, 6.2 and 8)"

DEPTHS = (2, 3, 4, 5, 8, 17, 32)
DEPTH_FLOWS = (1, 4, 8)


@experiment("mets/sweep-b", title="Depth of the shaper's bucket", paper=SPEC)
def sweep_b(context: Context) -> Report:
    """E2 with other depths than b = 4, which the papers do not give; p = 1."""
    seeds = context.seed_range(10)
    seconds = context.seconds or 60.0
    jobs = [(b, n, seed) for n in reversed(DEPTH_FLOWS) for b in (*DEPTHS, 0) for seed in seeds]

    def run(job: tuple[int, int, int]) -> tuple[float, float]:
        b, n, seed = job
        found = canyons(n, seed, seconds, {"b": b, "p": 1} if b else "off")
        return found.lost_percent, found.delay_ms

    table = dict(zip(jobs, run_all(context, "shaper depth, runs", run, jobs), strict=True))

    def median(b: int, n: int, what: int) -> float:
        return float(np.median([table[b, n, seed][what] for seed in seeds]))

    none = median(0, 8, 0)
    eight = {b: median(b, 8, 0) for b in DEPTHS}
    delay = {b: median(b, 1, 1) for b in DEPTHS}
    shown = [
        Row(
            "sweep-b-1 loss, 8 flows",
            "model: 29 % at b = 4, 55.5 % at b = 17, 51 % unshaped (specs/mets.md 4.9)",
            "; ".join(f"b = {b}: {loss:.1f} %" for b, loss in eight.items()) + f"; none: {none:.1f} %",
            "least below n·b = drain, b = 17 no better than none",
            judge(eight[17] >= 0.9 * none and min(eight, key=eight.__getitem__) <= 4),
        ),
        Row(
            "sweep-b-2 delay, 1 flow",
            "–",
            "; ".join(f"b = {b}: {ms:.1f} ms" for b, ms in delay.items()),
            "falls with b",
            judge(all(delay[a] >= delay[b] for a, b in itertools.pairwise(DEPTHS))),
            "what a small b costs: a frame of 140 cells takes 140 / b ms to leave",
        ),
    ]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6))
    for n, colour in zip(DEPTH_FLOWS, ("#b9d7e5", "#64a3c4", "#334155"), strict=True):
        left.plot(DEPTHS, [median(b, n, 0) for b in DEPTHS], marker="o", color=colour, label=f"{n} flows")
        left.axhline(median(0, n, 0), color=colour, ls=":", lw=1)
        right.plot(DEPTHS, [median(b, n, 1) for b in DEPTHS], marker="o", color=colour)
    left.set(xscale="log", xlabel="b (cells per ms)", ylabel="METS packets lost (%)", xticks=DEPTHS)
    left.set_title("loss; dotted: no shaper", loc="left", fontsize=10)
    right.set(xscale="log", xlabel="b (cells per ms)", ylabel="median one-way delay (ms)", xticks=DEPTHS)
    right.set_title("delay of what arrived", loc="left", fontsize=10)
    for axis in (left, right):
        axis.set_xticks(DEPTHS, [str(b) for b in DEPTHS])
        axis.minorticks_off()
    left.legend()
    return Report("mets/sweep-b", "Sweep: bucket depth", shown, style.save(figure, context.path("sweep-b")))


ERAS_MS = (250, 500, 1_000, 2_000, 4_000)
HOPS = 3
CHANGES = ((20.0, 50.0, 2), (50.0, 80.0, 1))


@experiment("mets/sweep-era", title="Length of the era", paper=SPEC)
def sweep_era(context: Context) -> Report:
    """E5 with other eras than 1 s, which the papers do not give; the RES interval is a quarter."""
    seeds = context.seed_range()
    base = ready_made("e5")

    def run(job: tuple[int, int]) -> tuple[list[float], int, int]:
        era, seed = job
        eras = {"era": f"{era}ms", "res_interval": f"{era // 4}ms"}
        result = layercast.run(base | eras, seed=seed)
        receiver = result.receiver("canyon-at-dwp")
        messages = sum(entry["kind"] == "RES" for entry in receiver.data["adapter"])
        after = [reached(receiver, level, start, end) for start, end, level in CHANGES]
        return [np.inf if time is None else time for time in after], base_damage(result), messages

    jobs = [(era, seed) for era in ERAS_MS for seed in seeds]
    table = dict(zip(jobs, run_all(context, "eras, runs", run, jobs), strict=True))
    slowest = {era: np.array([table[era, seed][0] for seed in seeds]) for era in ERAS_MS}
    raised = {era: slowest[era][:, 0] for era in ERAS_MS}
    lowered = max(float(slowest[era][:, 1].max()) for era in ERAS_MS)
    bound = {era: era / 1e3 * (1 + HOPS / 4) + 0.05 for era in ERAS_MS}
    lost = sum(outcome[1] for outcome in table.values())
    messages = {era: float(np.median([table[era, seed][2] for seed in seeds])) / 80 for era in ERAS_MS}
    within = all(float(slowest[era].max()) <= bound[era] for era in ERAS_MS)
    shown = [
        Row(
            "sweep-era-1 reaction",
            "specs/mets.md 6.2 (11): at most era + hops × RES interval",
            "; ".join(
                f"{era} ms: {np.median(raised[era]):.2f} s ({raised[era].max():.2f})" for era in ERAS_MS
            )
            + f"; lowered after {1e3 * lowered:.1f} ms at most",
            "the slowest of all seeds within " + ", ".join(f"{b:.2f}" for b in bound.values()) + " s",
            judge(within),
            "raised: median and slowest; the switch lowers as soon as a base layer comes",
        ),
        Row(
            "sweep-era-2 price",
            "–",
            "; ".join(f"{era} ms: {rate:.1f} RES/s" for era, rate in messages.items()),
            "one RES an era",
            judge(all(abs(rate * era / 1e3 - 1) < 0.1 for era, rate in messages.items())),
        ),
        Row(
            "sweep-era-3 base layer",
            "guaranteed",
            f"{lost} frames unsent, lost or late, all receivers, {len(jobs)} runs",
            "0",
            judge(lost == 0),
        ),
    ]
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    positions = range(1, len(ERAS_MS) + 1)
    axis.boxplot(
        [raised[era] for era in ERAS_MS],
        tick_labels=[str(e) for e in ERAS_MS],
        whis=(0, 100),
        medianprops={"color": style.LAYER_COLOURS["BL"]},
    )
    axis.plot(positions, bound.values(), ls="", marker="_", ms=22, color=style.ACCENT, label="bound")
    axis.set(xlabel="era (ms), RES interval a quarter of it", ylabel="until the level is raised (s)")
    axis.set(ylim=(0, None))
    axis.set_title(f"E5, {len(seeds)} seeds: from the end of Flight to level 2", loc="left", fontsize=10)
    axis.legend(loc="upper left")
    return Report("mets/sweep-era", "Sweep: era", shown, style.save(figure, context.path("sweep-era")))


THRESHOLDS = (0.05, 0.125, 0.25, 0.5, 0.75)


@experiment("mets/sweep-efci", title="Threshold of the congestion bit", paper=SPEC)
def sweep_efci(context: Context) -> Report:
    """E5d with other thresholds than a quarter of the queue, which the papers do not give."""
    seeds = context.seed_range(10)
    base = ready_made("e5d")

    def run(job: tuple[float, int]) -> tuple[float, float, int]:
        threshold, seed = job
        links = [dict(link) | {"efci": threshold} for link in base["link"]]
        receivers = [dict(receiver) | {"probe": "backoff"} for receiver in base["receiver"]]
        changed = {"link": links, "receiver": receivers}
        result = layercast.run(base | changed, seed=seed)
        receiver = result.receiver("canyon-at-dwp")
        times = np.append(receiver.levels[:, 0], 120.0)
        held = np.diff(times) @ receiver.levels[:, 1] / (times[-1] - times[0])
        changes = (receiver.levels[:, 0] >= 2).sum() / 118 * 60
        return float(changes), float(held), lost_base([result])

    jobs = [(threshold, seed) for threshold in THRESHOLDS for seed in seeds]
    table = dict(zip(jobs, run_all(context, "thresholds, runs", run, jobs), strict=True))

    def median(threshold: float, what: int) -> float:
        return float(np.median([table[threshold, seed][what] for seed in seeds]))

    lost = sum(outcome[2] for outcome in table.values())
    levels = [median(threshold, 1) for threshold in THRESHOLDS]
    shown = [
        Row(
            "sweep-efci-1 mean level",
            "–",
            "; ".join(f"{t:.0%}: {median(t, 1):.2f}, {median(t, 0):.1f} changes/min" for t in THRESHOLDS),
            "rises with the threshold: later marks, fewer steps down",
            judge(all(b >= a - 0.05 for a, b in itertools.pairwise(levels))),
        ),
        Row(
            "sweep-efci-2 base layer",
            "guaranteed",
            f"{lost} frames lost or late, all receivers, {len(jobs)} runs",
            "0",
            judge(lost == 0),
            "the queue discards E2 from half of it on, E1 from three quarters",
        ),
    ]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.3))
    for axis, what, name in ((left, 1, "mean level"), (right, 0, "level changes a minute")):
        axis.plot(
            THRESHOLDS,
            [median(t, what) for t in THRESHOLDS],
            marker="o",
            color=style.LAYER_COLOURS["BL"],
            clip_on=False,
        )
        axis.set(xlabel="mark above this share of the queue", ylabel=name, ylim=(0, None))
    left.set_title("E5d, probe = backoff", loc="left", fontsize=10)
    return Report(
        "mets/sweep-efci", "Sweep: EFCI threshold", shown, style.save(figure, context.path("sweep-efci"))
    )


TARGETS = (2, 5, 10, 20, 50)
MARGINS = (1.5, 2.0, 3.0, 4.0, 6.0)


@experiment("mets/sweep-late", title="A target for late frames against fixed margins", paper=SPEC)
def sweep_late(context: Context) -> Report:
    """E4's figure of merit (specs/mets.md 8, 4): late frames against mean playout delay."""
    seeds = context.seed_range(10)
    adaptive = {f"{target / 10:g} %": without_r() | {"target_late_permille": target} for target in TARGETS}
    fixed = {f"r = {r:g}": PAPER_FILTER | {"r": r} for r in MARGINS}
    settings: dict[str, Mapping[str, Any]] = adaptive | fixed
    jobs = [(name, seed) for name in settings for seed in seeds]
    runs = run_all(context, "late targets, runs", lambda job: stalled(settings[job[0]], job[1]), jobs)
    found = {
        name: outcome([run for job, run in zip(jobs, runs, strict=True) if job[0] == name])
        for name in settings
    }
    targets = [found[name] for name in adaptive]
    margins = [found[name] for name in fixed]
    near = [abs(o.lost_percent - t / 10) <= max(0.5, t / 20) for o, t in zip(targets, TARGETS, strict=True)]
    ahead = sum(o.delay_ms <= delay_at(margins, o.lost_percent) for o in targets)
    shown = [
        Row(
            "sweep-late-1 the target is met",
            "stated late target (specs/mets.md 2.8, 8)",
            "; ".join(
                f"{name}: {found[name].lost_percent:.1f} % at {found[name].delay_ms:.0f} ms"
                for name in adaptive
            ),
            "within half of it, or 0.5 points",
            judge(all(near)),
            "two stalls of 180 and 250 ms in 60 s are in it",
        ),
        Row(
            "sweep-late-2 against fixed margins",
            "–",
            "; ".join(
                f"{name}: {found[name].lost_percent:.1f} % at {found[name].delay_ms:.0f} ms" for name in fixed
            )
            + f"; {ahead} of {len(targets)} targets need no more delay",
            "no more delay at the same share of late frames, for all targets",
            judge(ahead == len(targets)),
        ),
    ]
    figure, axis = plt.subplots(figsize=(6.2, 3.8))
    for names, outcomes, colour, label in (
        (adaptive, targets, style.LAYER_COLOURS["BL"], "target_late"),
        (fixed, margins, style.ACCENT, "fixed r"),
    ):
        points = [(o.delay_ms, o.lost_percent) for o in outcomes]
        axis.plot(*zip(*points, strict=True), marker="o", color=colour, label=label)
        for name, point in zip(names, points, strict=True):
            axis.annotate(name, point, textcoords="offset points", xytext=(4, 4), fontsize=8, color=colour)
    axis.set(xlabel="mean playout delay (ms)", ylabel="late frames (%)", ylim=(0, None))
    axis.set_title("E4, two stalls; nearer to the origin is better", loc="left", fontsize=10)
    axis.legend()
    return Report(
        "mets/sweep-late", "Sweep: late target", shown, style.save(figure, context.path("sweep-late"))
    )


def without_r() -> dict[str, Any]:
    """The paper's filter without its fixed margin."""
    return {name: value for name, value in PAPER_FILTER.items() if name != "r"}


def delay_at(curve: Sequence[Outcome], lost_percent: float) -> float:
    """The delay at which a curve has this share of late frames, between its points; outside, its end."""
    points = sorted((o.lost_percent, o.delay_ms) for o in curve)
    return float(np.interp(lost_percent, *zip(*points, strict=True)))
