"""Studies of admission control."""

import pytest

import layercast
from layercast_lab import admission
from layercast_lab.experiment import Context, experiments

SHORT = {"seconds": 300.0, "seed": 1}


def test_equation_3_has_the_check_values_of_the_specification():
    points = [(64e3, 0.3125, 0.3125, 1e3 * tokens, 1e-6) for tokens in (1, 4, 10, 20)]
    rates = admission.ask("token-rate", points=points)
    assert [round(rate / 1e3, 2) for rate in rates] == [63.63, 62.73, 61.14, 58.80]


def test_runs_depend_on_the_seed_alone():
    setting = SHORT | {"algorithm": admission.levels(), "target": 1.0}
    one, same, other = admission.ask("run", settings=[setting, setting, setting | {"seed": 2}])
    assert one == same and one["log"] != other["log"]


def test_measured_admission_uses_more_of_the_link_than_the_sum_of_peaks():
    algorithms = (admission.levels(), admission.jdsz(5.0), {"kind": "peak_sum"})
    settings = [SHORT | {"algorithm": algorithm} for algorithm in algorithms]
    levels, window, peaks = (run["utilisation"] for run in admission.ask("run", settings=settings))
    assert levels > window + 5 > peaks + 20
    assert peaks < 55


def test_errors_say_what_is_wrong():
    with pytest.raises(layercast.LayercastError, match="holding_s"):
        admission.ask("run", settings=[SHORT | {"holding_s": -1.0}])
    with pytest.raises(layercast.LayercastError, match="two samples"):
        admission.ask("run", settings=[SHORT | {"algorithm": admission.jdsz(0.5)}])
    with pytest.raises(layercast.LayercastError, match="unknown"):
        admission.ask("what")


def test_figures_of_runs_are_means_and_shares():
    found = [{"late": 1.0, "admitted": 1, "rejected": 3, "offered": 4}] * 2
    assert admission.mean(found, "late") == 1 and admission.spread(found, "late") == 0
    assert admission.ratio(found) == pytest.approx(100 / 3) and admission.share(found) == 25
    assert admission.falls((3, 2, 2)) and not admission.falls((2, 3)) and admission.rises((1, 2))


@pytest.mark.parametrize("id", [id for id in experiments() if id.startswith("admission-control/")])
def test_an_experiment_has_rows_and_a_figure(id, tmp_path):
    report = experiments()[id].run(Context(tmp_path, seeds=1, seconds=60.0))
    assert report.id == id and len(report.rows) >= 3
    assert all(row.measured and row.tolerance for row in report.rows)
    assert (report.figure == "") == (id.endswith("/m2b"))
