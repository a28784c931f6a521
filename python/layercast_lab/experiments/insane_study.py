"""The study of INSANE: every comparison of chapters 4 to 6 of Mah's thesis, and all of them together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from layercast_lab.campaign import Campaign
from layercast_lab.experiment import VERDICT_TEXT, Context, Report, Row, experiment
from layercast_lab.insane import guarantees, pictures, priority, sharing, study
from layercast_lab.insane.comparisons import comparisons
from layercast_lab.insane.conclusions import CONCLUSIONS
from layercast_lab.insane.judge import judge
from layercast_lab.insane.pictures import Bars, by_mux, by_qos, by_vc
from layercast_lab.insane.policies import every
from layercast_lab.insane.study import USERS, Values
from layercast_lab.insane.target import Target, of
from layercast_lab.insane.text import markdown

if TYPE_CHECKING:
    import polars as pl

PAPER = "B. A. Mah, Quality of Service and ATM in IP Internetworks, 1996"
TARGETS: list[Target] = [*priority.TARGETS, *guarantees.TARGETS, *sharing.TARGETS]
FTP, AUDIO = of("ftp"), of("audio")
OTHERS = ("telnet response p90", "http page p90", "audio loss", "video loss")

EXPERIMENTS: dict[str, tuple[str, str, Bars]] = {
    "Q1": ("telnet first: connecting", "figure 4-2", by_qos(of("telnet connect"), "noqos", "sp-telnet")),
    "Q2": ("telnet first: answers", "figure 4-3", by_qos(of("telnet response"), "noqos", "sp-telnet")),
    "Q3": ("FTP first: files", "figure 4-4", by_qos(of("ftp file"), "noqos", "sp-ftp")),
    "Q4": ("FTP first: sessions", "figure 4-5", by_qos(of("ftp session"), "noqos", "sp-ftp")),
    "Q5": ("FTP first: the others", "figure 4-6", by_qos(("http page median", *OTHERS), "noqos", "sp-ftp")),
    "Q6": ("HTTP first", "section 4.4", by_qos(of("http"), "noqos", "sp-http")),
    "Q7": ("audio first", "figure 4-7", by_qos(AUDIO, "noqos", "sp-audio")),
    "Q8": ("video first", "section 4.4", by_qos(of("video"), "noqos", "sp-video")),
    "Q9": (
        "several first",
        "section 4.4",
        by_qos(("telnet connect p90", "ftp session p90", *OTHERS), "noqos", "sp-isp", "sp-av", "sp-qos1"),
    ),
    "Q10": ("FTP policed", "figure 4-8", by_qos(FTP, "noqos", "wc-ftp", log=True)),
    "Q11": (
        "telnet, HTTP and video policed",
        "section 4.5",
        by_qos(OTHERS, "noqos", "wc-telnet", "wc-http", "wc-video"),
    ),
    "Q12": ("audio policed", "figure 4-9", by_qos(AUDIO, "noqos", "wc-audio")),
    "Q13": (
        "several policed",
        "section 4.5",
        by_qos(("ftp session p90", *OTHERS), "noqos", "wc-isp", "wc-av", "wc-qos1"),
    ),
    "Q14": (
        "FTP policed, without and with jitter control",
        "figure 4-10",
        by_qos((*of("ftp session"), "ftp file p90", "cells lost with a level"), "noqos", "nwc-ftp", "wc-ftp"),
    ),
    "Q15": ("audio with jitter control", "figure 4-11", by_qos(AUDIO, "noqos", "nwc-audio")),
    "Q16": (
        "others with jitter control",
        "section 4.6",
        by_qos(
            ("http page p90", "ftp session p90", "video loss", "refused"),
            *("noqos", "nwc-telnet", "nwc-http", "nwc-video", "nwc-isp", "nwc-qos1"),
        ),
    ),
    "M1": ("shared by an application: telnet", "figure 5-4", by_mux(of("telnet"), "sp-ftp")),
    "M2": ("shared by an application: FTP first", "figures 5-5, 5-6", by_mux(FTP, "sp-ftp")),
    "M3": ("shared by an application: FTP policed", "figures 5-7, 5-8", by_mux(FTP, "nwc-ftp", "wc-ftp")),
    "M5": ("shared by an application: HTTP first", "figures 5-10, 5-11", by_mux(of("http"), "sp-http")),
    "M6": ("shared by an application: HTTP policed", "figures 5-12, 5-13", by_mux(of("http"), "nwc-http")),
    "M7": (
        "shared by a router",
        "figures 5-14 to 5-17",
        by_mux(
            ("telnet connect median", "telnet response p90", "http item median", *AUDIO, "video loss"),
            "noqos",
            mux=("conv", "router"),
        ),
    ),
    "V1": ("kept circuits: telnet connects", "figure 6-1", by_vc(of("telnet connect"), "wc-telnet")),
    "V2": ("kept circuits: telnet answers", "figure 6-2", by_vc(of("telnet response"), "nwc-telnet")),
    "V3": ("kept circuits: FTP first", "figures 6-3, 6-4", by_vc(FTP, "sp-ftp")),
    "V4": ("kept circuits: FTP policed", "figure 6-5", by_vc(FTP, "wc-ftp")),
    "V5": ("kept circuits: HTTP policed", "figures 6-6, 6-7", by_vc(of("http"), "nwc-http")),
    "V6": ("kept circuits: audio", "figure 6-8", by_vc(AUDIO, "sp-qos1")),
    "V7": ("kept circuits: video", "figure 6-9", by_vc(of("video"), "sp-ftp")),
    "V8": (
        "permanent, switched and kept circuits of routers",
        "section 6.5",
        by_vc(
            ("telnet connect median", "telnet response p90", "http page p90", "audio loss"),
            "noqos",
            mux=("router",),
            pvc=True,
        ),
    ),
    "V9": (
        "what is kept, and how often it is of use",
        "section 6.6",
        by_vc(("requests", "peak requests", "most circuits", "hit rate"), "noqos", "sp-qos1", "nwc-qos1"),
    ),
}
"""Of each experiment of section 4 what it shows, where the thesis does, and the picture."""


def runs(context: Context, policies: Iterable[str], make: bool = True) -> pl.DataFrame:
    """What the campaign found of these policies; what has no result yet is run first, if `make`."""
    return made(context, policies, make).frame()


def made(context: Context, policies: Iterable[str], make: bool = True) -> Campaign:
    """The campaign of these policies; what has no result yet is run first, if `make`.

    Results are those of `layercast-lab campaign insane-1996`, in the folder `campaigns` beside this one.
    """
    seeds = list(context.seed_range(study.SEEDS))
    # The order of all, so that addresses come in the order of the whole campaign.
    wanted = set(policies)
    chosen = [name for name in every() if name in wanted]
    campaign = study.campaign(chosen, seeds, fields=fields_of(context), out=folder(context))
    return study.complete(campaign) if make else campaign


def fields_of(context: Context) -> dict[str, str]:
    """What is replaced in the scenario."""
    return {"run.duration": f"{context.seconds:g}s"} if context.seconds else {}


def folder(context: Context) -> Path:
    """Where the results of the campaign are."""
    return context.out.parent / "campaigns" / study.NAME


def one(which: str) -> None:
    """Registers an experiment of section 4."""
    title, source, picture = EXPERIMENTS[which]
    id = f"insane-study/{which.lower()}"
    targets = [target for target in TARGETS if which in target.experiments]

    @experiment(id, title=f"INSANE {which}: {title}", paper=f"{PAPER}, {source}")
    def run(context: Context) -> Report:
        wanted = {name for target in targets for name in target.policies} | set(picture.policies)
        values = study.values(runs(context, wanted))
        path = pictures.bars(picture, values, context.path(which.lower()))
        return Report(
            id, f"INSANE {which}: {title}", rows(targets, values), path, scenario=str(study.SCENARIO)
        )


def rows(targets: Sequence[Target], values: Values) -> list[Row]:
    """The lines of a report."""
    return [judge(target, values).row() for target in targets]


for which in EXPERIMENTS:
    one(which)

SUMMARY = "INSANE: ten conclusions, and every reported number"


@experiment("insane-study/summary", title=SUMMARY, paper=f"{PAPER}, chapters 4 to 6")
def summary(context: Context) -> Report:
    """Everything of what has been run; with --full, the rest of the campaign is run first."""
    frame = runs(context, every(), make=context.full)
    values = study.values(frame)
    there = {policy for policy, metric in values if metric in USERS}
    lines = rows(TARGETS, values)
    counts = {verdict: sum(line.verdict == verdict for line in lines) for verdict in VERDICT_TEXT}
    print(
        f"{len(there)} of {len(every())} policies have runs; {len(lines)} targets: "
        + ", ".join(f"{count} {VERDICT_TEXT[verdict]}" for verdict, count in counts.items()),
        file=sys.stderr,
    )
    table = comparisons(frame)
    table.write_csv(context.path("comparisons.csv"))
    sure = table.filter("significant") if len(table) else table
    if len(sure):
        told = f"{len(table)} comparisons along one axis: {len(sure)} significant at 90 %"
        print(f"{told}, of which {100 * sure['q'].max():.0f} % may be chance", file=sys.stderr)
    path = pictures.heat_map(values, context.path("summary"))
    conclusions = [conclusion.row(values) for conclusion in CONCLUSIONS]
    context.path("summary.md").write_text(markdown(conclusions, lines))
    scenario = str(study.SCENARIO)
    return Report("insane-study/summary", SUMMARY, conclusions + lines, path, scenario=scenario)
