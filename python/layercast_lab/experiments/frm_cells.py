"""FRM over ATM: its group in cells, which are lost one by one (E8 of the specification)."""

from __future__ import annotations

from typing import Any

from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.frm_knees import FLAT_MS, Runs, curves, knee, listed, sweep
from layercast_lab.experiments.frm_model import PAPER

SIZES = (10, 25, 50, 75, 100, 125, 150, 175, 200)
CELLS = 43
"""Cells of a data packet: 2000 octets, 27 before them, the trailer of AAL5."""
LOSSES = (1e-7, 2.33e-6, 1e-5, 1e-4)
"""Of a cell. The second loses as many data packets as E2's 1e-4."""
STEP = 25


def packet_loss(cell_loss: float) -> float:
    """Of a data packet, which is lost with any of its cells."""
    return 1 - (1 - cell_loss) ** CELLS


@experiment(
    "fully-reliable-multicast/e8", title="Response time over ATM cells", paper=f"{PAPER}, ours: no figure"
)
def e8(context: Context) -> Report:
    """E2 with every packet in cells of AAL5, beside packets that are lost as often as 43 cells are."""
    cells: list[dict[str, Any]] = [{"loss": loss, "cells": True} for loss in (0.0, *LOSSES)]
    packets: list[dict[str, Any]] = [{"loss": packet_loss(loss)} for loss in (0.0, *LOSSES)]
    found = sweep(context, "FRM, E8", SIZES, [*cells, *packets])
    (clean, *lossy), (whole, *twins) = found[: len(cells)], found[len(cells) :]
    rows = [
        Row(
            "no cell is lost: 10, 50, 100, 150 receivers",
            f"as packets: {listed(whole, (10, 50, 100, 150))}",
            listed(clean, (10, 50, 100, 150)),
            "5 %",
            judge(all(alike(one, other, 0.05) for one, other in zip(clean, whole, strict=True))),
            "a cell tax of 13 % of 0.1 ms at 155.5 Mbit/s",
        ),
        Row(
            "a cell in 430,000 is lost: 10, 50, 100 receivers",
            "16 / 19 / 27 ms (calibrated, packets at 1e-4)",
            listed(lossy[1], (10, 50, 100)),
            "a fifth",
            judge(
                all(
                    abs(response(lossy[1], size) / told - 1) < 0.2
                    for size, told in zip((10, 50, 100), (16, 19, 27), strict=True)
                ),
            ),
        ),
    ]
    for loss, runs, twin in zip(LOSSES, lossy, twins, strict=True):
        least, size = knee(twin), knee(runs)
        rows.append(
            Row(
                f"knee at a cell loss of {loss:g}",
                f"packets at {packet_loss(loss):.2g}: {least}",
                f"{size}",
                "not smaller, at most two steps of the grid larger",
                judge(knee(twin) <= knee(runs) <= knee(twin) + 2 * STEP),
                "echoes and polls have 2 cells and are lost less often than data",
            )
        )
    knees = [knee(clean), *(knee(runs) for runs in lossy)]
    rows.append(
        Row(
            "shape",
            "the more cells are lost, the smaller the group",
            " ≥ ".join(str(size) for size in knees) if falls(knees) else ", ".join(map(str, knees)),
            "never larger",
            judge(falls(knees) and knees[0] > knees[-1]),
        )
    )
    lines = {"no loss": clean} | {f"cells, {loss:g}": runs for loss, runs in zip(LOSSES, lossy, strict=True)}
    picture = curves(context, "frm-e8", lines)
    return Report("fully-reliable-multicast/e8", e8.__doc__ or "", rows, picture)


def response(runs: list[Runs], size: int) -> float:
    """Of this group, milliseconds."""
    return next(run.response_ms for run in runs if run.receivers == size)


def alike(one: Runs, other: Runs, share: float) -> bool:
    """Whether two response times differ by no more than this share, or neither sender keeps up."""
    late = [it.response_ms > FLAT_MS for it in (one, other)]
    return all(late) or (not any(late) and abs(one.response_ms / other.response_ms - 1) <= share)


def falls(knees: list[int]) -> bool:
    """Whether none is larger than the one before."""
    return knees == sorted(knees, reverse=True)
