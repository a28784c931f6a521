import json
import math
import re
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from layercast_lab.cli import app
from layercast_lab.experiment import VERDICT_TEXT, Context, experiments
from layercast_lab.experiments import insane_calibration, insane_study
from layercast_lab.experiments.insane_study import EXPERIMENTS, TARGETS
from layercast_lab.insane import policies, study
from layercast_lab.insane.comparisons import comparisons
from layercast_lab.insane.conclusions import CONCLUSIONS
from layercast_lab.insane.judge import by_chance, judge
from layercast_lab.insane.policies import PolicyError, every, policy, select
from layercast_lab.insane.target import Pair, Target, alone, change, percent, qos, value

ROOT = Path(__file__).resolve().parents[2]
METRIC = "telnet response p90"
ONE = (Pair("app-svc", "noqos-app-svc", "sp-telnet-app-svc"),)
TWO = qos("sp-telnet", setups=("app-svc", "conv-svc"))


def target(grade: str, pairs=ONE, band=None, metrics=(METRIC,), **more) -> Target:
    return Target("5.1", ("Q2",), "test", metrics, pairs, "as printed", grade, band, **more)


def runs(**values: list[float]) -> dict[tuple[str, str], list[float]]:
    """Values of one metric by policy, written with _ for -."""
    return {(name.replace("_", "-"), METRIC): list(found) for name, found in values.items()}


BASE = [1.00, 1.02, 1.04]
CLEAR = runs(noqos_app_svc=BASE, sp_telnet_app_svc=[0.60, 0.62, 0.64])
MIXED = runs(noqos_app_svc=BASE, sp_telnet_app_svc=[0.99, 1.01, 1.03])


def verdict(grade: str, values, **more) -> str:
    return judge(target(grade, **more), values).verdict


def test_there_are_103_policies():
    names = every()
    assert len(names) == len(set(names)) == 103
    blocks = [sum(name.startswith(qos) for name in names) for qos in ("noqos", "sp-", "wc-", "nwc-")]
    assert blocks == [7, 32, 32, 32]
    assert all(policy(name) == name for name in names)


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ("sp-noqos-conv-svc", "noqos-conv-svc"),
        ("noqos-*-pvc-router", "noqos-router-pvc"),
        ("noqos-svc-router", "noqos-router-svc"),
        ("nwc-qosl-app-svccache", "nwc-qos1-app-svccache"),
    ],
)
def test_old_spellings_are_understood(old, now):
    assert policy(old) == now


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("sp-telnet-router-svc", "R1"),
        ("noqos-conv-pvc", "R2"),
        ("sp-telnt-conv-svc", "nearest: sp-telnet-conv-svc"),
        ("noqos-host-svc", "'host' is no multiplexing"),
        ("noqos", "<qos>-<mux>-<vc>"),
    ],
)
def test_other_names_are_errors_that_help(name, complaint):
    with pytest.raises(PolicyError, match=re.escape(complaint)):
        policy(name)
    with pytest.raises(PolicyError, match=re.escape(complaint)):
        select([name])


def test_patterns_select():
    assert len(select(None)) == 103
    assert len(select(["sp-*-*-svccache"])) == 16
    assert select(["noqos-router-*", "noqos-*-pvc-router"]) == [
        "noqos-router-pvc",
        "noqos-router-svc",
        "noqos-router-svccache",
    ]
    with pytest.raises(PolicyError, match="no policy is like"):
        select(["xp-*"])


def test_every_policy_has_to_be_in_the_range_and_a_direction_is_not_enough():
    # -39 %.
    assert verdict("B", CLEAR, band=percent(-45, -35)) == "reproduced"
    assert verdict("B", CLEAR, band=percent(-50)) == "reproduced", "a quarter of 50 is 12.5"
    assert verdict("B", CLEAR, band=percent(-60)) == "differs"
    assert verdict("B", CLEAR, band=percent(60)) == "differs"
    assert verdict("B", CLEAR, band=change(-0.45, -0.35)) == "reproduced"
    assert verdict("B", CLEAR, band=value(0.6, 0.7), sign=-1) == "reproduced"
    assert verdict("B", CLEAR, band=value(0.1, 0.2), sign=-1) == "differs"
    assert verdict("B", CLEAR, band=value(0.1, 0.2), sign=1) == "differs"
    # However wide a range is, nothing or the opposite is not in it.
    assert verdict("B", MIXED, band=percent(36, 434)) == "differs"
    assert verdict("B", MIXED, band=percent(-20, -1)) == "reproduced"
    assert percent(36, 434).widened()[0] == 0 and percent(-20, -1).widened()[1] == 0
    # Of several policies all.
    two = CLEAR | runs(noqos_conv_svc=BASE, sp_telnet_conv_svc=BASE)
    assert verdict("B", two, pairs=TWO, band=percent(-45, -35)) == "differs"
    alone_ = {"pairs": alone("sp-telnet-app-svc")}
    assert verdict("B", CLEAR, band=value(0.61, slack=0.02), **alone_) == "reproduced"
    assert verdict("B", CLEAR, band=value(0.5, slack=0.02), **alone_) == "differs"
    assert verdict("B", CLEAR, band=value(0.2, slack=0.02), **alone_) == "differs"


def test_a_direction_has_to_be_significant_where_that_is_told():
    assert verdict("S", CLEAR, sign=-1) == "reproduced"
    assert verdict("S", CLEAR, sign=1) == "differs"
    assert verdict("S", CLEAR, sign=-1, significant=("app-svc",)) == "reproduced"
    assert verdict("S", CLEAR, sign=-1, insignificant=("app-svc",)) == "differs"
    assert verdict("S", MIXED, sign=-1) == "reproduced"
    assert verdict("S", MIXED, sign=-1, significant=("app-svc",)) == "differs"
    # Separated at 80 % and not at 90 %.
    nearly = runs(noqos_app_svc=BASE, sp_telnet_app_svc=[0.8, 0.9, 1.01])
    assert verdict("S", nearly, sign=-1, significant=("app-svc",)) == "differs"
    assert verdict("S", nearly, sign=-1, significant=("app-svc",), confidence="0.8") == "reproduced"


def test_a_mean_does_not_outvote_a_significant_difference():
    values = CLEAR | runs(noqos_conv_svc=BASE, sp_telnet_conv_svc=[1.1, 1.12, 1.14])
    assert verdict("S", values, pairs=TWO, sign=-1) == "differs"
    values |= runs(sp_telnet_conv_svc=[1.01, 1.03, 1.05])
    assert verdict("S", values, pairs=TWO, sign=-1) == "reproduced"
    assert verdict("S", values, pairs=TWO, sign=-1, every=True) == "differs"


def test_no_effect_is_none_and_says_what_chance_makes():
    assert (by_chance(1), by_chance(2), by_chance(40)) == (0, 1, 6)
    assert verdict("N", MIXED) == "reproduced"
    assert verdict("N", CLEAR) == "differs"
    values = CLEAR | runs(noqos_conv_svc=BASE, sp_telnet_conv_svc=BASE)
    found = judge(target("N", pairs=TWO), values)
    assert found.verdict == "differs" and "app-svc -39" in found.note and "chance makes up to 1" in found.note


def test_identical_is_run_by_run():
    same = runs(noqos_app_svc=BASE, sp_telnet_app_svc=BASE)
    assert verdict("E", same) == "reproduced"
    assert verdict("E", runs(noqos_app_svc=BASE, sp_telnet_app_svc=BASE[::-1])) == "differs"
    assert verdict("E", same, pairs=alone("noqos-app-svc"), band=value(1, 2)) == "reproduced"
    assert verdict("E", same, pairs=alone("noqos-app-svc"), band=value(1.01, 2)) == "differs"


def test_what_was_not_run_is_missing_and_never_judged():
    for values in ({}, runs(noqos_app_svc=BASE)):
        found = judge(target("B", band=percent(-39)), values)
        assert found.verdict == "missing" and found.row().measured == "not run"
        assert "sp-telnet-app-svc" in found.row().note
    # Two runs against two cannot have 90 %, and nothing weaker is taken instead.
    few = {key: found[:2] for key, found in CLEAR.items()}
    assert verdict("S", few, sign=-1, significant=("app-svc",)) == "missing"
    assert verdict("N", few) == "missing"
    assert verdict("B", few, band=percent(-39)) == "reproduced"


def test_a_row_says_what_was_measured():
    row = judge(target("B", band=percent(-39)), CLEAR).row()
    assert row.measured == "-39.2 % (1.02 s → 620 ms); sig. all"
    assert row.tolerance == "all in -48.8 to -29.2 %"


def test_the_table_is_about_policies_and_metrics_that_are():
    metrics = {*study.USERS, *study.NETWORK, "hit rate", "requests beyond the mesh"}
    named = [(t, name) for t in TARGETS for name in t.policies]
    named += [(t, name) for c in CONCLUSIONS for t in c.targets for name in t.policies]
    assert all(name in every() for _, name in named)
    assert len(CONCLUSIONS) == 10
    for one in [*TARGETS, *(t for c in CONCLUSIONS for t in c.targets)]:
        assert set(one.metrics) <= metrics and one.metrics, one.name
        labels = {pair.label for pair in one.pairs}
        assert len(labels) == len(one.pairs) and {*one.significant, *one.insignificant} <= labels, one.name
        assert (one.range is not None) == (one.grade == "B") or one.grade == "E", one.name
        assert (one.sign != 0) == (one.grade == "S") or one.grade == "B", one.name
        assert 0 < Fraction(one.confidence) < 1
        assert set(one.experiments) <= set(EXPERIMENTS)
    names = [t.section + t.name for t in TARGETS]
    assert len(set(names)) >= len(names) - 10


def test_every_experiment_of_the_study_has_targets_and_a_picture():
    wanted = [f"Q{n}" for n in range(1, 17)] + ["M1", "M2", "M3", "M5", "M6", "M7"]
    wanted += [f"V{n}" for n in range(1, 10)]
    assert sorted(EXPERIMENTS) == sorted(wanted)
    for which, (_, _, picture) in EXPERIMENTS.items():
        assert f"insane-study/{which.lower()}" in experiments()
        assert any(which in one.experiments for one in TARGETS)
        assert all(name in every() or "router" in name for name in picture.policies)


def test_the_calibration_tells_a_nearer_buffer():
    tried = insane_calibration.buffers(full=False)
    here = insane_calibration.frozen()
    assert here in tried and len(tried) == len(set(tried)) == 7
    assert len(insane_calibration.buffers(full=True)) == 13

    def lost(buffer, times: float) -> dict:
        targets = insane_calibration.TARGETS.items()
        return {(buffer, insane_calibration.CONV, metric): [times * band.low] * 3 for metric, band in targets}

    other = next(buffer for buffer in tried if buffer != here)
    found = lost(here, 0.5) | lost(other, 1)
    apart = {buffer: insane_calibration.distance(found, buffer) for buffer in (here, other)}
    assert apart == {here: pytest.approx(math.log(2)), other: 0}
    assert insane_calibration.frozen_row(apart, here).verdict == "differs"
    assert insane_calibration.frozen_row(apart | {here: 0.05}, here).verdict == "reproduced"
    assert insane_calibration.frozen_row(apart | {here: math.inf}, here).verdict == "missing"
    assert insane_calibration.against(found, other, "cells lost").verdict == "reproduced"
    assert insane_calibration.against(found, here, "cells lost").verdict == "differs"
    assert insane_calibration.against({}, here, "cells lost").verdict == "missing"


SHORT = ("--set", "run.duration=20s", "--set", "topology.workstations=3", "--seeds", "3", "--json")


@pytest.fixture(scope="module")
def miniature(tmp_path_factory) -> Path:
    """Twenty seconds of six sites of three machines, with few policies."""
    out = tmp_path_factory.mktemp("insane")
    chosen = ["--select", "noqos-app-*", "--select", "sp-telnet-app-svc", "--select", "nwc-http-app-svc"]
    arguments = ["campaign", study.NAME, *chosen, *SHORT, "--out", str(out / "campaigns" / study.NAME)]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 0, run.stderr
    told = json.loads(run.stdout)
    assert (told["runs"], told["computed"]) == (12, 12)
    (out / "told.json").write_text(run.stdout)
    return out


def test_the_campaign_is_built_in(miniature):
    told = json.loads((miniature / "told.json").read_text())
    found = {(row["atm.policy"], row["metric"]): row for row in told["metrics"]}
    asked = {
        name: found[name, "requests"]["median"] for name in {row["atm.policy"] for row in told["metrics"]}
    }
    assert asked["noqos-app-svccache"] < asked["noqos-app-svc"]
    assert found["nwc-http-app-svc", "requests guaranteed"]["median"] > 0
    assert found["noqos-app-svc", "requests guaranteed"]["max"] == 0
    assert found["noqos-app-svc", "telnet connect median"]["unit"] == "s"
    plan = CliRunner().invoke(app, ["campaign", study.NAME, "--dry-run", "--json"])
    assert json.loads(plan.stdout)["runs"] == 309
    assert CliRunner().invoke(app, ["campaign", study.NAME, "--select", "x-*", "--dry-run"]).exit_code == 2


def test_experiments_read_what_the_campaign_found(miniature, monkeypatch):
    monkeypatch.setattr(
        insane_study, "fields_of", lambda _: {"run.duration": "20s", "topology.workstations": 3}
    )
    context = Context(miniature / "insane-study")
    values = study.values(insane_study.runs(context, ["noqos-app-svc", "sp-telnet-app-svc"]))
    assert len(values["sp-telnet-app-svc", "telnet response p90"]) == 3
    log = miniature / "campaigns" / study.NAME / "log.jsonl"
    before = log.read_text()
    report = insane_study.summary(context)
    assert log.read_text() == before, "the summary runs nothing"
    assert Path(report.figure).read_bytes().startswith(b"\x89PNG")
    table = pl.read_csv(miniature / "insane-study" / "comparisons.csv")
    beside = table.filter((pl.col("axis") == "qos") & (pl.col("metric") == "http page p90"))
    assert set(beside["new"]) == {"sp-telnet", "nwc-http"} and set(beside["base"]) == {"noqos"}
    assert set(table["axis"]) == {"qos", "vc"} and table["q"].is_between(0, 1).all()
    text = (miniature / "insane-study" / "summary.md").read_text()
    assert all(row.measured in text and row.reported in text for row in report.rows)
    assert (
        f"| all | {' | '.join(str(sum(r.verdict == v for r in report.rows[10:])) for v in VERDICT_TEXT)} |"
        in text
    )
    judged = [row for row in report.rows if row.verdict != "missing"]
    assert judged and all("too few" in row.note or row.verdict != "missing" for row in report.rows[10:])
    assert report.verdict == "missing" and not any("nan" in row.measured for row in report.rows)


def test_nothing_run_is_nothing_to_compare():
    assert comparisons(pl.DataFrame(schema={"metric": pl.Null})).is_empty()


def test_a_picture_says_what_was_not_run(miniature, tmp_path):
    _, _, picture = EXPERIMENTS["Q2"]
    from layercast_lab.insane import pictures

    path = Path(pictures.bars(picture, CLEAR, tmp_path / "q2"))
    svg = path.with_suffix(".svg").read_text()
    assert "<!-- none -->" in svg and "telnet response p90 (s)" in svg


def test_policies_are_those_of_the_simulator():
    """Each of them starts, and none that a rule excludes does."""
    import layercast

    def starts(name: str) -> bool:
        scenario = {
            "schema": "internet/1",
            "name": "start",
            "run": {"duration": "1ms"},
            "topology": {"kind": "xunet", "workstations": 1},
            "atm": {"policy": name},
        }
        try:
            layercast.run(scenario, seed=1)
        except layercast.LayercastError:
            return False
        return True

    combinations = ["-".join((q, m, v)) for q in policies.QOS for m in policies.MUX for v in policies.VC]
    assert [name for name in combinations if starts(name)] == [
        name for name in combinations if name in every()
    ]


def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    notebook = json.loads((ROOT / "docs/src/results/insane-study.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "insane-study.ipynb", "exec"), names)
    told = capsys.readouterr().out
    assert "103 policies" in told and "reproduced" in told
    assert Path(names["drawn"]).read_bytes().startswith(b"\x89PNG")
    saved = names["beside"].filter(new="noqos-conv-svccache", metric="telnet connect median")
    assert saved["significant"].item() and saved["percent"].item() < 0
