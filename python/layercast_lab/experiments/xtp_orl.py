"""O1 to O5: SandiaXTP as ORL measured it (specs/xtp.md 4 and 5), on the sockets of this machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import sockets, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge, judge_shape

PAPER = "Porting SandiaXTP to the ORL ATM environment, about 1995"
BLOCKS = tuple(512 << n for n in range(8))
MODES = {"blast-un": "Blast-Un", "ack-un": "ACK-Un", "ack-rel": "ACK-Rel"}
COLOURS = dict(zip(MODES, (style.ACCENT, *list(style.LAYER_COLOURS.values())[:2]), strict=True))
# Most throughput as printed, Mbit/s, by network buffer.
REPORTED = {
    2_048: {"ack-rel": 13.97, "ack-un": 15.4, "blast-un": 16.45},
    4_096: {"ack-rel": 17.37, "ack-un": 19.59, "blast-un": 21.5},
}
# Two curves within this of each other are the same: runs on a busy machine differ by as much.
NOISE = 0.05


@dataclass(frozen=True)
class Curves:
    """What was measured, by block: first index how, second mode, third block."""

    mbit_s: dict[tuple[str, int, str], np.ndarray]
    sender: dict[tuple[str, int, str], np.ndarray]
    receiver: dict[tuple[str, int, str], np.ndarray]


@cache
def measured(repeats: int) -> Curves:
    """Medians of repeated runs of `sockets orl`; all experiments of a session share them."""
    points: dict[tuple[str, int, str], list[list[dict]]] = {}
    for _ in range(repeats):
        for point in measure():
            key = point["how"], point["network_buffer"], point["mode"]
            blocks = points.setdefault(key, [[] for _ in BLOCKS])
            blocks[BLOCKS.index(point["block"])].append(point)

    def medians(what: str) -> dict[tuple[str, int, str], np.ndarray]:
        return {
            key: np.array([np.median([point[what] for point in block]) for block in blocks])
            for key, blocks in points.items()
        }

    return Curves(medians("mbit_s"), medians("sender_cpu"), medians("receiver_cpu"))


def measure() -> list[dict]:
    """One run of everything, a minute."""
    done = subprocess.run([*sockets.urgent(), sockets.program(), "orl"], capture_output=True, text=True)
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    return json.loads(done.stdout)["points"]


def curves(context: Context) -> Curves:
    """The curves, once or as often as `--seeds` says."""
    return measured(context.seeds or 1)


def throughput(context: Context, id: str, buffer: int) -> Report:
    """O1 and O2: throughput against the block, for one network buffer."""
    found = curves(context)
    rows = []
    for how in ("library", "daemon"):
        of = {mode: found.mbit_s[how, buffer, mode] for mode in MODES}
        most = ", ".join(f"{MODES[mode]} {of[mode].max():,.0f}" for mode in MODES)
        printed = ", ".join(f"{MODES[mode]} {REPORTED[buffer][mode]:g}" for mode in MODES)
        at_most = all(of[mode].argmax() >= len(BLOCKS) - 3 for mode in ("ack-un", "ack-rel"))
        rows.append(
            Row(
                f"R{1 if buffer == 2_048 else 2} most throughput, {how}",
                f"{printed} Mbit/s, with blocks of 64 KB",
                f"{most} Mbit/s",
                "shape: among the three largest blocks",
                judge_shape(at_most),
                "hosts of today: the number is not to be compared",
            )
        )
        blast, un, rel = (of[mode] for mode in MODES)
        ordered = bool(np.all(blast >= un * (1 - NOISE)) and np.all(un >= rel * (1 - NOISE)))
        rows.append(
            Row(
                f"R6 order, {how}",
                "Blast-Un above ACK-Un above ACK-Rel at every block",
                f"least ratios {(blast / un).min():.2f} and {(un / rel).min():.2f}",
                f"never below 1, less {NOISE:.0%} for the machine",
                judge(ordered),
            )
        )
        small = un[0] / un[-1]
        rows.append(
            Row(
                f"R4 small blocks, {how}",
                "low throughput in synchronous mode",
                f"ACK-Un: {un[0]:,.0f} Mbit/s at 512 bytes, {small:.1%} of that at 64 KB",
                "at most a quarter",
                judge(bool(small <= 0.25)),
            )
        )
    if buffer == 4_096:
        rows.append(larger(found))
    title = f"Throughput against the block, network buffer {buffer // 1_024} KB, on sockets"
    return Report(id, title, rows, draw_throughput(found, buffer, context, id.split("/")[1]))


def larger(found: Curves) -> Row:
    """R7 and R4: what the larger network buffer brings."""
    gains = [
        found.mbit_s["daemon", 4_096, mode].max() / found.mbit_s["daemon", 2_048, mode].max()
        for mode in MODES
    ]
    small = found.mbit_s["daemon", 4_096, "ack-un"][0] / found.mbit_s["daemon", 2_048, "ack-un"][0]
    return Row(
        "R7 4 KB beside 2 KB, daemon",
        "+31, +27, +24 % at the plateau (Blast, Un, Rel), nothing for small blocks",
        ", ".join(f"{gain - 1:+.0%}" for gain in gains) + f"; ACK-Un at 512 bytes {small - 1:+.0%}",
        "higher at the plateau; at 512 bytes within 10 %",
        judge(all(gain > 1.05 for gain in gains) and abs(small - 1) <= 0.1),
        "half as many packets for as many bytes",
    )


@experiment("xtp/o1-sockets", title="O1 on sockets: throughput, network buffer 2 KB", paper=PAPER)
def o1(context: Context) -> Report:
    """Figure 2 on a host of today."""
    return throughput(context, "xtp/o1-sockets", 2_048)


@experiment("xtp/o2-sockets", title="O2 on sockets: throughput, network buffer 4 KB", paper=PAPER)
def o2(context: Context) -> Report:
    """Figure 3 on a host of today."""
    return throughput(context, "xtp/o2-sockets", 4_096)


def processors(context: Context, id: str, buffer: int) -> Report:
    """O3 and O4: processors of sender and receiver against the block."""
    found = curves(context)
    rows = []
    for how in ("library", "daemon"):
        busy = found.receiver[how, buffer, "ack-un"]
        at = BLOCKS.index(buffer)
        steps = np.diff(busy)
        jump = steps[at]
        rows.append(
            Row(
                f"R9 receiver, {how}",
                "jumps where the block is as large as the network buffer; the cause was unknown",
                f"ACK-Un: {busy[at]:.0%} of a processor there, {busy[at + 1]:.0%} at twice that; "
                f"elsewhere steps of {np.delete(steps, at).max():.0%} at most",
                "the largest step, and 5 % at least",
                judge(bool(jump >= 0.05 and steps.argmax() == at)),
                "neither library nor daemon is asked by its user for each packet",
            )
        )
        sender = found.sender[how, buffer, "ack-un"]
        rows.append(
            Row(
                f"R8 sender, {how}",
                "rises gradually to 100 %",
                f"ACK-Un: {sender[0]:.0%} at 512 bytes, {sender[-1]:.0%} at 64 KB",
                "rises",
                judge(bool(sender[-1] > 1.1 * sender[0])),
                "user and daemon together",
            )
        )
    title = f"Processors, network buffer {buffer // 1_024} KB, on sockets"
    return Report(id, title, rows, draw_processors(found, buffer, context, id.split("/")[1]))


@experiment("xtp/o3-sockets", title="O3 on sockets: processors, network buffer 2 KB", paper=PAPER)
def o3(context: Context) -> Report:
    """Figure 4 on a host of today."""
    return processors(context, "xtp/o3-sockets", 2_048)


@experiment("xtp/o4-sockets", title="O4 on sockets: processors, network buffer 4 KB", paper=PAPER)
def o4(context: Context) -> Report:
    """Figure 5 on a host of today."""
    return processors(context, "xtp/o4-sockets", 4_096)


@experiment("xtp/o5-sockets", title="O5 on sockets: what waiting costs, and what a daemon costs", paper=PAPER)
def o5(context: Context) -> Report:
    """The difference between Blast-Un and ACK-Un, and between a library and a daemon."""
    found = curves(context)
    rows = []
    for how in ("library", "daemon"):
        blast, un = (found.mbit_s[how, 2_048, mode] for mode in ("blast-un", "ack-un"))
        share = 1 - un / blast
        rows.append(
            Row(
                f"R3 Blast-Un less ACK-Un, {how}",
                "2.45 Mbit/s at 512 bytes, most at 1 to 4 KB, 1.05 at 64 KB",
                f"{blast[0] - un[0]:,.0f} Mbit/s at 512 bytes, {blast[-1] - un[-1]:,.0f} at 64 KB: "
                f"{share[0]:.0%} and {share[-1]:.0%} of Blast-Un",
                "the share falls with the block",
                judge_shape(bool(share[-1] < share[0])),
                "the answer that is waited for costs the same time at every block",
            )
        )
    ratio = {
        mode: found.mbit_s["library", 2_048, mode] / found.mbit_s["daemon", 2_048, mode] for mode in MODES
    }
    least = min(float(of.min()) for of in ratio.values())
    rows.append(
        Row(
            "a library instead of a daemon",
            "what the authors asked for",
            ", ".join(f"{MODES[mode]} {of.min():.1f} to {of.max():.1f} times" for mode, of in ratio.items()),
            "never slower",
            judge(least >= 1),
            "throughput by a library in the user's thread beside that by a daemon process, 2 KB",
        )
    )
    return Report(
        "xtp/o5-sockets", "What waiting and a daemon cost, on sockets", rows, draw_cost(found, context)
    )


def log_blocks(axis: plt.Axes, blocks: Sequence[int] = BLOCKS) -> None:
    """A logarithmic axis of blocks."""
    axis.set(xscale="log", xlabel="block of the user (bytes)")
    axis.set_xticks(blocks, [f"{it / 1_024:g}k" for it in blocks])
    axis.minorticks_off()


def draw_throughput(found: Curves, buffer: int, context: Context, name: str) -> str:
    """Throughput of the library and of the daemon, each mode a curve."""
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.6), sharey=True)
    for axis, how in zip(axes, ("library", "daemon"), strict=True):
        for mode, text in MODES.items():
            axis.plot(BLOCKS, found.mbit_s[how, buffer, mode], "o-", ms=4, color=COLOURS[mode], label=text)
        axis.axvline(buffer, color="#98a2b3", ls=":", lw=1)
        axis.set(yscale="log")
        axis.set_title(f"{how}, network buffer {buffer // 1_024} KB", loc="left", fontsize=10)
        log_blocks(axis)
    axes[0].set(ylabel="throughput (Mbit/s)")
    axes[0].legend(loc="lower right")
    return style.save(figure, context.path(name))


def draw_processors(found: Curves, buffer: int, context: Context, name: str) -> str:
    """Share of a processor at both ends, synchronous modes."""
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.6), sharey=True)
    for axis, how in zip(axes, ("library", "daemon"), strict=True):
        for mode in ("ack-un", "ack-rel"):
            for what, line in (("sender", "o-"), ("receiver", "s--")):
                busy = 100 * getattr(found, what)[how, buffer, mode]
                axis.plot(BLOCKS, busy, line, ms=4, color=COLOURS[mode], label=f"{MODES[mode]}, {what}")
        axis.axvline(buffer, color="#98a2b3", ls=":", lw=1)
        axis.set_title(f"{how}, network buffer {buffer // 1_024} KB", loc="left", fontsize=10)
        log_blocks(axis)
    axes[0].set(ylabel="of a processor (%)", ylim=(0, None))
    axes[1].legend(loc="lower right")
    return style.save(figure, context.path(name))


def draw_cost(found: Curves, context: Context) -> str:
    """What waiting costs, and what the daemon does."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.6))
    for how, line in (("library", "o-"), ("daemon", "s--")):
        blast, un = (found.mbit_s[how, 2_048, mode] for mode in ("blast-un", "ack-un"))
        left.plot(BLOCKS, 100 * (1 - un / blast), line, ms=4, color=style.ACCENT, label=how)
    left.set(ylabel="lost by waiting (% of Blast-Un)", ylim=(None, 100))
    left.legend(loc="lower left")
    for mode, text in MODES.items():
        ratio = found.mbit_s["library", 2_048, mode] / found.mbit_s["daemon", 2_048, mode]
        right.plot(BLOCKS, ratio, "o-", ms=4, color=COLOURS[mode], label=text)
    right.set(ylabel="library / daemon", ylim=(0, None))
    right.axhline(1, color="#98a2b3", ls=":", lw=1)
    right.legend()
    for axis in (left, right):
        log_blocks(axis)
    return style.save(figure, context.path("o5-sockets"))
