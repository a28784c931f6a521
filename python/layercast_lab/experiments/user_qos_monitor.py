"""User-to-user QoS: the monitor alone, with events of which the truth is known by construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.monitor import (
    OUT,
    PROBE_END,
    PROBE_START,
    RTT,
    SECOND,
    ask,
    last,
    opened,
    packets,
    regular,
    report,
    transfer,
    watch,
)
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.style import plt

SOURCE = "M. Zitterbart, User-to-User QoS: Management and Monitoring, PfHSN 1996"
WINDOWS_MS = (100, 1_000, 10_000)
OCTETS = 125
"""A packet of 1000 bits."""
STEPS_KBPS = (100, 800, 200, 4)
STEP_S = 20
RHO = (0.1, 0.128, 0.15, 0.3, 0.5, 0.7, 0.8, 0.9)
ZONES = {1.0: "green", 0.96: "green", 0.95: "yellow", 0.90: "yellow", 0.85: "yellow", 0.84: "red"}
"""Zone by the share of the contract that is measured (specs/user-to-user-qos.md 5)."""
MAPPING: dict[str, tuple[tuple[int, int, str, int, int, bool], tuple[int, int, int, int, int | None]]] = {
    "PCM 20 ms, 32 kbit/s ADPCM, cell": ((50, 160, "0.5", 48, 53, True), (2, 64_000, 32_000, 42_400, None)),
    "PCM 20 ms, cell": ((50, 160, "1", 48, 53, True), (4, 64_000, 64_000, 84_800, None)),
    "PCM 20 ms, UDP/IPv4": ((50, 160, "1", 160, 188, False), (1, 64_000, 64_000, 75_200, 75_200)),
    "720x576x16 bit, 2:1, cell": (
        (30, 829_440, "2:1", 48, 53, True),
        (8_640, 199_065_600, 99_532_800, 109_900_800, None),
    ),
    "MPEG 1.86 Mbit/s, cell": (
        (30, 7_750, "1", 48, 53, True),
        (162, 1_860_000, 1_860_000, 2_060_640, None),
    ),
    "MPEG 1.86 Mbit/s, IP 1500": (
        (30, 7_750, "1", 1_472, 1_500, False),
        (6, 1_860_000, 1_860_000, 2_160_000, 1_900_320),
    ),
}


def of(title: str) -> dict[str, str]:
    """The title of an experiment with its source."""
    return {"title": title, "paper": SOURCE}


def unchanged(same: bool) -> Row:
    """The row on whether monitors alter a simulation."""
    text = "the same" if same else "another outcome"
    return Row("simulation without the monitors", "the same (2.6)", text, "exact", judge(same))


U3 = "Live throughput under steps of load"


@experiment("user-to-user-qos/u3", **of(U3))
def u3(context: Context) -> Report:
    """The three windows beside the true rate."""
    times = [
        t
        for n, kbps in enumerate(STEPS_KBPS)
        for t in regular(n * STEP_S, (n + 1) * STEP_S, 1e3 * kbps, OCTETS)
    ]
    at = np.arange(0.05, len(STEPS_KBPS) * STEP_S, 0.05)
    found = ask("events", events=[opened(), *packets(times, OCTETS)], at_ns=[round(t * SECOND) for t in at])
    rates = np.array(
        [
            [
                np.nan if w["throughput_bps"] is None else w["throughput_bps"]
                for w in it["directions"][OUT]["windows"]
            ]
            for it in found["reports"]
        ]
    )
    true = 1e3 * np.repeat(STEPS_KBPS, round(STEP_S / 0.05))[: len(at)]
    rows = []
    for place, window in enumerate(WINDOWS_MS):
        grain = 8e3 * OCTETS / window
        since = at % STEP_S
        steady = (since >= window / 1e3 + 0.3) & (at > STEP_S)
        off = float(np.nanmax(np.abs(rates[steady, place] - true[steady])))
        lags = [lag(at, rates[:, place], n, grain) for n in range(1, len(STEPS_KBPS))]
        rows += [
            Row(
                f"{window} ms: steady load",
                "the rate (by definition)",
                f"{off:.0f} bit/s off at most",
                f"one packet in the window, {grain:.0f} bit/s",
                judge(off <= grain * 1.001),
            ),
            Row(
                f"{window} ms: lag of a step",
                "the window (by definition)",
                f"{1e3 * max(lags):.0f} ms at most",
                f"{window} ms and a packet of 250 ms",
                judge(max(lags) <= window / 1e3 + 0.25 + 1e-9),
            ),
        ]
    low = rates[at > 3 * STEP_S + 0.2, 0]
    values = sorted({round(value) for value in low})
    rows.append(
        Row(
            "100 ms at 4 kbit/s: values",
            "meant for high load (P)",
            " and ".join(f"{value}" for value in values) + " bit/s",
            "multiples of one packet in the window, 10 000 bit/s, marked as of low confidence",
            judge(
                all(value % 10_000 == 0 for value in values)
                and all(
                    it["directions"][OUT]["windows"][0]["low_confidence"] for it in found["reports"][-100:]
                )
            ),
        )
    )
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    axis.plot(at, true / 1e3, color="0.4", ls=":", label="true rate")
    for place, window in enumerate(WINDOWS_MS):
        axis.plot(at, rates[:, place] / 1e3, color=COLOURS[place], lw=1.1, label=f"{window} ms")
    axis.set(xlabel="time (s)", ylabel="throughput (kbit/s)", ylim=(0, None))
    axis.legend()
    return Report("user-to-user-qos/u3", U3, rows, style.save(figure, context.path("u3")))


def lag(at: np.ndarray, rates: np.ndarray, step: int, grain: float) -> float:
    """Time from a step until the rate is within a packet of the new one."""
    begin = step * STEP_S
    after = at > begin
    near = np.abs(rates[after] - 1e3 * STEPS_KBPS[step]) <= grain * 1.001
    return float(at[after][np.argmax(near)] - begin)


U6 = "Zones of a contract, and how soon a signal comes"


def zone(share: float, *, literal: bool = False) -> str:
    """The zone of a throughput."""
    events = [opened(), *packets(regular(0, 3, 1e6 * share, OCTETS), OCTETS)]
    found = ask(
        "events",
        events=events,
        contract={"throughput": {"agreed": 1e6}},
        config={"literal": literal},
        at_ns=[2 * SECOND + 1],
    )
    return found["reports"][0]["zone"]


def delay_zone(share: float) -> str:
    """The zone of a delay."""
    rtt = round(2 * 0.1 * share * SECOND)
    events: list[dict[str, int]] = [opened()]
    for n in range(10):
        probe = {"info_type": RTT, "a": n}
        start = n * SECOND // 4
        events += [
            probe | {"action": PROBE_START, "t_ns": start},
            probe | {"action": PROBE_END, "t_ns": start + rtt},
        ]
    events.sort(key=lambda it: it.get("t_ns", 0))
    contract = {"delay": {"agreed": 0.1}}
    found = ask("events", events=events, contract=contract, at_ns=[2 * SECOND + 1])
    return found["reports"][0]["zone"]


def latency(step_s: float, rule: tuple[int, int]) -> float:
    """Time from a fall to half of the contract until the signal of red."""
    times = regular(0, step_s, 1e6, OCTETS) + regular(step_s, step_s + 6, 5e5, OCTETS)
    events = [opened(), *packets(times, OCTETS)]
    contract = {"throughput": {"agreed": 1e6}}
    found = ask("events", events=events, contract=contract, config={"rule": rule}, at_ns=[])
    red = next(it for it in found["signals"] if it["zone_to"] == "red")
    return red["t_ns"] / SECOND - step_s


@experiment("user-to-user-qos/u6", **of(U6))
def u6(context: Context) -> Report:
    """Shares of the contract, and a step to half of it."""
    found = {share: zone(share) for share in ZONES}
    delays = {1.0: "green", 1.04: "green", 1.05: "yellow", 1.10: "yellow", 1.15: "yellow", 1.16: "red"}
    measured = {share: delay_zone(share) for share in delays}
    both = (zone(1.2), zone(1.2, literal=True))
    soon = [latency(3 + part / 10, (1, 1)) for part in range(10)]
    held = [latency(3 + part / 10, (2, 3)) for part in range(10)]

    def words(zones: dict[float, str]) -> str:
        return ", ".join(f"{share:g} {zone}" for share, zone in zones.items())

    rows = [
        Row("Q5: throughput by its share", words(ZONES), words(found), "exact", judge(found == ZONES)),
        Row("Q5: delay by its share", words(delays), words(measured), "exact", judge(measured == delays)),
        Row(
            "1.2 of the contract: adverse, literal",
            "green, red (2.4)",
            ", ".join(both),
            "exact",
            judge(both == ("green", "red")),
        ),
        Row(
            "latency of red, 1 of 1",
            "one window, two if the step is late in a window (by definition)",
            f"{min(soon):.1f} to {max(soon):.1f} s",
            "at most 2 s",
            judge(max(soon) <= 2),
        ),
        Row(
            "latency of red, 2 of 3",
            "one window more (by definition)",
            f"{min(held):.1f} to {max(held):.1f} s",
            "at most 3 s",
            judge(max(held) <= 3),
        ),
    ]
    return Report("user-to-user-qos/u6", U6, rows)


U7 = "Missing bits from reports of spans"
LOSSES = (0.0, 0.01, 0.02, 0.05, 0.10)
TRANSFER = 4_000_000
DATA = 1_000


def missing(context: Context, loss: float, seed: int) -> dict[str, Any]:
    """A transfer of XTP in which packets are lost, each with this probability."""
    config = {"max_data": DATA, "fast_nak": True, "rate": "4 Mbit/s", "least_wait": "200ms"}
    return watch(transfer(TRANSFER, loss=loss, back={"loss": 0.0}, xtp=config, seconds=120), seed)


@experiment("user-to-user-qos/u7", **of(U7))
def u7(context: Context) -> Report:
    """The vector, and transfers with random loss."""
    spans = [(5_000, 7_000), (8_000, 10_000)]
    events = [opened(), *report(10_000, 4_000, spans, 1), *report(10_000, 4_000, spans, 2)]
    one, two = ask("events", events=events, at_ns=[1, 2])["reports"]
    bits = [it["directions"][OUT]["error_bits"] for it in (one, two)]
    rows = [
        Row(
            "U7: the vector, then the same report again",
            "16 000 bits, 0 more",
            f"{bits[0]} bits, {bits[1] - bits[0]} more",
            "exact",
            judge(bits == [16_000, 16_000]),
        )
    ]
    same = True
    for loss in LOSSES:
        runs = [missing(context, loss, seed) for seed in context.seed_range(5)]
        same &= all(run["same"] for run in runs)
        outs = [last(run, "left", OUT) for run in runs]
        estimated = sum(it["error_bits"] for it in outs)
        literal = sum(it["error_bits_literal"] for it in outs)
        lost = sum(queue["lost"] for run in runs for queue in run["summary"]["queues"])
        again = sum(run["summary"]["flows"][0]["retransmitted"] for run in runs)
        # An octet that is lost twice counts once: of 1/(1-p) losses of a packet, the first.
        distinct = 8 * DATA * lost * (1 - loss)
        off = abs(estimated / distinct - 1) if distinct else float(estimated > 0)
        rows.append(
            Row(
                f"loss {100 * loss:g} %: bits missing",
                f"{distinct:.0f}: {lost} packets lost, less those lost again (C)",
                f"{estimated}; by the formula of the paper {literal}",
                "3 %; without loss 0",
                judge(off <= 0.03),
                f"{again} packets were sent again",
            )
        )
    rows.append(unchanged(same))
    return Report("user-to-user-qos/u7", U7, rows)


U8 = "Rates at three levels"


@experiment("user-to-user-qos/u8", **of(U8))
def u8(context: Context) -> Report:
    """The vectors of the mapping; whole numbers."""
    names = ("per_second", "user", "factor", "payload", "size", "padded")
    streams = [dict(zip(names, given, strict=True)) for given, _ in MAPPING.values()]
    rows = []
    ordered = {}
    for (name, (given, expected)), it in zip(MAPPING.items(), ask("map", streams=streams), strict=True):
        keys = ("units", "user_bps", "application_bps", "network_bps", "exact_bps")
        found = tuple(it[key] for key in keys)
        ordered[name] = (given[2] == "1", it["ordered"])
        text = "nu {}, R(u) {}, R(a) {}, R(n) {}, exact {}"
        rows.append(Row(name, text.format(*expected), text.format(*found), "exact", judge(found == expected)))
    holds = all(is_ordered for whole, is_ordered in ordered.values() if whole)
    others = sum(is_ordered for whole, is_ordered in ordered.values() if not whole)
    rows.append(
        Row(
            "Q8: R(n) >= R(a) >= R(u)",
            "usually",
            f"for alpha of 1 {'always' if holds else 'not always'}; of the two that compress {others}",
            "always for alpha of at least 1",
            judge(holds),
        )
    )
    return Report("user-to-user-qos/u8", U8, rows)


U11 = "Signals of the request line for an event"


@experiment("user-to-user-qos/u11", **of(U11))
def u11(context: Context) -> Report:
    """Ring, line and reader in virtual time, 0.5 ms for an event."""
    cases = [("poisson", "literal"), ("regular", "literal"), ("poisson", "race_free")]
    theory = [lambda rho: (1 - rho) * np.exp(rho), lambda rho: 1.0, lambda rho: 1 - rho]
    seeds = context.seed_range(5)
    rows, curves = [], []
    for (arrivals, rule), model in zip(cases, theory, strict=True):
        settings = [
            {
                "arrivals": arrivals,
                "rule": rule,
                "rho": rho,
                "service_ns": 500_000,
                "events": 400_000,
                "seed": seed,
            }
            for rho in RHO
            for seed in seeds
        ]
        found = ask("line", settings=settings)
        shares = np.array([it["signals"] / it["events"] for it in found]).reshape(len(RHO), -1).mean(axis=1)
        wanted = np.array([model(rho) for rho in RHO])
        curves.append(shares)
        text = {"literal": "rule of the paper", "race_free": "race-free"}[rule]
        off = float(np.abs(shares - wanted).max())
        rows.append(
            Row(
                f"{text}, {arrivals} events, load {RHO[0]} to {RHO[-1]}",
                " ".join(f"{value:.2f}" for value in wanted) + " (C)",
                " ".join(f"{value:.2f}" for value in shares),
                "0.01",
                judge(off <= 0.01),
            )
        )
    near = float(np.interp(0.128, RHO, curves[0]))
    rows.append(
        Row(
            "Q3: load 0.128, that of the evaluation",
            "every event causes a change of context",
            f"{100 * near:.1f} % of the events",
            "at least 98 %",
            judge(near >= 0.98),
        )
    )
    figure, axis = plt.subplots(figsize=(6.2, 3.6))
    for number, ((arrivals, rule), shares) in enumerate(zip(cases, curves, strict=True)):
        look = {"color": COLOURS[number], "marker": MARKERS[number], "ms": 5, "lw": 1.2}
        axis.plot(RHO, shares, label=f"{rule.replace('_', '-')}, {arrivals}", **look)
    axis.set(xlabel="load of the monitor", ylabel="signals for an event", ylim=(0, 1.05))
    axis.legend()
    return Report("user-to-user-qos/u11", U11, rows, style.save(figure, context.path("u11")))
