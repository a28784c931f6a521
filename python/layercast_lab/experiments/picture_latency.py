"""How long a block of parities takes at the rate of a stream (specs/mpeg-picture-quality.md 5.3)."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

from layercast_lab.experiment import Row, judge
from layercast_lab.experiments.picture_cells import streams
from layercast_lab.simulator import command

PACKET, GROUP = 188, 8
HEADER, RECORD = 24, 61
"""Octets of the beginning of a file of cells, and of a cell in it."""
PCR_CLOCK = 27_000_000
Sent = tuple[float, bool]
"""Time of a cell of class S in milliseconds, and whether it is a parity."""


def constant(tables: list[bytes], bps: int, count: int) -> bytes:
    """Whole groups of packets of one class at a constant rate, with two references of the clock."""
    lead = [tables[number % len(tables)] for number in range(GROUP)]
    video = []
    for number in range(count):
        head = bytes([0x47, 0x01, 0x00, 0x90 | number & 15])
        if number in (0, count - 1):
            base, rest = divmod(number * PACKET * 8 * PCR_CLOCK // bps, 300)
            field = bytes([7, 0x10]) + (base << 15 | 0x7E00 | rest).to_bytes(6, "big")
            head = bytes([0x47, 0x01, 0x00, 0xB0 | number & 15]) + field
        video.append(head + bytes([number & 255]) * (PACKET - len(head)))
    return b"".join([*lead, *video])


def system_cells(tables: list[bytes], bps: int, count: int, side: int) -> list[Sent]:
    """Cells of class S that `layercast prepacketize` makes of such a stream, in order."""
    with tempfile.TemporaryDirectory() as folder:
        stream, cells = Path(folder) / "constant.ts", Path(folder) / "constant.cells"
        stream.write_bytes(constant(tables, bps, count))
        options = ["--group", str(GROUP), "--parity", f"{side}x{side}", "--json"]
        words = [command(), "prepacketize", str(stream), str(cells), *options]
        subprocess.run(words, capture_output=True, text=True, check=True)
        octets = cells.read_bytes()[HEADER:]
    found = []
    for at in range(0, len(octets), RECORD):
        cell, (time,) = octets[at : at + 53], struct.unpack(">Q", octets[at + 53 : at + RECORD])
        # CLP is 0, and so is EFCI: class S. The second octet of the trailer tells parities.
        if cell[3] & 0b101 == 0:
            found.append((time / 1e6, cell[5 + 41] != 0))
    return found


def blocks(cells: list[Sent]) -> list[tuple[int, float, float]]:
    """Of each whole block: data cells, time to the next block, and wait of its first cell."""
    begins = [place for place in range(1, len(cells)) if not cells[place][1] and cells[place - 1][1]]
    found = []
    for begin, end in pairwise(begins):
        data = sum(not is_parity for _, is_parity in cells[begin:end])
        found.append((data, cells[end][0] - cells[begin][0], cells[end - 1][0] - cells[begin][0]))
    return found


def latency() -> list[Row]:
    """Header cells and blocks of a stream of 4 Mbit/s, and of one of ten times that."""
    with streams() as files:
        octets = files["MPEG-2"].read_bytes()
    packets = [octets[at : at + PACKET] for at in range(0, len(octets), PACKET)]
    pids = [int.from_bytes(it[1:3], "big") & 0x1FFF for it in packets]
    # PAT, PMT.
    tables = [packets[pids.index(pid)] for pid in (0, 0x1000)]
    live = system_cells(tables, 4_000_000, 2600, 4)
    times = [time for time, is_parity in live if not is_parity]
    apart = median(b - a for a, b in pairwise(times))
    found = [
        Row(
            "4 Mbit/s, groups of 8: time from one header cell to the next",
            "3.008 ms",
            f"{apart:.3f} ms (median of {len(times) - 1})",
            "within rounding",
            judge(abs(apart - 3.008) <= 0.001),
        )
    ]
    for name, bps, side, expected, note in (
        ("4 Mbit/s", 4_000_000, 4, 48.0, ""),
        ("4 Mbit/s", 4_000_000, 10, 301.0, "a block is closed 50 ms after its first cell (block_deadline)"),
        ("40 Mbit/s", 40_000_000, 10, 30.1, "a tenth of the time at 4 Mbit/s, within the deadline"),
    ):
        count = 2600 if bps < 10_000_000 else 8000
        whole = blocks(system_cells(tables, bps, count, side))
        data, period, wait = (median(column) for column in zip(*whole, strict=True))
        found.append(
            Row(
                f"{name}: time of a block of {side} x {side}",
                f"{expected:g} ms, {side * side} header cells",
                f"{period:.1f} ms, {data:g} header cells; a lost first cell waits {wait:.1f} ms",
                "within 1 %",
                judge(abs(period / expected - 1) <= 0.01),
                note,
            )
        )
    return found
