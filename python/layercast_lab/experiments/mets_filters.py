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
import numpy as np

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.simulator import command, run_all
from layercast_lab.testbed import PAPER

DEMO = Path(__file__).resolve().parents[3] / "target" / "demo"
CLIPS = {"Big Buck Bunny": "clip.m1v", "bikes": "bikes.m1v"}
SECONDS, FPS = 5.0, 25
# Coefficients of 64 that the low-pass keeps, and pictures that picture dropping keeps.
LOW_PASS = (1, 3, 6, 10, 20)
KEEP = ("I", "IP")
# Target rates of DRS, as fractions of the rate of the clip.
BUDGETS = (0.5, 0.6, 0.7, 0.8, 0.9)
TOLERANCE = 0.05
# Rates this near to one another are called equal.
EQUAL = 0.01


@dataclass(frozen=True)
class Filtered:
    """What a filter left of a clip."""

    mbps: float
    psnr_db: float
    """Of luminance, against the pictures that went in."""


@dataclass(frozen=True)
class Pair:
    """A filter, and DRS at the same rate, or at its least if that is more."""

    other: Filtered
    drs: Filtered

    @property
    def is_equal(self) -> bool:
        """Whether DRS can be brought down to the rate."""
        return abs(self.drs.mbps / self.other.mbps - 1) <= EQUAL


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
        told = [(name, share) for name in clips for share in BUDGETS]
        off = run_all(context, "E5f, budgets", lambda job: off_budget(clips[job[0]], job[1]), told)
    table = dict(zip(jobs, found, strict=True))
    rows = []
    for name in clips:
        rows += clip_rows(name, {rule: table[name, rule] for rule in rules})
        mine = np.concatenate([gops for (clip, _), gops in zip(told, off, strict=True) if clip == name])
        rows.append(budget_row(name, mine))
    return Report("mets/e5f-psnr", "METS E5f: pictures at equal rates", rows, draw(table, context))


def check_tools() -> None:
    """Raises FileNotFoundError if there is no ffmpeg, or a demo clip has not been made."""
    if not shutil.which("ffmpeg"):
        raise FileNotFoundError("there is no `ffmpeg` command, which judges the pictures")
    for clip in CLIPS.values():
        if not (DEMO / clip).exists():
            raise FileNotFoundError(f"there is no {DEMO / clip}; `make clips` makes it")


def cut(name: str, folder: Path, seconds: float) -> Path:
    """The whole GOPs of the first seconds of a demo clip."""
    short = folder / name
    stream = (DEMO / name).read_bytes()
    ends = np.cumsum([len(gop) for gop in gops(stream)])
    pictures = np.cumsum([gop.count(PICTURE) for gop in gops(stream)])
    short.write_bytes(stream[: ends[max(np.searchsorted(pictures, seconds * FPS, side="right") - 1, 0)]])
    return short


SEQUENCE, PICTURE = b"\x00\x00\x01\xb3", b"\x00\x00\x01\x00"


def gops(stream: bytes) -> list[bytes]:
    """The GOPs of a stream in which each begins with a sequence header, as ffmpeg writes them."""
    return [SEQUENCE + gop for gop in stream.split(SEQUENCE)[1:]]


def side_by_side(clip: Path, rule: str) -> Pair:
    """A filter on a clip, and DRS with a target rate whose output has the rate of the filter.

    `--rate` bounds every GOP, and those that have less stay as they are, so that a clip gets less
    than its target on the mean: the target is found by search.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.m1v")
        other = Filtered(run_filter(clip, rule, out), psnr_db(out, clip))
        low, high = 0.5 * other.mbps, 1.5 * other.mbps
        told = other.mbps
        for _ in range(10):
            got = run_filter(clip, f"--rate={told:.4f}Mbit/s", out)
            if abs(got / other.mbps - 1) <= EQUAL / 2:
                break
            low, high = (told, high) if got < other.mbps else (low, told)
            told = (low + high) / 2
        return Pair(other, Filtered(got, psnr_db(out, clip)))


def off_budget(clip: Path, share: float) -> np.ndarray:
    """By how much the GOPs that have to be shaped miss what the rate gives them in their time."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.m1v")
        before = gops(clip.read_bytes())
        rate = share * 8 * sum(map(len, before)) * FPS / sum(gop.count(PICTURE) for gop in before)
        run_filter(clip, f"--rate={rate:.0f}bit/s", out)
        after = gops(out.read_bytes())
        budget = [rate / 8 * gop.count(PICTURE) / FPS for gop in before]
        sizes = zip(before, after, budget, strict=True)
        return np.array([len(new) / room - 1 for old, new, room in sizes if len(old) > room])


def run_filter(clip: Path, rule: str, out: Path) -> float:
    """Runs `layercast filter`; returns the rate of its output, Mb/s."""
    arguments = [command(), "filter", str(clip), rule, "-o", str(out), "--json"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    return json.loads(done.stdout)["total"]["mean_bps_out"] / 1e6


def psnr_db(out: Path, clip: Path) -> float:
    """PSNR of luminance of what came out against what went in, dB."""
    told = ffmpeg("-i", out, "-i", clip, "-lavfi", "[0:v][1:v]psnr", "-f", "null", "-")
    return float(re.findall(r"PSNR y:(\S+)", told)[-1])


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
    return [
        Row(
            f"E5f low-pass, {clip}",
            "coarser with fewer coefficients",
            "; ".join(
                f"k = {k}: {pair.other.mbps:.2f} Mb/s, {pair.other.psnr_db:.1f} dB"
                for k, pair in zip(LOW_PASS, low, strict=True)
            ),
            "PSNR falls with k (specs/mets.md 2.13)",
            judge(by_k == sorted(by_k)),
        ),
        better(f"E5f DRS and low-pass, {clip}", [f"k = {k}" for k in LOW_PASS], low),
        better(f"E5f DRS and picture dropping, {clip}", [f"keep {keep}" for keep in KEEP], kept),
    ]


def better(name: str, labels: Sequence[str], pairs: Sequence[Pair]) -> Row:
    """The row that DRS shows no less at a rate than something else."""
    gains = [pair.drs.psnr_db - pair.other.psnr_db for pair in pairs]
    told = [
        f"{label}: {pair.drs.psnr_db:.1f} dB ({gain:+.1f})"
        if pair.is_equal
        else f"{label}: {pair.other.mbps:.2f} Mb/s is out of reach, {pair.drs.psnr_db:.1f} dB at "
        f"{pair.drs.mbps:.2f} ({gain:+.1f})"
        for label, pair, gain in zip(labels, pairs, gains, strict=True)
    ]
    return Row(
        name,
        "no less PSNR at equal rate (specs/mets.md 2.13)",
        "; ".join(told),
        "at every rate",
        judge(min(gains) >= 0 and all(pair.is_equal for pair in pairs)),
    )


def budget_row(clip: str, off: np.ndarray) -> Row:
    """The row of the budgets of GOPs."""
    near = np.abs(off) <= TOLERANCE
    worst = f"{off.min():+.1%} to {off.max():+.1%}, median {np.median(off):+.1%}"
    return Row(
        f"E5f DRS budget, {clip}",
        "its rate is the budget",
        f"{near.sum()} of {len(off)} GOPs; {worst}",
        f"{TOLERANCE:.0%}, each GOP at {BUDGETS[0]:.0%} to {BUDGETS[-1]:.0%} of the clip's rate",
        judge(bool(near.all())),
        "GOPs that have less than the rate are not shaped and not counted",
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
        axis.set(xlabel="Mb/s", xlim=(0, None), ylim=(15, None))
        axis.set_title(clip, loc="left", fontsize=10)
    axes[0].set(ylabel="PSNR of luminance (dB)")
    axes[0].legend(loc="upper left", fontsize=8.5)
    return style.save(figure, context.path("e5f-psnr"))
