"""The event loop that an object belongs to."""

from __future__ import annotations

import asyncio
import threading
from typing import Any


class Turn:
    """A lock that one event loop uses, from its first call until the loop is closed.

    A lock of asyncio wakes no task of another loop: such a call raises RuntimeError instead.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    def locked(self) -> bool:
        """Whether a task has it."""
        return self._lock.locked()

    def lock(self) -> asyncio.Lock:
        """The lock, for the loop that runs."""
        loop = asyncio.get_running_loop()
        with self._guard:
            if self._loop is None or self._loop.is_closed():
                self._loop, self._lock = loop, asyncio.Lock()
            elif self._loop is not loop:
                raise RuntimeError(
                    "another event loop uses this object: run the call in that loop "
                    "(asyncio.run_coroutine_threadsafe), or open an object of its own in each loop"
                )
            return self._lock


async def ended(task: asyncio.Task[Any]) -> None:
    """Waits until a task is done. A cancellation ends this wait and not the task."""
    if task.done():
        return
    if task.get_loop() is not asyncio.get_running_loop():
        raise RuntimeError("the event loop was closed before an earlier call ended: open another object")
    await asyncio.wait((task,))
