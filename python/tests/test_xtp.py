import asyncio
import contextlib
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import layercast
from layercast import xtp
from layercast_lab import sockets
from layercast_lab.experiments import xtp_orl, xtp_sandia

PORT = 7_000


def run(main) -> None:
    async def within() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(within())


@contextlib.contextmanager
def daemon(program: str, path: Path) -> Iterator[str]:
    """A daemon in a process of its own; its address for hosts."""
    command = [program, "xtpd", path, "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert json.loads(process.stdout.readline())["report"] == "ready"
            yield f"xtp+daemon://{path}"
        finally:
            process.terminate()
            process.stdout.read()


def test_messages_go_there_and_back():
    there_and_back("127.0.0.1:0")


def test_messages_go_there_and_back_by_a_daemon(command, tmp_path):
    with daemon(command, tmp_path / "xtpd") as address:
        there_and_back(address)
    with pytest.raises(layercast.NetworkError):
        xtp.Host(address)


def test_a_cancelled_wait_loses_no_part_of_a_message():
    async def main() -> None:
        host = xtp.Host("127.0.0.1:0")
        listener = host.listen(port=PORT)
        messages = [bytes([number]) * 200_000 for number in range(5)]

        async def send() -> None:
            sender = xtp.Host("127.0.0.1:0")
            context = sender.connect(host.address, port=PORT)
            for message in messages:
                await context.send(message)
            await context.close_write()
            await context.settled()

        async def patient(call):
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.001):
                        return await call()

        sending = asyncio.create_task(send())
        context = await patient(listener.accept)
        for message in messages:
            found = await patient(context.receive)
            assert (found.data, found.whole) == (message, True)
        assert await patient(context.receive) is None
        await sending

    run(main)


async def pair() -> tuple[xtp.Context, xtp.Context]:
    """Both ends of an association; the second was opened by the empty message `begin` of the first."""
    far = xtp.Host("127.0.0.1:0")
    # A message of 200 kB needs a peer that takes a part of it.
    listener = far.listen(port=PORT, window=65_536)
    near = xtp.Host("127.0.0.1:0").connect(far.address, port=PORT, send_buffer=65_536)
    await near.send(b"begin")
    there = await listener.accept()
    assert (await there.receive()).data == b"begin"
    return near, there


def test_a_cancelled_send_is_completed_before_the_next():
    async def main() -> None:
        near, there = await pair()
        messages = [bytes([n]) * 400_000 for n in range(6)]
        tags = [f"FRAME{n:03}".encode() for n in range(6)]
        found = []
        for n in (0, 2, 4):
            # The peer takes nothing yet.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(near.send(messages[n], tag=tags[n]), 0.002)
            following = asyncio.create_task(near.send(messages[n + 1], tag=tags[n + 1]))
            found += [await there.receive(), await there.receive()]
            await following
        assert [message.data == sent for message, sent in zip(found, messages, strict=True)] == [True] * 6
        assert [message.tag for message in found] == tags
        # The end of the stream waits for the message, too.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(near.send(b"z" * 400_000), 0.002)
        closing = asyncio.create_task(near.close_write())
        found.append(await there.receive())
        assert found[6].data == b"z" * 400_000
        assert await there.receive() is None
        await closing
        assert all(message.whole and not message.gap for message in found)
        await asyncio.gather(near.close(), there.close())

    run(main)


def test_messages_of_several_tasks_do_not_mix():
    async def main() -> None:
        near, there = await pair()
        messages = [bytes([n]) * 250_000 for n in range(5)]
        sending = [asyncio.create_task(near.send(message)) for message in messages]
        found = [await there.receive() for _ in messages]
        assert [message.data == sent for message, sent in zip(found, messages, strict=True)] == [True] * 5
        await asyncio.gather(*sending)
        await near.close_write()
        assert await there.receive() is None

    run(main)


def test_a_send_that_is_cancelled_before_its_turn_sends_nothing():
    async def main() -> None:
        near, there = await pair()
        first = asyncio.create_task(near.send(b"a" * 600_000))
        second = asyncio.create_task(near.send(b"b"))
        await asyncio.sleep(0.01)
        assert not first.done()
        second.cancel()
        third = asyncio.create_task(near.send(b"c"))
        assert [len((await there.receive()).data), (await there.receive()).data] == [600_000, b"c"]
        await asyncio.gather(first, third)

    run(main)


class Failing:
    """An end whose sends fail once `broken` is set."""

    def __init__(self) -> None:
        self.broken = asyncio.Event()
        self.calls: list[str] = []

    async def send(self, data: bytes, *_: object) -> None:
        self.calls.append("send")
        await self.broken.wait()
        raise layercast.NetworkError("the peer is gone")

    async def settled(self) -> None:
        self.calls.append("settled")

    async def close_write(self) -> None:
        self.calls.append("close_write")

    async def close(self) -> None:
        self.calls.append("close")


@pytest.mark.parametrize(
    ("call", "calls"),
    [
        (lambda context: context.send(b"more"), ["send"]),
        (lambda context: context.settled(), ["send"]),
        (lambda context: context.close_write(), ["send"]),
        (lambda context: context.close(), ["send", "close"]),
    ],
)
def test_the_failure_of_a_cancelled_send_is_raised_once_by_the_next_call(call, calls):
    async def main() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        raw = Failing()
        context = xtp.Context(raw)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(context.send(b"data"), 0.001)
        waiting = asyncio.ensure_future(call(context))
        await asyncio.sleep(0.001)
        assert not waiting.done() and raw.calls == ["send"]
        raw.broken.set()
        with pytest.raises(layercast.NetworkError, match="gone") as failed:
            await waiting
        assert "earlier" in failed.value.__notes__[0]
        assert raw.calls == calls
        await context.settled()
        assert raw.calls == [*calls, "settled"]

        # One that no later call retrieves is not reported by asyncio.
        with pytest.raises(TimeoutError):
            raw.broken.clear()
            await asyncio.wait_for(context.send(b"data"), 0.001)
        raw.broken.set()
        await asyncio.sleep(0.001)
        del context, raw, waiting, failed
        gc.collect()
        assert not reported

    run(main)


def test_an_iteration_continues_after_a_timeout():
    async def main() -> None:
        near, there = await pair()
        messages = aiter(there)
        for text in (b"one", b"two"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(messages), 0.01)
            await near.send(text)
            assert (await anext(messages)).data == text
        await near.close_write()
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(messages)
        await asyncio.gather(near.close(), there.close())
        with pytest.raises(StopAsyncIteration):
            await anext(messages)

    run(main)


def test_a_close_does_not_wait_for_a_receive_that_was_cancelled():
    async def main() -> None:
        near, there = await pair()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(near.receive(), 0.01)
        closing = asyncio.create_task(near.close())
        # The peer closes when it knows that no more comes.
        assert await asyncio.wait_for(there.receive(), 5) is None
        await asyncio.wait_for(asyncio.gather(closing, there.close()), 5)

    run(main)


@pytest.mark.parametrize("call", ["receive", "settled"])
def test_a_close_does_not_wait_for_the_call_of_another_task(call):
    async def main() -> None:
        near, there = await pair()
        if call == "settled":
            # The peer takes none of it, so the answer does not come.
            await near.send(bytes(100_000))
        waiting = asyncio.create_task(getattr(near, call)())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        closing = asyncio.create_task(near.close())
        with pytest.raises(layercast.LayercastError, match="closed"):
            await asyncio.wait_for(waiting, 5)
        # What was sent arrives all the same.
        if call == "settled":
            assert len((await asyncio.wait_for(there.receive(), 5)).data) == 100_000
        assert await asyncio.wait_for(there.receive(), 5) is None
        await asyncio.wait_for(asyncio.gather(closing, there.close()), 5)

    run(main)


SENDER = """
import asyncio, sys
from layercast import xtp

async def main():
    context = xtp.Host(sys.argv[1]).connect(sys.argv[2], int(sys.argv[3]))
    await context.send(b"only this")
    await context.settled()
    print("sent", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_the_streams_of_a_process_that_is_killed_are_broken_off(command, tmp_path):
    async def main() -> None:
        far = xtp.Host("127.0.0.1:0")
        listener = far.listen(PORT)
        arguments = [sys.executable, "-c", SENDER, address, far.address, str(PORT)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as dies:
            there = await listener.accept()
            message = await there.receive()
            assert message.data == b"only this"
            assert await asyncio.to_thread(dies.stdout.readline) == "sent\n"
            dies.kill()
        with pytest.raises(layercast.NetworkError, match="abandoned"):
            await there.receive()

    with daemon(command, tmp_path / "xtpd") as address:
        run(main)


def there_and_back(address: str) -> None:
    async def main() -> None:
        near, far = xtp.Host(address), xtp.Host(address)
        listener = far.listen(PORT, window=65_536)

        async def echo() -> None:
            async with await listener.accept() as other:
                async for message in other:
                    await other.send(message.data[::-1], tag=message.tag)
                await other.close_write()

        answering = asyncio.create_task(echo())
        context = near.connect(far.address, PORT, max_data=1_000, ask=4, rate=(10_000_000, 100_000))
        sent = [bytes([n]) * 30_000 + b"end" for n in range(5)]
        for n, data in enumerate(sent):
            await context.send(data, tag=f"FRAME{n:03}".encode(), priority=n)
        await context.settled()
        info = await context.info()
        assert info["bytes_acked"] == sum(len(data) + 8 for data in sent) and info["max_data"] == 1_000
        await context.close_write()
        back = [message async for message in context]
        assert [message.data for message in back] == [data[::-1] for data in sent]
        assert [message.tag for message in back] == [f"FRAME{n:03}".encode() for n in range(5)]
        assert all(message.whole and not message.gap for message in back)
        await context.close()
        await answering
        assert await context.info() is None
        with pytest.raises(layercast.LayercastError, match="closed"):
            await context.send(b"too late")

    run(main)


def test_what_makes_no_sense_is_told():
    async def main() -> None:
        host = xtp.Host("127.0.0.1:0")
        with pytest.raises(ValueError, match="no service 'telegram'"):
            host.connect(host.address, PORT, service="telegram")
        with pytest.raises(ValueError, match="windw"):
            host.connect(host.address, PORT, windw=1)
        with pytest.raises(layercast.LayercastError, match="between 64 and 65000"):
            host.connect(host.address, PORT, max_data=1)
        with pytest.raises(ValueError, match="no address"):
            xtp.Host("nowhere")
        context = host.connect(host.address, PORT)
        with pytest.raises(ValueError, match="eight bytes"):
            await context.send(b"x", tag=b"short")
        with pytest.raises(layercast.NetworkError, match="refused"):
            await context.receive()

    run(main)


def test_one_sends_to_many_where_there_is_no_multicast():
    async def main() -> None:
        near = xtp.Host("127.0.0.1:0")
        hosts = [xtp.Host("127.0.0.1:0") for _ in range(3)]
        group = "239.255.77.3:7000"
        near.fan_out(group, [host.address for host in hosts])

        async def take(listener: xtp.Listener) -> list[bytes]:
            it = await listener.accept()
            assert await it.joined() == 0
            return [message.data async for message in it]

        listeners = [host.listen(PORT, service="reliable-multicast") for host in hosts]
        takers = [asyncio.ensure_future(take(listener)) for listener in listeners]
        context = near.connect(group, PORT, service="reliable-multicast", wait_for=3)
        messages = [bytes([n]) * 5_000 for n in range(40)]
        for message in messages:
            await context.send(message)
        await context.close_write()
        assert await context.parted(3) == (3, 0)
        for taker in takers:
            assert await taker == messages
        with pytest.raises(ValueError, match="no group"):
            near.fan_out("unknown", [])
        with pytest.raises(layercast.LayercastError, match="no address of a context"):
            near.connect("127.0.0.1:7000", PORT, service="reliable-multicast")

    run(main)


def test_the_curves_of_orl_are_medians_of_runs(monkeypatch):
    calls = iter((1.0, 2.0, 9.0))

    def points() -> list[dict]:
        factor = next(calls)
        return [
            {
                "how": how,
                "network_buffer": buffer,
                "mode": mode,
                "block": block,
                "mbit_s": factor * block,
                "sender_cpu": 0.5,
                "receiver_cpu": 0.25,
            }
            for how in ("library", "daemon")
            for buffer in (2_048, 4_096)
            for mode in xtp_orl.MODES
            for block in xtp_orl.BLOCKS
        ]

    monkeypatch.setattr(xtp_orl, "measure", points)
    xtp_orl.measured.cache_clear()
    found = xtp_orl.measured(3)
    xtp_orl.measured.cache_clear()
    assert list(found.mbit_s["daemon", 4_096, "ack-un"]) == [2 * block for block in xtp_orl.BLOCKS]
    assert found.receiver["library", 2_048, "blast-un"].tolist() == [0.25] * 8


def test_on_the_boards_of_1995_a_larger_packet_brings_what_it_brought_then():
    try:
        sockets.program()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    found = xtp_sandia.curves()
    for buffer, printed in xtp_orl.REPORTED.items():
        for mode, most in printed.items():
            assert found.mbit_s[buffer, mode].max() == pytest.approx(most, rel=0.05)
        assert (found.mbit_s[buffer, "blast-un"] > found.mbit_s[buffer, "ack-un"]).all()
    # A block of one packet gains nothing from a larger one.
    assert found.mbit_s[2_048, "ack-un"][0] == found.mbit_s[4_096, "ack-un"][0]
    assert (found.sender[2_048, "blast-un"] > 0.99).all()


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda host: host.connect(host.address, port=-1), "port is -1: give a whole number from 0 to 65535"),
        (lambda host: host.connect(host.address, port=2**64), "port is 18446744073709551616"),
        (lambda host: host.join(host.address, port=70_000), "port is 70000"),
        (lambda host: host.listen(-1), "port is -1"),
        (lambda host: host.listen(5, backlog=-1), "backlog is -1"),
        (lambda host: host.listen(5, window=-1), "window is -1"),
        (lambda host: host.listen(5, checksum=3), "checksum is 3: give True or False"),
        (lambda host: host.listen(5, rate=(1, -1)), "rate is -1"),
        (lambda host: host.listen(5, rate=7), "rate is 7: give two numbers"),
        (lambda host: host.listen(5, colour=7), "no option 'colour'; there are max_data"),
        (lambda host: host.send_to_groups("127.0.0.1", hops=256), "hops is 256"),
    ],
)
def test_a_wrong_argument_is_named(call, what):
    with pytest.raises(ValueError) as error:
        call(xtp.Host("127.0.0.1:0"))
    assert what in str(error.value)
