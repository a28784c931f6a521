"""One look for all figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt

LAYER_COLOURS = {"BL": "#334155", "E1": "#64a3c4", "E2": "#b9d7e5"}
ACCENT = "#c2410c"

plt.rcParams.update(
    {
        "figure.dpi": 110,
        "savefig.dpi": 160,
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e5e1d8",
        "grid.linewidth": 0.7,
        "axes.axisbelow": True,
        "legend.frameon": False,
    }
)


def log_sizes(axis: plt.Axes) -> None:
    """A logarithmic horizontal axis of packet sizes from 1 byte to 32 kB."""
    axis.set(xscale="log", xlabel="packet (bytes)")
    axis.set_xticks([1, 10, 100, 1_000, 10_000], ["1", "10", "100", "1k", "10k"])
    axis.minorticks_off()


def layers(axis: plt.Axes, series: Mapping[str, np.ndarray]) -> None:
    """What each layer brought in each second to a receiver, one above the other."""
    axis.stackplot(
        series["t"] + 0.5,
        [series[f"cells_{layer}"] for layer in LAYER_COLOURS],
        labels=list(LAYER_COLOURS),
        colors=LAYER_COLOURS.values(),
        step="mid",
    )


def save(figure: plt.Figure, path: Path, top: float = 1.0) -> str:
    """Write the figure as PNG and SVG beside each other; returns the PNG's path.

    What is above the share `top` of its height is left to a legend of all its axes.
    """
    figure.tight_layout(rect=(0, 0, 1, top))
    # Without dates and with a fixed salt the same data gives the same bytes.
    plt.rcParams["svg.hashsalt"] = "layercast"
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"))
    plt.close(figure)
    return str(path.with_suffix(".png"))
