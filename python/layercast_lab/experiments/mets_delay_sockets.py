"""METS E3 on real sockets (specs/mets.md 3.3, 4.5, 4.6, 5, class b2): today's hosts, and those of 1996."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from layercast_lab import sockets, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.mets_delay import REPORTED_MAX_8, REPORTED_ONE
from layercast_lab.sockets import RECEIVER_1996, SENDER_1996, Run
from layercast_lab.testbed import GOP, PAPER, video_sizes

FRAME_RATE = 24
SHAPER = {"b": 17, "p": 1}
FLOWS = (1, 2, 4, 6, 8)
REPEATS = 5
SECONDS = 15.0
# A flow of this kind takes little of a processor.
AT_ONCE = 4
HOSTS = {"today": ({}, {}), "1996": (SENDER_1996, RECEIVER_1996)}


def lougher(flows: int, hosts: str, seed: int, seconds: float) -> Run:
    """N Lougher flows at 24 frames/s and random phases, through a shaper of b = 17, p = 1."""
    rng = np.random.default_rng([seed, flows])
    entries = [
        sockets.flow(
            video_sizes("lougher", round(seconds * FRAME_RATE), rng),
            FRAME_RATE,
            start=rng.uniform(0, len(GOP) / FRAME_RATE),
            shaping=SHAPER,
        )
        for _ in range(flows)
    ]
    sender, receiver = HOSTS[hosts]
    return sockets.run(
        {
            "seconds": seconds + 1,
            "seed": seed,
            "flows": entries,
            "sender": sender,
            "receiver": receiver,
            "frames": True,
        }
    )


def delays_ms(run: Run) -> np.ndarray:
    """Delays of all packets of all flows that arrived."""
    return np.concatenate([frames.delay_ms for frames in run.flows])


@experiment("mets/e3a-sockets", title="E3a on sockets: one-way delay of a single flow", paper=PAPER)
def e3a_sockets(context: Context) -> Report:
    """E3a over loopback, with emulated hosts of 1996 and with those of today."""
    seeds = context.seed_range(REPEATS)
    jobs = [(hosts, seed) for hosts in HOSTS for seed in seeds]
    seconds = context.seconds or SECONDS
    runs = dict(
        zip(
            jobs,
            sockets.run_together(context, "E3a on sockets", lambda j: lougher(1, *j, seconds), jobs, AT_ONCE),
            strict=True,
        )
    )
    figures = {"min": np.min, "mean": np.mean, "max": np.max, "sd": np.std}
    accepted = {"min": (1.8, 2.6), "mean": (3.5, 5), "max": (14, 24), "sd": (1.5, 2.5)}
    rows = []
    for name, figure in figures.items():
        old, new = (
            np.array([figure(delays_ms(runs[hosts, s])) for s in seeds]) for hosts in ("1996", "today")
        )
        median, (low, high) = float(np.median(old)), accepted[name]
        rows.append(
            Row(
                f"E3-1 {name}",
                f"{REPORTED_ONE[name]} ms",
                f"{median:.1f} ms ({old.min():.1f} to {old.max():.1f}) with hosts of 1996; "
                f"{np.median(new):.2f} ms ({new.min():.2f} to {new.max():.2f}) with today's",
                f"that of b1: median {low:g} to {high:g} ms; none for b2",
                judge(low <= median <= high),
            )
        )
    rows.append(sockets.kernel_row(runs.values()))
    figure = draw_one({hosts: runs[hosts, 1] for hosts in HOSTS}, context)
    return Report("mets/e3a-sockets", "METS E3a on sockets: one-way delay of one flow", rows, figure)


def draw_one(runs: dict[str, Run], context: Context) -> str:
    """Delay against time in the first run with either hosts."""
    figure, axis = plt.subplots(figsize=(7.2, 3.4))
    colours = {"today": style.LAYER_COLOURS["E1"], "1996": style.LAYER_COLOURS["BL"]}
    for hosts, run in runs.items():
        frames = run.flows[0]
        arrived = ~np.isnan(frames.arrived)
        label = f"hosts of {hosts}, mean {frames.delay_ms.mean():.2f} ms"
        axis.plot(frames.sent[arrived], frames.delay_ms, ".", ms=3, color=colours[hosts], label=label)
    axis.set(xlabel="time (s)", ylabel="one-way delay (ms)", yscale="log")
    axis.set_title("Lougher at 24 frames/s over loopback (first run)", loc="left", fontsize=10)
    axis.legend(fontsize=8.5)
    return style.save(figure, context.path("e3a-sockets"))


@experiment(
    "mets/e3b-sockets", title="E3b on sockets: one-way delay against the number of flows", paper=PAPER
)
def e3b_sockets(context: Context) -> Report:
    """E3b over loopback, with emulated hosts of 1996 and with those of today."""
    seeds = context.seed_range(REPEATS)
    jobs = [(n, hosts, seed) for n in reversed(FLOWS) for hosts in HOSTS for seed in seeds]
    seconds = context.seconds or SECONDS
    runs = dict(
        zip(
            jobs,
            sockets.run_together(context, "E3b on sockets", lambda j: lougher(*j, seconds), jobs, AT_ONCE),
            strict=True,
        )
    )
    means, most = (
        {
            hosts: np.array([[of(delays_ms(runs[n, hosts, seed])) for seed in seeds] for n in FLOWS])
            for hosts in HOSTS
        }
        for of in (np.mean, np.max)
    )
    rows = [grows_less(hosts, means[hosts], most[hosts]) for hosts in ("today", "1996")]
    mean, top = np.median(means["1996"], axis=1), np.median(most["1996"], axis=1)
    at_8 = most["1996"][-1]
    rows += [
        Row(
            "E3-2 mean, from 1 to 8 flows, hosts of 1996",
            "+6 ms (4 to about 10)",
            f"+{mean[-1] - mean[0]:.1f} ms ({mean[0]:.1f} to {mean[-1]:.1f})",
            "that of b1: +3 to +8 ms",
            judge(3 <= mean[-1] - mean[0] <= 8),
        ),
        Row(
            "E3-3 maximum, 8 flows, hosts of 1996",
            "61 ms, from 19 at one flow",
            f"{top[-1]:.0f} ms ({at_8.min():.0f} to {at_8.max():.0f}), from {top[0]:.0f}",
            "that of b1: median at least 35 ms and 1.6 times that of one flow",
            judge(bool(top[-1] >= 35 and top[-1] >= 1.6 * top[0])),
        ),
        sockets.kernel_row(runs.values()),
    ]
    title = "METS E3b on sockets: one-way delay against the number of flows"
    return Report("mets/e3b-sockets", title, rows, draw_several(means, most, context))


def grows_less(hosts: str, mean: np.ndarray, most: np.ndarray) -> Row:
    """What section 5 asks of b2: from one flow to eight the mean grows by less than the maximum."""
    means, tops = np.median(mean, axis=1), np.median(most, axis=1)
    of_mean, of_top = means[-1] - means[0], tops[-1] - tops[0]
    each = int(((mean[-1] - mean[0]) < (most[-1] - most[0])).sum())
    return Row(
        f"E3 b2, hosts of {hosts}",
        "mean +6 ms, maximum +42 ms",
        f"mean {of_mean:+.2f} ms ({means[0]:.2f} to {means[-1]:.2f}), "
        f"maximum {of_top:+.2f} ms ({tops[0]:.2f} to {tops[-1]:.2f}); "
        f"so in {each} of {mean.shape[1]} pairs of runs",
        "the mean grows by less",
        judge(bool(of_mean < of_top)),
        "medians of the runs",
    )


def draw_several(means: dict[str, np.ndarray], most: dict[str, np.ndarray], context: Context) -> str:
    """Mean and greatest delay against the number of flows, hosts of either time side by side."""
    figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.8))
    for axis, hosts in zip(axes, ("1996", "today"), strict=True):
        for values, colour, name in (
            (most[hosts], style.ACCENT, "maximum"),
            (means[hosts], style.LAYER_COLOURS["BL"], "mean"),
        ):
            axis.fill_between(FLOWS, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.15, lw=0)
            axis.plot(FLOWS, np.median(values, axis=1), marker="o", ms=4, color=colour, label=name)
        if hosts == "1996":
            printed = {"ls": "", "marker": "D", "ms": 7, "mfc": "white", "mew": 1.6}
            axis.plot(
                [1, 8], [REPORTED_ONE["max"], REPORTED_MAX_8], mec=style.ACCENT, label="as printed", **printed
            )
            axis.plot([1, 8], [4, 10], mec=style.LAYER_COLOURS["BL"], **printed)
        axis.set(xlabel="flows", ylabel="one-way delay (ms)", xticks=FLOWS, ylim=(0, None))
        axis.set_title(f"hosts of {hosts}, over loopback", loc="left", fontsize=10)
        axis.legend(loc="upper left", fontsize=8.5)
    return style.save(figure, context.path("e3b-sockets"))
