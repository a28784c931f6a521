"""Admission control: what late bits cost, by algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.admission import FIXED, RANDOM, Found, jdsz, levels, mean, runs
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.style import plt

PEERS = (
    "ours, after L. Breslau, S. Jamin, S. Shenker, Comments on the performance of measurement-based admission"
    " control algorithms, INFOCOM 2000"
)


def hoeffding(exceed: float) -> dict[str, Any]:
    """Floyd's rule."""
    return {"kind": "hoeffding", "exceed": exceed, "weight": 0.1}


def tangent(space: float) -> dict[str, Any]:
    """The rule of Gibbens and Kelly."""
    return {"kind": "tangent", "space": space, "weight": 0.1}


TARGETS = (0.01, 0.1, 0.5, 2.0)
EXCEED = (1e-3, 0.1, 0.4, 0.8)
"""Probabilities of the Hoeffding bound."""
ALGORITHMS: dict[str, list[tuple[dict[str, Any], float]]] = {
    "two levels": [(levels(), target) for target in TARGETS],
    "JDSZ, window": [(jdsz(window, 100.0, None), 0.1) for window in (1.0, 2.0, 4.0, 8.0)],
    "JDSZ, utilisation": [(jdsz(2.0, part, None), 0.1) for part in (85.0, 90.0, 95.0, 100.0)],
    "Hoeffding": [(hoeffding(exceed), 0.1) for exceed in EXCEED],
    "tangent": [(tangent(space), 0.1) for space in (3.0, 2.0, 1.0, 0.5)],
    "sum of peaks": [({"kind": "peak_sum"}, 0.1)],
}
"""Settings of one parameter each, with the target of late bits that only one algorithm looks at."""
FLOOR = 1e-4
"""Late bits in percent below which a run of this length shows nothing."""


def curve(found: list[Found]) -> list[tuple[float, float]]:
    """Utilisation and late bits, percent."""
    return sorted((mean(it, "utilisation"), mean(it, "late")) for it in found)


def at(points: list[tuple[float, float]], utilisation: float) -> float | None:
    """Late bits at a utilisation, from a line through logarithms; None outside of the points."""
    used, late = zip(*points, strict=True)
    if not used[0] <= utilisation <= used[-1]:
        return None
    return float(np.exp(np.interp(utilisation, used, np.log(np.maximum(late, FLOOR)))))


@experiment("admission-control/frontier", title="Late bits by utilisation, five algorithms", paper=PEERS)
def frontier(context: Context) -> Report:
    """Late bits against utilisation for each algorithm, by the parameter that its user has to choose."""
    figure, axes = plt.subplots(1, 2, figsize=(7.8, 3.8), sharey=True)
    rows = []
    for axis, (kind, peaks) in zip(axes, {"equal": FIXED, "unequal": RANDOM}.items(), strict=True):
        settings = [
            {"algorithm": algorithm, "target": target, "peaks": peaks}
            for them in ALGORITHMS.values()
            for algorithm, target in them
        ]
        done = iter(
            runs(context, f"admission, frontier, {kind} sources", settings, seconds=10_000.0, seeds=2)
        )
        found = {name: [next(done) for _ in them] for name, them in ALGORITHMS.items()}
        curves = {name: curve(it) for name, it in found.items()}
        for colour, marker, (name, points) in zip(COLOURS, MARKERS, curves.items(), strict=True):
            used, late = zip(*points, strict=True)
            axis.plot(used, np.maximum(late, FLOOR), color=colour, marker=marker, ms=4, lw=1.1, label=name)
        axis.set(xlabel="utilisation (%)", yscale="log", title=f"{kind} sources")
        common = 88.0 if kind == "equal" else 84.0
        late = {name: at(points, common) for name, points in curves.items()}
        known = {name: it for name, it in late.items() if it is not None}
        apart = max(known.values()) / min(known.values()) if known else float("inf")
        rows.append(
            Row(
                f"{kind} sources: late bits at a utilisation of {common:g} %",
                "all algorithms have one frontier of utilisation and loss",
                ", ".join(f"{name} {it:.3f} %" for name, it in known.items()) or "no algorithm reaches it",
                "three algorithms or more, within a factor of 3",
                judge(len(known) >= 3 and apart <= 3),
            )
        )
        kept = {target: mean(it, "late") for target, it in zip(TARGETS, found["two levels"], strict=True)}
        rows.append(
            Row(
                f"{kind} sources: late bits of two levels by target, 10 000 s",
                "none of the other algorithms meets a target",
                ", ".join(f"{target} %: {it:.3f} %" for target, it in kept.items()),
                "targets of 0.5 and 2 % within 15 %; tighter ones need longer",
                judge(all(abs(kept[target] / target - 1) <= 0.15 for target in (0.5, 2.0))),
            )
        )
        off = [
            mean(it, "late") / (100 * exceed) for it, exceed in zip(found["Hoeffding"], EXCEED, strict=True)
        ]
        rows.append(
            Row(
                f"{kind} sources: late bits of the Hoeffding bound per stated probability",
                "the stated probability is not met",
                ", ".join(f"{it:.2g}" for it in off),
                "off by more than a factor of 3 everywhere",
                judge(all(not 1 / 3 < it < 3 for it in off)),
            )
        )
        peak = found["sum of peaks"][0]
        best = max(mean(it, "utilisation") for it in found["two levels"])
        rows.append(
            Row(
                f"{kind} sources: admission without measurements",
                "ours",
                f"utilisation {mean(peak, 'utilisation'):.1f} %, late {mean(peak, 'late'):.3g} %;"
                f" two levels up to {best:.1f} %",
                "nothing late, at most 55 %",
                judge(mean(peak, "late") == 0 and mean(peak, "utilisation") <= 55),
            )
        )
    axes[0].set_ylabel("late bits (%)")
    axes[0].legend(fontsize=7.5)
    path = style.save(figure, context.path("mbac-frontier"))
    return Report("admission-control/frontier", frontier.__doc__ or "", rows, path)
