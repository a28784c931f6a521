"""INSANE: what the thesis leaves out, decided by trying it (specs/insane-simulator.md 6.1)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, log
from pathlib import Path
from statistics import mean
from typing import Any

from layercast_lab import style
from layercast_lab.campaign import Campaign
from layercast_lab.experiment import Context, Report, Row, experiment
from layercast_lab.experiment import judge as verdict_of
from layercast_lab.experiments.insane_study import PAPER, folder
from layercast_lab.insane import study
from layercast_lab.insane.judge import judge
from layercast_lab.insane.pictures import scale
from layercast_lab.insane.simulator import CONNECTS, MOST, PERCENTILES
from layercast_lab.insane.study import Values
from layercast_lab.insane.target import Range, Target, alone, value
from layercast_lab.plots import COLOURS
from layercast_lab.simulator import SCENARIOS, toml_file
from layercast_lab.style import plt

SVC, CACHED = "noqos-conv-svc", "noqos-conv-svccache"
SHORT_S, SEEDS = 600.0, 2
"""Without --full; with it the runs are those of the study, three of 4000 s."""
CLEARLY = 0.1
"""E-fold by which another choice has to be nearer."""
CHAIN = SCENARIOS / "internet" / "xunet-chain.toml"
MAH96 = SCENARIOS.resolve().parent / "crates" / "workload" / "data" / "mah96.toml"


@dataclass(frozen=True)
class Choice:
    """One way to fill a gap in the thesis."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Of the scenario."""
    workload: Mapping[str, Any] = field(default_factory=dict)
    """What is replaced in mah96, by application and key."""
    scenario: Path = study.SCENARIO


def line(policy: str, metric: str, reported: str, number: Range) -> Target:
    """A number that a choice is held against."""
    return Target("", (), f"{policy}: {metric}", (metric,), alone(policy), reported, "B", number)


def connect(part: str, policy: str, ms: float) -> Target:
    """A time to connect by telnet."""
    number = value(ms / 1e3, slack=CONNECTS * ms / 1e3)
    return line(policy, f"telnet connect {part}", f"about {ms:g} ms", number)


def times(policy: str, metric: str, reported: str, low: float, high: float) -> Target:
    """A percentile of HTTP."""
    return line(policy, metric, reported, value(low, high, slack=PERCENTILES * high))


CONNECTING = [
    connect("median", SVC, 230),
    connect("p90", SVC, 330),
    connect("median", CACHED, 71),
    connect("p90", CACHED, 195),
]
LOSSES = [
    line(SVC, "audio loss", "0.2 to 0.3 %", value(0.002, 0.003)),
    line(SVC, "audio overdue", "5 to 7 %", value(0.05, 0.07)),
    line(SVC, "video loss", "1.1 to 2.6 %", value(0.011, 0.026)),
]
PAGES = [
    times(CACHED, "http item p90", "about 1.03 s", 1.03, 1.03),
    times(CACHED, "http page p90", "3.8 to 4.0 s", 3.8, 4.0),
    times(SVC, "http page p90", "3.8 to 4.0 s", 3.8, 4.0),
]
COUNTS = [
    line(SVC, "requests", "162 000 to 174 000 in 4000 s", value(162e3, 174e3, slack=0)),
    line(SVC, "most circuits", "341", value(341 * (1 - MOST[0]), 341 * (1 + MOST[1]), slack=0)),
]


def lengths(audio_s: int, video_s: int) -> dict[str, Any]:
    """Mean lengths of conversations."""
    return {"audio": {"duration": f"exp({audio_s}) s"}, "video": {"duration": f"exp({video_s}) s"}}


DECISIONS: dict[str, tuple[str, Sequence[Choice], Sequence[Target]]] = {
    "topology": (
        "two stars or a chain",
        (Choice("two stars"), Choice("chain", scenario=CHAIN)),
        [*CONNECTING, *LOSSES, *PAGES[2:]],
    ),
    "mss": (
        "segments of 512, 1024 or 1460 bytes",
        (
            Choice("512 bytes"),
            Choice("1024 bytes", {"tcp.default.profile": "bsd44lite", "tcp.default.mss": 1024}),
            Choice(
                "1460 bytes",
                {
                    "tcp.default.profile": "bsd44lite",
                    "tcp.default.mss": 1460,
                    "tcp.default.send_buffer": 8760,
                    "tcp.default.recv_buffer": 8760,
                },
            ),
        ),
        PAGES,
    ),
    "placement": (
        "browsers: one try a time, or always a free workstation",
        (Choice("coupon"), Choice("distinct", workload={"http": {"placement": "distinct"}})),
        [*COUNTS, *PAGES[1:]],
    ),
    "lengths": (
        "lengths of audio and video conversations",
        (
            Choice("300 / 600 s"),
            Choice("180 / 180 s", workload=lengths(180, 180)),
            Choice("300 / 1800 s", workload=lengths(300, 1800)),
            Choice("900 / 900 s", workload=lengths(900, 900)),
            Choice("1800 / 1800 s", workload=lengths(1800, 1800)),
        ),
        [*LOSSES, *PAGES[2:]],
    ),
}
"""What is decided, the choices (ours first), and the reported numbers they are held against."""


def runs(context: Context, choices: Sequence[Choice], policies: Sequence[str]) -> dict[str, Values]:
    """What was found of each choice; runs that the study has are not made again."""
    found = {}
    for choice in choices:
        fields = dict(choice.fields)
        if choice.workload:
            fields["workload.use"] = str(workload(context, choice))
        seconds = context.seconds or (None if context.full else SHORT_S)
        if seconds:
            fields["run.duration"] = f"{seconds:g}s"
        campaign = Campaign(
            choice.scenario,
            {study.AXIS: list(policies)} | {name: [one] for name, one in fields.items()},
            list(context.seed_range(study.SEEDS if context.full else SEEDS)),
            collect=study.USERS | study.NETWORK,
            out=folder(context),
        )
        frame = study.complete(campaign).frame()
        found[choice.name] = study.values(frame) if len(frame) else {}
    return found


def workload(context: Context, choice: Choice) -> Path:
    """The workload of the thesis with what a choice replaces."""
    told = tomllib.loads(MAH96.read_text())
    for name, changes in choice.workload.items():
        app = told["app"][name]
        for key, new in changes.items():
            (app["dist"] if key in app["dist"] else app["arrival"])[key] = new
    path = context.path(f"workload-{choice.name.replace(' ', '').replace('/', '-')}.toml")
    path.write_text(toml_file(told))
    return path.resolve()


def distance(values: Values, targets: Sequence[Target]) -> float:
    """How many e-fold a choice is from what is reported, in the mean over the metrics."""
    apart = []
    for target in targets:
        (policy,), (metric,) = target.policies, target.metrics
        found = values.get((policy, metric), [])
        middle = mean(found) if found else 0.0
        if middle <= 0:
            return float("inf")
        low, high = target.range.low, target.range.high
        apart.append(max(0.0, log(low / middle), log(middle / high)))
    return mean(apart)


def rows(
    choices: Sequence[Choice], targets: Sequence[Target], found: Mapping[str, Values], whole: bool
) -> list[Row]:
    """Each number under each choice; only ours is judged, and only on whole runs."""
    ours = choices[0].name
    lines = []
    for target in targets:
        for choice in choices:
            row = judge(target, found[choice.name]).row()
            judged = row.verdict == "missing" or (whole and choice.name == ours)
            verdict = row.verdict if judged else "open"
            note = "" if whole else "short runs"
            lines.append(replace(row, name=f"{row.name.strip()}, {choice.name}", verdict=verdict, note=note))
    # What is counted over a run has no meaning in a shorter one.
    fit = [target for target in targets if whole or target.metrics != ("requests",)]
    apart = {choice.name: distance(found[choice.name], fit) for choice in choices}
    best = min(apart, key=apart.__getitem__)
    shown = {name: f"{number:.2f}" if isfinite(number) else "nothing lost" for name, number in apart.items()}
    told = ", ".join(f"{name}: {number}" for name, number in shown.items())
    near = isfinite(apart[ours]) and apart[ours] <= apart[best] + CLEARLY
    verdict = verdict_of(near) if whole and isfinite(apart[ours]) else "open"
    asked = f"no other nearer by more than {CLEARLY:g}"
    note = f"nearest: {best}; mean distance from what is reported, e-fold"
    return [*lines, Row(f"decision: {ours}", "not printed", told, asked, verdict, note)]


def decide(which: str) -> None:
    """Registers the experiment of a decision."""
    text, choices, targets = DECISIONS[which]
    id, title = f"insane-simulator/{which}", f"INSANE, ours: {text}"

    @experiment(id, title=title, paper=f"{PAPER}, what it leaves out")
    def run(context: Context) -> Report:
        policies = list(dict.fromkeys(name for target in targets for name in target.policies))
        found = runs(context, choices, policies)
        whole = context.full and not context.seconds
        path = draw(choices, targets, found, context.path(which))
        scenario = str(choices[-1].scenario)
        return Report(id, title, rows(choices, targets, found, whole), path, scenario=scenario)


for which in DECISIONS:
    decide(which)


def draw(
    choices: Sequence[Choice], targets: Sequence[Target], found: Mapping[str, Values], path: Path
) -> str:
    """A panel for each number: every run under each choice; grey is what is reported."""
    columns = min(len(targets), 4)
    lines = -(-len(targets) // columns)
    size = (2.6 * columns + 0.6, 0.9 + (1.6 + 0.22 * len(choices)) * lines)
    figure, axes = plt.subplots(lines, columns, figsize=size, squeeze=False, sharey=True)
    for axis, target in zip(axes.flat, targets, strict=False):
        (policy,), (metric,) = target.policies, target.metrics
        factor, shown = scale(metric, target.range.high)
        low, high = target.range.low / factor, target.range.high / factor
        axis.axvspan(low, high if high > low * 1.01 else low * 1.01, color="#d0d5dd", zorder=0)
        for place, choice in enumerate(reversed(choices)):
            one = found[choice.name].get((policy, metric), [])
            colour = COLOURS[1] if choice is choices[0] else COLOURS[0]
            look = {"color": colour, "ms": 4, "alpha": 0.8, "clip_on": False}
            axis.plot([run / factor for run in one], [place] * len(one), "o", **look)
        axis.set_title(f"{metric} ({shown})" if shown else metric, loc="left", fontsize=9)
        axis.set_xlabel(policy, fontsize=7.5)
        axis.margins(x=0.08, y=0.25)
        axis.set_xlim(left=0)
    for axis in axes.flat[len(targets) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_yticks(range(len(choices)), [choice.name for choice in reversed(choices)])
    return style.save(figure, path)
