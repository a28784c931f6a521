"""XTP 4.0 on asyncio: many services from one transport, over UDP or IP itself (docs/src/reference/xtp.md).

>>> async def caller(messages):
...     host = xtp.Host("127.0.0.1:0")
...     context = host.connect("127.0.0.1:7000", port=7000, service="stream")
...     for message in messages:
...         await context.send(message)
...     await context.close()

>>> async def listener():
...     host = xtp.Host("127.0.0.1:7000")
...     with_whom = await host.listen(port=7000).accept()
...     async for message in with_whom:
...         print(len(message.data), message.tag)
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from layercast import _checks, _layercast
from layercast._receiving import Kept
from layercast._sending import InTurn

__all__ = ["Context", "Host", "Listener", "Message", "Service"]

Service = Literal[
    "unspecified", "datagram", "acked-datagram", "transaction", "stream", "multicast", "reliable-multicast"
]
_SERVICES: Mapping[str, int] = {
    "unspecified": 0,
    "datagram": 1,
    "acked-datagram": 2,
    "transaction": 3,
    "stream": 4,
    "multicast": 5,
    "reliable-multicast": 6,
}
_MOST_PORT, _MOST_BACKLOG = 0xFFFF, 0xFFFF_FFFF
# Options that are whole numbers, and the most they can be.
_WHOLE: Mapping[str, int] = dict.fromkeys(
    ("max_data", "window", "send_buffer", "ask", "wait_for"), 0xFFFF_FFFF
)
_FLAGS = ("error_control", "flow_control", "checksum", "fast_nak", "go_back")
_MOST_RATE = (1 << 64) - 1
# Most bytes of a message that are taken in one piece.
_MOST = 1 << 16


@dataclass(frozen=True, slots=True)
class Message:
    """A message that arrived."""

    data: bytes
    tag: bytes | None
    """The eight bytes that the sender put before it."""
    gap: bool
    """Whether something before it, or in it, was lost for good."""
    whole: bool
    """Whether its end arrived; without, the stream ended first."""


@dataclass(slots=True)
class _Begun:
    """The parts of a message whose end has not arrived."""

    data: bytearray = field(default_factory=bytearray)
    tag: bytes | None = None
    gap: bool = False


def _options(service: Service, options: Mapping[str, Any]) -> str:
    if service not in _SERVICES:
        raise ValueError(f"no service {service!r}; there are {', '.join(_SERVICES)}")
    return json.dumps(
        {"service": _SERVICES[service], **{name: _option(name, options[name]) for name in options}}
    )


def _option(name: str, value: Any) -> Any:
    """The value of an option; raises ValueError."""
    if value is None:
        return None
    if name in _WHOLE:
        return _checks.whole(name, value, 0, _WHOLE[name])
    if name in _FLAGS:
        return _checks.flag(name, value)
    if name == "rate":
        if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) != 2:
            raise ValueError(f"rate is {value!r}: give two numbers, bytes per second and bytes in a row")
        return [_checks.whole("rate", it, 0, _MOST_RATE) for it in value]
    known = ", ".join((*_WHOLE, *_FLAGS, "rate"))
    raise ValueError(f"no option {name!r}; there are {known}")


def _port(port: int) -> int:
    return _checks.whole("port", port, 0, _MOST_PORT)


class Host:
    """XTP on one socket, with as many contexts as there are users.

    `address` is that of the UDP socket, such as "127.0.0.1:0"; with `raw` packets go over IP itself, which
    takes CAP_NET_RAW, and the port counts for nothing. "xtp+daemon:///run/user/1000/xtpd" is the daemon that
    serves this path (`layercast xtpd`): the same calls, its socket and its contexts.
    """

    def __init__(self, address: str, *, raw: bool = False) -> None:
        self._raw = _layercast.xtp_bind(address, raw)

    @property
    def address(self) -> str:
        """Where peers find it; a daemon's is for all its clients."""
        return self._raw.address()

    def connect(self, remote: str, port: int, service: Service = "stream", **options: Any) -> Context:
        """Opens an association with a port of XTP at a socket.

        Options are those of `XtpConfig` (docs/src/reference/xtp.md):
        window, send_buffer, max_data (bytes), error_control,
        flow_control, checksum, fast_nak, go_back, ask (packets for each question, 0: none), rate (bytes per
        second, bytes in a row), wait_for (receivers of multicast before the first data). ValueError for those
        that make no sense. For the multicast services `remote` is a group, such as "239.1.2.3:7000".
        """
        return Context(self._raw.connect(remote, _port(port), _options(service, options)))

    def listen(self, port: int, backlog: int = 16, service: Service = "stream", **options: Any) -> Listener:
        """Takes associations to a port of XTP; options as of `connect`."""
        backlog = _checks.whole("backlog", backlog, 0, _MOST_BACKLOG)
        return Listener(self._raw.listen(_port(port), backlog, _options(service, options)))

    def join(
        self, remote: str, port: int, service: Service = "reliable-multicast", **options: Any
    ) -> Context:
        """Asks to be let into a multicast association under way, at its group or at its transmitter."""
        return Context(self._raw.join(remote, _port(port), _options(service, options)))

    def join_group(self, group: str, interface: str) -> None:
        """Takes the datagrams to a group of UDP ("239.1.2.3:7000") on the interface with this address."""
        self._raw.join_group(group, interface)

    def send_to_groups(self, interface: str, hops: int = 1) -> None:
        """Sends packets to groups through the interface with this address, at most `hops` hops far."""
        self._raw.send_to_groups(interface, _checks.whole("hops", hops, 0, 255))

    def fan_out(self, group: str, hosts: Sequence[str]) -> None:
        """Where the network has no multicast: packets to the group are sent to each of these instead."""
        self._raw.fan_out(group, list(hosts))


class Listener:
    """A port that takes associations."""

    def __init__(self, raw: _layercast.XtpSocketListener) -> None:
        self._next = Kept(raw.accept)

    async def accept(self) -> Context:
        """The next association."""
        return Context(await self._next())


class Context:
    """One end of an association; iterate over it to get the messages of the peer.

    Tasks of one event loop may share it: their calls of `send` run one after the other, and a cancelled task
    loses no message. RuntimeError for those of another loop.
    """

    def __init__(self, raw: _layercast.XtpSocketEnd) -> None:
        self._raw = raw
        self._next = Kept(lambda: raw.receive(_MOST))
        self._begun = _Begun()
        self._ended = False
        self._sends = InTurn()

    async def send(
        self,
        data: bytes,
        *,
        tag: bytes | None = None,
        reliable: bool = True,
        priority: int | None = None,
        end: bool = True,
    ) -> None:
        """Sends a message, or with `end=False` a part of one; waits until the last byte found room.

        Calls of several tasks run one after the other, each as a whole; the parts of one message have to come
        from one task. A call that is cancelled before its turn sends nothing. One that has begun continues in
        the background until the message is complete, as long as the event loop runs; the next `send`,
        `settled`, `close_write` or `close` waits for it, and raises its exception if it failed.

        `tag` are eight bytes that stand before it; what is not `reliable` stays lost if it gets lost; of what
        has a `priority` less goes before more.
        """
        if tag is not None and len(tag) != 8:
            raise ValueError(f"a tag has eight bytes, not {len(tag)}")
        if priority is not None:
            priority = _checks.whole("priority", priority, 0, 0xFFFF)
        await self._sends(lambda: self._raw.send(data, end, tag, reliable, priority))

    async def receive(self) -> Message | None:
        """The next message; None after the last.

        If it is cancelled, the next call continues with the same message.
        """
        if self._ended:
            return None
        while chunk := await self._next():
            piece, tag, ends, lost = chunk
            begun = self._begun
            begun.data += piece
            begun.tag = begun.tag or tag
            begun.gap |= lost
            if ends:
                return self._take(whole=True)
        self._ended = True
        begun = self._begun
        return self._take(whole=False) if begun.data or begun.tag else None

    def _take(self, *, whole: bool) -> Message:
        begun, self._begun = self._begun, _Begun()
        return Message(bytes(begun.data), begun.tag, begun.gap, whole)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        message = await self.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    async def settled(self) -> None:
        """Waits until everything sent has left and the peer has answered.

        Raises the exception of an earlier `send` that was cancelled and failed.
        """
        if (failure := await self._sends.finish()) is not None:
            raise failure
        await self._raw.settled()

    async def joined(self) -> int:
        """Waits until the transmitter of a multicast association has let us in; the first byte we get."""
        return await self._raw.joined()

    async def parted(self, receivers: int) -> tuple[int, int]:
        """Waits until this number of receivers is gone; returns how many are complete, how many not."""
        return await self._raw.parted(_checks.whole("receivers", receivers, 0, _MOST_RATE))

    async def close_write(self) -> None:
        """Ends the stream to the peer after the sends that have begun; receiving continues.

        Raises the exception of an earlier `send` that was cancelled and failed; the stream is then not ended.
        """
        await self._sends(self._raw.close_write)

    async def info(self) -> dict[str, Any] | None:
        """What is known of it; None once it is closed."""
        told = await self._raw.info()
        return json.loads(told) if told else None

    async def close(self) -> None:
        """Closes this end after the sends that have begun, and waits until the peer has closed, too.

        Everything sent is delivered; nothing more is received: a `receive`, `settled`, `joined` or `parted`
        of another task that still waits raises LayercastError. Raises the exception of an earlier `send` that
        was cancelled and failed, after the close.
        """
        failure = await self._sends.finish()
        self._next.drop()
        await self._raw.close()
        if failure is not None:
            raise failure

    async def __aenter__(self) -> Context:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
