"""FEC and congestion control: S4 of specs/packet-level-fec.md."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from layercast_lab import fec, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.fec_models import PAPER
from layercast_lab.fec import CODES, ask
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all

QUEUE, ROUND_TRIP = 30, 100
"""Packets that find room, and the round trip in packet times of the line."""
LOSSES = (0.0, 0.002)
"""Of the path behind the queue."""
COUPLING = {
    "window and signal": (True, True),
    "window only": (True, False),
    "signal only": (False, True),
    "neither": (False, False),
}
"""Whether parities take their part of the window, and what is lost before decoding halves it (2.7)."""
Job = tuple[str, str, float]


@experiment(
    "packet-level-fec/s4",
    title="A protected transfer beside an unprotected one",
    paper=f"{PAPER}, section 6: FEC adds no load and hides no congestion",
)
def s4(context: Context) -> Report:
    """Two transfers that halve their windows at losses share a queue; one has a code, coupled or not."""
    packets = 3_000_000 if context.full else 150_000 if context.seconds else 600_000

    def run(job: Job) -> dict:
        (n, m), (window, signal) = CODES[job[0]], COUPLING[job[1]]
        study = {"n": n, "m": m, "window": window, "signal": signal, "queue": QUEUE, "e": job[2]}
        return ask("share", study=study | {"round_trip": ROUND_TRIP, "packets": packets, "seed": 1})

    jobs: list[Job] = [("none", "window and signal", e) for e in LOSSES]
    jobs += [(name, how, e) for name in list(CODES)[1:] for how in COUPLING for e in LOSSES]
    found = dict(zip(jobs, run_all(context, "packet-level-fec/s4", run, jobs), strict=True))
    return Report("packet-level-fec/s4", s4.__doc__ or "", rows(found), draw(context, found))


def rows(found: Mapping[Job, dict]) -> list[Row]:
    """Fairness and queue, each way of coupling."""
    made = []
    for e in LOSSES:
        alone = found["none", "window and signal", e]
        name = "no loss but the queue's" if e == 0 else f"{100 * e:g} % lost behind the queue"
        made.append(
            Row(
                f"no code, {name}",
                "equal shares",
                text(alone),
                "Jain's index 0.99",
                judge(fairness(alone) >= 0.99),
            )
        )
        for how in COUPLING:
            runs = {code: found[code, how, e] for code in list(CODES)[1:]}
            worst = min(map(fairness, runs.values()))
            queue = max(run["queue"] for run in runs.values())
            if how == "window and signal":
                good = worst >= 0.99 and queue <= 1.1 * alone["queue"] + 0.5
                reported, tolerance = "as if it had none", "index 0.99, queue as without FEC"
            elif how == "signal only":
                # Parities outside of the window are uncontrolled load, but their losses are reported.
                good = queue >= alone["queue"]
                reported, tolerance = "parities add load", "queue longer than without FEC"
            else:
                good = worst < 0.9 and all(run["load"][0] > run["load"][1] for run in runs.values())
                reported, tolerance = (
                    "losses that are hidden are congestion that is hidden",
                    "index below 0.9",
                )
            measured = "; ".join(f"{code}: {text(run)}" for code, run in runs.items())
            made.append(Row(f"{how}, {name}", reported, measured, tolerance, judge(good)))
    return made


def fairness(run: Mapping) -> float:
    """Jain's index of the two loads: 1 if equal, 0.5 if one has all."""
    one, other = run["load"]
    return (one + other) ** 2 / (2 * (one**2 + other**2))


def text(run: Mapping) -> str:
    """Shares of the line, the protected transfer's first, and the queue."""
    one, other = run["load"]
    return f"{100 * one:.0f} and {100 * other:.0f} % (index {fairness(run):.3f}), queue {run['queue']:.1f}"


def draw(context: Context, found: Mapping[Job, dict]) -> str:
    """Shares of the line for each code and coupling, and how long the queue is."""
    figure, panels = fec.axes(2)
    codes = list(CODES)[1:]
    at = np.arange(len(COUPLING))
    for number, code in enumerate(codes):
        runs = [found[code, how, LOSSES[0]] for how in COUPLING]
        place = at + 0.27 * (number - 1)
        loads, colour = np.array([run["load"] for run in runs]), COLOURS[number]
        panels[0].bar(place, loads[:, 0], 0.25, color=colour, label=code)
        panels[0].bar(place, loads[:, 1], 0.25, bottom=loads[:, 0], color=colour, alpha=0.3)
        panels[1].bar(place, [run["queue"] for run in runs], 0.25, color=colour)
    panels[0].bar([0], [0], color="0.5", alpha=0.3, label="the unprotected one")
    alone = found["none", "window and signal", LOSSES[0]]
    panels[0].axhline(alone["load"][0], color="0.3", lw=0.9, ls="--")
    panels[1].axhline(alone["queue"], color="0.3", lw=0.9, ls="--", label="without FEC")
    panels[0].set(ylabel="share of the line", ylim=(0, 1.45))
    panels[1].set(ylabel="packets in the queue (mean)")
    for axis in panels:
        axis.set_xticks(at, [name.replace(" and ", "\nand ").replace(" only", "\nonly") for name in COUPLING])
        axis.legend(fontsize=8, loc="upper left", ncols=2)
    return style.save(figure, context.path("fec-s4"))
