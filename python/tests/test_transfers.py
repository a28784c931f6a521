import dataclasses
import math

import numpy as np
import pytest

import layercast
from layercast_lab import transfers
from layercast_lab.experiment import Context
from layercast_lab.experiments import transfers_alike as alike
from layercast_lab.experiments import transfers_numbers as numbers
from layercast_lab.experiments import transfers_unlike as unlike
from layercast_lab.transfers import Setup


def test_the_arithmetic_of_the_paper():
    sizes = [transfers.cells(mps, kind) for mps in (9_140, 1_142) for kind in ("tcp", "sr")]
    assert sizes == [192, 192, 25, 25]
    assert transfers.most_mbps(9_140) == pytest.approx(134.7, abs=0.05)
    assert transfers.most_mbps(1_142) == pytest.approx(129.3, abs=0.05)
    assert numbers.bounds(Setup(("tcp",))) == pytest.approx(10.56e-3, rel=0.001)
    assert numbers.bounds(Setup(("tcp",), 1_142)) == pytest.approx(10.09e-3, rel=0.001)


def test_a_network_has_its_distances_and_loads():
    setup = Setup(("sr", "tcp", "tcp"), 1_142, lengths_km=(10, 100, 1_000), load=60)
    network = transfers.network(setup, 3)
    delays = {tuple(link["ends"]): link["delay"] for link in network["atm"]["link"]}
    assert delays["a", "b"] == "10us"
    assert [delays[f"s{n}", "a"] for n in (1, 2, 3)] == ["20us", "245us", "2495us"]
    assert {link["rate"] for link in network["atm"]["link"]} == {"150000000 bit/s"} and network["atm"][
        "slots"
    ]
    assert network["flow"][-1]["contract"]["peak"] == "72000000 bit/s"
    assert [("xtp" in flow) for flow in network["flow"]] == [True, False, False, False]
    assert transfers.network(setup, 3) == network != transfers.network(setup, 4)
    for kind, peak in (("poisson", 72e6), ("fast", 90e6), ("slow", 90e6)):
        assert transfers.background(Setup(load=60, background=kind))[1] == pytest.approx(peak)


def test_the_window_is_what_limits_both_without_a_background():
    for kind in ("tcp", "gbn", "sr"):
        setup = Setup((kind,) * 3, jitter_us=0, warm_up_s=1, seconds=2)
        runs = [transfers.run(setup, seed) for seed in range(1, 6)]
        assert np.median([one.goodput for one in runs], axis=0) == pytest.approx([41.5] * 3, rel=0.04), kind
        # What is under way when measuring begins and ends: at most a window of 6 PDUs, of 1,100.
        efficiencies = np.array([one.efficiency for one in runs])
        assert np.median(efficiencies, axis=0) == pytest.approx([1] * 3, abs=0.002), kind
        assert np.abs(efficiencies - 1).max() < 6 / 1_100, kind
        assert transfers.run(setup, 1) is runs[0]


def test_cells_of_one_instant_share_a_full_buffer_as_the_specification_says():
    three = Setup(("tcp",) * 3, 1_142, (48,) * 3, (10, 100, 1_000), seconds=10)
    runs = np.array([transfers.run(three, seed).goodput for seed in range(1, 16)])
    for here, told in zip(np.median(runs, axis=0), (76, 20.9, 1.1), strict=True):
        assert here == pytest.approx(told, rel=0.15, abs=0.3)
    alike = Setup(("tcp",) * 3, 9_140, (18,), seconds=30)
    # A connection has a standard deviation of 1 Mbit/s in a run: 15 of them show two percent.
    runs = np.array([transfers.run(alike, seed).goodput for seed in range(1, 16)])
    assert runs.mean() == pytest.approx(22.7, rel=0.1)
    for means in (runs.mean(axis=0), runs.mean(axis=1)):
        assert np.abs(means / means.mean() - 1).max() < 0.02
    # On links of which each has a phase of its own one connection has all.
    alone = transfers.run(dataclasses.replace(three, slots=False), 1)
    assert alone.goodput[0] > 100 > 1 > max(alone.goodput[1:])


def test_fixed_rates_push_windows_aside_and_selective_repair_wastes_less():
    short = {"load": 80, "warm_up_s": 1, "seconds": 3}
    mixed = transfers.run(Setup(("sr",) * 3 + ("tcp",) * 3, 1_142, (24,), rate=25, **short), 1)
    assert min(mixed.goodput[:3]) > 2 * max(mixed.goodput[3:])
    assert mixed.longest == transfers.BUFFER and mixed.background_lost > 0
    back, selective = (transfers.run(Setup((kind,) * 3, 1_142, **short), 1) for kind in ("gbn", "sr"))
    assert sum(selective.efficiency) > 2 * sum(back.efficiency)
    assert min(selective.goodput) > max(back.goodput)


def test_who_sends_nothing_has_no_efficiency():
    setup = Setup(("tcp",), warm_up_s=0, seconds=1)
    network = transfers.network(setup, 1) | {"run": {"duration": "1s"}}
    network["flow"][0]["start"] = "999ms"
    summary = layercast.run(network).summary
    one = transfers.outcome(summary, setup)
    assert one.goodput == (0.0,) and np.isnan(one.efficiency).all()


def test_phases_are_those_of_the_seed():
    setup = Setup(("tcp",) * 2, jitter_us=0, ties="ordered", warm_up_s=0.5, seconds=0.5)
    assert transfers.run(setup, 1) == transfers.run(dataclasses.replace(setup), 1)
    starts = {transfers.network(setup, seed)["flow"][0]["start"] for seed in range(5)}
    assert len(starts) == 5


def test_an_experiment_runs_and_draws(tmp_path):
    report = unlike.e9(Context(tmp_path, seeds=1, seconds=1))
    assert len(report.rows) == 11 and report.rows[-1].verdict == "open", "a mean of one run has no interval"
    assert {row.verdict for row in report.rows[:-1]} <= {"reproduced", "differs"}
    assert (tmp_path / "e9.png").stat().st_size > 10_000
    assert (tmp_path / "e9.toml").read_text().startswith("schema")
    assert alike.curve([1, 2.25, math.nan], 2) == "1.00 2.25 –"
