"""Studies of partial order connections."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys

import pytest

import layercast
from layercast.partial_order import Flow, Order, Receiver, Sender, consecutive, describe, rate
from layercast_lab import partial_order as poc
from layercast_lab.experiment import Context
from layercast_lab.experiments import partial_order_curves as curves
from layercast_lab.experiments import partial_order_more as more

SHORT = {"seconds": 20.0, "seed": 1}


def test_tolerance_above_the_loss_ends_retransmissions():
    for policy in poc.POLICIES:
        none, most = poc.ask("run", settings=[poc.setting(poc.rate(r), policy, **SHORT) for r in (0, 20)])
        assert none["closed"] and most["closed"]
        assert poc.share([none], "retransmitted") > 5 > 1 > poc.share([most], "retransmitted")
        assert none["atdv_ms"] > 2 * most["atdv_ms"]


def test_runs_depend_on_the_seed_alone():
    setting = poc.setting(poc.rate(10), poc.GROUP, **SHORT)
    one, same, other = poc.ask("run", settings=[setting, setting, setting | {"seed": 2}])
    assert one == same and one["trace"] != other["trace"]


def test_the_order_of_figure_1(tmp_path):
    report = more.e6(Context(tmp_path, seeds=3))
    assert report.rows[0].verdict == report.rows[3].verdict == "reproduced"


def test_errors_say_what_is_wrong():
    bad = poc.setting(poc.rate(10), poc.GROUP, **SHORT) | {"path": poc.LAN | {"loss": 1.0}}
    with pytest.raises(layercast.LayercastError, match="loss of the path"):
        poc.ask("run", settings=[bad])
    with pytest.raises(layercast.LayercastError, match="unknown"):
        poc.ask("what")


def test_values_are_judged_by_part_and_least():
    assert poc.near(11.4, 10) and not poc.near(11.6, 10) and poc.near(0.4, 0)
    assert json.loads(json.dumps(poc.rate(12.5))) == {"rate": {"ppm": 125_000, "window": 100}}
    assert len(curves.PROTOTYPE["e3", poc.GROUP]) == len(curves.TABLE)


NET = """
place v0 video
place a0 audio
place v1 video
transition t0: v0, a0 -> v1
"""


def test_orders_are_counted():
    assert Order.blocks({"video": 2, "audio": 1}).linear_extensions() == 3
    assert Order.tspn(NET).linear_extensions() == 2
    pairs = [((0, 0), (1, 0)), ((0, 1), (1, 0)), ((0, 1), (1, 1))]
    assert Order.dag([2, 2], pairs).linear_extensions() == 5
    with pytest.raises(layercast.LayercastError, match="cycle"):
        Order.dag([2], [((0, 0), (0, 1)), ((0, 1), (0, 0))])


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (lambda: Order.blocks({}), "has 1 to"),
        (lambda: Order.blocks({"v": 0}), "flow 0 has 0"),
        (lambda: Order.blocks({"v": 1.5}), "counts is 1.5: give a whole number"),
        (lambda: Order.blocks({"v": 1}, ["a"]), "parallel names flow 'a': the flows are 'v'"),
        (lambda: Order.blocks([1, 1], [2]), "parallel names flow 2: the flows are 0 to 1"),
        (lambda: Order.dag({"a": 1}, [(("b", 0), ("a", 0))]), "edges names flow 'b': the flows are 'a'"),
        (lambda: Order.dag({"a": 1}, [(("a", -1), ("a", 0))]), "number is -1: give a whole number"),
        (lambda: Order.dag({"a": 1}, [(("a", 0), ("a", 1))]), "1"),
    ],
)
def test_an_order_that_cannot_be_had_is_refused_when_it_is_made(order, why):
    with pytest.raises(ValueError, match=why):
        order()


def test_an_explanation_says_what_held_an_sdu_and_for_how_long():
    async def bundle():
        receiver = Receiver("127.0.0.1:0", explain=8)
        flows = [Flow(period_ms=40), Flow(period_ms=80)]
        sender = await Sender.connect(receiver.address, flows, Order.blocks({"video": 2, "audio": 1}))
        for _ in range(3):
            await sender.send("video", b"picture")
        # The third picture needs the first sound.
        while (waiting := await receiver.explain(0, 2)) is None:
            await asyncio.sleep(0.001)
        assert waiting["delivered_s"] is None
        await asyncio.sleep(0.02)
        await sender.send("audio", b"sound")
        await sender.close()
        with pytest.raises(KeyError, match="no flow 'text'; the flows are video, audio"):
            await sender.send("text", b"")
        assert (await receiver.stats(0))["waited_s"] >= 0.02
        return await receiver.timeline()

    timeline = asyncio.run(asyncio.wait_for(bundle(), 20))
    assert [(entry["flow"], entry["number"]) for entry in timeline] == [(0, 0), (0, 1), (1, 0), (0, 2)]
    (held,) = timeline[3]["held"]
    assert (held["rule"], held["flow"], held["number"]) == ("other_tolerance", 1, 0)
    assert held["until_s"] - held["from_s"] >= 0.02
    lines = describe(timeline, ["video", "audio"]).splitlines()
    assert len(lines) == 5 and lines[3].endswith("video 2 delivered")
    assert lines[4].endswith("ms: audio 0 is missing, and its loss is not tolerated")


def test_a_place_without_a_flow_is_named_with_its_line():
    with pytest.raises(ValueError, match="line 2: 'place b' is no `place PLACE FLOW`"):
        Order.tspn("place a video\nplace b")


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Flow(period_ms=0), "period_ms is 0"),
        (lambda: Flow(period_ms=float("nan")), "period_ms is nan"),
        (lambda: Flow(period_ms=1, grace_ms=-1), "grace_ms is -1"),
        (lambda: Flow(period_ms=1, playout_ms=float("inf")), "playout_ms is inf"),
        (lambda: Flow(period_ms=1, max_sdu=0), "max_sdu is 0"),
        (lambda: Flow(period_ms=1, tolerance="half"), "'half' is no tolerance"),
        (lambda: Flow(period_ms=1, tolerance={"rate": 3}), "is no tolerance"),
        (lambda: Flow(period_ms=1, tolerance=0.1), "0.1 is no tolerance"),
        (lambda: rate(1.5), "share is 1.5: give a number from 0 to 1"),
        (lambda: rate(0.5, window=0), "window is 0: give a whole number from 1"),
        (lambda: consecutive(-1), "most is -1: give a whole number from 0"),
    ],
)
def test_values_without_a_meaning_are_named(make, what):
    with pytest.raises(ValueError, match=re.escape(what)):
        make()


def test_a_cancelled_send_is_not_sent_later():
    async def bundle():
        receiver = Receiver("127.0.0.1:0", names=["video"])
        sender = await Sender.connect(receiver.address, [Flow(period_ms=1)], Order.none())
        sent = 0
        # The receiver takes no events yet: the window is exhausted in the end.
        while True:
            try:
                await asyncio.wait_for(sender.send(0, bytes(900)), 0.3)
            except TimeoutError:
                break
            sent += 1
        closing = asyncio.ensure_future(sender.close())
        await asyncio.sleep(0.05)
        # The sender is taken; the question does not wait for the end of the close.
        with pytest.raises(layercast.LayercastError, match="closed"):
            await asyncio.wait_for(sender.stats(0), 1)
        delivered = [event.number async for event in receiver if event.name == "deliver"]
        await closing
        assert (await receiver.stats("video"))["delivered"] == sent
        with pytest.raises(KeyError, match="the flows are video"):
            await receiver.explain("sound", 0)
        return sent, delivered

    sent, delivered = asyncio.run(asyncio.wait_for(bundle(), 30))
    assert sent > 0 and delivered == list(range(sent))


def test_a_cancelled_wait_loses_nothing():
    async def bundle():
        receiver = Receiver("127.0.0.1:0")
        seen = []

        async def send():
            sender = await Sender.connect(receiver.address, [Flow(period_ms=1)], Order.none())
            for number in range(200):
                await sender.send(0, bytes([number]))
            await sender.close()

        sending = asyncio.create_task(send())
        while not seen or seen[-1].name != "closed":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    async for event in receiver:
                        seen.append(event)
        await sending
        return [event.payload[0] for event in seen if event.name == "deliver"]

    assert sorted(asyncio.run(asyncio.wait_for(bundle(), 20))) == list(range(200))


def test_an_iteration_continues_after_a_timeout():
    async def bundle():
        receiver = Receiver("127.0.0.1:0")
        events = aiter(receiver)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.01)
        sender = await Sender.connect(receiver.address, [Flow(period_ms=1)], Order.none())
        assert (await anext(events)).name == "opened"
        for number in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(events), 0.01)
            await sender.send(0, b"sdu")
            assert (await anext(events)).number == number
        closing = asyncio.ensure_future(sender.close())
        assert (await anext(events)).name == "closed"
        await closing
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(events)

    asyncio.run(asyncio.wait_for(bundle(), 20))


ENDS = """
import asyncio
from layercast.partial_order import Flow, Order, Receiver, Sender

async def main():
    receiver = Receiver("127.0.0.1:0")
    sender = await Sender.connect(receiver.address, [Flow(period_ms=1)], Order.none())

    async def receive():
        async for event in receiver:
            pass

    receiving = asyncio.create_task(receive())
    await asyncio.sleep(0.1)
    raise SystemExit(7)

asyncio.run(main())
"""


def test_a_program_may_end_while_a_task_waits_for_events():
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (7, "")


@pytest.mark.parametrize("quic", [False, True])
def test_a_bundle_arrives_in_order(quic):
    async def bundle():
        receiver = Receiver("127.0.0.1:0", quic=quic, explain=32)
        order = Order.blocks({"video": 2, "audio": 1})
        flows = [Flow(period_ms=10, tolerance=rate(0.1)), Flow(period_ms=20)]
        seen = []

        async def receive():
            async for event in receiver:
                seen.append(event)
                if event.name == "deliver" and (event.flow, event.number) == (1, 4):
                    assert (await receiver.explain(1, 4))["delivered_s"] is not None

        receiving = asyncio.create_task(receive())
        sender = await Sender.connect(receiver.address, flows, order, fingerprint=receiver.fingerprint)
        for block in range(5):
            for flow in ("video", "video", "audio"):
                await sender.send(flow, bytes([block]) * 50)
        assert (await sender.stats("audio"))["submitted"] == 5
        with pytest.raises(layercast.LayercastError, match="bytes"):
            await sender.send("video", bytes(5_000))
        await sender.close()
        await receiving
        return seen

    seen = asyncio.run(asyncio.wait_for(bundle(), 20))
    delivered = [event for event in seen if event.name == "deliver"]
    assert len(delivered) == 15 and seen[0].name == "opened" and seen[-1].name == "closed"
    blocks = [event.payload[0] for event in delivered]
    assert blocks == sorted(blocks)


@pytest.mark.parametrize(
    ("call", "error", "what"),
    [
        (lambda: Order.tspn(5), TypeError, "text is 5: give a net as a str"),
        (lambda: Order.blocks(5), TypeError, "counts is 5"),
        (lambda: Order.blocks("ab"), TypeError, "counts is 'ab'"),
        (lambda: Order.blocks([1], parallel=5), TypeError, "parallel is 5"),
        (lambda: Order.dag([1, 1], 5), TypeError, "edges is 5"),
        (lambda: Order.dag([1, 1], [(0, 1)]), TypeError, "edges is [(0, 1)]"),
        (lambda: rate("x"), ValueError, "share is 'x'"),
        (lambda: Receiver("127.0.0.1:0", explain=-1), ValueError, "explain is -1"),
    ],
)
def test_a_wrong_argument_is_named(call, error, what):
    with pytest.raises(error) as raised:
        call()
    assert what in str(raised.value)


def test_the_number_of_a_flow_is_named():
    async def main() -> None:
        receiver = Receiver("127.0.0.1:0")
        for call, what in [
            (receiver.stats(-1), "flow is -1"),
            (receiver.stats(2**64), "flow is 18446744073709551616"),
            (receiver.explain(0, -1), "number is -1"),
            (receiver.renegotiate(-1, "none"), "flow is -1"),
        ]:
            with pytest.raises(ValueError, match=what):
                await call

    asyncio.run(main())
