"""Transfers of the kernel's TCP across an emulated network (`layercast emulate`), in namespaces of their own.

`transfer` starts this file again under `unshare`, as root of private namespaces: no root is
needed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CLONE_NEWNET = 0x40000000
PORT = 5_001
BLOCK = 16_384
START_S = 60
"""Longest wait for the emulation and for a connection."""
UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount")
TCP_INFO_TOTAL_RETRANS = 100
"""Place of `tcpi_total_retrans` in `struct tcp_info`."""


@dataclass(frozen=True)
class Transfer:
    """Data from the host in the namespace `a` to that in `b`, for some seconds."""

    scenario: str
    """The text of a scenario with both hosts attached to TUN devices `lc0`."""
    to: str
    """Address of the receiver."""
    seconds: float
    window: int
    """Bytes of the receiver's buffer and of what may be under way."""
    sysctl: Mapping[str, str] = field(default_factory=dict)
    """Settings below `net.ipv4`, in both namespaces."""
    rto_min_ms: int = 200


@dataclass(frozen=True)
class Transferred:
    """What became of it."""

    bps: float
    """What the receiver got, over the time from its connection on."""
    again: int
    """Segments sent again."""
    sent: int
    """Packets that the sender gave to its device."""
    summary: dict[str, Any]
    """Of the emulation."""


def missing() -> str:
    """Why this cannot run here; empty if it can."""
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    try:
        probe = [*UNSHARE, "ip", "tuntap", "add", "mode", "tun", "name", "lcprobe"]
        done = subprocess.run(probe, capture_output=True, text=True)
    except FileNotFoundError as error:
        return f"{error.filename} is not installed"
    return done.stderr.strip() if done.returncode else ""


def transfer(job: Transfer, command: str) -> Transferred:
    """Runs it in real time; `command` is that of `layercast`. If it fails `RuntimeError` has the reason."""
    told = json.dumps({"command": command} | asdict(job))
    inner = [*UNSHARE, sys.executable, __file__]
    done = subprocess.run(inner, input=told, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"ended with {done.returncode}")
    return Transferred(**json.loads(done.stdout))


def inside(job: Mapping[str, Any]) -> dict[str, Any]:
    """The transfer, where everything is ours."""
    call("mount", "-t", "tmpfs", "tmpfs", "/run")
    call("ip", "link", "set", "lo", "up")
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        path = Path(folder) / "scenario.toml"
        path.write_text(job["scenario"])
        emulate = [job["command"], "emulate", str(path), "--namespaces", "--json"]
        with subprocess.Popen(emulate, stdout=subprocess.PIPE, text=True) as emulation:
            try:
                found = across(job, emulation)
            finally:
                emulation.send_signal(signal.SIGINT)
            lines = emulation.stdout.read().splitlines()
    return found | {"summary": json.loads(lines[-1])}


def across(job: Mapping[str, Any], emulation: subprocess.Popen) -> dict[str, Any]:
    """From the namespace `a` to `b` while the emulation runs."""
    ready = emulation.stdout.readline()
    if '"ready"' not in ready:
        raise RuntimeError(f"the emulation did not start: {ready}")
    for name in "ab":
        for key, value in job["sysctl"].items():
            call("ip", "netns", "exec", name, "sysctl", "-q", "-w", f"net.ipv4.{key}={value}")
        default = f"default dev lc0 rto_min {job['rto_min_ms']}ms"
        call("ip", "netns", "exec", name, "ip", "route", "replace", *default.split())
    server, client = opened("b"), opened("a")
    with server, client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, job["window"])
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, job["window"])
        server.bind((job["to"], PORT))
        server.listen(1)
        server.settimeout(START_S)
        sender = threading.Thread(target=send, args=(client, job["to"], job["seconds"]))
        sender.start()
        connection, _ = server.accept()
        with connection:
            bps = 8 * receive(connection, job["seconds"])
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        again = int.from_bytes(info[TCP_INFO_TOTAL_RETRANS : TCP_INFO_TOTAL_RETRANS + 4], sys.byteorder)
        sender.join()
    packets = call("ip", "netns", "exec", "a", "cat", "/sys/class/net/lc0/statistics/tx_packets")
    return {"bps": bps, "again": again, "sent": int(packets)}


def opened(namespace: str) -> socket.socket:
    """A socket of TCP in a namespace; it stays there."""
    made: list[socket.socket] = []

    def enter() -> None:
        with open(f"/run/netns/{namespace}") as file:
            # os.setns is there from Python 3.12 on.
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) == 0:
                made.append(socket.socket())

    # A namespace belongs to a thread, and ends with it alone.
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if not made:
        raise RuntimeError(f"the namespace {namespace} cannot be entered")
    return made[0]


def send(client: socket.socket, to: str, seconds: float) -> None:
    """Sends all that goes, until the receiver has had its time."""
    client.settimeout(START_S)
    client.connect((to, PORT))
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        client.settimeout(left)
        try:
            client.send(bytes(BLOCK))
        except OSError:
            break


def receive(connection: socket.socket, seconds: float) -> float:
    """Bytes in a second, over a number of seconds."""
    start, total = time.monotonic(), 0
    while (left := start + seconds - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            total += len(connection.recv(1 << 16))
        except TimeoutError:
            break
    return total / seconds


def call(*command: str) -> str:
    """What a command says that has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    try:
        print(json.dumps(inside(json.load(sys.stdin))))
    except (RuntimeError, OSError) as error:
        sys.exit(str(error))
