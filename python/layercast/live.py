"""Live flows on asyncio: media, control and management sockets (specs/mets.md 2.2).

A source, in five lines:

>>> async def source(frames):
...     async with layercast.Server("127.0.0.1:0") as server:
...         group = await server.open_group("film")
...         print("join", group.url)
...         for frame in frames:
...             await group.send(frame)

A sink, in five lines:

>>> async def sink(url):
...     async with await layercast.join(url) as (media, control, management):
...         async for frame in media:
...             print(frame.layer.name, len(frame.data))
"""

from __future__ import annotations

import asyncio
import atexit
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Any

from layercast import _checks, _layercast
from layercast._layercast import (
    AdmissionError,
    BusyError,
    ClosedError,
    InvalidError,
    NetworkError,
    NoFilterError,
    NotRegisteredError,
    PolicyError,
    QosError,
    TimedOutError,
)
from layercast._receiving import Kept

__all__ = [
    "AdmissionError",
    "BusyError",
    "ClosedError",
    "Control",
    "Group",
    "GroupControl",
    "InvalidError",
    "Layer",
    "Management",
    "Media",
    "Member",
    "NetworkError",
    "NoFilterError",
    "NotRegisteredError",
    "Played",
    "PolicyError",
    "QosError",
    "Server",
    "Session",
    "TimedOutError",
    "Upcall",
    "join",
]


# A thread of the library that hands over its last result needs the interpreter a moment longer than the
# program: one that still waits for it when it is taken down would take the process with it.
atexit.register(time.sleep, 0.1)


COMPOSITIONS = ("additive", "alternative")
"""What the layers of a flow are to each other."""
FASTEST, SLOWEST = 1_000.0, 0.001
"""Frame rates in frames a second."""
MOST_DELAY = 3_600.0
"""The longest delay and grace in seconds."""
_MOST_MEMBERS = 0xFFFF_FFFF


def _seconds(name: str, value: float, most: float = _checks.LONGEST) -> float:
    return _checks.within(name, value, 0, most, unit="seconds", error=InvalidError)


def _level(name: str, value: int) -> int:
    return _checks.whole(name, value, 0, 2, error=InvalidError)


class Layer(IntEnum):
    """A layer of a flow: the base layer is promised, the others come with the bandwidth there is."""

    BL = 0
    E1 = 1
    E2 = 2


@dataclass(frozen=True, slots=True)
class Played:
    """A frame that is due."""

    seq: int
    """Its number in the flow, modulo 2^32; frames of layers that are not granted leave gaps."""
    layer: Layer
    gop_start: bool
    """Whether it opens a group of pictures."""
    sound: bool
    """Whether it is sound. Pictures come in the order of their numbers, and so does sound; while pictures
    wait for a missing one, sound may overtake them, and the other way round."""
    delay: float
    """From emission to arrival, in seconds."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group."""

    name: str
    id: int


@dataclass(frozen=True, slots=True)
class Upcall:
    """A signalQoS upcall: periodic figures (kind "signal") or an event (kind "event")."""

    kind: str
    name: str
    """Name of the event, such as "LAYER_ADD"; "QOS_METRIC" for figures."""
    text: str
    """The event in words."""
    data: Mapping[str, Any]
    """Its figures: spans and delays in picoseconds, rates in cells/s."""


class Media:
    """The media socket of a sink: iterate over it to get each frame when it is due."""

    def __init__(self, raw: _layercast.LiveMedia) -> None:
        self._raw = raw
        self._next = Kept(raw.recv)

    @property
    def flow(self) -> str:
        """Name of the flow."""
        return self._raw.flow()

    async def recv(self) -> Played | None:
        """The next frame, when it is due; None once the flow is over."""
        frame = await self._next()
        if frame is None:
            return None
        seq, layer, gop_start, sound, delay, data = frame
        return Played(seq, Layer(layer), gop_start, sound, delay, data)

    def __aiter__(self) -> AsyncIterator[Played]:
        return self

    async def __anext__(self) -> Played:
        frame = await self.recv()
        if frame is None:
            raise StopAsyncIteration
        return frame


class Control:
    """The control socket of a sink: messages of at most 16 KiB to the source and back, in order."""

    def __init__(self, raw: _layercast.LiveControl) -> None:
        self._raw = raw
        self._next = Kept(raw.recv)

    async def send(self, message: bytes) -> None:
        """Send a message to the source. Raises InvalidError, BusyError or ClosedError."""
        await self._raw.send(message)

    async def recv(self) -> bytes | None:
        """The next message of the source; None once the flow is over."""
        return await self._next()


class GroupControl:
    """The control sockets of all members of a group, as its source has them."""

    def __init__(self, raw: _layercast.LiveGroupControl) -> None:
        self._raw = raw
        self._next = Kept(raw.recv)

    async def send(self, member: Member, message: bytes) -> None:
        """Send a message to a member. Raises InvalidError, BusyError or ClosedError."""
        number = _checks.whole("member.id", member.id, 0, _MOST_MEMBERS, error=InvalidError)
        await self._raw.send(member.name, number, message)

    async def recv(self) -> tuple[Member, bytes] | None:
        """The next message of any member; None once the group is closed."""
        message = await self._next()
        if message is None:
            return None
        name, number, data = message
        return Member(name, number), data


class Management:
    """The management socket: requests to, and upcalls from, the QoS management of this host.

    Iterate over it to get the upcalls.
    """

    def __init__(self, raw: _layercast.LiveManagement) -> None:
        self._raw = raw
        self._next = Kept(raw.signal)

    async def register(self, media: Media | Group) -> None:
        """Bind a media socket (registerSoc): only then requests are served. Done unless asked not to."""
        await self._raw.register(media._raw)

    async def change_qos(self, option: str, structure: Any = None) -> None:
        """Ask for a change (changeQoS); an exception is a Nak, after which all is as it was.

        `option` is "flow_spec", "qos_policy", "maint", "monitor", "signal", "adapt", "filter" or
        "event"; `structure` what it needs: a mapping with the fields of FlowSpec, QosPolicy or Alarm,
        "none", "discrete" or "continuous", or a list of filters.
        """
        request = option if structure is None else {option: structure}
        await self._raw.change_qos(json.dumps(request))

    async def signal(self) -> Upcall | None:
        """The next upcall (signalQoS); None once the flow is over and all were taken."""
        text = await self._next()
        if text is None:
            return None
        told = json.loads(text)
        return Upcall(told["kind"], told["name"], told["text"], told["data"]["option"])

    async def info(self) -> dict[str, Any]:
        """What is known of the group (getGroupInfo): name, server, spec, policy, layers, core, members."""
        return json.loads(await self._raw.info())

    async def stats(self) -> list[dict[str, Any]]:
        """The receivers of the flow, with their quality (getGroupStats)."""
        return json.loads(await self._raw.stats())

    async def allow_raise(self) -> None:
        """Answer a MAY_RAISE upcall: a higher level is welcome."""
        await self._raw.allow_raise()

    async def set_profile(self, profile: str | None) -> None:
        """Want something else of the network than before, as `profile` of `join` does; None: nothing more.

        The upcall "AGREED" tells when another contract is in force. Raises AdmissionError if it is not
        offered: then everything is as it was; InvalidError.
        """
        await self._raw.set_profile(profile)

    async def leave(self, reason: str = "user") -> None:
        """Leave the group (leaveGroup); `reason` is "user", "policy" or "failure"."""
        await self._raw.leave(reason)

    def __aiter__(self) -> AsyncIterator[Upcall]:
        return self

    async def __anext__(self) -> Upcall:
        upcall = await self.signal()
        if upcall is None:
            raise StopAsyncIteration
        return upcall


class Session(tuple[Media, Control, Management]):
    """The three sockets of a sink; as a context manager it leaves the flow at its end."""

    __slots__ = ()

    media = property(lambda self: self[0], doc="The media socket.")
    control = property(lambda self: self[1], doc="The control socket.")
    management = property(lambda self: self[2], doc="The management socket.")

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.management.leave()


class Group:
    """An open group: the source's media socket, and the way to its control and management sockets."""

    def __init__(self, raw: _layercast.LiveGroup) -> None:
        self._raw = raw
        self.control = GroupControl(raw.control())
        self.management = Management(raw.management())

    @property
    def url(self) -> str:
        """What a sink joins with."""
        return self._raw.url(None)

    def url_at(self, host: str) -> str:
        """What a sink joins with that knows this machine as `host`."""
        return self._raw.url(host)

    def url_for(self, member: str | None = None, *, level: int = 2, valid: float = 8 * 3600.0) -> str:
        """What a sink joins a sealed group with that gets a token.

        For the member of that name, or for any holder of the URL; for layers up to `level`; to join
        within `valid` seconds, at most 115 days. Hand it over like a password. Raises InvalidError if the
        group is not sealed.
        """
        return self._raw.url_for(member, _level("level", level), _seconds("valid", valid))

    async def send(
        self,
        data: bytes,
        layer: int = Layer.BL,
        *,
        gop_start: bool | None = None,
        sound: bool = False,
        time: float | None = None,
    ) -> None:
        """Send a frame: frames of every layer, in the order in which they are decoded.

        `gop_start` says whether it opens a group of pictures; if it is not given, frames of the base
        layer do, unless they are `sound`: that, or other data beside the pictures, without references from
        one to the other. `time` is when it is due, in seconds from the start of the flow; if it is not given,
        at its slot of the frame rate. Waits while the flow is a few frames ahead of its schedule. Raises
        InvalidError for other layers, and for times that are not from 0 s to 115 days.
        """
        layer = _level("layer", layer)
        if time is not None:
            time = _seconds("time", time)
        opens = layer == Layer.BL and not sound if gop_start is None else gop_start
        await self._raw.send(data, layer, opens, sound, time)

    async def wait_for_members(self, members: int = 1) -> None:
        """Wait until the group has this number of members."""
        await self._raw.wait_for_members(
            _checks.whole("members", members, 0, _MOST_MEMBERS, error=InvalidError)
        )

    async def close(self, grace: float = 5.0) -> int:
        """Close the group (closeGroup): frames that were sent leave within `grace` seconds, at most 3600.

        Returns the number of frames that did not.
        """
        return await self._raw.close(_seconds("grace", grace, MOST_DELAY))

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Server:
    """A host with sources, at HOST:PORT; port 0 lets the system choose. Its links are protected."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._raw: _layercast.LiveServer | None = None
        self._groups: list[Group] = []

    async def __aenter__(self) -> Server:
        self._raw = await _layercast.bind(self.address)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close its groups, and stop."""
        await asyncio.gather(*(group.close() for group in self._groups))
        if self._raw is not None:
            await self._raw.close()

    async def open_group(
        self,
        name: str,
        *,
        spec: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        composition: str = "additive",
        frame_rate: float | Fraction = 24,
        delay_max: float | None = None,
        core: str | None = None,
        wait_for: int = 0,
        registered: bool = True,
        sealed: bool = False,
        tokens: bool = False,
    ) -> Group:
        """Open a group (openGroup).

        What the flow needs is learned from its first group of pictures, at `frame_rate` frames a second,
        and renegotiated when later ones need more, unless `spec` says. `policy` has the fields of
        QosPolicy. With `composition` "additive" a level is the sum of its layers; with "alternative" it is
        one layer, a whole rendition: frames of one time are sent together, the base layer first, and
        `frame_rate` counts all of them. A `spec` has its own composition. Frames are played `delay_max`
        seconds after they were sent, 0.5 by default. A frame rate is from 0.001 to 1000, a delay is above
        0 and at most 3600 s: InvalidError for others. `core` names
        the core switch. The first frame is kept until `wait_for` members have joined. `sealed`: nodes on
        the way can neither read nor change the media; `tokens`: so, and only members with a URL of
        `Group.url_for` may join.
        """
        if self._raw is None:
            raise ClosedError("the server is not running: use it as a context manager")
        _checks.within("frame_rate", frame_rate, SLOWEST, FASTEST, unit="frames a second", error=InvalidError)
        if delay_max is not None:
            delay_max = _checks.above_zero(
                "delay_max", delay_max, MOST_DELAY, unit="seconds", error=InvalidError
            )
        if composition not in COMPOSITIONS:
            raise InvalidError(f"composition {composition!r} is none of {', '.join(COMPOSITIONS)}")
        wait_for = _checks.whole("wait_for", wait_for, 0, _MOST_MEMBERS, error=InvalidError)
        rate = Fraction(frame_rate).limit_denominator(1001)
        options = {
            "spec": spec,
            "policy": policy,
            "composition": composition,
            "frame_rate": (rate.numerator, rate.denominator),
            "delay_max": delay_max,
            "core": core,
            "wait_for": wait_for,
            "registered": registered,
            "sealed": sealed,
            "tokens": tokens,
        }
        group = Group(await self._raw.open_group(name, json.dumps(options)))
        self._groups.append(group)
        return group


async def join(
    url: str,
    *,
    name: str | None = None,
    level: int = 2,
    spec: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    profile: str | None = None,
    playout: float | None = None,
    sync: float | None = None,
    authorities: str | None = None,
    within: float = 10.0,
    registered: bool = True,
) -> Session:
    """Join the flow at `url` (joinGroup): its media, control and management sockets.

    When it returns the base layer is reserved on the whole way. `level` is the highest wanted, 0 to 2.
    Frames are played `playout` seconds after they were sent, at most 3600, if it is given; or `sync` seconds
    after their time at the source, at the same moment at all members with the same value, on any host. While
    the name of the host has no address, no node answers there, or the flow is missing, it tries for `within`
    seconds, at most 115 days. `profile` is what the user wants of the network: the name of a profile of the
    program, such as "conferencing", or the path of a file; the upcall "AGREED" tells what is agreed.
    `authorities` is a PEM file to believe where the address has no fingerprint.
    Raises AdmissionError with the node, the resource and what there is, InvalidError, NetworkError.
    """
    options = {
        "name": name,
        "level": _level("level", level),
        "spec": spec,
        "policy": policy,
        "profile": profile,
        "playout": None if playout is None else _seconds("playout", playout, MOST_DELAY),
        "sync": None if sync is None else _seconds("sync", sync, MOST_DELAY),
        "authorities": authorities,
        "within": _seconds("within", within),
        "registered": registered,
    }
    media, control, management = await _layercast.join(url, json.dumps(options))
    sockets: Sequence[Any] = (Media(media), Control(control), Management(management))
    return Session(sockets)
