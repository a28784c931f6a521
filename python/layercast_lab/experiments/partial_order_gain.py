"""Partial order transport: what it gains over total order at the same loss."""

from __future__ import annotations

from typing import Any

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.partial_order_curves import listed
from layercast_lab.partial_order import GROUP, LAN, mean, rate, runs, share
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.style import plt

LOSSES = (1, 3, 5, 10)
"""Loss of the path in percent, both directions."""
ONE_WAY = 25.0
"""One-way delay in ms; the jitter has a mean of 2 ms."""


def flows(video: Any, audio: Any, counts: tuple[int, int] = (2, 1)) -> list[dict[str, Any]]:
    """Pictures of 1000 bytes each 40 ms and sound of 640 bytes each 80 ms."""
    return [
        {"period_ms": 40.0, "bytes": 1_000, "count": counts[0], "tolerance": video},
        {"period_ms": 80.0, "bytes": 640, "count": counts[1], "tolerance": audio},
    ]


VARIANTS: dict[str, list[dict[str, Any]]] = {
    "total order, no loss": [{"period_ms": 80 / 3, "bytes": 880, "count": 1, "tolerance": "full"}],
    "blocks, no loss": flows("full", "full"),
    "blocks, pictures may lose 10 %": flows(rate(10), "full"),
    "the same, with inference": flows(rate(10), "full"),
    "no order, any loss": flows("none", "none", (0, 0)),
}
INFERENCE = "the same, with inference"
"""Total order has one flow of the same rate: sound and pictures in one sequence, as in one TCP connection."""


@experiment(
    "partial-order-transport/e8",
    title="Partial order beside total order at the same loss",
    paper="ours: what an application gains",
)
def e8(context: Context) -> Report:
    """Delay, losses and repeated SDUs of pictures and sound over an RTT of 50 ms, by order and tolerance."""
    jobs = [
        {
            "flows": them,
            "path": LAN | {"delay_ms": ONE_WAY, "jitter_ms": 2.0, "loss": loss / 100},
            "policy": GROUP,
            "seconds": 120.0,
            "infer": name == INFERENCE,
        }
        for name, them in VARIANTS.items()
        for loss in LOSSES
    ]
    done = iter(runs(context, "partial order, gain", jobs, 5))
    found = {name: [next(done) for _ in LOSSES] for name in VARIANTS}

    def above(key: str, name: str, flow: int) -> list[float]:
        last = len(VARIANTS[name]) - 1
        return [mean(it, key, min(flow, last)) - ONE_WAY for it in found[name]]

    def tail(name: str, flow: int) -> list[float]:
        return above("p95_ms", name, flow)

    def delay(name: str, flow: int) -> list[float]:
        return above("delay_ms", name, flow)

    def column(key: str, name: str, flow: int | None = None) -> list[float]:
        return [share(it, key, flow) for it in found[name]]

    total, strict, tolerant, *_ = VARIANTS
    losses = ", ".join(map(str, LOSSES))
    rows = [
        Row(
            f"95 % of the pictures within, above the one-way delay, at losses of {losses} %",
            "ours",
            "; ".join(f"{name}: {listed(tail(name, 0), 0)}" for name in VARIANTS) + " ms",
            f"'{tolerant}' below '{total}' at each loss",
            judge(all(a < b for a, b in zip(tail(tolerant, 0), tail(total, 0), strict=True))),
        ),
        Row(
            f"mean delay of the pictures above the one-way delay, at losses of {losses} %",
            "ours",
            "; ".join(f"{name}: {listed(delay(name, 0))}" for name in VARIANTS) + " ms",
            f"'{tolerant}' below '{total}' at each loss",
            judge(all(a < b for a, b in zip(delay(tolerant, 0), delay(total, 0), strict=True))),
        ),
        Row(
            "95 % of the sounds within",
            "ours",
            "; ".join(f"{name}: {listed(tail(name, 1), 0)}" for name in VARIANTS) + " ms",
            "-",
            "open",
            "sound tolerates no loss, so a lost one takes a round trip in any order",
        ),
        Row(
            "mean delay of the sounds",
            "ours",
            "; ".join(f"{name}: {listed(delay(name, 1))}" for name in VARIANTS) + " ms",
            "-",
            "open",
        ),
        Row(
            f"pictures lost at losses of {losses} %",
            "ours",
            "; ".join(f"{name}: {listed(column('lost', name, 0))}" for name in VARIANTS) + " %",
            "none without tolerance; at most 10.5 % with 10 %",
            judge(
                max(column("lost", total, 0) + column("lost", strict, 0)) == 0
                and max(column("lost", tolerant, 0)) <= 10.5
            ),
        ),
        Row(
            "sounds lost",
            "ours",
            "; ".join(f"{name}: {listed(column('lost', name, 1))}" for name in list(VARIANTS)[1:]) + " %",
            "none where none is tolerated",
            judge(max(column("lost", strict, 1) + column("lost", tolerant, 1)) == 0),
        ),
        Row(
            "SDUs sent again",
            "ours",
            "; ".join(f"{name}: {listed(column('retransmitted', name))}" for name in VARIANTS) + " %",
            f"'{tolerant}' at most half of '{total}'",
            judge(
                all(
                    2 * a <= b
                    for a, b in zip(
                        column("retransmitted", tolerant), column("retransmitted", total), strict=True
                    )
                ),
            ),
        ),
    ]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.6), sharey=True)
    for colour, marker, name in zip(COLOURS, MARKERS, VARIANTS, strict=False):
        for axis, flow in ((left, 0), (right, 1)):
            axis.plot(LOSSES, tail(name, flow), color=colour, marker=marker, label=name)
    for axis, what in ((left, "pictures"), (right, "sound")):
        axis.set(xlabel="loss of the path (%)", title=what, ylim=(0, None))
    left.set_ylabel("95 % of the delays above 25 ms (ms)")
    left.legend(fontsize=8)
    path = style.save(figure, context.path("poc-e8"))
    return Report("partial-order-transport/e8", e8.__doc__ or "", rows, path)
