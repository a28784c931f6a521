"""RMTP: how fast to send, by hand and by monitor bits, and receivers that hold the others back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layercast_lab import group, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.rmtp_model import PAPER
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

BUFFER = "50 kB"
SERVER = {"send_data": "140us", "send_control": "140us", "take_control": "460us", "buffer": BUFFER}
"""The Sun of 1996: system time, and as much of the process (specs/rmtp-large-scale.md 8.2)."""
WORKSTATION = {"take_control": "460us", "send_control": "140us", "buffer": BUFFER}
"""A host of Mars: its receivers share a processor and a socket buffer."""
RATES = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0)
"""Mbit/s."""


@dataclass(frozen=True)
class Found:
    """What a session took."""

    seconds: float
    """Until the sender knows that all have it."""
    packets: int
    whole: bool


def hosts(receivers: int, take: float = 460.0, each: int = 10) -> group.Branch:
    """Receivers on workstations: their number on each, and the time of a packet in microseconds."""
    host = WORKSTATION | {"take_data": f"{take:.0f}us", "receivers": each}
    return {"name": "mars", "count": receivers, "loss": 0.001, "delay": "45ms", "host": host}


def session(packets: int, **other: Any) -> dict[str, Any]:
    """A session with the paper's surplus, for which no receiver is too slow; back-off for those asked."""
    timing = {"tat": "100ms", "alpha": "1.9s", "delta": "3ms", "unasked": False, "goodbye": False}
    return {"profile": "rmtp", "packets": packets, "rounds": 200, "weak": "keep"} | timing | other


def deliver(told: dict[str, Any], branches: Sequence[group.Branch], seed: int = 1) -> Found:
    """Runs a session of the Sun of 1996."""
    run = group.run(group.scenario("rate", told, branches, seed, source=SERVER))
    return Found(run["ended_s"] or run["sim_seconds"], run["sent"]["data"], whole(run))


def whole(run: Mapping[str, Any]) -> bool:
    """Whether all have it."""
    return run["outcomes"]["delivered"] == run["receivers"]


@experiment("rmtp-large-scale/r6", title="A fixed rate, well and badly chosen", paper=f"{PAPER}, Figure 7")
def r6(context: Context) -> Report:
    """Transfer time against the rate: 100 receivers of Mars on ten hosts, 900 of Lares."""
    rates = RATES[2::3] if context.seconds else RATES
    packets = 500 if context.seconds else 2_000

    def one(rate: float) -> Found:
        branches = [hosts(100), {"name": "lares", "count": 900, "delay": "45ms"}]
        return deliver(session(packets, rate=f"{rate} Mbit/s"), branches)

    runs = run_all(context, "rmtp-large-scale/r6, runs", one, rates)
    seconds = np.array([run.seconds for run in runs])
    best = int(np.argmin(seconds))
    ratio = seconds / seconds[best]
    # What one host takes: ten receivers, 460 µs each.
    limit = 1_024 * 8 / (10 * 460e-6) / 1e6
    ends = ratio[0], ratio[-1]
    rows = [
        Row(
            "transfer time over the rate",
            "a sharp minimum",
            f"least {seconds[best]:.1f} s at {rates[best]:g} Mbit/s; "
            f"{ends[0]:.1f} and {ends[1]:.1f} times that at {rates[0]:g} and {rates[-1]:g}",
            "1.5 times at both ends, all delivered",
            judge(min(ends) >= 1.5 and all(run.whole for run in runs)),
        ),
        Row(
            "where it is",
            "the rate must be chosen carefully",
            f"{rates[best]:g} Mbit/s; a host takes {limit:.2f}",
            "within a fifth of what a host takes",
            judge(abs(rates[best] / limit - 1) <= 0.2),
            "the socket buffer of the hosts loses packets, not the network (specs/rmtp-large-scale.md 8.2)",
        ),
    ]
    figure, axes = plt.subplots(2, 1, figsize=(6.2, 5.2), sharex=True)
    axes[0].plot(rates, ratio, "o-", color=COLOURS[0])
    axes[0].set(ylabel="transfer time / least", ylim=(0, None))
    axes[1].plot(rates, [run.packets / packets for run in runs], "o-", color=COLOURS[1])
    axes[1].set(xlabel="rate (Mbit/s)", ylabel="packets sent for each", ylim=(0, None))
    for axis in axes:
        axis.axvline(limit, color="0.75", lw=0.9)
    axes[0].text(limit, 0.15, " what a host takes", fontsize=8.5, color="0.4")
    path = style.save(figure, context.path("rmtp-r6"))
    return Report("rmtp-large-scale/r6", r6.__doc__ or "", rows, path)


FIXED = (0.6, 0.8, 1.0, 1.2, 1.6, 2.0, 2.4, 3.2)
"""Rates among which the best is chosen, Mbit/s."""
GROUPS = {"7 hosts": (7, 1), "100 receivers on ten hosts": (100, 10)}
CONTROL = {"start": "0.8 Mbit/s", "least": "0.1 Mbit/s", "most": "8 Mbit/s"}


@experiment("rmtp-large-scale/r7", title="Rate control against fixed rates", paper=f"{PAPER}, Figure 8")
def r7(context: Context) -> Report:
    """10 Mbyte in 20 trials to hosts that are more or less busy with other things, trial by trial."""
    trials = context.seed_range(4 if context.seconds else 20)
    packets = 1_000 if context.seconds else 10_000
    rows, drawn = [], {}
    for name, (receivers, each) in GROUPS.items():

        def one(job: tuple[float | None, int], receivers: int = receivers, each: int = each) -> Found:
            rate, seed = job
            # A host has between a third and all of its processor for this; at best both kinds take the same.
            share = np.random.default_rng(seed).uniform(1 / 3, 1)
            take = 460.0 * 10 / each / share
            told = {"monitor": CONTROL} if rate is None else {"rate": f"{rate} Mbit/s"}
            return deliver(session(packets, **told), [hosts(receivers, take, each)], seed)

        jobs = [(rate, seed) for rate in (None, *FIXED) for seed in trials]
        runs = dict(zip(jobs, run_all(context, f"rmtp-large-scale/r7, {name}", one, jobs), strict=True))
        times = {rate: np.array([runs[(rate, seed)].seconds for seed in trials]) for rate in (None, *FIXED)}
        best = min(FIXED, key=lambda rate: times[rate].mean())
        fixed, control = times[best], times[None]
        drawn[name] = fixed / fixed.mean(), control / fixed.mean(), best
        better = control.mean() < fixed.mean(), control.std() < fixed.std()
        whole = all(runs[(rate, seed)].whole for rate in (None, best) for seed in trials)
        rows.append(
            Row(
                f"{name}: mean and deviation of {len(trials)} trials",
                "rate control improves the mean and shrinks the variance",
                f"{control.mean():.0f} ± {control.std():.0f} s; best fixed rate, {best:g} Mbit/s: "
                f"{fixed.mean():.0f} ± {fixed.std():.0f} s",
                "both, all delivered",
                judge(whole and all(better)),
                "how busy hosts are is an assumption of ours: a third to all of a processor is left",
            )
        )
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.5), sharey=True)
    for axis, (name, (fixed, control, best)) in zip(axes, drawn.items(), strict=True):
        bins = np.linspace(0, max(fixed.max(), control.max()) * 1.05, 24)
        axis.hist(fixed, bins, color=COLOURS[1], alpha=0.7, label=f"fixed, {best:g} Mbit/s")
        axis.hist(control, bins, color=COLOURS[0], alpha=0.7, label="rate control")
        axis.set(title=name, xlabel="transfer time / mean at the fixed rate")
        axis.legend(fontsize=8.5)
    axes[0].set(ylabel="trials")
    path = style.save(figure, context.path("rmtp-r7"))
    return Report("rmtp-large-scale/r7", r7.__doc__ or "", rows, path)
