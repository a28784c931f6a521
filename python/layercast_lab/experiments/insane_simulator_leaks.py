"""INSANE S7: when traffic has stopped, circuits and reservations go (specs/insane-simulator.md 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.grid import load
from layercast_lab.insane.line import line, sites
from layercast_lab.insane.study import AXIS, SCENARIO
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import run_all, simulate, toml_file
from layercast_lab.style import plt

TITLE = "INSANE S7: no circuit and no reservation stays"
TALKERS = 20
TALK_S, SILENCE_S, WAVES = 20.0, 400.0, 2
"""All sources talk, then none does, twice."""
IDLE_S = 310.0
"""After the last packet: 10 s bound, 300 s kept."""
SLACK_S = 3.0
"""For the starts of the voices, and for setting up and giving back."""
WAVE_S = TALK_S + SILENCE_S
STEPS_S = (3, 20, 31, 34, 120, 300, 331, 335, 400)
"""After the start of a wave; a run ends there and tells how many circuits there are."""
AUDIO = tuple(
    f"{qos}-conv-{vc}" for qos in ("noqos", "sp-audio", "wc-audio", "nwc-audio") for vc in ("svc", "svccache")
)
ALL = ("noqos-conv-svc", "sp-qos1-app-svccache", "wc-qos1-conv-svccache", "nwc-qos1-conv-svc")
ALL_END_S = 4000.0


def voices() -> dict[str, Any]:
    """All hosts of one side talk to the other side, at the same times."""
    return {"audio": audio(TALK_S, SILENCE_S, WAVES * TALK_S + (WAVES - 1) * SILENCE_S, 0.1)}


def audio(talk_s: float, pause_s: float, duration_s: float, apart_s: float) -> dict[str, Any]:
    """One voice from each workstation."""
    return app("audio", apart_s, talkspurt=talk_s, pause=pause_s, duration=duration_s) | {
        "to": "workstation",
        "payload": 320,
        "period_ms": 40,
        "overdue_ms": 150,
    }


def app(model: str, apart_s: float, **seconds: float) -> dict[str, Any]:
    """One conversation for each workstation, then no more."""
    return {
        "model": model,
        "arrival": {"process": "periodic", "mean_s": apart_s, "placement": "distinct"},
        "from": "workstation",
        "dist": {name: f"const({value:g}) s" for name, value in seconds.items()},
    }


def everything() -> dict[str, Any]:
    """Six applications, one conversation of each on every workstation."""
    files = {"nitems": "const(3) files", "itemsize": "exp(20000) B", "ctlsize": "const(20) B"}
    mail = {"nitems": "const(1) files", "itemsize": "exp(2000) B"}
    pixels = {"size_cr": "video.size_cr", "size_bg": "video.size_bg"}
    runs = {"packets_cr": "geometric(0.1984,37) packets", "packets_bg": "lomax(1.9,3.5823,462) packets"}
    keys = {"interarrival": "telnet.interarrival", "replysize": "telnet.replysize"}
    return {
        "audio": audio(5, 3, 100, 5),
        "ftp": app("ftp", 5) | {"to": "server", "choose": "zipf", "dist": files},
        "smtp": app("push", 5) | {"to": "server", "choose": "zipf", "port": 25, "dist": mail},
        "telnet": app("telnet", 5) | {"to": "workstation", "dist": keys | {"duration": "exp(100) s"}},
        "video": app("video", 5)
        | {
            "to": "workstation",
            "rate_bps": 128000,
            "frames_per_s": 8,
            "overdue_ms": 150,
            "dist": pixels | runs | {"duration": "const(100) s"},
        },
    }


@dataclass(frozen=True)
class Seen:
    """What is there at one time of a run."""

    at: float
    circuits: int
    guaranteed: int
    """Requests for more than best effort, until then."""
    refused: int
    """Those of them that became best effort, until then."""
    running: int
    """Conversations that have begun and not ended."""


def seen(summary: dict[str, Any], at: float) -> Seen:
    """From the report of a run until then."""
    adapters = summary["atm"]["adapters"]
    count = [sum(one[name] for one in adapters) for name in ("circuits", "elevated", "fallbacks")]
    running = sum(app["started"] - app["ended"] for app in summary["applications"])
    return Seen(at, *count, running)


def waves(context: Context, policy: str) -> list[Seen]:
    """Circuits at many times: a shorter run is the beginning of a longer one."""
    workload = context.path("s7-voices.toml")
    section = {"use": workload.name, "site": sites(TALKERS + 1)}
    scenario = line("s7", WAVES * WAVE_S, hosts=TALKERS + 1, policy=policy, workload=section)
    file = context.path(f"s7-{policy}.toml")
    times = [wave * WAVE_S + step for wave in range(WAVES) for step in STEPS_S]
    return [seen(simulate(scenario, file, "--duration", f"{at:g}s"), at) for at in times]


def long_after(context: Context, policy: str) -> tuple[str, Seen]:
    """Six sites with all applications, long after the last has ended."""
    scenario, _ = load(SCENARIO)
    part, _, field = AXIS.partition(".")
    scenario[part][field] = policy
    scenario["topology"]["workstations"] = 5
    scenario["workload"] = {"use": context.path("s7-everything.toml").name}
    scenario["run"]["duration"] = f"{ALL_END_S:g}s"
    summary = simulate(scenario, context.path(f"s7-all-{policy}.toml"))
    requests = sum(adapter["requests"] for adapter in summary["atm"]["adapters"])
    conversations = sum(app["started"] for app in summary["applications"])
    return f"{conversations} conversations, {requests} calls", seen(summary, ALL_END_S)


@experiment("insane-simulator/s7", title=TITLE, paper="specs/insane-simulator.md 4: a test of the simulator")
def s7(context: Context) -> Report:
    """Voices that all talk and all fall silent, twice; and all applications until they have ended."""
    for name, workload in (("voices", voices()), ("everything", everything())):
        context.path(f"s7-{name}.toml").write_text(toml_file({"app": workload}))
    found = dict(zip(AUDIO, run_all(context, "S7, voices", lambda p: waves(context, p), AUDIO), strict=True))
    after = run_all(context, "S7, everything", lambda policy: long_after(context, policy), ALL)
    rows = [row(policy, snapshots) for policy, snapshots in found.items()]
    rows += [ended(policy, *one) for policy, one in zip(ALL, after, strict=True)]
    scenario = str(context.path(f"s7-{AUDIO[-1]}.toml"))
    return Report("insane-simulator/s7", TITLE, rows, draw(found, context.path("s7")), scenario=scenario)


def row(policy: str, snapshots: Sequence[Seen]) -> Row:
    """Circuits go, and each wave finds as much room as the first."""
    quiet_s = TALK_S + SLACK_S + (IDLE_S if policy.endswith("svccache") else 10)
    left = max(one.circuits for one in snapshots if one.at % WAVE_S >= quiet_s)
    ends = [one for one in snapshots if one.at % WAVE_S == STEPS_S[-1]]
    first = ends[0]
    even = all(
        (one.guaranteed, one.refused) == (number * first.guaranteed, number * first.refused)
        for number, one in enumerate(ends, 1)
    )
    begun = first.guaranteed
    counts = ", ".join(str(one.refused) for one in ends)
    told = f"at most {max(one.circuits for one in snapshots)}; {left} left"
    if begun:
        told += f"; of {begun} guaranteed a wave refused until the end of each: {counts}"
    return Row(
        f"{policy}: voices",
        f"none {quiet_s - TALK_S - SLACK_S:g} s after the last packet; room as before",
        told,
        f"0 left; every wave of {WAVES} as the first",
        judge(left == 0 and even and max(one.circuits for one in snapshots) >= TALKERS),
    )


def ended(policy: str, told: str, last: Seen) -> Row:
    """Nothing is left of all applications."""
    return Row(
        f"{policy}: all applications",
        f"none {IDLE_S:g} s after the last packet",
        f"{told}; at {last.at:g} s {last.running} still there, {last.circuits} circuits left",
        "0 conversations, 0 circuits",
        judge(last.running == 0 and last.circuits == 0),
    )


def draw(found: dict[str, list[Seen]], path: Path) -> str:
    """Circuits over time."""
    figure, axes = plt.subplots(2, 1, figsize=(9.2, 4.6), sharex=True, sharey=True)
    for axis, vc in zip(axes, ("svc", "svccache"), strict=True):
        chosen = {policy: seen for policy, seen in found.items() if policy.endswith(f"-{vc}")}
        for number, (policy, snapshots) in enumerate(chosen.items()):
            at = [one.at for one in snapshots]
            look = {"color": COLOURS[number], "ms": 3, "lw": 1.2 - 0.2 * number, "marker": "os^v"[number]}
            axis.plot(at, [one.circuits for one in snapshots], label=policy, **look)
        for wave in range(WAVES):
            axis.axvspan(wave * WAVE_S, wave * WAVE_S + TALK_S, color="#d0d5dd", zorder=0)
        axis.set(ylabel="circuits")
        axis.legend(loc=(0.1, 0.2), fontsize=8)
    axes[1].set(xlabel="time (s); grey: all talk")
    return style.save(figure, path)
