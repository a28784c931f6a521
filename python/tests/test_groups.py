import pytest

from layercast_lab import frm, group
from layercast_lab.experiment import Context, experiments
from layercast_lab.experiments import multicast_compare as compare
from layercast_lab.experiments import multicast_placement as placement


def run(name, tmp_path, seeds=1):
    report = experiments()[name].run(Context(out=tmp_path, seconds=1.0, seeds=seeds))
    assert (tmp_path / report.figure).stat().st_size > 10_000
    return report


def test_branches_hang_on_one_another():
    shared, lan = group.tree(("shared", 1, 3, 0.1), ("wan", 1, 0, 0.5), ("lan", 5, 2, 0.2))
    assert "parent" not in shared and lan["parent"] == "shared"
    assert (lan["count"], lan["hops"], lan["loss"]) == (5, 2, 0.2)


def test_all_ways_deliver_to_all_and_cost_what_their_models_say():
    found = {way: compare.measure((way, 100, 400)) for way in compare.WAYS}
    assert all(it.delivered for it in found.values())
    for way, told in compare.models(100).items():
        assert found[way].transmissions == pytest.approx(told, rel=0.1), way
    assert found["Layercast"].transmissions < found["RMTP over 7+1"].transmissions
    assert found["Layercast, aggregators"].answers < found["RMTP"].answers / 10
    # A code on the last hop costs the source nothing.
    lan = found["RMTP, 14+2 on LANs"]
    assert lan.transmissions < 1.05 < 1.14 < lan.last_hop


def test_a_code_in_a_tree_saves_what_the_recursion_says():
    found = {
        place: placement.summarise(
            "RMTP", 100, place, group.run(placement.scenario("RMTP", 100, place, 1, 300))
        )
        for place in ("none", "WAN", "LAN")
    }
    for place, it in found.items():
        assert it.transmissions == pytest.approx(placement.told(100, place), rel=0.06), place
    assert found["LAN"].transmissions < found["WAN"].transmissions
    assert found["LAN"].load < found["none"].load


def test_frm_expels_the_slow_but_not_the_far(tmp_path):
    assert run("fully-reliable-multicast/e1", tmp_path, seeds=9).verdict == "reproduced"
    verdicts = {row.name: row.verdict for row in run("fully-reliable-multicast/e6", tmp_path).rows}
    assert verdicts["ejection below 180 kB/s"] == "differs"
    assert verdicts["256 packets kept instead of 32, 10 near receivers"] == "reproduced"


def test_frm_reacts_to_a_death_in_time(tmp_path):
    report = run("fully-reliable-multicast/e9", tmp_path)
    assert report.verdict == "reproduced", report.rows


SHAPES = {"e3": "a smaller buffer", "e5": "shape", "e8": "shape"}
"""The rows that ask for a shape alone."""


@pytest.mark.parametrize("name", SHAPES)
def test_frm_has_a_knee(name, tmp_path):
    report = run(f"fully-reliable-multicast/{name}", tmp_path)
    shape = next(row for row in report.rows if row.name == SHAPES[name])
    assert shape.verdict == "reproduced", report.rows


def test_small_groups_are_served_in_time():
    small, large = (group.run(frm.scenario(size, packets=200)) for size in (10, 200))
    assert small["stream"]["response_s"] < 0.02 < 0.1 < large["stream"]["response_s"]


def test_a_code_beside_congestion_control(tmp_path):
    report = run("packet-level-fec/s4", tmp_path)
    assert report.verdict == "reproduced", report.rows
