"""How far a campaign is, on standard error."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from layercast_lab.engine import Done, Failed

LINE_EVERY_S = 30.0


class Meter:
    """A bar on a terminal; elsewhere, such as in the log of a batch job, a line now and then."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        self._total, self._done, self._failed = total, 0, 0
        self._events, self._seconds, self._workers = 0, 0.0, set[str]()
        self._started = self._told = time.monotonic()
        self._quiet = quiet
        console = Console(stderr=True)
        columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), TextColumn("left"))
        self._bar = Progress(
            *columns, console=console, disable=quiet or not console.is_terminal, transient=True
        )
        self._task = self._bar.add_task(self._text(), total=total)

    def __enter__(self) -> Meter:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def add(self, outcome: Done | Failed) -> None:
        """One more run has come to its end."""
        self._done += 1
        match outcome:
            case Failed():
                self._failed += 1
            case Done():
                self._events += outcome.events
                self._seconds += outcome.seconds
                self._workers.add(outcome.worker)
        self._bar.update(self._task, advance=1, description=self._text())
        now = time.monotonic()
        if self._bar.disable and not self._quiet and now - self._told >= LINE_EVERY_S:
            self._told = now
            left = (now - self._started) / self._done * (self._total - self._done)
            print(f"{self._text()}, {left:.0f} s left", file=sys.stderr, flush=True)

    def _text(self) -> str:
        text = f"{self._done} of {self._total} runs"
        if self._failed:
            text += f", {self._failed} failed"
        if self._seconds > 0:
            rate = self._events / self._seconds
            text += f", {rate / 1e6:.2f} M events/s by each of {len(self._workers)}"
        return text
