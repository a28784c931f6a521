import pytest

import layercast
from layercast_lab import fec
from layercast_lab.experiment import Context
from layercast_lab.experiments import fec_base_layer as base_layer
from layercast_lab.experiments import fec_blocks as blocks
from layercast_lab.experiments import fec_models as models
from layercast_lab.experiments import fec_net_gain as net_gain
from layercast_lab.experiments import fec_stalls as stalls
from layercast_lab.experiments import fec_trees as trees


def test_questions_are_answered_and_bad_ones_named():
    assert fec.ask("cost", kind="A", points=[(7, 1, 0.01, 100.0)])[0] == pytest.approx(1.2180, abs=5e-5)
    assert fec.ask("residual", points=[(6, 2, 0.01)])[0] == pytest.approx(2.031e-5, rel=1e-3)
    with pytest.raises(layercast.LayercastError, match="nonsense"):
        fec.ask("nonsense")
    with pytest.raises(layercast.LayercastError, match="loss rate"):
        blocks.star((7, 1), 0.99, 10, 70)
    with pytest.raises(layercast.LayercastError, match="unreachable"):
        fec.ask("tree3", points=[(30, 30, 5, 0.1, 0.5)])


@pytest.mark.parametrize(
    "run",
    [models.f1, models.f2, models.f3, models.f4, stalls.f5, stalls.f5b, models.f7],
    ids=lambda it: it.__name__,
)
def test_figures_of_huitema_are_reproduced(run, tmp_path):
    report = run(Context(tmp_path, seconds=1.0))
    assert report.verdict == "reproduced", report.rows


@pytest.mark.parametrize(
    "run",
    [trees.w1, trees.w2, trees.w3, trees.w4, trees.w5, trees.w6, trees.w7, trees.w8],
    ids=lambda it: it.__name__,
)
def test_figures_of_nonnenmacher_are_reproduced(run, tmp_path):
    report = run(Context(tmp_path, seconds=1.0))
    # Between the sizes that the specification has, figure 5 is a little above its band.
    beyond = [row.name for row in report.rows if row.verdict != "reproduced"]
    assert beyond == (["gain"] if run is trees.w2 else []), report.rows
    assert report.verdict == ("differs" if beyond else "reproduced")


def test_real_blocks_cost_what_model_b_says():
    found = blocks.star((6, 2), 0.1, 50, 6_000)
    told = float(fec.cost((6, 2), 0.1, [50], "B")[0])
    assert found["cost"] == pytest.approx(told, rel=0.03)
    assert found["wrong"] == 0 and found["decoded"] > 1_000


def test_the_net_gain_is_less_than_the_gain():
    found = net_gain.placements(net_gain.branches(1_000, 25, 10, 1e-3, 1e-2))
    assert all(1 < it["net_gain"] < it["gain"] for it in found.values())
    assert found["LAN"]["net_gain"] > found["WAN"]["net_gain"]
    assert net_gain.codes(found["LAN"]).startswith("lan ")


def test_parities_save_base_layers_as_the_model_says():
    lost = {code: base_layer.run(code, 0.06, 1, 120.0) for code in ("off", "6+2")}
    assert [it["packets"] for it in lost.values()] == [10, 11]
    for code, seen in lost.items():
        share = base_layer.expected(base_layer.CODES[code], seen["packets"], 0.06)
        spread = 4 * (share * (1 - share) / seen["sent"]) ** 0.5
        assert seen["lost"] / seen["sent"] == pytest.approx(share, abs=spread)
    assert base_layer.expected((7, 1), 7, 0.01) == pytest.approx(1 - 0.99**8 - 8 * 0.01 * 0.99**7)
    assert lost["6+2"]["late"] == 0 and 0.3 < lost["6+2"]["overhead"] < 0.45


def test_speed_is_not_judged_where_nothing_measures_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LAYERCAST_THROUGHPUT", str(tmp_path / "none"))
    assert blocks.b1(Context(tmp_path)).verdict == "missing"
