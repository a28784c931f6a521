"""Quality over time, drawn."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

# Colour by program, shade by its delay.
COLOURS = {"SRT 120 ms": "#e08a3c", "SRT 500 ms": "#a03c14"}
COLOURS |= {"Layercast 500 ms": "#4aa3c8", "Layercast 800 ms": "#0f4c81"}
COLOURS |= {"Layercast 500 ms, repair": "#2a8f4f"}


def draw(results: dict, conditions: list[str], fps: int, drop: tuple[int, int], file: Path) -> None:
    """The first run of each H.264 stream over these paths: luminance PSNR of what was on the screen."""
    figure, axes = plt.subplots(len(conditions), 1, figsize=(10, 2.6 * len(conditions)), sharex=True)
    axes = [axes] if len(conditions) == 1 else axes
    for axis, condition in zip(axes, conditions, strict=True):
        for name, runs in results[condition].items():
            if "H.264" not in name or "blind" in name or not runs:
                continue
            psnr, frozen = runs[0]["psnr"], runs[0]["frozen"]
            label = name.replace(", H.264", "").replace(", switch", "")
            times = [number / fps for number in range(len(psnr))]
            axis.plot(times, psnr, color=COLOURS[label], lw=1, label=label)
            still = [(t, q) for t, q, stands in zip(times, psnr, frozen, strict=True) if stands]
            axis.plot(*zip(*still, strict=True) if still else ([], []), ".", color=COLOURS[label], ms=3)
        if condition.startswith("drop"):
            axis.axvspan(*drop, color="0.92")
        axis.set(title=condition, ylabel="PSNR, dB", ylim=(5, 50))
        axis.grid(color="0.9")
    axes[0].legend(ncols=4, fontsize="small", loc="lower right")
    axes[-1].set_xlabel("s (dots: the picture stands still)")
    figure.tight_layout()
    figure.savefig(file, dpi=90)
    plt.close(figure)
