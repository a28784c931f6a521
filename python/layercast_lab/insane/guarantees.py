"""Reported of guaranteed circuits (specs/insane-study.md 5.2, 5.3): change from noqos to wc and to nwc."""

from __future__ import annotations

from layercast_lab.insane.policies import SETUPS
from layercast_lab.insane.target import (
    APP,
    CACHED,
    CONV,
    FRESH,
    Grade,
    Range,
    Target,
    alone,
    but,
    of,
    percent,
    qos,
    value,
)

ALL_BUT_APP_SVC = ("app-svccache", *CONV)
ONLY_APP_SVC = {"significant": ("app-svc",), "insignificant": ALL_BUT_APP_SVC}
NOWHERE = {"insignificant": SETUPS}


def line(
    which: str, new: str, metric: str | tuple[str, ...], reported: str, grade: Grade, *, setups=SETUPS, **more
) -> Target:
    """A line of section 5.2 or 5.3."""
    section = "5.3" if new.startswith("nwc") else "5.2"
    metrics = (metric,) if isinstance(metric, str) else metric
    base = more.pop("base", "noqos")
    beside = "" if base == "noqos" else f" beside {base}"
    name = f"{new}{beside} {metric if isinstance(metric, str) else more.pop('name')}"
    pairs = qos(new, base, setups)
    return Target(section, tuple(which.split()), name, metrics, pairs, reported, grade, **more)


def by(which: str, new: str, metric: str, reported: str, band: Range, **more) -> Target:
    """A line with numbers."""
    return line(which, new, metric, reported, "B", range=band, **more)


def less(which: str, new: str, metric: str, reported: str, **more) -> Target:
    """A line about something that becomes less."""
    return line(which, new, metric, reported, "S", sign=-1, **more)


def none(which: str, new: str, metrics: tuple[str, ...], name: str, reported: str = "none") -> Target:
    """A line about no effect."""
    return line(which, new, metrics, reported, "N", name=name)


WORK_CONSERVING = [
    none("Q11", "wc-telnet", of("telnet"), "on telnet"),
    by("Q10 Q14", "wc-ftp", "ftp file p90", "up to 13 times longer, sig.", percent(1200)),
    by("Q10", "wc-ftp", "ftp file median", "+15 to +25 %", percent(15, 25)),
    by("Q10 Q14", "wc-ftp", "ftp session median", "5-7 times longer", percent(400, 600)),
    by("Q10 Q14", "wc-ftp", "ftp session p90", "11-14 times longer", percent(1000, 1300)),
    none("Q10", "wc-ftp", but("ftp"), "on other applications", "none found"),
    by("Q11", "wc-http", "http item median", "+12 to +55 %", percent(12, 55)),
    by("Q11", "wc-http", "http item p90", "+36 to +434 %", percent(36, 434)),
    by("Q11", "wc-http", "http page median", "+27 to +212 %", percent(27, 212)),
    by("Q11", "wc-http", "http page p90", "+68 to +1494 %", percent(68, 1494)),
    none("Q12", "wc-audio", of("audio loss"), "audio loss"),
    less("Q12", "wc-audio", "audio overdue", "-30 to -64 %, sig. in app-svc only", **ONLY_APP_SVC),
    less(
        "Q11",
        "wc-video",
        "video loss",
        "-54 to -87 %, 1-2 % to well under 1 %; sig. in svc setups even at 60 %",
        significant=FRESH,
        insignificant=CACHED,
        confidence="0.6",
    ),
    by("Q13", "wc-isp", "http page p90", "+44 to +147 %, several seconds", percent(44, 147)),
    less(
        "Q13",
        "wc-isp",
        "telnet response p90",
        "-8 to -20 %; sig. in app-svc only (at 60 % in all but conv-svccache)",
        **ONLY_APP_SVC,
    ),
    none("Q13", "wc-av", of("audio", "video"), "on audio and video"),
    less(
        "Q13",
        "wc-qos1",
        "telnet connect p90",
        "-10 to -60 ms (-5 to -15 %), sig. in app-svc only",
        **ONLY_APP_SVC,
    ),
    less(
        "Q13",
        "wc-qos1",
        "telnet response p90",
        "-40 to -60 ms (-13 to -25 %), sig. in app-svc only",
        **ONLY_APP_SVC,
    ),
    by("Q13", "wc-qos1", "ftp session p90", "+21 to +53 s (+71 to +171 %)", percent(71, 171)),
    by(
        "Q13",
        "wc-qos1",
        "http page p90",
        "+0.7 to +3.4 s (+16 to +90 %), sig. with app only",
        percent(16, 90),
    ),
]

NOT_WORK_CONSERVING = [
    none("Q16", "nwc-telnet", of("telnet connect"), "telnet connect", "mostly slight change"),
    by("Q14", "nwc-ftp", "ftp file p90", "+680 to +742 %", percent(680, 742)),
    by("Q14", "nwc-ftp", "ftp session p90", "+645 to +814 %", percent(645, 814)),
    *(
        less(
            "Q14",
            "nwc-ftp",
            metric,
            "less bad than wc-ftp in all 4 setups",
            base="wc-ftp",
            every=True,
        )
        for metric in ("ftp file p90", "ftp session median", "ftp session p90")
    ),
    *(
        line("Q14", "nwc-ftp", metric, "worse than noqos in all 4 setups", "S", sign=1, every=True)
        for metric in ("ftp file p90", "ftp session median", "ftp session p90")
    ),
    less(
        "Q14",
        "nwc-ftp",
        "cells lost with a level",
        "overflow on bulk circuits under wc-ftp, none seen under nwc-ftp",
        base="wc-ftp",
        every=True,
    ),
    by("Q16", "nwc-http", "http page p90", "3.8-4.0 to 5.8-11.4 s (+54 to +185 %)", percent(53.6, 185)),
    less("Q16", "nwc-http", "http page p90", "less bad than wc-http", base="wc-http"),
    less("Q15", "nwc-audio", "audio loss", "0.12-0.22 % (-12 to -52 %), n.s.", **NOWHERE),
    less(
        "Q15", "nwc-audio", "audio overdue", "1.7-4.0 % (-33 to -53 %), sig. in app-svc only", **ONLY_APP_SVC
    ),
    less(
        "Q16", "nwc-video", "video loss", "1.1-2.6 to 0.39-0.74 % (-31 to -77 %), generally n.s.", **NOWHERE
    ),
    none("Q16", "nwc-isp", of("telnet"), "on telnet"),
    by("Q16", "nwc-isp", "http page p90", "5.2-7.4 s (+37 to +97 %)", percent(37, 97)),
    less("Q16", "nwc-isp", "http page p90", "better than nwc-http", base="nwc-http"),
    *(
        Target(
            "5.3",
            ("Q16",),
            f"{name} guaranteed set-ups refused",
            ("refused",),
            alone(*(f"{name}-{setup}" for setup in SETUPS)),
            reported,
            "B",
            band,
        )
        for name, reported, band in (
            ("nwc-isp", "25-37 %", value(0.25, 0.37)),
            ("nwc-http", "7-32 %", value(0.07, 0.32)),
        )
    ),
    less(
        "Q16",
        "nwc-av",
        "audio overdue",
        "-18 to -55 % in all setups, sig. in app-svc only",
        every=True,
        **ONLY_APP_SVC,
    ),
    less("Q16", "nwc-av", "audio loss", "-32 to -47 % with app, n.s.", setups=APP, insignificant=APP),
    none("Q16", "nwc-av", of("video"), "on video", "few significant effects"),
    less("Q16", "nwc-qos1", "telnet connect p90", "-3 to -14 %, n.s.", **NOWHERE),
    less("Q16", "nwc-qos1", "telnet response p90", "-3 to -14 %, n.s.", **NOWHERE),
    by("Q16", "nwc-qos1", "ftp session p90", "+52 to +109 %", percent(52, 109)),
    less(
        "Q16",
        "nwc-qos1",
        "ftp session p90",
        "much less than nwc-ftp, as the refused fall back",
        base="nwc-ftp",
    ),
    less("Q16", "nwc-qos1", "http page p90", "analogous to FTP: less than nwc-http", base="nwc-http"),
    none("Q16", "nwc-qos1", of("audio", "video"), "on audio and video"),
]

TARGETS = WORK_CONSERVING + NOT_WORK_CONSERVING
