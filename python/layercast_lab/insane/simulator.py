"""Reported results of the simulator (specs/insane-simulator.md 5), with the tolerances of 6.3."""

from __future__ import annotations

from dataclasses import replace

from layercast_lab.insane import sharing
from layercast_lab.insane.policies import SETUPS
from layercast_lab.insane.target import Grade, Range, Target, alone, value

NOQOS = alone(*(f"noqos-{setup}" for setup in SETUPS))
COUNTS, CONNECTS, PERCENTILES = 0.05, 0.15, 0.35
"""Tolerances of the end of section 6.3, for what is reported without an interval."""
MOST = 0.35, 0.10
"""How far maxima and peaks may be below, and above."""
POINTS, OF_HITS = 8, 0.01
"""Of reductions between router and conv, in per cent; of shares of hits."""


def known(name: str) -> Target:
    """A line of the study."""
    (found,) = (target for target in sharing.TARGETS if target.name == name)
    return found


def within(name: str, below: float, above: float | None = None) -> Target:
    """A number of the study, with another tolerance."""
    found = known(name)
    number = found.range.low
    low, high = number * (1 - below), number * (1 + (below if above is None else above))
    return replace(found, range=value(low, high, slack=0))


def interval(name: str, off: float) -> Target:
    """An interval of the study, with another tolerance at its ends."""
    found = known(name)
    return replace(found, range=value(found.range.low * (1 - off), found.range.high * (1 + off), slack=0))


def points(name: str, off: float) -> Target:
    """A difference of the study, which may be off by a number of points."""
    found = known(name)
    return replace(found, range=replace(found.range, slack=off))


def told(name: str, metric: str, reported: str, number: Range, grade: Grade = "B", pairs=NOQOS) -> Target:
    """A number that the study does not judge."""
    return Target("5", (), name, (metric,), pairs, reported, grade, number)


def about(name: str, metric: str, reported: str, number: float, off: float, pairs=NOQOS) -> Target:
    """A number without an interval."""
    return told(name, metric, reported, value(number, slack=off * number), pairs=pairs)


def wc_telnet(vc: str):
    """Where telnet connections are distinguished."""
    return alone(*(f"wc-telnet-{mux}-{vc}" for mux in ("app", "conv")))


PER_SETUP = ("conv-svc", "conv-svccache", "app-svc", "app-svccache")
TARGETS: list[Target] = [
    known("circuits asked for, router: full mesh"),
    *(interval(f"circuits asked for, {which}", COUNTS) for which in ("router", "conv-svc")),
    *(within(f"circuits asked for in a run, noqos-{setup}", COUNTS) for setup in PER_SETUP),
    *(within(f"most asked for in a second by a router, noqos-{setup}", *MOST) for setup in PER_SETUP),
    *(within(f"most circuits at a router, noqos-{setup}", *MOST) for setup in PER_SETUP),
    *(known(f"most circuits at a router, noqos-{mux} svc to svccache") for mux in ("conv", "app")),
    *(known(f"hit rate, noqos, {mux}") for mux in ("app", "conv")),
    replace(known("hit rate, with QoS, app"), range=value(0.95, slack=OF_HITS)),
    replace(known("hit rate, with QoS, conv"), range=value(0.92, slack=OF_HITS)),
    *(known(f"hit rate, wc, nwc of isp and qos1, {mux}") for mux in ("app", "conv")),
    known("noqos-router pvc is svccache"),
    known("noqos-router pvc, svc, svccache"),
    known("conv to router: cells lost"),
    *(points(f"conv-svc to router-svc: telnet connect {part}", POINTS) for part in ("median", "p90")),
    *(known(f"wc-telnet svc to svccache: telnet connect {part}") for part in ("median", "p90")),
    *(
        about(
            f"telnet connect {part}, wc-telnet {vc}",
            f"telnet connect {part}",
            f"about {ms} ms",
            ms / 1e3,
            CONNECTS,
            wc_telnet(vc),
        )
        for part, numbers in (("median", (230, 71)), ("p90", (330, 195)))
        for vc, ms in zip(("svc", "svccache"), numbers, strict=True)
    ),
    # Nothing is suggested for answers: as for connects.
    *(
        about(
            f"telnet response {part}, noqos", f"telnet response {part}", f"about {ms} ms", ms / 1e3, CONNECTS
        )
        for part, ms in (("median", 80), ("p90", 175))
    ),
    told("http page p90, noqos", "http page p90", "3.8 to 4.0 s", value(3.8, 4.0)),
    *(known(f"conv-svc to router-svc: http {what} median") for what in ("item", "page")),
    *(known(f"conv-svccache to router-svccache: http {what} p90") for what in ("item", "page")),
    *(
        about(
            f"http {what} p90, noqos-conv-svccache",
            f"http {what} p90",
            f"about {seconds} s",
            seconds,
            PERCENTILES,
            alone("noqos-conv-svccache"),
        )
        for what, seconds in (("item", 1.03), ("page", 3.8))
    ),
    about("ftp session p90, noqos", "ftp session p90", "about 30 s", 30, PERCENTILES),
    known("conv to router: audio loss"),
    # Of losses the order and the factor count, not the number.
    told("audio loss, noqos", "audio loss", "below 0.25 %", value(0, 0.0025), "R"),
    told("audio overdue, noqos", "audio overdue", "5 to 7 %", value(0.05, 0.07), "R"),
    told("video loss, noqos", "video loss", "1 to 2.6 %", value(0.01, 0.026), "R"),
]
