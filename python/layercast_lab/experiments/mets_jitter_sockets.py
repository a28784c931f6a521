"""METS E4 on real sockets (specs/mets.md 3.3, 4.7 and section 5): a receiver that stalls in real time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import sockets, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.mets_jitter import GOP_FRAMES, outcome, playout_ms, stall_rows
from layercast_lab.experiments.mets_jitter_figure import around_stalls, playout_delay
from layercast_lab.experiments.mets_jitter_scenarios import FLOWS, PAPER_FILTER, STALLS
from layercast_lab.simulator import Frames
from layercast_lab.sockets import RECEIVER_1996, SENDER_1996, Run
from layercast_lab.testbed import GOP, PAPER, video_sizes

FRAME_RATE = 24
REPEATS = 5
MARGINS = (2.0, 3.0, 4.0)
# The quiet part before is shorter than in the papers: what is 42.6 s there comes after 12.6 s.
SKIPPED_S = 30.0
SECONDS = 25.0
# A process that wakes later than this plays late.
WAKES_MS = 2.0
AT_ONCE = 4
# A stall delays and does not lose (specs/mets.md 4.7): the interface holds whatever comes in it.
RECEIVER = RECEIVER_1996 | {"nic_cells": 0}


@experiment("mets/e4-sockets", title="E4 on sockets: the jitter filter when the receiver stalls", paper=PAPER)
def e4_sockets(context: Context) -> Report:
    """E4 over loopback: the emulated receiver stalls as specs/mets.md 4.7 decided, only 30 s earlier."""
    seeds = context.seed_range(REPEATS)
    jobs = [(PAPER_FILTER | {"r": r}, seed) for r in MARGINS for seed in seeds]
    runs = sockets.run_together(context, "E4 on sockets", lambda job: stalled(*job), jobs, AT_ONCE)
    flows = [measured(run) for run in runs]
    by_r = {r: flows[i * len(seeds) : (i + 1) * len(seeds)] for i, r in enumerate(MARGINS)}
    outcomes = [outcome(of_r) for of_r in by_r.values()]
    told = zip(MARGINS, outcomes, strict=True)
    more, fewer = np.diff([one.delay_ms for one in outcomes]), np.diff([one.lost_percent for one in outcomes])
    rows = [
        *stall_rows(by_r[2.0])[:2],
        *playout_rows(by_r[2.0]),
        Row(
            "E4-4 larger r",
            "fewer losses, more delay and buffer",
            "; ".join(
                f"r = {r:g}: {one.lost_percent:.1f} % late, D {one.delay_ms:.0f} ms" for r, one in told
            ),
            "monotone",
            judge(bool((more > 0).all() and (fewer < 0).all())),
        ),
        sockets.kernel_row(runs),
    ]
    return Report(
        "mets/e4-sockets",
        "METS E4 on sockets: the jitter filter around two stalls",
        rows,
        draw(by_r[2.0][0], context),
    )


def playout_rows(runs: list[Frames]) -> list[Row]:
    """E4-3. A frame is played when its process wakes, so D is the least that frames of a half GOP show."""
    gops = [halves_ms(frames) for frames in runs]
    moved = sum(int((gop[:, 2] - gop[:, 1] > WAKES_MS).sum()) for gop in gops)
    first, over = STALLS[0][0], sum(STALLS[1])
    back = []
    for gop in gops:
        before = np.median(gop[(gop[:, 0] > first - 2) & (gop[:, 0] < first - 0.5), 1])
        # The first GOP that is back: this machine may stand still later, which is not for this row.
        fine = gop[(gop[:, 0] >= over) & (gop[:, 1:].min(axis=1) <= 2 * before), 0]
        back.append(fine.min() - over if len(fine) else np.inf)
    return [
        Row(
            "E4-3 D within a GOP",
            "adjusted at GOP starts only",
            f"D grew inside {moved} of {sum(map(len, gops))} GOPs",
            "0",
            judge(moved == 0),
            f"by more than {WAKES_MS:g} ms from one half to the other; processes wake late",
        ),
        Row(
            "E4-3 recovery",
            "quickly back on track",
            f"D within twice its old value {np.median(back):.1f} s after the second stall "
            f"({min(back):.1f} to {max(back):.1f})",
            "at most 6 s (K = 8)",
            judge(float(np.median(back)) <= 6),
        ),
    ]


def halves_ms(frames: Frames) -> np.ndarray:
    """Of each GOP: when it began, and D in its first and in its second half."""
    playout, found = playout_ms(frames), []
    for number in np.unique(frames.seq // GOP_FRAMES):
        of_gop = frames.seq // GOP_FRAMES == number
        half = frames.seq % GOP_FRAMES < GOP_FRAMES // 2
        parts = [playout[of_gop & part] for part in (half, ~half)]
        if all((~np.isnan(part)).any() for part in parts):
            found.append([frames.sent[of_gop].min(), *(np.nanmin(part) for part in parts)])
    return np.array(found).reshape(-1, 3)


def stalled(setting: Mapping[str, float], seed: int) -> Run:
    """Five Lougher flows to a receiver that stalls twice; the first is played by the filter."""
    rng = np.random.default_rng([seed, FLOWS])
    entries = [
        sockets.flow(
            video_sizes("lougher", round(SECONDS * FRAME_RATE), rng),
            FRAME_RATE,
            start=rng.uniform(0, len(GOP) / FRAME_RATE),
            shaping={"b": 17, "p": 1},
            types=GOP,
            delay_max_ms=0,
        )
        for _ in range(FLOWS)
    ]
    return sockets.run(
        {
            "seconds": SECONDS + 1,
            "seed": seed,
            "flows": entries,
            "sender": SENDER_1996,
            "receiver": RECEIVER,
            "stalls": [(at - SKIPPED_S, length) for at, length in STALLS],
            "playout": dict(setting),
            "frames": True,
        }
    )


def measured(run: Run) -> Frames:
    """The frames of the first flow, at the times they have in the papers."""
    frames = run.flows[0]
    later = {name: getattr(frames, name) + SKIPPED_S for name in ("sent", "arrived", "emitted", "played")}
    return replace(frames, **later)


def draw(frames: Frames, context: Context) -> str:
    """Arrivals and playout around the stalls, and D before and after."""
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(7.6, 6.2), height_ratios=[1.5, 1])
    around_stalls(upper, frames, STALLS)
    playout_delay(lower, frames, STALLS)
    upper.set_title(
        "Lougher with four others over loopback, stalls shaded (first run)", loc="left", fontsize=10
    )
    return style.save(figure, context.path("e4-sockets"))
