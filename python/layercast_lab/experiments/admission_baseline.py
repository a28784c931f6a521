"""Admission control: the algorithm that the paper extends, with a fixed window."""

from __future__ import annotations

from typing import Any

from layercast_lab import style
from layercast_lab.admission import FIXED, PAPER, RANDOM, Found, ask, falls, jdsz, mean, runs, spread
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.style import plt

BUCKETS = ((1, 64.0), (4, 62.8), (10, 61.1), (20, 58.8))
"""Tokens of 1 kbit, and the token rate in kbit/s as the paper prints it."""
EXACT = (63.63, 62.73, 61.14, 58.80)
"""Token rates of equation 3 for these depths."""
LOSSES = {(2, 62): 1.370e-3, (4, 58): 1.258e-2, (10, 50): 3.206e-2, (20, 45): 2.599e-2}
"""What a prototype saw at a policed source, by tokens and kbit/s."""
VOICE = (64e3, 0.3125, 0.3125)
TABLES = {
    10.0: (
        (74.53, 0.0, 0.334, 0.0, 100.0),
        (74.46, 0.0, 0.0, 0.73, 99.27),
        (55.35, 0.0, 0.0, 98.28, 1.72),
        (32.24, 0.0, 0.0, 100.0, 0.0),
    ),
    1.0: (
        (91.30, 0.37, 65.32, 3.74, 99.76),
        (91.25, 0.35, 41.55, 4.12, 99.67),
        (91.25, 0.29, 39.40, 6.53, 98.54),
        (90.70, 0.18, 43.15, 23.60, 86.07),
    ),
}
"""Tables 1 and 2 by window: utilisation and late bits in percent, longest delay in ms, refused by delay and
by rate in percent."""
MEASURED = {
    1: (9.51, 9.24, 543.8, 1.55),
    3: (0.48, 8.49, 7.994, 1.33),
    5: (0.056, 8.01, 0.705, 1.22),
    10: (0.0371, 6.99, 0.493, 1.12),
}
"""Table 3 by window in seconds: mean delay in ms, mean rate in Mbit/s, their variances."""


def told(row: tuple[float, ...]) -> str:
    """A row of tables 1 and 2."""
    utilisation, late, longest, delay, rate = row
    return (
        f"utilisation {utilisation} %, late {late} %, longest delay {longest} ms,"
        f" refused by delay {delay} %, by rate {rate} %"
    )


def seen(found: Found) -> str:
    """The same of runs."""
    return (
        f"utilisation {mean(found, 'utilisation'):.2f} ± {spread(found, 'utilisation'):.2f} %,"
        f" late {mean(found, 'late'):.2g} %, longest delay {mean(found, 'max_delay_ms'):.2g} ms,"
        f" refused by delay {mean(found, 'rejected_by_delay'):.2f} %,"
        f" by rate {mean(found, 'rejected_by_rate'):.2f} %"
    )


def table(context: Context, window: float) -> list[Found]:
    """The runs of a table, one setting for each bucket."""
    settings = [
        {"algorithm": jdsz(window), "peaks": FIXED, "declared": {"bucket": (1e3 * tokens, 1e3 * rate)}}
        for tokens, rate in BUCKETS
    ]
    return runs(context, f"admission, W = {window:g} s", settings, seconds=10_000.0)


def picture(context: Context, name: str, found: list[Found], window: float) -> str:
    """Utilisation and refusals by bucket."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.6))
    tokens = [tokens for tokens, _ in BUCKETS]
    left.plot(tokens, [row[0] for row in TABLES[window]], "k--", lw=1, label="paper")
    left.plot(tokens, [mean(it, "utilisation") for it in found], color=COLOURS[1], marker="o", label="runs")
    left.set(xlabel="bucket (tokens)", ylabel="utilisation (%)", ylim=(0, 100))
    for colour, key, column in ((COLOURS[0], "delay", 3), (COLOURS[1], "rate", 4)):
        right.plot(tokens, [row[column] for row in TABLES[window]], "--", color=colour, lw=1)
        values = [mean(it, f"rejected_by_{key}") for it in found]
        right.plot(tokens, values, color=colour, marker="o", label=f"by {key}")
    right.set(xlabel="bucket (tokens)", ylabel="of the refused calls (%)")
    for axis in (left, right):
        axis.legend(fontsize=8.5)
    return style.save(figure, context.path(name))


def equation(context: Context) -> list[Row]:
    """Equation 3 beside its check values and a policed source."""
    rates = ask("token-rate", points=[(*VOICE, 1e3 * tokens, 1e-6) for tokens, _ in BUCKETS])
    near = all(abs(found / 1e3 - known) <= 0.01 for found, known in zip(rates, EXACT, strict=True))
    bursts = 200_000 if context.seconds else 4_000_000
    policed = [
        {
            "peak_bps": VOICE[0],
            "on_s": VOICE[1],
            "off_s": VOICE[2],
            "rate_bps": 1e3 * rate,
            "depth": 1e3 * tokens,
            "bursts": bursts,
            "seed": 1,
        }
        for tokens, rate in LOSSES
    ]
    lost = ask("policing", settings=policed)
    formula = ask("loss", points=[(*VOICE, 1e3 * rate, 1e3 * tokens) for tokens, rate in LOSSES])
    agree = all(abs(a / b - 1) <= 0.02 for a, b in zip(lost, formula, strict=True))
    return [
        Row(
            "B1 token rates of equation 3 for 1, 4, 10, 20 tokens",
            "64, 62.8, 61.1, 58.8 kbit/s",
            ", ".join(f"{rate / 1e3:.2f}" for rate in rates) + " kbit/s",
            "63.63, 62.73, 61.14, 58.80 ± 0.01 kbit/s",
            judge(near),
            "the paper prints rounded rates; M1 and M2 run with those",
        ),
        Row(
            "B1 loss of a policed source beside the formula",
            "prototype: " + ", ".join(f"{loss:.3e}" for loss in LOSSES.values()),
            ", ".join(f"{a:.3e}" for a in lost) + "; formula " + ", ".join(f"{b:.3e}" for b in formula),
            "2 %",
            judge(agree),
            "tokens and kbit/s: " + ", ".join(f"({tokens}, {rate})" for tokens, rate in LOSSES),
        ),
    ]


@experiment("admission-control/m1", title="Fixed window of 10 s", paper=f"{PAPER}, table 1")
def m1(context: Context) -> Report:
    """Measured over 10 s: the larger the declared bucket, the fewer calls, though nothing is late."""
    found = table(context, 10.0)
    rows = equation(context)
    for (tokens, _), it, row in zip(BUCKETS, found, TABLES[10.0], strict=True):
        off = abs(mean(it, "utilisation") - row[0])
        rows.append(
            Row(
                f"B2 bucket of {tokens} tokens",
                told(row),
                seen(it),
                "utilisation ± 1.5 points, nothing late",
                judge(off <= 1.5 and mean(it, "late") == 0),
            )
        )
    values = [mean(it, "utilisation") for it in found]
    rows.append(
        Row(
            "larger buckets",
            "more refusals by delay, lower utilisation, needlessly",
            ", ".join(f"{value:.1f} %" for value in values),
            "utilisation falls",
            judge(falls(values, 0.3)),
        )
    )
    return Report("admission-control/m1", m1.__doc__ or "", rows, picture(context, "mbac-m1", found, 10.0))


@experiment("admission-control/m2", title="Fixed window of 1 s", paper=f"{PAPER}, table 2")
def m2(context: Context) -> Report:
    """The same over 1 s: more calls, and bits that are late."""
    found = table(context, 1.0)
    rows = []
    for (tokens, _), it, row in zip(BUCKETS, found, TABLES[1.0], strict=True):
        off, late = abs(mean(it, "utilisation") - row[0]), mean(it, "late") / row[1]
        rows.append(
            Row(
                f"B2 bucket of {tokens} tokens",
                told(row),
                seen(it),
                "utilisation ± 1 point, late within a factor of 2.5",
                judge(off <= 1 and 0.4 <= late <= 2.5),
            )
        )
    by_delay = [mean(it, "rejected_by_delay") for it in found]
    by_rate = [mean(it, "rejected_by_rate") for it in found]
    rows.append(
        Row(
            "refused by delay, by rate",
            "3.74, 4.12, 6.53, 23.60 %; 99.76, 99.67, 98.54, 86.07 %",
            ", ".join(f"{it:.2f}" for it in by_delay)
            + " %; "
            + ", ".join(f"{it:.2f}" for it in by_rate)
            + " %",
            "the one rises, the other falls with the bucket",
            judge(by_delay == sorted(by_delay) and falls(by_rate, 0.05)),
        )
    )
    return Report("admission-control/m2", m2.__doc__ or "", rows, picture(context, "mbac-m2", found, 1.0))


@experiment(
    "admission-control/m2b",
    title="Other buckets, windows and sources",
    paper=f"{PAPER}, in prose below table 2",
)
def m2b(context: Context) -> Report:
    """Deeper buckets, other windows and unequal sources, with the token rate of equation 3 for each call."""
    windows, depths = (1.0, 3.0, 5.0, 10.0), (1, 20, 40, 80)
    settings: list[dict[str, Any]] = [
        {"algorithm": jdsz(window), "peaks": peaks, "declared": {"equation": (1e3 * tokens, 1e-6)}}
        for peaks in (FIXED, RANDOM)
        for window in windows
        for tokens in depths
    ]
    found = iter(runs(context, "admission, other buckets", settings, seconds=3_000.0, seeds=3))
    rows = []
    for name in ("equal", "unequal"):
        for window in windows:
            some = [next(found) for _ in depths]
            used = [mean(it, "utilisation") for it in some]
            late = [mean(it, "late") for it in some]
            rows.append(
                Row(
                    f"{name} sources, W = {window:g} s, buckets of 1, 20, 40, 80 tokens",
                    "the same tendency, without numbers",
                    "utilisation "
                    + ", ".join(f"{it:.1f}" for it in used)
                    + " %; late "
                    + ", ".join(f"{it:.2g}" for it in late)
                    + " %",
                    "utilisation falls with the bucket",
                    judge(falls(used, 0.5)),
                )
            )
    return Report("admission-control/m2b", m2b.__doc__ or "", rows)


@experiment("admission-control/m3", title="Measured rate and delay by window", paper=f"{PAPER}, table 3")
def m3(context: Context) -> Report:
    """Unequal sources without a margin: the delay changes by orders of magnitude, the rate does not."""
    settings = [
        {
            "algorithm": jdsz(float(window), 100.0),
            "peaks": RANDOM,
            "declared": {"independent_bucket": 1e3},
        }
        for window in MEASURED
    ]
    found = runs(context, "admission, measurements", settings, seconds=1_000.0, seeds=40)
    rows, means = [], {}
    for (window, row), it in zip(MEASURED.items(), found, strict=True):
        delay, rate = mean(it, "delay_ms"), mean(it, "rate")
        means[window] = (delay, rate)
        rows.append(
            Row(
                f"B5 W = {window} s",
                f"delay {row[0]} ms, rate {row[1]} Mbit/s; variances {row[2]} ms², {row[3]}",
                f"delay {delay:.3g} ms, rate {rate:.2f} Mbit/s;"
                f" variances {mean(it, 'delay_variance'):.3g} ms², {mean(it, 'rate_variance'):.2f}",
                "rate ± 3 %",
                judge(abs(rate / row[1] - 1) <= 0.03),
                "calls declare a peak that is drawn independently of their own (6.7); 1000 s with the start",
            )
        )
    delays, rates = (means[1][at] / max(means[5][at], 1e-9) for at in (0, 1))
    rows.append(
        Row(
            "B5 W = 1 s beside 5 s",
            "delay 170 times, rate 1.15 times",
            f"delay {delays:.0f} times, rate {rates:.2f} times",
            "delay above 50 times, rate below 1.2 times",
            judge(delays > 50 and rates < 1.2),
            "so the rate is measured, not the delay",
        )
    )
    figure, axis = plt.subplots(figsize=(5.2, 3.6))
    for at, name in enumerate(("delay (ms)", "rate (Mbit/s)")):
        look = {"color": COLOURS[at], "marker": MARKERS[at]}
        axis.plot(list(MEASURED), [means[window][at] for window in MEASURED], label=name, **look)
        axis.plot(list(MEASURED), [row[at] for row in MEASURED.values()], "--", lw=1, color=COLOURS[at])
    axis.set(xlabel="window (s)", ylabel="mean of the measurements", yscale="log")
    axis.legend(fontsize=8.5)
    path = style.save(figure, context.path("mbac-m3"))
    return Report("admission-control/m3", m3.__doc__ or "", rows, path)
