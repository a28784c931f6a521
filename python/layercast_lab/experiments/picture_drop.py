"""A line that falls: discard by class, and the selection of layers (specs/mpeg-picture-quality.md 2.5)."""

from __future__ import annotations

import math
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.mets_filters import ffmpeg
from layercast_lab.experiments.picture_cells import CLIP
from layercast_lab.experiments.picture_switch import PAPER
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all, simulate, toml_file
from layercast_lab.style import plt

FPS = 25
START, END = 2.0, 28.0
"""Seconds of the film."""
FALLS, LASTS = 10.0, 10.0
"""When the line falls, up to a GOP later, and for how long."""
GOP_SECONDS = 12 / FPS
SHARES = (80, 60, 40)
"""What is left of the rate of the line, in percent."""
SEEDS = 3
SELECTION = "layers selected"
ALONE = ("fifo", "exclp", "exclp_epd", "dependent", "whole_gops")
"""Policies of the port by which all layers are sent."""
BOTH = ("exclp_epd", "dependent", "whole_gops")
"""Policies of the port by which layers are selected, too."""
QUEUE = "600 ms"
"""Of the full rate: twice the largest I picture.

A full queue takes 1.5 s at the least rate, less than the delay bound of 2 s."""
MARKS = 0.6
"""Share of the queue from which on congestion is marked: more than an I picture takes."""
FAST = {"rate": "100 Mbit/s", "delay": "0.5 us", "queue": "1 s", "efci": 0.5}


@dataclass(frozen=True)
class Way:
    """How the port is run."""

    discard: str
    """What its full queue discards."""
    adapt: bool
    """Whether layers are selected."""

    @property
    def name(self) -> str:
        """As rows call it."""
        if not self.adapt:
            return f"all layers, {self.discard}"
        return SELECTION if self.discard == "layers" else f"{SELECTION}, {self.discard}"


WAYS = (
    Way("layers", True),
    *(Way(policy, False) for policy in ALONE),
    *(Way(policy, True) for policy in BOTH),
)


@dataclass(frozen=True)
class Seen:
    """What a receiver showed while the line was narrow."""

    decodable: float
    """Pictures of the film that it showed in their place, to the bit, in percent."""
    freeze: float
    """Longest time without such a picture, in seconds."""
    mse: float
    """Mean square error of luminance."""
    calm: float
    """Pictures decodable before the line falls, in percent."""

    @property
    def psnr(self) -> float:
        """PSNR of luminance, in dB."""
        return 10 * math.log10(255**2 / self.mse) if self.mse else 100.0


def falls(seed: int) -> float:
    """When the line falls: anywhere in a GOP."""
    return FALLS + random.Random(seed).random() * GOP_SECONDS


def scenario(way: Way, share: int, seed: int) -> dict[str, Any]:
    """The film of the demo over one link that falls and comes back."""
    begin = falls(seed)
    narrow = FAST | {
        "a": "sparrow",
        "b": "rook",
        "rate": {"fits": "bunny", "level": 2, "spare": 0.05},
        "schedule": f"{begin:.3f}s:{share}%,{begin + LASTS:.3f}s:100%",
        "queue": QUEUE,
        "efci": MARKS,
        "discard": way.discard,
        "adapt": way.adapt,
    }
    flow: dict[str, Any] = {
        "name": "bunny",
        "source": "atc",
        "clip": {"file": str(CLIP)},
        "start": f"{START:g}s",
        "stop": f"{END:g}s",
        "delay_max": "2s",
    }
    if not way.adapt:
        # The receiver asks for all layers whatever it loses.
        flow["policy"] = {"adapt": "none"}
    kinds = {"atc": "host", "sparrow": "switch", "rook": "switch", "dwp": "host"}
    return {
        "name": "drop",
        "duration": f"{END + 2:g}s",
        "seed": seed,
        "node": [{"name": name, "kind": kind} for name, kind in kinds.items()],
        "link": [FAST | {"a": "atc", "b": "sparrow"}, narrow, FAST | {"a": "rook", "b": "dwp"}],
        "flow": [flow],
        "receiver": [{"name": "wide", "node": "dwp", "flow": "bunny", "level": 2}],
    }


def errors(video: Path, pictures: int) -> list[tuple[float, bool]]:
    """Of the first pictures: mean square error of luminance against the film, and whether there is none."""
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
        cut = f"trim=end_frame={pictures},setpts=N/{FPS}/TB"
        graph = f"[0:v]{cut}[seen];[1:v]{cut}[film];[seen][film]psnr=shortest=1:stats_file={log.name}"
        ffmpeg("-i", video, "-i", CLIP, "-lavfi", graph, "-fps_mode", "passthrough", "-f", "null", "-")
        fields = [dict(word.split(":", 1) for word in line.split()) for line in log]
    return [(float(it["mse_y"]), it["psnr_avg"] == "inf") for it in fields]


def watch(video: Path, begin: float) -> Seen:
    """What a receiver showed whose stream has a picture, or a repeat, for each of the film."""
    # The picture that is sent when the line falls, and the one sent when it is back.
    low, high = (round((at - START) * FPS) for at in (begin, begin + LASTS))
    shown = errors(video, high)
    if len(shown) < high:
        raise ValueError(f"{len(shown)} of {high} pictures")
    longest = run = 0
    for _, is_right in shown[low:high]:
        run = 0 if is_right else run + 1
        longest = max(longest, run)
    narrow = shown[low:high]
    # The first GOP comes before all layers are granted.
    calm = shown[round(2 * GOP_SECONDS * FPS) : low]
    return Seen(
        100 * sum(is_right for _, is_right in narrow) / len(narrow),
        longest / FPS,
        sum(error for error, _ in narrow) / len(narrow),
        100 * sum(is_right for _, is_right in calm) / len(calm),
    )


def mean(runs: list[Seen], key: str) -> float:
    """Mean over the seeds."""
    return sum(getattr(run, key) for run in runs) / len(runs)


@experiment(
    "mpeg-picture-quality/drop", title="A line that falls: classes at the port, and layers", paper=PAPER
)
def drop(context: Context) -> Report:
    """Decodable pictures, the longest freeze and PSNR while a line carries less than the film."""
    if not CLIP.exists():
        raise FileNotFoundError(f"there is no {CLIP}; `make clips` makes it")
    seeds = context.seed_range(SEEDS)

    def one(job: tuple[Way, int, int]) -> tuple[Seen, dict[str, Any]]:
        way, share, seed = job
        with tempfile.TemporaryDirectory() as folder:
            told = simulate(scenario(way, share, seed), Path(folder, "drop.toml"), "--out", folder)
            return watch(Path(folder, "wide.m1v"), falls(seed)), told["flows"][0]["receivers"][0]

    jobs = [(way, share, seed) for share in SHARES for way in WAYS for seed in seeds]
    runs = dict(zip(jobs, run_all(context, "a line that falls", one, jobs), strict=True))
    found = {(way, share): [runs[way, share, seed] for seed in seeds] for share in SHARES for way in WAYS}
    seen = {key: [it for it, _ in both] for key, both in found.items()}
    rows = [one_row(way, share, both) for (way, share), both in found.items()]
    for share in SHARES:
        rows += compared(share, {way: seen[way, share] for way in WAYS})
    least = min(it.calm for both in seen.values() for it in both)
    rows.append(
        Row(
            "all layers, before the line falls: decodable pictures",
            "all: the line fits the film",
            f"{min(it.calm for (way, _), both in seen.items() if not way.adapt for it in both):.1f} %"
            f" (layers selected {least:.1f} %)",
            "100 %",
            judge(all(it.calm == 100 for (way, _), both in seen.items() if not way.adapt for it in both)),
            "the probe for more layers now and then gives one up where layers are selected",
        )
    )
    example = context.path("picture-drop.toml")
    example.write_text(toml_file(scenario(Way("whole_gops", False), 60, 1)))
    title = "A line that falls: classes at the port, and layers"
    return Report("mpeg-picture-quality/drop", title, rows, draw(context, seen), scenario=str(example))


def one_row(way: Way, share: int, both: list[tuple[Seen, dict[str, Any]]]) -> Row:
    """What one way comes to."""
    runs = [it for it, _ in both]
    lost = {layer: sum(told["lost"][layer] for _, told in both) / len(both) for layer in ("BL", "E1", "E2")}
    late = sum(told["late"] for _, told in both) / len(both)
    return Row(
        f"{share} % left, {way.name}",
        "ours",
        f"{mean(runs, 'decodable'):.1f} % decodable ({min(it.decodable for it in runs):.0f} to "
        f"{max(it.decodable for it in runs):.0f}), longest freeze {max(it.freeze for it in runs):.2f} s, "
        f"PSNR {psnr(runs):.1f} dB; lost I {lost['BL']:.0f} P {lost['E1']:.0f} B {lost['E2']:.0f}, "
        f"late {late:.0f}",
        "-",
        "open",
    )


def psnr(runs: list[Seen]) -> float:
    """PSNR of all seeds, in dB."""
    square = mean(runs, "mse")
    return 10 * math.log10(255**2 / square) if square else 100.0


def compared(share: int, seen: dict[Way, list[Seen]]) -> list[Row]:
    """What knowing the pictures is worth, with and without the selection of layers."""
    alone = {way.discard: mean(seen[way], "decodable") for way in WAYS if not way.adapt}
    selected = mean(seen[WAYS[0]], "decodable")
    both = {
        way.discard: mean(seen[way], "decodable") for way in WAYS if way.adapt and way.discard != "layers"
    }
    best = max(alone, key=lambda policy: alone[policy])
    told = ", ".join(f"{policy} {value:.1f}" for policy, value in alone.items())
    best_both = max(both, key=lambda policy: both[policy])
    return [
        Row(
            f"{share} % left, all layers: order of the policies by decodable pictures",
            "fifo, exclp, exclp_epd: each at least the one before",
            f"{told} %",
            "at least",
            judge(alone["fifo"] <= alone["exclp"] <= alone["exclp_epd"]),
        ),
        Row(
            f"{share} % left: the best policy at the port beside the selection of layers",
            "ours",
            f"{best} {alone[best]:.1f} %, {SELECTION} {selected:.1f} %, "
            f"both ({best_both}) {both[best_both]:.1f} %",
            "-",
            "open",
        ),
    ]


def draw(context: Context, seen: dict[tuple[Way, int], list[Seen]]) -> str:
    """Decodable pictures and PSNR of each way, by what is left of the line."""
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), sharey=True)
    height = 0.8 / len(SHARES)
    for place, (share, colour) in enumerate(zip(SHARES, COLOURS, strict=False)):
        rows = [number + (place - 1) * height for number in range(len(WAYS))]
        runs = [seen[way, share] for way in WAYS]
        axes[0].barh(rows, [mean(it, "decodable") for it in runs], height, color=colour, label=f"{share} %")
        axes[1].barh(rows, [psnr(it) for it in runs], height, color=colour)
    axes[0].set(
        yticks=range(len(WAYS)),
        yticklabels=[way.name for way in WAYS],
        xlabel="decodable pictures (%)",
        xlim=(0, 100),
    )
    axes[0].invert_yaxis()
    # Selected layers leave this corner free.
    axes[0].legend(title="of the line left", loc="lower right")
    axes[1].set(xlabel="PSNR of luminance (dB)", xlim=(10, None))
    return style.save(figure, context.path("picture-drop"))
