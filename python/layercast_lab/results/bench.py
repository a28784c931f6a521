"""Tables of benchmarks from the output of `make bench` and of the targets that begin with `bench-`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from layercast_lab.results import measured
from layercast_lab.results.record import here, write
from layercast_lab.results.schema import Group, ResultError, Run, Table, load

Cells = list[list[str | None]]

SHAPES = [(7, 1), (6, 2), (20, 4), (100, 20)]
CODES = {
    "xor-shift": "XOR and shift",
    "reed-solomon": "Reed-Solomon (`Scheme::ReedSolomon`)",
    "raptorq": "RaptorQ",
    "direct": "reed-solomon-simd alone",
    "isal": "ISA-L, Reed-Solomon (Cauchy)",
    "isal-xor": "ISA-L, XOR",
}
TRANSPORTS = {
    "tcp": "TCP",
    "quic": "QUIC",
    "xtp": "XTP, reliable",
    "xtp-host": "XTP, reliable, XtpHost",
    "xtp-loose": "XTP, NOERR",
    "xtp-open": "XTP, NOERR and NOCHECK",
    "srt-live": "SRT, live",
    "srt-file": "SRT, file",
}
SIMULATORS = {"layercast": "Layercast", "htsim": "htsim", "ns-2": "ns-2", "ns-3": "ns-3"}


def _codes(told: list[dict], what: str) -> Cells:
    speed = {(row["scheme"], row["n"], row["m"]): row.get(what) for row in told}
    rows: Cells = []
    for scheme, name in CODES.items():
        found = [speed.get((scheme, n, m)) for n, m in SHAPES]
        if any(value is not None for value in found):
            rows.append([name, *(None if value is None else f"{value:.3g}" for value in found)])
    return rows


def _spread(runs: list[dict], key: str, digits: int) -> str | None:
    values = [run[key] for run in runs if run.get(key) is not None]
    if not values:
        return None
    middle = f"{statistics.median(values):.{digits}f}"
    return f"{middle} ({min(values):.{digits}f}-{max(values):.{digits}f})" if len(values) > 1 else middle


def _transports(told: dict, way: str) -> Cells:
    rows: Cells = []
    for key, found in told.get(way, {}).items():
        row = [
            TRANSPORTS[key],
            _spread(found["runs"], "mbit_s", 0),
            _spread(found["runs"], "cpu_s_per_gb", 2),
        ]
        if way == "loopback":
            messages = told["messages"].get(key, {"runs": []})["runs"]
            row += [_spread(messages, "p50_us", 0), _spread(messages, "p99_us", 0)]
        rows.append(row)
    return rows


def _dumbbell(told: dict) -> Cells:
    rows: Cells = []
    for key, name in SIMULATORS.items():
        if it := told.get(key):
            runs = [{"cpu": seconds} for seconds in it["cpu_seconds_of_all"]]
            times = "" if key == "layercast" else f"{it['layercast_times_as_fast']:.3g} times as fast"
            hops, rate = it["packet_hops"] / 1e6, it["packet_hops_per_cpu_second"] / 1e6
            measured = [
                _spread(runs, "cpu", 3),
                f"{hops:.2f}",
                f"{rate:.3g}",
                times,
                f"{it['goodput_mbps']:.1f}",
            ]
            rows.append([name, *measured])
    return rows


def _growth(told: dict) -> Cells:
    rows: Cells = []
    before: dict[str, float] = {}
    for flows, found in told["growth"].items():
        row: list[str | None] = [f"{int(flows):,}"]
        for key in ("layercast", "layercast_threads", "htsim"):
            if key not in found:
                row.append(None)
                continue
            seconds = found[key]["wall_seconds"]
            row.append(f"{seconds:.3g}" + (f" ({seconds / before[key]:.1f} times)" if key in before else ""))
            before[key] = seconds
        rows.append(row)
    return rows


QUALITY = ["path", "stream", "delay", "PSNR", "worst 5 %", "frozen", "stalls", "longest stall", "broken"]
QUALITY_UNITS = [None, None, "ms", "dB", "dB", "%", None, "ms", "%"]
LAYERED = [*QUALITY, "base lost or late", "E1 played"]
LAYERED_UNITS = [*QUALITY_UNITS, "frames", "%"]
SHAPE_COLUMNS = [f"{n}+{m}" for n, m in SHAPES]
BULK = ["transport", "throughput", "processor"]
BULK_UNITS = [None, "Mbit/s", "s/GB"]

TABLES: dict[str, tuple[str, str, str, str, list[str], list[str | None], Callable[[Any], Cells]]] = {
    "fec/encode": (
        "bench-fec",
        "fec.json",
        "make bench-fec",
        "Encoding",
        ["code", *SHAPE_COLUMNS],
        [None, *["GB/s"] * 4],
        lambda told: _codes(told, "encode"),
    ),
    "fec/decode": (
        "bench-fec",
        "fec.json",
        "make bench-fec",
        "Decoding",
        ["code", *SHAPE_COLUMNS],
        [None, *["GB/s"] * 4],
        lambda told: _codes(told, "decode"),
    ),
    "transports/loopback": (
        "bench-transport",
        "xtp.json",
        "make bench-xtp",
        "Loopback, and messages of 200 bytes",
        [*BULK, "message delay p50", "message delay p99"],
        [*BULK_UNITS, "µs", "µs"],
        lambda told: _transports(told, "loopback"),
    ),
    "transports/lossy": (
        "bench-transport",
        "xtp.json",
        "make bench-xtp",
        "100 Mbit/s, 20 ms and 1 % loss each way",
        BULK,
        BULK_UNITS,
        lambda told: _transports(told, "lossy"),
    ),
    "simulator/dumbbell": (
        "bench-simulator",
        "dumbbell.json",
        "make bench-internet",
        "The dumbbell beside htsim, ns-2 and ns-3",
        ["simulator", "processor time", "packet-hops", "packet-hops a second", "Layercast is", "goodput"],
        [None, "s", "M", "M/s", None, "Mbit/s"],
        _dumbbell,
    ),
    "simulator/growth": (
        "bench-simulator",
        "dumbbell.json",
        "make bench-internet",
        "Ten times the flows",
        ["flows", "one thread", "two threads", "htsim"],
        [None, "s", "s", "s"],
        _growth,
    ),
    "switch/parts": (
        "bench-switch",
        "bench.json",
        "make bench",
        "Speed of the parts",
        ["what", "measured", "how"],
        [None] * 3,
        measured.parts,
    ),
    "srt/mpeg1": (
        "bench-media",
        "srt.json",
        "make bench-peers",
        "SRT and Layercast over the same path",
        LAYERED,
        LAYERED_UNITS,
        lambda told: measured.pictures(told, "MPEG-1"),
    ),
    "srt/h264": (
        "bench-media",
        "srt.json",
        "make bench-peers",
        "H.264 through SRT and Layercast",
        LAYERED,
        LAYERED_UNITS,
        lambda told: measured.pictures(told, "H.264"),
    ),
    "repair/live": (
        "bench-media",
        "repair.json",
        "make bench-peers",
        "Repair of a live stream by Layercast, SRT and RIST",
        [
            *("path", "stream", "delay", "delay, 99 %", "damaged frames", "PSNR", "wrong pictures"),
            *("frozen", "repairs"),
        ],
        [None, None, "ms", "ms", None, "dB", "%", "%", "%"],
        measured.repairs,
    ),
    "renditions/drop": (
        "bench-live",
        "renditions.json",
        "make bench-peers PARTS=renditions",
        "Renditions and SRT over a line that drops to 60 %",
        QUALITY,
        QUALITY_UNITS,
        measured.pictures,
    ),
    "live/latency": (
        "bench-live",
        "latency.json",
        "make bench-peers PARTS=latency",
        "Delay of a live stream for GOPs of several lengths",
        ["setting", "GOP", "URL after", "median", "95 %", "largest", "lost or late"],
        [None, None, "s", "ms", "ms", "ms", "frames"],
        measured.latency,
    ),
    "live/hops": (
        "bench-live",
        "hops.json",
        "make bench-peers PARTS=hops",
        "Repair on each of three hops against end to end",
        ["playout", "repair", "simulator: missed", "repairs", "sockets: missed", "repairs"],
        [None, None, "%", "%", "%", "%"],
        measured.hops,
    ),
    "live/fast-start": (
        "bench-live",
        "fast_start.json",
        "make bench-peers PARTS=start",
        "What a receiver sees that joins between two key frames",
        [
            *("GOP", "loss", "path", "viewer", "first picture, off", "first picture, on"),
            *("wrong pictures, off", "wrong pictures, on", "lost or late, on"),
        ],
        [None, None, None, None, "ms", "ms", None, None, "frames"],
        measured.starts,
    ),
    "live/cost": (
        "bench-live",
        "repair_cost.json",
        "make bench-peers PARTS=cost",
        "What repair costs without loss",
        ["stream", "pairs", "with repair", "without", "with over without (95 %)", "feedback"],
        ["Mbit/s", None, "ms", "ms", None, "kbit/s"],
        measured.cost,
    ),
    "jitter/rtpjitterbuffer": (
        "bench-media",
        "jitter.json",
        "make bench-peers",
        "Jitter filter and rtpjitterbuffer",
        ["arrivals", "filter set to", "late", "filter delay", "rtpjitterbuffer delay, best latency"],
        [None, None, "%", "ms", "ms"],
        measured.jitter,
    ),
}
"""By id of the table: group, file in target/bench, command, title, columns, units, rows."""


def record(results: Path, bench: Path, conditions: str) -> list[str]:
    """Replaces the tables whose files are in `bench`; returns their ids.

    # Errors
    `ResultError` if there is no file of a benchmark, or one does not have the form.
    """
    groups, kept = load(results), []
    place = here() | {"conditions": conditions or None}
    for id, (group_name, file, command, title, columns, units, rows) in TABLES.items():
        path = bench / file
        if not path.exists():
            continue
        try:
            found = rows(json.loads(path.read_text()))
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ResultError(f"{path}: not the output of `{command}`: {error!r}") from None
        if not found:
            continue
        day = date.fromtimestamp(path.stat().st_mtime).isoformat()
        run = Run(command=command, date=day, length=None, **place)
        group = groups.setdefault(group_name, Group(group_name, group_name))
        group.tables = [table for table in group.tables if table.id != id]
        group.tables.append(Table(id, title, run, columns, units, found))
        kept.append(id)
    for name in {TABLES[id][0] for id in kept}:
        write(results, groups[name])
    if not kept:
        raise ResultError(
            f"{bench}: there is no output of a benchmark: run `make bench-fec` or another first"
        )
    return kept
