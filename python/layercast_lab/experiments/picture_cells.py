"""Picture quality on ATM: classes of streams, and what lost cells cost (specs/mpeg-picture-quality.md 4)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.picture_switch import PAPER
from layercast_lab.picture import ask, letters
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

CLIP = Path(__file__).resolve().parents[3] / "target" / "demo" / "clip.m1v"
SECONDS = 10
STREAMS = {
    "MPEG-2": "-c:v mpeg2video -b:v 4M -maxrate 6M -bufsize 2M -g 12 -bf 2 -sc_threshold 1000000000",
    "H.264": "-c:v libx264 -preset veryfast -g 24 -bf 2 -x264-params b-pyramid=none:scenecut=0",
}
"""Big Buck Bunny with a tone of 192 kbit/s, by options of ffmpeg."""
PAPER_SHARES = (5.0, 53.0, 29.0, 13.0)
"""S, I, P, B in percent."""
SECOND_SHARES = (5.0, 50.0, 30.0, 15.0)
"""The same where the paper rounds them."""
RATES = (1e-5, 1e-4, 1e-3, 1e-2)
BURSTS = (1, 10, 30)
MODES = {"mark": "AAL5", "separate": "AAL5+"}
GROUP = 8
PLAIN_CELLS = 8
"""Cells of two packets in classical AAL5."""
GROUPS = {2: 12.5, 4: 6.25, 8: 0.0, 10: 0.0, 12: 2.1}
"""Cells of AAL5+ above those of classical AAL5 by packets of a group, in percent, in the specification.

Of ten packets the headers alone fill a cell: 0 is without the octet of flags."""
ALIKE = 960
"""Packets of one class of which the groups are made: whole groups of each size."""


@contextmanager
def streams() -> Iterator[dict[str, Path]]:
    """The transport streams, made of the demo clip."""
    if shutil.which("ffmpeg") is None or not CLIP.exists():
        raise FileNotFoundError(f"ffmpeg or {CLIP} is missing: make clips")
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for number, (name, options) in enumerate(STREAMS.items()):
            path = Path(folder) / f"{number}.ts"
            words = f"-v error -nostdin -y -i {CLIP} -f lavfi -i sine=r=48000 -map 0:v -map 1:a -t {SECONDS}"
            words += f" {options} -c:a mp2 -b:a 192k -f mpegts {path}"
            subprocess.run(["ffmpeg", *words.split()], check=True)
            found[name] = path
        yield found


@experiment("mpeg-picture-quality/q1", title="Shares of the classes of real streams", paper=PAPER)
def q1(context: Context) -> Report:
    """Octets, packets and cells by class of an MPEG-2 and an H.264 encoding of a film with sound."""
    rows = source_rows()
    with streams() as files:
        for name, path in files.items():
            report = ask("classes", file=str(path))
            by_octets = [it["octets_percent"] for it in report["classes"]]
            video = report["videos"][0]
            gop = video["gop"]
            order = (gop["max_pictures"], gop["reference_distance"])
            sizes = ", ".join(f"{it['class']} {it['mean_octets']:.0f}" for it in video["pictures"])
            apart = ask("losses", file=str(path), settings=[setting("separate", 0.0, 1)])[0]["sent"]
            by_cells = [100 * count / sum(apart["cells"]) for count in apart["cells"]]
            rows += [
                Row(
                    f"{name}: octets",
                    f"{letters(list(PAPER_SHARES))} % of the cells",
                    f"{letters(by_octets)} %",
                    "-",
                    "open",
                    "the shares of the paper are those of its stream",
                ),
                Row(
                    f"{name}: cells of AAL5+",
                    f"{letters(list(PAPER_SHARES))} %",
                    f"{letters(by_cells)} %",
                    "-",
                    "open",
                    "sound and a header cell for each group are class S",
                ),
                Row(
                    f"{name}: order of pictures",
                    "IBBPBBPBBPBB, N = 12, M = 3" if "MPEG-2" in name else "-",
                    f"{gop['pattern']}, N = {order[0]}, M = {order[1]}; octets {sizes}",
                    "N and M as encoded",
                    judge(order == (12 if "MPEG-2" in name else 24, 3)),
                ),
            ]
    return Report("mpeg-picture-quality/q1", "Shares of the classes of real streams", rows)


def source_rows() -> list[Row]:
    """Cells of the videos that share a buffer, beside both statements of the paper."""
    runs = ask("run", settings=[{"load": 0.8, "seconds": SECONDS, "seed": seed} for seed in (1, 2, 3)])
    shares = [sum(run["share_percent"][place] for run in runs) / len(runs) for place in range(4)]
    near = all(abs(a - b) <= 1 for a, b in zip(shares, PAPER_SHARES, strict=True))
    return [
        Row(
            "videos of q2 to q5: cells",
            f"{letters(list(PAPER_SHARES))} %",
            f"{letters(shares)} %",
            "within 1 point",
            judge(near),
        ),
        Row(
            "videos of q2 to q5: cells, beside the second statement of the shares",
            f"{letters(list(SECOND_SHARES))} %",
            f"{letters(shares)} %",
            "-",
            "open",
            "the paper rounds them there; the videos have the shares of the first statement",
        ),
    ]


def setting(mode: str, rate: float, burst: float, seed: int = 1, group: int = GROUP) -> dict[str, Any]:
    """Cells of one kind, lost at this rate in bursts of this mean length."""
    return {"mode": mode, "group": group, "rate": rate, "burst": burst, "seed": seed}


@experiment("mpeg-picture-quality/q6", title="AAL5+ beside AAL5 when cells are lost", paper=PAPER)
def q6(context: Context) -> Report:
    """Packets that are whole, damaged and missing, by rate and length of bursts of lost cells."""
    seeds = context.seed_range(10)
    rows: list[Row] = []
    with streams() as files:
        rows += group_rows(files["MPEG-2"])
        for name, path in files.items():
            points = [(mode, rate, burst) for rate in RATES for burst in BURSTS for mode in MODES]

            def one(point: tuple[str, float, int], path: Path = path) -> list[dict[str, Any]]:
                settings = [setting(*point, seed=seed) for seed in seeds]
                return ask("losses", file=str(path), settings=settings)

            found = dict(zip(points, run_all(context, f"lost cells, {name}", one, points), strict=True))
            rows += loss_rows(name, found)
            if "MPEG-2" in name:
                figure = draw(context, found)
    return Report("mpeg-picture-quality/q6", "AAL5+ beside AAL5 when cells are lost", rows, figure)


def group_rows(stream: Path) -> list[Row]:
    """Cells of groups of each size, of packets that are scrambled: data of one class."""
    octets = stream.read_bytes()
    packets = [octets[at : at + 188] for at in range(0, len(octets), 188)]
    pids = [int.from_bytes(it[1:3], "big") & 0x1FFF for it in packets]
    # PAT, PMT, and the video that they name.
    tables = [packets[pids.index(pid)] for pid in (0, 0x1000)]
    video = [
        bytes([0x47, 0x01, 0x00, 0x90 | number & 15]) + bytes([number & 255]) * 184 for number in range(ALIKE)
    ]
    cells = {}
    for group in GROUPS:
        # The tables are a group of their own.
        lead = [tables[number % 2] for number in range(group)]
        sent = []
        for tail in ([], video):
            with tempfile.NamedTemporaryFile(suffix=".ts") as file:
                file.write(b"".join([*lead, *tail]))
                file.flush()
                run = ask("losses", file=file.name, settings=[setting("separate", 0.0, 1, group=group)])[0]
                sent.append(run["sent"])
        plain = sent[1]["plain_cells"] - sent[0]["plain_cells"]
        cells[group] = (sum(sent[1]["cells"]) - sum(sent[0]["cells"]), plain)
    of_two = cells[2][1] / (ALIKE / 2)
    rows = [
        Row(
            "classical AAL5: cells of two packets",
            f"{PLAIN_CELLS}: 376 octets and a trailer of 8",
            f"{of_two:g}",
            "exact",
            judge(of_two == PLAIN_CELLS),
        )
    ]
    for group, expected in GROUPS.items():
        apart, plain = cells[group]
        more = 100 * (apart / plain - 1)
        rows.append(
            Row(
                f"data of one class, groups of {group}: cells of AAL5+ above classical AAL5",
                f"{expected:g} %",
                f"{more:.2f} %",
                "within rounding",
                judge(abs(more - expected) <= 0.05),
                "0 % is without flags: with them the headers of ten packets take two cells"
                if group == 10
                else "",
            )
        )
    return rows


def total(runs: list[dict[str, Any]], key: str) -> int:
    """Sum over the seeds."""
    return sum(run[key] for run in runs)


def unwhole(runs: list[dict[str, Any]]) -> float:
    """Packets that are not whole, in percent of all."""
    broken = total(runs, "damaged_packets") + total(runs, "missing_packets")
    return 100 * broken / (broken + total(runs, "whole_packets"))


def loss_rows(name: str, found: dict[tuple[str, float, int], list[dict[str, Any]]]) -> list[Row]:
    """Rows of one stream."""
    apart = found["separate", RATES[0], 1][0]
    cells = [100 * count / sum(apart["sent"]["cells"]) for count in apart["sent"]["cells"]]
    rows = [
        Row(
            f"{name}: cells of AAL5+ above classical AAL5",
            "0 % in groups of 8 for data of one class",
            f"{apart['overhead_percent']:.1f} %; {letters(cells)} %",
            "-",
            "open",
            "the last cell of each run is not full, and one-cell frames carry 36 of 48 octets",
        )
    ]
    for rate in RATES:
        marked, separate = found["mark", rate, 1], found["separate", rate, 1]
        missing = [lost(runs) for runs in (marked, separate)]
        expected = 100 * (1 - (1 - rate) ** 9)
        rows.append(
            Row(
                f"{name}: packets not whole at a loss of {rate:g}, independent",
                f"AAL5 1 - (1 - p)^9: {expected:.3g} %",
                f"AAL5 {unwhole(marked):.3g} %, AAL5+ {unwhole(separate):.3g} %; "
                f"missing altogether {missing[0]:.3g} and {missing[1]:.3g} %",
                "AAL5 within 15 % or 0.01 points",
                judge(abs(unwhole(marked) - expected) <= max(0.15 * expected, 0.01)),
                "AAL5+ damages the packets of a run, but knows which octets of them came",
            )
        )
    for burst in BURSTS[1:]:
        runs = [found[mode, 1e-2, burst] for mode in ("mark", "separate")]
        shares = [unwhole(it) for it in runs]
        alone = [unwhole(found[mode, 1e-2, 1]) for mode in ("mark", "separate")]
        rows.append(
            Row(
                f"{name}: packets not whole at a loss of 0.01, bursts of {burst}",
                "fewer than with independent losses",
                f"AAL5 {shares[0]:.2f} %, AAL5+ {shares[1]:.2f} %",
                "fewer",
                judge(all(a < b for a, b in zip(shares, alone, strict=True))),
            )
        )
    return rows


def lost(runs: list[dict[str, Any]]) -> float:
    """Packets of which nothing came, in percent of all."""
    missing = total(runs, "missing_packets")
    return 100 * missing / (missing + total(runs, "damaged_packets") + total(runs, "whole_packets"))


def draw(context: Context, found: dict[tuple[str, float, int], list[dict[str, Any]]]) -> str:
    """Packets that are not whole over the rate of losses."""
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    for (mode, name), colour in zip(MODES.items(), COLOURS, strict=False):
        for burst, line in zip(BURSTS, ("-", "--", ":"), strict=True):
            values = [unwhole(found[mode, rate, burst]) for rate in RATES]
            axis.plot(RATES, values, line, marker="o", color=colour, label=f"{name}, bursts of {burst}")
    axis.set(xscale="log", yscale="log", xlabel="lost cells", ylabel="packets not whole (%)")
    axis.legend()
    return style.save(figure, context.path("picture-q6"))
