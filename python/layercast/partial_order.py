"""Partial order connections on asyncio: flows with an order over their SDUs, and tolerated loss.

An SDU (service data unit) is one packet of a flow.

>>> async def send(pictures, sounds):
...     order = Order.blocks({"video": 2, "audio": 1})
...     flows = [Flow(period_ms=40, tolerance=rate(0.1)), Flow(period_ms=80)]
...     sender = await Sender.connect("127.0.0.1:7000", flows, order)
...     for first, second, sound in zip(pictures, pictures, sounds):
...         await sender.send("video", first)
...         await sender.send("video", second)
...         await sender.send("audio", sound)
...     await sender.close()

>>> async def receive():
...     receiver = Receiver("127.0.0.1:7000")
...     async for event in receiver:
...         if event.name == "deliver":
...             print(event.flow, event.number, len(event.payload))
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from layercast import _checks, _layercast
from layercast._receiving import Kept

__all__ = ["Event", "Flow", "Order", "Receiver", "Sender", "consecutive", "cumulative", "describe", "rate"]

Tolerance = str | Mapping[str, Any]
"""`"full"` (no loss), `"none"` (any loss), or what `rate`, `cumulative` and `consecutive` give."""

_MOST = (1 << 32) - 1
_MOST_SDUS = (1 << 64) - 1


def _ppm(share: float) -> int:
    return round(_checks.within("share", share, 0, 1) * 1e6)


def rate(share: float, window: int = 100) -> Tolerance:
    """At most this share (0 to 1) of the last `window` settled SDUs may be lost."""
    return {"rate": {"ppm": _ppm(share), "window": _checks.whole("window", window, 1, _MOST)}}


def cumulative(share: float) -> Tolerance:
    """At most this share (0 to 1) of all SDUs since the start may be lost."""
    return {"cumulative": {"ppm": _ppm(share)}}


def consecutive(most: int) -> Tolerance:
    """At most this many adjacent SDUs may be lost."""
    return {"consecutive": _checks.whole("most", most, 0, _MOST)}


def _checked(tolerance: Tolerance) -> Tolerance:
    is_named = isinstance(tolerance, str) and tolerance in ("full", "none")
    forms = {"rate": Mapping, "cumulative": Mapping, "consecutive": int}
    is_form = isinstance(tolerance, Mapping) and len(tolerance) == 1
    if not is_named and not (
        is_form and all(isinstance(it, forms.get(key, ())) for key, it in tolerance.items())
    ):
        raise ValueError(
            f"{tolerance!r} is no tolerance: give 'full', 'none', rate(...), cumulative(...) "
            "or consecutive(...)"
        )
    return tolerance


def _number(names: Mapping[str, int], flow: str | int) -> int:
    if not isinstance(flow, str):
        return _checks.whole("flow", flow, 0, _MOST)
    if flow not in names:
        known = ", ".join(names) or "without names"
        raise KeyError(f"there is no flow {flow!r}; the flows are {known}")
    return names[flow]


def _in_seconds(known: Any, times: Sequence[str]) -> Any:
    """Picoseconds under `times` as seconds, under names that end in `_s`."""
    if isinstance(known, list):
        return [_in_seconds(it, times) for it in known]
    if not isinstance(known, dict):
        return known
    found: dict[str, Any] = {}
    for key, value in known.items():
        if key in times:
            found[f"{key}_s"] = None if value is None else value / 1e12
        else:
            found[key] = _in_seconds(value, times)
    return found


STATS_TIMES = ("rtt", "waited")
EXPLANATION_TIMES = ("arrived", "delivered", "from", "until")

RULES = {
    "own_tolerance": "{flow} {number} is missing, and its loss is not tolerated",
    "other_flow": "{flow} {number} is not settled",
    "other_tolerance": "{flow} {number} is missing, and its loss is not tolerated",
    "deadline": "{flow} {number} is missing, and there is time to wait",
    "recovery": "{flow} {number} is requested while another flow holds the SDU",
}
"""What a rule of an explanation says of the SDU that it names."""


def describe(timeline: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> str:
    """A timeline of `Receiver.timeline` as text: a line for each SDU and for each reason that held it.

    Times are those since the first arrival. `names` are those of the flows.
    """

    def name(flow: int) -> str:
        return names[flow] if flow < len(names) else f"flow {flow}"

    begin = min((entry["arrived_s"] for entry in timeline), default=0.0)
    lines = []
    for entry in timeline:
        at = 1e3 * (entry["arrived_s"] - begin)
        waits = entry["delivered_s"] is None
        lines.append(
            f"{at:9.1f} ms  {name(entry['flow'])} {entry['number']} {'waits' if waits else 'delivered'}"
        )
        for held in entry["held"]:
            of = {"flow": name(held.get("flow", entry["flow"])), "number": held["number"]}
            lasted = 1e3 * (held["until_s"] - held["from_s"])
            lines.append(f"{'':14}held for {lasted:.1f} ms: {RULES[held['rule']].format(**of)}")
    return "\n".join(lines)


MOST = 2**32 - 1
"""The most SDUs of a flow that an order can name; the library permits fewer, and says how many."""


def _counted(counts: Mapping[str, int] | Sequence[int]) -> tuple[tuple[str, ...], list[int]]:
    """The names of the flows, if they have any, and a number of SDUs for each."""
    if isinstance(counts, str | bytes) or not isinstance(counts, Mapping | Sequence):
        raise TypeError(
            f"counts is {counts!r}: give a number of SDUs for each flow, such as {{'video': 2}} or [2, 1]"
        )
    names = tuple(counts) if isinstance(counts, Mapping) else ()
    numbers = counts.values() if isinstance(counts, Mapping) else counts
    return names, [_checks.whole("counts", number, 0, MOST) for number in numbers]


def _place(flow: str | int, names: tuple[str, ...], flows: int, what: str) -> int:
    """The place of a flow that is named, or given by its place."""
    if flow in names:
        return names.index(flow)
    if names or isinstance(flow, bool) or not isinstance(flow, int) or not 0 <= flow < flows:
        known = ", ".join(map(repr, names)) or f"0 to {flows - 1}"
        raise ValueError(f"{what} names flow {flow!r}: the flows are {known}")
    return flow


@dataclass(frozen=True)
class Order:
    """A partial order over the SDUs of all flows."""

    form: Any
    names: tuple[str, ...] = ()
    """Names of the flows, if they have any."""

    def __post_init__(self) -> None:
        _layercast.partial_order_check(json.dumps(self.form))

    @staticmethod
    def none() -> Order:
        """Each SDU is delivered when it arrives."""
        return Order("none")

    @staticmethod
    def blocks(counts: Mapping[str, int] | Sequence[int], parallel: Sequence[str | int] = ()) -> Order:
        """Blocks in series with these counts of SDUs; flows in `parallel` have no order inside a block."""
        names, numbers = _counted(counts)
        if isinstance(parallel, str) or not isinstance(parallel, Sequence):
            raise TypeError(f"parallel is {parallel!r}: give a list of flows")
        places = {_place(flow, names, len(numbers), "parallel") for flow in parallel}
        flags = [place in places for place in range(len(numbers))]
        return Order({"blocks": {"counts": numbers, "parallel": flags}}, names)

    @staticmethod
    def dag(
        counts: Mapping[str, int] | Sequence[int],
        edges: Sequence[tuple[tuple[str | int, int], tuple[str | int, int]]],
    ) -> Order:
        """A finite order: SDUs of each flow, and pairs ((flow, number), (flow, number)), earlier first."""
        names, numbers = _counted(counts)
        try:
            pairs = [[(flow, number) for flow, number in edge] for edge in edges]
        except (TypeError, ValueError):
            raise TypeError(
                f"edges is {edges!r}: give pairs ((flow, number), (flow, number)), the earlier SDU first"
            ) from None
        flows = len(numbers)
        pairs = [
            [
                [_place(flow, names, flows, "edges"), _checks.whole("number", number, 0, MOST)]
                for flow, number in pair
            ]
            for pair in pairs
        ]
        return Order({"dag": {"counts": numbers, "edges": pairs}}, names)

    @staticmethod
    def tspn(text: str) -> Order:
        """A Timed Stream Petri Net: lines `place PLACE FLOW` and `transition NAME: PLACES -> PLACES`."""
        flows = []
        for number, line in enumerate(_checks.text("text", text, "a net").splitlines(), 1):
            words = line.split()
            if words[:1] != ["place"]:
                continue
            if len(words) != 3:
                raise ValueError(f"line {number}: {line.strip()!r} is no `place PLACE FLOW`")
            flows.append(words[2])
        return Order({"tspn": text}, tuple(dict.fromkeys(flows)))

    def linear_extensions(self) -> int | None:
        """The number of sequences that the order permits (of blocks: of one); `None` if it is not known."""
        found = _layercast.partial_order_extensions(json.dumps(self.form))
        return None if found is None else int(found)


@dataclass(frozen=True)
class Flow:
    """A flow: its period, its tolerated loss, and how long its SDUs wait for missing ones."""

    period_ms: float
    tolerance: Tolerance = "full"
    max_sdu: int | None = None
    grace_ms: float | None = None
    playout_ms: float | None = None

    def __post_init__(self) -> None:
        _checked(self.tolerance)
        longest = _checks.LONGEST * 1e3
        _checks.above_zero("period_ms", self.period_ms, longest, unit="ms")
        for name in ("grace_ms", "playout_ms"):
            if (value := getattr(self, name)) is not None:
                _checks.within(name, value, 0, longest, unit="ms")
        if self.max_sdu is not None:
            _checks.whole("max_sdu", self.max_sdu, 1, 65_535)


@dataclass(frozen=True)
class Event:
    """What a receiver reports.

    `opened`, `deliver`, `lost` (before each SDU that is delivered without them), `late` (an SDU arrived after
    it was declared lost), `qos_violated` (the sender no longer holds an SDU whose loss is not tolerated),
    `stalled` (a warning: SDUs wait, and nothing was delivered for 5 s); at the end `closed`, or `peer_dead`
    if the sender ended without a close or sent nothing for 10 s.
    """

    name: str
    flow: int | None = None
    number: int | None = None
    payload: bytes | None = None
    numbers: tuple[int, ...] = ()
    """Of `lost`."""
    cause: Any = None
    """Of `lost`: `own_flow`, `{"group": {"by": flow}}`, `sender_gone` or `closed`."""
    waited_s: float = 0.0
    """Of `deliver`: how long the order held the SDU."""
    waiting_for: Mapping[str, Any] = field(default_factory=dict)
    """Of `stalled`."""


class Sender:
    """The sending end of a connection."""

    def __init__(self, raw: Any, names: tuple[str, ...]) -> None:
        self._raw = raw
        self._names = {name: n for n, name in enumerate(names)}

    @classmethod
    async def connect(
        cls,
        address: str,
        flows: Sequence[Flow],
        order: Order,
        *,
        policy: Literal["media_per_media", "per_group"] = "per_group",
        opportunistic: bool = False,
        infer: bool = False,
        fingerprint: str | None = None,
    ) -> Sender:
        """Opens a connection: over QUIC to the receiver with `fingerprint`, without one over plain UDP."""
        config = {
            "flows": [vars(flow) for flow in flows],
            "order": order.form,
            "policy": policy,
            "opportunistic": opportunistic,
            "infer": infer,
        }
        return cls(
            await _layercast.partial_order_connect(address, json.dumps(config), fingerprint), order.names
        )

    def _flow(self, flow: str | int) -> int:
        return _number(self._names, flow)

    async def send(self, flow: str | int, sdu: bytes) -> int:
        """Sends an SDU and gives its number; waits while the window of the flow is exhausted.

        If it is cancelled before the window has room, the SDU is not sent. An SDU that was submitted before
        the cancellation arrived is sent; `stats` counts it in `submitted`.
        """
        return await self._raw.send(self._flow(flow), sdu)

    async def pause(self, flow: str | int) -> None:
        """The flow has no SDUs until `resume`: it does not hold the others."""
        await self._raw.pause(self._flow(flow), True)

    async def resume(self, flow: str | int) -> None:
        """The flow has SDUs again."""
        await self._raw.pause(self._flow(flow), False)

    async def stats(self, flow: str | int) -> dict[str, Any]:
        """The counters of a flow; times are in seconds (`rtt_s`)."""
        return _in_seconds(json.loads(await self._raw.stats(self._flow(flow))), STATS_TIMES)

    async def ignored(self) -> dict[str, int]:
        """Datagrams that changed nothing: `bad_pdu` and those of other addresses, `strangers`."""
        return json.loads(await self._raw.ignored())

    async def close(self) -> None:
        """Waits until each SDU is delivered or lost at the receiver."""
        await self._raw.close()


class Receiver:
    """The receiving end of one connection, over UDP or, with `quic`, over QUIC datagrams.

    `async for event in receiver` gives the events in sequence, and ends after `closed` or `peer_dead`. A
    cancelled task loses no event: the iteration may continue. `explain` is the number of delivered SDUs
    whose history is kept. With `names`, those of the flows in their sequence, the methods take a name for
    a flow.
    """

    def __init__(
        self, address: str, *, quic: bool = False, explain: int = 0, names: Sequence[str] = ()
    ) -> None:
        self._names = {name: n for n, name in enumerate(names)}
        explain = _checks.whole("explain", explain, 0, _MOST)
        self._raw = _layercast.partial_order_bind(address, quic, explain)
        self._next = Kept(self._raw.recv)
        self._ended = False

    @property
    def address(self) -> str:
        """The address to send to."""
        return self._raw.address()

    @property
    def fingerprint(self) -> str | None:
        """What a sender over QUIC has to trust."""
        return self._raw.fingerprint()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        found = None if self._ended else await self._next()
        if found is None:
            self._ended = True
            raise StopAsyncIteration
        name, fields, payload = found
        self._ended = name in ("closed", "peer_dead")
        known = json.loads(fields)
        known["numbers"] = tuple(known.get("numbers", ()))
        known.pop("flows", None)
        return Event(name, payload=payload, **known)

    async def stats(self, flow: str | int) -> dict[str, Any]:
        """The counters of a flow; times are in seconds (`waited_s`)."""
        return _in_seconds(json.loads(await self._raw.stats(_number(self._names, flow))), STATS_TIMES)

    async def ignored(self) -> dict[str, int]:
        """Datagrams that changed nothing: `bad_pdu` and those of other addresses, `strangers`."""
        return json.loads(await self._raw.ignored())

    async def explain(self, flow: str | int, number: int) -> dict[str, Any] | None:
        """What held an SDU: `held` has rules with flow and number of a predecessor, `from_s` and `until_s`.

        Times are in seconds of the clock of the receiver. `None`: it did not arrive, or is no longer kept.
        """
        number = _checks.whole("number", number, 0, _MOST_SDUS)
        found = await self._raw.explain(_number(self._names, flow), number)
        return _in_seconds(json.loads(found), EXPLANATION_TIMES)

    async def timeline(self) -> list[dict[str, Any]]:
        """The last delivered SDUs as `explain` gives them, oldest first; `describe` makes a text of them."""
        return _in_seconds(json.loads(await self._raw.timeline()), EXPLANATION_TIMES)

    async def renegotiate(self, flow: str | int, tolerance: Tolerance) -> bool:
        """Applies another tolerance to later losses; gives whether the flow exists."""
        number = _number(self._names, flow)
        return await self._raw.renegotiate(number, json.dumps(_checked(tolerance)))
