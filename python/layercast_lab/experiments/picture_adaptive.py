"""Parities that follow the loss, and films that begin fast (specs/mpeg-picture-quality.md 2.7, 2.9)."""

from __future__ import annotations

import math
from typing import Any

from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.picture_cells import streams
from layercast_lab.experiments.picture_matrix import residual
from layercast_lab.experiments.picture_switch import PAPER, mean, settings
from layercast_lab.picture import ask, letters
from layercast_lab.simulator import run_all

SIDE = 4
LOW, HIGH = 1e-5, 1e-2
CALM, ROUGH = 20.0, 60.0
"""Seconds at the low loss, and at the high one; the calm at the end is twice as long."""
SEEDS = 20
REVERSE_MS = 20
HYSTERESIS = 10.0
"""Seconds without need after which mode 1 comes back."""


@experiment("mpeg-picture-quality/q10", title="Parities that follow the loss of the path", paper=PAPER)
def q10(context: Context) -> Report:
    """Times at which modes 1 and 2 replace each other when the loss steps up and down."""
    steps = [(CALM, LOW), (ROUGH, HIGH), (2 * CALM, LOW)]
    seeds = context.seed_range(SEEDS)
    with streams() as files:
        path = files["MPEG-2"]

        def one(job: tuple[int, int]) -> dict[str, Any]:
            seed, lost = job
            setting = {
                "steps": steps,
                "rows": SIDE,
                "columns": SIDE,
                "reverse_ms": REVERSE_MS,
                "lost_messages": lost,
                "seed": seed,
            }
            return ask("adaptive", file=str(path), settings=[setting])[0]

        jobs = [(seed, lost) for lost in (0, 2) for seed in seeds]
        found = dict(zip(jobs, run_all(context, "loss that steps", one, jobs), strict=True))
    runs = [found[seed, 0] for seed in seeds]
    rows = [*mode_rows(runs)]
    again = [first_up(found[seed, 2]) - first_up(found[seed, 0]) for seed in seeds]
    typical = sorted(again)[len(again) // 2]
    rows.append(
        Row(
            "two lost messages: later by",
            "2 x 250 ms",
            f"{1000 * typical:.0f} ms (median)",
            "within 100 ms",
            judge(abs(typical - 0.5) <= 0.1),
        )
    )
    return Report("mpeg-picture-quality/q10", "Parities that follow the loss of the path", rows)


def first_up(run: dict[str, Any]) -> float:
    """When mode 2 began first, in seconds from the step up; infinite if it did not."""
    ups = [at for at, code in run["changes"] if code == "even-odd"]
    return ups[0] - CALM if ups else math.inf


def mode_rows(runs: list[dict[str, Any]]) -> list[Row]:
    """Rows of the runs without lost messages."""
    cells = sum(run["steps"][1]["data_cells"] for run in runs) / (ROUGH * len(runs))
    others = SIDE + 1
    failing = 1 - (1 - HIGH) ** others - others * HIGH * (1 - HIGH) ** (others - 1)
    hazard = cells / SIDE * failing
    ups = [first_up(run) for run in runs]
    # A window of a second ends half a second later on average.
    wait = 1 / hazard + 0.5
    took = sum(ups) / len(ups)
    downs = [run["changes"][-1][0] - CALM - ROUGH for run in runs]
    last = [code for run in runs for _, code in run["changes"][-1:]]
    calm = [run for run in runs if all(at >= CALM for at, _ in run["changes"])]
    flaps = [
        sum(CALM + 1 < at < CALM + ROUGH and code == "columns" for at, code in run["changes"]) for run in runs
    ]
    rough = [run["steps"][1] for run in runs]
    left = sum(it["unrepaired"] for it in rough) / sum(it["data_cells"] for it in rough)
    bounds = [residual(code, HIGH, SIDE) for code in ("even-odd", "columns")]
    return [
        Row(
            f"loss {LOW:g}: runs of {CALM:g} s without a change",
            "all: residual losses are 4e-10",
            f"{len(calm)} of {len(runs)}",
            "all",
            judge(len(calm) == len(runs)),
        ),
        Row(
            f"step to {HIGH:g}: time until mode 2",
            f"closed form: {wait:.1f} s, {hazard:.2f} columns a second lose two of {others} cells",
            f"{took:.1f} s; {min(ups):.1f} to {max(ups):.1f} s",
            "within 45 %: two standard errors",
            judge(abs(took / wait - 1) <= 0.45),
        ),
        Row(
            f"{ROUGH:g} s at {HIGH:g}: returns to mode 1",
            f"closed form: {100 * math.exp(-HYSTERESIS * hazard):.3g} % of pauses of {HYSTERESIS:g} s",
            f"{sum(flaps)} in {len(runs)} runs",
            "-",
            "open",
            "mode 1 comes back if column parities would have been enough for 10 s",
        ),
        Row(
            f"{ROUGH:g} s at {HIGH:g}: cells for good lost",
            f"closed forms: {bounds[0]:.3g} (mode 2) to {bounds[1]:.3g} (mode 1)",
            f"{left:.3g}",
            "between these",
            judge(bounds[0] <= left <= bounds[1]),
        ),
        Row(
            f"step to {LOW:g}: time until mode 1",
            f"{HYSTERESIS:g} s after the last block that needed mode 2, in windows of 1 s",
            f"{sum(downs) / len(downs):.1f} s; {min(downs):.1f} to {max(downs):.1f} s",
            "at most 12 s, mode 1 at the end",
            judge(max(downs) <= HYSTERESIS + 2 and set(last) == {"columns"}),
        ),
        Row(
            "times the receiver lost track of the blocks",
            "0",
            f"{sum(run['resyncs'] for run in runs)}",
            "0",
            judge(sum(run["resyncs"] for run in runs) == 0),
        ),
    ]


VIDEOS, BPS, LINK = 20, 4e6, 149.76e6
FAST = {"first_bps": 120_000_000, "first_seconds": 3.0, "then_bps": 4_000_000}
SECONDS = 5.0
SHOWN = ("fifo", "clp", "exclp", "exclp_epd", "whole_gops")


@experiment(
    "mpeg-picture-quality/q11", title="A stored film that begins fast beside live videos", paper=PAPER
)
def q11(context: Context) -> Report:
    """Start-up time of the film and losses of 20 live videos, by policy and smoothing."""
    base = {"sources": VIDEOS, "bps": BPS, "load": VIDEOS * BPS / LINK}
    context = Context(context.out, context.seeds, context.seconds or SECONDS, context.full, context.progress)
    points = [
        (policy, smoothing, fast)
        for policy in SHOWN
        for smoothing in ("none", "gop")
        for fast in (False, True)
    ]
    wanted = [
        base | {"policy": policy, "smoothing": smoothing, "fast_start": FAST if fast else None}
        for policy, smoothing, fast in points
    ]
    found = dict(zip(points, settings(context, wanted), strict=True))
    seconds = context.seconds or SECONDS
    # In Mbit: the load above the link during the fast start, and all that the film sends.
    over = (VIDEOS * BPS + FAST["first_bps"] - LINK) * FAST["first_seconds"] / 1e6
    whole = FAST["first_bps"] * FAST["first_seconds"] + FAST["then_bps"] * (seconds - FAST["first_seconds"])
    slow = 1000 * 12 / 30
    stored = FAST["first_bps"] * FAST["first_seconds"] / FAST["then_bps"] - FAST["first_seconds"]
    rows = []
    for policy, smoothing, fast in points:
        if not fast:
            continue
        runs, alone = found[policy, smoothing, True], found[policy, smoothing, False]
        losses, before = mean(runs, "loss_percent"), mean(alone, "loss_percent")
        film = [run["stored"] for run in runs]
        start, ahead = (mean(film, key)[0] for key in ("first_gop_ms", "ahead_seconds"))
        decodable = [mean(alone, "decodable_percent")[0], mean(runs, "decodable_percent")[0]]
        how = "smoothed over GOPs" if smoothing == "gop" else "not smoothed"
        rate = f"{VIDEOS} live videos {how}, {policy}"
        rows.append(
            Row(
                f"{rate}: losses of the live videos",
                "fast start of 120 Mbit/s for 3 s: ours",
                f"{letters(losses)} (without the film {letters(before)}); "
                f"decodable {decodable[0]:.0f}, then {decodable[1]:.0f} %",
                "-",
                "open",
            )
        )
        if policy == "fifo" and smoothing == "gop":
            both = [mean(videos, "loss_percent")[1] / 100 for videos in (runs, film)]
            lost = (both[0] * VIDEOS * BPS * seconds + both[1] * whole) / 1e6
            apart = max(max(it) - min(it) for it in (losses, mean(film, "loss_percent")))
            rows.append(
                Row(
                    f"{rate}: lost of both, and of each class",
                    f"closed form: {over:.1f} Mbit, the same of each class",
                    f"{lost:.1f} Mbit, classes at most {apart:.1f} points apart",
                    "within 5 % and 3 points",
                    judge(abs(lost / over - 1) <= 0.05 and apart <= 3),
                    "the film is even and loses less than the videos, which are not",
                )
            )
        rows.append(
            Row(
                f"{rate}: first GOP of the film, film in store after 3 s",
                f"{slow:.0f} ms at 4 Mbit/s; at most {stored:.0f} s",
                f"{start:.0f} ms; {ahead:.0f} s; lost {letters(mean(film, 'loss_percent'))}",
                "less than a tenth of the time",
                judge(start < slow / 10),
            )
        )
    kept = [mean(found[policy, "gop", True], "loss_percent")[0] for policy in SHOWN[2:]]
    rows.append(
        Row(
            "smoothed: class S lost beside the fast start, exclp and above",
            "none",
            f"{max(kept):.3f} %",
            "0",
            judge(max(kept) == 0),
        )
    )
    return Report("mpeg-picture-quality/q11", "A stored film that begins fast beside live videos", rows)
