"""Objects of one event loop, used from others."""

import asyncio
import threading

import pytest

from layercast._receiving import Kept
from layercast._sending import InTurn


def elsewhere(call) -> BaseException | None:
    """The exception of a call in the event loop of another thread."""
    found: list[BaseException | None] = []

    def work() -> None:
        try:
            asyncio.run(asyncio.wait_for(call(), 5))
            found.append(None)
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def objects():
    async def nothing() -> int:
        await asyncio.sleep(0)
        return 7

    sends = InTurn()
    return [Kept(nothing), lambda: sends(nothing)]


@pytest.mark.parametrize("which", [0, 1])
def test_the_first_call_from_another_loop_is_an_error(which):
    call = objects()[which]

    async def main() -> None:
        assert await call() == 7
        error = await asyncio.to_thread(elsewhere, call)
        assert isinstance(error, RuntimeError) and "another event loop uses this object" in str(error)
        assert await call() == 7

    asyncio.run(main())


@pytest.mark.parametrize("which", [0, 1])
def test_a_loop_may_follow_one_that_is_closed(which):
    call = objects()[which]
    for _ in range(3):
        assert asyncio.run(call()) == 7
        assert elsewhere(call) is None


def test_calls_of_tasks_that_wait_for_each_other_reach_the_next_loop():
    sends = InTurn()
    order: list[int] = []

    async def main(base: int) -> None:
        async def send(number: int) -> None:
            await asyncio.sleep(0)
            order.append(number)

        await asyncio.gather(*(sends(lambda n=n: send(n)) for n in (base, base + 1)))

    asyncio.run(main(0))
    asyncio.run(main(2))
    assert order == [0, 1, 2, 3]


def test_a_call_that_its_loop_left_behind_is_an_error():
    async def forever() -> None:
        await asyncio.Event().wait()

    receive = Kept(forever)
    loop = asyncio.new_event_loop()
    # It complains of the tasks that it loses.
    loop.set_exception_handler(lambda *_: None)
    waiting = loop.create_task(receive())
    loop.run_until_complete(asyncio.sleep(0.01))
    # As a program does it that closes a loop without the end of its tasks.
    loop.close()
    error = elsewhere(receive)
    assert isinstance(error, RuntimeError) and "closed before an earlier call ended" in str(error)
    del waiting
