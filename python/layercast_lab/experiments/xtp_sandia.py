"""O1 to O5: SandiaXTP as ORL measured it (specs/xtp.md 4 and 5), on the boards of 1995 in virtual time."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cache

import matplotlib.pyplot as plt
import numpy as np

import layercast
from layercast_lab import sockets, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.xtp_orl import BLOCKS, COLOURS, MODES, PAPER, REPORTED, log_blocks

# What the model of the hosts was fitted to, by its author (specs/xtp.md 5.3), is called so.
FITTED = "the model's times of a call, a packet and a byte were fitted to this"
# Mbit/s of Blast-Un less ACK-Un with 2 KB, as printed, by block.
REPORTED_LESS = {512: 2.45, 1_024: 4.3, 2_048: 4.3, 4_096: 4.3, 65_536: 1.05}


@dataclass(frozen=True)
class Curves:
    """What was measured by block, for each network buffer and mode."""

    mbit_s: dict[tuple[int, str], np.ndarray]
    sender: dict[tuple[int, str], np.ndarray]
    receiver: dict[tuple[int, str], np.ndarray]


@cache
def curves() -> Curves:
    """One run of `sockets sandia`, a second; nothing in it is random."""
    done = subprocess.run([sockets.program(), "sandia"], capture_output=True, text=True)
    if done.returncode:
        raise layercast.LayercastError(done.stderr.strip())
    points = json.loads(done.stdout)["points"]

    def by_block(what: str) -> dict[tuple[int, str], np.ndarray]:
        found: dict[tuple[int, str], np.ndarray] = {}
        for point in points:
            key = point["network_buffer"], point["mode"]
            found.setdefault(key, np.zeros(len(BLOCKS)))[BLOCKS.index(point["block"])] = point[what]
        return found

    return Curves(by_block("mbit_s"), by_block("sender_cpu"), by_block("receiver_cpu"))


def throughput(context: Context, id: str, buffer: int) -> Report:
    """O1 and O2: throughput against the block, for one network buffer."""
    found = curves()
    of = {mode: found.mbit_s[buffer, mode] for mode in MODES}
    rows = []
    for mode, printed in REPORTED[buffer].items():
        most = float(of[mode].max())
        at = BLOCKS[int(of[mode].argmax())]
        rows.append(
            Row(
                f"R{1 if buffer == 2_048 else 2} most throughput, {MODES[mode]}",
                f"{printed:g} Mbit/s, at 64 KB",
                f"{most:.2f} Mbit/s, at {at // 1_024} KB",
                "±5 %, at 64 KB",
                judge(abs(most / printed - 1) <= 0.05 and at == BLOCKS[-1]),
                FITTED,
            )
        )
    blast, un, rel = (of[mode] for mode in MODES)
    rows.append(
        Row(
            "R6 order",
            "Blast-Un above ACK-Un above ACK-Rel at every block",
            f"least ratios {(blast / un).min():.2f} and {(un / rel).min():.2f}",
            "above 1",
            judge(bool(np.all(blast > un) and np.all(un > rel))),
        )
    )
    rows.append(
        Row(
            "R4 small blocks",
            "low throughput in synchronous mode",
            f"ACK-Un: {un[0]:.2f} Mbit/s at 512 bytes, {un[0] / un[-1]:.0%} of that at 64 KB",
            "at most a quarter",
            judge(bool(un[0] <= un[-1] / 4)),
        )
    )
    lost = un - rel
    rows.append(
        Row(
            "R5 what reliability costs",
            "ACK-Un less ACK-Rel grows with the block",
            f"{lost[0]:.2f} Mbit/s at 512 bytes, {lost[3]:.2f} at 4 KB, {lost[-1]:.2f} at 64 KB",
            "grows from 512 bytes to 4 KB to 64 KB",
            judge(bool(lost[0] < lost[3] < lost[-1])),
            "the sum of a byte is taken while it is copied",
        )
    )
    if buffer == 4_096:
        gains = [found.mbit_s[4_096, mode].max() / found.mbit_s[2_048, mode].max() - 1 for mode in MODES]
        small = found.mbit_s[4_096, "ack-un"][0] / found.mbit_s[2_048, "ack-un"][0] - 1
        printed = (0.31, 0.27, 0.24)
        near = all(abs(gain - it) <= 0.05 for gain, it in zip(gains, printed, strict=True))
        rows.append(
            Row(
                "R7 4 KB beside 2 KB",
                "+31, +27, +24 % at the plateau (Blast, Un, Rel), nothing for small blocks",
                ", ".join(f"{gain:+.0%}" for gain in gains) + f"; ACK-Un at 512 bytes {small:+.0%}",
                "±5 points; at 512 bytes ±2 %",
                judge(near and abs(small) <= 0.02),
            )
        )
    title = f"Throughput against the block, network buffer {buffer // 1_024} KB, hosts of 1995"
    return Report(id, title, rows, draw_throughput(found, buffer, context, id.split("/")[1]))


@experiment("xtp/o1", title="O1: throughput, network buffer 2 KB", paper=PAPER)
def o1(context: Context) -> Report:
    """Figure 2."""
    return throughput(context, "xtp/o1", 2_048)


@experiment("xtp/o2", title="O2: throughput, network buffer 4 KB", paper=PAPER)
def o2(context: Context) -> Report:
    """Figure 3."""
    return throughput(context, "xtp/o2", 4_096)


def processors(context: Context, id: str, buffer: int) -> Report:
    """O3 and O4: processors of sender and receiver against the block."""
    found = curves()
    sender, receiver = found.sender[buffer, "ack-un"], found.receiver[buffer, "ack-un"]
    at = BLOCKS.index(buffer)
    steps = np.diff(receiver)
    rises = int(np.sum(np.diff(sender) > 0))
    rows = [
        Row(
            "R8 sender",
            "rises gradually to 100 %",
            f"ACK-Un: {sender[0]:.0%} at 512 bytes, {sender[at]:.0%} at the network buffer, "
            f"{sender[-1]:.0%} at 64 KB; higher than before at {rises} of {len(BLOCKS) - 1} blocks",
            "rises at every block, 95 % at 64 KB",
            judge(rises == len(BLOCKS) - 1 and sender[-1] >= 0.95),
            "falls at the first block of two packets: the receiver copies one before it answers the other",
        ),
        Row(
            "R9 receiver",
            "jumps up where the block is as large as the network buffer; the cause was unknown",
            f"ACK-Un: {receiver[at - 1]:.0%} at half of it, {receiver[at]:.0%} there, "
            f"{receiver[at + 1]:.0%} at twice that",
            "the largest step, upwards",
            judge(bool(steps[at - 1] > 0 and steps.argmax() == at - 1)),
            "not in the model: a receiving user's requests to the daemon take it no time",
        ),
    ]
    if buffer == 4_096:
        small = found.sender[2_048, "ack-un"], found.receiver[2_048, "ack-un"]
        lower = [float(np.mean(a - b)) for a, b in zip((sender, receiver), small, strict=True)]
        rows.append(
            Row(
                "R10 4 KB beside 2 KB",
                "similar, generally lower",
                f"sender {100 * lower[0]:+.0f}, receiver {100 * lower[1]:+.0f} points on average",
                "lower at the sender, within 10 points",
                judge(-0.1 <= lower[0] < 0 and abs(lower[1]) <= 0.1),
                "half as many packets for as many bytes; the receiver takes more of them in the same time",
            )
        )
    title = f"Processors, network buffer {buffer // 1_024} KB, hosts of 1995"
    return Report(id, title, rows, draw_processors(found, buffer, context, id.split("/")[1]))


@experiment("xtp/o3", title="O3: processors, network buffer 2 KB", paper=PAPER)
def o3(context: Context) -> Report:
    """Figure 4."""
    return processors(context, "xtp/o3", 2_048)


@experiment("xtp/o4", title="O4: processors, network buffer 4 KB", paper=PAPER)
def o4(context: Context) -> Report:
    """Figure 5."""
    return processors(context, "xtp/o4", 4_096)


@experiment("xtp/o5", title="O5: what waiting for an answer costs", paper=PAPER)
def o5(context: Context) -> Report:
    """The difference between Blast-Un and ACK-Un, network buffer 2 KB."""
    found = curves()
    less = found.mbit_s[2_048, "blast-un"] - found.mbit_s[2_048, "ack-un"]
    at = {block: float(less[BLOCKS.index(block)]) for block in REPORTED_LESS}
    most = BLOCKS[int(less.argmax())]
    rows = [
        Row(
            f"R3 Blast-Un less ACK-Un, {block} bytes",
            f"{printed:g} Mbit/s",
            f"{at[block]:.2f} Mbit/s",
            "±20 %",
            judge(abs(at[block] / printed - 1) <= 0.2),
            FITTED if block == 512 else "",
        )
        for block, printed in REPORTED_LESS.items()
    ]
    rows.append(
        Row(
            "R3 shape",
            "most at 1 to 4 KB, then falls steadily",
            f"most at {most // 1_024} KB; " + ", ".join(f"{it:.2f}" for it in less) + " Mbit/s",
            "most at 1, 2 or 4 KB, falling from there",
            judge(most in (1_024, 2_048, 4_096) and bool(np.all(np.diff(less[less.argmax() :]) < 0))),
        )
    )
    title = "Blast-Un less ACK-Un, hosts of 1995"
    return Report("xtp/o5", title, rows, draw_less(less, context))


def draw_throughput(found: Curves, buffer: int, context: Context, name: str) -> str:
    """Each mode a curve, with the most that the paper prints."""
    figure, axis = plt.subplots(figsize=(5.6, 3.6))
    for mode, text in MODES.items():
        axis.plot(BLOCKS, found.mbit_s[buffer, mode], "o-", ms=4, color=COLOURS[mode], label=text)
        axis.plot(BLOCKS[-1], REPORTED[buffer][mode], "x", ms=8, color=COLOURS[mode])
    axis.plot([], [], "kx", ms=8, label="printed")
    axis.axvline(buffer, color="#98a2b3", ls=":", lw=1)
    axis.set(ylabel="throughput (Mbit/s)", ylim=(0, None))
    log_blocks(axis)
    axis.legend(loc="lower right")
    return style.save(figure, context.path(name))


def draw_processors(found: Curves, buffer: int, context: Context, name: str) -> str:
    """Share of a processor at both ends, synchronous modes."""
    figure, axis = plt.subplots(figsize=(5.6, 3.6))
    for mode in ("ack-un", "ack-rel"):
        for what, line in (("sender", "o-"), ("receiver", "s--")):
            busy = 100 * getattr(found, what)[buffer, mode]
            axis.plot(BLOCKS, busy, line, ms=4, color=COLOURS[mode], label=f"{MODES[mode]}, {what}")
    axis.axvline(buffer, color="#98a2b3", ls=":", lw=1)
    axis.set(ylabel="of a processor (%)", ylim=(0, None))
    log_blocks(axis)
    axis.legend(loc="lower right")
    return style.save(figure, context.path(name))


def draw_less(less: np.ndarray, context: Context) -> str:
    """What waiting costs, and what the paper prints."""
    figure, axis = plt.subplots(figsize=(5.6, 3.6))
    axis.plot(BLOCKS, less, "o-", ms=4, color=style.ACCENT, label="hosts of 1995 in virtual time")
    axis.plot(list(REPORTED_LESS), list(REPORTED_LESS.values()), "kx", ms=8, label="printed")
    axis.set(ylabel="Blast-Un less ACK-Un (Mbit/s)", ylim=(0, None))
    log_blocks(axis)
    axis.legend(loc="upper right")
    return style.save(figure, context.path("o5"))
