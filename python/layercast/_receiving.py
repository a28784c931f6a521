"""What an extension module receives, without loss when a task that waits for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Kept:
    """Calls `receive` for one waiting task after the other.

    A call that a cancelled task leaves behind belongs to the next one: what it takes is not lost.
    """

    def __init__(self, receive: Callable[[], Awaitable[Any]]) -> None:
        self._receive = receive
        self._turn = asyncio.Lock()
        self._running: asyncio.Future[Any] | None = None

    async def __call__(self) -> Any:
        """What `receive` gives, or raises."""
        async with self._turn:
            running = self._running
            if running is None:
                running = self._running = asyncio.ensure_future(self._receive())
            try:
                taken = await asyncio.shield(running)
            except asyncio.CancelledError:
                # What is here, or still comes, is for the next task.
                if running.cancelled():
                    self._running = None
                raise
            except BaseException:
                self._running = None
                raise
            self._running = None
            return taken
