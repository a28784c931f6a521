"""RMTP for thousands of receivers: what the paper says without a figure; models and simulations."""

from __future__ import annotations

import numpy as np

from layercast_lab import group, rmtp
from layercast_lab.experiment import Context, Report, Row, arithmetic, experiment, judge
from layercast_lab.experiments.rmtp_model import PAPER, finish, listed
from layercast_lab.multicast import PACKETS, PACKETS_PER_S, ask, close, paper, sessions
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt


@experiment("rmtp-large-scale/r5", title="Three loss rates", paper=f"{PAPER}, section 4.2")
def r5(context: Context) -> Report:
    """2 Mbyte to 100 receivers that lose nothing, 1 % and 10 %."""
    told = [(0.0, 22, 0, 22.5, 2_000), (0.01, 40, 2, 39.7, 3_288), (0.1, 68, 5, 68.1, 5_480)]
    rows = []
    modelled = []
    for loss, _, retransmissions, computed, packets in told:
        sent = sum(it["packets"] for it in ask("round", points=[(PACKETS, 100, loss, k) for k in range(40)]))
        mean = ask("mean-rounds", points=[(PACKETS, 100, loss)])[0]
        passes = retransmissions + 1
        found = sent / PACKETS_PER_S + 2.0 * passes
        rows.append(
            Row(
                f"e = {100 * loss:g} %, packets at their rate and the paper's passes",
                f"{computed} s: {packets} packets, {passes} times 2 s",
                f"{found:.1f} s: {sent:.0f} packets; {mean:.2f} retransmissions in the mean",
                "as printed",
                arithmetic(close(found, computed, 1) and close(sent, packets, 0)),
            )
        )
        modelled.append(found)
    measured = [seconds for _, seconds, *_ in told]
    made = [rmtp.scenario(100, loss=loss, alpha=1.9, seed=seed) for loss, *_ in told for seed in range(1, 7)]
    runs = run_all(context, "RMTP, R5", group.run, made)
    by_loss = [runs[at : at + 6] for at in range(0, len(runs), 6)]
    sent = [float(np.mean([run["sent"]["data"] for run in part])) for part in by_loss]
    again = [float(np.mean([run["sent"]["rounds"] for run in part])) - 1 for part in by_loss]
    times = [float(np.mean([run["ended_s"] for run in part])) for part in by_loss]
    for (loss, seconds, count, _, _), time, here, part in zip(told, times, again, by_loss, strict=True):
        ends = [run["ended_s"] for run in part]
        rows.append(
            Row(
                f"e = {100 * loss:g} %, simulated",
                f"{seconds} s, {count} retransmissions",
                f"{time:.1f} s ({min(ends):.1f} to {max(ends):.1f}), {here:.1f} retransmissions",
                "5 %",
                judge(abs(time / seconds - 1) <= 0.05),
                "means of six runs; a wait ends when all have answered",
            )
        )
    rows.append(
        Row(
            "simulated: packets; retransmissions",
            "2000 / 3288 / 5480; 0, two, five (the model's mean 0, 2.18, 5.07)",
            f"{listed(sent, 0)}; {listed(again, 1)}",
            "1 %; 0.5",
            judge(
                all(abs(one / told[at][4] - 1) <= 0.01 for at, one in enumerate(sent))
                and all(abs(one - mean) <= 0.5 for one, mean in zip(again, (0, 2.18, 5.07), strict=True))
            ),
            "means of six runs",
        )
    )
    figure, axis = plt.subplots(figsize=(5.2, 3.6))
    places = np.arange(len(told))
    axis.plot(places, measured, MARKERS[0], color=COLOURS[1], ms=7, label="measured in 1996")
    axis.bar(places, modelled, width=0.5, color=COLOURS[2], label="packets at 0.8 Mbit/s, 2 s a pass")
    axis.plot(places, times, "ko", ms=5, mfc="none", label="simulated")
    axis.set_xticks(places, ["0", "1 %", "10 %"])
    path = finish(figure, axis, context.path("rmtp-r5"), xlabel="loss", ylabel="transfer time (s)")
    return Report("rmtp-large-scale/r5", r5.__doc__ or "", rows, path)


@experiment("rmtp-large-scale/r8", title="A satellite's turn-around time", paper=f"{PAPER}, section 4.3")
def r8(context: Context) -> Report:
    """600 ms instead of 100 ms: how much longer 2 Mbyte take."""
    groups = np.unique(np.logspace(1, 4, 40).round()).astype(int)
    near, far = (
        np.array([it["seconds"] for it in sessions([paper(int(n), tat=tat) for n in groups])])
        for tat in (0.1, 0.6)
    )
    one, other = (it["seconds"] for it in sessions([paper(5_000), paper(5_000, tat=0.6)]))
    rows = [
        Row(
            "5000 receivers, all lose",
            "little impact; 99.5 and 104.7 s",
            f"{one:.1f} and {other:.1f} s: {100 * (other / one - 1):.1f} % longer",
            "< 6 %",
            judge(other / one < 1.06),
        )
    ]
    size = 500 if context.seconds else 5_000
    made = [rmtp.scenario(size, delta=0.003, tat_ms=tat, alpha=0.05) for tat in (100, 600)]
    early, late = (run["ended_s"] for run in run_all(context, "RMTP, R8", group.run, made))
    rows.append(
        Row(
            f"simulated, {size} receivers, all lose",
            "5.2 % longer, by the model",
            f"{early:.1f} and {late:.1f} s: {100 * (late / early - 1):.1f} % longer",
            "< 6 %" if size == 5_000 else "none",
            judge(late / early < 1.06) if size == 5_000 else "open",
        )
    )
    figure, axis = plt.subplots(figsize=(6.2, 3.6))
    axis.plot([size, size], [early, late], "ko", ms=5, mfc="none", label="simulated")
    axis.plot(groups, near, color=COLOURS[0], label="TAT 100 ms")
    axis.plot(groups, far, color=COLOURS[1], label="TAT 600 ms")
    look = {"xscale": "log", "xlabel": "receivers", "ylabel": "transfer time (s)", "ylim": (0, None)}
    path = finish(figure, axis, context.path("rmtp-r8"), **look)
    return Report("rmtp-large-scale/r8", r8.__doc__ or "", rows, path)
