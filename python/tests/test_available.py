"""The synchronicity index from Python, and its studies."""

import math

import pytest

import layercast
from layercast.avail import AvailEstimator, Estimate, NoEstimate
from layercast_lab import available
from layercast_lab.experiment import Context
from layercast_lab.experiments import available_selfsim as selfsim
from layercast_lab.experiments import available_trains as trains


def fed(estimator: AvailEstimator, count: int, late_s: float, origin_s: float = 1.7e9) -> list:
    """The results of a train of which each second packet is late."""
    for seq in range(count):
        estimator.feed(origin_s + seq / 100 + (late_s if seq % 2 else 0), seq, 5.0 + seq / 100)
    return list(estimator)


def test_the_index_of_a_known_train():
    [found] = fed(AvailEstimator(), 301, 0.004)
    assert isinstance(found, Estimate)
    assert found.xi_ms == pytest.approx(4 * math.sqrt(10 / 9), abs=1e-3)
    assert found.xi_over_period == pytest.approx(found.xi_ms / 10)
    assert (found.n, found.m, found.period_us, found.loss_ppm) == (30, 10, 10_000, 0)
    assert len(fed(AvailEstimator(mode="rolling"), 401, 0.004)) == 11


def test_silence_is_no_signal_and_counters_add_up():
    estimator = AvailEstimator()
    assert fed(estimator, 200, 0.0) == []
    estimator.feed(1.7e9 + 2.05, 205)
    estimator.feed(1.7e9 + 2.03, 203)
    estimator.feed(1.7e9 + 2.03, 203)
    estimator.advance(1.7e9 + 9)
    assert list(estimator) == [NoEstimate("no_signal", 1_000_000)]
    counters = estimator.counters
    assert (counters.in_order, counters.reordered, counters.duplicates, counters.lost) == (201, 1, 1, 4)
    assert counters.slots == 206


def test_values_out_of_range_are_named():
    for options, what in [
        ({"m": 1}, "m is 1"),
        ({"eps": 1.0}, "epsilon"),
        ({"period_ms": 0.5}, "1 ms to 1 s"),
    ]:
        with pytest.raises(layercast.LayercastError, match=what):
            AvailEstimator(**options)
    estimator = AvailEstimator()
    with pytest.raises(ValueError, match="the arrival"):
        estimator.feed(math.nan, 0)
    for seq in (-1, 2**32, 2**64, 1.5):
        with pytest.raises(ValueError, match=r"seq is .*: give a whole number from 0 to 4294967295"):
            estimator.feed(1.7e9, seq)
    estimator.feed(0.0, 0)
    with pytest.raises(ValueError, match="115 days"):
        estimator.feed(1e9, 1)
    with pytest.raises(layercast.LayercastError, match="window is 2"):
        sources = [available.ftp(4) | {"window": 2}]
        available.ask("run", settings=[{"seed": 1, "probes": 9, "sources": sources}], analyses=[])


def test_the_jump_is_where_the_paper_has_it(tmp_path):
    report = trains.e5(Context(tmp_path))
    assert [row.verdict for row in report.rows] == ["reproduced"] * 5, report.rows


def test_fractional_noise_has_its_hurst_parameter():
    found = available.ask("selfsim", series=available.fractional_noise(0.8, 20_000, 3).tolist())
    assert found["variance_time"]["hurst"] == pytest.approx(0.8, abs=0.08)
    constant = available.ask("selfsim", series=[1.0] * 500)["rs_prefix"]
    assert constant["hurst"] is None and constant["reason"]


def test_thresholds_follow_the_runs(tmp_path):
    assert trains.grade({"frames": [0.1] * 99 + [None]}) == "best"
    assert trains.grade({"frames": [0.1] * 90 + [0.5] * 10}) == "medium"
    assert trains.grade({"frames": []}) == "none"
    report = selfsim.e8(Context(tmp_path, seeds=1))
    assert report.verdict == "open"
