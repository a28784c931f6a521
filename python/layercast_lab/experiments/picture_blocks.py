"""Picture quality on ATM: I pictures interleaved over cells (specs/mpeg-picture-quality.md 2.8)."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.picture_cells import CLIP
from layercast_lab.experiments.picture_switch import PAPER
from layercast_lab.picture import ask
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

WIDTH, HEIGHT = 1440, 1152
INSTANTS = (1, 3, 6)
"""Seconds of the film whose pictures are used; the picture before each is that of one second earlier."""
BURSTS = range(1, 33)
ORDERS = ("scan", "interleaved")
SAFE, FIRM = 7, 8
"""Longest bursts without missing neighbours at all, and without such above, below, left and right."""
Point = tuple[int, str, int]
"""Instant, order, burst."""


@contextmanager
def pictures() -> Iterator[dict[int, Path]]:
    """Raw pictures of the demo clip by their instant, and one second before each."""
    if not CLIP.exists():
        raise FileNotFoundError(f"{CLIP} is missing: make clips")
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for second in sorted({*INSTANTS, *(instant - 1 for instant in INSTANTS)}):
            path = Path(folder) / f"{second}.rgb"
            words = f"-v error -nostdin -y -i {CLIP} -ss {second} -frames:v 1 -s {WIDTH}x{HEIGHT}"
            subprocess.run(
                ["ffmpeg", *words.split(), *f"-pix_fmt rgb24 -f rawvideo {path}".split()], check=True
            )
            found[second] = path
        yield found


def ssim(one: Path, other: Path) -> float:
    """Structural similarity of two raw pictures, by ffmpeg."""
    raw = f"-f rawvideo -pix_fmt rgb24 -s {WIDTH}x{HEIGHT} -i"
    words = [*raw.split(), str(one), *raw.split(), str(other), *["-lavfi", "ssim", "-f", "null", "-"]]
    done = subprocess.run(
        ["ffmpeg", "-nostdin", "-hide_banner", *words], check=True, capture_output=True, text=True
    )
    found = re.search(r"All:([0-9.]+)", done.stderr)
    if found is None:
        raise RuntimeError(f"ffmpeg gives no SSIM: {done.stderr[-300:]}")
    return float(found[1])


@experiment("mpeg-picture-quality/q9", title="Interleaved blocks of I pictures", paper=PAPER)
def q9(context: Context) -> Report:
    """PSNR and SSIM after bursts of lost cells in every tenth group, in scan order and interleaved."""
    points = [(instant, order, burst) for instant in INSTANTS for order in ORDERS for burst in BURSTS]
    with pictures() as files, tempfile.TemporaryDirectory() as folder:

        def one(point: Point) -> dict[str, Any]:
            instant, order, burst = point
            shown = Path(folder) / f"{instant}-{order}-{burst}.rgb"
            run = ask(
                "blocks",
                size=(WIDTH, HEIGHT),
                file=str(files[instant]),
                before=str(files[instant - 1]),
                out=str(shown),
                setting={"order": order, "burst": burst, "seed": 1},
            )
            run["ssim"] = ssim(shown, files[instant])
            shown.unlink()
            return run

        found = dict(zip(points, run_all(context, "bursts of pictures", one, points), strict=True))
    rows = [*exact(), *quality(found)]
    return Report("mpeg-picture-quality/q9", "Interleaved blocks of I pictures", rows, draw(context, found))


def exact() -> list[Row]:
    """What follows from the order of the pixels alone."""
    scan, spread = (ask("geometry", order=order) for order in ORDERS)
    clear = max((it["burst"] for it in spread if it["has_all"]), default=0)
    firm = max((it["burst"] for it in spread if it["has_cross"]), default=0)
    return [
        Row(
            "octets of a block of 8 x 8 pixels of 24 bit, in cells of 48",
            "192 octets = 4 cells",
            f"{8 * 8 * 3} octets = {8 * 8 // scan[0]['missing']} cells of {scan[0]['missing']} pixels",
            "exact",
            judge(8 * 8 // scan[0]["missing"] == 4),
        ),
        Row(
            "pixels of a lost cell, interleaved",
            "16, 2 of a block",
            f"{spread[0]['missing']}, {spread[0]['of_block']} of a block",
            "exact",
            judge((spread[0]["missing"], spread[0]["of_block"]) == (16, 2)),
        ),
        Row(
            "pixels of a lost cell, scan order",
            "16 of one block: two rows",
            f"{scan[0]['missing']}, {scan[0]['of_block']} of a block",
            "exact",
            judge((scan[0]["missing"], scan[0]["of_block"]) == (16, 16)),
        ),
        Row(
            "longest burst after which each missing pixel has its eight neighbours in the block",
            f"{SAFE} cells",
            f"{clear} cells",
            "exact",
            judge(clear == SAFE),
        ),
        Row(
            "longest burst after which it has those above, below, left and right",
            f"{FIRM} cells",
            f"{firm} cells",
            "exact",
            judge(firm == FIRM),
        ),
    ]


def mean(found: dict[Point, dict[str, Any]], order: str, burst: int, key: str) -> float:
    """Mean over the pictures."""
    return sum(found[instant, order, burst][key] for instant in INSTANTS) / len(INSTANTS)


def quality(found: dict[Point, dict[str, Any]]) -> list[Row]:
    """PSNR and SSIM of both orders."""
    rows = []
    for burst in (1, 4, 7, 8, 12, 16, 24, 32):
        both = [mean(found, order, burst, "psnr_db") for order in ORDERS]
        alike = [mean(found, order, burst, "ssim") for order in ORDERS]
        rows.append(
            Row(
                f"bursts of {burst} in every tenth group: PSNR and SSIM, scan order and interleaved",
                "interleaved more" if burst <= 16 else "none for bursts above 16",
                f"{both[0]:.1f} and {both[1]:.1f} dB; {alike[0]:.4f} and {alike[1]:.4f}",
                "more" if burst <= 16 else "-",
                judge(both[1] > both[0]) if burst <= 16 else "open",
            )
        )
    worst = min(
        found[instant, "interleaved", burst]["psnr_db"] - found[instant, "scan", burst]["psnr_db"]
        for instant in INSTANTS
        for burst in BURSTS
        if burst <= 16
    )
    rows.append(
        Row(
            f"least gain of PSNR, bursts of 1 to 16, {len(INSTANTS)} pictures",
            "more than 0 for each",
            f"{worst:.1f} dB",
            "more than 0",
            judge(worst > 0),
        )
    )
    return rows


def draw(context: Context, found: dict[Point, dict[str, Any]]) -> str:
    """PSNR over the length of bursts."""
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    for order, colour in zip(ORDERS, COLOURS, strict=False):
        axis.plot(
            BURSTS, [mean(found, order, burst, "psnr_db") for burst in BURSTS], color=colour, label=order
        )
    axis.set(xlabel="lost cells in a row", ylabel="PSNR (dB)")
    axis.legend()
    return style.save(figure, context.path("picture-q9"))
