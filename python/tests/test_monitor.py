"""The QoS monitor from Python, and its experiments."""

import pytest

import layercast
from layercast_lab import monitor
from layercast_lab.experiment import Context
from layercast_lab.experiments import user_qos_monitor as alone
from layercast_lab.experiments import user_qos_negotiation as negotiation
from layercast_lab.experiments import user_qos_transports as beside


@pytest.mark.parametrize(
    "run",
    [
        alone.u3,
        alone.u6,
        alone.u7,
        alone.u8,
        alone.u11,
        beside.u1,
        beside.u2,
        beside.u4,
        beside.u5,
        beside.u10,
        negotiation.u9,
    ],
)
def test_an_experiment_is_reproduced(run, tmp_path):
    report = run(Context(tmp_path, seeds=2))
    differ = [row for row in report.rows if row.verdict in ("differs", "missing")]
    assert not differ, differ


def test_questions_that_cannot_be_answered_are_refused():
    with pytest.raises(layercast.LayercastError, match="rho: above 0"):
        setting = {
            "arrivals": "poisson",
            "rule": "literal",
            "rho": 2.0,
            "service_ns": 1,
            "events": 1,
            "seed": 1,
        }
        monitor.ask("line", settings=[setting])
    with pytest.raises(layercast.LayercastError, match="compare: from 1 ms to 1 h"):
        monitor.ask("events", events=[], at_ns=[], config={"compare_ms": 0})
    with pytest.raises(layercast.LayercastError, match=r"throughput\.agreed"):
        contract = {"throughput": {"agreed": -1.0}}
        monitor.ask("events", events=[monitor.opened()], at_ns=[], contract=contract)
