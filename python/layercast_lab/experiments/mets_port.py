"""METS Q-1: how much a player changes that is ported from UDP (specs/mets.md 5)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from layercast_lab import port, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.testbed import PAPER

FPS = 24.0


@experiment("mets/q1", title="Porting a plain-UDP player", paper=PAPER)
def q1(context: Context) -> Report:
    """Q-1: the changed lines of examples/port, and both versions run on the same stream."""
    changed = {program: port.changed_lines(program) for program in port.PROGRAMS}
    lines = sum(change.written + change.removed for change in changed.values())
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "pictures.m1v"
        clip.write_bytes(pictures(int((context.seconds or 10) * FPS)))
        before, after = (port.play(version, clip, FPS) for version in ("before", "after"))
    rows = [
        Row(
            "Q-1 changed lines",
            "NVS ported with little difficulty (qualitative)",
            ", ".join(f"{name}: {c.written} new, {c.removed} gone" for name, c in changed.items()),
            f"{port.MOST_CHANGED} in sum",
            judge(lines <= port.MOST_CHANGED),
        ),
        Row(
            "Q-1 both run",
            "the application plays as before",
            f"UDP: {before.shown} of {before.sent} pictures shown, Layercast: {after.shown} of {after.sent}",
            "most of the stream",
            judge(after.shown > after.sent / 2),
            "a member comes at the first I picture after its join, and gets P and B an era later",
        ),
    ]
    return Report("mets/q1", "METS Q-1: a plain-UDP player ported", rows, draw(changed, context))


def pictures(count: int) -> bytes:
    """A stream with the start codes of MPEG-1: GOPs IBBPBBPBBPBB of sizes as a small clip has them."""
    stream = bytearray()
    for number in range(count):
        kind = 1 if number % 12 == 0 else 2 if number % 3 == 0 else 3
        if kind == 1:
            stream += b"\x00\x00\x01\xb3" + b"\x55" * 8 + b"\x00\x00\x01\xb8" + b"\x55" * 4
        stream += b"\x00\x00\x01\x00" + bytes([0x55, kind << 3]) + b"\xaa" * (6_000 // kind)
    return bytes(stream)


def draw(changed: dict[str, port.Changed], context: Context) -> str:
    """Lines of each program: kept, new, gone."""
    figure, axis = plt.subplots(figsize=(7.2, 2.2))
    for row, (program, change) in enumerate(changed.items()):
        total = len((port.PORT / "after" / program).read_text().splitlines())
        axis.barh(row, total - change.written, color=style.LAYER_COLOURS["E2"])
        axis.barh(row, change.written, left=total - change.written, color=style.ACCENT)
        axis.text(total + 0.5, row, f"{change.written} new, {change.removed} gone", va="center", fontsize=9)
    axis.set(yticks=range(len(changed)), yticklabels=list(changed), xlabel="lines after the port")
    axis.margins(x=0.25)
    return style.save(figure, context.path("q1"))
