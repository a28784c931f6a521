"""Receiving from the extension module, without loss when a waiting task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from layercast._loop import Turn, ended


def start(call: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
    """Runs a call of the extension module in a task of its own.

    The end of `asyncio.run` cancels it with the other tasks, so that no thread of the library reports a
    result to an interpreter that has ended. asyncio does not log its exception if no task retrieves it.
    """

    async def run() -> Any:
        return await call()

    task = asyncio.ensure_future(run())
    task.add_done_callback(lambda it: it.cancelled() or it.exception())
    return task


class Kept:
    """Calls `receive` for one waiting task after the other.

    A cancelled task leaves its call running; the next task gets the result.
    """

    def __init__(self, receive: Callable[[], Awaitable[Any]]) -> None:
        self._receive = receive
        self._turn = Turn()
        self._running: asyncio.Task[Any] | None = None

    async def __call__(self) -> Any:
        """The result of `receive`; raises its exception."""
        async with self._turn.lock():
            running = self._running
            if running is None:
                running = self._running = start(self._receive)
            await ended(running)
            self._running = None
            return running.result()

    def drop(self) -> None:
        """Cancels a call that no task waits for."""
        if self._running is not None and not self._turn.locked():
            self._running.cancel()
            self._running = None
