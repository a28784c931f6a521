"""The figure of METS E4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import style

if TYPE_CHECKING:
    from layercast_lab.experiment import Context
    from layercast_lab.experiments.mets_jitter import Outcome
    from layercast_lab.simulator import Frames

FROM_S, TO_S = 42.0, 44.2


def draw(
    frames: Frames,
    outcomes: Mapping[str, list[tuple[dict[str, float], Outcome]]],
    stalls: Sequence[tuple[float, float]],
    context: Context,
) -> str:
    """Arrivals and playout around the stalls, D over the minute around, and the sweeps."""
    figure = plt.figure(figsize=(7.6, 6.4))
    grid = figure.add_gridspec(2, 2, height_ratios=[1.5, 1])
    around_stalls(figure.add_subplot(grid[0, :]), frames, stalls)
    playout_delay(figure.add_subplot(grid[1, 0]), frames, stalls)
    sweeps(figure.add_subplot(grid[1, 1]), outcomes)
    return style.save(figure, context.path("e4"))


def around_stalls(axis: plt.Axes, frames: Frames, stalls: Sequence[tuple[float, float]]) -> None:
    """Times of arrival and playout by frame number."""
    seen = (frames.sent >= FROM_S) & (frames.sent < TO_S)
    late = seen & ~np.isnan(frames.arrived) & np.isnan(frames.played)
    for at, length in stalls:
        axis.axhspan(at, at + length, color="#f1efe9", lw=0)
    axis.plot(frames.seq[seen], frames.emitted[seen], color="#98a2b3", lw=1, ls=":", label="emission")
    axis.plot(
        frames.seq[seen],
        frames.played[seen],
        "-",
        marker=".",
        ms=3,
        color=style.LAYER_COLOURS["E1"],
        lw=1.6,
        label="playout",
    )
    axis.plot(
        frames.seq[seen], frames.arrived[seen], ".", ms=4, color=style.LAYER_COLOURS["BL"], label="arrival"
    )
    axis.plot(
        frames.seq[late], frames.arrived[late], "x", ms=6, color=style.ACCENT, label="arrival, too late"
    )
    axis.set(xlabel="frame", ylabel="time (s)")
    axis.set_title("Lougher with four others, receiver stalls shaded (seed 1)", loc="left", fontsize=10)
    axis.legend(loc="upper left")


def playout_delay(axis: plt.Axes, frames: Frames, stalls: Sequence[tuple[float, float]]) -> None:
    """Playout delay and one-way delay against time."""
    axis.plot(
        frames.sent, (frames.arrived - frames.emitted) * 1e3, ".", ms=1.5, color="#98a2b3", label="delay"
    )
    axis.plot(
        frames.sent,
        (frames.played - frames.emitted) * 1e3,
        color=style.LAYER_COLOURS["E1"],
        lw=1.5,
        label="D",
    )
    axis.set(xlabel="time (s)", ylabel="ms", xlim=(stalls[0][0] - 7, stalls[0][0] + 12), ylim=(0, None))
    axis.legend(loc="upper left")


def sweeps(axis: plt.Axes, outcomes: Mapping[str, list[tuple[dict[str, float], Outcome]]]) -> None:
    """Late frames against mean playout delay, one curve for each coefficient."""
    colours = (style.ACCENT, style.LAYER_COLOURS["E1"], style.LAYER_COLOURS["BL"])
    for (name, members), colour in zip(outcomes.items(), colours, strict=True):
        x = [outcome.delay_ms for _, outcome in members]
        y = [outcome.lost_percent for _, outcome in members]
        axis.plot(
            x, y, marker="o", ms=4, lw=1.2, color=colour, label=f"{name}: {first(members)} to {last(members)}"
        )
    axis.set(xlabel="mean D (ms)", ylabel="late (%)", ylim=(0, None))
    axis.legend(fontsize=8)


def first(members: list[tuple[dict[str, float], Outcome]]) -> str:
    """The smallest setting, in short."""
    return setting(members[0][0])


def last(members: list[tuple[dict[str, float], Outcome]]) -> str:
    """The largest setting, in short."""
    return setting(members[-1][0])


def setting(values: dict[str, float]) -> str:
    """Numbers of a setting; gains as fractions."""
    return ", ".join(f"{v:g}" if v >= 1 else f"1/{1 / v:g}" for v in values.values())
