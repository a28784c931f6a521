"""The experiments of hosts, short."""

import pytest

from layercast_lab.experiment import Context, experiments


@pytest.mark.parametrize(("name", "seconds"), [("t1", 4), ("t2", 4), ("x1", None), ("x2", None)])
def test_hosts_do_as_the_paper_says(name, seconds, tmp_path):
    context = Context(out=tmp_path, seconds=seconds)
    report = experiments()[f"network-interface-framework/{name}"].run(context)
    assert report.rows
    assert [row.name for row in report.rows if row.verdict == "differs"] == []


def test_a_priority_takes_the_transfers_out_of_the_jitter(tmp_path):
    context = Context(out=tmp_path, seconds=60, seeds=1)
    report = experiments()["network-interface-framework/t4"].run(context)
    gains = [float(row.measured) for row in report.rows if row.name.endswith(": improvement")]
    assert len(gains) == 3 and gains == sorted(gains)
    # The specification asks for 10; the whole experiment has that, less a few percent.
    assert gains[-1] > 7
    assert report.figure
