import math
import os
from collections import Counter

import pytest

import layercast
from layercast_lab import kernel, simulator, vbr
from layercast_lab.experiment import Context
from layercast_lab.experiments import vbr_kernel
from layercast_lab.experiments import vbr_model as model
from layercast_lab.experiments import vbr_policing as policing
from layercast_lab.experiments import vbr_recovery as recovery
from layercast_lab.experiments import vbr_throughput as throughput
from layercast_lab.pcap import Packet
from layercast_lab.vbr import Setup


@pytest.fixture(scope="module")
def command():
    """For captures."""
    try:
        simulator.command()
    except FileNotFoundError as error:
        if os.environ.get("LAYERCAST_REQUIRE_TOOLS"):
            raise
        pytest.skip(str(error))


def test_the_arithmetic_of_the_paper():
    assert [vbr.cells(mtu) for mtu in vbr.MTUS] == [12, 32, 101, 192]
    assert [round(vbr.gap_us(mtu)) for mtu in (4_832, 9_188)] == [325, 377]
    assert [round(vbr.most_bps(mtu) / 1e6, 3) for mtu in vbr.MTUS] == [8.05, 8.608, 8.952, 8.99]
    found = {mtu: tuple(int(vbr.burst_len(mtu, burst)) for burst in vbr.BURSTS) for mtu in vbr.MTUS}
    assert found == model.MODEL
    assert vbr.burst_len(9_188, 191) == 0
    assert vbr.burst_len(9_188, 192, gap=7_617) == 1
    assert vbr.burst_len(9_188, 192, gap=7_618) == math.inf


def test_the_simulated_policer_counts_as_the_model():
    for mtu, burst in ((9_188, 1_000), (9_188, 2_000), (4_832, 1_000)):
        assert model.train(mtu, burst) == model.MODEL[mtu][vbr.BURSTS.index(burst)]


def test_a_pause_separates_bursts_and_the_last_is_none():
    assert model.bursts([0, 0.01, 0.22, 1, 1.05, 2]) == [3, 2]
    assert model.bursts([0]) == []


def test_tcp_gets_little_of_a_policed_circuit_and_nearly_all_of_a_shaped_one():
    small = {"bytes": 500_000}
    policed = vbr.transfer(Setup(9_188, 1_000, **small), 1)
    assert policed.bps < 1e6 and policed.timeouts > 3 and policed.again > 10
    assert policed.upc["discarded_sustained"] > 0 and policed.sent - policed.again in range(54, 60)
    for shape in ("sustained", "cells", "packets", "softclock"):
        one = vbr.transfer(Setup(9_188, 1_000, contract={"shape": shape}, **small), 1)
        assert one.again == 0 and one.upc["discarded_sustained"] + one.upc["discarded_peak"] == 0, shape
        assert one.bps > 0.75 * vbr.most_bps(9_188), shape
    fine = vbr.transfer(Setup(9_188, 1_500, 10, **small), 1)
    assert fine.bps > 4 * policed.bps


def test_the_round_trip_is_that_of_ping(command, tmp_path):
    scenario = vbr.lan(Setup(9_188, 1_000, bytes=1, jitter=0))
    capture = tmp_path / "ping.pcapng"
    simulator.simulate(scenario, tmp_path / "ping.toml", "--pcap", capture, "--no-cells")
    # The second and the third packet of the handshake: between them is a round trip without set-up.
    times = [packet.at for packet in model.packets(capture, {"b->at-b", "at-b->b"})]
    seen_us = (times[2] - times[1]) * 1e6
    # Of the answer's way neither the last link nor the receiver is between them.
    missing_us = vbr.LINK_US + vbr.receive_us(9_188) + 40 * vbr.RECEIVE_US_BYTE
    assert seen_us + missing_us == pytest.approx(vbr.RTT_US, rel=0.01)


def sent(place: int, at: float) -> Packet:
    return Packet(at, "a->at-a", 1_040, ("10.0.0.1", 5), ("10.0.0.2", 9), 6, 7 + place, 16, 1_000)


def test_waits_before_what_is_sent_again_are_counted_in_ticks():
    packets = [sent(0, 0.0), sent(1_000, 0.001), sent(2_000, 0.002), sent(1_000, 0.022), sent(2_000, 0.0225)]
    packets += [sent(2_000, 0.103), sent(3_000, 0.2)]
    assert recovery.waits(packets) == [2, 8]
    assert recovery.waits([]) == []


def test_a_chain_of_time_outs_is_found(command, tmp_path):
    waited = recovery.chain(Context(tmp_path), 2_000, 1, bytes=1_000_000)
    assert Counter(wait <= 5 for wait in waited)[True] > 5


def test_marked_packets_go_first_where_it_is_tight():
    found = {kind: policing.arrived(kind, 1.2, 1, 2) for kind in policing.KINDS}
    discarded, by_network, by_adapter = (share for share, _ in found.values())
    assert discarded < 0.2 and by_adapter > 0.45 and by_network < by_adapter


def test_policers_that_know_frames_cut_none():
    stats = {frames: policing.mixed(frames, 1_000, 1, 3) for frames in policing.POLICERS}
    assert stats["cells"]["frames_partial"] > stats["first"]["frames_partial"] == 0
    assert stats["early"]["frames_partial"] == 0 < stats["early"]["frames_false"]
    assert stats["first"]["frames_intact"] > stats["cells"]["frames_intact"]


def test_behind_an_ethernet_it_is_the_same():
    setup = Setup(1_500, 1_000, contract={"shape": "sustained"}, bytes=2_000_000)
    one = vbr.outcome(layercast.run(policing.ethernet(setup), seed=1).summary)
    assert one.again == 0 and one.bps > 0.85 * vbr.most_bps(1_500)


def test_a_figure_and_a_verdict(tmp_path):
    context = Context(tmp_path, seeds=1)
    few = {
        (9_188, burst): Setup(9_188, burst, contract={"shape": "cells"}, bytes=200_000)
        for burst in vbr.BURSTS
    }
    found = throughput.sweep(context, "transfers", few)
    assert throughput.discards(found) == 0
    # Of a transfer as short the start is a large part.
    row = throughput.shaped(found, 9_188, 0.6, 1.3)
    assert row.verdict == "reproduced"
    path = throughput.draw(found, [9_188], tmp_path / "v11", label=throughput.mtu_label, most=True)
    assert os.path.getsize(path) > 10_000
    scenario = throughput.save_scenario(context, few[9_188, 1_000], "v11")
    assert layercast.run(scenario, seed=1).summary["scenario"] == "vbr"


def test_the_kernels_tcp_gets_little_of_a_policed_circuit_and_more_of_a_shaped_one(command):
    if reason := kernel.missing():
        pytest.skip(reason)
    policed, shaped = (
        kernel.transfer(vbr_kernel.job(case, 1_000, 3), simulator.command())
        for case in ("Reno, RTO of 1 s", "Reno, RTO of 1 s, shaped")
    )
    assert vbr_kernel.discarded(policed) > 0 and policed.again > 0 and policed.sent > 0
    assert vbr_kernel.discarded(shaped) == 0
    assert shaped.bps > 2 * policed.bps > 0


def test_a_transfer_that_fails_says_why(command):
    if reason := kernel.missing():
        pytest.skip(reason)
    broken = kernel.Transfer("name = 1", "10.0.0.2", 1, vbr.WINDOW)
    with pytest.raises(RuntimeError, match="the emulation did not start"):
        kernel.transfer(broken, simulator.command())
