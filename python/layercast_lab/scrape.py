"""What a campaign is at, for Prometheus and for health checks: `--metrics ADDR`."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from layercast_lab import engine
from layercast_lab.engine import Done, Failed

MOST = 16
"""Connections that are answered at a time; others wait to be accepted."""
PATIENCE_S = 10
"""Time that a connection may be silent."""
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Family:
    """A metric; the name of a counter is without `_total`, which the format appends."""

    name: str
    kind: str
    help: str

    def lines(self, value: float) -> str:
        """As the text format has it."""
        name = f"{self.name}_total" if self.kind == "counter" else self.name
        return f"# HELP {name} {self.help}.\n# TYPE {name} {self.kind}\n{name} {value}\n"


FAMILIES = {
    family.name.removeprefix("layercast_"): family
    for family in (
        Family("layercast_start_time_seconds", "gauge", "Start of the command, in seconds since 1970"),
        Family("layercast_campaign_runs", "gauge", "Runs that were missing at the start"),
        Family("layercast_campaign_runs_kept", "gauge", "Runs with a result of an earlier start"),
        Family("layercast_campaign_runs_left", "gauge", "Runs that have not ended"),
        Family("layercast_campaign_runs_done", "counter", "Runs made since the start"),
        Family("layercast_campaign_runs_failed", "counter", "Runs that failed since the start"),
        Family("layercast_campaign_runs_partial", "counter", "Runs made that their budget ended"),
        Family(
            "layercast_campaign_run_seconds",
            "counter",
            "Time that the simulator took for the runs made",
        ),
        Family("layercast_campaign_longest_run_seconds", "gauge", "Longest time of a run made"),
        Family("layercast_campaign_events", "counter", "Events of the runs made"),
        Family("layercast_campaign_workers", "gauge", "Processes that have made a run"),
        Family("layercast_campaign_left_seconds", "gauge", "Time that the runs left take at the pace so far"),
    )
}


@dataclass
class Figures:
    """What a campaign has done since its start; any thread may ask for it."""

    runs: int = 0
    kept: int = 0
    done: int = 0
    failed: int = 0
    partial: int = 0
    events: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    workers: set[str] = field(default_factory=set)
    started: float = field(default_factory=time.time)
    _begun: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, runs: int, kept: int) -> None:
        """`runs` are missing, `kept` are not."""
        with self._lock:
            self.runs, self.kept = runs, kept
            self._begun = time.monotonic()

    def add(self, outcome: Done | Failed) -> None:
        """One more run has come to its end."""
        with self._lock:
            match outcome:
                case Failed():
                    self.failed += 1
                case Done():
                    self.done += 1
                    self.partial += outcome.partial
                    self.events += outcome.events
                    self.seconds += outcome.seconds
                    self.longest = max(self.longest, outcome.seconds)
                    self.workers.add(outcome.worker)

    def text(self) -> str:
        """All metrics in the Prometheus text format; what is not known yet is absent."""
        with self._lock:
            ended = self.done + self.failed
            left = self.runs - ended
            values: dict[str, float | None] = {
                "start_time_seconds": self.started,
                "campaign_runs": self.runs,
                "campaign_runs_kept": self.kept,
                "campaign_runs_left": left,
                "campaign_runs_done": self.done,
                "campaign_runs_failed": self.failed,
                "campaign_runs_partial": self.partial,
                "campaign_run_seconds": self.seconds,
                "campaign_longest_run_seconds": self.longest if self.done else None,
                "campaign_events": self.events,
                "campaign_workers": len(self.workers),
                "campaign_left_seconds": (time.monotonic() - self._begun) / ended * left if ended else None,
            }
        return "".join(FAMILIES[name].lines(value) for name, value in values.items() if value is not None)

    def health(self) -> str:
        """That it runs, as JSON; the version is that of the results, the build of the simulator."""
        told = {
            "status": "ok",
            "command": "campaign",
            "version": engine.version(),
            "uptime_s": time.time() - self.started,
            "status_age_s": None,
        }
        return json.dumps(told) + "\n"


def address(text: str) -> tuple[str, int]:
    """Reads PORT, HOST:PORT or [IPV6]:PORT; a port alone is one of 127.0.0.1. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise ValueError(f"--metrics {text}: write it as PORT, HOST:PORT or [IPV6]:PORT")
    if host.startswith("[") and host.endswith("]"):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError as error:
            raise ValueError(f"--metrics {text}: {error}") from None
    elif ":" in host or (not host and text.startswith(":")):
        raise ValueError(f"--metrics {text}: write it as PORT, HOST:PORT or [IPV6]:PORT")
    return host or "127.0.0.1", int(port)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A connection that does not end keeps no campaign.
    block_on_close = False

    def __init__(self, at: tuple[str, int], figures: Figures) -> None:
        self.address_family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
        self.figures, self._places = figures, threading.BoundedSemaphore(MOST)
        super().__init__(at, _Handler)

    def server_bind(self) -> None:
        # The one of HTTPServer looks up the name of the host, which may take long.
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request, client_address) -> None:
        self._places.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()
            raise

    def process_request_thread(self, request, client_address) -> None:
        # One that sends a byte now and then gives its place back, too.
        ended = threading.Timer(PATIENCE_S, _end, (request,))
        ended.daemon = True
        ended.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            ended.cancel()
            self._places.release()

    def handle_error(self, request, client_address) -> None:
        """A connection that broke is nothing to report."""


def _end(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def __getattr__(self, name: str):
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        self._reply(405, TEXT, "read with GET\n", ("Allow", "GET, HEAD"))

    def _answer(self, body: bool) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._reply(200, PROMETHEUS, self.server.figures.text(), body=body)
            case "/health":
                self._reply(200, "application/json", self.server.figures.health(), body=body)
            case _:
                self._reply(404, TEXT, "there are /metrics and /health\n", body=body)

    def _reply(self, status: int, kind: str, text: str, *headers: tuple[str, str], body: bool = True) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), *headers):
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a scrape is no news."""


@contextlib.contextmanager
def serve(at: str | None) -> Iterator[Figures]:
    """Figures of a campaign, which are served at the address `at`, if there is one, and printed where.

    Raises ValueError if `at` is no address, OSError if it is taken or none of this host.
    """
    figures = Figures()
    if at is None:
        yield figures
        return
    where = address(at)
    try:
        server = _Server(where, figures)
    except OSError as error:
        raise OSError(
            f"cannot serve metrics at {at}: {error}; "
            "--metrics takes a free TCP port of this host, or 0 for any"
        ) from None
    host, port = server.server_address[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"metrics at http://{shown}:{port}/metrics", file=sys.stderr, flush=True)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    try:
        yield figures
    finally:
        server.shutdown()
        server.server_close()
