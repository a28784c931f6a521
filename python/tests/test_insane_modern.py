import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import layercast
from layercast_lab.experiment import Context
from layercast_lab.experiments import insane_modern_disciplines as disciplines
from layercast_lab.experiments import insane_modern_rates as rates
from layercast_lab.insane import scale, study, today
from layercast_lab.insane.conclusions import CONCLUSIONS
from layercast_lab.insane.policies import every
from layercast_lab.insane.scale import NETWORKS, Network
from layercast_lab.insane.target import Pair, Target, mux, qos

METRIC = "telnet response p90"
BASE = (1.0, 1.1, 1.2)
TWO = qos("sp-ftp", setups=("app-svc", "conv-svc"))
SMALL = {"run.duration": "10s", "run.warm_up": "0s", "topology.workstations": 3}


def target(sign: int, pairs=TWO, **more) -> Target:
    return Target("5.9", (), "test", (METRIC,), pairs, "", "S", None, sign, **more)


def state(sign: int, new: list[float], base=BASE, **more) -> str:
    pairs = (Pair("app-svc", "noqos-app-svc", "sp-ftp-app-svc"),)
    values = {("noqos-app-svc", METRIC): list(base), ("sp-ftp-app-svc", METRIC): new}
    return today.state(today.judge(target(sign, pairs, **more), values))


def test_another_scheduler_is_asked_the_same():
    asked = today.instead(target(1, significant=("app-svc",)), "drr")
    assert asked.policies == ["noqos-app-svc", "drr-ftp-app-svc", "noqos-conv-svc", "drr-ftp-conv-svc"]
    assert asked.significant == ("app-svc",)
    labelled = today.instead(target(1, mux("noqos", "sp-ftp")), "edf")
    assert [pair.label for pair in labelled.pairs][2:] == ["edf-ftp svc", "edf-ftp svccache"]
    assert today.instead(labelled, "sp", "edf") == target(1, mux("noqos", "sp-ftp"))


def test_only_what_is_run_is_asked():
    left = today.within(target(1, significant=("app-svc", "conv-svc")), {"noqos-app-svc", "sp-ftp-app-svc"})
    assert left.significant == ("app-svc",) and len(left.pairs) == 1
    assert today.within(target(1), {"noqos-app-svc", "sp-ftp-conv-svc"}) is None
    names = {one.conclusion[0] for one in today.ask(disciplines.POLICIES, "drr")}
    assert names == {"1", "2", "3", "6"}, "drr has no contracts, and no part in circuits of routers"
    for one in today.ask(disciplines.POLICIES, "edf"):
        assert all(pair.new.startswith("edf-") for pair in one.now.pairs)
        assert set(one.before.policies) <= set(every())


def test_what_became_of_a_statement():
    assert state(1, [1.3, 1.4, 1.5], significant=("app-svc",)) == "holds"
    assert state(1, [1.15, 1.2, 1.25], significant=("app-svc",)) == "direction only"
    assert state(1, [1.0, 1.05, 1.1]) == "gone"
    assert state(1, [0.7, 0.8, 0.9]) == "reversed"
    assert state(1, [1.201, 1.202, 1.203], significant=("app-svc",)) == "holds"
    assert state(-1, [1.0999, 1.1, 1.0991]) == "gone", "less than a percent of the mean"
    nothing = (0.0, 0.0, 0.0)
    assert state(1, [0.1, 0.2, 0.3], nothing, significant=("app-svc",)) == "holds"
    assert state(1, [0.0, 0.0, 0.3], nothing, significant=("app-svc",)) == "direction only"
    assert state(-1, [0.0, 0.0, 0.0], nothing) == "gone"
    assert state(1, []) == "not tested"
    assert today.told([]) == "not tested"
    assert today.told(["holds", "holds"]) == "holds"
    assert today.told(["gone", "holds", "gone"]) == "1 holds, 2 gone"
    table = today.table({"here": {one.text: ["holds"] for one in CONCLUSIONS}})
    assert table.count("| holds |") == 10


def test_policies_of_the_disciplines_start():
    later = [name for name in disciplines.POLICIES if name not in every()]
    assert len(later) == 14 and all(re.match("(drr|edf)-", name) for name in later)
    for name in later[::5]:
        layercast.run(
            {
                "schema": "internet/1",
                "name": "start",
                "run": {"duration": "1ms"},
                "topology": {"kind": "xunet", "workstations": 1},
                "atm": {"policy": name},
            },
            seed=1,
        )
    assert {name for names in rates.POLICIES.values() for name in names} <= {*every(), *later}
    assert list(rates.POLICIES) == [network.name for network in NETWORKS]


@pytest.mark.parametrize("network", NETWORKS[1:], ids=lambda network: network.rate)
def test_the_load_grows_with_the_rate(network: Network, tmp_path):
    """Bytes a second of each application, were it not for the start: files times sizes, and calls."""
    before = tomllib.loads((scale.WORKLOADS / "mah96.toml").read_text())["app"]
    grown = tomllib.loads(network.workload(tmp_path).read_text())["app"]
    for name, app in before.items():
        more = app["arrival"]["mean_s"] / grown[name]["arrival"]["mean_s"] / network.cold.get(name, 1)
        for what in ("itemsize", "reply"):
            if what in app["dist"]:
                more *= mean(grown[name]["dist"][what]) / mean(scale.WORKLOADS / f"{app['dist'][what]}.dist")
        expected = {"telnet": 8, "audio": 65, "video": 65}.get(name, network.times)
        assert more == pytest.approx(expected, rel=0.02), name
        assert {**grown[name], "arrival": 0, "dist": 0} == {**app, "arrival": 0, "dist": 0}


def mean(path) -> float:
    return float(re.search(r"^mean\s*= (.*)$", Path(path).read_text(), re.M)[1])


def test_disciplines_beside_static_priority(tmp_path, monkeypatch):
    monkeypatch.setattr(disciplines, "fields_of", lambda _: SMALL)
    monkeypatch.setattr(disciplines, "ELEVATED", ("telnet",))
    monkeypatch.setattr(disciplines, "BESIDE", ())
    names = [f"{name}-telnet-app-svc" for name in ("sp", "drr", "edf")]
    monkeypatch.setattr(disciplines, "POLICIES", ("noqos-app-svc", *names))
    # Three runs against three, and there is no call in ten seconds.
    report = disciplines.disciplines(Context(tmp_path / "insane-modern"))
    assert Path(report.figure).read_bytes().startswith(b"\x89PNG")
    rows = {row.name: row for row in report.rows}
    assert rows["drr, 2: telnet answers faster"].measured.startswith("-")
    assert rows["edf, 2: telnet answers faster"].reported.partition(":")[0] in today.STATES
    assert rows["drr-audio: audio overdue"].verdict == "missing"
    assert "| drr | edf |" in (tmp_path / "insane-modern" / "disciplines.md").read_text()
    # The runs of the thesis' policies are those of its campaign, and not made again.
    runs = study.campaign(["sp-telnet-app-svc"], 3, fields=SMALL, out=tmp_path / "campaigns" / study.NAME)
    assert not runs.pending()


def test_rates_beside_the_study(tmp_path, monkeypatch):
    """Two T1 lines' worth of backbone and load."""
    small = replace(NETWORKS[1], name="twice", times=2, rate="3072 kbit/s", seconds=10)
    policies = ("noqos-app-svc", "noqos-conv-svc")
    monkeypatch.setattr(rates, "NETWORKS", (small,))
    monkeypatch.setattr(rates, "POLICIES", {"twice": policies})
    monkeypatch.setattr(rates, "fields_of", lambda _: SMALL)
    monkeypatch.setattr(rates, "changed", lambda network, context: network.fields(context.path("w")) | SMALL)
    report = rates.rates(Context(tmp_path / "insane-modern"))
    assert Path(report.figure).read_bytes().startswith(b"\x89PNG")
    rows = {row.name: row for row in report.rows}
    assert " to " in rows["twice: busiest link, noqos-app-svc"].measured
    assert rows["twice, 6: unpoliced: HTTP longer with conv"].measured.startswith("+")
    assert "| twice |" in (tmp_path / "insane-modern" / "rates.md").read_text()
