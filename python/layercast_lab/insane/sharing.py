"""Reported about the sharing of circuits and the time they are kept (specs/insane-study.md 5.4 to 5.7)."""

from __future__ import annotations

from layercast_lab.insane.policies import APPLICATIONS, QOS, SETUPS
from layercast_lab.insane.study import USERS
from layercast_lab.insane.target import (
    Grade,
    Pair,
    Range,
    Target,
    alone,
    cache,
    change,
    mux,
    of,
    percent,
    router,
    value,
)

Metric = str | tuple[str, ...]
NO_CONTRACT = ("noqos", *(f"sp-{which}" for which in APPLICATIONS))
CONTRACT = tuple(name for name in QOS if name not in NO_CONTRACT)
BOTH = ("svc", "svccache")
OVERCOMMITTED = ("wc-isp", "wc-qos1", "nwc-isp", "nwc-qos1")
WEB = of("http")


def line(
    section: str,
    which: str,
    name: str,
    metric: Metric,
    pairs: tuple[Pair, ...],
    reported: str,
    grade: Grade,
    band: Range | None = None,
    **more,
) -> Target:
    """A line of these sections."""
    metrics = (metric,) if isinstance(metric, str) else metric
    return Target(section, tuple(which.split()), name, metrics, pairs, reported, grade, band, **more)


def moved(section: str, which: str, pairs: tuple[Pair, ...], what: str):
    """Makes lines of one comparison, named by the metric."""

    def make(metric: str, reported: str, grade: Grade, band: Range | None = None, **more) -> Target:
        chosen = more.pop("pairs", pairs)
        return line(section, which, f"{what}: {metric}", metric, chosen, reported, grade, band, **more)

    return make


sp_ftp = moved("5.4", "M2", mux("sp-ftp"), "sp-ftp app to conv")
CONVERSATIONS = [
    *(
        line(
            "5.4",
            "M1",
            f"sp-ftp app to conv: {metric}",
            metric,
            mux("sp-ftp"),
            reported,
            "S",
            sign=1,
            significant=("svccache",),
            insignificant=("svc",),
        )
        for metric, reported in (
            ("telnet connect p90", "+40 to +80 ms (14-18 %), sig. only with svccache"),
            ("telnet response p90", "+30 to +90 ms (12-30 %), sig. only with svccache"),
        )
    ),
    sp_ftp("ftp file median", "+60 to +90 ms (27-33 %)", "B", percent(27, 33)),
    sp_ftp("ftp file p90", "+110 to +120 ms (8-10 %)", "B", percent(8, 10)),
    *(
        line(
            "5.4",
            "M3",
            f"{name} app to conv: {metric}",
            metric,
            mux(name),
            "conv shorter or equal" + told,
            "S",
            sign=-1,
            significant=sure,
        )
        for name, told, sure in (("nwc-ftp", ", sig. with svccache", ("svccache",)), ("wc-ftp", "", ()))
        for metric in ("ftp file p90", "ftp session median", "ftp session p90")
    ),
    *(
        line(
            "5.4",
            "",
            f"noqos and all sp, app to conv: {metric}",
            metric,
            mux(*NO_CONTRACT),
            "conv longer",
            "S",
            sign=1,
        )
        for metric in WEB
    ),
    *(
        line(
            "5.4",
            "M5",
            f"sp-http app to conv: {metric}",
            metric,
            mux("sp-http"),
            "conv longer, sig. with svc" + (" and svccache" if metric == "http item p90" else ""),
            "S",
            sign=1,
            significant=BOTH if metric == "http item p90" else ("svc",),
        )
        for metric in WEB
    ),
    *(
        line(
            "5.4",
            "M6",
            f"nwc-http app to conv: {metric}",
            metric,
            mux("nwc-http"),
            "conv shorter, sig.",
            "S",
            sign=-1,
            significant=BOTH,
        )
        for metric in WEB
    ),
    line(
        "5.4",
        "",
        "wc and nwc, app to conv: HTTP",
        WEB,
        mux(*CONTRACT),
        "conv tends to be shorter",
        "S",
        sign=-1,
    ),
    line(
        "5.4",
        "",
        "any, app to conv: audio and video",
        of("audio", "video"),
        mux(*QOS),
        "few or no differences",
        "N",
    ),
]

fresh = moved("5.5", "M7", router("svc"), "conv-svc to router-svc")
kept = moved("5.5", "M7", router("svccache"), "conv-svccache to router-svccache")
either = moved("5.5", "M7", router(), "conv to router")
ROUTERS = [
    line(
        "5.5",
        "M7",
        "circuits asked for, router: full mesh",
        "requests",
        alone("noqos-router-svc", "noqos-router-svccache"),
        "at least 30",
        "E",
        value(30, float("inf")),
    ),
    line(
        "5.5",
        "M7",
        "circuits asked for, router",
        "requests",
        alone("noqos-router-svc", "noqos-router-svccache"),
        "30-48 a run",
        "B",
        value(30, 48),
    ),
    line(
        "5.5",
        "M7",
        "circuits asked for, conv-svc",
        "requests",
        alone("noqos-conv-svc"),
        "162 000-174 000 a run",
        "B",
        value(162e3, 174e3),
    ),
    fresh("telnet connect median", "-62 %, sig.", "B", percent(-62)),
    fresh("telnet connect p90", "-57 %, sig.", "B", percent(-57)),
    *(kept(f"telnet connect {part}", "minor, n.s.", "N") for part in ("median", "p90")),
    either("telnet response median", "-0.5 to -12 %, n.s.", "S", sign=-1, insignificant=BOTH),
    either("telnet response p90", "-14 to -15 %, n.s.", "S", sign=-1, insignificant=BOTH),
    fresh("ftp file median", "slightly smaller, sig.", "S", sign=-1, significant=("svc",)),
    kept("ftp file median", "n.s.", "N"),
    *(
        kept(metric, "+10 to +22 %, n.s.", "S", sign=1, insignificant=("svccache",))
        for metric in ("ftp file p90", "ftp session median", "ftp session p90")
    ),
    either("cells lost", "0.051 to 0.064 %, n.s. with one outlying run", "S", sign=1, pairs=router("svc")),
    fresh("http item median", "about -140 ms", "B", change(-0.140, -0.140)),
    fresh("http page median", "about -140 ms", "B", change(-0.140, -0.140)),
    *(kept(f"http {what} median", "effect absent", "N") for what in ("item", "page")),
    kept("http item p90", "+300 ms (+29 %), n.s.", "S", sign=1, insignificant=("svccache",)),
    kept("http page p90", "+500 ms (+13 %), n.s.", "S", sign=1, insignificant=("svccache",)),
    either("audio loss", "below 0.25 to above 1 % (+310 to +880 %)", "B", percent(310, 880)),
    either("audio overdue", "-20 to -32 %, n.s.", "S", sign=-1, insignificant=BOTH),
    fresh("video loss", "-19 %", "R"),
    kept("video loss", "1.1 to 2.2 %, unexplained", "R"),
]

wc_telnet = moved("5.6", "V1", cache("wc-telnet"), "wc-telnet svc to svccache")
sp_ftp_kept = moved("5.6", "V3", cache("sp-ftp"), "sp-ftp svc to svccache")
wc_ftp_conv = moved("5.6", "V4", cache("wc-ftp", mux=("conv",)), "wc-ftp-conv svc to svccache")
wc_ftp_app = moved("5.6", "V4", cache("wc-ftp", mux=("app",)), "wc-ftp-app svc to svccache")
nwc_http = moved("5.6", "V5", cache("nwc-http"), "nwc-http svc to svccache")
sp_qos1 = moved("5.6", "V6", cache("sp-qos1"), "sp-qos1 svc to svccache")
PERMANENT = (Pair("pvc", "noqos-router-pvc", "noqos-router-svccache"),)
OF_ROUTER = (
    *PERMANENT,
    Pair("pvc to svc", "noqos-router-pvc", "noqos-router-svc"),
    Pair("svc to svccache", "noqos-router-svc", "noqos-router-svccache"),
)
QUIET = tuple(name for name in QOS if name not in ("sp-qos1", "sp-av", "wc-http"))
CACHES = [
    wc_telnet("telnet connect median", "-158 to -165 ms (-69 to -70 %), sig.", "B", percent(-70, -69)),
    wc_telnet("telnet connect p90", "-134 to -142 ms (-41 to -42 %), sig.", "B", percent(-42, -41)),
    line(
        "5.6",
        "V2",
        "nwc-telnet svc to svccache: telnet response median",
        "telnet response median",
        cache("nwc-telnet"),
        "-3 to -8 %, sig. conv, n.s. app",
        "S",
        sign=-1,
        significant=("conv",),
        insignificant=("app",),
    ),
    sp_ftp_kept("ftp file median", "-34 to -61 ms (-13 to -17 %), sig.", "B", percent(-17, -13)),
    # Printed as the 90th percentile, and the median by its size (section 6).
    sp_ftp_kept("ftp session median", "-298 to -466 ms (-14 to -20 %), sig.", "B", percent(-20, -14)),
    wc_ftp_conv("ftp file median", "-0.13 s (-27 %), sig.", "B", percent(-27)),
    wc_ftp_conv("ftp session median", "-1.8 s (-10 %), sig.", "B", percent(-10)),
    wc_ftp_app("ftp file median", "-0.03 s, n.s.", "S", sign=-1, insignificant=("app",)),
    wc_ftp_app("ftp session median", "-0.87 s, n.s.", "S", sign=-1, insignificant=("app",)),
    nwc_http("http item median", "-120 to -259 ms (-16 to -36 %), sig.", "B", percent(-36, -16)),
    nwc_http("http page median", "-299 to -383 ms (-22 to -32 %), sig.", "B", percent(-32, -22)),
    sp_qos1("audio loss", "1.11-1.47 to 0.76-0.78 %, sig.", "S", sign=-1, significant=("app", "conv")),
    sp_qos1("audio overdue", "2.71-3.38 to 1.42-2.08 %, sig.", "S", sign=-1, significant=("app", "conv")),
    *(
        line(
            "5.6",
            "V6",
            f"{name} svc to svccache: {metric}",
            metric,
            cache(name),
            "similar improvement, unexplained",
            "R",
        )
        for name in ("sp-av", "wc-http")
        for metric in ("audio loss", "audio overdue")
    ),
    line("5.6", "", "other policies svc to svccache: audio", of("audio"), cache(*QUIET), "none", "N"),
    line(
        "5.6",
        "V7",
        "sp-ftp-conv svc to svccache: video loss",
        "video loss",
        cache("sp-ftp", mux=("conv",)),
        "4.64-8.11 to 4.09-4.47 %, sig. in a handful, conv only",
        "S",
        sign=-1,
    ),
    line(
        "5.6",
        "",
        "other policies svc to svccache: video loss",
        "video loss",
        cache(*(name for name in QOS if name != "sp-ftp")),
        "none",
        "N",
    ),
    line(
        "5.6",
        "V8",
        "noqos-router pvc is svccache",
        (*USERS, "requests", "cells lost"),
        PERMANENT,
        "identical in every metric",
        "E",
    ),
    line(
        "5.6",
        "V8",
        "noqos-router pvc, svc, svccache",
        tuple(USERS),
        OF_ROUTER,
        "no significant difference",
        "N",
    ),
    line(
        "5.6",
        "V8",
        "circuits asked for again after 10 s idle, noqos-router-svc",
        "requests beyond the mesh",
        alone("noqos-router-svc"),
        "at most 18 a run",
        "B",
        value(0, 18),
    ),
]


def hits(names: tuple[str, ...], which: str, reported: str, share: Range, what: str) -> Target:
    """A line about the share of conversations that find a circuit."""
    policies = alone(*(f"{name}-{which}-svccache" for name in names))
    return line("5.7", "V9", f"hit rate, {what}, {which}", "hit rate", policies, reported, "B", share)


USUAL = tuple(name for name in QOS if name not in ("noqos", *OVERCOMMITTED))
COUNTS = (
    ("requests", "circuits asked for in a run", (168_936, 4_337, 71_136, 1_424)),
    ("peak requests", "most asked for in a second by a router", (37, 25, 15, 15)),
    ("most circuits", "most circuits at a router", (341, 472, 162, 200)),
)
EFFECTIVENESS = [
    hits(("noqos",), "app", "98 %", value(0.98, slack=0.01), "noqos"),
    hits(("noqos",), "conv", "97 %", value(0.97, slack=0.01), "noqos"),
    hits(USUAL, "app", "95 %", value(0.95, slack=0.02), "with QoS"),
    hits(USUAL, "conv", "about 92 %", value(0.92, slack=0.02), "with QoS"),
    hits(OVERCOMMITTED, "app", "65-69 %", value(0.65, 0.69, slack=0.06), "wc, nwc of isp and qos1"),
    hits(OVERCOMMITTED, "conv", "56-59 %", value(0.56, 0.59, slack=0.06), "wc, nwc of isp and qos1"),
    *(
        line(
            "5.7",
            "V9",
            f"{what}, noqos-{setup}",
            metric,
            alone(f"noqos-{setup}"),
            f"{count:,}".replace(",", " "),
            "B",
            value(count),
        )
        for metric, what, counts in COUNTS
        for setup, count in zip(("conv-svc", "conv-svccache", "app-svc", "app-svccache"), counts, strict=True)
    ),
    *(
        line(
            "5.7",
            "V9",
            f"most circuits at a router, noqos-{m} svc to svccache",
            "most circuits",
            cache("noqos", mux=(m,)),
            f"+{more} %",
            "B",
            percent(more),
        )
        for m, more in (("conv", 38), ("app", 24))
    ),
    *(
        line(
            "5.7",
            "V9",
            f"circuits asked for, noqos-{m} svc to svccache",
            "requests",
            cache("noqos", mux=(m,)),
            f"-{less} %",
            "B",
            Range("percent", -less, -less, 1),
        )
        for m, less in (("conv", 97.4), ("app", 98.0))
    ),
    line(
        "5.7",
        "V9",
        "requests that failed for lack of circuits",
        "failures",
        alone(*(f"noqos-{s}" for s in SETUPS)),
        "none",
        "E",
        value(0, 0),
    ),
]

TARGETS = CONVERSATIONS + ROUTERS + CACHES + EFFECTIVENESS
