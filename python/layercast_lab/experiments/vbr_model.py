"""VBR in an ATM LAN, Figure 5: how many packets of a train a policer lets pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean

import layercast
from layercast_lab import style, vbr
from layercast_lab.experiment import Context, Report, Row, arithmetic, experiment, judge
from layercast_lab.experiments.vbr_throughput import PAPER, curve, save_scenario
from layercast_lab.pcap import packets
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all, simulate
from layercast_lab.style import plt
from layercast_lab.vbr import BURSTS, MTUS, Setup

TITLE = "Packets accepted in a burst: model, trains and TCP"
MODEL = {
    9_188: (5, 8, 10, 13, 16, 19, 21),
    4_832: (10, 16, 21, 26, 32, 37, 43),
    1_500: (39, 60, 80, 100, 120, 140, 160),
    552: (193, 290, 388, 485, 583, 680, 778),
}
"""Of the specification, 5.2."""
IDLE_S = 0.3
"""What separates bursts: more than an acknowledgement is delayed, less than a time-out takes."""


def train(mtu: int, burst: int) -> int:
    """Packets that pass the simulated policer before it discards a cell of one.

    Datagrams come as often as the sender of the paper can send. One of somebody else opens the circuit.
    """
    scenario = vbr.lan(Setup(mtu, burst, jitter=0, endless_s=2))
    for host in scenario["host"]:
        del host["cpu"]
    start, gap = 0.1, vbr.send_us(mtu) * 1e-6
    flow = scenario["flow"][0]
    opens = {"from": "c", "to": "b", "stop": "1us", "datagrams": {"gap": "1s", "size": "40 B"}}
    scenario["flow"].append(opens | {"name": "opens"})
    scenario["host"].append({"name": "c"})
    scenario["link"].append(scenario["link"][0] | {"ends": ["c", "at-a"]})
    flow |= {"datagrams": {"gap": f"{gap * 1e6:.6f}us", "size": f"{mtu} B"}, "start": f"{start}s"}

    def passes(sent: int) -> bool:
        flow["stop"] = f"{start + (sent - 1) * gap + 1e-6:.9f}s"
        return layercast.run(scenario).summary["atm"]["contracts"][0]["upc"]["frames_intact"] >= sent

    # Trains of `good` packets pass, of `bad` do not: more packets than the burst has cells never do.
    good, bad = 1, burst + 2
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if passes(middle) else (good, middle)
    return good


def trace(context: Context, mtu: int, burst: int) -> list[int]:
    """Packets with data that arrive between two pauses in a transfer with the coarse timer of 500 ms."""
    name = f"v2-{mtu}-{burst}"
    capture = context.path(f"{name}.pcapng")
    simulate(vbr.lan(Setup(mtu, burst)), context.path(f"{name}.toml"), "--pcap", capture, "--no-cells")
    times = [packet.at for packet in packets(capture, {"at-b->b"}) if packet.data]
    capture.unlink()
    return bursts(times)


def bursts(times: Sequence[float]) -> list[int]:
    """How many come between pauses; the last, which may not be a full one, does not count."""
    found = [1]
    for before, after in pairwise(times):
        if after - before > IDLE_S:
            found.append(0)
        found[-1] += 1
    return found[:-1]


@experiment("vbr-atm-lan/v2", title=TITLE, paper=f"{PAPER}, Figure 5 and Eq (2)")
def v2(context: Context) -> Report:
    """The closed form, the policer of the simulator, and the bursts of TCP beside one another."""
    model = {mtu: [int(vbr.burst_len(mtu, burst)) for burst in BURSTS] for mtu in MTUS}
    rows = []
    points = [(mtu, burst) for mtu in MTUS for burst in BURSTS]
    counted = dict(zip(points, run_all(context, "trains", lambda it: train(*it), points), strict=True))
    for mtu in reversed(MTUS):
        told = f"{curve(MODEL[mtu], 0)}"
        found = tuple(counted[mtu, burst] for burst in BURSTS)
        measured = f"simulated trains {curve(found, 0)}"
        rows.append(Row(f"MTU {mtu}, MBS 1000 to 4000", told, measured, "equal", judge(found == MODEL[mtu])))
        name = f"MTU {mtu}, MBS 1000 to 4000, Eq (2)"
        same = arithmetic(tuple(model[mtu]) == MODEL[mtu])
        rows.append(Row(name, told, f"closed form {curve(model[mtu], 0)}", "equal", same))
    traced = [(mtu, burst) for mtu in MTUS[1:] for burst in BURSTS]
    found = run_all(context, "traces", lambda it: trace(context, *it), traced)
    of_tcp = dict(zip(traced, found, strict=True))
    means = {mtu: [mean(of_tcp[mtu, burst]) for burst in BURSTS] for mtu in MTUS[1:]}
    for mtu in reversed(MTUS[1:]):
        off = max(abs(found / told - 1) for found, told in zip(means[mtu], model[mtu], strict=True))
        rows.append(
            Row(
                f"MTU {mtu}, mean burst of TCP",
                "about the model",
                curve(means[mtu], 1),
                "within 30 %",
                judge(off <= 0.3),
                "without what a residue spoils; slow start sends more slowly than the model's host",
            )
        )
    path = draw(model, means, context.path("v2"))
    scenario = save_scenario(context, Setup(9_188, 2_000), "v2")
    return Report("vbr-atm-lan/v2", TITLE, rows, path, scenario=scenario)


def draw(model: dict[int, list[int]], means: dict[int, list[float]], path: Path) -> str:
    """Model as lines, TCP as marks."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for number, mtu in enumerate(MTUS):
        axis.plot(BURSTS, model[mtu], color=COLOURS[number], lw=1.2, label=f"MTU {mtu}")
        if mtu in means:
            axis.plot(BURSTS, means[mtu], MARKERS[number], color=COLOURS[number], ms=5, mfc="none")
    axis.plot([], [], "o", color="0.4", mfc="none", label="mean of TCP")
    axis.set(xlabel="longest burst of the contract, MBS (cells)", ylabel="packets in a burst", yscale="log")
    axis.legend(ncols=5, fontsize=8.5, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return style.save(figure, path)
