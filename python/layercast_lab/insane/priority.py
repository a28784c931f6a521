"""Reported of static priority (specs/insane-study.md 5.1): change from noqos to sp."""

from __future__ import annotations

from layercast_lab.insane.policies import SETUPS
from layercast_lab.insane.target import (
    CACHED,
    CONV,
    FRESH,
    Grade,
    Range,
    Target,
    but,
    change,
    of,
    percent,
    qos,
    value,
)


def line(
    which: str, new: str, metric: str | tuple[str, ...], reported: str, grade: Grade, *, setups=SETUPS, **more
) -> Target:
    """A line of section 5.1."""
    metrics = (metric,) if isinstance(metric, str) else metric
    name = f"{new} {metric if isinstance(metric, str) else more.pop('name')}"
    return Target("5.1", (which,), name, metrics, qos(new, setups=setups), reported, grade, **more)


def less(which: str, new: str, metric: str, reported: str, band: Range | None = None, **more) -> Target:
    """A line about something that becomes less: by how much, if there is a `band`, else the direction."""
    return line(which, new, metric, reported, "B" if band else "S", range=band, sign=-1, **more)


def more(which: str, new: str, metric: str, reported: str, band: Range | None = None, **others) -> Target:
    """A line about something that becomes more."""
    return line(which, new, metric, reported, "B" if band else "S", range=band, sign=1, **others)


TELNET, FTP, HTTP = of("telnet"), of("ftp"), of("http")

TARGETS = [
    less(
        "Q1",
        "sp-telnet",
        "telnet connect median",
        "-20 ms (-10 %), sig. in both svccache setups",
        significant=CACHED,
    ),
    less(
        "Q1",
        "sp-telnet",
        "telnet connect p90",
        "-100 ms (-29 %), sig. in app-svc only",
        significant=("app-svc",),
        insignificant=("app-svccache", *CONV),
    ),
    less("Q2", "sp-telnet", "telnet response median", "about -16 ms, -20 %, sig.", percent(-20)),
    less("Q2", "sp-telnet", "telnet response p90", "about -70 ms, -36 to -46 %, sig.", percent(-46, -36)),
    line("Q2", "sp-telnet", but("telnet"), "no noticeable effect", "N", name="on other applications"),
    line("Q3", "sp-ftp", "ftp file median", "minuscule", "N"),
    less("Q3", "sp-ftp", "ftp file p90", "about -50 %", percent(-50)),
    less("Q4", "sp-ftp", "ftp session median", "about -30 %", percent(-30)),
    less("Q4", "sp-ftp", "ftp session p90", "about -50 %, tens of seconds", percent(-50)),
    more("Q5", "sp-ftp", "telnet response p90", "+32 to +78 %", percent(32, 78)),
    # Of the given levels of confidence, the weaker that three runs can have.
    more(
        "Q5",
        "sp-ftp",
        "http page median",
        "+1 to +29 %; sig. at 80 % in conv-svc only",
        significant=("conv-svc",),
        insignificant=("app-svc", *CACHED),
        confidence="0.8",
    ),
    more("Q5", "sp-ftp", "audio loss", "rises to 2.0-2.8 %, almost tenfold", value(0.020, 0.028)),
    more("Q5", "sp-ftp", "video loss", "4-8 %, almost three times noqos", value(0.04, 0.08)),
    less("Q6", "sp-http", "http item p90", "-12 to -20 %", percent(-20, -12)),
    less("Q6", "sp-http", "http item median", "-30 to -35 %", percent(-35, -30)),
    less("Q6", "sp-http", "http page median", "about -20 %", percent(-20)),
    less("Q6", "sp-http", "http page p90", "-37 to -45 %", percent(-45, -37)),
    line("Q6", "sp-http", but("http"), "none, even at 80 %", "N", name="on other applications"),
    less(
        "Q7",
        "sp-audio",
        "audio loss",
        "-44 to -82 %, to just below 0.1 %; sig. in app setups",
        percent(-82, -44),
    ),
    less("Q7", "sp-audio", "audio overdue", "-43 to -75 %, 5-7 % to 2-3 %", percent(-75, -43)),
    less("Q8", "sp-video", "video loss", "-90 to -95 %, 1-2 % to about 0.1 %", percent(-95, -90)),
    less("Q9", "sp-isp", "telnet response p90", "-29 to -39 %, sig. in 3 of 4", percent(-39, -29)),
    less("Q9", "sp-isp", "http page p90", "-35 to -44 %", percent(-44, -35)),
    line("Q9", "sp-isp", but("telnet", "http"), "no significant impact", "N", name="on other applications"),
    less("Q9", "sp-av", "audio loss", "sizeable reduction, like sp-audio"),
    less("Q9", "sp-av", "audio overdue", "sizeable reduction, like sp-audio"),
    less("Q9", "sp-av", "video loss", "sizeable reduction, like sp-video"),
    line("Q9", "sp-av", but("audio", "video"), "slightly or not affected", "N", name="on best effort"),
    more(
        "Q9",
        "sp-qos1",
        "telnet connect p90",
        "2 to 4 times longer, sig. in svc setups",
        setups=FRESH,
        significant=FRESH,
    ),
    less("Q9", "sp-qos1", "telnet response p90", "-50 to -90 ms on average", change(-0.090, -0.050)),
    line(
        "Q9",
        "sp-qos1",
        (*FTP, *HTTP),
        "little; -20 to -25 % in conv-svccache only",
        "S",
        name="FTP and HTTP times",
        setups=("conv-svccache",),
        sign=-1,
    ),
    *(
        less(
            "Q9",
            "sp-qos1",
            metric,
            "large reduction in conv-svccache, sig.",
            setups=("conv-svccache",),
            significant=("conv-svccache",),
        )
        for metric in ("audio loss", "audio overdue", "video loss")
    ),
]
