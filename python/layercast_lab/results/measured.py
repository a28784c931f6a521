"""Rows of tables from the output of `make bench` and `make bench-peers`."""

from __future__ import annotations

import statistics
from typing import Any

Cells = list[list[str | None]]

# Names of criterion benchmarks, and of whole runs, in the table of the parts.
SELECTOR = {
    1: "media selector and port path, to one port",
    8: "the same, copied to eight ports",
}
WHOLE_RUNS = {"e5": "`layercast sim scenarios/e5.toml`", "demo": "`layercast sim scenarios/demo.toml`"}
FIGURES = [
    "mean_psnr",
    "worst_5_percent_psnr",
    "frozen_percent",
    "stalls",
    "longest_freeze_ms",
    "broken_percent",
]
DURING = "only the 10 s of 60 % and 1 s more"


def parts(printed: dict[str, Any]) -> Cells:
    """The speed of the parts: `bench.json` of `make bench`."""
    units, hops = printed["switch_ns_per_unit"], printed["sim_hops_per_second"]
    rows: Cells = []
    for ports, name in SELECTOR.items():
        copy = "" if ports == 1 else " copy"
        cell, datagram = (units[f"switch/{unit}/ports/{ports}"] for unit in ("cell", "datagram"))
        how = "criterion, `crates/mets/benches/forward.rs`" if ports == 1 else ""
        rows.append([name, f"{cell:.0f} ns a cell{copy}, {datagram:.0f} ns a datagram{copy}", how])
    cells, packets = hops["chain/cell hops"] / 1e6, hops["chain/packet hops"] / 1e6
    rows.append(
        [
            "simulator, chain of three switches (four links)",
            f"{cells:.1f} M cell hops/s, {packets:.1f} M packet hops/s",
            "criterion, `crates/sim/benches/chain.rs`",
        ]
    )
    for key, name in WHOLE_RUNS.items():
        run = printed["whole_runs"][key]
        network = f"{run['simulated_seconds']:.0f} s of network, {run['events'] / 1e6:.2f} M events"
        measured = f"{run['process_seconds']:.2f} s, {run['peak_memory_mib']} MiB"
        rows.append([f"{name}: {network}", measured, "whole process, median of three"])
    switch = printed["soft_switch"]
    rate = {key: f"{switch[f'{key}_pps'] / 1e3:.0f} k packets/s" for key in ("switch", "bare", "protected")}
    rows += [
        [
            "soft switch on loopback, one core",
            f"{rate['switch']} of 1200 bytes",
            "`crates/net/examples/forward.rs`",
        ],
        ["bare `recvmmsg`/`sendmmsg` loop, same run", rate["bare"], ""],
        [
            "soft switch with protected links, each packet opened and sealed",
            f"{rate['protected']}, {switch['protected_ratio']:.2f} of the clear one",
            "",
        ],
    ]
    return rows


def _spread(values: list[float]) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:g}" if low == high else f"{middle:g} ({low:g}-{high:g})"


def pictures(printed: dict[str, Any], form: str = "") -> Cells:
    """The streams of a form, `H.264` or `MPEG-1`, over the paths: `srt.json`; or all: `renditions.json`."""
    rows: Cells = []
    for path, streams in printed["results"].items():
        chosen = {name: runs for name, runs in streams.items() if runs and (not form or f", {form}" in name)}
        lines = [(path, name, runs, runs) for name, runs in chosen.items()]
        if path.startswith("drop"):
            lines += [(DURING, name, runs, [run["during"] for run in runs]) for name, runs in chosen.items()]
        for label, name, runs, figures in lines:
            delays = [run["delay_ms"]["p50"] for run in runs if run["delay_ms"]["p50"] is not None]
            measured = [_spread([figure[key] for figure in figures]) for key in FIGURES]
            row = [label, name.replace(f", {form}", "") if form else name]
            row += [_spread(delays) if delays else None, *measured]
            rows.append(row + (_layers(runs, label == DURING) if form else []))
    return rows


def _layers(runs: list[dict[str, Any]], in_part: bool) -> list[str | None]:
    """Frames of the base layer that were lost or late, and the share of those of E1 that were played."""
    if in_part or not all("frames" in run for run in runs):
        return [None, None]
    missed = [run["lost"]["BL"] + run["late"]["BL"] for run in runs]
    shares = []
    for run in runs:
        played = run["frames"]["E1"]
        late = run["late"]["all"] - run["late"]["BL"]
        missing = run["lost"]["E1"] + run["withheld"]["E1"] + late
        shares.append(round(100 * played / max(played + missing, 1), 1))
    return [_spread(missed), _spread(shares)]


def repairs(printed: dict[str, Any]) -> Cells:
    """One live stream over lossy paths with repair: `repair.json` of `make bench-peers`."""
    found: dict[tuple[str, str], list[dict]] = {}
    for row in printed["rows"]:
        found.setdefault((row["path"], row["stream"]), []).append(row)
    rows: Cells = []
    for (path, stream), runs in found.items():
        delays = [statistics.median(run["delay_ms"][which] or 0 for run in runs) for which in ("p50", "p99")]
        sent = [round(100 * run["repairs"] / max(run["sent"], 1), 1) for run in runs]
        pictures: list[str | None] = [None] * 3
        if all("wrong" in run for run in runs):
            wrong = [round(100 * run["wrong"] / run["pictures"], 2) for run in runs]
            quality = [_spread([run[key] for run in runs]) for key in ("mean_psnr", "frozen_percent")]
            pictures = [quality[0], _spread(wrong), quality[1]]
        counted = all("damaged" in run for run in runs)
        damaged = _spread([run["damaged"] for run in runs]) if counted else None
        shown = [f"{delay:.0f}" for delay in delays]
        rows.append([path, stream, *shown, damaged, *pictures, _spread(sent)])
    return rows


def jitter(printed: dict[str, Any]) -> Cells:
    """The jitter filter beside rtpjitterbuffer: `jitter.json` of `make bench-peers`."""
    rows: Cells = []
    for arrivals, found in printed.items():
        for row in found["rows"]:
            setting = row["setting"]
            if setting == {"r": 2} or setting == {"permille": 10}:
                name = "r = 2" if "r" in setting else "1 % late"
                peer = row["peer_delay_ms"]
                measured = [f"{row['late_percent']:.2f}", f"{row['delay_ms']:.1f}"]
                rows.append([arrivals, name, *measured, None if peer is None else f"{peer:.1f}"])
    return rows


def latency(printed: dict[str, Any]) -> Cells:
    """Delay of a live stream for GOPs of several lengths: `latency.json` of `make bench-peers`."""
    rows: Cells = []
    for (setting, gop), runs in _alike(printed["rows"], "setting", "gop_s").items():
        after = [_spread([run["url_after_s"] for run in runs])] if "url_after_s" in runs[0] else [""]
        figures = [_whole([run[key] for run in runs]) for key in ("median_ms", "p95_ms", "max_ms")]
        missed = _spread([run.get("late", 0) + run.get("lost", 0) for run in runs]) if after[0] else ""
        rows.append([SETTINGS[setting], f"{gop:g} s", *after, *figures, missed])
    return rows


SETTINGS = {
    "default": "defaults",
    "low-latency": "`serve --lead 0`, `join --playout 20ms`",
    "srt": "srt-live-transmit 1.5.1, latency 120 ms",
}


def hops(printed: dict[str, Any]) -> Cells:
    """Repair on each of three hops against end to end: `hops.json` of `make bench-peers`."""
    rows: Cells = []
    for (playout, repair), runs in _alike(printed["rows"], "playout_ms", "repair").items():
        row: list[str | None] = [f"{playout} ms", repair]
        for world in ("simulator", "sockets"):
            found = [run for run in runs if run["world"] == world]
            row.append(_spread([round(100 * run["missed"] / run["frames"], 2) for run in found]))
            row.append(_spread([run["repairs_percent"] for run in found]))
        rows.append(row)
    return rows


def starts(printed: dict[str, Any]) -> Cells:
    """What a receiver sees that joins between two key frames: `fast_start.json` of `make bench-peers`."""
    rows: Cells = []
    for (gop, loss, place, viewer), runs in _alike(
        printed["rows"], "gop_s", "loss", "place", "viewer"
    ).items():
        row: list[str | None] = [f"{gop:g} s", f"{loss:g} %", place, viewer]
        halves = [[run for run in runs if run["fast_start"] == on] for on in (False, True)]
        row += [_whole([run["first_ms"] for run in half]) for half in halves]
        row += [_spread([run.get("bad", 0) for run in half]) for half in halves]
        rows.append([*row, _spread([run["lost"] + run["late"] for run in halves[1]])])
    return rows


def cost(printed: dict[str, Any]) -> Cells:
    """Processor time with repair and without, and feedback: `repair_cost.json` of `make bench-peers`."""
    low, high = printed["interval_95"]
    times = [_whole([run[key] for run in printed["runs"]]) for key in ("with_ms", "without_ms")]
    ratio = f"{printed['with_over_without']:.3f} ({low:.3f}-{high:.3f})"
    return [
        [f"{printed['rate_mbps']:g}", f"{printed['pairs']}", *times, ratio, f"{printed['feedback_kbps']:g}"]
    ]


def _alike(runs: list[dict], *keys: str) -> dict[tuple, list[dict]]:
    """Runs by the values of these keys, in the order in which they came."""
    found: dict[tuple, list[dict]] = {}
    for run in runs:
        found.setdefault(tuple(run[key] for key in keys), []).append(run)
    return found


def _whole(values: list[float]) -> str:
    """Median and range in whole numbers."""
    return _spread([round(value) for value in values])
