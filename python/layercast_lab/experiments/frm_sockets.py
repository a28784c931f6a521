"""FRM on sockets: a file to emulated receivers and to real ones on this machine, goodput and processor."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.frm_model import PAPER
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import command
from layercast_lab.style import plt

SIZES = (1, 5, 20, 50, 100, 200)
REAL = (1, 5, 20)
LOSSES = (0.0, 1e-3)


@dataclass(frozen=True)
class Sent:
    """One file."""

    goodput: float
    """Mbit/s of the file, from the opening until all have it."""
    cpu_s: float
    """Processor of the sender."""
    again: float
    """Repairs for each packet."""
    delivered: int


def send(folder: Path, port: int, receivers: Sequence[Sequence[str]], count: int) -> Sent:
    """A file of the folder to receivers, each a `layercast` of these arguments; they end with it."""
    way = ["--group", f"239.77.3.1:{port}", "--interface", "127.0.0.1"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    ends = [subprocess.Popen([command(), *one, *way], **silent) for one in receivers]
    try:
        policy = ["--profile", "frm", "--rate", "200Mbit/s", "--receivers", str(count), "--wait", "60s"]
        line = [command(), "send", str(folder / "file"), *way, *policy, "--json"]
        sender = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        told = sender.stdout.readlines() if sender.stdout else []
        _, _, used = os.wait4(sender.pid, 0)
        file = json.loads(told[-1])["files"][0]
        for end in ends:
            end.wait(timeout=60)
    finally:
        for end in ends:
            end.kill()
            end.wait()
    return Sent(
        8e-6 * file["size"] / file["seconds"],
        used.ru_utime + used.ru_stime,
        file["again"] / max(file["packets"] - file["again"], 1),
        sum(it["outcome"] == "delivered" for it in file["receivers"]),
    )


@experiment(
    "fully-reliable-multicast/e7-sockets", title="A file to 1 to 200 receivers", paper=f"{PAPER}, ours"
)
def e7(context: Context) -> Report:
    """FRM over UDP multicast on loopback: emulated receivers of one process, with losses, and real ones."""
    octets = 1_000_000 if context.seconds else 20_000_000
    sizes, real = ((1, 5), (1,)) if context.seconds else (SIZES, REAL)
    rows, found, port = [], {}, 7_720
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "file").write_bytes(os.urandom(octets))
        for loss in LOSSES:
            for size in sizes:
                mars = ["emulate-receivers", "--count", str(size), "--loss", str(loss), "--wait", "30s"]
                found[loss, size] = send(folder, port, [mars], size)
                port += 1
        for size in real:
            ends = [
                ["receive", "--out", str(folder / f"{size}-{one}"), "--name", f"r{one}", "--wait", "30s"]
                for one in range(size)
            ]
            found["real", size] = send(folder, port, ends, size)
            port += 1
    for kind in (*LOSSES, "real"):
        mine = {size: it for (of, size), it in found.items() if of == kind}
        whole = all(it.delivered == size for size, it in mine.items())
        name = "processes of their own" if kind == "real" else f"emulated, {kind:.1%} lost"
        measured = "; ".join(
            f"{size}: {it.goodput:.0f} Mbit/s, {it.cpu_s:.2f} s, {it.again:.3f}" for size, it in mine.items()
        )
        rows.append(
            Row(
                f"{name}: goodput, processor of the sender, repairs for each packet",
                "report only",
                measured,
                "all delivered",
                judge(whole),
                f"{octets / 1e6:g} Mbyte at most at 200 Mbit/s; one run each, beside whatever else ran",
            )
        )
    figure, axis = plt.subplots(figsize=(6.2, 3.8))
    for colour, mark, kind in zip(COLOURS, MARKERS, (*LOSSES, "real"), strict=False):
        mine = [(size, it.goodput) for (of, size), it in found.items() if of == kind]
        label = "own processes" if kind == "real" else f"emulated, {kind:.1%} lost"
        axis.plot(*zip(*mine, strict=True), mark + "-", color=colour, ms=5, label=label)
    axis.set(xscale="log", yscale="log", xlabel="receivers", ylabel="goodput (Mbit/s)")
    axis.legend(fontsize=8)
    path = style.save(figure, context.path("frm-e7"))
    return Report("fully-reliable-multicast/e7-sockets", e7.__doc__ or "", rows, path)
