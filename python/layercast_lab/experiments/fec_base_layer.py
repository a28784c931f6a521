"""Parities below METS: what they save of the base layer of a flow, and what they take."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np

import layercast
from layercast_lab import fec, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.fec_models import PAPER
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all
from layercast_lab.testbed import write_trace

LOSSES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1)
CODES = {"off": None, "7+1": (7, 1), "6+2": (6, 2), "reed-solomon:20+4": (20, 4), "auto": None}
GOP = "IPBBPBBPBBBB"
FRAMES_PER_S = 24
SIZES = {"I": 11_480, "P": 7_640, "B": 5_720}
"""Octets of a picture, means of Canyon: every base-layer frame has as many packets."""
PAYLOAD = 1_176
"""Octets of media in a packet without parities."""
FLOOR = 2e-5
"""Where no frame at all is drawn."""
LIVELY = 0.06
"""The highest loss at which `auto` is expected to keep what it aims at: one frame in a thousand."""


def network(folder: str, seconds: float, code: str, loss: float) -> dict:
    """A server and a receiver behind a link that loses packets, media and parities alike."""
    sizes = [SIZES[GOP[i % len(GOP)]] for i in range(round(seconds * FRAMES_PER_S))]
    trace = write_trace(Path(folder, "canyon.trace"), sizes, GOP)
    flow = {
        "name": "canyon",
        "source": "server",
        "clip": {"trace": str(trace)},
        "frame_rate": FRAMES_PER_S,
        "start": "2s",
        "delay_max": "500ms",
    }
    if code != "off":
        flow["protect_base"] = code
    link = {"rate": "100 Mbit/s", "delay": "10 ms", "queue": "500 ms"}
    return {
        "name": "base-layer",
        "duration": f"{seconds + 4}s",
        "node": [
            {"name": "server", "kind": "host"},
            {"name": "switch", "kind": "switch"},
            {"name": "host", "kind": "host"},
        ],
        "link": [
            link | {"a": "server", "b": "switch"},
            link | {"a": "switch", "b": "host", "loss": {"bernoulli": loss}},
        ],
        "flow": [flow],
        "receiver": [{"node": "host", "flow": "canyon"}],
    }


def run(code: str, loss: float, seed: int, seconds: float) -> dict:
    """Base-layer frames sent and lost, packets of a frame, octets of parities over those of packets."""
    with tempfile.TemporaryDirectory() as folder:
        summary = layercast.run(network(folder, seconds, code, loss), seed=seed, base_dir=folder).summary
    (flow,) = summary["flows"]
    (receiver,) = flow["receivers"]
    sent = flow["source"]["sent"]["BL"]
    made = flow["source"].get("parities")
    packets = made["packets"] / sent if made else math.ceil(SIZES["I"] / PAYLOAD)
    return {
        "sent": sent,
        "lost": sent - receiver["frames"]["BL"],
        "late": receiver["late_base"],
        "packets": round(packets),
        "overhead": made["parity_bytes"] / made["bytes"] if made else 0.0,
        "code": (made["n"], made["m"]) if made else None,
    }


def expected(code: tuple[int, int] | None, packets: int, loss: float) -> float:
    """Share of frames lost: a block fails if more of its packets are lost than it has parities."""
    n, m = code or (packets, 0)
    whole = 1.0
    for first in range(0, packets, n):
        size = min(n, packets - first) + m
        survives = (math.comb(size, k) * loss**k * (1 - loss) ** (size - k) for k in range(m + 1))
        whole *= sum(survives)
    return 1 - whole


@experiment(
    "packet-level-fec/base-layer",
    title="Base layer of METS behind a lossy link",
    paper=f"{PAPER}, below METS (ours)",
)
def base_layer(context: Context) -> Report:
    """Base-layer frames that a receiver misses, by loss of the link and by protection."""
    seconds = context.seconds or 300.0
    seeds = context.seed_range(8)
    jobs = [(code, loss, seed) for code in CODES for loss in LOSSES for seed in seeds]
    found = dict(zip(jobs, run_all(context, "flows", lambda job: run(*job, seconds), jobs), strict=True))

    def of(code: str, loss: float) -> list[dict]:
        return [found[code, loss, seed] for seed in seeds]

    lost, takes = {}, {}
    for code in CODES:
        for loss in LOSSES:
            runs = of(code, loss)
            lost[code, loss] = sum(it["lost"] for it in runs) / sum(it["sent"] for it in runs)
            takes[code, loss] = float(np.mean([it["overhead"] for it in runs]))
    rows = [model_row(code, lost, of) for code in CODES if code != "auto"]
    rows += [
        Row(
            "frames lost at 3 %",
            "fewer with every parity",
            ", ".join(f"{code} {100 * lost[code, 0.03]:.2g} %" for code in CODES),
            "off, 7+1, 6+2 in order",
            judge(lost["off", 0.03] > lost["7+1", 0.03] > lost["6+2", 0.03]),
        ),
        Row(
            "parities over packets",
            "M for each N, more where blocks are short",
            ", ".join(f"{code} {100 * takes[code, 0.03]:.0f} %" for code in CODES if code != "off"),
            "auto below 6+2 without loss",
            judge(takes["auto", 0.0] < takes["6+2", 0.0]),
        ),
        auto_row(lost, takes),
        Row(
            "frames that come too late",
            "0: a parity comes before it is of no use",
            str(sum(it["late"] for it in found.values())),
            "0",
            judge(all(it["late"] == 0 for it in found.values())),
        ),
    ]
    packets = {code: of(code, 0.03)[0]["packets"] for code in CODES}
    return Report(
        "packet-level-fec/base-layer", base_layer.__doc__ or "", rows, draw(context, lost, takes, packets)
    )


def model_row(code: str, lost: dict, of: object) -> Row:
    """The measured share of each loss rate against the model, in standard deviations of the binomial."""
    worst, where = 0.0, 0.0
    for loss in LOSSES:
        runs = of(code, loss)
        share = expected(CODES[code], runs[0]["packets"], loss)
        frames = sum(it["sent"] for it in runs)
        off = abs(lost[code, loss] - share) * frames
        # One frame more is never a surprise.
        sigmas = max(off - 1, 0) / max(math.sqrt(frames * share * (1 - share)), 1.0)
        if sigmas >= worst:
            worst, where = sigmas, loss
    return Row(
        f"{code}, {len(LOSSES)} loss rates",
        "exact model of the blocks",
        f"at most {worst:.1f} σ off (loss {100 * where:g} %)",
        "4 σ",
        judge(worst <= 4),
    )


def auto_row(lost: dict, takes: dict) -> Row:
    """What `auto` leaves lost, start included, and what it takes at the ends of the range."""
    inside = [loss for loss in LOSSES if loss <= LIVELY]
    worst = max(inside, key=lambda loss: lost["auto", loss])
    ends = f"{100 * takes['auto', 0.0]:.0f} % to {100 * takes['auto', LIVELY]:.0f} % of parities"
    return Row(
        f"auto, up to a loss of {100 * LIVELY:g} %",
        "one frame in a thousand lost",
        f"at most {1000 * lost['auto', worst]:.2g} ‰ (loss {100 * worst:g} %), with {ends}",
        "2 ‰",
        judge(lost["auto", worst] <= 0.002),
    )


def draw(context: Context, lost: dict, takes: dict, packets: dict) -> str:
    """Frames lost and overhead by loss: models as lines, runs as marks."""
    figure, (left, right) = fec.axes(2)
    fine = np.linspace(0.0005, max(LOSSES), 100)
    for number, code in enumerate(CODES):
        colour, marker = COLOURS[number], MARKERS[number]
        if code != "auto":
            shares = [100 * expected(CODES[code], packets[code], e) for e in fine]
            left.plot(100 * fine, shares, color=colour)
        measured = [100 * max(lost[code, e], FLOOR) for e in LOSSES]
        dashes = "--" if code == "auto" else ""
        left.plot(
            100 * np.array(LOSSES), measured, dashes + marker, color=colour, ms=5, mfc="none", label=code
        )
        if code != "off":
            overhead = [100 * takes[code, e] for e in LOSSES]
            right.plot(
                100 * np.array(LOSSES), overhead, "-" + marker, color=colour, ms=5, mfc="none", label=code
            )
    left.set(yscale="log", ylim=(100 * FLOOR / 1.5, 130), xlabel="packets lost on the link in %")
    left.set_ylabel("base-layer frames lost in %")
    right.set(ylim=(0, None), xlabel="packets lost on the link in %")
    right.set_ylabel("octets of parities over those of packets in %")
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    return style.save(figure, context.path("fec-base-layer"))
