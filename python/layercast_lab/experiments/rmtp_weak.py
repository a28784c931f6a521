"""RMTP, not in its paper: receivers that hold the others back, and groups in which all lose packets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layercast_lab import group, rmtp, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.rmtp_rates import session
from layercast_lab.multicast import PACKETS, ask, paper, sessions
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

WEAK = (0.0, 0.01, 0.05, 0.2)
"""Shares of receivers that are weak."""
POSTPONE = {"postpone": {"missing": 0.1, "polls": 8}}


def served(kind: str, share: float, receivers: int, packets: int) -> tuple[float, float, int]:
    """When the last of the normal receivers had all, and the last of all; how many it was delivered to."""
    weak = round(share * receivers)
    normal = {"name": "normal", "count": receivers - weak, "loss": 0.01, "delay": "45ms"}
    other = {"name": "weak", "count": weak, "loss": 0.3 if kind != "busy" else 0.01, "delay": "45ms"}
    keep = "keep" if kind == "together" else POSTPONE
    # With three tries a receiver that loses 30 % would be declared dead once in 120 rounds.
    told = session(packets, weak=keep, delta="0.5ms", alpha="100ms", tries=9)
    branches = [normal, other] if weak else [normal]
    made = group.scenario(kind, told, branches, 1, run={"per_receiver": True})
    if kind == "busy" and weak:
        which = f"{receivers - weak + 1}..{receivers}"
        made["fault"] = [
            {"at": "1s", "receivers": which, "what": "busy"},
            {"at": "30s" if packets == PACKETS else "6s", "receivers": which, "what": "ready"},
        ]
    result = group.run(made)
    done = [it["complete_s"] or np.nan for it in result["members"]]
    return float(np.max(done[: receivers - weak])), float(np.max(done)), result["outcomes"]["delivered"]


@experiment("rmtp-large-scale/r9", title="Weak receivers, served together or afterwards", paper="ours")
def r9(context: Context) -> Report:
    """1, 5 and 20 % of 200 receivers lose 30 %, or are busy for half a minute: what the others pay."""
    receivers, packets = (100, 500) if context.seconds else (200, 2_000)
    kinds = {
        "together": "lose 30 %, served with all",
        "apart": "lose 30 %, postponed",
        "busy": "busy for half a minute",
    }
    jobs = [(kind, share) for kind in kinds for share in WEAK]

    def one(job: tuple[str, float]) -> tuple[float, float, int]:
        return served(*job, receivers, packets)

    runs = dict(zip(jobs, run_all(context, "rmtp-large-scale/r9, runs", one, jobs), strict=True))
    alone = runs[("apart", 0.0)][0]
    rows = []
    for share in WEAK[1:]:
        together, apart, busy = (runs[(kind, share)] for kind in kinds)
        whole = all(it[2] == receivers for it in (together, apart, busy))
        held = apart[0] / alone - 1, busy[0] / alone - 1, together[0] / alone - 1
        rows.append(
            Row(
                f"{100 * share:g} % weak: the last of the others, the last of all",
                f"the others are not held back ({alone:.1f} s without weak ones)",
                f"together {together[0]:.1f}, {together[1]:.1f} s; "
                f"postponed {apart[0]:.1f}, {apart[1]:.1f} s; busy {busy[0]:.1f}, {busy[1]:.1f} s",
                "postponed and busy: 15 % at most, less than together; all delivered",
                judge(whole and max(held[:2]) <= 0.15 and held[0] < held[2]),
            )
        )
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.5), sharey=True)
    draw(axes, runs, kinds)
    path = style.save(figure, context.path("rmtp-r9"))
    return Report("rmtp-large-scale/r9", r9.__doc__ or "", rows, path)


def draw(axes: Sequence[plt.Axes], runs: dict, kinds: dict[str, str]) -> None:
    """Bars for each share: the normal receivers, and all."""
    places = np.arange(len(WEAK))
    for number, (axis, title) in enumerate(zip(axes, ("last of the others", "last of all"), strict=True)):
        for at, (colour, (kind, label)) in enumerate(zip(COLOURS, kinds.items(), strict=False)):
            heights = [runs[(kind, share)][number] for share in WEAK]
            axis.bar(places + 0.27 * (at - 1), heights, width=0.25, color=colour, label=label)
        axis.set_xticks(places, [f"{100 * share:g} %" for share in WEAK])
        axis.set(title=title, xlabel="weak receivers")
    axes[0].set(ylabel="seconds")
    axes[0].legend(fontsize=8)


@experiment("rmtp-large-scale/r10", title="All receivers lose, not only a hundred", paper="ours")
def r10(context: Context) -> Report:
    """Time, packets and polls of groups in which all receivers lose the same share of packets."""
    losses, sizes = (0.001, 0.01, 0.1), (10, 100) if context.seconds else (10, 100, 1_000, 5_000)
    jobs = [(size, loss) for loss in losses for size in sizes]
    # The range of the back-off is for those that are waited for, as the model has it.
    told = {"alpha": 0.05, "unasked": False, "goodbye": False}
    made = [rmtp.scenario(size, loss=loss, **told) for size, loss in jobs]
    runs = dict(zip(jobs, run_all(context, "RMTP, R10", group.run, made), strict=True))
    rows, seconds = [], {}
    for size, loss in jobs:
        run, model = runs[(size, loss)], sessions([paper(size, loss=loss)])[0]["seconds"]
        seconds[(size, loss)] = model
        points = [(PACKETS, size, loss, k) for k in range(40)]
        packets = sum(it["packets"] for it in ask("round", points=points))
        off = run["ended_s"] / model - 1, run["sent"]["data"] / packets - 1
        whole = run["outcomes"]["delivered"] == size
        rows.append(
            Row(
                f"{size} receivers, e = {100 * loss:g} %",
                f"{model:.1f} s, {packets:.0f} packets by the model",
                f"{run['ended_s']:.1f} s, {run['sent']['data']} packets, {run['sent']['rounds']} passes, "
                f"{run['sent']['polls_each']} polls of one",
                "10 % of the time, 3 % of the packets, all delivered",
                judge(whole and abs(off[0]) <= 0.1 and abs(off[1]) <= 0.03),
            )
        )
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.7))
    for colour, mark, loss in zip(COLOURS, MARKERS, losses, strict=False):
        mine = [runs[(size, loss)] for size in sizes]
        label = f"{100 * loss:g} %"
        axes[0].plot(sizes, [seconds[(size, loss)] for size in sizes], color=colour, label=f"model, {label}")
        axes[0].plot(
            sizes, [run["ended_s"] for run in mine], mark, color=colour, mfc="none", label="simulated"
        )
        polls = [max(run["sent"]["polls_each"], 0.5) for run in mine]
        axes[1].plot(sizes, polls, mark + "-", color=colour, label=label)
    axes[0].set(xscale="log", xlabel="receivers", ylabel="transfer time (s)", ylim=(0, None))
    axes[1].set(xscale="log", yscale="log", xlabel="receivers", ylabel="polls of single receivers")
    for axis in axes:
        axis.legend(fontsize=8)
    path = style.save(figure, context.path("rmtp-r10"))
    return Report("rmtp-large-scale/r10", r10.__doc__ or "", rows, path)
