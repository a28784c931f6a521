"""RMTP: responses that overflow the server, and parities instead of the packets themselves, in models."""

from __future__ import annotations

import numpy as np

from layercast_lab import group, rmtp, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.rmtp_model import PAPER
from layercast_lab.multicast import PACKETS, PACKETS_PER_S, ask, paper, sessions
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

SERVICE = 1 / 460e-6
"""Responses per second: 230 µs of system time each, and as much of the process."""
CHARGED, UNCHARGED = 100, 8_533
"""Responses in 50 kbytes: at 512 octets of buffer each, and at the 6 octets that a CACK has."""
DELTAS = np.logspace(-5, -2, 46)


def connection(receivers: int, delta: float, buffer: int) -> float:
    """Seconds until all have answered CONN."""
    held = {"packets": buffer, "service": SERVICE}
    model = paper(receivers, lossy=100, alpha=1.9) | {"delta": delta, "buffer": held}
    return sessions([model])[0]["connection"]["seconds"]


def set_up(context: Context, receivers: int, deltas: np.ndarray) -> list[float]:
    """The same of the machines, for each back-off: 50 kbytes of buffer, 512 octets a response."""
    source = {"take_control": "460us", "send_control": "140us", "buffer": "50 kB"}
    told = {"lossy": 100, "packets": 1, "alpha": 1.9, "source": source}
    again = {"opening_wait": "2s", "opening_tries": 500}
    made = [rmtp.scenario(receivers, delta=float(delta), **told, **again) for delta in deltas]
    return [run["opened_s"] for run in run_all(context, "RMTP, R4", group.run, made)]


@experiment("rmtp-large-scale/r4", title="Back-off and overflow", paper=f"{PAPER}, Figure 6")
def r4(context: Context) -> Report:
    """Time until all have answered CONN against the range of the back-off: the model with a finite buffer."""
    groups = (1_000, 5_000, 8_000)
    curves = {n: np.array([connection(n, delta, CHARGED) for delta in DELTAS]) for n in groups}
    rows = []
    for receivers, curve in curves.items():
        best = int(np.argmin(curve))
        ends = curve[0] / curve[best], curve[-1] / curve[best]
        rows.append(
            Row(
                f"{receivers} receivers",
                "U: drastic if too short, linear if too long",
                f"least {curve[best]:.1f} s at {receivers * DELTAS[best]:.1f} s "
                f"({1e3 * DELTAS[best]:.2f} ms each); {ends[0]:.1f} and {ends[1]:.1f} times that at the ends",
                "1.5 times at both ends",
                judge(min(ends) >= 1.5),
                "the time of a response's service is 0.46 ms",
            )
        )
    for receivers in groups[1:]:
        lost = ask(
            "overflow",
            delta=2e-4,
            buffers=[{"packets": size, "service": SERVICE} for size in (CHARGED, UNCHARGED)],
            responses=[receivers],
        )
        rows.append(
            Row(
                f"{receivers} receivers, 0.2 ms each",
                "overflow, though 8533 responses fit",
                f"{lost[0][0]:.0f} lost if each takes 512 octets of the 50 kbytes, {lost[1][0]:.0f} if 6",
                "some with, none without",
                judge(lost[0][0] > 1 > lost[1][0]),
                "512 is a decision of specs/rmtp-large-scale.md 6: buffers are charged more than the octets",
            )
        )
    deltas = np.logspace(-5, -2, 4 if context.seconds else 10)
    simulated = {n: set_up(context, n, deltas) for n in (groups[:1] if context.seconds else groups)}
    for receivers, seconds in simulated.items():
        best = int(np.argmin(seconds))
        ends = seconds[0] / seconds[best], seconds[-1] / seconds[best]
        rows.append(
            Row(
                f"simulated, {receivers} receivers",
                "U: drastic if too short, linear if too long",
                f"least {seconds[best]:.1f} s at {1e3 * deltas[best]:.2f} ms each; "
                f"{ends[0]:.1f} and {ends[1]:.1f} times that at the ends",
                "1.5 times at both ends",
                judge(min(ends) >= 1.5),
                "a silent receiver is polled again, once per back-off",
            )
        )
    figure, axis = plt.subplots(figsize=(6.2, 3.9))
    for colour, (receivers, curve) in zip(COLOURS, curves.items(), strict=False):
        axis.plot(1e3 * DELTAS, curve, color=colour, label=f"{receivers:,} receivers, room for {CHARGED}")
        if receivers in simulated:
            axis.plot(1e3 * deltas, simulated[receivers], "o", color=colour, ms=4.5, mfc="none")
    axis.plot([], [], "o", color="0.4", ms=4.5, mfc="none", label="simulated")
    few = DELTAS[::5]
    roomy = [connection(5_000, delta, UNCHARGED) for delta in few]
    axis.plot(1e3 * few, roomy, ":", color=COLOURS[1], label=f"5,000 receivers, room for {UNCHARGED:,}")
    axis.axvline(0.46, color="0.8", lw=0.9)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="back-off per receiver (ms)",
        ylabel="until all have answered (s)",
        ylim=(0.3, 600),
    )
    axis.legend(fontsize=8.5)
    path = style.save(figure, context.path("rmtp-r4"))
    return Report("rmtp-large-scale/r4", r4.__doc__ or "", rows, path)


@experiment(
    "rmtp-large-scale/r11", title="Parities instead of the union", paper="specs/rmtp-large-scale.md 8, ours"
)
def r11(context: Context) -> Report:
    """Packets sent per packet of the object if fresh parities of blocks of 100 repair, not the union."""
    groups = np.unique(np.logspace(0, 6, 50).round()).astype(int)
    points = {n: (int(n), PACKETS, 0.01, PACKETS_PER_S, 0.1, 0.0) for n in (1_000, 5_000)}
    thousand, many = ask("estimate", points=list(points.values()))
    rows = [
        Row(
            "5000 receivers, 1 %",
            "2.40 with the union, about 1.06 to 1.07 with parities",
            f"{many['transmissions']:.3f} and {many['with_parities']:.4f}",
            "2.40 and 1.06 to 1.07",
            judge(abs(many["transmissions"] - 2.4) < 0.005 and 1.06 <= many["with_parities"] <= 1.07),
        ),
        Row(
            "1000 receivers, 1 %",
            "at most 1.10, 2.10 without FEC",
            f"{thousand['with_parities']:.4f}, {thousand['transmissions']:.3f} without",
            "as said",
            judge(thousand["with_parities"] <= 1.1 and abs(thousand["transmissions"] - 2.1) < 0.01),
            "a bar of ours",
        ),
    ]
    sizes = (10, 100) if context.seconds else (10, 100, 1_000)
    cases = [
        (how, loss, size) for how in ("union", "parity") for loss in (0.001, 0.01, 0.05) for size in sizes
    ]
    sent = dict(zip(cases, run_all(context, "RMTP, R11", repaired, cases), strict=True))
    told = {
        (how, loss, size): ask("estimate", points=[(size, PACKETS, loss, PACKETS_PER_S, 0.1, 0.0)])[0][
            "transmissions" if how == "union" else "with_parities"
        ]
        for how, loss, size in cases
    }
    off = max((sent[case] / told[case] - 1 for case in cases), key=abs)
    rows.append(
        Row(
            f"simulated, {len(cases)} points",
            "the models",
            f"at most {100 * off:+.2f} % off",
            "2 %",
            judge(abs(off) <= 0.02),
            "the profiles rmtp and, with parities, layercast",
        )
    )
    figure, axis = plt.subplots(figsize=(6.2, 3.9))
    for (how, loss, size), it in sent.items():
        colour = COLOURS[(0.001, 0.01, 0.05).index(loss)]
        axis.plot([size], [it], "o" if how == "union" else "s", color=colour, ms=4.5, mfc="none")
    for colour, loss in zip(COLOURS, (0.001, 0.01, 0.05), strict=False):
        found = ask("estimate", points=[(int(n), PACKETS, loss, PACKETS_PER_S, 0.1, 0.0) for n in groups])
        axis.plot(
            groups, [it["transmissions"] for it in found], color=colour, label=f"union, {100 * loss:g} %"
        )
        axis.plot(groups, [it["with_parities"] for it in found], "--", color=colour, label="parities")
    axis.set(
        xscale="log", xlabel="receivers", ylabel="packets sent per packet of the object", ylim=(0.9, None)
    )
    axis.plot([], [], "o", color="0.4", ms=4.5, mfc="none", label="simulated")
    axis.legend(fontsize=8.5, ncols=4)
    path = style.save(figure, context.path("rmtp-r11"))
    return Report("rmtp-large-scale/r11", r11.__doc__ or "", rows, path)


def repaired(case: tuple[str, float, int]) -> float:
    """Packets sent for each of the object, simulated, by repair, loss and receivers."""
    how, loss, size = case
    branches = group.tree(("receiver", size, 1, loss))
    if how == "union":
        return group.transmissions(branches, PACKETS)
    session = {"profile": "layercast", "packets": PACKETS, "rate": "8 Mbit/s"}
    return group.run(group.scenario("parities", session, branches))["transmissions_per_packet"]
