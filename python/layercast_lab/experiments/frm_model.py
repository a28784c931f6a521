"""FRM: the group size that its sender keeps up with, by the model of the specification."""

from __future__ import annotations

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.multicast import ask
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

PAPER = "J. F. de Rezende et al., Fully reliable multicast in heterogeneous environments, PfHSN 1996"
SPACING = 0.010
TABLE_1 = {
    "data": 0.0015,
    "echo": 0.0005,
    "control": 0.0005,
    "evaluate": 0.0005,
    "delay": 0.015,
    "spacing": SPACING,
    "buffer": 32,
    "k": 1.5,
}
"""The paper's simulation (table 1), with k = 1.5."""
CALIBRATED = {1.1: 200, 1.5: 140, 2.0: 100}
"""Knees that simulations of the specification found, by k."""


@experiment(
    "fully-reliable-multicast/sanity", title="When the sender cannot keep up", paper=f"{PAPER}, section 4"
)
def sanity(context: Context) -> Report:
    """The longest wait for a buffer's release against the group: a full buffer stops the source."""
    groups = np.linspace(1, 300, 150)
    models = [TABLE_1 | {"k": k} for k in CALIBRATED]
    answers = ask("frm", models=models, receivers=list(groups))
    knees = [it["knee"] for it in answers]
    rows = [
        Row(
            "B = 32, k = 1.5",
            "150 receivers; the model 128",
            f"{knees[1]:.1f}",
            "128, as the model gives; 150 within 20 %",
            judge(round(knees[1]) == 128 and abs(knees[1] / 150 - 1) < 0.2),
            "the longest wait is taken for each packet: a lower bound",
        )
    ]
    for (k, told), knee in zip(CALIBRATED.items(), knees, strict=True):
        rows.append(
            Row(
                f"k = {k:g} beside simulations",
                f"about {told}",
                f"{knee:.0f}",
                "lower, by at most a third",
                judge(2 / 3 * told <= knee <= told),
            )
        )
    figure, axis = plt.subplots(figsize=(6.2, 3.9))
    for colour, k, answer in zip(COLOURS, CALIBRATED, answers, strict=False):
        axis.plot(groups, 1e3 * np.array(answer["release"]), color=colour, label=f"k = {k:g}")
        axis.plot([answer["knee"]], [1e3 * 32 * SPACING], "o", color=colour, ms=5)
        axis.axvline(CALIBRATED[k], color=colour, lw=0.8, ls=":")
    axis.axhline(1e3 * 32 * SPACING, color="0.4", lw=0.9)
    axis.text(4, 330, "32 packets of the source", fontsize=8.5, color="0.4")
    axis.plot([], [], ":", color="0.5", lw=0.8, label="knee of simulations")
    axis.set(xlabel="receivers", ylabel="longest wait for release (ms)", ylim=(0, 700))
    axis.legend(fontsize=8.5)
    path = style.save(figure, context.path("frm-sanity"))
    return Report("fully-reliable-multicast/sanity", sanity.__doc__ or "", rows, path)
