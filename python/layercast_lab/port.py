"""The example of examples/port: a player for plain UDP, and the same on Layercast."""

from __future__ import annotations

import difflib
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

PORT = Path(__file__).resolve().parents[2] / "examples" / "port"
PROGRAMS = ("sender.py", "player.py")
# The spec's bound (specs/mets.md, Q-1).
MOST_CHANGED = 60


@dataclass(frozen=True)
class Changed:
    """Lines of a program that its port changes."""

    written: int
    """Lines that are new."""
    removed: int
    """Lines that are gone."""


def changed_lines(program: str) -> Changed:
    """What `diff before/program after/program` counts."""
    before, after = ((PORT / version / program).read_text().splitlines() for version in ("before", "after"))
    diff = [line[:1] for line in difflib.unified_diff(before, after, n=0, lineterm="")][2:]
    return Changed(diff.count("+"), diff.count("-"))


@dataclass(frozen=True)
class Run:
    """What a sender and its player said, and what the player showed."""

    sent: int
    shown: int
    video: bytes


def play(version: str, clip: Path, fps: float) -> Run:
    """Run the sender and the player of `version` ("before" or "after") on a clip."""
    sender = [sys.executable, PORT / version / "sender.py", clip]
    player = [sys.executable, PORT / version / "player.py"]
    if version == "before":
        address = f"127.0.0.1:{free_port()}"
        watching = start([*player, address])
        # It cannot say that it listens: the first packets of UDP are anybody's guess.
        wait_until_bound(address)
        sending = start([*sender, address, str(fps)])
    else:
        sending = start([*sender, "127.0.0.1:0", str(fps)])
        url = sending.stdout.readline().decode().strip()
        watching = start([*player, url])
    killer = threading.Timer(120, lambda: (sending.kill(), watching.kill()))
    killer.start()
    try:
        video, shown = watching.communicate()
        _, sent = sending.communicate()
    finally:
        killer.cancel()
    for process, told in ((sending, sent), (watching, shown)):
        if process.returncode:
            raise RuntimeError(f"{version}: {told.decode()}")
    return Run(int(sent.split()[0]), int(shown.split()[0]), video)


def start(command: list[object]) -> subprocess.Popen[bytes]:
    """Run a program with pipes."""
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def free_port() -> int:
    """A UDP port of 127.0.0.1 that is free just now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_bound(address: str) -> None:
    """Wait until somebody has taken the UDP port."""
    host, port = address.split(":")
    pause = threading.Event()
    for _ in range(500):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((host, int(port)))
        except OSError:
            return
        pause.wait(0.02)
    raise TimeoutError(f"no process listens on {address}")
