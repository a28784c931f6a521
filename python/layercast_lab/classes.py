"""The command `layercast-lab classes`: a report of `layercast probe --classes` as a picture."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatter

from layercast_lab import simulator, style
from layercast_lab.commands import check_picture, complain, write_picture
from layercast_lab.style import plt

CLASSES = {"S": "headers, tables, sound", "I": "I pictures", "P": "P pictures", "B": "B pictures, padding"}
KINDS = "IPB"
COLOURS = {"S": style.ACCENT} | dict(zip(KINDS, style.LAYER_COLOURS.values(), strict=True))
MOST_VIDEOS = 8
"""Videos of a stream that are drawn, so that the picture stays one that a viewer opens."""
LEAST_LABEL = 4.0
"""Share in percent from which on its number fits into a bar."""
MOST_PATTERN = 120
"""Pictures of a GOP that a report has at most."""
MOST_LETTERS = 30
"""Pictures of a GOP whose letters fit below them."""


class ReportError(ValueError):
    """What was read is no report of `layercast probe --classes`."""


@dataclass(frozen=True)
class Sizes:
    """Pictures of one class of a video."""

    count: int
    mean: float
    largest: float


@dataclass(frozen=True)
class Video:
    """One video of a report. `gop` is as in the report; `sequence` has the sizes of all pictures in order."""

    pid: int | None
    sizes: dict[str, Sizes]
    gop: dict[str, Any] | None
    sequence: list[tuple[str, int]] | None

    @property
    def name(self) -> str:
        """As the table of `layercast probe --classes` names it."""
        return "video" if self.pid is None else f"video 0x{self.pid:04x}"


@dataclass(frozen=True)
class ClassesReport:
    """What is drawn of a report: amounts by unit and class, and the videos."""

    amounts: dict[str, dict[str, int]]
    videos: list[Video]


def classes(
    file: Annotated[
        str,
        typer.Argument(help="A stream, a report as NAME.json, or - for a report on standard input."),
    ],
    out: Annotated[
        Path, typer.Option(help="The picture; it is written as .png and as .svg beside it.")
    ] = Path("classes.png"),
) -> None:
    """Draw what a network can discard of a stream: shares of classes, sizes of pictures, and GOPs.

    The report is that of `layercast probe --classes --json`; of a stream it is made. Exit status: 0, 1 if the
    stream or report cannot be read or the picture not be written, 2 wrong use.

    layercast-lab classes clip.ts

    layercast probe --classes clip.ts --json | layercast-lab classes - --out clip.svg
    """
    check_picture(out)
    try:
        report = parse(told(file), file)
    except OSError as error:
        # A program that is missing has no number of an error, and its text says what to do.
        complain(f"error: {file}: {error.strerror}" if error.strerror else f"error: {error}")
        raise typer.Exit(1) from None
    except ReportError as error:
        complain(f"error: {error}")
        raise typer.Exit(1) from None
    write_picture(draw(report, file), out)


def told(file: str) -> str:
    """The text of the report: read, or made of a stream."""
    try:
        if file == "-":
            return sys.stdin.read()
        if file.endswith(".json"):
            return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ReportError(f"{file}: it is no text; give a stream a name without .json") from None
    # The name of a stream may begin with a hyphen.
    done = subprocess.run(
        [simulator.command(), "probe", "--classes", "--pictures", "--json", "--", file],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ReportError(done.stderr.strip().removeprefix("layercast: "))
    return done.stdout


def parse(text: str, name: str) -> ClassesReport:
    """The report in a text; `name` is for errors."""
    remedy = "make one with `layercast probe --classes FILE --json`"
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{name}: no JSON ({error}); {remedy}") from None
    try:
        return report_of(data)
    except KeyError as error:
        raise ReportError(f"{name}: a report of classes has {error}, and this has not; {remedy}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"{name}: no report of classes ({error}); {remedy}") from None


def number(value: Any) -> Any:
    """A number that is not negative; raises ValueError."""
    # NaN is not at least 0, and a bar of infinite length cannot be drawn.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        raise ValueError(f"{value!r} is no amount")
    return value


def report_of(data: dict[str, Any]) -> ClassesReport:
    """The report in JSON."""
    if not isinstance(data, dict):
        raise TypeError("an object is expected")
    by_class = {share["class"]: share for share in data["classes"]}
    missing = [name for name in CLASSES if name not in by_class]
    if missing:
        raise ValueError(f"no class {missing[0]}")
    # Elementary streams have neither packets nor cells.
    units = ["octets", *(unit for unit in ("packets", "cells") if unit in by_class["S"])]
    amounts = {unit: {name: number(by_class[name][unit]) for name in CLASSES} for unit in units}
    return ClassesReport(amounts, [video_of(video) for video in data["videos"]])


def video_of(video: dict[str, Any]) -> Video:
    """One video of the report in JSON."""
    sizes = {
        it["class"]: Sizes(number(it["count"]), number(it["mean_octets"]), number(it["max_octets"]))
        for it in video["pictures"]
    }
    gop = video.get("gop")
    if gop is not None:
        for name in ("count", "min_pictures", "max_pictures", "reference_distance", "pattern_percent"):
            number(gop[name])
        if len(gop["pattern"]) > MOST_PATTERN:
            raise ValueError(f"a pattern of {len(gop['pattern'])} pictures")
        if not set(gop["pattern"]) <= set(sizes):
            raise ValueError(f"the pattern {gop['pattern']!r} has pictures whose sizes are missing")
    pid, sequence = video.get("pid"), video.get("sequence")
    if sequence is not None:
        if not set(sequence["classes"]) <= set(KINDS):
            raise ValueError("a picture is none of I, P and B")
        octets = map(number, sequence["octets"])
        sequence = list(zip(sequence["classes"], octets, strict=True))
    of_kinds = {kind: sizes[kind] for kind in KINDS}
    return Video(None if pid is None else int(number(pid)), of_kinds, gop, sequence)


def draw(report: ClassesReport, name: str) -> Figure:
    """Shares on top, and below a row for each video: sizes of its pictures, and a GOP."""
    shown = report.videos[:MOST_VIDEOS]
    figure = plt.figure(figsize=(8.4, 1.5 + 0.42 * len(report.amounts) + 2.3 * len(shown)))
    heights = [0.6 + 0.42 * len(report.amounts), *[2.3] * len(shown)]
    grid = figure.add_gridspec(1 + len(shown), 2, height_ratios=heights, width_ratios=(1.4, 1.6))
    shares(figure.add_subplot(grid[0, :]), report.amounts)
    for row, video in enumerate(shown, start=1):
        left = figure.add_subplot(grid[row, 0])
        if video.sequence is None:
            sizes(left, video)
        else:
            course(left, video, video.sequence)
        gop(figure.add_subplot(grid[row, 1]), video)
    more = len(report.videos) - len(shown)
    title = "standard input" if name == "-" else Path(name).name
    figure.suptitle(title + (f": the first {len(shown)} of {len(report.videos)} videos" if more else ""))
    return figure


def shares(axis: Axes, amounts: dict[str, dict[str, int]]) -> None:
    """Stacked bars in percent, one for each unit."""
    for place, of_class in enumerate(amounts.values()):
        whole, left = sum(of_class.values()) or 1, 0.0
        for name, amount in of_class.items():
            percent = 100 * amount / whole
            bar = axis.barh(place, percent, left=left, height=0.7, color=COLOURS[name])
            if percent >= LEAST_LABEL:
                axis.bar_label(bar, [f"{percent:.1f}"], label_type="center", color=ink(name), fontsize=8)
            left += percent
    axis.set_yticks(range(len(amounts)), list(amounts))
    axis.invert_yaxis()
    axis.set(xlim=(0, 100), xlabel="share (%)")
    axis.grid(visible=False)
    handles = [Patch(color=COLOURS[name], label=f"{name}  {what}") for name, what in CLASSES.items()]
    axis.legend(handles=handles, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8.5)


def ink(name: str) -> str:
    """A colour that can be read on that of the class."""
    return "black" if name == "B" else "white"


def sizes(axis: Axes, video: Video) -> None:
    """Mean and largest pictures by class."""
    present = {kind: it for kind, it in video.sizes.items() if it.count}
    for place, (kind, it) in enumerate(present.items()):
        axis.bar(place, it.mean / 1000, width=0.7, color=COLOURS[kind])
        axis.plot(place, it.largest / 1000, "_", color="black", markersize=14)
    axis.set_xticks(range(len(present)), [f"{kind}\n{it.count}" for kind, it in present.items()])
    axis.set(ylabel="mean, and largest (kB)", title=video.name)
    axis.grid(visible=False, axis="x")


def course(axis: Axes, video: Video, sequence: list[tuple[str, int]]) -> None:
    """The size of each picture, in the order in which they are sent."""
    # I pictures are few: they are drawn last, above the others.
    for kind in reversed(KINDS):
        points = [(place, octets / 1000) for place, (it, octets) in enumerate(sequence) if it == kind]
        if points:
            axis.plot(*zip(*points, strict=True), ".", color=COLOURS[kind], markersize=4, label=kind)
    axis.set(xlabel="pictures as sent", ylabel="size (kB)", yscale="log", title=video.name)
    # Plain numbers, also between powers of ten where there are few of these.
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))


def gop(axis: Axes, video: Video) -> None:
    """The most frequent GOP, each picture with the mean size of its class."""
    found = video.gop
    if found is None:
        axis.text(0.5, 0.5, "fewer than two I pictures: no GOP", ha="center", va="center")
        axis.set_axis_off()
        return
    pattern = found["pattern"]
    heights = [video.sizes[kind].mean / 1000 for kind in pattern]
    axis.bar(range(len(pattern)), heights, width=0.8, color=[COLOURS[kind] for kind in pattern])
    if len(pattern) <= MOST_LETTERS:
        axis.set_xticks(range(len(pattern)), list(pattern))
    least, most = found["min_pictures"], found["max_pictures"]
    length = f"{most}" if least == most else f"{least} to {most}"
    axis.set_title(
        f"{found['count']} GOPs of {length} pictures, references {found['reference_distance']} apart\n"
        f"{found['pattern_percent']:.1f} % are like this one",
        fontsize=9.5,
    )
    axis.set(xlabel="pictures as sent", ylabel="mean of its class (kB)")
    axis.grid(visible=False, axis="x")
