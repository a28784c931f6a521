"""User-to-user QoS: the monitor at the nodes of simulated networks, beside what the simulator knows."""

from __future__ import annotations

from typing import Any

from layercast_lab.experiment import Context, Report, Row, arithmetic, experiment, judge
from layercast_lab.experiments.user_qos_monitor import of, unchanged
from layercast_lab.monitor import IN, OUT, ask, last, transfer, watch
from layercast_lab.simulator import ready_made

MBYTE = 1 << 20
PACKET = 1_024
PACKET_US = 17_030
"""Time of the host of 1996 for a packet (specs/user-to-user-qos.md 3)."""
EVENT_US = 500
"""The same for an event of the monitor, with its change of context."""
REDRAW_S = (0.2, 0.32, 0.5)
IP = 20
SPACINGS_MS = (50, 100, 500)
AXIS = "the truth of the simulator"

U1 = "1 MByte over XTP with and without the monitor"


def of_1996(context: Context, events_per_packet: float) -> dict[str, Any]:
    """The transfer of the evaluation on a host whose processor spends this on the events of a packet."""
    cpu = {"per_sent": f"{round(PACKET_US + EVENT_US * events_per_packet)}us"}
    # Answers are late because the host is slow, not because they are lost.
    patient = {"first_wait": "10s", "least_wait": "10s", "window": "16 KiB", "max_data": PACKET}
    return watch(transfer(MBYTE, xtp=patient, cpu=cpu, delay="1ms", seconds=60))


@experiment("user-to-user-qos/u1", **of(U1))
def u1(context: Context) -> Report:
    """XTP asks for status with each packet; the processor of the host is slower by the cost of the events."""
    without = of_1996(context, 0)
    events = last(without, "left")["counts"]["events"]
    packets = -(-MBYTE // PACKET)
    attached = of_1996(context, events / packets)
    before, after = (it["summary"]["flows"][0]["completed"] for it in (without, attached))
    share = 1 - before / after
    host = {"bytes": MBYTE, "packet": PACKET, "packet_ns": 1_000 * PACKET_US, "redraw_ns": 0}
    load = events * EVENT_US / 1e6 / after
    setting = {"arrivals": "poisson", "rule": "literal", "rho": load, "service_ns": 1_000 * EVENT_US}
    line = ask("line", settings=[setting | {"events": 400_000, "seed": 1}])[0]
    wakeups = line["signals"] / line["events"]
    model = ask("host", settings=[host | {"events_per_packet": 5, "event_ns": 1_000 * EVENT_US}])[0]
    rows = [
        Row(
            "Q2: events of 1 MByte",
            "slightly more than 5000",
            f"{events}",
            "5000 to 5250",
            judge(5_000 < events <= 5_250),
            "five of each packet: sent, probe start, answer received, probe end, error state",
        ),
        Row("duration with the monitor", "20 s", f"{after:.2f} s", "19 to 21 s", judge(19 <= after <= 21)),
        Row(
            "Q1: share of the monitor",
            "10 to 15 %",
            f"{100 * share:.1f} % ({before:.2f} s without it)",
            "10 to 15 %",
            judge(0.10 <= share <= 0.15),
            "0.5 ms an event is fitted to Q1 and Q2 by the specification; the number of events is measured",
        ),
        Row(
            "Q3: changes of context for an event",
            "every event causes one",
            f"{wakeups:.3f} at a load of {load:.3f}",
            "at least 0.98",
            judge(wakeups >= 0.98),
        ),
        Row(
            "1024 packets and 5120 events on one processor",
            "20.0 s (C)",
            f"{model['seconds']:.2f} s",
            "0.1 s",
            arithmetic(abs(model["seconds"] - 20) <= 0.1),
        ),
        unchanged(without["same"] and attached["same"]),
    ]
    return Report("user-to-user-qos/u1", U1, rows)


U2 = "1 MByte with a display that is drawn at each event"


@experiment("user-to-user-qos/u2", **of(U2))
def u2(context: Context) -> Report:
    """Each event of U1 is drawn before the next packet; a scenario has such long times by the octet only."""
    events = last(of_1996(context, 0), "left")["counts"]["events"] / (MBYTE // PACKET)
    rates = {}
    for redraw in REDRAW_S:
        drawing = 1e9 * events * redraw / (IP + 32 + PACKET)
        cpu = {
            "per_sent": f"{round(PACKET_US + events * EVENT_US)}us",
            "per_sent_byte": f"{round(drawing)}ns",
        }
        patient = {"first_wait": "600s", "least_wait": "600s", "window": "16 KiB", "max_data": PACKET}
        found = watch(transfer(MBYTE, xtp=patient, cpu=cpu, delay="1ms", seconds=3_600))
        rates[redraw] = 8 * MBYTE / found["summary"]["flows"][0]["completed"] / 1e3
    expected = {redraw: 8 * MBYTE / (20 + 5_120 * redraw) / 1e3 for redraw in REDRAW_S}
    rows = [
        Row(
            f"Q4: {redraw:g} s to draw the display",
            f"a few kbit/s; {expected[redraw]:.1f} (C)",
            f"{rate:.1f} kbit/s",
            "2 to 10 kbit/s, and 3 % of the computed value",
            judge(2 <= rate <= 10 and abs(rate / expected[redraw] - 1) <= 0.03),
        )
        for redraw, rate in rates.items()
    ]
    return Report("user-to-user-qos/u2", U2, rows)


U4 = "Two ends, both directions, beside the truth"


def connections(found: dict[str, Any], node: str) -> list[dict[str, Any]]:
    """The last report of each connection of a node."""
    return list({it["conn"]: it for it in found["nodes"][node]["reports"]}.values())


@experiment("user-to-user-qos/u4", **of(U4))
def u4(context: Context) -> Report:
    """One XTP transfer each way; packets from the left are lost, 1 of 100."""
    octets, data = 4_000_000, 1_000
    config = {"max_data": data, "fast_nak": True, "rate": "3 Mbit/s", "least_wait": "200ms"}
    loss = {"left": 0.01, "right": 0.0}
    both = transfer(octets, loss=loss["left"], back={"loss": 0.0}, xtp=config, both=True)
    contract = {"delay": {"agreed": 0.1}, "jitter": {"agreed": 0.1}}
    found = watch(both, contract=contract, config={"report_ms": 1_000})
    queues = {it["name"]: it for it in found["summary"]["queues"]}
    ends = {"left": "right", "right": "left"}
    rows = []
    for node, peer in ends.items():
        queue = queues[f"{node}->{peer}"]
        here, there = connections(found, node), connections(found, peer)
        out = [it["directions"][OUT] for it in here]
        arrived = [it["directions"][IN] for it in there]
        carried = sum(it["bits"] // 8 + IP * it["packets"] for it in out)
        rows += [
            Row(
                f"{node} to {peer}: octets on the wire",
                f"{queue['bytes']} ({AXIS})",
                f"{carried}",
                "exact",
                judge(carried == queue["bytes"]),
            ),
            Row(
                f"{node} to {peer}: packets sent and received",
                f"{queue['sent']}, {queue['sent'] - queue['lost']} ({AXIS})",
                f"{sum(it['packets'] for it in out)}, {sum(it['packets'] for it in arrived)}",
                "exact",
                judge(
                    sum(it["packets"] for it in out) == queue["sent"]
                    and sum(it["packets"] for it in arrived) == queue["sent"] - queue["lost"]
                ),
            ),
            Row(
                f"{node} to {peer}: user data, sent and received",
                f"{8 * octets} bits each",
                f"{sum(it['user_bits'] for it in out)}, {sum(it['user_bits'] for it in arrived)}",
                "exact",
                judge({sum(it["user_bits"] for it in side) for side in (out, arrived)} == {8 * octets}),
            ),
        ]
        missing = sum(it["error_bits"] for it in out)
        again = next(it for it in found["summary"]["flows"] if it["source"] == node)["retransmitted"]
        truth = round(8 * data * again * (1 - loss[node]))
        rows.append(
            Row(
                f"{node} to {peer}: missing bits",
                f"{truth}: {again} packets sent again, less those lost again ({AXIS})",
                f"{missing}",
                "5 %",
                judge(abs(missing - truth) <= 0.05 * truth),
                f"{queue['lost']} packets were lost, of which the others are status",
            )
        )
    rows += delays(found, queues)
    rows.append(display(found))
    rows.append(unchanged(found["same"]))
    return Report("user-to-user-qos/u4", U4, rows)


def display(found: dict[str, Any]) -> Row:
    """What the panel of the paper shows of a host: figure 6 is an example, without a setting of its own."""
    ends = connections(found, "left")
    shown = [
        side["compared"][number] is not None
        for end in ends
        for side in end["directions"]
        for number in range(len(side["compared"]))
    ]
    return Row(
        "Q6: what the display shows of a host",
        "2 connection endpoints, values of both directions (figure 6)",
        f"{len(ends)} connection endpoints, {sum(shown)} of {len(shown)} values known",
        "2 endpoints",
        judge(len(ends) == 2),
        "an example of the paper: its bandwidth, 10 Mbit/s, is that of the link here",
    )


def delays(found: dict[str, Any], queues: dict[str, Any]) -> list[Row]:
    """Mean delay of both ways, and jitter."""
    ways = [
        10 + 1e3 * (it["mean_wait"] + 8 * it["bytes"] / max(it["sent"], 1) / 10e6) for it in queues.values()
    ]
    true = sum(ways) / 2
    known = [
        it["directions"][OUT]
        for node in ("left", "right")
        for it in found["nodes"][node]["reports"]
        if it["directions"][OUT]["compared"][1] and it["directions"][OUT]["user_bits"] > 0
    ]
    means = [1e3 * it["compared"][1]["measured"] for it in known]
    mean = sum(means) / len(means)
    jitters = [it["jitter_ns"] / 1e6 for it in known if it["jitter_ns"] is not None]
    largest = max(it["max_jitter_ns"] or 0 for it in known) / 1e6
    return [
        Row(
            "mean delay, half the round trip",
            f"{true:.2f} ms, mean of both ways ({AXIS})",
            f"{mean:.2f} ms",
            "5 %",
            judge(abs(mean / true - 1) <= 0.05),
        ),
        Row(
            "jitter, and the largest",
            "no truth: the simulator keeps no delay of each packet",
            f"{sum(jitters) / len(jitters):.3f} ms, {largest:.3f} ms",
            "-",
            "open",
        ),
    ]


U5 = "Half the round trip on symmetric and asymmetric paths"


@experiment("user-to-user-qos/u5", **of(U5))
def u5(context: Context) -> Report:
    """Two paths; the way back of one takes 30 ms more, in which its line sends a packet of status."""
    status = IP + 32 + 20
    slow = {"rate": f"{round(8 * status / 0.030)} bit/s"}
    data = 1_000
    wire = 8 * (IP + 32 + data)
    rows = []
    for name, back, ways in (("10 and 10 ms", None, (10, 10)), ("10 and 40 ms", slow, (10, 40))):
        for spacing in SPACINGS_MS:
            config = {
                "max_data": data,
                "rate": f"{round(8e3 * (data + 32) / spacing)} bit/s",
                "least_wait": "2s",
            }
            more = {"rate": "1 Gbit/s", "back": back, "xtp": config, "seconds": 120}
            found = watch(transfer(100 * data, **more))
            delay = last(found, "left", OUT)["delay"]
            estimate = delay["current_ns"] / 1e6
            there = ways[0] + wire / 1e6
            errors = [estimate - there, estimate - ways[1]]
            half = (ways[1] - ways[0]) / 2
            rows.append(
                Row(
                    f"{name}, a probe each {spacing} ms",
                    f"{sum(ways) / 2:g} ms, errors {half:+g} and {-half:+g} ms (C)",
                    f"{estimate:.2f} ms, errors {errors[0]:+.2f} and {errors[1]:+.2f} ms",
                    "0.1 ms",
                    judge(abs(errors[0] - half) <= 0.1 and abs(errors[1] + half) <= 0.1),
                    f"{delay['samples']} answers, method {delay['method']}",
                )
            )
    return Report("user-to-user-qos/u5", U5, rows)


U10 = "The same monitor on METS"


@experiment("user-to-user-qos/u10", **of(U10))
def u10(context: Context) -> Report:
    """Receivers behind a link that loses and behind a clean one, with true delays."""
    found = watch(ready_made("lossy"))
    flow = found["summary"]["flows"][0]
    source = last(found, "server", OUT)
    sent = sum(flow["source"]["sent"].values())
    rows = [
        Row(
            "METS, source: frames and bits",
            f"{sent}, {8 * flow['source']['bytes']} ({AXIS})",
            f"{source['packets']}, {source['user_bits']}",
            "exact",
            judge(source["packets"] == sent and source["user_bits"] == 8 * flow["source"]["bytes"]),
        ),
    ]
    for receiver in flow["receivers"]:
        name = receiver["name"]
        arrived = last(found, name.split("/")[0], IN)
        lost, late = sum(receiver["lost"].values()), receiver["late"]
        top = max(it["delay_ms"] or 0 for it in receiver["series"])
        delay = arrived["delay"]
        rows += [
            Row(
                f"METS, {name}: frames missing, and late",
                f"{lost}, {late} ({AXIS})",
                f"{arrived['gaps']}, {arrived['deadlines_missed']}",
                "late exactly; missing too, but for late ones that were missed first",
                judge(arrived["deadlines_missed"] == late and 0 <= arrived["gaps"] - lost <= late),
            ),
            Row(
                f"METS, {name}: largest delay",
                f"{top:.2f} ms ({AXIS}, of frames played)",
                f"{delay['max_ns'] / 1e6:.2f} ms, {delay['method']}",
                "0.01 ms, or more if a frame came too late to be played",
                judge(abs(delay["max_ns"] / 1e6 - top) <= 0.01 or (late > 0 and delay["max_ns"] / 1e6 > top)),
            ),
        ]
    rows.append(unchanged(found["same"]))
    return Report("user-to-user-qos/u10", U10, rows)
