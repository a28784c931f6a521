"""Programs of a measurement: Layercast nodes and others, on ports of 127.0.0.1."""

import itertools
import json
import os
import socket
import subprocess
import threading

# Below the ports that the system hands out, and none twice: a port that is free now shall be free in
# a second, too.
_PORTS = itertools.count(20_000 + os.getpid() % 10_000)


def free_port() -> int:
    """A UDP port that is free."""
    for port in _PORTS:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SystemExit("no free port")


def hurry() -> None:
    """With BENCH_URGENT=1, and as root: this thread runs before all others."""
    if os.environ.get("BENCH_URGENT"):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))


class Programs:
    """Programs that run until the end of a measurement."""

    def __init__(self, layercast: str) -> None:
        self.layercast = layercast

    def __enter__(self) -> "Programs":
        self.running: list[subprocess.Popen] = []
        return self

    def start(self, command: list, **more) -> subprocess.Popen:
        """Start any program; it is stopped at the end."""
        more = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        } | more
        first = ["chrt", "-f", "20"] if os.environ.get("BENCH_URGENT") else []
        child = subprocess.Popen([*first, *(str(part) for part in command)], **more)
        self.running.append(child)
        return child

    def node(self, command: list) -> list:
        """The command line of a layercast node."""
        # An emulated path sees through links without protection only; `join` follows the URL.
        open_link = ["--insecure"] if command[0] in ("serve", "switch") else []
        return [self.layercast, *command, *open_link, "--json"]

    def ready(self, command: list) -> str:
        """Start a layercast node, wait until it listens, and give its address."""
        child = self.start(self.node(command), stdout=subprocess.PIPE, text=True)
        # Warnings may come before.
        lines = map(json.loads, child.stdout)
        line = next(line for line in lines if "address" in line)
        # The rest is not read, and it must not block.
        threading.Thread(target=child.stdout.read, daemon=True).start()
        return line["address"]

    def finish(self, command: list) -> dict:
        """Run a layercast node to its end, and give its summary."""
        child = self.start(self.node(command), stdout=subprocess.PIPE, text=True)
        lines = child.stdout.read().splitlines()
        if child.wait() != 0:
            raise SystemExit(f"layercast {command[0]} failed: {lines[-1:]}")
        return json.loads(lines[-1])

    def __exit__(self, *_) -> None:
        for child in reversed(self.running):
            child.terminate()
        for child in self.running:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
