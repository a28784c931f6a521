#!/usr/bin/env python3
"""XTP beside TCP of Linux, QUIC (quinn) and SRT, in one run: loopback, and a path that loses.

Usage: transports.py TARGET_DIR [ROUNDS [loopback | lossy]]. Writes TARGET_DIR/bench/xtp.json and prints
tables; docs/src/results/bench-transport.md says what is compared.
The path that loses is `layercast emulate` between two
network namespaces, which needs root; so all go through the same queue, line and dice, as IP packets. Without
root it is left out, and says so.
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# By itself: the lab around it takes the bindings.
sys.path.insert(0, str(ROOT / "python" / "layercast_lab"))
import peers  # noqa: E402

TARGET = Path(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
PARTS = sys.argv[3:] or ["loopback", "lossy"]
SECONDS = 4
LOSSY_SECONDS = 10
# Of the line of 100 Mbit/s, for protocols that are given a rate: bytes of XTP or SRT per second.
RATE = 11_500_000
DELAY_MS, LOSS = 20, 0.01
SCENARIO = f"""
schema = "internet/1"
name = "lossy"
run = {{ duration = "1 h" }}
host = [{{ name = "client", address = "10.0.0.1" }}, {{ name = "server", address = "10.0.0.2" }}]

[[link]]
ends = ["client", "server"]
rate = "100 Mbit/s"
delay = "{DELAY_MS}ms"
queue = "400 packets"
loss = {LOSS}

[[attach]]
node = "client"
kind = "tun"
device = "lc0"
namespace = "lc-client"

[[attach]]
node = "server"
kind = "tun"
device = "lc0"
namespace = "lc-server"
"""
BULK = {"mbit_s": "Mbit/s", "cpu_s_per_gb": "CPU s/GB"}
OURS = ["tcp", "quic", "xtp", "xtp-host", "xtp-loose", "xtp-open"]
SRT = ["srt-live", "srt-file"]
NAMES = {
    "tcp": "TCP (Linux)",
    "quic": "QUIC (quinn)",
    "xtp": "XTP, reliable",
    "xtp-host": "XTP, reliable, XtpHost",
    "xtp-loose": "XTP, NOERR",
    "xtp-open": "XTP, NOERR and NOCHECK",
    "srt-live": "SRT, live",
    "srt-file": "SRT, file",
}


def say(text: str) -> None:
    """Progress, apart from the result."""
    print(f"transports: {text}", file=sys.stderr, flush=True)


def hurry() -> list[str]:
    """How to run before all others on a busy machine (BENCH_URGENT=1, as root)."""
    return ["chrt", "-f", "20"] if os.environ.get("BENCH_URGENT") else []


class Way:
    """The two ends: the address of the receiver, and how to start the two ends."""

    def __init__(self, host: str, near: list[str], far: list[str]) -> None:
        self.host, self.near, self.far = host, near, far
        self.port = 20_000

    def run(self, program: Path, protocol: str, role: str, seconds: float, rate: int = 0) -> dict:
        """One transfer: what the receiver found, with the processor time of both ends."""
        self.port += 1
        take, send = command(program, protocol, role, self.host, self.port)
        options = [str(seconds), str(rate)]
        with subprocess.Popen(
            [*self.far, *hurry(), *take], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as receiver:
            try:
                receiver.stdout.readline()
                sent = subprocess.run(
                    [*self.near, *hurry(), *send, *options],
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=3 * seconds + 30,
                )
                # A receiver that does not know the end would wait forever.
                told = json.loads(receiver.communicate(timeout=20)[0])
            finally:
                receiver.kill()
        gigabytes = max(told["bytes"], 1) / 1e9
        cpu = json.loads(sent.stdout.splitlines()[-1])["cpu_seconds"] + told["cpu_seconds"]
        return {
            **told,
            "mbit_s": told["bytes"] * 8e-6 / max(told["seconds"], 1e-9),
            "cpu_s_per_gb": cpu / gigabytes,
        }


def command(program: Path, protocol: str, role: str, host: str, port: int) -> tuple[list[str], list[str]]:
    """How the two ends are called."""
    if protocol.startswith("srt-"):
        mode = protocol.removeprefix("srt-")
        take = "hear" if role == "pace" else "take"
        return [str(program), take, mode, host, str(port)], [str(program), role, mode, host, str(port)]
    address = f"{host}:{port}"
    return [str(program), "take", protocol, address], [str(program), role, protocol, address]


@contextlib.contextmanager
def emulated(layercast: Path):
    """The path that loses, as long as it is needed; `None` where it cannot be."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        say("left out: the path that loses takes root and iproute2")
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "lossy.toml"
        scenario.write_text(SCENARIO)
        command = [*hurry(), str(layercast), "emulate", str(scenario), "--namespaces"]
        path = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        within = [["ip", "netns", "exec", f"lc-{end}"] for end in ("client", "server")]
        try:
            for _ in range(50):
                time.sleep(0.1)
                if all(answers(way) for way in within):
                    break
            else:
                raise SystemExit("transports: layercast emulate made no namespaces")
            yield Way("10.0.0.2", *within)
        finally:
            path.terminate()
            path.wait()


def answers(way: list[str]) -> bool:
    """Whether the namespace is there, with its device."""
    shown = subprocess.run([*way, "ip", "-4", "addr", "show", "lc0"], capture_output=True, text=True)
    return "10.0.0." in shown.stdout


def median(runs: list[dict], what: str) -> float | None:
    """The middle one, where there is any."""
    values = [run[what] for run in runs if run.get(what) is not None]
    return statistics.median(values) if values else None


def measure(way: Way, role: str, seconds: float, rate: int, protocols: list[str], programs: dict) -> dict:
    """Each protocol a number of times, alternating: medians, and all runs."""
    runs = {protocol: [] for protocol in protocols}
    for number in range(ROUNDS):
        for protocol in protocols:
            say(f"{role} {number + 1} of {ROUNDS}: {protocol}")
            try:
                runs[protocol].append(way.run(programs[protocol], protocol, role, seconds, rate))
            except (subprocess.SubprocessError, json.JSONDecodeError) as error:
                say(f"{protocol} failed: {error}")
    keys = ["mbit_s", "cpu_s_per_gb", "p50_us", "p99_us", "bytes"]
    return {
        protocol: {**{key: median(found, key) for key in keys}, "runs": found}
        for protocol, found in runs.items()
    }


def table(title: str, found: dict, columns: dict[str, str]) -> None:
    """One table of medians, with least and most of all runs."""
    print(f"\n{title}\n\n| | {' | '.join(columns.values())} |\n|---|{'---|' * len(columns)}")
    for protocol, result in found.items():
        cells = []
        for key in columns:
            values = [run[key] for run in result["runs"] if key in run]
            digits = 2 if key == "cpu_s_per_gb" else 0
            middle = statistics.median(values) if values else None
            cells.append(
                "-"
                if middle is None
                else f"{middle:.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"
            )
        print(f"| {NAMES[protocol]} | {' | '.join(cells)} |")


def main() -> None:
    """Everything, one after the other."""
    (TARGET / "bench").mkdir(exist_ok=True)
    ours = TARGET / "release" / "examples" / "transports"
    programs = dict.fromkeys(OURS, ours)
    protocols = list(OURS)
    try:
        programs |= dict.fromkeys(SRT, Path(peers.srt(TARGET / "bench")[0]))
        protocols += SRT
    except OSError as error:
        say(f"without SRT: {error}")
    result = {"rounds": ROUNDS, "load": os.getloadavg()}
    if "loopback" in PARTS:
        loopback = Way("127.0.0.1", [], [])
        result["loopback"] = measure(loopback, "bulk", SECONDS, 0, protocols, programs)
        table("Loopback, as much as goes", result["loopback"], BULK)
        # In SRT's file mode a message has no end.
        messages = [it for it in protocols if it != "srt-file"]
        result["messages"] = measure(loopback, "pace", 2 * SECONDS, 0, messages, programs)
        table("200 bytes, 1000 a second", result["messages"], {"p50_us": "p50 us", "p99_us": "p99 us"})
    if "lossy" in PARTS:
        with emulated(TARGET / "release" / "layercast") as way:
            if way:
                result["lossy"] = measure(way, "bulk", LOSSY_SECONDS, RATE, protocols, programs)
                table(f"100 Mbit/s, {DELAY_MS} ms and {LOSS:.0%} loss each way", result["lossy"], BULK)
    out = TARGET / "bench" / "xtp.json"
    out.write_text(json.dumps(result, indent=2) + "\n")
    say(f"written to {out}")


main()
