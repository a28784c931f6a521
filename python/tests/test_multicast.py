import json

import pytest

from layercast import LayercastError
from layercast_lab.experiment import Context, experiments
from layercast_lab.multicast import ask, close, paper, sessions

MODELS = [f"rmtp-large-scale/{name}" for name in ("r1", "r2", "r3", "r4", "r5", "r8", "r11")]
DIFFERS = {
    # (5) to (8) do not give the number of the specification.
    "r3": ["10000 receivers, 100 lose"],
    # The waits of the paper's test were longer.
    "r5": [f"e = {percent} %, simulated" for percent in (0, 1, 10)],
}


@pytest.mark.parametrize("name", [*MODELS, "fully-reliable-multicast/sanity"])
def test_a_model_gives_what_the_specification_computed(name, tmp_path):
    report = experiments()[name].run(Context(out=tmp_path, seconds=1.0))
    differs = [row.name for row in report.rows if row.verdict == "differs"]
    assert differs == DIFFERS.get(name.split("/")[1], []), report.rows
    assert (tmp_path / report.figure).stat().st_size > 10_000
    assert json.dumps(report.to_json())


@pytest.mark.parametrize("name", ["r6", "r7", "r9", "r10"])
def test_rmtp_in_the_simulator(name, tmp_path):
    report = experiments()[f"rmtp-large-scale/{name}"].run(Context(out=tmp_path, seconds=1.0))
    assert report.verdict != "missing" and all(row.measured for row in report.rows)
    assert (tmp_path / report.figure).stat().st_size > 10_000
    assert json.dumps(report.to_json())


def test_the_models_are_asked_for_in_lists():
    one, other = sessions([paper(10), paper(5_000, lossy=100, alpha=1.9)])
    assert close(other["seconds"], 76.3, 1) and one["seconds"] < other["seconds"]
    assert len(other["passes"]) == 3 and other["cpu"] > one["cpu"]
    lost = ask("overflow", delta=0.001, buffers=[{"packets": 8, "service": 500.0}], responses=[100, 500])
    assert close(lost[0][0], 43.6, 1) and close(lost[0][1], 243.95, 2)
    expected = ask("estimate", points=[(5_000, 2_000, 0.01, 97.65625, 0.1, 0.003)])[0]
    assert close(expected["seconds"], 99.5, 1) and 1.06 < expected["with_parities"] < 1.07


def test_what_is_out_of_range_is_refused():
    for wrong in ({"loss": 1.0}, {"rate": 0.0}, {"receivers": 0}, {"other": 1}):
        with pytest.raises(LayercastError):
            sessions([paper(10) | wrong])
    with pytest.raises(LayercastError, match="1e8"):
        ask("overflow", delta=1.0, buffers=[{"packets": 10**6, "service": 1.0}], responses=[10**6])
