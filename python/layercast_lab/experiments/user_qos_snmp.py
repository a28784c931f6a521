"""User-to-user QoS: the MIB as a manager reads it, beside a snapshot of the same moment."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.user_qos_monitor import of
from layercast_lab.simulator import command

QOS = ".1.3.6.1.4.1.8072.9999.9999.1996"
ZONES = ("grey", "green", "yellow", "red")
MEASURES = {"throughput_bps": 1.0, "delay_s": 1e6, "jitter_s": 1e6, "error_rate": 1e9}
"""Measured values of a receiver in the order of the columns, with the factor of their unit."""
MEASURED, AGREED = 6, 10
"""Their first columns."""
FRESH_S = 1.2
"""Age of the values of an agent, at most, and some time to spare."""
PATIENCE_S = 60.0
RECEIVERS = ("ann", "bob")
WALKS = 5
CLIP = "".join(f"{n} {kind} {size}\n" for n, (kind, size) in enumerate(20 * [("I", 5_000), ("P", 2_000)]))


@dataclass(frozen=True)
class Seen:
    """A walk between two snapshots in which the receivers are the same."""

    flow: dict[str, Any]
    before: dict[str, float]
    shown: dict[str, str]
    after: dict[str, float]


def free_ports() -> tuple[int, int]:
    """A port of UDP and one of TCP that are free."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other,
    ):
        for it in (one, other):
            it.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@contextmanager
def session() -> Iterator[tuple[str, str, str]]:
    """A server that promises a profile, with two receivers: its URL, its agent, and its metrics."""
    agent, metrics = (f"127.0.0.1:{port}" for port in free_ports())
    running = []

    def start(*words: str, **more: Any) -> subprocess.Popen[str]:
        running.append(subprocess.Popen([command(), *words], stderr=subprocess.DEVNULL, text=True, **more))
        return running[-1]

    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.trace"
        clip.write_text(CLIP)
        try:
            words = ["serve", str(clip), "--loop", "--profile", "broadcasting", "--json"]
            places = ["--listen", "127.0.0.1:0", "--snmp", agent, "--metrics", metrics]
            server = start(*words, *places, stdout=subprocess.PIPE)
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            for name in RECEIVERS:
                start("join", url, "--name", name, stdout=subprocess.DEVNULL)
            yield url, agent, metrics
        finally:
            for it in reversed(running):
                it.send_signal(signal.SIGINT)
            for it in running:
                it.communicate(timeout=PATIENCE_S)


def walk(program: str, agent: str, below: str = QOS) -> dict[str, str]:
    """The variables below a name, with their kinds."""
    words = [program, "-v2c", "-c", "public", "-On", "-m", "", agent, below]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    # A walk to the end of all variables tells so.
    lines = (line for line in told.splitlines() if "No more variables left" not in line)
    return dict(line.split(" = ", 1) for line in lines)


def scraped(metrics: str) -> dict[str, float]:
    """The samples of `--metrics`."""
    with socket.create_connection(metrics.rsplit(":", 1)) as stream:
        stream.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = b"".join(iter(lambda: stream.recv(65_536), b"")).decode()
    lines = text.split("\r\n\r\n", 1)[1].splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def stats(url: str) -> dict[str, Any]:
    """The flow as `layercast stats` shows it."""
    told = subprocess.run([command(), "stats", url, "--json"], capture_output=True, text=True, check=True)
    return json.loads(told.stdout)["flows"][0]


def qualities(flow: dict[str, Any]) -> dict[str, Any]:
    """What each receiver gets of what was agreed."""
    return {it["member"]["name"]: it["report"].get("quality") for it in flow["members"]}


def observe(url: str, agent: str, metrics: str) -> Seen:
    """A walk in a moment in which no report came from a receiver."""
    begun = time.monotonic()
    while time.monotonic() < begun + PATIENCE_S:
        # The agent asks the server with the first request after that time.
        time.sleep(FRESH_S)
        flow, before = stats(url), scraped(metrics)
        shown = walk("snmpbulkwalk", agent)
        after, again = scraped(metrics), stats(url)
        judged = qualities(flow)
        is_known = len(judged) == len(RECEIVERS) and all(it and "delay_s" in it for it in judged.values())
        if is_known and judged == qualities(again):
            return Seen(flow, before, shown, after)
    raise RuntimeError(f"no moment without a report: {flow}")


def expected(flow: dict[str, Any]) -> dict[str, str]:
    """The table of receivers that follows from a snapshot."""
    columns = {}
    for it in flow["members"]:
        member, quality = it["member"], it["report"]["quality"]
        octets = flow["id"].to_bytes(4, "big") + member["id"].to_bytes(4, "big")
        index = ".".join(map(str, octets)) + ".2"
        row = {
            3: f'STRING: "{flow["name"]}"',
            4: f'STRING: "{member["name"]}"',
            5: f"INTEGER: {1 + ZONES.index(quality['zone'])}",
        }
        for first, key in ((MEASURED, "measured"), (AGREED, "agreed")):
            for column, (name, factor) in enumerate(MEASURES.items(), first):
                if name in quality:
                    kind = "Counter64" if name == "throughput_bps" else "Gauge32"
                    row[column] = f"{kind}: {int(quality[name][key] * factor + 0.5)}"
        columns |= {f"{QOS}.1.2.1.{column}.{index}": value for column, value in row.items()}
    return columns


def table(shown: dict[str, str]) -> dict[str, float]:
    """The second table: samples by name."""
    names, values = f"{QOS}.1.3.1.2.", f"{QOS}.1.3.1.3."

    def text(value: str) -> str:
        return re.sub(r"\\(.)", r"\1", value.removeprefix('STRING: "').removesuffix('"'))

    return {
        text(value): float(text(shown[values + name.removeprefix(names)]))
        for name, value in shown.items()
        if name.startswith(names)
    }


U12 = "A walk through the MIB beside a snapshot"


@experiment("user-to-user-qos/u12", **of(U12))
def u12(context: Context) -> Report:
    """Two receivers over loopback, read by the programs of net-snmp."""
    if shutil.which("snmpbulkwalk") is None:
        raise RuntimeError("snmpbulkwalk is missing: install the package snmp")
    with session() as (url, agent, metrics):
        seen = [observe(url, agent, metrics) for _ in range(WALKS)]
        of_table = f"{QOS}.1.2"
        both = [list(walk(program, agent, of_table)) for program in ("snmpwalk", "snmpbulkwalk")]
    wanted = [expected(it.flow) for it in seen]
    shown = [{k: v for k, v in it.shown.items() if k.startswith(of_table + ".")} for it in seen]
    same = sum(a.get(name) == value for a, b in zip(shown, wanted, strict=True) for name, value in b.items())
    total = sum(map(len, wanted))
    counts = [[int(it.shown[f"{QOS}.1.1.{n}.0"].split()[-1]) for n in range(1, 6)] for it in seen]
    held = [it.shown[f"{QOS}.1.1.1.0"] == f"Gauge32: {len(RECEIVERS)}" for it in seen]
    # A counter only increases. Other samples move both ways: those that both scrapes show alike are compared.
    counters = within = gauges = equal = 0
    names = True
    for it in seen:
        found = table(it.shown)
        names &= it.before.keys() <= found.keys() <= it.after.keys()
        for name in it.before.keys() & found.keys() & it.after.keys():
            first, last = it.before[name], it.after[name]
            if name.split("{", 1)[0].endswith("_total"):
                counters += 1
                within += first <= found[name] <= last
            elif first == last:
                gauges += 1
                equal += found[name] == first
    rows = [
        Row(
            "U12: table of receivers",
            f"ours: equals the snapshot: {total} variables",
            f"{same} of {sum(map(len, shown))} the same",
            "exact",
            judge(wanted == shown),
            f"{WALKS} walks, {len(RECEIVERS)} receivers",
        ),
        Row(
            "U12: receivers, and their zones",
            f"ours: {len(RECEIVERS)}, in one zone each",
            ", ".join(f"{it[0]}, {sum(it[1:])}" for it in counts),
            "exact",
            judge(all(held) and all(sum(it[1:]) == it[0] for it in counts)),
        ),
        Row(
            "U12: table of metrics, names",
            "ours: those of /metrics",
            "the same" if names else "others",
            "exact",
            judge(names),
        ),
        Row(
            "U12: table of metrics, counters",
            "ours: between those of two scrapes around the walk",
            f"{within} of {counters}",
            "exact",
            judge(within == counters > 0),
        ),
        Row(
            "U12: table of metrics, other values",
            "ours: those of two scrapes that are alike",
            f"{equal} of {gauges}",
            "exact",
            judge(equal == gauges > 0),
        ),
        Row(
            "U12: GETNEXT and GETBULK",
            "ours: the same variables in the same order",
            "the same" if both[0] == both[1] else "others",
            "exact",
            judge(both[0] == both[1] and len(both[0]) > 0),
        ),
    ]
    return Report("user-to-user-qos/u12", U12, rows)
