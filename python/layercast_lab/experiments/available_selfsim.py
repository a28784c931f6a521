"""Available bandwidth: office load, and what looks self-similar in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.available import NV, PAPER, ask, fractional_noise, ftp, lags, office, run, windows
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.available_trains import SOURCE
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

PROBES = 9_000
LOADS = (0.8, 0.85, 0.9)
WIDE = PAPER | {"m": 20}
SEEDS = 10
Found = list[list[dict[str, Any]]]


def at_load(context: Context, loads: tuple[float, ...]) -> Found:
    """Runs of 90 s beside office load."""
    return run(
        context,
        "office load",
        [[office(load)] for load in loads],
        probes=PROBES,
        analyses=[PAPER, WIDE],
        seeds=SEEDS,
    )


def fits(found: Found, analysis: str, key: str) -> np.ndarray:
    """A value of the fit of each run."""
    values = [one["analyses"][0][analysis][key] for many in found for one in many]
    return np.array([np.nan if it is None else it for it in values], dtype=float)


def spread(values: np.ndarray) -> str:
    """Mean and range."""
    return f"{np.nanmean(values):.2f} ({np.nanmin(values):.2f} to {np.nanmax(values):.2f})"


@experiment("available-bandwidth/e4", title="Window means beside office load", paper=f"{SOURCE}, figure 5")
def e4(context: Context) -> Report:
    """The mean stays, the windows do not."""
    found = at_load(context, (0.85,))
    means = [[windows(one, "mean_ms", at) for one in found[0]] for at in (0, 1)]
    mean = float(np.mean([it.mean() for it in means[0]]))
    unstable = [float(np.mean([it.std() / it.mean() for it in one])) for one in means]
    rows = [
        Row(
            "mean of the lags",
            "the period persists",
            f"{mean:.2f} ms",
            "10 ms within 5 %",
            judge(abs(mean / 10 - 1) <= 0.05),
            "lags of the paper: a lost probe makes the next one longer",
        ),
        Row(
            "window means, m = 10 and 20",
            "anything but stable (figure only)",
            f"deviation {100 * unstable[0]:.0f} and {100 * unstable[1]:.0f} % of the mean",
            "above 5 %",
            judge(min(unstable) > 0.05),
        ),
    ]
    figure, axes = plt.subplots(2, 1, figsize=(6.2, 4.4), sharey=True)
    for axis, one, m, colour in zip(axes, means, (10, 20), COLOURS, strict=False):
        axis.plot(one[0], lw=0.7, color=colour)
        axis.set(ylabel=f"mean of {m} (ms)")
    axes[1].set(xlabel="window")
    return Report(
        "available-bandwidth/e4",
        "Window means beside office load",
        rows,
        style.save(figure, context.path("office.png")),
    )


@experiment(
    "available-bandwidth/e8",
    title="Lags beside office load at four scales of time",
    paper=f"{SOURCE}, figure 7",
)
def e8(context: Context) -> Report:
    """For the eye."""
    found = at_load(context, (0.85,))[0][0]
    slots, values = lags(found).T
    scales = (90, 9, 5, 1, 0.5)
    parts = [values[slots < 100 * seconds] for seconds in scales]
    varies = [float(part.std() / part.mean()) for part in parts]
    rows = [
        Row(
            "lags of the first 90, 9, 5, 1 and 0.5 s",
            "look alike (figure only)",
            "deviation " + ", ".join(f"{100 * it:.0f}" for it in varies) + " % of the mean",
            "by eye",
            "open",
        )
    ]
    figure, axes = plt.subplots(len(scales), 1, figsize=(6.2, 7.2))
    for axis, part, seconds in zip(axes, parts, scales, strict=True):
        axis.plot(np.arange(len(part)) / 100, part, lw=0.6, color=COLOURS[0])
        axis.set(ylabel="lag (ms)", xlim=(0, seconds))
    axes[-1].set(xlabel="time (s)")
    return Report(
        "available-bandwidth/e8",
        "Lags at four scales of time",
        rows,
        style.save(figure, context.path("scales.png")),
    )


@experiment("available-bandwidth/e9", title="Rescaled range of the lags", paper=f"{SOURCE}, figure 8")
def e9(context: Context) -> Report:
    """R/S of office load, and of series whose H is known."""
    found = at_load(context, LOADS)
    prefix, pox = fits(found, "rs_prefix", "hurst"), fits(found, "rs_pox", "hurst")
    lost = sum(one["probes_lost"] for many in found for one in many) / (PROBES * len(prefix))
    numbers = context.seed_range(SEEDS)
    noise = [
        ask("selfsim", series=np.random.default_rng(seed).normal(size=PROBES).tolist()) for seed in numbers
    ]
    known = [ask("selfsim", series=fractional_noise(0.7, PROBES, seed).tolist()) for seed in numbers]

    def of(answers: list[dict[str, Any]], analysis: str, key: str) -> np.ndarray:
        return np.array([it[analysis][key] for it in answers], dtype=float)

    some = [ask("selfsim", series=fractional_noise(0.7, 900, seed).tolist()) for seed in numbers]
    few, many = of(some, "rs_pox", "hurst").std(), of(known, "rs_pox", "hurst").std()
    white, pink = of(noise, "rs_pox", "hurst"), of(known, "rs_pox", "hurst")
    slope, steep = of(noise, "variance_time", "slope"), of(known, "variance_time", "hurst")
    mean = float(np.nanmean(prefix))
    rows = [
        Row(
            "A6b H by R/S from the start, load 0.8 to 0.9",
            "about 0.7",
            spread(prefix),
            "mean 0.6 to 0.9",
            judge(0.6 <= mean <= 0.9),
            f"the load is fitted to this; {100 * lost:.1f} % of the probes lost",
        ),
        Row(
            "A6b H by R/S, ten starts",
            "ours",
            spread(pox),
            "mean 0.5 to 0.9",
            judge(0.5 <= float(np.nanmean(pox)) <= 0.9),
        ),
        Row(
            "A6 H of noise by R/S",
            "ours: 0.5, with the bias of small samples",
            spread(white),
            "each 0.48 to 0.62",
            judge(bool(((white >= 0.48) & (white <= 0.62)).all())),
        ),
        Row(
            "A6 slope of noise in the variance-time diagram",
            "ours: -1",
            spread(slope),
            "each within 0.1",
            judge(bool((abs(slope + 1) <= 0.1).all())),
        ),
        Row(
            "A6 H of fractional noise of H = 0.7 by R/S",
            "ours: 0.7",
            spread(pink),
            "mean within 0.06",
            judge(abs(pink.mean() - 0.7) <= 0.06),
        ),
        Row(
            "A6 H of fractional noise of H = 0.7 by variance-time",
            "ours: 0.7",
            spread(steep),
            "mean within 0.06",
            judge(abs(steep.mean() - 0.7) <= 0.06),
        ),
        Row(
            "needs many samples: deviation of H over the seeds, 9 s beside 90 s",
            "not usable in real time",
            f"{few:.3f} beside {many:.3f}",
            "larger with fewer",
            judge(bool(few > many)),
        ),
    ]
    figure, axis = plt.subplots(figsize=(6.2, 3.6))
    for colour, load, runs in zip(COLOURS, LOADS, found, strict=False):
        d, value = np.array(runs[0]["analyses"][0]["rs_prefix"]["points"]).T
        axis.loglog(d, value, ".-", ms=4, lw=0.8, color=colour, label=f"load {load}")
    axis.set(xlabel="d (lags)", ylabel="R/S")
    axis.legend()
    return Report(
        "available-bandwidth/e9",
        "Rescaled range of the lags",
        rows,
        style.save(figure, context.path("rescaled.png")),
    )


@experiment(
    "available-bandwidth/e10", title="Variance-time diagrams of the lags", paper=f"{SOURCE}, figure 9"
)
def e10(context: Context) -> Report:
    """Slopes by load."""
    high, (low,), (middle,) = at_load(context, LOADS), at_load(context, (0.3,)), at_load(context, (0.6,))
    beside = [[], [NV], [ftp()]]
    plain = run(context, "train beside others", beside, probes=PROBES, seeds=1)
    steep, flat, between = (fits(it, "variance_time", "slope") for it in ([low], high, [middle]))
    h = fits(high, "variance_time", "hurst")
    mean = float(np.nanmean(flat))
    slopes = [runs[0]["analyses"][0]["variance_time"]["slope"] for runs in plain]
    told = ["none (constant)" if it is None else f"{it:.2f}" for it in slopes]
    rows = [
        Row(
            "A6b slope, load 0.8 to 0.9 with loss",
            "about -0.75",
            spread(flat),
            "mean -0.95 to -0.6",
            judge(-0.95 <= mean <= -0.6),
            "the load is fitted to this",
        ),
        Row(
            "H = 1 + slope / 2",
            "0.625",
            spread(h),
            "mean within 0.1",
            judge(abs(float(np.nanmean(h)) - 0.625) <= 0.1),
        ),
        Row(
            "A6c slope, load 0.3 without loss",
            "ours: -2, sums of lags telescope",
            spread(steep),
            "mean within 0.15",
            judge(abs(float(np.nanmean(steep)) + 2) <= 0.15),
        ),
        Row(
            "slope, load 0.6",
            "prototype: -1.14 to -1.35",
            spread(between),
            "between the others",
            judge(float(np.nanmean(steep)) < float(np.nanmean(between)) < mean),
        ),
        Row(
            "slopes of empty path, nv, ftp",
            "three different curves (figure only)",
            ", ".join(told),
            "different",
            judge(len(set(told)) == 3),
            "a frame time of nv is ten lags: means of multiples of ten hardly vary, and no line fits them",
        ),
    ]
    figure, axis = plt.subplots(figsize=(6.2, 3.6))
    curves = {"office 0.3": low[0], "office 0.85": high[1][0], "nv": plain[1][0], "ftp": plain[2][0]}
    for colour, (label, one) in zip(COLOURS, curves.items(), strict=False):
        m, value = np.array(one["analyses"][0]["variance_time"]["points"]).T
        axis.loglog(m, value, ".-", ms=4, lw=0.8, color=colour, label=label)
    axis.set(xlabel="m (lags)", ylabel="variance of the means (ms$^2$)")
    axis.legend()
    return Report(
        "available-bandwidth/e10",
        "Variance-time diagrams",
        rows,
        style.save(figure, context.path("variance.png")),
    )
