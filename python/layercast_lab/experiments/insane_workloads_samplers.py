"""INSANE: every distribution beside the statistics of its original (specs/insane-workloads.md 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.workloads import ask, model, samples
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

TITLE = "INSANE: distributions beside their originals"
TABLE = """
telnet.interarrival   1835    1848    232.5   1583    20000   1.14e6
telnet.replysize      25.43   25.8    1       40      526     1024
telnet.duration       674597  677468  169737  1.971e6 6.927e6 7.2e6
ftp.nitems            7.543   7.54    4       17      53      347
ftp.itemsize          39862   40205   509     42000   550000  22.05e6
ftp.ctlsize           28.69   28.72   25      60      84      443
smtp.itemsize         1675    1679    439     2675    15500   450000
nntp.nitems           383.1   383.5   19      1257    4623    4806
nntp.itemsize         2024    2027    1506    4126    7135    61299
phone.talkspurt       1364    1368    785.7   3500    7000    10000
phone.pause           1661    1664    732.4   4000    13125   20000
http.request          356.3   355.5   231     1062    1156    1825
http.reply            9747    9803    2035    15280   98130   8.147e6
http.files_per_page   2.904   2.905   2       6       19      65
http.consecutive_pages 4.055  4.056   2       10      19      37
http.think            1287    1293    15.32   530.1   51809   86395
http97.request.primary   395.5 396.7  238     1114    1158    1825
http97.reply.primary     15247 15286  2092    11457   273741  8.147e6
http97.request.secondary 334.7 332.9  227     1057    1152    1288
http97.reply.secondary   6827  6853   1981    16857   73480   246212
"""
"""Name, mean of the original and of its knots, median, 90 and 99 % of the original, most."""
DRAWS = 50_000
CONDENSED = 0.005
"""How far knots may be from the original, in cumulative probability."""
SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Original:
    """A line of the table."""

    name: str
    mean: float
    of_knots: float
    quantiles: tuple[float, float, float]
    most: float


@dataclass(frozen=True)
class Found:
    """What we have of it."""

    original: Original
    mean: float
    most: float
    unit: str
    drawn: np.ndarray
    p_value: float

    @property
    def off(self) -> list[float]:
        """Of each quantile of the original, how far its share of the draws is from its own."""
        pairs = zip(SHARES, self.original.quantiles, strict=True)
        # A quantile printed with four digits may lie beside an atom: the nearer side counts.
        return [
            max(0.0, np.mean(self.drawn < x * 0.999) - p, p - np.mean(self.drawn <= x * 1.001))
            for p, x in pairs
        ]


def originals() -> list[Original]:
    """The lines of the table."""
    found = []
    for line in TABLE.split("\n")[1:-1]:
        name, *numbers = line.split()
        mean, knots, *quantiles, most = map(float, numbers)
        found.append(Original(name, mean, knots, tuple(quantiles), most))
    return found


@experiment(
    "insane-workloads/samplers", title=TITLE, paper="specs/insane-workloads.md 5.2: tcplib 1991, INFOCOM 1997"
)
def samplers(context: Context) -> Report:
    """What the program ships, and what it draws."""
    found = run_all(context, "distributions", lambda one: sampled(context, one), originals())
    return Report(
        "insane-workloads/samplers", TITLE, [row(one) for one in found], draw(found, context.path("samplers"))
    )


def sampled(context: Context, original: Original) -> Found:
    """The shipped distribution, and draws of it."""
    there = model(original.name)
    drawn = samples(original.name, DRAWS)
    file = context.path(f"samplers-{original.name}.csv")
    np.savetxt(file, drawn, fmt="%.10g")
    fit = ask("compare", original.name, "--samples", file)["fit"]
    return Found(original, there["mean"], there["max"], there["unit"], np.sort(drawn), fit["p_value"])


def row(found: Found) -> Row:
    """The sampler's mean as printed, the largest value, and quantiles of draws at those of the original."""
    original = found.original
    # What is printed has three digits at least.
    near = abs(found.mean / original.of_knots - 1) <= 0.002 and abs(found.most / original.most - 1) <= 0.001
    # Draws are 50 000: three deviations of a share are at most 0.0067.
    slack = CONDENSED + 3 * np.sqrt(0.25 / len(found.drawn))
    kept = max(found.off) <= slack and found.p_value >= 0.001
    told = (
        f"mean {found.mean:.6g} {found.unit}, most {found.most:.8g}; "
        f"shares at p50, p90, p99 at most {max(found.off):.4f} off"
    )
    reported = f"mean {original.of_knots:.6g} (original {original.mean:.6g}), most {original.most:.8g}"
    tolerance = f"mean 0.2 %, most 0.1 %, shares {slack:.4f}"
    return Row(original.name, reported, told, tolerance, judge(near and kept))


def draw(found: Sequence[Found], path: Path) -> str:
    """All distributions as cumulative curves of the draws, with the quantiles of their originals."""
    columns = 5
    figure, axes = plt.subplots(4, columns, figsize=(12, 8.4), sharey=True)
    for axis, one in zip(axes.flat, found, strict=True):
        drawn = np.maximum(one.drawn, 0.5)
        axis.step(drawn, np.arange(1, len(drawn) + 1) / len(drawn), where="post", color=COLOURS[0], lw=1)
        quantiles = (*one.original.quantiles, one.original.most)
        axis.plot(quantiles, (*SHARES, 1), "o", color=style.ACCENT, ms=3.5)
        axis.set_xscale("log")
        axis.set_title(one.original.name, fontsize=8)
        axis.set_xlabel(one.unit, fontsize=8)
        axis.tick_params(labelsize=7)
    for axis in axes[:, 0]:
        axis.set_ylabel("share up to this", fontsize=8)
    return style.save(figure, path)
