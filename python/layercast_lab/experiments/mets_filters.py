"""METS E5f, the pictures: what dynamic rate shaping keeps of real video (specs/mets.md 2.13)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import command, run_all
from layercast_lab.testbed import PAPER

DEMO = Path(__file__).resolve().parents[3] / "target" / "demo"
CLIPS = {"Big Buck Bunny": "clip.m1v", "bikes": "bikes.m1v"}
SECONDS = 5.0
# Coefficients of 64 that the low-pass keeps, and pictures that picture dropping keeps.
LOW_PASS = (1, 3, 6, 10, 20)
KEEP = ("I", "IP")
TOLERANCE = 0.05


@dataclass(frozen=True)
class Filtered:
    """What a filter left of a clip."""

    mbps: float
    psnr_db: float
    """Of luminance, against the pictures that went in."""


@dataclass(frozen=True)
class Pair:
    """A filter, and DRS told to have the rate that came out of it."""

    other: Filtered
    drs: Filtered


@experiment("mets/e5f-psnr", title="What dynamic rate shaping keeps of real clips", paper=PAPER)
def e5f_psnr(context: Context) -> Report:
    """E5f, not in the papers: DRS beside uniform low-pass and picture dropping at equal rates."""
    check_tools()
    seconds = min(context.seconds or SECONDS, SECONDS)
    rules = [f"--low-pass={k}" for k in LOW_PASS] + [f"--keep={keep}" for keep in KEEP]
    with tempfile.TemporaryDirectory() as folder:
        clips = {name: cut(file, Path(folder), seconds) for name, file in CLIPS.items()}
        jobs = [(name, rule) for name in clips for rule in rules]
        found = run_all(context, "E5f, clips", lambda job: side_by_side(clips[job[0]], job[1]), jobs)
    table = dict(zip(jobs, found, strict=True))
    rows = [row for name in clips for row in clip_rows(name, {r: table[name, r] for r in rules})]
    return Report("mets/e5f-psnr", "METS E5f: pictures at equal rates", rows, draw(table, context))


def check_tools() -> None:
    """Raises FileNotFoundError if there is no ffmpeg, or a demo clip has not been made."""
    if not shutil.which("ffmpeg"):
        raise FileNotFoundError("there is no `ffmpeg` command, which judges the pictures")
    for clip in CLIPS.values():
        if not (DEMO / clip).exists():
            raise FileNotFoundError(f"there is no {DEMO / clip}; `make clips` makes it")


def cut(name: str, folder: Path, seconds: float) -> Path:
    """The first seconds of a demo clip."""
    short = folder / name
    ffmpeg("-i", DEMO / name, "-t", f"{seconds:g}", "-c", "copy", "-f", "mpeg1video", short)
    return short


def side_by_side(clip: Path, rule: str) -> Pair:
    """A filter on a clip, and DRS at the rate that the filter gave."""
    other = filtered(clip, rule)
    return Pair(other, filtered(clip, f"--rate={other.mbps:.6f}Mbit/s"))


def filtered(clip: Path, rule: str) -> Filtered:
    """Runs `layercast filter` and compares what comes out with what went in."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.m1v")
        arguments = [command(), "filter", str(clip), rule, "-o", str(out), "--json"]
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode:
            raise layercast.LayercastError(done.stderr.strip())
        rate = json.loads(done.stdout)["total"]["mean_bps_out"]
        told = ffmpeg("-i", out, "-i", clip, "-lavfi", "[0:v][1:v]psnr", "-f", "null", "-")
    # Pictures that are the same are infinitely like one another.
    return Filtered(rate / 1e6, float(re.findall(r"PSNR y:(\S+)", told)[-1]))


def ffmpeg(*arguments: object) -> str:
    """Runs ffmpeg; what it says."""
    line = ["ffmpeg", "-v", "info", "-nostdin", "-y", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ffmpeg: {done.stderr.strip().splitlines()[-1]}")
    return done.stderr


def clip_rows(clip: str, found: Mapping[str, Pair]) -> list[Row]:
    """The rows of one clip."""
    low = [found[f"--low-pass={k}"] for k in LOW_PASS]
    kept = [found[f"--keep={keep}"] for keep in KEEP]
    by_k = [pair.other.psnr_db for pair in low]
    within = [abs(pair.drs.mbps / pair.other.mbps - 1) for pair in found.values()]
    return [
        Row(
            f"E5f low-pass, {clip}",
            "coarser with fewer coefficients",
            "; ".join(
                f"k = {k}: {pair.other.mbps:.2f} Mb/s, {pair.other.psnr_db:.1f} dB"
                for k, pair in zip(LOW_PASS, low, strict=True)
            ),
            "PSNR falls with k (mets.md 2.13)",
            judge(by_k == sorted(by_k)),
        ),
        better(f"E5f DRS and low-pass, {clip}", [f"k = {k}" for k in LOW_PASS], low),
        better(f"E5f DRS and picture dropping, {clip}", [f"keep {keep}" for keep in KEEP], kept),
        Row(
            f"E5f DRS budget, {clip}",
            "its rate is the budget",
            f"{min(pair.drs.mbps / pair.other.mbps - 1 for pair in found.values()):+.1%} to "
            f"{max(pair.drs.mbps / pair.other.mbps - 1 for pair in found.values()):+.1%} of "
            f"{len(found)} budgets",
            f"{TOLERANCE:.0%}",
            judge(max(within) <= TOLERANCE, trend=sorted(within)[len(within) // 2] <= TOLERANCE),
            "a GOP that is below the rate anyway stays below it",
        ),
    ]


def better(name: str, labels: Sequence[str], pairs: Sequence[Pair]) -> Row:
    """The row that DRS shows no less at a rate than something else."""
    gains = [pair.drs.psnr_db - pair.other.psnr_db for pair in pairs]
    return Row(
        name,
        "no less PSNR at equal rate (mets.md 2.13)",
        "; ".join(
            f"{label}: {pair.drs.psnr_db:.1f} dB at {pair.drs.mbps:.2f} Mb/s ({gain:+.1f} dB)"
            for label, pair, gain in zip(labels, pairs, gains, strict=True)
        ),
        "at every rate",
        judge(min(gains) >= 0, trend=max(gains) > 0),
    )


def draw(table: Mapping[tuple[str, str], Pair], context: Context) -> str:
    """PSNR against rate, one panel for each clip."""
    figure, axes = plt.subplots(1, len(CLIPS), figsize=(8.4, 3.8), sharey=True)
    for axis, clip in zip(axes, CLIPS, strict=True):
        mine = {rule: pair for (name, rule), pair in table.items() if name == clip}
        drs = sorted({(pair.drs.mbps, pair.drs.psnr_db) for pair in mine.values()})
        axis.plot(*zip(*drs, strict=True), marker="o", color=style.LAYER_COLOURS["BL"], label="DRS")
        for what, marker, colour, label in (
            ("--low-pass", "o", style.LAYER_COLOURS["E1"], "low-pass, k coefficients"),
            ("--keep", "D", style.ACCENT, "picture dropping"),
        ):
            named = {rule: pair.other for rule, pair in mine.items() if rule.startswith(what)}
            points = [(one.mbps, one.psnr_db) for one in named.values()]
            line = "-" if what == "--low-pass" else ""
            axis.plot(*zip(*points, strict=True), ls=line, marker=marker, color=colour, label=label)
            for rule, point in zip(named, points, strict=True):
                below = {"textcoords": "offset points", "xytext": (5, -10), "fontsize": 8}
                axis.annotate(rule.partition("=")[2], point, color=colour, **below)
        axis.set(xlabel="Mb/s", xlim=(0, None))
        axis.set_title(clip, loc="left", fontsize=10)
    axes[0].set(ylabel="PSNR of luminance (dB)")
    axes[0].legend(loc="upper left", fontsize=8.5)
    return style.save(figure, context.path("e5f-psnr"))
