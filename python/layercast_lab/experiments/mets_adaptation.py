"""METS E5: adaptation to the bandwidth that others leave (specs/mets.md 4.8)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment
from layercast_lab.simulator import ready_made, run_all
from layercast_lab.testbed import PAPER

ERA_S = 1.0
FLIGHT_ENDS_S, LOUGHER_STARTS_S, END_S = 20.0, 50.0, 80.0
# One I picture in 12 frames of Canyon at 24 a second; Flight and Lougher have nothing but, 5 a second.
BASE_FRAMES = {"Canyon": 160, "Flight": 100, "Lougher": 150}


@experiment("mets/e5", title="Adaptation of one flow to the bandwidth others leave", paper=PAPER)
def e5(context: Context) -> Report:
    """E5, [N] figure 10 and [P] figure 11: levels of Canyon at dwp over 80 s."""
    # 20 seeds are judged (specs/mets.md 5); 80 more only ask whether the base layer ever suffers.
    judged = context.seeds or 20
    seeds = range(1, (context.seeds or 100) + 1)
    scenario = ready_made("e5")
    results = run_all(context, "E5, seeds", lambda seed: layercast.run(scenario, seed=seed), seeds)

    canyon = [result.receiver("canyon-at-dwp") for result in results[:judged]]
    before = [max_level(receiver, 0.0, FLIGHT_ENDS_S) for receiver in canyon]
    raised = [reached(receiver, 2, FLIGHT_ENDS_S, LOUGHER_STARTS_S) for receiver in canyon]
    lowered = [reached(receiver, 1, LOUGHER_STARTS_S, END_S) for receiver in canyon]
    damage = [base_damage(result) for result in results]

    figure = draw(results[0], context)
    n = len(canyon)
    rows = [
        Row(
            "E5-1 level, 0-20 s",
            "BL of Canyon and Flight only",
            f"level 0 in {sum(level == 0 for level in before)} of {n} seeds",
            "level 0 throughout",
            "reproduced" if all(level == 0 for level in before) else "differs",
            "base layers leave 870 cells/s, E1 needs 960",
        ),
        reaction_row("E5-2 level, 20-50 s", "BL+E1+E2", 2, raised),
        reaction_row("E5-3 level, 50-80 s", "BL+E1", 1, lowered),
        steps_row(canyon),
        Row(
            "E5 base layer",
            "guaranteed",
            f"{sum(damage)} frames unsent, lost or late, all flows, {len(results)} seeds",
            "0",
            "reproduced" if not any(damage) else "differs",
            "flow and era phases are random in every seed",
        ),
    ]
    return Report("mets/e5", "METS E5: adaptation (levels of Canyon at dwp)", rows, figure)


def base_damage(result: layercast.Result) -> int:
    """Base-layer frames that a source owed and did not send, and those lost or late on the way."""
    owed = sum(BASE_FRAMES[flow["name"]] - flow["source"]["sent"]["BL"] for flow in result.summary["flows"])
    return owed + lost_base([result])


def lost_base(results: Sequence[layercast.Result]) -> int:
    """Base-layer frames lost or late at any receiver."""
    receivers = [receiver for result in results for receiver in result.receivers]
    return sum(int(r.count("lost")[0]) + r.data["late_base"] for r in receivers)


def max_level(receiver: layercast.Receiver, start: float, end: float) -> int:
    """The highest level in force at any time in [start, end)."""
    inside = receiver.levels[(receiver.levels[:, 0] >= start) & (receiver.levels[:, 0] < end), 1]
    return int(max([receiver.level_at(start) or 0, *inside]))


def reached(receiver: layercast.Receiver, level: int, start: float, end: float) -> float | None:
    """Seconds after `start` from which `level` is in force until `end`; None if it is not."""
    inside = receiver.levels[(receiver.levels[:, 0] >= start) & (receiver.levels[:, 0] < end)]
    last = receiver.level_at(end - 1e-9)
    if last != level:
        return None
    return float(inside[-1, 0] - start) if len(inside) else 0.0


def reaction_row(name: str, reported: str, level: int, after: list[float | None]) -> Row:
    """The row of a level that must be reached within two eras of its cause and then stay."""
    times = [time for time in after if time is not None]
    ok = len(times) == len(after) and max(times) <= 2 * ERA_S
    span = f"after {np.median(times):.2f} s (median), {max(times):.2f} s (worst)" if times else "never"
    return Row(
        name,
        reported,
        f"level {level} in {len(times)} of {len(after)} seeds, {span}",
        "2 eras = 2 s",
        "reproduced" if ok else "differs",
    )


def steps_row(receivers: Sequence[layercast.Receiver]) -> Row:
    """E5-4, of which the papers give no number: what a viewer sees of the steps."""
    steps = [int(np.sum(receiver.levels[1:, 1] != receiver.levels[:-1, 1])) for receiver in receivers]
    inside = sum(receiver.data["off_boundary"] for receiver in receivers)
    return Row(
        "E5-4 steps",
        "noticeable, acceptable to casual users (qualitative)",
        f"{np.median(steps):.0f} steps ({min(steps)} to {max(steps)}) in 80 s, {inside} inside a GOP",
        "one for each change of the network, at GOP starts",
        # A statement about viewers; none was asked.
        "open",
        "2, then 24, then 8 pictures/s are played; viewers were not asked",
    )


def draw(result: layercast.Result, context: Context) -> str:
    """Level, and what each layer brought, against time for one seed."""
    canyon = result.receiver("canyon-at-dwp")
    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(7.2, 4.6), height_ratios=[1, 1.6])
    levels = np.vstack([canyon.levels, [END_S, canyon.levels[-1, 1]]])
    top.step(levels[:, 0], levels[:, 1], where="post", color=style.ACCENT, lw=2)
    top.set(yticks=[0, 1, 2], yticklabels=["BL", "BL+E1", "BL+E1+E2"], ylim=(-0.3, 2.4))
    top.set_title("Canyon at dwp, capacity 3500 cells/s on rook→dwp (seed 1)", loc="left", fontsize=10)
    style.layers(bottom, canyon.series)
    bottom.set(xlabel="time (s)", ylabel="delivered (cells/s)", xlim=(0, END_S))
    bottom.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    for axis in (top, bottom):
        for time in (FLIGHT_ENDS_S, LOUGHER_STARTS_S):
            axis.axvline(time, color="#667085", ls=":", lw=1.2)
    top.text(FLIGHT_ENDS_S + 0.5, -0.22, "Flight ends", fontsize=8.5, color="#667085")
    top.text(LOUGHER_STARTS_S + 0.5, -0.22, "Lougher starts", fontsize=8.5, color="#667085")
    return style.save(figure, context.path("e5"))
