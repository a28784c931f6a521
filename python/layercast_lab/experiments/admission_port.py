"""Admission control in the port of a switch: layered streams come and go, and declare more than they send."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import layercast
from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

STREAMS = 120
"""All that there are; each is wanted again and again, together four times what is admitted by declaration."""
WANTED, IDLE = 135.0, 30.0
"""Mean seconds for which a stream is wanted, as in the paper, and until it is wanted again: exponential."""
TARGETS = (0.1, 1.0, 5.0)
"""Late bits that are promised, percent."""
ENDS = ("camera", "wall")
"""Hosts that each stream has for itself."""
HOUR, LONG = 3_600.0, 14_400.0
"""Half is to warm up, the other half counts. The long run (`--full`) has 250 ends of windows, the hour 65."""


@dataclass(frozen=True)
class Stay:
    """A time for which a receiver wants a stream; one that is refused is lost, as a call of the paper."""

    stream: int
    join: float
    leave: float

    def within(self, start: float, end: float) -> float:
        """How much of it is between these times, seconds."""
        return max(0.0, min(self.leave, end) - max(self.join, start))


def stays(seconds: float, seed: int) -> list[Stay]:
    """When which stream is wanted, the same for all ways to admit."""
    drawn = random.Random(seed)
    found = []
    for stream in range(STREAMS):
        at = 1 + drawn.expovariate(1 / IDLE)
        while at < seconds:
            leave = at + 1 + drawn.expovariate(1 / WANTED)
            found.append(Stay(stream, at, leave))
            at = leave + 1 + drawn.expovariate(1 / IDLE)
    return found


def line(a: str, b: str, rate: str) -> dict[str, Any]:
    """A link of the network."""
    return {"a": a, "b": b, "rate": rate, "queue": "100ms", "delay": "1 ms"}


def network(seconds: float, target: float | None, wanted: Sequence[Stay]) -> dict[str, Any]:
    """Streams over one link of 7 Mbit/s; without a target they are admitted by declaration.

    A base layer alone has two frames a second, the I pictures.
    """
    return {
        "name": "streams",
        "duration": f"{seconds:g}s",
        "carriage": "datagrams",
        "admission": "declared" if target is None else "measured",
        "promise": {"late": (target or 0.1) / 100, "within": "16ms", "period": f"{seconds / 2:g}s"},
        "node": [
            {"name": "root", "kind": "switch"},
            {"name": "leaf", "kind": "switch"},
            *({"name": f"{end}{stream}", "kind": "host"} for end in ENDS for stream in range(STREAMS)),
        ],
        "link": [
            line("root", "leaf", "7 Mbit/s"),
            *(line(f"camera{stream}", "root", "100 Mbit/s") for stream in range(STREAMS)),
            *(line("leaf", f"wall{stream}", "100 Mbit/s") for stream in range(STREAMS)),
        ],
        "flow": [
            {
                "name": f"s{stream}",
                "source": f"camera{stream}",
                "clip": {"synthetic": "canyon"},
                "frame_rate": 2,
                "top": 0,
                "headroom": 0.25,
                "random_phase": True,
                "delay_max": "2s",
            }
            for stream in range(STREAMS)
        ],
        "receiver": [
            {"name": f"r{number}", "node": f"wall{stay.stream}", "flow": f"s{stay.stream}", "level": 0}
            | {"join": f"{stay.join:.6f}s"}
            | ({"leave": f"{stay.leave:.6f}s"} if stay.leave < seconds else {})
            for number, stay in enumerate(wanted)
        ],
    }


@dataclass(frozen=True)
class Seen:
    """What a run had."""

    had: list[Stay]
    """From admission on."""
    link: dict[str, Any]
    """How the link that all share admits."""

    def streams(self, seconds: float) -> float:
        """Average number of streams in the second half of the run."""
        return sum(stay.within(seconds / 2, seconds) for stay in self.had) / (seconds / 2)

    @property
    def late(self) -> float:
        """Late or lost bits since the last period began, percent."""
        return self.link["late_ppm"] / 1e4


def run(seconds: float, target: float | None, wanted: Sequence[Stay]) -> Seen:
    """Has the streams asked for, and admitted by declaration or for a target of late bits."""
    summary = layercast.run(network(seconds, target, wanted), seed=1).summary
    had = []
    for receiver in (receiver for flow in summary["flows"] for receiver in flow["receivers"]):
        if receiver["levels"]:
            stay = wanted[int(receiver["name"][1:])]
            had.append(Stay(stay.stream, receiver["levels"][0][0], stay.leave))
    (link,) = (queue for queue in summary["queues"] if (queue["node"], queue["port"]) == ("root", "leaf"))
    return Seen(had, link.get("admission", {}))


@experiment(
    "admission-control/port",
    title="Streams over one port of a switch, declared and measured",
    paper="ours (specs/admission-control.md 2.10)",
)
def port(context: Context) -> Report:
    """Streams come and go, and declare a quarter more than they send: how many play, and what is late."""
    seconds = context.seconds or (LONG if context.full else HOUR)
    wanted = stays(seconds, 1)
    found = run_all(
        context,
        "admission, streams over a port",
        lambda target: run(seconds, target, wanted),
        [None, *TARGETS],
    )
    declared, measured = found[0], dict(zip(TARGETS, found[1:], strict=True))
    # A port that admits by declaration measures nothing: what it admitted is offered to one that does.
    (again,) = run_all(
        context,
        "admission, what was declared is measured",
        lambda had: run(seconds, 50.0, had),
        [declared.had],
    )
    base = declared.streams(seconds)
    asked = sum(stay.within(seconds / 2, seconds) for stay in wanted) / (seconds / 2)
    by_declaration = f"by declaration {base:.1f} of {asked:.1f} that are wanted, {again.late:.4f} % late"
    rows = []
    for target, seen in measured.items():
        link, more = seen.link, 100 * (seen.streams(seconds) / base - 1)
        rows += [
            Row(
                f"target {target} %: streams on average",
                by_declaration,
                f"{seen.streams(seconds):.1f}: {more:.0f} % more",
                "at least 15 % more",
                judge(more >= 15),
            ),
            Row(
                f"target {target} %: late bits",
                f"{target} %",
                f"{seen.late:.4f} %; window {link['window_ms'] / 1e3:.1f} s,"
                f" trigger {link['trigger'] / 1e6:.2f} Mbit/s at the end; {link['refused']} refusals",
                "within a factor of 1.5",
                judge(target / 1.5 <= seen.late <= 1.5 * target),
                "promise kept" if link["kept"] else "promise broken",
            ),
        ]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.6))
    left.axhline(base, color="0.6", lw=1, ls=":", label="declared")
    left.plot(
        TARGETS,
        [seen.streams(seconds) for seen in measured.values()],
        "o-",
        color=COLOURS[0],
        label="measured",
    )
    left.set(xscale="log", xlabel="target (% late)", ylabel="streams on average", ylim=(0, None))
    left.legend(fontsize=8.5)
    right.plot(TARGETS, TARGETS, color="0.6", lw=1, ls=":")
    right.plot(TARGETS, [seen.late for seen in measured.values()], "o-", color=COLOURS[0])
    right.set(xscale="log", yscale="log", xlabel="target (% late)", ylabel="late bits (%)")
    path = style.save(figure, context.path("mbac-port"))
    return Report("admission-control/port", port.__doc__ or "", rows, path)
