"""Admission control: load that comes and goes, and the steps of the trigger."""

from __future__ import annotations

from layercast_lab import style
from layercast_lab.admission import PAPER, RANDOM, TARGETS, levels, mean, runs, summary
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.admission_levels import told
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

SWINGS = {
    0.01: (3.25, 22.1, 0.0708, 45.67),
    0.05: (2.97, 24.0, 0.1076, 57.08),
    0.1: (2.50, 26.5, 0.2923, 48.29),
    0.2: (2.00, 30.2, 0.2344, 59.71),
    1.0: (1.51, 34.6, 1.0142, 67.77),
    2.0: (1.40, 35.3, 2.0171, 68.63),
}
"""Table 6 by target: mean window in s, admitted calls, late bits, utilisation in percent."""
ARRIVALS = {"mean_s": 100.0, "low_per_s": 0.01, "low_chance": 1 / 3}
UP, DOWN = (1, 10, 100, 1_000), (1, 10, 50, 100, 1_000)
"""Steps of the trigger, kbit/s."""
KNOWN = {
    1: (0.115, 0.054, 0.049, 0.032, 0.002),
    10: (0.089, 0.079, 0.057, 0.051, 0.023),
    100: (0.746, 0.125, 0.068, 0.056, 0.050),
    1_000: (0.863, 0.129, 0.062, 0.060, 0.051),
}
"""Late bits in percent of a prototype, by step up and down."""


@experiment("admission-control/m7", title="Load that comes and goes", paper=f"{PAPER}, table 6 and figure 6")
def m7(context: Context) -> Report:
    """Arrivals are 10/s or nearly none, drawn again each 100 s in the mean: tight targets are missed."""
    base = {"algorithm": levels(7e6), "peaks": RANDOM, "switching": ARRIVALS}
    modes = {"own": "peak", "independent": "independent"}
    settings = [
        base | {"target": target, "declared": declared} for declared in modes.values() for target in TARGETS
    ]
    found = iter(runs(context, "admission, swings", settings, seeds=4))
    rows = []
    for mode in modes:
        for target in TARGETS:
            it = next(found)
            late = mean(it, "late")
            if target >= 0.2:
                limit, good = "late ± 15 %", abs(late / target - 1) <= 0.15
            elif target == 0.01:
                limit, good = "missed by a factor of 3 or more", late >= 3 * target
            else:
                limit, good = "late above the target", late > target
            rows.append(
                Row(
                    f"B6 target {target} %, {mode} peak declared",
                    told(SWINGS[target]),
                    summary(it),
                    limit,
                    judge(good),
                )
            )
    wound = [base | {"target": 0.05, "declared": "peak", "algorithm": levels(7e6, anti_windup=True)}]
    (it,) = runs(context, "admission, swings without windup", wound, seeds=4)
    rows.append(
        Row(
            "target 0.05 %, the trigger not raised beside an idle link",
            "ours",
            summary(it),
            "-",
            "open",
            "anti-windup, as in production; beside the row of own peaks",
        )
    )
    series = [base | {"target": 0.1, "declared": "peak", "points_s": 20.0}]
    run = runs(context, "admission, calls over the time", series, seconds=10_000.0, seeds=1)[0][0]
    figure, axis = plt.subplots(figsize=(6.2, 3.6))
    times = [point["at_s"] for point in run["points"]]
    for colour, key, name in ((COLOURS[0], "calls", "admitted"), (COLOURS[1], "on", "ON")):
        axis.plot(times, [point[key] for point in run["points"]], color=colour, lw=1, label=name)
    axis.set(xlabel="time (s)", ylabel="calls in progress", ylim=(0, None))
    axis.legend(fontsize=8.5)
    path = style.save(figure, context.path("mbac-m7"))
    return Report("admission-control/m7", m7.__doc__ or "", rows, path)


@experiment("admission-control/m8", title="Steps of the trigger", paper=f"{PAPER}, figure 7")
def m8(context: Context) -> Report:
    """Late bits at a target of 0.05 % by the steps: a promise is kept if steps down are larger."""
    target = 0.05
    settings = [
        {
            "target": target,
            "peaks": RANDOM,
            "declared": "peak",
            "algorithm": levels(up=1e3 * up, down=1e3 * down),
        }
        for up in UP
        for down in DOWN
    ]
    found = iter(runs(context, "admission, steps", settings, seeds=2))
    cells = {(up, down): next(found) for up in UP for down in DOWN}
    late = {key: mean(it, "late") for key, it in cells.items()}
    used = {key: mean(it, "utilisation") for key, it in cells.items()}
    rows = [
        Row(
            f"steps up of {up} kbit/s, down of 1, 10, 50, 100, 1000",
            "prototype: late " + ", ".join(f"{it}" for it in KNOWN[up]) + " %",
            "late "
            + ", ".join(f"{late[up, down]:.3f}" for down in DOWN)
            + " %; utilisation "
            + ", ".join(f"{used[up, down]:.1f}" for down in DOWN)
            + " %",
            "-",
            "open",
        )
        for up in UP
    ]
    high = late[100, 1]
    kept = [late[up, down] for up in (1, 10) for down in (50, 100, 1_000)]
    rows += [
        Row(
            "B7 steps up of 100, down of 1 kbit/s",
            "the target is not held (figure only)",
            f"{high:.3f} %",
            f"above {5 * target} %",
            judge(high > 5 * target),
        ),
        Row(
            "B7 steps up of at most 10, down of at least 50 kbit/s",
            "decrements exceed increments: the target is held (figure only)",
            f"{min(kept):.3f} to {max(kept):.3f} %",
            f"at most {1.3 * target:.3f} %",
            judge(max(kept) <= 1.3 * target),
        ),
        Row(
            "the price of large steps down",
            "prototype: utilisation 83 % at (1, 1), 68 % at (1, 1000), 54 % at (100, 1000)",
            f"{used[1, 1]:.1f} %, {used[1, 1_000]:.1f} %, {used[100, 1_000]:.1f} %",
            "4 points",
            judge(
                all(
                    abs(used[key] - known) <= 4
                    for key, known in (((1, 1), 83), ((1, 1_000), 68), ((100, 1_000), 54))
                ),
            ),
            "the paper shows late bits only",
        ),
    ]
    figure, axis = plt.subplots(figsize=(5.2, 3.6))
    for colour, up in zip(COLOURS, UP, strict=False):
        values = [max(late[up, down], 1e-3) for down in DOWN]
        axis.plot(DOWN, values, marker="o", color=colour, label=f"up {up} kbit/s")
    axis.axhline(target, color="0.5", ls=":", lw=1)
    axis.set(xscale="log", yscale="log", xlabel="step down (kbit/s)", ylabel="late bits (%)")
    axis.legend(fontsize=8.5)
    path = style.save(figure, context.path("mbac-m8"))
    return Report("admission-control/m8", m8.__doc__ or "", rows, path)
