"""Writing a stream through the extension module, without half a message when a task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from layercast._loop import Turn, ended
from layercast._receiving import start


class InTurn:
    """Runs calls that write one stream one after the other, each to its end.

    A cancelled task leaves its call running; the next call waits for its end and raises its exception.
    """

    def __init__(self) -> None:
        self._turn = Turn()
        self._running: asyncio.Task[Any] | None = None

    async def __call__(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """The result of `call`, which starts after all earlier calls; raises its exception.

        Raises the exception of an earlier call that a cancelled task left, without a start of `call`.
        """
        async with self._turn.lock():
            if (failure := await self._left()) is not None:
                raise failure
            running = self._running = start(call)
            await ended(running)
            self._running = None
            return running.result()

    async def finish(self) -> BaseException | None:
        """Waits for all earlier calls; the exception of one that a cancelled task left."""
        async with self._turn.lock():
            return await self._left()

    async def _left(self) -> BaseException | None:
        running = self._running
        if running is None:
            return None
        await ended(running)
        self._running = None
        failure = None if running.cancelled() else running.exception()
        if failure is not None:
            failure.add_note("The call that failed is an earlier one, whose task was cancelled.")
        return failure
