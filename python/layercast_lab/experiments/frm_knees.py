"""FRM: until which size of the group its sender keeps up, simulated as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layercast_lab import frm, group, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.frm_model import PAPER, TABLE_1
from layercast_lab.multicast import ask
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

SIZES = (10, 25, 50, 75, 100, 110, 120, 130, 140, 150, 160, 170, 180, 200)
NEAR = 15
"""Receivers that a knee may be off: what the specification allows the paper's own."""
FLAT_MS = 100
"""A response time of ten packets of the source: beyond it they queue at the source."""


@dataclass(frozen=True)
class Runs:
    """One configuration with one size of the group, over the seeds."""

    receivers: int
    response_ms: float
    """Median over the seeds of the mean over packets and receivers, from submission to delivery."""
    least_ms: float
    most_ms: float
    handshakes: float
    again: float
    """Packets sent again, mean."""


def sweep(
    context: Context, what: str, sizes: Sequence[int], configurations: Sequence[dict[str, Any]]
) -> list[list[Runs]]:
    """Runs of each configuration, by size."""
    seeds = context.seed_range(5)
    packets = 200 if context.seconds else 600
    jobs = [(size, made, seed) for made in configurations for size in sizes for seed in seeds]

    def one(job: tuple[int, dict[str, Any], int]) -> dict[str, Any]:
        size, made, seed = job
        return group.run(frm.scenario(size, packets=packets, seed=seed, **made))

    found = run_all(context, what, one, jobs)
    rows = []
    for start in range(0, len(found), len(sizes) * len(seeds)):
        part = found[start : start + len(sizes) * len(seeds)]
        by_size = [part[at : at + len(seeds)] for at in range(0, len(part), len(seeds))]
        rows.append([summary(size, runs) for size, runs in zip(sizes, by_size, strict=True)])
    return rows


def summary(size: int, runs: Sequence[dict[str, Any]]) -> Runs:
    """What the seeds gave."""
    response = [1e3 * run["stream"]["response_s"] for run in runs]
    return Runs(
        size,
        float(np.median(response)),
        min(response),
        max(response),
        float(np.mean([run["sent"]["handshakes"] for run in runs])),
        float(np.mean([run["sent"]["again"] for run in runs])),
    )


def knee(runs: Sequence[Runs]) -> int:
    """The largest group before the first whose median response time is beyond ten packets; 0: none."""
    late = next((at for at, run in enumerate(runs) if run.response_ms > FLAT_MS), len(runs))
    return runs[late - 1].receivers if late else 0


def listed(runs: Sequence[Runs], sizes: Sequence[int]) -> str:
    """Response times at these sizes."""
    return " / ".join(f"{run.response_ms:.0f}" for run in runs if run.receivers in sizes) + " ms"


def model(**other: Any) -> float:
    """The specification's knee: a lower bound, without losses."""
    return ask("frm", models=[TABLE_1 | other], receivers=[1.0])[0]["knee"]


def curves(context: Context, name: str, lines: dict[str, list[Runs]], knees: Sequence[float] = ()) -> str:
    """Response times against the group, with the range of the seeds, and the knees of the model."""
    many = len(lines) > 4
    figure, axis = plt.subplots(figsize=(8.4 if many else 6.2, 3.9))
    for number, (label, runs) in enumerate(lines.items()):
        sizes = [run.receivers for run in runs]
        colour = (*COLOURS, "0.45")[number]
        middle = [run.response_ms for run in runs]
        axis.plot(sizes, middle, (MARKERS + "X")[number] + "-", ms=4, color=colour, label=label)
        axis.fill_between(
            sizes, [run.least_ms for run in runs], [run.most_ms for run in runs], color=colour, alpha=0.13
        )
    for number, at in enumerate(knees):
        axis.axvline(at, color=COLOURS[number], lw=0.8, ls=":")
    if knees:
        axis.plot([], [], ":", color="0.5", lw=0.8, label="knee of the model")
    axis.axhline(FLAT_MS, color="0.6", lw=0.8)
    axis.set(xlabel="receivers", ylabel="mean response time (ms)", yscale="log")
    axis.legend(fontsize=8, **({"loc": "center left", "bbox_to_anchor": (1, 0.5)} if many else {}))
    return style.save(figure, context.path(name))


@experiment(
    "fully-reliable-multicast/e2", title="Response time against the group", paper=f"{PAPER}, figure 4"
)
def e2(context: Context) -> Report:
    """Mean time from submission to delivery, until the sender cannot cope: three loss rates, as L is lost."""
    losses = (0.0, 1e-5, 1e-4)
    found = sweep(context, "FRM, E2", SIZES, [{"loss": loss} for loss in losses])
    by_loss = dict(zip(losses, found, strict=True))
    knees = {loss: knee(runs) for loss, runs in by_loss.items()}
    flat = [run.response_ms for run in by_loss[1e-4] if run.receivers in (10, 50, 100)]
    at = {run.receivers: run.response_ms for run in by_loss[1e-5]}
    rows = [
        Row(
            "steady rise, then the sender cannot cope",
            "threshold 150 receivers",
            "; ".join(f"L = {loss:g}: {size}" for loss, size in knees.items()),
            f"150 ± {NEAR} at the default, L = 0.0001",
            judge(abs(knees[1e-4] - 150) <= NEAR),
            "the exponent of L is not legible; the last size whose response time is at most 100 ms",
        ),
        Row(
            "L = 1e-4: 10, 50, 100 receivers",
            "16 / 19 / 27 ms (calibrated)",
            listed(by_loss[1e-4], (10, 50, 100)),
            "a fifth",
            judge(
                all(abs(one / told - 1) < 0.2 for one, told in zip(flat, (16, 19, 27), strict=True)),
            ),
            "after a loss nothing is released for 3.5 rounds, which at 100 is longer than the buffer lasts",
        ),
        Row(
            "L = 1e-5: 150, 160, 170, 180 receivers",
            "35 / 41 / 130 / 270 ms (calibrated)",
            listed(by_loss[1e-5], (150, 160, 170, 180)),
            "150 within a fifth, 180 above 100 ms",
            judge(
                abs(at[150] / 35 - 1) < 0.2 and at[180] > FLAT_MS,
            ),
        ),
        Row(
            "the model's lower bound",
            f"{model():.0f} receivers",
            f"{knees[0.0]} without loss",
            "not less, at most a third more",
            judge(model() <= knees[0.0] <= 4 / 3 * model()),
        ),
    ]
    lines = {f"L = {loss:g}": runs for loss, runs in by_loss.items()}
    picture = curves(context, "frm-e2", lines, [model()])
    return Report("fully-reliable-multicast/e2", e2.__doc__ or "", rows, picture)


BUFFERS = {16: (50, 50), 24: (75, 100), 32: (125, 125), 48: (200, 200), 64: (250, 250), 128: (300, 300)}
"""The last sizes on the flat branch by the specification's calibration; of 128 packets at least that."""


@experiment(
    "fully-reliable-multicast/e3",
    title="Response time against the sender's buffer",
    paper=f"{PAPER}, figure 5",
)
def e3(context: Context) -> Report:
    """The same with less and more packets kept: a smaller buffer gives out earlier, and suddenly."""
    sizes = (10, 25, 50, 75, 100, 125, 150, 175, 200, 250, 300)
    found = sweep(context, "FRM, E3", sizes, [{"window": buffer} for buffer in BUFFERS])
    knees = [knee(runs) for runs in found]
    rows = [
        Row(
            "a smaller buffer",
            "sudden, very rapid rise at smaller N",
            ", ".join(f"{buffer}: {size}" for buffer, size in zip(BUFFERS, knees, strict=True)),
            "the more packets, the larger the group",
            judge(knees == sorted(knees) and len(set(knees)) >= 4),
        )
    ]
    for (buffer, (least, most)), size in zip(BUFFERS.items(), knees, strict=True):
        told = f"{least}" if least == most else f"{least} to {most}"
        rows.append(
            Row(
                f"{buffer} packets",
                f"flat until {told}{' at least' if buffer == 128 else ''} (calibrated)",
                f"until {size}; the model {model(buffer=buffer):.0f}",
                f"within {NEAR}",
                judge(least - NEAR <= size <= most + NEAR),
            )
        )
    lines = {f"B = {buffer}": runs for buffer, runs in zip(BUFFERS, found, strict=True)}
    knees_told = [model(buffer=buffer) for buffer in BUFFERS if model(buffer=buffer) <= sizes[-1]]
    picture = curves(context, "frm-e3", lines, knees_told)
    return Report("fully-reliable-multicast/e3", e3.__doc__ or "", rows, picture)


@experiment(
    "fully-reliable-multicast/e5",
    title="Contingency factor and loss, and what the specification would change",
    paper=f"{PAPER}, no figure",
)
def e5(context: Context) -> Report:
    """Knees by k and by loss, with lists evaluated when all have answered, and with reported gaps."""
    sizes = (10, 25, 50, 75, 100, 125, 150, 175, 200, 225, 250, 275, 300)
    told: list[tuple[str, dict[str, Any], str, tuple[int, int]]] = [
        ("k = 1.1", {"k": 1.1}, "about 200", (200, 200)),
        ("k = 1.5", {}, "about 140", (140, 140)),
        ("k = 2", {"k": 2.0}, "about 100", (100, 100)),
        ("L = 1e-3, k = 1.5", {"loss": 1e-3}, "75 to 100", (75, 100)),
        ("L = 1e-3, k = 1.1", {"loss": 1e-3, "k": 1.1}, "125 to 150", (125, 150)),
        ("evaluated when all have answered", {"on_complete": True}, "about 250", (250, 250)),
        ("the same, gaps reported", {"on_complete": True, "repair": "union"}, "beyond 200", (200, 300)),
    ]
    found = sweep(context, "FRM, E5", sizes, [made for _, made, _, _ in told])
    knees = [knee(runs) for runs in found]
    rows = []
    for (name, _, reported, (least, most)), runs, size in zip(told, found, knees, strict=True):
        before = [run for run in runs if run.receivers <= size]
        rows.append(
            Row(
                name,
                f"{reported} (calibrated)",
                f"{size}; there {before[-1].handshakes:.1f} handshakes, {before[-1].again:.0f} packets again"
                if before
                else "none",
                f"within {NEAR}",
                judge(least - NEAR <= size <= most + NEAR),
            )
        )
    order = knees[0] >= knees[1] >= knees[2] and knees[5] > knees[1]
    rows.append(
        Row(
            "shape",
            "larger k, smaller groups; loss acts like a smaller buffer; early evaluation helps most",
            "yes" if order and knees[3] <= knees[1] else "no",
            "all of it",
            judge(order and knees[3] <= knees[1]),
        )
    )
    lines = {name: runs for (name, _, _, _), runs in zip(told, found, strict=True)}
    return Report("fully-reliable-multicast/e5", e5.__doc__ or "", rows, curves(context, "frm-e5", lines))
