"""INSANE S1: slow start over one T1 link beside its timeline on paper (specs/insane-simulator.md 4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.line import CELL_S, cells, line
from layercast_lab.pcap import packets
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import simulate
from layercast_lab.style import plt

TITLE = "INSANE S1: slow start over a T1 link"
MSS, HEADERS = 512, 40
SEGMENTS = 512
WINDOW = 8_192
OPEN = 65_535
DELAYS_MS = (5, 30, 100)
TOLERANCE_S = 1e-6
TICK_S = 0.2
KS = 1.628
"""Of the distance times the root of the number: exceeded in one case of a hundred."""
HOSTS = 100
"""Pairs of hosts, each with a phase of its own."""


def timeline(segments: int, delay_s: float, window: int) -> np.ndarray:
    """When each segment arrives, counted from the first, if each one is acknowledged immediately.

    Round k has 2^k segments, at most a window of them, one behind the other on the link. The next begins a
    round trip later or, once a round fills it, when the link is free.
    """
    segment = cells(MSS + HEADERS) * CELL_S
    round_trip = segment + cells(HEADERS) * CELL_S + 2 * delay_s
    times: list[float] = []
    start, size = 0.0, 1
    while len(times) < segments:
        times += [start + place * segment for place in range(size)]
        start += max(round_trip, size * segment)
        size = min(2 * size, window // MSS)
    return np.array(times[:segments])


def transfer(context: Context, delay_ms: int, window: int) -> np.ndarray:
    """When each segment arrived at the far router, counted from the first."""
    tcp = {"profile": "bsd44lite", "fast_tick": "off", "send_buffer": OPEN, "recv_buffer": window}
    flow = {"from": "west1", "to": "east1", "bytes": SEGMENTS * MSS}
    scenario = line("s1", 60, delay=delay_ms / 1e3, tcp={"default": tcp}, flow=[flow])
    name = f"s1-{delay_ms}ms-{window}"
    capture = context.path(f"{name}.pcapng")
    simulate(scenario, context.path(f"{name}.toml"), "--pcap", capture, "--no-cells")
    return arrivals(capture, "east->east1")


def arrivals(capture: Path, interface: str) -> np.ndarray:
    """When an interface took segments with data, counted from the first."""
    times = np.array([p.at for p in packets(capture, {interface}) if p.data])
    return times - times[0]


def first_acks(context: Context, seed: int) -> list[float]:
    """How long the first segment of each of many connections waits for its acknowledgement."""
    # More than a segment: with the FIN in it, it would be acknowledged immediately.
    flow = {"from": f"west{{1..{HOSTS}}}", "to": f"east{{1..{HOSTS}}}", "bytes": 4 * MSS}
    scenario = line("s1-ticks", 20, hosts=HOSTS, tcp={"default": {"profile": "bsd44lite"}}, flow=[flow])
    capture = context.path("s1-ticks.pcapng")
    simulate(scenario, context.path("s1-ticks.toml"), "--pcap", capture, "--no-cells", "--seed", str(seed))
    came: dict[str, float] = {}
    waits: dict[str, float] = {}
    for packet in packets(capture):
        start, _, end = packet.interface.partition("->")
        if start == "east" and packet.data:
            came.setdefault(end, packet.at)
        elif end == "east" and start in came:
            waits.setdefault(start, packet.at - came[start])
    return list(waits.values())


@experiment("insane-simulator/s1", title=TITLE, paper="specs/insane-simulator.md 4: a test of the simulator")
def s1(context: Context) -> Report:
    """Every segment of a transfer at the time that arithmetic gives it, cells and all."""
    found = {(delay, OPEN): transfer(context, delay, OPEN) for delay in DELAYS_MS}
    found[30, WINDOW] = transfer(context, 30, WINDOW)
    rows = [row(*case, times) for case, times in found.items()]
    waits = first_acks(context, 1)
    rows.append(ticks(waits))
    path = draw(found, waits, context.path("s1"))
    scenario = str(context.path(f"s1-30ms-{OPEN}.toml"))
    return Report("insane-simulator/s1", TITLE, rows, path, scenario=scenario)


def row(delay_ms: int, window: int, times: np.ndarray) -> Row:
    """How far the segments of a transfer are from the timeline."""
    theory = timeline(SEGMENTS, delay_ms / 1e3, window)
    name = f"{delay_ms} ms, " + ("window of 16 segments" if window == WINDOW else "open window")
    told = f"{SEGMENTS} segments, the last at {theory[-1]:.6f} s"
    asked = f"each within {TOLERANCE_S * 1e6:g} us"
    if len(times) != len(theory):
        return Row(name, told, f"{len(times)} segments", asked, "differs")
    late = float(np.abs(times - theory).max())
    measured = f"{len(times)} segments, the last at {times[-1]:.6f} s; none more than {late * 1e6:.3f} us off"
    return Row(name, told, measured, asked, judge(late <= TOLERANCE_S))


def ticks(waits: Sequence[float]) -> Row:
    """Whether delayed acknowledgements wait for ticks of a random phase."""
    places = np.arange(len(waits) + 1) / len(waits)
    shares = np.clip(np.sort(waits) / TICK_S, 0, 1)
    apart = float(max(np.abs(shares - places[1:]).max(), np.abs(shares - places[:-1]).max()))
    inside = len(waits) == HOSTS and max(waits) <= TICK_S + TOLERANCE_S
    measured = f"{min(waits) * 1e3:.1f} to {max(waits) * 1e3:.1f} ms, mean {np.mean(waits) * 1e3:.0f} ms"
    return Row(
        "delayed acknowledgement of a first segment",
        "ticks of 200 ms, random phase per host",
        f"{measured}, {len(waits)} hosts; KS {apart:.3f}",
        f"at most 200 ms; Kolmogorov and Smirnov's distance from uniform below {KS / HOSTS**0.5:.3f} (1 %)",
        judge(inside and apart < KS / HOSTS**0.5),
        "4.4BSD: one full segment alone waits for the fast timer",
    )


def draw(found: dict[tuple[int, int], np.ndarray], waits: Sequence[float], path: Path) -> str:
    """Segments against time, measured on theory, and the waits for ticks."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.6), width_ratios=(2.2, 1))
    for number, ((delay, window), times) in enumerate(found.items()):
        colour = COLOURS[number]
        theory = timeline(SEGMENTS, delay / 1e3, window)
        left.plot(theory, np.arange(1, len(theory) + 1), color=colour, lw=1)
        label = f"{delay} ms" + (", window 16" if window == WINDOW else "")
        left.plot(times, np.arange(1, len(times) + 1), ".", color=colour, ms=3.5, label=label)
    left.set(xlabel="time after the first segment (s)", ylabel="segments arrived")
    # Where rounds can be distinguished.
    left.set(xlim=(-0.03, 1.35), ylim=(0, 130))
    left.set_title("dots: captured; lines: on paper", loc="left", fontsize=9.5)
    left.legend(loc="upper left")
    waits_ms = np.sort(waits) * 1e3
    right.step(waits_ms, np.arange(1, len(waits) + 1) / len(waits), color=style.ACCENT, label="captured")
    right.plot([0, TICK_S * 1e3], [0, 1], color=COLOURS[0], lw=1, label="uniform")
    right.set(xlabel="wait of a first segment for its ACK (ms)", ylabel="share of hosts")
    right.legend(loc="lower right")
    return style.save(figure, path)
