"""User-to-user QoS: a contract negotiated within the set-up of a session, in the simulator."""

from __future__ import annotations

from collections import Counter
from typing import Any

from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.user_qos_monitor import of
from layercast_lab.monitor import ask

U9 = "A profile in the set-up of a session"
RTTS_MS = (1, 10, 50, 100, 200)
GROUPS = (1, 10, 50)
TO_SERVER_MS = 0.5
"""Round trip between the switch and the server."""
JOIN_S = 2.0
REPORT_S = 1.0
"""A member reports from a second after its join on: the runs end before."""
SEGMENT = 1_460
"""Octets of a TCP segment on Ethernet."""
OFFER = {"delay": [600, 200], "jitter": [80, 20], "loss": [0.02, 0.001], "rate": [200_000, 1_400_000]}
"""What the source offers: [worst, wanted]."""
UNLIKE: dict[str, dict[str, list[float]]] = {
    "accept": {},
    "counter: delay": {"delay": [550, 250]},
    "counter: rate": {"rate": [200_000, 700_000]},
    "refuse: delay": {"delay": [190, 150]},
    "refuse: rate": {"rate": [2_000_000, 3_000_000]},
}
"""What members want that want something else than is offered."""


def profile(**wants: list[float]) -> str:
    """A profile of a camera with these values."""
    it = OFFER | wants
    return f"""
name = "camera"
category = "conferencing"
setup_ms = 2000
[[stream]]
name = "camera"
direction = "down"
kind = "video"
size = "medium"
fluency = "medium"
codec = "h264"
delay_ms = {it["delay"]}
jitter_ms = {it["jitter"]}
loss = {it["loss"]}
rate_bps = {it["rate"]}
commitment = "statistical"
"""


def network(members: int, rtt_ms: float) -> dict[str, Any]:
    """A server, a switch next to it, and members with this round trip to the server."""
    fast = {"rate": "100 Mbit/s", "queue": "500 ms"}
    names = [f"member{n}" for n in range(members)]
    delay = f"{round(500 * (rtt_ms - TO_SERVER_MS))}us"
    hosts = [{"name": name, "kind": "host"} for name in ("server", *names)]
    return {
        "name": "set-up",
        "duration": f"{round(1e3 * (JOIN_S + REPORT_S))}ms",
        "wire_check": True,
        "node": [*hosts, {"name": "switch", "kind": "switch"}],
        "link": [{"a": "server", "b": "switch", "delay": f"{round(500 * TO_SERVER_MS)}us"} | fast]
        + [{"a": "switch", "b": name, "delay": delay} | fast for name in names],
        "flow": [
            {
                "name": "camera",
                "source": "server",
                "clip": {"synthetic": "canyon"},
                "frame_rate": 24,
                "start": "1s",
                "delay_max": "600ms",
            }
        ],
        "receiver": [{"node": name, "flow": "camera", "join": f"{JOIN_S:g}s"} for name in names],
    }


def kind_of(member: int) -> str:
    """What a member of a group of unlike ones does."""
    return list(UNLIKE)[member % len(UNLIKE)]


def run(members: int, rtt_ms: float, negotiates: bool) -> tuple[list[dict[str, Any]], int]:
    """The receivers of a run, and the octets of all signals."""
    wishes = {f"member{n}": profile(**UNLIKE[kind_of(n)]) for n in range(members)} if negotiates else {}
    offer = profile() if negotiates else None
    found = ask("set-up", scenario=network(members, rtt_ms), offer=offer, wishes=wishes)
    if found["wire_errors"]:
        raise ValueError("signals changed by encoding and decoding")
    return found["flows"][0]["receivers"], found["signal_octets"]


def joined_ms(receiver: dict[str, Any]) -> float | None:
    """How long a join took; None: it was not joined."""
    levels = receiver["levels"]
    return 1e3 * (levels[0][0] - JOIN_S) if levels else None


def answered(receiver: dict[str, Any]) -> str:
    """What a receiver did with the offer."""
    if receiver["refused"]:
        parameter = receiver["refused"].split(": ")[1]
        return f"refuse: {'rate' if parameter == 'throughput' else parameter}"
    agreed = receiver["agreed"]
    if agreed["answer"] == "accept":
        return "accept"
    throughput = agreed["contract"]["throughput"]["target"]
    return f"counter: {'rate' if throughput < OFFER['rate'][1] else 'delay'}"


@experiment("user-to-user-qos/u9", **of(U9))
def u9(context: Context) -> Report:
    """Runs with and without profiles: the simulator runs the machines of `serve` and `join`."""
    rows, extra, octets = [], [], []
    for members in GROUPS:
        times, answers, most = {}, Counter(), 0.0
        for rtt in RTTS_MS:
            with_profile, more = run(members, rtt, True)
            without, fewer = run(members, rtt, False)
            pairs = [(joined_ms(a), joined_ms(b)) for a, b in zip(with_profile, without, strict=True)]
            both = [(a, b) for a, b in pairs if a is not None and b is not None]
            most = max([most, *(abs(a - b) / rtt for a, b in both)])
            times[rtt] = max(a for a, _ in both)
            answers += Counter(answered(it) for it in with_profile)
            wrong = [it["name"] for n, it in enumerate(with_profile) if answered(it) != kind_of(n)]
            if wrong:
                raise ValueError(f"{members} members, {rtt} ms: unexpected answers of {', '.join(wrong)}")
            octets.append((more - fewer) / members)
        extra.append(most)
        expected = {rtt: 1.5 * (rtt - TO_SERVER_MS) + TO_SERVER_MS for rtt in RTTS_MS}
        told = ", ".join(f"{ms:.2f}" for ms in times.values())
        plural = "s" if members > 1 else ""
        rows += [
            Row(
                f"Q7: {members} member{plural}: extra round trips",
                "none: the profile rides on the connection set-up",
                f"{most:g}",
                "exact",
                judge(most == 0),
                f"round trips of {', '.join(map(str, RTTS_MS))} ms to the server",
            ),
            Row(
                f"{members} member{plural}: slowest set-up",
                f"{', '.join(f'{ms:.2f}' for ms in expected.values())} ms (by definition)",
                f"{told} ms",
                "exact",
                judge(all(abs(ms - expected[rtt]) < 1e-3 for rtt, ms in times.items())),
                "advertisement, join and answer on the link of the member, and a round trip from the switch "
                "to the server; the same with and without a profile",
            ),
            Row(
                f"{members} member{plural}: answers",
                "each as its profile says (by construction)",
                ", ".join(f"{count} {what}" for what, count in sorted(answers.items())),
                "exact",
                judge(sum(answers.values()) == members * len(RTTS_MS)),
            ),
        ]
    rows.append(
        Row(
            "octets of the negotiation for a member",
            "-",
            f"{min(octets):.0f} to {max(octets):.0f}",
            f"less than one segment, {SEGMENT}",
            judge(max(octets) < SEGMENT),
            "offer, answer, agreement and the refusals, on all links; a member that refuses sends no join",
        )
    )
    return Report("user-to-user-qos/u9", U9, rows)
