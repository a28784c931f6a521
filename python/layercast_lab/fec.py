"""Models and studies of packet-level FEC (crate `layercast-fec`), asked for in Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from layercast import _layercast
from layercast_lab import style
from layercast_lab.experiment import Context
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

CODES = {"none": (1, 0), "7+1": (7, 1), "6+2": (6, 2), "5+3": (5, 3)}
"""The four of Huitema's figures: N source packets and M parities."""


def ask(what: str, **question: Any) -> Any:
    """An answer of the crate: `cost`, `residual`, `star`, ... (crates/python/src/fec.rs has all questions).

    >>> round(ask("cost", kind="A", points=[(7, 1, 0.01, 100)])[0], 3)
    1.218
    """
    return json.loads(_layercast.fec_json(json.dumps({"ask": what, **question})))


def cost(code: tuple[int, int], e: float, groups: Iterable[float], kind: str = "A") -> np.ndarray:
    """Packets sent per source packet, by group size."""
    return np.array(ask("cost", kind=kind, points=[(*code, e, float(group)) for group in groups]))


def crossing(e: float, one: str, other: str, kind: str = "A", most: int = 40_000) -> int:
    """The smallest group in which one code costs more than another."""
    groups = range(1, most)
    dearer = cost(CODES[one], e, groups, kind) > cost(CODES[other], e, groups, kind)
    return int(np.argmax(dearer)) + 1


def root(low: float, high: float, above: Callable[[float], bool]) -> float:
    """Where something begins to be so, between two positive numbers."""
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if above(middle) else (middle, high)
    return low


def within(found: float, told: float, off: float) -> bool:
    """Whether it is off by no more than this share."""
    return abs(found / told - 1) <= off


def axes(count: int = 1, **look: Any) -> tuple[plt.Figure, Any]:
    """A figure of the size that the others have."""
    return plt.subplots(1, count, figsize=(6.2 if count == 1 else 3.6 * count + 0.6, 3.9), **look)


def surface(
    axis: Axes, x: Sequence[float], y: Sequence[float], planes: Sequence[np.ndarray], names: Sequence[str]
) -> None:
    """Planes over a grid, one colour each; the names go to a legend."""
    across, along = np.meshgrid(x, y)
    for plane, name, colour in zip(planes, names, COLOURS, strict=False):
        axis.plot_surface(across, along, plane, color=colour, alpha=0.55, linewidth=0.3, edgecolor="white")
        axis.plot([], [], [], "s", color=colour, label=name)
    axis.tick_params(labelsize=7.5)
    axis.legend(loc="upper left", fontsize=8)


def planes(
    context: Context,
    name: str,
    grid: tuple,
    data: Sequence[np.ndarray],
    names: Sequence[str],
    labels: Sequence[str],
    points: Sequence[tuple[float, float, float]],
) -> str:
    """Surfaces over receivers and length, and what was simulated."""
    figure = plt.figure(figsize=(6.6, 4.8))
    axis = figure.add_subplot(projection="3d")
    axis.plot(*zip(*points, strict=True), "o", color="black", ms=3.5, label="simulated")
    surface(axis, *grid, data, names)
    axis.set(xlabel=labels[0], ylabel=labels[1])
    axis.set_zlabel(labels[2])
    return style.save(figure, context.path(name))
