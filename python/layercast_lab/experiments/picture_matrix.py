"""Picture quality on ATM: cells behind a matrix of parities (specs/mpeg-picture-quality.md 2.7 and 5.3)."""

from __future__ import annotations

from typing import Any

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.picture_latency import latency
from layercast_lab.experiments.picture_switch import PAPER
from layercast_lab.picture import ask
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

CODES = {
    "columns": "column",
    "two-diagonals": "column and two diagonals",
    "diagonals": "wrapped diagonals, one slope",
    "both-diagonals": "wrapped diagonals, two slopes",
    "even-odd": "EVENODD for each column",
}
OVERHEAD = {"columns": 10, "two-diagonals": 12, "diagonals": 20, "both-diagonals": 30, "even-odd": 20}
"""Parities of a block of 10 x 10 in percent of its data cells."""
LOST = (2, 3, 4, 6, 10)
SYSTEM_SHARE = 5.0
"""Share of class S in the stream of the paper, in percent."""
PROTOTYPE = {
    "columns": (0.904, 0.739, 0.523, 0.165, 0),
    "two-diagonals": (0.941, 0.832, 0.684, 0.348, 0.024),
    "diagonals": (1, 1, 1, 0.984, 0.862),
    "both-diagonals": (1, 1, 1, 1, 0.992),
    "even-odd": (1, 0.992, 0.970, 0.872, 0.453),
}
"""Share of the blocks of 10 x 10 that come back whole after that many losses: a prototype, 2000 trials."""
COLUMN_LOSSES = {"one column with 2 losses": 1, "2 losses in every column": 10}
"""Columns of a block of 10 x 10 that lose two data cells."""
COLUMN_PROTOTYPE = {
    "columns": (0, 0),
    "two-diagonals": (0.371, 0),
    "diagonals": (1, 0),
    "both-diagonals": (1, 0.865),
    "even-odd": (1, 1),
}
"""Share of the blocks of 10 x 10 that come back whole after these."""
TABLE = (1e-2, 1e-3, 1e-4)
"""Losses of the table of residual losses."""
TRIALS = 20_000
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
EVENTS = 400
"""Cells that are expected not to come back, so that the figure is within some 10 %."""
MOST_BLOCKS = 20_000_000
Point = tuple[int, str, float, float, int]
"""Side of the block, code, loss, expected residual loss, blocks."""


def residual(code: str, rate: float, rows: int) -> float:
    """Share of the data cells that do not come back when each cell is lost for itself."""
    if code == "columns":
        return rate * (1 - (1 - rate) ** rows)
    others = rows + 1
    return rate * (1 - (1 - rate) ** others - others * rate * (1 - rate) ** (others - 1))


def matrix(code: str, side: int, loss: dict[str, Any], blocks: int = 0, seed: int = 1) -> dict[str, Any]:
    """A setting of the crate."""
    return {"code": code, "rows": side, "columns": side, "loss": loss, "blocks": blocks, "seed": seed}


def run_each(context: Context, what: str, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One run for each setting."""
    return run_all(context, what, lambda setting: ask("matrix", settings=[setting])[0], settings)


@experiment("mpeg-picture-quality/q7", title="Lost cells that a matrix of parities brings back", paper=PAPER)
def q7(context: Context) -> Report:
    """Residual loss beside its closed form, and blocks that survive a number of losses, for five codes."""
    points = []
    for side in (4, 10):
        for code in ("columns", "even-odd"):
            for rate in RATES:
                expected = residual(code, rate, side)
                blocks = int(EVENTS / expected / side**2) + 1
                if blocks <= MOST_BLOCKS:
                    points.append((side, code, rate, expected, blocks))
    settings = [
        matrix(code, side, {"kind": "random", "rate": rate, "burst": 1.0}, blocks)
        for side, code, rate, _, blocks in points
    ]
    found = run_each(context, "independent losses", settings)
    rows = []
    for (side, code, rate, expected, _), run in zip(points, found, strict=True):
        share = run["residual"]
        rows.append(
            Row(
                f"{CODES[code]}, {side} x {side}, loss {rate:g}",
                f"closed form: {expected:.3g}",
                f"{share:.3g} ({run['residual_cells']} of {run['data_cells']} cells)",
                "within 20 %",
                judge(abs(share / expected - 1) <= 0.2),
            )
        )
    rows += patterns(context) + survivors(context) + columns(context) + latency()
    return Report(
        "mpeg-picture-quality/q7",
        "Lost cells that a matrix of parities brings back",
        rows,
        draw(context, points, found),
    )


def patterns(context: Context) -> list[Row]:
    """Residual loss of a column: each pattern of losses is decoded once, and counts by its probability."""
    kinds = [(side, code) for side in (4, 10) for code in ("columns", "even-odd")]
    settings = [matrix(code, side, {"kind": "every"}) | {"columns": 1} for side, code in kinds]
    rows = []
    for (side, code), run in zip(kinds, run_each(context, "patterns of losses", settings), strict=True):
        size = len(run["by_lost"]) - 1
        for rate in TABLE:
            terms = (
                left * rate**lost * (1 - rate) ** (size - lost) for lost, left in enumerate(run["by_lost"])
            )
            share, expected = sum(terms) / side, residual(code, rate, side)
            rows.append(
                Row(
                    f"{CODES[code]}, column of {side}, loss {rate:g}: all {run['trials']} patterns",
                    f"closed form: {expected:.3g}",
                    f"{share:.3g}",
                    "within 0.1 %",
                    judge(abs(share / expected - 1) <= 1e-3),
                )
            )
    return rows


def columns(context: Context) -> list[Row]:
    """Blocks of 10 x 10 that come back whole after two losses of data cells in one column, and in each."""
    settings = [
        matrix(code, 10, {"kind": "columns", "columns": count, "cells": 2}, TRIALS)
        for code in COLUMN_PROTOTYPE
        for count in COLUMN_LOSSES.values()
    ]
    runs = iter(run_each(context, "losses of columns", settings))
    rows = []
    for code, expected in COLUMN_PROTOTYPE.items():
        for (name, _), share in zip(COLUMN_LOSSES.items(), expected, strict=True):
            run = next(runs)
            found = run["whole"] / run["trials"]
            exact = share in (0, 1)
            rows.append(
                Row(
                    f"10 x 10, {CODES[code]}: blocks whole after {name}",
                    f"prototype: {share:.3f}",
                    f"{found:.3f} ({run['whole']} of {run['trials']})",
                    "exact"
                    if exact
                    else "within 0.035: three standard errors of the prototype's 2000 trials",
                    judge(found == share if exact else abs(found - share) <= 0.035),
                )
            )
    return rows


def survivors(context: Context) -> list[Row]:
    """Blocks of 10 x 10 that come back whole after a number of losses anywhere."""
    settings = [
        matrix(code, 10, {"kind": "exactly", "cells": lost}, TRIALS) for code in PROTOTYPE for lost in LOST
    ]
    runs = iter(run_each(context, "losses of a block", settings))
    rows = []
    for code, expected in PROTOTYPE.items():
        of_code = [next(runs) for _ in LOST]
        found = [run["whole"] / run["trials"] for run in of_code]
        near = all(abs(a - b) <= 0.035 for a, b in zip(found, expected, strict=True))
        rows += [
            Row(
                f"10 x 10, {CODES[code]}: blocks whole after {', '.join(map(str, LOST))} losses",
                f"prototype: {', '.join(f'{it:.3f}' for it in expected)}",
                ", ".join(f"{it:.3f}" for it in found),
                "within 0.035: three standard errors of the prototype's 2000 trials",
                judge(near),
            ),
            Row(
                f"10 x 10, {CODES[code]}: parities",
                f"{OVERHEAD[code]} % of the data cells",
                f"{of_code[0]['overhead_percent']:g} %",
                "exact",
                judge(of_code[0]["overhead_percent"] == OVERHEAD[code]),
            ),
        ]
    return rows


def draw(context: Context, points: list[Point], found: list[dict[str, Any]]) -> str:
    """Residual loss over loss, with the closed form."""
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    lines = [(side, code) for side in (4, 10) for code in ("columns", "even-odd")]
    for (side, code), colour in zip(lines, COLOURS, strict=False):
        axis.plot(RATES, [residual(code, rate, side) for rate in RATES], color=colour)
        of_line = [
            (point[2], run["residual"])
            for point, run in zip(points, found, strict=True)
            if point[:2] == (side, code)
        ]
        axis.plot(*zip(*of_line, strict=True), "o", color=colour, label=f"{CODES[code]}, {side} x {side}")
    axis.set(xscale="log", yscale="log", xlabel="lost cells", ylabel="lost for good")
    axis.legend()
    return style.save(figure, context.path("picture-q7"))


@experiment("mpeg-picture-quality/q8", title="Bursts that a matrix of parities brings back", paper=PAPER)
def q8(context: Context) -> Report:
    """A burst of each length up to 3 M at each place of a block, also across two blocks."""
    rows = []
    for side in (4, 10):
        for code, name, guarantee in (("columns", "mode 1", side), ("even-odd", "mode 2", 2 * side)):
            lengths = range(1, 3 * side + 1)
            settings = [matrix(code, side, {"kind": "burst", "cells": cells}) for cells in lengths]
            runs = run_each(context, f"bursts, {name}, {side} x {side}", settings)
            whole = [run["whole"] == run["trials"] for run in runs]
            longest = whole.index(False) if False in whole else len(whole)
            next_run = runs[longest] if longest < len(runs) else None
            beyond = "-"
            if next_run is not None:
                beyond = f"of {longest + 1} at {next_run['whole']} of {next_run['trials']} places"
            rows.append(
                Row(
                    f"{name}, {side} x {side}: bursts that come back at every place",
                    f"up to {guarantee} cells",
                    f"up to {longest} cells; {beyond}",
                    f"at least {guarantee}",
                    judge(longest >= guarantee),
                )
            )
            if code == "columns":
                cost = SYSTEM_SHARE * runs[0]["overhead_percent"] / 100
                rows.append(
                    Row(
                        f"{name}, {side} x {side}: cost for a class S of {SYSTEM_SHARE:g} %",
                        f"{SYSTEM_SHARE:g} % / N = {SYSTEM_SHARE / side:g} % of the stream",
                        f"{cost:g} %",
                        "exact",
                        judge(abs(cost - SYSTEM_SHARE / side) < 1e-9),
                    )
                )
    return Report("mpeg-picture-quality/q8", "Bursts that a matrix of parities brings back", rows)
