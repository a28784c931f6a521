"""VBR in an ATM LAN on sockets: the kernel's TCP across the same policed circuit, emulated."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from layercast_lab import kernel, style, vbr
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.kernel import Transfer, Transferred
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import command, toml_file
from layercast_lab.sockets import run_together
from layercast_lab.style import plt
from layercast_lab.vbr import Setup

TITLE = "The kernel's TCP over a policed VBR circuit"
MTU = 9_188
BURSTS = (1_000, 2_000, 4_000)
SECONDS = 20
TO = "10.0.0.2"
OF_1996 = {
    "tcp_congestion_control": "reno",
    "tcp_sack": "0",
    "tcp_recovery": "0",
    "tcp_early_retrans": "0",
    "tcp_timestamps": "0",
    "tcp_no_metrics_save": "1",
}
"""Reno without SACK, RACK and tail loss probes."""
TODAY = {"tcp_no_metrics_save": "1"}
"""As the kernel comes: with SACK, RACK and tail loss probes, most often CUBIC."""
CASES: dict[str, tuple[dict[str, str], int, dict[str, Any]]] = {
    "Reno, RTO of 1 s": (OF_1996, 1_000, {}),
    "Reno, RTO of 200 ms": (OF_1996, 200, {}),
    "as it is today": (TODAY, 200, {}),
    "Reno, RTO of 1 s, shaped": (OF_1996, 1_000, {"shape": "cells"}),
}

Found = dict[tuple[str, int], list[Transferred]]


def lan(setup: Setup) -> dict[str, Any]:
    """The LAN of the simulated experiments with real hosts; their links send at the pace of the paper's."""
    base = vbr.lan(setup)
    pace = {
        "rate": f"{round(setup.mtu * 8e6 / vbr.send_us(setup.mtu))} bit/s",
        "delay": f"{vbr.RTT_US // 4}us",
    }
    terms = base["flow"][0]["contract"]
    return base | {
        "run": {"duration": "1h"},
        "host": [{"name": name, "address": f"10.0.0.{n}"} for n, name in enumerate("ab", 1)],
        "router": [{"name": f"at-{name}", "address": f"10.0.0.{n}"} for n, name in enumerate("ab", 3)],
        "link": [link | pace for link in base["link"]],
        "flow": [],
        "contract": [{"from": "a", "to": "b", "terms": terms}],
        "attach": [{"node": name, "kind": "tun", "device": "lc0", "namespace": name} for name in "ab"],
    }


def job(case: str, burst: int, seconds: float) -> Transfer:
    """One of the cases with a burst."""
    sysctl, rto_min_ms, contract = CASES[case]
    text = toml_file(lan(Setup(MTU, burst, contract=contract)))
    return Transfer(text, TO, seconds, vbr.WINDOW, sysctl, rto_min_ms)


@experiment("vbr-atm-lan/v16-sockets", title=TITLE, paper="specs/vbr-atm-lan.md V16 (ours)")
def v16(context: Context) -> Report:
    """What the kernel of this machine gets of a circuit of 10 Mbit/s, policed and shaped."""
    if reason := kernel.missing():
        row = Row("network namespaces with TUN devices", "-", "cannot be had", "-", "missing", reason)
        return Report("vbr-atm-lan/v16-sockets", TITLE, [row])
    seconds = context.seconds or SECONDS
    runs = [(case, burst) for case in CASES for burst in BURSTS for _ in context.seed_range(1)]
    binary = str(command())
    done = run_together(context, "transfers", lambda it: kernel.transfer(job(*it, seconds), binary), runs)
    found: Found = {}
    for point, one in zip(runs, done, strict=True):
        found.setdefault(point, []).append(one)
    path = context.path("v16.toml")
    path.write_text(toml_file(lan(Setup(MTU, BURSTS[0]))))
    return Report("vbr-atm-lan/v16-sockets", TITLE, judged(found), draw(found, context), scenario=str(path))


def mbps(found: Found, case: str) -> np.ndarray:
    """Median by burst."""
    return np.array([median(one.bps for one in found[case, burst]) / 1e6 for burst in BURSTS])


def discarded(one: Transferred) -> int:
    """Cells that the policer discarded."""
    upc = one.summary["atm"]["contracts"][0]["upc"]
    return upc["discarded_peak"] + upc["discarded_sustained"]


def judged(found: Found) -> list[Row]:
    """The policed ones beside a burst in each wait, the shaped beside what the circuit can carry."""
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    slow, fast, today, shaped = (mbps(found, case) for case in CASES)
    text = {case: " ".join(f"{value:.2f}" for value in mbps(found, case)) for case in CASES}
    one, quick, now, last = (text[case] for case in CASES)
    most = vbr.most_bps(MTU) / 1e6
    burst = np.array([vbr.burst_len(MTU, burst) * (MTU - vbr.HEADERS) * 8e-6 for burst in BURSTS])
    lost = sum(discarded(run) for burst in BURSTS for run in found["Reno, RTO of 1 s, shaped", burst])
    bound = " ".join(f"{value:.2f}" for value in burst)
    return [
        Row(
            f"Reno, RTO of 1 s, MBS {BURSTS[0]} to {BURSTS[-1]}",
            "below 1 Mbit/s, about a tenth of what was bought (V1)",
            f"{one} Mbit/s",
            f"at most twice a burst a second, {bound}",
            judge(bool(np.all(slow <= 2 * burst))),
        ),
        Row(
            "Reno, RTO of 200 ms",
            "more, and still little (V3: twice)",
            f"{quick} Mbit/s, {(fast / slow).min():.1f} to {(fast / slow).max():.1f} times",
            "1.5 to 5 times",
            judge(bool(np.all((fast >= 1.5 * slow) & (fast <= 5 * slow)))),
        ),
        Row(
            f"as it is today: {control}, SACK, RACK-TLP",
            "no gain in a LAN (V7, of Vegas and SACK)",
            f"{now} Mbit/s",
            "as with Reno and 200 ms, within 50 %",
            judge(bool(np.all(np.abs(today / fast - 1) <= 0.5))),
        ),
        Row(
            "Reno, RTO of 1 s, shaped",
            f"about 90 % of {most:.2f} Mbit/s (V8)",
            f"{last} Mbit/s; {lost} cells discarded",
            "88 to 104 %, no cell discarded",
            judge(bool(np.all((shaped >= 0.88 * most) & (shaped <= 1.04 * most))) and lost == 0),
        ),
    ]


def draw(found: Found, context: Context) -> str:
    """Throughput against the burst."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for number, case in enumerate(CASES):
        look = {"color": COLOURS[number], "marker": MARKERS[number], "ms": 5, "lw": 1.3}
        axis.plot(BURSTS, mbps(found, case), label=case, **look)
    axis.axhline(vbr.most_bps(MTU) / 1e6, color="0.4", ls=":", lw=1.2, label="most that the contract allows")
    axis.set(xlabel="longest burst (cells)", ylabel="throughput (Mbit/s)", ylim=(0, None), xticks=BURSTS)
    axis.legend()
    return style.save(figure, context.path("v16"))
