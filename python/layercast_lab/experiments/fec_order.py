"""Packet-level FEC: delay of delivery in order, Huitema's figure 6."""

from __future__ import annotations

from layercast_lab import fec, style
from layercast_lab.experiment import Context, Report, Row, arithmetic, experiment, judge
from layercast_lab.experiments.fec_models import LOSSES, PAPER
from layercast_lab.experiments.fec_stalls import WINDOW
from layercast_lab.fec import CODES, ask
from layercast_lab.plots import COLOURS

SAMPLES = {
    1e-3: (0.094, 0.001, 0.0, 0.0),
    1e-2: (0.590, 0.065, 0.002, 0.0),
    5e-2: (1.193, 0.727, 0.195, 0.019),
    1e-1: (1.780, 1.218, 0.724, 0.221),
    2e-1: (2.921, 2.428, 1.602, 0.954),
}
"""Means of specs/packet-level-fec.md 5 in round trips; its last one, 0.955, is not what its formula gives."""


@experiment("packet-level-fec/f6", title="Delay of delivery in order", paper=f"{PAPER}, figure 6")
def f6(context: Context) -> Report:
    """Mean and deviation in round trips of 200 packets: the model, and blocks whose losses come together."""
    packets = 2_000_000 if context.full else 40_000 if context.seconds else 400_000
    rows, marks = [], {name: [] for name in CODES}
    for e, told in SAMPLES.items():
        found = [
            it["mean"] / WINDOW
            for it in ask("reseq", points=[(*code, e, WINDOW, 1.0) for code in CODES.values()])
        ]
        seen = []
        for name, (n, m) in CODES.items():
            study = {"n": n, "m": m, "e": e, "window": WINDOW, "packets": packets, "seed": 1}
            simulated = ask("order", study=study)
            seen.append(simulated["mean"] / WINDOW)
            marks[name].append((e, seen[-1], simulated["mean_with_fill"] / WINDOW))
        same = all(abs(one - other) < 6e-4 for one, other in zip(found, told, strict=True))
        name = f"e = {e:g}: none, 7+1, 6+2, 5+3"
        rows += [
            Row(f"{name}, model", text(told), text(found), "0.0006", arithmetic(same)),
            Row(
                f"{name}, simulated",
                text(told),
                text(seen),
                "each within 5 %, or 0.005 round trips",
                judge(all(near(one, it) for one, it in zip(seen, told, strict=True))),
                "what decoding leaves comes together (fewer stalls), repairs are uncoded (more)",
            ),
        ]
    figure, (left, right) = fec.axes(2)
    for colour, (name, code) in zip(COLOURS, CODES.items(), strict=False):
        points = ask("reseq", points=[(*code, e, WINDOW, 1.0) for e in LOSSES if e < 0.5])
        losses = LOSSES[LOSSES < 0.5]
        left.plot(losses, [it["mean"] / WINDOW for it in points], color=colour, label=name)
        right.plot(losses, [it["deviation"] / WINDOW for it in points], color=colour)
        e, mean, filled = zip(*marks[name], strict=True)
        left.plot(e, mean, "o", color=colour, ms=4, mfc="none")
        left.plot(e, filled, "x", color=colour, ms=4)
    left.plot([], [], "o", color="0.4", mfc="none", label="simulated")
    left.plot([], [], "x", color="0.4", label="with the time to fill a block")
    left.set(xscale="log", xlabel="packet loss rate", ylabel="mean delay (round trips)", ylim=(0, 4))
    right.set(
        xscale="log", xlabel="packet loss rate", ylabel="standard deviation (round trips)", ylim=(0, 1.5)
    )
    left.legend(fontsize=8)
    return Report("packet-level-fec/f6", f6.__doc__ or "", rows, style.save(figure, context.path("fec-f6")))


def near(one: float, reported: float) -> bool:
    """Whether a delay in round trips is the reported one."""
    return abs(one - reported) <= max(0.05 * reported, 5e-3)


def text(values: list[float] | tuple[float, ...]) -> str:
    """Three decimals each."""
    return " ".join(f"{it:.3f}" for it in values)
