"""Packet-level FEC below transports that stall: Huitema's figure 5, and selective acknowledgements."""

from __future__ import annotations

import numpy as np

from layercast_lab import fec
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.fec_models import LOSSES, PAPER, curves
from layercast_lab.fec import CODES, ask, within
from layercast_lab.simulator import run_all

WINDOW = 200
SACK_LOSSES = (1e-3, 1e-2, 3e-2, 0.1, 0.2)


def stalls(what: str) -> dict[str, np.ndarray]:
    """Efficiency of a transport by code."""
    return {
        name: np.array(ask(what, points=[(*code, e, WINDOW) for e in LOSSES])) for name, code in CODES.items()
    }


@experiment("packet-level-fec/f5", title="TCP that only has a timer", paper=f"{PAPER}, figure 5")
def f5(context: Context) -> Report:
    """Efficiency with a window of 200 packets, and where redundancy pays."""

    def efficiency(code: str, e: float) -> float:
        return ask("tcp", points=[(*CODES[code], e, WINDOW)])[0]

    rows = []
    names = list(CODES)
    told = [(7.18e-4, 87.44, 87.5), (1.132e-2, 74.56, 75), (3.89e-2, 61.62, 62.5)]
    for worse, better, (at, exact, nearly) in zip(names, names[1:], told, strict=False):
        found = fec.root(1e-5, 0.2, lambda e, w=worse, b=better: efficiency(b, e) > efficiency(w, e))
        percent = 100 * efficiency(better, found)
        same = within(found, at, 2e-3) and abs(percent - exact) < 0.02
        measured = f"e = {found:.3e}, {percent:.2f} %"
        rows.append(
            Row(
                f"{worse} to {better}",
                f"nearly at {nearly} %",
                measured,
                f"e = {at:g}, {exact} %",
                judge(same),
            )
        )
    useful = fec.root(1e-5, 0.2, lambda e: efficiency("7+1", e) > efficiency("none", e))
    rows.append(Row("redundancy useful", "e > 1e-3", f"e > {useful:.2e}", "below 1e-3", judge(useful < 1e-3)))
    never = [m / n / WINDOW for n, m in list(CODES.values())[1:]]
    ideal = all(
        efficiency("none", 0.999 * e) > n / (n + m)
        for e, (n, m) in zip(never, list(CODES.values())[1:], strict=True)
    )
    measured = ", ".join(f"{it:.3e}" for it in never)
    rows.append(
        Row("never justified below M/(N W)", "7.1e-4, 1.67e-3, 3.0e-3", measured, "exact", judge(ideal))
    )
    marks = {name: stalls_of_runs(context, code) for name, code in CODES.items()}
    off = {
        (name, e): seen / ask("tcp", points=[(*CODES[name], e, WINDOW)])[0] - 1
        for name, points in marks.items()
        for e, seen in points
    }
    near, most = max(abs(it) for (_, e), it in off.items() if e <= 0.01), max(off, key=lambda it: off[it])
    rows.append(
        Row(
            f"simulated, {len(off)} points",
            "the model; better where losses come together (specs/packet-level-fec.md 6)",
            f"at most {100 * near:.1f} % off up to a loss of 1 %; "
            f"{100 * off[most]:+.0f} % at {most[1]:g} ({most[0]})",
            "5 % up to 1 %, never 3 % worse",
            judge(near <= 0.05 and min(off.values()) >= -0.03),
            "real blocks, and one stall for each run of what decoding leaves lost",
        )
    )
    figure = curves(context, "fec-f5", stalls("tcp"), "efficiency", marks)
    return Report("packet-level-fec/f5", f5.__doc__ or "", rows, figure)


def stalls_of_runs(context: Context, code: tuple[int, int]) -> list[tuple[float, float]]:
    """Efficiency by loss if each run of losses that real blocks leave is one stall of a window."""
    n, m = code
    study = {"scheme": "xor-shift", "n": n, "m": m, "interleave": 1, "burst": None, "seed": 1}
    study["packets"] = 50_000 if context.seconds else 300_000
    points = []
    for e in (1e-3, 1e-2, 3e-2, 0.1, 0.2):
        found = ask("bursts", study=study | {"e": e})
        runs = found["residual"] / max(found["run"], 1.0)
        points.append((e, n / (n + m) / (WINDOW * runs + 1)))
    return points


@experiment("packet-level-fec/f5b", title="Selective acknowledgements", paper=f"{PAPER}, section 4")
def f5b(context: Context) -> Report:
    """The same if only lost repairs stall the window: the model, and a stream above real blocks."""
    rows = []
    for (name, (n, m)), told in zip(list(CODES.items())[1:], (2.67e-2, 4.08e-2, 5.48e-2), strict=True):
        ideal = n / (n + m)
        found = fec.root(1e-4, 0.5, lambda e, ideal=ideal: ask("sack", points=[(1, 0, e, WINDOW)])[0] < ideal)
        same = judge(within(found, told, 2e-3))
        rows.append(Row(f"{name} can be useful", "W e^2 > M/N", f"e > {found:.3e}", f"e > {told:g}", same))
    jobs = [(name, e) for name in CODES for e in SACK_LOSSES]
    packets = 1_000_000 if context.full else 20_000 if context.seconds else 200_000

    def run(job: tuple[str, float]) -> float:
        n, m = CODES[job[0]]
        study = {"scheme": "xor-shift", "n": n, "m": m, "e": job[1], "window": WINDOW, "sack": True}
        return ask("stalls", study=study | {"packets": packets, "seed": 1})["efficiency"]

    seen = dict(zip(jobs, run_all(context, "fec-f5b, simulated", run, jobs), strict=True))
    off = {
        (name, e): it / ask("sack", points=[(*CODES[name], e, WINDOW)])[0] - 1
        for (name, e), it in seen.items()
    }
    near = max(abs(it) for (_, e), it in off.items() if e <= 0.03)
    least, most = min(off, key=lambda it: off[it]), max(off, key=lambda it: off[it])
    order = {e: max(CODES, key=lambda name, e=e: seen[name, e]) for e in SACK_LOSSES}
    told = {
        e: max(CODES, key=lambda name, e=e: ask("sack", points=[(*CODES[name], e, WINDOW)])[0])
        for e in SACK_LOSSES
    }
    rows.append(
        Row(
            f"simulated, {len(off)} points",
            "the model",
            f"at most {100 * near:.1f} % off up to a loss of 3 %; beyond {100 * off[least]:+.0f} % "
            f"({least[0]} at {least[1]:g}) to {100 * off[most]:+.0f} % ({most[0]} at {most[1]:g})",
            "5 % up to 3 %",
            judge(near <= 0.05),
            "repairs take packet times, too; lost repairs that are noticed in one stall are one stall",
        )
    )
    rows.append(
        Row(
            "simulated, the best code at " + ", ".join(f"{e:g}" for e in SACK_LOSSES),
            ", ".join(told.values()),
            ", ".join(order.values()),
            "the same",
            judge(order == told),
        )
    )
    marks = {name: [(e, seen[name, e]) for e in SACK_LOSSES] for name in CODES}
    figure = curves(context, "fec-f5b", stalls("sack"), "efficiency", marks)
    return Report("packet-level-fec/f5b", f5b.__doc__ or "", rows, figure)
