"""The ten most important conclusions of the study (specs/insane-study.md 5.9), each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from layercast_lab.experiment import VERDICT_TEXT, Row
from layercast_lab.insane import guarantees, priority, sharing
from layercast_lab.insane.judge import Judged, judge, measured
from layercast_lab.insane.policies import APPLICATIONS, QOS, SETUPS
from layercast_lab.insane.study import USERS, Values
from layercast_lab.insane.target import APP, FRESH, Pair, Target, but, cache, mux, of, qos, router


@dataclass(frozen=True)
class Conclusion:
    """A statement, and the comparisons that have to hold for it."""

    text: str
    targets: tuple[Target, ...]

    def row(self, values: Values) -> Row:
        """The weakest of its comparisons and their reported magnitudes, what was found, and what fails."""
        every = [it for target in self.targets for it in (target, *magnitudes(target))]
        judged = [judge(target, values) for target in dict.fromkeys(every)]
        verdict = max((one.verdict for one in judged), key=list(VERDICT_TEXT).index)
        count = sum(one.verdict == "reproduced" for one in judged)
        found = [f"{one.target.name} {measured(one)}" for one in judged if one.verdict != "missing"]
        return Row(
            self.text,
            "; ".join(target.name for target in self.targets),
            f"{count} of {len(judged)} hold" + (f": {'; '.join(found)}" if found else ""),
            "direction, significance and reported magnitudes of all",
            verdict,
            "; ".join(failing(one) for one in judged if one.verdict != "reproduced"),
        )


def magnitudes(target: Target) -> list[Target]:
    """The numbers that the thesis prints of what a comparison compares."""
    pairs = {(pair.base, pair.new) for pair in target.pairs}
    return [
        it
        for it in (*priority.TARGETS, *guarantees.TARGETS, *sharing.TARGETS)
        if target.grade == "S"
        and it.grade == "B"
        and it.range.scale == "percent"
        and target.metrics[0] in it.metrics
        and {(pair.base, pair.new) for pair in it.pairs} <= pairs
    ]


def failing(one: Judged) -> str:
    """What is with a comparison that does not hold."""
    note = f", {one.note}" if one.note else ""
    return f"{one.target.name}: {VERDICT_TEXT[one.verdict]}{note}"


def shown(
    name: str, sign: int, metric: str, pairs: tuple[Pair, ...], significant: tuple[str, ...] = (), **more
) -> Target:
    """A comparison that has a direction."""
    return Target("5.9", (), name, (metric,), pairs, "", "S", None, sign, significant, **more)


def absent(name: str, metrics: tuple[str, ...], pairs: tuple[Pair, ...]) -> Target:
    """A comparison without effect."""
    return Target("5.9", (), name, metrics, pairs, "", "N")


def labels(pairs: tuple[Pair, ...]) -> tuple[str, ...]:
    """Of all pairs, to be significant in each."""
    return tuple(pair.label for pair in pairs)


KEPT, KEPT_NOQOS = cache(*QOS), cache("noqos")
BOTH = ("svc", "svccache")
UNPOLICED = mux("noqos", *(f"sp-{which}" for which in APPLICATIONS))
ROUTERS = (
    Pair("pvc to svc", "noqos-router-pvc", "noqos-router-svc"),
    Pair("pvc to svccache", "noqos-router-pvc", "noqos-router-svccache"),
)
IDENTICAL = Target("5.9", (), "pvc is svccache", tuple(USERS), ROUTERS[1:], "", "E")

CONCLUSIONS = [
    Conclusion(
        "1 Idle circuits are worth keeping",
        (
            shown("fewer set-ups, every policy", -1, "requests", KEPT, labels(KEPT), every=True),
            shown("telnet connects faster, every policy", -1, "telnet connect median", KEPT, labels(KEPT)),
            shown("HTTP items faster", -1, "http item median", KEPT_NOQOS, labels(KEPT_NOQOS)),
            shown("more circuits held", 1, "most circuits", KEPT_NOQOS, labels(KEPT_NOQOS)),
        ),
    ),
    Conclusion(
        "2 Static priority helps interactive and multimedia traffic",
        (
            shown("telnet answers faster", -1, "telnet response p90", qos("sp-telnet"), SETUPS),
            shown("less audio lost", -1, "audio loss", qos("sp-audio"), APP),
            shown("less video lost", -1, "video loss", qos("sp-video"), (*APP, "conv-svccache")),
        ),
    ),
    Conclusion(
        "3 Static priority is not for bulk, and signalling needs the highest",
        (
            shown("FTP first: telnet slower", 1, "telnet response p90", qos("sp-ftp"), SETUPS),
            shown("FTP first: more audio lost", 1, "audio loss", qos("sp-ftp"), SETUPS),
            shown("FTP first: more video lost", 1, "video loss", qos("sp-ftp"), SETUPS),
            shown(
                "all first: telnet connects slower",
                1,
                "telnet connect p90",
                qos("sp-qos1", setups=FRESH),
                FRESH,
            ),
        ),
    ),
    Conclusion(
        "4 Guaranteed circuits help audio and video",
        (
            shown("wc: less audio late", -1, "audio overdue", qos("wc-audio"), ("app-svc",)),
            shown("nwc: less audio late", -1, "audio overdue", qos("nwc-audio"), ("app-svc",)),
            shown("wc: less video lost", -1, "video loss", qos("wc-video")),
            shown("nwc: less video lost", -1, "video loss", qos("nwc-video")),
        ),
    ),
    Conclusion(
        "5 Policing bulk throttles it, and no other traffic gains",
        (
            shown("wc: FTP sessions longer", 1, "ftp session p90", qos("wc-ftp"), SETUPS),
            shown("nwc: FTP sessions longer", 1, "ftp session p90", qos("nwc-ftp"), SETUPS),
            shown("wc: HTTP pages longer", 1, "http page p90", qos("wc-http"), SETUPS),
            absent("wc-ftp: others as before", but("ftp"), qos("wc-ftp")),
        ),
    ),
    Conclusion(
        "6 Short transfers share circuits, policed ones have their own",
        (
            shown("unpoliced: HTTP longer with conv", 1, "http item median", UNPOLICED),
            shown("nwc-http: items shorter with conv", -1, "http item p90", mux("nwc-http"), BOTH),
            shown(
                "nwc-ftp: sessions shorter with conv", -1, "ftp session p90", mux("nwc-ftp"), ("svccache",)
            ),
        ),
    ),
    Conclusion(
        "7 Circuits per router lose audio, and save set-ups as a cache does",
        (
            shown("more audio lost", 1, "audio loss", router(), BOTH),
            shown("long FTP sessions longer", 1, "ftp session p90", router("svccache")),
            shown("telnet connects faster", -1, "telnet connect median", router("svc"), ("svc",)),
        ),
    ),
    Conclusion(
        "8 Per router it does not matter how circuits are kept",
        (IDENTICAL, absent("svc as pvc", of(""), ROUTERS[:1])),
    ),
    Conclusion(
        "9 Jitter control beats work-conserving policing for long transfers",
        (
            shown("files", -1, "ftp file p90", qos("nwc-ftp", "wc-ftp"), every=True),
            shown("sessions", -1, "ftp session p90", qos("nwc-ftp", "wc-ftp"), every=True),
            shown("HTTP pages", -1, "http page p90", qos("nwc-http", "wc-http")),
        ),
    ),
    Conclusion(
        "10 Near capacity the applications that are refused do better",
        (
            shown("more refused with isp than with http", 1, "refused", qos("nwc-isp", "nwc-http")),
            shown("and shorter HTTP pages", -1, "http page p90", qos("nwc-isp", "nwc-http")),
            shown(
                "shorter FTP sessions with qos1 than with ftp",
                -1,
                "ftp session p90",
                qos("nwc-qos1", "nwc-ftp"),
            ),
        ),
    ),
]
